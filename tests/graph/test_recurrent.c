/* Recurrent layers of expressions: PyTorch's numbers (recurrent_fixtures.def, which
 * recurrent_fixtures.py writes); lengths; gradients of the states alone; wrong programs; memory.
 * Layers on several devices are in the tables of test_distribution and test_devices_operators,
 * differences in those of test_gradients. */
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { X, W, R, B, H0, C0, LENGTHS, GY, GH, GC, Y, HN, CN, DX, DW, DR, DB, DH0, DC0, ARRAYS, OPERANDS = Y, ELEMENTS = 1280 };
static const char *const names[ARRAYS] = {"x", "w",  "r",  "b",  "h0", "c0", "lengths", "gy",  "gh", "gc",
                                          "y", "hn", "cn", "dx", "dw", "dr", "db",      "dh0", "dc0"};
typedef struct fixture_array {
    const char *name, *shape, *values;
} fixture_array;
typedef struct fixture {
    const char *text;
    fixture_array arrays[ARRAYS];
} fixture;
#define CASE(text, ...) {text, {__VA_ARGS__}},
static const fixture fixtures[] = {
#include "recurrent_fixtures.def"
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

/* ---- arrays ---- */

typedef struct numbers {
    bool given;
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS], count;
    double values[ELEMENTS];
} numbers;

static void read_numbers(const fixture *f, int32_t array, numbers *n) {
    char *end;
    const fixture_array *found = NULL;
    for (int32_t i = 0; i < ARRAYS && f->arrays[i].name; i++)
        if (strcmp(f->arrays[i].name, names[array]) == 0) found = &f->arrays[i];
    *n = (numbers){.given = found, .count = 1};
    if (!found) return;
    for (const char *at = found->shape; *at; at = end + (*end == ' ')) n->count *= n->shape[n->ndim++] = strtoll(at, &end, 10);
    assert_true(n->count <= ELEMENTS);
    const char *at = found->values;
    for (int64_t i = 0; i < n->count; i++, at = end) {
        n->values[i] = strtod(at, &end);
        assert_ptr_not_equal(end, at);
    }
    assert_int_equal(*at, 0);
}

/* The same elements with the first axis as the last in memory. */
static void turn(numbers *n) {
    const numbers from = *n;
    const int64_t first = from.shape[0], behind = first ? from.count / first : 0;
    for (int64_t i = 0; i < from.count; i++) n->values[i % behind * first + i / behind] = from.values[i];
    for (int32_t d = 1; d < n->ndim; d++) n->shape[d - 1] = from.shape[d];
    n->shape[n->ndim - 1] = first;
}
static muster_expr *turned_back(muster_graph *graph, muster_expr *x) {
    return apply(graph, "moveaxis", &x, 1, ATTRIBUTES({.name = "source", LIST(-1)}, {.name = "destination", LIST(0)}));
}
static muster_expr *cast(muster_graph *graph, muster_expr *x, muster_dtype dtype) {
    return apply(graph, "cast", &x, 1, ATTRIBUTES({.name = "dtype", .integer = dtype}));
}

/* ---- fixtures ---- */

/* How the operands lie: one behind the other, with the first axis last in memory, or with rows that
 * the devices share. */
typedef enum lying { PLAIN, TURNED, BY_ROWS } lying;

typedef struct run_of {
    numbers in[OPERANDS], expected[ARRAYS], received[ARRAYS];
} run_of;

/* Whose first axis are the rows of x. */
static bool has_rows(const run_of *r, int32_t array) {
    static const int32_t ndims[OPERANDS] = {[X] = 3, [H0] = 2, [C0] = 2, [LENGTHS] = 1, [GY] = 3, [GH] = 2, [GC] = 2};
    return ndims[array] && r->in[array].ndim == ndims[array] && r->in[array].shape[0] == r->in[X].shape[0];
}

