/* take and scatter_add on the host, which chooses loops by the size of a row, the number of indices
 * and of rows, the dtypes and the layout: on both sides of each bound, element by element. */
#include "base_check.h"
#include "half_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t cases;

static void *memory(int64_t bytes) {
    unsigned char *block = malloc((size_t)bytes + 1);
    assert_non_null(block);
    uint64_t bits = (uint64_t)ops_random(INT32_MAX) + 1;
    for (int64_t i = 0; i < bytes; i++) {
        bits = bits * 6364136223846793005U + 1442695040888963407U;
        block[i] = (unsigned char)(bits >> 56);
    }
    return block;
}

/* Every second element where `apart`. Owned by the caller: `data`. */
static muster_tensor some_indices(muster_dtype dtype, int64_t n, int64_t bound, bool apart, int64_t *plain) {
    const int64_t count = apart ? 2 * n : n;
    muster_tensor indices = muster_tensor_make(dtype, memory(8 * count), 1, &count);
    indices.shape[0] = n;
    indices.strides[0] = apart ? 2 : 1;
    for (int64_t i = 0; i < n; i++) {
        plain[i] = ops_random(bound);
        mst_convert(dtype, (char *)indices.data + i * indices.strides[0] * muster_dtype_size(dtype), MUSTER_I64, &plain[i], 1);
    }
    return indices;
}

static const muster_dtype index_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};

/* ---- take ---- */

static void take_case(muster_worker *w, int64_t bytes, int64_t n, int64_t rows, muster_dtype dtype, bool apart) {
    int64_t plain[1100];
    muster_tensor indices = some_indices(dtype, n, rows, apart, plain);
    unsigned char *x = memory(rows * bytes), *y = memory(n * bytes + 16);
    y[n * bytes] = 77;
    assert_ok(muster_take(w, muster_u8(x, rows, bytes), indices, muster_u8(y, n, bytes)));
    for (int64_t i = 0; i < n; i++) assert_memory_equal(y + i * bytes, x + plain[i] * bytes, (size_t)bytes);
    assert_int_equal(y[n * bytes], 77);
    /* the same rows of a part */
    const int64_t first = rows / 3, part = rows - first - rows / 4;
    if (part > 0) {
        assert_ok(mst_worker_take_part(w, muster_u8(x + first * bytes, part, bytes), indices, first, rows, muster_u8(y, n, bytes)));
        for (int64_t i = 0; i < n * bytes; i++) {
            const int64_t row = plain[i / bytes];
            assert_int_equal(y[i], row >= first && row < first + part ? x[row * bytes + i % bytes] : 0);
        }
    }
    free(x);
    free(y);
    free(indices.data);
    cases++;
}

/* Rows of one element, which have loops of their own. */
static void elements_case(muster_worker *w, muster_dtype dtype, muster_dtype index_dtype, int64_t n, bool apart) {
    const int64_t size = muster_dtype_size(dtype), rows = 100;
    int64_t plain[1100];
    muster_tensor indices = some_indices(index_dtype, n, rows, apart, plain);
    unsigned char *x = memory(rows * size), *y = memory(n * size + 16);
    y[n * size] = 77;
    assert_ok(muster_take(w, muster_tensor_make(dtype, x, 1, &rows), indices, muster_tensor_make(dtype, y, 1, &n)));
    for (int64_t i = 0; i < n; i++) assert_memory_equal(y + i * size, x + plain[i] * size, (size_t)size);
    assert_int_equal(y[n * size], 77);
    free(x);
    free(y);
    free(indices.data);
    cases++;
}

static muster_status take_all(muster_worker *w, void *argument) {
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 255, 256, 257, 300};
    static const int64_t counts[] = {0, 1, 255, 256, 257, 1025};
    (void)argument;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int k = 0; k < 6; k++) take_case(w, sizes[s], counts[c], k % 2 ? 200 : 1, index_dtypes[k / 2], k % 2);
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int k = 0; k < 6; k++) elements_case(w, dtype, index_dtypes[k / 2], counts[c], k % 2);
    return MUSTER_OK;
}

static void test_take_copies_rows_of_every_size(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", take_all, NULL));
    assert_int_equal(cases, 22 * 6 * 6 + (MST_DTYPE_COUNT - 1) * 6 * 6);
}

