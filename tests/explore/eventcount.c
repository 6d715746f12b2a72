/* Sleep and wake on gates and eventcounts (eventcount.c alone). */
#include "eventcount_impl.h"
#include "explorer.h"

/* A number with what its writer wrote before it. */
typedef struct board {
    mst_counter counters[2];
    _Atomic uint64_t words[2];
    mst_eventcount eventcount;
    _Atomic uint64_t lost;
    int64_t data[3];
    int64_t results[2];
} board;
static board *b;

static void name_eventcount(const mst_eventcount *eventcount, const char *name) {
    explore_name(&eventcount->sleepers, sizeof(eventcount->sleepers), "%s.sleepers", name);
    explore_name(&eventcount->generation, sizeof(eventcount->generation), "%s.generation", name);
}

static void make_board(void) {
    static const char *const counters[] = {"counter 0", "counter 1"};
    b = explore_alloc(sizeof(*b));
    for (int32_t i = 0; i < 2; i++) {
        explore_name(&b->counters[i].value, sizeof(uint64_t), "%s.value", counters[i]);
        name_eventcount(&b->counters[i].eventcount, counters[i]);
        explore_name(&b->words[i], sizeof(uint64_t), "word %d", i);
    }
    for (int32_t i = 0; i < 3; i++) explore_name(&b->data[i], sizeof(int64_t), "data %d", i);
    name_eventcount(&b->eventcount, "eventcount");
    explore_name(&b->lost, sizeof(b->lost), "lost");
}

static void nobody_sleeps(const mst_eventcount *eventcount) {
    EXPLORE_CHECK(atomic_load(&eventcount->sleepers) == 0, "sleepers is %u after all have woken", atomic_load(&eventcount->sleepers));
}
static void finish_board(const void *context) {
    (void)context;
    nobody_sleeps(&b->counters[0].eventcount);
    nobody_sleeps(&b->counters[1].eventcount);
    nobody_sleeps(&b->eventcount);
}

static void wait_counter(int32_t counter, uint64_t target, const mst_wait *wait) {
    mst_wait_result result = mst_counter_wait(&b->counters[counter], target, wait);
    EXPLORE_CHECK(result == MST_REACHED, "a wait without an end but its number ended with %d", (int)result);
}

static const mst_wait asleep = {.timeout_ns = -1}, spinning = {.spin_ns = 1, .timeout_ns = -1}, yielding = {.yields = 2, .timeout_ns = -1};

/* ---- a number there and back ---- */

static void *ping(void *wait) {
    for (uint64_t i = 1; i <= 3; i++) {
        explore_write(&b->data[0], (int64_t)i);
        mst_counter_publish(&b->counters[0], i);
        wait_counter(1, i, wait);
        EXPLORE_CHECK(explore_read(&b->data[1]) == (int64_t)(10 * i), "the answer of another round");
    }
    return NULL;
}

static void *pong(void *wait) {
    for (uint64_t i = 1; i <= 3; i++) {
        wait_counter(0, i, wait);
        EXPLORE_CHECK(explore_read(&b->data[0]) == (int64_t)i, "the number of another round");
        explore_write(&b->data[1], (int64_t)(10 * i));
        mst_counter_publish(&b->counters[1], i);
    }
    return NULL;
}

static void prepare_ping_pong(const void *wait) {
    make_board();
    explore_thread("ping", ping, (void *)wait);
    explore_thread("pong", pong, (void *)wait);
}

/* ---- several who wait for one number ---- */

static void *publish_two(void *argument) {
    (void)argument;
    for (uint64_t i = 1; i <= 2; i++) {
        explore_write(&b->data[i], (int64_t)i);
        mst_counter_publish(&b->counters[0], i);
    }
    return NULL;
}

static void *wait_two(void *argument) {
    (void)argument;
    for (uint64_t i = 1; i <= 2; i++) {
        wait_counter(0, i, &asleep);
        EXPLORE_CHECK(explore_read(&b->data[i]) == (int64_t)i, "what came before the number is missing");
    }
    return NULL;
}

static void prepare_crowd(const void *context) {
    (void)context;
    make_board();
    explore_thread("publisher", publish_two, NULL);
    explore_thread("waiter 1", wait_two, NULL);
    explore_thread("waiter 2", wait_two, NULL);
}

/* ---- several words on one eventcount ---- */

static void set_word(int32_t word) {
    explore_write(&b->data[word], 7);
    atomic_store(&b->words[word], 1);
    mst_eventcount_notify(&b->eventcount);
}

static void wait_word(int32_t word) {
    EXPLORE_CHECK(mst_eventcount_wait(&b->eventcount, &b->words[word], 1, &asleep) == MST_REACHED,
                  "a wait without an end but its word ended early");
    EXPLORE_CHECK(explore_read(&b->data[word]) == 7, "what came before the word is missing");
}

static void *set_both(void *argument) {
    (void)argument;
    set_word(0);
    set_word(1);
    return NULL;
}
static void *set_first(void *argument) {
    (void)argument;
    set_word(0);
    return NULL;
}
static void *set_second(void *argument) {
    (void)argument;
    set_word(1);
    return NULL;
}
static void *wait_first(void *argument) {
    (void)argument;
    wait_word(0);
    return NULL;
}
static void *wait_second(void *argument) {
    (void)argument;
    wait_word(1);
    return NULL;
}
static void *wait_both(void *argument) {
    (void)argument;
    wait_word(1);
    wait_word(0);
    return NULL;
}

