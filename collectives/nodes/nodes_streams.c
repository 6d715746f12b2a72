/* Collectives that only move. What the members of one process send to those of another is a stream:
 * blocks one behind the other, in an order that both know. A round moves the next piece of every
 * stream. What stays in a process is copied in the first round, by the ranks that receive it. */
#include "nodes_transport_private.h"

/* A block of a stream. */
typedef struct block {
    int32_t from;       /* the rank that sends it */
    int32_t to;         /* the rank that receives it; -1: all of the process */
    const char *source; /* meaningful if `from` is in this process */
    int64_t bytes;
} block;

static bool is_rooted_at_source(mst_collective c) { return c == MST_BROADCAST || c == MST_SCATTER; }

/* Block number `index` of the stream between two ranks' processes, of the one from rank `from` to
 * rank `to`; false: there is none between them. */
static bool find_block(const mst_view *view, int32_t from, int32_t to, block *b) {
    const mst_request *sender = view->requests[from], *here = mst_view_own(view);
    const int64_t element = mst_view_element(view);
    *b = (block){.from = from, .to = to, .source = sender->input};
    switch (here->collective) {
    case MST_BROADCAST:
        b->bytes = view->requests[here->root]->output_count * element;
        return from == here->root;
    case MST_ALL_GATHER:
        b->bytes = sender->input_count * element;
        return true;
    case MST_GATHER:
        b->bytes = sender->input_count * element;
        return to == here->root;
    case MST_SCATTER:
        b->source = mst_at(sender->input, mst_view_offset(view, to) * element);
        b->bytes = view->requests[to]->output_count * element;
        return from == here->root;
    default: {
        const mst_block pair = mst_view_block(view, from, to);
        b->source = pair.from;
        b->bytes = pair.count * element;
        return true;
    }
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

/* Do all ranks of a process get the same? Then one copy travels. */
static bool is_shared(const mst_view *view) {
    return mst_view_own(view)->collective == MST_BROADCAST || mst_view_own(view)->collective == MST_ALL_GATHER;
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
            if (span->process_of[i->to] != i->q || !find_block(i->view, i->from, i->to, b)) continue;
            if (is_shared(i->view)) b->to = -1, i->to = span->size;
            i->to++;
            i->at += b->bytes;
            return true;
        }
    }
    return false;
}

static int64_t stream_bytes(const mst_rank_span *span, const mst_view *view, int32_t p, int32_t q) {
    blocks i = {.span = span, .view = view, .p = p, .q = q};
    block b;
    while (next_block(&i, &b)) {}
    return i.at;
}

/* A process keeps what it sends to itself, but for an all_gather, in which all get the same. */
static bool travels(const mst_view *view, int32_t p, int32_t q) {
    return p != q || mst_view_own(view)->collective == MST_ALL_GATHER || mst_view_own(view)->collective == MST_BROADCAST;
}

static int64_t chunk_limit(const mst_rank_span *span) { return MST_NODES_AREA_BYTES / span->processes / MST_CACHE_LINE * MST_CACHE_LINE; }

/* The bytes that travel from p to q in a round. */
static int64_t chunk_bytes(const mst_rank_span *span, const mst_view *view, int32_t p, int32_t q, int64_t round) {
    if (!travels(view, p, q)) return 0;
    const int64_t limit = chunk_limit(span), left = stream_bytes(span, view, p, q) - round * limit;
    return left <= 0 ? 0 : left < limit ? left : limit;
}

/* ---- what stays in the process ---- */

/* This rank gets what the ranks of its own process send it. */
static void copy_inside(const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = batch->communicator->span;
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        block b;
        if (!find_block(view, span->ranks[m], view->rank, &b) || b.bytes == 0) continue;
        char *to = place_of(view, b.from, view->rank);
        if (to != b.source) memcpy(to, b.source, (size_t)b.bytes);
    }
}

/* ---- rounds ---- */

/* Where the piece for process q begins in `from`. */
static int64_t from_offset(const mst_rank_span *span, const mst_view *view, int32_t q, int64_t round) {
    int64_t offset = 0;
    if (is_shared(view)) return 0;
    for (int32_t other = 0; other < q; other++) offset += chunk_bytes(span, view, span->here, other, round);
    return offset;
}

/* Copies between [0, length) of a piece that begins at `begin` in the stream, and a block that
 * begins at `at`: where the overlap is in each. Returns its length. */
static int64_t overlap(int64_t begin, int64_t length, int64_t at, int64_t bytes, int64_t *in_chunk, int64_t *in_block) {
    const int64_t first = begin > at ? begin : at, last = begin + length < at + bytes ? begin + length : at + bytes;
    *in_chunk = first - begin;
    *in_block = first - at;
    return last - first;
}

/* A member copies what it sends itself. */
static void fill_chunk(const mst_rank_span *span, const mst_view *view, int32_t q, int64_t round, char *chunk) {
    const int64_t begin = round * chunk_limit(span), length = chunk_bytes(span, view, span->here, q, round);
    blocks i = {.span = span, .view = view, .p = span->here, .q = q};
    block b;
    while (length > 0 && next_block(&i, &b)) {
        int64_t in_chunk, in_block;
        if (b.from != view->rank) continue;
        const int64_t bytes = overlap(begin, length, i.at - b.bytes, b.bytes, &in_chunk, &in_block);
        if (bytes > 0) memcpy(chunk + in_chunk, b.source + in_block, (size_t)bytes);
    }
}

static void stream_fill(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const mst_rank_span *span = batch->communicator->span;
    if (round == 0) copy_inside(batch, view);
    for (int32_t q = 0; q < span->processes; q++) {
        if (chunk_bytes(span, view, span->here, q, round) == 0) continue;
        fill_chunk(span, view, q, round, buffer->from + from_offset(span, view, q, round));
        if (is_shared(view)) return;
    }
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
    for (int32_t p = 0; p < span->processes; p++) {
        const int32_t from = is_rooted_at_source(here->collective) ? root : p;
        const int32_t to = here->collective == MST_GATHER ? root : is_rooted_at_source(here->collective) ? p : span->here;
        buffer->bytes[p] = chunk_bytes(span, view, from, to, round);
        buffer->send_bytes[p] = chunk_bytes(span, view, span->here, p, round);
    }
    buffer->move = (mst_move){.kind = kinds[here->collective],
                              .root = root,
                              .bytes = buffer->bytes,
                              .send_bytes = buffer->send_bytes,
                              .from = buffer->from,
                              .to = buffer->to};
    if (here->collective != MST_BROADCAST) return;
    buffer->move.count = buffer->bytes[root];
    buffer->move.from = NULL;
    if (span->here == root) buffer->move.to = buffer->from;
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
    int64_t offset = 0;
    for (int32_t p = 0; p < span->processes; p++) {
        const int64_t length = chunk_bytes(span, view, p, span->here, round);
        if (p != span->here) drain_chunk(span, view, p, round, buffer->to + offset, length);
        offset += length;
    }
}

mst_nodes_plan mst_nodes_stream_plan(const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = batch->communicator->span;
    int64_t longest = 0;
    for (int32_t p = 0; p < span->processes; p++)
        for (int32_t q = 0; q < span->processes; q++) {
            const int64_t bytes = stream_bytes(span, view, p, q);
            if (bytes > longest) longest = bytes; /* also of what stays in a process: it is copied in the first round */
        }
    const int64_t limit = chunk_limit(span);
    return (mst_nodes_plan){
        .rounds = longest / limit + (longest % limit != 0), .fill = stream_fill, .move = stream_move, .drain = stream_drain};
}
