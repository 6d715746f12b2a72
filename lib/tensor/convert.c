/* Conversion between any two element types. Each source is loaded as one of four wide kinds that holds it exactly (float, double, int64,
 * uint64), each destination knows how to take each kind, and the loops over the pairs are made from the two lists. */
#include "half_impl.h"
#include "tensor_impl.h"

/* X(dtype, storage type, wide type, load expression) */
#define SOURCES(X, TO, STORE)                                     \
    X(TO, STORE, F16, uint16_t, f32, mst_f16_to_f32(value))       \
    X(TO, STORE, BF16, uint16_t, f32, mst_bf16_to_f32(value))     \
    X(TO, STORE, F32, float, f32, value)                          \
    X(TO, STORE, F64, double, f64, value)                         \
    X(TO, STORE, I8, int8_t, i64, value)                          \
    X(TO, STORE, U8, uint8_t, i64, value)                         \
    X(TO, STORE, I16, int16_t, i64, value)                        \
    X(TO, STORE, I32, int32_t, i64, value)                        \
    X(TO, STORE, I64, int64_t, i64, value)                        \
    X(TO, STORE, U32, uint32_t, i64, value)                       \
    X(TO, STORE, U64, uint64_t, u64, value)                       \
    X(TO, STORE, BOOL, uint8_t, i64, value != 0)

/* X(dtype, storage type) */
#define DESTINATIONS(X)   \
    X(F16, uint16_t)      \
    X(BF16, uint16_t)     \
    X(F32, float)         \
    X(F64, double)        \
    X(I8, int8_t)         \
    X(U8, uint8_t)        \
    X(I16, int16_t)       \
    X(I32, int32_t)       \
    X(I64, int64_t)       \
    X(U32, uint32_t)      \
    X(U64, uint64_t)      \
    X(BOOL, uint8_t)

/* Integers: towards zero, saturating. The upper bound of a float is the first integer beyond the range, a power of two that both float
 * types hold; NaN fails every comparison but the last. */
#define INTEGER_FROM_FLOAT(TO, type, wide, wide_type, lowest, highest, beyond)                                            \
    static inline type TO##_of_##wide(wide_type value) {                                                                  \
        return value >= (wide_type)(beyond) ? (highest) : value > (wide_type)(lowest) ? (type)value : value == value ? (lowest) : 0; \
    }
#define INTEGER_STORES(TO, type, lowest, highest, beyond)                                                                 \
    INTEGER_FROM_FLOAT(TO, type, f32, float, lowest, highest, beyond)                                                     \
    INTEGER_FROM_FLOAT(TO, type, f64, double, lowest, highest, beyond)
#define NARROW_STORES(TO, type, lowest, highest, beyond)                                                                  \
    INTEGER_STORES(TO, type, lowest, highest, beyond)                                                                     \
    static inline type TO##_of_i64(int64_t value) { return (type)(value < (lowest) ? (lowest) : value > (highest) ? (highest) : value); } \
    static inline type TO##_of_u64(uint64_t value) { return (type)(value > (uint64_t)(highest) ? (uint64_t)(highest) : value); }
NARROW_STORES(I8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
NARROW_STORES(U8, uint8_t, 0, UINT8_MAX, 0x1p8)
NARROW_STORES(I16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
NARROW_STORES(I32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
NARROW_STORES(U32, uint32_t, 0, (int64_t)UINT32_MAX, 0x1p32)
INTEGER_STORES(I64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)
INTEGER_STORES(U64, uint64_t, 0, UINT64_MAX, 0x1p64)
static inline int64_t I64_of_i64(int64_t value) { return value; }
static inline int64_t I64_of_u64(uint64_t value) { return value > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)value; }
static inline uint64_t U64_of_i64(int64_t value) { return value < 0 ? 0 : (uint64_t)value; }
static inline uint64_t U64_of_u64(uint64_t value) { return value; }

#define ALL_STORES(TO, type, expression)                              \
    static inline type TO##_of_f32(float value) { return expression; }    \
    static inline type TO##_of_f64(double value) { return expression; }   \
    static inline type TO##_of_i64(int64_t value) { return expression; }  \
    static inline type TO##_of_u64(uint64_t value) { return expression; }
ALL_STORES(F32, float, (float)value)
ALL_STORES(F64, double, (double)value)
ALL_STORES(BOOL, uint8_t, value != 0)

/* Every integer that f32 does not hold is beyond the range of f16: the first rounding decides nothing. */
static inline uint16_t F16_of_f32(float value) { return mst_f32_to_f16(value); }
static inline uint16_t F16_of_f64(double value) { return mst_f32_to_f16(mst_f64_to_f32_odd(value)); }
static inline uint16_t F16_of_i64(int64_t value) { return mst_f32_to_f16((float)value); }
static inline uint16_t F16_of_u64(uint64_t value) { return mst_f32_to_f16((float)value); }

/* Bits of an integer that could be lost in the double are folded into one: rounding to odd, as in mst_f64_to_f32_odd. */
static inline double f64_of_u64_odd(uint64_t value) {
    uint64_t low = value & 0x7ff;
    return value >> 53 ? (double)((value ^ low) | (low ? 0x800 : 0)) : (double)value;
}
static inline uint16_t BF16_of_f32(float value) { return mst_f32_to_bf16(value); }
static inline uint16_t BF16_of_f64(double value) { return mst_f32_to_bf16(mst_f64_to_f32_odd(value)); }
static inline uint16_t BF16_of_u64(uint64_t value) { return BF16_of_f64(f64_of_u64_odd(value)); }
static inline uint16_t BF16_of_i64(int64_t value) {
    double magnitude = f64_of_u64_odd(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    return BF16_of_f64(value < 0 ? -magnitude : magnitude);
}

#define PAIR(TO, to_type, FROM, from_type, wide, load)                                                         \
    static void FROM##_to_##TO(void *restrict to, const void *restrict from, int64_t count) {                  \
        to_type *restrict result = to;                                                                         \
        const from_type *restrict values = from;                                                               \
        for (int64_t i = 0; i < count; i++) {                                                                  \
            from_type value = values[i];                                                                       \
            result[i] = TO##_of_##wide(load);                                                                  \
        }                                                                                                      \
    }
#define PAIRS(TO, to_type) SOURCES(PAIR, TO, to_type)
DESTINATIONS(PAIRS)

typedef void (*converter)(void *restrict to, const void *restrict from, int64_t count);

#define ENTRY(TO, to_type, FROM, from_type, wide, load) [MUSTER_##TO][MUSTER_##FROM] = FROM##_to_##TO,
#define ENTRIES(TO, to_type) SOURCES(ENTRY, TO, to_type)
static const converter converters[MUSTER_DTYPE_COUNT][MUSTER_DTYPE_COUNT] = {DESTINATIONS(ENTRIES)};

void mst_convert(muster_dtype to_dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count) {
    if (count <= 0) return;
    /* bool goes through its loop: a byte other than 0 and 1 becomes 1 */
    if (to_dtype == from_dtype && to_dtype != MUSTER_BOOL) memcpy(to, from, (size_t)(count * muster_dtype_size(to_dtype)));
    else converters[to_dtype][from_dtype](to, from, count);
}
