/* Gathered outputs. Where the rows of the shares are the rows of the result, a host worker writes
 * them in place; where a body sets its own rows, each share keeps its rows and the caller's thread
 * lays them one behind the other. */
#include "function_impl.h"

#include <string.h>

static muster_tensor target_of(const mst_call *call, int64_t i) {
    const muster_function *function = call->function;
    muster_tensor target = function->plan.outputs[i];
    target.data = function->plan.addresses[function->input_count + i];
    target.byte_offset = 0;
    return target;
}

static muster_tensor with_rows(muster_tensor like, void *address, int64_t rows, int32_t rank) {
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, like.shape, sizeof shape);
    shape[0] = rows;
    muster_tensor tensor = muster_tensor_make(like.dtype, address, like.ndim, shape);
    tensor.device = rank;
    return tensor;
}

static int64_t row_bytes(muster_tensor tensor) {
    int64_t bytes = muster_dtype_size(tensor.dtype);
    for (int32_t d = 1; d < tensor.ndim; d++) bytes *= tensor.shape[d];
    return bytes;
}

static bool fits_in_place(const mst_call *call, const muster_worker *worker, int64_t i) {
    const mst_plan *plan = &call->function->plan;
    return mst_device_is_host(worker->device) && plan->outputs[i].shape[0] == plan->count;
}

/* Room for `rows` more rows in the part's own storage; the rows that are there stay. */
static muster_status append(mst_call *call, muster_worker *worker, int64_t i, int64_t rows, muster_tensor *view) {
    mst_device *device = worker->device;
    mst_part *part = &mst_call_share(call, worker)->parts[i];
    const muster_tensor like = call->function->plan.outputs[i];
    const int64_t bytes_per_row = row_bytes(like);
    int64_t total_rows, bytes;
    if (__builtin_add_overflow(part->rows, rows, &total_rows) || !mst_multiply(total_rows, bytes_per_row, &bytes))
        return mst_error(MUSTER_OVERFLOW, "muster_worker_output_rows: rows: %lld rows of %lld bytes overflow", (long long)rows,
                         (long long)bytes_per_row);
    if (bytes > part->value.capacity || !part->value.address) {
        mst_store grown = {0};
        MUSTER_TRY(mst_worker_store_reserve(worker, &grown, bytes > INT64_MAX / 2 ? bytes : bytes + bytes / 2));
        muster_status status = device->table->copy(device, grown.address, part->value.address, part->rows * bytes_per_row);
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
    const mst_share *share = rank->share;
    mst_part *part = &share->parts[i];
    const bool in_place = fits_in_place(call, worker, i) && part->rows == begin && (part->direct || begin == 0);
    part->pending = end - begin;
    if (!in_place) return append(call, worker, i, end - begin, &rank->out[i]);
    part->direct = true;
    rank->out[i] = muster_tensor_slice(target_of(call, i), share->first_row + begin, share->first_row + end);
    rank->out[i].device = worker->rank;
    return MUSTER_OK;
}

/* The rows written in place so far move into the part's own storage. */
static muster_status leave_place(mst_call *call, muster_worker *worker, int64_t i) {
    const mst_share *share = mst_call_share(call, worker);
    mst_part *part = &share->parts[i];
    const int64_t rows = part->rows;
    muster_tensor own;
    part->direct = false;
    part->rows = 0;
    MUSTER_TRY(append(call, worker, i, rows, &own));
    if (rows) mst_tensor_pack(own.data, muster_tensor_slice(target_of(call, i), share->first_row, share->first_row + rows));
    part->rows = rows;
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
    mst_part *part = &rank->share->parts[i];
    if (part->direct && rows != part->pending) MUSTER_TRY(leave_place(call, worker, i));
    if (!part->direct) MUSTER_TRY(append(call, worker, i, rows, &rank->out[i]));
    *output = rank->out[i];
    return MUSTER_OK;
}

muster_status muster_worker_output_rows(muster_worker *worker, int32_t index, int64_t rows, muster_tensor *output) {
    const char *where = "muster_worker_output_rows";
    if (!worker || !worker->call) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected the worker of a running body", where);
    if (!output) return mst_error_null(where, "output", "the address of a tensor");
    return output_rows(worker->call, worker, index, rows, output);
}

muster_status mst_gather_finish(mst_call *call, muster_worker *worker, int64_t i) {
    const mst_share *share = mst_call_share(call, worker);
    mst_part *part = &share->parts[i];
    const muster_tensor target = target_of(call, i);
    if (part->direct || !share->contributes) return MUSTER_OK;
    part->visible = part->value.address;
    if (mst_device_is_host(worker->device) || part->rows == 0) return MUSTER_OK;
    const int64_t bytes = part->rows * row_bytes(target);
    void *to = part->host.address;
    if (part->rows == share->rows && mst_output_lands(call, share, i)) {
        to = muster_tensor_address(muster_tensor_slice(target, share->first_row, share->first_row + part->rows));
        part->direct = true;
    } else if (bytes > part->host.capacity) {
        MUSTER_TRY(mst_host_store_reserve(&part->loose, bytes, "muster_function_call: gathered output"));
        to = part->loose.address;
    }
    part->visible = to;
    return worker->device->table->copy_out(worker->device, to, part->value.address, bytes);
}

static int64_t contributed_rows(const mst_call *call, int32_t s, int64_t i) {
    const mst_share *share = &call->shares[s];
    return share->contributes ? share->parts[i].rows : 0;
}

/* Rows that lie in the caller's memory, but not where they belong, are kept aside before anything
 * is laid over them. */
static muster_status set_aside(mst_call *call, muster_tensor target, int64_t i) {
    int64_t at = 0;
    for (int32_t s = 0; s < call->share_count; s++) {
        const mst_share *share = &call->shares[s];
        mst_part *part = &share->parts[i];
        const int64_t rows = contributed_rows(call, s, i);
        if (rows && part->direct && at != share->first_row) {
            MUSTER_TRY(mst_host_store_reserve(&part->loose, rows * row_bytes(target), "muster_function_call: gathered output"));
            mst_tensor_pack(part->loose.address, muster_tensor_slice(target, share->first_row, share->first_row + rows));
            part->visible = part->loose.address;
            part->direct = false;
        }
        at += rows;
    }
    return MUSTER_OK;
}

muster_status mst_gather_collect(mst_call *call, int64_t i, const char *where) {
    const muster_function *function = call->function;
    const muster_tensor target = target_of(call, i);
    int64_t total = 0, at = 0;
    for (int32_t s = 0; s < call->share_count; s++) total += contributed_rows(call, s, i);
    if (total != target.shape[0])
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s: output '%s' of function '%s': the caller's tensor has %lld rows, the workers gave %lld", where,
                         function->outputs[i].name, mst_function_name(function), (long long)target.shape[0], (long long)total);
    MUSTER_TRY(set_aside(call, target, i));
    for (int32_t s = 0; s < call->share_count; s++) {
        const mst_part *part = &call->shares[s].parts[i];
        const int64_t rows = contributed_rows(call, s, i);
        if (rows && !part->direct) mst_tensor_unpack(muster_tensor_slice(target, at, at + rows), part->visible);
        at += rows;
    }
    return MUSTER_OK;
}
