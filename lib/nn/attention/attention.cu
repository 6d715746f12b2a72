/* Attention: one block computes a row of y, or of a gradient. Its threads share the keys, or the
 * queries, among them; each computes a score and what it gives to a few columns of the row, which
 * are then combined. More columns compute the scores again. */
#include "attention_parameters_private.h"
#include "tensor.cuh"

static inline float attention_exp(float x) { return expf(x); }
static inline double attention_exp(double x) { return exp(x); }

/* The columns that a block sums at once: what its threads combine lies in shared memory. */
template <typename C> struct attention_columns {
    enum { AT_ONCE = 64 / sizeof(C) };
    C sum[AT_ONCE];
};

struct attention_plus {
    template <typename C> inline attention_columns<C> operator()(attention_columns<C> a, const attention_columns<C> &b) const {
        for (int c = 0; c < attention_columns<C>::AT_ONCE; c++) a.sum[c] += b.sum[c];
        return a;
    }
};

/* A part of softmax: the sum of the exponentials of scores less `top`, alone and times v. */
template <typename C> struct attention_part {
    C top, sum;
    attention_columns<C> y;
};

struct attention_join {
    template <typename C> inline attention_part<C> operator()(const attention_part<C> &a, const attention_part<C> &b) const {
        attention_part<C> joined;
        joined.top = b.top > a.top ? b.top : a.top;
        const C subtracted = joined.top == (C)(-1.0 / 0.0) ? (C)0 : joined.top;
        const C left = attention_exp(a.top - subtracted), right = attention_exp(b.top - subtracted);
        joined.sum = a.sum * left + b.sum * right;
        for (int c = 0; c < attention_columns<C>::AT_ONCE; c++) joined.y.sum[c] = a.y.sum[c] * left + b.y.sum[c] * right;
        return joined;
    }
};

