/* Outputs: where a body writes, how slices accumulate, and how the parts of the logical shards
 * become the caller's result. For an average a part holds the running mean of its slices,
 * otherwise the plain reduction. The result of an average is the sum over the shards of (weight /
 * total weight) * part. Nothing larger than a mean is ever formed, so an average cannot overflow.
 * Shards are combined strictly in their order, element by element: no bit depends on which rank
 * computed a shard, nor on how many ranks combine. Large outputs of GPUs are reduced by the devices
 * instead (reduced.c), but not in the reproducible mode. */
#include "output_private.h"
#include "place_private.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1024 }; /* elements combined at a time if the compute dtype differs from the stored one */

/* Does the body write this output straight into the caller's memory? Only where the worker has it
 * in place, as host devices have host memory, without slices, and if the output is contiguous. It
 * must also have one contributor; an output that takes the master's value is written by the first
 * shard whose body runs. */
static bool writes_directly(const mst_call *call, const muster_worker *worker, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    if (!mst_used_in_place(mst_output_place(call, i), worker->device, worker->rank) || plan->slices != 1 ||
        !mst_shard_gives(call, shard, i) || plan->forms[call->function->input_count + i] == MST_FORM_COPY || mst_call_is_joint(call))
        return false;
    return call->function->outputs[i].mode == MUSTER_MASTER || plan->contributors == 1;
}

void mst_outputs_reset(mst_call *call, muster_worker *worker) {
    mst_logical_shard *shard = mst_call_shard(call, worker);
    /* with one slice its value is the part, and nothing is accumulated */
    const bool single_slice = call->function->plan.slices == 1;
    for (int64_t i = 0; i < call->function->output_count; i++) {
        mst_part *part = &shard->parts[i];
        MST_SET(part->begun, single_slice);
        if (call->function->outputs[i].mode == MUSTER_GATHER) part->direct = false;
        MST_SET(part->rows, 0);
        MST_SET(part->ignored, 0);
        if (!single_slice) part->weight = 0;
    }
}

static void *output_address(const mst_call *call, int64_t i) { return call->function->plan.addresses[call->function->input_count + i]; }

/* Of a worker that addresses the caller's memory, also where host code cannot. */
static void *output_memory(const mst_call *call, int64_t i) {
    const mst_place *place = mst_output_place(call, i);
    return place ? muster_tensor_address(place->tensor) : output_address(call, i);
}

/* In a slice without rows the body writes into scratch memory: its outputs are ignored, and must
 * not overwrite the value of an earlier slice. */
static muster_status prepare_unused(muster_worker *worker, muster_tensor like, muster_tensor *view) {
    void *address;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, mst_tensor_bytes(like), &address));
    *view = muster_tensor_make(like.dtype, address, like.ndim, like.shape);
    view->device = worker->rank;
    return MUSTER_OK;
}

/* The master's value is that of its body, which runs without rows where all do. */
static bool master_runs_without_rows(const mst_call *call, const mst_logical_shard *shard, int64_t i) {
    return call->function->outputs[i].mode == MUSTER_MASTER && shard->rows == 0 && mst_shard_gives(call, shard, i);
}

static muster_status prepare_reduced(mst_call *call, muster_worker *worker, mst_rank *rank, int64_t i) {
    muster_tensor view = call->function->plan.outputs[i];
    mst_part *part = &rank->shard->parts[i];
    if (rank->body.rows == 0 && !call->function->counts_without_rows && !master_runs_without_rows(call, rank->shard, i))
        return prepare_unused(worker, view, &rank->out[i]);
    MST_SET(part->direct, writes_directly(call, worker, i));
    view.byte_offset = 0;
    view.device = worker->rank;
    view.data = output_memory(call, i);
    if (!part->direct) {
        MUSTER_TRY(mst_worker_store_reserve(worker, &part->value, mst_tensor_bytes(view)));
        view = muster_tensor_make(view.dtype, part->value.address, view.ndim, view.shape);
        view.device = worker->rank;
    } else if (__builtin_expect(call->function->plan.forms[call->function->input_count + i] != MST_FORM_SAME, 0)) {
        mst_tensor_set_strides(&view);
    }
    rank->out[i] = view;
    return MUSTER_OK;
}

