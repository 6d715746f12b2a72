#include "clip.cuh"
#include "clip_parameters_private.h"
#include "tensor.cuh"

template <typename C> union clip_bound {
    uint64_t bits;
    C value;
};

template <typename D> static inline void clip(const mst_clip_parameters &p) {
    typedef typename D::computed C;
    clip_bound<C> low_bits, high_bits; /* their first bytes: devices and hosts are little-endian */
    low_bits.bits = p.low;
    high_bits.bits = p.high;
    const C low = low_bits.value, high = high_bits.value;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *v) -> C { return mst_clip_value(v[0], low, high); });
}

MST_KERNEL(mst_clip, mst_clip_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return clip<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
        MST_EACH_SIGNED_TYPE(CASE)
        MST_EACH_UNSIGNED_TYPE(CASE)
#undef CASE
    }
}
