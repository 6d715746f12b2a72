/* Programs on GPUs: compiled at run time, launched in the order of all other work. */
#include "cuda_increment.h"

#include <pthread.h>

/* ---- launches ---- */

static void launches_run_in_order_with_copies(void **state) {
    mst_device *device = *state;
    float a[1000];
    for (int i = 0; i < 1000; i++) a[i] = (float)i;
    float *memory = allocated(device, sizeof a);
    mst_program *program = opened_program(device, &increment);
    assert_ok(device->memory->copy_in(device, memory, a, sizeof a));
    for (int round = 0; round < 3; round++)
        launched(device, program, grid_of(2, 128, 0), (mst_program_value[]){buffer_of(memory, sizeof a), size_of(999)});
    assert_false(device->queued); /* which is about host memory */
    read_back(device, a, memory, sizeof a);
    for (int i = 0; i < 999; i++) assert_true(a[i] == (float)i + 3);
    assert_true(a[999] == 999);
    closed_program(device, program);
    device->memory->release(device, memory);
}

static void addresses_inside_an_allocation_are_buffers(void **state) {
    mst_device *device = *state;
    float a[64] = {0};
    char *memory = allocated(device, sizeof a);
    mst_program *program = opened_program(device, &increment);
    assert_ok(device->memory->copy_in(device, memory, a, sizeof a));
    launched(device, program, grid_of(1, 32, 0), (mst_program_value[]){buffer_of(memory + 12, 40), size_of(10)});
    read_back(device, a, memory, sizeof a);
    for (int i = 0; i < 64; i++) assert_true(a[i] == (i >= 3 && i < 13 ? 1.0f : 0.0f));
    closed_program(device, program);
    device->memory->release(device, memory);
}

static void scalars_of_every_size_arrive_bit_for_bit(void **state) {
    mst_device *device = *state;
    static const source scalars = {
        .name = "scalars",
        .text = "extern \"C\" __global__ void scalars(unsigned long long *o, signed char a, unsigned char b, short c, unsigned short d, "
                "int e, unsigned int f, long long g,\n"
                "                                   unsigned long long h, float i, double j, unsigned short k) {\n"
                "    o[0] = (unsigned long long)(long long)a; o[1] = b; o[2] = (unsigned long long)(long long)c; o[3] = d; o[4] = "
                "(unsigned long long)(long long)e; o[5] = f;\n"
                "    o[6] = (unsigned long long)g; o[7] = h; o[8] = *(unsigned int *)&i; o[9] = *(unsigned long long *)&j; o[10] = k;\n"
                "}\n",
        .parameters = {{BUFFER}, {1}, {1}, {2}, {2}, {4}, {4}, {8}, {8}, {4}, {8}, {2}},
        .count = 12,
        .needs = MST_NEEDS_DOUBLE | MST_NEEDS_SMALL | MST_NEEDS_HALF | MST_NEEDS_CUDA};
    uint64_t o[11] = {0};
    const int8_t a = -1;
    const uint8_t b = 255;
    const int16_t c = INT16_MIN;
    const uint16_t d = 65535, k = 0x3c00;
    const int32_t e = INT32_MIN + 1;
    const uint32_t f = UINT32_MAX;
    const int64_t g = -(INT64_C(1) << 40);
    const uint64_t h = (UINT64_C(1) << 63) + 1;
    const float i = 0.1f;
    const double j = 0.1;
    uint64_t *memory = allocated(device, sizeof o);
    mst_program *program = opened_program(device, &scalars);
    launched(device, program, grid_of(1, 1, 0),
             (mst_program_value[]){buffer_of(memory, sizeof o), scalar_of(&a, 1), scalar_of(&b, 1), scalar_of(&c, 2), scalar_of(&d, 2),
                                   scalar_of(&e, 4), scalar_of(&f, 4), scalar_of(&g, 8), scalar_of(&h, 8), scalar_of(&i, 4),
                                   scalar_of(&j, 8), scalar_of(&k, 2)});
    read_back(device, o, memory, sizeof o);
    const uint64_t expected[11] = {(uint64_t)a, b, (uint64_t)c, d, (uint64_t)e, f, (uint64_t)g, h, 0x3dcccccd, 0x3fb999999999999a, k};
    for (int n = 0; n < 11; n++) assert_true(o[n] == expected[n]);
    closed_program(device, program);
    device->memory->release(device, memory);
}

