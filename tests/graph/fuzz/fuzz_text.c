/* Any bytes as a text of expressions: no crash, no leak, one message. For libFuzzer. The sources of
 * the graph are linked without what only a running program needs. */
#include "graph_private.h"
#include "runtime_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* FUZZ_REPLAY: the kept corpus by a program that is linked with the whole library. */
#ifdef FUZZ_REPLAY
static muster_runtime *runtime_of_all(void) {
    static muster_runtime *opened;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    if (!opened && muster_runtime_open(&options, &opened) != MUSTER_OK) abort();
    return opened;
}
static void retired_free(void) {}
#else
static muster_runtime *runtime_of_all(void) {
    static muster_runtime runtime; /* nothing runs */
    return &runtime;
}
static void retired_free(void) {
    if (muster_allocator_set(NULL) != MUSTER_OK) abort();
}

muster_status mst_runtime_check_open(const muster_runtime *runtime, const char *where) {
    return runtime && where ? MUSTER_OK : MUSTER_INTERNAL;
}

/* The runtime stays open. */
mst_pool_life *mst_pool_life_hold(mst_pool *pool) { return (mst_pool_life *)pool; }
bool mst_pool_life_ended(const mst_pool_life *life) { return life != NULL; }
void mst_pool_life_drop(mst_pool_life *life) { (void)life; }
#endif

static void require(bool holds) {
    if (!holds) abort();
}

/* A refusal says where: the function, the text and the column; or the text and the operation. */
static void check_message(const char *message) {
    require(strncmp(message, "muster_expr_parse_named: \"", 26) == 0 || *message == '"' || strncmp(message, "graph \"", 7) == 0 ||
            strncmp(message, "the size of an axis: ", 21) == 0);
}

static void check_expression(muster_expr *made, const muster_expr *error) {
    require(made && made != error && made->type.ndim >= 0 && made->type.ndim <= MUSTER_MAX_DIMS);
    require(*muster_expr_shape(made) == '(');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"g"};
    muster_runtime *runtime = runtime_of_all();
    const int64_t live = mst_memory_live();
    muster_graph *graph = NULL;
    char *text = malloc(bytes + 1); /* exactly as long as the text: asan sees what is read beyond */
    require(text && muster_graph_create(runtime, "fuzz", &graph) == MUSTER_OK);
    if (bytes) memcpy(text, data, bytes);
    text[bytes] = 0;
    (void)muster_graph_size(graph, "time");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 3), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "r", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, 3), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "s", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "i", MUSTER_I64, MUSTER_SHAPE(6), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "c", MUSTER_BOOL, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    muster_expr *made = muster_expr_parse_named(graph, text, names, &x, 1);
    if (muster_graph_status(graph) == MUSTER_OK)
        check_expression(made, graph->graph->error);
    else
        check_message(muster_last_error());
    require(made != graph->graph->error || muster_graph_status(graph) != MUSTER_OK);
    require(muster_graph_destroy(graph) == MUSTER_OK);
    retired_free();
    free(text);
    require(mst_memory_live() == live);
    return 0;
}
