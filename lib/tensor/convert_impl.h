/* The conversion of each wide type (float, double, int64, uint64) to each element type:
 * mst_I8_of_f64 and so on. Host loops and device code both use these functions, so they convert
 * alike, bit for bit. */
#ifndef MST_CONVERT_IMPL_H
#define MST_CONVERT_IMPL_H

#include "half_impl.h"

/* Float to integer: rounds towards zero and saturates. `beyond` is the first integer above the
 * range, a power of two that both float types hold. NaN fails every comparison, value == value
 * included, and gives 0. */
#define MST_INTEGER_FROM_FLOAT(TO, type, wide, wide_type, lowest, highest, beyond)                                                   \
    static inline type mst_##TO##_of_##wide(wide_type value) {                                                                       \
        return value >= (wide_type)(beyond) ? (highest) : value > (wide_type)(lowest) ? (type)value : value == value ? (lowest) : 0; \
    }
#define MST_INTEGER_STORES(TO, type, lowest, highest, beyond)             \
    MST_INTEGER_FROM_FLOAT(TO, type, f32, float, lowest, highest, beyond) \
    MST_INTEGER_FROM_FLOAT(TO, type, f64, double, lowest, highest, beyond)
#define MST_NARROW_STORES(TO, type, lowest, highest, beyond)                                \
    MST_INTEGER_STORES(TO, type, lowest, highest, beyond)                                   \
    static inline type mst_##TO##_of_i64(int64_t value) {                                   \
        return (type)(value < (lowest) ? (lowest) : value > (highest) ? (highest) : value); \
    }                                                                                       \
    static inline type mst_##TO##_of_u64(uint64_t value) { return (type)(value > (uint64_t)(highest) ? (uint64_t)(highest) : value); }
MST_NARROW_STORES(I8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
MST_NARROW_STORES(U8, uint8_t, 0, UINT8_MAX, 0x1p8)
MST_NARROW_STORES(I16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
MST_NARROW_STORES(I32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
MST_NARROW_STORES(U32, uint32_t, 0, (int64_t)UINT32_MAX, 0x1p32)
MST_INTEGER_STORES(I64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)
MST_INTEGER_STORES(U64, uint64_t, 0, UINT64_MAX, 0x1p64)
static inline int64_t mst_I64_of_i64(int64_t value) { return value; }
static inline int64_t mst_I64_of_u64(uint64_t value) { return value > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)value; }
static inline uint64_t mst_U64_of_i64(int64_t value) { return value < 0 ? 0 : (uint64_t)value; }
static inline uint64_t mst_U64_of_u64(uint64_t value) { return value; }

#define MST_ALL_STORES(TO, type, expression)                                   \
    static inline type mst_##TO##_of_f32(float value) { return expression; }   \
    static inline type mst_##TO##_of_f64(double value) { return expression; }  \
    static inline type mst_##TO##_of_i64(int64_t value) { return expression; } \
    static inline type mst_##TO##_of_u64(uint64_t value) { return expression; }
MST_ALL_STORES(F32, float, (float)value)
MST_ALL_STORES(F64, double, (double)value)
MST_ALL_STORES(BOOL, uint8_t, value != 0)

/* Every integer that f32 does not hold exactly is beyond the range of f16, so rounding to f32 first
 * does not change the result. */
static inline uint16_t mst_F16_of_f32(float value) { return mst_f32_to_f16(value); }
static inline uint16_t mst_F16_of_f64(double value) { return mst_f32_to_f16(mst_f64_to_f32_odd(value)); }
static inline uint16_t mst_F16_of_i64(int64_t value) { return mst_f32_to_f16((float)value); }
static inline uint16_t mst_F16_of_u64(uint64_t value) { return mst_f32_to_f16((float)value); }

/* Folds the bits of an integer that the double could lose into one bit. This rounds to odd, as
 * mst_f64_to_f32_odd does. */
static inline double mst_f64_of_u64_odd(uint64_t value) {
    uint64_t low = value & 0x7ff;
    return value >> 53 ? (double)((value ^ low) | (low ? 0x800 : 0)) : (double)value;
}
static inline uint16_t mst_BF16_of_f32(float value) { return mst_f32_to_bf16(value); }
static inline uint16_t mst_BF16_of_f64(double value) { return mst_f32_to_bf16(mst_f64_to_f32_odd(value)); }
static inline uint16_t mst_BF16_of_u64(uint64_t value) { return mst_BF16_of_f64(mst_f64_of_u64_odd(value)); }
static inline uint16_t mst_BF16_of_i64(int64_t value) {
    double magnitude = mst_f64_of_u64_odd(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    return mst_BF16_of_f64(value < 0 ? -magnitude : magnitude);
}

#undef MST_ALL_STORES
#undef MST_NARROW_STORES
#undef MST_INTEGER_STORES
#undef MST_INTEGER_FROM_FLOAT

#endif
