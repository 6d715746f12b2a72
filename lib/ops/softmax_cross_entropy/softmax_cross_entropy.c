/* loss = sum over rows of log(sum_j exp(z_j)) - z_label. The row's largest logit is subtracted
 * first, so that exp cannot overflow. */
#include "../op_impl.h"
#include "softmax_parameters_private.h"

#include <math.h>

typedef struct softmax_parameters {
    muster_tensor logits, labels, loss, gradient, correct;
    double scale;
} softmax_parameters;

static int64_t label_of(const muster_tensor *labels, int64_t row) {
    const char *at = (const char *)muster_tensor_address(*labels) + row * labels->strides[0] * muster_dtype_size(labels->dtype);
    if (labels->dtype == MUSTER_U8) return *(const uint8_t *)at;
    return labels->dtype == MUSTER_I32 ? *(const int32_t *)(const void *)at : *(const int64_t *)(const void *)at;
}

static muster_status refuse_label(int64_t k, int64_t label, int64_t row) {
    return mst_error(
        MUSTER_OUT_OF_RANGE,
        "muster_softmax_cross_entropy: labels: expected labels in [0, %lld), received %lld in row %lld of this worker's labels",
        (long long)k, (long long)label, (long long)row);
}

static muster_status check_labels(const muster_tensor *labels, int64_t n, int64_t k) {
    for (int64_t i = 0; i < n; i++) {
        int64_t label = label_of(labels, i);
        if (label < 0 || label >= k) return refuse_label(k, label, i);
    }
    return MUSTER_OK;
}

#define SUFFIX f32
#define T float
#define EXP expf
#include "softmax_cross_entropy_loops.h"
#define SUFFIX f64
#define T double
#define EXP exp
#include "softmax_cross_entropy_loops.h"

static muster_status softmax_host(const void *parameters) {
    const softmax_parameters *p = parameters;
    MUSTER_TRY(check_labels(&p->labels, p->logits.shape[0], p->logits.shape[1]));
    if (p->logits.dtype == MUSTER_F32)
        rows_f32(p);
    else
        rows_f64(p);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { BY_THREADS, BY_BLOCKS, SUM };
static mst_code_kernel kernels[] = {
    {.name = "mst_softmax_threads"}, {.name = "mst_softmax_blocks", .blocks = true}, {.name = "mst_softmax_sum", .blocks = true}};

static muster_status softmax_code(muster_worker *worker, const softmax_parameters *p, void *scratch, void **bad) {
    enum { FEW = 64 };
    int64_t n = p->logits.shape[0], k = p->logits.shape[1];
    mst_softmax_parameters of_code = {.loss = muster_tensor_address(p->loss),
                                      .losses = scratch,
                                      .n = n,
                                      .k = k,
                                      .row_stride = p->logits.strides[0],
                                      .column_stride = p->logits.strides[1],
                                      .label_stride = p->labels.strides[0],
                                      .gradient_row_stride = p->gradient.strides[0],
                                      .gradient_column_stride = p->gradient.strides[1],
                                      .scale = p->scale,
                                      .dtype = p->logits.dtype,
                                      .label_dtype = p->labels.dtype};
    of_code.hits = (int64_t *)(void *)(of_code.losses + n);
    of_code.bad = of_code.hits + n;
    *bad = of_code.bad;
    if (n > 0) of_code.labels = muster_tensor_address(p->labels);
    if (n > 0 && k > 0) of_code.logits = muster_tensor_address(p->logits);
    if (p->gradient.dtype && n > 0 && k > 0) of_code.gradient = muster_tensor_address(p->gradient);
    if (p->correct.dtype) of_code.correct = muster_tensor_address(p->correct);
    MUSTER_TRY(mst_op_code(worker, k <= FEW ? &kernels[BY_THREADS] : &kernels[BY_BLOCKS], n, &of_code, sizeof of_code));
    return mst_op_code(worker, &kernels[SUM], 1, &of_code, sizeof of_code);
}

/* A label out of range is an error of this call, so the host waits for the kernels before the
 * caller can issue more work. */
static muster_status softmax_issue(muster_worker *worker, const void *parameters) {
    const softmax_parameters *p = parameters;
    mst_device *device = worker->device;
    int64_t found[2] = {-1, 0};
    void *scratch, *bad;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, (2 * p->logits.shape[0] + 2) * 8, &scratch));
    MUSTER_TRY(softmax_code(worker, p, scratch, &bad));
    /* found lives only in this function, so wait for the copy */
    muster_status status = device->memory->copy_out(device, found, bad, sizeof found), after = mst_worker_sync(worker);
    MUSTER_TRY(status);
    MUSTER_TRY(after);
    return found[0] < 0 ? MUSTER_OK : refuse_label(p->logits.shape[1], found[1], found[0]);
}

