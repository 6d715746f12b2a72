/* What a body may ask of its worker, and what is answered where there is none. */
#include "base_machine.h"
#include "function_fixture.h"

#include "memory_impl.h"
#include "muster/communicator.h"

#include <stdlib.h>
#include <string.h>

/* A sanitizer ends the program when too much memory is asked for, unless it is told that NULL is an
 * answer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static void numbers_asked_of_no_worker_are_negative(void **unused) {
    (void)unused;
    assert_int_equal(muster_worker_rank(NULL), -1);
    assert_int_equal(muster_worker_size(NULL), -1);
    assert_int_equal(muster_worker_first_row(NULL), -1);
    assert_int_equal(muster_worker_rows(NULL), -1);
    assert_int_equal(muster_worker_total_rows(NULL), -1);
    assert_int_equal(muster_worker_slice(NULL), -1);
    assert_int_equal(muster_worker_slices(NULL), -1);
}

static void the_rest_asked_of_no_worker_is_nothing(void **unused) {
    (void)unused;
    assert_float_equal(muster_worker_weight(NULL), 0, 0);
    assert_int_equal(muster_worker_cancelled(NULL), 0);
    assert_null(muster_worker_backend(NULL));
}

static void no_worker_can_do_nothing(void **unused) {
    (void)unused;
    float x = 0;
    muster_tensor t = muster_f32(&x), rows;
    assert_refused(muster_worker_set_weight(NULL, 1), MUSTER_INVALID_ARGUMENT, "muster_worker_set_weight: worker: expected");
    assert_refused(muster_worker_read(NULL, t, t), MUSTER_INVALID_ARGUMENT, "muster_worker_read: worker: expected");
    assert_refused(muster_worker_write(NULL, t, t), MUSTER_INVALID_ARGUMENT, "muster_worker_write: worker: expected");
    assert_refused(muster_worker_output_rows(NULL, 0, 1, &rows), MUSTER_INVALID_ARGUMENT, "muster_worker_output_rows: worker: expected");
    assert_refused(muster_worker_all_reduce(NULL, NULL, MUSTER_SUM, t, t), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_all_reduce: worker: expected");
    assert_refused(muster_worker_broadcast(NULL, NULL, 0, t, t), MUSTER_INVALID_ARGUMENT, "muster_worker_broadcast: worker: expected");
    assert_refused(muster_worker_barrier(NULL, NULL), MUSTER_INVALID_ARGUMENT, "muster_worker_barrier: worker: expected");
}

static void no_worker_has_no_tensors(void **unused) {
    (void)unused;
    const int64_t shape[] = {3};
    float value = 0;
    muster_tensor tensor = muster_f32(&value);
    assert_int_equal(muster_worker_scratch(NULL, MUSTER_F32, 1, shape, &tensor), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(tensor.dtype, MUSTER_DTYPE_NONE);
    assert_non_null(strstr(muster_last_error(), "muster_worker_scratch: worker: expected"));
    tensor = muster_f32(&value);
    assert_int_equal(muster_worker_variable(NULL, NULL, &tensor), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(tensor.dtype, MUSTER_DTYPE_NONE);
    assert_non_null(strstr(muster_last_error(), "muster_worker_variable: worker: expected"));
    tensor = muster_f32(&value);
    assert_int_equal(muster_worker_update(NULL, NULL, &tensor), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(tensor.dtype, MUSTER_DTYPE_NONE);
    assert_non_null(strstr(muster_last_error(), "muster_worker_update: worker: expected"));
}

/* ---- memory of the other rank ---- */

static muster_status use_memory_of_rank(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor x = in[0];
    if (muster_worker_rank(w) == 1) x.device = *(const int32_t *)user;
    return muster_sum(w, x, out[0]);
}

static muster_status sum_as(muster_runtime *runtime, int32_t device, float *y) {
    static float x[4] = {1, 2, 3, 4};
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", use_memory_of_rank, &device, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    muster_status status = muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, (muster_tensor[]){muster_f32(y)}, 1, NULL);
    assert_ok(muster_function_destroy(f));
    return status;
}

