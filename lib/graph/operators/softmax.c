/* Softmax and its kin. The library has them along the last axis. softmax and log_softmax along one
 * other axis give it views in which that axis is the last; several axes are moved there. */
#include "elementwise_private.h"

enum { AXIS, KEEPDIMS };

static bool only_last(const muster_expr *x, uint32_t mask) { return x->type.ndim > 0 && mask == 1u << (x->type.ndim - 1); }

/* The axes of the draft; false: refused. */
static bool softmax_axes(mst_draft *draft, uint32_t *mask) {
    return mst_draft_dtype(draft, 0, MST_FLOAT_DTYPES) == MUSTER_OK && mst_draft_axes(draft, AXIS, mask) == MUSTER_OK;
}

static int32_t axis_of(const muster_expr *node) { return (int32_t)node->values[AXIS].list[0]; }

static muster_tensor axis_last(muster_tensor tensor, int32_t axis) {
    int32_t axes[MUSTER_MAX_DIMS], count = 0;
    for (int32_t d = 0; d < tensor.ndim; d++)
        if (d != axis) axes[count++] = d;
    axes[count] = axis;
    return muster_tensor_permute(tensor, axes);
}

static muster_expr *last_axis_of(const mst_draft *draft, muster_expr *matrix) {
    return mst_apply(draft->graph, draft->op->id, &matrix, 1, (mst_graph_value[]){{.list = (int64_t[]){1}, .count = 1}, MST_NO_VALUE});
}

static muster_expr *expand_rows(mst_draft *draft) {
    uint32_t mask;
    mst_dim rows;
    int64_t axes[MUSTER_MAX_DIMS];
    muster_expr *x = draft->inputs[0];
    if (!softmax_axes(draft, &mask)) return draft->graph->error;
    if (mask && !(mask & (mask - 1))) return NULL;
    muster_expr *matrix = mst_as_rows(x, mask, &rows);
    if (mst_node_is_error(matrix)) return matrix;
    muster_expr *result = last_axis_of(draft, matrix), *moved = mst_axes_last(x, mask, axes);
    if (mst_node_is_error(result) || mst_node_is_error(moved)) return draft->graph->error;
    muster_expr *shaped = mst_reshape_to(result, moved->type.ndim, moved->type.dims);
    return mst_node_is_error(shaped) ? shaped : mst_axes_back(shaped, axes);
}

static muster_status run_softmax(muster_worker *worker, const mst_step_run *run) {
    const int32_t axis = axis_of(run->node);
    return muster_softmax(worker, axis_last(*run->in[0], axis), axis_last(*run->out[0], axis));
}
static muster_status run_log_softmax(muster_worker *worker, const mst_step_run *run) {
    const int32_t axis = axis_of(run->node);
    return muster_log_softmax(worker, axis_last(*run->in[0], axis), axis_last(*run->out[0], axis));
}

static bool distribute_rows(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && result.kind == MST_CUT && mst_distribute_alike(node, result, 1u << axis_of(node), operands);
}

/* Their gradients, which have the axis last. */
static void gradient_of_rows(mst_gradients *gradients, muster_expr *node, muster_expr *dy, int32_t operation) {
    int64_t axes[MUSTER_MAX_DIMS];
    const uint32_t mask = 1u << axis_of(node);
    muster_expr *moved[] = {mst_axes_last(node, mask, axes), mst_axes_last(dy, mask, axes)};
    if (mst_node_is_error(moved[0]) || mst_node_is_error(moved[1])) return;
    muster_expr *dx = mst_apply(node->graph, operation, moved, 2, NULL);
    if (!mst_node_is_error(dx)) mst_gradient_add(gradients, node, 0, mst_axes_back(dx, axes));
}
static void gradient_softmax(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    gradient_of_rows(gradients, node, dy, MST_OPERATOR_softmax_gradient);
}
static void gradient_log_softmax(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    gradient_of_rows(gradients, node, dy, MST_OPERATOR_log_softmax_gradient);
}

#define ROWS(op_name, text)                                                                              \
    const mst_operator mst_operator_##op_name = {                                                        \
        MST_ANY_OPERATOR(op_name, text), .operands = {"x"},    .attributes = {{"axis", MST_VALUE_LIST}}, \
        .dtypes = MST_FLOAT_DTYPES,      .in_place = 1,        .expand = expand_rows,                    \
        .infer = mst_draft_same,         .run = run_##op_name, .gradient = gradient_##op_name,           \
        .distribute = distribute_rows}
ROWS(softmax, "exp(x) / sum(exp(x)) over the axes, or over all, without overflow");
ROWS(log_softmax, "log(softmax(x)) over the axes, or over all");

/* ---- their gradients, as operations of y and dy ---- */

static muster_expr *row_sum(muster_expr *x) {
    return mst_reduced(x, MST_OPERATOR_sum, MST_AXES((int64_t[]){-1}, 1), true, MUSTER_DTYPE_NONE);
}

