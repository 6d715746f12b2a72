/* The ways in which operators compute distributed results, one by one: for every node of a table of
 * expressions and of their gradients, every way that its operator offers. The workers are played by
 * one: it gets the operands that each of 2, 3 and 8 workers would have, computes what each would,
 * and the results together must be the value of the node on one device. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_axis_rows.h"
#include "graph_fixture.h"
#include "graph_operator_rows.h"
#include "graph_private.h"
#include "operators/operators_private.h"
#include "scheduler_scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 512, MOST_WORKERS = 8, WAYS = 8, TEXT = 512 };

/* Operators without a way of their own, since no worker computes a part of their results. */
static const struct {
    const char *name, *reason;
} without_ways[] = {
    {"input", "the call distributes it"},
    {"parameter", "the variable says how it lies"},
    {"number", "it takes the dtype of its neighbour and is no value of its own"},
    {"number_where", "as number"},
    {"result", "it has the distribution of its operation"},
    {"extent", "it is one number"},
    {"place", "it belongs to graphs whose workers compute each for itself"},
    {"place_gradient", "as place"},
    {"part", "an exchange"},
    {"all_reduce", "an exchange"},
    {"reduce_scatter", "an exchange"},
    {"all_gather", "an exchange"},
    {"all_to_all", "an exchange"},
    {"exchanged", "that is what it is for"},
    {"own_channel_sums", "they are those of the rows of each device"},
    {"own_count", "as own_channel_sums"},
    {"spread", "as own_channel_sums"},
    {"over_devices", "as own_channel_sums"},
};

/* ---- numbers ---- */

static uint64_t state_of_numbers;
static double next_number(void) {
    state_of_numbers = state_of_numbers * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state_of_numbers >> 11) * 0x1p-53;
}

