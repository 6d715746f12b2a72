/* Rows by index. */
#include "operators_private.h"
#include "ops_impl.h"
#include "runtime_impl.h"

#define X (node->inputs[0])

enum { SCATTER_ROWS, SCATTER_AXIS };

/* ---- take ---- */

/* Indices of any shape become a vector; another axis than 0 is moved there. */
static muster_expr *expand_take(mst_draft *draft) {
    muster_expr *x = draft->inputs[0], *indices = draft->inputs[1];
    mst_graph *graph = draft->graph;
    int32_t axis;
    if (x->type.ndim == 0) {
        (void)mst_draft_ndim(draft, 0, 1);
        return graph->error;
    }
    if (mst_draft_axis(draft, 0, &axis) != MUSTER_OK) return graph->error;
    draft->values[0].integer = axis;
    if (axis == 0 && indices->type.ndim == 1) return NULL;
    if (x->type.ndim - 1 + indices->type.ndim > MUSTER_MAX_DIMS) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 1, "expected a result of at most %d dimensions, received %d", MUSTER_MAX_DIMS,
                               (int)(x->type.ndim - 1 + indices->type.ndim));
        return graph->error;
    }
    int64_t axes[MUSTER_MAX_DIMS] = {axis};
    for (int32_t d = 1; d < x->type.ndim; d++) axes[d] = d <= axis ? d - 1 : d;
    mst_dim count = MST_DIM_ONE;
    for (int32_t d = 0; d < indices->type.ndim; d++) count = mst_dim_multiply(graph, count, indices->type.dims[d]);
    if (count == MST_DIM_NONE) return graph->error;
    muster_expr *flat = mst_reshape_to(indices, 1, &count);
    muster_expr *moved = mst_transpose_to(x, axes);
    muster_expr *rows = mst_apply(graph, MST_OPERATOR_take, MST_INPUTS(moved, flat), (mst_graph_value[]){MST_NO_VALUE});
    if (mst_node_is_error(rows)) return rows;
    /* (count, the other axes) -> the axes of the indices at the place of `axis` */
    mst_dim dims[2 * MUSTER_MAX_DIMS];
    int64_t order[MUSTER_MAX_DIMS];
    const int32_t k = indices->type.ndim, ndim = k + x->type.ndim - 1;
    for (int32_t d = 0; d < k; d++) dims[d] = indices->type.dims[d];
    for (int32_t d = 1; d < x->type.ndim; d++) dims[k + d - 1] = moved->type.dims[d];
    muster_expr *shaped = mst_reshape_to(rows, ndim, dims);
    for (int32_t d = 0; d < ndim; d++) order[d] = d < axis ? k + d : d < axis + k ? d - axis : d;
    return mst_transpose_to(shaped, order);
}

static muster_status infer_take(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_ALL_DTYPES));
    MUSTER_TRY(mst_draft_dtype(draft, 1, MST_INDEX_DTYPES));
    draft->types[0] = *x;
    draft->types[0].dims[0] = draft->inputs[1]->type.dims[0];
    return MUSTER_OK;
}

/* The table is whole, or parts of all its rows; whatever combines partial tables combines their
 * rows, too. Of a table that is cut between its rows each worker takes those that it has, and 0 for
 * the others, of floats -0: partial sums, which have the bits of the table. With logical shards a
 * worker has several parts. */
static bool distribute_take(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const bool rows = result.kind == MST_CUT && result.axis == 0;
    operands[0] = rows ? MST_DISTRIBUTED_SAME : result;
    operands[1] = rows ? result : MST_DISTRIBUTED_SAME;
    if (way == 0 || result.kind != MST_PARTIAL || result.op != MUSTER_SUM) return way == 0;
    operands[0] = MST_DISTRIBUTED_CUT(0);
    return way == 1 && MST_NUMBER_DTYPES & MST_DTYPE_BIT(node->type.dtype) && !node->graph->runtime->logical_shards;
}

/* The table's rows: the first that the worker has, and how many all workers have. */
static int64_t rows_begin(const mst_step_run *run, const muster_expr *table, int64_t *total) {
    const mst_dim rows = table->type.dims[0];
    *total = mst_dim_value(table->graph, rows, run->sizes);
    if (!run->sharing || table->distribution.kind != MST_CUT || table->distribution.axis != 0) return 0;
    return mst_cut_edge(table->graph, rows, run->sizes, run->sharing, run->sharing->rank);
}

static muster_status run_take(muster_worker *worker, const mst_step_run *run) {
    int64_t total;
    const int64_t begin = rows_begin(run, run->node->inputs[0], &total);
    return mst_worker_take_part(worker, *run->in[0], *run->in[1], begin, total, *run->out[0]);
}

