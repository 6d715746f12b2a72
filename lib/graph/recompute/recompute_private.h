/* Recomputation: where the values of an instance need more memory than the program allows, values
 * that are cheap to make are given up after a use, and made again before the next. Steps have the
 * numbers that they have without recomputation; "before step s" is behind all steps before it. */
#ifndef MST_RECOMPUTE_PRIVATE_H
#define MST_RECOMPUTE_PRIVATE_H

#include "../instance_private.h"

/* When the value of a buffer is in memory. */
typedef struct mst_lifetime {
    int32_t made;   /* the step that makes it; -1: none does */
    int32_t result; /* which of the results of that step it is */
    int32_t
        last; /* the last step that uses it, of a value made again: before it was given up; `made`: none does, so that it is made later only */
    int32_t again;      /* it is made again before this step; -1: it is not */
    int32_t last_again; /* the last step that uses what was made again */
    int32_t uses;       /* the first of the list; -1: there are none */
    int32_t seen;       /* the number of the estimate that has met it */
    bool stays;         /* until the end of the run */
} mst_lifetime;

typedef struct mst_lifetime_use {
    int32_t step, next;
} mst_lifetime_use;

/* A value that may be given up. */
typedef struct mst_recompute_candidate {
    double worth;  /* bytes saved for each byte that is read or written */
    int64_t bytes; /* saved */
    int32_t buffer;
} mst_recompute_candidate;

typedef struct mst_recomputing {
    mst_making *m;
    const mst_graph_program_step *steps; /* without recomputation */
    int32_t step_count, buffer_count, value_count;
    mst_lifetime *lives; /* by buffer */
    mst_lifetime_use *uses;
    int64_t use_capacity;
    int32_t use_count, estimates;
    int64_t *live;                       /* by step: bytes */
    bool *stuck;                         /* by step: no value that is in memory there can be given up */
    mst_recompute_candidate *candidates; /* room for all buffers */
    int32_t *copies;                     /* by buffer: that of the value made again; -1: none */
    int32_t *places;                     /* by position: that of the value made again; -1: none */
} mst_recomputing;

/* Is the step cheap, and independent of other workers? */
bool mst_step_is_cheap(const mst_graph_program_step *step);
/* Which operands the step needs for one of its results: a mask. */
uint32_t mst_step_operands_of(const mst_graph_program_step *step, int32_t result);
/* The buffer of a tensor of the instance, or -1. */
static inline int32_t mst_recompute_buffer(const mst_recomputing *r, const muster_tensor *tensor) {
    if (!tensor || tensor == &r->m->instance->none) return -1;
    return r->m->plan.values[tensor - r->m->instance->tensors].buffer;
}

/* choose.c. Adds a use of the buffer in this step. Errors: OUT_OF_MEMORY. */
muster_status mst_lifetime_use_add(mst_recomputing *r, int32_t buffer, int32_t step);
/* The bytes that are needed at once, by the lifetimes alone. */
int64_t mst_recompute_peak(mst_recomputing *r);
/* Gives values up until so many bytes suffice, or no value helps. Which they are depends on shapes
 * and on the program alone. Errors: OUT_OF_MEMORY. */
muster_status mst_recompute_choose(mst_recomputing *r, int64_t bytes);

#endif
