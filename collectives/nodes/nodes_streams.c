/* Collectives that only move. What the members of one process send to those of another is a stream:
 * blocks one behind the other, in an order that both know. A round moves the next piece of every
 * stream. What stays in a process is copied in the first round, by the ranks that receive it. */
#include "nodes_transport_private.h"

/* A block of a stream. */
typedef struct block {
    int32_t from; /* the rank that sends it */
    int32_t to;   /* the rank that receives it; -1: all of the process */
    int64_t bytes;
} block;

/* Do all ranks of a process get the same? Then one copy travels. */
static bool is_shared(const mst_view *view) {
    return mst_view_own(view)->collective == MST_BROADCAST || mst_view_own(view)->collective == MST_ALL_GATHER;
}

/* What goes from rank `from` to rank `to`; 0: nothing. */
static int64_t block_bytes(const mst_view *view, int32_t from, int32_t to) {
    const mst_request *sender = view->requests[from], *here = mst_view_own(view);
    const int64_t element = mst_view_element(view);
    switch (here->collective) {
    case MST_BROADCAST:
        return from == here->root ? sender->output_count * element : 0;
    case MST_ALL_GATHER:
        return sender->input_count * element;
    case MST_GATHER:
        return to == here->root ? sender->input_count * element : 0;
    case MST_SCATTER:
        return from == here->root ? view->requests[to]->output_count * element : 0;
    default:
        return (sender->send_counts ? sender->send_counts[to] : sender->input_count / view->size) * element;
    }
}

/* Where rank `from`, of this process, has what it sends to rank `to`. */
static const char *source_of(const mst_view *view, int32_t from, int32_t to) {
    const mst_request *sender = view->requests[from];
    switch (mst_view_own(view)->collective) {
    case MST_SCATTER:
        return mst_at(sender->input, mst_view_offset(view, to) * mst_view_element(view));
    case MST_ALL_TO_ALL:
        return mst_view_block(view, from, to).from;
    default:
        return sender->input;
    }
}

/* Where rank `to` gets what rank `from` sends. */
static char *place_of(const mst_view *view, int32_t from, int32_t to) {
    const int64_t element = mst_view_element(view);
    char *output = view->requests[to]->output;
    switch (mst_view_own(view)->collective) {
    case MST_ALL_GATHER:
    case MST_GATHER:
        return mst_at(output, mst_view_offset(view, from) * element);
    case MST_ALL_TO_ALL:
        return mst_view_block(view, from, to).to;
    default:
        return output;
    }
}

/* Iterates over the blocks of the stream from process p to process q. */
typedef struct blocks {
    const mst_rank_span *span;
    const mst_view *view;
    int32_t p, q, from, to;
    int64_t at; /* of the next block in the stream */
} blocks;

static bool next_block(blocks *i, block *b) {
    const mst_rank_span *span = i->span;
    for (; i->from < span->size; i->from++, i->to = 0) {
        if (span->process_of[i->from] != i->p) continue;
        for (; i->to < span->size; i->to++) {
            if (span->process_of[i->to] != i->q) continue;
            *b = (block){.from = i->from, .to = i->to, .bytes = block_bytes(i->view, i->from, i->to)};
            if (b->bytes == 0) continue;
            if (is_shared(i->view)) b->to = -1, i->to = span->size;
            i->to++;
            i->at += b->bytes;
            return true;
        }
    }
    return false;
}

/* ---- the lengths of the streams ---- */

/* Of an item, in bytes: those to this process, those from it, and the longest of all processes. */
typedef struct lengths {
    int64_t *in, *out; /* [processes] */
    int64_t *longest;
} lengths;

static lengths lengths_at(const mst_nodes_state *state, int64_t entry) {
    const int32_t processes = state->span->processes;
    int64_t *first = (int64_t *)state->lengths.at + entry * (2 * (int64_t)processes + 1);
    return (lengths){first, first + processes, first + 2 * processes};
}

/* The pointers of a view tell which item it is. */
static lengths lengths_of(const mst_batch *batch, const mst_view *view) {
    const mst_nodes_state *state = mst_nodes_of(batch->communicator);
    const mst_request **first = state->pointers.at;
    return lengths_at(state, (view->requests - first) / state->span->size);
}