/* A structure between a buffer and a scalar, of a size that is no multiple of its alignment's. */
static void a_structure_arrives_bit_for_bit(void **state) {
    mst_device *device = *state;
    typedef struct block {
        int64_t numbers[21];
        int32_t last;
    } block;
    static const source structure = {
        .name = "structure",
        .text = "struct block { long long numbers[21]; int last; };\n"
                "extern \"C\" __global__ void structure(long long *o, const __grid_constant__ block b, short behind) {\n"
                "    for (int i = 0; i < 21; i++) o[i] = b.numbers[i];\n"
                "    o[21] = b.last;\n"
                "    o[22] = behind;\n"
                "}\n",
        .parameters = {{BUFFER}, {sizeof(block)}, {2}},
        .count = 3,
        .needs = MST_NEEDS_CUDA};
    block b = {.last = INT32_MIN};
    for (int i = 0; i < 21; i++) b.numbers[i] = (int64_t)(UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(i + 1));
    const int16_t behind = -5;
    int64_t o[23] = {0};
    int64_t *memory = allocated(device, sizeof o);
    mst_program *program = opened_program(device, &structure);
    const mst_program_value values[] = {buffer_of(memory, sizeof o), {.address = &b}, scalar_of(&behind, 2)};
    launched(device, program, grid_of(1, 1, 0), values);
    b.last = 0; /* it was copied */
    read_back(device, o, memory, sizeof o);
    for (int i = 0; i < 21; i++) assert_true(o[i] == b.numbers[i]);
    assert_true(o[21] == INT32_MIN && o[22] == -5);
    closed_program(device, program);
    device->memory->release(device, memory);
}

static void groups_share_dynamic_local_memory(void **state) {
    mst_device *device = *state;
    static const source sum = {.name = "sum",
                               .text = "extern \"C\" __global__ void sum(const float *a, float *o) {\n"
                                       "    extern __shared__ float part[];\n"
                                       "    unsigned int t = threadIdx.x;\n"
                                       "    part[t] = a[blockIdx.x * blockDim.x + t];\n"
                                       "    __syncthreads();\n"
                                       "    for (unsigned int k = blockDim.x / 2; k > 0; k /= 2) {\n"
                                       "        if (t < k) part[t] += part[t + k];\n"
                                       "        __syncthreads();\n"
                                       "    }\n"
                                       "    if (t == 0) o[blockIdx.x] = part[0];\n"
                                       "}\n",
                               .parameters = {{BUFFER}, {BUFFER}},
                               .count = 2,
                               .local = true};
    float a[256], o[5] = {0, 0, 0, 0, -1};
    for (int i = 0; i < 256; i++) a[i] = (float)i;
    float *in = allocated(device, sizeof a), *out = allocated(device, sizeof o);
    mst_program *program = opened_program(device, &sum);
    assert_ok(device->memory->copy_in(device, in, a, sizeof a));
    assert_ok(device->memory->copy_in(device, out, o, sizeof o));
    launched(device, program, grid_of(4, 64, 64 * 4), (mst_program_value[]){buffer_of(in, sizeof a), buffer_of(out, 16)});
    read_back(device, o, out, sizeof o);
    const float expected[] = {2016, 6112, 10208, 14304, -1};
    for (int i = 0; i < 5; i++) assert_true(o[i] == expected[i]);
    closed_program(device, program);
    device->memory->release(device, in);
    device->memory->release(device, out);
}

