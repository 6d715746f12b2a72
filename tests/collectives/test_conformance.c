/* Every collective by every algorithm, compared with plain loops: integers bit for bit, floats
 * within their rounding, and all algorithms, places, devices and ranks with each other bit for bit.
 * See support/collectives_matrix.h for the matrix: whole in optimised builds without sanitizers
 * (unless MUSTER_TEST_FULL=1 sizes up to 1000, and of 65537 elements one case of 7 by MUSTER_SEED),
 * and in every build a sample by MUSTER_SEED which has each pair of values.
 * CPU time on 2 cores, measured: 55 s for the matrix up to 65537, 10 minutes with 1 Mi, which adds
 * 3 s on 1 rank, 16 on 2, 28 on 3. The sample under ThreadSanitizer 23 s, under AddressSanitizer 6
 * s, under UndefinedBehaviorSanitizer 3 s. */
#include "base_check.h"
#include "base_seed.h"
#include "base_skip.h"
#include "collectives_cases.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

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
    SMALLER_CASES = 9 * 4 * (EACH_COUNT * 7 + 1),
    LARGE_CASES = 9 * 4 * EACH_COUNT, /* of 65537 elements */
    LARGE_SAMPLE = 7,                 /* one of so many: no divisor of what the fields of a case repeat by */
    /* the ranks besides the first (0 to 8, in all 36) as roots of reduce, broadcast, gather,
     * scatter and the last two uneven, up to 1000 elements */
    SMALLER_ROOTS = 36 * 4 * 7 * 2 * (ORACLE_REDUCTIONS + 5 * 12),
    /* two fields with a value each, that occur together in some case; the largest count does not
     * run on 4 to 9 ranks in slow builds */
    PAIRS = 1604,
    LARGEST_PAIRS = 6
};

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

static void test_each_pair_of_values_on_host_and_discrete_devices(void **state) {
    (void)state;
    int64_t count, run = 0;
    for (uint64_t s = test_seed(); s < test_seed() + (test_is_full() ? 3 : 1); s++) {
        matrix_case *cases = case_pairwise(s, SLOW_BUILD, &count);
        assert_int_equal(count_pairs(cases, count), PAIRS - (SLOW_BUILD ? LARGEST_PAIRS : 0));
        run += cases_run(cases, count);
        mst_free(cases);
    }
    print_message("MUSTER_SEED=%llu: %lld cases\n", (unsigned long long)test_seed(), (long long)run);
}

/* Those up to 1000 elements, and some of 65537. */
static int64_t keep_smaller(matrix_case *cases, int64_t count, int64_t *large) {
    int64_t kept = 0, number = (int64_t)(test_seed() % LARGE_SAMPLE);
    *large = 0;
    for (int64_t i = 0; i < count; i++) {
        if (cases[i].count == CASE_COUNTS - 1) continue;
        const bool is_large = cases[i].count == CASE_COUNTS - 2;
        if (is_large && number++ % LARGE_SAMPLE != 0) continue;
        *large += is_large;
        cases[kept++] = cases[i];
    }
    return kept;
}

/* How many of the pairs of a kind and an algorithm have a case of 65537 elements. */
static int32_t count_large(const matrix_case *cases, int64_t count) {
    bool seen[CASE_KINDS][CASE_ALGORITHMS] = {{false}};
    int32_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        bool *pair = &seen[cases[i].kind][cases[i].algorithm];
        found += cases[i].count == CASE_COUNTS - 2 && !*pair;
        *pair |= cases[i].count == CASE_COUNTS - 2;
    }
    return found;
}

static void test_the_whole_matrix(void **state) {
    (void)state;
    if (SLOW_BUILD) SKIP("it needs an optimised build without sanitizers");
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) SKIP("not on GPUs: host devices run the whole matrix");
    int64_t count, large = 0;
    matrix_case *cases = case_all(&count);
    assert_int_equal(count, ALL_CASES);
    if (!test_is_full()) {
        count = keep_smaller(cases, count, &large);
        assert_true(large >= LARGE_CASES / LARGE_SAMPLE && large <= LARGE_CASES / LARGE_SAMPLE + 1);
        assert_int_equal(count, SMALLER_CASES + large);
        assert_int_equal(count_large(cases, count), (CASE_KINDS - 1) * CASE_ALGORITHMS); /* all but the barrier */
    }
    const int64_t run = cases_run(cases, count);
    print_message("%lld cases\n", (long long)run);
    if (!test_is_full()) assert_int_equal(run, SMALLER_CASES + large + SMALLER_ROOTS);
    mst_free(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_of_values_on_host_and_discrete_devices),
        cmocka_unit_test(test_the_whole_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
