/* A function, its plan, and what each rank keeps between calls. The life of a call: plan.c checks
 * and plans on the caller's thread; call.c hands the plan to the pool; on each worker stage.c
 * brings the rows, the body runs, collect.c accumulates over the slices; collect.c then combines
 * the shares' parts, update.c applies the updates. Everything here grows to what the largest call
 * needed, so that a repeated call allocates nothing. A share is a rank's, or, with logical shards,
 * one of the rank's several: the body runs for each, and each keeps its own parts. */
#ifndef MST_FUNCTION_IMPL_H
#define MST_FUNCTION_IMPL_H

#include "muster/function.h"
#include "runtime_impl.h"
#include "variable_impl.h"

typedef struct mst_port {
    char *name;
    muster_dtype dtype;
    int32_t ndim;
    int32_t mode; /* muster_input_mode or muster_collect_mode */
} mst_port;

typedef struct mst_use {
    muster_variable *variable;
    bool sliceable, written, updated; /* written: by the body, in place */
    muster_collect_mode mode;         /* of the update */
} mst_use;

/* Memory that grows: on the rank's device, or of the host. */
typedef struct mst_store {
    void *address;
    int64_t capacity;
} mst_store;

/* Writes only what changes: the lines that the caller's thread reads after the run then stay shared
 * from call to call, and a small call moves no more lines between the cores than it must. */
#define MST_SET(place, value)                      \
    do {                                           \
        if ((place) != (value)) (place) = (value); \
    } while (0)

/* What one share has of one output, or one rank of one update. */
typedef struct mst_part {
    const void *visible;   /* host-readable contribution, contiguous */
    muster_dtype dtype;    /* of it: the output's, or its compute dtype after slices */
    bool direct;           /* the body wrote into the caller's memory */
    bool begun;            /* something has been accumulated */
    bool touched;          /* update: the body asked for it in this slice */
    int32_t owner;         /* update: the shard that began it */
    double weight;         /* of what has been accumulated */
    int64_t rows, pending; /* gathered: rows so far, rows of this slice */
    mst_store value;       /* where the body writes */
    mst_store sum;         /* accumulated over slices */
    mst_store host;        /* copy of a device's contribution: memory that the device copies to without staging */
    mst_store loose;       /* the same where that was too small, and rows set aside */
} mst_part;

/* On a device with a COPY queue the rows of one slice travel while the one before computes: two
 * pieces of each input, used in turn. Marks of a piece: its rows have come; what reads them has
 * been issued. The slots of marks below these are the collectives'. */
enum { MST_PIECES = 2, MST_FUNCTION_MARKS = 8 };
static inline int32_t mst_mark_come(int64_t piece) { return MST_FUNCTION_MARKS + (int32_t)(piece % MST_PIECES); }
static inline int32_t mst_mark_used(int64_t piece) { return MST_FUNCTION_MARKS + MST_PIECES + (int32_t)(piece % MST_PIECES); }

/* Rows for which the body runs, and what came of it. */
typedef struct mst_share {
    _Alignas(MST_CACHE_LINE) int64_t first_row;
    int64_t rows;
    bool runs, contributes; /* runs the body; its outputs enter the collection */
    mst_part *parts;        /* [outputs] */
} mst_share;

/* What changes in every call, and only the rank's own worker looks at. */
typedef struct mst_rank {
    _Alignas(MST_CACHE_LINE) mst_share *share; /* the one being run */
    muster_tensor *in, *out;
    /* [MST_PIECES * inputs] device copies, packed host rows; piece p of input i: MST_PIECES * i +
     * p. Broadcast: piece 0 */
    mst_store *staged, *bounce;
    bool staged_whole;         /* the broadcast inputs are on the device in this call */
    int64_t pieces;            /* copied to the device beside its computing in this run */
    int64_t ahead;             /* the slice of the share whose rows are on their way already; -1: none */
    mst_part *updates;         /* [uses] */
    mst_store *picked, *lists; /* [uses] rows chosen by batch_s; on the device, their indices */
    muster_tensor *views;      /* [uses] this slice's view of the variable */
} mst_rank;

/* The last call that was checked: one that looks the same needs no check. */
typedef struct mst_plan {
    bool valid, single;
    muster_tensor *inputs, *outputs; /* as the caller gave them; their data pointers are not part of the comparison */
    void **addresses;                /* [inputs + outputs] of this call */
    muster_selection batch;
    const muster_selection *batch_s;
    int32_t batch_s_count;
    int64_t slices;
    int64_t count;                        /* rows selected */
    int64_t warn_after_ns, fail_after_ns; /* of this call; 0: the runtime's */
    int32_t contributors;                 /* shares whose parts are collected */
    bool beside;                          /* some device copies the rows of its pieces beside its computing */
    bool parallel;                        /* some output is large enough to be combined by all workers */
} mst_plan;

/* What a run of the pool is given: constant from call to call, so that its line stays in every
 * worker's cache. */
typedef struct mst_call {
    muster_function *function;
    int32_t size;        /* ranks */
    int32_t share_count; /* a multiple of it */
    int32_t shards;      /* logical shards in each share; 0: not in reproducible mode */
    mst_share *shares;
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
    mst_rank *ranks;   /* [size] */
    mst_share *shares; /* [together.share_count] */
    /* the same for a single call, whose parts all lie on the master's device; NULL: the first of
     * `shares` serve */
    mst_share *master_shares;
    mst_plan plan;
    muster_tensor *named; /* [inputs + outputs] for calls by name */
    mst_store *results;   /* [outputs] contiguous results for strided callers */
};

