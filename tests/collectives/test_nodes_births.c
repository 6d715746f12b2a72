/* Communicators that have had the same lane one after the other, in one call and in two, differ by
 * their births, which are the same in all processes: so a question about one is not answered for
 * another. */
#include "base_check.h"
#include "collectives_spans.h"
#include "nodes/nodes_transport_private.h"
#include "nodes/rounds_private.h"

enum { RANKS = 4, CALLS = 2, TURNS = 3, NOTES = CALLS * TURNS * 2 };

typedef struct birth {
    int32_t lane;
    uint64_t birth;
} birth;
static birth births[RANKS][NOTES];
static int32_t counts[RANKS];

static void note(muster_worker *w, const muster_communicator *part) {
    const mst_nodes_state *state = mst_nodes_of(part);
    const int32_t rank = spans_rank(w), k = counts[rank]++;
    if (k < NOTES) births[rank][k] = (birth){state->channel.lane, state->lane->birth};
}

/* A part of all, and a part of that. Both are released, so that the next ones get their lanes. */
static muster_status split_twice(muster_worker *w, void *argument) {
    (void)argument;
    for (int32_t turn = 0; turn < TURNS; turn++) {
        muster_communicator *part, *inner;
        MUSTER_TRY(muster_worker_split(w, NULL, 0, spans_rank(w), &part));
        note(w, part);
        MUSTER_TRY(muster_worker_split(w, part, 0, spans_rank(w), &inner));
        note(w, inner);
        MUSTER_TRY(muster_worker_release(w, inner));
        MUSTER_TRY(muster_worker_release(w, part));
    }
    return MUSTER_OK;
}

static void test_communicators_of_one_lane_differ_by_their_births(void **state) {
    static const int32_t layouts[][RANKS] = {{2, 2}, {1, 2, 1}, {1, 1, 1, 1}};
    static const int32_t processes[] = {2, 3, 4};
    int32_t cases = 0;
    (void)state;
    for (int32_t l = 0; l < 3; l++) {
        spans_launch launch;
        memset(counts, 0, sizeof counts);
        spans_open(&launch, &(spans_options){.counts = layouts[l], .processes = processes[l]});
        for (int32_t call = 0; call < CALLS; call++) assert_ok(spans_run(&launch, split_twice, NULL));
        spans_close(&launch);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(counts[rank], NOTES);
            for (int32_t k = 0; k < NOTES; k++, cases++) {
                assert_int_equal(births[rank][k].lane, births[0][k % 2].lane); /* lanes are used again */
                assert_int_equal(births[rank][k].birth, births[0][k].birth);
                for (int32_t other = k % 2; other < k; other += 2) assert_int_not_equal(births[rank][k].birth, births[rank][other].birth);
            }
        }
    }
    assert_int_equal(cases, 3 * RANKS * NOTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_communicators_of_one_lane_differ_by_their_births),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
