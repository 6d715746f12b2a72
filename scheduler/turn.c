/* Whose turn it is: first come, first served. One compare-and-swap when nobody else is there.
 *
 * state FREE: nobody has the turn. HELD: somebody has it, nobody waits. QUEUED: somebody has it and
 * there may be waiters, so that leaving has to look at the list. The turn is handed to the first
 * waiter while it is QUEUED, never set free in between: nobody overtakes. */
#include "pool_state_impl.h"

enum { FREE, HELD, QUEUED };

muster_status mst_turn_open(mst_turn *turn) {
    if (mst_memory_refuse() || pthread_mutex_init(&turn->lock, NULL) != 0)
        return mst_out_of_memory("the pool's lock", sizeof(pthread_mutex_t));
    return MUSTER_OK;
}

void mst_turn_close(mst_turn *turn) { pthread_mutex_destroy(&turn->lock); }

static bool move_state(mst_turn *turn, uint32_t from, uint32_t to) { return atomic_compare_exchange_strong(&turn->state, &from, to); }

static void append(mst_turn *turn, mst_turn_waiter *waiter) {
    waiter->previous = turn->last;
    if (turn->last)
        turn->last->next = waiter;
    else
        turn->first = waiter;
    turn->last = waiter;
}

static void unlink_waiter(mst_turn *turn, mst_turn_waiter *waiter) {
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        turn->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        turn->last = waiter->previous;
}

/* Under the lock. true: the turn was free after all. */
static bool take_or_queue(mst_turn *turn, mst_turn_waiter *waiter) {
    for (;;) {
        if (move_state(turn, FREE, HELD)) return true;
        if (move_state(turn, HELD, QUEUED) || atomic_load(&turn->state) == QUEUED) break;
    }
    append(turn, waiter);
    return false;
}

bool mst_turn_queue(mst_turn *turn, mst_turn_waiter *waiter) {
    *waiter = (mst_turn_waiter){.granted = false};
    pthread_mutex_lock(&turn->lock);
    bool free = take_or_queue(turn, waiter);
    pthread_mutex_unlock(&turn->lock);
    return free;
}

bool mst_turn_wait(mst_turn *turn, mst_turn_waiter *waiter, int64_t timeout_ns) {
    mst_wait wait = {.spin_ns = 0, .timeout_ns = timeout_ns > 0 ? timeout_ns : -1};
    mst_gate_wait(&waiter->gate, 1, &wait);
    /* Also after success: whoever grants publishes under the lock, and may still be looking at this
     * waiter. */
    pthread_mutex_lock(&turn->lock);
    bool granted = waiter->granted;
    if (!granted) unlink_waiter(turn, waiter);
    pthread_mutex_unlock(&turn->lock);
    return granted;
}

bool mst_turn_enter(mst_turn *turn, int64_t timeout_ns) {
    if (move_state(turn, FREE, HELD)) return true;
    mst_turn_waiter waiter;
    return mst_turn_queue(turn, &waiter) || mst_turn_wait(turn, &waiter, timeout_ns);
}

void mst_turn_leave(mst_turn *turn) {
    if (move_state(turn, HELD, FREE)) return;
    pthread_mutex_lock(&turn->lock);
    mst_turn_waiter *next = turn->first;
    if (next) {
        unlink_waiter(turn, next);
        next->granted = true;
        if (!turn->first) atomic_store(&turn->state, HELD);
        mst_gate_publish(&next->gate, 1);
    } else {
        atomic_store(&turn->state, FREE); /* the waiters have timed out */
    }
    pthread_mutex_unlock(&turn->lock);
}