/* The first bad index is named wherever it is, and y keeps its bytes. */
static muster_status refuse_all(muster_worker *w, void *argument) {
    (void)argument;
    for (int k = 0; k < 6; k++)
        for (int64_t bad = 0; bad < 1100; bad += 1 + ops_random(200)) {
            int64_t plain[1100];
            const muster_dtype dtype = index_dtypes[k / 2];
            muster_tensor indices = some_indices(dtype, 1100, 50, k % 2, plain);
            const int64_t value = dtype == MUSTER_U8 ? 50 : bad % 2 ? -1 : 50;
            char place[64];
            mst_convert(dtype, (char *)indices.data + bad * indices.strides[0] * muster_dtype_size(dtype), MUSTER_I64, &value, 1);
            float x[1100] = {0}, y[50];
            for (int i = 0; i < 50; i++) y[i] = 3;
            assert_int_equal(muster_scatter_add(w, muster_f32(x, 1100), indices, muster_f32(y, 50)), MUSTER_OUT_OF_RANGE);
            snprintf(place, sizeof place, "received %d at %d", (int)value, (int)bad);
            assert_non_null(strstr(muster_last_error(), place));
            for (int i = 0; i < 50; i++) assert_true(y[i] == 3);
            free(indices.data);
            cases++;
        }
    return MUSTER_OK;
}

static void test_the_first_bad_index_is_named(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", refuse_all, NULL));
    assert_true(cases >= 6 * 5);
}

/* ---- scatter_add ---- */

typedef struct scatter {
    muster_dtype dtype, index_dtype;
    int64_t n, rows, width, gap; /* gap: elements between the rows of y and of x */
    int64_t first, part;         /* y has these rows only; part 0: all */
} scatter;

static void put(muster_dtype dtype, void *to, double value) { mst_convert(dtype, to, MUSTER_F64, &value, 1); }
static double get(muster_dtype dtype, const void *from) {
    double value;
    mst_convert(MUSTER_F64, &value, dtype, from, 1);
    return value;
}

/* y as it becomes: one index after the other, in double, and rounded once; integers wrap around.
 * Rows without an index keep their bits. */
static void expect(const scatter *s, const unsigned char *x, const int64_t *plain, int64_t part, unsigned char *y) {
    const int64_t size = muster_dtype_size(s->dtype), stride = (s->width + s->gap) * size;
    volatile double *sums = calloc((size_t)(part * s->width + 1), sizeof *sums); /* rounded after each addition */
    char *touched = calloc((size_t)part + 1, 1);
    assert_true(sums && touched);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t row = plain[i] - s->first;
        if (row < 0 || row >= part) continue;
        for (int64_t c = 0; c < s->width; c++) {
            unsigned char *to = y + row * stride + c * size;
            const unsigned char *from = x + i * stride + c * size;
            uint64_t a = 0, b = 0;
            memcpy(&a, to, (size_t)size);
            memcpy(&b, from, (size_t)size);
            a += b;
            if (!mst_dtype_is_float(s->dtype)) memcpy(to, &a, (size_t)size);
            if (!touched[row]) sums[row * s->width + c] = get(s->dtype, to);
            sums[row * s->width + c] = sums[row * s->width + c] + get(s->dtype, from);
        }
        touched[row] = 1;
    }
    for (int64_t e = 0; e < part * s->width && mst_dtype_is_float(s->dtype); e++)
        if (touched[e / s->width]) put(s->dtype, y + e / s->width * stride + e % s->width * size, sums[e]);
    free((void *)(uintptr_t)sums);
    free(touched);
}

