/* Compiled graphs that run inside the bodies of other functions: the bits of calls, loops, several
 * functions, updates that are made all or not at all, what is refused. Oracles are calls of the
 * same functions, and loops over small integers, which are exact. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "memory_impl.h"
#include "muster/operator.h"
#include "muster/rule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 64, K = 5, M = 4, MACHINES = 5, MOST_DEVICES = 3 };
static const char *const machines[MACHINES] = {"host:1", "host:2", "host:3", "discrete:2", "host:1,discrete:1"};
static float x[ROWS][K], w[K][M], b[M];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5);
    for (int32_t k = 0; k < K * M; k++) (&w[0][0])[k] = (float)((5 * k) % 9 - 4) / 8;
    for (int32_t m = 0; m < M; m++) b[m] = (float)(m - 1) / 4;
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_function *compile_with(muster_graph *graph, muster_graph_options options) {
    muster_function *function;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static muster_graph_options per_worker(void) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    return options;
}

static muster_function *compile(muster_graph *graph) { return compile_with(graph, per_worker()); }

static muster_expr *rows_of(muster_graph *graph, int64_t columns) {
    return muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, columns), MUSTER_SCATTER);
}

static muster_function *outer_of(muster_runtime *runtime, muster_body body, void *user) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "outer", body, user, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    return function;
}

static muster_variable *variable_of(muster_runtime *runtime, const char *name, muster_tensor value) {
    muster_variable *variable;
    assert_ok(muster_variable_create(runtime, name, value, &variable));
    return variable;
}

/* ---- the bits of a call ---- */

enum { OUTPUTS = 4 };

/* A layer, its loss, a gradient, and dropout. */
static muster_function *layer(muster_runtime *runtime, muster_variable *weights, muster_variable *bias, muster_graph_options options) {
    muster_graph *graph = graph_named(runtime, "layer");
    muster_expr *in = rows_of(graph, K), *gradient;
    muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *from = muster_graph_parameter(graph, weights);
    (void)muster_graph_parameter(graph, bias);
    muster_expr *y = muster_expr_name(muster_expr_parse(graph, "tanh(x @ w + b)"), "y");
    muster_expr *loss = muster_expr_parse(graph, "sum(y * y) / 3", "y", y);
    muster_expr *dropped =
        apply(graph, "dropout", (muster_expr *[]){in, step}, 2, ATTRIBUTES({.name = "p", .number = 0.4}, {.name = "seed", .integer = 9}));
    assert_ok(muster_gradient(loss, &from, 1, &gradient));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_SUM));
    assert_ok(muster_graph_output(graph, "gradient", gradient, MUSTER_SUM));
    assert_ok(muster_graph_output(graph, "dropped", dropped, MUSTER_GATHER));
    return compile_with(graph, options);
}

static muster_status run_whole(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_worker_run(worker, user, in, 2, out, OUTPUTS);
}

static muster_function *outer_layer(muster_runtime *runtime, muster_function *inner) {
    muster_function *outer = outer_of(runtime, run_whole, inner);
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
    for (int32_t o = 0; o < OUTPUTS; o++)
        if (!(wanted >> o & 1)) out[o] = muster_tensor_none();
    assert_ok(muster_function_call(function, in, 2, out, OUTPUTS, NULL));
}

/* Calls and runs take turns, so that each finds what the other has left. */
static int32_t compare_layers(muster_runtime *runtime, muster_graph_options options) {
    static const int64_t counts[] = {1, 7, ROWS};
    int32_t compared = 0;
    muster_variable *weights = variable_of(runtime, "w", muster_f32(w, K, M)), *bias = variable_of(runtime, "b", muster_f32(b, M));
    muster_function *inner = layer(runtime, weights, bias, options), *outer = outer_layer(runtime, inner);
    for (int32_t c = 0; c < 3; c++)
        for (uint32_t wanted = 1; wanted < 1u << OUTPUTS; wanted += 2, compared++) {
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
            muster_runtime *runtime = graph_runtime(machines[m]);
            muster_graph_options options = per_worker();
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
        muster_variable *weights = variable_of(runtime, "w", muster_f32(w, K, M)), *bias = variable_of(runtime, "b", muster_f32(b, M));
        muster_function *outer = outer_layer(runtime, layer(runtime, weights, bias, per_worker()));
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
    muster_tensor squares = muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){c->batch, 3});
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
        muster_runtime *runtime = graph_runtime(machines[m]);
        chain c = {0};
        muster_graph *graph = graph_named(runtime, "square");
        (void)rows_of(graph, 3);
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * x"), MUSTER_GATHER));
        c.square = compile(graph);
        graph = graph_named(runtime, "sum");
        (void)rows_of(graph, 3);
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x + sum(x, axis=1, keepdims=True)"), MUSTER_GATHER));
        assert_ok(muster_graph_output(graph, "unwanted", muster_expr_parse(graph, "sum(x)"), MUSTER_SUM));
        c.sum = compile(graph);
        muster_function *outer = outer_of(runtime, chain_body, &c);
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

