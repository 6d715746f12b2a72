/* Updates of compiled graphs that run inside the bodies of other functions: they are made by every
 * run, all or not at all. Oracles are calls, and loops over small integers, which are exact. */
#include "device_discrete.h"
#include "graph_inside.h"
#include "memory_impl.h"
#include "muster/rule.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static float x[ROWS][K], w[K][M], b[M];

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
        muster_runtime *runtime = graph_runtime(inside_machines[m]);
        const int32_t devices = muster_runtime_size(runtime);
        float zero[K] = {0}, one = 1, two = 2;
        int64_t none = 0;
        muster_variable *total = inside_variable(runtime, "total", muster_f32(zero, K)),
                        *count = inside_variable(runtime, "count", muster_i64(&none));
        muster_variable *u = inside_variable(runtime, "u", muster_f32(&one)), *v = inside_variable(runtime, "v", muster_f32(&two));
        muster_graph *graph = inside_graph(runtime, "step");
        (void)inside_rows(graph, K);
        muster_expr *from_u = muster_graph_parameter(graph, u), *from_v = muster_graph_parameter(graph, v);
        (void)muster_graph_parameter(graph, total);
        (void)muster_graph_parameter(graph, count);
        assert_ok(muster_graph_update(graph, u, from_v, MUSTER_AUTO));
        assert_ok(muster_graph_update(graph, v, from_u, MUSTER_AUTO));
        assert_ok(muster_graph_update(graph, total, muster_expr_parse(graph, "total + sum(x, axis=0)"), MUSTER_SUM));
        assert_ok(muster_graph_update(graph, count, muster_expr_parse(graph, "count + 1"), MUSTER_MAX));
        stepper s = {.step = inside_compile(graph), .batch = 3};
        muster_function *outer = inside_outer(runtime, steps_body, &s);
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
    muster_variable *v = inside_variable(runtime, "v", muster_f32(zeros, K));
    muster_graph *graph = inside_graph(runtime, "step");
    (void)inside_rows(graph, K);
    muster_expr *parameter = muster_graph_parameter(graph, v), *gradient;
    assert_ok(muster_gradient(muster_expr_parse(graph, "mean((x - v) ** 2)"), &parameter, 1, &gradient));
    assert_ok(muster_graph_minimise(graph, &parameter, &gradient, 1, MUSTER_ADAM, NULL));
    stepper s = {.step = inside_compile(graph), .batch = 8};
    muster_function *outer = inside_outer(runtime, steps_body, &s);
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
    inside_operator(runtime, "sometimes", sometimes_body, NULL);
    muster_graph *graph = inside_graph(runtime, "step");
    (void)inside_rows(graph, K);
    for (int32_t v = 0; v < 3; v++) {
        variables[v] = inside_variable(runtime, names[v], muster_f32(one, K));
        (void)muster_graph_parameter(graph, variables[v]);
    }
    assert_ok(muster_graph_update(graph, variables[0], muster_expr_parse(graph, "first + max(x, axis=0) * 0 + 1"), MUSTER_AUTO));
    muster_expr *late = apply(graph, "sometimes", (muster_expr *[]){muster_expr_parse(graph, "second + first")}, 1, NULL);
    assert_ok(muster_graph_update(graph, variables[1], late, MUSTER_AUTO));
    assert_ok(muster_graph_update(graph, variables[2], muster_expr_parse(graph, "late * 2", "late", late), MUSTER_AUTO));
    return inside_compile(graph);
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
        muster_runtime *runtime = graph_runtime(inside_machines[m]);
        muster_variable *variables[3];
        stepper s = {.step = failing_step(runtime, variables)};
        muster_function *outer = inside_outer(runtime, failing_body, &s);
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
    muster_function *outer = inside_outer(runtime, short_of_memory_body, &job);
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
    muster_function *outer = inside_outer(runtime, counted_body, &job);
    assert_ok(muster_function_graph(outer, job.step));
    const muster_tensor in = muster_f32(x, ROWS, K);
    atomic_store(&failing, false);
    for (int32_t call = 0; call < 2; call++) {
        assert_ok(muster_function_call(outer, &in, 1, NULL, 0, NULL));
        assert_int_equal(job.allocations, 0);
    }
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_made_by_every_run), cmocka_unit_test(a_rule_trains_inside_as_by_calls),
                                       cmocka_unit_test(a_run_that_fails_changes_no_variable),
                                       cmocka_unit_test(a_run_without_memory_changes_no_variable),
                                       cmocka_unit_test(a_repeated_run_allocates_nothing)};
    if (mst_discrete_register() != MUSTER_OK) return 1;
    inside_fill(x, w, b);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
