/* Plain loops over floats, for every vector unit the processor may have. Vectors may be
 * unaligned. */
#ifndef BENCH_COLLECTIVE_LOOPS_H
#define BENCH_COLLECTIVE_LOOPS_H

#include <stdint.h>

enum { BENCH_LANES = 16 }; /* floats of a cache line */

/* How a loop writes. STREAMING: by stores that bypass the cache; the plain ones where the places
 * are not aligned alike, and on other processors than x86. MOVSB: copies by `rep movsb`; all else
 * as PLAIN. */
typedef enum { BENCH_PLAIN, BENCH_STREAMING, BENCH_MOVSB, BENCH_STORES } bench_store;

/* Elements [begin, end) of the sum of `n` vectors, written to `m` places; a place may be one of the
 * vectors. */
void bench_sum(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end, bench_store store);
/* Elements [begin, end) of to[0] + COLLECTIVE_RATE * (the sum of `n` vectors), written to all of
 * to[n]. STREAMING: all but to[0], which was read. */
void bench_update(float *const *from, int n, float *const *to, int64_t begin, int64_t end, bench_store store);
/* The same by way of state = COLLECTIVE_DECAY * state + COLLECTIVE_RATE * sum, which is added. */
void bench_momentum(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end, bench_store store);
/* Nothing where `to` is `from`; they do not overlap in part. */
void bench_copy(float *to, const float *from, int64_t count, bench_store store);
void bench_swap(float *a, float *b, int64_t count);

#endif
