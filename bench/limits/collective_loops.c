#include "collective_loops.h"

#include "collective.h"

#include <stdbool.h>
#include <string.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

/* Several vectors are read before any is written: the reads of other cores' lines overlap. */
enum { LANES = BENCH_LANES, AT_ONCE = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* ---- stores ---- */

#if defined(__SSE2__)
INLINE void put(float *to, lanes value, bool stream) {
    __m128 quarters[LANES / 4];
    if (!stream) {
        *(lanes *)to = value;
        return;
    }
    memcpy(quarters, &value, sizeof value);
    for (int q = 0; q < LANES / 4; q++) _mm_stream_ps(to + 4 * q, quarters[q]);
}
static void end_stream(void) { _mm_sfence(); }
enum { STREAMS = 1 };
#else
INLINE void put(float *to, lanes value, bool stream) { (void)stream, *(lanes *)to = value; }
static void end_stream(void) {}
enum { STREAMS = 0 };
#endif

/* From where on all places begin a cache line; `end`: they never do so at once. */
static int64_t first_line(float *const *to, int m, int64_t begin, int64_t end) {
    int64_t i = begin;
    while (i < end && (uintptr_t)(to[0] + i) % sizeof(lanes) != 0) i++;
    for (int r = 1; r < m; r++)
        if ((uintptr_t)(to[r] + i) % sizeof(lanes) != 0) return end;
    return i;
}

/* ---- sums ---- */

INLINE void add(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end, bool stream) {
    int64_t i = begin;
    for (; i + AT_ONCE * LANES <= end; i += AT_ONCE * LANES) {
        lanes sum[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(from[0] + i + k * LANES);
        for (int r = 1; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(from[r] + i + k * LANES);
        for (int r = 0; r < m; r++)
            for (int k = 0; k < AT_ONCE; k++) put(to[r] + i + k * LANES, sum[k], stream);
    }
    for (; i < end; i++) {
        float sum = from[0][i];
        for (int r = 1; r < n; r++) sum += from[r][i];
        for (int r = 0; r < m; r++) to[r][i] = sum;
    }
}

/* The usual numbers of ranks as constants, for the compiler to keep everything in registers. */
INLINE void add_any(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end, bool stream) {
    if (n == 1 && m == 1)
        add((float *[]){from[0]}, 1, (float *[]){to[0]}, 1, begin, end, stream);
    else if (n == 1 && m == 3)
        add((float *[]){from[0]}, 1, (float *[]){to[0], to[1], to[2]}, 3, begin, end, stream);
    else if (n == 1 && m == 4)
        add((float *[]){from[0]}, 1, (float *[]){to[0], to[1], to[2], to[3]}, 4, begin, end, stream);
    else if (n == 2 && m == 1)
        add((float *[]){from[0], from[1]}, 2, (float *[]){to[0]}, 1, begin, end, stream);
    else if (n == 2 && m == 2)
        add((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, 2, begin, end, stream);
    else if (n == 4 && m == 1)
        add((float *[]){from[0], from[1], from[2], from[3]}, 4, (float *[]){to[0]}, 1, begin, end, stream);
    else if (n == 4 && m == 4)
        add((float *[]){from[0], from[1], from[2], from[3]}, 4, (float *[]){to[0], to[1], to[2], to[3]}, 4, begin, end, stream);
    else
        add(from, n, to, m, begin, end, stream);
}

CLONES static void sum_plain(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end) {
    add_any(from, n, to, m, begin, end, false);
}

CLONES static void sum_streaming(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end) {
    add_any(from, n, to, m, begin, end, true);
}

void bench_sum(float *const *from, int n, float *const *to, int m, int64_t begin, int64_t end, bench_store store) {
    const int64_t line = store == BENCH_STREAMING && STREAMS ? first_line(to, m, begin, end) : end;
    sum_plain(from, n, to, m, begin, line);
    if (line == end) return;
    sum_streaming(from, n, to, m, line, end);
    end_stream();
}

/* ---- updates ---- */

/* With a state it is read and written, too. The first place is written by plain stores. */
INLINE void step(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end, bool stream) {
    int64_t i = begin;
    for (; i + AT_ONCE * LANES <= end; i += AT_ONCE * LANES) {
        lanes sum[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) sum[k] = *(const lanes *)(from[0] + i + k * LANES);
        for (int r = 1; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(from[r] + i + k * LANES);
        for (int k = 0; k < AT_ONCE; k++) sum[k] *= COLLECTIVE_RATE;
        for (int k = 0; k < AT_ONCE && state; k++) sum[k] += COLLECTIVE_DECAY * *(const lanes *)(state + i + k * LANES);
        for (int k = 0; k < AT_ONCE && state; k++) *(lanes *)(state + i + k * LANES) = sum[k];
        for (int k = 0; k < AT_ONCE; k++) sum[k] += *(const lanes *)(to[0] + i + k * LANES);
        for (int r = 0; r < n; r++)
            for (int k = 0; k < AT_ONCE; k++) put(to[r] + i + k * LANES, sum[k], stream && r > 0);
    }
    for (; i < end; i++) {
        float sum = from[0][i];
        for (int r = 1; r < n; r++) sum += from[r][i];
        sum *= COLLECTIVE_RATE;
        if (state) sum = state[i] = COLLECTIVE_DECAY * state[i] + sum;
        float next = to[0][i] + sum;
        for (int r = 0; r < n; r++) to[r][i] = next;
    }
}

INLINE void step_any(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end, bool stream) {
    if (n == 2 && state)
        step((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, state, begin, end, stream);
    else if (n == 2)
        step((float *[]){from[0], from[1]}, 2, (float *[]){to[0], to[1]}, NULL, begin, end, stream);
    else
        step(from, n, to, state, begin, end, stream);
}

CLONES static void step_plain(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end) {
    step_any(from, n, to, state, begin, end, false);
}

CLONES static void step_streaming(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end) {
    step_any(from, n, to, state, begin, end, true);
}

void bench_momentum(float *const *from, int n, float *const *to, float *state, int64_t begin, int64_t end, bench_store store) {
    const int64_t line = store == BENCH_STREAMING && STREAMS ? first_line(to, n, begin, end) : end;
    step_plain(from, n, to, state, begin, line);
    if (line == end) return;
    step_streaming(from, n, to, state, line, end);
    end_stream();
}

void bench_update(float *const *from, int n, float *const *to, int64_t begin, int64_t end, bench_store store) {
    bench_momentum(from, n, to, NULL, begin, end, store);
}

/* ---- copies ---- */

#if defined(__x86_64__)
static void copy_movsb(void *to, const void *from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}
#else
static void copy_movsb(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

void bench_copy(float *to, const float *from, int64_t count, bench_store store) {
    if (to == from || count == 0) return;
    if (store == BENCH_MOVSB)
        copy_movsb(to, from, (size_t)count * sizeof(float));
    else
        bench_sum((float *[]){(float *)(uintptr_t)from}, 1, (float *[]){to}, 1, 0, count, store);
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
