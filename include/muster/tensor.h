/* muster/tensor.h: the plain view through which every array enters and leaves Muster. */
#ifndef MUSTER_TENSOR_H
#define MUSTER_TENSOR_H

#include "muster/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum muster_tensor_constant { MUSTER_MAX_DIMS = 8, MUSTER_DEVICE_HOST = -1 };

/* A view of memory that it does not own. Its layout is frozen.
 * shape and strides count elements; strides[i] may be 0 or negative; entries at and beyond ndim are
 * ignored. The first element lies at (char *)data + byte_offset. device is the rank whose memory
 * `data` points into, or MUSTER_DEVICE_HOST for memory that any thread of the program may read.
 * reserved0 and reserved[1] are 0; reserved[0] is 0, or what muster_runtime_tensor_create put there
 * (a view that cannot be made keeps its reason in "no tensor"). The zero
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

/* The elements [begin, end) of one axis, as a view of the same memory. Gives "no tensor" if there
 * is no such axis or not 0 <= begin <= end <= its size. Threads: any. */
MUSTER_API muster_tensor muster_tensor_slice_axis(muster_tensor tensor, int32_t axis, int64_t begin, int64_t end);
/* A view with the axes in another order: axis i of the view is axis axes[i] of the tensor. `axes`
 * has ndim entries, each axis once; anything else gives "no tensor". Threads: any. */
MUSTER_API muster_tensor muster_tensor_permute(muster_tensor tensor, const int32_t *axes);
/* A view without the axis, whose size is 1, or with axis -1 without all axes of size 1. Gives "no
 * tensor" if the axis does not exist or has another size. Threads: any. */
MUSTER_API muster_tensor muster_tensor_squeeze(muster_tensor tensor, int32_t axis);
/* A view of the given shape that repeats elements: the shapes are aligned at the right, and size 1
 * repeats (stride 0). Gives "no tensor" if the sizes do not fit. Operations only read such a view.
 * Threads: any. */
MUSTER_API muster_tensor muster_tensor_broadcast(muster_tensor tensor, int32_t ndim, const int64_t *shape);

/* 1 if the elements lie one behind the other in row-major order, else 0. Threads: any. */
MUSTER_API int32_t muster_tensor_is_contiguous(muster_tensor tensor);
/* The elements times their size, which is the memory of a contiguous copy; 0 for "no tensor".
 * Threads: any. */
MUSTER_API int64_t muster_tensor_bytes(muster_tensor tensor);
/* Writes dtype, shape and elements as one line, such as "f32 (2, 3) [[1, 2, 3], [4, 5, 6]]", with
 * the terminating NUL into `text` of `size` bytes; a longer line is cut. *length (NULL: not wanted)
 * becomes the length of the whole line without the NUL, so that size 0 asks for it. Of an axis with
 * more than 8 elements the first and the last 3 are shown. Elements in the memory of a device are
 * not shown. Threads: any. Errors: INVALID_ARGUMENT (a bad size; NULL text; a tensor that every
 * function refuses), OVERFLOW. */
MUSTER_API MUSTER_NODISCARD muster_status muster_tensor_print(muster_tensor tensor, char *text, int64_t size, int64_t *length);

/* The address of the first element: data + byte_offset. Host code may dereference it only if device
 * is MUSTER_DEVICE_HOST, or inside a body on a device of the host backend. */
static inline void *muster_tensor_address(muster_tensor tensor) {
#ifdef __cplusplus
    return static_cast<char *>(tensor.data) + tensor.byte_offset;
#else
    return (char *)tensor.data + tensor.byte_offset;
#endif
}

/* Conversions between the bit patterns of f16 or bf16 and float. They round to nearest, ties to
 * even; NaN stays NaN. Threads: any. */
MUSTER_API float muster_f16_to_f32(uint16_t bits);
MUSTER_API uint16_t muster_f32_to_f16(float value);
MUSTER_API float muster_bf16_to_f32(uint16_t bits);
MUSTER_API uint16_t muster_f32_to_bf16(float value);

