/* Comparisons, questions, selections, conversions. */
#include "elementwise_private.h"

#include <math.h>

/* ---- comparisons ---- */

static muster_status infer_compare(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    draft->types[0].dtype = MUSTER_BOOL;
    return mst_draft_broadcast(draft, &draft->types[0]);
}

static muster_status run_compare(muster_worker *worker, const mst_step_run *run) {
    return muster_compare(worker, run->node->op->operation, *run->in[0], *run->in[1], *run->out[0]);
}

static const char step_function[] = "its result changes in steps";
#define COMPARE(op_name, op, text)                                                      \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),       \
                                                 .operation = (op),                     \
                                                 .elementwise = &mst_operation_compare, \
                                                 .operands = {"a", "b"},                \
                                                 .dtypes = MST_ALL_DTYPES,              \
                                                 .infer = infer_compare,                \
                                                 .run = run_compare,                    \
                                                 .no_gradient = step_function}
COMPARE(equal, MUSTER_EQUAL, "is a equal to b?");
COMPARE(not_equal, MUSTER_NOT_EQUAL, "is a not equal to b?");
COMPARE(less, MUSTER_LESS, "is a less than b?");
COMPARE(less_equal, MUSTER_LESS_EQUAL, "is a at most b?");
COMPARE(greater, MUSTER_GREATER, "is a greater than b?");
COMPARE(greater_equal, MUSTER_GREATER_EQUAL, "is a at least b?");
COMPARE(logical_and, MUSTER_LOGICAL_AND, "are a and b both not 0?");
COMPARE(logical_or, MUSTER_LOGICAL_OR, "is a or b not 0?");
COMPARE(logical_xor, MUSTER_LOGICAL_XOR, "is exactly one of a and b not 0?");

static muster_status infer_predicate(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_ALL_DTYPES));
    draft->types[0] = draft->inputs[0]->type;
    draft->types[0].dtype = MUSTER_BOOL;
    return MUSTER_OK;
}

static muster_status run_predicate(muster_worker *worker, const mst_step_run *run) {
    return muster_predicate_op(worker, run->node->op->operation, *run->in[0], *run->out[0]);
}

#define PREDICATE(op_name, op, text)                                                      \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),         \
                                                 .operation = (op),                       \
                                                 .elementwise = &mst_operation_predicate, \
                                                 .operands = {"x"},                       \
                                                 .dtypes = MST_ALL_DTYPES,                \
                                                 .infer = infer_predicate,                \
                                                 .run = run_predicate,                    \
                                                 .no_gradient = step_function}
PREDICATE(logical_not, MUSTER_LOGICAL_NOT, "is x 0?");
PREDICATE(isnan, MUSTER_ISNAN, "is x NaN?");
PREDICATE(isfinite, MUSTER_ISFINITE, "is x neither infinite nor NaN?");
PREDICATE(isinf, MUSTER_ISINF, "is x infinite?");

/* ---- selections, conversions ---- */

static muster_status infer_where(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_DTYPE_BIT(MUSTER_BOOL)));
    MUSTER_TRY(mst_draft_unify(draft, 1, &dtype));
    draft->types[0].dtype = dtype;
    return mst_draft_broadcast(draft, &draft->types[0]);
}

static muster_status run_where(muster_worker *worker, const mst_step_run *run) {
    return muster_where(worker, *run->in[0], *run->in[1], *run->in[2], *run->out[0]);
}

static void gradient_where(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *zero = mst_number(node->graph, node->type.dtype, 0);
    mst_gradient_add(gradients, node, 1, G(where, X, dy, zero));
    mst_gradient_add(gradients, node, 2, G(where, X, zero, dy));
}

static bool is_zero(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_full) && mst_number_of(node) == 0; }

/* With one condition on all workers the sums of what it selects are what it selects of the sums. 0
 * on every worker is a sum of 0. */
static bool distribute_where(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_CUT) return mst_distribute_elementwise(node, result, way, operands);
    if (way || result.op != MUSTER_SUM) return false;
    operands[0] = MST_DISTRIBUTED_SAME;
    for (int32_t i = 1; i < 3; i++) operands[i] = is_zero(node->inputs[i]) ? MST_DISTRIBUTED_SAME : result;
    return true;
}

const mst_operator mst_operator_where = {
    MST_ANY_OPERATOR(where, "a where the condition is true, else b; two plain numbers take the dtype of what stands beside"),
    .elementwise = &mst_operation_where,
    .operands = {"condition", "a", "b"},
    .in_place = 6,
    .expand = mst_where_of_numbers,
    .infer = infer_where,
    .distribute = distribute_where,
    .run = run_where,
    .gradient = gradient_where};

enum { CLIP_LOW, CLIP_HIGH };

