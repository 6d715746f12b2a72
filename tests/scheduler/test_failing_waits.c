/* Waits for a device that fail by themselves: the driver may report the failure of some work, or
 * of a call, and then the work may still be running. So the wait is made again, and the device is
 * given up when five waits in a row have failed. */
#include "base_check.h"
#include "pool_state_private.h"
#include "worker_impl.h"

#include <stdio.h>
#include <string.h>

enum { MOST_WAITS = 5 };

/* ---- a device whose next waits fail ---- */

static int32_t failing, waits;
static bool looks; /* each wait asks first whether it is to go on */
static bool fails_to_leave;
static char given_up[MST_MESSAGE_SIZE];

static muster_status synchronize(mst_device *device) {
    waits++;
    if (looks) MUSTER_TRY(device->interrupt(device->interrupt_user));
    return failing-- > 0 ? mst_error(MUSTER_SYSTEM, "wait number %d", (int)waits) : MUSTER_OK;
}

static muster_status enter(mst_device *device) {
    (void)device;
    return MUSTER_OK;
}

static muster_status leave(mst_device *device) {
    (void)device;
    return fails_to_leave ? mst_error(MUSTER_SYSTEM, "leaving") : MUSTER_OK;
}

static void give_up(mst_device *device, const char *reason) {
    (void)device;
    snprintf(given_up, sizeof given_up, "%s", reason);
}

static const mst_device_queue_table queue = {.enter = enter, .leave = leave};
static const mst_device_hardware_table hardware = {.give_up = give_up};
static const mst_device_table table = {.backend = "failing", .synchronize = synchronize, .queue = &queue, .hardware = &hardware};

static mst_device device;
static mst_pool *pool;

static int begin_test(void **state) {
    (void)state;
    static mst_device *const devices[] = {&device};
    const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1};
    device = mst_device_head(&table);
    snprintf(device.name, sizeof device.name, "failing 0");
    failing = waits = 0;
    looks = fails_to_leave = false;
    given_up[0] = 0;
    return mst_pool_create(&options, devices, 1, &pool);
}

static int end_test(void **state) {
    (void)state;
    mst_pool_destroy(pool);
    return 0;
}

/* ---- runs ---- */

static muster_status in_task;

static muster_status wait_in_task(muster_worker *worker, void *unused) {
    (void)unused;
    in_task = mst_worker_sync(worker);
    return in_task;
}

/* The program goes on after the failure. */
static muster_status wait_and_ignore(muster_worker *worker, void *unused) {
    (void)unused;
    in_task = mst_worker_sync(worker);
    return MUSTER_OK;
}

/* The abort comes after a wait that has failed, and before another one. */
static muster_status wait_in_an_aborted_run(muster_worker *worker, void *unused) {
    (void)unused;
    if (mst_worker_sync(worker) != MUSTER_SYSTEM) return muster_fail(MUSTER_USER, "no failure");
    looks = true;
    mst_pool_abort(worker, MUSTER_USER);
    in_task = mst_worker_sync(worker);
    return MUSTER_OK;
}

static muster_status no_wait(muster_worker *worker, void *unused) {
    (void)worker, (void)unused;
    return MUSTER_OK;
}

static void assert_outcome(mst_task task, int32_t fail) {
    failing = fail;
    waits = 0;
    const muster_status outcome = mst_pool_run(pool, task, NULL);
    if (fail == 0) {
        assert_int_equal(outcome, MUSTER_OK);
        return;
    }
    assert_int_equal(outcome, MUSTER_SYSTEM);
    assert_string_equal(muster_last_error(), "wait number 1"); /* not what a later wait said */
}

static void assert_next_run(bool lost) {
    assert_int_equal(device.lost, lost);
    assert_int_equal(atomic_load(&pool->lost), lost);
    failing = 0;
    if (!lost) {
        assert_int_equal(given_up[0], 0);
        assert_int_equal(mst_pool_run(pool, no_wait, NULL), MUSTER_OK);
        return;
    }
    assert_string_equal(given_up,
                        "device failing 0 of rank 0 has failed 4 waits in a row, so that its work may not have ended: wait number 5");
    assert_int_equal(mst_pool_run(pool, no_wait, NULL), MUSTER_DEVICE_LOST);
}

static void fail_and_look(mst_task task, int32_t fail) {
    void *state = NULL;
    assert_int_equal(begin_test(&state), 0);
    assert_outcome(task, fail);
    const bool in_body = task == wait_in_task;
    if (in_body) assert_int_equal(in_task, fail ? MUSTER_SYSTEM : MUSTER_OK);
    assert_int_equal(waits, in_body + (fail < MOST_WAITS ? fail + 1 : MOST_WAITS)); /* that of the body, and one at the end */
    assert_next_run(fail >= MOST_WAITS);
    end_test(&state);
}

/* ---- tests ---- */

static void a_wait_in_a_body_is_made_again_until_one_succeeds(void **state) {
    (void)state;
    for (int32_t fail = 0; fail <= MOST_WAITS + 2; fail++) fail_and_look(wait_in_task, fail);
}

static void the_wait_at_the_end_of_a_run_too(void **state) {
    (void)state;
    for (int32_t fail = 0; fail <= MOST_WAITS + 2; fail++) fail_and_look(no_wait, fail);
}

/* Its own wait has ended well. */
static void a_body_may_go_on_after_a_wait_that_failed(void **state) {
    (void)state;
    failing = 2;
    assert_int_equal(mst_pool_run(pool, wait_and_ignore, NULL), MUSTER_OK);
    assert_int_equal(in_task, MUSTER_SYSTEM);
    assert_next_run(false);
}

static void an_abort_ends_a_wait_after_one_that_failed(void **state) {
    (void)state;
    failing = 1;
    assert_int_equal(mst_pool_run(pool, wait_in_an_aborted_run, NULL), MUSTER_USER);
    assert_int_equal(in_task, MUSTER_ABORTED);
    looks = false;
    assert_next_run(false);
}

static void a_failure_to_leave_the_device_is_the_outcome_unless_there_is_another(void **state) {
    (void)state;
    fails_to_leave = true;
    assert_int_equal(mst_pool_run(pool, no_wait, NULL), MUSTER_SYSTEM);
    assert_string_equal(muster_last_error(), "leaving");
    assert_outcome(no_wait, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_in_a_body_is_made_again_until_one_succeeds),
        cmocka_unit_test(the_wait_at_the_end_of_a_run_too),
        cmocka_unit_test_setup_teardown(a_body_may_go_on_after_a_wait_that_failed, begin_test, end_test),
        cmocka_unit_test_setup_teardown(an_abort_ends_a_wait_after_one_that_failed, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_failure_to_leave_the_device_is_the_outcome_unless_there_is_another, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
