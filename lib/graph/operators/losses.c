/* Losses, made of other operations, and the one in one pass. */
#include "composite_private.h"
#include "deviations_private.h"

/* ---- of two arrays of numbers ---- */

/* *type: that of x and target broadcast together. */
static bool numbers_broadcast(mst_draft *draft, mst_type *type) {
    return mst_draft_unify(draft, 0, &type->dtype) == MUSTER_OK && mst_draft_broadcast(draft, type) == MUSTER_OK;
}

static bool numbers_agree(mst_draft *draft) {
    mst_type type;
    return numbers_broadcast(draft, &type);
}

/* The axes, counted from the first: of x and target broadcast together, so that mst_draft_axes,
 * which looks at x alone, does not serve. */
static bool axes_fit(mst_draft *draft, const mst_type *type) {
    char expected[MST_NODE_TEXT];
    mst_graph_value *axes = &draft->values[0];
    if (!axes->count) return true;
    int64_t *list = mst_arena_take(&draft->graph->arena, (size_t)axes->count * sizeof *list);
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "axis: out of memory"), false;
    for (int64_t i = 0; i < axes->count; i++) {
        const int64_t axis = axes->list[i];
        if (axis < -type->ndim || axis >= type->ndim) {
            (void)mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "axis: expected an axis of %s, received %lld",
                                   mst_type_text(draft->graph, type, expected), (long long)axis);
            return false;
        }
        list[i] = axis < 0 ? axis + type->ndim : axis;
    }
    axes->list = list;
    return true;
}

/* A square may be more than the dtype holds, where the average is not. */
static muster_expr *expand_squared_error(mst_draft *draft) {
    mst_type type;
    if (!numbers_broadcast(draft, &type) || !axes_fit(draft, &type) || mst_draft_flag(draft, 1) != MUSTER_OK) return draft->graph->error;
    const muster_dtype dtype = X->type.dtype, compute = mst_dtype_compute(dtype);
    const mst_graph_value *axes = &draft->values[0];
    muster_expr *distance = E(subtract, mst_cast_to(X, compute), mst_cast_to(Y, compute));
    if (mst_node_is_error(distance)) return distance;
    const uint32_t mask = mst_axes_mask(axes, type.ndim);
    muster_expr *sum = mst_deviation_sums_of(distance, mst_number(draft->graph, MUSTER_F64, 0), NULL, axes, MST_ABOUT_NOTHING);
    if (mst_node_is_error(sum)) return sum;
    muster_expr *mean = mst_cast_to(E(divide, sum, mst_extent(distance, mask, MUSTER_F64)), dtype);
    return draft->values[1].integer ? mst_keep_axes(mean, &distance->type, mask) : mean;
}

const mst_operator mst_operator_mean_squared_error = {
    MST_ANY_OPERATOR(mean_squared_error, "the average of (x - target) (x - target) over the axes, or over all"),
    .operands = {"x", "target"},
    .attributes = {{"axis", MST_VALUE_LIST}, {"keepdims", MST_VALUE_INTEGER}},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_squared_error,
    .infer = mst_draft_composite};

/* Huber, "Robust estimation of a location parameter", 1964. */
static muster_expr *expand_huber(mst_draft *draft) {
    const double delta = draft->values[0].number;
    if (!numbers_agree(draft)) return draft->graph->error;
    if (!(delta > 0)) {
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "delta: expected a number above 0, received %g", delta);
        return draft->graph->error;
    }
    muster_expr *difference = E(subtract, X, Y), *distance = E(absolute, difference);
    /* the square itself may be more than the dtype holds */
    muster_expr *inner = E(multiply, E(multiply, difference, NUMBER(0.5)), difference);
    muster_expr *outer = E(multiply, E(subtract, distance, NUMBER(delta / 2)), NUMBER(delta));
    return E(where, E(less_equal, distance, NUMBER(delta)), inner, outer);
}

