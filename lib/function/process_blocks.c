/* Outputs of a call that several processes make, before the end round: what each process gives to
 * all in it, and the memory for all that follows it. The round tells who lacks memory: behind it a
 * process that gave up would leave the others waiting for its data. */
#include "place_private.h"
#include "process_outputs_private.h"
#include "tensors_impl.h"

#include <string.h>

/* Room for the values that one process sends. */
static int32_t values_of(const mst_call *call, int64_t i) {
    return mst_output_by_shards(call, i) ? call->function->processes->most_shards : 1;
}

/* ---- the block ---- */

int64_t mst_processes_block_bytes(const mst_call *call) {
    muster_function *function = call->function;
    int64_t bytes = 0;
    for (int64_t i = 0; i < function->output_count; i++) {
        mst_block_slot *slot = &function->processes->slots[i];
        if (!mst_wanted(&function->plan, i)) continue;
        const bool gathered = mst_output_port(call, i)->mode == MUSTER_GATHER;
        slot->weights = bytes;
        slot->values = -1;
        bytes += (gathered ? 2 : values_of(call, i)) * (int64_t)sizeof(double);
        if (gathered) continue;
        const int64_t values = mst_output_value_bytes(call, i);
        if (values > MST_BLOCK_BYTES || bytes + values_of(call, i) * values > MST_BLOCK_BYTES) continue;
        slot->values = bytes;
        bytes += (values_of(call, i) * values + 7) / 8 * 8;
    }
    return bytes;
}

bool mst_output_gives(const mst_call *call, int32_t s, int64_t i) {
    return mst_shard_gives(call, &call->shards[s], i) && call->shards[s].parts[i].begun;
}

/* Of an average the weight, else whether there is a value. */
static double weight_of(const mst_call *call, int32_t s, int64_t i) {
    if (!mst_output_gives(call, s, i)) return 0;
    return mst_output_port(call, i)->mode == MUSTER_AVG ? call->shards[s].parts[i].weight : 1;
}

static void make_partial(mst_call *call, int64_t i, double *weight) {
    const int64_t count = mst_output_elements(call, i),
                  bytes = count * muster_dtype_size(mst_dtype_compute(mst_output_port(call, i)->dtype));
    void *partial = call->function->processes->partials[i].address;
    const bool averaged = mst_output_port(call, i)->mode == MUSTER_AVG;
    *weight = 0;
    for (int32_t s = 0; s < call->shard_count; s++) {
        const double one = weight_of(call, s, i);
        *weight = averaged ? *weight + one : *weight > one ? *weight : one;
    }
    if (averaged && !mst_total_weight_is_valid(*weight)) {
        memset(partial, 0, (size_t)bytes);
        return;
    }
    const muster_reduction op = mst_output_port(call, i)->mode == MUSTER_MASTER ? MUSTER_MAX : mst_output_port(call, i)->mode;
    if (!mst_output_combine(call, i, partial, 0, count, *weight))
        mst_nodes_neutral(op, mst_dtype_compute(mst_output_port(call, i)->dtype), partial, count);
}

static void put_shards(const mst_call *call, int64_t i, char *block) {
    const mst_block_slot *slot = &call->function->processes->slots[i];
    const int64_t bytes = mst_output_value_bytes(call, i);
    for (int32_t s = 0; s < call->shard_count; s++) {
        ((double *)(block + slot->weights))[s] = weight_of(call, s, i);
        if (slot->values >= 0 && mst_output_gives(call, s, i))
            memcpy(block + slot->values + s * bytes, call->shards[s].parts[i].visible, (size_t)bytes);
    }
}

static muster_status put_rows(const mst_call *call, const char *where, int64_t i, int64_t rows[2]) {
    const muster_tensor output = call->function->plan.outputs[i];
    mst_gather_count(call, i, &rows[0], &rows[1]);
    if (!call->function->plan.parts[call->function->input_count + i]) return MUSTER_OK;
    if (mst_output_port(call, i)->ways == MUSTER_TARGET_OWN && rows[0] != output.shape[0])
        return mst_gather_refuse(call, i, where, rows[0], rows[1]);
    return MUSTER_OK;
}

bool mst_output_is_plain(const mst_call *call, int64_t i) {
    return !mst_output_place(call, i) && mst_tensor_contiguous(call->function->plan.outputs[i]);
}

/* What is copied to a device behind the end round, and rows that move because others than planned
 * have come, can fail there. */
static bool ends_late(const mst_call *call, int64_t i) {
    if (!mst_output_is_had(call, i)) return false;
    const bool gathered = mst_output_port(call, i)->mode == MUSTER_GATHER;
    if (gathered && mst_gather_may_move(call, i)) return true;
    const bool alone = gathered && mst_output_port(call, i)->ways == MUSTER_TARGET_OWN; /* no rows of others come */
    return mst_output_place(call, i) && !(alone && mst_gather_all_direct(call, i));
}

/* Memory for what becomes of the output behind the end round. */
static muster_status reserve_rows(mst_call *call, const char *where, int64_t i, int64_t own_rows) {
    mst_processes_state *processes = call->function->processes;
    const muster_tensor output = call->function->plan.outputs[i];
    const int64_t index = call->function->input_count + i, row_bytes = mst_row_bytes(output);
    const int32_t target = mst_output_port(call, i)->ways;
    if (!mst_output_is_had(call, i)) return mst_host_store_reserve(&processes->received[index], own_rows * row_bytes + 1, where);
    if (target == MUSTER_TARGET_OWN || mst_output_is_plain(call, i)) return MUSTER_OK;
    return mst_host_store_reserve(&processes->gathered, output.shape[0] * row_bytes + 1, where);
}

