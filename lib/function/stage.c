/* Stages the rows of a worker. On the host a contiguous selection is a view, and each worker copies
 * its own rows of an index list. For other devices all rows are copied. If the device has a queue
 * for copies, it copies the rows of one slice while it computes the slice before. */
#include "call_private.h"
#include "ops_impl.h"
#include "place_private.h"

#include <string.h>
#include <time.h>

static const muster_selection all_rows = {.kind = MUSTER_SELECT_ALL};

static muster_tensor device_view(muster_tensor like, void *address, int32_t rank) {
    muster_tensor view = like;
    mst_tensor_set_strides(&view);
    view.data = address;
    view.byte_offset = 0;
    view.device = rank;
    return view;
}

bool mst_stage_overlaps(const mst_call *call, const mst_device *device) {
    const bool several = call->function->plan.slices > 1 || mst_call_shards_per_rank(call) > 1;
    return several && device->queue;
}

/* ---- rows to a device with memory of its own ---- */

typedef struct load {
    muster_worker *worker;
    mst_rank *rank;
    int64_t input;
    int64_t chunk; /* -1: not overlapped; copied in the compute queue */
} load;

static mst_store *stage_chunk_memory(const load *l) {
    return &l->rank->staged[MST_CHUNKS * l->input + (l->chunk < 0 ? 0 : l->chunk % MST_CHUNKS)];
}
static mst_store *stage_bounce(const load *l) {
    return &l->rank->pinned_bounce[MST_CHUNKS * l->input + (l->chunk < 0 ? 0 : l->chunk % MST_CHUNKS)];
}

static muster_status copy_to_device(const load *l, int64_t offset, const void *from, int64_t bytes) {
    mst_device *device = l->worker->device;
    void *to = (char *)stage_chunk_memory(l)->address + offset;
    return l->chunk < 0 ? device->memory->copy_in(device, to, from, bytes) : device->queue->copy_in_async(device, to, from, bytes);
}

/* Waits until the device has copied the packed rows of the chunk that used the same bounce memory
 * before. This is the only wait of the host between two slices, and it has ended by then unless
 * copying takes longer than computing. */
static muster_status stage_wait_for_bounce(const load *l) {
    mst_device *device = l->worker->device;
    mst_device_event *come = l->rank->come[l->chunk % MST_CHUNKS];
    bool done = false;
    MUSTER_TRY(mst_device_event_query(come, &done));
    for (int32_t polls = 0; !done; polls++) {
        if (device->interrupt) MUSTER_TRY(device->interrupt(device->interrupt_user));
        if (polls > 100) nanosleep(&(struct timespec){0, 20000}, NULL);
        MUSTER_TRY(mst_device_event_query(come, &done));
    }
    return MUSTER_OK;
}

/* The number of bytes packed before their copy is issued; the device copies them while the next
 * bytes are packed. */
enum { PART_BYTES = 1 << 20 };

static muster_status pack_and_copy(const load *l, muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    char *packed = stage_bounce(l)->address;
    const int64_t row_bytes = source.shape[0] ? mst_tensor_bytes(source) / source.shape[0] : 0;
    if (l->chunk >= MST_CHUNKS) MUSTER_TRY(stage_wait_for_bounce(l));
    const int64_t rows = row_bytes == 0 || row_bytes > PART_BYTES ? 1 : PART_BYTES / row_bytes;
    for (int64_t at = begin; at < end && row_bytes; at += rows) {
        const int64_t last = end - at < rows ? end : at + rows, offset = (at - begin) * row_bytes;
        mst_selection_pack(selection, source, at, last, packed + offset);
        MUSTER_TRY(copy_to_device(l, offset, packed + offset, (last - at) * row_bytes));
    }
    return MUSTER_OK;
}

/* A view of positions [begin, end), whose rows are one after the other in the caller's memory. */
static muster_tensor stage_view_rows(muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    const int64_t first = mst_selection_row(selection, begin);
    return muster_tensor_slice(source, first, first + (end - begin));
}

/* Nothing grows here, because mst_call_reserve has reserved the memory of the chunk. */
static muster_status load_rows(const load *l, muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end) {
    if (selection->kind != MUSTER_SELECT_LIST) {
        const muster_tensor rows = stage_view_rows(source, selection, begin, end);
        if (mst_tensor_contiguous(rows)) return copy_to_device(l, 0, muster_tensor_address(rows), mst_tensor_bytes(rows));
    }
    return pack_and_copy(l, source, selection, begin, end);
}

