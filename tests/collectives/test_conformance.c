/* Every collective by every algorithm, compared with plain loops: integers bit for bit, floats
 * within their rounding, and all algorithms, places, devices and ranks with each other bit for bit.
 * See support/collectives_matrix.h for the matrix: whole in optimised builds without sanitizers
 * (sizes up to 65537 unless MUSTER_TEST_FULL=1), and in every build a sample by MUSTER_SEED which
 * has each pair of values.
 * CPU time on 2 cores, measured: 55 s for the matrix up to 65537, 10 minutes with 1 Mi, which adds
 * 3 s on 1 rank, 16 on 2, 28 on 3. The sample under ThreadSanitizer 23 s, under AddressSanitizer 6
 * s, under UndefinedBehaviorSanitizer 3 s. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_cells.h"
#include "collectives_pool.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(MUSTER_TEST_SANITIZED) || !defined(__OPTIMIZE__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

static void test_each_pair_of_values_on_host_and_far_devices(void **state) {
    (void)state;
    int64_t count, run = 0;
    for (uint64_t s = test_seed(); s < test_seed() + (test_is_full() ? 3 : 1); s++) {
        cell *cells = cell_pairwise(s, SLOW_BUILD, &count);
        run += cells_run(cells, count);
        mst_free(cells);
    }
    print_message("MUSTER_SEED=%llu: %lld cells\n", (unsigned long long)test_seed(), (long long)run);
}

static int64_t without_the_largest(cell *cells, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (cells[i].count < CELL_COUNTS - 1) cells[kept++] = cells[i];
    }
    return kept;
}

static void test_the_whole_matrix(void **state) {
    (void)state;
    if (SLOW_BUILD || collectives_devices() != COLLECTIVES_HOST_AND_FAR) {
        print_message("left to optimised builds without sanitizers, on host devices\n");
        return;
    }
    int64_t count;
    cell *cells = cell_all(&count);
    if (!test_is_full()) count = without_the_largest(cells, count);
    print_message("%lld cells\n", (long long)cells_run(cells, count));
    mst_free(cells);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_of_values_on_host_and_far_devices),
        cmocka_unit_test(test_the_whole_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
