#include "place_private.h"

#include "ops_impl.h"
#include "tensors_impl.h"

#include <string.h>

void mst_places_reset(mst_plan *plan) { plan->placed = plan->on_device = false; }

void mst_places_free(muster_function *function) {
    mst_place *places = function->plan.places;
    for (int64_t i = 0; places && i < function->input_count + function->output_count; i++) {
        mst_locked_store_free(function->object.runtime->devices[places[i].host_copy_rank], &places[i].host_copy);
        mst_free(places[i].access);
    }
    mst_free(places);
    function->plan.places = NULL;
}

/* ---- planning ---- */

static muster_status places_make(muster_function *function, const char *where) {
    const size_t count = (size_t)(function->input_count + function->output_count), size = (size_t)function->object.runtime->size;
    if (function->plan.places) return MUSTER_OK;
    function->plan.places = mst_alloc(count * sizeof *function->plan.places);
    if (!function->plan.places) return mst_out_of_memory(where, (int64_t)(count * sizeof *function->plan.places));
    for (size_t i = 0; i < count; i++) {
        function->plan.places[i].access = mst_alloc(size);
        if (function->plan.places[i].access) continue;
        mst_places_free(function);
        return mst_out_of_memory(where, (int64_t)size);
    }
    return MUSTER_OK;
}

/* Work of the device that the bytes belong to has ended with the run before, so any device with
 * access may use them. */
static muster_status find_access(const muster_runtime *runtime, const mst_place *place, int32_t rank, int8_t *result) {
    mst_device *device = runtime->devices[rank], *owner = runtime->devices[place->tensor.device];
    const bool shared = device == owner || (device->table == owner->table && device->physical && device->physical == owner->physical);
    bool access = false;
    *result = MST_ACCESS_BY_HOST;
    MUSTER_TRY(mst_runtime_peer_access(runtime, rank, place->tensor.device, &access));
    if (access) *result = shared && mst_tensor_contiguous(place->tensor) ? MST_ACCESS_IN_PLACE : MST_ACCESS_COPY;
    return MUSTER_OK;
}

muster_status mst_place_check(muster_function *function, const char *where, int64_t index, muster_tensor *planned) {
    muster_runtime *runtime = function->object.runtime;
    mst_plan *plan = &function->plan;
    const bool input = index < function->input_count;
    char what[160];
    snprintf(what, sizeof what, "%s '%s' of function '%s'", input ? "input" : "output",
             (input ? &function->inputs[index] : &function->outputs[index - function->input_count])->name, mst_function_name(function));
    MUSTER_TRY(mst_runtime_check_placed(runtime, *planned, where, what));
    plan->on_device = true;
    if (mst_device_is_host(runtime->devices[planned->device])) return MUSTER_OK;
    if (!plan->placed) {
        MUSTER_TRY(places_make(function, where));
        for (int64_t i = 0; i < function->input_count + function->output_count; i++) plan->places[i].tensor = muster_tensor_none();
        plan->placed = true;
    }
    mst_place *place = &plan->places[index];
    place->tensor = *planned;
    place->fetched = false;
    memset(place->access, MST_ACCESS_BY_HOST, (size_t)runtime->size);
    if (!input || !function->inputs[index].host)
        for (int32_t r = 0; r < runtime->size; r++) MUSTER_TRY(find_access(runtime, place, r, &place->access[r]));
    *planned = muster_tensor_make(planned->dtype, NULL, planned->ndim, planned->shape);
    return MUSTER_OK;
}

/* ---- through host memory ---- */

static muster_tensor place_rows(muster_tensor tensor, int64_t begin, int64_t end) {
    return tensor.ndim ? muster_tensor_slice(tensor, begin, end) : tensor;
}

static muster_status place_reserve(const mst_call *call, int64_t index, const char *where, muster_tensor *host_copy) {
    muster_function *function = call->function;
    mst_place *place = &function->plan.places[index];
    mst_device *device = function->object.runtime->devices[place->tensor.device];
    if (place->host_copy_rank != place->tensor.device) {
        mst_locked_store_free(function->object.runtime->devices[place->host_copy_rank], &place->host_copy);
        place->host_copy_rank = place->tensor.device;
    }
    const int64_t bytes = mst_tensor_bytes(place->tensor);
    MUSTER_TRY(mst_locked_store_reserve(device, &place->host_copy, bytes > 0 ? bytes : 1, where));
    function->plan.addresses[index] = place->host_copy.address;
    *host_copy = muster_tensor_make(place->tensor.dtype, place->host_copy.address, place->tensor.ndim, place->tensor.shape);
    return MUSTER_OK;
}

static muster_status fetch_rows(const mst_call *call, int64_t input, int64_t begin, int64_t end, const char *where) {
    muster_tensor host_copy;
    MUSTER_TRY(place_reserve(call, input, where, &host_copy));
    return mst_runtime_copy_placed(call->function->object.runtime, place_rows(call->function->plan.places[input].tensor, begin, end),
                                   place_rows(host_copy, begin, end), where);
}