/* A broadcast input in host memory, which mst_wholes_copy has copied if need be. */
static inline muster_tensor stage_whole(const muster_function *function, int64_t input, muster_tensor source) {
    const uint8_t form = function->plan.forms[input];
    if (__builtin_expect(form != MST_FORM_SAME, 0)) {
        mst_tensor_set_strides(&source);
        if (form == MST_FORM_COPY) source.data = function->wholes[input].address;
    }
    return source;
}

/* Rows that lie in the caller's memory as the body wants them. */
static inline muster_tensor stage_view(muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end, uint8_t form) {
    muster_tensor view = stage_view_rows(source, selection, begin, end);
    if (__builtin_expect(form == MST_FORM_STRIDES, 0)) mst_tensor_set_strides(&view);
    return view;
}

/* Packs rows [begin, end) that an index list selects, or that are not contiguous. */
static muster_tensor stage_pack(muster_worker *worker, muster_tensor source, const muster_selection *selection, int64_t begin, int64_t end,
                                void *to, uint8_t form) {
    muster_tensor view = source;
    view.shape[0] = end - begin;
    const uint64_t event = form == MST_FORM_COPY ? mst_record_begin(&worker->recorder, MST_EVENT_STAGE, "copy of a strided input",
                                                                    worker->epoch, mst_tensor_bytes(view))
                                                 : 0;
    mst_selection_pack(selection, source, begin, end, to);
    if (form == MST_FORM_COPY) mst_record_end(&worker->recorder, event);
    return device_view(view, to, worker->rank);
}

static muster_status stage_broadcast(muster_worker *worker, mst_rank *rank, int64_t input, muster_tensor source) {
    if (mst_device_is_host(worker->device)) {
        rank->in[input] = stage_whole(rank->call->function, input, source);
        rank->in[input].device = worker->rank;
        return MUSTER_OK;
    }
    const load l = {worker, rank, input, -1};
    const void *from = muster_tensor_address(source);
    if (!mst_tensor_contiguous(source)) {
        mst_tensor_pack(stage_bounce(&l)->address, source);
        from = stage_bounce(&l)->address;
    }
    MUSTER_TRY(copy_to_device(&l, 0, from, mst_tensor_bytes(source)));
    rank->in[input] = device_view(source, stage_chunk_memory(&l)->address, worker->rank);
    return MUSTER_OK;
}

static muster_tensor stage_source(const mst_plan *plan, int64_t input) {
    muster_tensor source = plan->inputs[input];
    source.data = plan->addresses[input];
    source.byte_offset = 0;
    source.device = MUSTER_DEVICE_HOST;
    return source;
}

static const muster_selection *stage_selection(const muster_function *function, int64_t input) {
    return function->inputs[input].mode == MUSTER_SCATTER && !function->plan.packed[input] ? &function->plan.batch : &all_rows;
}

/* Of an input in the memory of a device: this worker needs no copy in host memory. */
static inline bool addresses_memory(const mst_call *call, const muster_worker *worker, int64_t input) {
    const mst_place *place = mst_input_place(call, input);
    return place && place->access[worker->rank] != MST_ACCESS_BY_HOST;
}

/* Issues the copies of rows [begin, end) of the shard, as the rank's next chunk, after the work
 * that reads the chunk before it in the same memory. */
static muster_status stage_load_chunk(mst_call *call, muster_worker *worker, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    mst_device *device = worker->device;
    mst_rank *rank = mst_call_rank(call, worker);
    const int64_t chunk = rank->chunks++;
    if (chunk >= MST_CHUNKS) MUSTER_TRY(mst_device_event_wait(device, MST_QUEUE_COPY, rank->used[chunk % MST_CHUNKS]));
    for (int64_t i = 0; i < function->input_count; i++) {
        if (function->inputs[i].mode == MUSTER_BROADCAST || function->inputs[i].host || addresses_memory(call, worker, i)) continue;
        const load l = {worker, rank, i, chunk};
        const int64_t first = mst_call_tensor_row(call, rank->shard, i);
        MUSTER_TRY(load_rows(&l, stage_source(&function->plan, i), stage_selection(function, i), first + begin, first + end));
    }
    return mst_device_event_record(rank->come[chunk % MST_CHUNKS], MST_QUEUE_COPY);
}