/* ---- updates ---- */

typedef struct stepper {
    muster_function *step;
    int64_t batch;
    /* of a run that fails on each worker */
    muster_status status[MOST_DEVICES];
    char message[MOST_DEVICES][512];
} stepper;

static muster_status steps_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const stepper *s = user;
    (void)out;
    for (int64_t begin = 0; begin < muster_tensor_rows(in[0]); begin += s->batch) {
        const int64_t end = begin + s->batch < muster_tensor_rows(in[0]) ? begin + s->batch : muster_tensor_rows(in[0]);
        const muster_tensor some = muster_tensor_slice(in[0], begin, end);
        MUSTER_TRY(muster_worker_run(worker, s->step, &some, 1, NULL, 0));
    }
    return MUSTER_OK;
}

/* u and v change places, and `total` grows by the sum of the rows, which `count` counts. Each
 * worker has its own. */
static void updates_are_made_by_every_run(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        const int32_t devices = muster_runtime_size(runtime);
        float zero[K] = {0}, one = 1, two = 2;
        int64_t none = 0;
        muster_variable *total = variable_of(runtime, "total", muster_f32(zero, K)),
                        *count = variable_of(runtime, "count", muster_i64(&none));
        muster_variable *u = variable_of(runtime, "u", muster_f32(&one)), *v = variable_of(runtime, "v", muster_f32(&two));
        muster_graph *graph = graph_named(runtime, "step");
        (void)rows_of(graph, K);
        muster_expr *from_u = muster_graph_parameter(graph, u), *from_v = muster_graph_parameter(graph, v);
        (void)muster_graph_parameter(graph, total);
        (void)muster_graph_parameter(graph, count);
        assert_ok(muster_graph_update(graph, u, from_v, MUSTER_AUTO));
        assert_ok(muster_graph_update(graph, v, from_u, MUSTER_AUTO));
        assert_ok(muster_graph_update(graph, total, muster_expr_parse(graph, "total + sum(x, axis=0)"), MUSTER_SUM));
        assert_ok(muster_graph_update(graph, count, muster_expr_parse(graph, "count + 1"), MUSTER_MAX));
        stepper s = {.step = compile(graph), .batch = 3};
        muster_function *outer = outer_of(runtime, steps_body, &s);
        assert_ok(muster_function_graph(outer, s.step));
        const muster_tensor in = muster_f32(x, ROWS, K);
        assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
        for (int32_t r = 0; r < devices; r++, checked++) {
            const int64_t begin = (int64_t)ROWS * r / devices, end = (int64_t)ROWS * (r + 1) / devices, runs = (end - begin + 2) / 3;
            float sums[K], expected[K] = {0}, got;
            int64_t counted;
            for (int64_t i = begin; i < end; i++)
                for (int32_t k = 0; k < K; k++) expected[k] += x[i][k];
            assert_ok(muster_variable_get(total, r, muster_f32(sums, K)));
            assert_memory_equal(sums, expected, sizeof sums);
            assert_ok(muster_variable_get(count, r, muster_i64(&counted)));
            assert_int_equal(counted, runs);
            assert_ok(muster_variable_get(u, r, muster_f32(&got)));
            assert_true(got == (runs % 2 ? 2 : 1));
            assert_ok(muster_variable_get(v, r, muster_f32(&got)));
            assert_true(got == (runs % 2 ? 1 : 2));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 1 + 2 + 3 + 2 + 2);
}