static bool is_stream(const mst_view *view) {
    switch (mst_view_own(view)->collective) {
    case MST_BROADCAST:
    case MST_ALL_GATHER:
    case MST_GATHER:
    case MST_SCATTER:
    case MST_ALL_TO_ALL:
        return true;
    default:
        return false;
    }
}

/* sums[processes] is for the streams of one process. All blocks are met once: their number is the
 * square of the number of ranks. */
static void measure(const mst_rank_span *span, const mst_view *view, int64_t *sums, lengths *to) {
    *to->longest = 0;
    for (int32_t p = 0; p < span->processes; p++) {
        memset(sums, 0, (size_t)span->processes * sizeof *sums);
        for (int32_t from = 0; from < span->size; from++) {
            if (span->process_of[from] != p) continue;
            if (is_shared(view))
                for (int32_t q = 0; q < span->processes; q++) sums[q] += block_bytes(view, from, -1);
            else
                for (int32_t r = 0; r < span->size; r++) sums[span->process_of[r]] += block_bytes(view, from, r);
        }
        for (int32_t q = 0; q < span->processes; q++) /* also what stays: it is copied in the first round */
            if (sums[q] > *to->longest) *to->longest = sums[q];
        to->in[p] = sums[span->here];
        if (p == span->here) memcpy(to->out, sums, (size_t)span->processes * sizeof *sums);
    }
    if (!is_shared(view)) to->in[span->here] = to->out[span->here] = 0; /* which does not travel */
}

muster_status mst_nodes_measure(mst_nodes_state *state, const mst_batch *batch) {
    const int64_t processes = state->span->processes, each = 2 * processes + 1;
    MUSTER_TRY(mst_nodes_grow(&state->lengths, (batch->count * each + processes) * (int64_t)sizeof(int64_t)));
    int64_t *sums = (int64_t *)state->lengths.at + batch->count * each;
    for (int32_t i = 0; i < batch->count; i++) {
        const mst_view view = mst_nodes_view(state, batch, i);
        lengths to = lengths_at(state, i);
        if (is_stream(&view)) measure(state->span, &view, sums, &to);
    }
    return MUSTER_OK;
}

static int64_t chunk_limit(const mst_rank_span *span) {
    return mst_nodes_area_bytes(span) / span->processes / MST_CACHE_LINE * MST_CACHE_LINE;
}

/* The bytes of a stream of `length` that travel in a round. */
static int64_t chunk_bytes(const mst_rank_span *span, int64_t length, int64_t round) {
    const int64_t limit = chunk_limit(span), left = length - round * limit;
    return left <= 0 ? 0 : left < limit ? left : limit;
}

/* ---- what stays in the process ---- */

/* This rank gets what the ranks of its own process send it. */
static void copy_inside(const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = batch->communicator->span;
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const int32_t from = span->ranks[m];
        const int64_t bytes = block_bytes(view, from, view->rank);
        if (bytes == 0) continue;
        const char *source = source_of(view, from, view->rank);
        char *to = place_of(view, from, view->rank);
        if (to != source) memcpy(to, source, (size_t)bytes);
    }
}

/* ---- rounds ---- */

/* Copies between [0, length) of a chunk that begins at `begin` in the stream, and a block that
 * begins at `at`: where the overlap is in each. Returns its length. */
static int64_t overlap(int64_t begin, int64_t length, int64_t at, int64_t bytes, int64_t *in_chunk, int64_t *in_block) {
    const int64_t first = begin > at ? begin : at, last = begin + length < at + bytes ? begin + length : at + bytes;
    *in_chunk = first - begin;
    *in_block = first - at;
    return last - first;
}

/* A member copies what it sends itself. */
static void fill_chunk(const mst_rank_span *span, const mst_view *view, int32_t q, int64_t round, char *chunk, int64_t length) {
    const int64_t begin = round * chunk_limit(span);
    blocks i = {.span = span, .view = view, .p = span->here, .q = q};
    block b;
    while (length > 0 && next_block(&i, &b)) {
        int64_t in_chunk, in_block;
        if (b.from != view->rank) continue;
        const int64_t bytes = overlap(begin, length, i.at - b.bytes, b.bytes, &in_chunk, &in_block);
        if (bytes > 0) memcpy(chunk + in_chunk, source_of(view, b.from, b.to) + in_block, (size_t)bytes);
    }
}

