#include "rendezvous.h"

/* false: the body is to return `status`. */
static bool may_enter(const muster_worker *worker, const run_plan *plan, int32_t round, muster_status *status) {
    *status = MUSTER_OK;
    if (rank_fails(worker, plan, round, STAYS_AWAY)) return false;
    if (!rank_fails(worker, plan, round, FAILS_BEFORE)) return true;
    *status = MUSTER_USER;
    return false;
}

static void check_payloads(uint64_t tag, int32_t round) {
    for (int32_t peer = 0; peer < s->team->size; peer++) {
        int64_t expected = rank_value(round, s->team->members[peer].rank),
                found = explore_read(mst_team_flag_line(s->team, peer, tag)->payload);
        EXPLORE_CHECK(found == expected, "the payload of rank %d in round %d is %lld instead of %lld", (int)s->team->members[peer].rank,
                      (int)round, (long long)found, (long long)expected);
    }
}

static muster_status rendezvous_inline_once(muster_worker *worker, const run_plan *plan, int32_t round) {
    uint64_t tag = mst_team_tag(s->team, worker);
    explore_write(mst_team_flag_line(s->team, mst_team_member_of(s->team, worker), tag)->payload, rank_value(round, worker->rank));
    mst_team_arrive(s->team, worker, tag);
    if (rank_fails(worker, plan, round, FAILS_ARRIVED)) return MUSTER_USER;
    MUSTER_TRY(mst_team_wait_all(s->team, worker, tag, "inline"));
    check_payloads(tag, round);
    return MUSTER_OK;
}

muster_status rendezvous_inline(muster_worker *worker, const run_plan *plan) {
    muster_status status;
    if (mst_team_member_of(s->team, worker) < 0) return MUSTER_OK;
    for (int32_t round = 0; round < plan->rounds; round++) {
        if (!may_enter(worker, plan, round, &status)) return status;
        MUSTER_TRY(rendezvous_inline_once(worker, plan, round));
    }
    return MUSTER_OK;
}

/* Every other rank's memory. */
static void check_memory(const muster_worker *worker, int32_t round) {
    for (int32_t member = 0; member < s->team->size; member++) {
        int32_t peer = s->team->members[member].rank;
        if (peer == worker->rank) continue;
        int64_t expected = rank_value(round, peer), found = explore_read(&s->offered[peer]);
        EXPLORE_CHECK(found == expected, "the memory of rank %d in round %d is %lld instead of %lld", (int)peer, (int)round,
                      (long long)found, (long long)expected);
    }
}

static muster_status read_all(muster_worker *worker, const run_plan *plan, int32_t round, uint64_t tag) {
    if (rank_fails(worker, plan, round, SKIPS_SECTION)) return MUSTER_USER;
    MUSTER_TRY(mst_team_read_begin(s->team, worker, tag));
    muster_status status = MUSTER_OK;
    if (rank_fails(worker, plan, round, FAILS_READING)) {
        mst_pool_abort(worker, MUSTER_USER);
        status = MUSTER_USER;
    }
    check_memory(worker, round);
    mst_team_read_end(s->team, worker, tag);
    return status;
}

static muster_status arrived_by_address(muster_worker *worker, const run_plan *plan, int32_t round, uint64_t tag) {
    if (rank_fails(worker, plan, round, FAILS_ARRIVED)) return MUSTER_USER;
    MUSTER_TRY(mst_team_wait_all(s->team, worker, tag, "by address"));
    return read_all(worker, plan, round, tag);
}

static muster_status rendezvous_by_address_once(muster_worker *worker, const run_plan *plan, int32_t round) {
    uint64_t tag = mst_team_tag(s->team, worker);
    explore_write(&s->offered[worker->rank], rank_value(round, worker->rank));
    mst_team_arrive(s->team, worker, tag);
    muster_status status = arrived_by_address(worker, plan, round, tag);
    if (status != MUSTER_OK) mst_pool_abort(worker, status); /* or the leave would wait for what never comes */
    muster_status left = mst_team_leave(s->team, worker, tag, "by address");
    explore_write(&s->offered[worker->rank], 0); /* it is this rank's alone again */
    return status == MUSTER_OK ? left : status;
}

muster_status rendezvous_by_address(muster_worker *worker, const run_plan *plan) {
    muster_status status;
    for (int32_t round = 0; round < plan->rounds; round++) {
        if (!may_enter(worker, plan, round, &status)) return status;
        MUSTER_TRY(rendezvous_by_address_once(worker, plan, round));
    }
    return MUSTER_OK;
}
