/* Large outputs of GPUs, which the devices reduce before one copy to the host. Each rank has a
 * contribution in the memory of its device: its part; for an average its part times (weight /
 * total weight); without rows the identity. A collective reduces them to rank 0, between peers or
 * by NCCL. Rank 0 copies the result to host memory of the library. Only after every worker has
 * succeeded does the caller's thread write to the caller's memory, so that a failed call leaves
 * such an output as it was. An output on a device is copied between the devices and never enters
 * host memory, if the devices have access.
 *
 * Without this, the host folds: every device copies its part to the host, which combines all
 * parts (collect.c). The weights of an average need no collective of their own. Every worker has
 * left its weight in its part before the rendezvous at the end of the bodies, and adds up all of
 * them after it. The sum has the order of the ranks, so all ranks scale by the same total. */
#include "output_private.h"
#include "place_private.h"
#include "tensors_impl.h"

#include <string.h>

/* When does it pay? For an output of B bytes on N contributing devices the fold copies N * B bytes
 * over PCIe, and the host reads all of them; the devices copy B bytes. So (N - 1) * B bytes are
 * saved. In exchange there are a rendezvous, a collective, and up to three kernels on each device,
 * whose time hardly depends on B. Until hardware has measured that time, the table of thresholds
 * has 256 KiB for it: the bytes that a host which reads 10 GB/s of copies takes in 26 us. The right
 * value is the size from which a call with the threshold at 0 is faster than one with it at
 * INT64_MAX (tests/gpu/test_gpu_measure.c). */
int64_t mst_reduced_saved_bytes_instead = -1;

int64_t mst_reduced_saved_bytes(const mst_call *call) {
    if (mst_reduced_saved_bytes_instead >= 0) return mst_reduced_saved_bytes_instead;
    return call->function->object.runtime->communicator->thresholds.reduced_saved_bytes;
}

/* What the ranks reduce: the accumulated slices, in the compute dtype, or the values of one
 * slice. An average of one slice is scaled in the compute dtype. */
typedef struct contribution {
    muster_dtype dtype;
    bool in_sum; /* at part->sum, else at part->value */
} contribution;

static contribution contribution_of(const mst_call *call, int64_t i) {
    const muster_function *function = call->function;
    const muster_dtype dtype = function->outputs[i].dtype, compute = mst_dtype_compute(dtype);
    const bool widened = function->outputs[i].mode == MUSTER_AVG && compute != dtype;
    if (function->plan.slices > 1 || widened) return (contribution){compute, true};
    return (contribution){dtype, false};
}

static void *contribution_address(const mst_part *part, contribution c) { return c.in_sum ? part->sum.address : part->value.address; }

/* The result on rank 0, in the dtype of the output. */
static void *result_address(const mst_call *call, int64_t i) {
    const mst_part *part = &call->shards[0].parts[i];
    const contribution c = contribution_of(call, i);
    return c.dtype == call->function->outputs[i].dtype ? contribution_address(part, c) : part->value.address;
}

static mst_request reduction_request(const mst_call *call, int64_t i, void *address, bool root) {
    const contribution c = contribution_of(call, i);
    const muster_collect_mode mode = call->function->outputs[i].mode;
    const int64_t count = muster_tensor_count(call->function->plan.outputs[i]);
    return (mst_request){.collective = MST_REDUCE,
                         .reduction = (uint8_t)(mode == MUSTER_AVG ? MUSTER_SUM : mode),
                         .dtype = (uint8_t)c.dtype,
                         .input = address,
                         .input_count = count,
                         .output = root ? address : NULL,
                         .output_count = root ? count : 0};
}

/* ---- between runs ---- */

static bool saves_enough(const mst_call *call, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    const int64_t bytes = mst_tensor_bytes(plan->outputs[i]), others = plan->contributors - 1, saved = mst_reduced_saved_bytes(call);
    return bytes > 0 && others > 0 && bytes >= saved / others + (saved % others != 0);
}

/* In the reproducible mode the host folds, in the order of the logical shards. */
static bool is_reduced(const mst_call *call, int64_t i) {
    const muster_function *function = call->function;
    char any_address;
    if (call->shards_each || !mst_wanted(&function->plan, i) || function->outputs[i].mode >= MUSTER_GATHER || !saves_enough(call, i))
        return false;
    const mst_request request = reduction_request(call, i, &any_address, true);
    return mst_communicator_serves_in_place(function->object.runtime->communicator, &request);
}

void mst_reduced_choose(const mst_call *call) {
    mst_plan *plan = &call->function->plan;
    plan->reduces = false;
    if (mst_call_is_joint(call)) {
        memset(plan->reduced, 0, (size_t)call->function->output_count * sizeof *plan->reduced);
        return;
    }
    for (int64_t i = 0; i < call->function->output_count; i++) {
        plan->reduced[i] = is_reduced(call, i);
        plan->reduces |= plan->reduced[i];
    }
}