static void an_operation_refuses_memory_of_another_rank(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        float y = 0;
        assert_refused(sum_as(runtime, 0, &y), MUSTER_INVALID_ARGUMENT, "rank 1), received memory of rank 0 (rank 1)");
        assert_refused(sum_as(runtime, 3, &y), MUSTER_INVALID_ARGUMENT, "rank 1), received memory of rank 3 (rank 1)");
        assert_ok(sum_as(runtime, 1, &y));
        assert_float_equal(y, 10, 0);
        fixture_close(runtime);
    }
}

static void an_operation_takes_host_memory_on_the_host_backend_only(void **unused) {
    (void)unused;
    float y = 0;
    muster_runtime *host = fixture_open("host", 2);
    if (on_gpus()) {
        assert_refused(sum_as(host, MUSTER_DEVICE_HOST, &y), MUSTER_INVALID_ARGUMENT, "rank 1), received host memory (rank 1)");
    } else {
        assert_ok(sum_as(host, MUSTER_DEVICE_HOST, &y));
        assert_float_equal(y, 10, 0);
    }
    fixture_close(host);
    muster_runtime *discrete = fixture_open("discrete", 2);
    assert_refused(sum_as(discrete, MUSTER_DEVICE_HOST, &y), MUSTER_INVALID_ARGUMENT, "rank 1), received host memory (rank 1)");
    fixture_close(discrete);
}

/* ---- rows beyond all measure ---- */

static muster_status ask_for_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor rows;
    (void)in, (void)out;
    return muster_worker_output_rows(w, 0, *(const int64_t *)user, &rows);
}

static muster_status gather_rows(muster_runtime *runtime, int64_t rows) {
    muster_function *f;
    float y[2] = {0};
    assert_ok(muster_function_create(runtime, "f", ask_for_rows, &rows, &f));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
    muster_status status = muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(y, 2)}, 1, NULL);
    assert_ok(muster_function_destroy(f));
    return status;
}

static void more_rows_than_memory_holds_are_refused(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        assert_ok(gather_rows(runtime, 2)); /* what the runtime keeps between calls is made */
        const int64_t live = mst_memory_live();
        assert_refused(gather_rows(runtime, INT64_MAX / 4), MUSTER_OUT_OF_MEMORY, "out of memory");
        assert_refused(gather_rows(runtime, INT64_MAX), MUSTER_OVERFLOW, "muster_worker_output_rows: rows:");
        assert_refused(gather_rows(runtime, -1), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_output_rows: rows: expected 0 or more, received -1");
        assert_refused(gather_rows(runtime, 1), MUSTER_SHAPE_MISMATCH, "the caller's tensor has 2 rows, the workers gave 1");
        assert_ok(gather_rows(runtime, 2));
        assert_int_equal(mst_memory_live(), live);
        fixture_close(runtime);
    }
}

/* ---- memory that cannot be had, in plain loops ---- */

typedef struct plain {
    muster_variable *read, *written;
    muster_dtype dtype;
    int64_t count;
} plain;

/* value + the sum of this worker's rows, by loops over addresses: only the statuses say that a
 * tensor is missing. */
static muster_status add_plainly(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const plain *p = user;
    muster_tensor value, next, terms;
    (void)out;
    MUSTER_TRY(muster_worker_variable(w, p->read, &value));
    MUSTER_TRY(muster_worker_update(w, p->written, &next));
    MUSTER_TRY(muster_worker_scratch(w, p->dtype, 1, &p->count, &terms));
    const float *x = muster_tensor_address(in[0]), *old = muster_tensor_address(value);
    float *term = muster_tensor_address(terms), *sum = muster_tensor_address(next);
    for (int64_t i = 0; i < muster_tensor_rows(in[0]); i++) term[i] = x[i];
    *sum = *old;
    for (int64_t i = 0; i < muster_tensor_rows(in[0]); i++) *sum += term[i];
    return MUSTER_OK;
}

