/* What the tests of the simulated NCCL share: a machine, a team on it, tasks of its ranks, and what
 * a test finds in the end. */
#ifndef NCCL_CHECK_H
#define NCCL_CHECK_H

#include "base_check.h"
#include "base_seed.h"
#include "nccl_team.h"
#include "sim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAYBE_UNUSED __attribute__((unused))

static MAYBE_UNUSED void reset(int devices, uint64_t turn) {
    muster_sim_reset(
        &(muster_sim_options){.devices = devices, .seed = test_seed() + turn, .longest_delay = turn % 2 ? 200 : 0, .memory = 32 << 20});
    assert_int_equal(cuda.cuInit(0), MST_CU_SUCCESS);
}

/* No rule was broken, and nothing is left. */
static MAYBE_UNUSED void assert_clean(void) {
    if (muster_sim_check_leaks() || muster_sim_hazard_count()) fail_msg("%s", muster_sim_hazards());
}

static MAYBE_UNUSED void assert_reported(const char *text) {
    if (!strstr(muster_sim_hazards(), text)) fail_msg("\"%s\" is not in: %s", text, muster_sim_hazards());
}

static MAYBE_UNUSED void open_team(team *t, int devices, bool blocking, uint64_t turn) {
    reset(devices, turn);
    assert_true(team_open(t, devices, blocking));
}

static MAYBE_UNUSED mst_nccl_result sum(team *t, int rank, int buffer, size_t count) {
    void *at = team_at(t, rank, buffer, 0);
    return nccl.ncclAllReduce(at, at, count, MST_NCCL_INT32, MST_NCCL_SUM, t->comms[rank], t->streams[rank]);
}

/* ---- tasks ---- */

enum { STEPS = 30 };

/* Nothing waits in the host but for the issue: each sum is over what the one before gave. */
static MAYBE_UNUSED mst_nccl_result powers_task(team *t, int rank, void *argument) {
    uint32_t value = 1, expected = 1;
    (void)argument;
    TEAM_TRY(team_write(t, rank, 0, 400, &value, sizeof value));
    for (int i = 0; i < STEPS; i++) {
        TEAM_TRY(team_wait(t->comms[rank], sum(t, rank, 0, 101)));
        expected *= (uint32_t)t->size;
    }
    TEAM_TRY(team_read(t, rank, 0, 400, &value, sizeof value));
    return value == expected ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static MAYBE_UNUSED mst_nccl_result abort_and_sync_task(team *t, int rank, void *argument) {
    (void)argument;
    TEAM_TRY(nccl.ncclCommAbort(t->comms[rank]));
    t->comms[rank] = NULL;
    return team_sync(t, rank);
}

/* One message from this rank to each other one; the pairs are connected afterwards. */
static MAYBE_UNUSED mst_nccl_result deal_task(team *t, int rank, void *argument) {
    const int from = *(int *)argument;
    void *at = team_at(t, rank, 0, 0);
    TEAM_TRY(nccl.ncclGroupStart());
    for (int to = 0; to < t->size; to++) {
        if (to == from || (rank != from && rank != to)) continue;
        if (rank == from) TEAM_TRY(nccl.ncclSend(at, 1, MST_NCCL_INT32, to, t->comms[rank], t->streams[rank]));
        if (rank == to) TEAM_TRY(nccl.ncclRecv(at, 1, MST_NCCL_INT32, from, t->comms[rank], t->streams[rank]));
    }
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclGroupEnd()));
    return team_sync(t, rank);
}

#endif
