/* Convolutions. The convolution and its two gradients are each linear in both operands, and each
 * one's gradients are the other two: so all gradients of any order are made of them. The transposed
 * convolution is the gradient of the data of a convolution with the same attributes. */
#include "convolution_private.h"
#include "runtime_impl.h"

/* ---- nodes of the three computations ---- */

/* `from`, or v, has the attributes. */
static muster_expr *make_convolution(const muster_expr *from, muster_expr *x, muster_expr *w) {
    const mst_graph_value *v = from->values;
    return mst_apply(from->graph, MST_OPERATOR_convolution, MST_INPUTS(x, w),
                     (mst_graph_value[]){v[STRIDE], v[PADDING], v[DILATION], v[GROUPS]});
}
static muster_expr *make_data(const mst_graph_value *v, muster_expr *dy, muster_expr *w, const mst_type *x) {
    int64_t extents[MST_WINDOW_AXES];
    for (int32_t d = FIRST; d < x->ndim; d++) extents[d - FIRST] = x->dims[d];
    return mst_apply(dy->graph, MST_OPERATOR_convolution_data, MST_INPUTS(dy, w),
                     (mst_graph_value[]){v[STRIDE], v[PADDING], v[DILATION], v[GROUPS], {.list = extents, .count = x->ndim - FIRST}});
}
static muster_expr *make_weights(const mst_graph_value *v, muster_expr *x, muster_expr *dy, const mst_type *w) {
    int64_t size[MST_WINDOW_AXES];
    for (int32_t d = FIRST; d < w->ndim; d++) size[d - FIRST] = mst_dim_constant(x->graph, w->dims[d]);
    return mst_apply(x->graph, MST_OPERATOR_convolution_weights, MST_INPUTS(x, dy),
                     (mst_graph_value[]){v[STRIDE], v[PADDING], v[DILATION], v[GROUPS], {.list = size, .count = w->ndim - FIRST}});
}

/* The two below are made by the library, with attributes that a convolution has had. */
static muster_status infer_data(mst_draft *draft) {
    const mst_type *w = &draft->inputs[1]->type;
    const int64_t groups = draft->values[GROUPS].integer;
    mst_type *x = &draft->types[0];
    *x = draft->inputs[0]->type;
    x->dims[CHANNELS] = mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, groups ? groups : 1), w->dims[1]);
    for (int32_t d = FIRST; d < x->ndim; d++) x->dims[d] = (mst_dim)draft->values[EXTENTS].list[d - FIRST];
    return MUSTER_OK;
}
static muster_status infer_weights(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type, *y = &draft->inputs[1]->type;
    const int64_t groups = draft->values[GROUPS].integer;
    mst_type *w = &draft->types[0];
    *w = *x;
    w->dims[0] = y->dims[CHANNELS];
    w->dims[1] = mst_dim_divide(draft->graph, x->dims[CHANNELS], mst_dim_number(draft->graph, groups ? groups : 1));
    for (int32_t d = FIRST; d < w->ndim; d++) w->dims[d] = mst_dim_number(draft->graph, draft->values[SIZE].list[d - FIRST]);
    return MUSTER_OK;
}

/* ---- gradients ---- */

#define WANTED(operand) mst_gradient_wanted(gradients, node, operand)

static void gradient_convolution(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *x = node->inputs[0], *w = node->inputs[1];
    if (WANTED(0)) mst_gradient_add(gradients, node, 0, make_data(node->values, dy, w, &x->type));
    if (WANTED(1)) mst_gradient_add(gradients, node, 1, make_weights(node->values, x, dy, &w->type));
    if (node->input_count < 3 || !WANTED(2)) return;
    int64_t axes[MUSTER_MAX_DIMS];
    int32_t count = 0;
    for (int32_t d = 0; d < node->type.ndim; d++)
        if (d != CHANNELS) axes[count++] = d;
    mst_gradient_add(gradients, node, 2, mst_reduced(dy, MST_OPERATOR_sum, MST_AXES(axes, count), false, MUSTER_DTYPE_NONE));
}

static void gradient_data(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    muster_expr *dy = node->inputs[0], *w = node->inputs[1];
    if (WANTED(0)) mst_gradient_add(gradients, node, 0, make_convolution(node, g, w));
    if (WANTED(1)) mst_gradient_add(gradients, node, 1, make_weights(node->values, g, dy, &w->type));
}

static void gradient_weights(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    muster_expr *x = node->inputs[0], *dy = node->inputs[1];
    if (WANTED(0)) mst_gradient_add(gradients, node, 0, make_data(node->values, dy, g, &x->type));
    if (WANTED(1)) mst_gradient_add(gradients, node, 1, make_convolution(node, x, g));
}

/* ---- transposed ---- */

