/* Each rule of the checker, broken on purpose, is reported. */
#include "base_pace.h"
#include "machine_support.h"

#include <pthread.h>
#include <unistd.h>

static void assert_reported(const char *text) {
    if (!strstr(muster_sim_hazards(), text)) fail_msg("\"%s\" was not reported, but:\n%s", text, muster_sim_hazards());
    muster_sim_hazards_clear();
}

static void assert_nothing_reported(void) {
    if (muster_sim_hazard_count()) fail_msg("reported:\n%s", muster_sim_hazards());
}

/* All queues of device 0 stand still until the rule that the test breaks next has been reported:
 * the call that breaks it may wait for them. */
static pthread_t releaser;
static void *release_when_reported(void *unused) {
    const int patience = (int)(10000 * test_pace());
    for (int i = 0; i < patience && !muster_sim_hazard_count(); i++) usleep(1000);
    muster_sim_release();
    return unused;
}

static void hold_queues(void) {
    muster_sim_inject_queue_stall("cuStreamQuery", 1, 0);
    cu.cuStreamQuery(gpu.stream);
    assert_int_equal(pthread_create(&releaser, NULL, release_when_reported, NULL), 0);
}

static void assert_reported_of_held(const char *text) {
    pthread_join(releaser, NULL);
    assert_reported(text);
}

/* ---- a program that breaks no rule ---- */
static void a_program_that_breaks_no_rule_is_not_reported(void **state) {
    mst_cu_module module;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address address = allocate(4096);
    mst_cu_event event;
    float *host;
    mst_cublas_handle handle;
    assert_done(cu.cuMemHostAlloc((void **)&host, 4096, 0));
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    assert_done(blas.cublasCreate_v2(&handle));
    for (int i = 0; i < 1024; i++) host[i] = (float)i;
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, host, 4096, gpu.stream));
    assert_done(launch_scale(scale, gpu.stream, address, address, 1024, 2));
    assert_done(cu.cuMemcpyDtoHAsync_v2(host, address, 4096, gpu.stream));
    assert_done(cu.cuEventRecord(event, gpu.stream));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_true(host[1023] == 2046);
    assert_done(blas.cublasDestroy_v2(handle));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuMemFreeHost(host));
    assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuModuleUnload(module));
    assert_int_equal(contract_teardown(state), 0);
    assert_int_equal(muster_sim_check_leaks(), 0);
    assert_nothing_reported();
}

/* ---- what is made or freed while a collective is in flight ---- */
typedef struct things { /* made before the collective, for the destroying calls */
    mst_cu_address address;
    void *host, *registered;
    mst_cu_stream stream;
    mst_cu_event event;
    mst_cu_module module;
    mst_cublas_handle handle;
    char *cubin;
} things;

static void make_things(things *t) {
    t->address = allocate(256);
    assert_done(cu.cuMemHostAlloc(&t->host, 4096, 0));
    assert_int_equal(posix_memalign(&t->registered, 4096, 8192), 0);
    assert_done(cu.cuMemHostRegister_v2(t->registered, 4096, 0));
    assert_done(cu.cuStreamCreate(&t->stream, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&t->event, MST_CU_EVENT_DISABLE_TIMING));
    t->cubin = contract_compile("--gpu-architecture=sm_90");
    assert_done(cu.cuModuleLoadData(&t->module, t->cubin));
    assert_done(blas.cublasCreate_v2(&t->handle));
}

typedef struct creation {
    const char *symbol;
    mst_cu_result (*call)(things *t);
} creation;