static void scatter_case(muster_worker *w, scatter s) {
    const int64_t size = muster_dtype_size(s.dtype), stride = (s.width + s.gap) * size, part = s.part ? s.part : s.rows;
    int64_t *plain = memory(8 * s.n + 8);
    muster_tensor indices = some_indices(s.index_dtype, s.n, s.rows, s.n % 2, plain);
    unsigned char *x = memory(s.n * stride + 8), *y = memory(part * stride + 8), *expected = memory(part * stride + 8);
    if (mst_dtype_is_float(s.dtype)) { /* of rows without an index any bits stay */
        for (int64_t e = 0; e < s.n * stride / size; e++)
            put(s.dtype, x + e * size, ldexp((double)(ops_random(2001) - 1000), (int)ops_random(9) - 6));
        for (int64_t i = 0; i < s.n; i++)
            for (int64_t c = 0; c < s.width && plain[i] >= s.first && plain[i] < s.first + part; c++)
                put(s.dtype, y + (plain[i] - s.first) * stride + c * size, (double)(ops_random(2001) - 1000) / 64);
    }
    memcpy(expected, y, (size_t)(part * stride + 8));
    expect(&s, x, plain, part, expected);
    muster_tensor from = muster_tensor_make(s.dtype, x, 2, (const int64_t[]){s.n, s.width}),
                  to = muster_tensor_make(s.dtype, y, 2, (const int64_t[]){part, s.width});
    from.strides[0] = to.strides[0] = s.width + s.gap;
    assert_ok(mst_worker_scatter_add_part(w, from, indices, s.first, s.rows, to));
    if (memcmp(y, expected, (size_t)(part * stride + 8)) != 0)
        fail_msg("%s, %d indices, %d rows of %d, gap %d, part %d from %d", muster_dtype_name(s.dtype), (int)s.n, (int)s.rows, (int)s.width,
                 (int)s.gap, (int)s.part, (int)s.first);
    free(plain);
    free(indices.data);
    free(x);
    free(y);
    free(expected);
    cases++;
}

static const muster_dtype numbers[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64, MUSTER_I8,
                                       MUSTER_U8,  MUSTER_I16,  MUSTER_I32, MUSTER_U64};

static muster_status scatter_all(muster_worker *w, void *argument) {
    static const int64_t widths[] = {1, 2, 3, 4, 5, 8, 9, 16, 17}, counts[] = {0, 1, 7, 255, 256, 257, 1500};
    (void)argument;
    for (size_t d = 0; d < sizeof numbers / sizeof *numbers; d++)
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                scatter s = {numbers[d], index_dtypes[(d + k + c) % 3], counts[c], 1 + ops_random(200), widths[k], (int64_t)(c % 2), 0, 0};
                scatter_case(w, s);
                s.first = s.rows / 3;
                s.part = s.rows - s.first - s.rows / 4;
                scatter_case(w, s);
            }
    return MUSTER_OK;
}

static void test_scatter_add_adds_in_the_order_of_the_indices(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", scatter_all, NULL));
    assert_int_equal(cases, 9 * 9 * 7 * 2);
}

/* Around the sizes of buckets, and around half as many indices as a bucket has rows. */
static muster_status bucket_all(muster_worker *w, void *argument) {
    (void)argument;
    for (int d = 0; d < 3; d++)
        for (int64_t width = 1; width <= 9; width = width == 1 ? 4 : width == 4 ? 9 : 10) {
            /* y as one bucket, and each of several */
            const int64_t bucket = (width == 1   ? 1 << 16
                                    : width == 4 ? 1 << 14
                                                 : (1 << 16) / 9),
                          least = width == 9 ? 1 << 10 : (1 << 14) / width;
            const int64_t rows[] = {least - 1, bucket - 1, bucket, bucket + 1, bucket + least, 2 * bucket + 3};
            for (int r = 0; r < 6; r++) {
                const int64_t counts[] = {3, rows[r] / 2 - 1, rows[r] / 2, 2 * rows[r]};
                for (int c = 0; c < 4; c++) {
                    scatter_case(w, (scatter){numbers[d], MUSTER_I32, counts[c], rows[r], width, c % 2, 0, 0});
                    scatter_case(w, (scatter){numbers[d], MUSTER_I64, counts[c], rows[r], width, 0, 5, rows[r] - 9});
                }
            }
        }
    return MUSTER_OK;
}

static void test_scatter_add_into_buckets_of_rows(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", bucket_all, NULL));
    assert_int_equal(cases, 3 * 3 * 6 * 4 * 2);
}

int main(void) {
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_copies_rows_of_every_size),
        cmocka_unit_test(test_the_first_bad_index_is_named),
        cmocka_unit_test(test_scatter_add_adds_in_the_order_of_the_indices),
        cmocka_unit_test(test_scatter_add_into_buckets_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
