/* The collectives of the workers, on host devices, on far ones and on both together. */
#include "base_check.h"
#include "collectives_pool.h"
#include "device_far.h"

#include <stdio.h>

static const int32_t groups[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0}, {0, 1}, {0, 3}, {2, 2}};

/* ---- all_reduce ---- */

typedef struct reduction_case {
    muster_reduction op;
    int64_t count;
    bool in_place;
} reduction_case;

static double input_value(int32_t rank, int64_t i) { return (double)((i * 7 + rank * 13) % 5 + 1); }

static double expected_value(muster_reduction op, int32_t size, int64_t i) {
    double result = input_value(0, i);
    for (int32_t r = 1; r < size; r++) {
        double value = input_value(r, i);
        if (op == MUSTER_SUM || op == MUSTER_AVG) result += value;
        if (op == MUSTER_PROD) result *= value;
        if (op == MUSTER_MAX && value > result) result = value;
        if (op == MUSTER_MIN && value < result) result = value;
    }
    return op == MUSTER_AVG ? result / size : result;
}

static muster_status all_reduce_task(muster_worker *w, void *argument) {
    const reduction_case *c = argument;
    double *host = mst_alloc((size_t)c->count * sizeof *host);
    if (!host) return mst_out_of_memory("test", c->count * 8);
    for (int64_t i = 0; i < c->count; i++) host[i] = input_value(w->rank, i);
    muster_tensor input = muster_worker_scratch(w, MUSTER_F64, 1, &c->count);
    muster_tensor output = c->in_place ? input : muster_worker_scratch(w, MUSTER_F64, 1, &c->count);
    muster_status status = muster_worker_write(w, muster_f64(host, c->count), input);
    if (status == MUSTER_OK) status = muster_worker_all_reduce(w, NULL, c->op, input, output);
    if (status == MUSTER_OK) status = muster_worker_read(w, output, muster_f64(host, c->count));
    for (int64_t i = 0; i < c->count && status == MUSTER_OK; i++) {
        double expected = expected_value(c->op, w->size, i), error = host[i] - expected;
        if (error > 1e-9 || error < -1e-9) {
            status = mst_error(MUSTER_USER, "op %d, count %lld, element %lld: expected %g, received %g", c->op, (long long)c->count, (long long)i, expected, host[i]);
        }
    }
    mst_free(host);
    return status;
}

static void test_all_reduce(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 7, 8, 9, 500, 2048, 20001};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        collectives_pool c;
        collectives_open(&c, groups[g][0], groups[g][1]);
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    reduction_case one = {op, counts[n], in_place};
                    assert_ok(collectives_run(&c, all_reduce_task, &one));
                }
            }
        }
        collectives_close(&c);
    }
}

/* 2048 + 1 is not an f16, so that a sum that rounds after every rank stays at 2048. */
static muster_status half_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t one = 1;
    uint16_t value = muster_f32_to_f16(w->rank == 0 ? 2048.0f : 1.0f);
    muster_tensor x = muster_worker_scratch(w, MUSTER_F16, 1, &one), host = muster_tensor_make(MUSTER_F16, &value, 1, &one);
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
    muster_tensor x = muster_worker_scratch(w, MUSTER_F32, 1, &one);
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

/* ---- the others ---- */

static muster_status broadcast_task(muster_worker *w, void *argument) {
    int32_t root = *(int32_t *)argument;
    int64_t count = 3000;
    int64_t host[3000];
    for (int64_t i = 0; i < count; i++) host[i] = w->rank == root ? i * 3 : -1;
    muster_tensor x = muster_worker_scratch(w, MUSTER_I64, 1, &count);
    MUSTER_TRY(muster_worker_write(w, muster_i64(host, count), x));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, root, x, x));
    MUSTER_TRY(muster_worker_read(w, x, muster_i64(host, count)));
    for (int64_t i = 0; i < count; i++) {
        if (host[i] != i * 3) return mst_error(MUSTER_USER, "element %lld is %lld", (long long)i, (long long)host[i]);
    }
    return muster_worker_barrier(w, NULL);
}

static void test_broadcast_from_every_root(void **state) {
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        collectives_pool c;
        collectives_open(&c, groups[g][0], groups[g][1]);
        for (int32_t root = 0; root < c.size; root++) assert_ok(collectives_run(&c, broadcast_task, &root));
        collectives_close(&c);
    }
}