/* muster_f32(x, n, k) is an n x k host view of float *x; muster_f32(&r) is a scalar. Each dtype has
 * such a macro: f16, bf16, f32, f64, i8, u8, i16, i32, i64, u32, u64, bool. The pointer may point
 * to elements of the C type (float *, float[N]), to rows or matrices of them (float[N][K],
 * float[N][K][L]) or to void, with or without const; a pointer to another type does not compile. C
 * has no types for f16 and bf16: these two take the bits, uint16_t. muster_i64 takes long and long
 * long alike, and muster_u64 the unsigned ones. Sizes are integers of any type, such as size_t; one
 * above INT64_MAX makes a tensor that every function refuses. The tensor does not remember const: a
 * function writes only to the tensors that it names as outputs.
 * The comma that ends the argument list makes a scalar legal in strict C11. The pointer becomes an
 * integer on its way, so that -Wcast-qual has nothing to say. */
/* clang-format off */
/* MUSTER_SIZES_(n, k, ) is ", n, k" as int64_t. Only unsigned sizes are cast, so that the compiler
 * goes on to refuse pointers and to warn of fractions. */
#define MUSTER_SIZE_(n) \
    _Generic((n), unsigned: (int64_t)(n), unsigned long: (int64_t)(n), unsigned long long: (int64_t)(n), default: (n))
#define MUSTER_SIZES_0_(...)
#define MUSTER_SIZES_1_(n, ...) , MUSTER_SIZE_(n)
#define MUSTER_SIZES_2_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_1_(__VA_ARGS__)
#define MUSTER_SIZES_3_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_2_(__VA_ARGS__)
#define MUSTER_SIZES_4_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_3_(__VA_ARGS__)
#define MUSTER_SIZES_5_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_4_(__VA_ARGS__)
#define MUSTER_SIZES_6_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_5_(__VA_ARGS__)
#define MUSTER_SIZES_7_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_6_(__VA_ARGS__)
#define MUSTER_SIZES_8_(n, ...) , MUSTER_SIZE_(n) MUSTER_SIZES_7_(__VA_ARGS__)
#define MUSTER_SIZES_9_(...) , MUSTER_expects_at_most_8_sizes
#define MUSTER_SIZES_PICK_(a, b, c, d, e, f, g, h, i, j, count, ...) MUSTER_SIZES_##count##_
#define MUSTER_SIZES_(...) MUSTER_SIZES_PICK_(__VA_ARGS__, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, )(__VA_ARGS__)
#define MUSTER_SIZES_ARRAY_(...) ((const int64_t[]){0 MUSTER_SIZES_(__VA_ARGS__)} + 1)
#define MUSTER_SIZES_COUNT_(...) ((int32_t)(sizeof((int64_t[]){0 MUSTER_SIZES_(__VA_ARGS__)}) / sizeof(int64_t) - 1))
/* No type name stands for "an array of rows of any length", so that a matrix is recognised by the
 * type of its rows, which is what the pointer to it points to. */
#define MUSTER_TENSOR_GENERIC_(type, pointer, result, otherwise) \
    _Generic((pointer), type *: result, type (*)[]: result, void *: result, \
             const type *: result, const type (*)[]: result, const void *: result, default: otherwise)
#define MUSTER_TENSOR_TARGET_(type, pointer) *MUSTER_TENSOR_GENERIC_(type, pointer, (const type *)0, (pointer))
#define MUSTER_TENSOR_POINTER_(type, pointer) \
    MUSTER_TENSOR_GENERIC_(type, pointer, (pointer), \
        _Generic(MUSTER_TENSOR_TARGET_(type, pointer), type: (pointer), type (*)[]: (pointer), const type (*)[]: (pointer)))
/* int64_t is one of long and long long, and both have 64 bits where long has: muster_i64 and
 * muster_u64 take pointers to either. sign: signed or unsigned. */
