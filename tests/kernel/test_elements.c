/* Launches by a number of elements. */
#include "kernel_fixture.h"

#include <stdlib.h>

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

static void check_inc(muster_kernel *kernel, int64_t n) {
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i <= n; i++) values[i] = (float)i;
    kernel_array x = kernel_put(runtime, 0, MUSTER_F32, n, values);
    assert_ok(muster_kernel_call_elements(kernel, n, 0, ARGUMENTS(muster_argument_size((uint64_t)n), muster_argument_buffer(x.view))));
    kernel_get(&x, values);
    for (int64_t i = 0; i < n; i++)
        if (values[i] != (float)i + 1) fail_msg("%lld of %lld: %g", (long long)i, (long long)n, (double)values[i]);
    kernel_drop(&x);
    free(values);
}

static void every_element_is_done_once(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "inc");
    static const int64_t sizes[] = {0, 1, 2, 255, 256, 257, 4097, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_inc(kernel, sizes[i]);
    assert_ok(muster_kernel_destroy(kernel));
}

/* Element (i, j) shows how often it was visited (in units of 1), and as which pair. */
static void check_pairs(muster_kernel *kernel, uint32_t n, int64_t m, int64_t elements) {
    const int64_t count = m > 0 ? n * m : 0;
    uint32_t *values = calloc((size_t)(count + 1), sizeof *values);
    assert_non_null(values);
    kernel_array x = kernel_put(runtime, 0, MUSTER_U32, count + 1, values);
    assert_ok(muster_kernel_call_elements(
        kernel, elements, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_int(MUSTER_U32, n), muster_argument_ssize(m))));
    kernel_get(&x, values);
    for (int64_t at = 0; at < count; at++) {
        const int64_t i = at / m, j = at % m;
        const uint32_t expected = (uint32_t)(j % 3 == 1 ? 1 : 1 + 16 + i * 256 + j);
        if (values[at] != expected)
            fail_msg("(%lld, %lld) of (%u, %lld): %u in place of %u", (long long)i, (long long)j, n, (long long)m, values[at], expected);
    }
    assert_int_equal(values[count], 0);
    kernel_drop(&x);
    free(values);
}

static void every_pair_is_done_once(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "pairs");
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 255, 257, 1031};
    int cases = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            const int64_t count = sizes[i] * sizes[j];
            check_pairs(kernel, (uint32_t)sizes[i], sizes[j], count);
            check_pairs(kernel, (uint32_t)sizes[i], sizes[j], 1);                 /* one thread for all */
            check_pairs(kernel, (uint32_t)sizes[i], sizes[j], 3 * count / 2 + 5); /* more threads than pairs */
            cases += 3;
        }
    check_pairs(kernel, 5, -3, 15); /* a negative size: no pairs */
    assert_int_equal(cases, 192);
    assert_ok(muster_kernel_destroy(kernel));
}

typedef struct asked {
    muster_kernel *kernel;
    muster_kernel_limits limits;
} asked;

static muster_status ask_schedule(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    (void)out;
    const asked *a = user;
    static const int64_t sizes[] = {1, 2, 255, 256, 257, 1000003, INT64_C(1) << 40, INT64_MAX};
    muster_grid grid;
    MUSTER_TRY(muster_kernel_suggest_grid(w, a->kernel, 0, &grid));
    if (grid.dims != 1 || grid.groups[0] != 0) return muster_fail(MUSTER_USER, "no elements want no groups");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        MUSTER_TRY(muster_kernel_suggest_grid(w, a->kernel, sizes[i], &grid));
        if (grid.groups[0] < 1 || grid.groups[0] > a->limits.groups_in[0]) return muster_fail(MUSTER_USER, "groups beyond the limits");
        if (grid.threads[0] < 1 || grid.threads[0] > a->limits.threads) return muster_fail(MUSTER_USER, "threads beyond the limits");
        if (grid.groups[0] - 1 > sizes[i] / grid.threads[0]) return muster_fail(MUSTER_USER, "groups without work");
    }
    if (muster_kernel_suggest_grid(w, a->kernel, -1, &grid) != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_USER, "-1 elements are too few");
    if (muster_kernel_suggest_grid(w, a->kernel, 1, NULL) != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_USER, "no place for the grid");
    return muster_kernel_suggest_grid(w, NULL, 1, &grid) == MUSTER_INVALID_ARGUMENT ? MUSTER_OK : muster_fail(MUSTER_USER, "no kernel");
}

