/* Collectives that fail, what a reduction must not do, and what is recorded. Their results are
 * compared in test_conformance.c. */
#include "collectives_values.h"
#include "device_discrete.h"

static const int32_t groups[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0}, {0, 1}, {0, 3}, {2, 2}};

/* ---- reductions ---- */

typedef struct sum_case {
    int64_t count;
    bool in_place;
} sum_case;

static muster_status sum_task(muster_worker *w, void *argument) {
    const sum_case *c = argument;
    muster_tensor input = values_make(w, c->count, muster_worker_rank(w), 1),
                  output = c->in_place ? input : values_make(w, c->count, -1, 0);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, input, output));
    return values_expect(w, output, muster_worker_size(w) * (muster_worker_size(w) - 1) / 2, muster_worker_size(w));
}

/* 2048 + 1 is not an f16, so that a sum that rounds after every rank stays at 2048. */
static muster_status half_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t one = 1;
    uint16_t value = muster_f32_to_f16(muster_worker_rank(w) == 0 ? 2048.0f : 1.0f);
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F16, 1, &one, &x));
    muster_tensor host = muster_tensor_make(MUSTER_F16, &value, 1, &one);
    MUSTER_TRY(muster_worker_write(w, host, x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    MUSTER_TRY(muster_worker_read(w, x, host));
    return muster_f16_to_f32(value) == 2050.0f ? MUSTER_OK : mst_error(MUSTER_USER, "received %g", (double)muster_f16_to_f32(value));
}

static void test_f16_rounds_once(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 3, 0);
    assert_ok(collectives_run(&c, half_task, NULL));
    collectives_close(&c);
}

static muster_status large_average_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t one = 1;
    float value = 3e38f;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &x));
    MUSTER_TRY(muster_worker_write(w, muster_f32(&value, one), x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_AVG, x, x));
    MUSTER_TRY(muster_worker_read(w, x, muster_f32(&value, one)));
    return value > 2.99e38f && value < 3.01e38f ? MUSTER_OK : mst_error(MUSTER_USER, "received %g", (double)value);
}

static void test_average_does_not_overflow_in_the_sum(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, large_average_task, NULL));
    collectives_close(&c);
}

static muster_status reduce_task(muster_worker *w, void *argument) {
    int32_t root = *(int32_t *)argument;
    int64_t count = 1000, host[1000];
    for (int64_t i = 0; i < count; i++) host[i] = i + muster_worker_rank(w);
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, &count, &x));
    MUSTER_TRY(muster_worker_write(w, muster_i64(host, count), x));
    MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, root, x, x));
    MUSTER_TRY(muster_worker_read(w, x, muster_i64(host, count)));
    for (int64_t i = 0; i < count; i++) {
        int64_t expected = muster_worker_rank(w) == root
                               ? i * muster_worker_size(w) + (int64_t)muster_worker_size(w) * (muster_worker_size(w) - 1) / 2
                               : i + muster_worker_rank(w);
        if (host[i] != expected) return mst_error(MUSTER_USER, "element %lld is %lld", (long long)i, (long long)host[i]);
    }
    return MUSTER_OK;
}

static void test_reduce_in_place_leaves_the_others_alone(void **state) {
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        collectives_pool c;
        collectives_open(&c, groups[g][0], groups[g][1]);
        for (int32_t root = 0; root < c.size; root++) assert_ok(collectives_run(&c, reduce_task, &root));
        collectives_close(&c);
    }
}

/* ---- failures ---- */

typedef struct witness {
    muster_status status[16];
    char message[16][MST_MESSAGE_SIZE];
} witness;

static muster_status mismatch_task(muster_worker *w, void *argument) {
    witness *seen = argument;
    int64_t count = 4;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    MUSTER_TRY(muster_fill(w, 1, x));
    muster_status status =
        muster_worker_rank(w) == 1 ? muster_worker_broadcast(w, NULL, 0, x, x) : muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
    seen->status[muster_worker_rank(w)] = status;
    mst_error_save(seen->message[muster_worker_rank(w)]);
    return status;
}

static void assert_works(collectives_pool *c) {
    sum_case one = {100, true};
    assert_ok(collectives_run(c, sum_task, &one));
}

