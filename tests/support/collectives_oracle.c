#include "collectives_oracle.h"

#include "dtype_impl.h"

#include <math.h>
#include <string.h>

/* ---- what is defined ---- */

/* sum, prod, max, min, avg */
static const char defined[][6] = {
    [MUSTER_F16] = "yyyyy", [MUSTER_BF16] = "yyyyy", [MUSTER_F32] = "yyyyy", [MUSTER_F64] = "yyyyy",
    [MUSTER_I8] = "yyyy-",  [MUSTER_U8] = "yyyy-",   [MUSTER_I16] = "yyyy-", [MUSTER_I32] = "yyyy-",
    [MUSTER_I64] = "yyyy-", [MUSTER_U32] = "yyyy-",  [MUSTER_U64] = "yyyy-", [MUSTER_BOOL] = "-yyy-",
};
_Static_assert(sizeof defined / sizeof *defined == MST_DTYPE_COUNT, "a line for each dtype");

bool oracle_defines(muster_reduction op, muster_dtype dtype) { return defined[dtype][op - MUSTER_SUM] == 'y'; }

/* ---- inputs ---- */

/* splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
 * 2014). */
static uint64_t random_bits(uint64_t which, int64_t i) {
    uint64_t z = (which + 1) * 0xd1342543de82ef95u + (uint64_t)i * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Sign, one of two exponents, and a fraction. */
static uint64_t float_bits(uint64_t bits, int exponent_bits, int fraction_bits) {
    uint64_t half = (1ull << (exponent_bits - 1)) - 2, fraction = bits & ((1ull << fraction_bits) - 1);
    return (bits >> 63) << (exponent_bits + fraction_bits) | (half + (bits >> 62 & 1)) << fraction_bits | fraction;
}

static uint64_t element_bits(muster_dtype dtype, uint64_t which, int64_t i) {
    uint64_t bits = random_bits(which, i);
    switch (dtype) {
    case MUSTER_F16:
        return float_bits(bits, 5, 10);
    case MUSTER_BF16:
        return float_bits(bits, 8, 7);
    case MUSTER_F32:
        return float_bits(bits, 8, 23);
    case MUSTER_F64:
        return float_bits(bits, 11, 52);
    /* so that both "and" and "or" over many ranks give both values */
    case MUSTER_BOOL:
        return (bits >> 32) % 8 < (i % 2 ? 7u : 1u);
    default:
        return i % 4 ? bits | 1 : bits; /* products of odd numbers do not vanish */
    }
}

void oracle_fill(muster_dtype dtype, void *vector, int64_t count, uint64_t which) {
    size_t element = (size_t)muster_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = element_bits(dtype, which, i);
        memcpy((char *)vector + (size_t)i * element, &bits, element); /* little endian */
    }
}

/* ---- whole numbers ---- */

static bool is_signed(muster_dtype dtype) { return dtype == MUSTER_I8 || (dtype >= MUSTER_I16 && dtype <= MUSTER_I64); }

static int64_t whole_value(muster_dtype dtype, const void *vector, int64_t i) {
    size_t element = (size_t)muster_dtype_size(dtype);
    int64_t value = 0;
    memcpy(&value, (const char *)vector + (size_t)i * element, element);
    int unused = 64 - 8 * (int)element;
    return is_signed(dtype) ? (int64_t)((uint64_t)value << unused) >> unused : value;
}

static int64_t whole_combine(muster_reduction op, bool is_unsigned, int64_t a, int64_t v) {
    bool larger = is_unsigned ? (uint64_t)v > (uint64_t)a : v > a;
    switch (op) {
    case MUSTER_SUM:
        return (int64_t)((uint64_t)a + (uint64_t)v);
    case MUSTER_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)v);
    case MUSTER_MAX:
        return larger ? v : a;
    default:
        return larger ? a : v;
    }
}

