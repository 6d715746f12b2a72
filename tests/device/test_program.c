/* Programs on CPU cores, by OpenCL. */
#include "opencl/opencl_state_private.h"
#include "program_support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t live;

static mst_device *opened(const char *ordinal) {
    mst_device *device = NULL;
    assert_ok(mst_host_device_table.open(&mst_host_device_table, ordinal, &device));
    return device;
}

static int begin_test(void **state) {
    live = mst_memory_live();
    *state = opened("0");
    return 0;
}

static int end_test(void **state) {
    mst_device *device = *state;
    device->table->close(device);
    assert_int_equal(mst_memory_live(), live);
    return 0;
}

static const source increment = {.name = "increment",
                                 .text = "__kernel void increment(__global float *a, ulong n) {\n"
                                         "    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) a[i] += 1;\n"
                                         "}\n",
                                 .parameters = {{BUFFER}, {8}},
                                 .count = 2};

/* ---- launches ---- */

static void a_launch_is_queued_and_sync_ends_it(void **state) {
    mst_device *device = *state;
    float a[1000];
    mst_program *program = opened_program(device, &increment);
    for (int i = 0; i < 1000; i++) a[i] = (float)i;
    assert_false(device->queued);
    launched(device, program, grid_of(3, 64, 0), (mst_program_value[]){buffer_of(a, sizeof a), size_of(999)});
    assert_true(device->queued);
    assert_ok(device->table->synchronize(device));
    assert_false(device->queued);
    for (int i = 0; i < 999; i++) assert_true(a[i] == (float)i + 1);
    assert_true(a[999] == 999);
    closed_program(device, program);
}

static void launches_run_in_order(void **state) {
    mst_device *device = *state;
    static const source chain = {
        .name = "chain",
        .text = "__kernel void chain(__global uint *a, uint k) { uint i = get_global_id(0); a[i] = a[i] * 31u + k; }\n",
        .parameters = {{BUFFER}, {4}},
        .count = 2};
    uint32_t a[256] = {0}, expected = 0;
    mst_program *program = opened_program(device, &chain);
    for (uint32_t k = 0; k < 1000; k++) {
        launched(device, program, grid_of(4, 64, 0), (mst_program_value[]){buffer_of(a, sizeof a), scalar_of(&k, 4)});
        expected = expected * 31u + k;
    }
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < 256; i++) assert_int_equal(a[i], expected);
    closed_program(device, program);
}

/* Host work of the table comes after the programs that were launched before it, as if it had been
 * queued. */
static void copies_come_after_launches(void **state) {
    mst_device *device = *state;
    enum { COUNT = 1 << 20 };
    float *a = calloc(COUNT, sizeof *a), *b = calloc(COUNT, sizeof *b);
    assert_true(a && b);
    mst_program *program = opened_program(device, &increment);
    launched(device, program, grid_of(COUNT / 64, 64, 0), (mst_program_value[]){buffer_of(a, COUNT * 4), size_of(COUNT)});
    assert_ok(device->memory->copy(device, b, a, COUNT * 4));
    for (int i = 0; i < COUNT; i++) assert_true(b[i] == 1);
    closed_program(device, program);
    free(a);
    free(b);
}

/* Zero copy: the kernel writes at the very address, wherever it lies, and nothing beside it. */
static void any_address_of_host_memory_is_a_buffer(void **state) {
    mst_device *device = *state;
    static const source bytes = {
        .name = "bytes",
        .text = "__kernel void bytes(__global uchar *a, ulong n) { ulong i = get_global_id(0); if (i < n) a[i] = (uchar)(i + 1); }\n",
        .parameters = {{BUFFER}, {8}},
        .count = 2,
        .needs = MST_NEEDS_SMALL};
    unsigned char *memory = malloc(4096);
    assert_non_null(memory);
    mst_program *program = opened_program(device, &bytes), *floats = opened_program(device, &increment);
    for (int offset = 1; offset < 70; offset += 3) {
        memset(memory, 0xa5, 4096);
        launched(device, program, grid_of(4, 64, 0), (mst_program_value[]){buffer_of(memory + offset, 200), size_of(200)});
        assert_ok(device->table->synchronize(device));
        for (int i = 0; i < 4096; i++) assert_int_equal(memory[i], i >= offset && i < offset + 200 ? i - offset + 1 : 0xa5);
    }
    memset(memory, 0, 4096);
    launched(device, floats, grid_of(4, 64, 0), (mst_program_value[]){buffer_of(memory + 4, 400), size_of(100)});
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < 102; i++) assert_true(((float *)(void *)memory)[i] == (i >= 1 && i <= 100 ? 1.0f : 0.0f));
    closed_program(device, program);
    closed_program(device, floats);
    free(memory);
}

