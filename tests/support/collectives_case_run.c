#include "collectives_case_run.h"

#include "base_check.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, FILL = 0xA5 };

/* One case as one rank sees it. Byte offsets are in the arena; counts of -1: no tensor. */
typedef struct case_run {
    const matrix_case *c;
    int32_t rank, root;
    int64_t element, input_count, output_count, input_at, output_at;
    int64_t begin, end;                /* of what is written, between guards */
    int64_t velocity_at, velocity_end; /* the same of momentum */
    const char *given;                 /* the input's values */
} case_run;

/* ---- who has which part ---- */

static bool is_uneven(const matrix_case *c) {
    return c->kind == CASE_ALL_GATHER_UNEVEN || c->kind == CASE_GATHER_UNEVEN || c->kind == CASE_SCATTER_UNEVEN ||
           c->kind == CASE_REDUCE_SCATTER_UNEVEN || c->kind == CASE_ALL_TO_ALL_UNEVEN;
}

/* Where part r begins. Even parts are rounded up; of the uneven ones every third is empty. */
static int64_t edge(const matrix_case *c, int32_t r) {
    int64_t count = case_count(c), before = 0, all = 0;
    if (!is_uneven(c)) return (count + c->ranks - 1) / c->ranks * r;
    for (int32_t q = 0; q < c->ranks; q++) {
        int64_t thirds = (2 * q + 1) % 3;
        before += q < r ? thirds : 0;
        all += thirds;
    }
    return count * before / all;
}
static int64_t part(const matrix_case *c, int32_t r) { return edge(c, r + 1) - edge(c, r); }
static int64_t total(const matrix_case *c) { return edge(c, c->ranks); }

/* From rank to rank, for all_to_all: not the same both ways. */
static int64_t block_count(const matrix_case *c, int32_t from, int32_t to) { return part(c, (to - from + c->ranks) % c->ranks); }
static int64_t block_offset(const matrix_case *c, int32_t from, int32_t to) {
    int64_t offset = 0;
    for (int32_t r = 0; r < to; r++) offset += block_count(c, from, r);
    return offset;
}

/* One shard per rank on average, none on the last one of several. */
static int64_t shards(const matrix_case *c, int32_t r) { return c->ranks == 1 ? 1 : r == 0 ? 2 : r == c->ranks - 1 ? 0 : 1; }
static int32_t first_shard(int32_t r) { return r == 0 ? 0 : r + 1; }

/* ---- one run ---- */

static void set_counts(case_run *s) {
    const matrix_case *c = s->c;
    int64_t count = case_count(c);
    bool root = s->rank == s->root;
    s->input_count = s->output_count = count;
    switch (c->kind) {
    case CASE_ALL_REDUCE_SHARDS:
        s->input_count = shards(c, s->rank) * count;
        break;
    case CASE_REDUCE:
        s->output_count = root ? count : -1;
        break;
    case CASE_BROADCAST:
        s->input_count = root ? count : -1;
        break;
    case CASE_ALL_GATHER:
    case CASE_ALL_GATHER_BEGIN:
    case CASE_ALL_GATHER_UNEVEN:
        s->input_count = part(c, s->rank), s->output_count = total(c);
        break;
    case CASE_GATHER:
    case CASE_GATHER_UNEVEN:
        s->input_count = part(c, s->rank), s->output_count = root ? total(c) : -1;
        break;
    case CASE_SCATTER:
    case CASE_SCATTER_UNEVEN:
        s->input_count = root ? total(c) : -1, s->output_count = part(c, s->rank);
        break;
    case CASE_REDUCE_SCATTER:
    case CASE_REDUCE_SCATTER_BEGIN:
    case CASE_REDUCE_SCATTER_UNEVEN:
        s->input_count = total(c), s->output_count = part(c, s->rank);
        break;
    case CASE_ALL_TO_ALL:
    case CASE_ALL_TO_ALL_UNEVEN:
        s->input_count = s->output_count = total(c);
        break;
    default:
        break;
    }
}

