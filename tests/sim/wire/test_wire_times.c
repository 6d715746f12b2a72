/* What single messages and collectives of the MPI take by the clock of the simulated wire, against
 * LogGP by hand: one test for each thing that a process, or its wire, is busy with. */
#include "wire_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { L = 1000000, O = 70000, GAP = 30000, BYTE = 90 }; /* in ps: 1 us, 70 ns, 30 ns, 11 GB/s */

/* One request of a process after another. */
typedef enum { END = 0, SEND, SEND_MATCHED, RECEIVE, BROADCAST, WAIT } script_what;
typedef struct script_line {
    script_what what;
    int32_t peer, bytes; /* BROADCAST: the root's is `peer`, and all pass the bytes. WAIT: for all */
} script_line;

typedef struct script_process {
    const script_line *lines;
    int32_t line;
    muster_wire_request requests[64];
    int32_t count;
    unsigned char *memory;
} script_process;

enum { SCRIPT_MEMORY = 100000, SCRIPT_PROCESSES = 8 };

typedef struct script {
    wire_launch *launch;
    mst_wire *wires[SCRIPT_PROCESSES];
    script_process processes[SCRIPT_PROCESSES];
    int32_t count;
} script;

static bool script_wait(script *s, int32_t p) {
    script_process *process = &s->processes[p];
    int32_t done[64], done_count;
    const muster_wire_table *table = s->wires[p]->table;
    assert_int_equal(table->test_some(s->wires[p]->state, process->count, process->requests, &done_count, done, NULL), MUSTER_WIRE_OK);
    for (int32_t i = 0; i < process->count; i++)
        if (process->requests[i]) return false;
    process->count = 0;
    return true;
}

static bool script_step(void *user, int32_t p) {
    script *s = user;
    script_process *process = &s->processes[p];
    const muster_wire_table *table = s->wires[p]->table;
    muster_wire *wire = s->wires[p]->state;
    for (;; process->line++) {
        const script_line *line = &process->lines[process->line];
        if (line->what == END) return true;
        if (line->what == WAIT) {
            if (!script_wait(s, p)) return false;
            continue;
        }
        muster_wire_request *request = &process->requests[process->count++];
        int32_t result = MUSTER_WIRE_OK;
        if (line->what == SEND) result = table->send(wire, process->memory, line->bytes, line->peer, 1, request);
        if (line->what == SEND_MATCHED) result = table->send_matched(wire, process->memory, line->bytes, line->peer, 1, request);
        if (line->what == RECEIVE) result = table->receive(wire, process->memory, line->bytes, line->peer, 1, request);
        if (line->what == BROADCAST) result = table->broadcast(wire, process->memory, line->bytes, line->peer, request);
        assert_int_equal(result, MUSTER_WIRE_OK);
    }
}

/* Runs the scripts of some processes. Returns the launch's latest time; times[p] is that of p. */
static int64_t script_run(int32_t count, const script_line *const *lines, const int64_t *begins, int64_t *times) {
    script s = {.count = count};
    s.launch = wire_launch_create(&(wire_launch_options){.processes = count});
    assert_non_null(s.launch);
    assert_true(wire_clock_start(s.launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE}));
    assert_true(wire_clock_open(s.launch, s.wires));
    for (int32_t p = 0; p < count; p++) {
        s.processes[p] = (script_process){.lines = lines[p], .memory = calloc(1, SCRIPT_MEMORY)};
        if (begins) wire_clock_work(s.launch, p, begins[p]);
    }
    wire_drive drive = {.step = script_step, .user = &s};
    assert_int_equal(wire_clock_drive(s.launch, &drive), WIRE_ALL_OVER);
    assert_int_equal(drive.waiting, 0);
    const int64_t latest = wire_clock_time(s.launch, -1);
    for (int32_t p = 0; p < count; p++) {
        times[p] = wire_clock_time(s.launch, p);
        free(s.processes[p].memory);
        s.wires[p]->close(s.wires[p], MST_WIRE_FREE);
    }
    const wire_launch_counts counts = wire_launch_count(s.launch);
    assert_int_equal(counts.messages, 0);
    assert_int_equal(counts.requests, 0);
    assert_int_equal(counts.wires, 0);
    wire_launch_destroy(s.launch);
    return latest;
}

