/* Outputs of a call that several processes make. Each process combines the parts of its own shards,
 * in their order, to a partial value, and the partial values of the processes are combined in the
 * order of the processes. Small ones travel in the block of bytes that every process gives to all
 * in the end round; large ones follow it.
 *
 * In the reproducible mode no partial value is formed, because its bits would depend on which
 * shards a process has: the values of all shards travel, and every process combines them in the
 * order of the shards, as one process does. */
#include "output_private.h"
#include "place_private.h"
#include "processes_private.h"
#include "tensors_impl.h"

#include <string.h>

enum { CHUNK_BYTES = 4 << 20 }; /* of the values of all shards that travel at a time */

static bool is_reproducible(const mst_call *call) { return call->shards_each > 0; }

static const mst_port *port_of(const mst_call *call, int64_t i) { return &call->function->outputs[i]; }

static int64_t count_of(const mst_call *call, int64_t i) { return muster_tensor_count(call->function->plan.outputs[i]); }

/* The dtype in which values travel: partial values as they are combined, those of shards as the
 * body or its slices have left them. */
static muster_dtype travelling(const mst_call *call, int64_t i) {
    const mst_port *port = port_of(call, i);
    const bool summed = call->function->plan.slices > 1 && port->mode != MUSTER_MASTER;
    return is_reproducible(call) && port->mode != MUSTER_MASTER && !summed ? port->dtype
                                                                           : mst_dtype_compute(port->dtype); /* expose of collect.c */
}

/* Does a process send a value for each of its shards, instead of one? */
static bool by_shards(const mst_call *call, int64_t i) { return is_reproducible(call) && port_of(call, i)->mode != MUSTER_MASTER; }

/* Room for the values that one process sends. */
static int32_t values_of(const mst_call *call, int64_t i) { return by_shards(call, i) ? call->function->processes->most_shards : 1; }

static int64_t value_bytes(const mst_call *call, int64_t i) { return count_of(call, i) * muster_dtype_size(travelling(call, i)); }

/* ---- the block ---- */

int64_t mst_processes_block_bytes(const mst_call *call) {
    muster_function *function = call->function;
    int64_t bytes = 0;
    for (int64_t i = 0; i < function->output_count; i++) {
        mst_block_slot *slot = &function->processes->slots[i];
        if (!mst_wanted(&function->plan, i)) continue;
        const bool gathered = port_of(call, i)->mode == MUSTER_GATHER;
        slot->weights = bytes;
        slot->values = -1;
        bytes += (gathered ? 2 : values_of(call, i)) * (int64_t)sizeof(double);
        if (gathered) continue;
        const int64_t values = value_bytes(call, i);
        if (values > MST_ROUND_BYTES || bytes + values_of(call, i) * values > MST_ROUND_BYTES) continue;
        slot->values = bytes;
        bytes += (values_of(call, i) * values + 7) / 8 * 8;
    }
    return bytes;
}

static bool gives(const mst_call *call, int32_t s, int64_t i) {
    const mst_logical_shard *shard = &call->shards[s];
    const bool master = port_of(call, i)->mode == MUSTER_MASTER;
    return shard->contributes && shard->parts[i].begun && (!master || call->first_shard + s == 0);
}

/* Of an average the weight, else whether there is a value. */
static double weight_of(const mst_call *call, int32_t s, int64_t i) {
    if (!gives(call, s, i)) return 0;
    return port_of(call, i)->mode == MUSTER_AVG ? call->shards[s].parts[i].weight : 1;
}

static muster_status make_partial(mst_call *call, const char *where, int64_t i, double *weight) {
    const int64_t count = count_of(call, i), bytes = count * muster_dtype_size(mst_dtype_compute(port_of(call, i)->dtype));
    mst_store *partial = &call->function->processes->partials[i];
    const bool averaged = port_of(call, i)->mode == MUSTER_AVG;
    *weight = 0;
    for (int32_t s = 0; s < call->shard_count; s++) {
        const double one = weight_of(call, s, i);
        *weight = averaged ? *weight + one : *weight > one ? *weight : one;
    }
    MUSTER_TRY(mst_host_store_reserve(partial, bytes > 0 ? bytes : 1, where));
    if (averaged && !mst_total_weight_is_valid(*weight)) {
        memset(partial->address, 0, (size_t)bytes);
        return MUSTER_OK;
    }
    const muster_reduction op = port_of(call, i)->mode == MUSTER_MASTER ? MUSTER_MAX : port_of(call, i)->mode;
    if (!mst_output_combine(call, i, partial->address, 0, count, *weight))
        mst_nodes_neutral(op, mst_dtype_compute(port_of(call, i)->dtype), partial->address, count);
    return MUSTER_OK;
}

