/* What a caller may rely on in the CUDA driver. */
#include "base_skip.h"
#include "contract_parameters.h"
#include "contract_support.h"
#include "program_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- names and devices ---- */
static void versions_and_errors_are_named(void **state) {
    (void)state;
    int version = 0;
    const char *name = NULL;
    assert_done(cu.cuDriverGetVersion(&version));
    assert_true(version >= 12000);
    assert_code(cu.cuDriverGetVersion(NULL), MST_CU_INVALID_VALUE);
    assert_done(cu.cuGetErrorName(MST_CU_OUT_OF_MEMORY, &name));
    assert_string_equal(name, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_done(cu.cuGetErrorString(MST_CU_OUT_OF_MEMORY, &name));
    assert_string_equal(name, "out of memory");
    assert_code(cu.cuGetErrorName(12345, &name), MST_CU_INVALID_VALUE);
    assert_null(name);
    assert_code(cu.cuGetErrorString(12345, &name), MST_CU_INVALID_VALUE);
    assert_code(cu.cuInit(1), MST_CU_INVALID_VALUE);
}

static void devices_have_ordinals_names_and_sizes(void **state) {
    (void)state;
    int count = 0;
    mst_cu_device device = -1;
    char name[100] = "";
    size_t bytes = 0;
    assert_done(cu.cuDeviceGetCount(&count));
    assert_true(count >= 1);
    assert_done(cu.cuDeviceGet(&device, count - 1));
    assert_code(cu.cuDeviceGet(&device, count), MST_CU_INVALID_DEVICE);
    assert_code(cu.cuDeviceGet(&device, -1), MST_CU_INVALID_DEVICE);
    assert_done(cu.cuDeviceGetName(name, sizeof name, 0));
    assert_true(strlen(name) > 0);
    assert_done(cu.cuDeviceTotalMem_v2(&bytes, 0));
    assert_true(bytes >= (size_t)64 << 20);
}

static void devices_are_found_by_pci_id_and_told_apart_by_uuid(void **state) {
    (void)state;
    int count = 0;
    mst_cu_uuid uuids[64];
    assert_done(cu.cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        char id[32], found_id[32], name[256] = "";
        mst_cu_device found = -1;
        assert_done(cu.cuDeviceGetPCIBusId(id, sizeof id, i));
        assert_done(cu.cuDeviceGetByPCIBusId(&found, id));
        assert_done(cu.cuDeviceGetPCIBusId(found_id, sizeof found_id, found));
        assert_string_equal(found_id, id);
        assert_done(cu.cuDeviceGetName(name, sizeof name, i));
        if (!strstr(name, " MIG ")) assert_int_equal(found, i); /* the instances of one GPU share its id */
        assert_done(cu.cuDeviceGetUuid_v2(&uuids[i], i));
        for (int j = 0; j < i; j++) assert_memory_not_equal(&uuids[i], &uuids[j], sizeof uuids[i]);
    }
    mst_cu_device none;
    assert_true(cu.cuDeviceGetByPCIBusId(&none, "no id") != 0);
}

static void attributes_are_those_of_a_gpu(void **state) {
    (void)state;
    int value = 0;
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_true(value > 0);
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_true(value >= 7);
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    assert_true(value >= 0);
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    assert_int_equal(value, 1);
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_COMPUTE_MODE, 0));
    assert_int_not_equal(value, MST_CU_COMPUTE_MODE_PROHIBITED);
    assert_code(cu.cuDeviceGetAttribute(&value, 100000, 0), MST_CU_INVALID_VALUE);
}

/* ---- contexts ---- */
static void the_primary_context_is_one_and_counted(void **state) {
    (void)state;
    mst_cu_context again = NULL;
    assert_done(cu.cuDevicePrimaryCtxRetain(&again, gpu.device));
    assert_ptr_equal(again, gpu.context);
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(gpu.device));
    size_t free_bytes, bytes;
    assert_done(cu.cuMemGetInfo_v2(&free_bytes, &bytes)); /* still there */
}

static void contexts_are_a_stack(void **state) {
    (void)state;
    mst_cu_context current = NULL;
    assert_done(cu.cuCtxGetCurrent(&current));
    assert_ptr_equal(current, gpu.context);
    assert_done(cu.cuCtxPushCurrent_v2(gpu.context));
    assert_done(cu.cuCtxSetCurrent(NULL)); /* takes away the topmost */
    assert_done(cu.cuCtxGetCurrent(&current));
    assert_ptr_equal(current, gpu.context);
    assert_done(cu.cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, gpu.context);
    assert_done(cu.cuCtxGetCurrent(&current));
    assert_null(current);
    assert_code(cu.cuCtxPopCurrent_v2(&current), MST_CU_INVALID_CONTEXT);
    assert_done(cu.cuCtxSetCurrent(gpu.context));
}

