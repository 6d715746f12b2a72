/* The loops of wide sums for one float dtype; see each_float_loops.h. The sums of a row of y lie in
 * doubles one behind the other. */

/* Loops of an iterator, for rows of any layout: at[0] is y or x, at[1] the sums. sums = y */
MST_CLONES static void MST_JOIN(begin_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(double)) {
        double *sums = (double *)(void *)at[1];
        const T *y = (const T *)(void *)at[0];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) sums[i] = (double)LOAD(y[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) *(double *)(void *)(at[1] + i * stride[1]) = (double)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
}

/* Floats, at at[1], = x. */
MST_CLONES static void MST_JOIN(read_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    float *values = (float *)(void *)at[1];
    (void)context;
    if (stride[0] == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) values[i] = (float)LOAD(((const T *)(void *)at[0])[i]);
    else
        for (int64_t i = 0; i < n; i++) values[i] = (float)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
}

/* sums += x */
static void MST_JOIN(add_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) *(double *)(void *)(at[1] + i * stride[1]) += (double)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
}

/* y = sums */
MST_CLONES static void MST_JOIN(end_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(double)) {
        const double *sums = (const double *)(const void *)at[1];
        T *y = (T *)(void *)at[0];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) y[i] = (T)STORE((C)sums[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *(T *)(void *)(at[0] + i * stride[0]) = (T)STORE((C) * (const double *)(const void *)(at[1] + i * stride[1]));
}

/* The sums of contiguous rows += some rows of x. */
static MST_ALWAYS_INLINE void MST_JOIN(add_rows_of_, SUFFIX)(const mst_wide_sums *w, const wide_parts *parts, int64_t elements) {
    for (int64_t k = 0; k < parts->n; k++) {
        const int64_t row = parts->rows[k];
        if (row < 0) continue;
        double *sums = w->sums + row * elements;
        const T *x = (const T *)(const void *)(parts->x + (parts->places ? parts->places[k] : k) * parts->stride);
        if (!w->touched[row]) {
            const T *y = (const T *)(const void *)(w->y + row * w->stride);
            MST_INDEPENDENT
            for (int64_t c = 0; c < elements; c++) sums[c] = (double)LOAD(y[c]);
            w->touched[row] = 1;
        }
        MST_INDEPENDENT
        for (int64_t c = 0; c < elements; c++) sums[c] += (double)LOAD(x[c]);
    }
}

/* Short rows of usual sizes need no inner loop. */
MST_CLONES static void MST_JOIN(add_rows_, SUFFIX)(const mst_wide_sums *w, const wide_parts *parts) {
    if (w->elements == 2)
        MST_JOIN(add_rows_of_, SUFFIX)(w, parts, 2);
    else if (w->elements == 4)
        MST_JOIN(add_rows_of_, SUFFIX)(w, parts, 4);
    else if (w->elements == 8)
        MST_JOIN(add_rows_of_, SUFFIX)(w, parts, 8);
    else if (w->elements == 16)
        MST_JOIN(add_rows_of_, SUFFIX)(w, parts, 16);
    else
        MST_JOIN(add_rows_of_, SUFFIX)(w, parts, w->elements);
}

/* The same for rows of one element, whose sums have begun. */
static void MST_JOIN(add_ones_, SUFFIX)(const mst_wide_sums *w, const wide_parts *parts) {
    double *sums = w->sums;
    if (parts->stride == (int64_t)sizeof(T) && parts->all)
        for (int64_t k = 0; k < parts->n; k++) sums[parts->rows[k]] += (double)LOAD(((const T *)(const void *)parts->x)[k]);
    else
        for (int64_t k = 0; k < parts->n; k++)
            if (parts->rows[k] >= 0) sums[parts->rows[k]] += (double)LOAD(*(const T *)(const void *)(parts->x + k * parts->stride));
}

/* Adds up a contiguous x by contiguous i32 indices. These are used as they are, without a list of
 * places. */
static void MST_JOIN(add_ones_i32_, SUFFIX)(const mst_wide_sums *w, const char *x, const int32_t *rows, int64_t n) {
    double *sums = w->sums;
    for (int64_t k = 0; k < n; k++) sums[rows[k]] += (double)LOAD(((const T *)(const void *)x)[k]);
}

/* The rows with indices begin, or end: without looking which have done so before. */
static void MST_JOIN(begin_ones_, SUFFIX)(const mst_wide_sums *w, const wide_parts *parts) {
    for (int64_t k = 0; k < parts->n; k++)
        if (parts->rows[k] >= 0) w->sums[parts->rows[k]] = (double)LOAD(*(const T *)(const void *)(w->y + parts->rows[k] * w->stride));
}

static void MST_JOIN(end_ones_, SUFFIX)(const mst_wide_sums *w, const wide_parts *parts) {
    for (int64_t k = 0; k < parts->n; k++)
        if (parts->rows[k] >= 0) *(T *)(void *)(w->y + parts->rows[k] * w->stride) = (T)STORE((C)w->sums[parts->rows[k]]);
}

/* All rows of the bucket end. One without an index has its own value as the sum, so it keeps its
 * bits; so does NaN, to which nothing can be added. */
MST_CLONES static void MST_JOIN(end_all_ones_, SUFFIX)(const mst_wide_sums *w, int64_t rows) {
    const double *sums = w->sums;
    if (w->stride == (int64_t)sizeof(T)) {
        T *y = (T *)(void *)w->y;
        MST_INDEPENDENT
        for (int64_t row = 0; row < rows; row++) {
            const C before = (C)LOAD(y[row]);
            y[row] = before != before ? y[row] : (T)STORE((C)sums[row]);
        }
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        T *y = (T *)(void *)(w->y + row * w->stride);
        const C before = (C)LOAD(*y);
        if (before == before) *y = (T)STORE((C)sums[row]);
    }
}
