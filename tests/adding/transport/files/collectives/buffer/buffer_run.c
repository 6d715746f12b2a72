/* Serves a batch from copies of the inputs in the members' buffers. */
#include "buffer_private.h"

/* snippet: prepare */
muster_status mst_buffer_prepare(mst_batch *batch) {
    mst_staging *buffer = &mst_buffer_members(batch->communicator)[batch->rank].buffer;
    int64_t copies = 0;
    for (int32_t i = 0; i < batch->count; i++) copies += mst_staging_bytes(mst_request_input_bytes(&batch->requests[i]));
    if (copies > 0) MUSTER_TRY(mst_staging_begin(buffer, copies));
    for (int32_t i = 0; i < batch->count; i++) {
        const int64_t bytes = mst_request_input_bytes(&batch->requests[i]);
        if (bytes == 0) continue;
        void *copy = mst_staging_take(buffer, bytes);
        memcpy(copy, batch->requests[i].input, (size_t)bytes);
        batch->offered[i].input = copy;
    }
    return MUSTER_OK;
}
/* end of snippet */

/* snippet: run */
/* The algorithm `inline` reads nothing but the copies. The size of a slot limits it only in the
 * transport `host`. */
muster_status mst_buffer_run(const mst_batch *batch) {
    for (int32_t i = 0; i < batch->count; i++) {
        mst_view view = mst_batch_view(batch, i);
        const mst_collective collective = mst_view_own(&view)->collective;
        view.chunk = mst_buffer_members(batch->communicator)[batch->rank].chunk;
        if (mst_algorithm_inline.run[collective]) mst_algorithm_inline.run[collective](&view); /* a barrier has nothing to do */
    }
    return MUSTER_OK;
}
/* end of snippet */
