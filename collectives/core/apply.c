/* all_reduce_apply: the shared vector, its portions, and where they lie. */
#include "apply_private.h"

#include <stdio.h>

/* ---- the shared vector ---- */

bool mst_apply_next_slice(const mst_apply_layout *layout, int32_t size, int32_t rank, mst_apply_slice *slice) {
    const int32_t bucket = slice->next, count = layout->bucket_count ? layout->bucket_count : 1;
    if (bucket == count) return false;
    const int64_t begin = bucket ? layout->bucket_ends[bucket - 1] : 0,
                  end = layout->bucket_count ? layout->bucket_ends[bucket] : layout->count;
    slice->state += slice->end - slice->begin;
    mst_segment(end - begin, muster_dtype_size(layout->dtype), size, rank, &slice->begin, &slice->end);
    slice->begin += begin;
    slice->end += begin;
    slice->next++;
    return true;
}

int64_t mst_apply_portion(const mst_apply_layout *layout, int32_t size, int32_t rank) {
    mst_apply_slice slice = {.next = 0};
    while (mst_apply_next_slice(layout, size, rank, &slice)) {}
    return slice.state + slice.end - slice.begin;
}

int64_t mst_apply_states(const mst_apply_layout *layout, const mst_apply_segment *segments, int32_t segment_count, int32_t size,
                         int32_t rank) {
    int64_t local = 0;
    for (int32_t i = 0; i < segment_count; i++) local += segments[i].local ? segments[i].count : 0;
    return mst_apply_portion(layout, size, rank) + local;
}

/* ---- the ranges of a portion ---- */

static bool is_one_bucket(const mst_apply_offer *offer) { return offer->bucket != MST_APPLY_ALL_BUCKETS; }

/* The slices of the buckets to which the phase is restricted. */
static bool next_slice(mst_apply_iterator *iterator) {
    const mst_apply_offer *offer = iterator->offer;
    do {
        if (is_one_bucket(offer) && iterator->slice.next > offer->bucket) return false;
        if (!mst_apply_next_slice(&offer->layout, iterator->size, iterator->rank, &iterator->slice)) return false;
    } while (is_one_bucket(offer) && iterator->slice.next <= offer->bucket);
    return true;
}

mst_apply_iterator mst_apply_iterate(const mst_apply_offer *offer, int32_t size, int32_t rank) {
    mst_apply_iterator iterator = {.offer = offer, .size = size, .rank = rank};
    (void)next_slice(&iterator); /* there is at least one bucket */
    return iterator;
}

int64_t mst_apply_extent(const mst_apply_offer *offer, int32_t size, int32_t rank, int64_t *state) {
    const mst_apply_iterator iterator = mst_apply_iterate(offer, size, rank);
    *state = iterator.slice.state;
    return is_one_bucket(offer) ? iterator.slice.end - iterator.slice.begin : mst_apply_portion(&offer->layout, size, rank);
}

/* Segments and slices both ascend: the one that ends first is passed. */
bool mst_apply_next(mst_apply_iterator *iterator, mst_apply_range *range) {
    const mst_apply_offer *offer = iterator->offer;
    while (iterator->next < offer->segment_count) {
        const mst_apply_segment *segment = &offer->segments[iterator->next];
        const mst_apply_slice slice = iterator->slice;
        const int64_t before = iterator->before, after = before + (segment->local ? 0 : segment->count);
        const int64_t begin = before > slice.begin ? before : slice.begin, end = after < slice.end ? after : slice.end;
        *range = (mst_apply_range){iterator->next, begin - before, end - begin, begin, slice.state + begin - slice.begin};
        if (after <= slice.end) {
            iterator->next++;
            iterator->before = after;
        } else if (!next_slice(iterator)) {
            iterator->next = offer->segment_count;
        }
        if (begin < end) return true;
    }
    return false;
}

/* ---- where things lie ---- */

void *mst_apply_parameter(const mst_apply_offer *offer, int32_t segment, int64_t first, int64_t element) {
    return (char *)offer->segments[segment].parameter + first * element;
}

void *mst_apply_output(const mst_view *view, int32_t rank, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, rank);
    const int64_t element = mst_view_element(view);
    return offer->staged ? offer->staged + range->at * element : mst_apply_parameter(offer, range->segment, range->first, element);
}

const void *mst_apply_input(const mst_view *view, int32_t rank, int64_t shard, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, rank);
    const int64_t at = shard * offer->length + offer->segments[range->segment].offset + range->first;
    return (const char *)view->requests[rank]->input + at * mst_view_element(view);
}

char *mst_apply_at(const mst_apply_offer *offer, char *vector, const mst_apply_range *range, int64_t element) {
    return vector + (offer->segments[range->segment].offset + range->first) * element;
}

