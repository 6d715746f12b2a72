/* Aborted runs: a rank fails, or stays away, or is late. Every rank is told, nobody is
 * left asleep, nobody gets its memory back while it is read, and the next run goes well. */
#include "rendezvous.h"

enum { FAILS_AND_COMPUTES = 100 };

/* The failing rank fails, and does not return before rank 0 has heard of it; nor do the others. */
static muster_status computing(muster_worker *worker, const run_plan *plan) {
    const mst_wait wait = {.timeout_ns = -1};
    if (worker->rank == plan->failing) mst_pool_abort(worker, MUSTER_USER);
    if (worker->rank != 0) {
        mst_counter_wait(&s->heard, 1, &wait);
        return worker->rank == plan->failing ? MUSTER_USER : MUSTER_ABORTED;
    }
    muster_status status = rendezvous_inline(worker, plan);
    mst_counter_publish(&s->heard, 1);
    return status;
}

/* Nothing but sections and leaves: the others need not have arrived, their memory is filled since
 * the beginning. */
static muster_status sections(muster_worker *worker, const run_plan *plan) {
    if (worker->rank == plan->failing) return MUSTER_USER;
    uint64_t tag = mst_team_tag(s->team, worker);
    muster_status status = mst_team_read_begin(s->team, worker, tag);
    if (status == MUSTER_OK) {
        for (int32_t peer = 0; peer < worker->size; peer++) {
            if (peer != worker->rank) EXPLORE_CHECK(explore_read(&s->offered[peer]) == 0, "the memory of rank %d has changed", (int)peer);
        }
        mst_team_read_end(s->team, worker, tag);
    }
    muster_status left = mst_team_leave(s->team, worker, tag, "sections");
    explore_write(&s->offered[worker->rank], 1);
    return status == MUSTER_OK ? left : status;
}

#define FAILED .outcomes = {MUSTER_USER, MUSTER_USER, MUSTER_USER}
#define ALL_ABORTED .statuses = {MUSTER_ABORTED, MUSTER_ABORTED, MUSTER_ABORTED}
#define SOME_ABORTED .statuses = {MUSTER_OK, MUSTER_ABORTED, MUSTER_ABORTED}
#define ABSENT                                                                               \
    .outcomes = {MUSTER_INVALID_ARGUMENT, MUSTER_INVALID_ARGUMENT, MUSTER_INVALID_ARGUMENT}, \
    .statuses = {MUSTER_INVALID_ARGUMENT, MUSTER_ABORTED, MUSTER_ABORTED}
#define LATE \
    .deadline = true, .outcomes = {MUSTER_OK, MUSTER_TIMEOUT, MUSTER_TIMEOUT}, .statuses = {MUSTER_OK, MUSTER_TIMEOUT, MUSTER_ABORTED}

#define TWO_RUNS(name, n, function, times, who, way, ...) \
    static const rank_scenario name = {                   \
        .size = n,                                        \
        .runs = {{.body = function, .rounds = times, .failing = who, .how = way, __VA_ARGS__}, {.body = function, .rounds = 1}}}
#define ONE_RUN(name, n, function, times, who, way, ...) \
    static const rank_scenario name = {.size = n, .runs = {{.body = function, .rounds = times, .failing = who, .how = way, __VA_ARGS__}}}

