#include "tensor.cuh"

template <typename D> static inline void fill_bits(const mst_element_parameters &p) {
    typedef typename D::computed C;
    C element = (C)p.element; /* its first bytes: devices and hosts are little-endian */
    mst_map<D, 0>(p.iterator, p.count, [=](const C *) { return element; });
}

MST_KERNEL(mst_fill, mst_element_parameters) {
    switch (p.op) { /* bytes of an element */
    case 1:
        return fill_bits<mst_bits8>(p);
    case 2:
        return fill_bits<mst_bits16>(p);
    case 4:
        return fill_bits<mst_bits32>(p);
    default:
        return fill_bits<mst_bits64>(p);
    }
}
