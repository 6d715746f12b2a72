/* y[i] = start + i increment, computed in double and converted once; in integers where start and
 * increment are some that 64 bits hold, and double does not hold the result. */
#include "../op_impl.h"
#include "arange_parameters_private.h"

#include <string.h>

typedef struct arange_parameters {
    muster_tensor y;
    double start, increment;
} arange_parameters;

static void arange_integers(const arange_parameters *p) {
    char *to = muster_tensor_address(p->y);
    for (int64_t i = 0; i < p->y.shape[0]; i++) {
        const uint64_t value = mst_arange_integer(p->start, p->increment, i, p->y.dtype == MUSTER_U64);
        memcpy(to + i * p->y.strides[0] * (int64_t)sizeof value, &value, sizeof value);
    }
}

static muster_status arange_host(const void *parameters) {
    enum { BLOCK = 256 };
    const arange_parameters *p = parameters;
    const int64_t n = p->y.shape[0];
    double values[BLOCK];
    if ((p->y.dtype == MUSTER_I64 || p->y.dtype == MUSTER_U64) && mst_arange_is_integer(p->start, p->increment, n)) {
        arange_integers(p);
        return MUSTER_OK;
    }
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
        for (int64_t i = 0; i < count; i++) values[i] = p->start + (double)(begin + i) * p->increment;
        const muster_tensor from = muster_tensor_make(MUSTER_F64, values, 1, &count);
        muster_tensor to = p->y;
        to.shape[0] = count;
        to.byte_offset += begin * p->y.strides[0] * muster_dtype_size(p->y.dtype);
        mst_copy_host(&from, &to);
    }
    return MUSTER_OK;
}

static mst_code_kernel arange_code[] = {{.name = "mst_arange"}};

static muster_status arange_issue(muster_worker *worker, const void *parameters) {
    const arange_parameters *p = parameters;
    return mst_op_elements(worker, arange_code, &(mst_element_parameters){.dtype = p->y.dtype, .alpha = p->start, .beta = p->increment}, 1,
                           (const muster_tensor *[]){&p->y});
}

static const mst_kernel arange_kernel = {.host = arange_host, .issue = arange_issue};

static muster_status arange_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    char text[128];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, t[0], where, "y"));
    if (t[0]->dtype == MUSTER_BOOL) return mst_op_refuse_dtype(where, "y", mst_dtypes_text(text, MST_NUMBER_DTYPES), t[0]->dtype);
    MUSTER_TRY(mst_op_ndim(where, "y", t[0], 1));
    return mst_op_check_results(&mst_operation_arange, t, where);
}

static muster_status arange_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_arange(worker, v[0].number, v[1].number, t[0]);
}

const mst_op_row mst_operation_arange = {
    MST_OPERATION_ROW(arange, muster_arange),
    .operands = {{"y", "n", MST_OUT}},
    .attributes = {{"start", MST_NUMBER}, {"increment", MST_NUMBER}},
    .dtypes = MST_NUMBER_DTYPES,
    .check = arange_check,
    .run = arange_run,
    .kernel = &arange_kernel,
    MST_CODE(arange_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_arange(muster_worker *worker, double start, double increment, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(arange_check(worker, MST_TENSORS(&y), NULL, __func__));
    return mst_op_launch(worker, &arange_kernel, &(arange_parameters){y, start, increment}, sizeof(arange_parameters));
}
