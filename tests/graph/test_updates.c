/* Updates and outputs of graphs whose workers compute from their own rows: every mode, on 1, 2 and
 * 4 devices, with 1 to 3 slices. Oracles are loops over the rows of each worker and slice. */
#include "graph_fixture.h"
#include "memory_impl.h"

#include <math.h>

enum { ROWS = 26, COLUMNS = 2, DEVICES = 3, SLICES = 3 };
static const struct {
    const char *names;
    int32_t count;
} machines[DEVICES] = {{"host:1", 1}, {"host:2", 2}, {"host:4", 4}};
/* AUTO is the average. */
static const muster_collect_mode modes[] = {MUSTER_AUTO, MUSTER_AVG, MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN, MUSTER_MASTER};
enum { MODES = sizeof modes / sizeof *modes };

static double number_at(int64_t row, int64_t column) { return (double)((row * 7 + column * 5) % 11 - 4) / 4; }

static muster_function *compile(muster_graph *graph) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static muster_call_options with_slices(int64_t slices) {
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = slices;
    return options;
}

/* ---- every mode ---- */

/* Part `i` of `count` of the rows from begin to end. */
static int64_t edge(int64_t begin, int64_t end, int64_t i, int64_t count) { return begin + (end - begin) * i / count; }

/* The new value of w[column] = w + max(x, axis=0), from the rows `begin` to `end` in so many
 * slices. */
static double expected_value(muster_collect_mode mode, double w, int64_t column, int64_t begin, int64_t end, int64_t slices) {
    double result = mode == MUSTER_PROD ? 1 : mode == MUSTER_MAX ? -INFINITY : mode == MUSTER_MIN ? INFINITY : 0;
    for (int64_t s = 0; s < slices; s++) {
        const int64_t first = edge(begin, end, s, slices), last = edge(begin, end, s + 1, slices);
        double largest = -INFINITY;
        for (int64_t i = first; i < last; i++) largest = fmax(largest, number_at(i, column));
        const double value = w + largest; /* of the original w, in every slice */
        if (mode == MUSTER_AUTO || mode == MUSTER_AVG) result += value * (double)(last - first) / (double)(end - begin);
        if (mode == MUSTER_SUM) result += value;
        if (mode == MUSTER_PROD) result *= value;
        if (mode == MUSTER_MAX) result = fmax(result, value);
        if (mode == MUSTER_MIN) result = fmin(result, value);
        if (mode == MUSTER_MASTER) result = value; /* the last slice's */
    }
    return result;
}

static void check_mode(muster_runtime *runtime, int32_t devices, muster_collect_mode mode, muster_dtype dtype, int64_t slices) {
    double x64[ROWS][COLUMNS], start64[COLUMNS] = {2, -3};
    float x32[ROWS][COLUMNS], start32[COLUMNS] = {2, -3};
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t c = 0; c < COLUMNS; c++) x64[i][c] = number_at(i, c), x32[i][c] = (float)x64[i][c];
    const bool wide = dtype == MUSTER_F64;
    const muster_tensor rows = wide ? muster_f64(x64, ROWS, COLUMNS) : muster_f32(x32, ROWS, COLUMNS);
    muster_variable *w;
    muster_graph *graph;
    assert_ok(muster_variable_create(runtime, "w", wide ? muster_f64(start64, COLUMNS) : muster_f32(start32, COLUMNS), &w));
    assert_ok(muster_graph_create(runtime, "modes", &graph));
    (void)muster_graph_input(graph, "x", dtype, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_parameter(graph, w);
    assert_ok(muster_graph_update(graph, w, muster_expr_parse(graph, "w + max(x, axis=0)"), mode));
    muster_function *function = compile(graph);
    const muster_call_options options = with_slices(slices);
    assert_ok(muster_function_call(function, &rows, 1, NULL, 0, &options));
    for (int32_t r = 0; r < devices; r++) {
        double got64[COLUMNS];
        float got32[COLUMNS];
        assert_ok(muster_variable_get(w, r, wide ? muster_f64(got64, COLUMNS) : muster_f32(got32, COLUMNS)));
        for (int64_t c = 0; c < COLUMNS; c++) {
            const double expected = expected_value(mode, start64[c], c, edge(0, ROWS, r, devices), edge(0, ROWS, r + 1, devices), slices);
            const double got = wide ? got64[c] : (double)got32[c];
            assert_true(fabs(got - expected) <= (wide ? 1e-14 : 1e-6) * (1 + fabs(expected)));
        }
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(w));
}

static void every_mode_accumulates_over_the_slices_of_each_device(void **state) {
    (void)state;
    int32_t checked = 0;
    for (int32_t m = 0; m < DEVICES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m].names);
        for (int32_t mode = 0; mode < MODES; mode++)
            for (int64_t slices = 1; slices <= SLICES; slices++)
                for (int32_t wide = 0; wide < 2; wide++, checked++)
                    check_mode(runtime, machines[m].count, modes[mode], wide ? MUSTER_F64 : MUSTER_F32, slices);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 3 * 7 * 3 * 2);
}

