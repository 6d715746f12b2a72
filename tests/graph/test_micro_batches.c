/* Micro-batches: a fixed list of graphs gives the values of all rows at once, whatever the
 * number of micro-batches, of devices and of rows, and in every way of calling and compiling. A
 * graph without micro-batches on one device is the oracle; what it computes is checked by other
 * suites. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"
#include "memory_impl.h"

#include <math.h>

static const int64_t changing[] = {7, 1, 64, 3, 64, 7}, with_none[] = {4, 0, 9, 0};
static const int64_t counts[] = {2, 3, 7, 100};
static const char *const machines[] = {"host:1", "host:2", "host:3", "discrete:2"};
enum { COUNTS = 4, MACHINES = 4 };

static double tolerance(muster_dtype dtype) { return dtype == MUSTER_F64 ? 1e-11 : 1e-5; }

static void compare(const invariance_case *its, const invariance_way *way, const invariance_values *expected, const char *devices) {
    invariance_values values;
    invariance_run(devices_open(devices), its, way, &values);
    const double distance = invariance_distance(expected, &values);
    if (!(distance <= tolerance(way->dtype)))
        fail_msg("%s, %d micro-batches on %s, %s: differs from all rows at once by %g (\"%s\", \"%s\")", its->name, (int)way->micro_batches,
                 devices, muster_dtype_name(way->dtype), distance, expected->message, values.message);
    invariance_free(&values);
}

/* A sample, unless the full tests are asked for: every so many of all comparisons. No number of
 * micro-batches and no machine is left out, since the two are coprime with it. */
static int32_t stride(void) { return test_is_full() ? 1 : on_gpus() ? 37 : (int32_t)test_one_in(5, 11, 17); }

static void compare_all(const int64_t *rows, int32_t calls) {
    int32_t compared = 0, turn = 0;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t wide = 0; wide < 2; wide++) {
            invariance_way way = {.dtype = wide ? MUSTER_F64 : MUSTER_F32, .rows = rows, .calls = calls};
            invariance_values expected;
            invariance_run(devices_open("host:1"), &invariance_cases[c], &way, &expected);
            for (int32_t i = 0; i < COUNTS * MACHINES; i++) {
                way.micro_batches = counts[i % COUNTS];
                if (turn++ % stride()) continue;
                compare(&invariance_cases[c], &way, &expected, machines[i / COUNTS]);
                compared++;
            }
            invariance_free(&expected);
        }
    assert_int_equal(turn, 2 * invariance_case_count * COUNTS * MACHINES);
    assert_int_equal(compared, (turn + stride() - 1) / stride());
}

static void micro_batches_give_the_values_of_all_rows(void **state) {
    (void)state;
    compare_all(changing, on_gpus() ? 2 : 6);
}

static void no_rows_are_no_rows_in_micro_batches(void **state) {
    (void)state;
    compare_all(with_none, 4);
}

/* ---- other ways to give rows, to want outputs, to compile ---- */

static const invariance_way ways[] = {
    {.selection = MUSTER_SELECT_RANGE},
    {.selection = MUSTER_SELECT_LIST, .minibatch = true},
    {.asynchronous = true},
    {.unwanted = ~1u},
    {.unwanted = 1},
    {.unwanted = ~0u},
    {.unshared = true},
    {.unfused = true},
    {.unsimplified = true},
    {.checked = true},
    {.timed = true},
    {.expected_rows = 1},
    {.expected_rows = 1000000},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void every_way_of_calling_gives_the_values_of_all_rows(void **state) {
    const int32_t step = test_is_full() ? 1 : on_gpus() ? 97 : (int32_t)test_one_in(7, 19, 43);
    int32_t compared = 0, turn = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t w = 0; w < WAYS; w++)
            for (int32_t m = 0; m < 2; m++) {
                if (turn++ % step) continue;
                invariance_way way = ways[w];
                invariance_values expected;
                way.dtype = w % 2 ? MUSTER_F64 : MUSTER_F32;
                way.rows = changing;
                way.calls = on_gpus() ? 2 : 4;
                invariance_run(devices_open("host:1"), &invariance_cases[c], &way, &expected);
                way.micro_batches = 3;
                compare(&invariance_cases[c], &way, &expected, machines[m]);
                invariance_free(&expected);
                compared++;
            }
    assert_int_equal(turn, invariance_case_count * WAYS * 2);
    assert_int_equal(compared, (turn + step - 1) / step);
}

/* ---- partial values of other dtypes ---- */

