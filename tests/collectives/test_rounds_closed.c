/* What a close tells the others, and what it learns from them: of two that have closed, of a
 * process that is lost, and where the runtime has not opened. */
#include "base_await.h"
#include "collectives_ends.h"

enum { MS = 1000000, DEADLINE_MS = 300 };

/* ---- two that have closed ---- */

static void say_closed(mst_nodes *nodes, uint64_t epoch) {
    mst_rounds_poison(nodes, (mst_control_message){.type = MST_CONTROL_CLOSED,
                                                   .epoch = epoch,
                                                   .status = mst_close_refuse(nodes, "muster_runtime_close", nodes->process),
                                                   .rank = -1,
                                                   .process = nodes->process});
}

/* Process 1 says that it takes no part in the next call, and process 2 that it takes none in the
 * one after that. Process 0 takes the one before the other is sent, and makes the next call. */
static void hear_of_two(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int32_t first = *(const int32_t *)test->user;
    const uint64_t next = mst_nodes_epoch(nodes) + 1;
    for (int32_t turn = 0; turn < 2; turn++) {
        if (p == (turn ? 3 - first : first)) say_closed(nodes, next + (p == 2));
        await_barrier_wait(&test->barrier);
        if (p == 0) nodes_take_all(nodes);
        await_barrier_wait(&test->barrier);
    }
    nodes->fail_after_ns = test_patience((int64_t)DEADLINE_MS * MS);
    if (p == 0) nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    await_barrier_wait(&test->barrier);
    atomic_store(&nodes->lost, true); /* so that it closes without the others */
}

static void test_the_lower_epoch_of_two_closes_counts(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 3; processes <= NODES_MOST; processes++)
        for (int32_t first = 1; first <= 2; first++, cases++) {
            nodes_test test = {.launch_options = {.processes = processes}, .body = hear_of_two, .user = &first};
            nodes_run(&test);
            nodes_expect(&test, 0, 0, 0, MUSTER_BAD_STATE,
                         "muster_function_call: process 1 (host host0) has closed its runtime, without which there are no calls");
        }
    assert_int_equal(cases, 6);
}

/* ---- a process that is lost ---- */

typedef struct lost_word {
    bool is_said; /* given */
    _Atomic bool gives_up, goes_on;
} lost_word;

/* Process 1 has waited for the others in its close for long enough. It has not told them so yet. */
static void give_up_the_close(void *user, muster_log_level level, const char *line) {
    lost_word *word = user;
    (void)level, (void)line;
    atomic_store(&word->gives_up, true);
    TEST_AWAIT(atomic_load(&word->goes_on), MS / 10);
}

/* Then process 0, which works on, says that process 2 is lost; or it says nothing. */
static void lose_during_a_close(nodes_test *test, mst_nodes *nodes, int32_t p) {
    lost_word *word = test->user;
    ends_note(test, nodes, p);
    if (p == 1) {
        nodes->rounds->log = give_up_the_close;
        nodes->rounds->log_user = word;
        nodes->fail_after_ns = 20 * MS;
        return;
    }
    if (p == 0) {
        TEST_AWAIT(atomic_load(&word->gives_up), MS / 10);
        if (word->is_said) nodes_note(test, p, mst_nodes_lose(nodes, "muster_function_call", 2, "has ended"));
        atomic_store(&word->goes_on, true);
    }
    TEST_AWAIT(atomic_load(&ends.closed) > 0, MS / 10);
    atomic_store(&nodes->lost, true); /* so that it closes without the others */
}

/* Who keeps its wire waits in its exit until the others have left theirs, which a lost process
 * never does. */
