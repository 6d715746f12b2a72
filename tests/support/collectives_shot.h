/* One cell of the conformance suite as one rank meets it: places its tensors, enters, and compares
 * what came out. */
#ifndef COLLECTIVES_SHOT_H
#define COLLECTIVES_SHOT_H

#include "collectives_matrix.h"

#include <stdatomic.h>

enum { SHOT_SLACK = 16 };  /* even parts are rounded up: elements beyond a cell's count */
#define SHOT_ALPHA (-0.37) /* of axpy and momentum */
#define SHOT_BETA 0.75
enum { SHOT_STEPS = 2 }; /* of momentum: the second one has a velocity */

/* Cells of equal devices, ranks, dtype and op, and what is common to them. */
typedef struct batch {
    const cell *cells;
    int64_t count;
    muster_communicator *communicators[CELL_ALGORITHMS];
    char *vectors[CELL_RANKS + 1]; /* the ranks' inputs, and the parameter of axpy and momentum */
    char *combined, *updated;      /* op over the ranks' inputs; parameter + alpha * that */
    char *stepped;                 /* the parameter after the steps of momentum */
    int64_t length;                /* elements of each of these */
    _Atomic int64_t entered[CELL_RANKS];
    int64_t run;
} batch;

/* One rank in a batch. On a host device `host` is the arena itself, else a copy of it. */
typedef struct seat {
    muster_worker *worker;
    batch *batch;
    muster_tensor arena; /* u8: input, guard, output, guard, velocity, guard */
    char *host;
    bool discrete;
    int64_t output_at, velocity_at;
} seat;

/* Scratch memory for any cell of the batch. */
muster_status seat_take(seat *seat, muster_worker *worker, batch *b);
void seat_leave(seat *seat);
/* USER with the cell and the place where something differs. */
muster_status seat_run(const seat *seat, const cell *c, int32_t root);

#endif
