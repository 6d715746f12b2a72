/* The wire between threads beyond the contract, which is MPI's: when sends are done, lazy
 * launches, cuts, processes that end, revoked wires, aborts, groups, and what is refused. One
 * thread is all processes. */
#include "wire_launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, OK = MUSTER_WIRE_OK, ERROR = MUSTER_WIRE_ERROR, LOST = MUSTER_WIRE_LOST };

typedef struct fixture {
    wire_launch *launch;
    const muster_wire_table *table;
    muster_wire *wires[MOST];
    int32_t processes;
} fixture;

static void fixture_open_wires(fixture *f, int32_t has_parent, int32_t parent, muster_wire **wires) {
    muster_wire_request requests[MOST];
    int32_t done = 0;
    for (int32_t p = 0; p < f->processes; p++) {
        wire_launch_join(f->launch, p);
        assert_int_equal(f->table->open(has_parent, parent, &wires[p], &requests[p]), OK);
        assert_int_equal(f->table->test(wires[p], &requests[p], &done, NULL), OK);
        assert_int_equal(done, p == f->processes - 1); /* not before all have called it */
    }
    for (int32_t p = 0; p < f->processes; p++) assert_int_equal(f->table->test(wires[p], &requests[p], &done, NULL), OK);
    wire_launch_join(NULL, 0);
}

static fixture fixture_open(wire_launch_options options) {
    fixture f = {.launch = wire_launch_create(&options), .processes = options.processes};
    assert_non_null(f.launch);
    f.table = wire_launch_table(f.launch);
    fixture_open_wires(&f, 0, 0, f.wires);
    return f;
}

static void fixture_close(fixture *f, bool clean) {
    for (int32_t p = 0; p < f->processes; p++) f->table->close(f->wires[p]);
    const wire_launch_counts counts = wire_launch_count(f->launch);
    if (clean) assert_int_equal(counts.messages + counts.requests, 0);
    assert_int_equal(counts.wires, 0);
    wire_launch_destroy(f->launch);
}

/* 1: done, 0: not, negative: the result. */
static int32_t look(fixture *f, int32_t p, muster_wire_request *request) {
    int32_t done = -1;
    const int32_t result = f->table->test(f->wires[p], request, &done, NULL);
    assert_true(result == OK || (*request == 0 && done == 1)); /* a request that failed is over */
    return result == OK ? done : -result;
}

static void test_when_sends_are_done(void **state) {
    (void)state;
    static const int64_t limits[] = {0, 100, -1};
    for (int32_t i = 0; i < 3; i++) {
        fixture f = fixture_open((wire_launch_options){.processes = 2, .eager_bytes = limits[i]});
        static unsigned char out[5000], in[5000];
        const int64_t limit = limits[i] ? limits[i] : WIRE_EAGER_BYTES;
        for (int64_t bytes = limit < 0 ? 0 : limit; bytes <= limit + 1; bytes++) {
            muster_wire_request send = 0, receive = 0;
            memset(out, 1, sizeof out);
            assert_int_equal(f.table->send(f.wires[0], out, bytes, 1, 5, &send), OK);
            assert_int_equal(look(&f, 0, &send), bytes <= limit);
            if (bytes <= limit) memset(out, 2, sizeof out); /* done: the memory is free */
            assert_int_equal(f.table->receive(f.wires[1], in, bytes, 0, 5, &receive), OK);
            assert_int_equal(look(&f, 1, &receive), 1);
            assert_int_equal(look(&f, 0, &send), 1);
            for (int64_t j = 0; j < bytes; j++) assert_int_equal(in[j], 1);
        }
        fixture_close(&f, true);
    }
}

/* What was sent leaves at the second call after it, though the first one says that it is done. */
static void test_lazy(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 2, .lazy = true});
    unsigned char out = 3, in = 0;
    muster_wire_request send = 0, receive = 0, none = 0;
    assert_int_equal(f.table->receive(f.wires[1], &in, 1, 0, 5, &receive), OK);
    assert_int_equal(f.table->send(f.wires[0], &out, 1, 1, 5, &send), OK);
    assert_int_equal(look(&f, 0, &send), 1);
    for (int32_t i = 0; i < 10; i++) assert_int_equal(look(&f, 1, &receive), 0);
    assert_int_equal(look(&f, 0, &none), 1); /* any call */
    assert_int_equal(look(&f, 1, &receive), 1);
    assert_int_equal(in, 3);
    fixture_close(&f, true);
}

