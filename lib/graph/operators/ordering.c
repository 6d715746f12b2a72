/* Running sums, sorting, triangles, and sequences. */
#include "elementwise_private.h"

#include <math.h>

/* ---- cumsum ---- */

enum { CUMSUM_AXIS, CUMSUM_DTYPE };

static muster_expr *cumsum_in(muster_expr *x, int64_t axis, muster_dtype dtype) {
    if (mst_node_is_error(x)) return x;
    return mst_apply(x->graph, MST_OPERATOR_cumsum, &x, 1, (mst_graph_value[]){{.integer = axis}, {.integer = dtype}});
}

/* As of sum: what the kernel does not do at once is a cumsum in the wider dtype, and a cast. */
static muster_expr *expand_cumsum(mst_draft *draft) {
    char text[128];
    int32_t axis;
    muster_expr *x = draft->inputs[0];
    const muster_dtype from = x->type.dtype, usual = mst_dtype_summed(from), asked = (muster_dtype)draft->values[CUMSUM_DTYPE].integer;
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK || mst_draft_axis(draft, CUMSUM_AXIS, &axis) != MUSTER_OK)
        return draft->graph->error;
    if (asked == MUSTER_BOOL) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "dtype: expected %s, received bool",
                               mst_dtypes_text(text, MST_NUMBER_DTYPES));
        return draft->graph->error;
    }
    draft->values[CUMSUM_AXIS].integer = axis;
    if (asked == usual) draft->values[CUMSUM_DTYPE].integer = MUSTER_DTYPE_NONE;
    if (!asked || asked == usual) return NULL;
    if (mst_dtype_is_float(from)) {
        if (!mst_dtype_is_float(asked)) return mst_cast_to(cumsum_in(x, axis, MUSTER_F64), asked);
        return mst_dtype_upcasts(from, asked) ? NULL : mst_cast_to(cumsum_in(x, axis, mst_dtype_wider(from, asked)), asked);
    }
    if (!mst_dtype_is_float(asked)) return NULL;
    if (muster_dtype_size(from) == 8) x = mst_cast_to(x, MUSTER_F64);
    return mst_cast_to(cumsum_in(x, axis, MUSTER_DTYPE_NONE), asked);
}

static muster_status infer_cumsum(mst_draft *draft) {
    const muster_dtype asked = (muster_dtype)draft->values[CUMSUM_DTYPE].integer;
    MUSTER_TRY(mst_draft_same(draft));
    draft->types[0].dtype = asked ? asked : mst_dtype_summed(draft->inputs[0]->type.dtype);
    return MUSTER_OK;
}

static muster_status run_cumsum(muster_worker *worker, const mst_step_run *run) {
    return mst_cumsum_launch(worker, run->in[0], (int32_t)run->node->values[CUMSUM_AXIS].integer, run->out[0]);
}

static muster_expr *flipped(muster_expr *x, int64_t axis) {
    return mst_apply(x->graph, MST_OPERATOR_flip, &x, 1, (mst_graph_value[]){{.list = &axis, .count = 1}});
}

static void gradient_cumsum(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const int64_t axis = node->values[CUMSUM_AXIS].integer;
    muster_expr *reversed = flipped(mst_cast_to(dy, X->type.dtype), axis);
    mst_gradient_add(gradients, node, 0, flipped(cumsum_in(reversed, axis, MUSTER_DTYPE_NONE), axis));
}

/* The running sums of partial sums are partial sums, too. */
static bool distribute_cumsum(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way || (result.kind == MST_PARTIAL && result.op != MUSTER_SUM)) return false;
    return mst_distribute_alike(node, result, 1u << node->values[CUMSUM_AXIS].integer, operands);
}

const mst_operator mst_operator_cumsum = {
    MST_ANY_OPERATOR(cumsum, "the sums up to and with each element along the axis, in the dtype of sum; dtype: of the result"),
    .operands = {"x"},
    .attributes = {{"axis", MST_VALUE_INTEGER, .required = true}, {"dtype", MST_VALUE_DTYPE}},
    .dtypes = MST_ALL_DTYPES,
    .in_place = 1,
    .expand = expand_cumsum,
    .infer = infer_cumsum,
    .distribute = distribute_cumsum,
    .run = run_cumsum,
    .gradient = gradient_cumsum};

