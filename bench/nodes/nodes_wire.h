/* The wire of the bench, for its own messages and for schedules. */
#ifndef BENCH_NODES_WIRE_H
#define BENCH_NODES_WIRE_H

#include "nodes_play.h"
#include "wire/wire_abi.h"

enum { NODES_WIRE_TAG = 7, NODES_WIRE_REQUESTS = 256 };

struct nodes_wire {
    const muster_wire_table *table;
    muster_wire *state;
    int32_t rank, size, used;
    muster_wire_request requests[NODES_WIRE_REQUESTS];
    int32_t done[NODES_WIRE_REQUESTS];
    char answer[4];
    struct nodes_schedules *schedules; /* nodes_schedule.c; NULL: not used yet */
};

#endif
