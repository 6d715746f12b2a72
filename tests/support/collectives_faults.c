/* What one rank does in a run: it enters collectives and compares what it gets, and one rank of the
 * run does something wrong. */
#include "base_await.h"
#include "collectives_faults_kinds.h"
#include "scheduler_stand_still.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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
    case 0:
        nap(1000 * (int64_t)faults_random(state, 100));
        break;
    case 1:
    case 2:
        sched_yield();
        break;
    case 3:
        for (uint32_t i = faults_random(state, 2000); i > 0; i--) mst_pause();
        break;
    default:
        break;
    }
}

static faults_plan *_Atomic running; /* for the hook */

/* Every wait of a worker comes by here. With a failing allocation, the rank at fault lets the
 * others go once it waits for them: what it allocates before is what it allocates by itself. */
static void hook(void) {
    static _Thread_local uint64_t state, seeded;
    const muster_worker *worker = mst_current_worker();
    faults_plan *plan = atomic_load(&running);
    if (!worker || !plan) return;
    bool armed = plan->fault == FAULT_MEMORY && worker->rank == plan->rank && atomic_load(&plan->ready) == plan->here;
    if (armed) atomic_store(&plan->go, 1);
    if (!plan->delays) return;
    if (seeded != plan->delays) state = (seeded = plan->delays) + (uint64_t)worker->rank * 0x9E3779B97F4A7C15u;
    dawdle(&state);
}

void faults_install_hook(void) { mst_wait_test_hook = hook; }

/* ---- tensors ---- */

static void put(muster_dtype dtype, void *memory, int64_t i, double number) {
    switch (dtype) {
    case MUSTER_F32:
        ((float *)memory)[i] = (float)number;
        break;
    case MUSTER_F64:
        ((double *)memory)[i] = number;
        break;
    case MUSTER_I32:
        ((int32_t *)memory)[i] = (int32_t)number;
        break;
    default:
        ((int64_t *)memory)[i] = (int64_t)number;
    }
}

static double take(muster_dtype dtype, const void *memory, int64_t i) {
    switch (dtype) {
    case MUSTER_F32:
        return ((const float *)memory)[i];
    case MUSTER_F64:
        return ((const double *)memory)[i];
    case MUSTER_I32:
        return ((const int32_t *)memory)[i];
    default:
        return (double)((const int64_t *)memory)[i];
    }
}

static double *host_memory(int32_t rank) {
    static double memory[FAULTS_RANKS][FAULTS_ELEMENTS];
    return memory[rank];
}

/* Half of the tensors on host devices are of the body's own memory, which it frees as soon as the
 * collective has returned: a rank that reads it then is found out. */
static bool owns_memory(const faults_member *s) { return mst_device_is_host(s->worker->device) && s->call.salt % 2; }

static muster_status make_tensor(const faults_member *s, int64_t count, bool is_input, muster_tensor *tensor) {
    void *host = host_memory(s->worker->rank);
    bool parameters = !is_input && s->call.kind == FAULTS_ALL_REDUCE_AXPY;
    if (owns_memory(s))
        *tensor = muster_tensor_make(s->call.dtype, malloc((size_t)(count * muster_dtype_size(s->call.dtype) + 1)), 1, &count);
    else
        MUSTER_TRY(muster_worker_scratch(s->worker, s->call.dtype, 1, &count, tensor));
    for (int64_t i = 0; i < count; i++)
        put(s->call.dtype, host, i, is_input ? faults_value(s, s->rank, i) : parameters ? faults_parameter(i) : -7);
    return muster_worker_write(s->worker, muster_tensor_make(s->call.dtype, host, 1, &count), *tensor);
}

static void drop_tensors(const faults_member *s) {
    if (!owns_memory(s)) return;
    free(s->output.data);
    free(s->input.data);
}

static int64_t elements(const faults_member *s, int64_t (*number)(const faults_member *)) { return number ? number(s) : 0; }
static bool is_root(const faults_member *s) { return s->rank == s->call.root; }
static bool has_input(const faults_member *s) {
    return faults_rows[s->call.kind].inputs && (is_root(s) || (s->call.kind != FAULTS_BROADCAST && s->call.kind != FAULTS_SCATTER));
}
static bool has_output(const faults_member *s) {
    return faults_rows[s->call.kind].outputs && (is_root(s) || (s->call.kind != FAULTS_REDUCE && s->call.kind != FAULTS_GATHER));
}

