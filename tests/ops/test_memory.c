/* Memory of operations: of which device it must be, and what happens when it runs out. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_far.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <stdio.h>

enum { MOST_ARGUMENTS = 5, SIDE = 3 };

typedef struct argument {
    const char *name;
    muster_dtype dtype;
    int32_t ndim; /* every axis has SIDE elements */
} argument;

typedef struct operation {
    const char *name;
    muster_status (*call)(muster_worker *w, const muster_tensor *t);
    argument arguments[MOST_ARGUMENTS];
} operation;

static muster_status gemm(muster_worker *w, const muster_tensor *t) { return muster_gemm(w, 1, t[0], t[1], 0, t[2]); }
static muster_status gemv(muster_worker *w, const muster_tensor *t) { return muster_gemv(w, 1, t[0], t[1], 0, t[2]); }
static muster_status axpy(muster_worker *w, const muster_tensor *t) { return muster_axpy(w, 1, t[0], t[1]); }
static muster_status dot(muster_worker *w, const muster_tensor *t) { return muster_dot(w, t[0], t[1], t[2]); }
static muster_status fill(muster_worker *w, const muster_tensor *t) { return muster_fill(w, 1, t[0]); }
static muster_status copy(muster_worker *w, const muster_tensor *t) { return muster_copy(w, t[0], t[1]); }
static muster_status unary(muster_worker *w, const muster_tensor *t) { return muster_unary_op(w, MUSTER_NEG, t[0], t[1]); }
static muster_status binary(muster_worker *w, const muster_tensor *t) { return muster_binary_op(w, MUSTER_ADD, t[0], t[1], t[2]); }
static muster_status scale_add(muster_worker *w, const muster_tensor *t) { return muster_scale_add(w, 1, t[0], 1, t[1]); }
static muster_status bias_relu(muster_worker *w, const muster_tensor *t) { return muster_bias_relu(w, t[0], t[1], t[2]); }
static muster_status relu_gradient(muster_worker *w, const muster_tensor *t) { return muster_relu_gradient(w, t[0], t[1], t[2]); }
static muster_status reduce(muster_worker *w, const muster_tensor *t) { return muster_reduce(w, MUSTER_SUM, t[0], 0, t[1]); }
static muster_status mean(muster_worker *w, const muster_tensor *t) { return muster_mean(w, t[0], t[1]); }
static muster_status sum(muster_worker *w, const muster_tensor *t) { return muster_sum(w, t[0], t[1]); }
static muster_status argmax(muster_worker *w, const muster_tensor *t) { return muster_argmax(w, t[0], t[1]); }
static muster_status softmax(muster_worker *w, const muster_tensor *t) {
    return muster_softmax_cross_entropy(w, t[0], t[1], 1, t[2], t[3], t[4]);
}
static muster_status uniform(muster_worker *w, const muster_tensor *t) { return muster_random_uniform(w, 1, 0, t[0]); }
static muster_status normal(muster_worker *w, const muster_tensor *t) { return muster_random_normal(w, 1, 0, 0, 1, t[0]); }

#define MATRIX(name) \
    { name, MUSTER_F32, 2 }
#define VECTOR(name) \
    { name, MUSTER_F32, 1 }
#define SCALAR(name) \
    { name, MUSTER_F32, 0 }
