/* Reductions in which the values of every rank travel, as the communicators "naive" and "flat" of
 * ChainerMN do it. They are combined in rank order wherever the ranks are, so the bits are those of
 * one process. Simple and slow: one piece after the other, with a meeting after each step.
 *
 * naive: every rank's values go to process 0, whose ranks combine them, and the result goes to all.
 * flat: the piece is cut into a slice for each rank; slice k of every rank's values goes to the
 * rank in place k, which combines them, and the results go to all; also in the reproducible mode,
 * where the ranks of a process do not follow one another. Places count the ranks of the first
 * process, then those of the second, ..., so that the concatenation of the slices is the piece.
 *
 * With a wire dtype every rank rounds its values to it, and what is combined is rounded once
 * more. */
#include "names_private.h"
#include "nodes_transport_private.h"

typedef struct ranks {
    mst_nodes_state *state;
    const mst_batch *batch;
    const mst_view *view;
    const mst_rank_span *span;
    muster_dtype dtype, compute;
    muster_dtype travel, back; /* of the values and of the results, on their way */
    muster_reduction op;
    const double *process_weights; /* of the processes; NULL: each value has `scale` */
    double scale;                  /* of an average */
    int64_t element, travel_element, back_element, count;
    int64_t first, last; /* of the piece */
    char *sent, *values; /* what this process sends, and what it gets of all */
    char *mine, *result; /* what it has combined, and the whole piece */
    bool flat;
} ranks;

bool mst_nodes_ranks_serve(const mst_batch *batch, const mst_view *view) {
    const mst_nodes_name name = mst_nodes_name_of(batch->communicator);
    const bool ordered = mst_nodes_is_ordered(batch->communicator, mst_view_own(view)) && !mst_nodes_has_order(batch->communicator->span);
    if (name != MST_NODES_naive && name != MST_NODES_flat && !ordered) return false;
    switch (mst_view_own(view)->collective) {
    case MST_ALL_REDUCE:
    case MST_ALL_REDUCE_AXPY:
    case MST_REDUCE:
    case MST_REDUCE_SCATTER:
        return true;
    default:
        return false;
    }
}

/* ---- where what lies ---- */

/* A rank has as many vectors as shards. Those of process p before its rank r; r < 0: all of p. */
static int64_t ranks_vectors(const ranks *k, int32_t p, int32_t before) {
    int64_t vectors = 0;
    for (int32_t r = 0; r < k->span->size; r++)
        if (k->span->process_of[r] == p && (before < 0 || k->span->index_of[r] < k->span->index_of[before]))
            vectors += mst_request_shards(k->view->requests[r]);
    return vectors;
}

static int64_t ranks_all_vectors(const ranks *k) {
    int64_t vectors = 0;
    for (int32_t p = 0; p < k->span->processes; p++) vectors += ranks_vectors(k, p, -1);
    return vectors;
}

/* The first place of process p. */
static int32_t ranks_place(const ranks *k, int32_t p) {
    int32_t place = 0;
    for (int32_t q = 0; q < p; q++) place += k->span->counts[q];
    return place;
}

/* The elements of the piece that the rank in this place combines, from the beginning of the piece;
 * naive: the ranks of process 0 divide it. */
static void ranks_slice(const ranks *k, int32_t place, int64_t *begin, int64_t *end) {
    const int32_t takers = k->flat ? k->span->size : k->span->counts[0];
    *begin = *end = 0;
    if (place < takers) mst_segment(k->last - k->first, k->back_element, takers, place, begin, end);
}

/* The elements that the ranks of process p combine, and where they begin. */
static int64_t ranks_portion(const ranks *k, int32_t p, int64_t *begin) {
    int64_t first = 0, last = 0, between;
    const int32_t place = ranks_place(k, p);
    ranks_slice(k, place, &first, &between);
    ranks_slice(k, place + k->span->counts[p] - 1, &between, &last);
    if (begin) *begin = first;
    return last > first ? last - first : 0;
}

/* ---- the steps ---- */

/* This rank's values, for each process in turn: vectors of what the ranks there combine. */
static void ranks_fill(const ranks *k) {
    const mst_request *request = mst_view_own(k->view);
    const int64_t all = ranks_vectors(k, k->span->here, -1), before = ranks_vectors(k, k->span->here, k->view->rank);
    char *at = k->sent;
    for (int32_t q = 0; q < k->span->processes; q++) {
        int64_t begin = 0;
        const int64_t portion = ranks_portion(k, q, &begin);
        for (int64_t s = 0; s < mst_request_shards(request); s++)
            mst_convert(k->travel, at + (before + s) * portion * k->travel_element, k->dtype,
                        (const char *)request->input + (s * k->count + k->first + begin) * k->element, portion);
        at += all * portion * k->travel_element;
    }
}

/* The slice of a rank, in the portion of its process. */
typedef struct ranks_part {
    const ranks *k;
    int64_t portion, begin;
} ranks_part;

/* sum[0, count) = the values of all ranks in their order, from element `first` of the slice on. */
static void ranks_sum(const void *context, void *sum, int64_t first, int64_t count) {
    const ranks_part *part = context;
    const ranks *k = part->k;
    int64_t combined = 0;
    for (int32_t r = 0; r < k->span->size; r++) {
        const char *values = k->values;
        const double scale = k->process_weights ? k->process_weights[k->span->process_of[r]] : k->scale;
        for (int32_t p = 0; p < k->span->process_of[r]; p++) values += ranks_vectors(k, p, -1) * part->portion * k->travel_element;
        values += ranks_vectors(k, k->span->process_of[r], r) * part->portion * k->travel_element;
        for (int64_t s = 0; s < mst_request_shards(k->view->requests[r]); s++, values += part->portion * k->travel_element)
            mst_reduction_accumulate(k->op, k->travel, sum, values + (part->begin + first) * k->travel_element, count, scale,
                                     combined++ == 0);
    }
    if (combined == 0) mst_reduction_identity(k->op, k->compute, sum, count);
}

