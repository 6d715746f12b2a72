/* Kernels of the program's on GPUs at their limits: local memory, parameters that are not as they
 * were declared, and first launches, for which the driver may wait. */
#include "cuda_held.h"
#include "cuda_increment.h"

static muster_status try_launch(mst_device *device, mst_program *program, mst_program_grid grid, const mst_program_value *values) {
    return device->program->launch(device, program, 0, &grid, values);
}

/* ---- dynamic local memory ---- */

/* Each group writes the first and the last float of its local memory, and of the bytes before the
 * limit of 48 KiB. */
static const source ends = {.name = "ends",
                            .text = "extern \"C\" __global__ void ends(float *o, unsigned long long bytes) {\n"
                                    "    extern __shared__ float part[];\n"
                                    "    unsigned long long last = bytes / 4 - 1;\n"
                                    "    part[0] = 1; part[last] = 2;\n"
                                    "    o[0] = part[0]; o[1] = part[last];\n"
                                    "}\n",
                            .parameters = {{BUFFER}, {8}},
                            .count = 2,
                            .local = true};
static const source own = {.name = "own",
                           .text = "extern \"C\" __global__ void own(float *o, unsigned long long bytes) {\n"
                                   "    extern __shared__ float part[];\n"
                                   "    __shared__ float fixed[1024];\n"
                                   "    fixed[threadIdx.x] = 3; part[bytes / 4 - 1] = 2;\n"
                                   "    __syncthreads();\n"
                                   "    o[0] = fixed[0]; o[1] = part[bytes / 4 - 1];\n"
                                   "}\n",
                           .parameters = {{BUFFER}, {8}},
                           .count = 2,
                           .local = true};

static void use_local(mst_device *device, mst_program *program, int64_t bytes, float first) {
    float o[2] = {0}, *memory = allocated(device, sizeof o);
    launched(device, program, grid_of(1, 1, bytes), (mst_program_value[]){buffer_of(memory, sizeof o), size_of((uint64_t)bytes)});
    read_back(device, o, memory, sizeof o);
    assert_true(o[0] == first && o[1] == 2);
    device->memory->release(device, memory);
}

static void groups_have_as_much_local_memory_as_the_gpu(void **state) {
    mst_device *device = *state;
    enum { USUAL = 49152, MOST = 232448 }; /* of the simulated GPU, and of an H100 */
    mst_program *program = opened_program(device, &ends), *fixed = opened_program(device, &own);
    mst_program_limits limits;
    assert_ok(device->program->limits(device, program, 0, &limits));
    assert_int_equal(limits.local_bytes, MOST);
    const int64_t sizes[] = {8, USUAL, USUAL + 4, MOST};
    for (int i = 0; i < 4; i++) use_local(device, program, sizes[i], 1);
    const mst_program_grid larger = grid_of(1, 1, MOST + 1);
    assert_refused(device->program->launch(device, program, 0, &larger, (mst_program_value[]){buffer_of(NULL, 0), size_of(8)}),
                   MUSTER_OUT_OF_RANGE, "kernel ends: expected at most 232448 bytes of dynamic local memory in a group, received 232449");
    assert_ok(device->program->limits(device, fixed, 0, &limits));
    assert_true(limits.local_bytes <= MOST - 4096 && limits.local_bytes > USUAL);
    use_local(device, fixed, limits.local_bytes / 4 * 4, 3);
    closed_program(device, fixed);
    closed_program(device, program);
}

static void a_gpu_without_more_local_memory_gives_the_usual(void **state) {
    mst_device *device = *state;
    mst_program_limits limits;
    muster_sim_inject("cuFuncSetAttribute", 1, MST_CU_INVALID_VALUE);
    mst_program *program = opened_program(device, &ends);
    assert_ok(device->program->limits(device, program, 0, &limits));
    assert_int_equal(limits.local_bytes, 49152);
    use_local(device, program, 49152, 1);
    closed_program(device, program);
}

/* ---- parameters that were not declared as they are ---- */

static const char wide_text[] = "struct wide { unsigned char bytes[600]; };\n"
                                "extern \"C\" __global__ void wide_one(unsigned int *o, unsigned int n, wide w) {\n"
                                "    unsigned int sum = n;\n"
                                "    for (int i = 0; i < 600; i++) sum += w.bytes[i];\n"
                                "    o[0] = sum;\n"
                                "}\n";