static bool joins(const matrix_case *c) { return c->kind >= CASE_ALL_GATHER && c->kind <= CASE_GATHER_UNEVEN; }
static bool deals(const matrix_case *c) { return c->kind >= CASE_SCATTER && c->kind <= CASE_REDUCE_SCATTER_UNEVEN; }
static bool in_place(const case_run *s) { return s->c->in_place && s->input_count >= 0 && s->output_count >= 0; }

static case_run aim(const case_member *member, const matrix_case *c, int32_t root) {
    case_run s = {.c = c, .rank = muster_worker_rank(member->worker), .root = root, .element = muster_dtype_size(c->dtype)};
    set_counts(&s);
    s.given = member->batch->vectors[s.rank];
    /* Not only at the beginning of a line. */
    s.begin = member->output_at + (c->count + c->algorithm) % 3 * s.element;
    s.output_at = s.begin;
    if (in_place(&s)) {
        int64_t offset = edge(c, s.rank) * s.element, larger = s.input_count > s.output_count ? s.input_count : s.output_count;
        s.input_at = s.begin + (joins(c) ? offset : 0);
        s.output_at = s.begin + (deals(c) ? offset : 0);
        s.end = s.begin + larger * s.element;
    } else {
        s.end = s.begin + (s.output_count > 0 ? s.output_count : 0) * s.element;
    }
    if (c->kind == CASE_ALL_REDUCE_MOMENTUM) {
        s.velocity_at = member->velocity_at + (c->count + 2 * c->algorithm) % 3 * s.element;
        s.velocity_end = s.velocity_at + s.output_count * s.element;
    }
    return s;
}

static muster_tensor bytes_of(void *address, int64_t count) { return muster_tensor_make(MUSTER_U8, address, 1, &count); }

static muster_tensor tensor_at(const case_member *member, const case_run *s, int64_t at, int64_t count) {
    if (count < 0) return muster_tensor_none();
    muster_tensor t = muster_tensor_make(s->c->dtype, member->arena.data, 1, &count);
    t.byte_offset = member->arena.byte_offset + at;
    t.device = member->arena.device;
    return t;
}

static muster_tensor whole(const case_member *member, int64_t begin, int64_t end) { return muster_tensor_slice(member->arena, begin, end); }

/* The input by itself: of the host the vector as it is, nothing copied. */
static muster_status separate_input(const case_member *member, case_run *s, muster_tensor *input) {
    bool sharded = s->c->kind == CASE_ALL_REDUCE_SHARDS;
    *input = tensor_at(member, s, 0, s->input_count);
    if (s->input_count < 0) return MUSTER_OK;
    int64_t bytes = s->input_count * s->element, vector = case_count(s->c) * s->element;
    if (sharded) {
        int64_t of_rank = shards(s->c, s->rank), shape[] = {of_rank, case_count(s->c)};
        for (int64_t i = 0; i < of_rank; i++)
            memcpy(member->host + i * vector, member->batch->vectors[first_shard(s->rank) + i], (size_t)vector);
        *input = muster_tensor_reshape(tensor_at(member, s, 0, s->input_count), 2, shape);
    }
    if (member->discrete)
        return muster_worker_write(member->worker, bytes_of(sharded ? member->host : (char *)s->given, bytes), whole(member, 0, bytes));
    if (!sharded) *input = muster_tensor_make(s->c->dtype, (char *)s->given, 1, &s->input_count);
    return MUSTER_OK;
}

/* Bytes [begin, end) with their guards, from the copy to the device. */
static muster_status to_device(const case_member *member, int64_t begin, int64_t end) {
    if (!member->discrete) return MUSTER_OK;
    return muster_worker_write(member->worker, bytes_of(member->host + begin - GUARD, end - begin + 2 * GUARD),
                               whole(member, begin - GUARD, end + GUARD));
}