static double get_number(const muster_tensor *t, int64_t i) {
    switch (t->dtype) {
    case MUSTER_F64:
        return ((const double *)t->data)[i];
    case MUSTER_F32:
        return ((const float *)t->data)[i];
    case MUSTER_I64:
        return (double)((const int64_t *)t->data)[i];
    case MUSTER_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

static void put_number(muster_tensor *t, int64_t i, double value) {
    if (t->dtype == MUSTER_F64) ((double *)t->data)[i] = value;
    if (t->dtype == MUSTER_F32) ((float *)t->data)[i] = (float)value;
    if (t->dtype == MUSTER_I64) ((int64_t *)t->data)[i] = (int64_t)value;
    if (t->dtype == MUSTER_I32) ((int32_t *)t->data)[i] = (int32_t)value;
    if (t->dtype == MUSTER_BOOL || t->dtype == MUSTER_U8) ((uint8_t *)t->data)[i] = (uint8_t)value;
}

static muster_tensor tensor_new(muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    muster_tensor made = muster_tensor_make(dtype, NULL, ndim, shape);
    made.data = calloc((size_t)muster_tensor_count(made) + 1, (size_t)muster_dtype_size(dtype));
    return made;
}

/* ---- one worker plays all ---- */

typedef struct play {
    const mst_graph *graph;
    int64_t rows;
    int64_t sizes[MST_SIZES];
    muster_tensor values[NODES]; /* by id: on one device, in host memory; data NULL: there is none */
    bool refused[NODES];
    bool *covered; /* by operator */
    int32_t ways;  /* that were compared */
    char failure[TEXT];
} play;

static muster_tensor on_device(muster_worker *worker, const muster_tensor *host) {
    muster_tensor made = scratch_tensor(worker, host->dtype, host->ndim, host->shape);
    if (muster_tensor_count(*host) && muster_worker_write(worker, *host, made) != MUSTER_OK) return muster_tensor_none();
    return made;
}

/* Runs the node with these operands in host memory; results[] are in host memory, too. */
static muster_status node_run(muster_worker *worker, const play *p, const muster_expr *node, const mst_sharing *sharing,
                              const muster_tensor *operands, muster_tensor *results, int32_t count) {
    muster_tensor in[MST_GRAPH_OPERANDS], out[MST_RESULTS];
    const muster_tensor *in_of[MST_GRAPH_OPERANDS];
    muster_tensor *out_of[MST_RESULTS];
    void *state = NULL;
    const int64_t mark = muster_worker_scratch_mark(worker);
    for (int32_t i = 0; i < node->input_count; i++) {
        const bool number = node->op->flags & MST_OPERATOR_NUMBERS && mst_node_is_number(node->inputs[i]) &&
                            (i == 1 || !mst_node_is_number(node->inputs[1]));
        in[i] = on_device(worker, &operands[i]);
        in_of[i] = number ? NULL : &in[i];
    }
    for (int32_t r = 0; r < MST_RESULTS; r++) {
        out[r] = muster_tensor_none();
        if (r < count) MUSTER_TRY(muster_worker_scratch(worker, results[r].dtype, results[r].ndim, results[r].shape, &out[r]));
        out_of[r] = &out[r];
    }
    const mst_step_run run = {.node = node, .in = in_of, .out = out_of, .sizes = p->sizes, .sharing = sharing, .state = &state};
    muster_tensor view = out[0];
    muster_status status = MUSTER_OK;
    if (node->op->view && in_of[0]) {
        view.byte_offset = in[0].byte_offset;
        if (node->op->view(&run, &view)) {
            view.data = in[0].data;
            if (muster_tensor_count(view)) status = muster_copy(worker, view, out[0]);
        } else {
            status = node->op->run(worker, &run);
        }
    } else {
        status = node->op->run(worker, &run);
    }
    for (int32_t r = 0; status == MUSTER_OK && r < count; r++)
        if (muster_tensor_count(out[r])) status = muster_worker_read(worker, out[r], results[r]);
    if (state && node->op->release) node->op->release(state);
    (void)muster_worker_scratch_release(worker, mark);
    return status;
}

/* The results of the node; further ones are those of `result` nodes. */
static int32_t results_of(const play *p, const muster_expr *node, const muster_expr *nodes[MST_RESULTS]) {
    int32_t count = 1;
    nodes[0] = node;
    for (int32_t r = 1; r < node->op->results; r++) {
        nodes[r] = NULL;
        for (int32_t id = node->id + 1; id < p->graph->node_count; id++) {
            const muster_expr *other = p->graph->nodes[id];
            if (mst_node_is(other, MST_OPERATOR_result) && other->inputs[0] == node && other->values[0].integer == r) nodes[r] = other;
        }
        if (!nodes[r]) break;
        count = r + 1;
    }
    return count;
}

/* ---- distributions, as their definition says ---- */

static int64_t edge(const play *p, mst_dim dim, int32_t workers, int32_t r) {
    const int64_t n = mst_dim_value(p->graph, dim, p->sizes);
    const bool rows = p->graph->dims[dim].powers[MST_SIZE_ROWS] != 0;
    return rows ? (p->rows ? p->rows * r / workers * (n / p->rows) : 0) : n * r / workers;
}

/* Copies between a whole value and a part of it along the axis. */
static void part_copy(muster_tensor *whole, muster_tensor *part, int32_t axis, int64_t begin, bool back) {
    int64_t before = 1, after = 1;
    for (int32_t d = 0; d < axis; d++) before *= whole->shape[d];
    for (int32_t d = axis + 1; d < whole->ndim; d++) after *= whole->shape[d];
    for (int64_t b = 0; b < before; b++)
        for (int64_t i = 0; i < part->shape[axis] * after; i++) {
            const int64_t at = (b * whole->shape[axis] + begin) * after + i, of_part = b * part->shape[axis] * after + i;
            if (back)
                put_number(whole, at, get_number(part, of_part));
            else
                put_number(part, of_part, get_number(whole, at));
        }
}

static muster_tensor local_new(const play *p, const mst_type *type, mst_distribution is, int32_t workers, int32_t r) {
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < type->ndim; d++) shape[d] = mst_dim_value(p->graph, type->dims[d], p->sizes);
    if (is.kind == MST_CUT) shape[is.axis] = edge(p, type->dims[is.axis], workers, r + 1) - edge(p, type->dims[is.axis], workers, r);
    return tensor_new(type->dtype, type->ndim, shape);
}

/* Values that the operation combines to the whole one: all but one worker's are arbitrary. */
static void partial_make(const muster_tensor *whole, int32_t op, int32_t workers, muster_tensor *parts) {
    const bool is_float = mst_dtype_is_float(whole->dtype);
    for (int64_t i = 0; i < muster_tensor_count(*whole); i++) {
        const double value = get_number(whole, i);
        const int32_t owner = (int32_t)(next_number() * workers);
        double rest = value;
        for (int32_t r = 0; r < workers; r++) {
            const double u = next_number(), some = is_float ? u - 0.5 : floor(3 * u);
            if (r == owner) continue;
            double other = whole->dtype == MUSTER_BOOL || op == MUSTER_PROD ? op != MUSTER_MAX && op != MUSTER_SUM : some;
            if (whole->dtype != MUSTER_BOOL && op == MUSTER_MAX) other = value - fabs(some);
            if (whole->dtype != MUSTER_BOOL && op == MUSTER_MIN) other = value + fabs(some);
            if (op == MUSTER_SUM) rest -= other;
            put_number(&parts[r], i, other);
        }
        put_number(&parts[owner], i, rest);
    }
}

static double combined(int32_t op, double a, double b) {
    if (op == MUSTER_SUM) return a + b;
    if (op == MUSTER_PROD) return a * b;
    return op == MUSTER_MAX ? fmax(a, b) : fmin(a, b);
}

/* What the workers have of a value, put together. */
static muster_tensor whole_of(const play *p, const mst_type *type, mst_distribution is, int32_t workers, muster_tensor *parts) {
    muster_tensor whole = local_new(p, type, MST_DISTRIBUTED_SAME, workers, 0);
    for (int32_t r = 0; r < workers; r++) {
        if (is.kind == MST_CUT) {
            part_copy(&whole, &parts[r], is.axis, edge(p, type->dims[is.axis], workers, r), true);
            continue;
        }
        for (int64_t i = 0; i < muster_tensor_count(whole); i++) {
            const double value = get_number(&parts[r], i);
            put_number(&whole, i, r == 0 || is.kind == MST_SAME ? value : combined(is.op, get_number(&whole, i), value));
        }
    }
    return whole;
}

static void tensors_free(muster_tensor *tensors, int32_t count) {
    for (int32_t i = 0; i < count; i++) free(tensors[i].data);
}

static const char *text_of(mst_distribution is, char text[32]) {
    if (is.kind == MST_CUT)
        snprintf(text, 32, "cut along %d", (int)is.axis);
    else
        snprintf(text, 32, is.kind == MST_SAME ? "same" : "partial %d", (int)is.op);
    return text;
}

static _Atomic int64_t values_compared, values_passed_over; /* by the workers */

/* Sums of products with infinite numbers may be NaN where the product of the sum is infinite. */
static bool same_values(const muster_tensor *a, const muster_tensor *b, bool partial, int64_t *at) {
    for (*at = 0; *at < muster_tensor_count(*a); ++*at) {
        const double x = get_number(a, *at), y = get_number(b, *at);
        const double limit = a->dtype == MUSTER_F64 ? 1e-11 * (1 + fabs(x)) : a->dtype == MUSTER_F32 ? 1e-5 * (1 + fabs(x)) : 0;
        values_compared++;
        if (partial && !isfinite(x)) {
            values_passed_over++;
            continue;
        }
        if (!(fabs(x - y) <= limit) && !(isnan(x) && isnan(y)) && x != y) return false;
    }
    return true;
}

/* The node, with its operands, as the compiler would make it for this way. */
typedef struct way_node {
    muster_expr node, operands[MST_GRAPH_OPERANDS];
    muster_expr *inputs[MST_GRAPH_OPERANDS];
} way_node;

static void way_make(way_node *made, const muster_expr *node, mst_distribution result, const mst_distribution *operands) {
    made->node = *node;
    made->node.distribution = result;
    made->node.inputs = made->inputs;
    for (int32_t i = 0; i < node->input_count; i++) {
        made->operands[i] = *node->inputs[i];
        made->operands[i].distribution = operands[i];
        made->inputs[i] = &made->operands[i];
    }
}

static void operands_share(play *p, const muster_expr *node, const mst_distribution *ways, int32_t workers,
                           muster_tensor operands[MST_GRAPH_OPERANDS][MOST_WORKERS]) {
    for (int32_t i = 0; i < node->input_count; i++) {
        const mst_type *type = &node->inputs[i]->type;
        muster_tensor *whole = &p->values[node->inputs[i]->id];
        for (int32_t r = 0; r < workers; r++) operands[i][r] = local_new(p, type, ways[i], workers, r);
        if (ways[i].kind == MST_PARTIAL) {
            partial_make(whole, ways[i].op, workers, operands[i]);
            continue;
        }
        for (int32_t r = 0; r < workers; r++)
            if (ways[i].kind == MST_CUT)
                part_copy(whole, &operands[i][r], ways[i].axis, edge(p, type->dims[ways[i].axis], workers, r), false);
            else
                for (int64_t e = 0; e < muster_tensor_count(*whole); e++) put_number(&operands[i][r], e, get_number(whole, e));
    }
}

/* Each worker's results together are those of one device; what one device refuses, a worker
 * refuses. */
static void results_compare(play *p, const muster_expr *node, mst_distribution result, int32_t way, int32_t workers,
                            muster_tensor results[MST_RESULTS][MOST_WORKERS], int32_t count, bool refused) {
    const muster_expr *nodes[MST_RESULTS];
    char distribution[32];
    (void)results_of(p, node, nodes);
    if (refused != p->refused[node->id])
        snprintf(p->failure, TEXT, "%s, %s, way %d, %d workers, %d rows: refused by %s only: %.200s", node->op->name,
                 text_of(result, distribution), (int)way, (int)workers, (int)p->rows, refused ? "workers" : "one device",
                 muster_last_error());
    for (int32_t k = 0; k < count && !refused && !*p->failure; k++) {
        int64_t at;
        const mst_distribution is = k ? mst_distribution_of_result(nodes[k], result) : result;
        muster_tensor whole = whole_of(p, &nodes[k]->type, is, workers, results[k]);
        if (!same_values(&p->values[nodes[k]->id], &whole, is.kind == MST_PARTIAL, &at))
            snprintf(p->failure, TEXT, "%s, %s, way %d, %d workers, %d rows: result %d, element %d: expected %.17g, received %.17g",
                     node->op->name, text_of(is, distribution), (int)way, (int)workers, (int)p->rows, (int)k, (int)at,
                     get_number(&p->values[nodes[k]->id], at), get_number(&whole, at));
        free(whole.data);
    }
}

static void way_compare(muster_worker *worker, play *p, const muster_expr *node, mst_distribution result, int32_t way,
                        const mst_distribution *ways, int32_t workers) {
    muster_tensor operands[MST_GRAPH_OPERANDS][MOST_WORKERS], results[MST_RESULTS][MOST_WORKERS];
    const muster_expr *nodes[MST_RESULTS];
    const int32_t count = results_of(p, node, nodes);
    int64_t row_edges[MOST_WORKERS + 1];
    way_node made;
    bool refused = false;
    way_make(&made, node, result, ways);
    operands_share(p, node, ways, workers, operands);
    for (int32_t r = 0; r <= workers; r++) row_edges[r] = p->rows * r / workers;
    for (int32_t r = 0; r < workers; r++) {
        const mst_sharing sharing = {.rank = r, .size = workers, .rows = p->rows, .row_edges = row_edges};
        muster_tensor in[MST_GRAPH_OPERANDS], out[MST_RESULTS];
        for (int32_t i = 0; i < node->input_count; i++) in[i] = operands[i][r];
        for (int32_t k = 0; k < count; k++)
            out[k] = results[k][r] = local_new(p, &nodes[k]->type, k ? mst_distribution_of_result(nodes[k], result) : result, workers, r);
        refused |= node_run(worker, p, &made.node, &sharing, in, out, count) != MUSTER_OK;
    }
    results_compare(p, node, result, way, workers, results, count, refused);
    for (int32_t i = 0; i < node->input_count; i++) tensors_free(operands[i], workers);
    for (int32_t k = 0; k < count; k++) tensors_free(results[k], workers);
    p->ways++;
    p->covered[node->op->id] = true;
}

static bool has_way(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (node->op->distribute) return node->op->distribute(node, result, way, operands);
    return node->op->elementwise && mst_distribute_elementwise(node, result, way, operands);
}

/* No exchange makes partial values of a number, which `run` may take from the node. */
static bool is_feasible(const muster_expr *node, const mst_distribution *operands) {
    for (int32_t i = 0; i < node->input_count; i++)
        if (operands[i].kind == MST_PARTIAL && mst_node_is_number(node->inputs[i])) return false;
    return true;
}

static int64_t numbers_met; /* of workers */

static void ways_compare(muster_worker *worker, play *p, const muster_expr *node, mst_distribution result) {
    static const int32_t numbers_of_workers[] = {3, 2, 8, 4, 5, 6, 7};
    const int32_t numbers = test_is_full() ? 7 : on_gpus() ? 1 : 3;
    const int64_t one_in = on_gpus() ? 1 : test_one_in(1, 2, 2); /* of the numbers of workers */
    mst_distribution operands[MST_GRAPH_OPERANDS];
    for (int32_t way = 0; way < WAYS && !*p->failure && has_way(node, result, way, operands); way++)
        for (int32_t n = 0; n < numbers && is_feasible(node, operands) && !*p->failure; n++)
            if (test_keeps(numbers_met++, one_in)) way_compare(worker, p, node, result, way, operands, numbers_of_workers[n]);
}

static void node_compare(muster_worker *worker, play *p, const muster_expr *node) {
    static const int32_t reductions[] = {MUSTER_SUM, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD};
    for (int32_t a = 0; a < node->type.ndim; a++)
        if (node->type.dims[a] != MST_DIM_ONE) ways_compare(worker, p, node, MST_DISTRIBUTED_CUT(a));
    for (int32_t r = 0; r < 4; r++) ways_compare(worker, p, node, MST_DISTRIBUTED_PARTIAL(reductions[r]));
}

/* The value on one device. false: an operand has none. */
static bool node_evaluate(muster_worker *worker, play *p, const muster_expr *node) {
    const int64_t row_edges[2] = {0, p->rows};
    const mst_sharing alone = {.rank = 0, .size = 1, .rows = p->rows, .row_edges = row_edges};
    const mst_distribution same[MST_GRAPH_OPERANDS] = {MST_DISTRIBUTED_SAME, MST_DISTRIBUTED_SAME, MST_DISTRIBUTED_SAME,
                                                       MST_DISTRIBUTED_SAME};
    muster_tensor in[MST_GRAPH_OPERANDS], out[MST_RESULTS];
    const muster_expr *nodes[MST_RESULTS];
    const int32_t count = results_of(p, node, nodes);
    way_node made;
    for (int32_t i = 0; i < node->input_count; i++) {
        if (!p->values[node->inputs[i]->id].data || p->refused[node->inputs[i]->id]) return false;
        in[i] = p->values[node->inputs[i]->id];
    }
    way_make(&made, node, MST_DISTRIBUTED_SAME, same);
    for (int32_t k = 0; k < count; k++) out[k] = p->values[nodes[k]->id] = local_new(p, &nodes[k]->type, MST_DISTRIBUTED_SAME, 1, 0);
    p->refused[node->id] = node_run(worker, p, &made.node, &alone, in, out, count) != MUSTER_OK;
    for (int32_t k = 1; k < count; k++) p->refused[nodes[k]->id] = p->refused[node->id];
    return true;
}

static void leaf_fill(play *p, const muster_expr *node) {
    muster_tensor *value = &p->values[node->id];
    *value = local_new(p, &node->type, MST_DISTRIBUTED_SAME, 1, 0);
    for (int64_t i = 0; i < muster_tensor_count(*value); i++) {
        const double u = next_number();
        put_number(value, i, mst_dtype_is_float(node->type.dtype) ? 2 * u - 1 : floor((node->type.dtype == MUSTER_BOOL ? 2 : 4) * u));
    }
}

static muster_status play_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    play *p = user;
    (void)in;
    (void)out;
    for (int32_t id = 0; id < p->graph->node_count && !*p->failure; id++) {
        const muster_expr *node = p->graph->nodes[id];
        if (node == p->graph->error || mst_node_is(node, MST_OPERATOR_number) || mst_node_is(node, MST_OPERATOR_result)) continue;
        if (mst_node_is(node, MST_OPERATOR_input))
            leaf_fill(p, node);
        else if (node_evaluate(worker, p, node))
            node_compare(worker, p, node);
    }
    return MUSTER_OK;
}

