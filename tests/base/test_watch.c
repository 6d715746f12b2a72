/* What tests wait for has an end: a thread that hangs ends the program with a sentence
 * (base_watch.h). Each case is a child of this process. */
#include "base_check.h"
#include "base_watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *hangs(void *unused) {
    for (;;) pause();
    return unused;
}

static void *ends(void *unused) { return unused; }

static void join_one(void *(*main)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, main, NULL) != 0) _exit(3);
    test_join(thread, "the thread of process %d", 7);
}

static void describe(void *user) { fprintf(stderr, "  it did last: %s\n", (const char *)user); }

static void child_hangs(void) { join_one(hangs); }

static void child_ends(void) {
    for (int i = 0; i < 1000; i++) join_one(ends);
}

/* Of two the one that has begun first is late first, wherever it is in the list. */
static void child_outer_hangs(void) {
    test_watch outer = {.describe = describe, .user = "all_reduce"}, inner = {.describe = NULL};
    test_watch_begin(&outer, "the task of a pool of %d", 3);
    for (;;) {
        test_watch_begin(&inner, "what is short");
        usleep(1000);
        test_watch_end(&inner);
    }
}

/* What has ended is not watched any more. */
static void child_has_ended(void) {
    test_watch watch = {.describe = NULL};
    test_watch_begin(&watch, "what is short");
    test_watch_end(&watch);
    usleep(900000);
}

/* How the child ends; text: its stderr. */
static int run_child(void (*body)(void), char *text, size_t size) {
    int ends_of_pipe[2], status = 0;
    assert_int_equal(pipe(ends_of_pipe), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends_of_pipe[1], STDERR_FILENO);
        close(ends_of_pipe[0]);
        test_watch_longest_ns = 200000000;
        body();
        _exit(0);
    }
    close(ends_of_pipe[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends_of_pipe[0], text + length, size - 1 - length)) > 0;) length += (size_t)got;
    text[length] = 0;
    close(ends_of_pipe[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_a_thread_that_hangs_ends_the_program(void **state) {
    (void)state;
    char text[4096];
    const int status = run_child(child_hangs, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "waited "));
    assert_non_null(strstr(text, " s for the thread of process 7\n"));
}

static void test_the_call_that_hangs_is_described(void **state) {
    (void)state;
    char text[4096];
    const int status = run_child(child_outer_hangs, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, " s for the task of a pool of 3\n  it did last: all_reduce\n"));
}

static void test_what_ends_in_time_goes_on(void **state) {
    (void)state;
    char text[4096];
    assert_int_equal(run_child(child_ends, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(run_child(child_has_ended, text, sizeof text), 0);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_hangs_ends_the_program),
        cmocka_unit_test(test_the_call_that_hangs_is_described),
        cmocka_unit_test(test_what_ends_in_time_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
