/* The entrance of all_reduce_apply, and what a failed one has left. */
#include "core/apply_private.h"
#include "worker_entrance_private.h"

static const char where[] = "all_reduce_apply";

/* ---- the table ---- */

static muster_status check_segment(const mst_apply_request *apply, const mst_request *r, int32_t i, int64_t *end) {
    const mst_apply_segment *segment = &apply->segments[i];
    const int64_t element = muster_dtype_size(r->dtype), length = r->apply->length;
    if (segment->count < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segment %d: expected a count of at least 0, received %lld", where, i,
                         (long long)segment->count);
    if (segment->count > 0 && !segment->parameter)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segment %d: expected the address of a parameter of %lld elements, received NULL",
                         where, i, (long long)segment->count);
    if ((uintptr_t)segment->parameter % (uintptr_t)element != 0 || (uintptr_t)segment->gradient % (uintptr_t)element)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segment %d: expected addresses that are multiples of %lld, received another", where,
                         i, (long long)element);
    if (segment->local && segment->count > 0 && !segment->gradient)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segment %d: expected the address of a gradient of %lld elements, received NULL",
                         where, i, (long long)segment->count);
    if (segment->local) return MUSTER_OK;
    if (segment->offset < *end || segment->offset > length || segment->count > length - segment->offset)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: segment %d: expected elements from %lld to %lld of the gradients, received %lld elements from %lld on", where,
                         i, (long long)*end, (long long)length, (long long)segment->count, (long long)segment->offset);
    *end = segment->offset + segment->count;
    return MUSTER_OK;
}

/* Does the parameter overlap the vectors of gradients, or its own gradient? */
static bool overlaps(const mst_apply_segment *segment, const mst_request *r) {
    const int64_t bytes = segment->count * muster_dtype_size(r->dtype), all = mst_request_input_bytes(r);
    const char *parameter = segment->parameter, *gradients = r->input, *alone = segment->gradient;
    if (bytes == 0) return false;
    return (all > 0 && parameter < gradients + all && gradients < parameter + bytes) ||
           (segment->local && parameter < alone + bytes && alone < parameter + bytes);
}

/* Equal for tables that match; tells all others apart, but for one in 2^64. */
static uint64_t hash_with(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static muster_status check_buckets(const mst_apply_request *apply, mst_apply_offer *offer) {
    const int64_t count = offer->layout.count;
    int64_t before = 0;
    if (apply->bucket_count < 0 || (apply->bucket_count > 0 && !apply->bucket_ends))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: buckets: expected a table of at least 0 buckets, received %s of %d", where,
                         apply->bucket_ends ? "one" : "NULL", (int)apply->bucket_count);
    for (int32_t i = 0; i < apply->bucket_count; before = apply->bucket_ends[i++]) {
        const int64_t end = apply->bucket_ends[i];
        if (end < before || end > count || (i == apply->bucket_count - 1 && end != count))
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bucket %d: expected an end from %lld to %lld%s, received %lld", where, (int)i,
                             (long long)before, (long long)count, i == apply->bucket_count - 1 ? ", the last there" : "", (long long)end);
        offer->table = hash_with(offer->table, (uint64_t)end);
    }
    if (offer->bucket >= (apply->bucket_count ? apply->bucket_count : 1) || offer->bucket < MST_APPLY_ALL_BUCKETS)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: bucket: expected one of %d, received %d", where, (int)apply->bucket_count,
                         (int)offer->bucket);
    return MUSTER_OK;
}

static muster_status check_table(const mst_apply_request *apply, mst_apply_offer *offer, mst_request *r) {
    int64_t end = 0;
    if (apply->segment_count < 0 || (apply->segment_count > 0 && !apply->segments))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segments: expected a table of at least 0 segments, received %s of %d", where,
                         apply->segments ? "one" : "NULL", apply->segment_count);
    offer->table = hash_with((uint64_t)offer->phase << 32 ^ (uint32_t)offer->bucket, (uint64_t)apply->segment_count);
    r->output_count = 0;
    for (int32_t i = 0; i < apply->segment_count; i++) {
        const mst_apply_segment *segment = &apply->segments[i];
        MUSTER_TRY(check_segment(apply, r, i, &end));
        if (overlaps(segment, r))
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: segment %d: expected a parameter apart from the gradients, received an overlap",
                             where, i);
        offer->table = hash_with(offer->table, segment->local ? UINT64_MAX : (uint64_t)segment->count);
        if (!segment->local) r->output_count += segment->count;
    }
    offer->layout = (mst_apply_layout){(muster_dtype)r->dtype, r->output_count, apply->bucket_ends, apply->bucket_count};
    return check_buckets(apply, offer);
}

static muster_status check_gradients(const mst_entrance *e, const muster_tensor *gradients, mst_apply_offer *offer, mst_request *r) {
    MUSTER_TRY(mst_entrance_check_not_per_shard(e));
    MUSTER_TRY(mst_entrance_check_tensor(e, gradients, "gradients"));
    if (!mst_dtype_is_float(gradients->dtype))
        return mst_error(MUSTER_UNSUPPORTED, "%s: gradients: expected a float dtype, received %s", where,
                         muster_dtype_name(gradients->dtype));
    if (gradients->ndim != 1 && gradients->ndim != 2)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: gradients: expected a vector, or one for each shard, received %d axes", where,
                         gradients->ndim);
    mst_entrance_set_input(r, gradients);
    r->shards = gradients->ndim == 2 ? gradients->shape[0] : 1;
    offer->length = gradients->shape[gradients->ndim - 1];
    offer->gradients = (char *)(uintptr_t)r->input;
    if (offer->phase != MST_APPLY_WHOLE && r->shards != 1)
        return mst_error(MUSTER_UNSUPPORTED, "%s: gradients: expected one vector in the phases of a step, received %lld", where,
                         (long long)r->shards);
    return MUSTER_OK;
}

