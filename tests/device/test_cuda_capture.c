/* A program that captures streams into graphs, or resets its GPU, while Muster uses the same
 * GPU. */
#include "cuda_fixture.h"
#include "program_calls.h"

#include <pthread.h>

enum { BYTES = 1 << 20 };

static program_calls program;

static unsigned status_of(mst_cu_stream stream) {
    unsigned status = 99;
    assert_int_equal(driver()->cuStreamIsCapturing(stream, &status), 0);
    return status;
}

/* What the program has: the primary context, and a stream in it. */
typedef struct own_stream {
    mst_cu_context context;
    mst_cu_stream stream;
} own_stream;

static own_stream begin_stream(unsigned flags) {
    own_stream own = {0};
    assert_int_equal(driver()->cuDevicePrimaryCtxRetain(&own.context, 0), 0);
    assert_int_equal(driver()->cuCtxPushCurrent_v2(own.context), 0);
    assert_int_equal(driver()->cuStreamCreate(&own.stream, flags), 0);
    return own;
}

static void end_stream(own_stream *own) {
    assert_int_equal(driver()->cuStreamSynchronize(own->stream), 0);
    assert_int_equal(driver()->cuStreamDestroy_v2(own->stream), 0);
    assert_int_equal(driver()->cuCtxPopCurrent_v2(NULL), 0);
    assert_int_equal(driver()->cuDevicePrimaryCtxRelease_v2(0), 0);
}