/* ---- what updates see ---- */

/* a becomes b and b becomes a, however many slices there are. */
static void all_updates_see_the_old_values(void **state) {
    (void)state;
    int32_t checked = 0;
    for (int32_t m = 0; m < DEVICES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m].names);
        for (int64_t slices = 1; slices <= SLICES; slices++) {
            float x[ROWS] = {0}, one = 1, two = 2, got;
            muster_variable *a, *b;
            muster_graph *graph;
            assert_ok(muster_variable_create(runtime, "a", muster_f32(&one), &a));
            assert_ok(muster_variable_create(runtime, "b", muster_f32(&two), &b));
            assert_ok(muster_graph_create(runtime, "swap", &graph));
            (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
            muster_expr *from_a = muster_graph_parameter(graph, a), *from_b = muster_graph_parameter(graph, b);
            assert_ok(muster_graph_update(graph, a, from_b, MUSTER_AUTO));
            assert_ok(muster_graph_update(graph, b, from_a, MUSTER_AUTO));
            muster_function *function = compile(graph);
            const muster_tensor in = muster_f32(x, ROWS);
            const muster_call_options options = with_slices(slices);
            assert_ok(muster_function_call(function, &in, 1, NULL, 0, &options));
            for (int32_t r = 0; r < machines[m].count; r++, checked++) {
                assert_ok(muster_variable_get(a, r, muster_f32(&got)));
                assert_true(got == 2);
                assert_ok(muster_variable_get(b, r, muster_f32(&got)));
                assert_true(got == 1);
            }
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_variable_destroy(a));
            assert_ok(muster_variable_destroy(b));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, (1 + 2 + 4) * SLICES);
}

/* One row on four devices: the last device has it, the others keep their values. */
static void a_device_without_rows_keeps_its_value(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:4");
    float x = 5, start = 1, got;
    int32_t changed = 0;
    muster_variable *w;
    muster_graph *graph;
    assert_ok(muster_variable_create(runtime, "w", muster_f32(&start), &w));
    assert_ok(muster_graph_create(runtime, "one row", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_parameter(graph, w);
    assert_ok(muster_graph_update(graph, w, muster_expr_parse(graph, "w + sum(x)"), MUSTER_AUTO));
    muster_function *function = compile(graph);
    const muster_tensor in = muster_f32(&x, 1);
    assert_ok(muster_function_call(function, &in, 1, NULL, 0, NULL));
    for (int32_t r = 0; r < 4; r++) {
        assert_ok(muster_variable_get(w, r, muster_f32(&got)));
        assert_true(got == 1 || got == 6);
        changed += got == 6;
    }
    assert_int_equal(changed, 1);
    assert_ok(muster_runtime_close(runtime));
}

/* Integers have no average: AUTO is refused with the choices, and each choice works. */
static void integers_have_every_mode_but_the_average(void **state) {
    (void)state;
    static const muster_collect_mode choices[] = {MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD, MUSTER_SUM};
    static const int32_t expected[] = {7, 7, 7, 49, 14}; /* two slices of 5 + 2 */
    int32_t checked = 0;
    for (int32_t m = 0; m < DEVICES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m].names);
        for (int32_t c = -1; c < 5; c++, checked++) {
            int32_t start = 5, got;
            float x[ROWS] = {0};
            muster_variable *counter;
            muster_graph *graph;
            assert_ok(muster_variable_create(runtime, "counter", muster_i32(&start), &counter));
            assert_ok(muster_graph_create(runtime, "counted", &graph));
            (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
            (void)muster_graph_parameter(graph, counter);
            assert_ok(muster_graph_update(graph, counter, muster_expr_parse(graph, "counter + 2"), c < 0 ? MUSTER_AUTO : choices[c]));
            if (c < 0) {
                muster_graph_options options;
                muster_function *none;
                muster_graph_options_init(&options);
                options.meaning = MUSTER_PER_WORKER;
                assert_refused(muster_graph_compile(graph, &options, &none), MUSTER_UNSUPPORTED,
                               "update of \"counter\": mode: expected MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD or MUSTER_SUM, "
                               "since i32 has no average, received MUSTER_AUTO");
                assert_null(none);
                assert_ok(muster_graph_destroy(graph));
            } else {
                muster_function *function = compile(graph);
                const muster_tensor in = muster_f32(x, ROWS);
                const muster_call_options options = with_slices(2);
                assert_ok(muster_function_call(function, &in, 1, NULL, 0, &options));
                for (int32_t r = 0; r < machines[m].count; r++) {
                    assert_ok(muster_variable_get(counter, r, muster_i32(&got)));
                    assert_int_equal(got, expected[c]);
                }
                assert_ok(muster_function_destroy(function));
            }
            assert_ok(muster_variable_destroy(counter));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, DEVICES * 6);
}

/* ---- outputs that a call does not want ---- */

/* Each of three outputs takes an index of its own, which may be out of range: a call fails only if
 * it wants such an output. The update is made in either case, but by no call that fails. */
static void an_output_that_is_not_wanted_is_not_computed(void **state) {
    (void)state;
    enum { OUTPUTS = 3, SUBSETS = 1 << OUTPUTS };
    int32_t checked = 0;
    for (int32_t m = 0; m < DEVICES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m].names);
        float values[ROWS][4], count = 0, updates = 0, got[OUTPUTS];
        for (int32_t i = 0; i < ROWS * 4; i++) values[i / 4][i % 4] = (float)(i % 4);
        muster_variable *calls;
        muster_graph *graph;
        assert_ok(muster_variable_create(runtime, "calls", muster_f32(&count), &calls));
        assert_ok(muster_graph_create(runtime, "wanted", &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 4), MUSTER_SCATTER);
        (void)muster_graph_input(graph, "index", MUSTER_I64, MUSTER_SHAPE(OUTPUTS), MUSTER_BROADCAST);
        (void)muster_graph_parameter(graph, calls);
        assert_ok(muster_graph_output(graph, "a", muster_expr_parse(graph, "mean(take(x, index[0:1], axis=1))"), MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "b", muster_expr_parse(graph, "mean(take(x, index[1:2], axis=1))"), MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "c", muster_expr_parse(graph, "mean(take(x, index[2:3], axis=1))"), MUSTER_AUTO));
        assert_ok(muster_graph_update(graph, calls, muster_expr_parse(graph, "calls + 1"), MUSTER_AUTO));
        muster_function *function = compile(graph);
        for (int32_t wanted = 0; wanted < SUBSETS; wanted++)
            for (int32_t bad = 0; bad < SUBSETS; bad++, checked++) {
                int64_t index[OUTPUTS];
                muster_tensor out[OUTPUTS];
                for (int32_t o = 0; o < OUTPUTS; o++) {
                    index[o] = bad >> o & 1 ? 4 : o + 1;
                    got[o] = -1;
                    out[o] = wanted >> o & 1 ? muster_f32(&got[o]) : muster_tensor_none();
                }
                const muster_tensor in[] = {muster_f32(values, ROWS, 4), muster_i64(index, OUTPUTS)};
                const muster_status status = muster_function_call(function, in, 2, out, OUTPUTS, NULL);
                assert_int_equal(status, wanted & bad ? MUSTER_OUT_OF_RANGE : MUSTER_OK);
                updates += status == MUSTER_OK;
                for (int32_t o = 0; o < OUTPUTS && status == MUSTER_OK; o++)
                    assert_true(fabsf(got[o] - (wanted >> o & 1 ? (float)(o + 1) : -1)) <= 1e-5f);
            }
        for (int32_t r = 0; r < machines[m].count; r++) {
            assert_ok(muster_variable_get(calls, r, muster_f32(&count)));
            assert_true(count == updates);
        }
        assert_true(updates == 27); /* each output: wanted and good, or not wanted and either */
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, DEVICES * 64);
}