#if defined(__SIZEOF_LONG__) && __SIZEOF_LONG__ == 8
#define MUSTER_TENSOR_LONG_(sign, result) \
    sign long *: result, sign long (*)[]: result, const sign long *: result, const sign long (*)[]: result,
#define MUSTER_TENSOR_LONG_ROWS_(sign, result) sign long: result, sign long (*)[]: result, const sign long (*)[]: result,
#else
#define MUSTER_TENSOR_LONG_(sign, result)
#define MUSTER_TENSOR_LONG_ROWS_(sign, result)
#endif
#define MUSTER_TENSOR_GENERIC_64_(sign, pointer, result, otherwise) \
    _Generic((pointer), MUSTER_TENSOR_LONG_(sign, result) sign long long *: result, sign long long (*)[]: result, void *: result, \
             const sign long long *: result, const sign long long (*)[]: result, const void *: result, default: otherwise)
#define MUSTER_TENSOR_TARGET_64_(sign, pointer) *MUSTER_TENSOR_GENERIC_64_(sign, pointer, (const sign long long *)0, (pointer))
#define MUSTER_TENSOR_POINTER_64_(sign, pointer) \
    MUSTER_TENSOR_GENERIC_64_(sign, pointer, (pointer), \
        _Generic(MUSTER_TENSOR_TARGET_64_(sign, pointer), MUSTER_TENSOR_LONG_ROWS_(sign, (pointer)) \
                 sign long long: (pointer), sign long long (*)[]: (pointer), const sign long long (*)[]: (pointer)))
/* clang-format on */
#define MUSTER_TENSOR_OF_(dtype, pointer, ...) \
    muster_tensor_make(dtype, (void *)(uintptr_t)(pointer), MUSTER_SIZES_COUNT_(__VA_ARGS__), MUSTER_SIZES_ARRAY_(__VA_ARGS__))
#define MUSTER_TENSOR_(dtype, type, pointer, ...) MUSTER_TENSOR_OF_(dtype, MUSTER_TENSOR_POINTER_(type, pointer), __VA_ARGS__)
#define MUSTER_TENSOR_64_(dtype, sign, pointer, ...) MUSTER_TENSOR_OF_(dtype, MUSTER_TENSOR_POINTER_64_(sign, pointer), __VA_ARGS__)
#if !defined(__cplusplus)
#define muster_f16(...) MUSTER_TENSOR_(MUSTER_F16, uint16_t, __VA_ARGS__, )
#define muster_bf16(...) MUSTER_TENSOR_(MUSTER_BF16, uint16_t, __VA_ARGS__, )
#define muster_f32(...) MUSTER_TENSOR_(MUSTER_F32, float, __VA_ARGS__, )
#define muster_f64(...) MUSTER_TENSOR_(MUSTER_F64, double, __VA_ARGS__, )
#define muster_i8(...) MUSTER_TENSOR_(MUSTER_I8, int8_t, __VA_ARGS__, )
#define muster_u8(...) MUSTER_TENSOR_(MUSTER_U8, uint8_t, __VA_ARGS__, )
#define muster_i16(...) MUSTER_TENSOR_(MUSTER_I16, int16_t, __VA_ARGS__, )
#define muster_i32(...) MUSTER_TENSOR_(MUSTER_I32, int32_t, __VA_ARGS__, )
#define muster_i64(...) MUSTER_TENSOR_64_(MUSTER_I64, signed, __VA_ARGS__, )
#define muster_u32(...) MUSTER_TENSOR_(MUSTER_U32, uint32_t, __VA_ARGS__, )
#define muster_u64(...) MUSTER_TENSOR_64_(MUSTER_U64, unsigned, __VA_ARGS__, )
#define muster_bool(...) MUSTER_TENSOR_(MUSTER_BOOL, _Bool, __VA_ARGS__, )
#endif

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && !defined(__CUDACC_RTC__) /* code for GPUs makes no tensors, and NVRTC has no standard headers */
/* C++ has no compound literals. There the same names are functions: muster_f32(x, {n, k}). They
 * take the same pointers, and nullptr. f16 and bf16 are uint16_t there, too, and bool is bool. */
