/* How fast this machine is now, by which tests multiply their time limits: a busy machine makes
 * tests slow, and must not make them fail. */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

enum {
    PACE_STEPS = 12000000,      /* of a loop that takes PACE_NOMINAL_NS on a quiet core */
    PACE_NOMINAL_NS = 15000000, /* long enough to be interrupted where others compute */
    PACE_MEASURE_AGAIN_NS = 1000000000,
};

static inline int64_t pace_now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The time that the loop takes now, in units of its time on a quiet core. */
static inline double pace_measure(void) {
    volatile uint32_t value = 1;
    const int64_t begin = pace_now_ns();
    for (int32_t i = 0; i < PACE_STEPS; i++) value = value * 1664525u + 1013904223u;
    return (double)(pace_now_ns() - begin) / PACE_NOMINAL_NS;
}

/* How many times slower than a quiet core this machine has been at its slowest, as far as this
 * program has asked; at least 1. Any thread may ask. */
static inline double test_pace(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double slowest = 1;
    static int64_t measured;
    pthread_mutex_lock(&lock);
    if (!measured || pace_now_ns() - measured > PACE_MEASURE_AGAIN_NS) {
        const double pace = pace_measure();
        if (pace > slowest) slowest = pace;
        measured = pace_now_ns();
    }
    const double result = slowest;
    pthread_mutex_unlock(&lock);
    return result;
}

/* A time limit in nanoseconds for this machine, from one for a quiet machine. What is not above 0
 * is not a time, and comes back as it is. */
static inline int64_t test_patience(int64_t ns) { return ns > 0 ? (int64_t)((double)ns * test_pace()) : ns; }

#endif
