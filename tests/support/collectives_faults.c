/* What one rank does in a run: it enters collectives and compares what it gets, and one rank of the run does something wrong. */
#include "collectives_faults.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- chance and delays ---- */

uint32_t faults_random(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

static void nap(int64_t ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

static void dawdle(uint64_t *state) {
    switch (faults_random(state, 8)) {
    case 0: nap(1000 * (int64_t)faults_random(state, 100)); break;
    case 1: case 2: sched_yield(); break;
    case 3: for (uint32_t i = faults_random(state, 2000); i > 0; i--) mst_pause(); break;
    default: break;
    }
}

static faults_plan *_Atomic running; /* for the hook */

/* Every wait of a worker comes by here. With a failing allocation, the rank at fault lets the others go once it waits for them: what it allocates
 * before is what it allocates by itself. */
static void hook(void) {
    static _Thread_local uint64_t state, seeded;
    const muster_worker *worker = mst_current_worker();
    faults_plan *plan = atomic_load(&running);
    if (!worker || !plan) return;
    bool armed = plan->fault == FAULT_MEMORY && worker->rank == plan->rank && atomic_load(&plan->ready) == plan->size;
    if (armed) atomic_store(&plan->go, 1);
    if (!plan->delays) return;
    if (seeded != plan->delays) state = (seeded = plan->delays) + (uint64_t)worker->rank * 0x9E3779B97F4A7C15u;
    dawdle(&state);
}

void faults_install_hook(void) { mst_gate_test_hook = hook; }

/* ---- one collective on one rank ---- */

typedef struct seat {
    muster_worker *worker;
    muster_communicator *communicator;
    faults_plan *plan;
    faults_call call;
    int32_t rank, size; /* in the communicator */
    bool at_fault;      /* this rank, in this step */
    muster_tensor input, output;
} seat;

typedef struct kind_row {
    const char *name;
    int64_t (*inputs)(const seat *), (*outputs)(const seat *); /* elements; NULL: none */
    muster_status (*enter)(seat *);
    double (*expected)(const seat *, int64_t i); /* element i of the output */
    bool reduces, rooted;
} kind_row;

static double value(const seat *s, int32_t rank, int64_t i) { return (double)((i * 7 + rank * 5 + s->call.salt * 3 + i / 97) % 5 + 1); }

static double combined(const seat *s, int32_t first, int32_t stride, int64_t i) {
    double result = value(s, first, i);
    int32_t number = 1;
    for (int32_t r = first + stride; r < s->size; r += stride, number++) {
        double next = value(s, r, i);
        switch (s->call.op) {
        case MUSTER_PROD: result *= next; break;
        case MUSTER_MAX: result = fmax(result, next); break;
        case MUSTER_MIN: result = fmin(result, next); break;
        default: result += next;
        }
    }
    return s->call.op == MUSTER_AVG ? result / number : result;
}

static muster_tensor part_of(muster_tensor tensor, int64_t begin, int64_t count) { return muster_tensor_slice(tensor, begin, begin + count); }

static int64_t sum_below(const seat *s, int64_t (*part)(const seat *, int32_t), int32_t rank) {
    int64_t sum = 0;
    for (int32_t r = 0; r < rank; r++) sum += part(s, r);
    return sum;
}
static int64_t even(const seat *s, int32_t rank) { return (void)rank, s->call.count; }
static int64_t uneven(const seat *s, int32_t rank) { return s->call.count + rank; }

/* Which rank's part element *i lies in; *i becomes its place in there. */
static int32_t owner(const seat *s, int64_t (*part)(const seat *, int32_t), int64_t *i) {
    int32_t rank = 0;
    for (; rank < s->size - 1 && *i >= part(s, rank); rank++) *i -= part(s, rank);
    return rank;
}

static int64_t with_extra(const seat *s) { return s->call.count + s->call.extra; }
static bool is_root(const seat *s) { return s->rank == s->call.root; }

/* The collectives proper. "inputs" and "outputs" of ranks that have none are no tensors at all, as the interface allows. */
static muster_status all_reduce(seat *s) { return muster_worker_all_reduce(s->worker, s->communicator, s->call.op, s->input, s->output); }
static double all_reduced(const seat *s, int64_t i) { return combined(s, 0, 1, i); }

static int64_t shards_of(int32_t rank) { return 1 + rank % 2; }
static int64_t shard_inputs(const seat *s) { return shards_of(s->rank) * with_extra(s); }
static muster_status all_reduce_shards(seat *s) {
    muster_tensor input = muster_tensor_reshape(s->input, 2, (const int64_t[]){shards_of(s->rank), with_extra(s)});
    return muster_worker_all_reduce_shards(s->worker, s->communicator, s->call.op, input, s->output);
}
static double shards_reduced(const seat *s, int64_t i) {
    double result = 0;
    int64_t number = 0;
    for (int32_t r = 0; r < s->size; r++) {
        for (int64_t shard = 0; shard < shards_of(r); shard++, number++) {
            double next = value(s, r, shard * s->call.count + i);
            if (number == 0) result = next;
            else if (s->call.op == MUSTER_PROD) result *= next;
            else if (s->call.op == MUSTER_MAX) result = fmax(result, next);
            else if (s->call.op == MUSTER_MIN) result = fmin(result, next);
            else result += next;
        }
    }
    return s->call.op == MUSTER_AVG ? result / (double)number : result;
}

static double parameter(int64_t i) { return (double)(i % 4); }
/* The op of an axpy is always a sum: another "op" is another alpha. */
static muster_status axpy(seat *s) { return muster_worker_all_reduce_axpy(s->worker, s->communicator, s->call.op == MUSTER_SUM ? 2 : 3, s->input, s->output); }
static double axpy_done(const seat *s, int64_t i) { return parameter(i) + 2 * combined(s, 0, 1, i); }

static int64_t root_with_extra(const seat *s) { return is_root(s) ? with_extra(s) : 0; }
static muster_status reduce(seat *s) { return muster_worker_reduce(s->worker, s->communicator, s->call.op, s->call.root, s->input, s->output); }
static muster_status broadcast(seat *s) { return muster_worker_broadcast(s->worker, s->communicator, s->call.root, s->input, s->output); }
static double broadcasted(const seat *s, int64_t i) { return value(s, s->call.root, i); }

static int64_t whole_even(const seat *s) { return s->size * with_extra(s); }
static int64_t whole_uneven(const seat *s) { return sum_below(s, uneven, s->size); }
static int64_t own_uneven(const seat *s) { return uneven(s, s->rank) + s->call.extra; }
static int64_t root_whole(const seat *s) { return is_root(s) ? whole_uneven(s) : 0; }
static muster_status all_gather(seat *s) { return muster_worker_all_gather(s->worker, s->communicator, s->input, s->output); }
static muster_status gather(seat *s) { return muster_worker_gather(s->worker, s->communicator, s->call.root, s->input, s->output); }
static double gathered_even(const seat *s, int64_t i) {
    int32_t from = owner(s, even, &i);
    return value(s, from, i);
}
static double gathered_uneven(const seat *s, int64_t i) {
    int32_t from = owner(s, uneven, &i);
    return value(s, from, i);
}

static muster_status scatter(seat *s) { return muster_worker_scatter(s->worker, s->communicator, s->call.root, s->input, s->output); }
static double scattered(const seat *s, int64_t i) { return value(s, s->call.root, sum_below(s, uneven, s->rank) + i); }

static int64_t whole_with_extra(const seat *s) { return whole_uneven(s) + s->call.extra; }
static int64_t own_exactly(const seat *s) { return uneven(s, s->rank); }
static muster_status reduce_scatter(seat *s) { return muster_worker_reduce_scatter(s->worker, s->communicator, s->call.op, s->input, s->output); }
static double reduced_part(const seat *s, int64_t i) { return combined(s, 0, 1, sum_below(s, uneven, s->rank) + i); }

static muster_status all_to_all(seat *s) { return muster_worker_all_to_all(s->worker, s->communicator, s->input, s->output); }
static double exchanged(const seat *s, int64_t i) {
    int32_t from = owner(s, even, &i);
    return value(s, from, s->rank * s->call.count + i);
}

static int64_t parcel(const seat *s, int32_t from, int32_t to) { return s->call.count + (from + 2 * to) % 3; }
static int64_t parcels_out(const seat *s) {
    int64_t sum = s->call.extra;
    for (int32_t to = 0; to < s->size; to++) sum += parcel(s, s->rank, to);
    return sum;
}
static int64_t parcels_in(const seat *s) {
    int64_t sum = 0;
    for (int32_t from = 0; from < s->size; from++) sum += parcel(s, from, s->rank);
    return sum;
}
static muster_status all_to_all_uneven(seat *s) {
    int64_t out[FAULTS_RANKS], in[FAULTS_RANKS];
    for (int32_t r = 0; r < s->size; r++) {
        out[r] = parcel(s, s->rank, r);
        in[r] = parcel(s, r, s->rank);
    }
    out[0] += s->call.extra;
    return muster_worker_all_to_all_uneven(s->worker, s->communicator, s->input, out, s->output, in);
}
static double exchanged_uneven(const seat *s, int64_t i) {
    int32_t from = 0;
    for (; i >= parcel(s, from, s->rank); from++) i -= parcel(s, from, s->rank);
    int64_t before = 0;
    for (int32_t to = 0; to < s->rank; to++) before += parcel(s, from, to);
    return value(s, from, before + i);
}

static muster_status barrier(seat *s) { return muster_worker_barrier(s->worker, s->communicator); }

/* Also a member of a lost run gives its part back. */
static muster_status split(seat *s) {
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(s->worker, s->communicator, s->rank % 2, -s->rank, &part));
    muster_status status = muster_worker_all_reduce(s->worker, part, s->call.op, s->input, s->output);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    muster_status released = muster_worker_release(s->worker, part);
    return status == MUSTER_OK ? released : mst_error_restore(status, message);
}
static double reduced_in_part(const seat *s, int64_t i) { return combined(s, s->rank % 2, 2, i); }

static int64_t group_outputs(const seat *s) { return (2 + s->size) * with_extra(s); }
static muster_status noted(seat *s) {
    int64_t n = with_extra(s);
    MUSTER_TRY(muster_worker_all_reduce(s->worker, s->communicator, s->call.op, s->input, part_of(s->output, 0, n)));
    MUSTER_TRY(muster_worker_broadcast(s->worker, s->communicator, s->call.root, s->input, part_of(s->output, n, n)));
    return muster_worker_all_gather(s->worker, s->communicator, s->input, part_of(s->output, 2 * n, s->size * n));
}
static muster_status group(seat *s) {
    MUSTER_TRY(muster_worker_group_begin(s->worker, s->communicator));
    MUSTER_TRY(noted(s));
    return muster_worker_group_end(s->worker, s->communicator);
}
static double grouped(const seat *s, int64_t i) {
    int64_t n = s->call.count;
    if (i < n) return all_reduced(s, i);
    return i < 2 * n ? broadcasted(s, i - n) : gathered_even(s, i - 2 * n);
}

static int32_t before(const seat *s) { return (s->rank + s->size - 1) % s->size; }
static int32_t after(const seat *s) {
    bool wrong_peer = s->at_fault && s->plan->fault == FAULT_ROOT;
    return (s->rank + (wrong_peer ? 2 : 1)) % s->size;
}
static int32_t tag_of(const seat *s) { return 100 + s->call.salt; }
static muster_status send(seat *s) { return muster_worker_send(s->worker, s->communicator, after(s), tag_of(s), s->input); }
static muster_status receive(seat *s) { return muster_worker_recv(s->worker, s->communicator, before(s), tag_of(s), s->output); }
static muster_status messages(seat *s) {
    if (s->rank == 0) MUSTER_TRY(send(s));
    MUSTER_TRY(receive(s));
    return s->rank == 0 ? MUSTER_OK : send(s);
}
static muster_status ring(seat *s) {
    MUSTER_TRY(muster_worker_group_begin(s->worker, s->communicator));
    MUSTER_TRY(send(s));
    MUSTER_TRY(receive(s));
    return muster_worker_group_end(s->worker, s->communicator);
}
static int64_t without_extra(const seat *s) { return s->call.count; }
static double received(const seat *s, int64_t i) { return value(s, before(s), i); }

static const kind_row rows[FAULTS_KINDS] = {
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
    [FAULTS_ALL_TO_ALL_UNEVEN] = {"all_to_all uneven", parcels_out, parcels_in, all_to_all_uneven, exchanged_uneven, false, false},
    [FAULTS_BARRIER] = {"barrier", NULL, NULL, barrier, NULL, false, false},
    [FAULTS_SPLIT] = {"split", with_extra, with_extra, split, reduced_in_part, false, false},
    [FAULTS_GROUP] = {"group", with_extra, group_outputs, group, grouped, true, true},
    [FAULTS_MESSAGES] = {"messages", with_extra, without_extra, messages, received, false, true},
    [FAULTS_RING] = {"ring", with_extra, without_extra, ring, received, false, true},
};

const char *faults_kind_name(faults_kind kind) { return rows[kind].name; }
bool faults_reduces(faults_kind kind) { return rows[kind].reduces; }
bool faults_rooted(faults_kind kind) { return rows[kind].rooted; }
bool faults_sends(faults_kind kind) { return kind == FAULTS_MESSAGES || kind == FAULTS_RING; }

const char *faults_fault_name(faults_fault fault) {
    static const char *const names[FAULTS] = {"none", "fails", "returns", "away", "count", "dtype", "op", "root", "order", "other", "memory", "delays"};
    return names[fault];
}

const char *faults_excuse(faults_kind kind, faults_fault fault) {
    bool bare = kind == FAULTS_BARRIER || kind == FAULTS_SPLIT;
    if (fault == FAULT_OP && !rows[kind].reduces) return "has no op, or (split) one that only a part has to agree on";
    if (fault == FAULT_ROOT && !rows[kind].rooted) return "has no root, or (split) colors that every rank chooses for itself";
    if ((fault == FAULT_COUNT || fault == FAULT_DTYPE) && bare) return "carries no elements";
    return NULL;
}

/* ---- tensors ---- */

static void put(muster_dtype dtype, void *memory, int64_t i, double number) {
    switch (dtype) {
    case MUSTER_F32: ((float *)memory)[i] = (float)number; break;
    case MUSTER_F64: ((double *)memory)[i] = number; break;
    case MUSTER_I32: ((int32_t *)memory)[i] = (int32_t)number; break;
    default: ((int64_t *)memory)[i] = (int64_t)number;
    }
}

static double take(muster_dtype dtype, const void *memory, int64_t i) {
    switch (dtype) {
    case MUSTER_F32: return ((const float *)memory)[i];
    case MUSTER_F64: return ((const double *)memory)[i];
    case MUSTER_I32: return ((const int32_t *)memory)[i];
    default: return (double)((const int64_t *)memory)[i];
    }
}

static double *host_memory(int32_t rank) {
    static double memory[FAULTS_RANKS][FAULTS_ELEMENTS];
    return memory[rank];
}

static muster_status make_tensor(const seat *s, int64_t count, bool is_input, muster_tensor *tensor) {
    void *host = host_memory(s->worker->rank);
    bool parameters = !is_input && s->call.kind == FAULTS_ALL_REDUCE_AXPY;
    *tensor = muster_worker_scratch(s->worker, s->call.dtype, 1, &count);
    if (tensor->dtype == MUSTER_DTYPE_NONE) return s->worker->scratch_status;
    for (int64_t i = 0; i < count; i++) put(s->call.dtype, host, i, is_input ? value(s, s->rank, i) : parameters ? parameter(i) : -7);
    return muster_worker_write(s->worker, muster_tensor_make(s->call.dtype, host, 1, &count), *tensor);
}

static int64_t elements(const seat *s, int64_t (*number)(const seat *)) { return number ? number(s) : 0; }
static bool has_input(const seat *s) {
    return rows[s->call.kind].inputs && (is_root(s) || (s->call.kind != FAULTS_BROADCAST && s->call.kind != FAULTS_SCATTER));
}
static bool has_output(const seat *s) {
    return rows[s->call.kind].outputs && (is_root(s) || (s->call.kind != FAULTS_REDUCE && s->call.kind != FAULTS_GATHER));
}

static muster_status make_tensors(seat *s) {
    const kind_row *row = &rows[s->call.kind];
    s->input = s->output = muster_tensor_none();
    if (has_input(s)) MUSTER_TRY(make_tensor(s, elements(s, row->inputs), true, &s->input));
    if (has_output(s)) MUSTER_TRY(make_tensor(s, elements(s, row->outputs), false, &s->output));
    return MUSTER_OK;
}

static muster_status compare(const seat *s) {
    const kind_row *row = &rows[s->call.kind];
    if (!has_output(s)) return MUSTER_OK;
    faults_outcome *outcome = &s->plan->outcomes[s->worker->rank];
    int64_t count = row->outputs(s);
    void *host = host_memory(s->worker->rank);
    MUSTER_TRY(muster_worker_read(s->worker, s->output, muster_tensor_make(s->call.dtype, host, 1, &count)));
    for (int64_t i = 0; i < count; i++) {
        double got = take(s->call.dtype, host, i), wanted = row->expected(s, i);
        if (fabs(got - wanted) <= (s->call.op == MUSTER_AVG ? 1e-5 * wanted : 0)) continue;
        outcome->wrong = true;
        snprintf(outcome->message, sizeof outcome->message, "%s: rank %d: element %lld of %lld is %g, not %g", row->name, s->rank, (long long)i, (long long)count, got, wanted);
        return MUSTER_OK;
    }
    return MUSTER_OK;
}

/* ---- one step ---- */

/* With a failing allocation the rank at fault allocates alone until it waits for the others. */
static void take_turns(const seat *s) {
    faults_plan *plan = s->plan;
    bool by_fault = s->worker->rank == plan->rank;
    if (plan->fault == FAULT_STAYS_AWAY || plan->fault == FAULT_MEMORY) atomic_fetch_add(&plan->ready, 1);
    if (plan->fault != FAULT_MEMORY) return;
    while (by_fault ? atomic_load(&plan->ready) < plan->size : !atomic_load(&plan->go)) nap(20000);
    if (!by_fault) return;
    plan->allocations = mst_memory_count();
    mst_memory_fail_at(plan->allocation);
}

static muster_status enter(seat *s, bool fault_here) {
    MUSTER_TRY(make_tensors(s));
    if (fault_here) take_turns(s);
    muster_status status = rows[s->call.kind].enter(s);
    if (fault_here && s->at_fault) atomic_store(&s->plan->go, 1);
    MUSTER_TRY(status);
    return compare(s);
}

static faults_call other_call(faults_call call) {
    call.kind = call.kind == FAULTS_BARRIER ? FAULTS_ALL_REDUCE : FAULTS_BARRIER;
    return call;
}

/* What the rank at fault asks for. */
static faults_call twisted(const faults_plan *plan) {
    faults_call call = plan->calls[plan->step];
    switch (plan->fault) {
    case FAULT_COUNT: call.extra = call.kind == FAULTS_ALL_TO_ALL ? plan->size : 1; break;
    case FAULT_DTYPE: call.dtype = call.dtype == MUSTER_F32 ? MUSTER_F64 : MUSTER_F32; break;
    case FAULT_OP: call.op = call.op == MUSTER_MAX ? MUSTER_SUM : MUSTER_MAX; break;
    case FAULT_ROOT: call.root = (call.root + 1) % plan->size; break;
    case FAULT_OTHER: return other_call(call);
    default: break;
    }
    return call;
}

static muster_status stay_away(seat *s) {
    atomic_int *ready = &s->plan->ready;
    while (atomic_load(ready) < s->size - 1 && !muster_worker_cancelled(s->worker)) nap(100000);
    while (!muster_worker_cancelled(s->worker)) nap(4000000);
    return MUSTER_OK;
}

static muster_status step_at_fault(seat *s, bool *over) {
    const faults_plan *plan = s->plan;
    char words[64];
    s->at_fault = true;
    s->call = twisted(plan);
    switch (plan->fault) {
    case FAULT_FAILS:
        snprintf(words, sizeof words, "the dog of rank %d ate it", s->worker->rank);
        return muster_fail(MUSTER_USER, words);
    case FAULT_RETURNS: *over = true; return MUSTER_OK;
    case FAULT_STAYS_AWAY:
        MUSTER_TRY(stay_away(s));
        *over = !plan->late_entry;
        return plan->late_entry ? enter(s, false) : MUSTER_OK;
    default: return enter(s, true);
    }
}

/* Which step a rank takes as its i-th: the rank with the wrong order changes two of them. */
static int32_t step_of(const faults_plan *plan, int32_t rank, int32_t i) {
    if (plan->fault != FAULT_ORDER || rank != plan->rank) return i;
    return i == plan->step ? i + 1 : i == plan->step + 1 ? i - 1 : i;
}

static muster_status run_steps(seat *s) {
    faults_plan *plan = s->plan;
    faults_outcome *outcome = &plan->outcomes[s->worker->rank];
    uint64_t state = plan->delays + (uint64_t)s->worker->rank * 977;
    muster_status first = MUSTER_OK;
    bool over = false;
    for (int32_t i = 0; i < plan->steps && !over; i++) {
        if (plan->delays) dawdle(&state);
        s->call = plan->calls[step_of(plan, s->worker->rank, i)];
        s->at_fault = false;
        bool fault_here = plan->fault != FAULT_NONE && i == plan->step;
        muster_status status = fault_here && s->worker->rank == plan->rank ? step_at_fault(s, &over) : enter(s, fault_here);
        if (outcome->wrong) return mst_error(MUSTER_USER, "%s", outcome->message);
        if (status == MUSTER_OK) outcome->steps++;
        else if (first == MUSTER_OK) first = status;
        if (status != MUSTER_OK && !plan->stubborn) break;
    }
    return first;
}

static muster_status run_in_part(seat *s) {
    MUSTER_TRY(muster_worker_split(s->worker, NULL, 0, 0, &s->communicator));
    muster_status status = run_steps(s);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    MUSTER_TRY(muster_worker_release(s->worker, s->communicator));
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

static muster_status body(muster_worker *worker, void *argument) {
    faults_plan *plan = argument;
    faults_outcome *outcome = &plan->outcomes[worker->rank];
    seat s = {.worker = worker, .plan = plan, .rank = worker->rank, .size = plan->size};
    outcome->status = plan->through_part ? run_in_part(&s) : run_steps(&s);
    if (outcome->status != MUSTER_OK) mst_error_save(outcome->message);
    return outcome->status;
}

muster_status faults_run(mst_pool *pool, faults_plan *plan, int64_t fail_after_ns) {
    memset(plan->outcomes, 0, sizeof plan->outcomes);
    atomic_store(&plan->ready, 0);
    atomic_store(&plan->go, 0);
    MUSTER_TRY(mst_pool_enter(pool, "test", 0));
    mst_pool_set_deadlines(pool, 0, fail_after_ns);
    atomic_store(&running, plan);
    muster_status status = mst_pool_run(pool, body, plan);
    atomic_store(&running, NULL);
    mst_memory_fail_at(0);
    plan->allocations = mst_memory_count() - plan->allocations;
    mst_pool_leave(pool);
    return status;
}
