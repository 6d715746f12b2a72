/* Values and gradients that were once wrong in silence, beside numbers that follow from the
 * definitions: large, infinite and missing elements, and integers that f64 does not hold. On 1, 2
 * and 3 devices, along whose rows the operations go, and in micro-batches. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_invariance.h"
#include "graph_private.h"

#include <math.h>

enum { MOST = 8, MACHINES = 4 };
static const struct {
    const char *devices;
    int64_t micro_batches;
} machines[MACHINES] = {{"host:1", 0}, {"host:2", 0}, {"host:3", 0}, {"host:1", 2}};

/* On simulated GPUs, which compile the kernels of each graph, one of four cases. */
static bool is_tried(int32_t number, int32_t m) { return !on_gpus() || number % 16 == 4 * m; }

/* ---- floats ---- */

typedef struct float_case {
    const char *text; /* of x, and of e where it has values */
    muster_dtype dtype;
    int64_t rows;
    double x[MOST], e[MOST];
    const char *by; /* what is compared: "" the value, "x", "e" the gradient of its sum; "xx", "xe" that of the sum of both gradients */
    double expected[MOST];
    double tolerance; /* of |expected| */
} float_case;

static const double inf = (double)INFINITY, nan_ = (double)NAN;
#define F64(...) .dtype = MUSTER_F64, __VA_ARGS__
#define F32(...) .dtype = MUSTER_F32, __VA_ARGS__

