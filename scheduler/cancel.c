/* Ending calls from outside, also from a signal handler. A cancel counts itself, which ends those
 * that wait with an older count, and marks the word of the ticket lock, which ends the run of the
 * one that has the lock. The mark goes when that one leaves, so nothing is remembered. A worker
 * that sees the mark aborts the run with CANCELLED, and everything else is as for other
 * failures. */
#include "pool_state_private.h"

#include <errno.h>

const char mst_cancel_reason[] = "muster_runtime_cancel has ended the call";

void mst_pool_cancel(mst_pool *pool) {
    const int before = errno;
    mst_ticket_lock_cancel(&pool->tickets);
    mst_eventcount_notify(&pool->queue.places);
    mst_pool_notify_all(pool);
    errno = before;
}

bool mst_pool_must_end(const void *pool) { return mst_pool_is_cancelled(pool); }

muster_status mst_cancel_refuse(const char *where) { return mst_error(MUSTER_CANCELLED, "%s: %s", where, mst_cancel_reason); }

/* ---- on a worker ---- */

/* A load that a sleeper makes between announcing itself and its sleep. */
bool mst_worker_must_end(const muster_worker *worker) {
    const mst_pool *pool = worker->pool;
    if (__builtin_expect((atomic_load(&pool->tickets.state) & MST_TICKET_LOCK_CANCELLED) == 0, 1)) return false;
    return !pool->uncancellable && worker->sealed != worker->epoch;
}

bool mst_worker_ends(const muster_worker *worker) {
    if (!mst_worker_must_end(worker)) return false;
    mst_run_abort(&worker->pool->states[worker->rank].worker, MUSTER_CANCELLED, mst_cancel_reason);
    return true;
}

muster_status mst_worker_seal(muster_worker *worker, const char *where) {
    if (__builtin_expect(mst_worker_ends(worker), 0)) return mst_cancel_refuse(where);
    worker->sealed = worker->epoch;
    return MUSTER_OK;
}

/* ---- on the thread of the call ---- */

muster_status mst_cancel_before(void) { return mst_error_restore(MUSTER_CANCELLED, mst_cancel_reason); }

static bool is_sealed(const mst_pool *pool, uint64_t epoch) {
    for (int32_t rank = 0; rank < pool->size; rank++)
        if (pool->states[rank].worker.sealed == epoch) return true;
    return false;
}

bool mst_pool_is_sealed(const mst_pool *pool) { return is_sealed(pool, pool->epoch); }

/* A body that has seen the cancel may have returned ABORTED, or OK. What a sealed run has begun, it
 * has also ended, or it has failed with another status. */
muster_status mst_cancel_outcome(const mst_pool *pool, uint64_t epoch, muster_status status) {
    if (pool->uncancellable || (status != MUSTER_OK && status != MUSTER_ABORTED)) return status;
    return is_sealed(pool, epoch) ? status : mst_cancel_before();
}
