/* A rendezvous: all members arrive with their requests, the requests are compared, a transport
 * serves them, and no member leaves while another may still use its memory.
 *
 * Either an exclusive transport serves the rendezvous alone and may offer tensors or copies of
 * them. Or several sharing transports, which move tensors in place, take part. Then the requests of
 * all ranks decide which transport serves which request, so that all ranks decide alike. If no
 * sharing transport can serve some request, nothing has been done yet, and the batch goes to a
 * second rendezvous, which an exclusive transport serves. */
#include "rendezvous_private.h"

/* ---- what this rank offers ---- */

static void offer_requests(mst_batch *b) {
    for (int32_t i = 0; i < b->count; i++) {
        const mst_momentum *momentum = mst_request_momentum(&b->requests[i]);
        b->offered[i] = b->requests[i];
        b->offered[i].algorithm = 0;
        if (mst_request_applies(&b->requests[i])) {
            b->member->apply[b->tag & 1] = *b->requests[i].apply;
            b->member->apply_tag = b->tag;
            b->offered[i].apply = &b->member->apply[b->tag & 1];
        }
        if (!momentum) continue;
        b->member->momentum[b->tag & 1] = *momentum;
        b->offered[i].momentum = &b->member->momentum[b->tag & 1];
    }
}

/* Without an exclusive transport, all sharing transports prepare. */
static muster_status prepare(mst_batch *b, const mst_transport *exclusive) {
    offer_requests(b);
    if (exclusive) return exclusive->prepare ? exclusive->prepare(b) : MUSTER_OK;
    for (int32_t i = 0; i < b->communicator->shared_count; i++) {
        const mst_transport *transport = b->communicator->shared[i];
        if (transport->prepare) MUSTER_TRY(transport->prepare(b));
    }
    return MUSTER_OK;
}

/* ---- what all ranks offer ---- */

/* The flag lines hold a single request itself. For several requests they hold one of MST_GROUP,
 * whose `input` points to the array of requests. */
static const mst_request *line_request(const mst_batch *b, int32_t rank) {
    return (const mst_request *)mst_team_flag_line(b->communicator->team, rank, b->tag)->payload;
}

static mst_view view_of_lines(const mst_batch *b) {
    mst_view view = {.requests = b->member->requests, .size = b->communicator->size, .rank = b->rank};
    for (int32_t r = 0; r < view.size; r++) b->member->requests[r] = line_request(b, r);
    return view;
}

mst_view mst_batch_view(const mst_batch *b, int32_t item) {
    if (b->count == 1) return b->view;
    mst_view view = {.requests = b->member->requests, .size = b->communicator->size, .rank = b->rank};
    for (int32_t r = 0; r < view.size; r++) b->member->requests[r] = (const mst_request *)line_request(b, r)->input + item;
    return view;
}

static muster_status check(const mst_batch *b) {
    if (b->communicator->span) return MUSTER_OK; /* the transport checks the requests of all processes */
    if (b->count == 1) return mst_check_counts(b->communicator, &b->view);
    for (int32_t i = 0; i < b->count; i++) {
        mst_view view = mst_batch_view(b, i);
        MUSTER_TRY(mst_check_heads(b->communicator, &view));
        MUSTER_TRY(mst_check_counts(b->communicator, &view));
    }
    return MUSTER_OK;
}

/* ---- serving ---- */

/* Leaves the rendezvous. Returns the first failure, with its message. */
static muster_status leave(const mst_batch *b, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (status != MUSTER_OK) mst_error_save(message);
    muster_status left = mst_team_leave(b->communicator->team, b->worker, b->tag, b->function);
    return status != MUSTER_OK ? mst_error_restore(status, message) : left;
}

mst_rendezvous_hook mst_rendezvous_test_hook = NULL;

static bool hook_ends(const mst_batch *b, mst_rendezvous_moment moment, muster_status *status) {
    return __builtin_expect(mst_rendezvous_test_hook != NULL, 0) &&
           mst_rendezvous_test_hook(b->worker, b->requests->collective, moment, status);
}

muster_status mst_rendezvous_begin_writes(const mst_batch *b) {
    muster_status status;
    if (mst_request_applies(b->requests) && b->requests->apply->phase != MST_APPLY_SUM)
        atomic_store_explicit(&b->member->apply_written, b->tag, memory_order_release);
    return hook_ends(b, MST_MOMENT_WRITES, &status) ? status : MUSTER_OK;
}

static muster_status serve_alone(mst_batch *b, const mst_transport *transport) {
    b->member->served_transport = transport->name;
    if (b->count == 1 && transport->ends_at_arrival && transport->ends_at_arrival(b)) {
        MUSTER_TRY(check(b));
        return transport->run(b);
    }
    muster_status status = mst_team_read_begin(b->communicator->team, b->worker, b->tag);
    if (status == MUSTER_OK) {
        status = check(b);
        if (status == MUSTER_OK && !transport->spans) status = mst_rendezvous_begin_writes(b);
        if (status == MUSTER_OK) status = transport->run(b);
        mst_team_read_end(b->communicator->team, b->worker, b->tag);
    }
    return leave(b, status);
}

/* Elects the transport for each request; `served` gets one bit for each transport that has won any.
 * Returns false if no sharing transport can serve some request. */
static bool elect(mst_batch *b, uint32_t *served) {
    *served = 0;
    for (int32_t i = 0; i < b->count; i++) {
        mst_view view = mst_batch_view(b, i);
        const mst_transport *winner = mst_transport_winner(b->communicator, mst_view_own(&view), &view);
        if (!winner) return false;
        b->winners[i] = (uint8_t)winner->number;
        b->member->served_transport = winner->name;
        *served |= 1u << winner->number;
    }
    return true;
}

