/* Random graphs for the suites that compare devices. */
#include "graph_invariance.h"
#include "graph_private.h"
#include "runtime_impl.h"

#include <stdio.h>

enum { NODES = 40, STEPS = 14, LARGEST = 4096 };

static _Thread_local uint64_t state_of_choices; /* processes may be threads */
static uint32_t choose(uint32_t below) {
    state_of_choices = state_of_choices * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state_of_choices >> 33) % below);
}

typedef struct building {
    muster_graph *graph;
    muster_expr *nodes[NODES];
    int32_t count;
} building;

static bool axis_has_rows(const muster_expr *x, int32_t axis) { return x->graph->dims[x->type.dims[axis]].powers[MST_SIZE_ROWS] != 0; }

/* Of 64 rows. */
static int64_t elements(const muster_expr *x) {
    const int64_t sizes[MST_SIZES] = {64, 1, 1, 1, 1, 1, 1, 1};
    int64_t product = 1;
    for (int32_t d = 0; d < x->type.ndim; d++) product *= mst_dim_value(x->graph, x->type.dims[d], sizes);
    return product;
}

static muster_expr *text_of(building *b, const char *text, muster_expr *x, muster_expr *y) {
    muster_expr *made = muster_expr_parse(b->graph, text, "x", x, "y", y ? y : x);
    if (muster_graph_status(b->graph) != MUSTER_OK) fail_msg("%s: %s", text, muster_last_error());
    return made;
}

static muster_expr *any_of(building *b) { return b->nodes[choose((uint32_t)b->count)]; }

/* Another node whose shape broadcasts with that of x to not more than x or y has; else a mean. */
static muster_expr *partner(building *b, const muster_expr *x) {
    muster_expr *y = any_of(b);
    bool fits = true;
    for (int32_t d = 1; d <= x->type.ndim && d <= y->type.ndim; d++) {
        const mst_dim n = x->type.dims[x->type.ndim - d], m = y->type.dims[y->type.ndim - d];
        fits &= n == m || n == MST_DIM_ONE || m == MST_DIM_ONE;
    }
    return fits && elements(x) * elements(y) <= (int64_t)LARGEST * 64 ? y : text_of(b, "mean(tanh(x))", y, NULL);
}

static muster_expr *with_axis(building *b, const char *format, muster_expr *x) {
    char text[200];
    const int32_t axis = x->type.ndim ? (int32_t)choose((uint32_t)x->type.ndim) : 0;
    if (x->type.ndim == 0) return text_of(b, "sin(x)", x, NULL);
    snprintf(text, sizeof text, format, (int)axis, (int)axis, (int)axis);
    return text_of(b, text, x, NULL);
}

static muster_expr *reduced(building *b, muster_expr *x) {
    static const char *const texts[] = {"sum(tanh(x), %d) * 0.1",
                                        "mean(x, %d)",
                                        "var(x, axis=%d)",
                                        "max(x, %d)",
                                        "min(x, %d)",
                                        "logsumexp(x, %d)",
                                        "norm(x + 3, axis=%d) * 0.1",
                                        "mean(x, %d, keepdims=1)",
                                        "x - mean(x, %d, keepdims=1)",
                                        "max(-x, %d)",
                                        "sum(x * x, %d, keepdims=1) * 0.01"};
    return with_axis(b, texts[choose(10 + 1)], x);
}

static muster_expr *along(building *b, muster_expr *x) {
    static const char *const texts[] = {"softmax(x, %d)",
                                        "log_softmax(x, %d)",
                                        "cumsum(x, %d) * 0.1",
                                        "flip(x, %d)",
                                        "expand_dims(x, %d)",
                                        "softmax(x, %d) * x",
                                        "take_along_axis(x, argsort(x * 0), %d) * 0.5 + x"};
    return with_axis(b, texts[choose(x->type.ndim < 3 ? 6 : 4)], x);
}

static muster_expr *elementwise(building *b, muster_expr *x) {
    static const char *const ones[] = {"tanh(x)",      "sigmoid(x)", "x * 0.5 + 1", "-x",         "sin(x)",
                                       "exp(tanh(x))", "relu(x)",    "gelu(x)",     "x * x * 0.1"};
    static const char *const twos[] = {"x + y", "x * tanh(y)", "x - y", "x / (2 + sin(y))", "maximum(x, y)", "where(greater(x, y), x, y)",
                                       "y - x"};
    return choose(2) ? text_of(b, ones[choose(9)], x, NULL) : text_of(b, twos[choose(7)], x, partner(b, x));
}

