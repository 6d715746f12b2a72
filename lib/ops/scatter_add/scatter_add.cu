#include "indices_parameters_private.h"
#include "scatter_add_parameters_private.h"
#include "tensor.cuh"

/* f16, bf16 and f32 are added up in double; integers wrap. */
static inline double scatter_add_plus(double a, double b) { return a + b; }
template <typename C> static inline C scatter_add_plus(C a, C b) { return (C)((uint64_t)a + (uint64_t)b); }
template <typename C> struct scatter_add_sum { typedef C type; };
template <> struct scatter_add_sum<float> { typedef double type; };

template <typename D> static inline void scatter_add(const mst_scatter_add_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    typedef typename scatter_add_sum<C>::type A;
    const char *x = MST_ADDRESS(const char, p.row.base[0]);
    char *y = MST_ADDRESS(char, p.row.base[1]);
    const void *indices = MST_ADDRESS(const char, p.indices);
    const int64_t *order = MST_ADDRESS(const int64_t, p.order);
    MST_EACH(t, p.elements * p.count) {
        int64_t k = mst_quotient(t, p.elements), index = mst_index_of(indices, p.index_dtype, p.index_stride, order[k]), offset[2];
        int64_t row = index - p.first;
        if (row < 0 || row >= p.rows) continue;
        if (k > 0 && mst_index_of(indices, p.index_dtype, p.index_stride, order[k - 1]) == index) continue;
        mst_offsets<2>(p.row, t - k * p.elements, offset);
        T *to = (T *)(y + row * p.y_stride + offset[1]);
        A sum = (A)D::load(*to);
        do sum = scatter_add_plus(sum, (A)D::load(*(const T *)(x + order[k] * p.x_stride + offset[0])));
        while (++k < p.count && mst_index_of(indices, p.index_dtype, p.index_stride, order[k]) == index);
        *to = D::store((C)sum);
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
