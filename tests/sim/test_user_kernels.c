/* Kernels of the user's on the machine: what it finds wrong in them, and that modules, devices and
 * queues keep apart. What holds on real GPUs, too, is in test_contract_program.c. */
#include "contract_program.h"
#include "machine_support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static const char fill[] =
    "extern \"C\" __global__ void fill(int *to, int first, int count) {\n"
    "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[first + i] = i;\n"
    "}\n";

static mst_cu_result run_fill(mst_cu_function function, mst_cu_address to, int first, int count) {
    mst_cu_result result = program_launch(function, 4, 32, 0, (void *[]){&to, &first, &count});
    return result ? result : cu.cuStreamSynchronize(gpu.stream);
}

static void assert_hazard(const char *text) {
    if (!strstr(muster_sim_hazards(), text)) fail_msg("expected \"%s\" among: %s", text, muster_sim_hazards());
    muster_sim_hazards_clear();
}

/* ---- accesses ---- */
static void a_write_behind_an_allocation_is_found(void **state) {
    mst_cu_module module = program_load(fill);
    mst_cu_address to = allocate(100 * 4);
    (void)state;
    assert_done(run_fill(program_function(module, "fill"), to, 0, 100));
    assert_int_equal(muster_sim_hazard_count(), 0);
    assert_code(run_fill(program_function(module, "fill"), to, 0, 101), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("device 0: kernel fill: illegal write of 4 bytes at");
}

static void a_read_before_an_allocation_is_found(void **state) {
    mst_cu_module module = program_load("extern \"C\" __global__ void before(const double *from, double *to) { to[0] = from[-1]; }\n");
    mst_cu_address from = allocate(64), to = allocate(64);
    (void)state;
    assert_done(program_launch(program_function(module, "before"), 1, 1, 0, (void *[]){&from, &to}));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("device 0: kernel before: illegal read of 8 bytes at");
}

static void an_atomic_outside_of_memory_is_found(void **state) {
    mst_cu_module module = program_load("extern \"C\" __global__ void add(int *to) { atomicAdd(to + 64, 1); }\n");
    mst_cu_address to = allocate(256);
    (void)state;
    assert_done(program_launch(program_function(module, "add"), 1, 1, 0, (void *[]){&to}));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("kernel add: illegal write of 4 bytes");
}

static void use_after_free_is_found(void **state) {
    mst_cu_module module = program_load(fill);
    mst_cu_address to = allocate(400);
    (void)state;
    assert_done(cu.cuMemFree_v2(to));
    assert_done(run_fill(program_function(module, "fill"), to, 0, 0)); /* it does not use it */
    assert_int_equal(muster_sim_hazard_count(), 0);
    assert_code(run_fill(program_function(module, "fill"), to, 0, 1), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("not within an allocation");
}

static void memory_of_the_host_is_found(void **state) {
    static int host[8];
    mst_cu_module module = program_load(fill);
    (void)state;
    assert_code(run_fill(program_function(module, "fill"), (mst_cu_address)(uintptr_t)host, 0, 1), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("no device memory");
    assert_int_equal(host[0], 0);
}

static void null_is_found(void **state) {
    mst_cu_module module = program_load(fill);
    (void)state;
    assert_code(run_fill(program_function(module, "fill"), 0, 0, 1), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("NULL");
}

static void a_misaligned_access_is_found(void **state) {
    mst_cu_module module = program_load(fill);
    mst_cu_address to = allocate(400);
    (void)state;
    assert_code(run_fill(program_function(module, "fill"), to + 2, 0, 1), MST_CU_MISALIGNED_ADDRESS);
    assert_hazard("misaligned");
}

static mst_cu_result fill_on_peer(bool enabled) {
    mst_cu_context other;
    mst_cu_module module = program_load(fill);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    if (enabled) assert_done(cu.cuCtxEnablePeerAccess(other, 0));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    mst_cu_address there = allocate(400);
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    return run_fill(program_function(module, "fill"), there, 0, 100);
}

static void memory_of_an_enabled_peer_is_reached(void **state) {
    (void)state;
    assert_done(fill_on_peer(true));
    assert_int_equal(muster_sim_hazard_count(), 0);
}

static void memory_of_another_device_is_found(void **state) {
    (void)state;
    assert_code(fill_on_peer(false), MST_CU_ILLEGAL_ADDRESS);
    assert_hazard("of a device that it may not reach");
}

/* ---- threads of a block ---- */
static void a_missing_barrier_shows(void **state) {
    int to = 0;
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void careless(int *to) {\n"
                                        "    __shared__ int part[64];\n"
                                        "    part[threadIdx.x] = 1;\n"
                                        "    if (threadIdx.x == 0) for (int i = to[0] = 0; i < 64; i++) to[0] += part[i];\n"
                                        "}\n");
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(module, "careless"), 1, 64, 0, (void *[]){&out}));
    program_read(&to, out, sizeof to);
    assert_int_not_equal(to, 64);
}

static void shared_memory_begins_as_garbage(void **state) {
    float to[4];
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void look(float *to) {\n"
                                        "    __shared__ float fixed[8];\n"
                                        "    extern __shared__ float wanted[];\n"
                                        "    to[2 * blockIdx.x] = fixed[3];\n"
                                        "    to[2 * blockIdx.x + 1] = wanted[3];\n"
                                        "    fixed[3] = wanted[3] = 1.0f;\n"
                                        "}\n");
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(module, "look"), 2, 1, 32, (void *[]){&out}));
    program_read(to, out, sizeof to);
    for (int i = 0; i < 4; i++) assert_true(to[i] != to[i]);
}