static void test_different_operations_are_refused_on_every_rank(void **state) {
    (void)state;
    for (int discrete = 0; discrete < 2; discrete++) {
        collectives_pool c;
        witness seen;
        collectives_open(&c, discrete ? 0 : 3, discrete ? 3 : 0);
        assert_refused(collectives_run(&c, mismatch_task, &seen), MUSTER_INVALID_ARGUMENT,
                       "collective mismatch: rank 1 called broadcast of 4 f32 from rank 0");
        assert_true(test_says(muster_last_error(), "rank 0 called all_reduce sum of 4 f32"));
        collectives_gather(&c, seen.status, sizeof *seen.status);
        collectives_gather(&c, seen.message, sizeof *seen.message);
        for (int32_t r = 0; r < 3; r++) {
            assert_int_equal(seen.status[r], MUSTER_INVALID_ARGUMENT);
            assert_string_equal(seen.message[r], seen.message[0]);
        }
        assert_works(&c);
        collectives_close(&c);
    }
}

static muster_status count_mismatch_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = muster_worker_rank(w) == 2 ? 5 : 4;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    MUSTER_TRY(muster_fill(w, 1, x));
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

static void test_different_counts_are_refused(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 3, 0);
    assert_refused(collectives_run(&c, count_mismatch_task, NULL), MUSTER_INVALID_ARGUMENT,
                   "collective mismatch: rank 2 called all_reduce sum of 5 f32");
    assert_works(&c);
    collectives_close(&c);
}

static muster_status failing_task(muster_worker *w, void *argument) {
    witness *seen = argument;
    if (muster_worker_rank(w) == 1) return muster_fail(MUSTER_USER, "rank one has no mind to");
    int64_t count = 4;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    MUSTER_TRY(muster_fill(w, 1, x));
    return seen->status[muster_worker_rank(w)] = muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

static void test_a_rank_that_fails_before_the_collective_ends_it(void **state) {
    (void)state;
    for (int discrete = 0; discrete < 2; discrete++) {
        collectives_pool c;
        witness seen;
        collectives_open(&c, discrete ? 0 : 4, discrete ? 4 : 0);
        assert_refused(collectives_run(&c, failing_task, &seen), MUSTER_USER, "rank one has no mind to (rank 1)");
        collectives_gather(&c, seen.status, sizeof *seen.status);
        assert_int_equal(seen.status[0], MUSTER_ABORTED);
        assert_int_equal(seen.status[2], MUSTER_ABORTED);
        assert_int_equal(seen.status[3], MUSTER_ABORTED);
        assert_works(&c);
        collectives_close(&c);
    }
}

static muster_status absent_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_rank(w) == 1 ? MUSTER_OK : muster_worker_barrier(w, NULL);
}

static void test_a_rank_that_returns_without_entering_is_named(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 2, 0);
    assert_refused(collectives_run(&c, absent_task, NULL), MUSTER_INVALID_ARGUMENT, "rank 1 returned without entering barrier");
    assert_works(&c);
    collectives_close(&c);
}

static void test_failing_allocations_leave_nothing(void **state) {
    muster_status status = MUSTER_OUT_OF_MEMORY;
    int32_t failed = 0;
    (void)state;
    for (int64_t k = 1; status != MUSTER_OK; k++) {
        int64_t live = mst_memory_live();
        collectives_pool c;
        collectives_open(&c, 1, 2);
        mst_memory_fail_at(k);
        sum_case one = {3000, false};
        status = collectives_run(&c, sum_task, &one);
        mst_memory_fail_at(0);
        /* none: scratch memory that the task did not get */
        if (status != MUSTER_OK && status != MUSTER_OUT_OF_MEMORY && !test_says(muster_last_error(), "received none"))
            fail_msg("allocation %d: %s", (int)k, muster_last_error());
        failed += status != MUSTER_OK;
        assert_works(&c);
        collectives_close(&c);
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_discrete_live(), 0);
    }
    assert_true(failed > 3);
}

static void test_collectives_are_recorded(void **state) {
    (void)state;
    collectives_pool c;
    char text[160];
    collectives_open(&c, 2, 0);
    assert_works(&c);
    assert_non_null(strstr(mst_recorder_last(&mst_pool_worker(c.pool, 1)->recorder, text, sizeof text), "all_reduce"));
    assert_non_null(strstr(text, "800 bytes"));
    collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_rounds_once),
        cmocka_unit_test(test_average_does_not_overflow_in_the_sum),
        cmocka_unit_test(test_reduce_in_place_leaves_the_others_alone),
        cmocka_unit_test(test_different_operations_are_refused_on_every_rank),
        cmocka_unit_test(test_different_counts_are_refused),
        cmocka_unit_test(test_a_rank_that_fails_before_the_collective_ends_it),
        cmocka_unit_test(test_a_rank_that_returns_without_entering_is_named),
        cmocka_unit_test(test_failing_allocations_leave_nothing),
        cmocka_unit_test(test_collectives_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
