/* Time: nanoseconds of CLOCK_MONOTONIC, and the processor's tick counter, which is cheaper to
 * read. */
#ifndef MST_CLOCK_IMPL_H
#define MST_CLOCK_IMPL_H

#include <stdint.h>

int64_t mst_now_ns(void);

/* Ticks per nanosecond. The first call in the process measures it, which takes about 1 ms; later
 * calls return the same value. */
double mst_ticks_per_ns(void);

/* The tick counter; nanoseconds on processors other than x86-64. */
static inline uint64_t mst_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc(); /* without x86intrin.h, which takes longer to compile than most files that include this one */
#else
    return (uint64_t)mst_now_ns();
#endif
}

/* Tells the processor that this is a spin loop. Does nothing on processors other than x86-64 and
 * AArch64. */
static inline void mst_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
