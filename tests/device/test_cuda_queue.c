/* Waiting, marks, devices that are lost or stand still, and streams of the program's. */
#include "cuda_fixture.h"

enum { BYTES = 4096 };

/* ---- waiting ---- */

static void poll_says_when_all_is_done_and_never_waits(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(BYTES, 4), out[BYTES] = {0};
    void *place = allocated(device, BYTES);
    bool done = true;
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_ok(device->table->copy_in(device, place, in, BYTES));
    assert_ok(device->table->copy_out(device, out, place, BYTES));
    assert_ok(device->table->poll(device, &done));
    assert_false(done);
    while (!done) {
        muster_sim_release();
        assert_ok(device->table->poll(device, &done));
    }
    check_pattern(out, BYTES, 4);
    device->table->release(device, place);
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
    assert_ok(device->table->copy_in(device, place, in, BYTES));
    assert_ok(device->table->copy_out(device, out, place, BYTES));
    assert_refused(device->table->sync(device), MUSTER_ABORTED, "stopped");
    assert_int_equal(left, 0);
    device->interrupt = keep_releasing;
    assert_ok(device->table->sync(device));
    for (int i = 0; i < BYTES; i++) assert_int_equal(out[i], 0);
    assert_ok(device->table->copy_out(device, out, place, BYTES)); /* the copy in was not lost */
    assert_ok(device->table->sync(device));
    check_pattern(out, BYTES, 4);
    device->table->release(device, place);
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
    assert_refused(device->table->copy_in(device, place, in, LARGE), MUSTER_ABORTED, "stopped");
    left = 10;
    assert_refused(device->table->copy_out(device, in, place, LARGE), MUSTER_ABORTED, "stopped");
    device->interrupt = keep_releasing;
    assert_ok(device->table->sync(device));
    device->table->release(device, place);
    free(in);
}

/* ---- marks ---- */

static void another_devices_mark_is_waited_for(void **state) {
    mst_device *device = *state, *other = opened("1");
    unsigned char *in = patterned(BYTES, 6), out[BYTES];
    bool reaches = false;
    assert_ok(device->table->reach(device, other, &reaches));
    assert_true(reaches);
    void *there = allocated(other, BYTES), *here = allocated(device, BYTES);
    for (int round = 0; round < 20; round++) {
        in[0] = (unsigned char)round;
        assert_ok(other->table->copy_in(other, there, in, BYTES));
        assert_ok(other->table->mark(other, MST_QUEUE_COMPUTE, 1));
        assert_ok(device->table->wait_mark(device, MST_QUEUE_COMPUTE, other, 1));
        assert_ok(device->table->copy(device, here, there, BYTES)); /* by address */
        assert_ok(device->table->mark(device, MST_QUEUE_COMPUTE, 2));
        assert_ok(other->table->wait_mark(other, MST_QUEUE_COMPUTE, device, 2));
        assert_ok(device->table->copy_out(device, out, here, BYTES));
        assert_ok(device->table->sync(device));
        assert_memory_equal(out, in, BYTES);
    }
    assert_ok(other->table->sync(other));
    other->table->release(other, there);
    device->table->release(device, here);
    closed(other);
    free(in);
}

static void a_mark_that_was_never_set_is_not_waited_for(void **state) {
    mst_device *device = *state;
    assert_ok(device->table->wait_mark(device, MST_QUEUE_COPY, device, MST_MARKS - 1));
    assert_ok(device->table->sync(device));
    assert_refused(device->table->mark(device, MST_QUEUE_COMPUTE, MST_MARKS), MUSTER_OUT_OF_RANGE,
                   "expected a slot from 0 to 15, received 16");
    assert_refused(device->table->wait_mark(device, MST_QUEUE_COMPUTE, device, -1), MUSTER_OUT_OF_RANGE, "received -1");
}

static void marks_of_another_backend_are_refused(void **state) {
    mst_device *device = *state, *host = NULL;
    bool reaches = true;
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &host));
    assert_refused(device->table->wait_mark(device, MST_QUEUE_COMPUTE, host, 0), MUSTER_UNSUPPORTED, "received one of \"host\"");
    assert_ok(device->table->reach(device, host, &reaches));
    assert_false(reaches);
    host->table->close(host);
}

