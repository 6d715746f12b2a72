/* The table: checks what it is given, and locks. */
#include "wire_launch_private.h"

#include <stdio.h>

enum { TABLE_TAGS = 32768 };

/* Locks the launch of a wire for a call. */
static int32_t table_enter(muster_wire *wire) {
    wire_launch *launch = wire->launch;
    pthread_mutex_lock(&launch->mutex);
    if (launch->aborted >= 0) return wire_refuse("the launch was aborted with code %d", launch->aborted);
    if (wire->closed) return wire_refuse("the wire is closed");
    wire_outbox_flush(wire);
    return MUSTER_WIRE_OK;
}

int32_t wire_table_leave(muster_wire *wire, int32_t result) {
    pthread_mutex_unlock(&wire->launch->mutex);
    return result;
}

int32_t wire_table_enter(muster_wire *wire) {
    const int32_t result = table_enter(wire);
    if (result != MUSTER_WIRE_OK) return result;
    if (wire->comm->opened < wire->comm->size) return wire_refuse("the wire is not open yet");
    return wire->comm->revoked ? MUSTER_WIRE_LOST : MUSTER_WIRE_OK;
}

/* ---- the process ---- */

static void table_version(char *text, int32_t size) { snprintf(text, (size_t)size, "simulated wire, in one program"); }

static int32_t table_state(int32_t *initialised, int32_t *finalised, int32_t *threads) {
    int32_t process;
    wire_launch *launch = wire_thread_launch(&process);
    if (!launch) return wire_refuse("this thread is no process of a launch");
    pthread_mutex_lock(&launch->mutex);
    *initialised = launch->state[process] & 1;
    *finalised = launch->state[process] >> 1;
    *threads = MUSTER_WIRE_SERIALIZED;
    pthread_mutex_unlock(&launch->mutex);
    return MUSTER_WIRE_OK;
}

static int32_t table_set_state(int8_t bit, const char *name) {
    int32_t process;
    wire_launch *launch = wire_thread_launch(&process);
    if (!launch) return wire_refuse("%s: this thread is no process of a launch", name);
    pthread_mutex_lock(&launch->mutex);
    const bool twice = launch->state[process] & bit, early = bit == 2 && !(launch->state[process] & 1);
    launch->state[process] |= bit;
    pthread_mutex_unlock(&launch->mutex);
    if (twice || early) return wire_refuse("%s: process %d has called it before%s", name, process, early ? " initialise" : "");
    return MUSTER_WIRE_OK;
}

static int32_t table_initialise(int32_t *threads) {
    *threads = MUSTER_WIRE_SERIALIZED;
    return table_set_state(1, "initialise");
}

static int32_t table_finalise(void) { return table_set_state(2, "finalise"); }

static void table_abort(muster_wire *wire, int32_t code) {
    int32_t process;
    wire_launch *launch = wire ? wire->launch : wire_thread_launch(&process);
    if (!launch) return;
    pthread_mutex_lock(&launch->mutex);
    if (launch->aborted < 0) launch->aborted = code < 0 ? 1 : code;
    pthread_mutex_unlock(&launch->mutex);
}

static void table_error(char *text, int32_t size) { snprintf(text, (size_t)size, "%s", wire_last_error()); }

static void table_host(char *text, int32_t size) {
    int32_t process = 0;
    wire_launch *launch = wire_thread_launch(&process);
    const int32_t each = launch ? launch->options.processes_per_host : 0;
    if (launch && launch->options.hosts)
        snprintf(text, (size_t)size, "host%c", launch->options.hosts[process]);
    else
        snprintf(text, (size_t)size, "host%d", each ? process / each : 0);
}

/* ---- communicators ---- */

static int32_t table_open(int32_t has_parent, int32_t parent, muster_wire **wire, muster_wire_request *request) {
    int32_t process;
    wire_launch *launch = wire_thread_launch(&process);
    if (!launch) return wire_refuse("open: this thread is no process of a launch");
    pthread_mutex_lock(&launch->mutex);
    const int32_t result = wire_comm_open(launch, process, has_parent ? parent : 0, wire, request);
    pthread_mutex_unlock(&launch->mutex);
    return result;
}

static void table_close(muster_wire *wire) {
    pthread_mutex_lock(&wire->launch->mutex);
    wire_comm_close(wire);
    pthread_mutex_unlock(&wire->launch->mutex);
}

static int32_t table_rank(muster_wire *wire) { return wire->rank; }

static int32_t table_size(muster_wire *wire) { return wire->comm->size; }

/* ---- messages ---- */

static int32_t table_check(const muster_wire *wire, const char *name, int64_t bytes, int32_t process, int32_t lowest, int32_t tag) {
    if (process < lowest || process >= wire->comm->size) return wire_refuse("%s: process %d of %d", name, process, wire->comm->size);
    if (tag < 0 || tag >= TABLE_TAGS) return wire_refuse("%s: tag %d is outside of [0, %d)", name, tag, TABLE_TAGS);
    if (bytes < 0 || bytes > INT32_MAX) return wire_refuse("%s: %lld bytes", name, (long long)bytes);
    return MUSTER_WIRE_OK;
}

static int32_t table_send_one(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, bool rendezvous,
                              muster_wire_request *request) {
    int32_t result = wire_table_enter(wire);
    if (result == MUSTER_WIRE_OK) result = table_check(wire, "send", bytes, to, 0, tag);
    if (result == MUSTER_WIRE_OK) result = wire_send(wire, from, bytes, to, tag, rendezvous, request);
    return wire_table_leave(wire, result);
}

