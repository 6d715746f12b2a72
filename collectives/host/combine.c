/* Reductions by the fast loops. Two inputs are combined into their outputs in one pass, also in
 * updates. Three or four inputs are combined into one output in one pass, a page at a time, and the
 * other outputs are copied from there. More inputs, f16 and bf16, gradients, and outputs that
 * bypass the cache are combined in a chunk that stays in the first-level cache. */
#include "combine_private.h"
#include "many_private.h"

enum {
    STEP_BYTES = 4096, /* bytes combined at a time; small, so that memory is not idle while the outputs are copied */
    LISTED = 16        /* the number of input addresses kept on the stack; if there are more inputs, they are read one by one */
};

typedef struct combination {
    const mst_view *view;
    muster_reduction op;
    muster_dtype dtype;
    int64_t element; /* bytes */
    int64_t vector;  /* bytes from shard to shard */
    int64_t inputs;  /* shards of all ranks together */
    double scale;
} combination;

static combination combination_of(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t element = muster_dtype_size(own_request->dtype), inputs = mst_view_shards(view);
    muster_reduction op = own_request->collective == MST_ALL_REDUCE_AXPY ? MUSTER_SUM : own_request->reduction;
    return (combination){view, op, own_request->dtype, element, own_request->output_count * element, inputs, 1.0 / (double)inputs};
}

/* Iterates over the shards of all ranks, in order; gives their addresses at element `at`. */
typedef struct shard_iterator {
    const combination *c;
    int64_t at, shard;
    int32_t rank;
} shard_iterator;

static const void *next_shard(shard_iterator *iterator) {
    const mst_view *view = iterator->c->view;
    for (; iterator->rank < view->size; iterator->rank++, iterator->shard = 0) {
        const mst_request *request = view->requests[iterator->rank];
        if (iterator->shard < mst_request_shards(request))
            return mst_at(request->input, iterator->shard++ * iterator->c->vector + iterator->at * iterator->c->element);
    }
    return NULL;
}

static void *output_at(const combination *c, int32_t rank, int64_t index) {
    return mst_at(c->view->requests[rank]->output, index * c->element);
}

/* What a reduction writes: elements [begin, end) of the outputs of ranks [first, last); element e
 * goes to index e - shift. With a parameter the value is parameter[e - begin] + alpha * sum. */
typedef struct target {
    int64_t begin, end, shift;
    int32_t first, last;
    const void *parameter;
    bool past_cache; /* set by combine_by_chunks */
} target;

/* Copies elements [at, at + count) to the outputs of all ranks of the target except `finished`; -1:
 * to all. */
static void spread(const combination *c, const target *t, const void *hot, int64_t at, int64_t count, int32_t finished) {
    for (int32_t r = t->first; r < t->last; r++) {
        if (r == finished) continue;
        void *to = output_at(c, r, at - t->shift);
        (t->past_cache ? mst_stream_bytes : mst_copy_bytes)(to, hot, count * c->element);
    }
}

static void accumulate(const combination *c, void *accumulator, int64_t at, int64_t count) {
    const void *inputs[LISTED];
    shard_iterator iterator = {.c = c, .at = at};
    if (c->inputs > LISTED) {
        for (int64_t i = 0; i < c->inputs; i++)
            mst_reduction_accumulate(c->op, c->dtype, accumulator, next_shard(&iterator), count, c->scale, i == 0);
    } else {
        for (int64_t i = 0; i < c->inputs; i++) inputs[i] = next_shard(&iterator);
        mst_many_accumulate(c->op, c->dtype, accumulator, inputs, c->inputs, count, c->scale);
    }
}

/* The output that is computed; the others are copied from it. In an update that is this rank's own
 * one: it has just been read, and the others need not be. */
static int32_t first_output(const combination *c, const target *t) {
    const int32_t own_rank = c->view->rank;
    return t->parameter && own_rank >= t->first && own_rank < t->last ? own_rank : t->first;
}

/* The chunk is the accumulator. In place, all its input elements are read before an output is
 * written. */
static void combine_chunk(const combination *c, const target *t, int64_t at, int64_t count) {
    char *chunk = c->view->chunk;
    const int32_t begun = first_output(c, t);
    void *x = output_at(c, begun, at - t->shift);
    accumulate(c, chunk, at, count);
    const mst_momentum *momentum = mst_view_momentum(c->view);
    if (momentum) {
        void *velocity = mst_at(momentum->velocity, at * c->element);
        mst_reduction_momentum(c->dtype, x, mst_at(t->parameter, (at - t->begin) * c->element), velocity, chunk, count,
                               mst_view_own(c->view)->alpha, momentum->beta);
    } else if (t->parameter) {
        mst_reduction_update(c->dtype, x, mst_at(t->parameter, (at - t->begin) * c->element), chunk, count, mst_view_own(c->view)->alpha);
    } else {
        muster_dtype compute = mst_dtype_compute(c->dtype);
        if (compute == c->dtype) return spread(c, t, chunk, at, count, -1);
        mst_convert(c->dtype, x, compute, chunk, count);
    }
    spread(c, t, x, at, count, begun);
}

