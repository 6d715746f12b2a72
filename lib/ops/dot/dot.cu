#include "dot_parameters_private.h"
#include "float_sums.cuh"
#include "tensor.cuh"

struct dot_plus {
    inline double operator()(double a, double b) const { return a + b; }
};

/* Products i, i + MST_THREADS and so on, below `end`; at most MST_SUM_GROUP. */
template <typename T> static inline double dot_wide(const mst_dot_parameters &p, const T *u, const T *v, int64_t i, int64_t end) {
    double sum = 0;
    for (; i < end; i += MST_THREADS) sum += (double)u[i * p.x_stride] * (double)v[i * p.y_stride];
    return sum;
}
static inline double dot_group(const mst_dot_parameters &p, const double *u, const double *v, int64_t begin, int64_t end) {
    return dot_wide(p, u, v, begin, end);
}
static inline double dot_group(const mst_dot_parameters &p, const float *u, const float *v, int64_t begin, int64_t end) {
    mst_float_sum sum;
    for (int64_t i = begin; i < end; i += MST_THREADS) sum.add_product(u[i * p.x_stride], v[i * p.y_stride]);
    return sum.holds_products() ? sum.value() : dot_wide(p, u, v, begin, end);
}

/* Group g of a chunk belongs to thread g % MST_THREADS of the block. Neighbouring threads read
 * neighbouring elements. */
template <typename T> static inline void dot_blocks(const mst_dot_parameters &p) {
    enum { TILE = MST_THREADS * MST_SUM_GROUP };
    const T *x = MST_ADDRESS(const T, p.x), *y = MST_ADDRESS(const T, p.y);
    double *partials = MST_ADDRESS(double, p.partials);
    MST_BLOCKS(b, p.chunks) {
        int64_t begin = b * p.chunk, left = p.length - begin, count = left < p.chunk ? left : p.chunk;
        const T *u = x + begin * p.x_stride, *v = y + begin * p.y_stride;
        auto group = [&](int64_t g) -> double {
            int64_t tile = g / MST_THREADS * TILE;
            return dot_group(p, u, v, tile + g % MST_THREADS, tile + TILE < count ? tile + TILE : count);
        };
        MST_BLOCK_REDUCE(double, sum, g, (count + TILE - 1) / TILE * MST_THREADS, 0.0, group(g), dot_plus());
        MST_ONE { partials[b] = sum; }
    }
}

MST_KERNEL(mst_dot, mst_dot_parameters) {
    if (p.dtype == MUSTER_F32)
        dot_blocks<float>(p);
    else
        dot_blocks<double>(p);
}
