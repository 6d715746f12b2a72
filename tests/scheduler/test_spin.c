/* How long a wait spins: what waits in vain, in time and nearly in time make of the next ones, and
 * which waits report what. No clock is looked at: a spin ends by its length, however slow. */
#include "pool_impl.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t FULL_NS = 2000000;

static int64_t length(const mst_spin *spin) { return mst_spin_ns(spin, FULL_NS); }
static void report_paid(mst_spin *spin, int32_t times) {
    for (int32_t i = 0; i < times; i++) mst_spin_paid(spin);
}
static void report_slept(mst_spin *spin, int64_t waited_ns, int32_t times) {
    for (int32_t i = 0; i < times; i++) mst_spin_slept(spin, waited_ns, FULL_NS);
}

static void waits_that_have_learned_nothing_spin_for_the_full_length(void **state) {
    (void)state;
    mst_spin spin = {0};
    assert_int_equal(length(&spin), 2000000);
    report_paid(&spin, 1000);
    report_slept(&spin, 1, 1000);
    assert_int_equal(length(&spin), 2000000);
}

static void each_spin_in_vain_shortens_the_next_down_to_a_1024th(void **state) {
    (void)state;
    static const int64_t lengths[] = {500000, 125000, 31250, 7812, 1953, 1953, 1953};
    mst_spin spin = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mst_spin_wasted(&spin, false);
        assert_int_equal(length(&spin), lengths[i]);
    }
}

static void an_interrupted_spin_makes_the_next_the_shortest(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_spin_wasted(&spin, true);
    assert_int_equal(length(&spin), 1953);
    mst_spin_wasted(&spin, true);
    assert_int_equal(length(&spin), 1953);
}

static void sixteen_spins_in_time_double_the_length(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_spin_wasted(&spin, true);
    for (int32_t halvings = 10; halvings > 0; halvings--) {
        report_paid(&spin, 15);
        assert_int_equal(length(&spin), FULL_NS >> halvings);
        mst_spin_paid(&spin);
        assert_int_equal(length(&spin), FULL_NS >> (halvings - 1));
    }
    assert_int_equal(spin.level, 1);
    report_paid(&spin, 15);
    assert_int_equal(spin.level, 1);
    mst_spin_paid(&spin);
    assert_int_equal(spin.level, 0);
    report_paid(&spin, 100);
    assert_int_equal(length(&spin), FULL_NS);
}

static void a_spin_in_vain_forgets_the_spins_in_time_before_it(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_spin_wasted(&spin, true);
    report_paid(&spin, 15);
    mst_spin_wasted(&spin, false);
    report_paid(&spin, 15);
    assert_int_equal(length(&spin), 1953);
    mst_spin_paid(&spin);
    assert_int_equal(length(&spin), 3906);
}

/* Nothing else can lengthen the spins of waits that all take a little longer than the shortest. */
static void waits_that_end_within_the_full_length_try_the_full_length(void **state) {
    (void)state;
    mst_spin spin = {0};
    int32_t tries = 0;
    for (int32_t needed = 8; tries < 9; tries++) {
        mst_spin_wasted(&spin, true);
        report_slept(&spin, FULL_NS - 1, needed - 1);
        assert_int_equal(length(&spin), 1953);
        report_slept(&spin, FULL_NS, 5000); /* too long for any spin */
        assert_int_equal(length(&spin), 1953);
        report_slept(&spin, 1, 1);
        assert_int_equal(length(&spin), FULL_NS);
        if (needed < 1024) needed *= 2;
    }
    assert_int_equal(tries, 9);
}

/* A program that calls every 1.9 ms: no shorter spin than the full one ever ends in time. */
static void after_an_interruption_calls_nearly_the_full_length_apart_spin_in_time_again(void **state) {
    (void)state;
    const int64_t apart_ns = FULL_NS - FULL_NS / 20;
    mst_spin spin = {0};
    int32_t in_time = 0, slept = 0;
    mst_spin_wasted(&spin, true);
    for (int32_t call = 0; call < 100; call++) {
        if (length(&spin) >= apart_ns) {
            mst_spin_paid(&spin);
            in_time++;
        } else {
            mst_spin_wasted(&spin, false);
            mst_spin_slept(&spin, apart_ns, FULL_NS);
            slept++;
        }
    }
    assert_int_equal(slept, 8);
    assert_int_equal(in_time, 92);
    assert_int_equal(spin.level, 0);
}

