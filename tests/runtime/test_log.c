/* The log of a runtime: which lines the program gets, and the level of each kind of line. */
#include "base_check.h"
#include "base_machine.h"
#include "base_pace.h"
#include "cuda/cuda_device_private.h"
#include "muster/communicator.h"
#include "runtime_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LINES = 64 };

typedef struct journal {
    atomic_int lines;
    muster_log_level levels[MOST_LINES];
    char text[MOST_LINES][200];
} journal;

static journal kept;

static void keep_line(void *user, muster_log_level level, const char *line) {
    journal *j = user;
    const int at = atomic_load(&j->lines);
    if (at >= MOST_LINES) return;
    j->levels[at] = level;
    snprintf(j->text[at], sizeof j->text[at], "%s", line);
    atomic_store(&j->lines, at + 1);
}

static muster_runtime_options options_of(muster_log_level level) {
    memset(&kept, 0, sizeof kept);
    return (muster_runtime_options){
        .struct_size = sizeof(muster_runtime_options), .devices = "host:2", .log = keep_line, .log_user = &kept, .log_level = level};
}

static muster_runtime *open_at(muster_log_level level) {
    const muster_runtime_options options = options_of(level);
    muster_runtime *runtime;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void assert_all_have(muster_log_level level, int least, const char *part) {
    bool found = false;
    assert_true(atomic_load(&kept.lines) >= least);
    for (int i = 0; i < atomic_load(&kept.lines); i++) {
        assert_int_equal(kept.levels[i], level);
        found |= strstr(kept.text[i], part) != NULL;
    }
    if (!found) fail_msg("expected a line with '%s', received '%s' and others", part, kept.text[0]);
}

static void test_lines_below_the_level_are_dropped(void **state) {
    (void)state;
    /* passing: which of the lines of level 1, 2, 3 and 4 pass */
    static const struct {
        muster_log_level option;
        const char *variable, *passing;
    } rows[] = {
        {0, NULL, "-234"},    {0, "", "-234"},      {0, "debug", "1234"}, {0, "info", "-234"},  {0, "warning", "--34"},
        {0, "error", "---4"}, {1, NULL, "1234"},    {2, NULL, "-234"},    {3, NULL, "--34"},    {4, NULL, "---4"},
        {1, "error", "1234"}, {2, "debug", "-234"}, {3, "debug", "--34"}, {4, "debug", "---4"}, {2, "loud", "-234"},
    };
    int cases = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].variable) setenv("MUSTER_LOG_LEVEL", rows[i].variable, 1);
        muster_runtime *runtime = open_at(rows[i].option);
        unsetenv("MUSTER_LOG_LEVEL");
        const mst_pool_options *modules = mst_pool_settings(runtime->pool);
        for (muster_log_level level = 1; level <= 4; level++, cases++) {
            const bool passes = rows[i].passing[level - 1] != '-';
            atomic_store(&kept.lines, 0);
            modules->log(modules->log_user, level, "a line");
            assert_int_equal(atomic_load(&kept.lines), passes);
            if (!passes) continue;
            assert_int_equal(kept.levels[0], level);
            assert_string_equal(kept.text[0], "a line");
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, 60);
}

static void test_unknown_levels_are_refused(void **state) {
    (void)state;
    static const struct {
        muster_log_level option;
        const char *variable, *message;
    } rows[] = {
        {-1, NULL, "options: log_level: expected MUSTER_LOG_DEBUG to MUSTER_LOG_ERROR, or 0, received -1"},
        {5, NULL, "options: log_level: expected MUSTER_LOG_DEBUG to MUSTER_LOG_ERROR, or 0, received 5"},
        {INT32_MIN, "info", "options: log_level: expected MUSTER_LOG_DEBUG to MUSTER_LOG_ERROR, or 0, received -2147483648"},
        {INT32_MAX, NULL, "options: log_level: expected MUSTER_LOG_DEBUG to MUSTER_LOG_ERROR, or 0, received 2147483647"},
        {0, "warn", "the environment's MUSTER_LOG_LEVEL: expected debug, info, warning or error, received 'warn'"},
        {0, "ERROR", "the environment's MUSTER_LOG_LEVEL: expected debug, info, warning or error, received 'ERROR'"},
        {0, "errors", "the environment's MUSTER_LOG_LEVEL: expected debug, info, warning or error, received 'errors'"},
        {0, " info", "the environment's MUSTER_LOG_LEVEL: expected debug, info, warning or error, received ' info'"},
        {0, "2", "the environment's MUSTER_LOG_LEVEL: expected debug, info, warning or error, received '2'"},
    };
    int cases = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, cases++) {
        const muster_runtime_options options = options_of(rows[i].option);
        muster_runtime *runtime;
        if (rows[i].variable) setenv("MUSTER_LOG_LEVEL", rows[i].variable, 1);
        const muster_status status = muster_runtime_open(&options, &runtime);
        unsetenv("MUSTER_LOG_LEVEL");
        assert_refused(status, MUSTER_INVALID_ARGUMENT, rows[i].message);
        assert_non_null(strstr(muster_last_error(), "muster_runtime_open: "));
        assert_null(runtime);
        assert_int_equal(atomic_load(&kept.lines), 0);
    }
    assert_int_equal(cases, 9);
}

