/* Functions that the operations share: checks of arguments, the launch on a device, and the
 * iterator over strided views. An operation's public function checks its arguments, fills a
 * parameter structure that holds copies of its tensors, and launches its kernel. The kernel reads
 * host addresses. max, min, maximum, minimum and relu let NaN through. */
#ifndef MST_OP_IMPL_H
#define MST_OP_IMPL_H

#include "iterator_impl.h"
#include "operation_impl.h"

/* Hot loops are compiled for several instruction sets; which one is used is decided when the
 * library is loaded. Not with sanitizers, which are not ready when the deciding functions run. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MST_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MST_CLONES
#endif

/* Iterations of the loop do not depend on each other: ops.h demands that operands are the same
 * elements or do not overlap. */
#if defined(__GNUC__) && !defined(__clang__)
#define MST_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MST_INDEPENDENT
#endif

/* The name of a function in a header that is included for several types (*_loops.h). */
#define MST_JOIN(name, suffix) MST_JOIN_(name, suffix)
#define MST_JOIN_(name, suffix) name##suffix

/* For each dtype: how elements are loaded and stored. f16 and bf16 are computed in float. */
#define MST_LOAD_PLAIN(value) (value)
#define MST_STORE_PLAIN(value) (value)
#define MST_EACH_FLOAT(X)                                                  \
    X(F16, f16, uint16_t, float, muster_f16_to_f32, muster_f32_to_f16)     \
    X(BF16, bf16, uint16_t, float, muster_bf16_to_f32, muster_f32_to_bf16) \
    X(F32, f32, float, float, MST_LOAD_PLAIN, MST_STORE_PLAIN)             \
    X(F64, f64, double, double, MST_LOAD_PLAIN, MST_STORE_PLAIN)
#define MST_EACH_SIGNED(X) X(I8, i8, int8_t) X(I16, i16, int16_t) X(I32, i32, int32_t) X(I64, i64, int64_t)
#define MST_EACH_UNSIGNED(X) X(U8, u8, uint8_t) X(U32, u32, uint32_t) X(U64, u64, uint64_t)

/* The full check of a tensor, with messages. It also decides if the quick check cannot. */
muster_status mst_op_check_slowly(const muster_worker *worker, const muster_tensor *tensor, const char *where, const char *what);

/* Does the tensor lie in memory that the worker can use? That is the memory of its device, and host
 * memory if its device is the host. */
