/* Sums in f64 of squared deviations and of products with them: what variances, norms and
 * normalisation are made of. Nothing of the size of x is written, and no square has to be in the
 * range of f32. */
#include "deviations/deviation_sums_impl.h"
#include "deviations_private.h"

enum { CENTER = 1, FACTOR };
enum { AXES, ABOUT };
#define X (node->inputs[0])
#define G(name, ...) MST_APPLY(node->graph, name, __VA_ARGS__)

muster_expr *mst_deviation_sums_of(muster_expr *x, muster_expr *center, muster_expr *factor, const mst_graph_value *axes,
                                   mst_deviations about) {
    muster_expr *const inputs[] = {x, center, factor};
    return mst_apply(x->graph, MST_OPERATOR_deviation_sums, inputs, factor ? 3 : 2, (mst_graph_value[]){*axes, {.integer = about}});
}

muster_expr *mst_mean_wide(muster_expr *x, const mst_graph_value *axes) {
    const muster_dtype dtype = x->type.dtype;
    if (mst_node_is_error(x)) return x;
    if (dtype == MUSTER_F64 || !mst_dtype_is_float(dtype)) return mst_reduced(x, MST_OPERATOR_mean, axes, true, MUSTER_F64);
    muster_expr *sum = mst_reduced(x, MST_OPERATOR_sum, axes, true, MUSTER_F64);
    return MST_APPLY(x->graph, divide, sum, mst_extent(x, mst_axes_mask(axes, x->type.ndim), MUSTER_F64));
}

static uint32_t mask_of(const muster_expr *node) { return mst_axes_mask(&node->values[AXES], X->type.ndim); }

static muster_status infer_sums(mst_draft *draft) {
    uint32_t mask;
    mst_type *type = &draft->types[0];
    const mst_type *x = &draft->inputs[0]->type;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_BLAS_DTYPES));
    MUSTER_TRY(mst_draft_axes(draft, AXES, &mask));
    *type = (mst_type){.dtype = MUSTER_F64};
    for (int32_t d = 0; d < x->ndim; d++)
        if (!(mask >> d & 1)) type->dims[type->ndim++] = x->dims[d];
    return MUSTER_OK;
}

/* Along an axis that stays, the sums are cut as x is. Along one that is summed, the workers have
 * partial sums. */
static bool distribute_sums(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const uint32_t mask = mask_of(node);
    const bool cut = result.kind == MST_CUT;
    int32_t left = cut ? result.axis : way, axis = 0;
    if (cut ? way > 0 : result.op != MUSTER_SUM) return false;
    for (; axis < X->type.ndim; axis++)
        if ((mask >> axis & 1) != cut && left-- == 0) break;
    if (axis == X->type.ndim) return false;
    operands[0] = MST_DISTRIBUTED_CUT(axis);
    operands[CENTER] = cut && node->inputs[CENTER]->type.ndim ? operands[0] : MST_DISTRIBUTED_SAME;
    if (node->input_count > FACTOR) operands[FACTOR] = operands[0];
    return true;
}

static muster_status run_sums(muster_worker *worker, const mst_step_run *run) {
    const uint32_t axes = mst_axes_mask(&run->node->values[AXES], run->in[0]->ndim);
    return mst_deviation_sums(worker, run->in[0], run->in[CENTER], run->node->input_count > FACTOR ? run->in[FACTOR] : NULL, axes,
                              run->node->values[ABOUT].integer == MST_ABOUT_NOTHING, run->out[0]);
}

/* With d = x - center: of the sum of f d, dx = f dy, df = d dy and dcenter = - sum(f) dy; without a
 * factor f is d, and dx = 2 d dy. In f64, since dy need not be in the range of f32 where dx is; it
 * is where the sum becomes a loss. */
static void gradient_sums(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const muster_dtype dtype = X->type.dtype;
    muster_expr *center = node->inputs[CENTER], *factor = node->input_count > FACTOR ? node->inputs[FACTOR] : NULL;
    if (node->values[ABOUT].integer == MST_ABOUT_NOTHING) {
        dy = mst_cast_to(G(multiply, mst_number(node->graph, MUSTER_F64, 2), mst_keep_axes(dy, &X->type, mask_of(node))), dtype);
        mst_gradient_add(gradients, node, 0, G(multiply, X, dy));
        return;
    }
    muster_expr *d = G(subtract, mst_cast_to(X, MUSTER_F64), center);
    dy = mst_keep_axes(dy, &X->type, mask_of(node));
    if (!factor) dy = G(multiply, mst_number(node->graph, MUSTER_F64, 2), dy);
    muster_expr *by = factor ? mst_cast_to(factor, MUSTER_F64) : d;
    if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, mst_cast_to(G(multiply, by, dy), dtype));
    if (factor && mst_gradient_wanted(gradients, node, FACTOR))
        mst_gradient_add(gradients, node, FACTOR, mst_cast_to(G(multiply, d, dy), dtype));
    if (node->values[ABOUT].integer == MST_ABOUT_MEAN || !center->type.ndim || !mst_gradient_wanted(gradients, node, CENTER)) return;
    muster_expr *sum = mst_reduced(factor ? factor : d, MST_OPERATOR_sum, &node->values[AXES], true, MUSTER_F64);
    mst_gradient_add(gradients, node, CENTER, G(negative, G(multiply, sum, dy)));
}

const mst_operator mst_operator_deviation_sums = {
    MST_ANY_OPERATOR(deviation_sums, "the sums of factor (x - center) along the axes, f64; of the squares, without a factor"),
    .operands = {"x", "center", "factor"},
    .optional = 1,
    .attributes = {{"axis", MST_VALUE_LIST}, {"about", MST_VALUE_INTEGER}},
    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_BY_SHARD,
    .infer = infer_sums,
    .distribute = distribute_sums,
    .run = run_sums,
    .gradient = gradient_sums};
