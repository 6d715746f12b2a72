/* Pooling. The largest elements are found again from x in each computation: the gradient sends dy
 * to their places, and its own gradient takes elements from there. Both are linear in what they
 * move, and each is the gradient of the other; so are an average and its gradient. All gradients of
 * any order are made of them. */
#include "pooling_private.h"

/* ---- gradients ---- */

#define WANTED(operand) mst_gradient_wanted(gradients, node, operand)
#define FIVE(v) v[POOL_SIZE], v[POOL_STRIDE], v[POOL_PADDING], v[POOL_DILATION], v[POOL_CEIL_MODE]

static muster_expr *make_of_largest(int32_t id, const muster_expr *node, muster_expr *x, muster_expr *moved) {
    return mst_apply(node->graph, id, MST_INPUTS(x, moved), (mst_graph_value[]){FIVE(node->values)});
}

static void gradient_max_pool(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, make_of_largest(MST_OPERATOR_max_pool_gradient, node, node->inputs[0], dy));
}
/* They do not change with x where they have a derivative. */
static void gradient_max_pool_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    if (WANTED(1)) mst_gradient_add(gradients, node, 1, make_of_largest(MST_OPERATOR_max_pool_take, node, node->inputs[0], g));
}
static void gradient_max_pool_take(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    if (WANTED(1)) mst_gradient_add(gradients, node, 1, make_of_largest(MST_OPERATOR_max_pool_gradient, node, node->inputs[0], g));
}

static bool is_average(const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_average_pool) || mst_node_is(node, MST_OPERATOR_average_pool_gradient);
}

static void gradient_sums(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const mst_type *x = &node->inputs[0]->type;
    const mst_graph_value *v = node->values;
    int64_t extents[MST_WINDOW_AXES];
    for (int32_t d = FIRST; d < x->ndim; d++) extents[d - FIRST] = x->dims[d];
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, is_average(node) ? MST_OPERATOR_average_pool_gradient : MST_OPERATOR_sum_pool_gradient, &dy, 1,
                               (mst_graph_value[]){FIVE(v), v[POOL_EXCLUDE_PADDING], {.list = extents, .count = x->ndim - FIRST}}));
}
static void gradient_sums_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    const mst_graph_value *v = node->values;
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, is_average(node) ? MST_OPERATOR_average_pool : MST_OPERATOR_sum_pool, &g, 1,
                               (mst_graph_value[]){FIVE(v), v[POOL_EXCLUDE_PADDING]}));
}

/* ---- running ---- */

static mst_pooling sums_of(const muster_expr *node) {
    mst_pooling pooling = mst_pooling_of(node);
    pooling.divides = is_average(node);
    pooling.counts_padding = node->values[POOL_EXCLUDE_PADDING].integer == 0;
    return pooling;
}

static muster_status run_max_pool(muster_worker *worker, const mst_step_run *run) {
    const mst_pooling pooling = mst_pooling_of(run->node);
    return mst_pooling_max(worker, &pooling, run->in[0], run->out[0], "muster_expr_max_pool");
}
static muster_status run_max_pool_gradient(muster_worker *worker, const mst_step_run *run) {
    const mst_pooling pooling = mst_pooling_of(run->node);
    return mst_pooling_max_gradient(worker, &pooling, run->in[0], run->in[1], run->out[0], "muster_expr_max_pool");
}
static muster_status run_max_pool_take(muster_worker *worker, const mst_step_run *run) {
    const mst_pooling pooling = mst_pooling_of(run->node);
    return mst_pooling_take(worker, &pooling, run->in[0], run->in[1], run->out[0], "muster_expr_max_pool");
}
static muster_status run_sums(muster_worker *worker, const mst_step_run *run) {
    const mst_pooling pooling = sums_of(run->node);
    return mst_pooling_sum(worker, &pooling, run->in[0], run->out[0], "muster_expr_average_pool");
}
static muster_status run_sums_gradient(muster_worker *worker, const mst_step_run *run) {
    const mst_pooling pooling = sums_of(run->node);
    return mst_pooling_sum_gradient(worker, &pooling, run->in[0], run->out[0], "muster_expr_average_pool");
}

/* ---- distributions ---- */

enum { EXTENTS_MASK = ~((1 << FIRST) - 1) };

/* Images and channels may be cut. Partial values are pooled as well before they are combined as
 * after it: the largest ones by MAX, sums by SUM. */
static bool distribute_alone(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const int32_t combines = mst_node_is(node, MST_OPERATOR_max_pool) ? MUSTER_MAX : MUSTER_SUM;
    if (way || (result.kind == MST_PARTIAL && result.op != combines)) return false;
    return mst_distribute_alike(node, result, (uint32_t)EXTENTS_MASK, operands);
}

/* Proportional to operand 1. */
static bool distribute_moved(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way) return false;
    if (result.kind == MST_PARTIAL) return mst_distribute_scaled(node, result, 1, operands);
    return mst_distribute_alike(node, result, (uint32_t)EXTENTS_MASK, operands);
}

/* ---- the operators ---- */

#define WINDOW                                                                                                                           \
    {"size", MST_VALUE_LIST, .required = true}, {"stride", MST_VALUE_LIST}, {"padding", MST_VALUE_LIST}, {"dilation", MST_VALUE_LIST}, { \
        "ceil_mode", MST_VALUE_INTEGER                                                                                                   \
    }
#define SUMMED \
    WINDOW, { "exclude_padding", MST_VALUE_INTEGER }
#define ATTRIBUTES_TEXT                                                                                           \
    "size: of the window in each axis, or in all; stride: that of size if it is missing; padding: of each axis, " \
    "or before and then behind each; ceil_mode: the last window may reach beyond the padding"

