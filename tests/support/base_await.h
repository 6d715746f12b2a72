/* Waits of tests for another thread, each with an end: without one a failure elsewhere would show
 * as a suite that hangs. */
#ifndef BASE_AWAIT_H
#define BASE_AWAIT_H

#include "base_pace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t await_longest_ns = 20000000000;

/* By any thread, which may not be that of the test: so the program ends. The pace is asked late,
 * because a thread that measures it counts as one that computes. */
static inline void await_check(int64_t begin_ns, const char *condition, const char *file, int line) {
    const int64_t waited_ns = pace_now_ns() - begin_ns;
    if (waited_ns < await_longest_ns || waited_ns < test_patience(await_longest_ns)) return;
    fprintf(stderr, "%s:%d: waited %.3g s for %s\n", file, line, (double)waited_ns * 1e-9, condition);
    abort();
}

static inline void await_pause(int64_t pause_ns) { nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL); }

/* Sleeps pause_ns again and again until the condition holds; aborts the program when it does not in
 * 20 s on a quiet machine. */
#define TEST_AWAIT(condition, pause_ns)                                  \
    do {                                                                 \
        const int64_t await_begin_ns = pace_now_ns();                    \
        while (!(condition)) {                                           \
            await_check(await_begin_ns, #condition, __FILE__, __LINE__); \
            await_pause(pause_ns);                                       \
        }                                                                \
    } while (0)

/* A barrier of threads, whose wait has an end, too; all zero but for the number of threads. */
typedef struct await_barrier {
    int32_t threads;
    _Atomic int32_t arrived, rounds;
} await_barrier;

static inline void await_barrier_wait(await_barrier *barrier) {
    const int32_t round = barrier->rounds;
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->threads) {
        barrier->arrived = 0;
        barrier->rounds = round + 1;
    } else
        TEST_AWAIT(barrier->rounds != round, 50000);
}

#endif
