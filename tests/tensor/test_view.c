#include "base_check.h"
#include "tensor_impl.h"

#include <stdio.h>

static float data[64];

static muster_tensor matrix(int64_t rows, int64_t columns) { return muster_f32(data, rows, columns); }

static void a_made_view_is_contiguous_host_memory(void **state) {
    (void)state;
    muster_tensor x = muster_f32(data, 2, 3, 4);
    assert_ok(mst_tensor_check(x, "test", "x"));
    assert_int_equal(x.ndim, 3);
    assert_int_equal(x.strides[0], 12);
    assert_int_equal(x.strides[1], 4);
    assert_int_equal(x.strides[2], 1);
    assert_int_equal(x.shape[3], 0);
    assert_int_equal(x.device, MUSTER_DEVICE_HOST);
    assert_ptr_equal(muster_tensor_address(x), data);
    assert_true(mst_tensor_contiguous(x));
    assert_int_equal(muster_tensor_count(x), 24);
    assert_int_equal(muster_tensor_rows(x), 2);
    assert_int_equal(mst_tensor_bytes(x), 96);
}

static void a_scalar_has_one_element_and_one_row(void **state) {
    (void)state;
    muster_tensor x = muster_f32(data);
    assert_ok(mst_tensor_check(x, "test", "x"));
    assert_int_equal(x.ndim, 0);
    assert_int_equal(muster_tensor_count(x), 1);
    assert_int_equal(muster_tensor_rows(x), 1);
    assert_true(mst_tensor_contiguous(x));
}

static void no_elements_need_no_data(void **state) {
    (void)state;
    muster_tensor x = muster_f32(NULL, 0, 5);
    assert_ok(mst_tensor_check(x, "test", "x"));
    assert_int_equal(muster_tensor_count(x), 0);
    assert_int_equal(muster_tensor_rows(x), 0);
    assert_true(mst_tensor_contiguous(x));
    /* with a size of 0 the count is 0, even if the product of the others overflows */
    int64_t shape[] = {INT64_MAX, INT64_MAX, 0, INT64_MAX};
    x = muster_tensor_make(MUSTER_F64, NULL, 4, shape);
    assert_ok(mst_tensor_check(x, "test", "x"));
    assert_int_equal(mst_tensor_bytes(x), 0);
}

static void no_tensor_is_refused(void **state) {
    (void)state;
    muster_tensor none = muster_tensor_none(), zero = {0};
    assert_int_equal(none.dtype, MUSTER_DTYPE_NONE);
    assert_refused(mst_tensor_check(none, "muster_axpy", "x"), MUSTER_INVALID_ARGUMENT, "muster_axpy: x: expected a tensor, received none");
    assert_refused(mst_tensor_check(zero, "muster_axpy", "x"), MUSTER_INVALID_ARGUMENT, "received none");
}

static void what_cannot_be_made_is_refused_with_its_reason(void **state) {
    (void)state;
    int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_refused(mst_tensor_check(muster_tensor_make(MUSTER_F32, data, 9, shape), "f", "x"), MUSTER_INVALID_ARGUMENT, "received 9");
    assert_refused(mst_tensor_check(muster_tensor_make(MUSTER_F32, data, -2, shape), "f", "x"), MUSTER_INVALID_ARGUMENT, "received -2");
    assert_refused(mst_tensor_check(muster_tensor_make(MUSTER_F32, data, 2, NULL), "f", "x"), MUSTER_INVALID_ARGUMENT,
                   "a shape, received NULL");
    assert_refused(mst_tensor_check(muster_tensor_make(77, data, 1, shape), "f", "x"), MUSTER_INVALID_ARGUMENT, "received number 77");
    assert_refused(mst_tensor_check(matrix(3, -1), "f", "x"), MUSTER_INVALID_ARGUMENT, "shape (3, -1)");
    assert_refused(mst_tensor_check(muster_f32(NULL, 2), "f", "x"), MUSTER_INVALID_ARGUMENT, "expected data for shape (2,), received NULL");
    assert_refused(mst_tensor_check(muster_tensor_make(-1, data, 1, shape), "f", "x"), MUSTER_INVALID_ARGUMENT, "received number -1");
    assert_refused(mst_tensor_check(matrix(-1, 3), "f", "x"), MUSTER_INVALID_ARGUMENT, "shape (-1, 3)");
    assert_ok(mst_tensor_check(muster_tensor_make(MUSTER_F32, data, 8, shape), "f", "x"));
    assert_int_equal(muster_tensor_count(muster_tensor_make(MUSTER_F32, data, 9, shape)), 0);
    assert_int_equal(muster_tensor_rows(muster_tensor_make(MUSTER_F32, data, 9, shape)), 0);
}

