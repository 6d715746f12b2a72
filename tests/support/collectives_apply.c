#include "collectives_apply.h"

#include "muster/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNWRITTEN = 77 };

/* ---- values: small whole numbers, so that every order and every rounding gives the same ---- */

static double gradient_at(int32_t shard, int32_t step, int64_t i) { return (double)((i * 5 + shard * 3 + step) % 3 - 1); }
static double local_gradient_at(int32_t rank, int32_t step, int64_t i) { return (double)((i + rank + step) % 5 - 2); }

static int64_t shards_of(const apply_rank *a, int32_t rank) {
    return !a->plan.sharded || a->size == 1 ? 1 : rank == 0 ? 2 : rank == a->size - 1 ? 0 : 1;
}
static int32_t first_shard(const apply_rank *a) { return a->plan.sharded && a->rank > 0 ? a->rank + 1 : a->rank; }

/* The parameter after so many steps of velocity = velocity / 2 + sum, parameter -= velocity / 2. */
static double stepped(const apply_rank *a, bool local, int64_t i, int32_t steps) {
    double velocity = 0, parameter = 0;
    for (int32_t s = 0; s < steps; s++) {
        double sum = 0;
        if (local) sum = local_gradient_at(a->rank, s, i);
        for (int32_t shard = 0; shard < a->size && !local; shard++) sum += gradient_at(shard, s, i);
        velocity = velocity / 2 + sum;
        parameter -= velocity / 2;
    }
    return parameter;
}

/* ---- the table ---- */

static void add_segment(apply_rank *a, int64_t count, bool local, int64_t *flat_at, int64_t *local_at, int64_t *parameter_at) {
    const int64_t element = muster_dtype_size(a->plan.dtype), gap = a->plan.cut == APPLY_FEW ? a->segment_count % 3 : 0;
    mst_apply_segment *segment = &a->segments[a->segment_count++];
    *segment = (mst_apply_segment){.count = count, .local = local};
    if (local) {
        segment->gradient = (void *)(*local_at * element); /* until the memory is there */
        *local_at += count;
    } else {
        segment->offset = *flat_at + gap + (a->plan.apart ? a->rank : 0);
        *flat_at = segment->offset + count;
    }
    segment->parameter = (void *)(*parameter_at * element);
    *parameter_at += count + 1;
}

static int64_t count_of_segment(const apply_rank *a, int32_t i, int64_t left) {
    static const int64_t sevenths[] = {1, 0, 3, 0, 2};
    int64_t count = left;
    if (a->plan.cut == APPLY_FEW && i < 5) count = a->plan.count / 7 * sevenths[i] + (i == 2);
    if (a->plan.cut == APPLY_TINY) count = 1 + i % 3;
    return count < left ? count : left;
}

static int32_t most_segments(const apply_plan *plan) {
    return plan->cut == APPLY_TINY ? APPLY_TINY_COUNT + APPLY_LOCALS : 7 + APPLY_LOCALS;
}

static void make_table(apply_rank *a, int64_t *local_count) {
    int64_t flat_at = 0, local_at = 0, parameter_at = 1, left = a->plan.count;
    int32_t locals = 0;
    for (int32_t i = 0; left > 0 || i == 0; i++) {
        const int64_t count = count_of_segment(a, i, left);
        add_segment(a, count, false, &flat_at, &local_at, &parameter_at);
        left -= count;
        if (a->plan.locals && locals < APPLY_LOCALS && i % 2 == 0)
            add_segment(a, (a->rank * 600 + locals++) % 1500, true, &flat_at, &local_at, &parameter_at);
    }
    a->length = flat_at + 2;
    a->memory_count = parameter_at;
    *local_count = local_at;
}

static void place_table(apply_rank *a) {
    char *parameters = muster_tensor_address(a->memory), *gradients = muster_tensor_address(a->local_gradients);
    for (int32_t i = 0; i < a->segment_count; i++) {
        a->segments[i].parameter = parameters + (intptr_t)a->segments[i].parameter;
        if (a->segments[i].local) a->segments[i].gradient = gradients + (intptr_t)a->segments[i].gradient;
    }
}

/* ---- memory ---- */

muster_status apply_write(apply_rank *a, muster_tensor to, const double *values) {
    const int64_t count = muster_tensor_count(to);
    void *host = a->values + a->memory_count + a->state_count + 4 * (a->length + 4) + 6000;
    if (count == 0) return MUSTER_OK;
    mst_convert(to.dtype, host, MUSTER_F64, values, count);
    return muster_worker_write(a->worker, muster_tensor_make(to.dtype, host, 1, &count), muster_tensor_reshape(to, 1, &count));
}

