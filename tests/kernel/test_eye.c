/* Theano's own kernels, unchanged: the identity with a diagonal anywhere, and the one of its
 * tutorial. */
#include "kernel_fixture.h"

static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:2");
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

static const int64_t cases[][3] = {{3, 3, 0}, {3, 5, 0}, {5, 3, 0},  {3, 3, 1},  {3, 3, -1}, {3, 5, 1},  {3, 5, -1}, {5, 3, 1}, {5, 3, -1},
                                   {5, 3, 3}, {3, 5, 3}, {5, 3, -3}, {3, 5, -3}, {5, 3, 6},  {3, 5, -6}, {0, 4, 0},  {4, 0, 0}, {1, 1, 0}};

static muster_kernel *eye_of(muster_dtype dtype) {
    muster_kernel *kernel = NULL;
    int32_t count;
    assert_ok(
        muster_kernels_parse(runtime, "eye.kernels", kernel_file_eye, (int64_t)strlen(kernel_file_eye), &dtype, 1, &kernel, 1, &count));
    assert_int_equal(count, 1);
    return kernel;
}

/* The text's own unsigned sums do not hold for a diagonal outside of the matrix: its caller leaves
 * the launch out. */
static void run_eye(muster_kernel *kernel, muster_tensor out, int64_t n, int64_t m, int64_t k, int64_t groups, int64_t threads) {
    const muster_grid grid = kernel_grid(k < m && -k < n ? groups : 0, threads);
    assert_ok(
        muster_kernel_call(kernel, &grid,
                           ARGUMENTS(muster_argument_base(out), muster_argument_size((uint64_t)out.byte_offset),
                                     muster_argument_size((uint64_t)n), muster_argument_size((uint64_t)m), muster_argument_ssize(k))));
}

static void check_eye(muster_dtype dtype, const void *values, int64_t n, int64_t m, int64_t k) {
    const float f = 1;
    const int32_t i32 = 1;
    const uint16_t half = 0x3c00;
    const void *one = dtype == MUSTER_F32 ? (const void *)&f : dtype == MUSTER_I32 ? (const void *)&i32 : (const void *)&half;
    const size_t size = (size_t)muster_dtype_size(dtype);
    static const char zero[8];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            if (memcmp((const char *)values + (size_t)(i * m + j) * size, j - i == k ? one : zero, size) != 0)
                fail_msg("eye(%d, %d, %d) of %s is wrong at (%d, %d)", (int)n, (int)m, (int)k, muster_dtype_name(dtype), (int)i, (int)j);
}

static void eye_is_right_for_every_diagonal(void **state) {
    (void)state;
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_I32, MUSTER_F16};
    for (size_t d = 0; d < 3; d++) {
        muster_kernel *kernel = eye_of(dtypes[d]);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const int64_t n = cases[c][0], m = cases[c][1], k = cases[c][2];
            char values[2][25 * 8];
            for (int way = 0; way < 2; way++) {
                kernel_array out = kernel_put(runtime, (int32_t)(c % 2), dtypes[d], n * m, NULL);
                run_eye(kernel, out.view, n, m, k, way ? 256 : 1, way ? 1 : 256);
                kernel_get(&out, values[way]);
                check_eye(dtypes[d], values[way], n, m, k);
                kernel_drop(&out);
            }
            assert_memory_equal(values[0], values[1], (size_t)(n * m * muster_dtype_size(dtypes[d])));
        }
        assert_ok(muster_kernel_destroy(kernel));
    }
}

static void what_lies_before_the_offset_stays(void **state) {
    (void)state;
    muster_kernel *kernel = eye_of(MUSTER_F32);
    float values[3 + 9], expected[3] = {5, 6, 7};
    memset(values, 0, sizeof values);
    memcpy(values, expected, sizeof expected);
    kernel_array out = kernel_put(runtime, 0, MUSTER_F32, 12, values);
    muster_tensor behind = out.view;
    behind.byte_offset += 12;
    behind.shape[0] = 9;
    run_eye(kernel, behind, 3, 3, 0, 1, 256);
    kernel_get(&out, values);
    assert_memory_equal(values, expected, sizeof expected);
    check_eye(MUSTER_F32, values + 3, 3, 3, 0);
    kernel_drop(&out);
    assert_ok(muster_kernel_destroy(kernel));
}

static void the_tutorials_kernel_runs_unchanged(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "k");
    kernel_array out = kernel_put(runtime, 0, MUSTER_F64, 20, NULL);
    double values[20];
    assert_ok(muster_kernel_call_elements(kernel, 256, 0,
                                          ARGUMENTS(muster_argument_buffer(out.view), muster_argument_size(4), muster_argument_size(5))));
    kernel_get(&out, values);
    for (int i = 0; i < 20; i++) assert_true(values[i] == (i / 5 == i % 5));
    kernel_drop(&out);
    assert_ok(muster_kernel_destroy(kernel));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eye_is_right_for_every_diagonal),
        cmocka_unit_test(what_lies_before_the_offset_stays),
        cmocka_unit_test(the_tutorials_kernel_runs_unchanged),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