static void barriers_that_do_not_meet_end_the_launch(void **state) {
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void apart() {\n"
                                        "    if (threadIdx.x == 40) __syncwarp();\n"
                                        "    else __syncthreads();\n"
                                        "}\n");
    assert_done(program_launch(program_function(module, "apart"), 1, 64, 0, NULL));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_LAUNCH_FAILED);
    assert_hazard("wait at different barriers");
}

/* A thread that has ended does not count. */
static void a_block_of_the_largest_size_meets(void **state) {
    int to = 0;
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void meet(int *to) {\n"
                                        "    __shared__ int count;\n"
                                        "    if (threadIdx.x == 0) count = 0;\n"
                                        "    __syncthreads();\n"
                                        "    if (threadIdx.x >= 1000) return;\n"
                                        "    atomicAdd(&count, 1);\n"
                                        "    __syncthreads();\n"
                                        "    if (threadIdx.x == 999) *to = count;\n"
                                        "}\n");
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(module, "meet"), 1, 1024, 0, (void *[]){&out}));
    program_read(&to, out, sizeof to);
    assert_int_equal(to, 1000);
}

static void a_trap_ends_the_launch(void **state) {
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void stop() { if (threadIdx.x == 3) __trap(); }\n");
    assert_done(program_launch(program_function(module, "stop"), 2, 32, 0, NULL));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_LAUNCH_FAILED);
}

/* ---- modules, queues, devices ---- */
static void launches_are_counted_by_name(void **state) {
    mst_cu_module module = program_load(fill);
    mst_cu_address to = allocate(400);
    (void)state;
    for (int i = 0; i < 3; i++) assert_done(run_fill(program_function(module, "fill"), to, 0, 100));
    assert_int_equal(muster_sim_launches("fill"), 3);
}

static void memory_that_a_launch_uses_is_not_freed(void **state) {
    int first = 0, count = 10;
    mst_cu_module module = program_load(fill);
    mst_cu_function function = program_function(module, "fill");
    mst_cu_address to = allocate(400);
    (void)state;
    muster_sim_inject_queue_stall("cuLaunchKernel", 1, 20);
    assert_done(program_launch(function, 1, 1, 0, (void *[]){&to, &first, &count}));
    assert_done(cu.cuMemFree_v2(to)); /* waits, and says so */
    assert_hazard("cuMemFree: device 0: a queue still uses the allocation");
}

static void a_module_that_a_launch_uses_is_not_unloaded(void **state) {
    int first = 0, count = 10, value[10];
    mst_cu_module module = program_load(fill);
    mst_cu_function function = program_function(module, "fill");
    mst_cu_address to = allocate(400);
    (void)state;
    muster_sim_inject_queue_stall("cuLaunchKernel", 1, 0);
    assert_done(program_launch(function, 1, 1, 0, (void *[]){&to, &first, &count}));
    assert_done(cu.cuModuleUnload(module));
    assert_hazard("a launch of a kernel of the module is not done");
    muster_sim_release();
    program_read(value, to, sizeof value);
    assert_int_equal(value[9], 9); /* it ran all the same */
    assert_code(program_launch(function, 1, 1, 0, (void *[]){&to, &first, &count}), MST_CU_INVALID_HANDLE);
    assert_hazard("use of a kernel of an unloaded module");
}

