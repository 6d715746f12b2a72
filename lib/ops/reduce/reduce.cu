/* Reductions. One thread (if the results are contiguous) or one block accumulates one chunk of the
 * elements of one result into a partial result; another kernel combines the partial results. Floats
 * accumulate in double, and integers in 64 bits, which wrap to the same result. bool is accumulated
 * as 0 and 1, for which min is "and" and max is "or". */
#include "reduce_parameters_private.h"
#include "tensor.cuh"

template <typename A> struct reduce_limits;
template <> struct reduce_limits<double> {
    static inline double lowest() { return -1.0 / 0.0; }
    static inline double highest() { return 1.0 / 0.0; }
};
template <> struct reduce_limits<int64_t> {
    static inline int64_t lowest() { return INT64_MIN; }
    static inline int64_t highest() { return INT64_MAX; }
};
template <> struct reduce_limits<uint64_t> {
    static inline uint64_t lowest() { return 0; }
    static inline uint64_t highest() { return UINT64_MAX; }
};

template <typename A> static inline A reduce_identity(int32_t op) {
    return op == MUSTER_MAX ? reduce_limits<A>::lowest() : op == MUSTER_MIN ? reduce_limits<A>::highest() : op == MUSTER_PROD ? (A)1 : (A)0;
}

static inline double reduce_plus(double a, double b) { return a + b; }
static inline double reduce_times(double a, double b) { return a * b; }
static inline int64_t reduce_plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t reduce_times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline uint64_t reduce_plus(uint64_t a, uint64_t b) { return a + b; }
static inline uint64_t reduce_times(uint64_t a, uint64_t b) { return a * b; }

template <typename A> static inline A reduce_combine(int32_t op, A a, A v) {
    switch (op) {
    case MUSTER_MAX:
        return v > a || v != v ? v : a;
    case MUSTER_MIN:
        return v < a || v != v ? v : a;
    case MUSTER_PROD:
        return reduce_times(a, v);
    default:
        return reduce_plus(a, v);
    }
}

template <typename A> struct reduce_combiner {
    int32_t op;
    inline A operator()(A a, A v) const { return reduce_combine<A>(op, a, v); }
};

template <typename D, typename A> static inline void reduce_store(const mst_reduce_parameters &p, int64_t result, A value) {
    int64_t offset[2];
    mst_offsets<2>(p.outer, result, offset);
    char *y = MST_ADDRESS(char, p.outer.base[1]) + offset[1];
    *(typename D::stored *)y = D::store((typename D::computed)value);
}

/* X(NAME, name, A) */
// clang-format off
#define REDUCE_EACH_TYPE(X) \
    X(F16, f16, double)     \
    X(BF16, bf16, double)   \
    X(F32, f32, double)     \
    X(F64, f64, double)     \
    X(I8, i8, int64_t)      \
    X(I16, i16, int64_t)    \
    X(I32, i32, int64_t)    \
    X(I64, i64, int64_t)    \
    X(U8, u8, uint64_t)     \
    X(U32, u32, uint64_t)   \
    X(U64, u64, uint64_t)   \
    X(BOOL, bool, uint64_t)
// clang-format on

/* Where the elements of the chunks lie: base of the result, and a function from the element to its
 * value. */
template <typename D, typename A> struct reduce_source {
    const mst_reduce_parameters &p;
    const char *x;
    int64_t stride;
    bool flat;
    inline reduce_source(const mst_reduce_parameters &parameters)
        : p(parameters), x(MST_ADDRESS(char, p.outer.base[0])), stride(p.inner.strides[0][0]), flat(p.inner.ndim == 1) {}
    inline const char *row(int64_t result) const {
        if (!x) return x; /* nothing to reduce */
        int64_t offset[2];
        mst_offsets<2>(p.outer, result, offset);
        return x + offset[0];
    }
    inline A at(const char *from, int64_t i) const {
        int64_t offset[1] = {i * stride};
        if (!flat) mst_offsets<1>(p.inner, i, offset);
        return (A)D::load(*(const typename D::stored *)(from + offset[0]));
    }
};

template <typename D, typename A>
static inline void reduce_finish_result(const mst_reduce_parameters &p, A *partials, int64_t at, int64_t result, A value) {
    if (partials)
        partials[at] = value;
    else if (p.op == MUSTER_AVG)
        reduce_store<D, double>(p, result, (double)value / p.divisor);
    else
        reduce_store<D, A>(p, result, value);
}

template <typename D, typename A> static inline void reduce_threads(const mst_reduce_parameters &p) {
    reduce_source<D, A> source(p);
    A *partials = MST_ADDRESS(A, p.partials);
    int32_t op = p.op;
    MST_EACH(i, p.results * p.chunks) {
        int64_t chunk = mst_quotient(i, p.results), result = i - chunk * p.results, begin = chunk * p.chunk;
        int64_t end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
        const char *from = source.row(result);
        A value = reduce_identity<A>(op);
        for (int64_t j = begin; j < end; j++) value = reduce_combine<A>(op, value, source.at(from, j));
        reduce_finish_result<D, A>(p, partials, i, result, value);
    }
}

template <typename D, typename A> static inline void reduce_blocks(const mst_reduce_parameters &p) {
    reduce_source<D, A> source(p);
    A *partials = MST_ADDRESS(A, p.partials);
    const reduce_combiner<A> combine = {p.op};
    MST_BLOCKS(b, p.results * p.chunks) {
        int64_t chunk = mst_quotient(b, p.results), result = b - chunk * p.results, begin = chunk * p.chunk, left = p.length - begin;
        const char *from = source.row(result);
        MST_BLOCK_REDUCE(A, value, j, left < p.chunk ? left : p.chunk, reduce_identity<A>(p.op), source.at(from, begin + j), combine);
        MST_ONE { reduce_finish_result<D, A>(p, partials, b, result, value); }
    }
}

template <typename D, typename A> static inline void reduce_partials(const mst_reduce_parameters &p) {
    A *partials = MST_ADDRESS(A, p.partials);
    const reduce_combiner<A> combine = {p.op};
    MST_BLOCKS(result, p.results) {
        MST_BLOCK_REDUCE(A, value, chunk, p.chunks, reduce_identity<A>(p.op), partials[chunk * p.results + result], combine);
        MST_ONE { reduce_finish_result<D, A>(p, (A *)0, 0, result, value); }
    }
}

MST_KERNEL(mst_reduce_threads, mst_reduce_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name, A) \
    case MUSTER_##NAME:     \
        return reduce_threads<mst_##name, A>(p);
        REDUCE_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_reduce_blocks, mst_reduce_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name, A) \
    case MUSTER_##NAME:     \
        return reduce_blocks<mst_##name, A>(p);
        REDUCE_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_reduce_partials, mst_reduce_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name, A) \
    case MUSTER_##NAME:     \
        return reduce_partials<mst_##name, A>(p);
        REDUCE_EACH_TYPE(CASE)
#undef CASE
    }
}
