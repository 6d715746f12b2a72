/* How an event loop learns that asynchronous calls have ended: by a function or a file
 * descriptor. */
#include "base_await.h"
#include "function_fixture.h"

#include "muster/ops.h"
#include "muster/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 12, CALLS = 24, CHAIN = 10 };

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    float x[ROWS], y[CALLS];
    muster_pending *pending[CALLS];
    _Atomic bool closed; /* bodies wait */
    _Atomic int entered, notified;
    pthread_t notifier;
} world;

/* Fails for a first element of -1. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    float first;
    atomic_fetch_add(&t->entered, 1);
    TEST_AWAIT(!atomic_load(&t->closed), 1000000);
    MUSTER_TRY(muster_worker_read(w, muster_tensor_slice(in[0], 0, 1), muster_f32(&first, 1)));
    if (first < 0) return muster_fail(MUSTER_USER, "asked to fail");
    return muster_sum(w, in[0], out[0]);
}

static void open_world(world *t, const char *backend, int count) {
    memset(t, 0, sizeof *t);
    for (int i = 0; i < ROWS; i++) t->x[i] = (float)(i + 1);
    t->runtime = fixture_open(backend, count);
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 0, MUSTER_SUM));
}

static muster_status call(world *t, int number, const muster_call_options *options) {
    return muster_function_call_async(t->f, (muster_tensor[]){muster_f32(t->x, ROWS)}, 1, (muster_tensor[]){muster_f32(&t->y[number])}, 1,
                                      options, &t->pending[number]);
}

static void count_news(void *user) {
    world *t = user;
    t->notifier = pthread_self();
    atomic_fetch_add(&t->notified, 1);
}

static void wait_until_notified(world *t, int count) { TEST_AWAIT(atomic_load(&t->notified) >= count, 1000000); }

/* The handle has ended, and ends now. */
static muster_status test_ended(muster_pending **pending) {
    int32_t done = 0;
    const muster_status status = muster_pending_test(pending, &done);
    assert_int_equal(done, 1);
    assert_null(*pending);
    return status;
}

/* ---- functions ---- */

static void the_function_is_called_once_when_the_call_has_ended(void **state) {
    (void)state;
    for_each_backend(backend) {
        for (int count = 1; count <= 3; count++) {
            world t;
            open_world(&t, backend, count);
            atomic_store(&t.closed, true);
            for (int i = 0; i < CALLS; i++) {
                assert_ok(call(&t, i, NULL));
                assert_ok(muster_pending_notify(t.pending[i], count_news, &t));
            }
            TEST_AWAIT(atomic_load(&t.entered) >= processes_own_ranks(), 1000000);
            assert_int_equal(atomic_load(&t.notified), 0);
            atomic_store(&t.closed, false);
            wait_until_notified(&t, CALLS);
            for (int i = 0; i < CALLS; i++) {
                assert_ok(test_ended(&t.pending[i]));
                assert_float_equal(t.y[i], 78, 0);
            }
            assert_false(pthread_equal(t.notifier, pthread_self()));
            fixture_close(t.runtime);
            assert_int_equal(atomic_load(&t.notified), CALLS);
        }
    }
}

static void a_call_that_has_ended_is_notified_at_once(void **state) {
    (void)state;
    world t;
    open_world(&t, "host", 2);
    assert_ok(call(&t, 0, NULL));
    assert_ok(muster_pending_notify(t.pending[0], count_news, &t));
    wait_until_notified(&t, 1);
    assert_refused(muster_pending_notify(t.pending[0], count_news, &t), MUSTER_BAD_STATE,
                   "muster_pending_notify: pending: expected a call without a notification so far");
    assert_int_equal(atomic_load(&t.notified), 1);
    assert_ok(muster_pending_wait(&t.pending[0]));
    assert_ok(call(&t, 1, NULL));
    assert_ok(call(&t, 2, NULL));
    assert_ok(muster_pending_wait(&t.pending[2])); /* behind call 1 */
    assert_ok(muster_pending_notify(t.pending[1], count_news, &t));
    assert_int_equal(atomic_load(&t.notified), 2);
    assert_true(pthread_equal(t.notifier, pthread_self()));
    assert_ok(test_ended(&t.pending[1]));
    assert_ok(muster_pending_notify(t.pending[1], count_news, &t)); /* a NULL handle has ended */
    assert_int_equal(atomic_load(&t.notified), 3);
    assert_refused(muster_pending_notify(t.pending[1], NULL, &t), MUSTER_INVALID_ARGUMENT,
                   "muster_pending_notify: function: expected a function");
    fixture_close(t.runtime);
}

static void must_not_come(void *user) {
    (void)user;
    fail();
}