#include <cstddef>
#include <initializer_list>
#include <type_traits>
/* A size in braces, from an integer of any type. */
struct muster_size_ {
    int64_t value;
    template <class Integer> constexpr muster_size_(Integer size) : value(static_cast<int64_t>(size)) {
        static_assert(std::is_integral<Integer>::value || std::is_enum<Integer>::value, "expected an integer as size");
    }
};
/* For an ndim that no tensor has, muster_tensor_make does not read the shape. */
inline muster_tensor muster_tensor_shaped_(muster_dtype dtype, void *data, std::initializer_list<muster_size_> shape) {
    int64_t sizes[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    for (const muster_size_ &size : shape) {
        if (ndim < MUSTER_MAX_DIMS) sizes[ndim] = size.value;
        ndim++;
    }
    return muster_tensor_make(dtype, data, ndim, sizes);
}
template <class Element, class Pointed>
inline muster_tensor muster_tensor_of_(muster_dtype dtype, Pointed *pointer, std::initializer_list<muster_size_> shape) {
    using given = typename std::remove_cv<typename std::remove_all_extents<Pointed>::type>::type;
    constexpr bool both_64 =
        sizeof(Element) == 8 && sizeof(long) == 8 &&
        ((std::is_same<Element, int64_t>::value && (std::is_same<given, long long>::value || std::is_same<given, long>::value)) ||
         (std::is_same<Element, uint64_t>::value &&
          (std::is_same<given, unsigned long long>::value || std::is_same<given, unsigned long>::value)));
    static_assert(std::is_void<Pointed>::value || std::is_same<given, Element>::value || both_64,
                  "expected a pointer to the element type, to rows or matrices of it, or to void");
    return muster_tensor_shaped_(dtype, const_cast<void *>(static_cast<const void *>(pointer)), shape);
}
#define MUSTER_TENSOR_FUNCTION_(name, dtype, element)                                                                      \
    template <class Pointed> inline muster_tensor name(Pointed *pointer, std::initializer_list<muster_size_> shape = {}) { \
        return muster_tensor_of_<element>(dtype, pointer, shape);                                                          \
    }                                                                                                                      \
    inline muster_tensor name(std::nullptr_t, std::initializer_list<muster_size_> shape = {}) {                            \
        return muster_tensor_of_<element>(dtype, static_cast<void *>(nullptr), shape);                                     \
    }
MUSTER_TENSOR_FUNCTION_(muster_f16, MUSTER_F16, uint16_t)
MUSTER_TENSOR_FUNCTION_(muster_bf16, MUSTER_BF16, uint16_t)
MUSTER_TENSOR_FUNCTION_(muster_f32, MUSTER_F32, float)
MUSTER_TENSOR_FUNCTION_(muster_f64, MUSTER_F64, double)
MUSTER_TENSOR_FUNCTION_(muster_i8, MUSTER_I8, int8_t)
MUSTER_TENSOR_FUNCTION_(muster_u8, MUSTER_U8, uint8_t)
MUSTER_TENSOR_FUNCTION_(muster_i16, MUSTER_I16, int16_t)
MUSTER_TENSOR_FUNCTION_(muster_i32, MUSTER_I32, int32_t)
MUSTER_TENSOR_FUNCTION_(muster_i64, MUSTER_I64, int64_t)
MUSTER_TENSOR_FUNCTION_(muster_u32, MUSTER_U32, uint32_t)
MUSTER_TENSOR_FUNCTION_(muster_u64, MUSTER_U64, uint64_t)
MUSTER_TENSOR_FUNCTION_(muster_bool, MUSTER_BOOL, bool)
#undef MUSTER_TENSOR_FUNCTION_
#endif
#endif
