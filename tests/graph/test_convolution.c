/* Convolutions of expressions: PyTorch's numbers (convolution_fixtures.def, which
 * convolution_fixtures.py writes), their gradients against differences, shapes, nodes and wrong
 * programs. tests/nn/test_convolution.c has the computations themselves; convolutions on several
 * devices are in the tables of test_distribution and test_devices_operators. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "nn_onednn.h"

#include <math.h>
#include <stdlib.h>

enum { X, W, B, G, Y, DX, DW, DB, ARRAYS, OPERANDS = Y, ELEMENTS = 512 };

typedef struct fixture {
    const char *text;
    struct {
        const char *shape, *values; /* "" and "": there is none */
    } arrays[ARRAYS];
} fixture;
#define CASE(text, xs, x, ws, w, bs, b, gs, g, ys, y, dxs, dx, dws, dw, dbs, db) \
    {text, {{xs, x}, {ws, w}, {bs, b}, {gs, g}, {ys, y}, {dxs, dx}, {dws, dw}, {dbs, db}}},
static const fixture fixtures[] = {
#include "convolution_fixtures.def"
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

/* ---- arrays ---- */

typedef struct numbers {
    int32_t ndim; /* 0: there is no array */
    int64_t shape[MUSTER_MAX_DIMS], count;
    double values[ELEMENTS];
} numbers;

static void read_numbers(const fixture *f, int32_t array, numbers *n) {
    char *end;
    *n = (numbers){.count = 1};
    for (const char *at = f->arrays[array].shape; *at; at = end + (*end == ' ')) n->count *= n->shape[n->ndim++] = strtoll(at, &end, 10);
    if (!n->ndim) return;
    assert_true(n->count <= ELEMENTS);
    const char *at = f->arrays[array].values;
    for (int64_t i = 0; i < n->count; i++, at = end) {
        n->values[i] = strtod(at, &end);
        assert_ptr_not_equal(end, at);
    }
    assert_int_equal(*at, 0);
}

/* The same elements in memory with the channels last. */
static void channels_to_the_end(numbers *n) {
    const numbers given = *n;
    const int64_t channels = given.shape[1], behind = given.count ? given.count / given.shape[0] / channels : 0;
    for (int64_t i = 0; i < given.count; i++) {
        const int64_t image = i / behind / channels, channel = i / behind % channels, place = i % behind;
        n->values[(image * behind + place) * channels + channel] = given.values[i];
    }
    for (int32_t d = 2; d < n->ndim; d++) n->shape[d - 1] = given.shape[d];
    n->shape[n->ndim - 1] = channels;
}

static muster_expr *channels_from_the_end(muster_graph *graph, muster_expr *x) {
    return apply(graph, "moveaxis", &x, 1, ATTRIBUTES({.name = "source", LIST(-1)}, {.name = "destination", LIST(1)}));
}

static muster_expr *cast(muster_graph *graph, muster_expr *x, muster_dtype dtype) {
    return apply(graph, "cast", &x, 1, ATTRIBUTES({.name = "dtype", .integer = dtype}));
}

/* ---- fixtures ---- */

typedef struct run_of {
    numbers in[OPERANDS], expected[ARRAYS], received[ARRAYS];
} run_of;

static muster_function *fixture_compile(muster_runtime *runtime, const fixture *f, muster_dtype dtype, bool last, run_of *r) {
    static const char *const names[ARRAYS] = {"x", "w", "b", "g", "y", "dx", "dw", "db"};
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    muster_expr *operands[OPERANDS] = {NULL}, *wanted[3], *gradients[3];
    assert_ok(muster_graph_create(runtime, "fixture", &graph));
    for (int32_t i = 0; i < OPERANDS; i++) {
        r->in[i] = r->expected[i];
        if (!r->in[i].ndim) continue;
        const bool moved = last && (i == X || i == G);
        if (moved) channels_to_the_end(&r->in[i]);
        muster_expr *in =
            cast(graph, muster_graph_input(graph, names[i], MUSTER_F64, r->in[i].ndim, r->in[i].shape, MUSTER_BROADCAST), dtype);
        operands[i] = moved ? channels_from_the_end(graph, in) : in;
    }
    muster_expr *y = muster_expr_parse(graph, f->text, "x", operands[X], "w", operands[W], "b", operands[B] ? operands[B] : operands[X]);
    if (muster_expr_ndim(y) < 0) fail_msg("%s: %s", f->text, muster_last_error());
    const int32_t count = operands[B] ? 3 : 2;
    for (int32_t i = 0; i < count; i++) wanted[i] = operands[i];
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", y, operands[G])), wanted, count, gradients));
    assert_ok(muster_graph_output(graph, "y", cast(graph, y, MUSTER_F64), MUSTER_AUTO));
    for (int32_t i = 0; i < count; i++)
        assert_ok(muster_graph_output(graph, names[DX + i], cast(graph, gradients[i], MUSTER_F64), MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.unfused = on_gpus();
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void fixture_compare(const fixture *f, const run_of *r, int32_t array, muster_dtype dtype, bool last) {
    static const double errors[MST_DTYPE_COUNT] = {[MUSTER_F16] = 2e-3, [MUSTER_BF16] = 1e-2, [MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-13};
    static const char *const names[ARRAYS] = {[Y] = "y", [DX] = "dx", [DW] = "dw", [DB] = "db"};
    for (int64_t i = 0; i < r->expected[array].count; i++) {
        const double expected = r->expected[array].values[i], received = r->received[array].values[i];
        if (!(fabs(expected - received) <= errors[dtype] * (1 + fabs(expected))))
            fail_msg("%s, %s%s: %s, element %d: PyTorch has %.17g, received %.17g", f->text, muster_dtype_name(dtype),
                     last ? ", channels last" : "", names[array], (int)i, expected, received);
    }
}

static void fixture_run(muster_runtime *runtime, const fixture *f, muster_dtype dtype, bool last) {
    static run_of r;
    muster_tensor in[OPERANDS], out[ARRAYS - Y];
    int32_t inputs = 0, outputs = 0;
    for (int32_t i = 0; i < ARRAYS; i++) read_numbers(f, i, &r.expected[i]);
    muster_function *function = fixture_compile(runtime, f, dtype, last, &r);
    for (int32_t i = 0; i < OPERANDS; i++)
        if (r.in[i].ndim) in[inputs++] = muster_tensor_make(MUSTER_F64, r.in[i].values, r.in[i].ndim, r.in[i].shape);
    for (int32_t i = Y; i < ARRAYS; i++) {
        r.received[i] = r.expected[i];
        for (int32_t e = 0; e < ELEMENTS; e++) r.received[i].values[e] = NAN;
        if (r.received[i].ndim)
            out[outputs++] = muster_tensor_make(MUSTER_F64, r.received[i].values, r.received[i].ndim, r.received[i].shape);
    }
    for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, in, inputs, out, outputs, NULL));
    assert_ok(muster_function_destroy(function));
    for (int32_t i = Y; i < ARRAYS; i++)
        if (r.expected[i].ndim) fixture_compare(f, &r, i, dtype, last);
}

static void results_and_gradients_are_those_of_pytorch(void **state) {
    int32_t runs = 0;
    for (int32_t i = 0; i < FIXTURES; i++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (int32_t last = 0; last < 2; last++, runs++) fixture_run(*state, &fixtures[i], dtype, last);
    assert_int_equal(FIXTURES, 26);
    assert_int_equal(runs, 26 * 4 * 2);
}

/* ---- differences ---- */

static void gradients_of_both_orders_are_those_of_differences(void **state) {
    static const struct {
        const char *text;
        int64_t x[5], w[5];
        int32_t ndim;
    } cases[] = {
        {"convolution(x, w, b, stride=[2, 1], padding=[1, 0, 0, 2])", {2, 2, 4, 3}, {3, 2, 3, 2}, 4},
        {"convolution(x, w, b, groups=2, dilation=2, padding=1)", {1, 4, 5}, {4, 2, 2}, 3},
        {"convolution_transpose(x, w, stride=2, output_padding=1)", {1, 2, 3}, {2, 2, 2}, 3},
        {"convolution_transpose(x, w, dilation=3, padding=1, output_padding=2)", {1, 2, 3}, {2, 2, 2}, 3},
        {"convolution(x, w)", {1, 1, 2, 3, 2}, {2, 1, 2, 2, 1}, 5},
    };
    int32_t checked = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int32_t order = 1; order <= 2; order++, checked++) {
            muster_graph *graph;
            muster_gradient_check_options options;
            assert_ok(muster_graph_create(*state, "differences", &graph));
            muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, cases[i].ndim, cases[i].x, MUSTER_BROADCAST);
            muster_expr *w = muster_graph_input(graph, "w", MUSTER_F64, cases[i].ndim, cases[i].w, MUSTER_BROADCAST);
            muster_expr *b = muster_graph_input(graph, "b", MUSTER_F64, MUSTER_SHAPE(cases[i].w[0]), MUSTER_BROADCAST);
            muster_expr *y = muster_expr_parse(graph, cases[i].text, "x", x, "w", w, "b", b), *both[] = {x, w}, *d[2];
            muster_expr *loss = muster_expr_parse(graph, "sum(sin(y))", "y", y);
            if (order == 2) {
                assert_ok(muster_gradient(loss, both, 2, d));
                loss = muster_expr_parse(graph, "sum(square(a)) + sum(sin(b))", "a", d[0], "b", d[1]);
            }
            muster_gradient_check_options_init(&options);
            if (muster_gradient_check(loss, both, 2, &options, NULL) != MUSTER_OK) fail_msg("%s: %s", cases[i].text, muster_last_error());
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(checked, 10);
}

/* ---- transposed ---- */

/* y[q], the sum of x[p] w[k] over p stride + k dilation - before = q, by plain loops. */
static double transposed_at(const int64_t c[7], const double *x, const double *w, int64_t q) {
    const int64_t n = c[0], size = c[1], stride = c[2], dilation = c[3], before = c[4];
    double sum = 0;
    for (int64_t p = 0; p < n; p++)
        for (int64_t k = 0; k < size; k++)
            if (p * stride + k * dilation - before == q) sum += x[p] * w[k];
    return sum;
}

/* false: PyTorch would refuse it, too. */
static bool transposed_compare(muster_runtime *runtime, const int64_t c[7]) {
    const int64_t extent = (c[0] - 1) * c[2] - c[4] - c[5] + c[3] * (c[1] - 1) + 1 + c[6];
    if ((c[6] >= c[2] && c[6] >= c[3]) || extent - c[6] < 1) return false;
    static double x[4] = {1, 2, 3, 4}, w[3] = {1, 10, 100}, y[32];
    char text[128];
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "transposed", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(1, 1, c[0]), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(1, 1, c[1]), MUSTER_BROADCAST);
    snprintf(text, sizeof text, "convolution_transpose(x, w, stride=%d, dilation=%d, padding=[%d, %d], output_padding=%d)", (int)c[2],
             (int)c[3], (int)c[4], (int)c[5], (int)c[6]);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, text), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_f64(x, 1, 1, c[0]), muster_f64(w, 1, 1, c[1])}, out = muster_f64(y, 1, 1, extent);
    assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    assert_ok(muster_function_destroy(function));
    for (int64_t q = 0; q < extent; q++)
        if (y[q] != transposed_at(c, x, w, q))
            fail_msg("%s of %d: element %d is %g, expected %g", text, (int)c[0], (int)q, y[q], transposed_at(c, x, w, q));
    return true;
}