/* By Adam, whose states the body's function declares with the parameters. */
static void train_by_rule(bool inside, float trained[K]) {
    float zeros[K] = {0};
    muster_runtime *runtime = graph_runtime("host:1");
    muster_variable *v = variable_of(runtime, "v", muster_f32(zeros, K));
    muster_graph *graph = graph_named(runtime, "step");
    (void)rows_of(graph, K);
    muster_expr *parameter = muster_graph_parameter(graph, v), *gradient;
    assert_ok(muster_gradient(muster_expr_parse(graph, "mean((x - v) ** 2)"), &parameter, 1, &gradient));
    assert_ok(muster_graph_minimise(graph, &parameter, &gradient, 1, MUSTER_ADAM, NULL));
    stepper s = {.step = compile(graph), .batch = 8};
    muster_function *outer = outer_of(runtime, steps_body, &s);
    assert_ok(muster_function_graph(outer, s.step));
    const muster_tensor in = muster_f32(x, ROWS, K);
    if (inside) assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
    for (int64_t begin = 0; !inside && begin < ROWS; begin += s.batch) {
        const muster_tensor some = muster_tensor_slice(in, begin, begin + s.batch);
        assert_ok(muster_function_call(s.step, &some, 1, NULL, 0, NULL));
    }
    assert_ok(muster_variable_get(v, 0, muster_f32(trained, K)));
    assert_ok(muster_runtime_close(runtime));
}

static void a_rule_trains_inside_as_by_calls(void **state) {
    float called[K], run[K];
    (void)state;
    train_by_rule(false, called);
    train_by_rule(true, run);
    assert_memory_equal(called, run, sizeof run);
    assert_true(called[0] != 0);
}

static atomic_bool failing;

static muster_status sometimes_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                    void *user) {
    (void)node;
    (void)user;
    if (atomic_load(&failing)) return muster_fail(MUSTER_USER, "the disk is full");
    return muster_copy(worker, in[0], out[0]);
}

static void make_operator(muster_runtime *runtime, const char *name, muster_operator_body body, void *user) {
    static const char *const operands[] = {"x", NULL};
    const muster_operator_backend bodies[] = {{NULL, body}};
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = bodies;
    options.body_count = 1;
    options.user = user;
    assert_ok(muster_operator_create(runtime, name, &options, &made));
}

/* Runs well, fails, and runs well again; what it took of the scratch memory is given back. */
static muster_status failing_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    stepper *s = user;
    const int32_t rank = muster_worker_rank(worker);
    const int64_t mark = muster_worker_scratch_mark(worker);
    (void)out;
    s->status[rank] = muster_worker_run(worker, s->step, in, 1, NULL, 0);
    if (s->status[rank] != MUSTER_OK) (void)muster_last_error_copy(s->message[rank], sizeof s->message[rank]);
    return muster_worker_scratch_mark(worker) == mark ? MUSTER_OK : MUSTER_INTERNAL;
}

/* The operator fails after the new value of `first` is computed, and before or behind others. */
static muster_function *failing_step(muster_runtime *runtime, muster_variable **variables) {
    static const char *const names[] = {"first", "second", "third"};
    float one[K] = {1, 1, 1, 1, 1};
    make_operator(runtime, "sometimes", sometimes_body, NULL);
    muster_graph *graph = graph_named(runtime, "step");
    (void)rows_of(graph, K);
    for (int32_t v = 0; v < 3; v++) {
        variables[v] = variable_of(runtime, names[v], muster_f32(one, K));
        (void)muster_graph_parameter(graph, variables[v]);
    }
    assert_ok(muster_graph_update(graph, variables[0], muster_expr_parse(graph, "first + max(x, axis=0) * 0 + 1"), MUSTER_AUTO));
    muster_expr *late = apply(graph, "sometimes", (muster_expr *[]){muster_expr_parse(graph, "second + first")}, 1, NULL);
    assert_ok(muster_graph_update(graph, variables[1], late, MUSTER_AUTO));
    assert_ok(muster_graph_update(graph, variables[2], muster_expr_parse(graph, "late * 2", "late", late), MUSTER_AUTO));
    return compile(graph);
}