/* ---- the level of each kind of line ---- */

static muster_status meet(muster_worker *worker, void *comes_late) {
    /* without a warning the test fails */
    const int patience = *(bool *)comes_late && muster_worker_rank(worker) == 1 ? (int)(20000 * test_pace()) : 0;
    for (int i = 0; i < patience && atomic_load(&kept.lines) == 0; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return muster_worker_barrier(worker, NULL);
}

static void run_meeting(muster_runtime *runtime, bool comes_late) {
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    const muster_status status = mst_pool_run(runtime->pool, meet, &comes_late);
    mst_pool_leave(runtime->pool);
    assert_ok(status);
}

static void test_reports_of_late_workers_are_warnings(void **state) {
    (void)state;
    muster_runtime_options options = options_of(MUSTER_LOG_WARNING);
    muster_runtime *runtime;
    options.warn_after_ns = 1000000;
    assert_ok(muster_runtime_open(&options, &runtime));
    run_meeting(runtime, true);
    assert_all_have(MUSTER_LOG_WARNING, 3, "has waited"); /* and a line for each worker */
    assert_ok(muster_runtime_close(runtime));
}

static void test_dumps_are_warnings(void **state) {
    (void)state;
    static const muster_log_level levels[] = {MUSTER_LOG_WARNING, MUSTER_LOG_ERROR};
    for (int i = 0; i < 2; i++) {
        muster_runtime *runtime = open_at(levels[i]);
        run_meeting(runtime, false);
        assert_ok(muster_runtime_dump(runtime, 4));
        if (i == 0)
            assert_all_have(MUSTER_LOG_WARNING, 2, "rank 1: ");
        else
            assert_int_equal(atomic_load(&kept.lines), 0);
        assert_ok(muster_runtime_close(runtime));
    }
}

static void test_a_trace_that_is_lost_is_an_error(void **state) {
    (void)state;
    muster_runtime_options options = options_of(MUSTER_LOG_ERROR);
    muster_runtime *runtime;
    options.trace = "/no/such/folder/x";
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_runtime_close(runtime));
    assert_all_have(MUSTER_LOG_ERROR, 1, "/no/such/folder/x");
    assert_int_equal(atomic_load(&kept.lines), 1);
}

/* What a backend has to say waits for a runtime that logs warnings. */
static void test_notices_of_backends_are_warnings(void **state) {
    (void)state;
    mst_cuda_add_notice("a notice of the GPUs");
    muster_runtime *runtime = open_at(MUSTER_LOG_ERROR);
    assert_int_equal(atomic_load(&kept.lines), 0);
    assert_ok(muster_runtime_close(runtime));
    runtime = open_at(MUSTER_LOG_WARNING);
    assert_all_have(MUSTER_LOG_WARNING, 1, "a notice of the GPUs");
    assert_int_equal(atomic_load(&kept.lines), 1);
    assert_ok(muster_runtime_close(runtime));
    runtime = open_at(MUSTER_LOG_WARNING);
    assert_int_equal(atomic_load(&kept.lines), 0);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_below_the_level_are_dropped),    cmocka_unit_test(test_unknown_levels_are_refused),
        cmocka_unit_test(test_reports_of_late_workers_are_warnings), cmocka_unit_test(test_dumps_are_warnings),
        cmocka_unit_test(test_a_trace_that_is_lost_is_an_error),     cmocka_unit_test(test_notices_of_backends_are_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
