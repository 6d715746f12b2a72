#include "base_check.h"
#include "muster/buffer.h"
#include "tensor_impl.h"

#include <math.h>

static muster_buffer *make(muster_dtype dtype, int32_t ndim, double oversize) {
    muster_buffer *buffer = NULL;
    assert_ok(muster_buffer_create(dtype, ndim, oversize, &buffer));
    return buffer;
}

/* A buffer of f32 that holds the rows {1, 2}, {3, 4}, {5, 6}. */
static muster_buffer *make_rows(double oversize) {
    muster_buffer *buffer = make(MUSTER_F32, 2, oversize);
    assert_ok(muster_buffer_set_value(buffer, muster_f32(((float[]){1, 2, 3, 4, 5, 6}), 3, 2), MUSTER_CAST_SAFE));
    return buffer;
}

static void check_contents(const muster_buffer *buffer, int64_t rows, int64_t columns, const float *expected) {
    muster_tensor view = muster_buffer_tensor(buffer);
    assert_int_equal(view.shape[0], rows);
    assert_int_equal(view.shape[1], columns);
    for (int64_t i = 0; i < rows * columns; i++) assert_true(((const float *)muster_tensor_address(view))[i] == expected[i]);
}

static void a_new_buffer_is_empty(void **state) {
    (void)state;
    muster_buffer *buffer = make(MUSTER_F64, 3, 1);
    muster_tensor view = muster_buffer_tensor(buffer);
    assert_ok(mst_tensor_check(view, "test", "view"));
    assert_int_equal(view.dtype, MUSTER_F64);
    assert_int_equal(view.ndim, 3);
    assert_int_equal(muster_tensor_count(view), 0);
    assert_int_equal(muster_buffer_capacity(buffer), 0);
    muster_buffer_destroy(buffer);
}

static void creation_refuses_what_is_never_right(void **state) {
    (void)state;
    muster_buffer *buffer = NULL;
    assert_refused(muster_buffer_create(MUSTER_F32, 1, 1, NULL), MUSTER_INVALID_ARGUMENT, "muster_buffer_create: buffer");
    assert_refused(muster_buffer_create(MUSTER_DTYPE_NONE, 1, 1, &buffer), MUSTER_INVALID_ARGUMENT, "dtype");
    assert_refused(muster_buffer_create(MUSTER_F32, -1, 1, &buffer), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_refused(muster_buffer_create(MUSTER_F32, 9, 1, &buffer), MUSTER_INVALID_ARGUMENT, "received 9");
    assert_refused(muster_buffer_create(MUSTER_F32, 1, 0.99, &buffer), MUSTER_INVALID_ARGUMENT, "oversize");
    assert_refused(muster_buffer_create(MUSTER_F32, 1, 2.01, &buffer), MUSTER_INVALID_ARGUMENT, "oversize");
    assert_refused(muster_buffer_create(MUSTER_F32, 1, NAN, &buffer), MUSTER_INVALID_ARGUMENT, "oversize");
    assert_null(buffer);
}

static void null_is_refused_or_ignored(void **state) {
    (void)state;
    const int64_t shape[] = {1};
    muster_buffer_destroy(NULL);
    muster_buffer_free_memory(NULL);
    assert_int_equal(muster_buffer_tensor(NULL).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_buffer_capacity(NULL), 0);
    assert_refused(muster_buffer_set_value(NULL, muster_f32(NULL, 0), 0), MUSTER_INVALID_ARGUMENT, "buffer: expected a buffer");
    assert_refused(muster_buffer_set_length(NULL, 1), MUSTER_INVALID_ARGUMENT, "buffer: expected a buffer");
    assert_refused(muster_buffer_set_shape(NULL, 1, shape), MUSTER_INVALID_ARGUMENT, "buffer: expected a buffer");
}

static void set_value_takes_shape_and_a_copy(void **state) {
    (void)state;
    float values[] = {1, 2, 3, 4, 5, 6};
    muster_buffer *buffer = make(MUSTER_F32, 2, 1);
    assert_ok(muster_buffer_set_value(buffer, muster_f32(values, 2, 3), MUSTER_CAST_SAFE));
    values[0] = 99;
    check_contents(buffer, 2, 3, (float[]){1, 2, 3, 4, 5, 6});
    assert_int_equal((uintptr_t)muster_buffer_tensor(buffer).data % 64, 0);
    muster_buffer_destroy(buffer);
}

static void set_value_reads_strided_values(void **state) {
    (void)state;
    const float values[] = {1, 2, 3, 4, 5, 6};
    muster_buffer *buffer = make(MUSTER_F32, 2, 1);
    assert_ok(muster_buffer_set_value(buffer, muster_tensor_transpose(muster_f32(values, 2, 3)), MUSTER_CAST_SAFE));
    check_contents(buffer, 3, 2, (float[]){1, 4, 2, 5, 3, 6});
    muster_buffer_destroy(buffer);
}

static void set_value_upcasts(void **state) {
    (void)state;
    muster_buffer *buffer = make(MUSTER_F32, 2, 1);
    assert_ok(muster_buffer_set_value(buffer, muster_u8(((uint8_t[]){7, 255}), 1, 2), MUSTER_CAST_SAFE));
    check_contents(buffer, 1, 2, (float[]){7, 255});
    muster_buffer_destroy(buffer);
}

static void a_lossy_cast_is_refused_and_changes_nothing(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1);
    void *data = muster_buffer_tensor(buffer).data;
    assert_refused(muster_buffer_set_value(buffer, muster_f64(((double[]){8, 9}), 1, 2), MUSTER_CAST_SAFE), MUSTER_DTYPE_MISMATCH,
                   "expected a dtype that f32 holds without loss (or MUSTER_CAST_UNSAFE), received f64");
    check_contents(buffer, 3, 2, (float[]){1, 2, 3, 4, 5, 6});
    assert_ptr_equal(muster_buffer_tensor(buffer).data, data);
    muster_buffer_destroy(buffer);
}

