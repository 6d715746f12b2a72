/* The transport `nodes`: its table and its state. */
#include "rounds_private.h"

#include "names_private.h"
#include "nodes_mail_private.h"
#include "nodes_staging_private.h"
#include "nodes_transport_private.h"
#include "slabs_private.h"

#include <stdio.h>

muster_status mst_nodes_grow(mst_nodes_memory *memory, int64_t bytes) {
    if (bytes <= memory->bytes) return MUSTER_OK;
    void *grown = mst_alloc_uninitialised((size_t)bytes);
    if (!grown) return mst_out_of_memory("the requests of all processes", bytes);
    mst_free(memory->at);
    *memory = (mst_nodes_memory){grown, bytes};
    return MUSTER_OK;
}

/* ---- buffers ---- */

/* Two areas and two arrays of counts for each buffer. */
muster_status mst_nodes_open_buffers(mst_nodes_state *state) {
    const int64_t arrays = (state->span->processes * (int64_t)sizeof(int64_t) + 63) / 64 * 64;
    const int64_t area = mst_nodes_area_bytes(state->span), each = 2 * area + 2 * arrays;
    if (state->block) return MUSTER_OK;
    if (!state->prepared) MUSTER_TRY(mst_schedule_prepare(&state->schedule, &state->moves, 0, 0));
    state->prepared = true;
    if (!state->slices && mst_nodes_name_of(state->communicator) == MST_NODES_two_dimensional)
        MUSTER_TRY(mst_slices_open(&state->moves, state->span->most, &state->slices));
    char *next = mst_wire_memory(each * MST_NODES_BUFFERS, &state->block);
    if (!next) return mst_out_of_memory("the buffers between processes", each * MST_NODES_BUFFERS);
    state->block_bytes = each * MST_NODES_BUFFERS;
    for (int32_t i = 0; i < MST_NODES_BUFFERS; i++, next += each) {
        state->buffers[i].from = next;
        state->buffers[i].to = next + area;
        state->buffers[i].bytes = (int64_t *)(next + 2 * area);
        state->buffers[i].send_bytes = (int64_t *)(next + 2 * area + arrays);
    }
    return MUSTER_OK;
}

/* ---- the state ---- */

/* Before the lane is given back: an arrival that still listens would take what is sent to the next
 * communicator there. */
static void state_close(mst_nodes_state *state) {
    mst_wire *wire = state->channel.wire;
    mst_nodes_returned_close(state);
    pthread_mutex_lock(&wire->lock);
    mst_arrival_close(&state->arrival);
    pthread_mutex_unlock(&wire->lock);
}

static void state_free(mst_nodes_state *state) {
    mst_nodes_memory *const memories[] = {&state->records,        &state->gathered, &state->requests, &state->pointers,
                                          &state->momenta,        &state->offers,   &state->counts,   &state->gathered_counts,
                                          &state->gathered_lanes, &state->lengths,  &state->weights};
    if (state->block) mst_wire_memory_free(state->block, state->block_bytes, mst_nodes_in_flight(state));
    if (state->prepared) mst_schedule_free(&state->schedule);
    mst_slices_free(state->slices);
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) mst_free(memories[i]->at);
    if (state->mail) mst_nodes_mail_close(state->mail);
    mst_free(state->mail);
    for (int32_t m = 0; state->desks && m < state->communicator->size; m++) mst_nodes_desk_close(&state->desks[m], false);
    mst_free(state->desks);
    mst_free(state->lanes);
    mst_free(state->made);
    mst_free(state);
}

/* A member that fails before it enters its first collective would else never take what the others
 * have sent to it by then, and close with it on the way. */
static muster_status listen_to_others(mst_nodes_state *state, const char *where, const muster_communicator *parent) {
    mst_wire *wire = state->channel.wire;
    pthread_mutex_lock(&wire->lock);
    const mst_progress progress = mst_arrival_listen(&state->arrival);
    pthread_mutex_unlock(&wire->lock);
    if (progress == MST_PROGRESS_DONE) {
        MUSTER_TRY(mst_nodes_returned_open(state, where, parent));
        if (state->span->lane == MST_SPAN_WORLD_LANE)
            mst_pool_set_elsewhere(state->communicator->pool, mst_nodes_call_failed, state->span->nodes);
        return MUSTER_OK;
    }
    if (progress == MST_PROGRESS_LOST) return mst_error(MUSTER_NODE_LOST, "%s: another process has ended", where);
    return mst_collective_error(where, MUSTER_SYSTEM);
}

