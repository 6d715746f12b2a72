/* What the operations share: checks of their arguments, the launch on a device, and the walk over
 * strided views. An operation's public function checks, fills a parameter structure that holds
 * copies of its tensors, and launches its kernel; the kernel reads host addresses. max, min,
 * maximum, minimum and relu let NaN through. */
#ifndef MST_OP_IMPL_H
#define MST_OP_IMPL_H

#include "operation_impl.h"
#include "walk_impl.h"

/* Hot loops are compiled for several instruction sets and chosen when the library is loaded. The
 * choosers run before a sanitizer is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MST_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MST_CLONES
#endif

/* The loop's operands are the same elements or apart, as ops.h demands: iterations do not depend on
 * each other. */
#if defined(__GNUC__) && !defined(__clang__)
#define MST_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MST_INDEPENDENT
#endif

/* Loading and storing by dtype: f16 and bf16 are computed in float. */
#define MST_LOAD_PLAIN(value) (value)
#define MST_STORE_PLAIN(value) (value)
#define MST_EACH_FLOAT(X)                                                  \
    X(F16, f16, uint16_t, float, muster_f16_to_f32, muster_f32_to_f16)     \
    X(BF16, bf16, uint16_t, float, muster_bf16_to_f32, muster_f32_to_bf16) \
    X(F32, f32, float, float, MST_LOAD_PLAIN, MST_STORE_PLAIN)             \
    X(F64, f64, double, double, MST_LOAD_PLAIN, MST_STORE_PLAIN)
#define MST_EACH_SIGNED(X) X(I8, i8, int8_t) X(I16, i16, int16_t) X(I32, i32, int32_t) X(I64, i64, int64_t)
#define MST_EACH_UNSIGNED(X) X(U8, u8, uint8_t) X(U32, u32, uint32_t) X(U64, u64, uint64_t)

muster_status mst_op_no_worker(const char *where);
/* The full check, with messages; also the answer where the quick one is not sure. */
muster_status mst_op_check_slowly(const muster_worker *worker, const muster_tensor *tensor, const char *where, const char *what);

/* Memory that the worker may use: its device's, or the host's where its operations run in host
 * memory. */
static inline bool mst_op_reaches(const muster_worker *worker, const muster_tensor *tensor) {
    return tensor->device == worker->rank || (tensor->device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
}

static inline bool mst_op_surely_good(const muster_worker *worker, const muster_tensor *tensor) {
    if ((uint32_t)(tensor->dtype - 1) >= MST_DTYPE_COUNT - 1 || (uint32_t)tensor->ndim > MUSTER_MAX_DIMS) return false;
    int64_t count = 1;
    bool bad = !tensor->data;
    for (int32_t d = 0; d < tensor->ndim; d++) bad |= tensor->shape[d] < 0 || __builtin_mul_overflow(count, tensor->shape[d], &count);
    return !bad && count <= INT64_MAX / 8 && mst_op_reaches(worker, tensor);
}

static inline muster_status mst_op_check(const muster_worker *worker, const muster_tensor *tensor, const char *where, const char *what) {
    if (__builtin_expect(mst_op_surely_good(worker, tensor), 1)) return MUSTER_OK;
    return mst_op_check_slowly(worker, tensor, where, what);
}

/* At the top of a public function: the worker, then each tensor by the name that it has in the
 * header. */
#define MST_OP_WORKER(worker)                                                  \
    do {                                                                       \
        if (__builtin_expect(!(worker), 0)) return mst_op_no_worker(__func__); \
    } while (0)
#define MST_OP_TENSOR(worker, tensor) MUSTER_TRY(mst_op_check(worker, &(tensor), __func__, #tensor))

/* Refusals: "<where>: <what>: expected ..., received ...". same_*: other is the argument that sets
 * the rule, other_what its name. */
muster_status mst_op_refuse_dtype(const char *where, const char *what, const char *expected, muster_dtype received);
muster_status mst_op_same_dtype(const char *where, const char *what, muster_dtype dtype, const char *other_what, muster_dtype other);
muster_status mst_op_same_shape(const char *where, const char *what, const muster_tensor *tensor, const char *other_what,
                                const muster_tensor *other);
muster_status mst_op_shape(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim, const int64_t *expected);
muster_status mst_op_ndim(const char *where, const char *what, const muster_tensor *tensor, int32_t ndim);
/* Is x the shape of y, or does it repeat into it? */
muster_status mst_op_broadcasts(const char *where, const char *what, const muster_tensor *x, const char *other_what,
                                const muster_tensor *y);
muster_status mst_op_blas_dtype(const char *where, const char *what, muster_dtype dtype);
muster_status mst_op_float_dtype(const char *where, const char *what, muster_dtype dtype);

/* Runs kernel on the worker's device: at once, on the parameters themselves, where host code may
 * read the device's memory. offsets: of the addresses. */
muster_status mst_op_launch_far(muster_worker *worker, const mst_kernel *kernel, const void *parameters, int64_t bytes,
                                const int32_t *offsets, int32_t count);
static inline muster_status mst_op_launch(muster_worker *worker, const mst_kernel *kernel, const void *parameters, int64_t bytes,
                                          const int32_t *offsets, int32_t count) {
    if (__builtin_expect(mst_device_is_host(worker->device), 1)) {
        MUSTER_TRY(mst_worker_drain(worker));
        return kernel->host(parameters);
    }
    return mst_op_launch_far(worker, kernel, parameters, bytes, offsets, count);
}
/* What `issue` is made of: a kernel of the device code over `work` elements or blocks (of 0 nothing
 * comes); and an elementwise one, whose walk and count are made here of its operands, the written
 * one last. */
muster_status mst_op_code(muster_worker *worker, mst_code_kernel *code, int64_t work, const void *parameters, int64_t bytes);
muster_status mst_op_elements(muster_worker *worker, mst_code_kernel *code, mst_element_parameters *parameters, int32_t operands,
                              const muster_tensor *const *tensors);
/* Does the worker's device run device code, and not the host's? */
static inline bool mst_op_by_code(const muster_worker *worker) {
    return !mst_device_is_host(worker->device) && !worker->device->table->launch;
}
/* Offset of a tensor's address in the parameters. */
#define MST_AT(type, tensor) ((int32_t)offsetof(type, tensor.data))

/* Operands by address: for `check`, which the compiler takes apart again. */
#define MST_TENSORS(...) ((const muster_tensor *const[]){__VA_ARGS__})
#define MST_ALWAYS_INLINE inline __attribute__((always_inline))

/* The walk's inner loop. at[i], step[i]: address and byte step of operand i; n elements. */
typedef void (*mst_walk_inner)(void *context, char *const *at, const int64_t *step, int64_t n);
void mst_walk_make(mst_walk *walk, int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors);
void mst_walk_run(const mst_walk *walk, mst_walk_inner inner, void *context);

/* y = alpha x + beta y, shared by axpy and scale_add. */
typedef struct mst_scale_add_parameters {
    muster_tensor x, y;
    double alpha, beta;
} mst_scale_add_parameters;
muster_status mst_scale_add_launch(muster_worker *worker, const mst_scale_add_parameters *parameters);

/* Largest extent handed to BLAS in one piece; its sizes are int. Tests lower it. */
extern int64_t mst_gemm_limit;

#endif