static inline bool mst_op_can_use(const muster_worker *worker, const muster_tensor *tensor) {
    return tensor->device == worker->rank || (tensor->device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
}

static inline bool mst_op_surely_good(const muster_worker *worker, const muster_tensor *tensor) {
    if ((uint32_t)(tensor->dtype - 1) >= MST_DTYPE_COUNT - 1 || (uint32_t)tensor->ndim > MUSTER_MAX_DIMS) return false;
    int64_t count = 1;
    bool bad = !tensor->data || (tensor->reserved0 | tensor->reserved[1]) != 0;
    bad |= (((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset) & mst_dtype_misaligned(tensor->dtype)) != 0;
    for (int32_t d = 0; d < tensor->ndim; d++) bad |= tensor->shape[d] < 0 || __builtin_mul_overflow(count, tensor->shape[d], &count);
    return !bad && count <= INT64_MAX / 8 && mst_op_can_use(worker, tensor);
}

static inline muster_status mst_op_check(const muster_worker *worker, const muster_tensor *tensor, const char *where, const char *what) {
    if (__builtin_expect(mst_op_surely_good(worker, tensor), 1)) return MUSTER_OK;
    return mst_op_check_slowly(worker, tensor, where, what);
}

/* Use it at the top of a public function: refuses a worker that is not running a body here. */
#define MST_OP_WORKER(worker) MUSTER_TRY(mst_worker_check(worker, __func__))

/* Checks, and the errors they return: "<where>: <what>: expected ..., received ...". In the same_*
 * functions `other` is the argument that the checked one is compared with, and other_what its
 * name. */
muster_status mst_op_refuse_dtype(const char *where, const char *what, const char *expected, muster_dtype received);
muster_status mst_op_same_dtype(const char *where, const char *what, muster_dtype dtype, const char *other_what, muster_dtype other);
muster_status mst_op_same_shape(const char *where, const char *what, const muster_tensor *tensor, const char *other_what,
                                const muster_tensor *other);
muster_status mst_op_shape(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim, const int64_t *expected);
muster_status mst_op_ndim(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim);
/* Does x have the shape of y, or broadcast to it? */
muster_status mst_op_broadcasts(const char *where, const char *what, const muster_tensor *x, const char *other_what,
                                const muster_tensor *y);
/* Refuses a result that repeats elements, and a result that overlaps another operand, unless the
 * row allows it. The last check of an operation: the operands have passed mst_op_check. */
muster_status mst_op_check_results(const mst_op_row *operation, const muster_tensor *const *tensors, const char *where);
muster_status mst_op_blas_dtype(const char *where, const char *what, muster_dtype dtype);
muster_status mst_op_float_dtype(const char *where, const char *what, muster_dtype dtype);

/* The `loop` of a row whose loops take no context. `loop` NULL: UNSUPPORTED. */
muster_status mst_op_plain_loop(const mst_op_row *operation, muster_dtype dtype, mst_iterator_loop run, mst_op_loop *loop);

/* Runs the kernel on the worker's device: on the host at once, elsewhere as device code in the
 * device's queue. */
muster_status mst_op_issue(muster_worker *worker, const mst_kernel *kernel, const void *parameters, int64_t bytes);
static inline muster_status mst_op_launch(muster_worker *worker, const mst_kernel *kernel, const void *parameters, int64_t bytes) {
    if (__builtin_expect(mst_device_is_host(worker->device), 1)) {
        MUSTER_TRY(mst_worker_drain(worker));
        return kernel->host(parameters);
    }
    return mst_op_issue(worker, kernel, parameters, bytes);
}
/* For `issue` functions. mst_op_code launches a kernel of the device code over `work` elements or
 * blocks; it does nothing if work is 0. mst_op_elements launches an elementwise kernel; it sets the
 * iterator and the count from the operands, of which the last one is written. */
muster_status mst_op_code(muster_worker *worker, mst_code_kernel *code, int64_t work, const void *parameters, int64_t bytes);
muster_status mst_op_elements(muster_worker *worker, mst_code_kernel *code, mst_element_parameters *parameters, int32_t operands,
                              const muster_tensor *const *tensors);

/* An array of the operands' addresses, for `check`; the compiler removes it again by inlining. */
#define MST_TENSORS(...) ((const muster_tensor *const[]){__VA_ARGS__})
#define MST_ALWAYS_INLINE inline __attribute__((always_inline))

/* The axes of `shape`, to which the operands broadcast, with those joined that are contiguous with
 * each other in every operand. Writes their sizes and, in bytes, the operands' strides; returns how
 * many they are, at least 1. */
int32_t mst_iterator_join(int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors, int64_t *joined,
                          int64_t (*strides)[MUSTER_MAX_DIMS]);
/* The same for the shape of `like`, with its axes in the order in which its elements lie: where the
 * order of the elements does not matter, as in elementwise operations. */
int32_t mst_iterator_join_as(const muster_tensor *like, int32_t operands, const muster_tensor *const *tensors, int64_t *joined,
                             int64_t (*strides)[MUSTER_MAX_DIMS]);
/* For elementwise operations: the last operand is written, and the others broadcast to it. */
void mst_iterator_make_elements(mst_iterator *iterator, int32_t operands, const muster_tensor *const *tensors);
void mst_iterator_make(mst_iterator *iterator, int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors);
void mst_iterator_run(const mst_iterator *iterator, mst_iterator_loop inner, void *context);
/* mst_iterator_make_elements and the run, with a loop for elements in any order, of which the last
 * operand is the result. */
void mst_iterator_run_elements(int32_t operands, const muster_tensor *const *tensors, mst_iterator_loop inner, void *context);

/* Two cheap operations as one loop, with the bits of one after the other: t = first(a, b) or
 * first(a), then y = second(t, c), second(c, t) if `swapped`, or second(t). The loop's operands are
 * those of a, b and c that there are, and y; all are contiguous, whatever the strides say. y may be
 * one of the others. NULL: there is no such loop. */
mst_iterator_loop mst_op_pair(muster_dtype dtype, const mst_op_row *first, int32_t first_op, const mst_op_row *second, int32_t second_op,
                              bool swapped);

/* The loop of an iterator that copies elements unchanged; `size` points to their size, an
 * int64_t. */
void mst_copy_elements(void *size, char *const *at, const int64_t *stride, int64_t n);
/* Row r and column c of `to` become row c and column r of `from`. The elements of a row lie behind
 * each other; strides, in bytes, are those between rows. */
void mst_transpose_elements(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows, int64_t columns,
                            int64_t size);
/* muster_copy of checked operands at host addresses. */
void mst_copy_host(const muster_tensor *x, const muster_tensor *y);
/* A view of row 0 of a tensor that has at least one axis. */
muster_tensor mst_op_row_view(const muster_tensor *tensor);

/* y = alpha x + beta y, for axpy and scale_add. */
typedef struct mst_scale_add_parameters {
    muster_tensor x, y;
    double alpha, beta;
} mst_scale_add_parameters;
muster_status mst_scale_add_launch(muster_worker *worker, const mst_scale_add_parameters *parameters);

/* The largest extent passed to BLAS in one call, since its sizes are int. Tests lower it. */
extern int64_t mst_gemm_limit;

#endif