TWO_RUNS(inline_before, 2, rendezvous_inline, 2, 1, FAILS_BEFORE, FAILED, ALL_ABORTED);
TWO_RUNS(inline_before_0, 2, rendezvous_inline, 1, 0, FAILS_BEFORE, FAILED, ALL_ABORTED);
TWO_RUNS(inline_arrived, 2, rendezvous_inline, 1, 1, FAILS_ARRIVED, FAILED, SOME_ABORTED);
TWO_RUNS(inline_away, 2, rendezvous_inline, 2, 1, STAYS_AWAY, ABSENT);
TWO_RUNS(inline_late, 2, rendezvous_inline, 1, 0, 0, LATE);
TWO_RUNS(address_before, 2, rendezvous_by_address, 1, 1, FAILS_BEFORE, FAILED, ALL_ABORTED);
TWO_RUNS(address_arrived, 2, rendezvous_by_address, 1, 1, FAILS_ARRIVED, FAILED, ALL_ABORTED);
TWO_RUNS(address_arrived_0, 2, rendezvous_by_address, 1, 0, FAILS_ARRIVED, FAILED, ALL_ABORTED);
TWO_RUNS(address_reading, 2, rendezvous_by_address, 1, 1, FAILS_READING, FAILED, SOME_ABORTED);
TWO_RUNS(address_reading_0, 2, rendezvous_by_address, 1, 0, FAILS_READING, FAILED, SOME_ABORTED);
TWO_RUNS(address_skips, 2, rendezvous_by_address, 1, 1, SKIPS_SECTION, FAILED, ALL_ABORTED);
TWO_RUNS(address_away, 2, rendezvous_by_address, 1, 0, STAYS_AWAY, ABSENT);
TWO_RUNS(address_late, 2, rendezvous_by_address, 1, 0, 0, LATE);
ONE_RUN(two_compute, 2, computing, 1, 1, FAILS_AND_COMPUTES, FAILED, ALL_ABORTED);
ONE_RUN(three_compute, 3, computing, 1, 2, FAILS_AND_COMPUTES, FAILED, ALL_ABORTED);
ONE_RUN(three_before, 3, rendezvous_inline, 1, 1, FAILS_BEFORE, FAILED, ALL_ABORTED);
ONE_RUN(three_away, 3, rendezvous_inline, 1, 2, STAYS_AWAY, ABSENT);
ONE_RUN(three_sections, 3, sections, 1, 2, FAILS_BEFORE, FAILED, ALL_ABORTED);
ONE_RUN(three_arrived, 3, rendezvous_by_address, 1, 1, FAILS_ARRIVED, FAILED, ALL_ABORTED);
ONE_RUN(three_reading, 3, rendezvous_by_address, 1, 2, FAILS_READING, FAILED, SOME_ABORTED);
ONE_RUN(three_late, 3, rendezvous_inline, 1, 0, 0, LATE);

const explore_scenario explore_lost_scenarios[] = {
    RANK_SCENARIO("abort/inline_fails_before", inline_before),
    RANK_SCENARIO("abort/inline_caller_fails_before", inline_before_0),
    RANK_SCENARIO("abort/inline_fails_after_arrival", inline_arrived),
    RANK_SCENARIO("abort/inline_stays_away", inline_away),
    RANK_SCENARIO("abort/inline_late", inline_late),
    RANK_SCENARIO("abort/fails_and_does_not_return", two_compute),
    RANK_SCENARIO("abort/fails_and_3_ranks_do_not_return", three_compute),
    RANK_SCENARIO("abort/by_address_fails_before", address_before),
    RANK_SCENARIO("abort/by_address_fails_after_arrival", address_arrived),
    RANK_SCENARIO("abort/by_address_caller_fails_after_arrival", address_arrived_0),
    RANK_SCENARIO("abort/by_address_fails_while_reading", address_reading),
    RANK_SCENARIO("abort/by_address_caller_fails_while_reading", address_reading_0),
    RANK_SCENARIO("abort/by_address_fails_without_reading", address_skips),
    RANK_SCENARIO("abort/by_address_caller_stays_away", address_away),
    RANK_SCENARIO("abort/by_address_late", address_late),
    RANK_SCENARIO("abort/inline_3_ranks_fails_before", three_before),
    RANK_SCENARIO("abort/inline_3_ranks_stays_away", three_away),
    RANK_SCENARIO("abort/sections_of_3_ranks_fails", three_sections),
    BOUND_SCENARIO("abort/by_address_3_ranks_fails_after_arrival", three_arrived, 3),
    BOUND_SCENARIO("abort/by_address_3_ranks_fails_while_reading", three_reading, 3),
    BOUND_SCENARIO("abort/inline_3_ranks_late", three_late, 3),
    {0},
};
