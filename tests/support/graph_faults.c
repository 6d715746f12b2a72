#include "graph_faults.h"

#include "base_machine.h"
#include "base_pace.h"
#include "memory_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const fault_names[FAULT_KINDS] = {"fails", "no memory", "returns", "stays away", "breaks", "dawdles", "fails late"};

enum { MILLISECOND = 1000000 };

/* Which exchange, counted by each rank. */
static struct {
    fault_kind kind;
    int32_t rank, exchange; /* rank -1: none */
    _Atomic int32_t done;
} fault = {.rank = -1};
static bool watches; /* during faults_call and faults_call_with */
static int32_t entered[FAULT_RANKS], collectives[FAULT_EXCHANGES];
static _Atomic int32_t writing[FAULT_RANKS]; /* exchanges entered when it last came to the moment to write */

/* By few long sleeps, and without a measurement of the pace between them: a thread that uses the
 * time of its core counts as one that computes, which no deadline ends. */
static void stand_still(const muster_worker *worker) {
    const int32_t most = (int32_t)(200 * test_pace());
    for (int32_t i = 0; i < most && !muster_worker_cancelled(worker); i++) nanosleep(&(struct timespec){0, 100 * MILLISECOND}, NULL);
}

/* NCCL on a rank that fails aborts the call, since the others may wait in NCCL for this rank. All
 * have begun to write by then. */
static void break_off(muster_worker *worker, muster_status status) {
    for (int32_t r = 0; r < muster_worker_size(worker); r++)
        while (r != fault.rank && atomic_load(&writing[r]) <= fault.exchange && !muster_worker_cancelled(worker))
            nanosleep(&(struct timespec){0, MILLISECOND}, NULL);
    mst_pool_abort(worker, status);
}

static bool strike(muster_worker *worker, muster_status *status) {
    atomic_fetch_add(&fault.done, 1);
    *status = MUSTER_OK;
    switch (fault.kind) {
    case RETURNS:
        return true;
    case STAYS_AWAY:
    case DAWDLES:
        stand_still(worker);
        return false;
    case NO_MEMORY:
        mst_memory_fail_at(1);
        if (mst_alloc(100)) abort();
        mst_memory_fail_at(0);
        *status = mst_out_of_memory("the cat", 100);
        return true;
    default:
        *status = mst_error(MUSTER_USER, "the cat sat on the keys");
        if (fault.kind == BREAKS && on_gpus()) break_off(worker, *status);
        return true;
    }
}

static bool hook(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    const int32_t rank = muster_worker_rank(worker);
    if (!watches) return false;
    if (moment == MST_MOMENT_ENTERS && entered[rank] < FAULT_EXCHANGES) {
        if (rank == 0 && fault.rank < 0) collectives[entered[rank]] = collective;
        entered[rank]++;
    }
    if (moment == MST_MOMENT_WRITES) atomic_store(&writing[rank], entered[rank]);
    const mst_rendezvous_moment its = fault.kind <= STAYS_AWAY   ? MST_MOMENT_ENTERS
                                      : fault.kind == FAILS_LATE ? MST_MOMENT_LEAVES
                                                                 : MST_MOMENT_WRITES;
    return rank == fault.rank && entered[rank] == fault.exchange + 1 && moment == its && strike(worker, status);
}

void faults_begin(void) {
    fault.rank = -1;
    mst_rendezvous_test_hook = hook;
}

void faults_end(void) { mst_rendezvous_test_hook = NULL; }

int32_t faults_entered(int32_t rank) { return entered[rank]; }
int32_t faults_collective(int32_t exchange) { return collectives[exchange]; }

static muster_status call_within(const fault_program *program, int64_t deadline_ns) {
    memset(entered, 0, sizeof entered);
    for (int32_t r = 0; r < FAULT_RANKS; r++) atomic_store(&writing[r], 0);
    watches = true;
    const muster_status status = program->call(program->context, deadline_ns);
    watches = false;
    return status;
}

muster_status faults_call(const fault_program *program) { return call_within(program, 0); }

/* On a busy machine a rank may be late before the fault strikes: again with a longer deadline. */
muster_status faults_call_with(const fault_program *program, fault_kind kind, int32_t rank, int32_t exchange, bool *struck) {
    for (int64_t deadline_ns = fault_is_slow(kind) ? test_patience((on_gpus() ? 100 : 20) * MILLISECOND) : 0;; deadline_ns *= 4) {
        fault.kind = kind;
        fault.exchange = exchange;
        fault.rank = rank;
        atomic_store(&fault.done, 0);
        const muster_status status = call_within(program, deadline_ns);
        fault.rank = -1;
        *struck = atomic_load(&fault.done) > 0;
        if (status != MUSTER_TIMEOUT || *struck) return status;
        program->reset(program->context);
    }
}
