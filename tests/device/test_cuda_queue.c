/* Waiting, events, devices that are lost or stand still, and streams of the program's. */
#include "base_await.h"
#include "cuda_fixture.h"

enum { BYTES = 4096 };

/* ---- waiting ---- */

static void poll_says_when_all_is_done_and_never_waits(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(BYTES, 4), out[BYTES] = {0};
    void *place = allocated(device, BYTES);
    bool done = true;
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_ok(device->memory->copy_in(device, place, in, BYTES));
    assert_ok(device->memory->copy_out(device, out, place, BYTES));
    assert_ok(device->queue->poll(device, &done));
    assert_false(done);
    TEST_AWAIT((muster_sim_release(), device->queue->poll(device, &done)) != MUSTER_OK || done, 0);
    assert_true(done);
    check_pattern(out, BYTES, 4);
    device->memory->release(device, place);
    free(in);
}

static muster_status stop_after(void *user) {
    int *left = user;
    return --*left > 0 ? MUSTER_OK : mst_error(MUSTER_ABORTED, "stopped");
}

/* A queue may come to where it stands still only after a first release. */
static muster_status keep_releasing(void *user) {
    (void)user;
    muster_sim_release();
    return MUSTER_OK;
}

static void an_interrupt_ends_the_wait_and_nothing_is_delivered_any_more(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(BYTES, 4), out[BYTES];
    memset(out, 0, sizeof out);
    void *place = allocated(device, BYTES);
    int left = 50;
    device->interrupt = stop_after;
    device->interrupt_user = &left;
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_ok(device->memory->copy_in(device, place, in, BYTES));
    assert_ok(device->memory->copy_out(device, out, place, BYTES));
    assert_refused(device->table->synchronize(device), MUSTER_ABORTED, "stopped");
    assert_int_equal(left, 0);
    device->interrupt = keep_releasing;
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < BYTES; i++) assert_int_equal(out[i], 0);
    assert_ok(device->memory->copy_out(device, out, place, BYTES)); /* the copy in was not lost */
    assert_ok(device->table->synchronize(device));
    check_pattern(out, BYTES, 4);
    device->memory->release(device, place);
    free(in);
}

/* More than the chunks hold: the copy itself must wait for the queue. */
static void an_interrupt_ends_a_copy_that_waits_for_a_chunk(void **state) {
    mst_device *device = *state;
    enum { LARGE = 20 << 20 };
    unsigned char *in = patterned(LARGE, 4);
    void *place = allocated(device, LARGE);
    int left = 10;
    device->interrupt = stop_after;
    device->interrupt_user = &left;
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_refused(device->memory->copy_in(device, place, in, LARGE), MUSTER_ABORTED, "stopped");
    left = 10;
    assert_refused(device->memory->copy_out(device, in, place, LARGE), MUSTER_ABORTED, "stopped");
    device->interrupt = keep_releasing;
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, place);
    free(in);
}

/* ---- events ---- */

static mst_device_event *created(mst_device *device) {
    mst_device_event *event = NULL;
    assert_ok(mst_device_event_create(device, &event));
    assert_ptr_equal(event->device, device);
    return event;
}

static void another_devices_event_is_waited_for(void **state) {
    mst_device *device = *state, *other = opened("1");
    unsigned char *in = patterned(BYTES, 6), out[BYTES];
    bool access = false;
    assert_ok(device->code->peer_access(device, other, &access));
    assert_true(access);
    void *there = allocated(other, BYTES), *here = allocated(device, BYTES);
    mst_device_event *come = created(other), *used = created(device);
    for (int round = 0; round < 20; round++) {
        in[0] = (unsigned char)round;
        assert_ok(other->memory->copy_in(other, there, in, BYTES));
        assert_ok(mst_device_event_record(come, MST_QUEUE_COMPUTE));
        assert_ok(mst_device_event_wait(device, MST_QUEUE_COMPUTE, come));
        assert_ok(device->memory->copy(device, here, there, BYTES)); /* by address */
        assert_ok(mst_device_event_record(used, MST_QUEUE_COMPUTE));
        assert_ok(mst_device_event_wait(other, MST_QUEUE_COMPUTE, used));
        assert_ok(device->memory->copy_out(device, out, here, BYTES));
        assert_ok(device->table->synchronize(device));
        assert_memory_equal(out, in, BYTES);
    }
    assert_ok(other->table->synchronize(other));
    mst_device_event_destroy(come);
    mst_device_event_destroy(used);
    other->memory->release(other, there);
    device->memory->release(device, here);
    closed(other);
    free(in);
}

