/* The inside of the pool, shared by the files of this module only. */
#ifndef MST_POOL_STATE_PRIVATE_H
#define MST_POOL_STATE_PRIVATE_H

#include "pool_impl.h"
#include "team_impl.h"

#include <pthread.h>

/* Bits of a tag: epoch << MST_SEQUENCE_BITS | sequence. 2^44 runs of half a microsecond are 100
 * days. */
enum { MST_SEQUENCE_BITS = 20, MST_MAX_WORKERS = 4096 };

/* Threads that wait for a turn sleep in so many places: a cancel has to wake all of them without a
 * lock, and a grant few besides the one it is for. */
#ifndef MST_BEDS
#define MST_BEDS 32
#endif
enum { MST_TICKET_EVENTCOUNTS = MST_BEDS };

typedef struct mst_ticket_lock {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t state; /* see ticket_lock.c */
    pthread_mutex_t lock;
    mst_ticket *first, *last;
    uint32_t given;           /* tickets, under the lock */
    _Atomic uint32_t cancels; /* how often calls have been cancelled */
    mst_eventcount eventcounts[MST_TICKET_EVENTCOUNTS];
} mst_ticket_lock;

/* A wait of this worker for its own device, which calls back from time to time (pool_device.c).
 * Touched by the worker's thread only. */
typedef struct mst_device_wait {
    uint64_t epoch;   /* the run that this describes; for host devices alone, whose runs begin without setting it */
    bool in_run;      /* the thread runs a task: only then is there a deadline */
    int64_t since_ns; /* when the wait began, as its first call back saw it; 0: none yet */
    uint64_t events;  /* the number of events in the recorder at that time */
    bool warned;
    bool interrupted; /* a wait of this run was interrupted: the device may still have work */
    bool draining;    /* this is the wait for that work */
    bool given_up;    /* the wait for that work was in vain */
} mst_device_wait;

/* What only the pool needs of a worker. */
typedef struct mst_worker_state {
    _Alignas(MST_CACHE_LINE) muster_worker worker;
    /* Every thread that waits for this worker sleeps here. It is notified when the worker arrives,
     * leaves, posts, takes or returns, and when a run is aborted. */
    _Alignas(MST_CACHE_LINE) mst_eventcount eventcount;
    _Atomic uint64_t finished; /* the newest epoch whose task has returned here */
    /* the newest epoch in which this worker will enter only the last rendezvous of the run */
    _Atomic uint64_t done_with;
    _Atomic bool waits_elsewhere; /* mst_worker_waits_elsewhere */
    _Atomic int32_t waits_for;    /* 1 + the rank of the worker for which this one waits with a deadline; 0: none */
    /* How it waits for that worker: until wait_target in wait_word, in the operation wait_what.
     * Written while it waits for nobody; others read these under the lock, under which the wait
     * ends. */
    pthread_mutex_t wait_lock;
    const _Atomic uint64_t *wait_word;
    uint64_t wait_target;
    const char *wait_what;
    uint64_t seen;                  /* the newest dispatched epoch that this thread has taken */
    mst_spin idle_spin;             /* this thread's waits for the next run */
    mst_spin peer_spin;             /* this worker's waits for others in a run */
    pthread_t thread;               /* rank 0: the thread of the run in progress */
    char message[MST_MESSAGE_SIZE]; /* the message of the failure that this rank has reported */
    mst_device_wait device_wait;
    /* bytes that the device could not give during this run, because its driver must not be called
     * then */
    int64_t refused;
} mst_worker_state;

/* The queue of jobs, and the thread that runs them (pool_queue.c). The lock guards the members
 * below `changed`. */
typedef struct mst_call_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mst_job *first, *last;
    int32_t count, length;                 /* the jobs in the queue, and the most */
    mst_job *first_outside, *last_outside; /* those that wait for a place */
    mst_eventcount places;                 /* where their threads sleep */
    bool open, started, closing;
    pthread_t thread;
} mst_call_queue;

