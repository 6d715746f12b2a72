/* The pool: one worker per device. A run gives all workers the same task. The caller's thread is
 * the worker of rank 0, unless dedicated_rank0 gives that worker a thread of its own. The pool
 * knows nothing of functions and collectives. */
#ifndef MST_POOL_IMPL_H
#define MST_POOL_IMPL_H

#include "eventcount_impl.h"
#include "worker_impl.h"

#include <sched.h>

typedef struct mst_pool_options {
    /* 0 or more. The pool sets it to 0 if there are more workers than allowed CPUs, and under a
     * real-time policy. */
    int64_t spin_ns;
    int64_t warn_after_ns; /* negative: never */
    int64_t fail_after_ns; /* negative: never */
    bool pin;
    /* pin: the CPUs of each rank's thread, kept by the caller while the pool exists; NULL: the one
     * of its device. The threads that a task starts inherit them. */
    const cpu_set_t *masks;
    bool dedicated_rank0; /* rank 0 has a thread of its own */
    int32_t first;        /* the public rank of worker 0: the number of workers in the processes before this one */
    int32_t total;        /* the workers of all processes; 0: this is the only one */
    int32_t process;      /* the number of this process */
    /* The workers of all processes of this host, and the CPUs that they may use together; 0: those
     * of this pool, and its CPUs. */
    int32_t crowd, crowd_cpus;
    void (*log)(void *user, muster_log_level level, const char *line); /* never NULL */
    void *log_user;
} mst_pool_options;

typedef muster_status (*mst_task)(muster_worker *worker, void *argument);

/* Creates the pool and starts its threads. The `count` devices stay the caller's. A failure leaves
 * nothing. */
muster_status mst_pool_create(const mst_pool_options *options, mst_device *const *devices, int32_t count, mst_pool **pool);
/* Ends the threads and joins them. A child after fork has no such threads, and joins none. */
void mst_pool_destroy(mst_pool *pool);
int32_t mst_pool_size(const mst_pool *pool);
/* What is added to the number of a worker for its public rank, and the number of these ranks. */
int32_t mst_pool_first(const mst_pool *pool);
int32_t mst_pool_total(const mst_pool *pool);
muster_worker *mst_pool_worker(mst_pool *pool, int32_t rank);
/* The options in use: spin_ns is what the pool has decided. */
const mst_pool_options *mst_pool_settings(const mst_pool *pool);

/* Says whether the pool still exists. Objects that the runtime does not own hold it; the last one
 * drops it after the pool has ended. */
typedef struct mst_pool_life mst_pool_life;
mst_pool_life *mst_pool_life_hold(mst_pool *pool);
void mst_pool_life_drop(mst_pool_life *life);
bool mst_pool_life_ended(const mst_pool_life *life);

/* Fails if this thread may not enter: BAD_STATE inside a task, after fork, and if the pool is NULL,
 * since its runtime has been closed. */
muster_status mst_pool_ready(const mst_pool *pool, const char *where);
/* Gives the pool to this thread. Threads get it in the order in which they ask, and wait at most
 * timeout_ns (0 or less: for ever). `where` names the public function in messages. Errors:
 * BAD_STATE (inside a task of any pool, or after fork; pool NULL: the runtime has been closed),
 * TIMEOUT, CANCELLED (not where other processes make the same calls). */
muster_status mst_pool_enter(mst_pool *pool, const char *where, int64_t timeout_ns);
/* The same for what ends an object: mst_pool_cancel does not end this wait, nor does a time. */
muster_status mst_pool_enter_to_end(mst_pool *pool, const char *where);
/* Gives the pool to the next thread. */
void mst_pool_leave(mst_pool *pool);

/* Ends the calls whose place in the order was given before. Where other processes make the same
 * calls, those that wait keep their places, and are told to end when they have the pool. Threads:
 * any, also in a signal handler. */
void mst_pool_cancel(mst_pool *pool);
/* What the message of a call that it has ended says. */
extern const char mst_cancel_reason[];
/* Is the call of the thread that has entered the pool told to end? The context of a round. */
bool mst_pool_must_end(const void *pool);
/* Has a worker sealed the last run, which has ended? */
bool mst_pool_is_sealed(const mst_pool *pool);

