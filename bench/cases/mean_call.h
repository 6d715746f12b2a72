/* mean(x @ y) as a call of Muster: by a hand-written body, and as an expression. */
#ifndef BENCH_MEAN_CALL_H
#define BENCH_MEAN_CALL_H

#include "muster_case.h"

typedef struct bench_mean_call {
    muster_runtime *runtime;
    muster_function *function;
    muster_tensor inputs[2], outputs[1];
    float *x, *y, result;
    double expected;
} bench_mean_call;

/* Fills *call: x (n, k), y (k) and the right mean; no function yet. false: no memory; says so. */
bool bench_mean_data(bench_mean_call *call, int64_t n, int64_t k);
/* A runtime of `devices`, and the function. The data is borrowed, and stays with who made it. */
bool bench_mean_open(bench_mean_call *call, int32_t devices, int64_t n, int64_t k);
bool bench_mean_open_expression(bench_mean_call *call, int32_t devices, int64_t n, int64_t k);
bool bench_mean_block(void *call, const bench_block *block, double *ns, int64_t *wrong);
/* Closes the runtime; `call` may have none. */
bool bench_mean_close(bench_mean_call *call);

#endif
