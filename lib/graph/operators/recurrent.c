/* Recurrent layers: rnn, lstm and gru. The products of the inputs, of all steps at once, are other
 * operations; the sweep over the steps is one node, and so is its gradient. */
#include "composite_private.h"
#include "recurrent/recurrent_impl.h"

enum { X_OPERAND, W, R, BIAS, H0, C0 };                /* operands of the layers; lengths are the last */
enum { ROWS_AXIS, STEPS_AXIS, LAST_AXIS, LAYER_AXES }; /* of x */
enum { GATES, STEPS_R, STEPS_H0, STEPS_C0 };           /* operands of the steps; of gru: bias behind h0; lengths are the last */
enum { STEPS_BIAS = STEPS_C0 };
enum { KIND, REVERSE }; /* attributes of the steps */
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
    MUSTER_TRY(check_dims(l, R, 2, (mst_dim[]){l->gates, h}));
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

static muster_expr *expand_layer(mst_draft *draft, int32_t kind) {
    const bool gru = kind == MST_RECURRENT_GRU, lstm = kind == MST_RECURRENT_LSTM;
    layer l = {.draft = draft, .kind = kind, .lengths = lstm ? C0 + 1 : H0 + 1};
    if (check_layer(&l) != MUSTER_OK) return draft->graph->error;
    mst_graph *graph = draft->graph;
    muster_expr *zero = NUMBER(0), *turned = mst_transpose_to(draft->inputs[W], (const int64_t[]){1, 0});
    muster_expr *bias = gru ? part_of_bias(&l, 0, 3) : draft->inputs[BIAS];
    muster_expr *operands[MST_GRAPH_OPERANDS];
    int32_t count = 0;
    operands[count++] = E(add, E(matmul, X, turned), bias);
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

/* ---- steps ---- */

/* Results of the steps, by kind; -1: it has none. The last are for the gradient. */
typedef struct results {
    int32_t cn, before_h, before_c, kept;
} results;
static results results_of(int64_t kind) {
    if (kind == MST_RECURRENT_LSTM) return (results){.cn = 2, .before_h = 3, .before_c = 4, .kept = 5};
    if (kind == MST_RECURRENT_GRU) return (results){.cn = -1, .before_h = 2, .before_c = -1, .kept = 3};
    return (results){.cn = -1, .before_h = 2, .before_c = -1, .kept = 0}; /* y */
}

/* The steps are made by a layer, which has checked the operands. */
static muster_status infer_steps(mst_draft *draft) {
    const int64_t kind = draft->values[KIND].integer;
    const results made = results_of(kind);
    mst_type y = X->type, *types = draft->types;
    y.dims[LAST_AXIS] = draft->inputs[STEPS_R]->type.dims[1];
    types[0] = y;
    types[1] = (mst_type){.dtype = y.dtype, .ndim = 2, .dims = {y.dims[ROWS_AXIS], y.dims[LAST_AXIS]}};
    types[made.before_h] = y;
    if (made.cn >= 0) types[made.cn] = types[1];
    if (made.before_c >= 0) types[made.before_c] = y;
    if (made.kept == 0) return MUSTER_OK;
    types[made.kept] = y;
    types[made.kept].dims[LAST_AXIS] = mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, 4), y.dims[LAST_AXIS]);
    return MUSTER_OK;
}

/* Operands: kept, before (of LSTM c, else h), r, lengths, dy, dhn, dcn. Results: the gradients of
 * the gates and of h0; of LSTM that of c0, of GRU that of the products, and of the others nothing
 * of use. */
enum { KEPT, BEFORE, GRADIENT_R, GRADIENT_LENGTHS, DY, DHN, DCN };
static muster_status infer_gradient(mst_draft *draft) {
    const int64_t kind = draft->values[KIND].integer;
    const mst_type *r = &draft->inputs[GRADIENT_R]->type;
    mst_type *types = draft->types;
    types[0] = X->type;
    types[0].dims[LAST_AXIS] = r->dims[0];
    types[1] = (mst_type){.dtype = X->type.dtype, .ndim = 2, .dims = {X->type.dims[ROWS_AXIS], r->dims[1]}};
    types[2] = types[kind == MST_RECURRENT_GRU ? 0 : 1];
    return MUSTER_OK;
}

static muster_expr *result_of(muster_expr *node, int32_t index) {
    if (mst_node_is_error(node) || index == 0) return node;
    return mst_apply(node->graph, MST_OPERATOR_result, &node, 1, (mst_graph_value[]){{.integer = index}});
}

