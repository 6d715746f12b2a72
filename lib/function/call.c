/* Runs a call on the workers. */
#include "output_private.h"

#include <string.h>

enum { REASON_LENGTH = 400 }; /* bytes of a body's message that are kept, so that the function's name and the rank fit around it */

/* The error of a call whose body has failed: the function's name, then the body's own message. */
static muster_status body_failed(const mst_call *call, muster_status status, uint64_t errors_before) {
    const char *name = mst_function_name(call->function);
    char reason[MST_MESSAGE_SIZE];
    if (status == MUSTER_ABORTED) return status;
    if (mst_error_count() == errors_before)
        snprintf(reason, sizeof reason, "the body returned %s (%d) without a message", muster_status_name(status), (int)status);
    else
        mst_error_save(reason);
    if (strlen(reason) > REASON_LENGTH) memcpy(reason + REASON_LENGTH - 3, "...", sizeof "...");
    if (status < 0 || status > MUSTER_INTERNAL) status = MUSTER_USER;
    return mst_error(status, "function '%s': %s", name, reason);
}

/* The first slice from `slice` on that has rows; the number of slices if there is none. There may
 * be more slices than anybody could count through. */
static __attribute__((noinline)) int64_t next_slice_with_rows(int64_t rows, int64_t slices, int64_t slice) {
    const int64_t row = mst_slice_edge(rows, slices, slice);
    return row < rows ? (int64_t)(((__int128)(row + 1) * slices + rows - 1) / rows) - 1 : slices;
}

/* The same for the body of a shard that runs, which may run in slices without rows too. */
static inline int64_t next_slice(const mst_call *call, const mst_logical_shard *shard, int64_t slice) {
    const int64_t slices = call->function->plan.slices;
    return slices == 1 || call->function->runs_without_rows ? slice : next_slice_with_rows(shard->rows, slices, slice);
}

/* While the device computes this slice, the rows of the next slice that runs the body are
 * copied. */
static muster_status send_next(mst_call *call, muster_worker *worker, int64_t slice) {
    const muster_function *function = call->function;
    const mst_logical_shard *shard = mst_call_shard(call, worker);
    const int64_t slices = function->plan.slices;
    if (!mst_stage_overlaps(call, worker->device)) return MUSTER_OK;
    const int64_t next = next_slice(call, shard, slice + 1);
    if (next == slices) return mst_stage_used(call, worker, -1, 0, 0);
    return mst_stage_used(call, worker, next, mst_slice_edge(shard->rows, slices, next), mst_slice_edge(shard->rows, slices, next + 1));
}

static muster_status call_run_slice(mst_call *call, muster_worker *worker, int64_t slice) {
    muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    const mst_logical_shard *shard = rank->shard;
    const int64_t begin = mst_slice_edge(shard->rows, plan->slices, slice), end = mst_slice_edge(shard->rows, plan->slices, slice + 1);
    if (worker->scratch_count > 0) mst_worker_scratch_rewind(worker);
    rank->body.first_row = shard->first_row + begin;
    rank->body.rows = end - begin;
    rank->body.slice = slice;
    rank->body.weight = (double)(end - begin);
    MUSTER_TRY(mst_stage(call, worker, slice, begin, end));
    MUSTER_TRY(mst_outputs_prepare(call, worker, begin, end));
    mst_updates_prepare(call, worker);
    const uint64_t errors = mst_error_count();
    muster_status status = function->bodies[worker->rank](worker, rank->in, rank->out, function->user);
    if (status) return body_failed(call, status, errors);
    if (mst_worker_has_open_group(worker)) {
        return mst_error(
            MUSTER_BAD_STATE,
            "function '%s': the body returned with an open group, whose collectives have not run; expected muster_worker_group_end",
            mst_function_name(function));
    }
    /* From here on host code reads outputs, and the next slice overwrites what this one has
     * read. */
    MUSTER_TRY(mst_worker_drain(worker));
    if (begin < end) { /* outputs and updates of a slice without rows are ignored */
        MUSTER_TRY(mst_outputs_accumulate(call, worker));
        MUSTER_TRY(mst_updates_accumulate(call, worker));
    }
    return plan->overlapped ? send_next(call, worker, slice) : MUSTER_OK;
}