static void put_shards(const mst_call *call, int64_t i, char *block) {
    const mst_block_slot *slot = &call->function->processes->slots[i];
    const int64_t bytes = value_bytes(call, i);
    for (int32_t s = 0; s < call->shard_count; s++) {
        ((double *)(block + slot->weights))[s] = weight_of(call, s, i);
        if (slot->values >= 0 && gives(call, s, i))
            memcpy(block + slot->values + s * bytes, call->shards[s].parts[i].visible, (size_t)bytes);
    }
}

static muster_status put_rows(const mst_call *call, const char *where, int64_t i, int64_t rows[2]) {
    const muster_tensor output = call->function->plan.outputs[i];
    mst_gather_count(call, i, &rows[0], &rows[1]);
    if (!call->function->plan.parts[call->function->input_count + i]) return MUSTER_OK;
    if (port_of(call, i)->ways == MUSTER_TARGET_OWN && rows[0] != output.shape[0])
        return mst_gather_refuse(call, i, where, rows[0], rows[1]);
    return MUSTER_OK;
}

muster_status mst_processes_make_block(mst_call *call, const char *where) {
    muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    const int64_t bytes = mst_processes_block_bytes(call);
    MUSTER_TRY(mst_host_store_reserve(&processes->block, bytes > 0 ? bytes : 1, where));
    char *block = processes->block.address;
    memset(block, 0, (size_t)bytes);
    for (int64_t i = 0; i < function->output_count; i++) {
        const mst_block_slot *slot = &processes->slots[i];
        if (!mst_wanted(&function->plan, i)) continue;
        if (port_of(call, i)->mode == MUSTER_GATHER) {
            MUSTER_TRY(put_rows(call, where, i, (int64_t *)(block + slot->weights)));
        } else if (by_shards(call, i)) {
            put_shards(call, i, block);
            MUSTER_TRY(mst_host_store_reserve(
                &processes->partials[i], count_of(call, i) * muster_dtype_size(mst_dtype_compute(port_of(call, i)->dtype)) + 1, where));
        } else {
            MUSTER_TRY(make_partial(call, where, i, (double *)(block + slot->weights)));
            if (slot->values >= 0) memcpy(block + slot->values, processes->partials[i].address, (size_t)value_bytes(call, i));
        }
    }
    return MUSTER_OK;
}

/* ---- the end ---- */

/* Writes elements of the compute dtype to the caller. Process 0 alone has some outputs. */
static muster_status deliver(mst_call *call, const char *where, int64_t i, const void *values) {
    const muster_function *function = call->function;
    const mst_port *port = port_of(call, i);
    const int64_t count = count_of(call, i);
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = function->plan.outputs[i];
    if (port->ways == MUSTER_TARGET_MASTER && function->object.runtime->nodes->process != 0) return MUSTER_OK;
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    const muster_dtype compute = mst_dtype_compute(port->dtype);
    if (!place && mst_tensor_contiguous(target)) {
        mst_convert(port->dtype, target.data, compute, values, count);
        return MUSTER_OK;
    }
    MUSTER_TRY(mst_host_store_reserve(&function->results[i], count * muster_dtype_size(port->dtype) + 1, where));
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
} blocks;

static const char *block_of(const blocks *b, int32_t process) { return b->all + process * b->bytes; }

/* The weights of all processes, or of all shards, in their order. */
static double total_weight(const mst_call *call, int64_t i, const blocks *b) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    const mst_block_slot *slot = &call->function->processes->slots[i];
    double total = 0;
    if (port_of(call, i)->mode != MUSTER_AVG) return 1;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const double *weights = (const double *)(block_of(b, p) + slot->weights);
        const int32_t count = by_shards(call, i) ? mst_processes_shards(call, p) : 1;
        for (int32_t v = 0; v < count; v++) total += weights[v];
    }
    return total;
}