static void gradient_take(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_scatter_add, MST_INPUTS(dy, node->inputs[1]),
                               (mst_graph_value[]){{.list = (int64_t[]){X->type.dims[0]}, .count = 1}, MST_NO_VALUE}));
}

const mst_operator mst_operator_take = {MST_ANY_OPERATOR(take, "the parts of x at the indices along the axis"),
                                        .operands = {"x", "indices"},
                                        .attributes = {{"axis", MST_VALUE_INTEGER}},
                                        .expand = expand_take,
                                        .infer = infer_take,
                                        .distribute = distribute_take,
                                        .run = run_take,
                                        .gradient = gradient_take};

/* Another axis than 0 is moved there, and back. */
static muster_expr *expand_scatter_add(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    int32_t axis;
    int64_t axes[MUSTER_MAX_DIMS];
    if (draft->values[SCATTER_AXIS].integer == 0 || x->type.ndim == 0) return NULL;
    if (mst_draft_axis(draft, SCATTER_AXIS, &axis) != MUSTER_OK) return draft->graph->error;
    draft->values[SCATTER_AXIS].integer = 0;
    if (axis == 0) return NULL;
    axes[0] = axis;
    for (int32_t d = 1; d < x->type.ndim; d++) axes[d] = d <= axis ? d - 1 : d;
    muster_expr *moved = mst_transpose_to(x, axes);
    muster_expr *sums = mst_apply(draft->graph, MST_OPERATOR_scatter_add, MST_INPUTS(moved, draft->inputs[1]), draft->values);
    return mst_node_is_error(sums) ? sums : mst_axes_back(sums, axes);
}

static muster_status infer_scatter_add(mst_draft *draft) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    const mst_type *x = &draft->inputs[0]->type, *indices = &draft->inputs[1]->type;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_NUMBER_DTYPES));
    MUSTER_TRY(mst_draft_dtype(draft, 1, MST_INDEX_DTYPES));
    MUSTER_TRY(mst_draft_ndim(draft, 1, 1));
    if (x->ndim == 0 || x->dims[0] != indices->dims[0])
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected one index for each row of %s, received %s",
                                mst_node_text(draft->inputs[0], "x", expected), mst_type_text(draft->graph, indices, received));
    MUSTER_TRY(mst_draft_sizes(draft, 0, 1));
    draft->types[0] = *x;
    draft->types[0].dims[0] = (mst_dim)draft->values[0].list[0];
    return MUSTER_OK;
}

/* Of parts of x each worker has partial sums. Its rows of the result it adds up from all of x. */
static bool distribute_scatter_add(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) {
        operands[0] = way == 0 ? MST_DISTRIBUTED_CUT(0) : result;
        operands[1] = way == 0 ? MST_DISTRIBUTED_CUT(0) : MST_DISTRIBUTED_SAME;
        return way < 2 && result.op == MUSTER_SUM;
    }
    operands[0] = result.axis == 0 ? MST_DISTRIBUTED_SAME : result;
    operands[1] = MST_DISTRIBUTED_SAME;
    (void)node;
    return way == 0;
}

static muster_status run_scatter_add(muster_worker *worker, const mst_step_run *run) {
    int64_t total;
    const int64_t begin = rows_begin(run, run->node, &total);
    MUSTER_TRY(muster_fill(worker, 0, *run->out[0]));
    return mst_worker_scatter_add_part(worker, *run->in[0], *run->in[1], begin, total, *run->out[0]);
}

static void gradient_scatter_add(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_take, MST_INPUTS(dy, node->inputs[1]), (mst_graph_value[]){MST_NO_VALUE}));
}

const mst_operator mst_operator_scatter_add = {
    MST_ANY_OPERATOR(scatter_add, "zeros, of size `rows` along the axis, to which part i of x is added at part indices[i]"),
    .operands = {"x", "indices"},
    .attributes = {{"rows", MST_VALUE_DIMS, .required = true}, {"axis", MST_VALUE_INTEGER}},
    .expand = expand_scatter_add,
    .infer = infer_scatter_add,
    .distribute = distribute_scatter_add,
    .run = run_scatter_add,
    .gradient = gradient_scatter_add};

/* ---- of vectors that are made of groups, whose indices stay in their group ---- */

/* The indices are places of such vectors, made of indices that check_indices let through. They are
 * not looked at again, which on a GPU waits for it. The attribute `groups` counts the groups. */
enum { TAKE_GROUPS, SCATTER_GROUPS = 1 };

