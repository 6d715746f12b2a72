/* Graphs: what is computed, on how many devices, with which sizes; what is shared, and what is
 * refused. Oracles are loops over the same numbers. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>

enum { ROWS = 12, K = 5, M = 3 };
static float x[ROWS][K], w[K][M];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5) / 4;
    for (int32_t k = 0; k < K; k++)
        for (int32_t m = 0; m < M; m++) w[k][m] = (float)((5 * k + 2 * m) % 7 - 3) / 2;
}

static muster_function *compile(muster_graph *graph, muster_graph_meaning meaning, int32_t unshared) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = meaning;
    options.unshared_memory = unshared;
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

/* ---- the seed's example ---- */

static const char *const machines[] = {"host:1", "host:2", "host:3", "discrete:1", "discrete:2", "host:1,discrete:1"};
enum { MACHINES = sizeof machines / sizeof *machines };

/* mean(x @ w, axis 0), averaged over the devices by their rows; called on all, and on one. */
static void a_mean_of_products_is_that_of_one_device(void **state) {
    (void)state;
    int32_t compared = 0;
    double expected[M] = {0};
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t m = 0; m < M; m++)
            for (int32_t k = 0; k < K; k++) expected[m] += (double)x[i][k] * w[k][m] / ROWS;
    for (int32_t i = 0; i < MACHINES; i++) {
        muster_runtime *runtime = graph_runtime(machines[i]);
        muster_graph *graph = graph_named(runtime, "mean");
        muster_expr *left = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *right = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(K, M), MUSTER_BROADCAST);
        muster_expr *product = APPLY(graph, "matmul", left, right);
        muster_expr *mean = apply(graph, "mean", &product, 1, ATTRIBUTES({.name = "axis", LIST(0)}));
        assert_ok(muster_graph_output(graph, "mean", mean, MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_PER_WORKER, 0);
        assert_ok(muster_graph_destroy(graph));
        for (int32_t single = 0; single < 2; single++) {
            float got[M];
            const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_f32(w, K, M)}, out = muster_f32(got, M);
            assert_ok(single ? muster_function_call_single(function, in, 2, &out, 1, NULL)
                             : muster_function_call(function, in, 2, &out, 1, NULL));
            for (int32_t m = 0; m < M; m++, compared++) assert_true(fabs(got[m] - expected[m]) <= 1e-6 * (1 + fabs(expected[m])));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(compared, 2 * M * MACHINES);
    assert_int_equal(mst_discrete_live(), 0);
}

/* ---- sizes ---- */

