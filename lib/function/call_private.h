/* A function, and the state of its calls. The stages of a call: plan.c checks and plans on the
 * caller's thread; call.c hands the plan to the pool; on each worker stage.c stages the rows, the
 * body runs, and collect.c accumulates over the slices; then collect.c combines the parts of all
 * logical shards, and update.c applies the updates. All memory here grows to the size that the
 * largest call needed, so a repeated call allocates nothing.
 *
 * The body runs for each logical shard, and each shard has parts of its own. Without the
 * reproducible mode a rank is one logical shard. With muster_function_set_shards_together the body
 * runs once for all shards of a rank, which count as one here. */
#ifndef MST_CALL_PRIVATE_H
#define MST_CALL_PRIVATE_H

#include "buffer_impl.h"
#include "owner_impl.h"
#include "part_private.h"
#include "plan_private.h"
#include "port_private.h"
#include "runtime_impl.h"

/* A device with a COPY queue copies the rows of one slice while it computes the slice before. For
 * that each input has two chunks of device memory, which alternate. */
enum { MST_CHUNKS = 2 };

typedef struct mst_call mst_call;

/* The rows for which the body runs once, and its results. */
typedef struct mst_logical_shard {
    _Alignas(MST_CACHE_LINE) int64_t first_row;
    int64_t rows;
    bool runs, contributes; /* the body runs for it; its outputs are collected */
    mst_part *parts;        /* [outputs] */
} mst_logical_shard;

/* What a body can ask about its rows: see muster/worker.h. */
typedef struct mst_body_rows {
    int64_t first_row, rows, total_rows, slice, slices;
    double weight;
    /* 0 outside the reproducible mode. There the body computes `shards_here` logical shards of the
     * call's `shards` at a time, and `shard` is the number of the first. */
    int32_t shard, shards, shards_here;
} mst_body_rows;

/* The state of a rank that changes in every call. It is in the worker's slot MST_SLOT_FUNCTION
 * while a call runs; outside a call the slot is NULL. Only the rank's own worker accesses it, but
 * the caller's thread reads `updates` after the run: the fields from there on are not written in
 * every call, and have cache lines of their own. */
typedef struct mst_rank {
    _Alignas(MST_CACHE_LINE) mst_call *call; /* the call in progress */
    mst_logical_shard *shard;                /* the shard that is being run */
    mst_body_rows body;
    muster_tensor *in, *out;
    muster_tensor *kept_out; /* [outputs] `out` before a body has seen it, for repeated calls */
    uint64_t kept_plan;      /* the number of the plan that in and kept_out belong to; 0: none */
    /* [MST_CHUNKS * inputs] copies on the device, and packed rows in pinned host memory. Chunk c of
     * input i has index MST_CHUNKS * i + c; broadcast inputs use chunk 0. */
    mst_store *staged, *pinned_bounce;
    double run_weight;                          /* of the bodies that have run so far, as body.weight is of one; at the end it goes there */
    bool broadcast_staged;                      /* the broadcast inputs are on the device in this call */
    int64_t chunks;                             /* chunks copied to the device so far in this run, overlapped with its computing */
    int64_t ahead;                              /* the slice of the shard whose rows are being copied already; -1: none */
    _Alignas(MST_CACHE_LINE) mst_part *updates; /* [uses] */
    mst_store *gathered_rows, *lists;           /* [uses] the rows that replica_batch selects, and their indices, on the device */
    muster_tensor *views;                       /* [uses] the view of the variable in this slice */
    /* Two events for each chunk: `come` is recorded when its rows have been copied, `used` when the
     * work that reads them has been issued. NULL until a call copies rows while the device
     * computes. */
    mst_device_event *come[MST_CHUNKS], *used[MST_CHUNKS];
} mst_rank;

/* The argument of a run of the pool. It is constant from call to call, so that its cache line stays
 * in every worker's cache. */
struct mst_call {
    muster_function *function;
    int32_t size;        /* ranks of this process */
    int32_t shard_count; /* a multiple of size */
    /* The shards of all processes, and how many of them come before this one's. With one process
     * they are shard_count and 0. */
    int32_t total_shards, first_shard;
    int32_t shards_each; /* the runtime's logical shards per shard of this call; 0 without the reproducible mode */
    mst_logical_shard *shards;
};

struct muster_function {
    mst_object object; /* must be the first member */
    mst_call together, single;
    muster_body *bodies; /* [size] */
    void *user;
    mst_function_ended ended; /* NULL: nobody asks */
    mst_owned *owned;         /* `user`, if the library ends it; else NULL */
    const char *dtype_hint;   /* owner_impl.h; NULL: none */
    bool sealed;              /* the function has been called, so its description is complete */
    bool runs_without_rows, shards_together;
    bool shards_said;         /* the program has called muster_function_set_shards_together */
    bool counts_without_rows; /* what the body computes without rows is collected, too */
    muster_default_stream default_stream;
    bool scatters, slices_variables;
    bool on_devices; /* some rank has a device with memory of its own */
    mst_port *inputs, *outputs;
    int64_t input_count, input_capacity, output_count, output_capacity;
    mst_use *uses;
    int64_t use_count, use_capacity;
    mst_rank *ranks;           /* [size] */
    mst_logical_shard *shards; /* [together.shard_count] */
    /* for single calls, whose parts are all on the master's device; NULL: single calls use the
     * first of `shards` */
    mst_logical_shard *master_shards;
    mst_plan plan;
    muster_tensor *named; /* [inputs + outputs] tensors in the order of the description, for calls by name and those with buffers */
    muster_buffer **named_buffers;         /* [outputs] the buffers of a call by name, in the order of the description */
    mst_buffer_rows *filled;               /* [outputs] of a call with buffers */
    mst_store *results;                    /* [outputs] contiguous results, for outputs that are strided in the caller's memory */
    mst_store *wholes;                     /* [inputs] contiguous copies of broadcast inputs that are strided there */
    struct mst_processes_state *processes; /* processes_private.h; NULL: this process is the only one */
};

