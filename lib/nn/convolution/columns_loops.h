/* The loops of columns.c, once for each dtype: T is the type of an element in memory, C the type to
 * compute in, LOAD converts. With FLOATS they are the same. */

/* Row (c', k) of the columns has the elements of all places. */
MST_CLONES static void MST_JOIN(columns_fill_first_, SUFFIX)(const mst_convolution_call *call, const mst_convolution_panel *panel,
                                                             C *columns) {
    const mst_convolution_geometry *g = &call->geometry;
    const int64_t volume = mst_convolution_volume(g->w.shape), channels = g->w.shape[1], between = g->x.strides[1],
                  step = mst_columns_step(g, &g->x);
    for (mst_places_run run = {.at = 0}; mst_places_next(g, panel, &run);)
        for (int64_t k = 0; k < volume; k++) {
            const mst_columns_spot spot = mst_columns_spot_of(g, &g->x, panel->group, &run, k);
            const int64_t length = spot.end - spot.first;
            for (int64_t c = 0; c < channels; c++) {
                C *to = columns + (c * volume + k) * panel->count + run.at;
                memset(to, 0, (size_t)spot.first * sizeof *to);
                memset(to + spot.end, 0, (size_t)(run.length - spot.end) * sizeof *to);
                if (length == 0) continue; /* x may have no elements, and no address */
                const T *from = (const T *)(const void *)call->x + spot.offset + c * between;
                if (step == 1)
                    for (int64_t i = 0; i < length; i++) to[spot.first + i] = LOAD(from[i]);
                else
                    for (int64_t i = 0; i < length; i++) to[spot.first + i] = LOAD(from[i * step]);
            }
        }
}

/* The elements of one place lie behind each other, in the order (k, c'). */
MST_CLONES static void MST_JOIN(columns_fill_last_, SUFFIX)(const mst_convolution_call *call, const mst_convolution_panel *panel,
                                                            C *columns) {
    const mst_convolution_geometry *g = &call->geometry;
    const int64_t volume = mst_convolution_volume(g->w.shape), channels = g->w.shape[1], between = g->x.strides[1],
                  step = mst_columns_step(g, &g->x);
    for (mst_places_run run = {.at = 0}; mst_places_next(g, panel, &run);)
        for (int64_t k = 0; k < volume; k++) {
            const mst_columns_spot spot = mst_columns_spot_of(g, &g->x, panel->group, &run, k);
            for (int64_t i = 0; i < run.length; i++) {
                C *to = columns + ((run.at + i) * volume + k) * channels;
                if (i < spot.first || i >= spot.end) {
                    memset(to, 0, (size_t)channels * sizeof *to);
                    continue;
                }
                const T *from = (const T *)(const void *)call->x + spot.offset + (i - spot.first) * step;
                if (between == 1)
                    for (int64_t c = 0; c < channels; c++) to[c] = LOAD(from[c]);
                else
                    for (int64_t c = 0; c < channels; c++) to[c] = LOAD(from[c * between]);
            }
        }
}

#ifdef FLOATS
MST_CLONES static void MST_JOIN(columns_add_first_, SUFFIX)(const mst_convolution_geometry *g, const mst_convolution_panel *panel,
                                                            const T *columns, const mst_convolution_layout *x, T *to_x) {
    const int64_t volume = mst_convolution_volume(g->w.shape), channels = g->w.shape[1], between = x->strides[1],
                  step = mst_columns_step(g, x);
    for (mst_places_run run = {.at = 0}; mst_places_next(g, panel, &run);)
        for (int64_t k = 0; k < volume; k++) {
            const mst_columns_spot spot = mst_columns_spot_of(g, x, panel->group, &run, k);
            const int64_t length = spot.end - spot.first;
            for (int64_t c = 0; c < channels; c++) {
                const T *from = columns + (c * volume + k) * panel->count + run.at + spot.first;
                T *to = to_x + spot.offset + c * between;
                if (step == 1) {
                    MST_INDEPENDENT
                    for (int64_t i = 0; i < length; i++) to[i] += from[i];
                } else {
                    for (int64_t i = 0; i < length; i++) to[i * step] += from[i];
                }
            }
        }
}

MST_CLONES static void MST_JOIN(columns_add_last_, SUFFIX)(const mst_convolution_geometry *g, const mst_convolution_panel *panel,
                                                           const T *columns, const mst_convolution_layout *x, T *to_x) {
    const int64_t volume = mst_convolution_volume(g->w.shape), channels = g->w.shape[1], between = x->strides[1],
                  step = mst_columns_step(g, x);
    for (mst_places_run run = {.at = 0}; mst_places_next(g, panel, &run);)
        for (int64_t k = 0; k < volume; k++) {
            const mst_columns_spot spot = mst_columns_spot_of(g, x, panel->group, &run, k);
            for (int64_t i = spot.first; i < spot.end; i++) {
                const T *from = columns + ((run.at + i) * volume + k) * channels;
                T *to = to_x + spot.offset + (i - spot.first) * step;
                if (between == 1) {
                    MST_INDEPENDENT
                    for (int64_t c = 0; c < channels; c++) to[c] += from[c];
                } else {
                    for (int64_t c = 0; c < channels; c++) to[c * between] += from[c];
                }
            }
        }
}
#endif

#undef SUFFIX
#undef T
#undef C
#undef LOAD