static void *look_without_context(void *found) {
    mst_cu_address address;
    mst_cu_context current = gpu.context;
    cu.cuCtxGetCurrent(&current);
    *(mst_cu_result *)found = current ? 0 : cu.cuMemAlloc_v2(&address, 256);
    return NULL;
}

static void a_thread_begins_without_a_context(void **state) {
    (void)state;
    pthread_t thread;
    mst_cu_result found = 0;
    assert_int_equal(pthread_create(&thread, NULL, look_without_context, &found), 0);
    pthread_join(thread, NULL);
    assert_int_equal(found, MST_CU_INVALID_CONTEXT);
}

/* ---- memory ---- */
static void allocations_are_aligned_and_refused_by_size(void **state) {
    (void)state;
    mst_cu_address addresses[3];
    size_t free_bytes = 0, bytes = 0;
    for (int i = 0; i < 3; i++) {
        assert_done(cu.cuMemAlloc_v2(&addresses[i], 1000));
        assert_int_equal(addresses[i] % 256, 0);
    }
    assert_done(cu.cuMemGetInfo_v2(&free_bytes, &bytes));
    assert_true(free_bytes < bytes);
    for (int i = 0; i < 3; i++) assert_done(cu.cuMemFree_v2(addresses[i]));
    assert_code(cu.cuMemAlloc_v2(&addresses[0], 0), MST_CU_INVALID_VALUE);
    assert_code(cu.cuMemAlloc_v2(&addresses[0], (size_t)1 << 50), MST_CU_OUT_OF_MEMORY);
    printf("found: cuMemFree(0): %u\n", cu.cuMemFree_v2(0)); /* of no documented result: Muster never does it */
}

typedef struct told { /* about an address */
    unsigned type, managed;
    int ordinal;
    mst_cu_context context;
    mst_cu_address start;
    size_t bytes;
} told;

static told ask_about(const void *address) {
    told t = {.ordinal = -1};
    unsigned attributes[] = {MST_CU_POINTER_MEMORY_TYPE, MST_CU_POINTER_IS_MANAGED,  MST_CU_POINTER_DEVICE_ORDINAL,
                             MST_CU_POINTER_CONTEXT,     MST_CU_POINTER_RANGE_START, MST_CU_POINTER_RANGE_BYTES};
    void *values[] = {&t.type, &t.managed, &t.ordinal, &t.context, &t.start, &t.bytes};
    mst_cu_result result = cu.cuPointerGetAttributes(6, attributes, values, (mst_cu_address)(uintptr_t)address);
    assert_true(result == MST_CU_SUCCESS || (t.type == 0 && (result == MST_CU_INVALID_VALUE || result == MST_CU_INVALID_CONTEXT)));
    return t;
}

static void an_address_tells_what_it_is(void **state) {
    (void)state;
    mst_cu_address address;
    void *host = NULL;
    int here = 0;
    unsigned type = 0;
    unsigned long long id = 0, same = 0, other = 0;
    assert_done(cu.cuMemAlloc_v2(&address, 1000));
    told t = ask_about((char *)(uintptr_t)address + 999);
    assert_int_equal(t.type, MST_CU_MEMORY_TYPE_DEVICE);
    assert_int_equal(t.managed, 0);
    assert_int_equal(t.ordinal, gpu.device);
    assert_ptr_equal(t.context, gpu.context);
    assert_done(cu.cuPointerGetAttribute(&type, MST_CU_POINTER_MEMORY_TYPE, address));
    assert_int_equal(type, MST_CU_MEMORY_TYPE_DEVICE);
    assert_code(cu.cuPointerGetAttribute(&type, MST_CU_POINTER_MEMORY_TYPE, (mst_cu_address)(uintptr_t)&here), MST_CU_INVALID_VALUE);
    assert_done(cu.cuPointerGetAttribute(&id, MST_CU_POINTER_BUFFER_ID, address));
    assert_done(cu.cuPointerGetAttribute(&same, MST_CU_POINTER_BUFFER_ID, address + 999));
    assert_true(same == id);
    assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuMemAlloc_v2(&address, 1000)); /* at the same address or elsewhere: another number */
    assert_done(cu.cuPointerGetAttribute(&other, MST_CU_POINTER_BUFFER_ID, address));
    assert_true(other != id);
    assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuMemHostAlloc(&host, 1000, MST_CU_HOST_ALLOC_PORTABLE));
    t = ask_about(host);
    assert_int_equal(t.type, MST_CU_MEMORY_TYPE_HOST);
    assert_int_equal(t.managed, 0);
    assert_true(t.start == (mst_cu_address)(uintptr_t)host && t.bytes >= 1000);
    assert_done(cu.cuMemFreeHost(host));
    assert_int_equal(ask_about(&here).type, 0);
}