static muster_status make_tensors(faults_member *s) {
    const faults_row *row = &faults_rows[s->call.kind];
    s->input = s->output = muster_tensor_none();
    if (has_input(s)) MUSTER_TRY(make_tensor(s, elements(s, row->inputs), true, &s->input));
    if (has_output(s)) MUSTER_TRY(make_tensor(s, elements(s, row->outputs), false, &s->output));
    return MUSTER_OK;
}

static muster_status compare(const faults_member *s) {
    const faults_row *row = &faults_rows[s->call.kind];
    if (!has_output(s)) return MUSTER_OK;
    faults_outcome *outcome = &s->plan->outcomes[muster_worker_rank(s->worker)];
    int64_t count = row->outputs(s);
    void *host = host_memory(s->worker->rank);
    MUSTER_TRY(muster_worker_read(s->worker, s->output, muster_tensor_make(s->call.dtype, host, 1, &count)));
    for (int64_t i = 0; i < count; i++) {
        double got = take(s->call.dtype, host, i), wanted = row->expected(s, i);
        if (fabs(got - wanted) <= (s->call.op == MUSTER_AVG ? 1e-5 * wanted : 0)) continue;
        outcome->wrong = true;
        snprintf(outcome->message, sizeof outcome->message, "%s: rank %d: element %lld of %lld is %g, not %g", row->name, s->rank,
                 (long long)i, (long long)count, got, wanted);
        return MUSTER_OK;
    }
    return MUSTER_OK;
}

/* ---- one step ---- */

/* With a failing allocation the rank at fault allocates alone until it waits for the others. */
static void take_turns(const faults_member *s) {
    faults_plan *plan = s->plan;
    bool by_fault = muster_worker_rank(s->worker) == plan->rank;
    if (plan->fault == FAULT_STAYS_AWAY || plan->fault == FAULT_MEMORY) atomic_fetch_add(&plan->ready, 1);
    if (plan->fault != FAULT_MEMORY) return;
    TEST_AWAIT(by_fault ? atomic_load(&plan->ready) >= plan->here : atomic_load(&plan->go), 20000);
    if (!by_fault) return;
    plan->allocations = mst_memory_count();
    mst_memory_fail_at(plan->allocation);
}

static muster_status enter_and_compare(faults_member *s, bool fault_here) {
    MUSTER_TRY(make_tensors(s));
    if (fault_here) take_turns(s);
    muster_status status = faults_rows[s->call.kind].enter(s);
    if (fault_here && s->at_fault) atomic_store(&s->plan->go, 1);
    return status == MUSTER_OK ? compare(s) : status;
}

static muster_status enter(faults_member *s, bool fault_here) {
    muster_status status = enter_and_compare(s, fault_here);
    drop_tensors(s);
    return status;
}

static faults_call other_call(faults_call call) {
    call.kind = call.kind == FAULTS_BARRIER ? FAULTS_ALL_REDUCE : FAULTS_BARRIER;
    return call;
}

/* What the rank at fault asks for. */
static faults_call twisted(const faults_plan *plan, faults_call call) {
    switch (plan->fault) {
    case FAULT_COUNT:
        call.extra = call.kind == FAULTS_ALL_TO_ALL ? plan->size : 1;
        break;
    case FAULT_DTYPE:
        call.dtype = call.dtype == MUSTER_F32 ? MUSTER_F64 : MUSTER_F32;
        break;
    case FAULT_OP:
        call.op = call.op == MUSTER_MAX ? MUSTER_SUM : MUSTER_MAX;
        break;
    case FAULT_ROOT:
        call.root = (call.root + 1) % plan->size;
        break;
    case FAULT_OTHER:
        return other_call(call);
    default:
        break;
    }
    return call;
}