/* ---- the graphs ---- */

/* Inputs have their rows in the first axis, from which they are moved. */
static muster_expr *operand_make(muster_graph *graph, const char *shape, const char *name) {
    int64_t sizes[MUSTER_MAX_DIMS];
    int32_t ndim = 0, moved = 0;
    muster_dtype dtype = MUSTER_F64;
    if (*shape == 'i') dtype = MUSTER_I64;
    if (*shape == 'b') dtype = MUSTER_BOOL;
    if (*shape == 'n') dtype = MUSTER_I32;
    if (dtype != MUSTER_F64 || strchr("mpq", *shape)) shape++;
    const char *first = strchr(shape, 'R');
    if (first) {
        sizes[ndim++] = MUSTER_ROWS;
        moved = (int32_t)(first - shape);
    }
    for (const char *at = shape; *at && *at != '-'; at++)
        if (at != first) sizes[ndim++] = *at == 'R' ? MUSTER_ROWS : *at - '0';
    muster_expr *input = muster_graph_input(graph, name, dtype, ndim, sizes, first ? MUSTER_SCATTER : MUSTER_BROADCAST);
    if (!moved) return input;
    return apply(graph, "moveaxis", &input, 1, ATTRIBUTES({.name = "source", LIST(0)}, {.name = "destination", LIST(moved)}));
}

