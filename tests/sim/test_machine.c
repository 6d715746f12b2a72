/* The machine itself: what it injects, counts and refuses, and that a missing synchronisation
 * shows. */
#include "machine_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_machine_is_as_wanted(void **state) {
    int count = 0, value = 0, can = 0;
    size_t bytes = 0;
    (void)state;
    assert_done(cu.cuDeviceGetCount(&count));
    assert_int_equal(count, 4);
    assert_done(cu.cuDeviceTotalMem_v2(&bytes, 3));
    assert_int_equal(bytes, 64 << 20);
    muster_sim_reset(&(muster_sim_options){.devices = 8, .multiprocessors = 132, .hidden_peers = {0, 1 << 3}});
    assert_code(cu.cuDeviceGetCount(&count), MST_CU_NOT_INITIALIZED);
    assert_done(cu.cuInit(0));
    assert_done(cu.cuDeviceGetCount(&count));
    assert_int_equal(count, 8);
    assert_done(cu.cuDeviceGetAttribute(&value, MST_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(value, 132);
    assert_done(cu.cuDeviceCanAccessPeer(&can, 1, 3));
    assert_int_equal(can, 0);
    assert_done(cu.cuDeviceCanAccessPeer(&can, 3, 1));
    assert_int_equal(can, 1);
}

static void memory_runs_out_exactly(void **state) {
    mst_cu_address last;
    (void)state;
    mst_cu_address half = allocate(32 << 20), rest = allocate((28 << 20) + 1); /* in units of 2 MiB */
    assert_int_equal(muster_sim_memory_used(0), 62 << 20);
    for (int i = 0; i < 3; i++) allocate(512 << 10); /* these share one */
    assert_int_equal(muster_sim_memory_used(0), 64 << 20);
    allocate((512 << 10) - 256);
    allocate(1);
    assert_code(cu.cuMemAlloc_v2(&last, 1), MST_CU_OUT_OF_MEMORY);
    assert_int_equal(muster_sim_memory_used(0), 64 << 20);
    assert_done(cu.cuMemFree_v2(half));
    assert_code(cu.cuMemAlloc_v2(&last, (32 << 20) + 1), MST_CU_OUT_OF_MEMORY);
    assert_done(cu.cuMemAlloc_v2(&last, 32 << 20));
    assert_done(cu.cuMemFree_v2(rest));
}

static void new_memory_holds_garbage(void **state) {
    float values[64];
    (void)state;
    mst_cu_address address = allocate(sizeof values);
    assert_done(cu.cuMemcpyDtoHAsync_v2(values, address, sizeof values, gpu.stream));
    for (int i = 0; i < 64; i++) assert_true(values[i] != values[i]);
}

/* ---- the host cannot touch device memory ---- */
static int signal_of(void (*touch)(mst_cu_address), mst_cu_address address) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        touch(address);
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_it(mst_cu_address address) {
    volatile char byte = *(volatile char *)pointer_to(address);
    (void)byte;
}
static void write_it(mst_cu_address address) { *(volatile char *)pointer_to(address) = 1; }

static void the_host_cannot_touch_device_memory(void **state) {
    (void)state;
    mst_cu_address address = allocate(256);
    assert_int_equal(signal_of(read_it, address), SIGSEGV);
    assert_int_equal(signal_of(write_it, address), SIGSEGV);
}

/* ---- injection ---- */
static void the_kth_call_fails_once(void **state) {
    mst_cu_address address;
    (void)state;
    uint64_t calls = muster_sim_calls("cuMemAlloc_v2");
    muster_sim_inject("cuMemAlloc_v2", 2, MST_CU_OUT_OF_MEMORY);
    assert_done(cu.cuMemAlloc_v2(&address, 256));
    assert_code(cu.cuMemAlloc_v2(&address, 256), MST_CU_OUT_OF_MEMORY);
    assert_done(cu.cuMemAlloc_v2(&address, 256));
    assert_int_equal(muster_sim_calls("cuMemAlloc_v2"), calls + 3);
    assert_int_equal(muster_sim_injected(), 1);
    assert_int_equal(muster_sim_memory_used(0), 2 << 20); /* both in one unit; the failed one took nothing */
}

static void a_call_can_fail_for_ever(void **state) {
    mst_cu_address address = allocate(256);
    int version;
    (void)state;
    muster_sim_inject_for_ever("cuMemsetD8Async", 2, MST_CU_UNKNOWN);
    assert_done(cu.cuMemsetD8Async(address, 1, 256, gpu.stream));
    for (int i = 0; i < 3; i++) {
        assert_code(cu.cuMemsetD8Async(address, 2, 256, gpu.stream), MST_CU_UNKNOWN);
        assert_done(cu.cuDriverGetVersion(&version));
    }
    assert_int_equal(muster_sim_injected(), 3);
    muster_sim_inject_for_ever(NULL, 1, MST_CU_UNKNOWN);
    assert_code(cu.cuDriverGetVersion(&version), MST_CU_UNKNOWN);
    assert_code(cu.cuMemsetD8Async(address, 2, 256, gpu.stream), MST_CU_UNKNOWN);
    assert_done(nvrtc.nvrtcVersion(&version, &version)); /* of another library */
    muster_sim_end_for_ever();
    assert_done(cu.cuMemsetD8Async(address, 2, 256, gpu.stream));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
}

static void what_frees_does_so_also_where_it_fails(void **state) {
    (void)state;
    mst_cu_address address = allocate(256);
    muster_sim_inject("cuMemFree_v2", 1, MST_CU_UNKNOWN);
    assert_code(cu.cuMemFree_v2(address), MST_CU_UNKNOWN);
    assert_int_equal(muster_sim_memory_used(0), 0);
}

static void any_symbol_can_be_meant(void **state) {
    int version;
    (void)state;
    muster_sim_inject(NULL, 1, MST_CU_UNKNOWN);
    assert_code(cu.cuDriverGetVersion(&version), MST_CU_UNKNOWN);
    assert_done(cu.cuDriverGetVersion(&version));
}

/* What fails where by chance is the same for the same seed, and is 1 in 4 as far as 400 calls can
 * tell. */
static void chance_is_seeded(void **state) {
    int version, failures[2] = {0};
    bool failed[400];
    (void)state;
    for (int round = 0; round < 2; round++) {
        muster_sim_inject_random(11, 0.25);
        for (int i = 0; i < 400; i++) {
            bool fails = cu.cuDriverGetVersion(&version) != 0;
            if (round) assert_int_equal(fails, failed[i]);
            failed[i] = fails;
            failures[round] += fails;
        }
        muster_sim_inject_clear();
    }
    assert_in_range(failures[0], 50, 150);
    assert_done(cu.cuDriverGetVersion(&version));
}

static void a_sticky_failure_stays(void **state) {
    mst_cu_address address;
    (void)state;
    muster_sim_inject("cuMemsetD8Async", 1, MST_CU_ILLEGAL_ADDRESS);
    address = allocate(256);
    assert_code(cu.cuMemsetD8Async(address, 0, 256, gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_code(cu.cuMemAlloc_v2(&address, 256), MST_CU_ILLEGAL_ADDRESS);
}

static void a_lost_device_is_lost_alone(void **state) {
    mst_cu_context other, lost;
    (void)state;
    mst_cu_address address = allocate(256);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    muster_sim_inject_lost("cuStreamQuery", 1);
    assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_LAUNCH_FAILED);
    assert_code(cu.cuMemsetD8Async(address, 0, 256, gpu.stream), MST_CU_LAUNCH_FAILED);
    assert_code(cu.cuDevicePrimaryCtxRetain(&lost, 0), MST_CU_LAUNCH_FAILED);
    assert_done(cu.cuCtxSetCurrent(other));
    allocate(256);
}

/* Whichever of the two has said that the work is done: the other says so too, and the event may
 * go. */
static void an_event_and_its_queue_agree(void **state) {
    mst_cu_event event;
    mst_cu_stream stream;
    mst_cu_result event_says, stream_says;
    (void)state;
    mst_cu_address address = allocate(256);
    for (int i = 0; i < 2000; i++) {
        assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
        assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
        assert_done(cu.cuMemsetD8Async(address, 1, 256, stream));
        assert_done(cu.cuEventRecord(event, stream));
        if (i % 2) {
            while ((event_says = cu.cuEventQuery(event)) == MST_CU_NOT_READY) continue;
            stream_says = cu.cuStreamQuery(stream);
        } else {
            while ((stream_says = cu.cuStreamQuery(stream)) == MST_CU_NOT_READY) continue;
            event_says = cu.cuEventQuery(event);
        }
        assert_done(cu.cuEventDestroy_v2(event));
        assert_done(event_says);
        assert_done(stream_says);
        assert_done(cu.cuStreamDestroy_v2(stream));
    }
}

static void a_stalled_queue_goes_on_when_released(void **state) {
    unsigned char value = 0;
    (void)state;
    mst_cu_address address = allocate(1);
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_done(cu.cuMemsetD8Async(address, 5, 1, gpu.stream));
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_NOT_READY);
    }
    muster_sim_release();
    assert_done(cu.cuMemcpyDtoHAsync_v2(&value, address, 1, gpu.stream));
    assert_int_equal(value, 5);
}

