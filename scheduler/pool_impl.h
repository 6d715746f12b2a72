/* The pool: one worker per device. Every run gives all workers the same task; the caller's thread serves rank 0.
 * It knows nothing of functions and collectives. */
#ifndef MST_POOL_IMPL_H
#define MST_POOL_IMPL_H

#include "device_impl.h"
#include "gate_impl.h"
#include "muster/worker.h"
#include "recorder_impl.h"

typedef struct mst_pool mst_pool;
typedef struct mst_party mst_party;

typedef struct mst_pool_options {
    int64_t spin_ns;       /* >= 0; the pool lowers it to 0 when workers exceed allowed CPUs or under a real-time policy */
    int64_t warn_after_ns; /* negative: never */
    int64_t fail_after_ns; /* negative: never */
    bool pin;
    void (*log)(void *user, const char *line); /* never NULL */
    void *log_user;
} mst_pool_options;

typedef struct mst_scratch_block {
    void *address;
    int64_t bytes, used;
} mst_scratch_block;

/* Embedded state of one worker. Fields below "share" belong to whoever runs the task (the function room). */
struct muster_worker {
    _Alignas(MST_CACHE_LINE) int32_t rank;
    int32_t size;
    mst_device *device;
    mst_pool *pool;
    uint64_t epoch;     /* of the run in progress */
    uint64_t sequence;  /* collectives entered in this run */
    mst_scratch_block *scratch;
    int64_t scratch_count, scratch_capacity;
    muster_status scratch_status; /* of a failed scratch request, for the operations that get "no tensor" */
    /* share */
    int64_t first_row, rows, total_rows, slice, slices;
    double weight;
    void *call;         /* function room: the call in progress */
    void *communicator; /* collectives room: the communicator of all workers, set once by the runtime */
    mst_recorder recorder;
};

typedef muster_status (*mst_task)(muster_worker *worker, void *argument);

/* devices: borrowed, `count` of them. Worker threads start here. On failure nothing is left. destroy joins them (after fork: forgets them). */
muster_status mst_pool_create(const mst_pool_options *options, mst_device *const *devices, int32_t count, mst_pool **pool);
void mst_pool_destroy(mst_pool *pool);
int32_t mst_pool_size(const mst_pool *pool);
muster_worker *mst_pool_worker(mst_pool *pool, int32_t rank);
const mst_pool_options *mst_pool_settings(const mst_pool *pool); /* as decided: spin_ns after the rules */

/* enter: this thread's turn, in order of arrival, waiting at most timeout_ns (<= 0: for ever). Refuses inside a task of any pool
 * (BAD_STATE), after fork (BAD_STATE), and with TIMEOUT. where: the public function's name for messages. leave: gives the turn away. */
muster_status mst_pool_enter(mst_pool *pool, const char *where, int64_t timeout_ns);
void mst_pool_leave(mst_pool *pool);

/* Between enter and leave. run: task on every worker; returns when all have come back: the end of the run is a rendezvous that every worker
 * passes in every outcome. The first failure wins; its message becomes the caller's, with " (rank R)" if size > 1. ABORTED never wins.
 * run_single: on rank 0 alone in this thread, worker->size 1. Scratch of every worker is given back at the end, after a device sync. */
muster_status mst_pool_run(mst_pool *pool, mst_task task, void *argument);
muster_status mst_pool_run_single(mst_pool *pool, mst_task task, void *argument);

/* From a task: the run is lost. First caller wins (one compare-and-swap of epoch, rank, code); keeps the thread's last error as the message; wakes
 * everyone who waits in a party of this pool. poisoned: has this run been lost? */
void mst_pool_poison(muster_worker *worker, muster_status code);
bool mst_pool_poisoned(const muster_worker *worker);

/* A party: the meeting places of all workers of a pool, for whoever builds collectives on it. Create and destroy between runs.
 * Each rank has one line: a gate, a signature, a pointer and a few words of payload. Tags grow for ever: mst_party_tag(worker) makes
 * the next one from the run's epoch and the worker's sequence, so nothing is reset after a failure. */
enum { MST_PARTY_PAYLOAD = 24 };
typedef struct mst_party_line {
    _Alignas(MST_CACHE_LINE) mst_gate gate; /* value: the newest tag this rank has arrived at */
    uint64_t signature;
    const void *pointer;
    char payload[MST_PARTY_PAYLOAD];
    _Alignas(MST_CACHE_LINE) mst_gate left; /* value: the newest tag whose peers' memory this rank no longer reads */
    _Atomic uint64_t reading;               /* tag while this rank reads peers' memory, 0 otherwise */
} mst_party_line;

muster_status mst_party_create(mst_pool *pool, mst_party **party);
void mst_party_destroy(mst_party *party);
mst_party_line *mst_party_lines(mst_party *party); /* [size] */
uint64_t mst_party_tag(muster_worker *worker);

/* arrive: publishes own line's gate at tag (fill signature, pointer and payload before). wait: until `peer` has arrived at tag; watches poison and deadline:
 * ABORTED if the run is lost, or if the peer has returned from its task without arriving; TIMEOUT names the late rank, what it finished last and what this one waits for,
 * and poisons the run. what: the operation, a literal. wait_all: every peer. */
void mst_party_arrive(mst_party *party, muster_worker *worker, uint64_t tag);
muster_status mst_party_wait(mst_party *party, muster_worker *worker, int32_t peer, uint64_t tag, const char *what);
muster_status mst_party_wait_all(mst_party *party, muster_worker *worker, uint64_t tag, const char *what);
/* A reading section: begin says that this rank reads its peers' memory (ABORTED if the run is already lost, then it must not read); end says that it has
 * finished. leave waits until no peer reads this rank's memory under `tag`: every peer has ended its section, or the run is lost and none is inside one. */
muster_status mst_party_read_begin(mst_party *party, muster_worker *worker, uint64_t tag);
void mst_party_read_end(mst_party *party, muster_worker *worker, uint64_t tag);
muster_status mst_party_leave(mst_party *party, muster_worker *worker, uint64_t tag, const char *what);

/* Topology (topology.c): CPUs this process may use: one logical CPU per allowed physical core (hwloc opened at run time, else the kernel's
 * files), cut to the cgroup quota. cpus[capacity] out. Returns the number of cores (>= 1). allowed: number of logical CPUs (affinity and quota). */
int32_t mst_topology_cores(int32_t *cpus, int32_t capacity);
int32_t mst_topology_allowed(void);
const char *mst_topology_source(void); /* "hwloc 2.9.0" or "kernel" */

/* Scratch for this room and others, as muster_worker_scratch, in bytes. */
muster_status mst_worker_scratch_bytes(muster_worker *worker, int64_t bytes, void **address);
/* The worker that this thread is running a task for, NULL outside. */
muster_worker *mst_current_worker(void);

#endif
