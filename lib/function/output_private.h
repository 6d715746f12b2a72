/* Outputs and updates, from where the body writes them to the caller's memory and the variables. */
#ifndef MST_OUTPUT_PRIVATE_H
#define MST_OUTPUT_PRIVATE_H

#include "call_private.h"

/* collect.c, on the worker, for the shard being run: reset; prepare outputs before the body;
 * accumulate after it; finish after the last slice (makes parts host-visible). */
void mst_outputs_reset(mst_call *call, muster_worker *worker);
muster_status mst_outputs_prepare(mst_call *call, muster_worker *worker, int64_t begin, int64_t end);
muster_status mst_outputs_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_outputs_finish(mst_call *call, muster_worker *worker);
/* Once per rank: large outputs are combined by all workers. */
muster_status mst_outputs_combine(mst_call *call, muster_worker *worker);
/* On the caller's thread, after the run: combines the other outputs. */
muster_status mst_outputs_collect(mst_call *call, const char *where);
/* Is the shard's value of this output copied from its device straight into the caller's memory?
 * (On a host device the body writes there.) */
bool mst_output_goes_to_caller(const mst_call *call, const mst_logical_shard *shard, int64_t output);

/* gather.c: the same for gathered outputs. */
muster_status mst_gather_prepare(mst_call *call, muster_worker *worker, int64_t output, int64_t begin, int64_t end);
muster_status mst_gather_finish(mst_call *call, muster_worker *worker, int64_t output);
muster_status mst_gather_collect(mst_call *call, int64_t output, const char *where);

/* update.c */
void mst_updates_reset(mst_call *call, muster_worker *worker);
void mst_updates_prepare(mst_call *call, muster_worker *worker);
muster_status mst_updates_accumulate(mst_call *call, muster_worker *worker);
muster_status mst_updates_finish(mst_call *call, muster_worker *worker);
void mst_updates_apply(mst_call *call);
/* One slice of one shard: what the body wrote is the rank's update. */
static inline bool mst_updates_need_no_sum(const mst_call *call) {
    return call->function->plan.slices == 1 && call->shard_count == call->size;
}

#endif
