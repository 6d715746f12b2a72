/* Random graphs, seeded: intermediate values that share memory give the bits of values that do not,
 * and gradients are those of central differences. Kinks are avoided: every operation gets operands
 * where it is smooth. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "program_private.h"

#include <math.h>

enum {
    GRAPHS = 500,
    FULL_GRAPHS = 20000,
    MOST_NODES = 64,
    ELEMENTS = 256,
    INPUTS = 3,
    CHECKED = 4,
    SMALL_SAMPLE = 60,
    GPU_SAMPLE = 12,
    GPU_FUSED = 8
};

/* ---- random choices ---- */

static uint64_t state_of_choices;
static uint32_t choose(uint32_t below) {
    state_of_choices = state_of_choices * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state_of_choices >> 33) % below);
}
static double between(double low, double high) { return low + (high - low) * (double)choose(1u << 30) * 0x1p-30; }

/* ---- building ---- */

typedef struct building {
    muster_graph *graph;
    muster_expr *nodes[MOST_NODES];
    int32_t count;
    int32_t *uses; /* by operation; NULL: not counted */
} building;

/* Counts what the generator asked for: composite operations leave nodes of others. */
static muster_expr *make(building *b, const char *operation, muster_expr *const *inputs, int32_t count,
                         const muster_attribute *attributes) {
    if (b->uses) b->uses[mst_operator_find(operation)->id]++;
    return apply(b->graph, operation, inputs, count, attributes);
}

static int64_t extent(const muster_expr *x, int32_t axis) { return mst_dim_constant(x->graph, x->type.dims[axis]); }
static int64_t elements(const muster_expr *x) {
    int64_t product = 1;
    for (int32_t d = 0; d < x->type.ndim; d++) product *= extent(x, d);
    return product;
}
static muster_expr *number(building *b, double value) { return muster_graph_number(b->graph, value); }
static muster_expr *one(building *b, const char *operation, muster_expr *x) { return make(b, operation, &x, 1, NULL); }
static muster_expr *two(building *b, const char *operation, muster_expr *x, muster_expr *y) {
    return make(b, operation, (muster_expr *[]){x, y}, 2, NULL);
}
static muster_expr *with(building *b, const char *operation, muster_expr *x, const muster_attribute *attributes) {
    return make(b, operation, &x, 1, attributes);
}
static muster_expr *positive(building *b, muster_expr *x) { return two(b, "add", one(b, "square", one(b, "tanh", x)), number(b, 0.5)); }
/* inside (-0.8, 0.8) */
static muster_expr *inside(building *b, muster_expr *x) { return two(b, "multiply", one(b, "tanh", x), number(b, 0.8)); }

static muster_expr *unary_of(building *b, muster_expr *x) {
    static const char *const anywhere[] = {"negative", "square", "tanh", "sigmoid", "softplus",        "sin",        "cos", "atan",
                                           "erf",      "gelu",   "silu", "mish",    "gelu_derivative", "log_sigmoid"};
    static const char *const of_positive[] = {"sqrt", "log", "reciprocal", "rsqrt", "absolute", "relu", "log2", "log10"};
    static const char *const of_one_sign[] = {"leaky_relu", "elu", "celu", "selu", "softsign"};
    static const char *const of_inside[] = {"exp",   "tan",   "asin", "acos", "sinh",         "cosh",
                                            "log1p", "expm1", "exp2", "clip", "hard_sigmoid", "hard_swish"};
    if (choose(24) == 0)
        return make(b, "dropout", (muster_expr *[]){x, number(b, 1)}, 2, ATTRIBUTES({.name = "p", .number = 0.25}, {.name = "seed"}));
    switch (choose(4)) {
    case 0:
        return one(b, anywhere[choose(14)], x);
    case 1:
        return one(b, of_positive[choose(8)], positive(b, x));
    case 2:
        return one(b, of_one_sign[choose(5)], choose(2) ? positive(b, x) : one(b, "negative", positive(b, x)));
    default:
        return one(b, of_inside[choose(12)], inside(b, x));
    }
}

