/* The memory of a call on devices with memory of their own, found between calls: their drivers may
 * have to wait for everything that runs on any of them, and then must not be asked while
 * collectives do. Stores only grow, so that a call like the one before finds all of it there. */
#include "function_impl.h"

/* ---- host memory that a device copies from and to without staging ---- */

void mst_locked_store_free(mst_device *device, mst_store *store) {
    if (device->table->release_host)
        device->table->release_host(device, store->address);
    else
        mst_free(store->address);
    *store = (mst_store){0};
}

muster_status mst_locked_store_reserve(mst_device *device, mst_store *store, int64_t bytes, const char *what) {
    void *address;
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    if (!device->table->allocate_host) return mst_host_store_reserve(store, bytes, what);
    MUSTER_TRY(device->table->allocate_host(device, bytes, &address));
    device->table->release_host(device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

/* ---- what one rank needs ---- */

typedef struct demand {
    mst_call *call;
    const char *where;
    mst_device *device;
    mst_rank *rank;
    int32_t number; /* of the rank */
    mst_share *shares;
    int32_t share_count;
    int64_t piece_rows; /* most rows of a slice */
    bool beside;
} demand;

static int64_t row_bytes(muster_tensor tensor) {
    int64_t bytes = muster_dtype_size(tensor.dtype);
    for (int32_t d = 1; d < tensor.ndim; d++) bytes *= tensor.shape[d];
    return bytes;
}

static int64_t most_rows(const mst_share *shares, int32_t count, int64_t slices) {
    int64_t most = 0;
    for (int32_t s = 0; s < count; s++)
        if (shares[s].rows > most) most = shares[s].rows;
    return most / slices + (most % slices != 0);
}

static muster_status reserve_input(const demand *d, int64_t i) {
    const muster_function *function = d->call->function;
    const mst_plan *plan = &function->plan;
    const muster_tensor source = plan->inputs[i];
    const bool whole = function->inputs[i].mode == MUSTER_BROADCAST;
    const bool listed = function->inputs[i].mode == MUSTER_SCATTER && plan->batch.kind == MUSTER_LIST;
    const int64_t bytes = whole ? mst_tensor_bytes(source) : row_bytes(source) * d->piece_rows;
    for (int64_t p = 0; p < (d->beside && !whole ? MST_PIECES : 1); p++) {
        MUSTER_TRY(mst_device_store_reserve(d->device, &d->rank->staged[MST_PIECES * i + p], bytes));
        if (listed || !mst_tensor_contiguous(source))
            MUSTER_TRY(mst_locked_store_reserve(d->device, &d->rank->bounce[MST_PIECES * i + p], bytes, d->where));
    }
    return MUSTER_OK;
}

static muster_status reserve_reduced(const demand *d, const mst_share *share, int64_t i) {
    const muster_function *function = d->call->function;
    const muster_tensor output = function->plan.outputs[i];
    const bool summed = function->plan.slices > 1 && function->outputs[i].mode != MUSTER_MASTER;
    const int64_t bytes = mst_tensor_bytes(output),
                  sum_bytes = muster_tensor_count(output) * muster_dtype_size(mst_dtype_compute(output.dtype));
    mst_part *part = &share->parts[i];
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, bytes));
    if (summed) MUSTER_TRY(mst_device_store_reserve(d->device, &part->sum, sum_bytes));
    if (mst_output_lands(d->call, share, i)) return MUSTER_OK;
    return mst_locked_store_reserve(d->device, &part->host, summed ? sum_bytes : bytes, d->where);
}

/* A body that sets its own rows may need more, which is then found during the run. */
static muster_status reserve_gathered(const demand *d, const mst_share *share, int64_t i) {
    const muster_tensor output = d->call->function->plan.outputs[i];
    mst_part *part = &share->parts[i];
    if (share->rows > output.shape[0]) return MUSTER_OK;
    const int64_t bytes = share->rows * row_bytes(output);
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, bytes));
    return mst_output_lands(d->call, share, i) ? MUSTER_OK : mst_locked_store_reserve(d->device, &part->host, bytes, d->where);
}

static muster_status reserve_outputs(const demand *d, const mst_share *share) {
    const muster_function *function = d->call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_wanted(&function->plan, i) || !share->contributes) continue;
        if (function->outputs[i].mode == MUSTER_GATHER)
            MUSTER_TRY(reserve_gathered(d, share, i));
        else
            MUSTER_TRY(reserve_reduced(d, share, i));
    }
    return MUSTER_OK;
}

static muster_status reserve_update(const demand *d, int64_t u) {
    const mst_use *use = &d->call->function->uses[u];
    const muster_tensor whole = mst_variable_tensor(use->variable, d->number);
    mst_part *part = &d->rank->updates[u];
    if (!use->updated) return MUSTER_OK;
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, mst_tensor_bytes(whole)));
    if (mst_updates_whole(d->call) || use->mode == MUSTER_MASTER) return MUSTER_OK;
    return mst_device_store_reserve(d->device, &part->sum, muster_tensor_count(whole) * muster_dtype_size(mst_dtype_compute(whole.dtype)));
}

/* Rows that the largest slice chooses of a sliceable variable by a list, and the list itself. */
static muster_status reserve_picked(const demand *d, int64_t u) {
    const muster_function *function = d->call->function;
    const mst_plan *plan = &function->plan;
    const muster_tensor whole = mst_variable_tensor(function->uses[u].variable, d->number);
    int64_t rows = 0;
    if (!function->uses[u].sliceable || !plan->batch_s_count || plan->batch_s[0].kind != MUSTER_LIST) return MUSTER_OK;
    for (int32_t s = 0; s < d->share_count; s++) {
        const int32_t number = mst_share_number(d->call, &d->shares[s]);
        const int64_t count = plan->batch_s[plan->batch_s_count == 1 ? 0 : number].index_count;
        const int64_t most = count / plan->slices + (count % plan->slices != 0);
        if (most > rows) rows = most;
    }
    MUSTER_TRY(mst_device_store_reserve(d->device, &d->rank->picked[u], rows * row_bytes(whole)));
    return mst_device_store_reserve(d->device, &d->rank->lists[u], rows * (int64_t)sizeof(int64_t));
}

static muster_status reserve_rank(const demand *d) {
    const muster_function *function = d->call->function;
    for (int64_t i = 0; i < function->input_count; i++) MUSTER_TRY(reserve_input(d, i));
    for (int32_t s = 0; s < d->share_count; s++) MUSTER_TRY(reserve_outputs(d, &d->shares[s]));
    for (int64_t u = 0; u < function->use_count; u++) {
        MUSTER_TRY(reserve_update(d, u));
        MUSTER_TRY(reserve_picked(d, u));
    }
    return MUSTER_OK;
}

muster_status mst_call_reserve(mst_call *call, const char *where) {
    muster_function *function = call->function;
    const int32_t count = mst_call_shares_of_rank(call);
    function->plan.beside = false;
    for (int32_t r = 0; r < call->size; r++) {
        mst_device *device = function->object.runtime->devices[r];
        if (mst_device_is_host(device) || device->lost) continue;
        mst_share *shares = &call->shares[r * count];
        const demand d = {call,
                          where,
                          device,
                          &function->ranks[r],
                          r,
                          shares,
                          count,
                          most_rows(shares, count, function->plan.slices),
                          mst_stage_beside(call, device)};
        function->plan.beside |= d.beside;
        MUSTER_TRY(reserve_rank(&d));
    }
    return MUSTER_OK;
}
