/* One case of the conformance suite as one rank meets it: places its tensors, enters, and compares
 * what came out. */
#ifndef COLLECTIVES_CASE_RUN_H
#define COLLECTIVES_CASE_RUN_H

#include "collectives_matrix.h"

#include <stdatomic.h>

enum { CASE_SLACK = 16 };  /* even parts are rounded up: elements beyond a case's count */
#define CASE_ALPHA (-0.37) /* of axpy and momentum */
#define CASE_BETA 0.75
enum { CASE_STEPS = 2 }; /* of momentum: the second one has a velocity */

/* Cases of equal devices, ranks, dtype and op, and what is common to them. */
typedef struct batch {
    const matrix_case *cases;
    int64_t count;
    muster_communicator *communicators[CASE_ALGORITHMS]; /* NULL: its cases are not run */
    muster_communicator *reference;                      /* by which the expected bits are computed */
    char *vectors[CASE_RANKS + 1];                       /* the ranks' inputs, and the parameter of axpy and momentum */
    char *combined, *updated;                            /* op over the ranks' inputs; parameter + alpha * that */
    char *stepped;                                       /* the parameter after the steps of momentum */
    int64_t length;                                      /* elements of each of these */
    _Atomic int64_t entered[CASE_RANKS];
    bool shared;            /* by several processes; then each pool runs the cases of one algorithm */
    bool any_order;         /* floats may be combined in another order than that of the ranks */
    bool any_order_applied; /* the same of all_reduce_apply */
    int32_t first, after;   /* the ranks of this process, [first, after) */
    int64_t run;
} batch;

/* One rank in a batch. On a host device `host` is the arena itself, else a copy of it. */
typedef struct case_member {
    muster_worker *worker;
    batch *batch;
    muster_tensor arena; /* u8: input, guard, output, guard, velocity, guard */
    char *host;
    bool discrete;
    int64_t output_at, velocity_at;
} case_member;

/* Scratch memory for any case of the batch. */
muster_status case_member_open(case_member *member, muster_worker *worker, batch *b);
void case_member_close(case_member *member);
/* USER with the case and the place where something differs, or with the transport or algorithm that
 * has served instead of the requested one. */
muster_status case_member_run(const case_member *member, const matrix_case *c, int32_t root);

#endif
