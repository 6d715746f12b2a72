/* The numbers of expressions: what sums of halves, of integers and of truth values are, on one
 * device and on several, in micro-batches and with logical shards. What is compared with are
 * integers that C computes. */
#include "graph_fixture.h"
#include "muster/expr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = 3 };
static int64_t cases; /* compared so far */

/* ---- sums by index ---- */

static double half_value(muster_dtype dtype, const void *memory, int64_t i) {
    const uint16_t *halves = memory;
    if (dtype == MUSTER_F32) return (double)((const float *)memory)[i];
    return (double)(dtype == MUSTER_F16 ? muster_f16_to_f32(halves[i]) : muster_bf16_to_f32(halves[i]));
}

/* The gradient of the text's sum by the table t (2, 1), whose row 1 is taken `rows` times. */
static void sum_of_equal_tokens(muster_runtime *runtime, muster_dtype dtype, const char *text, int64_t rows, int64_t micro_batches) {
    muster_graph *graph;
    muster_function *function;
    muster_expr *dt;
    muster_graph_options options;
    int32_t *tokens = malloc((size_t)rows * sizeof *tokens);
    char gradient[8], zeros[8] = {0};
    assert_non_null(tokens);
    for (int64_t i = 0; i < rows; i++) tokens[i] = 1;
    assert_ok(muster_graph_create(runtime, "tokens", &graph));
    muster_expr *t = muster_graph_input(graph, "t", dtype, MUSTER_SHAPE(2, 1), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "i", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *loss = muster_expr_parse(graph, text);
    if (muster_expr_ndim(loss) < 0) fail_msg("%s: %s", text, muster_last_error());
    assert_ok(muster_gradient(loss, &t, 1, &dt));
    assert_ok(muster_graph_output(graph, "dt", dt, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_tensor_make(dtype, zeros, 2, (const int64_t[]){2, 1}),
                                muster_tensor_make(MUSTER_I32, tokens, 1, &rows)};
    const muster_tensor out = muster_tensor_make(dtype, gradient, 2, (const int64_t[]){2, 1});
    assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    assert_ok(muster_function_destroy(function));
    free(tokens);
    const double received = half_value(dtype, gradient, 1), unit = dtype == MUSTER_F32 ? 0x1p-24 : dtype == MUSTER_F16 ? 0x1p-11 : 0x1p-8;
    /* each device rounds its part once, and their sum is rounded */
    if (half_value(dtype, gradient, 0) != 0 || fabs(received - (double)rows) > 2 * unit * (double)rows)
        fail_msg("%s of %lld tokens in %s: received %g", text, (long long)rows, muster_dtype_name(dtype), received);
    cases++;
}

static void gradients_of_gathers_count_every_token(void **state) {
    static const muster_dtype dtypes[] = {MUSTER_BF16, MUSTER_F16, MUSTER_F32};
    static const char *const texts[] = {"sum(embedding(t, i))", "sum(take(t, i, axis=0))", "sum(take(reshape(t, [2]), i))"};
    (void)state;
    cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int d = 0; d < 3; d++)
            for (int t = 0; t < 3; t++)
                for (int64_t rows = 256; rows <= 3000; rows += rows == 256 ? 1 : 2743)
                    for (int64_t micro = 0; micro < 3; micro += 2) sum_of_equal_tokens(runtime, dtypes[d], texts[t], rows, micro);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, 3 * 3 * 3 * 3 * 2);
}

/* ---- one text on all machines ---- */

/* What a text of x (rows, COLUMNS) is computed on. */
typedef struct machine {
    const char *devices;
    int32_t shards;
    int64_t micro_batches;
} machine;
static const machine ways[] = {{"host:1", 0, 0}, {"host:2", 0, 0}, {"host:3", 0, 0}, {"host:1", 0, 2}, {"host:2", 0, 3}, {"host:2", 4, 0}};
enum { WAYS = 6, COLUMNS = 3, MOST_ROWS = 4001 };
static const muster_dtype integers[] = {MUSTER_I8, MUSTER_I16, MUSTER_I32, MUSTER_I64, MUSTER_U8, MUSTER_U32, MUSTER_U64, MUSTER_BOOL};
enum { INTEGERS = 8 };

static muster_runtime *machine_open(const machine *m) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = m->devices;
    options.logical_shards = m->shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* The output of the text, which has `result` as its dtype, in `memory`. */
