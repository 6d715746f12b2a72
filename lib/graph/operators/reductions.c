/* Reductions over axes. */
#include "operators_private.h"
#include "runtime_impl.h"
#include "squares_impl.h"

#include <math.h>

enum { AXIS, KEEPDIMS, DTYPE };

/* The kept form is the other one with a new shape. */
muster_expr *mst_expand_keepdims(mst_draft *draft) {
    uint32_t mask;
    if (!draft->values[KEEPDIMS].integer) return NULL;
    if (mst_draft_flag(draft, KEEPDIMS) != MUSTER_OK || mst_draft_axes(draft, AXIS, &mask) != MUSTER_OK) return draft->graph->error;
    const mst_type type = draft->inputs[0]->type;
    const bool takes_dtype = draft->op->attributes[DTYPE].name != NULL;
    const muster_dtype dtype = takes_dtype ? (muster_dtype)draft->values[DTYPE].integer : MUSTER_DTYPE_NONE;
    return mst_keep_axes(mst_reduced(draft->inputs[0], draft->op->id, &draft->values[AXIS], false, dtype), &type, mask);
}

/* The dtype of the result. */
static muster_dtype reduction_dtype(const mst_draft *draft) {
    const muster_dtype dtype = draft->inputs[0]->type.dtype;
    if (!draft->op->attributes[DTYPE].name) return dtype;
    return draft->values[DTYPE].integer ? (muster_dtype)draft->values[DTYPE].integer : mst_dtype_summed(dtype);
}

static muster_status infer_reduction(mst_draft *draft) {
    uint32_t mask;
    mst_type *type = &draft->types[0];
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    MUSTER_TRY(mst_draft_axes(draft, AXIS, &mask));
    type->dtype = reduction_dtype(draft);
    type->ndim = 0;
    for (int32_t d = 0; d < draft->inputs[0]->type.ndim; d++)
        if (!(mask >> d & 1)) type->dims[type->ndim++] = draft->inputs[0]->type.dims[d];
    return MUSTER_OK;
}

/* The axis of x that is axis `axis` of the result. */
static int32_t axis_kept(uint32_t mask, int32_t axis) {
    int32_t d = 0;
    for (;; d++)
        if (!(mask >> d & 1) && axis-- == 0) return d;
}

/* A 64-bit integer that is larger than all others is no double, which partial minima would need. */
static bool has_identity(const muster_expr *node) {
    const muster_dtype dtype = node->type.dtype;
    return node->op->operation != MUSTER_MIN || (dtype != MUSTER_I64 && dtype != MUSTER_U64);
}

/* Along an axis that stays, the result is cut as x is. Along one that is reduced, the workers have
 * partial values; those of an average are their parts of its sum. */
static bool distribute_reduction(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const uint32_t mask = mst_axes_mask(&node->values[AXIS], node->inputs[0]->type.ndim);
    const int32_t combines = node->op->operation == MUSTER_AVG ? MUSTER_SUM : node->op->operation;
    if (result.kind == MST_CUT) {
        operands[0] = MST_DISTRIBUTED_CUT(axis_kept(mask, result.axis));
        return way == 0;
    }
    if (result.op != combines || !has_identity(node)) return false;
    operands[0] = result;
    if (way == 0) return true;
    for (int32_t d = 0; d < node->inputs[0]->type.ndim; d++)
        if (mask >> d & 1 && --way == 0) {
            operands[0] = MST_DISTRIBUTED_CUT(d);
            return true;
        }
    return false;
}

static double identity_of(muster_reduction op, muster_dtype dtype) {
    static const double highest[MST_DTYPE_COUNT] = {[MUSTER_BOOL] = 1,      [MUSTER_U8] = UINT8_MAX,  [MUSTER_U32] = UINT32_MAX,
                                                    [MUSTER_I8] = INT8_MAX, [MUSTER_I16] = INT16_MAX, [MUSTER_I32] = INT32_MAX};
    static const double lowest[MST_DTYPE_COUNT] = {
        [MUSTER_I8] = INT8_MIN, [MUSTER_I16] = INT16_MIN, [MUSTER_I32] = INT32_MIN, [MUSTER_I64] = -0x1p63};
    const bool is_float = mst_dtype_is_float(dtype);
    if (op == MUSTER_MAX) return is_float ? -(double)INFINITY : lowest[dtype];
    if (op == MUSTER_MIN) return is_float ? (double)INFINITY : highest[dtype];
    return op == MUSTER_PROD;
}

