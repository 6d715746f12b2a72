/* Convolutions on a CPU core as products of matrices, for each group and for panels of places: the
 * weights (o, k) times the columns (k, places) are y. The columns of a panel fit into the cache
 * near the core, unless so few places would be left that packing the weights for each product costs
 * more than the product. */
#include "own_private.h"

#include <string.h>

enum { PANEL_BYTES = 256 << 10, PANEL_PLACES = 256 };

/* Elements at places of x or y that a product reads or writes where they are: place p of image n at
 * n * strides[0] + p * place. */
typedef struct host_places {
    bool direct;
    bool crosses; /* the next image follows as if it were the next place */
    int64_t place;
} host_places;

typedef struct host_work {
    const mst_convolution_call *call;
    const mst_convolution_geometry *g;
    muster_dtype computed;
    int64_t size;                        /* bytes of an element of it */
    int64_t places, total;               /* of an image; of all */
    int64_t channels, outputs, k;        /* of a group: channels of x and y, rows of the columns */
    host_places x, y;                    /* x: its elements are its columns */
    bool last, tile_last;                /* the layouts of columns and tiles */
    int64_t panel;                       /* places of one */
    bool whole_images;                   /* no panel reaches into another image */
    mst_matrix weights;                  /* (o, k) */
    char *columns, *tile, *image, *bias; /* scratch memory, or NULL */
} host_work;

/* ---- what is used where it is ---- */

/* Do the axes of the extents, and then the images, lie behind each other? */
static bool host_collapse(const mst_convolution_layout *layout, host_places *p) {
    int64_t next = 0;
    for (int32_t d = MST_CONVOLUTION_DIMS - 1; d >= 2; d--) {
        if (layout->shape[d] == 1) continue;
        if (!next)
            p->place = layout->strides[d];
        else if (layout->strides[d] != next)
            return false;
        next = layout->strides[d] * layout->shape[d];
        if (!next) return false;
    }
    if (!next) p->place = layout->shape[0] == 1 ? 1 : layout->strides[0];
    p->crosses = layout->shape[0] == 1 || !next || layout->strides[0] == next;
    return p->place > 0;
}

static void host_find_direct(const host_work *h, const mst_convolution_layout *layout, host_places *p) {
    *p = (host_places){.direct = false};
    if (h->g->dtype != (int32_t)h->computed || !host_collapse(layout, p)) return;
    if (layout->strides[1] < 1 || (p->place != 1 && layout->strides[1] != 1)) return;
    p->direct = p->crosses || h->places >= PANEL_PLACES;
}

/* Does the window have one element, which stands at each element of x once? */
static bool host_is_pointwise(const mst_convolution_geometry *g) {
    bool pointwise = mst_convolution_volume(g->w.shape) == 1;
    for (int32_t d = 0; d < MST_CONVOLUTION_AXES; d++)
        pointwise = pointwise && g->before[d] == 0 && g->stride[d] == 1 && g->x.shape[2 + d] == g->y.shape[2 + d];
    return pointwise;
}

/* Are the weights a matrix (o, k) with rows behind each other, in the order of the columns? */
static bool host_weights_are_matrix(const host_work *h) {
    static const int32_t first[] = {4, 3, 2, 1}, last[] = {1, 4, 3, 2};
    const mst_convolution_layout *w = &h->g->w;
    int64_t next = 1;
    for (int32_t i = 0; i < MST_CONVOLUTION_DIMS - 1; i++) {
        const int32_t d = h->last ? last[i] : first[i];
        if (w->shape[d] != 1 && w->strides[d] != next) return false;
        next *= w->shape[d];
    }
    return h->g->dtype == (int32_t)h->computed && w->strides[0] >= next;
}

static mst_matrix host_places_matrix(const host_work *h, const mst_convolution_layout *layout, const host_places *p, char *data,
                                     int64_t first, int64_t channel) {
    const int64_t image = p->crosses ? 0 : first / h->places;
    const int64_t offset = image * layout->strides[0] + (first - image * h->places) * p->place + channel * layout->strides[1];
    return (mst_matrix){.data = data + offset * h->size, .rows = layout->strides[1], .columns = p->place};
}

/* ---- preparing ---- */

static void host_plan(host_work *h, const mst_convolution_call *call) {
    const mst_convolution_geometry *g = &call->geometry;
    *h = (host_work){.call = call, .g = g, .computed = mst_convolution_computed(g), .size = muster_dtype_size(mst_convolution_computed(g))};
    h->places = mst_convolution_volume(g->y.shape);
    h->total = g->y.shape[0] * h->places;
    h->channels = g->w.shape[1];
    h->outputs = g->w.shape[0] / g->groups;
    h->k = h->channels * mst_convolution_volume(g->w.shape);
    h->last = h->channels > 1 && g->x.strides[1] == 1;
    h->tile_last = g->y.strides[1] == 1;
    host_find_direct(h, &g->y, &h->y);
    if (host_is_pointwise(g)) host_find_direct(h, &g->x, &h->x);
    const bool sums_apart = g->kind == MST_CONVOLUTION_DATA && g->dtype != (int32_t)h->computed; /* image by image */
    h->whole_images = sums_apart || (h->y.direct && !h->y.crosses) || (h->x.direct && !h->x.crosses);
    h->panel = h->total;
    if (h->x.direct && h->y.direct) return;
    const int64_t wide = h->k > h->outputs || h->y.direct ? h->k : h->outputs, fit = PANEL_BYTES / (h->size * (wide ? wide : 1));
    if (h->panel > fit) h->panel = fit > PANEL_PLACES ? fit : PANEL_PLACES;
    if (h->panel > h->total) h->panel = h->total;
}