/* A node whose shape broadcasts with that of x, made of another. */
static muster_expr *partner(building *b, muster_expr *x) {
    muster_expr *y = b->nodes[choose((uint32_t)b->count)];
    bool fits = true;
    for (int32_t d = 1; d <= x->type.ndim && d <= y->type.ndim; d++) {
        const int64_t n = extent(x, x->type.ndim - d), m = extent(y, y->type.ndim - d);
        fits &= n == m || n == 1 || m == 1;
    }
    int64_t most = 1;
    for (int32_t d = 1; d <= x->type.ndim || d <= y->type.ndim; d++) {
        const int64_t n = d <= x->type.ndim ? extent(x, x->type.ndim - d) : 1, m = d <= y->type.ndim ? extent(y, y->type.ndim - d) : 1;
        most *= n > m ? n : m;
    }
    return fits && most <= ELEMENTS ? y : one(b, "mean", y);
}

static muster_expr *binary_of(building *b, muster_expr *x) {
    muster_expr *y = partner(b, x);
    switch (choose(15)) {
    case 13:
        return two(b, "logaddexp", inside(b, x), y);
    case 14:
        return two(b, "logaddexp2", x, inside(b, y));
    case 9:
        return two(b, "atan2", positive(b, x), y);
    case 10:
        return two(b, "hypot", positive(b, x), y);
    case 11:
        return two(b, "remainder", two(b, "add", inside(b, x), number(b, 2)), number(b, -5));
    case 12:
        return two(b, "fmod", two(b, "subtract", inside(b, x), number(b, 2)), two(b, "add", number(b, 5), inside(b, y)));
    case 0:
        return two(b, "add", x, y);
    case 1:
        return two(b, "subtract", y, x);
    case 2:
        return two(b, "multiply", one(b, "tanh", x), y);
    case 3:
        return two(b, "divide", x, positive(b, y));
    case 4:
        return two(b, "power", positive(b, x), inside(b, y));
    case 5:
        return two(b, "maximum", inside(b, x), two(b, "add", inside(b, y), number(b, choose(2) ? 2 : -2)));
    case 6:
        return two(b, "minimum", two(b, "subtract", inside(b, x), number(b, 2)), inside(b, y));
    case 7:
        return make(b, "where", (muster_expr *[]){two(b, "greater", x, number(b, 100)), y, one(b, "sin", x)}, 3, NULL);
    default:
        return two(b, "add", x, number(b, between(-1, 1)));
    }
}

/* Elements that stay in their order, the largest first: where two are equal, sorting has a kink. */
static muster_expr *apart(building *b, muster_expr *x) {
    const int64_t k = extent(x, x->type.ndim - 1);
    muster_expr *steps =
        make(b, "arange", NULL, 0,
             ATTRIBUTES({.name = "shape", LIST(k)}, {.name = "increment", .number = -3}, {.name = "dtype", .integer = MUSTER_F64}));
    return two(b, "add", inside(b, x), steps);
}

static muster_expr *norm_of(building *b, muster_expr *x) {
    if (choose(2)) return with(b, "norm", x, ATTRIBUTES({.name = "ord", .number = 2}, {.name = "axis", LIST(-1)}));
    return with(b, "norm", positive(b, x), ATTRIBUTES({.name = "ord", .number = choose(2) ? 1 : 3}));
}

static muster_expr *reduction_of(building *b, muster_expr *x) {
    static const char *const names[] = {"sum", "mean", "var", "logsumexp", "softmax", "log_softmax"};
    const uint32_t which = choose(11);
    if (x->type.ndim == 0) return one(b, "square", x);
    if (which == 8) return norm_of(b, x);
    if (which == 10) return with(b, "prod", inside(b, x), ATTRIBUTES({.name = "axis", LIST(-1)}));
    if (which == 9) return with(b, "std", apart(b, x), ATTRIBUTES({.name = "axis", LIST(-1)}));
    if (which >= 6) return with(b, which == 6 ? "max" : "min", apart(b, x), ATTRIBUTES({.name = "axis", LIST(-1)}));
    const muster_attribute axis = {.name = "axis", LIST((int64_t)choose((uint32_t)x->type.ndim))};
    if (which >= 4) return with(b, names[which], one(b, "tanh", x), ATTRIBUTES(axis));
    return with(b, names[which], one(b, "tanh", x), ATTRIBUTES(axis, {.name = "keepdims", .integer = choose(2)}));
}

