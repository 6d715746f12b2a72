/* What several processes say and do when one fails, is late, or has ended. */
#include "base_pace.h"
#include "collectives_nodes.h"

#include <stdio.h>
#include <stdlib.h>

enum { MS = 1000000, DEADLINE_MS = 400 };

static int64_t deadline_ns;
static char where_late[64];

/* "0.312" differs from run to run: the number becomes "N". */
static void hide_seconds(nodes_test *test) {
    for (int32_t p = 0; p < NODES_MOST; p++)
        for (int32_t k = 0; k < NODES_NOTES; k++) {
            char *waited = strstr(test->message[p][k], " waited ");
            char *end = waited ? strstr(waited, " s in ") : NULL;
            if (!end) continue;
            waited[8] = 'N';
            memmove(waited + 9, end, strlen(end) + 1);
        }
}

/* ---- a failure in the call ---- */

static void fail_in_call(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int32_t bad = *(const int32_t *)test->user;
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    for (int32_t k = 0; k < 2; k++) { /* the second call is right */
        mst_round round = nodes_round("function 'train'");
        nodes_note(test, p, mst_nodes_begin(nodes, &round));
        round.status = MUSTER_OK;
        if (p == bad && k == 0) {
            nodes_sleep(5 * MS);
            round.rank = mst_nodes_first(nodes);
            round.status = mst_error(MUSTER_USER, "the body of rank %d says no", (int)round.rank);
            mst_nodes_poison(nodes, round.status, round.rank);
            nodes_note(test, p, round.status);
        } else {
            round.status = nodes_collective(test, nodes, &arrival, "all_reduce");
            nodes_note(test, p, round.status);
        }
        nodes_note(test, p, mst_nodes_end(nodes, &round));
    }
    nodes_collective_close(nodes, &arrival);
}

static void test_a_failure_ends_the_waits_of_others(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (int32_t bad = 0; bad < processes; bad++, cases++) {
            nodes_test test = {.launch_options = {.processes = processes, .lazy = cases & 1}, .body = fail_in_call, .user = &bad};
            char expected[MST_MESSAGE_SIZE];
            nodes_run(&test);
            for (int32_t p = 0; p < processes; p++) {
                snprintf(expected, sizeof expected,
                         "muster_worker_all_reduce: process %d (host host0) gave up because rank %d in process %d "
                         "(host host0) failed with USER",
                         (int)p, (int)(bad * (bad + 1) / 2), (int)bad);
                if (p != bad) nodes_expect(&test, p, p, 2, MUSTER_ABORTED, expected);
            }
            snprintf(expected, sizeof expected, "the body of rank %d says no, in process %d (host host0)", (int)(bad * (bad + 1) / 2),
                     (int)bad);
            nodes_expect(&test, 0, processes - 1, 3, MUSTER_USER, expected);
            for (int32_t k = 4; k < 7; k++) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
            assert_int_equal(test.counts.wires, 0);
        }
    assert_int_equal(cases, 14);
}

/* ---- deadlines ---- */

/* Process `user` comes to the collective too late; the others find it through whoever they wait
 * for. */
static void be_late_in_call(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int32_t late = *(const int32_t *)test->user;
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    if (p == late) await_barrier_wait(&test->barrier);
    nodes->fail_after_ns = deadline_ns;
    round.status = p == late ? MUSTER_OK : nodes_collective(test, nodes, &arrival, "all_reduce");
    nodes_note(test, p, round.status);
    if (p != late) await_barrier_wait(&test->barrier);
    nodes->fail_after_ns = -1;
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes_collective_close(nodes, &arrival);
}