static void a_machine_ends_whatever_it_is_doing(void **state) {
    mst_cu_event event;
    mst_cu_stream second;
    (void)state;
    mst_cu_address address = allocate(256);
    assert_done(cu.cuEventCreate(&event, 0));
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_done(cu.cuMemsetD8Async(address, 5, 256, gpu.stream));
    assert_done(cu.cuEventRecord(event, gpu.stream));
    assert_done(cu.cuStreamCreate(&second, 0));
    assert_done(cu.cuStreamWaitEvent(second, event, 0));
    muster_sim_reset(NULL);
    assert_int_equal(muster_sim_check_leaks(), 0);
    assert_int_equal(muster_sim_calls(NULL), 0);
}

static void all_symbols_are_listed(void **state) {
    bool seen[3] = {false};
    const char *library, *name;
    (void)state;
    for (int i = 0; (name = muster_sim_symbol(i, &library)) != NULL; i++) {
        seen[0] |= strcmp(name, "cuLaunchKernel") == 0 && strcmp(library, "cuda") == 0;
        seen[1] |= strcmp(name, "cublasGemmEx_64") == 0 && strcmp(library, "cublas") == 0;
        seen[2] |= strcmp(name, "nvrtcGetCUBIN") == 0 && strcmp(library, "nvrtc") == 0;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
}

/* ---- device code ---- */
static void code_of_other_texts_is_refused(void **state) {
    mst_cu_module module;
    (void)state;
    char *text = contract_read("tests/sim/contract.cu");
    char *factor = strstr(text, "p.factor * from");
    assert_non_null(factor);
    factor[9] = '+';
    mst_nvrtc_program program = contract_program(text);
    size_t bytes;
    assert_done(nvrtc.nvrtcCompileProgram(program, 1, (const char *const[]){"--gpu-architecture=sm_90"}));
    assert_done(nvrtc.nvrtcGetCUBINSize(program, &bytes));
    char *cubin = calloc(1, bytes + 1);
    assert_done(nvrtc.nvrtcGetCUBIN(program, cubin));
    assert_code(cu.cuModuleLoadData(&module, cubin), MST_CU_NO_BINARY_FOR_GPU);
    cubin[bytes / 2] = 0;
    assert_code(cu.cuModuleLoadData(&module, cubin), MST_CU_INVALID_IMAGE);
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    free(cubin);
    free(text);
}

static void launches_are_counted(void **state) {
    mst_cu_module module;
    (void)state;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address address = allocate(256);
    for (int i = 0; i < 3; i++) assert_done(launch_scale(scale, gpu.stream, address, address, 64, 1));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_int_equal(muster_sim_launches("contract_scale"), 3);
    assert_int_equal(muster_sim_launches(NULL), 3);
}

/* A kernel on device 0 that reads memory of device 1. */
static mst_cu_result read_peer(bool enabled) {
    mst_cu_module module;
    mst_cu_context other;
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address here = allocate(256);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    if (enabled) assert_done(cu.cuCtxEnablePeerAccess(other, 0));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    mst_cu_address there = allocate(256);
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(launch_scale(scale, gpu.stream, there, here, 64, 1));
    return cu.cuStreamSynchronize(gpu.stream);
}

static void kernels_reach_enabled_peers(void **state) {
    (void)state;
    assert_done(read_peer(true));
}

static void kernels_do_not_reach_other_devices(void **state) {
    (void)state;
    assert_code(read_peer(false), MST_CU_ILLEGAL_ADDRESS);
}

/* ---- access to a peer that is broken ---- */

/* Device 0 loads from device 1 and stores there, by a kernel or by copies: how many of 64 floats
 * arrive here, and there. */
static void pass_to_peer(const muster_sim_options *options, bool copies, int *here_right, int *there_right) {
    mst_cu_module module;
    mst_cu_context other;
    float in[64], here_out[64], there_out[64];
    muster_sim_reset(options);
    assert_int_equal(contract_setup(NULL), 0);
    mst_cu_function scale = load_kernel("contract_scale", &module);
    mst_cu_address here = allocate(512);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxEnablePeerAccess(other, 0));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    mst_cu_address there = allocate(512);
    assert_done(cu.cuMemcpyHtoDAsync_v2(there, memset(in, 0, sizeof in), sizeof in, NULL));
    for (int i = 0; i < 64; i++) in[i] = (float)(i + 1);
    assert_done(cu.cuMemcpyHtoDAsync_v2(there, in, sizeof in, NULL));
    assert_done(cu.cuStreamSynchronize(NULL));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuMemcpyHtoDAsync_v2(here, in, sizeof in, gpu.stream));
    if (copies) {
        assert_done(cu.cuMemcpyDtoDAsync_v2(here + 256, there, 256, gpu.stream));
        assert_done(cu.cuMemcpyPeerAsync(there + 256, other, here, gpu.context, 256, gpu.stream));
    } else {
        assert_done(launch_scale(scale, gpu.stream, there, here + 256, 64, 1));
        assert_done(launch_scale(scale, gpu.stream, here, there + 256, 64, 1));
    }
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(here_out, here + 256, 256, gpu.stream));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    assert_done(cu.cuMemcpyDtoHAsync_v2(there_out, there + 256, 256, NULL));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    *here_right = *there_right = 0;
    for (int i = 0; i < 64; i++) *here_right += here_out[i] == in[i];
    for (int i = 0; i < 64; i++) *there_right += there_out[i] == in[i];
}

