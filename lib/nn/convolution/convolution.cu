/* Convolutions: one thread computes an element of the result. */
#include "convolution_parameters_private.h"
#include "tensor.cuh"

/* The indices of element i. */
static inline void convolution_indices(const mst_convolution_layout &layout, int64_t i, int64_t *index) {
    for (int d = MST_CONVOLUTION_DIMS - 1; d > 0; d--) {
        const int64_t above = mst_quotient(i, layout.shape[d]);
        index[d] = i - above * layout.shape[d];
        i = above;
    }
    index[0] = i;
}

static inline int64_t convolution_offset(const mst_convolution_layout &layout, const int64_t *index) {
    int64_t offset = 0;
    for (int d = 0; d < MST_CONVOLUTION_DIMS; d++) offset += index[d] * layout.strides[d];
    return offset;
}

/* Where along x element k of the window stands at place p. */
static inline int64_t convolution_position(const mst_convolution_geometry &g, int d, int64_t p, int64_t k) {
    return p * g.stride[d] + k * g.dilation[d] - g.before[d];
}
static inline bool convolution_inside(const mst_convolution_geometry &g, int d, int64_t position) {
    return position >= 0 && position < g.x.shape[2 + d];
}

/* The place at which element k of the window stands at this position; -1: there is none. */
static inline int64_t convolution_place(const mst_convolution_geometry &g, int d, int64_t position, int64_t k) {
    const int64_t distance = position + g.before[d] - k * g.dilation[d];
    if (distance < 0) return -1;
    const int64_t place = mst_quotient(distance, g.stride[d]);
    return place * g.stride[d] == distance && place < g.y.shape[2 + d] ? place : -1;
}

template <typename D> static inline void convolution_forward(const mst_convolution_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const mst_convolution_geometry &g = p.geometry;
    const T *x = MST_ADDRESS(const T, p.x), *w = MST_ADDRESS(const T, p.w), *bias = MST_ADDRESS(const T, p.bias);
    T *y = MST_ADDRESS(T, p.y);
    const int64_t channels = g.w.shape[1], outputs = g.w.shape[0] / g.groups;
    MST_EACH(i, g.y.shape[0] * g.y.shape[1] * g.y.shape[2] * g.y.shape[3] * g.y.shape[4]) {
        int64_t at[MST_CONVOLUTION_DIMS];
        convolution_indices(g.y, i, at);
        const T *from = x + at[0] * g.x.strides[0] + at[1] / outputs * channels * g.x.strides[1], *weights = w + at[1] * g.w.strides[0];
        C sum = bias ? D::load(bias[at[1] * g.bias_stride]) : (C)0;
        for (int64_t a = 0; a < g.w.shape[2]; a++)
            for (int64_t b = 0; b < g.w.shape[3]; b++)
                for (int64_t c = 0; c < g.w.shape[4]; c++) {
                    const int64_t q0 = convolution_position(g, 0, at[2], a), q1 = convolution_position(g, 1, at[3], b),
                                  q2 = convolution_position(g, 2, at[4], c);
                    if (!convolution_inside(g, 0, q0) || !convolution_inside(g, 1, q1) || !convolution_inside(g, 2, q2)) continue;
                    const T *in = from + q0 * g.x.strides[2] + q1 * g.x.strides[3] + q2 * g.x.strides[4];
                    const T *by = weights + a * g.w.strides[2] + b * g.w.strides[3] + c * g.w.strides[4];
                    for (int64_t k = 0; k < channels; k++) sum += D::load(in[k * g.x.strides[1]]) * D::load(by[k * g.w.strides[1]]);
                }
        y[convolution_offset(g.y, at)] = D::store(sum);
    }
}

