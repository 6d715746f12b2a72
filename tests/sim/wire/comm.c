/* Communicators: the k-th duplicate that each process of a group begins is one communicator. */
#include "wire_launch_private.h"

static wire_comm *comm_find(wire_launch *launch, int32_t group, int32_t number) {
    for (wire_comm *comm = launch->comms; comm; comm = comm->next)
        if (comm->group_number == group && comm->number == number) return comm;
    return NULL;
}

static wire_comm *comm_create(wire_launch *launch, int32_t group, int32_t number) {
    wire_comm *comm = wire_allocate(launch, sizeof *comm);
    if (!comm) return NULL;
    comm->group = &launch->groups[group];
    comm->group_number = group;
    comm->number = number;
    comm->size = comm->group->count;
    comm->members = wire_allocate(launch, sizeof *comm->members * (size_t)comm->size);
    if (!comm->members) {
        wire_free(launch, comm, sizeof *comm);
        return NULL;
    }
    for (int32_t rank = 0; rank < comm->size; rank++) {
        muster_wire *wire = &comm->members[rank];
        *wire = (muster_wire){.launch = launch, .comm = comm, .rank = rank};
        wire->posted_end = &wire->posted;
        wire->unexpected_end = &wire->unexpected;
        wire->outbox_end = &wire->outbox;
    }
    comm->next = launch->comms;
    launch->comms = comm;
    return comm;
}

/* When all have opened it, the requests of all are done. */
static void comm_opened(wire_comm *comm) {
    wire_launch *launch = comm->members[0].launch;
    for (int32_t i = 0; i < launch->chunk_count * WIRE_REQUEST_CHUNK; i++) {
        wire_request *request = &launch->chunks[i / WIRE_REQUEST_CHUNK][i % WIRE_REQUEST_CHUNK];
        if (request->kind == WIRE_OPEN && request->wire->comm == comm) wire_request_end(request, MUSTER_WIRE_OK, NULL);
    }
}

int32_t wire_comm_open(wire_launch *launch, int32_t process, int32_t parent, muster_wire **wire, muster_wire_request *handle) {
    if (parent < 0 || parent >= launch->group_count) return wire_refuse("there is no communicator %d", parent);
    wire_group *group = &launch->groups[parent];
    int32_t rank = -1;
    for (int32_t i = 0; group->members && rank < 0 && i < group->count; i++)
        if (group->members[i] == process) rank = i;
    if (!group->members) rank = process;
    if (rank < 0) return wire_refuse("process %d is not in communicator %d", process, parent);
    wire_comm *comm = comm_find(launch, parent, group->opens[rank]);
    if (!comm) comm = comm_create(launch, parent, group->opens[rank]);
    if (!comm) return wire_refuse("out of memory");
    muster_wire *member = &comm->members[rank];
    if (!wire_request_begin(member, WIRE_OPEN, handle)) return wire_refuse("out of memory");
    group->opens[rank]++;
    member->opened = true;
    launch->counts.wires++;
    *wire = member;
    if (++comm->opened == comm->size) comm_opened(comm);
    return MUSTER_WIRE_OK;
}

void wire_comm_close(muster_wire *wire) {
    if (wire->closed) return;
    wire->closed = true;
    wire->launch->counts.wires--;
    /* What it had sent leaves now: freeing a communicator loses no message. */
    while (wire->outbox) {
        wire->outbox->aged = true;
        wire_outbox_flush(wire);
    }
}

static void comm_free_messages(wire_launch *launch, wire_message *message) {
    while (message) {
        wire_message *next = message->next;
        wire_message_free(launch, message);
        message = next;
    }
}

void wire_comms_free(wire_launch *launch) {
    while (launch->comms) {
        wire_comm *comm = launch->comms;
        launch->comms = comm->next;
        for (int32_t rank = 0; rank < comm->size; rank++) {
            muster_wire *wire = &comm->members[rank];
            comm_free_messages(launch, wire->unexpected);
            comm_free_messages(launch, wire->held);
            comm_free_messages(launch, wire->outbox);
        }
        while (comm->collectives) {
            wire_collective *collective = comm->collectives;
            comm->collectives = collective->next;
            wire_free(launch, collective->parts, sizeof *collective->parts * (size_t)comm->size);
            wire_free(launch, collective, sizeof *collective);
        }
        wire_free(launch, comm->members, sizeof *comm->members * (size_t)comm->size);
        wire_free(launch, comm, sizeof *comm);
    }
}
