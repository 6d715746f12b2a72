/* The functions of the table that begin the MPI's own collectives. */
#include "wire_launch_private.h"

static int32_t collective_enter(muster_wire *wire, wire_collective_kind kind, const wire_part *part, muster_wire_request *request) {
    int32_t result = wire_table_enter(wire);
    if (result == MUSTER_WIRE_OK) result = wire_collective_enter(wire, kind, part, request);
    return wire_table_leave(wire, result);
}

static int32_t collective_check(const char *name, int32_t type, int32_t operation, int64_t count) {
    if (!wire_type_size(type)) return wire_refuse("%s: type %d", name, type);
    if (operation < MUSTER_WIRE_SUM || operation > MUSTER_WIRE_MIN) return wire_refuse("%s: operation %d", name, operation);
    if (count < 0 || count > INT32_MAX) return wire_refuse("%s: %lld elements", name, (long long)count);
    return MUSTER_WIRE_OK;
}

static int32_t table_all_reduce(muster_wire *wire, const void *from, void *to, int64_t count, int32_t type, int32_t operation,
                                muster_wire_request *request) {
    const int32_t refused = collective_check("all_reduce", type, operation, count);
    const wire_part part = {.from = from, .to = to, .count = count, .type = type, .operation = operation};
    return refused ? refused : collective_enter(wire, WIRE_ALL_REDUCE, &part, request);
}

static int32_t table_reduce_scatter(muster_wire *wire, const void *from, void *to, const int32_t *counts, int32_t type, int32_t operation,
                                    muster_wire_request *request) {
    const int32_t refused = collective_check("reduce_scatter", type, operation, 0);
    const wire_part part = {.from = from, .to = to, .counts = counts, .type = type, .operation = operation};
    return refused ? refused : collective_enter(wire, WIRE_REDUCE_SCATTER, &part, request);
}

static int32_t table_broadcast(muster_wire *wire, void *buffer, int64_t bytes, int32_t root, muster_wire_request *request) {
    if (root < 0 || root >= wire->comm->size) return wire_refuse("broadcast: root %d of %d", root, wire->comm->size);
    if (bytes < 0 || bytes > INT32_MAX) return wire_refuse("broadcast: %lld bytes", (long long)bytes);
    const wire_part part = {.to = buffer, .count = bytes, .root = root};
    return collective_enter(wire, WIRE_BROADCAST, &part, request);
}

static int32_t table_all_gather(muster_wire *wire, const void *from, int32_t bytes, void *to, const int32_t *counts, const int32_t *offsets,
                                muster_wire_request *request) {
    if (bytes < 0) return wire_refuse("all_gather: %d bytes", bytes);
    const wire_part part = {.from = from, .to = to, .count = bytes, .counts = counts, .offsets = offsets};
    return collective_enter(wire, WIRE_ALL_GATHER, &part, request);
}

static int32_t table_all_to_all(muster_wire *wire, const void *from, const int32_t *send_counts, const int32_t *send_offsets, void *to,
                                const int32_t *receive_counts, const int32_t *receive_offsets, muster_wire_request *request) {
    const wire_part part = {.from = from,
                            .to = to,
                            .counts = receive_counts,
                            .offsets = receive_offsets,
                            .send_counts = send_counts,
                            .send_offsets = send_offsets};
    return collective_enter(wire, WIRE_ALL_TO_ALL, &part, request);
}

void wire_collectives_fill(muster_wire_table *table) {
    table->all_reduce = table_all_reduce;
    table->reduce_scatter = table_reduce_scatter;
    table->broadcast = table_broadcast;
    table->all_gather = table_all_gather;
    table->all_to_all = table_all_to_all;
}
