/* A body that fails, memory that runs out: an error each time, nothing lost, and the next call is
 * right. */
#include "base_plain.h"
#include "function_fixture.h"
#include "muster/communicator.h"

#include "base_machine.h"
#include "device_discrete.h"
#include "memory_impl.h"

#include <pthread.h>
#include <string.h>

typedef struct plan {
    int failing_rank; /* -1: none */
    bool silent;      /* fails without a message */
    bool barrier;     /* the others wait for it in a barrier */
    muster_variable *variable;
} plan;

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const plan *p = user;
    if (p->variable) MUSTER_TRY(muster_fill(w, 9, muster_worker_update(w, p->variable)));
    if (muster_worker_rank(w) == p->failing_rank)
        return p->silent ? MUSTER_USER : muster_fail(MUSTER_OUT_OF_RANGE, "the cat sat on the keys");
    if (p->barrier) MUSTER_TRY(muster_worker_barrier(w, NULL));
    return muster_sum(w, in[0], out[0]);
}

static muster_function *make(muster_runtime *runtime, plan *p) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, p, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    if (p->variable) assert_ok(muster_function_update(f, p->variable, MUSTER_SUM));
    return f;
}

static muster_status call(muster_function *f, float *y) {
    static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    return muster_function_call(f, (muster_tensor[]){muster_f32(x, 8)}, 1, (muster_tensor[]){muster_f32(y)}, 1, NULL);
}

static void check_next_call(muster_function *f, plan *p) {
    float y = 0;
    p->failing_rank = -1;
    assert_ok(call(f, &y));
    assert_float_equal(y, 36, 0);
}

static void the_failure_of_any_rank_reaches_the_caller_with_its_message(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        plan p = {.failing_rank = -1};
        muster_runtime *runtime = fixture_open(backend, 4);
        muster_function *f = make(runtime, &p);
        for (int barrier = 0; barrier < 2; barrier++) {
            for (int rank = 0; rank < 4; rank++) {
                char expected[64];
                float y;
                p.failing_rank = rank;
                p.barrier = barrier;
                snprintf(expected, sizeof expected, "function 'f': the cat sat on the keys (rank %d)", rank);
                assert_refused(call(f, &y), MUSTER_OUT_OF_RANGE, expected);
                check_next_call(f, &p);
            }
        }
        fixture_close(runtime);
    }
}

static void a_failure_without_a_message_is_told_so(void **unused) {
    (void)unused;
    plan p = {.failing_rank = 1, .silent = true};
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f = make(runtime, &p);
    float y;
    assert_refused(call(f, &y), MUSTER_USER, "the body returned USER (12) without a message");
    check_next_call(f, &p);
    fixture_close(runtime);
}

static void a_failed_call_applies_no_update_on_any_rank(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        plan p = {.failing_rank = 2};
        muster_runtime *runtime = fixture_open(backend, 3);
        float start = 5, got, y;
        assert_ok(muster_variable_create(runtime, "v", muster_f32(&start), &p.variable));
        muster_function *f = make(runtime, &p);
        assert_int_equal(call(f, &y), MUSTER_OUT_OF_RANGE);
        for (int rank = 0; rank < 3; rank++) {
            assert_ok(muster_variable_get(p.variable, rank, muster_f32(&got)));
            assert_float_equal(got, 5, 0);
        }
        check_next_call(f, &p);
        assert_ok(muster_variable_get(p.variable, 2, muster_f32(&got)));
        assert_float_equal(got, 9, 0);
        fixture_close(runtime);
    }
}

static muster_status scratch_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    const int64_t huge[] = {INT64_MAX / 2, 4};
    return muster_copy(w, muster_worker_scratch(w, MUSTER_F32, 2, huge), out[0]) ? MUSTER_OVERFLOW : muster_copy(w, in[0], out[0]);
}

static void scratch_that_overflows_fails_the_operation_that_gets_it(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    float x[2] = {1, 2}, y;
    assert_ok(muster_function_create(runtime, "f", scratch_body, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL),
                   MUSTER_OVERFLOW, "muster_worker_scratch");
    fixture_close(runtime);
}

static muster_status try_whole_life(const char *devices, float *y) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_function *f;
    muster_variable *v;
    plan p = {.failing_rank = -1};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, start = 1;
    muster_call_options slices;
    muster_runtime_options_init(&options);
    muster_call_options_init(&slices);
    slices.slices = 2;
    options.devices = devices;
    MUSTER_TRY(muster_runtime_open(&options, &runtime));
    muster_status status = muster_variable_create(runtime, "v", muster_f32(&start), &v);
    p.variable = status ? NULL : v;
    if (!status) status = muster_function_create(runtime, "f", body, &p, &f);
    if (!status) status = muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER);
    if (!status) status = muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM);
    if (!status) status = muster_function_update(f, v, MUSTER_SUM);
    if (!status) status = muster_function_call(f, (muster_tensor[]){muster_f32(x, 8)}, 1, (muster_tensor[]){muster_f32(y)}, 1, &slices);
    const muster_status closed = muster_runtime_close(runtime);
    return status ? status : closed;
}

