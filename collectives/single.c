/* The communicator of one rank: every collective is a copy, or nothing. */
#include "group_impl.h"

static muster_status copy(muster_worker *worker, const char *name, const void *input, void *output, int64_t bytes) {
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, name, ++worker->sequence, bytes);
    muster_status status = input == output || bytes == 0 ? MUSTER_OK : worker->device->table->copy(worker->device, output, input, bytes);
    mst_record_end(&worker->recorder, event);
    return status;
}

static muster_status all_reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                                void *output, int64_t count) {
    (void)self, (void)op;
    return copy(worker, "all_reduce", input, output, count * muster_dtype_size(dtype));
}

static muster_status reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                            void *output_at_root, int64_t count, int32_t root) {
    (void)self, (void)op, (void)root;
    return copy(worker, "reduce", input, output_at_root, count * muster_dtype_size(dtype));
}

static muster_status broadcast(mst_communicator *self, muster_worker *worker, void *data, int64_t bytes, int32_t root) {
    (void)self, (void)root;
    return copy(worker, "broadcast", data, data, bytes);
}

static muster_status all_gather(mst_communicator *self, muster_worker *worker, muster_dtype dtype, const void *input, void *output,
                                const int64_t *counts) {
    (void)self;
    return copy(worker, "all_gather", input, output, counts[0] * muster_dtype_size(dtype));
}

static muster_status barrier(mst_communicator *self, muster_worker *worker) {
    (void)self;
    return copy(worker, "barrier", NULL, NULL, 0);
}

const mst_communicator_table mst_single_table = {"single", all_reduce, reduce, broadcast, all_gather, barrier, NULL};
