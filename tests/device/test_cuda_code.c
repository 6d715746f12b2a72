/* Kernels of the device code, and matrix products. */
#include "cuda/cublas_api_private.h"
#include "cuda_fixture.h"
#include "cuda_held.h"
#include "device_contract.h"

static int add_contract(void **state) {
    (void)state;
    contract_add();
    contract_add();
    return 0;
}

static mst_code_kernel none = {.name = "contract_nothing"};

/* ---- kernels ---- */

static void scale_and_check(mst_device *device, int32_t count) {
    float *host = malloc((size_t)count * sizeof *host);
    assert_non_null(host);
    for (int32_t i = 0; i < count; i++) host[i] = (float)i;
    void *from = allocated(device, count * 4), *to = allocated(device, count * 4);
    contract_parameters parameters = {.count = count, .from = from, .to = to, .factor = 3};
    assert_ok(device->memory->copy_in(device, from, host, count * 4));
    assert_ok(device->code->launch(device, &contract_scale_kernel, count, &parameters, sizeof parameters));
    memset(&parameters, 0xff, sizeof parameters); /* the kernel has its own copy */
    assert_ok(device->memory->copy_out(device, host, to, count * 4));
    assert_ok(device->table->synchronize(device));
    for (int32_t i = 0; i < count; i++) assert_true(host[i] == 3 * (float)i);
    device->memory->release(device, from);
    device->memory->release(device, to);
    free(host);
}

static void a_kernel_runs_over_every_element(void **state) {
    const int32_t counts[] = {1, 255, 256, 257, 100000}; /* the last: more than all threads at once */
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) scale_and_check(*state, counts[i]);
    assert_int_equal(muster_sim_launches("contract_scale"), 5);
}

static void a_kernel_runs_over_every_block(void **state) {
    mst_device *device = *state;
    enum { ROWS = 100, ELEMENTS = 1000 };
    float *host = malloc(ROWS * ELEMENTS * sizeof *host), sums[ROWS];
    assert_non_null(host);
    for (int i = 0; i < ROWS * ELEMENTS; i++) host[i] = (float)(i / ELEMENTS);
    void *from = allocated(device, ROWS * ELEMENTS * 4), *to = allocated(device, ROWS * 4);
    contract_parameters parameters = {.count = ROWS, .from = from, .to = to, .factor = 1};
    assert_ok(device->memory->copy_in(device, from, host, ROWS * ELEMENTS * 4));
    assert_ok(device->code->launch(device, &contract_row_sums_kernel, ROWS, &parameters, sizeof parameters));
    assert_ok(device->memory->copy_out(device, sums, to, sizeof sums));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < ROWS; i++) assert_true(sums[i] == (float)(i * ELEMENTS));
    device->memory->release(device, from);
    device->memory->release(device, to);
    free(host);
}

static void no_work_launches_nothing(void **state) {
    mst_device *device = *state;
    contract_parameters parameters = {0};
    uint64_t before = muster_sim_calls("cuLaunchKernel");
    assert_ok(device->code->launch(device, &contract_scale_kernel, 0, &parameters, sizeof parameters));
    assert_int_equal(muster_sim_calls("cuLaunchKernel"), before);
}

static void a_launch_asks_the_driver_for_nothing_else(void **state) {
    mst_device *device = *state;
    void *place = allocated(device, 4);
    contract_parameters parameters = {.count = 1, .from = place, .to = place, .factor = 1};
    assert_ok(device->queue->enter(device));
    uint64_t before = muster_sim_calls(NULL);
    assert_ok(device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters));
    assert_int_equal(muster_sim_calls(NULL), before + 2); /* whose context is current, and the launch */
    device->queue->leave(device);
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, place);
}

static void an_unknown_kernel_and_too_many_parameters_are_refused(void **state) {
    mst_device *device = *state;
    contract_parameters parameters = {.count = 1};
    assert_refused(device->code->launch(device, &none, 1, &parameters, sizeof parameters), MUSTER_INTERNAL,
                   "the kernel contract_nothing: expected one that was there");
    assert_refused(device->code->launch(device, &contract_scale_kernel, 1, &parameters, MST_CODE_PARAMETERS_MAX + 1), MUSTER_INTERNAL,
                   "at most 2048 bytes of parameters, received 2049");
}

