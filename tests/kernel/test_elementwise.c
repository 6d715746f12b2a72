/* Element by element: offsets, layouts, half precision, repeated axes; filling. */
#include "kernel_fixture.h"

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

#define SIZE(n) muster_argument_size((uint64_t)(n))
#define STEP(n) muster_argument_ssize(n)

static void sums_are_right_also_behind_an_offset(void **state) {
    (void)state;
    static const uint32_t a[] = {9, 9, 9, 1, 2, 3}, b[] = {4, 5, 6}, expected[] = {5, 7, 9};
    uint32_t c[3];
    kernel_array x = kernel_put(runtime, 0, MUSTER_U32, 6, a), y = kernel_put(runtime, 0, MUSTER_U32, 3, b),
                 z = kernel_put(runtime, 0, MUSTER_U32, 3, NULL);
    muster_kernel *plain = kernel_make(runtime, "add_u32"), *offset = kernel_make(runtime, "add_u32_offset");
    muster_tensor behind = x.view;
    behind.byte_offset += 12;
    behind.shape[0] = 3;
    assert_ok(muster_kernel_call_elements(
        plain, 3, 0, ARGUMENTS(muster_argument_buffer(behind), muster_argument_buffer(y.view), muster_argument_buffer(z.view), SIZE(3))));
    kernel_get(&z, c);
    assert_memory_equal(c, expected, sizeof expected);
    kernel_drop(&z);
    z = kernel_put(runtime, 0, MUSTER_U32, 3, NULL);
    assert_ok(muster_kernel_call_elements(offset, 3, 0,
                                          ARGUMENTS(muster_argument_base(behind), SIZE(behind.byte_offset), muster_argument_buffer(y.view),
                                                    muster_argument_buffer(z.view), SIZE(3))));
    kernel_get(&z, c);
    assert_memory_equal(c, expected, sizeof expected);
    assert_ok(muster_kernel_call_elements(
        plain, 0, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_buffer(y.view), muster_argument_buffer(z.view), SIZE(0))));
    kernel_drop(&x);
    kernel_drop(&y);
    kernel_drop(&z);
    assert_ok(muster_kernel_destroy(plain));
    assert_ok(muster_kernel_destroy(offset));
}

static void halves_are_added(void **state) {
    (void)state;
    static const uint16_t a[] = {0x3C00, 0x4000, 0x4200}, b[] = {0x4400, 0x4500, 0x4600}, expected[] = {0x4500, 0x4700, 0x4880};
    uint16_t c[3];
    kernel_array x = kernel_put(runtime, 0, MUSTER_F16, 3, a), y = kernel_put(runtime, 0, MUSTER_F16, 3, b),
                 z = kernel_put(runtime, 0, MUSTER_F16, 3, NULL);
    muster_kernel *kernel = kernel_make(runtime, "add_half");
    assert_ok(muster_kernel_call_elements(
        kernel, 3, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_buffer(y.view), muster_argument_buffer(z.view), SIZE(3))));
    kernel_get(&z, c);
    assert_memory_equal(c, expected, sizeof expected);
    kernel_drop(&x);
    kernel_drop(&y);
    kernel_drop(&z);
    assert_ok(muster_kernel_destroy(kernel));
}

/* a[1, 3] + 2 b[2, 1]; and a matrix in C order with one in Fortran order. */
static void axes_repeat_and_layouts_mix(void **state) {
    (void)state;
    static const uint32_t a[] = {1, 2, 3}, b[] = {4, 5}, expected[] = {9, 10, 11, 11, 12, 13};
    uint32_t c[6];
    kernel_array x = kernel_put(runtime, 0, MUSTER_U32, 3, a), y = kernel_put(runtime, 0, MUSTER_U32, 2, b),
                 z = kernel_put(runtime, 0, MUSTER_U32, 6, NULL);
    muster_kernel *kernel = kernel_make(runtime, "a_plus_2b");
    assert_ok(muster_kernel_call_elements(kernel, 6, 0,
                                          ARGUMENTS(muster_argument_buffer(x.view), STEP(0), STEP(1), muster_argument_buffer(y.view),
                                                    STEP(1), STEP(0), muster_argument_buffer(z.view), STEP(3), STEP(1), SIZE(2), SIZE(3))));
    kernel_get(&z, c);
    assert_memory_equal(c, expected, sizeof expected);
    kernel_drop(&x);
    kernel_drop(&y);
    kernel_drop(&z);
    assert_ok(muster_kernel_destroy(kernel));
}

