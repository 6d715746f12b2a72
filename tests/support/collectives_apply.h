/* Training by all_reduce_apply on one rank: tables of segments, a rule made of public
 * operations, and what must come out by plain loops. */
#ifndef COLLECTIVES_APPLY_H
#define COLLECTIVES_APPLY_H

#include "communicator_impl.h"

/* How the shared vector is cut. ONE: one segment. FEW: up to seven, some empty, with gaps between
 * their gradients. TINY: of one to three elements, at most APPLY_TINY_COUNT elements in all. */
typedef enum { APPLY_ONE, APPLY_FEW, APPLY_TINY, APPLY_CUTS } apply_cut;
enum { APPLY_STEPS = 3, APPLY_TINY_COUNT = 3000, APPLY_LOCALS = 3, APPLY_BUCKETS = 4 };

typedef struct apply_plan {
    muster_dtype dtype;
    int64_t count; /* elements of the shared vector */
    apply_cut cut;
    bool locals;  /* with local segments, whose counts depend on the rank */
    bool sharded; /* rank 0 has two shards, the last one of several none */
    bool apart;   /* the gradients lie elsewhere on each rank */
    bool buckets; /* the vector is divided into APPLY_BUCKETS */
    bool pairs;   /* the rule takes pairs of gradients */
} apply_plan;

/* One rank's table and memory. The parameters lie apart from each other; between them, and
 * around the states, are elements that nothing may write. */
typedef struct apply_rank {
    muster_worker *worker;
    apply_plan plan;
    int32_t size, rank; /* among the devices of all processes */
    mst_apply_segment *segments;
    int32_t segment_count;
    int64_t bucket_ends[APPLY_BUCKETS];
    int64_t length, memory_count, state_count; /* elements */
    muster_tensor flat, local_gradients, memory, states;
    double *values;  /* room for all elements of the largest of these, and as many bytes again */
    int64_t *stated; /* by state: the element that has used it, as a number that counts through all segments; -1: none */
    bool *undefined;
    int64_t visited;       /* elements for which the last phase SUM has called the function */
    int64_t calls;         /* of the rule */
    int64_t pair_count;    /* elements of which the rule has added two gradients */
    int32_t fails_at_call; /* the rule fails at this call; 0: never */
} apply_rank;

muster_status apply_open(apply_rank *a, muster_worker *worker, int32_t size, const apply_plan *plan);
void apply_close(apply_rank *a);
/* All parameters and states are 0 again. */
muster_status apply_reset(apply_rank *a);
/* The gradients of one step, and the collective. */
muster_status apply_write_gradients(apply_rank *a, int32_t step);
mst_apply_request apply_request_of(apply_rank *a);
muster_status apply_enter(apply_rank *a, muster_communicator *communicator);
/* The same in two phases; the sums bucket by bucket, the last first, or all at once. */
muster_status apply_enter_phases(apply_rank *a, muster_communicator *communicator, bool by_bucket);
/* USER unless all parameters are what so many steps have made of zeros, each state belongs to one
 * element, in the order of mst_apply_states, and all else is unwritten. With `undefined`, the
 * segments that are marked may hold anything. */
muster_status apply_check(apply_rank *a, int32_t steps, const bool *undefined);
/* Contiguous memory of this rank's device that holds `values`. */
muster_status apply_write(apply_rank *a, muster_tensor to, const double *values);

#endif
