/* Plain loops over floats, for every vector unit the processor may have. Vectors may be
 * unaligned. */
#ifndef BENCH_COLLECTIVE_LOOPS_H
#define BENCH_COLLECTIVE_LOOPS_H

#include <stdint.h>

enum { BENCH_LANES = 16 }; /* floats of a cache line */

/* Elements [begin, end) of the sum of `n` vectors, written to `m` places; a place may be one of the
 * vectors. */
void bench_sum(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end);
/* Elements [begin, end) of to[0] + COLLECTIVE_RATE * (the sum of `n` vectors), written to all of
 * to[n]. */
void bench_update(float *const *from, int n, float *const *to, int64_t begin, int64_t end);
/* The same by way of state = COLLECTIVE_DECAY * state + COLLECTIVE_RATE * sum, which is added. */
void bench_momentum(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end);
/* Nothing where `to` is `from`; they do not overlap in part. */
void bench_copy(float *to, const float *from, int64_t count);
void bench_swap(float *a, float *b, int64_t count);

#endif
