/* Running sums. A thread sums one chunk of a row; a thread of another kernel turns the sums of a
 * row's chunks into what comes before each; and a thread of a third one writes the sums of a chunk.
 * Neighbouring threads have neighbouring rows. Floats are summed in double, integers wrap
 * around. */
#include "rows_parameters_private.h"
#include "tensor.cuh"

static inline void cumsum_store(int32_t dtype, char *to, double sum) {
    if (dtype == MUSTER_F64)
        *(double *)to = sum;
    else
        *(float *)to = (float)sum;
}
static inline void cumsum_store(int32_t dtype, char *to, uint64_t sum) {
    if (dtype == MUSTER_I64 || dtype == MUSTER_U64)
        *(uint64_t *)to = sum;
    else if (dtype == MUSTER_I32 || dtype == MUSTER_U32)
        *(uint32_t *)to = (uint32_t)sum;
    else if (dtype == MUSTER_I16)
        *(uint16_t *)to = (uint16_t)sum;
    else
        *(uint8_t *)to = (uint8_t)sum;
}

/* The sum of chunk c of row r is at index c * p.count + r. */
template <typename D, typename A> struct cumsum_rows {
    typedef typename D::stored T;
    const mst_rows_parameters &p;
    const char *x;
    char *y;
    A *sums;
    inline cumsum_rows(const mst_rows_parameters &parameters)
        : p(parameters), x(MST_ADDRESS(char, p.rows.base[0])), y(MST_ADDRESS(char, p.rows.base[1])), sums(MST_ADDRESS(A, p.work)) {}
    /* Adds the elements of one chunk to `sum`; writes the sums if `writes`. */
    inline A add(int64_t i, A sum, bool writes) const {
        int64_t chunk = mst_quotient(i, p.count), row = i - chunk * p.count, begin = chunk * p.chunk, offset[2];
        int64_t end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
        mst_offsets<2>(p.rows, row, offset);
        for (int64_t j = begin; j < end; j++) {
            sum += (A)D::load(*(const T *)(x + offset[0] + j * p.stride[0]));
            char *to = y + offset[1] + j * p.stride[1];
            if (writes && p.result == p.dtype) *(T *)to = D::store((typename D::computed)sum);
            if (writes && p.result != p.dtype) cumsum_store(p.result, to, sum);
        }
        return sum;
    }
};

template <typename D, typename A> static inline void cumsum_chunks(const mst_rows_parameters &p) {
    cumsum_rows<D, A> rows(p);
    MST_EACH(i, p.count * p.chunks) { rows.sums[i] = rows.add(i, (A)0, false); }
}

template <typename A> static inline void cumsum_offsets(const mst_rows_parameters &p) {
    A *sums = MST_ADDRESS(A, p.work);
    MST_EACH(row, p.count) {
        A before = 0;
        for (int64_t c = 0; c < p.chunks; c++) {
            A sum = sums[c * p.count + row];
            sums[c * p.count + row] = before;
            before += sum;
        }
    }
}

template <typename D, typename A> static inline void cumsum_write(const mst_rows_parameters &p) {
    cumsum_rows<D, A> rows(p);
    MST_EACH(i, p.count * p.chunks) { rows.add(i, p.chunks > 1 ? rows.sums[i] : (A)0, true); }
}

#define CUMSUM_EACH_TYPE(X) \
    X(F16, f16, double)     \
    X(BF16, bf16, double)   \
    X(F32, f32, double)     \
    X(F64, f64, double)     \
    X(I8, i8, uint64_t)     \
    X(I16, i16, uint64_t)   \
    X(I32, i32, uint64_t)   \
    X(I64, i64, uint64_t)   \
    X(U8, u8, uint64_t)     \
    X(U32, u32, uint64_t)   \
    X(U64, u64, uint64_t)   \
    X(BOOL, bool, uint64_t)

MST_KERNEL(mst_cumsum_chunks, mst_rows_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name, A) \
    case MUSTER_##NAME:     \
        return cumsum_chunks<mst_##name, A>(p);
        CUMSUM_EACH_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_cumsum_offsets, mst_rows_parameters) {
    if (p.dtype <= MUSTER_F64)
        cumsum_offsets<double>(p);
    else
        cumsum_offsets<uint64_t>(p);
}

MST_KERNEL(mst_cumsum, mst_rows_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name, A) \
    case MUSTER_##NAME:     \
        return cumsum_write<mst_##name, A>(p);
        CUMSUM_EACH_TYPE(CASE)
#undef CASE
    }
}
#undef CUMSUM_EACH_TYPE
