/* Arguments that are refused, with the sentence that says why; allocations that fail, one by one;
 * the element types; the trace; and servers made and ended many times. */
#include "server_hold.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 10 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    muster_client *client;
    float x[N];
} world;

static void open_world(world *t, int32_t progress) {
    memset(t, 0, sizeof *t);
    t->runtime = fixture_open("host", 2);
    t->server = server_of(t->runtime, muster_f32(t->x, N), 3, progress);
    assert_ok(muster_client_open(t->server, &t->client));
}

static void close_world(world *t) {
    assert_ok(muster_client_close(t->client));
    fixture_close(t->runtime);
}

static muster_status never_called(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                  double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return MUSTER_INTERNAL;
}

/* ---- arguments ---- */

static muster_status create(muster_runtime *runtime, const char *name, muster_tensor value, int32_t count,
                            const muster_server_options *options) {
    muster_server *server = (muster_server *)runtime;
    const muster_status status = muster_server_create(runtime, name, &value, count, options, &server);
    assert_true((status == MUSTER_OK) == (server != NULL));
    return status;
}

static void creations_that_are_refused(void **state) {
    (void)state;
    world t;
    int32_t integers[N] = {0};
    muster_server_options options;
    const muster_tensor good = muster_f32(t.x, N);
    open_world(&t, -1);
    muster_server_options_init(&options);
    assert_refused(create(NULL, "s", good, 1, NULL), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime");
    assert_refused(create(t.runtime, "", good, 1, NULL), MUSTER_INVALID_ARGUMENT, "name: expected a name that is not empty");
    assert_refused(create(t.runtime, "server", good, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "name: expected a name that no server of this runtime has");
    assert_refused(create(t.runtime, "s", good, 0, NULL), MUSTER_INVALID_ARGUMENT, "count: expected 1 or more, received 0");
    assert_refused(create(t.runtime, "s", muster_i32(integers, N), 1, NULL), MUSTER_UNSUPPORTED,
                   "expected f16, bf16, f32, f64 or i64, received i32");
    assert_refused(create(t.runtime, "s", muster_tensor_transpose(muster_f32(t.x, 5, 2)), 1, NULL), MUSTER_UNSUPPORTED,
                   "expected contiguous elements");
    assert_refused(create(t.runtime, "s", muster_tensor_none(), 1, NULL), MUSTER_INVALID_ARGUMENT, "values[0]");
    assert_refused(muster_server_create(t.runtime, "s", &good, 1, NULL, NULL), MUSTER_INVALID_ARGUMENT, "server: expected the address");
    options.shards = -1;
    assert_refused(create(t.runtime, "s", good, 1, &options), MUSTER_INVALID_ARGUMENT, "shards: expected 0 to 4096, received -1");
    options.shards = 0;
    options.initial = 7;
    assert_refused(create(t.runtime, "s", good, 1, &options), MUSTER_INVALID_ARGUMENT, "initial: expected");
    options.initial = 0;
    options.struct_size = 3;
    assert_refused(create(t.runtime, "s", good, 1, &options), MUSTER_INVALID_ARGUMENT,
                   "struct_size of muster_server_options: expected the size of the program's struct, a multiple of 8 up to 4096 "
                   "(muster_server_options_init sets 48), received 3");
    close_world(&t);
}

static muster_status create_inside(muster_worker *w, void *user) {
    world *t = user;
    const muster_tensor value = muster_f32(t->x, N);
    muster_server *server;
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    return muster_server_create(t->runtime, "s", &value, 1, NULL, &server) == MUSTER_BAD_STATE && !server
               ? MUSTER_OK
               : muster_fail(MUSTER_USER, "expected BAD_STATE");
}

static void a_body_creates_no_server(void **state) {
    (void)state;
    world t;
    open_world(&t, -1);
    assert_ok(server_run(t.runtime, create_inside, &t));
    close_world(&t);
}

static void own_slices_need_as_many_elements_on_each_rank(void **state) {
    (void)state;
    world t;
    muster_variable *v;
    muster_server *server;
    muster_server_options options;
    open_world(&t, -1);
    muster_server_options_init(&options);
    options.initial = MUSTER_INITIAL_OWN;
    assert_ok(muster_variable_create(t.runtime, "v", muster_f32(t.x, N), &v));
    assert_ok(muster_variable_set(v, 1, muster_f32(t.x, 4)));
    assert_refused(muster_server_create_from(t.runtime, "s", &v, 1, &options, &server), MUSTER_INVALID_ARGUMENT,
                   "expected 10 elements on rank 1");
    options.shards = 3;
    assert_refused(muster_server_create_from(t.runtime, "s", &v, 1, &options, &server), MUSTER_INVALID_ARGUMENT,
                   "expected one per device (2)");
    close_world(&t);
}

static void a_split_variable_is_refused(void **state) {
    (void)state;
    world t;
    muster_variable *v[2];
    muster_server *server;
    open_world(&t, -1);
    assert_ok(muster_variable_create(t.runtime, "v", muster_f32(t.x, N), &v[0]));
    assert_ok(muster_variable_create(t.runtime, "w", muster_f32(t.x, N), &v[1]));
    assert_ok(muster_variable_split(v[1], 0));
    assert_refused(muster_server_create_from(t.runtime, "s", v, 2, NULL, &server), MUSTER_UNSUPPORTED,
                   "variables[1]: expected a variable that is not split, received 'w', split along axis 0");
    assert_ok(muster_variable_join(v[1]));
    assert_ok(muster_server_create_from(t.runtime, "s", v, 2, NULL, &server));
    close_world(&t);
}

static void an_undefined_variable_is_refused(void **state) {
    (void)state;
    world t;
    muster_variable *v;
    muster_server *server;
    muster_server_options options;
    open_world(&t, -1);
    muster_server_options_init(&options);
    assert_ok(muster_variable_create(t.runtime, "v", muster_f32(t.x, N), &v));
    mst_variable_set_undefined(v);
    assert_refused(muster_server_create_from(t.runtime, "s", &v, 1, NULL, &server), MUSTER_BAD_STATE,
                   "muster_server_create_from: variable 'v': expected a defined value");
    assert_refused(muster_client_send_variables(t.client, MUSTER_RULE_COPY, 0, &v, 1), MUSTER_BAD_STATE,
                   "variable 'v': expected a defined");
    assert_ok(muster_variable_set(v, 0, muster_f32(t.x, N)));
    options.shards = 2;
    options.initial = MUSTER_INITIAL_OWN; /* rank 1 brings a shard */
    assert_refused(muster_server_create_from(t.runtime, "s", &v, 1, &options, &server), MUSTER_BAD_STATE, "elements on rank 1 undefined");
    assert_ok(muster_server_create_from(t.runtime, "s", &v, 1, NULL, &server));
    mst_variable_set_undefined(v);
    assert_ok(muster_client_receive_variables(t.client, &v, 1)); /* it only sets */
    assert_ok(muster_client_send_variables(t.client, MUSTER_RULE_COPY, 0, &v, 1));
    close_world(&t);
}

/* Tensors that fit but for a field that is reserved. */
static void refuse_newer_tensors(muster_client *client, muster_tensor good) {
    for (int i = 0; i < 2; i++) {
        muster_tensor newer = good;
        if (i == 0) newer.reserved0 = 1;
        if (i == 1) newer.reserved[1] = 1;
        assert_refused(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, newer, 0, NULL), MUSTER_INVALID_ARGUMENT,
                       "expected reserved0 and reserved[1] of 0, received");
        assert_refused(muster_client_receive(client, 0, newer, NULL), MUSTER_INVALID_ARGUMENT,
                       "expected reserved0 and reserved[1] of 0, received");
    }
}

static void operations_that_are_refused_touch_nothing(void **state) {
    (void)state;
    world t;
    double wide[N] = {0};
    int64_t whole[N] = {0};
    muster_server *integers;
    muster_client *other;
    muster_request *request = (muster_request *)&t;
    open_world(&t, -1);
    muster_tensor good = muster_f32(t.x, N), away = good;
    away.device = 1;
    for (int i = 0; i < N; i++) t.x[i] = 1;
    assert_refused(muster_client_send(NULL, 0, MUSTER_RULE_ADD, 0, good, 0, NULL), MUSTER_INVALID_ARGUMENT, "client: expected a client");
    assert_refused(muster_client_send(t.client, 0, 5, 0, good, 0, &request), MUSTER_INVALID_ARGUMENT,
                   "rule: expected a rule of server 'server', received 5");
    assert_null(request);
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_USER, 0, good, 0, NULL), MUSTER_INVALID_ARGUMENT, "received 64");
    assert_refused(muster_client_send(t.client, 1, MUSTER_RULE_ADD, 0, good, 0, NULL), MUSTER_OUT_OF_RANGE,
                   "index: expected 0 to 0, received 1");
    assert_refused(muster_client_send(t.client, -1, MUSTER_RULE_ADD, 0, good, 0, NULL), MUSTER_OUT_OF_RANGE, "received -1");
    for (int32_t index = -1; index <= 1; index += 2)
        assert_refused(muster_client_send(t.client, index, MUSTER_RULE_ADD_SCALED, 2, good, 0, NULL), MUSTER_OUT_OF_RANGE,
                       index < 0 ? "received -1" : "index: expected 0 to 0, received 1");
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, muster_f32(t.x, N - 1), 0, NULL), MUSTER_SHAPE_MISMATCH,
                   "expected 10 elements as in value 0, received 9");
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, muster_f64(wide, N), 0, NULL), MUSTER_DTYPE_MISMATCH,
                   "expected f32 as in value 0, received f64");
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, muster_tensor_transpose(muster_f32(t.x, 5, 2)), 0, NULL),
                   MUSTER_UNSUPPORTED, "expected contiguous");
    assert_refused(muster_client_receive(t.client, 0, muster_f32(t.x, N - 1), NULL), MUSTER_SHAPE_MISMATCH,
                   "muster_client_receive: tensor: expected 10 elements as in value 0, received 9");
    assert_refused(muster_client_receive(t.client, 0, muster_f64(wide, N), NULL), MUSTER_DTYPE_MISMATCH,
                   "muster_client_receive: tensor: expected f32 as in value 0, received f64");
    assert_refused(muster_client_receive(t.client, 0, muster_tensor_transpose(muster_f32(t.x, 5, 2)), NULL), MUSTER_UNSUPPORTED,
                   "muster_client_receive: tensor: expected contiguous");
    refuse_newer_tensors(t.client, good);
    assert_refused(muster_requests_wait_all(NULL, -1), MUSTER_INVALID_ARGUMENT,
                   "muster_requests_wait_all: count: expected 0 or more, received -1");
    assert_refused(create(t.runtime, "s", good, -1, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_server_create: count: expected 1 or more, received -1");
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, away, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "expected host memory, received device 1");
    assert_refused(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, good, 2, NULL), MUSTER_INVALID_ARGUMENT,
                   "flags: expected 0 or MUSTER_SEND_COPY");
    assert_refused(muster_client_receive(t.client, 0, muster_tensor_none(), NULL), MUSTER_INVALID_ARGUMENT, "tensor");
    assert_refused(muster_request_wait(NULL), MUSTER_INVALID_ARGUMENT, "request: expected the address");
    request = NULL;
    assert_ok(muster_request_wait(&request));
    assert_refused(muster_request_test(&request, NULL), MUSTER_INVALID_ARGUMENT, "done: expected the address of a number, received NULL");
    assert_ok(muster_requests_wait_all(NULL, 0));
    assert_refused(muster_requests_wait_all(NULL, 1), MUSTER_INVALID_ARGUMENT, "requests: expected");

    const muster_tensor value = muster_i64(whole, N);
    assert_ok(muster_server_create(t.runtime, "integers", &value, 1, NULL, &integers));
    assert_ok(muster_client_open(integers, &other));
    assert_refused(muster_client_send(other, 0, MUSTER_RULE_ADD_SCALED, 2, value, 0, NULL), MUSTER_UNSUPPORTED,
                   "rule: expected a rule for i64, the elements of value 0, received MUSTER_RULE_ADD_SCALED");
    assert_ok(muster_client_close(other));

    assert_ok(muster_client_receive(t.client, 0, good, NULL));
    for (int i = 0; i < N; i++) assert_float_equal(t.x[i], 0, 0);
    muster_server_statistics statistics = {.struct_size = sizeof statistics};
    assert_ok(muster_server_get_statistics(t.server, &statistics));
    assert_int_equal(statistics.sends, 0);
    assert_int_equal(statistics.receives, 1);
    close_world(&t);
}

