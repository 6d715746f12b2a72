/* muster-bench-count CASE CALLS: makes the same call so many times on one device of the host, for
 * count.py, which counts instructions under callgrind. */
#include <muster/muster.h>
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
    muster_tensor products = muster_worker_scratch(worker, MUSTER_F32, 1, in[0].shape);
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

static muster_tensor in[2], out[1];
static __attribute__((noinline)) void call_with_tensors(muster_function *function) {
    check(muster_function_call(function, in, 2, out, 1, NULL));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        call_once once;
        muster_body body;
        bool tensors;
    } cases[] = {{"loop", call_nothing, empty_body, false},
                 {"empty", call_empty, empty_body, false},
                 {"two-in-one-out", call_with_tensors, empty_body, true},
                 {"mean-of-products", call_with_tensors, mean_of_products, true}};
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_function *function;
    if (argc != 3) return fprintf(stderr, "usage: muster-bench-count loop|empty|two-in-one-out|mean-of-products CALLS\n"), 2;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    check(muster_runtime_open(&options, &runtime));
    in[0] = muster_f32(x, ROWS, COLUMNS);
    in[1] = muster_f32(y, COLUMNS);
    out[0] = muster_f32(&result);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (strcmp(cases[c].name, argv[1]) != 0) continue;
        check(muster_function_create(runtime, argv[1], cases[c].body, NULL, &function));
        if (cases[c].tensors) {
            check(muster_function_input(function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
            check(muster_function_input(function, "y", MUSTER_F32, 1, MUSTER_BROADCAST));
            check(muster_function_output(function, "r", MUSTER_F32, 0, MUSTER_AVG));
        }
        for (long i = atol(argv[2]); i > 0; i--) cases[c].once(function);
        check(muster_runtime_close(runtime));
        return 0;
    }
    return fprintf(stderr, "muster-bench-count: no case '%s'\n", argv[1]), 2;
}
