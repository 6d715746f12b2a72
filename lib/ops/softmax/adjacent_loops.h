/* softmax, log_softmax and logsumexp of rows that lie beside each other, for one dtype: element i
 * of `n` rows, at most ADJACENT, is contiguous in x. Vectors go across the rows. Each row has the
 * bits that row_ gives it by itself, so its sum has the same blocks and lanes. `row_stride`: the
 * bytes from one row to the next in y. What belongs to a row lies in the scratch memory: arrays of
 * ADJACENT numbers, by the enum in softmax.c. */

static MST_ALWAYS_INLINE void MST_JOIN(adjacent_tops_, SUFFIX)(const mst_rows_parameters *p, const char *x, int64_t n, C *top) {
    C *v = (C *)((double(*)[ADJACENT])p->work)[VALUES_AT];
    for (int64_t c = 0; c < n; c++) top[c] = -(C)INFINITY;
    for (int64_t i = 0; i < p->length; i++) {
        const C *from = MST_JOIN(values_, SUFFIX)(x + i * p->stride[0], sizeof(T), n, v);
        for (int64_t c = 0; c < n; c++) top[c] = from[c] > top[c] ? from[c] : top[c];
    }
    for (int64_t c = 0; c < n; c++) top[c] = top[c] - top[c] == 0 ? top[c] : 0;
}

static MST_ALWAYS_INLINE void MST_JOIN(adjacent_exp_, SUFFIX)(const char *x, int64_t n, const C *top, C *v) {
    const C *from = MST_JOIN(values_, SUFFIX)(x, sizeof(T), n, v);
    for (int64_t c = 0; c < n; c++) v[c] = (C)EXP(from[c] - top[c]);
}

/* The sums of exp(x - top), in the scratch memory. Element i of a block is added to lane i % LANES,
 * or behind the last full set of lanes to `part`, which then begins with the sum of the lanes.
 * Writes the exponentials to y unless it is NULL. */
static MST_ALWAYS_INLINE void MST_JOIN(adjacent_sums_, SUFFIX)(const mst_rows_parameters *p, const char *x, int64_t n, char *y,
                                                               int64_t row_stride) {
    double(*lanes)[ADJACENT] = p->work, *part = lanes[LANES], *sums = lanes[SUMS_AT];
    const C *top = (const C *)lanes[TOP_AT];
    C *v = (C *)lanes[VALUES_AT];
    for (int64_t c = 0; c < n; c++) sums[c] = 0;
    for (int64_t begin = 0; begin < p->length; begin += BLOCK) {
        const int64_t rest = p->length - begin, block = rest < BLOCK ? rest : BLOCK, full = block / LANES * LANES;
        for (int64_t l = 0; l < LANES; l++)
            for (int64_t c = 0; c < n; c++) lanes[l][c] = 0;
        for (int64_t c = 0; c < n; c++) part[c] = 0;
        for (int64_t i = 0; i < block; i++) {
            double *to = i < full ? lanes[i % LANES] : part;
            MST_JOIN(adjacent_exp_, SUFFIX)(x + (begin + i) * p->stride[0], n, top, v);
            if (i == full)
                for (int64_t l = 0; l < LANES; l++)
                    for (int64_t c = 0; c < n; c++) part[c] += lanes[l][c];
            for (int64_t c = 0; c < n; c++) to[c] += (double)v[c];
            if (y) MST_JOIN(mst_store_, SUFFIX)(y + (begin + i) * p->stride[1], row_stride, n, v);
        }
        for (int64_t l = 0; l < LANES && full == block; l++)
            for (int64_t c = 0; c < n; c++) part[c] += lanes[l][c];
        for (int64_t c = 0; c < n; c++) sums[c] += part[c];
    }
}

MST_CLONES static void MST_JOIN(adjacent_, SUFFIX)(const mst_rows_parameters *p, const char *x, char *y, int64_t row_stride, int64_t n) {
    const bool keeps = p->op == MST_SOFTMAX && sizeof(T) == sizeof(C);
    double(*work)[ADJACENT] = p->work, *logarithm = work[LOGARITHM_AT];
    const double *sums = work[SUMS_AT];
    C *top = (C *)work[TOP_AT], *factor = (C *)work[FACTOR_AT], *v = (C *)work[VALUES_AT];
    MST_JOIN(adjacent_tops_, SUFFIX)(p, x, n, top);
    MST_JOIN(adjacent_sums_, SUFFIX)(p, x, n, keeps ? y : NULL, row_stride);
    for (int64_t c = 0; c < n && p->op != MST_SOFTMAX; c++) logarithm[c] = log(sums[c]);
    if (p->op == MST_LOGSUMEXP) {
        for (int64_t c = 0; c < n; c++) v[c] = (C)((double)top[c] + logarithm[c]);
        MST_JOIN(mst_store_, SUFFIX)(y, row_stride, n, v);
        return;
    }
    for (int64_t c = 0; c < n; c++) factor[c] = (C)(1 / sums[c]);
    for (int64_t i = 0; i < p->length; i++) {
        const char *from = keeps ? y + i * p->stride[1] : x + i * p->stride[0];
        if (p->op == MST_SOFTMAX && !keeps)
            MST_JOIN(adjacent_exp_, SUFFIX)(from, n, top, v);
        else
            MST_JOIN(mst_load_, SUFFIX)(from, keeps ? row_stride : (int64_t)sizeof(T), n, v);
        if (p->op == MST_SOFTMAX)
            for (int64_t c = 0; c < n; c++) v[c] *= factor[c];
        else
            for (int64_t c = 0; c < n; c++) v[c] = (C)((double)v[c] - (double)top[c] - logarithm[c]);
        MST_JOIN(mst_store_, SUFFIX)(y + i * p->stride[1], row_stride, n, v);
    }
}