/* ---- peers ---- */

static void virtual_devices_reach_each_other(void **state) {
    mst_device *device = *state, *other = opened("0");
    bool reaches = false;
    uint64_t before = muster_sim_calls("cuDeviceCanAccessPeer");
    assert_ok(device->table->reach(device, other, &reaches));
    assert_true(reaches);
    assert_int_equal(muster_sim_calls("cuDeviceCanAccessPeer"), before);
    closed(other);
}

static void reach_is_enabled_once_and_can_be_asked_again(void **state) {
    mst_device *device = *state, *other = opened("1");
    for (int i = 0; i < 3; i++) {
        bool reaches = false;
        assert_ok(device->table->reach(device, other, &reaches));
        assert_true(reaches);
    }
    closed(other);
}

static void gpus_that_hide_from_each_other_do_not_reach(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.no_peers = true});
    mst_device *a = opened("0"), *b = opened("1");
    bool reaches = true;
    assert_ok(a->table->reach(a, b, &reaches));
    assert_false(reaches);
    assert_int_equal(muster_sim_calls("cuCtxEnablePeerAccess"), 0);
    closed(b);
    closed(a);
    check_machine();
}

/* ---- what is lost ---- */

static void check_that_everything_is_refused(mst_device *device, const char *words) {
    int value = 0;
    void *address = NULL;
    bool flag = false;
    const mst_device_table *table = device->table;
    assert_refused(table->allocate(device, 10, &address), MUSTER_DEVICE_LOST, words);
    assert_refused(table->copy_in(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->copy_in_beside(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->copy_out(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->copy(device, &value, &value, 4), MUSTER_DEVICE_LOST, words);
    assert_refused(table->sync(device), MUSTER_DEVICE_LOST, words);
    assert_refused(table->poll(device, &flag), MUSTER_DEVICE_LOST, words);
    assert_refused(table->enter(device), MUSTER_DEVICE_LOST, words);
    assert_refused(table->mark(device, MST_QUEUE_COMPUTE, 0), MUSTER_DEVICE_LOST, words);
    assert_refused(table->wait_mark(device, MST_QUEUE_COMPUTE, device, 0), MUSTER_DEVICE_LOST, words);
    assert_refused(table->allocate_host(device, 10, &address), MUSTER_DEVICE_LOST, words);
    assert_refused(table->lock_host(device, &value, sizeof value), MUSTER_DEVICE_LOST, words);
    assert_refused(table->reserve(device, (int64_t)1 << 30), MUSTER_DEVICE_LOST, words);
    assert_refused(table->gemm(device, &(mst_gemm){.dtype = 3, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1}), MUSTER_DEVICE_LOST,
                   words);
    assert_refused(table->launch_code(device, NULL, 0, NULL, 0), MUSTER_DEVICE_LOST, words);
}

static void a_lost_device_says_why_in_every_later_call(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(NULL);
    mst_device *device = opened("0"), *same = opened("0"), *other = opened("1"), *again = NULL;
    muster_sim_inject("cuEventQuery", 1, MST_CU_ILLEGAL_ADDRESS);
    assert_refused(device->table->sync(device), MUSTER_DEVICE_LOST,
                   "cuda:0: CUDA: cuEventQuery: expected success, received CUDA_ERROR_ILLEGAL_ADDRESS (700: ");
    check_that_everything_is_refused(device, "cuda:0 is lost until the process ends, because of: cuda:0: CUDA: cuEventQuery");
    check_that_everything_is_refused(same, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &again), MUSTER_DEVICE_LOST, "cuda:0 is lost");
    assert_null(again);
    assert_ok(other->table->sync(other));
    assert_refused(other->table->wait_mark(other, MST_QUEUE_COMPUTE, device, 0), MUSTER_DEVICE_LOST, "cuda:0 is lost");
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
    assert_ok(device->table->copy_in(device, place, &value, sizeof value));
    muster_sim_lose_device(0);
    assert_refused(device->table->sync(device), MUSTER_DEVICE_LOST, "cuda:0");
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
    assert_refused(device->table->sync(device), MUSTER_DEVICE_LOST, "because of: NCCL: unhandled cuda error");
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
    assert_ok(device->table->copy_in(device, place, &value, sizeof value));
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
        assert_refused(device->table->sync(device), MUSTER_SYSTEM, symbols[i]);
        assert_int_equal(api->cuCtxGetCurrent(&now), 0);
        assert_ptr_equal(now, mine);
    }
    assert_int_equal(api->cuCtxSetCurrent(NULL), 0);
    assert_int_equal(api->cuDevicePrimaryCtxRelease_v2(1), 0);
}

/* ---- a stream of the program's ---- */

static mst_cu_stream new_stream(mst_device *device) {
    mst_cu_stream stream = NULL;
    assert_ok(device->table->enter(device));
    assert_int_equal(driver()->cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING), 0);
    device->table->leave(device);
    return stream;
}

