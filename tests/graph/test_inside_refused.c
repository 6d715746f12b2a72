/* Compiled graphs inside the bodies of other functions: how long they live, and what is refused. */
#include "device_discrete.h"
#include "graph_inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static float x[ROWS][K], w[K][M], b[M];

/* ---- lifetime ---- */

typedef struct ending {
    muster_function *inner;
    pthread_t thread;
    atomic_bool ended;
} ending;

static void *end_it(void *user) {
    ending *e = user;
    const muster_status status = muster_function_destroy(e->inner);
    atomic_store(&e->ended, true);
    return status == MUSTER_OK ? NULL : e;
}

static muster_status ending_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    ending *e = user;
    if (muster_function_destroy(e->inner) != MUSTER_BAD_STATE) return MUSTER_INTERNAL;
    if (pthread_create(&e->thread, NULL, end_it, e)) return MUSTER_SYSTEM;
    for (int32_t i = 0; i < 20; i++) {
        MUSTER_TRY(muster_worker_run(worker, e->inner, in, 1, out, 1));
        usleep(1000);
    }
    return atomic_load(&e->ended) ? MUSTER_INTERNAL : MUSTER_OK;
}

static void a_function_that_a_body_runs_lives_as_long_as_the_body(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    void *failed;
    float y[ROWS][K];
    muster_graph *graph = inside_graph(runtime, "inner");
    (void)inside_rows(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * 3"), MUSTER_GATHER));
    ending e = {.inner = inside_compile(graph)};
    muster_function *outer = inside_outer(runtime, ending_body, &e);
    assert_ok(muster_function_output(outer, "y", MUSTER_F32, 2, MUSTER_GATHER));
    const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(y, ROWS, K);
    assert_ok(muster_function_call(outer, &in, 1, &out, 1, NULL));
    assert_int_equal(pthread_join(e.thread, &failed), 0);
    assert_null(failed);
    assert_true(atomic_load(&e.ended) && y[ROWS - 1][0] == 3 * x[ROWS - 1][0]);
    assert_ok(muster_function_destroy(outer));
    outer = inside_outer(runtime, inside_run_one, &e.inner);
    assert_refused(muster_function_call(outer, &in, 1, NULL, 0, NULL), MUSTER_BAD_STATE, "received one that has been destroyed");
    assert_ok(muster_runtime_close(runtime));
}

/* ---- what is refused ---- */

typedef struct refusals {
    muster_function *layer, *plain, *foreign, *placed, *update;
    muster_variable *weights;
    int32_t count;
    muster_worker *kept;
} refusals;

#define REFUSED(code, text, function, in, in_count, out, out_count)                                    \
    do {                                                                                               \
        assert_refused(muster_worker_run(worker, function, in, in_count, out, out_count), code, text); \
        r->count++;                                                                                    \
    } while (0)
#define WITH_INPUT(tensor) ((const muster_tensor[]){tensor, step})

static muster_status wrong_inputs(muster_worker *worker, const muster_tensor *in, refusals *r) {
    const muster_tensor rows = in[0], step = in[1], none = muster_tensor_none();
    muster_tensor integers, scalar, out[] = {none, none, none, none};
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_I64, 2, rows.shape, &integers));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 0, NULL, &scalar));
    REFUSED(MUSTER_INVALID_ARGUMENT, "muster_worker_run: function: expected a function, received NULL", NULL, in, 2, out, 4);
    REFUSED(MUSTER_UNSUPPORTED, "function: expected one of muster_graph_compile, received 'plain', which is another", r->plain, in, 2, out,
            4);
    REFUSED(MUSTER_INVALID_ARGUMENT, "function: expected one of the worker's runtime, received 'foreign' of another", r->foreign, in, 2,
            out, 4);
    REFUSED(MUSTER_INVALID_ARGUMENT, "input_count: expected the 2 of function 'layer', received 1", r->layer, in, 1, out, 4);
    REFUSED(MUSTER_INVALID_ARGUMENT, "inputs: expected the 2 of function 'layer', received NULL", r->layer, NULL, 2, out, 4);
    REFUSED(MUSTER_INVALID_ARGUMENT, "output_count: expected the 4 of function 'layer', received 5", r->layer, in, 2, out, 5);
    REFUSED(MUSTER_INVALID_ARGUMENT, "outputs: expected the 4 of function 'layer', received NULL", r->layer, in, 2, NULL, 4);
    REFUSED(MUSTER_INVALID_ARGUMENT, "input 'x' of function 'layer'", r->layer, WITH_INPUT(none), 2, out, 4);
    REFUSED(MUSTER_DTYPE_MISMATCH, "input 'x' of function 'layer': expected f32, received i64", r->layer, WITH_INPUT(integers), 2, out, 4);
    REFUSED(MUSTER_SHAPE_MISMATCH, "input 'x' of function 'layer': expected 2 dimensions, received 0", r->layer, WITH_INPUT(scalar), 2, out,
            4);
    REFUSED(MUSTER_SHAPE_MISMATCH, "muster_worker_run: function 'layer': input \"x\": expected", r->layer,
            WITH_INPUT(muster_tensor_slice_axis(rows, 1, 0, K - 1)), 2, out, 4);
    muster_tensor elsewhere = rows;
    elsewhere.device = 3;
    REFUSED(MUSTER_INVALID_ARGUMENT, "input 'x' of function 'layer': expected", r->layer, WITH_INPUT(elsewhere), 2, out, 4);
    return MUSTER_OK;
}

