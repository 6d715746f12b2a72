/* The ways in which operators compute distributed results, one by one: for every node of a table of
 * expressions and of their gradients, every way that its operator offers. The workers are played by
 * one: it gets the operands that each of 2, 3 and 8 workers would have, computes what each would,
 * and the results together must be the value of the node on one device. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "operators/operators_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPERANDS = 3, NODES = 512, MOST_WORKERS = 8, WAYS = 8, TEXT = 512 };

/* ---- the table ---- */

typedef struct table_row {
    const char *operation;
    const char *shapes[OPERANDS]; /* digits: the sizes of the axes; R: rows; "-": a scalar; i...: indices; b...: truth; n...: i32 */
    muster_attribute attributes[5];
} table_row;
#define NUMBER(attribute, value) \
    { .name = (attribute), .number = (value) }
#define INTEGER(attribute, value) \
    { .name = (attribute), .integer = (value) }
#define ENTRIES(attribute, ...) \
    { .name = (attribute), LIST(__VA_ARGS__) }
#define WORDS(attribute, value) \
    { .name = (attribute), .text = (value) }
#define ROWS MUSTER_ROWS
#define ROW(...) \
    { .operation = __VA_ARGS__ }

static const table_row table[] = {
    ROW("add", {"R4", "4"}),
    ROW("add", {"1R", "R3R"}),
    ROW("subtract", {"R1", "1R"}),
    ROW("multiply", {"4R", "R"}),
    ROW("multiply", {"nR4", "n4"}),
    ROW("divide", {"R4", "-"}),
    ROW("divide", {"nR4", "n4"}),
    ROW("maximum", {"R5", "5"}),
    ROW("power", {"R3", "3"}),
    ROW("bitwise_and", {"nR4", "nR4"}),
    ROW("bitwise_not", {"nR4"}),
    ROW("negative", {"R4"}),
    ROW("tanh", {"3R"}),
    ROW("relu", {"R9"}),
    ROW("gelu", {"9R"}),
    ROW("leaky_relu", {"R4"}),
    ROW("absolute", {"R4"}),
    ROW("square", {"R4"}),
    ROW("sqrt", {"R4"}),
    ROW("exp", {"R4"}),
    ROW("log", {"R4"}),
    ROW("sigmoid", {"R4"}),
    ROW("reciprocal", {"R4"}),
    ROW("softplus", {"R4"}),
    ROW("sin", {"R4"}),
    ROW("cos", {"R4"}),
    ROW("tan", {"R4"}),
    ROW("asin", {"R4"}),
    ROW("acos", {"R4"}),
    ROW("atan", {"R4"}),
    ROW("sinh", {"R4"}),
    ROW("cosh", {"R4"}),
    ROW("erf", {"R4"}),
    ROW("log1p", {"R4"}),
    ROW("expm1", {"R4"}),
    ROW("log2", {"R4"}),
    ROW("exp2", {"R4"}),
    ROW("log10", {"R4"}),
    ROW("rsqrt", {"R4"}),
    ROW("silu", {"R4"}),
    ROW("sign", {"R4"}),
    ROW("floor", {"R4"}),
    ROW("ceil", {"R4"}),
    ROW("round", {"R4"}),
    ROW("trunc", {"R4"}),
    ROW("minimum", {"R4", "4"}),
    ROW("floor_divide", {"R4", "4"}),
    ROW("remainder", {"R4", "4"}),
    ROW("fmod", {"R4", "4"}),
    ROW("atan2", {"R4", "4"}),
    ROW("hypot", {"R4", "4"}),
    ROW("equal", {"R4", "4"}),
    ROW("not_equal", {"R4", "4"}),
    ROW("less_equal", {"R4", "4"}),
    ROW("greater", {"R4", "4"}),
    ROW("greater_equal", {"R4", "4"}),
    ROW("logical_and", {"R4", "4"}),
    ROW("logical_or", {"R4", "4"}),
    ROW("bitwise_or", {"nR4", "n4"}),
    ROW("bitwise_xor", {"nR4", "n4"}),
    ROW("logical_not", {"R4"}),
    ROW("isfinite", {"R4"}),
    ROW("isinf", {"R4"}),
    ROW("relu_gradient", {"R4", "R4"}),
    ROW("less", {"R4", "4"}),
    ROW("logical_xor", {"bR4", "bR4"}),
    ROW("isnan", {"R4"}),
    ROW("where", {"bR4", "R4", "4"}),
    ROW("clip", {"R4"}, {NUMBER("low", -0.5), NUMBER("high", 0.5)}),
    ROW("cast", {"R9"}, {INTEGER("dtype", MUSTER_I32)}),
    ROW("stop_gradient", {"R9"}),
    ROW("ones_like", {"9R"}),
    ROW("sum", {"R49"}),
    ROW("sum", {"9R4"}, {ENTRIES("axis", 0, 2)}),
    ROW("sum", {"nR9"}, {ENTRIES("axis", 0)}),
    ROW("mean", {"R49"}, {ENTRIES("axis", 0, 1)}),
    ROW("mean", {"4R"}, {ENTRIES("axis", 0), INTEGER("keepdims", 1)}),
    ROW("max", {"R9"}, {ENTRIES("axis", 0)}),
    ROW("max", {"R9"}, {ENTRIES("axis", 1)}),
    ROW("max", {"nR9"}),
    ROW("min", {"9R"}),
    ROW("min", {"nR9"}, {ENTRIES("axis", 0)}),
    ROW("prod", {"R9"}, {ENTRIES("axis", 0)}),
    ROW("any", {"bR9"}, {ENTRIES("axis", 0)}),
    ROW("all", {"R9"}, {ENTRIES("axis", 1)}),
    ROW("var", {"R9"}, {ENTRIES("axis", 0)}),
    ROW("std", {"R9"}, {ENTRIES("axis", 1)}),
    ROW("norm", {"R9"}, {NUMBER("ord", 3)}),
    ROW("softmax", {"R9"}, {ENTRIES("axis", -1)}),
    ROW("softmax", {"4R9"}, {ENTRIES("axis", 0)}),
    ROW("log_softmax", {"R49"}, {ENTRIES("axis", 1, 2)}),
    ROW("log_softmax", {"9R"}, {ENTRIES("axis", 0)}),
    ROW("logsumexp", {"R9"}, {ENTRIES("axis", -1)}),
    ROW("logsumexp", {"9R"}, {ENTRIES("axis", 0), INTEGER("keepdims", 1)}),
    ROW("argmax", {"R9"}, {INTEGER("axis", 1)}),
    ROW("argmin", {"9R4"}, {INTEGER("axis", 0)}),
    ROW("cumsum", {"9R4"}, {INTEGER("axis", 1)}),
    ROW("cumsum", {"R9"}, {INTEGER("axis", 1)}),
    ROW("sort", {"R9"}),
    ROW("argsort", {"4R9"}),
    ROW("top_k", {"R9"}, {ENTRIES("k", 3)}),
    ROW("tril", {"R9"}, {INTEGER("k", 1)}),
    ROW("triu", {"49R"}, {INTEGER("k", -2)}),
    ROW("arange", {NULL}, {ENTRIES("shape", ROWS), NUMBER("start", 3), NUMBER("increment", 2), INTEGER("dtype", MUSTER_I64)}),
    ROW("arange", {NULL}, {ENTRIES("shape", 20), NUMBER("start", 3), NUMBER("increment", -2), INTEGER("dtype", MUSTER_F64)}),
    ROW("linspace", {NULL}, {NUMBER("start", 0), NUMBER("stop", 1), INTEGER("num", 20), INTEGER("dtype", MUSTER_F64)}),
    ROW("eye", {NULL}, {ENTRIES("shape", ROWS, 9), INTEGER("k", 2), INTEGER("dtype", MUSTER_F64)}),
    ROW("eye", {NULL}, {ENTRIES("shape", 9, ROWS), INTEGER("k", -1), INTEGER("dtype", MUSTER_I32)}),
    ROW("full", {NULL}, {ENTRIES("shape", ROWS, 9), NUMBER("value", 2.5), INTEGER("dtype", MUSTER_F64)}),
    ROW("random_uniform", {"i-"}, {ENTRIES("shape", ROWS, 9), INTEGER("seed", 1), INTEGER("dtype", MUSTER_F64)}),
    ROW("random_normal", {"i-"}, {ENTRIES("shape", ROWS, 3), INTEGER("seed", 2), INTEGER("dtype", MUSTER_F64)}),
    ROW("bernoulli", {"i-"}, {ENTRIES("shape", ROWS, 3), NUMBER("p", 0.5), INTEGER("seed", 3), INTEGER("dtype", MUSTER_F64)}),
    ROW("dropout", {"R9", "i-"}, {NUMBER("p", 0.5), INTEGER("seed", 4)}),
    ROW("dropout", {"94", "i-"}, {NUMBER("p", 0.5), INTEGER("seed", 5)}),
    ROW("matmul", {"R9", "94"}),
    ROW("matmul", {"9R", "R4"}),
    ROW("matmul", {"R", "R4"}),
    ROW("matmul", {"2R39", "R94"}),
    ROW("matmul", {"R39", "94"}),
    ROW("dot", {"-", "R4"}),
    ROW("inner", {"R9", "49"}),
    ROW("outer", {"R", "9"}),
    ROW("einsum", {"R49", "R95"}, {WORDS("subscripts", "bij,bjk->bki")}),
    ROW("einsum", {"R4", "R9"}, {WORDS("subscripts", "ri,rj->ij")}),
    ROW("einsum", {"nR4", "n49"}, {WORDS("subscripts", "ri,ij->rj")}),
    ROW("reshape", {"R49"}, {ENTRIES("shape", ROWS, MUSTER_INFER)}),
    ROW("reshape", {"R49"}, {ENTRIES("shape", MUSTER_INFER, 3)}),
    ROW("reshape", {"49R"}, {ENTRIES("shape", 36, ROWS)}),
    ROW("reshape", {"9R"}, {ENTRIES("shape", 3, 3, ROWS)}),
    ROW("ravel", {"R49"}),
    ROW("broadcast_to", {"R1"}, {ENTRIES("shape", 3, ROWS, 9)}),
    ROW("expand_dims", {"R9"}, {INTEGER("axis", 1)}),
    ROW("squeeze", {"1R19"}),
    ROW("transpose", {"R49"}, {ENTRIES("axes", 1, 2, 0)}),
    ROW("swapaxes", {"R49"}, {INTEGER("axis1", 0), INTEGER("axis2", -1)}),
    ROW("moveaxis", {"4R9"}, {ENTRIES("source", 0), ENTRIES("destination", 1)}),
    ROW("slice", {"R9"}, {ENTRIES("start", MUSTER_NONE, 1), ENTRIES("stop", MUSTER_NONE, 8), ENTRIES("step", 1, 2)}),
    ROW("slice", {"9R4"}, {ENTRIES("start", 6, MUSTER_NONE), ENTRIES("stop", 1, MUSTER_NONE), ENTRIES("step", -2, 1)}),
    ROW("flip", {"R9"}, {ENTRIES("axis", 0)}),
    ROW("flip", {"R9"}, {ENTRIES("axis", 1)}),
    ROW("pad", {"R9"}, {ENTRIES("before", 0, 1), ENTRIES("after", 0, 2)}),
    ROW("concatenate", {"R9", "R4", "R1"}, {INTEGER("axis", 1)}),
    ROW("concatenate", {"99", "49"}, {INTEGER("axis", 0)}),
    ROW("stack", {"R9", "R9"}, {INTEGER("axis", 1)}),
    ROW("split", {"R9"}, {INTEGER("sections", 3), INTEGER("index", 1), INTEGER("axis", 1)}),
    ROW("tile", {"R9"}, {ENTRIES("reps", 2, 1)}),
    ROW("tile", {"R9"}, {ENTRIES("reps", 1, 2)}),
    ROW("repeat", {"R9"}, {INTEGER("repeats", 2), INTEGER("axis", 0)}),
    ROW("diagonal", {"R99"}, {INTEGER("offset", 1), INTEGER("axis1", 1), INTEGER("axis2", 2)}),
    ROW("trace", {"99R"}),
    ROW("take", {"94", "iR"}),
    ROW("take", {"R9", "iR"}, {INTEGER("axis", 1)}),
    ROW("embedding", {"94", "iR3"}),
    ROW("scatter_add", {"R4", "iR"}, {ENTRIES("rows", 9)}),
    ROW("scatter_add", {"9R", "i9"}, {ENTRIES("rows", 5)}),
    ROW("take_along_axis", {"R9", "iR4"}, {INTEGER("axis", 1)}),
    ROW("take_along_axis", {"R49", "iR41"}, {INTEGER("axis", -1)}),
    ROW("add_along_axis", {"R9", "iR9"}, {ENTRIES("size", 4), INTEGER("axis", 1)}),
    ROW("one_hot", {"iR"}, {ENTRIES("k", 5), INTEGER("dtype", MUSTER_F64)}),
    ROW("softmax_cross_entropy", {"R4", "iR"}),
    ROW("cross_entropy", {"R4", "iR"}, {INTEGER("ignore", 1)}),
    ROW("cross_entropy", {"R34", "iR3"}, {INTEGER("ignore", MUSTER_NONE)}),
    ROW("negative_log_likelihood", {"R4", "iR"}, {INTEGER("ignore", MUSTER_NONE)}),
    ROW("sigmoid_cross_entropy", {"R4", "R4"}),
    ROW("mean_squared_error", {"R4", "4"}),
    ROW("huber", {"R4", "R4"}, {NUMBER("delta", 0.5)}),
    ROW("hinge", {"R4", "R4"}),
};
enum { CASES = sizeof table / sizeof *table };

