/* Elements less the mean of their row, over its deviation. Squares are summed in f64, where those
 * of every f32 have room. So is what the gradient sums. */
#include "deviations_private.h"
#include "normalisation_private.h"

static muster_expr *number64(const muster_expr *x, double value) { return mst_number(x->graph, MUSTER_F64, value); }
#define MAKE(name, ...) MST_APPLY(x->graph, name, __VA_ARGS__)

muster_expr *mst_normal_scale(muster_expr *inverse, muster_dtype dtype) {
    const muster_expr *x = inverse;
    if (dtype == MUSTER_F64 || mst_node_is_error(inverse)) return NULL;
    return MAKE(where, MAKE(less, inverse, number64(x, 0x1p-40)), number64(x, 0x1p-64), number64(x, 1));
}

/* (x - mean) scale, and *over becomes inverse / scale. mean NULL: 0. */
static muster_expr *scaled_distance(muster_expr *x, muster_expr *mean, muster_expr *inverse, muster_expr **over) {
    const muster_dtype dtype = x->type.dtype;
    *over = mst_cast_to(inverse, dtype);
    if (!mean) return x;
    muster_expr *scale = mst_normal_scale(inverse, dtype), *center = mst_cast_to(mean, dtype);
    if (!scale) return MAKE(subtract, x, center);
    *over = mst_cast_to(MAKE(divide, inverse, scale), dtype);
    scale = mst_cast_to(scale, dtype);
    return MAKE(subtract, MAKE(multiply, x, scale), MAKE(multiply, center, scale));
}

muster_expr *mst_normalised_rows(muster_expr *x, const mst_graph_value *axes, bool centred, double epsilon) {
    if (mst_node_is_error(x)) return x;
    muster_expr *mean = centred ? mst_mean_wide(x, axes) : NULL, *over;
    muster_expr *sum = mst_deviation_sums_of(x, centred ? mean : number64(x, 0), NULL, axes, centred ? MST_ABOUT_MEAN : MST_ABOUT_NOTHING);
    if (mst_node_is_error(sum)) return sum;
    const uint32_t mask = mst_axes_mask(axes, x->type.ndim);
    muster_expr *variance = MAKE(divide, mst_keep_axes(sum, &x->type, mask), mst_extent(x, mask, MUSTER_F64));
    muster_expr *inverse = MAKE(rsqrt, MAKE(add, variance, number64(x, epsilon)));
    muster_expr *y = MAKE(multiply, scaled_distance(x, mean, inverse, &over), over);
    muster_expr *const inputs[] = {y, x, inverse, mean};
    return mst_apply(x->graph, MST_OPERATOR_normalised_rows, inputs, centred ? 4 : 3, (mst_graph_value[]){*axes});
}

/* ---- the gradient ---- */

/* normalised_rows(y, x, inverse, mean) is y, which has been made of the others. Its gradient is
 * that of x with its statistics. */
enum { Y_OF, X_OF, INVERSE_OF, MEAN_OF };

/* dx = inverse (dy - mean(dy) - y mean(dy y)); not centred: without mean(dy). */
static void gradient_rows(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *x = node->inputs[X_OF], *inverse = node->inputs[INVERSE_OF],
                *mean = node->input_count > MEAN_OF ? node->inputs[MEAN_OF] : NULL;
    const mst_graph_value *axes = &node->values[0];
    const muster_dtype dtype = x->type.dtype;
    const uint32_t mask = mst_axes_mask(axes, x->type.ndim);
    muster_expr *over, *count = mst_extent(x, mask, MUSTER_F64),
                       *sum = mst_deviation_sums_of(x, mean ? mean : number64(x, 0), dy, axes, MST_ABOUT_ANY);
    if (mst_node_is_error(sum)) return;
    muster_expr *slope = MAKE(divide, MAKE(multiply, mst_keep_axes(sum, &x->type, mask), inverse), count);
    muster_expr *z = scaled_distance(MAKE(anew, x), mean, inverse, &over); /* so that that of the forward pass need not be kept */
    muster_expr *taken = MAKE(multiply, MAKE(multiply, z, over), mst_cast_to(slope, dtype));
    if (mean) dy = MAKE(subtract, dy, mst_cast_to(mst_mean_wide(dy, axes), dtype));
    mst_gradient_add(gradients, node, X_OF, MAKE(multiply, MAKE(subtract, dy, taken), mst_cast_to(inverse, dtype)));
}

const mst_operator mst_operator_normalised_rows = {
    MST_ANY_OPERATOR(normalised_rows, "y, with the gradient of x over the deviation of its row"),
    .operands = {"y", "x", "inverse", "mean"},
    .optional = 1,
    .attributes = {{"axis", MST_VALUE_LIST}},
    .dtypes = MST_BLAS_DTYPES,
    .flags = MST_OPERATOR_HIDDEN,
    .infer = mst_draft_same,
    .distribute = mst_distribute_elementwise,
    .view = mst_view_same,
    .gradient = gradient_rows};
