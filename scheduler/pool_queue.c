/* Calls that no thread of the program waits for. They take their tickets when they are submitted,
 * and one thread of the pool makes them, one after another. Since it takes them in the order of
 * their tickets, it never waits for a ticket that is served after another job's. */
#include "own_thread_impl.h"
#include "pool_state_private.h"

#include <errno.h>
#include <fenv.h>
#include <inttypes.h>
#include <string.h>

muster_status mst_call_queue_open(mst_call_queue *queue) {
    if (mst_memory_refuse() || pthread_mutex_init(&queue->lock, NULL) != 0)
        return mst_out_of_memory("muster_runtime_open: the queue's lock", sizeof(pthread_mutex_t));
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        return mst_out_of_memory("muster_runtime_open: the queue's condition", sizeof(pthread_cond_t));
    }
    queue->length = MST_QUEUE_LENGTH;
    queue->open = true;
    return MUSTER_OK;
}

void mst_call_queue_close(mst_call_queue *queue, bool forked) {
    if (!queue->open || forked) return;
    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    if (queue->started) pthread_join(queue->thread, NULL);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

/* ---- the queue's thread ---- */

/* Of this thread: the pool whose calls it makes. No lock guards it, so that a signal handler finds
 * none held by the code that it interrupts. */
static _Thread_local const mst_pool *made_for __attribute__((tls_model("initial-exec")));

bool mst_pool_is_queue_thread(const mst_pool *pool) { return made_for == pool; }

static mst_job *next_job(mst_call_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->closing) pthread_cond_wait(&queue->changed, &queue->lock);
    mst_job *job = queue->first;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static bool too_late(const mst_job *job) { return job->timeout_ns > 0 && mst_now_ns() - job->queued_ns >= job->timeout_ns; }

static int64_t left_ns(const mst_job *job) {
    if (job->timeout_ns <= 0) return 0;
    const int64_t left = job->queued_ns + job->timeout_ns - mst_now_ns();
    return left < 1 ? 1 : left;
}

static muster_status waited_too_long(const mst_job *job) {
    return mst_error(MUSTER_TIMEOUT, "%s: waited %.3g s for other calls to end", job->where, (double)job->timeout_ns * 1e-9);
}

static mst_ticket_result await_ticket(mst_pool *pool, mst_job *job) {
    if (!job->taken) return mst_ticket_lock_wait(&pool->tickets, &job->waiter, left_ns(job));
    if (!mst_ticket_lock_ended(&pool->tickets, job->cancels)) return MST_TICKET_TAKEN;
    if (mst_pool_cancel_effect(pool) == MST_CANCEL_DEFERRED) return mst_ticket_lock_end_call(&pool->tickets), MST_TICKET_TAKEN;
    mst_ticket_lock_release(&pool->tickets);
    return MST_TICKET_ENDED;
}

/* A ticket that was served too late, behind another job, is released at once. */
static muster_status take_ticket(mst_pool *pool, mst_job *job) {
    const mst_ticket_result result = await_ticket(pool, job);
    if (result == MST_TICKET_ENDED) return mst_cancel_refuse(job->where);
    if (result == MST_TICKET_LATE) return waited_too_long(job);
    if (!too_late(job)) return MUSTER_OK;
    mst_ticket_lock_release(&pool->tickets);
    return waited_too_long(job);
}

/* Under the lock of the queue, so that both queues have one order. */
static void place(mst_pool *pool, mst_job *job) {
    mst_call_queue *queue = &pool->queue;
    job->next = NULL;
    job->taken = mst_ticket_lock_queue(&pool->tickets, &job->waiter);
    job->waiter.cancels = job->cancels;
    job->waiter.effect = mst_pool_cancel_effect(pool);
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    queue->count++;
    pthread_cond_signal(&queue->changed);
}

static void take_outside(mst_call_queue *queue, const mst_job *job) {
    mst_job *before = NULL;
    if (queue->first_outside == job) {
        queue->first_outside = job->next;
    } else {
        for (before = queue->first_outside; before->next != job;) before = before->next;
        before->next = job->next;
    }
    if (queue->last_outside == job) queue->last_outside = before;
}

/* The first that waits for a place gets that of the job. */
static void forget(mst_pool *pool, mst_job *job) {
    mst_call_queue *queue = &pool->queue;
    pthread_mutex_lock(&queue->lock);
    queue->first = job->next;
    if (!queue->first) queue->last = NULL;
    queue->count--;
    mst_job *next = queue->count < queue->length ? queue->first_outside : NULL;
    if (next) {
        take_outside(queue, next);
        place(pool, next);
        atomic_store(&next->placed, 1);
        mst_eventcount_notify(&queue->places);
    }
    pthread_mutex_unlock(&queue->lock);
}

static void *queue_main(void *context) {
    mst_pool *pool = context;
    mst_job *job;
    made_for = pool;
    (void)fesetenv(FE_DFL_ENV); /* not that of the thread that submitted the first job */
    while ((job = next_job(&pool->queue))) {
        const muster_status status = take_ticket(pool, job);
        forget(pool, job);
        job->run(job, status);
    }
    return NULL;
}

/* ---- submitting ---- */

/* Signals are for the program's own threads. */
static muster_status start(mst_pool *pool, const char *where) {
    if (pool->queue.started) return MUSTER_OK;
    const sigset_t before = mst_signals_block();
    const int error = mst_memory_refuse() ? EAGAIN : pthread_create(&pool->queue.thread, NULL, queue_main, pool);
    mst_signals_restore(&before);
    if (error) return mst_error(MUSTER_SYSTEM, "%s: starting the thread of asynchronous calls: %s", where, strerror(error));
    pthread_setname_np(pool->queue.thread, "muster-calls");
    pool->queue.started = true;
    return MUSTER_OK;
}

typedef struct place_wait {
    const mst_pool *pool;
    const mst_job *job;
} place_wait;

static bool is_ended(void *context) {
    const place_wait *w = context;
    return mst_ticket_lock_ended(&w->pool->tickets, w->job->cancels);
}

/* Under the lock of the queue, which it gives back while it waits. */
static muster_status wait_for_place(mst_pool *pool, mst_job *job) {
    mst_call_queue *queue = &pool->queue;
    place_wait context = {pool, job};
    const mst_wait wait = {.timeout_ns = job->timeout_ns > 0 ? left_ns(job) : -1, .stop = is_ended, .context = &context};
    atomic_store(&job->placed, 0);
    job->next = NULL;
    if (queue->last_outside)
        queue->last_outside->next = job;
    else
        queue->first_outside = job;
    queue->last_outside = job;
    pthread_mutex_unlock(&queue->lock);
    const mst_wait_result result = mst_eventcount_wait(&queue->places, &job->placed, 1, &wait);
    pthread_mutex_lock(&queue->lock);
    if (atomic_load(&job->placed)) return MUSTER_OK;
    take_outside(queue, job);
    return result == MST_STOPPED ? mst_cancel_refuse(job->where) : waited_too_long(job);
}

static muster_status submit(mst_pool *pool, mst_job *job) {
    mst_call_queue *queue = &pool->queue;
    MUSTER_TRY(start(pool, job->where));
    if (job->unlimited || (queue->count < queue->length && !queue->first_outside)) return place(pool, job), MUSTER_OK;
    if (mst_pool_is_queue_thread(pool))
        return mst_error(MUSTER_BAD_STATE,
                         "%s: %" PRId32 " asynchronous calls are queued already, and the thread that makes them would wait", job->where,
                         queue->length);
    return wait_for_place(pool, job);
}

muster_status mst_pool_submit(mst_pool *pool, mst_job *job, const char *where, int64_t timeout_ns) {
    MUSTER_TRY(mst_pool_begin_submit(pool, where));
    job->where = where;
    job->timeout_ns = timeout_ns;
    job->queued_ns = timeout_ns > 0 ? mst_now_ns() : 0;
    job->cancels = atomic_load(&pool->tickets.cancels);
    pthread_mutex_lock(&pool->queue.lock); /* held over both queues, so that their orders agree */
    const muster_status status = submit(pool, job);
    pthread_mutex_unlock(&pool->queue.lock);
    mst_pool_end_submit();
    return status;
}