static muster_status scratch(apply_rank *a, int64_t count, muster_tensor *made) {
    MUSTER_TRY(muster_worker_scratch(a->worker, a->plan.dtype, 1, &count, made));
    return made->dtype ? MUSTER_OK : a->worker->scratch_status;
}

static mst_apply_layout layout_of(const apply_rank *a) {
    return (mst_apply_layout){a->plan.dtype, a->plan.count, a->plan.buckets ? a->bucket_ends : NULL, a->plan.buckets ? APPLY_BUCKETS : 0};
}

muster_status apply_open(apply_rank *a, muster_worker *worker, int32_t size, const apply_plan *plan) {
    *a = (apply_rank){.worker = worker, .plan = *plan, .size = size, .rank = mst_worker_public_rank(worker)};
    a->segments = calloc((size_t)most_segments(plan), sizeof *a->segments);
    a->undefined = calloc((size_t)most_segments(plan), sizeof *a->undefined);
    int64_t local_count, shards = shards_of(a, a->rank);
    const int64_t ends[APPLY_BUCKETS] = {plan->count / 7, plan->count / 7, plan->count / 3 * 2, plan->count};
    memcpy(a->bucket_ends, ends, sizeof ends);
    make_table(a, &local_count);
    const mst_apply_layout layout = layout_of(a);
    a->state_count = mst_apply_states(&layout, a->segments, a->segment_count, size, a->rank) + 2;
    a->stated = malloc((size_t)a->state_count * sizeof *a->stated);
    a->values = calloc((size_t)(2 * (a->memory_count + a->state_count + 4 * (a->length + 4) + 6000)), sizeof(double));
    MUSTER_TRY(scratch(a, shards * a->length, &a->flat));
    MUSTER_TRY(scratch(a, local_count, &a->local_gradients));
    MUSTER_TRY(scratch(a, a->memory_count, &a->memory));
    MUSTER_TRY(scratch(a, a->state_count, &a->states));
    if (plan->sharded) a->flat = muster_tensor_reshape(a->flat, 2, (int64_t[]){shards, a->length});
    place_table(a);
    return apply_reset(a);
}

void apply_close(apply_rank *a) {
    free(a->segments);
    free(a->undefined);
    free(a->stated);
    free(a->values);
}

muster_status apply_reset(apply_rank *a) {
    for (int64_t i = 0; i < a->memory_count; i++) a->values[i] = UNWRITTEN;
    const char *memory = muster_tensor_address(a->memory);
    for (int32_t s = 0; s < a->segment_count; s++) {
        const int64_t at = ((const char *)a->segments[s].parameter - memory) / muster_dtype_size(a->plan.dtype);
        for (int64_t i = 0; i < a->segments[s].count; i++) a->values[at + i] = 0;
    }
    MUSTER_TRY(apply_write(a, a->memory, a->values));
    for (int64_t i = 0; i < a->state_count; i++) a->stated[i] = -1;
    for (int64_t i = 0; i < a->state_count; i++) a->values[i] = i == 0 || i == a->state_count - 1 ? UNWRITTEN : 0;
    return apply_write(a, a->states, a->values);
}

/* ---- one step ---- */

static muster_status write_local_gradients(apply_rank *a, int32_t step) {
    int64_t at = 0;
    for (int32_t s = 0; s < a->segment_count; s++)
        for (int64_t i = 0; a->segments[s].local && i < a->segments[s].count; i++) a->values[at++] = local_gradient_at(a->rank, step, i);
    return apply_write(a, a->local_gradients, a->values);
}

/* What lies in no segment is NaN. */
muster_status apply_write_gradients(apply_rank *a, int32_t step) {
    const int64_t shards = shards_of(a, a->rank);
    for (int64_t i = 0; i < shards * a->length; i++) a->values[i] = NAN;
    for (int64_t shard = 0; shard < shards; shard++) {
        int64_t before = 0;
        for (int32_t s = 0; s < a->segment_count; s++) {
            const mst_apply_segment *segment = &a->segments[s];
            if (segment->local) continue;
            for (int64_t i = 0; i < segment->count; i++)
                a->values[shard * a->length + segment->offset + i] = gradient_at(first_shard(a) + (int32_t)shard, step, before + i);
            before += segment->count;
        }
    }
    MUSTER_TRY(apply_write(a, a->flat, a->values));
    return write_local_gradients(a, step);
}

