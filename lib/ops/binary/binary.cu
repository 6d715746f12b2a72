/* The loop chooses the operation for each element. A separate loop for each operation would take
 * many times as long to compile and run no faster, because the loop waits for memory. */
#include "tensor.cuh"

/* Functions of either type by one name. */
static inline float binary_fmod(float a, float b) { return fmodf(a, b); }
static inline double binary_fmod(double a, double b) { return fmod(a, b); }
static inline float binary_rint(float v) { return rintf(v); }
static inline double binary_rint(double v) { return rint(v); }
static inline float binary_zero(float sign) { return copysignf(0, sign); }
static inline double binary_zero(double sign) { return copysign(0.0, sign); }
static inline float binary_pow(float a, float b) { return powf(a, b); }
static inline double binary_pow(double a, double b) { return pow(a, b); }
static inline float binary_atan2(float a, float b) { return atan2f(a, b); }
static inline double binary_atan2(double a, double b) { return atan2(a, b); }
static inline float binary_hypot(float a, float b) { return hypotf(a, b); }
static inline double binary_hypot(double a, double b) { return hypot(a, b); }

/* As in division_private.h. */
template <typename C> static inline C binary_floor_quotient(C a, C b) {
    if (b == 0) return a / b;
    C rest = binary_fmod(a, b), quotient = binary_rint((a - rest) / b);
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    return quotient == 0 ? binary_zero(a / b) : quotient;
}
template <typename C> static inline C binary_floor_remainder(C a, C b) {
    C rest = binary_fmod(a, b);
    if (rest == 0) return binary_zero(b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

template <typename C> static inline C binary_choose(int32_t op, C a, C b) {
    switch (op) {
    case MUSTER_FLOOR_DIVIDE:
        return binary_floor_quotient(a, b);
    case MUSTER_REMAINDER:
        return binary_floor_remainder(a, b);
    case MUSTER_FMOD:
        return binary_fmod(a, b);
    case MUSTER_ATAN2:
        return binary_atan2(a, b);
    case MUSTER_HYPOT:
        return binary_hypot(a, b);
    default:
        return binary_pow(a, b);
    }
}
/* The longer operations are compiled once per type. */
MST_OUTLINE float binary_function(int32_t op, float a, float b) { return binary_choose(op, a, b); }
MST_OUTLINE double binary_function(int32_t op, double a, double b) { return binary_choose(op, a, b); }

/* f(a, b) of floats. */
template <typename C> struct binary_float {
    int32_t op;
    inline C operator()(C a, C b) const {
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
            return binary_function(op, a, b);
        }
    }
};

/* Rounds towards zero. Division by 0 gives 0; the most negative number divided by -1 wraps. */
MST_OUTLINE int64_t binary_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
MST_OUTLINE uint64_t binary_quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

/* The quotient rounded down, the remainder with the sign of b, and that of C; 0 where b is 0. */
MST_OUTLINE int64_t binary_division(int32_t op, int64_t a, int64_t b) {
    if (b == 0 || b == -1) return b != 0 && op == MUSTER_FLOOR_DIVIDE ? (int64_t)(0 - (uint64_t)a) : 0;
    int64_t quotient = a / b, rest = a - quotient * b;
    bool below = rest != 0 && (rest < 0) != (b < 0);
    return op == MUSTER_FLOOR_DIVIDE ? quotient - below : op == MUSTER_REMAINDER && below ? rest + b : rest;
}
MST_OUTLINE uint64_t binary_division(int32_t op, uint64_t a, uint64_t b) { return b == 0 ? 0 : op == MUSTER_FLOOR_DIVIDE ? a / b : a % b; }

/* f(a, b) of integers, which wrap: they are computed as W, which has 64 bits, and the low bits are
 * kept. */
template <typename C, typename W> struct binary_integer {
    int32_t op;
    inline C operator()(C a, C b) const {
        switch (op) {
        case MUSTER_ADD:
            return (C)((uint64_t)a + (uint64_t)b);
        case MUSTER_SUB:
            return (C)((uint64_t)a - (uint64_t)b);
        case MUSTER_MUL:
            return (C)((uint64_t)a * (uint64_t)b);
        case MUSTER_DIV:
            return (C)binary_quotient((W)a, (W)b);
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
        default:
            return (C)binary_division(op, (W)a, (W)b);
        }
    }
};

template <typename D, typename F> static inline void binary_tensors(const mst_element_parameters &p) {
    typedef typename D::computed C;
    const F f = {p.op};
    mst_map<D, 2>(p.iterator, p.count, [=](const C *v) -> C { return f(v[0], v[1]); });
}

/* One operand is the scalar p.element: the second, or the first if alpha is 1. */
template <typename D, typename F> static inline void binary_with_scalar(const mst_element_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    union {
        uint64_t bits;
        T value; /* the first bytes: devices and hosts are little-endian */
    } element;
    element.bits = p.element;
    const F f = {p.op};
    const C value = D::load(element.value);
    const bool reversed = p.alpha != 0;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *v) -> C { return f(reversed ? value : v[0], reversed ? v[0] : value); });
}

#define FLOAT_CASE(NAME, name) \
    case MUSTER_##NAME:        \
        return KERNEL<mst_##name, binary_float<mst_##name::computed>>(p);
#define SIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:         \
        return KERNEL<mst_##name, binary_integer<mst_##name::computed, int64_t>>(p);
#define UNSIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:           \
        return KERNEL<mst_##name, binary_integer<mst_##name::computed, uint64_t>>(p);

MST_KERNEL(mst_binary, mst_element_parameters) {
#define KERNEL binary_tensors
    switch (p.dtype) { MST_EACH_FLOAT_TYPE(FLOAT_CASE) MST_EACH_SIGNED_TYPE(SIGNED_CASE) MST_EACH_UNSIGNED_TYPE(UNSIGNED_CASE) }
#undef KERNEL
}

MST_KERNEL(mst_binary_scalar, mst_element_parameters) {
#define KERNEL binary_with_scalar
    switch (p.dtype) { MST_EACH_FLOAT_TYPE(FLOAT_CASE) MST_EACH_SIGNED_TYPE(SIGNED_CASE) MST_EACH_UNSIGNED_TYPE(UNSIGNED_CASE) }
#undef KERNEL
}
#undef FLOAT_CASE
#undef SIGNED_CASE
#undef UNSIGNED_CASE
