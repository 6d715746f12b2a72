/* What goes wrong in a launch: processes end, and messages do not get through. */
#include "wire_launch_private.h"

#include <stdlib.h>

/* What a process has not yet handed over goes with it. */
static void faults_drop(muster_wire *wire) {
    wire_launch *launch = wire->launch;
    for (int32_t i = 0; i < launch->chunk_count * WIRE_REQUEST_CHUNK; i++) {
        wire_request *request = &launch->chunks[i / WIRE_REQUEST_CHUNK][i % WIRE_REQUEST_CHUNK];
        if (request->kind == WIRE_FREE || request->wire != wire) continue;
        /* An eager message has left; its bytes stay readable, because the program of a test
         * lives on. */
        wire_request_look(request);
        if (!request->done) wire_request_unlink(request);
        wire_request_free(launch, request);
    }
    while (wire->outbox) {
        wire_message *message = wire->outbox;
        wire->outbox = message->next;
        wire_message_free(launch, message);
    }
    wire->outbox_end = &wire->outbox;
}

/* Messages that nobody will receive any more. */
static void faults_clear(muster_wire *wire) {
    wire_message **lists[] = {&wire->unexpected, &wire->held};
    for (int32_t i = 0; i < 2; i++)
        while (*lists[i]) {
            wire_message *message = *lists[i];
            *lists[i] = message->next;
            if (message->send) { /* never done, but by fault tolerance */
                message->send->message = NULL;
                if (wire->launch->options.fault_tolerance) wire_request_end(message->send, MUSTER_WIRE_LOST, NULL);
            }
            if (message->receive) message->receive->message = NULL; /* its bytes never come */
            wire_message_free(wire->launch, message);
        }
    wire->unexpected_end = &wire->unexpected;
}

void wire_launch_kill(wire_launch *launch, int32_t process) {
    pthread_mutex_lock(&launch->mutex);
    if (!launch->dead[process]) {
        for (wire_comm *comm = launch->comms; comm; comm = comm->next)
            for (int32_t rank = 0; rank < comm->size; rank++) {
                muster_wire *wire = &comm->members[rank];
                if (!wire->opened || wire_process(comm, rank) != process) continue;
                faults_drop(wire);
                faults_clear(wire);
                if (!wire->closed) launch->counts.wires--;
                wire->closed = true;
            }
        launch->dead[process] = true;
        launch->any_dead = true;
        wire_clock_wake_all(launch);
    }
    pthread_mutex_unlock(&launch->mutex);
}

void wire_launch_cut(wire_launch *launch, int32_t one, int32_t other) {
    pthread_mutex_lock(&launch->mutex);
    int32_t(*cuts)[2] = realloc(launch->cuts, sizeof *cuts * (size_t)(launch->cut_count + 1));
    if (!cuts) abort();
    cuts[launch->cut_count][0] = one;
    cuts[launch->cut_count][1] = other;
    launch->cuts = cuts;
    launch->cut_count++;
    pthread_mutex_unlock(&launch->mutex);
}

/* What was held between two that are not cut any more arrives, in its order. */
static void faults_release(wire_launch *launch) {
    for (wire_comm *comm = launch->comms; comm; comm = comm->next)
        for (int32_t rank = 0; rank < comm->size; rank++) {
            wire_message *message = comm->members[rank].held;
            comm->members[rank].held = NULL;
            while (message) {
                wire_message *next = message->next;
                message->next = NULL;
                if (message->matched)
                    wire_clock_release(launch, message);
                else
                    wire_arrive(launch, message);
                message = next;
            }
        }
}

void wire_launch_heal(wire_launch *launch, int32_t one, int32_t other) {
    pthread_mutex_lock(&launch->mutex);
    int32_t kept = 0;
    for (int32_t i = 0; i < launch->cut_count; i++) {
        const int32_t *cut = launch->cuts[i];
        if ((cut[0] == one && cut[1] == other) || (cut[0] == other && cut[1] == one)) continue;
        launch->cuts[kept][0] = cut[0];
        launch->cuts[kept][1] = cut[1];
        kept++;
    }
    launch->cut_count = kept;
    faults_release(launch);
    pthread_mutex_unlock(&launch->mutex);
}
