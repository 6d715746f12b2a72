#include "predicate.cuh"

template <typename D> static inline void predicate(const mst_element_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const char *x = MST_ADDRESS(const char, p.iterator.base[0]);
    char *y = MST_ADDRESS(char, p.iterator.base[1]);
    int32_t op = p.op;
    MST_EACH(i, p.count) {
        int64_t offset[2];
        mst_offsets<2>(p.iterator, i, offset);
        C v = D::load(*(const T *)(x + offset[0]));
        *(uint8_t *)(y + offset[1]) = mst_predicate_value(op, v);
    }
}

MST_KERNEL(mst_predicate, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return predicate<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
        MST_EACH_SIGNED_TYPE(CASE)
        MST_EACH_UNSIGNED_TYPE(CASE)
        CASE(BOOL, bool)
#undef CASE
    }
}