const mst_operator mst_operator_huber = {
    MST_ANY_OPERATOR(huber, "for each element d d / 2 where d = |x - target| is at most delta, else delta (d - delta / 2)"),
    .operands = {"x", "target"},
    .attributes = {{"delta", MST_VALUE_NUMBER, .number = 1}},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_huber,
    .infer = mst_draft_composite};

static muster_expr *expand_hinge(mst_draft *draft) {
    if (!numbers_agree(draft)) return draft->graph->error;
    return E(relu, E(subtract, NUMBER(1), E(multiply, X, Y)));
}

const mst_operator mst_operator_hinge = {MST_ANY_OPERATOR(hinge, "for each element the larger of 1 - x target and 0; targets are -1 and 1"),
                                         .operands = {"x", "target"}, .dtypes = MST_FLOAT_DTYPES, .expand = expand_hinge,
                                         .infer = mst_draft_composite};

/* t log(1 + exp(-x)) + (1 - t) log(1 + exp(x)): accurate where one of the parts is nearly 0, and
 * with the right gradient at x = 0. */
static muster_expr *expand_sigmoid_cross_entropy(mst_draft *draft) {
    if (!numbers_agree(draft)) return draft->graph->error;
    muster_expr *yes = E(multiply, E(softplus, E(negative, X)), Y);
    return E(add, yes, E(multiply, E(softplus, X), E(subtract, NUMBER(1), Y)));
}

const mst_operator mst_operator_sigmoid_cross_entropy = {
    MST_ANY_OPERATOR(sigmoid_cross_entropy,
                     "for each element -t log(p) - (1 - t) log(1 - p), where p = sigmoid(x) and t is the target, from 0 to 1"),
    .operands = {"x", "target"}, .dtypes = MST_FLOAT_DTYPES, .expand = expand_sigmoid_cross_entropy, .infer = mst_draft_composite};

/* ---- of labels ---- */

/* Labels have the shape of x without its last axis. */
static bool labels_fit(mst_draft *draft) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    if (mst_draft_dtype(draft, 0, MST_FLOAT_DTYPES) != MUSTER_OK || mst_draft_dtype(draft, 1, MST_INDEX_DTYPES) != MUSTER_OK) return false;
    mst_type wanted = X->type;
    wanted.dtype = Y->type.dtype;
    wanted.ndim--;
    if (wanted.ndim >= 0 && mst_same_dims(&wanted, &Y->type)) return true;
    (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected one label for each row of %s, received %s",
                           mst_node_text(X, draft->op->operands[0], expected), mst_type_text(draft->graph, &Y->type, received));
    return false;
}

/* True if the dtype of the labels can hold the label `ignore`. */
static bool label_may_be(const mst_draft *draft, int64_t ignore) {
    const muster_dtype dtype = Y->type.dtype;
    return dtype == MUSTER_U8 ? ignore >= 0 && ignore <= UINT8_MAX : dtype == MUSTER_I64 || (ignore >= INT32_MIN && ignore <= INT32_MAX);
}

/* An ignored label reads class 0, and its loss is replaced by 0. */
static muster_expr *losses_of(mst_draft *draft, muster_expr *log_probabilities) {
    muster_expr *labels = Y, *ignored = NULL;
    if (draft->values[0].integer != MUSTER_NONE && label_may_be(draft, draft->values[0].integer)) {
        muster_expr *zero = mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = 0}});
        muster_expr *label =
            mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){mst_value_of_integer(draft->values[0].integer)});
        ignored = E(equal, labels, label);
        labels = E(where, ignored, zero, labels);
    }
    const mst_graph_value last = {.integer = -1};
    labels = mst_apply(draft->graph, MST_OPERATOR_expand_dims, &labels, 1, &last);
    if (mst_node_is_error(labels) || mst_node_is_error(log_probabilities)) return draft->graph->error;
    labels = mst_indices_checked(draft, labels, X->type.dims[X->type.ndim - 1]);
    muster_expr *chosen = mst_apply(draft->graph, MST_OPERATOR_take_along_axis, MST_INPUTS(log_probabilities, labels), &last);
    if (mst_node_is_error(chosen)) return chosen;
    muster_expr *losses = E(negative, mst_reshape_to(chosen, Y->type.ndim, Y->type.dims));
    return ignored ? E(where, ignored, NUMBER(0), losses) : losses;
}

