/* Lines along the last axis, for the dtype of pooling_loops.h, which includes this. The rows of
 * all windows of a line are combined first, column by column, then the columns of each window: so
 * all loops go over elements that lie behind each other, whatever the stride of the window is. */

#define EACH_ROW(w, line)                                                     \
    for (int64_t a = (line)->inside[0].first; a < (line)->inside[0].end; a++) \
        for (int64_t b = (line)->inside[1].first; b < (line)->inside[1].end; b++)

MST_CLONES static void MST_JOIN(pooling_rows_max_, SUFFIX)(const pooling_work *w, const pooling_line *line, C *largest) {
    const int64_t step = w->x->strides[LAST], last = pooling_last_window(w, line), stride = w->p->stride[2];
    const pooling_span columns = pooling_columns(w, line);
    C column[COLUMNS], window[COLUMNS];
    for (int64_t i = 0; i < last + w->span; i++) column[i] = (C)-INFINITY;
    EACH_ROW(w, line) {
        const T *x = (const T *)(const void *)w->at_x + line->x + pooling_offset(w, a, b, 0);
#define LOOP(step)                                          \
    MST_INDEPENDENT                                         \
    for (int64_t i = columns.first; i < columns.end; i++) { \
        const C v = LOAD(x[i * (step)]), old = column[i];   \
        column[i] = v > old || v != v ? v : old;            \
    }
        POOLING_STEPS(step, LOOP);
#undef LOOP
    }
    for (int64_t i = 0; i < last + 1; i++) window[i] = column[i];
    for (int64_t c = 1; c < w->p->size[2]; c++) {
        const C *from = column + c * w->p->dilation[2];
        for (int64_t i = 0; i < last + 1; i++) {
            const C v = from[i], old = window[i];
            window[i] = v > old || v != v ? v : old;
        }
    }
    for (int64_t i = 0; i < line->length; i++) largest[i] = window[i * stride];
}

/* Of a column the first row counts that has the largest element, and of a window the column whose
 * element comes first in it. */
MST_CLONES static void MST_JOIN(pooling_rows_which_, SUFFIX)(const pooling_work *w, const pooling_line *line, K *which) {
    const int64_t step = w->x->strides[LAST], last = pooling_last_window(w, line), stride = w->p->stride[2];
    const pooling_span columns = pooling_columns(w, line);
    const K none = sizeof(K) == sizeof(int32_t) ? (K)INT32_MAX : (K)INT64_MAX;
    C column[COLUMNS], window[COLUMNS];
    K of_column[COLUMNS], of_window[COLUMNS];
    for (int64_t i = 0; i < last + w->span; i++) {
        column[i] = (C)-INFINITY;
        of_column[i] = none;
    }
    EACH_ROW(w, line) {
        const T *x = (const T *)(const void *)w->at_x + line->x + pooling_offset(w, a, b, 0);
        const K k = (K)((a * w->p->size[1] + b) * w->p->size[2]);
#define LOOP(step)                                                                          \
    MST_INDEPENDENT                                                                         \
    for (int64_t i = columns.first; i < columns.end; i++) {                                 \
        const C v = LOAD(x[i * (step)]), old = column[i];                                   \
        const bool larger = (v > old) | ((v != v) & (old == old)) | (of_column[i] == none); \
        column[i] = larger ? v : old;                                                       \
        of_column[i] = larger ? k : of_column[i];                                           \
    }
        POOLING_STEPS(step, LOOP);
#undef LOOP
    }
    for (int64_t i = 0; i < last + 1; i++) {
        window[i] = column[i];
        of_window[i] = of_column[i];
    }
    for (K c = 1; c < (K)w->p->size[2]; c++) {
        const C *from = column + (int64_t)c * w->p->dilation[2];
        const K *of_from = of_column + (int64_t)c * w->p->dilation[2];
        for (int64_t i = 0; i < last + 1; i++) {
            const C v = from[i], old = window[i];
            const K k = of_from[i] == none ? none : of_from[i] + c;
            const bool equal = (v == old) | ((v != v) & (old != old));
            const bool larger = (v > old) | ((v != v) & (old == old)) | (equal & (k < of_window[i]));
            window[i] = larger ? v : old;
            of_window[i] = larger ? k : of_window[i];
        }
    }
    for (int64_t i = 0; i < line->length; i++) which[i] = of_window[i * stride] == none ? -1 : of_window[i * stride];
}

MST_CLONES static void MST_JOIN(pooling_rows_sum_, SUFFIX)(const pooling_work *w, const pooling_line *line, C *sums) {
    const int64_t step = w->x->strides[LAST], last = pooling_last_window(w, line), stride = w->p->stride[2];
    const pooling_span columns = pooling_columns(w, line);
    C column[COLUMNS], window[COLUMNS];
    for (int64_t i = 0; i < last + w->span; i++) column[i] = 0;
    EACH_ROW(w, line) {
        const T *x = (const T *)(const void *)w->at_x + line->x + pooling_offset(w, a, b, 0);
#define LOOP(step)  \
    MST_INDEPENDENT \
    for (int64_t i = columns.first; i < columns.end; i++) column[i] += LOAD(x[i * (step)]);
        POOLING_STEPS(step, LOOP);
#undef LOOP
    }
    for (int64_t i = 0; i < last + 1; i++) window[i] = column[i];
    for (int64_t c = 1; c < w->p->size[2]; c++)
        for (int64_t i = 0; i < last + 1; i++) window[i] += column[i + c * w->p->dilation[2]];
    for (int64_t i = 0; i < line->length; i++) sums[i] = window[i * stride];
}

/* The other way round. */
MST_CLONES static void MST_JOIN(pooling_rows_sum_gradient_, SUFFIX)(const pooling_work *w, const pooling_line *line, const C *parts) {
    const int64_t step = w->x->strides[LAST], last = pooling_last_window(w, line), stride = w->p->stride[2];
    const pooling_span columns = pooling_columns(w, line);
    C column[COLUMNS], window[COLUMNS];
    for (int64_t i = 0; i < last + w->span; i++) column[i] = 0;
    for (int64_t i = 0; i < last + 1; i++) window[i] = 0;
    for (int64_t i = 0; i < line->length; i++) window[i * stride] = parts[i];
    for (int64_t c = 0; c < w->p->size[2]; c++)
        for (int64_t i = 0; i < last + 1; i++) column[i + c * w->p->dilation[2]] += window[i];
    EACH_ROW(w, line) {
        C *dx = (C *)(void *)w->at_x + line->x + pooling_offset(w, a, b, 0);
#define LOOP(step)  \
    MST_INDEPENDENT \
    for (int64_t i = columns.first; i < columns.end; i++) dx[i * (step)] += column[i];
        POOLING_STEPS(step, LOOP);
#undef LOOP
    }
}
#undef EACH_ROW
