/* The cases of the conformance suite: collective x algorithm x dtype x op x ranks x elements x in
 * place or not x devices. */
#ifndef COLLECTIVES_MATRIX_H
#define COLLECTIVES_MATRIX_H

#include "communicator_impl.h"

typedef enum {
    CASE_ALL_REDUCE,
    CASE_ALL_REDUCE_BEGIN, /* as the other forms that only begin: then the end */
    CASE_ALL_REDUCE_SHARDS,
    CASE_ALL_REDUCE_AXPY,
    CASE_ALL_REDUCE_MOMENTUM,
    CASE_ALL_REDUCE_APPLY,       /* a rule that stores the sums */
    CASE_ALL_REDUCE_APPLY_BEGIN, /* the same in two phases, the first of which begins */
    CASE_REDUCE,
    CASE_BROADCAST,
    CASE_ALL_GATHER,
    CASE_ALL_GATHER_BEGIN,
    CASE_ALL_GATHER_UNEVEN,
    CASE_GATHER,
    CASE_GATHER_UNEVEN,
    CASE_SCATTER,
    CASE_SCATTER_UNEVEN,
    CASE_REDUCE_SCATTER,
    CASE_REDUCE_SCATTER_BEGIN,
    CASE_REDUCE_SCATTER_UNEVEN,
    CASE_ALL_TO_ALL,
    CASE_ALL_TO_ALL_UNEVEN,
    CASE_BARRIER,
    CASE_KINDS
} case_kind;

/* MIXED: the first half of the ranks, rounded up, on the host */
enum { CASE_HOST, CASE_DISCRETE, CASE_MIXED, CASE_DEVICES };
enum { CASE_ALGORITHMS = 4, CASE_RANKS = 9, CASE_COUNTS = 9 }; /* counts: 0, 1, N-1, N, N+1, 9, 1000, 65537, 1 Mi */

typedef struct matrix_case {
    uint8_t devices, ranks, dtype, op, kind, algorithm, count, in_place; /* algorithm, count: indices */
} matrix_case;

/* NULL for the last one, which is selected by size. */
const char *case_algorithm(int index);
/* Does the pool of the case have the transport of this name? NULL, and the names of algorithms on
 * host memory: true. */
bool case_available(const matrix_case *c, const char *algorithm);
int64_t case_count(const matrix_case *c);
/* Of what has no op, op is MAX, which every dtype has. */
bool case_reduces(const matrix_case *c);
bool case_rooted(const matrix_case *c);
bool case_updates(const matrix_case *c); /* a parameter by the sum of gradients */

/* All cases on host devices in the order of the fields of `case`; mst_free. */
matrix_case *case_all(int64_t *count);
/* A sample on all devices by seed, so that every pair of values that occurs together in some case
 * occurs together in the sample. light: without what takes seconds in a build with sanitizers. */
matrix_case *case_pairwise(uint64_t seed, bool light, int64_t *count);

/* "all_reduce sum f32, direct, 5 ranks, 1000 elements, in place, host devices" */
enum { CASE_TEXT = 160 };
const char *case_text(const matrix_case *c, char text[CASE_TEXT]);

#endif
