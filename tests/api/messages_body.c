/* Rows of ops.h, worker.h, communicator.h, cuda.h and driver.h, inside a body on a host device. */
#include "messages.h"

#include <math.h>

/* Tensors of every shape that the rows need. In `elsewhere` the memory is that of another rank. */
typedef struct operands {
    muster_tensor scalar, vector, matrix, other, wide, ints, labels, bools, none, elsewhere, misaligned;
} operands;

static operands make_operands(void) {
    static float one[1], two[2], six[6], another[6], unaligned[8];
    static double six_wide[6];
    static int32_t six_ints[6], two_labels[2];
    static uint8_t six_bools[6];
    operands o = {muster_f32(one),           muster_f32(two, 2),         muster_f32(six, 2, 3),
                  muster_f32(another, 2, 3), muster_f64(six_wide, 2, 3), muster_i32(six_ints, 2, 3),
                  muster_i32(two_labels, 2), muster_u8(six_bools, 2, 3), muster_tensor_none(),
                  muster_f32(six, 2, 3),     muster_f32(unaligned, 2, 3)};
    o.bools.dtype = MUSTER_BOOL;
    o.elsewhere.device = 3;
    o.misaligned.byte_offset = 1;
    return o;
}

/* What every operation refuses of the operand `tensor_name`, which stands as `t` in the call. */
#define REFUSE_OPERAND(tensor_name, function, ...)                    \
    do {                                                              \
        muster_tensor t = o.none;                                     \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.elsewhere;                                              \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.misaligned;                                             \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.matrix;                                                 \
        t.ndim = 9;                                                   \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.matrix;                                                 \
        t.shape[0] = -1;                                              \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.matrix;                                                 \
        t.reserved0 = 1;                                              \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.matrix;                                                 \
        t.reserved[1] = 1;                                            \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
    } while (0)

static void products(muster_worker *w) {
    const operands o = make_operands();
    static float nine[9], many[6];
    const muster_tensor square = muster_f32(nine, 3, 3), tall = muster_f32(many, 3, 2), two = muster_f32(nine, 2, 2);
    REFUSE(INVALID_ARGUMENT, "worker", muster_gemm, NULL, 1, o.matrix, tall, 0, two);
    REFUSE_OPERAND("a", muster_gemm, w, 1, t, tall, 0, two);
    REFUSE_OPERAND("b", muster_gemm, w, 1, o.matrix, t, 0, two);
    REFUSE_OPERAND("c", muster_gemm, w, 1, o.matrix, tall, 0, t);
    REFUSE(SHAPE_MISMATCH, "a", muster_gemm, w, 1, o.vector, tall, 0, two);
    REFUSE(SHAPE_MISMATCH, "b", muster_gemm, w, 1, o.matrix, o.matrix, 0, two);
    REFUSE(SHAPE_MISMATCH, "c", muster_gemm, w, 1, o.matrix, square, 0, two);
    REFUSE(SHAPE_MISMATCH, "c", muster_gemm, w, 1, o.matrix, square, 0, square);
    REFUSE(UNSUPPORTED, "a", muster_gemm, w, 1, o.ints, o.ints, 0, o.ints);
    REFUSE(INVALID_ARGUMENT, "worker", muster_gemm_batched, NULL, 1, o.matrix, tall, 0, two);
    REFUSE_OPERAND("a", muster_gemm_batched, w, 1, t, tall, 0, two);
    REFUSE_OPERAND("b", muster_gemm_batched, w, 1, o.matrix, t, 0, two);
    REFUSE_OPERAND("c", muster_gemm_batched, w, 1, o.matrix, tall, 0, t);
    REFUSE(SHAPE_MISMATCH, "a", muster_gemm_batched, w, 1, o.vector, tall, 0, two);
    REFUSE(SHAPE_MISMATCH, "b", muster_gemm_batched, w, 1, o.matrix, o.matrix, 0, two);
    REFUSE(SHAPE_MISMATCH, "c", muster_gemm_batched, w, 1, o.matrix, tall, 0, square);
    REFUSE(UNSUPPORTED, "a", muster_gemm_batched, w, 1, o.ints, o.ints, 0, o.ints);
    REFUSE(INVALID_ARGUMENT, "worker", muster_gemv, NULL, 1, tall, o.vector, 0, muster_f32(nine, 3));
    REFUSE_OPERAND("a", muster_gemv, w, 1, t, o.vector, 0, muster_f32(nine, 3));
    REFUSE_OPERAND("x", muster_gemv, w, 1, tall, t, 0, muster_f32(nine, 3));
    REFUSE_OPERAND("y", muster_gemv, w, 1, tall, o.vector, 0, t);
    REFUSE(SHAPE_MISMATCH, "x", muster_gemv, w, 1, o.matrix, o.vector, 0, o.vector);
    REFUSE(SHAPE_MISMATCH, "y", muster_gemv, w, 1, tall, o.vector, 0, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_dot, NULL, o.vector, o.vector, o.scalar);
    REFUSE_OPERAND("x", muster_dot, w, t, o.vector, o.scalar);
    REFUSE_OPERAND("y", muster_dot, w, o.vector, t, o.scalar);
    REFUSE_OPERAND("result", muster_dot, w, o.vector, o.vector, t);
    REFUSE(SHAPE_MISMATCH, "result", muster_dot, w, o.vector, o.vector, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_axpy, NULL, 1, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_axpy, w, 1, t, o.other);
    REFUSE_OPERAND("y", muster_axpy, w, 1, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "x", muster_axpy, w, 1, o.vector, o.matrix);
    REFUSE(DTYPE_MISMATCH, "x", muster_axpy, w, 1, o.wide, o.matrix);
    REFUSE(INVALID_ARGUMENT, "worker", muster_scale_add, NULL, 1, o.matrix, 1, o.other);
    REFUSE_OPERAND("x", muster_scale_add, w, 1, t, 1, o.other);
    REFUSE_OPERAND("y", muster_scale_add, w, 1, o.matrix, 1, t);
    REFUSE(SHAPE_MISMATCH, "x", muster_scale_add, w, 1, o.vector, 1, o.matrix);
}