static void compute(muster_runtime *runtime, int64_t micro_batches, const char *text, muster_tensor x, muster_dtype result, void *memory,
                    int64_t count) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    int64_t shape[MUSTER_MAX_DIMS];
    assert_ok(muster_graph_create(runtime, "numbers", &graph));
    (void)muster_graph_input(graph, "x", x.dtype, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    muster_expr *y = muster_expr_parse(graph, text);
    if (muster_expr_ndim(y) < 0) fail_msg("%s: %s", text, muster_last_error());
    if (muster_expr_dtype(y) != result)
        fail_msg("%s of %s: received %s", text, muster_dtype_name(x.dtype), muster_dtype_name(muster_expr_dtype(y)));
    const int32_t ndim = muster_expr_ndim(y);
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = muster_expr_size(y, d);
        if (shape[d] == MUSTER_ROWS) shape[d] = x.shape[0];
    }
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor out = muster_tensor_make(result, memory, ndim, shape);
    assert_int_equal(muster_tensor_count(out), count);
    assert_ok(muster_function_call(function, &x, 1, &out, 1, NULL));
    assert_ok(muster_function_destroy(function));
}

static muster_dtype summed(muster_dtype dtype) {
    return dtype == MUSTER_U8 || dtype == MUSTER_U32 || dtype == MUSTER_U64 ? MUSTER_U64 : MUSTER_I64;
}

/* Element i of integers in the dtype, as 64 bits. */
static uint64_t element(muster_dtype dtype, const void *memory, int64_t i) {
    switch (dtype) {
    case MUSTER_I8:
        return (uint64_t)((const int8_t *)memory)[i];
    case MUSTER_I16:
        return (uint64_t)((const int16_t *)memory)[i];
    case MUSTER_I32:
        return (uint64_t)((const int32_t *)memory)[i];
    case MUSTER_U32:
        return ((const uint32_t *)memory)[i];
    case MUSTER_I64:
    case MUSTER_U64:
        return ((const uint64_t *)memory)[i];
    default:
        return ((const uint8_t *)memory)[i];
    }
}

static double as_double(muster_dtype dtype, uint64_t bits) { return summed(dtype) == MUSTER_U64 ? (double)bits : (double)(int64_t)bits; }

/* Bytes of any value; truth values are 0 and 1. */
static muster_tensor fill(muster_dtype dtype, int64_t rows, void *memory) {
    uint64_t state = 12345;
    uint8_t *bytes = memory;
    for (int64_t i = 0; i < rows * COLUMNS * muster_dtype_size(dtype); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = dtype == MUSTER_BOOL ? state >> 63 : (uint8_t)(state >> 56);
    }
    return muster_tensor_make(dtype, memory, 2, (const int64_t[]){rows, COLUMNS});
}

/* ---- sums and products of integers ---- */

typedef struct total {
    const char *text;
    bool product;
    int32_t axis; /* -1: all */
} total;
static const total totals[] = {
    {"sum(x)", false, -1}, {"sum(x, axis=0)", false, 0}, {"sum(x, axis=1)", false, 1}, {"sum(x, axis=0, keepdims=True)", false, 0},
    {"prod(x)", true, -1}, {"prod(x, axis=0)", true, 0}, {"prod(x, axis=1)", true, 1}};
enum { TOTALS = 7 };

static int64_t total_expected(const total *t, muster_dtype dtype, const void *x, int64_t rows, uint64_t *expected) {
    const int64_t count = t->axis < 0 ? 1 : t->axis == 0 ? COLUMNS : rows;
    for (int64_t i = 0; i < count; i++) expected[i] = t->product;
    for (int64_t i = 0; i < rows * COLUMNS; i++) {
        uint64_t *to = &expected[t->axis < 0 ? 0 : t->axis == 0 ? i % COLUMNS : i / COLUMNS];
        *to = t->product ? *to * element(dtype, x, i) : *to + element(dtype, x, i);
    }
    return count;
}

static uint64_t memory_of_x[MOST_ROWS * COLUMNS], received[MOST_ROWS * COLUMNS], expected[MOST_ROWS * COLUMNS];

