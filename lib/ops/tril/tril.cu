/* The elements on one side of a diagonal; the others become 0, whose bits are 0 in every dtype. */
#include "tensor.cuh"
#include "triangle_parameters_private.h"

template <typename T> static inline void triangle_bits(const mst_triangle_parameters &p) {
    const char *x = MST_ADDRESS(char, p.rows.rows.base[0]);
    char *y = MST_ADDRESS(char, p.rows.rows.base[1]);
    MST_EACH(i, p.rows.count * p.rows.length) {
        int64_t row = mst_quotient(i, p.rows.length), j = i - row * p.rows.length, offset[2];
        int64_t distance = j - (row - mst_quotient(row, p.height) * p.height);
        bool keeps = p.upper ? distance >= p.diagonal : distance <= p.diagonal;
        mst_offsets<2>(p.rows.rows, row, offset);
        T value = 0;
        if (keeps) value = *(const T *)(x + offset[0] + j * p.rows.stride[0]);
        *(T *)(y + offset[1] + j * p.rows.stride[1]) = value;
    }
}

MST_KERNEL(mst_triangle, mst_triangle_parameters) {
    switch (p.element_size) {
    case 1:
        return triangle_bits<uint8_t>(p);
    case 2:
        return triangle_bits<uint16_t>(p);
    case 4:
        return triangle_bits<uint32_t>(p);
    default:
        return triangle_bits<uint64_t>(p);
    }
}
