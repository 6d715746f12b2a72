/* Sines, cosines and their inverses of floats, computed in double in the way of
 * vector_math_private.h. */
#ifndef MST_VECTOR_ANGLES_PRIVATE_H
#define MST_VECTOR_ANGLES_PRIVATE_H

#include "two_over_pi_private.h"
#include "vector_math_private.h"

#include <math.h>
#include <stdbool.h>

/* The column of mst_two_over_pi for x: 0 below 2^25. */
MST_VECTOR_INLINE int32_t mst_angle_column(float x) {
    const int32_t exponent = (int32_t)(mst_vector_bits(x) >> 23 & 255) - 152, column = exponent < 0 ? 0 : exponent;
    const int32_t last = MST_TWO_OVER_PI_COUNT - 1;
    return column < last ? column : last;
}

/* Whether column 0 serves: below 2^25, and for infinities and NaN, which are NaN in every column. A
 * loop with a constant column is one that compilers vectorise. */
MST_VECTOR_INLINE bool mst_angle_is_near(float x) { return (mst_vector_bits(x) >> 23 & 255) - 152u > 254u - 152u; }

/* Any float x as an angle: x = (quarter + r) pi / 2, with r in [-1/2, 1/2]. The last bits of
 * *quarter count. r is NaN if x is infinite or NaN. */
MST_VECTOR_INLINE double mst_angle_parts(float x, int32_t i, uint64_t *quarter) {
    const double a = (double)x * mst_two_over_pi[0][i], b = (double)x * mst_two_over_pi[1][i], c = (double)x * mst_two_over_pi[2][i];
    const double shifted = (a + b) + 0x1.8p52;
    *quarter = mst_bits_of_f64(shifted);
    return ((a - (shifted - 0x1.8p52)) + b) + c;
}

MST_VECTOR_INLINE float mst_vector_sinf(float x, int32_t column) {
    uint64_t quarter;
    double cosine;
    const double r = mst_angle_parts(x, column, &quarter);
    return (float)mst_sine_of_quarters(r, quarter, &cosine);
}

MST_VECTOR_INLINE float mst_vector_cosf(float x, int32_t column) {
    uint64_t quarter;
    double cosine;
    const double r = mst_angle_parts(x, column, &quarter);
    (void)mst_sine_of_quarters(r, quarter, &cosine);
    return (float)cosine;
}

MST_VECTOR_INLINE float mst_vector_tanf(float x, int32_t column) {
    uint64_t quarter;
    double cosine;
    const double r = mst_angle_parts(x, column, &quarter), sine = mst_sine_of_quarters(r, quarter, &cosine);
    return (float)(sine / cosine);
}

/* atan of a number that is not negative, by that of a number t with |t| <= tan(pi / 8): atan(a) =
 * pi / 4 + atan((a - 1) / (a + 1)) = pi / 2 + atan(-1 / a). */
MST_VECTOR_INLINE double mst_atan_positive(double a) {
    const int middle = a > 0x1.a827999fcef32p-2, large = a > 0x1.3504f333f9de6p+1;
    const double above = large ? -1 : middle ? a - 1 : a, below = mst_vector_choose(large, a, middle ? a + 1 : 1);
    const double offset = large ? 0x1.921fb54442d18p+0 : middle ? 0x1.921fb54442d18p-1 : 0, t = above / below, z = t * t;
    const double q =
        0x1.fffffffffe685p-1 +
        z * (-0x1.5555554bf13c5p-2 +
             z * (0x1.9999907e2a593p-3 +
                  z * (-0x1.249098c010976p-3 +
                       z * (0x1.c6cd2606a7c35p-4 + z * (-0x1.705dec2535ecbp-4 + z * (0x1.1dcc1d8b18238p-4 + z * -0x1.34ea009fbbba4p-5))))));
    return offset + t * q;
}

/* The size of a number with the sign of another. */
MST_VECTOR_INLINE double mst_vector_with_sign(double size, double sign) {
    const uint64_t bit = (uint64_t)1 << 63;
    return mst_f64_of_bits((mst_bits_of_f64(size) & ~bit) | (mst_bits_of_f64(sign) & bit));
}

MST_VECTOR_INLINE double mst_vector_atan(double x) { return mst_vector_with_sign(mst_atan_positive(mst_vector_with_sign(x, 1)), x); }
MST_VECTOR_INLINE float mst_vector_atanf(float x) { return (float)mst_vector_atan((double)x); }

/* 2^-800, in place of 0 below a quotient whose angle is pi / 2: a division by 0 would raise an
 * exception. The compiler does not see the number, as with mst_exp_most. */
extern const double mst_least_divisor __attribute__((visibility("hidden")));

/* asin(x) = atan(x / sqrt(1 - x^2)), acos(x) = 2 atan(sqrt((1 - x) / (1 + x))). The differences are
 * exact; roots of negative numbers are NaN. In place of 0 a divisor is so small that the angle of
 * the quotient is pi / 2: a division by 0 would raise an exception. */
MST_VECTOR_INLINE float mst_vector_asinf(float x) {
    const double v = (double)x;
    const double square = (1 - v) * (1 + v);
    return (float)mst_vector_atan(v / sqrt(mst_vector_choose(square == 0, mst_least_divisor, square)));
}
MST_VECTOR_INLINE float mst_vector_acosf(float x) {
    const double v = (double)x;
    const double sum = 1 + v;
    return (float)(2 * mst_atan_positive(sqrt((1 - v) / mst_vector_choose(sum == 0, mst_least_divisor, sum))));
}

/* The angle of the point (x, y), with the special cases of C11, F.10.1.4. */
MST_VECTOR_INLINE float mst_vector_atan2f(float y, float x) {
    const double ay = mst_vector_with_sign((double)y, 1), ax = mst_vector_with_sign((double)x, 1);
    const double quotient = ay / mst_vector_choose(ax == 0, mst_least_divisor, ax);
    const double infinity = mst_f64_of_bits(0x7ff0000000000000u);
    const double slope = ((ax == infinity) & (ay == infinity)) ? 1 : quotient, checked = ay == 0 ? 0 : slope;
    const double angle = mst_atan_positive(checked), turned = mst_bits_of_f64((double)x) >> 63 ? 0x1.921fb54442d18p+1 - angle : angle;
    const double result = mst_vector_with_sign(turned, (double)y);
    return ((x == x) & (y == y)) ? (float)result : x + y;
}

#endif