/* ---- arguments ---- */

static const source every_scalar = {.name = "scalars",
                                    .text = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                                            "__kernel void scalars(__global ulong *o, char a, uchar b, short c, ushort d, int e, uint f, "
                                            "long g, ulong h, float i, double j, ushort k) {\n"
                                            "    o[0] = (ulong)(long)a; o[1] = b; o[2] = (ulong)(long)c; o[3] = d; o[4] = (ulong)(long)e; "
                                            "o[5] = f; o[6] = (ulong)g; o[7] = h;\n"
                                            "    o[8] = as_uint(i); o[9] = as_ulong(j); o[10] = k;\n"
                                            "}\n",
                                    .parameters = {{BUFFER}, {1}, {1}, {2}, {2}, {4}, {4}, {8}, {8}, {4}, {8}, {2}},
                                    .count = 12,
                                    .needs = MST_NEEDS_DOUBLE | MST_NEEDS_SMALL | MST_NEEDS_HALF};

static void scalars_of_every_size_arrive_bit_for_bit(void **state) {
    mst_device *device = *state;
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
    mst_program *program = opened_program(device, &every_scalar);
    launched(device, program, grid_of(1, 1, 0),
             (mst_program_value[]){buffer_of(o, sizeof o), scalar_of(&a, 1), scalar_of(&b, 1), scalar_of(&c, 2), scalar_of(&d, 2),
                                   scalar_of(&e, 4), scalar_of(&f, 4), scalar_of(&g, 8), scalar_of(&h, 8), scalar_of(&i, 4),
                                   scalar_of(&j, 8), scalar_of(&k, 2)});
    assert_ok(device->table->synchronize(device));
    const uint64_t expected[11] = {(uint64_t)a, b, (uint64_t)c, d, (uint64_t)e, f, (uint64_t)g, h, 0x3dcccccd, 0x3fb999999999999a, k};
    for (int n = 0; n < 11; n++) assert_true(o[n] == expected[n]);
    closed_program(device, program);
}

/* The values are those of the launch, whatever happens to the caller's copy. */
static void arguments_are_copied(void **state) {
    mst_device *device = *state;
    float a[64] = {0};
    mst_program_value values[] = {buffer_of(a, sizeof a), size_of(64)};
    mst_program *program = opened_program(device, &increment);
    launched(device, program, grid_of(1, 64, 0), values);
    memset(values, 0xff, sizeof values);
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < 64; i++) assert_true(a[i] == 1);
    closed_program(device, program);
}

static void no_memory_is_a_null_pointer(void **state) {
    mst_device *device = *state;
    static const source is_null = {.name = "is_null",
                                   .text = "__kernel void is_null(__global int *a, __global int *o) { *o = a == 0 ? 7 : 8; }\n",
                                   .parameters = {{BUFFER}, {BUFFER}},
                                   .count = 2};
    int32_t o = 0;
    mst_program *program = opened_program(device, &is_null);
    launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(NULL, 0), buffer_of(&o, 4)});
    assert_ok(device->table->synchronize(device));
    assert_int_equal(o, 7);
    /* empty, but somewhere */
    launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(&o, 0), buffer_of(&o, 4)});
    assert_ok(device->table->synchronize(device));
    assert_int_equal(o, 8);
    closed_program(device, program);
}