/* The gradient of a result so far, or 0. */
static muster_expr *change_of(const mst_gradients *gradients, muster_expr *node, int32_t index) {
    muster_expr *result = result_of(node, index);
    if (mst_node_is_error(result)) return result;
    muster_expr *found = mst_gradient_of(gradients, result);
    return found ? found : mst_full(node->graph, &result->type, 0);
}

/* x (n, t, k) as (n t, k). */
static muster_expr *as_matrix(muster_expr *x) {
    if (mst_node_is_error(x)) return x;
    const mst_dim rows = mst_dim_multiply(x->graph, x->type.dims[ROWS_AXIS], x->type.dims[STEPS_AXIS]);
    return mst_reshape_to(x, 2, (mst_dim[]){rows, x->type.dims[LAST_AXIS]});
}

/* The last third of the sums of the products' gradients over rows and steps. */
static muster_expr *change_of_bias(muster_expr *products, mst_dim h) {
    mst_graph *graph = products->graph;
    const int64_t axes[] = {ROWS_AXIS, STEPS_AXIS}, start[] = {2, MUSTER_NONE};
    muster_expr *sums = mst_apply(graph, MST_OPERATOR_sum, &products, 1, (mst_graph_value[]){{.list = axes, .count = 2}, {.integer = 0}});
    muster_expr *thirds = mst_reshape_to(sums, 2, (mst_dim[]){mst_dim_number(graph, 3), h});
    if (mst_node_is_error(thirds)) return thirds;
    muster_expr *last =
        mst_apply(graph, MST_OPERATOR_slice, &thirds, 1, (mst_graph_value[]){{.list = start, .count = 2}, MST_NO_VALUE, MST_NO_VALUE});
    return mst_reshape_to(last, 1, &h);
}

static void gradient_steps(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_graph *graph = node->graph;
    const int64_t kind = node->values[KIND].integer;
    const results made = results_of(kind);
    const bool lstm = kind == MST_RECURRENT_LSTM, gru = kind == MST_RECURRENT_GRU;
    muster_expr *before_h = result_of(node, made.before_h), *before = lstm ? result_of(node, made.before_c) : before_h;
    muster_expr *dhn = change_of(gradients, node, 1), *r = node->inputs[STEPS_R];
    muster_expr *operands[] = {result_of(node, made.kept),
                               before,
                               r,
                               node->inputs[node->input_count - 1],
                               dy,
                               dhn,
                               lstm ? change_of(gradients, node, made.cn) : dhn};
    muster_expr *change = mst_apply(graph, MST_OPERATOR_steps_gradient, operands, DCN + 1, node->values);
    muster_expr *products = gru ? result_of(change, 2) : change;
    if (mst_node_is_error(change) || mst_node_is_error(products)) return;
    mst_gradient_add(gradients, node, GATES, change);
    if (mst_gradient_wanted(gradients, node, STEPS_H0)) mst_gradient_add(gradients, node, STEPS_H0, result_of(change, 1));
    if (lstm && mst_gradient_wanted(gradients, node, STEPS_C0)) mst_gradient_add(gradients, node, STEPS_C0, result_of(change, 2));
    if (gru && mst_gradient_wanted(gradients, node, STEPS_BIAS))
        mst_gradient_add(gradients, node, STEPS_BIAS, change_of_bias(products, r->type.dims[1]));
    if (!mst_gradient_wanted(gradients, node, STEPS_R)) return;
    muster_expr *turned = as_matrix(products);
    if (!mst_node_is_error(turned)) turned = mst_transpose_to(turned, (const int64_t[]){1, 0});
    mst_gradient_add(gradients, node, STEPS_R, MST_APPLY(graph, matmul, turned, as_matrix(before_h)));
}

/* ---- running ---- */

static const char where[] = "muster_expr_rnn, _lstm or _gru";

static mst_recurrent recurrent_of(const muster_expr *node) {
    return (mst_recurrent){.kind = (int32_t)node->values[KIND].integer, .reverse = node->values[REVERSE].integer != 0};
}

static muster_status run_steps(muster_worker *worker, const mst_step_run *run) {
    const mst_recurrent recurrent = recurrent_of(run->node);
    const results made = results_of(recurrent.kind);
    const bool lstm = recurrent.kind == MST_RECURRENT_LSTM, gru = recurrent.kind == MST_RECURRENT_GRU;
    const mst_recurrent_tensors tensors = {
        .gates = run->in[GATES],
        .r = run->in[STEPS_R],
        .bias = gru ? run->in[STEPS_BIAS] : NULL,
        .h0 = run->in[STEPS_H0],
        .c0 = lstm ? run->in[STEPS_C0] : NULL,
        .lengths = run->in[run->node->input_count - 1],
        .y = run->out[0],
        .hn = run->out[1],
        .cn = lstm ? run->out[made.cn] : NULL,
        .before_h = run->out[made.before_h],
        .before_c = lstm ? run->out[made.before_c] : NULL,
        .kept = made.kept ? run->out[made.kept] : NULL,
    };
    return mst_recurrent_forward(worker, &recurrent, &tensors, where);
}