static muster_status run_softmax_gradient(muster_worker *worker, const mst_step_run *run) {
    return muster_softmax_gradient(worker, *run->in[0], *run->in[1], *run->out[0]);
}
static muster_status run_log_softmax_gradient(muster_worker *worker, const mst_step_run *run) {
    return muster_log_softmax_gradient(worker, *run->in[0], *run->in[1], *run->out[0]);
}

/* Of y (dy - sum(y dy)), with respect to y and to dy; g is the gradient of the result. */
static void gradient_softmax_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    muster_expr *y = X, *dy = Y;
    if (mst_gradient_wanted(gradients, node, 0))
        mst_gradient_add(
            gradients, node, 0,
            G(subtract, G(multiply, g, G(subtract, dy, row_sum(G(multiply, y, dy)))), G(multiply, dy, row_sum(G(multiply, g, y)))));
    mst_gradient_add(gradients, node, 1, G(softmax_gradient, y, g));
}

/* Of dy - exp(y) sum(dy). */
static void gradient_log_softmax_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *g) {
    muster_expr *powers = G(exp, X), *weighted = G(multiply, g, powers);
    if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, G(negative, G(multiply, weighted, row_sum(Y))));
    mst_gradient_add(gradients, node, 1, G(subtract, g, row_sum(weighted)));
}

/* They are proportional to dy. */
static bool distribute_rows_gradient(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) return way == 0 && mst_distribute_scaled(node, result, 1, operands);
    return mst_distribute_along_last(node, result, way, operands);
}

#define ROWS_GRADIENT(op_name, text)                                                                 \
    const mst_operator mst_operator_##op_name = {                                                    \
        MST_ANY_OPERATOR(op_name, text),        .operands = {"y", "dy"}, .dtypes = MST_FLOAT_DTYPES, \
        .flags = MST_OPERATOR_HIDDEN,           .in_place = 3,           .infer = mst_draft_same,    \
        .distribute = distribute_rows_gradient, .run = run_##op_name,    .gradient = gradient_##op_name}
ROWS_GRADIENT(softmax_gradient, "y (dy - sum(y dy)): the gradient of softmax");
ROWS_GRADIENT(log_softmax_gradient, "dy - exp(y) sum(dy): the gradient of log_softmax");

/* ---- logsumexp ---- */

static muster_expr *expand_logsumexp(mst_draft *draft) {
    uint32_t mask;
    mst_dim rows, dims[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    muster_expr *x = draft->inputs[0];
    const mst_type type = x->type;
    if (!softmax_axes(draft, &mask) || mst_draft_flag(draft, KEEPDIMS) != MUSTER_OK) return draft->graph->error;
    const bool keepdims = draft->values[KEEPDIMS].integer != 0;
    if (only_last(x, mask) && !keepdims) return NULL;
    muster_expr *matrix = mst_as_rows(x, mask, &rows);
    if (mst_node_is_error(matrix)) return matrix;
    muster_expr *result = last_axis_of(draft, matrix);
    for (int32_t d = 0; d < type.ndim; d++)
        if (keepdims || !(mask >> d & 1)) dims[ndim++] = mask >> d & 1 ? MST_DIM_ONE : type.dims[d];
    return mst_node_is_error(result) ? result : mst_reshape_to(result, ndim, dims);
}

static muster_status infer_logsumexp(mst_draft *draft) {
    draft->types[0] = draft->inputs[0]->type;
    draft->types[0].ndim--;
    return MUSTER_OK;
}

static muster_status run_logsumexp(muster_worker *worker, const mst_step_run *run) {
    return muster_logsumexp(worker, *run->in[0], *run->out[0]);
}

/* dy softmax(x): exp(x - y) would have the rounding of y, which is 1 and more where x is large. */
static void gradient_logsumexp(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const int32_t last = X->type.ndim - 1;
    muster_expr *parts = mst_apply(node->graph, MST_OPERATOR_softmax, &X, 1, (mst_graph_value[]){{.list = (int64_t[]){last}, .count = 1}});
    mst_gradient_add(gradients, node, 0, G(multiply, mst_keep_axes(dy, &X->type, 1u << last), parts));
}

const mst_operator mst_operator_logsumexp = {MST_ANY_OPERATOR(logsumexp, "log(sum(exp(x))) over the axes, or over all, without overflow"),
                                             .operands = {"x"},
                                             .attributes = {{"axis", MST_VALUE_LIST}, {"keepdims", MST_VALUE_INTEGER}},
                                             .dtypes = MST_FLOAT_DTYPES,
                                             .expand = expand_logsumexp,
                                             .infer = infer_logsumexp,
                                             .distribute = mst_distribute_along_last,
                                             .run = run_logsumexp,
                                             .gradient = gradient_logsumexp};
