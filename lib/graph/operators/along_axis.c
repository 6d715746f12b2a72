/* Elements by an index of their own along one axis, and rows by index along any axis. */
#include "composite_private.h"
#include "ops_impl.h"
#include "runtime_impl.h"

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

/* How an array lies as one vector: the elements along the axis are a group, for each place in the
 * other axes. With the axis last a group lies in one piece, and rows that count groups are parts of
 * the vector. With the axis first rows along the axis are parts of it. */
typedef struct along {
    int32_t axis;
    bool axis_first;
    mst_dim groups;
    int64_t axes[MUSTER_MAX_DIMS]; /* the order, once something has been flattened */
} along;

/* false: a size overflows. */
static bool along_make(const mst_draft *draft, int32_t axis, mst_dim size, along *made) {
    mst_graph *graph = draft->graph;
    *made = (along){.axis = axis, .groups = MST_DIM_ONE};
    for (int32_t d = 0; d < X->type.ndim; d++)
        if (d != axis) made->groups = mst_dim_multiply(graph, made->groups, X->type.dims[d]);
    if (made->groups == MST_DIM_NONE) return false;
    const mst_dim sizes[] = {X->type.dims[axis], Y->type.dims[axis], size};
    bool rows = false;
    for (int32_t i = 0; i < 3; i++) rows = rows || graph->dims[sizes[i]].powers[MST_SIZE_ROWS] != 0;
    made->axis_first = graph->dims[made->groups].powers[MST_SIZE_ROWS] == 0 && (axis == 0 || (rows && graph->runtime->total > 1));
    return true;
}

/* As a vector; *type, if not NULL, is that before it. */
static muster_expr *along_flat(along *a, muster_expr *x, mst_type *type) {
    const uint32_t axis = 1u << a->axis, others = ((1u << x->type.ndim) - 1) & ~axis;
    muster_expr *moved = mst_axes_last(x, a->axis_first ? others : axis, a->axes);
    if (mst_node_is_error(moved)) return moved;
    const mst_dim count = mst_dim_multiply(x->graph, a->groups, x->type.dims[a->axis]);
    if (type) *type = moved->type;
    return count == MST_DIM_NONE ? x->graph->error : mst_reshape_to(moved, 1, &count);
}

/* The places of the elements of a vector of groups with n elements each. The indices are in [0, n):
 * another one would be a place of another group. */
static muster_expr *along_places(along *a, muster_expr *indices, muster_expr *n) {
    mst_graph *graph = indices->graph;
    const mst_dim k = mst_node_is_error(indices) ? MST_DIM_NONE : indices->type.dims[a->axis];
    muster_expr *flat = along_flat(a, indices, NULL);
    if (a->groups == MST_DIM_ONE || mst_node_is_error(flat)) return flat;
    muster_expr *groups =
        mst_apply(graph, MST_OPERATOR_arange, NULL, 0,
                  (mst_graph_value[]){{.list = (int64_t[]){a->groups}, .count = 1}, {.number = 0}, {.number = 1}, {.integer = MUSTER_I64}});
    muster_expr *places;
    if (a->axis_first) {
        muster_expr *each =
            MST_APPLY(graph, multiply, mst_reshape_to(flat, 2, (mst_dim[]){k, a->groups}), mst_size_number(graph, a->groups, MUSTER_I64));
        places = MST_APPLY(graph, add, each, groups);
    } else {
        muster_expr *begins = MST_APPLY(graph, multiply, groups, n);
        if (mst_node_is_error(begins)) return begins;
        places = MST_APPLY(graph, add, mst_reshape_to(flat, 2, (mst_dim[]){a->groups, k}),
                           mst_reshape_to(begins, 2, (mst_dim[]){a->groups, MST_DIM_ONE}));
    }
    return mst_node_is_error(places) ? places : mst_reshape_to(places, 1, &flat->type.dims[0]);
}

/* The vector as an array of the shape `type`, which has `size` along the axis. */
static muster_expr *along_back(const along *a, muster_expr *flat, mst_type type, mst_dim size) {
    if (mst_node_is_error(flat)) return flat;
    type.dims[a->axis_first ? 0 : type.ndim - 1] = size;
    return mst_axes_back(mst_reshape_to(flat, type.ndim, type.dims), a->axes);
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

static muster_expr *expand_take_along_axis(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    int32_t axis = 0;
    mst_type type;
    along a;
    if (!indices_fit(draft, &axis, false) || !along_make(draft, axis, MST_DIM_ONE, &a)) return graph->error;
    muster_expr *places = along_places(&a, mst_indices_checked(draft, Y, X->type.dims[axis]), mst_extent(X, 1u << axis, MUSTER_I64));
    muster_expr *x = along_flat(&a, X, &type);
    if (mst_node_is_error(places) || mst_node_is_error(x)) return graph->error;
    muster_expr *taken =
        mst_apply(graph, MST_OPERATOR_take_within, MST_INPUTS(x, places), (mst_graph_value[]){{.list = (int64_t[]){a.groups}, .count = 1}});
    return along_back(&a, taken, type, Y->type.dims[axis]);
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
    int32_t axis = 0;
    mst_type type;
    along a;
    if (!indices_fit(draft, &axis, true) || mst_draft_sizes(draft, 0, 1) != MUSTER_OK) return graph->error;
    const mst_dim size = (mst_dim)draft->values[0].list[0];
    if (!along_make(draft, axis, size, &a)) return graph->error;
    const mst_dim total = mst_dim_multiply(graph, a.groups, size);
    muster_expr *places = along_places(&a, mst_indices_checked(draft, Y, size), mst_size_number(graph, size, MUSTER_I64));
    muster_expr *x = along_flat(&a, X, &type);
    if (total == MST_DIM_NONE || mst_node_is_error(places) || mst_node_is_error(x)) return graph->error;
    muster_expr *sums =
        mst_apply(graph, MST_OPERATOR_scatter_add_within, MST_INPUTS(x, places),
                  (mst_graph_value[]){{.list = (int64_t[]){total}, .count = 1}, {.list = (int64_t[]){a.groups}, .count = 1}});
    return along_back(&a, sums, type, size);
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