static void end_stream(mst_device *device, mst_cu_stream stream) {
    assert_ok(device->table->enter(device));
    assert_int_equal(driver()->cuStreamSynchronize(stream), 0);
    assert_int_equal(driver()->cuStreamDestroy_v2(stream), 0);
    device->table->leave(device);
}

static void work_before_and_after_an_adoption_keeps_its_order(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(BYTES, 8), out[BYTES];
    mst_cu_stream stream = new_stream(device);
    void *own = mst_cuda_stream(device), *a = allocated(device, BYTES), *b = allocated(device, BYTES), *c = allocated(device, BYTES);
    for (int round = 0; round < 20; round++) {
        in[0] = (unsigned char)round;
        assert_ok(device->table->copy_in(device, a, in, BYTES));
        assert_ok(mst_cuda_adopt_stream(device, stream));
        assert_ptr_equal(mst_cuda_stream(device), stream);
        assert_ok(device->table->copy(device, b, a, BYTES));
        assert_ok(mst_cuda_adopt_stream(device, NULL));
        assert_ptr_equal(mst_cuda_stream(device), own);
        assert_ok(device->table->copy(device, c, b, BYTES));
        assert_ok(device->table->copy_out(device, out, c, BYTES));
        assert_ok(device->table->sync(device));
        assert_memory_equal(out, in, BYTES);
    }
    device->table->release(device, a);
    device->table->release(device, b);
    device->table->release(device, c);
    end_stream(device, stream);
    free(in);
}

static void a_stream_of_another_gpu_is_refused(void **state) {
    mst_device *device = *state, *other = opened("1");
    mst_cu_stream stream = new_stream(other);
    void *own = mst_cuda_stream(device);
    assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_INVALID_ARGUMENT, "expected one of the primary context of cuda:0");
    assert_ptr_equal(mst_cuda_stream(device), own);
    device->in_flight = true;
    assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_BAD_STATE, "between calls");
    device->in_flight = false;
    end_stream(other, stream);
    closed(other);
}

static void a_failed_adoption_changes_nothing(void **state) {
    mst_device *device = *state;
    mst_cu_stream stream = new_stream(device);
    void *own = mst_cuda_stream(device);
    static const char *const symbols[] = {"cuStreamGetCtx", "cuEventRecord", "cuStreamWaitEvent", "cublasSetStream_v2",
                                          "cublasSetWorkspace_v2"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        muster_sim_inject(symbols[i], 1, i < 3 ? MST_CU_OPERATING_SYSTEM : 14);
        assert_refused(mst_cuda_adopt_stream(device, stream), MUSTER_SYSTEM, symbols[i]);
        assert_ptr_equal(mst_cuda_stream(device), own);
    }
    end_stream(device, stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(poll_says_when_all_is_done_and_never_waits),
        CASE(an_interrupt_ends_the_wait_and_nothing_is_delivered_any_more),
        CASE(an_interrupt_ends_a_copy_that_waits_for_a_chunk),
        CASE(another_devices_mark_is_waited_for),
        CASE(a_mark_that_was_never_set_is_not_waited_for),
        CASE(marks_of_another_backend_are_refused),
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