static int32_t table_send(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    return table_send_one(wire, from, bytes, to, tag, false, request);
}

static int32_t table_send_matched(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag,
                                  muster_wire_request *request) {
    return table_send_one(wire, from, bytes, to, tag, true, request);
}

static int32_t table_receive(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request) {
    int32_t result = wire_table_enter(wire);
    if (result == MUSTER_WIRE_OK) result = table_check(wire, "receive", bytes, from, -1, tag);
    if (result == MUSTER_WIRE_OK) result = wire_receive(wire, to, bytes, from, tag, request);
    return wire_table_leave(wire, result);
}

/* One request, with the lock held. */
static int32_t table_test_one(muster_wire *wire, muster_wire_request *handle, int32_t *done, muster_wire_status *status) {
    *done = 0;
    wire_request *request = wire_request_find(wire->launch, *handle);
    if (!request || request->wire != wire) return wire_refuse("test: there is no such request of this wire");
    wire_request_look(request);
    if (!request->done || request->done_at > wire_clock_now(wire) || wire_chance(wire->launch)) return MUSTER_WIRE_OK;
    *done = 1;
    *handle = 0;
    if (status) *status = request->status;
    const int32_t result = request->result;
    if (result == MUSTER_WIRE_ERROR) wire_refuse("%s", request->error);
    wire_clock_told(wire, request);
    wire_request_free(wire->launch, request);
    return result;
}

static int32_t table_test(muster_wire *wire, muster_wire_request *request, int32_t *done, muster_wire_status *status) {
    *done = 1;
    int32_t result = table_enter(wire);
    if (result == MUSTER_WIRE_OK && *request) result = table_test_one(wire, request, done, status);
    return wire_table_leave(wire, result);
}

static int32_t table_test_some(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                               muster_wire_status *statuses) {
    *done_count = 0;
    int32_t result = table_enter(wire);
    for (int32_t i = 0; result == MUSTER_WIRE_OK && i < count; i++) {
        int32_t one = 0;
        if (!requests[i]) continue;
        result = table_test_one(wire, &requests[i], &one, statuses ? &statuses[*done_count] : NULL);
        if (one) done[(*done_count)++] = i;
    }
    return wire_table_leave(wire, result);
}

static int32_t table_probe(muster_wire *wire, int32_t from, int32_t tag, int32_t *there, muster_wire_status *status) {
    *there = 0;
    int32_t result = wire_table_enter(wire);
    if (result == MUSTER_WIRE_OK) result = table_check(wire, "probe", 0, from, -1, tag);
    wire_message **link = result == MUSTER_WIRE_OK && !wire_chance(wire->launch) ? wire_find(wire, from, tag) : NULL;
    if (link && (*link)->time > wire_clock_now(wire)) link = NULL; /* with a clock: not yet */
    if (link) {
        *there = 1;
        (*link)->probed |= from < 0;
        if (status) *status = (muster_wire_status){.from = (*link)->from, .tag = tag, .bytes = (*link)->bytes};
    }
    return wire_table_leave(wire, result);
}

static int32_t table_cancel(muster_wire *wire, muster_wire_request *handle) {
    int32_t result = table_enter(wire);
    wire_request *request = result == MUSTER_WIRE_OK && *handle ? wire_request_find(wire->launch, *handle) : NULL;
    if (result == MUSTER_WIRE_OK && *handle && (!request || request->wire != wire || request->kind != WIRE_RECEIVE))
        result = wire_refuse("cancel: there is no such receive of this wire");
    if (result == MUSTER_WIRE_OK && request) {
        if (!request->done) wire_request_unlink(request); /* else a message had come, and is lost */
        wire_request_free(wire->launch, request);
        *handle = 0;
    }
    return wire_table_leave(wire, result);
}

/* ---- fault tolerance ---- */

static int32_t table_revoke(muster_wire *wire) {
    int32_t result = table_enter(wire);
    if (result == MUSTER_WIRE_OK) {
        wire->comm->revoked = true;
        wire_clock_wake_all(wire->launch);
    }
    return wire_table_leave(wire, result);
}

static int32_t table_lost(muster_wire *wire, int32_t *ranks, int32_t size, int32_t *count) {
    *count = 0;
    int32_t result = table_enter(wire);
    for (int32_t i = 0; result == MUSTER_WIRE_OK && i < wire->comm->size; i++) {
        if (!wire_is_dead(wire->launch, wire->comm, i)) continue;
        if (*count < size) ranks[*count] = i;
        (*count)++;
    }
    return wire_table_leave(wire, result);
}

void wire_table_fill(wire_launch *launch) {
    const bool ft = launch->options.fault_tolerance;
    launch->table = (muster_wire_table){.abi = MUSTER_WIRE_ABI,
                                        .bytes = (int32_t)sizeof(muster_wire_table),
                                        .name = "simulated wire",
                                        .version = table_version,
                                        .state = table_state,
                                        .initialise = table_initialise,
                                        .finalise = table_finalise,
                                        .abort = table_abort,
                                        .error = table_error,
                                        .open = table_open,
                                        .close = table_close,
                                        .rank = table_rank,
                                        .size = table_size,
                                        .host = table_host,
                                        .send = table_send,
                                        .send_matched = table_send_matched,
                                        .receive = table_receive,
                                        .test = table_test,
                                        .test_some = table_test_some,
                                        .probe = table_probe,
                                        .cancel = table_cancel,
                                        .revoke = ft ? table_revoke : NULL,
                                        .lost = ft ? table_lost : NULL};
    if (!launch->options.no_collectives) wire_collectives_fill(&launch->table);
}
