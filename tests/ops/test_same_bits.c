/* Kernel sources against the host's operations, bit for bit, where both promise the same bits:
 * conversions, stores, roundings, random numbers. */
#include "base_check.h"
#include "device_discrete.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <stdlib.h>

enum { MOST = 1 << 16 };

static muster_tensor on_device(muster_worker *w, muster_dtype dtype, const void *values, int64_t count) {
    muster_tensor tensor;
    assert_ok(muster_worker_scratch(w, dtype, 1, &count, &tensor));
    assert_ok(muster_worker_write(w, muster_tensor_make(dtype, (void *)(uintptr_t)values, 1, &count), tensor));
    return tensor;
}

/* The compiler may exchange the operands of an operation, so it decides which of two NaN
 * results. */
static bool both_nan(muster_dtype dtype, const void *a, const void *b) {
    double x, y;
    mst_convert(MUSTER_F64, &x, dtype, a, 1);
    mst_convert(MUSTER_F64, &y, dtype, b, 1);
    return x != x && y != y;
}

static void same(muster_worker *w, muster_tensor device, const void *expected, bool any_nan, const char *what, int number) {
    static char received[MOST * 8];
    assert_ok(muster_worker_read(w, device, muster_tensor_make(device.dtype, received, 1, device.shape)));
    int64_t size = muster_dtype_size(device.dtype);
    for (int64_t i = 0; i < device.shape[0]; i++)
        if (memcmp(received + i * size, (const char *)expected + i * size, (size_t)size) != 0 &&
            !(any_nan && both_nan(device.dtype, received + i * size, (const char *)expected + i * size)))
            fail_msg("%s %d: element %lld has other bits", what, number, (long long)i);
}

static void same_bits(muster_worker *w, muster_tensor device, const void *expected, const char *what, int number) {
    same(w, device, expected, false, what, number);
}

/* Random bits, among them NaN with payloads, infinities and subnormal numbers, and, in wide types,
 * values around the limits of narrow types. */
static void any_bits(muster_dtype dtype, void *values, int64_t count) {
    int64_t size = muster_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = (uint64_t)ops_random(1 << 30) << 34 ^ (uint64_t)ops_random(1 << 30) << 15 ^ (uint64_t)ops_random(1 << 15);
        if (size == 2 && count == MOST) bits = (uint64_t)i; /* every one of them */
        if (size == 8 && ops_random(2)) bits >>= ops_random(64);
        if (dtype == MUSTER_F32 && ops_random(2)) {
            float value = (float)((double)(ops_random(1 << 20) - (1 << 19)) / (double)(1 + ops_random(64)));
            memcpy(&bits, &value, sizeof value);
        }
        if (dtype == MUSTER_F64 && ops_random(2)) {
            double value = (double)(ops_random(1 << 30) - (1 << 29)) * (double)(ops_random(1 << 20)) / 64;
            memcpy(&bits, &value, sizeof value);
        }
        memcpy((char *)values + i * size, &bits, (size_t)size);
    }
}

static muster_status convert(muster_worker *w, void *argument) {
    (void)argument;
    static _Alignas(16) char values[MOST * 8], expected[MOST * 8];
    for (muster_dtype from = 1; from < MST_DTYPE_COUNT; from++)
        for (muster_dtype to = 1; to < MST_DTYPE_COUNT; to++) {
            int64_t count = muster_dtype_size(from) == 2 ? MOST : 3000;
            any_bits(from, values, count);
            muster_tensor x = on_device(w, from, values, count);
            muster_tensor y;
            MUSTER_TRY(muster_worker_scratch(w, to, 1, &count, &y));
            mst_convert(to, expected, from, values, count);
            assert_ok(mst_worker_convert(w, to, y.data, from, x.data, count));
            same_bits(w, y, expected, "conversion", from * 100 + to);
        }
    return MUSTER_OK;
}