static muster_status nothing(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return MUSTER_OK;
}

static void rules_have_names_and_there_are_64(void **state) {
    (void)state;
    world t;
    muster_rule rule;
    char name[16];
    open_world(&t, -1);
    assert_refused(muster_server_add_rule(t.server, "", nothing, NULL, &rule), MUSTER_INVALID_ARGUMENT, "name");
    assert_refused(muster_server_add_rule(t.server, "r", NULL, NULL, &rule), MUSTER_INVALID_ARGUMENT, "function");
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "rule %d", i);
        assert_ok(muster_server_add_rule(t.server, name, nothing, NULL, &rule));
        assert_int_equal(rule, MUSTER_RULE_USER + i);
        assert_refused(muster_server_add_rule(t.server, "rule 0", nothing, NULL, &rule),
                       i < 63 ? MUSTER_INVALID_ARGUMENT : MUSTER_OUT_OF_RANGE, "rule");
    }
    close_world(&t);
}

/* ---- allocations ---- */

static muster_status whole_life(muster_runtime *runtime, muster_variable *v, bool variables) {
    float ones[N], got[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    const muster_tensor one = muster_f32(ones, N);
    muster_server_options options;
    muster_server *server;
    muster_client *client;
    muster_rule rule;
    muster_server_options_init(&options);
    options.progress = 2;
    MUSTER_TRY(variables ? muster_server_create_from(runtime, "s", &v, 1, &options, &server)
                         : muster_server_create(runtime, "s", &one, 1, &options, &server));
    muster_status status = muster_client_open(server, &client);
    if (status == MUSTER_OK) {
        muster_request *requests[3] = {NULL};
        muster_status all[4];
        all[0] = muster_server_add_rule(server, "r", nothing, NULL, &rule);
        all[1] = muster_client_send(client, 0, MUSTER_RULE_ADD, 0, one, 0, &requests[0]);
        all[2] = muster_client_send(client, 0, MUSTER_RULE_ADD, 0, one, MUSTER_SEND_COPY, &requests[1]);
        all[3] = muster_client_receive(client, 0, muster_f32(got, N), &requests[2]);
        assert_ok(muster_requests_wait_all(requests, 3));
        const float expected = 1 + (all[1] == MUSTER_OK) + (all[2] == MUSTER_OK);
        for (int i = 0; i < N && all[3] == MUSTER_OK; i++) assert_float_equal(got[i], expected, 0);
        for (int i = 0; i < 4 && status == MUSTER_OK; i++) status = all[i];
        assert_ok(muster_client_close(client));
    }
    assert_ok(muster_server_destroy(server));
    return status;
}

static void news_of_nothing(void *user) { fail_msg("news of a request that has ended, user %p", user); }

/* A copy of a handle lives on when the handle is done. */
static void a_request_is_waited_for_once(void **state) {
    (void)state;
    world t;
    server_hold hold;
    muster_request *request, *copy;
    int32_t done;
    open_world(&t, -1);
    server_hold_begin(&hold, t.server, N);
    assert_ok(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, muster_f32(t.x, N), 0, &request));
    assert_non_null(request);
    copy = request;
    server_hold_end(&hold);
    assert_ok(muster_request_wait(&request));
    assert_refused(muster_request_wait(&copy), MUSTER_BAD_STATE,
                   "request: expected a pending request, received a copy of one that has ended");
    assert_refused(muster_request_test(&copy, &done), MUSTER_BAD_STATE,
                   "request: expected a pending request, received a copy of one that has ended");
    assert_ok(muster_client_send(t.client, 0, MUSTER_RULE_ADD, 0, muster_f32(t.x, N), 0, NULL));
    assert_ok(muster_client_close(t.client));
    assert_refused(muster_request_wait(&copy), MUSTER_BAD_STATE, "client: expected an open one, received one that has been closed");
    assert_refused(muster_request_notify(copy, news_of_nothing, NULL), MUSTER_BAD_STATE, "received one that has been closed");
    fixture_close(t.runtime);
}