muster_status mst_outputs_prepare(mst_call *call, muster_worker *worker, int64_t begin, int64_t end) {
    mst_rank *rank = mst_call_rank(call, worker);
    for (int64_t i = 0; i < call->function->output_count; i++) {
        if (!mst_wanted(&call->function->plan, i))
            rank->out[i] = muster_tensor_none();
        else if (call->function->outputs[i].mode == MUSTER_GATHER)
            MUSTER_TRY(mst_gather_prepare(call, worker, i, begin, end));
        else
            MUSTER_TRY(prepare_reduced(call, worker, rank, i));
    }
    return MUSTER_OK;
}

/* mean = (weight / total) * mean + (worker's weight / total) * value */
static muster_status accumulate_mean(muster_worker *worker, mst_part *part, muster_dtype dtype, int64_t count) {
    const double weight = mst_worker_rank(worker)->body.weight, total = part->weight + weight;
    const muster_dtype compute = mst_dtype_compute(dtype);
    void *mean = part->sum.address;
    if (!isfinite(total)) return mst_error(MUSTER_INVALID_ARGUMENT, "muster_function_call: the sum of the slices' weights overflows");
    if (part->begun) MUSTER_TRY(mst_worker_accumulate(worker, MUSTER_AVG, compute, mean, mean, count, part->weight / total, true));
    MUSTER_TRY(mst_worker_accumulate(worker, MUSTER_AVG, dtype, mean, part->value.address, count, weight / total, !part->begun));
    part->weight = total;
    return MUSTER_OK;
}

muster_status mst_part_accumulate(muster_worker *worker, mst_part *part, muster_collect_mode mode, muster_dtype dtype, int64_t count) {
    if (mode == MUSTER_AVG && mst_worker_rank(worker)->body.weight == 0) return MUSTER_OK; /* a slice of weight 0 may hold anything */
    /* A master output keeps the last slice's value, which is in part->value. */
    if (mode != MUSTER_MASTER) {
        MUSTER_TRY(mst_worker_store_reserve(worker, &part->sum, count * muster_dtype_size(mst_dtype_compute(dtype))));
        if (mode == MUSTER_AVG)
            MUSTER_TRY(accumulate_mean(worker, part, dtype, count));
        else
            MUSTER_TRY(mst_worker_accumulate(worker, mode, dtype, part->sum.address, part->value.address, count, 1, !part->begun));
    }
    part->begun = true;
    return MUSTER_OK;
}

muster_status mst_outputs_accumulate(mst_call *call, muster_worker *worker) {
    muster_function *function = call->function;
    const mst_rank *rank = mst_call_rank(call, worker);
    mst_logical_shard *shard = rank->shard;
    const bool single_slice = function->plan.slices == 1;
    for (int64_t i = 0; i < function->output_count; i++) {
        mst_part *part = &shard->parts[i];
        if (!mst_wanted(&function->plan, i)) continue;
        if (function->outputs[i].mode == MUSTER_GATHER)
            part->rows += part->pending;
        else if (single_slice)
            MST_SET(part->weight, rank->body.weight);
        else
            MUSTER_TRY(mst_part_accumulate(worker, part, function->outputs[i].mode, function->outputs[i].dtype,
                                           muster_tensor_count(function->plan.outputs[i])));
    }
    return MUSTER_OK;
}

void mst_outputs_keep_master(mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    mst_logical_shard *shard = mst_call_shard(call, worker);
    for (int64_t i = 0; i < function->output_count; i++)
        if (mst_wanted(&function->plan, i) && master_runs_without_rows(call, shard, i)) shard->parts[i].begun = true;
}

bool mst_output_goes_to_caller(const mst_call *call, const mst_logical_shard *shard, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    const muster_tensor output = plan->outputs[i];
    const bool gathered = call->function->outputs[i].mode == MUSTER_GATHER;
    if (!mst_tensor_contiguous(output) || !(gathered ? shard->contributes : mst_shard_gives(call, shard, i))) return false;
    const mst_place *place = mst_output_place(call, i);
    if (place && (place->access[mst_call_shard_number(call, shard) / mst_call_shards_per_rank(call)] == MST_ACCESS_BY_HOST ||
                  !mst_tensor_contiguous(place->tensor)))
        return false;
    if (gathered) return mst_output_has_places(call, i);
    return !mst_call_is_joint(call) && (call->function->outputs[i].mode == MUSTER_MASTER || plan->contributors == 1);
}

