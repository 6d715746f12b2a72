/* Expressions on one named device: which worker computes, what the others see, gradients, and what
 * is refused. Oracles are loops over the same numbers. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/operator.h"

#include <stdatomic.h>

enum { ROWS = 6, K = 3, DEVICES = 2 };
static float x[ROWS][K];
static const char *const machines[] = {"host:2", "discrete:2", "host:1,discrete:1"};
enum { MACHINES = sizeof machines / sizeof *machines };

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5);
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_function *compile(muster_graph *graph, int32_t check) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    options.check_memory = check;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static atomic_int ran[DEVICES];

static muster_status counted_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    (void)node;
    (void)user;
    atomic_fetch_add(&ran[muster_worker_rank(worker)], 1);
    return muster_copy(worker, in[0], out[0]);
}

static muster_operator *counted_operator(muster_runtime *runtime) {
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend body = {NULL, counted_body};
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = &body;
    options.body_count = 1;
    assert_ok(muster_operator_create(runtime, "counted", &options, &made));
    for (int32_t r = 0; r < DEVICES; r++) atomic_store(&ran[r], 0);
    return made;
}

/* Each row of the result is the sum of the rows of the device "left": it alone computes it, and all
 * see it. A view in another order of axes is sent as well. */
static void one_device_computes_what_all_see(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++)
        for (int32_t left = 0; left < DEVICES; left++) {
            muster_runtime *runtime = graph_runtime(machines[m]);
            (void)counted_operator(runtime);
            assert_ok(muster_runtime_name_device(runtime, "left", left));
            muster_graph *graph = graph_named(runtime, "place");
            (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
            muster_expr *sum = muster_expr_place(muster_expr_parse(graph, "counted(sum(x, axis=0))"), "left");
            muster_expr *square = muster_expr_place(muster_expr_parse(graph, "(x.T @ x)[:, 0:2].T"), "left");
            assert_string_equal(muster_expr_shape(sum), "(3,)");
            muster_expr *seen = muster_expr_parse(graph, "0 * x + s + 0 * t[1, :]", "s", sum, "t", square);
            assert_ok(muster_graph_output(graph, "seen", seen, MUSTER_GATHER));
            muster_function *function;
            assert_int_equal(muster_graph_compile(graph, NULL, &function), MUSTER_UNSUPPORTED); /* and leaves nothing behind */
            function = compile(graph, 0);
            float got[ROWS][K], expected[K] = {0};
            for (int32_t i = 0; i < ROWS / 2; i++)
                for (int32_t k = 0; k < K; k++) expected[k] += x[left * ROWS / 2 + i][k];
            const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(got, ROWS, K);
            for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            for (int32_t i = 0; i < ROWS; i++)
                for (int32_t k = 0; k < K; k++, compared++) assert_true(got[i][k] == expected[k]);
            assert_true(atomic_load(&ran[left]) == 2 && atomic_load(&ran[1 - left]) == 0);
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, MACHINES * DEVICES * ROWS * K);
}

/* v = p p on "left"; each worker's loss is sum(x @ v). The gradient with respect to p is 2 p times
 * the sum of all rows on the device, 0 on the other; checked calls give the same. */