/* Of a process in an arrival: the records of its members' requests, and the values of a small
 * collective. The same in all processes. */
static int32_t payload_bytes(const mst_rank_span *span) {
    return MST_NODES_PAYLOAD_BYTES + (int32_t)(span->most * (int64_t)sizeof(mst_nodes_record) + 63) / 64 * 64;
}

static muster_status nodes_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    mst_rank_span *span = communicator->span;
    mst_nodes_state *state = mst_alloc(sizeof *state);
    if (!state) return mst_out_of_memory(where, sizeof *state);
    state->span = span;
    state->communicator = communicator;
    state->channel =
        (mst_channel){.wire = span->nodes->wire, .lane = span->lane, .size = span->processes, .rank = span->here, .members = span->numbers};
    state->moves = state->channel;
    const muster_status status = mst_arrival_open(&state->arrival, &state->channel, payload_bytes(span));
    if (status != MUSTER_OK) return mst_free(state), status;
    communicator->state[MST_TRANSPORT_nodes] = state;
    state->lanes = mst_alloc((size_t)span->size * sizeof *state->lanes);
    state->made = mst_alloc((size_t)communicator->size * sizeof *state->made);
    state->desks = mst_alloc((size_t)communicator->size * sizeof *state->desks);
    if (!state->lanes || !state->made || !state->desks) return mst_out_of_memory(where, communicator->size * (int64_t)sizeof *state->made);
    state->mail = mst_alloc(sizeof *state->mail);
    if (!state->mail) return mst_out_of_memory(where, sizeof *state->mail);
    MUSTER_TRY(mst_nodes_mail_open(state->mail, &state->channel, span));
    if (!mst_nodes_lanes_of(communicator))
        MUSTER_TRY(mst_nodes_lanes_open(where, (mst_nodes_lanes **)&communicator->world->open[MST_TRANSPORT_nodes]));
    MUSTER_TRY(mst_nodes_staging_create(where, communicator));
    return listen_to_others(state, where, parent);
}

/* Closing the world ends the table of lanes before the communicators. A communicator that was not
 * made whole has no span any more, and its lane is given back by the caller that has taken it. */
static void nodes_destroy(muster_communicator *communicator) {
    mst_nodes_lanes *lanes = mst_nodes_lanes_of(communicator);
    mst_nodes_state *state = mst_nodes_of(communicator);
    if (state->span->lane == MST_SPAN_WORLD_LANE) mst_pool_set_elsewhere(communicator->pool, NULL, NULL);
    state_close(state);
    if (lanes && communicator->span) mst_nodes_leave_lanes(state, lanes);
    state_free(state);
}

static void nodes_close(muster_communicator *world) { mst_nodes_lanes_close(world->open[MST_TRANSPORT_nodes]); }

/* ---- the table ---- */

static void nodes_describe(const muster_communicator *communicator, char *text, size_t size) {
    const mst_nodes_state *state = mst_nodes_of(communicator);
    const mst_nodes_name name = mst_nodes_name_of(communicator);
    const muster_dtype wire = communicator->world->wire_dtype;
    *text = '\0';
    if (!state) return;
    int at = snprintf(text, size, "between %d processes ", (int)state->span->processes);
    if (name)
        at += snprintf(text + at, size - (size_t)at, "%s: %s, as asked for", mst_nodes_name_text((int32_t)name - 1),
                       mst_nodes_name_words(name));
    else
        at += snprintf(text + at, size - (size_t)at, "by size");
    if (wire) snprintf(text + at, size - (size_t)at, ", sums and averages of f32 in %s", muster_dtype_name(wire));
}

static int32_t nodes_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    (void)communicator, (void)request, (void)view;
    return MST_BID_GOOD;
}

const mst_transport mst_transport_nodes = {.name = "nodes",
                                           .number = MST_TRANSPORT_nodes,
                                           .spans = true,
                                           .algorithm_name = mst_nodes_name_text,
                                           .describe = nodes_describe,
                                           .close = nodes_close,
                                           .create = nodes_create,
                                           .destroy = nodes_destroy,
                                           .bid = nodes_bid,
                                           .prepare = mst_nodes_prepare,
                                           .run = mst_nodes_run,
                                           .finish = mst_nodes_finish,
                                           .reserve = mst_nodes_reserve,
                                           .reserve_apply = mst_nodes_reserve_apply,
                                           .inside = mst_nodes_name_inside,
                                           .split = mst_nodes_split,
                                           .message = mst_nodes_message,
                                           .group = mst_nodes_group};
