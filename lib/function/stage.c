/* Bringing a worker its rows. On the host a contiguous choice of rows is a view; index lists are copied by each worker for itself; other devices get a
 * copy of everything. */
#include "function_impl.h"

#include <string.h>

static const muster_selection all_rows = {.kind = MUSTER_ALL};

static muster_tensor device_view(muster_tensor like, void *address, int32_t rank) {
    muster_tensor view = like;
    int64_t stride = 1;
    for (int32_t d = like.ndim - 1; d >= 0; d--) {
        view.strides[d] = stride;
        stride *= like.shape[d] > 0 ? like.shape[d] : 1;
    }
    view.data = address;
    view.byte_offset = 0;
    view.device = rank;
    return view;
}

/* Host rows that lie ready in memory, to the device. */
static muster_status copy_to_device(muster_worker *worker, mst_store *store, const void *from, int64_t bytes) {
    mst_device *device = worker->device;
    MUSTER_TRY(mst_device_store_reserve(device, store, bytes));
    return device->table->copy_in(device, store->address, from, bytes);
}

/* Positions [begin, end) of `selection`, packed by this worker, then moved to the device if that has memory of its own. */
static muster_status pack(muster_worker *worker, mst_rank *rank, int64_t input, muster_tensor source, const muster_selection *selection, int64_t begin,
                          int64_t end, int64_t bytes) {
    mst_device *device = worker->device;
    if (mst_device_is_host(device)) {
        MUSTER_TRY(mst_device_store_reserve(device, &rank->staged[input], bytes));
        mst_selection_pack(selection, source, begin, end, rank->staged[input].address);
        return MUSTER_OK;
    }
    MUSTER_TRY(device->table->sync(device)); /* a copy of the slice before may still read the packed rows */
    MUSTER_TRY(mst_host_store_reserve(&rank->bounce[input], bytes, "muster_function_call: packed rows"));
    mst_selection_pack(selection, source, begin, end, rank->bounce[input].address);
    return copy_to_device(worker, &rank->staged[input], rank->bounce[input].address, bytes);
}

static muster_status stage_rows(muster_worker *worker, mst_rank *rank, int64_t input, muster_tensor source, const muster_selection *selection, int64_t begin,
                                int64_t end) {
    muster_tensor view = source;
    view.shape[0] = end - begin;
    if (selection->kind != MUSTER_LIST) {
        const int64_t first = mst_selection_row(selection, begin);
        view = muster_tensor_slice(source, first, first + (end - begin));
        view.device = worker->rank;
        if (mst_device_is_host(worker->device)) {
            rank->in[input] = view;
            return MUSTER_OK;
        }
    }
    const int64_t bytes = mst_tensor_bytes(view);
    if (selection->kind != MUSTER_LIST && mst_tensor_contiguous(view)) {
        MUSTER_TRY(copy_to_device(worker, &rank->staged[input], muster_tensor_address(view), bytes));
    } else {
        MUSTER_TRY(pack(worker, rank, input, source, selection, begin, end, bytes));
    }
    rank->in[input] = device_view(view, rank->staged[input].address, worker->rank);
    return MUSTER_OK;
}

static muster_status stage_whole(muster_worker *worker, mst_rank *rank, int64_t input, muster_tensor source) {
    if (mst_device_is_host(worker->device)) {
        rank->in[input] = source;
        rank->in[input].device = worker->rank;
        return MUSTER_OK;
    }
    const int64_t bytes = mst_tensor_bytes(source);
    const void *from = muster_tensor_address(source);
    if (!mst_tensor_contiguous(source)) {
        MUSTER_TRY(worker->device->table->sync(worker->device));
        MUSTER_TRY(mst_host_store_reserve(&rank->bounce[input], bytes, "muster_function_call: packed input"));
        mst_tensor_pack(rank->bounce[input].address, source);
        from = rank->bounce[input].address;
    }
    MUSTER_TRY(copy_to_device(worker, &rank->staged[input], from, bytes));
    rank->in[input] = device_view(source, rank->staged[input].address, worker->rank);
    return MUSTER_OK;
}

