/* The collective all_reduce_apply: sums gradients over the ranks and applies a rule to parameters,
 * in one pass or in two phases. Only modules of the library use it: its callback runs inside the
 * collective. */
#ifndef MST_APPLY_REQUEST_IMPL_H
#define MST_APPLY_REQUEST_IMPL_H

#include "muster/communicator.h"

#include <stdbool.h>

/* One parameter of a rank, contiguous, and its gradient. */
typedef struct mst_apply_segment {
    int64_t offset;  /* of the gradient of a shared segment in the flat vector, in elements */
    int64_t count;   /* elements of the parameter */
    void *parameter; /* of this rank, an address of its device; may be NULL if count is 0 */
    /* Of a local segment, which is not exchanged: the complete gradient of this rank's own
     * parameter. It may lie in the flat vector. */
    const void *gradient;
    bool local;
} mst_apply_segment;

/* What the rule is called for: elements [first, first + count) of a segment. `gradient` has the
 * bits that muster_worker_all_reduce would give, or, of a local segment, its own. All have the
 * dtype of the gradients. `after` may be `before`; in the phase SUM both are NULL. Elements may lie
 * anywhere: only their size aligns them. */
typedef struct mst_apply_part {
    int32_t segment; /* in the rank's table */
    muster_dtype dtype;
    int64_t first, count;
    int64_t state;        /* where the states of `first` lie in vectors of mst_apply_states elements */
    const void *gradient; /* [count] */
    const void *before;   /* [count] the old values of the parameter */
    void *after;          /* [count] where the new ones go */
    /* [count] only for rules that take pairs, else NULL: a gradient that the rule adds to the first
     * one, and another parameter to which it writes the new values, too. */
    const void *second;
    void *copy;
    bool past_cache; /* the copy shall bypass the cache (stream_impl.h) */
} mst_apply_part;

/* The rule. Between ranks on host memory it is called for at most MST_APPLY_STEP bytes of
 * gradients at a time, which are in the cache then. On other devices it is called once for each
 * segment that has elements in the rank's portion, and launches work on the worker's COMPUTE
 * queue, which is complete before the gradient's memory is used again. It must not enter a
 * collective, and must not make a device allocate or load anything (in_flight in device_impl.h).
 * It is never called for 0 elements. A failure aborts the run. */
typedef muster_status (*mst_apply_function)(void *context, muster_worker *worker, const mst_apply_part *part);
enum { MST_APPLY_STEP = 4096 };

/* WHOLE: all of it in one pass. Or in two phases, where something has to be known about all sums
 * before the rule runs, or sums are made while other gradients are still computed:
 *
 * SUM: each rank writes the sums of its portion over its own gradients there, so that they need no
 * memory. The other gradients stay as they are. `function`, if any, is called for these sums, as a
 * rule is, and for the local segments.
 *
 * FINISH: the rule on what SUM has left, and the new values for all ranks. */
typedef enum mst_apply_phase { MST_APPLY_WHOLE, MST_APPLY_SUM, MST_APPLY_FINISH } mst_apply_phase;
enum { MST_APPLY_ALL_BUCKETS = -1 };

/* What one rank brings. */
typedef struct mst_apply_request {
    /* (length): a vector of gradients, contiguous, of a float dtype. (shards, length): one
     * vector for each logical shard of this rank, perhaps none; they are combined in the order
     * of the ranks and of their shards, as by muster_worker_all_reduce_shards. Elements in no
     * shared segment are not read. */
    muster_tensor gradients;
    /* [segment_count] read until the call returns. The table of every rank has the same number
     * of segments, the shared ones at the same places and with the same counts. Offsets may
     * differ between ranks, and the counts of local segments. Shared segments ascend and do not
     * overlap in the flat vector. Parameters overlap neither each other nor any gradient. */
    const mst_apply_segment *segments;
    int32_t segment_count;
    /* [bucket_count] where each bucket ends in the shared vector, ascending, read until the call
     * returns; the last is its length. The same on all ranks. NULL and 0: one bucket. */
    const int64_t *bucket_ends;
    int32_t bucket_count;
    mst_apply_function function; /* may be NULL in the phase SUM */
    void *context;
    /* [segment_count] or NULL. Written only if the call fails: may elements of the segment have
     * been written, so that this rank's parameter is undefined? */
    bool *undefined;
    /* The rule takes pairs: two gradients on host memory that are not added yet. It is then called
     * for any number of elements, and writes both parameters. */
    bool pairs;
} mst_apply_request;

