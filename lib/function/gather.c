/* Gathered outputs. If the result has the rows of the shards, a host worker writes them in place.
 * If a body sets its own number of rows, each shard keeps its rows, and the caller's thread copies
 * them one after the other. */
#include "output_private.h"
#include "place_private.h"
#include "tensors_impl.h"

#include <stdio.h>
#include <string.h>

static muster_tensor target_of(const mst_call *call, int64_t i) {
    const muster_function *function = call->function;
    muster_tensor target = function->plan.outputs[i];
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    return target;
}

/* The same for a worker that addresses the caller's memory, also where host code cannot. */
static muster_tensor place_of(const mst_call *call, int64_t i) {
    const mst_place *place = mst_output_place(call, i);
    return place ? place->tensor : target_of(call, i);
}

static muster_tensor with_rows(muster_tensor like, void *address, int64_t rows, int32_t rank) {
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, like.shape, sizeof shape);
    shape[0] = rows;
    muster_tensor tensor = muster_tensor_make(like.dtype, address, like.ndim, shape);
    tensor.device = rank;
    return tensor;
}

/* The row of the caller's tensor at which the shard's rows begin, if every row is in its place. */
static int64_t place_row(const mst_call *call, const mst_logical_shard *shard, int64_t i) {
    return mst_call_tensor_row(call, shard, call->function->input_count + i);
}

static uint8_t form_of_output(const mst_call *call, int64_t i) { return call->function->plan.forms[call->function->input_count + i]; }

static bool fits_in_place(const mst_call *call, const muster_worker *worker, int64_t i) {
    return form_of_output(call, i) != MST_FORM_COPY && mst_used_in_place(mst_output_place(call, i), worker->device, worker->rank) &&
           mst_output_has_places(call, i);
}

/* Makes room for `rows` more rows in part->value and keeps the rows that it has. */
static muster_status gather_append(mst_call *call, muster_worker *worker, int64_t i, int64_t rows, muster_tensor *view) {
    mst_device *device = worker->device;
    mst_part *part = &mst_call_shard(call, worker)->parts[i];
    const muster_tensor like = call->function->plan.outputs[i];
    const int64_t bytes_per_row = mst_row_bytes(like);
    int64_t total_rows, bytes;
    if (__builtin_add_overflow(part->rows, rows, &total_rows) || !mst_multiply(total_rows, bytes_per_row, &bytes))
        return mst_error(MUSTER_OVERFLOW, "muster_worker_output_rows: rows: %lld rows of %lld bytes overflow", (long long)rows,
                         (long long)bytes_per_row);
    if (bytes > part->value.capacity || !part->value.address) {
        mst_store grown = {0};
        MUSTER_TRY(mst_worker_store_reserve(worker, &grown, bytes > INT64_MAX / 2 ? bytes : bytes + bytes / 2));
        muster_status status = device->memory->copy(device, grown.address, part->value.address, part->rows * bytes_per_row);
        if (!status) status = mst_worker_sync(worker);
        mst_store old = part->value;
        part->value = status ? old : grown;
        mst_device_store_free(device, status ? &grown : &old);
        MUSTER_TRY(status);
    }
    *view = with_rows(like, (char *)part->value.address + part->rows * bytes_per_row, rows, worker->rank);
    part->pending = rows;
    return MUSTER_OK;
}

muster_status mst_gather_prepare(mst_call *call, muster_worker *worker, int64_t i, int64_t begin, int64_t end) {
    mst_rank *rank = mst_call_rank(call, worker);
    const mst_logical_shard *shard = rank->shard;
    mst_part *part = &shard->parts[i];
    /* In both cases part->rows == begin: a part that is direct has the rows of all positions before
     * this slice, and before position 0 there are none. */
    const bool in_place = fits_in_place(call, worker, i) && (part->direct || begin == 0);
    part->pending = end - begin;
    if (!in_place) return gather_append(call, worker, i, end - begin, &rank->out[i]);
    part->direct = true;
    const int64_t first = place_row(call, shard, i);
    rank->out[i] = muster_tensor_slice(place_of(call, i), first + begin, first + end);
    rank->out[i].device = worker->rank;
    if (__builtin_expect(form_of_output(call, i) != MST_FORM_SAME, 0)) mst_tensor_set_strides(&rank->out[i]);
    return MUSTER_OK;
}

