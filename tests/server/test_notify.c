/* How an event loop learns that operations of a client are done: by a function or an eventfd. */
#include "base_await.h"
#include "server_hold.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { N = 64, SENDS = 50 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    muster_client *client, *other;
    float ones[N], seen[N];
    server_hold hold;
    _Atomic int notified;
    muster_status refused; /* what the function's own send gave */
    char refusal[200];
} world;

static void open_world(world *t, int32_t progress) {
    memset(t, 0, sizeof *t);
    t->runtime = fixture_open("host", 2);
    t->server = server_of(t->runtime, muster_f32(t->seen, N), 2, progress);
    for (int i = 0; i < N; i++) t->ones[i] = 1;
    assert_ok(muster_client_open(t->server, &t->client));
}

static void close_world(world *t) {
    assert_ok(muster_client_close(t->client));
    fixture_close(t->runtime);
}

static muster_status add(world *t, muster_request **request) {
    return muster_client_send(t->client, 0, MUSTER_RULE_ADD, 1, muster_f32(t->ones, N), 0, request);
}

static void expect_all(world *t, float expected) {
    assert_ok(muster_client_receive(t->client, 0, muster_f32(t->seen, N), NULL));
    for (int i = 0; i < N; i++) assert_float_equal(t->seen[i], expected, 0);
}

static void count_news(void *user) { atomic_fetch_add(&((world *)user)->notified, 1); }

static void wait_until_notified(world *t, int count) { TEST_AWAIT(atomic_load(&t->notified) >= count, 200000); }

/* The operation is done: the request ends. */
static muster_status test_ended(muster_request **request) {
    int32_t done = 0;
    const muster_status status = muster_request_test(request, &done);
    assert_int_equal(done, 1);
    assert_null(*request);
    return status;
}

static void the_function_is_called_once_when_the_operation_is_done(void **state) {
    (void)state;
    world t;
    muster_request *requests[SENDS];
    open_world(&t, 1);
    server_hold_begin(&t.hold, t.server, N); /* shard 0 is busy: no operation can be done */
    for (int i = 0; i < SENDS; i++) {
        assert_ok(add(&t, &requests[i]));
        assert_non_null(requests[i]);
        assert_ok(muster_request_notify(requests[i], count_news, &t));
        assert_refused(muster_request_notify(requests[i], count_news, &t), MUSTER_BAD_STATE,
                       "muster_request_notify: request: expected one without a notification so far");
    }
    assert_int_equal(atomic_load(&t.notified), 0);
    server_hold_end(&t.hold);
    wait_until_notified(&t, SENDS);
    for (int i = 0; i < SENDS; i++) assert_ok(test_ended(&requests[i]));
    expect_all(&t, SENDS);
    assert_int_equal(atomic_load(&t.notified), SENDS);
    close_world(&t);
}

/* Requests that nobody has to hold up: the news and the end race, again and again. */
static void no_news_is_lost_or_comes_twice(void **state) {
    (void)state;
    world t;
    const int rounds = fixture_rounds(2000, 20000);
    int requested = 0;
    open_world(&t, 1);
    for (int i = 0; i < rounds; i++) {
        muster_request *request;
        assert_ok(add(&t, &request));
        requested += request != NULL;
        assert_ok(muster_request_notify(request, count_news, &t));
        if (i % 3 == 0) assert_ok(muster_request_wait(&request));
        if (i % 3 == 1) wait_until_notified(&t, i + 1);
        if (request) assert_ok(muster_request_wait(&request));
    }
    wait_until_notified(&t, rounds);
    expect_all(&t, (float)rounds);
    close_world(&t);
    assert_int_equal(atomic_load(&t.notified), rounds);
    assert_true(requested > 0);
}

static muster_status fail_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                               double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return muster_fail(MUSTER_USER, "not today");
}

static void failures_are_notified_too(void **state) {
    (void)state;
    world t;
    muster_rule rule;
    muster_request *request;
    open_world(&t, 1);
    assert_ok(muster_server_add_rule(t.server, "fails", fail_rule, NULL, &rule));
    assert_ok(muster_client_send(t.client, 0, rule, 1, muster_f32(t.ones, N), 0, &request));
    assert_ok(muster_request_notify(request, count_news, &t));
    wait_until_notified(&t, 1);
    assert_refused(test_ended(&request), MUSTER_USER, "not today");
    close_world(&t);
    assert_int_equal(atomic_load(&t.notified), 1);
}

/* The runtime's close gives up nothing: it waits for what has begun. */
static void the_end_of_the_server_notifies_first(void **state) {
    (void)state;
    world t;
    muster_request *requests[SENDS];
    open_world(&t, 1);
    for (int i = 0; i < SENDS; i++) {
        assert_ok(add(&t, &requests[i]));
        assert_ok(muster_request_notify(requests[i], count_news, &t));
    }
    assert_ok(muster_server_destroy(t.server));
    assert_int_equal(atomic_load(&t.notified), SENDS);
    close_world(&t);
}