static void grids_have_three_dimensions(void **state) {
    mst_device *device = *state;
    static const source number = {.name = "number",
                                  .text = "extern \"C\" __global__ void number(unsigned int *o) {\n"
                                          "    unsigned int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + "
                                          "threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;\n"
                                          "    unsigned int i = (z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x;\n"
                                          "    o[i] = i + 1;\n"
                                          "}\n",
                                  .parameters = {{BUFFER}},
                                  .count = 1};
    enum { COUNT = 5 * 4 * 2 * 3 * 3 * 2 };
    uint32_t o[COUNT];
    uint32_t *memory = allocated(device, sizeof o);
    mst_program *program = opened_program(device, &number);
    launched(device, program, (mst_program_grid){.dims = 3, .groups = {5, 2, 3}, .threads = {4, 3, 2}},
             (mst_program_value[]){buffer_of(memory, sizeof o)});
    read_back(device, o, memory, sizeof o);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(o[i], i + 1);
    closed_program(device, program);
    device->memory->release(device, memory);
}

/* ---- limits ---- */

static muster_status try_launch(mst_device *device, mst_program *program, mst_program_grid grid, const mst_program_value *values) {
    return device->program->launch(device, program, 0, &grid, values);
}

static void limits_are_those_of_the_gpu_and_grids_beyond_them_are_refused(void **state) {
    mst_device *device = *state;
    float a[32] = {0};
    float *memory = allocated(device, sizeof a);
    const mst_program_value values[] = {buffer_of(memory, sizeof a), size_of(32)};
    mst_program_limits limits = {0};
    mst_program *program = opened_program(device, &increment);
    assert_ok(device->program->limits(device, program, 0, &limits));
    assert_true(limits.threads >= 32 && limits.threads <= 1024);
    assert_int_equal(limits.threads_in[0], 1024);
    assert_int_equal(limits.threads_in[2], 64);
    assert_int_equal(limits.groups_in[0], INT32_MAX);
    assert_int_equal(limits.groups_in[1], 65535);
    assert_int_equal(limits.preferred, 32);
    assert_true(limits.processors >= 1 && limits.local_bytes >= 48 * 1024);
    assert_refused(try_launch(device, program, grid_of(1, limits.threads + 1, 0), values), MUSTER_OUT_OF_RANGE, "");
    assert_refused(try_launch(device, program, grid_of(limits.groups_in[0] + 1, 1, 0), values), MUSTER_OUT_OF_RANGE, "within the limits");
    assert_refused(try_launch(device, program, (mst_program_grid){.dims = 3, .groups = {1, 1, 1}, .threads = {32, 32, 2}}, values),
                   MUSTER_OUT_OF_RANGE, "threads in a group");
    assert_refused(try_launch(device, program, grid_of(0, 1, 0), values), MUSTER_INTERNAL, "at least one group");
    assert_ok(device->memory->copy_in(device, memory, a, sizeof a));
    launched(device, program, grid_of(1, 32, 0), values); /* the device is as before */
    read_back(device, a, memory, sizeof a);
    for (int i = 0; i < 32; i++) assert_true(a[i] == 1);
    closed_program(device, program);
    device->memory->release(device, memory);
}

/* ---- what does not compile, or not here ---- */

static void a_text_that_does_not_compile_says_where(void **state) {
    mst_device *device = *state;
    static const source wrong = {.name = "wrong",
                                 .text = "#line 1 \"eye\"\n\nextern \"C\" __global__ void wrong(float *a) {\n    a[0] = nothing;\n}\n",
                                 .parameters = {{BUFFER}},
                                 .count = 1};
    mst_program *program = NULL;
    char *log = NULL;
    assert_refused(try_open(device, &wrong, &program, &log), MUSTER_INVALID_ARGUMENT, "nothing");
    assert_null(program);
    assert_non_null(log);
    assert_non_null(strstr(log, "nothing"));
    assert_non_null(strstr(log, "eye"));
    mst_free(log);
    closed_program(device, opened_program(device, &increment));
}

static void a_function_that_is_not_there_is_named(void **state) {
    source other = increment;
    other.name = "decrement";
    refused_program(*state, &other, MUSTER_INVALID_ARGUMENT, "kernel decrement: expected a function of that name");
}

static void a_text_for_cpu_cores_is_refused(void **state) {
    source other = increment;
    other.needs = MST_NEEDS_OPENCL;
    refused_program(*state, &other, MUSTER_UNAVAILABLE, "increment needs OpenCL");
}