static muster_status host_scratch(const host_work *h, muster_worker *worker, int64_t elements, char **memory) {
    void *address;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, elements * h->size, &address));
    *memory = address;
    return MUSTER_OK;
}

static muster_status host_prepare(host_work *h, muster_worker *worker) {
    const mst_convolution_geometry *g = h->g;
    if (!h->x.direct) MUSTER_TRY(host_scratch(h, worker, h->k * h->panel, &h->columns));
    if (!h->y.direct) MUSTER_TRY(host_scratch(h, worker, h->outputs * h->panel, &h->tile));
    if (h->call->bias) {
        const muster_tensor bias = {.data = h->call->bias,
                                    .device = MUSTER_DEVICE_HOST,
                                    .dtype = g->dtype,
                                    .ndim = 1,
                                    .shape = {g->w.shape[0]},
                                    .strides = {g->bias_stride}};
        MUSTER_TRY(host_scratch(h, worker, g->w.shape[0], &h->bias));
        const muster_tensor wide = muster_tensor_make(h->computed, h->bias, 1, g->w.shape);
        mst_copy_host(&bias, &wide);
    }
    h->weights = (mst_matrix){.data = h->call->w, .rows = g->w.strides[0], .columns = 1};
    if (host_weights_are_matrix(h)) return MUSTER_OK;
    h->weights.rows = h->k;
    MUSTER_TRY(host_scratch(h, worker, g->w.shape[0] * h->k, &h->weights.data));
    if (g->kind != MST_CONVOLUTION_WEIGHTS) mst_weights_read(h->call, h->last, h->weights.data);
    return MUSTER_OK;
}

/* ---- the operands of the product of a panel ---- */

static int64_t host_count(const host_work *h, int64_t first) {
    int64_t count = h->total - first < h->panel ? h->total - first : h->panel;
    if (h->whole_images && count > h->places - first % h->places) count = h->places - first % h->places;
    return count;
}

static mst_matrix host_weights(const host_work *h, int64_t group) {
    mst_matrix w = h->weights;
    w.data += group * h->outputs * w.rows * h->size;
    return w;
}

static mst_matrix host_columns(const host_work *h, const mst_convolution_panel *panel) {
    if (h->x.direct) return host_places_matrix(h, &h->g->x, &h->x, h->call->x, panel->first, panel->group * h->channels);
    return (mst_matrix){.data = h->columns, .rows = h->last ? 1 : panel->count, .columns = h->last ? h->k : 1};
}

static mst_convolution_panel host_tile_panel(const host_work *h, const mst_convolution_panel *panel) {
    mst_convolution_panel of_tile = *panel;
    of_tile.last = h->tile_last;
    return of_tile;
}

static mst_matrix host_y(const host_work *h, const mst_convolution_panel *panel, bool read) {
    if (h->y.direct) return host_places_matrix(h, &h->g->y, &h->y, h->call->y, panel->first, panel->group * h->outputs);
    const mst_convolution_panel of_tile = host_tile_panel(h, panel);
    if (read) mst_places_read(h->call, &of_tile, h->tile);
    return (mst_matrix){.data = h->tile, .rows = h->tile_last ? 1 : panel->count, .columns = h->tile_last ? h->outputs : 1};
}

/* ---- the three computations ---- */

#define BIAS(name, T)                                                                                  \
    static void host_bias_##name(const T *bias, int64_t outputs, int64_t count, const mst_matrix *y) { \
        T *to = (T *)(void *)y->data;                                                                  \
        if (y->columns == 1)                                                                           \
            for (int64_t o = 0; o < outputs; o++)                                                      \
                for (int64_t p = 0; p < count; p++) to[o * y->rows + p] = bias[o];                     \
        else                                                                                           \
            for (int64_t p = 0; p < count; p++)                                                        \
                for (int64_t o = 0; o < outputs; o++) to[o * y->rows + p * y->columns] = bias[o];      \
    }
BIAS(f32, float)
BIAS(f64, double)