static muster_status from_device(const case_member *member, int64_t begin, int64_t end) {
    if (!member->discrete) return MUSTER_OK;
    return muster_worker_read(member->worker, whole(member, begin - GUARD, end + GUARD),
                              bytes_of(member->host + begin - GUARD, end - begin + 2 * GUARD));
}

static muster_status prepare_velocity(const case_member *member, const case_run *s) {
    memset(member->host + s->velocity_at - GUARD, FILL, (size_t)(s->velocity_end - s->velocity_at + 2 * GUARD));
    memset(member->host + s->velocity_at, 0, (size_t)(s->velocity_end - s->velocity_at));
    return to_device(member, s->velocity_at, s->velocity_end);
}

static muster_status prepare(const case_member *member, case_run *s, muster_tensor *input, muster_tensor *output) {
    *output = tensor_at(member, s, s->output_at, s->output_count);
    if (in_place(s))
        *input = tensor_at(member, s, s->input_at, s->input_count);
    else
        MUSTER_TRY(separate_input(member, s, input));
    memset(member->host + s->begin - GUARD, FILL, (size_t)(s->end - s->begin + 2 * GUARD));
    if (in_place(s)) memcpy(member->host + s->input_at, s->given, (size_t)(s->input_count * s->element));
    if (case_updates(s->c)) memcpy(member->host + s->output_at, member->batch->vectors[CASE_RANKS], (size_t)(s->output_count * s->element));
    if (s->velocity_at > 0) MUSTER_TRY(prepare_velocity(member, s));
    return to_device(member, s->begin, s->end);
}

static muster_status exchange_uneven(const case_member *member, const case_run *s, muster_communicator *communicator, muster_tensor input,
                                     muster_tensor output) {
    int64_t sent[CASE_RANKS], received[CASE_RANKS];
    for (int32_t r = 0; r < s->c->ranks; r++) {
        sent[r] = block_count(s->c, s->rank, r);
        received[r] = block_count(s->c, r, s->rank);
    }
    return muster_worker_all_to_all_uneven(member->worker, communicator, input, sent, output, received);
}

static muster_status step(const case_member *member, const case_run *s, muster_communicator *communicator, muster_tensor gradient,
                          muster_tensor parameter) {
    muster_tensor velocity = tensor_at(member, s, s->velocity_at, s->output_count);
    for (int i = 0; i < CASE_STEPS; i++) {
        MUSTER_TRY(muster_worker_all_reduce_momentum(member->worker, communicator, CASE_ALPHA, gradient, CASE_BETA, velocity, parameter));
    }
    return MUSTER_OK;
}

static muster_status store_sums(void *context, muster_worker *worker, const mst_apply_part *part) {
    (void)context;
    muster_tensor from = muster_tensor_make(part->dtype, (void *)(uintptr_t)part->gradient, 1, &part->count),
                  to = muster_tensor_make(part->dtype, part->after, 1, &part->count);
    from.device = to.device = worker->rank;
    return muster_copy(worker, from, to);
}

/* The sums of the phase that begins are written over the gradients, which are the case's input: a
 * copy of them. */
static muster_status apply_begun(muster_worker *worker, muster_communicator *communicator, mst_apply_request request) {
    const muster_tensor input = request.gradients;
    const int64_t mark = muster_worker_scratch_mark(worker);
    mst_apply_request sums = request;
    sums.function = NULL;
    MUSTER_TRY(muster_worker_scratch(worker, input.dtype, 1, input.shape, &request.gradients));
    sums.gradients = request.gradients;
    MUSTER_TRY(muster_copy(worker, input, sums.gradients));
    MUSTER_TRY(mst_worker_apply_sum_begin(worker, communicator, &sums, MST_APPLY_ALL_BUCKETS));
    MUSTER_TRY(mst_worker_exchange_end(worker));
    MUSTER_TRY(mst_worker_apply_finish(worker, communicator, &request));
    return muster_worker_scratch_release(worker, mark);
}

