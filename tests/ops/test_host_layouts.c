/* Loops that the host chooses by the layout of its operands, on both sides of each bound: sums and
 * softmax of rows that lie beside each other, transposed and repeated copies, products of one row
 * and one column, divisions that are simple. */
#include "base_check.h"
#include "half_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t cases;

static const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};

static void put(muster_dtype dtype, void *to, double value) { mst_convert(dtype, to, MUSTER_F64, &value, 1); }
static double get(muster_dtype dtype, const void *from) {
    double value;
    mst_convert(MUSTER_F64, &value, dtype, from, 1);
    return value;
}

static unsigned char *numbers_of(muster_dtype dtype, int64_t count, double scale) {
    const int64_t size = muster_dtype_size(dtype);
    unsigned char *block = malloc((size_t)(count * size) + 8);
    assert_non_null(block);
    for (int64_t e = 0; e < count; e++) put(dtype, block + e * size, ((double)ops_random(2001) - 1000) * scale);
    memset(block + count * size, 77, 8);
    return block;
}

static bool same(const void *a, const void *b, int64_t bytes) { return bytes == 0 || memcmp(a, b, (size_t)bytes) == 0; }

/* ---- rows beside each other ---- */

static void cumsum_case(muster_worker *w, muster_dtype dtype, int64_t length, int64_t columns, int64_t gap) {
    const int64_t size = muster_dtype_size(dtype), pitch = columns + gap;
    unsigned char *x = numbers_of(dtype, length * pitch, 1.0 / 64), *y = numbers_of(dtype, length * pitch, 1),
                  *expected = malloc((size_t)(length * pitch * size) + 8);
    muster_tensor from = muster_tensor_make(dtype, x, 2, (const int64_t[]){length, columns}), to = from;
    from.strides[0] = to.strides[0] = pitch;
    to.data = y;
    memcpy(expected, y, (size_t)(length * pitch * size) + 8);
    for (int64_t c = 0; c < columns; c++) {
        volatile double sum = 0;
        for (int64_t i = 0; i < length; i++) {
            sum = sum + get(dtype, x + (i * pitch + c) * size);
            put(dtype, expected + (i * pitch + c) * size, sum);
        }
    }
    assert_ok(muster_cumsum(w, from, 0, to));
    assert_true(same(y, expected, length * pitch * size + 8));
    assert_ok(muster_cumsum(w, from, 0, from)); /* in place */
    for (int64_t i = 0; i < length; i++) assert_true(same(x + i * pitch * size, expected + i * pitch * size, columns * size));
    free(x);
    free(y);
    free(expected);
    cases++;
}

static muster_status cumsum_all(muster_worker *w, void *argument) {
    static const int64_t columns[] = {0, 1, 7, 8, 9, 255, 256, 257, 263, 264}, lengths[] = {0, 1, 2, 17};
    (void)argument;
    for (int d = 0; d < 4; d++)
        for (int c = 0; c < 10; c++)
            for (int l = 0; l < 4; l++) cumsum_case(w, floats[d], lengths[l], columns[c], c % 2 ? 3 : 0);
    return MUSTER_OK;
}

static void test_running_sums_of_rows_that_are_adjacent(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", cumsum_all, NULL));
    assert_int_equal(cases, 4 * 10 * 4);
}

enum { SOFTMAX, LOG_SOFTMAX, LOGSUMEXP };

static muster_status family(muster_worker *w, int op, muster_tensor x, muster_tensor y) {
    return op == SOFTMAX ? muster_softmax(w, x, y) : op == LOG_SOFTMAX ? muster_log_softmax(w, x, y) : muster_logsumexp(w, x, y);
}

/* Each row has the bits that it has by itself. What these are, the oracles know. */
static void softmax_case(muster_worker *w, int op, muster_dtype dtype, int64_t length, int64_t rows, bool in_place) {
    const int64_t size = muster_dtype_size(dtype);
    unsigned char *x = numbers_of(dtype, length * rows, 1.0 / 128), *y = numbers_of(dtype, length * rows, 1);
    if (length > 2 && rows > 3) { /* a mask, a row of nothing else, infinity, NaN */
        put(dtype, x + rows * size, -INFINITY);
        for (int64_t i = 0; i < length; i++) put(dtype, x + (i * rows + 1) * size, -INFINITY);
        put(dtype, x + (rows + 2) * size, INFINITY);
        put(dtype, x + (rows + 3) * size, NAN);
    }
    unsigned char *single = malloc((size_t)(length * size) + 8), *all = malloc((size_t)(length * rows * size) + 8);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < length; i++) memcpy(single + i * size, x + (i * rows + r) * size, (size_t)size);
        muster_tensor row = muster_tensor_make(dtype, single, 1, &length), result = muster_tensor_make(dtype, all + r * size, 0, NULL);
        if (op == LOGSUMEXP) {
            assert_ok(family(w, op, row, result));
            continue;
        }
        assert_ok(family(w, op, row, row));
        for (int64_t i = 0; i < length; i++) memcpy(all + (i * rows + r) * size, single + i * size, (size_t)size);
    }
    const muster_tensor from = muster_tensor_transpose(muster_tensor_make(dtype, x, 2, (const int64_t[]){length, rows})),
                        to = op == LOGSUMEXP
                                 ? muster_tensor_make(dtype, y, 1, &rows)
                                 : muster_tensor_transpose(muster_tensor_make(dtype, in_place ? x : y, 2, (const int64_t[]){length, rows}));
    assert_ok(family(w, op, from, to));
    const int64_t count = op == LOGSUMEXP ? rows : length * rows;
    const unsigned char *received = to.data;
    for (int64_t e = 0; e < count; e++) {
        const double a = get(dtype, received + e * size), b = get(dtype, all + e * size);
        if (!same(received + e * size, all + e * size, size) && !(a != a && b != b))
            fail_msg("operation %d, %s, %d rows of %d: element %d is %g, by itself %g", op, muster_dtype_name(dtype), (int)rows,
                     (int)length, (int)e, a, b);
    }
    free(x);
    free(y);
    free(single);
    free(all);
    cases++;
}

