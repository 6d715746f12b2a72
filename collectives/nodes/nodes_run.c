/* Serving a batch over several processes: the leaders agree, then every item moves in steps, in
 * which the members of a process fill and empty buffers while their leader moves others. */
#include "nodes_transport_private.h"

/* ---- meetings of the members of this process ---- */

muster_status mst_nodes_conclude(mst_nodes_state *state, muster_status status) {
    state->outcome.status = status;
    if (status != MUSTER_OK) mst_error_save(state->outcome.message);
    return status;
}

/* Meetings are not counted as collectives of the worker. */
muster_status mst_nodes_join_members(const mst_batch *batch) {
    mst_nodes_state *state = mst_nodes_of(batch->communicator);
    mst_team *team = state->span->local->team;
    const uint64_t sequence = batch->worker->sequence, tag = mst_team_tag(team, batch->worker);
    batch->worker->sequence = sequence;
    mst_nodes_outcome *brought = &state->brought[tag % 2]; /* tags of meetings follow one another */
    if (mst_nodes_leads(batch)) {
        brought->status = state->outcome.status;
        if (brought->status != MUSTER_OK) memcpy(brought->message, state->outcome.message, sizeof brought->message);
    }
    mst_team_arrive(team, batch->worker, tag);
    MUSTER_TRY(mst_team_wait_all(team, batch->worker, tag, batch->function));
    return brought->status == MUSTER_OK ? MUSTER_OK : mst_error_restore(brought->status, brought->message);
}

/* ---- one item ---- */

mst_view mst_nodes_view(const mst_nodes_state *state, const mst_batch *batch, int32_t entry) {
    const mst_request **pointers = state->pointers.at;
    return (mst_view){
        .requests = pointers + (int64_t)entry * state->span->size, .size = state->span->size, .rank = state->span->ranks[batch->rank]};
}

static mst_nodes_plan plan_of(const mst_batch *batch, const mst_view *view) {
    switch (mst_view_own(view)->collective) {
    case MST_ALL_REDUCE:
    case MST_ALL_REDUCE_AXPY:
    case MST_REDUCE:
        return mst_nodes_fold_plan(batch, view);
    case MST_REDUCE_SCATTER:
        return mst_nodes_is_ordered(batch->communicator, mst_view_own(view)) ? mst_nodes_fold_plan(batch, view)
                                                                             : mst_nodes_scatter_plan(batch, view);
    case MST_BARRIER:
        return (mst_nodes_plan){.rounds = 0};
    default:
        return mst_nodes_stream_plan(batch, view);
    }
}

/* The leader begins the move of the round before, so that it is on its way while the members fill
 * the next buffer, and then drives it to its end. */
static muster_status begin_move(mst_nodes_state *state, const mst_batch *batch, const mst_view *view, const mst_nodes_plan *plan,
                                int64_t round) {
    mst_nodes_buffer *buffer = &state->buffers[round % MST_NODES_BUFFERS];
    plan->move(batch, view, round, buffer);
    return mst_nodes_move_begin(state, &buffer->move);
}

/* What a collective of the MPI has only queued on a network does not travel while the program
 * computes, and the collective cannot be told to wait for it. An arrival behind the last one, whose
 * messages are matched, shows that all have all of it. */
static muster_status leave_mpi(mst_nodes_state *state, const mst_batch *batch) {
    bool matched;
    if (state->schedule.algorithm != MST_MOVE_MPI || mst_nodes_one_host(state->span->nodes)) return MUSTER_OK;
    return mst_nodes_arrive(state, batch->worker, batch->function, NULL, 0, &matched);
}

static muster_status run_item(mst_nodes_state *state, const mst_batch *batch, int32_t entry) {
    const mst_view view = mst_nodes_view(state, batch, entry);
    if (mst_nodes_ranks_serve(batch, &view)) return mst_nodes_ranks_run(state, batch, &view);
    const mst_nodes_plan plan = plan_of(batch, &view);
    for (int64_t step = 0; plan.rounds > 0 && step <= plan.rounds; step++) {
        const bool moves = step > 0 && mst_nodes_leads(batch);
        muster_status status = moves ? begin_move(state, batch, &view, &plan, step - 1) : MUSTER_OK;
        if (step < plan.rounds) plan.fill(batch, &view, step, &state->buffers[step % MST_NODES_BUFFERS]);
        if (moves && status == MUSTER_OK) status = mst_nodes_drive(state, batch->worker, batch->function);
        if (moves && status == MUSTER_OK && step == plan.rounds) status = leave_mpi(state, batch);
        if (moves) mst_nodes_conclude(state, status);
        MUSTER_TRY(mst_nodes_join_members(batch));
        if (step > 0) plan.drain(batch, &view, step - 1, &state->buffers[(step - 1) % MST_NODES_BUFFERS]);
    }
    return MUSTER_OK;
}

/* A rank of another process that has returned ends the call, and so does a deadline, as in one
 * process. The members have met: a run that is aborted before would hide why. */
static muster_status end_run(mst_nodes_state *state, const mst_batch *batch, muster_status status) {
    if (!mst_nodes_leads(batch)) return status;
    if (state->returned || status == MUSTER_TIMEOUT) mst_pool_abort(batch->worker, status);
    state->returned = false;
    return status;
}

static muster_status serve(mst_nodes_state *state, const mst_batch *batch) {
    if (batch->requests->collective == MST_SPLIT) return mst_nodes_split_run(state, batch);
    if (mst_request_applies(batch->requests)) {
        MUSTER_TRY(mst_nodes_apply_run(state, batch));
    } else if (state->small.bytes > 0) {
        const mst_view view = mst_nodes_view(state, batch, 0);
        mst_nodes_small_take(state, batch, &view);
    } else {
        for (int32_t i = 0; i < batch->count; i++) MUSTER_TRY(run_item(state, batch, i));
    }
    if (mst_nodes_leads(batch)) state->served++;
    batch->member->served_algorithm = mst_nodes_served(state);
    return MUSTER_OK;
}

muster_status mst_nodes_run(const mst_batch *batch) {
    mst_nodes_state *state = mst_nodes_of(batch->communicator);
    if (mst_nodes_leads(batch)) mst_nodes_conclude(state, mst_nodes_agree(state, batch));
    muster_status status = mst_nodes_join_members(batch);
    if (status == MUSTER_OK) status = serve(state, batch);
    return status == MUSTER_OK ? MUSTER_OK : end_run(state, batch, status);
}
