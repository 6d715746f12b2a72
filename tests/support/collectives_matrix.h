/* The cells of the conformance suite: collective x algorithm x dtype x op x ranks x elements x in
 * place or not x devices. */
#ifndef COLLECTIVES_MATRIX_H
#define COLLECTIVES_MATRIX_H

#include "communicator_impl.h"

typedef enum {
    CELL_ALL_REDUCE,
    CELL_ALL_REDUCE_SHARDS,
    CELL_ALL_REDUCE_AXPY,
    CELL_ALL_REDUCE_MOMENTUM,
    CELL_REDUCE,
    CELL_BROADCAST,
    CELL_ALL_GATHER,
    CELL_ALL_GATHER_UNEVEN,
    CELL_GATHER,
    CELL_GATHER_UNEVEN,
    CELL_SCATTER,
    CELL_SCATTER_UNEVEN,
    CELL_REDUCE_SCATTER,
    CELL_REDUCE_SCATTER_UNEVEN,
    CELL_ALL_TO_ALL,
    CELL_ALL_TO_ALL_UNEVEN,
    CELL_BARRIER,
    CELL_KINDS
} cell_kind;

/* MIXED: the first half of the ranks, rounded up, on the host */
enum { CELL_HOST, CELL_DISCRETE, CELL_MIXED, CELL_DEVICES };
enum { CELL_ALGORITHMS = 4, CELL_RANKS = 9, CELL_COUNTS = 9 }; /* counts: 0, 1, N-1, N, N+1, 9, 1000, 65537, 1 Mi */

typedef struct cell {
    uint8_t devices, ranks, dtype, op, kind, algorithm, count, in_place; /* algorithm, count: indices */
} cell;

/* NULL for the last one, which is selected by size. */
const char *cell_algorithm(int index);
int64_t cell_count(const cell *c);
/* Of what has no op, op is MAX, which every dtype has. */
bool cell_reduces(const cell *c);
bool cell_rooted(const cell *c);
bool cell_updates(const cell *c); /* a parameter by the sum of gradients */

/* All cells on host devices in the order of the fields of `cell`; mst_free. */
cell *cell_all(int64_t *count);
/* A sample on all devices by seed, so that every pair of values that occurs together in some cell
 * occurs together in the sample. light: without what takes seconds in a build with sanitizers. */
cell *cell_pairwise(uint64_t seed, bool light, int64_t *count);

/* "all_reduce sum f32, direct, 5 ranks, 1000 elements, in place, host devices" */
enum { CELL_TEXT = 160 };
const char *cell_text(const cell *c, char text[CELL_TEXT]);

#endif