/* One function serves every number of rows and every value of a named size, and checks them. */
static void a_new_size_compiles_nothing(void **state) {
    muster_runtime *runtime = *state;
    muster_graph *graph = graph_named(runtime, "sizes");
    const int64_t time = muster_graph_size(graph, "time");
    assert_int_equal(muster_graph_size(graph, "time"), time);
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, time, 2), MUSTER_SCATTER);
    muster_expr *b = muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(time), MUSTER_BROADCAST);
    muster_expr *flat = apply(graph, "reshape", &a, 1, ATTRIBUTES({.name = "shape", LIST(MUSTER_INFER, 2)}));
    assert_string_equal(muster_expr_shape(flat), "(rows time, 2)");
    muster_expr *sum = apply(graph, "sum", &flat, 1, ATTRIBUTES({.name = "axis", LIST(0)}));
    assert_ok(muster_graph_output(graph, "sum", APPLY(graph, "add", sum, APPLY(graph, "sum", b)), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
    assert_ok(muster_graph_destroy(graph));
    int32_t calls = 0;
    for (int64_t rows = 1; rows <= 4; rows++)
        for (int64_t steps = 0; steps <= 3; steps++, calls++) { /* more than the instances that are kept */
            float values[4 * 3 * 2], more[3] = {1, 2, 4}, got[2], expected[2] = {0};
            for (int64_t i = 0; i < rows * steps * 2; i++) {
                values[i] = (float)i;
                expected[i % 2] += values[i];
            }
            for (int64_t t = 0; t < steps; t++) expected[0] += more[t], expected[1] += more[t];
            const muster_tensor in[] = {muster_f32(values, rows, steps, 2), muster_f32(more, steps)}, out = muster_f32(got, 2);
            assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
            assert_true(got[0] == expected[0] && got[1] == expected[1]);
        }
    assert_int_equal(calls, 16);
    float values[12] = {0}, got[2];
    const muster_tensor unequal[] = {muster_f32(values, 2, 3, 2), muster_f32(values, 2)}, out = muster_f32(got, 2);
    assert_refused(muster_function_call(function, unequal, 2, &out, 1, NULL), MUSTER_SHAPE_MISMATCH,
                   "function 'sizes': input \"b\": expected (time,) with time = 3, as in an input before it, received (2,)");
    const muster_tensor wide[] = {muster_f32(values, 2, 2, 3), muster_f32(values, 2)};
    assert_refused(muster_function_call(function, wide, 2, &out, 1, NULL), MUSTER_SHAPE_MISMATCH,
                   "input \"a\": expected (rows, time, 2), received (2, 2, 3)");
    assert_ok(muster_function_destroy(function));
}

/* ---- nodes ---- */

static void what_is_written_twice_is_one_expression(void **state) {
    muster_graph *graph = graph_named(*state, "twice");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    muster_expr *two = muster_graph_number(graph, 2);
    assert_ptr_equal(APPLY(graph, "multiply", a, two), APPLY(graph, "multiply", a, muster_graph_number(graph, 2)));
    assert_ptr_not_equal(APPLY(graph, "multiply", a, two), APPLY(graph, "multiply", two, a));
    muster_expr *sum0 = apply(graph, "sum", &a, 1, ATTRIBUTES({.name = "axis", LIST(-1)}));
    assert_ptr_equal(sum0, APPLY(graph, "sum", a));
    assert_ptr_equal(APPLY(graph, "add", two, two), muster_graph_number(graph, 4));
    assert_ptr_equal(apply(graph, "reshape", &a, 1, ATTRIBUTES({.name = "shape", LIST(4)})), a);
    assert_ok(muster_graph_destroy(graph));
}

/* Each operation of two plain numbers gives the number that Python gives. */
static void plain_numbers_are_folded(void **state) {
    static const struct {
        const char *operation;
        double a, b, expected;
    } rows[] = {{"add", 7, 2, 9},        {"subtract", 7, 2, 5},       {"multiply", 7, 2, 14}, {"divide", 7, 2, 3.5},
                {"maximum", 7, 2, 7},    {"minimum", 7, 2, 2},        {"power", 7, 2, 49},    {"floor_divide", -7, 2, -4},
                {"remainder", -7, 2, 1}, {"remainder", 7, -2, -1},    {"fmod", -7, 2, -1},    {"hypot", 3, 4, 5},
                {"atan2", 0, 2, 0},      {"floor_divide", 1, 0.1, 9}, {"remainder", -4, 2, 0}};
    enum { FOLDED = sizeof rows / sizeof *rows };
    int32_t folded = 0;
    muster_graph *graph = graph_named(*state, "numbers");
    for (; folded < FOLDED; folded++)
        assert_ptr_equal(
            APPLY(graph, rows[folded].operation, muster_graph_number(graph, rows[folded].a), muster_graph_number(graph, rows[folded].b)),
            muster_graph_number(graph, rows[folded].expected));
    assert_int_equal(folded, 15);
    assert_ok(muster_graph_destroy(graph));
}

static void an_error_stays(void **state) {
    muster_graph *graph = graph_named(*state, "wrong");
    muster_expr *pixels = muster_graph_input(graph, "pixels", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 784), MUSTER_SCATTER);
    muster_expr *w1 = muster_graph_input(graph, "w1", MUSTER_F32, MUSTER_SHAPE(800, 10), MUSTER_BROADCAST), *both[] = {pixels, w1},
                *product, *later;
    static const char expected[] = "digits.c:41: muster_expr_matmul: b \"w1\": expected extent 784 in axis 0 (the last of a \"pixels\" "
                                   "(rows, 784) f32), received (800, 10)";
    assert_refused(muster_expr_apply(graph, "matmul", both, 2, NULL, "digits.c:41", &product), MUSTER_SHAPE_MISMATCH, expected);
    assert_non_null(product);
    assert_string_equal(muster_expr_shape(product), "error");
    assert_int_equal(muster_expr_apply(graph, "relu", &product, 1, NULL, "digits.c:42", &later), MUSTER_SHAPE_MISMATCH);
    assert_ptr_equal(later, product);
    assert_int_equal(muster_expr_apply(graph, "nothing", &pixels, 1, NULL, NULL, &later), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_graph_output(graph, "r", product, MUSTER_AUTO), MUSTER_SHAPE_MISMATCH);
    assert_refused(muster_graph_status(graph), MUSTER_SHAPE_MISMATCH, expected);
    muster_function *function = (muster_function *)graph;
    assert_refused(muster_graph_compile(graph, NULL, &function), MUSTER_SHAPE_MISMATCH, expected);
    assert_null(function);
    assert_ok(muster_graph_destroy(graph));
}

