/* A process that has stopped takes no control messages, so that the slots for questions to it stay
 * taken, and with two such processes all slots but the one for answers: a deadline must pass all
 * the same, and name a process. Of the calls that a process gives up meanwhile only the last one
 * may become known. */
#include "base_await.h"
#include "base_pace.h"
#include "collectives_nodes.h"

#include <stdio.h>

enum { MS = 1000000, DEADLINE_MS = 200, LONGEST_MS = 20000 };

typedef struct held {
    int32_t stopped[2]; /* these processes stand still in the call; 0: none */
    int32_t held[2];    /* the questions that process 0 could send to each */
    bool fails;         /* the body of process 0 fails, in place of waiting in a collective */
    atomic_bool over;
    atomic_bool woke; /* a stopped process was waited for without end */
    int64_t deadline_ns;
} held;

/* Nobody answers them, and they stay in their slots: nothing leaves before it is received. */
static int32_t ask_until_held(mst_nodes *nodes, int32_t process) {
    const mst_control_message what = {.type = MST_CONTROL_QUESTION, .epoch = mst_nodes_epoch(nodes)};
    mst_control_question question = {0};
    int32_t count = 0;
    pthread_mutex_lock(&nodes->wire->lock);
    while (count < 100 && mst_control_ask(&nodes->rounds->control, &question, &what, process)) count++;
    pthread_mutex_unlock(&nodes->wire->lock);
    return count;
}

static void stand_still(held *h) {
    const int64_t until = pace_now_ns() + test_patience((int64_t)LONGEST_MS * MS);
    while (!atomic_load(&h->over) && !h->woke) {
        nodes_sleep(5 * MS);
        if (pace_now_ns() > until) atomic_store(&h->woke, true);
    }
}

static void body(nodes_test *test, mst_nodes *nodes, int32_t p) {
    held *h = test->user;
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    pthread_barrier_wait(&test->barrier); /* from here on that process takes nothing */
    const bool stops = p && (p == h->stopped[0] || p == h->stopped[1]);
    if (stops) stand_still(h);
    if (p == 0) {
        for (int32_t i = 0; i < 2 && h->stopped[i]; i++) h->held[i] = ask_until_held(nodes, h->stopped[i]);
        nodes->fail_after_ns = h->deadline_ns; /* the others ask nobody */
    }
    if (p == 0 && h->fails) {
        round.status = mst_error(MUSTER_USER, "no");
        mst_nodes_poison(nodes, round.status, 0);
    } else if (!stops) {
        round.status = nodes_collective(test, nodes, &arrival, "all_reduce");
    }
    nodes_note(test, p, round.status);
    if (p == 0 && !h->fails) atomic_store(&h->over, true);
    if (!h->fails) nodes->fail_after_ns = -1;
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    if (p == 0) atomic_store(&h->over, true);
    nodes_collective_close(nodes, &arrival);
}

static void run(held *h, int32_t processes, nodes_test *test) {
    h->deadline_ns = test_patience((int64_t)DEADLINE_MS * MS);
    *test = (nodes_test){.launch_options = {.processes = processes, .processes_per_host = 1, .eager_bytes = -1},
                         .on_lost = MST_LOST_ERROR,
                         .body = body,
                         .user = h};
    nodes_run(test);
    for (int32_t i = 0; i < 2 && h->stopped[i]; i++)
        assert_in_range(h->held[i], 4, 5); /* half of 8 slots; the first question may have been received */
    if (h->woke) fail_msg("the deadline of process 0 has not passed: '%s'", test->message[0][2]);
}

static void test_the_process_that_takes_no_questions_is_named(void **state) {
    (void)state;
    held h = {.stopped = {1}};
    static nodes_test test;
    run(&h, 2, &test);
    nodes_expect(&test, 0, 1, 1, MUSTER_OK, "");
    assert_int_equal(test.status[0][2], MUSTER_TIMEOUT);
    if (!strstr(test.message[0][2], " in all_reduce for process 1 (host host1), which does not answer; it is in call 1 (function 'train')"))
        fail_msg("'%s'", test.message[0][2]);
    for (int32_t p = 0; p < 2; p++) assert_int_equal(test.status[p][3], MUSTER_TIMEOUT);
}

