/* Stands in for cmocka where it cannot be installed (a GPU machine without a network): the part of
 * its interface that these tests use, in one header for one test program. Output as cmocka's.
 * Chosen by -DMUSTER_CMOCKA_STAND_IN=ON; tests are written for cmocka. */
#ifndef STAND_IN_CMOCKA_H
#define STAND_IN_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    CMFixtureFunction setup_func, teardown_func;
    void *initial_state;
};

#define cmocka_unit_test_setup_teardown(f, setup, teardown) \
    { #f, f, setup, teardown, NULL }
#define cmocka_unit_test_setup(f, setup) cmocka_unit_test_setup_teardown(f, setup, NULL)
#define cmocka_unit_test_teardown(f, teardown) cmocka_unit_test_setup_teardown(f, NULL, teardown)
#define cmocka_unit_test(f) cmocka_unit_test_setup_teardown(f, NULL, NULL)
#define cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, state) \
    { #f, f, setup, teardown, state }

enum { STAND_IN_FAILED = 1, STAND_IN_SKIPPED = 2 };
extern jmp_buf stand_in_way_out; /* weak, as all that follows: the files of a program share one */
__attribute__((weak)) jmp_buf stand_in_way_out;

#define print_message printf
#define print_error(...) fprintf(stderr, __VA_ARGS__)

__attribute__((noreturn, format(printf, 3, 4), unused)) static void stand_in_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "[  ERROR   ] --- ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n[   LINE   ] --- %s:%d: error: Failure!\n", file, line);
    va_end(arguments);
    longjmp(stand_in_way_out, STAND_IN_FAILED);
}
#define fail_msg(...) stand_in_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail() fail_msg("failed")
#define _fail(file, line) stand_in_fail(file, line, "failed")
#define test_malloc malloc /* those of cmocka also look for leaks */
#define test_calloc calloc
#define test_free free
#define skip() longjmp(stand_in_way_out, STAND_IN_SKIPPED)

#define STAND_IN_CHECK(holds, ...)           \
    do {                                     \
        if (!(holds)) fail_msg(__VA_ARGS__); \
    } while (0)
#define STAND_IN_INTEGERS(a, b, comparison)                                                       \
    do {                                                                                          \
        uintmax_t a_ = (uintmax_t)(a), b_ = (uintmax_t)(b);                                       \
        if (!(a_ comparison b_)) fail_msg("%s %s %s: 0x%jx, 0x%jx", #a, #comparison, #b, a_, b_); \
    } while (0)
#define STAND_IN_TEXTS(a, b, comparison)                                                                     \
    do {                                                                                                     \
        const char *a_ = (a), *b_ = (b);                                                                     \
        if (!(strcmp(a_, b_) comparison 0)) fail_msg("\"%s\" %s \"%s\" does not hold", a_, #comparison, b_); \
    } while (0)
#define STAND_IN_BYTES(a, b, n, comparison)                                                                                  \
    do {                                                                                                                     \
        if (!(memcmp((a), (b), (size_t)(n)) comparison 0)) fail_msg("bytes of %s %s %s does not hold", #a, #comparison, #b); \
    } while (0)

#define assert_true(c) STAND_IN_CHECK((c), "%s is not true", #c)
#define assert_false(c) STAND_IN_CHECK(!(c), "%s is not false", #c)
#define assert_non_null(c) STAND_IN_CHECK((c) != NULL, "%s is NULL", #c)
#define assert_null(c) STAND_IN_CHECK((c) == NULL, "%s is not NULL", #c)
#define assert_ptr_equal(a, b) STAND_IN_CHECK((const void *)(a) == (const void *)(b), "%s and %s differ", #a, #b)
#define assert_ptr_not_equal(a, b) STAND_IN_CHECK((const void *)(a) != (const void *)(b), "%s and %s are equal", #a, #b)
#define assert_int_equal(a, b) STAND_IN_INTEGERS(a, b, ==)
#define assert_int_not_equal(a, b) STAND_IN_INTEGERS(a, b, !=)
#define assert_in_range(v, least, most) \
    STAND_IN_CHECK((uintmax_t)(v) >= (uintmax_t)(least) && (uintmax_t)(v) <= (uintmax_t)(most), "%s is not in range", #v)
#define assert_string_equal(a, b) STAND_IN_TEXTS(a, b, ==)
#define assert_string_not_equal(a, b) STAND_IN_TEXTS(a, b, !=)
#define assert_memory_equal(a, b, n) STAND_IN_BYTES(a, b, n, ==)
#define assert_memory_not_equal(a, b, n) STAND_IN_BYTES(a, b, n, !=)
#define assert_float_equal(a, b, epsilon)                                                       \
    do {                                                                                        \
        double a_ = (double)(a), b_ = (double)(b), apart_ = a_ > b_ ? a_ - b_ : b_ - a_;        \
        if (!(apart_ <= (double)(epsilon))) fail_msg("%s is %.9g, %s is %.9g", #a, a_, #b, b_); \
    } while (0)

/* 0: passed; else as longjmp brought it. */
static inline int stand_in_run(const struct CMUnitTest *test, void *group_state) {
    void *volatile state = test->initial_state ? test->initial_state : group_state;
    int outcome = setjmp(stand_in_way_out);
    void *now = state;
    if (outcome == 0) {
        if (test->setup_func && test->setup_func(&now) != 0) return STAND_IN_FAILED;
        state = now;
        test->test_func(&now);
        state = now;
    }
    now = state;
    int before = outcome, after = setjmp(stand_in_way_out);
    if (after == 0 && test->teardown_func && test->teardown_func(&now) != 0) after = STAND_IN_FAILED;
    return before ? before : after;
}

static inline int stand_in_group(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                                 CMFixtureFunction teardown) {
    static void *state; /* static: survives longjmp */
    static int failed, skipped;
    printf("[==========] %s: Running %zu test(s).\n", group, count);
    state = NULL;
    failed = skipped = 0;
    if (setjmp(stand_in_way_out) || (setup && setup(&state) != 0)) {
        printf("[  FAILED  ] GROUP SETUP\n");
        return (int)count;
    }
    for (size_t i = 0; i < count; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        int outcome = stand_in_run(&tests[i], state);
        failed += outcome == STAND_IN_FAILED;
        skipped += outcome == STAND_IN_SKIPPED;
        printf("[ %s ] %s\n", outcome == 0 ? "      OK" : outcome == STAND_IN_SKIPPED ? " SKIPPED" : " FAILED ", tests[i].name);
        fflush(stdout);
    }
    if (setjmp(stand_in_way_out) || (teardown && teardown(&state) != 0)) {
        printf("[  FAILED  ] GROUP TEARDOWN\n");
        failed++;
    }
    printf("[==========] %zu test(s) run, %d failed, %d skipped.\n", count, failed, skipped);
    return failed;
}
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    stand_in_group(name, tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