static muster_expr *product_of(building *b, muster_expr *x) {
    if (x->type.ndim == 0) return two(b, "dot", x, one(b, "tanh", x));
    static const char *const of_vectors[] = {"matmul", "inner", "outer"};
    if (x->type.ndim == 1) return two(b, of_vectors[choose(elements(x) > 16 ? 2 : 3)], one(b, "tanh", x), one(b, "sin", x));
    const int32_t last = x->type.ndim - 1;
    if (x->type.ndim == 2 && choose(2) && extent(x, 0) * extent(x, 0) <= ELEMENTS)
        return make(b, "einsum", (muster_expr *[]){one(b, "tanh", x), one(b, "cos", x)}, 2,
                    ATTRIBUTES({.name = "subscripts", .text = choose(2) ? "ij,kj->ik" : "ij,ij->j"}));
    const muster_attribute axes[] = {{.name = "axis1", .integer = last}, {.name = "axis2", .integer = last - 1}, {.name = NULL}};
    if (elements(x) / extent(x, last) * extent(x, last - 1) > ELEMENTS) return one(b, "tanh", x);
    return two(b, "matmul", one(b, "tanh", x), with(b, "swapaxes", one(b, "cos", x), axes));
}

static muster_expr *indices_of(building *b, int64_t rows) {
    muster_expr *x;
    const muster_attribute labels[] = {{.name = "axis", .integer = 1}, {.name = NULL}};
    /* argmax of an identity-like matrix would be constant; of an input it is stable under small
     * steps */
    x = make(b, "full", NULL, 0,
             ATTRIBUTES({.name = "shape", LIST(2, rows)}, {.name = "value", .number = 1}, {.name = "dtype", .integer = MUSTER_F64}));
    return with(b, "argmax", x, labels);
}

static muster_expr *movement_of(building *b, muster_expr *x) {
    const int32_t ndim = x->type.ndim;
    if (ndim == 0) return with(b, "broadcast_to", x, ATTRIBUTES({.name = "shape", LIST(2, 3)}));
    const int64_t axis = choose((uint32_t)ndim), n = extent(x, (int32_t)axis);
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < ndim; d++) start[d] = stop[d] = MUSTER_NONE, step[d] = 1;
    switch (choose(10)) {
    case 0:
        return with(b, "reshape", x, ATTRIBUTES({.name = "shape", LIST(MUSTER_INFER)}));
    case 1:
        return one(b, "transpose", x);
    case 2:
        start[axis] = n > 1 ? 1 : 0;
        step[axis] = 2;
        if (n == 0) return x;
        return with(b, "slice", x,
                    ATTRIBUTES({.name = "start", .integers = start, .count = ndim}, {.name = "stop", .integers = stop, .count = ndim},
                               {.name = "step", .integers = step, .count = ndim}));
    case 3:
        return with(b, "flip", x, ATTRIBUTES({.name = "axis", LIST(axis)}));
    case 4:
        if (elements(x) / n * (n + 2) > ELEMENTS) return x;
        for (int32_t d = 0; d < ndim; d++) start[d] = stop[d] = d == axis;
        return with(b, "pad", x,
                    ATTRIBUTES({.name = "before", .integers = start, .count = ndim}, {.name = "after", .integers = stop, .count = ndim}));
    case 5:
        if (2 * elements(x) > ELEMENTS) return x;
        return make(b, "concatenate", (muster_expr *[]){x, one(b, "sin", x)}, 2, ATTRIBUTES({.name = "axis", .integer = axis}));
    case 6:
        if (2 * elements(x) > ELEMENTS || ndim == MUSTER_MAX_DIMS) return x;
        return make(b, "stack", (muster_expr *[]){x, one(b, "tanh", x)}, 2, ATTRIBUTES({.name = "axis", .integer = axis}));
    case 7:
        return ndim < 4 ? with(b, "expand_dims", x, ATTRIBUTES({.name = "axis", .integer = axis})) : one(b, "squeeze", x);
    case 8:
        return make(b, "take", (muster_expr *[]){x, indices_of(b, extent(x, 0))}, 2, NULL);
    default:
        return one(b, "squeeze", x);
    }
}

