/* Buffers for the inputs of a function, and the registration of their storage. Whether memory is
 * registered shows in that it cannot be registered once more. */
#include "function_fixture.h"
#include "muster/buffer.h"

#include <stdbool.h>

#include "memory_impl.h"

enum { COLUMNS = 4 };

static muster_status sum_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    return muster_axpy(w, (double)muster_worker_rows(w), in[1], out[0]);
}

static muster_function *make(muster_runtime *runtime) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "sum", sum_rows, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(f, "b", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_SUM));
    return f;
}

static bool is_registered(muster_runtime *runtime, void *address) {
    const muster_status status = muster_runtime_register_memory(runtime, address, 1);
    if (status == MUSTER_OK) assert_ok(muster_runtime_unregister_memory(runtime, address));
    return status == MUSTER_INVALID_ARGUMENT;
}

static void *storage(const muster_buffer *buffer) { return muster_buffer_tensor(buffer).data; }

/* The first and the last byte are. */
static bool storage_is_registered(muster_runtime *runtime, const muster_buffer *buffer) {
    const muster_tensor tensor = muster_buffer_tensor(buffer);
    char *first = tensor.data;
    return is_registered(runtime, first) &&
           is_registered(runtime, first + muster_buffer_capacity(buffer) * muster_dtype_size(tensor.dtype) - 1);
}

/* Sets the rows to 1, 2, ... and calls: y = sum of the rows + rows * b. */
static void call_with_rows(muster_function *f, muster_buffer *const *buffers, int64_t rows) {
    float x[64][COLUMNS], y[COLUMNS] = {0};
    const float b[COLUMNS] = {1, 1, 1, 1};
    for (int64_t i = 0; i < rows; i++)
        for (int c = 0; c < COLUMNS; c++) x[i][c] = (float)(i + 1);
    assert_ok(muster_buffer_set_value(buffers[0], muster_f32(x, rows, COLUMNS), MUSTER_CAST_SAFE));
    assert_ok(muster_buffer_set_value(buffers[1], muster_f32(b, COLUMNS), MUSTER_CAST_SAFE));
    const muster_tensor inputs[] = {muster_buffer_tensor(buffers[0]), muster_buffer_tensor(buffers[1])}, output = muster_f32(y, COLUMNS);
    assert_ok(muster_function_call(f, inputs, 2, &output, 1, NULL));
    for (int c = 0; c < COLUMNS; c++) assert_true(y[c] == (float)(rows * (rows + 1) / 2 + rows));
}

static void buffers_of_a_function_stay_registered_as_they_grow(void **unused) {
    (void)unused;
    const int64_t live = mst_memory_live();
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *f = make(runtime);
        muster_buffer *buffers[2];
        assert_ok(muster_function_buffers(f, 1.5, buffers, 2));
        assert_int_equal(muster_buffer_tensor(buffers[0]).ndim, 2);
        assert_int_equal(muster_buffer_tensor(buffers[1]).ndim, 1);
        assert_int_equal(muster_buffer_tensor(buffers[0]).dtype, MUSTER_F32);
        int grown = 0;
        void *before = NULL;
        for (int64_t rows = 1; rows <= 64; rows *= 2) {
            call_with_rows(f, buffers, rows);
            assert_true(storage_is_registered(runtime, buffers[0]));
            assert_true(storage_is_registered(runtime, buffers[1]));
            grown += storage(buffers[0]) != before;
            before = storage(buffers[0]);
        }
        assert_true(grown >= 4);
        call_with_rows(f, buffers, 3); /* shrinks, in the same storage */
        assert_true(storage(buffers[0]) == before && is_registered(runtime, before));
        muster_buffer_free_memory(buffers[0]);
        assert_null(storage(buffers[0]));
        call_with_rows(f, buffers, 5);
        assert_true(storage_is_registered(runtime, buffers[0]));
        muster_buffer_destroy(buffers[0]);
        fixture_close(runtime);
        /* the other one goes on without its runtime */
        assert_ok(muster_buffer_set_length(buffers[1], 1000));
        muster_buffer_destroy(buffers[1]);
    }
    assert_int_equal(mst_memory_live(), live);
}

