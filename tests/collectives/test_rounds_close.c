/* The close of several processes: who closes early, who works on, and who has given up a call
 * before. */
#include "base_await.h"
#include "base_pace.h"
#include "collectives_ends.h"

#include <stdio.h>

static const int64_t close_grace_ns = 200000000;

#define LONG_NS 10000000000 /* which no right run needs */

static void close_early(nodes_test *test, mst_nodes *nodes, int32_t p) {
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    if (p == 1) return;
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

static void test_calls_without_a_process_that_has_closed_are_refused(void **state) {
    (void)state;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++) {
        nodes_test test = {
            .launch_options = {.processes = processes}, .close_grace_ns = test_patience(close_grace_ns), .body = close_early};
        nodes_run(&test);
        for (int32_t p = 0; p < processes; p++)
            for (int32_t k = 2; k < 4 && p != 1; k++)
                nodes_expect(&test, p, p, k, MUSTER_BAD_STATE,
                             "muster_function_call: process 1 (host host0) has closed its runtime, without which there are no calls");
    }
}

/* Process 0 works until all others have closed, and then makes calls, or closes. */
static void work_on(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const bool calls = *(const bool *)test->user;
    ends_note(test, nodes, p);
    nodes->fail_after_ns = p == 0 ? -1 : 20000000; /* how long the others wait for it */
    TEST_AWAIT(p != 0 || atomic_load(&ends.closed) >= nodes->processes - 1, 1000000);
    for (int32_t k = 0; k < 2 && p == 0 && calls; k++) nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

static void expect_closed_by(const nodes_test *test, int32_t k) {
    int32_t by = 0, names = 0;
    char message[MST_MESSAGE_SIZE];
    for (by = 1; by < test->launch_options.processes; by++) {
        snprintf(message, sizeof message,
                 "muster_function_call: process %d (host host0) has closed its runtime, without which there are no calls", (int)by);
        names += strcmp(test->message[0][k], message) == 0;
    }
    assert_int_equal(test->status[0][k], MUSTER_BAD_STATE);
    assert_int_equal(names, 1);
}

/* Nobody is lost: the others keep what process 0 may still use, and it learns that they have
 * closed. */
static void test_a_process_works_on_while_the_others_close(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (int32_t calls = 0; calls < 2; calls++, cases++) {
            nodes_test test = {.launch_options = {.processes = processes},
                               .close_grace_ns = test_patience(close_grace_ns),
                               .body = work_on,
                               .user = &(bool){calls}};
            ends_begin();
            nodes_run(&test);
            for (int32_t p = 1; p < processes; p++) assert_int_equal(ends.ends[p], MST_WIRE_KEEP);
            assert_int_equal(test.notes[0], calls ? 2 : 0);
            for (int32_t k = 0; k < test.notes[0]; k++) expect_closed_by(&test, k);
            assert_int_not_equal(ends.ends[0], MST_WIRE_LOST);
            assert_true(processes == 2 || ends.stale[0] || ends.ends[0] == MST_WIRE_KEEP);
            assert_null(strstr(test.log, "lost"));
            assert_int_equal(test.aborted, -1);
        }
    assert_int_equal(cases, 8);
}

/* Process p learns from its note k that process 1 has closed. */
static void expect_closed(const nodes_test *test, int32_t p, int32_t k) {
    nodes_expect(test, p, p, k, MUSTER_BAD_STATE,
                 "muster_function_call: process 1 (host host0) has closed its runtime, without which there are no calls");
}

typedef enum when {
    BEFORE,  /* the others give up a call, then process 1 closes, and then they make the next one */
    AFTER,   /* the same, but it no longer waits for them when they make the next one */
    AT_ONCE, /* the same, and it has no patience left when it learns of the call that was given up */
    DURING   /* process 1 closes, process 0 gives up a call, and then the others come to that */
} when;

static _Atomic bool given_up; /* a process has given up its call */

static void make_calls(nodes_test *test, mst_nodes *nodes, int32_t count) {
    for (int32_t k = 0; k < count; k++) nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

typedef struct giving {
    when when;
    bool is_broken; /* what process 0 receives in the call is no message of Muster, and it says so; else it is the deadline */
} giving;

/* Process 1, which sends nothing else before its close, sends process 0 what is no arrival. */
static void send_what_is_none(mst_nodes *nodes) {
    static const char bytes[] = "no arrival";
    muster_wire_request request = 0;
    int32_t done = 0;
    mst_wire *wire = nodes->wire;
    pthread_mutex_lock(&wire->lock);
    assert_int_equal(mst_wire_send(wire, bytes, sizeof bytes, 0, mst_wire_tag(0, MST_KIND_ARRIVAL), false, &request), MUSTER_WIRE_OK);
    assert_int_equal(wire->table->test(wire->state, &request, &done, NULL), MUSTER_WIRE_OK);
    pthread_mutex_unlock(&wire->lock);
    assert_true(done);
}

/* Process 1 takes no part in the call that the others give up. */
static void give_up_a_call(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const giving *how = test->user;
    const when w = how->when;
    ends_note(test, nodes, p);
    if (p == 1) {
        if (how->is_broken) send_what_is_none(nodes);
        if (w == AFTER || w == AT_ONCE) nodes->fail_after_ns = w == AFTER ? 20000000 : 0; /* how long it waits in its close */
        if (w != DURING) await_barrier_wait(&test->barrier);
        return;
    }
    TEST_AWAIT(w != DURING || p == 0 || atomic_load(&given_up), 1000000);
    nodes->fail_after_ns = how->is_broken ? LONG_NS : 20000000;
    make_calls(test, nodes, 1);
    atomic_store(&given_up, true);
    nodes->fail_after_ns = LONG_NS;
    if (w != DURING) await_barrier_wait(&test->barrier);
    TEST_AWAIT((w != AFTER && w != AT_ONCE) || atomic_load(&ends.closed) > 0, 1000000);
    make_calls(test, nodes, 2);
}

static void expect_a_close_behind(giving how, int32_t processes) {
    const muster_status expected = how.is_broken ? MUSTER_SYSTEM : MUSTER_TIMEOUT;
    nodes_test test = {
        .launch_options = {.processes = processes}, .close_grace_ns = test_patience(close_grace_ns), .body = give_up_a_call, .user = &how};
    ends_begin();
    atomic_store(&given_up, false);
    nodes_run(&test);
    for (int32_t p = 0; p < processes; p++) {
        if (p == 1) continue;
        assert_int_equal(test.notes[p], 3);
        if (test.status[p][0] != expected) fail_msg("%d, process %d of %d: %s", how.when, p, processes, test.message[p][0]);
        for (int32_t k = 1; k < 3; k++) expect_closed(&test, p, k);
        assert_int_not_equal(ends.ends[p], MST_WIRE_LOST);
    }
    assert_int_equal(ends.ends[1], how.when == AFTER || how.when == AT_ONCE ? MST_WIRE_KEEP : MST_WIRE_FREE);
    assert_null(strstr(test.log, "lost"));
    assert_int_equal(test.aborted, -1);
}

static void test_a_close_goes_on_behind_calls_that_were_given_up(void **state) {
    (void)state;
    int32_t cases = 0;
    for (when w = BEFORE; w <= DURING; w++)
        for (int32_t processes = w == DURING ? 3 : 2; processes <= NODES_MOST; processes++, cases++)
            expect_a_close_behind((giving){.when = w}, processes);
    assert_int_equal(cases, 15);
}

static void test_a_close_goes_on_behind_calls_that_one_process_could_not_begin(void **state) {
    (void)state;
    int32_t cases = 0;
    for (when w = BEFORE; w <= DURING; w++)
        for (int32_t processes = w == DURING ? 3 : 2; processes <= NODES_MOST; processes++, cases++)
            expect_a_close_behind((giving){.when = w, .is_broken = true}, processes);
    assert_int_equal(cases, 15);
}

/* Nobody makes another call: all close, though process 1 has begun fewer calls than the others. */
static void close_after_the_call(nodes_test *test, mst_nodes *nodes, int32_t p) {
    ends_note(test, nodes, p);
    nodes->fail_after_ns = 20000000;
    if (p != 1) make_calls(test, nodes, 2);
    await_barrier_wait(&test->barrier);
    nodes->fail_after_ns = -1;
}

static void test_all_close_together_after_calls_that_were_given_up(void **state) {
    (void)state;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++) {
        nodes_test test = {
            .launch_options = {.processes = processes}, .close_grace_ns = test_patience(close_grace_ns), .body = close_after_the_call};
        nodes_run(&test);
        for (int32_t p = 0; p < processes; p++) {
            for (int32_t k = 0; k < 2 && p != 1; k++) assert_int_equal(test.status[p][k], MUSTER_TIMEOUT);
            assert_int_equal(ends.ends[p], MST_WIRE_FREE);
        }
        assert_int_equal(test.counts.messages + test.counts.requests + test.counts.wires, 0);
    }
}

/* The link is cut while process 1 closes and process 0 gives up a call: what the close has said of
 * that call comes when process 0 has passed it. */
static void close_behind_a_cut_link(nodes_test *test, mst_nodes *nodes, int32_t p) {
    ends_note(test, nodes, p);
    nodes->fail_after_ns = 20000000;
    if (p == 0) wire_launch_cut(test->launch, 0, 1);
    await_barrier_wait(&test->barrier);
    if (p == 1) return;
    make_calls(test, nodes, 2);
    TEST_AWAIT(atomic_load(&ends.closed) > 0, 1000000);
    wire_launch_heal(test->launch, 0, 1);
    nodes->fail_after_ns = -1;
    make_calls(test, nodes, 2);
}

static void test_a_late_word_of_the_close_counts_for_later_calls(void **state) {
    (void)state;
    nodes_test test = {
        .launch_options = {.processes = 2}, .close_grace_ns = test_patience(close_grace_ns), .body = close_behind_a_cut_link};
    ends_begin();
    nodes_run(&test);
    assert_int_equal(test.notes[0], 4);
    for (int32_t k = 0; k < 2; k++) assert_int_equal(test.status[0][k], MUSTER_TIMEOUT);
    for (int32_t k = 2; k < 4; k++) expect_closed(&test, 0, k);
    assert_int_equal(ends.ends[1], MST_WIRE_KEEP);
    assert_int_not_equal(ends.ends[0], MST_WIRE_LOST);
}

/* The begin of process 0 has reached process 1, which closes, and completes the arrival by that.
 * But the link is cut, and process 0 gives the call up. */
static void close_what_is_given_up(nodes_test *test, mst_nodes *nodes, int32_t p) {
    ends_note(test, nodes, p);
    const int64_t sent = wire_launch_count(test->launch).sent;
    await_barrier_wait(&test->barrier);
    if (p == 1) {
        TEST_AWAIT(wire_launch_count(test->launch).sent > sent, 100000);
        wire_launch_cut(test->launch, 0, 1);
        return;
    }
    nodes->fail_after_ns = 150000000;
    make_calls(test, nodes, 1);
    TEST_AWAIT(atomic_load(&ends.closed) > 0, 1000000);
    wire_launch_heal(test->launch, 0, 1);
    nodes->fail_after_ns = LONG_NS;
    make_calls(test, nodes, 2);
}

static void test_a_close_that_completes_what_another_gives_up_is_told(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 2}, .close_grace_ns = test_patience(close_grace_ns), .body = close_what_is_given_up};
    ends_begin();
    nodes_run(&test);
    assert_int_equal(test.notes[0], 3);
    assert_int_equal(test.status[0][0], MUSTER_TIMEOUT);
    for (int32_t k = 1; k < 3; k++) expect_closed(&test, 0, k);
    assert_int_equal(ends.ends[1], MST_WIRE_FREE);
    assert_true(ends.stale[1]);
    assert_int_not_equal(ends.ends[0], MST_WIRE_LOST);
}

