/* Streams of the machine: captured, those of threads, lost with their context, and in hardware
 * queues that they share. */
#include "machine_support.h"

#include <pthread.h>
#include <unistd.h>

static program_calls program;

static unsigned status_of(mst_cu_stream stream) {
    unsigned status = 99;
    assert_done(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

static unsigned char byte_at(mst_cu_address address) {
    unsigned char value = 0;
    assert_done(cu.cuMemcpyDtoHAsync_v2(&value, address, 1, gpu.stream));
    return value;
}

/* ---- capture ---- */
static void what_is_captured_is_not_done(void **state) {
    mst_cu_graph graph = NULL;
    mst_cu_address address = allocate(1);
    (void)state;
    assert_done(cu.cuMemsetD8Async(address, 1, 1, gpu.stream));
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_RELAXED));
    assert_done(cu.cuMemsetD8Async(address, 2, 1, gpu.stream));
    assert_done(program.cuStreamEndCapture(gpu.stream, &graph));
    assert_done(program.cuGraphDestroy(graph));
    assert_int_equal(byte_at(address), 1);
}

typedef struct attempt {
    unsigned mode;
    mst_cu_result result;
} attempt;

static void *allocate_in_mode(void *argument) {
    attempt *a = argument;
    mst_cu_address address = 0;
    unsigned mode = a->mode;
    cu.cuCtxPushCurrent_v2(gpu.context);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    a->result = cu.cuMemAlloc_v2(&address, 256);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    cu.cuCtxPopCurrent_v2(NULL);
    return NULL;
}

/* The rule of cuda.h, for each mode of a capture and of the thread that allocates. */
static void the_modes_of_capture_and_thread_decide(void **state) {
    int cases = 0;
    (void)state;
    for (unsigned capture = 0; capture < 3; capture++) {
        for (unsigned thread = 0; thread < 3; thread++) {
            for (int own = 0; own < 2; own++, cases++) {
                const bool refused = own ? capture != MST_CU_CAPTURE_RELAXED && thread != MST_CU_CAPTURE_RELAXED
                                         : capture == MST_CU_CAPTURE_GLOBAL && thread == MST_CU_CAPTURE_GLOBAL;
                attempt a = {.mode = thread};
                pthread_t other;
                mst_cu_graph graph = NULL;
                assert_done(program.cuStreamBeginCapture_v2(gpu.stream, capture));
                if (own) allocate_in_mode(&a);
                if (!own) assert_int_equal(pthread_create(&other, NULL, allocate_in_mode, &a), 0);
                if (!own) pthread_join(other, NULL);
                assert_int_equal(a.result, refused ? MST_CU_STREAM_CAPTURE_UNSUPPORTED : MST_CU_SUCCESS);
                assert_int_equal(status_of(gpu.stream), refused ? MST_CU_CAPTURE_INVALIDATED : MST_CU_CAPTURE_ACTIVE);
                assert_code(program.cuStreamEndCapture(gpu.stream, &graph), refused ? SIM_STREAM_CAPTURE_INVALIDATED : 0);
                assert_int_equal(graph == NULL, refused);
            }
        }
    }
    assert_int_equal(cases, 18);
}

typedef struct things { /* for the calls that are refused */
    mst_cu_address address;
    void *host, *registered, *unregistered;
    mst_cu_stream stream;
    mst_cu_event event;
} things;

static mst_cu_result do_alloc(things *t) { return cu.cuMemAlloc_v2(&t->address, 256); }
static mst_cu_result do_free(things *t) { return cu.cuMemFree_v2(t->address); }
static mst_cu_result do_host_alloc(things *t) { return cu.cuMemHostAlloc(&t->host, 4096, 0); }
static mst_cu_result do_host_free(things *t) { return cu.cuMemFreeHost(t->host); }
static mst_cu_result do_register(things *t) { return cu.cuMemHostRegister_v2(t->unregistered, 4096, 0); }
static mst_cu_result do_unregister(things *t) { return cu.cuMemHostUnregister(t->registered); }
static mst_cu_result do_stream(things *t) { return cu.cuStreamCreate(&t->stream, 0); }
static mst_cu_result do_query(things *t) { return cu.cuStreamQuery(t->stream); }
static mst_cu_result do_synchronize(things *t) { return cu.cuStreamSynchronize(t->stream); }
static mst_cu_result do_event_query(things *t) { return cu.cuEventQuery(t->event); }