/* y with zeros behind it, without what is hidden in front. */
static muster_expr *with_zeros_behind(muster_expr *y, int32_t axes, const int64_t *extra, const int64_t *hidden) {
    int64_t before[MUSTER_MAX_DIMS] = {0}, after[MUSTER_MAX_DIMS] = {0}, start[MUSTER_MAX_DIMS];
    bool any = false, less = false;
    for (int32_t d = 0; d < MUSTER_MAX_DIMS; d++) start[d] = MUSTER_NONE;
    for (int32_t d = 0; d < axes; d++) {
        after[FIRST + d] = extra[d];
        any = any || extra[d];
        if (hidden[d]) start[FIRST + d] = hidden[d];
        less = less || hidden[d];
    }
    if (!any || mst_node_is_error(y)) return y;
    y = mst_apply(y->graph, MST_OPERATOR_pad, &y, 1,
                  (mst_graph_value[]){{.list = before, .count = y->type.ndim}, {.list = after, .count = y->type.ndim}});
    if (!less || mst_node_is_error(y)) return y;
    return mst_apply(y->graph, MST_OPERATOR_slice, &y, 1,
                     (mst_graph_value[]){{.list = start, .count = y->type.ndim}, MST_NO_VALUE, MST_NO_VALUE});
}

static muster_expr *expand_transpose(mst_draft *draft) {
    mst_convolution c;
    mst_dim outputs;
    int64_t extra[MST_WINDOW_AXES], hidden[MST_WINDOW_AXES];
    if (mst_draft_convolution(draft, true, &c, &outputs) != MUSTER_OK) return draft->graph->error;
    mst_type y = X->type;
    if (mst_draft_transposed(draft, &c, &y, extra, hidden) != MUSTER_OK) return draft->graph->error;
    muster_expr *made = with_zeros_behind(make_data(draft->values, X, Y, &y), c.window.axes, extra, hidden);
    if (draft->count < 3 || mst_node_is_error(made)) return made;
    mst_dim dims[MUSTER_MAX_DIMS] = {outputs};
    for (int32_t d = 0; d < c.window.axes; d++) dims[1 + d] = MST_DIM_ONE;
    return E(add, made, mst_reshape_to(draft->inputs[2], 1 + c.window.axes, dims));
}

/* ---- running ---- */

/* A GPU's handle of a foreign library is made between calls: it allocates memory of the GPU. */
static muster_status compile_convolution(const muster_expr *node) {
    muster_runtime *runtime = node->graph->runtime;
    MUSTER_TRY(mst_pool_enter(runtime->pool, "muster_graph_compile", 0));
    for (int32_t r = 0; r < runtime->size; r++) mst_convolution_open(runtime->devices[r]);
    mst_runtime_log_notices(runtime);
    mst_pool_leave(runtime->pool);
    return MUSTER_OK;
}

static mst_convolution convolution_with(const muster_expr *node, const muster_tensor *w) {
    mst_convolution c = mst_convolution_of(node);
    for (int32_t d = 0; d < c.window.axes; d++) c.window.size[d] = w->shape[FIRST + d];
    return c;
}

static muster_status run_convolution(muster_worker *worker, const mst_step_run *run) {
    const mst_convolution c = convolution_with(run->node, run->in[1]);
    const muster_tensor *bias = run->node->input_count > 2 ? run->in[2] : NULL;
    return mst_convolution_forward(worker, &c, run->in[0], run->in[1], bias, run->out[0], run->state, "muster_expr_convolution");
}
static muster_status run_data(muster_worker *worker, const mst_step_run *run) {
    const mst_convolution c = convolution_with(run->node, run->in[1]);
    return mst_convolution_data(worker, &c, run->in[0], run->in[1], run->out[0], run->state, "muster_expr_convolution");
}
static muster_status run_weights(muster_worker *worker, const mst_step_run *run) {
    const mst_convolution c = convolution_with(run->node, run->out[0]);
    return mst_convolution_weights(worker, &c, run->in[0], run->in[1], run->out[0], run->state, "muster_expr_convolution");
}

static double elements_behind(const muster_expr *node, int32_t first, const int64_t *sizes) {
    double elements = 1;
    for (int32_t d = first; d < node->type.ndim; d++) elements *= (double)mst_dim_value(node->graph, node->type.dims[d], sizes);
    return elements;
}
static double operations_convolution(const muster_expr *node, const int64_t *sizes) {
    return 2 * elements_behind(node->inputs[1], 1, sizes);
}
static double operations_data(const muster_expr *node, const int64_t *sizes) {
    const muster_expr *dy = node->inputs[0], *w = node->inputs[1];
    const double elements = elements_behind(node, 1, sizes);
    return elements > 0 ? 2 * elements_behind(dy, 1, sizes) * elements_behind(w, 1, sizes) / elements : 0;
}
static double operations_weights(const muster_expr *node, const int64_t *sizes) {
    const muster_expr *dy = node->inputs[1];
    return 2 * (double)mst_dim_value(dy->graph, dy->type.dims[0], sizes) * elements_behind(dy, FIRST, sizes);
}

/* ---- distributions ---- */

