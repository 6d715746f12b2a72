/* muster/ops.h: the operations that a worker computes on its device, whatever the backend. Threads
 * of every function here: worker.
 *
 * Operations run in the order in which they are issued. On a device with a queue they may return
 * before the result exists; a failure found later ends the call with its message. Tensors (inputs,
 * outputs, scratch, variables) live in the memory of the worker's device: their `device` field is
 * the worker's rank or, on the host backend, MUSTER_DEVICE_HOST. Every operation accepts strided
 * views; a tensor that is only read may repeat elements, for example with stride 0. An output that
 * repeats elements is refused, and so is one that overlaps another operand. Where an operation says
 * that an output may be an input itself, it may have the same elements in the same layout. Views
 * that interleave, such as the even and the odd columns of a matrix, do not overlap. n = 0 is
 * legal: nothing is written, except that a sum over nothing is 0 and a product over nothing is 1.
 * Errors: INVALID_ARGUMENT (no worker, no tensor, memory of another device, misaligned data, an
 * output that repeats elements or overlaps another operand, an unknown op; max, min or avg over
 * nothing), SHAPE_MISMATCH, DTYPE_MISMATCH, OVERFLOW (a tensor's size does not fit 64 bits),
 * UNSUPPORTED (a dtype that the operation does not support), OUT_OF_RANGE (an axis that the tensor
 * does not have; a label), UNAVAILABLE (no BLAS), OUT_OF_MEMORY (scratch memory of the operation),
 * and errors of the device.
 * An operation on the "no tensor" of a failed muster_worker_scratch, muster_worker_variable or
 * muster_worker_update returns that failure, too. */
#ifndef MUSTER_OPS_H
#define MUSTER_OPS_H

#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How values are combined: between workers, between slices, over an axis. Frozen numbers. avg of
 * integers and of bool is refused, and so is sum of bool. On bool, prod and min are "and", max is
 * "or". */
typedef int32_t muster_reduction;
enum muster_reduction_value { MUSTER_SUM = 1, MUSTER_PROD = 2, MUSTER_MAX = 3, MUSTER_MIN = 4, MUSTER_AVG = 5 };

/* BLAS gemm: C (m, n) = alpha A (m, k) B (k, n) + beta C. For a transposed operand, pass a
 * transposed view. With beta 0, C is not read. Float dtypes; f16 and bf16 are summed in f32, and C
 * is rounded once. On a GPU the first product of its extents and types may wait until the device
 * has done what was issued before. Errors: also those of such a wait (TIMEOUT, ABORTED). */
MUSTER_API MUSTER_NODISCARD muster_status muster_gemm(muster_worker *worker, double alpha, muster_tensor a, muster_tensor b, double beta,
                                                      muster_tensor c);
/* muster_gemm for each index of the leading axes: C (..., m, n) = alpha A (..., m, k) B (..., k, n)
 * + beta C. The leading axes of A and of B are broadcast to those of C as in muster_copy; B may be
 * one matrix for all. */
MUSTER_API MUSTER_NODISCARD muster_status muster_gemm_batched(muster_worker *worker, double alpha, muster_tensor a, muster_tensor b,
                                                              double beta, muster_tensor c);
/* BLAS gemv: y (n) = alpha A (n, k) x (k) + beta y. With beta 0, y is not read. f32 and f64. */
MUSTER_API MUSTER_NODISCARD muster_status muster_gemv(muster_worker *worker, double alpha, muster_tensor a, muster_tensor x, double beta,
                                                      muster_tensor y);
/* y += alpha x, for x and y of any equal shapes; x may be y itself. */
MUSTER_API MUSTER_NODISCARD muster_status muster_axpy(muster_worker *worker, double alpha, muster_tensor x, muster_tensor y);
/* result (a scalar) = the sum of x[i] y[i], for x and y of rank 1. */
MUSTER_API MUSTER_NODISCARD muster_status muster_dot(muster_worker *worker, muster_tensor x, muster_tensor y, muster_tensor result);

