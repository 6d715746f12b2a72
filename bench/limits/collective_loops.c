#include "collective_loops.h"

#include "collective.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

/* Several vectors are read before any is written: the reads of other cores' lines overlap. */
enum { LANES = BENCH_LANES, AT_ONCE = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* Elements [begin, end) of the sum of `n` vectors, to `m` places; a place may be one of the
 * vectors. */
INLINE void add(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + AT_ONCE * LANES <= end; i += AT_ONCE * LANES) {
        lanes sum[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(from[0] + i + k * LANES);
        for (int r = 1; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(from[r] + i + k * LANES);
        for (int r = 0; r < m; r++)
            for (int k = 0; k < AT_ONCE; k++) *(lanes *)(to[r] + i + k * LANES) = sum[k];
    }
    for (; i < end; i++) {
        float sum = from[0][i];
        for (int r = 1; r < n; r++) sum += from[r][i];
        for (int r = 0; r < m; r++) to[r][i] = sum;
    }
}

/* The usual numbers of ranks as constants, for the compiler to keep everything in registers. */
CLONES void bench_sum(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end) {
    if (n == 1 && m == 1)
        add((float *[]){from[0]}, 1, (float *[]){to[0]}, 1, begin, end);
    else if (n == 2 && m == 1)
        add((float *[]){from[0], from[1]}, 2, (float *[]){to[0]}, 1, begin, end);
    else if (n == 2 && m == 2)
        add((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, 2, begin, end);
    else if (n == 4 && m == 1)
        add((float *[]){from[0], from[1], from[2], from[3]}, 4, (float *[]){to[0]}, 1, begin, end);
    else if (n == 4 && m == 4)
        add((float *[]){from[0], from[1], from[2], from[3]}, 4, (float *[]){to[0], to[1], to[2], to[3]}, 4, begin, end);
    else
        add(from, n, to, m, begin, end);
}

/* parameter[begin..end) += rate * sum: reads one parameter set, writes all. */
INLINE void step(float *const *from, int n, float *const *to, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + AT_ONCE * LANES <= end; i += AT_ONCE * LANES) {
        lanes sum[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(from[0] + i + k * LANES);
        for (int r = 1; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(from[r] + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(to[0] + i + k * LANES) + COLLECTIVE_RATE * sum[k];
        for (int r = 0; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) *(lanes *)(to[r] + i + k * LANES) = sum[k];
    }
    for (; i < end; i++) {
        float sum = from[0][i];
        for (int r = 1; r < n; r++) sum += from[r][i];
        float next = to[0][i] + COLLECTIVE_RATE * sum;
        for (int r = 0; r < n; r++) to[r][i] = next;
    }
}

CLONES void bench_update(float *const *from, int n, float *const *to, int64_t begin, int64_t end) {
    if (n == 2)
        step((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, begin, end);
    else
        step(from, n, to, begin, end);
}

/* The same with a state: reads and writes it, too. */
INLINE void step_with_state(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + AT_ONCE * LANES <= end; i += AT_ONCE * LANES) {
        lanes sum[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(from[0] + i + k * LANES);
        for (int r = 1; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(from[r] + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) sum[k] = COLLECTIVE_DECAY * *(const lanes *)(state + i + k * LANES) + COLLECTIVE_RATE * sum[k];
        for (int k = 0; k < AT_ONCE; k++) *(lanes *)(state + i + k * LANES) = sum[k];
        for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(to[0] + i + k * LANES);
        for (int r = 0; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) *(lanes *)(to[r] + i + k * LANES) = sum[k];
    }
    for (; i < end; i++) {
        float sum = from[0][i];
        for (int r = 1; r < n; r++) sum += from[r][i];
        state[i] = COLLECTIVE_DECAY * state[i] + COLLECTIVE_RATE * sum;
        float next = to[0][i] + state[i];
        for (int r = 0; r < n; r++) to[r][i] = next;
    }
}

CLONES void bench_momentum(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end) {
    if (n == 2)
        step_with_state((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, state, begin, end);
    else
        step_with_state(from, n, to, state, begin, end);
}

CLONES void bench_copy(float *to, const float *from, int64_t count) {
    int64_t i = 0;
    if (to == from) return;
    for (; i + AT_ONCE * LANES <= count; i += AT_ONCE * LANES) {
        lanes block[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) block[k] = *(const lanes *)(from + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) *(lanes *)(to + i + k * LANES) = block[k];
    }
    for (; i < count; i++) to[i] = from[i];
}

CLONES void bench_swap(float *a, float *b, int64_t count) {
    int64_t i = 0;
    for (; i + AT_ONCE * LANES <= count; i += AT_ONCE * LANES) {
        lanes x[AT_ONCE], y[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) x[k] = *(const lanes *)(a + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) y[k] = *(const lanes *)(b + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) *(lanes *)(a + i + k * LANES) = y[k];
        for (int k = 0; k < AT_ONCE; k++) *(lanes *)(b + i + k * LANES) = x[k];
    }
    for (; i < count; i++) {
        float x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}