/* The elements of the whole x that go into one of the result. */
static int64_t total_length(const mst_step_run *run, uint32_t axes) {
    const muster_expr *x = run->node->inputs[0];
    int64_t length = 1;
    for (int32_t d = 0; d < x->type.ndim; d++)
        if (axes >> d & 1) length *= mst_dim_value(x->graph, x->type.dims[d], run->sizes);
    return length;
}

/* The average of nothing is 0 / 0; a largest or smallest element is refused. */
static muster_status run_of_nothing(muster_worker *worker, const mst_step_run *run, uint32_t axes) {
    const muster_reduction op = run->node->op->operation;
    if (op == MUSTER_AVG) return muster_fill(worker, NAN, *run->out[0]);
    return muster_reduce_axes(worker, op, *run->in[0], (int32_t)axes, *run->out[0]);
}

/* A worker without elements brings what changes nothing, unless there are none at all. */
static muster_status run_partial(muster_worker *worker, const mst_step_run *run, uint32_t axes, int64_t length) {
    const muster_reduction op = run->node->op->operation;
    const muster_tensor *x = run->in[0], *y = run->out[0];
    const int64_t total = total_length(run, axes);
    if (!length && total) return muster_fill(worker, identity_of(op, y->dtype), *y);
    if (!length) return run_of_nothing(worker, run, axes);
    return mst_reduce_launch(worker, op, x, axes, y, length, total);
}

static muster_status run_reduction(muster_worker *worker, const mst_step_run *run) {
    const muster_expr *node = run->node;
    const muster_tensor *x = run->in[0], *y = run->out[0];
    if (x->ndim == 0 && x->dtype == y->dtype) return muster_copy(worker, *x, *y);
    const uint32_t axes = mst_axes_mask(&node->values[AXIS], x->ndim);
    int64_t length = 1;
    for (int32_t d = 0; d < x->ndim; d++)
        if (axes >> d & 1) length *= x->shape[d];
    if (node->distribution.kind == MST_PARTIAL) return run_partial(worker, run, axes, length);
    return length ? mst_reduce_launch(worker, node->op->operation, x, axes, y, length, length) : run_of_nothing(worker, run, axes);
}

#define X (node->inputs[0])
static uint32_t mask_of(const muster_expr *node) { return mst_axes_mask(&node->values[AXIS], X->type.ndim); }

static void gradient_sum(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    dy = mst_cast_to(dy, X->type.dtype);
    mst_gradient_add(gradients, node, 0, mst_broadcast_to(mst_keep_axes(dy, &X->type, mask_of(node)), &X->type));
}

/* f16 has no number above 65504, which would be how many elements there are. */
static void gradient_mean(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const muster_dtype compute = mst_dtype_compute(node->type.dtype);
    muster_expr *each = MST_APPLY(node->graph, divide, mst_cast_to(dy, compute), mst_extent(X, mask_of(node), compute));
    gradient_sum(gradients, node, each);
}

/* Is it the first of the largest (smallest) elements of its row? */
static muster_expr *is_first(muster_expr *node, muster_expr *matrix) {
    const int32_t arg = mst_node_is(node, MST_OPERATOR_max) ? MST_OPERATOR_argmax : MST_OPERATOR_argmin;
    muster_expr *index = mst_apply(node->graph, arg, &matrix, 1, (mst_graph_value[]){{.integer = 1}, MST_NO_VALUE});
    return mst_apply(node->graph, MST_OPERATOR_one_hot, &index, 1,
                     (mst_graph_value[]){{.list = (int64_t[]){matrix->type.dims[1]}, .count = 1}, {.integer = MUSTER_BOOL}});
}

/* The same where the elements of a row may lie on several devices, without bringing them together:
 * the smallest place, negative as the largest one, of an element that is the extreme or NaN. A NaN
 * is the extreme of a row that has one, and the first of them is meant. */
static muster_expr *is_first_of_parts(muster_expr *node, muster_expr *matrix, mst_dim rows) {
    mst_graph *graph = node->graph;
    const mst_dim k = matrix->type.dims[1];
    muster_expr *extreme = mst_reshape_to(node, 2, (mst_dim[]){rows, MST_DIM_ONE});
    muster_expr *hit = MST_APPLY(graph, equal, matrix, extreme);
    if (mst_dtype_is_float(node->type.dtype)) hit = MST_APPLY(graph, logical_or, hit, MST_APPLY(graph, isnan, matrix));
    muster_expr *place =
        mst_apply(graph, MST_OPERATOR_arange, NULL, 0,
                  (mst_graph_value[]){{.list = (int64_t[]){k}, .count = 1}, {.number = 0}, {.number = -1}, {.integer = MUSTER_I64}});
    muster_expr *places = MST_APPLY(graph, where, hit, place, mst_number(graph, MUSTER_I64, -0x1p63));
    muster_expr *first =
        mst_apply(graph, MST_OPERATOR_max, &places, 1, (mst_graph_value[]){{.list = (int64_t[]){1}, .count = 1}, MST_NO_VALUE});
    return MST_APPLY(graph, equal, place, mst_reshape_to(first, 2, (mst_dim[]){rows, MST_DIM_ONE}));
}

