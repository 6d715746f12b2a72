/* Who computes attention. */
#ifndef MST_ATTENTION_OWN_PRIVATE_H
#define MST_ATTENTION_OWN_PRIVATE_H

#include "attention/attention_parameters_private.h"
#include "op_impl.h"

typedef mst_attention_parameters mst_attention_call;

/* On a CPU core. Scratch memory is the worker's. */
muster_status mst_attention_host_forward(muster_worker *worker, const mst_attention_call *call);
/* It adds to DMASK, which has the dtype to compute in. */
muster_status mst_attention_host_gradient(muster_worker *worker, const mst_attention_call *call);
/* On another device, by its kernels. */
muster_status mst_attention_device_forward(muster_worker *worker, const mst_attention_call *call);
muster_status mst_attention_device_gradient(muster_worker *worker, const mst_attention_call *call);
muster_status mst_attention_device_mask_gradient(muster_worker *worker, const mst_attention_call *call);

/* ---- tiles.c: what is done to the scores of a tile, whose rows are behind each other ---- */

typedef struct mst_attention_tile {
    muster_dtype dtype; /* f32 or f64; all the memory below has it */
    int64_t rows, keys;
    /* Row r sees the first `seen` + r keys, or all if there are no more. */
    int64_t seen;
    char *scores;     /* (rows, keys) */
    const char *mask; /* (rows, keys), or NULL */
} mst_attention_tile;
static inline int64_t mst_attention_seen(const mst_attention_tile *tile, int64_t r) {
    const int64_t seen = tile->seen + r;
    return seen < 0 ? 0 : seen < tile->keys ? seen : tile->keys;
}

/* What is known of each row after some tiles. */
typedef struct mst_attention_rows {
    char *top;   /* the largest score; -inf at first */
    double *sum; /* of the exponentials of the scores less `top`; 0 at first */
    char *y;     /* (rows, values): the sum of these exponentials times v */
    int64_t values;
} mst_attention_rows;

/* The scores become the exponentials that the product with v takes; 0 for keys that are not seen. y
 * is made to fit the new `top`, unless this tile is the first. */
void mst_attention_tile_forward(const mst_attention_tile *tile, const mst_attention_rows *rows, bool first);
/* y is divided by the sums; lse and what it loses are set. */
void mst_attention_rows_finish(muster_dtype dtype, int64_t count, const mst_attention_rows *rows, char *lse, char *rest);
/* The scores become p, by the lse of each row and what it lost. */
void mst_attention_tile_again(const mst_attention_tile *tile, const char *lse, const char *rest);
/* The scores, which are p, become p (dp - inner): the gradient of the scores. 0 for keys that are
 * not seen. */
void mst_attention_tile_gradient(const mst_attention_tile *tile, const char *dp, const char *inner);
/* to[r * row + j * column] += the scores, of the keys that are seen. */
void mst_attention_tile_add(const mst_attention_tile *tile, char *to, int64_t row, int64_t column);
/* inner[r] = the sum of the products of row r of x and y, (rows, columns). */
void mst_attention_rows_inner(muster_dtype dtype, int64_t rows, int64_t columns, const char *x, const char *y, char *inner);
/* Is no element of the matrix infinite or NaN? Strides are in elements. */
bool mst_attention_is_finite(muster_dtype dtype, int64_t rows, int64_t row, int64_t columns, int64_t column, const char *values);
void mst_attention_scale(muster_dtype dtype, int64_t count, double factor, char *values);

#endif