/* Elements behind, as far as windows reach them and farther, with padding that hides some. */
static void elements_behind_are_those_of_the_windows(void **state) {
    int32_t compared = 0, at = 0;
    for (int64_t n = 1; n <= 3; n++)
        for (int64_t size = 1; size <= 3; size++)
            for (int64_t stride = 1; stride <= 3; stride++)
                for (int64_t dilation = 1; dilation <= 3; dilation++)
                    for (int64_t padding = 0; padding < 9; padding++)
                        for (int64_t behind = 0; behind < 3; behind++)
                            if (!on_gpus() || at++ % 31 == 0)
                                compared += transposed_compare(
                                    *state, (const int64_t[]){n, size, stride, dilation, padding / 3, padding % 3, behind});
    if (!on_gpus()) assert_int_equal(compared, 1429);
}

/* ---- without elements ---- */

/* On several devices the gradients of an extent or of channels without elements are empty, or 0. */
static void gradients_without_elements_are_zero(void **state) {
    static const int64_t shapes[][2] = {{3, 0}, {0, 4}};
    int32_t compared = 0;
    (void)state;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t n = 1; n <= 3; n++, compared++) {
            const int64_t channels = shapes[s][0], extent = shapes[s][1];
            char devices[16];
            muster_graph *graph;
            muster_function *function;
            double loss = 7, dw[4 * 3 * 3], x[1], w[4 * 3 * 3], dx[1] = {7};
            for (int32_t i = 0; i < 36; i++) dw[i] = 7, w[i] = i;
            snprintf(devices, sizeof devices, "host:%d", (int)n);
            muster_runtime *runtime = graph_runtime(devices);
            assert_ok(muster_graph_create(runtime, "empty", &graph));
            muster_expr *in[] = {muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, channels, extent), MUSTER_SCATTER),
                                 muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(4, channels, 3), MUSTER_BROADCAST)};
            muster_expr *d[2], *sum = muster_expr_parse(graph, "sum(sin(convolution(x, w, padding=1)))");
            assert_ok(muster_gradient(sum, in, 2, d));
            assert_ok(muster_graph_output(graph, "loss", sum, MUSTER_AUTO));
            assert_ok(muster_graph_output(graph, "dx", d[0], MUSTER_AUTO));
            assert_ok(muster_graph_output(graph, "dw", d[1], MUSTER_AUTO));
            assert_ok(muster_graph_compile(graph, NULL, &function));
            assert_ok(muster_graph_destroy(graph));
            const muster_tensor given[] = {muster_f64(x, 5, channels, extent), muster_f64(w, 4, channels, 3)};
            const muster_tensor out[] = {muster_f64(&loss), muster_f64(dx, 5, channels, extent), muster_f64(dw, 4, channels, 3)};
            assert_ok(muster_function_call(function, given, 2, out, 3, NULL));
            assert_true(loss == 0 && dx[0] == 7);
            for (int32_t i = 0; i < 4 * channels * 3; i++) assert_true(dw[i] == 0);
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, 6);
}

