/* Tensors in the memory of GPUs: sent and received through page-locked memory, in the order of the
 * worker's operations, without stopping its stream. On the simulated machine. */
#include "base_machine.h"
#include "muster/ops.h"
#include "scheduler_scratch.h"
#include "server_fixture.h"
#include "sim.h"

#include <time.h>

enum { N = 1000, VALUES = 2 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    int32_t progress;
} world;

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static void open_world(world *t, const char *devices, uint32_t delay, int32_t progress) {
    muster_sim_options machine = {.devices = 4, .longest_delay = delay};
    muster_sim_reset(&machine);
    muster_runtime_options options;
    muster_server_options serving;
    float zeros[N] = {0};
    *t = (world){.progress = progress};
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.log = no_log;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    const muster_tensor values[VALUES] = {muster_f32(zeros, N), muster_f32(zeros, N)};
    muster_server_options_init(&serving);
    serving.progress = progress;
    serving.shards = 3;
    assert_ok(muster_server_create(t->runtime, "server", values, VALUES, &serving, &t->server));
}

static void close_world(world *t) {
    assert_ok(muster_server_destroy(t->server));
    assert_ok(muster_runtime_close(t->runtime));
    if (muster_sim_hazard_count()) fail_msg("%s", muster_sim_hazards());
    assert_int_equal(muster_sim_check_leaks(), 0);
}

static muster_tensor on_device(muster_worker *w) { return scratch_tensor(w, MUSTER_F32, 1, (const int64_t[]){N}); }

static muster_status all_are(const float *got, float number) {
    for (int i = 0; i < N; i++) {
        char text[96];
        snprintf(text, sizeof text, "expected %g at %d, received %g", (double)number, i, (double)got[i]);
        if (got[i] != number) return muster_fail(MUSTER_USER, text);
    }
    return MUSTER_OK;
}

static muster_status device_is(muster_worker *w, muster_tensor tensor, float number) {
    float got[N];
    MUSTER_TRY(muster_worker_read(w, tensor, muster_f32(got, N)));
    return all_are(got, number);
}

/* ---- round trips ---- */

static muster_status send_and_receive(muster_worker *w, void *user) {
    world *t = user;
    const int32_t size = muster_worker_size(w);
    const muster_tensor mine = on_device(w), got = on_device(w);
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    for (int k = 0; k < 20; k++) {
        muster_request *requests[2 * VALUES];
        MUSTER_TRY(muster_fill(w, k + 1, mine));
        for (int v = 0; v < VALUES; v++)
            MUSTER_TRY(muster_client_send(client, v, v ? MUSTER_RULE_ADD_SCALED : MUSTER_RULE_ADD, 2, mine, 0, &requests[v]));
        MUSTER_TRY(muster_requests_wait_all(requests, VALUES));
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    for (int v = 0; v < VALUES; v++) {
        muster_request *request;
        MUSTER_TRY(muster_client_receive(client, v, got, &request));
        MUSTER_TRY(muster_request_wait(&request));
        MUSTER_TRY(muster_scale_add(w, 1, got, 1, got)); /* what is issued behind it sees it */
        MUSTER_TRY(device_is(w, got, (float)(2 * 210 * size * (v + 1))));
    }
    return MUSTER_OK;
}

static void what_gpus_send_all_receive(void **state) {
    (void)state;
    static const char *const machines[] = {"cuda:1", "cuda:2", "cuda:4", "cuda@0+0+0", "host:1,cuda:2"};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        for (int32_t progress = -1; progress <= 1; progress += 2) {
            world t;
            open_world(&t, machines[m], 50, progress);
            assert_ok(server_run(t.runtime, send_and_receive, &t));
            close_world(&t);
        }
    }
}

/* ---- the order of one client, whatever memory ---- */

static muster_status mix_memory(muster_worker *w, void *user) {
    world *t = user;
    const muster_tensor mine = on_device(w), got = on_device(w);
    float host[N], seen[N];
    muster_client *client;
    muster_request *requests[5];
    if (muster_worker_rank(w) != 0) return MUSTER_OK;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_fill(w, 5, mine));
    for (int i = 0; i < N; i++) host[i] = 1;
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_COPY, 0, mine, 0, &requests[0]));
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, muster_f32(host, N), MUSTER_SEND_COPY, &requests[1]));
    memset(host, 0xff, sizeof host);
    MUSTER_TRY(muster_client_receive(client, 0, muster_f32(seen, N), &requests[2]));
    /* waits for the slot of the first */
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, mine, 0, &requests[3]));
    MUSTER_TRY(muster_client_receive(client, 0, got, &requests[4]));
    MUSTER_TRY(muster_requests_wait_all(requests, 5));
    MUSTER_TRY(all_are(seen, 6));
    MUSTER_TRY(device_is(w, got, 11));
    return muster_client_send(client, 0, MUSTER_RULE_ZERO, 0, muster_tensor_none(), 0, NULL);
}