/* A program that pauses for long, calls twenty times 1 ms apart, and pauses again. */
static void on_an_idle_machine_two_calls_after_a_long_pause_sleep(void **state) {
    (void)state;
    mst_spin spin = {0};
    for (int32_t burst = 0; burst < 10; burst++) {
        int32_t slept = 0;
        mst_spin_wasted(&spin, false); /* the pause */
        mst_spin_slept(&spin, 100 * FULL_NS, FULL_NS);
        for (int32_t call = 0; call < 20; call++) {
            if (length(&spin) >= FULL_NS / 2 + 1) {
                mst_spin_paid(&spin);
                continue;
            }
            mst_spin_wasted(&spin, false);
            mst_spin_slept(&spin, FULL_NS / 2 + 1, FULL_NS);
            slept++;
        }
        assert_int_equal(slept, 2);
    }
}

/* The full length is tried again after 2 waits, then after 4, 8 and so on: each is too short. */
static void on_an_idle_machine_tries_in_vain_become_rare(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_spin_wasted(&spin, false);
    for (int32_t needed = 2; needed <= 1024; needed *= 2) {
        report_slept(&spin, 1, needed - 1);
        assert_true(length(&spin) < FULL_NS);
        report_slept(&spin, 1, 1);
        assert_int_equal(length(&spin), FULL_NS);
        mst_spin_wasted(&spin, false);
    }
    assert_int_equal(spin.tries, 9);
}

static void short_waits_during_a_try_do_not_begin_it_anew(void **state) {
    (void)state;
    mst_spin spin = {.level = MST_SPIN_TRIED};
    report_paid(&spin, 15);
    report_slept(&spin, 1, 1000);
    assert_int_equal(length(&spin), FULL_NS);
    report_paid(&spin, 1);
    assert_int_equal(spin.level, 0);
    assert_int_equal(spin.near, 0);
}

static void tries_that_pay_make_the_next_ones_come_sooner(void **state) {
    (void)state;
    mst_spin spin = {.level = 1, .tries = 8};
    static const int32_t needed[] = {1024, 512, 256, 128};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        mst_spin_wasted(&spin, true);
        report_slept(&spin, 1, needed[i] - 1);
        assert_int_equal(length(&spin), 1953);
        report_slept(&spin, 1, 1);
        assert_int_equal(spin.level, 1);
        report_paid(&spin, 16);
        assert_int_equal(spin.level, 0);
    }
    for (int32_t left = 5; left >= 2; left--) { /* by spins in time alone */
        assert_int_equal(spin.tries, left);
        mst_spin_wasted(&spin, true);
        report_paid(&spin, 176);
        assert_int_equal(spin.level, 0);
    }
    mst_spin_wasted(&spin, true); /* an interruption counts as two failed tries */
    assert_int_equal(spin.tries, 2);
}

static void a_long_time_between_two_readings_is_an_interruption(void **state) {
    (void)state;
    mst_spin_watch watch = {.last = 1000, .most = 300};
    mst_spin_watch_read(&watch, 1300);
    assert_false(watch.interrupted);
    mst_spin_watch_read(&watch, 1601);
    assert_true(watch.interrupted);
    mst_spin_watch_read(&watch, 1602); /* it stays one */
    assert_true(watch.interrupted);
}

/* ---- which waits report what ---- */

static void a_wait_in_vain_reports_its_spin(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_counter counter = {.value = 0};
    const mst_wait wait = {.spin_ns = 4096, .spin = &spin, .timeout_ns = 8192};
    for (int32_t i = 0; i < 5; i++) assert_int_equal(mst_counter_wait(&counter, 1, &wait), MST_TIMED_OUT);
    assert_int_equal(length(&spin), FULL_NS >> 10);
}