static void the_language_is_cuda(void **state) {
    mst_device *device = *state;
    int32_t language = -1;
    assert_ok(device->program->language(device, &language));
    assert_int_equal(language, MST_LANGUAGE_CUDA);
}

static void texts_may_be_included(void **state) {
    mst_device *device = *state;
    const mst_code_source sources[] = {{"cluda.h", "#define KERNEL extern \"C\" __global__\n"}};
    const mst_program_parameter parameters[] = {{BUFFER}};
    const mst_program_kernel kernels[] = {{"one", parameters, 1, false}, {"two", parameters, 1, false}};
    const mst_program_request request = {
        .code = {.name = "both",
                 .text = "#include \"cluda.h\"\nKERNEL void one(int *a) { a[0] = 1; }\nKERNEL void two(int *a) { a[1] = STEP; }\n",
                 .sources = sources,
                 .count = 1},
        .kernels = kernels,
        .kernel_count = 2,
        .options = {"-DSTEP=2"}};
    int32_t a[2] = {0};
    int32_t *memory = allocated(device, sizeof a);
    mst_program *program = NULL;
    char *log = NULL;
    assert_ok(device->program->open(device, &request, &program, &log));
    const mst_program_grid grid = grid_of(1, 1, 0);
    for (int32_t k = 0; k < 2; k++)
        assert_ok(device->program->launch(device, program, k, &grid, (mst_program_value[]){buffer_of(memory, sizeof a)}));
    read_back(device, a, memory, sizeof a);
    assert_int_equal(a[0], 1);
    assert_int_equal(a[1], 2);
    closed_program(device, program);
    device->memory->release(device, memory);
}

/* ---- several devices ---- */

typedef struct user {
    mst_device *device;
    bool right;
} user;

static bool count_up(mst_device *device) {
    enum { LAUNCHES = 20 };
    float a[64] = {0};
    void *memory = NULL;
    mst_program *program = NULL;
    char *log = NULL;
    const mst_program_grid grid = grid_of(2, 32, 0);
    if (try_open(device, &increment, &program, &log) != MUSTER_OK || device->memory->allocate(device, sizeof a, &memory) != MUSTER_OK)
        return false;
    bool right = device->memory->copy_in(device, memory, a, sizeof a) == MUSTER_OK;
    for (int i = 0; i < LAUNCHES; i++)
        right = right && device->program->launch(device, program, 0, &grid,
                                                 (mst_program_value[]){buffer_of(memory, sizeof a), size_of(64)}) == MUSTER_OK;
    right = right && device->memory->copy_out(device, a, memory, sizeof a) == MUSTER_OK && device->table->synchronize(device) == MUSTER_OK;
    for (int i = 0; i < 64; i++) right = right && a[i] == LAUNCHES;
    device->program->close(device, program);
    device->memory->release(device, memory);
    return right;
}

static void *use(void *context) {
    user *one = context;
    one->right = count_up(one->device);
    return NULL;
}

/* Two GPUs, and two virtual devices of one of them: each has the program for itself. */
static void devices_run_beside_each_other(void **state) {
    (void)state;
    const char *const ids[] = {"0", "1", "1"};
    user users[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) users[i] = (user){opened(ids[i]), false};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(users[i].right);
        closed(users[i].device);
    }
}

/* ---- the cache ---- */

static char folder[64];

