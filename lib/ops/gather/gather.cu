/* Row i of the result is row indices[i]. */
#include "gather_parameters_private.h"
#include "tensor.cuh"

struct alignas(16) gather_sixteen {
    uint64_t words[2];
};

template <typename T> static inline void gather_rows(const mst_gather_parameters &p) {
    T *to = MST_ADDRESS(T, p.to);
    const T *from = MST_ADDRESS(const T, p.from);
    const int64_t *indices = MST_ADDRESS(const int64_t, p.indices);
    int64_t row = p.row_bytes / (int64_t)sizeof(T);
    MST_EACH(i, p.count * row) {
        int64_t index = mst_quotient(i, row);
        to[i] = from[indices[index] * row + (i - index * row)];
    }
}

MST_KERNEL(mst_gather, mst_gather_parameters) {
    switch (p.width) {
    case 1:
        return gather_rows<uint8_t>(p);
    case 2:
        return gather_rows<uint16_t>(p);
    case 4:
        return gather_rows<uint32_t>(p);
    case 8:
        return gather_rows<uint64_t>(p);
    default:
        return gather_rows<gather_sixteen>(p);
    }
}