/* The first of equal elements has the whole gradient, the others 0. */
static void gradient_extreme(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_graph *graph = node->graph;
    const uint32_t mask = mask_of(node);
    mst_dim rows = MST_DIM_ONE;
    bool in_parts = false;
    for (int32_t d = 0; d < X->type.ndim; d++) in_parts |= mask >> d & 1 && mst_axis_has_rows(graph, &X->type, d);
    muster_expr *matrix = mst_as_rows(X, mask, &rows);
    if (mst_node_is_error(matrix)) return;
    in_parts &= graph->runtime->total > 1;
    muster_expr *hot = in_parts ? is_first_of_parts(node, matrix, rows) : is_first(node, matrix);
    muster_expr *part =
        MST_APPLY(graph, where, hot, mst_reshape_to(dy, 2, (mst_dim[]){rows, MST_DIM_ONE}), mst_number(graph, node->type.dtype, 0));
    if (mst_node_is_error(part)) return;
    int64_t axes[MUSTER_MAX_DIMS];
    muster_expr *last = mst_axes_last(X, mask, axes);
    mst_gradient_add(gradients, node, 0, mst_axes_back(mst_reshape_to(part, last->type.ndim, last->type.dims), axes));
}

#define AXES \
    {"axis", MST_VALUE_LIST}, { "keepdims", MST_VALUE_INTEGER }
#define AXES_AND_DTYPE \
    AXES, { "dtype", MST_VALUE_DTYPE }
#define REDUCTION(op_name, op, takes, expanding, text, ...)                          \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),    \
                                                 .operation = (op),                  \
                                                 .operands = {"x"},                  \
                                                 .dtypes = (takes),                  \
                                                 .flags = MST_OPERATOR_BY_SHARD,     \
                                                 .expand = (expanding),              \
                                                 .infer = infer_reduction,           \
                                                 .distribute = distribute_reduction, \
                                                 .run = run_reduction,               \
                                                 __VA_ARGS__}
REDUCTION(sum, MUSTER_SUM, MST_ALL_DTYPES, mst_expand_total,
          "the sum over the axes, or over all; of integers and truth values i64, of u8 to u64 u64; dtype: of the result",
          .attributes = {AXES_AND_DTYPE}, .gradient = gradient_sum);
REDUCTION(mean, MUSTER_AVG, MST_ALL_DTYPES, mst_expand_mean,
          "the average over the axes, or over all; of integers and truth values f64; dtype: of the result", .attributes = {AXES_AND_DTYPE},
          .gradient = gradient_mean);
REDUCTION(max, MUSTER_MAX, MST_ALL_DTYPES, mst_expand_keepdims, "the largest element; of equals the first has the gradient",
          .attributes = {AXES}, .gradient = gradient_extreme);
REDUCTION(min, MUSTER_MIN, MST_ALL_DTYPES, mst_expand_keepdims, "the smallest element; of equals the first has the gradient",
          .attributes = {AXES}, .gradient = gradient_extreme);
REDUCTION(prod, MUSTER_PROD, MST_ALL_DTYPES, mst_expand_total,
          "the product over the axes, or over all; of integers and truth values i64, of u8 to u64 u64; dtype: of the result",
          .attributes = {AXES_AND_DTYPE}, .gradient = mst_gradient_prod);

/* ---- the sum of squares ---- */

/* In f64, whatever the operand is: squares of f32 are not in the range of f32. */
static muster_status infer_squares(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    draft->types[0] = (mst_type){.dtype = MUSTER_F64};
    return MUSTER_OK;
}

static bool distribute_squares(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind != MST_PARTIAL || result.op != MUSTER_SUM || way >= X->type.ndim) return false;
    operands[0] = MST_DISTRIBUTED_CUT(way);
    return true;
}

static muster_status run_squares(muster_worker *worker, const mst_step_run *run) {
    return mst_squares_launch(worker, run->in[0], run->out[0]);
}

static void gradient_squares(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    /* In f64: of a small norm dy is not in the range of f32, and its product with x is. */
    muster_expr *twice = MST_APPLY(node->graph, multiply, mst_number(node->graph, MUSTER_F64, 2), dy);
    muster_expr *change = MST_APPLY(node->graph, multiply, mst_cast_to(X, MUSTER_F64), twice);
    mst_gradient_add(gradients, node, 0, mst_cast_to(change, X->type.dtype));
}

