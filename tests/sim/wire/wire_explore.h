/* All orders in which messages can arrive and processes can look: for a few processes. The
 * scenario is run again and again from its begin, each time with other choices; what was seen
 * before is not gone through twice.
 *
 * A state is what the wire holds, and for each process what `hash` says of it; without `hash`,
 * what it has seen: its messages, in their order, and between which of them it has looked.
 * Whatever a process does must follow from that alone: no clock, no chance. States are told
 * apart by hashes of 64 bits. */
#ifndef SIM_WIRE_EXPLORE_H
#define SIM_WIRE_EXPLORE_H

#include "wire_clock.h"

enum { WIRE_EXPLORE_PROCESSES = 8, WIRE_EXPLORE_DEPTH = 4096 };

typedef struct wire_explore {
    /* Given. */
    wire_launch_options options; /* seed 0 */
    /* Makes what the processes drive, of wires[processes], which stay the explorer's. */
    void (*begin)(void *user, wire_launch *launch, mst_wire **wires);
    /* As that of a driver; called again when something has happened to the process. */
    wire_step step;
    /* Checks the outcome where all are over, and frees what `begin` has made. over: false: the path
     * ended where another one has been, so there is nothing to check. */
    void (*end)(void *user, bool over);
    /* Of all that the process will decide by; what of it is a request counts as there or not
     * there. NULL: none. */
    uint64_t (*hash)(void *user, int32_t process);
    void *user;
    int64_t most_states; /* 0: one million */
    /* Become. */
    int64_t states, paths; /* paths: that came to their end */
    bool stuck;            /* on one of them nothing could happen, and processes were not over */
    bool complete;         /* all orders were seen */
    char trace[2000];      /* the path that was stuck, or the last one */
} wire_explore;

/* For `hash`. */
uint64_t wire_explore_mix(uint64_t hash, const void *bytes, int64_t count);

/* Stops at the first path that is stuck. False: out of memory. */
bool wire_explore_run(wire_explore *explore);

#endif