/* The call cannot end before both have asked, so it is the first that is told. */
static void a_second_notification_is_refused_and_the_first_stays(void **state) {
    (void)state;
    world t;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t news;
    open_world(&t, "host", 2);
    atomic_store(&t.closed, true);
    for (int i = 0; i < 2; i++) assert_ok(call(&t, i, NULL));
    assert_ok(muster_pending_notify(t.pending[0], count_news, &t));
    assert_ok(muster_pending_notify_fd(t.pending[1], fd));
    for (int i = 0; i < 2; i++) {
        assert_refused(muster_pending_notify(t.pending[i], must_not_come, NULL), MUSTER_BAD_STATE, "without a notification so far");
        assert_refused(muster_pending_notify_fd(t.pending[i], fd), MUSTER_BAD_STATE, "without a notification so far");
    }
    atomic_store(&t.closed, false);
    wait_until_notified(&t, 1);
    for (int i = 0; i < 2; i++) assert_ok(muster_pending_wait(&t.pending[i]));
    fixture_close(t.runtime);
    assert_int_equal(atomic_load(&t.notified), 1);
    assert_int_equal(read(fd, &news, sizeof news), sizeof news);
    assert_int_equal(news, 1);
    close(fd);
}

static void failures_are_notified_too(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        muster_call_options options;
        open_world(&t, backend, 2);
        atomic_store(&t.closed, true);
        t.x[0] = -1;
        assert_ok(call(&t, 0, NULL));
        muster_call_options_init(&options);
        options.queue_timeout_ns = 1;
        assert_ok(call(&t, 1, &options)); /* which is never made */
        for (int i = 0; i < 2; i++) assert_ok(muster_pending_notify(t.pending[i], count_news, &t));
        TEST_AWAIT(atomic_load(&t.entered) >= 1, 1000000);
        atomic_store(&t.closed, false);
        wait_until_notified(&t, 2);
        assert_refused(test_ended(&t.pending[0]), MUSTER_USER, "asked to fail");
        assert_refused(test_ended(&t.pending[1]), MUSTER_TIMEOUT, "for other calls to end");
        fixture_close(t.runtime);
    }
}

static void handles_that_end_first_are_notified_all_the_same(void **state) {
    (void)state;
    world t;
    open_world(&t, "host", 2);
    for (int i = 0; i < CALLS; i++) {
        assert_ok(call(&t, i, NULL));
        assert_ok(muster_pending_notify(t.pending[i], count_news, &t));
        if (i % 2)
            assert_ok(muster_pending_wait(&t.pending[i]));
        else
            assert_ok(muster_pending_destroy(t.pending[i]));
    }
    fixture_close(t.runtime);
    assert_int_equal(atomic_load(&t.notified), CALLS);
}

/* ---- what a function may do ---- */

typedef struct chain {
    world world;
    muster_status close, ended[CHAIN], made[CHAIN], waited[CHAIN], destroyed[CHAIN];
    char refusal[200], wait_refusal[200];
    int next;
} chain;

/* Ends its own handle and makes the next call, for which it cannot wait. */
static void go_on(void *user) {
    chain *c = user;
    world *t = &c->world;
    const int i = c->next++;
    if (i == 0) c->close = muster_runtime_close(t->runtime);
    if (i == 0) snprintf(c->refusal, sizeof c->refusal, "%s", muster_last_error());
    c->ended[i] = muster_pending_wait(&t->pending[i]);
    if (i + 1 < CHAIN) {
        c->made[i] = call(t, i + 1, NULL);
        c->waited[i] = muster_pending_wait(&t->pending[i + 1]);
        snprintf(c->wait_refusal, sizeof c->wait_refusal, "%s", muster_last_error());
        c->destroyed[i] = muster_pending_destroy(t->pending[i + 1]);
        if (c->made[i] == MUSTER_OK) c->made[i] = muster_pending_notify(t->pending[i + 1], go_on, c);
    }
    atomic_fetch_add(&t->notified, 1);
}

static void the_function_may_end_the_handle_and_call_again(void **state) {
    (void)state;
    static chain c;
    memset(&c, 0, sizeof c);
    open_world(&c.world, "host", 2);
    atomic_store(&c.world.closed, true); /* until the function is known */
    assert_ok(call(&c.world, 0, NULL));
    assert_ok(muster_pending_notify(c.world.pending[0], go_on, &c));
    atomic_store(&c.world.closed, false);
    wait_until_notified(&c.world, CHAIN);
    assert_int_equal(c.close, MUSTER_BAD_STATE);
    assert_string_equal(c.refusal, "muster_runtime_close: called inside a completion function, which has to return first");
    assert_string_equal(c.wait_refusal, "muster_pending_wait: called inside a completion function, whose thread has yet to make the call");
    for (int i = 0; i < CHAIN; i++) {
        assert_int_equal(c.ended[i], MUSTER_OK);
        assert_int_equal(c.made[i], MUSTER_OK);
        assert_int_equal(c.waited[i], i + 1 < CHAIN ? MUSTER_BAD_STATE : MUSTER_OK);
        assert_int_equal(c.destroyed[i], i + 1 < CHAIN ? MUSTER_BAD_STATE : MUSTER_OK);
        assert_float_equal(c.world.y[i], 78, 0);
    }
    fixture_close(c.world.runtime);
}