static void elements(muster_worker *w) {
    const operands o = make_operands();
    muster_tensor bools = o.bools;
    REFUSE(INVALID_ARGUMENT, "worker", muster_fill, NULL, 1, o.matrix);
    REFUSE_OPERAND("y", muster_fill, w, 1, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_copy, NULL, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_copy, w, t, o.other);
    REFUSE_OPERAND("y", muster_copy, w, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "x", muster_copy, w, o.matrix, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_unary_op, NULL, MUSTER_EXP, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "op", muster_unary_op, w, 0, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "op", muster_unary_op, w, MUSTER_GELU_DERIVATIVE + 1, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_unary_op, w, MUSTER_EXP, t, o.other);
    REFUSE_OPERAND("y", muster_unary_op, w, MUSTER_EXP, o.matrix, t);
    REFUSE(UNSUPPORTED, "x", muster_unary_op, w, MUSTER_EXP, o.ints, o.ints);
    REFUSE(INVALID_ARGUMENT, "worker", muster_binary_op, NULL, MUSTER_ADD, o.matrix, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "op", muster_binary_op, w, MUSTER_RIGHT_SHIFT + 1, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("a", muster_binary_op, w, MUSTER_ADD, t, o.matrix, o.other);
    REFUSE_OPERAND("b", muster_binary_op, w, MUSTER_ADD, o.matrix, t, o.other);
    REFUSE_OPERAND("y", muster_binary_op, w, MUSTER_ADD, o.matrix, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "a", muster_binary_op, w, MUSTER_ADD, o.vector, o.matrix, o.other);
    REFUSE(DTYPE_MISMATCH, "b", muster_binary_op, w, MUSTER_ADD, o.matrix, o.wide, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_binary_scalar, NULL, MUSTER_ADD, o.matrix, 1, o.other);
    REFUSE(INVALID_ARGUMENT, "op", muster_binary_scalar, w, 0, o.matrix, 1, o.other);
    REFUSE(OUT_OF_RANGE, "value", muster_binary_scalar, w, MUSTER_ADD, o.ints, 0.5, o.ints);
    REFUSE_OPERAND("x", muster_binary_scalar, w, MUSTER_ADD, t, 1, o.other);
    REFUSE_OPERAND("y", muster_binary_scalar, w, MUSTER_ADD, o.matrix, 1, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_scalar_binary, NULL, MUSTER_ADD, 1, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "op", muster_scalar_binary, w, MUSTER_RIGHT_SHIFT + 1, 1, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_scalar_binary, w, MUSTER_ADD, 1, t, o.other);
    REFUSE_OPERAND("y", muster_scalar_binary, w, MUSTER_ADD, 1, o.matrix, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_compare, NULL, MUSTER_LESS, o.matrix, o.matrix, bools);
    REFUSE(INVALID_ARGUMENT, "op", muster_compare, w, MUSTER_LOGICAL_XOR + 1, o.matrix, o.matrix, bools);
    REFUSE_OPERAND("a", muster_compare, w, MUSTER_LESS, t, o.matrix, bools);
    REFUSE_OPERAND("b", muster_compare, w, MUSTER_LESS, o.matrix, t, bools);
    REFUSE_OPERAND("y", muster_compare, w, MUSTER_LESS, o.matrix, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "y", muster_compare, w, MUSTER_LESS, o.matrix, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_predicate_op, NULL, MUSTER_ISNAN, o.matrix, bools);
    REFUSE(INVALID_ARGUMENT, "op", muster_predicate_op, w, 0, o.matrix, bools);
    REFUSE(INVALID_ARGUMENT, "op", muster_predicate_op, w, MUSTER_ISINF + 1, o.matrix, bools);
    REFUSE_OPERAND("x", muster_predicate_op, w, MUSTER_ISNAN, t, bools);
    REFUSE_OPERAND("y", muster_predicate_op, w, MUSTER_ISNAN, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "y", muster_predicate_op, w, MUSTER_ISNAN, o.matrix, o.other);
    REFUSE(SHAPE_MISMATCH, "x", muster_predicate_op, w, MUSTER_ISNAN, o.vector, bools);
    REFUSE(INVALID_ARGUMENT, "worker", muster_where, NULL, bools, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("condition", muster_where, w, t, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("a", muster_where, w, bools, t, o.matrix, o.other);
    REFUSE_OPERAND("b", muster_where, w, bools, o.matrix, t, o.other);
    REFUSE_OPERAND("y", muster_where, w, bools, o.matrix, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "condition", muster_where, w, o.matrix, o.matrix, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_clip, NULL, 0, 1, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "low", muster_clip, w, 2, 1, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "low", muster_clip, w, NAN, 1, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_clip, w, 0, 1, t, o.other);
    REFUSE_OPERAND("y", muster_clip, w, 0, 1, o.matrix, t);
}

/* Operations that compute each row by itself, and what makes new tensors. */
static void rows_of_their_own(muster_worker *w, operands o) {
    static int64_t places[6];
    const muster_tensor index = muster_i64(places, 2, 3);
    REFUSE(INVALID_ARGUMENT, "worker", muster_softmax, NULL, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_softmax, w, t, o.other);
    REFUSE_OPERAND("y", muster_softmax, w, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_softmax, w, o.matrix, o.vector);
    REFUSE(UNSUPPORTED, "x", muster_softmax, w, o.ints, o.ints);
    REFUSE(SHAPE_MISMATCH, "x", muster_softmax, w, o.scalar, o.scalar);
    REFUSE(INVALID_ARGUMENT, "worker", muster_log_softmax, NULL, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_log_softmax, w, t, o.other);
    REFUSE_OPERAND("y", muster_log_softmax, w, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_log_softmax, w, o.matrix, o.vector);
    REFUSE(UNSUPPORTED, "x", muster_log_softmax, w, o.ints, o.ints);
    REFUSE(SHAPE_MISMATCH, "x", muster_log_softmax, w, o.scalar, o.scalar);
    REFUSE(INVALID_ARGUMENT, "worker", muster_logsumexp, NULL, o.matrix, o.vector);
    REFUSE_OPERAND("x", muster_logsumexp, w, t, o.vector);
    REFUSE_OPERAND("y", muster_logsumexp, w, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_logsumexp, w, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_softmax_gradient, NULL, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("y", muster_softmax_gradient, w, t, o.matrix, o.other);
    REFUSE_OPERAND("dy", muster_softmax_gradient, w, o.matrix, t, o.other);
    REFUSE_OPERAND("dx", muster_softmax_gradient, w, o.matrix, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "dy", muster_softmax_gradient, w, o.matrix, o.wide, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_log_softmax_gradient, NULL, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("y", muster_log_softmax_gradient, w, t, o.matrix, o.other);
    REFUSE_OPERAND("dy", muster_log_softmax_gradient, w, o.matrix, t, o.other);
    REFUSE_OPERAND("dx", muster_log_softmax_gradient, w, o.matrix, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "dy", muster_log_softmax_gradient, w, o.matrix, o.wide, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_cumsum, NULL, o.matrix, 0, o.other);
    REFUSE_OPERAND("x", muster_cumsum, w, t, 0, o.other);
    REFUSE_OPERAND("y", muster_cumsum, w, o.matrix, 0, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_cumsum, w, o.matrix, 0, o.vector);
    REFUSE(OUT_OF_RANGE, "axis", muster_cumsum, w, o.matrix, 2, o.other);
    REFUSE(OUT_OF_RANGE, "axis", muster_cumsum, w, o.matrix, -1, o.other);
    REFUSE(UNSUPPORTED, "x", muster_cumsum, w, o.bools, 0, o.bools);
    REFUSE(INVALID_ARGUMENT, "worker", muster_sort, NULL, o.matrix, o.other);
    REFUSE_OPERAND("x", muster_sort, w, t, o.other);
    REFUSE_OPERAND("y", muster_sort, w, o.matrix, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_sort, w, o.matrix, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_argsort, NULL, o.matrix, index);
    REFUSE_OPERAND("x", muster_argsort, w, t, index);
    REFUSE_OPERAND("index", muster_argsort, w, o.matrix, t);
    REFUSE(DTYPE_MISMATCH, "index", muster_argsort, w, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_top_k, NULL, o.matrix, 3, o.other, index);
    REFUSE_OPERAND("x", muster_top_k, w, t, 3, o.other, index);
    REFUSE_OPERAND("values", muster_top_k, w, o.matrix, 3, t, index);
    REFUSE_OPERAND("index", muster_top_k, w, o.matrix, 3, o.other, t);
    REFUSE(OUT_OF_RANGE, "k", muster_top_k, w, o.matrix, 4, o.other, index);
    REFUSE(OUT_OF_RANGE, "k", muster_top_k, w, o.matrix, -1, o.other, index);
    REFUSE(INVALID_ARGUMENT, "worker", muster_tril, NULL, o.matrix, 0, o.other);
    REFUSE_OPERAND("x", muster_tril, w, t, 0, o.other);
    REFUSE_OPERAND("y", muster_tril, w, o.matrix, 0, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_tril, w, o.matrix, 0, o.vector);
    REFUSE(SHAPE_MISMATCH, "x", muster_tril, w, o.vector, 0, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_triu, NULL, o.matrix, 0, o.other);
    REFUSE_OPERAND("x", muster_triu, w, t, 0, o.other);
    REFUSE_OPERAND("y", muster_triu, w, o.matrix, 0, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_triu, w, o.matrix, 0, o.vector);
    REFUSE(SHAPE_MISMATCH, "x", muster_triu, w, o.vector, 0, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_eye, NULL, 0, o.matrix);
    REFUSE_OPERAND("y", muster_eye, w, 0, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_eye, w, 0, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_arange, NULL, 0, 1, o.vector);
    REFUSE_OPERAND("y", muster_arange, w, 0, 1, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_arange, w, 0, 1, o.matrix);
    REFUSE(UNSUPPORTED, "y", muster_arange, w, 0, 1, o.bools);
}

static void rows_and_layers(muster_worker *w) {
    const operands o = make_operands();
    static float bias_values[3];
    static int64_t counted[1], columns[2];
    const muster_tensor bias = muster_f32(bias_values, 3), index = muster_i64(columns, 2), correct = muster_i64(counted);
    REFUSE(INVALID_ARGUMENT, "worker", muster_take, NULL, o.matrix, o.labels, o.other);
    REFUSE_OPERAND("x", muster_take, w, t, o.labels, o.other);
    REFUSE_OPERAND("indices", muster_take, w, o.matrix, t, o.other);
    REFUSE_OPERAND("y", muster_take, w, o.matrix, o.labels, t);
    REFUSE(SHAPE_MISMATCH, "x", muster_take, w, o.scalar, o.labels, o.other);
    REFUSE(UNSUPPORTED, "indices", muster_take, w, o.matrix, o.vector, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_scatter_add, NULL, o.matrix, o.labels, o.other);
    REFUSE_OPERAND("x", muster_scatter_add, w, t, o.labels, o.other);
    REFUSE_OPERAND("indices", muster_scatter_add, w, o.matrix, t, o.other);
    REFUSE_OPERAND("y", muster_scatter_add, w, o.matrix, o.labels, t);
    REFUSE(SHAPE_MISMATCH, "y", muster_scatter_add, w, o.matrix, o.labels, o.scalar);
    REFUSE(INVALID_ARGUMENT, "worker", muster_one_hot, NULL, o.labels, 3, o.other);
    REFUSE_OPERAND("labels", muster_one_hot, w, t, 3, o.other);
    REFUSE_OPERAND("y", muster_one_hot, w, o.labels, 3, t);
    REFUSE(INVALID_ARGUMENT, "k", muster_one_hot, w, o.labels, -1, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_bias_relu, NULL, o.matrix, bias, o.other);
    REFUSE_OPERAND("x", muster_bias_relu, w, t, bias, o.other);
    REFUSE_OPERAND("bias", muster_bias_relu, w, o.matrix, t, o.other);
    REFUSE_OPERAND("y", muster_bias_relu, w, o.matrix, bias, t);
    REFUSE(SHAPE_MISMATCH, "bias", muster_bias_relu, w, o.matrix, o.vector, o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_relu_gradient, NULL, o.matrix, o.matrix, o.other);
    REFUSE_OPERAND("y", muster_relu_gradient, w, t, o.matrix, o.other);
    REFUSE_OPERAND("dy", muster_relu_gradient, w, o.matrix, t, o.other);
    REFUSE_OPERAND("dx", muster_relu_gradient, w, o.matrix, o.matrix, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_reduce, NULL, MUSTER_SUM, o.matrix, 0, bias);
    REFUSE(INVALID_ARGUMENT, "op", muster_reduce, w, 6, o.matrix, 0, bias);
    REFUSE(OUT_OF_RANGE, "axis", muster_reduce, w, MUSTER_SUM, o.matrix, 2, bias);
    REFUSE(OUT_OF_RANGE, "axis", muster_reduce, w, MUSTER_SUM, o.matrix, -2, bias);
    REFUSE_OPERAND("x", muster_reduce, w, MUSTER_SUM, t, 0, bias);
    REFUSE_OPERAND("y", muster_reduce, w, MUSTER_SUM, o.matrix, 0, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_reduce_axes, NULL, MUSTER_SUM, o.matrix, 1, bias);
    REFUSE(INVALID_ARGUMENT, "op", muster_reduce_axes, w, 0, o.matrix, 1, bias);
    REFUSE(OUT_OF_RANGE, "axes", muster_reduce_axes, w, MUSTER_SUM, o.matrix, 4, bias);
    REFUSE(SHAPE_MISMATCH, "y", muster_reduce_axes, w, MUSTER_SUM, o.matrix, 2, bias);
    REFUSE_OPERAND("x", muster_reduce_axes, w, MUSTER_SUM, t, 1, bias);
    REFUSE_OPERAND("y", muster_reduce_axes, w, MUSTER_SUM, o.matrix, 1, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_mean, NULL, o.matrix, o.scalar);
    REFUSE_OPERAND("x", muster_mean, w, t, o.scalar);
    REFUSE_OPERAND("y", muster_mean, w, o.matrix, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_sum, NULL, o.matrix, o.scalar);
    REFUSE_OPERAND("x", muster_sum, w, t, o.scalar);
    REFUSE_OPERAND("y", muster_sum, w, o.matrix, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_argmax, NULL, o.matrix, index);
    REFUSE_OPERAND("x", muster_argmax, w, t, index);
    REFUSE_OPERAND("index", muster_argmax, w, o.matrix, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_argmin, NULL, o.matrix, index);
    REFUSE_OPERAND("x", muster_argmin, w, t, index);
    REFUSE_OPERAND("index", muster_argmin, w, o.matrix, t);
    rows_of_their_own(w, o);
    REFUSE(INVALID_ARGUMENT, "worker", muster_softmax_cross_entropy, NULL, o.matrix, o.labels, 1, o.scalar, o.other, correct);
    REFUSE_OPERAND("logits", muster_softmax_cross_entropy, w, t, o.labels, 1, o.scalar, o.none, o.none);
    REFUSE_OPERAND("labels", muster_softmax_cross_entropy, w, o.matrix, t, 1, o.scalar, o.none, o.none);
    REFUSE_OPERAND("loss", muster_softmax_cross_entropy, w, o.matrix, o.labels, 1, t, o.none, o.none);
    REFUSE(INVALID_ARGUMENT, "gradient", muster_softmax_cross_entropy, w, o.matrix, o.labels, 1, o.scalar, o.elsewhere, o.none);
    REFUSE(SHAPE_MISMATCH, "gradient", muster_softmax_cross_entropy, w, o.matrix, o.labels, 1, o.scalar, o.vector, o.none);
    REFUSE(DTYPE_MISMATCH, "correct", muster_softmax_cross_entropy, w, o.matrix, o.labels, 1, o.scalar, o.none, o.scalar);
    REFUSE(INVALID_ARGUMENT, "worker", muster_random_uniform, NULL, 0, 0, o.matrix);
    REFUSE_OPERAND("y", muster_random_uniform, w, 0, 0, t);
    REFUSE(UNSUPPORTED, "y", muster_random_uniform, w, 0, 0, o.ints);
    REFUSE(INVALID_ARGUMENT, "worker", muster_random_normal, NULL, 0, 0, 0, 1, o.matrix);
    REFUSE_OPERAND("y", muster_random_normal, w, 0, 0, 0, 1, t);
    REFUSE(UNSUPPORTED, "y", muster_random_normal, w, 0, 0, 0, 1, o.ints);
}

void messages_operations(muster_worker *worker) {
    products(worker);
    elements(worker);
    rows_and_layers(worker);
}

static void questions(muster_worker *w) {
    muster_place place;
    int64_t first, rows;
    GIVES(muster_worker_rank, muster_worker_rank(NULL) == -1);
    GIVES(muster_worker_size, muster_worker_size(NULL) == -1);
    GIVES(muster_worker_backend, muster_worker_backend(NULL) == NULL);
    GIVES(muster_worker_first_row, muster_worker_first_row(NULL) == -1);
    GIVES(muster_worker_rows, muster_worker_rows(NULL) == -1);
    GIVES(muster_worker_total_rows, muster_worker_total_rows(NULL) == -1);
    GIVES(muster_worker_shard, muster_worker_shard(NULL) == -1);
    GIVES(muster_worker_shards, muster_worker_shards(NULL) == -1);
    GIVES(muster_worker_shards_here, muster_worker_shards_here(NULL) == -1);
    GIVES(muster_worker_slice, muster_worker_slice(NULL) == -1);
    GIVES(muster_worker_slices, muster_worker_slices(NULL) == -1);
    GIVES(muster_worker_weight, muster_worker_weight(NULL) == 0);
    GIVES(muster_worker_cancelled, muster_worker_cancelled(NULL) == 0);
    GIVES(muster_worker_scratch_mark, muster_worker_scratch_mark(NULL) == -1);
    GIVES(muster_worker_communicator, muster_worker_communicator(NULL) == NULL);
    GIVES(muster_communicator_size, muster_communicator_size(NULL) == -1);
    GIVES(muster_communicator_rank, muster_communicator_rank(NULL, w) == -1);
    REFUSE(INVALID_ARGUMENT, "communicator", muster_communicator_place, NULL, 0, &place);
    REFUSE(OUT_OF_RANGE, "rank", muster_communicator_place, muster_worker_communicator(w), -1, &place);
    REFUSE(OUT_OF_RANGE, "rank", muster_communicator_place, muster_worker_communicator(w), 1, &place);
    REFUSE(INVALID_ARGUMENT, "place", muster_communicator_place, muster_worker_communicator(w), 0, NULL);
    GIVES(muster_worker_cuda_stream, muster_worker_cuda_stream(NULL) == NULL && muster_worker_cuda_stream(w) == NULL);
    GIVES(muster_worker_cuda_device, muster_worker_cuda_device(NULL) == -1 && muster_worker_cuda_device(w) == -1);
    GIVES(muster_worker_cublas, muster_worker_cublas(NULL) == NULL && muster_worker_cublas(w) == NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_shard_rows, NULL, 0, &first, &rows);
    REFUSE(OUT_OF_RANGE, "shard_in_rank", muster_worker_shard_rows, w, -1, &first, &rows);
    REFUSE(OUT_OF_RANGE, "shard_in_rank", muster_worker_shard_rows, w, 1, &first, &rows);
    REFUSE(INVALID_ARGUMENT, "first_row", muster_worker_shard_rows, w, 0, NULL, &rows);
    REFUSE(INVALID_ARGUMENT, "rows", muster_worker_shard_rows, w, 0, &first, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_set_weight, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "weight", muster_worker_set_weight, w, -1);
    REFUSE(INVALID_ARGUMENT, "weight", muster_worker_set_weight, w, NAN);
    REFUSE(INVALID_ARGUMENT, "weight", muster_worker_set_weight, w, (double)INFINITY);
}

static void memory(muster_worker *w) {
    const operands o = make_operands();
    muster_tensor output, given;
    const int64_t two = 2, negative = -1, mark = muster_worker_scratch_mark(w);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_scratch, NULL, MUSTER_F32, 1, &two, &given);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_worker_scratch, w, 99, 1, &two, &given);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_worker_scratch, w, MUSTER_F32, 9, &two, &given);
    REFUSE(INVALID_ARGUMENT, "shape", muster_worker_scratch, w, MUSTER_F32, 1, NULL, &given);
    REFUSE(INVALID_ARGUMENT, "shape", muster_worker_scratch, w, MUSTER_F32, 1, &negative, &given);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_worker_scratch, w, MUSTER_F32, 1, &two, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_scratch_release, NULL, 0);
    REFUSE(INVALID_ARGUMENT, "mark", muster_worker_scratch_release, w, -1);
    REFUSE(INVALID_ARGUMENT, "mark", muster_worker_scratch_release, w, mark + 4096);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_variable, NULL, messages_of.variable, &given);
    REFUSE(INVALID_ARGUMENT, "variable", muster_worker_variable, w, NULL, &given);
    REFUSE(INVALID_ARGUMENT, "variable", muster_worker_variable, w, messages_of.variable, &given);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_update, NULL, messages_of.variable, &given);
    REFUSE(INVALID_ARGUMENT, "variable", muster_worker_update, w, NULL, &given);
    REFUSE(INVALID_ARGUMENT, "variable", muster_worker_update, w, messages_of.variable, &given);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_worker_variable, w, messages_of.variable, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_worker_update, w, messages_of.variable, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_output_rows, NULL, 0, 1, &output);
    REFUSE(OUT_OF_RANGE, "index", muster_worker_output_rows, w, 0, 1, &output);
    REFUSE(OUT_OF_RANGE, "index", muster_worker_output_rows, w, -1, 1, &output);
    REFUSE(INVALID_ARGUMENT, "output", muster_worker_output_rows, w, 0, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_read, NULL, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "device_tensor", muster_worker_read, w, o.none, o.other);
    REFUSE(INVALID_ARGUMENT, "device_tensor", muster_worker_read, w, o.elsewhere, o.other);
    REFUSE(INVALID_ARGUMENT, "host_tensor", muster_worker_read, w, o.matrix, o.none);
    REFUSE(SHAPE_MISMATCH, "host_tensor", muster_worker_read, w, o.matrix, o.vector);
    REFUSE(DTYPE_MISMATCH, "host_tensor", muster_worker_read, w, o.matrix, o.wide);
    REFUSE(UNSUPPORTED, "device_tensor", muster_worker_read, w, muster_tensor_transpose(o.matrix), o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_write, NULL, o.matrix, o.other);
    REFUSE(INVALID_ARGUMENT, "host_tensor", muster_worker_write, w, o.none, o.other);
    REFUSE(INVALID_ARGUMENT, "device_tensor", muster_worker_write, w, o.matrix, o.elsewhere);
    REFUSE(UNSUPPORTED, "host_tensor", muster_worker_write, w, muster_tensor_transpose(o.matrix), o.other);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_sync, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_cuda_after, NULL, NULL);
    REFUSE(UNSUPPORTED, "worker", muster_worker_cuda_after, w, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_cuda_before, NULL, NULL);
    REFUSE(UNSUPPORTED, "worker", muster_worker_cuda_before, w, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_cuda_tensor, NULL, o.matrix.data, MUSTER_F32, 1, &two, &output);
    REFUSE(UNSUPPORTED, "worker", muster_worker_cuda_tensor, w, o.matrix.data, MUSTER_F32, 1, &two, &output);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_worker_cuda_tensor, w, o.matrix.data, MUSTER_F32, 1, &two, NULL);
}

