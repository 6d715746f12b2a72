/* The loops of host.c that take one element of the windows after the other, and those of
 * pooling_rows_loops.h, once for each dtype: T is the type of an element in memory, C the type to
 * compute in, K an integer of its size, which numbers the elements of a window; LOAD and STORE
 * convert. */
#include "pooling_rows_loops.h"

MST_CLONES static void MST_JOIN(pooling_max_, SUFFIX)(const pooling_work *w) {
    const int64_t step = w->step_x;
    C largest[LINE];
    for (pooling_line line = {.length = 0}; pooling_next(w, &line);) {
        T *y = (T *)(void *)w->p->at_y + line.y;
        for (int64_t i = 0; i < line.length; i++) largest[i] = (C)-INFINITY;
        if (w->rows)
            MST_JOIN(pooling_rows_max_, SUFFIX)(w, &line, largest);
        else
            POOLING_EACH(w, line, k, at, span) {
                const T *x = (const T *)(const void *)w->at_x + line.x + at + span.first * step;
                C *result = largest + span.first;
                const int64_t count = span.end - span.first;
#define LOOP(step)                                        \
    MST_INDEPENDENT                                       \
    for (int64_t i = 0; i < count; i++) {                 \
        const C v = LOAD(x[i * (step)]), old = result[i]; \
        result[i] = v > old || v != v ? v : old;          \
    }
                POOLING_STEPS(step, LOOP);
#undef LOOP
            }
        for (int64_t i = 0; i < line.length; i++) y[i * w->step_y] = STORE(largest[i]);
    }
}

/* which[i] = the number of the first of the largest elements of place i; -1: it has none. */
MST_CLONES static void MST_JOIN(pooling_which_, SUFFIX)(const pooling_work *w, const pooling_line *line, K *which) {
    const int64_t step = w->step_x;
    C largest[LINE];
    for (int64_t i = 0; i < line->length; i++) {
        largest[i] = 0;
        which[i] = -1;
    }
    POOLING_EACH(w, *line, k, at, span) {
        const T *x = (const T *)(const void *)w->at_x + line->x + at + span.first * step;
        C *result = largest + span.first;
        K *number = which + span.first;
        const int64_t count = span.end - span.first;
#define LOOP(step)                                                                   \
    MST_INDEPENDENT                                                                  \
    for (int64_t i = 0; i < count; i++) {                                            \
        const C v = LOAD(x[i * (step)]), old = result[i];                            \
        const bool larger = (v > old) | (number[i] < 0) | ((v != v) & (old == old)); \
        result[i] = larger ? v : old;                                                \
        number[i] = larger ? (K)k : number[i];                                       \
    }
        POOLING_STEPS(step, LOOP);
#undef LOOP
    }
}

static void MST_JOIN(pooling_take_, SUFFIX)(const pooling_work *w) {
    K which[LINE];
    for (pooling_line line = {.length = 0}; pooling_next(w, &line);) {
        const T *z = (const T *)(const void *)w->at_z;
        T *y = (T *)(void *)w->p->at_y + line.y;
        (w->rows ? MST_JOIN(pooling_rows_which_, SUFFIX) : MST_JOIN(pooling_which_, SUFFIX))(w, &line, which);
        for (int64_t i = 0; i < line.length; i++) y[i * w->step_y] = which[i] < 0 ? 0 : z[line.z + w->offsets[which[i]] + i * w->step_z];
    }
}

static void MST_JOIN(pooling_max_gradient_, SUFFIX)(const pooling_work *w) {
    K which[LINE];
    for (pooling_line line = {.length = 0}; pooling_next(w, &line);) {
        C *dx = (C *)(void *)w->at_z;
        const T *dy = (const T *)(const void *)w->p->at_y + line.y;
        (w->rows ? MST_JOIN(pooling_rows_which_, SUFFIX) : MST_JOIN(pooling_which_, SUFFIX))(w, &line, which);
        for (int64_t i = 0; i < line.length; i++)
            if (which[i] >= 0) dx[line.z + w->offsets[which[i]] + i * w->step_z] += LOAD(dy[i * w->step_y]);
    }
}

/* Divides the places of a line by what the average counts. */
MST_CLONES static void MST_JOIN(pooling_divide_, SUFFIX)(const pooling_work *w, const pooling_line *line, C *sums) {
    const double *counts = w->axis == LAST ? w->counts[MST_POOLING_AXES - 1] + line->place[LAST] : NULL;
    const double count = line->count;
    if (!w->p->divides) return;
    if (counts)
        for (int64_t i = 0; i < line->length; i++) sums[i] /= (C)(count * counts[i]);
    else
        for (int64_t i = 0; i < line->length; i++) sums[i] /= (C)count;
}

MST_CLONES static void MST_JOIN(pooling_sum_, SUFFIX)(const pooling_work *w) {
    const int64_t step = w->step_x;
    C sums[LINE];
    for (pooling_line line = {.length = 0}; pooling_next(w, &line);) {
        T *y = (T *)(void *)w->p->at_y + line.y;
        for (int64_t i = 0; i < line.length; i++) sums[i] = 0;
        if (w->rows)
            MST_JOIN(pooling_rows_sum_, SUFFIX)(w, &line, sums);
        else
            POOLING_EACH(w, line, k, at, span) {
                const T *x = (const T *)(const void *)w->at_x + line.x + at + span.first * step;
                C *result = sums + span.first;
                const int64_t count = span.end - span.first;
#define LOOP(step)  \
    MST_INDEPENDENT \
    for (int64_t i = 0; i < count; i++) result[i] += LOAD(x[i * (step)]);
                POOLING_STEPS(step, LOOP);
#undef LOOP
            }
        MST_JOIN(pooling_divide_, SUFFIX)(w, &line, sums);
        for (int64_t i = 0; i < line.length; i++) y[i * w->step_y] = STORE(sums[i]);
    }
}

MST_CLONES static void MST_JOIN(pooling_sum_gradient_, SUFFIX)(const pooling_work *w) {
    const int64_t step = w->step_x;
    C parts[LINE];
    for (pooling_line line = {.length = 0}; pooling_next(w, &line);) {
        const T *dy = (const T *)(const void *)w->p->at_y + line.y;
        for (int64_t i = 0; i < line.length; i++) parts[i] = LOAD(dy[i * w->step_y]);
        MST_JOIN(pooling_divide_, SUFFIX)(w, &line, parts);
        if (w->rows)
            MST_JOIN(pooling_rows_sum_gradient_, SUFFIX)(w, &line, parts);
        else
            POOLING_EACH(w, line, k, at, span) {
                C *dx = (C *)(void *)w->at_x + line.x + at + span.first * step;
                const C *from = parts + span.first;
                const int64_t count = span.end - span.first;
#define LOOP(step)  \
    MST_INDEPENDENT \
    for (int64_t i = 0; i < count; i++) dx[i * (step)] += from[i];
                POOLING_STEPS(step, LOOP);
#undef LOOP
            }
    }
}

#undef SUFFIX
#undef T
#undef C
#undef K
#undef LOAD
#undef STORE
