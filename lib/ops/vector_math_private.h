/* exp, log, the sine and what follows from them, of float values, mostly computed in double without
 * branches or calls, so that the compiler vectorises the loops that use them. Each differs from the
 * exact value by less than 2^-30 of it, so a result rounded to float is within 1 ulp (tanh: 2 ulp).
 * The polynomials are weighted least squares fits, of which the largest error was made small by
 * reweighting (Lawson). Double holds every result of float before it overflows or becomes
 * subnormal, so conversion to float does the rest. Host code and device code use this file. */
#ifndef MST_VECTOR_MATH_PRIVATE_H
#define MST_VECTOR_MATH_PRIVATE_H

#include <stdint.h>
#include <string.h>

/* A function with clones for several instruction sets inlines into each. */
#if defined(__CUDACC_RTC__)
#define MST_VECTOR_INLINE static inline
#else
#define MST_VECTOR_INLINE static inline __attribute__((always_inline))
#endif

MST_VECTOR_INLINE uint64_t mst_bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

MST_VECTOR_INLINE double mst_f64_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 0. The compiler does not see the number, as with mst_exp_most. */
#ifdef __CUDACC_RTC__
static constexpr uint64_t mst_no_bits = 0;
#else
extern const uint64_t mst_no_bits __attribute__((visibility("hidden")));
#endif

/* yes ? a : b, of divisors. By their bits: of a plain choice the compiler would divide by both and
 * choose between the quotients, and a division by 0 that is not chosen raises an exception. GCC 14
 * makes such a choice of a mask, too, where it sees that the mask is made of a condition. */
MST_VECTOR_INLINE double mst_vector_choose(int yes, double a, double b) {
    const uint64_t mask = -(uint64_t)(yes != 0) ^ mst_no_bits;
    return mst_f64_of_bits((mst_bits_of_f64(a) & mask) | (mst_bits_of_f64(b) & ~mask));
}

/* exp(x) = 2^k (1 + p), with x = k log(2) + r and p = exp(r) - 1. Adding 1.5 * 2^52 rounds to an
 * integer, which is then in the low bits of the sum. *scale becomes 2^k. x is in [-700, 700]. */
MST_VECTOR_INLINE double mst_exp_parts(double x, double *scale) {
    const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52, k = shifted - 0x1.8p52;
    const double r = (x - k * 0x1.62e42fefa39efp-1) - k * 0x1.abc9e3b39803fp-56;
    const double q =
        0x1.00000027abb54p-1 +
        r * (0x1.55555588e9746p-3 +
             r * (0x1.5554ae2baa4d0p-5 + r * (0x1.11108fbd1316ap-7 + r * (0x1.6d744361b1e93p-10 + r * 0x1.a1a13a35dc73bp-13))));
    *scale = mst_f64_of_bits((mst_bits_of_f64(shifted) << 52) + 0x3ff0000000000000u);
    return r + r * r * q;
}

/* -160 and 160. The compiler does not see the numbers: it would compute what follows for each of
 * them beforehand, for x without bounds otherwise, and select afterwards. That raises floating-
 * point exceptions for finite operands, which a program may trap. */
#ifdef __CUDACC_RTC__ /* device code has no exceptions, and no symbols of the library */
static constexpr double mst_exp_least = -160, mst_exp_most = 160;
#else
extern const double mst_exp_least __attribute__((visibility("hidden"))), mst_exp_most __attribute__((visibility("hidden")));
#endif

/* Beyond these bounds a float result is infinite or 0. NaN stays NaN. */
MST_VECTOR_INLINE double mst_exp_bounded(double x) {
    x = x < mst_exp_least ? mst_exp_least : x;
    return x > mst_exp_most ? mst_exp_most : x;
}

MST_VECTOR_INLINE double mst_vector_exp(double x) {
    double scale;
    const double p = mst_exp_parts(mst_exp_bounded(x), &scale);
    return scale + scale * p;
}

/* log(m) of a positive normal number m 2^e with m in [sqrt(1/2), sqrt(2)), and e. The exponent is
 * made a double by its bits, since not every processor converts vectors of 64-bit integers. */
