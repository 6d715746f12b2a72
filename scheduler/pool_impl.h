/* The pool: one worker per device. Every run gives all workers the same task; the caller's thread
 * serves rank 0, unless dedicated_rank0 gives it a thread. It knows nothing of functions and
 * collectives. */
#ifndef MST_POOL_IMPL_H
#define MST_POOL_IMPL_H

#include "eventcount_impl.h"
#include "worker_impl.h"

typedef struct mst_pool_options {
    /* >= 0; the pool lowers it to 0 when workers exceed allowed CPUs or under a real-time policy */
    int64_t spin_ns;
    int64_t warn_after_ns; /* negative: never */
    int64_t fail_after_ns; /* negative: never */
    bool pin;
    bool dedicated_rank0;                      /* rank 0 has a thread of its own */
    void (*log)(void *user, const char *line); /* never NULL */
    void *log_user;
} mst_pool_options;

typedef muster_status (*mst_task)(muster_worker *worker, void *argument);

/* devices: borrowed, `count` of them. Worker threads start here. On failure nothing is left.
 * destroy joins them (after fork: forgets them). */
muster_status mst_pool_create(const mst_pool_options *options, mst_device *const *devices, int32_t count, mst_pool **pool);
void mst_pool_destroy(mst_pool *pool);
int32_t mst_pool_size(const mst_pool *pool);
muster_worker *mst_pool_worker(mst_pool *pool, int32_t rank);
const mst_pool_options *mst_pool_settings(const mst_pool *pool); /* as decided: spin_ns after the rules */

/* enter: gives this thread the pool, in order of arrival; waits at most timeout_ns (<= 0: for
 * ever). Refuses inside a task of any pool (BAD_STATE), after fork (BAD_STATE), and with TIMEOUT.
 * where: the public function's name for messages. leave: gives the pool to the next thread. */
muster_status mst_pool_enter(mst_pool *pool, const char *where, int64_t timeout_ns);
void mst_pool_leave(mst_pool *pool);

/* Between enter and leave. run: task on every worker; returns when all have come back: the end of
 * the run is a rendezvous that every worker passes in every outcome. The first failure wins; its
 * message becomes the caller's, with " (rank R)" if size > 1. ABORTED never wins.
 * run_single: on rank 0 alone in this thread, worker->size 1. Scratch of every worker is given back
 * at the end, after a device sync. */
muster_status mst_pool_run(mst_pool *pool, mst_task task, void *argument);
muster_status mst_pool_run_single(mst_pool *pool, mst_task task, void *argument);

/* A call that no thread waits for. It queues in the order of enter, and a thread of the pool makes
 * it; the first such call starts that thread.
 * run: on that thread; status OK: the job has the pool and must leave it; TIMEOUT: the pool was not
 * free in time. When run begins the job is no longer the queue's. submit refuses what enter
 * refuses, a full queue (BAD_STATE), and a thread that cannot be started (SYSTEM). */
enum { MST_QUEUE_LENGTH = 64 };
typedef struct mst_job mst_job;
muster_status mst_pool_submit(mst_pool *pool, mst_job *job, const char *where, int64_t timeout_ns);

/* For the next run only, between enter and run: 0: the pool's own; negative: never. */
void mst_pool_set_deadlines(mst_pool *pool, int64_t warn_after_ns, int64_t fail_after_ns);

/* A place in the queue of the ticket lock. */
typedef struct mst_ticket {
    mst_counter counter; /* 1: the lock is held for this ticket */
    struct mst_ticket *previous, *next;
    bool granted; /* under the lock */
} mst_ticket;

/* A job of mst_pool_submit. The rest is the queue's. */
struct mst_job {
    void (*run)(mst_job *job, muster_status status);
    const char *where; /* a literal: the public function's name for messages */
    int64_t timeout_ns, queued_ns;
    mst_ticket waiter;
    bool taken; /* the lock was free */
    mst_job *next;
};

#endif