static void a_forced_cast_converts(void **state) {
    (void)state;
    muster_buffer *buffer = make(MUSTER_U8, 1, 1);
    assert_ok(muster_buffer_set_value(buffer, muster_f32(((float[]){1.9f, -3, 300, NAN}), 4), MUSTER_CAST_UNSAFE));
    assert_memory_equal(muster_buffer_tensor(buffer).data, ((uint8_t[]){1, 0, 255, 0}), 4);
    muster_buffer_destroy(buffer);
}

static void set_value_refuses_what_does_not_fit(void **state) {
    (void)state;
    float values[4] = {0};
    muster_buffer *buffer = make_rows(1);
    muster_tensor device = muster_f32(values, 2, 2);
    device.device = 1;
    assert_refused(muster_buffer_set_value(buffer, muster_f32(values, 4), 0), MUSTER_SHAPE_MISMATCH, "expected 2 dimensions, received 1");
    assert_refused(muster_buffer_set_value(buffer, muster_tensor_none(), 0), MUSTER_INVALID_ARGUMENT, "received none");
    assert_refused(muster_buffer_set_value(buffer, device, 0), MUSTER_INVALID_ARGUMENT, "memory of rank 1");
    assert_refused(muster_buffer_set_value(buffer, muster_f32(values, 2, 2), 5), MUSTER_INVALID_ARGUMENT, "received 5");
    check_contents(buffer, 3, 2, (float[]){1, 2, 3, 4, 5, 6});
    muster_buffer_destroy(buffer);
}

static void a_buffer_can_take_a_view_of_itself(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1);
    assert_ok(muster_buffer_set_value(buffer, muster_tensor_slice(muster_buffer_tensor(buffer), 1, 3), MUSTER_CAST_SAFE));
    check_contents(buffer, 2, 2, (float[]){3, 4, 5, 6});
    muster_tensor view = muster_buffer_tensor(buffer), reversed = view;
    reversed.strides[0] = -2;
    reversed.byte_offset += 2 * 4;
    assert_ok(muster_buffer_set_value(buffer, reversed, MUSTER_CAST_SAFE));
    check_contents(buffer, 2, 2, (float[]){5, 6, 3, 4});
    muster_buffer_destroy(buffer);
}