static muster_status run_gradient(muster_worker *worker, const mst_step_run *run) {
    const mst_recurrent recurrent = recurrent_of(run->node);
    const bool lstm = recurrent.kind == MST_RECURRENT_LSTM, gru = recurrent.kind == MST_RECURRENT_GRU;
    const mst_recurrent_tensors tensors = {
        .r = run->in[GRADIENT_R],
        .lengths = run->in[GRADIENT_LENGTHS],
        .kept = run->in[KEPT],
        .before_h = gru ? run->in[BEFORE] : NULL,
        .before_c = lstm ? run->in[BEFORE] : NULL,
        .dy = run->in[DY],
        .dhn = run->in[DHN],
        .dcn = lstm ? run->in[DCN] : NULL,
        .dgates = run->out[0],
        .dh0 = run->out[1],
        .dc0 = lstm ? run->out[2] : NULL,
        .dproducts = gru ? run->out[2] : NULL,
    };
    return mst_recurrent_gradient(worker, &recurrent, &tensors, where);
}

/* Each element of y has a product of h numbers for each gate. */
static double operations_steps(const muster_expr *node, const int64_t *sizes) {
    const mst_type *r = &node->inputs[STEPS_R]->type;
    return 2 * (double)mst_dim_value(node->graph, r->dims[0], sizes);
}
static double operations_gradient(const muster_expr *node, const int64_t *sizes) {
    const mst_type *r = &node->inputs[GRADIENT_R]->type;
    return 2 * (double)mst_dim_value(node->graph, r->dims[1], sizes);
}

/* ---- distributions ---- */

/* The rows may be cut; then operands are cut that have a row for each of them. */
static bool distribute_rows(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const mst_dim rows = node->inputs[0]->type.dims[ROWS_AXIS];
    if (way || result.kind != MST_CUT || result.axis != ROWS_AXIS) return false;
    const int32_t r = mst_node_is(node, MST_OPERATOR_steps_gradient) ? GRADIENT_R : STEPS_R,
                  lengths = r == STEPS_R ? node->input_count - 1 : GRADIENT_LENGTHS;
    for (int32_t i = 0; i < node->input_count; i++) {
        const mst_type *type = &node->inputs[i]->type;
        const bool has_rows = i == lengths ? type->ndim == 1 : type->ndim > 1;
        operands[i] = i != r && has_rows && type->dims[0] == rows ? result : MST_DISTRIBUTED_SAME;
    }
    return true;
}

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

#define STEPS                                                                                                      \
    .attributes = {{"kind", MST_VALUE_INTEGER}, {"reverse", MST_VALUE_INTEGER}},                                   \
    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_ALL_GRADIENTS | MST_OPERATOR_BY_SHARD, .dtypes = MST_FLOAT_DTYPES, \
    .distribute = distribute_rows
#define FORWARD .infer = infer_steps, .operations = operations_steps, .run = run_steps, .gradient = gradient_steps

const mst_operator mst_operator_rnn_steps = {MST_ANY_OPERATOR(rnn_steps, "the steps of rnn"),
                                             .operands = {"gates", "r", "h0", "lengths"},
                                             .results = 3,
                                             .hidden_results = 1,
                                             STEPS,
                                             FORWARD};
const mst_operator mst_operator_lstm_steps = {MST_ANY_OPERATOR(lstm_steps, "the steps of lstm"),
                                              .operands = {"gates", "r", "h0", "c0", "lengths"},
                                              .results = 6,
                                              .hidden_results = 3,
                                              STEPS,
                                              FORWARD};
const mst_operator mst_operator_gru_steps = {MST_ANY_OPERATOR(gru_steps, "the steps of gru"),
                                             .operands = {"gates", "r", "h0", "bias", "lengths"},
                                             .results = 4,
                                             .hidden_results = 2,
                                             STEPS,
                                             FORWARD};

const mst_operator mst_operator_steps_gradient = {MST_ANY_OPERATOR(steps_gradient, "the gradients of the steps of a recurrent layer"),
                                                  .operands = {"kept", "before", "r", "lengths", "dy", "dhn", "dcn"},
                                                  .results = 3,
                                                  STEPS,
                                                  .infer = infer_gradient,
                                                  .operations = operations_gradient,
                                                  .run = run_gradient,
                                                  .no_gradient =
                                                      "for second derivatives write the steps of the layer by matmul, sigmoid and tanh"};
