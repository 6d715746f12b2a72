/* A failure is reported to the caller that caused it, and harms no other: rules that fail,
 * deadlines, lost calls, bodies that leave what they have begun, the end of a server that is busy,
 * and the order of those who wait. */
#include "base_await.h"
#include "base_machine.h"
#include "base_pace.h"
#include "muster/ops.h"
#include "server_hold.h"

enum { N = 12, SHARDS = 3, MILLISECOND = 1000000 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    muster_client *a, *b;
    float ones[N], got[N];
    server_hold hold;
    char log[4096];
    muster_log_level level; /* of the newest line */
} world;

static void keep_line(void *user, muster_log_level level, const char *line) {
    world *t = user;
    t->level = level;
    strncat(t->log, line, sizeof t->log - strlen(t->log) - 1);
}

static void open_world(world *t, int64_t warn_after_ns, int64_t fail_after_ns) {
    muster_runtime_options options;
    float zeros[N] = {0};
    memset(t, 0, sizeof *t);
    for (int i = 0; i < N; i++) t->ones[i] = 1;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.warn_after_ns = warn_after_ns;
    options.fail_after_ns = fail_after_ns;
    options.log = keep_line;
    options.log_user = t;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    t->server = server_of(t->runtime, muster_f32(zeros, N), SHARDS, -1);
    assert_ok(muster_client_open(t->server, &t->a));
    assert_ok(muster_client_open(t->server, &t->b));
}

static void close_world(world *t) {
    assert_ok(muster_client_close(t->a));
    assert_ok(muster_client_close(t->b));
    assert_ok(muster_runtime_close(t->runtime));
}

static muster_status add(muster_client *client, world *t, muster_request **request) {
    return muster_client_send(client, 0, MUSTER_RULE_ADD, 0, muster_f32(t->ones, N), 0, request);
}

static void assert_shards_are(world *t, muster_client *client, float first, float second, float third) {
    assert_ok(muster_client_receive(client, 0, muster_f32(t->got, N), NULL));
    for (int i = 0; i < N; i++) assert_float_equal(t->got[i], i < 4 ? first : i < 8 ? second : third, 0);
}

/* ---- rules that fail ---- */

static muster_status fail_on_the_second(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                        double scale) {
    (void)dtype;
    if (first == 4) return user ? muster_fail(MUSTER_USER, "no luck") : MUSTER_SHAPE_MISMATCH;
    for (int64_t i = 0; i < count; i++) ((float *)value)[i] += (float)scale * ((const float *)tensor)[i];
    return MUSTER_OK;
}

static void a_rule_s_failure_is_told_by_the_wait(void **state) {
    (void)state;
    world t;
    muster_rule rule, silent;
    muster_request *request, *later;
    open_world(&t, 0, 0);
    assert_ok(muster_server_add_rule(t.server, "fails", fail_on_the_second, &t, &rule));
    assert_ok(muster_server_add_rule(t.server, "fails silently", fail_on_the_second, NULL, &silent));
    assert_ok(muster_client_send(t.a, 0, rule, 2, muster_f32(t.ones, N), 0, &request));
    assert_ok(add(t.a, &t, &later));
    assert_refused(muster_request_wait(&request), MUSTER_USER, "server 'server': rule 'fails': no luck");
    assert_null(request);
    assert_ok(muster_request_wait(&later));
    assert_shards_are(&t, t.b, 3, 1, 3);
    assert_refused(muster_client_send(t.a, 0, silent, 2, muster_f32(t.ones, N), 0, NULL), MUSTER_SHAPE_MISMATCH,
                   "rule 'fails silently' failed");
    assert_shards_are(&t, t.a, 5, 1, 5);
    close_world(&t);
}

static void a_failure_in_a_helper_s_hands_is_not_the_helper_s(void **state) {
    (void)state;
    world t;
    muster_rule rule;
    muster_request *request;
    open_world(&t, 0, 0);
    assert_ok(muster_server_add_rule(t.server, "fails", fail_on_the_second, &t, &rule));
    server_hold_begin(&t.hold, t.server, N);
    /* a: its part of the first shard waits; b: the same, and after the hold it applies both */
    const muster_request *none = NULL;
    assert_ok(muster_client_send(t.a, 0, rule, 1, muster_f32(t.ones, N), 0, &request));
    assert_true(request != none);
    server_hold_end(&t.hold);
    assert_int_equal(muster_client_send(t.b, 7, MUSTER_RULE_ADD, 0, muster_f32(t.ones, N), 0, NULL), MUSTER_OUT_OF_RANGE);
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    assert_shards_are(&t, t.b, 1, 0, 1);
    assert_string_equal(muster_last_error(), before);
    assert_refused(muster_request_wait(&request), MUSTER_USER, "no luck");
    close_world(&t);
}

