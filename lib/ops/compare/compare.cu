#include "compare.cuh"

template <typename D> static inline void compare(const mst_element_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const char *x = MST_ADDRESS(const char, p.iterator.base[0]), *z = MST_ADDRESS(const char, p.iterator.base[1]);
    char *y = MST_ADDRESS(char, p.iterator.base[2]);
    int32_t op = p.op;
    MST_EACH(i, p.count) {
        int64_t offset[3];
        mst_offsets<3>(p.iterator, i, offset);
        C a = D::load(*(const T *)(x + offset[0])), b = D::load(*(const T *)(z + offset[1]));
        *(uint8_t *)(y + offset[2]) = mst_compare_values(op, a, b);
    }
}

MST_KERNEL(mst_compare, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return compare<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
        MST_EACH_SIGNED_TYPE(CASE)
        MST_EACH_UNSIGNED_TYPE(CASE)
        CASE(BOOL, bool)
#undef CASE
    }
}
