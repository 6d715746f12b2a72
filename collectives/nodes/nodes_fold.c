/* Reductions over several processes. The members of a process combine their inputs in rank order
 * into the buffer, in the compute dtype, each its own segment; the processes' results are combined
 * in the order of the processes; and the members write their outputs from that. */
#include "names_private.h"
#include "nodes_transport_private.h"

typedef struct fold {
    const mst_batch *batch;
    const mst_view *view;
    const mst_request *here;
    muster_dtype compute, travel; /* travel: of the processes' results */
    muster_reduction op;
    double scale;                           /* of the vectors of an average */
    int64_t element, travel_element, count; /* count: of the vector that is reduced */
    int64_t first, last;                    /* of the round: [first, last) of the vector */
} fold;

static int64_t round_elements(const mst_batch *batch, muster_dtype travel) {
    return mst_nodes_area_bytes(batch->communicator->span) / muster_dtype_size(travel);
}

static fold fold_of(const mst_batch *batch, const mst_view *view, int64_t round) {
    const mst_request *here = mst_view_own(view);
    fold f = {.batch = batch, .view = view, .here = here, .compute = mst_dtype_compute(here->dtype), .count = mst_nodes_vector(here)};
    f.travel = mst_nodes_travelling(batch->communicator, here);
    const int64_t step = round_elements(batch, f.travel);
    f.op = mst_nodes_op(here);
    f.scale = f.op == MUSTER_AVG ? mst_nodes_own_scale(batch, view) : 1;
    f.element = muster_dtype_size(here->dtype);
    f.travel_element = muster_dtype_size(f.travel);
    f.first = round * step;
    f.last = f.count - f.first < step ? f.count : f.first + step;
    return f;
}

/* The part of the round on which this member works, of all that its process does. */
static void own_segment(const fold *f, int64_t *begin, int64_t *end) {
    mst_segment(f->last - f->first, f->travel_element, f->batch->communicator->size, f->batch->rank, begin, end);
    *begin += f->first;
    *end += f->first;
}

static const mst_request *local_request(const fold *f, int32_t member) {
    return f->view->requests[f->batch->communicator->span->ranks[member]];
}

void mst_nodes_neutral(muster_reduction op, muster_dtype compute, void *to, int64_t count) {
    const int64_t size = muster_dtype_size(compute);
    const double zero = -0.0;
    mst_reduction_identity(op, compute, to, count);
    if (op != MUSTER_SUM && op != MUSTER_AVG) return;
    for (int64_t i = 0; i < count; i++) mst_convert(compute, (char *)to + i * size, MUSTER_F64, &zero, 1);
}

/* ---- filling ---- */

/* sum[0, count) = the vectors of the members from element `first` on, one after the other; not
 * begin: what is there, and then they. */
static void combine(const fold *f, void *sum, int64_t first, int64_t count, bool begin) {
    for (int32_t m = 0; m < f->batch->communicator->size; m++) {
        const mst_request *request = local_request(f, m);
        for (int64_t s = 0; s < mst_request_shards(request); s++, begin = false) {
            const char *values = (const char *)request->input + (s * f->count + first) * f->element;
            mst_reduction_accumulate(f->op, f->here->dtype, sum, values, count, f->scale, begin);
        }
    }
    if (begin) mst_nodes_neutral(f->op, f->compute, sum, count); /* no vector is here */
}

/* A chunk of what is rounded to the wire dtype. */
typedef struct narrowed {
    const fold *f;
    int64_t first;
} narrowed;

static void combine_chunk(const void *context, void *sum, int64_t first, int64_t count) {
    const narrowed *n = context;
    combine(n->f, sum, n->first + first, count, true);
}

/* to[0, count) = the members' result from element `first` on, as it travels. */
static void fill(const fold *f, void *to, int64_t first, int64_t count) {
    if (f->travel == f->compute)
        combine(f, to, first, count, true);
    else
        mst_nodes_narrow(f->travel, f->compute, to, count, combine_chunk, &(narrowed){f, first});
}

void mst_nodes_combine(const mst_batch *batch, const mst_view *view, void *to, int64_t first, int64_t count) {
    const fold f = fold_of(batch, view, 0);
    fill(&f, to, first, count);
}

