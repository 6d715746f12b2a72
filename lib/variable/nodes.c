/* Operations on variables in several processes: all agree on an operation before it changes
 * anything, and results travel to those that do not have them. */
#include "change_private.h"
#include "hash_impl.h"
#include "nodes/nodes_impl.h"
#include "ops_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- what the operation is ---- */

static uint64_t add_text(uint64_t hash, const char *text) { return mst_hash_bytes(hash, text, (int64_t)strlen(text) + 1); }

void mst_change_salt(mst_change *change, const void *bytes, size_t count) { change->salt = mst_hash_bytes(1, bytes, (int64_t)count); }

static const char *name_of(const mst_change *change, int32_t index) {
    const char *name = change->name ? change->name : change->variables[index]->object.name;
    return name ? name : "";
}

static uint64_t add_tensor(uint64_t hash, const muster_tensor *tensor) {
    hash = mst_hash_number(mst_hash_number(hash, tensor->dtype), tensor->ndim);
    return tensor->ndim < 0 || tensor->ndim > MUSTER_MAX_DIMS
               ? hash
               : mst_hash_bytes(hash, tensor->shape, (int64_t)tensor->ndim * (int64_t)sizeof *tensor->shape);
}

static uint64_t add_selection(uint64_t hash, const muster_selection *selection) {
    if (!selection) return hash;
    hash = mst_hash_number(mst_hash_number(mst_hash_number(hash, selection->kind), selection->start), selection->stop);
    if (selection->kind != MUSTER_SELECT_LIST || !selection->indices || selection->index_count < 0) return hash;
    return mst_hash_bytes(hash, selection->indices, (int64_t)selection->index_count * (int64_t)sizeof *selection->indices);
}

static uint64_t signature_of(const mst_change *change) {
    uint64_t hash = add_text(MST_HASH_START, change->where);
    hash = mst_hash_number(mst_hash_number(mst_hash_number(mst_hash_number(hash, change->count), change->op), change->axis), change->rank);
    for (int32_t i = 0; i < change->count; i++) {
        hash = add_text(hash, name_of(change, i));
        if (change->tensors) hash = add_tensor(hash, &change->tensors[i]);
    }
    hash = mst_hash_number(hash, (int64_t)change->salt);
    if (change->weights) hash = mst_hash_bytes(hash, change->weights, (int64_t)change->size * (int64_t)sizeof *change->weights);
    return add_selection(hash, change->selection);
}

static void write_text(const mst_change *change, char *text, size_t size) {
    const int length = snprintf(text, size, "%s of variable '%.60s'", change->where, name_of(change, 0));
    if (change->count > 1 && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, " and %d more", (int)change->count - 1);
}

/* Argument by argument, what the signature has. */
static void give_details(const void *context, mst_round_details *details) {
    const mst_change *change = context;
    char shape[128], label[MST_DETAIL_LABEL];
    mst_round_detail(details, "count", "%d", (int)change->count);
    for (int32_t i = 0; i < change->count; i++) {
        mst_round_detail(details, "variable", "'%.60s'", name_of(change, i));
        if (!change->tensors || change->tensors[i].ndim < 0 || change->tensors[i].ndim > MUSTER_MAX_DIMS) continue;
        snprintf(label, sizeof label, "value of variable '%.50s'", name_of(change, i));
        mst_round_detail(details, label, "%s %s", mst_shape_text(shape, change->tensors[i].ndim, change->tensors[i].shape),
                         muster_dtype_name(change->tensors[i].dtype));
    }
    mst_round_detail(details, "rank", "%d", (int)change->rank);
    mst_round_detail(details, "axis", "%d", (int)change->axis);
    mst_round_detail(details, "op", "%s", mst_reduction_name(change->op));
    if (change->weights)
        mst_round_hash_detail(details, "weights",
                              mst_hash_bytes(1, change->weights, (int64_t)change->size * (int64_t)sizeof *change->weights));
    if (change->selection) mst_selection_details(details, "selection", change->selection, true);
    mst_round_hash_detail(details, "options", change->salt);
}

/* ---- rounds ---- */