static muster_function *compiled(muster_runtime *runtime, const char *name, muster_dtype dtype, const char *const *texts, int32_t count,
                                 int64_t micro_batches) {
    muster_graph *g;
    muster_function *function;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, name, &g));
    (void)muster_graph_input(g, "x", dtype, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int32_t i = 0; i < count; i++) assert_ok(muster_graph_output(g, texts[i], muster_expr_parse(g, texts[i]), MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    assert_ok(muster_graph_compile(g, &options, &function));
    assert_ok(muster_graph_destroy(g));
    return function;
}

/* 3000 ones in micro-batches of 3, which f16 cannot count beyond 2048 one micro-batch at a time. */
static void sums_of_small_dtypes_are_rounded_once(void **state) {
    enum { N = 3000 };
    static const char *const texts[] = {"sum(x)"};
    static uint16_t ones[N];
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES - 1; m++, checked++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        muster_function *f = compiled(runtime, "small", MUSTER_F16, texts, 1, N / 3 / (m + 1));
        uint16_t sum = 0;
        for (int32_t i = 0; i < N; i++) ones[i] = 0x3c00;
        const int64_t shape[] = {N};
        const muster_tensor in = muster_tensor_make(MUSTER_F16, ones, 1, shape), out = muster_tensor_make(MUSTER_F16, &sum, 0, NULL);
        assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
        assert_int_equal(sum, 0x69dc); /* 3000 */
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 3);
}