/* Process 0 waits for 2, which waits for 3. */
static void test_others_can_still_be_asked(void **state) {
    (void)state;
    held h = {.stopped = {3}};
    static nodes_test test;
    run(&h, 4, &test);
    assert_int_equal(test.status[0][2], MUSTER_TIMEOUT);
    if (!strstr(test.message[0][2],
                " in all_reduce for process 3 (host host3), for which process 2 (host host2) waits, which does not answer; "
                "it is in call 1 (function 'train')"))
        fail_msg("'%s'", test.message[0][2]);
    for (int32_t p = 1; p < 3; p++) assert_int_equal(test.status[p][2], MUSTER_ABORTED);
    for (int32_t p = 0; p < 4; p++) assert_int_equal(test.status[p][3], MUSTER_TIMEOUT);
}

/* The same, and 4 has stopped as well: no slot is left for 2. */
static void test_a_process_that_cannot_be_asked_is_not_blamed_alone(void **state) {
    (void)state;
    held h = {.stopped = {3, 4}};
    static nodes_test test;
    run(&h, 5, &test);
    assert_int_equal(test.status[0][2], MUSTER_TIMEOUT);
    if (!strstr(test.message[0][2], " in all_reduce for process 2 (host host2), which cannot be asked what it waits for, because process 3 "
                                    "(host host3) takes no messages"))
        fail_msg("'%s'", test.message[0][2]);
    for (int32_t p = 1; p < 3; p++) assert_int_equal(test.status[p][2], MUSTER_ABORTED);
    for (int32_t p = 0; p < 5; p++) assert_int_equal(test.status[p][3], MUSTER_TIMEOUT);
}

static void test_it_is_lost_where_it_does_not_end_a_call_that_has_failed(void **state) {
    (void)state;
    held h = {.stopped = {1}, .fails = true};
    static nodes_test test;
    run(&h, 2, &test);
    assert_int_equal(test.status[0][2], MUSTER_USER);
    nodes_expect(&test, 0, 0, 3, MUSTER_NODE_LOST,
                 "muster_function_call: process 1 (host host1) has not ended call 1 (function 'train'): it is lost, and this runtime can "
                 "only be closed");
}

/* ---- what the slots leave room for ---- */

static void answer_meanwhile(nodes_test *test, mst_nodes *nodes, int32_t p) {
    held *h = test->user;
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    pthread_barrier_wait(&test->barrier);
    for (int32_t i = 0; i < 2 && p == 0; i++) h->held[i] = ask_until_held(nodes, h->stopped[i]);
    pthread_barrier_wait(&test->barrier);
    if (p == 0)
        while (!atomic_load(&h->over) && !mst_nodes_call_failed(nodes)) nodes_sleep(MS);
    if (p == 1 || p == 2) stand_still(h);
    if (p == 3) nodes->fail_after_ns = h->deadline_ns;
    if (p == 3) round.status = nodes_collective(test, nodes, &arrival, "all_reduce");
    nodes_note(test, p, round.status);
    atomic_store(&h->over, true);
    nodes->fail_after_ns = -1;
    nodes_note(test, p, mst_nodes_end(nodes, &round));
    nodes_collective_close(nodes, &arrival);
}

/* Process 3 waits for 0, whose questions to 1 and 2 have all slots that questions may have. */
static void test_a_slot_is_left_for_answers(void **state) {
    (void)state;
    held h = {.stopped = {1, 2}, .deadline_ns = test_patience((int64_t)DEADLINE_MS * MS)};
    static nodes_test test;
    test = (nodes_test){.launch_options = {.processes = 4, .processes_per_host = 1, .eager_bytes = -1},
                        .on_lost = MST_LOST_ERROR,
                        .body = answer_meanwhile,
                        .user = &h};
    nodes_run(&test);
    for (int32_t i = 0; i < 2; i++) assert_in_range(h.held[i], 4, 5);
    assert_false(h.woke);
    assert_int_equal(test.status[3][2], MUSTER_TIMEOUT);
    if (!strstr(test.message[3][2], " in all_reduce for process 0 (host host0), which is in a body")) fail_msg("'%s'", test.message[3][2]);
}

