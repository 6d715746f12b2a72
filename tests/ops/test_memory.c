/* The memory that operations accept, and what they do when scratch memory runs out. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "ops_oracle.h"

#include <stdio.h>

enum { SIDE = 3, FORMS = 2 };

/* A public function and the row that it runs. */
typedef struct call {
    const char *name;
    const mst_op_row *operation;
    muster_status (*run)(muster_worker *w, const muster_tensor *t, const mst_op_value *values);
    mst_op_value values[MST_ATTRIBUTES];
} call;
enum { CALLS = MST_OPERATIONS + FORMS };
static call calls[CALLS];

static muster_status mean(muster_worker *w, const muster_tensor *t, const mst_op_value *values) {
    (void)values;
    return muster_mean(w, t[0], t[1]);
}
static muster_status sum(muster_worker *w, const muster_tensor *t, const mst_op_value *values) {
    (void)values;
    return muster_sum(w, t[0], t[1]);
}

/* Finds every row, with the attributes of its oracle, and the functions of muster/ops.h that run
 * the row of another function. */
static bool find_calls(void) {
    for (int32_t i = 0; i < MST_OPERATIONS; i++) {
        const ops_oracle *oracle = ops_oracle_find(i);
        calls[i] = (call){.name = mst_operations[i]->function, .operation = mst_operations[i], .run = mst_operations[i]->run};
        if (!oracle) {
            print_message("the operation %s has no oracle\n", mst_operations[i]->name);
            return false;
        }
        memcpy(calls[i].values, oracle->values, sizeof oracle->values);
    }
    const mst_op_value all[] = {{.integer = MUSTER_SUM}, {.integer = -1}};
    calls[MST_OPERATIONS] = (call){"muster_mean", &mst_operation_reduce, mean, {all[0], all[1]}};
    calls[MST_OPERATIONS + 1] = (call){"muster_sum", &mst_operation_reduce, sum, {all[0], all[1]}};
    return true;
}

static bool lacks_blas(const muster_worker *w, const mst_op_row *o) {
    return (o == &mst_operation_gemm || o == &mst_operation_gemm_batched) && mst_device_is_host(w->device) && !mst_blas_get()->sgemm;
}

/* f32 if the operand supports it, else the first dtype that it supports. */
static muster_dtype dtype_of(const mst_operand *operand) {
    const uint32_t f32 = MST_DTYPE_BIT(MUSTER_F32);
    return operand->dtypes == 0 || (operand->dtypes & f32) ? MUSTER_F32 : (muster_dtype)__builtin_ctz(operand->dtypes);
}

/* Contiguous tensors on the device that hold zeros; every axis has SIDE elements. */
static void make_arguments(muster_worker *w, const call *c, muster_tensor t[MST_OPERANDS]) {
    const int64_t shape[] = {SIDE, SIDE};
    const mst_op_row *o = c->operation;
    for (int i = 0; o->operands[i].name; i++) {
        const char *dims = o->operands[i].dims;
        t[i] = muster_tensor_make(dtype_of(&o->operands[i]), NULL, strpbrk(dims, "*~?") ? 2 : (int32_t)strlen(dims), shape);
    }
    assert_ok(mst_operation_infer(o, c->values, t, c->name));
    for (int i = 0; o->operands[i].name; i++) {
        assert_ok(muster_worker_scratch(w, t[i].dtype, t[i].ndim, t[i].shape, &t[i]));
        assert_ok(muster_fill(w, 0, t[i]));
    }
}

/* ---- whose memory ---- */