static mst_cu_result do_alloc(things *t) { return cu.cuMemAlloc_v2(&t->address, 256); }
static mst_cu_result do_free(things *t) { return cu.cuMemFree_v2(t->address); }
static mst_cu_result do_host_alloc(things *t) { return cu.cuMemHostAlloc(&t->host, 4096, 0); }
static mst_cu_result do_host_free(things *t) { return cu.cuMemFreeHost(t->host); }
static mst_cu_result do_register(things *t) { return cu.cuMemHostRegister_v2((char *)t->registered + 4096, 4096, 0); }
static mst_cu_result do_unregister(things *t) { return cu.cuMemHostUnregister(t->registered); }
static mst_cu_result do_retain(things *t) {
    mst_cu_context context;
    (void)t;
    return cu.cuDevicePrimaryCtxRetain(&context, 3);
}
static mst_cu_result do_release(things *t) {
    (void)t;
    return cu.cuDevicePrimaryCtxRelease_v2(3);
}
static mst_cu_result do_stream(things *t) { return cu.cuStreamCreate(&t->stream, 0); }
static mst_cu_result do_stream_destroy(things *t) { return cu.cuStreamDestroy_v2(t->stream); }
static mst_cu_result do_event(things *t) { return cu.cuEventCreate(&t->event, 0); }
static mst_cu_result do_event_destroy(things *t) { return cu.cuEventDestroy_v2(t->event); }
static mst_cu_result do_unload(things *t) { return cu.cuModuleUnload(t->module); }
static mst_cu_result do_peer(things *t) {
    mst_cu_context other;
    (void)t;
    muster_sim_hazards_clear();
    sim_collective_end(1);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 2));
    sim_collective_begin(1, "test");
    return cu.cuCtxEnablePeerAccess(other, 0);
}
static mst_cu_result do_blas(things *t) { return blas.cublasCreate_v2(&t->handle); }
static mst_cu_result do_blas_destroy(things *t) { return blas.cublasDestroy_v2(t->handle); }

static void nothing_is_made_or_freed_while_a_collective_is_in_flight(void **state) {
    static const creation creations[] = {{"cuMemFree", do_free},
                                         {"cuMemAlloc", do_alloc},
                                         {"cuMemFreeHost", do_host_free},
                                         {"cuMemHostAlloc", do_host_alloc},
                                         {"cuMemHostUnregister", do_unregister},
                                         {"cuMemHostRegister", do_register},
                                         {"cuDevicePrimaryCtxRetain", do_retain},
                                         {"cuDevicePrimaryCtxRelease", do_release},
                                         {"cuStreamDestroy", do_stream_destroy},
                                         {"cuStreamCreate", do_stream},
                                         {"cuEventDestroy", do_event_destroy},
                                         {"cuEventCreate", do_event},
                                         {"cuModuleUnload", do_unload},
                                         {"cuCtxEnablePeerAccess", do_peer},
                                         {"cublasDestroy", do_blas_destroy},
                                         {"cublasCreate", do_blas}};
    things t;
    (void)state;
    make_things(&t);
    assert_nothing_reported();
    sim_collective_begin(1, "test");
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        char expected[100];
        assert_done(creations[i].call(&t));
        snprintf(expected, sizeof expected, "%s while a collective is in flight", creations[i].symbol);
        assert_reported(expected);
    }
    sim_collective_end(1);
    assert_done(do_alloc(&t));
    assert_nothing_reported();
    free(t.cubin);
    muster_sim_reset(NULL);
    free(t.registered);
}

/* Loading waits for the queues of the device, while it holds a lock of its context. */
static void nothing_is_loaded_while_a_collective_is_in_flight_on_the_device(void **state) {
    mst_cu_module module;
    char *cubin = contract_compile("--gpu-architecture=sm_90");
    (void)state;
    sim_collective_begin(1, "test");
    assert_done(cu.cuModuleLoadData(&module, cubin)); /* on device 0 */
    assert_nothing_reported();
    sim_collective_begin(0, "test");
    assert_done(cu.cuModuleLoadData(&module, cubin));
    assert_reported("cuModuleLoadData while a collective is in flight on its device");
    sim_collective_end(0);
    assert_done(cu.cuModuleLoadData(&module, cubin));
    assert_nothing_reported();
    sim_collective_end(1);
    free(cubin);
    muster_sim_reset(NULL);
}

static void nothing_waits_in_the_host_while_a_collective_is_in_flight(void **state) {
    mst_cu_address address = allocate(256);
    char pageable[256];
    (void)state;
    assert_done(cu.cuMemcpyDtoHAsync_v2(pageable, address, sizeof pageable, gpu.stream));
    assert_nothing_reported();
    sim_collective_begin(0, "test");
    assert_done(cu.cuMemcpyDtoHAsync_v2(pageable, address, sizeof pageable, gpu.stream));
    sim_collective_end(0);
    assert_reported("to pageable memory waits in the host while a collective is in flight");
}

