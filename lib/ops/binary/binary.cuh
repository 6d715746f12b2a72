/* What the binary operations do with two values: for binary.cu, which learns the operation from its
 * parameters, and for programs that know it when they are compiled. */
#ifndef MST_BINARY_CUH
#define MST_BINARY_CUH

#include "tensor.cuh"

/* Functions of either type by one name. */
static inline float mst_binary_fmod(float a, float b) { return fmodf(a, b); }
static inline double mst_binary_fmod(double a, double b) { return fmod(a, b); }
static inline float mst_binary_rint(float v) { return rintf(v); }
static inline double mst_binary_rint(double v) { return rint(v); }
static inline float mst_binary_zero(float sign) { return copysignf(0, sign); }
static inline double mst_binary_zero(double sign) { return copysign(0.0, sign); }
static inline float mst_binary_pow(float a, float b) { return powf(a, b); }
static inline double mst_binary_pow(double a, double b) { return pow(a, b); }
static inline float mst_binary_atan2(float a, float b) { return atan2f(a, b); }
static inline double mst_binary_atan2(double a, double b) { return atan2(a, b); }
static inline float mst_binary_hypot(float a, float b) { return hypotf(a, b); }
static inline double mst_binary_hypot(double a, double b) { return hypot(a, b); }

/* As in division_impl.h. */
template <typename C> static inline C mst_binary_floor_quotient(C a, C b) {
    if (b == 0) return a / b;
    C rest = mst_binary_fmod(a, b), quotient = mst_binary_rint((a - rest) / b);
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    return quotient == 0 ? mst_binary_zero(a / b) : quotient;
}
template <typename C> static inline C mst_binary_floor_remainder(C a, C b) {
    C rest = mst_binary_fmod(a, b);
    if (rest == 0) return mst_binary_zero(b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

/* The longer operations of floats. */
template <typename C> static inline C mst_binary_longer(int32_t op, C a, C b) {
    switch (op) {
    case MUSTER_FLOOR_DIVIDE:
        return mst_binary_floor_quotient(a, b);
    case MUSTER_REMAINDER:
        return mst_binary_floor_remainder(a, b);
    case MUSTER_FMOD:
        return mst_binary_fmod(a, b);
    case MUSTER_ATAN2:
        return mst_binary_atan2(a, b);
    case MUSTER_HYPOT:
        return mst_binary_hypot(a, b);
    default:
        return mst_binary_pow(a, b);
    }
}
/* Of floats. longer(op, a, b): mst_binary_longer, or a function around it. */
template <typename C, typename F> static inline C mst_binary_float(int32_t op, C a, C b, F longer) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return a / b;
    case MUSTER_MAXIMUM:
        return a > b || a != a ? a : b;
    case MUSTER_MINIMUM:
        return a < b || a != a ? a : b;
    default:
        return longer(op, a, b);
    }
}

/* Rounds towards zero. Division by 0 gives 0; the most negative number divided by -1 wraps. */
MST_OUTLINE int64_t mst_binary_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
MST_OUTLINE uint64_t mst_binary_quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

/* The quotient rounded down, the remainder with the sign of b, and that of C; 0 where b is 0. */
MST_OUTLINE int64_t mst_binary_division(int32_t op, int64_t a, int64_t b) {
    if (b == 0 || b == -1) return b != 0 && op == MUSTER_FLOOR_DIVIDE ? (int64_t)(0 - (uint64_t)a) : 0;
    int64_t quotient = a / b, rest = a - quotient * b;
    bool below = rest != 0 && (rest < 0) != (b < 0);
    return op == MUSTER_FLOOR_DIVIDE ? quotient - below : op == MUSTER_REMAINDER && below ? rest + b : rest;
}
MST_OUTLINE uint64_t mst_binary_division(int32_t op, uint64_t a, uint64_t b) {
    return b == 0 ? 0 : op == MUSTER_FLOOR_DIVIDE ? a / b : a % b;
}

/* Shifted to the right by 0 to 64 bits. */
static inline int64_t mst_binary_right(int64_t a, int32_t by) { return a >> (by < 64 ? by : 63); }
static inline uint64_t mst_binary_right(uint64_t a, int32_t by) { return by < 64 ? a >> by : 0; }

/* Of integers, which wrap: they are computed as W, which has 64 bits, and the low bits are kept. */
template <typename C, typename W> static inline C mst_binary_integer(int32_t op, C a, C b) {
    switch (op) {
    case MUSTER_ADD:
        return (C)((uint64_t)a + (uint64_t)b);
    case MUSTER_SUB:
        return (C)((uint64_t)a - (uint64_t)b);
    case MUSTER_MUL:
        return (C)((uint64_t)a * (uint64_t)b);
    case MUSTER_DIV:
        return (C)mst_binary_quotient((W)a, (W)b);
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    case MUSTER_MINIMUM:
        return a < b ? a : b;
    case MUSTER_BITWISE_AND:
        return (C)((uint64_t)a & (uint64_t)b);
    case MUSTER_BITWISE_OR:
        return (C)((uint64_t)a | (uint64_t)b);
    case MUSTER_BITWISE_XOR:
        return (C)((uint64_t)a ^ (uint64_t)b);
    case MUSTER_LEFT_SHIFT: /* a negative b is a large one */
        return (uint64_t)b < 8 * sizeof(C) ? (C)((uint64_t)a << (uint64_t)b) : (C)0;
    case MUSTER_RIGHT_SHIFT:
        return (C)mst_binary_right((W)a, (uint64_t)b < 8 * sizeof(C) ? (int32_t)b : 64);
    default:
        return (C)mst_binary_division(op, (W)a, (W)b);
    }
}

#endif
