/* A round: all members arrive with what they ask for, each does its part, and nobody leaves while
 * another still uses its memory.
 *
 * What a member offers to the others is its tensor (direct), a copy beside its line (inline) or a
 * copy aside (reference). With inline everywhere the round ends with the last arrival, since the
 * slots are used in turn like the lines. */
#include "../mover_impl.h"

#include <string.h>

typedef struct round {
    mst_host_communicator *self;
    mst_host_member *own;
    muster_worker *worker;
    const mst_request *requests; /* as the caller asked */
    /* as the others see them: addresses in host memory; the line's payload, or an array */
    mst_request *offered;
    int32_t count, rank;
    bool on_devices; /* tensors are offered where they are, and the data goes by p2p or NCCL */
    uint64_t tag, event;
    const char *name;
} round;

/* ---- what this rank offers ---- */

static bool on_host(const round *r) { return mst_device_is_host(r->worker->device); }

static bool reads_output(const mst_request *request) { return request->collective == MST_ALL_REDUCE_AXPY; }

static bool uneven(const mst_request *request) { return request->collective == MST_ALL_TO_ALL && request->send_counts; }

/* Of the arrays of an uneven all_to_all, which inline puts into the slot behind the data. */
static int64_t counts_bytes(const round *r, const mst_request *request) {
    return uneven(request) ? (int64_t)sizeof(int64_t) * r->self->base.size : 0;
}

static mst_algorithm_kind choose(const round *r, const mst_request *request) {
    mst_algorithm_kind forced = r->self->forced < MST_P2P ? r->self->forced : 0;
    /* Not inline, which keeps momentum's whole velocity on every rank: the other ways keep each
     * rank's own segment, and may serve the next step. */
    if (mst_request_momentum(request) && r->self->movers) return forced == MST_REFERENCE ? forced : MST_DIRECT;
    if (r->count > 1) return forced == MST_REFERENCE ? MST_REFERENCE : MST_DIRECT;
    int64_t bytes = mst_request_input_bytes(request) + 2 * counts_bytes(r, request);
    return mst_algorithm_select(request->collective, mst_pool_settings(r->self->pool)->spin_ns == 0, bytes, forced);
}

/* Of the copies that are not beside the line. */
static int64_t aside_bytes(const round *r, const mst_request *request, mst_algorithm_kind kind) {
    bool copies_input = kind == MST_REFERENCE || (kind == MST_DIRECT && !on_host(r));
    return (copies_input ? mst_aside_bytes(mst_request_input_bytes(request)) : 0) +
           (on_host(r) ? 0 : mst_aside_bytes(mst_request_output_bytes(request)) * (mst_request_momentum(request) ? 2 : 1));
}

static muster_status offer_input(round *r, const mst_request *request, mst_request *offered) {
    int64_t bytes = mst_request_input_bytes(request);
    if (offered->algorithm == MST_DIRECT && on_host(r)) return MUSTER_OK;
    char *copy;
    if (offered->algorithm == MST_INLINE) {
        copy = r->own->slots[r->tag & 1];
        int64_t counts = counts_bytes(r, request);
        if (counts > 0) {
            char *behind = copy + MST_SLOT_BYTES - 2 * counts;
            memcpy(behind, request->send_counts, (size_t)counts);
            memcpy(behind + counts, request->recv_counts, (size_t)counts);
            offered->send_counts = (const int64_t *)behind;
            offered->recv_counts = (const int64_t *)(behind + counts);
        }
    } else {
        copy = mst_aside_take(&r->own->aside, bytes);
    }
    if (request->input) offered->input = copy;
    return mst_copy_out(r->worker, copy, request->input, bytes);
}

static muster_status offer_output(round *r, const mst_request *request, mst_request *offered) {
    if (on_host(r) || !request->output) return MUSTER_OK;
    int64_t bytes = mst_request_output_bytes(request);
    offered->output = mst_aside_take(&r->own->aside, bytes);
    return reads_output(request) ? mst_copy_out(r->worker, offered->output, request->output, bytes) : MUSTER_OK;
}

