/* Reserves, between calls, the memory that a call needs on devices with memory of their own. Their
 * drivers may wait for everything that runs on any device before they allocate, so they must not be
 * asked while collectives run. Stores only grow, so a repeated call finds all its memory. */
#include "output_private.h"
#include "place_private.h"

/* ---- what one rank needs ---- */

typedef struct demand {
    mst_call *call;
    const char *where;
    mst_device *device;
    mst_rank *rank;
    int32_t number; /* the rank's number */
    mst_logical_shard *shards;
    int32_t shard_count;
    int64_t chunk_rows; /* rows of the largest slice */
    bool overlapped;
} demand;

static int64_t most_rows(const mst_logical_shard *shards, int32_t count, int64_t slices) {
    int64_t most = 0;
    for (int32_t s = 0; s < count; s++)
        if (shards[s].rows > most) most = shards[s].rows;
    return most / slices + (most % slices != 0);
}

static muster_status reserve_input(const demand *d, int64_t i) {
    const muster_function *function = d->call->function;
    const mst_plan *plan = &function->plan;
    const muster_tensor source = plan->inputs[i];
    const bool broadcast = function->inputs[i].mode == MUSTER_BROADCAST;
    const bool listed = plan->forms[i] == MST_FORM_LIST, on_host = mst_device_is_host(d->device) || function->inputs[i].host;
    /* the caller's memory is used, or the copy that all bodies use */
    if (on_host && (plan->forms[i] < MST_FORM_COPY || broadcast)) return MUSTER_OK;
    const int64_t bytes = broadcast ? mst_tensor_bytes(source) : mst_row_bytes(source) * d->chunk_rows;
    if (!mst_device_is_host(d->device) && function->inputs[i].host)
        return mst_locked_store_reserve(d->device, &d->rank->pinned_bounce[MST_CHUNKS * i], bytes, d->where);
    const mst_place *place = mst_input_place(d->call, i);
    if (place && place->access[d->number] == MST_ACCESS_IN_PLACE && !listed) return MUSTER_OK;
    if (place && place->access[d->number] != MST_ACCESS_BY_HOST)
        return mst_device_store_reserve(d->device, &d->rank->staged[MST_CHUNKS * i], bytes);
    for (int64_t p = 0; p < (d->overlapped && !broadcast ? MST_CHUNKS : 1); p++) {
        MUSTER_TRY(mst_device_store_reserve(d->device, &d->rank->staged[MST_CHUNKS * i + p], bytes));
        if (!mst_device_is_host(d->device) && (listed || !mst_tensor_contiguous(source)))
            MUSTER_TRY(mst_locked_store_reserve(d->device, &d->rank->pinned_bounce[MST_CHUNKS * i + p], bytes, d->where));
    }
    return MUSTER_OK;
}

static muster_status reserve_reduced(const demand *d, const mst_logical_shard *shard, int64_t i) {
    const muster_function *function = d->call->function;
    const muster_tensor output = function->plan.outputs[i];
    const bool summed = function->plan.slices > 1 && function->outputs[i].mode != MUSTER_MASTER;
    const int64_t bytes = mst_tensor_bytes(output),
                  sum_bytes = muster_tensor_count(output) * muster_dtype_size(mst_dtype_compute(output.dtype));
    mst_part *part = &shard->parts[i];
    if (mst_used_in_place(mst_output_place(d->call, i), d->device, d->number) && !summed && function->plan.slices == 1 &&
        mst_output_goes_to_caller(d->call, shard, i))
        return MUSTER_OK;
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, bytes));
    if (summed) MUSTER_TRY(mst_device_store_reserve(d->device, &part->sum, sum_bytes));
    if (mst_device_is_host(d->device) || mst_output_goes_to_caller(d->call, shard, i)) return MUSTER_OK;
    return mst_locked_store_reserve(d->device, &part->host, summed ? sum_bytes : bytes, d->where);
}

/* A body that sets its own number of rows may need more memory; it gets that during the run. */
static muster_status reserve_gathered(const demand *d, const mst_logical_shard *shard, int64_t i) {
    const muster_tensor output = d->call->function->plan.outputs[i];
    mst_part *part = &shard->parts[i];
    if (shard->rows > output.shape[0]) return MUSTER_OK;
    const int64_t bytes = shard->rows * mst_row_bytes(output);
    if (mst_used_in_place(mst_output_place(d->call, i), d->device, d->number) && mst_output_has_places(d->call, i) &&
        d->call->function->plan.forms[d->call->function->input_count + i] != MST_FORM_COPY)
        return MUSTER_OK; /* rows in their places */
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, bytes));
    if (mst_device_is_host(d->device)) return MUSTER_OK;
    return mst_output_goes_to_caller(d->call, shard, i) ? MUSTER_OK : mst_locked_store_reserve(d->device, &part->host, bytes, d->where);
}