static void a_frozen_graph_takes_no_more(void **state) {
    muster_graph *graph = graph_named(*state, "frozen");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST), *b;
    assert_ok(muster_graph_output(graph, "r", APPLY(graph, "exp", a), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0), *second;
    assert_ok(muster_graph_status(graph));
    assert_refused(muster_expr_apply(graph, "log", &a, 1, NULL, NULL, &b), MUSTER_BAD_STATE, "graph \"frozen\" has been compiled");
    assert_int_equal(muster_expr_ndim(b), -1);
    assert_refused(muster_graph_status(graph), MUSTER_BAD_STATE, "muster_expr_apply: graph \"frozen\" has been compiled"); /* is kept */
    assert_refused(muster_graph_compile(graph, NULL, &second), MUSTER_BAD_STATE, "has been compiled");
    assert_refused(muster_graph_output(graph, "s", a, MUSTER_AUTO), MUSTER_BAD_STATE, "has been compiled");
    assert_ok(muster_graph_destroy(graph));
    assert_refused(muster_graph_destroy(graph), MUSTER_BAD_STATE, "has been destroyed");
    assert_ok(muster_function_destroy(function));
}

/* ---- outputs, updates, memory ---- */

/* Outputs that are not wanted are not computed: the index would be refused. */
static void an_unwanted_output_is_not_computed(void **state) {
    muster_graph *graph = graph_named(*state, "wanted");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    muster_expr *index = muster_graph_input(graph, "index", MUSTER_I64, MUSTER_SHAPE(1), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "sum", APPLY(graph, "sum", a), MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "taken", muster_expr_name(APPLY(graph, "take", a, index), "the row"), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
    float values[4] = {1, 2, 3, 4}, sum = 0, taken;
    int64_t far[1] = {9};
    const muster_tensor in[] = {muster_f32(values, 4), muster_i64(far, 1)};
    assert_ok(muster_function_call(function, in, 2, (muster_tensor[]){muster_f32(&sum), muster_tensor_none()}, 2, NULL));
    assert_true(sum == 10);
    assert_refused(muster_function_call(function, in, 2, (muster_tensor[]){muster_f32(&sum), muster_f32(&taken, 1)}, 2, NULL),
                   MUSTER_OUT_OF_RANGE, "(in \"the row\", test.c:1)");
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

/* w -= rate * gradient, on each worker by its own rows, averaged: what one device computes. */
static void updates_train_a_variable(void **state) {
    (void)state;
    for (int32_t devices = 1; devices <= 2; devices++) {
        muster_runtime *runtime = graph_runtime(devices == 1 ? "host:1" : "host:2");
        muster_variable *variable;
        float start[K] = {0.5f, -1, 0.25f, 2, -0.5f};
        double expected[K], target[ROWS];
        float wanted[ROWS], loss, rate = 0.125f;
        for (int32_t k = 0; k < K; k++) expected[k] = start[k];
        for (int32_t i = 0; i < ROWS; i++) target[i] = wanted[i] = (float)(i % 4);
        assert_ok(muster_variable_create(runtime, "w", muster_f32(start, K), &variable));
        muster_graph *graph = graph_named(runtime, "train");
        muster_expr *rows = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *t = muster_graph_input(graph, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
        muster_expr *step = muster_graph_input(graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
        muster_expr *p = muster_graph_parameter(graph, variable), *d;
        assert_ptr_equal(muster_graph_parameter(graph, variable), p);
        muster_expr *l = APPLY(graph, "mean", APPLY(graph, "square", APPLY(graph, "subtract", APPLY(graph, "matmul", rows, p), t)));
        assert_ok(muster_gradient(l, &p, 1, &d));
        assert_ok(muster_graph_update(graph, variable, APPLY(graph, "subtract", p, APPLY(graph, "multiply", step, d)), MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "loss", l, MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_PER_WORKER, 0);
        assert_ok(muster_graph_destroy(graph));
        for (int32_t call = 0; call < 3; call++) {
            double gradient[K] = {0}, sum = 0;
            for (int32_t i = 0; i < ROWS; i++) {
                double error = -target[i];
                for (int32_t k = 0; k < K; k++) error += x[i][k] * expected[k];
                for (int32_t k = 0; k < K; k++) gradient[k] += 2 * error * x[i][k] / ROWS;
                sum += error * error / ROWS;
            }
            for (int32_t k = 0; k < K; k++) expected[k] -= rate * gradient[k];
            const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_f32(wanted, ROWS), muster_f32(&rate)}, out = muster_f32(&loss);
            assert_ok(muster_function_call(function, in, 3, &out, 1, NULL));
            assert_true((devices > 1 && call > 0) || fabs(loss - sum) <= 1e-5 * (1 + sum));
        }
        float got[K];
        for (int32_t r = 0; r < devices; r++) {
            assert_ok(muster_variable_get(variable, r, muster_f32(got, K)));
            double worst = 0; /* replicas differ: each has the average over its own rows */
            for (int32_t k = 0; k < K; k++) worst = fmax(worst, fabs(got[k] - expected[k]));
            assert_true(devices > 1 || worst <= 1e-5);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

/* MUSTER_AUTO averages over workers, which integers do not have; on one device there is one
 * value. */
static void automatic_modes_of_integers(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *counter;
    int32_t start = 5, total = 0;
    assert_ok(muster_variable_create(runtime, "counter", muster_i32(&start), &counter));
    for (int32_t update = 0; update < 2; update++) {
        muster_graph *graph = graph_named(runtime, "counted");
        muster_expr *next = APPLY(graph, "add", muster_graph_parameter(graph, counter), muster_graph_number(graph, 1));
        muster_function *function;
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.meaning = MUSTER_PER_WORKER;
        if (update)
            assert_ok(muster_graph_update(graph, counter, next, MUSTER_AUTO));
        else
            assert_ok(muster_graph_output(graph, "total", next, MUSTER_AUTO));
        assert_refused(
            muster_graph_compile(graph, &options, &function), MUSTER_UNSUPPORTED,
            update ? "update of \"counter\": mode: expected MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD or MUSTER_SUM, since i32 "
                     "has no average, received MUSTER_AUTO"
                   : "output \"total\": mode: expected MUSTER_GATHER, MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD or MUSTER_SUM, "
                     "since i32 has no average, received MUSTER_AUTO");
        assert_ok(muster_graph_compile(graph, NULL, &function));
        const muster_tensor out = muster_i32(&total);
        assert_ok(muster_function_call(function, NULL, 0, &out, update ? 0 : 1, NULL));
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(total, 6);
    assert_ok(muster_variable_get(counter, 0, muster_i32(&total)));
    assert_int_equal(total, 6);
    assert_ok(muster_variable_destroy(counter));
}

/* y = e + its transpose: e is used for the last time, but its transpose reads elements that y would
 * have overwritten. A single operation, and a group of two. */
static void a_value_is_not_written_over_while_a_view_reads_it(void **state) {
    (void)state;
    enum { N = 9 };
    float values[N][N], y[N][N];
    int32_t compared = 0;
    muster_runtime *runtime = graph_runtime("host:1");
    for (int32_t i = 0; i < N; i++)
        for (int32_t k = 0; k < N; k++) values[i][k] = (float)(10 * i + k);
    for (int32_t grouped = 0; grouped < 2; grouped++) {
        muster_graph *graph = graph_named(runtime, grouped ? "grouped" : "single");
        muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(N, N), MUSTER_BROADCAST);
        muster_expr *sums = apply(graph, "cumsum", &x, 1, ATTRIBUTES({.name = "axis", .integer = 1}));
        muster_expr *both = APPLY(graph, "add", sums, APPLY(graph, "transpose", sums));
        muster_expr *last = grouped ? APPLY(graph, "negative", both) : both;
        /* not the output itself, which has memory of its own */
        assert_ok(
            muster_graph_output(graph, "y", apply(graph, "cumsum", &last, 1, ATTRIBUTES({.name = "axis", .integer = 1})), MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(values, N, N)}, 1, (muster_tensor[]){muster_f32(y, N, N)}, 1,
                                       NULL));
        float rows[N][N];
        for (int32_t i = 0; i < N; i++)
            for (int32_t k = 0; k < N; k++) rows[i][k] = values[i][k] + (k ? rows[i][k - 1] : 0);
        for (int32_t i = 0; i < N; i++) {
            float sum = 0;
            for (int32_t k = 0; k < N; k++, compared++) {
                sum += (grouped ? -1 : 1) * (rows[i][k] + rows[k][i]);
                assert_true(y[i][k] == sum);
            }
        }
        assert_ok(muster_function_destroy(function));
    }
    assert_int_equal(compared, 2 * N * N);
    assert_ok(muster_runtime_close(runtime));
}

/* A chain with views, values used late and operands written over: shared memory gives the bits of
 * unshared memory, also where an output is a value in the middle. */
static void shared_memory_changes_no_bit(void **state) {
    muster_runtime *runtime = *state;
    float results[2][2][ROWS * M];
    for (int32_t unshared = 0; unshared < 2; unshared++) {
        muster_graph *graph = graph_named(runtime, unshared ? "unshared" : "shared");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *b = muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(K, M), MUSTER_BROADCAST);
        muster_expr *h = APPLY(graph, "matmul", APPLY(graph, "tanh", a), b), *middle = APPLY(graph, "exp", h), *t = middle;
        for (int32_t i = 0; i < 6; i++) {
            muster_expr *s = APPLY(graph, "sigmoid", APPLY(graph, "add", t, h));
            t = APPLY(graph, "subtract", APPLY(graph, "multiply", s, t), APPLY(graph, "transpose", APPLY(graph, "transpose", middle)));
        }
        assert_ok(muster_graph_output(graph, "t", t, MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "middle", middle, MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_ONE_DEVICE, unshared);
        assert_ok(muster_graph_destroy(graph));
        const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_f32(w, K, M)};
        const muster_tensor out[] = {muster_f32(results[unshared][0], ROWS, M), muster_f32(results[unshared][1], ROWS, M)};
        assert_ok(muster_function_call(function, in, 2, out, 2, NULL));
        assert_ok(muster_function_destroy(function));
    }
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    assert_true(results[0][0][0] != 0);
}

/* exp(a) is an operand twice, in two layouts, for the last time: nothing may be written over it. */
static void an_operand_in_two_layouts_is_not_written_over(void **state) {
    muster_graph *graph = graph_named(*state, "layouts");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(3, 3), MUSTER_BROADCAST), *e = APPLY(graph, "exp", a);
    assert_ok(muster_graph_output(graph, "sum", APPLY(graph, "exp", APPLY(graph, "add", e, APPLY(graph, "transpose", e))), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
    assert_ok(muster_graph_destroy(graph));
    float in[3][3] = {{0.5f, -1, 0.25f}, {0, -0.5f, 1}, {0.125f, -2, 0}}, out[3][3];
    const muster_tensor given = muster_f32(in, 3, 3), result = muster_f32(out, 3, 3);
    assert_ok(muster_function_call(function, &given, 1, &result, 1, NULL));
    for (int32_t i = 0; i < 3; i++)
        for (int32_t k = 0; k < 3; k++) {
            const double expected = exp(exp(in[i][k]) + exp(in[k][i]));
            assert_true(fabs(out[i][k] - expected) <= 1e-5 * expected);
        }
    assert_ok(muster_function_destroy(function));
}

static void a_repeated_call_allocates_nothing(void **state) {
    muster_graph *graph = graph_named(*state, "repeated");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *t = APPLY(graph, "exp", a);
    for (int32_t i = 0; i < 5; i++) t = APPLY(graph, "add", APPLY(graph, "tanh", t), APPLY(graph, "sum", t));
    assert_ok(muster_graph_output(graph, "sum", APPLY(graph, "sum", t), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
    assert_ok(muster_graph_destroy(graph));
    float sum;
    const muster_tensor in[] = {muster_f32(x, ROWS, K)}, fewer[] = {muster_f32(x, ROWS - 1, K)}, out = muster_f32(&sum);
    for (int32_t i = 0; i < 2; i++) {
        assert_ok(muster_function_call(function, in, 1, &out, 1, NULL));
        assert_ok(muster_function_call(function, fewer, 1, &out, 1, NULL));
    }
    const int64_t before = mst_memory_count();
    for (int32_t i = 0; i < 10; i++) {
        assert_ok(muster_function_call(function, in, 1, &out, 1, NULL));
        assert_ok(muster_function_call(function, fewer, 1, &out, 1, NULL));
    }
    assert_int_equal(mst_memory_count(), before);
    assert_ok(muster_function_destroy(function));
}

/* ---- substitution ---- */

static void a_parameter_stands_in_for_an_input(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *variable;
    assert_ok(muster_variable_create(runtime, "weights", muster_f32(w, K, M), &variable));
    muster_graph *graph = graph_named(runtime, "given");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *b = muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(K, M), MUSTER_BROADCAST);
    muster_expr *slot = APPLY(graph, "sum", APPLY(graph, "square", APPLY(graph, "matmul", a, b)));
    muster_expr *parameter = muster_graph_parameter(graph, variable);
    muster_expr *other = muster_expr_substitute(slot, &b, &parameter, 1);
    assert_ptr_not_equal(other, slot);
    assert_ptr_equal(muster_expr_substitute(slot, &parameter, &b, 1), slot);
    assert_ok(muster_graph_output(graph, "by input", slot, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "by variable", other, MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE, 0);
    float first, second;
    const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_f32(w, K, M)}, out[] = {muster_f32(&first), muster_f32(&second)};
    assert_ok(muster_function_call(function, in, 2, out, 2, NULL));
    assert_true(first == second && first > 0);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_variable_destroy(variable));
}

/* ---- memory that runs out ---- */

/* Each allocation of a graph's life fails once: the failure is said, and nothing is leaked. */
static void every_failed_allocation_is_said(void **state) {
    muster_runtime *runtime = *state;
    const int64_t live = mst_memory_live();
    int32_t failed = 0, done = 0;
    for (int64_t k = 1; !done; k++) {
        muster_graph *graph = NULL;
        muster_function *function = NULL;
        muster_expr *d[1];
        mst_memory_fail_at(k);
        muster_status status = muster_graph_create(runtime, "tight", &graph);
        if (status == MUSTER_OK) {
            muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST), *t = a;
            for (int32_t i = 0; i < 100; i++) {
                muster_expr *both[] = {t, a};
                (void)muster_expr_apply(graph, i % 2 ? "add" : "multiply", both, 2, NULL, "tight.c:1", &t);
            }
            (void)muster_expr_apply(graph, "sum", &t, 1, NULL, NULL, &t);
            (void)muster_gradient(t, &a, 1, d);
            (void)muster_graph_output(graph, "r", d[0], MUSTER_AUTO);
            status = muster_graph_compile(graph, NULL, &function);
        }
        if (status == MUSTER_OK) {
            float in[3] = {0.5f, 0.25f, 0.125f}, out[3];
            const muster_tensor given = muster_f32(in, 3), result = muster_f32(out, 3);
            status = muster_function_call(function, &given, 1, &result, 1, NULL);
        }
        mst_memory_fail_at(0);
        if (status == MUSTER_OK)
            done = 1;
        else {
            if (status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
            failed++;
        }
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_true(failed > 20);
    assert_true(mst_memory_live() - live <= 8); /* what the runtime keeps for later calls */
}

static int open_one_device(void **state) {
    fill_numbers();
    if (mst_discrete_register() != MUSTER_OK) return 1;
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mean_of_products_is_that_of_one_device),
        cmocka_unit_test(a_new_size_compiles_nothing),
        cmocka_unit_test(what_is_written_twice_is_one_expression),
        cmocka_unit_test(plain_numbers_are_folded),
        cmocka_unit_test(an_error_stays),
        cmocka_unit_test(a_frozen_graph_takes_no_more),
        cmocka_unit_test(an_unwanted_output_is_not_computed),
        cmocka_unit_test(updates_train_a_variable),
        cmocka_unit_test(automatic_modes_of_integers),
        cmocka_unit_test(a_value_is_not_written_over_while_a_view_reads_it),
        cmocka_unit_test(shared_memory_changes_no_bit),
        cmocka_unit_test(an_operand_in_two_layouts_is_not_written_over),
        cmocka_unit_test(a_repeated_call_allocates_nothing),
        cmocka_unit_test(a_parameter_stands_in_for_an_input),
        cmocka_unit_test(every_failed_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, open_one_device, graph_close);
}