/* Moves the rows that were written in place so far to part->value. */
static muster_status leave_place(mst_call *call, muster_worker *worker, int64_t i) {
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    mst_part *part = &shard->parts[i];
    const int64_t rows = part->rows;
    muster_tensor moved;
    part->direct = false;
    part->rows = 0;
    MUSTER_TRY(gather_append(call, worker, i, rows, &moved));
    part->rows = rows;
    if (!rows) return MUSTER_OK;
    const int64_t first = place_row(call, shard, i);
    const muster_tensor written = muster_tensor_slice(place_of(call, i), first, first + rows);
    if (!mst_device_is_host(worker->device))
        return worker->device->memory->copy(worker->device, moved.data, muster_tensor_address(written), mst_tensor_bytes(written));
    mst_tensor_pack(moved.data, written);
    return MUSTER_OK;
}

static muster_status output_rows(mst_call *call, muster_worker *worker, int32_t i, int64_t rows, muster_tensor *output) {
    const char *where = "muster_worker_output_rows";
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    if (i < 0 || i >= function->output_count)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %lld, received %d", where, (long long)function->output_count - 1,
                         (int)i);
    if (function->outputs[i].mode != MUSTER_GATHER)
        return mst_error(MUSTER_UNSUPPORTED, "%s: output '%s' is not gathered: only a gathered output has rows of its own", where,
                         function->outputs[i].name);
    if (rows < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: rows: expected 0 or more, received %lld", where, (long long)rows);
    if (!mst_wanted(&function->plan, i)) {
        *output = muster_tensor_none();
        return MUSTER_OK;
    }
    mst_part *part = &rank->shard->parts[i];
    if (part->direct && rows != part->pending) MUSTER_TRY(leave_place(call, worker, i));
    if (!part->direct) MUSTER_TRY(gather_append(call, worker, i, rows, &rank->out[i]));
    *output = rank->out[i];
    return MUSTER_OK;
}

muster_status muster_worker_output_rows(muster_worker *worker, int32_t index, int64_t rows, muster_tensor *output) {
    const char *where = "muster_worker_output_rows";
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!mst_worker_rank(worker))
        return mst_error(MUSTER_BAD_STATE, "%s: worker: expected the worker of a running body, received one of another task", where);
    if (!output) return mst_error_null(where, "output", "the address of a tensor");
    return output_rows(mst_worker_rank(worker)->call, worker, index, rows, output);
}

/* Rows that the body could not write to their places, since these are not contiguous, go there now
 * that it has returned OK. */
static void gather_spread(const mst_call *call, muster_worker *worker, int64_t i) {
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    mst_part *part = &shard->parts[i];
    if (form_of_output(call, i) != MST_FORM_COPY || mst_output_place(call, i) || !part->rows || part->rows != shard->rows ||
        !mst_output_has_places(call, i))
        return;
    const muster_tensor target = target_of(call, i);
    const int64_t first = place_row(call, shard, i);
    const uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECT, "copy to a strided output", worker->epoch,
                                            part->rows * mst_row_bytes(target));
    mst_tensor_unpack(muster_tensor_slice(target, first, first + part->rows), part->value.address);
    mst_record_end(&worker->recorder, event);
    part->direct = true;
}

muster_status mst_gather_finish(mst_call *call, muster_worker *worker, int64_t i) {
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    mst_part *part = &shard->parts[i];
    const muster_tensor target = target_of(call, i);
    if (part->direct || !shard->contributes) return MUSTER_OK;
    part->visible = part->value.address;
    if (mst_device_is_host(worker->device)) {
        gather_spread(call, worker, i);
        return MUSTER_OK;
    }
    if (part->rows == 0) return MUSTER_OK;
    const int64_t bytes = part->rows * mst_row_bytes(target);
    void *to = part->host.address;
    if (part->rows == shard->rows && mst_output_goes_to_caller(call, shard, i)) {
        to = muster_tensor_address(
            muster_tensor_slice(place_of(call, i), place_row(call, shard, i), place_row(call, shard, i) + part->rows));
        part->direct = true;
        if (mst_output_place(call, i)) return worker->device->memory->copy(worker->device, to, part->value.address, bytes);
    } else if (bytes > part->host.capacity) {
        MUSTER_TRY(mst_host_store_reserve(&part->overflow, bytes, "muster_function_call: gathered output"));
        to = part->overflow.address;
    }
    part->visible = to;
    return worker->device->memory->copy_out(worker->device, to, part->value.address, bytes);
}

