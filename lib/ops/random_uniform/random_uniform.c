#include "random_private.h"

static MST_ALWAYS_INLINE muster_status random_uniform_check(const muster_worker *worker, const muster_tensor *const *t,
                                                            const mst_op_value *values, const char *where) {
    const muster_tensor *y = t[0];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_blas_dtype(where, "y", y->dtype));
    return mst_op_check_results(&mst_operation_random_uniform, t, where);
}

static muster_status random_uniform_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_random_uniform(worker, (uint64_t)v[0].integer, (uint64_t)v[1].integer, t[0]);
}

static const mst_kernel random_uniform_kernel = {.host = mst_random_host, .issue = mst_random_issue};

const mst_op_row mst_operation_random_uniform = {
    MST_OPERATION_ROW(random_uniform, muster_random_uniform),
    .operands = {{"y", "*", MST_OUT}},
    .attributes = {{"seed", MST_INTEGER}, {"first_index", MST_INTEGER}},
    .dtypes = MST_BLAS_DTYPES,
    .check = random_uniform_check,
    .run = random_uniform_run,
    .kernel = &random_uniform_kernel,
    .code = mst_random_code,
    .code_count = 1,
};

muster_status muster_random_uniform(muster_worker *worker, uint64_t seed, uint64_t first_index, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(random_uniform_check(worker, MST_TENSORS(&y), NULL, __func__));
    return mst_random_launch(worker, &random_uniform_kernel, &(mst_random_request){.y = y, .seed = seed, .first = first_index});
}
