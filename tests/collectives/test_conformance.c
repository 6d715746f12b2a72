/* Every collective by every algorithm, compared with plain loops: integers bit for bit, floats
 * within their rounding, and all algorithms, places, devices and ranks with each other bit for bit.
 * See support/collectives_matrix.h for the matrix. Every build runs a sample by MUSTER_SEED which
 * has each pair of values; on GPUs, and under the sanitizers, a half or a third of it runs.
 * Optimised builds without sanitizers run one case of 101 besides, by MUSTER_SEED, of up to 65537
 * elements; with MUSTER_TEST_FULL=1 the whole matrix. */
#include "base_check.h"
#include "base_seed.h"
#include "base_skip.h"
#include "collectives_cases.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if defined(MUSTER_TEST_SANITIZED) || !defined(__OPTIMIZE__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

/* What there must be, counted by hand. Not updating, 51 pairs of reduction and dtype: all_reduce,
 * reduce and both reduce_scatter in place and not, all_reduce_shards. Updates: 4 kinds, 4 dtypes of
 * floats. Of 12 dtypes: 8 kinds in place and not, uneven all_to_all. Forms that begin: of 20 pairs
 * of reduction and float all_reduce and reduce_scatter, of 4 floats all_gather, in place and not.
 * All of that by 4 algorithms, with 9 counts, on 1 to 9 ranks; and a barrier by each algorithm. */
enum {
    EACH_COUNT = 9 * ORACLE_REDUCTIONS + 4 * 4 + (2 * 8 + 1) * 12 + 2 * 2 * 20 + 2 * 4,
    ALL_CASES = 9 * 4 * (EACH_COUNT * 9 + 1),
    SMALLER_CASES = 9 * 4 * (EACH_COUNT * 7 + 1), /* up to 1000 elements */
    LARGE_CASES = 9 * 4 * EACH_COUNT,             /* of 65537 elements */
    /* one of so many: no divisors of what the fields of a case repeat by, such as 7 counts, 4
     * algorithms, 2 places */
    SAMPLE = 101,
    LARGE_SAMPLE = 211,
    /* of several processes, which with MUSTER_TEST_FULL=1 run the samples above */
    SHARED_SAMPLE = 401,
    SHARED_LARGE_SAMPLE = 811,
    /* the ranks besides the first (0 to 8, in all 36) as roots of reduce, broadcast, gather,
     * scatter and the last two uneven, up to 1000 elements */
    SMALLER_ROOTS = 36 * 4 * 7 * 2 * (ORACLE_REDUCTIONS + 5 * 12),
    /* two fields with a value each, that occur together in some case; the largest count runs
     * on 4 to 9 ranks in optimised builds with MUSTER_TEST_FULL=1 alone */
    PAIRS = 1604,
    LARGEST_PAIRS = 6
};

static bool is_shared(void) { return processes_count() > 1; }

/* Of several processes each number of ranks runs by one of the algorithms, for which a pool is
 * opened. */
static int64_t keep_quarter(matrix_case *cases, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (cases[i].algorithm == (cases[i].ranks + cases[i].devices + (int64_t)(test_seed() % CASE_ALGORITHMS)) % CASE_ALGORITHMS)
            cases[kept++] = cases[i];
    assert_in_range(kept, count / 8, count / 2);
    return kept;
}

static int64_t count_pairs(const matrix_case *cases, int64_t count) {
    enum { FIELDS = sizeof(matrix_case), VALUES = 32 };
    static bool seen[FIELDS][FIELDS][VALUES][VALUES];
    int64_t pairs = 0;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *field = (const uint8_t *)&cases[i];
        for (int f = 0; f < FIELDS; f++) {
            for (int g = f + 1; g < FIELDS; g++) {
                bool *pair = &seen[f][g][field[f]][field[g]];
                pairs += !*pair;
                *pair = true;
            }
        }
    }
    return pairs;
}

/* A half or a third, in their order, which meets each kind by each algorithm, on each number of
 * ranks, and so on. */
static int64_t keep_some(matrix_case *cases, int64_t count, int64_t one_in) {
    enum { FIELDS = sizeof(matrix_case), VALUES = 32 };
    bool before[FIELDS][VALUES] = {{false}}, after[FIELDS][VALUES] = {{false}};
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        for (int f = 0; f < FIELDS; f++) before[f][((const uint8_t *)&cases[i])[f]] = true;
    for (int64_t i = 0; i < count; i++)
        if (test_keeps(i, one_in)) cases[kept++] = cases[i];
    for (int64_t i = 0; i < kept; i++)
        for (int f = 0; f < FIELDS; f++) after[f][((const uint8_t *)&cases[i])[f]] = true;
    after[offsetof(matrix_case, kind)][CASE_BARRIER] = true; /* which has few cases */
    assert_memory_equal(before, after, sizeof before);
    return kept;
}