/* The expression of the row, and its gradients where it has some. */
static void expression_make(muster_graph *graph, const operator_row *row) {
    static const char *const names[OPERATOR_OPERANDS] = {"a", "b", "c", "d", "e", "f", "g"};
    muster_expr *operands[OPERATOR_OPERANDS], *floats[OPERATOR_OPERANDS], *gradients[OPERATOR_OPERANDS];
    int32_t count = 0, wanted = 0;
    for (; count < OPERATOR_OPERANDS && row->shapes[count]; count++) {
        operands[count] = operand_make(graph, row->shapes[count], names[count]);
        if (*row->shapes[count] == 'p' || *row->shapes[count] == 'q')
            operands[count] = operator_places(operands[count], *row->shapes[count] == 'p' ? operands[0] : NULL, row->axis);
        else if (operands[count]->type.dtype == MUSTER_F64 && *row->shapes[count] != 'm')
            floats[wanted++] = operands[count];
    }
    muster_expr *y = apply(graph, row->operation, operands, count, row->attributes);
    for (int32_t r = 1; r < y->op->results; r++)
        (void)mst_apply(y->graph, MST_OPERATOR_result, &y, 1, (mst_graph_value[]){{.integer = r}}); /* hidden ones, too */
    if (!wanted || y->type.dtype != MUSTER_F64 || mst_operator_find(row->operation)->no_gradient) return;
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", y, APPLY(graph, "cos", y))), floats, wanted, gradients));
    if (!row->second) return;
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "square", gradients[0])), floats, wanted, gradients));
}

