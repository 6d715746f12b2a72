/* The inside of the pool, shared by the files of this room only. */
#ifndef MST_POOL_STATE_IMPL_H
#define MST_POOL_STATE_IMPL_H

#include "pool_impl.h"

#include <pthread.h>

/* Bits of a tag: epoch << MST_SEQUENCE_BITS | sequence. 2^44 runs of half a microsecond are 100 days. */
enum { MST_SEQUENCE_BITS = 20, MST_MAX_WORKERS = 4096 };

/* A thread in the queue for the pool's turn; it lives on that thread's stack. */
typedef struct mst_turn_waiter {
    mst_gate gate; /* 1: the turn is yours */
    struct mst_turn_waiter *previous, *next;
    bool granted; /* under the lock */
} mst_turn_waiter;

typedef struct mst_turn {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t state; /* see turn.c */
    pthread_mutex_t lock;
    mst_turn_waiter *first, *last;
} mst_turn;

/* How long to spin: spins that end without what they waited for halve it, down to a 64th, others double it, up to the pool's. A peer that shares its CPU with
 * other programs comes milliseconds late; to spin for it takes CPU time from it, and from whoever is to run next. Every 32nd failure tries the whole length again. */
typedef struct mst_spin {
    int64_t shift; /* the pool's length is divided by 2 to the power of this */
    uint32_t failures;
} mst_spin;
enum { MST_SPIN_SHIFTS = 6, MST_SPIN_PROBE = 32 };
static inline int64_t mst_spin_ns(const mst_spin *spin, int64_t whole_ns) { return whole_ns >> spin->shift; }
static inline void mst_spin_tell(mst_spin *spin, bool reached) {
    if (__builtin_expect(reached, 1)) {
        if (__builtin_expect(spin->shift > 0, 0)) spin->shift--;
    } else if (++spin->failures % MST_SPIN_PROBE == 0) {
        spin->shift = 0;
    } else if (spin->shift < MST_SPIN_SHIFTS) {
        spin->shift++;
    }
}

/* What only the pool needs of a worker. */
typedef struct mst_seat {
    _Alignas(MST_CACHE_LINE) muster_worker worker;
    /* Where everybody sleeps who waits for this worker, whatever for; rung when it arrives, leaves, posts, takes or returns, and when a run is lost. */
    _Alignas(MST_CACHE_LINE) mst_bell bell;
    _Atomic uint64_t finished; /* the newest epoch whose task has returned here */
    _Atomic uint64_t done_with; /* the newest epoch in which this worker will enter only the last meeting of the run */
    uint64_t seen;                                      /* newest dispatched epoch that this thread has taken */
    mst_spin spin;                                      /* of this worker's waits for others in a run */
    pthread_t thread;                                   /* rank 0: the thread of the run in progress */
    char message[MST_MESSAGE_SIZE];                     /* of the failure that this rank has reported */
} mst_seat;

struct mst_pool {
    /* The line of a dispatch: all that a worker needs to begin. */
    _Alignas(MST_CACHE_LINE) mst_gate dispatch; /* value: epoch */
    mst_task task;                              /* NULL: the threads end */
    void *argument;
    uint64_t done_target; /* value of `done` when all threads are back from this run */
    int32_t caller_cpu;   /* where the run was dispatched; -1: not known */
    /* The line of the end: value counts the threads that came back, over all runs. */
    _Alignas(MST_CACHE_LINE) mst_gate done;
    /* The line of failure: epoch << 20 | rank << 8 | code. A word of an older epoch means nothing. */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t failure;
    _Atomic uint64_t least_epoch; /* of the next run: above the tags that long runs have used up */
    int64_t warn_after_ns, fail_after_ns; /* of the run in progress */
    /* Written between runs only. */
    _Alignas(MST_CACHE_LINE) mst_seat *seats;
    int32_t size;
    int32_t threads; /* started */
    int32_t yields; /* of a wait, where there is no spinning */
    mst_pool_options options;
    uint64_t fork_generation;
    cpu_set_t *worker_cpus; /* CPUs to which threads are pinned; NULL: none */
    mst_turn turn;
    /* Written in every run, so apart from what the workers read in every run. */
    _Alignas(MST_CACHE_LINE) uint64_t epoch;
};

/* turn.c */
muster_status mst_turn_open(mst_turn *turn);
void mst_turn_close(mst_turn *turn);
/* false: timed out. */
bool mst_turn_enter(mst_turn *turn, int64_t timeout_ns);
void mst_turn_leave(mst_turn *turn);

/* failure.c */
uint64_t mst_failure_epoch(uint64_t word);
int32_t mst_failure_rank(uint64_t word);
muster_status mst_failure_code(uint64_t word);
bool mst_run_lost(const mst_pool *pool, uint64_t epoch);
/* The outcome of the run, told to the caller's thread. */
muster_status mst_failure_settle(mst_pool *pool, uint64_t epoch, int32_t size);
/* The headline and what each worker did last, in one piece. */
void mst_report_workers(const mst_pool *pool, const char *headline);

/* pool.c: wakes everyone who waits for any worker. */
void mst_pool_ring_all(mst_pool *pool);

/* meeting.c: one wait of one worker for one word of another. */
typedef struct mst_meeting {
    muster_worker *worker;
    const mst_party *party;          /* in which they meet: for messages */
    const char *what;                /* the operation, a literal */
    const char *duty;                /* what the peer owes, for messages: "entering it", "receiving it" ... */
    int64_t message_tag;             /* of a message; negative: none */
    int32_t peer;                    /* rank in the pool of whoever writes the word */
    const _Atomic uint64_t *word;    /* wait until it is >= target */
    uint64_t target;
    const _Atomic uint64_t *reading; /* leaving: in a lost run, wait also while this is `target`; NULL: not leaving */
    bool timed_out;                  /* out: this wait has poisoned the run */
} mst_meeting;
muster_status mst_meet(mst_meeting *meeting);
muster_status mst_meeting_lost(muster_worker *worker, const mst_party *party, const char *what); /* the ABORTED of a lost run */
/* epoch << MST_SEQUENCE_BITS | ++*sequence, where *sequence counts from the beginning of the run; *epoch: of the last tag. */
uint64_t mst_next_tag(muster_worker *worker, uint64_t *epoch, uint64_t *sequence);

/* worker.c: gives all scratch of this worker back; several blocks become one of the same total. release: to the device. */
void mst_worker_scratch_reset(muster_worker *worker);
void mst_worker_scratch_release(muster_worker *worker);

#endif