static muster_status offer_momentum(round *r, const mst_request *request, mst_request *offered) {
    const mst_momentum *momentum = mst_request_momentum(request);
    if (!momentum) return MUSTER_OK;
    int64_t bytes = mst_request_output_bytes(request);
    mst_momentum *own = &r->own->momentum[r->tag & 1];
    *own = *momentum;
    offered->momentum = own;
    if (on_host(r)) return MUSTER_OK;
    own->velocity = mst_aside_take(&r->own->aside, bytes);
    return mst_copy_out(r->worker, own->velocity, momentum->velocity, bytes);
}

static mst_items items_of(const round *r) { return (mst_items){r->self, r->worker, r->rank, r->count, r->tag}; }

static muster_status offer_on_device(round *r) {
    const mst_items items = items_of(r);
    for (int32_t i = 0; i < r->count; i++) {
        const mst_momentum *momentum = mst_request_momentum(&r->requests[i]);
        r->offered[i] = r->requests[i];
        r->offered[i].algorithm = MST_P2P; /* or another: decided when all have come */
        if (!momentum) continue;
        r->own->momentum[r->tag & 1] = *momentum;
        r->offered[i].momentum = &r->own->momentum[r->tag & 1];
    }
    return mst_movers_offer(&items, r->offered);
}

static muster_status offer(round *r) {
    int64_t aside = 0;
    if (r->on_devices) return offer_on_device(r);
    for (int32_t i = 0; i < r->count; i++) {
        r->offered[i] = r->requests[i];
        mst_algorithm_kind kind = choose(r, &r->requests[i]);
        r->offered[i].algorithm = (uint8_t)kind;
        aside += aside_bytes(r, &r->requests[i], kind);
    }
    if (aside > 0) MUSTER_TRY(mst_aside_begin(&r->own->aside, aside));
    for (int32_t i = 0; i < r->count; i++) {
        MUSTER_TRY(offer_input(r, &r->requests[i], &r->offered[i]));
        MUSTER_TRY(offer_output(r, &r->requests[i], &r->offered[i]));
        MUSTER_TRY(offer_momentum(r, &r->requests[i], &r->offered[i]));
    }
    return MUSTER_OK;
}

static muster_status fetch_outputs(const round *r) {
    if (on_host(r)) return MUSTER_OK;
    for (int32_t i = 0; i < r->count; i++) {
        const mst_request *request = &r->requests[i];
        int64_t bytes = mst_request_output_bytes(request);
        MUSTER_TRY(mst_copy_in(r->worker, request->output, r->offered[i].output, bytes));
        const mst_momentum *momentum = mst_request_momentum(request);
        if (momentum) MUSTER_TRY(mst_copy_in(r->worker, momentum->velocity, r->offered[i].momentum->velocity, bytes));
    }
    return MUSTER_OK;
}

/* ---- meeting the others ---- */

/* A round of one request is in the lines; one of several has a request of the kind GROUP there,
 * with the array behind `input`. */
static const mst_request *line_of(const round *r, int32_t rank) {
    return (const mst_request *)mst_team_flag_line(r->self->team, rank, r->tag)->payload;
}

static mst_view view_of_lines(const round *r) {
    mst_view view = {.requests = r->own->requests, .size = r->self->base.size, .rank = r->rank, .chunk = r->own->chunk};
    for (int32_t rank = 0; rank < view.size; rank++) r->own->requests[rank] = line_of(r, rank);
    return view;
}

static mst_view view_of_item(const round *r, int32_t item) {
    mst_view view = {.requests = r->own->requests, .size = r->self->base.size, .rank = r->rank, .chunk = r->own->chunk};
    for (int32_t rank = 0; rank < view.size; rank++) r->own->requests[rank] = (const mst_request *)line_of(r, rank)->input + item;
    return view;
}

/* Reference is chosen by all or none, inline and direct by size, which may differ between the
 * ranks. */
static const mst_algorithm *common_algorithm(const mst_view *view) {
    for (int32_t rank = 1; rank < view->size; rank++) {
        if (view->requests[rank]->algorithm != view->requests[0]->algorithm) return mst_algorithm_of(MST_DIRECT);
    }
    return mst_algorithm_of(view->requests[0]->algorithm);
}

static void serve(const mst_algorithm *algorithm, const mst_view *view) {
    mst_collective collective = view->requests[0]->collective;
    if (algorithm->serve[collective]) algorithm->serve[collective](view); /* a barrier has nothing to do */
}

