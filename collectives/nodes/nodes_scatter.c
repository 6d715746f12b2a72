/* reduce_scatter over several processes: a process sends every other one what the ranks there get
 * of the sums, and nothing else. The results of a process are those of its ranks, one behind the
 * other; a round takes the next piece of those of every process. */
#include "nodes_transport_private.h"

typedef struct scatter {
    const mst_view *view;
    const mst_rank_span *span;
    muster_dtype dtype, travel;
    int64_t element, travel_element, step; /* step: elements of a process in a round, at most */
} scatter;

static scatter scatter_of(const mst_batch *batch, const mst_view *view) {
    const mst_request *here = mst_view_own(view);
    scatter s = {
        .view = view, .span = batch->communicator->span, .dtype = here->dtype, .travel = mst_nodes_travelling(batch->communicator, here)};
    s.element = muster_dtype_size(s.dtype);
    s.travel_element = muster_dtype_size(s.travel);
    const int64_t line = MST_CACHE_LINE / s.travel_element, most = mst_nodes_area_bytes(s.span) / s.travel_element / s.span->processes;
    s.step = most >= line ? most / line * line : 1;
    return s;
}

static int64_t results_of(const scatter *s, int32_t process) {
    int64_t count = 0;
    for (int32_t r = 0; r < s->span->size; r++) count += s->span->process_of[r] == process ? mst_view_part(s->view, r) : 0;
    return count;
}

/* The elements of a process in a round. */
static int64_t chunk_of(const scatter *s, int32_t process, int64_t round) {
    const int64_t left = results_of(s, process) - round * s->step;
    return left <= 0 ? 0 : left < s->step ? left : s->step;
}

/* [*begin, *end) becomes its overlap with [first, last). */
static bool overlaps(int64_t *begin, int64_t *end, int64_t first, int64_t last) {
    *begin = *begin > first ? *begin : first;
    *end = *end < last ? *end : last;
    return *begin < *end;
}

/* Fills [begin, end) of the buffer, of which the piece of a process is at `at`. */
static void fill_chunk(const scatter *s, const mst_batch *batch, int32_t process, int64_t round, char *from, int64_t at, int64_t begin,
                       int64_t end) {
    const int64_t first = round * s->step, last = first + chunk_of(s, process, round);
    int64_t before = 0, in_vector = 0;
    for (int32_t r = 0; r < s->span->size; r++) {
        const int64_t part = mst_view_part(s->view, r);
        int64_t a = before, b = before + part;
        if (s->span->process_of[r] == process) {
            if (overlaps(&a, &b, first, last) && overlaps(&a, &b, first + begin - at, first + end - at))
                mst_nodes_combine(batch, s->view, from + (at + a - first) * s->travel_element, in_vector + a - before, b - a);
            before += part;
        }
        in_vector += part;
    }
}

/* Each member fills a segment of all that its process sends. */
static void scatter_fill(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const scatter s = scatter_of(batch, view);
    int64_t all = 0, at = 0, begin, end;
    for (int32_t p = 0; p < s.span->processes; p++) all += chunk_of(&s, p, round);
    mst_segment(all, s.travel_element, batch->communicator->size, batch->rank, &begin, &end);
    for (int32_t p = 0; p < s.span->processes && begin < end; p++) {
        const int64_t chunk = chunk_of(&s, p, round);
        if (begin < at + chunk && end > at) fill_chunk(&s, batch, p, round, buffer->from, at, begin, end);
        at += chunk;
    }
}

static void scatter_move(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const scatter s = scatter_of(batch, view);
    for (int32_t p = 0; p < s.span->processes; p++) buffer->bytes[p] = chunk_of(&s, p, round) * s.travel_element;
    buffer->move = (mst_move){.kind = MST_MOVE_REDUCE_SCATTER,
                              .algorithm = mst_nodes_move_algorithm(batch->communicator),
                              .bytes = buffer->bytes,
                              .from = buffer->from,
                              .to = buffer->to};
    mst_nodes_set_reduction(batch, view, &buffer->move);
    mst_nodes_choose(batch, view, &buffer->move);
}

static void scatter_drain(const mst_batch *batch, const mst_view *view, int64_t round, const mst_nodes_buffer *buffer) {
    const scatter s = scatter_of(batch, view);
    const int64_t first = round * s.step, last = first + chunk_of(&s, s.span->here, round);
    int64_t before = 0;
    for (int32_t m = 0; m < batch->rank; m++) before += mst_view_part(view, s.span->ranks[m]);
    int64_t a = before, b = before + mst_view_part(view, view->rank);
    if (!overlaps(&a, &b, first, last)) return;
    mst_convert(s.dtype, (char *)mst_view_own(view)->output + (a - before) * s.element, s.travel,
                buffer->to + (a - first) * s.travel_element, b - a);
}

mst_nodes_plan mst_nodes_scatter_plan(const mst_batch *batch, const mst_view *view) {
    const scatter s = scatter_of(batch, view);
    int64_t most = 0;
    for (int32_t p = 0; p < s.span->processes; p++) {
        const int64_t results = results_of(&s, p);
        most = results > most ? results : most;
    }
    return (mst_nodes_plan){
        .rounds = most / s.step + (most % s.step != 0), .fill = scatter_fill, .move = scatter_move, .drain = scatter_drain};
}