static int32_t check_values(muster_runtime *runtime, muster_variable **variables, const float *expected) {
    int32_t checked = 0;
    for (int32_t r = 0; r < muster_runtime_size(runtime); r++)
        for (int32_t v = 0; v < 3; v++, checked++) {
            float got[K];
            assert_ok(muster_variable_get(variables[v], r, muster_f32(got, K)));
            for (int32_t k = 0; k < K; k++) assert_true(got[k] == expected[v]);
        }
    return checked;
}

static void a_run_that_fails_changes_no_variable(void **state) {
    static const float values[3][3] = {{2, 2, 4}, {2, 2, 4}, {3, 4, 8}};
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        muster_variable *variables[3];
        stepper s = {.step = failing_step(runtime, variables)};
        muster_function *outer = outer_of(runtime, failing_body, &s);
        assert_ok(muster_function_graph(outer, s.step));
        const muster_tensor in = muster_f32(x, ROWS, K);
        for (int32_t round = 0; round < 3; round++) {
            atomic_store(&failing, round == 1);
            assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
            checked += check_values(runtime, variables, values[round]);
            for (int32_t r = 0; r < muster_runtime_size(runtime); r++) assert_int_equal(s.status[r], round == 1 ? MUSTER_USER : MUSTER_OK);
        }
        for (int32_t r = 0; r < muster_runtime_size(runtime); r++, checked++) {
            assert_non_null(strstr(s.message[r], "muster_worker_run: function 'step': "));
            assert_non_null(strstr(s.message[r], "the disk is full"));
            assert_non_null(strstr(s.message[r], "(in sometimes, test.c:1)"));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, (1 + 2 + 3 + 2 + 2) * (3 * 3 + 1));
}

/* ---- memory ---- */

typedef struct memory_job {
    muster_function *step;
    int64_t failed; /* runs without memory */
    int64_t allocations;
} memory_job;

static muster_status short_of_memory_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    memory_job *job = user;
    (void)out;
    for (int64_t k = 1; k < 1000; k++) {
        mst_memory_fail_at(k);
        const muster_status status = muster_worker_run(worker, job->step, in, 1, NULL, 0);
        mst_memory_fail_at(0);
        if (status != MUSTER_OUT_OF_MEMORY) return status;
        job->failed++;
    }
    return MUSTER_INTERNAL;
}

static void a_run_without_memory_changes_no_variable(void **state) {
    static const float once[] = {2, 2, 4};
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    muster_variable *variables[3];
    memory_job job = {.step = failing_step(runtime, variables)};
    muster_function *outer = outer_of(runtime, short_of_memory_body, &job);
    assert_ok(muster_function_graph(outer, job.step));
    const muster_tensor in = muster_f32(x, ROWS, K);
    atomic_store(&failing, false);
    assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
    assert_true(job.failed >= 3);
    assert_int_equal(check_values(runtime, variables, once), 3);
    assert_ok(muster_runtime_close(runtime));
}

static muster_status counted_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    memory_job *job = user;
    int64_t before = 0;
    const int64_t mark = muster_worker_scratch_mark(worker);
    (void)out;
    for (int32_t round = 0; round < 12; round++) {
        const muster_tensor fewer = muster_tensor_slice(in[0], 0, ROWS - 1 - round % 2);
        if (round == 2) before = mst_memory_count();
        MUSTER_TRY(muster_worker_run(worker, job->step, in, 1, NULL, 0));
        MUSTER_TRY(muster_worker_run(worker, job->step, &fewer, 1, NULL, 0));
    }
    job->allocations = mst_memory_count() - before;
    return muster_worker_scratch_mark(worker) == mark ? MUSTER_OK : MUSTER_INTERNAL;
}

/* And it needs no more scratch memory in the end than in the beginning. */
static void a_repeated_run_allocates_nothing(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    muster_variable *variables[3];
    memory_job job = {.step = failing_step(runtime, variables)};
    muster_function *outer = outer_of(runtime, counted_body, &job);
    assert_ok(muster_function_graph(outer, job.step));
    const muster_tensor in = muster_f32(x, ROWS, K);
    atomic_store(&failing, false);
    for (int32_t call = 0; call < 2; call++) {
        assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
        assert_int_equal(job.allocations, 0);
    }
    assert_ok(muster_runtime_close(runtime));
}

