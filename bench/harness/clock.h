/* Time of one call: the invariant tick counter where there is one, fenced so that nothing of the
 * call leaks over its ends. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t bench_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline uint64_t bench_ticks(void) {
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return ticks;
#else
    return (uint64_t)bench_now_ns();
#endif
}

static inline void bench_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Nanoseconds per tick, measured once over 20 ms. */
static inline double bench_ns_per_tick(void) {
    static double cached;
    if (cached == 0) {
        int64_t begin_ns = bench_now_ns();
        uint64_t begin = bench_ticks();
        while (bench_now_ns() - begin_ns < 20000000) bench_relax();
        cached = (double)(bench_now_ns() - begin_ns) / (double)(bench_ticks() - begin);
    }
    return cached;
}

/* The caller computes for this long: its core stays awake, while threads that wait for it may fall
 * asleep. */
static inline void bench_busy_ns(int64_t ns) {
    int64_t end = bench_now_ns() + ns;
    while (bench_now_ns() < end) bench_relax();
}

/* One block: `warm` calls that do not count, then `calls` that do, each after a pause of
 * `pause_ns`. */
typedef struct bench_block {
    int32_t warm, calls;
    int64_t pause_ns;
} bench_block;

/* Times `expression` as the block says; ns[calls] out. */
#define BENCH_TIME(block, ns, expression)                                                       \
    do {                                                                                        \
        double bench_scale_ = bench_ns_per_tick();                                              \
        for (int32_t bench_i_ = -(block)->warm; bench_i_ < (block)->calls; bench_i_++) {        \
            if ((block)->pause_ns > 0) bench_busy_ns((block)->pause_ns);                        \
            uint64_t bench_t0_ = bench_ticks();                                                 \
            expression;                                                                         \
            uint64_t bench_t1_ = bench_ticks();                                                 \
            if (bench_i_ >= 0) (ns)[bench_i_] = (double)(bench_t1_ - bench_t0_) * bench_scale_; \
        }                                                                                       \
    } while (0)

#endif
