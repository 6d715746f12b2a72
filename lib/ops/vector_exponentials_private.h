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
    return (x > 0) & (x < infinity) ? (float)value : special;
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
    return (x > -1) & (x < infinity) & (x != 0) ? (float)value : special;
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

/* x (1 + erf(x / sqrt(2))) / 2. Below -14.5 the result is -0 in float. */
MST_VECTOR_INLINE float mst_vector_geluf(float x) {
    const double v = x < -14.5f ? -14.5 : (double)x, size = mst_vector_with_sign(v, 1) * 0x1.6a09e667f3bcdp-1;
    double scale;
    const double p = mst_erfc_parts(size > 10.4 ? 10.4 : size, &scale), half_erfc = 0.5 * (scale + scale * p);
    return (float)(v * (x > 0 ? 1 - half_erfc : half_erfc));
}

/* x / (1 + exp(-x)). */
MST_VECTOR_INLINE float mst_vector_siluf(float x) {
    const double v = x < -150 ? -150 : (double)x;
    return (float)(v * mst_vector_sigmoid(v));
}

#endif
