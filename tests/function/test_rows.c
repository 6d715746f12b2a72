/* What a worker answers about rows, inside a call and outside. */
#include "function_fixture.h"
#include "muster/communicator.h"
#include "runtime_impl.h"

#include <math.h>
#include <string.h>

enum { RANKS = 2, SHARDS = 4, ROWS = 13 };

/* ---- outside a call ---- */

static muster_status refused_outside(muster_worker *w) {
    int64_t first_row, rows;
    muster_tensor tensor;
    if (muster_worker_shard_rows(w, 1, &first_row, &rows) != MUSTER_OUT_OF_RANGE) return muster_fail(MUSTER_USER, "a second shard");
    if (muster_worker_set_weight(w, 2) != MUSTER_BAD_STATE) return muster_fail(MUSTER_USER, "a weight was set");
    if (!strstr(muster_last_error(),
                "muster_worker_set_weight: worker: expected the worker of a running body, received one outside a call"))
        return muster_fail(MUSTER_USER, "another message");
    if (muster_worker_output_rows(w, 0, 1, &tensor) != MUSTER_BAD_STATE) return muster_fail(MUSTER_USER, "rows of an output");
    return MUSTER_OK;
}

/* A task of the pool that is no call. */
static muster_status outside_task(muster_worker *w, void *argument) {
    const int32_t size = *(const int32_t *)argument;
    int64_t first_row = -9, rows = -9;
    MUSTER_TRY(muster_worker_shard_rows(w, 0, &first_row, &rows));
    const double received[] = {muster_worker_first_row(w),
                               muster_worker_rows(w),
                               muster_worker_total_rows(w),
                               muster_worker_slice(w),
                               muster_worker_slices(w),
                               muster_worker_shard(w),
                               muster_worker_shards(w),
                               first_row,
                               rows,
                               muster_worker_shards_here(w),
                               muster_worker_weight(w)};
    const int32_t rank = muster_worker_rank(w);
    const double expected[] = {rank, 1, size, 0, 1, rank, size, 0, 1, 1, 1};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (received[i] != expected[i]) return mst_error(MUSTER_USER, "answer %zu: expected %g, received %g", i, expected[i], received[i]);
    return refused_outside(w);
}

static void ask_outside(muster_runtime *runtime) {
    assert_ok(mst_pool_enter(runtime->pool, "test_rows", 0));
    const muster_status together = mst_pool_run(runtime->pool, outside_task, &(int32_t){RANKS});
    if (together == MUSTER_OK) assert_ok(mst_pool_run_single(runtime->pool, outside_task, &(int32_t){1}));
    mst_pool_leave(runtime->pool);
    assert_ok(together);
}

typedef struct body_plan {
    double weight;
    bool fails, single;
    _Atomic int32_t bodies;
} body_plan;

/* The rows that the body gets differ from the answers outside a call. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    body_plan *plan = user;
    (void)in, (void)out;
    atomic_fetch_add(&plan->bodies, 1);
    if (muster_worker_total_rows(w) != ROWS || muster_worker_rows(w) < 2 || muster_worker_slices(w) != 2)
        return muster_fail(MUSTER_INTERNAL, "wrong rows");
    if (muster_worker_weight(w) != (double)muster_worker_rows(w)) return muster_fail(MUSTER_INTERNAL, "wrong weight");
    MUSTER_TRY(muster_worker_set_weight(w, plan->weight));
    if (muster_worker_weight(w) != plan->weight) return muster_fail(MUSTER_INTERNAL, "the weight is not kept");
    return plan->fails ? muster_fail(MUSTER_USER, "on purpose") : MUSTER_OK;
}

static muster_function *make(muster_runtime *runtime, body_plan *plan) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, plan, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    return f;
}

static muster_status call(muster_function *f, body_plan *plan) {
    float x[ROWS] = {0};
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = 2;
    const muster_tensor in = muster_f32(x, ROWS);
    return plan->single ? muster_function_call_single(f, &in, 1, NULL, 0, &options) : muster_function_call(f, &in, 1, NULL, 0, &options);
}

static void a_worker_outside_a_call_has_one_row(void **unused) {
    (void)unused;
    const body_plan plans[] = {{.weight = 3}, {.weight = 3, .single = true}, {.weight = 3, .fails = true}};
    for_each_backend(backend) for (int32_t p = 0; p < 3; p++) {
        body_plan plan = plans[p];
        muster_runtime *runtime = fixture_open(backend, RANKS);
        ask_outside(runtime);
        assert_int_equal(call(make(runtime, &plan), &plan), plan.fails ? MUSTER_USER : MUSTER_OK);
        assert_true(processes_sum(plan.bodies) > 0);
        ask_outside(runtime);
        fixture_close(runtime);
    }
}

/* ---- weights ---- */

