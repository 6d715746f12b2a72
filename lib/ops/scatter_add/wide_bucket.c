/* The sums of one bucket of y's rows: they begin with y, rows of x are added in the order of their
 * indices, and the sums are rounded into y. Rows without an index are left as they are. */
#include "../indices/indices_private.h"
#include "ops_impl.h"
#include "wide_private.h"

/* Row places[k] of x is added to row rows[k] of the bucket. places NULL: row k of x is added. */
typedef struct wide_parts {
    const char *x;
    int64_t stride;
    const int64_t *rows, *places;
    int64_t n;
    bool all; /* no row is -1, which is left out */
} wide_parts;

#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "scatter_add/scatter_add_loops.h"
#include "../each_float_loops.h"

typedef struct wide_loops {
    mst_iterator_loop begin, read, add, end;
    void (*add_rows)(const mst_wide_sums *, const wide_parts *);
    void (*begin_ones)(const mst_wide_sums *, const wide_parts *);
    void (*add_ones)(const mst_wide_sums *, const wide_parts *);
    void (*add_ones_i32)(const mst_wide_sums *, const char *x, const int32_t *rows, int64_t n);
    void (*end_ones)(const mst_wide_sums *, const wide_parts *);
    void (*end_all_ones)(const mst_wide_sums *, int64_t rows);
} wide_loops;
#define ROW(NAME, name, ...)                                \
    [MUSTER_##NAME] = {.begin = begin_##name,               \
                       .read = read_##name,                 \
                       .add = add_##name,                   \
                       .end = end_##name,                   \
                       .add_rows = add_rows_##name,         \
                       .begin_ones = begin_ones_##name,     \
                       .add_ones = add_ones_##name,         \
                       .add_ones_i32 = add_ones_i32_##name, \
                       .end_ones = end_ones_##name,         \
                       .end_all_ones = end_all_ones_##name},
static const wide_loops loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};
#undef ROW

static const wide_loops *loops_of(const mst_wide_run *r) { return &loops[r->p->y.dtype]; }

/* ---- rows of several elements ---- */

static void row_run(mst_iterator *row, char *at, double *sums, mst_iterator_loop loop) {
    row->base[0] = at;
    row->base[1] = (char *)sums;
    if (row->ndim == 1)
        loop(NULL, row->base, (const int64_t[]){row->strides[0][0], row->strides[1][0]}, row->shape[0]);
    else
        mst_iterator_run(row, loop, NULL);
}

/* Adds parts of x to rows of several elements. */
static void rows_add(mst_wide_run *r, const wide_parts *parts) {
    if (r->contiguous) {
        loops_of(r)->add_rows(&r->w, parts);
        return;
    }
    for (int64_t k = 0; k < parts->n; k++) {
        const int64_t row = parts->rows[k];
        if (row < 0) continue;
        double *sums = r->w.sums + row * r->w.elements;
        if (!r->w.touched[row]) row_run(&r->y, r->w.y + row * r->w.stride, sums, loops_of(r)->begin);
        r->w.touched[row] = 1;
        row_run(&r->x, (char *)(uintptr_t)parts->x + (parts->places ? parts->places[k] : k) * parts->stride, sums, loops_of(r)->add);
    }
}

static void rows_end(mst_wide_run *r, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        if (!r->w.touched[row]) continue;
        row_run(&r->y, r->w.y + row * r->w.stride, r->w.sums + row * r->w.elements, loops_of(r)->end);
        r->w.touched[row] = 0;
    }
}

/* ---- the indices of a bucket ---- */

/* Gives `run` the indices of the bucket in blocks. */
typedef void (*wide_pass)(mst_wide_run *r, const wide_parts *parts);

/* All indices, where there is one bucket. */
static void each_index(mst_wide_run *r, wide_pass run) {
    const int64_t n = r->p->x.shape[0];
    const char *x = muster_tensor_address(r->p->x);
    int64_t rows[MST_INDICES_BLOCK];
    wide_parts parts = {.stride = r->x_stride, .rows = rows};
    for (int64_t begin = 0; begin < n; begin += parts.n) {
        parts.n = n - begin < MST_INDICES_BLOCK ? n - begin : MST_INDICES_BLOCK;
        parts.x = x + begin * r->x_stride;
        parts.all = mst_indices_read(&r->p->indices, begin, parts.n, r->p->first, r->p->y.shape[0], r->inside, rows);
        run(r, &parts);
    }
}

