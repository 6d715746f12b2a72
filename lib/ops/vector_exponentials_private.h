/* Functions of floats that follow from exp and log, computed in double in the way of
 * vector_math_private.h. */
#ifndef MST_VECTOR_EXPONENTIALS_PRIVATE_H
#define MST_VECTOR_EXPONENTIALS_PRIVATE_H

#include "vector_angles_private.h"
#include "vector_math_private.h"

/* exp(x) - 1. The power of two is 1 where the difference is small. */
MST_VECTOR_INLINE double mst_vector_expm1(double x) {
    double scale;
    const double p = mst_exp_parts(mst_exp_bounded(x), &scale);
    return x == 0 ? x : (scale - 1) + scale * p;
}

MST_VECTOR_INLINE float mst_vector_expm1f(float x) { return (float)mst_vector_expm1((double)x); }
MST_VECTOR_INLINE float mst_vector_exp2f(float x) { return (float)mst_vector_exp((double)x * 0x1.62e42fefa39efp-1); }

/* sinh(a) = (e + e / (e + 1)) / 2 with e = exp(a) - 1, for a = |x|. */
MST_VECTOR_INLINE float mst_vector_sinhf(float x) {
    const double e = mst_vector_expm1(mst_vector_with_sign((double)x, 1));
    return (float)mst_vector_with_sign(0.5 * (e + e / (e + 1)), (double)x);
}
MST_VECTOR_INLINE float mst_vector_coshf(float x) {
    const double e = mst_vector_exp(mst_vector_with_sign((double)x, 1));
    return (float)(0.5 * (e + 1 / e));
}

/* The special cases of a logarithm whose value for x in (0, inf) is given. */
MST_VECTOR_INLINE float mst_log_checked(float x, double value) {
    const float infinity = mst_vector_of_bits(0x7f800000u);
    const float special = x == 0 ? -infinity : x < 0 ? mst_vector_of_bits(0x7fc00000u) : x;
    return ((x > 0) & (x < infinity)) ? (float)value : special;
}
MST_VECTOR_INLINE float mst_vector_log2f(float x) {
    double e;
    const double log_of_m = mst_log_parts((double)x, &e);
    return mst_log_checked(x, e + log_of_m * 0x1.71547652b82fep+0);
}
MST_VECTOR_INLINE float mst_vector_log10f(float x) {
    double e;
    const double log_of_m = mst_log_parts((double)x, &e);
    return mst_log_checked(x, e * 0x1.34413509f79ffp-2 + log_of_m * 0x1.bcb7b1526e50ep-2);
}
/* log(1 + x) = log(u) + (x - (u - 1)) / u, with u = 1 + x rounded. */
MST_VECTOR_INLINE float mst_vector_log1pf(float x) {
    const float infinity = mst_vector_of_bits(0x7f800000u);
    const double u = 1 + (double)x, value = mst_vector_log_positive(u) + ((double)x - (u - 1)) / u;
    const float special = x == -1 ? -infinity : x < -1 ? mst_vector_of_bits(0x7fc00000u) : x;
    return ((x > -1) & (x < infinity) & (x != 0)) ? (float)value : special;
}

/* 1 - erf(a) = scale (1 + p), for a in [0, 10.4]. -log(1 - erf(a)) = a^2 + a q with a polynomial q
 * of a / (a + 4). */
MST_VECTOR_INLINE double mst_erfc_parts(double a, double *scale) {
    const double t = a / (a + 4);
    const double low =
        0x1.20dd75157849ap+0 +
        t * (-0x1.741a0424aca2fp+0 +
             t * (0x1.86ef6d9112cbap-3 + t * (0x1.387561c40ceebp-1 + t * (-0x1.ef797fb02490ep-3 + t * -0x1.69a72a978ad58p-1))));
    const double high =
        0x1.71f7f6661eadcp-3 +
        t * (0x1.7b2fa7f1a9feap+0 +
             t * (-0x1.bbb5c102a7d31p+0 + t * (0x1.471ee812b32a0p-3 + t * (0x1.95365df0f33ecp-1 + t * -0x1.96146d65a74f8p-2))));
    const double t2 = t * t;
    return mst_exp_parts(-(a * a + a * (low + t2 * t2 * t2 * high)), scale);
}

