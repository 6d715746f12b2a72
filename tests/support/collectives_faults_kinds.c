/* What a rank enters, for each kind of collective, and what it must get. */
#include "collectives_faults_kinds.h"

#include <math.h>

double faults_value(const faults_member *s, int32_t rank, int64_t i) {
    return (double)((i * 7 + rank * 5 + s->call.salt * 3 + i / 97) % 5 + 1);
}

static double combined(const faults_member *s, int32_t first, int32_t stride, int64_t i) {
    double result = faults_value(s, first, i);
    int32_t number = 1;
    for (int32_t r = first + stride; r < s->size; r += stride, number++) {
        double next = faults_value(s, r, i);
        switch (s->call.op) {
        case MUSTER_PROD:
            result *= next;
            break;
        case MUSTER_MAX:
            result = fmax(result, next);
            break;
        case MUSTER_MIN:
            result = fmin(result, next);
            break;
        default:
            result += next;
        }
    }
    return s->call.op == MUSTER_AVG ? result / number : result;
}

static muster_tensor part_of(muster_tensor tensor, int64_t begin, int64_t count) {
    return muster_tensor_slice(tensor, begin, begin + count);
}

static int64_t sum_below(const faults_member *s, int64_t (*part)(const faults_member *, int32_t), int32_t rank) {
    int64_t sum = 0;
    for (int32_t r = 0; r < rank; r++) sum += part(s, r);
    return sum;
}
static int64_t even(const faults_member *s, int32_t rank) { return (void)rank, s->call.count; }
static int64_t uneven(const faults_member *s, int32_t rank) { return s->call.count + rank; }

/* Which rank's part element *i lies in; *i becomes its place in there. */
static int32_t owner(const faults_member *s, int64_t (*part)(const faults_member *, int32_t), int64_t *i) {
    int32_t rank = 0;
    for (; rank < s->size - 1 && *i >= part(s, rank); rank++) *i -= part(s, rank);
    return rank;
}

static int64_t with_extra(const faults_member *s) { return s->call.count + s->call.extra; }
static bool is_root(const faults_member *s) { return s->rank == s->call.root; }

/* The collectives proper. "inputs" and "outputs" of ranks that have none are no tensors at all, as
 * the interface allows. */
static muster_status all_reduce(faults_member *s) {
    return muster_worker_all_reduce(s->worker, s->communicator, s->call.op, s->input, s->output);
}
static double all_reduced(const faults_member *s, int64_t i) { return combined(s, 0, 1, i); }

static int64_t shards_of(int32_t rank) { return 1 + rank % 2; }
static int64_t shard_inputs(const faults_member *s) { return shards_of(s->rank) * with_extra(s); }
static muster_status all_reduce_shards(faults_member *s) {
    muster_tensor input = muster_tensor_reshape(s->input, 2, (const int64_t[]){shards_of(s->rank), with_extra(s)});
    return muster_worker_all_reduce_shards(s->worker, s->communicator, s->call.op, input, s->output);
}
static double shards_reduced(const faults_member *s, int64_t i) {
    double result = 0;
    int64_t number = 0;
    for (int32_t r = 0; r < s->size; r++) {
        for (int64_t shard = 0; shard < shards_of(r); shard++, number++) {
            double next = faults_value(s, r, shard * s->call.count + i);
            if (number == 0)
                result = next;
            else if (s->call.op == MUSTER_PROD)
                result *= next;
            else if (s->call.op == MUSTER_MAX)
                result = fmax(result, next);
            else if (s->call.op == MUSTER_MIN)
                result = fmin(result, next);
            else
                result += next;
        }
    }
    return s->call.op == MUSTER_AVG ? result / (double)number : result;
}

double faults_parameter(int64_t i) { return (double)(i % 4); }
/* The op of an axpy is always a sum: another "op" is another alpha. */
static muster_status axpy(faults_member *s) {
    return muster_worker_all_reduce_axpy(s->worker, s->communicator, s->call.op == MUSTER_SUM ? 2 : 3, s->input, s->output);
}
static double axpy_done(const faults_member *s, int64_t i) { return faults_parameter(i) + 2 * combined(s, 0, 1, i); }

static int64_t root_with_extra(const faults_member *s) { return is_root(s) ? with_extra(s) : 0; }
static muster_status reduce(faults_member *s) {
    return muster_worker_reduce(s->worker, s->communicator, s->call.op, s->call.root, s->input, s->output);
}
static muster_status broadcast(faults_member *s) {
    return muster_worker_broadcast(s->worker, s->communicator, s->call.root, s->input, s->output);
}
static double broadcasted(const faults_member *s, int64_t i) { return faults_value(s, s->call.root, i); }