static muster_status reserve_outputs(const demand *d, const mst_logical_shard *shard) {
    const muster_function *function = d->call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        if (function->plan.reduced[i]) MUSTER_TRY(mst_reduced_reserve(d->call, d->number, &shard->parts[i], i, d->where));
        if (!mst_wanted(&function->plan, i) || function->plan.reduced[i]) continue;
        if (function->outputs[i].mode != MUSTER_GATHER) {
            if (mst_shard_gives(d->call, shard, i)) MUSTER_TRY(reserve_reduced(d, shard, i));
        } else if (shard->contributes) {
            MUSTER_TRY(reserve_gathered(d, shard, i));
        }
    }
    return MUSTER_OK;
}

static muster_status reserve_update(const demand *d, int64_t u) {
    const mst_use *use = &d->call->function->uses[u];
    const muster_tensor replica = mst_variable_tensor(use->variable, d->number);
    mst_part *part = &d->rank->updates[u];
    if (!use->updated) return MUSTER_OK;
    MUSTER_TRY(mst_device_store_reserve(d->device, &part->value, mst_tensor_bytes(replica)));
    if (mst_updates_need_no_sum(d->call) || use->mode == MUSTER_MASTER) return MUSTER_OK;
    return mst_device_store_reserve(d->device, &part->sum,
                                    muster_tensor_count(replica) * muster_dtype_size(mst_dtype_compute(replica.dtype)));
}

/* Reserves memory for the rows of a sliceable variable that the largest slice selects by an index
 * list, and for the list. */
static muster_status reserve_gathered_rows(const demand *d, int64_t u) {
    const muster_function *function = d->call->function;
    const mst_plan *plan = &function->plan;
    const muster_tensor replica = mst_variable_tensor(function->uses[u].variable, d->number);
    int64_t rows = 0;
    if (!function->uses[u].sliceable || !plan->replica_batch_count || plan->replica_batch[0].kind != MUSTER_SELECT_LIST) return MUSTER_OK;
    for (int32_t s = 0; s < d->shard_count; s++) {
        const int32_t number = d->call->first_shard + mst_call_shard_number(d->call, &d->shards[s]);
        const int64_t count = plan->replica_batch[plan->replica_batch_count == 1 ? 0 : number].index_count;
        const int64_t most = count / plan->slices + (count % plan->slices != 0);
        if (most > rows) rows = most;
    }
    MUSTER_TRY(mst_device_store_reserve(d->device, &d->rank->gathered_rows[u], rows * mst_row_bytes(replica)));
    return mst_device_store_reserve(d->device, &d->rank->lists[u], rows * (int64_t)sizeof(int64_t));
}

static muster_status reserve_events(const demand *d) {
    if (!d->overlapped || d->rank->used[MST_CHUNKS - 1]) return MUSTER_OK;
    for (int32_t c = 0; c < MST_CHUNKS; c++) {
        if (!d->rank->come[c]) MUSTER_TRY(mst_device_event_create(d->device, &d->rank->come[c]));
        if (!d->rank->used[c]) MUSTER_TRY(mst_device_event_create(d->device, &d->rank->used[c]));
    }
    return MUSTER_OK;
}

static muster_status reserve_rank(const demand *d) {
    const muster_function *function = d->call->function;
    MUSTER_TRY(reserve_events(d));
    for (int64_t i = 0; i < function->input_count; i++) MUSTER_TRY(reserve_input(d, i));
    for (int32_t s = 0; s < d->shard_count; s++) MUSTER_TRY(reserve_outputs(d, &d->shards[s]));
    for (int64_t u = 0; u < function->use_count; u++) {
        MUSTER_TRY(reserve_update(d, u));
        MUSTER_TRY(reserve_gathered_rows(d, u));
    }
    return MUSTER_OK;
}

muster_status mst_call_reserve(mst_call *call, const char *where, bool hosts) {
    muster_function *function = call->function;
    const int32_t count = mst_call_shards_per_rank(call);
    function->plan.overlapped = false;
    mst_reduced_choose(call);
    for (int32_t r = 0; r < call->size; r++) {
        mst_device *device = function->object.runtime->devices[r];
        if ((mst_device_is_host(device) && !hosts) || device->lost) continue;
        mst_logical_shard *shards = &call->shards[r * count];
        const demand d = {call,
                          where,
                          device,
                          &function->ranks[r],
                          r,
                          shards,
                          count,
                          most_rows(shards, count, function->plan.slices),
                          mst_stage_overlaps(call, device)};
        function->plan.overlapped |= d.overlapped;
        MUSTER_TRY(reserve_rank(&d));
    }
    return MUSTER_OK;
}