MST_VECTOR_INLINE double mst_log_parts(double x, double *exponent) {
    const uint64_t bits = mst_bits_of_f64(x), above = bits - 0x3fe6a09e667f3bcdu + ((uint64_t)1024 << 52);
    *exponent = mst_f64_of_bits((above >> 52) | 0x4330000000000000u) - (0x1p52 + 1024);
    const double f = mst_f64_of_bits(bits - ((above & 0xfff0000000000000u) - ((uint64_t)1024 << 52))) - 1;
    const double low =
        -0x1.fffffffebd1dap-2 +
        f * (0x1.5555556234570p-2 +
             f * (-0x1.00000182ef278p-2 + f * (0x1.99998c0246160p-3 + f * (-0x1.555455c7fcd09p-3 + f * 0x1.24943ba02bcfcp-3))));
    const double high =
        -0x1.00243791ab199p-3 +
        f * (0x1.c7014459a22c9p-4 +
             f * (-0x1.94a3f9310b00bp-4 +
                  f * (0x1.70b6a56f9d2abp-4 + f * (-0x1.7d0ed713012a2p-4 + f * (0x1.7c46d03bcead3p-4 + f * -0x1.97c9230ce28c6p-5)))));
    const double f2 = f * f, f6 = f2 * f2 * f2;
    return f + f2 * (low + f6 * high);
}

MST_VECTOR_INLINE double mst_vector_log_positive(double x) {
    double e;
    const double log_of_m = mst_log_parts(x, &e);
    return e * 0x1.62e42fefa39efp-1 + log_of_m;
}

MST_VECTOR_INLINE uint32_t mst_vector_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

MST_VECTOR_INLINE float mst_vector_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* log in float, within 1 ulp: log(m) + e log(2), with m in [sqrt(1/2), sqrt(2)) and f = m - 1.
 * Subnormal numbers are scaled first. -inf at 0, NaN below 0, inf at inf. */
MST_VECTOR_INLINE float mst_vector_logf(float x) {
    const float infinity = mst_vector_of_bits(0x7f800000u);
    const int subnormal = x < 0x1p-126f;
    const float scaled = subnormal ? x * 0x1p23f : x;
    const uint32_t bits = mst_vector_bits(scaled), above = bits - 0x3f3504f3u;
    const int32_t k = (int32_t)above >> 23;
    const float e = (float)(k - (subnormal ? 23 : 0)), f = mst_vector_of_bits(bits - ((uint32_t)k << 23)) - 1, f2 = f * f;
    const float p =
        0x1.555546p-2f +
        f * (-0x1.ffffeep-3f +
             f * (0x1.99a53cp-3f + f * (-0x1.5562dap-3f +
                                        f * (0x1.23335ep-3f + f * (-0x1.fb44c8p-4f +
                                                                   f * (0x1.e64a08p-4f + f * (-0x1.e2decep-4f + f * (0x1.1b43c2p-4f))))))));
    /* log(2) in two parts: an exponent times the first is exact */
    const float rest = f2 * (f * p - 0.5f) + e * -0x1.bd0106p-13f;
    const float value = (f + rest) + e * 0x1.63p-1f;
    const float special = x == 0 ? -infinity : x < 0 ? mst_vector_of_bits(0x7fc00000u) : x;
    return ((x > 0) & (x < infinity)) ? value : special;
}

/* tanh in float, within 2 ulp; in double it would take twice as long. Below 0.625 an odd
 * polynomial, above it 1 - 2 / (exp(2 |x|) + 1), where the error of exp counts less than half. */
