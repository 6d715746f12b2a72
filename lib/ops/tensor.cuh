/* Element types, and the iterator over strided operands, for the kernel sources of operations. */
#ifndef MST_TENSOR_CUH
#define MST_TENSOR_CUH

#include "convert_impl.h"
#include "iterator_impl.h"
#include "mst_device.cuh"
#include "muster/ops.h"

/* f16 is converted by instructions of the processor, which agree with half_impl.h except for
 * NaN. */
#if defined(__CUDA_ARCH__) && !defined(MST_SIMULATED)
static inline float mst_load_f16(uint16_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return (half & 0x7c00u) == 0x7c00u ? mst_f32_of_bits((uint32_t)(half & 0x8000u) << 16 | 0x7f800000u | (uint32_t)(half & 0x3ffu) << 13 |
                                                         ((half & 0x3ffu) ? 0x00400000u : 0u))
                                       : value;
}
static inline uint16_t mst_store_f16(float value) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    uint32_t bits = mst_bits_of_f32(value);
    return value == value ? half : (uint16_t)(bits >> 16 & 0x8000u | 0x7e00u | bits >> 13 & 0x3ffu);
}
#else
static inline float mst_load_f16(uint16_t half) { return mst_f16_to_f32(half); }
static inline uint16_t mst_store_f16(float value) { return mst_f32_to_f16(value); }
#endif

/* An element type: the type that is stored, the type that is computed, and their conversions. */
#define MST_TYPE(NAME, stored_type, computed_type, load_expression, store_expression) \
    struct mst_##NAME {                                                               \
        typedef stored_type stored;                                                   \
        typedef computed_type computed;                                               \
        static inline computed load(stored value) { return load_expression; }         \
        static inline stored store(computed value) { return store_expression; }       \
    };
MST_TYPE(f16, uint16_t, float, mst_load_f16(value), mst_store_f16(value))
MST_TYPE(bf16, uint16_t, float, mst_bf16_to_f32(value), mst_f32_to_bf16(value))
MST_TYPE(f32, float, float, value, value)
MST_TYPE(f64, double, double, value, value)
MST_TYPE(i8, int8_t, int8_t, value, value)
MST_TYPE(u8, uint8_t, uint8_t, value, value)
MST_TYPE(i16, int16_t, int16_t, value, value)
MST_TYPE(i32, int32_t, int32_t, value, value)
MST_TYPE(i64, int64_t, int64_t, value, value)
MST_TYPE(u32, uint32_t, uint32_t, value, value)
MST_TYPE(u64, uint64_t, uint64_t, value, value)
MST_TYPE(bool, uint8_t, uint8_t, value != 0, value)
/* Elements that are moved but not computed. */
MST_TYPE(bits8, uint8_t, uint8_t, value, value)
MST_TYPE(bits16, uint16_t, uint16_t, value, value)
MST_TYPE(bits32, uint32_t, uint32_t, value, value)
MST_TYPE(bits64, uint64_t, uint64_t, value, value)
#undef MST_TYPE

/* X(NAME, name) for each dtype, for example the cases of a switch. */
#define MST_EACH_FLOAT_TYPE(X) X(F16, f16) X(BF16, bf16) X(F32, f32) X(F64, f64)
#define MST_EACH_SIGNED_TYPE(X) X(I8, i8) X(I16, i16) X(I32, i32) X(I64, i64)
#define MST_EACH_UNSIGNED_TYPE(X) X(U8, u8) X(U32, u32) X(U64, u64)

/* i / n for i >= 0 and n > 0, in 32 bits where both fit: a division in 64 bits takes several times
 * as long on a GPU. */
static inline int64_t mst_quotient(int64_t i, int64_t n) { return ((i | n) >> 32) == 0 ? (uint32_t)i / (uint32_t)n : i / n; }

/* offset[k] becomes the offset in bytes of element i of operand k. */
template <int N> MST_OUTLINE void mst_offsets(const mst_iterator &iterator, int64_t i, int64_t *offset) {
    for (int k = 0; k < N; k++) offset[k] = 0;
    for (int32_t d = iterator.ndim - 1; d > 0; d--) {
        int64_t extent = iterator.shape[d], above = mst_quotient(i, extent), index = i - above * extent;
        for (int k = 0; k < N; k++) offset[k] += index * iterator.strides[k][d];
        i = above;
    }
    for (int k = 0; k < N; k++) offset[k] += i * iterator.strides[k][0];
}

/* Elements that are loaded and stored at once: four, or two of 8 bytes. */
template <typename T> struct mst_pack_width {
    enum { ELEMENTS = sizeof(T) == 8 ? 2 : 4 };
};
template <typename T> struct alignas(mst_pack_width<T>::ELEMENTS * sizeof(T)) mst_pack { T elements[mst_pack_width<T>::ELEMENTS]; };

/* Operand N of the iterator becomes f(values of operands 0 to N - 1). All have one type. */
template <typename D, int N, typename F> static inline void mst_map(const mst_iterator &iterator, int64_t count, F f) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    enum { INPUTS = N > 0 ? N : 1, WIDTH = mst_pack_width<T>::ELEMENTS };
    char *base[N + 1];
    bool packed = iterator.ndim == 1;
    for (int k = 0; k <= N; k++) {
        base[k] = MST_ADDRESS(char, iterator.base[k]);
        packed = packed && iterator.strides[k][0] == (int64_t)sizeof(T) && (uintptr_t)base[k] % sizeof(mst_pack<T>) == 0;
    }
    int64_t done = 0;
    if (packed) {
        MST_EACH(i, count / WIDTH) {
            mst_pack<T> in[INPUTS], out;
            for (int k = 0; k < N; k++) in[k] = ((const mst_pack<T> *)base[k])[i];
            for (int j = 0; j < WIDTH; j++) {
                C value[INPUTS] = {0};
                for (int k = 0; k < N; k++) value[k] = D::load(in[k].elements[j]);
                out.elements[j] = D::store(f(value));
            }
            ((mst_pack<T> *)base[N])[i] = out;
        }
        done = count / WIDTH * WIDTH;
    }
    MST_EACH(i, count - done) {
        int64_t offset[N + 1];
        C value[INPUTS] = {0};
        mst_offsets<N + 1>(iterator, done + i, offset);
        for (int k = 0; k < N; k++) value[k] = D::load(*(const T *)(base[k] + offset[k]));
        *(T *)(base[N] + offset[N]) = D::store(f(value));
    }
}

#endif