static void partial_values_of_integers_and_truth_are_combined(void **state) {
    enum { N = 11 };
    static const char *const of_integers[] = {"sum(x)", "prod(x)", "max(x)", "min(x)"};
    static const char *const of_truth[] = {"max(x)", "min(x)", "prod(x, dtype=bool)"};
    (void)state;
    for (int32_t m = 0; m < MACHINES - 1; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        muster_function *f = compiled(runtime, "integers", MUSTER_I32, of_integers, 4, 4);
        muster_function *t = compiled(runtime, "truth", MUSTER_BOOL, of_truth, 3, 4);
        for (int32_t odd = 0; odd < N; odd++) {
            int32_t x[N], largest = INT32_MIN, least = INT32_MAX, got[2];
            int64_t sum = 0, product = 1, totals[2];
            bool one[N] = {false}, all_but_one[N], truth[3];
            for (int32_t i = 0; i < N; i++) {
                x[i] = i == odd ? -7 : 1 + (i * 5) % 3;
                sum += x[i];
                product *= x[i];
                largest = x[i] > largest ? x[i] : largest;
                least = x[i] < least ? x[i] : least;
                all_but_one[i] = i != odd;
            }
            one[odd] = true;
            const int64_t shape[] = {N};
            muster_tensor in = muster_tensor_make(MUSTER_I32, x, 1, shape), out[4];
            for (int32_t i = 0; i < 2; i++) out[i] = muster_tensor_make(MUSTER_I64, &totals[i], 0, NULL);
            for (int32_t i = 0; i < 2; i++) out[2 + i] = muster_tensor_make(MUSTER_I32, &got[i], 0, NULL);
            assert_ok(muster_function_call(f, &in, 1, out, 4, NULL));
            assert_true(totals[0] == sum && totals[1] == product && got[0] == largest && got[1] == least);
            for (int32_t i = 0; i < 3; i++) out[i] = muster_tensor_make(MUSTER_BOOL, &truth[i], 0, NULL);
            in = muster_tensor_make(MUSTER_BOOL, one, 1, shape);
            assert_ok(muster_function_call(t, &in, 1, out, 3, NULL));
            assert_true(truth[0] && !truth[1] && !truth[2]);
            in = muster_tensor_make(MUSTER_BOOL, all_but_one, 1, shape);
            assert_ok(muster_function_call(t, &in, 1, out, 3, NULL));
            assert_true(truth[0] && !truth[1] && !truth[2]);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

/* ---- what is in the loop, and what is not ---- */

/* A partial value that does not come from the rows, but from a split parameter, is added once. */
static void values_build(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its) {
    (void)count, (void)its;
    assert_ok(muster_graph_split(x[1], 1));
    assert_ok(muster_graph_output(graph, "both", muster_expr_parse(graph, "sum(x) + sum(u * u)"), MUSTER_AUTO));
}

/* z, of all rows, is made before the loop, and is needed in it after t, which leaves it. */
static void loop_build(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its) {
    (void)x, (void)count, (void)its;
    muster_expr *z = muster_expr_parse(graph, "cumsum(x, 0)"), *t = muster_expr_parse(graph, "tanh(z)", "z", z);
    assert_ok(muster_graph_output(graph, "behind", muster_expr_parse(graph, "sum(cumsum(t, 0), 0)", "t", t), MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "sum", muster_expr_parse(graph, "sum(t)", "t", t), MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "products", muster_expr_parse(graph, "sum(z * 3, 0)", "z", z), MUSTER_AUTO));
}

static void values_of_all_rows_and_of_none_are_counted_once(void **state) {
    const invariance_case cases[] = {
        {.name = "a split parameter beside rows",
         .inputs = {{.name = "x", SHAPE_OF(ROWS, 12)}},
         .variables = {{.name = "u", SHAPE_OF(3, 64)}},
         .build = values_build,
         .seed = 5},
        {.name = "a value before the loop", .inputs = {{.name = "x", SHAPE_OF(ROWS, 4)}}, .build = loop_build, .seed = 6},
        {.name = "one shape before the loop and behind it",
         .inputs = {{.name = "x", SHAPE_OF(ROWS, 4)}},
         .variables = {{.name = "w", SHAPE_OF(4, 3)}},
         .outputs = {{"inside", "sum(tanh(x @ (w * 2)))"}, {"behind", "tanh(w * 2)"}},
         .seed = 7},
        {.name = "operations on partial values",
         .inputs = {{.name = "x", SHAPE_OF(ROWS, 4)}},
         .outputs = {{"y", "sum(x, 0) * 2 + sum(x * x, 0) * 3"}},
         .seed = 8},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < CASES; c++)
        for (int32_t m = 0; m < MACHINES; m++)
            for (int32_t unfused = 0; unfused < 2; unfused++, compared++) {
                invariance_way way = {.dtype = MUSTER_F64, .rows = changing, .calls = 3, .unfused = unfused};
                invariance_values expected;
                invariance_run(devices_open("host:1"), &cases[c], &way, &expected);
                way.micro_batches = 3;
                compare(&cases[c], &way, &expected, machines[m]);
                invariance_free(&expected);
            }
    assert_int_equal(compared, CASES * MACHINES * 2);
}

/* ---- what is refused ---- */

static muster_status compile_with(muster_runtime *runtime, muster_graph_meaning meaning, int64_t micro_batches,
                                  muster_function **function) {
    muster_graph *g;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "refused", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(g, "y", muster_expr_parse(g, "x * 2"), MUSTER_GATHER));
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    options.meaning = meaning;
    const muster_status status = muster_graph_compile(g, &options, function);
    assert_ok(muster_graph_destroy(g));
    return status;
}

static muster_status run_inside(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_worker_run(worker, user, in, 1, out, 1);
}

static void what_cannot_be_is_refused(void **state) {
    muster_function *f, *outer;
    muster_runtime *runtime = graph_runtime("host:1"), *shards = devices_open_shards("host:2", 4);
    double x[3] = {1, 2, 3}, y[3];
    const muster_tensor in = muster_f64(x, 3), out = muster_f64(y, 3);
    (void)state;
    assert_refused(compile_with(runtime, MUSTER_ONE_DEVICE, -1, &f), MUSTER_INVALID_ARGUMENT,
                   "micro_batches: expected 0 or more, received -1");
    assert_refused(compile_with(runtime, MUSTER_ONE_DEVICE, (1 << 20) + 1, &f), MUSTER_OUT_OF_RANGE,
                   "micro_batches: expected at most 1048576, received 1048577");
    assert_refused(compile_with(runtime, MUSTER_PER_WORKER, 2, &f), MUSTER_UNSUPPORTED, "expected 0 or 1 with MUSTER_PER_WORKER");
    assert_refused(compile_with(shards, MUSTER_ONE_DEVICE, 2, &f), MUSTER_UNSUPPORTED, "expected 0 or 1 on a runtime with logical shards");
    assert_ok(compile_with(shards, MUSTER_ONE_DEVICE, 1, &f));
    assert_ok(muster_function_destroy(f));
    assert_ok(compile_with(runtime, MUSTER_PER_WORKER, 1, &f));
    assert_ok(muster_function_destroy(f));
    assert_ok(compile_with(runtime, MUSTER_ONE_DEVICE, 1 << 20, &f));
    assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
    assert_true(y[0] == 2 && y[1] == 4 && y[2] == 6);
    assert_ok(muster_function_create(runtime, "outer", run_inside, f, &outer));
    assert_ok(muster_function_input(outer, "x", MUSTER_F64, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(outer, "y", MUSTER_F64, 1, MUSTER_GATHER));
    assert_refused(muster_function_call(outer, &in, 1, &out, 1, NULL), MUSTER_UNSUPPORTED, "expected a graph without micro-batches");
    assert_ok(muster_function_create(runtime, "declares", run_inside, f, &outer));
    assert_refused(muster_function_graph(outer, f), MUSTER_UNSUPPORTED,
                   "muster_function_graph: function 'refused': expected a graph without micro-batches");
    assert_ok(muster_runtime_close(runtime));
}

/* Of a graph without rows nothing is in a loop, and nothing of the loop is left behind. */
static void graphs_without_rows_leave_no_memory(void **state) {
    double a[] = {1, 2}, y[2];
    const muster_tensor in = muster_f64(a, 2), out = muster_f64(y, 2);
    int64_t live[2];
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    for (int32_t run = 0; run < 3; run++) {
        muster_graph *graph;
        muster_function *function;
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.micro_batches = 2;
        if (run) live[run - 1] = mst_memory_live();
        assert_ok(muster_graph_create(runtime, "none", &graph));
        (void)muster_graph_input(graph, "a", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "a * a"), MUSTER_AUTO));
        assert_ok(muster_graph_compile(graph, &options, &function));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_true(y[0] == 1 && y[1] == 4);
        assert_ok(muster_function_destroy(function));
    }
    assert_int_equal(live[0], live[1]);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_calling_gives_the_values_of_all_rows),
        cmocka_unit_test(sums_of_small_dtypes_are_rounded_once),
        cmocka_unit_test(partial_values_of_integers_and_truth_are_combined),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(values_of_all_rows_and_of_none_are_counted_once),
        cmocka_unit_test(micro_batches_give_the_values_of_all_rows),
        cmocka_unit_test(no_rows_are_no_rows_in_micro_batches),
        cmocka_unit_test(graphs_without_rows_leave_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