/* The capture has not been spoiled, and the thread's mode is as it was. */
static void end_capture(mst_cu_stream stream, unsigned mode_before) {
    mst_cu_graph graph = NULL;
    unsigned mode = mode_before;
    assert_int_equal(driver()->cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(mode, mode_before);
    assert_int_equal(status_of(stream), MST_CU_CAPTURE_ACTIVE);
    assert_int_equal(program.cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(program.cuGraphDestroy(graph), 0);
}

/* ---- what Muster does beside a capture ---- */

/* Everything that allocates, frees, page-locks, loads, makes or asks. */
static void use_a_device(void) {
    mst_device *device = opened("0");
    unsigned char *in = patterned(BYTES, 3), *out = calloc(1, BYTES);
    mst_device_event *event = NULL;
    void *a = allocated(device, 100 << 20), *b = allocated(device, BYTES), *locked = NULL;
    bool done = false;
    assert_ok(device->host_memory->allocate(device, 4096, &locked));
    assert_ok(device->host_memory->pin(device, in, BYTES));
    assert_ok(mst_device_event_create(device, &event));
    assert_ok(device->memory->copy_in(device, a, in, BYTES));
    assert_ok(device->memory->copy(device, b, a, BYTES));
    assert_ok(device->memory->copy_out(device, out, b, BYTES));
    assert_ok(mst_device_event_record(event, MST_QUEUE_COMPUTE));
    assert_ok(device->queue->enter(device)); /* as around a body */
    assert_ok(device->table->synchronize(device));
    assert_ok(device->queue->event_query(event, &done));
    assert_ok(device->queue->leave(device));
    assert_true(done);
    check_pattern(out, BYTES, 3);
    mst_device_event_destroy(event);
    device->host_memory->unpin(device, in);
    device->host_memory->release(device, locked);
    device->memory->release(device, a);
    device->memory->release(device, b);
    closed(device);
    free(in);
    free(out);
}

static void *use_a_device_elsewhere(void *unused) {
    use_a_device();
    return unused;
}

/* For each mode of the capture, in the capturing thread and in another. Without relaxed threads,
 * four of the six would fail and be spoiled. */
static void no_call_fails_or_spoils_a_capture_of_the_program(void **state) {
    int cases = 0;
    (void)state;
    for (unsigned mode = 0; mode < 3; mode++) {
        for (int own = 0; own < 2; own++, cases++) {
            pthread_t thread;
            new_machine(&(muster_sim_options){.devices = 2});
            own_stream mine = begin_stream(MST_CU_STREAM_NON_BLOCKING);
            assert_int_equal(program.cuStreamBeginCapture_v2(mine.stream, mode), 0);
            if (own) use_a_device();
            if (!own) assert_int_equal(pthread_create(&thread, NULL, use_a_device_elsewhere, NULL), 0);
            if (!own) pthread_join(thread, NULL);
            end_capture(mine.stream, MST_CU_CAPTURE_GLOBAL);
            end_stream(&mine);
            check_machine();
        }
    }
    assert_int_equal(cases, 6);
}

static void the_mode_that_a_thread_has_chosen_is_put_back(void **state) {
    mst_device *device = *state;
    for (unsigned wanted = 0; wanted < 3; wanted++) {
        unsigned mode = wanted;
        assert_int_equal(driver()->cuThreadExchangeStreamCaptureMode(&mode), 0);
        assert_ok(device->table->synchronize(device));
        assert_ok(device->queue->enter(device));
        assert_ok(device->queue->enter(device));
        assert_ok(device->queue->leave(device));
        assert_ok(device->queue->leave(device));
        muster_sim_inject("cuCtxPushCurrent_v2", 1, MST_CU_OPERATING_SYSTEM);
        assert_refused(device->table->synchronize(device), MUSTER_SYSTEM, "cuCtxPushCurrent_v2");
        muster_sim_inject("cuThreadExchangeStreamCaptureMode", 1, MST_CU_OPERATING_SYSTEM);
        assert_refused(device->table->synchronize(device), MUSTER_SYSTEM, "cuThreadExchangeStreamCaptureMode");
        muster_sim_inject("cuThreadExchangeStreamCaptureMode", 2, MST_CU_OPERATING_SYSTEM);
        assert_ok(device->table->synchronize(device));
        mode = MST_CU_CAPTURE_GLOBAL;
        assert_int_equal(driver()->cuThreadExchangeStreamCaptureMode(&mode), 0);
        assert_int_equal(mode, wanted);
    }
}

/* ---- streams that are captured are not waited for ---- */

static const char active[] = "stream: expected one that is not being captured into a graph, received one of cuda:0 in an active capture";

static void a_captured_stream_is_refused(void **state) {
    mst_device *device = *state;
    own_stream mine = begin_stream(MST_CU_STREAM_NON_BLOCKING);
    void *created = mst_cuda_stream(device);
    assert_int_equal(program.cuStreamBeginCapture_v2(mine.stream, MST_CU_CAPTURE_RELAXED), 0);
    assert_refused(mst_cuda_after(device, mine.stream, "after"), MUSTER_BAD_STATE, active);
    assert_refused(mst_cuda_before(device, mine.stream, "before"), MUSTER_BAD_STATE, active);
    assert_refused(mst_cuda_adopt_stream(device, mine.stream), MUSTER_BAD_STATE, active);
    assert_ptr_equal(mst_cuda_stream(device), created);
    assert_int_equal(status_of(mst_cuda_stream(device)), MST_CU_CAPTURE_NONE);
    assert_ok(mst_cuda_after(device, NULL, "after")); /* which a capture of a non-blocking stream leaves alone */
    assert_ok(device->table->synchronize(device));
    end_capture(mine.stream, MST_CU_CAPTURE_GLOBAL);
    assert_ok(mst_cuda_after(device, mine.stream, "after"));
    assert_ok(mst_cuda_before(device, mine.stream, "before"));
    assert_ok(device->table->synchronize(device));
    end_stream(&mine);
}

static void the_default_stream_beside_a_blocking_capture_is_refused(void **state) {
    static const char closed_default[] = "stream: expected no stream capture that CUDA's default stream of cuda:0 would wait for";
    mst_device *device = *state;
    own_stream mine = begin_stream(0);
    void *place = allocated(device, 16);
    bool forgotten;
    assert_int_equal(program.cuStreamBeginCapture_v2(mine.stream, MST_CU_CAPTURE_RELAXED), 0);
    assert_refused(mst_cuda_after(device, NULL, "after"), MUSTER_BAD_STATE, closed_default);
    assert_refused(mst_cuda_before(device, MST_CU_STREAM_LEGACY, "before"), MUSTER_BAD_STATE, closed_default);
    assert_refused(device->memory->adopt(device, place, 16, "adopt"), MUSTER_BAD_STATE, closed_default);
    mst_cuda_default_begin(device);
    assert_refused(mst_cuda_default_end(device, &forgotten), MUSTER_BAD_STATE, closed_default);
    end_capture(mine.stream, MST_CU_CAPTURE_GLOBAL);
    assert_ok(device->memory->adopt(device, place, 16, "adopt"));
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, place);
    end_stream(&mine);
}

/* ---- default streams of threads ---- */

static void the_default_stream_of_a_thread_is_ordered_but_not_adopted(void **state) {
    mst_device *device = *state;
    unsigned char out = 0;
    void *place = allocated(device, 1), *copy = allocated(device, 1);
    const mst_cu_address address = (mst_cu_address)(uintptr_t)place;
    for (int i = 0; i < 50; i++) {
        assert_ok(mst_cuda_before(device, MST_CU_STREAM_PER_THREAD, "before"));
        assert_ok(device->queue->enter(device));
        assert_int_equal(driver()->cuMemsetD8Async(address, (unsigned char)i, 1, MST_CU_STREAM_PER_THREAD), 0);
        assert_ok(mst_cuda_after(device, MST_CU_STREAM_PER_THREAD, "after"));
        assert_ok(device->queue->leave(device));
        assert_ok(device->memory->copy(device, copy, place, 1));
        assert_ok(device->memory->copy_out(device, &out, copy, 1));
        assert_ok(device->table->synchronize(device));
        assert_int_equal(out, i);
    }
    assert_refused(mst_cuda_adopt_stream(device, MST_CU_STREAM_PER_THREAD), MUSTER_INVALID_ARGUMENT,
                   "stream: expected one that is the same in every thread, received the per-thread default stream");
    device->memory->release(device, place);
    device->memory->release(device, copy);
}

/* ---- a GPU that the program resets ---- */

static const char was_reset[] = "cuda:0: the program has reset the primary context (cudaDeviceReset or cuDevicePrimaryCtxReset)";

/* again: the program goes on with the GPU, and its memory is where Muster's was. No destroyed
 * handle is used: the machine would report it. */
static void reset_an_open_device(bool again, bool close_first) {
    char notice[MST_MESSAGE_SIZE];
    mst_cu_context context = NULL;
    mst_cu_address address = 0;
    new_machine(&(muster_sim_options){.devices = 2});
    mst_device *device = opened("0"), *other = opened("1");
    assert_ok(device->queue->enter(device));
    assert_ok(device->queue->leave(device));
    assert_int_equal(program.cuDevicePrimaryCtxReset_v2(0), 0);
    if (again) {
        assert_int_equal(driver()->cuDevicePrimaryCtxRetain(&context, 0), 0);
        assert_int_equal(driver()->cuCtxPushCurrent_v2(context), 0);
        assert_int_equal(driver()->cuMemAlloc_v2(&address, 100 << 20), 0);
    }
    if (!close_first) assert_refused(device->queue->enter(device), MUSTER_DEVICE_LOST, was_reset);
    if (!close_first) assert_refused(device->table->synchronize(device), MUSTER_DEVICE_LOST, was_reset);
    closed(device);
    assert_true(mst_cuda_take_notice(notice));
    assert_non_null(strstr(notice, "cuda:0 is closed, but it is lost"));
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_DEVICE_LOST, was_reset);
    if (again) assert_int_equal(driver()->cuCtxPopCurrent_v2(NULL), 0);
    assert_ok(other->table->synchronize(other)); /* the other GPU is as it was */
    closed(other);
    assert_string_equal(muster_sim_hazards(), "");
    assert_int_equal(mst_memory_live(), fixture_live);
    new_machine(NULL);
}

static void a_reset_is_found_and_no_dead_handle_used(void **state) {
    int cases = 0;
    (void)state;
    for (int again = 0; again < 2; again++)
        for (int close_first = 0; close_first < 2; close_first++, cases++) reset_an_open_device(again, close_first);
    assert_int_equal(cases, 4);
}

static void a_reset_between_runtimes_does_no_harm(void **state) {
    (void)state;
    new_machine(NULL);
    closed(opened("0"));
    assert_int_equal(program.cuDevicePrimaryCtxReset_v2(0), 0);
    closed(opened("0"));
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_fails_or_spoils_a_capture_of_the_program),
        CASE(the_mode_that_a_thread_has_chosen_is_put_back),
        CASE(a_captured_stream_is_refused),
        CASE(the_default_stream_beside_a_blocking_capture_is_refused),
        CASE(the_default_stream_of_a_thread_is_ordered_but_not_adopted),
        cmocka_unit_test(a_reset_is_found_and_no_dead_handle_used),
        cmocka_unit_test(a_reset_between_runtimes_does_no_harm),
    };
    if (!program_calls_open(&program)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