/* accumulator[0, count) = the combination of `count` elements of each value, in order. Process p's
 * value v is at values + offsets[p] + v * stride. */
static void fold(const mst_call *call, int64_t i, const blocks *b, double total, void *accumulator, int64_t count, const char *values,
                 const int64_t *offsets, int64_t stride) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    const mst_port *port = port_of(call, i);
    const muster_reduction op = port->mode == MUSTER_MASTER ? MUSTER_MAX : port->mode;
    bool first = true;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const double *weights = (const double *)(block_of(b, p) + call->function->processes->slots[i].weights);
        const int32_t shards = by_shards(call, i) ? mst_processes_shards(call, p) : 1;
        for (int32_t v = 0; v < shards; v++) {
            if (weights[v] == 0) continue;
            const double scale = port->mode == MUSTER_AVG ? weights[v] / total : 1;
            if (scale == 0) continue;
            mst_reduction_accumulate(op, travelling(call, i), accumulator, values + offsets[p] + v * stride, count, scale, first);
            first = false;
        }
    }
    if (first) mst_reduction_identity(op, mst_dtype_compute(port->dtype), accumulator, count);
}

static void fold_block(const mst_call *call, int64_t i, const blocks *b, double total) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    for (int32_t p = 0; p < nodes->processes; p++) processes->bytes[p] = p * b->bytes + processes->slots[i].values;
    fold(call, i, b, total, processes->partials[i].address, count_of(call, i), b->all, processes->bytes, value_bytes(call, i));
}

/* The values of all shards travel chunk by chunk. */
static muster_status fold_chunks(mst_call *call, const char *where, int64_t i, const blocks *b, double total) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    const muster_dtype dtype = travelling(call, i);
    const int64_t element = muster_dtype_size(dtype), count = count_of(call, i), fits = CHUNK_BYTES / element / call->total_shards,
                  most = fits > 64 ? fits : 64, compute = muster_dtype_size(mst_dtype_compute(dtype));
    MUSTER_TRY(mst_host_store_reserve(&processes->gathered, most * element * call->total_shards, where));
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
            if (gives(call, s, i))
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
    const mst_port *port = port_of(call, i);
    const muster_dtype compute = mst_dtype_compute(port->dtype);
    void *partial = processes->partials[i].address;
    const double weight = *(const double *)(block_of(b, nodes->process) + processes->slots[i].weights);
    if (port->mode == MUSTER_MASTER) return mst_nodes_broadcast(nodes, where, 0, partial, value_bytes(call, i));
    if (is_reproducible(call)) return fold_chunks(call, where, i, b, total);
    if (port->mode == MUSTER_AVG && weight > 0)
        mst_reduction_accumulate(MUSTER_AVG, compute, partial, partial, count_of(call, i), weight / total, true);
    return mst_nodes_all_reduce(nodes, where, port->mode == MUSTER_AVG ? MUSTER_SUM : port->mode, compute, partial, count_of(call, i));
}

static muster_status collect_reduced(mst_call *call, const char *where, int64_t i, const blocks *b) {
    const double total = total_weight(call, i, b);
    if (!mst_total_weight_is_valid(total)) return mst_output_refuse_weights(call->function, where, i, total);
    if (call->function->processes->slots[i].values >= 0)
        fold_block(call, i, b, total);
    else
        MUSTER_TRY(fold_large(call, where, i, b, total));
    return deliver(call, where, i, call->function->processes->partials[i].address);
}

/* ---- gathered rows ---- */

/* The rows of all processes, or of this one, in memory of the library, for outputs whose rows are
 * not one behind the other in host memory. */
