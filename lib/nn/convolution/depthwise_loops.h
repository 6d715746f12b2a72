/* The loops of depthwise.c, once for each dtype: T is the type of an element in memory, C the type
 * to compute in; LOAD and STORE convert. */

#define ALL(g) ((mst_convolution_panel){.count = (g)->y.shape[0] * mst_convolution_volume((g)->y.shape)})

/* ---- along the last axis of the places ---- */

MST_CLONES static void MST_JOIN(depthwise_first_, SUFFIX)(const depthwise_work *w) {
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t between = g->y.strides[MST_CONVOLUTION_DIMS - 1], step = mst_columns_step(g, &g->x);
    C *line = w->line;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &g->x, &run);
        for (int64_t o = 0; o < g->w.shape[0]; o++) {
            const C *weights = (const C *)w->weights + o * w->volume, start = w->bias ? ((const C *)w->bias)[o] : 0;
            for (int64_t i = 0; i < run.length; i++) line[i] = start;
            for (int64_t k = 0; k < w->volume; k++) {
                const mst_columns_spot spot = w->spots[k];
                if (spot.first == spot.end) continue;
                const T *from = (const T *)(const void *)w->call->x + spot.offset + o / w->outputs * g->x.strides[1];
                const C weight = weights[k];
                C *to = line + spot.first;
                if (step == 1) {
                    MST_INDEPENDENT
                    for (int64_t i = 0; i < spot.end - spot.first; i++) to[i] += weight * LOAD(from[i]);
                } else {
                    MST_INDEPENDENT
                    for (int64_t i = 0; i < spot.end - spot.first; i++) to[i] += weight * LOAD(from[i * step]);
                }
            }
            T *y = (T *)(void *)w->call->y + depthwise_offset(&g->y, &run) + o * g->y.strides[1];
            for (int64_t i = 0; i < run.length; i++) y[i * between] = STORE(line[i]);
        }
    }
}

MST_CLONES static void MST_JOIN(depthwise_data_first_, SUFFIX)(const depthwise_work *w) {
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t between = g->y.strides[MST_CONVOLUTION_DIMS - 1], step = mst_columns_step(g, &w->layout);
    C *line = w->line;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &w->layout, &run);
        for (int64_t o = 0; o < g->w.shape[0]; o++) {
            const C *weights = (const C *)w->weights + o * w->volume;
            const T *y = (const T *)(const void *)w->call->y + depthwise_offset(&g->y, &run) + o * g->y.strides[1];
            for (int64_t i = 0; i < run.length; i++) line[i] = LOAD(y[i * between]);
            for (int64_t k = 0; k < w->volume; k++) {
                const mst_columns_spot spot = w->spots[k];
                if (spot.first == spot.end) continue;
                C *to = (C *)w->x + spot.offset + o / w->outputs * w->layout.strides[1];
                const C weight = weights[k], *from = line + spot.first;
                if (step == 1) {
                    MST_INDEPENDENT
                    for (int64_t i = 0; i < spot.end - spot.first; i++) to[i] += weight * from[i];
                } else {
                    for (int64_t i = 0; i < spot.end - spot.first; i++) to[i * step] += weight * from[i];
                }
            }
        }
    }
}

MST_CLONES static void MST_JOIN(depthwise_weights_first_, SUFFIX)(const depthwise_work *w) {
    enum { LANES = 8 }; /* sums beside each other, which are vectorised */
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t between = g->y.strides[MST_CONVOLUTION_DIMS - 1], step = mst_columns_step(g, &g->x);
    C *line = w->line;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &g->x, &run);
        for (int64_t o = 0; o < g->w.shape[0]; o++) {
            const T *y = (const T *)(const void *)w->call->y + depthwise_offset(&g->y, &run) + o * g->y.strides[1];
            for (int64_t i = 0; i < run.length; i++) line[i] = LOAD(y[i * between]);
            for (int64_t k = 0; k < w->volume; k++) {
                const mst_columns_spot spot = w->spots[k];
                if (spot.first == spot.end) continue;
                const T *from = (const T *)(const void *)w->call->x + spot.offset + o / w->outputs * g->x.strides[1];
                const int64_t length = spot.end - spot.first;
                const C *of_y = line + spot.first;
                C lanes[LANES] = {0};
                int64_t i = 0;
                for (; i + LANES <= length; i += LANES)
                    for (int64_t l = 0; l < LANES; l++) lanes[l] += of_y[i + l] * LOAD(from[(i + l) * step]);
                for (; i < length; i++) lanes[i % LANES] += of_y[i] * LOAD(from[i * step]);
                for (int64_t l = 0; l < LANES; l++) w->sums[o * w->volume + k] += (double)lanes[l];
            }
        }
    }
}

