/* Attention, without a matrix of scores in memory, and its gradients, which compute the scores
 * again. That of the mask is an operation of its own: a mask is there once for all rows, so its
 * gradient is a sum over them, and it costs 2 products more. */
#include "attention/attention_impl.h"
#include "operators_private.h"

enum { SCALE, CAUSAL };           /* attributes */
enum { Q, K, V, MASK, OPERANDS }; /* operands of attention */
/* Operands of the gradient after q, k, v. Up to REST they are the results of attention, in this
 * order; users get y and lse. */
enum { RESULT = 3, LSE, REST, CHANGE, GRADIENT_MASK, BEFORE_MASK = 7 };

/* ---- shapes ---- */

static muster_status refuse_axes(mst_draft *draft, int32_t operand, const char *expected, int32_t like) {
    char other[MST_NODE_TEXT], received[MST_NODE_TEXT];
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, operand, "expected %s %s, received %s", expected,
                            mst_node_text(draft->inputs[like], draft->op->operands[like], other),
                            mst_type_text(draft->graph, &draft->inputs[operand]->type, received));
}

/* The axis of heads, of which k and v may have fewer than q; -1: there is none. */
static int32_t heads_axis(const mst_type *q) { return q->ndim - 3; }

static bool heads_divide(const mst_graph *graph, mst_dim of_k, mst_dim of_q) {
    const int64_t few = mst_dim_constant(graph, of_k), many = mst_dim_constant(graph, of_q);
    return of_k == of_q || (few > 0 && many > 0 && many % few == 0);
}

static muster_status check_stacks(mst_draft *draft) {
    char received[MST_NODE_TEXT];
    const mst_type *q = &draft->inputs[Q]->type, *k = &draft->inputs[K]->type, *v = &draft->inputs[V]->type;
    if (q->ndim < 2)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, Q, "expected 2 dimensions or more, received %s",
                                mst_type_text(draft->graph, q, received));
    for (int32_t i = K; i <= V; i++) {
        const mst_type *type = &draft->inputs[i]->type;
        const int32_t heads = heads_axis(q);
        bool same = type->ndim == q->ndim;
        for (int32_t d = 0; same && d < q->ndim - 2; d++) same = d == heads || type->dims[d] == q->dims[d];
        if (!same) return refuse_axes(draft, i, "the axes before the last two that", Q);
        if (heads >= 0 && i == K && !heads_divide(draft->graph, k->dims[heads], q->dims[heads]))
            return refuse_axes(draft, i, "in the axis before the last two as many heads, or a number of them that divides those, as", Q);
        if (heads >= 0 && i == V && v->dims[heads] != k->dims[heads]) return refuse_axes(draft, i, "as many heads as", K);
    }
    if (k->dims[k->ndim - 1] != q->dims[q->ndim - 1]) return refuse_axes(draft, K, "the last size of", Q);
    if (v->dims[v->ndim - 2] != k->dims[k->ndim - 2]) return refuse_axes(draft, V, "as many rows as", K);
    return MUSTER_OK;
}

static muster_status infer_attention(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    MUSTER_TRY(check_stacks(draft));
    MUSTER_TRY(mst_draft_flag(draft, CAUSAL));
    const double scale = draft->values[SCALE].number;
    if (!(scale - scale == 0))
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "scale: expected a finite number, received %g", scale);
    mst_type scores = draft->inputs[Q]->type, *y = &draft->types[0], *lse = &draft->types[1];
    const int32_t last = scores.ndim - 1;
    scores.dims[last] = draft->inputs[K]->type.dims[last - 1];
    if (draft->count > MASK) MUSTER_TRY(mst_draft_broadcasts(draft, MASK, &scores));
    *y = *lse = draft->inputs[Q]->type;
    y->dims[last] = draft->inputs[V]->type.dims[last];
    lse->ndim = last;
    lse->dtype = mst_dtype_compute(dtype);
    draft->types[REST - RESULT] = *lse;
    return MUSTER_OK;
}

/* It is made by the library, with operands that attention has had. */
static muster_status infer_gradient(mst_draft *draft) {
    for (int32_t i = Q; i <= V; i++) draft->types[i] = draft->inputs[i]->type;
    return MUSTER_OK;
}

static muster_status infer_mask_gradient(mst_draft *draft) {
    draft->types[0] = draft->inputs[GRADIENT_MASK]->type;
    return MUSTER_OK;
}

/* ---- gradient ---- */