/* ---- what a failed call has left ---- */

/* Every rank has left the rendezvous: no rank writes any more. */
static void note_portion(const muster_communicator *communicator, const mst_apply_request *apply, const mst_request *r, int32_t rank) {
    mst_apply_range range;
    mst_apply_iterator iterator = mst_apply_iterate(r->apply, mst_communicator_total(communicator), rank);
    while (mst_apply_next(&iterator, &range)) apply->undefined[range.segment] = true;
}

/* What the ranks of other processes have done is not known here: where one of this process has
 * begun, all have agreed to begin. */
static void note_undefined(const muster_communicator *communicator, const mst_apply_request *apply, const mst_request *r,
                           int32_t own_rank) {
    const uint64_t tag = communicator->members[own_rank].apply_tag;
    bool any = false;
    for (int32_t i = 0; i < apply->segment_count; i++) apply->undefined[i] = false;
    for (int32_t rank = 0; rank < communicator->size && tag != 0; rank++) {
        if (atomic_load_explicit(&communicator->members[rank].apply_written, memory_order_acquire) != tag) continue;
        any = true;
        note_portion(communicator, apply, r, mst_communicator_public(communicator, rank));
        for (int32_t i = 0; i < apply->segment_count && rank == own_rank; i++)
            apply->undefined[i] |= apply->segments[i].local && apply->segments[i].count > 0;
    }
    for (int32_t rank = 0; any && communicator->span && rank < communicator->span->size; rank++) note_portion(communicator, apply, r, rank);
}

/* ---- the ways in ---- */

static muster_status check(mst_entrance *e, muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                           mst_apply_offer *offer, mst_request *r) {
    offer->segments = apply->segments;
    offer->segment_count = apply->segment_count;
    offer->function = apply->function;
    offer->context = apply->context;
    offer->pairs = apply->pairs;
    for (int32_t i = 0; apply->undefined && i < apply->segment_count; i++) apply->undefined[i] = false;
    *r = (mst_request){.collective = MST_ALL_REDUCE_APPLY, .reduction = MUSTER_SUM, .root = -1, .apply = offer};
    MUSTER_TRY(mst_entrance_open(e, where, worker, communicator));
    MUSTER_TRY(mst_entrance_check_no_group(e, "communicator"));
    if (e->communicator->span && e->communicator != e->communicator->world->global)
        return mst_error(MUSTER_UNSUPPORTED, "%s: expected the communicator of all workers, or one of one process, received a part of %d",
                         where, (int)e->communicator->span->processes);
    MUSTER_TRY(check_gradients(e, &apply->gradients, offer, r));
    MUSTER_TRY(check_table(apply, offer, r));
    return apply->function || offer->phase == MST_APPLY_SUM ? MUSTER_OK : mst_error_null(where, "function", "a rule");
}

static muster_status enter(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                           mst_apply_offer offer) {
    mst_entrance e;
    mst_request r;
    MUSTER_TRY(check(&e, worker, communicator, apply, &offer, &r));
    if (r.output_count == 0) r.shards = 1; /* there is nothing to combine */
    if (offer.phase != MST_APPLY_SUM) MUSTER_TRY(mst_worker_seal(worker, where));
    e.communicator->members[e.member].apply_tag = 0;
    muster_status status = mst_entrance_submit(&e, r);
    if (__builtin_expect(status != MUSTER_OK, 0) && apply->undefined) note_undefined(e.communicator, apply, &r, e.member);
    return status;
}

muster_status mst_worker_all_reduce_apply(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply) {
    return enter(worker, communicator, apply, (mst_apply_offer){.phase = MST_APPLY_WHOLE, .bucket = MST_APPLY_ALL_BUCKETS});
}

muster_status mst_worker_apply_bucket(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                      int32_t bucket) {
    return enter(worker, communicator, apply, (mst_apply_offer){.phase = MST_APPLY_WHOLE, .bucket = bucket});
}

muster_status mst_worker_apply_sum(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                   int32_t bucket) {
    return enter(worker, communicator, apply, (mst_apply_offer){.phase = MST_APPLY_SUM, .bucket = bucket});
}

muster_status mst_worker_apply_finish(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply) {
    return enter(worker, communicator, apply, (mst_apply_offer){.phase = MST_APPLY_FINISH, .bucket = MST_APPLY_ALL_BUCKETS});
}

muster_status mst_worker_apply_visit(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply) {
    mst_entrance e;
    mst_request r;
    mst_apply_offer offer = {.phase = MST_APPLY_SUM, .bucket = MST_APPLY_ALL_BUCKETS};
    MUSTER_TRY(check(&e, worker, communicator, apply, &offer, &r));
    return mst_apply_visit(&offer, e.size, e.rank, worker);
}