/* The link between 1, which closes, and 2, which makes a call, is cut, so that neither has all of
 * the arrival. Process 0 has it, and then runs code of its program, which passes nothing on. */
static void see_a_close_alone(nodes_test *test, mst_nodes *nodes, int32_t p) {
    ends_note(test, nodes, p);
    if (p == 0) wire_launch_cut(test->launch, 1, 2);
    await_barrier_wait(&test->barrier);
    if (p == 2) nodes->fail_after_ns = test_patience(300000000);
    if (p != 1) make_calls(test, nodes, p == 0 ? 1 : 2);
    if (p == 2) wire_launch_heal(test->launch, 1, 2);
    if (p == 2) atomic_store(&given_up, true);
    if (p == 0) TEST_AWAIT(atomic_load(&given_up), 100000);
}

static void test_a_call_that_sees_a_close_tells_those_that_have_given_it_up(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 3}, .close_grace_ns = test_patience(close_grace_ns), .body = see_a_close_alone};
    ends_begin();
    atomic_store(&given_up, false);
    nodes_run(&test);
    expect_closed(&test, 0, 0);
    assert_int_equal(test.notes[2], 2);
    assert_int_equal(test.status[2][0], MUSTER_TIMEOUT);
    expect_closed(&test, 2, 1);
    assert_null(strstr(test.log, "lost"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_without_a_process_that_has_closed_are_refused),
        cmocka_unit_test(test_a_process_works_on_while_the_others_close),
        cmocka_unit_test(test_a_close_goes_on_behind_calls_that_were_given_up),
        cmocka_unit_test(test_a_close_goes_on_behind_calls_that_one_process_could_not_begin),
        cmocka_unit_test(test_a_late_word_of_the_close_counts_for_later_calls),
        cmocka_unit_test(test_a_close_that_completes_what_another_gives_up_is_told),
        cmocka_unit_test(test_a_call_that_sees_a_close_tells_those_that_have_given_it_up),
        cmocka_unit_test(test_all_close_together_after_calls_that_were_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
