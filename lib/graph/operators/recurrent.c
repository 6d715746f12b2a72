/* Recurrent layers: rnn, lstm and gru. The products of the inputs, of all steps at once, are other
 * operations; the sweep over the steps is one node (recurrent_steps.c). */
#include "recurrent_private.h"

enum { X_OPERAND, W, R, BIAS, H0, C0 }; /* operands of the layers; lengths are the last */
enum { LAYER_REVERSE, LAYER_RELU };

/* ---- shapes ---- */

typedef struct layer {
    mst_draft *draft;
    int32_t kind, lengths; /* lengths: the number of the operand */
    mst_type states;       /* (n, h) */
    mst_dim gates;         /* of a step, in numbers */
} layer;

static muster_status check_dims(const layer *l, int32_t operand, int32_t ndim, const mst_dim *dims) {
    mst_type wanted = {.dtype = l->states.dtype, .ndim = ndim};
    for (int32_t d = 0; d < ndim; d++) wanted.dims[d] = dims[d];
    return mst_draft_dims(l->draft, operand, &wanted);
}

static muster_status check_lengths(const layer *l) {
    mst_draft *draft = l->draft;
    const mst_type rows = {.dtype = MUSTER_I64, .ndim = 1, .dims = {l->states.dims[0]}};
    if (draft->count <= l->lengths) return MUSTER_OK;
    if (mst_node_is(draft->inputs[l->lengths], MST_OPERATOR_number)) MUSTER_TRY(mst_draft_number(draft, l->lengths, MUSTER_I64));
    MUSTER_TRY(mst_draft_dtype(draft, l->lengths, MST_DTYPE_BIT(MUSTER_I32) | MST_DTYPE_BIT(MUSTER_I64)));
    return mst_draft_broadcasts(draft, l->lengths, &rows);
}

/* All operands but the lengths have one dtype. */
static muster_status check_dtypes(const layer *l) {
    muster_dtype dtype;
    mst_draft *draft = l->draft;
    const int32_t count = draft->count;
    if (draft->count > l->lengths) draft->count = l->lengths;
    const muster_status status = mst_draft_unify(draft, 0, &dtype);
    draft->count = count;
    return status;
}

static muster_status check_layer(layer *l) {
    mst_draft *draft = l->draft;
    char received[MST_NODE_TEXT];
    MUSTER_TRY(check_dtypes(l));
    const mst_type *x = &X->type, *r = &draft->inputs[R]->type;
    if (x->ndim != LAYER_AXES)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected 3 axes (rows, steps, numbers), received %s",
                                mst_type_text(draft->graph, x, received));
    if (r->ndim != 2)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, R, "expected 2 axes (gates, states), received %s",
                                mst_type_text(draft->graph, r, received));
    const mst_dim h = r->dims[1];
    l->gates = mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, mst_recurrent_gates(l->kind)), h);
    const mst_dim biases = l->kind == MST_RECURRENT_GRU ? mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, 4), h) : l->gates;
    if (l->gates == MST_DIM_NONE || biases == MST_DIM_NONE) return draft->graph->status;
    l->states = (mst_type){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[ROWS_AXIS], h}};
    if (r->dims[0] != l->gates) { /* w may be wrong, and r as it is meant */
        const int32_t gates = (int32_t)mst_recurrent_gates(l->kind);
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, R,
                                gates == 1   ? "expected (h, h) for h states, received %s"
                                : gates == 3 ? "expected (3 h, h) for h states, received %s"
                                             : "expected (4 h, h) for h states, received %s",
                                mst_type_text(draft->graph, r, received));
    }
    MUSTER_TRY(check_dims(l, W, 2, (mst_dim[]){l->gates, x->dims[LAST_AXIS]}));
    MUSTER_TRY(check_dims(l, BIAS, 1, &biases));
    for (int32_t i = H0; i < l->lengths && i < draft->count; i++) MUSTER_TRY(mst_draft_broadcasts(draft, i, &l->states));
    MUSTER_TRY(mst_draft_flag(draft, LAYER_REVERSE));
    return check_lengths(l);
}

/* ---- layers ---- */

/* Row `first` and those behind it, `count` in all, of the bias as a matrix (4, h), as a vector. */
static muster_expr *part_of_bias(const layer *l, int64_t first, int64_t count) {
    mst_draft *draft = l->draft;
    const mst_dim h = l->states.dims[1];
    muster_expr *rows = mst_reshape_to(draft->inputs[BIAS], 2, (mst_dim[]){mst_dim_number(draft->graph, 4), h});
    const int64_t start[] = {first, MUSTER_NONE}, stop[] = {first + count, MUSTER_NONE};
    if (mst_node_is_error(rows)) return rows;
    muster_expr *part = mst_apply(draft->graph, MST_OPERATOR_slice, &rows, 1,
                                  (mst_graph_value[]){{.list = start, .count = 2}, {.list = stop, .count = 2}, MST_NO_VALUE});
    return mst_reshape_to(part, 1, (mst_dim[]){count == 1 ? h : mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, count), h)});
}

/* x, with 0 behind the lengths: the gradient of w is a product of x with the gradients of the
 * gates, where 0 times NaN or infinity would be NaN. */
