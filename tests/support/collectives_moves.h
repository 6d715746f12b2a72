/* Moves between the processes of a launch, on the simulated wire: one thread is all processes in
 * turn, in a random order. */
#ifndef COLLECTIVES_MOVES_H
#define COLLECTIVES_MOVES_H

#include "nodes/schedule_private.h"
#include "wire_launch.h"

enum { MOVES_MOST = 40 };

typedef struct moves {
    wire_launch *launch;
    int32_t size;
    mst_wire *wires[MOVES_MOST];
    mst_channel channels[MOVES_MOST];
    mst_schedule schedules[MOVES_MOST];
    mst_move moves[MOVES_MOST];
    /* Of each process: its input and its output, with room behind both that no move writes. */
    char *from[MOVES_MOST], *to[MOVES_MOST];
    int64_t from_bytes[MOVES_MOST], to_bytes[MOVES_MOST];
    uint64_t random;
    int64_t cases;
} moves;

/* Opens a launch of `size` processes with a schedule each. scratch_bytes: as for prepare. */
void moves_open(moves *m, int32_t size, const wire_launch_options *options, int64_t scratch_bytes);
/* Nothing is in flight. */
void moves_close(moves *m);
uint64_t moves_random(moves *m);
/* New memory for every process: inputs of from_bytes[p] random bytes, outputs of to_bytes[p]. */
void moves_memory(moves *m, const int64_t *from_bytes, const int64_t *to_bytes);
/* Begins the move of each process, with `move` but for the addresses, and drives all of them to the
 * end: done everywhere, nothing in flight, nothing written behind the outputs, and `served` is the
 * algorithm of all of them. in_place: the input is copied to the output first, and is both. Counts
 * a case. */
void moves_run(moves *m, const mst_move *move, bool in_place, mst_move_algorithm served);
/* The same, when m->moves have been filled. */
void moves_drive(moves *m, mst_move_algorithm served);
/* Messages and bytes that all processes have sent in the last move. */
int64_t moves_messages(const moves *m);
int64_t moves_bytes(const moves *m);
/* Is value i of the output of process p that of a fold of all inputs in the order of the
 * processes? */
bool moves_folded(const moves *m, const mst_move *move, void *const *inputs, int64_t i, const void *received, int64_t at);

#endif