static void each_unsafe_call_is_refused_and_spoils_the_capture(void **state) {
    static mst_cu_result (*const calls[])(things *) = {do_alloc,      do_free,   do_host_alloc, do_host_free,   do_register,
                                                       do_unregister, do_stream, do_query,      do_synchronize, do_event_query};
    things t = {.address = allocate(256)};
    mst_cu_graph graph;
    int cases = 0;
    (void)state;
    assert_int_equal(posix_memalign(&t.registered, 4096, 8192), 0);
    t.unregistered = (char *)t.registered + 4096;
    assert_done(cu.cuMemHostAlloc(&t.host, 4096, 0));
    assert_done(cu.cuMemHostRegister_v2(t.registered, 4096, 0));
    assert_done(cu.cuStreamCreate(&t.stream, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&t.event, 0));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++, cases++) {
        const uint64_t used = muster_sim_memory_used(0);
        assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_GLOBAL));
        assert_code(calls[i](&t), MST_CU_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(status_of(gpu.stream), MST_CU_CAPTURE_INVALIDATED);
        assert_code(cu.cuMemsetD8Async(t.address, 0, 1, gpu.stream), SIM_STREAM_CAPTURE_INVALIDATED);
        assert_code(program.cuStreamEndCapture(gpu.stream, &graph), SIM_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(muster_sim_memory_used(0), used);
    }
    assert_int_equal(cases, 10);
    assert_done(do_unregister(&t)); /* none of them was done */
    assert_done(do_host_free(&t));
    free(t.registered);
}

/* A blocking stream that is captured closes the legacy default stream; others do not. */
static void the_default_stream_is_closed_by_a_blocking_capture(void **state) {
    mst_cu_stream blocking;
    mst_cu_event event;
    mst_cu_graph graph;
    unsigned status;
    mst_cu_address address = allocate(1);
    (void)state;
    assert_done(cu.cuStreamCreate(&blocking, 0));
    assert_done(cu.cuEventCreate(&event, 0));
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_RELAXED));
    assert_done(cu.cuStreamIsCapturing(NULL, &status));
    assert_done(cu.cuEventRecord(event, NULL));
    assert_done(program.cuStreamEndCapture(gpu.stream, &graph));
    for (int i = 0; i < 3; i++) {
        assert_done(program.cuStreamBeginCapture_v2(blocking, MST_CU_CAPTURE_RELAXED));
        assert_code(cu.cuStreamIsCapturing(NULL, &status), MST_CU_STREAM_CAPTURE_IMPLICIT);
        assert_int_equal(status_of(blocking), MST_CU_CAPTURE_ACTIVE);
        assert_code(i == 0   ? cu.cuEventRecord(event, NULL)
                    : i == 1 ? cu.cuMemsetD8Async(address, 1, 1, MST_CU_STREAM_LEGACY)
                             : cu.cuStreamQuery(NULL),
                    MST_CU_STREAM_CAPTURE_IMPLICIT);
        assert_int_equal(status_of(blocking), MST_CU_CAPTURE_INVALIDATED);
        assert_code(program.cuStreamEndCapture(blocking, &graph), SIM_STREAM_CAPTURE_INVALIDATED);
    }
    assert_code(program.cuStreamBeginCapture_v2(NULL, MST_CU_CAPTURE_RELAXED), MST_CU_STREAM_CAPTURE_UNSUPPORTED);
}

/* A stream that waits for a captured event is captured; a captured stream waits for no other. */
static void events_carry_a_capture_to_other_streams(void **state) {
    mst_cu_stream second;
    mst_cu_event inside, outside;
    mst_cu_graph graph;
    mst_cu_address address = allocate(1);
    (void)state;
    assert_done(cu.cuStreamCreate(&second, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&inside, 0));
    assert_done(cu.cuEventCreate(&outside, 0));
    assert_done(cu.cuMemsetD8Async(address, 1, 1, second));
    assert_done(cu.cuEventRecord(outside, second));
    assert_done(cu.cuStreamSynchronize(second));
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_RELAXED));
    assert_done(cu.cuEventRecord(inside, gpu.stream));
    assert_done(cu.cuStreamWaitEvent(second, inside, 0));
    assert_done(cu.cuMemsetD8Async(address, 2, 1, second));
    assert_int_equal(status_of(second), MST_CU_CAPTURE_ACTIVE);
    assert_code(program.cuStreamEndCapture(second, &graph), SIM_STREAM_CAPTURE_UNMATCHED);
    assert_code(program.cuStreamEndCapture(gpu.stream, &graph), SIM_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(byte_at(address), 1);
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_RELAXED));
    assert_code(cu.cuStreamWaitEvent(gpu.stream, outside, 0), SIM_STREAM_CAPTURE_ISOLATION);
    assert_code(program.cuStreamEndCapture(gpu.stream, &graph), SIM_STREAM_CAPTURE_INVALIDATED);
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_RELAXED));
    assert_done(cu.cuEventRecord(inside, gpu.stream));
    assert_code(cu.cuEventQuery(inside), MST_CU_CAPTURED_EVENT);
    assert_code(program.cuStreamEndCapture(gpu.stream, &graph), SIM_STREAM_CAPTURE_INVALIDATED);
}