static muster_expr *repetition_of(building *b, muster_expr *x) {
    const int32_t ndim = x->type.ndim;
    const int64_t axis = ndim ? choose((uint32_t)ndim) : 0;
    if (ndim == 0 || 2 * elements(x) > ELEMENTS) return one(b, "ravel", x);
    switch (choose(6)) {
    case 0:
        return with(b, "tile", x, ATTRIBUTES({.name = "reps", LIST(2)}));
    case 1:
        return with(b, "repeat", x, ATTRIBUTES({.name = "repeats", .integer = 2}, {.name = "axis", .integer = axis}));
    case 2:
        return with(b, "moveaxis", x, ATTRIBUTES({.name = "source", LIST(axis)}, {.name = "destination", LIST(0)}));
    case 3:
        return with(b, "split", x,
                    ATTRIBUTES({.name = "sections", .integer = extent(x, (int32_t)axis)},
                               {.name = "index", .integer = choose((uint32_t)extent(x, (int32_t)axis))},
                               {.name = "axis", .integer = axis}));
    case 4:
        return ndim < 2 ? one(b, "ravel", x) : one(b, "diagonal", x);
    default:
        return ndim < 2 ? one(b, "ravel", x) : one(b, "trace", x);
    }
}

/* Indices 0, 1, ... along the last axis of x. */
static muster_expr *places_in(building *b, muster_expr *x) { return one(b, "argsort", one(b, "zeros_like", x)); }

static muster_expr *indexed_of(building *b, muster_expr *x) {
    if (x->type.ndim == 0) return one(b, "tanh", x);
    const muster_attribute last = {.name = "axis", .integer = -1};
    switch (choose(4)) {
    case 0:
        return make(b, "take_along_axis", (muster_expr *[]){x, places_in(b, x)}, 2, ATTRIBUTES(last));
    case 1:
        return make(b, "add_along_axis", (muster_expr *[]){x, places_in(b, x)}, 2,
                    ATTRIBUTES({.name = "size", LIST(extent(x, x->type.ndim - 1))}, last));
    case 2:
        return two(b, "embedding", x, indices_of(b, extent(x, 0)));
    default:
        x = two(b, "take", x, indices_of(b, extent(x, 0)));
        return make(b, "scatter_add", (muster_expr *[]){x, indices_of(b, 3)}, 2, ATTRIBUTES({.name = "rows", LIST(2)}));
    }
}

static muster_expr *loss_of(building *b, muster_expr *x) {
    const muster_attribute all = {.name = "ignore", .integer = MUSTER_NONE};
    muster_expr *y = partner(b, x), *labels = x;
    const uint32_t which = choose(x->type.ndim ? 6 : 4);
    if (which >= 4) labels = with(b, "argmax", one(b, "zeros_like", x), ATTRIBUTES({.name = "axis", .integer = -1}));
    switch (which) {
    case 0:
        return two(b, "mean_squared_error", x, y);
    case 1:
        return make(b, "huber", (muster_expr *[]){inside(b, x), inside(b, y)}, 2, ATTRIBUTES({.name = "delta", .number = 5}));
    case 2:
        return two(b, "hinge", inside(b, x), inside(b, y));
    case 3:
        return two(b, "sigmoid_cross_entropy", one(b, "tanh", x), y);
    case 4:
        return make(b, "cross_entropy", (muster_expr *[]){one(b, "tanh", x), labels}, 2, ATTRIBUTES(all));
    default:
        return make(b, "negative_log_likelihood", (muster_expr *[]){x, labels}, 2, ATTRIBUTES(all));
    }
}

static muster_expr *order_of(building *b, muster_expr *x) {
    const int32_t ndim = x->type.ndim;
    const muster_attribute diagonal = {.name = "k", .integer = (int64_t)choose(3) - 1};
    if (ndim == 0) return one(b, "cos", x);
    switch (choose(ndim > 1 ? 6 : 4)) {
    case 0:
        return with(b, "cumsum", one(b, "tanh", x), ATTRIBUTES({.name = "axis", .integer = choose((uint32_t)ndim)}));
    case 1:
        return one(b, "sort", apart(b, x));
    case 2:
        return with(b, "top_k", apart(b, x), ATTRIBUTES({.name = "k", LIST(1 + (int64_t)choose((uint32_t)extent(x, ndim - 1)))}));
    case 3:
        return with(b, "cumprod", inside(b, x), ATTRIBUTES({.name = "axis", .integer = choose((uint32_t)ndim)}));
    case 4:
        return with(b, "tril", x, ATTRIBUTES(diagonal));
    default:
        return with(b, "triu", x, ATTRIBUTES(diagonal));
    }
}