/* The operands of one matrix of the stack. */
template <typename D> struct attention_matrix {
    typedef typename D::stored T;
    typedef typename D::computed C;
    enum { AT_ONCE = attention_columns<C>::AT_ONCE };
    const mst_attention_parameters &p;
    char *at[MST_ATTENTION_OPERANDS];
    inline attention_matrix(const mst_attention_parameters &parameters, char *const *base, int64_t i) : p(parameters) {
        for (int k = 0; k < MST_ATTENTION_OPERANDS; k++) at[k] = base[k];
        for (int d = MST_ATTENTION_STACK - 1; d >= 0; d--) {
            const int64_t above = mst_quotient(i, p.stack[d]), index = i - above * p.stack[d];
            i = above;
            for (int k = 0; k < MST_ATTENTION_OPERANDS; k++) {
                const int64_t size = MST_ATTENTION_OF_QUERIES(k) ? sizeof(C) : sizeof(T);
                const bool grouped = d == MST_ATTENTION_STACK - 1 && p.group > 1 && MST_ATTENTION_OF_KEYS(k);
                if (at[k]) at[k] += (grouped ? mst_quotient(index, p.group) : index) * p.operands[k].stack[d] * size;
            }
        }
    }
    inline C get(int operand, int64_t row, int64_t column) const {
        const mst_attention_operand &o = p.operands[operand];
        return D::load(((const T *)at[operand])[row * o.row + column * o.column]);
    }
    inline void put(int operand, int64_t row, int64_t column, C value) const {
        const mst_attention_operand &o = p.operands[operand];
        ((T *)at[operand])[row * o.row + column * o.column] = D::store(value);
    }
    inline C *of_query(int operand, int64_t i) const { return (C *)at[operand] + i * p.operands[operand].row; }
    /* Query i sees so many keys, and key j is seen from this query on. */
    inline int64_t seen(int64_t i) const { return p.causal && i + 1 < p.keys ? i + 1 : p.keys; }
    inline int64_t first(int64_t j) const { return !p.causal ? 0 : j < p.queries ? j : p.queries; }
    inline C score(int64_t i, int64_t j) const {
        C sum = 0;
        for (int64_t c = 0; c < p.width; c++) sum += get(MST_ATTENTION_Q, i, c) * get(MST_ATTENTION_K, j, c);
        sum *= (C)p.scale;
        return at[MST_ATTENTION_MASK] ? sum + get(MST_ATTENTION_MASK, i, j) : sum;
    }
    /* lse alone does not do: at a score of -1e9 it has no place for log(sum). No p is larger than
     * 1, whatever a score has lost to rounding. */
    inline C weight(int64_t i, int64_t j) const {
        const C lse = *of_query(MST_ATTENTION_LSE, i);
        const C x = (score(i, j) - (lse == (C)(-1.0 / 0.0) ? (C)0 : lse)) - *of_query(MST_ATTENTION_REST, i);
        return attention_exp(x > 0 ? (C)0 : x);
    }
    /* p (dp - sum(p dp)): the gradient of the score, but for the scale. */
    inline C change(int64_t i, int64_t j, C weight_of_key) const {
        C sum = 0;
        for (int64_t c = 0; c < p.values; c++)
            sum += get(MST_ATTENTION_DY, i, c) * (get(MST_ATTENTION_V, j, c) - get(MST_ATTENTION_Y, i, c));
        return weight_of_key * sum;
    }
    inline attention_part<C> nothing() const {
        attention_part<C> part = {(C)(-1.0 / 0.0), 0, {{0}}};
        return part;
    }
    /* Key j alone, for the columns of v from `column` on. */
    inline attention_part<C> key(int64_t i, int64_t j, int64_t column) const {
        attention_part<C> part = {score(i, j), 1, {{0}}};
        for (int c = 0; c < AT_ONCE && column + c < p.values; c++) part.y.sum[c] = get(MST_ATTENTION_V, j, column + c);
        return part;
    }
    /* `factor` times a row of an operand. */
    inline attention_columns<C> times(C factor, int operand, int64_t row, int64_t column, int64_t columns) const {
        attention_columns<C> part = {{0}};
        for (int c = 0; c < AT_ONCE && column + c < columns; c++) part.sum[c] = factor * get(operand, row, column + c);
        return part;
    }
};

/* What a thread adds to a row of dq, dk or dv. */
template <typename D, int RESULT
> static inline attention_columns<typename D::computed> attention_term(const attention_matrix<D> &m, int64_t i, int64_t j, int64_t column) {
    const typename D::computed weight = m.weight(i, j);
    if (RESULT == MST_ATTENTION_DV) return m.times(weight, MST_ATTENTION_DY, i, column, m.p.values);
    const typename D::computed change = m.change(i, j, weight) * (typename D::computed)m.p.scale;
    return RESULT
    == MST_ATTENTION_DQ ? m.times(change, MST_ATTENTION_K, j, column, m.p.width) : m.times(change, MST_ATTENTION_Q, i, column, m.p.width);
}

/* The addresses of the operands. */
struct attention_bases {
    char *at[MST_ATTENTION_OPERANDS];
    inline attention_bases(const mst_attention_parameters &p) {
        for (int k = 0; k < MST_ATTENTION_OPERANDS; k++) at[k] = MST_ADDRESS(char, p.operands[k].data);
    }
};