static void launches(muster_worker *w) {
    muster_kernel *kernel = messages_of.kernel;
    muster_grid grid = {.dims = 1, .groups = {1}, .threads = {1}};
    const muster_grid flat = {.dims = 0, .groups = {1}, .threads = {1}},
                      reserved = {.dims = 1, .reserved = 1, .groups = {1}, .threads = {1}};
    static float values[4];
    const muster_argument good[2] = {muster_argument_buffer(muster_f32(values, 4)), muster_argument_size(4)};
    const muster_argument wrong[2] = {muster_argument_buffer(muster_f32(values, 4)), muster_argument_int(MUSTER_F32, 4)};
    REFUSE(INVALID_ARGUMENT, "worker", muster_kernel_launch, NULL, kernel, &grid, good, 2);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_launch, w, NULL, &grid, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_launch, w, kernel, NULL, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_launch, w, kernel, &flat, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_launch, w, kernel, &reserved, good, 2);
    REFUSE(INVALID_ARGUMENT, "arguments", muster_kernel_launch, w, kernel, &grid, NULL, 2);
    REFUSE(INVALID_ARGUMENT, "argument", muster_kernel_launch, w, kernel, &grid, wrong, 2);
    REFUSE(INVALID_ARGUMENT, "argument_count", muster_kernel_launch, w, kernel, &grid, good, 1);
    REFUSE(INVALID_ARGUMENT, "worker", muster_kernel_launch_elements, NULL, kernel, 4, 0, good, 2);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_launch_elements, w, NULL, 4, 0, good, 2);
    REFUSE(INVALID_ARGUMENT, "elements", muster_kernel_launch_elements, w, kernel, -1, 0, good, 2);
    REFUSE(INVALID_ARGUMENT, "local_bytes", muster_kernel_launch_elements, w, kernel, 4, -1, good, 2);
    REFUSE(INVALID_ARGUMENT, "arguments", muster_kernel_launch_elements, w, kernel, 4, 0, NULL, 2);
    REFUSE(INVALID_ARGUMENT, "worker", muster_kernel_suggest_grid, NULL, kernel, 4, &grid);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_suggest_grid, w, NULL, 4, &grid);
    REFUSE(INVALID_ARGUMENT, "elements", muster_kernel_suggest_grid, w, kernel, -1, &grid);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_suggest_grid, w, kernel, 4, NULL);
}