/* A cut holds messages in both directions, and between these two only; they come in their order. */
static void test_cuts(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 3});
    unsigned char out[4] = {1, 2, 3, 4}, in[4] = {0};
    muster_wire_request sends[4] = {0}, receives[4] = {0};
    wire_launch_cut(f.launch, 1, 0);
    assert_int_equal(f.table->send(f.wires[0], &out[0], 1, 1, 5, &sends[0]), OK);
    assert_int_equal(f.table->send(f.wires[0], &out[1], 1, 1, 5, &sends[1]), OK);
    assert_int_equal(f.table->send(f.wires[1], &out[2], 1, 0, 5, &sends[2]), OK);
    assert_int_equal(f.table->send(f.wires[2], &out[3], 1, 1, 6, &sends[3]), OK);
    for (int32_t i = 0; i < 2; i++) assert_int_equal(f.table->receive(f.wires[1], &in[i], 1, 0, 5, &receives[i]), OK);
    assert_int_equal(f.table->receive(f.wires[0], &in[2], 1, 1, 5, &receives[2]), OK);
    assert_int_equal(f.table->receive(f.wires[1], &in[3], 1, 2, 6, &receives[3]), OK);
    const int32_t to[4] = {1, 1, 0, 1}, from[4] = {0, 0, 1, 2};
    for (int32_t i = 0; i < 4; i++) assert_int_equal(look(&f, to[i], &receives[i]), i == 3);
    wire_launch_heal(f.launch, 0, 1);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(look(&f, to[i], &receives[i]), 1);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(look(&f, from[i], &sends[i]), 1);
    assert_memory_equal(in, out, 4);
    fixture_close(&f, true);
}

/* With fault tolerance what needs the dead process is lost, and the rest goes on. */
static void test_a_process_ends(void **state) {
    (void)state;
    for (int32_t tolerant = 0; tolerant < 2; tolerant++) {
        fixture f = fixture_open((wire_launch_options){.processes = 3, .fault_tolerance = tolerant});
        unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, in[8] = {0};
        muster_wire_request early = 0, r[6] = {0};
        assert_int_equal(f.table->send(f.wires[2], &bytes[0], 1, 0, 9, &early), OK);
        assert_int_equal(look(&f, 2, &early), 1);
        assert_int_equal(f.table->receive(f.wires[0], &in[0], 1, 2, 5, &r[0]), OK);
        assert_int_equal(f.table->receive(f.wires[0], &in[1], 1, -1, 5, &r[1]), OK);
        assert_int_equal(f.table->send_matched(f.wires[0], &bytes[1], 1, 2, 5, &r[2]), OK);
        assert_int_equal(f.table->broadcast(f.wires[0], &bytes[2], 1, 0, &r[3]), OK);
        assert_int_equal(f.table->receive(f.wires[0], &in[4], 1, 1, 6, &r[4]), OK);
        wire_launch_kill(f.launch, 2);
        for (int32_t i = 0; i < 4; i++) assert_int_equal(look(&f, 0, &r[i]), tolerant ? -LOST : 0);
        assert_int_equal(look(&f, 0, &r[4]), 0); /* process 1 lives */
        assert_int_equal(f.table->receive(f.wires[0], &in[5], 1, 2, 9, &r[5]), OK);
        assert_int_equal(look(&f, 0, &r[5]), 1); /* what it had sent before */
        assert_int_equal(in[5], 1);
        assert_int_equal(f.table->send(f.wires[1], &bytes[4], 1, 0, 6, &r[5]), OK);
        assert_int_equal(look(&f, 0, &r[4]), 1);
        assert_int_equal(look(&f, 1, &r[5]), 1);
        if (tolerant) {
            int32_t ranks[3] = {-1, -1, -1}, count = -1;
            assert_int_equal(f.table->lost(f.wires[0], ranks, 3, &count), OK);
            assert_int_equal(count, 1);
            assert_int_equal(ranks[0], 2);
            assert_int_equal(f.table->lost(f.wires[1], ranks, 0, &count), OK);
            assert_int_equal(count, 1);
        } else {
            assert_null(f.table->lost);
            assert_null(f.table->revoke);
        }
        fixture_close(&f, tolerant);
    }
}

