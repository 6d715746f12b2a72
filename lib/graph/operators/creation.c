/* Expressions without operands: inputs, parameters, numbers, constants. */
#include "operators_private.h"

static muster_status infer_number(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = MUSTER_DTYPE_NONE};
    return MUSTER_OK;
}

static const char is_leaf[] = "it depends on nothing";
const mst_operator mst_operator_input = {MST_ANY_OPERATOR(input, "an input of the function"), .flags = MST_OPERATOR_HIDDEN,
                                         .no_gradient = is_leaf};
const mst_operator mst_operator_parameter = {MST_ANY_OPERATOR(parameter, "the value of a variable"), .flags = MST_OPERATOR_HIDDEN,
                                             .no_gradient = is_leaf};
const mst_operator mst_operator_number = {MST_ANY_OPERATOR(number, "a number that takes the dtype of its neighbour"),
                                          .attributes = {{"value", MST_VALUE_NUMBER}}, .flags = MST_OPERATOR_HIDDEN, .infer = infer_number,
                                          .no_gradient = is_leaf};

/* ---- results beside the first ---- */

static muster_status infer_result(mst_draft *draft) {
    draft->types[0] = draft->inputs[0]->more[draft->values[0].integer - 1];
    return MUSTER_OK;
}

/* The operation collects the gradients of its results; here only the way to it goes on. */
static void gradient_result(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *first = node->inputs[0];
    (void)dy;
    if (first->op->flags & MST_OPERATOR_ALL_GRADIENTS)
        mst_gradient_add(gradients, node, 0, mst_full(node->graph, &first->type, 0));
    else
        mst_gradient_refuse(gradients, first, first->op->no_gradient ? first->op->no_gradient : "only its first result has one");
}

const mst_operator mst_operator_result = {MST_ANY_OPERATOR(result, "another result of an operation with several"),
                                          .operands = {"x"},
                                          .attributes = {{"index", MST_VALUE_INTEGER}},
                                          .flags = MST_OPERATOR_HIDDEN,
                                          .infer = infer_result,
                                          .gradient = gradient_result};

/* ---- stop_gradient ---- */

static muster_status infer_stop_gradient(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_ALL_DTYPES));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

static bool distribute_stop_gradient(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && mst_distribute_alike(node, result, 0, operands);
}

const mst_operator mst_operator_stop_gradient = {MST_ANY_OPERATOR(stop_gradient, "x, whose gradient is taken as 0"),
                                                 .operands = {"x"},
                                                 .infer = infer_stop_gradient,
                                                 .distribute = distribute_stop_gradient,
                                                 .view = mst_view_same,
                                                 .gradient = mst_gradient_zero};

/* ---- anew ---- */

static void gradient_anew(mst_gradients *gradients, muster_expr *node, muster_expr *dy) { mst_gradient_add(gradients, node, 0, dy); }

/* Two equal nodes are one, whose value is kept from its first use to its last. Where computing it
 * twice is cheaper than keeping it, the second use is made of this. */
const mst_operator mst_operator_anew = {MST_ANY_OPERATOR(anew, "x, from which later steps compute again what earlier ones did"),
                                        .operands = {"x"},
                                        .flags = MST_OPERATOR_HIDDEN,
                                        .infer = infer_stop_gradient,
                                        .distribute = distribute_stop_gradient,
                                        .view = mst_view_same,
                                        .gradient = gradient_anew};

/* ---- constants ---- */

enum { SHAPE, VALUE, DTYPE };

static muster_status infer_full(mst_draft *draft) {
    mst_type *type = &draft->types[0];
    type->dtype = (muster_dtype)draft->values[DTYPE].integer;
    type->ndim = draft->values[SHAPE].count;
    for (int32_t d = 0; d < type->ndim; d++) {
        type->dims[d] = (mst_dim)draft->values[SHAPE].list[d];
        if (type->dims[d] == MST_DIM_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: entry %d: expected a size, received MUSTER_INFER", (int)d);
    }
    return mst_draft_holds(draft, VALUE, type->dtype);
}

/* A value that f64 does not hold. */
static muster_expr *expand_full(mst_draft *draft) {
    mst_graph_value *value = &draft->values[VALUE];
    const muster_dtype dtype = (muster_dtype)draft->values[DTYPE].integer;
    if (value->integer == 0) return NULL;
    if (infer_full(draft) != MUSTER_OK) return draft->graph->error;
    const mst_type type = draft->types[0];
    muster_expr *number = mst_exact_number(draft->graph, dtype, value);
    return mst_broadcast_to(number, &type);
}

static muster_status run_full(muster_worker *worker, const mst_step_run *run) {
    return muster_fill(worker, run->node->values[VALUE].number, *run->out[0]);
}

const mst_operator mst_operator_full = {MST_ANY_OPERATOR(full, "the value in every element"),
                                        .attributes = {{"shape", MST_VALUE_DIMS, .required = true},
                                                       {"value", MST_VALUE_NUMBER, .required = true},
                                                       {"dtype", MST_VALUE_DTYPE, .required = true}},
                                        .expand = expand_full,
                                        .infer = infer_full,
                                        .distribute = mst_distribute_leaf,
                                        .run = run_full,
                                        .no_gradient = is_leaf};

static muster_status infer_extent(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = (muster_dtype)draft->values[1].integer};
    return MUSTER_OK;
}