static void a_failed_launch_names_itself(void **state) {
    mst_device *device = *state;
    contract_parameters parameters = {.count = 1};
    muster_sim_inject("cuLaunchKernel", 1, MST_CU_LAUNCH_OUT_OF_RESOURCES);
    assert_refused(device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters), MUSTER_SYSTEM,
                   "cuda:0: CUDA: cuLaunchKernel: expected success");
}

/* Opening compiles, loads and looks up; whatever of it fails, nothing is left. */
static void every_call_for_the_code_can_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < CODE_CALLS; i++) {
        mst_device *device = NULL;
        new_machine(NULL);
        (void)driver();
        muster_sim_inject(code_calls[i].symbol, 1, code_calls[i].code);
        muster_status status = mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device);
        if (status == MUSTER_OK || device || !strstr(muster_last_error(), code_calls[i].symbol))
            fail_msg("%s: %s", code_calls[i].symbol, muster_last_error());
        check_machine();
    }
}

/* ---- products ---- */

enum { M = 5, N = 7, K = 3 };

/* Row-major products of small integers, which every type has exactly. */
static double element_a(int i, int p) { return i - p; }
static double element_b(int p, int j) { return 2 * p + j % 3; }
static double element_c(int i, int j) { return i + j; }

static void multiply_and_check(mst_device *device, bool transpose_a, bool transpose_b, bool wide) {
    double a[M * K], b[K * N], c[M * N];
    float fa[M * K], fb[K * N], fc[M * N];
    for (int i = 0; i < M; i++)
        for (int p = 0; p < K; p++) a[transpose_a ? p * M + i : i * K + p] = element_a(i, p);
    for (int p = 0; p < K; p++)
        for (int j = 0; j < N; j++) b[transpose_b ? j * K + p : p * N + j] = element_b(p, j);
    for (int i = 0; i < M * N; i++) c[i] = element_c(i / N, i % N);
    for (int i = 0; i < M * K; i++) fa[i] = (float)a[i];
    for (int i = 0; i < K * N; i++) fb[i] = (float)b[i];
    for (int i = 0; i < M * N; i++) fc[i] = (float)c[i];
    const int64_t size = wide ? 8 : 4;
    void *da = allocated(device, M * K * size), *db = allocated(device, K * N * size), *dc = allocated(device, M * N * size);
    assert_ok(device->memory->copy_in(device, da, wide ? (void *)a : (void *)fa, M * K * size));
    assert_ok(device->memory->copy_in(device, db, wide ? (void *)b : (void *)fb, K * N * size));
    assert_ok(device->memory->copy_in(device, dc, wide ? (void *)c : (void *)fc, M * N * size));
    const mst_gemm gemm = {.dtype = wide ? 4 : 3,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .m = M,
                           .n = N,
                           .k = K,
                           .lda = transpose_a ? M : K,
                           .ldb = transpose_b ? K : N,
                           .ldc = N,
                           .alpha = 2,
                           .beta = -1,
                           .a = da,
                           .b = db,
                           .c = dc};
    assert_ok(device->code->gemm(device, &gemm));
    assert_ok(device->memory->copy_out(device, wide ? (void *)c : (void *)fc, dc, M * N * size));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int p = 0; p < K; p++) sum += element_a(i, p) * element_b(p, j);
            assert_true((wide ? c[i * N + j] : (double)fc[i * N + j]) == 2 * sum - element_c(i, j));
        }
    }
    device->memory->release(device, da);
    device->memory->release(device, db);
    device->memory->release(device, dc);
}

static void products_of_all_transpositions_are_those_of_the_loops(void **state) {
    for (int i = 0; i < 8; i++) multiply_and_check(*state, i & 1, i & 2, i & 4);
}

