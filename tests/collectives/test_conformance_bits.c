/* The order in which values are combined: that of the shards, on any rank, and by every
 * algorithm; also of values that are no numbers. */
#include "collectives_values.h"

#include <math.h>
#include <stdio.h>

static const char *const algorithms[] = {"reference", "inline", "direct", NULL};

/* ---- logical shards ---- */

enum { SHARDS = 12, COUNT = 700 };

/* Cancels: of both signs, over many orders of magnitude. */
static float shard_value(int64_t shard, int64_t i) {
    return (float)(sin((double)(shard * 7919 + i * 104729)) * exp2((double)((shard * 5 + i) % 40 - 20)));
}

typedef struct shards_case {
    bool whole;  /* the sum over the shards; else each rank sums its own first */
    bool uneven; /* rank 0 has none, the others one each, the last one what is left */
    muster_reduction op;
    float result[COUNT]; /* of rank 0, or the first one of this process: all ranks have the same */
} shards_case;

static muster_status shards_task(muster_worker *w, void *argument) {
    shards_case *c = argument;
    int64_t n = muster_worker_size(w), begin = SHARDS * muster_worker_rank(w) / n, end = SHARDS * (muster_worker_rank(w) + 1) / n;
    if (c->uneven && n > 1) {
        begin = muster_worker_rank(w) > 0 ? muster_worker_rank(w) - 1 : 0;
        end = muster_worker_rank(w) == n - 1 ? SHARDS : muster_worker_rank(w);
    }
    int64_t count = COUNT, shape[] = {end - begin, count};
    float host[SHARDS * COUNT];
    for (int64_t s = begin; s < end; s++) {
        for (int64_t i = 0; i < count; i++) host[(s - begin) * count + i] = shard_value(s, i);
    }
    muster_tensor x = values_copy(w, muster_tensor_make(MUSTER_F32, host, 2, shape));
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &y));
    if (c->whole) {
        MUSTER_TRY(muster_worker_all_reduce_shards(w, NULL, c->op, x, y));
    } else {
        MUSTER_TRY(muster_reduce(w, c->op, x, 0, y));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, c->op, y, y));
    }
    float received[COUNT];
    MUSTER_TRY(muster_worker_read(w, y, muster_f32(received, count)));
    if (w->rank == 0) memcpy(c->result, received, sizeof received);
    MUSTER_TRY(muster_worker_broadcast(w, NULL, 0, y, y));
    return values_same(w, y, muster_f32(received, count)); /* every rank has the same */
}

static void sum_shards(shards_case *c, int32_t host, int32_t discrete, const char *algorithm) {
    collectives_pool pool;
    collectives_open_with(&pool, host, discrete, collectives_are_shared(host + discrete) ? NULL : algorithm, -1);
    assert_ok(collectives_run(&pool, shards_task, c));
    collectives_close(&pool);
}

static void test_the_same_shards_give_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    static const muster_reduction ops[] = {MUSTER_SUM, MUSTER_AVG, MUSTER_PROD};
    for (int o = 0; o < 3; o++) {
        shards_case first = {.whole = true, .op = ops[o]}, other = first;
        sum_shards(&first, 1, 0, "reference");
        for (int a = 0; a < 4; a++) {
            for (int32_t size = 1; size <= 9; size++) {
                for (int uneven = 0; uneven < 2; uneven++) {
                    other.uneven = uneven;
                    sum_shards(&other, size, 0, algorithms[a]);
                    assert_memory_equal(other.result, first.result, sizeof first.result);
                }
            }
            sum_shards(&other, 1, 3, algorithms[a]);
            assert_memory_equal(other.result, first.result, sizeof first.result);
        }
    }
}

/* Why there are shards: without them the same numbers give other bits on 3 ranks than on 2. */
static void test_sums_of_sums_depend_on_the_number_of_ranks(void **state) {
    (void)state;
    shards_case two = {.op = MUSTER_SUM}, three = {.op = MUSTER_SUM};
    sum_shards(&two, 2, 0, NULL);
    sum_shards(&three, 3, 0, NULL);
    assert_memory_not_equal(two.result, three.result, sizeof two.result);
}