/* ---- file descriptors ---- */

static void one_eventfd_serves_many_calls(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        struct epoll_event event = {.events = EPOLLIN};
        const int loop = epoll_create1(EPOLL_CLOEXEC), fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        int ended = 0, failed = 0;
        uint64_t all = 0;
        open_world(&t, backend, 2);
        assert_true(loop >= 0 && fd >= 0);
        assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event), 0);
        for (int i = 0; i < CALLS; i++) {
            assert_ok(call(&t, i, NULL));
            assert_ok(muster_pending_notify_fd(t.pending[i], fd));
        }
        while (ended < CALLS) {
            uint64_t news = 0;
            assert_int_equal(epoll_wait(loop, &event, 1, -1), 1);
            assert_int_equal(read(fd, &news, sizeof news), sizeof news);
            all += news;
            for (int i = 0; i < CALLS; i++) {
                int32_t done = 0;
                if (!t.pending[i]) continue;
                failed += muster_pending_test(&t.pending[i], &done) != MUSTER_OK;
                ended += done;
            }
        }
        fixture_close(t.runtime);
        uint64_t rest = 0; /* of calls that had ended before their news came */
        if (read(fd, &rest, sizeof rest) == sizeof rest) all += rest;
        assert_int_equal(all, CALLS);
        assert_int_equal(failed, 0);
        close(fd);
        close(loop);
    }
}

static void each_call_may_have_an_eventfd_of_its_own(void **state) {
    (void)state;
    world t;
    const int loop = epoll_create1(EPOLL_CLOEXEC);
    int fds[CALLS];
    open_world(&t, "host", 2);
    for (int i = 0; i < CALLS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        fds[i] = eventfd(0, EFD_CLOEXEC);
        assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, fds[i], &event), 0);
        assert_ok(call(&t, i, NULL));
        assert_ok(muster_pending_notify_fd(t.pending[i], fds[i]));
    }
    for (int i = 0; i < CALLS; i++) {
        struct epoll_event event;
        uint64_t news = 0;
        assert_int_equal(epoll_wait(loop, &event, 1, -1), 1);
        assert_int_equal(read(fds[event.data.u32], &news, sizeof news), sizeof news);
        assert_int_equal(news, 1);
        assert_ok(test_ended(&t.pending[event.data.u32])); /* the news never comes before the end */
        assert_float_equal(t.y[event.data.u32], 78, 0);
        close(fds[event.data.u32]);
    }
    close(loop);
    fixture_close(t.runtime);
}

static void descriptors_that_are_not_open_are_refused(void **state) {
    (void)state;
    world t;
    const int fd = eventfd(0, EFD_CLOEXEC);
    open_world(&t, "host", 1);
    assert_ok(call(&t, 0, NULL));
    assert_refused(muster_pending_notify_fd(t.pending[0], -1), MUSTER_INVALID_ARGUMENT,
                   "muster_pending_notify_fd: fd: expected an open file descriptor, received -1");
    close(fd);
    assert_refused(muster_pending_notify_fd(t.pending[0], fd), MUSTER_INVALID_ARGUMENT, "fd: expected an open file descriptor, received ");
    assert_ok(muster_pending_notify(t.pending[0], count_news, &t)); /* the refusals have taken nothing */
    wait_until_notified(&t, 1);
    assert_ok(muster_pending_wait(&t.pending[0]));
    fixture_close(t.runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_function_is_called_once_when_the_call_has_ended),
        cmocka_unit_test(a_call_that_has_ended_is_notified_at_once),
        cmocka_unit_test(a_second_notification_is_refused_and_the_first_stays),
        cmocka_unit_test(failures_are_notified_too),
        cmocka_unit_test(handles_that_end_first_are_notified_all_the_same),
        cmocka_unit_test(the_function_may_end_the_handle_and_call_again),
        cmocka_unit_test(one_eventfd_serves_many_calls),
        cmocka_unit_test(each_call_may_have_an_eventfd_of_its_own),
        cmocka_unit_test(descriptors_that_are_not_open_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
