/* One thread searches a short row, one block a long one. */
#include "argmax_parameters_private.h"
#include "tensor.cuh"

template <typename C> struct argmax_best {
    C value;
    int64_t index; /* -1: nothing yet */
};

/* The first of the largest elements wins (argmin: of the smallest); NaN wins over all numbers. */
template <typename C> struct argmax_combiner {
    bool smallest;
    inline argmax_best<C> operator()(argmax_best<C> a, argmax_best<C> b) const {
        if (a.index < 0) return b;
        if (b.index < 0) return a;
        bool first_a = a.index < b.index;
        if (a.value != a.value) return b.value != b.value && !first_a ? b : a;
        if (b.value != b.value) return b;
        if (a.value == b.value) return first_a ? a : b;
        return (a.value > b.value) != smallest ? a : b;
    }
};

template <typename D> static inline argmax_best<typename D::computed> argmax_at(const typename D::stored *row, int64_t stride, int64_t j) {
    return {D::load(row[j * stride]), j};
}

template <typename D> static inline void argmax_threads(const mst_argmax_parameters &p) {
    typedef argmax_best<typename D::computed> best;
    const typename D::stored *x = MST_ADDRESS(const typename D::stored, p.x);
    int64_t *index = MST_ADDRESS(int64_t, p.index);
    const argmax_combiner<typename D::computed> better = {p.smallest != 0};
    MST_EACH(row, p.n) {
        best found = argmax_at<D>(x + row * p.row_stride, p.column_stride, 0);
        for (int64_t j = 1; j < p.k; j++) found = better(found, argmax_at<D>(x + row * p.row_stride, p.column_stride, j));
        index[row * p.index_stride] = found.index;
    }
}

template <typename D> static inline void argmax_blocks(const mst_argmax_parameters &p) {
    typedef argmax_best<typename D::computed> best;
    const typename D::stored *x = MST_ADDRESS(const typename D::stored, p.x);
    int64_t *index = MST_ADDRESS(int64_t, p.index);
    const argmax_combiner<typename D::computed> better = {p.smallest != 0};
    MST_BLOCKS(row, p.n) {
        const best none = {0, -1};
        MST_BLOCK_REDUCE(best, found, j, p.k, none, argmax_at<D>(x + row * p.row_stride, p.column_stride, j), better);
        MST_ONE { index[row * p.index_stride] = found.index; }
    }
}

#define ARGMAX_EACH_TYPE(X) MST_EACH_FLOAT_TYPE(X) MST_EACH_SIGNED_TYPE(X) MST_EACH_UNSIGNED_TYPE(X) X(BOOL, bool)

MST_KERNEL(mst_argmax_threads, mst_argmax_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return argmax_threads<mst_##name>(p);
        ARGMAX_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_argmax_blocks, mst_argmax_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return argmax_blocks<mst_##name>(p);
        ARGMAX_EACH_TYPE(CASE)
#undef CASE
    }
}
#undef ARGMAX_EACH_TYPE