muster_status mst_stage_used(mst_call *call, muster_worker *worker, int64_t next, int64_t begin, int64_t end) {
    mst_rank *rank = mst_call_rank(call, worker);
    rank->ahead = -1;
    MUSTER_TRY(mst_device_event_record(rank->used[(rank->chunks - 1) % MST_CHUNKS], MST_QUEUE_COMPUTE));
    if (next < 0) return MUSTER_OK;
    MUSTER_TRY(stage_load_chunk(call, worker, begin, end));
    rank->ahead = next;
    return MUSTER_OK;
}

/* ---- one slice ---- */

/* An input that the body reads in host memory: the caller's memory or, for an index list, rows that
 * this worker packs. Nothing reads the packed rows of the slice before: its body has returned. */
static muster_status stage_on_host(mst_call *call, muster_worker *worker, int64_t input, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    muster_tensor *view = &rank->in[input];
    const muster_selection *selection = stage_selection(function, input);
    const muster_tensor source = stage_source(&function->plan, input);
    const uint8_t form = function->plan.forms[input];
    if (function->inputs[input].mode == MUSTER_BROADCAST) {
        *view = stage_whole(function, input, source);
        return MUSTER_OK;
    }
    if (form < MST_FORM_COPY) {
        *view = stage_view(source, selection, begin, end, form);
        return MUSTER_OK;
    }
    mst_store *packed = &rank->pinned_bounce[MST_CHUNKS * input];
    if (mst_device_is_host(worker->device)) {
        packed = &rank->staged[MST_CHUNKS * input];
        MUSTER_TRY(mst_worker_store_reserve(worker, packed, (end - begin) * mst_row_bytes(source)));
    }
    *view = stage_pack(worker, source, selection, begin, end, packed->address, form);
    view->device = MUSTER_DEVICE_HOST;
    return MUSTER_OK;
}

static muster_status stage_rows(mst_call *call, muster_worker *worker, int64_t input, bool overlapped, int64_t begin, int64_t end) {
    mst_rank *rank = mst_call_rank(call, worker);
    const muster_tensor source = stage_source(&call->function->plan, input);
    const muster_selection *selection = stage_selection(call->function, input);
    muster_tensor view = source;
    view.shape[0] = end - begin;
    if (mst_device_is_host(worker->device)) {
        const uint8_t form = call->function->plan.forms[input];
        if (form < MST_FORM_COPY) {
            rank->in[input] = stage_view(source, selection, begin, end, form);
            rank->in[input].device = worker->rank;
            return MUSTER_OK;
        }
        mst_store *packed = &rank->staged[MST_CHUNKS * input];
        MUSTER_TRY(mst_worker_store_reserve(worker, packed, mst_tensor_bytes(view)));
        rank->in[input] = stage_pack(worker, source, selection, begin, end, packed->address, form);
        return MUSTER_OK;
    }
    const load l = {worker, rank, input, overlapped ? rank->chunks - 1 : -1};
    if (!overlapped) {
        /* A copy for the previous shard may still read the packed rows. */
        if (call->function->plan.slices > 1 || mst_call_shards_per_rank(call) > 1) MUSTER_TRY(mst_worker_sync(worker));
        MUSTER_TRY(load_rows(&l, source, selection, begin, end));
    }
    rank->in[input] = device_view(view, stage_chunk_memory(&l)->address, worker->rank);
    return MUSTER_OK;
}

/* Stages positions [begin, end) of the rows that replica_batch selects: a view or, for an index
 * list, a copy on the device. */
