/* The transport `nccl`. Each worker has an NCCL communicator of its own for its GPU; only the
 * worker's thread creates and uses it, and a thread that this thread starts ends it. */
#ifndef MST_NCCL_PRIVATE_H
#define MST_NCCL_PRIVATE_H

#include "core/device_staging_private.h"
#include "nccl_api_private.h"

/* One rank of an NCCL communicator. It is an element of its worker's list, and only that worker
 * accesses it during a run. Muster's communicators only point to it. */
typedef struct mst_nccl_handle {
    mst_nccl_comm comm; /* NULL: it has ended, or is being ended */
    int32_t size, rank;
    bool released, part;
    bool finalized; /* ncclCommFinalize has succeeded */
    struct mst_nccl_handle *next;
} mst_nccl_handle;

typedef struct mst_nccl_ending mst_nccl_ending; /* nccl_end.c */

/* Per-worker state. */
typedef struct mst_nccl_worker {
    _Alignas(MST_CACHE_LINE) struct mst_nccl *nccl;
    muster_worker *worker;
    mst_nccl_handle *handles;
    mst_nccl_ending *endings; /* begun and not waited for yet */
    uint64_t used;            /* the latest epoch in which the worker has issued NCCL calls; 0: none */
    uint32_t polls;
    muster_status (*before)(void *user); /* the interrupt function that the device had before */
    void *before_user;
    mst_device_staging staging;
    void *trial;          /* [trial_bytes of mst_nccl] device memory for the trials */
    const char *function; /* the public function that calls NCCL, for messages; NULL: none yet */
} mst_nccl_worker;

/* The state that all communicators of a world share. */
typedef struct mst_nccl {
    const mst_nccl_api *api;
    muster_communicator *world;
    int32_t size;
    mst_nccl_worker *workers; /* [size] */
    int64_t trial_bytes;      /* the same on all workers */
    bool watching;            /* the devices' waits poll NCCL for errors */
    _Atomic bool broken;      /* some rank has aborted its communicators: all are created anew before the next run */
    _Atomic bool blamed;      /* a call of NCCL has failed since this was last looked at */
    _Atomic int32_t released; /* released handles that still have to be ended */
    _Atomic bool no_parts;    /* NCCL could not create a communicator for some part */
    /* Successive failures: of a call because of NCCL, or to create the communicators anew. A call
     * that NCCL serves ends the succession. */
    int32_t failures;
    char version[24];
} mst_nccl;

/* The state of one Muster communicator. */
typedef struct mst_nccl_state {
    mst_nccl_id id;             /* by which its ranks find each other in NCCL */
    mst_nccl_handle *handles[]; /* [size] NULL: none yet */
} mst_nccl_state;

static inline mst_nccl_state *mst_nccl_state_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_nccl]; }
static inline mst_nccl *mst_nccl_of(const muster_communicator *communicator) { return communicator->world->open[MST_TRANSPORT_nccl]; }
static inline mst_nccl_worker *mst_nccl_worker_of(const muster_communicator *communicator, const muster_worker *worker) {
    return &mst_nccl_of(communicator)->workers[worker->rank];
}

/* nccl_api.c. mst_nccl_error returns MUSTER_OK also for a call that is in progress. Errors of NCCL:
 * INTERNAL, SYSTEM, OUT_OF_MEMORY (of the device), or what the device says. */
muster_status mst_nccl_api_get(const mst_nccl_api **api);
muster_status mst_nccl_error(const mst_nccl_api *api, mst_nccl_result result, const char *symbol, const mst_device *device);

/* nccl_open.c. mst_nccl_log_failure appends the thread's last error. */
void mst_nccl_log(const mst_nccl *nccl, muster_log_level level, const char *line);
void mst_nccl_log_failure(const mst_nccl *nccl, muster_log_level level, const char *what);
#define MST_NCCL_HINT "NCCL_DEBUG=WARN makes NCCL say more, and in a container /dev/shm may be too small for it"

/* nccl_wait.c: waiting for NCCL, and watching it while the device waits. */
/* mst_nccl_error of a call of this worker; remembers that NCCL is to blame. */
muster_status mst_nccl_check(mst_nccl_worker *nccl_worker, mst_nccl_result result, const char *symbol);
/* Calls the symbol. c: a struct with the members nccl_worker and api. */
#define MST_NCCL_CALL(c, symbol, ...) mst_nccl_check((c)->nccl_worker, (c)->api->symbol(__VA_ARGS__), #symbol)
/* Waits until the communicator is no longer in progress, and returns its result. Returns
 * IN_PROGRESS after limit_ns (negative: never), or, if `worker` is given, when its run is
 * aborted. */