static void managed_memory_says_so(void **state) {
    (void)state;
    mst_cu_address address;
    assert_code(cu.cuMemAllocManaged(&address, 1000, 0), MST_CU_INVALID_VALUE);
    assert_done(cu.cuMemAllocManaged(&address, 1000, MST_CU_MANAGED_GLOBAL));
    const told t = ask_about((char *)(uintptr_t)address);
    assert_int_equal(t.managed, 1);
    assert_int_not_equal(t.type, 0);
    assert_done(cu.cuMemFree_v2(address));
}

/* The end of a registration is known to the page at most, and one that begins in the same page is
 * done, or refused as registered already: drivers differ. */
static void host_memory_is_registered_by_the_range_or_by_the_page(void **state) {
    (void)state;
    enum { PAGE = 4096 };
    char *host = NULL;
    assert_int_equal(posix_memalign((void **)&host, PAGE, 4 * PAGE), 0);
    memset(host, 0, 4 * PAGE);
    assert_done(cu.cuMemHostRegister_v2(host, PAGE + 100, MST_CU_HOST_REGISTER_PORTABLE));
    const told t = ask_about(host + PAGE + 99);
    assert_int_equal(t.type, MST_CU_MEMORY_TYPE_HOST);
    assert_true(t.start == (mst_cu_address)(uintptr_t)host && t.bytes >= PAGE + 100);
    assert_int_equal(ask_about(host + 2 * PAGE).type, 0);
    mst_cu_result result = cu.cuMemHostRegister_v2(host + PAGE + 100, PAGE, MST_CU_HOST_REGISTER_PORTABLE);
    assert_true(result == MST_CU_SUCCESS || result == MST_CU_HOST_MEMORY_ALREADY_REGISTERED);
    if (!result) assert_done(cu.cuMemHostUnregister(host + PAGE + 100));
    assert_code(cu.cuMemHostRegister_v2(host + 50, 100, MST_CU_HOST_REGISTER_PORTABLE), MST_CU_HOST_MEMORY_ALREADY_REGISTERED);
    assert_done(cu.cuMemHostUnregister(host));
    free(host);
}

static void host_memory_is_registered_once(void **state) {
    (void)state;
    void *host = NULL;
    assert_int_equal(posix_memalign(&host, 4096, 8192), 0);
    memset(host, 0, 8192);
    assert_done(cu.cuMemHostRegister_v2(host, 8192, MST_CU_HOST_REGISTER_PORTABLE));
    assert_code(cu.cuMemHostRegister_v2(host, 8192, MST_CU_HOST_REGISTER_PORTABLE), MST_CU_HOST_MEMORY_ALREADY_REGISTERED);
    assert_done(cu.cuMemHostUnregister(host));
    assert_code(cu.cuMemHostUnregister(host), MST_CU_HOST_MEMORY_NOT_REGISTERED);
    free(host);
}

/* ---- copies ---- */
enum { COPIED = 100000 };

static void fill_pattern(unsigned char *bytes) {
    for (int i = 0; i < COPIED; i++) bytes[i] = (unsigned char)(i * 7 + i / 251);
}

static void copies_go_through_the_device(void **state) {
    (void)state;
    mst_cu_address a, b;
    unsigned char *in, *out;
    assert_done(cu.cuMemAlloc_v2(&a, COPIED));
    assert_done(cu.cuMemAlloc_v2(&b, COPIED));
    assert_done(cu.cuMemHostAlloc((void **)&in, COPIED, 0));
    assert_done(cu.cuMemHostAlloc((void **)&out, COPIED, 0));
    fill_pattern(in);
    memset(out, 0, COPIED);
    assert_done(cu.cuMemcpyHtoDAsync_v2(a, in, COPIED, gpu.stream));
    assert_done(cu.cuMemcpyDtoDAsync_v2(b, a, COPIED, gpu.stream));
    assert_done(cu.cuMemsetD8Async(b + 5, 0xAB, 10, gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, b, COPIED, gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, b, 0, gpu.stream));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    memset(in + 5, 0xAB, 10);
    assert_memory_equal(in, out, COPIED);
    assert_done(cu.cuMemFreeHost(in));
    assert_done(cu.cuMemFreeHost(out));
    assert_done(cu.cuMemFree_v2(a));
    assert_done(cu.cuMemFree_v2(b));
}

/* A copy from pageable memory has read it when the call returns. Whether a copy to pageable memory
 * is done then, too, is not promised on machines whose GPUs access such memory themselves ("API
 * synchronization behavior" in the driver's manual), so that is told and not asserted. */