static muster_expr *x_within_lengths(const layer *l) {
    mst_draft *draft = l->draft;
    if (draft->count <= l->lengths) return X;
    muster_expr *lengths = draft->inputs[l->lengths];
    const mst_dim size = X->type.dims[STEPS_AXIS];
    muster_expr *steps = mst_apply(
        draft->graph, MST_OPERATOR_arange, NULL, 0,
        (mst_graph_value[]){{.list = (int64_t[]){size}, .count = 1}, {.number = 0}, {.number = 1}, {.integer = lengths->type.dtype}});
    steps = mst_reshape_to(steps, 2, (mst_dim[]){size, MST_DIM_ONE});
    if (lengths->type.ndim) lengths = mst_reshape_to(lengths, 3, (mst_dim[]){lengths->type.dims[0], MST_DIM_ONE, MST_DIM_ONE});
    return E(where, E(less, steps, lengths), X, NUMBER(0));
}

static muster_expr *expand_layer(mst_draft *draft, int32_t kind) {
    const bool gru = kind == MST_RECURRENT_GRU, lstm = kind == MST_RECURRENT_LSTM;
    layer l = {.draft = draft, .kind = kind, .lengths = lstm ? C0 + 1 : H0 + 1};
    if (check_layer(&l) != MUSTER_OK) return draft->graph->error;
    mst_graph *graph = draft->graph;
    muster_expr *zero = NUMBER(0), *turned = mst_transpose_to(draft->inputs[W], (const int64_t[]){1, 0});
    muster_expr *bias = gru ? part_of_bias(&l, 0, 3) : draft->inputs[BIAS];
    muster_expr *operands[MST_GRAPH_OPERANDS];
    int32_t count = 0;
    operands[count++] = E(add, E(matmul, x_within_lengths(&l), turned), bias);
    operands[count++] = draft->inputs[R];
    operands[count++] = draft->count > H0 ? draft->inputs[H0] : zero;
    if (lstm) operands[count++] = draft->count > C0 ? draft->inputs[C0] : zero;
    if (gru) operands[count++] = part_of_bias(&l, 3, 1);
    operands[count++] = draft->count > l.lengths ? draft->inputs[l.lengths] : mst_extent(X, 1u << STEPS_AXIS, MUSTER_I64);
    for (int32_t i = 0; i < count; i++)
        if (mst_node_is_error(operands[i])) return graph->error;
    return mst_apply(graph,
                     lstm  ? MST_OPERATOR_lstm_steps
                     : gru ? MST_OPERATOR_gru_steps
                           : MST_OPERATOR_rnn_steps,
                     operands, count, (mst_graph_value[]){{.integer = kind}, draft->values[LAYER_REVERSE]});
}

static muster_expr *expand_rnn(mst_draft *draft) {
    if (mst_draft_flag(draft, LAYER_RELU) != MUSTER_OK) return draft->graph->error;
    return expand_layer(draft, draft->values[LAYER_RELU].integer ? MST_RECURRENT_RELU : MST_RECURRENT_TANH);
}
static muster_expr *expand_lstm(mst_draft *draft) { return expand_layer(draft, MST_RECURRENT_LSTM); }
static muster_expr *expand_gru(mst_draft *draft) { return expand_layer(draft, MST_RECURRENT_GRU); }

/* ---- the operators ---- */

#define LAYER(expanding) .dtypes = MST_FLOAT_DTYPES, .expand = expanding, .infer = mst_draft_composite
#define REVERSED \
    { "reverse", MST_VALUE_INTEGER }

const mst_operator mst_operator_rnn = {
    MST_ANY_OPERATOR(
        rnn, "a recurrent layer: y[:, t] = h = tanh(x[:, t] w^T + h r^T + bias) for each row of x (n, t, d) with w (h, d), r (h, h), "
             "bias (h), beginning with h0, which broadcasts to (n, h), or 0; relu = 1: the larger of 0 and that sum in place of tanh; "
             "lengths, which broadcasts to (n): a row ends after so many steps, and y is 0 behind them; reverse = 1: from the last "
             "step to the first; result 1: h at the end"),
    .operands = {"x", "w", "r", "bias", "h0", "lengths"}, .optional = 2, .attributes = {REVERSED, {"relu", MST_VALUE_INTEGER}},
    LAYER(expand_rnn)};

const mst_operator mst_operator_lstm = {
    MST_ANY_OPERATOR(
        lstm, "a recurrent layer with memory: with (i, f, g, o) = x[:, t] w^T + h r^T + bias, c = sigmoid(f) c + sigmoid(i) tanh(g) and "
              "y[:, t] = h = sigmoid(o) tanh(c), for each row of x (n, t, d) with w (4 h, d), r (4 h, h), bias (4 h); h0, c0, "
              "lengths and reverse as in rnn; results 1 and 2: h and c at the end"),
    .operands = {"x", "w", "r", "bias", "h0", "c0", "lengths"}, .optional = 3, .attributes = {REVERSED}, LAYER(expand_lstm)};

const mst_operator mst_operator_gru = {
    MST_ANY_OPERATOR(
        gru, "a gated recurrent layer: with (x1, x2, x3) = x[:, t] w^T, (h1, h2, h3) = h r^T and bias (b1, b2, b3, b4), n = tanh(x3 + "
             "b3 + sigmoid(x1 + h1 + b1) (h3 + b4)), z = sigmoid(x2 + h2 + b2), y[:, t] = h = (1 - z) n + z h, for each row of x "
             "(n, t, d) with w (3 h, d), r (3 h, h), bias (4 h); h0, lengths and reverse as in rnn; result 1: h at the end"),
    .operands = {"x", "w", "r", "bias", "h0", "lengths"}, .optional = 2, .attributes = {REVERSED}, LAYER(expand_gru)};