/* Axis `axis` of operand i is cut, the others are whole. */
static void cut_one(const muster_expr *node, mst_distribution *operands, int32_t i, int32_t axis) {
    for (int32_t k = 0; k < node->input_count; k++) operands[k] = MST_DISTRIBUTED_SAME;
    operands[i] = MST_DISTRIBUTED_CUT(axis);
}

static void cut_both(mst_distribution *operands, int32_t of_first, int32_t of_second) {
    operands[0] = MST_DISTRIBUTED_CUT(of_first);
    operands[1] = MST_DISTRIBUTED_CUT(of_second);
}

/* Parts of channels are parts of groups only where there is one group. */
static bool has_groups(const muster_expr *node) { return node->values[GROUPS].integer > 1; }

/* A result of partial values: of parts of what is summed (way 0, if `cut`), or of partial values of
 * one operand. The bias is summed, too. */
static bool distribute_partial(const muster_expr *node, mst_distribution result, int32_t way, bool cut, mst_distribution *operands) {
    if (result.op != MUSTER_SUM) return false;
    if (!cut) way++;
    if (way > 0 && (way > 2 || !mst_distribute_scaled(node, result, way - 1, operands))) return false;
    if (node->input_count > 2) operands[2] = result;
    return true;
}

static bool distribute_convolution(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) {
        cut_both(operands, CHANNELS, 1);
        return distribute_partial(node, result, way, !has_groups(node), operands);
    }
    if (way || result.axis > CHANNELS || (result.axis == CHANNELS && has_groups(node))) return false;
    cut_one(node, operands, result.axis == CHANNELS ? 1 : 0, 0);
    if (result.axis == CHANNELS && node->input_count > 2) operands[2] = MST_DISTRIBUTED_CUT(0);
    return true;
}

static bool distribute_data(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) {
        cut_both(operands, CHANNELS, 0);
        return distribute_partial(node, result, way, !has_groups(node), operands);
    }
    if (way || result.axis > CHANNELS || (result.axis == CHANNELS && has_groups(node))) return false;
    cut_one(node, operands, result.axis == CHANNELS ? 1 : 0, result.axis);
    return true;
}

static bool distribute_weights(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) {
        cut_both(operands, 0, 0);
        return distribute_partial(node, result, way, true, operands);
    }
    if (way || result.axis > 1 || has_groups(node)) return false;
    cut_one(node, operands, result.axis == 0 ? 1 : 0, CHANNELS);
    return true;
}

/* ---- the operators ---- */

#define LISTS \
    {"stride", MST_VALUE_LIST}, {"padding", MST_VALUE_LIST}, {"dilation", MST_VALUE_LIST}, { "groups", MST_VALUE_INTEGER }
#define COMPUTED(kind)                                                                                              \
    .dtypes = MST_FLOAT_DTYPES, .release = mst_convolution_release, .run = run_##kind, .gradient = gradient_##kind, \
    .compile = compile_convolution, .distribute = distribute_##kind, .operations = operations_##kind

const mst_operator mst_operator_convolution = {
    MST_ANY_OPERATOR(
        convolution,
        "sums of the elements under a window that slides over the last 1 to 3 axes of x (n, c, ...), times w (o, c / groups, "
        "window), plus bias (o), which may be missing; padding: of each axis, or before and then behind each; 0 groups mean 1"),
    .operands = {"x", "w", "bias"},
    .optional = 1,
    .attributes = {LISTS},
    .flags = MST_OPERATOR_BY_SHARD,
    .infer = mst_infer_convolution,
    COMPUTED(convolution)};

const mst_operator mst_operator_convolution_data = {MST_ANY_OPERATOR(convolution_data, "the gradient of a convolution by x"),
                                                    .operands = {"dy", "w"},
                                                    .attributes = {LISTS, {"extents", MST_VALUE_DIMS}},
                                                    .flags = MST_OPERATOR_BY_SHARD | MST_OPERATOR_HIDDEN,
                                                    .infer = infer_data,
                                                    COMPUTED(data)};

const mst_operator mst_operator_convolution_weights = {MST_ANY_OPERATOR(convolution_weights, "the gradient of a convolution by w"),
                                                       .operands = {"x", "dy"},
                                                       .attributes = {LISTS, {"size", MST_VALUE_LIST}},
                                                       .flags = MST_OPERATOR_BY_SHARD | MST_OPERATOR_HIDDEN,
                                                       .infer = infer_weights,
                                                       COMPUTED(weights)};

const mst_operator mst_operator_convolution_transpose = {
    MST_ANY_OPERATOR(
        convolution_transpose,
        "the gradient by its x of a convolution with these attributes, whose result has the shape of this x (n, c, ...); w is (c, o "
        "/ groups, window); output_padding elements more behind each axis; plus bias (o), which may be missing"),
    .operands = {"x", "w", "bias"},
    .optional = 1,
    .attributes = {LISTS, {"output_padding", MST_VALUE_LIST}},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_transpose,
    .infer = mst_draft_composite};