static int64_t whole_even(const faults_member *s) { return s->size * with_extra(s); }
static int64_t whole_uneven(const faults_member *s) { return sum_below(s, uneven, s->size); }
static int64_t own_uneven(const faults_member *s) { return uneven(s, s->rank) + s->call.extra; }
static int64_t root_whole(const faults_member *s) { return is_root(s) ? whole_uneven(s) : 0; }
static muster_status all_gather(faults_member *s) { return muster_worker_all_gather(s->worker, s->communicator, s->input, s->output); }
static muster_status gather(faults_member *s) {
    return muster_worker_gather(s->worker, s->communicator, s->call.root, s->input, s->output);
}
static double gathered_even(const faults_member *s, int64_t i) {
    int32_t from = owner(s, even, &i);
    return faults_value(s, from, i);
}
static double gathered_uneven(const faults_member *s, int64_t i) {
    int32_t from = owner(s, uneven, &i);
    return faults_value(s, from, i);
}

static muster_status scatter(faults_member *s) {
    return muster_worker_scatter(s->worker, s->communicator, s->call.root, s->input, s->output);
}
static double scattered(const faults_member *s, int64_t i) { return faults_value(s, s->call.root, sum_below(s, uneven, s->rank) + i); }

static int64_t whole_with_extra(const faults_member *s) { return whole_uneven(s) + s->call.extra; }
static int64_t own_exactly(const faults_member *s) { return uneven(s, s->rank); }
static muster_status reduce_scatter(faults_member *s) {
    return muster_worker_reduce_scatter(s->worker, s->communicator, s->call.op, s->input, s->output);
}
static double reduced_part(const faults_member *s, int64_t i) { return combined(s, 0, 1, sum_below(s, uneven, s->rank) + i); }

static muster_status all_to_all(faults_member *s) { return muster_worker_all_to_all(s->worker, s->communicator, s->input, s->output); }
static double exchanged(const faults_member *s, int64_t i) {
    int32_t from = owner(s, even, &i);
    return faults_value(s, from, s->rank * s->call.count + i);
}

static int64_t block_of(const faults_member *s, int32_t from, int32_t to) { return s->call.count + (from + 2 * to) % 3; }
static int64_t blocks_out(const faults_member *s) {
    int64_t sum = s->call.extra;
    for (int32_t to = 0; to < s->size; to++) sum += block_of(s, s->rank, to);
    return sum;
}
static int64_t blocks_in(const faults_member *s) {
    int64_t sum = 0;
    for (int32_t from = 0; from < s->size; from++) sum += block_of(s, from, s->rank);
    return sum;
}
static muster_status all_to_all_uneven(faults_member *s) {
    int64_t out[FAULTS_RANKS], in[FAULTS_RANKS];
    for (int32_t r = 0; r < s->size; r++) {
        out[r] = block_of(s, s->rank, r);
        in[r] = block_of(s, r, s->rank);
    }
    out[0] += s->call.extra;
    return muster_worker_all_to_all_uneven(s->worker, s->communicator, s->input, out, s->output, in);
}
static double exchanged_uneven(const faults_member *s, int64_t i) {
    int32_t from = 0;
    for (; i >= block_of(s, from, s->rank); from++) i -= block_of(s, from, s->rank);
    int64_t before = 0;
    for (int32_t to = 0; to < s->rank; to++) before += block_of(s, from, to);
    return faults_value(s, from, before + i);
}

static muster_status barrier(faults_member *s) { return muster_worker_barrier(s->worker, s->communicator); }

/* Also a member of an aborted run gives its part back. */
static muster_status split(faults_member *s) {
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(s->worker, s->communicator, s->rank % 2, -s->rank, &part));
    muster_status status = muster_worker_all_reduce(s->worker, part, s->call.op, s->input, s->output);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    muster_status released = muster_worker_release(s->worker, part);
    return status == MUSTER_OK ? released : mst_error_restore(status, message);
}
static double reduced_in_part(const faults_member *s, int64_t i) { return combined(s, s->rank % 2, 2, i); }

static int64_t group_outputs(const faults_member *s) { return (2 + s->size) * with_extra(s); }
static muster_status noted(faults_member *s) {
    int64_t n = with_extra(s);
    MUSTER_TRY(muster_worker_all_reduce(s->worker, s->communicator, s->call.op, s->input, part_of(s->output, 0, n)));
    MUSTER_TRY(muster_worker_broadcast(s->worker, s->communicator, s->call.root, s->input, part_of(s->output, n, n)));
    return muster_worker_all_gather(s->worker, s->communicator, s->input, part_of(s->output, 2 * n, s->size * n));
}
static muster_status group(faults_member *s) {
    MUSTER_TRY(muster_worker_group_begin(s->worker, s->communicator));
    MUSTER_TRY(noted(s));
    return muster_worker_group_end(s->worker, s->communicator);
}
static double grouped(const faults_member *s, int64_t i) {
    int64_t n = s->call.count;
    if (i < n) return all_reduced(s, i);
    return i < 2 * n ? broadcasted(s, i - n) : gathered_even(s, i - 2 * n);
}

