/* A process that has stopped takes no control messages, so that the slots for questions to it stay
 * taken, and with two such processes all slots but the one for answers: a deadline must pass all
 * the same, and name a process. */
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
    await_barrier_wait(&test->barrier); /* from here on that process takes nothing */
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

/* ---- a question whether a rank has returned ---- */

enum { FIRST, PATIENT, DROPPED, AGAIN, ON_ITS_WAY, TAKEN, LOOKS };
typedef struct looks {
    uint64_t numbers[LOOKS]; /* of the question that was open then; 0: none */
    uint64_t asked;
    bool on_its_way[LOOKS], answered;
} looks;

static int32_t want_of_process_1(void *context, mst_control_wanted *wanted) {
    (void)context;
    *wanted = (mst_control_wanted){.tag = 4};
    return 1;
}

static void look(mst_nodes *nodes, mst_nodes_wait *wait, mst_returned *returned, int64_t now_ms, looks *looks, int32_t k) {
    (void)mst_returned_look(nodes, wait, returned, now_ms * MS);
    looks->numbers[k] = wait->waiter.returned.number;
    looks->on_its_way[k] = mst_control_is_leaving(&nodes->rounds->control, &wait->waiter.returned);
}

/* Process 1 has one receive posted, which takes the first question, and then takes nothing. The
 * times are said to mst_returned_look; none passes. */
static void ask_whether_it_has_returned(nodes_test *test, mst_nodes *nodes, int32_t p) {
    looks *looks = test->user;
    const mst_nodes_wants wants = {.wanted = want_of_process_1};
    mst_nodes_wait wait = {.waiter = {.doing = "recv", .epoch = mst_nodes_epoch(nodes), .machine = &nodes->rounds->arrival.machine},
                           .wants = &wants};
    mst_returned returned = {0};
    if (p == 1) nodes_take_all(nodes);
    await_barrier_wait(&test->barrier);
    if (p == 0) {
        pthread_mutex_lock(&nodes->wire->lock);
        mst_control_enter(&nodes->rounds->control, &wait.waiter);
        mst_returned_rest(&returned, 0);
        look(nodes, &wait, &returned, 10, looks, FIRST);
        look(nodes, &wait, &returned, 1009, looks, PATIENT);
        look(nodes, &wait, &returned, 1010, looks, DROPPED);
        look(nodes, &wait, &returned, 1010, looks, AGAIN);
        look(nodes, &wait, &returned, 1000000, looks, ON_ITS_WAY);
        pthread_mutex_unlock(&nodes->wire->lock);
    }
    await_barrier_wait(&test->barrier);
    if (p == 1) nodes_take_all(nodes);
    await_barrier_wait(&test->barrier);
    if (p == 1) return;
    nodes_take_all(nodes);
    pthread_mutex_lock(&nodes->wire->lock);
    looks->answered = wait.waiter.returned.answered;
    look(nodes, &wait, &returned, 1000000, looks, TAKEN);
    looks->asked = nodes->rounds->control.questions;
    mst_control_leave(&nodes->rounds->control, &wait.waiter);
    pthread_mutex_unlock(&nodes->wire->lock);
}

static void test_a_question_is_asked_again_only_when_it_has_been_taken(void **state) {
    (void)state;
    looks looks = {0};
    nodes_test test = {.launch_options = {.processes = 2, .eager_bytes = -1}, .body = ask_whether_it_has_returned, .user = &looks};
    nodes_run(&test);
    assert_int_not_equal(looks.numbers[FIRST], 0);
    assert_false(looks.on_its_way[FIRST]);
    assert_int_equal(looks.numbers[PATIENT], looks.numbers[FIRST]);
    assert_int_equal(looks.numbers[DROPPED], 0);
    assert_int_equal(looks.numbers[AGAIN], looks.numbers[FIRST] + 1);
    assert_true(looks.on_its_way[AGAIN] && looks.on_its_way[ON_ITS_WAY]);
    assert_int_equal(looks.numbers[ON_ITS_WAY], looks.numbers[AGAIN]);
    assert_true(looks.answered);
    assert_int_equal(looks.numbers[TAKEN], 0);
    assert_int_equal(looks.asked, looks.numbers[AGAIN]);
}

/* ---- what the slots leave room for ---- */

static void answer_meanwhile(nodes_test *test, mst_nodes *nodes, int32_t p) {
    held *h = test->user;
    mst_arrival arrival;
    nodes_note(test, p, nodes_collective_open(nodes, &arrival, 1));
    mst_round round = nodes_round("function 'train'");
    nodes_note(test, p, mst_nodes_begin(nodes, &round));
    await_barrier_wait(&test->barrier);
    for (int32_t i = 0; i < 2 && p == 0; i++) h->held[i] = ask_until_held(nodes, h->stopped[i]);
    await_barrier_wait(&test->barrier);
    if (p == 0) TEST_AWAIT(atomic_load(&h->over) || mst_nodes_call_failed(nodes), MS);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_process_that_takes_no_questions_is_named),
        cmocka_unit_test(test_others_can_still_be_asked),
        cmocka_unit_test(test_a_process_that_cannot_be_asked_is_not_blamed_alone),
        cmocka_unit_test(test_it_is_lost_where_it_does_not_end_a_call_that_has_failed),
        cmocka_unit_test(test_a_question_is_asked_again_only_when_it_has_been_taken),
        cmocka_unit_test(test_a_slot_is_left_for_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