static const operation operations[] = {
    {"muster_gemm", gemm, {MATRIX("a"), MATRIX("b"), MATRIX("c")}},
    {"muster_gemv", gemv, {MATRIX("a"), VECTOR("x"), VECTOR("y")}},
    {"muster_axpy", axpy, {MATRIX("x"), MATRIX("y")}},
    {"muster_dot", dot, {VECTOR("x"), VECTOR("y"), SCALAR("result")}},
    {"muster_fill", fill, {MATRIX("y")}},
    {"muster_copy", copy, {MATRIX("x"), MATRIX("y")}},
    {"muster_unary_op", unary, {MATRIX("x"), MATRIX("y")}},
    {"muster_binary_op", binary, {MATRIX("a"), VECTOR("b"), MATRIX("y")}},
    {"muster_scale_add", scale_add, {MATRIX("x"), MATRIX("y")}},
    {"muster_bias_relu", bias_relu, {MATRIX("x"), VECTOR("bias"), MATRIX("y")}},
    {"muster_relu_gradient", relu_gradient, {MATRIX("y"), MATRIX("dy"), MATRIX("dx")}},
    {"muster_reduce", reduce, {MATRIX("x"), VECTOR("y")}},
    {"muster_mean", mean, {MATRIX("x"), SCALAR("y")}},
    {"muster_sum", sum, {MATRIX("x"), SCALAR("y")}},
    {"muster_argmax", argmax, {MATRIX("x"), {"index", MUSTER_I64, 1}}},
    {"muster_softmax_cross_entropy",
     softmax,
     {MATRIX("logits"), {"labels", MUSTER_U8, 1}, SCALAR("loss"), MATRIX("gradient"), {"correct", MUSTER_I64, 0}}},
    {"muster_random_uniform", uniform, {MATRIX("y")}},
    {"muster_random_normal", normal, {VECTOR("y")}},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Contiguous, on the device, 0 everywhere. */
static void make_arguments(muster_worker *w, const operation *op, muster_tensor t[MOST_ARGUMENTS]) {
    const int64_t shape[] = {SIDE, SIDE};
    for (int i = 0; i < MOST_ARGUMENTS && op->arguments[i].name; i++) {
        t[i] = muster_worker_scratch(w, op->arguments[i].dtype, op->arguments[i].ndim, shape);
        assert_ok(muster_fill(w, 0, t[i]));
    }
}

/* ---- whose memory ---- */

static void assert_device_refused(muster_worker *w, const operation *op, const muster_tensor *t, int at, int32_t device) {
    char expected[128];
    muster_tensor wrong[MOST_ARGUMENTS];
    memcpy(wrong, t, sizeof wrong);
    wrong[at].device = device;
    snprintf(expected, sizeof expected, "%s: %s: expected ", op->name, op->arguments[at].name);
    assert_refused(op->call(w, wrong), MUSTER_INVALID_ARGUMENT, expected);
    if (device == MUSTER_DEVICE_HOST)
        snprintf(expected, sizeof expected, "rank 0), received host memory");
    else
        snprintf(expected, sizeof expected, "rank 0), received memory of rank %d", (int)device);
    assert_non_null(strstr(muster_last_error(), expected));
}

static muster_status wrong_devices(muster_worker *w, void *unused) {
    static const int32_t wrong[] = {3, 1, INT32_MAX, -2, INT32_MIN};
    (void)unused;
    for (int o = 0; o < OPERATIONS; o++) {
        muster_tensor t[MOST_ARGUMENTS] = {{0}};
        make_arguments(w, &operations[o], t);
        for (int i = 0; i < MOST_ARGUMENTS && operations[o].arguments[i].name; i++) {
            for (size_t d = 0; d < sizeof wrong / sizeof *wrong; d++) assert_device_refused(w, &operations[o], t, i, wrong[d]);
            if (!mst_device_is_host(w->device)) assert_device_refused(w, &operations[o], t, i, MUSTER_DEVICE_HOST);
        }
        if (operations[o].call != gemm || mst_blas_get()->sgemm) assert_ok(operations[o].call(w, t));
    }
    return MUSTER_OK;
}

static void test_memory_of_another_rank_is_refused(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", wrong_devices, NULL));
    assert_ok(ops_run_on("far", wrong_devices, NULL));
}

static muster_status host_memory(muster_worker *w, void *unused) {
    (void)unused;
    for (int o = 0; o < OPERATIONS; o++) {
        muster_tensor t[MOST_ARGUMENTS] = {{0}};
        make_arguments(w, &operations[o], t);
        for (int i = 0; i < MOST_ARGUMENTS && operations[o].arguments[i].name; i++) t[i].device = MUSTER_DEVICE_HOST;
        if (operations[o].call != gemm || mst_blas_get()->sgemm) assert_ok(operations[o].call(w, t));
    }
    return MUSTER_OK;
}

static void test_host_memory_is_good_on_the_host_backend(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: they refuse it, as the test before this one says");
    assert_ok(ops_run_on("host", host_memory, NULL));
}

/* ---- memory that runs out ---- */

/* Each lets an operation ask for more scratch memory than there is, and reads one number of the
 * result, whose value is `expected`. Every operand holds 1. */
enum { LONG = 150 };
typedef struct hungry {
    muster_status (*call)(muster_worker *w, const muster_tensor *t);
    int64_t least; /* allocations */
    double expected;
    int32_t result;
    struct {
        int32_t ndim;
        int64_t shape[3];
        int64_t gap; /* between neighbours: BLAS takes 1 only */
    } operands[3];
} hungry;

static const hungry hungry_ones[] = {
    {gemm, 3, LONG, 2, {{2, {LONG, LONG}, 2}, {2, {LONG, LONG}, 2}, {2, {LONG, LONG}, 2}}},
    {gemm, 1, LONG, 2, {{2, {LONG, LONG}, 1}, {2, {LONG, LONG}, 2}, {2, {LONG, LONG}, 1}}},
    {gemm, 1, LONG, 2, {{2, {LONG, LONG}, 1}, {2, {LONG, LONG}, 1}, {2, {LONG, LONG}, 2}}},
    {reduce, 1, 5, 1, {{3, {5, LONG, LONG}, 1}, {2, {LONG, LONG}, 1}}},
    {reduce, 1, 2, 1, {{3, {2, LONG, LONG}, 3}, {2, {LONG, LONG}, 2}}},
};

typedef struct attempt {
    const hungry *operation;
    int64_t k; /* the allocation that fails */
    bool over; /* there is no k-th */
    bool by_code;
} attempt;

static muster_tensor make_operand(muster_worker *w, int32_t ndim, const int64_t *shape, int64_t gap) {
    int64_t storage = gap;
    for (int32_t d = 0; d < ndim; d++) storage *= shape[d];
    muster_tensor whole = muster_worker_scratch(w, MUSTER_F32, 1, &storage);
    assert_ok(muster_fill(w, 1, whole));
    muster_tensor t = muster_tensor_make(MUSTER_F32, whole.data, ndim, shape);
    for (int32_t d = 0; d < ndim; d++) t.strides[d] *= gap;
    t.device = whole.device;
    return t;
}

static void assert_result(muster_worker *w, const hungry *h, muster_tensor result) {
    static float values[LONG * LONG];
    muster_tensor plain = muster_worker_scratch(w, MUSTER_F32, result.ndim, result.shape);
    assert_ok(muster_copy(w, result, plain));
    assert_ok(muster_worker_read(w, plain, muster_tensor_make(MUSTER_F32, values, result.ndim, result.shape)));
    for (int i = 0; i < LONG * LONG; i++) assert_float_equal(values[i], h->expected, 0);
}

static muster_status fail_once(muster_worker *w, void *argument) {
    attempt *a = argument;
    const hungry *h = a->operation;
    muster_tensor t[3];
    for (int i = 0; i <= h->result; i++) t[i] = make_operand(w, h->operands[i].ndim, h->operands[i].shape, h->operands[i].gap);
    const int64_t before = mst_memory_count();
    mst_memory_fail_at(a->k);
    muster_status status = h->call(w, t);
    mst_memory_fail_at(0);
    a->over = mst_memory_count() - before < a->k;
    a->by_code = mst_op_by_code(w);
    if (!a->over) assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
    assert_ok(h->call(w, t));
    assert_result(w, h, t[h->result]);
    return MUSTER_OK;
}

static void fail_every_allocation(const char *backend, const hungry *h) {
    const int64_t live = mst_memory_live();
    attempt a = {.operation = h};
    while (!a.over) {
        a.k++;
        assert_ok(ops_run_on(backend, fail_once, &a));
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_far_live(), 0);
    }
    if (on_gpus()) return; /* scratch is a part of the memory that the device has reserved */
    /* device code reduces a few elements without scratch */
    if (h->call == gemm || !a.by_code) assert_true(a.k > h->least);
}

