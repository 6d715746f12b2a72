/* The leaders of the processes tell each other what all ranks request, so that all come to the same
 * answer whether the requests match. */
#include "nodes_transport_private.h"

/* ---- records ---- */

static mst_nodes_record record_of(const mst_request *r) {
    mst_nodes_record record = {.collective = r->collective,
                               .reduction = r->reduction,
                               .dtype = r->dtype,
                               .input = r->input != NULL,
                               .output = r->output != NULL,
                               .momentum = mst_request_momentum(r) != NULL,
                               .uneven = mst_request_is_uneven(r),
                               .exact = r->exact,
                               .process_weights = mst_request_process_weights(r) != NULL,
                               .root = r->root,
                               .input_count = r->input_count,
                               .output_count = r->output_count};
    if (!record.uneven) memcpy(&record.number, &r->tag, sizeof record.number);
    if (record.momentum) record.beta = mst_request_momentum(r)->beta;
    if (mst_request_applies(r)) {
        record.table = r->apply->table;
        record.segments = r->apply->segment_count;
        record.buckets = r->apply->layout.bucket_count;
        record.bucket = r->apply->bucket;
        record.phase = r->apply->phase;
    }
    return record;
}

/* A request of another process. Its addresses only say that there is memory. */
static mst_request request_of(const mst_nodes_record *record, mst_momentum *momentum, mst_apply_offer *offer) {
    static int64_t there;
    static const double weight = 1;
    mst_request r = {.collective = record->collective,
                     .reduction = record->reduction,
                     .dtype = record->dtype,
                     .exact = record->exact,
                     .root = record->root,
                     .input_count = record->input_count,
                     .output_count = record->output_count,
                     .input = record->input ? &there : NULL,
                     .output = record->output ? &there : NULL};
    memcpy(&r.tag, &record->number, sizeof r.tag);
    if (record->uneven) r.send_counts = r.recv_counts = &there; /* gather_counts replaces them */
    if (record->collective == MST_ALL_REDUCE_APPLY) {
        *offer = (mst_apply_offer){.table = record->table,
                                   .segment_count = record->segments,
                                   .layout = {.bucket_count = record->buckets},
                                   .bucket = record->bucket,
                                   .phase = record->phase};
        r.apply = offer;
    }
    if (record->process_weights) r.process_weights = &weight;
    if (!record->momentum) return r;
    *momentum = (mst_momentum){.beta = record->beta};
    r.momentum = momentum;
    return r;
}

const mst_request *mst_nodes_offered(const mst_batch *batch, int32_t member, int32_t entry, bool head) {
    const mst_request *line = (const mst_request *)mst_team_flag_line(batch->communicator->team, member, batch->tag)->payload;
    return head || batch->count == 1 ? line : (const mst_request *)line->input + entry;
}

/* ---- the requests of all ranks ---- */

static muster_status make_room(mst_nodes_state *state, int32_t entries) {
    const mst_rank_span *span = state->span;
    const int64_t all = (int64_t)entries * span->size, mine = (int64_t)entries * span->most * (int64_t)sizeof(mst_nodes_record);
    MUSTER_TRY(mst_nodes_grow(&state->records, mine + 2 * MST_NODES_PAYLOAD_BYTES)); /* with a small collective and its result */
    MUSTER_TRY(mst_nodes_grow(&state->gathered, mine * span->processes));
    MUSTER_TRY(mst_nodes_grow(&state->requests, all * (int64_t)sizeof(mst_request)));
    MUSTER_TRY(mst_nodes_grow(&state->weights, span->processes * (int64_t)sizeof(double)));
    MUSTER_TRY(mst_nodes_grow(&state->momenta, all * (int64_t)sizeof(mst_momentum)));
    MUSTER_TRY(mst_nodes_grow(&state->offers, all * (int64_t)sizeof(mst_apply_offer)));
    return mst_nodes_grow(&state->pointers, all * (int64_t)sizeof(mst_request *));
}

