/* Runs a call on a worker in the general way: with slices, logical shards, variables, and devices
 * of any kind. */
#include "default_stream_impl.h"
#include "output_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* REASON_LENGTH: bytes of a body's message that are kept, so that the function's name and the rank
 * fit around it. */
enum { REASON_LENGTH = 400, ROWS_LENGTH = 96 };

/* Does it speak of a place among the rows? An index or a label does, and what a body says itself
 * may; an axis or a rank does not. */
static bool names_a_place(const char *reason) { return strncmp(reason, "muster_", 7) != 0 || strstr(reason, " in [0, "); }

/* An operation counts the place of a wrong index within the rows of its own body. Writes which rows
 * of the call these are. */
static void name_rows(const mst_call *call, const mst_body_rows *body, char text[ROWS_LENGTH]) {
    const mst_plan *plan = &call->function->plan;
    text[0] = 0;
    if (body->rows == plan->count) return;
    snprintf(text, ROWS_LENGTH, "; this body computes rows [%" PRId64 ", %" PRId64 ") of the %s", body->first_row,
             body->first_row + body->rows, plan->batch.kind == MUSTER_SELECT_ALL ? "call" : "batch");
}

/* The function's name, then the body's own message. */
muster_status mst_call_body_failed(const mst_call *call, const mst_body_rows *body, muster_status status, uint64_t errors_before) {
    const char *name = mst_function_name(call->function);
    char reason[MST_MESSAGE_SIZE], rows[ROWS_LENGTH] = "";
    if (status == MUSTER_ABORTED || status == MUSTER_CANCELLED) return status;
    if (status == MUSTER_OK)
        return mst_error(
            MUSTER_BAD_STATE,
            "function '%s': the body returned with an open group, whose collectives have not run; expected muster_worker_group_end", name);
    if (mst_error_count() == errors_before)
        snprintf(reason, sizeof reason, "the body returned %s (%d) without a message", muster_status_name(status), (int)status);
    else
        mst_error_save(reason);
    if (status == MUSTER_OUT_OF_RANGE && names_a_place(reason)) name_rows(call, body, rows);
    const size_t length = REASON_LENGTH - strlen(rows);
    if (strlen(reason) > length) memcpy(reason + length - 3, "...", sizeof "...");
    if (status < 0 || status > MST_STATUS_LAST) status = MUSTER_USER;
    return mst_error(status, "function '%s': %s%s", name, reason, rows);
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

static muster_status call_run_body(const mst_call *call, muster_worker *worker, mst_rank *rank) {
    const muster_function *function = call->function;
    const muster_body body = function->bodies[worker->rank];
    const muster_default_stream mode = function->default_stream;
    if (__builtin_expect(mode == MUSTER_DEFAULT_STREAM_IGNORED, 1)) return body(worker, rank->in, rank->out, function->user);
    MUSTER_TRY(mst_default_stream_begin(worker, mode));
    const muster_status status = body(worker, rank->in, rank->out, function->user);
    /* A failed body is ordered too: the next call uses its memory. */
    if (status && mode == MUSTER_DEFAULT_STREAM_REFUSED) return status;
    const muster_status ended = mst_default_stream_end(worker, mode);
    return status ? status : ended;
}

static muster_status call_run_slice(mst_call *call, muster_worker *worker, int64_t slice) {
    const mst_plan *plan = &call->function->plan;
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
    /* for repeated calls, before the body can change it */
    for (int64_t i = 0; plan->repeatable && i < call->function->output_count; i++) rank->kept_out[i] = rank->out[i];
    const uint64_t errors = mst_error_count();
    const muster_status status = call_run_body(call, worker, rank);
    if (status || mst_worker_has_open_group(worker)) return mst_call_body_failed(call, &rank->body, status, errors);
    /* From here on host code reads outputs, and the next slice overwrites what this one has
     * read. */
    MUSTER_TRY(mst_worker_drain(worker));
    if (begin < end || call->function->counts_without_rows) { /* outputs and updates of a slice without rows are ignored */
        rank->run_weight += rank->body.weight;
        MUSTER_TRY(mst_outputs_accumulate(call, worker));
        MUSTER_TRY(mst_updates_accumulate(call, worker));
    } else {
        mst_gather_ignore(call, worker);
        mst_outputs_keep_master(call, worker);
    }
    return plan->overlapped ? send_next(call, worker, slice) : MUSTER_OK;
}

bool mst_call_absence(const void *context, int32_t rank, char *text, size_t size) {
    const mst_call *call = context;
    if (rank >= call->size) return false;
    const int32_t count = mst_call_shards_per_rank(call);
    for (int32_t s = rank * count; s < (rank + 1) * count; s++)
        if (call->shards[s].runs) return false;
    snprintf(text, size,
             "has no rows, and function '%.100s' does not run without rows: a body in which workers wait for each other needs "
             "muster_function_set_runs_without_rows",
             mst_function_name(call->function));
    return true;
}

bool mst_call_explain_absence(const muster_worker *worker, int32_t rank, char text[MST_ABSENCE_TEXT]) {
    const mst_rank *caller = mst_worker_rank(worker);
    return caller && mst_call_absence(caller->call, rank, text, MST_ABSENCE_TEXT);
}

static muster_status call_run_shard(mst_call *call, muster_worker *worker, mst_logical_shard *shard) {
    const mst_plan *plan = &call->function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    rank->shard = shard;
    rank->body.shard = (call->first_shard + mst_call_shard_number(call, shard)) * call->shards_each;
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
    rank->body.shards = call->total_shards * call->shards_each;
    rank->body.shards_here = call->shards_each;
    const bool one_at_a_time = call->shards_each && !call->function->shards_together;
    if (one_at_a_time) mst_worker_set_per_shard(worker, true);
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < count && !status; i++) status = call_run_shard(call, worker, &shards_here[i]);
    if (one_at_a_time) mst_worker_set_per_shard(worker, false);
    return status;
}

muster_status mst_call_run_rank(mst_call *call, muster_worker *worker) {
    const mst_plan *plan = &call->function->plan;
    mst_rank *rank = mst_call_rank(call, worker);
    rank->kept_plan = 0;
    rank->run_weight = 0;
    rank->broadcast_staged = false;
    rank->chunks = 0;
    rank->ahead = -1;
    rank->call = call;
    rank->body.total_rows = plan->count;
    rank->body.slices = plan->slices;
    worker->slots[MST_SLOT_FUNCTION] = rank;
    mst_updates_reset(call, worker);
    MUSTER_TRY(call_run_shards(call, worker));
    rank->body.weight = rank->run_weight;
    MUSTER_TRY(mst_updates_finish(call, worker));
    if (plan->repeatable && (rank->body.rows > 0 || call->function->counts_without_rows) && rank->shard->runs)
        rank->kept_plan = plan->number;
    return mst_outputs_combine(call, worker);
}