/* y = value in every element, converted to the dtype of y. Every dtype. */
MUSTER_API MUSTER_NODISCARD muster_status muster_fill(muster_worker *worker, double value, muster_tensor y);
/* y = x, converted to the dtype of y; y may be x itself. Conversion to an integer rounds towards
 * zero, saturates, and turns NaN into 0; conversion to bool gives 1 for every value that is not 0.
 * The shapes are equal, or x is broadcast to y by the usual rules (shapes are aligned at the right,
 * size 1 repeats). */
MUSTER_API MUSTER_NODISCARD muster_status muster_copy(muster_worker *worker, muster_tensor x, muster_tensor y);

typedef int32_t muster_unary;
enum muster_unary_value {
    MUSTER_NEG = 1,
    MUSTER_ABS = 2,
    MUSTER_SQUARE = 3,
    MUSTER_SQRT = 4,
    MUSTER_EXP = 5,
    MUSTER_LOG = 6,
    MUSTER_TANH = 7,
    MUSTER_SIGMOID = 8,
    MUSTER_RELU = 9,
    MUSTER_RECIPROCAL = 10,
    MUSTER_SOFTPLUS = 11,
    MUSTER_SIN = 12,
    MUSTER_COS = 13,
    MUSTER_TAN = 14,
    MUSTER_ASIN = 15,
    MUSTER_ACOS = 16,
    MUSTER_ATAN = 17,
    MUSTER_SINH = 18,
    MUSTER_COSH = 19,
    MUSTER_ERF = 20,
    MUSTER_LOG1P = 21,
    MUSTER_EXPM1 = 22,
    MUSTER_LOG2 = 23,
    MUSTER_EXP2 = 24,
    MUSTER_LOG10 = 25,
    MUSTER_SIGN = 26,
    MUSTER_FLOOR = 27,
    MUSTER_CEIL = 28,
    MUSTER_ROUND = 29,
    MUSTER_TRUNC = 30,
    MUSTER_RSQRT = 31,
    MUSTER_GELU = 32,
    MUSTER_SILU = 33,
    MUSTER_BITWISE_NOT = 34,
    MUSTER_GELU_DERIVATIVE = 35
};
typedef int32_t muster_binary;
enum muster_binary_value {
    MUSTER_ADD = 1,
    MUSTER_SUB = 2,
    MUSTER_MUL = 3,
    MUSTER_DIV = 4,
    MUSTER_MAXIMUM = 5,
    MUSTER_MINIMUM = 6,
    MUSTER_POW = 7,
    MUSTER_FLOOR_DIVIDE = 8,
    MUSTER_REMAINDER = 9,
    MUSTER_ATAN2 = 10,
    MUSTER_HYPOT = 11,
    MUSTER_FMOD = 12,
    MUSTER_BITWISE_AND = 13,
    MUSTER_BITWISE_OR = 14,
    MUSTER_BITWISE_XOR = 15,
    MUSTER_LEFT_SHIFT = 16,
    MUSTER_RIGHT_SHIFT = 17
};
typedef int32_t muster_comparison;
enum muster_comparison_value {
    MUSTER_EQUAL = 1,
    MUSTER_NOT_EQUAL = 2,
    MUSTER_LESS = 3,
    MUSTER_LESS_EQUAL = 4,
    MUSTER_GREATER = 5,
    MUSTER_GREATER_EQUAL = 6,
    MUSTER_LOGICAL_AND = 7,
    MUSTER_LOGICAL_OR = 8,
    MUSTER_LOGICAL_XOR = 9
};

typedef int32_t muster_predicate;
enum muster_predicate_value { MUSTER_LOGICAL_NOT = 1, MUSTER_ISNAN = 2, MUSTER_ISFINITE = 3, MUSTER_ISINF = 4 };

/* y = op(x), elementwise; x may be broadcast as in muster_copy, and y may be x itself. abs, square,
 * relu and sign take every dtype but bool, neg every signed one, bitwise_not integers; the others
 * take float dtypes only. softplus is log(1 + exp(x)), silu x / (1 + exp(-x)), gelu x (1 + erf(x /
 * sqrt(2))) / 2, gelu_derivative P(x) + x p(x) with P the normal distribution and p its density.
 * round is rint of C: halves go to even numbers, unless the thread has another rounding mode. sign
 * of NaN is NaN. On the host backend f32 results are within 2 units in the last place;
 * gelu_derivative is within 4 of the larger of its two terms. */
