/* Division of floats as in Python and NumPy: floor(a / b), and the remainder that has the sign of
 * b. fmod is exact, so a quotient that a / b would round up to an integer, as 1 / 0.1, is not. */
#ifndef MST_DIVISION_IMPL_H
#define MST_DIVISION_IMPL_H

#include <math.h>

static inline double mst_floor_quotient(double a, double b) {
    if (b == 0) return a / b;
    const double rest = fmod(a, b), truncated = rint((a - rest) / b);
    const double quotient = rest != 0 && (rest < 0) != (b < 0) ? truncated - 1 : truncated;
    return quotient == 0 ? copysign(0, a / b) : quotient;
}

static inline double mst_floor_remainder(double a, double b) {
    const double rest = fmod(a, b);
    if (rest == 0) return copysign(0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

#endif
