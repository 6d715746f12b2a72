/* The simulated MPI's own collectives: the k-th that each process of a communicator begins is
 * one. The last process to come does the work. */
#include "wire_launch_private.h"

#include <string.h>

static wire_collective *collective_create(wire_launch *launch, wire_comm *comm) {
    wire_collective *collective = wire_allocate(launch, sizeof *collective);
    if (!collective) return NULL;
    collective->parts = wire_allocate(launch, sizeof *collective->parts * (size_t)comm->size);
    if (!collective->parts) {
        wire_free(launch, collective, sizeof *collective);
        return NULL;
    }
    return collective;
}

/* The collective of this number, which is not over. */
static wire_collective *collective_find(wire_launch *launch, wire_comm *comm, int64_t number) {
    wire_collective **link = &comm->collectives;
    for (int64_t i = comm->first_collective; i < number; i++) {
        if (!*link) *link = collective_create(launch, comm);
        if (!*link) return NULL;
        link = &(*link)->next;
    }
    if (!*link) *link = collective_create(launch, comm);
    return *link;
}

static void collectives_free_ended(wire_launch *launch, wire_comm *comm) {
    while (comm->collectives && comm->collectives->ended) {
        wire_collective *collective = comm->collectives;
        comm->collectives = collective->next;
        comm->first_collective++;
        wire_free(launch, collective->parts, sizeof *collective->parts * (size_t)comm->size);
        wire_free(launch, collective, sizeof *collective);
    }
}

/* What the clock counts: the most that a process gets. */
static int64_t collective_bytes(const wire_comm *comm, const wire_collective *collective) {
    const wire_part *part = &collective->parts[0];
    if (collective->kind == WIRE_BROADCAST) return part->count;
    if (collective->kind == WIRE_ALL_REDUCE) return part->count * wire_type_size(part->type);
    int64_t bytes = 0;
    for (int32_t i = 0; i < comm->size; i++) bytes += part->counts[i];
    return collective->kind == WIRE_REDUCE_SCATTER ? bytes * wire_type_size(part->type) : bytes;
}

int32_t wire_collective_enter(muster_wire *wire, wire_collective_kind kind, const wire_part *part, muster_wire_request *handle) {
    wire_launch *launch = wire->launch;
    wire_comm *comm = wire->comm;
    wire_collective *collective = collective_find(launch, comm, wire->collectives);
    if (!collective) return wire_refuse("out of memory");
    wire_request *request = wire_request_begin(wire, WIRE_COLLECTIVE, handle);
    if (!request) return wire_refuse("out of memory");
    wire->collectives++;
    wire_clock_act(wire);
    request->collective = collective;
    const bool differs = collective->entered && collective->kind != kind;
    collective->kind = kind;
    collective->parts[wire->rank] = *part;
    collective->parts[wire->rank].request = request;
    if (differs) collective->parts[wire->rank].type = -1;
    if (++collective->entered < comm->size) return MUSTER_WIRE_OK;
    if (wire->collectives == launch->options.stalled) return MUSTER_WIRE_OK;
    const char *error = wire_collective_do(launch, comm, collective);
    for (int32_t i = 0; i < comm->size; i++) {
        wire_request *ended = collective->parts[i].request;
        if (!ended) continue;
        ended->collective = NULL;
        wire_request_end(ended, error ? MUSTER_WIRE_ERROR : MUSTER_WIRE_OK, error);
    }
    wire_clock_collective(comm, collective, error ? 0 : collective_bytes(comm, collective));
    collective->ended = true;
    launch->counts.collectives++;
    collectives_free_ended(launch, comm);
    return MUSTER_WIRE_OK;
}

/* ---- the work ---- */

/* The reduction over all: the memory is the caller's to free. */
static char *collective_reduce(wire_launch *launch, const wire_comm *comm, const wire_part *parts, int64_t count) {
    const size_t bytes = (size_t)count * (size_t)wire_type_size(parts[0].type);
    char *sum = wire_allocate(launch, bytes);
    if (!sum) return NULL;
    if (bytes) memcpy(sum, parts[0].from, bytes);
    for (int32_t i = 1; i < comm->size; i++) wire_reduce(parts[0].type, parts[0].operation, sum, parts[i].from, count);
    return sum;
}

