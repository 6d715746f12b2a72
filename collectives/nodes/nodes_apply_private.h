/* all_reduce_apply over several processes. First the sums: what the members of a process have of
 * each rank's portion is combined there, and goes to the process of that rank, which adds what it
 * gets in the order of the processes. Then the rule, on the rank whose portion it is. Then the new
 * values go to all processes. Both travel in rounds, in which every portion has its turn.
 *
 * With a wire dtype a process rounds its sums to it once, and the process of the portion does not
 * round what it adds up. A sum is multiplied, before it is rounded, by what makes it the sum of all
 * if the others had the same: gradients of a mean are the smaller the more ranks there are, and
 * would be lost in f16. New values are not rounded: they are parameters. */
#ifndef MST_NODES_APPLY_PRIVATE_H
#define MST_NODES_APPLY_PRIVATE_H

#include "core/apply_private.h"
#include "nodes_transport_private.h"

/* An all_reduce_apply on one member. */
typedef struct mst_nodes_apply {
    mst_nodes_state *state;
    const mst_batch *batch;
    mst_view view; /* of the ranks of all processes, which are in the order of the processes */
    const mst_apply_offer *offer;
    muster_dtype dtype, compute, travel;     /* travel: of the sums between processes */
    int64_t element, travel_element, extent; /* extent: of the longest portion */
    const double *weights;                   /* of the processes' sums; NULL: none is multiplied */
    int64_t round;                           /* the number of the next one: which buffer serves */
    muster_status status;                    /* the first failure: the rounds go on, because the other processes count on them */
    char message[MST_MESSAGE_SIZE];
} mst_nodes_apply;

/* The elements of a portion that have their turn in a round of `step` elements; those before the
 * portion of the phase do not count. */
typedef struct mst_nodes_chunk {
    int64_t begin, end;
} mst_nodes_chunk;
mst_nodes_chunk mst_nodes_chunk_of(const mst_nodes_apply *a, int32_t rank, int64_t round, int64_t step);
/* Iterates over the ranges of rank's portion between two elements of it. */
typedef struct mst_nodes_ranges {
    mst_apply_iterator iterator;
    int64_t first; /* the state of the portion's first element in the phase */
    int64_t begin, end;
} mst_nodes_ranges;
mst_nodes_ranges mst_nodes_ranges_of(const mst_nodes_apply *a, int32_t rank, int64_t begin, int64_t end);
/* at: where the range begins in [begin, end). */
bool mst_nodes_ranges_next(mst_nodes_ranges *ranges, mst_apply_range *range, int64_t *at);

/* Keeps the first failure. */
void mst_nodes_apply_note(mst_nodes_apply *a, muster_status status);

/* nodes_apply_sum.c, nodes_apply_spread.c: the plans of the rounds. */
typedef struct mst_nodes_apply_plan {
    int64_t rounds;
    void (*fill)(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer);
    void (*move)(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer);
    void (*drain)(mst_nodes_apply *a, int64_t round, const mst_nodes_buffer *buffer);
} mst_nodes_apply_plan;
mst_nodes_apply_plan mst_nodes_apply_sum_plan(const mst_nodes_apply *a);
mst_nodes_apply_plan mst_nodes_apply_spread_plan(const mst_nodes_apply *a);

#endif
