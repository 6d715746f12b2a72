/* A ticket lock: first come, first served. One compare-and-swap when no other thread is there.
 *
 * state FREE: no thread holds it. HELD: one holds it, none waits. QUEUED: one holds it and others
 * may wait, so that the release has to check the list. A release hands the lock to the first waiter
 * while it is QUEUED and never frees it in between: no thread overtakes.
 *
 * CANCELLED, beside HELD or QUEUED: the one that holds it is told to end. A cancel counts before it
 * sets this bit. So a waiter to which the lock goes between the two sees the count, and one to
 * which it goes later sees it, too; only who comes after the count is free of it. A waiter that
 * keeps its place (MST_CANCEL_DEFERRED) sets the bit itself when it has the lock. */
#include "pool_state_private.h"

#include <string.h>

enum { FREE = MST_TICKET_LOCK_FREE, HELD = MST_TICKET_LOCK_HELD, QUEUED = MST_TICKET_LOCK_QUEUED, CANCELLED = MST_TICKET_LOCK_CANCELLED };

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
    waiter->eventcount = (int32_t)(tickets->given++ % MST_TICKET_EVENTCOUNTS);
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
        const uint32_t state = atomic_load(&tickets->state);
        if (state & QUEUED || (state & HELD && move_state(tickets, state, (state & CANCELLED) | QUEUED))) break;
    }
    append(tickets, waiter);
    return false;
}

bool mst_ticket_lock_queue(mst_ticket_lock *tickets, mst_ticket *waiter) {
    memset(waiter, 0, sizeof(*waiter));
    waiter->cancels = atomic_load(&tickets->cancels);
    pthread_mutex_lock(&tickets->lock);
    bool free = take_or_queue(tickets, waiter);
    pthread_mutex_unlock(&tickets->lock);
    return free;
}

typedef struct ticket_wait {
    const mst_ticket_lock *tickets;
    const mst_ticket *waiter;
} ticket_wait;

static bool is_ended(void *context) {
    const ticket_wait *w = context;
    return mst_ticket_lock_ended(w->tickets, w->waiter->cancels);
}

mst_ticket_result mst_ticket_lock_wait(mst_ticket_lock *tickets, mst_ticket *waiter, int64_t timeout_ns) {
    ticket_wait context = {tickets, waiter};
    const mst_wait wait = {.spin_ns = 0,
                           .timeout_ns = timeout_ns > 0 ? timeout_ns : -1,
                           .stop = waiter->effect == MST_CANCEL_ENDS ? is_ended : NULL,
                           .context = &context};
    mst_eventcount_wait(&tickets->eventcounts[waiter->eventcount], &waiter->served, 1, &wait);
    /* Also after success: the thread that grants publishes under the mutex, and may still use this
     * waiter. */
    pthread_mutex_lock(&tickets->lock);
    bool granted = waiter->granted;
    if (!granted) unlink_waiter(tickets, waiter);
    pthread_mutex_unlock(&tickets->lock);
    const bool ended = waiter->effect != MST_CANCEL_IGNORED && is_ended(&context);
    if (ended && granted && waiter->effect == MST_CANCEL_DEFERRED) mst_ticket_lock_end_call(tickets);
    if (!ended || waiter->effect == MST_CANCEL_DEFERRED) return granted ? MST_TICKET_TAKEN : MST_TICKET_LATE;
    if (granted) mst_ticket_lock_release(tickets);
    return MST_TICKET_ENDED;
}

mst_ticket_result mst_ticket_lock_acquire(mst_ticket_lock *tickets, int64_t timeout_ns, mst_cancel_effect effect) {
    if (mst_ticket_lock_try(tickets)) return MST_TICKET_TAKEN;
    mst_ticket waiter;
    if (mst_ticket_lock_queue(tickets, &waiter)) return MST_TICKET_TAKEN;
    waiter.effect = effect;
    return mst_ticket_lock_wait(tickets, &waiter, timeout_ns);
}

void mst_ticket_lock_release(mst_ticket_lock *tickets) {
    if (move_state(tickets, HELD, FREE)) return;
    pthread_mutex_lock(&tickets->lock);
    mst_ticket *next = tickets->first;
    if (next) {
        unlink_waiter(tickets, next);
        next->granted = true;
        atomic_store(&tickets->state, tickets->first ? QUEUED : HELD); /* not CANCELLED any more */
        atomic_store(&next->served, 1);
        mst_eventcount_notify(&tickets->eventcounts[next->eventcount]);
    } else {
        atomic_store(&tickets->state, FREE); /* the waiters have timed out */
    }
    pthread_mutex_unlock(&tickets->lock);
}

void mst_ticket_lock_end_call(mst_ticket_lock *tickets) {
    uint32_t state = atomic_load(&tickets->state);
    while (state != FREE && !(state & CANCELLED) && !atomic_compare_exchange_strong(&tickets->state, &state, state | CANCELLED)) {}
}

void mst_ticket_lock_cancel(mst_ticket_lock *tickets) {
    atomic_fetch_add(&tickets->cancels, 1);
    mst_ticket_lock_end_call(tickets);
    for (int32_t i = 0; i < MST_TICKET_EVENTCOUNTS; i++) mst_eventcount_notify(&tickets->eventcounts[i]);
}