bool mst_nodes_has_order(const mst_rank_span *span) {
    for (int32_t r = 1; r < span->size; r++)
        if (span->process_of[r] < span->process_of[r - 1]) return false;
    return true;
}

/* Is the running sum of all vectors to go from process to process? */
static bool is_chain(const fold *f) { return mst_nodes_is_ordered(f->batch->communicator, f->here); }

static mst_move move_of(const fold *f) {
    mst_move move = {.kind = MST_MOVE_ALL_REDUCE,
                     .algorithm = is_chain(f) ? MST_MOVE_CHAIN : mst_nodes_move_algorithm(f->batch->communicator),
                     .count = f->last - f->first};
    mst_nodes_set_reduction(f->batch, f->view, &move);
    if (f->here->collective != MST_REDUCE) mst_nodes_choose(f->batch, f->view, &move);
    return move;
}

/* Of an exchange a process folds one slice, which it sends to nobody before. Where it has one
 * member, that slice need not be copied: its values are read where the program has them, and its
 * results are written there as they are folded. *begin, *end: of the slice, in the vector. */
static bool is_split(const fold *f, int64_t *begin, int64_t *end) {
    const mst_nodes_state *state = mst_nodes_of(f->batch->communicator);
    if (f->here->collective != MST_ALL_REDUCE || f->batch->communicator->size != 1 || mst_request_shards(f->here) != 1) return false;
    if (f->here->dtype != f->travel || f->op == MUSTER_AVG || mst_request_process_weights(f->here) ||
        mst_nodes_name_of(f->batch->communicator))
        return false;
    const mst_move move = move_of(f);
    if ((move.algorithm ? move.algorithm : mst_schedule_select(&state->schedule, &move)) != MST_MOVE_EXCHANGE) return false;
    *begin = f->first + mst_schedule_slice(&state->channel, move.count, f->element, state->channel.rank);
    *end = f->first + mst_schedule_slice(&state->channel, move.count, f->element, state->channel.rank + 1);
    return true;
}

/* Copies what is around the slice. */
static void fill_around(const fold *f, int64_t begin, int64_t end, char *to) {
    const char *values = (const char *)f->here->input + f->first * f->element;
    const int64_t before = (begin - f->first) * f->element, until = (end - f->first) * f->element;
    if (before > 0) memcpy(to, values, (size_t)before);
    if (end < f->last) memcpy(to + until, values + until, (size_t)((f->last - end) * f->element));
}

static void fold_fill(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const fold f = fold_of(batch, view, round);
    int64_t begin, end;
    if (is_split(&f, &begin, &end)) {
        fill_around(&f, begin, end, buffer->from);
        return;
    }
    own_segment(&f, &begin, &end);
    if (begin < end && !is_chain(&f)) fill(&f, buffer->from + (begin - f.first) * f.travel_element, begin, end - begin);
}

/* Called under the lock of the wire, when the sum of the processes before is there. */
static void add_to_chain(void *user, void *sum, int64_t first, int64_t count, bool begin) {
    const struct mst_nodes_link *link = user;
    const fold f = fold_of(link->batch, link->view, 0);
    combine(&f, sum, link->first + first, count, begin);
}

/* ---- moving ---- */

static void fold_move(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer) {
    const fold f = fold_of(batch, view, round);
    const mst_rank_span *span = batch->communicator->span;
    int64_t begin, end;
    buffer->move = move_of(&f);
    buffer->move.from = buffer->from;
    buffer->move.to = buffer->to;
    if (is_split(&f, &begin, &end)) {
        buffer->move.algorithm = MST_MOVE_EXCHANGE;
        buffer->move.mine = (const char *)f.here->input + f.first * f.element;
        buffer->move.also = (char *)f.here->output + f.first * f.element;
    }
    if (is_chain(&f)) {
        buffer->link = (struct mst_nodes_link){batch, view, f.first};
        buffer->move.fold = add_to_chain;
        buffer->move.user = &buffer->link;
    }
    if (f.here->collective != MST_REDUCE) return;
    buffer->move.kind = MST_MOVE_REDUCE;
    buffer->move.root = span->process_of[f.here->root];
    if (buffer->move.root != span->here) buffer->move.to = NULL;
}

