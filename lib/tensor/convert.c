/* Conversion between any two element types. A source element is loaded as one of four wide types
 * that holds it exactly (float, double, int64, uint64); each destination type has a conversion from
 * each wide type (convert_impl.h). The lists below generate a loop for every pair of source and
 * destination. */
#include "convert_impl.h"
#include "tensor_impl.h"

/* X(dtype, storage type, wide type, load expression) */
#define SOURCES(X, TO, STORE)                                 \
    X(TO, STORE, F16, uint16_t, f32, mst_f16_to_f32(value))   \
    X(TO, STORE, BF16, uint16_t, f32, mst_bf16_to_f32(value)) \
    X(TO, STORE, F32, float, f32, value)                      \
    X(TO, STORE, F64, double, f64, value)                     \
    X(TO, STORE, I8, int8_t, i64, value)                      \
    X(TO, STORE, U8, uint8_t, i64, value)                     \
    X(TO, STORE, I16, int16_t, i64, value)                    \
    X(TO, STORE, I32, int32_t, i64, value)                    \
    X(TO, STORE, I64, int64_t, i64, value)                    \
    X(TO, STORE, U32, uint32_t, i64, value)                   \
    X(TO, STORE, U64, uint64_t, u64, value)                   \
    X(TO, STORE, BOOL, uint8_t, i64, value != 0)

/* X(dtype, storage type) */
#define DESTINATIONS(X) \
    X(F16, uint16_t)    \
    X(BF16, uint16_t)   \
    X(F32, float)       \
    X(F64, double)      \
    X(I8, int8_t)       \
    X(U8, uint8_t)      \
    X(I16, int16_t)     \
    X(I32, int32_t)     \
    X(I64, int64_t)     \
    X(U32, uint32_t)    \
    X(U64, uint64_t)    \
    X(BOOL, uint8_t)

#define PAIR(TO, to_type, FROM, from_type, wide, load)                                        \
    static void FROM##_to_##TO(void *restrict to, const void *restrict from, int64_t count) { \
        to_type *restrict result = to;                                                        \
        const from_type *restrict values = from;                                              \
        for (int64_t i = 0; i < count; i++) {                                                 \
            from_type value = values[i];                                                      \
            result[i] = mst_##TO##_of_##wide(load);                                           \
        }                                                                                     \
    }
#define PAIRS(TO, to_type) SOURCES(PAIR, TO, to_type)
DESTINATIONS(PAIRS)

typedef void (*converter)(void *restrict to, const void *restrict from, int64_t count);

#define ENTRY(TO, to_type, FROM, from_type, wide, load) [MUSTER_##TO][MUSTER_##FROM] = FROM##_to_##TO,
#define ENTRIES(TO, to_type) SOURCES(ENTRY, TO, to_type)
static const converter converters[MST_DTYPE_COUNT][MST_DTYPE_COUNT] = {DESTINATIONS(ENTRIES)};

void mst_convert(muster_dtype to_dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count) {
    if (count <= 0) return;
    /* bool uses its loop, in which a byte other than 0 and 1 becomes 1 */
    if (to_dtype == from_dtype && to_dtype != MUSTER_BOOL)
        memcpy(to, from, (size_t)(count * muster_dtype_size(to_dtype)));
    else
        converters[to_dtype][from_dtype](to, from, count);
}