static void groups_share_dynamic_local_memory(void **state) {
    mst_device *device = *state;
    static const source sum = {.name = "sum",
                               .text = "__kernel void sum(__global const float *a, __global float *o, __local float *part) {\n"
                                       "    uint t = get_local_id(0);\n"
                                       "    part[t] = a[get_global_id(0)];\n"
                                       "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                                       "    for (uint k = get_local_size(0) / 2; k > 0; k /= 2) {\n"
                                       "        if (t < k) part[t] += part[t + k];\n"
                                       "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                                       "    }\n"
                                       "    if (t == 0) o[get_group_id(0)] = part[0];\n"
                                       "}\n",
                               .parameters = {{BUFFER}, {BUFFER}},
                               .count = 2,
                               .local = true};
    float a[256], o[5] = {0, 0, 0, 0, -1};
    for (int i = 0; i < 256; i++) a[i] = (float)i;
    mst_program *program = opened_program(device, &sum);
    launched(device, program, grid_of(4, 64, 64 * 4), (mst_program_value[]){buffer_of(a, sizeof a), buffer_of(o, 16)});
    assert_ok(device->table->synchronize(device));
    const float expected[] = {2016, 6112, 10208, 14304, -1};
    for (int i = 0; i < 5; i++) assert_true(o[i] == expected[i]);
    closed_program(device, program);
}

static void grids_have_up_to_three_dimensions(void **state) {
    mst_device *device = *state;
    static const source number = {
        .name = "number",
        .text = "__kernel void number(__global uint *o) {\n"
                "    size_t i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);\n"
                "    o[i] += (uint)i + 1;\n"
                "}\n",
        .parameters = {{BUFFER}},
        .count = 1};
    uint32_t o[5 * 2 * 3 * 4 * 2 * 3];
    mst_program *program = opened_program(device, &number);
    for (int dims = 1; dims <= 3; dims++) {
        mst_program_grid grid = {.dims = dims, .groups = {5, 1, 1}, .threads = {4, 1, 1}};
        for (int d = 1; d < dims; d++) grid.groups[d] = 3 - d % 2, grid.threads[d] = 1 + d;
        uint32_t count = 1;
        for (int d = 0; d < dims; d++) count *= (uint32_t)(grid.groups[d] * grid.threads[d]);
        assert_true(count <= sizeof o / sizeof *o);
        memset(o, 0, sizeof o);
        launched(device, program, grid, (mst_program_value[]){buffer_of(o, sizeof o)});
        assert_ok(device->table->synchronize(device));
        for (uint32_t i = 0; i < sizeof o / sizeof *o; i++) assert_int_equal(o[i], i < count ? i + 1 : 0);
    }
    closed_program(device, program);
}

/* ---- limits ---- */

static void limits_are_those_of_one_core(void **state) {
    mst_device *device = *state;
    mst_program_limits limits = {0};
    mst_program *program = opened_program(device, &increment);
    assert_ok(device->program->limits(device, program, 0, &limits));
    assert_true(limits.threads >= 64 && limits.threads_in[0] >= 64 && limits.threads_in[2] >= 1);
    assert_true(limits.groups_in[0] >= 65535 && limits.groups_in[2] >= 65535);
    assert_true(limits.preferred >= 1 && limits.local_bytes >= 1024);
    assert_int_equal(limits.processors, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : limits.processors);
    closed_program(device, program);
}

static muster_status try_launch(mst_device *device, mst_program *program, mst_program_grid grid, const mst_program_value *values) {
    return device->program->launch(device, program, 0, &grid, values);
}

static void grids_beyond_the_limits_are_refused_and_leave_the_device_usable(void **state) {
    mst_device *device = *state;
    float a[64] = {0};
    const mst_program_value values[] = {buffer_of(a, sizeof a), size_of(64)};
    mst_program_limits limits = {0};
    mst_program *program = opened_program(device, &increment);
    assert_ok(device->program->limits(device, program, 0, &limits));
    assert_refused(try_launch(device, program, grid_of(1, limits.threads + 1, 0), values), MUSTER_OUT_OF_RANGE, "threads in a group");
    assert_refused(try_launch(device, program, grid_of(limits.groups_in[0] + 1, 1, 0), values), MUSTER_OUT_OF_RANGE, "groups in all");
    assert_refused(try_launch(device, program, grid_of(0, 1, 0), values), MUSTER_INTERNAL,
                   "at least one group"); /* it would end the process in PoCL 3.1 */
    assert_refused(try_launch(device, program, grid_of(1, 0, 0), values), MUSTER_INTERNAL, "at least one group");
    assert_false(device->queued);
    assert_true(a[0] == 0);
    launched(device, program, grid_of(1, 64, 0), values);
    assert_ok(device->table->synchronize(device));
    assert_true(a[63] == 1);
    closed_program(device, program);
}

