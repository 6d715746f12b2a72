#include "tensor.cuh"

/* The operands are x, y, y; with beta 0, y is not read and the operands are x, y. */
template <typename D> static inline void scale_add(const mst_element_parameters &p) {
    typedef typename D::computed C;
    C alpha = (C)p.alpha, beta = (C)p.beta;
    if (p.beta == 0) return mst_map<D, 1>(p.iterator, p.count, [=](const C *v) { return alpha * v[0]; });
    if (p.beta == 1) return mst_map<D, 2>(p.iterator, p.count, [=](const C *v) { return v[1] + alpha * v[0]; });
    mst_map<D, 2>(p.iterator, p.count, [=](const C *v) { return alpha * v[0] + beta * v[1]; });
}

MST_KERNEL(mst_scale_add, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return scale_add<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
