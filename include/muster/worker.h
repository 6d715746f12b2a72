/* muster/worker.h: what a function body can ask its worker. Threads of every function here: worker.
 * For a NULL worker, numbers are -1 (the weight and "cancelled" are 0) and the backend is NULL;
 * functions that return a status return INVALID_ARGUMENT. For a worker that the program has kept
 * after its body, functions that return a status return BAD_STATE, those that give a tensor give
 * "no tensor", and muster_worker_scratch_mark gives -1. The other numbers, the backend and
 * "cancelled" are read from the worker's memory without a check: for a kept worker they are
 * undefined, and after its runtime has closed they must not be asked for. */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The thread that drives one device, during one call. Valid only inside the body that received
 * it. */
typedef struct muster_worker muster_worker;

/* The rank, in [0, size), and the number of devices that take part in the call (1 in a single
 * call). */
MUSTER_API int32_t muster_worker_rank(const muster_worker *worker);
MUSTER_API int32_t muster_worker_size(const muster_worker *worker);

/* "host" or "cuda": the backend of this worker's device. */
MUSTER_API const char *muster_worker_backend(const muster_worker *worker);

/* first_row: the position of this worker's first row among the rows that the call selects (in the
 * current slice). rows: the number of this worker's rows. total_rows: the number of rows of the
 * whole call. In a call that scatters nothing they are rank, 1 and size, as if each worker had one
 * row. */
MUSTER_API int64_t muster_worker_first_row(const muster_worker *worker);
MUSTER_API int64_t muster_worker_rows(const muster_worker *worker);
MUSTER_API int64_t muster_worker_total_rows(const muster_worker *worker);

/* In a runtime with logical shards (muster/runtime.h): shard is the shard being run, in [0,
 * shards), or the worker's first shard if the body runs once for all of them; shards is the number
 * of shards of the call; shards_here is the number of shards in this run of the body. In other
 * runtimes every worker is one shard: rank, size and 1. */
