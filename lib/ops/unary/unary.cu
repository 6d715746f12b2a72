/* The loop chooses the operation for each element, as in binary.cu. */
#include "tensor.cuh"

/* The longer operations are compiled once per type. */
MST_OUTLINE float unary_function(int32_t op, float v) {
    switch (op) {
    case MUSTER_EXP:
        return expf(v);
    case MUSTER_LOG:
        return logf(v);
    case MUSTER_TANH:
        return tanhf(v);
    case MUSTER_SIGMOID:
        return 1 / (1 + expf(-v));
    case MUSTER_SQRT:
        return sqrtf(v);
    case MUSTER_SOFTPLUS:
        return (v > 0 ? v : 0) + log1pf(expf(-fabsf(v)));
    default:
        return 1 / v;
    }
}
MST_OUTLINE double unary_function(int32_t op, double v) {
    switch (op) {
    case MUSTER_EXP:
        return exp(v);
    case MUSTER_LOG:
        return log(v);
    case MUSTER_TANH:
        return tanh(v);
    case MUSTER_SIGMOID:
        return 1 / (1 + exp(-v));
    case MUSTER_SQRT:
        return sqrt(v);
    case MUSTER_SOFTPLUS:
        return (v > 0 ? v : 0) + log1p(exp(-fabs(v)));
    default:
        return 1 / v;
    }
}

template <typename D> static inline void unary_floats(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *in) -> C {
        C v = in[0];
        switch (op) {
        case MUSTER_NEG:
            return -v;
        case MUSTER_ABS:
            return (C)fabs(v);
        case MUSTER_SQUARE:
            return v * v;
        case MUSTER_RELU:
            return v < 0 ? (C)0 : v;
        default:
            return unary_function(op, v);
        }
    });
}

/* Integers wrap: they are computed as uint64_t, and the low bits are kept. neg exists for signed
 * integers only. */
template <typename D, bool SIGNED> static inline void unary_integers(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 1>(p.iterator, p.count, [=](const C *in) -> C {
        uint64_t v = (uint64_t)in[0];
        bool negative = SIGNED && (int64_t)v < 0;
        switch (op) {
        case MUSTER_NEG:
            return (C)(0 - v);
        case MUSTER_ABS:
            return (C)(negative ? 0 - v : v);
        case MUSTER_SQUARE:
            return (C)(v * v);
        default:
            return (C)(negative ? 0 : v);
        }
    });
}

MST_KERNEL(mst_unary, mst_element_parameters) {
    switch (p.dtype) {
#define FLOAT_CASE(NAME, name) \
    case MUSTER_##NAME:        \
        return unary_floats<mst_##name>(p);
#define SIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:         \
        return unary_integers<mst_##name, true>(p);
#define UNSIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:           \
        return unary_integers<mst_##name, false>(p);
        MST_EACH_FLOAT_TYPE(FLOAT_CASE)
        MST_EACH_SIGNED_TYPE(SIGNED_CASE)
        MST_EACH_UNSIGNED_TYPE(UNSIGNED_CASE)
#undef FLOAT_CASE
#undef SIGNED_CASE
#undef UNSIGNED_CASE
    }
}