static void *end_elsewhere(void *result) {
    mst_cu_graph graph;
    *(mst_cu_result *)result = program.cuStreamEndCapture(gpu.stream, &graph);
    return NULL;
}

static void a_capture_ends_in_its_own_thread(void **state) {
    (void)state;
    for (unsigned mode = 0; mode < 3; mode++) {
        mst_cu_result result = 0;
        pthread_t other;
        assert_done(program.cuStreamBeginCapture_v2(gpu.stream, mode));
        assert_int_equal(pthread_create(&other, NULL, end_elsewhere, &result), 0);
        pthread_join(other, NULL);
        assert_int_equal(result, mode == MST_CU_CAPTURE_RELAXED ? 0 : SIM_STREAM_CAPTURE_WRONG_THREAD);
        if (result) end_elsewhere(&result);
        assert_int_equal(result, 0);
    }
}

/* ---- default streams of threads ---- */
typedef struct own_stream {
    mst_cu_address address;
    mst_cu_result query;
} own_stream;

static void *query_own(void *argument) {
    cu.cuCtxPushCurrent_v2(gpu.context);
    ((own_stream *)argument)->query = cu.cuStreamQuery(MST_CU_STREAM_PER_THREAD);
    cu.cuCtxPopCurrent_v2(NULL);
    return NULL;
}

static void each_thread_has_a_default_stream(void **state) {
    own_stream other = {.query = 99};
    pthread_t thread;
    mst_cu_address address = allocate(1);
    (void)state;
    assert_done(cu.cuMemsetD8Async(address, 1, 1, MST_CU_STREAM_PER_THREAD));
    assert_done(cu.cuStreamSynchronize(MST_CU_STREAM_PER_THREAD));
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_done(cu.cuMemsetD8Async(address, 2, 1, MST_CU_STREAM_PER_THREAD));
    assert_int_equal(pthread_create(&thread, NULL, query_own, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other.query, MST_CU_SUCCESS);
    assert_code(cu.cuStreamQuery(MST_CU_STREAM_PER_THREAD), MST_CU_NOT_READY);
    muster_sim_release();
    assert_done(cu.cuStreamSynchronize(MST_CU_STREAM_PER_THREAD));
    assert_int_equal(byte_at(address), 2);
}

static void the_legacy_default_stream_waits_for_those_of_threads(void **state) {
    mst_cu_address from = allocate(1), to = allocate(1);
    (void)state;
    for (int i = 0; i < 100; i++) {
        unsigned char value = 0;
        assert_done(cu.cuMemsetD8Async(from, (unsigned char)i, 1, MST_CU_STREAM_PER_THREAD));
        assert_done(cu.cuMemcpyDtoDAsync_v2(to, from, 1, NULL));
        assert_done(cu.cuMemcpyDtoHAsync_v2(&value, to, 1, MST_CU_STREAM_PER_THREAD));
        assert_int_equal(value, i);
    }
}

/* ---- a context that is reset ---- */
static void a_reset_takes_everything_with_it(void **state) {
    mst_cu_address address = allocate(256), again = 0;
    unsigned type;
    unsigned long long before = 0, after = 0;
    mst_cu_context context = NULL;
    (void)state;
    assert_done(cu.cuPointerGetAttribute(&before, MST_CU_POINTER_BUFFER_ID, address));
    assert_done(program.cuDevicePrimaryCtxReset_v2(gpu.device));
    assert_code(cu.cuPointerGetAttribute(&type, MST_CU_POINTER_MEMORY_TYPE, address), MST_CU_CONTEXT_IS_DESTROYED);
    assert_code(cu.cuMemAlloc_v2(&again, 256), MST_CU_CONTEXT_IS_DESTROYED);
    assert_done(cu.cuDevicePrimaryCtxRetain(&context, gpu.device)); /* as the CUDA runtime does at its next call */
    assert_ptr_equal(context, gpu.context);
    again = allocate(256);
    assert_true(again == address); /* and yet another allocation */
    assert_done(cu.cuPointerGetAttribute(&after, MST_CU_POINTER_BUFFER_ID, again));
    assert_true(after != before);
    assert_int_equal(muster_sim_hazard_count(), 0);
    assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_INVALID_HANDLE);
    assert_non_null(strstr(muster_sim_hazards(), "use of a destroyed stream"));
}

