/* What samples_suite.py starts in the reproducible mode: a least squares fit by bodies that are
 * written by hand, once shard by shard, whose gradients the call combines, and once with all shards
 * of a device in one body, which combines them itself and updates a variable in place. Prints the
 * bits of both results. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/nodes.h"
#include "muster/ops.h"
#include "muster/variable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 203, COLUMNS = 37, STEPS = 20 };
static const double rate = 0.5 / ROWS;
static float x[ROWS][COLUMNS], y[ROWS];

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    printf("%s: %s\n", muster_status_name(status), muster_last_error());
    exit(1);
}

/* gradient = x^T (x w - y) */
static muster_status add_gradient(muster_worker *worker, muster_tensor rows, muster_tensor values, muster_tensor w,
                                  muster_tensor gradient) {
    muster_tensor residual;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, rows.shape, &residual));
    MUSTER_TRY(muster_copy(worker, values, residual));
    MUSTER_TRY(muster_gemv(worker, 1, rows, w, -1, residual));
    return muster_gemv(worker, 1, muster_tensor_transpose(rows), residual, 0, gradient);
}

static muster_status apart(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return add_gradient(worker, in[0], in[1], in[2], out[0]);
}

static muster_status together(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    const int32_t shards = muster_worker_shards_here(worker);
    muster_tensor w;
    MUSTER_TRY(muster_worker_variable(worker, user, &w));
    muster_tensor gradients, gradient;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){shards, COLUMNS}, &gradients));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, (int64_t[]){COLUMNS}, &gradient));
    MUSTER_TRY(muster_fill(worker, 0, gradients));
    for (int32_t s = 0; s < shards; s++) {
        int64_t first, rows;
        MUSTER_TRY(muster_worker_shard_rows(worker, s, &first, &rows));
        if (rows == 0) continue;
        const muster_tensor its = muster_tensor_squeeze(muster_tensor_slice(gradients, s, s + 1), 0);
        MUSTER_TRY(
            add_gradient(worker, muster_tensor_slice(in[0], first, first + rows), muster_tensor_slice(in[1], first, first + rows), w, its));
    }
    MUSTER_TRY(muster_worker_all_reduce_shards(worker, NULL, MUSTER_SUM, gradients, gradient));
    return muster_axpy(worker, -rate, gradient, w);
}

static void describe(muster_function *f) {
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_input(f, "y", MUSTER_F32, 1, MUSTER_SCATTER));
}

static void print_bits(const char *name, const float *w) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < COLUMNS * sizeof *w; i++) hash = (hash ^ ((const unsigned char *)w)[i]) * 1099511628211u;
    printf("%s: %016llx, %.9g to %.9g\n", name, (unsigned long long)hash, (double)w[0], (double)w[COLUMNS - 1]);
}

static void fit_apart(muster_runtime *runtime) {
    muster_function *f;
    float w[COLUMNS] = {0}, gradient[COLUMNS];
    check(muster_function_create(runtime, "apart", apart, NULL, &f));
    describe(f);
    check(muster_function_input(f, "w", MUSTER_F32, 1, MUSTER_BROADCAST));
    check(muster_function_output(f, "gradient", MUSTER_F32, 1, MUSTER_SUM));
    for (int step = 0; step < STEPS; step++) {
        const muster_tensor in[] = {muster_f32(&x[0][0], ROWS, COLUMNS), muster_f32(y, ROWS), muster_f32(w, COLUMNS)},
                            out = muster_f32(gradient, COLUMNS);
        check(muster_function_call(f, in, 3, &out, 1, NULL));
        for (int i = 0; i < COLUMNS; i++) w[i] -= (float)rate * gradient[i];
    }
    print_bits("apart", w);
}

static void fit_together(muster_runtime *runtime) {
    muster_function *f;
    muster_variable *variable;
    float w[COLUMNS] = {0};
    check(muster_variable_create(runtime, "w", muster_f32(w, COLUMNS), &variable));
    check(muster_function_create(runtime, "together", together, variable, &f));
    describe(f);
    check(muster_function_variable(f, variable, MUSTER_USE_READ_WRITE));
    check(muster_function_set_shards_together(f, 1));
    check(muster_function_set_runs_without_rows(f, 1)); /* every worker enters the reduction */
    const muster_tensor in[] = {muster_f32(&x[0][0], ROWS, COLUMNS), muster_f32(y, ROWS)};
    for (int step = 0; step < STEPS; step++) check(muster_function_call(f, in, 2, NULL, 0, NULL));
    for (int32_t rank = 0; rank < muster_runtime_size(runtime); rank++) {
        float own[COLUMNS];
        check(muster_variable_get(variable, rank, muster_f32(own, COLUMNS)));
        if (rank > 0 && memcmp(own, w, sizeof w) != 0) printf("rank %d has other bits\n", (int)rank);
        memcpy(w, own, sizeof w);
    }
    print_bits("together", w);
}

int main(void) {
    muster_runtime_options options;
    muster_runtime *runtime;
    for (int r = 0; r < ROWS; r++) {
        y[r] = (float)cos(r);
        for (int c = 0; c < COLUMNS; c++) x[r][c] = (float)sin(r * 37 + c * c);
    }
    muster_runtime_options_init(&options);
    check(muster_runtime_open(&options, &runtime));
    fit_apart(runtime);
    fit_together(runtime);
    check(muster_runtime_close(runtime));
    return 0;
}