static void test_each_pair_of_values_on_host_and_discrete_devices(void **state) {
    (void)state;
    int64_t count, run = 0;
    for (uint64_t s = test_seed(); s < test_seed() + (test_is_full() ? 3 : 1); s++) {
        const bool light = SLOW_BUILD || !test_is_full();
        matrix_case *cases = case_pairwise(s, light, &count);
        assert_int_equal(count_pairs(cases, count), PAIRS - (light ? LARGEST_PAIRS : 0));
        if (is_shared() && !test_is_full()) count = keep_quarter(cases, count);
        const bool gpus = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE;
        const int64_t one_in = is_shared() ? 1 : test_one_in(gpus ? 2 : 1, 2, 3);
        if (one_in > 1) count = keep_some(cases, count, one_in);
        run += cases_run(cases, count);
        mst_free(cases);
    }
    print_message("MUSTER_SEED=%llu: %lld cases\n", (unsigned long long)test_seed(), (long long)run);
}

static int64_t sample(void) { return is_shared() && !test_is_full() ? SHARED_SAMPLE : SAMPLE; }
static int64_t large_sample(void) { return is_shared() && !test_is_full() ? SHARED_LARGE_SAMPLE : LARGE_SAMPLE; }

/* One of sample() of those up to 1000 elements, one of large_sample() of those of 65537. */
static int64_t keep_sample(matrix_case *cases, int64_t count) {
    int64_t kept = 0, smaller = (int64_t)(test_seed() % (uint64_t)sample()), large = (int64_t)(test_seed() % (uint64_t)large_sample());
    for (int64_t i = 0; i < count; i++) {
        if (cases[i].count == CASE_COUNTS - 1) continue;
        if (cases[i].count == CASE_COUNTS - 2 ? large++ % large_sample() : smaller++ % sample()) continue;
        cases[kept++] = cases[i];
    }
    return kept;
}

/* How many of the kinds have a case by each algorithm, one on each number of ranks, and one with
 * each count but the largest. */
static int32_t count_covered(const matrix_case *cases, int64_t count) {
    bool by[CASE_KINDS][CASE_ALGORITHMS] = {{false}}, on[CASE_KINDS][CASE_RANKS + 1] = {{false}}, with[CASE_KINDS][CASE_COUNTS] = {{false}};
    for (int64_t i = 0; i < count; i++) {
        by[cases[i].kind][cases[i].algorithm] = true;
        on[cases[i].kind][cases[i].ranks] = true;
        with[cases[i].kind][cases[i].count] = true;
    }
    int32_t kinds = 0;
    for (int k = 0; k < CASE_KINDS; k++) {
        bool all = true;
        for (int a = 0; a < CASE_ALGORITHMS; a++) all &= by[k][a];
        for (int r = 1; r <= CASE_RANKS; r++) all &= on[k][r];
        for (int c = 0; c < CASE_COUNTS - 1; c++) all &= with[k][c];
        kinds += all;
    }
    return kinds;
}

/* The ranks besides the first as roots, up to 1000 elements. */
static int64_t count_roots(const matrix_case *cases, int64_t count) {
    int64_t roots = 0;
    for (int64_t i = 0; i < count; i++)
        if (case_rooted(&cases[i]) && cases[i].count < CASE_COUNTS - 2) roots += cases[i].ranks - 1;
    return roots;
}

static void test_the_matrix(void **state) {
    (void)state;
    if (SLOW_BUILD) SKIP("it needs an optimised build without sanitizers");
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) SKIP("not on GPUs: host devices run the matrix");
    int64_t count;
    matrix_case *cases = case_all(&count);
    assert_int_equal(count, ALL_CASES);
    assert_int_equal(count_roots(cases, count), SMALLER_ROOTS);
    if (!test_is_full() || is_shared()) {
        count = keep_sample(cases, count);
        const int64_t least = SMALLER_CASES / sample() + LARGE_CASES / large_sample();
        assert_true(count >= least && count <= least + 2);
        /* all but the barrier */
        if (test_is_full()) assert_int_equal(count_covered(cases, count), CASE_KINDS - 1); /* a smaller sample does not cover them */
    }
    if (is_shared() && !test_is_full()) count = keep_quarter(cases, count);
    const int64_t run = cases_run(cases, count);
    print_message("%lld cases\n", (long long)run);
    assert_int_equal(run, count + count_roots(cases, count));
    mst_free(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_of_values_on_host_and_discrete_devices),
        cmocka_unit_test(test_the_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