/* ---- random numbers ---- */

static muster_status drawing_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t half = muster_tensor_rows(in[0]) / 2;
    muster_tensor step = muster_worker_scratch(worker, MUSTER_I64, 0, NULL);
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
        muster_runtime *runtime = graph_runtime(machines[m]);
        const int64_t devices = muster_runtime_size(runtime), rows = 4 * devices;
        float drawn[3][4 * MOST_DEVICES][K], *const first = &drawn[0][0][0];
        muster_graph *graph = graph_named(runtime, "draw");
        (void)rows_of(graph, K);
        muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
        muster_expr *numbers = apply(
            graph, "random_uniform", &step, 1,
            ATTRIBUTES({.name = "shape", LIST(MUSTER_ROWS, K)}, {.name = "seed", .integer = 5}, {.name = "dtype", .integer = MUSTER_F32}));
        assert_ok(muster_graph_output(graph, "numbers", muster_expr_parse(graph, "numbers + 0 * x", "numbers", numbers), MUSTER_GATHER));
        muster_function *outer = outer_of(runtime, drawing_body, compile(graph));
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

static muster_status run_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_worker_run(worker, *(muster_function **)user, in, 1, out, 1);
}

static void an_operator_runs_another_graph_but_not_its_own(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    nested n = {0};
    float y[ROWS][K];
    make_operator(runtime, "nesting", nesting_body, &n);
    muster_graph *graph = graph_named(runtime, "inner");
    (void)rows_of(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "(x @ x.T) @ x"), MUSTER_GATHER));
    muster_function *inner = n.inner = compile(graph);
    graph = graph_named(runtime, "outside");
    (void)rows_of(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "nesting(x + 1) * 2 - (nesting(x + 1) + x)"), MUSTER_GATHER));
    muster_function *outside = compile(graph), *outer = outer_of(runtime, run_one, &outside);
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
    muster_graph *graph = graph_named(runtime, "inner");
    (void)rows_of(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * 3"), MUSTER_GATHER));
    ending e = {.inner = compile(graph)};
    muster_function *outer = outer_of(runtime, ending_body, &e);
    assert_ok(muster_function_output(outer, "y", MUSTER_F32, 2, MUSTER_GATHER));
    const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(y, ROWS, K);
    assert_ok(muster_function_call(outer, &in, 1, &out, 1, NULL));
    assert_int_equal(pthread_join(e.thread, &failed), 0);
    assert_null(failed);
    assert_true(atomic_load(&e.ended) && y[ROWS - 1][0] == 3 * x[ROWS - 1][0]);
    assert_ok(muster_function_destroy(outer));
    outer = outer_of(runtime, run_one, &e.inner);
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
    muster_tensor out[] = {none, none, none, none};
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
    REFUSED(MUSTER_DTYPE_MISMATCH, "input 'x' of function 'layer': expected f32, received i64", r->layer,
            WITH_INPUT(muster_worker_scratch(worker, MUSTER_I64, 2, rows.shape)), 2, out, 4);
    REFUSED(MUSTER_SHAPE_MISMATCH, "input 'x' of function 'layer': expected 2 dimensions, received 0", r->layer,
            WITH_INPUT(muster_worker_scratch(worker, MUSTER_F32, 0, NULL)), 2, out, 4);
    REFUSED(MUSTER_SHAPE_MISMATCH, "muster_worker_run: function 'layer': input \"x\": expected", r->layer,
            WITH_INPUT(muster_tensor_slice_axis(rows, 1, 0, K - 1)), 2, out, 4);
    muster_tensor elsewhere = rows;
    elsewhere.device = 3;
    REFUSED(MUSTER_INVALID_ARGUMENT, "input 'x' of function 'layer': expected", r->layer, WITH_INPUT(elsewhere), 2, out, 4);
    return MUSTER_OK;
}