/* Device 1 can read what device 0 frees: the call waits for both. */
static void what_frees_waits_for_the_devices_with_access(void **state) {
    mst_cu_context other;
    mst_cu_stream stream;
    (void)state;
    for (int peers = 0; peers < 2; peers++) {
        mst_cu_address address = allocate(256), there;
        assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
        assert_done(cu.cuCtxPushCurrent_v2(other));
        if (peers) assert_done(cu.cuCtxEnablePeerAccess(gpu.context, 0));
        assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
        assert_done(cu.cuMemAlloc_v2(&there, 256));
        muster_sim_inject_queue_stall("cuMemsetD8Async", 1, peers ? 50 : 0); /* 0: until the release */
        assert_done(cu.cuMemsetD8Async(there, 0, 256, stream));
        assert_done(cu.cuCtxPopCurrent_v2(NULL));
        assert_done(cu.cuMemFree_v2(address));
        mst_cu_result result = cu.cuStreamQuery(stream);
        if (peers) assert_done(result);
        if (!peers) assert_code(result, MST_CU_NOT_READY);
        muster_sim_release();
    }
}

static void what_a_lost_device_had_queued_is_not_in_flight(void **state) {
    (void)state;
    sim_collective_begin(1, "test");
    assert_done(cu.cuMemFree_v2(allocate(256)));
    assert_reported("cuMemAlloc while a collective is in flight");
    muster_sim_lose_device(1);
    assert_done(cu.cuMemFree_v2(allocate(256)));
    assert_nothing_reported();
    sim_collective_begin(0, "test");
    assert_done(cu.cuMemFree_v2(allocate(256)));
    assert_reported("cuMemAlloc while a collective is in flight");
    sim_collective_end(0);
}

/* ---- loading ---- */
static mst_cublas_status multiply(mst_cublas_handle handle, mst_cu_address a, int m) {
    const float one = 1;
    void *at = pointer_to(a);
    return blas.cublasGemmEx(handle, 0, 0, m, 1, 1, &one, at, 0, m, at, 0, 1, &one, at, 0, m, MST_CUBLAS_COMPUTE_32F, -1);
}

static void no_product_is_new_while_a_collective_is_in_flight_on_its_device(void **state) {
    mst_cublas_handle handle;
    mst_cu_address address = allocate(256);
    (void)state;
    assert_done(blas.cublasCreate_v2(&handle));
    assert_done(blas.cublasSetStream_v2(handle, gpu.stream));
    assert_done(multiply(handle, address, 1));
    sim_collective_begin(1, "test"); /* of another device, which this one does not wait for */
    assert_done(multiply(handle, address, 2));
    assert_nothing_reported();
    sim_collective_begin(0, "test");
    assert_done(multiply(handle, address, 2));
    assert_nothing_reported();
    assert_done(multiply(handle, address, 3));
    assert_reported("cublasGemmEx loads the kernel of a new product while a collective is in flight on device 0");
    assert_done(multiply(handle, address, 3));
    assert_nothing_reported();
    sim_collective_end(0);
    sim_collective_end(1);
}

static void no_function_is_loaded_while_a_collective_is_in_flight_on_its_device(void **state) {
    mst_cu_module module;
    mst_cu_function loaded = load_kernel("contract_scale", &module), lazy = NULL;
    mst_cu_address address = allocate(256);
    int threads;
    (void)state;
    assert_done(cu.cuModuleGetFunction(&lazy, module, "contract_scale"));
    sim_collective_begin(0, "test");
    assert_done(launch_scale(loaded, gpu.stream, address, address, 1, 1));
    assert_done(cu.cuFuncGetAttribute(&threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, loaded));
    assert_nothing_reported();
    assert_done(launch_scale(lazy, gpu.stream, address, address, 1, 1));
    assert_reported("cuLaunchKernel loads a kernel while a collective is in flight on device 0");
    sim_collective_end(0);
    assert_done(cu.cuStreamSynchronize(gpu.stream));
}

typedef struct waiter {
    pthread_t thread;
    mst_cublas_handle handle; /* NULL: it allocates */
    mst_cu_address address;
    atomic_bool done;
} waiter;

static void *load_or_allocate(void *argument) {
    waiter *w = argument;
    assert_done(cu.cuCtxPushCurrent_v2(gpu.context));
    if (w->handle)
        assert_done(multiply(w->handle, w->address, 5));
    else
        w->address = allocate(256);
    atomic_store(&w->done, true);
    return NULL;
}

