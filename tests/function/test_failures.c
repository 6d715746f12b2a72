/* A body that fails, memory that runs out: an error each time, nothing lost, and the next call is
 * right. */
#include "base_plain.h"
#include "base_seed.h"
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
    if (p->variable) {
        muster_tensor update;
        MUSTER_TRY(muster_worker_update(w, p->variable, &update));
        MUSTER_TRY(muster_fill(w, 9, update));
    }
    if (muster_worker_rank(w) == p->failing_rank) return p->silent ? MUSTER_USER : muster_fail(MUSTER_OVERFLOW, "the cat sat on the keys");
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
                assert_refused(call(f, &y), MUSTER_OVERFLOW, expected);
                check_next_call(f, &p);
            }
        }
        fixture_close(runtime);
    }
}

static muster_status take_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *unused) {
    (void)unused;
    return muster_take(w, in[1], in[0], out[0]);
}

/* The operation counts within the rows of its body: the call says which these are, the first
 * time and in a repeated call. */
static void an_index_out_of_range_comes_with_the_rows_of_its_body(void **unused) {
    (void)unused;
    enum { ROWS = 7 };
    static float table[3], y[ROWS];
    static const struct {
        int32_t devices;
        int64_t at, list[4];
        const char *expected;
    } cases[] = {
        {1, 4, {-1}, "expected indices in [0, 3), received 5 at 4"},
        {2, 0, {-1}, "received 5 at 0; this body computes rows [0, 3) of the call (rank 0)"},
        {2, 6, {-1}, "received 5 at 3; this body computes rows [3, 7) of the call (rank 1)"},
        {3, 6, {-1}, "received 5 at 2; this body computes rows [4, 7) of the call (rank 2)"},
        {2, 6, {0, 1, 2, 6}, "received 5 at 1; this body computes rows [2, 4) of the batch (rank 1)"},
    };
    int counted = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        muster_runtime *runtime = fixture_open("host", cases[c].devices);
        muster_function *f;
        muster_call_options options;
        muster_call_options_init(&options);
        if (cases[c].list[0] >= 0)
            options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = cases[c].list, .index_count = 4};
        assert_ok(muster_function_create(runtime, "f", take_body, NULL, &f));
        assert_ok(muster_function_input(f, "index", MUSTER_I64, 1, MUSTER_SCATTER));
        assert_ok(muster_function_input(f, "table", MUSTER_F32, 1, MUSTER_BROADCAST));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
        for (int turn = 0; turn < 3; turn++) { /* without an error first, so that the last two repeat a call */
            int64_t index[ROWS] = {0};
            if (turn > 0) index[cases[c].at] = 5;
            const muster_tensor in[] = {muster_i64(index, ROWS), muster_f32(table, 3)};
            const muster_tensor out[] = {muster_f32(y, cases[c].list[0] >= 0 ? 4 : ROWS)};
            const muster_status status = muster_function_call(f, in, 2, (muster_tensor *)out, 1, &options);
            if (turn == 0)
                assert_ok(status);
            else
                assert_refused(status, MUSTER_OUT_OF_RANGE, cases[c].expected);
            if (cases[c].devices == 1 && turn > 0) assert_null(strstr(muster_last_error(), "this body computes"));
            counted++;
        }
        fixture_close(runtime);
    }
    assert_int_equal(counted, 15);
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
        assert_int_equal(call(f, &y), MUSTER_OVERFLOW);
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
    muster_tensor none;
    if (muster_worker_scratch(w, MUSTER_F32, 2, huge, &none) == MUSTER_OK) return MUSTER_USER;
    return muster_copy(w, none, out[0]) ? MUSTER_OVERFLOW : muster_copy(w, in[0], out[0]);
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
        int64_t live = mst_memory_live();
        const int64_t before = mst_memory_count();
        assert_ok(try_whole_life(devices[d], &y));
        const int64_t allocations = mst_memory_count() - before;
        assert_true(allocations > 10);
        for (int64_t k = 1; k <= allocations; k += on_gpus() && !test_is_full() ? 5 : 1) {
            y = 0;
            mst_memory_fail_at(k);
            const muster_status status = try_whole_life(devices[d], &y);
            mst_memory_fail_at(0);
            /* GPUs do without the disk's cache of code, and without NCCL's communicators. */
            if (status == MUSTER_OK && (!on_gpus() || y != 36))
                fail_msg("%s: allocation %lld of %lld failed and nobody noticed", devices[d], (long long)k, (long long)allocations);
            if (status != MUSTER_OK) assert_true(strlen(muster_last_error()) > 0);
            /* The first life that does without the disk's cache opens NVRTC, once for the process:
             * the same failure once more tells that from a leak. */
            if (on_gpus() && mst_memory_live() != live) {
                live = mst_memory_live();
                mst_memory_fail_at(k);
                (void)try_whole_life(devices[d], &y);
                mst_memory_fail_at(0);
            }
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
    muster_tensor received;
    switch (*(const waiting *)user) {
    case BARRIER:
        return muster_worker_barrier(w, NULL);
    case RECEIVE:
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &received));
        return muster_worker_rank(w) == 0 ? MUSTER_OK : muster_worker_recv(w, NULL, 0, 3, received);
    default:
        MUSTER_TRY(muster_worker_split(w, NULL, 0, 0, &part));
        return muster_worker_release(w, part);
    }
}

/* An axis and an output's index count no rows. */
static muster_status out_of_range_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor rows;
    (void)out;
    if (*(const int *)user) return muster_worker_output_rows(w, 3, 1, &rows);
    return muster_reduce(w, MUSTER_SUM, in[0], 5, out[0]);
}

static void other_things_out_of_range_come_without_rows(void **unused) {
    (void)unused;
    static const char *const expected[] = {"axis: expected", "index: expected 0 to 0, received 3"};
    float x[4] = {0}, y;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    int way = 0;
    assert_ok(muster_function_create(runtime, "f", out_of_range_body, &way, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    for (way = 0; way < 2; way++) {
        assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL),
                       MUSTER_OUT_OF_RANGE, expected[way]);
        assert_null(strstr(muster_last_error(), "this body computes"));
    }
    fixture_close(runtime);
}

static muster_status undeclared_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor value;
    (void)in, (void)out;
    return muster_worker_variable(w, user, &value);
}

static void a_variable_that_was_not_declared_is_named_with_the_remedy(void **unused) {
    (void)unused;
    float x[2] = {0};
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    muster_variable *v;
    assert_ok(muster_variable_create(runtime, "weights", muster_f32(x, 2), &v));
    assert_ok(muster_function_create(runtime, "f", undeclared_body, v, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "expected one that function 'f' has declared (muster_function_variable or muster_function_update), received 'weights'");
    fixture_close(runtime);
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
        cmocka_unit_test(an_index_out_of_range_comes_with_the_rows_of_its_body),
        cmocka_unit_test(a_failure_without_a_message_is_told_so),
        cmocka_unit_test(a_failed_call_applies_no_update_on_any_rank),
        cmocka_unit_test(scratch_that_overflows_fails_the_operation_that_gets_it),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_repeated_call_allocates_nothing),
        cmocka_unit_test(calls_of_many_threads_do_not_disturb_each_other),
        cmocka_unit_test(a_wait_for_a_rank_without_rows_names_the_remedy),
        cmocka_unit_test(other_things_out_of_range_come_without_rows),
        cmocka_unit_test(a_variable_that_was_not_declared_is_named_with_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