static muster_tensor vector_at(const apply_rank *a, const void *address, int64_t count) {
    muster_tensor t = muster_tensor_make(a->plan.dtype, (void *)(uintptr_t)address, 1, &count);
    t.device = a->worker->rank;
    return t;
}

/* The elements of a segment are numbered from a multiple of 2^32 on. */
static int64_t number_of(int32_t segment, int64_t element) { return ((int64_t)segment << 32) + element; }

/* Each element has one state, in all steps. */
static muster_status note_states(apply_rank *a, const mst_apply_part *part) {
    for (int64_t i = 0; i < part->count; i++) {
        const int64_t state = part->state + i, number = number_of(part->segment, part->first + i);
        if (state < 0 || state >= a->state_count - 2)
            return mst_error(MUSTER_USER, "rule: element %lld of segment %d has state %lld of %lld", (long long)(part->first + i),
                             part->segment, (long long)state, (long long)a->state_count - 2);
        if (a->stated[state] != -1 && a->stated[state] != number)
            return mst_error(MUSTER_USER, "rule: state %lld belongs to element %lld, and to element %lld", (long long)state,
                             (long long)a->stated[state], (long long)number);
        a->stated[state] = number;
    }
    return MUSTER_OK;
}

/* Any number of elements of two gradients, and the other rank's parameter. */
static muster_status add_second(apply_rank *a, const mst_apply_part *part, muster_tensor velocity) {
    if (!part->second) return part->copy ? mst_error(MUSTER_USER, "rule: a copy, but no second gradient") : MUSTER_OK;
    if (!a->plan.pairs || !part->copy || part->before != part->after)
        return mst_error(MUSTER_USER, "rule: a pair for segment %d", part->segment);
    a->pair_count += part->count;
    return muster_scale_add(a->worker, 1, vector_at(a, part->second, part->count), 1, velocity);
}

static muster_status rule(void *context, muster_worker *worker, const mst_apply_part *part) {
    apply_rank *a = context;
    const int64_t element = muster_dtype_size(a->plan.dtype);
    const bool in_steps = part->count * element <= MST_APPLY_STEP || part->second || !mst_device_is_host(worker->device);
    if (worker != a->worker || part->dtype != a->plan.dtype || part->count <= 0 || !in_steps)
        return mst_error(MUSTER_USER, "rule: %lld elements of segment %d", (long long)part->count, part->segment);
    if (++a->calls == a->fails_at_call) return mst_error(MUSTER_USER, "the rule fails on rank %d", a->rank);
    MUSTER_TRY(note_states(a, part));
    muster_tensor gradient = vector_at(a, part->gradient, part->count), before = vector_at(a, part->before, part->count),
                  after = vector_at(a, part->after, part->count);
    muster_tensor velocity = vector_at(a, (char *)muster_tensor_address(a->states) + (1 + part->state) * element, part->count);
    MUSTER_TRY(muster_scale_add(worker, 1, gradient, 0.5, velocity));
    MUSTER_TRY(add_second(a, part, velocity));
    if (part->after != part->before) MUSTER_TRY(muster_copy(worker, before, after));
    MUSTER_TRY(muster_scale_add(worker, -0.5, velocity, 1, after));
    return part->copy ? muster_copy(worker, after, vector_at(a, part->copy, part->count)) : MUSTER_OK;
}

mst_apply_request apply_request_of(apply_rank *a) {
    return (mst_apply_request){.gradients = a->flat,
                               .segments = a->segments,
                               .segment_count = a->segment_count,
                               .bucket_ends = a->plan.buckets ? a->bucket_ends : NULL,
                               .bucket_count = a->plan.buckets ? APPLY_BUCKETS : 0,
                               .function = rule,
                               .context = a,
                               .pairs = a->plan.pairs,
                               .undefined = a->undefined};
}

muster_status apply_enter(apply_rank *a, muster_communicator *communicator) {
    const mst_apply_request request = apply_request_of(a);
    return mst_worker_all_reduce_apply(a->worker, communicator, &request);
}

/* Counts the elements of the phase SUM. The function gets no address of a parameter there. */
static muster_status visit(void *context, muster_worker *worker, const mst_apply_part *part) {
    apply_rank *a = context;
    if (worker != a->worker || part->before || part->after || !part->gradient)
        return mst_error(MUSTER_USER, "visit: segment %d has other addresses", part->segment);
    a->visited += part->count;
    return MUSTER_OK;
}