/* Revoked by one, lost for all: what is in progress, and what is called later. */
static void test_revoke(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 3, .fault_tolerance = true});
    muster_wire *others[MOST];
    fixture_open_wires(&f, 0, 0, others);
    unsigned char bytes[2] = {0, 0};
    int32_t there = 0;
    muster_wire_request r = 0, other = 0, later = 0;
    assert_int_equal(f.table->receive(f.wires[1], &bytes[0], 1, 0, 5, &r), OK);
    assert_int_equal(f.table->receive(others[1], &bytes[1], 1, 0, 5, &other), OK);
    assert_int_equal(f.table->revoke(f.wires[0]), OK);
    assert_int_equal(look(&f, 1, &r), -LOST);
    assert_int_equal(f.table->send(f.wires[2], bytes, 1, 0, 5, &later), LOST);
    assert_int_equal(f.table->receive(f.wires[2], bytes, 1, 0, 5, &later), LOST);
    assert_int_equal(f.table->probe(f.wires[2], 0, 5, &there, NULL), LOST);
    assert_int_equal(f.table->all_reduce(f.wires[2], bytes, bytes, 1, MUSTER_WIRE_U8, MUSTER_WIRE_SUM, &later), LOST);
    assert_int_equal(later, 0);
    assert_int_equal(f.table->cancel(others[1], &other), OK); /* another communicator goes on */
    for (int32_t p = 0; p < 3; p++) f.table->close(others[p]);
    fixture_close(&f, true);
}

static void test_abort(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 2});
    unsigned char byte = 0;
    char text[200];
    muster_wire_request r = 0;
    assert_int_equal(wire_launch_aborted(f.launch), -1);
    f.table->abort(f.wires[1], 7);
    f.table->abort(f.wires[0], 9);
    assert_int_equal(wire_launch_aborted(f.launch), 7);
    assert_int_equal(f.table->send(f.wires[0], &byte, 1, 1, 5, &r), ERROR);
    f.table->error(text, sizeof text);
    assert_non_null(strstr(text, "7"));
    fixture_close(&f, true);
}

/* A communicator of some processes, in an order of its own. */
static void test_groups(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 3, .processes_per_host = 2});
    const int32_t members[2] = {2, 0}, wrong[2] = {0, 3};
    assert_int_equal(wire_launch_group(f.launch, wrong, 2), -1);
    const int32_t handle = wire_launch_group(f.launch, members, 2);
    assert_in_range(handle, 1, 100);
    muster_wire *wires[2], *none;
    muster_wire_request requests[2] = {0, 0}, send = 0;
    for (int32_t i = 0; i < 2; i++) {
        char host[WIRE_HOST_TEXT];
        wire_launch_join(f.launch, members[i]);
        assert_int_equal(f.table->open(1, handle, &wires[i], &requests[i]), OK);
        f.table->host(host, sizeof host);
        assert_string_equal(host, members[i] == 2 ? "host1" : "host0");
    }
    wire_launch_join(f.launch, 1);
    assert_int_equal(f.table->open(1, handle, &none, &requests[0]), ERROR);
    assert_int_equal(f.table->open(1, handle + 1, &none, &requests[0]), ERROR);
    wire_launch_join(NULL, 0);
    assert_int_equal(f.table->open(0, 0, &none, &requests[0]), ERROR);
    unsigned char byte = 42, in = 0;
    int32_t done = 0;
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(f.table->rank(wires[i]), i);
        assert_int_equal(f.table->size(wires[i]), 2);
        assert_int_equal(f.table->test(wires[i], &requests[i], &done, NULL), OK);
        assert_int_equal(done, 1);
    }
    muster_wire_status status;
    assert_int_equal(f.table->send(wires[0], &byte, 1, 1, 5, &send), OK);
    assert_int_equal(f.table->receive(wires[1], &in, 1, 0, 5, &requests[1]), OK);
    assert_int_equal(f.table->test(wires[1], &requests[1], &done, &status), OK);
    assert_int_equal(in, 42);
    assert_int_equal(status.from, 0);
    assert_int_equal(f.table->test(wires[0], &send, &done, NULL), OK);
    for (int32_t i = 0; i < 2; i++) f.table->close(wires[i]);
    fixture_close(&f, true);
}

