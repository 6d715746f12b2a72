/* Splits over several processes that fail in one process: for want of memory, or of lanes. */
#include "base_check.h"
#include "collectives_spans.h"
#include "memory_impl.h"
#include "nodes/nodes_transport_private.h"

#include <string.h>

static const int32_t two_by_two[] = {2, 2};

/* The lanes that are taken in each process. */
static void lanes_of(const spans_launch *launch, uint64_t used[SPANS_PROCESSES][MST_NODES_LANE_WORDS]) {
    memset(used, 0, sizeof(uint64_t[SPANS_PROCESSES][MST_NODES_LANE_WORDS]));
    for (int32_t p = 0; p < launch->processes; p++) mst_nodes_lanes_copy(mst_nodes_lanes_of(launch->process[p].communicator), used[p]);
}

static void assert_lanes_are(const spans_launch *launch, const uint64_t expected[SPANS_PROCESSES][MST_NODES_LANE_WORDS]) {
    uint64_t used[SPANS_PROCESSES][MST_NODES_LANE_WORDS];
    lanes_of(launch, used);
    assert_memory_equal(used, expected, sizeof used);
}

/* ---- no memory ---- */

/* Two parts, each across both processes. The k-th allocation from the split on fails, in either
 * process. */
static muster_status split_without_memory(muster_worker *w, void *argument) {
    const int32_t r = spans_rank(w), *k = argument;
    muster_communicator *across;
    MUSTER_TRY(spans_expect_sum(w, NULL, 6)); /* all are here */
    if (r == 0) mst_memory_fail_at(*k);
    MUSTER_TRY(muster_worker_split(w, NULL, r % 2, r, &across));
    const muster_status status = spans_expect_sum(w, across, r % 2 ? 4 : 2);
    MUSTER_TRY(muster_worker_release(w, across));
    return status;
}

static void test_no_memory_for_a_part(void **state) {
    (void)state;
    uint64_t before[SPANS_PROCESSES][MST_NODES_LANE_WORDS];
    spans_launch launch;
    int32_t k = 0, failed = 0, done = 0;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    assert_ok(spans_run(&launch, split_without_memory, &k)); /* what is kept from call to call is made */
    lanes_of(&launch, before);
    for (k = 1; done < 3; k++) { /* beyond the last allocation */
        const muster_status status = spans_run(&launch, split_without_memory, &k);
        mst_memory_fail_at(0);
        for (int32_t p = 0; p < 2; p++) {
            if (status == MUSTER_OK) assert_int_equal(launch.process[p].status, MUSTER_OK);
            if (status != MUSTER_OK) assert_int_equal(launch.process[p].status, MUSTER_OUT_OF_MEMORY);
        }
        failed += status != MUSTER_OK;
        done = status == MUSTER_OK ? done + 1 : 0;
        assert_lanes_are(&launch, before);
    }
    assert_true(failed > 40);
    k = 0;
    assert_ok(spans_run(&launch, split_without_memory, &k));
    spans_close(&launch);
}

/* ---- no lanes ---- */

enum { LANES = MST_NODES_PART_LANES };

/* All lanes but one are taken, so the second of two colors finds none. */
static muster_status split_without_lanes(muster_worker *w, void *argument) {
    static _Thread_local muster_communicator *parts[LANES];
    const int32_t r = spans_rank(w);
    muster_communicator *across;
    (void)argument;
    for (int32_t i = 0; i < LANES - 1; i++) MUSTER_TRY(muster_worker_split(w, NULL, 0, r, &parts[i]));
    const muster_status status = muster_worker_split(w, NULL, r % 2, r, &across);
    for (int32_t i = 0; i < LANES - 1; i++) MUSTER_TRY(muster_worker_release(w, parts[i]));
    return status == MUSTER_OK ? mst_error(MUSTER_USER, "rank %d: a lane too many", r) : status;
}

static muster_status split_into_the_last_lane(muster_worker *w, void *argument) {
    static _Thread_local muster_communicator *parts[LANES];
    const int32_t r = spans_rank(w);
    (void)argument;
    for (int32_t i = 0; i < LANES; i++) MUSTER_TRY(muster_worker_split(w, NULL, 0, r, &parts[i]));
    MUSTER_TRY(spans_expect_sum(w, parts[LANES - 1], 6));
    for (int32_t i = 0; i < LANES; i++) MUSTER_TRY(muster_worker_release(w, parts[i]));
    return MUSTER_OK;
}

static void test_no_lane_for_a_part(void **state) {
    (void)state;
    uint64_t before[SPANS_PROCESSES][MST_NODES_LANE_WORDS];
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    lanes_of(&launch, before);
    for (int32_t turn = 0; turn < 2; turn++) {
        assert_int_equal(spans_run(&launch, split_without_lanes, NULL), MUSTER_OUT_OF_RANGE);
        for (int32_t p = 0; p < 2; p++) assert_non_null(strstr(launch.process[p].message, "muster_worker_split: expected at most "));
        assert_lanes_are(&launch, before);
        assert_ok(spans_run(&launch, split_into_the_last_lane, NULL));
        assert_lanes_are(&launch, before);
    }
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory_for_a_part), cmocka_unit_test(test_no_lane_for_a_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
