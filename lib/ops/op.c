#include "op_impl.h"

muster_status mst_op_check_slowly(const muster_worker *worker, const muster_tensor *tensor, const char *where, const char *what) {
    if (tensor->dtype == MUSTER_DTYPE_NONE) {
        if (mst_tensor_absent(tensor)) MUSTER_TRY(mst_worker_kept_failure(worker, where, what));
        return mst_tensor_refuse_none(tensor, where, what);
    }
    MUSTER_TRY(mst_tensor_check(*tensor, where, what));
    if (mst_op_can_use(worker, tensor)) return MUSTER_OK;
    const char *host = mst_device_is_host(worker->device) ? "host memory or " : "";
    if (tensor->device == MUSTER_DEVICE_HOST)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %smemory of the worker's device (%s, rank %d), received host memory",
                         where, what, host, worker->device->name, mst_worker_public_rank(worker));
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %smemory of the worker's device (%s, rank %d), received memory of rank %d",
                     where, what, host, worker->device->name, mst_worker_public_rank(worker), mst_worker_first(worker) + tensor->device);
}

muster_status mst_op_refuse_dtype(const char *where, const char *what, const char *expected, muster_dtype received) {
    return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected %s, received %s", where, what, expected, muster_dtype_name(received));
}

muster_status mst_op_blas_dtype(const char *where, const char *what, muster_dtype dtype) {
    if (__builtin_expect(dtype == MUSTER_F32 || dtype == MUSTER_F64, 1)) return MUSTER_OK;
    return mst_op_refuse_dtype(where, what, "f32 or f64", dtype);
}

muster_status mst_op_float_dtype(const char *where, const char *what, muster_dtype dtype) {
    return mst_dtype_is_float(dtype) ? MUSTER_OK : mst_op_refuse_dtype(where, what, "f16, bf16, f32 or f64", dtype);
}

muster_status mst_op_same_dtype(const char *where, const char *what, muster_dtype dtype, const char *other_what, muster_dtype other) {
    if (__builtin_expect(dtype == other, 1)) return MUSTER_OK;
    return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected the dtype of %s, %s, received %s", where, what, other_what,
                     muster_dtype_name(other), muster_dtype_name(dtype));
}

muster_status mst_op_same_shape(const char *where, const char *what, const muster_tensor *tensor, const char *other_what,
                                const muster_tensor *other) {
    bool same = tensor->ndim == other->ndim;
    for (int32_t d = 0; same && d < tensor->ndim; d++) same = tensor->shape[d] == other->shape[d];
    if (__builtin_expect(same, 1)) return MUSTER_OK;
    char expected[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected the shape of %s, %s, received %s", where, what, other_what,
                     mst_shape_text(expected, other->ndim, other->shape), mst_shape_text(received, tensor->ndim, tensor->shape));
}

muster_status mst_op_shape(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim, const int64_t *expected) {
    bool same = tensor->ndim == ndim;
    for (int32_t d = 0; same && d < ndim; d++) same = tensor->shape[d] == expected[d];
    if (__builtin_expect(same, 1)) return MUSTER_OK;
    char wanted[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected shape %s, received %s", where, what, mst_shape_text(wanted, ndim, expected),
                     mst_shape_text(received, tensor->ndim, tensor->shape));
}

muster_status mst_op_ndim(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim) {
    if (__builtin_expect(tensor->ndim == ndim, 1)) return MUSTER_OK;
    char received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %d dimensions, received shape %s", where, what, ndim,
                     mst_shape_text(received, tensor->ndim, tensor->shape));
}

muster_status mst_op_broadcasts(const char *where, const char *what, const muster_tensor *x, const char *other_what,
                                const muster_tensor *y) {
    bool fits = x->ndim <= y->ndim;
    for (int32_t d = 0; fits && d < x->ndim; d++) fits = x->shape[d] == 1 || x->shape[d] == y->shape[d + y->ndim - x->ndim];
    if (fits) return MUSTER_OK;
    char expected[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected a shape that broadcasts to that of %s, %s, received %s", where, what,
                     other_what, mst_shape_text(expected, y->ndim, y->shape), mst_shape_text(received, x->ndim, x->shape));
}

muster_status mst_op_plain_loop(const mst_op_row *operation, muster_dtype dtype, mst_iterator_loop run, mst_op_loop *loop) {
    *loop = (mst_op_loop){.run = run};
    if (run) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected a dtype of the operation, received %s", operation->function,
                     operation->operands[0].name, muster_dtype_name(dtype));
}

muster_status mst_op_code(muster_worker *worker, mst_code_kernel *code, int64_t work, const void *parameters, int64_t bytes) {
    mst_device *device = worker->device;
    if (!code || !device->code)
        return mst_error(MUSTER_UNSUPPORTED, "muster: this operation has no code for the backend \"%s\"", device->table->backend);
    return work > 0 ? device->code->launch(device, code, work, parameters, bytes) : MUSTER_OK;
}

muster_status mst_op_elements(muster_worker *worker, mst_code_kernel *code, mst_element_parameters *parameters, int32_t operands,
                              const muster_tensor *const *tensors) {
    const muster_tensor *y = tensors[operands - 1];
    parameters->count = muster_tensor_count(*y);
    if (parameters->count == 0) return MUSTER_OK;
    mst_iterator_make(&parameters->iterator, y->ndim, y->shape, operands, tensors);
    return mst_op_code(worker, code, parameters->count, parameters, sizeof *parameters);
}

muster_status mst_op_issue(muster_worker *worker, const mst_kernel *kernel, const void *parameters, int64_t bytes) {
    if (kernel->issue) return kernel->issue(worker, parameters);
    return mst_op_code(worker, kernel->code, kernel->work ? kernel->work(parameters) : 0, parameters, bytes);
}