/* ---- along the channels ---- */

/* Calls of BODY for each place of the run and each element of the window that lies inside. */
#define EACH_INSIDE(BODY)                                         \
    for (int64_t k = 0; k < w->volume; k++) {                     \
        const mst_columns_spot spot = w->spots[k];                \
        if (i < spot.first || i >= spot.end) continue;            \
        const int64_t at = spot.offset + (i - spot.first) * step; \
        BODY                                                      \
    }

MST_CLONES static void MST_JOIN(depthwise_last_, SUFFIX)(const depthwise_work *w) {
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t outputs = g->w.shape[0], between = g->y.strides[1], step = mst_columns_step(g, &g->x), each = w->outputs;
    C *line = w->line;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &g->x, &run);
        for (int64_t i = 0; i < run.length; i++) {
            for (int64_t o = 0; o < outputs; o++) line[o] = w->bias ? ((const C *)w->bias)[o] : 0;
            EACH_INSIDE({
                const T *from = (const T *)(const void *)w->call->x + at;
                const C *weights = (const C *)w->weights + k * outputs;
                if (each == 1) {
                    MST_INDEPENDENT
                    for (int64_t o = 0; o < outputs; o++) line[o] += weights[o] * LOAD(from[o]);
                } else {
                    for (int64_t o = 0; o < outputs; o++) line[o] += weights[o] * LOAD(from[o / each]);
                }
            })
            T *y = (T *)(void *)w->call->y + depthwise_offset(&g->y, &run) + i * g->y.strides[MST_CONVOLUTION_DIMS - 1];
            for (int64_t o = 0; o < outputs; o++) y[o * between] = STORE(line[o]);
        }
    }
}

MST_CLONES static void MST_JOIN(depthwise_data_last_, SUFFIX)(const depthwise_work *w) {
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t outputs = g->w.shape[0], between = g->y.strides[1], each = w->outputs, apart = w->layout.strides[1],
                  step = mst_columns_step(g, &w->layout);
    C *line = w->line;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &w->layout, &run);
        for (int64_t i = 0; i < run.length; i++) {
            const T *y = (const T *)(const void *)w->call->y + depthwise_offset(&g->y, &run) + i * g->y.strides[MST_CONVOLUTION_DIMS - 1];
            for (int64_t o = 0; o < outputs; o++) line[o] = LOAD(y[o * between]);
            EACH_INSIDE({
                C *to = (C *)w->x + at;
                const C *weights = (const C *)w->weights + k * outputs;
                if (each == 1 && apart == 1) {
                    MST_INDEPENDENT
                    for (int64_t o = 0; o < outputs; o++) to[o] += weights[o] * line[o];
                } else {
                    for (int64_t o = 0; o < outputs; o++) to[o / each * apart] += weights[o] * line[o];
                }
            })
        }
    }
}

/* The sums of a run are summed in C, and these in double. */
MST_CLONES static void MST_JOIN(depthwise_weights_last_, SUFFIX)(const depthwise_work *w) {
    const mst_convolution_geometry *g = w->g;
    const mst_convolution_panel all = ALL(g);
    const int64_t outputs = g->w.shape[0], between = g->y.strides[1], step = mst_columns_step(g, &g->x), each = w->outputs;
    C *line = w->line, *of_run = w->weights;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, &all, &run);) {
        depthwise_spots(w, &g->x, &run);
        memset(of_run, 0, (size_t)(w->volume * outputs) * sizeof *of_run);
        for (int64_t i = 0; i < run.length; i++) {
            const T *y = (const T *)(const void *)w->call->y + depthwise_offset(&g->y, &run) + i * g->y.strides[MST_CONVOLUTION_DIMS - 1];
            for (int64_t o = 0; o < outputs; o++) line[o] = LOAD(y[o * between]);
            EACH_INSIDE({
                const T *from = (const T *)(const void *)w->call->x + at;
                C *to = of_run + k * outputs;
                if (each == 1) {
                    MST_INDEPENDENT
                    for (int64_t o = 0; o < outputs; o++) to[o] += line[o] * LOAD(from[o]);
                } else {
                    for (int64_t o = 0; o < outputs; o++) to[o] += line[o] * LOAD(from[o / each]);
                }
            })
        }
        for (int64_t e = 0; e < w->volume * outputs; e++) w->sums[e] += (double)of_run[e];
    }
}

#undef EACH_INSIDE
#undef ALL
#undef SUFFIX
#undef T
#undef C
#undef LOAD
#undef STORE
