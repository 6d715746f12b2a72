#include "tensor.cuh"

template <typename D> static inline void leaky_relu_floats(const mst_element_parameters &p) {
    typedef typename D::computed C;
    const C slope = (C)p.alpha;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *v) -> C { return v[0] < 0 ? slope * v[0] : v[0]; });
}

MST_KERNEL(mst_leaky_relu, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return leaky_relu_floats<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
