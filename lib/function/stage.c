/* Bringing a worker its rows. On the host a contiguous choice of rows is a view; index lists are
 * copied by each worker for itself; other devices get a copy of everything, of several slices one
 * beside the computing of the one before, where the device has a queue for that. */
#include "function_impl.h"
#include "mover_impl.h"
#include "ops_impl.h"

#include <string.h>
#include <time.h>

_Static_assert((int)MST_FUNCTION_MARKS == (int)MST_MARK_FUNCTION && MST_FUNCTION_MARKS + 2 * MST_PIECES <= MST_MARKS,
               "slots of marks are shared with collectives");

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

bool mst_stage_beside(const mst_call *call, const mst_device *device) {
    const mst_device_table *table = device->table;
    const bool several = call->function->plan.slices > 1 || mst_call_shares_of_rank(call) > 1;
    return several && table->copy_in_beside && table->mark && table->wait_mark;
}

/* ---- rows to a device with memory of its own ---- */

typedef struct load {
    muster_worker *worker;
    mst_rank *rank;
    int64_t input;
    int64_t piece; /* -1: one piece, through the queue of the computing */
} load;

static mst_store *staged_at(const load *l) { return &l->rank->staged[MST_PIECES * l->input + (l->piece < 0 ? 0 : l->piece % MST_PIECES)]; }
static mst_store *bounce_at(const load *l) { return &l->rank->bounce[MST_PIECES * l->input + (l->piece < 0 ? 0 : l->piece % MST_PIECES)]; }

static muster_status copy_to_device(const load *l, int64_t offset, const void *from, int64_t bytes) {
    mst_device *device = l->worker->device;
    void *to = (char *)staged_at(l)->address + offset;
    return l->piece < 0 ? device->table->copy_in(device, to, from, bytes) : device->table->copy_in_beside(device, to, from, bytes);
}

/* Packed rows of the piece two before lie where the next are to be packed: they must have left.
 * This is the only wait of the host between two slices, and one that is over unless copying takes
 * longer than computing. */
static muster_status wait_for_bounce(muster_worker *worker, int64_t piece) {
    mst_device *device = worker->device;
    bool done = false;
    if (!device->table->reached) return mst_worker_sync(worker);
    MUSTER_TRY(device->table->reached(device, mst_mark_come(piece), &done));
    for (int32_t looks = 0; !done; looks++) {
        if (device->interrupt) MUSTER_TRY(device->interrupt(device->interrupt_user));
        if (looks > 100) nanosleep(&(struct timespec){0, 20000}, NULL);
        MUSTER_TRY(device->table->reached(device, mst_mark_come(piece), &done));
    }
    return MUSTER_OK;
}

/* How much is packed before it sets out: the device copies one such part while the next is being
 * packed. */
enum { PART_BYTES = 1 << 20 };

static muster_status pack_and_copy(const load *l, muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    char *packed = bounce_at(l)->address;
    const int64_t row_bytes = source.shape[0] ? mst_tensor_bytes(source) / source.shape[0] : 0;
    if (l->piece >= MST_PIECES) MUSTER_TRY(wait_for_bounce(l->worker, l->piece));
    const int64_t rows = row_bytes == 0 || row_bytes > PART_BYTES ? 1 : PART_BYTES / row_bytes;
    for (int64_t at = begin; at < end && row_bytes; at += rows) {
        const int64_t last = end - at < rows ? end : at + rows, offset = (at - begin) * row_bytes;
        mst_selection_pack(selection, source, at, last, packed + offset);
        MUSTER_TRY(copy_to_device(l, offset, packed + offset, (last - at) * row_bytes));
    }
    return MUSTER_OK;
}

/* The view of positions [begin, end) where they lie one behind the other in the caller's memory. */
static muster_tensor rows_of(muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    const int64_t first = mst_selection_row(selection, begin);
    return muster_tensor_slice(source, first, first + (end - begin));
}

