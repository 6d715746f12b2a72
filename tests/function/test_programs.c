/* Bodies that launch programs of their own on host devices: whatever the library does next with the
 * memory comes after them. */
#include "base_machine.h"
#include "function_fixture.h"

#include "base_skip.h"
#include "muster/communicator.h"
#include "muster/ops.h"
#include "pool_impl.h"
#include "program_impl.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, N = 1 << 16 };

/* So slow that a reader that does not wait sees the old values. */
static const char text[] = "__kernel void fill(__global float *a, ulong n, float value) {\n"
                           "    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {\n"
                           "        float sum = 0;\n"
                           "        for (volatile int k = 0; k < 50; k++) sum += 1;\n"
                           "        a[i] = value + (sum - 50);\n"
                           "    }\n"
                           "}\n"
                           "__kernel void rows(__global const float *x, __global float *y, ulong n) {\n"
                           "    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = 2 * x[i];\n"
                           "}\n";

static mst_program *programs[WORKERS];

static muster_status open_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    static const mst_program_parameter fill[] = {{0}, {8}, {4}}, rows[] = {{0}, {0}, {8}};
    const mst_program_kernel kernels[] = {{"fill", fill, 3, false}, {"rows", rows, 3, false}};
    const mst_program_request request = {.code = {.name = "bodies", .text = text}, .kernels = kernels, .kernel_count = 2};
    char *log = NULL;
    muster_status status = worker->device->program->open(worker->device, &request, &programs[worker->rank], &log);
    mst_free(log);
    return status;
}

static muster_status close_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    worker->device->program->close(worker->device, programs[worker->rank]);
    return MUSTER_OK;
}

static muster_status launch(muster_worker *worker, int32_t kernel, const mst_program_value *values) {
    const mst_program_grid grid = {.dims = 1, .groups = {4, 1, 1}, .threads = {64, 1, 1}};
    return worker->device->program->launch(worker->device, programs[worker->rank], kernel, &grid, values);
}

static muster_status launch_fill(muster_worker *worker, muster_tensor a, float value) {
    mst_program_value values[3] = {{.address = muster_tensor_address(a), .extent = muster_tensor_count(a) * 4}};
    const uint64_t n = (uint64_t)muster_tensor_count(a);
    memcpy(values[1].bytes, &n, sizeof n);
    memcpy(values[2].bytes, &value, sizeof value);
    return launch(worker, 0, values);
}

static muster_runtime *runtime;

static void call_once(muster_body body) {
    muster_function *function = NULL;
    assert_ok(muster_function_create(runtime, "once", body, NULL, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
}

static int begin_test(void **state) {
    (void)state;
    runtime = fixture_open("host", WORKERS);
    call_once(open_one);
    return 0;
}

static int end_test(void **state) {
    (void)state;
    call_once(close_one);
    fixture_close(runtime);
    return 0;
}

/* ---- in a body ---- */

static muster_status fill_and_add(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int64_t shape[] = {N};
    muster_tensor a, b;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, shape, &a));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, shape, &b));
    MUSTER_TRY(launch_fill(worker, a, 3));
    MUSTER_TRY(muster_copy(worker, a, b));
    if (((float *)muster_tensor_address(b))[N - 1] != 3) return muster_fail(MUSTER_USER, "the copy came too early");
    MUSTER_TRY(launch_fill(worker, a, 5));
    return muster_mean(worker, a, out[0]); /* by the short cut of whole tensors */
}

static void operations_come_after_programs(void **state) {
    (void)state;
    muster_function *function = NULL;
    float mean = 0;
    muster_tensor out[] = {muster_f32(&mean)};
    assert_ok(muster_function_create(runtime, "fill_and_add", fill_and_add, NULL, &function));
    assert_ok(muster_function_output(function, "mean", MUSTER_F32, 0, MUSTER_AVG));
    for (int i = 0; i < 20; i++) {
        mean = 0;
        assert_ok(muster_function_call(function, NULL, 0, out, 1, NULL));
        assert_true(mean == 5);
    }
    assert_ok(muster_function_destroy(function));
}

static muster_status fill_and_reduce(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int64_t shape[] = {N};
    muster_tensor a;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, shape, &a));
    MUSTER_TRY(launch_fill(worker, a, (float)(muster_worker_rank(worker) + 1)));
    MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, a, a));
    const float *sum = muster_tensor_address(a);
    for (int i = 0; i < N; i++)
        if (sum[i] != 3) return muster_fail(MUSTER_USER, "a wrong sum");
    MUSTER_TRY(launch_fill(worker, a, (float)(muster_worker_rank(worker) + 5)));
    MUSTER_TRY(muster_worker_group_begin(worker, NULL));
    MUSTER_TRY(muster_worker_broadcast(worker, NULL, 1, a, a));
    MUSTER_TRY(muster_worker_group_end(worker, NULL));
    return muster_mean(worker, a, out[0]);
}

