/* muster/tensor.h: the plain view through which every array enters and leaves Muster. */
#ifndef MUSTER_TENSOR_H
#define MUSTER_TENSOR_H

#include "muster/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MUSTER_MAX_DIMS = 8, MUSTER_DEVICE_HOST = -1 };

/* A view of memory that it does not own. Its layout is frozen.
 * shape and strides count elements; strides[i] may be 0 or negative; entries at and beyond ndim are
 * 0. The first element lies at (char *)data + byte_offset. device is the rank whose memory `data`
 * points into, or MUSTER_DEVICE_HOST for memory that any thread of the program may read. The zero
 * value (dtype MUSTER_DTYPE_NONE) means "no tensor". */
typedef struct muster_tensor {
    muster_dtype dtype;
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS];
    int64_t strides[MUSTER_MAX_DIMS];
    void *data;
    int64_t byte_offset;
    int32_t device;
    int32_t reserved0;
    int64_t reserved[2];
} muster_tensor;

/* A contiguous row-major host view of `data`. If ndim is negative or above MUSTER_MAX_DIMS, a size
 * is negative, the dtype is unknown or the total size overflows 64 bits, every function refuses the
 * resulting tensor with that reason. Threads: any. */
MUSTER_API muster_tensor muster_tensor_make(muster_dtype dtype, void *data, int32_t ndim, const int64_t *shape);

/* "No tensor". As an output it means that the call need not compute it. Threads: any. */
MUSTER_API muster_tensor muster_tensor_none(void);

/* The number of elements (1 for ndim 0). Threads: any. */
MUSTER_API int64_t muster_tensor_count(muster_tensor tensor);
/* The number of rows: shape[0], or 1 for ndim 0. Threads: any. */
MUSTER_API int64_t muster_tensor_rows(muster_tensor tensor);

/* The rows [begin, end) of axis 0, as a view of the same memory. The bounds are not checked.
 * Threads: any. */
MUSTER_API muster_tensor muster_tensor_slice(muster_tensor tensor, int64_t begin, int64_t end);

/* A view of the same elements with another shape. Gives "no tensor" if the tensor is not contiguous
 * or the element counts differ. Threads: any. */
MUSTER_API muster_tensor muster_tensor_reshape(muster_tensor tensor, int32_t ndim, const int64_t *shape);

/* A view with the axes in reverse order: the transpose of a matrix. Threads: any. */
MUSTER_API muster_tensor muster_tensor_transpose(muster_tensor tensor);

/* The address of the first element: data + byte_offset. Host code may dereference it only if device
 * is MUSTER_DEVICE_HOST, or inside a body on a device of the host backend. */
static inline void *muster_tensor_address(muster_tensor tensor) { return (void *)((char *)tensor.data + tensor.byte_offset); }

/* Conversions between the bit patterns of f16 or bf16 and float. They round to nearest, ties to
 * even; NaN stays NaN. Threads: any. */
MUSTER_API float muster_f16_to_f32(uint16_t bits);
MUSTER_API uint16_t muster_f32_to_f16(float value);
MUSTER_API float muster_bf16_to_f32(uint16_t bits);
MUSTER_API uint16_t muster_f32_to_bf16(float value);

/* muster_f32(x, n, k) is an n x k host view of float *x; muster_f32(&r) is a scalar. f64, i32, i64
 * and u8 have the same macro. In C the pointer may point to elements of that type, to rows of them
 * (float x[3][4]) or to void; any other pointer type fails to compile. The comma that ends the
 * argument list makes a scalar legal in strict C11. */
#define MUSTER_TENSOR_SHAPE_(...) ((const int64_t[]){0, __VA_ARGS__} + 1)
#define MUSTER_TENSOR_NDIM_(...) ((int32_t)(sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1))
/* clang-format off */
#define MUSTER_TENSOR_POINTER_(type, pointer) \
    _Generic((pointer), type *: (pointer), type (*)[]: (pointer), void *: (pointer), \
             const type *: (pointer), const type (*)[]: (pointer), const void *: (pointer))
/* clang-format on */
#define MUSTER_TENSOR_(dtype, type, pointer, ...)                                                              \
    muster_tensor_make(dtype, (void *)MUSTER_TENSOR_POINTER_(type, pointer), MUSTER_TENSOR_NDIM_(__VA_ARGS__), \
                       MUSTER_TENSOR_SHAPE_(__VA_ARGS__))
#if !defined(__cplusplus)
#define muster_f32(...) MUSTER_TENSOR_(MUSTER_F32, float, __VA_ARGS__, )
#define muster_f64(...) MUSTER_TENSOR_(MUSTER_F64, double, __VA_ARGS__, )
#define muster_i32(...) MUSTER_TENSOR_(MUSTER_I32, int32_t, __VA_ARGS__, )
#define muster_i64(...) MUSTER_TENSOR_(MUSTER_I64, int64_t, __VA_ARGS__, )
#define muster_u8(...) MUSTER_TENSOR_(MUSTER_U8, uint8_t, __VA_ARGS__, )
#endif

#ifdef __cplusplus
}

/* C++ has no compound literals. There the same names are functions: muster_f32(x, {n, k}). */
#include <initializer_list>
static inline muster_tensor muster_f32(const float *p, std::initializer_list<int64_t> shape = {}) {
    return muster_tensor_make(MUSTER_F32, const_cast<float *>(p), (int32_t)shape.size(), shape.begin());
}
static inline muster_tensor muster_f64(const double *p, std::initializer_list<int64_t> shape = {}) {
    return muster_tensor_make(MUSTER_F64, const_cast<double *>(p), (int32_t)shape.size(), shape.begin());
}
static inline muster_tensor muster_i32(const int32_t *p, std::initializer_list<int64_t> shape = {}) {
    return muster_tensor_make(MUSTER_I32, const_cast<int32_t *>(p), (int32_t)shape.size(), shape.begin());
}
static inline muster_tensor muster_u8(const uint8_t *p, std::initializer_list<int64_t> shape = {}) {
    return muster_tensor_make(MUSTER_U8, const_cast<uint8_t *>(p), (int32_t)shape.size(), shape.begin());
}
static inline muster_tensor muster_i64(const int64_t *p, std::initializer_list<int64_t> shape = {}) {
    return muster_tensor_make(MUSTER_I64, const_cast<int64_t *>(p), (int32_t)shape.size(), shape.begin());
}
#endif
#endif