/* What every collective refuses of the tensor `tensor_name`, which stands as `t` in the call. */
#define REFUSE_SENT(tensor_name, function, ...)                       \
    do {                                                              \
        muster_tensor t = o.none;                                     \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.elsewhere;                                              \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = o.misaligned;                                             \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
        t = muster_tensor_transpose(o.matrix);                        \
        REFUSE(UNSUPPORTED, tensor_name, function, __VA_ARGS__);      \
        t = o.matrix;                                                 \
        t.reserved[1] = 1;                                            \
        REFUSE(INVALID_ARGUMENT, tensor_name, function, __VA_ARGS__); \
    } while (0)

static void reductions(muster_worker *w) {
    const operands o = make_operands();
    static float velocity_values[6];
    const muster_tensor x = o.matrix, y = o.other, velocity = muster_f32(velocity_values, 2, 3);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_reduce, NULL, NULL, MUSTER_SUM, x, y);
    REFUSE(INVALID_ARGUMENT, "op", muster_worker_all_reduce, w, NULL, 0, x, y);
    REFUSE(UNSUPPORTED, "op", muster_worker_all_reduce, w, NULL, MUSTER_AVG, o.ints, o.ints);
    REFUSE_SENT("input", muster_worker_all_reduce, w, NULL, MUSTER_SUM, t, y);
    REFUSE_SENT("output", muster_worker_all_reduce, w, NULL, MUSTER_SUM, x, t);
    REFUSE(DTYPE_MISMATCH, "output", muster_worker_all_reduce, w, NULL, MUSTER_SUM, x, o.wide);
    REFUSE(SHAPE_MISMATCH, "output", muster_worker_all_reduce, w, NULL, MUSTER_SUM, x, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_reduce_shards, NULL, NULL, MUSTER_SUM, x, y);
    REFUSE(INVALID_ARGUMENT, "op", muster_worker_all_reduce_shards, w, NULL, 6, x, y);
    REFUSE_SENT("input", muster_worker_all_reduce_shards, w, NULL, MUSTER_SUM, t, y);
    REFUSE(SHAPE_MISMATCH, "input", muster_worker_all_reduce_shards, w, NULL, MUSTER_SUM, o.scalar, y);
    REFUSE(SHAPE_MISMATCH, "output", muster_worker_all_reduce_shards, w, NULL, MUSTER_SUM, x, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_reduce_weighted, NULL, NULL, 1, x, y);
    REFUSE(INVALID_ARGUMENT, "weight", muster_worker_all_reduce_weighted, w, NULL, -1, x, y);
    REFUSE_SENT("input", muster_worker_all_reduce_weighted, w, NULL, 1, t, y);
    REFUSE_SENT("output", muster_worker_all_reduce_weighted, w, NULL, 1, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_reduce_axpy, NULL, NULL, 1, x, y);
    REFUSE_SENT("gradient", muster_worker_all_reduce_axpy, w, NULL, 1, t, y);
    REFUSE_SENT("parameter", muster_worker_all_reduce_axpy, w, NULL, 1, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_reduce_momentum, NULL, NULL, 1, x, 1, velocity, y);
    REFUSE_SENT("gradient", muster_worker_all_reduce_momentum, w, NULL, 1, t, 1, velocity, y);
    REFUSE_SENT("velocity", muster_worker_all_reduce_momentum, w, NULL, 1, x, 1, t, y);
    REFUSE_SENT("parameter", muster_worker_all_reduce_momentum, w, NULL, 1, x, 1, velocity, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_reduce, NULL, NULL, MUSTER_SUM, 0, x, y);
    REFUSE(INVALID_ARGUMENT, "op", muster_worker_reduce, w, NULL, 0, 0, x, y);
    REFUSE(OUT_OF_RANGE, "root", muster_worker_reduce, w, NULL, MUSTER_SUM, 1, x, y);
    REFUSE(OUT_OF_RANGE, "root", muster_worker_reduce, w, NULL, MUSTER_SUM, -1, x, y);
    REFUSE_SENT("input", muster_worker_reduce, w, NULL, MUSTER_SUM, 0, t, y);
    REFUSE_SENT("output", muster_worker_reduce, w, NULL, MUSTER_SUM, 0, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_reduce_scatter, NULL, NULL, MUSTER_SUM, x, y);
    REFUSE(INVALID_ARGUMENT, "op", muster_worker_reduce_scatter, w, NULL, 0, x, y);
    REFUSE_SENT("input", muster_worker_reduce_scatter, w, NULL, MUSTER_SUM, t, y);
    REFUSE_SENT("output", muster_worker_reduce_scatter, w, NULL, MUSTER_SUM, x, t);
    REFUSE(SHAPE_MISMATCH, "input", muster_worker_reduce_scatter, w, NULL, MUSTER_SUM, x, o.vector);
}

