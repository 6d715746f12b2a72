/* f16 and bf16 as inline bit arithmetic without branches, so that compilers can vectorise it.
 * Rounds to nearest, ties to even. A NaN stays a NaN, becomes quiet and keeps the upper bits of its
 * payload, as with the processors' own instructions. */
#ifndef MST_HALF_IMPL_H
#define MST_HALF_IMPL_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mst_bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float mst_f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* After F. Giesen, "half_to_float_fast5" and "float_to_half_fast3_rtne" (public domain). One float
 * addition renormalises subnormals. It rounds correctly, and flush-to-zero modes do not change its
 * result. */
static inline float mst_f16_to_f32(uint16_t half) {
    const uint32_t smallest_normal = 113u << 23;
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t normal = magnitude + (112u << 23);
    uint32_t subnormal = mst_bits_of_f32(mst_f32_of_bits(magnitude + smallest_normal) - mst_f32_of_bits(smallest_normal));
    uint32_t special = magnitude | (255u << 23) | (magnitude > (31u << 23) ? 0x00400000u : 0u);
    uint32_t result = magnitude < (1u << 23) ? subnormal : magnitude >= (31u << 23) ? special : normal;
    return mst_f32_of_bits(sign | result);
}

static inline uint16_t mst_f32_to_f16(float value) {
    const uint32_t infinity = 255u << 23, overflow = 143u << 23, smallest_normal = 113u << 23, subnormal_magic = 126u << 23;
    uint32_t bits = mst_bits_of_f32(value);
    uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
    uint32_t special = magnitude > infinity ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
    uint32_t subnormal =
        mst_bits_of_f32(mst_f32_of_bits(magnitude < smallest_normal ? magnitude : 0) + mst_f32_of_bits(subnormal_magic)) - subnormal_magic;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t result = magnitude >= overflow ? special : magnitude < smallest_normal ? subnormal : normal;
    return (uint16_t)(result | sign >> 16);
}

static inline float mst_bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    return mst_f32_of_bits(bits | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0u));
}

static inline uint16_t mst_f32_to_bf16(float value) {
    uint32_t bits = mst_bits_of_f32(value);
    uint32_t quiet = (bits >> 16) | 0x40u;
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* Rounding twice gives the nearest value if the first rounding is to odd and keeps at least two
 * more bits than the second (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums",
 * 2008). */
static inline float mst_f64_to_f32_odd(double value) {
    float rounded = (float)value;
    uint32_t bits = mst_bits_of_f32(rounded);
    if (value != value || (double)rounded == value || (bits & 1)) return rounded;
    double wide = rounded < 0 ? -(double)rounded : (double)rounded, magnitude = value < 0 ? -value : value;
    return mst_f32_of_bits(wide > magnitude ? bits - 1 : bits + 1);
}

#endif
