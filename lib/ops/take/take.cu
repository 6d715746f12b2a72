/* One thread copies one element. The indices have been checked. */
#include "indices_parameters_private.h"
#include "take_parameters_private.h"
#include "tensor.cuh"

template <typename T> static inline void take_bits(const mst_take_parameters &p) {
    const char *x = MST_ADDRESS(const char, p.row.base[0]);
    char *y = MST_ADDRESS(char, p.row.base[1]);
    const void *indices = MST_ADDRESS(const char, p.indices);
    MST_EACH(i, p.count * p.elements) {
        int64_t row = mst_quotient(i, p.elements), offset[2];
        mst_offsets<2>(p.row, i - row * p.elements, offset);
        int64_t from = mst_index_of(indices, p.index_dtype, p.index_stride, row) - p.first;
        bool here = from >= 0 && from < p.rows;
        *(T *)(y + row * p.y_stride + offset[1]) = here ? *(const T *)(x + from * p.x_stride + offset[0]) : (T)p.nothing;
    }
}

MST_KERNEL(mst_take, mst_take_parameters) {
    switch (p.element_size) {
    case 1:
        return take_bits<uint8_t>(p);
    case 2:
        return take_bits<uint16_t>(p);
    case 4:
        return take_bits<uint32_t>(p);
    default:
        return take_bits<uint64_t>(p);
    }
}