static void moves(muster_worker *w) {
    const operands o = make_operands();
    const muster_tensor x = o.matrix, y = o.other;
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_broadcast, NULL, NULL, 0, x, y);
    REFUSE(OUT_OF_RANGE, "root", muster_worker_broadcast, w, NULL, 1, x, y);
    REFUSE_SENT("input", muster_worker_broadcast, w, NULL, 0, t, y);
    REFUSE_SENT("output", muster_worker_broadcast, w, NULL, 0, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_gather, NULL, NULL, x, y);
    REFUSE_SENT("input", muster_worker_all_gather, w, NULL, t, y);
    REFUSE_SENT("output", muster_worker_all_gather, w, NULL, x, t);
    REFUSE(SHAPE_MISMATCH, "output", muster_worker_all_gather, w, NULL, x, o.vector);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_gather, NULL, NULL, 0, x, y);
    REFUSE(OUT_OF_RANGE, "root", muster_worker_gather, w, NULL, -1, x, y);
    REFUSE_SENT("input", muster_worker_gather, w, NULL, 0, t, y);
    REFUSE_SENT("output", muster_worker_gather, w, NULL, 0, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_scatter, NULL, NULL, 0, x, y);
    REFUSE(OUT_OF_RANGE, "root", muster_worker_scatter, w, NULL, 1, x, y);
    REFUSE_SENT("input", muster_worker_scatter, w, NULL, 0, t, y);
    REFUSE_SENT("output", muster_worker_scatter, w, NULL, 0, x, t);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_to_all, NULL, NULL, x, y);
    REFUSE_SENT("input", muster_worker_all_to_all, w, NULL, t, y);
    REFUSE_SENT("output", muster_worker_all_to_all, w, NULL, x, t);
    const int64_t six = 6, negative = -1, five = 5;
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_all_to_all_uneven, NULL, NULL, x, &six, y, &six);
    REFUSE_SENT("input", muster_worker_all_to_all_uneven, w, NULL, t, &six, y, &six);
    REFUSE_SENT("output", muster_worker_all_to_all_uneven, w, NULL, x, &six, t, &six);
    REFUSE(INVALID_ARGUMENT, "send_counts", muster_worker_all_to_all_uneven, w, NULL, x, NULL, y, &six);
    REFUSE(INVALID_ARGUMENT, "recv_counts", muster_worker_all_to_all_uneven, w, NULL, x, &six, y, NULL);
    REFUSE(INVALID_ARGUMENT, "send_counts", muster_worker_all_to_all_uneven, w, NULL, x, &negative, y, &six);
    REFUSE(INVALID_ARGUMENT, "recv_counts", muster_worker_all_to_all_uneven, w, NULL, x, &six, y, &negative);
    REFUSE(SHAPE_MISMATCH, "send_counts", muster_worker_all_to_all_uneven, w, NULL, x, &five, y, &six);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_send, NULL, NULL, 0, 0, x);
    REFUSE(OUT_OF_RANGE, "to", muster_worker_send, w, NULL, 1, 0, x);
    REFUSE(OUT_OF_RANGE, "to", muster_worker_send, w, NULL, -1, 0, x);
    REFUSE(INVALID_ARGUMENT, "tag", muster_worker_send, w, NULL, 0, -1, x);
    REFUSE(INVALID_ARGUMENT, "to", muster_worker_send, w, NULL, 0, 0, x); /* to itself, outside of a group */
    assert_ok(muster_worker_group_begin(w, NULL));
    REFUSE_SENT("input", muster_worker_send, w, NULL, 0, 0, t);
    assert_ok(muster_worker_group_end(w, NULL));
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_recv, NULL, NULL, 0, 0, x);
    REFUSE(OUT_OF_RANGE, "from", muster_worker_recv, w, NULL, 1, 0, x);
    REFUSE(INVALID_ARGUMENT, "tag", muster_worker_recv, w, NULL, 0, -1, x);
    REFUSE(INVALID_ARGUMENT, "from", muster_worker_recv, w, NULL, 0, 0, x);
    assert_ok(muster_worker_group_begin(w, NULL));
    REFUSE_SENT("output", muster_worker_recv, w, NULL, 0, 0, t);
    assert_ok(muster_worker_group_end(w, NULL));
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_barrier, NULL, NULL);
}