static void test_a_close_does_not_keep_its_wire_where_a_process_is_lost(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t is_said = 0; is_said < 2; is_said++, cases++) {
        lost_word word = {.is_said = is_said};
        nodes_test test = {.launch_options = {.processes = 3}, .on_lost = MST_LOST_ERROR, .body = lose_during_a_close, .user = &word};
        ends_begin();
        nodes_run(&test);
        assert_int_equal(test.notes[0], is_said);
        if (is_said) assert_int_equal(test.status[0][0], MUSTER_NODE_LOST);
        assert_int_equal(ends.ends[1], is_said ? MST_WIRE_LOST : MST_WIRE_KEEP);
    }
    assert_int_equal(cases, 2);
}

/* ---- what the log says ---- */

/* After call 1 process 0 makes two calls without process 1, and gives them up. Then process 1
 * closes, and waits for so long. */
static void close_behind_two_calls(nodes_test *test, mst_nodes *nodes, int32_t p) {
    ends_note(test, nodes, p);
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes->fail_after_ns = 20 * MS;
    for (int32_t k = 0; k < 2 && p == 0; k++) nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    await_barrier_wait(&test->barrier);
    if (p == 1) nodes->fail_after_ns = *(const int64_t *)test->user;
    if (p == 0) TEST_AWAIT(atomic_load(&ends.closed) > 0, MS / 10);
    atomic_store(&nodes->lost, p == 0); /* so that it closes without the others */
}

static void test_the_log_says_what_a_close_has_waited_for(void **state) {
    (void)state;
    static const struct {
        int64_t patience_ns;
        const char *line;
    } cases[] = {
        {0, "muster_runtime_close: other processes have given up call 3, and do not close with this one"},
        {20 * MS, " in the close of the runtime for process 0 (host host0), which does not answer; its last was call 1 (function 'train')"},
    };
    int32_t count = 0;
    for (; count < 2; count++) {
        nodes_test test = {
            .launch_options = {.processes = 2}, .body = close_behind_two_calls, .user = &(int64_t){cases[count].patience_ns}};
        ends_begin();
        nodes_run(&test);
        if (!strstr(test.log, cases[count].line)) fail_msg("'%s' lacks '%s'", test.log, cases[count].line);
    }
    assert_int_equal(count, 2);
}

/* ---- a runtime that has not opened ---- */

/* Process 0 comes to the opening when the others have given that up, and have closed. */
static void open_late(nodes_test *test, mst_nodes *nodes, int32_t p) {
    char *names = NULL;
    ends_note(test, nodes, p);
    nodes->fail_after_ns = p == 0 ? -1 : 20 * MS;
    if (p == 0) TEST_AWAIT(atomic_load(&ends.closed) == nodes->processes - 1, MS / 10);
    nodes_note(test, p, mst_nodes_join(nodes, MUSTER_OK, p + 1, "version=1\n", "device\n", &names));
}

/* They say that they have closed, so that process 0 does not wait for them; and as nobody has work,
 * nobody keeps its wire. */
static void test_a_close_after_a_failed_opening_is_told_and_ends(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++, cases++) {
        nodes_test test = {.launch_options = {.processes = processes}, .no_join = true, .body = open_late};
        ends_begin();
        nodes_run(&test);
        for (int32_t p = 0; p < processes; p++) {
            if (test.notes[p] != 1 || test.status[p][0] != MUSTER_TIMEOUT)
                fail_msg("process %d of %d: %s '%s'", p, processes, muster_status_name(test.status[p][0]), test.message[p][0]);
            assert_int_equal(ends.ends[p], MST_WIRE_LOST);
        }
        if (!strstr(test.log, " in the close of the runtime for ")) fail_msg("no close of %d has waited: '%s'", processes, test.log);
        if (strstr(test.log, "muster_runtime_close: process 0 ")) fail_msg("process 0 of %d has waited: '%s'", processes, test.log);
    }
    assert_int_equal(cases, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lower_epoch_of_two_closes_counts),
        cmocka_unit_test(test_a_close_does_not_keep_its_wire_where_a_process_is_lost),
        cmocka_unit_test(test_the_log_says_what_a_close_has_waited_for),
        cmocka_unit_test(test_a_close_after_a_failed_opening_is_told_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
