/* Scalars of every type arrive bit for bit; making arguments; the constants of the dialect. */
#include "kernel_fixture.h"

#include <float.h>
#include <math.h>

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

static void every_scalar_arrives(void **state) {
    (void)state;
    const int64_t i64 = -(INT64_C(1) << 40);
    const uint64_t u64 = (UINT64_C(1) << 63) + 1;
    uint64_t out[11];
    double real[4];
    muster_kernel *kernel = kernel_make(runtime, "every_type");
    kernel_array o = kernel_put(runtime, 0, MUSTER_U64, 11, NULL), r = kernel_put(runtime, 0, MUSTER_F64, 4, NULL);
    assert_ok(muster_kernel_call_elements(
        kernel, 1, 0,
        ARGUMENTS(muster_argument_buffer(o.view), muster_argument_int(MUSTER_I8, -1), muster_argument_int(MUSTER_U8, 255),
                  muster_argument_int(MUSTER_I16, -32768), muster_argument_int(MUSTER_PARAMETER_USHORT, 65535),
                  muster_argument_int(MUSTER_I32, INT32_MIN), muster_argument_int(MUSTER_U32, UINT32_MAX),
                  muster_argument_int(MUSTER_I64, i64), muster_argument_bits(MUSTER_U64, u64), muster_argument_size(UINT64_C(1) << 33),
                  muster_argument_ssize(-(INT64_C(1) << 33)), muster_argument_int(MUSTER_BOOL, 1), muster_argument_buffer(r.view),
                  muster_argument_float(MUSTER_F32, 0.1), muster_argument_float(MUSTER_F64, 0.1), muster_argument_bits(MUSTER_F16, 0x3C00),
                  muster_argument_float(MUSTER_BF16, -2.5))));
    kernel_get(&o, out);
    kernel_get(&r, real);
    const uint64_t expected[] = {(uint64_t)-1,
                                 255,
                                 (uint64_t)INT16_MIN,
                                 65535,
                                 (uint64_t)INT32_MIN,
                                 UINT32_MAX,
                                 (uint64_t)i64,
                                 u64,
                                 UINT64_C(1) << 33,
                                 (uint64_t) - (INT64_C(1) << 33),
                                 1};
    assert_memory_equal(out, expected, sizeof expected);
    assert_true(real[0] == (double)0.1f && real[1] == 0.1 && real[2] == 1 && real[3] == -2.5);
    kernel_drop(&o);
    kernel_drop(&r);
    assert_ok(muster_kernel_destroy(kernel));
}

static void a_kernel_may_have_no_parameters(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "no_parameters");
    assert_int_equal(muster_kernel_parameter_count(kernel), 0);
    assert_ok(muster_kernel_call_elements(kernel, 5, 0, NULL, 0));
    const muster_grid grid = kernel_grid(2, 3);
    assert_ok(muster_kernel_call(kernel, &grid, NULL, 0));
    assert_ok(muster_kernel_destroy(kernel));
}

static void the_constants_are_those_of_both_languages(void **state) {
    (void)state;
    float f[6];
    double d[17];
    muster_kernel *kernel = kernel_make(runtime, "constants");
    kernel_array fs = kernel_put(runtime, 0, MUSTER_F32, 6, NULL), ds = kernel_put(runtime, 0, MUSTER_F64, 17, NULL);
    const muster_grid one = kernel_grid(1, 1);
    assert_ok(muster_kernel_call(kernel, &one, ARGUMENTS(muster_argument_buffer(fs.view), muster_argument_buffer(ds.view))));
    kernel_get(&fs, f);
    kernel_get(&ds, d);
    assert_true(f[0] == INFINITY && f[1] == -INFINITY && f[2] != f[2] && f[3] == FLT_MAX && f[4] == INFINITY && f[5] == 1);
    const double expected[] = {M_E, M_LOG2E, M_LOG10E, M_LN2, M_LN10, M_PI, M_PI_2, M_PI_4, M_1_PI, M_2_PI, M_2_SQRTPI, M_SQRT2, M_SQRT1_2};
    assert_true(d[0] == (double)INFINITY);
    for (int i = 0; i < 13; i++) assert_true(d[1 + i] == expected[i]);
    assert_true(d[14] == 88);
    assert_true(d[15] == 8888);
    assert_true(d[16] >= 1);
    kernel_drop(&fs);
    kernel_drop(&ds);
    assert_ok(muster_kernel_destroy(kernel));
}