static void peers_lie_where_they_are_asked_to(void **state) {
    static const muster_sim_options honest = {.devices = 2}, kernels = {.devices = 2, .lying_kernels = {1 << 1}},
                                    copies = {.devices = 2, .lying_copies = {1 << 1}}, others = {.devices = 2, .lying_kernels = {0, 1}};
    static const struct {
        const muster_sim_options *options;
        bool copies;
        int right;
    } cases[] = {{&honest, false, 64}, {&honest, true, 64}, {&kernels, false, 0}, {&kernels, true, 64},
                 {&copies, false, 64}, {&copies, true, 0},  {&others, false, 64}, {&others, true, 64}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int here, there;
        pass_to_peer(cases[i].options, cases[i].copies, &here, &there);
        assert_int_equal(here, cases[i].right);
        assert_int_equal(there, cases[i].right);
    }
}

static void a_peer_that_is_stuck_never_answers(void **state) {
    mst_cu_module module;
    mst_cu_context other;
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        muster_sim_reset(&(muster_sim_options){.devices = 2, .stuck_peers = {1 << 1}});
        assert_int_equal(contract_setup(NULL), 0);
        mst_cu_function scale = load_kernel("contract_scale", &module);
        mst_cu_address here = allocate(256);
        assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
        assert_done(cu.cuCtxEnablePeerAccess(other, 0));
        assert_done(cu.cuCtxPushCurrent_v2(other));
        mst_cu_address there = allocate(256);
        assert_done(cu.cuCtxPopCurrent_v2(NULL));
        if (copies)
            assert_done(cu.cuMemcpyDtoDAsync_v2(here, there, 256, gpu.stream));
        else
            assert_done(launch_scale(scale, gpu.stream, there, here, 64, 1));
        for (int i = 0; i < 20; i++) {
            usleep(1000);
            assert_code(cu.cuStreamQuery(gpu.stream), MST_CU_NOT_READY);
        }
    }
}

