/* The exponential function of numbers up to 0, and what layers make of it, of float, without
 * branches or calls: the compiler vectorises the loops that use them. Those of lib/ops compute in
 * double, so that they are closer, and take twice as long. */
#ifndef MST_EXPONENTIAL_PRIVATE_H
#define MST_EXPONENTIAL_PRIVATE_H

#include "op_impl.h"

#include <stdint.h>
#include <string.h>

/* exp(x) = 2^n exp(r) for x <= 0, where x = n log(2) + r, and the last is a sum of terms r^i / i!.
 * Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum. What would
 * become subnormal is 0. NaN stays NaN. Within 2 ulp. */
static MST_ALWAYS_INLINE float mst_exponential_f32(float x) {
    const float bounded = x < -87 ? -87 : x, shifted = bounded * 0x1.715476p+0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const float r = (bounded - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    const float sum = 1 + r * (1 + r * (1.f / 2 + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720 + r * (1.f / 5040)))))));
    uint32_t bits;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87 ? 0 : scale * sum;
}

/* 1 / (1 + exp(-x)), from exp(-|x|), which does not overflow. Below -87 it is 0. */
static MST_ALWAYS_INLINE float mst_sigmoid_f32(float x) {
    const float e = mst_exponential_f32(x > 0 ? -x : x), large = 1 / (1 + e);
    return x > 0 ? large : e * large;
}

/* (1 - e) / (1 + e) with e = exp(-2 |x|); near 0, where that loses digits, an odd polynomial. */
static MST_ALWAYS_INLINE float mst_tanh_f32(float x) {
    const float a = x < 0 ? -x : x, z = x * x, e = mst_exponential_f32(-2 * a), large = (1 - e) / (1 + e);
    const float small =
        x + x * (z * (-0x1.555534p-2f + z * (0x1.110788p-3f + z * (-0x1.b84782p-5f + z * (0x1.5268b2p-6f + z * -0x1.76f19ap-8f)))));
    return a < 0.625f ? small : x < 0 ? -large : large;
}

#endif