/* Rank r brings r rows, so rank 0 brings none. */
static muster_status all_gather_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t own = w->rank, total = 0;
    int32_t part[16], all[128];
    for (int32_t r = 0; r < w->size; r++) total += r;
    for (int32_t i = 0; i < w->rank; i++) part[i] = w->rank * 100 + i;
    muster_tensor in = muster_worker_scratch(w, MUSTER_I32, 1, &own), out = muster_worker_scratch(w, MUSTER_I32, 1, &total);
    MUSTER_TRY(muster_worker_write(w, muster_i32(part, own), in));
    MUSTER_TRY(muster_worker_all_gather(w, NULL, in, out));
    MUSTER_TRY(muster_worker_read(w, out, muster_i32(all, total)));
    int64_t at = 0;
    for (int32_t r = 0; r < w->size; r++) {
        for (int32_t i = 0; i < r; i++, at++) {
            if (all[at] != r * 100 + i) return mst_error(MUSTER_USER, "position %lld is %d", (long long)at, all[at]);
        }
    }
    return MUSTER_OK;
}

static void test_all_gather_of_uneven_parts(void **state) {
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        collectives_pool c;
        collectives_open(&c, groups[g][0], groups[g][1]);
        assert_ok(collectives_run(&c, all_gather_task, NULL));
        collectives_close(&c);
    }
}

static muster_status reduce_task(muster_worker *w, void *argument) {
    int32_t root = *(int32_t *)argument;
    int64_t count = 1000, host[1000];
    for (int64_t i = 0; i < count; i++) host[i] = i + w->rank;
    muster_tensor x = muster_worker_scratch(w, MUSTER_I64, 1, &count);
    MUSTER_TRY(muster_worker_write(w, muster_i64(host, count), x));
    MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, root, x, x));
    MUSTER_TRY(muster_worker_read(w, x, muster_i64(host, count)));
    for (int64_t i = 0; i < count; i++) {
        int64_t expected = w->rank == root ? i * w->size + (int64_t)w->size * (w->size - 1) / 2 : i + w->rank;
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
    muster_tensor x = muster_worker_scratch(w, MUSTER_F32, 1, &count);
    MUSTER_TRY(muster_fill(w, 1, x));
    muster_status status = w->rank == 1 ? muster_worker_broadcast(w, NULL, 0, x, x) : muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
    seen->status[w->rank] = status;
    mst_error_save(seen->message[w->rank]);
    return status;
}

static void assert_works(collectives_pool *c) {
    reduction_case one = {MUSTER_SUM, 100, true};
    assert_ok(collectives_run(c, all_reduce_task, &one));
}