/* The piece's memory is there: mst_call_reserve has seen to it, and here nothing grows. */
static muster_status load_rows(const load *l, muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    if (selection->kind != MUSTER_LIST) {
        const muster_tensor rows = rows_of(source, selection, begin, end);
        if (mst_tensor_contiguous(rows)) return copy_to_device(l, 0, muster_tensor_address(rows), mst_tensor_bytes(rows));
    }
    return pack_and_copy(l, source, selection, begin, end);
}

static muster_status stage_whole(muster_worker *worker, mst_rank *rank, int64_t input, muster_tensor source) {
    if (mst_device_is_host(worker->device)) {
        rank->in[input] = source;
        rank->in[input].device = worker->rank;
        return MUSTER_OK;
    }
    const load l = {worker, rank, input, -1};
    const void *from = muster_tensor_address(source);
    if (!mst_tensor_contiguous(source)) {
        mst_tensor_pack(bounce_at(&l)->address, source);
        from = bounce_at(&l)->address;
    }
    MUSTER_TRY(copy_to_device(&l, 0, from, mst_tensor_bytes(source)));
    rank->in[input] = device_view(source, staged_at(&l)->address, worker->rank);
    return MUSTER_OK;
}

static muster_tensor source_of(const mst_plan *plan, int64_t input) {
    muster_tensor source = plan->inputs[input];
    source.data = plan->addresses[input];
    source.byte_offset = 0;
    return source;
}

static const muster_selection *selection_of(const muster_function *function, int64_t input) {
    return function->inputs[input].mode == MUSTER_SCATTER ? &function->plan.batch : &all_rows;
}

/* Rows [begin, end) of the share set out as the rank's next piece. What read the piece before it in
 * the same memory comes first. */
static muster_status load_piece(mst_call *call, muster_worker *worker, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    mst_device *device = worker->device;
    mst_rank *rank = mst_call_rank(call, worker);
    const int64_t piece = rank->pieces++, first = rank->share->first_row;
    if (piece >= MST_PIECES) MUSTER_TRY(device->table->wait_mark(device, MST_QUEUE_COPY, device, mst_mark_used(piece)));
    for (int64_t i = 0; i < function->input_count; i++) {
        if (function->inputs[i].mode == MUSTER_BROADCAST) continue;
        const load l = {worker, rank, i, piece};
        MUSTER_TRY(load_rows(&l, source_of(&function->plan, i), selection_of(function, i), first + begin, first + end));
    }
    return device->table->mark(device, MST_QUEUE_COPY, mst_mark_come(piece));
}

muster_status mst_stage_used(mst_call *call, muster_worker *worker, int64_t next, int64_t begin, int64_t end) {
    mst_device *device = worker->device;
    mst_rank *rank = mst_call_rank(call, worker);
    rank->ahead = -1;
    MUSTER_TRY(device->table->mark(device, MST_QUEUE_COMPUTE, mst_mark_used(rank->pieces - 1)));
    if (next < 0) return MUSTER_OK;
    MUSTER_TRY(load_piece(call, worker, begin, end));
    rank->ahead = next;
    return MUSTER_OK;
}

/* ---- one slice ---- */

static muster_status stage_rows(mst_call *call, muster_worker *worker, int64_t input, bool beside, int64_t begin, int64_t end) {
    mst_rank *rank = mst_call_rank(call, worker);
    const muster_tensor source = source_of(&call->function->plan, input);
    const muster_selection *selection = selection_of(call->function, input);
    muster_tensor view = source;
    view.shape[0] = end - begin;
    if (mst_device_is_host(worker->device)) {
        if (selection->kind != MUSTER_LIST) {
            rank->in[input] = rows_of(source, selection, begin, end);
            rank->in[input].device = worker->rank;
            return MUSTER_OK;
        }
        mst_store *packed = &rank->staged[MST_PIECES * input];
        MUSTER_TRY(mst_worker_store_reserve(worker, packed, mst_tensor_bytes(view)));
        mst_selection_pack(selection, source, begin, end, packed->address);
        rank->in[input] = device_view(view, packed->address, worker->rank);
        return MUSTER_OK;
    }
    const load l = {worker, rank, input, beside ? rank->pieces - 1 : -1};
    if (!beside) {
        /* A copy of the share before may still read the packed rows. */
        if (worker->slices > 1 || mst_call_shares_of_rank(call) > 1) MUSTER_TRY(mst_worker_sync(worker));
        MUSTER_TRY(load_rows(&l, source, selection, begin, end));
    }
    rank->in[input] = device_view(view, staged_at(&l)->address, worker->rank);
    return MUSTER_OK;
}