static muster_status gather_apart(mst_call *call, const char *where, int64_t i, int64_t at, int64_t rows) {
    const muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    const mst_place *place = mst_output_place(call, i);
    muster_tensor target = function->plan.outputs[i];
    const int64_t row_bytes = mst_row_bytes(target);
    MUSTER_TRY(mst_host_store_reserve(&processes->gathered, target.shape[0] * row_bytes + 1, where));
    muster_tensor gathered_rows = muster_tensor_make(target.dtype, processes->gathered.address, target.ndim, target.shape);
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    const muster_tensor mine = muster_tensor_slice(gathered_rows, at, at + rows);
    if (place)
        MUSTER_TRY(mst_runtime_copy_placed(function->object.runtime, muster_tensor_slice(place->tensor, at, at + rows), mine, where));
    else
        mst_tensor_pack(muster_tensor_address(mine), muster_tensor_slice(target, at, at + rows));
    mst_nodes *nodes = function->object.runtime->nodes;
    if (port_of(call, i)->ways == MUSTER_TARGET_MASTER)
        MUSTER_TRY(mst_nodes_gather(nodes, where, 0, gathered_rows.data, processes->bytes));
    else
        MUSTER_TRY(mst_nodes_all_gather(nodes, where, gathered_rows.data, processes->bytes));
    if (place) return mst_runtime_copy_placed(function->object.runtime, gathered_rows, place->tensor, where);
    mst_tensor_unpack(target, gathered_rows.data);
    return MUSTER_OK;
}

/* Only process 0 has the output, and this one sends it `rows` rows. */
static muster_status make_room(mst_call *call, const char *where, int64_t i, int64_t rows) {
    muster_function *function = call->function;
    const int64_t index = function->input_count + i;
    mst_store *store = &function->processes->received[index];
    MUSTER_TRY(mst_host_store_reserve(store, rows * mst_row_bytes(function->plan.outputs[i]) + 1, where));
    function->plan.addresses[index] = store->address;
    function->plan.outputs[i].shape[0] = rows;
    return MUSTER_OK;
}

static muster_status collect_rows(mst_call *call, const char *where, int64_t i, const blocks *b) {
    const muster_function *function = call->function;
    mst_processes_state *processes = function->processes;
    mst_nodes *nodes = function->object.runtime->nodes;
    const muster_tensor output = function->plan.outputs[i];
    const bool part = function->plan.parts[function->input_count + i];
    const int32_t target = port_of(call, i)->ways;
    int64_t total = 0, ignored = 0, at = 0, local = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const int64_t *rows = (const int64_t *)(block_of(b, p) + processes->slots[i].weights);
        if (p == nodes->process) at = part ? 0 : total, local = rows[0];
        processes->bytes[p] = rows[0] * mst_row_bytes(output);
        total += rows[0];
        ignored += rows[1];
    }
    if (target == MUSTER_TARGET_OWN) return mst_gather_put(call, i, 0, where);
    if (part) MUSTER_TRY(make_room(call, where, i, local));
    const int64_t expected = target == MUSTER_TARGET_MASTER ? processes->master_rows[i] : output.shape[0];
    if (total != expected) return mst_gather_refuse(call, i, where, total, ignored);
    MUSTER_TRY(mst_gather_put(call, i, at, where));
    muster_tensor gathered_rows = function->plan.outputs[i];
    gathered_rows.data = function->plan.addresses[function->input_count + i];
    gathered_rows.byte_offset = 0;
    if (mst_output_place(call, i) || !mst_tensor_contiguous(gathered_rows)) return gather_apart(call, where, i, at, local);
    if (target == MUSTER_TARGET_MASTER) return mst_nodes_gather(nodes, where, 0, gathered_rows.data, processes->bytes);
    return mst_nodes_all_gather(nodes, where, gathered_rows.data, processes->bytes);
}

static muster_status collect(mst_call *call, const char *where, const blocks *b) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_wanted(&function->plan, i)) continue;
        if (port_of(call, i)->mode == MUSTER_GATHER)
            MUSTER_TRY(collect_rows(call, where, i, b));
        else
            MUSTER_TRY(collect_reduced(call, where, i, b));
    }
    return MUSTER_OK;
}