static const float_case float_cases[] = {
    /* (x - max) - log(sum), and not x - (max + log(sum)) */
    {"log_softmax(x, axis=0)", F64(3), {1e6, 1e6, 0}, .by = "", {-0.69314718055994531, -0.69314718055994531, -1000000.6931471806}, 1e-15},
    {"log_softmax(x, axis=0)", F32(3), {3e38, 3e38, 0}, .by = "", {-0.69314718055994531, -0.69314718055994531, -3e38}, 1e-7},
    {"log_softmax(x, axis=0)", F64(3), {1e300, 1e300, 0}, .by = "", {-0.69314718055994531, -0.69314718055994531, -1e300}, 1e-15},
    {"log_softmax(x, axis=0)",
     F32(3),
     {-3e38, -3e38, -3e38},
     .by = "",
     {-1.0986122886681098, -1.0986122886681098, -1.0986122886681098},
     1e-7},
    {"cross_entropy(reshape(x, [1, rows]), full([1], 0, i64))", F64(3), {1e6, 1e6, 0}, .by = "", {0.69314718055994531}, 1e-15},
    /* the gradient is softmax */
    {"logsumexp(x)", F32(2), {1e6, 1e6}, .by = "x", {0.5, 0.5}},
    {"logsumexp(x)", F32(2), {1e7, 1e7}, .by = "x", {0.5, 0.5}},
    {"logsumexp(x)", F32(4), {1e8, 1e8, 1e8, 1e8}, .by = "x", {0.25, 0.25, 0.25, 0.25}},
    {"logsumexp(x, axis=0, keepdims=True)", F64(2), {1e16, 1e16}, .by = "x", {0.5, 0.5}},
    /* a NaN is the larger and the smaller one */
    {"maximum(x, e)", F64(5), {1, 2, nan_, 3, nan_}, {1, 3, 1, nan_, nan_}, "x", {1, 0, 1, 0, 1}},
    {"maximum(x, e)", F64(5), {1, 2, nan_, 3, nan_}, {1, 3, 1, nan_, nan_}, "e", {0, 1, 0, 1, 0}},
    {"minimum(x, e)", F64(5), {1, 2, nan_, 3, nan_}, {1, 1, 1, nan_, nan_}, "x", {1, 0, 1, 0, 1}},
    {"minimum(x, e)", F64(5), {1, 2, nan_, 3, nan_}, {1, 1, 1, nan_, nan_}, "e", {0, 1, 0, 1, 0}},
    {"maximum(x, 1)", F64(4), {0, 1, 2, nan_}, .by = "x", {0, 1, 1, 1}},
    {"minimum(1, x)", F32(4), {0, 1, 2, nan_}, .by = "x", {1, 0, 0, 1}},
    {"clip(x, 0, 1)", F64(6), {-1, 0, 0.5, 1, 2, nan_}, .by = "x", {0, 1, 1, 1, 0, 1}},
    {"clip(x, high=1)", F32(4), {-inf, 1, inf, nan_}, .by = "x", {1, 1, 0, 1}},
    /* powers */
    {"x ** e", F64(4), {nan_, 0, -2, 1}, {2, 3, 3, 5}, "e", {nan_, 0, 0, 0}},
    {"x ** e", F64(4), {0, 0, -2, 1}, {3, 2, 3, 3}, "xx", {0, 2, -12, 6 + 1}},
    {"x ** e", F64(4), {0, 0, -2, 1}, {3, 2, 3, 3}, "xe", {0, 0, 4, 1}},
    /* limits */
    {"silu(x)", F64(3), {inf, -inf, 0}, .by = "x", {1, 0, 0.5}},
    {"silu(x)", F32(3), {inf, -inf, nan_}, .by = "x", {1, 0, nan_}},
    {"mish(x)", F64(4), {inf, 50, 40, 0}, .by = "x", {1, 1, 1, 0.6}, 1e-12},
    {"mish(x)", F32(2), {inf, 3e38}, .by = "", {inf, 3e38}, 1e-7},
    /* rows that a loss leaves out */
    {"cross_entropy(stack(x, e, axis=1), where(isfinite(x), full_like(cast(x, i64), 1), 7), ignore=7)",
     F64(4),
     {nan_, inf, 0, -inf},
     {1, 2, 0, 3},
     "x",
     {0, 0, 0.5, 0}},
    /* sums that f32 does not hold, of averages that it does */
    {"mean(broadcast_to(reshape(x, [rows, 1]), [rows, 100]), axis=1)", F32(3), {3e38, -3e38, 1}, .by = "", {3e38, -3e38, 1}, 1e-7},
    {"var(broadcast_to(reshape(x, [rows, 1]), [rows, 100]), axis=1)", F32(3), {3e38, -3e38, 1}, .by = "", {0, 0, 0}},
    {"mean(x)", F32(6), {3e38, 3e38, 3e38, 3e38, 3e38, 3e38}, .by = "", {3e38}, 1e-7},
    /* padding leaves only elements of output_padding, which no window reaches */
    {"reshape(convolution_transpose(reshape(x, [rows, 1, 1]), full([1, 1, 1], 2, f64), full([1], 5, f64), stride=1, padding=[2, 0], "
     "dilation=3, output_padding=2), [rows])",
     F64(3),
     {1, 2, 3},
     .by = "",
     {5, 5, 5}},
    {"sum(convolution_transpose(reshape(x, [rows, 1, 1]), full([1, 1, 2], 2, f64), stride=1, padding=[1, 0], dilation=3, "
     "output_padding=2), axis=[1, 2])",
     F64(3),
     {1, 2, 3},
     .by = "",
     {2, 4, 6}},
    /* of nothing */
    {"mean(x)", F64(0), {0}, .by = "", {nan_}},
    {"var(x, axis=0)", F32(0), {0}, .by = "", {nan_}},
    {"std(x, axis=0)", F64(0), {0}, .by = "", {nan_}},
    /* places in the rows of other devices */
    {"take_along_axis(x, cast(e, i64), axis=0)", F64(4), {3, 1, 2, 0}, {3, 2, 1, 0}, "", {0, 2, 1, 3}},
    {"take_along_axis(x, cast(e, i64), axis=0) * x", F64(4), {3, 1, 2, 0}, {3, 2, 1, 0}, "x", {0, 4, 2, 6}},
    {"add_along_axis(x, cast(e, i64), size=[rows], axis=0)", F64(4), {3, 1, 2, 0}, {3, 2, 1, 0}, "", {0, 2, 1, 3}},
    {"sort(x) * e", F64(4), {3, 1, 2, 0}, {1, 10, 100, 1000}, "x", {1000, 10, 100, 1}},
};
enum { FLOAT_CASES = sizeof float_cases / sizeof *float_cases };