static void make_operands(muster_graph *graph, muster_dtype dtype, lying lies, run_of *r, muster_expr *operands[OPERANDS]) {
    for (int32_t i = 0; i < OPERANDS; i++) {
        operands[i] = NULL;
        r->in[i] = r->expected[i];
        if (!r->in[i].given) continue;
        const bool turned = lies == TURNED && i != LENGTHS && r->in[i].ndim > 1, rows = lies == BY_ROWS && has_rows(r, i);
        int64_t shape[MUSTER_MAX_DIMS];
        if (turned) turn(&r->in[i]);
        memcpy(shape, r->in[i].shape, sizeof shape);
        if (rows) shape[0] = MUSTER_ROWS;
        muster_expr *in = muster_graph_input(graph, names[i], MUSTER_F64, r->in[i].ndim, shape, rows ? MUSTER_SCATTER : MUSTER_BROADCAST);
        in = cast(graph, in, i == LENGTHS ? dtype == MUSTER_F32 ? MUSTER_I32 : MUSTER_I64 : dtype);
        operands[i] = turned ? turned_back(graph, in) : in;
    }
}

/* The sum of the products of the results and gy, gh, gc. */
static muster_expr *make_loss(muster_graph *graph, muster_expr *const results[3], muster_expr *const *weights) {
    muster_expr *loss = NULL;
    for (int32_t i = 0; i < 3; i++) {
        if (!results[i]) continue;
        muster_expr *part = APPLY(graph, "sum", APPLY(graph, "multiply", results[i], weights[i]));
        loss = loss ? APPLY(graph, "add", loss, part) : part;
    }
    return loss;
}

