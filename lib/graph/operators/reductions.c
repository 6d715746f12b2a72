/* Reductions over axes. */
#include "operators_private.h"

enum { AXIS, KEEPDIMS };

/* The kept form is the other one with a new shape. */
static muster_expr *expand_keepdims(mst_draft *draft) {
    uint32_t mask;
    if (!draft->values[KEEPDIMS].integer) return NULL;
    if (mst_draft_axes(draft, AXIS, &mask) != MUSTER_OK) return draft->graph->error;
    const mst_type type = draft->inputs[0]->type;
    muster_expr *reduced = mst_apply(draft->graph, draft->op->id, draft->inputs, 1, (mst_graph_value[]){draft->values[AXIS], MST_NO_VALUE});
    return mst_keep_axes(reduced, &type, mask);
}

static muster_status infer_reduction(mst_draft *draft) {
    uint32_t mask;
    mst_type *type = &draft->types[0];
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    MUSTER_TRY(mst_draft_axes(draft, AXIS, &mask));
    type->dtype = draft->inputs[0]->type.dtype;
    type->ndim = 0;
    for (int32_t d = 0; d < draft->inputs[0]->type.ndim; d++)
        if (!(mask >> d & 1)) type->dims[type->ndim++] = draft->inputs[0]->type.dims[d];
    return MUSTER_OK;
}

static muster_status run_reduction(muster_worker *worker, const mst_step_run *run) {
    const muster_expr *node = run->node;
    if (run->in[0]->ndim == 0) return muster_copy(worker, *run->in[0], *run->out[0]);
    return muster_reduce_axes(worker, node->op->operation, *run->in[0], (int32_t)mst_axes_mask(&node->values[AXIS], run->in[0]->ndim),
                              *run->out[0]);
}

#define X (node->inputs[0])
static uint32_t mask_of(const muster_expr *node) { return mst_axes_mask(&node->values[AXIS], X->type.ndim); }

static void gradient_sum(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_broadcast_to(mst_keep_axes(dy, &X->type, mask_of(node)), &X->type));
}

static void gradient_mean(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    gradient_sum(gradients, node, MST_APPLY(node->graph, divide, dy, mst_extent(X, mask_of(node), node->type.dtype)));
}

/* (n, k): k the reduced elements. */
static muster_expr *as_rows(muster_expr *x, uint32_t mask, mst_dim *rows) {
    mst_graph *graph = x->graph;
    mst_dim dims[2] = {MST_DIM_ONE, MST_DIM_ONE};
    for (int32_t d = 0; d < x->type.ndim; d++) {
        mst_dim *dim = &dims[mask >> d & 1];
        *dim = mst_dim_multiply(graph, *dim, x->type.dims[d]);
    }
    int64_t axes[MUSTER_MAX_DIMS];
    muster_expr *last = mst_axes_last(x, mask, axes);
    if (dims[0] == MST_DIM_NONE || dims[1] == MST_DIM_NONE || mst_node_is_error(last)) return graph->error;
    *rows = dims[0];
    return mst_reshape_to(last, 2, dims);
}

/* The first of equal elements has the whole gradient: dy at the index of argmax, else 0. */
static void gradient_extreme(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_graph *graph = node->graph;
    const uint32_t mask = mask_of(node);
    mst_dim rows = MST_DIM_ONE;
    muster_expr *matrix = as_rows(X, mask, &rows);
    if (mst_node_is_error(matrix)) return;
    const int32_t arg = mst_node_is(node, MST_OPERATOR_max) ? MST_OPERATOR_argmax : MST_OPERATOR_argmin;
    muster_expr *index = mst_apply(graph, arg, &matrix, 1, (mst_graph_value[]){{.integer = 1}});
    muster_expr *hot =
        mst_apply(graph, MST_OPERATOR_one_hot, &index, 1,
                  (mst_graph_value[]){{.list = (int64_t[]){matrix->type.dims[1]}, .count = 1}, {.integer = node->type.dtype}});
    muster_expr *part = MST_APPLY(graph, multiply, hot, mst_reshape_to(dy, 2, (mst_dim[]){rows, MST_DIM_ONE}));
    if (mst_node_is_error(part)) return;
    int64_t axes[MUSTER_MAX_DIMS];
    muster_expr *last = mst_axes_last(X, mask, axes);
    mst_gradient_add(gradients, node, 0, mst_axes_back(mst_reshape_to(part, last->type.ndim, last->type.dims), axes));
}

