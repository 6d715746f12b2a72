/* Code of other libraries on a thread of its own: its stack, its signals, its result and its
 * message. */
#include "base_await.h"
#include "base_check.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { STACK = 8 << 20, SMALL_STACK = 128 << 10 };

typedef struct visit {
    pthread_t thread;
    size_t stack;
    sigset_t blocked;
    int calls;
    bool fails;
} visit;

static muster_status look_around(void *argument) {
    visit *v = argument;
    pthread_attr_t attributes;
    void *lowest;
    v->calls++;
    v->thread = pthread_self();
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &v->blocked), 0);
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &lowest, &v->stack), 0);
    pthread_attr_destroy(&attributes);
    return v->fails ? mst_error(MUSTER_SYSTEM, "task: it has failed") : MUSTER_OK;
}

/* The task has run once, on another thread, where no signal of the program arrives. */
static void assert_visited(const visit *v) {
    assert_int_equal(v->calls, 1);
    assert_false(pthread_equal(v->thread, pthread_self()));
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP) assert_int_equal(sigismember(&v->blocked, i), 1);
}

/* Programs may set a small stack for all threads that do not ask for another one. */
static void the_task_has_a_large_stack(void **state) {
    (void)state;
    pthread_attr_t before, small;
    visit v = {0};
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, SMALL_STACK), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    const muster_status status = mst_own_thread_run(look_around, &v, "test");
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&before);
    assert_ok(status);
    assert_visited(&v);
    assert_true(v.stack >= STACK);
}

static void a_failure_is_that_of_the_caller(void **state) {
    (void)state;
    visit good = {0}, bad = {.fails = true};
    assert_ok(mst_own_thread_run(look_around, &good, "test"));
    assert_refused(mst_own_thread_run(look_around, &bad, "test"), MUSTER_SYSTEM, "task: it has failed");
    assert_visited(&good);
    assert_visited(&bad);
}

static void a_thread_that_cannot_be_started_is_an_error(void **state) {
    (void)state;
    visit v = {0};
    sigset_t after;
    mst_memory_fail_at(1);
    assert_refused(mst_own_thread_run(look_around, &v, "test"), MUSTER_OUT_OF_MEMORY,
                   "test: out of memory, starting a thread with 8388608 bytes of stack");
    mst_memory_fail_at(0);
    assert_int_equal(v.calls, 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int i = 1; i < 32; i++) assert_int_equal(sigismember(&after, i), 0);
}

static void the_callers_signals_stay(void **state) {
    (void)state;
    visit v = {0};
    sigset_t given, before, after;
    sigemptyset(&given);
    sigaddset(&given, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &given, &before), 0);
    assert_ok(mst_own_thread_run(look_around, &v, "test"));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    for (int i = 1; i < 32; i++) assert_int_equal(sigismember(&after, i), i == SIGUSR2);
    assert_visited(&v);
}

/* ---- several at once ---- */

typedef struct crowd {
    _Atomic int arrived, wanted, calls, fails;
} crowd;

/* Returns when as many threads are in the task as the test wants. */
static muster_status meet(void *argument) {
    crowd *c = argument;
    const int number = atomic_fetch_add(&c->arrived, 1);
    TEST_AWAIT(atomic_load(&c->arrived) >= atomic_load(&c->wanted), 0);
    atomic_fetch_add(&c->calls, 1);
    return number < atomic_load(&c->fails) ? mst_error(MUSTER_SYSTEM, "task: number %d has failed", number) : MUSTER_OK;
}

static void several_threads_run_at_the_same_time(void **state) {
    (void)state;
    const int counts[] = {1, 2, 17};
    for (int i = 0; i < 3; i++) {
        crowd c = {.wanted = counts[i]};
        assert_ok(mst_own_threads_run(meet, &c, counts[i], "test"));
        assert_int_equal(c.calls, counts[i]);
    }
}

static void one_failure_among_several_is_that_of_the_caller(void **state) {
    (void)state;
    crowd c = {.wanted = 5, .fails = 1};
    assert_refused(mst_own_threads_run(meet, &c, 5, "test"), MUSTER_SYSTEM, "task: number 0 has failed");
    assert_int_equal(c.calls, 5);
}

/* Allocation 1 is the list of threads, 2 the first thread. */
static void fewer_threads_do_and_none_is_an_error(void **state) {
    (void)state;
    crowd none = {.wanted = 1}, two = {.wanted = 2};
    for (int k = 1; k <= 2; k++) {
        mst_memory_fail_at(k);
        assert_refused(mst_own_threads_run(meet, &none, 4, "test"), MUSTER_OUT_OF_MEMORY, "test: out of memory");
        mst_memory_fail_at(0);
        assert_int_equal(none.calls, 0);
    }
    mst_memory_fail_at(4);
    assert_ok(mst_own_threads_run(meet, &two, 4, "test"));
    mst_memory_fail_at(0);
    assert_int_equal(two.calls, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_task_has_a_large_stack),
        cmocka_unit_test(a_failure_is_that_of_the_caller),
        cmocka_unit_test(a_thread_that_cannot_be_started_is_an_error),
        cmocka_unit_test(the_callers_signals_stay),
        cmocka_unit_test(several_threads_run_at_the_same_time),
        cmocka_unit_test(one_failure_among_several_is_that_of_the_caller),
        cmocka_unit_test(fewer_threads_do_and_none_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
