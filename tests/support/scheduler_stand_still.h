/* A rank that keeps the others waiting until the call is lost. */
#ifndef SCHEDULER_STAND_STILL_H
#define SCHEDULER_STAND_STILL_H

#include "muster/worker.h"

#include <time.h>

/* Sleeps for 20 ms at a time: a thread that wakes up often uses so much time where a sanitizer or a
 * load makes it slow that it counts as computing, which no deadline ends. Gives up after 5 minutes,
 * by which the test fails where nothing ends the call. */
static inline void stand_still_until_cancelled(const muster_worker *worker) {
    for (int32_t i = 0; i < 15000 && !muster_worker_cancelled(worker); i++) nanosleep(&(struct timespec){0, 20000000}, NULL);
}

#endif