muster_status mst_place_fetch(const mst_call *call, int64_t input, const char *where) {
    mst_place *place = &call->function->plan.places[input];
    MUSTER_TRY(fetch_rows(call, input, 0, muster_tensor_rows(place->tensor), where));
    place->fetched = true;
    return MUSTER_OK;
}

/* What the rank reads: of a list of rows and of a broadcast input everything, which is then fetched
 * once. */
static muster_status fetch_for_rank(const mst_call *call, int64_t input, int32_t rank, bool *all, const char *where) {
    const mst_plan *plan = &call->function->plan;
    const int32_t count = mst_call_shards_per_rank(call), mode = call->function->inputs[input].mode;
    const mst_logical_shard *first = &call->shards[rank * count], *last = &first[count - 1];
    const muster_tensor tensor = plan->places[input].tensor;
    if (mode == MUSTER_BROADCAST || (mode == MUSTER_SCATTER && !plan->packed[input] && plan->batch.kind == MUSTER_SELECT_LIST)) {
        *all = true;
        return fetch_rows(call, input, 0, muster_tensor_rows(tensor), where);
    }
    const int64_t rows = last->first_row + last->rows - first->first_row, at = mst_call_tensor_row(call, first, input);
    const int64_t begin = mode == MUSTER_SCATTER && !plan->packed[input] ? mst_selection_row(&plan->batch, at) : at;
    return rows ? fetch_rows(call, input, begin, begin + rows, where) : MUSTER_OK;
}

muster_status mst_places_fetch(const mst_call *call, const char *where) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_place *place = mst_input_place(call, i);
        bool all = place && place->fetched;
        for (int32_t r = 0; place && r < call->size && !all; r++)
            if (place->access[r] == MST_ACCESS_BY_HOST) MUSTER_TRY(fetch_for_rank(call, i, r, &all, where));
    }
    return MUSTER_OK;
}

muster_status mst_place_reserve(const mst_call *call, int64_t output, const char *where) {
    muster_tensor host_copy;
    return place_reserve(call, call->function->input_count + output, where, &host_copy);
}

muster_status mst_place_deliver(const mst_call *call, int64_t output, int64_t begin, int64_t end, const char *where) {
    const mst_place *place = mst_output_place(call, output);
    const muster_tensor host_copy =
        muster_tensor_make(place->tensor.dtype, place->host_copy.address, place->tensor.ndim, place->tensor.shape);
    return mst_runtime_copy_placed(call->function->object.runtime, place_rows(host_copy, begin, end), place_rows(place->tensor, begin, end),
                                   where);
}

/* ---- on a worker that can address the memory ---- */

/* Rows of a list, which the device gathers. The list itself goes into scratch memory. */
static muster_status stage_listed(muster_worker *worker, muster_tensor source, muster_tensor to, const int64_t *indices) {
    const int64_t count = to.shape[0], bytes = count * (int64_t)sizeof *indices;
    void *list;
    if (!mst_tensor_contiguous(source)) {
        for (int64_t i = 0; i < count; i++)
            MUSTER_TRY(muster_copy(worker, muster_tensor_slice(source, indices[i], indices[i] + 1), muster_tensor_slice(to, i, i + 1)));
        return MUSTER_OK;
    }
    MUSTER_TRY(mst_worker_scratch_bytes(worker, bytes, &list));
    MUSTER_TRY(worker->device->memory->copy_in(worker->device, list, indices, bytes));
    return mst_worker_gather_rows(worker, muster_tensor_address(to), muster_tensor_address(source), mst_row_bytes(source), list, count);
}

muster_status mst_place_stage(mst_call *call, muster_worker *worker, int64_t input, const muster_selection *selection, int64_t begin,
                              int64_t end) {
    const mst_place *place = mst_input_place(call, input);
    mst_rank *rank = mst_call_rank(call, worker);
    const bool broadcast = call->function->inputs[input].mode == MUSTER_BROADCAST, listed = selection->kind == MUSTER_SELECT_LIST;
    muster_tensor source = place->tensor, rows = source;
    source.device = rows.device = worker->rank; /* which can address the memory */
    if (!broadcast && !listed) {
        const int64_t first = mst_selection_row(selection, begin);
        rows = muster_tensor_slice(source, first, first + end - begin);
    }
    rank->in[input] = rows;
    if (!listed && place->access[worker->rank] == MST_ACCESS_IN_PLACE) return MUSTER_OK;
    if (listed) rows.shape[0] = end - begin;
    muster_tensor to = muster_tensor_make(rows.dtype, rank->staged[MST_CHUNKS * input].address, rows.ndim, rows.shape);
    to.device = worker->rank;
    rank->in[input] = to;
    if (muster_tensor_count(to) == 0) return MUSTER_OK;
    if (listed) return stage_listed(worker, source, to, selection->indices + begin);
    if (!mst_tensor_contiguous(rows)) return muster_copy(worker, rows, to);
    return worker->device->memory->copy(worker->device, muster_tensor_address(to), muster_tensor_address(rows), mst_tensor_bytes(to));
}
