/* The sweep over the steps of a recurrent layer is one node, and so is its gradient. A layer
 * (recurrent.c) makes the node, and has checked its operands. */
#include "recurrent_private.h"

enum { GATES, STEPS_R, STEPS_H0, STEPS_C0 }; /* operands of the steps; of gru: bias behind h0; lengths are the last */
enum { STEPS_BIAS = STEPS_C0 };
enum { KIND, REVERSE }; /* attributes of the steps */

/* ---- results ---- */

/* Results of the steps, by kind; -1: it has none. The last are for the gradient. */
typedef struct results {
    int32_t cn, before_h, before_c, kept;
} results;
static results results_of(int64_t kind) {
    if (kind == MST_RECURRENT_LSTM) return (results){.cn = 2, .before_h = 3, .before_c = 4, .kept = 5};
    if (kind == MST_RECURRENT_GRU) return (results){.cn = -1, .before_h = 2, .before_c = -1, .kept = 3};
    return (results){.cn = -1, .before_h = 2, .before_c = -1, .kept = 0}; /* y */
}

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

/* ---- the gradient ---- */

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
    muster_expr *sums = mst_reduced(products, MST_OPERATOR_sum, MST_AXES(axes, 2), false, MUSTER_DTYPE_NONE);
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