/* Of the values that the operation takes. */
static muster_status hash_values(const mst_change *change, uint64_t *hash) {
    *hash = MST_HASH_START;
    for (int32_t i = 0; i < change->count; i++) {
        const muster_tensor value = change->tensors[i];
        const int64_t bytes = mst_tensor_bytes(value);
        if (bytes == 0) continue;
        if (mst_tensor_contiguous(value)) {
            *hash = mst_hash_bytes(*hash, muster_tensor_address(value), bytes);
            continue;
        }
        void *packed = mst_alloc_uninitialised((size_t)bytes);
        if (!packed) return mst_out_of_memory(change->where, bytes);
        mst_tensor_pack(packed, value);
        *hash = mst_hash_bytes(*hash, packed, bytes);
        mst_free(packed);
    }
    return MUSTER_OK;
}

static muster_status compare_values(const mst_change *change, const uint64_t *hashes) {
    const mst_nodes *nodes = change->runtime->nodes;
    char first[MST_PROCESS_TEXT], other[MST_PROCESS_TEXT];
    for (int32_t p = 1; p < nodes->processes; p++) {
        if (hashes[p] == hashes[0]) continue;
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: value of variable '%.60s': expected the same elements in all processes, received others in %s than in %s",
                         change->where, name_of(change, 0), mst_nodes_process_text(nodes, p, other),
                         mst_nodes_process_text(nodes, 0, first));
    }
    return MUSTER_OK;
}

static muster_status finish_with(mst_change *change, muster_status status, int32_t rank) {
    mst_round round = {.where = change->where, .signature = signature_of(change), .status = status, .rank = rank};
    write_text(change, round.text, sizeof round.text);
    return mst_nodes_end(change->runtime->nodes, &round);
}

static muster_status agree_with(mst_change *change, muster_status status) {
    mst_nodes *nodes = change->runtime->nodes;
    const bool hashes = change->runtime->checks && change->takes && !change->agreed;
    /* Which values are hashed is a fact of the operation, but a refusal may come before it is
     * known: the payload is the same in any case. */
    uint64_t hash = 0;
    if (hashes && status == MUSTER_OK) status = hash_values(change, &hash);
    mst_round round = {.where = change->where,
                       .signature = signature_of(change),
                       .details = status == MUSTER_OK ? give_details : NULL,
                       .details_context = change,
                       .status = status,
                       .rank = -1,
                       .must_end = mst_pool_must_end,
                       .must_end_context = change->runtime->pool};
    if (change->runtime->checks) {
        round.payload = &hash;
        round.payload_bytes = sizeof hash;
    }
    write_text(change, round.text, sizeof round.text);
    change->agreed = true;
    MUSTER_TRY(mst_nodes_begin(nodes, &round));
    if (!hashes) return MUSTER_OK;
    status = compare_values(change, round.all);
    return status == MUSTER_OK ? MUSTER_OK : finish_with(change, status, -1);
}

/* Memory for results that do not lie one behind the other in the caller's. Allocated before
 * anything is agreed on: no process may stay away from what the others then wait for. */
static muster_status open_spread(mst_change *change) {
    int64_t bytes = 0;
    if (!change->spread || change->buffer) return MUSTER_OK;
    for (int32_t i = 0; i < change->count; i++) {
        const int64_t size = mst_tensor_bytes(change->tensors[i]);
        const bool direct = !change->part && !change->gathers && mst_tensor_contiguous(change->tensors[i]);
        if (!direct && size > bytes) bytes = size;
    }
    const int64_t counts = change->runtime->nodes->processes * (int64_t)sizeof(int64_t);
    change->block_bytes = mst_alloc((size_t)counts);
    if (!change->block_bytes) return mst_out_of_memory(change->where, counts);
    change->buffer = mst_alloc_uninitialised((size_t)bytes + 1);
    return change->buffer ? MUSTER_OK : mst_out_of_memory(change->where, bytes);
}

muster_status mst_change_agree(mst_change *change) { return agree_with(change, open_spread(change)); }

muster_status mst_change_finish(mst_change *change, muster_status status) {
    const int32_t rank = status == MUSTER_OK ? -1 : mst_pool_failed_rank(change->runtime->pool);
    /* The others may wait for this process in a collective, which it does not enter any more. */
    if (status != MUSTER_OK) mst_nodes_poison(change->runtime->nodes, status, rank);
    return finish_with(change, status, rank);
}