static void values_are_converted(void **state) {
    (void)state;
    assert_int_equal(muster_argument_float(MUSTER_F16, 1 + 0x1p-11).bits, 0x3C00);           /* ties to even */
    assert_int_equal(muster_argument_float(MUSTER_F16, 1 + 0x1p-11 + 0x1p-40).bits, 0x3C01); /* rounded once */
    assert_int_equal(muster_argument_float(MUSTER_F16, 1e9).bits, 0x7C00);
    assert_int_equal(muster_argument_int(MUSTER_F16, 2049).bits, 0x6800);
    assert_int_equal(muster_argument_int(MUSTER_BF16, 257).bits, 0x4380);
    assert_int_equal(muster_argument_int(MUSTER_F32, 3).bits, 0x40400000);
    assert_int_equal(muster_argument_float(MUSTER_I32, -7).bits, (uint64_t)-7);
    assert_int_equal(muster_argument_float(MUSTER_PARAMETER_SIZE, 0x1p63).bits, UINT64_C(1) << 63);
    assert_int_equal(muster_argument_float(MUSTER_BOOL, 1).bits, 1);
    assert_int_equal(muster_argument_float(MUSTER_PARAMETER_SSIZE, -0x1p63).bits, UINT64_C(1) << 63);
}

/* What a type does not hold is refused where it would be used. */
static void refused_value(int32_t type, muster_argument argument, const char *text) {
    const int32_t types[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, type};
    muster_kernel *kernel;
    char source[100];
    snprintf(source, sizeof source, "KERNEL void fill(GLOBAL_MEM ga_int *x, ga_size n, %s v) {}",
             type == MUSTER_I8    ? "ga_byte"
             : type == MUSTER_U64 ? "ga_ulong"
                                  : "ga_bool");
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 1, NULL);
    assert_ok(muster_kernel_create(runtime, "fill", source, types, 3, NULL, &kernel));
    assert_refused(muster_kernel_call_elements(kernel, 1, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_size(1), argument)),
                   MUSTER_OUT_OF_RANGE, text);
    assert_ok(muster_kernel_destroy(kernel));
    kernel_drop(&x);
}

static void values_that_do_not_fit_are_refused(void **state) {
    (void)state;
    refused_value(MUSTER_I8, muster_argument_int(MUSTER_I8, 128),
                  "muster_kernel_call_elements: arguments[2] of kernel 'fill': expected a value that i8 holds, received 128");
    refused_value(MUSTER_I8, muster_argument_int(MUSTER_I8, -129), "received -129");
    refused_value(MUSTER_I8, muster_argument_float(MUSTER_I8, 2.5), "received 2.5");
    refused_value(MUSTER_U64, muster_argument_int(MUSTER_U64, -1), "expected a value that u64 holds, received -1");
    refused_value(MUSTER_U64, muster_argument_float(MUSTER_U64, 0x1p64), "received 1.8446744073709552e+19");
    refused_value(MUSTER_U64, muster_argument_float(MUSTER_U64, NAN), "received ");
    refused_value(MUSTER_BOOL, muster_argument_int(MUSTER_BOOL, 2), "expected a value that bool holds, received 2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_arrives),
        cmocka_unit_test(a_kernel_may_have_no_parameters),
        cmocka_unit_test(the_constants_are_those_of_both_languages),
        cmocka_unit_test(values_are_converted),
        cmocka_unit_test(values_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
