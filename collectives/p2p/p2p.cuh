/* The loops of the kernels between peers: for floats in p2p.cu, for integers in p2p_integers.cu. */
#ifndef MST_P2P_CUH
#define MST_P2P_CUH

#include "p2p_parameters_impl.h"
#include "tensor.cuh"

template <typename T, int N> struct alignas(N * sizeof(T)) p2p_pack { T elements[N]; };

/* Combines N elements from `at` on, of every input in their order, into `sum`. Up to four inputs
 * are loaded before the first of them is used: memory of a peer answers slowly, and answers four
 * questions in the time of one. The addresses are too many to be kept at hand: each is looked up
 * where it is used. */
template <typename D, int N, typename F, typename G>
static inline void p2p_combine(const mst_p2p_reduce_parameters &p, int64_t at, F first, G next, typename D::computed *sum) {
    typedef typename D::stored T;
    typedef p2p_pack<T, N> pack;
    enum { AHEAD = 4 };
    for (int32_t k = 0; k < p.inputs; k += AHEAD) {
        const int32_t here = p.inputs - k;
        pack values[AHEAD];
        for (int ahead = 0; ahead < AHEAD; ahead++)
            if (ahead < here) values[ahead] = *(const pack *)(MST_ADDRESS(const T, p.input[k + ahead]) + at);
        for (int ahead = 0; ahead < AHEAD; ahead++) {
            if (ahead >= here) continue;
            for (int j = 0; j < N; j++) {
                const typename D::computed value = D::load(values[ahead].elements[j]);
                sum[j] = k + ahead == 0 ? first(value) : next(sum[j], value);
            }
        }
    }
}

/* N elements from `at` on, of every input and every output. */
template <typename D, int N, typename F, typename G>
static inline void p2p_elements(const mst_p2p_reduce_parameters &p, int64_t at, F first, G next) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    typedef p2p_pack<T, N> pack;
    C sum[N] = {};
    p2p_combine<D, N>(p, at, first, next, sum);
    pack result;
    for (int j = 0; j < N; j++) result.elements[j] = D::store(sum[j]);
    for (int32_t k = 0; k < p.outputs; k++) *(pack *)(MST_ADDRESS(T, p.output[k]) + at) = result;
}

/* The same with the update of a parameter: the sum stays in the computed type. */
template <typename D, int N> static inline void p2p_update(const mst_p2p_reduce_parameters &p, int64_t at) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    typedef p2p_pack<T, N> pack;
    const C alpha = (C)p.alpha, beta = (C)p.beta;
    C sum[N] = {};
    p2p_combine<D, N>(
        p, at, [](C v) { return v; }, [](C a, C v) { return a + v; }, sum);
    pack result = *(const pack *)(MST_ADDRESS(const T, p.parameter) + at);
    if (p.velocity) {
        pack *place = (pack *)(MST_ADDRESS(T, p.velocity) + at), velocity = *place;
        for (int j = 0; j < N; j++) velocity.elements[j] = D::store(beta * D::load(velocity.elements[j]) + alpha * sum[j]);
        for (int j = 0; j < N; j++) result.elements[j] = D::store(D::load(result.elements[j]) + D::load(velocity.elements[j]));
        *place = velocity;
    } else {
        for (int j = 0; j < N; j++) result.elements[j] = D::store(D::load(result.elements[j]) + alpha * sum[j]);
    }
    for (int32_t k = 0; k < p.outputs; k++) *(pack *)(MST_ADDRESS(T, p.output[k]) + at) = result;
}

/* How many packs of WIDTH elements lie everywhere. */
template <int WIDTH> static inline int64_t p2p_packs(const mst_p2p_reduce_parameters &p) {
    uintptr_t bits = (uintptr_t)p.parameter | (uintptr_t)p.velocity;
    for (int32_t k = 0; k < p.inputs; k++) bits |= (uintptr_t)p.input[k];
    for (int32_t k = 0; k < p.outputs; k++) bits |= (uintptr_t)p.output[k];
    return bits % 16 == 0 ? p.count / WIDTH : 0;
}

template <typename D, int WIDTH, typename F, typename G>
static inline void p2p_reduce(const mst_p2p_reduce_parameters &p, F first, G next) {
    const int64_t packs = p2p_packs<WIDTH>(p);
    MST_EACH(i, packs) { p2p_elements<D, WIDTH>(p, i * WIDTH, first, next); }
    MST_EACH(i, p.count - packs * WIDTH) { p2p_elements<D, 1>(p, packs * WIDTH + i, first, next); }
}

template <typename D> static inline void p2p_update_all(const mst_p2p_reduce_parameters &p) {
    typedef typename D::stored T;
    enum { WIDTH = 16 / sizeof(T) };
    const int64_t packs = p2p_packs<WIDTH>(p);
    MST_EACH(i, packs) { p2p_update<D, WIDTH>(p, i * WIDTH); }
    MST_EACH(i, p.count - packs * WIDTH) { p2p_update<D, 1>(p, packs * WIDTH + i); }
}

/* The formulas of the host's loops, with the same roundings. */
template <typename D> static inline void p2p_floats(const mst_p2p_reduce_parameters &p) {
    typedef typename D::computed C;
    enum { WIDTH = 16 / sizeof(typename D::stored) };
    const double scale = p.scale;
    if (p.parameter) return p2p_update_all<D>(p);
    auto same = [](C v) { return v; };
    switch (p.op) {
    case MUSTER_SUM:
        return p2p_reduce<D, WIDTH>(p, same, [](C a, C v) { return a + v; });
    case MUSTER_PROD:
        return p2p_reduce<D, WIDTH>(p, same, [](C a, C v) { return a * v; });
    case MUSTER_MAX:
        return p2p_reduce<D, WIDTH>(p, same, [](C a, C v) { return v > a || v != v ? v : a; });
    case MUSTER_MIN:
        return p2p_reduce<D, WIDTH>(p, same, [](C a, C v) { return v < a || v != v ? v : a; });
    default:
        return p2p_reduce<D, WIDTH>(
            p, [scale](C v) { return (C)(scale * (double)v); }, [scale](C a, C v) { return (C)((double)a + scale * (double)v); });
    }
}

/* One loop for all operations, and short packs of small integers: NVRTC would take five times as
 * long for a loop each with packs of 16 bytes, and few programs combine integers. */
template <typename D> static inline void p2p_integers(const mst_p2p_reduce_parameters &p) {
    typedef typename D::computed C;
    enum { SIZE = sizeof(typename D::stored), WIDTH = SIZE < 4 ? 4 : 16 / SIZE };
    const int32_t op = p.op;
    p2p_reduce<D, WIDTH>(
        p, [](C v) { return v; },
        [op](C a, C v) -> C {
            switch (op) {
            case MUSTER_SUM:
                return (C)((uint64_t)a + (uint64_t)v);
            case MUSTER_PROD:
                return (C)((uint64_t)a * (uint64_t)v);
            case MUSTER_MAX:
                return v > a ? v : a;
            default:
                return v < a ? v : a;
            }
        });
}

#endif