/* The output as two parameters. */
static muster_status apply(muster_worker *worker, muster_communicator *communicator, muster_tensor gradients, muster_tensor output,
                           bool begins) {
    const int64_t count = muster_tensor_count(output), first = count / 3, element = muster_dtype_size(output.dtype);
    char *memory = muster_tensor_address(output);
    const mst_apply_segment segments[] = {{.count = first, .parameter = memory},
                                          {.offset = first, .count = count - first, .parameter = memory + first * element}};
    const mst_apply_request request = {.gradients = gradients, .segments = segments, .segment_count = 2, .function = store_sums};
    return begins ? apply_begun(worker, communicator, request) : mst_worker_all_reduce_apply(worker, communicator, &request);
}

/* The device works on it beside what the worker issues next; the check comes behind the end. */
static muster_status enter_begun(const case_member *member, const case_run *s, muster_tensor input, muster_tensor output) {
    muster_communicator *communicator = member->batch->communicators[s->c->algorithm];
    muster_worker *w = member->worker;
    if (s->c->kind == CASE_ALL_REDUCE_BEGIN)
        MUSTER_TRY(mst_worker_all_reduce_begin(w, communicator, s->c->op, input, output));
    else if (s->c->kind == CASE_ALL_GATHER_BEGIN)
        MUSTER_TRY(mst_worker_all_gather_begin(w, communicator, input, output));
    else
        MUSTER_TRY(mst_worker_reduce_scatter_begin(w, communicator, s->c->op, input, output));
    return mst_worker_exchange_end(w);
}

static muster_status enter(const case_member *member, const case_run *s, muster_tensor input, muster_tensor output) {
    muster_communicator *communicator = member->batch->communicators[s->c->algorithm];
    muster_worker *w = member->worker;
    switch (s->c->kind) {
    case CASE_ALL_REDUCE:
        return muster_worker_all_reduce(w, communicator, s->c->op, input, output);
    case CASE_ALL_REDUCE_SHARDS:
        return muster_worker_all_reduce_shards(w, communicator, s->c->op, input, output);
    case CASE_ALL_REDUCE_AXPY:
        return muster_worker_all_reduce_axpy(w, communicator, CASE_ALPHA, input, output);
    case CASE_ALL_REDUCE_MOMENTUM:
        return step(member, s, communicator, input, output);
    case CASE_ALL_REDUCE_APPLY:
    case CASE_ALL_REDUCE_APPLY_BEGIN:
        return apply(w, communicator, input, output, s->c->kind == CASE_ALL_REDUCE_APPLY_BEGIN);
    case CASE_REDUCE:
        return muster_worker_reduce(w, communicator, s->c->op, s->root, input, output);
    case CASE_BROADCAST:
        return muster_worker_broadcast(w, communicator, s->root, input, output);
    case CASE_ALL_GATHER:
    case CASE_ALL_GATHER_UNEVEN:
        return muster_worker_all_gather(w, communicator, input, output);
    case CASE_GATHER:
    case CASE_GATHER_UNEVEN:
        return muster_worker_gather(w, communicator, s->root, input, output);
    case CASE_SCATTER:
    case CASE_SCATTER_UNEVEN:
        return muster_worker_scatter(w, communicator, s->root, input, output);
    case CASE_REDUCE_SCATTER:
    case CASE_REDUCE_SCATTER_UNEVEN:
        return muster_worker_reduce_scatter(w, communicator, s->c->op, input, output);
    case CASE_ALL_TO_ALL:
        return muster_worker_all_to_all(w, communicator, input, output);
    case CASE_ALL_REDUCE_BEGIN:
    case CASE_ALL_GATHER_BEGIN:
    case CASE_REDUCE_SCATTER_BEGIN:
        return enter_begun(member, s, input, output);
    default:
        return exchange_uneven(member, s, communicator, input, output);
    }
}

/* ---- what must have come out ---- */

static muster_status wrong(const case_run *s, const char *what, int64_t at) {
    char text[CASE_TEXT];
    return mst_error(MUSTER_USER, "%s, root %d: on rank %d %s, at byte %lld of its output", case_text(s->c, text), s->root, s->rank, what,
                     (long long)at);
}

