#include "arithmetic.h"

#include "half_impl.h"
#include "nccl_api_private.h"

#include <math.h>

size_t sim_nccl_type_size(unsigned int type) {
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type < sizeof sizes ? sizes[type] : 0;
}

int sim_nccl_is_float(unsigned int type) { return type >= MST_NCCL_FLOAT16 && type <= MST_NCCL_BFLOAT16; }

/* Signed sums and products are taken as unsigned ones: they wrap on the device, and are undefined
 * in C. */
#define WHOLE(name, type, wide)                                                                 \
    static void name##_combine(int operation, type *into, const type *from, size_t count) {     \
        for (size_t i = 0; i < count; i++) {                                                    \
            type a = into[i], b = from[i];                                                      \
            into[i] = operation == SIM_SUM    ? (type)((wide)a + (wide)b)                       \
                      : operation == SIM_PROD ? (type)((wide)a * (wide)b)                       \
                      : operation == SIM_MAX  ? (a > b ? a : b)                                 \
                                              : (a < b ? a : b);                                 \
        }                                                                                       \
    }                                                                                           \
    static void name##_scale(type *values, size_t count, const type *scalar) {                  \
        for (size_t i = 0; i < count; i++) values[i] = (type)((wide)values[i] * (wide)*scalar); \
    }                                                                                           \
    static void name##_divide(type *values, size_t count, int ranks) {                          \
        for (size_t i = 0; i < count; i++) values[i] = (type)(values[i] / (type)ranks);         \
    }

#define REAL(name, type, read, write, real, most, least)                                       \
    static void name##_combine(int operation, type *into, const type *from, size_t count) {    \
        for (size_t i = 0; i < count; i++) {                                                   \
            real a = read(into[i]), b = read(from[i]);                                         \
            into[i] = write(operation == SIM_SUM    ? a + b                                    \
                            : operation == SIM_PROD ? a * b                                    \
                            : operation == SIM_MAX  ? most(a, b)                               \
                                                    : least(a, b));                             \
        }                                                                                      \
    }                                                                                          \
    static void name##_scale(type *values, size_t count, const type *scalar) {                 \
        for (size_t i = 0; i < count; i++) values[i] = write(read(values[i]) * read(*scalar)); \
    }                                                                                          \
    static void name##_reciprocal(int ranks, type *scalar) { *scalar = write((real)(1.0 / ranks)); }

#define AS_IT_IS(value) (value)
WHOLE(int8, int8_t, uint32_t)
WHOLE(uint8, uint8_t, uint32_t)
WHOLE(int32, int32_t, uint32_t)
WHOLE(uint32, uint32_t, uint32_t)
WHOLE(int64, int64_t, uint64_t)
WHOLE(uint64, uint64_t, uint64_t)
REAL(float16, uint16_t, mst_f16_to_f32, mst_f32_to_f16, float, fmaxf, fminf)
REAL(bfloat16, uint16_t, mst_bf16_to_f32, mst_f32_to_bf16, float, fmaxf, fminf)
REAL(float32, float, AS_IT_IS, AS_IT_IS, float, fmaxf, fminf)
REAL(float64, double, AS_IT_IS, AS_IT_IS, double, fmax, fmin)

void sim_nccl_combine(unsigned int type, int operation, void *into, const void *from, size_t count) {
    switch (type) {
    case MST_NCCL_INT8:
        int8_combine(operation, into, from, count);
        break;
    case MST_NCCL_UINT8:
        uint8_combine(operation, into, from, count);
        break;
    case MST_NCCL_INT32:
        int32_combine(operation, into, from, count);
        break;
    case MST_NCCL_UINT32:
        uint32_combine(operation, into, from, count);
        break;
    case MST_NCCL_INT64:
        int64_combine(operation, into, from, count);
        break;
    case MST_NCCL_UINT64:
        uint64_combine(operation, into, from, count);
        break;
    case MST_NCCL_FLOAT16:
        float16_combine(operation, into, from, count);
        break;
    case MST_NCCL_FLOAT32:
        float32_combine(operation, into, from, count);
        break;
    case MST_NCCL_FLOAT64:
        float64_combine(operation, into, from, count);
        break;
    case MST_NCCL_BFLOAT16:
        bfloat16_combine(operation, into, from, count);
        break;
    }
}

void sim_nccl_scale(unsigned int type, void *values, size_t count, const void *scalar) {
    switch (type) {
    case MST_NCCL_INT8:
        int8_scale(values, count, scalar);
        break;
    case MST_NCCL_UINT8:
        uint8_scale(values, count, scalar);
        break;
    case MST_NCCL_INT32:
        int32_scale(values, count, scalar);
        break;
    case MST_NCCL_UINT32:
        uint32_scale(values, count, scalar);
        break;
    case MST_NCCL_INT64:
        int64_scale(values, count, scalar);
        break;
    case MST_NCCL_UINT64:
        uint64_scale(values, count, scalar);
        break;
    case MST_NCCL_FLOAT16:
        float16_scale(values, count, scalar);
        break;
    case MST_NCCL_FLOAT32:
        float32_scale(values, count, scalar);
        break;
    case MST_NCCL_FLOAT64:
        float64_scale(values, count, scalar);
        break;
    case MST_NCCL_BFLOAT16:
        bfloat16_scale(values, count, scalar);
        break;
    }
}

void sim_nccl_reciprocal(unsigned int type, int ranks, void *scalar) {
    switch (type) {
    case MST_NCCL_FLOAT16:
        float16_reciprocal(ranks, scalar);
        break;
    case MST_NCCL_FLOAT32:
        float32_reciprocal(ranks, scalar);
        break;
    case MST_NCCL_FLOAT64:
        float64_reciprocal(ranks, scalar);
        break;
    case MST_NCCL_BFLOAT16:
        bfloat16_reciprocal(ranks, scalar);
        break;
    }
}

void sim_nccl_divide(unsigned int type, void *values, size_t count, int ranks) {
    switch (type) {
    case MST_NCCL_INT8:
        int8_divide(values, count, ranks);
        break;
    case MST_NCCL_UINT8:
        uint8_divide(values, count, ranks);
        break;
    case MST_NCCL_INT32:
        int32_divide(values, count, ranks);
        break;
    case MST_NCCL_UINT32:
        uint32_divide(values, count, ranks);
        break;
    case MST_NCCL_INT64:
        int64_divide(values, count, ranks);
        break;
    case MST_NCCL_UINT64:
        uint64_divide(values, count, ranks);
        break;
    }
}
