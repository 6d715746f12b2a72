/* Convolutions by oneDNN in a program that uses OpenMP itself: each worker has one thread in it,
 * and the program's own setting stays as it is. */
#include <dirent.h>
#include <muster/expr.h>
#include <muster/muster.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEAM = 3, ROWS = 16, CHANNELS = 32, OUTPUTS = 64, SIZE = 32 };

#define CHECK(condition, ...)                               \
    do {                                                    \
        if (!(condition)) {                                 \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                   \
            fprintf(stderr, ": %s\n", muster_last_error()); \
            exit(1);                                        \
        }                                                   \
    } while (0)

static int threads_now(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks, "no /proc");
    for (const struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* MUSTER_TEST_ONEDNN is the major version that must have computed; without it any may have. */
static int is_asked_for(const char *description) {
    const char *version = getenv("MUSTER_TEST_ONEDNN"), *line = strstr(description, "\noneDNN: ");
    if (!version) return 1;
    const size_t length = strlen(version);
    return line && strncmp(line + 9, version, length) == 0 && line[9 + length] == '.';
}

/* Is a file with this name part of the process? */
static int is_loaded(const char *name) {
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps, "no maps");
    while (fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

static int team_of_program(void) {
    int size = 0;
#pragma omp parallel
    {
#pragma omp single
        size = omp_get_num_threads();
    }
    return size;
}

static muster_function *compile(muster_runtime *runtime) {
    muster_graph *graph;
    muster_function *function;
    muster_expr *dw;
    CHECK(muster_graph_create(runtime, "convolution", &graph) == MUSTER_OK, "graph");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, SIZE, SIZE), MUSTER_SCATTER);
    muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(OUTPUTS, CHANNELS, 3, 3), MUSTER_BROADCAST);
    muster_expr *loss = muster_expr_sum(muster_expr_square(muster_expr_convolution(x, w, NULL)));
    CHECK(muster_gradient(loss, &w, 1, &dw) == MUSTER_OK, "gradient");
    CHECK(muster_graph_output(graph, "dw", dw, MUSTER_AUTO) == MUSTER_OK, "output");
    CHECK(muster_graph_compile(graph, NULL, &function) == MUSTER_OK, "compile");
    CHECK(muster_graph_destroy(graph) == MUSTER_OK, "destroy");
    return function;
}

int main(void) {
    static float x[ROWS * CHANNELS * SIZE * SIZE], w[OUTPUTS * CHANNELS * 9], dw[OUTPUTS * CHANNELS * 9];
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 7) - 3;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++) w[i] = (float)(i % 5) - 2;
    omp_set_num_threads(TEAM);
    CHECK(muster_runtime_open(&options, &runtime) == MUSTER_OK, "open");
    muster_function *function = compile(runtime);
    const muster_tensor in[] = {muster_f32(x, ROWS, CHANNELS, SIZE, SIZE), muster_f32(w, OUTPUTS, CHANNELS, 3, 3)};
    const muster_tensor out = muster_f32(dw, OUTPUTS, CHANNELS, 3, 3);
    const int before = threads_now();
    for (int call = 0; call < 3; call++) CHECK(muster_function_call(function, in, 2, &out, 1, NULL) == MUSTER_OK, "call");
    CHECK(is_loaded("libdnnl.so"), "oneDNN is not here, so nothing is tested");
    CHECK(is_asked_for(muster_runtime_description(runtime)), "another oneDNN computes:\n%s", muster_runtime_description(runtime));
    CHECK(threads_now() == before, "%d threads, and %d before the calls", threads_now(), before);
    CHECK(omp_get_max_threads() == TEAM, "the program's setting is %d instead of %d", omp_get_max_threads(), TEAM);
    CHECK(team_of_program() == TEAM, "the program's team has changed");
    CHECK(muster_function_destroy(function) == MUSTER_OK, "destroy");
    CHECK(muster_runtime_close(runtime) == MUSTER_OK, "close");
    return 0;
}
