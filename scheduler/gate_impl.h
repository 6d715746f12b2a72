/* A gate: one 64-bit number that only grows, that threads wait for. Spin for a bounded time, then sleep on a futex.
 *
 * Protocol. publish: seq_cst store of value, then seq_cst load of sleepers; if there are any, turn is incremented and they are woken.
 * sleep: seq_cst increment of sleepers, read turn, look again at everything that could end the wait, then futex_wait(turn).
 * The futex word is `turn`, not the value, so that a kick (poison) wakes sleepers without a new value. */
#ifndef MST_GATE_IMPL_H
#define MST_GATE_IMPL_H

#include "clock_impl.h"
#include "memory_impl.h"

#include <stdatomic.h>

typedef struct mst_gate {
    _Atomic uint64_t value;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t turn;
} mst_gate;

typedef struct mst_wait {
    int64_t spin_ns;       /* 0: sleep at once */
    int64_t timeout_ns;    /* of this wait, from its beginning; negative: none */
    bool (*stop)(void *context); /* ends the wait early when it returns true (poison); NULL: none. Seq_cst loads inside */
    void *context;
} mst_wait;

typedef enum { MST_REACHED, MST_STOPPED, MST_TIMED_OUT } mst_wait_result;

void mst_gate_publish(mst_gate *gate, uint64_t value);
void mst_gate_kick(mst_gate *gate);
/* Until value >= target. REACHED wins over the others when both hold. */
mst_wait_result mst_gate_wait(mst_gate *gate, uint64_t target, const mst_wait *wait);

/* For tests: every wait first calls this (random delays, forced sleeping); NULL: none. */
extern void (*mst_gate_test_hook)(void);

#endif