/* ---- sorting: an operation along the last axis, ascending ---- */

enum { SORT_AXIS, SORT_DESCENDING };

static muster_expr *flipped_last(muster_expr *x) { return mst_node_is_error(x) ? x : flipped(x, x->type.ndim - 1); }

/* Another axis becomes the last one. Descending rows are those that, in reverse, ascend: equal
 * elements keep their order, and NaN comes first. */
static muster_expr *expand_sort(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    muster_expr *x = draft->inputs[0];
    mst_graph_value *given = &draft->values[SORT_AXIS];
    const bool descending = draft->values[SORT_DESCENDING].integer != 0;
    int64_t axes[MUSTER_MAX_DIMS];
    if (x->type.ndim == 0) return NULL; /* which is refused */
    uint32_t mask = 1u << (x->type.ndim - 1);
    if (mst_draft_flag(draft, SORT_DESCENDING) != MUSTER_OK) return graph->error;
    if (given->count > 1) {
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "axis: expected one axis, received %d", (int)given->count);
        return graph->error;
    }
    if (given->count && mst_draft_axes(draft, SORT_AXIS, &mask) != MUSTER_OK) return graph->error;
    *given = MST_NO_VALUE;
    if (mask == 1u << (x->type.ndim - 1) && !descending) return NULL;
    x = mst_axes_last(x, mask, axes);
    if (descending) x = flipped_last(x);
    muster_expr *y = mst_apply(graph, draft->op->id, &x, 1, NULL);
    if (descending && draft->op->id == MST_OPERATOR_argsort) {
        muster_expr *last = MST_APPLY(graph, subtract, mst_extent(draft->inputs[0], mask, MUSTER_I64), mst_number(graph, MUSTER_I64, 1));
        y = MST_APPLY(graph, subtract, last, y);
    }
    if (descending) y = flipped_last(y);
    return mst_node_is_error(y) ? y : mst_axes_back(y, axes);
}

static muster_status infer_sort(mst_draft *draft) {
    if (draft->inputs[0]->type.ndim == 0)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected 1 dimension or more, received ()");
    return mst_draft_same(draft);
}

static muster_status infer_argsort(mst_draft *draft) {
    MUSTER_TRY(infer_sort(draft));
    draft->types[0].dtype = MUSTER_I64;
    return MUSTER_OK;
}

static muster_status run_sort(muster_worker *worker, const mst_step_run *run) { return muster_sort(worker, *run->in[0], *run->out[0]); }
static muster_status run_argsort(muster_worker *worker, const mst_step_run *run) {
    return muster_argsort(worker, *run->in[0], *run->out[0]);
}

/* The elements of dy back at the places from which sorting, or the choice of the largest, took
 * them. */
static muster_expr *put_back(muster_expr *x, muster_expr *index, muster_expr *dy) {
    const int32_t last = x->type.ndim - 1;
    return mst_apply(x->graph, MST_OPERATOR_add_along_axis, MST_INPUTS(dy, index),
                     (mst_graph_value[]){{.list = (int64_t[]){x->type.dims[last]}, .count = 1}, {.integer = last}});
}

static void gradient_sort(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, put_back(X, G(argsort, X), dy));
}

#define SORT_ATTRIBUTES .attributes = {{"axis", MST_VALUE_LIST}, {"descending", MST_VALUE_INTEGER}}, .expand = expand_sort

const mst_operator mst_operator_sort = {
    MST_ANY_OPERATOR(sort, "the elements along the axis, or the last, ascending, NaN last; or descending, NaN first"),
    .operands = {"x"},
    SORT_ATTRIBUTES,
    .dtypes = MST_ALL_DTYPES,
    .infer = infer_sort,
    .distribute = mst_distribute_along_last,
    .run = run_sort,
    .gradient = gradient_sort};