static double element(const muster_tensor *t, int64_t i) {
    return t->dtype == MUSTER_F64   ? ((const double *)t->data)[i]
           : t->dtype == MUSTER_F32 ? (double)((const float *)t->data)[i]
                                    : (double)((const int64_t *)t->data)[i];
}

static void elements_set(muster_tensor *t, const double *values) {
    for (int64_t i = 0; i < muster_tensor_count(*t); i++) {
        if (t->dtype == MUSTER_F64) ((double *)t->data)[i] = values[i];
        if (t->dtype == MUSTER_F32) ((float *)t->data)[i] = (float)values[i];
    }
}

/* Compiles the output of a graph with one or two inputs of rows, and calls it. */
static muster_status output_compute(muster_graph *graph, muster_expr *output, int64_t micro_batches, const muster_tensor *in, int32_t count,
                                    muster_tensor *out) {
    muster_function *function;
    muster_graph_options options;
    int64_t shape[MUSTER_MAX_DIMS];
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    assert_ok(muster_graph_output(graph, "out", output, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, &options, &function));
    for (int32_t d = 0; d < output->type.ndim; d++) shape[d] = in[0].shape[0];
    if (output->type.ndim == 1 && mst_dim_constant(graph->graph, output->type.dims[0]) == 1) shape[0] = 1;
    *out = muster_tensor_make(output->type.dtype, out->data, output->type.ndim, shape);
    const muster_status status = muster_function_call(function, in, count, out, 1, NULL);
    assert_ok(muster_function_destroy(function));
    return status;
}

static muster_expr *output_of(muster_graph *graph, const float_case *c, muster_expr *x, muster_expr *e) {
    muster_expr *y = muster_expr_parse(graph, c->text), *with[] = {x, e}, *gradients[2];
    const int32_t count = e ? 2 : 1, wanted = *c->by && c->by[strlen(c->by) - 1] == 'e';
    if (muster_graph_status(graph) != MUSTER_OK) fail_msg("%s: %s", c->text, muster_last_error());
    if (!*c->by) return y;
    assert_ok(muster_gradient(APPLY(graph, "sum", y), with, count, gradients));
    if (!c->by[1]) return gradients[wanted];
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "add", gradients[0], gradients[1])), with, count, gradients));
    return gradients[wanted];
}

static void float_case_compare(const float_case *c, int32_t m) {
    char memory[3][MOST * sizeof(double)] = {{0}};
    muster_graph *graph;
    muster_tensor in[2], out = {.data = memory[2]};
    const bool two = strstr(c->text, "e)") || strstr(c->text, "(e,") || strstr(c->text, "* e") || strstr(c->text, "x, e,");
    assert_ok(muster_graph_create(devices_open(machines[m].devices), "exact", &graph));
    muster_expr *x = muster_graph_input(graph, "x", c->dtype, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER), *e = NULL;
    if (two) e = muster_graph_input(graph, "e", c->dtype, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER);
    for (int32_t i = 0; i < 2; i++) {
        in[i] = muster_tensor_make(c->dtype, memory[i], 1, &c->rows);
        elements_set(&in[i], i ? c->e : c->x);
    }
    muster_expr *output = output_of(graph, c, x, e);
    if (output_compute(graph, output, machines[m].micro_batches, in, two ? 2 : 1, &out) != MUSTER_OK)
        fail_msg("%s: %s", c->text, muster_last_error());
    for (int64_t i = 0; i < muster_tensor_count(out); i++) {
        const double expected = c->dtype == MUSTER_F32 ? (double)(float)c->expected[i] : c->expected[i], received = element(&out, i);
        if (isnan(expected) && isnan(received)) continue;
        if (!(expected == received || fabs(expected - received) <= c->tolerance * fabs(expected)))
            fail_msg("%s, \"%s\", on %s, %d micro-batches: element %d: expected %.17g, received %.17g", c->text, c->by, machines[m].devices,
                     (int)machines[m].micro_batches, (int)i, expected, received);
    }
    assert_ok(muster_graph_destroy(graph));
}