static muster_status call_run_shard(mst_call *call, muster_worker *worker, mst_logical_shard *shard) {
    const mst_plan *plan = &call->function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    rank->shard = shard;
    rank->body.shard = mst_call_shard_number(call, shard) * call->shards_each;
    mst_outputs_reset(call, worker);
    for (int64_t slice = shard->runs ? next_slice(call, shard, 0) : plan->slices; slice < plan->slices;
         slice = next_slice(call, shard, slice + 1))
        MUSTER_TRY(call_run_slice(call, worker, slice));
    return mst_outputs_finish(call, worker);
}

static muster_status call_run_shards(mst_call *call, muster_worker *worker) {
    const int32_t count = mst_call_shards_per_rank(call);
    mst_logical_shard *shards_here = &call->shards[worker->rank * count];
    mst_rank *rank = mst_call_rank(call, worker);
    rank->body.shards = call->shard_count * call->shards_each;
    rank->body.shards_here = call->shards_each;
    const bool one_at_a_time = call->shards_each && !call->function->shards_together;
    if (one_at_a_time) mst_worker_set_per_shard(worker, true);
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < count && !status; i++) status = call_run_shard(call, worker, &shards_here[i]);
    if (one_at_a_time) mst_worker_set_per_shard(worker, false);
    return status;
}

static muster_status call_run_rank(mst_call *call, muster_worker *worker) {
    const mst_plan *plan = &call->function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    rank->broadcast_staged = false;
    rank->chunks = 0;
    rank->ahead = -1;
    rank->call = call;
    rank->body.total_rows = plan->count;
    rank->body.slices = plan->slices;
    worker->slots[MST_SLOT_FUNCTION] = rank;
    mst_updates_reset(call, worker);
    MUSTER_TRY(call_run_shards(call, worker));
    MUSTER_TRY(mst_updates_finish(call, worker));
    return mst_outputs_combine(call, worker);
}

static muster_status call_task(muster_worker *worker, void *argument) {
    mst_call *call = argument;
    const uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_CALL, mst_function_name(call->function), worker->epoch, 0);
    const muster_status status = call_run_rank(call, worker);
    worker->slots[MST_SLOT_FUNCTION] = NULL;
    mst_record_end(&worker->recorder, event);
    return status;
}

static muster_status call_run(muster_function *function, const char *where, bool single) {
    const muster_runtime *runtime = function->object.runtime;
    mst_call *call = single ? &function->single : &function->together;
    if (function->on_devices) {
        MUSTER_TRY(mst_call_reserve(call, where));
        mst_communicator_ready(runtime->communicator);
    }
    mst_pool_set_deadlines(runtime->pool, function->plan.warn_after_ns, function->plan.fail_after_ns);
    MUSTER_TRY(single ? mst_pool_run_single(runtime->pool, call_task, call) : mst_pool_run(runtime->pool, call_task, call));
    MUSTER_TRY(mst_outputs_collect(call, where));
    mst_updates_apply(call);
    return MUSTER_OK;
}

muster_status mst_function_call_entered(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                                        const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                        bool single) {
    MUSTER_TRY(mst_plan_make(function, where, inputs, input_count, outputs, output_count, options, single));
    return call_run(function, where, single);
}

static muster_status call_function(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                                   const muster_tensor *outputs, int32_t output_count, const muster_call_options *options, bool single) {
    if (!function) return mst_error_null(where, "function", "a function");
    muster_call_options known;
    MUSTER_TRY(mst_call_options_read(where, options, &known));
    mst_pool *pool = function->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, known.queue_timeout_ns));
    muster_status status = mst_function_call_entered(function, where, inputs, input_count, outputs, output_count, &known, single);
    mst_pool_leave(pool);
    return status;
}

muster_status muster_function_call(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                   const muster_tensor *outputs, int32_t output_count, const muster_call_options *options) {
    return call_function(function, "muster_function_call", inputs, input_count, outputs, output_count, options, false);
}

muster_status muster_function_call_single(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                          const muster_tensor *outputs, int32_t output_count, const muster_call_options *options) {
    return call_function(function, "muster_function_call_single", inputs, input_count, outputs, output_count, options, true);
}