/* The first output is the accumulator. */
static void combine_in_output(const combination *c, const target *t, int64_t at, int64_t count) {
    void *x = output_at(c, t->first, at - t->shift);
    accumulate(c, x, at, count);
    spread(c, t, x, at, count, t->first);
}

/* Does this output bypass the cache? Not in place: then the output has just been read and is in the
 * cache. */
static bool goes_past_cache(const combination *c, int32_t rank, int64_t at, int64_t shift) {
    const mst_request *request = c->view->requests[rank];
    bool in_place = request->output == mst_at(request->input, shift * c->element);
    return !in_place && (uintptr_t)output_at(c, rank, at - shift) % 16 == 0;
}

static bool all_go_past_cache(const combination *c, const target *t) {
    const int32_t begun = first_output(c, t);
    bool all = t->parameter ? t->last - t->first > 1 : mst_dtype_compute(c->dtype) == c->dtype;
    for (int32_t r = t->first; r < t->last && all; r++) all = (t->parameter && r == begun) || goes_past_cache(c, r, t->begin, t->shift);
    return all && mst_stores_stream(c->view->stores);
}

static void combine_by_chunks(const combination *c, target *t) {
    int64_t step = STEP_BYTES / muster_dtype_size(mst_dtype_compute(c->dtype));
    t->past_cache = all_go_past_cache(c, t);
    bool in_output = !t->parameter && !t->past_cache && mst_many_in_place(c->op, c->dtype, c->inputs);
    for (int64_t at = t->begin; at < t->end; at += step) {
        (in_output ? combine_in_output : combine_chunk)(c, t, at, t->end - at < step ? t->end - at : step);
    }
    if (t->past_cache) mst_stream_end();
}

/* Two inputs, one or two outputs. In place every element is read before it is written. */
static void combine_pair(const combination *c, const target *t) {
    shard_iterator inputs = {.c = c, .at = t->begin};
    const void *a = next_shard(&inputs), *b = next_shard(&inputs);
    bool two = t->last - t->first > 1;
    void *x = output_at(c, t->first, t->begin - t->shift), *y = two ? output_at(c, t->first + 1, t->begin - t->shift) : NULL;
    int64_t count = t->end - t->begin;
    if (goes_past_cache(c, t->first, t->begin, t->shift) && goes_past_cache(c, t->last - 1, t->begin, t->shift) &&
        mst_stores_stream(c->view->stores)) {
        mst_reduction_pair_stream(c->op, c->dtype, x, y, a, b, count, c->scale);
    } else {
        mst_reduction_pair(c->op, c->dtype, x, y, a, b, count, c->scale);
    }
}

/* Two gradients, one or two parameters: this rank's own, which is read, and another, which is only
 * written. */
static void update_pair(const combination *c, const target *t) {
    shard_iterator inputs = {.c = c, .at = t->begin};
    const void *a = next_shard(&inputs), *b = next_shard(&inputs);
    const mst_momentum *momentum = mst_view_momentum(c->view);
    const double alpha = mst_view_own(c->view)->alpha;
    const int64_t count = t->end - t->begin;
    const int32_t begun = first_output(c, t), other = t->last - t->first > 1 ? t->first + t->last - 1 - begun : -1;
    void *x = output_at(c, begun, t->begin - t->shift), *y = other >= 0 ? output_at(c, other, t->begin - t->shift) : NULL;
    const bool past_cache = other >= 0 && goes_past_cache(c, other, t->begin, t->shift) && mst_stores_stream(c->view->stores);
    if (momentum) {
        void *velocity = mst_at(momentum->velocity, t->begin * c->element);
        (past_cache ? mst_reduction_momentum_stream : mst_reduction_momentum_pair)(c->dtype, x, y, t->parameter, velocity, a, b, count,
                                                                                   alpha, momentum->beta);
    } else {
        (past_cache ? mst_reduction_update_stream : mst_reduction_update_pair)(c->dtype, x, y, t->parameter, a, b, count, alpha);
    }
}

static void combine(const mst_view *view, target *t) {
    combination c = combination_of(view);
    if (t->begin == t->end) return;
    if (c.inputs == 2 && t->last - t->first <= 2 && t->parameter)
        update_pair(&c, t);
    else if (c.inputs == 2 && t->last - t->first <= 2)
        combine_pair(&c, t);
    else
        combine_by_chunks(&c, t);
}

void mst_combine(const mst_view *view, int64_t begin, int64_t end, int64_t shift, int32_t first, int32_t last) {
    combine(view, &(target){begin, end, shift, first, last, NULL, false});
}

void mst_combine_axpy(const mst_view *view, int64_t begin, int64_t end, int32_t first, int32_t last) {
    combine(view, &(target){begin, end, 0, first, last, mst_at(mst_view_own(view)->output, begin * mst_view_element(view)), false});
}