static void communicators(muster_worker *w) {
    muster_communicator *part, *all = muster_worker_communicator(w);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_split, NULL, NULL, 0, 0, &part);
    REFUSE(INVALID_ARGUMENT, "part", muster_worker_split, w, NULL, 0, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_release, NULL, all);
    REFUSE(INVALID_ARGUMENT, "part", muster_worker_release, w, all);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_group_begin, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_group_end, NULL, NULL);
    REFUSE(BAD_STATE, "group", muster_worker_group_end, w, NULL);
}

static void graphs(muster_worker *w) {
    const operands o = make_operands();
    muster_function *compiled = messages_of.compiled;
    static float results[2];
    const muster_tensor y = muster_f32(results, 2);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_run, NULL, compiled, &o.vector, 1, &y, 1);
    REFUSE(INVALID_ARGUMENT, "function", muster_worker_run, w, NULL, &o.vector, 1, &y, 1);
    REFUSE(UNSUPPORTED, "function", muster_worker_run, w, messages_of.function, &o.vector, 1, &y, 1);
    REFUSE(INVALID_ARGUMENT, "inputs", muster_worker_run, w, compiled, NULL, 1, &y, 1);
    REFUSE(INVALID_ARGUMENT, "input_count", muster_worker_run, w, compiled, &o.vector, 0, &y, 1);
    REFUSE(INVALID_ARGUMENT, "inputs", muster_worker_run, w, compiled, &o.none, 1, &y, 1);
    REFUSE(INVALID_ARGUMENT, "outputs", muster_worker_run, w, compiled, &o.vector, 1, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "output_count", muster_worker_run, w, compiled, &o.vector, 1, &y, 2);
}

