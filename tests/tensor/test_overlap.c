/* mst_tensors_overlap and mst_tensor_repeats, against marking every byte of an array. */
#include "base_check.h"
#include "base_seed.h"
#include "tensor_impl.h"

#include <stdio.h>

enum { ARENA = 4096, RANDOM_PAIRS = 20000 };

static _Alignas(64) unsigned char arena[ARENA];

/* ---- the oracle ---- */

/* Marks the bytes of every element; false if an element lies on a byte that is marked already. */
static bool mark(muster_tensor view, unsigned char marks[ARENA]) {
    const int64_t size = muster_dtype_size(view.dtype), count = muster_tensor_count(view);
    bool apart = true;
    for (int64_t element = 0; element < count; element++) {
        int64_t at = (char *)view.data - (char *)arena + view.byte_offset, rest = element;
        for (int32_t d = view.ndim - 1; d >= 0; d--) {
            at += rest % view.shape[d] * view.strides[d] * size;
            rest /= view.shape[d];
        }
        assert_in_range(at, 0, ARENA - size);
        for (int64_t byte = at; byte < at + size; byte++) {
            apart = apart && !marks[byte];
            marks[byte] = 1;
        }
    }
    return apart;
}

static bool marks_overlap(muster_tensor a, muster_tensor b) {
    unsigned char of_a[ARENA] = {0}, of_b[ARENA] = {0};
    mark(a, of_a);
    mark(b, of_b);
    for (int32_t i = 0; i < ARENA; i++)
        if (of_a[i] && of_b[i]) return true;
    return false;
}

/* ---- random views ---- */

static uint64_t state;
static int64_t draw(int64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)bound);
}

/* Up to 4 axes of up to 5 elements, any signs of strides, in the middle of the arena. */
static muster_tensor draw_view(void) {
    static const muster_dtype dtypes[] = {MUSTER_U8, MUSTER_F16, MUSTER_F32, MUSTER_F64};
    muster_tensor view = muster_tensor_make(dtypes[draw(4)], arena, 0, NULL);
    const int64_t size = muster_dtype_size(view.dtype);
    view.ndim = (int32_t)draw(5);
    for (int32_t d = 0; d < view.ndim; d++) {
        view.shape[d] = draw(40) ? 1 + draw(5) : 0;
        view.strides[d] = draw(13) - 6 + (draw(3) ? 0 : draw(2) ? 10 : -11);
    }
    view.byte_offset = ARENA / 2 + (draw(64) - 32) * 8 / size * size;
    return view;
}

static void random_views_agree_with_marks(void **unused) {
    (void)unused;
    int32_t overlapping = 0, apart_in_one_range = 0, repeating = 0;
    state = test_seed();
    for (int32_t i = 0; i < RANDOM_PAIRS; i++) {
        const muster_tensor a = draw_view(), b = draw_view();
        const bool expected = marks_overlap(a, b);
        unsigned char marks[ARENA] = {0};
        const bool repeats = !mark(a, marks);
        if (mst_tensors_overlap(&a, &b) != expected || mst_tensors_overlap(&b, &a) != expected || mst_tensor_repeats(&a) != repeats)
            fail_msg("seed %llu, pair %d: expected overlap %d, repeats %d", (unsigned long long)test_seed(), i, expected, repeats);
        const mst_span spans[2] = {mst_tensor_span(&a), mst_tensor_span(&b)};
        overlapping += expected;
        repeating += repeats;
        apart_in_one_range += !expected && a.byte_offset + spans[0].low < b.byte_offset + spans[1].high &&
                              b.byte_offset + spans[1].low < a.byte_offset + spans[0].high;
    }
    printf("%d pairs: %d overlap, %d interleave without touching; %d views repeat\n", RANDOM_PAIRS, overlapping, apart_in_one_range,
           repeating);
    assert_true(overlapping > RANDOM_PAIRS / 10 && apart_in_one_range > RANDOM_PAIRS / 20 && repeating > RANDOM_PAIRS / 20);
}

/* ---- bounds, and views of one matrix ---- */

static bool overlap(muster_tensor a, muster_tensor b) {
    assert_int_equal(mst_tensors_overlap(&a, &b), mst_tensors_overlap(&b, &a));
    return mst_tensors_overlap(&a, &b);
}