/* function.c */
muster_status mst_function_seal(muster_function *function, const char *where);
const char *mst_function_name(const muster_function *function);
void mst_host_store_free(mst_store *store);
muster_status mst_host_store_reserve(mst_store *store, int64_t bytes, const char *what);
muster_status mst_device_store_reserve(mst_device *device, mst_store *store, int64_t bytes); /* between runs */
void mst_device_store_free(mst_device *device, mst_store *store);
/* The same during a run. */
muster_status mst_worker_store_reserve(muster_worker *worker, mst_store *store, int64_t bytes);

/* plan.c: checks the call and fills function->plan and the ranks' shares. where: the public
 * function. options: as mst_call_options_read gives them. */
muster_status mst_plan_make(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                            const muster_tensor *outputs, int32_t output_count, const muster_call_options *options, bool single);
/* What can be checked of a call without its turn; options: given's known part over the defaults.
 * What depends on variables, or on how the rows fall on the devices, is left to mst_plan_make. */
muster_status mst_plan_check(const muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                             const muster_tensor *outputs, int32_t output_count, const muster_call_options *given,
                             muster_call_options *options);
/* options = what the caller gave, over the defaults. given may be NULL. */
muster_status mst_call_options_read(const char *where, const muster_call_options *given, muster_call_options *options);
/* The range of positions [begin, end) of slice `slice` in a share of `rows` rows. */
static inline int64_t mst_slice_edge(int64_t rows, int64_t slices, int64_t slice) {
    return slices == 1 ? (slice ? rows : 0) : (int64_t)((__int128)rows * slice / slices);
}

/* call.c: a call whose turn has come. options: as mst_call_options_read gives them. */
muster_status mst_function_call_entered(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                                        const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                        bool single);

/* stage.c: fills rank->in and rank->views for positions [begin, end) of the rank's share. used: the
 * body of the slice has been issued; the rows of slice `next`, positions [begin, end), may set out
 * (next < 0: there is none). */
muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end);
muster_status mst_stage_used(mst_call *call, muster_worker *worker, int64_t next, int64_t begin, int64_t end);
/* Does the worker's device copy the pieces of this call beside its computing? */
bool mst_stage_beside(const mst_call *call, const mst_device *device);

/* reserve.c: between calls, the memory that the call will need on devices with memory of their own,
 * and of the host for them: their drivers must not be asked while collectives are in flight. */
muster_status mst_call_reserve(mst_call *call, const char *where);
muster_status mst_locked_store_reserve(mst_device *device, mst_store *store, int64_t bytes, const char *what);
void mst_locked_store_free(mst_device *device, mst_store *store);

/* collect.c, on the worker, for the share being run: reset, prepare outputs before the body,
 * accumulate after it, finish after the last slice (makes parts host-visible). combine, once per
 * rank: large outputs are combined by all workers. On the caller's thread after the run: combine
 * the rest. */
void mst_outputs_reset(mst_call *call, muster_worker *worker);
muster_status mst_outputs_prepare(mst_call *call, muster_worker *worker, int64_t begin, int64_t end);
muster_status mst_outputs_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_outputs_finish(mst_call *call, muster_worker *worker);
muster_status mst_outputs_combine(mst_call *call, muster_worker *worker);
muster_status mst_outputs_collect(mst_call *call, const char *where);
/* Does the share's value of this output go from its device straight into the caller's memory? (not
 * of host devices, whose bodies write there) */
bool mst_output_lands(const mst_call *call, const mst_share *share, int64_t output);
/* gather.c: the gathered outputs' part of the same. */
muster_status mst_gather_prepare(mst_call *call, muster_worker *worker, int64_t output, int64_t begin, int64_t end);
muster_status mst_gather_finish(mst_call *call, muster_worker *worker, int64_t output);
muster_status mst_gather_collect(mst_call *call, int64_t output, const char *where);
/* Adds one slice's values to a part, by `mode`; elements of `dtype` at part->value. */
muster_status mst_part_accumulate(muster_worker *worker, mst_part *part, muster_collect_mode mode, muster_dtype dtype, int64_t count);

/* update.c */
void mst_updates_reset(mst_call *call, muster_worker *worker);
void mst_updates_prepare(mst_call *call, muster_worker *worker);
muster_status mst_updates_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_updates_finish(mst_call *call, muster_worker *worker);
void mst_updates_apply(mst_call *call);

static inline mst_rank *mst_call_rank(const mst_call *call, const muster_worker *worker) { return &call->function->ranks[worker->rank]; }
static inline mst_share *mst_call_share(const mst_call *call, const muster_worker *worker) { return mst_call_rank(call, worker)->share; }
static inline int32_t mst_call_shares_of_rank(const mst_call *call) {
    /* a division takes as long as all else that an empty call does here */
    return call->share_count == call->size ? 1 : call->share_count / call->size;
}
/* The number of a share, which is also the number of its shard unless the body runs several
 * together. */
static inline int32_t mst_share_number(const mst_call *call, const mst_share *share) { return (int32_t)(share - call->shares); }
/* One slice of one share: what the body wrote is the rank's update. */
static inline bool mst_updates_whole(const mst_call *call) { return call->function->plan.slices == 1 && call->share_count == call->size; }
static inline bool mst_wanted(const mst_plan *plan, int64_t output) { return plan->outputs[output].dtype != MUSTER_DTYPE_NONE; }

#endif