static const char *collective_do_reduction(wire_launch *launch, const wire_comm *comm, const wire_collective *collective) {
    const wire_part *parts = collective->parts;
    const int64_t size = wire_type_size(parts[0].type);
    const bool scattered = collective->kind == WIRE_REDUCE_SCATTER;
    int64_t count = scattered ? 0 : parts[0].count;
    for (int32_t i = 0; scattered && i < comm->size; i++) count += parts[0].counts[i];
    for (int32_t i = 1; i < comm->size; i++) {
        bool differs =
            parts[i].type != parts[0].type || parts[i].operation != parts[0].operation || (!scattered && parts[i].count != count);
        for (int32_t j = 0; scattered && j < comm->size; j++) differs |= parts[i].counts[j] != parts[0].counts[j];
        if (differs) return "the processes disagree in a collective";
    }
    char *sum = collective_reduce(launch, comm, parts, count);
    if (!sum) return "out of memory";
    int64_t offset = 0;
    for (int32_t i = 0; i < comm->size; i++) {
        const int64_t length = scattered ? parts[0].counts[i] : count;
        if (length) memcpy(parts[i].to, sum + (scattered ? offset * size : 0), (size_t)(length * size));
        if (length && launch->options.different_bits && !scattered && i == 1 && parts[0].type >= MUSTER_WIRE_F32) *(char *)parts[i].to ^= 1;
        offset += length;
    }
    wire_free(launch, sum, (size_t)(count * size));
    return NULL;
}

static const char *collective_do_broadcast(const wire_comm *comm, const wire_part *parts) {
    for (int32_t i = 1; i < comm->size; i++)
        if (parts[i].root != parts[0].root || parts[i].count != parts[0].count) return "the processes disagree in a collective";
    for (int32_t i = 0; i < comm->size; i++)
        if (i != parts[0].root && parts[0].count) memcpy(parts[i].to, parts[parts[0].root].to, (size_t)parts[0].count);
    return NULL;
}

static const char *collective_do_all_gather(const wire_comm *comm, const wire_part *parts) {
    for (int32_t i = 0; i < comm->size; i++)
        for (int32_t j = 0; j < comm->size; j++)
            if (parts[i].counts[j] != parts[j].count) return "the processes disagree in a collective";
    for (int32_t i = 0; i < comm->size; i++)
        for (int32_t j = 0; j < comm->size; j++) {
            char *to = (char *)parts[i].to + parts[i].offsets[j];
            if (parts[j].count && to != parts[j].from) memmove(to, parts[j].from, (size_t)parts[j].count);
        }
    return NULL;
}

static const char *collective_do_all_to_all(const wire_comm *comm, const wire_part *parts) {
    for (int32_t i = 0; i < comm->size; i++)
        for (int32_t j = 0; j < comm->size; j++)
            if (parts[i].counts[j] != parts[j].send_counts[i]) return "the processes disagree in a collective";
    for (int32_t i = 0; i < comm->size; i++)
        for (int32_t j = 0; j < comm->size; j++)
            if (parts[i].counts[j])
                memcpy((char *)parts[i].to + parts[i].offsets[j], (const char *)parts[j].from + parts[j].send_offsets[i],
                       (size_t)parts[i].counts[j]);
    return NULL;
}

const char *wire_collective_do(wire_launch *launch, const wire_comm *comm, wire_collective *collective) {
    for (int32_t i = 0; i < comm->size; i++) {
        if (!collective->parts[i].request) return "a process has given up its part of a collective";
        if (collective->parts[i].type < 0) return "the processes disagree in a collective";
    }
    switch (collective->kind) {
    case WIRE_ALL_REDUCE:
    case WIRE_REDUCE_SCATTER:
        return collective_do_reduction(launch, comm, collective);
    case WIRE_BROADCAST:
        return collective_do_broadcast(comm, collective->parts);
    case WIRE_ALL_GATHER:
        return collective_do_all_gather(comm, collective->parts);
    case WIRE_ALL_TO_ALL:
        return collective_do_all_to_all(comm, collective->parts);
    }
    return "no such collective";
}