/* ---- what does not compile, or not here ---- */

static void a_text_that_does_not_compile_says_where(void **state) {
    mst_device *device = *state;
    static const source wrong = {.name = "wrong.cl",
                                 .text = "#line 1 \"eye\"\n\n__kernel void wrong(__global float *a) {\n    a[0] = nothing;\n}\n",
                                 .parameters = {{BUFFER}},
                                 .count = 1};
    mst_program *program = NULL;
    char *log = NULL;
    assert_refused(try_open(device, &wrong, &program, &log), MUSTER_INVALID_ARGUMENT, "eye:3:12: use of undeclared identifier 'nothing'");
    assert_null(program);
    assert_non_null(log);
    assert_non_null(strstr(log, "nothing"));
    mst_free(log);
    closed_program(device, opened_program(device, &increment)); /* others still do */
}

static void warnings_come_back_with_a_program(void **state) {
    mst_device *device = *state;
    static const source warns = {.name = "warns",
                                 .text = "#warning the first of all\n__kernel void warns(__global float *a) { a[0] = 1; }\n",
                                 .parameters = {{BUFFER}},
                                 .count = 1};
    mst_program *program = opened_program(device, &warns);
    assert_false(program->found);
    assert_non_null(program->log);
    assert_non_null(strstr(program->log, "the first of all"));
    closed_program(device, program);
}

static void a_function_that_is_not_there_is_named(void **state) {
    source other = increment;
    other.name = "decrement";
    refused_program(*state, &other, MUSTER_INVALID_ARGUMENT, "kernel decrement: expected a function of that name");
}

static void a_declaration_must_fit_the_text(void **state) {
    source other = increment;
    other.count = 1;
    refused_program(*state, &other, MUSTER_INVALID_ARGUMENT, "the 1 parameters that were declared, received one with 2");
    other = increment;
    other.local = true;
    refused_program(*state, &other, MUSTER_INVALID_ARGUMENT, "and the dynamic local memory");
    other = increment;
    other.parameters[1].bytes = 4;
    refused_program(*state, &other, MUSTER_INVALID_ARGUMENT, "parameter 1: expected a scalar of 4 bytes");
}

static void a_text_for_gpus_is_refused(void **state) {
    source other = increment;
    other.needs = MST_NEEDS_CUDA;
    refused_program(*state, &other, MUSTER_UNAVAILABLE, "increment needs CUDA, which the device host cpu 0 does not have");
}

/* ---- texts that include others ---- */

static const mst_code_source header[] = {{"cluda.h", "#ifndef CLUDA\n#define CLUDA\n/* a\n comment */\n#define STEP 3\n#endif\n"},
                                         {"other.h", "#include \"cluda.h\"\n"}};

static muster_status expand(const char *text, char **expanded) {
    const mst_code_program program = {.name = "eye", .text = text, .sources = header, .count = 2};
    return mst_opencl_expand(&program, expanded);
}

static void an_include_is_replaced_and_lines_keep_their_numbers(void **state) {
    (void)state;
    char *text;
    assert_ok(expand("int a;\n  #  include \"other.h\" // once\nint b;\n", &text));
    assert_string_equal(text, "#pragma OPENCL FP_CONTRACT OFF\n#line 1 \"eye\"\nint a;\n"
                              "#line 1 \"other.h\"\n#line 1 \"cluda.h\"\n#ifndef CLUDA\n#define CLUDA\n/* a\n comment */\n#define STEP "
                              "3\n#endif\n#line 2 \"other.h\"\n"
                              "#line 3 \"eye\"\nint b;\n");
    mst_free(text);
    assert_ok(expand("x\n#line 7 \"mine\"\n#include \"cluda.h\"\ny", &text));
    assert_non_null(strstr(text, "#endif\n#line 8 \"mine\"\ny\n"));
    mst_free(text);
}

static void what_is_no_include_stays(void **state) {
    (void)state;
    static const char *const texts[] = {"/*\n#include \"cluda.h\"\n*/\n",
                                        "int a; /* \" */ /*\n#include \"cluda.h\"\n*/\n",
                                        "#include <cluda.h>\n",
                                        "#include \"unknown.h\"\n",
                                        "#include \"cluda.h\nint b;\n",
                                        "#includes\n",
                                        "char c[] = \"/*\";\nint d;\n",
                                        "\n\n",
                                        ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char expected[200], *text;
        snprintf(expected, sizeof expected, "#pragma OPENCL FP_CONTRACT OFF\n#line 1 \"eye\"\n%s", texts[i]);
        assert_ok(expand(texts[i], &text));
        assert_string_equal(text, expected);
        mst_free(text);
    }
}

