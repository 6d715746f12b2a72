/* What a caller may rely on in kernels compiled from a text of one's own. */
#include "base_skip.h"
#include "contract_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- threads, blocks, barriers ---- */
static const char sums[] = "extern \"C\" __global__ void sum_static(const float *from, float *to) {\n"
                           "    __shared__ float part[64];\n"
                           "    unsigned lane = threadIdx.x;\n"
                           "    part[lane] = from[blockIdx.x * blockDim.x + lane];\n"
                           "    __syncthreads();\n"
                           "    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {\n"
                           "        if (lane < half) part[lane] += part[lane + half];\n"
                           "        __syncthreads();\n"
                           "    }\n"
                           "    if (lane == 0) to[blockIdx.x] = part[0];\n"
                           "}\n"
                           "extern \"C\" __global__ void sum_dynamic(const float *from, float *to) {\n"
                           "    extern __shared__ float part_of[];\n"
                           "    unsigned lane = threadIdx.x;\n"
                           "    part_of[lane] = from[blockIdx.x * blockDim.x + lane];\n"
                           "    __syncthreads();\n"
                           "    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {\n"
                           "        if (lane < half) part_of[lane] += part_of[lane + half];\n"
                           "        __syncthreads();\n"
                           "    }\n"
                           "    if (lane == 0) to[blockIdx.x] = part_of[0];\n"
                           "}\n";

static void blocks_sum_in_shared_memory(void **state) {
    float from[256], to[4];
    (void)state;
    for (int i = 0; i < 256; i++) from[i] = (float)i;
    mst_cu_module module = program_load(sums);
    mst_cu_address in = program_memory(from, sizeof from), out = program_memory(NULL, sizeof to);
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        mst_cu_function sum = program_function(module, dynamic ? "sum_dynamic" : "sum_static");
        assert_done(cu.cuMemsetD8Async(out, 0, sizeof to, gpu.stream));
        assert_done(program_launch(sum, 4, 64, dynamic ? 64 * 4 : 0, (void *[]){&in, &out}));
        program_read(to, out, sizeof to);
        assert_true(to[0] == 2016 && to[1] == 6112 && to[2] == 10208 && to[3] == 14304);
    }
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(in));
    assert_done(cu.cuMemFree_v2(out));
}

static const char places[] = "extern \"C\" __global__ void number(unsigned *to) {\n"
                             "    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
                             "    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
                             "    unsigned threads = blockDim.x * blockDim.y * blockDim.z;\n"
                             "    to[block * threads + thread] = block * 1000 + thread;\n"
                             "}\n";

static void grids_have_three_dimensions(void **state) {
    enum { THREADS = 2 * 3 * 4, BLOCKS = 3 * 2 * 2 };
    unsigned to[BLOCKS * THREADS];
    (void)state;
    mst_cu_module module = program_load(places);
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(cu.cuLaunchKernel(program_function(module, "number"), 3, 2, 2, 2, 3, 4, 0, gpu.stream, (void *[]){&out}, NULL));
    program_read(to, out, sizeof to);
    for (unsigned i = 0; i < BLOCKS * THREADS; i++) assert_int_equal(to[i], i / THREADS * 1000 + i % THREADS);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(out));
}

static void launches_have_limits(void **state) {
    int threads = 0;
    (void)state;
    mst_cu_module module = program_load(places);
    mst_cu_function number = program_function(module, "number");
    mst_cu_address out = program_memory(NULL, 4096 * 4);
    void *parameters[] = {&out};
    assert_done(cu.cuFuncGetAttribute(&threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, number));
    assert_int_equal(threads, 1024);
    assert_code(program_launch(number, 1, 1025, 0, parameters), MST_CU_INVALID_VALUE);
    assert_code(program_launch(number, 0, 1, 0, parameters), MST_CU_INVALID_VALUE);
    assert_code(program_launch(number, 1, 0, 0, parameters), MST_CU_INVALID_VALUE);
    assert_code(program_launch(number, 1, 1, 49153, parameters), MST_CU_INVALID_VALUE);
    assert_code(cu.cuLaunchKernel(number, 1, 65536, 1, 1, 1, 1, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_code(cu.cuLaunchKernel(number, 1, 1, 1, 1, 1, 65, 0, gpu.stream, parameters, NULL), MST_CU_INVALID_VALUE);
    assert_done(program_launch(number, 1, 1024, 49152, parameters));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(out));
}

static void launch_bounds_hold(void **state) {
    int threads = 0;
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void __launch_bounds__(64) bounded(int *to) { to[threadIdx.x] = 1; }\n");
    mst_cu_function bounded = program_function(module, "bounded");
    mst_cu_address out = program_memory(NULL, 128 * 4);
    assert_done(cu.cuFuncGetAttribute(&threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, bounded));
    assert_int_equal(threads, 64);
    assert_done(program_launch(bounded, 1, 64, 0, (void *[]){&out}));
    assert_true(program_launch(bounded, 1, 128, 0, (void *[]){&out}) != 0);
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(out));
}