static void gradients_are_summed_on_the_device(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++)
        for (int32_t check = 0; check < 2; check++) {
            muster_runtime *runtime = graph_runtime(machines[m]);
            muster_variable *p, *g;
            float start[K] = {1, -2, 3}, zeros[K] = {0};
            assert_ok(muster_variable_create(runtime, "p", muster_f32(start, K), &p));
            assert_ok(muster_variable_create(runtime, "g", muster_f32(zeros, K), &g));
            muster_graph *graph = graph_named(runtime, "gradient");
            (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
            muster_expr *w = muster_graph_parameter(graph, p), *d;
            muster_expr *v = muster_expr_place(APPLY(graph, "multiply", w, w), "1");
            assert_ok(muster_gradient(muster_expr_parse(graph, "sum(x @ v)", "v", v), &w, 1, &d));
            assert_ok(muster_graph_update(graph, g, d, MUSTER_MASTER));
            muster_function *function = compile(graph, check);
            for (int64_t rows = 1; rows <= ROWS; rows += 5) { /* of one row rank 0 has none */
                const muster_tensor in = muster_f32(x, rows, K);
                assert_ok(muster_function_call(function, &in, 1, NULL, 0, NULL));
                for (int32_t r = 0; r < DEVICES; r++) {
                    float got[K];
                    assert_ok(muster_variable_get(g, r, muster_f32(got, K)));
                    for (int32_t k = 0; k < K; k++, compared++) {
                        float sum = 0;
                        for (int64_t i = 0; i < rows; i++) sum += x[i][k];
                        assert_true(got[k] == (r == 1 ? 2 * start[k] * sum : 0));
                    }
                }
            }
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, MACHINES * 2 * 2 * DEVICES * K);
}

static void what_has_no_meaning_is_refused(void **state) {
    muster_runtime *runtime = graph_runtime("host:2");
    muster_function *function;
    (void)state;
    for (int32_t what = 0; what < 4; what++) {
        muster_graph *graph = graph_named(runtime, "refused");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER),
                    *sum = APPLY(graph, "sum", a);
        muster_expr *placed = muster_expr_place(what == 0 ? APPLY(graph, "exp", a) : sum, what == 1 ? "right" : "1");
        if (what == 0)
            assert_refused(
                muster_graph_status(graph), MUSTER_UNSUPPORTED,
                "test.c:1: muster_expr_place: x: expected a shape without rows, since each worker has a number of rows of its own, "
                "received (rows,) f32");
        if (what == 1) assert_refused(muster_graph_status(graph), MUSTER_INVALID_ARGUMENT, "muster_expr_place: device: ");
        if (what < 2) assert_int_equal(muster_expr_ndim(placed), -1);
        if (what >= 2) {
            assert_ok(muster_graph_output(graph, "y", placed, MUSTER_MAX));
            function = compile(graph, 0);
            float values[2] = {1, 2}, got = 0;
            const muster_tensor in = muster_f32(values, 2), out = muster_f32(&got);
            if (what == 2)
                assert_refused(muster_function_call_single(function, &in, 1, &out, 1, NULL), MUSTER_UNSUPPORTED,
                               "muster_expr_place: device: expected a call on all devices, since device 1");
            assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            assert_true(got == 2);
            assert_ok(muster_function_destroy(function));
        } else {
            assert_ok(muster_graph_destroy(graph));
        }
    }
    assert_ok(muster_runtime_close(runtime));
    for (int32_t shards = 0; shards < 2; shards++) { /* one device with all rows; logical shards */
        muster_runtime_options options;
        muster_graph_options compiled;
        muster_runtime_options_init(&options);
        options.devices = "host:1";
        options.logical_shards = shards ? 4 : -1;
        assert_ok(muster_runtime_open(&options, &runtime));
        muster_graph *graph = graph_named(runtime, "refused");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
        assert_ok(muster_graph_output(graph, "y", muster_expr_place(APPLY(graph, "sum", a), NULL), MUSTER_MAX));
        muster_graph_options_init(&compiled);
        compiled.meaning = shards ? MUSTER_PER_WORKER : MUSTER_ONE_DEVICE;
        assert_refused(
            muster_graph_compile(graph, &compiled, &function), MUSTER_UNSUPPORTED,
            shards ? "test.c:1: muster_expr_place: expected a runtime without logical shards"
                   : "test.c:1: muster_expr_place: expected MUSTER_PER_WORKER, since no operation has a device of its own otherwise");
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_runtime_close(runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_computes_what_all_see),
        cmocka_unit_test(gradients_are_summed_on_the_device),
        cmocka_unit_test(what_has_no_meaning_is_refused),
    };
    fill_numbers();
    if (mst_discrete_register() != MUSTER_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