static muster_function *fixture_compile(muster_runtime *runtime, const fixture *f, muster_dtype dtype, lying lies, run_of *r) {
    muster_graph *graph;
    muster_function *function;
    muster_expr *operands[OPERANDS], *wanted[LENGTHS], *gradients[LENGTHS], *results[3] = {NULL};
    int32_t places[LENGTHS], count = 0;
    assert_ok(muster_graph_create(runtime, "fixture", &graph));
    make_operands(graph, dtype, lies, r, operands);
#define OR_X(i) (operands[i] ? operands[i] : operands[X])
    muster_expr *y = muster_expr_parse(graph, f->text, "x", operands[X], "w", operands[W], "r", operands[R], "b", operands[B], "h0",
                                       OR_X(H0), "c0", OR_X(C0), "lengths", OR_X(LENGTHS));
    if (muster_expr_ndim(y) < 0) fail_msg("%s: %s", f->text, muster_last_error());
    for (int32_t i = 0; i < 3; i++)
        if (operands[GY + i]) results[i] = muster_expr_result(y, i);
    for (int32_t i = 0; i < LENGTHS; i++) {
        if (!operands[i]) continue;
        places[count] = DX + i;
        wanted[count++] = operands[i];
    }
    assert_ok(muster_gradient(make_loss(graph, results, &operands[GY]), wanted, count, gradients));
    for (int32_t i = 0; i < 3; i++)
        if (results[i]) assert_ok(muster_graph_output(graph, names[Y + i], cast(graph, results[i], MUSTER_F64), MUSTER_AUTO));
    for (int32_t i = 0; i < count; i++)
        assert_ok(muster_graph_output(graph, names[places[i]], cast(graph, gradients[i], MUSTER_F64), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void fixture_compare(const fixture *f, const run_of *r, int32_t array, muster_dtype dtype, lying lies) {
    static const char *const ways[] = {"", ", in another layout", ", rows on several devices"};
    static const double errors[MST_DTYPE_COUNT] = {[MUSTER_F16] = 4e-3, [MUSTER_BF16] = 3e-2, [MUSTER_F32] = 4e-6, [MUSTER_F64] = 1e-14};
    const double error = errors[dtype];
    for (int64_t i = 0; i < r->expected[array].count; i++) {
        const double expected = r->expected[array].values[i], received = r->received[array].values[i];
        if (!(fabs(expected - received) <= error * (1 + fabs(expected))))
            fail_msg("%s, %s%s: %s, element %d: PyTorch has %.17g, received %.17g", f->text, muster_dtype_name(dtype), ways[lies],
                     names[array], (int)i, expected, received);
    }
}

static void fixture_run(muster_runtime *runtime, const fixture *f, muster_dtype dtype, lying lies) {
    static run_of r;
    muster_tensor in[OPERANDS], out[ARRAYS - Y];
    int32_t inputs = 0, outputs = 0;
    for (int32_t i = 0; i < ARRAYS; i++) read_numbers(f, i, &r.expected[i]);
    muster_function *function = fixture_compile(runtime, f, dtype, lies, &r);
    for (int32_t i = 0; i < OPERANDS; i++)
        if (r.in[i].given) in[inputs++] = muster_tensor_make(MUSTER_F64, r.in[i].values, r.in[i].ndim, r.in[i].shape);
    for (int32_t i = Y; i < ARRAYS; i++) {
        r.received[i] = r.expected[i];
        for (int32_t e = 0; e < ELEMENTS; e++) r.received[i].values[e] = NAN;
        if (r.received[i].given)
            out[outputs++] = muster_tensor_make(MUSTER_F64, r.received[i].values, r.received[i].ndim, r.received[i].shape);
    }
    for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, in, inputs, out, outputs, NULL));
    assert_ok(muster_function_destroy(function));
    for (int32_t i = Y; i < ARRAYS; i++)
        if (r.expected[i].given) fixture_compare(f, &r, i, dtype, lies);
}

static void results_and_gradients_are_those_of_pytorch(void **state) {
    int32_t runs = 0;
    for (int32_t i = 0; i < FIXTURES; i++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (lying lies = PLAIN; lies <= TURNED; lies++, runs++) fixture_run(*state, &fixtures[i], dtype, lies);
    assert_int_equal(FIXTURES, 23);
    assert_int_equal(runs, 23 * 4 * 2);
}

/* More devices than some layers have rows. */
static void rows_on_several_devices_give_those_of_pytorch(void **state) {
    muster_runtime *runtime = graph_runtime("host:4");
    int32_t runs = 0, of_kind[3] = {0};
    (void)state;
    for (int32_t i = 0; i < FIXTURES; i++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++, runs++) {
            fixture_run(runtime, &fixtures[i], dtype, BY_ROWS);
            of_kind[fixtures[i].text[0] == 'r' ? 0 : fixtures[i].text[0] == 'l' ? 1 : 2]++;
        }
    assert_ok(muster_runtime_close(runtime));
    assert_int_equal(runs, 23 * 4);
    assert_true(of_kind[0] == 9 * 4 && of_kind[1] == 7 * 4 && of_kind[2] == 7 * 4);
}

/* ---- gradients that there are not ---- */

static void second_gradients_are_refused(void **state) {
    static const struct {
        const char *text;
        int64_t gates, biases;
    } layers[] = {{"rnn(x, w, r, b)", 3, 3}, {"lstm(x, w, r, b)", 12, 12}, {"gru(x, w, r, b)", 9, 12}};
    int32_t refused = 0;
    for (int32_t l = 0; l < 3; l++, refused++) { /* 3 states, 2 inputs */
        muster_graph *graph;
        muster_expr *in[4], *d[4];
        assert_ok(muster_graph_create(*state, "twice", &graph));
        in[0] = muster_graph_input(graph, "x", MUSTER_F32, 3, (const int64_t[]){2, 4, 2}, MUSTER_BROADCAST);
        in[1] = muster_graph_input(graph, "w", MUSTER_F32, 2, (const int64_t[]){layers[l].gates, 2}, MUSTER_BROADCAST);
        in[2] = muster_graph_input(graph, "r", MUSTER_F32, 2, (const int64_t[]){layers[l].gates, 3}, MUSTER_BROADCAST);
        in[3] = muster_graph_input(graph, "b", MUSTER_F32, 1, (const int64_t[]){layers[l].biases}, MUSTER_BROADCAST);
        muster_expr *y = muster_expr_parse(graph, layers[l].text);
        assert_ok(muster_gradient(muster_expr_parse(graph, "sum(y * y)", "y", y), in, 4, d));
        assert_true(muster_gradient(muster_expr_parse(graph, "sum(a * a)", "a", d[2]), in, 4, d) != MUSTER_OK);
        if (!strstr(muster_last_error(), "for second derivatives write the steps of the layer by matmul, sigmoid and tanh"))
            fail_msg("%s: received \"%s\"", layers[l].text, muster_last_error());
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 3);
}

/* ---- lengths ---- */

enum { ROWS = 3, STEPS = 4, INPUTS = 2, STATES = 3, MOST = 512 };
typedef struct values {
    double x[ROWS * STEPS * INPUTS], w[4 * STATES * INPUTS], r[4 * STATES * STATES], b[4 * STATES], h[ROWS * STATES];
    int64_t lengths[ROWS];
} values;

static void fill(values *v) {
    graph_fill(MUSTER_F64, v->x, ROWS * STEPS * INPUTS, 1);
    graph_fill(MUSTER_F64, v->w, 4 * STATES * INPUTS, 2);
    graph_fill(MUSTER_F64, v->r, 4 * STATES * STATES, 3);
    graph_fill(MUSTER_F64, v->b, 4 * STATES, 4);
    graph_fill(MUSTER_F64, v->h, ROWS * STATES, 5);
}

/* An input of the graph for each array, for a layer with so many gates and biases. */
static muster_graph *open_graph(muster_runtime *runtime, int64_t gates, int64_t biases, muster_expr *operands[6]) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "layer", &graph));
    operands[0] = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(ROWS, STEPS, INPUTS), MUSTER_BROADCAST);
    operands[1] = muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(gates * STATES, INPUTS), MUSTER_BROADCAST);
    operands[2] = muster_graph_input(graph, "r", MUSTER_F64, MUSTER_SHAPE(gates * STATES, STATES), MUSTER_BROADCAST);
    operands[3] = muster_graph_input(graph, "b", MUSTER_F64, MUSTER_SHAPE(biases * STATES), MUSTER_BROADCAST);
    operands[4] = muster_graph_input(graph, "h", MUSTER_F64, MUSTER_SHAPE(ROWS, STATES), MUSTER_BROADCAST);
    operands[5] = muster_graph_input(graph, "lengths", MUSTER_I64, MUSTER_SHAPE(ROWS), MUSTER_BROADCAST);
    return graph;
}