/* Do the rows of a call count the groups? Only then a worker has whole groups: where rows count the
 * elements of a group, its indices lead to the parts of other workers. */
static bool groups_are_rows(const muster_expr *node) {
    const int32_t attribute = mst_node_is(node, MST_OPERATOR_take_within) ? TAKE_GROUPS : SCATTER_GROUPS;
    return node->graph->dims[node->values[attribute].list[0]].powers[MST_SIZE_ROWS] != 0;
}

/* The parts of x, the indices and the result are of the same groups. The result is proportional
 * to x. */
static bool distribute_groups(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way) return false;
    if (result.kind != MST_CUT) return mst_distribute_scaled(node, result, 0, operands);
    operands[0] = operands[1] = result;
    return true;
}

static bool distribute_take_within(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return groups_are_rows(node) ? distribute_groups(node, result, way, operands) : distribute_take(node, result, way, operands);
}

static muster_status run_take_within(muster_worker *worker, const mst_step_run *run) {
    int64_t total;
    const int64_t begin = rows_begin(run, run->node->inputs[0], &total);
    return mst_worker_take_part(worker, *run->in[0], *run->in[1], begin, MST_INDICES_CHECKED, *run->out[0]);
}

static void gradient_take_within(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_scatter_add_within, MST_INPUTS(dy, node->inputs[1]),
                               (mst_graph_value[]){{.list = (int64_t[]){X->type.dims[0]}, .count = 1}, node->values[TAKE_GROUPS]}));
}

const mst_operator mst_operator_take_within = {
    MST_ANY_OPERATOR(take_within, "take of vectors that are made of groups, from the group in which each index lies"),
    .operands = {"x", "indices"},
    .attributes = {{"groups", MST_VALUE_DIMS, .required = true}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_take,
    .distribute = distribute_take_within,
    .run = run_take_within,
    .gradient = gradient_take_within};

static bool distribute_scatter_add_within(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return groups_are_rows(node) ? distribute_groups(node, result, way, operands) : distribute_scatter_add(node, result, way, operands);
}

static muster_status run_scatter_add_within(muster_worker *worker, const mst_step_run *run) {
    int64_t total;
    const int64_t begin = rows_begin(run, run->node, &total);
    MUSTER_TRY(muster_fill(worker, 0, *run->out[0]));
    return mst_worker_scatter_add_part(worker, *run->in[0], *run->in[1], begin, MST_INDICES_CHECKED, *run->out[0]);
}

static void gradient_scatter_add_within(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_take_within, MST_INPUTS(dy, node->inputs[1]),
                               (mst_graph_value[]){node->values[SCATTER_GROUPS]}));
}

const mst_operator mst_operator_scatter_add_within = {
    MST_ANY_OPERATOR(scatter_add_within, "scatter_add of vectors that are made of groups, into the group in which each index lies"),
    .operands = {"x", "indices"},
    .attributes = {{"rows", MST_VALUE_DIMS, .required = true}, {"groups", MST_VALUE_DIMS, .required = true}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_scatter_add,
    .distribute = distribute_scatter_add_within,
    .run = run_scatter_add_within,
    .gradient = gradient_scatter_add_within};

/* ---- one_hot ---- */

static muster_status infer_one_hot(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_INDEX_DTYPES));
    MUSTER_TRY(mst_draft_ndim(draft, 0, 1));
    MUSTER_TRY(mst_draft_sizes(draft, 0, 1));
    draft->types[0] = (mst_type){.dtype = (muster_dtype)draft->values[1].integer,
                                 .ndim = 2,
                                 .dims = {draft->inputs[0]->type.dims[0], (mst_dim)draft->values[0].list[0]}};
    return MUSTER_OK;
}

static muster_status run_one_hot(muster_worker *worker, const mst_step_run *run) {
    return muster_one_hot(worker, *run->in[0], run->out[0]->shape[1], *run->out[0]);
}

static bool distribute_one_hot(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    operands[0] = result;
    (void)node;
    return way == 0 && result.kind == MST_CUT && result.axis == 0;
}

const mst_operator mst_operator_one_hot = {
    MST_ANY_OPERATOR(one_hot, "(n, k) with 1 at (i, labels[i]), else 0"),
    .operands = {"labels"},
    .attributes = {{"k", MST_VALUE_DIMS, .required = true}, {"dtype", MST_VALUE_DTYPE, .number = MUSTER_F32}},
    .infer = infer_one_hot,
    .distribute = distribute_one_hot,
    .run = run_one_hot,
    .no_gradient = "labels are integers"};