static void test_conversions_give_the_bits_of_the_host(void **state) {
    (void)state;
    assert_ok(ops_run_on("discrete", convert, NULL));
}

static muster_status accumulate(muster_worker *w, void *argument) {
    (void)argument;
    static _Alignas(16) char before[MOST * 8], values[MOST * 8];
    enum { COUNT = 1003 };
    int64_t count = COUNT;
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            for (int first = 0; first < 2 && !ops_refused(op, dtype); first++) {
                muster_dtype wide = mst_dtype_compute(dtype);
                any_bits(wide, before, COUNT);
                any_bits(dtype, values, COUNT);
                muster_tensor a = on_device(w, wide, before, count), v = on_device(w, dtype, values, count);
                assert_ok(mst_worker_accumulate(w, op, dtype, a.data, v.data, count, 1.0 / 3, first));
                mst_reduction_accumulate(op, dtype, before, values, count, 1.0 / 3, first);
                same(w, a, before, true, "accumulation", op * 100 + dtype);
            }
    return MUSTER_OK;
}

static void test_accumulations_give_the_bits_of_the_host(void **state) {
    (void)state;
    assert_ok(ops_run_on("discrete", accumulate, NULL));
}

static muster_status update(muster_worker *w, void *argument) {
    (void)argument;
    static _Alignas(16) char parameter[MOST * 8], velocity[MOST * 8], sum[MOST * 8];
    int64_t count = 1003;
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int momentum = 0; momentum < 2; momentum++) {
            any_bits(dtype, parameter, count);
            any_bits(dtype, velocity, count);
            any_bits(mst_dtype_compute(dtype), sum, count);
            muster_tensor x = on_device(w, dtype, parameter, count), v = on_device(w, dtype, velocity, count),
                          s = on_device(w, mst_dtype_compute(dtype), sum, count);
            assert_ok(mst_worker_update(w, dtype, x.data, x.data, momentum ? v.data : NULL, s.data, count, -0.1, 0.9));
            if (momentum)
                mst_reduction_momentum(dtype, parameter, parameter, velocity, sum, count, -0.1, 0.9);
            else
                mst_reduction_update(dtype, parameter, parameter, sum, count, -0.1);
            same(w, x, parameter, true, "parameters", dtype);
            same(w, v, velocity, true, "velocities", dtype);
        }
    return MUSTER_OK;
}

static void test_updates_give_the_bits_of_the_host(void **state) {
    (void)state;
    assert_ok(ops_run_on("discrete", update, NULL));
}

typedef struct drawn {
    uint64_t first;
    muster_dtype dtype;
    bool normal;
    int64_t count;
    char values[8 * 1000];
} drawn;

static muster_status draw(muster_worker *w, void *argument) {
    drawn *d = argument;
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, d->dtype, 1, &d->count, &y));
    if (d->normal)
        assert_ok(muster_random_normal(w, 7, d->first, 1, 2, y));
    else
        assert_ok(muster_random_uniform(w, 7, d->first, y));
    return muster_worker_read(w, y, muster_tensor_make(d->dtype, d->values, 1, &d->count));
}

static void test_random_numbers_give_the_bits_of_the_host(void **state) {
    (void)state;
    static drawn host, discrete;
    const uint64_t firsts[] = {0, 1, 2, 3, 5, UINT64_MAX - 10, (uint64_t)1 << 33};
    for (int normal = 0; normal < 2; normal++)
        for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
            for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
                host = discrete = (drawn){.first = firsts[i], .dtype = dtype, .normal = normal, .count = 1 + ops_random(999)};
                discrete.count = host.count;
                assert_ok(ops_run_on("host", draw, &host));
                assert_ok(ops_run_on("discrete", draw, &discrete));
                assert_memory_equal(host.values, discrete.values, (size_t)(host.count * muster_dtype_size(dtype)));
            }
}