static void sums_of_integers_have_64_bits_and_wrap(void **state) {
    static const int64_t rows[] = {1, 2, 7, 301};
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS; d++)
            for (int r = 0; r < 4; r++)
                for (int t = 0; t < TOTALS; t++, cases++) {
                    const muster_tensor x = fill(integers[d], rows[r], memory_of_x);
                    const int64_t count = total_expected(&totals[t], integers[d], memory_of_x, rows[r], expected);
                    compute(runtime, ways[w].micro_batches, totals[t].text, x, summed(integers[d]), received, count);
                    if (memcmp(received, expected, (size_t)count * 8) != 0)
                        fail_msg("%s of %lld rows of %s on %s: other bits", totals[t].text, (long long)rows[r],
                                 muster_dtype_name(integers[d]), ways[w].devices);
                }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * INTEGERS * 4 * TOTALS);
}

/* The low bits of the sum are those of any smaller dtype. */
static void sums_in_a_smaller_dtype_wrap(void **state) {
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS; d++)
            for (int to = 0; to < INTEGERS - 1; to++, cases++) {
                char text[60];
                const muster_tensor x = fill(integers[d], 301, memory_of_x);
                const int64_t count = total_expected(&totals[1], integers[d], memory_of_x, 301, expected);
                snprintf(text, sizeof text, "sum(x, axis=0, dtype=%s)", muster_dtype_name(integers[to]));
                compute(runtime, ways[w].micro_batches, text, x, integers[to], received, count);
                for (int64_t i = 0; i < count; i++)
                    if (element(integers[to], received, i) != element(integers[to], &expected[i], 0))
                        fail_msg("%s of %s on %s: other bits", text, muster_dtype_name(integers[d]), ways[w].devices);
            }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * INTEGERS * (INTEGERS - 1));
}

static void running_sums_of_integers_have_64_bits(void **state) {
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS; d++)
            for (int axis = 0; axis < 2; axis++, cases++) {
                const muster_tensor x = fill(integers[d], 20, memory_of_x);
                for (int64_t i = 0; i < 20 * COLUMNS; i++) {
                    const bool first = axis ? i % COLUMNS == 0 : i < COLUMNS;
                    expected[i] = element(integers[d], memory_of_x, i) + (first ? 0 : expected[i - (axis ? 1 : COLUMNS)]);
                }
                compute(runtime, ways[w].micro_batches, axis ? "cumsum(x, 1)" : "cumsum(x, 0)", x, summed(integers[d]), received,
                        20 * COLUMNS);
                assert_memory_equal(received, expected, 20 * COLUMNS * 8);
            }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * INTEGERS * 2);
}

/* ---- averages and quotients ---- */

static void near(const char *text, muster_dtype dtype, double exact, double is, double error) {
    if (!(fabs(exact - is) <= error * (1 + fabs(exact))))
        fail_msg("%s of %s: expected %.17g, received %.17g", text, muster_dtype_name(dtype), exact, is);
}

static void averages_of_integers_are_f64(void **state) {
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS; d++, cases++) {
            const bool exact = muster_dtype_size(integers[d]) < 8;
            double mean[COLUMNS] = {0}, var[COLUMNS] = {0}, is[COLUMNS];
            const muster_tensor x = fill(integers[d], 301, memory_of_x);
            (void)total_expected(&totals[1], integers[d], memory_of_x, 301, expected);
            for (int64_t i = 0; i < 301 * COLUMNS; i++) mean[i % COLUMNS] += as_double(integers[d], element(integers[d], memory_of_x, i));
            for (int c = 0; c < COLUMNS; c++) mean[c] = exact ? as_double(integers[d], expected[c]) / 301 : mean[c] / 301;
            for (int64_t i = 0; i < 301 * COLUMNS; i++)
                var[i % COLUMNS] += pow(as_double(integers[d], element(integers[d], memory_of_x, i)) - mean[i % COLUMNS], 2) / 301;
            compute(runtime, ways[w].micro_batches, "mean(x, axis=0)", x, MUSTER_F64, is, COLUMNS);
            for (int c = 0; c < COLUMNS; c++) near("mean", integers[d], mean[c], is[c], exact ? 0 : 1e-12);
            compute(runtime, ways[w].micro_batches, "var(x, axis=0)", x, MUSTER_F64, is, COLUMNS);
            for (int c = 0; c < COLUMNS; c++) near("var", integers[d], var[c], is[c], 1e-12);
            compute(runtime, ways[w].micro_batches, "std(x, axis=0)", x, MUSTER_F64, is, COLUMNS);
            for (int c = 0; c < COLUMNS; c++) near("std", integers[d], sqrt(var[c]), is[c], 1e-12);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * INTEGERS);
}