static void gradient_attention(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const bool masked = node->input_count > MASK;
    muster_expr *const *in = node->inputs;
    muster_expr *lse = muster_expr_result(node, LSE - RESULT);
    muster_expr *rest = mst_apply(node->graph, MST_OPERATOR_result, &node, 1, (mst_graph_value[]){{.integer = REST - RESULT}});
    muster_expr *operands[] = {in[Q], in[K], in[V], node, lse, rest, dy, masked ? in[MASK] : NULL};
    if (masked && mst_gradient_wanted(gradients, node, MASK))
        mst_gradient_add(gradients, node, MASK,
                         mst_apply(node->graph, MST_OPERATOR_attention_mask_gradient, operands, BEFORE_MASK + 1, node->values));
    muster_expr *made =
        mst_apply(node->graph, MST_OPERATOR_attention_gradient, operands, masked ? BEFORE_MASK + 1 : BEFORE_MASK, node->values);
    if (mst_node_is_error(made)) return;
    for (int32_t i = Q; i <= V; i++)
        if (mst_gradient_wanted(gradients, node, i)) mst_gradient_add(gradients, node, i, i == Q ? made : muster_expr_result(made, i));
}

/* ---- running ---- */

static mst_attention attention_of(const muster_expr *node) {
    return (mst_attention){.scale = node->values[SCALE].number, .causal = node->values[CAUSAL].integer != 0};
}

static muster_status run_attention(muster_worker *worker, const mst_step_run *run) {
    const mst_attention attention = attention_of(run->node);
    const mst_attention_tensors tensors = {
        .q = run->in[Q],
        .k = run->in[K],
        .v = run->in[V],
        .mask = run->node->input_count > MASK ? run->in[MASK] : NULL,
        .y = run->out[0],
        .lse = run->out[LSE - RESULT],
        .rest = run->out[REST - RESULT]
    };
    return mst_attention_forward(worker, &attention, &tensors, "muster_expr_attention");
}

static mst_attention_tensors gradient_operands(const mst_step_run *run) {
    return (mst_attention_tensors) {
        .q = run->in[Q], .k = run->in[K], .v = run->in[V], .mask = run->node->input_count > GRADIENT_MASK ? run->in[GRADIENT_MASK] : NULL,
        .y = run->in[RESULT], .lse = run->in[LSE], .rest = run->in[REST], .dy = run->in[CHANGE],
    };
}

static muster_status run_gradient(muster_worker *worker, const mst_step_run *run) {
    const mst_attention attention = attention_of(run->node);
    mst_attention_tensors tensors = gradient_operands(run);
    tensors.dq = run->out[Q];
    tensors.dk = run->out[K];
    tensors.dv = run->out[V];
    return mst_attention_gradient(worker, &attention, &tensors, "muster_expr_attention");
}

static muster_status run_mask_gradient(muster_worker *worker, const mst_step_run *run) {
    const mst_attention attention = attention_of(run->node);
    mst_attention_tensors tensors = gradient_operands(run);
    tensors.dmask = run->out[0];
    return mst_attention_mask_gradient(worker, &attention, &tensors, "muster_expr_attention");
}

static double last_size(const muster_expr *node, int32_t from_end, const int64_t *sizes) {
    return (double)mst_dim_value(node->graph, node->type.dims[node->type.ndim - from_end], sizes);
}
/* For each key two products of rows of d and of e elements, or five. */
static double operations_attention(const muster_expr *node, const int64_t *sizes) {
    const double keys = last_size(node->inputs[K], 2, sizes), width = last_size(node->inputs[K], 1, sizes);
    const double values = last_size(node->inputs[V], 1, sizes);
    return values > 0 ? 2 * keys * (1 + width / values) : 0;
}
static double operations_gradient(const muster_expr *node, const int64_t *sizes) {
    const double keys = last_size(node->inputs[K], 2, sizes), width = last_size(node->inputs[K], 1, sizes);
    const double values = last_size(node->inputs[V], 1, sizes);
    return width > 0 ? 2 * keys * (3 + 2 * values / width) : 0;
}

static double size_of(const muster_expr *node, int32_t axis, const int64_t *sizes) {
    return (double)mst_dim_value(node->graph, node->type.dims[axis], sizes);
}
/* Two products for each score, and an element of the mask may stand for many. */
static double operations_mask_gradient(const muster_expr *node, const int64_t *sizes) {
    double scores = last_size(node->inputs[K], 2, sizes), elements = 1;
    for (int32_t d = 0; d < node->inputs[Q]->type.ndim - 1; d++) scores *= size_of(node->inputs[Q], d, sizes);
    for (int32_t d = 0; d < node->type.ndim; d++) elements *= size_of(node, d, sizes);
    return elements > 0 ? 2 * (last_size(node->inputs[K], 1, sizes) + last_size(node->inputs[V], 1, sizes)) * scores / elements : 0;
}

/* ---- distributions ---- */

/* May this axis be cut? Parts of the heads of q have no parts of fewer heads of k that fit. */
static bool is_cut_at(const muster_expr *node, int32_t axis) {
    const mst_type *q = &node->inputs[Q]->type;
    return axis < q->ndim - 2 && (axis != heads_axis(q) || q->dims[axis] == node->inputs[K]->type.dims[axis]);
}