struct mst_pool {
    /* The line of a dispatch: all that a worker needs to begin. */
    _Alignas(MST_CACHE_LINE) mst_counter dispatch; /* value: epoch */
    mst_task task;                                 /* NULL: the threads end */
    void *argument;
    uint64_t done_target; /* value of `done` when all threads are back from this run */
    int32_t caller_cpu;   /* where the run was dispatched; -1: not known */
    uint64_t floating;    /* the caller's floating-point control */
    /* The line of the end: value counts the threads that came back, over all runs. */
    _Alignas(MST_CACHE_LINE) mst_counter done;
    /* The line of failure: epoch << 20 | rank << 8 | code. A word of an older epoch means
     * nothing. */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t failure;
    _Atomic uint64_t least_epoch;         /* the next run's epoch is at least this: above the tags of long runs */
    _Atomic bool refused;                 /* the device of some worker has refused bytes */
    int64_t warn_after_ns, fail_after_ns; /* the deadlines of the run in progress */
    /* Written between runs only. */
    _Alignas(MST_CACHE_LINE) mst_worker_state *states;
    int32_t size, total;  /* of this process, and of all */
    int32_t threads;      /* threads that were started */
    bool dedicated_rank0; /* rank 0 has a thread of its own, too */
    bool watches;         /* some device has queues of its own */
    bool alone;           /* the caller's thread on a host device is the only worker, and the device is not lost */
    bool uncancellable;   /* the run in progress is not ended by a cancel; written between runs */
    _Atomic int32_t lost; /* devices that have not come back from a run */
    int32_t yields;       /* how often a wait that does not spin gives its CPU away */
    mst_pool_options options;
    mst_absence absence; /* NULL: every worker runs the program's code */
    mst_elsewhere elsewhere;
    void *elsewhere_context;
    uint64_t fork_generation;
    cpu_set_t *worker_cpus; /* CPUs that are the only one of a thread; NULL: none */
    mst_ticket_lock tickets;
    mst_call_queue queue;
    mst_pool_life *life;
    /* Rank 0's thread, if it has one, is woken by a counter of its own, so that a run of rank 0
     * alone wakes no other thread. */
    _Alignas(MST_CACHE_LINE) mst_counter master; /* value: epoch */
    mst_spin caller_spin;                        /* the callers' waits for the end of a run */
    /* Written in every run, so apart from what the workers read in every run. */
    _Alignas(MST_CACHE_LINE) uint64_t epoch;
};

/* ticket_lock.c */
muster_status mst_ticket_lock_open(mst_ticket_lock *tickets);
void mst_ticket_lock_close(mst_ticket_lock *tickets);
/* Takes the lock if it is free and no thread waits for it. */
enum { MST_TICKET_LOCK_FREE, MST_TICKET_LOCK_HELD, MST_TICKET_LOCK_QUEUED, MST_TICKET_LOCK_CANCELLED = MST_TICKET_CANCELLED };
static inline bool mst_ticket_lock_try(mst_ticket_lock *tickets) {
    uint32_t state = MST_TICKET_LOCK_FREE;
    return atomic_compare_exchange_strong(&tickets->state, &state, MST_TICKET_LOCK_HELD);
}
/* Takes the lock. */
typedef enum { MST_TICKET_TAKEN, MST_TICKET_LATE, MST_TICKET_ENDED } mst_ticket_result;
mst_ticket_result mst_ticket_lock_acquire(mst_ticket_lock *tickets, int64_t timeout_ns, mst_cancel_effect effect);
void mst_ticket_lock_release(mst_ticket_lock *tickets);
/* The same as release, without a function call where no thread waits. */
static inline void mst_ticket_lock_leave(mst_ticket_lock *tickets) {
    uint32_t state = MST_TICKET_LOCK_HELD;
    if (!atomic_compare_exchange_strong(&tickets->state, &state, MST_TICKET_LOCK_FREE)) mst_ticket_lock_release(tickets);
}
/* The first step of taking the lock. True: the lock is taken. False: `waiter` has its place in the
 * order, and its memory must stay until mst_ticket_lock_wait has returned. */
bool mst_ticket_lock_queue(mst_ticket_lock *tickets, mst_ticket *waiter);
/* The second step. */
mst_ticket_result mst_ticket_lock_wait(mst_ticket_lock *tickets, mst_ticket *waiter, int64_t timeout_ns);
/* Ends the waits of those who have their place, and tells the one that has the lock, until it gives
 * it back. Without a lock; the only wakes are those of the eventcounts. */
void mst_ticket_lock_cancel(mst_ticket_lock *tickets);
/* The same for the calling thread alone, which has the lock: a cancel came when it waited. */
void mst_ticket_lock_end_call(mst_ticket_lock *tickets);
/* Has there been a cancel since `cancels` was read? */
static inline bool mst_ticket_lock_ended(const mst_ticket_lock *tickets, uint32_t cancels) {
    return atomic_load(&tickets->cancels) != cancels;
}
/* Processes match their calls by the order of these. So where there are several, each begins every
 * call, and what is ended fails in all. */