muster_status mst_reduced_reserve(const mst_call *call, int32_t rank, mst_part *part, int64_t i, const char *where) {
    const muster_tensor output = call->function->plan.outputs[i];
    mst_device *device = call->function->object.runtime->devices[rank];
    const contribution c = contribution_of(call, i);
    MUSTER_TRY(mst_device_store_reserve(device, &part->value, mst_tensor_bytes(output)));
    if (c.in_sum) MUSTER_TRY(mst_device_store_reserve(device, &part->sum, muster_tensor_count(output) * muster_dtype_size(c.dtype)));
    if (rank != 0 || mst_output_place(call, i)) return MUSTER_OK;
    return mst_locked_store_reserve(device, &part->host, mst_tensor_bytes(output), where);
}

/* ---- on the workers ---- */

static muster_status weigh(const mst_call *call, muster_worker *worker, const mst_part *part, int64_t i, bool contributes) {
    const muster_function *function = call->function;
    const bool summed = function->plan.slices > 1;
    const muster_dtype dtype = summed ? mst_dtype_compute(function->outputs[i].dtype) : function->outputs[i].dtype;
    const double scale = contributes && part->begun ? part->weight / mst_output_total_weight(call, i) : 0;
    return mst_worker_weigh(worker, dtype, contribution_address(part, contribution_of(call, i)),
                            summed ? part->sum.address : part->value.address, muster_tensor_count(function->plan.outputs[i]), scale);
}

static muster_status contribute(const mst_call *call, muster_worker *worker, int64_t i) {
    const muster_function *function = call->function;
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    const mst_part *part = &shard->parts[i];
    const contribution c = contribution_of(call, i);
    const muster_collect_mode mode = function->outputs[i].mode;
    if (mode == MUSTER_AVG) return weigh(call, worker, part, i, shard->contributes);
    if (shard->contributes) return MUSTER_OK;
    const muster_tensor output = function->plan.outputs[i];
    muster_tensor identity = muster_tensor_make(c.dtype, contribution_address(part, c), output.ndim, output.shape);
    identity.device = worker->rank;
    return muster_fill(worker, mst_reduction_identity_number(mode, c.dtype), identity);
}

static muster_status take_result(const mst_call *call, muster_worker *worker, int64_t i) {
    const muster_tensor output = call->function->plan.outputs[i];
    mst_part *part = &call->shards[0].parts[i];
    const contribution c = contribution_of(call, i);
    if (c.dtype != output.dtype)
        MUSTER_TRY(mst_worker_convert(worker, output.dtype, part->value.address, c.dtype, part->sum.address, muster_tensor_count(output)));
    if (mst_output_place(call, i)) return MUSTER_OK;
    return worker->device->memory->copy_out(worker->device, part->host.address, result_address(call, i), mst_tensor_bytes(output));
}

static muster_status reduce_output(const mst_call *call, muster_worker *worker, int64_t i) {
    const mst_part *part = &mst_call_shard(call, worker)->parts[i];
    const bool root = worker->rank == 0;
    MUSTER_TRY(contribute(call, worker, i));
    MUSTER_TRY(mst_worker_collective(worker, reduction_request(call, i, contribution_address(part, contribution_of(call, i)), root)));
    return root ? take_result(call, worker, i) : MUSTER_OK;
}

static muster_status explain_failure(const muster_function *function, int64_t i, muster_status status) {
    char reason[MST_MESSAGE_SIZE];
    if (status == MUSTER_OK || status == MUSTER_ABORTED || status == MUSTER_CANCELLED) return status;
    mst_error_save(reason);
    return mst_error(status, "function '%s': the devices reduce output '%s': %.800s", mst_function_name(function),
                     function->outputs[i].name, reason);
}

muster_status mst_reduced_run(const mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!function->plan.reduced[i]) continue;
        if (!mst_total_weight_is_valid(mst_output_total_weight(call, i))) continue; /* mst_outputs_collect refuses it */
        MUSTER_TRY(explain_failure(function, i, reduce_output(call, worker, i)));
    }
    return MUSTER_OK;
}

/* ---- after the run ---- */

muster_status mst_reduced_deliver(const mst_call *call, int64_t i, const char *where) {
    const muster_function *function = call->function;
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = function->plan.outputs[i];
    if (place) {
        muster_tensor result = muster_tensor_make(target.dtype, result_address(call, i), target.ndim, target.shape);
        result.device = 0;
        return mst_runtime_copy_placed(function->object.runtime, result, place->tensor, where);
    }
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    mst_tensor_unpack(target, call->shards[0].parts[i].host.address);
    return MUSTER_OK;
}