static void a_scalar_times_integers_in_another_layout(void **state) {
    (void)state;
    static const int32_t values[] = {0, 1, 2, 3};
    float sums[4] = {2, 2, 2, 2};
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 4, values), y = kernel_put(runtime, 0, MUSTER_F32, 4, sums);
    muster_kernel *kernel = kernel_make(runtime, "ax_plus_y");
    assert_ok(muster_kernel_call_elements(kernel, 4, 0,
                                          ARGUMENTS(muster_argument_float(MUSTER_F32, 1.1), muster_argument_buffer(x.view), STEP(2),
                                                    STEP(1), muster_argument_buffer(y.view), STEP(1), STEP(2), SIZE(2), SIZE(2))));
    kernel_get(&y, sums);
    const volatile float a = 1.1f; /* a product and a sum, each rounded */
    const float products[] = {a * 0, a * 2, a * 1, a * 3};
    for (int i = 0; i < 4; i++) assert_true(sums[i] == products[i] + 2);
    kernel_drop(&x);
    kernel_drop(&y);
    assert_ok(muster_kernel_destroy(kernel));
}

/* Operations of Muster's own repeat axes of inputs, and never of an output. */
static muster_status add(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_binary_op(w, MUSTER_ADD, in[0], in[1], out[0]);
}

static void an_output_is_never_repeated(void **state) {
    (void)state;
    static float a[5 * 4], b[4], c[4];
    muster_function *function;
    assert_ok(muster_function_create(runtime, "add", add, NULL, &function));
    assert_ok(muster_function_input(function, "a", MUSTER_F32, 2, MUSTER_BROADCAST));
    assert_ok(muster_function_input(function, "b", MUSTER_F32, 2, MUSTER_BROADCAST));
    assert_ok(muster_function_output(function, "c", MUSTER_F32, 2, MUSTER_MASTER));
    assert_refused(muster_function_call(function, (muster_tensor[]){muster_f32(a, 5, 4), muster_f32(b, 1, 4)}, 2,
                                        (muster_tensor[]){muster_f32(c, 1, 4)}, 1, NULL),
                   MUSTER_SHAPE_MISMATCH, "expected a shape that broadcasts to");
    assert_ok(muster_function_destroy(function));
}

static muster_status fill_bytes(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    (void)user;
    return muster_fill(w, 0x5A, out[0]);
}

static void bytes_are_filled_for_every_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 3, 4, 8, 16, 17};
    muster_function *function;
    assert_ok(muster_function_create(runtime, "fill_bytes", fill_bytes, NULL, &function));
    assert_ok(muster_function_output(function, "bytes", MUSTER_U8, 1, MUSTER_MASTER));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char bytes[20];
        memset(bytes, 1, sizeof bytes);
        assert_ok(muster_function_call(function, NULL, 0, (muster_tensor[]){muster_u8(bytes, lengths[i])}, 1, NULL));
        for (int64_t j = 0; j < 20; j++) assert_int_equal(bytes[j], j < lengths[i] ? 0x5A : 1);
    }
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_also_behind_an_offset), cmocka_unit_test(halves_are_added),
        cmocka_unit_test(axes_repeat_and_layouts_mix),          cmocka_unit_test(a_scalar_times_integers_in_another_layout),
        cmocka_unit_test(an_output_is_never_repeated),          cmocka_unit_test(bytes_are_filled_for_every_length),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