/* Products: along rows, along columns, and of rows with rows. */
static muster_expr *product(building *b, muster_expr *x) {
    muster_expr *y = any_of(b);
    if (x->type.ndim != 2) return text_of(b, "tanh(x)", x, NULL);
    if (y->type.ndim == 2 && y->type.dims[0] == x->type.dims[0] && elements(x) * elements(y) <= (int64_t)LARGEST * 64)
        return text_of(b, choose(2) ? "tanh(x.T @ y * 0.1)" : "einsum('ij,ik->jk', tanh(x), y) * 0.1", x, y);
    if (y->type.ndim == 2 && y->type.dims[0] == x->type.dims[1]) return text_of(b, "tanh(x) @ y * 0.2", x, y);
    if (axis_has_rows(x, 0) && choose(4) == 0) return text_of(b, "softmax(x @ x.T, 1) @ x", x, NULL);
    return text_of(b, choose(2) ? "(x @ x.T) @ x * 0.02" : "x @ (x.T @ x) * 0.02", x, NULL);
}

static muster_expr *moved(building *b, muster_expr *x) {
    switch (choose(5)) {
    case 0:
        return text_of(b, "x.T", x, NULL);
    case 1:
        return x->type.ndim == 2 && axis_has_rows(x, 0) && !axis_has_rows(x, 1) ? text_of(b, "concatenate(x, sin(x), axis=1)", x, NULL) : x;
    case 2:
        return x->type.ndim == 2 && axis_has_rows(x, 0) && !axis_has_rows(x, 1) ? text_of(b, "x[:, ::2]", x, NULL) : x;
    case 3:
        return x->type.ndim && x->type.ndim < 3 ? text_of(b, "stack(x, tanh(x), axis=-1)", x, NULL) : x;
    default:
        return text_of(b, "ravel(x)", x, NULL);
    }
}

static muster_expr *node_of(building *b) {
    muster_expr *x = any_of(b);
    switch (choose(8)) {
    case 0:
    case 1:
        return reduced(b, x);
    case 2:
        return along(b, x);
    case 3:
    case 4:
        return product(b, x);
    case 5:
        return moved(b, x);
    default:
        return elementwise(b, x);
    }
}

/* Splits each parameter along one of its axes, or along none, by the seed. With logical shards
 * nothing may be split. */
static void parameters_split(muster_graph *graph, muster_expr *const *x, int32_t count, uint64_t seed) {
    uint64_t choices = seed * 0xbf58476d1ce4e5b9ull >> 20;
    for (int32_t i = 0; i < count && !graph->graph->runtime->logical_shards; i++) {
        if (!mst_node_is(x[i], MST_OPERATOR_parameter)) continue;
        const uint32_t kinds = (uint32_t)x[i]->type.ndim + 1;
        const int32_t axis = (int32_t)(choices % kinds) - 1;
        choices /= kinds;
        if (axis >= 0) assert_ok(muster_graph_split(x[i], axis));
    }
}

/* Each new value that is not too large. The last four make the loss; all four and the gradients are
 * outputs. */
static void build(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its) {
    building b = {.graph = graph};
    muster_expr *loss = NULL, *gradients[4];
    state_of_choices = its->seed * 0x9e3779b97f4a7c15ull + 1;
    parameters_split(graph, x, count, its->seed);
    for (; b.count < count; b.count++) b.nodes[b.count] = x[b.count];
    while (b.count < count + STEPS) {
        muster_expr *made = node_of(&b);
        if (elements(made) <= LARGEST && made->type.ndim <= 4) b.nodes[b.count++] = made;
    }
    for (int32_t i = b.count - 4; i < b.count; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", (int)i);
        assert_ok(muster_graph_output(graph, name, b.nodes[i], MUSTER_AUTO));
        muster_expr *part = text_of(&b, "mean(tanh(x))", b.nodes[i], NULL);
        loss = loss ? text_of(&b, "x + y * 0.75", loss, part) : part;
    }
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_gradient(loss, x, count, gradients));
    for (int32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)i);
        assert_ok(muster_graph_output(graph, name, gradients[i], MUSTER_AUTO));
    }
}

invariance_case invariance_random(uint64_t seed) {
    return (invariance_case){.name = "random",
                             .inputs = {{.name = "x", SHAPE_OF(ROWS, 6)}, {.name = "z", SHAPE_OF(ROWS)}},
                             .variables = {{.name = "w", SHAPE_OF(6, 4)}, {.name = "v", SHAPE_OF(6)}},
                             .build = build,
                             .seed = seed};
}
