/* Packing strided tensors, compared with a loop that finds each element by its index. */
#include "base_check.h"
#include "base_seed.h"
#include "tensor_impl.h"

#include <stdio.h>

enum { SPACE = 4096, TRIALS = 2000 };

static uint64_t random_state;

static int64_t below(int64_t bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)bound);
}

/* Offset in bytes from `data` of element number `linear` in row-major order. */
static int64_t offset_of(muster_tensor tensor, int64_t linear) {
    int64_t elements = 0;
    for (int32_t i = tensor.ndim - 1; i >= 0; i--) {
        elements += linear % tensor.shape[i] * tensor.strides[i];
        linear /= tensor.shape[i];
    }
    return tensor.byte_offset + elements * muster_dtype_size(tensor.dtype);
}

/* A random view of the middle of `space` with strides of any sign; some are 0 if `repeats` is
 * true. */
static muster_tensor random_view(char *space, bool repeats) {
    static const muster_dtype dtypes[] = {MUSTER_U8, MUSTER_F16, MUSTER_F32, MUSTER_I64};
    int64_t shape[MUSTER_MAX_DIMS], stride = 1;
    int32_t ndim = (int32_t)below(6);
    for (int32_t i = 0; i < ndim; i++) shape[i] = below(4);
    muster_tensor view = muster_tensor_make(dtypes[below(4)], space, ndim, shape);
    for (int32_t axis = ndim - 1; axis >= 0; axis--) { /* disjoint elements: each axis steps over the ones inside */
        view.strides[axis] = below(2) ? stride : -stride;
        if (shape[axis] > 1) stride *= shape[axis];
        if (below(3) == 0) stride++;
        if (repeats && below(4) == 0) view.strides[axis] = 0;
    }
    if (below(2)) view = muster_tensor_transpose(view);
    view.byte_offset = SPACE / 2 / 8 * 8;
    return view;
}

static bool stays_inside(muster_tensor view) {
    int64_t reach = 1;
    for (int32_t i = 0; i < view.ndim; i++) reach += view.shape[i] * (view.strides[i] < 0 ? -view.strides[i] : view.strides[i]);
    return reach * muster_dtype_size(view.dtype) < SPACE / 2;
}

static void fill_space(char *space) {
    for (int i = 0; i < SPACE; i++) space[i] = (char)below(256);
}

static void packing_collects_every_element_in_order(void **state) {
    (void)state;
    _Alignas(64) static char space[SPACE], packed[SPACE], expected[SPACE];
    fill_space(space);
    for (int trial = 0; trial < TRIALS; trial++) {
        muster_tensor view = random_view(space, true);
        if (!stays_inside(view)) continue;
        int64_t count = muster_tensor_count(view), size = muster_dtype_size(view.dtype);
        memset(packed, 0x55, sizeof packed);
        memset(expected, 0x55, sizeof expected);
        for (int64_t i = 0; i < count; i++) memcpy(expected + i * size, space + offset_of(view, i), (size_t)size);
        mst_tensor_pack(packed, view);
        assert_memory_equal(packed, expected, sizeof packed);
    }
}

static void unpacking_writes_those_elements_and_no_other(void **state) {
    (void)state;
    _Alignas(64) static char space[SPACE], packed[SPACE], expected[SPACE];
    for (int trial = 0; trial < TRIALS; trial++) {
        muster_tensor view = random_view(space, false);
        if (!stays_inside(view)) continue;
        int64_t count = muster_tensor_count(view), size = muster_dtype_size(view.dtype);
        fill_space(packed);
        memset(space, 0x55, sizeof space);
        memset(expected, 0x55, sizeof expected);
        for (int64_t i = 0; i < count; i++) memcpy(expected + offset_of(view, i), packed + i * size, (size_t)size);
        mst_tensor_unpack(view, packed);
        assert_memory_equal(space, expected, sizeof space);
    }
}

static void a_transposed_matrix_packs_by_columns(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6}, expected[] = {1, 4, 2, 5, 3, 6};
    float packed[6];
    mst_tensor_pack(packed, muster_tensor_transpose(muster_f32(x, 2, 3)));
    assert_memory_equal(packed, expected, sizeof packed);
}

static void a_negative_stride_reverses(void **state) {
    (void)state;
    int64_t x[] = {1, 2, 3}, expected[] = {3, 2, 1}, packed[3];
    muster_tensor view = muster_i64(x, 3);
    view.strides[0] = -1;
    view.byte_offset = 2 * sizeof *x;
    mst_tensor_pack(packed, view);
    assert_memory_equal(packed, expected, sizeof packed);
}

static void a_zero_stride_repeats(void **state) {
    (void)state;
    const uint8_t x[] = {7, 8}, expected[] = {7, 8, 7, 8, 7, 8};
    uint8_t packed[6];
    muster_tensor view = muster_u8(x, 3, 2);
    view.strides[0] = 0;
    mst_tensor_pack(packed, view);
    assert_memory_equal(packed, expected, sizeof packed);
}

static void nothing_is_moved_for_no_elements(void **state) {
    (void)state;
    mst_tensor_pack(NULL, muster_f32(NULL, 3, 0));
    mst_tensor_unpack(muster_f32(NULL, 0), NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_collects_every_element_in_order),
        cmocka_unit_test(unpacking_writes_those_elements_and_no_other),
        cmocka_unit_test(a_transposed_matrix_packs_by_columns),
        cmocka_unit_test(a_negative_stride_reverses),
        cmocka_unit_test(a_zero_stride_repeats),
        cmocka_unit_test(nothing_is_moved_for_no_elements),
    };
    random_state = 12344 + test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
