/* Elements by an index of their own along one axis, and rows by index along any axis. */
#include "composite_private.h"
#include "ops_impl.h"

/* ---- indices in range ---- */

enum { CHECK_BOUND, CHECK_OPERATOR }; /* the attributes of check_indices */

static muster_status infer_check_indices(mst_draft *draft) {
    draft->types[0] = X->type;
    draft->types[0].dtype = MUSTER_I64;
    return MUSTER_OK;
}

static bool distribute_check_indices(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return result.kind == MST_CUT && mst_distribute_elementwise(node, result, way, operands);
}

static muster_status run_check_indices(muster_worker *worker, const mst_step_run *run) {
    const mst_graph_value *values = run->node->values;
    const mst_operator *op = mst_operators[values[CHECK_OPERATOR].integer];
    const int64_t bound = mst_dim_value(run->node->graph, (mst_dim)values[CHECK_BOUND].list[0], run->sizes);
    MUSTER_TRY(muster_copy(worker, *run->in[0], *run->out[0]));
    const int64_t count = muster_tensor_count(*run->out[0]);
    const muster_tensor all = muster_tensor_make(MUSTER_I64, run->out[0]->data, 1, &count);
    return mst_worker_check_indices(worker, all, bound, op->name, op->operands[1]);
}

const mst_operator mst_operator_check_indices = {
    MST_ANY_OPERATOR(check_indices, "the indices as i64, all of which are in [0, bound); else the message names operand 1 of the operator"),
    .operands = {"indices"},
    .attributes = {{"bound", MST_VALUE_DIMS, .required = true}, {"operator", MST_VALUE_INTEGER, .required = true}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_check_indices,
    .distribute = distribute_check_indices,
    .run = run_check_indices,
    .no_gradient = "indices are integers"};

const char *mst_node_asked_name(const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_check_indices) ? mst_operators[node->values[CHECK_OPERATOR].integer]->name : node->op->name;
}

muster_expr *mst_indices_checked(const mst_draft *draft, muster_expr *indices, mst_dim bound) {
    if (mst_node_is_error(indices)) return indices;
    if (mst_node_is(indices, MST_OPERATOR_check_indices) && indices->values[CHECK_BOUND].list[0] == bound) return indices;
    return mst_apply(draft->graph, MST_OPERATOR_check_indices, &indices, 1,
                     (mst_graph_value[]){{.list = (int64_t[]){bound}, .count = 1}, {.integer = draft->op->id}});
}

/* ---- places ---- */

/* The places of the elements (others..., index) in an array (others..., n), counted from its first
 * element. indices (others..., k), whose values are in [0, n): another one would be a place of
 * another row. */
static muster_expr *flat_places(mst_graph *graph, muster_expr *indices, mst_dim rows, muster_expr *n) {
    if (mst_node_is_error(indices)) return indices;
    const mst_dim k = indices->type.dims[indices->type.ndim - 1];
    muster_expr *numbers =
        mst_apply(graph, MST_OPERATOR_arange, NULL, 0,
                  (mst_graph_value[]){{.list = (int64_t[]){rows}, .count = 1}, {.number = 0}, {.number = 1}, {.integer = MUSTER_I64}});
    muster_expr *begins = MST_APPLY(graph, multiply, numbers, n);
    if (mst_node_is_error(begins)) return begins;
    muster_expr *places =
        MST_APPLY(graph, add, mst_reshape_to(indices, 2, (mst_dim[]){rows, k}), mst_reshape_to(begins, 2, (mst_dim[]){rows, MST_DIM_ONE}));
    const mst_dim total = mst_dim_multiply(graph, rows, k);
    return total == MST_DIM_NONE || mst_node_is_error(places) ? graph->error : mst_reshape_to(places, 1, &total);
}

/* Indices have the shape of x but for the axis. */
static bool indices_fit(mst_draft *draft, int32_t *axis, bool same) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK || mst_draft_dtype(draft, 1, MST_INDEX_DTYPES) != MUSTER_OK) return false;
    bool fits = X->type.ndim == Y->type.ndim && X->type.ndim > 0;
    if (X->type.ndim > 0 && mst_draft_axis(draft, mst_operator_attribute_count(draft->op) - 1, axis) != MUSTER_OK) return false;
    for (int32_t d = 0; fits && d < X->type.ndim; d++) fits = (d == *axis && !same) || X->type.dims[d] == Y->type.dims[d];
    if (fits) return true;
    (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected the shape of %s%s, received %s", mst_node_text(X, "x", expected),
                           same ? "" : " but for the axis", mst_type_text(draft->graph, &Y->type, received));
    return false;
}