static muster_status add_call(muster_function *f) {
    static float x[4] = {1, 2, 3, 4};
    return muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, NULL, 0, NULL);
}

/* A failure leaves the variable alone. */
static void assert_adds(muster_function *f, muster_variable *sum, float *expected) {
    float now;
    assert_ok(muster_variable_get(sum, 0, muster_f32(&now)));
    assert_float_equal(now, *expected, 0);
    assert_ok(add_call(f));
    assert_ok(muster_variable_get(sum, 0, muster_f32(&now)));
    *expected += 10;
    assert_float_equal(now, *expected, 0);
}

static void a_plain_loop_ends_where_its_memory_is_missing(void **unused) {
    (void)unused;
    if (getenv("MUSTER_TEST_DEVICES")) skip(); /* loops read host memory */
    muster_runtime *runtime = fixture_open("host", 1);
    muster_variable *sum, *other;
    muster_function *f;
    float zero = 0, expected = 0;
    plain p = {.dtype = MUSTER_F32, .count = 4};
    assert_ok(muster_variable_create(runtime, "sum", muster_f32(&zero), &sum));
    assert_ok(muster_variable_create(runtime, "other", muster_f32(&zero), &other));
    p.read = p.written = sum;
    assert_ok(muster_function_create(runtime, "f", add_plainly, &p, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_update(f, sum, MUSTER_SUM));
    int64_t failed = 0;
    for (int64_t k = 1;; k++) { /* each allocation of the first call */
        mst_memory_fail_at(k);
        const int64_t before = mst_memory_count();
        const muster_status status = add_call(f);
        const bool done = mst_memory_count() - before < k;
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) expected += 10;
        if (done) break;
        failed += status == MUSTER_OUT_OF_MEMORY;
    }
    assert_true(failed >= 2);
    const struct {
        plain p;
        muster_status status;
        const char *text;
    } cases[] = {
        {{other, sum, MUSTER_F32, 4},
         MUSTER_INVALID_ARGUMENT,
         "muster_worker_variable: variable: expected one that function 'f' has declared"},
        {{sum, other, MUSTER_F32, 4},
         MUSTER_INVALID_ARGUMENT,
         "muster_worker_update: variable: expected one that function 'f' has declared"},
        {{NULL, sum, MUSTER_F32, 4}, MUSTER_INVALID_ARGUMENT, "muster_worker_variable: variable: expected a variable, received NULL"},
        {{sum, NULL, MUSTER_F32, 4}, MUSTER_INVALID_ARGUMENT, "muster_worker_update: variable: expected a variable, received NULL"},
        {{sum, sum, 99, 4}, MUSTER_INVALID_ARGUMENT, "muster_worker_scratch: dtype: expected an element type, received 99"},
        {{sum, sum, MUSTER_F32, -1}, MUSTER_INVALID_ARGUMENT, "muster_worker_scratch: shape[0]: expected 0 or more, received -1"},
        {{sum, sum, MUSTER_F32, INT64_MAX}, MUSTER_OVERFLOW, "muster_worker_scratch: shape: the size in bytes overflows 64 bits"},
        {{sum, sum, MUSTER_F32, INT64_MAX / 16}, MUSTER_OUT_OF_MEMORY, "out of memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p = cases[i].p;
        assert_refused(add_call(f), cases[i].status, cases[i].text);
        p = (plain){sum, sum, MUSTER_F32, 4};
        assert_adds(f, sum, &expected);
    }
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_asked_of_no_worker_are_negative),
        cmocka_unit_test(the_rest_asked_of_no_worker_is_nothing),
        cmocka_unit_test(no_worker_can_do_nothing),
        cmocka_unit_test(no_worker_has_no_tensors),
        cmocka_unit_test(an_operation_refuses_memory_of_another_rank),
        cmocka_unit_test(an_operation_takes_host_memory_on_the_host_backend_only),
        cmocka_unit_test(more_rows_than_memory_holds_are_refused),
        cmocka_unit_test(a_plain_loop_ends_where_its_memory_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
