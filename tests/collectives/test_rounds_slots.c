/* The slots of control messages that another process does not take, and which answer is that to a
 * question: what one process does in a step of mst_control, while the other takes nothing. */
#include "collectives_nodes.h"

#include <stdlib.h>

enum { HELD = 4 }; /* slots that one process may hold: half of those for questions */

typedef struct seen {
    int32_t counts[8];
    uint64_t numbers[2];
    bool is[4];
} seen;

/* Each has a receive posted, and takes nothing behind it until the next barrier. On a slow machine
 * processes have asked each other while they joined: nothing is left of that. */
static void stand_ready(nodes_test *test, mst_nodes *nodes) {
    mst_control *control = &nodes->rounds->control;
    for (int32_t k = 0; k < 2; k++) { /* questions, then answers */
        nodes_take_all(nodes);
        await_barrier_wait(&test->barrier);
    }
    pthread_mutex_lock(&nodes->wire->lock);
    if (mst_control_is_sending(control)) abort();
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++) control->slots[i].to = 0;
    control->questions = 0;
    pthread_mutex_unlock(&nodes->wire->lock);
    await_barrier_wait(&test->barrier);
}

static bool ask(mst_nodes *nodes, mst_control_question *question, int32_t process) {
    const mst_control_message what = {.type = MST_CONTROL_QUESTION, .epoch = mst_nodes_epoch(nodes)};
    return mst_control_ask(&nodes->rounds->control, question, &what, process);
}

/* What is sent waits until it is received. */
static void run(int32_t processes, void (*body)(nodes_test *, mst_nodes *, int32_t), seen *seen) {
    *seen = (struct seen){0};
    nodes_test test = {.launch_options = {.processes = processes, .eager_bytes = -1}, .body = body, .user = seen};
    nodes_run(&test);
}

/* ---- who holds them ---- */

static void ask_two(nodes_test *test, mst_nodes *nodes, int32_t p) {
    seen *seen = test->user;
    mst_control_question question = {0};
    stand_ready(test, nodes);
    pthread_mutex_lock(&nodes->wire->lock);
    for (int32_t to = 1; to <= 2 && p == 0; to++)
        while (seen->counts[to] < 100 && ask(nodes, &question, to)) seen->counts[to]++;
    for (int32_t to = 1; to <= 3 && p == 0; to++) seen->counts[3 + to] = mst_control_held_by(&nodes->rounds->control, to);
    pthread_mutex_unlock(&nodes->wire->lock);
    await_barrier_wait(&test->barrier);
}

static void test_a_process_that_holds_slots_is_named_before_another(void **state) {
    (void)state;
    seen seen;
    run(4, ask_two, &seen);
    assert_int_equal(seen.counts[1], HELD + 1); /* the receive that was posted has taken one */
    assert_int_equal(seen.counts[2], HELD + 1);
    assert_int_equal(seen.counts[4], 1);
    assert_int_equal(seen.counts[5], 2);
    assert_int_equal(seen.counts[6], 1); /* process 3 holds no slot: the answer is a process that holds one */
}

/* ---- poison ---- */

/* Of one kind: the first is taken, the second holds the place of its kind, and the third goes by a
 * slot. */
static void poison_often(nodes_test *test, mst_nodes *nodes, int32_t p) {
    seen *seen = test->user;
    mst_control *control = &nodes->rounds->control;
    stand_ready(test, nodes);
    pthread_mutex_lock(&nodes->wire->lock);
    for (uint64_t k = 1; k <= 20 && p == 0; k++) {
        const mst_control_message message = {
            .type = MST_CONTROL_FAILED, .epoch = mst_nodes_epoch(nodes) + k, .status = MUSTER_USER, .rank = -1, .process = p};
        mst_control_poison(control, &message);
        seen->counts[0] += control->to_flood[MST_CONTROL_FAILED] == 0; /* it has left */
    }
    for (int32_t i = 0; i < MST_CONTROL_SLOTS && p == 0; i++) seen->counts[1] += control->slots[i].request != 0;
    pthread_mutex_unlock(&nodes->wire->lock);
    await_barrier_wait(&test->barrier);
}

static void test_poison_goes_by_the_slots_of_questions_but_not_by_all(void **state) {
    (void)state;
    seen seen;
    run(2, poison_often, &seen);
    assert_int_equal(seen.counts[0], 2 + HELD);
    assert_int_equal(seen.counts[1], HELD);
}

/* ---- answers ---- */

/* Both ask with the same number. Process 1 has taken the question of process 0, but not the answer
 * to its own. */
static void ask_each_other(nodes_test *test, mst_nodes *nodes, int32_t p) {
    seen *seen = test->user;
    mst_control_question question = {0};
    stand_ready(test, nodes);
    pthread_mutex_lock(&nodes->wire->lock);
    seen->is[p] = ask(nodes, &question, 1 - p);
    seen->numbers[p] = question.number;
    pthread_mutex_unlock(&nodes->wire->lock);
    await_barrier_wait(&test->barrier);
    if (p == 0) {
        nodes_take_all(nodes);
        pthread_mutex_lock(&nodes->wire->lock);
        seen->is[2] = mst_control_is_sending(&nodes->rounds->control);
        seen->is[3] = mst_control_is_leaving(&nodes->rounds->control, &question);
        pthread_mutex_unlock(&nodes->wire->lock);
    }
    await_barrier_wait(&test->barrier);
}

static void test_an_answer_on_its_way_is_no_question(void **state) {
    (void)state;
    seen seen;
    run(2, ask_each_other, &seen);
    assert_true(seen.is[0] && seen.is[1]);
    assert_int_equal(seen.numbers[0], seen.numbers[1]);
    assert_true(seen.is[2]);
    assert_false(seen.is[3]);
}

/* Process 0 asks once more before it takes the answer to its first question. */
static void ask_twice(nodes_test *test, mst_nodes *nodes, int32_t p) {
    seen *seen = test->user;
    mst_control_waiter waiter = {.doing = "it", .epoch = mst_nodes_epoch(nodes), .machine = &nodes->rounds->arrival.machine};
    if (p == 0) mst_control_enter(&nodes->rounds->control, &waiter);
    stand_ready(test, nodes);
    for (int32_t k = 0; k < 2; k++) {
        if (p == 0) {
            pthread_mutex_lock(&nodes->wire->lock);
            seen->is[k] = ask(nodes, &waiter.late, 1);
            pthread_mutex_unlock(&nodes->wire->lock);
            if (k == 1) nodes_take_all(nodes);
            if (k == 1) seen->is[2] = waiter.late.answered;
        }
        await_barrier_wait(&test->barrier);
        if (p == 1) nodes_take_all(nodes);
        await_barrier_wait(&test->barrier);
    }
    if (p == 1) return;
    nodes_take_all(nodes);
    seen->is[3] = waiter.late.answered;
    seen->numbers[0] = waiter.late.number;
    seen->numbers[1] = waiter.late.answer.number;
    mst_control_leave(&nodes->rounds->control, &waiter);
}

static void test_an_answer_to_an_earlier_question_is_not_taken(void **state) {
    (void)state;
    seen seen;
    run(2, ask_twice, &seen);
    assert_true(seen.is[0] && seen.is[1]);
    assert_false(seen.is[2]);
    assert_true(seen.is[3]);
    assert_int_equal(seen.numbers[1], seen.numbers[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_that_holds_slots_is_named_before_another),
        cmocka_unit_test(test_poison_goes_by_the_slots_of_questions_but_not_by_all),
        cmocka_unit_test(test_an_answer_on_its_way_is_no_question),
        cmocka_unit_test(test_an_answer_to_an_earlier_question_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