static muster_expr *parse(muster_graph *graph, const char *text) {
    muster_expr *made = muster_expr_parse(graph, text);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    return made;
}

/* y, hn and the gradient of x for a loss of both. */
static void run_layer(muster_runtime *runtime, const char *text, int64_t gates, int64_t biases, values *v, double y[ROWS][STEPS][STATES],
                      double hn[ROWS][STATES], double dx[ROWS][STEPS][INPUTS]) {
    muster_expr *operands[6], *d;
    muster_function *function;
    muster_graph *graph = open_graph(runtime, gates, biases, operands);
    muster_expr *made = parse(graph, text), *end = muster_expr_result(made, 1);
    muster_expr *loss = APPLY(graph, "add", APPLY(graph, "sum", APPLY(graph, "square", made)), APPLY(graph, "sum", end));
    assert_ok(muster_gradient(loss, operands, 1, &d));
    assert_ok(muster_graph_output(graph, "y", made, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "hn", end, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dx", d, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F64, v->x, MUSTER_SHAPE(ROWS, STEPS, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v->w, MUSTER_SHAPE(gates * STATES, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v->r, MUSTER_SHAPE(gates * STATES, STATES)),
                                muster_tensor_make(MUSTER_F64, v->b, MUSTER_SHAPE(biases * STATES)),
                                muster_tensor_make(MUSTER_F64, v->h, MUSTER_SHAPE(ROWS, STATES)),
                                muster_tensor_make(MUSTER_I64, v->lengths, MUSTER_SHAPE(ROWS))};
    const muster_tensor out[] = {muster_tensor_make(MUSTER_F64, y, MUSTER_SHAPE(ROWS, STEPS, STATES)),
                                 muster_tensor_make(MUSTER_F64, hn, MUSTER_SHAPE(ROWS, STATES)),
                                 muster_tensor_make(MUSTER_F64, dx, MUSTER_SHAPE(ROWS, STEPS, INPUTS))};
    assert_ok(muster_function_call(function, in, 6, out, 3, NULL));
    assert_ok(muster_function_destroy(function));
}

static const struct {
    const char *name, *zeros;
    int64_t gates, biases;
} layers[] = {{"rnn", "", 1, 1}, {"lstm", ", 0", 4, 4}, {"gru", "", 3, 4}};

/* hn, then the gradients of all operands but the lengths, for a loss of y and hn. */
static void all_of_layer(muster_runtime *runtime, int32_t kind, muster_dtype dtype, int32_t reverse, values *v, double *got) {
    static const char *const parts[] = {"x", "w", "r", "b", "h"};
    const int64_t gates = layers[kind].gates, biases = layers[kind].biases;
    const int64_t counts[] = {ROWS * STEPS * INPUTS, gates * STATES * INPUTS, gates * STATES * STATES, biases * STATES, ROWS * STATES};
    char text[128], cast_to[64];
    muster_expr *operands[6], *d[5], *cast_operands[5];
    muster_function *function;
    muster_graph *graph = open_graph(runtime, gates, biases, operands);
    for (int32_t i = 0; i < 5; i++) {
        snprintf(cast_to, sizeof cast_to, "cast(%s, %s)", parts[i], muster_dtype_name(dtype));
        cast_operands[i] = muster_expr_name(parse(graph, cast_to), i == 0 ? "x_" : i == 1 ? "w_" : i == 2 ? "r_" : i == 3 ? "b_" : "h_");
    }
    const bool wide = dtype == MUSTER_F64; /* a cast to its own dtype is the input itself */
    snprintf(text, sizeof text, wide ? "%s(x, w, r, b, h%s, lengths, reverse=%d)" : "%s(x_, w_, r_, b_, h_%s, lengths, reverse=%d)",
             layers[kind].name, layers[kind].zeros, (int)reverse);
    muster_expr *made = parse(graph, text), *end = cast(graph, muster_expr_result(made, 1), MUSTER_F64);
    muster_expr *loss =
        APPLY(graph, "add", APPLY(graph, "sum", APPLY(graph, "square", cast(graph, made, MUSTER_F64))), APPLY(graph, "sum", end));
    assert_ok(muster_gradient(loss, cast_operands, 5, d));
    assert_ok(muster_graph_output(graph, "hn", end, MUSTER_AUTO));
    for (int32_t i = 0; i < 5; i++) assert_ok(muster_graph_output(graph, parts[i], cast(graph, d[i], MUSTER_F64), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F64, v->x, MUSTER_SHAPE(ROWS, STEPS, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v->w, MUSTER_SHAPE(gates * STATES, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v->r, MUSTER_SHAPE(gates * STATES, STATES)),
                                muster_tensor_make(MUSTER_F64, v->b, MUSTER_SHAPE(biases * STATES)),
                                muster_tensor_make(MUSTER_F64, v->h, MUSTER_SHAPE(ROWS, STATES)),
                                muster_tensor_make(MUSTER_I64, v->lengths, MUSTER_SHAPE(ROWS))};
    muster_tensor out[6] = {muster_tensor_make(MUSTER_F64, got, MUSTER_SHAPE(ROWS, STATES))};
    got += ROWS * STATES;
    for (int32_t i = 0; i < 5; i++) {
        out[1 + i] = in[i];
        out[1 + i].data = got;
        got += counts[i];
    }
    assert_ok(muster_function_call(function, in, 6, out, 6, NULL));
    assert_ok(muster_function_destroy(function));
}

/* A row of length 0 or less keeps its first state, and one that is longer than x has all steps. */
static void lengths_that_are_none_or_too_many_are_taken(void **state) {
    static values v;
    static double y[2][ROWS][STEPS][STATES], hn[2][ROWS][STATES], dx[2][ROWS][STEPS][INPUTS];
    char text[128];
    int32_t compared = 0;
    fill(&v);
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        for (int32_t reverse = 0; reverse < 2; reverse++) {
            memcpy(v.lengths, (const int64_t[ROWS]){0, 99, -5}, sizeof v.lengths);
            snprintf(text, sizeof text, "%s(x, w, r, b, h%s, reverse=%d)", layers[k].name, layers[k].zeros, (int)reverse);
            run_layer(*state, text, layers[k].gates, layers[k].biases, &v, y[0], hn[0], dx[0]);
            snprintf(text, sizeof text, "%s(x, w, r, b, h%s, lengths, reverse=%d)", layers[k].name, layers[k].zeros, (int)reverse);
            run_layer(*state, text, layers[k].gates, layers[k].biases, &v, y[1], hn[1], dx[1]);
            assert_memory_equal(y[0][1], y[1][1], sizeof y[0][1]);
            assert_memory_equal(dx[0][1], dx[1][1], sizeof dx[0][1]);
            for (int32_t i = 0; i < ROWS; i += 2, compared++) {
                assert_memory_equal(hn[1][i], v.h + (ptrdiff_t)i * STATES, sizeof hn[1][i]);
                for (int32_t e = 0; e < STEPS * STATES; e++) assert_true((&y[1][i][0][0])[e] == 0);
                for (int32_t e = 0; e < STEPS * INPUTS; e++) assert_true((&dx[1][i][0][0])[e] == 0);
            }
        }
    }
    assert_int_equal(compared, 12);
}

/* What lies behind the lengths reaches no result and no gradient: NaN and infinity there give the
 * bits of 0, for every kind, dtype and direction. */
static void nothing_behind_the_lengths_is_seen(void **state) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    static const double behind[] = {0, NAN, INFINITY, -INFINITY};
    static values v;
    static double got[4][MOST];
    int32_t compared = 0;
    fill(&v);
    memcpy(v.lengths, (const int64_t[ROWS]){1, 4, 0}, sizeof v.lengths);
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++)
        for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
            for (int32_t reverse = 0; reverse < 2; reverse++) {
                for (size_t with = 0; with < 4; with++) {
                    for (int64_t n = 0; n < ROWS; n++)
                        for (int64_t e = v.lengths[n] * INPUTS; e < STEPS * INPUTS; e++) v.x[n * STEPS * INPUTS + e] = behind[with];
                    memset(got[with], 0, sizeof got[with]);
                    all_of_layer(*state, (int32_t)k, dtypes[t], reverse, &v, got[with]);
                    for (int32_t e = 0; e < MOST; e++) assert_true(isfinite(got[with][e]));
                    if (!with) continue;
                    assert_memory_equal(got[with], got[0], sizeof got[with]);
                    compared++;
                }
                assert_true(got[0][0] != 0);
            }
    assert_int_equal(compared, 72);
}