/* "No tensor" means that the result is not wanted, unless a scratch request has failed. */
static bool wanted(const muster_worker *worker, const muster_tensor *tensor) {
    return !mst_tensor_absent(tensor) || worker->scratch_status != MUSTER_OK;
}

static muster_status check_optional(const muster_worker *worker, const muster_tensor *logits, const muster_tensor *gradient,
                                    const muster_tensor *correct, const char *where) {
    if (wanted(worker, gradient)) {
        MUSTER_TRY(mst_op_check(worker, gradient, where, "gradient"));
        MUSTER_TRY(mst_op_same_dtype(where, "gradient", gradient->dtype, "logits", logits->dtype));
        MUSTER_TRY(mst_op_same_shape(where, "gradient", gradient, "logits", logits));
    }
    if (wanted(worker, correct)) {
        MUSTER_TRY(mst_op_check(worker, correct, where, "correct"));
        if (correct->dtype != MUSTER_I64)
            return mst_error(MUSTER_DTYPE_MISMATCH, "%s: correct: expected i64, received %s", where, muster_dtype_name(correct->dtype));
        MUSTER_TRY(mst_op_ndim(where, "correct", correct, 0));
    }
    return MUSTER_OK;
}

static MST_ALWAYS_INLINE muster_status softmax_cross_entropy_check(const muster_worker *worker, const muster_tensor *const *t,
                                                                   const mst_op_value *values, const char *where) {
    const muster_tensor *logits = t[0], *labels = t[1], *loss = t[2], *gradient = t[3], *correct = t[4];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, logits, where, "logits"));
    MUSTER_TRY(mst_op_check(worker, labels, where, "labels"));
    MUSTER_TRY(mst_op_check(worker, loss, where, "loss"));
    MUSTER_TRY(mst_op_blas_dtype(where, "logits", logits->dtype));
    if (labels->dtype != MUSTER_U8 && labels->dtype != MUSTER_I32 && labels->dtype != MUSTER_I64)
        return mst_op_refuse_dtype(where, "labels", "u8, i32 or i64", labels->dtype);
    MUSTER_TRY(mst_op_same_dtype(where, "loss", loss->dtype, "logits", logits->dtype));
    MUSTER_TRY(mst_op_ndim(where, "logits", logits, 2));
    MUSTER_TRY(mst_op_shape(where, "labels", labels, 1, &logits->shape[0]));
    MUSTER_TRY(mst_op_ndim(where, "loss", loss, 0));
    MUSTER_TRY(check_optional(worker, logits, gradient, correct, where));
    return mst_op_check_results(&mst_operation_softmax_cross_entropy, t, where);
}

static muster_status softmax_cross_entropy_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_softmax_cross_entropy(worker, t[0], t[1], v[0].number, t[2], t[3], t[4]);
}

static const mst_kernel softmax_cross_entropy_kernel = {.host = softmax_host, .issue = softmax_issue};

const mst_op_row mst_operation_softmax_cross_entropy = {
    MST_OPERATION_ROW(softmax_cross_entropy, muster_softmax_cross_entropy),
    .operands = {{"logits", "nk", MST_IN},
                 {"labels", "n", MST_IN, MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_I32) | MST_DTYPE_BIT(MUSTER_I64)},
                 {"loss", "", MST_OUT},
                 {"gradient", "nk", MST_OUT | MST_OPTIONAL | MST_IN_PLACE},
                 {"correct", "", MST_OUT | MST_OPTIONAL, MST_DTYPE_BIT(MUSTER_I64)}},
    .attributes = {{"scale", MST_NUMBER}},
    .dtypes = MST_BLAS_DTYPES,
    .check = softmax_cross_entropy_check,
    .run = softmax_cross_entropy_run,
    .kernel = &softmax_cross_entropy_kernel,
    MST_CODE(kernels),
    .error = {[MUSTER_F32] = 5e-6, [MUSTER_F64] = 1e-12},
};

muster_status muster_softmax_cross_entropy(muster_worker *worker, muster_tensor logits, muster_tensor labels, double scale,
                                           muster_tensor loss, muster_tensor gradient, muster_tensor correct) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(softmax_cross_entropy_check(worker, MST_TENSORS(&logits, &labels, &loss, &gradient, &correct), NULL, __func__));
    softmax_parameters p = {logits, labels, loss, gradient, correct, scale};
    return mst_op_launch(worker, &softmax_cross_entropy_kernel, &p, sizeof p);
}