const mst_operator mst_operator_max_pool = {
    MST_ANY_OPERATOR(max_pool,
                     "the largest element under a window that slides over the last 1 to 3 axes of x (n, c, ...); of equals the first of "
                     "the window has the gradient; " ATTRIBUTES_TEXT),
    .operands = {"x"},
    .attributes = {WINDOW},
    .dtypes = MST_FLOAT_DTYPES,
    .infer = mst_infer_pooling,
    .distribute = distribute_alone,
    .run = run_max_pool,
    .gradient = gradient_max_pool};

#define MOVED(op_name, text, ...)                                                                                              \
    const mst_operator mst_operator_##op_name = {                                                                              \
        MST_ANY_OPERATOR(op_name, text), .attributes = {WINDOW}, .dtypes = MST_FLOAT_DTYPES,     .flags = MST_OPERATOR_HIDDEN, \
        .distribute = distribute_moved,  .run = run_##op_name,   .gradient = gradient_##op_name, __VA_ARGS__}
MOVED(max_pool_gradient, "the gradient of max_pool", .operands = {"x", "dy"}, .infer = mst_draft_same);
MOVED(max_pool_take, "the elements of z where the largest of x are", .operands = {"x", "z"}, .infer = mst_infer_pooling);

/* The order of a sum depends on how the elements lie, which may depend on the number of rows. */
#define SUMS(op_name, hidden, text)                                                       \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),         \
                                                 .operands = {"x"},                       \
                                                 .attributes = {SUMMED},                  \
                                                 .dtypes = MST_FLOAT_DTYPES,              \
                                                 .flags = MST_OPERATOR_BY_SHARD | hidden, \
                                                 .infer = mst_infer_pooling,              \
                                                 .distribute = distribute_alone,          \
                                                 .run = run_sums,                         \
                                                 .gradient = gradient_sums}
#define SUMS_GRADIENT(op_name, text)                                                                   \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),                      \
                                                 .operands = {"dy"},                                   \
                                                 .attributes = {SUMMED, {"extents", MST_VALUE_DIMS}},  \
                                                 .dtypes = MST_FLOAT_DTYPES,                           \
                                                 .flags = MST_OPERATOR_BY_SHARD | MST_OPERATOR_HIDDEN, \
                                                 .infer = mst_infer_pooling_gradient,                  \
                                                 .distribute = distribute_alone,                       \
                                                 .run = run_sums_gradient,                             \
                                                 .gradient = gradient_sums_gradient}
SUMS(average_pool, 0,
     "the average of the elements under a window that slides over the last 1 to 3 axes of x (n, c, ...), padding counted "
     "as zeros unless exclude_padding is 1; " ATTRIBUTES_TEXT);
SUMS_GRADIENT(average_pool_gradient, "the gradient of average_pool");
SUMS(sum_pool, MST_OPERATOR_HIDDEN, "the sum of the elements under a window");
SUMS_GRADIENT(sum_pool_gradient, "the gradient of sum_pool");

/* ---- made of others ---- */

/* Squares are computed in a wider dtype, whose range holds them; f64 has none. */
static muster_expr *expand_l2_pool(mst_draft *draft) {
    if (mst_infer_pooling(draft) != MUSTER_OK) return draft->graph->error;
    const muster_dtype dtype = X->type.dtype, wide = dtype == MUSTER_F16 ? MUSTER_F32 : MUSTER_F64;
    muster_expr *squares = E(square, mst_cast_to(X, wide));
    muster_expr *sum = mst_apply(draft->graph, MST_OPERATOR_sum_pool, &squares, 1, (mst_graph_value[]){FIVE(draft->values), MST_NO_VALUE});
    return mst_node_is_error(sum) ? sum : mst_cast_to(mst_root(draft, sum), dtype);
}

const mst_operator mst_operator_l2_pool = {
    MST_ANY_OPERATOR(l2_pool,
                     "the square root of the sum of the squares under a window that slides over the last 1 to 3 axes of x (n, c, ...); the "
                     "gradient where it is 0 is 0; " ATTRIBUTES_TEXT),
    .operands = {"x"},
    .attributes = {WINDOW},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_l2_pool,
    .infer = mst_draft_composite};

static muster_expr *expand_global(mst_draft *draft, int32_t reduction) {
    char received[MST_NODE_TEXT];
    int64_t axes[MUSTER_MAX_DIMS];
    const int32_t ndim = X->type.ndim;
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK) return draft->graph->error;
    if (ndim <= FIRST) {
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected images, channels and 1 extent or more, received %s",
                               mst_type_text(draft->graph, &X->type, received));
        return draft->graph->error;
    }
    for (int32_t d = FIRST; d < ndim; d++) axes[d - FIRST] = d;
    return mst_reduced(X, reduction, MST_AXES(axes, ndim - FIRST), true, MUSTER_DTYPE_NONE);
}
static muster_expr *expand_global_max_pool(mst_draft *draft) { return expand_global(draft, MST_OPERATOR_max); }
static muster_expr *expand_global_average_pool(mst_draft *draft) { return expand_global(draft, MST_OPERATOR_mean); }

#define GLOBAL(op_name, text)                                                                                                    \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operands = {"x"}, .dtypes = MST_FLOAT_DTYPES, \
                                                 .expand = expand_##op_name, .infer = mst_draft_composite}
GLOBAL(global_max_pool,
       "the largest element of each channel of x (n, c, ...), whose extents become 1; of equals the first has the gradient");
GLOBAL(global_average_pool, "the average of each channel of x (n, c, ...), whose extents become 1");
