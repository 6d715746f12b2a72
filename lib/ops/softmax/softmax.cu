/* The softmax family. One thread computes a short row, one block a long one. Of logsumexp y has one
 * element per row. */
#include "rows_parameters_private.h"
#include "softmax_op_parameters_private.h"
#include "tensor.cuh"

static inline float softmax_rows_exp(float v) { return expf(v); }
static inline double softmax_rows_exp(double v) { return exp(v); }

struct softmax_rows_larger {
    template <typename C> inline C operator()(C a, C b) const { return b > a ? b : a; }
};
struct softmax_rows_plus {
    inline double operator()(double a, double b) const { return a + b; }
};

/* The addresses of x and y, or of y, dy and dx. */
struct softmax_rows_operands {
    char *base[3];
    inline softmax_rows_operands(const mst_rows_parameters &p) {
        base[0] = MST_ADDRESS(char, p.rows.base[0]);
        base[1] = MST_ADDRESS(char, p.rows.base[1]);
        base[2] = p.op >= MST_SOFTMAX_GRADIENT ? MST_ADDRESS(char, p.rows.base[2]) : (char *)0;
    }
};

template <typename D> struct softmax_row {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const mst_rows_parameters &p;
    char *at[3];
    inline softmax_row(const mst_rows_parameters &parameters, const softmax_rows_operands &operands, int64_t row) : p(parameters) {
        int64_t offset[3] = {0, 0, 0};
        if (p.op >= MST_SOFTMAX_GRADIENT)
            mst_offsets<3>(p.rows, row, offset);
        else
            mst_offsets<2>(p.rows, row, offset);
        for (int k = 0; k < 3; k++) at[k] = operands.base[k] + offset[k];
    }
    inline C get(int k, int64_t j) const { return D::load(*(const T *)(at[k] + j * p.stride[k])); }
    inline void put(int k, int64_t j, C value) const { *(T *)(at[k] + j * p.stride[k]) = D::store(value); }
    /* Elements whose largest is needed. */
    inline int64_t compared() const { return p.op >= MST_SOFTMAX_GRADIENT ? 0 : p.length; }
    static inline C lowest() { return (C)(-1.0 / 0.0); }
    static inline C bounded(C top) { return top - top == 0 ? top : (C)0; }
    inline double term(int64_t j, C top) const {
        if (p.op == MST_LOG_SOFTMAX_GRADIENT) return (double)get(1, j);
        if (p.op == MST_SOFTMAX_GRADIENT) return (double)(get(0, j) * get(1, j));
        return (double)softmax_rows_exp(get(0, j) - top);
    }
    /* `logarithm` is that of the sum. Of large elements top + logarithm may be top. */
    inline void finish(int64_t j, C top, double sum, double logarithm) const {
        switch (p.op) {
        case MST_SOFTMAX:
            return put(1, j, (C)((double)softmax_rows_exp(get(0, j) - top) / sum));
        case MST_LOG_SOFTMAX:
            return put(1, j, (C)((double)get(0, j) - (double)top - logarithm));
        case MST_SOFTMAX_GRADIENT:
            return put(2, j, get(0, j) * (C)((double)get(1, j) - sum));
        default: /* of a row that a loss leaves out, whose dy is 0, it is 0, also where y is NaN */
            if (sum == 0 && get(1, j) == (C)0) return put(2, j, (C)0);
            return put(2, j, (C)((double)get(1, j) - (double)softmax_rows_exp(get(0, j)) * sum));
        }
    }
};

template <typename D> static inline void softmax_rows_threads(const mst_rows_parameters &p) {
    typedef typename D::computed C;
    const softmax_rows_operands operands(p);
    MST_EACH(i, p.count) {
        softmax_row<D> row(p, operands, i);
        C largest = row.lowest();
        for (int64_t j = 0; j < row.compared(); j++) largest = softmax_rows_larger()(largest, row.get(0, j));
        const C top = row.bounded(largest);
        double sum = 0;
        for (int64_t j = 0; j < p.length; j++) sum += row.term(j, top);
        const double logarithm = p.op >= MST_SOFTMAX_GRADIENT ? 0 : log(sum);
        if (p.op == MST_LOGSUMEXP)
            row.put(1, 0, (C)((double)top + logarithm));
        else
            for (int64_t j = 0; j < p.length; j++) row.finish(j, top, sum, logarithm);
    }
}

template <typename D> static inline void softmax_rows_blocks(const mst_rows_parameters &p) {
    typedef typename D::computed C;
    const softmax_rows_operands operands(p);
    MST_BLOCKS(i, p.count) {
        softmax_row<D> row(p, operands, i);
        MST_BLOCK_REDUCE(C, largest, j, row.compared(), row.lowest(), row.get(0, j), softmax_rows_larger());
        const C top = row.bounded(largest);
        MST_BLOCK_REDUCE(double, sum, j, p.length, 0.0, row.term(j, top), softmax_rows_plus());
        const double logarithm = p.op >= MST_SOFTMAX_GRADIENT ? 0 : log(sum);
        if (p.op == MST_LOGSUMEXP) {
            MST_ONE { row.put(1, 0, (C)((double)top + logarithm)); }
        } else {
            MST_BLOCK_EACH(j, p.length) { row.finish(j, top, sum, logarithm); }
        }
    }
}

MST_KERNEL(mst_softmax_rows_threads, mst_rows_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return softmax_rows_threads<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}

MST_KERNEL(mst_softmax_rows_blocks, mst_rows_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return softmax_rows_blocks<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