/* ---- what is no number ---- */

enum { SPECIALS = 7, PLACES = SPECIALS * SPECIALS * SPECIALS };

typedef struct special_case {
    muster_dtype dtype;
    muster_reduction op;
    char result[8 * PLACES];
} special_case;

/* Every triple of special values, one of each triple on each of 3 ranks. */
static muster_status special_task(muster_worker *w, void *argument) {
    special_case *c = argument;
    static const double specials[SPECIALS] = {0.0, -0.0, 1.5, -2.0, INFINITY, -INFINITY, NAN};
    static const int divisors[] = {1, SPECIALS, SPECIALS * SPECIALS};
    double values[PLACES];
    char in[8 * PLACES];
    int64_t count = PLACES;
    for (int i = 0; i < PLACES; i++) values[i] = specials[i / divisors[muster_worker_rank(w)] % SPECIALS];
    mst_convert(c->dtype, in, MUSTER_F64, values, count);
    muster_tensor x = values_copy(w, muster_tensor_make(c->dtype, in, 1, &count));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, c->op, x, x));
    char received[8 * PLACES];
    MUSTER_TRY(muster_worker_read(w, x, muster_tensor_make(c->dtype, received, 1, &count)));
    if (w->rank == 0) memcpy(c->result, received, (size_t)(count * muster_dtype_size(c->dtype)));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, 0, x, x));
    return values_same(w, x, muster_tensor_make(c->dtype, received, 1, &count));
}

/* Between GPUs, NCCL's own sums may round in another order. */
static bool close_enough(const special_case *c, double a, double b) {
    const bool any_order = collectives_devices() == COLLECTIVES_GPUS && c->op != MUSTER_MAX && c->op != MUSTER_MIN;
    const double ulp = c->dtype == MUSTER_F32 ? 0x1p-23 : 0x1p-52;
    return any_order && (a == b || fabs(a - b) <= 2 * ulp * fabs(b));
}

/* The same bits, except that one NaN is as good as another: which one an addition of two passes on
 * is the compiler's choice. */
static void check_same(const special_case *c, const special_case *other) {
    double a[PLACES], b[PLACES];
    mst_convert(MUSTER_F64, a, c->dtype, c->result, PLACES);
    mst_convert(MUSTER_F64, b, c->dtype, other->result, PLACES);
    for (int i = 0; i < PLACES; i++) {
        if (isnan(a[i]) ? !isnan(b[i]) : memcmp(&a[i], &b[i], sizeof *a) != 0 && !close_enough(c, a[i], b[i]))
            fail_msg("%s of %s: triple %d: %g and %g", mst_reduction_name(c->op), muster_dtype_name(c->dtype), i, a[i], b[i]);
    }
}

/* A NaN anywhere gives a NaN, whichever rank has it. */
static void check_nan(const special_case *c) {
    double received[PLACES];
    mst_convert(MUSTER_F64, received, c->dtype, c->result, PLACES);
    for (int i = 0; i < PLACES; i++) {
        bool given = i % SPECIALS == 6 || i / SPECIALS % SPECIALS == 6 || i / (SPECIALS * SPECIALS) == 6;
        if (given && !isnan(received[i]))
            fail_msg("%s of %s: triple %d: expected NaN, received %g", mst_reduction_name(c->op), muster_dtype_name(c->dtype), i,
                     received[i]);
    }
}

static void test_infinities_zeros_and_nan_on_every_algorithm(void **state) {
    (void)state;
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            special_case first = {dtype, op, {0}}, other = first;
            for (int a = 0; a < 4; a++) {
                collectives_pool pool;
                collectives_open_with(&pool, 3, 0, collectives_are_shared(3) ? NULL : algorithms[a], -1);
                assert_ok(collectives_run(&pool, special_task, a == 0 ? &first : &other));
                collectives_close(&pool);
                if (a == 0)
                    check_nan(&first);
                else
                    check_same(&first, &other);
            }
        }
    }
}

int main(void) {
    collectives_fixed_order = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_shards_give_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(test_sums_of_sums_depend_on_the_number_of_ranks),
        cmocka_unit_test(test_infinities_zeros_and_nan_on_every_algorithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
