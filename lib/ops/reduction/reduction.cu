/* The loops of reduction.c, with the same roundings. */
#include "reduction_parameters_private.h"
#include "tensor.cuh"

template <typename D> static inline void accumulate_floats(const mst_accumulate_parameters &p) {
    typedef typename D::computed C;
    C *to = MST_ADDRESS(C, p.accumulator);
    const typename D::stored *from = MST_ADDRESS(const typename D::stored, p.values);
    MST_EACH(i, p.count) {
        C v = D::load(from[i]);
        if (p.first)
            to[i] = p.op == MUSTER_AVG ? (C)(p.scale * (double)v) : v;
        else {
            C a = to[i];
            switch (p.op) {
            case MUSTER_SUM:
                a = a + v;
                break;
            case MUSTER_PROD:
                a = a * v;
                break;
            case MUSTER_MAX:
                a = v > a || v != v ? v : a;
                break;
            case MUSTER_MIN:
                a = v < a || v != v ? v : a;
                break;
            default:
                a = (C)((double)a + p.scale * (double)v);
            }
            to[i] = a;
        }
    }
}

template <typename D> static inline void accumulate_integers(const mst_accumulate_parameters &p) {
    typedef typename D::stored T;
    T *to = MST_ADDRESS(T, p.accumulator);
    const T *from = MST_ADDRESS(const T, p.values);
    MST_EACH(i, p.count) {
        T v = from[i], a = p.first ? v : to[i];
        if (!p.first) {
            switch (p.op) {
            case MUSTER_SUM:
                a = (T)((uint64_t)a + (uint64_t)v);
                break;
            case MUSTER_PROD:
                a = (T)((uint64_t)a * (uint64_t)v);
                break;
            case MUSTER_MAX:
                a = v > a ? v : a;
                break;
            default:
                a = v < a ? v : a;
            }
        }
        to[i] = a;
    }
}

static inline void accumulate_bools(const mst_accumulate_parameters &p) {
    uint8_t *to = MST_ADDRESS(uint8_t, p.accumulator);
    const uint8_t *from = MST_ADDRESS(const uint8_t, p.values);
    MST_EACH(i, p.count) {
        uint8_t v = from[i] != 0, a = p.first ? v : to[i] != 0;
        to[i] = p.op == MUSTER_MAX ? a | v : a & v;
    }
}

MST_KERNEL(mst_accumulate, mst_accumulate_parameters) {
    switch (p.dtype) {
#define FLOAT_CASE(NAME, name) \
    case MUSTER_##NAME:        \
        return accumulate_floats<mst_##name>(p);
#define INTEGER_CASE(NAME, name) \
    case MUSTER_##NAME:          \
        return accumulate_integers<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(FLOAT_CASE)
        MST_EACH_SIGNED_TYPE(INTEGER_CASE)
        MST_EACH_UNSIGNED_TYPE(INTEGER_CASE)
    default:
        return accumulate_bools(p);
#undef FLOAT_CASE
#undef INTEGER_CASE
    }
}

template <typename D> static inline void update_floats(const mst_update_parameters &p) {
    typedef typename D::computed C;
    typedef typename D::stored T;
    T *x = MST_ADDRESS(T, p.x), *velocity = MST_ADDRESS(T, p.velocity);
    const T *parameter = MST_ADDRESS(const T, p.parameter);
    const C *sum = MST_ADDRESS(const C, p.sum);
    C alpha = (C)p.alpha, beta = (C)p.beta;
    MST_EACH(i, p.count) {
        C change = alpha * sum[i];
        if (velocity) {
            velocity[i] = D::store(beta * D::load(velocity[i]) + change);
            change = D::load(velocity[i]);
        }
        x[i] = D::store(D::load(parameter[i]) + change);
    }
}

MST_KERNEL(mst_update, mst_update_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return update_floats<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