/* ---- a missing synchronisation shows: under ThreadSanitizer by its report, which race.c is about
 * ---- */
#ifndef __SANITIZE_THREAD__
static void a_copy_to_page_locked_memory_is_done_later(void **state) {
    unsigned char *host;
    (void)state;
    mst_cu_address address = allocate(1);
    assert_done(cu.cuMemHostAlloc((void **)&host, 1, 0));
    *host = 1;
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_done(cu.cuMemsetD8Async(address, 5, 1, gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(host, address, 1, gpu.stream));
    assert_int_equal(*host, 1); /* the queue stands still */
    muster_sim_release();
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_int_equal(*host, 5);
}

static void a_copy_from_page_locked_memory_is_done_later(void **state) {
    unsigned char *host, value = 0;
    (void)state;
    mst_cu_address address = allocate(1);
    assert_done(cu.cuMemHostAlloc((void **)&host, 1, 0));
    *host = 1;
    muster_sim_inject_queue_stall("cuMemcpyHtoDAsync_v2", 1, 0);
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, host, 1, gpu.stream));
    *(volatile unsigned char *)host = 2; /* the mistake */
    muster_sim_release();
    assert_done(cu.cuMemcpyDtoHAsync_v2(&value, address, 1, gpu.stream));
    assert_int_equal(value, 2);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        machine_test(the_machine_is_as_wanted),
        machine_test(memory_runs_out_exactly),
        machine_test(new_memory_holds_garbage),
        machine_test(the_host_cannot_touch_device_memory),
        machine_test(the_kth_call_fails_once),
        machine_test(a_call_can_fail_for_ever),
        machine_test(what_frees_does_so_also_where_it_fails),
        machine_test(any_symbol_can_be_meant),
        machine_test(chance_is_seeded),
        machine_test(a_sticky_failure_stays),
        machine_test(a_lost_device_is_lost_alone),
        machine_test(an_event_and_its_queue_agree),
        machine_test(a_stalled_queue_goes_on_when_released),
        machine_test(a_machine_ends_whatever_it_is_doing),
        machine_test(all_symbols_are_listed),
        machine_test(code_of_other_texts_is_refused),
        machine_test(launches_are_counted),
        machine_test(kernels_reach_enabled_peers),
        machine_test(kernels_do_not_reach_other_devices),
        machine_test(peers_lie_where_they_are_asked_to),
        machine_test(a_peer_that_is_stuck_never_answers),
#ifndef __SANITIZE_THREAD__
        machine_test(a_copy_to_page_locked_memory_is_done_later),
        machine_test(a_copy_from_page_locked_memory_is_done_later),
#endif
    };
    if (machine_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
