/* Waiting for a 64-bit number that only grows. An eventcount is where threads sleep; a counter is a
 * number with an eventcount of its own; many numbers of one owner can share an eventcount, so that
 * one notify wakes every thread that waits for that owner.
 *
 * Protocol. publish: seq_cst store of the value, then seq_cst load of sleepers; if there are any,
 * the generation is incremented and they are woken.
 * sleep: seq_cst increment of sleepers, read the generation, check again everything that could end
 * the wait, then futex_wait(generation). The futex word is `generation`, not the value, so that a
 * notify (after an abort) wakes sleepers without a new value. */
#ifndef MST_EVENTCOUNT_IMPL_H
#define MST_EVENTCOUNT_IMPL_H

#include "clock_impl.h"
#include "memory_impl.h"
#include "spin_impl.h"

#include <stdatomic.h>

typedef struct mst_eventcount {
    _Atomic uint32_t sleepers;
    _Atomic uint32_t generation;
} mst_eventcount;

typedef struct mst_counter {
    _Atomic uint64_t value;
    mst_eventcount eventcount;
} mst_counter;

typedef struct mst_wait {
    int64_t spin_ns; /* at most; 0: no spin */
    /* what waits of this kind have learned: this one spins for as long as it says, and adds to it;
     * NULL: it spins for spin_ns */
    mst_spin *spin;
    /* after the spin and before sleeping, give the CPU away at most so often: for more threads than
     * CPUs */
    int32_t yields;
    int64_t timeout_ns; /* of this wait, from its beginning; negative: none */
    /* ends the wait early when it returns true (abort); NULL: none. Seq_cst loads inside */
    bool (*stop)(void *context);
    void *context;
} mst_wait;

typedef enum { MST_REACHED, MST_STOPPED, MST_TIMED_OUT } mst_wait_result;

/* Wakes every sleeper. The caller has already changed, by a seq_cst store, something that ends
 * their waits. */
void mst_eventcount_notify(mst_eventcount *eventcount);
/* Waits until *value >= target. A notify must follow every change of *value and of what `stop`
 * reads. REACHED wins when both hold. */
mst_wait_result mst_eventcount_wait(mst_eventcount *eventcount, const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait);

void mst_counter_publish(mst_counter *counter, uint64_t value);
static inline mst_wait_result mst_counter_wait(mst_counter *counter, uint64_t target, const mst_wait *wait) {
    return mst_eventcount_wait(&counter->eventcount, &counter->value, target, wait);
}

/* For tests: every wait first calls this (random delays, forced sleeping); NULL: none. */
extern void (*mst_wait_test_hook)(void);

#endif
