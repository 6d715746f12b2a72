#include "../random_uniform/random_private.h"

#include <math.h>

static MST_ALWAYS_INLINE muster_status random_normal_check(const muster_worker *worker, const muster_tensor *const *t,
                                                           const mst_op_value *values, const char *where) {
    const muster_tensor *y = t[0];
    const double mean = values[2].number, deviation = values[3].number;
    if (!(deviation >= 0) || !isfinite(deviation) || !isfinite(mean))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: deviation: expected a finite mean and a finite deviation of at least 0, received %g and %g", where, mean,
                         deviation);
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_blas_dtype(where, "y", y->dtype));
    return mst_op_check_results(&mst_operation_random_normal, t, where);
}

static muster_status random_normal_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_random_normal(worker, (uint64_t)v[0].integer, (uint64_t)v[1].integer, v[2].number, v[3].number, t[0]);
}

static const mst_kernel random_normal_kernel = {.host = mst_random_host, .issue = mst_random_issue};

const mst_op_row mst_operation_random_normal = {
    MST_OPERATION_ROW(random_normal, muster_random_normal),
    .operands = {{"y", "*", MST_OUT}},
    .attributes = {{"seed", MST_INTEGER}, {"first_index", MST_INTEGER}, {"mean", MST_NUMBER}, {"deviation", MST_NUMBER}},
    .dtypes = MST_BLAS_DTYPES,
    .check = random_normal_check,
    .run = random_normal_run,
    .kernel = &random_normal_kernel,
    .code = mst_random_code,
    .code_count = 1,
    .error = {[MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12},
};

muster_status muster_random_normal(muster_worker *worker, uint64_t seed, uint64_t first_index, double mean, double deviation,
                                   muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(
        random_normal_check(worker, MST_TENSORS(&y), (const mst_op_value[]){{0}, {0}, {.number = mean}, {.number = deviation}}, __func__));
    return mst_random_launch(
        worker, &random_normal_kernel,
        &(mst_random_request){.y = y, .seed = seed, .first = first_index, .mean = mean, .deviation = deviation, .normal = true});
}
