/* The loop chooses the operation for each element, as in binary.cu. */
#include "unary.cuh"

/* The longer operations are compiled once per type. */
MST_OUTLINE float unary_longer(int32_t op, float v) { return mst_unary_longer(op, v); }
MST_OUTLINE double unary_longer(int32_t op, double v) { return mst_unary_longer(op, v); }

template <typename D> static inline void unary_floats(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *in) -> C {
        return mst_unary_float(op, in[0], [](int32_t which, C v) -> C { return unary_longer(which, v); });
    });
}

template <typename D, bool SIGNED> static inline void unary_integers(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *in) -> C { return mst_unary_integer<C, SIGNED>(op, in[0]); });
}

MST_KERNEL(mst_unary, mst_element_parameters) {
    switch (p.dtype) {
#define FLOAT_CASE(NAME, name) \
    case MUSTER_##NAME:        \
        return unary_floats<mst_##name>(p);
#define SIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:         \
        return unary_integers<mst_##name, true>(p);
#define UNSIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:           \
        return unary_integers<mst_##name, false>(p);
        MST_EACH_FLOAT_TYPE(FLOAT_CASE)
        MST_EACH_SIGNED_TYPE(SIGNED_CASE)
        MST_EACH_UNSIGNED_TYPE(UNSIGNED_CASE)
#undef FLOAT_CASE
#undef SIGNED_CASE
#undef UNSIGNED_CASE
    }
}