static void the_schedule_keeps_to_the_limits(void **state) {
    (void)state;
    asked a = {.kernel = kernel_make(runtime, "inc")};
    muster_function *function;
    muster_kernel_limits_init(&a.limits);
    assert_ok(muster_kernel_get_limits(a.kernel, 0, &a.limits));
    assert_true(a.limits.threads >= 1 && a.limits.preferred >= 1 && a.limits.processors >= 1 && a.limits.local_bytes >= 1024);
    assert_ok(muster_function_create(runtime, "ask", ask_schedule, &a, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
    assert_refused(muster_kernel_get_limits(a.kernel, 2, &a.limits), MUSTER_OUT_OF_RANGE,
                   "muster_kernel_get_limits: rank: expected 0 to 1, received 2");
    assert_refused(muster_kernel_get_limits(a.kernel, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "limits: expected the address of the limits, received NULL");
    assert_refused(muster_kernel_get_limits(NULL, 0, &a.limits), MUSTER_INVALID_ARGUMENT, "kernel: expected a kernel");
    assert_ok(muster_kernel_destroy(a.kernel));
}

/* In order with the worker's other operations, on every worker at once; outputs and operations see
 * the result without a sync. */
static muster_status inc_between(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &x));
    MUSTER_TRY(muster_copy(w, in[0], x));
    for (int i = 0; i < 3; i++)
        MUSTER_TRY(muster_kernel_launch_elements(w, user, x.shape[0], 0,
                                                 ARGUMENTS(muster_argument_size((uint64_t)x.shape[0]), muster_argument_buffer(x))));
    MUSTER_TRY(muster_scale_add(w, 2, x, 0, x));
    MUSTER_TRY(muster_kernel_launch_elements(w, user, x.shape[0], 0,
                                             ARGUMENTS(muster_argument_size((uint64_t)x.shape[0]), muster_argument_buffer(x))));
    return muster_copy(w, x, out[0]);
}

static void launches_are_in_order_with_operations(void **state) {
    (void)state;
    enum { N = 1001 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    muster_kernel *kernel = kernel_make(runtime, "inc");
    muster_function *function;
    assert_ok(muster_function_create(runtime, "inc_between", inc_between, kernel, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(function, "y", MUSTER_F32, 1, MUSTER_GATHER));
    for (int round = 0; round < 20; round++) {
        memset(y, 0, sizeof y);
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(x, N)}, 1, (muster_tensor[]){muster_f32(y, N)}, 1, NULL));
        for (int i = 0; i < N; i++) assert_true(y[i] == 2 * ((float)i + 3) + 1);
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_kernel_destroy(kernel));
}

/* Straight into the output, and out of the input, of the function. */
static muster_status inc_output(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    MUSTER_TRY(muster_copy(w, in[0], out[0]));
    return muster_kernel_launch_elements(w, user, out[0].shape[0], 0,
                                         ARGUMENTS(muster_argument_size((uint64_t)out[0].shape[0]), muster_argument_buffer(out[0])));
}

static void outputs_are_collected_behind_launches(void **state) {
    (void)state;
    enum { N = 77 };
    float x[N], sum[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    muster_kernel *kernel = kernel_make(runtime, "inc");
    muster_function *function;
    assert_ok(muster_function_create(runtime, "inc_output", inc_output, kernel, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(function, "y", MUSTER_F32, 1, MUSTER_SUM));
    for (int round = 0; round < 20; round++) {
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(x, N)}, 1, (muster_tensor[]){muster_f32(sum, N)}, 1, NULL));
        for (int i = 0; i < N; i++) assert_true(sum[i] == 2 * ((float)i + 1));
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_kernel_destroy(kernel));
}

/* Host code reads what a kernel wrote. */
static muster_status inc_and_read(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &x));
    float values[64];
    const int64_t n = x.shape[0];
    MUSTER_TRY(muster_copy(w, in[0], x));
    MUSTER_TRY(muster_kernel_launch_elements(w, user, n, 0, ARGUMENTS(muster_argument_size((uint64_t)n), muster_argument_buffer(x))));
    MUSTER_TRY(muster_worker_read(w, x, muster_f32(values, n)));
    for (int64_t i = 0; i < n; i++)
        if (values[i] != 11) return muster_fail(MUSTER_USER, "a read before the kernel");
    MUSTER_TRY(muster_kernel_launch_elements(w, user, n, 0, ARGUMENTS(muster_argument_size((uint64_t)n), muster_argument_buffer(x))));
    MUSTER_TRY(muster_worker_sync(w));
    const float *address = muster_tensor_address(x);
    if (strcmp(muster_worker_backend(w), "host") == 0)
        for (int64_t i = 0; i < n; i++)
            if (address[i] != 12) return muster_fail(MUSTER_USER, "a sync before the kernel");
    for (int64_t i = 0; i < n; i++) values[i] = 1;
    MUSTER_TRY(muster_worker_write(w, muster_f32(values, n), x));
    MUSTER_TRY(muster_kernel_launch_elements(w, user, n, 0, ARGUMENTS(muster_argument_size((uint64_t)n), muster_argument_buffer(x))));
    MUSTER_TRY(muster_worker_read(w, x, muster_f32(values, n)));
    return values[0] == 2 ? MUSTER_OK : muster_fail(MUSTER_USER, "a write behind the kernel");
}

static void reads_and_writes_wait_for_launches(void **state) {
    (void)state;
    enum { N = 100 };
    float x[N];
    for (int i = 0; i < N; i++) x[i] = 10;
    muster_kernel *kernel = kernel_make(runtime, "inc");
    muster_function *function;
    assert_ok(muster_function_create(runtime, "inc_and_read", inc_and_read, kernel, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    for (int round = 0; round < 20; round++)
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(x, N)}, 1, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_kernel_destroy(kernel));
    assert_refused(muster_worker_sync(NULL), MUSTER_INVALID_ARGUMENT, "muster_worker_sync: worker");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_done_once),
        cmocka_unit_test(every_pair_is_done_once),
        cmocka_unit_test(the_schedule_keeps_to_the_limits),
        cmocka_unit_test(launches_are_in_order_with_operations),
        cmocka_unit_test(outputs_are_collected_behind_launches),
        cmocka_unit_test(reads_and_writes_wait_for_launches),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
