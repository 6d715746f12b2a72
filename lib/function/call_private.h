/* A function, and what a call of it works on. The life of a call: plan.c checks and plans on the
 * caller's thread; call.c hands the plan to the pool; on each worker stage.c brings the rows, the
 * body runs, and collect.c accumulates over the slices; collect.c then combines the parts of all
 * logical shards, and update.c applies the updates. Everything here grows to what the largest call
 * needed, so that a repeated call allocates nothing.
 *
 * The body runs for each logical shard, and each keeps its own parts. Without the reproducible mode
 * a rank is one logical shard. With muster_function_set_shards_together the shards of a rank are
 * run, and counted here, as one. */
#ifndef MST_CALL_PRIVATE_H
#define MST_CALL_PRIVATE_H

#include "part_private.h"
#include "plan_private.h"
#include "port_private.h"
#include "runtime_impl.h"

/* On a device with a COPY queue the rows of one slice travel while the one before computes: two
 * chunks of each input, used in turn. Marks of a chunk: its rows have come; what reads them has
 * been issued. The slots of marks below these are the collectives'. */
enum { MST_CHUNKS = 2 };

/* Rows for which the body runs, and what came of it. */
typedef struct mst_logical_shard {
    _Alignas(MST_CACHE_LINE) int64_t first_row;
    int64_t rows;
    bool runs, contributes; /* runs the body; its outputs enter the collection */
    mst_part *parts;        /* [outputs] */
} mst_logical_shard;

/* What changes in every call, and only the rank's own worker looks at. */
typedef struct mst_rank {
    _Alignas(MST_CACHE_LINE) mst_logical_shard *shard; /* the one being run */
    muster_tensor *in, *out;
    /* [MST_CHUNKS * inputs] copies on the device, and packed rows in pinned host memory; chunk c of
     * input i: MST_CHUNKS * i + c. Broadcast inputs: chunk 0 */
    mst_store *staged, *pinned_bounce;
    bool broadcast_staged;            /* the broadcast inputs are on the device in this call */
    int64_t chunks;                   /* chunks copied to the device so far in this run, overlapped with its computing */
    int64_t ahead;                    /* the slice of the shard whose rows are on their way already; -1: none */
    mst_part *updates;                /* [uses] */
    mst_store *gathered_rows, *lists; /* [uses] rows that replica_batch chose; their indices, on the device */
    muster_tensor *views;             /* [uses] this slice's view of the variable */
    /* Events of each chunk: its rows have come; what reads them has been issued. NULL until a call
     * copies rows while the device computes. */
    mst_device_event *come[MST_CHUNKS], *used[MST_CHUNKS];
} mst_rank;

/* What a run of the pool is given: constant from call to call, so that its line stays in every
 * worker's cache. */
typedef struct mst_call {
    muster_function *function;
    int32_t size;        /* ranks */
    int32_t shard_count; /* a multiple of it */
    int32_t shards_each; /* logical shards of the runtime that each of these stands for; 0: not in reproducible mode */
    mst_logical_shard *shards;
} mst_call;

struct muster_function {
    mst_object object; /* first */
    mst_call together, single;
    muster_body *bodies; /* [size] */
    void *user;
    bool sealed; /* has been called: the description is complete */
    bool runs_without_rows, shards_together;
    bool scatters, slices_variables;
    bool on_devices; /* some rank has a device with memory of its own */
    mst_port *inputs, *outputs;
    int64_t input_count, input_capacity, output_count, output_capacity;
    mst_use *uses;
    int64_t use_count, use_capacity;
    mst_rank *ranks;           /* [size] */
    mst_logical_shard *shards; /* [together.shard_count] */
    /* the same for a single call, whose parts are all on the master's device; NULL: the first of
     * `shards` serve */
    mst_logical_shard *master_shards;
    mst_plan plan;
    muster_tensor *named; /* [inputs + outputs] for calls by name */
    mst_store *results;   /* [outputs] contiguous results for strided callers */
};

/* function.c */
muster_status mst_function_seal(muster_function *function, const char *where);
const char *mst_function_name(const muster_function *function);

/* call.c: a call that has left the queue. options: as mst_call_options_read gives them. */
muster_status mst_function_call_entered(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                                        const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                        bool single);

/* reserve.c: between calls, the memory that the call will need on devices with memory of their own,
 * and of the host for them: their drivers must not be asked while collectives are in flight. */
muster_status mst_call_reserve(mst_call *call, const char *where);

/* stage.c: fills rank->in and rank->views for positions [begin, end) of the rank's shard. */
muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end);
/* The body of the slice has been issued: the rows of slice `next`, positions [begin, end), may be
 * copied (next < 0: there is none). */
muster_status mst_stage_used(mst_call *call, muster_worker *worker, int64_t next, int64_t begin, int64_t end);
/* Does the device copy the rows of one slice of this call while it computes another? */
bool mst_stage_overlaps(const mst_call *call, const mst_device *device);

static inline mst_rank *mst_call_rank(const mst_call *call, const muster_worker *worker) { return &call->function->ranks[worker->rank]; }
static inline mst_logical_shard *mst_call_shard(const mst_call *call, const muster_worker *worker) {
    return mst_call_rank(call, worker)->shard;
}
static inline int32_t mst_call_shards_per_rank(const mst_call *call) {
    /* a division takes as long as all else that an empty call does here */
    return call->shard_count == call->size ? 1 : call->shard_count / call->size;
}
static inline int32_t mst_call_shard_number(const mst_call *call, const mst_logical_shard *shard) {
    return (int32_t)(shard - call->shards);
}
/* The range of positions [begin, end) of slice `slice` in a shard of `rows` rows. */
static inline int64_t mst_slice_edge(int64_t rows, int64_t slices, int64_t slice) {
    return slices == 1 ? (slice ? rows : 0) : (int64_t)((__int128)rows * slice / slices);
}

#endif