/* ---- emptying ---- */

/* to[0, count) = the results from element `at` on. */
static void write_output(const fold *f, const char *results, char *to, int64_t at, int64_t count) {
    if (count > 0) mst_convert(f->here->dtype, to, f->travel, results + (at - f->first) * f->travel_element, count);
}

/* sum[0, count) are the gradients of the parameter's elements from `begin` on. */
static void update_by(const fold *f, const char *sum, int64_t begin, int64_t count) {
    const mst_momentum *momentum = mst_request_momentum(f->here);
    char *parameter = (char *)f->here->output + begin * f->element;
    if (momentum)
        mst_reduction_momentum(f->here->dtype, parameter, parameter, (char *)momentum->velocity + begin * f->element, sum, count,
                               f->here->alpha, momentum->beta);
    else
        mst_reduction_update(f->here->dtype, parameter, parameter, sum, count, f->here->alpha);
}

/* This member's parameter is read, and written for all members of the process. */
static void update(const fold *f, const char *results) {
    _Alignas(MST_CACHE_LINE) char sums[MST_NODES_ROUNDED_BYTES];
    const int64_t most = MST_NODES_ROUNDED_BYTES / muster_dtype_size(f->compute);
    int64_t begin, end;
    own_segment(f, &begin, &end);
    if (begin == end) return;
    const char *parameter = (const char *)f->here->output + begin * f->element;
    if (f->travel == f->compute) update_by(f, results + (begin - f->first) * f->travel_element, begin, end - begin);
    for (int64_t at = begin; at < end && f->travel != f->compute; at += most) {
        const int64_t count = end - at < most ? end - at : most;
        mst_convert(f->compute, sums, f->travel, results + (at - f->first) * f->travel_element, count);
        update_by(f, sums, at, count);
    }
    for (int32_t m = 0; m < f->batch->communicator->size; m++) {
        char *other = (char *)local_request(f, m)->output + begin * f->element;
        if (other != parameter) memcpy(other, parameter, (size_t)((end - begin) * f->element));
    }
}

static void drain(const fold *f, const char *results) {
    char *output = f->here->output;
    if (f->here->collective == MST_ALL_REDUCE_AXPY) {
        update(f, results);
    } else if (f->here->collective == MST_REDUCE_SCATTER) {
        const int64_t offset = mst_view_offset(f->view, f->view->rank), end = offset + f->here->output_count;
        const int64_t first = f->first > offset ? f->first : offset, last = f->last < end ? f->last : end;
        if (first < last) write_output(f, results, output + (first - offset) * f->element, first, last - first);
    } else if (f->here->collective == MST_ALL_REDUCE || f->view->rank == f->here->root) {
        write_output(f, results, output + f->first * f->element, f->first, f->last - f->first);
    }
}

static void fold_drain(const mst_batch *batch, const mst_view *view, int64_t round, const mst_nodes_buffer *buffer) {
    const fold f = fold_of(batch, view, round);
    int64_t begin, end;
    if (buffer->move.also && is_split(&f, &begin, &end)) {
        char *output = f.here->output;
        write_output(&f, buffer->to, output + f.first * f.element, f.first, begin - f.first);
        write_output(&f, buffer->to, output + end * f.element, end, f.last - end);
    } else {
        drain(&f, buffer->to);
    }
}

void mst_nodes_fold_drain(const mst_batch *batch, const mst_view *view, int64_t first, int64_t last, const char *results) {
    fold f = fold_of(batch, view, 0);
    f.first = first;
    f.last = last;
    drain(&f, results);
}

mst_nodes_plan mst_nodes_fold_plan(const mst_batch *batch, const mst_view *view) {
    const mst_request *here = mst_view_own(view);
    const int64_t step = round_elements(batch, mst_nodes_travelling(batch->communicator, here)), count = mst_nodes_vector(here);
    return (mst_nodes_plan){.rounds = count / step + (count % step != 0), .fill = fold_fill, .move = fold_move, .drain = fold_drain};
}
