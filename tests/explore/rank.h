/* A pool of the real pool.c, its workers asleep before the first run, and what the scenarios of
 * teams and mailboxes share. */
#ifndef EXPLORE_RANK_H
#define EXPLORE_RANK_H

#include "explorer.h"
#include "team_private.h"

enum { RANKS = 3, RUNS = 2 };

/* What one run is like: who misbehaves and how, and how it must end. */
typedef struct run_plan {
    muster_status (*body)(muster_worker *worker, const struct run_plan *plan); /* NULL: no such run */
    int32_t rounds;
    int32_t failing; /* rank; only if how is not 0 */
    int32_t how;     /* the body knows */
    bool single;     /* rank 0 alone */
    bool deadline;   /* waits of this run may time out */
    bool refused;    /* no body is called */
    /* of the run, and of the body on every rank but the failing one: one of these */
    muster_status outcomes[3], statuses[3];
} run_plan;

typedef struct rank_scenario {
    int32_t size;
    int32_t members[RANKS], member_count; /* of the team; 0: all */
    int64_t spin_ns;
    bool awake;                     /* the workers need not be asleep when the first run begins */
    bool boxes;                     /* the mailboxes are there before the first run */
    bool dedicated_rank0;           /* rank 0 has a thread of its own */
    bool destroys;                  /* the pool is destroyed after the last run */
    bool in_body;                   /* with cancels: when a body says that it has begun */
    bool cancels;                   /* runs are calls, and another thread ends the first: the next comes later */
    mst_device *const *devices;     /* of the ranks, filled in by the scenario; NULL: they are hosts */
    void (*after_run)(int32_t run); /* what the caller does then; NULL: nothing */
    run_plan runs[RUNS];
} rank_scenario;

/* Memory of the scenario. */
typedef struct shared {
    mst_pool *pool;
    mst_team *team;
    int32_t run; /* the run in progress */
    muster_status statuses[RUNS][RANKS], outcomes[RUNS];
    mst_counter heard;      /* for bodies that compute until another rank has seen the abort */
    mst_counter begun;      /* 1: a body of a scenario with in_body has begun */
    mst_counter cancelled;  /* 1: the cancel has returned */
    int32_t written[RANKS]; /* by calls that are ended: each rank writes its own */
    int64_t offered[RANKS]; /* own memory of each rank, offered to the others */
} shared;
extern shared *s;
void rank_prepare(const void *context); /* rank_scenario */
void rank_finish(const void *context);
void rank_finish_cancelled(const void *context);
/* A value that tells run, round and rank. */
int64_t rank_value(int32_t round, int32_t rank);
/* This rank fails in this round in this way. */
bool rank_fails(const muster_worker *worker, const run_plan *plan, int32_t round, int32_t how);

#define BOUND_SCENARIO(text, data, bound) \
    { .name = text, .prepare = rank_prepare, .finish = rank_finish, .context = &(data), .preemptions = bound }
#define CANCEL_SCENARIO(text, data, bound) \
    { .name = text, .prepare = rank_prepare, .finish = rank_finish_cancelled, .context = &(data), .preemptions = bound }
#define RANK_SCENARIO(text, data) \
    { .name = text, .prepare = rank_prepare, .finish = rank_finish, .context = &(data) }

#endif
