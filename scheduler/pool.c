/* One worker per device, one task at a time. The caller's thread serves rank 0, unless rank 0 has a
 * thread of its own; the others wait for the epoch of the next run. */
#include "floating_private.h"
#include "locale_impl.h"
#include "pool_state_private.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>

/* Counts forks, in the child: threads of a pool made before are not there. */
static _Atomic uint64_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* What this thread does. `entered`: the pool that it has entered, waits for, or is about to enter;
 * a signal handler that it runs meanwhile cannot wait for that pool. initial-exec: one instruction
 * instead of a call; the bytes fit what the loader keeps free for libraries opened late. */
static _Thread_local struct {
    muster_worker *worker;
    const mst_pool *entered;
} thread __attribute__((tls_model("initial-exec")));

muster_worker *mst_current_worker(void) { return thread.worker; }

static void count_fork(void) { atomic_fetch_add(&fork_generation, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

uint64_t mst_pool_fork_generation(void) {
    pthread_once(&fork_once, watch_forks);
    return atomic_load(&fork_generation);
}

static bool forked(const mst_pool *pool) { return pool->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed); }

bool mst_pool_forked(const mst_pool *pool) { return forked(pool); }

/* ---- one worker, one run ---- */

static void report_task_failure(muster_worker *worker, muster_status status, uint64_t errors_before) {
    if (mst_error_count() == errors_before) mst_error(status, "the task failed with %s and gave no reason", muster_status_name(status));
    mst_pool_abort(worker, status);
}

/* A hook may add others. */
static void run_exit_hooks(muster_worker *worker) {
    for (mst_exit_hook *hook = worker->exit_hooks; hook; hook = worker->exit_hooks) {
        const uint64_t errors = mst_error_count();
        worker->exit_hooks = hook->next;
        const muster_status status = hook->run(worker, hook);
        if (status != MUSTER_OK) report_task_failure(worker, status, errors);
    }
}

/* A failure is reported before the wait for the device, so that no other rank waits for this one
 * meanwhile. The wait follows also then: queued work may still use the caller's memory. */
static void run_on_device(mst_worker_state *state, mst_task task, void *argument) {
    muster_worker *worker = &state->worker;
    const uint64_t errors = mst_error_count();
    muster_status status = mst_device_begin(state);
    if (status != MUSTER_OK) {
        report_task_failure(worker, status, errors);
        return;
    }
    status = task(worker, argument);
    if (status != MUSTER_OK) report_task_failure(worker, status, errors);
    run_exit_hooks(worker);
    const muster_status synced = mst_device_end(state);
    if (status == MUSTER_OK && synced != MUSTER_OK) report_task_failure(worker, synced, errors);
}

/* Waits on a host device for the programs that the task has launched and not waited for. */
static void end_programs(mst_worker_state *state, muster_status status) {
    const uint64_t errors = mst_error_count();
    const muster_status synced = mst_device_end(state);
    if (status == MUSTER_OK && synced != MUSTER_OK) report_task_failure(&state->worker, synced, errors);
}

static inline void begin_task(muster_worker *worker, uint64_t epoch) {
    worker->epoch = epoch;
    worker->sequence = 0;
    worker->scratch_status = MUSTER_OK;
    thread.worker = worker;
}

static inline void end_task(muster_worker *worker) {
    if (worker->scratch_count > 0) mst_worker_scratch_reset(worker);
    thread.worker = NULL;
}

static inline void run_on_host(mst_worker_state *state, mst_task task, void *argument) {
    muster_worker *worker = &state->worker;
    const uint64_t errors = mst_error_count();
    const muster_status status = task(worker, argument);
    if (__builtin_expect(status != MUSTER_OK, 0)) report_task_failure(worker, status, errors);
    if (__builtin_expect(worker->exit_hooks != NULL, 0)) run_exit_hooks(worker);
    if (__builtin_expect(worker->device->queued, 0)) end_programs(state, status);
}

static void run_task(mst_worker_state *state, uint64_t epoch, mst_task task, void *argument) {
    begin_task(&state->worker, epoch);
    if (mst_device_is_host(state->worker.device))
        run_on_host(state, task, argument);
    else
        run_on_device(state, task, argument);
    end_task(&state->worker);
}

void mst_worker_last_rendezvous(muster_worker *worker) {
    mst_worker_state *state = &worker->pool->states[worker->rank];
    atomic_store(&state->done_with, worker->epoch);
    mst_eventcount_notify(&state->eventcount);
}

/* Ends the waits of other workers for this one. */
static void report_finished(mst_worker_state *state, uint64_t epoch) {
    atomic_store(&state->finished, epoch);
    mst_eventcount_notify(&state->eventcount);
}

/* A thread sleeps for as long as it asks for, and for up to its timer slack longer: usually 50 us,
 * as long as the longest sleep between two looks at a GPU. The threads that a task starts inherit
 * it. */
static void sleep_exactly(void) { (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

void *mst_pool_worker_main(void *context) {
    mst_worker_state *state = context;
    mst_pool *pool = state->worker.pool;
    mst_counter *dispatch = state->worker.rank == 0 ? &pool->master : &pool->dispatch;
    bool may_spin = true;
    sleep_exactly();
    for (;;) {
        const mst_wait wait = {
            .spin_ns = may_spin ? pool->options.spin_ns : 0, .spin = &state->idle_spin, .yields = pool->yields, .timeout_ns = -1};
        mst_counter_wait(dispatch, state->seen + 1, &wait);
        state->seen = atomic_load(&dispatch->value);
        if (!pool->task) return NULL;
        uint64_t target = pool->done_target; /* read before the run ends: the next one overwrites it */
        int32_t caller_cpu = pool->caller_cpu;
        mst_floating_set(pool->floating);
        run_task(state, state->seen, pool->task, pool->argument);
        uint64_t back = atomic_fetch_add(&pool->done.value, 1) + 1;
        /* After `done`, which the caller waits for: the next run may have begun by now, and an
         * older epoch does not count there. */
        report_finished(state, state->seen);
        may_spin = true;
        if (back != target || atomic_load(&pool->done.eventcount.sleepers) == 0) continue;
        mst_eventcount_notify(&pool->done.eventcount);
        /* A caller that slept on this CPU is queued behind this thread: spinning here would keep it
         * from going on. */
        if (pool->options.spin_ns > 0 && sched_getcpu() == caller_cpu) may_spin = false;
    }
}

/* ---- a run ---- */

/* A caller on a worker's CPU must not spin there: that worker could not run. */
static bool on_worker_cpu(const mst_pool *pool) {
    if (!pool->worker_cpus) return false;
    int cpu = sched_getcpu();
    return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, pool->worker_cpus);
}

/* cold: workers had to be woken. One of them may have been put on this CPU, where it cannot run
 * before this thread sleeps. */
static void wait_end(mst_pool *pool, bool cold) {
    const bool may_spin = !cold && pool->options.spin_ns > 0 && !on_worker_cpu(pool);
    mst_wait wait = {.spin_ns = may_spin ? pool->options.spin_ns : 0,
                     .spin = &pool->caller_spin,
                     .yields = pool->yields,
                     .timeout_ns = pool->warn_after_ns};
    if (mst_counter_wait(&pool->done, pool->done_target, &wait) == MST_REACHED) return;
    char line[160];
    mst_snprintf(line, sizeof(line),
                 "muster: a call has waited %.3g s for its workers to return; they did last:", (double)pool->warn_after_ns * 1e-9);
    mst_report_workers(pool, line);
    /* Their tasks hold views of the caller's memory: this wait has no deadline. */
    wait = (mst_wait){.timeout_ns = -1};
    mst_counter_wait(&pool->done, pool->done_target, &wait);
}

/* The next epoch. A run that used up the bits of its sequences has taken tags of the epochs after
 * it: these are left out. */
static uint64_t next_epoch(mst_pool *pool) {
    uint64_t least = atomic_load_explicit(&pool->least_epoch, memory_order_relaxed);
    pool->epoch = pool->epoch + 1 < least ? least : pool->epoch + 1;
    return pool->epoch;
}

void mst_pool_notify_all(mst_pool *pool) {
    for (int32_t rank = 0; rank < pool->size; rank++) mst_eventcount_notify(&pool->states[rank].eventcount);
}

void mst_pool_set_deadlines(mst_pool *pool, int64_t warn_after_ns, int64_t fail_after_ns) {
    if (warn_after_ns != 0) pool->warn_after_ns = warn_after_ns;
    if (fail_after_ns != 0) pool->fail_after_ns = fail_after_ns;
}

void mst_pool_set_absence(mst_pool *pool, mst_absence absence) { pool->absence = absence; }

bool mst_worker_explain_absence(const muster_worker *worker, int32_t rank, char text[MST_ABSENCE_TEXT]) {
    return worker->pool->absence && worker->pool->absence(worker, rank, text);
}

void mst_worker_deadlines(const muster_worker *worker, int64_t *warn_after_ns, int64_t *fail_after_ns) {
    *warn_after_ns = worker->pool->warn_after_ns;
    *fail_after_ns = worker->pool->fail_after_ns;
}

/* Hands the task to `others` threads of the ranks from 1 on, and to rank 0's own where it has one.
 * Returns whether any had to be woken. */
static bool hand_out(mst_pool *pool, uint64_t epoch, mst_task task, void *argument, int32_t others) {
    bool cold = false;
    pool->task = task;
    pool->argument = argument;
    pool->floating = mst_floating_get();
    pool->caller_cpu = pool->options.spin_ns > 0 ? sched_getcpu() : -1;
    pool->done_target += (uint64_t)(others + pool->dedicated_rank0);
    if (others > 0) {
        cold = atomic_load(&pool->dispatch.eventcount.sleepers) > 0;
        mst_counter_publish(&pool->dispatch, epoch);
    }
    if (pool->dedicated_rank0) {
        cold = cold || atomic_load(&pool->master.eventcount.sleepers) > 0;
        mst_counter_publish(&pool->master, epoch);
    }
    return cold;
}

static inline muster_status end_run(mst_pool *pool, uint64_t epoch, int32_t size) {
    if (pool->warn_after_ns != pool->options.warn_after_ns) pool->warn_after_ns = pool->options.warn_after_ns;
    if (pool->fail_after_ns != pool->options.fail_after_ns) pool->fail_after_ns = pool->options.fail_after_ns;
    if (pool->watches) mst_devices_clear_in_flight(pool);
    if (__builtin_expect(atomic_load_explicit(&pool->refused, memory_order_relaxed), 0)) mst_device_reserve_refused(pool);
    if (__builtin_expect(mst_pool_is_cancelled(pool), 0)) return mst_cancel_outcome(pool, epoch, mst_failure_outcome(pool, epoch, size));
    return mst_failure_outcome(pool, epoch, size);
}

static __attribute__((noinline)) muster_status run_together(mst_pool *pool, mst_task task, void *argument) {
    if (__builtin_expect(atomic_load_explicit(&pool->lost, memory_order_relaxed) > 0, 0)) MUSTER_TRY(mst_device_refusal(pool, false));
    uint64_t epoch = next_epoch(pool);
    const bool others = pool->size > 1, dedicated_rank0 = pool->dedicated_rank0;
    bool cold = false;
    if (!dedicated_rank0) pool->states[0].thread = pthread_self();
    if (others || dedicated_rank0) cold = hand_out(pool, epoch, task, argument, pool->size - 1);
    if (!dedicated_rank0) {
        run_task(&pool->states[0], epoch, task, argument);
        if (others) report_finished(&pool->states[0], epoch);
    }
    if (others || dedicated_rank0) wait_end(pool, cold);
    return end_run(pool, epoch, pool->total);
}

/* A call on one host device takes a few hundred instructions in all, so those of the other kinds of
 * pools are left out, and a pool whose device is lost is not `alone` any more. No other worker asks
 * for the thread of this one. */
muster_status mst_pool_call(mst_pool *pool, mst_task task, void *argument) {
    if (__builtin_expect(mst_pool_is_cancelled(pool), 0) && !pool->uncancellable) return mst_cancel_before();
    if (!pool->alone) return run_together(pool, task, argument);
    mst_worker_state *state = &pool->states[0];
    const uint64_t epoch = next_epoch(pool);
    begin_task(&state->worker, epoch);
    run_on_host(state, task, argument);
    end_task(&state->worker);
    return end_run(pool, epoch, 1);
}

muster_status mst_pool_call_single(mst_pool *pool, mst_task task, void *argument) {
    if (__builtin_expect(mst_pool_is_cancelled(pool), 0) && !pool->uncancellable) return mst_cancel_before();
    if (__builtin_expect(atomic_load_explicit(&pool->lost, memory_order_relaxed) > 0, 0)) MUSTER_TRY(mst_device_refusal(pool, true));
    uint64_t epoch = next_epoch(pool);
    mst_worker_state *state = &pool->states[0];
    state->worker.size = 1;
    state->worker.total = 0;
    if (pool->dedicated_rank0) {
        wait_end(pool, hand_out(pool, epoch, task, argument, 0));
    } else {
        state->thread = pthread_self();
        run_task(state, epoch, task, argument);
    }
    state->worker.size = pool->size;
    state->worker.total = pool->total;
    return end_run(pool, epoch, 1);
}

muster_status mst_pool_run(mst_pool *pool, mst_task task, void *argument) {
    pool->uncancellable = true;
    const muster_status status = mst_pool_call(pool, task, argument);
    pool->uncancellable = false;
    return status;
}

muster_status mst_pool_run_single(mst_pool *pool, mst_task task, void *argument) {
    pool->uncancellable = true;
    const muster_status status = mst_pool_call_single(pool, task, argument);
    pool->uncancellable = false;
    return status;
}

/* ---- one call at a time ---- */

muster_status mst_pool_ready(const mst_pool *pool, const char *where) {
    if (__builtin_expect(!pool, 0))
        return mst_error(MUSTER_BAD_STATE,
                         "%s: expected an open runtime and an object of it, received one that has been closed or destroyed", where);
    if (thread.worker)
        return mst_error(MUSTER_BAD_STATE, "%s: called inside a running function (rank %" PRId32 "); calls do not nest", where,
                         mst_worker_public_rank(thread.worker));
    if (forked(pool))
        return mst_error(MUSTER_BAD_STATE, "%s: the runtime was opened before fork and has no threads in this process", where);
    return MUSTER_OK;
}

/* A handler that interrupts a call of its thread would wait for what goes on only after it. */
static muster_status check_handler(const mst_pool *pool, const mst_pool *before, const char *where) {
    if (!MST_HANDLERS || before != pool) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "%s: called by a signal handler or another callback inside a call of the same thread, for which it would wait", where);
}

static muster_status enter_queue(mst_pool *pool, const char *where, int64_t timeout_ns, mst_cancel_effect effect) {
    const mst_ticket_result result = mst_ticket_lock_acquire(&pool->tickets, timeout_ns, effect);
    if (result == MST_TICKET_TAKEN) return MUSTER_OK;
    if (result == MST_TICKET_ENDED) return mst_cancel_refuse(where);
    return mst_error(MUSTER_TIMEOUT, "%s: waited %.3g s for calls of other threads to end", where, (double)timeout_ns * 1e-9);
}

/* before: what this thread had entered. A call that is refused inside another one leaves that note
 * as it was. */
static __attribute__((noinline)) muster_status enter_slowly(mst_pool *pool, const mst_pool *before, const char *where, int64_t timeout_ns,
                                                            bool uncancellable) {
    muster_status status = mst_pool_ready(pool, where);
    if (status == MUSTER_OK) status = check_handler(pool, before, where);
    if (status == MUSTER_OK) {
        thread.entered = pool;
        status = enter_queue(pool, where, timeout_ns, uncancellable ? MST_CANCEL_IGNORED : mst_pool_cancel_effect(pool));
        if (status == MUSTER_OK) return MUSTER_OK;
    }
    thread.entered = before;
    return status;
}

muster_status mst_pool_enter(mst_pool *pool, const char *where, int64_t timeout_ns) {
    const mst_pool *before = thread.entered;
    if (__builtin_expect(pool && !thread.worker && !forked(pool), 1)) {
        thread.entered = pool;
        if (__builtin_expect(mst_ticket_lock_try(&pool->tickets), 1)) return MUSTER_OK;
    }
    return enter_slowly(pool, before, where, timeout_ns, false);
}

muster_status mst_pool_enter_to_end(mst_pool *pool, const char *where) { return enter_slowly(pool, thread.entered, where, 0, true); }

/* A handler that runs between the two steps may enter and leave the pool itself. */
void mst_pool_leave(mst_pool *pool) {
    mst_ticket_lock_leave(&pool->tickets);
    thread.entered = NULL;
}

muster_status mst_pool_begin_submit(const mst_pool *pool, const char *where) {
    MUSTER_TRY(mst_pool_ready(pool, where));
    MUSTER_TRY(check_handler(pool, thread.entered, where));
    thread.entered = pool;
    return MUSTER_OK;
}

void mst_pool_end_submit(void) { thread.entered = NULL; }
