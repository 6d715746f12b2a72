#include "tensor.cuh"

template <typename T> static inline void where_bits(const mst_element_parameters &p) {
    const char *condition = MST_ADDRESS(const char, p.iterator.base[0]), *a = MST_ADDRESS(const char, p.iterator.base[1]),
               *b = MST_ADDRESS(const char, p.iterator.base[2]);
    char *y = MST_ADDRESS(char, p.iterator.base[3]);
    MST_EACH(i, p.count) {
        int64_t offset[4];
        mst_offsets<4>(p.iterator, i, offset);
        *(T *)(y + offset[3]) = *(const T *)(condition[offset[0]] ? a + offset[1] : b + offset[2]);
    }
}

MST_KERNEL(mst_where, mst_element_parameters) {
    switch (p.op) { /* bytes of an element */
    case 1:
        return where_bits<uint8_t>(p);
    case 2:
        return where_bits<uint16_t>(p);
    case 4:
        return where_bits<uint32_t>(p);
    default:
        return where_bits<uint64_t>(p);
    }
}