/* Arguments out of range, and requests that are none. */
static void test_refusals(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 2});
    unsigned char byte = 0;
    int32_t there = 0, done = 0;
    muster_wire_request r = 0, stale, foreign = 12345;
    const struct {
        int64_t bytes;
        int32_t process, tag;
    } wrong[] = {{-1, 0, 5}, {(int64_t)INT32_MAX + 1, 0, 5}, {1, 2, 5}, {1, -2, 5}, {1, 0, -1}, {1, 0, 32768}};
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(f.table->send(f.wires[0], &byte, wrong[i].bytes, wrong[i].process, wrong[i].tag, &r), ERROR);
        assert_int_equal(f.table->send_matched(f.wires[0], &byte, wrong[i].bytes, wrong[i].process, wrong[i].tag, &r), ERROR);
        assert_int_equal(f.table->receive(f.wires[0], &byte, wrong[i].bytes, wrong[i].process, wrong[i].tag, &r), ERROR);
        if (i > 1) assert_int_equal(f.table->probe(f.wires[0], wrong[i].process, wrong[i].tag, &there, NULL), ERROR);
    }
    assert_int_equal(f.table->send(f.wires[0], &byte, 1, -1, 5, &r), ERROR); /* to nobody in particular */
    assert_int_equal(f.table->test(f.wires[0], &foreign, &done, NULL), ERROR);
    assert_int_equal(f.table->receive(f.wires[0], &byte, 1, 1, 5, &r), OK);
    stale = r;
    foreign = r;
    assert_int_equal(f.table->test(f.wires[1], &foreign, &done, NULL), ERROR); /* of another process */
    assert_int_equal(f.table->cancel(f.wires[0], &r), OK);
    assert_int_equal(f.table->test(f.wires[0], &stale, &done, NULL), ERROR);
    assert_null(wire_launch_create(&(wire_launch_options){.processes = 0}));
    fixture_close(&f, true);
}

/* Processes that call different collectives are told so, all of them. */
static void test_collectives_that_differ(void **state) {
    (void)state;
    fixture f = fixture_open((wire_launch_options){.processes = 2});
    char text[200];
    int32_t from[2] = {1, 2}, to[2] = {0, 0};
    muster_wire_request r[2] = {0, 0}, none = 0;
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(f.table->all_reduce(f.wires[0], &from[0], &to[0], 1, MUSTER_WIRE_I32, MUSTER_WIRE_SUM, &r[0]), OK);
        if (i == 0) assert_int_equal(f.table->all_reduce(f.wires[1], &from[1], &to[1], 1, MUSTER_WIRE_I32, MUSTER_WIRE_MAX, &r[1]), OK);
        if (i == 1) assert_int_equal(f.table->all_reduce(f.wires[1], &from[1], &to[1], 0, MUSTER_WIRE_I32, MUSTER_WIRE_SUM, &r[1]), OK);
        if (i == 2) assert_int_equal(f.table->broadcast(f.wires[1], &to[1], 4, 0, &r[1]), OK);
        if (i == 3) assert_int_equal(f.table->all_reduce(f.wires[1], &from[1], &to[1], 1, MUSTER_WIRE_I32, MUSTER_WIRE_SUM, &r[1]), OK);
        for (int32_t p = 0; p < 2; p++) {
            assert_int_equal(f.table->send(f.wires[p], &from[0], 4, 2, 5, &none), ERROR); /* another error before */
            assert_int_equal(look(&f, p, &r[p]), i < 3 ? -ERROR : 1);
            f.table->error(text, sizeof text);
            assert_string_equal(text, i < 3 ? "the processes disagree in a collective" : "send: process 2 of 2");
        }
        for (int32_t p = 0; p < 2; p++) assert_int_equal(to[p], i < 3 ? 0 : 3);
    }
    fixture_close(&f, true);
}

/* For mst_wire_test_open: a thread that is no process has no wire. */
static void test_open_of_no_process(void **state) {
    (void)state;
    mst_wire *wire = (mst_wire *)state;
    wire_launch_join(NULL, 0);
    assert_false(wire_launch_open(&wire));
    assert_null(wire);
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = 1});
    wire_launch_join(launch, 0);
    assert_true(wire_launch_open(&wire));
    assert_int_equal(wire->process, 0);
    assert_int_equal(wire->processes, 1);
    wire->close(wire, MST_WIRE_FREE);
    wire_launch_join(NULL, 0);
    wire_launch_destroy(launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_sends_are_done),
        cmocka_unit_test(test_lazy),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_a_process_ends),
        cmocka_unit_test(test_revoke),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_collectives_that_differ),
        cmocka_unit_test(test_open_of_no_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
