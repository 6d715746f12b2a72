/* muster/expr.h: a function for each operation of expressions (muster/graph.h), with NumPy's words.
 * Printed from the library's table of operations; a test compares.
 *
 *     muster_expr *h = muster_expr_relu(muster_expr_matmul(x, w));
 *     muster_expr *loss = muster_expr_mean(h, MUSTER_LIST(axis, 0), .keepdims = 1);
 *
 * The operands come first, NULL for one that is missing, with all behind it; then the attributes
 * that the operation must have, every floating-point one, and integers whose default is not 0
 * (MUSTER_NONE: the axis of argmin is not given). The others follow as fields, in any order or not
 * at all: a number by its name, a list by MUSTER_LIST(name, ...). A list of sizes is
 * MUSTER_SHAPE(...). A list of one entry is a list, too: `.axis = 0` compiles, since C takes the 0
 * for a null pointer, and the call is refused, as muster_expr_sum(x, 0) is.
 * C++ calls the functions whose names end in _at, with a struct that holds the fields, in which
 * {} leaves out all, and {0} does not mean axis 0:
 *
 *     const int64_t rows[] = {0};
 *     muster_mean_attributes by_row = {};
 *     by_row.axis = rows, by_row.axis_count = 1;
 *     muster_expr *loss = muster_expr_mean_at(MUSTER_HERE, h, by_row);
 *
 * or muster_expr_parse(graph, "mean(h, axis=0)", "h", h), which is the same in both languages.
 * Each function is muster_expr_apply with its name; errors and threads are those of
 * muster_expr_apply. */
#ifndef MUSTER_EXPR_H
#define MUSTER_EXPR_H

#include "muster/graph.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL, where C++ programs may turn on warnings of it. */
#ifdef __cplusplus
#define MUSTER_NOTHING_ nullptr
#else
#define MUSTER_NOTHING_ NULL
#endif
/* clang-format off */
/* A field that is a list: MUSTER_LIST(axis, 0, 1). */
#define MUSTER_LIST(name, ...) \
    .name##_count = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .name = (const int64_t[]){__VA_ARGS__}

/* The count of a list, or INT32_MIN: an address without a count, or a number in place of a list,
 * which the library refuses. `bits` are those of muster_fields_ that say so of this list. */
static inline int32_t muster_list_count_(int32_t reserved, int32_t bits, const int64_t *list, int32_t count) {
    return list ? (count ? count : INT32_MIN) : (reserved & bits) ? INT32_MIN : count;
}
#ifndef __cplusplus
/* Which fields a call gives, read from their text. Bit 0: the first value has no name. Bit l + 1:
 * the call names list l of `lists` (".stride .padding ") without its count, and not with a null
 * pointer that is written as one. Text in brackets does not count. */
static inline int32_t muster_fields_(const char *lists, const char *text) {
    const char first = text[strspn(text, " ")];
    int32_t found = first && first != '.' && first != ',';
    for (int32_t bit = 2; *lists; bit *= 2, lists += strcspn(lists, " ") + 1) {
        const size_t length = strcspn(lists, " ");
        int32_t depth = 0, alone = 0;
        for (const char *at = text; *at; at++) {
            depth += (*at == '(' || *at == '{' || *at == '[') - (*at == ')' || *at == '}' || *at == ']');
            if (depth || *at != '.' || strncmp(at, lists, length)) continue;
            const char *value = at + length + strspn(at + length, " ");
            if (!strncmp(at + length, "_count", 6) && strchr(" =", at[length + 6])) {
                alone = 0;
                break;
            }
            if (*value != '=') continue;
            value += 1 + strspn(value + 1, " (");
            alone = strncmp(value, "void", 4) && strncmp(value, "nullptr", 7) && strncmp(value, "NULL", 4);
        }
        if (alone) found |= bit;
    }
    return found;
}
#endif

/* stop_gradient: x, whose gradient is taken as 0. */
static inline muster_expr *muster_expr_stop_gradient_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "stop_gradient", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_stop_gradient(...) muster_expr_stop_gradient_at(MUSTER_HERE, __VA_ARGS__)

/* full: the value in every element. No gradient: it depends on nothing. */
static inline muster_expr *muster_expr_full_at(const char *where, muster_graph *graph, int32_t shape_count, const int64_t *shape, double value, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "value";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = value;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = dtype;
    (void)muster_expr_apply(graph, "full", MUSTER_NOTHING_, 0, list, where, &result);
    return result;
}
#define muster_expr_full(...) muster_expr_full_at(MUSTER_HERE, __VA_ARGS__)

/* full_like: the value in every element, in the shape and dtype of x. No gradient: it depends on
 * nothing. */
static inline muster_expr *muster_expr_full_like_at(const char *where, muster_expr *x, double value) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "value";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = value;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "full_like", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_full_like(...) muster_expr_full_like_at(MUSTER_HERE, __VA_ARGS__)

/* zeros_like: 0 in every element, in the shape and dtype of x. No gradient: it depends on
 * nothing. */
static inline muster_expr *muster_expr_zeros_like_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "zeros_like", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_zeros_like(...) muster_expr_zeros_like_at(MUSTER_HERE, __VA_ARGS__)

/* ones_like: 1 in every element, in the shape and dtype of x. No gradient: it depends on
 * nothing. */
static inline muster_expr *muster_expr_ones_like_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "ones_like", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_ones_like(...) muster_expr_ones_like_at(MUSTER_HERE, __VA_ARGS__)

/* negative: -x; of unsigned integers it wraps around. */
static inline muster_expr *muster_expr_negative_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "negative", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_negative(...) muster_expr_negative_at(MUSTER_HERE, __VA_ARGS__)

/* absolute: |x|; the gradient at 0 is 0. */
static inline muster_expr *muster_expr_absolute_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "absolute", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_absolute(...) muster_expr_absolute_at(MUSTER_HERE, __VA_ARGS__)

/* square: x x. */
static inline muster_expr *muster_expr_square_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "square", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_square(...) muster_expr_square_at(MUSTER_HERE, __VA_ARGS__)

/* sqrt: the square root of x. */
static inline muster_expr *muster_expr_sqrt_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sqrt", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sqrt(...) muster_expr_sqrt_at(MUSTER_HERE, __VA_ARGS__)

/* exp: e to the power of x. */
static inline muster_expr *muster_expr_exp_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "exp", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_exp(...) muster_expr_exp_at(MUSTER_HERE, __VA_ARGS__)

/* log: the natural logarithm of x. */
static inline muster_expr *muster_expr_log_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_log(...) muster_expr_log_at(MUSTER_HERE, __VA_ARGS__)

/* tanh: the hyperbolic tangent of x. */
static inline muster_expr *muster_expr_tanh_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "tanh", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_tanh(...) muster_expr_tanh_at(MUSTER_HERE, __VA_ARGS__)

/* sigmoid: 1 / (1 + exp(-x)). */
static inline muster_expr *muster_expr_sigmoid_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sigmoid", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sigmoid(...) muster_expr_sigmoid_at(MUSTER_HERE, __VA_ARGS__)

/* relu: the larger of x and 0; the gradient at 0 is 0. */
static inline muster_expr *muster_expr_relu_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "relu", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_relu(...) muster_expr_relu_at(MUSTER_HERE, __VA_ARGS__)

/* reciprocal: 1 / x. */
static inline muster_expr *muster_expr_reciprocal_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "reciprocal", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_reciprocal(...) muster_expr_reciprocal_at(MUSTER_HERE, __VA_ARGS__)

/* softplus: log(1 + exp(x)). */
static inline muster_expr *muster_expr_softplus_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "softplus", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_softplus(...) muster_expr_softplus_at(MUSTER_HERE, __VA_ARGS__)

/* sin: the sine of x. */
static inline muster_expr *muster_expr_sin_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sin", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sin(...) muster_expr_sin_at(MUSTER_HERE, __VA_ARGS__)

/* cos: the cosine of x. */
static inline muster_expr *muster_expr_cos_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "cos", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_cos(...) muster_expr_cos_at(MUSTER_HERE, __VA_ARGS__)

/* tan: the tangent of x. */
static inline muster_expr *muster_expr_tan_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "tan", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_tan(...) muster_expr_tan_at(MUSTER_HERE, __VA_ARGS__)

/* asin: the angle whose sine is x. */
static inline muster_expr *muster_expr_asin_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "asin", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_asin(...) muster_expr_asin_at(MUSTER_HERE, __VA_ARGS__)

/* acos: the angle whose cosine is x. */
static inline muster_expr *muster_expr_acos_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "acos", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_acos(...) muster_expr_acos_at(MUSTER_HERE, __VA_ARGS__)

/* atan: the angle whose tangent is x. */
static inline muster_expr *muster_expr_atan_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "atan", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_atan(...) muster_expr_atan_at(MUSTER_HERE, __VA_ARGS__)

/* sinh: the hyperbolic sine of x. */
static inline muster_expr *muster_expr_sinh_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sinh", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sinh(...) muster_expr_sinh_at(MUSTER_HERE, __VA_ARGS__)

/* cosh: the hyperbolic cosine of x. */
static inline muster_expr *muster_expr_cosh_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "cosh", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_cosh(...) muster_expr_cosh_at(MUSTER_HERE, __VA_ARGS__)

/* erf: the error function of x. */
static inline muster_expr *muster_expr_erf_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "erf", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_erf(...) muster_expr_erf_at(MUSTER_HERE, __VA_ARGS__)

/* log1p: log(1 + x). */
static inline muster_expr *muster_expr_log1p_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log1p", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_log1p(...) muster_expr_log1p_at(MUSTER_HERE, __VA_ARGS__)

/* expm1: exp(x) - 1. */
static inline muster_expr *muster_expr_expm1_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "expm1", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_expm1(...) muster_expr_expm1_at(MUSTER_HERE, __VA_ARGS__)

/* log2: the logarithm of x to the base 2. */
static inline muster_expr *muster_expr_log2_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log2", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_log2(...) muster_expr_log2_at(MUSTER_HERE, __VA_ARGS__)

/* exp2: 2 to the power of x. */
static inline muster_expr *muster_expr_exp2_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "exp2", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_exp2(...) muster_expr_exp2_at(MUSTER_HERE, __VA_ARGS__)

/* log10: the logarithm of x to the base 10. */
static inline muster_expr *muster_expr_log10_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log10", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_log10(...) muster_expr_log10_at(MUSTER_HERE, __VA_ARGS__)