const mst_operator mst_operator_argsort = {
    MST_ANY_OPERATOR(argsort, "the places of the elements that sort would give; equal ones keep their order"),
    .operands = {"x"},
    SORT_ATTRIBUTES,
    .dtypes = MST_ALL_DTYPES,
    .infer = infer_argsort,
    .distribute = mst_distribute_along_last,
    .run = run_argsort,
    .no_gradient = "its result is an index"};

static muster_status infer_top_k(mst_draft *draft) {
    char text[MST_NODE_TEXT];
    const mst_graph_value *k = &draft->values[0];
    MUSTER_TRY(infer_sort(draft));
    const int32_t last = draft->types[0].ndim - 1;
    MUSTER_TRY(mst_draft_sizes(draft, 0, 1));
    const int64_t size = mst_dim_constant(draft->graph, draft->types[0].dims[last]),
                  wanted = mst_dim_constant(draft->graph, (mst_dim)k->list[0]);
    if (size >= 0 && wanted > size)
        return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "k: expected at most the last size of %s, received %lld",
                                mst_node_text(draft->inputs[0], "x", text), (long long)wanted);
    draft->types[0].dims[last] = (mst_dim)k->list[0];
    draft->types[1] = draft->types[0];
    draft->types[1].dtype = MUSTER_I64;
    return MUSTER_OK;
}

static muster_status run_top_k(muster_worker *worker, const mst_step_run *run) {
    muster_tensor index = *run->out[1];
    if (index.dtype == MUSTER_DTYPE_NONE)
        MUSTER_TRY(muster_worker_scratch(worker, MUSTER_I64, run->out[0]->ndim, run->out[0]->shape, &index));
    return muster_top_k(worker, *run->in[0], run->out[0]->shape[run->out[0]->ndim - 1], *run->out[0], index);
}

static void gradient_top_k(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, put_back(X, muster_expr_result(node, 1), dy));
}

const mst_operator mst_operator_top_k = {
    MST_ANY_OPERATOR(top_k, "the k largest elements of each row, descending; of equals the first; result 1: their places"),
    .operands = {"x"},
    .attributes = {{"k", MST_VALUE_DIMS, .required = true}},
    .dtypes = MST_ALL_DTYPES,
    .results = 2,
    .infer = infer_top_k,
    .distribute = mst_distribute_along_last,
    .run = run_top_k,
    .gradient = gradient_top_k};

/* ---- triangles ---- */

static muster_status infer_triangle(mst_draft *draft) {
    char text[MST_NODE_TEXT];
    if (draft->inputs[0]->type.ndim < 2)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected 2 dimensions or more, received %s",
                                mst_type_text(draft->graph, &draft->inputs[0]->type, text));
    return mst_draft_same(draft);
}

/* The place of a diagonal in a part that begins at another row or column. */
static int64_t diagonal_in_part(const mst_step_run *run, int64_t k) {
    const int32_t ndim = run->node->type.ndim;
    const int64_t shift = mst_part_begin(run, ndim - 2) - mst_part_begin(run, ndim - 1);
    if (k > 0 && shift > INT64_MAX - k) return INT64_MAX;
    return k < 0 && shift < INT64_MIN - k ? INT64_MIN : k + shift;
}

static bool distribute_triangle(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && mst_distribute_alike(node, result, 0, operands);
}

static muster_status run_tril(muster_worker *worker, const mst_step_run *run) {
    return muster_tril(worker, *run->in[0], diagonal_in_part(run, run->node->values[0].integer), *run->out[0]);
}
static muster_status run_triu(muster_worker *worker, const mst_step_run *run) {
    return muster_triu(worker, *run->in[0], diagonal_in_part(run, run->node->values[0].integer), *run->out[0]);
}

static void gradient_triangle(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_apply(node->graph, node->op->id, &dy, 1, node->values));
}

#define TRIANGLE(op_name, text)                                                                            \
    const mst_operator mst_operator_##op_name = {                                                          \
        MST_ANY_OPERATOR(op_name, text),   .operands = {"x"},    .attributes = {{"k", MST_VALUE_INTEGER}}, \
        .dtypes = MST_ALL_DTYPES,          .in_place = 1,        .infer = infer_triangle,                  \
        .distribute = distribute_triangle, .run = run_##op_name, .gradient = gradient_triangle}