static void collectives_come_after_programs(void **state) {
    (void)state;
    muster_function *function = NULL;
    float mean = 0;
    muster_tensor out[] = {muster_f32(&mean)};
    assert_ok(muster_function_create(runtime, "fill_and_reduce", fill_and_reduce, NULL, &function));
    assert_ok(muster_function_output(function, "mean", MUSTER_F32, 0, MUSTER_AVG));
    for (int i = 0; i < 20; i++) {
        mean = 0;
        assert_ok(muster_function_call(function, NULL, 0, out, 1, NULL));
        assert_true(mean == 6);
    }
    assert_ok(muster_function_destroy(function));
}

/* ---- at its end ---- */

static muster_status fill_output(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return launch_fill(worker, out[0], (float)(muster_worker_rank(worker) + 1));
}

static void outputs_are_collected_after_programs(void **state) {
    (void)state;
    static const struct {
        muster_collect_mode mode;
        float expected;
    } cases[] = {{MUSTER_AVG, 1.5f}, {MUSTER_SUM, 3}, {MUSTER_PROD, 2}, {MUSTER_MAX, 2}, {MUSTER_MIN, 1}};
    float *y = calloc(N, sizeof *y);
    assert_non_null(y);
    const int64_t shape[] = {N};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        muster_function *function = NULL;
        muster_tensor out[] = {muster_tensor_make(MUSTER_F32, y, 1, shape)};
        assert_ok(muster_function_create(runtime, "fill_output", fill_output, NULL, &function));
        assert_ok(muster_function_output(function, "y", MUSTER_F32, 1, cases[c].mode));
        for (int round = 0; round < 5; round++) {
            memset(y, 0, N * sizeof *y);
            assert_ok(muster_function_call(function, NULL, 0, out, 1, NULL));
            for (int i = 0; i < N; i++) assert_true(y[i] == cases[c].expected);
        }
        assert_ok(muster_function_destroy(function));
    }
    free(y);
}

static muster_status twice(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    mst_program_value values[3] = {{.address = muster_tensor_address(in[0]), .extent = muster_tensor_count(in[0]) * 4},
                                   {.address = muster_tensor_address(out[0]), .extent = muster_tensor_count(out[0]) * 4}};
    const uint64_t n = (uint64_t)muster_tensor_count(in[0]);
    memcpy(values[2].bytes, &n, sizeof n);
    return launch(worker, 1, values);
}

/* Rows by a list of indices in slices: what a slice has staged is overwritten by the next. */
static void slices_come_after_programs(void **state) {
    (void)state;
    muster_function *function = NULL;
    float *x = malloc(N * sizeof *x), *y = calloc(N, sizeof *y);
    int64_t *indices = malloc(N * sizeof *indices);
    const int64_t shape[] = {N};
    assert_true(x && y && indices);
    for (int64_t i = 0; i < N; i++) x[i] = (float)i, indices[i] = N - 1 - i;
    muster_tensor in[] = {muster_tensor_make(MUSTER_F32, x, 1, shape)}, out[] = {muster_tensor_make(MUSTER_F32, y, 1, shape)};
    assert_ok(muster_function_create(runtime, "twice", twice, NULL, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(function, "y", MUSTER_F32, 1, MUSTER_GATHER));
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = 7;
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = indices, .index_count = N};
    for (int round = 0; round < 5; round++) {
        memset(y, 0, N * sizeof *y);
        assert_ok(muster_function_call(function, in, 1, out, 1, &options));
        for (int64_t i = 0; i < N; i++) assert_true(y[i] == 2 * (float)(N - 1 - i));
    }
    assert_ok(muster_function_destroy(function));
    free(indices);
    free(y);
    free(x);
}

static muster_status fill_and_fail(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    MUSTER_TRY(launch_fill(worker, out[0], 9));
    return muster_worker_rank(worker) == 1 ? muster_fail(MUSTER_USER, "on purpose") : MUSTER_OK;
}

/* The memory of a refused call is the caller's again. */
static void a_failed_call_has_ended_its_programs(void **state) {
    (void)state;
    muster_function *function = NULL;
    const int64_t shape[] = {N};
    assert_ok(muster_function_create(runtime, "fill_and_fail", fill_and_fail, NULL, &function));
    assert_ok(muster_function_output(function, "y", MUSTER_F32, 1, MUSTER_SUM));
    for (int round = 0; round < 10; round++) {
        float *y = calloc(N, sizeof *y);
        assert_non_null(y);
        muster_tensor out[] = {muster_tensor_make(MUSTER_F32, y, 1, shape)};
        assert_refused(muster_function_call(function, NULL, 0, out, 1, NULL), MUSTER_USER, "on purpose");
        free(y);
    }
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    if (on_gpus()) return SKIP_SUITE("not on GPUs: their queues keep the order by themselves");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(operations_come_after_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(collectives_come_after_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(outputs_are_collected_after_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(slices_come_after_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_failed_call_has_ended_its_programs, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
