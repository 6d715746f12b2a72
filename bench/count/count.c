/* muster-bench-count CASE CALLS: makes the same call so many times on one device of the host, for
 * count.py, which counts instructions under callgrind. The cases of expressions have the tensors of
 * the plain ones before them. */
#include "resnet50.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100, COLUMNS = 10 };

static float x[ROWS][COLUMNS], y[COLUMNS], result;

static muster_status empty_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "muster-bench-count: %s\n", muster_last_error());
    exit(1);
}

/* As in the case `call` of muster-bench: mean(x @ y). */
static muster_status mean_of_products(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor products;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, in[0].shape, &products));
    MUSTER_TRY(muster_gemv(worker, 1, in[0], in[1], 0, products));
    return muster_mean(worker, products, out[0]);
}

/* ---- what a loop calls ---- */

typedef void (*call_once)(muster_function *function);

/* noinline and the empty assembly: the loop must call it. */
static __attribute__((noinline)) void call_nothing(muster_function *function) { __asm__ volatile("" : : "r"(function)); }

static __attribute__((noinline)) void call_empty(muster_function *function) {
    check(muster_function_call(function, NULL, 0, NULL, 0, NULL));
}

static muster_tensor in[2], out[1], unwanted;
static __attribute__((noinline)) void call_with_tensors(muster_function *function) {
    check(muster_function_call(function, in, 2, out, 1, NULL));
}

/* The output is not wanted: an expression has nothing to compute. */
static __attribute__((noinline)) void call_unwanted(muster_function *function) {
    check(muster_function_call(function, in, 2, &unwanted, 1, NULL));
}

/* ---- functions ---- */

static muster_function *function_of(muster_runtime *runtime, const char *name, muster_body body, bool tensors) {
    muster_function *function;
    check(muster_function_create(runtime, name, body, NULL, &function));
    if (!tensors) return function;
    check(muster_function_input(function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_input(function, "y", MUSTER_F32, 1, MUSTER_BROADCAST));
    check(muster_function_output(function, "r", MUSTER_F32, 0, MUSTER_AVG));
    return function;
}

/* mean(x @ y), with the ports of the functions above. */
static muster_function *expression_of(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    check(muster_graph_create(runtime, name, &graph));
    muster_expr *rows = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    muster_expr *vector = muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(COLUMNS), MUSTER_BROADCAST);
    check(muster_graph_output(graph, "r", muster_expr_mean(muster_expr_matmul(rows, vector)), MUSTER_AVG));
    check(muster_graph_compile(graph, &options, &function));
    check(muster_graph_destroy(graph));
    return function;
}

/* ---- making graphs ---- */

/* A network with its gradients: at least `nodes` expressions, in layers of
 * tanh(h @ w + b) * rate. Its variables are inputs here. */
static void compile_network(muster_runtime *runtime, int32_t nodes) {
    enum { WIDTH = 16, PER_LAYER = 17 };
    muster_graph *graph;
    muster_function *function;
    const int32_t layers = nodes / PER_LAYER;
    muster_expr **parameters = calloc(4 * (size_t)layers, sizeof *parameters), **gradients = parameters + 2 * layers;
    check(muster_graph_create(runtime, "network", &graph));
    muster_expr *h = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, WIDTH), MUSTER_SCATTER);
    for (int32_t l = 0; l < layers; l++) {
        char name[2][24];
        snprintf(name[0], sizeof name[0], "w%d", (int)l);
        snprintf(name[1], sizeof name[1], "b%d", (int)l);
        muster_expr *w = parameters[2 * l] = muster_graph_input(graph, name[0], MUSTER_F32, MUSTER_SHAPE(WIDTH, WIDTH), MUSTER_BROADCAST);
        muster_expr *b = parameters[2 * l + 1] = muster_graph_input(graph, name[1], MUSTER_F32, MUSTER_SHAPE(WIDTH), MUSTER_BROADCAST);
        h = muster_expr_tanh(muster_expr_add(muster_expr_matmul(h, w), b));
    }
    muster_expr *loss = muster_expr_mean(muster_expr_square(h));
    check(muster_gradient(loss, parameters, 2 * layers, gradients));
    for (int32_t i = 0; i < 2 * layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "d%d", (int)i);
        check(muster_graph_output(graph, name, gradients[i], MUSTER_MASTER));
    }
    check(muster_graph_compile(graph, NULL, &function));
    check(muster_graph_destroy(graph));
    check(muster_function_destroy(function));
    free(parameters);
}

static const struct {
    const char *name;
    call_once once;
    muster_body body; /* NULL: the expression */
    bool tensors;
} cases[] = {{"loop", call_nothing, empty_body, false},
             {"empty", call_empty, empty_body, false},
             {"two-in-one-out", call_with_tensors, empty_body, true},
             {"two-in-none-out", call_unwanted, empty_body, true},
             {"expression-of-nothing", call_unwanted, NULL, true},
             {"mean-of-products", call_with_tensors, mean_of_products, true},
             {"expression-of-mean-of-products", call_with_tensors, NULL, true}};

int main(int argc, char **argv) {
    muster_runtime_options options;
    muster_runtime *runtime;
    if (argc == 3 && (strncmp(argv[1], "compile-", 8) == 0 || strcmp(argv[1], "step-resnet50") == 0)) {
        muster_runtime_options_init(&options);
        options.devices = "host:1";
        check(muster_runtime_open(&options, &runtime));
        if (strcmp(argv[1], "compile-resnet50") == 0)
            count_compile_resnet50(runtime, atol(argv[2]));
        else if (strcmp(argv[1], "step-resnet50") == 0)
            count_step_resnet50(runtime, atol(argv[2]));
        else
            for (long i = atol(argv[2]); i > 0; i--) compile_network(runtime, atoi(argv[1] + 8));
        check(muster_runtime_close(runtime));
        return 0;
    }
    for (size_t c = 0; argc == 3 && c < sizeof cases / sizeof *cases; c++) {
        if (strcmp(cases[c].name, argv[1]) != 0) continue;
        muster_runtime_options_init(&options);
        options.devices = "host:1";
        check(muster_runtime_open(&options, &runtime));
        in[0] = muster_f32(x, ROWS, COLUMNS);
        in[1] = muster_f32(y, COLUMNS);
        out[0] = muster_f32(&result);
        unwanted = muster_tensor_none();
        muster_function *function =
            cases[c].body ? function_of(runtime, argv[1], cases[c].body, cases[c].tensors) : expression_of(runtime, argv[1]);
        for (long i = atol(argv[2]); i > 0; i--) cases[c].once(function);
        check(muster_runtime_close(runtime));
        return 0;
    }
    fprintf(stderr, "usage: muster-bench-count CASE CALLS, where CASE is one of");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) fprintf(stderr, " %s", cases[c].name);
    fprintf(stderr, " compile-NODES compile-resnet50 step-resnet50\n");
    return 2;
}
