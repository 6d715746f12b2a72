#include "collectives_shot.h"

#include "base_check.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <math.h>

enum { GUARD = 64, FILL = 0xA5 };

/* One cell as one rank sees it. Byte offsets are in the arena; counts of -1: no tensor. */
typedef struct shot {
    const cell *c;
    int32_t rank, root;
    int64_t element, input_count, output_count, input_at, output_at;
    int64_t begin, end;                /* of what is written, between guards */
    int64_t velocity_at, velocity_end; /* the same of momentum */
    const char *given;                 /* the input's values */
} shot;

/* ---- who has which part ---- */

static bool is_uneven(const cell *c) {
    return c->kind == CELL_ALL_GATHER_UNEVEN || c->kind == CELL_GATHER_UNEVEN || c->kind == CELL_SCATTER_UNEVEN ||
           c->kind == CELL_REDUCE_SCATTER_UNEVEN || c->kind == CELL_ALL_TO_ALL_UNEVEN;
}

/* Where part r begins. Even parts are rounded up; of the uneven ones every third is empty. */
static int64_t edge(const cell *c, int32_t r) {
    int64_t count = cell_count(c), before = 0, all = 0;
    if (!is_uneven(c)) return (count + c->ranks - 1) / c->ranks * r;
    for (int32_t q = 0; q < c->ranks; q++) {
        int64_t share = (2 * q + 1) % 3;
        before += q < r ? share : 0;
        all += share;
    }
    return count * before / all;
}
static int64_t part(const cell *c, int32_t r) { return edge(c, r + 1) - edge(c, r); }
static int64_t total(const cell *c) { return edge(c, c->ranks); }

/* From rank to rank, for all_to_all: not the same both ways. */
static int64_t parcel(const cell *c, int32_t from, int32_t to) { return part(c, (to - from + c->ranks) % c->ranks); }
static int64_t parcel_offset(const cell *c, int32_t from, int32_t to) {
    int64_t offset = 0;
    for (int32_t r = 0; r < to; r++) offset += parcel(c, from, r);
    return offset;
}

/* One shard per rank on average, none on the last one of several. */
static int64_t shards(const cell *c, int32_t r) { return c->ranks == 1 ? 1 : r == 0 ? 2 : r == c->ranks - 1 ? 0 : 1; }
static int32_t first_shard(int32_t r) { return r == 0 ? 0 : r + 1; }

/* ---- one shot ---- */

static void set_counts(shot *s) {
    const cell *c = s->c;
    int64_t count = cell_count(c);
    bool root = s->rank == s->root;
    s->input_count = s->output_count = count;
    switch (c->kind) {
    case CELL_ALL_REDUCE_SHARDS:
        s->input_count = shards(c, s->rank) * count;
        break;
    case CELL_REDUCE:
        s->output_count = root ? count : -1;
        break;
    case CELL_BROADCAST:
        s->input_count = root ? count : -1;
        break;
    case CELL_ALL_GATHER:
    case CELL_ALL_GATHER_UNEVEN:
        s->input_count = part(c, s->rank), s->output_count = total(c);
        break;
    case CELL_GATHER:
    case CELL_GATHER_UNEVEN:
        s->input_count = part(c, s->rank), s->output_count = root ? total(c) : -1;
        break;
    case CELL_SCATTER:
    case CELL_SCATTER_UNEVEN:
        s->input_count = root ? total(c) : -1, s->output_count = part(c, s->rank);
        break;
    case CELL_REDUCE_SCATTER:
    case CELL_REDUCE_SCATTER_UNEVEN:
        s->input_count = total(c), s->output_count = part(c, s->rank);
        break;
    case CELL_ALL_TO_ALL:
    case CELL_ALL_TO_ALL_UNEVEN:
        s->input_count = s->output_count = total(c);
        break;
    default:
        break;
    }
}

static bool joins(const cell *c) { return c->kind >= CELL_ALL_GATHER && c->kind <= CELL_GATHER_UNEVEN; }
static bool deals(const cell *c) { return c->kind >= CELL_SCATTER && c->kind <= CELL_REDUCE_SCATTER_UNEVEN; }
static bool in_place(const shot *s) { return s->c->in_place && s->input_count >= 0 && s->output_count >= 0; }