/* Runs the task on every worker. The calling thread has entered the pool. Returns when the task has
 * returned on every worker, whatever the outcome. The first failure decides the status and the
 * caller's message, with " (rank R)" behind it if there are several workers; ABORTED never decides.
 * At the end every worker waits for its device and gives its scratch back. */
muster_status mst_pool_run(mst_pool *pool, mst_task task, void *argument);
/* The same on rank 0 alone, whose worker->size is 1 meanwhile. */
muster_status mst_pool_run_single(mst_pool *pool, mst_task task, void *argument);
/* The same for calls, which mst_pool_cancel ends: CANCELLED, unless a worker has sealed the run. */
muster_status mst_pool_call(mst_pool *pool, mst_task task, void *argument);
muster_status mst_pool_call_single(mst_pool *pool, mst_task task, void *argument);
/* The public rank that decided the failure of the last run, which has failed. */
int32_t mst_pool_failed_rank(const mst_pool *pool);

/* Queues a job, a call for which no thread of the program waits. It gets the pool in the same order
 * as the threads that enter. A thread of the pool runs the job; the first job starts that thread.
 * Waits while the queue is full: timeout_ns counts from here. Errors: those of mst_pool_enter,
 * BAD_STATE (the queue is full, and its own thread submits), SYSTEM (the thread cannot be
 * started). */
enum { MST_QUEUE_LENGTH = 64 };
typedef struct mst_job mst_job;
muster_status mst_pool_submit(mst_pool *pool, mst_job *job, const char *where, int64_t timeout_ns);
/* Is the caller a job, or a completion function of one? It must not wait for the pool. */
bool mst_pool_is_queue_thread(const mst_pool *pool);

/* Sets the deadlines of the next run alone. Call it between enter and run. 0 means the pool's own
 * deadline, a negative number none. */
void mst_pool_set_deadlines(mst_pool *pool, int64_t warn_after_ns, int64_t fail_after_ns);

/* Why `rank` runs no code of the program in the run in progress, for the message of a worker that
 * waits for it: text becomes "has no rows, and ...". false: it runs some. `worker`: the one that
 * waits, in its task. The pool asks the function that was set last, between enter and leave. */
enum { MST_ABSENCE_TEXT = 320 };
typedef bool (*mst_absence)(const muster_worker *worker, int32_t rank, char text[MST_ABSENCE_TEXT]);
void mst_pool_set_absence(mst_pool *pool, mst_absence absence);
bool mst_worker_explain_absence(const muster_worker *worker, int32_t rank, char text[MST_ABSENCE_TEXT]);

/* What a cancel does to a wait for the ticket lock: it ends the wait; or it tells the one that
 * waits to end, when that has the lock; or nothing. */
typedef enum { MST_CANCEL_ENDS, MST_CANCEL_DEFERRED, MST_CANCEL_IGNORED } mst_cancel_effect;

/* A place in the queue of the ticket lock. */
typedef struct mst_ticket {
    _Atomic uint64_t served; /* 1: the lock is held for this ticket */
    struct mst_ticket *previous, *next;
    int32_t eventcount; /* the number of the one in which its thread sleeps */
    uint32_t cancels;   /* how often calls had been cancelled when this one came */
    bool granted;       /* guarded by the lock */
    mst_cancel_effect effect;
} mst_ticket;

/* A job. The caller of mst_pool_submit sets `run` and `unlimited`; the queue sets the rest. */
struct mst_job {
    /* Called on the thread of the queue, when the job has left the queue. With OK the job has the
     * pool and must leave it. With TIMEOUT the pool was not free in time; with CANCELLED the call
     * was ended before, which does not happen where other processes make the same calls. */
    void (*run)(mst_job *job, muster_status status);
    bool unlimited;    /* the queue takes it even if it is full */
    const char *where; /* a literal: the name of the public function for messages */
    int64_t timeout_ns, queued_ns;
    mst_ticket waiter;
    bool taken;              /* the lock was free, so that the job has it without a wait */
    uint32_t cancels;        /* as of a ticket; of the time of the submission */
    _Atomic uint64_t placed; /* 1: it has a place in the queue, for which it had to wait */
    mst_job *next;           /* in the queue, or among those that wait for a place */
};

#endif