/* Operators without a way of their own, since no worker computes a part of their results. */
static const struct {
    const char *name, *reason;
} without_ways[] = {
    {"input", "the call distributes it"},
    {"parameter", "the variable says how it lies"},
    {"number", "it takes the dtype of its neighbour and is no value of its own"},
    {"result", "it has the distribution of its operation"},
    {"extent", "it is one number"},
    {"place", "it belongs to graphs whose workers compute each for itself"},
    {"place_gradient", "as place"},
    {"part", "an exchange"},
    {"all_reduce", "an exchange"},
    {"reduce_scatter", "an exchange"},
    {"all_gather", "an exchange"},
    {"all_to_all", "an exchange"},
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
    muster_tensor made = muster_worker_scratch(worker, host->dtype, host->ndim, host->shape);
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
        out[r] = r < count ? muster_worker_scratch(worker, results[r].dtype, results[r].ndim, results[r].shape) : muster_tensor_none();
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

/* Sums of products with infinite numbers may be NaN where the product of the sum is infinite. */
static bool same_values(const muster_tensor *a, const muster_tensor *b, bool partial, int64_t *at) {
    for (*at = 0; *at < muster_tensor_count(*a); ++*at) {
        const double x = get_number(a, *at), y = get_number(b, *at);
        const double limit = a->dtype == MUSTER_F64 ? 1e-11 * (1 + fabs(x)) : a->dtype == MUSTER_F32 ? 1e-5 * (1 + fabs(x)) : 0;
        if (partial && !isfinite(x)) continue;
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
        const mst_sharing sharing = {.rank = r, .size = workers, .row_edges = row_edges};
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

static void ways_compare(muster_worker *worker, play *p, const muster_expr *node, mst_distribution result) {
    static const int32_t numbers_of_workers[] = {3, 2, 8};
    const int32_t numbers = on_gpus() && !test_is_full() ? 1 : 3;
    mst_distribution operands[MST_GRAPH_OPERANDS];
    for (int32_t way = 0; way < WAYS && !*p->failure && has_way(node, result, way, operands); way++)
        for (int32_t n = 0; n < numbers && is_feasible(node, operands) && !*p->failure; n++)
            way_compare(worker, p, node, result, way, operands, numbers_of_workers[n]);
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
    const mst_sharing alone = {.rank = 0, .size = 1, .row_edges = row_edges};
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
    if (dtype != MUSTER_F64) shape++;
    const char *first = strchr(shape, 'R');
    if (first) {
        sizes[ndim++] = MUSTER_ROWS;
        moved = (int32_t)(first - shape);
    }
    for (const char *at = shape; *at && *at != '-'; at++)
        if (at != first) sizes[ndim++] = *at == 'R' ? MUSTER_ROWS : *at - '0';
    muster_expr *input = muster_graph_input(graph, name, dtype, ndim, sizes, first ? MUSTER_SCATTER : MUSTER_BROADCAST);
    if (!moved) return input;
    return apply(graph, "moveaxis", &input, 1, ATTRIBUTES(ENTRIES("source", 0), ENTRIES("destination", moved)));
}

/* The expression of the row, and its gradients where it has some. */
static void expression_make(muster_graph *graph, const table_row *row) {
    static const char *const names[OPERANDS] = {"a", "b", "c"};
    muster_expr *operands[OPERANDS], *floats[OPERANDS], *gradients[OPERANDS];
    int32_t count = 0, wanted = 0;
    for (; count < OPERANDS && row->shapes[count]; count++) {
        operands[count] = operand_make(graph, row->shapes[count], names[count]);
        if (operands[count]->type.dtype == MUSTER_F64) floats[wanted++] = operands[count];
    }
    muster_expr *y = apply(graph, row->operation, operands, count, row->attributes);
    for (int32_t r = 1; r < y->op->results; r++) (void)muster_expr_result(y, r);
    if (!wanted || y->type.dtype != MUSTER_F64 || mst_operator_find(row->operation)->no_gradient) return;
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", y, APPLY(graph, "cos", y))), floats, wanted, gradients));
}

static int32_t row_compare(muster_runtime *runtime, const table_row *row, int64_t rows, bool *covered) {
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
    static const int64_t rows[] = {7, 0, 1, 64};
    int32_t ways = 0;
    const int32_t counts = on_gpus() && !test_is_full() ? 1 : 4;
    for (int32_t i = 0; i < CASES; i++)
        for (int32_t r = 0; r < counts; r++) ways += row_compare(*state, &table[i], rows[r], covered);
    if (counts == 4) assert_int_equal(ways, 85251);
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