static muster_status wrong_outputs(muster_worker *worker, const muster_tensor *in, refusals *r) {
    const int64_t rows = muster_tensor_rows(in[0]);
    const muster_tensor none = muster_tensor_none();
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){rows, M}, &y));
    muster_tensor weights;
    MUSTER_TRY(muster_worker_variable(worker, r->weights, &weights));
    muster_tensor wide;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 2, (int64_t[]){rows, M}, &wide));
    muster_tensor out[] = {wide, none, none, none};
    REFUSED(MUSTER_DTYPE_MISMATCH, "output 'y' of function 'layer': expected f32, received f64", r->layer, in, 2, out, 4);
    out[0] = muster_tensor_slice(y, 0, rows - 1);
    REFUSED(MUSTER_SHAPE_MISMATCH, "output \"y\": expected shape", r->layer, in, 2, out, 4);
    out[0] = muster_tensor_broadcast(muster_tensor_slice(y, 0, 1), 2, (int64_t[]){rows, M});
    REFUSED(MUSTER_INVALID_ARGUMENT, "output 'y' of function 'layer': expected an address of its own for every element", r->layer, in, 2,
            out, 4);
    out[0] = none;
    out[3] = in[0];
    REFUSED(MUSTER_INVALID_ARGUMENT, "output 'dropped' of function 'layer' overlaps input 'x' in memory", r->layer, in, 2, out, 4);
    out[3] = none;
    out[2] = weights;
    REFUSED(MUSTER_INVALID_ARGUMENT, "output 'gradient' of function 'layer' overlaps variable 'w' in memory", r->layer, in, 2, out, 4);
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){K, M}, &out[2]));
    out[1] = muster_tensor_slice(out[2], 0, 1);
    out[1].ndim = 0;
    REFUSED(MUSTER_INVALID_ARGUMENT, "output 'gradient' of function 'layer' overlaps output 'loss' in memory", r->layer, in, 2, out, 4);
    out[1] = none;
    REFUSED(MUSTER_INVALID_ARGUMENT,
            "variable \"w\": expected one that function 'outer', whose body runs 'update', has declared with MUSTER_USE_READ_WRITE, "
            "received MUSTER_USE_READ",
            r->update, in, 1, NULL, 0);
    REFUSED(MUSTER_INVALID_ARGUMENT,
            "variable \"other\": expected one that function 'outer', whose body runs 'placed', has declared with "
            "muster_function_variable, received none",
            r->placed, in, 1, out, 1);
    return MUSTER_OK;
}

static muster_status refusing_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    refusals *r = user;
    (void)out;
    r->kept = worker;
    MUSTER_TRY(wrong_inputs(worker, in, r));
    return wrong_outputs(worker, in, r);
}

static muster_function *small_graph(muster_runtime *runtime, const char *name, muster_variable *variable, bool updates) {
    muster_graph *graph = inside_graph(runtime, name);
    (void)inside_rows(graph, K);
    muster_expr *value = variable ? muster_graph_parameter(graph, variable) : muster_expr_parse(graph, "sum(x)");
    if (updates)
        assert_ok(muster_graph_update(graph, variable, muster_expr_parse(graph, "v * 2", "v", value), MUSTER_AUTO));
    else
        assert_ok(muster_graph_output(graph, "y", value, MUSTER_AUTO));
    return inside_compile(graph);
}