MST_VECTOR_INLINE float mst_vector_tanhf(float x) {
    const uint32_t sign = mst_vector_bits(x) & 0x80000000u;
    const float all = mst_vector_of_bits(mst_vector_bits(x) ^ sign), a = all > 10 ? 10 : all, z = a * a, y = 2 * a;
    const float small =
        a + a * (z * (-0x1.555534p-2f + z * (0x1.110788p-3f + z * (-0x1.b84782p-5f + z * (0x1.5268b2p-6f + z * -0x1.76f19ap-8f)))));
    const float shifted = y * 0x1.715476p+0f + 0x1.8p23f, k = shifted - 0x1.8p23f;
    const float r = (y - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f; /* log(2) in two parts; k times the first is exact */
    const float q = 0x1p-1f + r * (0x1.55548ep-3f + r * (0x1.55545ep-5f + r * (0x1.123bdp-7f + r * 0x1.6db4cep-10f)));
    const float scale = mst_vector_of_bits((mst_vector_bits(shifted) << 23) + 0x3f800000u), e = scale + scale * (r + r * r * q);
    const float large = 1 - 2 / (e + 1);
    return mst_vector_of_bits(mst_vector_bits(a < 0.625f ? small : large) | sign);
}

/* The bounds of mst_vector_expf, as mst_exp_least. */
#ifdef __CUDACC_RTC__
static constexpr float mst_expf_least = -104, mst_expf_most = 89;
#else
extern const float mst_expf_least __attribute__((visibility("hidden"))), mst_expf_most __attribute__((visibility("hidden")));
#endif

/* exp in float, within 2 ulp; in double it would take twice as long. 2^k is two factors: results
 * may be subnormal, or infinite. */
MST_VECTOR_INLINE float mst_vector_expf(float x) {
    x = x < mst_expf_least ? mst_expf_least : x;
    x = x > mst_expf_most ? mst_expf_most : x;
    const float shifted = x * 0x1.715476p+0f + 0x1.8p23f, k = shifted - 0x1.8p23f;
    const float r = (x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f; /* log(2) in two parts; k times the first is exact */
    const float q = 0x1p-1f + r * (0x1.55548ep-3f + r * (0x1.55545ep-5f + r * (0x1.123bdp-7f + r * 0x1.6db4cep-10f)));
    const int32_t exponent = (int32_t)(mst_vector_bits(shifted) - 0x4b400000u), half = exponent >> 1;
    const float first = mst_vector_of_bits((uint32_t)(half + 127) << 23),
                second = mst_vector_of_bits((uint32_t)(exponent - half + 127) << 23);
    return (first + first * (r + r * r * q)) * second;
}

/* 1 / (1 + exp(-x)). */
MST_VECTOR_INLINE double mst_vector_sigmoid(double x) { return 1 / (1 + mst_vector_exp(-x)); }

/* log(1 + exp(x)) = max(x, 0) + log(1 + e), e = exp(-|x|). log(1 + e) is e - e^2 / 2 where 1 + e
 * would lose the bits of e. */
MST_VECTOR_INLINE double mst_vector_softplus(double x) {
    const double e = mst_vector_exp(x < 0 ? x : -x), small = e - 0.5 * e * e;
    const double log_of_sum = e < 0x1p-16 ? small : mst_vector_log_positive(1 + e);
    return (x > 0 ? x : 0) + (x == x ? log_of_sum : x);
}

/* The sine and cosine of (quarter + r) pi / 2, with r in [-1/2, 1/2]. */
MST_VECTOR_INLINE double mst_sine_of_quarters(double r, uint64_t quarter, double *cosine) {
    const double z = r * r;
    const double s =
        r * (0x1.921fb5429b3ccp+0 +
             z * (-0x1.4abbce585b9bbp-1 +
                  z * (0x1.466c82e5358f2p-4 + z * (-0x1.339e35ae51596p-8 + z * (0x1.dde59c9d16891p-13 + z * -0x1.053bb73af4194p-13)))));
    const double c =
        0x1.ffffffffffe14p-1 +
        z * (-0x1.3bd3cc9bd2c52p+0 +
             z * (0x1.03c1f074dddfdp-2 + z * (-0x1.55d3ba2e6d3a2p-6 + z * (0x1.e1e7cb6572fe8p-11 + z * -0x1.a0edb49b6f6fdp-16))));
    /* quarters 0 to 3: (s, c), (c, -s), (-s, -c), (-c, s) */
    const uint64_t odd = 0 - (quarter & 1), s_bits = mst_bits_of_f64(s), c_bits = mst_bits_of_f64(c);
    const uint64_t sine = (s_bits & ~odd) | (c_bits & odd), other = (c_bits & ~odd) | (s_bits & odd);
    *cosine = mst_f64_of_bits(other ^ ((quarter + 1) >> 1 & 1) << 63);
    return mst_f64_of_bits(sine ^ (quarter >> 1 & 1) << 63);
}

/* The sine and cosine of an angle in revolutions, in [0, 1). */
MST_VECTOR_INLINE double mst_vector_sine(double revolutions, double *cosine) {
    const double shifted = 4 * revolutions + 0x1.8p52;
    return mst_sine_of_quarters(4 * revolutions - (shifted - 0x1.8p52), mst_bits_of_f64(shifted), cosine);
}

#endif
