/* The reductions of the simulated MPI: element by element, in the order of the processes. */
#include "wire_launch_private.h"

#define REDUCE(type)                                                             \
    do {                                                                         \
        type *a = to;                                                            \
        const type *b = from;                                                    \
        for (int64_t i = 0; i < count; i++)                                      \
            a[i] = operation == MUSTER_WIRE_SUM    ? (type)(a[i] + b[i])         \
                   : operation == MUSTER_WIRE_PROD ? (type)(a[i] * b[i])         \
                   : operation == MUSTER_WIRE_MAX  ? (a[i] < b[i] ? b[i] : a[i]) \
                                                   : (b[i] < a[i] ? b[i] : a[i]); \
    } while (0)

/* Signed integers wrap around, as all MPIs let them. */
static void reduce_signed(int32_t type, int32_t operation, void *to, const void *from, int64_t count) {
    if (type == MUSTER_WIRE_I8) REDUCE(int8_t);
    if (type == MUSTER_WIRE_I16) REDUCE(int16_t);
    if (type == MUSTER_WIRE_I32) REDUCE(int32_t);
    if (type == MUSTER_WIRE_I64) REDUCE(int64_t);
}

void wire_reduce(int32_t type, int32_t operation, void *to, const void *from, int64_t count) {
    const bool is_signed = type == MUSTER_WIRE_I8 || type == MUSTER_WIRE_I16 || type == MUSTER_WIRE_I32 || type == MUSTER_WIRE_I64;
    if (is_signed && operation <= MUSTER_WIRE_PROD) { /* the same bits, without undefined behaviour */
        wire_reduce(type + 1, operation, to, from, count);
        return;
    }
    if (is_signed) reduce_signed(type, operation, to, from, count);
    if (type == MUSTER_WIRE_U8) REDUCE(uint8_t);
    if (type == MUSTER_WIRE_U16) {
        uint16_t *a = to;
        const uint16_t *b = from;
        if (operation == MUSTER_WIRE_PROD) /* which would be promoted to int */
            for (int64_t i = 0; i < count; i++) a[i] = (uint16_t)((uint32_t)a[i] * b[i]);
        else
            REDUCE(uint16_t);
    }
    if (type == MUSTER_WIRE_U32) REDUCE(uint32_t);
    if (type == MUSTER_WIRE_U64) REDUCE(uint64_t);
    if (type == MUSTER_WIRE_F32) REDUCE(float);
    if (type == MUSTER_WIRE_F64) REDUCE(double);
}

int32_t wire_type_size(int32_t type) {
    static const int32_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return type >= MUSTER_WIRE_I8 && type <= MUSTER_WIRE_F64 ? sizes[type] : 0;
}