static void test_the_late_process_is_named_in_a_call(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++, cases++) {
        int32_t late = processes % 3 % processes;
        nodes_test test = {.launch_options = {.processes = processes, .processes_per_host = 1}, .body = be_late_in_call, .user = &late};
        char expected[MST_MESSAGE_SIZE];
        nodes_run(&test);
        hide_seconds(&test);
        snprintf(expected, sizeof expected, "which does not answer; it is in call 1 (function 'train')");
        snprintf(where_late, sizeof where_late, "for process %d (host host%d), ", (int)late, (int)late);
        int32_t timeouts = 0;
        for (int32_t p = 0; p < processes; p++) {
            timeouts += test.status[p][2] == MUSTER_TIMEOUT;
            if (test.status[p][2] == MUSTER_TIMEOUT && (!strstr(test.message[p][2], expected) || !strstr(test.message[p][2], where_late)))
                fail_msg("process %d: '%s'", (int)p, test.message[p][2]);
            if (p != late && test.status[p][2] != MUSTER_TIMEOUT) assert_int_equal(test.status[p][2], MUSTER_ABORTED);
            assert_int_equal(test.status[p][3], MUSTER_TIMEOUT);
            assert_string_equal(test.message[p][3], test.message[0][3]);
        }
        assert_true(timeouts >= 1);
        for (int32_t k = 4; k < 6; k++) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
    }
    assert_int_equal(cases, 4);
}

/* Process `user` makes its second call only when the others have given it up. */
static void call_late(nodes_test *test, mst_nodes *nodes, int32_t p) {
    nodes_call(test, nodes, "function 'evaluate'", MUSTER_OK);
    if (p == *(const int32_t *)test->user) await_barrier_wait(&test->barrier);
    nodes->fail_after_ns = deadline_ns;
    nodes->warn_after_ns = deadline_ns / 8;
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes->fail_after_ns = nodes->warn_after_ns = -1;
    if (p != *(const int32_t *)test->user) await_barrier_wait(&test->barrier);
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

static void test_a_process_that_makes_no_call_is_named(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++, cases++) {
        int32_t late = processes - 1;
        nodes_test test = {.launch_options = {.processes = processes, .processes_per_host = 2}, .body = call_late, .user = &late};
        char expected[MST_MESSAGE_SIZE];
        nodes_run(&test);
        hide_seconds(&test);
        snprintf(expected, sizeof expected, "for process %d (host host%d), ", (int)late, (int)late / 2);
        for (int32_t p = 0; p < processes; p++) {
            assert_int_equal(test.status[p][2], MUSTER_TIMEOUT);
            if (strncmp(test.message[p][2], "muster_function_call: process ", 30) != 0 || !strstr(test.message[p][2], expected) ||
                !strstr(test.message[p][2], " waited N s in call 2 (function 'train') for ") ||
                !strstr(test.message[p][2], "which has made no call; its last was call 1 (function 'evaluate')"))
                fail_msg("process %d: '%s'", (int)p, test.message[p][2]);
        }
        if (!strstr(test.log, "which has made no call; its last was call 1 (function 'evaluate')")) fail_msg("log: '%s'", test.log);
        for (int32_t k = 3; k < 5; k++) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
    }
    assert_int_equal(cases, 4);
}

/* Two processes wait for each other, each in a collective of its own. */
static void wait_in_a_circle(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_arrival arrivals[2];
    for (int32_t i = 0; i < 2; i++) nodes_note(test, p, nodes_collective_open(nodes, &arrivals[i], 1 + i));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    nodes->fail_after_ns = deadline_ns;
    round.status = nodes_collective(test, nodes, &arrivals[p], p ? "broadcast" : "all_reduce");
    nodes_note(test, p, round.status);
    nodes->fail_after_ns = -1;
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    for (int32_t i = 0; i < 2; i++) nodes_collective_close(nodes, &arrivals[i]);
}

static void test_a_circle_of_waits_is_named(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 2}, .body = wait_in_a_circle};
    nodes_run(&test);
    hide_seconds(&test);
    static const char *const expected[2] = {"muster_worker_all_reduce: process 0 (host host0) waited N s in all_reduce for process 1 (host "
                                            "host0), which waits in broadcast for "
                                            "process 0 (host host0)",
                                            "muster_worker_all_reduce: process 1 (host host0) waited N s in broadcast for process 0 (host "
                                            "host0), which waits in all_reduce for "
                                            "process 1 (host host0)"};
    int32_t timeouts = 0;
    for (int32_t p = 0; p < 2; p++) {
        if (test.status[p][3] != MUSTER_TIMEOUT) continue;
        assert_string_equal(test.message[p][3], expected[p]);
        timeouts++;
    }
    assert_true(timeouts >= 1);
    assert_int_equal(test.status[0][4], MUSTER_TIMEOUT);
}