typedef struct caller {
    world *t;
    muster_status send, send_other, wait, close;
    char refusal[200];          /* of close */
    muster_client *own, *other; /* of another server */
} caller;

static muster_status call_the_server(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                     double scale) {
    caller *c = user;
    (void)dtype, (void)value, (void)tensor, (void)count, (void)scale;
    if (first == 0) c->send = add(c->own, c->t, NULL);
    if (first == 0) c->send_other = add(c->other, c->t, NULL);
    if (first == 0) c->wait = muster_server_destroy(c->t->server);
    if (first == 0) c->close = muster_runtime_close(c->t->runtime);
    if (first == 0) snprintf(c->refusal, sizeof c->refusal, "%s", muster_last_error());
    return MUSTER_OK;
}

static void a_rule_must_not_call_a_server(void **state) {
    (void)state;
    world t;
    muster_rule rule;
    open_world(&t, 0, 0);
    caller c = {.t = &t, .own = t.b};
    muster_server *other;
    const muster_tensor ones = muster_f32(t.ones, N);
    assert_ok(muster_server_create(t.runtime, "other", &ones, 1, NULL, &other));
    assert_ok(muster_client_open(other, &c.other));
    assert_ok(muster_server_add_rule(t.server, "calls", call_the_server, &c, &rule));
    assert_ok(muster_client_send(t.a, 0, rule, 1, muster_f32(t.ones, N), 0, NULL));
    assert_int_equal(c.send, MUSTER_BAD_STATE);
    assert_int_equal(c.send_other, MUSTER_BAD_STATE);
    assert_int_equal(c.wait, MUSTER_BAD_STATE);
    assert_int_equal(c.close, MUSTER_BAD_STATE);
    assert_string_equal(c.refusal, "muster_runtime_close: called inside a rule of a server, which has to return first");
    assert_ok(muster_client_close(c.other));
    assert_shards_are(&t, t.a, 0, 0, 0);
    close_world(&t);
}

/* ---- closing the runtime in a callback ---- */

static char close_refusal[200];
static int close_calls;

static void close_in_callback(muster_runtime *runtime) {
    close_calls++;
    assert_int_equal(muster_runtime_close(runtime), MUSTER_BAD_STATE);
    snprintf(close_refusal, sizeof close_refusal, "%s", muster_last_error());
}

static muster_status fill_and_close(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count) {
    (void)index, (void)dtype, (void)first;
    memset(value, 0, (size_t)count * sizeof(float));
    close_in_callback(user);
    return MUSTER_OK;
}

static muster_status succeed(muster_worker *worker, void *user) {
    (void)worker, (void)user;
    return MUSTER_OK;
}

static void log_and_close(void *user, muster_log_level level, const char *line) {
    (void)level, (void)line;
    close_in_callback(*(muster_runtime **)user);
}

static void a_runtime_cannot_be_closed_in_a_fill_or_in_the_log(void **state) {
    (void)state;
    static float ones[N];
    static muster_runtime *runtime;
    const muster_tensor value = muster_f32(ones, N);
    muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:2", .log = log_and_close, .log_user = &runtime};
    muster_server_options filled = {.struct_size = sizeof filled, .fill = fill_and_close};
    muster_server *server;
    close_calls = 0;
    assert_ok(muster_runtime_open(&options, &runtime));
    filled.fill_user = runtime;
    assert_ok(muster_server_create(runtime, "server", &value, 1, &filled, &server));
    assert_int_equal(close_calls, 2); /* once for each shard */
    assert_string_equal(close_refusal, "muster_runtime_close: called inside the fill of a server, which has to return first");
    assert_ok(server_run(runtime, succeed, NULL));
    close_refusal[0] = 0;
    assert_ok(muster_runtime_dump(runtime, 1));
    assert_true(close_calls > 2); /* there were events to log */
    assert_string_equal(close_refusal, "muster_runtime_close: called inside the log function, which has to return first");
    assert_ok(muster_runtime_close(runtime)); /* outside callbacks, as always */
}

/* ---- a busy shard ---- */