static void an_event_that_was_never_recorded_is_over(void **state) {
    mst_device *device = *state;
    mst_device_event *event = created(device);
    bool done = false;
    assert_ok(mst_device_event_wait(device, MST_QUEUE_COPY, event));
    assert_ok(mst_device_event_query(event, &done));
    assert_true(done);
    assert_ok(device->table->synchronize(device));
    mst_device_event_destroy(event);
    mst_device_event_destroy(NULL);
}

static void events_of_another_backend_are_refused(void **state) {
    mst_device *device = *state, *host = NULL;
    bool access = true;
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &host));
    assert_null(host->queue);
    mst_device_event foreign = {host};
    assert_refused(mst_device_event_wait(device, MST_QUEUE_COMPUTE, &foreign), MUSTER_UNSUPPORTED, "received one of \"host\"");
    assert_ok(device->code->peer_access(device, host, &access));
    assert_false(access);
    host->table->close(host);
}

/* The driver's events of what was destroyed serve what is created: so creating can go on for ever,
 * and what still stands in a queue is not destroyed under it. */
static void destroyed_events_are_handed_out_again(void **state) {
    mst_device *device = *state;
    mst_device_event *first = created(device), *second = created(device);
    assert_ptr_not_equal(first, second);
    muster_sim_inject_queue_stall("cuEventRecord", 1, 0);
    assert_ok(mst_device_event_record(first, MST_QUEUE_COMPUTE));
    mst_device_event_destroy(first);
    mst_device_event *third = created(device); /* the first is not over */
    assert_ptr_not_equal(third, first);
    mst_device_event_destroy(third);
    device->interrupt = keep_releasing;
    assert_ok(device->table->synchronize(device));
    device->interrupt = NULL;
    const int64_t live = mst_memory_live();
    for (int i = 0; i < 1000; i++) {
        mst_device_event_destroy(second);
        second = created(device);
    }
    assert_int_equal(mst_memory_live(), live);
    mst_device_event_destroy(second);
}

static void no_event_is_created_in_flight(void **state) {
    mst_device *device = *state;
    mst_device_event *event = NULL;
    device->in_flight = true;
    assert_refused(mst_device_event_create(device, &event), MUSTER_BAD_STATE, "expected to be asked between calls");
    device->in_flight = false;
    assert_null(event);
}

static void every_failure_of_creating_leaves_nothing(void **state) {
    mst_device *device = *state;
    mst_device_event *event = NULL;
    const int64_t live = mst_memory_live();
    mst_memory_fail_at(1);
    assert_refused(mst_device_event_create(device, &event), MUSTER_OUT_OF_MEMORY, "event");
    mst_memory_fail_at(0);
    assert_null(event);
    muster_sim_inject("cuEventCreate", 1, MST_CU_OUT_OF_MEMORY);
    assert_refused(mst_device_event_create(device, &event), MUSTER_OUT_OF_MEMORY, "cuEventCreate");
    assert_null(event);
    assert_int_equal(mst_memory_live(), live);
    mst_device_event_destroy(created(device));
}

/* ---- peers ---- */

static void virtual_devices_reach_each_other(void **state) {
    mst_device *device = *state, *other = opened("0");
    bool reaches = false;
    uint64_t before = muster_sim_calls("cuDeviceCanAccessPeer");
    assert_ok(device->code->peer_access(device, other, &reaches));
    assert_true(reaches);
    assert_int_equal(muster_sim_calls("cuDeviceCanAccessPeer"), before);
    closed(other);
}

static void reach_is_enabled_once_and_can_be_asked_again(void **state) {
    mst_device *device = *state, *other = opened("1");
    for (int i = 0; i < 3; i++) {
        bool reaches = false;
        assert_ok(device->code->peer_access(device, other, &reaches));
        assert_true(reaches);
    }
    closed(other);
}

static void gpus_that_hide_from_each_other_do_not_reach(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.no_peers = true});
    mst_device *a = opened("0"), *b = opened("1");
    bool reaches = true;
    assert_ok(a->code->peer_access(a, b, &reaches));
    assert_false(reaches);
    assert_int_equal(muster_sim_calls("cuCtxEnablePeerAccess"), 0);
    closed(b);
    closed(a);
    check_machine();
}

/* ---- what is lost ---- */

