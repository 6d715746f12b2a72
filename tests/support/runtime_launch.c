#include "runtime_launch.h"

#include "memory_impl.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

typedef struct launch_thread {
    launch_process process;
    launch_body body;
    pthread_t thread;
} launch_thread;

static _Atomic int32_t arrived, meeting;
static _Atomic bool failed;

bool launch_has_failed(void) { return failed; }
void launch_note_failure(void) { failed = true; }

bool launch_meet(launch_process *p) {
    const int32_t number = meeting;
    if (atomic_fetch_add(&arrived, 1) + 1 == p->processes) {
        arrived = 0;
        meeting = number + 1;
    }
    for (int32_t turn = 0; meeting == number && !failed; turn++) {
        if (turn < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return !failed;
}

bool launch_fail_allocation(launch_process *p, int64_t k) {
    if (!launch_meet(p)) return false;
    if (p->process == 0) mst_memory_fail_at(k);
    return launch_meet(p);
}

static void *thread_main(void *argument) {
    launch_thread *thread = argument;
    wire_launch_join(thread->process.wire, thread->process.process);
    thread->body(&thread->process);
    wire_launch_join(NULL, 0);
    return NULL;
}

static wire_launch_counts launch_all(const wire_launch_options *options, launch_body body, void *context) {
    static launch_thread threads[LAUNCH_PROCESSES];
    assert_in_range(options->processes, 1, LAUNCH_PROCESSES);
    wire_launch *wire = wire_launch_create(options);
    assert_non_null(wire);
    mst_wire_test_open = wire_launch_open;
    arrived = meeting = 0;
    failed = false;
    for (int32_t p = 0; p < options->processes; p++) {
        threads[p] =
            (launch_thread){.process = {.wire = wire, .process = p, .processes = options->processes, .context = context}, .body = body};
        assert_int_equal(pthread_create(&threads[p].thread, NULL, thread_main, &threads[p]), 0);
    }
    for (int32_t p = 0; p < options->processes; p++) assert_int_equal(pthread_join(threads[p].thread, NULL), 0);
    mst_wire_test_open = NULL;
    const wire_launch_counts left = wire_launch_count(wire);
    wire_launch_destroy(wire);
    mst_memory_fail_at(0); /* a body that has ended early may have left it */
    for (int32_t p = 0; p < options->processes; p++)
        if (threads[p].process.error[0]) print_error("process %d: %s\n", (int)p, threads[p].process.error);
    if (failed) fail_msg("the errors of the processes are above");
    assert_int_equal(left.wires, 0);
    return left;
}

void launch_run(const wire_launch_options *options, launch_body body, void *context) {
    assert_int_equal(launch_all(options, body, context).requests, 0);
}

void launch_run_failing(const wire_launch_options *options, launch_body body, void *context) { (void)launch_all(options, body, context); }

muster_runtime_options launch_options(const char *devices) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.fail_after_ns = 60000000000;
    return options;
}

/* "12.345 s" at both places, or "N s" in the sentence: skips it. */
static const char *skip_seconds(const char *text) {
    const size_t digits = strspn(text, "0123456789.");
    return digits > 0 && strncmp(text + digits, " s", 2) == 0 ? text + digits : NULL;
}

bool launch_is_sentence(const char *sentence) {
    const char *received = muster_last_error();
    for (; *sentence && *received; sentence++, received++) {
        const char *after = strncmp(sentence, "N s", 3) == 0 ? skip_seconds(received) : NULL;
        if (after) sentence++, received = after;
        if (*sentence != *received) return false;
    }
    return *sentence == *received;
}