/* The same text on two devices: each has variables of its own, and both run at the same time. */
static void devices_keep_apart(void **state) {
    enum { RUNS = 50 };
    static const char text[] = "__device__ int runs;\n"
                               "extern \"C\" __global__ void count(int *to, int by) { __shared__ int mine; mine = by; __syncthreads(); "
                               "runs += mine; *to = runs; }\n";
    mst_cu_context contexts[2];
    mst_cu_stream streams[2];
    mst_cu_function functions[2];
    mst_cu_address to[2];
    int value[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_done(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        assert_done(cu.cuCtxSetCurrent(contexts[i]));
        assert_done(cu.cuStreamCreate(&streams[i], MST_CU_STREAM_NON_BLOCKING));
        functions[i] = program_function(program_load(text), "count");
        to[i] = allocate(4);
    }
    for (int i = 0; i < 2 * RUNS; i++) {
        int by = 1 + i % 2;
        assert_done(cu.cuCtxSetCurrent(contexts[i % 2]));
        assert_done(cu.cuLaunchKernel(functions[i % 2], 1, 1, 1, 1, 1, 1, 0, streams[i % 2], (void *[]){&to[i % 2], &by}, NULL));
    }
    for (int i = 0; i < 2; i++) {
        assert_done(cu.cuCtxSetCurrent(contexts[i]));
        assert_done(cu.cuMemcpyDtoHAsync_v2(&value[i], to[i], 4, streams[i]));
        assert_done(cu.cuStreamSynchronize(streams[i]));
        assert_int_equal(value[i], RUNS * (1 + i));
    }
}

static void a_damaged_image_is_refused(void **state) {
    char *cubin = NULL;
    mst_cu_module module;
    (void)state;
    assert_done(program_compile("fill.cu", fill, "sm_90", NULL, &cubin));
    char *object = strstr(cubin, "\nobject ");
    assert_non_null(object);
    char *byte = object + strlen(object) / 2;
    *byte = *byte == '0' ? '1' : '0';
    assert_code(cu.cuModuleLoadData(&module, cubin), MST_CU_INVALID_IMAGE);
    object[strlen(object) / 2] = 0;
    assert_code(cu.cuModuleLoadData(&module, cubin), MST_CU_INVALID_IMAGE);
    free(cubin);
}

static int entries(const char *folder) {
    int count = -2; /* . and .. */
    DIR *open = opendir(folder);
    assert_non_null(open);
    while (readdir(open)) count++;
    closedir(open);
    return count;
}

static void nothing_stays_in_the_folder_of_temporary_files(void **state) {
    char folder[] = "/tmp/simulated-test.XXXXXX", *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    mst_cu_module module = program_load(fill);
    assert_code(program_compile("broken.cu", "extern \"C\" __global__ void broken( {\n", "sm_90", NULL, NULL), MST_NVRTC_COMPILATION);
    assert_int_equal(entries(folder), 0);
    assert_done(cu.cuModuleUnload(module));
    setenv("TMPDIR", "/nowhere", 1);
    assert_code(program_compile("fill.cu", fill, "sm_90", NULL, NULL), MST_NVRTC_INTERNAL_ERROR);
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        machine_test(a_write_behind_an_allocation_is_found),
        machine_test(a_read_before_an_allocation_is_found),
        machine_test(an_atomic_outside_of_memory_is_found),
        machine_test(use_after_free_is_found),
        machine_test(memory_of_the_host_is_found),
        machine_test(null_is_found),
        machine_test(a_misaligned_access_is_found),
        machine_test(memory_of_an_enabled_peer_is_reached),
        machine_test(memory_of_another_device_is_found),
        machine_test(a_missing_barrier_shows),
        machine_test(shared_memory_begins_as_garbage),
        machine_test(barriers_that_do_not_meet_end_the_launch),
        machine_test(a_block_of_the_largest_size_meets),
        machine_test(a_trap_ends_the_launch),
        machine_test(launches_are_counted_by_name),
        machine_test(memory_that_a_launch_uses_is_not_freed),
        machine_test(a_module_that_a_launch_uses_is_not_unloaded),
        machine_test(devices_keep_apart),
        machine_test(a_damaged_image_is_refused),
        machine_test(nothing_stays_in_the_folder_of_temporary_files),
    };
    if (machine_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