static muster_status run_winners(mst_batch *b, uint32_t *served, bool *again) {
    MUSTER_TRY(check(b));
    *again = !elect(b, served);
    if (*again) return *served = 0, MUSTER_OK;
    MUSTER_TRY(mst_rendezvous_begin_writes(b));
    for (int32_t i = 0; i < b->communicator->shared_count; i++) {
        const mst_transport *transport = b->communicator->shared[i];
        if (*served & 1u << transport->number) MUSTER_TRY(transport->run(b));
    }
    return MUSTER_OK;
}

/* Sets `again` if no rank has done anything and a second rendezvous must serve the batch. */
static muster_status serve_shared(mst_batch *b, bool *again) {
    uint32_t served = 0;
    muster_status status = mst_team_read_begin(b->communicator->team, b->worker, b->tag);
    if (status == MUSTER_OK) {
        status = run_winners(b, &served, again);
        mst_team_read_end(b->communicator->team, b->worker, b->tag);
    }
    MUSTER_TRY(leave(b, status));
    for (int32_t i = 0; i < b->communicator->shared_count; i++) {
        const mst_transport *transport = b->communicator->shared[i];
        if (served & 1u << transport->number && transport->finish) MUSTER_TRY(transport->finish(b));
    }
    return MUSTER_OK;
}

static muster_status arrive_and_serve(mst_batch *b, const mst_transport *exclusive, bool *again) {
    mst_team_arrive(b->communicator->team, b->worker, b->tag);
    muster_status status = mst_team_wait_all(b->communicator->team, b->worker, b->tag, b->function);
    /* members that have seen all arrivals may already be at work */
    if (__builtin_expect(status != MUSTER_OK, 0)) return leave(b, status);
    b->view = view_of_lines(b);
    if (!b->communicator->span)
        MUSTER_TRY(mst_check_heads(b->communicator, &b->view)); /* all members get the same answer, so none begins */
    if (!exclusive) return serve_shared(b, again);
    MUSTER_TRY(serve_alone(b, exclusive));
    return exclusive->finish ? exclusive->finish(b) : MUSTER_OK;
}

muster_status mst_refuse_aborted(const muster_communicator *communicator, muster_worker *worker, const char *function) {
    if (__builtin_expect(!mst_pool_aborted(worker), 1)) return MUSTER_OK;
    char own_name[MST_RANK_TEXT];
    return mst_error(mst_pool_aborted_status(worker), "%s: %s entered it after the call was aborted", function,
                     mst_team_rank_text(communicator->team, worker->rank, own_name));
}

static muster_status run_once(mst_batch *b, mst_request *array, const mst_transport *exclusive, bool *again) {
    MUSTER_TRY(mst_refuse_aborted(b->communicator, b->worker, b->function));
    b->tag = mst_team_tag(b->communicator->team, b->worker);
    mst_request *line = (mst_request *)mst_team_flag_line(b->communicator->team, b->rank, b->tag)->payload;
    b->offered = b->count == 1 ? line : array;
    muster_status status = prepare(b, exclusive);
    /* the others wait for an arrival that will not come */
    if (status != MUSTER_OK) return mst_pool_abort(b->worker, mst_collective_error(b->function, status)), status;
    if (b->count > 1) *line = (mst_request){.collective = MST_GROUP, .root = -1, .input_count = b->count, .input = array};
    uint64_t event =
        mst_record_begin(&b->worker->recorder, MST_EVENT_COLLECTIVE, b->name, b->worker->sequence, mst_request_input_bytes(b->requests));
    status = arrive_and_serve(b, exclusive, again);
    mst_record_end(&b->worker->recorder, event);
    return status;
}

/* Transports that copy through host memory work in COMPUTE, also for a collective that should only
 * begin. */
static muster_status run_exclusive(mst_batch *b, mst_request *array, const mst_transport *exclusive) {
    bool again = false;
    mst_device_exchange_leave(b->worker->device);
    MUSTER_TRY(mst_device_exchange_end(b->worker->device));
    return run_once(b, array, exclusive, &again);
}

/* Do sharing transports take part? Not in a single barrier, which moves nothing: it ends with the
 * last arrival. */
static bool is_shared(const muster_communicator *communicator, const mst_request *requests, int32_t count) {
    if (communicator->shared_count == 0) return false;
    return count > 1 || (requests->collective != MST_BARRIER && requests->collective != MST_END_OF_BODY);
}

static muster_status run_all(mst_batch *b, mst_request *array, const mst_transport *exclusive) {
    bool again = false;
    if (!is_shared(b->communicator, b->requests, b->count)) return run_exclusive(b, array, exclusive);
    MUSTER_TRY(run_once(b, array, NULL, &again));
    return again ? run_exclusive(b, array, exclusive) : MUSTER_OK;
}

muster_status mst_rendezvous_run(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, mst_request *array,
                                 int32_t count) {
    const int32_t rank = mst_communicator_rank(communicator, worker);
    const mst_collective collective = count == 1 ? requests->collective : MST_GROUP;
    const mst_transport *exclusive = communicator->exclusive[collective];
    mst_batch b = {.communicator = communicator,
                   .member = &communicator->members[rank],
                   .worker = worker,
                   .requests = requests,
                   .count = count,
                   .rank = rank,
                   .name = mst_collective_name(collective),
                   .function = mst_request_function(count == 1 ? requests : &(mst_request){.collective = MST_GROUP})};
    muster_status status;
    b.winners = count == 1 ? &b.winner : b.member->group.winners;
    if (hook_ends(&b, MST_MOMENT_ENTERS, &status)) return status;
    MUSTER_TRY(run_all(&b, array, exclusive));
    return hook_ends(&b, MST_MOMENT_LEAVES, &status) ? status : MUSTER_OK;
}
