/* Reductions by device code: how the elements are cut into chunks, and which kernels run. */
#include "reduce_issue_private.h"

#include <stdlib.h>

/* Blocks use a processor of any size fully; one thread per result is faster only if many results
 * are contiguous. */
enum { MOST_BLOCKS = 2048, BLOCK_ELEMENTS = 4096, MOST_THREADS = 1 << 16, THREAD_ELEMENTS = 64, FEWEST_THREADS = 32 };

enum { BY_THREADS, BY_BLOCKS, PARTIALS };
mst_code_kernel mst_reduce_code[MST_REDUCE_CODE] = {
    [BY_THREADS] = {.name = "mst_reduce_threads"},
    [BY_BLOCKS] = {.name = "mst_reduce_blocks", .blocks = true},
    [PARTIALS] = {.name = "mst_reduce_partials", .blocks = true},
};

int64_t mst_reduce_cut(int64_t length, int64_t least, int64_t most, int64_t *chunk) {
    int64_t chunks = (length + least - 1) / least;
    if (chunks > most) chunks = most;
    if (chunks < 1) chunks = 1;
    *chunk = (length + chunks - 1) / chunks;
    return *chunk > 0 ? (length + *chunk - 1) / *chunk : 1;
}

/* Splits x into *outer, x without the axes, and *inner, x along the axes. */
static void split(const muster_tensor *x, uint32_t axes, muster_tensor *outer, muster_tensor *inner) {
    *outer = *inner = *x;
    outer->ndim = inner->ndim = 0;
    for (int32_t d = 0; d < x->ndim; d++) {
        muster_tensor *one = axes >> d & 1 ? inner : outer;
        one->shape[one->ndim] = x->shape[d];
        one->strides[one->ndim++] = x->strides[d];
    }
}

/* Do neighbouring results lie closer to each other than neighbouring elements of one result? Then
 * neighbouring threads read neighbouring addresses. */
static bool side_by_side(const mst_reduce_parameters *p) {
    int64_t result_stride = p->outer.strides[0][p->outer.ndim - 1], element_stride = p->inner.strides[0][p->inner.ndim - 1];
    return p->results >= FEWEST_THREADS && llabs(result_stride) < llabs(element_stride);
}

muster_status mst_reduce_issue(muster_worker *worker, muster_reduction op, const muster_tensor *x, uint32_t axes, const muster_tensor *y,
                               int64_t length, double divisor) {
    muster_tensor outer, inner;
    split(x, axes, &outer, &inner);
    mst_reduce_parameters p = {
        .results = muster_tensor_count(*y), .length = length, .divisor = divisor, .dtype = x->dtype, .result = y->dtype, .op = op};
    mst_iterator_make(&p.outer, y->ndim, y->shape, 2, (const muster_tensor *[]){&outer, y});
    mst_iterator_make(&p.inner, inner.ndim, inner.shape, 1, (const muster_tensor *[]){&inner});
    if (length == 0) p.outer.base[0] = NULL; /* nothing is read, and the tensor may have no memory */
    bool threads = length > 0 && (side_by_side(&p) || length <= FEWEST_THREADS);
    int64_t most = (threads ? MOST_THREADS : MOST_BLOCKS) / p.results;
    p.chunks = mst_reduce_cut(length, threads ? THREAD_ELEMENTS : BLOCK_ELEMENTS, most, &p.chunk);
    if (p.chunks > 1) MUSTER_TRY(mst_worker_scratch_bytes(worker, p.results * p.chunks * 8, &p.partials));
    MUSTER_TRY(
        mst_op_code(worker, threads ? &mst_reduce_code[BY_THREADS] : &mst_reduce_code[BY_BLOCKS], p.results * p.chunks, &p, sizeof p));
    return p.chunks > 1 ? mst_op_code(worker, &mst_reduce_code[PARTIALS], p.results, &p, sizeof p) : MUSTER_OK;
}

muster_status mst_reduce_sum_partials(muster_worker *worker, void *partials, int64_t count, const muster_tensor *y) {
    mst_reduce_parameters p = {.results = 1,
                               .length = count,
                               .chunks = count,
                               .chunk = 1,
                               .partials = partials,
                               .divisor = 1,
                               .dtype = y->dtype,
                               .result = y->dtype,
                               .op = MUSTER_SUM};
    mst_iterator_make(&p.outer, y->ndim, y->shape, 2, (const muster_tensor *[]){y, y});
    return mst_op_code(worker, &mst_reduce_code[PARTIALS], 1, &p, sizeof p);
}