static void pageable_memory_is_free_when_the_call_returns(void **state) {
    (void)state;
    mst_cu_address address;
    unsigned char *bytes = malloc(COPIED), *out = malloc(COPIED);
    assert_done(cu.cuMemAlloc_v2(&address, COPIED));
    fill_pattern(bytes);
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, bytes, COPIED, gpu.stream));
    memset(bytes, 0, COPIED);
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, address, COPIED, gpu.stream));
    printf("found: cuMemcpyDtoHAsync to pageable memory: the stream is %s when it returns\n",
           cu.cuStreamQuery(gpu.stream) == MST_CU_SUCCESS ? "empty" : "not empty");
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    fill_pattern(bytes);
    assert_memory_equal(bytes, out, COPIED);
    assert_done(cu.cuMemFree_v2(address));
    free(bytes);
    free(out);
}

static void a_copy_to_no_device_memory_is_refused(void **state) {
    (void)state;
    mst_cu_address address;
    int host = 0;
    assert_done(cu.cuMemAlloc_v2(&address, 256));
    assert_code(cu.cuMemcpyHtoDAsync_v2(0, &host, sizeof host, gpu.stream), MST_CU_INVALID_VALUE);
    assert_code(cu.cuMemcpyDtoHAsync_v2(&host, 0, sizeof host, gpu.stream), MST_CU_INVALID_VALUE);
    assert_code(cu.cuMemsetD8Async(0, 0, 4, gpu.stream), MST_CU_INVALID_VALUE);
    assert_done(cu.cuMemFree_v2(address));
}

static void copies_cross_devices(void **state) {
    (void)state;
    int count = 0;
    mst_cu_context other = NULL;
    mst_cu_address here, there;
    unsigned char in[256], out[256];
    assert_done(cu.cuDeviceGetCount(&count));
    mst_cu_device second = count > 1 ? 1 : 0; /* with one device a copy within it */
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, second));
    assert_done(cu.cuMemAlloc_v2(&here, sizeof in));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    assert_done(cu.cuMemAlloc_v2(&there, sizeof in));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    for (int i = 0; i < 256; i++) in[i] = (unsigned char)(255 - i);
    assert_done(cu.cuMemcpyHtoDAsync_v2(here, in, sizeof in, gpu.stream));
    assert_done(cu.cuMemcpyPeerAsync(there, other, here, gpu.context, sizeof in, gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, there, sizeof in, gpu.stream));
    assert_memory_equal(in, out, sizeof in);
    assert_done(cu.cuMemFree_v2(here));
    assert_done(cu.cuMemFree_v2(there));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(second));
}

static void peers_are_enabled_once(void **state) {
    (void)state;
    int count = 0, can = -1;
    mst_cu_context other = NULL;
    const mst_cu_result itself = cu.cuDeviceCanAccessPeer(&can, 0, 0);
    printf("found: cuDeviceCanAccessPeer of a device and itself: %u, %d\n", itself, can); /* Muster never asks that */
    assert_code(cu.cuCtxEnablePeerAccess(gpu.context, 0), MST_CU_INVALID_CONTEXT);
    assert_done(cu.cuDeviceGetCount(&count));
    if (count > 1) assert_done(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    if (count < 2 || !can) return;
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxEnablePeerAccess(other, 0));
    assert_code(cu.cuCtxEnablePeerAccess(other, 0), MST_CU_PEER_ACCESS_ALREADY_ENABLED);
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* ---- streams and events ---- */
static void streams_belong_to_their_context(void **state) {
    (void)state;
    mst_cu_stream stream = NULL;
    mst_cu_context context = NULL;
    assert_code(cu.cuStreamCreate(&stream, 1000), MST_CU_INVALID_VALUE);
    assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuStreamGetCtx(stream, &context));
    assert_ptr_equal(context, gpu.context);
    assert_done(cu.cuStreamQuery(stream)); /* nothing was issued */
    assert_done(cu.cuStreamSynchronize(stream));
    assert_done(cu.cuStreamDestroy_v2(stream));
}

static void events_tell_whether_their_record_has_happened(void **state) {
    (void)state;
    mst_cu_event event;
    mst_cu_address address;
    assert_done(cu.cuMemAlloc_v2(&address, 1 << 20));
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventQuery(event)); /* never recorded */
    assert_done(cu.cuMemsetD8Async(address, 1, 1 << 20, gpu.stream));
    assert_done(cu.cuEventRecord(event, gpu.stream));
    mst_cu_result result;
    while ((result = cu.cuEventQuery(event)) == MST_CU_NOT_READY) usleep(10);
    assert_done(result);
    /* that the record too is done, the event does not say */
    while ((result = cu.cuStreamQuery(gpu.stream)) == MST_CU_NOT_READY) usleep(10);
    assert_done(result);
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuMemFree_v2(address));
}

