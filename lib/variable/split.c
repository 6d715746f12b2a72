/* Split and join: between replicas that are whole values and replicas that are parts of one value.
 * Parts along an axis that is not the first lie strided in the whole. Collectives take contiguous
 * memory, so there the parts pass through device memory in which they lie one behind the other. */
#include "change_private.h"

#include <string.h>

/* The whole value of the variable as a tensor at `address`. */
static muster_tensor whole_at(const mst_change *change, int32_t rank, void *address) {
    const muster_variable *variable = change->variables[0];
    int64_t shape[MUSTER_MAX_DIMS];
    mst_variable_whole_shape(variable, shape);
    muster_tensor value = muster_tensor_make(variable->dtype, address, variable->ndim, shape);
    value.device = rank - change->runtime->first;
    return value;
}

/* Part `part` of a split along `axis`; the parts lie one behind the other from `address` on. */
static muster_tensor part_at(const mst_change *change, int32_t rank, void *address, int32_t axis, int32_t part) {
    muster_tensor made = whole_at(change, rank, address);
    const int64_t size = made.shape[axis], begin = mst_edge(size, change->size, part);
    made.shape[axis] = mst_edge_rows(size, change->size, part);
    const int64_t before = size == 0 ? 0 : mst_tensor_bytes(whole_at(change, rank, address)) / size * begin;
    made = muster_tensor_make(made.dtype, address, made.ndim, made.shape);
    made.device = rank - change->runtime->first;
    made.byte_offset = before;
    return made;
}

/* In the parts of an axis before which all sizes are 1, elements have the order of the whole. */
static bool keeps_order(const mst_change *change, int32_t axis) {
    const muster_tensor value = whole_at(change, 0, NULL);
    for (int32_t d = 0; d < axis; d++)
        if (value.shape[d] != 1) return false;
    return true;
}

static mst_replica *next_of(const mst_change *change, const muster_worker *worker) { return &change->next[mst_worker_public_rank(worker)]; }

static mst_request request_of(const mst_change *change, mst_collective collective) {
    return (mst_request){.collective = (uint8_t)collective, .dtype = (uint8_t)change->variables[0]->dtype, .root = -1};
}

/* ---- from whole values to parts: the master scatters ---- */

static muster_status split_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    void *from = variable->everywhere[mst_worker_public_rank(worker)].address;
    mst_request request = request_of(change, MST_SCATTER);
    if (change->parts[mst_worker_public_rank(worker)]) {
        const muster_tensor value = whole_at(change, mst_worker_public_rank(worker), from);
        for (int32_t p = 0; p < change->size; p++)
            MUSTER_TRY(muster_copy(
                worker, mst_variable_part(value, change->axis, change->size, p),
                part_at(change, mst_worker_public_rank(worker), change->parts[mst_worker_public_rank(worker)], change->axis, p)));
        from = change->parts[mst_worker_public_rank(worker)];
    }
    request.root = 0;
    request.input = mst_worker_public_rank(worker) == 0 ? from : NULL;
    request.input_count = mst_worker_public_rank(worker) == 0 ? mst_replica_elements(variable, &variable->everywhere[0]) : 0;
    request.output = next_of(change, worker)->address;
    request.output_count = mst_replica_elements(variable, next_of(change, worker));
    return mst_worker_collective_of_all(worker, request);
}

/* ---- from parts to whole values, or to the parts of another axis: every rank gathers ---- */