static muster_status serve_items(const round *r) {
    for (int32_t i = 0; i < r->count; i++) {
        mst_view view = view_of_item(r, i);
        MUSTER_TRY(mst_check_heads(r->self, &view));
        MUSTER_TRY(mst_check_counts(r->self, &view));
    }
    for (int32_t i = 0; i < r->count; i++) {
        mst_view view = view_of_item(r, i);
        serve(common_algorithm(&view), &view);
    }
    return MUSTER_OK;
}

static muster_status serve_one(const round *r, const mst_view *view, const mst_algorithm *algorithm) {
    MUSTER_TRY(mst_check_counts(r->self, view));
    serve(algorithm, view);
    return MUSTER_OK;
}

/* Keeps the first failure and its message. */
static muster_status leave(const round *r, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (status != MUSTER_OK) mst_error_save(message);
    muster_status left = mst_team_leave(r->self->team, r->worker, r->tag, r->name);
    return status != MUSTER_OK ? mst_error_restore(status, message) : left;
}

/* All have arrived, and agree on the kind of round. */
static muster_status work(const round *r, const mst_view *view) {
    const mst_algorithm *algorithm = r->count == 1 ? common_algorithm(view) : NULL;
    if (algorithm && algorithm->kind == MST_INLINE) return serve_one(r, view, algorithm);
    muster_status status = mst_team_read_begin(r->self->team, r->worker, r->tag);
    if (status == MUSTER_OK) {
        status = algorithm ? serve_one(r, view, algorithm) : serve_items(r);
        mst_team_read_end(r->self->team, r->worker, r->tag);
    }
    return leave(r, status);
}

mst_view mst_items_view(const mst_items *items, int32_t item) {
    mst_host_member *own = &items->self->members[items->rank];
    const round r = {.self = items->self, .own = own, .rank = items->rank, .tag = items->tag};
    return items->count == 1 ? view_of_lines(&r) : view_of_item(&r, item);
}

static muster_status serve_on_devices(const round *r, const mst_items *items, bool *staged, bool *recorded) {
    for (int32_t i = 0; i < r->count; i++) {
        mst_view view = mst_items_view(items, i);
        if (r->count > 1) MUSTER_TRY(mst_check_heads(r->self, &view));
        MUSTER_TRY(mst_check_counts(r->self, &view));
    }
    return mst_movers_serve(items, staged, recorded);
}

/* staged: nothing has been done, on any rank, and copies in host memory must do it. */
static muster_status work_on_devices(const round *r, bool *staged) {
    const mst_items items = items_of(r);
    bool recorded = false;
    muster_status status = mst_team_read_begin(r->self->team, r->worker, r->tag);
    if (status == MUSTER_OK) {
        status = serve_on_devices(r, &items, staged, &recorded);
        mst_team_read_end(r->self->team, r->worker, r->tag);
    }
    MUSTER_TRY(leave(r, status));
    return recorded ? mst_movers_end(&items) : MUSTER_OK;
}

static muster_status meet(round *r, bool *staged) {
    mst_team_arrive(r->self->team, r->worker, r->tag);
    muster_status status = mst_team_wait_all(r->self->team, r->worker, r->tag, r->name);
    /* those who had all arrivals may be at work */
    if (__builtin_expect(status != MUSTER_OK, 0)) return leave(r, status);
    mst_view view = view_of_lines(r);
    MUSTER_TRY(mst_check_heads(r->self, &view)); /* the same answer everywhere: nobody begins */
    if (r->on_devices) return work_on_devices(r, staged);
    MUSTER_TRY(work(r, &view));
    return fetch_outputs(r);
}

muster_status mst_refuse_lost(const mst_host_communicator *self, muster_worker *worker, const char *name) {
    if (__builtin_expect(!mst_pool_aborted(worker), 1)) return MUSTER_OK;
    char own[MST_RANK_TEXT];
    return mst_error(MUSTER_ABORTED, "%s: %s entered it after the call was lost", name, mst_team_rank_text(self->team, worker->rank, own));
}

/* A barrier has no data, and ends with the last arrival. */
static bool goes_on_devices(const mst_host_communicator *self, const mst_request *requests, int32_t count) {
    if (!mst_host_on_devices(self)) return false;
    return count > 1 || (requests->collective != MST_BARRIER && requests->collective != MST_END_OF_BODY);
}

