/* A signal handler that interrupts a call of its own thread and calls the same runtime: it is
 * refused where it would wait for the call that it has interrupted, and the call goes on. */
#include "base_check.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "muster/function.h"
#include "muster/ops.h"
#include "pool_impl.h"
#include "runtime_impl.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

enum { ROWS = 64, WANTED = 100 };

static muster_runtime *runtime;
static muster_function *function;
static muster_variable *variable;
static float rows[ROWS];
static _Atomic int served, refused, others;

static muster_status sum_rows(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(worker, in[0], out[0]);
}

static muster_status call_once(float *sum) {
    return muster_function_call(function, (muster_tensor[]){muster_f32(rows, ROWS)}, 1, (muster_tensor[]){muster_f32(sum)}, 1, NULL);
}

static void call_in_handler(int signal) {
    (void)signal;
    const int before = errno;
    float sum = 0;
    const muster_status status = call_once(&sum);
    if (status == MUSTER_OK)
        served += sum == ROWS;
    else if (status == MUSTER_BAD_STATE)
        refused++;
    else
        others++;
    errno = before;
}

static void open_on(const char *devices) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    served = refused = others = 0;
    for (int i = 0; i < ROWS; i++) rows[i] = 1;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_function_create(runtime, "sum", sum_rows, NULL, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(function, "sum", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_variable_create(runtime, "v", muster_f32(rows), &variable));
    struct sigaction action = {.sa_handler = call_in_handler, .sa_flags = SA_RESTART | SA_NODEFER};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void close_all(void) {
    float sum = 0;
    assert_ok(call_once(&sum));
    assert_true(sum == ROWS);
    assert_int_equal(others, 0);
    assert_ok(muster_runtime_close(runtime));
}

static const char inside[] = "inside a call of the same thread";

/* The place of the interruption is chosen: the pool has been entered. */
static void every_kind_of_call_is_refused_inside_a_call_of_its_thread(void **state) {
    (void)state;
    open_on("host:2");
    float value = 0;
    muster_function *made;
    muster_pending *pending;
    int32_t rank;
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_refused(call_once(&value), MUSTER_BAD_STATE, inside);
    assert_refused(muster_function_create(runtime, "again", sum_rows, NULL, &made), MUSTER_BAD_STATE, inside);
    assert_refused(muster_function_destroy(function), MUSTER_BAD_STATE, inside);
    assert_refused(muster_variable_get(variable, 0, muster_f32(&value)), MUSTER_BAD_STATE, inside);
    assert_refused(muster_runtime_close(runtime), MUSTER_BAD_STATE, inside);
    assert_refused(muster_function_call_async(function, (muster_tensor[]){muster_f32(rows, ROWS)}, 1, (muster_tensor[]){muster_f32(&value)},
                                              1, NULL, &pending),
                   MUSTER_BAD_STATE, inside);
    assert_ok(muster_runtime_find_device(runtime, "0", &rank)); /* what waits for no call */
    mst_pool_leave(runtime->pool);
    close_all();
}

#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_SIGNALS() \
    SKIP("ThreadSanitizer holds signals back where a thread waits in a futex, and reports each allocation in a handler")
#else
#define SKIP_WITHOUT_SIGNALS() (void)0
#endif

/* Signals come wherever the calls are. The number of handlers ends the loop, not a time. */
static void call_until_interrupted(bool async) {
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (served + refused < WANTED) {
        float sum = 0;
        if (async) {
            muster_pending *pending;
            assert_ok(muster_function_call_async(function, (muster_tensor[]){muster_f32(rows, ROWS)}, 1,
                                                 (muster_tensor[]){muster_f32(&sum)}, 1, NULL, &pending));
            assert_ok(muster_pending_wait(&pending));
        } else {
            assert_ok(call_once(&sum));
        }
        assert_true(sum == ROWS);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

static void handlers_that_interrupt_calls_end(void **state) {
    (void)state;
    SKIP_WITHOUT_SIGNALS();
    static const char *const devices[] = {"host:1", "host:2", "discrete:2"};
    assert_ok(mst_discrete_register());
    for (int i = 0; i < 3; i++) {
        open_on(devices[i]);
        call_until_interrupted(false);
        assert_true(refused > 0);
        close_all();
    }
}

static void handlers_that_interrupt_asynchronous_calls_end(void **state) {
    (void)state;
    SKIP_WITHOUT_SIGNALS();
    open_on("host:2");
    call_until_interrupted(true);
    close_all();
}

static void *wait_for_a_turn(void *result) {
    float sum = 0;
    *(muster_status *)result = call_once(&sum);
    return NULL;
}

/* The thread has its place in the order, and a call of its handler would come behind it. */
static void a_handler_that_interrupts_a_wait_for_a_turn_is_refused(void **state) {
    (void)state;
    SKIP_WITHOUT_SIGNALS();
    open_on("host:2");
    pthread_t thread;
    muster_status status = MUSTER_USER;
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_a_turn, &status), 0);
    while (refused == 0) { /* the handler waits, too, where the thread does not yet: the next one interrupts that wait */
        pthread_kill(thread, SIGUSR1);
        for (int i = 0; i < 100; i++) sched_yield();
    }
    mst_pool_leave(runtime->pool);
    pthread_join(thread, NULL);
    assert_ok(status);
    close_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_call_is_refused_inside_a_call_of_its_thread),
        cmocka_unit_test(handlers_that_interrupt_calls_end),
        cmocka_unit_test(handlers_that_interrupt_asynchronous_calls_end),
        cmocka_unit_test(a_handler_that_interrupts_a_wait_for_a_turn_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