/* The array with the axis last and `size` in its place, as a type. false: a size overflows. */
static bool type_with_axis_last(const mst_type *x, int32_t axis, mst_dim size, mst_graph *graph, mst_type *type, mst_dim *rows) {
    *type = (mst_type){.dtype = x->dtype};
    *rows = MST_DIM_ONE;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (d == axis) continue;
        type->dims[type->ndim++] = x->dims[d];
        *rows = mst_dim_multiply(graph, *rows, x->dims[d]);
        if (*rows == MST_DIM_NONE) return false;
    }
    type->dims[type->ndim++] = size;
    return true;
}

static muster_expr *expand_take_along_axis(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    int32_t axis = 0;
    mst_type type;
    mst_dim rows;
    int64_t axes[MUSTER_MAX_DIMS];
    if (!indices_fit(draft, &axis, false) || !type_with_axis_last(&X->type, axis, Y->type.dims[axis], graph, &type, &rows))
        return graph->error;
    muster_expr *indices = mst_indices_checked(draft, Y, X->type.dims[axis]);
    if (mst_node_is_error(indices)) return indices;
    muster_expr *places = flat_places(graph, mst_axes_last(indices, 1u << axis, axes), rows, mst_extent(X, 1u << axis, MUSTER_I64));
    const mst_dim total = mst_dim_multiply(graph, rows, X->type.dims[axis]);
    muster_expr *last = mst_axes_last(X, 1u << axis, axes);
    if (total == MST_DIM_NONE || mst_node_is_error(places) || mst_node_is_error(last)) return graph->error;
    muster_expr *taken = E(take_within, mst_reshape_to(last, 1, &total), places);
    return mst_node_is_error(taken) ? taken : mst_axes_back(mst_reshape_to(taken, type.ndim, type.dims), axes);
}

const mst_operator mst_operator_take_along_axis = {
    MST_ANY_OPERATOR(take_along_axis, "the element of x at its index along the axis, for each element of indices"),
    .operands = {"x", "indices"},
    .attributes = {{"axis", MST_VALUE_INTEGER, .required = true}},
    .dtypes = MST_ALL_DTYPES,
    .expand = expand_take_along_axis,
    .infer = mst_draft_composite};

static muster_expr *expand_add_along_axis(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    const mst_graph_value *size = &draft->values[0];
    int32_t axis = 0;
    mst_type type;
    mst_dim rows;
    int64_t axes[MUSTER_MAX_DIMS];
    if (!indices_fit(draft, &axis, true)) return graph->error;
    if (mst_draft_sizes(draft, 0, 1) != MUSTER_OK) return graph->error;
    if (!type_with_axis_last(&X->type, axis, (mst_dim)size->list[0], graph, &type, &rows)) return graph->error;
    muster_expr *n = mst_size_number(graph, (mst_dim)size->list[0], MUSTER_I64);
    muster_expr *indices = mst_indices_checked(draft, Y, (mst_dim)size->list[0]);
    if (mst_node_is_error(indices)) return indices;
    muster_expr *places = flat_places(graph, mst_axes_last(indices, 1u << axis, axes), rows, n);
    const mst_dim total = mst_dim_multiply(graph, rows, (mst_dim)size->list[0]), given = mst_dim_multiply(graph, rows, X->type.dims[axis]);
    muster_expr *last = mst_axes_last(X, 1u << axis, axes);
    if (total == MST_DIM_NONE || given == MST_DIM_NONE || mst_node_is_error(places) || mst_node_is_error(last)) return graph->error;
    muster_expr *sums = mst_apply(graph, MST_OPERATOR_scatter_add_within, MST_INPUTS(mst_reshape_to(last, 1, &given), places),
                                  (mst_graph_value[]){{.list = (int64_t[]){total}, .count = 1}});
    return mst_node_is_error(sums) ? sums : mst_axes_back(mst_reshape_to(sums, type.ndim, type.dims), axes);
}

const mst_operator mst_operator_add_along_axis = {
    MST_ANY_OPERATOR(add_along_axis, "zeros, of this size along the axis, to which each element of x is added at its index"),
    .operands = {"x", "indices"},
    .attributes = {{"size", MST_VALUE_DIMS, .required = true}, {"axis", MST_VALUE_INTEGER, .required = true}},
    .dtypes = MST_NUMBER_DTYPES,
    .expand = expand_add_along_axis,
    .infer = mst_draft_composite};

static muster_expr *expand_embedding(mst_draft *draft) { return E(take, X, Y); }

const mst_operator mst_operator_embedding = {MST_ANY_OPERATOR(embedding, "the row of the table at each index: take along axis 0"),
                                             .operands = {"table", "indices"}, .expand = expand_embedding, .infer = mst_draft_composite};