static void quotients_of_integers_are_f64(void **state) {
    static double is[21 * COLUMNS];
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS; d++) {
            const muster_tensor x = fill(integers[d], 21, memory_of_x);
            memset(memory_of_x, 0, 8); /* the first is 0 */
            compute(runtime, ways[w].micro_batches, "x / x[:, ::-1]", x, MUSTER_F64, is, 21 * COLUMNS);
            for (int64_t i = 0; i < 21 * COLUMNS; i++, cases++) {
                const double a = as_double(integers[d], element(integers[d], memory_of_x, i));
                const double b =
                    as_double(integers[d], element(integers[d], memory_of_x, i / COLUMNS * COLUMNS + COLUMNS - 1 - i % COLUMNS));
                if (isnan(a / b) ? !isnan(is[i]) : is[i] != a / b)
                    fail_msg("%s: %g / %g is %g", muster_dtype_name(integers[d]), a, b, is[i]);
            }
            compute(runtime, ways[w].micro_batches, "x / 1.5", x, MUSTER_F64, is, 21 * COLUMNS);
            for (int64_t i = 0; i < 21 * COLUMNS; i++, cases++)
                assert_true(is[i] == as_double(integers[d], element(integers[d], memory_of_x, i)) / 1.5);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * INTEGERS * 21 * COLUMNS * 2);
}

/* ---- halves ---- */

typedef struct half_case {
    const char *text;
    double (*exact)(const double *x, int64_t rows); /* of column 0 */
} half_case;
static double half_rounded(muster_dtype dtype, double value) {
    const uint16_t half = dtype == MUSTER_F16 ? muster_f32_to_f16((float)value) : muster_f32_to_bf16((float)value);
    return half_value(dtype, &half, 0);
}
static double exact_sum(const double *x, int64_t rows) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += x[i * COLUMNS];
    return sum;
}
static double exact_mean(const double *x, int64_t rows) { return exact_sum(x, rows) / (double)rows; }
static double exact_squares(const double *x, int64_t rows) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += x[i * COLUMNS] * x[i * COLUMNS];
    return sum;
}
static const half_case half_cases[] = {{"sum(x, axis=0)", exact_sum},      {"mean(x, axis=0)", exact_mean},
                                       {"sum(x, axis=0) * 1", exact_sum},  {"sum(x, axis=0, keepdims=True)", exact_sum},
                                       {"(x.T @ x)[0, :]", exact_squares}, {"einsum('ij,ij->j', x, x)", exact_squares}};
enum { HALF_CASES = 6 };

/* Rows of the size of 200: parts of the sum that are rounded on each device are seen. f16: of 1. */
static void sums_of_halves_are_rounded_once_over_all_devices(void **state) {
    static double exact[MOST_ROWS * COLUMNS];
    static uint16_t x[MOST_ROWS * COLUMNS], is[COLUMNS];
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int h = 0; h < 2; h++)
            for (int t = 0; t < HALF_CASES; t++, cases++) {
                const muster_dtype dtype = h ? MUSTER_F16 : MUSTER_BF16;
                for (int64_t i = 0; i < MOST_ROWS * COLUMNS; i++) {
                    const float value = (float)(h ? 1 + (double)(i % 7) / 16 : 196 + (double)(i % 9));
                    x[i] = h ? muster_f32_to_f16(value) : muster_f32_to_bf16(value);
                    exact[i] = half_value(dtype, x, i);
                }
                const double sum = half_cases[t].exact(exact, MOST_ROWS);
                compute(runtime, ways[w].micro_batches, half_cases[t].text,
                        muster_tensor_make(dtype, x, 2, (const int64_t[]){MOST_ROWS, COLUMNS}), dtype, is, COLUMNS);
                /* one rounding of the sum, which f32 has to five digits */
                if (half_value(dtype, is, 0) < half_rounded(dtype, sum * (1 - 1e-5)) ||
                    half_value(dtype, is, 0) > half_rounded(dtype, sum * (1 + 1e-5)))
                    fail_msg("%s of %s on %s: expected %g, received %g", half_cases[t].text, muster_dtype_name(dtype), ways[w].devices, sum,
                             half_value(dtype, is, 0));
            }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * 2 * HALF_CASES);
}