static void sizes_beyond_64_bits_are_refused(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    assert_refused(mst_tensor_check(matrix(huge, huge), "f", "x"), MUSTER_OVERFLOW, "f32 of shape (1099511627776, 1099511627776)");
    assert_refused(mst_tensor_check(muster_f32(data, INT64_C(1) << 61), "f", "x"), MUSTER_OVERFLOW, "64 bits");
    assert_ok(mst_tensor_check(muster_u8((void *)data, INT64_C(1) << 61), "f", "x"));
    muster_tensor strided = matrix(3, 1);
    strided.strides[0] = INT64_MAX / 2;
    assert_refused(mst_tensor_check(strided, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    strided.strides[0] = INT64_MIN;
    assert_refused(mst_tensor_check(strided, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    strided.strides[0] = 1;
    strided.byte_offset = INT64_MAX - 3;
    assert_refused(mst_tensor_check(strided, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    /* a repeated element costs no memory, but its copies would */
    muster_tensor repeated = matrix(huge, huge);
    repeated.strides[0] = repeated.strides[1] = 0;
    assert_refused(mst_tensor_check(repeated, "f", "x"), MUSTER_OVERFLOW, "64 bits");
}

static void addresses_at_each_end_of_64_bits_are_counted_apart(void **state) {
    (void)state;
    const int64_t half = INT64_C(1) << 62, shape[] = {2, 2, 2};
    muster_tensor x = muster_tensor_make(MUSTER_U8, data, 3, shape);
    x.strides[0] = -half, x.strides[1] = half, x.strides[2] = -half;
    assert_ok(mst_tensor_check(x, "f", "x")); /* the lowest element lies at -2^63 */
    x.strides[2] = -half - 1;
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    x.strides[0] = half, x.strides[1] = -half, x.strides[2] = half - 2;
    assert_ok(mst_tensor_check(x, "f", "x")); /* the highest element ends at 2^63 - 1 */
    x.strides[2] = half - 1;
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    x = muster_f32(data, 2);
    x.strides[0] = -1, x.byte_offset = INT64_MIN + 4;
    assert_ok(mst_tensor_check(x, "f", "x"));
    x.byte_offset = INT64_MIN;
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    x = muster_f32(data, 2, 2);
    x.strides[0] = INT64_C(1) << 61; /* in bytes one more than 64 bits hold */
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_OVERFLOW, "64 bits");
    x.strides[0] = -(INT64_C(1) << 61), x.strides[1] = 0;
    assert_ok(mst_tensor_check(x, "f", "x"));
}

static void data_off_its_alignment_is_refused(void **state) {
    (void)state;
    assert_refused(mst_tensor_check(muster_f32((void *)((char *)data + 2), 2), "f", "x"), MUSTER_INVALID_ARGUMENT, "aligned to 4 bytes");
    assert_ok(mst_tensor_check(muster_u8((void *)((char *)data + 1), 2), "f", "x"));
}

static void a_hand_made_ndim_is_refused(void **state) {
    (void)state;
    muster_tensor x = matrix(2, 2);
    x.ndim = 100;
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_INVALID_ARGUMENT, "received 100");
    x.ndim = -1;
    assert_refused(mst_tensor_check(x, "f", "x"), MUSTER_INVALID_ARGUMENT, "received -1");
}

static void a_slice_views_its_rows(void **state) {
    (void)state;
    muster_tensor x = muster_tensor_slice(matrix(8, 4), 3, 5);
    assert_int_equal(x.shape[0], 2);
    assert_int_equal(x.shape[1], 4);
    assert_ptr_equal(muster_tensor_address(x), data + 12);
    assert_true(mst_tensor_contiguous(x));
    assert_int_equal(muster_tensor_count(muster_tensor_slice(matrix(8, 4), 8, 8)), 0);
    assert_int_equal(muster_tensor_slice(muster_f32(data), 0, 1).dtype, MUSTER_DTYPE_NONE);
}

static void a_transpose_turns_the_axes(void **state) {
    (void)state;
    muster_tensor x = muster_tensor_transpose(muster_f32(data, 2, 3, 4));
    assert_int_equal(x.shape[0], 4);
    assert_int_equal(x.shape[2], 2);
    assert_int_equal(x.strides[0], 1);
    assert_int_equal(x.strides[2], 12);
    assert_false(mst_tensor_contiguous(x));
    assert_true(mst_tensor_contiguous(muster_tensor_transpose(x)));
}

static bool is_none(muster_tensor tensor) { return tensor.dtype == MUSTER_DTYPE_NONE; }

static void a_slice_of_any_axis_is_within_its_bounds(void **state) {
    (void)state;
    const muster_tensor x = muster_f32(data, 2, 3, 4);
    for (int32_t axis = 0; axis < 3; axis++) {
        const int64_t size = x.shape[axis];
        for (int64_t begin = -1; begin <= size + 1; begin++)
            for (int64_t end = -1; end <= size + 1; end++) {
                const muster_tensor y = muster_tensor_slice_axis(x, axis, begin, end);
                const bool good = begin >= 0 && begin <= end && end <= size;
                assert_int_equal(is_none(y), !good);
                if (!good) continue;
                assert_int_equal(y.shape[axis], end - begin);
                assert_int_equal(muster_tensor_count(y), 24 / size * (end - begin));
                if (begin < end) assert_ptr_equal(muster_tensor_address(y), data + begin * x.strides[axis]);
                assert_ok(mst_tensor_check(y, "f", "y"));
            }
    }
    assert_true(is_none(muster_tensor_slice_axis(x, 3, 0, 1)) && is_none(muster_tensor_slice_axis(x, -1, 0, 1)));
    assert_true(is_none(muster_tensor_slice_axis(muster_f32(data), 0, 0, 1)));
    assert_true(is_none(muster_tensor_slice_axis(muster_tensor_make(MUSTER_F32, data, 9, NULL), 0, 0, 1)));
}

static void a_permutation_has_each_axis_once(void **state) {
    (void)state;
    const muster_tensor x = muster_f32(data, 2, 3, 4);
    const int64_t sizes[] = {2, 3, 4}, strides[] = {12, 4, 1};
    int permutations = 0;
    for (int32_t code = 0; code < 125; code++) {
        const int32_t axes[] = {code / 25 - 1, code / 5 % 5 - 1, code % 5 - 1}; /* from -1 to 3 */
        const muster_tensor y = muster_tensor_permute(x, axes);
        bool good = axes[0] != axes[1] && axes[0] != axes[2] && axes[1] != axes[2];
        for (int i = 0; i < 3; i++) good = good && axes[i] >= 0 && axes[i] < 3;
        assert_int_equal(is_none(y), !good);
        permutations += good;
        for (int i = 0; i < 3 && good; i++) {
            assert_int_equal(y.shape[i], sizes[axes[i]]);
            assert_int_equal(y.strides[i], strides[axes[i]]);
        }
    }
    assert_int_equal(permutations, 6);
    assert_true(is_none(muster_tensor_permute(x, NULL)));
    assert_int_equal(muster_tensor_permute(muster_f32(data), NULL).dtype, MUSTER_F32);
}

static void a_squeeze_drops_axes_of_size_one(void **state) {
    (void)state;
    const muster_tensor x = muster_f32(data, 1, 3, 1, 4, 1);
    const muster_tensor all = muster_tensor_squeeze(x, -1), last = muster_tensor_squeeze(x, 4), first = muster_tensor_squeeze(x, 0);
    assert_int_equal(all.ndim, 2);
    assert_int_equal(all.shape[0], 3);
    assert_int_equal(all.shape[1], 4);
    assert_int_equal(all.strides[0], 4);
    assert_int_equal(all.shape[2], 0);
    assert_int_equal(all.strides[2], 0);
    assert_int_equal(last.ndim, 4);
    assert_int_equal(last.shape[3], 4);
    assert_int_equal(first.shape[0], 3);
    assert_true(is_none(muster_tensor_squeeze(x, 1)) && is_none(muster_tensor_squeeze(x, 3)));
    assert_true(is_none(muster_tensor_squeeze(x, 5)) && is_none(muster_tensor_squeeze(x, -2)));
    assert_int_equal(muster_tensor_squeeze(muster_f32(data, 0, 1), 1).ndim, 1);
}

static void a_broadcast_repeats_axes_of_size_one(void **state) {
    (void)state;
    const muster_tensor x = muster_f32(data, 3, 1);
    const muster_tensor y = muster_tensor_broadcast(x, 3, (const int64_t[]){2, 3, 5});
    assert_int_equal(y.ndim, 3);
    assert_int_equal(y.strides[0], 0);
    assert_int_equal(y.strides[1], 1);
    assert_int_equal(y.strides[2], 0);
    assert_int_equal(muster_tensor_count(y), 30);
    assert_ok(mst_tensor_check(y, "f", "y"));
    assert_int_equal(muster_tensor_broadcast(x, 2, (const int64_t[]){3, 0}).shape[1], 0);
    assert_true(is_none(muster_tensor_broadcast(x, 2, (const int64_t[]){4, 5})));
    assert_true(is_none(muster_tensor_broadcast(x, 2, (const int64_t[]){1, 5})));
    assert_true(is_none(muster_tensor_broadcast(x, 2, (const int64_t[]){3, -1})));
    assert_true(is_none(muster_tensor_broadcast(x, 1, (const int64_t[]){3})));
    assert_true(is_none(muster_tensor_broadcast(x, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 3, 1})));
    assert_true(is_none(muster_tensor_broadcast(x, 2, NULL)));
    assert_int_equal(muster_tensor_broadcast(muster_f32(data), 0, NULL).dtype, MUSTER_F32);
}

static void views_tell_their_size_and_layout(void **state) {
    (void)state;
    const muster_tensor x = muster_f32(data, 3, 4), huge = muster_f64((void *)data, INT64_MAX / 4);
    assert_int_equal(muster_tensor_is_contiguous(x), 1);
    assert_int_equal(muster_tensor_is_contiguous(muster_tensor_transpose(x)), 0);
    assert_int_equal(muster_tensor_is_contiguous(muster_tensor_make(MUSTER_F32, data, -3, NULL)), 0);
    assert_int_equal(muster_tensor_bytes(x), 48);
    assert_int_equal(muster_tensor_bytes(muster_tensor_transpose(x)), 48);
    assert_int_equal(muster_tensor_bytes(muster_tensor_none()), 0);
    assert_int_equal(muster_tensor_bytes(huge), 0);
}

static void assert_printed(muster_tensor tensor, const char *expected) {
    char text[400];
    int64_t length = -1;
    assert_ok(muster_tensor_print(tensor, text, sizeof text, &length));
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    /* every shorter room gets the beginning */
    for (int64_t size = 0; size <= length + 1; size++) {
        char cut[400];
        memset(cut, '#', sizeof cut);
        assert_ok(muster_tensor_print(tensor, size ? cut : NULL, size, &length));
        assert_int_equal(length, strlen(expected));
        if (size > 0) assert_true(strlen(cut) == (size_t)size - 1 && memcmp(cut, expected, (size_t)size - 1) == 0);
        assert_int_equal(cut[size], '#');
    }
}

static void tensors_are_printed_on_one_line(void **state) {
    (void)state;
    float x[] = {1, -2.5f, 3, 4, 5, 6, 7, 8, 9, 1e30f};
    const int64_t large[] = {INT64_MAX, INT64_MIN};
    const uint8_t flags[] = {1, 0};
    assert_printed(muster_f32(x, 2, 3), "f32 (2, 3) [[1, -2.5, 3], [4, 5, 6]]");
    assert_printed(muster_tensor_transpose(muster_f32(x, 2, 2)), "f32 (2, 2) [[1, 3], [-2.5, 4]]");
    assert_printed(muster_f32(x), "f32 () 1");
    assert_printed(muster_f32(x, 0, 3), "f32 (0, 3) []");
    assert_printed(muster_f32(x, 2, 0), "f32 (2, 0) [[], []]");
    assert_printed(muster_f32(x, 8), "f32 (8,) [1, -2.5, 3, 4, 5, 6, 7, 8]");
    assert_printed(muster_f32(x, 9), "f32 (9,) [1, -2.5, 3, ..., 7, 8, 9]");
    assert_printed(muster_i64(large, 2), "i64 (2,) [9223372036854775807, -9223372036854775808]");
    assert_printed(muster_tensor_make(MUSTER_BOOL, (void *)(uintptr_t)flags, 1, (const int64_t[]){2}), "bool (2,) [true, false]");
    assert_printed(muster_tensor_none(), "no tensor");
    muster_tensor there = muster_f32(x, 2);
    there.device = 3;
    assert_printed(there, "f32 (2,) in memory of rank 3");
    assert_refused(muster_tensor_print(matrix(3, -1), NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_tensor_print: tensor: expected sizes");
    assert_refused(muster_tensor_print(there, NULL, 1, NULL), MUSTER_INVALID_ARGUMENT, "muster_tensor_print: text: ");
    assert_refused(muster_tensor_print(there, NULL, -1, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_tensor_print: size: expected 0 or more, received -1");
    assert_ok(muster_tensor_print(there, NULL, 0, NULL));
}

static void contiguity_ignores_strides_that_are_never_used(void **state) {
    (void)state;
    muster_tensor x = matrix(1, 4);
    x.strides[0] = -77;
    assert_true(mst_tensor_contiguous(x));
    x.strides[1] = 2;
    assert_false(mst_tensor_contiguous(x));
    x = matrix(4, 4);
    x.strides[0] = 0;
    assert_false(mst_tensor_contiguous(x));
}

static void a_reshape_keeps_elements_offset_and_device(void **state) {
    (void)state;
    muster_tensor x = muster_tensor_slice(matrix(8, 4), 2, 5);
    x.device = 1;
    muster_tensor y = muster_tensor_reshape(x, 3, (const int64_t[]){2, 1, 6});
    assert_ok(mst_tensor_check(y, "f", "y"));
    assert_ptr_equal(muster_tensor_address(y), data + 8);
    assert_int_equal(y.strides[0], 6);
    assert_int_equal(y.device, 1);
    assert_int_equal(muster_tensor_reshape(matrix(1, 1), 0, NULL).ndim, 0);
}

static void a_reshape_that_does_not_fit_gives_no_tensor(void **state) {
    (void)state;
    const int64_t twelve[] = {12}, thirteen[] = {13}, negative[] = {-12};
    assert_int_equal(muster_tensor_reshape(matrix(3, 4), 1, twelve).dtype, MUSTER_F32);
    assert_int_equal(muster_tensor_reshape(matrix(3, 4), 1, thirteen).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_tensor_reshape(matrix(3, 4), 1, negative).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_tensor_reshape(matrix(3, 4), 1, NULL).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_tensor_reshape(matrix(3, 4), 9, twelve).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_tensor_reshape(muster_tensor_transpose(matrix(3, 4)), 1, twelve).dtype, MUSTER_DTYPE_NONE);
}

static void a_view_that_cannot_be_made_keeps_its_reason(void **state) {
    (void)state;
    static const char begin[] = "f: x: expected a tensor, received a view that could not be made: muster_tensor_";
    const int32_t twice[] = {0, 0};
    const int64_t thirteen[] = {13}, narrow[] = {3, 5};
    muster_tensor bad = matrix(3, 4);
    bad.ndim = 9;
    const struct {
        muster_tensor view;
        const char *text;
    } cases[] = {
        {muster_tensor_slice(muster_f32(data), 0, 1), "slice: tensor: expected at least 1 dimension, received 0"},
        {muster_tensor_slice_axis(matrix(3, 4), 2, 0, 1), "slice_axis: axis: expected one of 2 axes, received 2"},
        {muster_tensor_slice_axis(matrix(3, 4), -1, 0, 1), "slice_axis: axis: expected one of 2 axes, received -1"},
        {muster_tensor_slice_axis(matrix(3, 4), 1, 0, 1000), "slice_axis: expected 0 <= begin <= end <= 4, received [0, 1000)"},
        {muster_tensor_slice_axis(matrix(3, 4), 0, 2, 1), "slice_axis: expected 0 <= begin <= end <= 3, received [2, 1)"},
        {muster_tensor_permute(matrix(3, 4), twice), "permute: axes: expected each of 2 axes once, received 0 at position 1"},
        {muster_tensor_permute(matrix(3, 4), NULL), "permute: axes: expected 2 axes, received NULL"},
        {muster_tensor_squeeze(matrix(3, 4), 2), "squeeze: axis: expected -1 or one of 2 axes, received 2"},
        {muster_tensor_squeeze(matrix(3, 4), 1), "squeeze: axis: expected an axis of size 1, received axis 1 of size 4"},
        {muster_tensor_broadcast(matrix(3, 4), 1, narrow), "broadcast: ndim: expected 2 to 8, received 1"},
        {muster_tensor_broadcast(matrix(3, 4), 2, NULL), "broadcast: shape: expected 2 sizes, received NULL"},
        {muster_tensor_broadcast(matrix(3, 4), 2, narrow), "broadcast: shape: expected the tensor's size 4 on axis 1, received 5"},
        {muster_tensor_reshape(matrix(3, 4), 9, thirteen), "reshape: ndim: expected 0 to 8, received 9"},
        {muster_tensor_reshape(matrix(3, 4), 1, NULL), "reshape: shape: expected 1 sizes, received NULL"},
        {muster_tensor_reshape(muster_tensor_transpose(matrix(3, 4)), 1, thirteen), "reshape: tensor: expected contiguous elements"},
        {muster_tensor_reshape(matrix(3, 4), 1, thirteen), "reshape: shape: expected 12 elements, received another number"},
    };
    size_t counted = 0;
    for (; counted < sizeof cases / sizeof *cases; counted++) {
        const muster_tensor *view = &cases[counted].view;
        const muster_tensor views[] = {*view,
                                       muster_tensor_slice(*view, 0, 1),
                                       muster_tensor_slice_axis(*view, 0, 0, 1),
                                       muster_tensor_permute(*view, NULL),
                                       muster_tensor_squeeze(*view, -1),
                                       muster_tensor_broadcast(*view, 0, NULL),
                                       muster_tensor_reshape(*view, 0, NULL),
                                       muster_tensor_transpose(*view)};
        char expected[300];
        snprintf(expected, sizeof expected, "%s%s", begin, cases[counted].text);
        for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
            assert_true(is_none(views[i]));
            assert_refused(mst_tensor_check(views[i], "f", "x"), MUSTER_INVALID_ARGUMENT, expected);
        }
    }
    assert_int_equal(counted, 16);
    assert_refused(mst_tensor_check(muster_tensor_slice(bad, 0, 1), "f", "x"), MUSTER_INVALID_ARGUMENT,
                   "a view of a tensor with 9 dimensions");
    assert_refused(mst_tensor_check(muster_tensor_none(), "f", "x"), MUSTER_INVALID_ARGUMENT, "f: x: expected a tensor, received none");
}

/* What lies beyond ndim is not read. */
static void numbers_beyond_ndim_are_ignored(void **state) {
    (void)state;
    muster_tensor x = matrix(3, 4);
    for (int32_t i = 2; i < MUSTER_MAX_DIMS; i++) x.shape[i] = -7, x.strides[i] = INT64_MAX;
    assert_ok(mst_tensor_check(x, "f", "x"));
    assert_int_equal(muster_tensor_count(x), 12);
    assert_int_equal(muster_tensor_bytes(x), 48);
    assert_true(mst_tensor_contiguous(x));
    assert_true(mst_tensor_same_shape(x, matrix(3, 4)));
    assert_int_equal(muster_tensor_count(muster_tensor_slice(x, 1, 3)), 8);
    assert_int_equal(muster_tensor_count(muster_tensor_transpose(x)), 12);
    assert_int_equal(muster_tensor_broadcast(x, 3, (int64_t[]){2, 3, 4}).strides[2], 1);
}

static void shapes_are_compared_by_size_only(void **state) {
    (void)state;
    assert_true(mst_tensor_same_shape(matrix(3, 4), muster_tensor_transpose(matrix(4, 3))));
    assert_false(mst_tensor_same_shape(matrix(3, 4), matrix(4, 3)));
    assert_false(mst_tensor_same_shape(matrix(3, 1), muster_f32(data, 3)));
    assert_true(mst_tensor_same_shape(muster_f32(data), muster_f64((void *)data)));
}

static void shapes_are_written_as_python_does(void **state) {
    (void)state;
    char text[128];
    const int64_t shape[] = {3, 4, -5};
    assert_string_equal(mst_shape_text(text, 0, NULL), "()");
    assert_string_equal(mst_shape_text(text, 1, shape), "(3,)");
    assert_string_equal(mst_shape_text(text, 3, shape), "(3, 4, -5)");
    int64_t longest[8];
    for (int i = 0; i < 8; i++) longest[i] = INT64_MIN;
    mst_shape_text(text, 8, longest);
    assert_true(strlen(text) < sizeof text);
    assert_string_equal(text + strlen(text) - 4, "...)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_made_view_is_contiguous_host_memory),
        cmocka_unit_test(a_scalar_has_one_element_and_one_row),
        cmocka_unit_test(no_elements_need_no_data),
        cmocka_unit_test(no_tensor_is_refused),
        cmocka_unit_test(what_cannot_be_made_is_refused_with_its_reason),
        cmocka_unit_test(sizes_beyond_64_bits_are_refused),
        cmocka_unit_test(addresses_at_each_end_of_64_bits_are_counted_apart),
        cmocka_unit_test(data_off_its_alignment_is_refused),
        cmocka_unit_test(a_hand_made_ndim_is_refused),
        cmocka_unit_test(a_slice_views_its_rows),
        cmocka_unit_test(a_transpose_turns_the_axes),
        cmocka_unit_test(a_slice_of_any_axis_is_within_its_bounds),
        cmocka_unit_test(a_permutation_has_each_axis_once),
        cmocka_unit_test(a_squeeze_drops_axes_of_size_one),
        cmocka_unit_test(a_broadcast_repeats_axes_of_size_one),
        cmocka_unit_test(views_tell_their_size_and_layout),
        cmocka_unit_test(tensors_are_printed_on_one_line),
        cmocka_unit_test(contiguity_ignores_strides_that_are_never_used),
        cmocka_unit_test(a_reshape_keeps_elements_offset_and_device),
        cmocka_unit_test(a_reshape_that_does_not_fit_gives_no_tensor),
        cmocka_unit_test(a_view_that_cannot_be_made_keeps_its_reason),
        cmocka_unit_test(numbers_beyond_ndim_are_ignored),
        cmocka_unit_test(shapes_are_compared_by_size_only),
        cmocka_unit_test(shapes_are_written_as_python_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
