/* Reductions. One thread (if the results are contiguous) or one block accumulates one chunk of the
 * elements of one result into a partial result; another kernel combines the partial results. Floats
 * accumulate in double, groups of f16, bf16 and f32 before that in f32; integers accumulate in 64
 * bits, which wrap to the same result, or in double if that is the dtype of the result. bool is
 * accumulated as 0 and 1, for which min is "and" and max is "or".
 *
 * Several dtypes share one loop, and differ only where elements are loaded and stored: a loop for
 * each dtype takes longer to compile. */
#include "float_sums.cuh"
#include "reduce_parameters_private.h"
#include "tensor.cuh"

/* ---- combining ---- */

template <typename T> struct reduce_limits;
template <> struct reduce_limits<float> {
    static inline float lowest() { return -1.0f / 0.0f; }
    static inline float highest() { return 1.0f / 0.0f; }
};
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

template <typename T> static inline T reduce_identity(int32_t op) {
    return op == MUSTER_MAX ? reduce_limits<T>::lowest() : op == MUSTER_MIN ? reduce_limits<T>::highest() : op == MUSTER_PROD ? (T)1 : (T)0;
}

static inline float reduce_plus(float a, float b) { return a + b; }
static inline float reduce_times(float a, float b) { return a * b; }
static inline double reduce_plus(double a, double b) { return a + b; }
static inline double reduce_times(double a, double b) { return a * b; }
static inline int64_t reduce_plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t reduce_times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline uint64_t reduce_plus(uint64_t a, uint64_t b) { return a + b; }
static inline uint64_t reduce_times(uint64_t a, uint64_t b) { return a * b; }