static void after_a_quoted_comment_includes_are_seen(void **state) {
    (void)state;
    char *text;
    assert_ok(expand("char c[] = \"/*\", d = '\"', e = '\\''; // /*\n#include \"cluda.h\"\n", &text));
    assert_non_null(strstr(text, "#define STEP 3"));
    mst_free(text);
}

static void texts_that_include_each_other_end(void **state) {
    (void)state;
    const mst_code_source loop[] = {{"loop.h", "#include \"loop.h\"\n"}};
    const mst_code_program program = {.name = "eye", .text = "#include \"loop.h\"\n", .sources = loop, .count = 1};
    char *text = NULL;
    assert_refused(mst_opencl_expand(&program, &text), MUSTER_INVALID_ARGUMENT, "include each other");
    assert_null(text);
}

/* ---- several devices ---- */

enum { LAUNCHES = 300 };
typedef struct user {
    mst_device *device;
    mst_program *program;
    float a[256];
    bool right;
} user;

static void *use(void *context) {
    user *one = context;
    const mst_program_value values[] = {buffer_of(one->a, sizeof one->a), size_of(256)};
    const mst_program_grid grid = grid_of(4, 64, 0);
    one->right = true;
    for (int i = 0; i < LAUNCHES; i++) {
        one->right = one->right && one->device->program->launch(one->device, one->program, 0, &grid, values) == MUSTER_OK;
        if (i % 7 == 0)
            one->right = one->right && one->device->table->synchronize(one->device) == MUSTER_OK && one->a[255] == (float)(i + 1);
    }
    one->right = one->right && one->device->table->synchronize(one->device) == MUSTER_OK;
    for (int i = 0; i < 256; i++) one->right = one->right && one->a[i] == LAUNCHES;
    return NULL;
}

static void devices_run_beside_each_other(void **state) {
    (void)state;
    user users[4] = {{.device = NULL}};
    pthread_t threads[4];
    const char *const ordinals[] = {"0", "1", "2", "1000"}; /* more than cores: they share them */
    for (int i = 0; i < 4; i++) users[i].program = opened_program(users[i].device = opened(ordinals[i]), &increment);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_true(users[i].right);
        closed_program(users[i].device, users[i].program);
        users[i].device->table->close(users[i].device);
    }
}

static void *open_and_close(void *context) {
    mst_program *program = NULL;
    char *log = NULL;
    for (int i = 0; i < 5; i++) {
        if (try_open(context, &increment, &program, &log) != MUSTER_OK) return (void *)"not opened";
        ((mst_device *)context)->program->close(context, program);
    }
    return NULL;
}

static void several_threads_open_programs_of_one_device(void **state) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, *state), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* ---- waiting ---- */

static muster_status interrupted(void *user) { return ++*(int *)user < 3 ? MUSTER_OK : mst_error(MUSTER_TIMEOUT, "long enough"); }

static void a_wait_ends_when_the_interrupt_says_so(void **state) {
    mst_device *device = *state;
    static const source waits = {.name = "waits",
                                 .text = "__kernel void waits(volatile __global int *a) { while (a[0] == 0) ; a[1] = 5; }\n",
                                 .parameters = {{BUFFER}},
                                 .count = 1};
    int32_t *a = calloc(2, sizeof *a);
    assert_non_null(a);
    int asked = 0;
    mst_program *program = opened_program(device, &waits);
    device->interrupt = interrupted;
    device->interrupt_user = &asked;
    launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(a, 8)});
    assert_refused(device->table->synchronize(device), MUSTER_TIMEOUT, "long enough");
    assert_int_equal(asked, 3);
    assert_true(device->queued);
    __atomic_store_n(a, 1, __ATOMIC_SEQ_CST); /* the kernel sees it, and ends */
    device->interrupt = NULL;
    assert_ok(device->table->synchronize(device));
    assert_int_equal(a[1], 5);
    closed_program(device, program);
    free(a);
}