mst_nccl_result mst_nccl_wait(const mst_nccl_api *api, mst_nccl_comm comm, mst_nccl_result result, const muster_worker *worker,
                              int64_t limit_ns);
/* Follows each NCCL call: waits until the call is no longer in progress, the limit has passed or
 * the run is aborted. A failure aborts the run and this worker's NCCL communicators. */
muster_status mst_nccl_synchronize(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol,
                                   int64_t limit_ns);
/* Ends an NCCL group, also one in which a call has failed. status: that of the calls in it. If it
 * is a failure, it is returned; else waits as mst_nccl_synchronize does. */
muster_status mst_nccl_group_end(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, muster_status status, int64_t limit_ns);
/* Aborts the run and this worker's communicators because of the thread's last error. */
muster_status mst_nccl_lose(mst_nccl_worker *nccl_worker, muster_status status);
void mst_nccl_back_off(int64_t waited_ns); /* between two looks of a wait that has lasted so long */
void mst_nccl_watch_begin(mst_nccl *nccl);
void mst_nccl_watch_end(mst_nccl *nccl);

/* nccl_end.c: the end of communicators. NCCL's ncclCommAbort and ncclCommDestroy wait in the host
 * for what the streams of all ranks hold, so threads of their own call them. */
typedef enum { MST_NCCL_ALL, MST_NCCL_RELEASED } mst_nccl_which;
/* Begins to end these communicators of the worker, in one group: the finalized ones are destroyed,
 * the others aborted, which ends their kernels. Does not wait. */
void mst_nccl_end_begin(mst_nccl_worker *nccl_worker, mst_nccl_which which);
/* Between runs: waits until all that was begun has ended. false: some has not in time. Its memory
 * and that of all open devices is then kept until the process ends, and this is logged. */
bool mst_nccl_end_wait(mst_nccl *nccl);
/* As mst_nccl_end_begin for all communicators of the worker, whose run is aborted. All are created
 * anew before the next run. */
void mst_nccl_abort(mst_nccl_worker *nccl_worker);
/* Between runs: runs a task that begins to end communicators, again if necessary until none is
 * left, and waits. The communicators of a worker whose device cannot be entered, because it is
 * lost, are ended without the worker. No communicator is ended twice. Returns what
 * mst_nccl_end_wait does. */
bool mst_nccl_end_everywhere(mst_nccl *nccl, mst_task task);
bool mst_nccl_any_left(const mst_nccl *nccl);
void mst_nccl_drop_handles(mst_nccl_worker *nccl_worker, bool only_released);
muster_status mst_nccl_abort_task(muster_worker *worker, void *nccl);

/* nccl_trial.c. Takes the memory for the trials, on all workers. */
muster_status mst_nccl_trial_open(mst_nccl *nccl);
void mst_nccl_trial_close(mst_nccl *nccl);
/* On all ranks of the handle's communicator, when all have it: uses it once in each way in which
 * NCCL makes connections, and waits for the end. A failure aborts the run. */
muster_status mst_nccl_trial(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle);

/* nccl_make.c: makes NCCL's communicators, of the world and of all parts, on all workers at the
 * same time. */
mst_nccl_handle *mst_nccl_add_handle(mst_nccl_worker *nccl_worker, bool part);
muster_status mst_nccl_make_handle(mst_nccl_worker *nccl_worker, const mst_nccl_id *id, int32_t size, int32_t rank,
                                   mst_nccl_handle *handle);
muster_status mst_nccl_make_all(mst_nccl *nccl);
/* Creates new communicators between runs, and logs a failure. */
void mst_nccl_recover(muster_communicator *world);

/* nccl_open.c. If there cannot be any communicators, mst_nccl_open leaves world->open[] NULL and
 * sets the reason; it fails only if host memory is exhausted. */
muster_status mst_nccl_open(muster_communicator *world);
void mst_nccl_close(muster_communicator *world);

/* nccl_part.c */
muster_status mst_nccl_make_state(const char *where, muster_communicator *communicator);
muster_status mst_nccl_create(const char *where, muster_communicator *communicator, const muster_communicator *parent);
void mst_nccl_destroy(muster_communicator *communicator);
void mst_nccl_release(muster_communicator *part, muster_worker *worker);
/* Can this communicator use NCCL in this run? All ranks get the same answer unless the run is
 * aborted. */
bool mst_nccl_ready(const muster_communicator *communicator);
extern const mst_join_table mst_nccl_join;

/* nccl_run.c. mst_nccl_native: does NCCL combine these values as the interface promises, or does
 * the collective combine none? */
bool mst_nccl_native(const mst_view *view, bool fixed_order);
muster_status mst_nccl_prepare(mst_batch *batch);
muster_status mst_nccl_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_nccl_run(const mst_batch *batch);

#endif