static void nobody_is_overtaken(void **state) {
    (void)state;
    world t;
    muster_request *receive, *sends[20];
    float seen[N];
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(t.a, &t, &sends[0]));
    assert_ok(muster_client_receive(t.b, 0, muster_f32(seen, N), &receive));
    for (int i = 1; i < 20; i++) assert_ok(add(t.a, &t, &sends[i]));
    server_hold_end(&t.hold);
    assert_ok(muster_requests_wait_all(sends, 20)); /* applies the receive on its way */
    int32_t done;
    assert_ok(muster_request_test(&receive, &done));
    assert_true(done && !receive);
    for (int i = 0; i < N; i++) assert_float_equal(seen[i], 1, 0);
    assert_shards_are(&t, t.a, 20, 20, 20);
    close_world(&t);
}

static void a_copy_is_the_sender_s_no_more(void **state) {
    (void)state;
    world t;
    muster_request *request;
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    float gone[N];
    memcpy(gone, t.ones, sizeof gone);
    assert_ok(muster_client_send(t.a, 0, MUSTER_RULE_ADD, 0, muster_f32(gone, N), MUSTER_SEND_COPY, &request));
    assert_non_null(request);
    memset(gone, 0xff, sizeof gone);
    server_hold_end(&t.hold);
    assert_ok(muster_request_wait(&request));
    assert_shards_are(&t, t.a, 1, 1, 1);
    close_world(&t);
}

static void a_wait_fails_at_the_deadline_and_the_operation_goes_on(void **state) {
    (void)state;
    world t;
    muster_request *request;
    open_world(&t, 10 * MILLISECOND, test_patience(60 * MILLISECOND));
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(t.a, &t, &request));
    assert_refused(muster_request_wait(&request), MUSTER_TIMEOUT, "for shard 0 of value 0");
    assert_non_null(request);
    assert_non_null(strstr(t.log, "muster_request_wait: server 'server': has waited"));
    assert_int_equal(t.level, MUSTER_LOG_WARNING);
    server_hold_end(&t.hold);
    assert_ok(muster_request_wait(&request));
    assert_null(request);
    assert_shards_are(&t, t.b, 1, 1, 1);
    close_world(&t);
}

static void a_call_gives_up_at_the_deadline_what_was_not_applied(void **state) {
    (void)state;
    world t;
    open_world(&t, -1, test_patience(60 * MILLISECOND));
    server_hold_begin(&t.hold, t.server, N);
    assert_refused(add(t.a, &t, NULL), MUSTER_TIMEOUT, "muster_client_send: server 'server': waited");
    assert_refused(muster_client_receive(t.a, 0, muster_f32(t.got, N), NULL), MUSTER_TIMEOUT, "muster_client_receive");
    server_hold_end(&t.hold);
    assert_shards_are(&t, t.b, 0, 1, 1);
    close_world(&t);
}

static void a_client_is_one_thread_s_at_a_time(void **state) {
    (void)state;
    world t;
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    pthread_mutex_lock(&t.server->lock);
    muster_client *busy = t.server->clients; /* the newest: that of the thread which holds */
    pthread_mutex_unlock(&t.server->lock);
    assert_refused(add(busy, &t, NULL), MUSTER_BAD_STATE, "client: another thread is using it");
    server_hold_end(&t.hold);
    close_world(&t);
}

/* ---- calls of functions ---- */

static muster_status one_fails_one_waits(muster_worker *w, void *user) {
    world *t = user;
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    if (muster_worker_rank(w) == 1) return muster_fail(MUSTER_USER, "rank 1 has had enough");
    const muster_status status = add(client, t, NULL);
    if (status != MUSTER_ABORTED) return muster_fail(MUSTER_INTERNAL, "expected ABORTED");
    return status;
}

static void a_lost_call_ends_the_waits_of_its_workers(void **state) {
    (void)state;
    world t;
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    assert_refused(server_run(t.runtime, one_fails_one_waits, &t), MUSTER_USER, "rank 1 has had enough");
    server_hold_end(&t.hold);
    assert_shards_are(&t, t.b, 0, 1, 1);
    close_world(&t);
}

static muster_status fail_in_mid_send(muster_worker *w, void *user) {
    world *t = user;
    muster_client *client;
    muster_request *request;
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    const int64_t shape[] = {N};
    muster_tensor scratch;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, shape, &scratch));
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_fill(w, 1, scratch));
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, scratch, 0, &request));
    MUSTER_TRY(muster_client_receive(client, 0, scratch, &request));
    return muster_fail(MUSTER_USER, "in mid-send");
}