static void call_the_server(void *user) {
    world *t = user;
    t->refused = muster_client_send(t->other, 0, MUSTER_RULE_ADD, 1, muster_f32(t->ones, N), 0, NULL);
    snprintf(t->refusal, sizeof t->refusal, "%s", muster_last_error());
    count_news(user);
}

static void the_function_must_not_call_a_server(void **state) {
    (void)state;
    world t;
    muster_request *request;
    open_world(&t, 1);
    assert_ok(muster_client_open(t.server, &t.other));
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(&t, &request));
    assert_ok(muster_request_notify(request, call_the_server, &t));
    server_hold_end(&t.hold);
    wait_until_notified(&t, 1);
    assert_int_equal(t.refused, MUSTER_BAD_STATE);
    assert_string_equal(t.refusal, "muster_client_send: called inside a rule or a completion function of server 'server', which must not "
                                   "call a server");
    assert_ok(muster_request_wait(&request));
    expect_all(&t, 1);
    assert_ok(muster_client_close(t.other));
    close_world(&t);
}

/* ---- an eventfd ---- */

static void one_eventfd_serves_many_operations(void **state) {
    (void)state;
    world t;
    muster_request *requests[SENDS];
    struct epoll_event event = {.events = EPOLLIN};
    const int loop = epoll_create1(EPOLL_CLOEXEC), fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t all = 0;
    int ended = 0;
    open_world(&t, 2);
    assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event), 0);
    server_hold_begin(&t.hold, t.server, N);
    for (int i = 0; i < SENDS; i++) {
        assert_ok(add(&t, &requests[i]));
        assert_ok(muster_request_notify_fd(requests[i], fd));
    }
    assert_int_equal(epoll_wait(loop, &event, 1, 0), 0);
    server_hold_end(&t.hold);
    while (all < SENDS) {
        uint64_t news = 0;
        assert_int_equal(epoll_wait(loop, &event, 1, -1), 1);
        assert_int_equal(read(fd, &news, sizeof news), sizeof news);
        all += news;
    }
    for (int i = 0; i < SENDS; i++, ended++) assert_ok(test_ended(&requests[i]));
    assert_int_equal(all, SENDS);
    assert_int_equal(ended, SENDS);
    expect_all(&t, SENDS);
    close_world(&t);
    close(fd);
    close(loop);
}

/* ---- refusals ---- */

static muster_status worker_body(muster_worker *worker, void *user) {
    world *t = user;
    static float ones[2][N];
    muster_client *client;
    muster_request *request;
    if (muster_worker_rank(worker) > 0) return MUSTER_OK;
    MUSTER_TRY(muster_worker_client(worker, t->server, &client));
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 1, muster_f32(ones[0], N), 0, &request));
    const muster_status status = muster_request_notify(request, count_news, t);
    if (request && status != MUSTER_UNSUPPORTED) return muster_fail(MUSTER_USER, "expected UNSUPPORTED");
    if (request && !strstr(muster_last_error(), "expected one of a client of muster_client_open, received one of rank 0"))
        return muster_fail(MUSTER_USER, muster_last_error());
    return muster_request_wait(&request);
}

static void what_could_wait_for_ever_is_refused(void **state) {
    (void)state;
    world t;
    muster_request *request;
    open_world(&t, -1);
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(&t, &request));
    assert_refused(muster_request_notify(request, count_news, &t), MUSTER_UNSUPPORTED, "server 'server' has no threads (options.progress)");
    assert_refused(muster_request_notify(request, NULL, &t), MUSTER_INVALID_ARGUMENT,
                   "muster_request_notify: function: expected a function");
    assert_refused(muster_request_notify_fd(request, -1), MUSTER_INVALID_ARGUMENT,
                   "muster_request_notify_fd: fd: expected an open file descriptor, received -1");
    server_hold_end(&t.hold);
    assert_ok(muster_request_wait(&request));
    assert_int_equal(atomic_load(&t.notified), 0);
    assert_ok(muster_request_notify(NULL, count_news, &t)); /* what has ended is notified at once */
    assert_int_equal(atomic_load(&t.notified), 1);
    close_world(&t);
    open_world(&t, 1);
    assert_ok(server_run(t.runtime, worker_body, &t));
    close_world(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_function_is_called_once_when_the_operation_is_done),
        cmocka_unit_test(no_news_is_lost_or_comes_twice),
        cmocka_unit_test(failures_are_notified_too),
        cmocka_unit_test(the_end_of_the_server_notifies_first),
        cmocka_unit_test(the_function_must_not_call_a_server),
        cmocka_unit_test(one_eventfd_serves_many_operations),
        cmocka_unit_test(what_could_wait_for_ever_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