static void host_forward(const host_work *h, const mst_convolution_panel *panel) {
    const mst_matrix y = host_y(h, panel, false);
    if (h->bias && h->computed == MUSTER_F32)
        host_bias_f32((const float *)(void *)h->bias + panel->group * h->outputs, h->outputs, panel->count, &y);
    if (h->bias && h->computed == MUSTER_F64)
        host_bias_f64((const double *)(void *)h->bias + panel->group * h->outputs, h->outputs, panel->count, &y);
    if (!h->x.direct) mst_columns_fill(h->call, panel, h->columns);
    mst_matrix_product(h->computed, h->outputs, panel->count, h->k, host_weights(h, panel->group), host_columns(h, panel), h->bias != NULL,
                       y);
    const mst_convolution_panel of_tile = host_tile_panel(h, panel);
    if (!h->y.direct) mst_places_write(h->call, &of_tile, h->tile);
}

/* Without `image` the sums are those of x itself, which has been cleared. */
static void host_data(const host_work *h, const mst_convolution_panel *panel) {
    const mst_convolution_geometry *g = h->g;
    mst_convolution_layout layout = g->x;
    char *x = h->call->x;
    const mst_matrix y = host_y(h, panel, true), columns = host_columns(h, panel);
    mst_matrix_product(h->computed, h->k, panel->count, h->outputs, mst_matrix_turned(host_weights(h, panel->group)), y, false, columns);
    if (h->x.direct) return;
    if (!h->image) {
        mst_columns_add(h->call, panel, h->columns, &layout, x);
        return;
    }
    const int64_t elements = h->channels * mst_convolution_volume(g->x.shape), image = panel->first / h->places;
    if (panel->first % h->places == 0) memset(h->image, 0, (size_t)(elements * h->size));
    layout.strides[0] = 0;
    layout.strides[MST_CONVOLUTION_DIMS - 1] = 1;
    for (int32_t d = MST_CONVOLUTION_DIMS - 2; d >= 1; d--) layout.strides[d] = layout.strides[d + 1] * layout.shape[d + 1];
    const mst_convolution_panel alone = {.group = 0, .first = panel->first, .count = panel->count, .last = panel->last};
    mst_columns_add(h->call, &alone, h->columns, &layout, h->image);
    if ((panel->first + panel->count) % h->places == 0) mst_image_write(h->call, image, panel->group, h->image);
}

static void host_weights_add(const host_work *h, const mst_convolution_panel *panel) {
    const mst_matrix y = host_y(h, panel, true);
    if (!h->x.direct) mst_columns_fill(h->call, panel, h->columns);
    mst_matrix_product(h->computed, h->outputs, h->k, panel->count, y, mst_matrix_turned(host_columns(h, panel)), panel->first > 0,
                       host_weights(h, panel->group));
}

/* ---- all of it ---- */

/* 0 in every element of the result. */
static muster_status host_clear(muster_worker *worker, const host_work *h) {
    const mst_convolution_layout *layout = h->g->kind == MST_CONVOLUTION_DATA ? &h->g->x : &h->g->w;
    muster_tensor result = {.data = h->g->kind == MST_CONVOLUTION_DATA ? h->call->x : h->call->w,
                            .device = MUSTER_DEVICE_HOST,
                            .dtype = h->g->dtype,
                            .ndim = MST_CONVOLUTION_DIMS};
    memcpy(result.shape, layout->shape, sizeof layout->shape);
    memcpy(result.strides, layout->strides, sizeof layout->strides);
    return muster_fill(worker, 0, result);
}

static muster_status host_run(muster_worker *worker, const mst_convolution_call *call) {
    host_work h;
    host_plan(&h, call);
    const mst_convolution_geometry *g = h.g;
    const bool halves = g->dtype != (int32_t)h.computed;
    if (g->kind == MST_CONVOLUTION_DATA ? h.total == 0 || (!halves && !h.x.direct) : g->kind == MST_CONVOLUTION_WEIGHTS && h.total == 0)
        MUSTER_TRY(host_clear(worker, &h));
    if (h.total == 0) return MUSTER_OK;
    MUSTER_TRY(host_prepare(&h, worker));
    if (g->kind == MST_CONVOLUTION_DATA && halves)
        MUSTER_TRY(host_scratch(&h, worker, h.channels * mst_convolution_volume(g->x.shape), &h.image));
    for (int64_t group = 0; group < g->groups; group++)
        for (int64_t first = 0; first < h.total;) {
            const mst_convolution_panel panel = {.group = group, .first = first, .count = host_count(&h, first), .last = h.last};
            if (g->kind == MST_CONVOLUTION_FORWARD)
                host_forward(&h, &panel);
            else if (g->kind == MST_CONVOLUTION_DATA)
                host_data(&h, &panel);
            else
                host_weights_add(&h, &panel);
            first += panel.count;
        }
    if (g->kind == MST_CONVOLUTION_WEIGHTS && h.weights.data != call->w) mst_weights_write(call, h.last, h.weights.data);
    return MUSTER_OK;
}

muster_status mst_convolution_host(muster_worker *worker, const mst_convolution_call *call) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(mst_convolution_is_depthwise(&call->geometry) ? mst_convolution_depthwise(worker, call) : host_run(worker, call));
    return muster_worker_scratch_release(worker, mark);
}