/* The shared segments one behind the other are the shared vector. It is divided into buckets, so
 * that the sums of one can be made before the gradients of the next are there. */
typedef struct mst_apply_layout {
    muster_dtype dtype;
    int64_t count; /* elements of the shared vector */
    const int64_t *bucket_ends;
    int32_t bucket_count; /* 0: one bucket */
} mst_apply_layout;

/* Rank r of `size` applies the rule to one slice of each bucket, whatever transport or algorithm
 * serves; together they are its portion. A slice may be empty, and may begin or end inside a
 * segment. */
typedef struct mst_apply_slice {
    int64_t begin, end; /* elements of the shared vector */
    int64_t state;      /* where the states of `begin` lie: elements of the portion before it */
    int32_t next;       /* the number of the next bucket */
} mst_apply_slice;
/* Moves a slice to that of the next bucket, from {0} to that of bucket 0. false: there is none. */
bool mst_apply_next_slice(const mst_apply_layout *layout, int32_t size, int32_t rank, mst_apply_slice *slice);
/* Elements of a portion. */
int64_t mst_apply_portion(const mst_apply_layout *layout, int32_t size, int32_t rank);
/* How many elements the rule needs states for on this rank: those of its portion, and then those
 * of its local segments, one behind the other. */
int64_t mst_apply_states(const mst_apply_layout *layout, const mst_apply_segment *segments, int32_t segment_count, int32_t size,
                         int32_t rank);

/* Rank r sums its portion over all ranks in rank order, applies the rule to it, and writes the new
 * values into the parameters of all ranks; then it applies the rule to its local segments. One pass
 * over host memory: a sum is never written there. All ranks of the communicator enter it (NULL:
 * that of all workers); not in a group.
 *
 * To enter is to agree: nothing is written before all ranks have entered with tables that match. A
 * rank that fails or returns without entering, a late one, and a mismatch leave all parameters of
 * all ranks as they were.
 *
 * Later failures leave parameters undefined: elements are old, new, or, on a device, neither. They
 * are a deadline or a cancellation that meets some ranks at work and others still waiting; a rule
 * that fails; a transport that fails (NCCL, a copy, a queue); a lost device. `undefined` then says
 * which segments can be concerned, the same shared ones on every rank whose call has failed. A rank
 * whose call has returned OK has seen all ranks at work. Work on devices is complete later, in the
 * order of their queues: a device that is lost after the call has returned OK is reported by the
 * next wait for it, and then all parameters with elements in its portion are undefined on all
 * ranks.
 *
 * Once its memory has grown, a call of the same sizes allocates nothing.
 *
 * Errors besides those of every collective: INVALID_ARGUMENT (no rule, a table that is not as
 * described, tables that differ: the message names both ranks and the segment), UNSUPPORTED (the
 * dtype). */
muster_status mst_worker_all_reduce_apply(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply);

/* The same for one bucket, with the local segments in the last one; `undefined` is about the
 * bucket. */
muster_status mst_worker_apply_bucket(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                      int32_t bucket);

/* The phase SUM for one bucket, or for all. Every rank brings one vector of gradients. It writes no
 * parameter: `undefined` becomes false. A failure leaves the gradients in the portions of all ranks
 * undefined. */
muster_status mst_worker_apply_sum(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                   int32_t bucket);
/* The phase FINISH, after SUM has been made once for every bucket, with the same table. To enter it
 * is to agree, as in mst_worker_all_reduce_apply, whose promises about failures it gives. */
muster_status mst_worker_apply_finish(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply);
/* Calls apply->function for the sums of this rank's portion and for its local segments, as SUM of
 * all buckets would, without an exchange. */
muster_status mst_worker_apply_visit(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply);

#endif
