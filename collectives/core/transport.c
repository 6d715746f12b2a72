/* The registry of transports, and the choice of those that serve a communicator. */
#include "transport_private.h"

#include <stdio.h>
#include <string.h>

static const mst_transport *const transports[MST_TRANSPORT_COUNT] = {
#define MST_TRANSPORT(name) [MST_TRANSPORT_##name] = &mst_transport_##name,
#include "transports.def"
#undef MST_TRANSPORT
};

const mst_transport *mst_transport_at(int32_t number) { return transports[number]; }

/* ---- names ---- */

static int32_t find_algorithm(const mst_transport *transport, const char *name) {
    for (int32_t a = 0; transport->algorithm_name(a); a++)
        if (strcmp(transport->algorithm_name(a), name) == 0) return a + 1;
    return 0;
}

/* "reference, inline, direct, p2p, nccl or staged" */
static void list_names(char *text, size_t size) {
    const char *names[32];
    int32_t count = 0;
    const int32_t most = sizeof names / sizeof *names;
    size_t at = 0;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        if (!transports[t]->algorithm_name && count < most) names[count++] = transports[t]->name;
        for (int32_t a = 0; transports[t]->algorithm_name && transports[t]->algorithm_name(a) && count < most; a++)
            names[count++] = transports[t]->algorithm_name(a);
    }
    for (int32_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", names[i]);
}

muster_status mst_transport_find(const char *name, mst_forced *forced) {
    *forced = (mst_forced){.transport = NULL};
    if (!name || !*name) return MUSTER_OK;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        const mst_transport *transport = transports[t];
        const int32_t algorithm = transport->algorithm_name ? find_algorithm(transport, name) : 0;
        if (algorithm == 0 && (transport->algorithm_name || strcmp(transport->name, name) != 0)) continue;
        *forced = (mst_forced){transport, algorithm, algorithm ? transport->algorithm_name(algorithm - 1) : transport->name};
        return MUSTER_OK;
    }
    char names[400];
    list_names(names, sizeof names);
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "muster_runtime_open: collective_algorithm, or the environment's MUSTER_COLLECTIVE_ALGORITHM: expected %s, received \"%s\"", names,
        name);
}

/* ---- opening ---- */

muster_status mst_transport_refuse(muster_communicator *world, const mst_transport *transport, const char *reason) {
    const size_t bytes = strlen(reason) + 1;
    char **kept = &world->reasons[transport->number];
    mst_free(*kept);
    *kept = mst_alloc(bytes);
    if (!*kept) return mst_out_of_memory("muster_runtime_open: communicator", (int64_t)bytes);
    memcpy(*kept, reason, bytes);
    return MUSTER_OK;
}

muster_status mst_transport_open_all(muster_communicator *world) {
    const mst_transport *forced = world->forced.transport;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        if (!transports[t]->open || (transports[t]->costly && forced && forced != transports[t])) continue;
        MUSTER_TRY(transports[t]->open(world));
        world->recovers |= transports[t]->recover && world->open[t];
    }
    return MUSTER_OK;
}

muster_status mst_transport_check_forced(const muster_communicator *world) {
    const mst_transport *forced = world->forced.transport;
    if (!forced || world->forced.algorithm || world->state[forced->number]) return MUSTER_OK;
    const char *reason = world->reasons[forced->number];
    return mst_error(MUSTER_UNAVAILABLE,
                     "muster_runtime_open: collective_algorithm, or the environment's MUSTER_COLLECTIVE_ALGORITHM: expected one that these "
                     "devices have, received \"%s\": %.600s",
                     world->forced.name, reason ? reason : "no reason is known");
}

void mst_transport_close_all(muster_communicator *world) {
    for (int32_t t = MST_TRANSPORT_COUNT; t-- > 0;) {
        if (transports[t]->close) transports[t]->close(world);
        world->open[t] = NULL;
        mst_free(world->reasons[t]);
        world->reasons[t] = NULL;
    }
    world->recovers = false;
}

/* ---- choosing ---- */

int32_t mst_transport_bid(const mst_transport *transport, const muster_communicator *communicator, const mst_request *request,
                          const mst_view *view) {
    const int32_t bid = transport->bid(communicator, request, view);
    return bid > 0 && communicator->forced.transport == transport ? bid + MST_BID_FORCED : bid;
}

const mst_transport *mst_transport_winner(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    const mst_transport *winner = NULL;
    int32_t most = 0;
    for (int32_t i = 0; i < communicator->shared_count; i++) {
        const int32_t bid = mst_transport_bid(communicator->shared[i], communicator, request, view);
        if (bid <= most) continue;
        most = bid;
        winner = communicator->shared[i];
    }
    return winner;
}

bool mst_communicator_serves_in_place(const muster_communicator *communicator, const mst_request *request) {
    const mst_request **requests = communicator->members[0].requests;
    const mst_view view = {.requests = requests, .size = communicator->size};
    for (int32_t r = 0; r < view.size; r++) requests[r] = request;
    const mst_transport *winner = mst_transport_winner(communicator, request, &view);
    return winner && winner->bid(communicator, request, &view) >= MST_BID_GOOD;
}

/* May the transport serve this communicator? If an exclusive transport or one of its algorithms is
 * requested by name, the sharing transports do not serve. */
static bool may_serve(const muster_communicator *communicator, const mst_transport *transport) {
    const mst_transport *forced = communicator->forced.transport;
    return communicator->state[transport->number] && (!transport->sharing || !forced || forced->sharing);
}

static const mst_transport *exclusive_for(const muster_communicator *communicator, mst_collective collective) {
    const mst_request request = {.collective = (uint8_t)collective};
    const mst_transport *best = NULL;
    int32_t most = 0;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        if (transports[t]->sharing || !may_serve(communicator, transports[t])) continue;
        const int32_t bid = mst_transport_bid(transports[t], communicator, &request, NULL);
        if (bid <= most) continue;
        most = bid;
        best = transports[t];
    }
    return best;
}

static const mst_message_table *messages_for(const muster_communicator *communicator) {
    const mst_request request = {.collective = MST_SEND};
    const mst_message_table *best = NULL;
    int32_t most = 0;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        if (!transports[t]->messages || !may_serve(communicator, transports[t])) continue;
        const int32_t bid = mst_transport_bid(transports[t], communicator, &request, NULL);
        if (bid <= most) continue;
        most = bid;
        best = transports[t]->messages;
    }
    return best;
}

muster_status mst_transport_create_all(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (transports[t]->spans == (communicator->span != NULL)) MUSTER_TRY(transports[t]->create(where, communicator, parent));
    communicator->shared_count = 0;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (transports[t]->sharing && may_serve(communicator, transports[t]))
            communicator->shared[communicator->shared_count++] = transports[t];
    for (int32_t c = 1; c < MST_COLLECTIVE_COUNT; c++) communicator->exclusive[c] = exclusive_for(communicator, (mst_collective)c);
    communicator->messages = messages_for(communicator);
    return MUSTER_OK;
}

void mst_transport_destroy_all(muster_communicator *communicator) {
    for (int32_t t = MST_TRANSPORT_COUNT; t-- > 0;) {
        if (transports[t]->destroy && communicator->state[t]) transports[t]->destroy(communicator);
        communicator->state[t] = NULL;
    }
}