template <typename D> static inline void attention_forward(const mst_attention_parameters &p) {
    typedef typename D::computed C;
    enum { AT_ONCE = attention_columns<C>::AT_ONCE };
    const attention_bases bases(p);
    MST_BLOCKS(b, p.count * p.queries) {
        const int64_t matrix = mst_quotient(b, p.queries), i = b - matrix * p.queries;
        const attention_matrix<D> m(p, bases.at, matrix);
        for (int64_t column = 0; column == 0 || column < p.values; column += AT_ONCE) {
            MST_BLOCK_REDUCE(attention_part<C>, part, j, m.seen(i), m.nothing(), m.key(i, j, column), attention_join());
            const int64_t left = p.values - column;
            MST_BLOCK_EACH(c, left < (int64_t)AT_ONCE ? left : (int64_t)AT_ONCE) {
                m.put(MST_ATTENTION_Y, i, column + c, part.sum == 0 ? (C)0 : part.y.sum[c] / part.sum);
            }
            MST_ONE {
                const double top = (double)part.top, more = log((double)part.sum);
                const C lse = (C)(top + more);
                if (column == 0 && m.at[MST_ATTENTION_LSE]) *m.of_query(MST_ATTENTION_LSE, i) = lse;
                if (column == 0 && m.at[MST_ATTENTION_REST])
                    *m.of_query(MST_ATTENTION_REST, i) = part.sum == 0 ? (C)0 : (C)(top - (double)lse + more);
            }
        }
    }
}

template <typename D> static inline void attention_of_queries(const mst_attention_parameters &p) {
    typedef typename D::computed C;
    enum { AT_ONCE = attention_columns<C>::AT_ONCE };
    const attention_bases bases(p);
    const attention_columns<C> zeros = {{0}};
    MST_BLOCKS(b, p.count * p.queries) {
        const int64_t matrix = mst_quotient(b, p.queries), i = b - matrix * p.queries;
        const attention_matrix<D> m(p, bases.at, matrix);
        for (int64_t column = 0; column < p.width; column += AT_ONCE) {
            MST_BLOCK_REDUCE(attention_columns<C>, row, j, m.seen(i), zeros, (attention_term<D, MST_ATTENTION_DQ>(m, i, j, column)),
                             attention_plus());
            const int64_t left = p.width - column;
            MST_BLOCK_EACH(c, left < (int64_t)AT_ONCE ? left : (int64_t)AT_ONCE) { m.put(MST_ATTENTION_DQ, i, column + c, row.sum[c]); }
        }
    }
}

/* A row of dk or of dv, for the matrices of queries from `matrix` on that share it; columns: its
 * length. */
template <typename D, int RESULT
> static inline void attention_row_of_key(const mst_attention_parameters &p, char *const *base, int64_t matrix, int64_t j,
                                          int64_t columns) {
    typedef typename D::computed C;
    enum { AT_ONCE = attention_columns<C>::AT_ONCE };
    const attention_columns<C> zeros = {{0}};
    if (!base[RESULT]) return;
    for (int64_t column = 0; column < columns; column += AT_ONCE) {
        attention_columns<C> total = zeros;
        for (int64_t g = 0; g < p.group; g++) {
            const attention_matrix<D> m(p, base, matrix + g);
            const int64_t first = m.first(j);
            MST_BLOCK_REDUCE(attention_columns<C>, row, i, p.queries - first, zeros, (attention_term<D, RESULT>(m, first + i, j, column)),
                             attention_plus());
            total = attention_plus()(total, row);
        }
        const attention_matrix<D> m(p, base, matrix);
        const int64_t left = columns - column;
        MST_BLOCK_EACH(c, left < (int64_t)AT_ONCE ? left : (int64_t)AT_ONCE) { m.put(RESULT, j, column + c, total.sum[c]); }
    }
}

template <typename D> static inline void attention_of_keys(const mst_attention_parameters &p) {
    const attention_bases bases(p);
    MST_BLOCKS(b, mst_quotient(p.count, p.group) * p.keys) {
        const int64_t of_keys = mst_quotient(b, p.keys), j = b - of_keys * p.keys;
        attention_row_of_key<D, MST_ATTENTION_DK>(p, bases.at, of_keys * p.group, j, p.width);
        attention_row_of_key<D, MST_ATTENTION_DV>(p, bases.at, of_keys * p.group, j, p.values);
    }
}