static muster_status check_visited(const apply_rank *a, const char *what) {
    const mst_apply_layout layout = layout_of(a);
    const int64_t expected = mst_apply_states(&layout, a->segments, a->segment_count, a->size, a->rank);
    if (a->visited == expected) return MUSTER_OK;
    return mst_error(MUSTER_USER, "%s: expected %lld elements, received %lld", what, (long long)expected, (long long)a->visited);
}

muster_status apply_enter_phases(apply_rank *a, muster_communicator *communicator, bool by_bucket) {
    const mst_apply_request finish = apply_request_of(a);
    mst_apply_request sum = finish;
    sum.function = visit;
    a->visited = 0;
    if (by_bucket && a->plan.buckets)
        for (int32_t b = APPLY_BUCKETS - 1; b >= 0; b--) MUSTER_TRY(mst_worker_apply_sum(a->worker, communicator, &sum, b));
    else
        MUSTER_TRY(mst_worker_apply_sum(a->worker, communicator, &sum, by_bucket ? 0 : MST_APPLY_ALL_BUCKETS));
    MUSTER_TRY(check_visited(a, "sum"));
    a->visited = 0;
    MUSTER_TRY(mst_worker_apply_visit(a->worker, communicator, &sum));
    MUSTER_TRY(check_visited(a, "visit"));
    return mst_worker_apply_finish(a->worker, communicator, &finish);
}

/* ---- what came out ---- */

static muster_status read_values(apply_rank *a, muster_tensor from, int64_t count) {
    void *host = a->values + a->memory_count + a->state_count + 4 * (a->length + 4) + 6000;
    MUSTER_TRY(muster_worker_read(a->worker, from, muster_tensor_make(from.dtype, host, 1, &count)));
    mst_convert(MUSTER_F64, a->values, from.dtype, host, count);
    return MUSTER_OK;
}

static muster_status check_segment(const apply_rank *a, int32_t s, int64_t at, int64_t before, int32_t steps) {
    for (int64_t i = 0; i < a->segments[s].count; i++) {
        const double expected = stepped(a, a->segments[s].local, a->segments[s].local ? i : before + i, steps);
        if (a->values[at + i] != expected)
            return mst_error(MUSTER_USER, "rank %d: element %lld of segment %d is %g, expected %g", a->rank, (long long)i, s,
                             a->values[at + i], expected);
    }
    if (a->values[at - 1] == UNWRITTEN && a->values[at + a->segments[s].count] == UNWRITTEN) return MUSTER_OK;
    return mst_error(MUSTER_USER, "rank %d: memory beside segment %d was written", a->rank, s);
}

/* The states of shared segments, in the order of their elements, and then those of local ones. */
static muster_status check_states(const apply_rank *a) {
    for (int64_t i = 0; i < a->state_count - 2; i++) {
        const int64_t own = a->stated[i], before = i == 0 ? -1 : a->stated[i - 1];
        const bool local = own >= 0 && a->segments[own >> 32].local, was_local = before >= 0 && a->segments[before >> 32].local;
        if (own < 0 || (local == was_local ? own <= before : was_local))
            return mst_error(MUSTER_USER, "rank %d: state %lld belongs to element %lld, the one before it to element %lld", a->rank,
                             (long long)i, (long long)own, (long long)before);
    }
    return MUSTER_OK;
}

muster_status apply_check(apply_rank *a, int32_t steps, const bool *undefined) {
    const char *memory = muster_tensor_address(a->memory);
    int64_t before = 0;
    MUSTER_TRY(read_values(a, a->memory, a->memory_count));
    for (int32_t s = 0; s < a->segment_count; s++) {
        const int64_t at = ((const char *)a->segments[s].parameter - memory) / muster_dtype_size(a->plan.dtype);
        if (!undefined || !undefined[s]) MUSTER_TRY(check_segment(a, s, at, before, steps));
        before += a->segments[s].local ? 0 : a->segments[s].count;
    }
    if (!undefined && steps > 0) MUSTER_TRY(check_states(a));
    MUSTER_TRY(read_values(a, a->states, a->state_count));
    if (a->values[0] == UNWRITTEN && a->values[a->state_count - 1] == UNWRITTEN) return MUSTER_OK;
    return mst_error(MUSTER_USER, "rank %d: memory beside the states was written", a->rank);
}