static muster_status reserve_reduced(mst_call *call, const char *where, int64_t i) {
    muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    const int64_t count = mst_output_elements(call, i);
    const muster_dtype dtype = mst_output_port(call, i)->dtype;
    MUSTER_TRY(mst_host_store_reserve(&processes->partials[i], count * muster_dtype_size(mst_dtype_compute(dtype)) + 1, where));
    if (mst_output_by_shards(call, i) && processes->slots[i].values < 0)
        MUSTER_TRY(mst_host_store_reserve(
            &processes->gathered, mst_output_chunk(call, i) * muster_dtype_size(mst_output_travels(call, i)) * call->total_shards, where));
    if (!mst_output_is_had(call, i) || mst_output_is_plain(call, i)) return MUSTER_OK;
    return mst_host_store_reserve(&function->results[i], count * muster_dtype_size(dtype) + 1, where);
}

static muster_status put_output(mst_call *call, const char *where, int64_t i, char *block) {
    const mst_processes_state *processes = call->function->processes;
    const mst_block_slot *slot = &processes->slots[i];
    if (mst_output_port(call, i)->mode == MUSTER_GATHER) {
        int64_t *rows = (int64_t *)(block + slot->weights);
        MUSTER_TRY(put_rows(call, where, i, rows));
        return reserve_rows(call, where, i, rows[0]);
    }
    MUSTER_TRY(reserve_reduced(call, where, i));
    if (mst_output_by_shards(call, i)) {
        put_shards(call, i, block);
        return MUSTER_OK;
    }
    make_partial(call, i, (double *)(block + slot->weights));
    if (slot->values >= 0) memcpy(block + slot->values, processes->partials[i].address, (size_t)mst_output_value_bytes(call, i));
    return MUSTER_OK;
}

/* The memory of this process's block, and where it is. Its head and `cleared` bytes behind it are
 * zeros. */
static muster_status open_block(mst_call *call, const char *where, int64_t bytes, int64_t cleared, mst_block_head **head) {
    mst_processes_state *processes = call->function->processes;
    MUSTER_TRY(mst_host_store_reserve(&processes->block, (int64_t)sizeof **head + bytes, where));
    *head = processes->block.address;
    memset(*head, 0, sizeof **head + (size_t)cleared);
    return MUSTER_OK;
}

muster_status mst_processes_make_block(mst_call *call, const char *where) {
    muster_function *function = call->function;
    const int64_t bytes = mst_processes_block_bytes(call);
    mst_block_head *head;
    MUSTER_TRY(open_block(call, where, bytes, bytes, &head));
    MUSTER_TRY(mst_host_store_reserve(&function->processes->blocks, function->object.runtime->nodes->processes * bytes + 1, where));
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_wanted(&function->plan, i)) continue;
        MUSTER_TRY(put_output(call, where, i, (char *)(head + 1)));
        head->ends_late |= ends_late(call, i);
    }
    return MUSTER_OK;
}

/* ---- single calls ---- */

static muster_tensor single_target(const mst_call *call, int64_t i) {
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = place ? place->tensor : call->function->plan.outputs[i];
    if (place) return target;
    target.data = call->function->plan.addresses[call->function->input_count + i];
    target.byte_offset = 0;
    return target;
}

muster_status mst_single_output_copy(const mst_call *call, int64_t i, void *packed, bool to_caller, const char *where) {
    const muster_tensor target = single_target(call, i), source = muster_tensor_make(target.dtype, packed, target.ndim, target.shape);
    if (mst_output_place(call, i))
        return mst_runtime_copy_placed(call->function->object.runtime, to_caller ? source : target, to_caller ? target : source, where);
    if (to_caller)
        mst_tensor_unpack(target, packed);
    else
        mst_tensor_pack(packed, target);
    return MUSTER_OK;
}

int64_t mst_single_output_bytes(const mst_call *call, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    return mst_wanted(plan, i) ? (mst_tensor_bytes(plan->outputs[i]) + 7) / 8 * 8 : 0;
}

int64_t mst_processes_single_bytes(const mst_call *call) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < call->function->output_count; i++) bytes += mst_single_output_bytes(call, i);
    return bytes;
}

/* Process 0 gives its outputs; the others make room for them. */
muster_status mst_processes_make_single_block(mst_call *call, const char *where) {
    const bool master = call->function->object.runtime->nodes->process == 0;
    const int64_t bytes = mst_processes_single_bytes(call);
    mst_block_head *head;
    /* What is too large for the end round is written as a whole before anything reads it. */
    MUSTER_TRY(open_block(call, where, bytes, bytes <= MST_BLOCK_BYTES ? bytes : 0, &head));
    char *at = (char *)(head + 1);
    for (int64_t i = 0; i < call->function->output_count; at += mst_single_output_bytes(call, i), i++) {
        if (!mst_wanted(&call->function->plan, i)) continue;
        if (master)
            MUSTER_TRY(mst_single_output_copy(call, i, at, false, where));
        else
            head->ends_late |= mst_output_place(call, i) != NULL;
    }
    return MUSTER_OK;
}
