#include "collectives_spans.h"

#include "base_check.h"
#include "device_discrete.h"
#include "wire_launch.h"

#include <stdio.h>

static void log_open(void *user, muster_log_level level, const char *line) {
    spans_process *process = user;
    if (level >= MUSTER_LOG_WARNING && !process->log[0]) snprintf(process->log, sizeof process->log, "%s\n", line);
}

static void log_nothing(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static void open_devices(spans_process *process) {
    for (int32_t r = 0; r < process->count; r++) {
        const mst_device_table *table = mst_device_find(r < process->count - process->launch->discrete ? "host" : "discrete");
        char ordinal[16];
        snprintf(ordinal, sizeof ordinal, "%d", r);
        assert_ok(table->open(table, ordinal, &process->devices[r]));
    }
}

static muster_status open_pool(spans_process *process) {
    mst_nodes *nodes = process->nodes;
    const mst_pool_options options = {.spin_ns = 20000,
                                      .warn_after_ns = -1,
                                      .fail_after_ns = process->launch->fail_after_ns,
                                      .first = mst_nodes_first(nodes),
                                      .total = mst_nodes_total(nodes),
                                      .log = log_nothing};
    MUSTER_TRY(mst_pool_create(&options, process->devices, process->count, &process->pool));
    const mst_communicator_options ways = {.algorithm = process->launch->algorithm,
                                           .nodes = nodes,
                                           .fixed_order = process->launch->fixed_order,
                                           .wire_dtype = process->launch->wire_dtype};
    return mst_communicator_create(process->pool, &ways, &process->communicator);
}

muster_status spans_process_open(spans_process *process) {
    const mst_nodes_options options = {.warn_after_ns = -1,
                                       .fail_after_ns = process->launch->fail_after_ns,
                                       .close_grace_ns = process->launch->close_grace_ns,
                                       .on_lost = 1,
                                       .log = log_open,
                                       .log_user = process};
    char *names;
    MUSTER_TRY(mst_nodes_open(&options, &process->nodes));
    open_devices(process);
    MUSTER_TRY(mst_nodes_join(process->nodes, MUSTER_OK, process->count, "", "device\n", &names));
    mst_free(names);
    return open_pool(process);
}

/* ---- what each process does in a thread of its own ---- */

static void join(const spans_process *process) { wire_launch_join(process->launch->wire, (int32_t)(process - process->launch->process)); }

static void *open_main(void *context) {
    spans_process *process = context;
    join(process);
    process->status = spans_process_open(process);
    mst_error_save(process->message);
    return NULL;
}

/* As a call of a function does it: a round before and one behind it, and what fails is told. */
static muster_status run_task(spans_process *process) {
    mst_round round = {.where = "test", .text = "a task", .rank = -1};
    MUSTER_TRY(mst_nodes_begin(process->nodes, &round));
    mst_communicator_ready(process->communicator);
    round.status = mst_pool_run(process->pool, process->task, process->argument);
    if (round.status != MUSTER_OK) {
        round.rank = mst_pool_failed_rank(process->pool);
        mst_nodes_poison(process->nodes, round.status, round.rank);
    }
    return mst_nodes_end(process->nodes, &round);
}

muster_status spans_process_run(spans_process *process) {
    MUSTER_TRY(mst_pool_enter(process->pool, "test", 0));
    const muster_status status = run_task(process);
    mst_pool_leave(process->pool);
    return status;
}

static void *run_main(void *context) {
    spans_process *process = context;
    join(process);
    process->status = spans_process_run(process);
    mst_error_save(process->message);
    return NULL;
}

void spans_process_close(spans_process *process) {
    mst_communicator_destroy(process->communicator);
    if (process->pool) mst_pool_destroy(process->pool);
    for (int32_t r = process->count - 1; r >= 0; r--) process->devices[r]->table->close(process->devices[r]);
    mst_nodes_close(process->nodes);
}

static void *close_main(void *context) {
    spans_process *process = context;
    join(process);
    spans_process_close(process);
    return NULL;
}

static void in_all(spans_launch *launch, void *(*run)(void *context)) {
    for (int32_t p = 0; p < launch->processes; p++)
        assert_int_equal(pthread_create(&launch->process[p].thread, NULL, run, &launch->process[p]), 0);
    for (int32_t p = 0; p < launch->processes; p++) pthread_join(launch->process[p].thread, NULL);
}

static muster_status first_failure(const spans_launch *launch) {
    for (int32_t p = 0; p < launch->processes; p++)
        if (launch->process[p].status != MUSTER_OK) return mst_error_restore(launch->process[p].status, launch->process[p].message);
    return MUSTER_OK;
}

/* ---- the launch ---- */

muster_status spans_try_open(spans_launch *launch, const spans_options *options) {
    assert_ok(mst_discrete_register());
    assert_ok(mst_code_add(&mst_ops_code));
    assert_ok(mst_code_add(&mst_collectives_code));
    *launch = (spans_launch){.processes = options->processes,
                             .discrete = options->discrete,
                             .algorithm = options->algorithm,
                             .fixed_order = options->fixed_order,
                             .wire_dtype = options->wire_dtype};
    launch->close_grace_ns = options->close_grace_ns;
    launch->fail_after_ns = options->fail_after_ns ? options->fail_after_ns : 60 * 1000000000ll;
    launch->wire =
        wire_launch_create(&(wire_launch_options){.processes = options->processes,
                                                  .processes_per_host = options->processes_per_host ? options->processes_per_host : 1,
                                                  .hosts = options->hosts,
                                                  .seed = options->seed,
                                                  .different_bits = options->different_bits,
                                                  .stalled = options->stalled_collective});
    assert_non_null(launch->wire);
    for (int32_t p = 0; p < options->processes; p++) {
        launch->process[p].launch = launch;
        launch->total += launch->process[p].count = options->counts[p];
    }
    mst_wire_test_open = wire_launch_open;
    in_all(launch, open_main);
    return first_failure(launch);
}

void spans_open(spans_launch *launch, const spans_options *options) { assert_ok(spans_try_open(launch, options)); }

muster_status spans_run(spans_launch *launch, mst_task task, void *argument) {
    for (int32_t p = 0; p < launch->processes; p++) {
        launch->process[p].task = task;
        launch->process[p].argument = argument;
    }
    in_all(launch, run_main);
    return first_failure(launch);
}

void spans_close(spans_launch *launch) {
    in_all(launch, close_main);
    const wire_launch_counts counts = wire_launch_count(launch->wire);
    launch->left = counts.messages + counts.requests;
    wire_launch_destroy(launch->wire);
    mst_wire_test_open = NULL;
}

int64_t spans_sent_bytes(const spans_launch *launch) {
    int64_t bytes = 0;
    for (int32_t p = 0; p < launch->processes; p++) bytes += atomic_load(&launch->process[p].nodes->wire->sent_bytes);
    return bytes;
}

int32_t spans_rank(muster_worker *worker) { return muster_communicator_rank(muster_worker_communicator(worker), worker); }
int32_t spans_size(muster_worker *worker) { return muster_communicator_size(muster_worker_communicator(worker)); }

muster_status spans_expect_sum(muster_worker *worker, muster_communicator *communicator, float expected) {
    const int64_t one = 1;
    float x = (float)spans_rank(worker), sum = -1;
    MUSTER_TRY(muster_worker_all_reduce(worker, communicator, MUSTER_SUM, muster_tensor_make(MUSTER_F32, &x, 1, &one),
                                        muster_tensor_make(MUSTER_F32, &sum, 1, &one)));
    return sum == expected ? MUSTER_OK
                           : mst_error(MUSTER_USER, "rank %d: expected %g, received %g", spans_rank(worker), (double)expected, (double)sum);
}