/* Also for an operation that had nothing to do: the processes tell each other so. */
muster_status mst_change_refused(mst_change *change, muster_status status) {
    if (!change->runtime || !change->runtime->nodes || change->agreed) return status;
    MUSTER_TRY(agree_with(change, status));
    return finish_with(change, status, -1);
}

/* ---- results ---- */

static muster_status spread_one(mst_change *change, const muster_tensor *tensor, int32_t from) {
    mst_nodes *nodes = change->runtime->nodes;
    const int64_t bytes = mst_tensor_bytes(*tensor);
    const bool direct = mst_tensor_contiguous(*tensor), here = from == nodes->process;
    if (bytes == 0) return MUSTER_OK;
    if (!direct && here) mst_tensor_pack(change->buffer, *tensor);
    MUSTER_TRY(mst_nodes_broadcast(nodes, change->where, from, direct ? muster_tensor_address(*tensor) : change->buffer, bytes));
    if (!direct && !here) mst_tensor_unpack(*tensor, change->buffer);
    return MUSTER_OK;
}

muster_status mst_change_spread_from(mst_change *change) {
    const int32_t from = mst_nodes_process_of(change->runtime->nodes, change->rank);
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(spread_one(change, &change->tensors[i], from));
    return MUSTER_OK;
}

/* The parts of all ranks, packed one behind the other, travel as one block of each process. */
static muster_status gather_parts(mst_change *change, int32_t index) {
    mst_nodes *nodes = change->runtime->nodes;
    int64_t *bytes = change->block_bytes;
    char *const buffer = change->buffer, *at = buffer;
    for (int32_t p = 0; p < nodes->processes; p++) {
        bytes[p] = 0;
        for (int32_t r = nodes->first[p]; r < nodes->first[p + 1]; r++) {
            const muster_tensor part = change->part(change, index, r);
            const int64_t size = mst_tensor_bytes(part);
            if (p == nodes->process && size > 0) mst_tensor_pack(at, part);
            at += size;
            bytes[p] += size;
        }
    }
    MUSTER_TRY(mst_nodes_all_gather(nodes, change->where, buffer, bytes));
    at = buffer;
    for (int32_t r = 0; r < change->size; r++) {
        const muster_tensor part = change->part(change, index, r);
        const int64_t size = mst_tensor_bytes(part);
        const bool here = r >= change->runtime->first && r < change->runtime->first + change->runtime->size;
        if (size > 0 && !here) mst_tensor_unpack(part, at);
        at += size;
    }
    return MUSTER_OK;
}

muster_status mst_change_spread_parts(mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(gather_parts(change, i));
    return MUSTER_OK;
}

/* Between change->contiguous and `buffer`: the portions of the ranks of process p, one behind the
 * other. Returns their bytes. */
static int64_t move_portions(const mst_change *change, int32_t p, char *buffer, bool out) {
    const muster_variable *variable = change->variables[0];
    const mst_nodes *nodes = change->runtime->nodes;
    const int64_t size = muster_dtype_size(variable->dtype);
    int64_t bytes = 0;
    for (int32_t i = 0; i < variable->portions->count; i++) {
        const mst_portion *portion = &variable->portions->items[i];
        const int64_t count = (portion->end - portion->begin) * size;
        if (portion->rank < nodes->first[p] || portion->rank >= nodes->first[p + 1]) continue;
        char *value = change->contiguous + portion->begin * size;
        if (buffer && count) memcpy(out ? buffer + bytes : value, out ? value : buffer + bytes, (size_t)count);
        bytes += count;
    }
    return bytes;
}

muster_status mst_change_spread_portions(mst_change *change) {
    mst_nodes *nodes = change->runtime->nodes;
    int64_t before = 0;
    for (int32_t p = 0; p < nodes->processes; before += change->block_bytes[p++])
        change->block_bytes[p] = move_portions(change, p, p == nodes->process ? change->buffer + before : NULL, true);
    MUSTER_TRY(mst_nodes_all_gather(nodes, change->where, change->buffer, change->block_bytes));
    before = 0;
    for (int32_t p = 0; p < nodes->processes; before += change->block_bytes[p++])
        if (p != nodes->process) (void)move_portions(change, p, change->buffer + before, false);
    return MUSTER_OK;
}
