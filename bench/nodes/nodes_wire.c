/* The wire alone: messages by the table of functions that Muster calls, with nothing around
 * them. */
#include "nodes_wire.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nodes_wire *nodes_wire_open(const char *shim, char why[NODES_TEXT]) {
    struct nodes_wire *wire = calloc(1, sizeof *wire);
    void *library = wire ? dlopen(shim, RTLD_NOW | RTLD_LOCAL) : NULL, *symbol = library ? dlsym(library, MUSTER_WIRE_SYMBOL) : NULL;
    muster_wire_entry entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    wire->table = entry ? entry(MUSTER_WIRE_ABI) : NULL;
    muster_wire_request request = 0;
    int32_t done = 0;
    bool ok = wire->table && wire->table->open(0, 0, &wire->state, &request) == MUSTER_WIRE_OK;
    while (ok && !done) ok = wire->table->test(wire->state, &request, &done, NULL) == MUSTER_WIRE_OK;
    if (ok) {
        wire->rank = wire->table->rank(wire->state);
        wire->size = wire->table->size(wire->state);
        return wire;
    }
    snprintf(why, NODES_TEXT, "%.100s is no shim that opens", shim);
    free(wire);
    return NULL;
}

static bool send(struct nodes_wire *wire, const void *from, int64_t bytes, int32_t to) {
    return wire->table->send(wire->state, from, bytes, to, NODES_WIRE_TAG, &wire->requests[wire->used++]) == MUSTER_WIRE_OK;
}

static bool receive(struct nodes_wire *wire, void *to, int64_t bytes, int32_t from) {
    return wire->table->receive(wire->state, to, bytes, from, NODES_WIRE_TAG, &wire->requests[wire->used++]) == MUSTER_WIRE_OK;
}

/* With more processes than cores, waits give the core away as the MPI's do. */
static bool wait_all(struct nodes_wire *wire) {
    int32_t left = 0, done;
    for (int32_t i = 0; i < wire->used; i++) left += wire->requests[i] != 0;
    while (left > 0) {
        done = 0;
        if (wire->table->test_some(wire->state, wire->used, wire->requests, &done, wire->done, NULL) != MUSTER_WIRE_OK) return false;
        left -= done;
    }
    wire->used = 0;
    return true;
}

static bool latency(struct nodes_wire *wire, float *memory, int64_t bytes) {
    const int32_t other = 1 - wire->rank;
    if (wire->rank > 1) return true;
    if (wire->rank == 1) return receive(wire, memory, bytes, other) && wait_all(wire) && send(wire, memory, bytes, other) && wait_all(wire);
    return send(wire, memory, bytes, other) && wait_all(wire) && receive(wire, memory, bytes, other) && wait_all(wire);
}

static bool stream(struct nodes_wire *wire, float *from, float *to, int64_t bytes, bool both) {
    const int32_t other = 1 - wire->rank, window = nodes_window(bytes);
    bool ok = true;
    if (wire->rank > 1) return true;
    for (int32_t i = 0; i < window && (both || wire->rank == 1) && ok; i++) ok = receive(wire, to, bytes, other);
    for (int32_t i = 0; i < window && (both || wire->rank == 0) && ok; i++) ok = send(wire, from, bytes, other);
    if (!ok || !wait_all(wire)) return false;
    if (wire->rank == 0) return receive(wire, wire->answer, 4, other) && wait_all(wire);
    return send(wire, wire->answer, 4, other) && wait_all(wire);
}

static bool exchange(struct nodes_wire *wire, char *from, char *to, int64_t bytes, int32_t rounds) {
    for (int32_t round = 0; round < rounds; round++)
        for (int32_t away = 1; away < wire->size; away *= 2) {
            const int32_t next = (wire->rank + away) % wire->size, before = (wire->rank - away + wire->size) % wire->size;
            if (!receive(wire, to, bytes, before) || !send(wire, from, bytes, next) || !wait_all(wire)) return false;
        }
    return true;
}

/* One step: `bytes` to the next process, and as many from the one before. */
static bool step(struct nodes_wire *wire, char *from, char *to, int64_t bytes, bool sends, bool receives) {
    enum { MESSAGE = 1 << 20 };
    const int32_t next = (wire->rank + 1) % wire->size, before = (wire->rank - 1 + wire->size) % wire->size;
    bool ok = true;
    for (int64_t at = 0; at < bytes && ok;) {
        for (; at < bytes && wire->used + 2 <= NODES_WIRE_REQUESTS && ok; at += MESSAGE) {
            const int64_t part = bytes - at < MESSAGE ? bytes - at : MESSAGE;
            if (receives) ok = receive(wire, to + at, part, before);
            if (ok && sends) ok = send(wire, from + at, part, next);
        }
        ok = ok && wait_all(wire);
    }
    return ok;
}

static bool floor_of(struct nodes_wire *wire, int32_t op, char *from, char *to, int64_t bytes) {
    if (wire->size < 2) return true;
    if (op == COLLECTIVE_BROADCAST) {
        const bool sends = wire->rank % 2 == 0 && wire->rank + 1 < wire->size;
        return step(wire, from, to, bytes, sends, wire->rank % 2 == 1);
    }
    const int64_t part = (bytes / wire->size * (wire->size - 1) + 63) / 64 * 64, moved = part < 4 ? 4 : part > bytes ? bytes : part;
    if (!step(wire, from, to, moved, true, true)) return false;
    return op != COLLECTIVE_ALL_REDUCE || step(wire, to, from, moved, true, true);
}

bool nodes_wire_operate(nodes_player *player) {
    struct nodes_wire *wire = player->self;
    const int64_t bytes = player->job.count * (int64_t)sizeof(float);
    switch (player->job.op) {
    case NODES_LATENCY:
        return latency(wire, player->first, bytes);
    case NODES_BANDWIDTH:
    case NODES_BOTH_WAYS:
        return stream(wire, player->first, player->second, bytes, player->job.op == NODES_BOTH_WAYS);
    case NODES_BARRIER:
        return exchange(wire, (char *)player->first, (char *)player->second, 4, 1);
    case NODES_EXCHANGE:
        return exchange(wire, (char *)player->first, (char *)player->second, bytes, player->job.variant ? 1 : 2);
    default:
        return player->job.op >= NODES_FLOOR &&
               floor_of(wire, player->job.op - NODES_FLOOR, (char *)player->first, (char *)player->second, bytes);
    }
}
