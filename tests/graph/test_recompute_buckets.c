/* Eager updates under a memory limit: workers with more rows than others compute values again, and
 * all begin the exchanges of gradients in the same order. */
#include "base_machine.h"
#include "graph_fixture.h"

#include <string.h>

enum { SIDE = 64, ROWS = 41, WIDE = 512, PARAMETERS = 3, STEPS = 4 };

/* tanh(x p) is made before the products, and needed behind them and by the gradients of v and w. A
 * worker with little memory makes it behind the products only. The gradient of p is there before
 * that of w, so p would be updated before w if nothing but the steps of this worker counted. */
typedef struct trained {
    float losses[STEPS], values[PARAMETERS][2 * SIDE * SIDE];
    int64_t blocks[2], unlimited[2]; /* bytes of both workers */
} trained;

static muster_function *training_make(muster_runtime *runtime, int64_t limit, muster_variable **variables) {
    static const char *const names[PARAMETERS] = {"p", "v", "w"};
    static float start[2 * SIDE * SIDE];
    muster_graph *g;
    muster_function *function;
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    muster_rule_options how;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "eager", &g));
    for (int32_t i = 0; i < PARAMETERS; i++) {
        graph_fill(MUSTER_F32, start, 2 * SIDE * SIDE, 50 * i);
        for (int32_t e = 0; e < 2 * SIDE * SIDE; e++) start[e] /= 16;
        assert_ok(
            muster_variable_create(runtime, names[i], i ? muster_f32(start, SIDE, 2 * SIDE) : muster_f32(start, SIDE), &variables[i]));
        p[i] = muster_graph_parameter(g, variables[i]);
    }
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, SIDE), MUSTER_SCATTER);
    (void)muster_graph_input(g, "y", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, SIDE), MUSTER_SCATTER);
    (void)muster_graph_input(g, "a", MUSTER_F32, MUSTER_SHAPE(SIDE, WIDE), MUSTER_BROADCAST);
    (void)muster_graph_input(g, "b", MUSTER_F32, MUSTER_SHAPE(WIDE, 2 * SIDE), MUSTER_BROADCAST);
    muster_expr *products = muster_expr_parse(g, "x @ v + y @ w + x @ a @ b");
    muster_expr *loss = muster_expr_parse(
        g, "mean(expand_dims(tanh(x * stop_gradient(p)), 1) * reshape(products, [-1, 2, 64])) + mean(y * p)", "products", products);
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    muster_rule_options_init(&how);
    assert_ok(muster_graph_minimise(g, p, d, PARAMETERS, MUSTER_ADAM, &how));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.eager_updates = 1;
    options.bucket_bytes = 1;
    options.memory_limit = limit;
    if (muster_graph_compile(g, &options, &function) != MUSTER_OK) fail_msg("%s", muster_last_error());
    assert_ok(muster_graph_destroy(g));
    return function;
}

static void train(int64_t limit, trained *r) {
    static float x[ROWS * SIDE], y[ROWS * SIDE], a[SIDE * WIDE], b[WIDE * 2 * SIDE];
    muster_runtime *runtime = graph_runtime(on_gpus() ? "cuda:2" : "host:2");
    muster_variable *variables[PARAMETERS];
    muster_function *function = training_make(runtime, limit, variables);
    memset(r, 0, sizeof *r);
    for (int32_t s = 0; s < STEPS; s++) {
        graph_fill(MUSTER_F32, x, ROWS * SIDE, s);
        graph_fill(MUSTER_F32, y, ROWS * SIDE, STEPS + s);
        const muster_tensor in[] = {muster_f32(x, ROWS, SIDE), muster_f32(y, ROWS, SIDE), muster_f32(a, SIDE, WIDE),
                                    muster_f32(b, WIDE, 2 * SIDE)},
                            out = muster_f32(&r->losses[s]);
        if (muster_function_call(function, in, 4, &out, 1, NULL) != MUSTER_OK) fail_msg("%s", muster_last_error());
    }
    for (int32_t d = 0; d < 2; d++) {
        muster_graph_memory memory;
        muster_graph_memory_init(&memory);
        assert_ok(muster_graph_function_memory(function, d, &memory));
        r->blocks[d] = memory.block_bytes;
        r->unlimited[d] = memory.unlimited_bytes;
    }
    for (int32_t i = 0; i < PARAMETERS; i++)
        assert_ok(muster_variable_get(variables[i], 1, i ? muster_f32(r->values[i], SIDE, 2 * SIDE) : muster_f32(r->values[i], SIDE)));
    assert_ok(muster_runtime_close(runtime));
}

/* The limit is what the worker with fewer rows needs. */
static void workers_of_which_one_computes_again_begin_buckets_alike(void **state) {
    static trained expected, got;
    (void)state;
    train(0, &expected);
    const int32_t less = expected.blocks[1] < expected.blocks[0], more = !less;
    assert_true(expected.blocks[less] < expected.blocks[more]);
    train(expected.blocks[less], &got);
    assert_int_equal(got.blocks[less], expected.blocks[less]);
    assert_true(got.blocks[more] < expected.blocks[more] && got.unlimited[more] == expected.blocks[more]);
    assert_memory_equal(expected.losses, got.losses, sizeof got.losses);
    assert_memory_equal(expected.values, got.values, sizeof got.values);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(workers_of_which_one_computes_again_begin_buckets_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