/* Places in the stack and in the rows of the mask, and how often it repeats them. */
struct attention_repeats {
    int64_t index[MST_ATTENTION_STACK], row, rows, count;
    const mst_attention_parameters &p;
    inline attention_repeats(const mst_attention_parameters &parameters, int64_t b) : row(0), rows(1), count(1), p(parameters) {
        const int64_t all = p.mask[MST_ATTENTION_STACK], above = mst_quotient(b, all);
        row = b - above * all;
        rows = all == 1 ? p.queries : 1;
        b = above;
        for (int d = MST_ATTENTION_STACK - 1; d >= 0; d--) {
            const int64_t outer = mst_quotient(b, p.mask[d]);
            index[d] = b - outer * p.mask[d];
            b = outer;
            if (p.mask[d] == 1) count *= p.stack[d];
        }
    }
    /* The element of the gradient for column j: also where the stack is empty, and it is 0. */
    inline int64_t element(int64_t j) const {
        const mst_attention_operand &o = p.operands[MST_ATTENTION_DMASK];
        int64_t at = row * o.row + j * o.column;
        for (int d = 0; d < MST_ATTENTION_STACK; d++) at += index[d] * o.stack[d];
        return at;
    }
    /* The matrix of the stack that repeat r is in. */
    inline int64_t matrix(int64_t r) const {
        int64_t made = 0, factor = 1;
        for (int d = MST_ATTENTION_STACK - 1; d >= 0; d--) {
            int64_t place = index[d];
            if (p.mask[d] == 1) {
                const int64_t above = mst_quotient(r, p.stack[d]);
                place = r - above * p.stack[d];
                r = above;
            }
            made += place * factor;
            factor *= p.stack[d];
        }
        return made;
    }
};

/* The gradient of row i's element of the mask for key j; for all keys where the mask repeats its
 * column. */
template <typename D> static inline typename D::computed attention_of_score(const attention_matrix<D> &m, int64_t i, int64_t j, bool all) {
    typename D::computed sum = 0;
    const int64_t seen = m.seen(i);
    for (int64_t key = all ? 0 : j; key < (all ? seen : j + 1); key++)
        if (key < seen) sum += m.change(i, key, m.weight(i, key));
    return sum;
}

template <typename D> static inline void attention_of_mask(const mst_attention_parameters &p) {
    const attention_bases bases(p);
    int64_t blocks = 1;
    for (int d = 0; d <= MST_ATTENTION_STACK; d++) blocks *= p.mask[d];
    MST_BLOCKS(b, blocks) {
        const attention_repeats repeats(p, b);
        const int64_t columns = p.mask[MST_ATTENTION_STACK + 1];
        MST_BLOCK_EACH(j, columns) {
            typename D::computed sum = 0;
            for (int64_t r = 0; r < repeats.count; r++) {
                const attention_matrix<D> m(p, bases.at, repeats.matrix(r));
                for (int64_t i = 0; i < repeats.rows; i++) sum += attention_of_score(m, repeats.row + i, j, columns == 1);
            }
            ((typename D::stored *)bases.at[MST_ATTENTION_DMASK])[repeats.element(j)] = D::store(sum);
        }
    }
}

#define ATTENTION_KERNEL(kind)                \
    switch (p.dtype) {                        \
    case MUSTER_F16:                          \
        return attention_##kind<mst_f16>(p);  \
    case MUSTER_BF16:                         \
        return attention_##kind<mst_bf16>(p); \
    case MUSTER_F32:                          \
        return attention_##kind<mst_f32>(p);  \
    case MUSTER_F64:                          \
        return attention_##kind<mst_f64>(p);  \
    }

MST_KERNEL(mst_attention_results, mst_attention_parameters){ATTENTION_KERNEL(forward)}

MST_KERNEL(mst_attention_of_queries, mst_attention_parameters){ATTENTION_KERNEL(of_queries)}

MST_KERNEL(mst_attention_of_keys, mst_attention_parameters){ATTENTION_KERNEL(of_keys)}

MST_KERNEL(mst_attention_of_mask, mst_attention_parameters) {
    ATTENTION_KERNEL(of_mask)
}