/* What this rank combines. */
static void ranks_combine(const ranks *k) {
    int64_t begin, end, start = 0;
    ranks_part part = {.k = k, .portion = ranks_portion(k, k->span->here, &start)};
    ranks_slice(k, ranks_place(k, k->span->here) + k->batch->rank, &begin, &end);
    if (begin == end) return;
    part.begin = begin - start;
    char *to = k->mine + part.begin * k->back_element;
    if (k->back == k->compute)
        ranks_sum(&part, to, 0, end - begin);
    else
        mst_nodes_narrow(k->back, k->compute, to, end - begin, ranks_sum, &part);
}

static mst_move ranks_spread(const ranks *k, mst_nodes_buffer *buffer) {
    const int64_t here = ranks_vectors(k, k->span->here, -1);
    for (int32_t p = 0; p < k->span->processes; p++) {
        buffer->send_bytes[p] = here * ranks_portion(k, p, NULL) * k->travel_element;
        buffer->bytes[p] = ranks_vectors(k, p, -1) * ranks_portion(k, k->span->here, NULL) * k->travel_element;
    }
    return (mst_move){
        .kind = MST_MOVE_ALL_TO_ALL, .bytes = buffer->bytes, .send_bytes = buffer->send_bytes, .from = k->sent, .to = k->values};
}

static mst_move ranks_collect(const ranks *k, mst_nodes_buffer *buffer) {
    for (int32_t p = 0; p < k->span->processes; p++) buffer->bytes[p] = ranks_portion(k, p, NULL) * k->back_element;
    if (k->flat) return (mst_move){.kind = MST_MOVE_ALL_GATHER, .bytes = buffer->bytes, .from = k->mine, .to = k->result};
    return (mst_move){.kind = MST_MOVE_BROADCAST, .count = buffer->bytes[0], .to = k->result};
}

/* The members of this process meet when the leader has moved that. */
static muster_status ranks_move(const ranks *k, mst_nodes_buffer *buffer, mst_move (*move)(const ranks *, mst_nodes_buffer *)) {
    MUSTER_TRY(mst_nodes_join_members(k->batch));
    if (mst_nodes_leads(k->batch)) {
        buffer->move = move(k, buffer);
        muster_status status = mst_schedule_begin(&k->state->schedule, &buffer->move);
        if (status == MUSTER_OK) status = mst_nodes_drive(k->state, k->batch->worker, k->batch->function);
        mst_nodes_conclude(k->state, status);
    }
    return mst_nodes_join_members(k->batch);
}

static muster_status ranks_chunk(ranks *k) {
    mst_nodes_buffer *buffers = k->state->buffers;
    ranks_fill(k);
    MUSTER_TRY(ranks_move(k, &buffers[0], ranks_spread));
    ranks_combine(k);
    MUSTER_TRY(ranks_move(k, &buffers[1], ranks_collect));
    mst_nodes_fold_drain(k->batch, k->view, k->first, k->last, k->result);
    return MUSTER_OK;
}

static ranks ranks_of(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    const mst_request *here = mst_view_own(view);
    const bool narrow = mst_nodes_is_narrow(batch->communicator, here);
    ranks k = {.state = state,
               .batch = batch,
               .view = view,
               .span = state->span,
               .dtype = here->dtype,
               .compute = mst_dtype_compute(here->dtype),
               .travel = narrow ? batch->communicator->world->wire_dtype : here->dtype,
               .back = mst_nodes_travelling(batch->communicator, here),
               .op = mst_request_process_weights(here) ? MUSTER_AVG : mst_nodes_op(here),
               .process_weights = mst_request_process_weights(here),
               .element = muster_dtype_size(here->dtype),
               .count = mst_nodes_vector(here),
               .sent = state->buffers[0].from,
               .values = state->buffers[0].to,
               .mine = state->buffers[1].from,
               .result = state->buffers[1].to,
               .flat = mst_nodes_name_of(batch->communicator) != MST_NODES_naive};
    k.scale = 1.0 / (double)mst_view_shards(view);
    k.travel_element = muster_dtype_size(k.travel);
    k.back_element = muster_dtype_size(k.back);
    if (!k.flat) k.mine = k.result;
    return k;
}

muster_status mst_nodes_ranks_run(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    ranks k = ranks_of(state, batch, view);
    const int64_t vectors = ranks_all_vectors(&k), bytes = (vectors > 1 ? vectors : 1) * k.travel_element;
    const int64_t wide = bytes > k.back_element ? bytes : k.back_element, most = mst_nodes_area_bytes(state->span) / wide;
    if (most == 0)
        return mst_error(MUSTER_UNSUPPORTED, "%s: expected at most %lld shards of all ranks with the algorithm \"%s\", received %lld",
                         batch->function, (long long)(mst_nodes_area_bytes(state->span) / k.travel_element), k.flat ? "flat" : "naive",
                         (long long)vectors);
    for (; k.first < k.count; k.first = k.last) {
        k.last = k.count - k.first < most ? k.count : k.first + most;
        MUSTER_TRY(ranks_chunk(&k));
    }
    return MUSTER_OK;
}
