/* Outputs of a call that several processes make. Each process combines the parts of its own shards,
 * in their order, to a partial value, and the partial values of the processes are combined in the
 * order of the processes. Small ones travel in the block of bytes that every process gives to all
 * in the end round; large ones follow it.
 *
 * In the reproducible mode no partial value is formed, because its bits would depend on which
 * shards a process has: the values of all shards travel, and every process combines them in the
 * order of the shards, as one process does. */
#include "place_private.h"
#include "process_outputs_private.h"
#include "tensors_impl.h"

#include <string.h>

/* ---- the end ---- */

/* Writes elements of the compute dtype to the caller. Process 0 alone has some outputs. */
static muster_status deliver(mst_call *call, const char *where, int64_t i, const void *values) {
    const muster_function *function = call->function;
    const mst_port *port = mst_output_port(call, i);
    const int64_t count = mst_output_elements(call, i);
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = function->plan.outputs[i];
    if (!mst_output_is_had(call, i)) return MUSTER_OK;
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    const muster_dtype compute = mst_dtype_compute(port->dtype);
    if (mst_output_is_plain(call, i)) {
        mst_convert(port->dtype, target.data, compute, values, count);
        return MUSTER_OK;
    }
    mst_convert(port->dtype, function->results[i].address, compute, values, count);
    if (!place) {
        mst_tensor_unpack(target, function->results[i].address);
        return MUSTER_OK;
    }
    return mst_runtime_copy_placed(function->object.runtime,
                                   muster_tensor_make(port->dtype, function->results[i].address, target.ndim, target.shape), place->tensor,
                                   where);
}

typedef struct blocks {
    const char *all;
    int64_t bytes;
    /* The first failure of this process alone: it goes on, because the others count on its data. */
    muster_status status;
    char message[MST_MESSAGE_SIZE];
} blocks;

static void note(blocks *b, muster_status status) {
    if (status == MUSTER_OK || b->status != MUSTER_OK) return;
    b->status = status;
    mst_error_save(b->message);
}

static const char *block_of(const blocks *b, int32_t process) { return b->all + process * b->bytes; }

/* The weights of all processes, or of all shards, in their order. */
static double total_weight(const mst_call *call, int64_t i, const blocks *b) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    const mst_block_slot *slot = &call->function->processes->slots[i];
    double total = 0;
    if (mst_output_port(call, i)->mode != MUSTER_AVG) return 1;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const double *weights = (const double *)(block_of(b, p) + slot->weights);
        const int32_t count = mst_output_by_shards(call, i) ? mst_processes_shards(call, p) : 1;
        for (int32_t v = 0; v < count; v++) total += weights[v];
    }
    return total;
}

/* accumulator[0, count) = the combination of `count` elements of each value, in order. Process p's
 * value v is at values + offsets[p] + v * stride. */
static void fold(const mst_call *call, int64_t i, const blocks *b, double total, void *accumulator, int64_t count, const char *values,
                 const int64_t *offsets, int64_t stride) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    const mst_port *port = mst_output_port(call, i);
    const muster_reduction op = port->mode == MUSTER_MASTER ? MUSTER_MAX : port->mode;
    bool first = true;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const double *weights = (const double *)(block_of(b, p) + call->function->processes->slots[i].weights);
        const int32_t shards = mst_output_by_shards(call, i) ? mst_processes_shards(call, p) : 1;
        for (int32_t v = 0; v < shards; v++) {
            if (weights[v] == 0) continue;
            const double scale = port->mode == MUSTER_AVG ? weights[v] / total : 1;
            if (scale == 0) continue;
            mst_reduction_accumulate(op, mst_output_travels(call, i), accumulator, values + offsets[p] + v * stride, count, scale, first);
            first = false;
        }
    }
    if (first) mst_reduction_identity(op, mst_dtype_compute(port->dtype), accumulator, count);
}

static void fold_block(const mst_call *call, int64_t i, const blocks *b, double total) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    for (int32_t p = 0; p < nodes->processes; p++) processes->bytes[p] = p * b->bytes + processes->slots[i].values;
    fold(call, i, b, total, processes->partials[i].address, mst_output_elements(call, i), b->all, processes->bytes,
         mst_output_value_bytes(call, i));
}