/* ---- shapes ---- */

static void shapes_are_those_of_the_window(void **state) {
    static const struct {
        const char *text, *shape;
    } cases[] = {
        {"convolution(x, w)", "(rows, 4, 6, 4)"},
        {"convolution(x, w, padding=1)", "(rows, 4, 8, 6)"},
        {"convolution(x, w, padding=[1, 0])", "(rows, 4, 8, 4)"},
        {"convolution(x, w, padding=[1, 0, 0, 2])", "(rows, 4, 7, 6)"},
        {"convolution(x, w, stride=2, padding=1)", "(rows, 4, 4, 3)"},
        {"convolution(x, w, stride=[3, 1], dilation=[1, 2])", "(rows, 4, 2, 2)"},
        {"convolution(x, w, stride=[9, 9])", "(rows, 4, 1, 1)"},
        {"convolution_transpose(x, v)", "(rows, 5, 10, 7)"},
        {"convolution_transpose(x, v, stride=[2, 3], padding=[1, 0], output_padding=[0, 1])", "(rows, 5, 15, 18)"},
        {"convolution_transpose(x, v, groups=3)", "(rows, 15, 10, 7)"},
        {"convolution(t, k, padding=1)", "(rows, 2, time)"},
        {"convolution(t, k, padding=[2, 2], dilation=2)", "(rows, 2, time)"},
        {"convolution_transpose(t, l, padding=1)", "(rows, 4, time)"},
        {"convolution_transpose(t, l, groups=3, padding=[0, 2])", "(rows, 12, time)"},
    };
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "shapes", &graph));
    const int64_t time = muster_graph_size(graph, "time");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, 8, 6), MUSTER_SCATTER);
    muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 3, 3, 3), MUSTER_BROADCAST);
    muster_expr *v = muster_graph_input(graph, "v", MUSTER_F32, MUSTER_SHAPE(3, 5, 3, 2), MUSTER_BROADCAST);
    muster_expr *t = muster_graph_input(graph, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, time), MUSTER_SCATTER);
    muster_expr *k = muster_graph_input(graph, "k", MUSTER_F32, MUSTER_SHAPE(2, 3, 3), MUSTER_BROADCAST);
    muster_expr *l = muster_graph_input(graph, "l", MUSTER_F32, MUSTER_SHAPE(3, 4, 3), MUSTER_BROADCAST);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_expr *y = muster_expr_parse(graph, cases[i].text, "x", x, "w", w, "v", v, "t", t, "k", k, "l", l);
        if (muster_expr_ndim(y) < 0) fail_msg("%s: %s", cases[i].text, muster_last_error());
        if (strcmp(muster_expr_shape(y), cases[i].shape) != 0)
            fail_msg("%s: expected %s, received %s", cases[i].text, cases[i].shape, muster_expr_shape(y));
    }
    assert_ok(muster_graph_destroy(graph));
}

