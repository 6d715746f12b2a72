/* The clock of the simulated wire with many processes: dissemination against LogGP by hand, orders,
 * and what does not end. Single messages: test_wire_times.c. */
#include "wire_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_seed.h"

enum { L = 1000000, O = 70000, GAP = 30000, BYTE = 90 }; /* in ps: 1 us, 70 ns, 30 ns, 11 GB/s */

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
    for (int32_t p = 0; p < processes; p++) r.wires[p]->close(r.wires[p], MST_WIRE_FREE);
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
        for (int32_t p = 0; p <= ORDER_SENDERS; p++) o.wires[p]->close(o.wires[p], MST_WIRE_FREE);
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
    for (int32_t p = 0; p < PROCESSES; p++) wires[p]->close(wires[p], MST_WIRE_LOST);
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
        cmocka_unit_test(test_dissemination),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_order_with_jitter),
        cmocka_unit_test(test_what_does_not_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
