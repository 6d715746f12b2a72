/* The rounds of several processes: what they agree on, and what they say where they do not. */
#include "collectives_nodes.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

static void note_true(nodes_test *test, int32_t p, bool right, const char *what) {
    nodes_note(test, p, right ? MUSTER_OK : mst_error(MUSTER_INTERNAL, "process %d: %s", (int)p, what));
}

static void look_at_nodes(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int32_t processes = test->launch_options.processes, each = test->launch_options.processes_per_host;
    char text[MST_PROCESS_TEXT], expected[MST_PROCESS_TEXT];
    bool ranks = true, hosts = true;
    for (int32_t q = 0; q < processes; q++) {
        ranks &= nodes->first[q] == q * (q + 1) / 2;
        for (int32_t r = 0; r <= q; r++) ranks &= mst_nodes_process_of(nodes, nodes->first[q] + r) == q;
        hosts &= nodes->host_of[q] == q / each;
    }
    snprintf(expected, sizeof expected, "process %d (host host%d)", (int)p, (int)(p / each));
    note_true(test, p, nodes->process == p && nodes->processes == processes, "process and processes");
    note_true(test, p, ranks && mst_nodes_total(nodes) == processes * (processes + 1) / 2, "ranks");
    note_true(test, p, hosts && nodes->hosts == (processes + each - 1) / each, "hosts");
    note_true(test, p,
              nodes->local == p % each && nodes->locals == (processes - p / each * each < each ? processes - p / each * each : each),
              "locals");
    note_true(test, p, strcmp(mst_nodes_process_text(nodes, p, text), expected) == 0, text);
}

static void test_open_finds_ranks_and_hosts(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (int32_t each = 1; each <= 3; each++, cases++) {
            nodes_test test = {.launch_options = {.processes = processes, .processes_per_host = each}, .body = look_at_nodes};
            nodes_run(&test);
            for (int32_t k = 0; k < 5; k++) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
            assert_int_equal(test.counts.messages + test.counts.requests + test.counts.wires, 0);
        }
    assert_int_equal(cases, 12);
}

static void expect_given_host(nodes_test *test, mst_nodes *nodes, int32_t p) {
    char text[MST_PROCESS_TEXT];
    note_true(test, p, strcmp(mst_nodes_process_text(nodes, 1, text), "process 1 (host given)") == 0 && nodes->hosts == 1, text);
}

static void test_the_environment_names_the_host(void **state) {
    (void)state;
    setenv("MUSTER_HOSTNAME", "given", 1);
    nodes_test test = {.launch_options = {.processes = 3, .processes_per_host = 1}, .body = expect_given_host};
    nodes_run(&test);
    unsetenv("MUSTER_HOSTNAME");
    nodes_expect(&test, 0, 2, 0, MUSTER_OK, "");
}

static void expect_none(nodes_test *test, mst_nodes *nodes, int32_t p) { note_true(test, p, nodes == NULL, "one process has nodes"); }

static void test_one_process_has_no_nodes(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 1}, .body = expect_none};
    nodes_run(&test);
    nodes_expect(&test, 0, 0, 0, MUSTER_OK, "");
    assert_int_equal(test.counts.wires + test.counts.sent, 0);
}

/* ---- rounds ---- */

enum { ROUNDS = 20 };

static void count_rounds(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int64_t messages = atomic_load(&nodes->wire->sent_messages);
    const int64_t allocations = p == 0 ? mst_memory_count() : 0;
    bool right = true;
    int32_t steps = 0;
    while (1 << steps < nodes->processes) steps++;
    for (int64_t k = 0; k < ROUNDS; k++) {
        mst_round round = nodes_round("function 'train'");
        const int64_t payload[3] = {k, p, k * p};
        for (int32_t end = 0; end < 2; end++) {
            round.payload = payload;
            round.payload_bytes = end ? 24 : 16;
            right &= (end ? mst_nodes_end : mst_nodes_begin)(nodes, &round) == MUSTER_OK;
            for (int64_t q = 0; q < nodes->processes && right; q++) {
                int64_t seen[3] = {0};
                memcpy(seen, (const char *)round.all + q * round.payload_bytes, (size_t)round.payload_bytes);
                right &= seen[0] == k && seen[1] == q && seen[2] == (end ? k * q : 0);
            }
        }
    }
    note_true(test, p, right, "rounds");
    note_true(test, p, atomic_load(&nodes->wire->sent_messages) - messages == 2 * ROUNDS * steps, "messages");
    note_true(test, p, p != 0 || mst_memory_count() == allocations, "allocations");
}

static void test_rounds_bring_payloads_to_all(void **state) {
    (void)state;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (int32_t lazy = 0; lazy < 2; lazy++) {
            nodes_test test = {.launch_options = {.processes = processes, .lazy = lazy}, .body = count_rounds};
            nodes_run(&test);
            for (int32_t k = 0; k < 3; k++) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
        }
}

/* Process `user` makes another call as its second; the third one is right again. */
static void call_others(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const int32_t odd = *(const int32_t *)test->user;
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
    nodes_call(test, nodes, p == odd ? "function 'evaluate'" : "function 'train'", MUSTER_OK);
    nodes_call(test, nodes, "function 'train'", MUSTER_OK);
}