TRIANGLE(tril, "x where column - row is at most k, else 0, in its last two axes");
TRIANGLE(triu, "x where column - row is at least k, else 0, in its last two axes");

/* ---- sequences ---- */

enum { SHAPE, START, INCREMENT, DTYPE };

static muster_status infer_sequence(mst_draft *draft, int32_t ndim, int32_t dtype) {
    const mst_graph_value *shape = &draft->values[SHAPE];
    MUSTER_TRY(mst_draft_sizes(draft, SHAPE, ndim));
    mst_type_of_shape(&draft->types[0], &(mst_type){.dtype = (muster_dtype)draft->values[dtype].integer}, shape);
    return MUSTER_OK;
}

static muster_status infer_arange(mst_draft *draft) { return infer_sequence(draft, 1, DTYPE); }

/* A first number or a step that f64 does not hold. */
static muster_expr *expand_arange(mst_draft *draft) {
    const muster_dtype dtype = (muster_dtype)draft->values[DTYPE].integer;
    const mst_graph_value start = draft->values[START], increment = draft->values[INCREMENT];
    draft->values[START].integer = draft->values[INCREMENT].integer = 0;
    if ((start.integer == 0 && increment.integer == 0) || mst_dtype_is_float(dtype)) return NULL;
    if (infer_arange(draft) != MUSTER_OK || !mst_dtype_holds(dtype, &start) || !mst_dtype_holds(dtype, &increment)) return NULL;
    const mst_graph_value values[] = {draft->values[SHAPE], {.number = 0}, {.number = 1}, draft->values[DTYPE]};
    muster_expr *line = mst_apply(draft->graph, MST_OPERATOR_arange, NULL, 0, values);
    line = MST_APPLY(draft->graph, multiply, line, mst_exact_number(draft->graph, dtype, &increment));
    return MST_APPLY(draft->graph, add, line, mst_exact_number(draft->graph, dtype, &start));
}

static muster_status run_arange(muster_worker *worker, const mst_step_run *run) {
    const double start = run->node->values[START].number, increment = run->node->values[INCREMENT].number;
    return muster_arange(worker, start + (double)mst_part_begin(run, 0) * increment, increment, *run->out[0]);
}

static bool is_small_integer(double value) { return fabs(value) < 0x1p31 && value == floor(value); }

/* A part begins at a number that is exact for integers only. */
static bool distribute_arange(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (!is_small_integer(node->values[START].number) || !is_small_integer(node->values[INCREMENT].number)) return false;
    return mst_distribute_leaf(node, result, way, operands);
}

static const char is_constant[] = "it depends on nothing";
const mst_operator mst_operator_arange = {MST_ANY_OPERATOR(arange, "start, start + increment, ... in the shape (n)"),
                                          .attributes = {{"shape", MST_VALUE_DIMS, .required = true},
                                                         {"start", MST_VALUE_NUMBER},
                                                         {"increment", MST_VALUE_NUMBER, .number = 1},
                                                         {"dtype", MST_VALUE_DTYPE, .required = true}},
                                          .expand = expand_arange,
                                          .infer = infer_arange,
                                          .distribute = distribute_arange,
                                          .run = run_arange,
                                          .no_gradient = is_constant};

static muster_status infer_eye(mst_draft *draft) { return infer_sequence(draft, 2, 2); }

static muster_status run_eye(muster_worker *worker, const mst_step_run *run) {
    return muster_eye(worker, diagonal_in_part(run, run->node->values[1].integer), *run->out[0]);
}

const mst_operator mst_operator_eye = {
    MST_ANY_OPERATOR(eye, "1 where column - row is k, else 0, in the shape (n, m)"),
    .attributes = {{"shape", MST_VALUE_DIMS, .required = true}, {"k", MST_VALUE_INTEGER}, {"dtype", MST_VALUE_DTYPE, .required = true}},
    .infer = infer_eye,
    .distribute = mst_distribute_leaf,
    .run = run_eye,
    .no_gradient = is_constant};