static muster_status join_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    const int32_t rank = mst_worker_public_rank(worker), old = mst_variable_split_axis(variable);
    const mst_replica *part = &variable->everywhere[rank], *next = next_of(change, worker);
    void *parts = change->parts[rank] ? change->parts[rank] : next->address;
    mst_request request = request_of(change, MST_ALL_GATHER);
    request.input = part->address;
    request.input_count = mst_replica_elements(variable, part);
    request.output = parts;
    request.output_count = muster_tensor_count(whole_at(change, rank, parts));
    MUSTER_TRY(mst_worker_collective_of_all(worker, request));
    if (parts == next->address) return MUSTER_OK;
    muster_tensor made = muster_tensor_make(variable->dtype, next->address, variable->ndim, next->shape);
    made.device = rank - change->runtime->first;
    for (int32_t p = 0; p < change->size; p++) {
        muster_tensor from = part_at(change, rank, parts, old, p);
        if (change->axis >= 0) from = mst_variable_part(from, change->axis, change->size, rank);
        MUSTER_TRY(muster_copy(worker, from, mst_variable_part(made, old, change->size, p)));
    }
    return MUSTER_OK;
}

/* ---- plan ---- */

static bool needs_parts(const mst_change *change, int32_t rank) {
    const int32_t old = mst_variable_split_axis(change->variables[0]);
    if (old < 0) return rank == 0 && !keeps_order(change, change->axis);
    return change->axis >= 0 || !keeps_order(change, old);
}

static muster_status allocate_parts(mst_change *change, muster_worker *worker, int32_t index) {
    (void)index;
    if (!needs_parts(change, mst_worker_public_rank(worker))) return MUSTER_OK;
    return mst_worker_allocate(worker, mst_tensor_bytes(whole_at(change, mst_worker_public_rank(worker), NULL)),
                               &change->parts[mst_worker_public_rank(worker)]);
}

static muster_status plan_move(mst_change *change) {
    const muster_variable *variable = change->variables[0];
    const muster_tensor value = whole_at(change, 0, NULL);
    const size_t bytes = (size_t)change->size * sizeof *change->parts;
    MUSTER_TRY(mst_change_check_defined_of(change, 0, 0, mst_variable_split_axis(variable) < 0 ? 1 : change->size));
    MUSTER_TRY(mst_change_replicas(change));
    change->parts = mst_alloc(bytes);
    if (!change->parts) return mst_out_of_memory(change->where, (int64_t)bytes);
    for (int32_t r = 0; r < change->size; r++) {
        int64_t shape[MUSTER_MAX_DIMS];
        memcpy(shape, value.shape, sizeof shape);
        if (change->axis >= 0) shape[change->axis] = mst_edge_rows(shape[change->axis], change->size, r);
        mst_change_shape(change, 0, r, shape, true);
    }
    mst_change_reserve(change, mst_tensor_bytes(value));
    change->prepare = allocate_parts;
    change->work = mst_variable_split_axis(variable) < 0 ? split_one : join_one;
    return mst_change_run(change, false);
}

/* One device has the whole value as its part. */
static muster_status split_run(mst_change *change) {
    muster_variable *variable = change->variables[0];
    if (mst_variable_split_axis(variable) == change->axis) return MUSTER_OK;
    if (change->size > 1) MUSTER_TRY(plan_move(change));
    atomic_store_explicit(&variable->split_axis, change->axis, memory_order_release);
    return MUSTER_OK;
}

static muster_status split_check(const mst_change *change) {
    const muster_variable *variable = change->variables[0];
    MUSTER_TRY(mst_change_check_rows(change, 0, "split"));
    if (change->axis < 0 || change->axis >= variable->ndim)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: axis: variable '%.100s': expected 0 to %d, received %d", change->where,
                         variable->object.name, variable->ndim - 1, change->axis);
    return mst_variable_split_axis(variable) < 0 ? mst_change_check_equal_shapes(change, 0) : MUSTER_OK;
}

muster_status muster_variable_split(muster_variable *variable, int32_t axis) {
    static const char where[] = "muster_variable_split";
    mst_change change;
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_split(&change, where, &variable, 1));
    change.axis = axis;
    const muster_status status = split_check(&change);
    return mst_change_end(&change, status == MUSTER_OK ? split_run(&change) : status);
}

muster_status muster_variable_join(muster_variable *variable) {
    static const char where[] = "muster_variable_join";
    mst_change change;
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_split(&change, where, &variable, 1));
    change.axis = -1;
    return mst_change_end(&change, split_run(&change));
}