static void assert_device_refused(muster_worker *w, const call *c, const muster_tensor *t, int at, int32_t device) {
    char expected[128];
    muster_tensor wrong[MST_OPERANDS];
    memcpy(wrong, t, sizeof wrong);
    wrong[at].device = device;
    snprintf(expected, sizeof expected, "%s: %s: expected ", c->name, c->operation->operands[at].name);
    assert_refused(c->run(w, wrong, c->values), MUSTER_INVALID_ARGUMENT, expected);
    if (device == MUSTER_DEVICE_HOST)
        snprintf(expected, sizeof expected, "rank 0), received host memory");
    else
        snprintf(expected, sizeof expected, "rank 0), received memory of rank %d", (int)device);
    assert_non_null(strstr(muster_last_error(), expected));
}

static muster_status wrong_devices(muster_worker *w, void *unused) {
    static const int32_t wrong[] = {3, 1, INT32_MAX, -2, INT32_MIN};
    (void)unused;
    for (const call *c = calls; c < calls + CALLS; c++) {
        muster_tensor t[MST_OPERANDS] = {{0}};
        make_arguments(w, c, t);
        for (int i = 0; c->operation->operands[i].name; i++) {
            for (size_t d = 0; d < sizeof wrong / sizeof *wrong; d++) assert_device_refused(w, c, t, i, wrong[d]);
            if (!mst_device_is_host(w->device)) assert_device_refused(w, c, t, i, MUSTER_DEVICE_HOST);
        }
        if (!lacks_blas(w, c->operation)) assert_ok(c->run(w, t, c->values));
    }
    return MUSTER_OK;
}

static void test_memory_of_another_rank_is_refused(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", wrong_devices, NULL));
    assert_ok(ops_run_on("discrete", wrong_devices, NULL));
}

static muster_status host_memory(muster_worker *w, void *unused) {
    (void)unused;
    for (const call *c = calls; c < calls + CALLS; c++) {
        muster_tensor t[MST_OPERANDS] = {{0}};
        make_arguments(w, c, t);
        for (int i = 0; c->operation->operands[i].name; i++) t[i].device = MUSTER_DEVICE_HOST;
        if (!lacks_blas(w, c->operation)) assert_ok(c->run(w, t, c->values));
    }
    return MUSTER_OK;
}

static void test_host_memory_is_good_on_the_host_backend(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: they refuse it, as the test before this one says");
    assert_ok(ops_run_on("host", host_memory, NULL));
}

/* ---- memory that runs out ---- */

static muster_status gemm(muster_worker *w, const muster_tensor *t) { return muster_gemm(w, 1, t[0], t[1], 0, t[2]); }
static muster_status gemm_batched(muster_worker *w, const muster_tensor *t) { return muster_gemm_batched(w, 1, t[0], t[1], 0, t[2]); }
static bool is_product(muster_status (*call)(muster_worker *, const muster_tensor *)) { return call == gemm || call == gemm_batched; }
static muster_status reduce(muster_worker *w, const muster_tensor *t) { return muster_reduce(w, MUSTER_SUM, t[0], 0, t[1]); }

/* A call that needs scratch memory. Every element of the operands is 1, and every element of the
 * result is `expected`. */
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
    {gemm_batched, 3, LONG, 2, {{2, {LONG, LONG}, 2}, {2, {LONG, LONG}, 2}, {2, {LONG, LONG}, 2}}},
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
    muster_tensor storage_tensor;
    assert_ok(muster_worker_scratch(w, MUSTER_F32, 1, &storage, &storage_tensor));
    assert_ok(muster_fill(w, 1, storage_tensor));
    muster_tensor t = muster_tensor_make(MUSTER_F32, storage_tensor.data, ndim, shape);
    for (int32_t d = 0; d < ndim; d++) t.strides[d] *= gap;
    t.device = storage_tensor.device;
    return t;
}

static void assert_result(muster_worker *w, const hungry *h, muster_tensor result) {
    static float values[LONG * LONG];
    muster_tensor plain;
    assert_ok(muster_worker_scratch(w, MUSTER_F32, result.ndim, result.shape, &plain));
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
    a->by_code = !mst_device_is_host(w->device);
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
        assert_int_equal(mst_discrete_live(), 0);
    }
    if (on_gpus()) return; /* scratch is a part of the memory that the device has reserved */
    /* device code reduces a few elements without scratch */
    if (is_product(h->call) || !a.by_code) assert_true(a.k > h->least);
}