static muster_status softmax_all(muster_worker *w, void *argument) {
    static const int64_t rows[] = {1, 7, 8, 9, 33, 1023, 1024, 1025, 1032}, lengths[] = {1, 15, 16, 17, 255, 256, 257, 271, 272, 273};
    (void)argument;
    for (int op = SOFTMAX; op <= LOGSUMEXP; op++)
        for (int d = 0; d < 4; d++)
            for (int r = 0; r < 9; r++)
                for (int l = 0; l < 10; l += r < 5 ? 1 : 4)
                    softmax_case(w, op, floats[d], lengths[l], rows[r], op != LOGSUMEXP && (r + l) % 2);
    return MUSTER_OK;
}

static void test_softmax_of_rows_that_are_adjacent_has_the_bits_of_each_row(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", softmax_all, NULL));
    assert_int_equal(cases, 3 * 4 * (5 * 10 + 4 * 3));
}

/* ---- copies ---- */

static const muster_dtype sizes[] = {MUSTER_U8, MUSTER_F16, MUSTER_F32, MUSTER_F64};

static muster_status transpose_all(muster_worker *w, void *argument) {
    static const int64_t sides[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65};
    (void)argument;
    for (int d = 0; d < 4; d++)
        for (int a = 0; a < 12; a++)
            for (int b = 0; b < 12; b++) {
                const int64_t n = sides[a], k = sides[b], size = muster_dtype_size(sizes[d]), batch = 1 + (a + b) % 3;
                unsigned char *x = numbers_of(sizes[d], batch * n * k, 1), *y = numbers_of(sizes[d], batch * n * k, 1);
                muster_tensor from = muster_tensor_make(sizes[d], x, 3, (const int64_t[]){batch, n, k});
                from = muster_tensor_permute(from, (const int32_t[]){0, 2, 1});
                assert_ok(muster_copy(w, from, muster_tensor_make(sizes[d], y, 3, (const int64_t[]){batch, k, n})));
                for (int64_t i = 0; i < batch; i++)
                    for (int64_t c = 0; c < k; c++)
                        for (int64_t r = 0; r < n; r++)
                            assert_true(same(y + ((i * k + c) * n + r) * size, x + ((i * n + r) * k + c) * size, size));
                assert_int_equal(y[batch * n * k * size], 77);
                free(x);
                free(y);
                cases++;
            }
    return MUSTER_OK;
}

static muster_status repeat_all(muster_worker *w, void *argument) {
    static const int64_t times[] = {1, 2, 3, 4, 5, 31, 32, 33}, counts[] = {1, 2, 15, 16, 17, 100};
    (void)argument;
    for (int d = 0; d < 4; d++)
        for (int t = 0; t < 8; t++)
            for (int c = 0; c < 6; c++)
                for (int apart = 0; apart < 2; apart++) {
                    const int64_t n = counts[c], k = times[t], size = muster_dtype_size(sizes[d]), step = 1 + apart;
                    unsigned char *x = numbers_of(sizes[d], n * step, 1), *y = numbers_of(sizes[d], n * k, 1);
                    muster_tensor from = muster_tensor_make(sizes[d], x, 2, (const int64_t[]){n, k});
                    from.strides[0] = step;
                    from.strides[1] = 0;
                    assert_ok(muster_copy(w, from, muster_tensor_make(sizes[d], y, 2, (const int64_t[]){n, k})));
                    for (int64_t e = 0; e < n * k; e++) assert_true(same(y + e * size, x + e / k * step * size, size));
                    assert_int_equal(y[n * k * size], 77);
                    free(x);
                    free(y);
                    cases++;
                }
    return MUSTER_OK;
}

static void test_copies_of_transposed_and_repeated_elements(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", transpose_all, NULL));
    assert_int_equal(cases, 4 * 12 * 12);
    assert_ok(ops_run_on("host", repeat_all, NULL));
    assert_int_equal(cases, 4 * 12 * 12 + 4 * 8 * 6 * 2);
}

int main(void) {
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running_sums_of_rows_that_are_adjacent),
        cmocka_unit_test(test_softmax_of_rows_that_are_adjacent_has_the_bits_of_each_row),
        cmocka_unit_test(test_copies_of_transposed_and_repeated_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
