/* The loop chooses the operation for each element. A separate loop for each operation would take
 * many times as long to compile and run no faster, because the loop waits for memory. */
#include "tensor.cuh"

MST_OUTLINE float binary_pow(float a, float b) { return powf(a, b); }
MST_OUTLINE double binary_pow(double a, double b) { return pow(a, b); }

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
            return binary_pow(a, b);
        }
    }
};

/* Rounds towards zero. Division by 0 gives 0; the most negative number divided by -1 wraps. */
MST_OUTLINE int64_t binary_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
MST_OUTLINE uint64_t binary_quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

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
        default:
            return a < b ? a : b;
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