static muster_expr *expand_negative_log_likelihood(mst_draft *draft) {
    return labels_fit(draft) ? losses_of(draft, X) : draft->graph->error;
}

const mst_operator mst_operator_negative_log_likelihood = {
    MST_ANY_OPERATOR(negative_log_likelihood,
                     "-x[..., label] for each row of logarithms of probabilities; 0 where the label is `ignore` (MUSTER_NONE: no label)"),
    .operands = {"x", "labels"}, .attributes = {{"ignore", MST_VALUE_INTEGER, .number = (double)MUSTER_NONE}},
    .expand = expand_negative_log_likelihood, .infer = mst_draft_composite};

static muster_expr *expand_rows_cross_entropy(mst_draft *draft) {
    if (!labels_fit(draft)) return draft->graph->error;
    const mst_graph_value last = {.list = (int64_t[]){-1}, .count = 1};
    return losses_of(draft, mst_apply(draft->graph, MST_OPERATOR_log_softmax, &X, 1, &last));
}

const mst_operator mst_operator_cross_entropy = {
    MST_ANY_OPERATOR(cross_entropy,
                     "log(sum(exp(z))) - z[label] for each row z of the logits; 0 where the label is `ignore` (MUSTER_NONE: no label)"),
    .operands = {"logits", "labels"}, .attributes = {{"ignore", MST_VALUE_INTEGER, .number = (double)MUSTER_NONE}},
    .expand = expand_rows_cross_entropy, .infer = mst_draft_composite};

/* ---- softmax_cross_entropy ---- */

static muster_status infer_cross_entropy(mst_draft *draft) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    const mst_type *logits = &draft->inputs[0]->type, *labels = &draft->inputs[1]->type;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_BLAS_DTYPES));
    MUSTER_TRY(mst_draft_dtype(draft, 1, MST_INDEX_DTYPES));
    MUSTER_TRY(mst_draft_ndim(draft, 0, 2));
    MUSTER_TRY(mst_draft_ndim(draft, 1, 1));
    if (logits->dims[0] != labels->dims[0])
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected one label for each row of %s, received %s",
                                mst_node_text(draft->inputs[0], "logits", expected), mst_type_text(draft->graph, labels, received));
    draft->types[0] = (mst_type){.dtype = logits->dtype};
    draft->types[1] = *logits;
    draft->types[2] = (mst_type){.dtype = MUSTER_I64};
    return MUSTER_OK;
}

static muster_status run_cross_entropy(muster_worker *worker, const mst_step_run *run) {
    return muster_softmax_cross_entropy(worker, *run->in[0], *run->in[1], 1, *run->out[0], *run->out[1], *run->out[2]);
}

/* Sums of parts of the rows; the gradient has rows. */
static bool distribute_cross_entropy(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    operands[0] = operands[1] = MST_DISTRIBUTED_CUT(0);
    (void)node;
    return way == 0 && result.kind == MST_PARTIAL && result.op == MUSTER_SUM;
}

static mst_distribution distribute_cross_entropy_result(mst_distribution first, int32_t index) {
    return index == 1 ? MST_DISTRIBUTED_CUT(0) : first;
}

static void gradient_cross_entropy(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, MST_APPLY(node->graph, multiply, muster_expr_result(node, 1), dy));
}

const mst_operator mst_operator_softmax_cross_entropy = {
    MST_ANY_OPERATOR(softmax_cross_entropy,
                     "the sum over rows of log(sum(exp(z))) - z[label]; result 1: softmax - onehot; result 2: correct rows"),
    .operands = {"logits", "labels"},
    .results = 3,
    .infer = infer_cross_entropy,
    .distribute = distribute_cross_entropy,
    .distribute_result = distribute_cross_entropy_result,
    .run = run_cross_entropy,
    .gradient = gradient_cross_entropy,
    .no_gradient = "only the first of its results has one; for second derivatives write sum(cross_entropy(logits, labels))"};
