/* The counter: waiting for a number by spinning, by sleeping, and both. */
#include "base_await.h"
#include "eventcount_impl.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static const int64_t spins[] = {0, 1, 50000};

static void a_value_that_is_there_is_reached_at_once(void **state) {
    (void)state;
    mst_counter counter = {.value = 5};
    mst_wait wait = {.spin_ns = 0, .timeout_ns = 0};
    assert_int_equal(mst_counter_wait(&counter, 5, &wait), MST_REACHED);
    assert_int_equal(mst_counter_wait(&counter, 3, &wait), MST_REACHED);
}

static void a_missing_value_times_out(void **state) {
    (void)state;
    mst_counter counter = {.value = 0};
    for (int32_t i = 0; i < 3; i++) {
        mst_wait wait = {.spin_ns = spins[i], .timeout_ns = 2000000};
        int64_t begin = mst_now_ns();
        assert_int_equal(mst_counter_wait(&counter, 1, &wait), MST_TIMED_OUT);
        assert_true(mst_now_ns() - begin >= 1900000);
        assert_int_equal(atomic_load(&counter.eventcount.sleepers), 0);
    }
}

typedef struct pong {
    mst_counter there, back;
    int64_t spin_ns;
    int32_t rounds;
    int64_t plain; /* ordered by the gates alone */
} pong;

static void *answer(void *context) {
    pong *p = context;
    mst_wait wait = {.spin_ns = p->spin_ns, .timeout_ns = -1};
    for (int32_t i = 1; i <= p->rounds; i++) {
        mst_counter_wait(&p->there, (uint64_t)i, &wait);
        p->plain++;
        mst_counter_publish(&p->back, (uint64_t)i);
    }
    return NULL;
}

static void ping_pong(int64_t spin_ns, int32_t rounds) {
    pong p = {.spin_ns = spin_ns, .rounds = rounds};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer, &p), 0);
    mst_wait wait = {.spin_ns = spin_ns, .timeout_ns = -1};
    for (int32_t i = 1; i <= rounds; i++) {
        p.plain++;
        mst_counter_publish(&p.there, (uint64_t)i);
        assert_int_equal(mst_counter_wait(&p.back, (uint64_t)i, &wait), MST_REACHED);
        assert_int_equal(p.plain, 2 * i);
    }
    pthread_join(thread, NULL);
}

static void no_wake_up_is_lost_at_any_spin(void **state) {
    (void)state;
    for (int32_t i = 0; i < 3; i++) ping_pong(spins[i], 5000);
}

static _Thread_local uint32_t hook_state = 12345;

static void random_delay(void) {
    hook_state = hook_state * 1664525u + 1013904223u;
    if (hook_state >> 29 == 0) sched_yield();
    if (hook_state >> 27 == 1) nanosleep(&(struct timespec){0, hook_state % 20000}, NULL);
}

static void no_wake_up_is_lost_with_random_delays(void **state) {
    (void)state;
    mst_wait_test_hook = random_delay;
    for (int32_t i = 0; i < 3; i++) ping_pong(spins[i], 1500);
    mst_wait_test_hook = NULL;
}

static bool is_set(void *context) { return atomic_load((_Atomic bool *)context); }

typedef struct sleeper {
    mst_counter counter;
    _Atomic bool stop;
    int64_t spin_ns;
    mst_wait_result result;
} sleeper;

static void *sleep_for_ever(void *context) {
    sleeper *s = context;
    mst_wait wait = {.spin_ns = s->spin_ns, .timeout_ns = -1, .stop = is_set, .context = &s->stop};
    s->result = mst_counter_wait(&s->counter, 1, &wait);
    return NULL;
}

static void a_kick_ends_the_sleep_of_a_stopped_wait(void **state) {
    (void)state;
    for (int32_t round = 0; round < 100; round++) {
        sleeper s = {.spin_ns = spins[round % 3]};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, sleep_for_ever, &s), 0);
        for (int32_t i = 0; i < round; i++) sched_yield(); /* before, while and after it goes to sleep */
        atomic_store(&s.stop, true);
        mst_eventcount_notify(&s.counter.eventcount);
        pthread_join(thread, NULL);
        assert_int_equal(s.result, MST_STOPPED);
    }
}

static void a_kick_without_a_reason_wakes_nobody_for_good(void **state) {
    (void)state;
    sleeper s = {.spin_ns = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_for_ever, &s), 0);
    TEST_AWAIT(atomic_load(&s.counter.eventcount.sleepers) != 0, 0);
    for (int32_t i = 0; i < 10; i++) mst_eventcount_notify(&s.counter.eventcount);
    mst_counter_publish(&s.counter, 1);
    pthread_join(thread, NULL);
    assert_int_equal(s.result, MST_REACHED);
}

static void reached_wins_over_stopped(void **state) {
    (void)state;
    mst_counter counter = {.value = 1};
    _Atomic bool stop = true;
    mst_wait wait = {.spin_ns = 0, .timeout_ns = -1, .stop = is_set, .context = &stop};
    assert_int_equal(mst_counter_wait(&counter, 1, &wait), MST_REACHED);
    assert_int_equal(mst_counter_wait(&counter, 2, &wait), MST_STOPPED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_is_there_is_reached_at_once),
        cmocka_unit_test(a_missing_value_times_out),
        cmocka_unit_test(no_wake_up_is_lost_at_any_spin),
        cmocka_unit_test(no_wake_up_is_lost_with_random_delays),
        cmocka_unit_test(a_kick_ends_the_sleep_of_a_stopped_wait),
        cmocka_unit_test(a_kick_without_a_reason_wakes_nobody_for_good),
        cmocka_unit_test(reached_wins_over_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
