/* f16 and bf16 as storage: the device's conversions are the host's, bit for bit. */
#include "kernel_fixture.h"

#include <math.h>

enum { ALL = 65536 };
static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:1");
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

static void one_more_of_every_kind(void **state) {
    (void)state;
    static const uint16_t x[] = {0x0000, 0x3C00, 0x4000, 0x4200, 0x0400, 0x0001, 0x7BFF, 0x7C00, 0xBC00, 0x6800, 0x1000, 0x7E00};
    static const uint16_t expected[] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x3C00, 0x3C00, 0x7BFF, 0x7C00, 0x0000, 0x6800, 0x3C00, 0x7E00};
    enum { N = sizeof x / sizeof *x };
    uint16_t y[N];
    muster_kernel *kernel = kernel_make(runtime, "inc_half");
    kernel_array from = kernel_put(runtime, 0, MUSTER_F16, N, x), to = kernel_put(runtime, 0, MUSTER_F16, N, NULL);
    assert_ok(muster_kernel_call_elements(
        kernel, N, 0, ARGUMENTS(muster_argument_size(N), muster_argument_buffer(from.view), muster_argument_buffer(to.view))));
    kernel_get(&to, y);
    for (int i = 0; i < N; i++) {
        assert_int_equal(y[i], expected[i]);
        assert_int_equal(muster_f32_to_f16(muster_f16_to_f32(x[i]) + 1), expected[i]);
    }
    kernel_drop(&from);
    kernel_drop(&to);
    assert_ok(muster_kernel_destroy(kernel));
}

static void check_table(const char *name, muster_dtype dtype, float (*to_float)(uint16_t), uint16_t (*from_float)(float)) {
    static uint16_t halves[ALL], back[ALL];
    static float floats[ALL];
    for (int i = 0; i < ALL; i++) halves[i] = (uint16_t)i;
    muster_kernel *kernel = kernel_make(runtime, name);
    kernel_array h = kernel_put(runtime, 0, dtype, ALL, halves), f = kernel_put(runtime, 0, MUSTER_F32, ALL, NULL),
                 b = kernel_put(runtime, 0, dtype, ALL, NULL);
    assert_ok(muster_kernel_call_elements(kernel, ALL, 0,
                                          ARGUMENTS(muster_argument_buffer(h.view), muster_argument_buffer(f.view),
                                                    muster_argument_buffer(b.view), muster_argument_size(ALL))));
    kernel_get(&f, floats);
    kernel_get(&b, back);
    for (int i = 0; i < ALL; i++) {
        const float expected = to_float((uint16_t)i);
        if (memcmp(&floats[i], &expected, sizeof expected) != 0)
            fail_msg("%s: %04x becomes %a, not %a", name, i, (double)floats[i], (double)expected);
        if (back[i] != from_float(expected)) fail_msg("%s: %04x comes back as %04x, not %04x", name, i, back[i], from_float(expected));
    }
    kernel_drop(&h);
    kernel_drop(&f);
    kernel_drop(&b);
    assert_ok(muster_kernel_destroy(kernel));
}

static void every_half_becomes_the_same_float(void **state) {
    (void)state;
    check_table("half_tables", MUSTER_F16, muster_f16_to_f32, muster_f32_to_f16);
}
static void every_bf16_becomes_the_same_float(void **state) {
    (void)state;
    check_table("bf16_tables", MUSTER_BF16, muster_bf16_to_f32, muster_f32_to_bf16);
}

/* Each representable value, the middle to the next, and what lies closest to the middle at both
 * sides; and bits at random. */