static void test_a_failed_allocation_fails_the_operation_and_nothing_else(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hungry_ones / sizeof *hungry_ones; i++) {
        if (is_product(hungry_ones[i].call) && !mst_blas_get()->sgemm) continue;
        fail_every_allocation("host", &hungry_ones[i]);
        fail_every_allocation("discrete", &hungry_ones[i]);
    }
}

static muster_status count_allocations(muster_worker *w, void *unused) {
    (void)unused;
    for (const call *c = calls; c < calls + CALLS; c++) {
        muster_tensor t[MST_OPERANDS] = {{0}};
        make_arguments(w, c, t);
        const int64_t before = mst_memory_count();
        if (!lacks_blas(w, c->operation)) assert_ok(c->run(w, t, c->values));
        assert_int_equal(mst_memory_count(), before);
    }
    return MUSTER_OK;
}

static void test_operations_on_contiguous_operands_allocate_nothing(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", count_allocations, NULL));
    assert_ok(ops_run_on("discrete", count_allocations, NULL));
}

/* ---- copies for the device's product ---- */

/* How a matrix lies: its product takes the first two forms of A and B, and the first form of C. */
typedef enum lie { PLAIN, TRANSPOSED, GAPS, LIES } lie;
enum { BATCHES = 2, EDGE = 16, COPY_BYTES = BATCHES * EDGE * EDGE * 4 };

static muster_tensor make_batch(muster_worker *w, lie lies) {
    static const int64_t shape[] = {BATCHES, EDGE, EDGE};
    muster_tensor t = make_operand(w, 3, shape, lies == GAPS ? 2 : 1);
    if (lies == TRANSPOSED) t.strides[1] = 1, t.strides[2] = EDGE;
    return t;
}

static muster_status count_copies(muster_worker *w, void *cases) {
    for (lie a = PLAIN; a < LIES; a++)
        for (lie b = PLAIN; b < LIES; b++)
            for (lie c = PLAIN; c < LIES; c++, ++*(int *)cases) {
                const muster_tensor t[] = {make_batch(w, a), make_batch(w, b), make_batch(w, c)};
                const int64_t before = mst_worker_scratch_watch(w), copies = (a == GAPS) + (b == GAPS) + (c != PLAIN);
                assert_ok(gemm_batched(w, t));
                assert_int_equal(w->scratch_peak - before, copies * COPY_BYTES);
            }
    return MUSTER_OK;
}

static void test_batched_products_copy_what_the_device_does_not_take(void **state) {
    (void)state;
    int cases = 0;
    assert_ok(ops_run_on("discrete", count_copies, &cases));
    assert_int_equal(cases, LIES * LIES * LIES);
}

/* ---- no worker ---- */

static void test_every_operation_refuses_a_missing_worker(void **state) {
    (void)state;
    for (const call *c = calls; c < calls + CALLS; c++) {
        const muster_tensor t[MST_OPERANDS] = {{0}};
        char expected[128];
        snprintf(expected, sizeof expected, "%s: worker: expected the worker of the running function, received NULL", c->name);
        assert_refused(c->run(NULL, t, c->values), MUSTER_INVALID_ARGUMENT, expected);
    }
}

int main(void) {
    if (mst_discrete_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK || !find_calls()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_another_rank_is_refused),
        cmocka_unit_test(test_host_memory_is_good_on_the_host_backend),
        cmocka_unit_test(test_a_failed_allocation_fails_the_operation_and_nothing_else),
        cmocka_unit_test(test_operations_on_contiguous_operands_allocate_nothing),
        cmocka_unit_test(test_batched_products_copy_what_the_device_does_not_take),
        cmocka_unit_test(test_every_operation_refuses_a_missing_worker),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}
