/* Makes a pool with the threads of its workers, and ends it. */
#include "own_thread_impl.h"
#include "pool_state_private.h"
#include "topology_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* With more workers than CPUs a wait gives its CPU to the others so often before it sleeps. A call
 * of 4 workers on 2 CPUs needs a few; see README.md for what was measured. */
enum { YIELDS = 64 };

static bool real_time_policy(void) {
    int policy = sched_getscheduler(0);
    if (policy < 0) return false;
    policy &= ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

static void pin_worker(mst_pool *pool, mst_worker_state *state) {
    int32_t cpu = state->worker.device->cpu;
    if (!pool->options.pin || cpu < 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pool->options.masks) set = pool->options.masks[state->worker.rank];
    /* CPUs that are not ours (any more) leave the worker free: slower at worst. A worker that may
     * use several gives way to a caller that spins on its CPU. */
    if (pthread_setaffinity_np(state->thread, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1) CPU_SET(cpu, pool->worker_cpus);
}

static muster_status start_thread(mst_pool *pool, int32_t rank) {
    mst_worker_state *state = &pool->states[rank];
    int error = mst_memory_refuse() ? EAGAIN : pthread_create(&state->thread, NULL, mst_pool_worker_main, state);
    if (error)
        return mst_error(MUSTER_SYSTEM, "muster_runtime_open: starting the thread of rank %" PRId32 ": %s", pool->options.first + rank,
                         strerror(error));
    pool->threads++;
    char name[16];
    snprintf(name, sizeof(name), "muster-%d", (int)(rank % 100000));
    pthread_setname_np(state->thread, name);
    pin_worker(pool, state);
    return MUSTER_OK;
}

/* Signals are for the program's own threads: the workers block all of them. */
static muster_status start_threads(mst_pool *pool) {
    const sigset_t before = mst_signals_block();
    muster_status status = MUSTER_OK;
    for (int32_t rank = pool->dedicated_rank0 ? 0 : 1; rank < pool->size && status == MUSTER_OK; rank++) status = start_thread(pool, rank);
    mst_signals_restore(&before);
    return status;
}

static muster_status init_state(mst_pool *pool, int32_t rank, mst_device *device) {
    if (mst_memory_refuse() || pthread_mutex_init(&pool->states[rank].wait_lock, NULL) != 0)
        return mst_out_of_memory("muster_runtime_open: the lock of a worker", sizeof(pthread_mutex_t));
    muster_worker *worker = &pool->states[rank].worker;
    worker->rank = rank;
    worker->size = pool->size;
    worker->total = pool->total;
    worker->first = pool->options.first;
    worker->device = device;
    worker->pool = pool;
    worker->lock_word = &pool->tickets.state;
    mst_device_watch(&pool->states[rank]);
    if (!mst_device_is_host(device)) pool->watches = true;
    return MUSTER_OK;
}

static muster_status build(mst_pool *pool, mst_device *const *devices, int32_t count) {
    pool->states = mst_alloc((size_t)count * sizeof(mst_worker_state));
    if (!pool->states) return mst_out_of_memory("muster_runtime_open: the workers", (int64_t)count * (int64_t)sizeof(mst_worker_state));
    pool->size = count;
    pool->total = pool->options.total ? pool->options.total : count;
    for (int32_t rank = 0; rank < count; rank++) MUSTER_TRY(init_state(pool, rank, devices[rank]));
    pool->dedicated_rank0 = pool->options.dedicated_rank0;
    pool->alone = pool->total == 1 && !pool->dedicated_rank0 && !pool->watches;
    pool->worker_cpus = mst_alloc(sizeof(cpu_set_t));
    if (!pool->worker_cpus) return mst_out_of_memory("muster_runtime_open: the CPUs of the workers", sizeof(cpu_set_t));
    bool real_time = real_time_policy();
    const int32_t crowd = pool->options.crowd > count ? pool->options.crowd : count;
    const int32_t allowed = pool->options.crowd ? pool->options.crowd_cpus : mst_topology_allowed();
    if (crowd > allowed && !real_time) pool->yields = YIELDS;
    if (crowd > allowed || real_time) pool->options.spin_ns = 0;
    mst_ticks_per_ns(); /* measured here rather than in the first call */
    return start_threads(pool);
}

static void end_threads(mst_pool *pool) {
    if (mst_pool_forked(pool) || pool->threads == 0) return;
    const int32_t first = pool->dedicated_rank0 ? 0 : 1;
    pool->task = NULL;
    mst_counter_publish(&pool->dispatch, pool->epoch + 1);
    if (pool->dedicated_rank0) mst_counter_publish(&pool->master, pool->epoch + 1);
    for (int32_t rank = first; rank < first + pool->threads; rank++) pthread_join(pool->states[rank].thread, NULL);
}

muster_status mst_pool_create(const mst_pool_options *options, mst_device *const *devices, int32_t count, mst_pool **pool) {
    if (count < 1 || count > MST_MAX_WORKERS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected 1 to %d devices, received %" PRId32,
                         MST_MAX_WORKERS, count);
    mst_pool *made = mst_alloc(sizeof(*made));
    if (!made) return mst_out_of_memory("muster_runtime_open: the pool", sizeof(*made));
    made->options = *options;
    made->warn_after_ns = options->warn_after_ns;
    made->fail_after_ns = options->fail_after_ns;
    made->fork_generation = mst_pool_fork_generation();
    muster_status status = mst_ticket_lock_open(&made->tickets);
    if (status != MUSTER_OK) {
        mst_free(made);
        return status;
    }
    status = mst_call_queue_open(&made->queue);
    if (status == MUSTER_OK) status = mst_pool_life_open(made);
    if (status == MUSTER_OK) status = build(made, devices, count);
    if (status != MUSTER_OK) {
        mst_pool_destroy(made);
        return status;
    }
    *pool = made;
    return MUSTER_OK;
}

void mst_pool_destroy(mst_pool *pool) {
    if (!pool) return;
    mst_call_queue_close(&pool->queue, mst_pool_forked(pool));
    end_threads(pool);
    for (int32_t rank = 0; pool->states && rank < pool->size; rank++) {
        mst_worker_scratch_release(&pool->states[rank].worker);
        if (pool->states[rank].worker.device) {
            mst_device_unwatch(&pool->states[rank]);
            pthread_mutex_destroy(&pool->states[rank].wait_lock);
        }
    }
    mst_pool_life_end(pool);
    mst_free(pool->worker_cpus);
    mst_free(pool->states);
    if (!mst_pool_forked(pool)) mst_ticket_lock_close(&pool->tickets);
    mst_free(pool);
}

int32_t mst_pool_size(const mst_pool *pool) { return pool->size; }
int32_t mst_pool_first(const mst_pool *pool) { return pool->options.first; }
int32_t mst_pool_total(const mst_pool *pool) { return pool->total; }
muster_worker *mst_pool_worker(mst_pool *pool, int32_t rank) { return &pool->states[rank].worker; }
const mst_pool_options *mst_pool_settings(const mst_pool *pool) { return &pool->options; }
