/* Which algorithm AUTOMATIC means, the slices of an exchange, and that a schedule makes one move at
 * a time. */
#include "base_check.h"
#include "collectives_moves.h"
#include "nodes/slices_private.h"

static const wire_launch_options options = {.seed = 1};

static void test_automatic(void **state) {
    (void)state;
    static const struct {
        mst_move_kind kind;
        int64_t count;
        mst_move_algorithm expected;
    } rows[] = {
        {MST_MOVE_ALL_REDUCE, 512, MST_MOVE_GATHER_FOLD}, {MST_MOVE_ALL_REDUCE, 513, MST_MOVE_EXCHANGE},
        {MST_MOVE_REDUCE, 1024, MST_MOVE_GATHER_FOLD},    {MST_MOVE_REDUCE, 1025, MST_MOVE_EXCHANGE},
        {MST_MOVE_BROADCAST, 5, MST_MOVE_TREE},
    };
    static moves m;
    moves_open(&m, 17, &options, 0);
    mst_channel sixteen = m.channels[0];
    sixteen.size = 16;
    mst_schedule small;
    assert_ok(mst_schedule_prepare(&small, &sixteen, 0, 0));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mst_move move = {.kind = rows[i].kind, .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = rows[i].count};
        assert_int_equal(mst_schedule_select(&small, &move), rows[i].expected);
    }
    mst_move move = {.kind = MST_MOVE_ALL_REDUCE, .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = 17 * 16384 - 1};
    assert_int_equal(mst_schedule_select(&m.schedules[0], &move), MST_MOVE_CHAIN);
    move.count++;
    assert_int_equal(mst_schedule_select(&m.schedules[0], &move), MST_MOVE_EXCHANGE);
    move.dtype = MUSTER_F16;
    move.count = 5000;
    assert_int_equal(mst_schedule_select(&m.schedules[0], &move), MST_MOVE_EXCHANGE);
    int64_t bytes[MOVES_MOST] = {8191};
    move = (mst_move){.kind = MST_MOVE_ALL_GATHER, .bytes = bytes};
    assert_int_equal(mst_schedule_select(&small, &move), MST_MOVE_BRUCK);
    bytes[1] = 1;
    assert_int_equal(mst_schedule_select(&small, &move), MST_MOVE_RING);
    sixteen.size = 3;
    assert_int_equal(mst_schedule_select(&small, &move), MST_MOVE_RING);
    sixteen.size = 2;
    assert_int_equal(mst_schedule_select(&small, &move), MST_MOVE_BRUCK);
    sixteen.size = 16;
    mst_schedule_free(&small);
    moves_close(&m);
}

static void test_one_move_at_a_time(void **state) {
    (void)state;
    static moves m;
    moves_open(&m, 2, &options, 0);
    char bytes[2] = {7, 0};
    const mst_move moves_of[] = {{.kind = MST_MOVE_BROADCAST, .count = 1, .to = &bytes[0]},
                                 {.kind = MST_MOVE_BROADCAST, .count = 1, .to = &bytes[1]}};
    assert_ok(mst_schedule_begin(&m.schedules[1], &moves_of[1]));
    assert_int_equal(mst_schedule_progress(&m.schedules[1]), MST_PROGRESS_RUNNING);
    assert_int_equal(m.schedules[1].machine.waits_for(&m.schedules[1].machine), 0);
    assert_int_equal(mst_schedule_begin(&m.schedules[1], &moves_of[1]), MUSTER_BAD_STATE);
    assert_ok(mst_schedule_begin(&m.schedules[0], &moves_of[0]));
    for (int32_t done = 0; done < 2;)
        for (int32_t p = done = 0; p < 2; p++) done += mst_schedule_progress(&m.schedules[p]) == MST_PROGRESS_DONE;
    assert_int_equal(bytes[1], 7);
    m.schedules[1].machine.moved = true; /* as the call that ended the move leaves it */
    assert_int_equal(mst_schedule_progress(&m.schedules[1]), MST_PROGRESS_DONE);
    assert_false(m.schedules[1].machine.moved);
    assert_int_equal(m.schedules[1].machine.waits_for(&m.schedules[1].machine), -1);
    moves_close(&m);
}

/* Slices begin at cache lines, and differ by one line at most: the largest one sets the time. */
static void test_slices(void **state) {
    (void)state;
    static const struct {
        int64_t count, bytes; /* elements, and bytes of each */
        int32_t size;
        int64_t begins[6];
    } cases[] = {
        {160, 4, 4, {0, 32, 80, 112, 160}},              /* 10 lines of 16: 2, 3, 2 and 3 */
        {150, 4, 4, {0, 32, 80, 112, 150}},              /* the last line is not full */
        {1, 4, 4, {0, 0, 0, 0, 1}},                      /* one line: the last member has it */
        {48, 8, 3, {0, 16, 32, 48}},                     /* 6 lines of 8 */
        {56, 8, 3, {0, 16, 32, 56}},                     /* 7 */
        {64, 1, 5, {0, 0, 0, 0, 0, 64}},                 /* one line of 64 */
        {5 * 64 + 1, 1, 5, {0, 64, 128, 192, 256, 321}}, /* 6 */
        {7, 128, 3, {0, 2, 4, 7}},                       /* elements longer than a line */
    };
    int32_t count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, count++) {
        const mst_channel channel = {.size = cases[i].size};
        for (int32_t m = 0; m <= cases[i].size; m++)
            assert_int_equal(mst_schedule_slice(&channel, cases[i].count, cases[i].bytes, m), cases[i].begins[m]);
    }
    assert_int_equal(count, 8);
}

/* Where no slice moves the wait may come to its deadline, and names the process that it is for. */
static void test_slices_of_which_none_moves(void **state) {
    (void)state;
    enum { COUNT = 64, TURNS = 10000 };
    static moves m;
    moves_open(&m, 2, &options, 0);
    mst_slices *slices[2];
    float values[2][COUNT];
    mst_move move[2];
    for (int32_t p = 0; p < 2; p++) {
        for (int32_t i = 0; i < COUNT; i++) values[p][i] = (float)(i + p);
        assert_ok(mst_slices_open(&m.channels[p], 2, &slices[p]));
        move[p] = (mst_move){
            .kind = MST_MOVE_ALL_REDUCE, .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = COUNT, .from = values[p], .to = values[p]};
    }
    mst_machine *waiting = &slices[0]->machine;
    assert_ok(mst_slices_begin(slices[0], &move[0]));
    int32_t turns = 0;
    do assert_int_equal(waiting->progress(waiting), MST_PROGRESS_RUNNING);
    while (waiting->moved && ++turns < TURNS);
    assert_false(waiting->moved);
    assert_int_equal(waiting->waits_for(waiting), 1);
    assert_ok(mst_slices_begin(slices[1], &move[1]));
    for (int32_t done = 0; done < 2;)
        for (int32_t p = done = 0; p < 2; p++) done += slices[p]->machine.progress(&slices[p]->machine) == MST_PROGRESS_DONE;
    for (int32_t i = 0; i < 2 * COUNT; i++) assert_float_equal(values[i / COUNT][i % COUNT], 2 * (i % COUNT) + 1, 0);
    for (int32_t p = 0; p < 2; p++) mst_slices_free(slices[p]);
    moves_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_automatic),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_slices_of_which_none_moves),
        cmocka_unit_test(test_one_move_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