static void a_buffer_is_registered_with_what_it_holds(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2), *second = fixture_open(backend, 1);
        muster_buffer *buffer;
        assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
        assert_ok(muster_buffer_set_length(buffer, 10));
        assert_false(is_registered(runtime, storage(buffer)));
        assert_ok(muster_runtime_register_buffer(runtime, buffer));
        assert_true(storage_is_registered(runtime, buffer));
        assert_refused(muster_runtime_register_buffer(runtime, buffer), MUSTER_INVALID_ARGUMENT, "expected one that is not registered");
        assert_refused(muster_runtime_unregister_buffer(second, buffer), MUSTER_INVALID_ARGUMENT, "registered in this runtime");
        assert_ok(muster_runtime_unregister_buffer(runtime, buffer));
        assert_false(is_registered(runtime, storage(buffer)));
        assert_refused(muster_runtime_unregister_buffer(runtime, buffer), MUSTER_INVALID_ARGUMENT, "registered in this runtime");
        assert_ok(muster_buffer_set_length(buffer, 1000));
        assert_false(is_registered(runtime, storage(buffer)));
        /* memory of the program in the way: the buffer is not registered, and stays as it is */
        assert_ok(muster_runtime_register_memory(runtime, storage(buffer), 4));
        assert_refused(muster_runtime_register_buffer(runtime, buffer), MUSTER_INVALID_ARGUMENT, "muster_runtime_register_buffer: address");
        assert_ok(muster_runtime_unregister_memory(runtime, storage(buffer)));
        assert_ok(muster_runtime_register_buffer(runtime, buffer));
        muster_buffer_destroy(buffer);
        fixture_close(second);
        fixture_close(runtime);
    }
}

static muster_status misuse(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_buffer **buffers = user;
    if (muster_worker_rank(w) > 0) return MUSTER_OK;
    void *const kept = storage(buffers[1]);
    *(float *)kept = 5;
    muster_buffer_destroy(buffers[1]);
    buffers[1] = NULL;
    if (*(float *)kept != 5) return MUSTER_INTERNAL; /* stays until the runtime closes */
    return muster_buffer_set_length(buffers[0], 100000);
}

static void inside_a_body_registered_buffers_do_not_grow(void **unused) {
    (void)unused;
    const int64_t live = mst_memory_live();
    muster_runtime *runtime = fixture_open("host", 2);
    muster_buffer *buffers[2];
    muster_function *f;
    for (int i = 0; i < 2; i++) {
        assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffers[i]));
        assert_ok(muster_runtime_register_buffer(runtime, buffers[i]));
        assert_ok(muster_buffer_set_length(buffers[i], 10));
    }
    assert_ok(muster_function_create(runtime, "misuse", misuse, buffers, &f));
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE, "muster_buffer_set_length");
    assert_int_equal(muster_tensor_rows(muster_buffer_tensor(buffers[0])), 10);
    assert_true(storage_is_registered(runtime, buffers[0]));
    fixture_close(runtime);
    muster_buffer_destroy(buffers[0]);
    assert_int_equal(mst_memory_live(), live);
}

static void refused_arguments(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_function *f = make(runtime);
    muster_buffer *buffers[2] = {NULL, NULL};
    assert_refused(muster_function_buffers(f, 1, buffers, 1), MUSTER_INVALID_ARGUMENT,
                   "muster_function_buffers: count: expected the 2 inputs of function 'sum', received 1");
    assert_refused(muster_function_buffers(f, 1, NULL, 2), MUSTER_INVALID_ARGUMENT, "buffers: expected room for 2, received NULL");
    assert_refused(muster_function_buffers(f, 0.9, buffers, 2), MUSTER_INVALID_ARGUMENT, "oversize: expected a factor in [1, 2]");
    assert_refused(muster_function_buffers(f, 2.1, buffers, 2), MUSTER_INVALID_ARGUMENT, "oversize: expected a factor in [1, 2]");
    assert_refused(muster_function_buffers(NULL, 1, buffers, 2), MUSTER_INVALID_ARGUMENT, "function");
    assert_refused(muster_runtime_register_buffer(NULL, NULL), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_refused(muster_runtime_register_buffer(runtime, NULL), MUSTER_INVALID_ARGUMENT, "buffer");
    /* every failing allocation leaves nothing behind */
    const int64_t live = mst_memory_live();
    for (int64_t k = 1;; k++) {
        const int64_t before = mst_memory_count();
        mst_memory_fail_at(k);
        const muster_status status = muster_function_buffers(f, 1, buffers, 2);
        const bool done = mst_memory_count() - before < k;
        mst_memory_fail_at(0);
        if (done) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_true(!buffers[0] && !buffers[1] && mst_memory_live() == live);
    }
    muster_buffer_destroy(buffers[0]);
    muster_buffer_destroy(buffers[1]);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_a_function_stay_registered_as_they_grow),
        cmocka_unit_test(a_buffer_is_registered_with_what_it_holds),
        cmocka_unit_test(inside_a_body_registered_buffers_do_not_grow),
        cmocka_unit_test(refused_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
