/* The clock of the simulated wire against LogGP by hand, its orders, and its size. */
#include "wire_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_seed.h"

enum { L = 1000000, O = 70000, GAP = 30000, BYTE = 90 }; /* in ps: 1 us, 70 ns, 30 ns, 11 GB/s */

/* One request of a process after another. */
typedef enum { END = 0, SEND, SEND_MATCHED, RECEIVE, WAIT } script_what;
typedef struct script_line {
    script_what what;
    int32_t peer, bytes; /* WAIT: for all */
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
        s.wires[p]->close(s.wires[p], false);
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

/* ---- dissemination, as barriers do it: ceil(log2(P)) steps ---- */

typedef struct ring {
    mst_wire **wires;
    int32_t processes;
    struct ring_process {
        int32_t distance;
        bool begun;
        muster_wire_request requests[2];
    } * process;
} ring;

static bool ring_step(void *user, int32_t p) {
    ring *r = user;
    struct ring_process *process = &r->process[p];
    const muster_wire_table *table = r->wires[p]->table;
    muster_wire *wire = r->wires[p]->state;
    static unsigned char nothing[8];
    for (; process->distance < r->processes; process->distance *= 2, process->begun = false) {
        if (!process->begun) {
            const int32_t to = (p + process->distance) % r->processes, from = (p - process->distance + r->processes) % r->processes;
            assert_int_equal(table->receive(wire, nothing, 8, from, 3, &process->requests[0]), MUSTER_WIRE_OK);
            assert_int_equal(table->send(wire, nothing, 8, to, 3, &process->requests[1]), MUSTER_WIRE_OK);
            process->begun = true;
        }
        int32_t done[2], count;
        assert_int_equal(table->test_some(wire, 2, process->requests, &count, done, NULL), MUSTER_WIRE_OK);
        if (process->requests[0] || process->requests[1]) return false;
    }
    return true;
}

/* Returns the bytes of memory per process. */
static int64_t ring_run(int32_t processes, int64_t jitter, uint64_t seed, int64_t *time) {
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = processes, .seed = seed});
    assert_true(wire_clock_start(launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE, .jitter = jitter}));
    ring r = {.processes = processes};
    r.wires = calloc((size_t)processes, sizeof *r.wires);
    r.process = calloc((size_t)processes, sizeof *r.process);
    for (int32_t p = 0; p < processes; p++) r.process[p].distance = 1;
    assert_true(wire_clock_open(launch, r.wires));
    wire_drive drive = {.step = ring_step, .user = &r};
    assert_int_equal(wire_clock_drive(launch, &drive), WIRE_ALL_OVER);
    *time = wire_clock_time(launch, -1);
    for (int32_t p = 0; p < processes; p++) r.wires[p]->close(r.wires[p], false);
    const wire_launch_counts counts = wire_launch_count(launch);
    assert_int_equal(counts.messages, 0);
    assert_int_equal(counts.requests, 0);
    int64_t steps = 0;
    for (int32_t distance = 1; distance < processes; distance *= 2) steps++;
    assert_int_equal(counts.sent, steps * processes);
    wire_launch_destroy(launch);
    free(r.wires);
    free(r.process);
    return counts.peak_bytes / processes;
}

static void test_dissemination(void **state) {
    (void)state;
    const int32_t sizes[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 64, 100, 1024, 65536};
    int32_t cases = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t time, steps = 0;
        for (int32_t distance = 1; distance < sizes[i]; distance *= 2) steps++;
        const int64_t bytes = ring_run(sizes[i], 0, 0, &time);
        assert_int_equal(time, steps * (O + 8 * BYTE + L + O));
        if (sizes[i] > 1024) assert_in_range(bytes, 1, 2048);
        cases++;
    }
    assert_int_equal(cases, 13);
}

/* Chance changes the times, not what is right; the same seed gives the same time. */
static void test_seeds(void **state) {
    (void)state;
    const int32_t seeds = test_is_full() ? 2000 : 100;
    int32_t different = 0;
    int64_t before = 0;
    for (int32_t i = 0; i < seeds; i++) {
        int64_t first, again;
        ring_run(2 + i % 15, 3 * (int64_t)L, test_seed() * 10000 + (uint64_t)i, &first);
        ring_run(2 + i % 15, 3 * (int64_t)L, test_seed() * 10000 + (uint64_t)i, &again);
        assert_int_equal(first, again);
        different += first != before;
        before = first;
    }
    assert_in_range(different, seeds * 9 / 10, seeds);
}

/* ---- order ---- */

enum { ORDER_MESSAGES = 20, ORDER_TAGS = 3, ORDER_SENDERS = 3 };

typedef struct order {
    mst_wire *wires[ORDER_SENDERS + 1];
    uint8_t sent[ORDER_SENDERS][ORDER_MESSAGES][2];
    muster_wire_request requests[ORDER_SENDERS + 1][ORDER_MESSAGES * ORDER_SENDERS];
    bool begun[ORDER_SENDERS + 1];
    int32_t received, overtaken;
    int32_t next[ORDER_SENDERS][ORDER_TAGS];
    int32_t last;
} order;

