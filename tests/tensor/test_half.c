/* f16 and bf16 against the definition, evaluated in double, and against the compiler's own type
 * where it has one. */
#include "base_check.h"
#include "half_impl.h"
#include "tensor_impl.h"

#include <math.h>

/* The value of a pattern with `exponent_bits` and `fraction_bits`, from the definition of IEEE 754
 * section 3.4. */
static double value_of(uint16_t bits, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits), sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias));
}

static void every_f16_has_its_value(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double expected = value_of((uint16_t)bits, 5, 10);
        float value = muster_f16_to_f32((uint16_t)bits);
        if (isnan(expected) ? !isnan(value) : value != expected || !signbit(value) != !signbit(expected))
            fail_msg("%04x gives %g", bits, value);
    }
}

static void every_bf16_has_its_value(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double expected = value_of((uint16_t)bits, 8, 7);
        float value = muster_bf16_to_f32((uint16_t)bits);
        if (isnan(expected) ? !isnan(value) : value != expected || !signbit(value) != !signbit(expected))
            fail_msg("%04x gives %g", bits, value);
    }
}

/* A conversion and its inverse keep every value. NaN becomes quiet and keeps its payload. */
static void every_f16_survives_f32(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t expected = (bits & 0x7fff) > 0x7c00 ? bits | 0x200 : bits;
        if (muster_f32_to_f16(muster_f16_to_f32((uint16_t)bits)) != expected) fail_msg("%04x is changed", bits);
    }
}

static void every_bf16_survives_f32(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t expected = (bits & 0x7fff) > 0x7f80 ? bits | 0x40 : bits;
        if (muster_f32_to_bf16(muster_bf16_to_f32((uint16_t)bits)) != expected) fail_msg("%04x is changed", bits);
    }
}

/* Values below, at and above the middle of every two neighbours. */
static void check_neighbours(uint16_t (*round)(float), float (*widen)(uint16_t), uint32_t infinity) {
    for (uint32_t bits = 0; bits + 1 < infinity; bits++) {
        double low = widen((uint16_t)bits), high = widen((uint16_t)(bits + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = bits & 1 ? bits + 1 : bits;
        if (round(middle) != even) fail_msg("the tie above %04x goes to %04x", bits, round(middle));
        if (round(nextafterf(middle, 0)) != bits && middle > 0x1p-140f) fail_msg("below the tie above %04x", bits);
        if (round(nextafterf(middle, INFINITY)) != bits + 1) fail_msg("above the tie above %04x", bits);
        if (round(-middle) != (even | 0x8000)) fail_msg("the tie below -%04x", bits);
    }
}

static void ties_go_to_even(void **state) {
    (void)state;
    check_neighbours(muster_f32_to_f16, muster_f16_to_f32, 0x7c00);
    check_neighbours(muster_f32_to_bf16, muster_bf16_to_f32, 0x7f80);
}

static void the_ends_of_the_range(void **state) {
    (void)state;
    assert_int_equal(muster_f32_to_f16(65504), 0x7bff);
    assert_int_equal(muster_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(muster_f32_to_f16(65520), 0x7c00);
    assert_int_equal(muster_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(muster_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(muster_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(muster_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(muster_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(muster_f32_to_bf16(3.4028235e38f), 0x7f80);
    assert_int_equal(muster_f32_to_bf16(INFINITY), 0x7f80);
    assert_int_equal(muster_f32_to_bf16(-0.0f), 0x8000);
}

static void a_nan_with_a_low_payload_stays_a_nan(void **state) {
    (void)state;
    float nan = mst_f32_of_bits(0x7f800001), negative = mst_f32_of_bits(0xff800001);
    assert_int_equal(muster_f32_to_f16(nan), 0x7e00);
    assert_int_equal(muster_f32_to_f16(negative), 0xfe00);
    assert_int_equal(muster_f32_to_bf16(nan), 0x7fc0);
    assert_int_equal(muster_f32_to_bf16(negative), 0xffc0);
}

#if defined(__FLT16_MANT_DIG__)
static uint16_t by_compiler(float value) {
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static void the_compiler_rounds_alike(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099) { /* prime: every exponent, and varying low bits */
        float value = mst_f32_of_bits((uint32_t)bits);
        if (!isnan(value) && muster_f32_to_f16(value) != by_compiler(value)) fail_msg("%08llx", (unsigned long long)bits);
    }
}
#endif

static void doubles_round_once(void **state) {
    (void)state;
    /* just above a tie of f16 by less than f32 can see: two ordinary roundings would go down to the
     * even neighbour */
    double value = 1 + 0x1p-11 + 0x1p-40;
    uint16_t half;
    mst_convert(MUSTER_F16, &half, MUSTER_F64, &value, 1);
    assert_int_equal(half, 0x3c01);
    value = -(1 + 0x1p-8 + 0x1p-40);
    mst_convert(MUSTER_BF16, &half, MUSTER_F64, &value, 1);
    assert_int_equal(half, 0xbf81);
    value = 1e300;
    mst_convert(MUSTER_BF16, &half, MUSTER_F64, &value, 1);
    assert_int_equal(half, 0x7f80);
    value = 1e-300;
    mst_convert(MUSTER_F16, &half, MUSTER_F64, &value, 1);
    assert_int_equal(half, 0);
    value = NAN;
    mst_convert(MUSTER_BF16, &half, MUSTER_F64, &value, 1);
    assert_true(isnan(muster_bf16_to_f32(half)));
}

static void integers_round_once(void **state) {
    (void)state;
    uint16_t half;
    int64_t above_tie = (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1, tie = (INT64_C(1) << 62) + (INT64_C(1) << 54);
    mst_convert(MUSTER_BF16, &half, MUSTER_I64, &above_tie, 1);
    assert_int_equal(half, 0x5e81);
    mst_convert(MUSTER_BF16, &half, MUSTER_I64, &tie, 1);
    assert_int_equal(half, 0x5e80);
    above_tie = -above_tie;
    mst_convert(MUSTER_BF16, &half, MUSTER_I64, &above_tie, 1);
    assert_int_equal(half, 0xde81);
    uint64_t unsigned_tie = (UINT64_C(1) << 63) + (UINT64_C(1) << 55) + 1;
    mst_convert(MUSTER_BF16, &half, MUSTER_U64, &unsigned_tie, 1);
    assert_int_equal(half, 0x5f01);
    int32_t large = 65520;
    mst_convert(MUSTER_F16, &half, MUSTER_I32, &large, 1);
    assert_int_equal(half, 0x7c00);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_has_its_value),
        cmocka_unit_test(every_bf16_has_its_value),
        cmocka_unit_test(every_f16_survives_f32),
        cmocka_unit_test(every_bf16_survives_f32),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(the_ends_of_the_range),
        cmocka_unit_test(a_nan_with_a_low_payload_stays_a_nan),
#if defined(__FLT16_MANT_DIG__)
        cmocka_unit_test(the_compiler_rounds_alike),
#endif
        cmocka_unit_test(doubles_round_once),
        cmocka_unit_test(integers_round_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
