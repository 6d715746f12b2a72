/* Time: nanoseconds of CLOCK_MONOTONIC, and the processor's cheap tick counter. */
#ifndef MST_CLOCK_IMPL_H
#define MST_CLOCK_IMPL_H

#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

int64_t mst_now_ns(void);

/* Ticks per nanosecond, measured once in the process (about 1 ms), then remembered. */
double mst_ticks_per_ns(void);

static inline uint64_t mst_ticks(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (uint64_t)mst_now_ns();
#endif
}

static inline void mst_pause(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
