/* Sums of f16, bf16 and f32 on the host: each element of y is added up in double, in the order of
 * the indices, and rounded once. There is no table of doubles as large as y: y's rows are cut into
 * buckets, of which one at a time has sums (wide_bucket.c), so that these stay in a cache. With
 * several buckets a counting sort first puts the indices in the order of the buckets: it counts
 * those of each bucket, and then writes each index to its place, with what its bucket needs to find
 * x: the value itself where rows have one element, and the place of the row of x elsewhere. */
#include "../indices/indices_private.h"
#include "ops_impl.h"
#include "wide_private.h"

#include <string.h>

/* SUMS: of a bucket, 128 KB, so that they stay in the second cache, and 512 KB where y is one
 * bucket. More and smaller ones would be written in more pages at a time than a processor knows
 * the addresses of. Of y with very many rows buckets are larger, so that there are not more than
 * BUCKETS: then the sums are a thousandth of y. A bucket has a power of two of rows, 2^MOST_BITS
 * at most, so that a row and a place have room in a word. */
enum { SUMS = 1 << 14, ONE_BUCKET = 1 << 16, BUCKETS = 1 << 11, MOST_BITS = 20 };

void mst_scatter_add_plan(const mst_scatter_add_request *request, mst_scatter_add_wide *plan) {
    const muster_tensor row = mst_op_row_view(&request->y);
    const int64_t rows = request->y.shape[0], elements = muster_tensor_count(row);
    *plan = (mst_scatter_add_wide){.elements = elements};
    if (elements == 0 || rows == 0) return;
    while (plan->bits < MOST_BITS && (int64_t)1 << plan->bits < rows &&
           ((elements << (plan->bits + 1)) <= SUMS || rows <= ONE_BUCKET / elements || (int64_t)BUCKETS << plan->bits < rows))
        plan->bits++;
    plan->rows = (int64_t)1 << plan->bits < rows ? (int64_t)1 << plan->bits : rows;
    plan->buckets = (rows + plan->rows - 1) / plan->rows;
    plan->bytes = plan->rows * elements * (int64_t)sizeof(double) + (plan->rows + 7) / 8 * 8;
    if (plan->buckets > 1) plan->bytes += (request->x.shape[0] + plan->buckets + 1) * (int64_t)sizeof(int64_t);
}

/* ---- the order ---- */

/* Some indices of y's rows (-1: left out), and where the next one of each bucket goes. */
typedef struct order_block {
    const int64_t *rows;
    int64_t n;
    int64_t *next;
    mst_wide_entry *order;
    int32_t bits;
    bool all; /* none is left out */
} order_block;

static MST_ALWAYS_INLINE void values_put(const order_block *b, bool all, const float *values) {
    const uint64_t row_bits = ((uint64_t)1 << b->bits) - 1;
    for (int64_t k = 0; k < b->n; k++)
        if (all || b->rows[k] >= 0)
            b->order[b->next[b->rows[k] >> b->bits]++] = mst_wide_entry_of((uint64_t)b->rows[k] & row_bits, values[k]);
}

/* `first`: the place of the first index. */
static void places_put(const order_block *b, int64_t first) {
    const uint64_t row_bits = ((uint64_t)1 << b->bits) - 1;
    for (int64_t k = 0; k < b->n; k++)
        if (b->rows[k] >= 0)
            b->order[b->next[b->rows[k] >> b->bits]++] = (uint64_t)(first + k) << b->bits | ((uint64_t)b->rows[k] & row_bits);
}

static void counts_add(const order_block *b, bool all, int64_t *counts) {
    for (int64_t k = 0; k < b->n; k++)
        if (all || b->rows[k] >= 0) counts[b->rows[k] >> b->bits]++;
}

/* Where each bucket begins in the order, and the order. */
static void order_make(mst_wide_run *r) {
    const int64_t n = r->p->x.shape[0], rows = r->p->y.shape[0], buckets = r->plan.buckets;
    int64_t *begins = r->begins, block[MST_INDICES_BLOCK];
    float values[MST_INDICES_BLOCK];
    order_block b = {.rows = block, .next = begins, .order = r->order, .bits = r->plan.bits};
    memset(begins, 0, (size_t)(buckets + 1) * sizeof *begins);
    for (int64_t at = 0; at < n; at += b.n) {
        b.n = n - at < MST_INDICES_BLOCK ? n - at : MST_INDICES_BLOCK;
        b.all = mst_indices_read(&r->p->indices, at, b.n, r->p->first, rows, r->inside, block);
        counts_add(&b, b.all, begins + 1);
    }
    for (int64_t k = 0; k < buckets; k++) begins[k + 1] += begins[k];
    for (int64_t at = 0; at < n; at += b.n) {
        b.n = n - at < MST_INDICES_BLOCK ? n - at : MST_INDICES_BLOCK;
        b.all = mst_indices_read(&r->p->indices, at, b.n, r->p->first, rows, r->inside, block);
        if (r->plan.elements > 1)
            places_put(&b, at);
        else if (b.all)
            values_put(&b, true, mst_wide_values(r, at, b.n, values));
        else
            values_put(&b, false, mst_wide_values(r, at, b.n, values));
    }
    memmove(begins + 1, begins, (size_t)buckets * sizeof *begins); /* they have become the ends */
    begins[0] = 0;
}

void mst_scatter_add_wide_run(const mst_scatter_add_request *p) {
    const int64_t size = muster_dtype_size(p->x.dtype);
    const muster_tensor y = mst_op_row_view(&p->y), x = mst_op_row_view(&p->x);
    mst_wide_run r = {.p = p, .x_stride = p->x.strides[0] * size};
    mst_scatter_add_plan(p, &r.plan);
    if (r.plan.buckets == 0 || p->x.shape[0] == 0) return;
    r.inside = p->first == 0 && p->y.shape[0] == p->total;
    r.contiguous = mst_tensor_contiguous(x) && mst_tensor_contiguous(y);
    r.w = (mst_wide_sums){.sums = p->work, .stride = p->y.strides[0] * size, .elements = r.plan.elements};
    const muster_tensor sums = muster_tensor_make(MUSTER_F64, r.w.sums, y.ndim, y.shape);
    mst_iterator_make(&r.y, y.ndim, y.shape, 2, (const muster_tensor *[]){&y, &sums});
    mst_iterator_make(&r.x, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &sums});
    r.w.touched = (char *)(r.w.sums + r.plan.rows * r.plan.elements);
    if (r.plan.elements > 1) memset(r.w.touched, 0, (size_t)r.plan.rows);
    r.begins = (int64_t *)(void *)(r.w.touched + (r.plan.rows + 7) / 8 * 8);
    r.order = (mst_wide_entry *)(void *)(r.begins + r.plan.buckets + 1);
    if (r.plan.buckets == 1) {
        mst_wide_bucket(&r, 0, p->x.shape[0]);
        return;
    }
    order_make(&r);
    for (int64_t b = 0; b < r.plan.buckets; b++) mst_wide_bucket(&r, b, r.begins[b + 1] - r.begins[b]);
}