/* Process 0 returns from its body while process 1, which came later, waits for it in a collective:
 * the deadline of the end round passes first, but a process that answers is not lost. */
static void return_early(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    nodes->fail_after_ns = deadline_ns;
    if (p == 1) {
        nodes_sleep(deadline_ns / 2);
        round.status = nodes_collective(test, nodes, &arrival, "all_reduce");
        nodes_note(test, p, round.status);
    }
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    nodes->fail_after_ns = -1;
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes_collective_close(nodes, &arrival);
}

static void test_a_process_that_answers_is_not_lost(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 2}, .on_lost = MST_LOST_ERROR, .body = return_early};
    nodes_run(&test);
    hide_seconds(&test);
    static const char expected[] =
        "muster_worker_all_reduce: process 1 (host host0) waited N s in all_reduce for process 0 (host host0), which "
        "waits in the end of call 1 (function 'train') for process 1 (host host0)";
    nodes_expect(&test, 1, 1, 2, MUSTER_TIMEOUT, expected);
    nodes_expect(&test, 1, 1, 3, MUSTER_TIMEOUT, expected);
    nodes_expect(&test, 0, 0, 2, MUSTER_TIMEOUT, expected);
    for (int32_t k = 3; k < 5; k++) nodes_expect(&test, 0, 0, k, MUSTER_OK, "");
}

/* ---- lost processes ---- */

/* Process 1 takes three deadlines for its part of the call. */
static void take_long(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    nodes->fail_after_ns = deadline_ns;
    if (p == 1) nodes_sleep(3 * deadline_ns);
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    nodes->fail_after_ns = -1;
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

static void test_a_body_may_take_longer_than_the_deadline(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 3}, .on_lost = MST_LOST_ERROR, .body = take_long};
    nodes_run(&test);
    for (int32_t k = 0; k < 4; k++) nodes_expect(&test, 0, 2, k, MUSTER_OK, "");
}

/* Process 0 has failed, and process 1 never ends the call. */
static void never_end(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    nodes->fail_after_ns = deadline_ns;
    if (p == 0) {
        round.status = mst_error(MUSTER_USER, "no");
        mst_nodes_poison(nodes, round.status, 0);
    }
    if (p != 1) nodes_note(test, p, mst_nodes_end(nodes, &round));
    if (p != 1) nodes_note(test, p, mst_nodes_begin(nodes, &round));
    await_barrier_wait(&test->barrier);
}

static void test_a_process_that_does_not_end_its_call_is_lost(void **state) {
    (void)state;
    for (int32_t on_lost = MST_LOST_ABORT; on_lost <= MST_LOST_ERROR; on_lost++) {
        nodes_test test = {.launch_options = {.processes = 3}, .on_lost = on_lost, .body = never_end};
        nodes_run(&test);
        static const char expected[] =
            "muster_function_call: process 1 (host host0) has not ended call 1 (function 'train'): it is lost, and "
            "this runtime can only be closed";
        for (int32_t p = 0; p < 3; p += 2) {
            if (on_lost == MST_LOST_ABORT && test.status[p][1] == MUSTER_SYSTEM) continue; /* the launch had ended */
            nodes_expect(&test, p, p, 1, MUSTER_NODE_LOST, expected);
            nodes_expect(&test, p, p, 2, MUSTER_NODE_LOST, expected);
        }
        assert_int_equal(test.aborted, on_lost == MST_LOST_ABORT ? 1 : -1);
        assert_true((strstr(test.log, "the launch is aborted in 0.001 s (the option on_lost)") != NULL) == (on_lost == MST_LOST_ABORT));
    }
}

