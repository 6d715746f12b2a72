/* The life of a pool: threads that are not asleep yet, runs one after another, failures of several,
 * the end. */
#include "rank.h"

static muster_status nothing(muster_worker *worker, const run_plan *plan) {
    return rank_fails(worker, plan, 0, 1) ? MUSTER_USER : MUSTER_OK;
}
static muster_status all_fail(muster_worker *worker, const run_plan *plan) {
    (void)worker, (void)plan;
    return MUSTER_USER;
}

#define FAILED .outcomes = {MUSTER_USER, MUSTER_USER, MUSTER_USER}

static const rank_scenario two_live = {
    .size = 2, .awake = true, .destroys = true, .runs = {{.body = nothing, .rounds = 1}, {.body = nothing, .rounds = 1}}};
static const rank_scenario two_fail = {
    .size = 2,
    .runs = {{.body = all_fail, .rounds = 1, FAILED, .statuses = {MUSTER_USER, MUSTER_USER, MUSTER_USER}}, {.body = nothing, .rounds = 1}}};
static const rank_scenario three_live = {.size = 3, .awake = true, .destroys = true, .runs = {{.body = nothing, .rounds = 1}}};
static const rank_scenario three_run = {
    .size = 3, .runs = {{.body = nothing, .rounds = 1, .failing = 2, .how = 1, FAILED}, {.body = nothing, .rounds = 1}}};

static const rank_scenario own_live = {.size = 2,
                                       .dedicated_rank0 = true,
                                       .awake = true,
                                       .destroys = true,
                                       .runs = {{.body = nothing, .rounds = 1}, {.body = nothing, .rounds = 1, .single = true}}};
static const rank_scenario own_fail = {
    .size = 2,
    .dedicated_rank0 = true,
    .runs = {{.body = nothing, .rounds = 1, .failing = 0, .how = 1, FAILED}, {.body = nothing, .rounds = 1}}};

const explore_scenario explore_pool_scenarios[] = {
    RANK_SCENARIO("pool/life_of_2", two_live),
    RANK_SCENARIO("pool/both_fail", two_fail),
    RANK_SCENARIO("pool/life_of_3", three_live),
    RANK_SCENARIO("pool/3_ranks_fail_and_run_again", three_run),
    RANK_SCENARIO("pool/dedicated_rank0", own_live),
    RANK_SCENARIO("pool/dedicated_rank0_fails", own_fail),
    {0},
};
