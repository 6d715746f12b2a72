#include "base_check.h"

#include <pthread.h>
#include <stdio.h>

static void error_returns_its_code_and_formats(void **state) {
    (void)state;
    assert_int_equal(mst_error(MUSTER_OUT_OF_RANGE, "rank %d of %d", 7, 4), MUSTER_OUT_OF_RANGE);
    assert_string_equal(muster_last_error(), "rank 7 of 4");
}

static void error_may_quote_the_error_before(void **state) {
    (void)state;
    mst_error(MUSTER_USER, "inner");
    mst_error(MUSTER_USER, "outer: %s", muster_last_error());
    assert_string_equal(muster_last_error(), "outer: inner");
}

static void long_message_is_cut_and_says_so(void **state) {
    (void)state;
    for (int length = MST_MESSAGE_SIZE - 4; length < 2 * MST_MESSAGE_SIZE; length++) {
        char text[2 * MST_MESSAGE_SIZE] = {0};
        memset(text, 'x', (size_t)length);
        mst_error(MUSTER_USER, "%s", text);
        if (length >= MST_MESSAGE_SIZE) memcpy(text + MST_MESSAGE_SIZE - 4, "...", 4);
        assert_string_equal(muster_last_error(), text);
    }
}

static void a_missing_argument_is_named(void **state) {
    (void)state;
    assert_int_equal(mst_error_null("muster_x_create", "runtime", "a runtime"), MUSTER_INVALID_ARGUMENT);
    assert_string_equal(muster_last_error(), "muster_x_create: runtime: expected a runtime, received NULL");
}

static void copy_ends_within_its_capacity(void **state) {
    (void)state;
    static const char message[] = "twelve bytes";
    mst_error(MUSTER_USER, "%s", message);
    for (int64_t capacity = -1; capacity <= 14; capacity++) {
        char buffer[16], expected[16];
        memset(buffer, '#', sizeof buffer), memset(expected, '#', sizeof expected);
        if (capacity > 0) snprintf(expected, (size_t)capacity, "%s", message);
        assert_int_equal(muster_last_error_copy(buffer, capacity), 12);
        assert_memory_equal(buffer, expected, sizeof buffer);
    }
    assert_int_equal(muster_last_error_copy(NULL, 0), 12);
    assert_int_equal(muster_last_error_copy(NULL, 5), 12);
    assert_string_equal(muster_last_error(), message);
}

static void *fail_elsewhere(void *saved) {
    mst_error(MUSTER_TIMEOUT, "from another thread");
    mst_error_save(saved);
    return NULL;
}

static void message_belongs_to_its_thread_and_can_be_carried(void **state) {
    (void)state;
    char saved[MST_MESSAGE_SIZE];
    pthread_t thread;
    mst_error(MUSTER_USER, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, saved), 0);
    pthread_join(thread, NULL);
    assert_string_equal(muster_last_error(), "mine");
    assert_int_equal(mst_error_restore(MUSTER_TIMEOUT, saved), MUSTER_TIMEOUT);
    assert_string_equal(muster_last_error(), "from another thread");
}

static void restoring_the_own_message_keeps_it(void **state) {
    (void)state;
    mst_error(MUSTER_USER, "the same");
    mst_error_restore(MUSTER_USER, muster_last_error());
    assert_string_equal(muster_last_error(), "the same");
}

static void body_failure_has_a_code_and_a_reason(void **state) {
    (void)state;
    assert_int_equal(muster_fail(MUSTER_OK, NULL), MUSTER_USER);
    assert_string_equal(muster_last_error(), "the function body gave no reason");
    assert_int_equal(muster_fail(MUSTER_OUT_OF_RANGE, "100 %s"), MUSTER_OUT_OF_RANGE);
    assert_string_equal(muster_last_error(), "100 %s");
}

static void every_code_has_its_name(void **state) {
    (void)state;
    assert_string_equal(muster_status_name(MUSTER_OK), "OK");
    assert_string_equal(muster_status_name(MUSTER_SHAPE_MISMATCH), "SHAPE_MISMATCH");
    assert_string_equal(muster_status_name(MUSTER_ABORTED), "ABORTED");
    assert_string_equal(muster_status_name(MUSTER_INTERNAL), "INTERNAL");
    assert_string_equal(muster_status_name(MUSTER_INTERNAL + 1), "UNKNOWN");
    assert_string_equal(muster_status_name(-1), "UNKNOWN");
    for (muster_status status = 0; status <= MUSTER_INTERNAL; status++) assert_string_not_equal(muster_status_name(status), "UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_returns_its_code_and_formats),
        cmocka_unit_test(error_may_quote_the_error_before),
        cmocka_unit_test(long_message_is_cut_and_says_so),
        cmocka_unit_test(a_missing_argument_is_named),
        cmocka_unit_test(copy_ends_within_its_capacity),
        cmocka_unit_test(message_belongs_to_its_thread_and_can_be_carried),
        cmocka_unit_test(restoring_the_own_message_keeps_it),
        cmocka_unit_test(body_failure_has_a_code_and_a_reason),
        cmocka_unit_test(every_code_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