static muster_status stay_away(faults_member *s) {
    atomic_int *ready = &s->plan->ready;
    TEST_AWAIT(atomic_load(ready) >= s->plan->here - 1 || muster_worker_cancelled(s->worker), 100000);
    stand_still_until_cancelled(s->worker);
    return MUSTER_OK;
}

static muster_status step_at_fault(faults_member *s, bool *over) {
    const faults_plan *plan = s->plan;
    char words[64];
    s->at_fault = true;
    s->call = twisted(plan, s->call);
    switch (plan->fault) {
    case FAULT_FAILS:
        snprintf(words, sizeof words, "the dog of rank %d ate it", muster_worker_rank(s->worker));
        return muster_fail(MUSTER_USER, words);
    case FAULT_RETURNS:
        *over = true;
        return MUSTER_OK;
    case FAULT_STAYS_AWAY:
        MUSTER_TRY(stay_away(s));
        *over = !plan->late_entry;
        return plan->late_entry ? enter(s, false) : MUSTER_OK;
    default:
        return enter(s, true);
    }
}

/* Which step a rank takes as its i-th: the rank with the wrong order changes two of them. */
static int32_t step_of(const faults_plan *plan, int32_t rank, int32_t i) {
    if (plan->fault != FAULT_ORDER || rank != plan->rank) return i;
    return i == plan->step ? i + 1 : i == plan->step + 1 ? i - 1 : i;
}

static muster_status run_steps(faults_member *s) {
    faults_plan *plan = s->plan;
    const int32_t rank = muster_worker_rank(s->worker);
    faults_outcome *outcome = &plan->outcomes[rank];
    uint64_t state = plan->delays + (uint64_t)rank * 977;
    muster_status first = MUSTER_OK;
    bool over = false;
    for (int32_t i = 0; i < plan->steps && !over; i++) {
        if (plan->delays) dawdle(&state);
        s->call = plan->calls[step_of(plan, rank, i)];
        s->at_fault = false;
        bool fault_here = plan->fault != FAULT_NONE && i == plan->step;
        muster_status status = fault_here && rank == plan->rank ? step_at_fault(s, &over) : enter(s, fault_here);
        if (outcome->wrong) return mst_error(MUSTER_USER, "%s", outcome->message);
        if (status == MUSTER_OK)
            outcome->steps++;
        else if (first == MUSTER_OK)
            first = status;
        if (status != MUSTER_OK && !plan->stubborn) break;
    }
    return first;
}

static muster_status run_in_part(faults_member *s) {
    MUSTER_TRY(muster_worker_split(s->worker, NULL, 0, 0, &s->communicator));
    muster_status status = run_steps(s);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    MUSTER_TRY(muster_worker_release(s->worker, s->communicator));
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

static muster_status body(muster_worker *worker, void *argument) {
    faults_plan *plan = argument;
    const int32_t rank = muster_worker_rank(worker);
    faults_outcome *outcome = &plan->outcomes[rank];
    faults_member s = {.worker = worker, .plan = plan, .rank = rank, .size = plan->size};
    outcome->status = plan->through_part ? run_in_part(&s) : run_steps(&s);
    if (outcome->status != MUSTER_OK) mst_error_save(outcome->message);
    return outcome->status;
}

muster_status faults_run(collectives_pool *c, faults_plan *plan, int64_t fail_after_ns) {
    char message[MST_MESSAGE_SIZE];
    memset(plan->outcomes, 0, sizeof plan->outcomes);
    atomic_store(&plan->ready, 0);
    atomic_store(&plan->go, 0);
    plan->here = c->count;
    plan->process = c->nodes ? mst_nodes_process_of(c->nodes, plan->rank) : -1;
    atomic_store(&running, plan);
    const muster_status status = collectives_run_until(c, body, plan, fail_after_ns);
    mst_error_save(message);
    atomic_store(&running, NULL);
    mst_memory_fail_at(0);
    plan->allocations = mst_memory_count() - plan->allocations;
    collectives_gather(c, plan->outcomes, sizeof *plan->outcomes);
    for (int32_t r = 0; r < c->size; r++) collectives_strip(plan->outcomes[r].message);
    collectives_strip(message);
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}
