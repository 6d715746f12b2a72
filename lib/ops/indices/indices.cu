/* Indices out of range: one block searches one chunk. */
#include "indices_parameters_private.h"
#include "tensor.cuh"

struct indices_first {
    inline int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

MST_KERNEL(mst_indices, mst_indices_parameters) {
    const void *indices = MST_ADDRESS(const char, p.indices);
    int64_t *bad = MST_ADDRESS(int64_t, p.bad);
    MST_BLOCKS(c, p.chunks) {
        int64_t begin = c * p.chunk, left = p.count - begin, n = left < p.chunk ? left : p.chunk;
        auto in_range = [=](int64_t i) -> bool {
            int64_t index = mst_index_of(indices, p.dtype, p.stride, begin + i);
            return index >= 0 && index < p.bound;
        };
        MST_BLOCK_REDUCE(int64_t, first, i, n, n, in_range(i) ? n : i, indices_first());
        MST_ONE {
            bad[2 * c] = first < n ? begin + first : -1;
            bad[2 * c + 1] = first < n ? mst_index_of(indices, p.dtype, p.stride, begin + first) : 0;
        }
    }
}
