/* Outputs and updates: from the memory that the body writes to the caller's memory and the
 * variables. */
#ifndef MST_OUTPUT_PRIVATE_H
#define MST_OUTPUT_PRIVATE_H

#include "call_private.h"

#include <float.h>

/* collect.c. These four run on the worker, for the shard that is being run: reset at the start,
 * prepare before each body, accumulate after each body, and finish after the last slice. Finish
 * makes the parts readable for the host. */
void mst_outputs_reset(mst_call *call, muster_worker *worker);
muster_status mst_outputs_prepare(mst_call *call, muster_worker *worker, int64_t begin, int64_t end);
muster_status mst_outputs_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_outputs_finish(mst_call *call, muster_worker *worker);
/* In place of accumulate, after a body without rows: the master's value is kept if it has no
 * rows. */
void mst_outputs_keep_master(mst_call *call, muster_worker *worker);
/* Runs once per rank: all workers combine the large outputs. */
muster_status mst_outputs_combine(mst_call *call, muster_worker *worker);
/* output_buffers.c. After all other outputs. */
muster_status mst_output_buffers_collect(mst_call *call, const char *where);
/* Runs on the caller's thread after the run: combines the other outputs. */
muster_status mst_outputs_collect(mst_call *call, const char *where);
/* Is the shard's value of this output copied from its device straight into the caller's memory? (On
 * a host device the body writes it there.) */
bool mst_output_goes_to_caller(const mst_call *call, const mst_logical_shard *shard, int64_t output);

/* Does the caller's tensor have a place for each row of a gathered output, if every shard gives one
 * row for each of its own? A process that sends its rows to process 0 has no such tensor. */
static inline bool mst_output_has_places(const mst_call *call, int64_t output) {
    const mst_plan *plan = &call->function->plan;
    const bool part = plan->parts[call->function->input_count + output];
    if (part && call->function->outputs[output].ways == MUSTER_TARGET_MASTER) return false;
    return plan->outputs[output].shape[0] == (part ? plan->own_rows : plan->count);
}

/* gather.c: the same steps for gathered outputs. */
muster_status mst_gather_prepare(mst_call *call, muster_worker *worker, int64_t output, int64_t begin, int64_t end);
muster_status mst_gather_finish(mst_call *call, muster_worker *worker, int64_t output);
void mst_gather_ignore(mst_call *call, muster_worker *worker); /* after a body without rows: its gathered rows */
muster_status mst_gather_collect(mst_call *call, int64_t output, const char *where);
/* The two halves of collect: counts the rows of this process, and those that bodies without rows
 * have given; places them from row `at` of the caller's tensor on. */
void mst_gather_count(const mst_call *call, int64_t output, int64_t *rows, int64_t *ignored);
/* Are there rows in the caller's tensor that are not where they belong, as far as this process
 * knows without the numbers of the others? */
bool mst_gather_may_move(const mst_call *call, int64_t output);
/* Are all rows of this process in the caller's tensor? */
bool mst_gather_all_direct(const mst_call *call, int64_t output);
muster_status mst_gather_put(mst_call *call, int64_t output, int64_t at, const char *where);
muster_status mst_gather_refuse(const mst_call *call, int64_t output, const char *where, int64_t total, int64_t ignored);

/* reduced.c: large outputs of GPUs, which the devices reduce to rank 0 by a collective. choose
 * decides, between runs, which outputs of this call those are. reserve makes room for one of them
 * on one rank; also a rank that contributes nothing takes part. run is called on every worker
 * after the last body of every rank. deliver is called on the caller's thread after the run. */
void mst_reduced_choose(const mst_call *call);
muster_status mst_reduced_reserve(const mst_call *call, int32_t rank, mst_part *part, int64_t output, const char *where);
muster_status mst_reduced_run(const mst_call *call, muster_worker *worker);
muster_status mst_reduced_deliver(const mst_call *call, int64_t output, const char *where);
/* For tests: unless it is negative, the threshold reduced_saved_bytes of every runtime. */
extern int64_t mst_reduced_saved_bytes_instead;
/* The devices reduce an output if that saves at least so many bytes of copies to the host. */
int64_t mst_reduced_saved_bytes(const mst_call *call);

/* collect.c. accumulator[0, count), in the compute dtype, = the combination of the elements from
 * `begin` on of this process's shards, in their order; false if no shard has any. */
bool mst_output_combine(const mst_call *call, int64_t output, void *accumulator, int64_t begin, int64_t count, double total);
muster_status mst_output_refuse_weights(const muster_function *function, const char *where, int64_t output, double total);
/* The weights of an average are of all shards of this process that contribute; 1 for
 * other outputs. The call is refused if the total is not valid. */
double mst_output_total_weight(const mst_call *call, int64_t output);
static inline bool mst_total_weight_is_valid(double total) { return total > 0 && total <= DBL_MAX; }

/* update.c */
void mst_updates_reset(mst_call *call, muster_worker *worker);
void mst_updates_prepare(mst_call *call, muster_worker *worker);
muster_status mst_updates_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_updates_finish(mst_call *call, muster_worker *worker);
void mst_updates_apply(mst_call *call);
/* With one slice and one shard per rank, the value that the body wrote is the rank's update. */
static inline bool mst_updates_need_no_sum(const mst_call *call) {
    return call->function->plan.slices == 1 && call->shard_count == call->size;
}

#endif
