/* Calls that another thread ends. In every order of steps all ranks write what outlasts the call,
 * or none does; nobody is left asleep, and the call that comes later is not ended. */
#include "rendezvous.h"

static muster_status meet(muster_worker *worker) {
    const uint64_t tag = mst_team_tag(s->team, worker);
    mst_team_arrive(s->team, worker, tag);
    return mst_team_wait_all(s->team, worker, tag, "meeting");
}

/* As all_reduce_apply does: seals, meets, and then writes. */
static muster_status seals(muster_worker *worker, const run_plan *plan) {
    for (int32_t round = 1; round < plan->rounds; round++) MUSTER_TRY(meet(worker));
    MUSTER_TRY(mst_worker_seal(worker, "sealing"));
    MUSTER_TRY(meet(worker));
    if (s->run == 0) s->written[worker->rank] = 1;
    return MUSTER_OK;
}

/* Nothing is written in the run: what the caller does behind it counts. */
static muster_status looks(muster_worker *worker, const run_plan *plan) {
    (void)plan;
    return mst_pool_aborted(worker) ? MUSTER_ABORTED : meet(worker);
}

static muster_status nothing(muster_worker *worker, const run_plan *plan) {
    (void)worker, (void)plan;
    return MUSTER_OK;
}

/* Rank 1 does not come before rank 0 has given up. */
static muster_status waits(muster_worker *worker, const run_plan *plan) {
    (void)plan;
    if (worker->rank == 0) {
        const muster_status status = meet(worker);
        mst_counter_publish(&s->heard, 1);
        return status;
    }
    mst_counter_publish(&s->begun, 1);
    mst_counter_wait(&s->heard, 1, &(mst_wait){.timeout_ns = -1});
    return mst_pool_aborted(worker) ? MUSTER_ABORTED : MUSTER_OK;
}

static void apply(int32_t run) {
    for (int32_t rank = 0; run == 0 && s->outcomes[0] == MUSTER_OK && rank < s->pool->size; rank++) s->written[rank] = 1;
}

static const rank_scenario two_seal = {.size = 2, .cancels = true, .runs = {{.body = seals, .rounds = 1}, {.body = nothing, .rounds = 1}}};
static const rank_scenario two_meet = {.size = 2, .cancels = true, .runs = {{.body = seals, .rounds = 2}, {.body = nothing, .rounds = 1}}};
static const rank_scenario three_seal = {
    .size = 3, .cancels = true, .runs = {{.body = seals, .rounds = 1}, {.body = nothing, .rounds = 1}}};
static const rank_scenario two_look = {
    .size = 2, .cancels = true, .after_run = apply, .runs = {{.body = looks, .rounds = 1}, {.body = nothing, .rounds = 1}}};
static const rank_scenario one_waits = {
    .size = 2, .cancels = true, .in_body = true, .runs = {{.body = waits, .rounds = 1}, {.body = nothing, .rounds = 1}}};

const explore_scenario explore_cancel_scenarios[] = {
    CANCEL_SCENARIO("cancel/2_ranks_seal", two_seal, 3),   CANCEL_SCENARIO("cancel/2_ranks_meet_and_seal", two_meet, 2),
    CANCEL_SCENARIO("cancel/2_ranks_look", two_look, 3),   CANCEL_SCENARIO("cancel/1_of_2_waits", one_waits, 3),
    CANCEL_SCENARIO("cancel/3_ranks_seal", three_seal, 2), {0},
};