static void test_different_operations_are_refused_on_every_rank(void **state) {
    (void)state;
    for (int far = 0; far < 2; far++) {
        collectives_pool c;
        witness seen;
        collectives_open(&c, far ? 0 : 3, far ? 3 : 0);
        assert_refused(collectives_run(&c, mismatch_task, &seen), MUSTER_INVALID_ARGUMENT, "rank 1 entered broadcast of 4 f32 from rank 0");
        assert_non_null(strstr(muster_last_error(), "rank 0 entered all_reduce sum of 4 f32"));
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
    int64_t count = w->rank == 2 ? 5 : 4;
    muster_tensor x = muster_worker_scratch(w, MUSTER_F32, 1, &count);
    MUSTER_TRY(muster_fill(w, 1, x));
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

static void test_different_counts_are_refused(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 3, 0);
    assert_refused(collectives_run(&c, count_mismatch_task, NULL), MUSTER_INVALID_ARGUMENT, "rank 2 entered all_reduce sum of 5 f32");
    assert_works(&c);
    collectives_close(&c);
}

static muster_status failing_task(muster_worker *w, void *argument) {
    witness *seen = argument;
    if (w->rank == 1) return muster_fail(MUSTER_USER, "rank one has no mind to");
    int64_t count = 4;
    muster_tensor x = muster_worker_scratch(w, MUSTER_F32, 1, &count);
    MUSTER_TRY(muster_fill(w, 1, x));
    return seen->status[w->rank] = muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

static void test_a_rank_that_fails_before_the_collective_ends_it(void **state) {
    (void)state;
    for (int far = 0; far < 2; far++) {
        collectives_pool c;
        witness seen;
        collectives_open(&c, far ? 0 : 4, far ? 4 : 0);
        assert_refused(collectives_run(&c, failing_task, &seen), MUSTER_USER, "rank one has no mind to (rank 1)");
        assert_int_equal(seen.status[0], MUSTER_ABORTED);
        assert_int_equal(seen.status[2], MUSTER_ABORTED);
        assert_int_equal(seen.status[3], MUSTER_ABORTED);
        assert_works(&c);
        collectives_close(&c);
    }
}

static muster_status absent_task(muster_worker *w, void *argument) {
    (void)argument;
    return w->rank == 1 ? MUSTER_OK : muster_worker_barrier(w, NULL);
}

static void test_a_rank_that_returns_without_entering_is_named(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 2, 0);
    assert_refused(collectives_run(&c, absent_task, NULL), MUSTER_INVALID_ARGUMENT, "rank 1 returned without entering barrier");
    assert_works(&c);
    collectives_close(&c);
}

static muster_status refusals_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = 4, shape[] = {4, 4};
    muster_tensor x = muster_worker_scratch(w, MUSTER_F32, 1, &count), i = muster_worker_scratch(w, MUSTER_I32, 1, &count);
    muster_tensor square = muster_worker_scratch(w, MUSTER_F32, 2, shape), shifted = muster_tensor_slice(x, 1, 4);
    assert_refused(muster_worker_all_reduce(w, NULL, MUSTER_AVG, i, i), MUSTER_UNSUPPORTED, "muster_worker_all_reduce");
    assert_refused(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, i), MUSTER_DTYPE_MISMATCH, "expected dtype f32 as the input, received i32");
    assert_refused(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, square), MUSTER_SHAPE_MISMATCH, "expected 4 elements as the input, received 16");
    assert_refused(muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_tensor_slice(x, 0, 3), shifted), MUSTER_INVALID_ARGUMENT, "received an overlap");
    assert_refused(muster_worker_broadcast(w, NULL, 0, muster_tensor_transpose(square), muster_tensor_transpose(square)), MUSTER_INVALID_ARGUMENT, "received a strided one");
    assert_refused(muster_worker_broadcast(w, NULL, 1, x, x), MUSTER_OUT_OF_RANGE, "root: expected a rank from 0 to 0, received 1");
    assert_refused(muster_worker_broadcast(w, NULL, 0, muster_tensor_none(), muster_tensor_none()), MUSTER_INVALID_ARGUMENT, "tensor");
    assert_refused(muster_worker_barrier(NULL, NULL), MUSTER_INVALID_ARGUMENT, "received NULL");
    return MUSTER_OK;
}

static void test_refusals(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 1, 0);
    assert_ok(collectives_run(&c, refusals_task, NULL));
    collectives_close(&c);
}

static void test_failing_allocations_leave_nothing(void **state) {
    (void)state;
    for (int64_t k = 1; k <= 12; k++) {
        int64_t live = mst_memory_live();
        collectives_pool c;
        collectives_open(&c, 1, 2);
        mst_memory_fail_at(k);
        reduction_case one = {MUSTER_SUM, 3000, false};
        (void)collectives_run(&c, all_reduce_task, &one);
        mst_memory_fail_at(0);
        assert_works(&c);
        collectives_close(&c);
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_far_live(), 0);
    }
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
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_f16_rounds_once),
        cmocka_unit_test(test_average_does_not_overflow_in_the_sum),
        cmocka_unit_test(test_broadcast_from_every_root),
        cmocka_unit_test(test_all_gather_of_uneven_parts),
        cmocka_unit_test(test_reduce_in_place_leaves_the_others_alone),
        cmocka_unit_test(test_different_operations_are_refused_on_every_rank),
        cmocka_unit_test(test_different_counts_are_refused),
        cmocka_unit_test(test_a_rank_that_fails_before_the_collective_ends_it),
        cmocka_unit_test(test_a_rank_that_returns_without_entering_is_named),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failing_allocations_leave_nothing),
        cmocka_unit_test(test_collectives_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