/* Positions [begin, end) of the rows that batch_s chose, as a view or, for a list, as a copy on the device. */
static muster_status stage_variable(muster_worker *worker, mst_rank *rank, int64_t u, muster_tensor whole, const muster_selection *selection, int64_t begin,
                                    int64_t end) {
    if (selection->kind != MUSTER_LIST) {
        const int64_t first = mst_selection_row(selection, begin);
        rank->views[u] = muster_tensor_slice(whole, first, first + (end - begin));
        return MUSTER_OK;
    }
    mst_device *device = worker->device;
    muster_tensor view = whole;
    view.shape[0] = end - begin;
    const int64_t row_bytes = whole.shape[0] ? mst_tensor_bytes(whole) / whole.shape[0] : 0;
    MUSTER_TRY(mst_device_store_reserve(device, &rank->picked[u], mst_tensor_bytes(view)));
    for (int64_t p = begin; p < end && row_bytes; p++) {
        const char *from = (const char *)muster_tensor_address(whole) + mst_selection_row(selection, p) * row_bytes;
        MUSTER_TRY(device->table->copy(device, (char *)rank->picked[u].address + (p - begin) * row_bytes, from, row_bytes));
    }
    rank->views[u] = device_view(view, rank->picked[u].address, worker->rank);
    return MUSTER_OK;
}

static int64_t selected_rows(const muster_selection *selection, int64_t rows) {
    switch (selection->kind) {
    case MUSTER_COUNT: return selection->stop;
    case MUSTER_RANGE: return selection->stop - selection->start;
    case MUSTER_LIST: return selection->index_count;
    default: return rows;
    }
}

/* Edge of a variable's rows that goes with position `at` of the share, so that a slice without rows gets none of the variable's either. */
static int64_t variable_edge(const mst_share *share, int64_t rows, int64_t slices, int64_t slice, int64_t at) {
    return share->rows ? (int64_t)((__int128)rows * at / share->rows) : mst_slice_edge(rows, slices, slice);
}

static muster_status stage_variables(mst_call *call, muster_worker *worker, mst_rank *rank, int64_t slice, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_use *use = &function->uses[u];
        const muster_tensor whole = mst_variable_tensor(use->variable, worker->rank);
        if (!use->sliceable) {
            rank->views[u] = whole;
            continue;
        }
        const mst_share *share = rank->share;
        const muster_selection *chosen = plan->batch_s_count ? &plan->batch_s[plan->batch_s_count == 1 ? 0 : mst_share_number(call, share)] : &all_rows;
        const int64_t rows = selected_rows(chosen, whole.shape[0]);
        const int64_t first = variable_edge(share, rows, plan->slices, slice, begin), last = variable_edge(share, rows, plan->slices, slice + 1, end);
        MUSTER_TRY(stage_variable(worker, rank, u, whole, chosen, first, last));
    }
    return MUSTER_OK;
}

muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    for (int64_t i = 0; i < function->input_count; i++) {
        muster_tensor source = plan->inputs[i];
        source.data = plan->addresses[i];
        source.byte_offset = 0;
        switch (function->inputs[i].mode) {
        case MUSTER_BROADCAST:
            if (!rank->staged_whole) MUSTER_TRY(stage_whole(worker, rank, i, source));
            break;
        case MUSTER_SCATTER: MUSTER_TRY(stage_rows(worker, rank, i, source, &plan->batch, rank->share->first_row + begin, rank->share->first_row + end)); break;
        default: MUSTER_TRY(stage_rows(worker, rank, i, source, &all_rows, rank->share->first_row + begin, rank->share->first_row + end)); break;
        }
    }
    rank->staged_whole = true;
    return stage_variables(call, worker, rank, slice, begin, end);
}