/* A block that is too large for the end round follows it. */
static muster_status exchange_blocks(mst_call *call, const char *where, int64_t bytes, blocks *b) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_processes_state *processes = call->function->processes;
    MUSTER_TRY(mst_host_store_reserve(&processes->blocks, nodes->processes * bytes + 1, where));
    memcpy((char *)processes->blocks.address + nodes->process * bytes, processes->block.address, (size_t)bytes);
    for (int32_t p = 0; p < nodes->processes; p++) processes->bytes[p] = bytes;
    MUSTER_TRY(mst_nodes_all_gather(nodes, where, processes->blocks.address, processes->bytes));
    *b = (blocks){processes->blocks.address, bytes};
    return MUSTER_OK;
}

/* The blocks of all processes, in memory that no later arrival overwrites. */
static muster_status keep_blocks(mst_call *call, const char *where, const char *all, int64_t bytes, blocks *b) {
    mst_processes_state *processes = call->function->processes;
    const int64_t total = call->function->object.runtime->nodes->processes * bytes;
    if (bytes > MST_ROUND_BYTES) return exchange_blocks(call, where, bytes, b);
    MUSTER_TRY(mst_host_store_reserve(&processes->blocks, total, where));
    memcpy(processes->blocks.address, all, (size_t)total);
    *b = (blocks){processes->blocks.address, bytes};
    return MUSTER_OK;
}

/* What fails here in one process alone would leave the others waiting for its data. */
static muster_status poison_failure(const mst_call *call, muster_status status) {
    if (status) mst_nodes_poison(call->function->object.runtime->nodes, status, -1);
    return status;
}

muster_status mst_processes_collect(mst_call *call, const char *where, const char *all, int64_t block_bytes) {
    blocks b;
    if (block_bytes == 0) return MUSTER_OK;
    muster_status status = keep_blocks(call, where, all, block_bytes, &b);
    if (!status) status = collect(call, where, &b);
    return poison_failure(call, status);
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

/* The output in contiguous host memory, and the other way. */
static muster_status single_copy(const mst_call *call, int64_t i, void *packed, bool to_caller, const char *where) {
    const muster_tensor target = single_target(call, i), source = muster_tensor_make(target.dtype, packed, target.ndim, target.shape);
    if (mst_output_place(call, i))
        return mst_runtime_copy_placed(call->function->object.runtime, to_caller ? source : target, to_caller ? target : source, where);
    if (to_caller)
        mst_tensor_unpack(target, packed);
    else
        mst_tensor_pack(packed, target);
    return MUSTER_OK;
}

static int64_t single_output_bytes(const mst_call *call, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    return mst_wanted(plan, i) ? (mst_tensor_bytes(plan->outputs[i]) + 7) / 8 * 8 : 0;
}

int64_t mst_processes_single_bytes(const mst_call *call) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < call->function->output_count; i++) bytes += single_output_bytes(call, i);
    return bytes;
}

muster_status mst_processes_make_single_block(mst_call *call, const char *where) {
    mst_store *block = &call->function->processes->block;
    int64_t at = 0;
    MUSTER_TRY(mst_host_store_reserve(block, mst_processes_single_bytes(call) + 1, where));
    for (int64_t i = 0; i < call->function->output_count; at += single_output_bytes(call, i), i++)
        if (mst_wanted(&call->function->plan, i)) MUSTER_TRY(single_copy(call, i, (char *)block->address + at, false, where));
    return MUSTER_OK;
}

muster_status mst_processes_collect_single(mst_call *call, const char *where, const char *all, int64_t block_bytes) {
    mst_nodes *nodes = call->function->object.runtime->nodes;
    mst_store *block = &call->function->processes->block;
    int64_t at = 0;
    if (block_bytes == 0) return MUSTER_OK;
    if (nodes->process != 0) MUSTER_TRY(poison_failure(call, mst_host_store_reserve(block, block_bytes, where)));
    if (block_bytes > MST_ROUND_BYTES)
        MUSTER_TRY(mst_nodes_broadcast(nodes, where, 0, block->address, block_bytes));
    else if (nodes->process != 0)
        memcpy(block->address, all, (size_t)block_bytes); /* process 0's is the first */
    for (int64_t i = 0; nodes->process != 0 && i < call->function->output_count; at += single_output_bytes(call, i), i++)
        if (mst_wanted(&call->function->plan, i)) MUSTER_TRY(single_copy(call, i, (char *)block->address + at, true, where));
    return MUSTER_OK;
}