static void values_are_those_of_their_definition(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t i = 0; i < FLOAT_CASES; i++)
        for (int32_t m = 0; m < MACHINES; m++) {
            if (!is_tried(i, m)) continue;
            float_case_compare(&float_cases[i], m);
            compared++;
        }

    assert_int_equal(compared, on_gpus() ? 10 : 37 * MACHINES);
}

/* ---- integers that f64 does not hold ---- */

enum { INTEGERS = 3 };
static const int64_t beyond = (INT64_C(1) << 53) + 1;

static const struct {
    const char *text; /* of i = {2^53, 2^53 + 1, 2^53 + 2}, and of zeros z */
    int64_t expected[INTEGERS];
} integer_cases[] = {
    {"z + 9007199254740993", {9007199254740993, 9007199254740993, 9007199254740993}},
    {"z - 9007199254740993", {-9007199254740993, -9007199254740993, -9007199254740993}},
    {"-9007199254740993 - z", {-9007199254740993, -9007199254740993, -9007199254740993}},
    {"z + (2 ** 53 + 1)", {9007199254740993, 9007199254740993, 9007199254740993}},
    {"z + 3 * 3002399751580331", {9007199254740993, 9007199254740993, 9007199254740993}},
    {"z + 9223372036854775807", {INT64_MAX, INT64_MAX, INT64_MAX}},
    {"z + (-9223372036854775808)", {INT64_MIN, INT64_MIN, INT64_MIN}},
    {"i * 3", {27021597764222976, 27021597764222979, 27021597764222982}},
    {"clip(i, high=9007199254740993)", {9007199254740992, 9007199254740993, 9007199254740993}},
    {"clip(i, low=9007199254740993)", {9007199254740993, 9007199254740993, 9007199254740994}},
    {"minimum(i, 9007199254740993)", {9007199254740992, 9007199254740993, 9007199254740993}},
    {"arange([rows], 9007199254740992, 1, i64)", {9007199254740992, 9007199254740993, 9007199254740994}},
    {"arange([rows], 9007199254740993, -1, i64)", {9007199254740993, 9007199254740992, 9007199254740991}},
    {"arange([rows], 9007199254740991, 1, i64)", {9007199254740991, 9007199254740992, 9007199254740993}},
    {"arange([rows], 0, 9007199254740993, i64)", {0, 9007199254740993, 18014398509481986}},
    {"arange([rows], 9223372036854775806, 1, i64)", {INT64_MAX - 1, INT64_MAX, INT64_MIN}},
    {"full([rows], 9007199254740993, i64)", {9007199254740993, 9007199254740993, 9007199254740993}},
    {"full_like(i, 9007199254740993)", {9007199254740993, 9007199254740993, 9007199254740993}},
    {"where(i == 9007199254740993, z, i)", {9007199254740992, 0, 9007199254740994}},
};
enum { INTEGER_CASES = sizeof integer_cases / sizeof *integer_cases };