static void every_allocation_may_fail(void **unused) {
    (void)unused;
    const char *const devices[] = {"host:3", "discrete:2"};
    assert_ok(mst_discrete_register());
    for (int d = 0; d < 2; d++) {
        float y = 0;
        assert_ok(try_whole_life(devices[d], &y)); /* what the process makes once is made */
        const int64_t live = mst_memory_live(), before = mst_memory_count();
        assert_ok(try_whole_life(devices[d], &y));
        const int64_t allocations = mst_memory_count() - before;
        assert_true(allocations > 10);
        for (int64_t k = 1; k <= allocations; k++) {
            y = 0;
            mst_memory_fail_at(k);
            const muster_status status = try_whole_life(devices[d], &y);
            mst_memory_fail_at(0);
            /* GPUs do without the disk's cache of code, and without NCCL's communicators. */
            if (status == MUSTER_OK && (!on_gpus() || y != 36))
                fail_msg("%s: allocation %lld of %lld failed and nobody noticed", devices[d], (long long)k, (long long)allocations);
            if (status != MUSTER_OK) assert_true(strlen(muster_last_error()) > 0);
            if (mst_memory_live() != live)
                fail_msg("%s: allocation %lld: %lld blocks leaked", devices[d], (long long)k, (long long)(mst_memory_live() - live));
            assert_int_equal(mst_discrete_live(), 0);
        }
        assert_ok(try_whole_life(devices[d], &y));
        assert_float_equal(y, 36, 0);
    }
}

static void a_repeated_call_allocates_nothing(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        plan p = {.failing_rank = -1, .barrier = true};
        muster_runtime *runtime = fixture_open(backend, 3);
        float y, start = 0;
        assert_ok(muster_variable_create(runtime, "v", muster_f32(&start), &p.variable));
        muster_function *f = make(runtime, &p);
        for (int i = 0; i < 3; i++) assert_ok(call(f, &y));
        const int64_t before = mst_memory_count();
        for (int i = 0; i < 100; i++) assert_ok(call(f, &y));
        assert_int_equal(mst_memory_count(), before);
        fixture_close(runtime);
    }
}

typedef struct caller {
    muster_function *f;
    int wrong;
} caller;

static void *call_often(void *argument) {
    caller *c = argument;
    for (int i = 0; i < 200; i++) {
        float y = 0;
        if (call(c->f, &y) || y != 36) c->wrong++;
    }
    return NULL;
}

static void calls_of_many_threads_do_not_disturb_each_other(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        plan p = {.failing_rank = -1};
        muster_runtime *runtime = fixture_open(backend, 2);
        caller c[4];
        pthread_t threads[4];
        muster_function *f = make(runtime, &p);
        for (int i = 0; i < 4; i++) {
            c[i] = (caller){.f = f};
            assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(c[i].wrong, 0);
        }
        fixture_close(runtime);
    }
}

/* ---- workers that wait for one that has no rows ---- */

typedef enum { BARRIER, RECEIVE, SPLIT, WAITS } waiting;

static muster_status waiting_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const int64_t one = 1;
    muster_communicator *part;
    switch (*(const waiting *)user) {
    case BARRIER:
        return muster_worker_barrier(w, NULL);
    case RECEIVE:
        return muster_worker_rank(w) == 0 ? MUSTER_OK : muster_worker_recv(w, NULL, 0, 3, muster_worker_scratch(w, MUSTER_F32, 1, &one));
    default:
        MUSTER_TRY(muster_worker_split(w, NULL, 0, 0, &part));
        return muster_worker_release(w, part);
    }
}

static void a_wait_for_a_rank_without_rows_names_the_remedy(void **unused) {
    (void)unused;
    static const char *const names[WAITS] = {"muster_worker_barrier", "muster_worker_recv", "muster_worker_split"};
    float x[2] = {1, 2};
    int cases = 0;
    muster_runtime *runtime = fixture_open("host", 2);
    for (waiting k = BARRIER; k < WAITS; k++) {
        muster_function *f;
        char expected[300], plain[TEST_PLAIN_SIZE];
        assert_ok(muster_function_create(runtime, names[k], waiting_body, &k, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        snprintf(expected, sizeof expected,
                 "%s: rank 1 waits for rank 0, which has no rows, and function '%s' does not run without rows: a body in which workers "
                 "wait for each other needs muster_function_set_runs_without_rows (rank 1)",
                 names[k], names[k]);
        for (int i = 0; i < 2; i++, cases++) {
            assert_int_equal(muster_function_call(f, (muster_tensor[]){muster_f32(x, 1)}, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT);
            test_plain(muster_last_error(), plain);
            assert_string_equal(plain, expected);
        }
        if (k == RECEIVE) { /* rank 0 has a row and does not send: that is the body's fault */
            assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                           "rank 0 returned without sending the message of recv with tag 3, for which rank 1 waits");
        } else {
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, NULL, 0, NULL));
        }
    }
    assert_int_equal(cases, WAITS * 2);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_failure_of_any_rank_reaches_the_caller_with_its_message),
        cmocka_unit_test(a_failure_without_a_message_is_told_so),
        cmocka_unit_test(a_failed_call_applies_no_update_on_any_rank),
        cmocka_unit_test(scratch_that_overflows_fails_the_operation_that_gets_it),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_repeated_call_allocates_nothing),
        cmocka_unit_test(calls_of_many_threads_do_not_disturb_each_other),
        cmocka_unit_test(a_wait_for_a_rank_without_rows_names_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