void messages_workers(muster_worker *worker) {
    graphs(worker);
    questions(worker);
    memory(worker);
    launches(worker);
    reductions(worker);
    moves(worker);
    communicators(worker);
}

static void creating(muster_worker *w) {
    static float values[4];
    muster_server *server = messages_of.server, *unused_server;
    muster_driver *unused;
    muster_client *client;
    const muster_tensor good = muster_f32(values, 4);
    muster_runtime *runtime = messages_of.runtime;
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_create_server, NULL, runtime, "n", &good, 1, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_worker_create_server, w, NULL, "n", &good, 1, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_worker_create_server, w, messages_of.other, "n", &good, 1, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "name", muster_worker_create_server, w, runtime, NULL, &good, 1, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "values", muster_worker_create_server, w, runtime, "n", NULL, 1, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "count", muster_worker_create_server, w, runtime, "n", &good, 0, NULL, &unused_server);
    REFUSE(INVALID_ARGUMENT, "server", muster_worker_create_server, w, runtime, "n", &good, 1, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_worker_client, NULL, server, &client);
    REFUSE(INVALID_ARGUMENT, "server", muster_worker_client, w, NULL, &client);
    REFUSE(INVALID_ARGUMENT, "client", muster_worker_client, w, server, NULL);
#define REFUSE_CREATION(function)                                                                               \
    do {                                                                                                        \
        muster_driver_options options = {.struct_size = sizeof options, .update_frequency = -1};                \
        REFUSE(INVALID_ARGUMENT, "worker", function, NULL, server, NULL, &unused);                              \
        REFUSE(INVALID_ARGUMENT, "server", function, w, NULL, NULL, &unused);                                   \
        REFUSE(INVALID_ARGUMENT, "driver", function, w, server, NULL, NULL);                                    \
        REFUSE(INVALID_ARGUMENT, "update_frequency", function, w, server, &options, &unused);                   \
        options = (muster_driver_options){.struct_size = sizeof options, .prefetch = -1};                       \
        REFUSE(INVALID_ARGUMENT, "prefetch", function, w, server, &options, &unused);                           \
        options = (muster_driver_options){.struct_size = sizeof options, .update_frequency = 2, .prefetch = 3}; \
        REFUSE(INVALID_ARGUMENT, "prefetch", function, w, server, &options, &unused);                           \
        options = (muster_driver_options){.struct_size = sizeof options, .send_frequency = -1};                 \
        REFUSE(INVALID_ARGUMENT, "send_frequency", function, w, server, &options, &unused);                     \
        options = (muster_driver_options){.struct_size = sizeof options, .keep_initial = 2};                    \
        REFUSE(INVALID_ARGUMENT, "keep_initial", function, w, server, &options, &unused);                       \
        options = (muster_driver_options){.struct_size = sizeof options, .integrating = -1};                    \
        REFUSE(INVALID_ARGUMENT, "integrating", function, w, server, &options, &unused);                        \
        options = (muster_driver_options){.struct_size = sizeof options, .beta = NAN};                          \
        REFUSE(INVALID_ARGUMENT, "beta", function, w, server, &options, &unused);                               \
    } while (0)
    REFUSE_CREATION(muster_driver_create);
    REFUSE_CREATION(muster_downpour_create);
    REFUSE_CREATION(muster_easgd_create);
}