static void first_and_last_byte(void **unused) {
    (void)unused;
    muster_tensor bytes = muster_u8(arena + 100, 50), doubles = muster_f64((void *)(arena + 160), 5);
    assert_false(overlap(bytes, muster_u8(arena + 150, 1)));
    assert_true(overlap(bytes, muster_u8(arena + 149, 1)));
    assert_false(overlap(bytes, muster_u8(arena + 90, 10)));
    assert_true(overlap(bytes, muster_u8(arena + 90, 11)));
    assert_false(overlap(doubles, muster_u8(arena + 200, 1)));
    assert_true(overlap(doubles, muster_u8(arena + 199, 1)));
    assert_false(overlap(doubles, muster_u8(arena + 159, 1)));
    assert_true(overlap(doubles, muster_u8(arena + 160, 1)));
    assert_true(overlap(doubles, muster_f32((void *)(arena + 196))));
    assert_false(overlap(muster_u8(arena + 150, 0), bytes));
    assert_false(overlap(muster_tensor_make(MUSTER_F32, NULL, 1, (const int64_t[]){0}), bytes));
}

/* Columns [begin, ...) of a (rows, width) matrix of floats, every `step`-th, `count` of them. */
static muster_tensor columns(int64_t rows, int64_t width, int64_t begin, int64_t step, int64_t count) {
    muster_tensor view = muster_f32((void *)arena, rows, count);
    view.strides[0] = width;
    view.strides[1] = step;
    view.byte_offset = begin * (int64_t)sizeof(float);
    return view;
}

static void views_of_one_matrix(void **unused) {
    (void)unused;
    for (int64_t width = 4; width <= 9; width++) { /* even and odd: rows of odd width shift the pattern */
        const muster_tensor even = columns(9, width, 0, 2, (width + 1) / 2), odd = columns(9, width, 1, 2, width / 2);
        const muster_tensor left = columns(9, width, 0, 1, 3), right = columns(9, width, 3, 1, width - 3);
        assert_false(overlap(even, odd));
        assert_false(overlap(left, right));
        assert_true(overlap(even, left));
        assert_true(overlap(columns(9, width, 2, 1, 2), left));
        /* the last column of the last row, or of the row before the first */
        assert_true(overlap(columns(9, width, width - 1, 1, 1), columns(1, width, 9 * width - 1, 1, 1)));
        assert_false(overlap(columns(9, width, width - 1, 1, 1), columns(1, width, 9 * width - 2, 1, 1)));
        assert_true(overlap(muster_tensor_transpose(even), left));
        assert_false(overlap(muster_tensor_transpose(right), left));
        assert_false(mst_tensor_repeats(&even));
    }
}

static void elements_at_one_address(void **unused) {
    (void)unused;
    muster_tensor view = muster_f32((void *)arena, 4, 3);
    assert_false(mst_tensor_repeats(&view));
    view.strides[0] = 2; /* windows of 3 elements every 2 */
    assert_true(mst_tensor_repeats(&view));
    view.strides[0] = -3;
    view.byte_offset = 256;
    assert_false(mst_tensor_repeats(&view));
    view.strides[0] = 0;
    assert_true(mst_tensor_repeats(&view));
    view.shape[0] = 1; /* a stride that is never used */
    assert_false(mst_tensor_repeats(&view));
    view.shape[0] = 4;
    view.shape[1] = 0; /* no element */
    assert_false(mst_tensor_repeats(&view));
}

/* Sizes as large as the check of a tensor allows. */
static void large_strides(void **unused) {
    (void)unused;
    muster_tensor a = muster_u8(arena, 2), b = muster_u8(arena + 1, 2);
    a.strides[0] = INT64_MAX - 1;
    assert_false(overlap(a, b));
    b.strides[0] = INT64_MAX - 2;
    assert_true(overlap(a, b));
    b.strides[0] = INT64_MAX - 3;
    assert_false(overlap(a, b));
    assert_false(mst_tensor_repeats(&a));
    /* axes of one stride are counted together, and the sum of both needs 65 bits */
    b.strides[0] = INT64_MAX - 1;
    assert_false(overlap(a, b));
    b.data = a.data;
    assert_true(overlap(a, b));
}

/* Halves of an array of 4 axes, whose strides have no common divisor. From the smallest stride on
 * the search would give up, after tens of thousands of steps; from the largest on it takes few. */
static void halves_of_four_axes(void **unused) {
    (void)unused;
    enum { SIZE = 40 };
    muster_tensor left = muster_u8(arena, SIZE, SIZE, SIZE, SIZE / 2);
    for (int32_t d = 2; d >= 0; d--) left.strides[d] = SIZE * left.strides[d + 1] + 1;
    muster_tensor right = left;
    right.byte_offset = SIZE / 2;
    assert_false(overlap(left, right));
    assert_false(mst_tensor_repeats(&left));
    right.byte_offset = SIZE / 2 - 1;
    assert_true(overlap(left, right));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_views_agree_with_marks), cmocka_unit_test(first_and_last_byte), cmocka_unit_test(views_of_one_matrix),
        cmocka_unit_test(elements_at_one_address),       cmocka_unit_test(large_strides),       cmocka_unit_test(halves_of_four_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