#define REDUCTION(op_name, op, takes, text, ...)                                                                            \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),                                           \
                                                 .operation = (op),                                                         \
                                                 .operands = {"x"},                                                         \
                                                 .attributes = {{"axis", MST_VALUE_LIST}, {"keepdims", MST_VALUE_INTEGER}}, \
                                                 .dtypes = (takes),                                                         \
                                                 .expand = expand_keepdims,                                                 \
                                                 .infer = infer_reduction,                                                  \
                                                 .run = run_reduction,                                                      \
                                                 __VA_ARGS__}
REDUCTION(sum, MUSTER_SUM, MST_NUMBER_DTYPES, "the sum over the axes, or over all", .gradient = gradient_sum);
REDUCTION(mean, MUSTER_AVG, MST_FLOAT_DTYPES, "the average over the axes, or over all", .gradient = gradient_mean);
REDUCTION(max, MUSTER_MAX, MST_ALL_DTYPES, "the largest element; of equals the first has the gradient", .gradient = gradient_extreme);
REDUCTION(min, MUSTER_MIN, MST_ALL_DTYPES, "the smallest element; of equals the first has the gradient", .gradient = gradient_extreme);
REDUCTION(prod, MUSTER_PROD, MST_ALL_DTYPES, "the product over the axes, or over all",
          .no_gradient = "product / x is undefined where an element is 0; exp(sum(log(x))) has one for positive elements");

/* ---- argmax and argmin ---- */

enum { ARG_AXIS };

/* Any other layout becomes (n, k) with axis 1. No axis: the index among all elements. */
static muster_expr *expand_arg(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    mst_graph *graph = draft->graph;
    const mst_graph_value *value = &draft->values[ARG_AXIS];
    int32_t axis = 0;
    if (x->type.ndim == 2 && value->integer == 1) return NULL;
    if (value->integer != INT64_MIN && mst_draft_axis(draft, ARG_AXIS, &axis) != MUSTER_OK) return graph->error;
    const uint32_t mask = value->integer == INT64_MIN ? (1u << x->type.ndim) - 1 : 1u << axis;
    mst_dim rows = MST_DIM_ONE, dims[MUSTER_MAX_DIMS];
    muster_expr *matrix = as_rows(x, mask, &rows);
    if (mst_node_is_error(matrix)) return matrix;
    muster_expr *index = mst_apply(graph, draft->op->id, &matrix, 1, (mst_graph_value[]){{.integer = 1}});
    int32_t ndim = 0;
    for (int32_t d = 0; d < x->type.ndim; d++)
        if (!(mask >> d & 1)) dims[ndim++] = x->type.dims[d];
    return mst_node_is_error(index) ? index : mst_reshape_to(index, ndim, dims);
}

static muster_status infer_arg(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = MUSTER_I64, .ndim = 1, .dims = {draft->inputs[0]->type.dims[0]}};
    return MUSTER_OK;
}

static muster_status run_argmax(muster_worker *worker, const mst_step_run *run) { return muster_argmax(worker, *run->in[0], *run->out[0]); }
static muster_status run_argmin(muster_worker *worker, const mst_step_run *run) { return muster_argmin(worker, *run->in[0], *run->out[0]); }

#define ARG(op_name, text)                                                                                                 \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),                                          \
                                                 .operands = {"x"},                                                        \
                                                 .attributes = {{"axis", MST_VALUE_INTEGER, .number = (double)INT64_MIN}}, \
                                                 .expand = expand_arg,                                                     \
                                                 .infer = infer_arg,                                                       \
                                                 .run = run_##op_name,                                                     \
                                                 .no_gradient = "its result is an index"}
ARG(argmax, "the index of the largest element along the axis, or among all; the first of equals");
ARG(argmin, "the index of the smallest element along the axis, or among all; the first of equals");

/* ---- composites ---- */