static muster_status stage_variable(muster_worker *worker, mst_rank *rank, int64_t u, muster_tensor replica,
                                    const muster_selection *selection, int64_t begin, int64_t end) {
    if (selection->kind != MUSTER_SELECT_LIST) {
        const int64_t first = mst_selection_row(selection, begin);
        rank->views[u] = muster_tensor_slice(replica, first, first + (end - begin));
        return MUSTER_OK;
    }
    const int64_t *indices = selection->indices + begin;
    muster_tensor view = replica;
    view.shape[0] = end - begin;
    const int64_t row_bytes = replica.shape[0] ? mst_tensor_bytes(replica) / replica.shape[0] : 0,
                  index_bytes = (end - begin) * (int64_t)sizeof *indices;
    MUSTER_TRY(mst_worker_store_reserve(worker, &rank->gathered_rows[u], mst_tensor_bytes(view)));
    if (!mst_device_is_host(worker->device)) { /* the device gathers the rows */
        MUSTER_TRY(mst_worker_store_reserve(worker, &rank->lists[u], index_bytes));
        MUSTER_TRY(worker->device->memory->copy_in(worker->device, rank->lists[u].address, indices, index_bytes));
        indices = rank->lists[u].address;
    }
    MUSTER_TRY(
        mst_worker_gather_rows(worker, rank->gathered_rows[u].address, muster_tensor_address(replica), row_bytes, indices, end - begin));
    rank->views[u] = device_view(view, rank->gathered_rows[u].address, worker->rank);
    return MUSTER_OK;
}

static int64_t stage_selected_rows(const muster_selection *selection, int64_t rows) {
    switch (selection->kind) {
    case MUSTER_SELECT_COUNT:
        return selection->stop;
    case MUSTER_SELECT_RANGE:
        return selection->stop - selection->start;
    case MUSTER_SELECT_LIST:
        return selection->index_count;
    default:
        return rows;
    }
}

/* The row of a variable that belongs to position `at` of the shard. A slice without rows gets no
 * rows of the variable either. */
static int64_t variable_edge(const mst_logical_shard *shard, int64_t rows, int64_t slices, int64_t slice, int64_t at) {
    return shard->rows ? (int64_t)((__int128)rows * at / shard->rows) : mst_slice_edge(rows, slices, slice);
}

static muster_status stage_variables(mst_call *call, muster_worker *worker, mst_rank *rank, int64_t slice, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_use *use = &function->uses[u];
        const muster_tensor replica = mst_variable_tensor(use->variable, worker->rank);
        if (!use->sliceable) {
            rank->views[u] = replica;
            continue;
        }
        const mst_logical_shard *shard = rank->shard;
        const muster_selection *chosen =
            plan->replica_batch_count
                ? &plan->replica_batch[plan->replica_batch_count == 1 ? 0 : call->first_shard + mst_call_shard_number(call, shard)]
                : &all_rows;
        const int64_t rows = stage_selected_rows(chosen, replica.shape[0]);
        const int64_t first = variable_edge(shard, rows, plan->slices, slice, begin),
                      last = variable_edge(shard, rows, plan->slices, slice + 1, end);
        MUSTER_TRY(stage_variable(worker, rank, u, replica, chosen, first, last));
    }
    return MUSTER_OK;
}

/* Issues the copies of the slice's rows unless they have been issued, and makes the compute queue
 * wait for them. */
static muster_status stage_next_chunk(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end) {
    mst_device *device = worker->device;
    mst_rank *rank = mst_call_rank(call, worker);
    if (rank->ahead != slice) MUSTER_TRY(stage_load_chunk(call, worker, begin, end));
    return mst_device_event_wait(device, MST_QUEUE_COMPUTE, rank->come[(rank->chunks - 1) % MST_CHUNKS]);
}

muster_status mst_stage(mst_call *call, muster_worker *worker, int64_t slice, int64_t begin, int64_t end) {
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    const bool overlapped = function->plan.overlapped && mst_stage_overlaps(call, worker->device);
    if (overlapped) MUSTER_TRY(stage_next_chunk(call, worker, slice, begin, end));
    for (int64_t i = 0; i < function->input_count; i++) {
        const bool broadcast = function->inputs[i].mode == MUSTER_BROADCAST;
        if (broadcast && rank->broadcast_staged && !function->inputs[i].host) continue;
        const int64_t first = mst_call_tensor_row(call, rank->shard, i);
        if (function->inputs[i].host)
            MUSTER_TRY(stage_on_host(call, worker, i, first + begin, first + end));
        else if (addresses_memory(call, worker, i))
            MUSTER_TRY(mst_place_stage(call, worker, i, stage_selection(function, i), first + begin, first + end));
        else if (!broadcast)
            MUSTER_TRY(stage_rows(call, worker, i, overlapped, first + begin, first + end));
        else
            MUSTER_TRY(stage_broadcast(worker, rank, i, stage_source(&function->plan, i)));
    }
    rank->broadcast_staged = true;
    return stage_variables(call, worker, rank, slice, begin, end);
}
