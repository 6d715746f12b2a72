/* Compiled graphs that run inside the bodies of other functions: the bits of calls, loops, several
 * functions, random numbers, operators that run graphs. Oracles are calls of the same functions,
 * and loops over small integers, which are exact. */
#include "device_discrete.h"
#include "graph_inside.h"

#include <stdio.h>
#include <string.h>

static float x[ROWS][K], w[K][M], b[M];

/* ---- the bits of a call ---- */

static muster_function *outer_layer(muster_runtime *runtime, muster_function *inner) {
    muster_function *outer = inside_outer(runtime, inside_run_whole, inner);
    assert_ok(muster_function_input(outer, "step", MUSTER_I64, 0, MUSTER_BROADCAST));
    assert_ok(muster_function_output(outer, "y", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(outer, "loss", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_output(outer, "gradient", MUSTER_F32, 2, MUSTER_SUM));
    assert_ok(muster_function_output(outer, "dropped", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_graph(outer, inner));
    return outer;
}

typedef struct results {
    float y[ROWS][M], loss, gradient[K][M], dropped[ROWS][K];
} results;

/* wanted: a mask of outputs; the others are "no tensor". */
static void call_layer(muster_function *function, int64_t rows, int64_t step, uint32_t wanted, results *r) {
    memset(r, 0, sizeof *r);
    const muster_tensor in[] = {muster_f32(x, rows, K), muster_i64(&step)};
    muster_tensor out[] = {muster_f32(r->y, rows, M), muster_f32(&r->loss), muster_f32(r->gradient, K, M), muster_f32(r->dropped, rows, K)};
    for (int32_t o = 0; o < INSIDE_OUTPUTS; o++)
        if (!(wanted >> o & 1)) out[o] = muster_tensor_none();
    assert_ok(muster_function_call(function, in, 2, out, INSIDE_OUTPUTS, NULL));
}

/* Calls and runs take turns, so that each finds what the other has left. */
static int32_t compare_layers(muster_runtime *runtime, muster_graph_options options) {
    static const int64_t counts[] = {1, 7, ROWS};
    int32_t compared = 0;
    muster_variable *weights = inside_variable(runtime, "w", muster_f32(w, K, M)), *bias = inside_variable(runtime, "b", muster_f32(b, M));
    muster_function *inner = inside_layer(runtime, weights, bias, options), *outer = outer_layer(runtime, inner);
    for (int32_t c = 0; c < 3; c++)
        for (uint32_t wanted = 1; wanted < 1u << INSIDE_OUTPUTS; wanted += 2, compared++) {
            results called, run;
            call_layer(inner, counts[c], 10 + c, wanted, &called);
            call_layer(outer, counts[c], 10 + c, wanted, &run);
            assert_memory_equal(&called, &run, sizeof run);
            assert_true(called.y[0][0] != 0);
        }
    return compared;
}

static void a_run_gives_the_bits_of_a_call(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++)
        for (int32_t variant = 0; variant < 4; variant++) {
            muster_runtime *runtime = graph_runtime(inside_machines[m]);
            muster_graph_options options = inside_per_worker();
            options.check_memory = variant == 1;
            options.step_times = variant == 2;
            options.unfused = options.unshared_memory = variant == 3;
            compared += compare_layers(runtime, options);
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, MACHINES * 4 * 3 * 8);
}

/* With 6 logical shards the body runs for each, on any number of devices. */
static void a_run_in_each_logical_shard_gives_the_same_bits(void **state) {
    static const char *const few[] = {"host:1", "host:2", "host:3"};
    results first, other;
    (void)state;
    for (int32_t m = 0; m < 3; m++) {
        muster_runtime_options options;
        muster_runtime *runtime;
        muster_runtime_options_init(&options);
        options.devices = few[m];
        options.logical_shards = 6;
        assert_ok(muster_runtime_open(&options, &runtime));
        muster_variable *weights = inside_variable(runtime, "w", muster_f32(w, K, M)),
                        *bias = inside_variable(runtime, "b", muster_f32(b, M));
        muster_function *outer = outer_layer(runtime, inside_layer(runtime, weights, bias, inside_per_worker()));
        call_layer(outer, 26, 4, 15, m ? &other : &first);
        if (m) assert_memory_equal(&first, &other, sizeof first);
        assert_ok(muster_runtime_close(runtime));
    }
}

/* ---- loops, strided tensors, several functions ---- */

typedef struct chain {
    muster_function *square, *sum;
    int64_t batch;
} chain;

/* Three columns of a batch, squared, and the sum over them added to each. */
static muster_status chain_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const chain *c = user;
    const int64_t rows = muster_tensor_rows(in[0]);
    muster_tensor squares;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){c->batch, 3}, &squares));
    for (int64_t begin = 0; begin < rows; begin += c->batch) {
        const int64_t end = begin + c->batch < rows ? begin + c->batch : rows;
        muster_tensor some = muster_tensor_slice(squares, 0, end - begin);
        const muster_tensor columns = muster_tensor_slice_axis(muster_tensor_slice(in[0], begin, end), 1, 1, 4);
        MUSTER_TRY(muster_worker_run(worker, c->square, &columns, 1, &some, 1));
        muster_tensor both[] = {muster_tensor_slice(out[0], begin, end), muster_tensor_none()};
        MUSTER_TRY(muster_worker_run(worker, c->sum, &some, 1, both, 2));
    }
    return MUSTER_OK;
}