static void test_different_calls_are_refused(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (int32_t odd = 0; odd < processes; odd++, cases++) {
            nodes_test test = {.launch_options = {.processes = processes, .processes_per_host = 1}, .body = call_others, .user = &odd};
            char expected[MST_MESSAGE_SIZE];
            nodes_run(&test);
            if (odd == 0)
                snprintf(expected, sizeof expected,
                         "muster_function_call: process 1 (host host1): call 2 is function 'train' here and "
                         "function 'evaluate' in process 0 (host host0)");
            else
                snprintf(expected, sizeof expected,
                         "muster_function_call: process %d (host host%d): call 2 is function 'evaluate' here and "
                         "function 'train' in process 0 (host host0)",
                         (int)odd, (int)odd);
            nodes_expect(&test, 0, processes - 1, 2, MUSTER_INVALID_ARGUMENT, expected);
            for (int32_t k = 0; k < 5; k++)
                if (k != 2) nodes_expect(&test, 0, processes - 1, k, MUSTER_OK, "");
        }
    assert_int_equal(cases, 14);
}

/* The same text, but another signature, or other bytes. */
static void pass_others(nodes_test *test, mst_nodes *nodes, int32_t p) {
    for (int32_t k = 0; k < 2; k++) {
        mst_round round = nodes_round("function 'train'");
        round.payload = "abcdefgh";
        round.payload_bytes = k == 1 && p == 1 ? 8 : 4;
        round.signature += k == 0 && p == 1;
        nodes_note(test, p, mst_nodes_begin(nodes, &round));
    }
}

static void test_different_arguments_are_refused(void **state) {
    (void)state;
    nodes_test test = {.launch_options = {.processes = 3}, .body = pass_others};
    nodes_run(&test);
    for (int32_t k = 0; k < 2; k++) {
        char expected[MST_MESSAGE_SIZE];
        snprintf(expected, sizeof expected,
                 "muster_function_call: process 1 (host host0): call %d, function 'train', differs here in what it "
                 "passes from that of process 0 (host host0)",
                 (int)k + 1);
        nodes_expect(&test, 0, 2, k, MUSTER_INVALID_ARGUMENT, expected);
    }
}

/* Processes 1 and up refuse, each with a message of its own; then they fail in the call. */
static void refuse(nodes_test *test, mst_nodes *nodes, int32_t p) {
    mst_round round = nodes_round("function 'train'");
    if (p > 0) round.status = mst_error(MUSTER_SHAPE_MISMATCH, "muster_function_call: input 'x' of process %d: 3 rows", (int)p);
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    char longest[MST_MESSAGE_SIZE];
    memset(longest, 'a' + p, sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    if (p > 0) mst_error(MUSTER_USER, "%s", longest);
    nodes_call(test, nodes, "function 'train'", p > 0 ? MUSTER_USER : MUSTER_OK);
}

static void test_lowest_failure_reaches_all(void **state) {
    (void)state;
    static const char who[] = ", in process 1 (host host0)";
    for (int32_t processes = 2; processes <= NODES_MOST; processes++) {
        nodes_test test = {.launch_options = {.processes = processes}, .body = refuse};
        char longest[MST_MESSAGE_SIZE];
        memset(longest, 'b', sizeof longest - 1);
        memcpy(longest + sizeof longest - sizeof who, who, sizeof who);
        nodes_run(&test);
        nodes_expect(&test, 0, processes - 1, 0, MUSTER_SHAPE_MISMATCH,
                     "muster_function_call: input 'x' of process 1: 3 rows, in process 1 (host host0)");
        nodes_expect(&test, 0, processes - 1, 1, MUSTER_OK, "");
        nodes_expect(&test, 0, processes - 1, 2, MUSTER_USER, longest);
    }
}

/* ---- joining and closing ---- */

static void join_others(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const char *what = test->user;
    char *names = NULL, agreement[6000];
    memset(agreement, 'x', sizeof agreement);
    snprintf(agreement + 5000, sizeof agreement - 5000, "=1\nversion=%s\nlast=1\n", p == 1 && *what == 'v' ? "2.0" : "1.9");
    muster_status status = MUSTER_OK;
    if (p == 2 && *what == 'd') status = mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: there is no GPU");
    nodes_note(test, p, mst_nodes_join(nodes, status, p, agreement, p == 0 ? "" : p == 1 ? "one\n" : "two\nthree\n", &names));
    note_true(test, p, *what != 'n' || (names && strcmp(names, "one\ntwo\nthree\n") == 0), "names");
    note_true(test, p, *what != 'n' || (nodes->first && mst_nodes_total(nodes) == 3), "ranks");
    mst_free(names);
}

static void test_join_compares_what_must_be_equal(void **state) {
    (void)state;
    static const char *const whats[] = {"nothing", "version", "device"};
    static const char *const messages[] = {"",
                                           ("muster_runtime_open: version: expected the same in all processes, received '1.9' in process 0 "
                                            "(host host0) and '2.0' in process 1 (host host0)"),
                                           "muster_runtime_open: there is no GPU, in process 2 (host host0)"};
    static const muster_status statuses[] = {MUSTER_OK, MUSTER_INVALID_ARGUMENT, MUSTER_UNAVAILABLE};
    for (int32_t k = 0; k < 3; k++) {
        nodes_test test = {.launch_options = {.processes = 3}, .body = join_others, .no_join = true, .user = (void *)whats[k]};
        nodes_run(&test);
        nodes_expect(&test, 0, 2, 0, statuses[k], messages[k]);
        for (int32_t note = 1; note < 3; note++) nodes_expect(&test, 0, 2, note, MUSTER_OK, "");
        assert_int_equal(test.counts.messages + test.counts.requests + test.counts.wires, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_finds_ranks_and_hosts),  cmocka_unit_test(test_the_environment_names_the_host),
        cmocka_unit_test(test_one_process_has_no_nodes),    cmocka_unit_test(test_rounds_bring_payloads_to_all),
        cmocka_unit_test(test_different_calls_are_refused), cmocka_unit_test(test_different_arguments_are_refused),
        cmocka_unit_test(test_lowest_failure_reaches_all),  cmocka_unit_test(test_join_compares_what_must_be_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