/* One length for all rows is that of each. */
static void a_length_for_all_rows_ends_all(void **state) {
    static values v;
    static double y[2][ROWS][STEPS][STATES], hn[2][ROWS][STATES], dx[2][ROWS][STEPS][INPUTS];
    fill(&v);
    memcpy(v.lengths, (const int64_t[ROWS]){2, 2, 2}, sizeof v.lengths);
    run_layer(*state, "lstm(x, w, r, b, h, 0, lengths)", 4, 4, &v, y[0], hn[0], dx[0]);
    run_layer(*state, "lstm(x, w, r, b, h, 0, 2)", 4, 4, &v, y[1], hn[1], dx[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(hn[0], hn[1], sizeof hn[0]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    assert_true(y[0][0][1][0] != 0 && y[0][0][2][0] == 0);
}

/* ---- empty ones ---- */

static void layers_without_rows_steps_or_states_are_computed(void **state) {
    static const int64_t shapes[][3] = {{0, 4, 3}, {2, 0, 3}, {2, 4, 0}};
    int32_t cases = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t k = 0; k < sizeof layers / sizeof *layers; k++, cases++) {
            const int64_t n = shapes[i][0], t = shapes[i][1], h = shapes[i][2], g = layers[k].gates, b = layers[k].biases;
            static double x[16], w[64], r[64], bias[16], h0[16], y[32], hn[8], dh0[16];
            char text[64];
            muster_graph *graph;
            muster_function *function;
            for (int32_t e = 0; e < 16; e++) h0[e] = e + 1;
            memset(hn, 0, sizeof hn);
            memset(dh0, 0, sizeof dh0);
            assert_ok(muster_graph_create(*state, "empty", &graph));
            (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(n, t, 2), MUSTER_BROADCAST);
            (void)muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(g * h, 2), MUSTER_BROADCAST);
            (void)muster_graph_input(graph, "r", MUSTER_F64, MUSTER_SHAPE(g * h, h), MUSTER_BROADCAST);
            (void)muster_graph_input(graph, "b", MUSTER_F64, MUSTER_SHAPE(b * h), MUSTER_BROADCAST);
            muster_expr *first = muster_graph_input(graph, "h", MUSTER_F64, MUSTER_SHAPE(n, h), MUSTER_BROADCAST), *d;
            snprintf(text, sizeof text, "%s(x, w, r, b, h)", layers[k].name);
            muster_expr *made = parse(graph, text), *end = muster_expr_result(made, 1);
            assert_ok(muster_gradient(APPLY(graph, "sum", end), &first, 1, &d));
            assert_ok(muster_graph_output(graph, "y", made, MUSTER_AUTO));
            assert_ok(muster_graph_output(graph, "hn", end, MUSTER_AUTO));
            assert_ok(muster_graph_output(graph, "dh", d, MUSTER_AUTO));
            assert_ok(muster_graph_compile(graph, NULL, &function));
            assert_ok(muster_graph_destroy(graph));
            const muster_tensor in[] = {
                muster_tensor_make(MUSTER_F64, x, MUSTER_SHAPE(n, t, 2)), muster_tensor_make(MUSTER_F64, w, MUSTER_SHAPE(g * h, 2)),
                muster_tensor_make(MUSTER_F64, r, MUSTER_SHAPE(g * h, h)), muster_tensor_make(MUSTER_F64, bias, MUSTER_SHAPE(b * h)),
                muster_tensor_make(MUSTER_F64, h0, MUSTER_SHAPE(n, h))};
            const muster_tensor out[] = {muster_tensor_make(MUSTER_F64, y, MUSTER_SHAPE(n, t, h)),
                                         muster_tensor_make(MUSTER_F64, hn, MUSTER_SHAPE(n, h)),
                                         muster_tensor_make(MUSTER_F64, dh0, MUSTER_SHAPE(n, h))};
            assert_ok(muster_function_call(function, in, 5, out, 3, NULL));
            assert_ok(muster_function_destroy(function));
            for (int64_t e = 0; t == 0 && e < n * h; e++) assert_true(hn[e] == h0[e] && dh0[e] == 1);
        }
    }
    assert_int_equal(cases, 9);
}

