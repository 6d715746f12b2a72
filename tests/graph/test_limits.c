/* The limits of a graph: how many expressions, and how deep, on a small stack. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <pthread.h>

static void the_limit_of_expressions(void **state) {
    muster_graph *graph;
    const int64_t live = mst_memory_live();
    assert_ok(muster_graph_create(*state, "large", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST), *t = x;
    muster_expr *inputs[2] = {t, x};
    while (x->graph->node_count < MST_GRAPH_NODES) {
        inputs[0] = t;
        if (muster_expr_apply(graph, "maximum", inputs, 2, NULL, "large.c:1", &t) != MUSTER_OK) fail_msg("%s", muster_last_error());
    }
    assert_int_equal(MST_GRAPH_NODES, 1 << 20);
    assert_int_equal(t->id, MST_GRAPH_NODES - 1);
    inputs[0] = x; /* one that is there already is no new one */
    assert_ok(muster_expr_apply(graph, "maximum", inputs, 2, NULL, "large.c:2", NULL));
    inputs[0] = t;
    muster_expr *more;
    assert_refused(muster_expr_apply(graph, "maximum", inputs, 2, NULL, "large.c:3", &more), MUSTER_UNSUPPORTED,
                   "graph \"large\": expected at most 1048576 expressions, received one more");
    assert_int_equal(muster_expr_ndim(more), -1);
    muster_function *function;
    assert_ok(muster_graph_output(graph, "t", x, MUSTER_MASTER));
    assert_refused(muster_graph_compile(graph, NULL, &function), MUSTER_UNSUPPORTED, "received one more");
    assert_ok(muster_graph_destroy(graph));
    assert_true(mst_memory_live() - live <= 4);
}

/* ---- a deep chain ---- */

#ifdef MUSTER_TEST_SANITIZED
enum { LENGTH = 20000, STACK = 1 << 20, SHORTER = 2000 };
#else
enum { LENGTH = 100000, STACK = 64 * 1024, SHORTER = 20000 };
#endif

typedef struct deep {
    muster_runtime *runtime;
    muster_status status;
    char message[512];
    float loss, gradient[2];
    int32_t length, nodes;
} deep;

/* t = t + x, `length` times; then sum(t), its gradient with respect to x, dumps, a call. */
static muster_status deep_chain(deep *d) {
    muster_graph *graph;
    muster_function *function;
    muster_expr *g;
    MUSTER_TRY(muster_graph_create(d->runtime, "deep", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST), *t = x;
    for (int32_t i = 1; i < d->length; i++) {
        muster_expr *both[2] = {t, x};
        MUSTER_TRY(muster_expr_apply(graph, "add", both, 2, NULL, "deep.c:1", &t));
    }
    muster_expr *loss = APPLY(graph, "sum", t);
    MUSTER_TRY(muster_gradient(loss, &t, 1, &g));
    MUSTER_TRY(muster_gradient(loss, &x, 1, &g));
    MUSTER_TRY(muster_graph_output(graph, "loss", loss, MUSTER_MASTER));
    MUSTER_TRY(muster_graph_output(graph, "g", g, MUSTER_MASTER));
    d->nodes = x->graph->node_count;
    MUSTER_TRY(muster_graph_dump(graph, "/dev/null", MUSTER_DUMP_TEXT));
    MUSTER_TRY(muster_graph_compile(graph, NULL, &function));
    MUSTER_TRY(muster_graph_destroy(graph));
    float in[2] = {0.5f, 2};
    const muster_tensor given = muster_f32(in, 2), out[] = {muster_f32(&d->loss), muster_f32(d->gradient, 2)};
    MUSTER_TRY(muster_function_call(function, &given, 1, out, 2, NULL));
    MUSTER_TRY(muster_graph_dump_function(function, "/dev/null", MUSTER_DUMP_DOT));
    return muster_function_destroy(function);
}

static void *deep_thread(void *argument) {
    deep *d = argument;
    d->status = deep_chain(d);
    (void)muster_last_error_copy(d->message, sizeof d->message);
    return NULL;
}

static void a_deep_chain_needs_no_stack(void **state) {
    deep d = {.runtime = *state, .length = on_gpus() ? SHORTER : LENGTH};
    pthread_attr_t attributes;
    pthread_t thread;
    const int64_t live = mst_memory_live();
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, deep_thread, &d), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
    if (d.status != MUSTER_OK) fail_msg("%s", d.message);
    assert_true(d.gradient[0] == d.length && d.gradient[1] == d.length && d.loss == 2.5f * d.length);
    assert_true(d.nodes >= 2 * d.length - 2);
    assert_true(mst_memory_live() - live <= 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_of_expressions),
        cmocka_unit_test(a_deep_chain_needs_no_stack),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