MST_VECTOR_INLINE float mst_vector_erff(float x) {
    const double size = mst_vector_with_sign((double)x, 1), a = size > 5 ? 5 : size;
    double scale;
    const double p = mst_erfc_parts(a, &scale);
    return (float)mst_vector_with_sign((1 - scale) - scale * p, (double)x);
}

/* The normal distribution below -y, for y in [0, 14.5], without its factor exp(-y^2 / 2): a
 * polynomial of y / (y + 4). It and the exponential do not wait for each other. */
MST_VECTOR_INLINE double mst_normal_tail(double y) {
    const double t = y / (y + 4), t2 = t * t, t4 = t2 * t2;
    const double low = (0x1.0000000129cc6p-1 + t * -0x1.988453ca45f0fp+0) + t2 * (0x1.33bde1cc08117p+1 + t * -0x1.0da3c00ece7b0p+1);
    const double middle = (0x1.be83c63b6c494p-1 + t * 0x1.abe1f9114fabep-4) + t2 * (-0x1.aa558ec5c415fp-3 + t * -0x1.5364c38851d78p-6);
    const double high = (0x1.14f93ef18a3a6p-5 + t * 0x1.faf69935dee9dp-5) + t2 * (-0x1.f54a820ab866dp-5 + t * 0x1.04d59d081c1e5p-6);
    return low + t4 * (middle + t4 * high);
}

/* x (1 + erf(x / sqrt(2))) / 2. Below -14.5 the result is -0 in float. */
MST_VECTOR_INLINE float mst_vector_geluf(float x) {
    const double given = (double)x, v = given < -14.5 ? -14.5 : given, size = mst_vector_with_sign(v, 1), y = size > 14.5 ? 14.5 : size;
    double scale;
    const double p = mst_exp_parts(-0.5 * (y * y), &scale), below = (scale + scale * p) * mst_normal_tail(y);
    return (float)(v * (v > 0 ? 1 - below : below));
}

/* 15, unseen by the compiler like mst_exp_most. */
extern const float mst_gelu_most __attribute__((visibility("hidden")));

/* The derivative of gelu, P(x) + x p(x) with P the normal distribution and p its density, in float:
 * within 4 units in the last place of the larger of the two terms. In double it would take twice as
 * long. For x < 0 it is exp(-y^2 / 2) (tail - y / sqrt(2 pi)) with y = -x, and for x > 0 it is 1
 * less that of y = x. y^2 is the exact square of the first 12 bits of y, and a rest. 2^64 times the
 * power of two is a normal number where that itself is not. */
MST_VECTOR_INLINE float mst_vector_gelu_derivativef(float x) {
    const float size = mst_vector_of_bits(mst_vector_bits(x) & 0x7fffffffu), y = size > mst_gelu_most ? mst_gelu_most : size;
    const float first = mst_vector_of_bits(mst_vector_bits(y) & 0xfffff000u), square = first * first, rest = (y - first) * (y + first);
    const float shifted = square * -0x1.715476p-1f + 0x1.8p23f, k = shifted - 0x1.8p23f;
    const float r = ((-0.5f * square - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f) - 0.5f * rest; /* log(2) in two parts */
    const float q = 0x1p-1f + r * (0x1.55548ep-3f + r * (0x1.55545ep-5f + r * (0x1.123bdp-7f + r * 0x1.6db4cep-10f)));
    const float scale = mst_vector_of_bits((mst_vector_bits(shifted) << 23) + 0x5f800000u), e = scale + scale * (r + r * r * q);
    const float t = y / (y + 3);
    const float tail =
        0x1p-1f + t * (-0x1.32633cp+0f +
                       t * (0x1.0d9baap+0f +
                            t * (-0x1.25dd2ap-2f +
                                 t * (-0x1.45194ep-3f +
                                      t * (0x1.fd3068p-5f +
                                           t * (0x1.2f506cp-7f + t * (0x1.573efap-4f + t * (-0x1.7d1846p-4f + t * 0x1.bdf3d2p-6f))))))));
    const float below = e * (tail - y * 0x1.988454p-2f) * 0x1p-64f;
    return x > 0 ? 1 - below : below;
}

/* x / (1 + exp(-x)). */
MST_VECTOR_INLINE float mst_vector_siluf(float x) {
    const double v = x < -150 ? -150 : (double)x;
    return (float)(v * mst_vector_sigmoid(v));
}

#endif