static muster_expr *node_of(building *b) {
    muster_expr *x = b->nodes[choose((uint32_t)b->count)];
    switch (choose(10)) {
    case 8:
        return loss_of(b, x);
    case 7:
        return indexed_of(b, x);
    case 6:
        return repetition_of(b, x);
    case 5:
        return order_of(b, x);
    case 0:
    case 9:
        return unary_of(b, x);
    case 1:
        return binary_of(b, x);
    case 2:
        return reduction_of(b, x);
    case 3:
        return product_of(b, x);
    default:
        return movement_of(b, x);
    }
}

/* ---- one graph ---- */

typedef struct inputs {
    double values[INPUTS][ELEMENTS];
    muster_tensor tensors[INPUTS];
    int64_t counts[INPUTS];
} inputs;

/* The sum of tanh of the last nodes, which all others may lead to. */
static muster_expr *build(building *b, inputs *in) {
    for (int32_t i = 0; i < INPUTS; i++) {
        static const char *const names[INPUTS] = {"a", "b", "c"};
        int64_t shape[3];
        const int32_t ndim = (int32_t)choose(4);
        in->counts[i] = 1;
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = 1 + choose(4);
            in->counts[i] *= shape[d];
        }
        for (int64_t e = 0; e < in->counts[i]; e++) in->values[i][e] = between(-1, 1);
        in->tensors[i] = muster_tensor_make(MUSTER_F64, in->values[i], ndim, shape);
        b->nodes[b->count++] = muster_graph_input(b->graph, names[i], MUSTER_F64, ndim, shape, MUSTER_BROADCAST);
    }
    const int32_t wanted = b->count + 12 + (int32_t)choose(20);
    while (b->count < wanted) {
        b->nodes[b->count] = node_of(b);
        b->count++;
    }
    muster_expr *loss = NULL;
    for (int32_t i = b->count - 4; i < b->count; i++) {
        muster_expr *part = one(b, "mean", one(b, "tanh", b->nodes[i]));
        loss = loss ? two(b, "add", two(b, "multiply", loss, number(b, 0.75)), part) : part;
    }
    return loss;
}

typedef enum variant { PLAIN, UNSHARED, UNFUSED, LIMITED, LIMITED_UNFUSED, LIMITED_CHECKED, UNSIMPLIFIED, VARIANTS } variant;
static const char *const variants[VARIANTS] = {"plain",           "unshared",        "unfused",     "limited",
                                               "limited unfused", "limited checked", "unsimplified"};
static bool is_limited(variant kind) { return kind == LIMITED || kind == LIMITED_UNFUSED || kind == LIMITED_CHECKED; }

static bool has_groups(const muster_graph *graph) {
    mst_graph_program program = {.graph = graph->graph};
    assert_ok(mst_graph_program_fuse(&program));
    const bool any = program.group_count > 0;
    mst_free(program.groups);
    mst_free(program.group_of);
    return any;
}

typedef struct counts {
    int32_t uses[MST_OPERATORS], with_gradient, with_groups;
    int32_t repeated; /* graphs that compute values again */
} counts;

/* `count`, if not NULL, gets the operations of the graph. fused: its groups are compiled for
 * GPUs. */
