/* Tiles of scores: softmax by parts, and its gradient. */
#include "exponential_private.h"
#include "own_private.h"

#include <math.h>
#include <string.h>

enum { LANES = 64 }; /* fewer would be unrolled, and then not be vectorised */

/* As mst_exponential_f32, with more terms. */
static MST_ALWAYS_INLINE double tile_exp_f64(double x) {
    const double bounded = x < -708 ? -708 : x, shifted = bounded * 0x1.71547652b82fep+0 + 0x1.8p52, n = shifted - 0x1.8p52;
    const double r = (bounded - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 1. / 6227020800;
    static const double factors[] = {1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720,
                                     1. / 120,       1. / 24,       1. / 6,       1. / 2,      1,          1};
    for (int32_t i = 0; i < (int32_t)(sizeof factors / sizeof *factors); i++) sum = factors[i] + r * sum;
    uint64_t bits;
    double scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 52) + 0x3ff0000000000000u;
    memcpy(&scale, &bits, sizeof scale);
    return x < -708 ? 0 : scale * sum;
}

#define T float
#define SUFFIX f32
#define EXP mst_exponential_f32
#include "tile_loops.h"
#undef T
#undef SUFFIX
#undef EXP
#define T double
#define SUFFIX f64
#define EXP tile_exp_f64
#include "tile_loops.h"
#undef T
#undef SUFFIX
#undef EXP

void mst_attention_tile_forward(const mst_attention_tile *tile, const mst_attention_rows *rows, bool first) {
    (tile->dtype == MUSTER_F32 ? tile_forward_f32 : tile_forward_f64)(tile, rows, first);
}
void mst_attention_rows_finish(muster_dtype dtype, int64_t count, const mst_attention_rows *rows, char *lse, char *rest) {
    (dtype == MUSTER_F32 ? tile_finish_f32 : tile_finish_f64)(count, rows, lse, rest);
}
void mst_attention_tile_again(const mst_attention_tile *tile, const char *lse, const char *rest) {
    (tile->dtype == MUSTER_F32 ? tile_again_f32 : tile_again_f64)(tile, lse, rest);
}
void mst_attention_tile_gradient(const mst_attention_tile *tile, const char *dp, const char *inner) {
    (tile->dtype == MUSTER_F32 ? tile_gradient_f32 : tile_gradient_f64)(tile, dp, inner);
}
void mst_attention_tile_add(const mst_attention_tile *tile, char *to, int64_t row, int64_t column) {
    void *sums = to;
    if (tile->dtype == MUSTER_F32)
        tile_add_f32(tile, sums, row, column);
    else
        tile_add_f64(tile, sums, row, column);
}
void mst_attention_rows_inner(muster_dtype dtype, int64_t rows, int64_t columns, const char *x, const char *y, char *inner) {
    const void *left = x, *right = y;
    void *to = inner;
    if (dtype == MUSTER_F32)
        tile_inner_f32(rows, columns, left, right, to);
    else
        tile_inner_f64(rows, columns, left, right, to);
}
bool mst_attention_is_finite(muster_dtype dtype, int64_t rows, int64_t row, int64_t columns, int64_t column, const char *values) {
    const void *from = values;
    if (row == 1 && column != 1) return mst_attention_is_finite(dtype, columns, column, rows, 1, values); /* in the order of memory */
    return dtype == MUSTER_F32 ? tile_is_finite_f32(rows, row, columns, column, from)
                               : tile_is_finite_f64(rows, row, columns, column, from);
}
void mst_attention_scale(muster_dtype dtype, int64_t count, double factor, char *values) {
    void *at = values;
    if (dtype == MUSTER_F32)
        tile_scale_f32(count, (float)factor, at);
    else
        tile_scale_f64(count, factor, at);
}
