/* muster/ops.h: what a worker can compute, on whatever device it drives. Threads of every function
 * here: worker.
 *
 * Operations run in the order in which they are issued. On a device with a queue they may return
 * before the result exists; a failure found later ends the call with its message. Tensors live in
 * the memory of the worker's device (inputs, outputs, scratch, variables): their device is the
 * worker's rank or, on the host backend, MUSTER_DEVICE_HOST. Outputs must not overlap inputs unless
 * an operation says so. Strided views are accepted everywhere; strides 0, which repeat elements, in
 * what is only read. n = 0 is legal: nothing is written, except that sums over nothing are 0 and
 * products 1.
 * Errors: INVALID_ARGUMENT, SHAPE_MISMATCH, DTYPE_MISMATCH, UNSUPPORTED (the dtype table),
 * UNAVAILABLE (no BLAS). */
#ifndef MUSTER_OPS_H
#define MUSTER_OPS_H

#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How values are combined: between workers, between slices, over an axis. Frozen numbers. avg of
 * integers and of bool is refused; sum of bool is refused; prod, min, max of bool are and, and,
 * or. */
typedef int32_t muster_reduction;
enum { MUSTER_SUM = 1, MUSTER_PROD = 2, MUSTER_MAX = 3, MUSTER_MIN = 4, MUSTER_AVG = 5 };

/* BLAS, f32 and f64; gemm on GPUs also f16 and bf16, summed in f32. x (k) or (n), A (n, k), y (n):
 * y = alpha A x + beta y. With beta 0, y is not read.
 * gemm: C (m, n) = alpha A (m, k) B (k, n) + beta C; transposed operands are transposed views. */
MUSTER_API muster_status muster_gemm(muster_worker *w, double alpha, muster_tensor a, muster_tensor b, double beta, muster_tensor c);
MUSTER_API muster_status muster_gemv(muster_worker *w, double alpha, muster_tensor a, muster_tensor x, double beta, muster_tensor y);
/* y += alpha x, any equal shapes.  result (scalar) = sum of x[i] y[i], rank 1. */
MUSTER_API muster_status muster_axpy(muster_worker *w, double alpha, muster_tensor x, muster_tensor y);
MUSTER_API muster_status muster_dot(muster_worker *w, muster_tensor x, muster_tensor y, muster_tensor result);

/* Elementwise; y may be x itself. fill: every dtype, value converted. copy: converts dtypes (to
 * integers: towards zero, saturating, NaN to 0; to bool: not equal 0). Shapes equal, or x
 * broadcasts to y by the usual rules (align right, size 1 repeats). */
MUSTER_API muster_status muster_fill(muster_worker *w, double value, muster_tensor y);
MUSTER_API muster_status muster_copy(muster_worker *w, muster_tensor x, muster_tensor y);

typedef int32_t muster_unary;
enum {
    MUSTER_NEG = 1,
    MUSTER_ABS = 2,
    MUSTER_SQUARE = 3,
    MUSTER_SQRT = 4,
    MUSTER_EXP = 5,
    MUSTER_LOG = 6,
    MUSTER_TANH = 7,
    MUSTER_SIGMOID = 8,
    MUSTER_RELU = 9,
    MUSTER_RECIPROCAL = 10
};
typedef int32_t muster_binary;
enum { MUSTER_ADD = 1, MUSTER_SUB = 2, MUSTER_MUL = 3, MUSTER_DIV = 4, MUSTER_MAXIMUM = 5, MUSTER_MINIMUM = 6 };

/* neg, abs, square, relu: every dtype but bool (neg not on unsigned); the others float dtypes only.
 * Integer add, sub, mul wrap; integer division truncates towards zero and by 0 gives 0; the most
 * negative integer divided by -1 wraps. */
MUSTER_API muster_status muster_unary_op(muster_worker *w, muster_unary op, muster_tensor x, muster_tensor y);
MUSTER_API muster_status muster_binary_op(muster_worker *w, muster_binary op, muster_tensor a, muster_tensor b, muster_tensor y);
/* y = alpha x + beta y, float dtypes; with beta 0, y is not read. */
MUSTER_API muster_status muster_scale_add(muster_worker *w, double alpha, muster_tensor x, double beta, muster_tensor y);
/* relu in place with bias: y = max(x + bias, 0), bias (k) over the last axis of y (n, k); y may be
 * x. Its gradient: dx = dy where y > 0, else 0; dx may be dy. Float dtypes. */
MUSTER_API muster_status muster_bias_relu(muster_worker *w, muster_tensor x, muster_tensor bias, muster_tensor y);
MUSTER_API muster_status muster_relu_gradient(muster_worker *w, muster_tensor y, muster_tensor dy, muster_tensor dx);

/* Reduction over one axis (0-based; the result lacks it) or over all elements (axis -1, scalar
 * result). Same dtype in and out; f16, bf16 accumulate in f32, f32 sums pairwise or wider. max, min
 * over nothing and avg over nothing are refused. */
MUSTER_API muster_status muster_reduce(muster_worker *w, muster_reduction op, muster_tensor x, int32_t axis, muster_tensor y);
/* muster_reduce(w, MUSTER_AVG, x, -1, y) and likewise the sum. */
MUSTER_API muster_status muster_mean(muster_worker *w, muster_tensor x, muster_tensor y);
MUSTER_API muster_status muster_sum(muster_worker *w, muster_tensor x, muster_tensor y);
/* index (i64, n) of the largest of each row of x (n, k), the first of equals; k = 0 refused. */
MUSTER_API muster_status muster_argmax(muster_worker *w, muster_tensor x, muster_tensor index);

/* Softmax cross-entropy of logits (n, k), f32 or f64, with labels (n) of u8, i32 or i64 in [0, k).
 * A label out of range ends the call with OUT_OF_RANGE. loss (scalar) = the SUM over rows of
 * log(sum_j exp(z_j)) - z_label; gradient (n, k) = scale * (softmax - onehot) (may be the logits
 * themselves, or no tensor); correct (i64 scalar, or no tensor) = rows whose largest logit is the
 * label. */
MUSTER_API muster_status muster_softmax_cross_entropy(muster_worker *w, muster_tensor logits, muster_tensor labels, double scale,
                                                      muster_tensor loss, muster_tensor gradient, muster_tensor correct);

/* Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). Element i of row r of y is number (first_index + linear
 * index in y) of the stream `seed`, so that a value depends only on the seed and its global index,
 * never on the number of devices: pass first_index = muster_worker_first_row(w) * (elements of a
 * row). Block b has the counter (low b, high b, 0, 0) and the key (low seed, high seed), halves of
 * 64 bits.
 * f32: number i is lane i % 4 of block i / 4, uniform in [0, 1) with 24 bits; f64: two lanes, 53
 * bits, block i / 2. Lane 2 (i % 2) of it is the low half of the f64, the next lane the high half.
 * normal: Box-Muller on the pairs (2 i, 2 i + 1). f32 and f64. */
MUSTER_API muster_status muster_random_uniform(muster_worker *w, uint64_t seed, uint64_t first_index, muster_tensor y);
MUSTER_API muster_status muster_random_normal(muster_worker *w, uint64_t seed, uint64_t first_index, double mean, double deviation,
                                              muster_tensor y);
/* One Philox 4x32-10 block: out = philox(counter, key). Threads: any. */
MUSTER_API void muster_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#ifdef __cplusplus
}
#endif
#endif