static void check_that_everything_is_refused(mst_device *device, mst_device_event *event, const char *words) {
    int value = 0;
    void *address = NULL;
    bool flag = false;
    mst_device_event *another = NULL;
    const mst_device_table *table = device->table;
    assert_refused(table->memory->allocate(device, 10, &address), MUSTER_DEVICE_LOST, words);
    assert_refused(table->memory->copy_in(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->queue->copy_in_async(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->memory->copy_out(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->memory->copy(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->synchronize(device), MUSTER_DEVICE_LOST, words);
    assert_refused(table->queue->poll(device, &flag), MUSTER_DEVICE_LOST, words);
    assert_refused(table->queue->enter(device), MUSTER_DEVICE_LOST, words);
    assert_refused(table->queue->event_create(device, &another), MUSTER_DEVICE_LOST, words);
    assert_refused(mst_device_event_record(event, MST_QUEUE_COMPUTE), MUSTER_DEVICE_LOST, words);
    assert_refused(mst_device_event_wait(device, MST_QUEUE_COMPUTE, event), MUSTER_DEVICE_LOST, words);
    assert_refused(mst_device_event_query(event, &flag), MUSTER_DEVICE_LOST, words);
    assert_refused(table->host_memory->allocate(device, 10, &address), MUSTER_DEVICE_LOST, words);
    assert_refused(table->host_memory->pin(device, &value, sizeof value), MUSTER_DEVICE_LOST, words);
    assert_refused(table->memory->reserve(device, (int64_t)1 << 30), MUSTER_DEVICE_LOST, words);
    assert_refused(table->code->gemm(device, &(mst_gemm){.dtype = 3, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1}),
                   MUSTER_DEVICE_LOST, words);
    assert_refused(table->code->launch(device, NULL, 0, NULL, 0), MUSTER_DEVICE_LOST, words);
}

static void a_lost_device_says_why_in_every_later_call(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(NULL);
    mst_device *device = opened("0"), *same = opened("0"), *other = opened("1"), *again = NULL;
    mst_device_event *events[] = {created(device), created(same)};
    muster_sim_inject("cuEventQuery", 1, MST_CU_ILLEGAL_ADDRESS);
    assert_refused(device->table->synchronize(device), MUSTER_DEVICE_LOST,
                   "cuda:0: CUDA: cuEventQuery: expected success, received CUDA_ERROR_ILLEGAL_ADDRESS (700: ");
    check_that_everything_is_refused(device, events[0], "cuda:0 is lost until the process ends, because of: cuda:0: CUDA: cuEventQuery");
    check_that_everything_is_refused(same, events[1], "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &again), MUSTER_DEVICE_LOST, "cuda:0 is lost");
    assert_null(again);
    assert_ok(other->table->synchronize(other));
    assert_refused(mst_device_event_wait(other, MST_QUEUE_COMPUTE, events[0]), MUSTER_DEVICE_LOST, "cuda:0 is lost");
    mst_device_event_destroy(events[0]);
    mst_device_event_destroy(events[1]);
    uint64_t before = muster_sim_calls(NULL);
    closed(device);
    closed(same);
    assert_int_equal(muster_sim_calls(NULL), before); /* nothing that could wait */
    for (int i = 0; i < 2; i++) {
        assert_true(mst_cuda_take_notice(notice));
        assert_non_null(strstr(notice, "cuda:0 is closed, but it is lost"));
    }
    closed(other);
    assert_int_equal(mst_memory_live(), fixture_live);
}

static void a_device_that_dies_while_it_is_waited_for_is_lost(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(NULL);
    mst_device *device = opened("0");
    int value = 1;
    void *place = allocated(device, sizeof value);
    assert_ok(device->memory->copy_in(device, place, &value, sizeof value));
    muster_sim_lose_device(0);
    assert_refused(device->table->synchronize(device), MUSTER_DEVICE_LOST, "cuda:0");
    closed(device);
    assert_true(mst_cuda_take_notice(notice));
    assert_int_equal(mst_memory_live(), fixture_live);
}

static void what_another_library_lost_is_lost(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(NULL);
    mst_device *device = opened("0");
    mst_cuda_lose(device, "NCCL: unhandled cuda error");
    assert_refused(device->table->synchronize(device), MUSTER_DEVICE_LOST, "because of: NCCL: unhandled cuda error");
    closed(device);
    assert_true(mst_cuda_take_notice(notice));
}

/* Slow: closing waits some seconds for the queue. */
static void a_queue_that_never_ends_does_not_take_close_with_it(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(NULL);
    mst_device *device = opened("0");
    int value = 1;
    void *place = allocated(device, sizeof value);
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_ok(device->memory->copy_in(device, place, &value, sizeof value));
    closed(device);
    assert_true(mst_cuda_take_notice(notice));
    assert_non_null(strstr(notice, "cuda:0 is closed, but its queues do not end"));
    assert_int_equal(mst_memory_live(), fixture_live);
    muster_sim_release();
}

static void the_callers_context_survives_every_failure(void **state) {
    mst_device *device = *state;
    const mst_cuda_api *api = driver();
    mst_cu_context mine = NULL, now = NULL;
    assert_int_equal(api->cuDevicePrimaryCtxRetain(&mine, 1), 0);
    assert_int_equal(api->cuCtxSetCurrent(mine), 0);
    static const char *const symbols[] = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuEventRecord", "cuEventQuery"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        muster_sim_inject(symbols[i], 1, MST_CU_OPERATING_SYSTEM);
        assert_refused(device->table->synchronize(device), MUSTER_SYSTEM, symbols[i]);
        assert_int_equal(api->cuCtxGetCurrent(&now), 0);
        assert_ptr_equal(now, mine);
    }
    assert_int_equal(api->cuCtxSetCurrent(NULL), 0);
    assert_int_equal(api->cuDevicePrimaryCtxRelease_v2(1), 0);
}

/* ---- a stream of the program's ---- */

static mst_cu_stream new_stream(mst_device *device) {
    mst_cu_stream stream = NULL;
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING), 0);
    device->queue->leave(device);
    return stream;
}

static void end_stream(mst_device *device, mst_cu_stream stream) {
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuStreamSynchronize(stream), 0);
    assert_int_equal(driver()->cuStreamDestroy_v2(stream), 0);
    device->queue->leave(device);
}

static void work_before_and_after_an_adoption_keeps_its_order(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(BYTES, 8), out[BYTES];
    mst_cu_stream stream = new_stream(device);
    void *created = mst_cuda_stream(device), *a = allocated(device, BYTES), *b = allocated(device, BYTES), *c = allocated(device, BYTES);
    for (int round = 0; round < 20; round++) {
        in[0] = (unsigned char)round;
        assert_ok(device->memory->copy_in(device, a, in, BYTES));
        assert_ok(mst_cuda_adopt_stream(device, stream));
        assert_ptr_equal(mst_cuda_stream(device), stream);
        assert_ok(device->memory->copy(device, b, a, BYTES));
        assert_ok(mst_cuda_adopt_stream(device, NULL));
        assert_ptr_equal(mst_cuda_stream(device), created);
        assert_ok(device->memory->copy(device, c, b, BYTES));
        assert_ok(device->memory->copy_out(device, out, c, BYTES));
        assert_ok(device->table->synchronize(device));
        assert_memory_equal(out, in, BYTES);
    }
    device->memory->release(device, a);
    device->memory->release(device, b);
    device->memory->release(device, c);
    end_stream(device, stream);
    free(in);
}

static void a_stream_of_another_gpu_is_refused(void **state) {
    mst_device *device = *state, *other = opened("1");
    mst_cu_stream stream = new_stream(other);
    void *created = mst_cuda_stream(device);
    assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_INVALID_ARGUMENT, "expected one of the primary context of cuda:0");
    assert_ptr_equal(mst_cuda_stream(device), created);
    device->in_flight = true;
    assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_BAD_STATE, "between calls");
    device->in_flight = false;
    end_stream(other, stream);
    closed(other);
}