static int begin_cache(void **state) {
    snprintf(folder, sizeof folder, "/tmp/muster-program-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("MUSTER_CACHE_DIR", folder, 1);
    return begin_test(state);
}

static int end_cache(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    setenv("MUSTER_CACHE_DIR", "off", 1);
    return end_test(state);
}

static void the_second_open_finds_it_in_the_cache_unless_it_is_damaged(void **state) {
    mst_device *device = *state;
    static const char *const ways[] = {"true", "truncate -s 100 $f", "printf x | dd of=$f bs=1 seek=120 conv=notrunc status=none"};
    closed_program(device, opened_program(device, &increment));
    for (int i = 0; i < 3; i++) {
        char command[256];
        snprintf(command, sizeof command, "for f in %s/*; do %s; done", folder, ways[i]);
        assert_int_equal(system(command), 0);
        mst_program *program = opened_program(device, &increment);
        assert_int_equal(program->found, i == 0);
        closed_program(device, program);
        assert_true(count_up(device));
    }
}

/* ---- failures ---- */

static void every_allocation_of_an_open_may_fail(void **state) {
    mst_device *device = *state;
    closed_program(device, opened_program(device, &increment));
    const int64_t before = mst_memory_live();
    bool ended = false;
    for (int64_t k = 1; !ended; k++) {
        mst_program *program = NULL;
        char *log = NULL;
        assert_true(k < 100);
        mst_memory_fail_at(k);
        const muster_status status = try_open(device, &increment, &program, &log);
        mst_memory_fail_at(0);
        ended = status == MUSTER_OK && k > 8; /* an image that could not be taken from the cache is compiled */
        if (status == MUSTER_OK)
            closed_program(device, program);
        else
            assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
        mst_free(log);
        assert_int_equal(mst_memory_live(), before);
    }
}

static void every_call_of_the_driver_may_fail(void **state) {
    mst_device *device = *state;
    static const char *const symbols[] = {"cuModuleLoadData",     "cuModuleGetFunction", "cuFuncGetAttribute",
                                          "cuDeviceGetAttribute", "cuLaunchKernel",      "cuCtxGetCurrent"};
    float *memory = allocated(device, 128);
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++) {
        mst_program *program = NULL;
        char *log = NULL;
        muster_sim_inject(symbols[s], 1, MST_CU_UNKNOWN);
        muster_status status = try_open(device, &increment, &program, &log);
        if (status == MUSTER_OK) {
            const mst_program_grid grid = grid_of(1, 32, 0);
            status = device->program->launch(device, program, 0, &grid, (mst_program_value[]){buffer_of(memory, 128), size_of(32)});
        }
        assert_refused(status, MUSTER_SYSTEM, symbols[s]);
        muster_sim_inject_clear();
        closed_program(device, program);
        mst_free(log);
        assert_true(count_up(device));
    }
    device->memory->release(device, memory);
}

static void a_lost_device_is_left_alone(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 1});
    mst_device *device = opened("0");
    mst_program *program = opened_program(device, &increment), *second = NULL;
    char *log = NULL;
    mst_cuda_lose(device, "a reason");
    const mst_program_grid grid = grid_of(1, 32, 0);
    assert_refused(device->program->launch(device, program, 0, &grid, (mst_program_value[]){buffer_of(NULL, 0), size_of(0)}),
                   MUSTER_DEVICE_LOST, "a reason");
    assert_refused(try_open(device, &increment, &second, &log), MUSTER_DEVICE_LOST, "a reason");
    mst_free(log);
    closed_program(device, program);
    closed(device);
    char notice[MST_MESSAGE_SIZE];
    assert_true(mst_cuda_take_notice(notice));
    assert_int_equal(mst_memory_live(), fixture_live);
}

#define IN_A_CACHE(test) cmocka_unit_test_setup_teardown(test, begin_cache, end_cache)

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        CASE(launches_run_in_order_with_copies),
        CASE(addresses_inside_an_allocation_are_buffers),
        CASE(scalars_of_every_size_arrive_bit_for_bit),
        CASE(a_structure_arrives_bit_for_bit),
        CASE(groups_share_dynamic_local_memory),
        CASE(grids_have_three_dimensions),
        CASE(limits_are_those_of_the_gpu_and_grids_beyond_them_are_refused),
        CASE(a_text_that_does_not_compile_says_where),
        CASE(a_function_that_is_not_there_is_named),
        CASE(a_text_for_cpu_cores_is_refused),
        CASE(the_language_is_cuda),
        CASE(texts_may_be_included),
        CASE(devices_run_beside_each_other),
        IN_A_CACHE(the_second_open_finds_it_in_the_cache_unless_it_is_damaged),
        IN_A_CACHE(every_allocation_of_an_open_may_fail),
        IN_A_CACHE(every_call_of_the_driver_may_fail),
        cmocka_unit_test(a_lost_device_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