static void a_value_in_300_terms_has_the_gradient_300(void **state) {
    static const muster_dtype halves[] = {MUSTER_BF16, MUSTER_F16};
    (void)state;
    cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int h = 0; h < 2; h++, cases++) {
            muster_graph *graph;
            muster_function *function;
            muster_expr *dx;
            uint16_t x = 0, is;
            assert_ok(muster_graph_create(runtime, "terms", &graph));
            muster_expr *in = muster_graph_input(graph, "x", halves[h], MUSTER_SCALAR, MUSTER_BROADCAST), *loss = in;
            for (int i = 1; i < 300; i++) loss = muster_expr_add(loss, in);
            assert_ok(muster_gradient(loss, &in, 1, &dx));
            assert_ok(muster_graph_output(graph, "dx", dx, MUSTER_AUTO));
            assert_ok(muster_graph_compile(graph, NULL, &function));
            assert_ok(muster_graph_destroy(graph));
            const muster_tensor given = muster_tensor_make(halves[h], &x, 0, NULL), out = muster_tensor_make(halves[h], &is, 0, NULL);
            assert_ok(muster_function_call(function, &given, 1, &out, 1, NULL));
            assert_ok(muster_function_destroy(function));
            assert_true(half_value(halves[h], &is, 0) == 300);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * 2);
}

/* ---- truth values, and integers that stay ---- */

typedef struct truth_case {
    const char *text;
    int32_t table; /* bit 2 a + b: the result */
} truth_case;
static const truth_case truth_cases[] = {{"x + x[:, ::-1]", 0xe},
                                         {"x * x[:, ::-1]", 0x8},
                                         {"maximum(x, x[:, ::-1])", 0xe},
                                         {"minimum(x, x[:, ::-1])", 0x8},
                                         {"bitwise_and(x, x[:, ::-1])", 0x8},
                                         {"bitwise_or(x, x[:, ::-1])", 0xe},
                                         {"bitwise_xor(x, x[:, ::-1])", 0x6},
                                         {"bitwise_not(x)", 0x3},
                                         {"x + 1", 0xf},
                                         {"x * 0", 0x0}};
enum { TRUTH_CASES = 10 };

static void truth_values_are_added_as_or(void **state) {
    static uint8_t is[50 * COLUMNS];
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int t = 0; t < TRUTH_CASES; t++, cases++) {
            const muster_tensor x = fill(MUSTER_BOOL, 50, memory_of_x);
            const uint8_t *bytes = (const uint8_t *)memory_of_x;
            compute(runtime, ways[w].micro_batches, truth_cases[t].text, x, MUSTER_BOOL, is, 50 * COLUMNS);
            for (int64_t i = 0; i < 50 * COLUMNS; i++) {
                const int a = bytes[i], b = bytes[i / COLUMNS * COLUMNS + COLUMNS - 1 - i % COLUMNS];
                if (is[i] != (truth_cases[t].table >> (2 * a + b) & 1)) fail_msg("%s: %d, %d is %d", truth_cases[t].text, a, b, is[i]);
            }
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * TRUTH_CASES);
}