MUSTER_API int32_t muster_worker_shard(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards_here(const muster_worker *worker);
/* The rows of shard muster_worker_shard() + shard_in_rank; *first_row counts from this worker's
 * first row. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_shard_rows(const muster_worker *worker, int32_t shard_in_rank, int64_t *first_row,
                                                                   int64_t *rows);

/* The current slice, in [0, slices), and the number of slices. */
MUSTER_API int64_t muster_worker_slice(const muster_worker *worker);
MUSTER_API int64_t muster_worker_slices(const muster_worker *worker);

/* The weight of this worker (and slice) in averages: its number of rows, unless the body sets
 * another. A weight must be finite and >= 0. If all weights are 0, collecting an averaged output
 * fails. Errors of set_weight: INVALID_ARGUMENT, BAD_STATE (outside a call). */
MUSTER_API double muster_worker_weight(const muster_worker *worker);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_set_weight(muster_worker *worker, double weight);

/* 1 once the call is aborted (another rank failed, in any process, or a deadline passed) or ended
 * by muster_runtime_cancel, in any process. A long body should check this and return. */
MUSTER_API int32_t muster_worker_cancelled(const muster_worker *worker);

/* Contiguous scratch memory on the worker's device, aligned to 64 bytes, uninitialised, valid until
 * the body returns. A body with a loop should take it once, before the loop. Blocks are kept
 * between calls, so a repeated call allocates nothing. *tensor becomes the tensor or, after a
 * failure, "no tensor"; `shape` may be that of *tensor. Errors: INVALID_ARGUMENT (no worker, no
 * such dtype, a bad shape, NULL), BAD_STATE (outside the worker's body), OVERFLOW, OUT_OF_MEMORY,
 * and errors of the device. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_scratch(muster_worker *worker, muster_dtype dtype, int32_t ndim,
                                                                const int64_t *shape, muster_tensor *tensor);

/* Gives scratch memory back before the body returns, for a loop whose operations take some in every
 * round: release(mark) ends all scratch tensors that were taken after `mark` was returned; the
 * tensors before it stay. Work that is queued on the device still finds its memory, since later
 * work is ordered behind it. The mark of no worker is -1. Errors: INVALID_ARGUMENT (no worker;
 * no mark of this run of the body, or one before which scratch has been given back already). */
MUSTER_API int64_t muster_worker_scratch_mark(const muster_worker *worker);
MUSTER_API muster_status muster_worker_scratch_release(muster_worker *worker, int64_t mark);

/* Copy between the worker's device and host memory: one tensor is on the device, the other in host
 * memory. Both are contiguous, with the same dtype and element count. The copy is ordered with the
 * worker's operations and complete on return.
 * Errors: INVALID_ARGUMENT (memory of another device; no tensor), DTYPE_MISMATCH, SHAPE_MISMATCH
 * (different element counts), OVERFLOW, UNSUPPORTED (a strided tensor), and errors of the
 * device. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_read(muster_worker *worker, muster_tensor device_tensor, muster_tensor host_tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_write(muster_worker *worker, muster_tensor host_tensor,
                                                              muster_tensor device_tensor);

/* *data becomes the address of the first element of a tensor that host code can read as elements of
 * `dtype` (MUSTER_DTYPE_NONE: of any), one behind the other: a contiguous tensor in host memory, or
 * inside a body on a CPU device one of that device. "No tensor", such as an output that the call
 * does not want, has the address NULL. After an error *data is NULL. Errors: DTYPE_MISMATCH,
 * UNSUPPORTED (it is not contiguous), INVALID_ARGUMENT (memory of a GPU; a tensor that every
 * function refuses; NULL). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_tensor_data(muster_tensor tensor, muster_dtype dtype, void **data);

/* MUSTER_DATA(float, in[0]) is that address as float *; MUSTER_DATA(const float, in[0]) as const
 * float *. The type is the C type of the tensor's dtype: float, double, int8_t, ... uint64_t, _Bool
 * (C++: bool); uint16_t for the bits of f16 or bf16; void for any. Another type does not compile.
 * Where muster_tensor_data fails, the program was written for another tensor: MUSTER_DATA prints
 * file, line and the error, and aborts, as MUSTER_MUST does. */
enum { MUSTER_DATA_HALF_ = -1 };
static inline void *muster_data_(muster_tensor tensor, muster_dtype dtype, const char *file, int32_t line) {
    void *data;
    if (dtype == MUSTER_DATA_HALF_) dtype = tensor.dtype == MUSTER_BF16 ? MUSTER_BF16 : MUSTER_F16;
    muster_must(muster_tensor_data(tensor, dtype, &data), file, line);
    return data;
}
#if !defined(__cplusplus)
/* clang-format off */
#define MUSTER_DATA_OF_(type, dtype) type *: dtype, const type *: dtype
#define MUSTER_DATA_DTYPE_(type) \
    _Generic((type *)0, MUSTER_DATA_OF_(void, MUSTER_DTYPE_NONE), MUSTER_DATA_OF_(float, MUSTER_F32), MUSTER_DATA_OF_(double, MUSTER_F64), \
             MUSTER_DATA_OF_(_Bool, MUSTER_BOOL), MUSTER_DATA_OF_(signed char, MUSTER_I8), MUSTER_DATA_OF_(unsigned char, MUSTER_U8), \
             MUSTER_DATA_OF_(short, MUSTER_I16), MUSTER_DATA_OF_(unsigned short, MUSTER_DATA_HALF_), MUSTER_DATA_OF_(int, MUSTER_I32), \
             MUSTER_DATA_OF_(unsigned, MUSTER_U32), MUSTER_DATA_OF_(long, sizeof(long) == 8 ? MUSTER_I64 : MUSTER_I32), \
             MUSTER_DATA_OF_(unsigned long, sizeof(long) == 8 ? MUSTER_U64 : MUSTER_U32), \
             MUSTER_DATA_OF_(long long, MUSTER_I64), MUSTER_DATA_OF_(unsigned long long, MUSTER_U64))
/* clang-format on */
#define MUSTER_DATA(type, tensor) ((type *)muster_data_(tensor, MUSTER_DATA_DTYPE_(type), __FILE__, __LINE__))
#endif

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && !defined(__CUDACC_RTC__)
template <class Type> struct muster_data_type_ {
    using element = typename std::remove_cv<Type>::type;
    static constexpr bool is_void = std::is_void<Type>::value, is_bool = std::is_same<element, bool>::value;
    static constexpr bool is_f32 = std::is_same<element, float>::value, is_f64 = std::is_same<element, double>::value;
    static constexpr bool is_signed = std::is_signed<element>::value;
    static constexpr std::size_t size = sizeof(typename std::conditional<is_void, char, element>::type);
    static_assert(is_void || is_f32 || is_f64 || (std::is_integral<element>::value && size <= 8),
                  "expected the C type of a dtype, uint16_t for the bits of f16 and bf16, or void");
    static constexpr muster_dtype dtype = is_void     ? static_cast<muster_dtype>(MUSTER_DTYPE_NONE)
                                          : is_bool   ? static_cast<muster_dtype>(MUSTER_BOOL)
                                          : is_f32    ? static_cast<muster_dtype>(MUSTER_F32)
                                          : is_f64    ? static_cast<muster_dtype>(MUSTER_F64)
                                          : size == 1 ? static_cast<muster_dtype>(is_signed ? MUSTER_I8 : MUSTER_U8)
                                          : size == 2 ? (is_signed ? static_cast<muster_dtype>(MUSTER_I16) : MUSTER_DATA_HALF_)
                                          : size == 4 ? static_cast<muster_dtype>(is_signed ? MUSTER_I32 : MUSTER_U32)
                                                      : static_cast<muster_dtype>(is_signed ? MUSTER_I64 : MUSTER_U64);
};
#define MUSTER_DATA(type, tensor) static_cast<type *>(muster_data_(tensor, muster_data_type_<type>::dtype, __FILE__, __LINE__))
#endif
#endif