static const char lanes[] = "extern \"C\" __global__ void warp_sums(int *to) {\n"
                            "    int value = threadIdx.x + 1;\n"
                            "    for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);\n"
                            "    unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x & 1);\n"
                            "    if (threadIdx.x % warpSize == 0) to[threadIdx.x / warpSize] = value;\n"
                            "    if (threadIdx.x == 0) to[2] = (int)odd;\n"
                            "}\n";

static void lanes_of_a_warp_exchange_values(void **state) {
    int to[3];
    (void)state;
    mst_cu_module module = program_load(lanes);
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(module, "warp_sums"), 1, 64, 0, (void *[]){&out}));
    program_read(to, out, sizeof to);
    assert_int_equal(to[0], 32 * 33 / 2);
    assert_int_equal(to[1], 64 * 65 / 2 - 32 * 33 / 2);
    assert_int_equal((unsigned)to[2], 0xaaaaaaaau);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(out));
}

/* ---- atomics ---- */
static const char counting[] =
    "extern \"C\" __global__ void count(int *counter, int *seen, unsigned *u, unsigned long long *ull, float *f, double *d, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    seen[i] = atomicAdd(counter, 1);\n"
    "    atomicAdd(u, 1u);\n"
    "    atomicAdd(ull, 1ull << 32);\n"
    "    atomicAdd(f, 1.0f);\n"
    "    atomicAdd(d, 0.5);\n"
    "}\n";

typedef struct counters {
    double d;
    unsigned long long ull;
    int counter;
    unsigned u;
    float f;
} counters;

static void atomics_return_the_old_value(void **state) {
    enum { COUNT = 10000 };
    counters zero = {0}, now;
    int n = COUNT, *seen = calloc(2 * COUNT, sizeof *seen);
    (void)state;
    assert_non_null(seen);
    mst_cu_module module = program_load(counting);
    mst_cu_address all = program_memory(&zero, sizeof zero), old = program_memory(NULL, COUNT * 4);
    mst_cu_address counter = all + offsetof(counters, counter), u = all + offsetof(counters, u), ull = all + offsetof(counters, ull),
                   f = all + offsetof(counters, f);
    assert_done(
        program_launch(program_function(module, "count"), (COUNT + 127) / 128, 128, 0, (void *[]){&counter, &old, &u, &ull, &f, &all, &n}));
    program_read(&now, all, sizeof now);
    program_read(seen, old, COUNT * 4);
    assert_int_equal(now.counter, COUNT);
    assert_int_equal(now.u, COUNT);
    assert_true(now.ull == (unsigned long long)COUNT << 32 && now.f == COUNT && now.d == COUNT / 2.0);
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(seen[i], 0, COUNT - 1);
        seen[COUNT + seen[i]]++;
    }
    for (int i = 0; i < COUNT; i++) assert_int_equal(seen[COUNT + i], 1); /* a permutation */
    free(seen);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(all));
    assert_done(cu.cuMemFree_v2(old));
}

static const char changing[] = "extern \"C\" __global__ void change(int *i, unsigned *u) {\n"
                               "    i[8] = atomicExch(&i[0], 10);\n"
                               "    i[9] = atomicCAS(&i[1], 1, 20);\n"
                               "    i[10] = atomicCAS(&i[2], 99, 20);\n"
                               "    i[11] = atomicMin(&i[3], -7);\n"
                               "    i[12] = atomicMax(&i[4], -7);\n"
                               "    i[13] = atomicAnd(&i[5], 4);\n"
                               "    i[14] = atomicOr(&i[6], 8);\n"
                               "    i[15] = atomicSub(&i[7], 8);\n"
                               "    u[1] = atomicMax(&u[0], 0x80000000u);\n"
                               "}\n";