/* The values of all shards travel chunk by chunk. */
static muster_status fold_chunks(mst_call *call, const char *where, int64_t i, const blocks *b, double total) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    const muster_dtype dtype = mst_output_travels(call, i);
    const int64_t element = muster_dtype_size(dtype), count = mst_output_elements(call, i), most = mst_output_chunk(call, i),
                  compute = muster_dtype_size(mst_dtype_compute(dtype));
    for (int64_t at = 0; at < count; at += most) {
        const int64_t length = count - at < most ? count - at : most;
        int64_t offset = 0, own_bytes = 0;
        for (int32_t p = 0; p < nodes->processes; p++) {
            if (p == nodes->process) own_bytes = offset;
            processes->bytes[p] = mst_processes_shards(call, p) * length * element;
            offset += processes->bytes[p];
        }
        for (int32_t s = 0; s < call->shard_count; s++) {
            char *to = (char *)processes->gathered.address + own_bytes + s * length * element;
            if (mst_output_gives(call, s, i))
                memcpy(to, (const char *)call->shards[s].parts[i].visible + at * element, (size_t)(length * element));
            else
                memset(to, 0, (size_t)(length * element));
        }
        MUSTER_TRY(mst_nodes_all_gather(nodes, where, processes->gathered.address, processes->bytes));
        offset = 0;
        for (int32_t p = 0; p < nodes->processes; p++) {
            const int64_t bytes = processes->bytes[p];
            processes->bytes[p] = offset;
            offset += bytes;
        }
        fold(call, i, b, total, (char *)processes->partials[i].address + at * compute, length, processes->gathered.address,
             processes->bytes, length * element);
    }
    return MUSTER_OK;
}

static muster_status fold_large(mst_call *call, const char *where, int64_t i, const blocks *b, double total) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    const mst_port *port = mst_output_port(call, i);
    const muster_dtype compute = mst_dtype_compute(port->dtype);
    void *partial = processes->partials[i].address;
    const double weight = *(const double *)(block_of(b, nodes->process) + processes->slots[i].weights);
    if (port->mode == MUSTER_MASTER)
        return mst_nodes_broadcast(nodes, where, call->function->plan.master_process, partial, mst_output_value_bytes(call, i));
    if (mst_outputs_are_reproducible(call)) return fold_chunks(call, where, i, b, total);
    if (port->mode == MUSTER_AVG && weight > 0)
        mst_reduction_accumulate(MUSTER_AVG, compute, partial, partial, mst_output_elements(call, i), weight / total, true);
    return mst_nodes_all_reduce(nodes, where, port->mode == MUSTER_AVG ? MUSTER_SUM : port->mode, compute, partial,
                                mst_output_elements(call, i));
}

static muster_status collect_reduced(mst_call *call, const char *where, int64_t i, blocks *b) {
    const double total = total_weight(call, i, b);
    if (!mst_total_weight_is_valid(total)) return mst_output_refuse_weights(call->function, where, i, total);
    if (call->function->processes->slots[i].values >= 0)
        fold_block(call, i, b, total);
    else
        MUSTER_TRY(fold_large(call, where, i, b, total));
    note(b, deliver(call, where, i, call->function->processes->partials[i].address));
    return MUSTER_OK;
}

/* ---- gathered rows ---- */

/* The rows of all processes, or of this one, in memory of the library, for outputs whose rows are
 * not one behind the other in host memory. */
static muster_status gather_apart(mst_call *call, const char *where, int64_t i, int64_t at, int64_t rows, blocks *b) {
    const muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = function->plan.outputs[i];
    muster_tensor gathered_rows = muster_tensor_make(target.dtype, processes->gathered.address, target.ndim, target.shape);
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    const muster_tensor mine = muster_tensor_slice(gathered_rows, at, at + rows);
    if (place)
        note(b, mst_runtime_copy_placed(function->object.runtime, muster_tensor_slice(place->tensor, at, at + rows), mine, where));
    else
        mst_tensor_pack(muster_tensor_address(mine), muster_tensor_slice(target, at, at + rows));
    mst_nodes *nodes = function->object.runtime->nodes;
    if (mst_output_port(call, i)->ways == MUSTER_TARGET_MASTER)
        MUSTER_TRY(mst_nodes_gather(nodes, where, 0, gathered_rows.data, processes->bytes));
    else
        MUSTER_TRY(mst_nodes_all_gather(nodes, where, gathered_rows.data, processes->bytes));
    if (place)
        note(b, mst_runtime_copy_placed(function->object.runtime, gathered_rows, place->tensor, where));
    else
        mst_tensor_unpack(target, gathered_rows.data);
    return MUSTER_OK;
}

/* Only process 0 has the output, and this one sends it `rows` rows. */
static void use_received(mst_call *call, int64_t i, int64_t rows) {
    muster_function *function = call->function;
    const int64_t index = function->input_count + i;
    function->plan.addresses[index] = function->processes->received[index].address;
    function->plan.outputs[i].shape[0] = rows;
}

