/* What the unary operations do with one value: for unary.cu, which learns the operation from its
 * parameters, and for programs that know it when they are compiled. */
#ifndef MST_UNARY_CUH
#define MST_UNARY_CUH

#include "tensor.cuh"

/* The longer operations. */
static inline float mst_unary_longer(int32_t op, float v) {
    switch (op) {
    case MUSTER_EXP:
        return expf(v);
    case MUSTER_LOG:
        return logf(v);
    case MUSTER_TANH:
        return tanhf(v);
    case MUSTER_SIGMOID:
        return v < -80 ? expf(v) : 1 / (1 + expf(-v));
    case MUSTER_SQRT:
        return sqrtf(v);
    case MUSTER_SOFTPLUS:
        return (v > 0 ? v : 0) + log1pf(expf(-fabsf(v)));
    case MUSTER_SIN:
        return sinf(v);
    case MUSTER_COS:
        return cosf(v);
    case MUSTER_TAN:
        return tanf(v);
    case MUSTER_ASIN:
        return asinf(v);
    case MUSTER_ACOS:
        return acosf(v);
    case MUSTER_ATAN:
        return atanf(v);
    case MUSTER_SINH:
        return sinhf(v);
    case MUSTER_COSH:
        return coshf(v);
    case MUSTER_ERF:
        return erff(v);
    case MUSTER_LOG1P:
        return log1pf(v);
    case MUSTER_EXPM1:
        return expm1f(v);
    case MUSTER_LOG2:
        return log2f(v);
    case MUSTER_EXP2:
        return exp2f(v);
    case MUSTER_LOG10:
        return log10f(v);
    case MUSTER_FLOOR:
        return floorf(v);
    case MUSTER_CEIL:
        return ceilf(v);
    case MUSTER_ROUND:
        return rintf(v);
    case MUSTER_TRUNC:
        return truncf(v);
    case MUSTER_RSQRT:
        return 1 / sqrtf(v);
    case MUSTER_GELU:
        return v < -40 ? -0.0f : 0.5f * v * erfcf(v * -0.7071067811865476f);
    case MUSTER_GELU_DERIVATIVE:
        v = v < -15 ? -15 : v > 15 ? 15 : v;
        return 0.5f * erfcf(v * -0.7071067811865476f) + v * (0.3989422804014327f * expf(-0.5f * v * v));
    case MUSTER_SILU:
        return v < -800 ? -0.0f : v / (1 + expf(-v));
    default:
        return 1 / v;
    }
}
static inline double mst_unary_longer(int32_t op, double v) {
    switch (op) {
    case MUSTER_EXP:
        return exp(v);
    case MUSTER_LOG:
        return log(v);
    case MUSTER_TANH:
        return tanh(v);
    case MUSTER_SIGMOID:
        return v < -700 ? exp(v) : 1 / (1 + exp(-v));
    case MUSTER_SQRT:
        return sqrt(v);
    case MUSTER_SOFTPLUS:
        return (v > 0 ? v : 0) + log1p(exp(-fabs(v)));
    case MUSTER_SIN:
        return sin(v);
    case MUSTER_COS:
        return cos(v);
    case MUSTER_TAN:
        return tan(v);
    case MUSTER_ASIN:
        return asin(v);
    case MUSTER_ACOS:
        return acos(v);
    case MUSTER_ATAN:
        return atan(v);
    case MUSTER_SINH:
        return sinh(v);
    case MUSTER_COSH:
        return cosh(v);
    case MUSTER_ERF:
        return erf(v);
    case MUSTER_LOG1P:
        return log1p(v);
    case MUSTER_EXPM1:
        return expm1(v);
    case MUSTER_LOG2:
        return log2(v);
    case MUSTER_EXP2:
        return exp2(v);
    case MUSTER_LOG10:
        return log10(v);
    case MUSTER_FLOOR:
        return floor(v);
    case MUSTER_CEIL:
        return ceil(v);
    case MUSTER_ROUND:
        return rint(v);
    case MUSTER_TRUNC:
        return trunc(v);
    case MUSTER_RSQRT:
        return 1 / sqrt(v);
    case MUSTER_GELU:
        return v < -40 ? -0.0 : 0.5 * v * erfc(v * -0.7071067811865476);
    case MUSTER_GELU_DERIVATIVE:
        v = v < -40 ? -40 : v > 40 ? 40 : v;
        return 0.5 * erfc(v * -0.7071067811865476) + v * (0.3989422804014327 * exp(-0.5 * v * v));
    case MUSTER_SILU:
        return v < -800 ? -0.0 : v / (1 + exp(-v));
    default:
        return 1 / v;
    }
}

/* Of floats. longer(op, v): mst_unary_longer, or a function around it. */
template <typename C, typename F> static inline C mst_unary_float(int32_t op, C v, F longer) {
    switch (op) {
    case MUSTER_NEG:
        return -v;
    case MUSTER_ABS:
        return (C)fabs(v);
    case MUSTER_SQUARE:
        return v * v;
    case MUSTER_RELU:
        return v < 0 ? (C)0 : v;
    case MUSTER_SIGN:
        return v > 0 ? (C)1 : v < 0 ? (C)-1 : v == 0 ? (C)0 : v;
    default:
        return longer(op, v);
    }
}

/* Of integers, which wrap: they are computed as uint64_t, and the low bits are kept. neg exists for
 * signed integers only. */
template <typename C, bool SIGNED> static inline C mst_unary_integer(int32_t op, C value) {
    uint64_t v = (uint64_t)value;
    bool negative = SIGNED && (int64_t)v < 0;
    switch (op) {
    case MUSTER_NEG:
        return (C)(0 - v);
    case MUSTER_ABS:
        return (C)(negative ? 0 - v : v);
    case MUSTER_SQUARE:
        return (C)(v * v);
    case MUSTER_SIGN:
        return (C)(negative ? 0 - (uint64_t)1 : v != 0);
    case MUSTER_BITWISE_NOT:
        return (C)~v;
    default:
        return (C)(negative ? 0 : v);
    }
}

#endif
