#include "dot_parameters_private.h"
#include "tensor.cuh"

struct dot_plus {
    inline double operator()(double a, double b) const { return a + b; }
};

template <typename T> static inline void dot_blocks(const mst_dot_parameters &p) {
    const T *x = MST_ADDRESS(const T, p.x), *y = MST_ADDRESS(const T, p.y);
    double *partials = MST_ADDRESS(double, p.partials);
    MST_BLOCKS(b, p.chunks) {
        int64_t begin = b * p.chunk, left = p.length - begin;
        const T *u = x + begin * p.x_stride, *v = y + begin * p.y_stride;
        MST_BLOCK_REDUCE(double, sum, i, left < p.chunk ? left : p.chunk, 0.0, (double)u[i * p.x_stride] * (double)v[i * p.y_stride],
                         dot_plus());
        MST_ONE { partials[b] = sum; }
    }
}

MST_KERNEL(mst_dot, mst_dot_parameters) {
    if (p.dtype == MUSTER_F32)
        dot_blocks<float>(p);
    else
        dot_blocks<double>(p);
}