/* ---- wrong programs ---- */

static void wrong_programs_get_messages(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"rnn(h, w, r, b)", "muster_expr_rnn: x \"h\": expected 3 axes (rows, steps, numbers), received (3, 3)"},
        {"lstm(x, w, b, b)", "muster_expr_lstm: r \"b\": expected 2 axes (gates, states), received (12,)"},
        {"lstm(x, w, h, b)", "muster_expr_lstm: r \"h\": expected (4 h, h) for h states, received (3, 3)"},
        {"lstm(x, r, r, b)", "muster_expr_lstm: w \"r\": expected (12, 2), received (12, 3)"},
        {"gru(x, w, r, b)", "muster_expr_gru: r \"r\": expected (3 h, h) for h states, received (12, 3)"},
        {"lstm(x, w, r, h)", "muster_expr_lstm: bias \"h\": expected (12,), received (3, 3)"},
        {"lstm(x, w, r, b, w)", "muster_expr_lstm: h0 \"w\": expected a shape that broadcasts to (3, 3), received (12, 2)"},
        {"lstm(x, w, r, b, 0, b)", "muster_expr_lstm: c0 \"b\": expected a shape that broadcasts to (3, 3), received (12,)"},
        {"lstm(x, w, r, b, 0, 0, h)", "muster_expr_lstm: lengths \"h\": expected i32 or i64, received f64"},
        {"lstm(x, w, r, b, 0, 0, 1.5)", "muster_expr_lstm: lengths: expected a number that i64 holds, received 1.5"},
        {"lstm(x, w, r, b, 0, 0, four)", "muster_expr_lstm: lengths \"four\": expected a shape that broadcasts to (3,), received (4,)"},
        {"lstm(x, w, r, b, reverse=2)", "muster_expr_lstm: reverse: expected 0 or 1, received 2"},
        {"rnn(x, w, r, b, relu=-1)", "muster_expr_rnn: relu: expected 0 or 1, received -1"},
        {"lstm(x, w, r)", "muster_expr_lstm: count: expected 4 to 7 operands, received 3"},
        {"lstm(x, w, r, lengths)", "muster_expr_lstm: bias \"lengths\": expected f64, the dtype of x \"x\" (3, 4, 2) f64, received i64"},
        {"lstm(cast(x, i32), cast(w, i32), cast(r, i32), cast(b, i32))", "expected f16, bf16, f32 or f64, received i32"},
    };
    int32_t wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, wrong++) {
        muster_expr *operands[6];
        muster_graph *graph = open_graph(*state, 4, 4, operands);
        (void)muster_graph_input(graph, "four", MUSTER_I64, MUSTER_SHAPE(4), MUSTER_BROADCAST);
        assert_int_equal(muster_expr_ndim(muster_expr_parse(graph, cases[i].text)), -1);
        const char *message = muster_last_error();
        if (!strstr(message, cases[i].message)) fail_msg("%s:\n  expected: %s\n  received: %s", cases[i].text, cases[i].message, message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(wrong, 16);
}

/* ---- memory ---- */

static void a_repeated_step_allocates_nothing(void **state) {
    static values v;
    static double y[ROWS][STEPS][STATES], d[4 * STATES * STATES];
    muster_expr *operands[6], *dr;
    muster_function *function;
    muster_graph *graph = open_graph(*state, 4, 4, operands);
    muster_expr *made = parse(graph, "lstm(x, w, r, b, h, 0, lengths)");
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "square", made)), &operands[2], 1, &dr));
    assert_ok(muster_graph_output(graph, "y", made, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dr", dr, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    fill(&v);
    memcpy(v.lengths, (const int64_t[ROWS]){4, 1, 3}, sizeof v.lengths);
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F64, v.x, MUSTER_SHAPE(ROWS, STEPS, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v.w, MUSTER_SHAPE(4 * STATES, INPUTS)),
                                muster_tensor_make(MUSTER_F64, v.r, MUSTER_SHAPE(4 * STATES, STATES)),
                                muster_tensor_make(MUSTER_F64, v.b, MUSTER_SHAPE(4 * STATES)),
                                muster_tensor_make(MUSTER_F64, v.h, MUSTER_SHAPE(ROWS, STATES)),
                                muster_tensor_make(MUSTER_I64, v.lengths, MUSTER_SHAPE(ROWS))};
    const muster_tensor out[] = {muster_tensor_make(MUSTER_F64, y, MUSTER_SHAPE(ROWS, STEPS, STATES)),
                                 muster_tensor_make(MUSTER_F64, d, MUSTER_SHAPE(4 * STATES, STATES))};
    for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, in, 6, out, 2, NULL));
    const int64_t before = mst_memory_count();
    for (int32_t call = 0; call < 5; call++) assert_ok(muster_function_call(function, in, 6, out, 2, NULL));
    assert_int_equal(mst_memory_count(), before);
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(rows_on_several_devices_give_those_of_pytorch),
        cmocka_unit_test(second_gradients_are_refused),
        cmocka_unit_test(lengths_that_are_none_or_too_many_are_taken),
        cmocka_unit_test(nothing_behind_the_lengths_is_seen),
        cmocka_unit_test(a_length_for_all_rows_ends_all),
        cmocka_unit_test(layers_without_rows_steps_or_states_are_computed),
        cmocka_unit_test(wrong_programs_get_messages),
        cmocka_unit_test(a_repeated_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
