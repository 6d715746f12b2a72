/* What the kernels of fused groups are made of. A value is kept as it is stored, in the dtype of
 * its node: halves are rounded after each operation, and `where` moves bits unchanged, as the
 * built-in kernels do. OP is known when the program is compiled, so nothing is left of the
 * choice. */
#include "binary.cuh"
#include "clip.cuh"
#include "compare.cuh"
#include "fused_parameters_private.h"
#include "predicate.cuh"
#include "relu_gradient.cuh"
#include "tensor.cuh"
#include "unary.cuh"

/* A number by its bits, those of T in the first bytes: devices are little-endian. */
template <typename T> static inline T mst_fused_bits(uint64_t bits) {
    union {
        uint64_t bits;
        T value;
    } both;
    both.bits = bits;
    return both.value;
}

/* at[k] becomes the offset in bytes of element i of tensor k. */
template <int N> static inline void mst_fused_offsets(const mst_fused_parameters &p, int64_t i, int64_t *at) {
    for (int k = 0; k < N; k++) at[k] = 0;
    for (int32_t d = p.ndim - 1; d > 0; d--) {
        int64_t extent = p.shape[d], above = mst_quotient(i, extent), index = i - above * extent;
        for (int k = 0; k < N; k++) at[k] += index * p.strides[k][d];
        i = above;
    }
    for (int k = 0; k < N; k++) at[k] += i * p.strides[k][0];
}

template <typename D, int32_t OP> static inline typename D::stored mst_fused_unary_float(typename D::stored x) {
    typedef typename D::computed C;
    return D::store(mst_unary_float(OP, D::load(x), [](int32_t op, C v) -> C { return mst_unary_longer(op, v); }));
}
template <typename D, int32_t OP> static inline typename D::stored mst_fused_unary_signed(typename D::stored x) {
    return mst_unary_integer<typename D::computed, true>(OP, x);
}
template <typename D, int32_t OP> static inline typename D::stored mst_fused_unary_unsigned(typename D::stored x) {
    return mst_unary_integer<typename D::computed, false>(OP, x);
}

template <typename D, int32_t OP> static inline typename D::stored mst_fused_binary_float(typename D::stored a, typename D::stored b) {
    typedef typename D::computed C;
    return D::store(mst_binary_float(OP, D::load(a), D::load(b), [](int32_t op, C x, C y) -> C { return mst_binary_longer(op, x, y); }));
}
template <typename D, int32_t OP> static inline typename D::stored mst_fused_binary_signed(typename D::stored a, typename D::stored b) {
    return mst_binary_integer<typename D::computed, int64_t>(OP, a, b);
}
template <typename D, int32_t OP> static inline typename D::stored mst_fused_binary_unsigned(typename D::stored a, typename D::stored b) {
    return mst_binary_integer<typename D::computed, uint64_t>(OP, a, b);
}

template <typename D, int32_t OP> static inline uint8_t mst_fused_compare(typename D::stored a, typename D::stored b) {
    return mst_compare_values(OP, D::load(a), D::load(b));
}
template <typename D, int32_t OP> static inline uint8_t mst_fused_predicate(typename D::stored x) {
    return mst_predicate_value(OP, D::load(x));
}
template <typename D> static inline typename D::stored mst_fused_where(uint8_t condition, typename D::stored a, typename D::stored b) {
    return condition ? a : b;
}
/* The bounds are given in the type that is computed. */
template <typename D>
static inline typename D::stored mst_fused_clip(typename D::stored x, typename D::computed low, typename D::computed high) {
    return D::store(mst_clip_value(D::load(x), low, high));
}
template <typename D> static inline typename D::stored mst_fused_relu_gradient(typename D::stored y, typename D::stored dy) {
    return D::store(mst_relu_gradient_value(D::load(y), D::load(dy)));
}
