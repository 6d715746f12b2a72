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

/* Cut anywhere, a message of two-byte characters stays UTF-8: half a character becomes "?". */
static void cut_message_stays_utf8(void **state) {
    (void)state;
    for (int before = 0; before < 8; before++) {
        char text[3 * MST_MESSAGE_SIZE] = {0}, expected[MST_MESSAGE_SIZE + 8] = {0};
        memset(text, 'x', (size_t)before), memset(expected, 'x', (size_t)before);
        for (int at = before; at < 2 * MST_MESSAGE_SIZE; at += 2) memcpy(text + at, "\xC3\xBC", 2);
        memcpy(expected + before, text + before, (size_t)(MST_MESSAGE_SIZE - 4 - before));
        if (before % 2 != 0) expected[MST_MESSAGE_SIZE - 5] = '?';
        memcpy(expected + MST_MESSAGE_SIZE - 4, "...", 4);
        mst_error(MUSTER_USER, "%s", text);
        assert_string_equal(muster_last_error(), expected);
    }
}

/* Of each pair the first is what is passed, the second the message. The shortest and the longest
 * characters of each length, and one step beyond either end. */
static void message_is_utf8(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"\xC2\x80", "\xC2\x80"},
        {"\xC1\xBF", "??"},
        {"\xDF\xBF", "\xDF\xBF"},
        {"\xE0\xA0\x80", "\xE0\xA0\x80"},
        {"\xE0\x9F\xBF", "???"},
        {"\xED\x9F\xBF", "\xED\x9F\xBF"},
        {"\xED\xA0\x80", "???"},
        {"\xEF\xBF\xBF", "\xEF\xBF\xBF"},
        {"\xF0\x90\x80\x80", "\xF0\x90\x80\x80"},
        {"\xF0\x8F\xBF\xBF", "????"},
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
        {"\xF4\x90\x80\x80", "????"},
        {"\xF5\x80\x80\x80", "????"},
        {"\x80", "?"},
        {"\xC3", "?"},
        {"\xE2\x82", "??"},
        {"\xC3 x", "? x"},
        {"\xE2\x82x", "??x"},
    };
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    for (int i = 0; i < PAIRS; i++) {
        mst_error(MUSTER_USER, "%s", pairs[i][0]);
        assert_string_equal(muster_last_error(), pairs[i][1]);
    }
    assert_int_equal(PAIRS, 18);
}

static void copy_holds_whole_characters(void **state) {
    (void)state;
    mst_error(MUSTER_USER, "a\xE2\x82\xAC"); /* the sign of the euro has 3 bytes */
    static const char *const expected[] = {"", "a", "a", "a", "a\xE2\x82\xAC"};
    for (int64_t capacity = 1; capacity <= 5; capacity++) {
        char buffer[8];
        assert_int_equal(muster_last_error_copy(buffer, capacity), 4);
        assert_string_equal(buffer, expected[capacity - 1]);
    }
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
    assert_string_equal(muster_status_name(MUSTER_NODE_LOST), "NODE_LOST");
    assert_string_equal(muster_status_name(MUSTER_CANCELLED), "CANCELLED");
    assert_string_equal(muster_status_name(MUSTER_CANCELLED + 1), "UNKNOWN");
    assert_string_equal(muster_status_name(-1), "UNKNOWN");
    for (muster_status status = 0; status <= MUSTER_CANCELLED; status++) assert_string_not_equal(muster_status_name(status), "UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_returns_its_code_and_formats),
        cmocka_unit_test(error_may_quote_the_error_before),
        cmocka_unit_test(long_message_is_cut_and_says_so),
        cmocka_unit_test(a_missing_argument_is_named),
        cmocka_unit_test(copy_ends_within_its_capacity),
        cmocka_unit_test(cut_message_stays_utf8),
        cmocka_unit_test(message_is_utf8),
        cmocka_unit_test(copy_holds_whole_characters),
        cmocka_unit_test(message_belongs_to_its_thread_and_can_be_carried),
        cmocka_unit_test(restoring_the_own_message_keeps_it),
        cmocka_unit_test(body_failure_has_a_code_and_a_reason),
        cmocka_unit_test(every_code_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
