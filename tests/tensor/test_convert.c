#include "base_check.h"
#include "tensor_impl.h"

#include <math.h>

#define COUNT_OF(array) ((int64_t)(sizeof(array) / sizeof *(array)))

/* Converts an array and compares the bytes with the expected ones. */
#define CHECK(to, expected_type, from, from_type, from_values, ...)                                  \
    do {                                                                                             \
        const from_type values_[] = from_values;                                                     \
        const expected_type expected_[] = __VA_ARGS__;                                               \
        expected_type result_[COUNT_OF(expected_)];                                                  \
        assert_int_equal(COUNT_OF(values_), COUNT_OF(expected_));                                    \
        mst_convert(to, result_, from, values_, COUNT_OF(values_));                                  \
        for (int64_t i_ = 0; i_ < COUNT_OF(values_); i_++) {                                         \
            if (result_[i_] != expected_[i_]) fail_msg("%s to %s: element %d", #from, #to, (int)i_); \
        }                                                                                            \
    } while (0)
#define VALUES(...) \
    { __VA_ARGS__ }

static void floats_go_to_integers_towards_zero_and_saturate(void **state) {
    (void)state;
#define FLOATS VALUES(1.9f, -1.9f, 0.5f, -0.0f, 127.9f, 128, -128.9f, -129, 255.9f, 256, 1e30f, -1e30f, INFINITY, -INFINITY, NAN)
    CHECK(MUSTER_I8, int8_t, MUSTER_F32, float, FLOATS, {1, -1, 0, 0, 127, 127, -128, -128, 127, 127, 127, -128, 127, -128, 0});
    CHECK(MUSTER_U8, uint8_t, MUSTER_F32, float, FLOATS, {1, 0, 0, 0, 127, 128, 0, 0, 255, 255, 255, 0, 255, 0, 0});
    CHECK(MUSTER_I64, int64_t, MUSTER_F32, float, FLOATS,
          {1, -1, 0, 0, 127, 128, -128, -129, 255, 256, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 0});
    CHECK(MUSTER_U64, uint64_t, MUSTER_F32, float, FLOATS, {1, 0, 0, 0, 127, 128, 0, 0, 255, 256, UINT64_MAX, 0, UINT64_MAX, 0, 0});
}

static void doubles_go_to_integers_at_the_very_edges(void **state) {
    (void)state;
    CHECK(MUSTER_I32, int32_t, MUSTER_F64, double, VALUES(2147483647.5, 2147483648.0, -2147483648.5, -2147483649.0, NAN),
          {INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, 0});
    CHECK(MUSTER_U32, uint32_t, MUSTER_F64, double, VALUES(4294967295.5, 4294967296.0, -0.99, -1), {UINT32_MAX, UINT32_MAX, 0, 0});
    CHECK(MUSTER_I16, int16_t, MUSTER_F64, double, VALUES(32767.5, 32768, -32768.5, -40000), {32767, 32767, -32768, -32768});
    CHECK(MUSTER_I64, int64_t, MUSTER_F64, double, VALUES(0x1p63, 0x1.fffffffffffffp62, -0x1p63, -0x1p64),
          {INT64_MAX, 0x7ffffffffffffc00, INT64_MIN, INT64_MIN});
    CHECK(MUSTER_U64, uint64_t, MUSTER_F64, double, VALUES(0x1p64, 0x1.fffffffffffffp63, 0x1p63),
          {UINT64_MAX, 0xfffffffffffff800, UINT64_C(1) << 63});
}

static void integers_of_64_bits_stay_exact(void **state) {
    (void)state;
    const int64_t odd = (INT64_C(1) << 53) + 1;
    CHECK(MUSTER_U64, uint64_t, MUSTER_I64, int64_t, VALUES(odd, INT64_MAX, -1, INT64_MIN), {(uint64_t)odd, INT64_MAX, 0, 0});
    CHECK(MUSTER_I64, int64_t, MUSTER_U64, uint64_t, VALUES((uint64_t)odd, UINT64_MAX, 0), {odd, INT64_MAX, 0});
    CHECK(MUSTER_I64, int64_t, MUSTER_I64, int64_t, VALUES(odd, INT64_MIN), {odd, INT64_MIN});
}

static void integers_saturate_into_narrower_ones(void **state) {
    (void)state;
    CHECK(MUSTER_I8, int8_t, MUSTER_I32, int32_t, VALUES(127, 128, -128, -129, INT32_MAX, INT32_MIN), {127, 127, -128, -128, 127, -128});
    CHECK(MUSTER_U8, uint8_t, MUSTER_I16, int16_t, VALUES(255, 256, -1, 0), {255, 255, 0, 0});
    CHECK(MUSTER_U32, uint32_t, MUSTER_I64, int64_t, VALUES(-5, UINT32_MAX, (int64_t)UINT32_MAX + 1), {0, UINT32_MAX, UINT32_MAX});
    CHECK(MUSTER_I32, int32_t, MUSTER_U32, uint32_t, VALUES(INT32_MAX, UINT32_MAX), {INT32_MAX, INT32_MAX});
    CHECK(MUSTER_I16, int16_t, MUSTER_U64, uint64_t, VALUES(32767, 32768, UINT64_MAX), {32767, 32767, 32767});
    CHECK(MUSTER_I32, int32_t, MUSTER_I8, int8_t, VALUES(-128, 127), {-128, 127});
}

static void integers_go_to_floats_rounded_once(void **state) {
    (void)state;
    CHECK(MUSTER_F32, float, MUSTER_I64, int64_t, VALUES(16777217, -16777219, INT64_MAX), {16777216.0f, -16777220.0f, 0x1p63f});
    CHECK(MUSTER_F64, double, MUSTER_U64, uint64_t, VALUES(UINT64_MAX, (UINT64_C(1) << 53) + 1), {0x1p64, 0x1p53});
    CHECK(MUSTER_F32, float, MUSTER_F64, double, VALUES(0.1, 1e300, -1e300), {0.1f, INFINITY, -INFINITY});
    CHECK(MUSTER_F64, double, MUSTER_F32, float, VALUES(0.1f), {(double)0.1f});
}

static void bool_is_not_equal_zero(void **state) {
    (void)state;
    CHECK(MUSTER_BOOL, uint8_t, MUSTER_F32, float, VALUES(0, -0.0f, 0.1f, NAN, -INFINITY), {0, 0, 1, 1, 1});
    CHECK(MUSTER_BOOL, uint8_t, MUSTER_I64, int64_t, VALUES(0, INT64_C(1) << 40, -1), {0, 1, 1});
    CHECK(MUSTER_BOOL, uint8_t, MUSTER_F16, uint16_t, VALUES(0, 0x8000, 1), {0, 0, 1});
    CHECK(MUSTER_BOOL, uint8_t, MUSTER_BOOL, uint8_t, VALUES(0, 1, 2, 255), {0, 1, 1, 1});
    CHECK(MUSTER_I32, int32_t, MUSTER_BOOL, uint8_t, VALUES(0, 1, 200), {0, 1, 1});
    CHECK(MUSTER_F32, float, MUSTER_BOOL, uint8_t, VALUES(0, 1, 200), {0, 1, 1});
}

static void a_nan_between_floats_stays_a_nan(void **state) {
    (void)state;
    static const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            double nan = NAN, from, to, back;
            mst_convert(floats[i], &from, MUSTER_F64, &nan, 1);
            mst_convert(floats[j], &to, floats[i], &from, 1);
            mst_convert(MUSTER_F64, &back, floats[j], &to, 1);
            assert_true(isnan(back));
        }
    }
}