static void a_child_after_fork_is_refused(void **state) {
    (void)state;
    world t;
    int result = -1;
    open_world(&t, -1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        muster_client *client;
        muster_rule rule;
        const bool refused = muster_client_receive(t.client, 0, muster_f32(t.x, N), NULL) == MUSTER_BAD_STATE &&
                             muster_client_send(t.client, 0, MUSTER_RULE_ZERO, 0, muster_tensor_none(), 0, NULL) == MUSTER_BAD_STATE &&
                             muster_client_open(t.server, &client) == MUSTER_BAD_STATE &&
                             muster_server_add_rule(t.server, "late", never_called, NULL, &rule) == MUSTER_BAD_STATE &&
                             strstr(muster_last_error(), "before fork");
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    close_world(&t);
}

static void failing_allocations_are_refusals_and_nothing_is_left(void **state) {
    (void)state;
    for (int variables = 0; variables < 2; variables++) {
        bool done = false;
        for (int64_t k = 1; !done; k++) {
            float ones[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
            const int64_t live = mst_memory_live();
            muster_runtime *runtime = fixture_open("host", 2);
            muster_variable *v;
            assert_ok(muster_variable_create(runtime, "v", muster_f32(ones, N), &v));
            const int64_t before = mst_memory_count();
            mst_memory_fail_at(k);
            const muster_status status = whole_life(runtime, v, variables);
            done = mst_memory_count() - before < k;
            mst_memory_fail_at(0);
            assert_true(done ? status == MUSTER_OK : status == MUSTER_OUT_OF_MEMORY || status == MUSTER_SYSTEM);
            assert_ok(whole_life(runtime, v, variables));
            fixture_close(runtime);
            assert_int_equal(mst_memory_live(), live);
        }
    }
}

static void many_servers_leave_nothing(void **state) {
    (void)state;
    world t;
    open_world(&t, -1);
    int64_t live = 0;
    for (int i = 0; i < 3000; i++) {
        muster_server *server;
        muster_client *client;
        const muster_tensor value = muster_f32(t.x, N);
        assert_ok(muster_server_create(t.runtime, "again", &value, 1, NULL, &server));
        assert_ok(muster_client_open(server, &client));
        assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, value, 0, NULL));
        assert_ok(muster_client_close(client));
        assert_ok(muster_server_destroy(server));
        if (i == 1) live = mst_memory_live();
    }
    assert_int_equal(mst_memory_live(), live);
    close_world(&t);
}

