/* The pool: one worker per device. Every run gives all workers the same task; the caller's thread
 * serves rank 0, unless dedicated_rank0 gives it a thread. It knows nothing of functions and
 * collectives. */
#ifndef MST_POOL_IMPL_H
#define MST_POOL_IMPL_H

#include "device_impl.h"
#include "eventcount_impl.h"
#include "muster/worker.h"
#include "recorder_impl.h"

typedef struct mst_pool mst_pool;
typedef struct mst_team mst_team;

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

typedef struct mst_scratch_block {
    void *address;
    int64_t bytes, used;
} mst_scratch_block;

/* A call at the end of a run: when the task has returned, also with a failure, and before its
 * device is waited for. A status other than OK fails the run. The memory is the caller's, and is in
 * use until the hook runs. */
typedef struct mst_exit_hook {
    muster_status (*run)(muster_worker *worker, struct mst_exit_hook *hook);
    struct mst_exit_hook *next;
} mst_exit_hook;

/* The modules that keep data of their own for each worker. The owner of a slot sets it and clears
 * it. The scheduler makes workers whose slots are all NULL, and never reads or writes a slot
 * afterwards: what a slot holds stays from run to run. */
typedef enum { MST_SLOT_COLLECTIVES, MST_SLOT_FUNCTION, MST_WORKER_SLOTS } mst_worker_slot;

struct muster_worker {
    _Alignas(MST_CACHE_LINE) int32_t rank;
    int32_t size;
    mst_device *device;
    mst_pool *pool;
    uint64_t epoch;    /* of the run in progress */
    uint64_t sequence; /* collectives entered in this run */
    mst_scratch_block *scratch;
    int64_t scratch_count, scratch_capacity;
    muster_status scratch_status;  /* of a failed scratch request, for the operations that get "no tensor" */
    mst_exit_hook *exit_hooks;     /* of this run, the newest first */
    void *slots[MST_WORKER_SLOTS]; /* each belongs to one module */
    mst_recorder recorder;
};

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

/* From a task: aborts the run. The first caller wins (one compare-and-swap of epoch, rank, code);
 * keeps the thread's last error as the message; wakes everyone who waits in a team of this pool.
 * aborted: has this run been aborted? */
void mst_pool_abort(muster_worker *worker, muster_status code);
bool mst_pool_aborted(const muster_worker *worker);
/* From a task, before the rendezvous that ends it on every worker. A worker that waits for this one
 * in any other rendezvous fails, since this one will not come. Waits of the last rendezvous only
 * warn: they wait for user code that has not returned. */
void mst_worker_last_rendezvous(muster_worker *worker);

/* A call that no thread waits for. It queues in the order of enter, and a thread of the pool makes
 * it; the first such call starts that thread.
 * run: on that thread; status OK: the job has the pool and must leave it; TIMEOUT: the pool was not
 * free in time. When run begins the job is no longer the queue's. submit refuses what enter
 * refuses, a full queue (BAD_STATE), and a thread that cannot be started (SYSTEM). */
enum { MST_QUEUE_LENGTH = 64 };
typedef struct mst_job mst_job;
muster_status mst_pool_submit(mst_pool *pool, mst_job *job, const char *where, int64_t timeout_ns);

/* Memory of the worker's device during a run, as table->memory->allocate gives it. What a device
 * cannot give now because its driver must not be called while collectives are in flight, it
 * reserves after the run, so that the next one finds it. */
muster_status mst_worker_allocate(muster_worker *worker, int64_t bytes, void **address);
/* Waits for the worker's device: table->synchronize, of which the pool knows how long it takes.
 * Ends with the deadline of the run, or ABORTED when the run is aborted. */
muster_status mst_worker_sync(muster_worker *worker);
/* Before host code of a run touches memory of a device whose memory is the host's: a program that
 * was launched on it may still run. */
static inline muster_status mst_worker_drain(muster_worker *worker) {
    return __builtin_expect(worker->device->queued, 0) ? mst_worker_sync(worker) : MUSTER_OK;
}

/* For the next run only, between enter and run: 0: the pool's own; negative: never. */
void mst_pool_set_deadlines(mst_pool *pool, int64_t warn_after_ns, int64_t fail_after_ns);
/* From a task: those of the run in progress. */
void mst_worker_deadlines(const muster_worker *worker, int64_t *warn_after_ns, int64_t *fail_after_ns);

/* A team: some workers of a pool that wait for each other; collectives are built on it. Its members
 * have numbers of their own: below, a "member" is such a number. Made at any time, also inside a
 * run by one worker; destroyed when no member is inside it.
 *
 * Tags grow for ever: epoch of the run, and number of the rendezvous in it. So nothing is reset
 * after a failure. Each member has two flag lines, used alternately.
 * Rule: every member waits for all arrivals of every rendezvous. Then no member can write a flag
 * line before all have finished with the rendezvous two before, and the contents of the lines (and
 * memory used alternately like them) need no second rendezvous. Memory that is offered by address
 * does: leave. */
