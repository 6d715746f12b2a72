/* Recurrences. A thread composes the steps of one chunk of a row: from e they make m e + v. A
 * thread of another kernel finds from these what e is before each chunk of a row; and a thread of
 * a third one computes the results of a chunk. Neighbouring threads have neighbouring rows. */
#include "recurrence_parameters_private.h"
#include "tensor.cuh"

template <typename T, typename A> struct recurrence_rows {
    const mst_recurrence_parameters &p;
    inline recurrence_rows(const mst_recurrence_parameters &parameters) : p(parameters) {}
    static inline A element(const mst_recurrence_operand &x, int64_t row, int64_t j) {
        return (A) * (const T *)(MST_ADDRESS(char, x.at) + row * x.row + j * x.along);
    }
    inline A step(A e, int64_t row, int64_t j) const {
        e *= element(p.a, row, j);
        return p.b.at ? e + element(p.b, row, j) : e;
    }
    inline int64_t end(int64_t chunk) const {
        const int64_t end = (chunk + 1) * p.chunk;
        return end < p.length ? end : p.length;
    }
    /* The product m of chunk c of row r is at index c * p.rows + r of the work. The sums v follow
     * the products of all chunks. */
    inline A *products() const { return MST_ADDRESS(A, p.work); }
    inline A *sums() const { return products() + p.rows * p.chunks; }
};

/* True if the product of a chunk is as good as its factors one by one. A product of floats may have
 * left the range on the way, and a factor 0 beside infinity makes NaN. */
static inline bool recurrence_usable(double m, double v) { return (m > 1e-290 || m < -1e-290) && m < 1e290 && m > -1e290 && v - v == 0; }
static inline bool recurrence_usable(uint64_t, uint64_t) { return true; }

template <typename T, typename A> static inline void recurrence_chunks(const mst_recurrence_parameters &p) {
    const recurrence_rows<T, A> rows(p);
    MST_EACH(i, p.rows * p.chunks) {
        const int64_t chunk = mst_quotient(i, p.rows), row = i - chunk * p.rows;
        A m = 1, v = 0;
        for (int64_t j = chunk * p.chunk; j < rows.end(chunk); j++) {
            m *= rows.element(p.a, row, j);
            v = rows.step(v, row, j);
        }
        rows.products()[i] = m;
        rows.sums()[i] = v;
    }
}

template <typename T, typename A> static inline void recurrence_starts(const mst_recurrence_parameters &p) {
    const recurrence_rows<T, A> rows(p);
    MST_EACH(row, p.rows) {
        A e = (A)p.first;
        for (int64_t chunk = 0; chunk < p.chunks; chunk++) {
            const int64_t i = chunk * p.rows + row;
            const A m = rows.products()[i], v = rows.sums()[i];
            rows.sums()[i] = e;
            if (recurrence_usable(m, v))
                e = m * e + v;
            else
                for (int64_t j = chunk * p.chunk; j < rows.end(chunk); j++) e = rows.step(e, row, j);
        }
    }
}

template <typename T, typename A> static inline void recurrence_write(const mst_recurrence_parameters &p) {
    const recurrence_rows<T, A> rows(p);
    MST_EACH(i, p.rows * p.chunks) {
        const int64_t chunk = mst_quotient(i, p.rows), row = i - chunk * p.rows;
        char *y = MST_ADDRESS(char, p.y.at) + row * p.y.row;
        A e = p.chunks > 1 ? rows.sums()[i] : (A)p.first;
        for (int64_t j = chunk * p.chunk; j < rows.end(chunk); j++) {
            const A before = e;
            e = rows.step(e, row, j);
            *(T *)(y + j * p.y.along) = (T)(p.inclusive ? e : before);
        }
    }
}

#define RECURRENCE_KERNEL(part)                                             \
    if (p.dtype == MUSTER_F32) return recurrence_##part<float, double>(p);  \
    if (p.dtype == MUSTER_F64) return recurrence_##part<double, double>(p); \
    return recurrence_##part<uint64_t, uint64_t>(p);

MST_KERNEL(mst_recurrence_chunks, mst_recurrence_parameters){RECURRENCE_KERNEL(chunks)}

MST_KERNEL(mst_recurrence_starts, mst_recurrence_parameters){RECURRENCE_KERNEL(starts)}

MST_KERNEL(mst_recurrence_write, mst_recurrence_parameters) {
    RECURRENCE_KERNEL(write)
}