static int32_t row_compare(muster_runtime *runtime, const operator_row *row, int64_t rows, bool *covered) {
    muster_graph *graph;
    muster_function *function;
    play *p = calloc(1, sizeof *p);
    assert_ok(muster_graph_create(runtime, "ways", &graph));
    expression_make(graph, row);
    *p = (play){.graph = graph->graph, .rows = rows, .covered = covered};
    assert_true(p->graph->node_count <= NODES);
    for (int32_t s = 0; s < MST_SIZES; s++) p->sizes[s] = s == MST_SIZE_ROWS ? rows : 1;
    state_of_numbers = test_seed();
    assert_ok(muster_function_create(runtime, "workers", play_body, p, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    if (*p->failure) fail_msg("%s: %s", row->operation, p->failure);
    const int32_t ways = p->ways;
    for (int32_t id = 0; id < p->graph->node_count; id++) free(p->values[id].data);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    free(p);
    return ways;
}

static bool covered[MST_OPERATORS];

static void every_way_computes_the_value(void **state) {
    static const int64_t rows[] = {7, 0, 1, 64, 3, 8, 33};
    int32_t ways = 0;
    const int32_t counts = test_is_full() ? 7 : on_gpus() ? 1 : 4;
    for (int32_t i = 0; i < operator_row_count; i++)
        for (int32_t r = 0; r < counts; r++) ways += row_compare(*state, &operator_rows[i], rows[r], covered);
    for (int32_t i = 0; operator_axis_row(i); i++)
        for (int32_t r = 0; r < counts; r++)
            if (counts == 7 || r == 0) ways += row_compare(*state, operator_axis_row(i), rows[r], covered);
    /* few rows have infinite values; a table full of them would compare nothing */
    assert_true(values_compared > (counts > 1 ? 100 : 90) * ways / counts && values_passed_over * 100 < values_compared);
    if (counts == 4) assert_int_equal(ways, test_kept(287046, test_one_in(1, 2, 2)));
}

/* Each operator that becomes a step has a way, or a reason why it has none. */
static void every_operator_has_a_way_or_a_reason(void **state) {
    (void)state;
    int32_t with = 0, reasons = 0;
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        bool reason = false;
        for (size_t i = 0; i < sizeof without_ways / sizeof *without_ways; i++) reason |= strcmp(without_ways[i].name, op->name) == 0;
        if (!op->run && !op->view && !reason) continue; /* composites */
        if (reason && covered[id]) fail_msg("%s has a way, and a reason for none", op->name);
        if (!reason && !covered[id]) fail_msg("%s has no way", op->name);
        with += !reason;
        reasons += reason;
    }
    assert_int_equal(reasons, (int32_t)(sizeof without_ways / sizeof *without_ways));
    assert_true(with > 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_computes_the_value),
        cmocka_unit_test(every_operator_has_a_way_or_a_reason),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