void mst_gather_ignore(mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    mst_part *parts = mst_call_shard(call, worker)->parts;
    for (int64_t i = 0; i < function->output_count; i++)
        if (mst_wanted(&function->plan, i) && function->outputs[i].mode == MUSTER_GATHER) parts[i].ignored += parts[i].pending;
}

static int64_t contributed_rows(const mst_call *call, int32_t s, int64_t i) {
    const mst_logical_shard *shard = &call->shards[s];
    return shard->contributes ? shard->parts[i].rows : 0;
}

static muster_status gather_read_back(const mst_call *call, muster_tensor rows, void *to, const char *where) {
    if (rows.device == MUSTER_DEVICE_HOST) {
        mst_tensor_pack(to, rows);
        return MUSTER_OK;
    }
    return mst_runtime_copy_placed(call->function->object.runtime, rows, muster_tensor_make(rows.dtype, to, rows.ndim, rows.shape), where);
}

/* Rows that are in the caller's memory, but at the wrong place, move to part->overflow before
 * other rows overwrite them. */
static muster_status gather_move_displaced(mst_call *call, muster_tensor target, int64_t i, int64_t at, const char *where) {
    for (int32_t s = 0; s < call->shard_count; s++) {
        const mst_logical_shard *shard = &call->shards[s];
        mst_part *part = &shard->parts[i];
        const int64_t rows = contributed_rows(call, s, i);
        const int64_t first = place_row(call, shard, i);
        if (rows && part->direct && at != first) {
            MUSTER_TRY(mst_host_store_reserve(&part->overflow, rows * mst_row_bytes(target), "muster_function_call: gathered output"));
            MUSTER_TRY(gather_read_back(call, muster_tensor_slice(target, first, first + rows), part->overflow.address, where));
            part->visible = part->overflow.address;
            part->direct = false;
        }
        at += rows;
    }
    return MUSTER_OK;
}

bool mst_gather_all_direct(const mst_call *call, int64_t i) {
    for (int32_t s = 0; s < call->shard_count; s++)
        if (contributed_rows(call, s, i) && !call->shards[s].parts[i].direct) return false;
    return true;
}

muster_status mst_gather_refuse(const mst_call *call, int64_t i, const char *where, int64_t total, int64_t ignored) {
    const muster_function *function = call->function;
    char more[100] = "";
    if (ignored) snprintf(more, sizeof more, ", and %lld more in bodies without rows, which are not collected", (long long)ignored);
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: output '%s' of function '%s': the caller's tensor has %lld rows, the workers gave %lld%s",
                     where, function->outputs[i].name, mst_function_name(function), (long long)function->plan.outputs[i].shape[0],
                     (long long)total, more);
}

void mst_gather_count(const mst_call *call, int64_t i, int64_t *rows, int64_t *ignored) {
    *rows = *ignored = 0;
    for (int32_t s = 0; s < call->shard_count; s++) {
        *rows += contributed_rows(call, s, i);
        *ignored += call->shards[s].parts[i].ignored;
    }
}

/* Where all processes have the rows that were planned, each has them in their places. */
bool mst_gather_may_move(const mst_call *call, int64_t i) {
    if (!mst_output_has_places(call, i)) return false;
    for (int32_t s = 0; s < call->shard_count; s++)
        if (contributed_rows(call, s, i) != call->shards[s].rows) return true;
    return false;
}

muster_status mst_gather_put(mst_call *call, int64_t i, int64_t at, const char *where) {
    const bool placed = mst_output_place(call, i);
    MUSTER_TRY(gather_move_displaced(call, place_of(call, i), i, at, where));
    if (placed && !mst_gather_all_direct(call, i)) MUSTER_TRY(mst_place_reserve(call, i, where));
    const muster_tensor target = target_of(call, i);
    for (int32_t s = 0; s < call->shard_count; s++) {
        const mst_part *part = &call->shards[s].parts[i];
        const int64_t rows = contributed_rows(call, s, i);
        if (rows && !part->direct) {
            mst_tensor_unpack(muster_tensor_slice(target, at, at + rows), part->visible);
            if (placed) MUSTER_TRY(mst_place_deliver(call, i, at, at + rows, where));
        }
        at += rows;
    }
    return MUSTER_OK;
}

muster_status mst_gather_collect(mst_call *call, int64_t i, const char *where) {
    int64_t total, ignored;
    mst_gather_count(call, i, &total, &ignored);
    if (total != call->function->plan.outputs[i].shape[0]) return mst_gather_refuse(call, i, where, total, ignored);
    return mst_gather_put(call, i, 0, where);
}