template <typename T> static inline T reduce_combine(int32_t op, T a, T v) {
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

template <typename T> struct reduce_combiner {
    int32_t op;
    inline T operator()(T a, T v) const { return reduce_combine<T>(op, a, v); }
};

/* ---- groups of MST_SUM_GROUP elements ---- */

template <typename T, typename V> static inline T reduce_plainly(int32_t op, const V (&v)[MST_SUM_GROUP]) {
    T value = (T)v[0];
    for (int k = 1; k < MST_SUM_GROUP; k++) value = reduce_combine<T>(op, value, (T)v[k]);
    return value;
}

template <typename V> static inline V reduce_group(int32_t op, const V (&v)[MST_SUM_GROUP]) { return reduce_plainly<V>(op, v); }

/* f32 does not hold the products of eight elements. */
static inline double reduce_group(int32_t op, const float (&v)[MST_SUM_GROUP]) {
    if (op == MUSTER_MAX || op == MUSTER_MIN) return (double)reduce_plainly<float>(op, v);
    if (op != MUSTER_PROD) {
        mst_float_sum sum;
        for (int k = 0; k < MST_SUM_GROUP; k++) sum.add(v[k]);
        if (sum.holds()) return sum.value();
    }
    return reduce_plainly<double>(op, v);
}

/* ---- elements ---- */

/* Elements `begin`, `begin + stride` and so on, below `end`, of the result whose elements begin at
 * `from`; at most MST_SUM_GROUP. */
struct reduce_place {
    const char *from;
    int64_t begin, stride, end;
};

/* All elements are loaded before the first is used. In place of those beyond `end` stands the
 * identity. */
template <typename D, typename V>
static inline void reduce_load(const reduce_place &place, const int64_t (&offset)[MST_SUM_GROUP], V identity, V (&v)[MST_SUM_GROUP]) {
    typedef const typename D::stored stored;
    for (int k = 0; k < MST_SUM_GROUP; k++)
        v[k] = place.begin + k * place.stride < place.end ? (V)D::load(*(stored *)(place.from + offset[k])) : identity;
}

template <typename D, typename A> static inline void reduce_store(char *to, A value) {
    *(typename D::stored *)to = D::store((typename D::computed)value);
}

/* A kind of dtypes: in what an element is computed, and in what it is accumulated. */
#define REDUCE_LOAD(NAME, name) \
    case MUSTER_##NAME:         \
        return reduce_load<mst_##name>(place, offset, identity, v);
#define REDUCE_STORE(NAME, name) \
    case MUSTER_##NAME:          \
        return reduce_store<mst_##name>(to, result);
#define REDUCE_KIND(kind, V, A, EACH, EACH_RESULT)                                                                                \
    struct kind {                                                                                                                 \
        typedef V value;                                                                                                          \
        typedef A total;                                                                                                          \
        static inline void load(int32_t dtype, const reduce_place &place, const int64_t (&offset)[MST_SUM_GROUP], value identity, \
                                value (&v)[MST_SUM_GROUP]) {                                                                      \
            switch (dtype) { EACH(REDUCE_LOAD) }                                                                                  \
        }                                                                                                                         \
        static inline void store(int32_t dtype, char *to, total result) {                                                         \
            switch (dtype) { EACH_RESULT(REDUCE_STORE) }                                                                          \
        }                                                                                                                         \
    };
#define REDUCE_FLOATS(X) X(F16, f16) X(BF16, bf16) X(F32, f32)
#define REDUCE_DOUBLES(X) X(F64, f64)
#define REDUCE_SIGNED(X) X(I8, i8) X(I16, i16) X(I32, i32) X(I64, i64)
#define REDUCE_UNSIGNED(X) X(U8, u8) X(U32, u32) X(U64, u64) X(BOOL, bool)
#define REDUCE_ALL_FLOATS(X) REDUCE_FLOATS(X) REDUCE_DOUBLES(X)
#define REDUCE_INTEGERS(X) REDUCE_SIGNED(X) REDUCE_UNSIGNED(X)
REDUCE_KIND(reduce_of_floats, float, double, REDUCE_FLOATS, REDUCE_ALL_FLOATS)
REDUCE_KIND(reduce_of_doubles, double, double, REDUCE_DOUBLES, REDUCE_DOUBLES)
REDUCE_KIND(reduce_of_signed, int64_t, int64_t, REDUCE_SIGNED, REDUCE_INTEGERS)
REDUCE_KIND(reduce_of_unsigned, uint64_t, uint64_t, REDUCE_UNSIGNED, REDUCE_INTEGERS)
REDUCE_KIND(reduce_to_doubles, double, double, REDUCE_INTEGERS, REDUCE_DOUBLES)

template <typename K> static inline typename K::total reduce_at(const mst_reduce_parameters &p, const reduce_place &place) {
    typedef typename K::value V;
    int64_t offset[MST_SUM_GROUP];
    for (int k = 0; k < MST_SUM_GROUP; k++) offset[k] = (place.begin + k * place.stride) * p.inner.strides[0][0];
    if (p.inner.ndim > 1) {
        for (int k = 0; k < MST_SUM_GROUP; k++) {
            int64_t one[1]; /* the offsets themselves stay in registers */
            mst_offsets<1>(p.inner, place.begin + k * place.stride, one);
            offset[k] = one[0];
        }
    }
    V v[MST_SUM_GROUP];
    K::load(p.dtype, place, offset, reduce_identity<V>(p.op), v);
    return reduce_group(p.op, v);
}

/* Where the elements of a result begin. */
static inline const char *reduce_row(const mst_reduce_parameters &p, int64_t result) {
    const char *x = MST_ADDRESS(char, p.outer.base[0]);
    if (!x) return x; /* nothing to reduce */
    int64_t offset[2];
    mst_offsets<2>(p.outer, result, offset);
    return x + offset[0];
}

template <typename K>
static inline void reduce_finish(const mst_reduce_parameters &p, typename K::total *partials, int64_t at, int64_t result,
                                 typename K::total value) {
    if (partials) {
        partials[at] = value;
        return;
    }
    int64_t offset[2];
    mst_offsets<2>(p.outer, result, offset);
    if (p.op == MUSTER_AVG) value = (typename K::total)((double)value / p.divisor);
    K::store(p.result, MST_ADDRESS(char, p.outer.base[1]) + offset[1], value);
}

/* ---- kernels ---- */

template <typename K> static inline void reduce_threads(const mst_reduce_parameters &p) {
    typedef typename K::total A;
    A *partials = MST_ADDRESS(A, p.partials);
    MST_EACH(i, p.results * p.chunks) {
        int64_t chunk = mst_quotient(i, p.results), result = i - chunk * p.results, begin = chunk * p.chunk;
        int64_t end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
        const char *from = reduce_row(p, result);
        A value = reduce_identity<A>(p.op);
        for (int64_t j = begin; j < end; j += MST_SUM_GROUP) value = reduce_combine<A>(p.op, value, reduce_at<K>(p, {from, j, 1, end}));
        reduce_finish<K>(p, partials, i, result, value);
    }
}

/* Group g of a chunk belongs to thread g % MST_THREADS of the block. Neighbouring threads read
 * neighbouring elements. */
template <typename K> static inline void reduce_blocks(const mst_reduce_parameters &p) {
    typedef typename K::total A;
    enum { TILE = MST_THREADS * MST_SUM_GROUP };
    A *partials = MST_ADDRESS(A, p.partials);
    const reduce_combiner<A> combine = {p.op};
    MST_BLOCKS(b, p.results * p.chunks) {
        int64_t chunk = mst_quotient(b, p.results), result = b - chunk * p.results, begin = chunk * p.chunk;
        int64_t end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
        const char *from = reduce_row(p, result);
        auto place = [&](int64_t g) -> reduce_place { return {from, begin + g / MST_THREADS * TILE + g % MST_THREADS, MST_THREADS, end}; };
        MST_BLOCK_REDUCE(A, value, g, (end - begin + TILE - 1) / TILE * MST_THREADS, reduce_identity<A>(p.op), reduce_at<K>(p, place(g)),
                         combine);
        MST_ONE { reduce_finish<K>(p, partials, b, result, value); }
    }
}

template <typename K> static inline void reduce_partials(const mst_reduce_parameters &p) {
    typedef typename K::total A;
    A *partials = MST_ADDRESS(A, p.partials);
    const reduce_combiner<A> combine = {p.op};
    MST_BLOCKS(result, p.results) {
        MST_BLOCK_REDUCE(A, value, chunk, p.chunks, reduce_identity<A>(p.op), partials[chunk * p.results + result], combine);
        MST_ONE { reduce_finish<K>(p, (A *)0, 0, result, value); }
    }
}

#define REDUCE_CASE(NAME, name) case MUSTER_##NAME:
#define REDUCE_KERNEL(loops)                                                                \
    if (p.dtype > MUSTER_F64 && p.result <= MUSTER_F64) return loops<reduce_to_doubles>(p); \
    switch (p.dtype) {                                                                      \
        REDUCE_FLOATS(REDUCE_CASE)                                                          \
        return loops<reduce_of_floats>(p);                                                  \
        REDUCE_DOUBLES(REDUCE_CASE)                                                         \
        return loops<reduce_of_doubles>(p);                                                 \
        REDUCE_SIGNED(REDUCE_CASE)                                                          \
        return loops<reduce_of_signed>(p);                                                  \
        REDUCE_UNSIGNED(REDUCE_CASE)                                                        \
        return loops<reduce_of_unsigned>(p);                                                \
    }

MST_KERNEL(mst_reduce_threads, mst_reduce_parameters){REDUCE_KERNEL(reduce_threads)}

MST_KERNEL(mst_reduce_blocks, mst_reduce_parameters){REDUCE_KERNEL(reduce_blocks)}

MST_KERNEL(mst_reduce_partials, mst_reduce_parameters) {
    REDUCE_KERNEL(reduce_partials)
}
