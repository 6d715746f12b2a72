/* Collectives over several processes: every collective, dtype and reduction, and sizes on both
 * sides of every bound, against an oracle that shares no code with the library. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_node_cases.h"
#include "collectives_spans.h"
#include "core/transport_private.h"

#include <stdlib.h>

static void run_launch(const int32_t *counts, int32_t processes, bool large) {
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = counts, .processes = processes});
    node_case_list list = node_cases_all(launch.total, large);
    node_cases_progress p = {.list = &list};
    assert_ok(spans_run(&launch, node_cases_run, &p));
    assert_int_equal(p.entered, list.count * launch.total);
    assert_int_equal(list.count, test_kept(NODE_CASES_SMALL, node_cases_one_in()) +
                                     (large ? test_kept(NODE_CASES_LARGE, node_cases_large_one_in()) : 0));
    assert_true(spans_sent_bytes(&launch) > list.count * 128);
    for (int32_t i = 0; i < processes; i++)
        assert_string_equal(launch.process[i].communicator->global->members[0].served_transport, "nodes");
    free(list.cases);
    spans_close(&launch);
}

static void test_two_processes_of_one_rank(void **state) {
    (void)state;
    run_launch((const int32_t[]){1, 1}, 2, true);
}

static void test_three_ranks(void **state) {
    (void)state;
    run_launch((const int32_t[]){2, 1}, 2, false);
}

static void test_two_by_two(void **state) {
    (void)state;
    run_launch((const int32_t[]){2, 2}, 2, true);
}

static void test_one_and_three(void **state) {
    (void)state;
    run_launch((const int32_t[]){1, 3}, 2, false);
}

static void test_three_processes(void **state) {
    (void)state;
    run_launch((const int32_t[]){1, 2, 1}, 3, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes_of_one_rank),
        cmocka_unit_test(test_three_ranks),
        cmocka_unit_test(test_two_by_two),
        cmocka_unit_test(test_one_and_three),
        cmocka_unit_test(test_three_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
