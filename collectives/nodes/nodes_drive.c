/* What a leader does with the wire inside a run: it drives arrivals and moves until they are
 * done. */
#include "rounds_private.h"

#include "nodes_transport_private.h"

/* ---- waiting ---- */

/* Inside of a sentence a public function is named without its prefix. */
static const char *short_name(const char *what) {
    static const char prefix[] = "muster_worker_";
    return strncmp(what, prefix, sizeof prefix - 1) == 0 ? what + sizeof prefix - 1 : what;
}

static mst_nodes_wait wait_of(const mst_nodes_state *state, const muster_worker *worker, const char *what) {
    mst_nodes_wait wait = {.where = what, .spin_ns = mst_pool_settings(worker->pool)->spin_ns};
    wait.waiter.doing = short_name(what);
    wait.waiter.lane = state->span->lane;
    wait.waiter.epoch = mst_nodes_epoch(state->span->nodes);
    mst_worker_deadlines(worker, &wait.warn_after_ns, &wait.fail_after_ns);
    return wait;
}

static bool is_aborted(void *context) { return mst_pool_aborted(context); }

muster_status mst_nodes_drive_call(mst_nodes_state *state, muster_worker *worker, mst_nodes_driven *driven) {
    mst_nodes_wait wait = wait_of(state, worker, driven->what);
    wait.phase = MST_WAIT_CALL;
    wait.aborted = driven->ends ? driven->ends : is_aborted;
    wait.context = driven->ends ? driven->context : worker;
    wait.wants = driven->wants;
    wait.waiter.worker = worker;
    wait.waiter.enters = driven->arrival ? state->lane : NULL;
    wait.waiter.arrival = driven->arrival;
    mst_worker_waits_elsewhere(worker, true);
    const muster_status status = mst_nodes_wait_run(state->span->nodes, &wait, driven->machine);
    mst_worker_waits_elsewhere(worker, false);
    driven->returned = wait.returned;
    if (status == MUSTER_ABORTED && mst_pool_aborted(worker)) return mst_refuse_aborted(state->communicator, worker, driven->what);
    return status;
}

/* A move needs no rank that could have returned: all have entered. */
muster_status mst_nodes_drive(mst_nodes_state *state, muster_worker *worker, const char *what) {
    mst_nodes_driven driven = {.what = what, .machine = mst_nodes_moving(state)};
    const muster_status status = mst_nodes_drive_call(state, worker, &driven);
    state->broken = status != MUSTER_OK;
    return status;
}

/* ---- agreeing ---- */

/* An arrival can be left at any time: what it leaves in the wire is known as stale by its epoch and
 * its number. */
muster_status mst_nodes_arrive(mst_nodes_state *state, muster_worker *worker, const char *what, const void *mine, int64_t bytes,
                               bool *matched) {
    const uint64_t epoch = mst_nodes_epoch(state->span->nodes);
    if (state->epoch != epoch) state->arrivals = 0;
    state->epoch = epoch;
    const mst_arrival_input input = {.epoch = epoch,
                                     .sequence = ++state->arrivals,
                                     .signature = state->broken,
                                     .payload = mine,
                                     .payload_bytes = (int32_t)bytes,
                                     .matched = !mst_nodes_one_host(state->span->nodes)};
    mst_nodes_waiting waiting = {.state = state, .worker = worker, .what = what};
    const mst_nodes_wants wants = {
        .wanted = mst_nodes_arrival_wanted, .holds = mst_nodes_arrival_holds, .refuse = mst_nodes_arrival_refuse, .context = &waiting};
    mst_nodes_driven driven = {.what = what, .machine = &state->arrival.machine, .wants = &wants, .arrival = state->arrivals};
    mst_arrival_begin(&state->arrival, &input);
    MUSTER_TRY(mst_nodes_drive_call(state, worker, &driven));
    *matched = mst_arrival_matches(&state->arrival);
    return MUSTER_OK;
}

muster_status mst_nodes_gather_all(mst_nodes_state *state, muster_worker *worker, const char *what, const void *mine, int64_t bytes,
                                   void *all) {
    const int64_t most = state->arrival.capacity;
    for (int64_t at = 0; at < bytes; at += most) {
        const int64_t chunk = bytes - at < most ? bytes - at : most;
        bool matched;
        MUSTER_TRY(mst_nodes_arrive(state, worker, what, (const char *)mine + at, chunk, &matched));
        if (!matched) return mst_error(MUSTER_INTERNAL, "%s: the processes do not bring the same number of bytes", what);
        for (int32_t p = 0; p < state->span->processes; p++)
            memcpy((char *)all + p * bytes + at, state->arrival.all + p * chunk, (size_t)chunk);
    }
    return MUSTER_OK;
}