static void a_wait_that_may_not_spin_reports_nothing(void **state) {
    (void)state;
    mst_spin spin = {0};
    mst_counter counter = {.value = 0};
    const mst_wait wait = {.spin_ns = 0, .spin = &spin, .timeout_ns = 1000};
    for (int32_t i = 0; i < 5; i++) assert_int_equal(mst_counter_wait(&counter, 1, &wait), MST_TIMED_OUT);
    assert_int_equal(spin.level, 0);
}

/* Sets the value when the wait has looked so often, by its stop condition. */
typedef struct late_value {
    mst_counter counter;
    int32_t looks_left;
    bool stops;
} late_value;

static bool count_down(void *context) {
    late_value *late = context;
    if (--late->looks_left > 0) return false;
    if (late->stops) return true;
    atomic_store(&late->counter.value, 1);
    return false;
}

/* The length is a minute: however often the machine takes the CPU away, the spin does not run
 * out. That would be an interruption, so only the counts of calm spins are compared. */
static void a_wait_that_ends_within_its_spin_reports_that(void **state) {
    (void)state;
    int32_t calm = 0;
    for (int32_t i = 0; i < 10000 && calm < 32; i++) {
        late_value late = {.looks_left = 3, .stops = i % 2 == 1};
        mst_spin spin = {.level = 2};
        const mst_wait wait = {.spin_ns = 120000000000, .spin = &spin, .timeout_ns = -1, .stop = count_down, .context = &late};
        assert_int_equal(mst_counter_wait(&late.counter, 1, &wait), late.stops ? MST_STOPPED : MST_REACHED);
        if (spin.level == 11) continue; /* interrupted */
        assert_int_equal(spin.level, 2);
        assert_int_equal(spin.paid, 1);
        calm++;
    }
    assert_int_equal(calm, 32);
}

/* Level 41 leaves nothing of two minutes to spin. The value comes by the stop condition, which is
 * looked at before the sleep. */
static void a_sleep_that_ends_within_the_full_length_counts_as_near(void **state) {
    (void)state;
    mst_spin spin = {.level = 41, .tries = 9};
    mst_wait wait = {.spin_ns = 120000000000, .spin = &spin, .timeout_ns = -1, .stop = count_down};
    for (int32_t i = 0; i < 8; i++) {
        late_value late = {.looks_left = 1, .stops = i % 2 == 1};
        wait.context = &late;
        assert_int_equal(mst_counter_wait(&late.counter, 1, &wait), late.stops ? MST_STOPPED : MST_REACHED);
        assert_int_equal(spin.near, i + 1);
    }
    late_value never = {.looks_left = INT_MAX};
    wait.context = &never;
    wait.timeout_ns = 1000;
    assert_int_equal(mst_counter_wait(&never.counter, 1, &wait), MST_TIMED_OUT);
    assert_int_equal(spin.near, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_that_have_learned_nothing_spin_for_the_full_length),
        cmocka_unit_test(each_spin_in_vain_shortens_the_next_down_to_a_1024th),
        cmocka_unit_test(an_interrupted_spin_makes_the_next_the_shortest),
        cmocka_unit_test(sixteen_spins_in_time_double_the_length),
        cmocka_unit_test(a_spin_in_vain_forgets_the_spins_in_time_before_it),
        cmocka_unit_test(waits_that_end_within_the_full_length_try_the_full_length),
        cmocka_unit_test(after_an_interruption_calls_nearly_the_full_length_apart_spin_in_time_again),
        cmocka_unit_test(on_an_idle_machine_two_calls_after_a_long_pause_sleep),
        cmocka_unit_test(on_an_idle_machine_tries_in_vain_become_rare),
        cmocka_unit_test(short_waits_during_a_try_do_not_begin_it_anew),
        cmocka_unit_test(tries_that_pay_make_the_next_ones_come_sooner),
        cmocka_unit_test(a_long_time_between_two_readings_is_an_interruption),
        cmocka_unit_test(a_wait_in_vain_reports_its_spin),
        cmocka_unit_test(a_wait_that_may_not_spin_reports_nothing),
        cmocka_unit_test(a_wait_that_ends_within_its_spin_reports_that),
        cmocka_unit_test(a_sleep_that_ends_within_the_full_length_counts_as_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
