/* The loop chooses the operation for each element. A separate loop for each operation would take
 * many times as long to compile and run no faster, because the loop waits for memory. */
#include "binary.cuh"

/* The longer operations are compiled once per type. */
MST_OUTLINE float binary_longer(int32_t op, float a, float b) { return mst_binary_longer(op, a, b); }
MST_OUTLINE double binary_longer(int32_t op, double a, double b) { return mst_binary_longer(op, a, b); }

template <typename C> struct binary_float {
    int32_t op;
    inline C operator()(C a, C b) const {
        return mst_binary_float(op, a, b, [](int32_t which, C x, C y) -> C { return binary_longer(which, x, y); });
    }
};

template <typename C, typename W> struct binary_integer {
    int32_t op;
    inline C operator()(C a, C b) const { return mst_binary_integer<C, W>(op, a, b); }
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