static muster_status infer_clip(mst_draft *draft) {
    for (int32_t bound = CLIP_LOW; bound <= CLIP_HIGH; bound++)
        if (isnan(draft->values[bound].number))
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected a number, received NaN",
                                    draft->op->attributes[bound].name);
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    for (int32_t bound = CLIP_LOW; bound <= CLIP_HIGH; bound++)
        if (!isinf(draft->values[bound].number)) MUSTER_TRY(mst_draft_holds(draft, bound, draft->inputs[0]->type.dtype));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

/* minimum(maximum(x, low), high): for a low bound above the high one, which is then the result, and
 * for bounds that f64 does not hold. */
static muster_expr *expand_clip(mst_draft *draft) {
    mst_graph_value *low = &draft->values[CLIP_LOW], *high = &draft->values[CLIP_HIGH];
    mst_graph *graph = draft->graph;
    muster_expr *x = draft->inputs[0];
    const bool is_float = mst_dtype_is_float(x->type.dtype), crossed = low->number > high->number;
    if (is_float || (low->integer == 0 && high->integer == 0)) {
        low->integer = high->integer = 0;
        if (!crossed) return NULL;
    }
    if (infer_clip(draft) != MUSTER_OK) return graph->error;
    const muster_dtype dtype = draft->types[0].dtype;
    if (is_float || !isinf(low->number)) x = MST_APPLY(graph, maximum, x, mst_exact_number(graph, dtype, low));
    if (is_float || !isinf(high->number)) x = MST_APPLY(graph, minimum, x, mst_exact_number(graph, dtype, high));
    return x;
}

static muster_status run_clip(muster_worker *worker, const mst_step_run *run) {
    return muster_clip(worker, run->node->values[CLIP_LOW].number, run->node->values[CLIP_HIGH].number, *run->in[0], *run->out[0]);
}

static void gradient_clip(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const double low = node->values[CLIP_LOW].number, high = node->values[CLIP_HIGH].number;
    muster_expr *outside = isinf(low) ? NULL : G(less, X, NUMBER(low)); /* NaN is not */
    if (!isinf(high)) outside = outside ? G(logical_or, outside, G(greater, X, NUMBER(high))) : G(greater, X, NUMBER(high));
    mst_gradient_add(gradients, node, 0, outside ? G(where, outside, NUMBER(0), dy) : dy);
}

const mst_operator mst_operator_clip = {
    MST_ANY_OPERATOR(clip,
                     "x limited to [low, high], or high where low is above it; the gradient is that of x inside and at the bounds, else 0"),
    .elementwise = &mst_operation_clip,
    .operands = {"x"},
    .attributes = {{"low", MST_VALUE_NUMBER, .number = -INFINITY}, {"high", MST_VALUE_NUMBER, .number = INFINITY}},
    .dtypes = MST_NUMBER_DTYPES,
    .in_place = 1,
    .expand = expand_clip,
    .infer = infer_clip,
    .run = run_clip,
    .gradient = gradient_clip};

static muster_expr *fold_cast(mst_draft *draft) {
    if (mst_node_is(draft->inputs[0], MST_OPERATOR_number))
        return mst_number_cast(draft->graph, (muster_dtype)draft->values[0].integer, &draft->inputs[0]->values[0]);
    return draft->inputs[0]->type.dtype == draft->values[0].integer ? draft->inputs[0] : NULL;
}

static muster_status infer_cast(mst_draft *draft) {
    draft->types[0] = draft->inputs[0]->type;
    draft->types[0].dtype = (muster_dtype)draft->values[0].integer;
    return MUSTER_OK;
}

static muster_status run_cast(muster_worker *worker, const mst_step_run *run) { return muster_copy(worker, *run->in[0], *run->out[0]); }

static void gradient_cast(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    if (!mst_dtype_is_float(X->type.dtype)) return;
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_cast, &dy, 1, (mst_graph_value[]){{.integer = X->type.dtype}}));
}

/* Partial sums in a float dtype with more digits are the same numbers, and their sum is rounded
 * less. In one with fewer digits each would be rounded before they cancel; sums of integers wrap
 * around in their own dtype. */
static bool distribute_cast(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const muster_dtype from = X->type.dtype, to = node->type.dtype;
    if (result.kind == MST_CUT) return mst_distribute_elementwise(node, result, way, operands);
    operands[0] = result;
    return way == 0 && result.op == MUSTER_SUM && mst_dtype_is_float(from) && mst_dtype_is_float(to) &&
           muster_dtype_size(to) > muster_dtype_size(from);
}

const mst_operator mst_operator_cast = {MST_ANY_OPERATOR(cast, "x converted to the dtype, as muster_copy converts"),
                                        .elementwise = &mst_operation_copy,
                                        .operands = {"x"},
                                        .attributes = {{"dtype", MST_VALUE_DTYPE, .required = true}},
                                        .expand = fold_cast,
                                        .infer = infer_cast,
                                        .distribute = distribute_cast,
                                        .run = run_cast,
                                        .gradient = gradient_cast};