/* count elements of the output from `to` are those of `vector` from `from`. */
/* NCCL combines the values in an order of its own, and several processes those of each process
 * first. Inputs are at most 2 in size. */
static bool near(const case_run *s, const char *got, const char *want, int64_t count) {
    static const double tolerances[] = {[MUSTER_F16] = 1.0 / 1024, [MUSTER_BF16] = 1.0 / 128, [MUSTER_F32] = 1e-5, [MUSTER_F64] = 1e-13};
    const double tolerance = tolerances[s->c->dtype];
    for (int64_t i = 0; i < count; i++) {
        double a = oracle_value(s->c->dtype, got, i), b = oracle_value(s->c->dtype, want, i);
        if (isnan(a) && isnan(b)) continue;
        if (!(a == b || fabs(a - b) <= tolerance * (2 * s->c->ranks + fabs(b)))) return false;
    }
    return true;
}

static bool any_order(const case_member *member, const case_run *s) {
    const bool applies = s->c->kind == CASE_ALL_REDUCE_APPLY || s->c->kind == CASE_ALL_REDUCE_APPLY_BEGIN;
    if (applies ? member->batch->any_order_applied : member->batch->any_order) return case_reduces(s->c) && s->c->dtype <= MUSTER_F64;
    return collectives_devices() == COLLECTIVES_GPUS && case_reduces(s->c) && !case_updates(s->c) &&
           (s->c->dtype == MUSTER_F32 || s->c->dtype == MUSTER_F64);
}

static muster_status same(const case_member *member, const case_run *s, int64_t to, const char *vector, int64_t from, int64_t count) {
    const char *got = member->host + s->output_at + to * s->element, *want = vector + from * s->element;
    int64_t bytes = count * s->element, at = 0;
    if (memcmp(got, want, (size_t)bytes) == 0 || (any_order(member, s) && near(s, got, want, count))) return MUSTER_OK;
    while (got[at] == want[at]) at++;
    return wrong(s, "a value differs", to * s->element + at);
}

static muster_status check_joined(const case_member *member, const case_run *s) {
    for (int32_t r = 0; r < s->c->ranks; r++) MUSTER_TRY(same(member, s, edge(s->c, r), member->batch->vectors[r], 0, part(s->c, r)));
    return MUSTER_OK;
}

static muster_status check_blocks(const case_member *member, const case_run *s) {
    int64_t to = 0;
    for (int32_t r = 0; r < s->c->ranks; to += block_count(s->c, r, s->rank), r++) {
        MUSTER_TRY(same(member, s, to, member->batch->vectors[r], block_offset(s->c, r, s->rank), block_count(s->c, r, s->rank)));
    }
    return MUSTER_OK;
}

static muster_status check_values(const case_member *member, const case_run *s) {
    const batch *b = member->batch;
    int64_t count = s->output_count, offset = edge(s->c, s->rank);
    if (count < 0) return MUSTER_OK;
    switch (s->c->kind) {
    case CASE_ALL_REDUCE:
    case CASE_ALL_REDUCE_BEGIN:
    case CASE_ALL_REDUCE_SHARDS:
    case CASE_ALL_REDUCE_APPLY:
    case CASE_ALL_REDUCE_APPLY_BEGIN:
    case CASE_REDUCE:
        return same(member, s, 0, b->combined, 0, count);
    case CASE_ALL_REDUCE_AXPY:
        return same(member, s, 0, b->updated, 0, count);
    case CASE_ALL_REDUCE_MOMENTUM:
        return same(member, s, 0, b->stepped, 0, count);
    case CASE_BROADCAST:
        return same(member, s, 0, b->vectors[s->root], 0, count);
    case CASE_SCATTER:
    case CASE_SCATTER_UNEVEN:
        return same(member, s, 0, b->vectors[s->root], offset, count);
    case CASE_REDUCE_SCATTER:
    case CASE_REDUCE_SCATTER_BEGIN:
    case CASE_REDUCE_SCATTER_UNEVEN:
        return same(member, s, 0, b->combined, offset, count);
    case CASE_ALL_TO_ALL:
    case CASE_ALL_TO_ALL_UNEVEN:
        return check_blocks(member, s);
    default:
        return check_joined(member, s);
    }
}