static void products_of_nothing_issue_nothing(void **state) {
    mst_device *device = *state;
    uint64_t before = muster_sim_calls("cublasGemmEx");
    assert_ok(device->code->gemm(device, &(mst_gemm){.dtype = 3, .m = 0, .n = 5, .k = 5, .lda = 5, .ldb = 5, .ldc = 5}));
    assert_ok(device->code->gemm(device, &(mst_gemm){.dtype = 3, .m = 5, .n = 0, .k = 5, .lda = 5, .ldb = 1, .ldc = 1}));
    assert_int_equal(muster_sim_calls("cublasGemmEx"), before);
}

static void an_empty_sum_scales(void **state) {
    mst_device *device = *state;
    float values[4] = {1, 2, 3, 4};
    void *c = allocated(device, sizeof values), *nothing = allocated(device, 0);
    assert_ok(device->memory->copy_in(device, c, values, sizeof values));
    assert_ok(device->code->gemm(
        device,
        &(mst_gemm){
            .dtype = 3, .m = 2, .n = 2, .k = 0, .lda = 0, .ldb = 2, .ldc = 2, .alpha = 1, .beta = 3, .a = nothing, .b = nothing, .c = c}));
    assert_ok(device->memory->copy_out(device, values, c, sizeof values));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < 4; i++) assert_true(values[i] == 3 * (float)(i + 1));
    device->memory->release(device, c);
    device->memory->release(device, nothing);
}

/* Rows further apart than an int counts, of which there is only one, so that no memory is needed
 * for them. */
static void multiply_far_rows(mst_device *device, muster_status expected, const char *words) {
    float a[2] = {3, 4}, b[2] = {5, 6}, c = 0;
    void *da = allocated(device, sizeof a), *db = allocated(device, sizeof b), *dc = allocated(device, sizeof c);
    assert_ok(device->memory->copy_in(device, da, a, sizeof a));
    assert_ok(device->memory->copy_in(device, db, b, sizeof b));
    const mst_gemm gemm = {
        .dtype = 3, .m = 1, .n = 1, .k = 2, .lda = 3000000000, .ldb = 1, .ldc = 3000000000, .alpha = 1, .a = da, .b = db, .c = dc};
    if (expected != MUSTER_OK) {
        assert_refused(device->code->gemm(device, &gemm), expected, words);
    } else {
        assert_ok(device->code->gemm(device, &gemm));
        assert_ok(device->memory->copy_out(device, &c, dc, sizeof c));
    }
    assert_ok(device->table->synchronize(device));
    assert_true(c == (expected == MUSTER_OK ? 39 : 0));
    device->memory->release(device, da);
    device->memory->release(device, db);
    device->memory->release(device, dc);
}

static void rows_beyond_an_int_apart_need_the_long_product(void **state) {
    const mst_cublas_api *api = NULL;
    assert_ok(mst_cublas_api_get(&api));
    multiply_far_rows(*state, MUSTER_OK, NULL);
    assert_int_equal(muster_sim_calls("cublasGemmEx_64"), 1);
    mst_cublas_api kept = *api;
    ((mst_cublas_api *)api)->cublasGemmEx_64 = NULL; /* as of a cuBLAS that lacks it */
    multiply_far_rows(*state, MUSTER_UNSUPPORTED, "with a cuBLAS that lacks cublasGemmEx_64, received 3000000000, 1 and 3000000000");
    *(mst_cublas_api *)api = kept;
}

/* Loading code can wait for the device, which a collective may keep busy. */
static void open_has_multiplied_once_in_every_type(void **state) {
    (void)state;
    assert_int_equal(muster_sim_calls("cublasGemmEx"), 4);
}

/* A product of this shape over zeros, behind whatever is in the queue. */
static muster_status multiply_shape(mst_device *device, void *memory, int64_t m, int64_t n, int64_t k, bool transpose) {
    const mst_gemm gemm = {.dtype = 3,
                           .transpose_a = transpose,
                           .m = m,
                           .n = n,
                           .k = k,
                           .lda = transpose ? m : k,
                           .ldb = n,
                           .ldc = n,
                           .alpha = 1,
                           .a = memory,
                           .b = memory,
                           .c = (char *)memory + 16384};
    return device->code->gemm(device, &gemm);
}

