#include "collectives_nodes.h"

#include <stdio.h>
#include <time.h>

static void log_line(void *user, muster_log_level level, const char *line) {
    nodes_test *test = user;
    (void)level;
    pthread_mutex_lock(&test->lock);
    const size_t length = strlen(test->log);
    snprintf(test->log + length, sizeof test->log - length, "%s\n", line);
    pthread_mutex_unlock(&test->lock);
}

typedef struct nodes_thread {
    nodes_test *test;
    int32_t process;
} nodes_thread;

void nodes_note(nodes_test *test, int32_t process, muster_status status) {
    const int32_t k = test->notes[process]++;
    if (k >= NODES_NOTES) return;
    test->status[process][k] = status;
    if (status != MUSTER_OK) mst_error_save(test->message[process][k]);
}

static void *main_of_thread(void *argument) {
    const nodes_thread *thread = argument;
    nodes_test *test = thread->test;
    const int32_t p = thread->process;
    wire_launch_join(test->launch, p);
    const int64_t grace = test->abort_after_ns ? test->abort_after_ns : 1000000;
    const mst_nodes_options options = {.warn_after_ns = -1,
                                       .fail_after_ns = -1,
                                       .on_lost = test->on_lost,
                                       .abort_after_ns = test->environment ? 0 : grace,
                                       .close_grace_ns = test->close_grace_ns,
                                       .log = log_line,
                                       .log_user = test};
    mst_nodes *nodes = NULL;
    char *names = NULL;
    muster_status status = mst_nodes_open(&options, &nodes);
    if (status == MUSTER_OK && nodes && !test->no_join) status = mst_nodes_join(nodes, MUSTER_OK, p + 1, "version=1\n", "device\n", &names);
    if (status != MUSTER_OK)
        nodes_note(test, p, status);
    else
        test->body(test, nodes, p);
    mst_free(names);
    mst_nodes_close(nodes);
    wire_launch_join(NULL, 0);
    return NULL;
}

void nodes_run(nodes_test *test) {
    const int32_t processes = test->launch_options.processes;
    nodes_thread threads[NODES_MOST];
    pthread_t ids[NODES_MOST];
    pthread_mutex_init(&test->lock, NULL);
    test->barrier = (await_barrier){.threads = processes};
    test->launch = wire_launch_create(&test->launch_options);
    assert_non_null(test->launch);
    mst_wire_test_open = test->open ? test->open : wire_launch_open;
    for (int32_t p = 0; p < processes; p++) {
        threads[p] = (nodes_thread){test, p};
        assert_int_equal(pthread_create(&ids[p], NULL, main_of_thread, &threads[p]), 0);
    }
    for (int32_t p = 0; p < processes; p++) pthread_join(ids[p], NULL);
    mst_wire_test_open = NULL;
    test->counts = wire_launch_count(test->launch);
    test->aborted = wire_launch_aborted(test->launch);
    wire_launch_destroy(test->launch);
    pthread_mutex_destroy(&test->lock);
}

mst_round nodes_round(const char *text) {
    mst_round round = {.where = "muster_function_call", .rank = -1};
    snprintf(round.text, sizeof round.text, "%s", text);
    for (; *text; text++) round.signature = round.signature * 31 + (unsigned char)*text;
    return round;
}

void nodes_call(nodes_test *test, mst_nodes *nodes, const char *text, muster_status own) {
    mst_round round = nodes_round(text);
    const muster_status begun = mst_nodes_begin(nodes, &round);
    nodes_note(test, nodes->process, begun);
    if (begun != MUSTER_OK) return;
    round.status = own;
    round.rank = own == MUSTER_OK ? -1 : mst_nodes_first(nodes);
    nodes_note(test, nodes->process, mst_nodes_end(nodes, &round));
}

muster_status nodes_collective_open(mst_nodes *nodes, mst_arrival *arrival, int32_t lane) {
    const mst_channel channel = {.wire = nodes->wire, .lane = lane, .size = nodes->processes, .rank = nodes->process};
    return mst_arrival_open(arrival, &channel, 0);
}

void nodes_collective_close(mst_nodes *nodes, mst_arrival *arrival) {
    pthread_mutex_lock(&nodes->wire->lock);
    mst_arrival_close(arrival);
    pthread_mutex_unlock(&nodes->wire->lock);
}

muster_status nodes_collective(nodes_test *test, mst_nodes *nodes, mst_arrival *arrival, const char *what) {
    (void)test;
    mst_arrival_begin(arrival, &(mst_arrival_input){.epoch = mst_nodes_epoch(nodes)});
    mst_nodes_wait wait = {.waiter = {.doing = what, .epoch = mst_nodes_epoch(nodes), .lane = arrival->channel.lane},
                           .where = "muster_worker_all_reduce",
                           .phase = MST_WAIT_CALL,
                           .warn_after_ns = nodes->warn_after_ns,
                           .fail_after_ns = nodes->fail_after_ns};
    return mst_nodes_wait_run(nodes, &wait, &arrival->machine);
}

void nodes_sleep(int64_t ns) {
    const struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&time, NULL);
}

void nodes_expect(const nodes_test *test, int32_t first, int32_t last, int32_t k, muster_status status, const char *message) {
    for (int32_t p = first; p <= last; p++) {
        if (test->notes[p] <= k)
            fail_msg("process %d noted only %d things, the last one: %s", (int)p, (int)test->notes[p], test->message[p][0]);
        if (test->status[p][k] != status || (status != MUSTER_OK && strcmp(test->message[p][k], message) != 0))
            fail_msg("process %d, note %d: expected %s '%s', received %s '%s'", (int)p, (int)k, muster_status_name(status), message,
                     muster_status_name(test->status[p][k]), test->message[p][k]);
    }
}

void nodes_take_all(mst_nodes *nodes) {
    pthread_mutex_lock(&nodes->wire->lock);
    while (mst_control_progress(&nodes->rounds->control, nodes->rounds->epoch) == MST_PROGRESS_RUNNING) {}
    pthread_mutex_unlock(&nodes->wire->lock);
}
