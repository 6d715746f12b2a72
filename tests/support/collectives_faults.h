/* Runs of collectives in which one rank does something wrong: what the ranks do, what goes wrong,
 * and what must be told of it. */
#ifndef COLLECTIVES_FAULTS_H
#define COLLECTIVES_FAULTS_H

#include "collectives_pool.h"

#include <stdatomic.h>

typedef enum {
    FAULTS_ALL_REDUCE,
    FAULTS_ALL_REDUCE_SHARDS,
    FAULTS_ALL_REDUCE_AXPY,
    FAULTS_REDUCE,
    FAULTS_BROADCAST,
    FAULTS_ALL_GATHER,
    FAULTS_ALL_GATHER_UNEVEN,
    FAULTS_GATHER,
    FAULTS_SCATTER,
    FAULTS_REDUCE_SCATTER,
    FAULTS_ALL_TO_ALL,
    FAULTS_ALL_TO_ALL_UNEVEN,
    FAULTS_BARRIER,
    FAULTS_SPLIT,    /* into even and odd ranks, backwards; an all_reduce in the part; release */
    FAULTS_GROUP,    /* an all_reduce, a broadcast and an all_gather */
    FAULTS_MESSAGES, /* rank 0 sends to 1, which then sends to 2, and so on, back to 0 */
    FAULTS_RING,     /* in a group, each sends to the next and receives from the one before */
    FAULTS_KINDS
} faults_kind;

typedef enum {
    FAULT_NONE,
    FAULT_FAILS,      /* its body returns an error instead of entering */
    FAULT_RETURNS,    /* its body returns MUSTER_OK instead of entering */
    FAULT_STAYS_AWAY, /* it sleeps until the call is lost */
    /* it enters with another one; messages: root is the other rank of the message */
    FAULT_COUNT,
    FAULT_DTYPE,
    FAULT_OP,
    FAULT_ROOT,
    FAULT_ORDER,  /* it enters this collective and the one after it the other way round */
    FAULT_OTHER,  /* it enters another collective */
    FAULT_MEMORY, /* an allocation fails */
    FAULT_DELAYS, /* nothing is wrong, but everybody dawdles */
    FAULTS
} faults_fault;

enum { FAULTS_RANKS = 4, FAULTS_STEPS = 6, FAULTS_ELEMENTS = 1 << 17 };

/* One collective, as all ranks enter it but the one at fault. */
typedef struct faults_call {
    faults_kind kind;
    muster_reduction op;
    muster_dtype dtype; /* F32, F64, I32 or I64 */
    int32_t root;
    int64_t count; /* elements; uneven kinds vary it by rank */
    int64_t extra; /* elements too many */
    int32_t salt;  /* changes the values, and the tag of messages */
} faults_call;

typedef struct faults_outcome {
    muster_status status;
    int32_t steps; /* done, with the right results */
    bool wrong;    /* a collective returned OK with a wrong result; the message tells it */
    char message[MST_MESSAGE_SIZE];
} faults_outcome;

/* One run: the steps in turn on every rank, until one fails. */
typedef struct faults_plan {
    faults_call calls[FAULTS_STEPS];
    int32_t steps, size; /* ranks */
    int32_t here;        /* of them in this process */
    faults_fault fault;
    int32_t rank, step; /* of the fault */
    int64_t allocation; /* FAULT_MEMORY: which one fails, counted from the step's beginning on that rank */
    bool late_entry;    /* FAULT_STAYS_AWAY: it enters in the end */
    bool stubborn;      /* every rank goes on after a failure, with the next step */
    bool through_part;  /* the steps run in a part that holds all ranks, in the same order */
    uint64_t delays;    /* 0: none; else their seed */
    /* out */
    faults_outcome outcomes[FAULTS_RANKS]; /* their sentences without processes (collectives_strip) */
    int32_t process;                       /* that has the rank at fault; -1: all ranks are in one */
    int64_t allocations;                   /* FAULT_MEMORY: made by all ranks since then, with the one that failed */
    /* between the ranks of a run */
    _Atomic int32_t ready, go;
} faults_plan;

const char *faults_kind_name(faults_kind kind);
const char *faults_fault_name(faults_fault fault);
/* Why this fault cannot be made in this collective; NULL: it can. */
const char *faults_excuse(faults_kind kind, faults_fault fault);
/* Is the program one of several processes? Then it runs fewer cases, and lets no allocation fail:
 * the k-th one of a process is not that of the others. */
bool faults_joint(void);
/* Does the kind have an op that can be wrong? A root? Does it send messages instead of holding a
 * rendezvous? */
bool faults_reduces(faults_kind kind);
bool faults_rooted(faults_kind kind);
bool faults_sends(faults_kind kind);
void faults_log_nothing(void *user, muster_log_level level, const char *line);

/* Runs the plan on the pool; fail_after_ns: the deadline of this run, 0: the pool's own. */
muster_status faults_run(collectives_pool *c, faults_plan *plan, int64_t fail_after_ns);
/* One collective of each kind, one after another, each on all ranks: NULL if all of it is right. */
const char *faults_all_kinds(collectives_pool *c);
/* Does the outcome, of the ranks of all processes, fit the plan? NULL: yes, else what is wrong with
 * it, in memory of this thread. status, message: as the caller received them. */
const char *faults_verdict(const faults_plan *plan, muster_status status, const char *message);

/* Runs and judges, with a short deadline if the plan needs one. A machine that is busy with other
 * things makes ranks late that did nothing wrong; so what looks wrong after a deadline is done
 * again with a longer one, up to two seconds, and *repeated is increased. */
const char *faults_try(collectives_pool *c, faults_plan *plan, int64_t *repeated);

/* Must be called before the first pool of the process: waits call it, and dawdle where the plan
 * says so. */
void faults_install_hook(void);

/* A thread that ends the process when nothing has been said for too long, with the last words and
 * what every worker did last. pool may be NULL. */
void faults_watch(void);
void faults_say(const mst_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t faults_seed(void); /* MUSTER_SEED, else 1; printed */
uint32_t faults_random(uint64_t *state, uint32_t below);
/* The whole matrix, or a sample of it? The whole in builds without a sanitizer, and with
 * MUSTER_TEST_FULL=1. */
bool faults_whole(void);

#endif
