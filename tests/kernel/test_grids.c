/* Grids of one to three dimensions, and those that no device takes. */
#include "kernel_fixture.h"

#include <stdlib.h>

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

static void check_linear(const char *name, muster_grid grid) {
    int64_t count = 1;
    for (int d = 0; d < grid.dims; d++) count *= grid.groups[d] * grid.threads[d];
    int32_t *out = malloc((size_t)count * sizeof *out);
    assert_non_null(out);
    muster_kernel *kernel = kernel_make(runtime, name);
    kernel_array o = kernel_put(runtime, 0, MUSTER_I32, count, NULL);
    assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(muster_argument_buffer(o.view))));
    kernel_get(&o, out);
    for (int64_t i = 0; i < count; i++) assert_int_equal(out[i], i + 1);
    free(out);
    kernel_drop(&o);
    assert_ok(muster_kernel_destroy(kernel));
}

static void every_dimension_counts(void **state) {
    (void)state;
    check_linear("linear_2", (muster_grid){.dims = 2, .groups = {3, 5}, .threads = {8, 2}});
    check_linear("linear_2", (muster_grid){.dims = 1, .groups = {7}, .threads = {5}});
    check_linear("linear_3", (muster_grid){.dims = 3, .groups = {2, 3, 4}, .threads = {4, 2, 2}});
    check_linear("linear_3", (muster_grid){.dims = 3, .groups = {1, 1, 3}, .threads = {1, 7, 1}});
}

static void grids_beyond_the_limits_are_refused_and_nothing_is_written(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "linear_3");
    muster_kernel_limits limits = {.struct_size = sizeof limits};
    int32_t out[8];
    kernel_array o = kernel_put(runtime, 0, MUSTER_I32, 8, NULL);
    const muster_argument buffer = muster_argument_buffer(o.view);
    assert_ok(muster_kernel_get_limits(kernel, 0, &limits));
#define REFUSED(code, text, ...)                                                    \
    do {                                                                            \
        const muster_grid grid_ = {__VA_ARGS__};                                    \
        assert_refused(muster_kernel_call(kernel, &grid_, &buffer, 1), code, text); \
    } while (0)
    const muster_grid reserved = {.dims = 1, .groups = {1}, .threads = {1}, .reserved = 1};
    assert_refused(muster_kernel_call(kernel, &reserved, &buffer, 1), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_call: grid of kernel 'linear_3': reserved: expected 0, received 1");
    REFUSED(MUSTER_INVALID_ARGUMENT, "muster_kernel_call: grid of kernel 'linear_3': expected 1 to 3 dims, received 0", .dims = 0,
            .groups = {1, 1, 1}, .threads = {1, 1, 1});
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected 1 to 3 dims, received 4", .dims = 4, .groups = {1, 1, 1}, .threads = {1, 1, 1});
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected groups[1], from 0 to ", .dims = 2, .groups = {1, -1}, .threads = {1, 1});
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected threads[0], from 0 to ", .dims = 1, .groups = {1}, .threads = {-1});
    REFUSED(MUSTER_OUT_OF_RANGE, "expected threads[0], from 0 to ", .dims = 1, .groups = {1}, .threads = {limits.threads_in[0] + 1});
    REFUSED(MUSTER_OUT_OF_RANGE, "expected threads of a group in all, from 0 to ", .dims = 2, .groups = {1, 1},
            .threads = {limits.threads_in[0], limits.threads / limits.threads_in[0] + 1});
    REFUSED(MUSTER_OUT_OF_RANGE, "expected local_bytes, from 0 to ", .dims = 1, .groups = {1}, .threads = {1},
            .local_bytes = limits.local_bytes + 1);
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected local_bytes, from 0 to ", .dims = 1, .groups = {1}, .threads = {1}, .local_bytes = -1);
    if (limits.groups_in[0] < INT64_MAX)
        REFUSED(MUSTER_OUT_OF_RANGE, "expected groups[0], from 0 to ", .dims = 1, .groups = {limits.groups_in[0] + 1}, .threads = {1});
    assert_refused(muster_kernel_call(kernel, NULL, &buffer, 1), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_call: grid: expected a grid, received NULL");
    assert_refused(muster_kernel_call_elements(kernel, -1, 0, &buffer, 1), MUSTER_INVALID_ARGUMENT, "expected 0 or more, received -1");
    kernel_get(&o, out);
    for (int i = 0; i < 8; i++) assert_int_equal(out[i], 0);
    kernel_drop(&o);
    assert_ok(muster_kernel_destroy(kernel));
    /* the device works on */
    check_linear("linear_3", (muster_grid){.dims = 3, .groups = {2, 1, 1}, .threads = {4, 1, 1}});
}

static void an_empty_grid_launches_nothing(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "linear_3");
    int32_t out[8];
    kernel_array o = kernel_put(runtime, 0, MUSTER_I32, 8, NULL);
    const muster_argument buffer = muster_argument_buffer(o.view);
    static const muster_grid empty[] = {{.dims = 1, .groups = {0}, .threads = {1}},
                                        {.dims = 1, .groups = {1}, .threads = {0}},
                                        {.dims = 3, .groups = {1, 1, 0}, .threads = {1, 1, 1}},
                                        {.dims = 2, .groups = {1, 1}, .threads = {1, 0}}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) assert_ok(muster_kernel_call(kernel, &empty[i], &buffer, 1));
    assert_ok(muster_kernel_call_elements(kernel, 0, 0, &buffer, 1));
    kernel_get(&o, out);
    for (int i = 0; i < 8; i++) assert_int_equal(out[i], 0);
    /* but wrong arguments are wrong */
    assert_refused(muster_kernel_call(kernel, &empty[0], NULL, 0), MUSTER_INVALID_ARGUMENT, "expected 1, received 0");
    kernel_drop(&o);
    assert_ok(muster_kernel_destroy(kernel));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dimension_counts),
        cmocka_unit_test(grids_beyond_the_limits_are_refused_and_nothing_is_written),
        cmocka_unit_test(an_empty_grid_launches_nothing),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