static void streams_wait_for_events(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, ROUNDS = 20 };
    mst_cu_stream second;
    mst_cu_event event, never;
    mst_cu_address address;
    unsigned char *out;
    assert_done(cu.cuMemAlloc_v2(&address, BYTES));
    assert_done(cu.cuMemHostAlloc((void **)&out, BYTES, 0));
    assert_done(cu.cuStreamCreate(&second, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventCreate(&never, MST_CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ROUNDS; i++) {
        assert_done(cu.cuMemsetD8Async(address, (unsigned char)i, BYTES, gpu.stream));
        assert_done(cu.cuEventRecord(event, gpu.stream));
        assert_done(cu.cuStreamWaitEvent(second, event, 0));
        assert_done(cu.cuStreamWaitEvent(second, never, 0)); /* waits for nothing */
        assert_done(cu.cuMemcpyDtoHAsync_v2(out, address, BYTES, second));
        assert_done(cu.cuEventRecord(event, second)); /* the wait above is for the record before */
        assert_done(cu.cuStreamSynchronize(second));
        for (int j = 0; j < BYTES; j += 4093) assert_int_equal(out[j], i);
    }
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuEventDestroy_v2(never));
    assert_done(cu.cuStreamDestroy_v2(second));
    assert_done(cu.cuMemFreeHost(out));
    assert_done(cu.cuMemFree_v2(address));
}

static void an_event_is_recorded_in_its_own_context(void **state) {
    (void)state;
    int count = 0;
    mst_cu_context other;
    mst_cu_event event;
    mst_cu_stream stream;
    assert_done(cu.cuDeviceGetCount(&count));
    if (count < 2) return;
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_code(cu.cuEventRecord(event, gpu.stream), MST_CU_INVALID_HANDLE);
    assert_done(cu.cuEventRecord(event, stream));            /* whatever is current */
    assert_done(cu.cuStreamWaitEvent(gpu.stream, event, 0)); /* across devices */
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuStreamDestroy_v2(stream));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* ---- default streams, and streams that are captured ---- */
static void default_streams_belong_to_the_current_context(void **state) {
    (void)state;
    const mst_cu_stream streams[] = {NULL, MST_CU_STREAM_LEGACY, MST_CU_STREAM_PER_THREAD};
    for (int i = 0; i < 3; i++) {
        mst_cu_context context = NULL;
        unsigned status = MST_CU_CAPTURE_ACTIVE;
        assert_done(cu.cuStreamGetCtx(streams[i], &context));
        assert_ptr_equal(context, gpu.context);
        assert_done(cu.cuStreamIsCapturing(streams[i], &status));
        assert_int_equal(status, MST_CU_CAPTURE_NONE);
    }
}

static program_calls program;

