/* A ticket lock: first come, first served. One compare-and-swap when no other thread is there.
 *
 * state FREE: no thread holds it. HELD: one holds it, none waits. QUEUED: one holds it and others
 * may wait, so that the release has to check the list. A release hands the lock to the first waiter
 * while it is QUEUED and never frees it in between: no thread overtakes. */
#include "pool_state_private.h"

#include <string.h>

enum { FREE = MST_TICKET_LOCK_FREE, HELD = MST_TICKET_LOCK_HELD, QUEUED = MST_TICKET_LOCK_QUEUED };

muster_status mst_ticket_lock_open(mst_ticket_lock *tickets) {
    if (mst_memory_refuse() || pthread_mutex_init(&tickets->lock, NULL) != 0)
        return mst_out_of_memory("muster_runtime_open: the pool's lock", sizeof(pthread_mutex_t));
    return MUSTER_OK;
}

void mst_ticket_lock_close(mst_ticket_lock *tickets) { pthread_mutex_destroy(&tickets->lock); }

static bool move_state(mst_ticket_lock *tickets, uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong(&tickets->state, &from, to);
}

static void append(mst_ticket_lock *tickets, mst_ticket *waiter) {
    waiter->previous = tickets->last;
    if (tickets->last)
        tickets->last->next = waiter;
    else
        tickets->first = waiter;
    tickets->last = waiter;
}

static void unlink_waiter(mst_ticket_lock *tickets, mst_ticket *waiter) {
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        tickets->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        tickets->last = waiter->previous;
}

/* Under the lock. true: the lock was free after all. */
static bool take_or_queue(mst_ticket_lock *tickets, mst_ticket *waiter) {
    for (;;) {
        if (move_state(tickets, FREE, HELD)) return true;
        if (move_state(tickets, HELD, QUEUED) || atomic_load(&tickets->state) == QUEUED) break;
    }
    append(tickets, waiter);
    return false;
}

bool mst_ticket_lock_queue(mst_ticket_lock *tickets, mst_ticket *waiter) {
    memset(waiter, 0, sizeof(*waiter));
    pthread_mutex_lock(&tickets->lock);
    bool free = take_or_queue(tickets, waiter);
    pthread_mutex_unlock(&tickets->lock);
    return free;
}

bool mst_ticket_lock_wait(mst_ticket_lock *tickets, mst_ticket *waiter, int64_t timeout_ns) {
    mst_wait wait = {.spin_ns = 0, .timeout_ns = timeout_ns > 0 ? timeout_ns : -1};
    mst_counter_wait(&waiter->counter, 1, &wait);
    /* Also after success: the thread that grants publishes under the mutex, and may still use this
     * waiter. */
    pthread_mutex_lock(&tickets->lock);
    bool granted = waiter->granted;
    if (!granted) unlink_waiter(tickets, waiter);
    pthread_mutex_unlock(&tickets->lock);
    return granted;
}

bool mst_ticket_lock_acquire(mst_ticket_lock *tickets, int64_t timeout_ns) {
    if (mst_ticket_lock_try(tickets)) return true;
    mst_ticket waiter;
    return mst_ticket_lock_queue(tickets, &waiter) || mst_ticket_lock_wait(tickets, &waiter, timeout_ns);
}

void mst_ticket_lock_release(mst_ticket_lock *tickets) {
    if (move_state(tickets, HELD, FREE)) return;
    pthread_mutex_lock(&tickets->lock);
    mst_ticket *next = tickets->first;
    if (next) {
        unlink_waiter(tickets, next);
        next->granted = true;
        if (!tickets->first) atomic_store(&tickets->state, HELD);
        mst_counter_publish(&next->counter, 1);
    } else {
        atomic_store(&tickets->state, FREE); /* the waiters have timed out */
    }
    pthread_mutex_unlock(&tickets->lock);
}