static void atomics_change_what_they_say(void **state) {
    static const int expected[] = {10, 20, 2, -7, 4, 4, 14, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    int i[16] = {0, 1, 2, 3, 4, 5, 6, 7};
    unsigned u[2] = {5, 0};
    (void)state;
    mst_cu_module module = program_load(changing);
    mst_cu_address whole = program_memory(i, sizeof i), natural = program_memory(u, sizeof u);
    assert_done(program_launch(program_function(module, "change"), 1, 1, 0, (void *[]){&whole, &natural}));
    program_read(i, whole, sizeof i);
    program_read(u, natural, sizeof u);
    for (int k = 0; k < 16; k++) assert_int_equal(i[k], expected[k]);
    assert_int_equal(u[0], 0x80000000u);
    assert_int_equal(u[1], 5);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(whole));
    assert_done(cu.cuMemFree_v2(natural));
}

/* ---- parameters ---- */
static const char scalars[] =
    "struct half_bits { unsigned short data; };\n"
    "struct pair { double first; char second; };\n"
    "extern \"C\" __global__ void keep(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long long g, unsigned "
    "long long h, float i,\n"
    "                                double j, bool k, half_bits l, pair m, unsigned long long *to, double *real) {\n"
    "    to[0] = a; to[1] = b; to[2] = c; to[3] = d; to[4] = e; to[5] = f; to[6] = g; to[7] = h; to[8] = k; to[9] = l.data; to[10] = "
    "m.second;\n"
    "    real[0] = i; real[1] = j; real[2] = m.first;\n"
    "}\n";

static void scalars_of_every_size_arrive(void **state) {
    signed char a = -1;
    unsigned char b = 255;
    short c = -300;
    unsigned short d = 65535, half_bits = 0x3c00;
    int e = -70000;
    unsigned f = 4000000000u;
    long long g = -(1ll << 40);
    unsigned long long h = (1ull << 63) + 1, to[11];
    float i = 0.1f;
    double j = 0.1, real[3];
    bool k = true;
    struct {
        double first;
        char second;
    } m = {0.25, 77};
    (void)state;
    mst_cu_module module = program_load(scalars);
    mst_cu_address whole = program_memory(NULL, sizeof to), broken = program_memory(NULL, sizeof real);
    void *parameters[] = {&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &half_bits, &m, &whole, &broken};
    assert_done(program_launch(program_function(module, "keep"), 1, 1, 0, parameters));
    a = 0, g = 0, m.first = 0; /* the launch has its own copy */
    program_read(to, whole, sizeof to);
    program_read(real, broken, sizeof real);
    const unsigned long long expected[] = {~0ull, 255, -300ull, 65535, -70000ull, 4000000000u, ~0ull << 40, h, 1, 0x3c00, 77};
    for (int n = 0; n < 11; n++) assert_true(to[n] == expected[n]);
    assert_true(real[0] == (double)0.1f && real[1] == 0.1 && real[2] == 0.25);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(whole));
    assert_done(cu.cuMemFree_v2(broken));
}

static void null_is_a_parameter(void **state) {
    int to = 0;
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void look(const int *from, int *to) { *to = from ? 1 : 2; }\n");
    mst_cu_address none = 0, out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(module, "look"), 1, 1, 0, (void *[]){&none, &out}));
    program_read(&to, out, sizeof to);
    assert_int_equal(to, 2);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(out));
}

/* ---- functions of numbers ---- */
static const char numbers[] =
    "static __device__ __forceinline__ float twice(float x) { return 2.0f * x; }\n"
    "template <typename T> __device__ T larger(T a, T b) { return a > b ? a : b; }\n"
    "__constant__ float table[2] = {1.5f, 2.5f};\n"
    "__device__ int calls;\n"
    "extern \"C\" __global__ void compute(float *f, double *d, unsigned *u) {\n"
    "    f[0] = sqrtf(2.25f); f[1] = fmaxf(1.0f, 2.0f); f[2] = rsqrtf(4.0f); f[3] = twice(table[1]); f[4] = __int_as_float(0x3f800000); "
    "f[5] = floorf(-1.5f);\n"
    "    d[0] = sqrt(2.25); d[1] = larger(1.0, 3.0); d[2] = pow(2.0, 10.0); d[3] = fma(2.0, 3.0, 1.0); d[4] = fabs(-2.0); d[5] = min(2, "
    "3);\n"
    "    u[0] = __float_as_uint(1.0f); u[1] = __popc(255u); u[2] = __clz(1); u[3] = isnan(__int_as_float(0x7fc00000)) ? 1 : 0;\n"
    "    u[4] = isinf(__int_as_float(0x7f800000)) ? 1 : 0; u[5] = atomicAdd(&calls, 1);\n"
    "}\n";