/* ---- element types ---- */

static muster_status add_wide(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)user, (void)first;
    if (dtype != MUSTER_F32) return muster_fail(MUSTER_USER, "expected f32");
    for (int64_t i = 0; i < count; i++) ((float *)value)[i] += (float)scale * ((const float *)tensor)[i];
    return MUSTER_OK;
}

static void halves_are_held_in_f32(void **state) {
    (void)state;
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_BF16; dtype++) {
        enum { COUNT = 1301 };
        muster_runtime *runtime = fixture_open("host", 2);
        uint16_t tensor[COUNT], got[COUNT];
        float (*wide)(uint16_t) = dtype == MUSTER_F16 ? muster_f16_to_f32 : muster_bf16_to_f32;
        uint16_t (*narrow)(float) = dtype == MUSTER_F16 ? muster_f32_to_f16 : muster_f32_to_bf16;
        const int64_t shape[] = {COUNT};
        const muster_tensor sent = muster_tensor_make(dtype, tensor, 1, shape), received = muster_tensor_make(dtype, got, 1, shape);
        muster_variable *v;
        muster_server *server;
        muster_client *client;
        muster_rule rule;
        for (int i = 0; i < COUNT; i++) tensor[i] = narrow((float)(i % 7));
        assert_ok(muster_variable_create(runtime, "v", sent, &v));
        assert_ok(muster_server_create_from(runtime, "s", &v, 1, NULL, &server));
        assert_ok(muster_server_add_rule(server, "r", add_wide, NULL, &rule));
        assert_ok(muster_client_open(server, &client));
        assert_ok(muster_client_receive(client, 0, received, NULL));
        for (int i = 0; i < COUNT; i++) assert_int_equal(got[i], tensor[i]);
        for (int i = 0; i < COUNT; i++) tensor[i] = narrow(0.001953125f); /* 2^-9, lost in a sum with 3 in bf16 */
        for (int k = 0; k < 256; k++) assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, sent, 0, NULL));
        assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD_SCALED, 256, sent, 0, NULL));
        assert_ok(muster_client_send(client, 0, rule, 512, sent, 0, NULL));
        assert_ok(muster_client_receive(client, 0, received, NULL));
        for (int i = 0; i < COUNT; i++) assert_float_equal(wide(got[i]), (float)(i % 7) + 2, 0);
        assert_ok(muster_client_send(client, 0, MUSTER_RULE_COPY, 0, sent, 0, NULL));
        assert_ok(muster_client_receive(client, 0, received, NULL));
        assert_int_equal(got[5], tensor[5]);
        assert_ok(muster_client_send(client, 0, MUSTER_RULE_ZERO, 0, muster_tensor_none(), 0, NULL));
        assert_ok(muster_client_receive(client, 0, received, NULL));
        for (int i = 0; i < COUNT; i++) assert_float_equal(wide(got[i]), 0, 0);
        assert_ok(muster_client_close(client));
        fixture_close(runtime);
    }
}

