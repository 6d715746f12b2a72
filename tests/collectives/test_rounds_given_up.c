/* Calls that a process gives up one after the other: news of some of them may never leave it, or
 * come in another order. */
#include "base_await.h"
#include "collectives_nodes.h"

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
    await_barrier_wait(&test->barrier);
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
        cmocka_unit_test(test_the_last_call_given_up_ends_those_before),
        cmocka_unit_test(test_an_earlier_call_given_up_joins_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