static muster_status run_one(round *r, mst_request *array, bool *staged) {
    r->tag = mst_team_tag(r->self->team, r->worker);
    mst_request *line = (mst_request *)mst_team_flag_line(r->self->team, r->rank, r->tag)->payload;
    r->offered = r->count == 1 ? line : array;
    muster_status status = offer(r);
    /* the others wait for an arrival that will not come */
    if (status != MUSTER_OK) return mst_pool_abort(r->worker, status), status;
    if (r->count > 1)
        *line = (mst_request){.collective = MST_GROUP, .algorithm = MST_DIRECT, .root = -1, .input_count = r->count, .input = array};
    r->event =
        mst_record_begin(&r->worker->recorder, MST_EVENT_COLLECTIVE, r->name, r->worker->sequence, mst_request_input_bytes(r->requests));
    status = meet(r, staged);
    mst_record_end(&r->worker->recorder, r->event);
    return status;
}

static muster_status run_round(mst_host_communicator *self, muster_worker *worker, const mst_request *requests, mst_request *array,
                               int32_t count) {
    int32_t rank = mst_communicator_rank(&self->base, worker);
    round r = {.self = self, .own = &self->members[rank], .worker = worker, .requests = requests, .count = count, .rank = rank};
    bool staged = false;
    r.name = mst_collective_name(count == 1 ? requests->collective : MST_GROUP);
    r.on_devices = goes_on_devices(self, requests, count);
    MUSTER_TRY(mst_refuse_lost(self, worker, r.name));
    MUSTER_TRY(run_one(&r, array, &staged));
    if (!staged) return MUSTER_OK;
    r.on_devices = false;
    MUSTER_TRY(mst_refuse_lost(self, worker, r.name));
    return run_one(&r, array, &staged);
}

/* ---- what the table calls ---- */

static bool is_message(const mst_request *request) { return request->collective == MST_SEND || request->collective == MST_RECV; }

/* Collectives to the front, in their order, messages behind them. sorted: [count] */
static int32_t sort_group(const mst_request *requests, mst_request *sorted, int32_t count) {
    int32_t filled = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!is_message(&requests[i])) sorted[filled++] = requests[i];
    }
    int32_t collectives = filled;
    for (int32_t i = 0; i < count; i++) {
        if (is_message(&requests[i])) sorted[filled++] = requests[i];
    }
    return collectives;
}

/* Messages are posted before the round and received after it, so that both sides of a message may
 * be in groups. */
muster_status mst_host_run(muster_communicator *base, muster_worker *worker, mst_request *requests, int32_t count) {
    mst_host_communicator *self = mst_host_of(base);
    if (count == 1 && !is_message(requests)) return run_round(self, worker, requests, NULL, 1);
    MUSTER_TRY(mst_refuse_lost(self, worker, mst_collective_name(count == 1 ? requests->collective : MST_GROUP)));
    MUSTER_TRY(mst_messages_check(self, worker, requests, count));
    if (count == 1) return mst_message_run(self, worker, requests);
    mst_request *sorted = requests + MST_GROUP_REQUESTS, *array = sorted + MST_GROUP_REQUESTS;
    int32_t collectives = sort_group(requests, sorted, count);
    if (collectives == count) return run_round(self, worker, sorted, array, count);
    muster_status status = mst_messages_post(self, worker, sorted + collectives, count - collectives);
    if (status == MUSTER_OK && collectives > 0) status = run_round(self, worker, sorted, array, collectives);
    if (status == MUSTER_OK) status = mst_messages_receive(self, worker, sorted + collectives, count - collectives);
    return mst_messages_finish(self, worker, status);
}

static muster_status reserve(muster_communicator *base, muster_worker *worker, int64_t bytes) {
    mst_host_communicator *self = mst_host_of(base);
    if (mst_device_is_host(worker->device) && self->forced != MST_REFERENCE) return MUSTER_OK;
    return mst_aside_begin(&self->members[mst_communicator_rank(base, worker)].aside, 2 * mst_aside_bytes(bytes));
}

const mst_communicator_table mst_host_table = {"host", mst_host_run, mst_host_split, reserve};