/* seal.c. unseal: frees what sealing has allocated, and all that calls have kept. */
muster_status mst_function_seal(muster_function *function, const char *where);
void mst_function_unseal(muster_function *function);
/* function.c */
const char *mst_function_name(const muster_function *function);

/* describe.c. Between open, which enters the pool and refuses a sealed function, and close, which
 * leaves the pool and returns `status`: one entry of the description each. */
muster_status mst_describe_open(muster_function *function, const char *where);
muster_status mst_describe_close(muster_function *function, muster_status status);
muster_status mst_describe_input(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim, muster_input_mode mode,
                                 const char *where);
muster_status mst_describe_output(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim, muster_collect_mode mode,
                                  const char *where);
muster_status mst_describe_variable(muster_function *function, muster_variable *variable, muster_variable_use kind, const char *where);
muster_status mst_describe_update(muster_function *function, muster_variable *variable, muster_collect_mode mode, const char *where);

/* call.c: runs a call that has left the queue. The options come from mst_call_options_read. */
muster_status mst_function_call_entered(muster_function *function, const mst_arguments *arguments);

/* run.c: runs the call on the worker in the general way. */
muster_status mst_call_run_rank(mst_call *call, muster_worker *worker);
/* The pool's mst_absence: the rank has no shard in which the body runs. */
bool mst_call_explain_absence(const muster_worker *worker, int32_t rank, char text[MST_ABSENCE_TEXT]);
/* The same of a call, for other processes. call: the mst_call. */
bool mst_call_absence(const void *call, int32_t rank, char *text, size_t size);
/* The error of a call whose body, on the rows `body`, has returned `status`, or OK with a group
 * that is still open. errors_before: mst_error_count before the body. */
muster_status mst_call_body_failed(const mst_call *call, const mst_body_rows *body, muster_status status, uint64_t errors_before);

/* reserve.c: reserves, between calls, the memory that the call will need on devices with memory of
 * their own, and the host memory for their copies. Their drivers must not be asked for memory while
 * collectives are in flight. hosts: also what host devices would otherwise allocate during the
 * run. */
muster_status mst_call_reserve(mst_call *call, const char *where, bool hosts);

/* form.c: says in which form bodies get each tensor, in a plan that is otherwise complete. */
void mst_forms_choose(muster_function *function);
/* Between runs: reserves memory for the copies of broadcast inputs; and makes them. */
muster_status mst_wholes_reserve(const mst_call *call, const char *where);
muster_status mst_wholes_copy(const mst_call *call, const char *where);

/* stage.c: fills rank->in and rank->views for positions [begin, end) of the shard. */
muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end);
/* Call it after the body of a slice has been issued. The rows of slice `next`, positions [begin,
 * end), may then be copied; next < 0: there is no next slice. */
muster_status mst_stage_used(mst_call *call, muster_worker *worker, int64_t next, int64_t begin, int64_t end);
/* Does the device copy rows of one slice of this call while it computes another? */
bool mst_stage_overlaps(const mst_call *call, const mst_device *device);

/* NULL outside a call. */
static inline mst_rank *mst_worker_rank(const muster_worker *worker) { return worker->slots[MST_SLOT_FUNCTION]; }
static inline mst_rank *mst_call_rank(const mst_call *call, const muster_worker *worker) { return &call->function->ranks[worker->rank]; }
static inline mst_logical_shard *mst_call_shard(const mst_call *call, const muster_worker *worker) {
    return mst_call_rank(call, worker)->shard;
}
/* Do several processes make the call together? Single calls run in each process by itself. */
static inline bool mst_call_is_joint(const mst_call *call) { return call->function->processes && call == &call->function->together; }
static inline int32_t mst_call_shards_per_rank(const mst_call *call) {
    /* avoids a division, which takes as long as everything else in an empty call here */
    return call->shard_count == call->size ? 1 : call->shard_count / call->size;
}
/* The number of the shard in this process. */
static inline int32_t mst_call_shard_number(const mst_call *call, const mst_logical_shard *shard) {
    return (int32_t)(shard - call->shards);
}
/* Returns whether the value of output i contains one from this shard. The output is not
 * gathered. */
static inline bool mst_shard_gives(const mst_call *call, const mst_logical_shard *shard, int64_t i) {
    return call->function->outputs[i].mode == MUSTER_MASTER ? mst_call_shard_number(call, shard) == call->function->plan.master
                                                            : shard->contributes;
}
/* The row of input or output tensor `index` (outputs follow the inputs) at which the shard begins:
 * a tensor that holds only the rows of this process begins with them. */
static inline int64_t mst_call_tensor_row(const mst_call *call, const mst_logical_shard *shard, int64_t index) {
    return shard->first_row - (call->function->plan.parts[index] ? call->function->plan.first_row : 0);
}
/* The first position of slice `slice` in a shard of `rows` rows; the slice ends where the next one
 * begins. */
static inline int64_t mst_slice_edge(int64_t rows, int64_t slices, int64_t slice) {
    return slices == 1 ? (slice ? rows : 0) : (int64_t)((__int128)rows * slice / slices);
}

#endif
