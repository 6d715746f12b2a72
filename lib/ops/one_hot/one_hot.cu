/* The labels have been checked. The bits of 0 are 0 in every dtype. */
#include "indices_parameters_private.h"
#include "one_hot_parameters_private.h"
#include "tensor.cuh"

template <typename T> static inline void one_hot_bits(const mst_one_hot_parameters &p) {
    const void *labels = MST_ADDRESS(const char, p.labels);
    T *y = MST_ADDRESS(T, p.y);
    MST_EACH(i, p.n * p.k) {
        int64_t row = mst_quotient(i, p.k), column = i - row * p.k;
        bool hot = mst_index_of(labels, p.label_dtype, p.label_stride, row) == column;
        y[row * p.row_stride + column * p.column_stride] = hot ? (T)p.one : (T)0;
    }
}

MST_KERNEL(mst_one_hot, mst_one_hot_parameters) {
    switch (p.element_size) {
    case 1:
        return one_hot_bits<uint8_t>(p);
    case 2:
        return one_hot_bits<uint16_t>(p);
    case 4:
        return one_hot_bits<uint32_t>(p);
    default:
        return one_hot_bits<uint64_t>(p);
    }
}