static inline mst_cancel_effect mst_pool_cancel_effect(const mst_pool *pool) {
    return pool->total > pool->size ? MST_CANCEL_DEFERRED : MST_CANCEL_ENDS;
}
/* Is the one that has the lock told to end? */
static inline bool mst_pool_is_cancelled(const mst_pool *pool) {
    return (atomic_load_explicit(&pool->tickets.state, memory_order_relaxed) & MST_TICKET_LOCK_CANCELLED) != 0;
}

/* pool.c. Around the locks of a submission: BAD_STATE in a signal handler that interrupts a call or
 * a submission of its thread to this pool. */
#ifndef MST_HANDLERS
#define MST_HANDLERS 1
#endif
muster_status mst_pool_begin_submit(const mst_pool *pool, const char *where);
void mst_pool_end_submit(void);

/* pool_queue.c */
muster_status mst_call_queue_open(mst_call_queue *queue);
/* Runs the jobs that are queued, and ends the thread. `forked` says that this is a child after
 * fork, which has no such thread. */
void mst_call_queue_close(mst_call_queue *queue, bool forked);

/* pool_device.c: the waits for devices. */
/* From now on the waits of this worker for its device have the deadlines of the run. */
void mst_device_watch(mst_worker_state *state);
void mst_device_unwatch(mst_worker_state *state);
/* Call it on the worker's thread before the task of a run. */
muster_status mst_device_begin(mst_worker_state *state);
/* Call it on the worker's thread after the task of a run. It waits for the device. */
muster_status mst_device_end(mst_worker_state *state);
/* Call it between runs: tells every device that no collective is in flight. */
void mst_devices_clear_in_flight(mst_pool *pool);
/* Call it between runs: reserves the bytes that devices have refused during the last run. */
void mst_device_reserve_refused(mst_pool *pool);
/* DEVICE_LOST if rank 0 has lost its device or, unless `single`, if any rank has. */
muster_status mst_device_refusal(const mst_pool *pool, bool single);

/* failure.c */
uint64_t mst_failure_epoch(uint64_t word);
int32_t mst_failure_rank(uint64_t word);
muster_status mst_failure_code(uint64_t word);
bool mst_run_aborted(const mst_pool *pool, uint64_t epoch);
/* mst_pool_abort with this message; NULL: with the thread's last error. */
void mst_run_abort(muster_worker *worker, muster_status code, const char *message);

/* cancel.c. Must this worker end its part of the run because of a cancel? The second, on the
 * worker's thread in its task, then also aborts the run. */
bool mst_worker_must_end(const muster_worker *worker);
bool mst_worker_ends(const muster_worker *worker);
/* The error of a call that is ended; of a run that is ended before it begins; and that of a run
 * that has returned `status` although a cancel has come. */
muster_status mst_cancel_refuse(const char *where);
muster_status mst_cancel_before(void);
muster_status mst_cancel_outcome(const mst_pool *pool, uint64_t epoch, muster_status status);
/* The outcome of the run, as the last error of the caller's thread. */
muster_status mst_failure_outcome(mst_pool *pool, uint64_t epoch, int32_t size);
/* Logs the headline and what each worker did last, as warnings. */
void mst_report_workers(const mst_pool *pool, const char *headline);

/* pool_life.c: at the beginning and at the end of the pool. */
muster_status mst_pool_life_open(mst_pool *pool);
void mst_pool_life_end(mst_pool *pool);

/* pool.c */
/* Wakes every thread that waits for any worker. */
void mst_pool_notify_all(mst_pool *pool);
/* The thread of a worker. `state`: its mst_worker_state. */
void *mst_pool_worker_main(void *state);
/* The number of forks before this process: a new pool keeps it. The first call begins to count. */
uint64_t mst_pool_fork_generation(void);
/* Was the pool made before a fork of which this process is the child? */
bool mst_pool_forked(const mst_pool *pool);

/* worker.c */
/* Makes all scratch of this worker free for the next run. Several blocks become one of their total
 * size. */
void mst_worker_scratch_reset(muster_worker *worker);
/* Gives the memory of all scratch of this worker back to the device. */
void mst_worker_scratch_release(muster_worker *worker);

#endif