static void check_rounding(const char *name, muster_dtype dtype, float (*to_float)(uint16_t), uint16_t (*from_float)(float)) {
    enum { N = 4 * ALL };
    static float x[N];
    static uint16_t y[N];
    uint64_t seed = fixture_seed();
    for (int i = 0; i < ALL; i++) {
        const float a = to_float((uint16_t)i), b = to_float((uint16_t)(i + 1)), middle = a + (b - a) / 2;
        const uint32_t bits = fixture_random(&seed, UINT32_MAX);
        x[4 * i] = middle;
        x[4 * i + 1] = nextafterf(middle, INFINITY);
        x[4 * i + 2] = nextafterf(middle, -INFINITY);
        memcpy(&x[4 * i + 3], &bits, sizeof bits);
    }
    muster_kernel *kernel = kernel_make(runtime, name);
    kernel_array from = kernel_put(runtime, 0, MUSTER_F32, N, x), to = kernel_put(runtime, 0, dtype, N, NULL);
    assert_ok(muster_kernel_call_elements(
        kernel, N, 0, ARGUMENTS(muster_argument_buffer(from.view), muster_argument_buffer(to.view), muster_argument_size(N))));
    kernel_get(&to, y);
    for (int i = 0; i < N; i++)
        if (y[i] != from_float(x[i])) fail_msg("%s: %a becomes %04x, not %04x", name, (double)x[i], y[i], from_float(x[i]));
    kernel_drop(&from);
    kernel_drop(&to);
    assert_ok(muster_kernel_destroy(kernel));
}

static void floats_are_rounded_to_even_halves(void **state) {
    (void)state;
    check_rounding("to_half", MUSTER_F16, muster_f16_to_f32, muster_f32_to_f16);
    check_rounding("to_bf16", MUSTER_BF16, muster_bf16_to_f32, muster_f32_to_bf16);
}

/* One text for every pair of element types. */
static void generic_texts_load_work_and_store(void **state) {
    (void)state;
    static const muster_dtype pairs[][2] = {{MUSTER_F16, MUSTER_F16},  {MUSTER_BF16, MUSTER_F32}, {MUSTER_F32, MUSTER_F16},
                                            {MUSTER_I32, MUSTER_BF16}, {MUSTER_U8, MUSTER_BOOL},  {MUSTER_I16, MUSTER_F32},
                                            {MUSTER_I64, MUSTER_U64},  {MUSTER_I8, MUSTER_U32}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        enum { N = 5 };
        static const double values[N] = {0, 1, 2, 41, 99};
        muster_kernel *kernel;
        int32_t count;
        assert_ok(muster_kernels_parse(runtime, "generic.kernels", kernel_file_generic, (int64_t)strlen(kernel_file_generic), pairs[p], 2,
                                       &kernel, 1, &count));
        kernel_array x = kernel_put(runtime, 0, pairs[p][0], N, NULL), y = kernel_put(runtime, 0, pairs[p][1], N, NULL);
        char in[N * 8], out[N * 8], expected[N * 8];
        for (int i = 0; i < N; i++) {
            const muster_argument a = muster_argument_float(pairs[p][0], values[i]),
                                  b = muster_argument_float(pairs[p][1], pairs[p][1] == MUSTER_BOOL ? 1 : values[i] + 1);
            memcpy(in + i * muster_dtype_size(pairs[p][0]), &a.bits, (size_t)muster_dtype_size(pairs[p][0]));
            memcpy(expected + i * muster_dtype_size(pairs[p][1]), &b.bits, (size_t)muster_dtype_size(pairs[p][1]));
        }
        kernel_drop(&x);
        x = kernel_put(runtime, 0, pairs[p][0], N, in);
        assert_ok(muster_kernel_call_elements(
            kernel, N, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_buffer(y.view), muster_argument_size(N))));
        kernel_get(&y, out);
        assert_memory_equal(out, expected, (size_t)(N * muster_dtype_size(pairs[p][1])));
        kernel_drop(&x);
        kernel_drop(&y);
        assert_ok(muster_kernel_destroy(kernel));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_of_every_kind),
        cmocka_unit_test(every_half_becomes_the_same_float),
        cmocka_unit_test(every_bf16_becomes_the_same_float),
        cmocka_unit_test(floats_are_rounded_to_even_halves),
        cmocka_unit_test(generic_texts_load_work_and_store),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