static atomic_bool work_may_end;
static sim_result work_for_long(void *unused, sim_stream *stream) {
    (void)unused;
    while (!atomic_load(&work_may_end) && !sim_stream_ended(stream)) usleep(1000);
    return SIM_OK;
}

/* The queue works for long; a product that is new waits for it, and another thread's allocation for
 * the product. */
static void who_loads_waits_for_the_device_and_keeps_others_out_of_its_context(void **state) {
    waiter loads = {.address = allocate(256)}, allocates = {0};
    (void)state;
    assert_done(blas.cublasCreate_v2(&loads.handle));
    assert_done(blas.cublasSetStream_v2(loads.handle, gpu.stream));
    atomic_store(&work_may_end, false);
    assert_done(sim_stream_push(sim_stream_of(gpu.stream), &(sim_entry){.what = "test", .run = work_for_long}));
    const uint64_t products = muster_sim_calls("cublasGemmEx"), allocations = muster_sim_calls("cuMemAlloc_v2");
    assert_int_equal(pthread_create(&loads.thread, NULL, load_or_allocate, &loads), 0);
    while (muster_sim_calls("cublasGemmEx") == products) sched_yield();
    while (!sim_context_loads(0)) sched_yield();
    assert_int_equal(pthread_create(&allocates.thread, NULL, load_or_allocate, &allocates), 0);
    while (muster_sim_calls("cuMemAlloc_v2") == allocations) sched_yield();
    usleep(20000);
    assert_false(atomic_load(&loads.done));
    assert_false(atomic_load(&allocates.done));
    atomic_store(&work_may_end, true);
    pthread_join(loads.thread, NULL);
    pthread_join(allocates.thread, NULL);
    assert_nothing_reported();
}

/* ---- threads ---- */
static void *issue_and_stand_still(void *address) {
    cu.cuMemsetD8Async(*(mst_cu_address *)address, 0, 256, gpu.stream);
    return NULL;
}

static void two_threads_do_not_issue_in_one_stream(void **state) {
    pthread_t thread;
    mst_cu_address address = allocate(768);
    (void)state;
    uint64_t before = muster_sim_injected();
    muster_sim_inject_stall("cuMemsetD8Async", 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, issue_and_stand_still, &address), 0);
    while (muster_sim_injected() == before) sched_yield(); /* the thread is in the call */
    mst_cu_stream other;
    assert_done(cu.cuStreamCreate(&other, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuMemsetD8Async(address + 256, 0, 256, other)); /* as a virtual device of the same GPU may */
    assert_nothing_reported();
    assert_done(cu.cuMemsetD8Async(address + 512, 0, 256, gpu.stream));
    muster_sim_release();
    pthread_join(thread, NULL);
    assert_reported("two threads issue in one stream at the same time");
    assert_done(cu.cuStreamSynchronize(other));
    assert_done(cu.cuStreamDestroy_v2(other));
}

static void *begin_nccl(void *unused) {
    sim_nccl_begin(0, "ncclAllReduce");
    return unused;
}

static void two_threads_do_not_issue_nccl_on_one_device(void **state) {
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, begin_nccl, NULL), 0);
    pthread_join(thread, NULL);
    assert_nothing_reported();
    sim_nccl_begin(0, "ncclAllReduce");
    assert_reported("two threads issue NCCL operations on the device");
}

static void communicators_are_used_in_one_order(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) { /* device 1 runs ahead, in the same order */
        sim_communicator_used(1, 1, 3);
        sim_communicator_used(2, 1, 3);
    }
    for (int i = 0; i < 3; i++) {
        sim_communicator_used(1, 0, 3);
        sim_communicator_used(3, 0, 5); /* which has no rank on device 1 */
        sim_communicator_used(2, 0, 3);
    }
    assert_nothing_reported();
    sim_communicator_used(1, 0, 3);
    sim_communicator_used(2, 0, 3);
    sim_communicator_used(2, 1, 3);
    assert_reported("communicators are used in another order");
}

/* ---- what queues still use ---- */
static void memory_in_use_is_not_freed(void **state) {
    mst_cu_address address = allocate(256);
    (void)state;
    hold_queues();
    assert_done(cu.cuMemsetD8Async(address, 0, 256, gpu.stream));
    assert_done(cu.cuMemFree_v2(address));
    assert_reported_of_held("a queue still uses the allocation of 256 bytes");
}