static void stream_fill(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const mst_rank_span *span = batch->communicator->span;
    const lengths all = lengths_of(batch, view);
    char *chunk = buffer->from;
    if (round == 0) copy_inside(batch, view);
    for (int32_t q = 0; q < span->processes; q++) {
        const int64_t length = chunk_bytes(span, all.out[q], round);
        if (length == 0) continue;
        fill_chunk(span, view, q, round, chunk, length);
        if (is_shared(view)) return;
        chunk += length;
    }
}

/* Of gather and scatter a process other than root knows its own number alone. */
static void set_bytes(const mst_batch *batch, const mst_view *view, int64_t round, int32_t root, mst_nodes_buffer *buffer) {
    const mst_rank_span *span = batch->communicator->span;
    const lengths all = lengths_of(batch, view);
    const mst_collective collective = mst_view_own(view)->collective;
    for (int32_t p = 0; p < span->processes; p++) {
        buffer->bytes[p] = chunk_bytes(span, collective == MST_SCATTER ? all.out[p] : all.in[p], round);
        buffer->send_bytes[p] = chunk_bytes(span, all.out[p], round);
    }
    if (span->here == root) return;
    if (collective == MST_GATHER) buffer->bytes[span->here] = chunk_bytes(span, all.out[root], round);
    if (collective == MST_SCATTER) buffer->bytes[span->here] = chunk_bytes(span, all.in[root], round);
}

static void stream_move(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    static const mst_move_kind kinds[MST_COLLECTIVE_COUNT] = {[MST_BROADCAST] = MST_MOVE_BROADCAST,
                                                              [MST_ALL_GATHER] = MST_MOVE_ALL_GATHER,
                                                              [MST_GATHER] = MST_MOVE_GATHER,
                                                              [MST_SCATTER] = MST_MOVE_SCATTER,
                                                              [MST_ALL_TO_ALL] = MST_MOVE_ALL_TO_ALL};
    const mst_rank_span *span = batch->communicator->span;
    const mst_request *here = mst_view_own(view);
    const int32_t root = here->root >= 0 ? span->process_of[here->root] : 0;
    set_bytes(batch, view, round, root, buffer);
    buffer->move = (mst_move){.kind = kinds[here->collective],
                              .root = root,
                              .bytes = buffer->bytes,
                              .send_bytes = buffer->send_bytes,
                              .from = buffer->from,
                              .to = buffer->to};
    if (here->collective == MST_BROADCAST) {
        buffer->move.count = buffer->bytes[root];
        buffer->move.from = NULL;
        if (span->here == root) buffer->move.to = buffer->from;
    }
    mst_nodes_choose(batch, view, &buffer->move);
}

/* A member takes what is for it. */
static void drain_chunk(const mst_rank_span *span, const mst_view *view, int32_t p, int64_t round, const char *chunk, int64_t length) {
    const int64_t begin = round * chunk_limit(span);
    blocks i = {.span = span, .view = view, .p = p, .q = span->here};
    block b;
    while (length > 0 && next_block(&i, &b)) {
        int64_t in_chunk, in_block;
        if (b.to >= 0 && b.to != view->rank) continue;
        const int64_t bytes = overlap(begin, length, i.at - b.bytes, b.bytes, &in_chunk, &in_block);
        if (bytes > 0) memcpy(place_of(view, b.from, view->rank) + in_block, chunk + in_chunk, (size_t)bytes);
    }
}

static void stream_drain(const mst_batch *batch, const mst_view *view, int64_t round, const mst_nodes_buffer *buffer) {
    const mst_rank_span *span = batch->communicator->span;
    const lengths all = lengths_of(batch, view);
    int64_t offset = 0;
    for (int32_t p = 0; p < span->processes; p++) {
        const int64_t length = chunk_bytes(span, all.in[p], round);
        if (p != span->here) drain_chunk(span, view, p, round, buffer->to + offset, length);
        offset += length;
    }
}

mst_nodes_plan mst_nodes_stream_plan(const mst_batch *batch, const mst_view *view) {
    const int64_t limit = chunk_limit(batch->communicator->span), longest = *lengths_of(batch, view).longest;
    return (mst_nodes_plan){
        .rounds = longest / limit + (longest % limit != 0), .fill = stream_fill, .move = stream_move, .drain = stream_drain};
}
