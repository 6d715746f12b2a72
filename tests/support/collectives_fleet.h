/* All members of a schedule in one thread, on the simulated wire with its clock: their memory,
 * what must come out of it by plain loops, and one run. */
#ifndef COLLECTIVES_FLEET_H
#define COLLECTIVES_FLEET_H

#include "nodes/schedule_private.h"
#include "wire_clock.h"

enum { FLEET_L = 1300000, FLEET_O = 110000, FLEET_GAP = 50000, FLEET_BYTE = 85 }; /* in ps */

typedef struct fleet_plan {
    mst_move_kind kind;
    mst_move_algorithm algorithm;
    int32_t size, root, part; /* part: bytes of a member; of reductions and broadcasts all of them */
    bool floats, uneven;
} fleet_plan;

typedef struct fleet {
    fleet_plan plan;
    mst_wire **wires;
    struct fleet_member {
        mst_channel channel;
        mst_schedule schedule;
        mst_move move;
        int64_t *bytes, *send_bytes;
        char *from, *to;
        mst_progress progress;
    } * members;
    int64_t room;
    bool *left_out; /* [size] processes that take no part; NULL: none */
} fleet;

typedef struct fleet_outcome {
    wire_verdict verdict;
    int64_t time;
    bool served; /* the algorithm serves the kind; else nothing has run */
} fleet_outcome;

/* wires: one for each member. Takes memory, and prepares the schedules. f->left_out is given. */
void fleet_open(fleet *f, fleet_plan plan, mst_wire **wires);
/* False: the algorithm does not serve the move. */
bool fleet_begin(fleet *f);
/* A wire_step of a fleet. A process that is told of a loss revokes the wire. */
bool fleet_step(void *user, int32_t p);
/* How many elements are wrong of what the member has got, those behind it included. */
int64_t fleet_wrong(const fleet *f, int32_t p);
void fleet_close(fleet *f);
/* A launch with a clock of the times above. */
wire_launch *fleet_launch(int32_t size, bool fault_tolerance, int64_t jitter, uint64_t seed, mst_wire **wires);

/* All of it. Fails the test where something is wrong or left over. */
fleet_outcome fleet_run(fleet_plan plan, int64_t jitter, uint64_t seed);
/* Calls the function for each kind and algorithm that serves it. Returns their number. */
int32_t fleet_for_each_pair(fleet_plan plan, void (*function)(fleet_plan plan));

#endif