static void test_a_failed_allocation_fails_the_operation_and_nothing_else(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hungry_ones / sizeof *hungry_ones; i++) {
        if (hungry_ones[i].call == gemm && !mst_blas_get()->sgemm) continue;
        fail_every_allocation("host", &hungry_ones[i]);
        fail_every_allocation("far", &hungry_ones[i]);
    }
}

static muster_status count_allocations(muster_worker *w, void *unused) {
    (void)unused;
    for (int o = 0; o < OPERATIONS; o++) {
        muster_tensor t[MOST_ARGUMENTS] = {{0}};
        make_arguments(w, &operations[o], t);
        const int64_t before = mst_memory_count();
        if (operations[o].call != gemm || mst_blas_get()->sgemm) assert_ok(operations[o].call(w, t));
        assert_int_equal(mst_memory_count(), before);
    }
    return MUSTER_OK;
}

static void test_operations_on_contiguous_operands_allocate_nothing(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", count_allocations, NULL));
    assert_ok(ops_run_on("far", count_allocations, NULL));
}

/* ---- no worker ---- */

static void test_every_operation_refuses_a_missing_worker(void **state) {
    (void)state;
    for (int o = 0; o < OPERATIONS; o++) {
        const muster_tensor t[MOST_ARGUMENTS] = {{0}};
        char expected[128];
        snprintf(expected, sizeof expected, "%s: worker: expected the worker of a running function, received NULL", operations[o].name);
        assert_refused(operations[o].call(NULL, t), MUSTER_INVALID_ARGUMENT, expected);
    }
}

int main(void) {
    if (mst_far_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_another_rank_is_refused),
        cmocka_unit_test(test_host_memory_is_good_on_the_host_backend),
        cmocka_unit_test(test_a_failed_allocation_fails_the_operation_and_nothing_else),
        cmocka_unit_test(test_operations_on_contiguous_operands_allocate_nothing),
        cmocka_unit_test(test_every_operation_refuses_a_missing_worker),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}