/* Any axis of the stack may be cut: rows, heads. A mask is cut where it has the axis. */
static bool distribute_attention(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind != MST_CUT || !is_cut_at(node, result.axis)) return false;
    return mst_distribute_elementwise(node, result, way, operands);
}

/* The gradients are proportional to dy. */
static bool distribute_gradient(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) return way == 0 && mst_distribute_scaled(node, result, CHANGE, operands);
    if (!is_cut_at(node, result.axis) || !mst_distribute_elementwise(node, result, way, operands)) return false;
    operands[LSE] = operands[REST] = result; /* which lack the last axis */
    return true;
}

/* The operands cut at an axis of q. The mask is cut there, too, or has none of it. */
static void cut_operands(const muster_expr *node, int32_t axis, mst_distribution mask, mst_distribution *operands) {
    for (int32_t i = 0; i < node->input_count; i++) operands[i] = i == GRADIENT_MASK ? mask : MST_DISTRIBUTED_CUT(axis);
}

/* Where the mask has the axis that is cut, its gradient is cut there, too. Else each worker has a
 * partial sum. The mask is repeated along some axes: `way` counts these, and says along which one
 * the operands are cut. Or dy is a partial value. */
static bool distribute_mask_gradient(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const mst_type *mask = &node->type;
    const int32_t before = node->inputs[Q]->type.ndim - mask->ndim; /* axes that it lacks */
    if (result.kind == MST_CUT) {
        const int32_t axis = before + result.axis;
        if (way || !is_cut_at(node, axis) || mask->dims[result.axis] != node->inputs[Q]->type.dims[axis]) return false;
        cut_operands(node, axis, result, operands);
        return true;
    }
    if (result.op != MUSTER_SUM) return false;
    for (int32_t axis = 0; axis < node->inputs[Q]->type.ndim - 2; axis++) {
        const bool repeated = axis < before || mask->dims[axis - before] != node->inputs[Q]->type.dims[axis];
        if (!repeated || !is_cut_at(node, axis) || way-- > 0) continue;
        cut_operands(node, axis, MST_DISTRIBUTED_SAME, operands);
        return true;
    }
    return way == 0 && mst_distribute_scaled(node, result, CHANGE, operands);
}

/* ---- the operators ---- */

#define ATTRIBUTES \
    {"scale", MST_VALUE_NUMBER}, { "causal", MST_VALUE_INTEGER }

const mst_operator mst_operator_attention = {
    MST_ANY_OPERATOR(
        attention, "softmax(scale q k^T + mask) v over the last two axes of q (..., n, d), k (..., m, d), v (..., m, e); scale 0 means 1 / "
                   "sqrt(d); causal: query i sees the keys up to i; mask, which may be missing, broadcasts to (..., n, m); 0 where a query "
                   "sees no key; of the axis before the last two, k and v may have a divisor of q's size: neighbours of q share them; "
                   "result 1: logsumexp of the scores"),
    .operands = {"q", "k", "v", "mask"},
    .optional = 1,
    .attributes = {ATTRIBUTES},
    .dtypes = MST_FLOAT_DTYPES,
    .flags = MST_OPERATOR_BY_SHARD,
    .results = 3,
    .hidden_results = 1, /* what the logarithm of the sum has lost to rounding */
    .infer = infer_attention,
    .distribute = distribute_attention,
    .operations = operations_attention,
    .run = run_attention,
    .gradient = gradient_attention};

const mst_operator mst_operator_attention_gradient = {
    MST_ANY_OPERATOR(attention_gradient, "the gradients of attention by q, and as results 1 and 2 by k and v"),
    .operands = {"q", "k", "v", "y", "lse", "rest", "dy", "mask"},
    .optional = 1,
    .attributes = {ATTRIBUTES},
    .dtypes = MST_FLOAT_DTYPES,
    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_ALL_GRADIENTS | MST_OPERATOR_BY_SHARD, /* the layout decides how products are made */
    .results = 3,
    .infer = infer_gradient,
    .distribute = distribute_gradient,
    .operations = operations_gradient,
    .run = run_gradient,
    .no_gradient = "for second derivatives write softmax(scale * q @ swapaxes(k, -1, -2), axis=-1) @ v in place of attention"};

const mst_operator mst_operator_attention_mask_gradient = {
    MST_ANY_OPERATOR(attention_mask_gradient, "the gradient of attention by its mask"),
    .operands = {"q", "k", "v", "y", "lse", "rest", "dy", "mask"},
    .attributes = {ATTRIBUTES},
    .dtypes = MST_FLOAT_DTYPES,
    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_ALL_GRADIENTS | MST_OPERATOR_BY_SHARD,
    .infer = infer_mask_gradient,
    .distribute = distribute_mask_gradient,
    .operations = operations_mask_gradient,
    .run = run_mask_gradient,
    .no_gradient = "for second derivatives write softmax(scale * q @ swapaxes(k, -1, -2), axis=-1) @ v in place of attention"};