typedef struct streak {
    uint64_t first, current;
} streak;
enum { LAST = 12 };

/* Process 0 gives up calls `first` to LAST while nothing leaves it, and then process 1, which is
 * in call `current`, takes what there is. It notes how many calls it judges wrongly. */
static void give_up_behind_a_cut(nodes_test *test, mst_nodes *nodes, int32_t p) {
    const streak *s = test->user;
    if (p == 0) wire_launch_cut(test->launch, 0, 1);
    for (uint64_t epoch = s->first; p == 0 && epoch <= LAST; epoch++) {
        mst_rounds_enter(nodes, epoch);
        (void)mst_nodes_call_failed(nodes);
        mst_rounds_give_up(nodes, mst_error(MUSTER_TIMEOUT, "planted"));
    }
    if (p == 0) wire_launch_heal(test->launch, 0, 1);
    if (p == 1) mst_rounds_enter(nodes, s->current);
    pthread_barrier_wait(&test->barrier);
    const mst_control *control = &nodes->rounds->control;
    TEST_AWAIT((mst_nodes_call_failed(nodes), mst_control_is_poisoned(control, MST_CONTROL_GIVEN_UP, LAST)), 100000);
    int32_t wrong = 0;
    for (uint64_t epoch = s->current; epoch <= LAST + 1; epoch++)
        wrong += mst_control_is_poisoned(control, MST_CONTROL_GIVEN_UP, epoch) != (epoch <= LAST);
    if (p == 1 && wrong) nodes_note(test, p, mst_error(MUSTER_INTERNAL, "%d calls", (int)wrong));
}

static void test_the_last_call_given_up_ends_those_before(void **state) {
    (void)state;
    int32_t cases = 0;
    for (streak s = {.first = 2}; s.first <= LAST; s.first++)
        for (s.current = s.first; s.current <= LAST; s.current++, cases++) {
            static nodes_test test;
            test = (nodes_test){.launch_options = {.processes = 2, .eager_bytes = -1}, .body = give_up_behind_a_cut, .user = &s};
            nodes_run(&test);
            if (test.notes[1]) fail_msg("calls %d to %d, process 1 in %d: %s", (int)s.first, LAST, (int)s.current, test.message[1][0]);
        }
    assert_int_equal(cases, 66);
}

/* News of an earlier call may come behind that of a later one, by another way. */
static void test_an_earlier_call_given_up_joins_later_ones(void **state) {
    (void)state;
    mst_control control;
    mst_control_message message = {.type = MST_CONTROL_GIVEN_UP, .epoch = 8, .status = MUSTER_TIMEOUT, .text = "of 8"};
    mst_control_open(&control, &(mst_wire){.processes = 1});
    control.current = 6;
    assert_true(mst_control_poison(&control, &message));
    for (uint64_t epoch = 5; epoch <= 9; epoch++)
        assert_int_equal(mst_control_is_poisoned(&control, MST_CONTROL_GIVEN_UP, epoch), epoch == 7 || epoch == 8);
    message = (mst_control_message){.type = MST_CONTROL_GIVEN_UP, .epoch = 6, .first = 5, .status = MUSTER_TIMEOUT, .text = "of 6"};
    assert_true(mst_control_poison(&control, &message));
    assert_false(mst_control_poison(&control, &message));
    for (uint64_t epoch = 4; epoch <= 9; epoch++)
        assert_int_equal(mst_control_is_poisoned(&control, MST_CONTROL_GIVEN_UP, epoch), epoch >= 5 && epoch <= 8);
    assert_string_equal(control.poison[MST_CONTROL_GIVEN_UP].text, "of 8");
    assert_int_equal(control.poison[MST_CONTROL_GIVEN_UP].first, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_process_that_takes_no_questions_is_named),
        cmocka_unit_test(test_others_can_still_be_asked),
        cmocka_unit_test(test_a_process_that_cannot_be_asked_is_not_blamed_alone),
        cmocka_unit_test(test_it_is_lost_where_it_does_not_end_a_call_that_has_failed),
        cmocka_unit_test(test_a_slot_is_left_for_answers),
        cmocka_unit_test(test_the_last_call_given_up_ends_those_before),
        cmocka_unit_test(test_an_earlier_call_given_up_joins_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