/* mine[entries][most]: those of this process. */
static void put_records(const mst_batch *batch, mst_nodes_record *mine, int32_t entries, bool heads) {
    const int32_t most = batch->communicator->span->most;
    memset(mine, 0, (size_t)entries * (size_t)most * sizeof *mine);
    for (int32_t i = 0; i < entries; i++)
        for (int32_t m = 0; m < batch->communicator->size; m++)
            mine[(int64_t)i * most + m] = record_of(mst_nodes_offered(batch, m, i, heads));
}

/* Fills `requests` and `pointers` of all items; those of process p have records at all + p *
 * stride. */
static void set_requests(mst_nodes_state *state, const mst_batch *batch, int32_t entries, bool heads, const char *all, int64_t stride) {
    const mst_rank_span *span = state->span;
    mst_request *requests = state->requests.at;
    const mst_request **pointers = state->pointers.at;
    mst_momentum *momenta = state->momenta.at;
    mst_apply_offer *offers = state->offers.at;
    for (int32_t i = 0; i < entries; i++)
        for (int32_t r = 0; r < span->size; r++) {
            const int64_t at = (int64_t)i * span->size + r;
            const int32_t p = span->process_of[r], m = span->index_of[r];
            const mst_nodes_record *records = (const mst_nodes_record *)(const void *)(all + p * stride);
            requests[at] = p == span->here ? *mst_nodes_offered(batch, m, i, heads)
                                           : request_of(&records[(int64_t)i * span->most + m], &momenta[at], &offers[at]);
            pointers[at] = &requests[at];
        }
}

/* What one rank requires to be exact is exact on all. Do they agree on it? */
static bool agree_exact(mst_nodes_state *state, int32_t entries) {
    const int32_t size = state->span->size;
    bool equal = true;
    for (int32_t i = 0; i < entries; i++) {
        mst_request *requests = (mst_request *)state->requests.at + (int64_t)i * size;
        int32_t exact = 0;
        for (int32_t r = 0; r < size; r++) exact += requests[r].exact;
        for (int32_t r = 0; r < size; r++) requests[r].exact = exact > 0;
        equal &= exact == 0 || exact == size;
    }
    return equal;
}

static muster_status gather_requests(mst_nodes_state *state, const mst_batch *batch, int32_t entries, bool heads) {
    const int64_t bytes = (int64_t)entries * state->span->most * (int64_t)sizeof(mst_nodes_record);
    MUSTER_TRY(make_room(state, entries));
    put_records(batch, state->records.at, entries, heads);
    MUSTER_TRY(mst_nodes_gather_all(state, batch->worker, batch->function, state->records.at, bytes, state->gathered.at));
    set_requests(state, batch, entries, heads, state->gathered.at, bytes);
    agree_exact(state, entries);
    return MUSTER_OK;
}

/* What the flag lines hold, and with it the values of a small collective; state->small says whether
 * they have come. */
static muster_status gather_heads(mst_nodes_state *state, const mst_batch *batch) {
    const int64_t records = state->span->most * (int64_t)sizeof(mst_nodes_record);
    bool matched;
    MUSTER_TRY(make_room(state, 1));
    char *mine = state->records.at, *result = mine + records + MST_NODES_PAYLOAD_BYTES;
    mst_nodes_small small = mst_nodes_small_of(batch);
    put_records(batch, state->records.at, 1, true);
    if (small.bytes > 0) mst_nodes_small_put(batch, &small, mine + records);
    MUSTER_TRY(mst_nodes_arrive(state, batch->worker, batch->function, mine, records + small.bytes, &matched));
    if (!matched) small.bytes = 0;
    if (!matched) MUSTER_TRY(mst_nodes_arrive(state, batch->worker, batch->function, mine, records, &matched));
    small.all = (const char *)state->arrival.all + records;
    small.stride = records + small.bytes;
    small.result = result;
    state->small = small;
    set_requests(state, batch, 1, true, (const char *)state->arrival.all, small.stride);
    if (!agree_exact(state, 1)) state->small.bytes = 0; /* their values may have different dtypes */
    return MUSTER_OK;
}

/* ---- the counts of an uneven all_to_all ---- */