/* ---- hardware queues ---- */
/* Device 1 stands still; `first` of device 0 waits for it, and `second` has work of its own. Is
 * that done? */
static bool work_beside_a_wait(int connections) {
    mst_cu_context other;
    mst_cu_stream held, first, second;
    mst_cu_event event;
    bool done = false;
    muster_sim_reset(&(muster_sim_options){.devices = 2, .memory = 64 << 20, .connections = connections});
    assert_int_equal(contract_setup(NULL), 0);
    mst_cu_address address = allocate(2), there;
    assert_done(cu.cuStreamCreate(&first, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuStreamCreate(&second, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    assert_done(cu.cuStreamCreate(&held, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&event, 0));
    there = allocate(1);
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_done(cu.cuMemsetD8Async(there, 1, 1, held));
    assert_done(cu.cuEventRecord(event, held));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuStreamWaitEvent(first, event, 0));
    assert_done(cu.cuMemsetD8Async(address, 1, 1, first));
    assert_done(cu.cuMemsetD8Async(address + 1, 2, 1, second));
    for (int i = 0; i < (connections == 1 ? 50 : 20000) && !done; i++) {
        usleep(1000);
        done = cu.cuStreamQuery(second) == MST_CU_SUCCESS;
    }
    assert_code(cu.cuStreamQuery(first), MST_CU_NOT_READY);
    muster_sim_release();
    assert_done(cu.cuStreamSynchronize(second)); /* either way it is done in the end */
    assert_done(cu.cuStreamSynchronize(first));
    return done;
}

static void streams_of_one_hardware_queue_wait_for_each_other(void **state) {
    (void)state;
    assert_false(work_beside_a_wait(1));
    assert_true(work_beside_a_wait(8));
    assert_true(work_beside_a_wait(0)); /* 8, too */
}

/* Many streams on one hardware queue, each waiting for records of others: what waits names records
 * that were put in before, so that all of it ends. */
static void one_hardware_queue_does_not_deadlock(void **state) {
    enum { STREAMS = 6, ROUNDS = 300 };
    mst_cu_stream streams[STREAMS];
    mst_cu_event events[STREAMS];
    uint64_t chance = 5;
    (void)state;
    muster_sim_reset(&(muster_sim_options){.devices = 1, .memory = 64 << 20, .connections = 1, .longest_delay = 20});
    assert_int_equal(contract_setup(NULL), 0);
    mst_cu_address address = allocate(STREAMS + 1); /* a byte for each stream, and for the default stream */
    for (int i = 0; i < STREAMS; i++) {
        assert_done(cu.cuStreamCreate(&streams[i], i % 2 ? MST_CU_STREAM_NON_BLOCKING : 0));
        assert_done(cu.cuEventCreate(&events[i], 0));
    }
    for (int i = 0; i < ROUNDS; i++) {
        const int on = (int)(sim_random(&chance) % STREAMS), of = (int)(sim_random(&chance) % STREAMS);
        assert_done(cu.cuStreamWaitEvent(streams[on], events[of], 0));
        const unsigned byte = i % 50 ? (unsigned)on : STREAMS;
        assert_done(cu.cuMemsetD8Async(address + byte, (unsigned char)i, 1, i % 50 ? streams[on] : NULL));
        assert_done(cu.cuEventRecord(events[on], streams[on]));
    }
    for (int i = 0; i < STREAMS; i++) assert_done(cu.cuStreamSynchronize(streams[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        machine_test(what_is_captured_is_not_done),
        machine_test(the_modes_of_capture_and_thread_decide),
        machine_test(each_unsafe_call_is_refused_and_spoils_the_capture),
        machine_test(the_default_stream_is_closed_by_a_blocking_capture),
        machine_test(events_carry_a_capture_to_other_streams),
        machine_test(a_capture_ends_in_its_own_thread),
        machine_test(each_thread_has_a_default_stream),
        machine_test(the_legacy_default_stream_waits_for_those_of_threads),
        machine_test(a_reset_takes_everything_with_it),
        machine_test(streams_of_one_hardware_queue_wait_for_each_other),
        machine_test(one_hardware_queue_does_not_deadlock),
    };
    if (machine_open() || !program_calls_open(&program)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