static void device_and_host_tensors_of_one_client_keep_their_order(void **state) {
    (void)state;
    for (int32_t progress = -1; progress <= 1; progress += 2) {
        world t;
        open_world(&t, "cuda:2", 100, progress);
        for (int k = 0; k < 10; k++) assert_ok(server_run(t.runtime, mix_memory, &t));
        close_world(&t);
    }
}

/* ---- the stream goes on ---- */

static muster_status keep_going(muster_worker *w, void *user) {
    world *t = user;
    const muster_tensor mine = on_device(w), got = on_device(w);
    muster_client *client;
    muster_request *send, *receive;
    int32_t done = 0;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_fill(w, 3, mine));
    const uint64_t waits = muster_sim_waits();
    muster_sim_inject_queue_stall("cuLaunchKernel", 1, 0);
    MUSTER_TRY(muster_fill(w, 4, mine)); /* stands still, and so does all behind it */
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, mine, 0, &send));
    MUSTER_TRY(muster_client_receive(client, 0, got, &receive));
    MUSTER_TRY(muster_request_test(&send, &done));
    if (done || !send) return muster_fail(MUSTER_USER, "a send that overtook the stream");
    MUSTER_TRY(muster_request_test(&receive, &done));
    if (done || !receive) return muster_fail(MUSTER_USER, "a receive that overtook its client's send");
    muster_sim_release();
    MUSTER_TRY(muster_request_wait(&send));
    MUSTER_TRY(muster_request_wait(&receive));
    if (muster_sim_waits() != waits) return muster_fail(MUSTER_USER, "the stream was waited for");
    return device_is(w, got, 4);
}

static void nothing_waits_for_the_stream(void **state) {
    (void)state;
    world t;
    open_world(&t, "cuda:1", 0, -1);
    assert_ok(server_run(t.runtime, keep_going, &t));
    close_world(&t);
}

/* ---- faults ---- */

static muster_status leave_a_send(muster_worker *w, void *user) {
    world *t = user;
    const muster_tensor mine = on_device(w);
    muster_client *client;
    muster_request *request;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_fill(w, 1, mine));
    MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, mine, 0, &request));
    return muster_worker_rank(w) == 1 ? muster_fail(MUSTER_USER, "in mid-send") : MUSTER_OK;
}

static void what_a_failed_call_leaves_harms_nobody(void **state) {
    (void)state;
    world t;
    muster_client *client;
    float got[N];
    open_world(&t, "cuda:3", 200, -1);
    for (int k = 0; k < 10; k++) assert_refused(server_run(t.runtime, leave_a_send, &t), MUSTER_USER, "in mid-send");
    assert_int_equal(atomic_load(&t.server->begun), 0);
    assert_ok(muster_client_open(t.server, &client));
    assert_ok(muster_client_send(client, 0, MUSTER_RULE_ZERO, 0, muster_tensor_none(), 0, NULL));
    assert_ok(muster_client_receive(client, 0, muster_f32(got, N), NULL));
    assert_ok(all_are(got, 0));
    assert_ok(muster_client_close(client));
    close_world(&t);
}

static void a_lost_gpu_fails_its_own_operations(void **state) {
    (void)state;
    world t;
    muster_client *client;
    float got[N];
    open_world(&t, "cuda:2", 0, -1);
    muster_sim_inject_lost("cuMemcpyDtoHAsync_v2", 1);
    assert_int_equal(server_run(t.runtime, send_and_receive, &t), MUSTER_DEVICE_LOST);
    assert_ok(muster_client_open(t.server, &client));
    assert_ok(muster_client_receive(client, 0, muster_f32(got, N), NULL));
    assert_ok(muster_client_close(client));
    assert_ok(muster_server_destroy(t.server));
    assert_ok(muster_runtime_close(t.runtime));
    assert_int_equal(muster_sim_check_leaks(), 0);
}

static muster_status wrong_device(muster_worker *w, void *user) {
    world *t = user;
    muster_tensor mine = on_device(w);
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    mine.device = 1 - muster_worker_rank(w);
    const muster_status status = muster_client_send(client, 0, MUSTER_RULE_ADD, 0, mine, 0, NULL);
    return status == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "expected host memory or that of rank")
               ? MUSTER_OK
               : muster_fail(MUSTER_USER, "expected a refusal");
}

static void another_device_s_tensor_is_refused(void **state) {
    (void)state;
    world t;
    open_world(&t, "cuda:2", 0, -1);
    assert_ok(server_run(t.runtime, wrong_device, &t));
    close_world(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gpus_send_all_receive),
        cmocka_unit_test(device_and_host_tensors_of_one_client_keep_their_order),
        cmocka_unit_test(nothing_waits_for_the_stream),
        cmocka_unit_test(what_a_failed_call_leaves_harms_nobody),
        cmocka_unit_test(another_device_s_tensor_is_refused),
        cmocka_unit_test(a_lost_gpu_fails_its_own_operations), /* the last: it is lost until the process ends */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