void messages_drivers(muster_worker *w) {
    static float values[4], gradients[4];
    const muster_tensor parameter = muster_f32(values, 4), gradient = muster_f32(gradients, 4), narrow = muster_f32(values, 3);
    muster_tensor given;
    muster_driver *driver;
    muster_driver_counts counts, misfit = {.struct_size = 1};
    muster_driver_counts_init(&counts);
    creating(w);
    assert_ok(muster_downpour_create(w, messages_of.server, NULL, &driver));
    muster_driver_options_init_sized(NULL, 8);
    GIVES(muster_driver_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_step, NULL, w, 0, &parameter, &gradient, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "worker", muster_driver_step, driver, NULL, 0, &parameter, &gradient, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "step", muster_driver_step, driver, w, -1, &parameter, &gradient, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "parameters", muster_driver_step, driver, w, 0, NULL, &gradient, 1, NULL);
    REFUSE(SHAPE_MISMATCH, "parameters", muster_driver_step, driver, w, 0, &narrow, &gradient, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "gradients", muster_driver_step, driver, w, 0, &parameter, NULL, 1, NULL);
    REFUSE(SHAPE_MISMATCH, "gradients", muster_driver_step, driver, w, 0, &parameter, &narrow, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "count", muster_driver_step, driver, w, 0, &parameter, &gradient, 2, NULL);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_flush, NULL, w);
    REFUSE(INVALID_ARGUMENT, "worker", muster_driver_flush, driver, NULL);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_default_fetch, NULL, w);
    REFUSE(INVALID_ARGUMENT, "worker", muster_driver_default_fetch, driver, NULL);
    REFUSE(BAD_STATE, "driver", muster_driver_default_fetch, driver, w);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_default_integrate, NULL, w, &parameter, 1);
    REFUSE(INVALID_ARGUMENT, "worker", muster_driver_default_integrate, driver, NULL, &parameter, 1);
    REFUSE(BAD_STATE, "driver", muster_driver_default_integrate, driver, w, &parameter, 1);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_default_send, NULL, w);
    REFUSE(INVALID_ARGUMENT, "worker", muster_driver_default_send, driver, NULL);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_get_counts, NULL, &counts);
    REFUSE(INVALID_ARGUMENT, "counts", muster_driver_get_counts, driver, NULL);
    REFUSE(INVALID_ARGUMENT, "counts", muster_driver_get_counts, driver, &misfit);
    GIVES(muster_driver_client, muster_driver_client(NULL) == NULL);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_fetched, NULL, 0, &given);
    REFUSE(OUT_OF_RANGE, "index", muster_driver_fetched, driver, -1, &given);
    REFUSE(OUT_OF_RANGE, "index", muster_driver_fetched, driver, 1, &given);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_driver_fetched, driver, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "driver", muster_driver_outgoing, NULL, 0, &given);
    REFUSE(OUT_OF_RANGE, "index", muster_driver_outgoing, driver, -1, &given);
    REFUSE(OUT_OF_RANGE, "index", muster_driver_outgoing, driver, 1, &given);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_driver_outgoing, driver, 0, NULL);
    GIVES(muster_driver_alpha, muster_driver_alpha(NULL) == 0);
    GIVES(muster_driver_destroy, muster_driver_destroy(NULL) == MUSTER_OK);
    assert_ok(muster_driver_destroy(driver));
}