static void a_failed_adoption_changes_nothing(void **state) {
    mst_device *device = *state;
    mst_cu_stream stream = new_stream(device);
    void *created = mst_cuda_stream(device);
    static const char *const symbols[] = {"cuStreamGetCtx", "cuEventRecord", "cuStreamWaitEvent", "cublasSetStream_v2",
                                          "cublasSetWorkspace_v2"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        muster_sim_inject(symbols[i], 1, i < 3 ? MST_CU_OPERATING_SYSTEM : 14);
        assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_SYSTEM, symbols[i]);
        assert_ptr_equal(mst_cuda_stream(device), created);
    }
    end_stream(device, stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(poll_says_when_all_is_done_and_never_waits),
        CASE(an_interrupt_ends_the_wait_and_nothing_is_delivered_any_more),
        CASE(an_interrupt_ends_a_copy_that_waits_for_a_chunk),
        CASE(another_devices_event_is_waited_for),
        CASE(an_event_that_was_never_recorded_is_over),
        CASE(events_of_another_backend_are_refused),
        CASE(destroyed_events_are_handed_out_again),
        CASE(no_event_is_created_in_flight),
        CASE(every_failure_of_creating_leaves_nothing),
        CASE(virtual_devices_reach_each_other),
        CASE(reach_is_enabled_once_and_can_be_asked_again),
        cmocka_unit_test(gpus_that_hide_from_each_other_do_not_reach),
        cmocka_unit_test(a_lost_device_says_why_in_every_later_call),
        cmocka_unit_test(a_device_that_dies_while_it_is_waited_for_is_lost),
        cmocka_unit_test(what_another_library_lost_is_lost),
        cmocka_unit_test(a_queue_that_never_ends_does_not_take_close_with_it),
        CASE(the_callers_context_survives_every_failure),
        CASE(work_before_and_after_an_adoption_keeps_its_order),
        CASE(a_stream_of_another_gpu_is_refused),
        CASE(a_failed_adoption_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