static void functions_of_numbers_are_there(void **state) {
    static const float f_expected[] = {1.5f, 2, 0.5f, 5, 1, -2};
    static const double d_expected[] = {1.5, 3, 1024, 7, 2, 2};
    static const unsigned u_expected[] = {0x3f800000, 8, 31, 1, 1, 1};
    float f[6];
    double d[6];
    unsigned u[6];
    (void)state;
    mst_cu_module module = program_load(numbers);
    mst_cu_address single = program_memory(NULL, sizeof f), two = program_memory(NULL, sizeof d), whole = program_memory(NULL, sizeof u);
    mst_cu_function compute = program_function(module, "compute");
    for (int i = 0; i < 2; i++) assert_done(program_launch(compute, 1, 1, 0, (void *[]){&single, &two, &whole}));
    program_read(f, single, sizeof f);
    program_read(d, two, sizeof d);
    program_read(u, whole, sizeof u);
    for (int i = 0; i < 6; i++) {
        assert_true(fabsf(f[i] - f_expected[i]) < 1e-6f && d[i] == d_expected[i]);
        assert_int_equal(u[i], u_expected[i]);
    }
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuMemFree_v2(single));
    assert_done(cu.cuMemFree_v2(two));
    assert_done(cu.cuMemFree_v2(whole));
}

/* ---- modules ---- */
static void modules_may_have_kernels_of_one_name(void **state) {
    int to[2];
    (void)state;
    mst_cu_module first = program_load("__device__ int runs; extern \"C\" __global__ void same(int *to) { to[0] = 10 + runs++; }\n");
    mst_cu_module second = program_load("__device__ int runs; extern \"C\" __global__ void same(int *to) { to[1] = 20 + runs++; }\n");
    mst_cu_address out = program_memory(NULL, sizeof to);
    assert_done(program_launch(program_function(first, "same"), 1, 1, 0, (void *[]){&out}));
    assert_done(program_launch(program_function(first, "same"), 1, 1, 0, (void *[]){&out}));
    assert_done(program_launch(program_function(second, "same"), 1, 1, 0, (void *[]){&out}));
    program_read(to, out, sizeof to);
    assert_int_equal(to[0], 11);
    assert_int_equal(to[1], 20);
    assert_done(cu.cuModuleUnload(first));
    assert_done(cu.cuModuleUnload(second));
    assert_done(cu.cuMemFree_v2(out));
}

static void kernels_are_found_by_their_c_name_alone(void **state) {
    mst_cu_function function = NULL;
    (void)state;
    mst_cu_module module = program_load("__global__ void plain(int *to) { *to = 1; }\n"
                                        "extern \"C\" { __global__ void inside(int *to) { *to = 2; } }\n"
                                        "extern \"C\" __device__ void helper(int *to) { *to = 3; }\n"
                                        "extern \"C\" __global__ void outside(int *to) { helper(to); }\n");
    assert_code(cu.cuModuleGetFunction(&function, module, "plain"), MST_CU_NOT_FOUND);
    assert_code(cu.cuModuleGetFunction(&function, module, "helper"), MST_CU_NOT_FOUND);
    assert_code(cu.cuModuleGetFunction(&function, module, "nothing"), MST_CU_NOT_FOUND);
    assert_done(cu.cuModuleGetFunction(&function, module, "inside"));
    assert_done(cu.cuModuleGetFunction(&function, module, "outside"));
    assert_done(cu.cuModuleUnload(module));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_sum_in_shared_memory),
        cmocka_unit_test(grids_have_three_dimensions),
        cmocka_unit_test(launches_have_limits),
        cmocka_unit_test(launch_bounds_hold),
        cmocka_unit_test(lanes_of_a_warp_exchange_values),
        cmocka_unit_test(atomics_return_the_old_value),
        cmocka_unit_test(atomics_change_what_they_say),
        cmocka_unit_test(scalars_of_every_size_arrive),
        cmocka_unit_test(null_is_a_parameter),
        cmocka_unit_test(functions_of_numbers_are_there),
        cmocka_unit_test(modules_may_have_kernels_of_one_name),
        cmocka_unit_test(kernels_are_found_by_their_c_name_alone),
    };
    if (!contract_open_cuda() || !contract_open_nvrtc()) return SKIP_SUITE("the CUDA driver or NVRTC could not be opened");
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