static muster_status run_extent(muster_worker *worker, const mst_step_run *run) {
    return muster_fill(worker, (double)mst_dim_value(run->node->graph, (mst_dim)run->node->values[0].list[0], run->sizes), *run->out[0]);
}

const mst_operator mst_operator_extent = {
    MST_ANY_OPERATOR(extent, "a size that only a call knows, as a number"),
    .attributes = {{"size", MST_VALUE_DIMS, .required = true}, {"dtype", MST_VALUE_DTYPE, .required = true}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_extent,
    .run = run_extent,
    .no_gradient = is_leaf};

/* ---- constants that are made of these ---- */

static muster_expr *filled_like(mst_draft *draft, double value) {
    if (mst_draft_dtype(draft, 0, MST_ALL_DTYPES) != MUSTER_OK) return draft->graph->error;
    return mst_full(draft->graph, &draft->inputs[0]->type, value);
}

static muster_expr *expand_full_like(mst_draft *draft) {
    if (mst_draft_dtype(draft, 0, MST_ALL_DTYPES) != MUSTER_OK) return draft->graph->error;
    const mst_type type = draft->inputs[0]->type;
    if (mst_draft_holds(draft, 0, type.dtype) != MUSTER_OK) return draft->graph->error;
    if (draft->values[0].integer == 0) return filled_like(draft, draft->values[0].number);
    return mst_broadcast_to(mst_exact_number(draft->graph, type.dtype, &draft->values[0]), &type);
}
static muster_expr *expand_zeros_like(mst_draft *draft) { return filled_like(draft, 0); }
static muster_expr *expand_ones_like(mst_draft *draft) { return filled_like(draft, 1); }

const mst_operator mst_operator_full_like = {MST_ANY_OPERATOR(full_like, "the value in every element, in the shape and dtype of x"),
                                             .operands = {"x"},
                                             .attributes = {{"value", MST_VALUE_NUMBER, .required = true}},
                                             .expand = expand_full_like,
                                             .infer = mst_draft_composite,
                                             .no_gradient = is_leaf};
#define LIKE(op_name, text)                                                                                                      \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operands = {"x"}, .expand = expand_##op_name, \
                                                 .infer = mst_draft_composite, .no_gradient = is_leaf}
LIKE(zeros_like, "0 in every element, in the shape and dtype of x");
LIKE(ones_like, "1 in every element, in the shape and dtype of x");

enum { LINE_START, LINE_STOP, LINE_COUNT, LINE_DTYPE };

/* The last number is `stop` itself, whatever the steps are rounded to. */
static muster_expr *expand_linspace(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    const double start = draft->values[LINE_START].number, stop = draft->values[LINE_STOP].number;
    const int64_t count = draft->values[LINE_COUNT].integer;
    const muster_dtype dtype = (muster_dtype)draft->values[LINE_DTYPE].integer;
    if (count < 0 || !mst_dtype_is_float(dtype)) {
        if (count < 0)
            (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "num: expected 0 or more, received %lld", (long long)count);
        else
            (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "dtype: expected a float dtype, received %s", muster_dtype_name(dtype));
        return graph->error;
    }
    const mst_dim before = mst_dim_number(graph, count > 1 ? count - 1 : count);
    if (before == MST_DIM_NONE) return graph->error;
    const double step = count > 1 ? (stop - start) / (double)(count - 1) : 0;
    muster_expr *line =
        mst_apply(graph, MST_OPERATOR_arange, NULL, 0,
                  (mst_graph_value[]){{.list = (int64_t[]){before}, .count = 1}, {.number = start}, {.number = step}, {.integer = dtype}});
    if (count <= 1) return line;
    muster_expr *last = mst_full(graph, &(mst_type){.dtype = dtype, .ndim = 1, .dims = {MST_DIM_ONE}}, stop);
    return mst_apply(graph, MST_OPERATOR_concatenate, MST_INPUTS(line, last), (mst_graph_value[]){MST_NO_VALUE});
}

const mst_operator mst_operator_linspace = {MST_ANY_OPERATOR(linspace, "`num` numbers from start to stop, in equal steps"),
                                            .attributes = {{"start", MST_VALUE_NUMBER, .required = true},
                                                           {"stop", MST_VALUE_NUMBER, .required = true},
                                                           {"num", MST_VALUE_INTEGER, .required = true},
                                                           {"dtype", MST_VALUE_DTYPE, .required = true}},
                                            .expand = expand_linspace, .infer = mst_draft_composite, .no_gradient = is_leaf};