static void attributes_that_say_the_same_make_one_node(void **state) {
    static const char *const texts[] = {"convolution(x, w, padding=1)", "convolution(x, w, padding=[1, 1])",
                                        "convolution(x, w, padding=[1, 1, 1, 1])",
                                        "convolution(x, w, stride=[1, 1], padding=1, dilation=1, groups=1)"};
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "one", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3, 8, 6), MUSTER_BROADCAST);
    muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 3, 3, 3), MUSTER_BROADCAST), *first = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        muster_expr *y = muster_expr_parse(graph, texts[i], "x", x, "w", w);
        if (!first) first = y;
        assert_ptr_equal(y, first);
    }
    assert_ptr_not_equal(muster_expr_parse(graph, "convolution(x, w, padding=[1, 1, 1, 0])", "x", x, "w", w), first);
    assert_ok(muster_graph_destroy(graph));
}

/* ---- wrong programs ---- */

static void wrong_programs_get_messages(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"convolution(x)", "count: expected 2 to 3 operands, received 1"},
        {"convolution(s, w)", "x \"s\": expected images, channels and 1 to 3 extents, received (3, 4)"},
        {"convolution(x, s)", "w \"s\": expected 4 dimensions, received (3, 4)"},
        {"convolution(x, n)", "w \"n\": expected f32, the dtype of x \"x\" (2, 3, 8, 6) f32, received i32 (muster_expr_cast converts)"},
        {"convolution(n, n)", "x \"n\": expected f16, bf16, f32 or f64, received i32"},
        {"convolution(x, v)", "w \"v\": expected weights for the channels of x \"x\" (2, 3, 8, 6) f32 in 1 group, 3 on axis 1, received "
                              "(3, 5, 3, 2)"},
        {"convolution(x, w, groups=2)", "in 2 groups, which do not divide 3, received (4, 3, 3, 3)"},
        {"convolution(x, w, groups=3)", "w \"w\": expected a first extent that 3 groups divide, received (4, 3, 3, 3)"},
        {"convolution(x, w, groups=-1)", "groups: expected 0 or more, received -1"},
        {"convolution(x, w, v)", "bias \"v\": expected a number for each of 4 channels, received (3, 5, 3, 2)"},
        {"convolution(x, w, stride=[1, 2, 3])", "stride: expected 0, 1 or 2 entries, received 3"},
        {"convolution(x, w, padding=[1, 2, 3])", "padding: expected 0, 1, 2 or 4 entries, received 3"},
        {"convolution(x, w, stride=0)", "stride: expected numbers from 1 to 2^31 - 1, received 0"},
        {"convolution(x, w, padding=[0, -1])", "padding: expected numbers from 0 to 2^31 - 1, received -1"},
        {"convolution(x, w, dilation=2147483648)", "dilation: expected numbers from 1 to 2^31 - 1, received 2147483648"},
        {"convolution(x, w, dilation=[4, 1])",
         "w \"w\": expected a window that fits into x \"x\" (2, 3, 8, 6) f32 with its padding, received"},
        {"convolution(x, e)", "w \"e\": expected a window of known sizes from 1 on, received (4, 3, 0, 3)"},
        {"convolution(t, k, stride=2)",
         "x \"t\": expected a known extent in axis 2, unless stride is 1 and padding leaves it as it is, received"},
        {"convolution_transpose(x, w)", "expected weights for the channels of x \"x\" (2, 3, 8, 6) f32 in 1 group, 3 on axis 0, received "
                                        "(4, 3, 3, 3)"},
        {"convolution_transpose(x, v, output_padding=1)", "output_padding: expected less than stride or dilation, received 1"},
        {"convolution_transpose(x, v, padding=6)", "expected an extent in axis 2 of which padding leaves 1 element or more, received 8"},
        {"convolution_transpose(x, v, s)", "bias \"s\": expected a number for each of 5 channels, received (3, 4)"},
    };
    int32_t wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, wrong++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(*state, "wrong", &graph));
        const int64_t time = muster_graph_size(graph, "time");
        muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3, 8, 6), MUSTER_BROADCAST);
        muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 3, 3, 3), MUSTER_BROADCAST);
        muster_expr *v = muster_graph_input(graph, "v", MUSTER_F32, MUSTER_SHAPE(3, 5, 3, 2), MUSTER_BROADCAST);
        muster_expr *s = muster_graph_input(graph, "s", MUSTER_F32, MUSTER_SHAPE(3, 4), MUSTER_BROADCAST);
        muster_expr *n = muster_graph_input(graph, "n", MUSTER_I32, MUSTER_SHAPE(4, 3, 3, 3), MUSTER_BROADCAST);
        muster_expr *e = muster_graph_input(graph, "e", MUSTER_F32, MUSTER_SHAPE(4, 3, 0, 3), MUSTER_BROADCAST);
        muster_expr *t = muster_graph_input(graph, "t", MUSTER_F32, MUSTER_SHAPE(2, 3, time), MUSTER_BROADCAST);
        muster_expr *k = muster_graph_input(graph, "k", MUSTER_F32, MUSTER_SHAPE(2, 3, 3), MUSTER_BROADCAST);
        muster_expr *y = muster_expr_parse(graph, cases[i].text, "x", x, "w", w, "v", v, "s", s, "n", n, "e", e, "t", t, "k", k);
        assert_int_equal(muster_expr_ndim(y), -1);
        const char *message = muster_last_error();
        if (!strstr(message, cases[i].message) || !strstr(message, "muster_expr_convolution"))
            fail_msg("%s:\n  expected: %s\n  received: %s", cases[i].text, cases[i].message, message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(wrong, 22);
}

/* ---- who computes ---- */

/* On GPUs it is cuDNN, unless the environment says otherwise: then it has not been called at
 * all. */
static void gpus_have_used_the_library_that_was_asked_for(void **state) {
    static const char *const calls[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};
    const char *asked = getenv("MUSTER_CUDNN");
    const bool none = !on_gpus() || (asked && strcmp(asked, "none") == 0);
    (void)state;
    for (int32_t i = 0; i < 3; i++)
        if (machine_calls(calls[i]) >= 0) assert_int_equal(machine_calls(calls[i]) > 0, !none);
    if (none && on_gpus() && machine_calls("cudnnCreate") >= 0) assert_int_equal(machine_calls("cudnnCreate"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(gradients_of_both_orders_are_those_of_differences),
        cmocka_unit_test(elements_behind_are_those_of_the_windows),
        cmocka_unit_test(gradients_without_elements_are_zero),
        cmocka_unit_test(shapes_are_those_of_the_window),
        cmocka_unit_test(attributes_that_say_the_same_make_one_node),
        cmocka_unit_test(wrong_programs_get_messages),
        cmocka_unit_test(gpus_have_used_the_library_that_was_asked_for), /* the last ones */
        cmocka_unit_test(onednn_is_the_one_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
