#include "clock_impl.h"

#include <stdatomic.h>
#include <time.h>

int64_t mst_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#if defined(__x86_64__)
static double measure_ticks_per_ns(void) {
    int64_t start = mst_now_ns(), now;
    uint64_t first = mst_ticks();
    do now = mst_now_ns();
    while (now - start < 1000000);
    return (double)(mst_ticks() - first) / (double)(now - start);
}
#endif

double mst_ticks_per_ns(void) {
#if defined(__x86_64__)
    static _Atomic double measured;
    double value = atomic_load(&measured);
    if (value == 0) { /* two threads may both measure; either result serves */
        value = measure_ticks_per_ns();
        atomic_store(&measured, value);
    }
    return value;
#else
    return 1; /* mst_ticks already counts nanoseconds */
#endif
}