static void what_a_failed_body_leaves_is_taken_back(void **state) {
    (void)state;
    world t;
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    assert_refused(server_run(t.runtime, fail_in_mid_send, &t), MUSTER_USER, "in mid-send");
    assert_int_equal(atomic_load(&t.server->begun), 0);
    server_hold_end(&t.hold);
    assert_ok(muster_client_receive(t.a, 0, muster_f32(t.got, N), NULL));
    const float rest = on_gpus() && t.got[4] == 0 ? 0 : 1; /* there it may not even have left the device */
    assert_shards_are(&t, t.a, 0, rest, rest);
    assert_ok(add(t.b, &t, NULL));
    assert_shards_are(&t, t.b, 1, 1 + rest, 1 + rest);
    close_world(&t);
}

typedef struct leaving {
    world *t;
    muster_request *request;
    _Atomic bool left;
} leaving;

static muster_status leave_it(muster_worker *w, void *user) {
    leaving *l = user;
    muster_client *client;
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    MUSTER_TRY(muster_worker_client(w, l->t->server, &client));
    const muster_status status = add(client, l->t, &l->request);
    atomic_store(&l->left, true);
    return status;
}

static muster_status wait_for_it(muster_worker *w, void *user) {
    leaving *l = user;
    return muster_worker_rank(w) == 0 ? muster_request_wait(&l->request) : MUSTER_OK;
}

static void *let_go_after_it_is_left(void *self) {
    leaving *l = self;
    TEST_AWAIT(atomic_load(&l->left), 200000);
    for (int i = 0; i < 100; i++) server_pause(); /* in which a call that does not wait returns */
    atomic_store(&l->t->hold.let_go, true);
    return NULL;
}

static void what_a_body_leaves_is_done_when_its_call_returns(void **state) {
    (void)state;
    world t;
    open_world(&t, 0, 0);
    leaving l = {.t = &t};
    pthread_t helper;
    server_hold_begin(&t.hold, t.server, N);
    assert_int_equal(pthread_create(&helper, NULL, let_go_after_it_is_left, &l), 0);
    assert_ok(server_run(t.runtime, leave_it, &l));
    assert_true(atomic_load(&t.hold.let_go));
    pthread_join(helper, NULL);
    server_hold_end(&t.hold);
    assert_non_null(l.request);
    assert_shards_are(&t, t.a, 1, 1, 1);
    assert_refused(muster_request_wait(&l.request), MUSTER_BAD_STATE, "expected the client of the worker that calls");
    assert_ok(server_run(t.runtime, wait_for_it, &l));
    assert_null(l.request);
    close_world(&t);
}

/* ---- the end of a server ---- */

typedef struct ending {
    muster_server *server;
    muster_status status;
    pthread_t thread;
} ending;

static void *destroy_main(void *self) {
    ending *e = self;
    e->status = muster_server_destroy(e->server);
    return NULL;
}

static void destroy_waits_for_what_has_begun_and_refuses_what_comes(void **state) {
    (void)state;
    world t;
    muster_request *request, *rest[2];
    open_world(&t, 0, 0);
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(t.a, &t, &request)); /* nobody waits for it: destroy applies it */
    float got[N];
    assert_ok(muster_client_receive(t.a, 0, muster_f32(got, N), &rest[0]));
    ending e = {.server = t.server};
    assert_int_equal(pthread_create(&e.thread, NULL, destroy_main, &e), 0);
    TEST_AWAIT(atomic_load(&t.server->life) != MST_SERVER_OPEN, 200000);
    assert_refused(add(t.b, &t, &rest[1]), MUSTER_BAD_STATE, "server 'server' has been destroyed");
    muster_client *late;
    assert_refused(muster_client_open(t.server, &late), MUSTER_BAD_STATE, "server 'server' has been destroyed");
    assert_int_not_equal(atomic_load(&t.server->life), MST_SERVER_ENDED);
    server_hold_end(&t.hold);
    pthread_join(e.thread, NULL);
    assert_int_equal(e.status, MUSTER_OK);
    for (int i = 0; i < N; i++) assert_float_equal(got[i], 1, 0);
    assert_ok(muster_request_wait(&request));
    assert_ok(muster_request_wait(&rest[0]));
    assert_refused(muster_server_destroy(t.server), MUSTER_BAD_STATE, "server 'server' has been destroyed");
    close_world(&t);
}