void mst_apply_join(const mst_view *view, mst_apply_iterator *iterator, mst_apply_range *range) {
    for (;;) {
        mst_apply_iterator peeked = *iterator;
        mst_apply_range next;
        if (!mst_apply_next(&peeked, &next)) return;
        for (int32_t r = 0; r < view->size; r++) {
            const mst_apply_segment *segments = mst_view_offer(view, r)->segments;
            const int64_t end = segments[range->segment].offset + range->first + range->count;
            if (segments[next.segment].offset + next.first != end) return;
        }
        range->count += next.count;
        *iterator = peeked;
    }
}

/* ---- do the tables match? ---- */

enum { PHASE_TEXT = 48 };
static const char *phase_text(const mst_apply_offer *offer, char text[PHASE_TEXT]) {
    static const char *const names[] = {"the whole step", "the sums of all buckets", "the end of the step"};
    if (is_one_bucket(offer))
        snprintf(text, PHASE_TEXT, "%s of bucket %d", offer->phase == MST_APPLY_SUM ? "the sums" : "the step", (int)offer->bucket);
    else
        snprintf(text, PHASE_TEXT, "%s", names[offer->phase]);
    return text;
}

static muster_status buckets_differ(const mst_apply_offer *a, const mst_apply_offer *b, const char *zero, const char *other) {
    if (a->layout.bucket_count != b->layout.bucket_count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: buckets: expected as many as %s, %d, received %d of %s", zero,
                         (int)a->layout.bucket_count, (int)b->layout.bucket_count, other);
    for (int32_t i = 0; i < a->layout.bucket_count; i++)
        if (a->layout.bucket_ends[i] != b->layout.bucket_ends[i])
            return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: bucket %d: expected its end at %lld as on %s, received %lld of %s",
                             (int)i, (long long)a->layout.bucket_ends[i], zero, (long long)b->layout.bucket_ends[i], other);
    return MUSTER_OK;
}

static muster_status tables_differ(const muster_communicator *communicator, const mst_view *view, int32_t rank) {
    const mst_apply_offer *a = mst_view_offer(view, 0), *b = mst_view_offer(view, rank);
    char zero[MST_MEMBER_TEXT], other[MST_MEMBER_TEXT];
    mst_member_text(communicator, 0, zero);
    mst_member_text(communicator, rank, other);
    if (a->segment_count != b->segment_count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segments: expected as many as %s, %d, received %d of %s", zero,
                         a->segment_count, b->segment_count, other);
    if (a->phase != b->phase || a->bucket != b->bucket) {
        char one[PHASE_TEXT], two[PHASE_TEXT];
        return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: expected %s as on %s, received %s of %s", phase_text(a, one), zero,
                         phase_text(b, two), other);
    }
    MUSTER_TRY(buckets_differ(a, b, zero, other));
    for (int32_t i = 0; i < a->segment_count; i++) {
        const mst_apply_segment *x = &a->segments[i], *y = &b->segments[i];
        if (x->local != y->local)
            return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segment %d: expected a %s one as on %s, received a %s one of %s",
                             i, x->local ? "local" : "shared", zero, y->local ? "local" : "shared", other);
        if (!x->local && x->count != y->count)
            return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segment %d: expected %lld elements as on %s, received %lld of %s",
                             i, (long long)x->count, zero, (long long)y->count, other);
    }
    return MUSTER_OK;
}

/* Of tables in other processes only these numbers are known. */
static muster_status tables_differ_between(const muster_communicator *communicator, const mst_view *view, int32_t rank) {
    const mst_apply_offer *a = mst_view_offer(view, 0), *b = mst_view_offer(view, rank);
    char zero[MST_MEMBER_TEXT], other[MST_MEMBER_TEXT], one[PHASE_TEXT], two[PHASE_TEXT];
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "all_reduce_apply: expected %s of the same segments and buckets as on %s, which has %d and %d, received %s of others on "
        "%s, which has %d and %d",
        phase_text(a, one), mst_member_text(communicator, 0, zero), (int)a->segment_count, (int)a->layout.bucket_count, phase_text(b, two),
        mst_member_text(communicator, rank, other), (int)b->segment_count, (int)b->layout.bucket_count);
}

muster_status mst_apply_check(const muster_communicator *communicator, const mst_view *view) {
    for (int32_t r = 1; r < view->size; r++)
        if (mst_view_offer(view, r)->table != mst_view_offer(view, 0)->table)
            MUSTER_TRY(communicator->span ? tables_differ_between(communicator, view, r) : tables_differ(communicator, view, r));
    return MUSTER_OK;
}