static void memory_of_a_queued_kernel_is_not_freed(void **state) {
    mst_cu_module module;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address from = allocate(512), to = allocate(256);
    (void)state;
    hold_queues();
    assert_done(launch_scale(scale, gpu.stream, from + 256, to, 64, 1));
    assert_done(cu.cuMemFree_v2(from));
    assert_reported_of_held("a queue still uses the allocation of 512 bytes");
}

static void page_locked_memory_of_a_queued_copy_is_not_freed(void **state) {
    mst_cu_address address = allocate(4096);
    void *host;
    (void)state;
    assert_done(cu.cuMemHostAlloc(&host, 4096, 0));
    memset(host, 0, 4096);
    hold_queues();
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, host, 4096, gpu.stream));
    assert_done(cu.cuMemFreeHost(host));
    assert_reported_of_held("cuMemFreeHost: a queued copy still uses the page-locked memory");
}

static void registered_memory_of_a_queued_copy_is_not_unregistered(void **state) {
    mst_cu_address address = allocate(4096);
    void *host = NULL;
    (void)state;
    assert_int_equal(posix_memalign(&host, 4096, 4096), 0);
    assert_done(cu.cuMemHostRegister_v2(host, 4096, 0));
    hold_queues();
    assert_done(cu.cuMemcpyDtoHAsync_v2(host, address, 4096, gpu.stream));
    assert_done(cu.cuMemHostUnregister(host));
    assert_reported_of_held("cuMemHostUnregister: a queued copy still uses the page-locked memory");
    free(host);
}

static void a_stream_with_work_is_not_destroyed(void **state) {
    mst_cu_stream stream;
    (void)state;
    assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
    hold_queues();
    assert_done(cu.cuStreamDestroy_v2(stream));
    assert_reported_of_held("the stream has work that is not done");
}

static void an_event_in_use_is_not_destroyed(void **state) {
    mst_cu_event event;
    (void)state;
    assert_done(cu.cuEventCreate(&event, 0));
    hold_queues();
    assert_done(cu.cuEventRecord(event, gpu.stream));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_reported_of_held("a queued record of the event");
}

static void a_module_in_use_is_not_unloaded(void **state) {
    mst_cu_module module;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address address = allocate(256);
    (void)state;
    hold_queues();
    assert_done(launch_scale(scale, gpu.stream, address, address, 64, 1));
    assert_done(cu.cuModuleUnload(module));
    assert_reported_of_held("a launch of a kernel of the module is not done");
}

/* ---- after the end ---- */
static void what_is_destroyed_is_not_used(void **state) {
    things t;
    mst_cu_function function;
    mst_cu_context context = NULL;
    (void)state;
    make_things(&t);
    free(t.cubin);
    assert_done(cu.cuStreamDestroy_v2(t.stream));
    assert_code(cu.cuStreamQuery(t.stream), MST_CU_INVALID_HANDLE);
    assert_reported("use of a destroyed stream");
    assert_done(cu.cuEventDestroy_v2(t.event));
    assert_code(cu.cuEventRecord(t.event, gpu.stream), MST_CU_INVALID_HANDLE);
    assert_reported("use of a destroyed event");
    assert_done(cu.cuModuleGetFunction(&function, t.module, "contract_scale"));
    assert_done(cu.cuModuleUnload(t.module));
    assert_code(launch_scale(function, gpu.stream, t.address, t.address, 1, 1), MST_CU_INVALID_HANDLE);
    assert_reported("use of a kernel of an unloaded module");
    assert_code(cu.cuModuleGetFunction(&function, t.module, "contract_scale"), MST_CU_INVALID_HANDLE);
    assert_reported("use of an unloaded module");
    assert_done(blas.cublasDestroy_v2(t.handle));
    assert_code(blas.cublasSetStream_v2(t.handle, gpu.stream), MST_CUBLAS_NOT_INITIALIZED);
    assert_reported("use of a destroyed cuBLAS handle");
    assert_done(cu.cuMemFree_v2(t.address));
    assert_code(cu.cuMemFree_v2(t.address), MST_CU_INVALID_VALUE);
    assert_reported("is not the start of an allocation");
    assert_done(cu.cuMemHostUnregister(t.registered));
    assert_code(cu.cuMemHostUnregister(t.registered), MST_CU_HOST_MEMORY_NOT_REGISTERED);
    assert_reported("is not the start of page-locked memory");
    free(t.registered);
    assert_done(cu.cuDevicePrimaryCtxRetain(&context, 3));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(3));
    assert_code(cu.cuCtxPushCurrent_v2(context), MST_CU_INVALID_CONTEXT);
    assert_reported("use of the destroyed context of device 3");
}