enum { MST_FLAG_PAYLOAD = 56, MST_BOX_PAYLOAD = 16 };
typedef struct mst_flag_line {
    /* the newest tag at which this member has arrived on this line */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t arrived;
    char payload[MST_FLAG_PAYLOAD];
} mst_flag_line;

/* members[count]: ranks in the pool, all different; NULL: all workers. */
muster_status mst_team_create(mst_pool *pool, const int32_t *members, int32_t count, mst_team **team);
void mst_team_destroy(mst_team *team);
int32_t mst_team_member_of(const mst_team *team, const muster_worker *worker); /* -1: none */
/* How messages name a worker, by its rank in the pool, to a member of this team: "rank 1 (worker
 * 3)", its member's number first; "rank 1" where the two are equal, "worker 3" where it is no
 * member. Returns text. */
enum { MST_RANK_TEXT = 40 };
const char *mst_team_rank_text(const mst_team *team, int32_t rank, char text[MST_RANK_TEXT]);
/* The tag of this worker's next rendezvous. Its flag line is tag & 1. */
uint64_t mst_team_tag(mst_team *team, muster_worker *worker);
mst_flag_line *mst_team_flag_line(mst_team *team, int32_t member, uint64_t tag);

/* arrive: fill the payload of the own line before. wait: until `member` has arrived at tag; checks
 * for abort and deadline: ABORTED if the run is aborted, or if the member has returned from its
 * task without arriving; TIMEOUT names the late rank, what it finished last and what this one waits
 * for, and aborts the run. what: the operation, a literal. wait_all: every member. */
void mst_team_arrive(mst_team *team, muster_worker *worker, uint64_t tag);
muster_status mst_team_wait(mst_team *team, muster_worker *worker, int32_t member, uint64_t tag, const char *what);
muster_status mst_team_wait_all(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);
/* A reading section: begin declares that this worker reads (or writes) other members' memory
 * (ABORTED if the run is aborted already; it must not touch that memory then); end declares that it
 * has finished. leave waits until nobody uses this worker's memory under `tag`: every member has
 * ended its section, or the run is aborted and none is inside one. A member that has arrived with
 * memory on offer must call leave, also after a failure. */
muster_status mst_team_read_begin(mst_team *team, muster_worker *worker, uint64_t tag);
void mst_team_read_end(mst_team *team, muster_worker *worker, uint64_t tag);
muster_status mst_team_leave(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);

/* A mailbox: one message after another from one member to another; a rendezvous. The sender posts,
 * and waits until what it posted is taken. The receiver waits for the next post; it reads the
 * sender's memory in sections of its own, several for one post if it likes, and then takes it.
 * message_tag: the user's, for messages; negative: none. */
typedef struct mst_post {
    uint64_t tag;
    char payload[MST_BOX_PAYLOAD];
} mst_post;
/* The boxes of messages to `to`, made on first use, before any of the calls below on either side:
 * OUT_OF_MEMORY. */
muster_status mst_box_open(mst_team *team, int32_t to);
/* payload: MST_BOX_PAYLOAD bytes */
uint64_t mst_box_post(mst_team *team, muster_worker *worker, int32_t to, const void *payload);
/* Until the post is taken. Also after a failure: returns once the receiver is outside its
 * section. */
muster_status mst_box_wait_taken(mst_team *team, muster_worker *worker, int32_t to, uint64_t tag, const char *what, int64_t message_tag);
/* Until the sender has posted something that is not taken yet. */
muster_status mst_box_wait_post(mst_team *team, muster_worker *worker, int32_t from, const char *what, int64_t message_tag, mst_post *post);
muster_status mst_box_read_begin(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag);
void mst_box_read_end(mst_team *team, muster_worker *worker, int32_t from);           /* the post stays */
void mst_box_take(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag); /* ends the section, too */

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

/* Topology (topology.c): CPUs this process may use: one logical CPU per allowed physical core
 * (hwloc opened at run time, else the kernel's files), cut to the cgroup quota. cpus[capacity] out.
 * Returns the number of cores (>= 1). allowed: number of logical CPUs (affinity and quota). */
int32_t mst_topology_cores(int32_t *cpus, int32_t capacity);
int32_t mst_topology_allowed(void);
const char *mst_topology_source(void); /* "hwloc 2.9.0" or "kernel" */

/* Scratch for this room and others, as muster_worker_scratch, in bytes. */
muster_status mst_worker_scratch_bytes(muster_worker *worker, int64_t bytes, void **address);
/* Between two bodies of one run: what the one before had is free for the next. */
void mst_worker_scratch_rewind(muster_worker *worker);
/* From a task: `hook` runs once at the end of this run, before those that were added earlier. */
static inline void mst_worker_add_exit_hook(muster_worker *worker, mst_exit_hook *hook) {
    hook->next = worker->exit_hooks;
    worker->exit_hooks = hook;
}
/* The worker that this thread is running a task for, NULL outside. */
muster_worker *mst_current_worker(void);

#endif