static muster_status collect_rows(mst_call *call, const char *where, int64_t i, blocks *b) {
    const muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    mst_nodes *nodes = function->object.runtime->nodes;
    const muster_tensor output = function->plan.outputs[i];
    const bool part = function->plan.parts[function->input_count + i];
    const int32_t target = mst_output_port(call, i)->ways;
    int64_t total = 0, ignored = 0, at = 0, local = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const int64_t *rows = (const int64_t *)(block_of(b, p) + processes->slots[i].weights);
        if (p == nodes->process) at = part ? 0 : total, local = rows[0];
        processes->bytes[p] = rows[0] * mst_row_bytes(output);
        total += rows[0];
        ignored += rows[1];
    }
    if (target == MUSTER_TARGET_OWN) {
        note(b, mst_gather_put(call, i, 0, where));
        return MUSTER_OK;
    }
    if (part) use_received(call, i, local);
    const int64_t expected = target == MUSTER_TARGET_MASTER ? processes->master_rows[i] : output.shape[0];
    if (total != expected) return mst_gather_refuse(call, i, where, total, ignored);
    note(b, mst_gather_put(call, i, at, where));
    muster_tensor gathered_rows = function->plan.outputs[i];
    gathered_rows.data = function->plan.addresses[function->input_count + i];
    gathered_rows.byte_offset = 0;
    if (!mst_output_is_plain(call, i)) return gather_apart(call, where, i, at, local, b);
    if (target == MUSTER_TARGET_MASTER) return mst_nodes_gather(nodes, where, 0, gathered_rows.data, processes->bytes);
    return mst_nodes_all_gather(nodes, where, gathered_rows.data, processes->bytes);
}

static muster_status collect(mst_call *call, const char *where, blocks *b) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_wanted(&function->plan, i)) continue;
        if (mst_output_port(call, i)->mode == MUSTER_GATHER)
            MUSTER_TRY(collect_rows(call, where, i, b));
        else
            MUSTER_TRY(collect_reduced(call, where, i, b));
    }
    return MUSTER_OK;
}

/* The blocks of all processes, in memory that no later arrival overwrites. Those that are too large
 * for the end round follow it. */
static muster_status keep_blocks(mst_call *call, const char *where, const mst_block_head *heads, blocks *b) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    char *all = processes->blocks.address;
    const int64_t bytes = b->bytes, stride = bytes + (int64_t)sizeof *heads;
    b->all = all;
    if (bytes > MST_BLOCK_BYTES) {
        memcpy(all + nodes->process * bytes, (const mst_block_head *)processes->block.address + 1, (size_t)bytes);
        for (int32_t p = 0; p < nodes->processes; p++) processes->bytes[p] = bytes;
        return mst_nodes_all_gather(nodes, where, all, processes->bytes);
    }
    for (int32_t p = 0; p < nodes->processes; p++) memcpy(all + p * bytes, (const char *)heads + p * stride + sizeof *heads, (size_t)bytes);
    return MUSTER_OK;
}

bool mst_processes_end_late(const mst_call *call, const void *all, int64_t payload_bytes) {
    bool late = false;
    for (int32_t p = 0; p < call->function->object.runtime->nodes->processes && payload_bytes; p++)
        late |= ((const mst_block_head *)((const char *)all + p * payload_bytes))->ends_late != 0;
    return late;
}

muster_status mst_processes_collect(mst_call *call, const char *where, const void *all, int64_t block_bytes) {
    blocks b = {.bytes = block_bytes};
    if (block_bytes == 0) return MUSTER_OK;
    MUSTER_TRY(keep_blocks(call, where, all, &b));
    MUSTER_TRY(collect(call, where, &b));
    return b.status == MUSTER_OK ? MUSTER_OK : mst_error_restore(b.status, b.message);
}

/* ---- single calls ---- */

muster_status mst_processes_collect_single(mst_call *call, const char *where, const void *all, int64_t block_bytes) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    char *block = (char *)((mst_block_head *)call->function->processes->block.address + 1);
    if (block_bytes == 0) return MUSTER_OK;
    if (block_bytes > MST_BLOCK_BYTES)
        MUSTER_TRY(mst_nodes_broadcast(nodes, where, 0, block, block_bytes));
    else if (nodes->process != 0)
        memcpy(block, (const mst_block_head *)all + 1, (size_t)block_bytes); /* process 0's is the first */
    for (int64_t i = 0; nodes->process != 0 && i < call->function->output_count; block += mst_single_output_bytes(call, i), i++)
        if (mst_wanted(&call->function->plan, i)) MUSTER_TRY(mst_single_output_copy(call, i, block, true, where));
    return MUSTER_OK;
}