static void products_of_matrices_of_integers_wrap(void **state) {
    (void)state;
    cases = 0;
    for (int w = 0; w < WAYS; w++) {
        muster_runtime *runtime = machine_open(&ways[w]);
        for (int d = 0; d < INTEGERS - 1; d++, cases++) {
            const muster_tensor x = fill(integers[d], 40, memory_of_x);
            memset(expected, 0, sizeof expected);
            for (int64_t i = 0; i < 40; i++)
                for (int a = 0; a < COLUMNS; a++)
                    for (int b = 0; b < COLUMNS; b++)
                        expected[a * COLUMNS + b] +=
                            element(integers[d], memory_of_x, i * COLUMNS + a) * element(integers[d], memory_of_x, i * COLUMNS + b);
            compute(runtime, ways[w].micro_batches, "x.T @ x", x, integers[d], received, COLUMNS * COLUMNS);
            for (int i = 0; i < COLUMNS * COLUMNS; i++)
                if (element(integers[d], received, i) != element(integers[d], &expected[i], 0))
                    fail_msg("product of %s on %s: other bits", muster_dtype_name(integers[d]), ways[w].devices);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, WAYS * (INTEGERS - 1));
}

/* ---- what is refused, and gradients ---- */

static void other_dtypes_are_refused(void **state) {
    static const struct {
        muster_dtype dtype;
        const char *text, *message;
    } rows[] = {{MUSTER_BOOL, "x - x", "muster_expr_subtract: a \"x\": expected f16,"},
                {MUSTER_BOOL, "x + 2", "expected a number that bool holds, received 2"},
                {MUSTER_I32, "mean(x, dtype=i32)", "muster_expr_mean: dtype: expected f16, bf16, f32 or f64, received i32"},
                {MUSTER_F32, "std(x, dtype=bool)", "muster_expr_std: dtype: expected f16, bf16, f32 or f64, received bool"},
                {MUSTER_I32, "divide(x, x, dtype=i64)", "muster_expr_divide: dtype: expected f16, bf16, f32 or f64, received i64"},
                {MUSTER_F32, "trunc_divide(x, x)", "muster_expr_trunc_divide: a \"x\": expected i8, u8,"},
                {MUSTER_I32, "x / cast(x, f32)", "b: expected i32, the dtype of a"},
                {MUSTER_I32, "cumsum(x, 0, dtype=bool)", "muster_expr_cumsum: dtype: expected f16,"},
                {MUSTER_U8, "clip(x, 3, 256)", "muster_expr_clip: high: expected a number that u8 holds, received 256"}};
    enum { ROWS = sizeof rows / sizeof *rows };
    muster_runtime *runtime = graph_runtime("host:1");
    (void)state;
    cases = 0;
    for (int r = 0; r < ROWS; r++, cases++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(runtime, "refused", &graph));
        (void)muster_graph_input(graph, "x", rows[r].dtype, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
        assert_true(muster_expr_ndim(muster_expr_parse(graph, rows[r].text)) < 0);
        if (!strstr(muster_last_error(), rows[r].message)) fail_msg("%s: %s", rows[r].text, muster_last_error());
        (void)muster_graph_destroy(graph);
    }
    assert_int_equal(cases, ROWS);
    assert_ok(muster_runtime_close(runtime));
}

/* dy is cast to the dtype of x and repeated; integers have none. */
static void gradients_have_the_dtype_of_their_operands(void **state) {
    static const char *const texts[] = {"cast(sum(x, dtype=f64), f32)",
                                        "cast(mean(x, dtype=f32), f32) * 6",
                                        "sum(cast(cumsum(x, 1, dtype=f64), f32)[:, 2])",
                                        "sum(divide(x, 1, dtype=f64), dtype=f32)",
                                        "cast(sum(x, dtype=f16), f32)",
                                        "sum(x / 1, dtype=f64) + sum(argmax(x, 0) / 3)"};
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32};
    (void)state;
    cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int d = 0; d < 3; d++)
            for (int t = 0; t < 6; t++, cases++) {
                muster_graph *graph;
                muster_function *function;
                muster_expr *dx;
                float x[2 * COLUMNS] = {0}, is[2 * COLUMNS];
                assert_ok(muster_graph_create(runtime, "gradients", &graph));
                muster_expr *in = muster_graph_input(graph, "x", dtypes[d], MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
                muster_expr *loss = muster_expr_parse(graph, texts[t]);
                if (muster_expr_ndim(loss) < 0) fail_msg("%s: %s", texts[t], muster_last_error());
                assert_ok(muster_gradient(loss, &in, 1, &dx));
                assert_int_equal(muster_expr_dtype(dx), dtypes[d]);
                assert_ok(muster_graph_output(graph, "dx", muster_expr_cast(dx, MUSTER_F32), MUSTER_AUTO));
                assert_ok(muster_graph_compile(graph, NULL, &function));
                assert_ok(muster_graph_destroy(graph));
                const int64_t shape[] = {2, COLUMNS};
                const muster_tensor given = muster_tensor_make(dtypes[d], x, 2, shape), out = muster_tensor_make(MUSTER_F32, is, 2, shape);
                assert_ok(muster_function_call(function, &given, 1, &out, 1, NULL));
                assert_ok(muster_function_destroy(function));
                for (int i = 0; i < 2 * COLUMNS; i++)
                    if (is[i] != 1) fail_msg("%s of %s: element %d: received %g", texts[t], muster_dtype_name(dtypes[d]), i, (double)is[i]);
            }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * 3 * 6);
}