const mst_operator mst_operator_sum_squares = {MST_ANY_OPERATOR(sum_squares, "the sum of the squares of all elements, f64"),
                                               .operands = {"x"},
                                               .dtypes = MST_BLAS_DTYPES,
                                               .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_BY_SHARD,
                                               .infer = infer_squares,
                                               .distribute = distribute_squares,
                                               .run = run_squares,
                                               .gradient = gradient_squares};

/* ---- argmax and argmin ---- */

enum { ARG_AXIS, ARG_KEEPDIMS };

/* A size that only a call knows is looked at there. */
static bool arg_has_elements(mst_draft *draft, uint32_t mask) {
    char text[MST_NODE_TEXT];
    const mst_type *type = &draft->inputs[0]->type;
    for (int32_t d = 0; d < type->ndim; d++) {
        if (!(mask >> d & 1) || mst_dim_constant(draft->graph, type->dims[d]) != 0) continue;
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, 0, "expected at least one element along axis %d, received %s", (int)d,
                               mst_type_text(draft->graph, type, text));
        return false;
    }
    return true;
}

/* Any other layout becomes (n, k) with axis 1. No axis: the index among all elements. */
static muster_expr *expand_arg(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    mst_graph *graph = draft->graph;
    const mst_graph_value *value = &draft->values[ARG_AXIS];
    int32_t axis = 0;
    const bool keepdims = draft->values[ARG_KEEPDIMS].integer != 0;
    if (mst_draft_flag(draft, ARG_KEEPDIMS) != MUSTER_OK) return graph->error;
    if (value->integer != INT64_MIN && mst_draft_axis(draft, ARG_AXIS, &axis) != MUSTER_OK) return graph->error;
    const uint32_t mask = value->integer == INT64_MIN ? (1u << x->type.ndim) - 1 : 1u << axis;
    if (!arg_has_elements(draft, mask)) return graph->error;
    if (x->type.ndim == 2 && value->integer == 1 && !keepdims) return NULL;
    mst_dim rows = MST_DIM_ONE, dims[MUSTER_MAX_DIMS];
    muster_expr *matrix = mst_as_rows(x, mask, &rows);
    if (mst_node_is_error(matrix)) return matrix;
    muster_expr *index = mst_apply(graph, draft->op->id, &matrix, 1, (mst_graph_value[]){{.integer = 1}, MST_NO_VALUE});
    if (keepdims) return mst_keep_axes(index, &x->type, mask);
    int32_t ndim = 0;
    for (int32_t d = 0; d < x->type.ndim; d++)
        if (!(mask >> d & 1)) dims[ndim++] = x->type.dims[d];
    return mst_node_is_error(index) ? index : mst_reshape_to(index, ndim, dims);
}

static muster_status infer_arg(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = MUSTER_I64, .ndim = 1, .dims = {draft->inputs[0]->type.dims[0]}};
    return MUSTER_OK;
}

/* The matrix of the operation may be x turned: its shape would say nothing to the program. */
static muster_status arg_check(const mst_step_run *run) {
    if (run->in[0]->shape[1] > 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_expr_%s: x: expected at least one element along the axis, received none",
                     run->node->op->name);
}

static muster_status run_argmax(muster_worker *worker, const mst_step_run *run) {
    MUSTER_TRY(arg_check(run));
    return muster_argmax(worker, *run->in[0], *run->out[0]);
}
static muster_status run_argmin(muster_worker *worker, const mst_step_run *run) {
    MUSTER_TRY(arg_check(run));
    return muster_argmin(worker, *run->in[0], *run->out[0]);
}

/* The index is one of the elements of a row. */
static bool distribute_arg(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && result.kind == MST_CUT && mst_distribute_alike(node, result, 2, operands);
}

#define ARG(op_name, text)                                                                                         \
    const mst_operator mst_operator_##op_name = {                                                                  \
        MST_ANY_OPERATOR(op_name, text),                                                                           \
        .operands = {"x"},                                                                                         \
        .attributes = {{"axis", MST_VALUE_INTEGER, .number = (double)INT64_MIN}, {"keepdims", MST_VALUE_INTEGER}}, \
        .expand = expand_arg,                                                                                      \
        .infer = infer_arg,                                                                                        \
        .distribute = distribute_arg,                                                                              \
        .run = run_##op_name,                                                                                      \
        .no_gradient = "its result is an index"}
ARG(argmax, "the index of the largest element along the axis, or among all; the first of equals");
ARG(argmin, "the index of the smallest element along the axis, or among all; the first of equals");