static int32_t uneven_entries(const mst_nodes_state *state, int32_t entries) {
    const mst_request *requests = state->requests.at;
    int32_t count = 0;
    for (int32_t i = 0; i < entries; i++) count += mst_request_is_uneven(&requests[(int64_t)i * state->span->size]);
    return count;
}

/* Each rank brings, for each such item, how much it sends to and receives from every rank. */
static muster_status gather_counts(mst_nodes_state *state, const mst_batch *batch, int32_t entries) {
    const mst_rank_span *span = state->span;
    const int64_t size = span->size, pair = 2 * size, uneven = uneven_entries(state, entries), block = uneven * span->most * pair;
    if (uneven == 0) return MUSTER_OK;
    MUSTER_TRY(mst_nodes_grow(&state->counts, block * 8));
    MUSTER_TRY(mst_nodes_grow(&state->gathered_counts, block * 8 * span->processes));
    int64_t *mine = state->counts.at, *all = state->gathered_counts.at, u = 0;
    mst_request *requests = state->requests.at;
    memset(mine, 0, (size_t)block * 8);
    for (int32_t i = 0; i < entries; i++) {
        if (!mst_request_is_uneven(&requests[i * size])) continue;
        for (int32_t m = 0; m < batch->communicator->size; m++) {
            int64_t *to = mine + (u * span->most + m) * pair;
            const mst_request *r = mst_nodes_offered(batch, m, i, false);
            memcpy(to, r->send_counts, (size_t)size * 8);
            memcpy(to + size, r->recv_counts, (size_t)size * 8);
        }
        u++;
    }
    MUSTER_TRY(mst_nodes_gather_all(state, batch->worker, batch->function, mine, block * 8, all));
    u = 0;
    for (int32_t i = 0; i < entries; i++) {
        if (!mst_request_is_uneven(&requests[i * size])) continue;
        for (int32_t r = 0; r < size; r++) {
            const int64_t *from = all + span->process_of[r] * block + (u * span->most + span->index_of[r]) * pair;
            requests[i * size + r].send_counts = from;
            requests[i * size + r].recv_counts = from + size;
        }
        u++;
    }
    return MUSTER_OK;
}

/* ---- checks ---- */

static muster_status check_heads(const mst_nodes_state *state, const mst_batch *batch, int32_t entries) {
    for (int32_t i = 0; i < entries; i++) {
        const mst_view view = mst_nodes_view(state, batch, i);
        MUSTER_TRY(mst_check_heads(batch->communicator, &view));
    }
    return MUSTER_OK;
}

static muster_status check_counts(const mst_nodes_state *state, const mst_batch *batch, int32_t entries) {
    for (int32_t i = 0; i < entries; i++) {
        const mst_view view = mst_nodes_view(state, batch, i);
        MUSTER_TRY(mst_check_counts(batch->communicator, &view));
    }
    return MUSTER_OK;
}

muster_status mst_nodes_agree(mst_nodes_state *state, const mst_batch *batch) {
    MUSTER_TRY(gather_heads(state, batch));
    if (state->arrival.header.most != 0) { /* before a refusal: all come here */
        MUSTER_TRY(mst_nodes_renew(state, batch->worker));
        state->small.bytes = 0; /* its arrivals have taken the place of the values */
    }
    MUSTER_TRY(check_heads(state, batch, 1));
    if (batch->count > 1) {
        MUSTER_TRY(gather_requests(state, batch, batch->count, false));
        MUSTER_TRY(check_heads(state, batch, batch->count));
    }
    MUSTER_TRY(gather_counts(state, batch, batch->count));
    MUSTER_TRY(check_counts(state, batch, batch->count));
    if (mst_request_applies(batch->requests)) {
        const mst_view view = mst_nodes_view(state, batch, 0);
        (void)mst_nodes_weights(state, &view);
    }
    if (state->small.bytes > 0) {
        const mst_view view = mst_nodes_view(state, batch, 0);
        mst_nodes_small_fold(state, batch, &view);
        return MUSTER_OK;
    }
    MUSTER_TRY(mst_nodes_measure(state, batch));
    return mst_nodes_open_buffers(state);
}