/* Positions [begin, end) of the rows that batch_s chose, as a view or, for a list, as a copy on the
 * device. */
static muster_status stage_variable(muster_worker *worker, mst_rank *rank, int64_t u, muster_tensor whole,
                                    const muster_selection *selection, int64_t begin, int64_t end) {
    if (selection->kind != MUSTER_LIST) {
        const int64_t first = mst_selection_row(selection, begin);
        rank->views[u] = muster_tensor_slice(whole, first, first + (end - begin));
        return MUSTER_OK;
    }
    const int64_t *indices = selection->indices + begin;
    muster_tensor view = whole;
    view.shape[0] = end - begin;
    const int64_t row_bytes = whole.shape[0] ? mst_tensor_bytes(whole) / whole.shape[0] : 0,
                  index_bytes = (end - begin) * (int64_t)sizeof *indices;
    MUSTER_TRY(mst_worker_store_reserve(worker, &rank->picked[u], mst_tensor_bytes(view)));
    if (!mst_device_is_host(worker->device)) { /* the device looks the rows up for itself */
        MUSTER_TRY(mst_worker_store_reserve(worker, &rank->lists[u], index_bytes));
        MUSTER_TRY(worker->device->table->copy_in(worker->device, rank->lists[u].address, indices, index_bytes));
        indices = rank->lists[u].address;
    }
    MUSTER_TRY(mst_worker_gather_rows(worker, rank->picked[u].address, muster_tensor_address(whole), row_bytes, indices, end - begin));
    rank->views[u] = device_view(view, rank->picked[u].address, worker->rank);
    return MUSTER_OK;
}

static int64_t selected_rows(const muster_selection *selection, int64_t rows) {
    switch (selection->kind) {
    case MUSTER_COUNT:
        return selection->stop;
    case MUSTER_RANGE:
        return selection->stop - selection->start;
    case MUSTER_LIST:
        return selection->index_count;
    default:
        return rows;
    }
}

/* Edge of a variable's rows that goes with position `at` of the share, so that a slice without rows
 * gets none of the variable's either. */
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
        const muster_selection *chosen =
            plan->batch_s_count ? &plan->batch_s[plan->batch_s_count == 1 ? 0 : mst_share_number(call, share)] : &all_rows;
        const int64_t rows = selected_rows(chosen, whole.shape[0]);
        const int64_t first = variable_edge(share, rows, plan->slices, slice, begin),
                      last = variable_edge(share, rows, plan->slices, slice + 1, end);
        MUSTER_TRY(stage_variable(worker, rank, u, whole, chosen, first, last));
    }
    return MUSTER_OK;
}

/* The slice's rows, unless they are on their way; computing waits for them. */
static muster_status stage_piece(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end) {
    mst_device *device = worker->device;
    mst_rank *rank = mst_call_rank(call, worker);
    if (rank->ahead != slice) MUSTER_TRY(load_piece(call, worker, begin, end));
    return device->table->wait_mark(device, MST_QUEUE_COMPUTE, device, mst_mark_come(rank->pieces - 1));
}

muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    const bool beside = function->plan.beside && mst_stage_beside(call, worker->device);
    if (beside) MUSTER_TRY(stage_piece(call, worker, slice, begin, end));
    for (int64_t i = 0; i < function->input_count; i++) {
        if (function->inputs[i].mode != MUSTER_BROADCAST)
            MUSTER_TRY(stage_rows(call, worker, i, beside, rank->share->first_row + begin, rank->share->first_row + end));
        else if (!rank->staged_whole)
            MUSTER_TRY(stage_whole(worker, rank, i, source_of(&function->plan, i)));
    }
    rank->staged_whole = true;
    return stage_variables(call, worker, rank, slice, begin, end);
}