/* rsqrt: 1 / sqrt(x). */
static inline muster_expr *muster_expr_rsqrt_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "rsqrt", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_rsqrt(...) muster_expr_rsqrt_at(MUSTER_HERE, __VA_ARGS__)

/* gelu: x (1 + erf(x / sqrt(2))) / 2. */
static inline muster_expr *muster_expr_gelu_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "gelu", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_gelu(...) muster_expr_gelu_at(MUSTER_HERE, __VA_ARGS__)

/* gelu_derivative: P(x) + x p(x), with P the normal distribution and p its density: the derivative
 * of gelu. */
static inline muster_expr *muster_expr_gelu_derivative_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "gelu_derivative", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_gelu_derivative(...) muster_expr_gelu_derivative_at(MUSTER_HERE, __VA_ARGS__)

/* silu: x / (1 + exp(-x)). */
static inline muster_expr *muster_expr_silu_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "silu", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_silu(...) muster_expr_silu_at(MUSTER_HERE, __VA_ARGS__)

/* leaky_relu: x where x > 0, else alpha x. */
static inline muster_expr *muster_expr_leaky_relu_at(const char *where, muster_expr *x, double alpha) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "alpha";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = alpha;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "leaky_relu", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_leaky_relu(...) muster_expr_leaky_relu_at(MUSTER_HERE, __VA_ARGS__)

/* elu: x where x > 0, else alpha (exp(x) - 1). */
static inline muster_expr *muster_expr_elu_at(const char *where, muster_expr *x, double alpha) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "alpha";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = alpha;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "elu", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_elu(...) muster_expr_elu_at(MUSTER_HERE, __VA_ARGS__)

/* celu: x where x > 0, else alpha (exp(x / alpha) - 1). */
static inline muster_expr *muster_expr_celu_at(const char *where, muster_expr *x, double alpha) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "alpha";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = alpha;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "celu", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_celu(...) muster_expr_celu_at(MUSTER_HERE, __VA_ARGS__)

/* selu: 1.0507009873554805 elu(x, 1.6732632423543772). */
static inline muster_expr *muster_expr_selu_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "selu", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_selu(...) muster_expr_selu_at(MUSTER_HERE, __VA_ARGS__)

/* hard_sigmoid: x alpha + beta, limited to [0, 1]. */
static inline muster_expr *muster_expr_hard_sigmoid_at(const char *where, muster_expr *x, double alpha, double beta) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "alpha";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = alpha;
    list[1].name = "beta";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = beta;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "hard_sigmoid", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_hard_sigmoid(...) muster_expr_hard_sigmoid_at(MUSTER_HERE, __VA_ARGS__)

/* hard_swish: x (x / 6 + 1/2, limited to [0, 1]). */
static inline muster_expr *muster_expr_hard_swish_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "hard_swish", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_hard_swish(...) muster_expr_hard_swish_at(MUSTER_HERE, __VA_ARGS__)

/* mish: x tanh(log(1 + exp(x))). */
static inline muster_expr *muster_expr_mish_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "mish", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_mish(...) muster_expr_mish_at(MUSTER_HERE, __VA_ARGS__)

/* softsign: x / (1 + |x|). */
static inline muster_expr *muster_expr_softsign_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "softsign", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_softsign(...) muster_expr_softsign_at(MUSTER_HERE, __VA_ARGS__)

/* log_sigmoid: log(sigmoid(x)) = -log(1 + exp(-x)), without overflow. */
static inline muster_expr *muster_expr_log_sigmoid_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log_sigmoid", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_log_sigmoid(...) muster_expr_log_sigmoid_at(MUSTER_HERE, __VA_ARGS__)

/* sign: -1, 0 or 1; the gradient is 0. */
static inline muster_expr *muster_expr_sign_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sign", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sign(...) muster_expr_sign_at(MUSTER_HERE, __VA_ARGS__)

/* floor: x rounded down; the gradient is 0. */
static inline muster_expr *muster_expr_floor_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "floor", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_floor(...) muster_expr_floor_at(MUSTER_HERE, __VA_ARGS__)

/* ceil: x rounded up; the gradient is 0. */
static inline muster_expr *muster_expr_ceil_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "ceil", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_ceil(...) muster_expr_ceil_at(MUSTER_HERE, __VA_ARGS__)

/* round: x rounded to the nearest integer, halves to the even one; the gradient is 0. */
static inline muster_expr *muster_expr_round_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "round", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_round(...) muster_expr_round_at(MUSTER_HERE, __VA_ARGS__)

/* trunc: x rounded towards 0; the gradient is 0. */
static inline muster_expr *muster_expr_trunc_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "trunc", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_trunc(...) muster_expr_trunc_at(MUSTER_HERE, __VA_ARGS__)

/* bitwise_not: x with every bit inverted; of truth values not. No gradient: it takes integers. */
static inline muster_expr *muster_expr_bitwise_not_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "bitwise_not", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_bitwise_not(...) muster_expr_bitwise_not_at(MUSTER_HERE, __VA_ARGS__)

/* add: a + b; of truth values or. */
static inline muster_expr *muster_expr_add_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "add", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_add(...) muster_expr_add_at(MUSTER_HERE, __VA_ARGS__)

/* subtract: a - b. */
static inline muster_expr *muster_expr_subtract_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "subtract", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_subtract(...) muster_expr_subtract_at(MUSTER_HERE, __VA_ARGS__)

/* multiply: a b; of truth values and. */
static inline muster_expr *muster_expr_multiply_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "multiply", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_multiply(...) muster_expr_multiply_at(MUSTER_HERE, __VA_ARGS__)