static void a_scalar_buffer_holds_one_value(void **state) {
    (void)state;
    double value = 2.5;
    muster_buffer *buffer = make(MUSTER_F64, 0, 1);
    assert_refused(mst_tensor_check(muster_buffer_tensor(buffer), "test", "view"), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_ok(muster_buffer_set_value(buffer, muster_f64(&value), MUSTER_CAST_SAFE));
    assert_true(*(double *)muster_buffer_tensor(buffer).data == 2.5);
    assert_refused(muster_buffer_set_length(buffer, 1), MUSTER_INVALID_ARGUMENT, "at least 1 dimension");
    muster_buffer_free_memory(buffer);
    assert_ok(muster_buffer_set_shape(buffer, 0, NULL));
    assert_true(*(double *)muster_buffer_tensor(buffer).data == 0);
    muster_buffer_destroy(buffer);
}

static void set_length_keeps_rows_and_zeroes_new_ones(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1);
    assert_ok(muster_buffer_set_length(buffer, 5));
    check_contents(buffer, 5, 2, (float[]){1, 2, 3, 4, 5, 6, 0, 0, 0, 0});
    muster_buffer_destroy(buffer);
}

static void shrinking_keeps_storage_and_forgets_the_rows(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1);
    void *data = muster_buffer_tensor(buffer).data;
    assert_ok(muster_buffer_set_length(buffer, 1));
    check_contents(buffer, 1, 2, (float[]){1, 2});
    assert_int_equal(muster_buffer_capacity(buffer), 6);
    assert_ok(muster_buffer_set_length(buffer, 3));
    check_contents(buffer, 3, 2, (float[]){1, 2, 0, 0, 0, 0});
    assert_ptr_equal(muster_buffer_tensor(buffer).data, data);
    muster_buffer_destroy(buffer);
}

static void set_shape_keeps_leading_elements_in_memory_order(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1);
    assert_ok(muster_buffer_set_shape(buffer, 2, (const int64_t[]){2, 4}));
    check_contents(buffer, 2, 4, (float[]){1, 2, 3, 4, 5, 6, 0, 0});
    assert_ok(muster_buffer_set_shape(buffer, 2, (const int64_t[]){1, 3}));
    check_contents(buffer, 1, 3, (float[]){1, 2, 3});
    muster_buffer_destroy(buffer);
}

static void oversize_spares_the_next_growth(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(1.5);
    assert_int_equal(muster_buffer_capacity(buffer), 9);
    void *data = muster_buffer_tensor(buffer).data;
    int64_t allocations = mst_memory_count();
    assert_ok(muster_buffer_set_length(buffer, 4));
    assert_ptr_equal(muster_buffer_tensor(buffer).data, data);
    assert_int_equal(mst_memory_count(), allocations);
    check_contents(buffer, 4, 2, (float[]){1, 2, 3, 4, 5, 6, 0, 0});
    muster_buffer_destroy(buffer);
}