static void a_loop_runs_several_functions_on_batches(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(inside_machines[m]);
        chain c = {0};
        muster_graph *graph = inside_graph(runtime, "square");
        (void)inside_rows(graph, 3);
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * x"), MUSTER_GATHER));
        c.square = inside_compile(graph);
        graph = inside_graph(runtime, "sum");
        (void)inside_rows(graph, 3);
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x + sum(x, axis=1, keepdims=True)"), MUSTER_GATHER));
        assert_ok(muster_graph_output(graph, "unwanted", muster_expr_parse(graph, "sum(x)"), MUSTER_SUM));
        c.sum = inside_compile(graph);
        muster_function *outer = inside_outer(runtime, chain_body, &c);
        assert_ok(muster_function_output(outer, "y", MUSTER_F32, 2, MUSTER_GATHER));
        for (c.batch = 1; c.batch <= 9; c.batch += 4) {
            float y[ROWS][3];
            const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(y, ROWS, 3);
            assert_ok(muster_function_call(outer, &in, 1, &out, 1, NULL));
            for (int32_t i = 0; i < ROWS; i++)
                for (int32_t k = 0; k < 3; k++, checked++)
                    assert_true(y[i][k] == x[i][k + 1] * x[i][k + 1] + x[i][1] * x[i][1] + x[i][2] * x[i][2] + x[i][3] * x[i][3]);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, MACHINES * 3 * ROWS * 3);
}

/* ---- random numbers ---- */

static muster_status drawing_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t half = muster_tensor_rows(in[0]) / 2;
    muster_tensor step;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_I64, 0, NULL, &step));
    for (int32_t round = 0; round < 3; round++) {
        MUSTER_TRY(muster_fill(worker, round == 1 ? 1 : 0, step));
        muster_tensor some = muster_tensor_slice(out[round], 0, half);
        const muster_tensor given[] = {muster_tensor_slice(in[0], 0, half), step};
        MUSTER_TRY(muster_worker_run(worker, user, given, 2, &some, 1));
        MUSTER_TRY(muster_copy(worker, some, muster_tensor_slice(out[round], half, 2 * half)));
    }
    return MUSTER_OK;
}