static muster_status wrong_outputs(muster_worker *worker, const muster_tensor *in, refusals *r) {
    const int64_t rows = muster_tensor_rows(in[0]);
    const muster_tensor none = muster_tensor_none(), y = muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){rows, M});
    const muster_tensor weights = muster_worker_variable(worker, r->weights);
    const muster_tensor wide = muster_worker_scratch(worker, MUSTER_F64, 2, (int64_t[]){rows, M});
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
    out[2] = muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){K, M});
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
    muster_graph *graph = graph_named(runtime, name);
    (void)rows_of(graph, K);
    muster_expr *value = variable ? muster_graph_parameter(graph, variable) : muster_expr_parse(graph, "sum(x)");
    if (updates)
        assert_ok(muster_graph_update(graph, variable, muster_expr_parse(graph, "v * 2", "v", value), MUSTER_AUTO));
    else
        assert_ok(muster_graph_output(graph, "y", value, MUSTER_AUTO));
    return compile(graph);
}

static void wrong_runs_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1"), *elsewhere = graph_runtime("host:1");
    refusals r = {.weights = variable_of(runtime, "w", muster_f32(w, K, M))};
    muster_variable *bias = variable_of(runtime, "b", muster_f32(b, M)), *other = variable_of(runtime, "other", muster_f32(b, M));
    int64_t step = 1;
    r.layer = layer(runtime, r.weights, bias, per_worker());
    r.foreign = small_graph(elsewhere, "foreign", NULL, false);
    r.placed = small_graph(runtime, "placed", other, false);
    r.update = small_graph(runtime, "update", r.weights, true);
    assert_ok(muster_function_create(runtime, "plain", run_whole, NULL, &r.plain));
    muster_function *outer = outer_of(runtime, refusing_body, &r);
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
        muster_runtime *runtime = graph_runtime(machines[m]);
        const muster_tensor in = muster_f32(x, ROWS, K);
        muster_graph *graph = graph_named(runtime, "placed");
        (void)rows_of(graph, K);
        assert_ok(muster_graph_output(graph, "y", muster_expr_place(muster_expr_parse(graph, "sum(x)"), NULL), MUSTER_AUTO));
        muster_function *placed = compile(graph), *outer = outer_of(runtime, run_one, &placed);
        assert_refused(muster_function_call(outer, &in, 1, NULL, 0, NULL), MUSTER_UNSUPPORTED,
                       "muster_worker_run: function 'placed': expected a graph without muster_expr_place");
        if (muster_runtime_size(runtime) > 1) {
            muster_graph_options options = per_worker();
            options.meaning = MUSTER_ONE_DEVICE;
            graph = graph_named(runtime, "shared");
            (void)rows_of(graph, K);
            assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO));
            placed = compile_with(graph, options);
            assert_refused(muster_function_call(outer, &in, 1, NULL, 0, NULL), MUSTER_UNSUPPORTED,
                           "muster_worker_run: function 'shared': expected a graph with MUSTER_PER_WORKER");
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
    muster_graph_options options = per_worker();
    options.meaning = MUSTER_ONE_DEVICE;
    muster_graph *graph = graph_named(runtime, "whole");
    (void)rows_of(graph, K);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x)"), MUSTER_AUTO));
    muster_function *whole = compile_with(graph, options), *outer = outer_of(runtime, run_one, &whole);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_gives_the_bits_of_a_call),
                                       cmocka_unit_test(a_run_in_each_logical_shard_gives_the_same_bits),
                                       cmocka_unit_test(a_loop_runs_several_functions_on_batches),
                                       cmocka_unit_test(updates_are_made_by_every_run),
                                       cmocka_unit_test(a_rule_trains_inside_as_by_calls),
                                       cmocka_unit_test(a_run_that_fails_changes_no_variable),
                                       cmocka_unit_test(a_run_without_memory_changes_no_variable),
                                       cmocka_unit_test(a_repeated_run_allocates_nothing),
                                       cmocka_unit_test(a_run_draws_numbers_of_its_step_and_worker),
                                       cmocka_unit_test(an_operator_runs_another_graph_but_not_its_own),
                                       cmocka_unit_test(a_function_that_a_body_runs_lives_as_long_as_the_body),
                                       cmocka_unit_test(wrong_runs_are_refused),
                                       cmocka_unit_test(graphs_in_which_workers_meet_are_refused),
                                       cmocka_unit_test(a_graph_of_one_device_runs_on_one_device)};
    if (mst_discrete_register() != MUSTER_OK) return 1;
    fill_numbers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