static void products_that_are_new_in_flight_wait_where_the_deadline_reaches_them(void **state) {
    mst_device *device = *state;
    char *memory = allocated(device, 32768);
    assert_ok(multiply_shape(device, memory, 8, 8, 8, false));
    assert_ok(device->table->synchronize(device));
    hold_queues(device);
    static const struct {
        int64_t m, n, k;
        bool transpose, known;
    } cases[] = {{8, 8, 8, false, true}, {9, 8, 8, false, false}, {8, 9, 8, false, false}, {8, 8, 9, false, false}, {8, 8, 8, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        held_polls = 50;
        const muster_status status = multiply_shape(device, memory, cases[i].m, cases[i].n, cases[i].k, cases[i].transpose);
        if (cases[i].known)
            assert_ok(status);
        else
            assert_refused(status, MUSTER_TIMEOUT, "waited long enough");
    }
    release_queues(device);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_ok(multiply_shape(device, memory, cases[i].m, cases[i].n, cases[i].k, cases[i].transpose));
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, memory);
}

static void a_type_that_the_gpu_lacks_is_refused_at_its_first_product_and_not_at_open(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 1});
    (void)driver();
    muster_sim_inject("cublasGemmEx", 2, MST_CUBLAS_ARCH_MISMATCH);
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    mst_device *device = opened("0");
    assert_int_equal(muster_sim_injected(), 1);
    assert_string_equal(muster_last_error(), "what was said before");
    muster_sim_inject("cublasGemmEx", 1, MST_CUBLAS_ARCH_MISMATCH);
    const mst_gemm gemm = {.dtype = 2, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    assert_refused(device->code->gemm(device, &gemm), MUSTER_UNSUPPORTED, "cuda:0: cuBLAS: cublasGemmEx: expected success, received ");
    closed(device);
    check_machine();
}

static void a_product_of_another_type_is_refused(void **state) {
    mst_device *device = *state;
    assert_refused(device->code->gemm(device, &(mst_gemm){.dtype = 8, .m = 1, .n = 1, .k = 1}), MUSTER_UNSUPPORTED,
                   "expected f16, bf16, f32 or f64, received the element type 8");
}

static void a_failed_product_says_what_cublas_said(void **state) {
    mst_device *device = *state;
    const mst_gemm gemm = {.dtype = 3, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    muster_sim_inject("cublasGemmEx", 1, MST_CUBLAS_INTERNAL_ERROR);
    assert_refused(device->code->gemm(device, &gemm), MUSTER_SYSTEM, "cuda:0: cuBLAS: cublasGemmEx: expected success, received ");
}

/* The simulated NVRTC is one of CUDA 13. */
static void volta_needs_the_compiler_of_cuda_12(void **state) {
    mst_device *device = NULL;
    (void)state;
    new_machine(&(muster_sim_options){.devices = 1, .capability = {70}});
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_UNSUPPORTED,
                   "devices of compute capability 7.0 any more; use an older one (NVRTC 12 for 7.0 and 7.2)");
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_kernel_runs_over_every_element),
        CASE(a_kernel_runs_over_every_block),
        CASE(no_work_launches_nothing),
        CASE(a_launch_asks_the_driver_for_nothing_else),
        CASE(an_unknown_kernel_and_too_many_parameters_are_refused),
        CASE(a_failed_launch_names_itself),
        cmocka_unit_test(every_call_for_the_code_can_fail),
        CASE(products_of_all_transpositions_are_those_of_the_loops),
        CASE(products_of_nothing_issue_nothing),
        CASE(an_empty_sum_scales),
        CASE(rows_beyond_an_int_apart_need_the_long_product),
        CASE(open_has_multiplied_once_in_every_type),
        CASE(products_that_are_new_in_flight_wait_where_the_deadline_reaches_them),
        cmocka_unit_test(a_type_that_the_gpu_lacks_is_refused_at_its_first_product_and_not_at_open),
        CASE(a_product_of_another_type_is_refused),
        CASE(a_failed_product_says_what_cublas_said),
        cmocka_unit_test(volta_needs_the_compiler_of_cuda_12),
    };
    return cmocka_run_group_tests(tests, add_contract, NULL);
}
