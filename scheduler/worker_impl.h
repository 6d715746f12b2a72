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

/* A function that the pool calls on the worker's thread at the end of a run: when the task has
 * returned, also with a failure, and before the pool waits for the device. A status other than OK
 * fails the run. The hook's memory belongs to the caller, and is in use until the hook has run. */
typedef struct mst_exit_hook {
    muster_status (*run)(muster_worker *worker, struct mst_exit_hook *hook);
    struct mst_exit_hook *next;
} mst_exit_hook;

/* The modules that keep data of their own for each worker. The owner of a slot sets it and clears
 * it. The scheduler makes workers whose slots are all NULL, and never reads or writes a slot
 * afterwards: what a slot holds stays from run to run. */
typedef enum { MST_SLOT_COLLECTIVES, MST_SLOT_FUNCTION, MST_WORKER_SLOTS } mst_worker_slot;

/* The bit of muster_worker.lock_word: calls are ended. */
enum { MST_TICKET_CANCELLED = 4 };

/* During a run only the worker's own thread writes this struct. */
struct muster_worker {
    /* The number of the worker in its process, and of the workers of the process in the run. */
    _Alignas(MST_CACHE_LINE) int32_t rank;
    int32_t size;
    int32_t total; /* workers of all processes; 0 in a run of rank 0 alone, which each process makes for itself */
    int32_t first; /* the public rank of the process's worker 0 */
    mst_device *device;
    mst_pool *pool;
    uint64_t epoch;                    /* the number of the run in progress */
    uint64_t sequence;                 /* the number of collectives entered in this run */
    uint64_t sealed;                   /* the newest epoch whose run this worker has sealed */
    const _Atomic uint32_t *lock_word; /* of the pool */
    mst_scratch_block *scratch;
    int64_t scratch_count, scratch_capacity;
    int64_t scratch_top;           /* the block in use: those behind it are free */
    int64_t scratch_peak;          /* the largest height since mst_worker_scratch_watch */
    muster_status scratch_status;  /* the failure of a scratch request, for operations that then get "no tensor" */
    uint64_t scratch_errors;       /* mst_error_count() after that failure, whose message is the last one while the count stays */
    mst_exit_hook *exit_hooks;     /* the hooks of this run, the newest first */
    void *slots[MST_WORKER_SLOTS]; /* each belongs to one module */
    mst_recorder recorder;
};

/* Programs and messages know a worker by its rank among the workers of all processes, which is its
 * number in the process behind this one. In a run of rank 0 alone it is rank 0 of 1. */
static inline int32_t mst_worker_first(const muster_worker *worker) { return worker->total ? worker->first : 0; }
static inline int32_t mst_worker_total(const muster_worker *worker) { return worker->total ? worker->total : 1; }
static inline int32_t mst_worker_public_rank(const muster_worker *worker) { return worker->rank + mst_worker_first(worker); }

/* The functions below are called from a task, on the worker's own thread. */

/* Call it before this worker arrives where the run begins to change what outlasts it, if all have
 * arrived: a cancel that comes later is not seen by this worker in this run. CANCELLED if one has
 * come. So either none arrives after a cancel that it could see, or all go on. */
muster_status mst_worker_seal(muster_worker *worker, const char *where);

/* Aborts the run. The first worker that aborts a run decides its status, by one compare-and-swap of
 * epoch, rank and code; the thread's last error becomes the message of the run. Wakes every thread
 * that waits in a team of this pool. */
void mst_pool_abort(muster_worker *worker, muster_status code);
/* True if the run in progress has been aborted, or is ended by a cancel. Only the worker's own
 * thread may ask. */
bool mst_pool_aborted(const muster_worker *worker);
/* What a wait fails with in an aborted run: CANCELLED where a cancel has aborted it, else
 * ABORTED. */
muster_status mst_pool_aborted_status(const muster_worker *worker);
/* Call it before the rendezvous with which the task ends on every worker. There may be several, if
 * only the library runs between them. A worker that waits for
 * this one in any other rendezvous then fails, because this worker will not arrive there. Waits in
 * the last rendezvous warn and never fail: they wait for user code that has not returned. */
void mst_worker_last_rendezvous(muster_worker *worker);

/* The deadlines of the run in progress. */
void mst_worker_deadlines(const muster_worker *worker, int64_t *warn_after_ns, int64_t *fail_after_ns);

/* Allocates memory of the worker's device during a run, as table->memory->allocate does. A device
 * whose driver must not be called while collectives are in flight may have to refuse. The pool then
 * reserves the refused bytes after the run, so that the next run finds them. */
muster_status mst_worker_allocate(muster_worker *worker, int64_t bytes, void **address);
/* Waits for the worker's device. Fails with TIMEOUT at the deadline of the run, and with ABORTED
 * when the run is aborted. */
muster_status mst_worker_sync(muster_worker *worker);
/* Call it before host code of a run touches memory of a host device: a program that was launched on
 * the device may still be running. */
static inline muster_status mst_worker_drain(muster_worker *worker) {
    return __builtin_expect(worker->device->queued, 0) ? mst_worker_sync(worker) : MUSTER_OK;
}

/* The same as muster_worker_scratch, for modules of the library, in bytes. */
muster_status mst_worker_scratch_bytes(muster_worker *worker, int64_t bytes, void **address);
/* Keeps the failure of a request for memory of which the body gets "no tensor". */
static inline void mst_worker_keep_failure(muster_worker *worker, muster_status status) {
    worker->scratch_status = status;
    worker->scratch_errors = mst_error_count();
}
/* For an operation that was given "no tensor" as argument `what`: the failure that was kept, with
 * its own message where this is still the thread's last error; MUSTER_OK if there was none. */
muster_status mst_worker_kept_failure(const muster_worker *worker, const char *where, const char *what);
/* Begins to look for the largest height of the scratch (scratch_peak), and returns the height now.
 * The caller keeps what was found before, and gives it back by mst_worker_scratch_watched. */
int64_t mst_worker_scratch_watch(muster_worker *worker);
void mst_worker_scratch_watched(muster_worker *worker, int64_t peak);
/* Call it between two bodies of one run: the second may use the scratch that the first has used. */
void mst_worker_scratch_rewind(muster_worker *worker);
/* `hook` runs once at the end of this run, before the hooks that were added earlier. */
static inline void mst_worker_add_exit_hook(muster_worker *worker, mst_exit_hook *hook) {
    hook->next = worker->exit_hooks;
    worker->exit_hooks = hook;
}
/* The worker for which this thread is running a task; NULL outside of tasks. */
muster_worker *mst_current_worker(void);
/* For public functions with a worker: fails unless it runs a task on this thread. Reads nothing of
 * a worker that the program has kept, whose memory may be gone. mst_worker_refuse makes the error:
 * INVALID_ARGUMENT for NULL, else BAD_STATE; or CANCELLED, if the call is ended. */
muster_status mst_worker_refuse(const muster_worker *worker, const char *where);
/* Has there been a cancel? mst_worker_refuse says whether it concerns this worker. */
static inline bool mst_worker_is_cancelled(const muster_worker *worker) {
    return (atomic_load_explicit(worker->lock_word, memory_order_relaxed) & MST_TICKET_CANCELLED) != 0;
}
static inline muster_status mst_worker_check(const muster_worker *worker, const char *where) {
    return __builtin_expect(worker && worker == mst_current_worker() && !mst_worker_is_cancelled(worker), 1)
               ? MUSTER_OK
               : mst_worker_refuse(worker, where);
}

#endif
