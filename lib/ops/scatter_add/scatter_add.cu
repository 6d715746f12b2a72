#include "indices_parameters_private.h"
#include "scatter_add_parameters_private.h"
#include "tensor.cuh"

static inline float scatter_add_plus(float a, float b) { return a + b; }
static inline double scatter_add_plus(double a, double b) { return a + b; }
template <typename C> static inline C scatter_add_plus(C a, C b) { return (C)((uint64_t)a + (uint64_t)b); } /* wraps */

template <typename D> static inline void scatter_add(const mst_scatter_add_parameters &p) {
    typedef typename D::stored T;
    const char *x = MST_ADDRESS(const char, p.row.base[0]);
    char *y = MST_ADDRESS(char, p.row.base[1]);
    const void *indices = MST_ADDRESS(const char, p.indices);
    MST_EACH(t, p.elements * p.chunks) {
        int64_t chunk = mst_quotient(t, p.elements), begin = chunk * p.chunk, offset[2];
        mst_offsets<2>(p.row, t - chunk * p.elements, offset);
        for (int64_t i = 0; i < p.count; i++) {
            int64_t row = mst_index_of(indices, p.index_dtype, p.index_stride, i) - p.first;
            if (row < begin || row >= begin + p.chunk || row >= p.rows) continue;
            T *to = (T *)(y + row * p.y_stride + offset[1]);
            *to = D::store(scatter_add_plus(D::load(*to), D::load(*(const T *)(x + i * p.x_stride + offset[0]))));
        }
    }
}

MST_KERNEL(mst_scatter_add, mst_scatter_add_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return scatter_add<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
        MST_EACH_SIGNED_TYPE(CASE)
        MST_EACH_UNSIGNED_TYPE(CASE)
#undef CASE
    }
}