/* Batches in a loop: the same step draws the same, another step and another worker do not. */
static void a_run_draws_numbers_of_its_step_and_worker(void **state) {
    (void)state;
    for (int32_t m = 1; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(inside_machines[m]);
        const int64_t devices = muster_runtime_size(runtime), rows = 4 * devices;
        float drawn[3][4 * MOST_DEVICES][K], *const first = &drawn[0][0][0];
        muster_graph *graph = inside_graph(runtime, "draw");
        (void)inside_rows(graph, K);
        muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
        muster_expr *numbers = apply(
            graph, "random_uniform", &step, 1,
            ATTRIBUTES({.name = "shape", LIST(MUSTER_ROWS, K)}, {.name = "seed", .integer = 5}, {.name = "dtype", .integer = MUSTER_F32}));
        assert_ok(muster_graph_output(graph, "numbers", muster_expr_parse(graph, "numbers + 0 * x", "numbers", numbers), MUSTER_GATHER));
        muster_function *outer = inside_outer(runtime, drawing_body, inside_compile(graph));
        muster_tensor out[3];
        for (int32_t o = 0; o < 3; o++) {
            assert_ok(muster_function_output(outer, (const char *[]){"a", "b", "c"}[o], MUSTER_F32, 2, MUSTER_GATHER));
            out[o] = muster_f32(drawn[o], rows, K);
        }
        const muster_tensor in = muster_f32(x, rows, K);
        assert_ok(muster_function_call(outer, &in, 1, out, 3, NULL));
        for (int64_t r = 0; r < devices; r++) {
            assert_memory_equal(drawn[0][4 * r], drawn[2][4 * r], sizeof drawn[0][0] * 4);
            assert_memory_not_equal(drawn[0][4 * r], drawn[1][4 * r], sizeof drawn[0][0] * 2);
            if (r) assert_memory_not_equal(first, drawn[0][4 * r], sizeof drawn[0][0] * 2);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

/* ---- operators that run graphs ---- */

typedef struct nested {
    muster_function *inner;
    muster_status status;
    char message[512];
} nested;

static muster_status nesting_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    nested *n = user;
    (void)node;
    n->status = muster_worker_run(worker, n->inner, in, 1, out, 1);
    if (n->status != MUSTER_OK) (void)muster_last_error_copy(n->message, sizeof n->message);
    return n->status;
}

static void an_operator_runs_another_graph_but_not_its_own(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    nested n = {0};
    float y[ROWS][K];
    inside_operator(runtime, "nesting", nesting_body, &n);
    muster_graph *graph = inside_graph(runtime, "inner");
    (void)inside_rows(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "(x @ x.T) @ x"), MUSTER_GATHER));
    muster_function *inner = n.inner = inside_compile(graph);
    graph = inside_graph(runtime, "outside");
    (void)inside_rows(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "nesting(x + 1) * 2 - (nesting(x + 1) + x)"), MUSTER_GATHER));
    muster_function *outside = inside_compile(graph), *outer = inside_outer(runtime, inside_run_one, &outside);
    assert_ok(muster_function_output(outer, "y", MUSTER_F32, 2, MUSTER_GATHER));
    const muster_tensor in = muster_f32(x, 3, K), out = muster_f32(y, 3, K);
    for (int32_t by_call = 0; by_call < 2; by_call++) {
        n.inner = inner;
        assert_ok(muster_function_call(by_call ? outside : outer, &in, 1, &out, 1, NULL));
        for (int32_t i = 0; i < 3; i++)
            for (int32_t k = 0; k < K; k++) {
                float expected = 0;
                for (int32_t j = 0; j < 3; j++) {
                    float product = 0;
                    for (int32_t l = 0; l < K; l++) product += (x[i][l] + 1) * (x[j][l] + 1);
                    expected += product * (x[j][k] + 1);
                }
                assert_true(y[i][k] == expected - x[i][k]);
            }
        n.inner = outside;
        assert_int_equal(muster_function_call(by_call ? outside : outer, &in, 1, &out, 1, NULL), MUSTER_BAD_STATE);
        assert_non_null(strstr(n.message, "muster_worker_run: function 'outside': expected one that this worker does not run"));
    }
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_gives_the_bits_of_a_call), cmocka_unit_test(a_run_in_each_logical_shard_gives_the_same_bits),
        cmocka_unit_test(a_loop_runs_several_functions_on_batches), cmocka_unit_test(a_run_draws_numbers_of_its_step_and_worker),
        cmocka_unit_test(an_operator_runs_another_graph_but_not_its_own)};
    if (mst_discrete_register() != MUSTER_OK) return 1;
    inside_fill(x, w, b);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