static shot aim(const seat *seat, const cell *c, int32_t root) {
    shot s = {.c = c, .rank = muster_worker_rank(seat->worker), .root = root, .element = muster_dtype_size(c->dtype)};
    set_counts(&s);
    s.given = seat->batch->vectors[s.rank];
    /* Not only at the beginning of a line. */
    s.begin = seat->output_at + (c->count + c->algorithm) % 3 * s.element;
    s.output_at = s.begin;
    if (in_place(&s)) {
        int64_t offset = edge(c, s.rank) * s.element, larger = s.input_count > s.output_count ? s.input_count : s.output_count;
        s.input_at = s.begin + (joins(c) ? offset : 0);
        s.output_at = s.begin + (deals(c) ? offset : 0);
        s.end = s.begin + larger * s.element;
    } else {
        s.end = s.begin + (s.output_count > 0 ? s.output_count : 0) * s.element;
    }
    if (c->kind == CELL_ALL_REDUCE_MOMENTUM) {
        s.velocity_at = seat->velocity_at + (c->count + 2 * c->algorithm) % 3 * s.element;
        s.velocity_end = s.velocity_at + s.output_count * s.element;
    }
    return s;
}

static muster_tensor bytes_of(void *address, int64_t count) { return muster_tensor_make(MUSTER_U8, address, 1, &count); }

static muster_tensor tensor_at(const seat *seat, const shot *s, int64_t at, int64_t count) {
    if (count < 0) return muster_tensor_none();
    muster_tensor t = muster_tensor_make(s->c->dtype, seat->arena.data, 1, &count);
    t.byte_offset = seat->arena.byte_offset + at;
    t.device = seat->arena.device;
    return t;
}

static muster_tensor whole(const seat *seat, int64_t begin, int64_t end) { return muster_tensor_slice(seat->arena, begin, end); }

/* The input by itself: of the host the vector as it is, nothing copied. */
static muster_status separate_input(const seat *seat, shot *s, muster_tensor *input) {
    bool sharded = s->c->kind == CELL_ALL_REDUCE_SHARDS;
    *input = tensor_at(seat, s, 0, s->input_count);
    if (s->input_count < 0) return MUSTER_OK;
    int64_t bytes = s->input_count * s->element, vector = cell_count(s->c) * s->element;
    if (sharded) {
        int64_t of_rank = shards(s->c, s->rank), shape[] = {of_rank, cell_count(s->c)};
        for (int64_t i = 0; i < of_rank; i++)
            memcpy(seat->host + i * vector, seat->batch->vectors[first_shard(s->rank) + i], (size_t)vector);
        *input = muster_tensor_reshape(tensor_at(seat, s, 0, s->input_count), 2, shape);
    }
    if (seat->discrete)
        return muster_worker_write(seat->worker, bytes_of(sharded ? seat->host : (char *)s->given, bytes), whole(seat, 0, bytes));
    if (!sharded) *input = muster_tensor_make(s->c->dtype, (char *)s->given, 1, &s->input_count);
    return MUSTER_OK;
}

/* Bytes [begin, end) with their guards, from the copy to the device. */
static muster_status to_device(const seat *seat, int64_t begin, int64_t end) {
    if (!seat->discrete) return MUSTER_OK;
    return muster_worker_write(seat->worker, bytes_of(seat->host + begin - GUARD, end - begin + 2 * GUARD),
                               whole(seat, begin - GUARD, end + GUARD));
}

static muster_status from_device(const seat *seat, int64_t begin, int64_t end) {
    if (!seat->discrete) return MUSTER_OK;
    return muster_worker_read(seat->worker, whole(seat, begin - GUARD, end + GUARD),
                              bytes_of(seat->host + begin - GUARD, end - begin + 2 * GUARD));
}

static muster_status prepare_velocity(const seat *seat, const shot *s) {
    memset(seat->host + s->velocity_at - GUARD, FILL, (size_t)(s->velocity_end - s->velocity_at + 2 * GUARD));
    memset(seat->host + s->velocity_at, 0, (size_t)(s->velocity_end - s->velocity_at));
    return to_device(seat, s->velocity_at, s->velocity_end);
}

static muster_status prepare(const seat *seat, shot *s, muster_tensor *input, muster_tensor *output) {
    *output = tensor_at(seat, s, s->output_at, s->output_count);
    if (in_place(s))
        *input = tensor_at(seat, s, s->input_at, s->input_count);
    else
        MUSTER_TRY(separate_input(seat, s, input));
    memset(seat->host + s->begin - GUARD, FILL, (size_t)(s->end - s->begin + 2 * GUARD));
    if (in_place(s)) memcpy(seat->host + s->input_at, s->given, (size_t)(s->input_count * s->element));
    if (cell_updates(s->c)) memcpy(seat->host + s->output_at, seat->batch->vectors[CELL_RANKS], (size_t)(s->output_count * s->element));
    if (s->velocity_at > 0) MUSTER_TRY(prepare_velocity(seat, s));
    return to_device(seat, s->begin, s->end);
}