/* Every pair is in the table: small integers, which every dtype holds, survive any path. */
static void small_values_survive_every_pair(void **state) {
    (void)state;
    enum { N = 67 };
    double first[N], from[N], to[N], last[N];
    for (int i = 0; i < N; i++) first[i] = i;
    for (muster_dtype a = MUSTER_F16; a <= MUSTER_BOOL; a++) {
        for (muster_dtype b = MUSTER_F16; b <= MUSTER_BOOL; b++) {
            bool flat = a == MUSTER_BOOL || b == MUSTER_BOOL;
            mst_convert(a, from, MUSTER_F64, first, N);
            mst_convert(b, to, a, from, N);
            mst_convert(MUSTER_F64, last, b, to, N);
            for (int i = 0; i < N; i++) {
                if (last[i] != (flat ? i != 0 : i))
                    fail_msg("%s to %s: %d gives %g", muster_dtype_name(a), muster_dtype_name(b), i, last[i]);
            }
        }
    }
}

static void nothing_is_touched_for_no_elements(void **state) {
    (void)state;
    mst_convert(MUSTER_F32, NULL, MUSTER_F64, NULL, 0);
    mst_convert(MUSTER_F32, NULL, MUSTER_F32, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_go_to_integers_towards_zero_and_saturate),
        cmocka_unit_test(doubles_go_to_integers_at_the_very_edges),
        cmocka_unit_test(integers_of_64_bits_stay_exact),
        cmocka_unit_test(integers_saturate_into_narrower_ones),
        cmocka_unit_test(integers_go_to_floats_rounded_once),
        cmocka_unit_test(bool_is_not_equal_zero),
        cmocka_unit_test(a_nan_between_floats_stays_a_nan),
        cmocka_unit_test(small_values_survive_every_pair),
        cmocka_unit_test(nothing_is_touched_for_no_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