static muster_status infer_nothing(mst_draft *draft) { return mst_draft_refuse(draft, MUSTER_INTERNAL, -1, "a composite operation"); }

/* The axes as a list of their own, from 0 on. False: refused. */
static bool read_axes(mst_draft *draft, mst_graph_value values[2], int64_t keepdims) {
    uint32_t mask;
    if (mst_draft_dtype(draft, 0, MST_FLOAT_DTYPES) != MUSTER_OK || mst_draft_axes(draft, AXIS, &mask) != MUSTER_OK) return false;
    values[AXIS] = draft->values[AXIS];
    values[KEEPDIMS] = (mst_graph_value){.integer = keepdims};
    return true;
}

static muster_expr *expand_var(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    mst_graph_value kept[2];
    if (!read_axes(draft, kept, 1)) return draft->graph->error;
    muster_expr *mean = mst_apply(draft->graph, MST_OPERATOR_mean, &x, 1, kept);
    muster_expr *squares = MST_APPLY(draft->graph, square, MST_APPLY(draft->graph, subtract, x, mean));
    kept[KEEPDIMS].integer = draft->values[KEEPDIMS].integer;
    return mst_apply(draft->graph, MST_OPERATOR_mean, &squares, 1, kept);
}

/* The largest element along the axes, as a constant: the results do not depend on it, but without
 * it exp would overflow. */
static muster_expr *largest(mst_draft *draft, const mst_graph_value kept[2]) {
    return MST_APPLY(draft->graph, stop_gradient, mst_apply(draft->graph, MST_OPERATOR_max, draft->inputs, 1, kept));
}

static muster_expr *expand_logsumexp(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    mst_graph_value kept[2];
    if (!read_axes(draft, kept, 1)) return graph->error;
    muster_expr *most = largest(draft, kept), *powers = MST_APPLY(graph, exp, MST_APPLY(graph, subtract, draft->inputs[0], most));
    const mst_type type = draft->inputs[0]->type;
    muster_expr *sum = MST_APPLY(graph, add, MST_APPLY(graph, log, mst_apply(graph, MST_OPERATOR_sum, &powers, 1, kept)), most);
    if (draft->values[KEEPDIMS].integer || mst_node_is_error(sum)) return sum;
    mst_dim dims[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    const uint32_t mask = mst_axes_mask(&kept[AXIS], type.ndim);
    for (int32_t d = 0; d < type.ndim; d++)
        if (!(mask >> d & 1)) dims[ndim++] = type.dims[d];
    return mst_reshape_to(sum, ndim, dims);
}

static muster_expr *expand_softmax(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    mst_graph_value kept[2];
    if (!read_axes(draft, kept, 1)) return graph->error;
    muster_expr *powers = MST_APPLY(graph, exp, MST_APPLY(graph, subtract, draft->inputs[0], largest(draft, kept)));
    return MST_APPLY(graph, divide, powers, mst_apply(graph, MST_OPERATOR_sum, &powers, 1, kept));
}

static muster_expr *expand_log_softmax(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    mst_graph_value kept[2];
    if (!read_axes(draft, kept, 1)) return graph->error;
    return MST_APPLY(graph, subtract, draft->inputs[0], mst_apply(graph, MST_OPERATOR_logsumexp, draft->inputs, 1, kept));
}

#define COMPOSITE(op_name, text, ...)                                                                                       \
    const mst_operator mst_operator_##op_name = {                                                                           \
        MST_ANY_OPERATOR(op_name, text), .operands = {"x"},          .attributes = {{"axis", MST_VALUE_LIST}, __VA_ARGS__}, \
        .dtypes = MST_FLOAT_DTYPES,      .expand = expand_##op_name, .infer = infer_nothing}
COMPOSITE(var, "the average of the squared distances from the average", {"keepdims", MST_VALUE_INTEGER});
COMPOSITE(logsumexp, "log(sum(exp(x))) over the axes, without overflow", {"keepdims", MST_VALUE_INTEGER});
COMPOSITE(softmax, "exp(x) / sum(exp(x)) over the axes, without overflow", {NULL, MST_VALUE_NONE});
COMPOSITE(log_softmax, "log(softmax(x)) over the axes", {NULL, MST_VALUE_NONE});