/* divide: a / b; of integers and truth values f64; dtype: of the result. */
typedef struct muster_divide_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t dtype;
} muster_divide_attributes;
static inline muster_expr *muster_expr_divide_at(const char *where, muster_expr *a, muster_expr *b, muster_divide_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "dtype";
    list[0].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[0].integer = attributes.dtype;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "divide", inputs, 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_divide(...) muster_expr_divide_(__VA_ARGS__, )
#define muster_expr_divide_(a0, a1, ...) \
    muster_expr_divide_at(MUSTER_HERE, a0, a1, (muster_divide_attributes){0, __VA_ARGS__})
#endif

/* maximum: the larger of a and b; of equals a has the gradient. */
static inline muster_expr *muster_expr_maximum_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "maximum", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_maximum(...) muster_expr_maximum_at(MUSTER_HERE, __VA_ARGS__)

/* minimum: the smaller of a and b; of equals a has the gradient. */
static inline muster_expr *muster_expr_minimum_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "minimum", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_minimum(...) muster_expr_minimum_at(MUSTER_HERE, __VA_ARGS__)

/* power: a to the power of b; of integers b is a plain number from 0 on, and the power wraps
 * around. */
static inline muster_expr *muster_expr_power_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "power", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_power(...) muster_expr_power_at(MUSTER_HERE, __VA_ARGS__)

/* floor_divide: a / b rounded down; the gradient is 0. */
static inline muster_expr *muster_expr_floor_divide_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "floor_divide", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_floor_divide(...) muster_expr_floor_divide_at(MUSTER_HERE, __VA_ARGS__)

/* trunc_divide: a / b of integers, rounded towards zero; 0 where b is 0. No gradient: it takes
 * integers. */
static inline muster_expr *muster_expr_trunc_divide_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "trunc_divide", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_trunc_divide(...) muster_expr_trunc_divide_at(MUSTER_HERE, __VA_ARGS__)

/* remainder: a - b floor(a / b), with the sign of b. */
static inline muster_expr *muster_expr_remainder_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "remainder", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_remainder(...) muster_expr_remainder_at(MUSTER_HERE, __VA_ARGS__)

/* fmod: a - b trunc(a / b), with the sign of a. */
static inline muster_expr *muster_expr_fmod_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "fmod", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_fmod(...) muster_expr_fmod_at(MUSTER_HERE, __VA_ARGS__)

/* atan2: the angle of the point (b, a); the gradient at (0, 0) is NaN. */
static inline muster_expr *muster_expr_atan2_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "atan2", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_atan2(...) muster_expr_atan2_at(MUSTER_HERE, __VA_ARGS__)

/* hypot: sqrt(a a + b b); the gradient at (0, 0) is NaN. */
static inline muster_expr *muster_expr_hypot_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "hypot", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_hypot(...) muster_expr_hypot_at(MUSTER_HERE, __VA_ARGS__)

/* logaddexp: log(exp(a) + exp(b)) without overflow. */
static inline muster_expr *muster_expr_logaddexp_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "logaddexp", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logaddexp(...) muster_expr_logaddexp_at(MUSTER_HERE, __VA_ARGS__)

/* logaddexp2: log2(2^a + 2^b) without overflow. */
static inline muster_expr *muster_expr_logaddexp2_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "logaddexp2", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logaddexp2(...) muster_expr_logaddexp2_at(MUSTER_HERE, __VA_ARGS__)

/* bitwise_and: the bits that a and b have; of truth values and. No gradient: it takes integers. */
static inline muster_expr *muster_expr_bitwise_and_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "bitwise_and", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_bitwise_and(...) muster_expr_bitwise_and_at(MUSTER_HERE, __VA_ARGS__)

/* bitwise_or: the bits that a or b has; of truth values or. No gradient: it takes integers. */
static inline muster_expr *muster_expr_bitwise_or_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "bitwise_or", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_bitwise_or(...) muster_expr_bitwise_or_at(MUSTER_HERE, __VA_ARGS__)

/* bitwise_xor: the bits that one of a and b has; of truth values exclusive or. No gradient: it
 * takes integers. */
static inline muster_expr *muster_expr_bitwise_xor_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "bitwise_xor", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_bitwise_xor(...) muster_expr_bitwise_xor_at(MUSTER_HERE, __VA_ARGS__)

/* left_shift: a 2^b, which wraps around; 0 where b is below 0 or has as many bits as a. No
 * gradient: it takes integers. */
static inline muster_expr *muster_expr_left_shift_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "left_shift", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_left_shift(...) muster_expr_left_shift_at(MUSTER_HERE, __VA_ARGS__)

/* right_shift: a / 2^b rounded down; 0, or -1 of a negative a, where b is below 0 or has as many
 * bits as a. No gradient: it takes integers. */
static inline muster_expr *muster_expr_right_shift_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "right_shift", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_right_shift(...) muster_expr_right_shift_at(MUSTER_HERE, __VA_ARGS__)

/* equal: is a equal to b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_equal_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "equal", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_equal(...) muster_expr_equal_at(MUSTER_HERE, __VA_ARGS__)

/* not_equal: is a not equal to b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_not_equal_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "not_equal", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_not_equal(...) muster_expr_not_equal_at(MUSTER_HERE, __VA_ARGS__)

/* less: is a less than b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_less_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "less", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_less(...) muster_expr_less_at(MUSTER_HERE, __VA_ARGS__)

/* less_equal: is a at most b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_less_equal_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "less_equal", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_less_equal(...) muster_expr_less_equal_at(MUSTER_HERE, __VA_ARGS__)

/* greater: is a greater than b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_greater_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "greater", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_greater(...) muster_expr_greater_at(MUSTER_HERE, __VA_ARGS__)

/* greater_equal: is a at least b?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_greater_equal_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "greater_equal", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_greater_equal(...) muster_expr_greater_equal_at(MUSTER_HERE, __VA_ARGS__)

/* logical_and: are a and b both not 0?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_logical_and_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "logical_and", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logical_and(...) muster_expr_logical_and_at(MUSTER_HERE, __VA_ARGS__)

/* logical_or: is a or b not 0?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_logical_or_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "logical_or", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logical_or(...) muster_expr_logical_or_at(MUSTER_HERE, __VA_ARGS__)

/* logical_xor: is exactly one of a and b not 0?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_logical_xor_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "logical_xor", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logical_xor(...) muster_expr_logical_xor_at(MUSTER_HERE, __VA_ARGS__)

/* logical_not: is x 0?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_logical_not_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "logical_not", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_logical_not(...) muster_expr_logical_not_at(MUSTER_HERE, __VA_ARGS__)

/* isnan: is x NaN?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_isnan_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "isnan", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_isnan(...) muster_expr_isnan_at(MUSTER_HERE, __VA_ARGS__)

/* isfinite: is x neither infinite nor NaN?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_isfinite_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "isfinite", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_isfinite(...) muster_expr_isfinite_at(MUSTER_HERE, __VA_ARGS__)

/* isinf: is x infinite?. No gradient: its result changes in steps. */
static inline muster_expr *muster_expr_isinf_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "isinf", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_isinf(...) muster_expr_isinf_at(MUSTER_HERE, __VA_ARGS__)

/* where: a where the condition is true, else b; two plain numbers take the dtype of what stands
 * beside. */
static inline muster_expr *muster_expr_where_at(const char *where, muster_expr *condition, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[3];
    inputs[0] = condition;
    inputs[1] = a;
    inputs[2] = b;
    (void)muster_expr_apply(muster_expr_graph(condition), "where", inputs, 3, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_where(...) muster_expr_where_at(MUSTER_HERE, __VA_ARGS__)

/* clip: x limited to [low, high], or high where low is above it; the gradient is that of x inside
 * and at the bounds, else 0. */
static inline muster_expr *muster_expr_clip_at(const char *where, muster_expr *x, double low, double high) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "low";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = low;
    list[1].name = "high";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = high;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "clip", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_clip(...) muster_expr_clip_at(MUSTER_HERE, __VA_ARGS__)

/* cast: x converted to the dtype, as muster_copy converts. */
static inline muster_expr *muster_expr_cast_at(const char *where, muster_expr *x, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "dtype";
    list[0].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[0].integer = dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "cast", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_cast(...) muster_expr_cast_at(MUSTER_HERE, __VA_ARGS__)

/* relu_gradient: dy where y > 0, else 0: the gradient of relu. */
static inline muster_expr *muster_expr_relu_gradient_at(const char *where, muster_expr *y, muster_expr *dy) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = y;
    inputs[1] = dy;
    (void)muster_expr_apply(muster_expr_graph(y), "relu_gradient", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_relu_gradient(...) muster_expr_relu_gradient_at(MUSTER_HERE, __VA_ARGS__)

/* sum: the sum over the axes, or over all; of integers and truth values i64, of u8 to u64 u64;
 * dtype: of the result. */
typedef struct muster_sum_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
    int64_t dtype;
} muster_sum_attributes;
static inline muster_expr *muster_expr_sum_at(const char *where, muster_expr *x, muster_sum_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sum", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_sum(...) muster_expr_sum_(__VA_ARGS__, )
#define muster_expr_sum_(a0, ...) \
    muster_expr_sum_at(MUSTER_HERE, a0, (muster_sum_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* prod: the product over the axes, or over all; of integers and truth values i64, of u8 to u64 u64;
 * dtype: of the result. */
typedef struct muster_prod_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
    int64_t dtype;
} muster_prod_attributes;
static inline muster_expr *muster_expr_prod_at(const char *where, muster_expr *x, muster_prod_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "prod", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_prod(...) muster_expr_prod_(__VA_ARGS__, )
#define muster_expr_prod_(a0, ...) \
    muster_expr_prod_at(MUSTER_HERE, a0, (muster_prod_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* max: the largest element; of equals the first has the gradient. */
typedef struct muster_max_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_max_attributes;
static inline muster_expr *muster_expr_max_at(const char *where, muster_expr *x, muster_max_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "max", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_max(...) muster_expr_max_(__VA_ARGS__, )
#define muster_expr_max_(a0, ...) \
    muster_expr_max_at(MUSTER_HERE, a0, (muster_max_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* min: the smallest element; of equals the first has the gradient. */
typedef struct muster_min_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_min_attributes;
static inline muster_expr *muster_expr_min_at(const char *where, muster_expr *x, muster_min_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "min", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_min(...) muster_expr_min_(__VA_ARGS__, )
#define muster_expr_min_(a0, ...) \
    muster_expr_min_at(MUSTER_HERE, a0, (muster_min_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* mean: the average over the axes, or over all; of integers and truth values f64; dtype: of the
 * result. */
typedef struct muster_mean_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
    int64_t dtype;
} muster_mean_attributes;
static inline muster_expr *muster_expr_mean_at(const char *where, muster_expr *x, muster_mean_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "mean", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_mean(...) muster_expr_mean_(__VA_ARGS__, )
#define muster_expr_mean_(a0, ...) \
    muster_expr_mean_at(MUSTER_HERE, a0, (muster_mean_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* var: the average of the squared distances from the average, their sum divided by the number of
 * elements less ddof; of integers and truth values f64; dtype: of the result. */
typedef struct muster_var_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
    int64_t dtype;
    int64_t ddof;
} muster_var_attributes;
static inline muster_expr *muster_expr_var_at(const char *where, muster_expr *x, muster_var_attributes attributes) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = attributes.dtype;
    list[3].name = "ddof";
    list[3].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[3].integer = attributes.ddof;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "var", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_var(...) muster_expr_var_(__VA_ARGS__, )
#define muster_expr_var_(a0, ...) \
    muster_expr_var_at(MUSTER_HERE, a0, (muster_var_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* std: the square root of var; the gradient where it is 0 is 0. */
typedef struct muster_std_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
    int64_t dtype;
    int64_t ddof;
} muster_std_attributes;
static inline muster_expr *muster_expr_std_at(const char *where, muster_expr *x, muster_std_attributes attributes) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = attributes.dtype;
    list[3].name = "ddof";
    list[3].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[3].integer = attributes.ddof;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "std", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_std(...) muster_expr_std_(__VA_ARGS__, )
#define muster_expr_std_(a0, ...) \
    muster_expr_std_at(MUSTER_HERE, a0, (muster_std_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* norm: sum(|x| ** ord) ** (1 / ord) of the elements along the axes, or of all; infinity: the
 * largest |x|. */
typedef struct muster_norm_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_norm_attributes;
static inline muster_expr *muster_expr_norm_at(const char *where, muster_expr *x, double ord, muster_norm_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "ord";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = ord;
    list[1].name = "axis";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.axis;
    list[1].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[2].name = "keepdims";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "norm", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_norm(...) muster_expr_norm_(__VA_ARGS__, )
#define muster_expr_norm_(a0, a1, ...) \
    muster_expr_norm_at(MUSTER_HERE, a0, a1, (muster_norm_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* any: is an element along the axes, or any of all, not 0? false of none. No gradient: its result
 * changes in steps. */
typedef struct muster_any_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_any_attributes;
static inline muster_expr *muster_expr_any_at(const char *where, muster_expr *x, muster_any_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "any", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_any(...) muster_expr_any_(__VA_ARGS__, )
#define muster_expr_any_(a0, ...) \
    muster_expr_any_at(MUSTER_HERE, a0, (muster_any_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* all: are the elements along the axes, or all, not 0? true of none. No gradient: its result
 * changes in steps. */
typedef struct muster_all_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_all_attributes;
static inline muster_expr *muster_expr_all_at(const char *where, muster_expr *x, muster_all_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "all", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_all(...) muster_expr_all_(__VA_ARGS__, )
#define muster_expr_all_(a0, ...) \
    muster_expr_all_at(MUSTER_HERE, a0, (muster_all_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* logsumexp: log(sum(exp(x))) over the axes, or over all, without overflow. */
typedef struct muster_logsumexp_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_logsumexp_attributes;
static inline muster_expr *muster_expr_logsumexp_at(const char *where, muster_expr *x, muster_logsumexp_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "logsumexp", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_logsumexp(...) muster_expr_logsumexp_(__VA_ARGS__, )
#define muster_expr_logsumexp_(a0, ...) \
    muster_expr_logsumexp_at(MUSTER_HERE, a0, (muster_logsumexp_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* softmax: exp(x) / sum(exp(x)) over the axes, or over all, without overflow. */
typedef struct muster_softmax_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
} muster_softmax_attributes;
static inline muster_expr *muster_expr_softmax_at(const char *where, muster_expr *x, muster_softmax_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "softmax", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_softmax(...) muster_expr_softmax_(__VA_ARGS__, )
#define muster_expr_softmax_(a0, ...) \
    muster_expr_softmax_at(MUSTER_HERE, a0, (muster_softmax_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* log_softmax: log(softmax(x)) over the axes, or over all. */
typedef struct muster_log_softmax_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
} muster_log_softmax_attributes;
static inline muster_expr *muster_expr_log_softmax_at(const char *where, muster_expr *x, muster_log_softmax_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "log_softmax", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_log_softmax(...) muster_expr_log_softmax_(__VA_ARGS__, )
#define muster_expr_log_softmax_(a0, ...) \
    muster_expr_log_softmax_at(MUSTER_HERE, a0, (muster_log_softmax_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* argmax: the index of the largest element along the axis, or among all; the first of equals. No
 * gradient: its result is an index. */
typedef struct muster_argmax_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t keepdims;
} muster_argmax_attributes;
static inline muster_expr *muster_expr_argmax_at(const char *where, muster_expr *x, int64_t axis, muster_argmax_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "argmax", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_argmax(...) muster_expr_argmax_(__VA_ARGS__, )
#define muster_expr_argmax_(a0, a1, ...) \
    muster_expr_argmax_at(MUSTER_HERE, a0, a1, (muster_argmax_attributes){0, __VA_ARGS__})
#endif

/* argmin: the index of the smallest element along the axis, or among all; the first of equals. No
 * gradient: its result is an index. */
typedef struct muster_argmin_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t keepdims;
} muster_argmin_attributes;
static inline muster_expr *muster_expr_argmin_at(const char *where, muster_expr *x, int64_t axis, muster_argmin_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "argmin", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_argmin(...) muster_expr_argmin_(__VA_ARGS__, )
#define muster_expr_argmin_(a0, a1, ...) \
    muster_expr_argmin_at(MUSTER_HERE, a0, a1, (muster_argmin_attributes){0, __VA_ARGS__})
#endif

/* cumsum: the sums up to and with each element along the axis, in the dtype of sum; dtype: of the
 * result. */
typedef struct muster_cumsum_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t dtype;
} muster_cumsum_attributes;
static inline muster_expr *muster_expr_cumsum_at(const char *where, muster_expr *x, int64_t axis, muster_cumsum_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "dtype";
    list[1].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[1].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "cumsum", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_cumsum(...) muster_expr_cumsum_(__VA_ARGS__, )
#define muster_expr_cumsum_(a0, a1, ...) \
    muster_expr_cumsum_at(MUSTER_HERE, a0, a1, (muster_cumsum_attributes){0, __VA_ARGS__})
#endif

/* cumprod: the products up to and with each element along the axis, in the dtype of prod; dtype: of
 * the result. */
typedef struct muster_cumprod_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t dtype;
} muster_cumprod_attributes;
static inline muster_expr *muster_expr_cumprod_at(const char *where, muster_expr *x, int64_t axis, muster_cumprod_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "dtype";
    list[1].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[1].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "cumprod", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_cumprod(...) muster_expr_cumprod_(__VA_ARGS__, )
#define muster_expr_cumprod_(a0, a1, ...) \
    muster_expr_cumprod_at(MUSTER_HERE, a0, a1, (muster_cumprod_attributes){0, __VA_ARGS__})
#endif

/* sort: the elements along the axis, or the last, ascending, NaN last; or descending, NaN first. */
typedef struct muster_sort_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t descending;
} muster_sort_attributes;
static inline muster_expr *muster_expr_sort_at(const char *where, muster_expr *x, muster_sort_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "descending";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.descending;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "sort", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_sort(...) muster_expr_sort_(__VA_ARGS__, )
#define muster_expr_sort_(a0, ...) \
    muster_expr_sort_at(MUSTER_HERE, a0, (muster_sort_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* argsort: the places of the elements that sort would give; equal ones keep their order. No
 * gradient: its result is an index. */
typedef struct muster_argsort_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t descending;
} muster_argsort_attributes;
static inline muster_expr *muster_expr_argsort_at(const char *where, muster_expr *x, muster_argsort_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "descending";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.descending;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "argsort", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_argsort(...) muster_expr_argsort_(__VA_ARGS__, )
#define muster_expr_argsort_(a0, ...) \
    muster_expr_argsort_at(MUSTER_HERE, a0, (muster_argsort_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* top_k: the k largest elements of each row, descending; of equals the first; result 1: their
 * places. */
static inline muster_expr *muster_expr_top_k_at(const char *where, muster_expr *x, int32_t k_count, const int64_t *k) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "k";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = k;
    list[0].count = k_count;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "top_k", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_top_k(...) muster_expr_top_k_at(MUSTER_HERE, __VA_ARGS__)

/* tril: x where column - row is at most k, else 0, in its last two axes. */
typedef struct muster_tril_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t k;
} muster_tril_attributes;
static inline muster_expr *muster_expr_tril_at(const char *where, muster_expr *x, muster_tril_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "k";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.k;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "tril", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_tril(...) muster_expr_tril_(__VA_ARGS__, )
#define muster_expr_tril_(a0, ...) \
    muster_expr_tril_at(MUSTER_HERE, a0, (muster_tril_attributes){0, __VA_ARGS__})
#endif

/* triu: x where column - row is at least k, else 0, in its last two axes. */
typedef struct muster_triu_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t k;
} muster_triu_attributes;
static inline muster_expr *muster_expr_triu_at(const char *where, muster_expr *x, muster_triu_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "k";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.k;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "triu", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_triu(...) muster_expr_triu_(__VA_ARGS__, )
#define muster_expr_triu_(a0, ...) \
    muster_expr_triu_at(MUSTER_HERE, a0, (muster_triu_attributes){0, __VA_ARGS__})
#endif

/* arange: start, start + increment, ... in the shape (n). No gradient: it depends on nothing. */
static inline muster_expr *muster_expr_arange_at(const char *where, muster_graph *graph, int32_t shape_count, const int64_t *shape, double start, double increment, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "start";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = start;
    list[2].name = "increment";
    list[2].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[2].number = increment;
    list[3].name = "dtype";
    list[3].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[3].integer = dtype;
    (void)muster_expr_apply(graph, "arange", MUSTER_NOTHING_, 0, list, where, &result);
    return result;
}
#define muster_expr_arange(...) muster_expr_arange_at(MUSTER_HERE, __VA_ARGS__)

/* linspace: `num` numbers from start to stop, in equal steps. No gradient: it depends on
 * nothing. */
static inline muster_expr *muster_expr_linspace_at(const char *where, muster_graph *graph, double start, double stop, int64_t num, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "start";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = start;
    list[1].name = "stop";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = stop;
    list[2].name = "num";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = num;
    list[3].name = "dtype";
    list[3].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[3].integer = dtype;
    (void)muster_expr_apply(graph, "linspace", MUSTER_NOTHING_, 0, list, where, &result);
    return result;
}
#define muster_expr_linspace(...) muster_expr_linspace_at(MUSTER_HERE, __VA_ARGS__)

/* eye: 1 where column - row is k, else 0, in the shape (n, m). No gradient: it depends on
 * nothing. */
typedef struct muster_eye_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t k;
} muster_eye_attributes;
static inline muster_expr *muster_expr_eye_at(const char *where, muster_graph *graph, int32_t shape_count, const int64_t *shape, muster_dtype dtype, muster_eye_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "k";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.k;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = dtype;
    (void)muster_expr_apply(graph, "eye", MUSTER_NOTHING_, 0, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_eye(...) muster_expr_eye_(__VA_ARGS__, )
#define muster_expr_eye_(a0, a1, a2, a3, ...) \
    muster_expr_eye_at(MUSTER_HERE, a0, a1, a2, a3, (muster_eye_attributes){0, __VA_ARGS__})
#endif

/* random_uniform: numbers of equal probability in [0, 1), f32 or f64, other ones for each seed and
 * step. No gradient: it depends on nothing. */
static inline muster_expr *muster_expr_random_uniform_at(const char *where, muster_expr *step, int32_t shape_count, const int64_t *shape, int64_t seed, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "seed";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = seed;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = dtype;
    muster_expr *inputs[1];
    inputs[0] = step;
    (void)muster_expr_apply(muster_expr_graph(step), "random_uniform", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_random_uniform(...) muster_expr_random_uniform_at(MUSTER_HERE, __VA_ARGS__)

/* random_normal: normally distributed numbers with average 0 and variance 1, f32 or f64. No
 * gradient: it depends on nothing. */
static inline muster_expr *muster_expr_random_normal_at(const char *where, muster_expr *step, int32_t shape_count, const int64_t *shape, int64_t seed, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "seed";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = seed;
    list[2].name = "dtype";
    list[2].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[2].integer = dtype;
    muster_expr *inputs[1];
    inputs[0] = step;
    (void)muster_expr_apply(muster_expr_graph(step), "random_normal", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_random_normal(...) muster_expr_random_normal_at(MUSTER_HERE, __VA_ARGS__)

/* bernoulli: 1 with the probability p, else 0. No gradient: it depends on nothing. */
static inline muster_expr *muster_expr_bernoulli_at(const char *where, muster_expr *step, int32_t shape_count, const int64_t *shape, double p, int64_t seed, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    list[1].name = "p";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = p;
    list[2].name = "seed";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = seed;
    list[3].name = "dtype";
    list[3].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[3].integer = dtype;
    muster_expr *inputs[1];
    inputs[0] = step;
    (void)muster_expr_apply(muster_expr_graph(step), "bernoulli", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_bernoulli(...) muster_expr_bernoulli_at(MUSTER_HERE, __VA_ARGS__)

/* dropout: 0 with the probability p, else x / (1 - p); other elements for each seed and step. */
static inline muster_expr *muster_expr_dropout_at(const char *where, muster_expr *x, muster_expr *step, double p, int64_t seed) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "p";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = p;
    list[1].name = "seed";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = seed;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = step;
    (void)muster_expr_apply(muster_expr_graph(x), "dropout", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_dropout(...) muster_expr_dropout_at(MUSTER_HERE, __VA_ARGS__)

/* matmul: the product of matrices; axes before the last two are stacks, which broadcast; of
 * integers it wraps around. */
static inline muster_expr *muster_expr_matmul_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "matmul", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_matmul(...) muster_expr_matmul_at(MUSTER_HERE, __VA_ARGS__)

/* dot: matmul, or the product of a scalar and an array. */
static inline muster_expr *muster_expr_dot_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "dot", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_dot(...) muster_expr_dot_at(MUSTER_HERE, __VA_ARGS__)

/* inner: the sum of the products along the last axis of both. */
static inline muster_expr *muster_expr_inner_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "inner", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_inner(...) muster_expr_inner_at(MUSTER_HERE, __VA_ARGS__)

/* outer: a[i] b[j] for all i and j, of the elements of a and b as vectors. */
static inline muster_expr *muster_expr_outer_at(const char *where, muster_expr *a, muster_expr *b) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    (void)muster_expr_apply(muster_expr_graph(a), "outer", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_outer(...) muster_expr_outer_at(MUSTER_HERE, __VA_ARGS__)

/* einsum: sums of products by the letters of axes, as in NumPy, such as "...ij,...jk->...ik"; from
 * left to right. */
static inline muster_expr *muster_expr_einsum_at(const char *where, muster_expr *const *x, int32_t count, const char *subscripts) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "subscripts";
    list[0].kind = MUSTER_ATTRIBUTE_TEXT;
    list[0].text = subscripts;
    (void)muster_expr_apply(count > 0 ? muster_expr_graph(x[0]) : MUSTER_NOTHING_, "einsum", x, count, list, where, &result);
    return result;
}
#define muster_expr_einsum(...) muster_expr_einsum_at(MUSTER_HERE, __VA_ARGS__)

/* convolution: sums of the elements under a window that slides over the last 1 to 3 axes of x (n,
 * c, ...), times w (o, c / groups, window), plus bias (o), which may be missing; padding: of each
 * axis, or before and then behind each; 0 groups mean 1. */
typedef struct muster_convolution_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t stride_count;
    const int64_t *stride;
    int32_t padding_count;
    const int64_t *padding;
    int32_t dilation_count;
    const int64_t *dilation;
    int64_t groups;
} muster_convolution_attributes;
static inline muster_expr *muster_expr_convolution_at(const char *where, muster_expr *x, muster_expr *w, muster_expr *bias, muster_convolution_attributes attributes) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "stride";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.stride;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.stride, attributes.stride_count);
    list[1].name = "padding";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.padding;
    list[1].count = muster_list_count_(attributes.reserved, 4, attributes.padding, attributes.padding_count);
    list[2].name = "dilation";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.dilation;
    list[2].count = muster_list_count_(attributes.reserved, 8, attributes.dilation, attributes.dilation_count);
    list[3].name = "groups";
    list[3].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[3].integer = attributes.groups;
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = w;
    inputs[2] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "convolution", inputs, bias ? 3 : 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_convolution(...) muster_expr_convolution_(__VA_ARGS__, )
#define muster_expr_convolution_(a0, a1, a2, ...) \
    muster_expr_convolution_at(MUSTER_HERE, a0, a1, a2, (muster_convolution_attributes){.reserved = muster_fields_(".stride .padding .dilation ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* convolution_transpose: the gradient by its x of a convolution with these attributes, whose result
 * has the shape of this x (n, c, ...); w is (c, o / groups, window); output_padding elements more
 * behind each axis; plus bias (o), which may be missing. */
typedef struct muster_convolution_transpose_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t stride_count;
    const int64_t *stride;
    int32_t padding_count;
    const int64_t *padding;
    int32_t dilation_count;
    const int64_t *dilation;
    int64_t groups;
    int32_t output_padding_count;
    const int64_t *output_padding;
} muster_convolution_transpose_attributes;
static inline muster_expr *muster_expr_convolution_transpose_at(const char *where, muster_expr *x, muster_expr *w, muster_expr *bias, muster_convolution_transpose_attributes attributes) {
    muster_expr *result;
    muster_attribute list[6];
    memset(list, 0, sizeof list);
    list[0].name = "stride";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.stride;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.stride, attributes.stride_count);
    list[1].name = "padding";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.padding;
    list[1].count = muster_list_count_(attributes.reserved, 4, attributes.padding, attributes.padding_count);
    list[2].name = "dilation";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.dilation;
    list[2].count = muster_list_count_(attributes.reserved, 8, attributes.dilation, attributes.dilation_count);
    list[3].name = "groups";
    list[3].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[3].integer = attributes.groups;
    list[4].name = "output_padding";
    list[4].kind = MUSTER_ATTRIBUTE_LIST;
    list[4].integers = attributes.output_padding;
    list[4].count = muster_list_count_(attributes.reserved, 16, attributes.output_padding, attributes.output_padding_count);
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = w;
    inputs[2] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "convolution_transpose", inputs, bias ? 3 : 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_convolution_transpose(...) muster_expr_convolution_transpose_(__VA_ARGS__, )
#define muster_expr_convolution_transpose_(a0, a1, a2, ...) \
    muster_expr_convolution_transpose_at(MUSTER_HERE, a0, a1, a2, (muster_convolution_transpose_attributes){.reserved = muster_fields_(".stride .padding .dilation .output_padding ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* max_pool: the largest element under a window that slides over the last 1 to 3 axes of x (n, c,
 * ...); of equals the first of the window has the gradient; size: of the window in each axis, or in
 * all; stride: that of size if it is missing; padding: of each axis, or before and then behind
 * each; ceil_mode: the last window may reach beyond the padding. */
typedef struct muster_max_pool_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t stride_count;
    const int64_t *stride;
    int32_t padding_count;
    const int64_t *padding;
    int32_t dilation_count;
    const int64_t *dilation;
    int64_t ceil_mode;
} muster_max_pool_attributes;
static inline muster_expr *muster_expr_max_pool_at(const char *where, muster_expr *x, int32_t size_count, const int64_t *size, muster_max_pool_attributes attributes) {
    muster_expr *result;
    muster_attribute list[6];
    memset(list, 0, sizeof list);
    list[0].name = "size";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = size;
    list[0].count = size_count;
    list[1].name = "stride";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.stride;
    list[1].count = muster_list_count_(attributes.reserved, 3, attributes.stride, attributes.stride_count);
    list[2].name = "padding";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.padding;
    list[2].count = muster_list_count_(attributes.reserved, 4, attributes.padding, attributes.padding_count);
    list[3].name = "dilation";
    list[3].kind = MUSTER_ATTRIBUTE_LIST;
    list[3].integers = attributes.dilation;
    list[3].count = muster_list_count_(attributes.reserved, 8, attributes.dilation, attributes.dilation_count);
    list[4].name = "ceil_mode";
    list[4].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[4].integer = attributes.ceil_mode;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "max_pool", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_max_pool(...) muster_expr_max_pool_(__VA_ARGS__, )
#define muster_expr_max_pool_(a0, a1, a2, ...) \
    muster_expr_max_pool_at(MUSTER_HERE, a0, a1, a2, (muster_max_pool_attributes){.reserved = muster_fields_(".stride .padding .dilation ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* average_pool: the average of the elements under a window that slides over the last 1 to 3 axes of
 * x (n, c, ...), padding counted as zeros unless exclude_padding is 1; size: of the window in each
 * axis, or in all; stride: that of size if it is missing; padding: of each axis, or before and then
 * behind each; ceil_mode: the last window may reach beyond the padding. */
typedef struct muster_average_pool_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t stride_count;
    const int64_t *stride;
    int32_t padding_count;
    const int64_t *padding;
    int32_t dilation_count;
    const int64_t *dilation;
    int64_t ceil_mode;
    int64_t exclude_padding;
} muster_average_pool_attributes;
static inline muster_expr *muster_expr_average_pool_at(const char *where, muster_expr *x, int32_t size_count, const int64_t *size, muster_average_pool_attributes attributes) {
    muster_expr *result;
    muster_attribute list[7];
    memset(list, 0, sizeof list);
    list[0].name = "size";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = size;
    list[0].count = size_count;
    list[1].name = "stride";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.stride;
    list[1].count = muster_list_count_(attributes.reserved, 3, attributes.stride, attributes.stride_count);
    list[2].name = "padding";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.padding;
    list[2].count = muster_list_count_(attributes.reserved, 4, attributes.padding, attributes.padding_count);
    list[3].name = "dilation";
    list[3].kind = MUSTER_ATTRIBUTE_LIST;
    list[3].integers = attributes.dilation;
    list[3].count = muster_list_count_(attributes.reserved, 8, attributes.dilation, attributes.dilation_count);
    list[4].name = "ceil_mode";
    list[4].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[4].integer = attributes.ceil_mode;
    list[5].name = "exclude_padding";
    list[5].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[5].integer = attributes.exclude_padding;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "average_pool", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_average_pool(...) muster_expr_average_pool_(__VA_ARGS__, )
#define muster_expr_average_pool_(a0, a1, a2, ...) \
    muster_expr_average_pool_at(MUSTER_HERE, a0, a1, a2, (muster_average_pool_attributes){.reserved = muster_fields_(".stride .padding .dilation ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* l2_pool: the square root of the sum of the squares under a window that slides over the last 1 to
 * 3 axes of x (n, c, ...); the gradient where it is 0 is 0; size: of the window in each axis, or in
 * all; stride: that of size if it is missing; padding: of each axis, or before and then behind
 * each; ceil_mode: the last window may reach beyond the padding. */
typedef struct muster_l2_pool_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t stride_count;
    const int64_t *stride;
    int32_t padding_count;
    const int64_t *padding;
    int32_t dilation_count;
    const int64_t *dilation;
    int64_t ceil_mode;
} muster_l2_pool_attributes;
static inline muster_expr *muster_expr_l2_pool_at(const char *where, muster_expr *x, int32_t size_count, const int64_t *size, muster_l2_pool_attributes attributes) {
    muster_expr *result;
    muster_attribute list[6];
    memset(list, 0, sizeof list);
    list[0].name = "size";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = size;
    list[0].count = size_count;
    list[1].name = "stride";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.stride;
    list[1].count = muster_list_count_(attributes.reserved, 3, attributes.stride, attributes.stride_count);
    list[2].name = "padding";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.padding;
    list[2].count = muster_list_count_(attributes.reserved, 4, attributes.padding, attributes.padding_count);
    list[3].name = "dilation";
    list[3].kind = MUSTER_ATTRIBUTE_LIST;
    list[3].integers = attributes.dilation;
    list[3].count = muster_list_count_(attributes.reserved, 8, attributes.dilation, attributes.dilation_count);
    list[4].name = "ceil_mode";
    list[4].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[4].integer = attributes.ceil_mode;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "l2_pool", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_l2_pool(...) muster_expr_l2_pool_(__VA_ARGS__, )
#define muster_expr_l2_pool_(a0, a1, a2, ...) \
    muster_expr_l2_pool_at(MUSTER_HERE, a0, a1, a2, (muster_l2_pool_attributes){.reserved = muster_fields_(".stride .padding .dilation ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* global_max_pool: the largest element of each channel of x (n, c, ...), whose extents become 1; of
 * equals the first has the gradient. */
static inline muster_expr *muster_expr_global_max_pool_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "global_max_pool", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_global_max_pool(...) muster_expr_global_max_pool_at(MUSTER_HERE, __VA_ARGS__)

/* global_average_pool: the average of each channel of x (n, c, ...), whose extents become 1. */
static inline muster_expr *muster_expr_global_average_pool_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "global_average_pool", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_global_average_pool(...) muster_expr_global_average_pool_at(MUSTER_HERE, __VA_ARGS__)

/* attention: softmax(scale q k^T + mask) v over the last two axes of q (..., n, d), k (..., m, d),
 * v (..., m, e); scale 0 means 1 / sqrt(d); causal: query i sees the keys up to i; mask, which may
 * be missing, broadcasts to (..., n, m); 0 where a query sees no key; of the axis before the last
 * two, k and v may have a divisor of q's size: neighbours of q share them; result 1: logsumexp of
 * the scores. */
typedef struct muster_attention_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t causal;
} muster_attention_attributes;
static inline muster_expr *muster_expr_attention_at(const char *where, muster_expr *q, muster_expr *k, muster_expr *v, muster_expr *mask, double scale, muster_attention_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "scale";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = scale;
    list[1].name = "causal";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.causal;
    muster_expr *inputs[4];
    inputs[0] = q;
    inputs[1] = k;
    inputs[2] = v;
    inputs[3] = mask;
    (void)muster_expr_apply(muster_expr_graph(q), "attention", inputs, mask ? 4 : 3, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_attention(...) muster_expr_attention_(__VA_ARGS__, )
#define muster_expr_attention_(a0, a1, a2, a3, a4, ...) \
    muster_expr_attention_at(MUSTER_HERE, a0, a1, a2, a3, a4, (muster_attention_attributes){0, __VA_ARGS__})
#endif

/* rnn: a recurrent layer: y[:, t] = h = tanh(x[:, t] w^T + h r^T + bias) for each row of x (n, t,
 * d) with w (h, d), r (h, h), bias (h), beginning with h0, which broadcasts to (n, h), or 0; relu =
 * 1: the larger of 0 and that sum in place of tanh; lengths, which broadcasts to (n): a row ends
 * after so many steps, and y is 0 behind them; reverse = 1: from the last step to the first; result
 * 1: h at the end. */
typedef struct muster_rnn_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t reverse;
    int64_t relu;
} muster_rnn_attributes;
static inline muster_expr *muster_expr_rnn_at(const char *where, muster_expr *x, muster_expr *w, muster_expr *r, muster_expr *bias, muster_expr *h0, muster_expr *lengths, muster_rnn_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "reverse";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.reverse;
    list[1].name = "relu";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.relu;
    muster_expr *inputs[6];
    inputs[0] = x;
    inputs[1] = w;
    inputs[2] = r;
    inputs[3] = bias;
    inputs[4] = h0;
    inputs[5] = lengths;
    (void)muster_expr_apply(muster_expr_graph(x), "rnn", inputs, lengths ? 6 : h0 ? 5 : 4, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_rnn(...) muster_expr_rnn_(__VA_ARGS__, )
#define muster_expr_rnn_(a0, a1, a2, a3, a4, a5, ...) \
    muster_expr_rnn_at(MUSTER_HERE, a0, a1, a2, a3, a4, a5, (muster_rnn_attributes){0, __VA_ARGS__})
#endif

/* lstm: a recurrent layer with memory: with (i, f, g, o) = x[:, t] w^T + h r^T + bias, c =
 * sigmoid(f) c + sigmoid(i) tanh(g) and y[:, t] = h = sigmoid(o) tanh(c), for each row of x (n, t,
 * d) with w (4 h, d), r (4 h, h), bias (4 h); h0, c0, lengths and reverse as in rnn; results 1 and
 * 2: h and c at the end. */
typedef struct muster_lstm_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t reverse;
} muster_lstm_attributes;
static inline muster_expr *muster_expr_lstm_at(const char *where, muster_expr *x, muster_expr *w, muster_expr *r, muster_expr *bias, muster_expr *h0, muster_expr *c0, muster_expr *lengths, muster_lstm_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "reverse";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.reverse;
    muster_expr *inputs[7];
    inputs[0] = x;
    inputs[1] = w;
    inputs[2] = r;
    inputs[3] = bias;
    inputs[4] = h0;
    inputs[5] = c0;
    inputs[6] = lengths;
    (void)muster_expr_apply(muster_expr_graph(x), "lstm", inputs, lengths ? 7 : c0 ? 6 : h0 ? 5 : 4, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_lstm(...) muster_expr_lstm_(__VA_ARGS__, )
#define muster_expr_lstm_(a0, a1, a2, a3, a4, a5, a6, ...) \
    muster_expr_lstm_at(MUSTER_HERE, a0, a1, a2, a3, a4, a5, a6, (muster_lstm_attributes){0, __VA_ARGS__})
#endif

/* gru: a gated recurrent layer: with (x1, x2, x3) = x[:, t] w^T, (h1, h2, h3) = h r^T and bias (b1,
 * b2, b3, b4), n = tanh(x3 + b3 + sigmoid(x1 + h1 + b1) (h3 + b4)), z = sigmoid(x2 + h2 + b2), y[:,
 * t] = h = (1 - z) n + z h, for each row of x (n, t, d) with w (3 h, d), r (3 h, h), bias (4 h);
 * h0, lengths and reverse as in rnn; result 1: h at the end. */
typedef struct muster_gru_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t reverse;
} muster_gru_attributes;
static inline muster_expr *muster_expr_gru_at(const char *where, muster_expr *x, muster_expr *w, muster_expr *r, muster_expr *bias, muster_expr *h0, muster_expr *lengths, muster_gru_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "reverse";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.reverse;
    muster_expr *inputs[6];
    inputs[0] = x;
    inputs[1] = w;
    inputs[2] = r;
    inputs[3] = bias;
    inputs[4] = h0;
    inputs[5] = lengths;
    (void)muster_expr_apply(muster_expr_graph(x), "gru", inputs, lengths ? 6 : h0 ? 5 : 4, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_gru(...) muster_expr_gru_(__VA_ARGS__, )
#define muster_expr_gru_(a0, a1, a2, a3, a4, a5, ...) \
    muster_expr_gru_at(MUSTER_HERE, a0, a1, a2, a3, a4, a5, (muster_gru_attributes){0, __VA_ARGS__})
#endif

/* layer_norm: (x - mean) / sqrt(variance + epsilon) over `axis` and all axes behind it, times
 * scale, plus bias, which have the shape of these axes and may be missing. */
static inline muster_expr *muster_expr_layer_norm_at(const char *where, muster_expr *x, muster_expr *scale, muster_expr *bias, int64_t axis, double epsilon) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "epsilon";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = epsilon;
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = scale;
    inputs[2] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "layer_norm", inputs, bias ? 3 : scale ? 2 : 1, list, where, &result);
    return result;
}
#define muster_expr_layer_norm(...) muster_expr_layer_norm_at(MUSTER_HERE, __VA_ARGS__)

/* rms_norm: x / sqrt(mean(x x) + epsilon) over `axis` and all axes behind it, times scale, which
 * has the shape of these axes and may be missing. */
static inline muster_expr *muster_expr_rms_norm_at(const char *where, muster_expr *x, muster_expr *scale, int64_t axis, double epsilon) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    list[1].name = "epsilon";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = epsilon;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = scale;
    (void)muster_expr_apply(muster_expr_graph(x), "rms_norm", inputs, scale ? 2 : 1, list, where, &result);
    return result;
}
#define muster_expr_rms_norm(...) muster_expr_rms_norm_at(MUSTER_HERE, __VA_ARGS__)

/* group_norm: (x - mean) / sqrt(variance + epsilon) for each row and each of `groups` groups of the
 * channels of x (n, c, ...), times scale (c), plus bias (c), which may be missing. */
static inline muster_expr *muster_expr_group_norm_at(const char *where, muster_expr *x, muster_expr *scale, muster_expr *bias, int64_t groups, double epsilon) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "groups";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = groups;
    list[1].name = "epsilon";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = epsilon;
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = scale;
    inputs[2] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "group_norm", inputs, bias ? 3 : scale ? 2 : 1, list, where, &result);
    return result;
}
#define muster_expr_group_norm(...) muster_expr_group_norm_at(MUSTER_HERE, __VA_ARGS__)

/* instance_norm: (x - mean) / sqrt(variance + epsilon) for each row and each channel of x (n, c,
 * ...), times scale (c), plus bias (c), which may be missing. */
static inline muster_expr *muster_expr_instance_norm_at(const char *where, muster_expr *x, muster_expr *scale, muster_expr *bias, double epsilon) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "epsilon";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = epsilon;
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = scale;
    inputs[2] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "instance_norm", inputs, bias ? 3 : scale ? 2 : 1, list, where, &result);
    return result;
}
#define muster_expr_instance_norm(...) muster_expr_instance_norm_at(MUSTER_HERE, __VA_ARGS__)

/* local_response_norm: x / (k + alpha / size s) ** beta, where s is the sum of the squares of
 * `size` channels of x (n, c, ...): this one, size / 2 before it and (size - 1) / 2 behind it, as
 * far as they exist. */
static inline muster_expr *muster_expr_local_response_norm_at(const char *where, muster_expr *x, int64_t size, double alpha, double beta, double k) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "size";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = size;
    list[1].name = "alpha";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = alpha;
    list[2].name = "beta";
    list[2].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[2].number = beta;
    list[3].name = "k";
    list[3].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[3].number = k;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "local_response_norm", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_local_response_norm(...) muster_expr_local_response_norm_at(MUSTER_HERE, __VA_ARGS__)

/* batch_norm: (x - mean) / sqrt(variance + epsilon) for each channel of x (n, c, ...), times scale,
 * plus bias (each (c)); scale and bias may be missing; training = 1: mean and variance of x over
 * all rows, or with per_device = 1 over those of each device, in place of the operands; the mean
 * operand is then a number near the mean, which keeps digits. */
typedef struct muster_batch_norm_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t training;
    int64_t per_device;
} muster_batch_norm_attributes;
static inline muster_expr *muster_expr_batch_norm_at(const char *where, muster_expr *x, muster_expr *mean, muster_expr *variance, muster_expr *scale, muster_expr *bias, double epsilon, muster_batch_norm_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "training";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.training;
    list[1].name = "epsilon";
    list[1].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[1].number = epsilon;
    list[2].name = "per_device";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = attributes.per_device;
    muster_expr *inputs[5];
    inputs[0] = x;
    inputs[1] = mean;
    inputs[2] = variance;
    inputs[3] = scale;
    inputs[4] = bias;
    (void)muster_expr_apply(muster_expr_graph(x), "batch_norm", inputs, bias ? 5 : scale ? 4 : 3, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_batch_norm(...) muster_expr_batch_norm_(__VA_ARGS__, )
#define muster_expr_batch_norm_(a0, a1, a2, a3, a4, a5, ...) \
    muster_expr_batch_norm_at(MUSTER_HERE, a0, a1, a2, a3, a4, a5, (muster_batch_norm_attributes){0, __VA_ARGS__})
#endif

/* batch_norm_mean: the new running mean: (1 - momentum) mean + momentum times the mean of each
 * channel of x (n, c, ...) over all rows. */
static inline muster_expr *muster_expr_batch_norm_mean_at(const char *where, muster_expr *x, muster_expr *mean, double momentum) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "momentum";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = momentum;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = mean;
    (void)muster_expr_apply(muster_expr_graph(x), "batch_norm_mean", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_batch_norm_mean(...) muster_expr_batch_norm_mean_at(MUSTER_HERE, __VA_ARGS__)

/* batch_norm_variance: the new running variance: (1 - momentum) variance + momentum times the
 * variance of each channel of x (n, c, ...) over all rows, divided by their number of elements -
 * ddof, but at least by 1; mean: the old running mean. */
typedef struct muster_batch_norm_variance_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t ddof;
} muster_batch_norm_variance_attributes;
static inline muster_expr *muster_expr_batch_norm_variance_at(const char *where, muster_expr *x, muster_expr *mean, muster_expr *variance, double momentum, muster_batch_norm_variance_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "momentum";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = momentum;
    list[1].name = "ddof";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.ddof;
    muster_expr *inputs[3];
    inputs[0] = x;
    inputs[1] = mean;
    inputs[2] = variance;
    (void)muster_expr_apply(muster_expr_graph(x), "batch_norm_variance", inputs, 3, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_batch_norm_variance(...) muster_expr_batch_norm_variance_(__VA_ARGS__, )
#define muster_expr_batch_norm_variance_(a0, a1, a2, a3, ...) \
    muster_expr_batch_norm_variance_at(MUSTER_HERE, a0, a1, a2, a3, (muster_batch_norm_variance_attributes){0, __VA_ARGS__})
#endif

/* reshape: the elements of x in another shape. */
static inline muster_expr *muster_expr_reshape_at(const char *where, muster_expr *x, int32_t shape_count, const int64_t *shape) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "reshape", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_reshape(...) muster_expr_reshape_at(MUSTER_HERE, __VA_ARGS__)

/* ravel: the elements of x as a vector. */
static inline muster_expr *muster_expr_ravel_at(const char *where, muster_expr *x) {
    muster_expr *result;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "ravel", inputs, 1, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_ravel(...) muster_expr_ravel_at(MUSTER_HERE, __VA_ARGS__)

/* broadcast_to: x repeated along its axes of size 1 and along new first axes. */
static inline muster_expr *muster_expr_broadcast_to_at(const char *where, muster_expr *x, int32_t shape_count, const int64_t *shape) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "shape";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = shape;
    list[0].count = shape_count;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "broadcast_to", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_broadcast_to(...) muster_expr_broadcast_to_at(MUSTER_HERE, __VA_ARGS__)

/* expand_dims: x with a new axis of size 1. */
static inline muster_expr *muster_expr_expand_dims_at(const char *where, muster_expr *x, int64_t axis) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "expand_dims", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_expand_dims(...) muster_expr_expand_dims_at(MUSTER_HERE, __VA_ARGS__)

/* squeeze: x without the axes, whose size is 1, or without all axes of size 1. */
typedef struct muster_squeeze_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
} muster_squeeze_attributes;
static inline muster_expr *muster_expr_squeeze_at(const char *where, muster_expr *x, muster_squeeze_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "squeeze", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_squeeze(...) muster_expr_squeeze_(__VA_ARGS__, )
#define muster_expr_squeeze_(a0, ...) \
    muster_expr_squeeze_at(MUSTER_HERE, a0, (muster_squeeze_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* transpose: x with its axes in another order, or in reverse. */
typedef struct muster_transpose_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axes_count;
    const int64_t *axes;
} muster_transpose_attributes;
static inline muster_expr *muster_expr_transpose_at(const char *where, muster_expr *x, muster_transpose_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axes";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axes;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axes, attributes.axes_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "transpose", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_transpose(...) muster_expr_transpose_(__VA_ARGS__, )
#define muster_expr_transpose_(a0, ...) \
    muster_expr_transpose_at(MUSTER_HERE, a0, (muster_transpose_attributes){.reserved = muster_fields_(".axes ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* swapaxes: x with two axes exchanged. */
static inline muster_expr *muster_expr_swapaxes_at(const char *where, muster_expr *x, int64_t axis1, int64_t axis2) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis1";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis1;
    list[1].name = "axis2";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = axis2;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "swapaxes", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_swapaxes(...) muster_expr_swapaxes_at(MUSTER_HERE, __VA_ARGS__)

/* moveaxis: x with the axes `source` at the places `destination`; the others keep their order. */
static inline muster_expr *muster_expr_moveaxis_at(const char *where, muster_expr *x, int32_t source_count, const int64_t *source, int32_t destination_count, const int64_t *destination) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "source";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = source;
    list[0].count = source_count;
    list[1].name = "destination";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = destination;
    list[1].count = destination_count;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "moveaxis", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_moveaxis(...) muster_expr_moveaxis_at(MUSTER_HERE, __VA_ARGS__)

/* slice: x[start:stop:step] along each axis, as in Python; MUSTER_NONE leaves a bound out. */
typedef struct muster_slice_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t start_count;
    const int64_t *start;
    int32_t stop_count;
    const int64_t *stop;
    int32_t step_count;
    const int64_t *step;
} muster_slice_attributes;
static inline muster_expr *muster_expr_slice_at(const char *where, muster_expr *x, muster_slice_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "start";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.start;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.start, attributes.start_count);
    list[1].name = "stop";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.stop;
    list[1].count = muster_list_count_(attributes.reserved, 4, attributes.stop, attributes.stop_count);
    list[2].name = "step";
    list[2].kind = MUSTER_ATTRIBUTE_LIST;
    list[2].integers = attributes.step;
    list[2].count = muster_list_count_(attributes.reserved, 8, attributes.step, attributes.step_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "slice", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_slice(...) muster_expr_slice_(__VA_ARGS__, )
#define muster_expr_slice_(a0, ...) \
    muster_expr_slice_at(MUSTER_HERE, a0, (muster_slice_attributes){.reserved = muster_fields_(".start .stop .step ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* flip: x in reverse along the axes, or along all. */
typedef struct muster_flip_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
} muster_flip_attributes;
static inline muster_expr *muster_expr_flip_at(const char *where, muster_expr *x, muster_flip_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "flip", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_flip(...) muster_expr_flip_(__VA_ARGS__, )
#define muster_expr_flip_(a0, ...) \
    muster_expr_flip_at(MUSTER_HERE, a0, (muster_flip_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* pad: x with zeros before and after its elements; one entry is for all axes; without `after` as
 * many as before. */
typedef struct muster_pad_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t before_count;
    const int64_t *before;
    int32_t after_count;
    const int64_t *after;
} muster_pad_attributes;
static inline muster_expr *muster_expr_pad_at(const char *where, muster_expr *x, muster_pad_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "before";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.before;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.before, attributes.before_count);
    list[1].name = "after";
    list[1].kind = MUSTER_ATTRIBUTE_LIST;
    list[1].integers = attributes.after;
    list[1].count = muster_list_count_(attributes.reserved, 4, attributes.after, attributes.after_count);
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "pad", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_pad(...) muster_expr_pad_(__VA_ARGS__, )
#define muster_expr_pad_(a0, ...) \
    muster_expr_pad_at(MUSTER_HERE, a0, (muster_pad_attributes){.reserved = muster_fields_(".before .after ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* concatenate: the operands, one behind the other along the axis, which holds no rows. */
typedef struct muster_concatenate_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t axis;
} muster_concatenate_attributes;
static inline muster_expr *muster_expr_concatenate_at(const char *where, muster_expr *const *x, int32_t count, muster_concatenate_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.axis;
    (void)muster_expr_apply(count > 0 ? muster_expr_graph(x[0]) : MUSTER_NOTHING_, "concatenate", x, count, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_concatenate(...) muster_expr_concatenate_(__VA_ARGS__, )
#define muster_expr_concatenate_(a0, a1, ...) \
    muster_expr_concatenate_at(MUSTER_HERE, a0, a1, (muster_concatenate_attributes){0, __VA_ARGS__})
#endif

/* stack: the operands along a new axis. */
typedef struct muster_stack_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t axis;
} muster_stack_attributes;
static inline muster_expr *muster_expr_stack_at(const char *where, muster_expr *const *x, int32_t count, muster_stack_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.axis;
    (void)muster_expr_apply(count > 0 ? muster_expr_graph(x[0]) : MUSTER_NOTHING_, "stack", x, count, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_stack(...) muster_expr_stack_(__VA_ARGS__, )
#define muster_expr_stack_(a0, a1, ...) \
    muster_expr_stack_at(MUSTER_HERE, a0, a1, (muster_stack_attributes){0, __VA_ARGS__})
#endif

/* split: part `index` of the equal sections of x along the axis. */
typedef struct muster_split_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t axis;
} muster_split_attributes;
static inline muster_expr *muster_expr_split_at(const char *where, muster_expr *x, int64_t sections, int64_t index, muster_split_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "sections";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = sections;
    list[1].name = "index";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = index;
    list[2].name = "axis";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = attributes.axis;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "split", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_split(...) muster_expr_split_(__VA_ARGS__, )
#define muster_expr_split_(a0, a1, a2, ...) \
    muster_expr_split_at(MUSTER_HERE, a0, a1, a2, (muster_split_attributes){0, __VA_ARGS__})
#endif

/* tile: x so many times along each axis; the last entry is for the last axis. */
static inline muster_expr *muster_expr_tile_at(const char *where, muster_expr *x, int32_t reps_count, const int64_t *reps) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "reps";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = reps;
    list[0].count = reps_count;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "tile", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_tile(...) muster_expr_tile_at(MUSTER_HERE, __VA_ARGS__)

/* repeat: each part of x along the axis, or each element of the vector (MUSTER_NONE), so many times
 * in a row. */
static inline muster_expr *muster_expr_repeat_at(const char *where, muster_expr *x, int64_t repeats, int64_t axis) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "repeats";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = repeats;
    list[1].name = "axis";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = axis;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "repeat", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_repeat(...) muster_expr_repeat_at(MUSTER_HERE, __VA_ARGS__)

/* diagonal: the elements x[i, i + offset] of two axes, the first two if none are given, as a new
 * last axis. */
typedef struct muster_diagonal_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t offset;
    int64_t axis1;
    int64_t axis2;
} muster_diagonal_attributes;
static inline muster_expr *muster_expr_diagonal_at(const char *where, muster_expr *x, muster_diagonal_attributes attributes) {
    muster_expr *result;
    muster_attribute list[4];
    memset(list, 0, sizeof list);
    list[0].name = "offset";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.offset;
    list[1].name = "axis1";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.axis1;
    list[2].name = "axis2";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = attributes.axis2;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "diagonal", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_diagonal(...) muster_expr_diagonal_(__VA_ARGS__, )
#define muster_expr_diagonal_(a0, ...) \
    muster_expr_diagonal_at(MUSTER_HERE, a0, (muster_diagonal_attributes){0, __VA_ARGS__})
#endif

/* trace: the sum of the elements of the diagonal; dtype: of the result, as of sum. */
typedef struct muster_trace_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t offset;
    int64_t axis1;
    int64_t axis2;
    int64_t dtype;
} muster_trace_attributes;
static inline muster_expr *muster_expr_trace_at(const char *where, muster_expr *x, muster_trace_attributes attributes) {
    muster_expr *result;
    muster_attribute list[5];
    memset(list, 0, sizeof list);
    list[0].name = "offset";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.offset;
    list[1].name = "axis1";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.axis1;
    list[2].name = "axis2";
    list[2].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[2].integer = attributes.axis2;
    list[3].name = "dtype";
    list[3].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[3].integer = attributes.dtype;
    muster_expr *inputs[1];
    inputs[0] = x;
    (void)muster_expr_apply(muster_expr_graph(x), "trace", inputs, 1, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_trace(...) muster_expr_trace_(__VA_ARGS__, )
#define muster_expr_trace_(a0, ...) \
    muster_expr_trace_at(MUSTER_HERE, a0, (muster_trace_attributes){0, __VA_ARGS__})
#endif

/* take: the parts of x at the indices along the axis. */
typedef struct muster_take_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t axis;
} muster_take_attributes;
static inline muster_expr *muster_expr_take_at(const char *where, muster_expr *x, muster_expr *indices, muster_take_attributes attributes) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = attributes.axis;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = indices;
    (void)muster_expr_apply(muster_expr_graph(x), "take", inputs, 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_take(...) muster_expr_take_(__VA_ARGS__, )
#define muster_expr_take_(a0, a1, ...) \
    muster_expr_take_at(MUSTER_HERE, a0, a1, (muster_take_attributes){0, __VA_ARGS__})
#endif

/* embedding: the row of the table at each index: take along axis 0. */
static inline muster_expr *muster_expr_embedding_at(const char *where, muster_expr *table, muster_expr *indices) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = table;
    inputs[1] = indices;
    (void)muster_expr_apply(muster_expr_graph(table), "embedding", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_embedding(...) muster_expr_embedding_at(MUSTER_HERE, __VA_ARGS__)

/* scatter_add: zeros, of size `rows` along the axis, to which part i of x is added at part
 * indices[i]. */
typedef struct muster_scatter_add_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int64_t axis;
} muster_scatter_add_attributes;
static inline muster_expr *muster_expr_scatter_add_at(const char *where, muster_expr *x, muster_expr *indices, int32_t rows_count, const int64_t *rows, muster_scatter_add_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "rows";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = rows;
    list[0].count = rows_count;
    list[1].name = "axis";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.axis;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = indices;
    (void)muster_expr_apply(muster_expr_graph(x), "scatter_add", inputs, 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_scatter_add(...) muster_expr_scatter_add_(__VA_ARGS__, )
#define muster_expr_scatter_add_(a0, a1, a2, a3, ...) \
    muster_expr_scatter_add_at(MUSTER_HERE, a0, a1, a2, a3, (muster_scatter_add_attributes){0, __VA_ARGS__})
#endif

/* take_along_axis: the element of x at its index along the axis, for each element of indices. */
static inline muster_expr *muster_expr_take_along_axis_at(const char *where, muster_expr *x, muster_expr *indices, int64_t axis) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = axis;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = indices;
    (void)muster_expr_apply(muster_expr_graph(x), "take_along_axis", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_take_along_axis(...) muster_expr_take_along_axis_at(MUSTER_HERE, __VA_ARGS__)

/* add_along_axis: zeros, of this size along the axis, to which each element of x is added at its
 * index. */
static inline muster_expr *muster_expr_add_along_axis_at(const char *where, muster_expr *x, muster_expr *indices, int32_t size_count, const int64_t *size, int64_t axis) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "size";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = size;
    list[0].count = size_count;
    list[1].name = "axis";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = axis;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = indices;
    (void)muster_expr_apply(muster_expr_graph(x), "add_along_axis", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_add_along_axis(...) muster_expr_add_along_axis_at(MUSTER_HERE, __VA_ARGS__)

/* one_hot: (n, k) with 1 at (i, labels[i]), else 0. No gradient: labels are integers. */
static inline muster_expr *muster_expr_one_hot_at(const char *where, muster_expr *labels, int32_t k_count, const int64_t *k, muster_dtype dtype) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "k";
    list[0].kind = MUSTER_ATTRIBUTE_SIZES;
    list[0].integers = k;
    list[0].count = k_count;
    list[1].name = "dtype";
    list[1].kind = MUSTER_ATTRIBUTE_DTYPE;
    list[1].integer = dtype;
    muster_expr *inputs[1];
    inputs[0] = labels;
    (void)muster_expr_apply(muster_expr_graph(labels), "one_hot", inputs, 1, list, where, &result);
    return result;
}
#define muster_expr_one_hot(...) muster_expr_one_hot_at(MUSTER_HERE, __VA_ARGS__)

/* softmax_cross_entropy: the sum over rows of log(sum(exp(z))) - z[label]; result 1: softmax -
 * onehot; result 2: correct rows. */
static inline muster_expr *muster_expr_softmax_cross_entropy_at(const char *where, muster_expr *logits, muster_expr *labels) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = logits;
    inputs[1] = labels;
    (void)muster_expr_apply(muster_expr_graph(logits), "softmax_cross_entropy", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_softmax_cross_entropy(...) muster_expr_softmax_cross_entropy_at(MUSTER_HERE, __VA_ARGS__)

/* cross_entropy: log(sum(exp(z))) - z[label] for each row z of the logits; 0 where the label is
 * `ignore` (MUSTER_NONE: no label). */
static inline muster_expr *muster_expr_cross_entropy_at(const char *where, muster_expr *logits, muster_expr *labels, int64_t ignore) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "ignore";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = ignore;
    muster_expr *inputs[2];
    inputs[0] = logits;
    inputs[1] = labels;
    (void)muster_expr_apply(muster_expr_graph(logits), "cross_entropy", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_cross_entropy(...) muster_expr_cross_entropy_at(MUSTER_HERE, __VA_ARGS__)

/* negative_log_likelihood: -x[..., label] for each row of logarithms of probabilities; 0 where the
 * label is `ignore` (MUSTER_NONE: no label). */
static inline muster_expr *muster_expr_negative_log_likelihood_at(const char *where, muster_expr *x, muster_expr *labels, int64_t ignore) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "ignore";
    list[0].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[0].integer = ignore;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = labels;
    (void)muster_expr_apply(muster_expr_graph(x), "negative_log_likelihood", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_negative_log_likelihood(...) muster_expr_negative_log_likelihood_at(MUSTER_HERE, __VA_ARGS__)

/* sigmoid_cross_entropy: for each element -t log(p) - (1 - t) log(1 - p), where p = sigmoid(x) and
 * t is the target, from 0 to 1. */
static inline muster_expr *muster_expr_sigmoid_cross_entropy_at(const char *where, muster_expr *x, muster_expr *target) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = target;
    (void)muster_expr_apply(muster_expr_graph(x), "sigmoid_cross_entropy", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_sigmoid_cross_entropy(...) muster_expr_sigmoid_cross_entropy_at(MUSTER_HERE, __VA_ARGS__)

/* mean_squared_error: the average of (x - target) (x - target) over the axes, or over all. */
typedef struct muster_mean_squared_error_attributes {
    int32_t reserved; /* 0; set by the macro in C */
    int32_t axis_count;
    const int64_t *axis;
    int64_t keepdims;
} muster_mean_squared_error_attributes;
static inline muster_expr *muster_expr_mean_squared_error_at(const char *where, muster_expr *x, muster_expr *target, muster_mean_squared_error_attributes attributes) {
    muster_expr *result;
    muster_attribute list[3];
    memset(list, 0, sizeof list);
    list[0].name = "axis";
    list[0].kind = MUSTER_ATTRIBUTE_LIST;
    list[0].integers = attributes.axis;
    list[0].count = muster_list_count_(attributes.reserved, 3, attributes.axis, attributes.axis_count);
    list[1].name = "keepdims";
    list[1].kind = MUSTER_ATTRIBUTE_INTEGER;
    list[1].integer = attributes.keepdims;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = target;
    (void)muster_expr_apply(muster_expr_graph(x), "mean_squared_error", inputs, 2, list, where, &result);
    return result;
}
#ifndef __cplusplus
#define muster_expr_mean_squared_error(...) muster_expr_mean_squared_error_(__VA_ARGS__, )
#define muster_expr_mean_squared_error_(a0, a1, ...) \
    muster_expr_mean_squared_error_at(MUSTER_HERE, a0, a1, (muster_mean_squared_error_attributes){.reserved = muster_fields_(".axis ", #__VA_ARGS__), __VA_ARGS__})
#endif

/* huber: for each element d d / 2 where d = |x - target| is at most delta, else delta (d - delta /
 * 2). */
static inline muster_expr *muster_expr_huber_at(const char *where, muster_expr *x, muster_expr *target, double delta) {
    muster_expr *result;
    muster_attribute list[2];
    memset(list, 0, sizeof list);
    list[0].name = "delta";
    list[0].kind = MUSTER_ATTRIBUTE_NUMBER;
    list[0].number = delta;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = target;
    (void)muster_expr_apply(muster_expr_graph(x), "huber", inputs, 2, list, where, &result);
    return result;
}
#define muster_expr_huber(...) muster_expr_huber_at(MUSTER_HERE, __VA_ARGS__)

/* hinge: for each element the larger of 1 - x target and 0; targets are -1 and 1. */
static inline muster_expr *muster_expr_hinge_at(const char *where, muster_expr *x, muster_expr *target) {
    muster_expr *result;
    muster_expr *inputs[2];
    inputs[0] = x;
    inputs[1] = target;
    (void)muster_expr_apply(muster_expr_graph(x), "hinge", inputs, 2, MUSTER_NOTHING_, where, &result);
    return result;
}
#define muster_expr_hinge(...) muster_expr_hinge_at(MUSTER_HERE, __VA_ARGS__)

/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