static void outputs_and_updates_of_i32_by_a_sum_offer_dtype(void **state) {
    muster_runtime *runtime = graph_runtime("host:1");
    muster_graph *graph;
    muster_variable *variable;
    int32_t zero = 0;
    (void)state;
    assert_ok(muster_variable_create(runtime, "count", muster_tensor_make(MUSTER_I32, &zero, 0, NULL), &variable));
    assert_ok(muster_graph_create(runtime, "counts", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    assert_ok(muster_graph_update(graph, variable, muster_expr_parse(graph, "sum(x, dtype=i32)"), MUSTER_AUTO));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_create(runtime, "counts", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    assert_int_equal(muster_graph_update(graph, variable, muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO), MUSTER_DTYPE_MISMATCH);
    assert_non_null(strstr(muster_last_error(), "\"count\": expected i32, received "));
    assert_non_null(strstr(muster_last_error(), " i64 (muster_expr_cast converts; sums, averages and / take dtype=)"));
    (void)muster_graph_destroy(graph);
    assert_ok(muster_graph_create(runtime, "counts", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO));
    muster_function *function;
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in = fill(MUSTER_I32, 2, memory_of_x), out = muster_tensor_make(MUSTER_I32, &zero, 0, NULL);
    assert_refused(muster_function_call(function, &in, 1, &out, 1, NULL), MUSTER_DTYPE_MISMATCH,
                   "expected i64, received i32 (muster_expr_cast converts; sums, averages and / take dtype=)");
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(variable));
    assert_ok(muster_runtime_close(runtime));
}

/* The dtype that muster_expr_dtype says (compute compares it) is that of the output, also where
 * only plain numbers give it. */
static void choices_between_plain_numbers_have_the_dtype_of_their_output(void **state) {
    static const struct {
        const char *text;
        double values[COLUMNS]; /* of x = 1, 2, 3 */
        bool floats;
    } texts[] = {
        {"where(x > 1, 1, 0)", {0, 1, 1}, false},
        {"where(x > 1, 1, 0.5)", {0.5, 1, 1}, true},
        {"where(x > 1, where(x > 2, 7, 8), 9)", {9, 8, 7}, false},
        {"where(x > 1, where(x > 2, 7, 8.5), 9)", {9, 8.5, 7}, true},
        {"where(x > 1, sqrt(2), 1)", {1, 1.4142135623730951, 1.4142135623730951}, true},
        {"where(x > 1, 1, 0) + 1", {1, 2, 2}, false},
        {"-where(x > 1, 1, 0.5)", {-0.5, -1, -1}, true},
    };
    static float x[COLUMNS] = {1, 2, 3};
    muster_runtime *runtime = machine_open(&ways[0]);
    (void)state;
    cases = 0;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        int64_t integer[COLUMNS];
        double floating[COLUMNS];
        void *memory = texts[t].floats ? (void *)floating : integer;
        compute(runtime, 0, texts[t].text, muster_f32(x, 1, COLUMNS), texts[t].floats ? MUSTER_F64 : MUSTER_I64, memory, COLUMNS);
        for (int c = 0; c < COLUMNS; c++) assert_true((texts[t].floats ? floating[c] : (double)integer[c]) == texts[t].values[c]);
        cases++;
    }
    assert_int_equal(cases, 7);
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "number", &graph));
    assert_int_equal(muster_expr_dtype(muster_graph_number(graph, 1)), MUSTER_DTYPE_NONE); /* it is no output */
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_gathers_count_every_token),
        cmocka_unit_test(sums_of_integers_have_64_bits_and_wrap),
        cmocka_unit_test(sums_in_a_smaller_dtype_wrap),
        cmocka_unit_test(running_sums_of_integers_have_64_bits),
        cmocka_unit_test(averages_of_integers_are_f64),
        cmocka_unit_test(quotients_of_integers_are_f64),
        cmocka_unit_test(sums_of_halves_are_rounded_once_over_all_devices),
        cmocka_unit_test(a_value_in_300_terms_has_the_gradient_300),
        cmocka_unit_test(truth_values_are_added_as_or),
        cmocka_unit_test(products_of_matrices_of_integers_wrap),
        cmocka_unit_test(other_dtypes_are_refused),
        cmocka_unit_test(choices_between_plain_numbers_have_the_dtype_of_their_output),
        cmocka_unit_test(gradients_have_the_dtype_of_their_operands),
        cmocka_unit_test(outputs_and_updates_of_i32_by_a_sum_offer_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