template <typename D> static inline void convolution_data(const mst_convolution_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const mst_convolution_geometry &g = p.geometry;
    const T *y = MST_ADDRESS(const T, p.y), *w = MST_ADDRESS(const T, p.w);
    T *x = MST_ADDRESS(T, p.x);
    const int64_t channels = g.w.shape[1], outputs = g.w.shape[0] / g.groups;
    MST_EACH(i, g.x.shape[0] * g.x.shape[1] * g.x.shape[2] * g.x.shape[3] * g.x.shape[4]) {
        int64_t at[MST_CONVOLUTION_DIMS];
        convolution_indices(g.x, i, at);
        const int64_t group = at[1] / channels;
        const T *from = y + at[0] * g.y.strides[0] + group * outputs * g.y.strides[1];
        const T *weights = w + group * outputs * g.w.strides[0] + (at[1] - group * channels) * g.w.strides[1];
        C sum = 0;
        for (int64_t a = 0; a < g.w.shape[2]; a++)
            for (int64_t b = 0; b < g.w.shape[3]; b++)
                for (int64_t c = 0; c < g.w.shape[4]; c++) {
                    const int64_t p0 = convolution_place(g, 0, at[2], a), p1 = convolution_place(g, 1, at[3], b),
                                  p2 = convolution_place(g, 2, at[4], c);
                    if (p0 < 0 || p1 < 0 || p2 < 0) continue;
                    const T *in = from + p0 * g.y.strides[2] + p1 * g.y.strides[3] + p2 * g.y.strides[4];
                    const T *by = weights + a * g.w.strides[2] + b * g.w.strides[3] + c * g.w.strides[4];
                    for (int64_t o = 0; o < outputs; o++) sum += D::load(in[o * g.y.strides[1]]) * D::load(by[o * g.w.strides[0]]);
                }
        x[convolution_offset(g.x, at)] = D::store(sum);
    }
}

/* The sum over the last axis is computed in C, and the sum of these, which has a term for each row
 * of each image, in double. */
template <typename D> static inline void convolution_weights(const mst_convolution_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const mst_convolution_geometry &g = p.geometry;
    const T *x = MST_ADDRESS(const T, p.x), *y = MST_ADDRESS(const T, p.y);
    T *w = MST_ADDRESS(T, p.w);
    const int64_t outputs = g.w.shape[0] / g.groups;
    MST_EACH(i, g.w.shape[0] * g.w.shape[1] * g.w.shape[2] * g.w.shape[3] * g.w.shape[4]) {
        int64_t at[MST_CONVOLUTION_DIMS];
        convolution_indices(g.w, i, at);
        const T *of_x = x + (at[0] / outputs * g.w.shape[1] + at[1]) * g.x.strides[1], *of_y = y + at[0] * g.y.strides[1];
        double sum = 0;
        for (int64_t n = 0; n < g.y.shape[0]; n++)
            for (int64_t a = 0; a < g.y.shape[2]; a++)
                for (int64_t b = 0; b < g.y.shape[3]; b++) {
                    const int64_t q0 = convolution_position(g, 0, a, at[2]), q1 = convolution_position(g, 1, b, at[3]);
                    if (!convolution_inside(g, 0, q0) || !convolution_inside(g, 1, q1)) continue;
                    const T *in = of_x + n * g.x.strides[0] + q0 * g.x.strides[2] + q1 * g.x.strides[3];
                    const T *by = of_y + n * g.y.strides[0] + a * g.y.strides[2] + b * g.y.strides[3];
                    C row = 0;
                    for (int64_t c = 0; c < g.y.shape[4]; c++) {
                        const int64_t q2 = convolution_position(g, 2, c, at[4]);
                        if (convolution_inside(g, 2, q2)) row += D::load(in[q2 * g.x.strides[4]]) * D::load(by[c * g.y.strides[4]]);
                    }
                    sum += (double)row;
                }
        w[convolution_offset(g.w, at)] = D::store((C)sum);
    }
}

#define CONVOLUTION_KERNEL(kind)                \
    switch (p.geometry.dtype) {                 \
    case MUSTER_F16:                            \
        return convolution_##kind<mst_f16>(p);  \
    case MUSTER_BF16:                           \
        return convolution_##kind<mst_bf16>(p); \
    case MUSTER_F32:                            \
        return convolution_##kind<mst_f32>(p);  \
    case MUSTER_F64:                            \
        return convolution_##kind<mst_f64>(p);  \
    }

MST_KERNEL(mst_convolve_forward, mst_convolution_parameters){CONVOLUTION_KERNEL(forward)}

MST_KERNEL(mst_convolve_data, mst_convolution_parameters){CONVOLUTION_KERNEL(data)}

MST_KERNEL(mst_convolve_weights, mst_convolution_parameters) {
    CONVOLUTION_KERNEL(weights)
}