/* The one value that contributes is copied from its device to the caller, in the caller's dtype. */
static muster_status copy_to_caller(mst_call *call, muster_worker *worker, int64_t i, bool summed) {
    const muster_tensor output = call->function->plan.outputs[i];
    const muster_dtype compute = mst_dtype_compute(output.dtype);
    mst_part *part = &mst_call_shard(call, worker)->parts[i];
    const bool cast = summed && compute != output.dtype;
    if (cast)
        MUSTER_TRY(mst_worker_convert(worker, output.dtype, part->value.address, compute, part->sum.address, muster_tensor_count(output)));
    part->direct = true;
    const void *from = summed && !cast ? part->sum.address : part->value.address;
    if (mst_output_place(call, i))
        return worker->device->memory->copy(worker->device, output_memory(call, i), from, mst_tensor_bytes(output));
    return worker->device->memory->copy_out(worker->device, output_address(call, i), from, mst_tensor_bytes(output));
}

/* Makes the part visible to host code, which may read it after the worker's sync. */
static muster_status expose(mst_call *call, muster_worker *worker, int64_t i) {
    const muster_function *function = call->function;
    mst_part *part = &mst_call_shard(call, worker)->parts[i];
    if (part->direct || !part->begun || function->plan.reduced[i]) return MUSTER_OK;
    const bool summed = function->plan.slices > 1 && function->outputs[i].mode != MUSTER_MASTER;
    const mst_store *store = summed ? &part->sum : &part->value;
    MST_SET(part->dtype, summed ? mst_dtype_compute(function->outputs[i].dtype) : function->outputs[i].dtype);
    MST_SET(part->visible, store->address);
    if (mst_device_is_host(worker->device)) return MUSTER_OK;
    if (mst_output_goes_to_caller(call, mst_call_shard(call, worker), i)) return copy_to_caller(call, worker, i, summed);
    part->visible = part->host.address;
    return worker->device->memory->copy_out(worker->device, part->host.address, store->address,
                                            muster_tensor_count(function->plan.outputs[i]) * muster_dtype_size(part->dtype));
}

muster_status mst_outputs_finish(mst_call *call, muster_worker *worker) {
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    for (int64_t i = 0; i < call->function->output_count; i++) {
        if (!mst_wanted(&call->function->plan, i)) continue;
        if (call->function->outputs[i].mode == MUSTER_GATHER)
            MUSTER_TRY(mst_gather_finish(call, worker, i));
        else if (mst_shard_gives(call, shard, i))
            MUSTER_TRY(expose(call, worker, i));
    }
    return MUSTER_OK;
}

double mst_output_total_weight(const mst_call *call, int64_t i) {
    double total = 0;
    if (call->function->outputs[i].mode != MUSTER_AVG) return 1;
    for (int32_t s = 0; s < call->shard_count; s++)
        if (call->shards[s].contributes) total += call->shards[s].parts[i].weight;
    return total;
}

bool mst_output_combine(const mst_call *call, int64_t i, void *accumulator, int64_t begin, int64_t count, double total) {
    const muster_collect_mode mode = call->function->outputs[i].mode;
    bool first = true;
    for (int32_t s = 0; s < call->shard_count; s++) {
        const mst_logical_shard *shard = &call->shards[s];
        const mst_part *part = &shard->parts[i];
        if (!mst_shard_gives(call, shard, i) || !part->begun) continue;
        const double scale = mode == MUSTER_AVG ? part->weight / total : 1;
        if (scale == 0) continue;
        const char *values = (const char *)part->visible + begin * muster_dtype_size(part->dtype);
        mst_reduction_accumulate(mode == MUSTER_MASTER ? MUSTER_MAX : mode, part->dtype, accumulator, values, count, scale, first);
        first = false;
    }
    return !first;
}

/* Elements [begin, end) of the result, contiguous at `result`. */
static void combine_range(const mst_call *call, int64_t i, void *result, int64_t begin, int64_t end, double total) {
    const muster_dtype dtype = call->function->outputs[i].dtype, compute = mst_dtype_compute(dtype);
    const muster_reduction op = call->function->outputs[i].mode == MUSTER_MASTER ? MUSTER_MAX : call->function->outputs[i].mode;
    char *target = (char *)result + begin * muster_dtype_size(dtype);
    if (compute == dtype) {
        if (!mst_output_combine(call, i, target, begin, end - begin, total)) mst_reduction_identity(op, dtype, target, end - begin);
        return;
    }
    float chunk[CHUNK];
    for (int64_t at = begin; at < end; at += CHUNK) {
        const int64_t count = end - at < CHUNK ? end - at : CHUNK;
        if (!mst_output_combine(call, i, chunk, at, count, total)) mst_reduction_identity(op, compute, chunk, count);
        mst_convert(dtype, (char *)result + at * muster_dtype_size(dtype), compute, chunk, count);
    }
}

