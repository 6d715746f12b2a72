/* Powers of float values, computed in double without branches, so that the compiler vectorises the
 * loops that use them. */
#ifndef MST_POWER_PRIVATE_H
#define MST_POWER_PRIVATE_H

#include "../vector_math_private.h"

#include <math.h>

/* x to the power y = exp(y log |x|), within 1 ulp, with the sign of x where y is an odd number. The
 * special cases are those of pow in C11, F.10.4.4. */
MST_VECTOR_INLINE float mst_vector_powf(float x, float y) {
    const float infinity = mst_vector_of_bits(0x7f800000u), nan = mst_vector_of_bits(0x7fc00000u);
    const uint32_t sign = mst_vector_bits(x) & 0x80000000u;
    const float a = mst_vector_of_bits(mst_vector_bits(x) ^ sign), half = 0.5f * y, sum = x + y;
    const double wide = a, of_number = mst_vector_log_positive(wide),
                 of_edge = wide == 0 ? -0x1p200 : wide; /* times any y but 0 beyond all bounds, and finite */
    double scale;
    const double logarithm = ((wide > 0) & (wide < (double)infinity)) ? of_number : of_edge;
    const double p = mst_exp_parts(mst_exp_bounded((double)y * logarithm), &scale);
    const float size = a == 1 ? 1 : (float)(scale + scale * p), odd = mst_vector_of_bits(mst_vector_bits(size) | sign);
    const float integer_power = rintf(half) == half ? size : odd, broken = ((x < 0) & (a < infinity)) ? nan : size;
    const float power = rintf(y) == y ? integer_power : broken, checked = ((x == x) & (y == y)) ? power : sum;
    return ((x == 1) | (y == 0)) ? 1 : checked;
}

#endif