/* Those of bucket b. */
static void each_entry(mst_wide_run *r, int64_t b, wide_pass run) {
    const bool one = r->plan.elements == 1;
    const uint64_t row_bits = ((uint64_t)1 << r->plan.bits) - 1;
    int64_t rows[MST_INDICES_BLOCK], places[MST_INDICES_BLOCK];
    wide_parts parts = {.x = muster_tensor_address(r->p->x), .stride = r->x_stride, .rows = rows, .places = one ? NULL : places};
    for (int64_t begin = r->begins[b]; begin < r->begins[b + 1]; begin += parts.n) {
        const mst_wide_entry *entries = r->order + begin;
        parts.n = r->begins[b + 1] - begin < MST_INDICES_BLOCK ? r->begins[b + 1] - begin : MST_INDICES_BLOCK;
        for (int64_t k = 0; k < parts.n; k++) {
            rows[k] = one ? mst_wide_entry_row(entries[k]) : (int64_t)(entries[k] & row_bits);
            places[k] = (int64_t)(entries[k] >> r->plan.bits);
        }
        run(r, &parts);
    }
}

static void each(mst_wide_run *r, int64_t b, wide_pass run) {
    if (r->plan.buckets == 1)
        each_index(r, run);
    else
        each_entry(r, b, run);
}

/* ---- rows of one element ---- */

static void ones_begin(mst_wide_run *r, const wide_parts *parts) { loops_of(r)->begin_ones(&r->w, parts); }
static void ones_end(mst_wide_run *r, const wide_parts *parts) { loops_of(r)->end_ones(&r->w, parts); }
static void ones_add(mst_wide_run *r, const wide_parts *parts) { loops_of(r)->add_ones(&r->w, parts); }

/* The entries of bucket b have the values themselves. */
static void values_add(const mst_wide_run *r, int64_t b) {
    double *sums = r->w.sums;
    for (int64_t k = r->begins[b]; k < r->begins[b + 1]; k++)
        sums[mst_wide_entry_row(r->order[k])] += (double)mst_wide_entry_value(r->order[k]);
}

/* All of x, where there is one bucket. */
static void all_ones_add(mst_wide_run *r) {
    const mst_scatter_add_request *p = r->p;
    if (r->inside && p->indices.dtype == MUSTER_I32 && p->indices.strides[0] == 1 && r->x_stride == muster_dtype_size(p->x.dtype))
        loops_of(r)->add_ones_i32(&r->w, muster_tensor_address(p->x), muster_tensor_address(p->indices), p->x.shape[0]);
    else
        each_index(r, ones_add);
}

/* Rows of one element. With many indices all rows of the bucket begin and end, in vectors. */
static void ones_run(mst_wide_run *r, int64_t b, int64_t rows, int64_t indices) {
    const bool few = indices < rows / 2;
    char *const at[] = {r->w.y, (char *)r->w.sums};
    if (few)
        each(r, b, ones_begin);
    else
        loops_of(r)->begin(NULL, at, (const int64_t[]){r->w.stride, (int64_t)sizeof(double)}, rows);
    if (r->plan.buckets == 1)
        all_ones_add(r);
    else
        values_add(r, b);
    if (few)
        each(r, b, ones_end);
    else
        loops_of(r)->end_all_ones(&r->w, rows);
}

/* ---- a bucket ---- */

void mst_wide_bucket(mst_wide_run *r, int64_t b, int64_t indices) {
    const int64_t begin = b * r->plan.rows, left = r->p->y.shape[0] - begin, rows = left < r->plan.rows ? left : r->plan.rows;
    r->w.y = (char *)muster_tensor_address(r->p->y) + begin * r->w.stride;
    if (indices == 0) return;
    if (r->plan.elements == 1) {
        ones_run(r, b, rows, indices);
        return;
    }
    each(r, b, rows_add);
    rows_end(r, rows);
}

const float *mst_wide_values(const mst_wide_run *r, int64_t begin, int64_t n, float *block) {
    char *const from = (char *)muster_tensor_address(r->p->x) + begin * r->x_stride;
    if (r->p->x.dtype == MUSTER_F32 && r->x_stride == (int64_t)sizeof(float)) return (const float *)(const void *)from;
    loops_of(r)->read(NULL, (char *[]){from, (char *)block}, (const int64_t[]){r->x_stride, (int64_t)sizeof(float)}, n);
    return block;
}