/* How long the launch goes on says the option, else the environment, else the library. */
static void test_the_grace_of_a_lost_process(void **state) {
    (void)state;
    static const struct {
        int64_t option;
        bool environment;
        const char *variable, *said;
    } graces[] = {{2000000, false, "0.5", "0.002 s"}, {-1, false, "0.5", "0 s"}, {0, true, "0.003", "0.003 s"}, {0, true, "0", "0 s"}};
    int32_t cases = 0;
    for (size_t i = 0; i < sizeof graces / sizeof *graces; i++, cases++) {
        nodes_test test = {.launch_options = {.processes = 3},
                           .abort_after_ns = graces[i].option,
                           .environment = graces[i].environment,
                           .body = never_end};
        char said[64];
        snprintf(said, sizeof said, "the launch is aborted in %s (the option on_lost)", graces[i].said);
        setenv("MUSTER_ABORT_AFTER", graces[i].variable, 1);
        nodes_run(&test);
        assert_non_null(strstr(test.log, said));
        assert_int_equal(test.aborted, 1);
    }
    unsetenv("MUSTER_ABORT_AFTER");
    assert_int_equal(cases, 4);
}

static void refused_nodes(nodes_test *test, mst_nodes *nodes, int32_t p) {
    (void)test, (void)nodes, (void)p;
    fail(); /* no process opens */
}

/* All processes of these launches have the same environment. */
static void test_wrong_graces_of_the_environment_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"-1", "86401", "2 s", "nan"}, *const names[] = {"MUSTER_ABORT_AFTER", "MUSTER_EXIT_AFTER"};
    int32_t cases = 0;
    for (int32_t i = 0; i < 8; i++, cases++) {
        char expected[200];
        nodes_test test = {.launch_options = {.processes = 2}, .environment = true, .body = refused_nodes};
        setenv(names[i % 2], wrong[i / 2], 1);
        nodes_run(&test);
        snprintf(expected, sizeof expected,
                 "muster_runtime_open: the environment's %s: expected seconds, from 0 to 86400, received '%s', in process 0 (host host0)",
                 names[i % 2], wrong[i / 2]);
        nodes_expect(&test, 0, 1, 0, MUSTER_INVALID_ARGUMENT, expected);
        assert_int_equal(test.counts.messages + test.counts.requests + test.counts.wires, 0); /* they have closed together */
        unsetenv(names[i % 2]);
    }
    assert_int_equal(cases, 8);
}

/* Process 1 ends in the midst of a collective, on a wire that notices. */
static void die(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    if (p == 1) {
        nodes_sleep(2 * MS);
        wire_launch_kill(test->launch, 1);
        atomic_store(&nodes->lost, true); /* it calls nothing any more */
    } else {
        nodes_note(test, p, nodes_collective(test, nodes, &arrival, "all_reduce"));
        nodes_note(test, p, mst_nodes_end(nodes, &round));
    }
    nodes_collective_close(nodes, &arrival);
}

static void test_a_process_that_has_ended_is_named(void **state) {
    (void)state;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++) {
        nodes_test test = {.launch_options = {.processes = processes, .fault_tolerance = true}, .on_lost = MST_LOST_ERROR, .body = die};
        nodes_run(&test);
        for (int32_t p = 0; p < processes; p++) {
            if (p == 1) continue;
            nodes_expect(&test, p, p, 2, MUSTER_NODE_LOST,
                         "muster_worker_all_reduce: process 1 (host host0) has ended: it is lost, and this runtime can only be closed");
            nodes_expect(&test, p, p, 3, MUSTER_NODE_LOST,
                         "muster_function_call: process 1 (host host0) has ended: it is lost, and this runtime can only be closed");
        }
    }
}

int main(void) {
    deadline_ns = test_patience((int64_t)DEADLINE_MS * MS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_ends_the_waits_of_others),
        cmocka_unit_test(test_the_late_process_is_named_in_a_call),
        cmocka_unit_test(test_a_process_that_makes_no_call_is_named),
        cmocka_unit_test(test_a_circle_of_waits_is_named),
        cmocka_unit_test(test_a_process_that_answers_is_not_lost),
        cmocka_unit_test(test_a_body_may_take_longer_than_the_deadline),
        cmocka_unit_test(test_a_process_that_does_not_end_its_call_is_lost),
        cmocka_unit_test(test_the_grace_of_a_lost_process),
        cmocka_unit_test(test_wrong_graces_of_the_environment_are_refused),
        cmocka_unit_test(test_a_process_that_has_ended_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