static void parameters_are_those_of_the_function(void **state) {
    static const struct {
        source declared;
        const char *words;
    } cases[] = {
        {{.parameters = {{BUFFER}, {4}}, .count = 2}, "expected a function with the 2 parameters that were declared, received one with 3"},
        {{.parameters = {{BUFFER}, {4}, {8}}, .count = 3}, "parameter 2: expected 8 bytes, as declared, received a text with 600"},
        {{.parameters = {{BUFFER}, {8}, {8}}, .count = 3}, "parameter 1: expected 8 bytes, as declared, received a text with 4"},
        {{.parameters = {{4}, {4}, {8}}, .count = 3}, "parameter 0: expected 4 bytes, as declared, received a text with 8"},
        {{.parameters = {{BUFFER}, {4}, {8}, {8}}, .count = 4}, "parameter 2: expected 8 bytes, as declared, received a text with 600"},
        {{.count = 0}, "expected a function with the 0 parameters that were declared, received one with 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        source declared = cases[i].declared;
        declared.name = "wide_one";
        declared.text = wide_text;
        refused_program(*state, &declared, MUSTER_INVALID_ARGUMENT, cases[i].words);
    }
    source more = increment; /* than there are */
    more.parameters[2].bytes = 4;
    more.count = 3;
    refused_program(*state, &more, MUSTER_INVALID_ARGUMENT,
                    "kernel increment: expected a function with the 3 parameters that were declared, received one with 2");
}

/* A driver before CUDA 12.4 does not tell the parameters: what was not declared is 0, to its
 * end. */
static void parameters_that_an_older_driver_does_not_tell_are_zero(void **state) {
    mst_device *device = *state;
    const mst_cuda_api kept = *driver();
    mst_cuda_api *api = (mst_cuda_api *)driver();
    const source declared = {.name = "wide_one", .text = wide_text, .parameters = {{BUFFER}, {4}}, .count = 2};
    const uint32_t n = 7;
    uint32_t o = 1;
    uint32_t *memory = allocated(device, sizeof o);
    api->cuFuncGetParamInfo = NULL;
    api->cuFuncLoad = NULL;
    mst_program *program = opened_program(device, &declared);
    for (int round = 0; round < 2; round++) {
        launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(memory, sizeof o), scalar_of(&n, 4)});
        read_back(device, &o, memory, sizeof o);
        assert_int_equal(o, n);
    }
    closed_program(device, program);
    source whole = declared; /* with its structure, which is passed from where it lies */
    unsigned char bytes[600];
    whole.parameters[2].bytes = sizeof bytes;
    whole.count = 3;
    memset(bytes, 3, sizeof bytes);
    program = opened_program(device, &whole);
    launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(memory, sizeof o), scalar_of(&n, 4), {.address = bytes}});
    read_back(device, &o, memory, sizeof o);
    assert_int_equal(o, n + 1800);
    closed_program(device, program);
    *api = kept;
    device->memory->release(device, memory);
}

/* ---- first launches ---- */

static void first_launches_in_flight_wait_where_the_deadline_reaches_them(void **state) {
    mst_device *device = *state;
    float a[32] = {0}, *memory = allocated(device, sizeof a);
    const mst_program_value values[] = {buffer_of(memory, sizeof a), size_of(32)};
    mst_program *known = opened_program(device, &increment), *program = opened_program(device, &increment), *never = NULL;
    char *log = NULL;
    assert_ok(device->memory->copy_in(device, memory, a, sizeof a));
    launched(device, known, grid_of(1, 32, 0), values);
    assert_ok(device->table->synchronize(device));
    hold_queues(device);
    launched(device, known, grid_of(1, 32, 0), values);
    assert_refused(try_launch(device, program, grid_of(1, 32, 0), values), MUSTER_TIMEOUT, "waited long enough");
    assert_refused(try_open(device, &increment, &never, &log), MUSTER_BAD_STATE, "cuda:0: open of a program: expected to be asked between");
    release_queues(device);
    launched(device, program, grid_of(1, 32, 0), values);
    read_back(device, a, memory, sizeof a);
    for (int i = 0; i < 32; i++) assert_true(a[i] == 3);
    closed_program(device, known);
    closed_program(device, program);
    device->memory->release(device, memory);
}

/* The driver gives every thread more memory when a kernel first needs it, for which it waits. */
static void a_kernel_with_a_large_stack_waits_where_the_deadline_reaches_it(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 1, .local_bytes = 4096});
    mst_device *device = opened("0");
    float a[32] = {0}, *memory = allocated(device, sizeof a);
    const mst_program_value values[] = {buffer_of(memory, sizeof a), size_of(32)};
    mst_program *program = opened_program(device, &increment), *second = opened_program(device, &increment);
    assert_ok(device->memory->copy_in(device, memory, a, sizeof a));
    assert_ok(device->table->synchronize(device));
    hold_queues(device);
    device->in_flight = false; /* also where only the deadline depends on it */
    assert_refused(try_launch(device, program, grid_of(1, 32, 0), values), MUSTER_TIMEOUT, "waited long enough");
    release_queues(device);
    launched(device, program, grid_of(1, 32, 0), values);
    held_polls = 0; /* the second finds the memory there, and waits for nothing */
    device->interrupt = held_interrupt;
    launched(device, second, grid_of(1, 32, 0), values);
    device->interrupt = NULL;
    read_back(device, a, memory, sizeof a);
    for (int i = 0; i < 32; i++) assert_true(a[i] == 2);
    closed_program(device, program);
    closed_program(device, second);
    device->memory->release(device, memory);
    closed(device);
    check_machine();
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        CASE(groups_have_as_much_local_memory_as_the_gpu),
        CASE(a_gpu_without_more_local_memory_gives_the_usual),
        CASE(parameters_are_those_of_the_function),
        CASE(parameters_that_an_older_driver_does_not_tell_are_zero),
        CASE(first_launches_in_flight_wait_where_the_deadline_reaches_them),
        cmocka_unit_test(a_kernel_with_a_large_stack_waits_where_the_deadline_reaches_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