static void wrong_runs_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1"), *elsewhere = graph_runtime("host:1");
    refusals r = {.weights = inside_variable(runtime, "w", muster_f32(w, K, M))};
    muster_variable *bias = inside_variable(runtime, "b", muster_f32(b, M)), *other = inside_variable(runtime, "other", muster_f32(b, M));
    int64_t step = 1;
    r.layer = inside_layer(runtime, r.weights, bias, inside_per_worker());
    r.foreign = small_graph(elsewhere, "foreign", NULL, false);
    r.placed = small_graph(runtime, "placed", other, false);
    r.update = small_graph(runtime, "update", r.weights, true);
    assert_ok(muster_function_create(runtime, "plain", inside_run_whole, NULL, &r.plain));
    muster_function *outer = inside_outer(runtime, refusing_body, &r);
    assert_ok(muster_function_input(outer, "step", MUSTER_I64, 0, MUSTER_BROADCAST));
    assert_ok(muster_function_graph(outer, r.layer));
    assert_refused(muster_function_graph(outer, r.plain), MUSTER_INVALID_ARGUMENT,
                   "muster_function_graph: function: expected one of muster_graph_compile, received 'plain'");
    assert_refused(muster_function_graph(NULL, r.layer), MUSTER_INVALID_ARGUMENT, "muster_function_graph: function: expected a function");
    const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_i64(&step)};
    assert_ok(muster_function_call(outer, in, 2, NULL, 0, NULL));
    assert_int_equal(r.count, 12 + 8);
    assert_refused(muster_worker_run(NULL, r.layer, in, 2, NULL, 0), MUSTER_INVALID_ARGUMENT, "muster_worker_run: worker");
    assert_refused(muster_worker_run(r.kept, r.layer, in, 2, NULL, 0), MUSTER_BAD_STATE, "muster_worker_run: worker");
    assert_refused(muster_function_graph(outer, r.update), MUSTER_BAD_STATE, "function 'outer' has been called");
    assert_ok(muster_runtime_close(runtime));
    assert_ok(muster_runtime_close(elsewhere));
}

/* Workers would wait for each other. */
static void graphs_in_which_workers_meet_are_refused(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++, checked++) {
        muster_runtime *runtime = graph_runtime(inside_machines[m]);
        const muster_tensor in = muster_f32(x, ROWS, K);
        muster_graph *graph = inside_graph(runtime, "placed");
        (void)inside_rows(graph, K);
        assert_ok(muster_graph_output(graph, "y", muster_expr_place(muster_expr_parse(graph, "sum(x)"), NULL), MUSTER_AUTO));
        muster_function *placed = inside_compile(graph), *outer = inside_outer(runtime, inside_run_one, &placed);
        assert_refused(muster_function_call(outer, &in, 1, NULL, 0, NULL), MUSTER_UNSUPPORTED,
                       "muster_worker_run: function 'placed': expected a graph without muster_expr_place");
        muster_function *declaring;
        assert_ok(muster_function_create(runtime, "declaring", inside_run_one, &placed, &declaring));
        assert_refused(muster_function_graph(declaring, placed), MUSTER_UNSUPPORTED,
                       "muster_function_graph: function 'placed': expected a graph without muster_expr_place");
        if (muster_runtime_size(runtime) > 1) {
            muster_graph_options options = inside_per_worker();
            options.meaning = MUSTER_ONE_DEVICE;
            graph = inside_graph(runtime, "shared");
            (void)inside_rows(graph, K);
            assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO));
            placed = inside_compile_with(graph, options);
            assert_refused(muster_function_call(outer, &in, 1, NULL, 0, NULL), MUSTER_UNSUPPORTED,
                           "muster_worker_run: function 'shared': expected a graph with MUSTER_PER_WORKER");
            assert_refused(muster_function_graph(declaring, placed), MUSTER_UNSUPPORTED,
                           "muster_function_graph: function 'shared': expected a graph with MUSTER_PER_WORKER");
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, MACHINES);
}

/* With one device both meanings are the same. */
static void a_graph_of_one_device_runs_on_one_device(void **state) {
    float y = 0;
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    muster_graph_options options = inside_per_worker();
    options.meaning = MUSTER_ONE_DEVICE;
    muster_graph *graph = inside_graph(runtime, "whole");
    (void)inside_rows(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO));
    muster_function *whole = inside_compile_with(graph, options), *outer = inside_outer(runtime, inside_run_one, &whole);
    assert_ok(muster_function_output(outer, "y", MUSTER_F32, 0, MUSTER_SUM));
    const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(&y);
    muster_call_options call;
    muster_call_options_init(&call);
    call.slices = 4; /* those of the body: each run has the rows of its own */
    assert_ok(muster_function_call(outer, &in, 1, &out, 1, &call));
    float expected = 0;
    for (int32_t i = 0; i < ROWS * K; i++) expected += (&x[0][0])[i];
    assert_true(y == expected);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_function_that_a_body_runs_lives_as_long_as_the_body),
                                       cmocka_unit_test(wrong_runs_are_refused), cmocka_unit_test(graphs_in_which_workers_meet_are_refused),
                                       cmocka_unit_test(a_graph_of_one_device_runs_on_one_device)};
    if (mst_discrete_register() != MUSTER_OK) return 1;
    inside_fill(x, w, b);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
