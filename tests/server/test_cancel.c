/* Requests of bodies whose call is ended: the wait returns CANCELLED, what was sent is applied on
 * all shards all the same, and the memory of the tensor is the body's again. */
#include "base_await.h"
#include "muster/ops.h"
#include "server_hold.h"

#include <stdlib.h>

enum { N = 12, SHARDS = 3 };

/* How the body sends, and what it does with the request. */
typedef enum { BY_HANDLE, WITHOUT_HANDLE, BY_COPY, NOT_WAITED, RECEIVES, BY_HANDLE_IN_ORDER, WAYS } way;

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    muster_function *f;
    server_hold holds[WAYS]; /* each names its rule by its address */
    way way;
    float outlives[N]; /* the body */
    _Atomic int sent, returned;
    _Atomic muster_status waited, refused;
} world;

static muster_status body_of(muster_worker *w, world *t, muster_client *client, float *memory) {
    muster_request *request = NULL, *later = NULL;
    const muster_tensor tensor = muster_f32(memory, N);
    atomic_fetch_add(&t->sent, 1);
    if (t->way == WITHOUT_HANDLE) return muster_client_send(client, 0, MUSTER_RULE_ADD, 0, tensor, 0, NULL);
    if (t->way == RECEIVES) return muster_client_receive(client, 0, tensor, NULL);
    if (t->way == NOT_WAITED) {
        MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, muster_f32(t->outlives, N), 0, &request));
        while (!muster_worker_cancelled(w)) server_pause();
        return MUSTER_CANCELLED;
    }
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, tensor, t->way == BY_COPY ? MUSTER_SEND_COPY : 0, &request));
    if (t->way == BY_HANDLE_IN_ORDER) {
        MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, tensor, 0, &later));
        while (!muster_worker_cancelled(w)) server_pause();
    }
    muster_status status = muster_request_wait(&request);
    if (t->way == BY_HANDLE_IN_ORDER && status == MUSTER_CANCELLED) status = muster_request_wait(&later);
    return request || later ? MUSTER_INTERNAL : status;
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    muster_client *client;
    (void)in, (void)out;
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    float *memory = malloc(N * sizeof *memory);
    if (!memory) return MUSTER_OUT_OF_MEMORY;
    for (int i = 0; i < N; i++) memory[i] = 1;
    t->waited = body_of(w, t, client, memory);
    for (int i = 0; i < N; i++) memory[i] = 1000;
    free(memory);
    /* nothing begins any more */
    t->refused = muster_client_send(client, 0, MUSTER_RULE_ADD, 0, muster_f32(t->outlives, N), 0, NULL);
    atomic_fetch_add(&t->returned, 1);
    return t->waited;
}

static void open_world(world *t, const char *devices, int32_t progress) {
    muster_runtime_options options;
    float zeros[N] = {0};
    memset(t, 0, sizeof *t);
    for (int i = 0; i < N; i++) t->outlives[i] = 1;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    t->server = server_of(t->runtime, muster_f32(zeros, N), SHARDS, progress);
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
}

/* Of all shards. */
static void assert_values(world *t, float expected) {
    muster_client *client;
    float got[N];
    assert_ok(muster_client_open(t->server, &client));
    assert_ok(muster_client_receive(client, 0, muster_f32(got, N), NULL));
    for (int i = 0; i < N; i++) assert_float_equal(got[i], expected, 0);
    assert_ok(muster_client_close(client));
}

static void what_was_sent_is_applied_and_its_memory_is_free(void **state) {
    static const char *const devices[] = {"host:1", "host:2"};
    int ended = 0;
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int progress = -1; progress <= 1; progress += 2) {
            world t;
            float expected = 0;
            open_world(&t, devices[d], progress);
            for (int way = 0; way < WAYS; way++, ended++) {
                muster_pending *pending;
                int32_t done;
                t.way = way;
                t.sent = t.returned = 0;
                server_hold_begin(&t.holds[way], t.server, N);
                assert_ok(muster_function_call_async(t.f, NULL, 0, NULL, 0, NULL, &pending));
                TEST_AWAIT(atomic_load(&t.sent) == 1, 200000);
                for (int i = 0; i < 5; i++) server_pause();
                muster_runtime_cancel(t.runtime);
                TEST_AWAIT(atomic_load(&t.returned) == 1, 200000); /* while the shard is held */
                assert_int_equal(t.waited, MUSTER_CANCELLED);
                assert_int_equal(t.refused, MUSTER_CANCELLED);
                for (int i = 0; i < 5; i++) server_pause();
                if (way != RECEIVES) { /* the call waits for what goes on */
                    assert_ok(muster_pending_test(&pending, &done));
                    assert_int_equal(done, 0);
                    server_hold_end(&t.holds[way]);
                }
                assert_refused(muster_pending_wait(&pending), MUSTER_CANCELLED, "muster_runtime_cancel has ended the call");
                if (way == RECEIVES) server_hold_end(&t.holds[way]);
                expected += way == RECEIVES ? 0 : way == BY_HANDLE_IN_ORDER ? 2 : 1;
                assert_values(&t, expected);
            }
            assert_ok(muster_runtime_close(t.runtime));
        }
    assert_int_equal(ended, 2 * 2 * WAYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_sent_is_applied_and_its_memory_is_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