static muster_status exchange_uneven(const seat *seat, const shot *s, muster_communicator *communicator, muster_tensor input,
                                     muster_tensor output) {
    int64_t sent[CELL_RANKS], received[CELL_RANKS];
    for (int32_t r = 0; r < s->c->ranks; r++) {
        sent[r] = parcel(s->c, s->rank, r);
        received[r] = parcel(s->c, r, s->rank);
    }
    return muster_worker_all_to_all_uneven(seat->worker, communicator, input, sent, output, received);
}

static muster_status step(const seat *seat, const shot *s, muster_communicator *communicator, muster_tensor gradient,
                          muster_tensor parameter) {
    muster_tensor velocity = tensor_at(seat, s, s->velocity_at, s->output_count);
    for (int i = 0; i < SHOT_STEPS; i++) {
        MUSTER_TRY(muster_worker_all_reduce_momentum(seat->worker, communicator, SHOT_ALPHA, gradient, SHOT_BETA, velocity, parameter));
    }
    return MUSTER_OK;
}

static muster_status enter(const seat *seat, const shot *s, muster_tensor input, muster_tensor output) {
    muster_communicator *communicator = seat->batch->communicators[s->c->algorithm];
    muster_worker *w = seat->worker;
    switch (s->c->kind) {
    case CELL_ALL_REDUCE:
        return muster_worker_all_reduce(w, communicator, s->c->op, input, output);
    case CELL_ALL_REDUCE_SHARDS:
        return muster_worker_all_reduce_shards(w, communicator, s->c->op, input, output);
    case CELL_ALL_REDUCE_AXPY:
        return muster_worker_all_reduce_axpy(w, communicator, SHOT_ALPHA, input, output);
    case CELL_ALL_REDUCE_MOMENTUM:
        return step(seat, s, communicator, input, output);
    case CELL_REDUCE:
        return muster_worker_reduce(w, communicator, s->c->op, s->root, input, output);
    case CELL_BROADCAST:
        return muster_worker_broadcast(w, communicator, s->root, input, output);
    case CELL_ALL_GATHER:
    case CELL_ALL_GATHER_UNEVEN:
        return muster_worker_all_gather(w, communicator, input, output);
    case CELL_GATHER:
    case CELL_GATHER_UNEVEN:
        return muster_worker_gather(w, communicator, s->root, input, output);
    case CELL_SCATTER:
    case CELL_SCATTER_UNEVEN:
        return muster_worker_scatter(w, communicator, s->root, input, output);
    case CELL_REDUCE_SCATTER:
    case CELL_REDUCE_SCATTER_UNEVEN:
        return muster_worker_reduce_scatter(w, communicator, s->c->op, input, output);
    case CELL_ALL_TO_ALL:
        return muster_worker_all_to_all(w, communicator, input, output);
    default:
        return exchange_uneven(seat, s, communicator, input, output);
    }
}

/* ---- what must have come out ---- */

static muster_status wrong(const shot *s, const char *what, int64_t at) {
    char text[CELL_TEXT];
    return mst_error(MUSTER_USER, "%s, root %d: on rank %d %s, at byte %lld of its output", cell_text(s->c, text), s->root, s->rank, what,
                     (long long)at);
}

/* count elements of the output from `to` are those of `vector` from `from`. */
/* NCCL combines the values in an order of its own. Inputs are at most 2 in size. */
static bool near(const shot *s, const char *got, const char *want, int64_t count) {
    const double tolerance = s->c->dtype == MUSTER_F32 ? 1e-5 : 1e-13;
    for (int64_t i = 0; i < count; i++) {
        double a = oracle_value(s->c->dtype, got, i), b = oracle_value(s->c->dtype, want, i);
        if (!(fabs(a - b) <= tolerance * (2 * s->c->ranks + fabs(b)))) return false;
    }
    return true;
}

static bool any_order(const shot *s) {
    return collectives_devices() == COLLECTIVES_GPUS && cell_reduces(s->c) && !cell_updates(s->c) &&
           (s->c->dtype == MUSTER_F32 || s->c->dtype == MUSTER_F64);
}

static muster_status same(const seat *seat, const shot *s, int64_t to, const char *vector, int64_t from, int64_t count) {
    const char *got = seat->host + s->output_at + to * s->element, *want = vector + from * s->element;
    int64_t bytes = count * s->element, at = 0;
    if (memcmp(got, want, (size_t)bytes) == 0 || (any_order(s) && near(s, got, want, count))) return MUSTER_OK;
    while (got[at] == want[at]) at++;
    return wrong(s, "a value differs", to * s->element + at);
}

static muster_status check_joined(const seat *seat, const shot *s) {
    for (int32_t r = 0; r < s->c->ranks; r++) MUSTER_TRY(same(seat, s, edge(s->c, r), seat->batch->vectors[r], 0, part(s->c, r)));
    return MUSTER_OK;
}

