/* A worker, and what other modules may ask of it inside a task. */
#ifndef MST_WORKER_IMPL_H
#define MST_WORKER_IMPL_H

#include "device_impl.h"
#include "muster/worker.h"
#include "recorder_impl.h"

typedef struct mst_pool mst_pool;

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

/* Only the worker's own thread writes it during a run. */
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

/* From a task: aborts the run. The first caller wins (one compare-and-swap of epoch, rank, code);
 * keeps the thread's last error as the message; wakes everyone who waits in a team of this pool.
 * aborted: has this run been aborted? */
void mst_pool_abort(muster_worker *worker, muster_status code);
bool mst_pool_aborted(const muster_worker *worker);
/* From a task, before the rendezvous that ends it on every worker. A worker that waits for this one
 * in any other rendezvous fails, since this one will not come. Waits of the last rendezvous only
 * warn: they wait for user code that has not returned. */
void mst_worker_last_rendezvous(muster_worker *worker);

/* From a task: the deadlines of the run in progress. */
void mst_worker_deadlines(const muster_worker *worker, int64_t *warn_after_ns, int64_t *fail_after_ns);

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

/* Scratch for the modules, as muster_worker_scratch, in bytes. */
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