static void test_one_message(void **state) {
    (void)state;
    const int32_t sizes[] = {0, 1, 100, 4096};
    for (int32_t i = 0; i < 4; i++) {
        const script_line a[] = {{SEND, 1, sizes[i]}, {WAIT, 0, 0}, {END, 0, 0}}, b[] = {{RECEIVE, 0, sizes[i]}, {WAIT, 0, 0}, {END, 0, 0}};
        int64_t times[2];
        script_run(2, (const script_line *const[]){a, b}, NULL, times);
        assert_int_equal(times[0], O + (int64_t)sizes[i] * BYTE);
        assert_int_equal(times[1], O + (int64_t)sizes[i] * BYTE + L + O);
    }
}

/* The receiver comes late: the message has been there for a while. */
static void test_late_receive(void **state) {
    (void)state;
    const script_line a[] = {{SEND, 1, 8}, {WAIT, 0, 0}, {END, 0, 0}}, b[] = {{RECEIVE, 0, 8}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[2];
    script_run(2, (const script_line *const[]){a, b}, (int64_t[]){0, 5 * (int64_t)L}, times);
    assert_int_equal(times[1], 5 * (int64_t)L + O);
}

/* Two answers: twice the way. */
static void test_there_and_back(void **state) {
    (void)state;
    const script_line a[] = {{SEND, 1, 8}, {RECEIVE, 1, 8}, {WAIT, 0, 0}, {END, 0, 0}};
    const script_line b[] = {{RECEIVE, 0, 8}, {WAIT, 0, 0}, {SEND, 0, 8}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[2];
    script_run(2, (const script_line *const[]){a, b}, NULL, times);
    assert_int_equal(times[0], 2 * (O + 8 * BYTE + L + O));
}

/* Messages of one sender follow each other by g after the last byte, or by o where that is more. */
static void test_messages_in_a_row(void **state) {
    (void)state;
    for (int32_t k = 1; k <= 5; k++)
        for (int32_t i = 0; i < 2; i++) {
            const int32_t bytes = i ? 4000 : 10;
            script_line a[8] = {{END, 0, 0}}, b[8] = {{END, 0, 0}};
            for (int32_t j = 0; j < k; j++) a[j] = (script_line){SEND, 1, bytes}, b[j] = (script_line){RECEIVE, 0, bytes};
            a[k] = b[k] = (script_line){WAIT, 0, 0};
            int64_t times[2];
            script_run(2, (const script_line *const[]){a, b}, NULL, times);
            const int64_t length = (int64_t)bytes * BYTE, between = length + GAP > O ? length + GAP : O;
            const int64_t there = O + (k - 1) * between + length + L; /* the last one */
            /* Each message that the receiver is told of costs o; it waits for the last ones
             * only. */
            const int64_t told = between > O ? there + O : O + length + L + (int64_t)k * O;
            assert_int_equal(times[1], told);
        }
}

/* Several send to one: its wire takes one message after the other. */
static void test_incast(void **state) {
    (void)state;
    const script_line root[] = {{RECEIVE, 1, 4000}, {RECEIVE, 2, 4000}, {RECEIVE, 3, 4000}, {WAIT, 0, 0}, {END, 0, 0}};
    const script_line leaf[] = {{SEND, 0, 4000}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[4];
    script_run(4, (const script_line *const[]){root, leaf, leaf, leaf}, NULL, times);
    assert_int_equal(times[0], O + L + 3 * 4000 * (int64_t)BYTE + 2 * GAP + O);
}

/* Above eager_bytes: ask, answer, bytes. */
static void test_rendezvous(void **state) {
    (void)state;
    const script_line a[] = {{SEND, 1, 50000}, {WAIT, 0, 0}, {END, 0, 0}}, b[] = {{RECEIVE, 0, 50000}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[2];
    const int64_t length = 50000 * (int64_t)BYTE;
    script_run(2, (const script_line *const[]){a, b}, NULL, times);
    assert_int_equal(times[1], O + L + L + L + length + O);
    assert_int_equal(times[0], O + L + L + length);
    script_run(2, (const script_line *const[]){a, b}, (int64_t[]){0, 7 * (int64_t)L}, times); /* asked long ago */
    assert_int_equal(times[1], 7 * (int64_t)L + L + L + length + O);
}

static void test_matched(void **state) {
    (void)state;
    const script_line a[] = {{SEND_MATCHED, 1, 100}, {WAIT, 0, 0}, {END, 0, 0}}, b[] = {{RECEIVE, 0, 100}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[2];
    script_run(2, (const script_line *const[]){a, b}, NULL, times);
    assert_int_equal(times[0], O + 100 * BYTE + L + L);
    script_run(2, (const script_line *const[]){a, b}, (int64_t[]){0, 9 * (int64_t)L}, times);
    assert_int_equal(times[0], 9 * (int64_t)L + L);
}

/* One sends to several: its wire gives one message away after the other, g apart. The receivers
 * have wires of their own. */
static void test_messages_to_several(void **state) {
    (void)state;
    const int32_t sizes[] = {10, 4000};
    for (int32_t i = 0; i < 2; i++) {
        const int32_t n = sizes[i];
        const script_line root[] = {{SEND, 1, n}, {SEND, 2, n}, {SEND, 3, n}, {WAIT, 0, 0}, {END, 0, 0}};
        const script_line leaf[] = {{RECEIVE, 0, n}, {WAIT, 0, 0}, {END, 0, 0}};
        int64_t times[4];
        script_run(4, (const script_line *const[]){root, leaf, leaf, leaf}, NULL, times);
        const int64_t length = n * (int64_t)BYTE, apart = length + GAP > O ? length + GAP : O;
        for (int32_t k = 1; k <= 3; k++) assert_int_equal(times[k], O + (k - 1) * apart + length + L + O);
    }
}

/* Several ask one for room at the same time: their bytes come one message after the other, too. */
static void test_rendezvous_incast(void **state) {
    (void)state;
    const script_line root[] = {{RECEIVE, 1, 50000}, {RECEIVE, 2, 50000}, {WAIT, 0, 0}, {END, 0, 0}};
    const script_line leaf[] = {{SEND, 0, 50000}, {WAIT, 0, 0}, {END, 0, 0}};
    int64_t times[3];
    script_run(3, (const script_line *const[]){root, leaf, leaf}, NULL, times);
    assert_int_equal(times[0], O + 3 * (int64_t)L + 2 * 50000 * (int64_t)BYTE + GAP + O);
}

/* A collective of the MPI takes ceil(log2(P)) steps from when the last process has come. */
static void test_collective_of_the_mpi(void **state) {
    (void)state;
    const script_line line[] = {{BROADCAST, 0, 100}, {WAIT, 0, 0}, {END, 0, 0}};
    const script_line *const lines[] = {line, line, line, line, line};
    const int64_t begins[] = {0, 5 * (int64_t)L, 2 * (int64_t)L, 0, L};
    const int64_t steps[] = {0, 0, 1, 2, 2, 3};
    for (int32_t processes = 2; processes <= 5; processes++) {
        int64_t times[5];
        script_run(processes, lines, begins, times);
        for (int32_t p = 0; p < processes; p++) assert_int_equal(times[p], 5 * (int64_t)L + steps[processes] * (L + 2 * O + 100 * BYTE));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_late_receive),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_messages_in_a_row),
        cmocka_unit_test(test_messages_to_several),
        cmocka_unit_test(test_incast),
        cmocka_unit_test(test_rendezvous),
        cmocka_unit_test(test_rendezvous_incast),
        cmocka_unit_test(test_matched),
        cmocka_unit_test(test_collective_of_the_mpi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