static unsigned status_of_capture(mst_cu_stream stream) {
    unsigned status = 99;
    assert_done(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

/* What cuda.h says of cuThreadExchangeStreamCaptureMode. */
static void a_capture_refuses_an_allocation_unless_the_thread_is_relaxed(void **state) {
    (void)state;
    mst_cu_address address;
    mst_cu_graph graph = NULL;
    unsigned mode = MST_CU_CAPTURE_RELAXED, wrong = 3;
    assert_true(program_calls_open(&program));
    assert_int_equal(status_of_capture(gpu.stream), MST_CU_CAPTURE_NONE);
    assert_done(program.cuStreamBeginCapture_v2(gpu.stream, MST_CU_CAPTURE_GLOBAL));
    assert_done(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, MST_CU_CAPTURE_GLOBAL); /* of a thread that has not chosen */
    assert_done(cu.cuMemAlloc_v2(&address, 256));
    assert_int_equal(status_of_capture(gpu.stream), MST_CU_CAPTURE_ACTIVE);
    assert_done(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, MST_CU_CAPTURE_RELAXED);
    assert_code(cu.cuThreadExchangeStreamCaptureMode(&wrong), MST_CU_INVALID_VALUE);
    assert_code(cu.cuMemAlloc_v2(&address, 256), MST_CU_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(status_of_capture(gpu.stream), MST_CU_CAPTURE_INVALIDATED);
    assert_true(program.cuStreamEndCapture(gpu.stream, &graph) != MST_CU_SUCCESS);
    assert_null(graph);
    assert_int_equal(status_of_capture(gpu.stream), MST_CU_CAPTURE_NONE);
    assert_done(cu.cuMemFree_v2(address));
}

static void a_captured_event_is_not_asked_and_a_blocking_capture_closes_the_default_stream(void **state) {
    (void)state;
    mst_cu_stream blocking;
    mst_cu_event event;
    mst_cu_graph graph = NULL;
    unsigned status;
    assert_true(program_calls_open(&program));
    assert_done(cu.cuStreamCreate(&blocking, 0));
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    assert_done(program.cuStreamBeginCapture_v2(blocking, MST_CU_CAPTURE_RELAXED));
    assert_code(cu.cuStreamIsCapturing(MST_CU_STREAM_LEGACY, &status), MST_CU_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(status_of_capture(blocking), MST_CU_CAPTURE_ACTIVE); /* asking alone spoils nothing */
    assert_done(cu.cuEventRecord(event, blocking));
    assert_done(program.cuStreamEndCapture(blocking, &graph));
    assert_non_null(graph);
    assert_done(program.cuGraphDestroy(graph));
    assert_done(program.cuStreamBeginCapture_v2(blocking, MST_CU_CAPTURE_RELAXED));
    assert_done(cu.cuEventRecord(event, blocking));
    assert_code(cu.cuEventQuery(event), MST_CU_CAPTURED_EVENT);
    (void)program.cuStreamEndCapture(blocking, &graph);
    assert_done(cu.cuStreamIsCapturing(MST_CU_STREAM_LEGACY, &status));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuStreamDestroy_v2(blocking));
}

/* ---- kernels ---- */
static mst_cu_module module;

static mst_cu_module load_module(void) {
    int major = 0, minor = 0;
    char option[64];
    mst_cu_module loaded = NULL;
    assert_done(cu.cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device));
    assert_done(cu.cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device));
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d%d", major, minor);
    char *cubin = contract_compile(option);
    assert_done(cu.cuModuleLoadData(&loaded, cubin));
    free(cubin);
    return loaded;
}

static mst_cu_function find_function(const char *name) {
    mst_cu_function function = NULL;
    if (!module) module = load_module();
    assert_done(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

static void functions_are_found_by_name(void **state) {
    (void)state;
    int value = 0;
    mst_cu_function function = find_function("contract_scale");
    assert_done(cu.cuFuncGetAttribute(&value, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, function));
    assert_true(value >= 256);
    assert_done(cu.cuFuncGetAttribute(&value, MST_CU_FUNCTION_BINARY_VERSION, function));
    assert_true(value >= 70);
    assert_code(cu.cuModuleGetFunction(&function, module, "no_such_kernel"), MST_CU_NOT_FOUND);
    mst_cu_module none;
    assert_true(cu.cuModuleLoadData(&none, "this is no device code") != 0);
}

static void functions_tell_their_parameters_and_are_loaded_on_demand(void **state) {
    (void)state;
    unsigned int mode = 0, loaded = 2;
    int value = -1;
    size_t offset = 1, bytes = 0, stack = 0;
    mst_cu_module own = load_module();
    mst_cu_function function = NULL;
    assert_done(cu.cuModuleGetFunction(&function, own, "contract_scale"));
    assert_done(cu.cuModuleGetLoadingMode(&mode));
    assert_true(mode == MST_CU_MODULE_EAGER_LOADING || mode == MST_CU_MODULE_LAZY_LOADING);
    assert_done(cu.cuCtxGetLimit(&stack, MST_CU_LIMIT_STACK_BYTES));
    assert_done(cu.cuFuncGetAttribute(&value, MST_CU_FUNCTION_LOCAL_BYTES, function));
    assert_true(value >= 0 && stack > 0);
    if (cu.cuFuncLoad) assert_done(cu.cuFuncLoad(function));
    if (cu.cuFuncIsLoaded) assert_done(cu.cuFuncIsLoaded(&loaded, function));
    assert_true(!cu.cuFuncIsLoaded || loaded == 1);
    if (cu.cuFuncGetParamInfo) {
        assert_done(cu.cuFuncGetParamInfo(function, 0, &offset, &bytes));
        assert_true(offset == 0 && bytes == sizeof(contract_parameters));
        assert_code(cu.cuFuncGetParamInfo(function, 1, &offset, &bytes), MST_CU_INVALID_VALUE);
    }
    assert_done(cu.cuModuleUnload(own));
}

/* cuFuncGetAttribute loads a function for drivers that have no cuFuncLoad. */
static void an_attribute_loads_its_function(void **state) {
    (void)state;
    unsigned int loaded = 2;
    int value = 0;
    mst_cu_module own = load_module();
    mst_cu_function function = NULL;
    assert_done(cu.cuModuleGetFunction(&function, own, "contract_scale"));
    assert_done(cu.cuFuncGetAttribute(&value, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, function));
    if (cu.cuFuncIsLoaded) assert_done(cu.cuFuncIsLoaded(&loaded, function));
    assert_true(!cu.cuFuncIsLoaded || loaded == 1);
    assert_done(cu.cuModuleUnload(own));
}

static void a_function_may_ask_for_more_shared_memory(void **state) {
    (void)state;
    int usual = 0, most = 0, own = -1, value = -1;
    contract_parameters p = {0};
    void *parameters[] = {&p};
    mst_cu_function function = find_function("contract_scale");
    assert_done(cu.cuDeviceGetAttribute(&usual, MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK, gpu.device));
    assert_done(cu.cuDeviceGetAttribute(&most, MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK_OPT_IN, gpu.device));
    assert_done(cu.cuFuncGetAttribute(&own, MST_CU_FUNCTION_SHARED_BYTES, function));
    assert_done(cu.cuFuncGetAttribute(&value, MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, function));
    assert_true(usual == 49152 && most > usual && value == usual - own);
    assert_code(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, (unsigned)value + 1, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_code(cu.cuFuncSetAttribute(function, MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, most - own + 1), MST_CU_INVALID_VALUE);
    assert_done(cu.cuFuncSetAttribute(function, MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, most - own));
    assert_done(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, (unsigned)(most - own), gpu.stream, parameters, NULL)); /* over nothing */
    assert_code(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, (unsigned)(most - own) + 1, gpu.stream, parameters, NULL),
                MST_CU_INVALID_VALUE);
    assert_done(cu.cuStreamSynchronize(gpu.stream));
}

static void a_launch_takes_a_copy_of_its_parameters(void **state) {
    (void)state;
    enum { N = 100000 };
    mst_cu_address from, to;
    float *values = malloc(N * sizeof *values);
    mst_cu_function function = find_function("contract_scale");
    assert_done(cu.cuMemAlloc_v2(&from, N * sizeof(float)));
    assert_done(cu.cuMemAlloc_v2(&to, N * sizeof(float)));
    for (int i = 0; i < N; i++) values[i] = (float)i;
    assert_done(cu.cuMemcpyHtoDAsync_v2(from, values, N * sizeof(float), gpu.stream));
    contract_parameters p = {.count = N, .from = (void *)(uintptr_t)from, .to = (void *)(uintptr_t)to, .factor = 3};
    assert_done(cu.cuLaunchKernel(function, 16, 1, 1, 256, 1, 1, 0, gpu.stream, (void *[]){&p}, NULL));
    p = (contract_parameters){0};
    assert_done(cu.cuMemcpyDtoHAsync_v2(values, to, N * sizeof(float), gpu.stream));
    for (int i = 0; i < N; i++) assert_true(values[i] == 3 * (float)i);
    p = (contract_parameters){.count = N, .from = (void *)(uintptr_t)from, .to = (void *)(uintptr_t)to, .factor = 0.5f};
    size_t bytes = sizeof p;
    void *extra[] = {(void *)1, &p, (void *)2, &bytes, NULL};
    assert_done(cu.cuLaunchKernel(function, 3, 1, 1, 256, 1, 1, 0, gpu.stream, NULL, extra));
    assert_done(cu.cuMemcpyDtoHAsync_v2(values, to, N * sizeof(float), gpu.stream));
    for (int i = 0; i < N; i++) assert_true(values[i] == 0.5f * (float)i);
    assert_done(cu.cuMemFree_v2(from));
    assert_done(cu.cuMemFree_v2(to));
    free(values);
}

static void blocks_reduce_in_one_order(void **state) {
    (void)state;
    enum { ROWS = 50, N = ROWS * 1000 };
    mst_cu_address from, to;
    float *values = malloc(N * sizeof *values), sums[2][ROWS];
    mst_cu_function function = find_function("contract_row_sums");
    assert_done(cu.cuMemAlloc_v2(&from, N * sizeof(float)));
    assert_done(cu.cuMemAlloc_v2(&to, ROWS * sizeof(float)));
    for (int i = 0; i < N; i++) values[i] = (float)(i % 1000) + (float)(i / 1000);
    assert_done(cu.cuMemcpyHtoDAsync_v2(from, values, N * sizeof(float), gpu.stream));
    contract_parameters p = {.count = ROWS, .from = (void *)(uintptr_t)from, .to = (void *)(uintptr_t)to, .factor = 1};
    for (int i = 0; i < 2; i++) {
        assert_done(cu.cuLaunchKernel(function, i ? 7 : ROWS, 1, 1, 256, 1, 1, 0, gpu.stream, (void *[]){&p}, NULL));
        assert_done(cu.cuMemcpyDtoHAsync_v2(sums[i], to, sizeof sums[i], gpu.stream));
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    for (int i = 0; i < ROWS; i++) assert_true(sums[0][i] == (float)(499500 + 1000 * i));
    assert_done(cu.cuMemFree_v2(from));
    assert_done(cu.cuMemFree_v2(to));
    free(values);
}

static void grids_have_limits(void **state) {
    (void)state;
    mst_cu_function function = find_function("contract_scale");
    contract_parameters p = {0};
    void *parameters[] = {&p};
    assert_code(cu.cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_code(cu.cuLaunchKernel(function, 1, 1, 1, 0, 1, 1, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_code(cu.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_code(cu.cuLaunchKernel(function, 1, 65536, 1, 256, 1, 1, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_done(cu.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, gpu.stream, parameters, NULL)); /* over nothing */
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuModuleUnload(module));
    module = NULL;
}

/* ---- in a process of its own, before any other test: it spoils the context ---- */
static void an_illegal_access_spoils_the_context(void **state) {
    (void)state;
    mst_cu_address address;
    contract_parameters p = {.count = 4, .from = (void *)16, .to = (void *)16, .factor = 1};
    mst_cu_function function = find_function("contract_scale");
    assert_done(cu.cuMemAlloc_v2(&address, 256));
    assert_done(cu.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, gpu.stream, (void *[]){&p}, NULL));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuMemAlloc_v2(&address, 256), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuMemsetD8Async(address, 0, 256, gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuMemFree_v2(address), MST_CU_ILLEGAL_ADDRESS);
}

static int run_spoiling(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_illegal_access_spoils_the_context)};
    return cmocka_run_group_tests_name("spoiling", tests, contract_setup, NULL);
}

static int run_before_init(void) {
    int count = 0;
    return cu.cuDeviceGetCount(&count) == MST_CU_NOT_INITIALIZED ? 0 : 1;
}

/* The result of the tests in a child process; the driver has not been started in this one. */
static int in_child(int (*run)(void)) {
    pid_t child = fork();
    if (child == 0) exit(contract_open_cuda() && contract_open_nvrtc() ? run() : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int spoiled, early;
static void what_ran_in_children(void **state) {
    (void)state;
    assert_int_equal(early, 0); /* a call before cuInit says NOT_INITIALIZED */
    assert_int_equal(spoiled, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_in_children),
        cmocka_unit_test(versions_and_errors_are_named),
        cmocka_unit_test(devices_have_ordinals_names_and_sizes),
        cmocka_unit_test(devices_are_found_by_pci_id_and_told_apart_by_uuid),
        cmocka_unit_test(attributes_are_those_of_a_gpu),
        cmocka_unit_test(the_primary_context_is_one_and_counted),
        cmocka_unit_test(contexts_are_a_stack),
        cmocka_unit_test(a_thread_begins_without_a_context),
        cmocka_unit_test(allocations_are_aligned_and_refused_by_size),
        cmocka_unit_test(an_address_tells_what_it_is),
        cmocka_unit_test(managed_memory_says_so),
        cmocka_unit_test(host_memory_is_registered_once),
        cmocka_unit_test(host_memory_is_registered_by_the_range_or_by_the_page),
        cmocka_unit_test(copies_go_through_the_device),
        cmocka_unit_test(pageable_memory_is_free_when_the_call_returns),
        cmocka_unit_test(a_copy_to_no_device_memory_is_refused),
        cmocka_unit_test(copies_cross_devices),
        cmocka_unit_test(peers_are_enabled_once),
        cmocka_unit_test(streams_belong_to_their_context),
        cmocka_unit_test(events_tell_whether_their_record_has_happened),
        cmocka_unit_test(streams_wait_for_events),
        cmocka_unit_test(an_event_is_recorded_in_its_own_context),
        cmocka_unit_test(default_streams_belong_to_the_current_context),
        cmocka_unit_test(a_capture_refuses_an_allocation_unless_the_thread_is_relaxed),
        cmocka_unit_test(a_captured_event_is_not_asked_and_a_blocking_capture_closes_the_default_stream),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(functions_tell_their_parameters_and_are_loaded_on_demand),
        cmocka_unit_test(an_attribute_loads_its_function),
        cmocka_unit_test(a_function_may_ask_for_more_shared_memory),
        cmocka_unit_test(a_launch_takes_a_copy_of_its_parameters),
        cmocka_unit_test(blocks_reduce_in_one_order),
        cmocka_unit_test(grids_have_limits),
    };
    early = in_child(run_before_init);
    spoiled = in_child(run_spoiling);
    if (!contract_open_cuda() || !contract_open_nvrtc()) return SKIP_SUITE("the CUDA driver or NVRTC could not be opened");
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
