/* What is done to a tile of scores, for one type T; SUFFIX ends the names, and EXP is the
 * exponential function of numbers up to 0. Sums go in lanes, for the compiler to vectorise them. */

static MST_ALWAYS_INLINE T MST_JOIN(tile_largest_, SUFFIX)(const T *row, int64_t n, T top) {
    T lanes[LANES];
    int64_t i = 0;
    for (int64_t l = 0; l < LANES; l++) lanes[l] = top;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) lanes[l] = row[i + l] > lanes[l] ? row[i + l] : lanes[l];
    for (; i < n; i++) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) lanes[l] = lanes[l + half] > lanes[l] ? lanes[l + half] : lanes[l];
    return lanes[0];
}

static MST_ALWAYS_INLINE T MST_JOIN(tile_total_, SUFFIX)(const T *row, int64_t n) {
    T lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) lanes[l] += row[i + l];
    for (; i < n; i++) lanes[0] += row[i];
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

/* What is subtracted from scores: 0 where all are -inf, which then stay so. */
static MST_ALWAYS_INLINE T MST_JOIN(tile_bounded_, SUFFIX)(T top) { return top == -(T)INFINITY ? 0 : top; }

static MST_ALWAYS_INLINE void MST_JOIN(tile_add_mask_, SUFFIX)(const mst_attention_tile *tile, int64_t r, int64_t n) {
    T *row = (T *)(void *)tile->scores + r * tile->keys;
    const T *mask = (const T *)(const void *)tile->mask + r * tile->keys;
    MST_INDEPENDENT
    for (int64_t j = 0; j < n; j++) row[j] += mask[j];
}

MST_CLONES static void MST_JOIN(tile_forward_, SUFFIX)(const mst_attention_tile *tile, const mst_attention_rows *rows, bool first) {
    T *top = (T *)(void *)rows->top;
    for (int64_t r = 0; r < tile->rows; r++) {
        T *row = (T *)(void *)tile->scores + r * tile->keys, *y = (T *)(void *)rows->y + r * rows->values;
        const int64_t n = mst_attention_seen(tile, r);
        if (tile->mask) MST_JOIN(tile_add_mask_, SUFFIX)(tile, r, n);
        const T largest = MST_JOIN(tile_largest_, SUFFIX)(row, n, top[r]), subtracted = MST_JOIN(tile_bounded_, SUFFIX)(largest);
        for (int64_t j = 0; j < n; j++) row[j] = EXP(row[j] - subtracted);
        for (int64_t j = n; j < tile->keys; j++) row[j] = 0;
        const T factor = EXP(top[r] - subtracted);
        rows->sum[r] = rows->sum[r] * (double)factor + (double)MST_JOIN(tile_total_, SUFFIX)(row, n);
        top[r] = largest;
        if (first || factor == 1) continue;
        for (int64_t c = 0; c < rows->values; c++) y[c] *= factor;
    }
}

MST_CLONES static void MST_JOIN(tile_finish_, SUFFIX)(int64_t count, const mst_attention_rows *rows, char *lse, char *rest) {
    for (int64_t r = 0; r < count; r++) {
        T *y = (T *)(void *)rows->y + r * rows->values;
        const double sum = rows->sum[r], top = (double)((const T *)(const void *)rows->top)[r], more = log(sum);
        const T factor = (T)(1 / sum), rounded = (T)(top + more);
        ((T *)(void *)lse)[r] = rounded;
        ((T *)(void *)rest)[r] = sum == 0 ? 0 : (T)(top - (double)rounded + more);
        if (sum == 0)
            for (int64_t c = 0; c < rows->values; c++) y[c] = 0;
        else
            for (int64_t c = 0; c < rows->values; c++) y[c] *= factor;
    }
}

/* lse alone does not do: at a score of -1e9 it has no place for log(sum). No p is larger than 1,
 * whatever a score has lost to rounding. */
MST_CLONES static void MST_JOIN(tile_again_, SUFFIX)(const mst_attention_tile *tile, const char *lse, const char *rest) {
    for (int64_t r = 0; r < tile->rows; r++) {
        T *row = (T *)(void *)tile->scores + r * tile->keys;
        const T subtracted = MST_JOIN(tile_bounded_, SUFFIX)(((const T *)(const void *)lse)[r]), less = ((const T *)(const void *)rest)[r];
        const int64_t n = mst_attention_seen(tile, r);
        if (tile->mask) MST_JOIN(tile_add_mask_, SUFFIX)(tile, r, n);
        for (int64_t j = 0; j < n; j++) {
            const T x = (row[j] - subtracted) - less;
            row[j] = EXP(x > 0 ? 0 : x);
        }
        for (int64_t j = n; j < tile->keys; j++) row[j] = 0;
    }
}

MST_CLONES static void MST_JOIN(tile_gradient_, SUFFIX)(const mst_attention_tile *tile, const char *dp, const char *inner) {
    for (int64_t r = 0; r < tile->rows; r++) {
        T *row = (T *)(void *)tile->scores + r * tile->keys;
        const T *from = (const T *)(const void *)dp + r * tile->keys, less = ((const T *)(const void *)inner)[r];
        const int64_t n = mst_attention_seen(tile, r);
        MST_INDEPENDENT
        for (int64_t j = 0; j < n; j++) row[j] *= from[j] - less;
        for (int64_t j = n; j < tile->keys; j++) row[j] = 0; /* dp may be infinite there */
    }
}

/* A row or a column of `to` may stand for all. */
MST_CLONES static void MST_JOIN(tile_add_, SUFFIX)(const mst_attention_tile *tile, T *to, int64_t row, int64_t column) {
    for (int64_t r = 0; r < tile->rows; r++) {
        const T *from = (const T *)(const void *)tile->scores + r * tile->keys;
        T *sums = to + r * row;
        const int64_t n = mst_attention_seen(tile, r);
        if (column == 0) {
            *sums += MST_JOIN(tile_total_, SUFFIX)(from, n);
        } else if (column == 1) {
            MST_INDEPENDENT
            for (int64_t j = 0; j < n; j++) sums[j] += from[j];
        } else {
            for (int64_t j = 0; j < n; j++) sums[j * column] += from[j];
        }
    }
}

MST_CLONES static void MST_JOIN(tile_inner_, SUFFIX)(int64_t rows, int64_t columns, const T *x, const T *y, T *inner) {
    for (int64_t r = 0; r < rows; r++) {
        T lanes[LANES] = {0};
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES)
            for (int64_t l = 0; l < LANES; l++) lanes[l] += x[r * columns + c + l] * y[r * columns + c + l];
        for (; c < columns; c++) lanes[0] += x[r * columns + c] * y[r * columns + c];
        inner[r] = MST_JOIN(tile_total_, SUFFIX)(lanes, LANES);
    }
}

MST_CLONES static bool MST_JOIN(tile_is_finite_, SUFFIX)(int64_t rows, int64_t row, int64_t columns, int64_t column, const T *values) {
    int32_t others = 0;
    for (int64_t r = 0; r < rows; r++) {
        const T *at = values + r * row;
        if (column == 1)
            for (int64_t c = 0; c < columns; c++) others |= !(at[c] - at[c] == 0);
        else
            for (int64_t c = 0; c < columns; c++) others |= !(at[c * column] - at[c * column] == 0);
    }
    return !others;
}

MST_CLONES static void MST_JOIN(tile_scale_, SUFFIX)(int64_t count, T factor, T *values) {
    for (int64_t i = 0; i < count; i++) values[i] *= factor;
}