static int32_t before(const faults_member *s) { return (s->rank + s->size - 1) % s->size; }
static int32_t after(const faults_member *s) {
    bool wrong_peer = s->at_fault && s->plan->fault == FAULT_ROOT;
    return (s->rank + (wrong_peer ? 2 : 1)) % s->size;
}
static int32_t tag_of(const faults_member *s) { return 100 + s->call.salt; }
static muster_status send(faults_member *s) { return muster_worker_send(s->worker, s->communicator, after(s), tag_of(s), s->input); }
static muster_status receive(faults_member *s) { return muster_worker_recv(s->worker, s->communicator, before(s), tag_of(s), s->output); }
static muster_status messages(faults_member *s) {
    if (s->rank == 0) MUSTER_TRY(send(s));
    MUSTER_TRY(receive(s));
    return s->rank == 0 ? MUSTER_OK : send(s);
}
static muster_status ring(faults_member *s) {
    MUSTER_TRY(muster_worker_group_begin(s->worker, s->communicator));
    MUSTER_TRY(send(s));
    MUSTER_TRY(receive(s));
    return muster_worker_group_end(s->worker, s->communicator);
}
static int64_t without_extra(const faults_member *s) { return s->call.count; }
static double received(const faults_member *s, int64_t i) { return faults_value(s, before(s), i); }

const faults_row faults_rows[FAULTS_KINDS] = {
    [FAULTS_ALL_REDUCE] = {"all_reduce", with_extra, with_extra, all_reduce, all_reduced, true, false},
    [FAULTS_ALL_REDUCE_SHARDS] = {"all_reduce_shards", shard_inputs, with_extra, all_reduce_shards, shards_reduced, true, false},
    [FAULTS_ALL_REDUCE_AXPY] = {"all_reduce_axpy", with_extra, with_extra, axpy, axpy_done, true, false},
    [FAULTS_REDUCE] = {"reduce", with_extra, root_with_extra, reduce, all_reduced, true, true},
    [FAULTS_BROADCAST] = {"broadcast", root_with_extra, with_extra, broadcast, broadcasted, false, true},
    [FAULTS_ALL_GATHER] = {"all_gather", with_extra, whole_even, all_gather, gathered_even, false, false},
    [FAULTS_ALL_GATHER_UNEVEN] = {"all_gather uneven", own_uneven, whole_uneven, all_gather, gathered_uneven, false, false},
    [FAULTS_GATHER] = {"gather", own_uneven, root_whole, gather, gathered_uneven, false, true},
    [FAULTS_SCATTER] = {"scatter", root_whole, own_uneven, scatter, scattered, false, true},
    [FAULTS_REDUCE_SCATTER] = {"reduce_scatter", whole_with_extra, own_exactly, reduce_scatter, reduced_part, true, false},
    [FAULTS_ALL_TO_ALL] = {"all_to_all", whole_even, whole_even, all_to_all, exchanged, false, false},
    [FAULTS_ALL_TO_ALL_UNEVEN] = {"all_to_all uneven", blocks_out, blocks_in, all_to_all_uneven, exchanged_uneven, false, false},
    [FAULTS_BARRIER] = {"barrier", NULL, NULL, barrier, NULL, false, false},
    [FAULTS_SPLIT] = {"split", with_extra, with_extra, split, reduced_in_part, false, false},
    [FAULTS_GROUP] = {"group", with_extra, group_outputs, group, grouped, true, true},
    [FAULTS_MESSAGES] = {"messages", with_extra, without_extra, messages, received, false, true},
    [FAULTS_RING] = {"ring", with_extra, without_extra, ring, received, false, true},
};

const char *faults_kind_name(faults_kind kind) { return faults_rows[kind].name; }
bool faults_reduces(faults_kind kind) { return faults_rows[kind].reduces; }
bool faults_rooted(faults_kind kind) { return faults_rows[kind].rooted; }
bool faults_sends(faults_kind kind) { return kind == FAULTS_MESSAGES || kind == FAULTS_RING; }

const char *faults_fault_name(faults_fault fault) {
    static const char *const names[FAULTS] = {"none", "fails", "returns", "away",  "count",  "dtype",
                                              "op",   "root",  "order",   "other", "memory", "delays"};
    return names[fault];
}

const char *faults_excuse(faults_kind kind, faults_fault fault) {
    if (fault == FAULT_MEMORY && faults_joint()) return "the k-th allocation of a process is not that of the others";
    bool split = kind == FAULTS_SPLIT, bare = split || kind == FAULTS_BARRIER;
    if (fault == FAULT_OP && !faults_rows[kind].reduces) return split ? "its colors and keys may differ" : "has no op";
    if (fault == FAULT_ROOT && !faults_rows[kind].rooted) return split ? "its colors and keys may differ" : "has no root";
    if ((fault == FAULT_COUNT || fault == FAULT_DTYPE) && bare) return split ? "its colors and keys may differ" : "carries no elements";
    return NULL;
}