static void what_is_left_is_a_leak(void **state) {
    static const char *const kinds[] = {
        "1 retained contexts", "1 device allocations", "1 page-locked allocations", "1 page-locked registrations", "2 streams", "1 events",
        "1 modules",           "1 cuBLAS handles",     "1 NVRTC programs",          "1 NCCL communicators"};
    things t;
    mst_nvrtc_program program;
    (void)state;
    make_things(&t);
    assert_done(nvrtc.nvrtcCreateProgram(&program, "", NULL, 0, NULL, NULL));
    sim_handle_made("NCCL communicators", 0);
    assert_int_equal(muster_sim_check_leaks(), 11);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strstr(muster_sim_hazards(), kinds[i])) fail_msg("\"%s\" was not reported, but:\n%s", kinds[i], muster_sim_hazards());
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    free(t.cubin);
    muster_sim_reset(NULL);
    free(t.registered);
}

static void what_is_left_in_a_context_is_a_leak(void **state) {
    (void)state;
    allocate(256);
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(gpu.device));
    assert_reported("leak: 1 device allocations of device 0 when its context was destroyed");
}

/* ---- bounds ---- */
#ifndef __SANITIZE_ADDRESS__ /* which ends the program at the write itself */
static void nothing_is_written_behind_an_allocation(void **state) {
    mst_cu_module module;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address from = allocate(4096), to = allocate(1000);
    (void)state;
    assert_done(launch_scale(scale, gpu.stream, from, to, 251, 1));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuMemFree_v2(to));
    assert_reported("bytes behind the end of an allocation of 1000 bytes something was written");
}
#endif

static void a_product_goes_to_the_device_of_its_handle(void **state) {
    mst_cublas_handle handle;
    mst_cu_context other;
    mst_cu_address address = allocate(256);
    float one = 1;
    (void)state;
    assert_done(blas.cublasCreate_v2(&handle));
    assert_done(blas.cublasSetStream_v2(handle, gpu.stream));
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxSetCurrent(other));
    void *a = pointer_to(address);
    assert_done(blas.cublasGemmEx(handle, 0, 0, 1, 1, 1, &one, a, 0, 1, a, 0, 1, &one, a, 0, 1, MST_CUBLAS_COMPUTE_32F, -1));
    assert_reported("the handle belongs to device 0, the current context to device 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        machine_test(a_program_that_breaks_no_rule_is_not_reported),
        machine_test(nothing_is_made_or_freed_while_a_collective_is_in_flight),
        machine_test(nothing_is_loaded_while_a_collective_is_in_flight_on_the_device),
        machine_test(nothing_waits_in_the_host_while_a_collective_is_in_flight),
        machine_test(what_frees_waits_for_the_devices_with_access),
        machine_test(what_a_lost_device_had_queued_is_not_in_flight),
        machine_test(no_product_is_new_while_a_collective_is_in_flight_on_its_device),
        machine_test(no_function_is_loaded_while_a_collective_is_in_flight_on_its_device),
        machine_test(who_loads_waits_for_the_device_and_keeps_others_out_of_its_context),
        machine_test(two_threads_do_not_issue_in_one_stream),
        machine_test(two_threads_do_not_issue_nccl_on_one_device),
        machine_test(communicators_are_used_in_one_order),
        machine_test(memory_in_use_is_not_freed),
        machine_test(memory_of_a_queued_kernel_is_not_freed),
        machine_test(page_locked_memory_of_a_queued_copy_is_not_freed),
        machine_test(registered_memory_of_a_queued_copy_is_not_unregistered),
        machine_test(a_stream_with_work_is_not_destroyed),
        machine_test(an_event_in_use_is_not_destroyed),
        machine_test(a_module_in_use_is_not_unloaded),
        machine_test(what_is_destroyed_is_not_used),
        machine_test(what_is_left_is_a_leak),
        machine_test(what_is_left_in_a_context_is_a_leak),
#ifndef __SANITIZE_ADDRESS__
        machine_test(nothing_is_written_behind_an_allocation),
#endif
        machine_test(a_product_goes_to_the_device_of_its_handle),
    };
    if (machine_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