static muster_status check_parcels(const seat *seat, const shot *s) {
    int64_t to = 0;
    for (int32_t r = 0; r < s->c->ranks; to += parcel(s->c, r, s->rank), r++) {
        MUSTER_TRY(same(seat, s, to, seat->batch->vectors[r], parcel_offset(s->c, r, s->rank), parcel(s->c, r, s->rank)));
    }
    return MUSTER_OK;
}

static muster_status check_values(const seat *seat, const shot *s) {
    const batch *b = seat->batch;
    int64_t count = s->output_count, offset = edge(s->c, s->rank);
    if (count < 0) return MUSTER_OK;
    switch (s->c->kind) {
    case CELL_ALL_REDUCE:
    case CELL_ALL_REDUCE_SHARDS:
    case CELL_REDUCE:
        return same(seat, s, 0, b->combined, 0, count);
    case CELL_ALL_REDUCE_AXPY:
        return same(seat, s, 0, b->updated, 0, count);
    case CELL_ALL_REDUCE_MOMENTUM:
        return same(seat, s, 0, b->stepped, 0, count);
    case CELL_BROADCAST:
        return same(seat, s, 0, b->vectors[s->root], 0, count);
    case CELL_SCATTER:
    case CELL_SCATTER_UNEVEN:
        return same(seat, s, 0, b->vectors[s->root], offset, count);
    case CELL_REDUCE_SCATTER:
    case CELL_REDUCE_SCATTER_UNEVEN:
        return same(seat, s, 0, b->combined, offset, count);
    case CELL_ALL_TO_ALL:
    case CELL_ALL_TO_ALL_UNEVEN:
        return check_parcels(seat, s);
    default:
        return check_joined(seat, s);
    }
}

static muster_status check_guards(const seat *seat, const shot *s, int64_t begin, int64_t end, const char *what) {
    for (int64_t i = 1; i <= GUARD; i++) {
        if ((unsigned char)seat->host[begin - i] != FILL || (unsigned char)seat->host[end + i - 1] != FILL) return wrong(s, what, -i);
    }
    return MUSTER_OK;
}

static muster_status check(const seat *seat, const shot *s) {
    MUSTER_TRY(from_device(seat, s->begin, s->end));
    MUSTER_TRY(check_guards(seat, s, s->begin, s->end, "memory beside it was written"));
    if (s->velocity_at > 0) {
        MUSTER_TRY(from_device(seat, s->velocity_at, s->velocity_end));
        MUSTER_TRY(check_guards(seat, s, s->velocity_at, s->velocity_end, "memory beside the velocity was written"));
    }
    return check_values(seat, s);
}

muster_status seat_take(seat *seat, muster_worker *worker, batch *b) {
    int64_t vector = b->length * muster_dtype_size(b->cells->dtype), input = 2 * vector, output = vector + SHOT_SLACK * 8 + 2 * GUARD,
            bytes = input + 2 * output;
    *seat = (struct seat){.worker = worker,
                          .batch = b,
                          .discrete = !mst_device_is_host(worker->device),
                          .output_at = input + GUARD,
                          .velocity_at = input + output + GUARD};
    seat->arena = muster_worker_scratch(worker, MUSTER_U8, 1, &bytes);
    if (seat->arena.dtype == MUSTER_DTYPE_NONE) return worker->scratch_status;
    seat->host = seat->discrete ? mst_alloc_uninitialised((size_t)bytes) : muster_tensor_address(seat->arena);
    return seat->host ? MUSTER_OK : mst_out_of_memory("test", bytes);
}

void seat_leave(seat *seat) {
    if (seat->discrete) mst_free(seat->host);
}

/* ---- all of it ---- */

/* Nobody passes before everybody has come. */
static muster_status run_barrier(const seat *seat, const cell *c) {
    batch *b = seat->batch;
    int32_t rank = muster_worker_rank(seat->worker);
    int64_t mine = atomic_fetch_add(&b->entered[rank], 1) + 1;
    MUSTER_TRY(muster_worker_barrier(seat->worker, b->communicators[c->algorithm]));
    for (int32_t r = 0; r < c->ranks; r++) {
        if (atomic_load(&b->entered[r]) < mine)
            return mst_error(MUSTER_USER, "barrier of %d ranks: rank %d passed before rank %d came", c->ranks, rank, r);
    }
    return MUSTER_OK;
}

muster_status seat_run(const seat *seat, const cell *c, int32_t root) {
    if (c->kind == CELL_BARRIER) return run_barrier(seat, c);
    shot s = aim(seat, c, root);
    muster_tensor input, output;
    MUSTER_TRY(prepare(seat, &s, &input, &output));
    MUSTER_TRY(enter(seat, &s, input, output));
    return check(seat, &s);
}
