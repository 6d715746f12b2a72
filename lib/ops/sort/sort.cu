/* Stable sorting of rows: of the places of the elements, not of the elements. A thread sorts a
 * short run by insertion. Then pairs of runs are merged, one launch for each length of the runs:
 * the new place of an element is its own in its run, plus the number of elements of the other run
 * before it, which a binary search finds. The last kernel writes values and places. */
#include "sort_parameters_private.h"
#include "tensor.cuh"

template <typename D> struct sort_row {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const char *x;
    int64_t stride;
    bool descending;
    inline C at(int64_t j) const { return D::load(*(const T *)(x + j * stride)); }
    inline bool precedes(C a, C b) const { return descending ? a > b || (a != a && b == b) : a < b || (b != b && a == a); }
    /* Does element i come before element j? Equal elements keep their order. */
    inline bool before(int64_t i, int64_t j) const {
        C a = at(i), b = at(j);
        return precedes(a, b) || (i < j && !precedes(b, a));
    }
};

template <typename D> static inline sort_row<D> sort_row_of(const mst_sort_parameters &p, const char *x, int64_t row) {
    int64_t offset[1];
    mst_offsets<1>(p.rows.rows, row, offset);
    return {x + offset[0], p.rows.stride[0], p.rows.op != 0};
}

template <typename D> static inline void sort_runs(const mst_sort_parameters &p) {
    const char *x = MST_ADDRESS(char, p.rows.rows.base[0]);
    int64_t *to = MST_ADDRESS(int64_t, p.to);
    MST_EACH(i, p.rows.count * p.rows.chunks) {
        int64_t row = mst_quotient(i, p.rows.chunks), begin = (i - row * p.rows.chunks) * p.rows.chunk;
        int64_t end = begin + p.rows.chunk < p.rows.length ? begin + p.rows.chunk : p.rows.length;
        sort_row<D> elements = sort_row_of<D>(p, x, row);
        int64_t *places = to + row * p.rows.length;
        for (int64_t j = begin; j < end; j++) {
            int64_t at = j;
            for (; at > begin && elements.before(j, places[at - 1]); at--) places[at] = places[at - 1];
            places[at] = j;
        }
    }
}

template <typename D> static inline void sort_merge(const mst_sort_parameters &p) {
    const char *x = MST_ADDRESS(char, p.rows.rows.base[0]);
    const int64_t *from = MST_ADDRESS(const int64_t, p.from);
    int64_t *to = MST_ADDRESS(int64_t, p.to);
    MST_EACH(i, p.rows.count * p.rows.length) {
        int64_t row = mst_quotient(i, p.rows.length), j = i - row * p.rows.length, run = mst_quotient(j, p.width);
        int64_t begin = run * p.width, other = (run ^ 1) * p.width, low = other < p.rows.length ? other : p.rows.length;
        int64_t high = other + p.width < p.rows.length ? other + p.width : p.rows.length;
        sort_row<D> elements = sort_row_of<D>(p, x, row);
        const int64_t *places = from + row * p.rows.length;
        int64_t place = places[j], first = low;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (elements.before(places[middle], place))
                low = middle + 1;
            else
                high = middle;
        }
        to[row * p.rows.length + (begin < other ? begin : other) + (j - begin) + (low - first)] = place;
    }
}

template <typename T> static inline void sort_write(const mst_sort_parameters &p) {
    const char *x = MST_ADDRESS(char, p.rows.rows.base[0]);
    char *values = MST_ADDRESS(char, p.rows.rows.base[1]), *indices = MST_ADDRESS(char, p.rows.rows.base[2]);
    const int64_t *to = MST_ADDRESS(const int64_t, p.to);
    MST_EACH(i, p.rows.count * p.wanted) {
        int64_t row = mst_quotient(i, p.wanted), j = i - row * p.wanted, place = to[row * p.rows.length + j], offset[3];
        mst_offsets<3>(p.rows.rows, row, offset);
        if (values) *(T *)(values + offset[1] + j * p.rows.stride[1]) = *(const T *)(x + offset[0] + place * p.rows.stride[0]);
        if (indices) *(int64_t *)(indices + offset[2] + j * p.rows.stride[2]) = place;
    }
}

#define SORT_EACH_TYPE(X) MST_EACH_FLOAT_TYPE(X) MST_EACH_SIGNED_TYPE(X) MST_EACH_UNSIGNED_TYPE(X) X(BOOL, bool)

MST_KERNEL(mst_sort_runs, mst_sort_parameters) {
    switch (p.rows.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return sort_runs<mst_##name>(p);
        SORT_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_sort_merge, mst_sort_parameters) {
    switch (p.rows.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return sort_merge<mst_##name>(p);
        SORT_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_sort_write, mst_sort_parameters) {
    switch (p.rows.dtype) {
    case MUSTER_I8:
    case MUSTER_U8:
    case MUSTER_BOOL:
        return sort_write<uint8_t>(p);
    case MUSTER_F16:
    case MUSTER_BF16:
    case MUSTER_I16:
        return sort_write<uint16_t>(p);
    case MUSTER_F32:
    case MUSTER_I32:
    case MUSTER_U32:
        return sort_write<uint32_t>(p);
    default:
        return sort_write<uint64_t>(p);
    }
}
#undef SORT_EACH_TYPE
