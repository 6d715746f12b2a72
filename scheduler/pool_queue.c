/* Calls that no thread of the program waits for. They take their tickets when they are submitted,
 * and one thread of the pool makes them, one after another. Since it takes them in the order of
 * their tickets, it never waits for a ticket that is served after another job's. */
#include "own_thread_impl.h"
#include "pool_state_private.h"

#include <errno.h>
#include <string.h>

muster_status mst_call_queue_open(mst_call_queue *queue) {
    if (mst_memory_refuse() || pthread_mutex_init(&queue->lock, NULL) != 0)
        return mst_out_of_memory("muster_runtime_open: the queue's lock", sizeof(pthread_mutex_t));
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        return mst_out_of_memory("muster_runtime_open: the queue's condition", sizeof(pthread_cond_t));
    }
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

static mst_job *next_job(mst_call_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->closing) pthread_cond_wait(&queue->changed, &queue->lock);
    mst_job *job = queue->first;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static bool too_late(const mst_job *job) { return job->timeout_ns > 0 && mst_now_ns() - job->queued_ns >= job->timeout_ns; }

/* A ticket that was served too late, behind another job, is released at once. */
static muster_status take_ticket(mst_pool *pool, mst_job *job) {
    if (job->taken) return MUSTER_OK;
    const int64_t left_ns = job->timeout_ns > 0 ? job->queued_ns + job->timeout_ns - mst_now_ns() : 0;
    if (mst_ticket_lock_wait(&pool->tickets, &job->waiter, job->timeout_ns > 0 && left_ns < 1 ? 1 : left_ns)) {
        if (!too_late(job)) return MUSTER_OK;
        mst_ticket_lock_release(&pool->tickets);
    }
    return mst_error(MUSTER_TIMEOUT, "%s: waited %.3g s for other calls to end", job->where, (double)job->timeout_ns * 1e-9);
}

static void forget(mst_call_queue *queue, mst_job *job) {
    pthread_mutex_lock(&queue->lock);
    queue->first = job->next;
    if (!queue->first) queue->last = NULL;
    queue->count--;
    pthread_mutex_unlock(&queue->lock);
}

static void *queue_main(void *context) {
    mst_pool *pool = context;
    mst_job *job;
    while ((job = next_job(&pool->queue))) {
        const muster_status status = take_ticket(pool, job);
        forget(&pool->queue, job);
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

static muster_status submit(mst_pool *pool, mst_job *job) {
    mst_call_queue *queue = &pool->queue;
    if (queue->count >= MST_QUEUE_LENGTH && !job->unlimited)
        return mst_error(MUSTER_BAD_STATE, "%s: %d asynchronous calls are queued already: wait for one of them first", job->where,
                         MST_QUEUE_LENGTH);
    MUSTER_TRY(start(pool, job->where));
    job->taken = mst_ticket_lock_queue(&pool->tickets, &job->waiter);
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    queue->count++;
    pthread_cond_signal(&queue->changed);
    return MUSTER_OK;
}

muster_status mst_pool_submit(mst_pool *pool, mst_job *job, const char *where, int64_t timeout_ns) {
    MUSTER_TRY(mst_pool_ready(pool, where));
    job->where = where;
    job->timeout_ns = timeout_ns;
    job->queued_ns = timeout_ns > 0 ? mst_now_ns() : 0;
    job->next = NULL;
    pthread_mutex_lock(&pool->queue.lock); /* held over both queues, so that their orders agree */
    const muster_status status = submit(pool, job);
    pthread_mutex_unlock(&pool->queue.lock);
    return status;
}

bool mst_pool_is_queue_thread(mst_pool *pool) {
    pthread_mutex_lock(&pool->queue.lock);
    const bool is = pool->queue.started && pthread_equal(pool->queue.thread, pthread_self());
    pthread_mutex_unlock(&pool->queue.lock);
    return is;
}