static void prepare_one_rings_for_two(const void *context) {
    (void)context;
    make_board();
    explore_thread("owner", set_both, NULL);
    explore_thread("waiter 1", wait_first, NULL);
    explore_thread("waiter 2", wait_second, NULL);
}

static void prepare_two_ring_for_one(const void *context) {
    (void)context;
    make_board();
    explore_thread("setter 1", set_first, NULL);
    explore_thread("setter 2", set_second, NULL);
    explore_thread("waiter", wait_both, NULL);
}

/* ---- a ring without a new number: what `stop` looks at has changed ---- */

static bool is_lost(void *context) {
    (void)context;
    return atomic_load(&b->lost) != 0;
}

static void *lose(void *argument) {
    (void)argument;
    explore_write(&b->data[2], 1);
    atomic_store(&b->lost, 1);
    mst_eventcount_notify(&b->eventcount);
    return NULL;
}

static void wait_stoppable(int32_t word) {
    const mst_wait wait = {.timeout_ns = -1, .stop = is_lost};
    mst_wait_result result = mst_eventcount_wait(&b->eventcount, &b->words[word], 1, &wait);
    EXPLORE_CHECK(result != MST_TIMED_OUT, "a wait without a deadline timed out");
    if (result == MST_STOPPED)
        EXPLORE_CHECK(explore_read(&b->data[2]) == 1, "stopped for no reason");
    else
        EXPLORE_CHECK(explore_read(&b->data[word]) == 7, "reached what nobody wrote");
    b->results[word] = result;
}

static void *stoppable_first(void *argument) {
    (void)argument;
    wait_stoppable(0);
    return NULL;
}
static void *stoppable_second(void *argument) {
    (void)argument;
    wait_stoppable(1);
    return NULL;
}

static void prepare_ring_alone(const void *context) {
    (void)context;
    make_board();
    explore_thread("loser", lose, NULL);
    explore_thread("waiter 1", stoppable_first, NULL);
    explore_thread("waiter 2", stoppable_second, NULL);
}
static void finish_ring_alone(const void *context) {
    finish_board(context);
    EXPLORE_CHECK(b->results[0] == MST_STOPPED && b->results[1] == MST_STOPPED, "a wait for what never comes was not stopped");
}

static void prepare_ring_or_word(const void *context) {
    (void)context;
    make_board();
    explore_thread("loser", lose, NULL);
    explore_thread("setter", set_first, NULL);
    explore_thread("waiter", stoppable_first, NULL);
}

static void *set_and_lose(void *argument) {
    set_word(0);
    return lose(argument);
}
static void prepare_word_then_ring(const void *context) {
    (void)context;
    make_board();
    explore_thread("owner", set_and_lose, NULL);
    explore_thread("waiter", stoppable_first, NULL);
}
static void finish_word_then_ring(const void *context) {
    finish_board(context);
    EXPLORE_CHECK(b->results[0] == MST_REACHED, "what came before the loss was not seen");
}

/* ---- a deadline ---- */

static void *wait_timed(void *argument) {
    (void)argument;
    const mst_wait wait = {.timeout_ns = 1000};
    b->results[0] = mst_counter_wait(&b->counters[0], 1, &wait);
    EXPLORE_CHECK(b->results[0] != MST_STOPPED, "stopped for no reason");
    if (b->results[0] == MST_REACHED) EXPLORE_CHECK(explore_read(&b->data[1]) == 1, "reached what nobody wrote");
    wait_counter(0, 2, &asleep);
    return NULL;
}

static void prepare_deadline(const void *context) {
    (void)context;
    make_board();
    explore_thread("publisher", publish_two, NULL);
    explore_thread("waiter", wait_timed, NULL);
}

const explore_scenario explore_eventcount_scenarios[] = {
    {.name = "eventcount/there_and_back", .prepare = prepare_ping_pong, .finish = finish_board, .context = &asleep},
    {.name = "eventcount/there_and_back_woken_for_no_reason",
     .prepare = prepare_ping_pong,
     .finish = finish_board,
     .context = &asleep,
     .spurious = 2},
    {.name = "eventcount/there_and_back_spinning", .prepare = prepare_ping_pong, .finish = finish_board, .context = &spinning},
    {.name = "eventcount/there_and_back_yielding", .prepare = prepare_ping_pong, .finish = finish_board, .context = &yielding},
    {.name = "eventcount/two_wait_for_one_number", .prepare = prepare_crowd, .finish = finish_board},
    {.name = "eventcount/one_rings_for_two_words", .prepare = prepare_one_rings_for_two, .finish = finish_board},
    {.name = "eventcount/two_ring_for_two_words", .prepare = prepare_two_ring_for_one, .finish = finish_board},
    {.name = "eventcount/ring_without_a_number", .prepare = prepare_ring_alone, .finish = finish_ring_alone},
    {.name = "eventcount/ring_or_number", .prepare = prepare_ring_or_word, .finish = finish_board},
    {.name = "eventcount/number_then_ring", .prepare = prepare_word_then_ring, .finish = finish_word_then_ring},
    {.name = "eventcount/deadline", .prepare = prepare_deadline, .finish = finish_board},
    {0},
};