static muster_status gather(muster_worker *w, void *argument) {
    (void)argument;
    static _Alignas(16) char rows[4096], expected[4096];
    for (int64_t i = 0; i < (int64_t)sizeof rows; i++) rows[i] = (char)ops_random(256);
    for (int64_t row_bytes = 1; row_bytes <= 64; row_bytes++) {
        enum { COUNT = 33 };
        int64_t indices[COUNT], count = COUNT, bytes = COUNT * row_bytes;
        for (int64_t i = 0; i < COUNT; i++) {
            indices[i] = ops_random((int64_t)sizeof rows / row_bytes);
            memcpy(expected + i * row_bytes, rows + indices[i] * row_bytes, (size_t)row_bytes);
        }
        muster_tensor from = on_device(w, MUSTER_U8, rows, sizeof rows), at = on_device(w, MUSTER_I64, indices, count);
        muster_tensor to;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_U8, 1, &bytes, &to));
        assert_ok(mst_worker_gather_rows(w, to.data, from.data, row_bytes, at.data, count));
        same_bits(w, to, expected, "rows of bytes", (int)row_bytes);
    }
    return MUSTER_OK;
}

static void test_rows_are_gathered_by_an_index_list(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", gather, NULL));
    assert_ok(ops_run_on("discrete", gather, NULL));
}

/* The tensors are so long that they are cut into many chunks. The sums are exact, and a second run
 * gives the same bits. */
static muster_status sum_long(muster_worker *w, void *argument) {
    (void)argument;
    enum { ROWS = 1000, COLUMNS = 65 };
    static float values[ROWS * COLUMNS], once[COLUMNS], again[COLUMNS];
    static double sums[COLUMNS];
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = (float)(ops_random(1000) - 500) / 3;
        sums[i % COLUMNS] += values[i];
    }
    muster_tensor x = on_device(w, MUSTER_F32, values, ROWS * COLUMNS), all = muster_tensor_reshape(x, 2, (const int64_t[]){ROWS, COLUMNS});
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (const int64_t[]){COLUMNS}, &y));
    assert_ok(muster_reduce(w, MUSTER_SUM, all, 0, y));
    assert_ok(muster_worker_read(w, y, muster_f32(once, COLUMNS)));
    assert_ok(muster_reduce(w, MUSTER_SUM, all, 0, y));
    assert_ok(muster_worker_read(w, y, muster_f32(again, COLUMNS)));
    assert_memory_equal(once, again, sizeof once);
    for (int64_t j = 0; j < COLUMNS; j++) ops_assert_near(once[j], sums[j], 1e-6);
    double total = 0;
    for (int64_t j = 0; j < COLUMNS; j++) total += sums[j];
    muster_tensor mean;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &mean));
    assert_ok(muster_mean(w, x, mean));
    float received;
    assert_ok(muster_worker_read(w, mean, muster_f32(&received)));
    ops_assert_near(received, total / (ROWS * COLUMNS), 1e-6);
    assert_ok(muster_dot(w, x, x, mean));
    double squares = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) squares += (double)values[i] * (double)values[i];
    assert_ok(muster_worker_read(w, mean, muster_f32(&received)));
    ops_assert_near(received, squares, 1e-6);
    return MUSTER_OK;
}

static void test_long_sums_are_exact_and_the_same_twice(void **state) {
    (void)state;
    assert_ok(ops_run_on("discrete", sum_long, NULL));
}

int main(void) {
    if (mst_discrete_register() != MUSTER_OK) return 1;
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions_give_the_bits_of_the_host), cmocka_unit_test(test_accumulations_give_the_bits_of_the_host),
        cmocka_unit_test(test_updates_give_the_bits_of_the_host),     cmocka_unit_test(test_random_numbers_give_the_bits_of_the_host),
        cmocka_unit_test(test_rows_are_gathered_by_an_index_list),    cmocka_unit_test(test_long_sums_are_exact_and_the_same_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