static muster_status check_guards(const case_member *member, const case_run *s, int64_t begin, int64_t end, const char *what) {
    for (int64_t i = 1; i <= GUARD; i++) {
        if ((unsigned char)member->host[begin - i] != FILL || (unsigned char)member->host[end + i - 1] != FILL) return wrong(s, what, -i);
    }
    return MUSTER_OK;
}

static muster_status check(const case_member *member, const case_run *s) {
    MUSTER_TRY(from_device(member, s->begin, s->end));
    MUSTER_TRY(check_guards(member, s, s->begin, s->end, "memory beside it was written"));
    if (s->velocity_at > 0) {
        MUSTER_TRY(from_device(member, s->velocity_at, s->velocity_end));
        MUSTER_TRY(check_guards(member, s, s->velocity_at, s->velocity_end, "memory beside the velocity was written"));
    }
    return check_values(member, s);
}

muster_status case_member_open(case_member *member, muster_worker *worker, batch *b) {
    /* outputs begin on a line, like the arena, so that `aim` alone decides how they are aligned */
    int64_t vector = b->length * muster_dtype_size(b->cases->dtype), input = (2 * vector + GUARD - 1) / GUARD * GUARD,
            output = vector + CASE_SLACK * 8 + 2 * GUARD, bytes = input + 2 * output;
    *member = (struct case_member){.worker = worker,
                                   .batch = b,
                                   .discrete = !mst_device_is_host(worker->device),
                                   .output_at = input + GUARD,
                                   .velocity_at = input + output + GUARD};
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_U8, 1, &bytes, &member->arena));
    if (member->arena.dtype == MUSTER_DTYPE_NONE) return worker->scratch_status;
    member->host = member->discrete ? mst_alloc_uninitialised((size_t)bytes) : muster_tensor_address(member->arena);
    return member->host ? MUSTER_OK : mst_out_of_memory("test", bytes);
}

void case_member_close(case_member *member) {
    if (member->discrete) mst_free(member->host);
}

/* ---- all of it ---- */

/* Nobody passes before everybody has come. */
static muster_status run_barrier(const case_member *member, const matrix_case *c) {
    batch *b = member->batch;
    int32_t rank = muster_worker_rank(member->worker);
    int64_t mine = atomic_fetch_add(&b->entered[rank], 1) + 1;
    MUSTER_TRY(muster_worker_barrier(member->worker, b->communicators[c->algorithm]));
    for (int32_t r = b->first; r < b->after; r++) { /* other processes count in memory of theirs */
        if (atomic_load(&b->entered[r]) < mine)
            return mst_error(MUSTER_USER, "barrier of %d ranks: rank %d passed before rank %d came", c->ranks, rank, r);
    }
    return MUSTER_OK;
}

/* ---- who has served ---- */

/* A slot takes an input of 16 KiB. Of the counts of an uneven exchange both arrays lie in it,
 * too. */
static bool fits_slot(const case_run *s) {
    enum { SLOT = 16384 };
    const matrix_case *c = s->c;
    int64_t largest = 0, counts = c->kind == CASE_ALL_TO_ALL_UNEVEN ? 2 * 8 * c->ranks : 0;
    for (int32_t r = 0; r < c->ranks; r++) {
        case_run other = {.c = c, .rank = r, .root = s->root};
        set_counts(&other);
        largest = other.input_count > largest ? other.input_count : largest;
    }
    return largest * s->element + counts <= SLOT;
}