static void weights_are_finite_and_not_negative(void **unused) {
    (void)unused;
    const double good[] = {0, 2.5}, bad[] = {-1, NAN, INFINITY, -INFINITY};
    for_each_backend(backend) {
        body_plan plan = {0};
        muster_runtime *runtime = fixture_open(backend, RANKS);
        muster_function *f = make(runtime, &plan);
        for (size_t i = 0; i < 2; i++) {
            plan.weight = good[i];
            assert_ok(call(f, &plan));
        }
        for (size_t i = 0; i < 4; i++) {
            plan.weight = bad[i];
            assert_refused(call(f, &plan), MUSTER_INVALID_ARGUMENT, "muster_worker_set_weight: weight: expected a finite number");
        }
        fixture_close(runtime);
    }
    assert_int_equal(muster_worker_set_weight(NULL, 1), MUSTER_INVALID_ARGUMENT);
}

/* ---- what a body leaves behind ---- */

enum step { LEAVE_GROUP_OPEN, FAIL_IN_GROUP, USE_GROUP, NO_GROUP };

static muster_status group_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const enum step step = *(enum step *)user;
    if (step == NO_GROUP) return MUSTER_OK;
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (step == FAIL_IN_GROUP) return muster_fail(MUSTER_USER, "on purpose");
    return step == USE_GROUP ? muster_worker_group_end(w, NULL) : MUSTER_OK;
}

static void a_group_that_one_call_left_open_is_not_open_in_the_next(void **unused) {
    (void)unused;
    const enum step steps[] = {LEAVE_GROUP_OPEN, NO_GROUP, USE_GROUP, FAIL_IN_GROUP, NO_GROUP, FAIL_IN_GROUP, USE_GROUP, LEAVE_GROUP_OPEN};
    for_each_backend(backend) {
        enum step step;
        muster_runtime *runtime = fixture_open(backend, RANKS);
        muster_function *f;
        assert_ok(muster_function_create(runtime, "f", group_body, &step, &f));
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            step = steps[i];
            const muster_status status = muster_function_call(f, NULL, 0, NULL, 0, NULL);
            if (step == LEAVE_GROUP_OPEN)
                assert_refused(status, MUSTER_BAD_STATE, "function 'f': the body returned with an open group");
            else if (step == FAIL_IN_GROUP)
                assert_refused(status, MUSTER_USER, "on purpose");
            else
                assert_ok(status);
        }
        fixture_close(runtime);
    }
}

/* ---- one shard at a time ---- */

static muster_status shard_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    return muster_worker_barrier(w, NULL);
}

/* In a body per shard collectives are refused, also in a call after one that ran per rank, and they
 * are served in the call after that. */
static void collectives_are_refused_in_the_runs_per_shard_only(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open_shards(backend, RANKS, SHARDS);
        muster_function *apart, *together;
        assert_ok(muster_function_create(runtime, "apart", shard_body, NULL, &apart));
        assert_ok(muster_function_create(runtime, "together", shard_body, NULL, &together));
        assert_ok(muster_function_set_shards_together(apart, 0));
        assert_ok(muster_function_set_shards_together(together, 1));
        for (int32_t i = 0; i < 3; i++) {
            assert_ok(muster_function_call(together, NULL, 0, NULL, 0, NULL));
            assert_refused(muster_function_call(apart, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE,
                           "muster_worker_barrier: the body runs once per logical shard");
        }
        assert_ok(muster_function_call(together, NULL, 0, NULL, 0, NULL));
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_outside_a_call_has_one_row),
        cmocka_unit_test(weights_are_finite_and_not_negative),
        cmocka_unit_test(a_group_that_one_call_left_open_is_not_open_in_the_next),
        cmocka_unit_test(collectives_are_refused_in_the_runs_per_shard_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