static muster_function *compile(muster_runtime *runtime, uint64_t seed, variant kind, bool fused, inputs *in, counts *count) {
    building b = {.uses = count ? count->uses : NULL};
    muster_expr *gradients[INPUTS];
    muster_function *function;
    muster_graph_options options;
    state_of_choices = seed * 0x9e3779b97f4a7c15ull + 1;
    assert_ok(muster_graph_create(runtime, variants[kind], &b.graph));
    muster_expr *loss = build(&b, in);
    assert_ok(muster_gradient(loss, b.nodes, INPUTS, gradients));
    assert_ok(muster_graph_output(b.graph, "loss", loss, MUSTER_AUTO));
    for (int32_t i = 0; i < INPUTS; i++) {
        static const char *const names[INPUTS] = {"da", "db", "dc"};
        assert_ok(muster_graph_output(b.graph, names[i], gradients[i], MUSTER_MASTER));
    }
    muster_graph_options_init(&options);
    options.unshared_memory = kind == UNSHARED;
    options.unfused = kind == UNFUSED || kind == LIMITED_UNFUSED || !fused;
    options.memory_limit = is_limited(kind); /* a byte: all that helps is computed again */
    options.check_memory = kind == LIMITED_CHECKED;
    options.unsimplified = kind == UNSIMPLIFIED;
    if (count) count->with_groups += has_groups(b.graph);
    assert_ok(muster_graph_compile(b.graph, &options, &function));
    assert_ok(muster_graph_destroy(b.graph));
    return function;
}

typedef struct results {
    double loss, gradients[INPUTS][ELEMENTS];
} results;

static void call(muster_function *function, const inputs *in, results *r) {
    muster_tensor out[1 + INPUTS] = {muster_f64(&r->loss)};
    for (int32_t i = 0; i < INPUTS; i++) {
        out[1 + i] = in->tensors[i];
        out[1 + i].data = r->gradients[i];
    }
    assert_ok(muster_function_call(function, in->tensors, INPUTS, out, 1 + INPUTS, NULL));
}

static void memory_count(muster_function *function, counts *count) {
    muster_graph_memory memory;
    muster_graph_memory_init(&memory);
    assert_ok(muster_graph_function_memory(function, 0, &memory));
    if (memory.repeated_steps ? memory.block_bytes >= memory.unlimited_bytes : memory.block_bytes != memory.unlimited_bytes)
        fail_msg("%d steps again: %lld bytes, %lld without a limit", (int)memory.repeated_steps, (long long)memory.block_bytes,
                 (long long)memory.unlimited_bytes);
    count->repeated += memory.repeated_steps > 0;
}

static double loss_at(muster_function *function, const inputs *in) {
    double loss;
    const muster_tensor out[] = {muster_f64(&loss), muster_tensor_none(), muster_tensor_none(), muster_tensor_none()};
    assert_ok(muster_function_call(function, in->tensors, INPUTS, out, 1 + INPUTS, NULL));
    return loss;
}

/* The error is of the order h^4. */
static double difference(muster_function *function, inputs *in, double *x, double h) {
    static const double steps[4] = {-2, -1, 1, 2};
    double sides[4];
    const double value = *x;
    for (int32_t s = 0; s < 4; s++) {
        *x = value + steps[s] * h;
        sides[s] = loss_at(function, in);
    }
    *x = value;
    return (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * h);
}

/* Some elements of every input. Where the loss is steep, the smaller step has to agree. */
static void check_gradients(muster_function *function, inputs *in, const results *r, uint64_t seed) {
    for (int32_t i = 0; i < INPUTS; i++)
        for (int32_t k = 0; k < CHECKED; k++) {
            const int64_t e = choose((uint32_t)in->counts[i]);
            const double gradient = r->gradients[i][e];
            double by_steps = 0;
            bool agrees = false;
            for (double h = 1e-3; h > 1e-5 && !agrees; h /= 8) {
                by_steps = difference(function, in, &in->values[i][e], h);
                agrees = fabs(by_steps - gradient) <= 1e-6 * (1 + fabs(by_steps));
            }
            if (!agrees)
                fail_msg("seed %llu: input %d, element %d: gradient %.12g, differences %.12g", (unsigned long long)seed, (int)i, (int)e,
                         gradient, by_steps);
        }
}

static bool same_bits(const inputs *in, const results *a, const results *b) {
    bool same = memcmp(&a->loss, &b->loss, sizeof a->loss) == 0;
    for (int32_t i = 0; i < INPUTS; i++) same &= memcmp(a->gradients[i], b->gradients[i], (size_t)in->counts[i] * sizeof(double)) == 0;
    return same;
}

