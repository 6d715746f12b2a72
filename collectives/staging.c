/* Collectives over devices of any kind: memory that host code cannot read is copied to the rank's bounce memory, the host collective runs there
 * in place, and the result is copied back. Ranks with host memory take part directly. */
#include "group_impl.h"

static muster_status bounce_memory(mst_group *group, muster_worker *worker, int64_t bytes, void **address) {
    mst_rank_memory *memory = &group->ranks[worker->rank];
    if (bytes > memory->bounce_capacity || !memory->bounce) {
        void *grown = mst_alloc_uninitialised((size_t)bytes);
        if (!grown) return mst_out_of_memory("collective: host memory for staging", bytes);
        mst_free(memory->bounce);
        memory->bounce = grown;
        memory->bounce_capacity = bytes;
    }
    *address = memory->bounce;
    return MUSTER_OK;
}

/* Both complete on return: the peers read and write the bounce memory. */
static muster_status stage_out(muster_worker *worker, void *to_host, const void *from_device, int64_t bytes) {
    MUSTER_TRY(worker->device->table->copy_out(worker->device, to_host, from_device, bytes));
    return worker->device->table->sync(worker->device);
}

static muster_status stage_in(muster_worker *worker, void *to_device, const void *from_host, int64_t bytes) {
    MUSTER_TRY(worker->device->table->copy_in(worker->device, to_device, from_host, bytes));
    return worker->device->table->sync(worker->device);
}

static muster_status all_reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                                void *output, int64_t count) {
    if (mst_device_is_host(worker->device)) return mst_host_table.all_reduce(self, worker, op, dtype, input, output, count);
    int64_t bytes = count * muster_dtype_size(dtype);
    void *bounce;
    MUSTER_TRY(bounce_memory(mst_group_of(self), worker, bytes, &bounce));
    MUSTER_TRY(stage_out(worker, bounce, input, bytes));
    MUSTER_TRY(mst_host_table.all_reduce(self, worker, op, dtype, bounce, bounce, count));
    return stage_in(worker, output, bounce, bytes);
}

static muster_status reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                            void *output_at_root, int64_t count, int32_t root) {
    if (mst_device_is_host(worker->device)) return mst_host_table.reduce(self, worker, op, dtype, input, output_at_root, count, root);
    int64_t bytes = count * muster_dtype_size(dtype);
    void *bounce;
    MUSTER_TRY(bounce_memory(mst_group_of(self), worker, bytes, &bounce));
    MUSTER_TRY(stage_out(worker, bounce, input, bytes));
    MUSTER_TRY(mst_host_table.reduce(self, worker, op, dtype, bounce, bounce, count, root));
    return worker->rank == root ? stage_in(worker, output_at_root, bounce, bytes) : MUSTER_OK;
}

static muster_status broadcast(mst_communicator *self, muster_worker *worker, void *data, int64_t bytes, int32_t root) {
    if (mst_device_is_host(worker->device)) return mst_host_table.broadcast(self, worker, data, bytes, root);
    void *bounce;
    MUSTER_TRY(bounce_memory(mst_group_of(self), worker, bytes, &bounce));
    if (worker->rank == root) MUSTER_TRY(stage_out(worker, bounce, data, bytes));
    MUSTER_TRY(mst_host_table.broadcast(self, worker, bounce, bytes, root));
    return worker->rank == root ? MUSTER_OK : stage_in(worker, data, bounce, bytes);
}

static muster_status all_gather(mst_communicator *self, muster_worker *worker, muster_dtype dtype, const void *input, void *output,
                                const int64_t *counts) {
    if (mst_device_is_host(worker->device)) return mst_host_table.all_gather(self, worker, dtype, input, output, counts);
    int64_t element = muster_dtype_size(dtype), before = 0, total = 0;
    for (int32_t r = 0; r < self->size; r++) {
        if (r < worker->rank) before += counts[r];
        total += counts[r];
    }
    void *bounce;
    MUSTER_TRY(bounce_memory(mst_group_of(self), worker, total * element, &bounce));
    char *own = (char *)bounce + before * element;
    MUSTER_TRY(stage_out(worker, own, input, counts[worker->rank] * element));
    MUSTER_TRY(mst_host_table.all_gather(self, worker, dtype, own, bounce, counts));
    return stage_in(worker, output, bounce, total * element);
}

static muster_status barrier(mst_communicator *self, muster_worker *worker) { return mst_host_table.barrier(self, worker); }

static muster_status reserve(mst_communicator *self, muster_worker *worker, int64_t bytes) {
    void *bounce;
    return mst_device_is_host(worker->device) ? MUSTER_OK : bounce_memory(mst_group_of(self), worker, bytes, &bounce);
}

const mst_communicator_table mst_staged_table = {"staged", all_reduce, reduce, broadcast, all_gather, barrier, reserve};