/* A kernel that does not end: nothing waits for it any more, and its memory stays. */
static void a_lost_device_is_left_alone(void **state) {
    (void)state;
    static int32_t *a;
    static const source waits = {.name = "waits",
                                 .text = "__kernel void waits(volatile __global int *a) { while (a[0] == 0) ; a[1] = 5; }\n",
                                 .parameters = {{BUFFER}},
                                 .count = 1};
    mst_device *device = opened("1");
    void *address = NULL;
    assert_ok(device->memory->allocate(device, 8, &address));
    a = address;
    memset(a, 0, 8);
    mst_program *program = opened_program(device, &waits);
    launched(device, program, grid_of(1, 1, 0), (mst_program_value[]){buffer_of(a, 8)});
    device->lost = true;
    closed_program(device, program);
    device->memory->release(device, a);
    device->table->close(device);
    /* it was the kernel's all the time */
    while (__atomic_load_n(a + 1, __ATOMIC_SEQ_CST) == 0) __atomic_store_n(a, 1, __ATOMIC_SEQ_CST);
    mst_free(a);
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

static void run_increment(mst_device *device, mst_program *program) {
    float a[64] = {0};
    launched(device, program, grid_of(1, 64, 0), (mst_program_value[]){buffer_of(a, sizeof a), size_of(64)});
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < 64; i++) assert_true(a[i] == 1);
}

static void the_second_open_finds_it_in_the_cache(void **state) {
    mst_device *device = *state, *other = opened("1");
    mst_program *first = opened_program(device, &increment), *second = opened_program(other, &increment);
    assert_false(first->found);
    assert_true(second->found);
    run_increment(device, first);
    run_increment(other, second);
    closed_program(device, first);
    closed_program(other, second);
    other->table->close(other);
}

static void damage(const char *how) {
    char command[256];
    snprintf(command, sizeof command, "for f in %s/*; do %s; done", folder, how);
    assert_int_equal(system(command), 0);
}

static void a_damaged_entry_is_a_miss(void **state) {
    mst_device *device = *state;
    static const char *const ways[] = {"truncate -s 200 $f", "truncate -s 0 $f",
                                       "printf x | dd of=$f bs=1 seek=2000 conv=notrunc status=none"};
    closed_program(device, opened_program(device, &increment));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        damage(ways[i]);
        mst_program *program = opened_program(device, &increment);
        assert_false(program->found);
        run_increment(device, program);
        closed_program(device, program);
    }
}

static void other_options_are_another_entry(void **state) {
    mst_device *device = *state;
    const mst_program_kernel kernel = {increment.name, increment.parameters, increment.count, false};
    mst_program_request request = {.code = {.name = increment.name, .text = increment.text}, .kernels = &kernel, .kernel_count = 1};
    for (int i = 0; i < 4; i++) {
        mst_program *program = NULL;
        char *log = NULL;
        request.options[0] = i % 2 ? "-DSTEP=2" : "-DSTEP=1";
        assert_ok(device->program->open(device, &request, &program, &log));
        assert_int_equal(program->found, i >= 2);
        closed_program(device, program);
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
        ended = status == MUSTER_OK && k > 3;
        if (status == MUSTER_OK)
            closed_program(device, program);
        else
            assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
        mst_free(log);
        assert_int_equal(mst_memory_live(), before);
    }
}

static void without_opencl_the_package_is_named(void **state) {
    mst_device *device = *state;
    int32_t language = -1;
    setenv("MUSTER_OPENCL_LIBRARY", "none", 1);
    assert_refused(device->program->language(device, &language), MUSTER_UNAVAILABLE, "install the package pocl-opencl-icd");
    refused_program(device, &increment, MUSTER_UNAVAILABLE, "install the package pocl-opencl-icd");
    setenv("MUSTER_OPENCL_LIBRARY", "libOpenCL.so.1", 1);
    refused_program(device, &increment, MUSTER_UNAVAILABLE, "expected an absolute path");
    unsetenv("MUSTER_OPENCL_LIBRARY");
    assert_ok(device->program->language(device, &language));
    assert_int_equal(language, MST_LANGUAGE_OPENCL);
    closed_program(device, opened_program(device, &increment));
}