MUSTER_API MUSTER_NODISCARD muster_status muster_unary_op(muster_worker *worker, muster_unary op, muster_tensor x, muster_tensor y);
/* y = a op b, elementwise; a and b may be broadcast as in muster_copy, and y may be a or b itself.
 * Every dtype but bool; pow, atan2 (a is the ordinate) and hypot take float dtypes only,
 * bitwise_and, bitwise_or, bitwise_xor, left_shift and right_shift integers only. Integer add, sub
 * and mul wrap around. right_shift keeps the sign; a shift by less than 0 or by all bits and more
 * leaves 0, or -1 of a negative integer that is shifted to the right, as in NumPy.
 * Integer division truncates towards zero. floor_divide rounds the quotient down and remainder has
 * the sign of b, as in Python and NumPy; fmod has the sign of a, as in C. Integers divided by 0
 * give 0, in all of these; the most negative integer divided by -1 wraps around. */
MUSTER_API MUSTER_NODISCARD muster_status muster_binary_op(muster_worker *worker, muster_binary op, muster_tensor a, muster_tensor b,
                                                           muster_tensor y);
/* muster_binary_op with a number as one operand: y = x op value, and y = value op x. Float dtypes
 * round the value. An integer dtype refuses a value that it does not hold with OUT_OF_RANGE. */
