/* What the two halves of outputs of several processes share: process_blocks.c, before the end
 * round, and process_outputs.c, after it. */
#ifndef MST_PROCESS_OUTPUTS_PRIVATE_H
#define MST_PROCESS_OUTPUTS_PRIVATE_H

#include "output_private.h"
#include "processes_private.h"

enum { MST_OUTPUT_CHUNK_BYTES = 4 << 20 }; /* of the values of all shards that travel at a time */

static inline bool mst_outputs_are_reproducible(const mst_call *call) { return call->shards_each > 0; }

static inline const mst_port *mst_output_port(const mst_call *call, int64_t i) { return &call->function->outputs[i]; }

static inline int64_t mst_output_elements(const mst_call *call, int64_t i) { return muster_tensor_count(call->function->plan.outputs[i]); }

/* The dtype in which values travel: partial values as they are combined, those of shards as the
 * body or its slices have left them. */
static inline muster_dtype mst_output_travels(const mst_call *call, int64_t i) {
    const mst_port *port = mst_output_port(call, i);
    const bool summed = call->function->plan.slices > 1 && port->mode != MUSTER_MASTER;
    return mst_outputs_are_reproducible(call) && port->mode != MUSTER_MASTER && !summed
               ? port->dtype
               : mst_dtype_compute(port->dtype); /* expose of collect.c */
}

/* Does a process send a value for each of its shards, instead of one? */
static inline bool mst_output_by_shards(const mst_call *call, int64_t i) {
    return mst_outputs_are_reproducible(call) && mst_output_port(call, i)->mode != MUSTER_MASTER;
}

static inline int64_t mst_output_value_bytes(const mst_call *call, int64_t i) {
    return mst_output_elements(call, i) * muster_dtype_size(mst_output_travels(call, i));
}

/* How many elements of the output travel at a time where the values of all shards travel. */
static inline int64_t mst_output_chunk(const mst_call *call, int64_t i) {
    const int64_t fits = MST_OUTPUT_CHUNK_BYTES / muster_dtype_size(mst_output_travels(call, i)) / call->total_shards;
    return fits > 64 ? fits : 64;
}

/* Does this process get the output? Process 0 alone has some. */
static inline bool mst_output_is_had(const mst_call *call, int64_t i) {
    return mst_output_port(call, i)->ways != MUSTER_TARGET_MASTER || call->function->object.runtime->nodes->process == 0;
}

/* Is the caller's tensor host memory in which the elements lie one behind the other? */
bool mst_output_is_plain(const mst_call *call, int64_t i);

/* Has the shard a value of it? */
bool mst_output_gives(const mst_call *call, int32_t s, int64_t i);
/* Of a single call: the output as it was passed; its bytes in the block; a copy between it and
 * contiguous host memory. */
int64_t mst_single_output_bytes(const mst_call *call, int64_t i);
muster_status mst_single_output_copy(const mst_call *call, int64_t i, void *packed, bool to_caller, const char *where);

#endif