/* ---- the recorder ---- */

static muster_status one_of_each(muster_worker *w, void *user) {
    world *t = user;
    muster_client *client;
    muster_request *request;
    float mine[N] = {0};
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, muster_f32(mine, N), 0, NULL));
    MUSTER_TRY(muster_client_receive(client, 0, muster_f32(mine, N), &request));
    return muster_request_wait(&request);
}

static void the_recorder_shows_what_workers_ask_of_servers(void **state) {
    (void)state;
    world t;
    mst_recorded events[64];
    open_world(&t, -1);
    assert_ok(server_run(t.runtime, one_of_each, &t));
    for (int32_t r = 0; r < 2; r++) {
        int sends = 0, receives = 0;
        const int64_t count = mst_recorder_read(&mst_pool_worker(t.runtime->pool, r)->recorder, events, 64, NULL);
        for (int64_t i = 0; i < count; i++) {
            if (events[i].kind != MST_EVENT_SERVER) continue;
            assert_true(events[i].end >= events[i].start);
            assert_int_equal(events[i].bytes, N * (int64_t)sizeof(float));
            sends += strcmp(events[i].name, "server_send") == 0;
            receives += strcmp(events[i].name, "server_receive") == 0;
        }
        assert_int_equal(sends, 1);
        assert_int_equal(receives, 1);
    }
    assert_string_equal(mst_event_kind_name(MST_EVENT_SERVER), "server");
    close_world(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creations_that_are_refused),
        cmocka_unit_test(a_body_creates_no_server),
        cmocka_unit_test(own_slices_need_as_many_elements_on_each_rank),
        cmocka_unit_test(a_split_variable_is_refused),
        cmocka_unit_test(an_undefined_variable_is_refused),
        cmocka_unit_test(operations_that_are_refused_touch_nothing),
        cmocka_unit_test(rules_have_names_and_there_are_64),
        cmocka_unit_test(a_request_is_waited_for_once),
        cmocka_unit_test(a_child_after_fork_is_refused),
        cmocka_unit_test(failing_allocations_are_refusals_and_nothing_is_left),
        cmocka_unit_test(many_servers_leave_nothing),
        cmocka_unit_test(halves_are_held_in_f32),
        cmocka_unit_test(the_recorder_shows_what_workers_ask_of_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