MUSTER_API MUSTER_NODISCARD muster_status muster_binary_scalar(muster_worker *worker, muster_binary op, muster_tensor x, double value,
                                                               muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_scalar_binary(muster_worker *worker, muster_binary op, double value, muster_tensor x,
                                                               muster_tensor y);
/* y (bool) = a op b, elementwise; a and b have one dtype, any, and may be broadcast as in
 * muster_copy. Comparisons with NaN are false, but not_equal is true. logical_and, logical_or and
 * logical_xor take every number that is not 0 as true, NaN too. y may be a or b itself if they are
 * bool. */
MUSTER_API MUSTER_NODISCARD muster_status muster_compare(muster_worker *worker, muster_comparison op, muster_tensor a, muster_tensor b,
                                                         muster_tensor y);
/* y (bool) = op(x), elementwise, for x of any dtype, which may be broadcast as in muster_copy. y
 * may be x itself if x is bool. logical_not is true where x is 0; an integer is finite. */
MUSTER_API MUSTER_NODISCARD muster_status muster_predicate_op(muster_worker *worker, muster_predicate op, muster_tensor x, muster_tensor y);
/* y = a where the condition (bool) is true, else b, elementwise. All three may be broadcast as in
 * muster_copy; y may be a or b itself. Every dtype. */
MUSTER_API MUSTER_NODISCARD muster_status muster_where(muster_worker *worker, muster_tensor condition, muster_tensor a, muster_tensor b,
                                                       muster_tensor y);
/* y = x limited to [low, high], elementwise; NaN stays NaN. x may be broadcast as in muster_copy,
 * and y may be x itself. Every dtype but bool. For integers the bounds are rounded into the
 * interval; OUT_OF_RANGE if it has no value of the dtype. INVALID_ARGUMENT unless low <= high. */
MUSTER_API MUSTER_NODISCARD muster_status muster_clip(muster_worker *worker, double low, double high, muster_tensor x, muster_tensor y);

/* Rows by index, as take and add.at of NumPy along axis 0. indices (n) is u8, i32 or i64. An index
 * outside of [0, rows) ends the call with OUT_OF_RANGE, before y is written; on devices with a
 * queue both functions therefore wait for the check.
 * - take: y[i] = x[indices[i]], for x (rows, ...) and y (n, ...). Every dtype.
 * - scatter_add: y[indices[i]] += x[i], for x (n, ...) and y (rows, ...). Additions to one row are
 *   made in the order of i, on every device alike. f16, bf16 and f32 are added up in f64, and
 *   rounded once. Every dtype but bool; integers wrap around. */
MUSTER_API MUSTER_NODISCARD muster_status muster_take(muster_worker *worker, muster_tensor x, muster_tensor indices, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_scatter_add(muster_worker *worker, muster_tensor x, muster_tensor indices,
                                                             muster_tensor y);
/* y (n, k), of any dtype, = 1 at (i, labels[i]), else 0. labels (n) is u8, i32 or i64; one outside
 * of [0, k) is refused as in muster_take. */
MUSTER_API MUSTER_NODISCARD muster_status muster_one_hot(muster_worker *worker, muster_tensor labels, int64_t k, muster_tensor y);

/* y = alpha x + beta y; x may be y itself. With beta 0, y is not read. Float dtypes. */
MUSTER_API MUSTER_NODISCARD muster_status muster_scale_add(muster_worker *worker, double alpha, muster_tensor x, double beta,
                                                           muster_tensor y);
/* Bias and relu in one operation: y (n, k) = max(x (n, k) + bias (k), 0). y may be x. Float
 * dtypes. */
MUSTER_API MUSTER_NODISCARD muster_status muster_bias_relu(muster_worker *worker, muster_tensor x, muster_tensor bias, muster_tensor y);
/* The gradient of relu: dx = dy where y > 0, else 0. dx may be y or dy. Float
 * dtypes. */
MUSTER_API MUSTER_NODISCARD muster_status muster_relu_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy, muster_tensor dx);

/* Reduces x over one axis (counted from 0; the result lacks it) or, with axis -1, over all elements
 * to a scalar. y has the dtype of x, or the one in which a sum, product or average accumulates: a
 * wider float dtype; of sums and products of i8 to i64 and bool i64, of u8 to u64 u64. f16 and bf16
 * accumulate in f32; f32 sums pairwise or in a wider type. max, min and avg over nothing are
 * refused. */
MUSTER_API MUSTER_NODISCARD muster_status muster_reduce(muster_worker *worker, muster_reduction op, muster_tensor x, int32_t axis,
                                                        muster_tensor y);
/* muster_reduce over a set of axes at once, for which `axes` has the bits 1 << axis; -1 stands for
 * all axes. y lacks these axes; nothing is copied. */
MUSTER_API MUSTER_NODISCARD muster_status muster_reduce_axes(muster_worker *worker, muster_reduction op, muster_tensor x, int32_t axes,
                                                             muster_tensor y);
/* muster_reduce over all elements (axis -1) with MUSTER_AVG and with MUSTER_SUM. */
MUSTER_API MUSTER_NODISCARD muster_status muster_mean(muster_worker *worker, muster_tensor x, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_sum(muster_worker *worker, muster_tensor x, muster_tensor y);
/* index (n, i64) = the column of the largest (argmin: smallest) element in each row of x (n, k),
 * the first of equals; the first NaN of a row that has one. k = 0 is refused. */
MUSTER_API MUSTER_NODISCARD muster_status muster_argmax(muster_worker *worker, muster_tensor x, muster_tensor index);
MUSTER_API MUSTER_NODISCARD muster_status muster_argmin(muster_worker *worker, muster_tensor x, muster_tensor index);

/* The softmax family over the last axis. Float dtypes. No finite input overflows.
 * - softmax: y = exp(x) / sum(exp(x)); log_softmax: y = x - log(sum(exp(x))), y of the shape of x.
 *   y may be x.
 * - logsumexp: y = log(sum(exp(x))), without the last axis; -inf over nothing.
 * - softmax_gradient: dx = y (dy - sum(y dy)), for y = softmax(x); log_softmax_gradient: dx = dy -
 *   exp(y) sum(dy), for y = log_softmax(x): 0 where a row of dy is 0, also if y is NaN. dx may be y
 *   or dy. */
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax(muster_worker *worker, muster_tensor x, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_log_softmax(muster_worker *worker, muster_tensor x, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_logsumexp(muster_worker *worker, muster_tensor x, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy,
                                                                  muster_tensor dx);
MUSTER_API MUSTER_NODISCARD muster_status muster_log_softmax_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy,
                                                                      muster_tensor dx);
/* y = the sums of x up to and with each element, along an axis (from 0 on; OUT_OF_RANGE if x does
 * not have it). y may be x. y has the dtype of x, or a wider one, as in muster_reduce; of bool i64.
 * Floats are summed in f64 and rounded once; integers wrap around. */
MUSTER_API MUSTER_NODISCARD muster_status muster_cumsum(muster_worker *worker, muster_tensor x, int32_t axis, muster_tensor y);
/* Sorting along the last axis. Every dtype.
 * - sort: y = the elements of each row of x, ascending; NaN last.
 * - argsort: index (i64, of the shape of x) = their places. Equal elements keep their order.
 * - top_k: values and index (i64), of the shape of x with k as the last size = the k largest
 *   elements of each row and their places, descending; NaN first, as in muster_argmax, and of
 *   equals the one with the lower index. OUT_OF_RANGE unless 0 <= k <= the last size of x. */
MUSTER_API MUSTER_NODISCARD muster_status muster_sort(muster_worker *worker, muster_tensor x, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_argsort(muster_worker *worker, muster_tensor x, muster_tensor index);
MUSTER_API MUSTER_NODISCARD muster_status muster_top_k(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor values,
                                                       muster_tensor index);
/* Triangles of the last two axes: y (..., n, m) = x at (i, j) where j - i <= k (tril) or j - i >= k
 * (triu), else 0. y may be x. Every dtype. */
MUSTER_API MUSTER_NODISCARD muster_status muster_tril(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_triu(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor y);
/* y (n, m), of any dtype, = 1 at (i, i + k), else 0. */
MUSTER_API MUSTER_NODISCARD muster_status muster_eye(muster_worker *worker, int64_t k, muster_tensor y);
/* y (n) = start + i increment, computed in f64 and converted as in muster_copy. Every dtype but
 * bool. */
MUSTER_API MUSTER_NODISCARD muster_status muster_arange(muster_worker *worker, double start, double increment, muster_tensor y);

/* Softmax cross-entropy of logits (n, k), f32 or f64, with labels (n) of u8, i32 or i64 in [0, k).
 * A label out of range ends the call with OUT_OF_RANGE.
 * - loss (scalar) = the SUM over rows of log(sum_j exp(z_j)) - z_label.
 * - gradient (n, k) = scale * (softmax - onehot). It may be the logits themselves, or no tensor.
 * - correct (i64 scalar, or no tensor) = the number of rows whose largest logit is the label. */
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax_cross_entropy(muster_worker *worker, muster_tensor logits, muster_tensor labels,
                                                                       double scale, muster_tensor loss, muster_tensor gradient,
                                                                       muster_tensor correct);

/* Counter-based random numbers, f32 and f64: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011). `seed` selects a stream of numbers; an element of
 * y takes number (first_index + its linear index in y) of that stream. A value thus depends only on
 * the seed and on its global index, not on the number of devices, if first_index is
 * muster_worker_first_row(w) * (elements of a row).
 * Block b of the stream is Philox of the counter (low b, high b, 0, 0) and the key (low seed, high
 * seed), where low and high are the 32-bit halves of the 64-bit numbers. f32: number i is lane i %
 * 4 of block i / 4, uniform in [0, 1) with 24 bits. f64: number i uses two lanes of block i / 2, 53
 * bits; lane 2 (i % 2) is the low half of the 64 bits, the next lane the high half. normal:
 * Box-Muller on the pairs of numbers (2 i, 2 i + 1). */
MUSTER_API MUSTER_NODISCARD muster_status muster_random_uniform(muster_worker *worker, uint64_t seed, uint64_t first_index,
                                                                muster_tensor y);
MUSTER_API MUSTER_NODISCARD muster_status muster_random_normal(muster_worker *worker, uint64_t seed, uint64_t first_index, double mean,
                                                               double deviation, muster_tensor y);
/* One Philox 4x32-10 block: out = philox(counter, key). Threads: any. */
MUSTER_API void muster_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#ifdef __cplusplus
}
#endif
#endif