static bool is_parallel(const mst_call *call, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    return plan->parallel && call->function->outputs[i].mode < MUSTER_GATHER && mst_wanted(plan, i) &&
           mst_tensor_contiguous(plan->outputs[i]) && !mst_output_place(call, i) && !plan->reduced[i];
}

static bool any_is_parallel(const mst_call *call) {
    for (int64_t i = 0; i < call->function->output_count; i++)
        if (is_parallel(call, i)) return true;
    return false;
}

muster_status mst_outputs_combine(mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    if (!function->plan.parallel && !function->plan.reduces) return MUSTER_OK;
    if (!mst_device_is_host(worker->device) && any_is_parallel(call)) MUSTER_TRY(mst_worker_sync(worker));
    mst_worker_last_rendezvous(worker);
    MUSTER_TRY(mst_worker_collective(worker, (mst_request){.collective = MST_END_OF_BODY, .root = -1}));
    if (function->plan.reduces) MUSTER_TRY(mst_reduced_run(call, worker));
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!is_parallel(call, i)) continue;
        const int64_t count = muster_tensor_count(function->plan.outputs[i]);
        const double total = mst_output_total_weight(call, i);
        if (!mst_total_weight_is_valid(total)) continue; /* mst_outputs_collect refuses it */
        combine_range(call, i, output_address(call, i), mst_edge(count, call->size, worker->rank),
                      mst_edge(count, call->size, worker->rank + 1), total);
    }
    return MUSTER_OK;
}

static bool all_direct(const mst_call *call, int64_t i) {
    for (int32_t s = 0; s < call->shard_count; s++)
        if (mst_shard_gives(call, &call->shards[s], i)) return call->shards[s].parts[i].direct;
    return false;
}

__attribute__((cold)) muster_status mst_output_refuse_weights(const muster_function *function, const char *where, int64_t i, double total) {
    if (!isfinite(total))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: output '%s' of function '%s': the sum of the workers' weights overflows", where,
                         function->outputs[i].name, mst_function_name(function));
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: output '%s' of function '%s': the weights of all workers are 0: there is nothing to average", where,
                     function->outputs[i].name, mst_function_name(function));
}

/* The usual case on one device: the body has written the value to its place. */
static inline bool is_collected(const mst_call *call, int64_t i) {
    const mst_logical_shard *shard = call->shards;
    const mst_part *part = &shard->parts[i];
    const bool averaged = call->function->outputs[i].mode == MUSTER_AVG;
    return call->shard_count == 1 && shard->contributes && part->direct && (!averaged || (part->weight > 0 && part->weight <= DBL_MAX));
}

/* noinline: what is_collected says no to is rare on one device, and long. */
static __attribute__((noinline)) muster_status collect_reduced(mst_call *call, int64_t i, const char *where) {
    muster_function *function = call->function;
    const double total = mst_output_total_weight(call, i);
    if (__builtin_expect(!mst_total_weight_is_valid(total), 0)) return mst_output_refuse_weights(function, where, i, total);
    if (function->plan.reduced[i]) return mst_reduced_deliver(call, i, where);
    if (all_direct(call, i) || is_parallel(call, i)) return MUSTER_OK;
    const bool placed = mst_output_place(call, i);
    if (placed) MUSTER_TRY(mst_place_reserve(call, i, where));
    muster_tensor target = function->plan.outputs[i];
    target.data = output_address(call, i);
    target.byte_offset = 0;
    const int64_t count = muster_tensor_count(target);
    if (mst_tensor_contiguous(target)) {
        combine_range(call, i, target.data, 0, count, total);
        return placed ? mst_place_deliver(call, i, 0, muster_tensor_rows(target), where) : MUSTER_OK;
    }
    MUSTER_TRY(mst_host_store_reserve(&function->results[i], mst_tensor_bytes(target), where));
    combine_range(call, i, function->results[i].address, 0, count, total);
    mst_tensor_unpack(target, function->results[i].address);
    return MUSTER_OK;
}

muster_status mst_outputs_collect(mst_call *call, const char *where) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_wanted(&function->plan, i)) continue;
        if (mst_output_is_buffered(&function->plan, i)) continue;
        if (function->outputs[i].mode == MUSTER_GATHER)
            MUSTER_TRY(mst_gather_collect(call, i, where));
        else if (!is_collected(call, i))
            MUSTER_TRY(collect_reduced(call, i, where));
    }
    return __builtin_expect(function->plan.buffers != NULL, 0) ? mst_output_buffers_collect(call, where) : MUSTER_OK;
}
