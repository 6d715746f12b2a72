/* Products of f16 and bf16 on the host, whose BLAS has f32 and f64 only. Panels of the operands are
 * converted to f32 in scratch memory and multiplied there; C is rounded once, when its sums are
 * complete. A panel is converted once for each panel of the other operand, so the conversions cost
 * little beside the products. */
#include "gemm_private.h"

enum { PANEL = 512 }; /* the extents of a panel; tests lower them by mst_gemm_limit */

static int64_t panel_size(int64_t extent) {
    const int64_t most = mst_gemm_limit < PANEL ? mst_gemm_limit : PANEL;
    return extent < most ? extent : most;
}

/* Rows from i on and columns from j on. */
static muster_tensor block_of(const muster_tensor *matrix, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    muster_tensor block = *matrix;
    block.byte_offset += (i * matrix->strides[0] + j * matrix->strides[1]) * muster_dtype_size(matrix->dtype);
    block.shape[0] = rows, block.shape[1] = columns;
    return block;
}

static muster_tensor panel_of(void *data, int64_t rows, int64_t columns) {
    return muster_tensor_make(MUSTER_F32, data, 2, (const int64_t[]){rows, columns});
}

static mst_gemm_operand operand_of(const muster_tensor *panel) {
    return (mst_gemm_operand){.data = panel->data, .ld = panel->shape[1], .size = sizeof(float), .transpose = MST_GEMM_NO_TRANSPOSE};
}

static mst_gemm_operand load(const muster_tensor *matrix, void *pack, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const muster_tensor from = block_of(matrix, i, rows, j, columns), to = panel_of(pack, rows, columns);
    mst_copy_host(&from, &to);
    return operand_of(&to);
}

/* The block of C that begins at row i and column j. */
static void multiply_block(const mst_gemm_parameters *p, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const int64_t k = p->a.shape[1], depth = panel_size(k);
    const muster_tensor to = block_of(&p->c, i, rows, j, columns), sums = panel_of(p->pack_c, rows, columns);
    const mst_gemm_operand c = operand_of(&sums);
    if (p->beta != 0) mst_copy_host(&to, &sums);
    for (int64_t l = 0; l < k; l += depth) {
        const int64_t deep = k - l < depth ? k - l : depth;
        const mst_gemm_operand a = load(&p->a, p->pack_a, i, rows, l, deep), b = load(&p->b, p->pack_b, l, deep, j, columns);
        mst_gemm_by_blas(MUSTER_F32, (int)rows, (int)columns, (int)deep, p->alpha, &a, a.data, &b, b.data, l == 0 ? p->beta : 1, &c,
                         c.data);
    }
    mst_copy_host(&sums, &to);
}

void mst_gemm_halves(const mst_gemm_parameters *p) {
    const int64_t m = p->c.shape[0], n = p->c.shape[1], rows = panel_size(m), columns = panel_size(n);
    for (int64_t i = 0; i < m; i += rows)
        for (int64_t j = 0; j < n; j += columns) multiply_block(p, i, m - i < rows ? m - i : rows, j, n - j < columns ? n - j : columns);
}

muster_status mst_gemm_prepare_halves(muster_worker *worker, mst_gemm_parameters *p) {
    const int64_t m = panel_size(p->c.shape[0]), n = panel_size(p->c.shape[1]), k = panel_size(p->a.shape[1]), size = sizeof(float);
    MUSTER_TRY(mst_worker_scratch_bytes(worker, m * k * size, &p->pack_a));
    MUSTER_TRY(mst_worker_scratch_bytes(worker, k * n * size, &p->pack_b));
    return mst_worker_scratch_bytes(worker, m * n * size, &p->pack_c);
}