static void destroy_gives_up_at_the_deadline_and_may_be_called_again(void **state) {
    (void)state;
    world t;
    muster_request *request;
    open_world(&t, -1, test_patience(60 * MILLISECOND));
    server_hold_begin(&t.hold, t.server, N);
    assert_ok(add(t.a, &t, &request));
    assert_refused(muster_server_destroy(t.server), MUSTER_TIMEOUT, "for operations that had begun");
    assert_refused(add(t.b, &t, NULL), MUSTER_BAD_STATE, "server 'server' has been destroyed");
    server_hold_end(&t.hold);
    assert_ok(muster_request_wait(&request));
    assert_ok(muster_server_destroy(t.server));
    close_world(&t);
}

static muster_status destroy_inside(muster_worker *w, void *user) {
    world *t = user;
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    return muster_server_destroy(t->server) == MUSTER_BAD_STATE ? MUSTER_OK : muster_fail(MUSTER_USER, "expected BAD_STATE");
}

typedef struct user_of {
    world *t;
    _Atomic int32_t begun;
    _Atomic bool gone;
} user_of;

static muster_status use_until_it_is_gone(muster_worker *w, void *user) {
    user_of *u = user;
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, u->t->server, &client));
    for (bool first = true;; first = false) {
        const muster_status status = add(client, u->t, NULL);
        if (first) atomic_fetch_add(&u->begun, 1);
        if (status == MUSTER_BAD_STATE) break;
        if (status != MUSTER_OK) return status;
    }
    TEST_AWAIT(atomic_load(&u->gone), 200000);
    if (muster_worker_client(w, u->t->server, &client) != MUSTER_BAD_STATE) return muster_fail(MUSTER_USER, "expected BAD_STATE");
    return MUSTER_OK;
}

static void *destroy_when_used(void *self) {
    user_of *u = self;
    TEST_AWAIT(atomic_load(&u->begun) >= 2, 200000);
    if (muster_server_destroy(u->t->server) == MUSTER_OK) atomic_store(&u->gone, true);
    return NULL;
}

static void a_server_can_go_while_a_call_uses_it(void **state) {
    (void)state;
    world t;
    open_world(&t, 0, 0);
    user_of u = {.t = &t};
    pthread_t helper;
    assert_ok(server_run(t.runtime, destroy_inside, &t));
    assert_int_equal(pthread_create(&helper, NULL, destroy_when_used, &u), 0);
    assert_ok(server_run(t.runtime, use_until_it_is_gone, &u));
    pthread_join(helper, NULL);
    close_world(&t);
}

static void clients_may_outlive_server_and_runtime(void **state) {
    (void)state;
    world t;
    const int64_t live = mst_memory_live();
    open_world(&t, 0, 0);
    assert_ok(muster_client_close(t.b));
    assert_ok(muster_runtime_close(t.runtime));
    assert_refused(add(t.a, &t, NULL), MUSTER_BAD_STATE, "server 'server' has been destroyed");
    assert_ok(muster_client_close(t.a));
    assert_int_equal(mst_memory_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_s_failure_is_told_by_the_wait),
        cmocka_unit_test(a_failure_in_a_helper_s_hands_is_not_the_helper_s),
        cmocka_unit_test(a_rule_must_not_call_a_server),
        cmocka_unit_test(a_runtime_cannot_be_closed_in_a_fill_or_in_the_log),
        cmocka_unit_test(nobody_is_overtaken),
        cmocka_unit_test(a_copy_is_the_sender_s_no_more),
        cmocka_unit_test(a_wait_fails_at_the_deadline_and_the_operation_goes_on),
        cmocka_unit_test(a_call_gives_up_at_the_deadline_what_was_not_applied),
        cmocka_unit_test(a_client_is_one_thread_s_at_a_time),
        cmocka_unit_test(a_lost_call_ends_the_waits_of_its_workers),
        cmocka_unit_test(what_a_failed_body_leaves_is_taken_back),
        cmocka_unit_test(what_a_body_leaves_is_done_when_its_call_returns),
        cmocka_unit_test(destroy_waits_for_what_has_begun_and_refuses_what_comes),
        cmocka_unit_test(destroy_gives_up_at_the_deadline_and_may_be_called_again),
        cmocka_unit_test(a_server_can_go_while_a_call_uses_it),
        cmocka_unit_test(clients_may_outlive_server_and_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