static void integers_beyond_2_53_are_exact(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < INTEGER_CASES; c++)
        for (int32_t m = 0; m < MACHINES; m++) {
            if (!is_tried(c, m)) continue;
            compared++;
            int64_t i[INTEGERS] = {beyond - 1, beyond, beyond + 1}, z[INTEGERS] = {0}, y[INTEGERS];
            const muster_tensor in[] = {muster_tensor_make(MUSTER_I64, i, 1, (const int64_t[]){INTEGERS}),
                                        muster_tensor_make(MUSTER_I64, z, 1, (const int64_t[]){INTEGERS})};
            muster_tensor out = {.data = y};
            muster_graph *graph;
            assert_ok(muster_graph_create(devices_open(machines[m].devices), "integers", &graph));
            (void)muster_graph_input(graph, "i", MUSTER_I64, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER);
            (void)muster_graph_input(graph, "z", MUSTER_I64, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER);
            muster_expr *output = muster_expr_parse(graph, integer_cases[c].text);
            if (muster_graph_status(graph) != MUSTER_OK) fail_msg("%s", muster_last_error());
            if (output_compute(graph, output, machines[m].micro_batches, in, 2, &out) != MUSTER_OK) fail_msg("%s", muster_last_error());
            for (int32_t k = 0; k < INTEGERS; k++)
                if (y[k] != integer_cases[c].expected[k])
                    fail_msg("%s on %s: element %d: expected %lld, received %lld", integer_cases[c].text, machines[m].devices, (int)k,
                             (long long)integer_cases[c].expected[k], (long long)y[k]);
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(compared, on_gpus() ? 5 : 19 * MACHINES);
}

/* ---- what a dtype does not hold ---- */

static void numbers_that_a_dtype_does_not_hold_are_refused(void **state) {
    static const struct {
        const char *text, *message; /* of i, i64, and u, u8; message NULL: it is taken */
    } rows[] = {
        {"clip(i, low=1.5)", "muster_expr_clip: low: expected a number that i64 holds, received 1.5"},
        {"clip(i, 0, 2.5)", "muster_expr_clip: high: expected a number that i64 holds, received 2.5"},
        {"clip(u, low=-1)", "muster_expr_clip: low: expected a number that u8 holds, received -1"},
        {"clip(u, high=256)", "muster_expr_clip: high: expected a number that u8 holds, received 256"},
        {"clip(u, 0, 255)", NULL},
        {"clip(i, high=9223372036854775807)", NULL},
        {"clip(i, high=9223372036854775808)", "muster_expr_clip: high: expected a number that i64 holds, received 9223372036854775808"},
        {"u + 2147483648", "muster_expr_add: b: expected a number that u8 holds, received 2147483648"},
        {"u + 2147483648.5", "muster_expr_add: b: expected a number that u8 holds, received 2147483648.5"},
        {"full([2], -1, u8)", "muster_expr_full: value: expected a number that u8 holds, received -1"},
        {"full([2], 1.5, i32)", "muster_expr_full: value: expected a number that i32 holds, received 1.5"},
        {"full([2], 2147483648, i32)", "muster_expr_full: value: expected a number that i32 holds, received 2147483648"},
        {"full([2], 2147483647, i32)", NULL},
        {"full([2], 2, bool)", "muster_expr_full: value: expected a number that bool holds, received 2"},
        {"full_like(u, 256)", "muster_expr_full_like: value: expected a number that u8 holds, received 256"},
        {"full_like(u, 255)", NULL},
        {"full([2], 9007199254740993, i32)", "muster_expr_full: value: expected a number that i32 holds, received 9007199254740993"},
        {"u + 9007199254740993", "muster_expr_add: b: expected a number that u8 holds, received 9007199254740993"},
        {"linspace(0, 1, 3, i64)", "muster_expr_linspace: dtype: expected a float dtype, received i64"},
    };
    int32_t refused = 0;
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(devices_open("host:1"), "refused", &graph));
        (void)muster_graph_input(graph, "i", MUSTER_I64, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER);
        (void)muster_graph_input(graph, "u", MUSTER_U8, 1, (const int64_t[]){MUSTER_ROWS}, MUSTER_SCATTER);
        (void)muster_expr_parse(graph, rows[k].text);
        const bool failed = muster_graph_status(graph) != MUSTER_OK;
        if (failed != (rows[k].message != NULL) || (failed && !strstr(muster_last_error(), rows[k].message)))
            fail_msg("%s: %s", rows[k].text, failed ? muster_last_error() : "taken");
        refused += failed;
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_their_definition),
        cmocka_unit_test(integers_beyond_2_53_are_exact),
        cmocka_unit_test(numbers_that_a_dtype_does_not_hold_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