void oracle_whole(muster_reduction op, muster_dtype dtype, void *const *vectors, int32_t size, void *expected, int64_t count) {
    size_t element = (size_t)muster_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t result = whole_value(dtype, vectors[0], i);
        for (int32_t r = 1; r < size; r++) result = whole_combine(op, !is_signed(dtype), result, whole_value(dtype, vectors[r], i));
        memcpy((char *)expected + (size_t)i * element, &result, element);
    }
}

/* ---- floats ---- */

static double half_value(uint16_t bits, int exponent_bits) {
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1), fraction = bits & ((1 << fraction_bits) - 1);
    double size =
        exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits) : ldexp(fraction, 1 - bias - fraction_bits);
    if (exponent == (1 << exponent_bits) - 1) size = fraction ? NAN : INFINITY;
    return bits >> 15 ? -size : size;
}

double oracle_value(muster_dtype dtype, const void *vector, int64_t i) {
    switch (dtype) {
    case MUSTER_F16:
        return half_value(((const uint16_t *)vector)[i], 5);
    case MUSTER_BF16:
        return half_value(((const uint16_t *)vector)[i], 8);
    case MUSTER_F32:
        return (double)((const float *)vector)[i];
    default:
        return ((const double *)vector)[i];
    }
}

static double float_combine(muster_reduction op, double a, double v) {
    switch (op) {
    case MUSTER_PROD:
        return a * v;
    case MUSTER_MAX:
        return v > a ? v : a;
    case MUSTER_MIN:
        return v < a ? v : a;
    default:
        return a + v;
    }
}

/* Of a number that is stored, relative to it; of what is computed, relative to the largest number
 * in it. */
static double stored_rounding(muster_dtype dtype) { return dtype == MUSTER_F16 ? 0x1p-11 : dtype == MUSTER_BF16 ? 0x1p-8 : 0; }
static double computed_rounding(muster_dtype dtype) { return dtype == MUSTER_F64 ? 1e-13 : 1e-5; }

int64_t oracle_float(muster_reduction op, muster_dtype dtype, void *const *vectors, int32_t size, const void *parameter, double alpha,
                     const void *received, int64_t count) {
    double rounding = stored_rounding(dtype), arithmetic = computed_rounding(dtype);
    if (op == MUSTER_MAX || op == MUSTER_MIN) rounding = arithmetic = 0;
    for (int64_t i = 0; i < count; i++) {
        double wanted = oracle_value(dtype, vectors[0], i);
        for (int32_t r = 1; r < size; r++) wanted = float_combine(op, wanted, oracle_value(dtype, vectors[r], i));
        if (op == MUSTER_AVG) wanted /= size;
        if (parameter) wanted = oracle_value(dtype, parameter, i) + alpha * wanted;
        double largest = op == MUSTER_PROD ? fabs(wanted) : op == MUSTER_SUM ? 2.0 * size + 2 : 2.0;
        double error = fabs(oracle_value(dtype, received, i) - wanted);
        if (!(error <= rounding * fabs(wanted) + arithmetic * largest)) return i;
    }
    return -1;
}

int64_t oracle_momentum(muster_dtype dtype, void *const *vectors, int32_t size, const void *parameter, const oracle_steps *steps,
                        const void *received, int64_t count) {
    double rounding = stored_rounding(dtype), arithmetic = computed_rounding(dtype) * (2.0 * size + 2) * steps->steps;
    for (int64_t i = 0; i < count; i++) {
        /* how far they may be off */
        double sum = 0, velocity = 0, wanted = oracle_value(dtype, parameter, i), of_velocity = 0, of_wanted = 0;
        for (int32_t r = 0; r < size; r++) sum += oracle_value(dtype, vectors[r], i);
        for (int32_t s = 0; s < steps->steps; s++) {
            velocity = steps->beta * velocity + steps->alpha * sum;
            of_velocity = fabs(steps->beta) * of_velocity + rounding * fabs(velocity);
            wanted += velocity;
            of_wanted += of_velocity + rounding * (fabs(wanted) + of_wanted + of_velocity);
        }
        if (!(fabs(oracle_value(dtype, received, i) - wanted) <= of_wanted + arithmetic)) return i;
    }
    return -1;
}
