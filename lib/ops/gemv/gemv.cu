/* One thread computes a row if the row is short or the columns are contiguous; otherwise one block
 * does. */
#include "gemv_parameters_private.h"
#include "tensor.cuh"

template <typename T> struct gemv_plus {
    inline T operator()(T a, T b) const { return a + b; }
};

template <typename T> static inline void gemv_store(const mst_gemv_parameters &p, T *y, int64_t row, T sum) {
    T *to = y + row * p.y_stride;
    *to = p.beta == 0 ? (T)p.alpha * sum : (T)p.alpha * sum + (T)p.beta * *to;
}

template <typename T> static inline void gemv_threads(const mst_gemv_parameters &p) {
    const T *a = MST_ADDRESS(const T, p.a), *x = MST_ADDRESS(const T, p.x);
    T *y = MST_ADDRESS(T, p.y);
    MST_EACH(row, p.n) {
        const T *from = a + row * p.row_stride;
        T sum = 0;
        for (int64_t j = 0; j < p.k; j++) sum += from[j * p.column_stride] * x[j * p.x_stride];
        gemv_store(p, y, row, sum);
    }
}

template <typename T> static inline void gemv_blocks(const mst_gemv_parameters &p) {
    const T *a = MST_ADDRESS(const T, p.a), *x = MST_ADDRESS(const T, p.x);
    T *y = MST_ADDRESS(T, p.y);
    MST_BLOCKS(row, p.n) {
        const T *from = a + row * p.row_stride;
        MST_BLOCK_REDUCE(T, sum, j, p.k, (T)0, from[j * p.column_stride] * x[j * p.x_stride], gemv_plus<T>());
        MST_ONE { gemv_store(p, y, row, sum); }
    }
}

MST_KERNEL(mst_gemv_threads, mst_gemv_parameters) {
    if (p.dtype == MUSTER_F32)
        gemv_threads<float>(p);
    else
        gemv_threads<double>(p);
}

MST_KERNEL(mst_gemv_blocks, mst_gemv_parameters) {
    if (p.dtype == MUSTER_F32)
        gemv_blocks<float>(p);
    else
        gemv_blocks<double>(p);
}