/* Before anything else has opened it. */
static void a_library_that_cannot_be_opened_says_so(void **state) {
    mst_device *device = *state;
    setenv("MUSTER_OPENCL_LIBRARY", "/nowhere/libOpenCL.so.1", 1);
    refused_program(device, &increment, MUSTER_UNAVAILABLE, "/nowhere/libOpenCL.so.1");
    setenv("MUSTER_OPENCL_LIBRARY", "/lib/x86_64-linux-gnu/libm.so.6", 1);
    refused_program(device, &increment, MUSTER_UNAVAILABLE, "");
    unsetenv("MUSTER_OPENCL_LIBRARY");
}

/* In a process of its own: this one has OpenCL open. */
static void a_child_of_the_process_is_refused(void **state) {
    mst_device *device = *state;
    mst_program *program = opened_program(device, &increment);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mst_program *second = NULL;
        char *log = NULL;
        const bool right = try_open(device, &increment, &second, &log) == MUSTER_BAD_STATE && strstr(muster_last_error(), "forked") != NULL;
        device->program->close(device, program); /* comes back */
        device->table->close(device);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_increment(device, program);
    closed_program(device, program);
}

static void errors_have_names(void **state) {
    (void)state;
    static const struct {
        int code;
        muster_status status;
        const char *text;
    } cases[] = {{-5, MUSTER_OUT_OF_MEMORY, "CL_OUT_OF_RESOURCES (-5)"},   {-11, MUSTER_INVALID_ARGUMENT, "CL_BUILD_PROGRAM_FAILURE (-11)"},
                 {-30, MUSTER_SYSTEM, "CL_INVALID_VALUE (-30)"},           {-46, MUSTER_INVALID_ARGUMENT, "CL_INVALID_KERNEL_NAME (-46)"},
                 {-54, MUSTER_SYSTEM, "CL_INVALID_WORK_GROUP_SIZE (-54)"}, {-63, MUSTER_SYSTEM, "CL_INVALID_GLOBAL_WORK_SIZE (-63)"},
                 {-1001, MUSTER_UNAVAILABLE, "CL_PLATFORM_NOT_FOUND_KHR"}, {-25, MUSTER_SYSTEM, "an error without a name (-25)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(mst_opencl_error(cases[i].code, "clX", "this"), cases[i].status, cases[i].text);
    assert_refused(mst_opencl_error(-5, "clX", "this"), MUSTER_OUT_OF_MEMORY, "this: OpenCL: clX: expected success");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin_test, end_test)
#define IN_A_CACHE(test) cmocka_unit_test_setup_teardown(test, begin_cache, end_cache)

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        CASE(a_library_that_cannot_be_opened_says_so),
        CASE(without_opencl_the_package_is_named),
        CASE(errors_have_names),
        CASE(a_launch_is_queued_and_sync_ends_it),
        CASE(launches_run_in_order),
        CASE(copies_come_after_launches),
        CASE(any_address_of_host_memory_is_a_buffer),
        CASE(scalars_of_every_size_arrive_bit_for_bit),
        CASE(arguments_are_copied),
        CASE(no_memory_is_a_null_pointer),
        CASE(groups_share_dynamic_local_memory),
        CASE(grids_have_up_to_three_dimensions),
        CASE(limits_are_those_of_one_core),
        CASE(grids_beyond_the_limits_are_refused_and_leave_the_device_usable),
        CASE(a_text_that_does_not_compile_says_where),
        CASE(warnings_come_back_with_a_program),
        CASE(a_function_that_is_not_there_is_named),
        CASE(a_declaration_must_fit_the_text),
        CASE(a_text_for_gpus_is_refused),
        CASE(an_include_is_replaced_and_lines_keep_their_numbers),
        CASE(what_is_no_include_stays),
        CASE(after_a_quoted_comment_includes_are_seen),
        CASE(texts_that_include_each_other_end),
        CASE(devices_run_beside_each_other),
        CASE(several_threads_open_programs_of_one_device),
        CASE(a_wait_ends_when_the_interrupt_says_so),
        CASE(a_lost_device_is_left_alone),
        CASE(a_child_of_the_process_is_refused),
        CASE(every_allocation_of_an_open_may_fail),
        IN_A_CACHE(the_second_open_finds_it_in_the_cache),
        IN_A_CACHE(a_damaged_entry_is_a_miss),
        IN_A_CACHE(other_options_are_another_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
