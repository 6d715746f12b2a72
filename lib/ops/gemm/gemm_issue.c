/* gemm by the gemm in the device table. Views that it does not take are packed by copies on the
 * device. */
#include "gemm_private.h"

bool mst_gemm_device_fits(const muster_tensor *matrix, bool output, bool *transpose, int64_t *ld) {
    int64_t rows = matrix->shape[0], columns = matrix->shape[1], row_stride = matrix->strides[0], column_stride = matrix->strides[1];
    *transpose = false;
    *ld = rows == 1 ? columns : row_stride;
    if ((column_stride == 1 || columns == 1) && *ld >= columns) return true;
    *transpose = true;
    *ld = columns == 1 ? rows : column_stride;
    return !output && (row_stride == 1 || rows == 1) && *ld >= rows;
}

/* *arranged becomes the matrix itself, or a contiguous copy in scratch memory; the elements are
 * copied only if `fill` is true. */
static muster_status arrange(muster_worker *worker, const muster_tensor *matrix, bool output, bool fill, muster_tensor *arranged,
                             bool *transpose, int64_t *ld) {
    *arranged = *matrix;
    if (mst_gemm_device_fits(matrix, output, transpose, ld)) return MUSTER_OK;
    MUSTER_TRY(muster_worker_scratch(worker, matrix->dtype, 2, matrix->shape, arranged));
    *transpose = false;
    *ld = matrix->shape[1];
    return fill ? muster_copy(worker, *matrix, *arranged) : MUSTER_OK;
}

muster_status mst_gemm_issue(muster_worker *worker, const void *parameters) {
    const mst_gemm_parameters *p = parameters;
    mst_device *device = worker->device;
    if (!device->code)
        return mst_error(MUSTER_UNSUPPORTED, "muster_gemm: worker: expected a device with a matrix product, received backend \"%s\"",
                         device->table->backend);
    mst_gemm gemm = {.dtype = p->c.dtype, .m = p->c.shape[0], .n = p->c.shape[1], .k = p->a.shape[1], .alpha = p->alpha, .beta = p->beta};
    muster_tensor a, b, c;
    bool transposed;
    MUSTER_TRY(arrange(worker, &p->a, false, true, &a, &gemm.transpose_a, &gemm.lda));
    MUSTER_TRY(arrange(worker, &p->b, false, true, &b, &gemm.transpose_b, &gemm.ldb));
    MUSTER_TRY(arrange(worker, &p->c, true, p->beta != 0, &c, &transposed, &gemm.ldc));
    gemm.a = muster_tensor_address(a);
    gemm.b = muster_tensor_address(b);
    gemm.c = muster_tensor_address(c);
    MUSTER_TRY(device->code->gemm(device, &gemm));
    return c.data == p->c.data ? MUSTER_OK : muster_copy(worker, c, p->c);
}