/* ---- memory that runs out ---- */

/* Each allocation of a function's first call fails once. The call says OUT_OF_MEMORY, also where
 * the memory was for the new value of a variable; the variable keeps its value, and the next call
 * works. */
static void a_failed_allocation_of_a_call_updates_nothing(void **state) {
    int32_t failed = 0;
    bool done = false;
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    for (int64_t k = 1; !done; k++) {
        const float start[COLUMNS] = {2, -3};
        float x[ROWS][COLUMNS] = {{1}}, got[COLUMNS], sum;
        const muster_tensor in = muster_f32(x, ROWS, COLUMNS), out = muster_f32(&sum);
        muster_variable *w;
        muster_graph *graph;
        assert_ok(muster_variable_create(runtime, "w", muster_f32(start, COLUMNS), &w));
        assert_ok(muster_graph_create(runtime, "tight", &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
        (void)muster_graph_parameter(graph, w);
        assert_ok(muster_graph_update(graph, w, muster_expr_parse(graph, "w + 1"), MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "sum", muster_expr_parse(graph, "sum((x + w) ** 2 - w)"), MUSTER_AUTO));
        muster_function *function = compile(graph);
        mst_memory_fail_at(k);
        const muster_status status = muster_function_call(function, &in, 1, &out, 1, NULL);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(muster_variable_get(w, 0, muster_f32(got, COLUMNS)));
        for (int32_t c = 0; c < COLUMNS; c++) assert_true(got[c] == start[c] + (float)done);
        assert_ok(muster_variable_set(w, 0, muster_f32(start, COLUMNS)));
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_true(sum == 9 + 25 * 4 + 26 * 9 - 26 * (2 - 3)); /* 3^2, else 2^2, and (-3)^2 */
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_variable_destroy(w));
    }
    assert_true(failed > 10);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_accumulates_over_the_slices_of_each_device),
        cmocka_unit_test(all_updates_see_the_old_values),
        cmocka_unit_test(a_device_without_rows_keeps_its_value),
        cmocka_unit_test(integers_have_every_mode_but_the_average),
        cmocka_unit_test(an_output_that_is_not_wanted_is_not_computed),
        cmocka_unit_test(a_failed_allocation_of_a_call_updates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