/* The transport that must have served the case, and the algorithm; NULL: any. */
static void expect_server(const case_run *s, const char **transport, const char **algorithm) {
    const matrix_case *c = s->c;
    const char *name = case_algorithm(c->algorithm);
    const bool gpus = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE, on_host = !gpus && c->devices == CASE_HOST;
    const bool named_algorithm = name && (!gpus || c->algorithm == 0);
    const bool forced = getenv("MUSTER_COLLECTIVE_ALGORITHM") != NULL; /* for the communicator without a name */
    *algorithm = named_algorithm ? name : NULL;
    *transport = !name && (forced || !on_host) ? NULL : on_host ? "host" : "staged";
    if (gpus && name && !named_algorithm && case_available(c, name)) *transport = name;
    if (!*algorithm || strcmp(name, "inline") != 0) return;
    /* where each rank keeps states for a part of its own, every rank does not compute everything */
    const bool applies = c->kind == CASE_ALL_REDUCE_APPLY || c->kind == CASE_ALL_REDUCE_APPLY_BEGIN;
    const bool own_part = applies || (!on_host && c->kind == CASE_ALL_REDUCE_MOMENTUM);
    if (!fits_slot(s) || own_part) *algorithm = "direct";
}

/* The environment can demand stores that bypass the cache at every size, or plain ones. Where the
 * former are possible is known of sums by `direct` that are out of place and aligned, with elements
 * for each rank. */
static const char *wrong_stores(const case_run *s, const mst_member *own) {
    enum { OF_65537 = 7, DIRECT = 2 };
    const matrix_case *c = s->c;
    const char *bytes = getenv("MUSTER_STREAM_BYTES"), *added = getenv("MUSTER_COLLECTIVE_ALGORITHM");
    const bool on_host = collectives_devices() == COLLECTIVES_HOST_AND_DISCRETE && c->devices == CASE_HOST;
    if (!bytes || added || !own->served_algorithm) return NULL;
    if (strcmp(bytes, "1") != 0) return own->served_streaming ? "it used streaming stores" : NULL;
    const bool surely = on_host && c->kind == CASE_ALL_REDUCE && c->algorithm == DIRECT && c->count == OF_65537 && !c->in_place &&
                        (c->dtype == MUSTER_F32 || c->dtype == MUSTER_F64) && s->output_at % 16 == 0;
    return surely && !own->served_streaming ? "it used plain stores" : NULL;
}

static muster_status check_server(const case_member *member, const case_run *s) {
    const muster_communicator *communicator = member->batch->communicators[s->c->algorithm];
    const mst_member *own = &communicator->members[member->worker->rank];
    const char *transport, *algorithm;
    char text[CASE_TEXT];
    if (s->c->ranks == 1) return MUSTER_OK; /* most cases are plain copies, which no transport serves */
    expect_server(s, &transport, &algorithm);
    if (member->batch->shared) transport = "nodes", algorithm = NULL;
    const bool right_transport = !transport || (own->served_transport && strcmp(own->served_transport, transport) == 0);
    const bool right_algorithm = !algorithm || (own->served_algorithm && strcmp(own->served_algorithm, algorithm) == 0);
    const char *stores = wrong_stores(s, own);
    if (stores) return mst_error(MUSTER_USER, "%s, root %d: rank %d: %s", case_text(s->c, text), s->root, s->rank, stores);
    if (right_transport && right_algorithm) return MUSTER_OK;
    return mst_error(MUSTER_USER, "%s, root %d: rank %d: expected %s (%s) to serve, received %s (%s)", case_text(s->c, text), s->root,
                     s->rank, transport ? transport : "any", algorithm ? algorithm : "any",
                     own->served_transport ? own->served_transport : "none", own->served_algorithm ? own->served_algorithm : "none");
}

muster_status case_member_run(const case_member *member, const matrix_case *c, int32_t root) {
    if (c->kind == CASE_BARRIER) return run_barrier(member, c);
    case_run s = aim(member, c, root);
    muster_tensor input, output;
    MUSTER_TRY(prepare(member, &s, &input, &output));
    MUSTER_TRY(enter(member, &s, input, output));
    MUSTER_TRY(check_server(member, &s));
    return check(member, &s);
}