/* Process 0 takes what comes, of any tag. */
static bool order_receive(order *o) {
    const muster_wire_table *table = o->wires[0]->table;
    for (int32_t tag = 0; tag < ORDER_TAGS; tag++) {
        int32_t there = 0;
        uint8_t message[2];
        muster_wire_request request = 0;
        muster_wire_status status;
        assert_int_equal(table->probe(o->wires[0]->state, -1, tag, &there, &status), MUSTER_WIRE_OK);
        if (!there) continue;
        assert_int_equal(table->receive(o->wires[0]->state, message, 2, -1, tag, &request), MUSTER_WIRE_OK);
        int32_t done = 0;
        while (!done) assert_int_equal(table->test(o->wires[0]->state, &request, &done, &status), MUSTER_WIRE_OK);
        assert_int_equal(message[0] % ORDER_TAGS, tag);
        const int32_t sender = status.from - 1;
        assert_int_equal(message[0], tag + ORDER_TAGS * o->next[sender][tag]++); /* in the order of its sends */
        o->overtaken += message[1] < o->last;
        o->last = message[1];
        o->received++;
        tag = -1;
    }
    return o->received == ORDER_MESSAGES * ORDER_SENDERS;
}

static bool order_step(void *user, int32_t p) {
    order *o = user;
    if (!p) return order_receive(o);
    const muster_wire_table *table = o->wires[p]->table;
    for (int32_t i = 0; i < ORDER_MESSAGES && !o->begun[p]; i++) {
        o->sent[p - 1][i][0] = (uint8_t)i;
        o->sent[p - 1][i][1] = (uint8_t)(i * ORDER_SENDERS + p);
        assert_int_equal(table->send(o->wires[p]->state, o->sent[p - 1][i], 2, 0, i % ORDER_TAGS, &o->requests[p][i]), MUSTER_WIRE_OK);
    }
    o->begun[p] = true;
    int32_t count, done[ORDER_MESSAGES];
    assert_int_equal(table->test_some(o->wires[p]->state, ORDER_MESSAGES, o->requests[p], &count, done, NULL), MUSTER_WIRE_OK);
    for (int32_t i = 0; i < ORDER_MESSAGES; i++)
        if (o->requests[p][i]) return false;
    return true;
}

/* Of one sender and tag in order, otherwise not. */
static void test_order_with_jitter(void **state) {
    (void)state;
    const int32_t seeds = test_is_full() ? 2000 : 100;
    int64_t overtaken = 0;
    for (int32_t i = 0; i < seeds; i++) {
        order o;
        memset(&o, 0, sizeof o);
        wire_launch *launch =
            wire_launch_create(&(wire_launch_options){.processes = ORDER_SENDERS + 1, .seed = test_seed() * 5000 + (uint64_t)i});
        assert_true(wire_clock_start(
            launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE, .jitter = 5 * (int64_t)L}));
        assert_true(wire_clock_open(launch, o.wires));
        wire_drive drive = {.step = order_step, .user = &o, .idle_calls = 20};
        assert_int_equal(wire_clock_drive(launch, &drive), WIRE_ALL_OVER);
        assert_int_equal(o.received, ORDER_MESSAGES * ORDER_SENDERS);
        overtaken += o.overtaken;
        for (int32_t p = 0; p <= ORDER_SENDERS; p++) o.wires[p]->close(o.wires[p], false);
        assert_int_equal(wire_launch_count(launch).messages, 0);
        wire_launch_destroy(launch);
    }
    assert_in_range(overtaken, seeds * 5, INT64_MAX);
}

/* ---- what does not end ---- */

static wire_verdict ends_run(int32_t dead, int32_t stopped, bool cut, bool fault_tolerance, int64_t *left) {
    enum { PROCESSES = 4 };
    mst_wire *wires[PROCESSES];
    struct ring_process process[PROCESSES] = {{.distance = 1}, {.distance = 1}, {.distance = 1}, {.distance = 1}};
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = PROCESSES, .fault_tolerance = fault_tolerance});
    assert_true(wire_clock_start(launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE}));
    assert_true(wire_clock_open(launch, wires));
    if (dead >= 0) wire_launch_kill(launch, dead);
    if (stopped >= 0) wire_clock_stop(launch, stopped);
    if (cut) wire_launch_cut(launch, 0, 1);
    ring r = {.wires = wires, .processes = PROCESSES, .process = process};
    wire_drive drive = {.step = ring_step, .user = &r};
    wire_verdict verdict = wire_clock_drive(launch, &drive);
    *left = drive.waiting;
    if (verdict == WIRE_STUCK && dead < 0) { /* it goes on */
        if (cut) wire_launch_heal(launch, 0, 1);
        if (stopped >= 0) wire_clock_continue(launch, stopped);
        assert_int_equal(wire_clock_drive(launch, &drive), WIRE_ALL_OVER);
    }
    for (int32_t p = 0; p < PROCESSES; p++) wires[p]->close(wires[p], true);
    wire_launch_destroy(launch);
    return verdict;
}

static void test_what_does_not_end(void **state) {
    (void)state;
    int64_t left;
    assert_int_equal(ends_run(-1, -1, false, false, &left), WIRE_ALL_OVER);
    assert_int_equal(ends_run(2, -1, false, false, &left), WIRE_STUCK);
    assert_int_equal(left, 4); /* nobody gets through without it */
    assert_int_equal(ends_run(-1, 1, false, false, &left), WIRE_STUCK);
    assert_int_equal(ends_run(-1, -1, true, false, &left), WIRE_STUCK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_late_receive),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_messages_in_a_row),
        cmocka_unit_test(test_incast),
        cmocka_unit_test(test_rendezvous),
        cmocka_unit_test(test_matched),
        cmocka_unit_test(test_dissemination),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_order_with_jitter),
        cmocka_unit_test(test_what_does_not_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