/* The largest difference, as a part of the largest number of its kind. */
static double distance(const inputs *in, const results *a, const results *b) {
    double difference = 0, largest = 1;
    for (int32_t i = 0; i < INPUTS; i++)
        for (int64_t e = 0; e < in->counts[i]; e++) {
            difference = fmax(difference, fabs(a->gradients[i][e] - b->gradients[i][e]));
            largest = fmax(largest, fabs(b->gradients[i][e]));
        }
    return fmax(fabs(a->loss - b->loss) / (1 + fabs(b->loss)), difference / largest);
}

static bool any_gradient(const inputs *in, const results *r) {
    bool any = false;
    for (int32_t i = 0; i < INPUTS; i++)
        for (int64_t e = 0; e < in->counts[i]; e++) any |= r->gradients[i][e] != 0;
    return any;
}

static void random_graphs_agree(void **state) {
    muster_runtime *runtime = *state;
    counts count = {.with_gradient = 0};
    int32_t graphs = 0;
#ifdef MUSTER_TEST_SANITIZED
    const int32_t wanted = test_is_full() ? FULL_GRAPHS : SMALL_SAMPLE;
#else
    const int32_t wanted = test_is_full() ? FULL_GRAPHS : on_gpus() ? GPU_SAMPLE : GRAPHS;
#endif
    for (; graphs < wanted; graphs++) {
        const uint64_t seed = test_seed() * 1000003u + (uint64_t)graphs;
        inputs in;
        results found[VARIANTS];
        muster_function *functions[VARIANTS];
        /* the simulated machine takes a second for the groups of a graph */
        const bool fused = !on_gpus() || graphs < GPU_FUSED || test_is_full();
        for (variant v = 0; v < VARIANTS; v++) {
            functions[v] = compile(runtime, seed, v, fused, &in, v == PLAIN ? &count : NULL);
            call(functions[v], &in, &found[v]);
            if (v == LIMITED_UNFUSED) memory_count(functions[v], &count);
            if (v == UNSIMPLIFIED && distance(&in, &found[v], &found[PLAIN]) > 1e-11)
                fail_msg("seed %llu: simplifying changes the result by %g", (unsigned long long)seed,
                         distance(&in, &found[v], &found[PLAIN]));
            if (v != UNSIMPLIFIED && !same_bits(&in, &found[v], &found[PLAIN]))
                fail_msg("seed %llu: %s: expected the bits of the plain graph", (unsigned long long)seed, variants[v]);
        }
        if (!isfinite(found[PLAIN].loss)) fail_msg("seed %llu: the loss is %g", (unsigned long long)seed, found[PLAIN].loss);
        check_gradients(functions[PLAIN], &in, &found[PLAIN], seed);
        count.with_gradient += any_gradient(&in, &found[PLAIN]);
        for (variant v = 0; v < VARIANTS; v++) assert_ok(muster_function_destroy(functions[v]));
    }
    assert_int_equal(graphs, wanted);
    assert_true(10 * count.with_gradient >= 9 * graphs);
    assert_true(10 * count.with_groups >= 8 * graphs);
    assert_true(10 * count.repeated >= graphs);
    if (wanted < GRAPHS) return;
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        /* The others are not smooth, of integers, losses of their own, or layers, which the cases
         * of test_gradients have, or convolutions, which test_convolution has. */
        static const char *const left_out[] = {"sign",
                                               "floor",
                                               "ceil",
                                               "round",
                                               "trunc",
                                               "cast",
                                               "relu_gradient",
                                               "floor_divide",
                                               "softmax_cross_entropy",
                                               "stop_gradient",
                                               "attention",
                                               "rnn",
                                               "lstm",
                                               "gru",
                                               "convolution",
                                               "convolution_transpose",
                                               "max_pool",
                                               "average_pool",
                                               "l2_pool",
                                               "global_max_pool",
                                               "global_average_pool",
                                               "layer_norm",
                                               "rms_norm",
                                               "group_norm",
                                               "instance_norm",
                                               "local_response_norm",
                                               "batch_norm",
                                               "batch_norm_mean",
                                               "batch_norm_variance"};
        bool counted = !(op->flags & MST_OPERATOR_HIDDEN) && !op->no_gradient;
        for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) counted &= strcmp(op->name, left_out[i]) != 0;
        if (counted && count.uses[id] < 20) fail_msg("%s is in %d graphs only", op->name, (int)count.uses[id]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_agree)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