static void bad_sizes_are_refused_and_change_nothing(void **state) {
    (void)state;
    muster_buffer *buffer = make_rows(2);
    const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, negative[] = {2, -1};
    assert_refused(muster_buffer_set_length(buffer, -1), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_refused(muster_buffer_set_length(buffer, INT64_MAX), MUSTER_OVERFLOW, "muster_buffer_set_length: shape");
    assert_refused(muster_buffer_set_shape(buffer, 2, huge), MUSTER_OVERFLOW, "64 bits");
    assert_refused(muster_buffer_set_shape(buffer, 2, negative), MUSTER_INVALID_ARGUMENT, "(2, -1)");
    assert_refused(muster_buffer_set_shape(buffer, 1, huge), MUSTER_SHAPE_MISMATCH, "ndim: expected 2, received 1");
    assert_refused(muster_buffer_set_shape(buffer, 2, NULL), MUSTER_INVALID_ARGUMENT, "received NULL");
    check_contents(buffer, 3, 2, (float[]){1, 2, 3, 4, 5, 6});
    muster_buffer_destroy(buffer);
}

static void free_memory_empties_and_leaves_it_usable(void **state) {
    (void)state;
    int64_t live = mst_memory_live();
    muster_buffer *buffer = make_rows(1);
    muster_buffer_free_memory(buffer);
    assert_int_equal(mst_memory_live(), live + 1);
    assert_int_equal(muster_buffer_capacity(buffer), 0);
    check_contents(buffer, 0, 0, NULL);
    assert_ok(muster_buffer_set_shape(buffer, 2, (const int64_t[]){1, 2}));
    check_contents(buffer, 1, 2, (float[]){0, 0});
    muster_buffer_destroy(buffer);
    assert_int_equal(mst_memory_live(), live);
}

/* A life of a buffer; returns the first failure. */
static muster_status live_through(muster_buffer **buffer) {
    const float values[] = {1, 2, 3, 4, 5, 6};
    MUSTER_TRY(muster_buffer_create(MUSTER_F64, 2, 1, buffer));
    MUSTER_TRY(muster_buffer_set_value(*buffer, muster_f32(values, 2, 2), MUSTER_CAST_SAFE));
    MUSTER_TRY(muster_buffer_set_length(*buffer, 3));
    MUSTER_TRY(muster_buffer_set_value(*buffer, muster_tensor_transpose(muster_f32(values, 1, 6)), MUSTER_CAST_SAFE));
    return muster_buffer_set_value(*buffer, muster_tensor_transpose(muster_f32(((float[12]){0}), 2, 6)), MUSTER_CAST_SAFE);
}

static void every_allocation_can_fail(void **state) {
    (void)state;
    int64_t live = mst_memory_live();
    for (int64_t k = 1;; k++) {
        muster_buffer *buffer = NULL;
        mst_memory_fail_at(k);
        muster_status status = live_through(&buffer);
        mst_memory_fail_at(0);
        if (buffer) { /* whatever failed, it is a buffer in order */
            if (muster_buffer_capacity(buffer)) assert_ok(mst_tensor_check(muster_buffer_tensor(buffer), "test", "view"));
            assert_ok(muster_buffer_set_length(buffer, 2));
        }
        muster_buffer_destroy(buffer);
        assert_int_equal(mst_memory_live(), live);
        if (status == MUSTER_OK) {
            assert_true(k > 5);
            break;
        }
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_buffer_is_empty),
        cmocka_unit_test(creation_refuses_what_is_never_right),
        cmocka_unit_test(null_is_refused_or_ignored),
        cmocka_unit_test(set_value_takes_shape_and_a_copy),
        cmocka_unit_test(set_value_reads_strided_values),
        cmocka_unit_test(set_value_upcasts),
        cmocka_unit_test(a_lossy_cast_is_refused_and_changes_nothing),
        cmocka_unit_test(a_forced_cast_converts),
        cmocka_unit_test(set_value_refuses_what_does_not_fit),
        cmocka_unit_test(a_buffer_can_take_a_view_of_itself),
        cmocka_unit_test(a_scalar_buffer_holds_one_value),
        cmocka_unit_test(set_length_keeps_rows_and_zeroes_new_ones),
        cmocka_unit_test(shrinking_keeps_storage_and_forgets_the_rows),
        cmocka_unit_test(set_shape_keeps_leading_elements_in_memory_order),
        cmocka_unit_test(oversize_spares_the_next_growth),
        cmocka_unit_test(bad_sizes_are_refused_and_change_nothing),
        cmocka_unit_test(free_memory_empties_and_leaves_it_usable),
        cmocka_unit_test(every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
