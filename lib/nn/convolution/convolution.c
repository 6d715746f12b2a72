/* Convolutions: checks, and who computes. */
#include "convolution/convolution_impl.h"

#include "library_private.h"
#include "own_private.h"

#include <string.h>

static const mst_convolution_library *const libraries[] = {&mst_convolution_onednn, &mst_convolution_cudnn, NULL};
const mst_convolution_library *const *mst_convolution_libraries = libraries;

void mst_convolution_open(mst_device *device) { mst_convolution_open_cudnn(device); }

/* ---- checks ---- */

typedef struct operands {
    const mst_convolution *convolution;
    const muster_tensor *x, *w, *bias, *y;
    const char *names[3]; /* of x, w, y */
    int32_t kind;
} operands;

static muster_status check_operand(const muster_worker *worker, const operands *o, const muster_tensor *operand, int32_t i,
                                   const char *where) {
    MUSTER_TRY(mst_op_check(worker, operand, where, o->names[i]));
    MUSTER_TRY(mst_op_float_dtype(where, o->names[i], operand->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, o->names[i], operand->dtype, o->names[0], o->x->dtype));
    return mst_op_ndim(where, o->names[i], operand, o->convolution->window.axes + 2);
}

/* The sizes that the window and x say. */
static muster_status check_shapes(const operands *o, const char *where) {
    const mst_window *window = &o->convolution->window;
    int64_t shape[MUSTER_MAX_DIMS];
    char received[128];
    if (o->convolution->groups < 1 || o->w->shape[0] % o->convolution->groups != 0 ||
        o->w->shape[1] * o->convolution->groups != o->x->shape[1])
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %lld groups of weights for %lld channels, received shape %s", where,
                         o->names[1], (long long)o->convolution->groups, (long long)o->x->shape[1],
                         mst_shape_text(received, o->w->ndim, o->w->shape));
    shape[0] = o->w->shape[0], shape[1] = o->w->shape[1];
    for (int32_t d = 0; d < window->axes; d++) shape[2 + d] = window->size[d];
    MUSTER_TRY(mst_op_shape(where, o->names[1], o->w, o->w->ndim, shape));
    shape[0] = o->x->shape[0], shape[1] = o->w->shape[0];
    for (int32_t d = 0; d < window->axes; d++) shape[2 + d] = mst_window_places(window, d, o->x->shape[2 + d], false);
    return mst_op_shape(where, o->names[2], o->y, o->y->ndim, shape);
}

static muster_status check_operands(const muster_worker *worker, const operands *o, const char *where) {
    MUSTER_TRY(check_operand(worker, o, o->x, 0, where));
    MUSTER_TRY(check_operand(worker, o, o->w, 1, where));
    MUSTER_TRY(check_operand(worker, o, o->y, 2, where));
    MUSTER_TRY(check_shapes(o, where));
    if (!o->bias) return MUSTER_OK;
    MUSTER_TRY(mst_op_check(worker, o->bias, where, "bias"));
    MUSTER_TRY(mst_op_same_dtype(where, "bias", o->bias->dtype, o->names[0], o->x->dtype));
    return mst_op_shape(where, "bias", o->bias, 1, o->w->shape);
}

/* ---- what the computations see ---- */

static void parameters_of(mst_convolution_parameters *p, const operands *o) {
    const mst_window window = mst_window_of_all_axes(&o->convolution->window);
    mst_convolution_geometry *g = &p->geometry;
    memset(p, 0, sizeof *p); /* geometries are compared by their bytes */
    mst_window_layout(o->x, g->x.shape, g->x.strides);
    mst_window_layout(o->w, g->w.shape, g->w.strides);
    mst_window_layout(o->y, g->y.shape, g->y.strides);
    memcpy(g->stride, window.stride, sizeof g->stride);
    memcpy(g->dilation, window.dilation, sizeof g->dilation);
    memcpy(g->before, window.before, sizeof g->before);
    memcpy(g->after, window.after, sizeof g->after);
    g->groups = o->convolution->groups;
    g->kind = o->kind;
    g->dtype = o->x->dtype;
    g->axes = o->convolution->window.axes;
    p->x = muster_tensor_address(*o->x);
    p->w = muster_tensor_address(*o->w);
    p->y = muster_tensor_address(*o->y);
    if (!o->bias) return;
    g->has_bias = 1;
    g->bias_stride = o->bias->strides[0];
    p->bias = muster_tensor_address(*o->bias);
}

/* ---- states ---- */

enum { PREPARED = 8 }; /* most of one state: the logical shards of a step have few different shapes */

typedef struct prepared {
    struct prepared *next; /* used longer ago */
    mst_convolution_geometry geometry;
    const mst_convolution_library *library; /* NULL: none computes it */
    void *state;
} prepared;

static void prepared_free(prepared *p) {
    while (p) {
        prepared *next = p->next;
        if (p->state) p->library->destroy(p->state);
        mst_free(p);
        p = next;
    }
}

void mst_convolution_release(void *state) { prepared_free(state); }

static muster_status prepared_make(muster_worker *worker, const mst_convolution_geometry *geometry, prepared **made) {
    prepared *p = mst_alloc(sizeof *p);
    if (!p) return mst_out_of_memory("muster_function_call", (int64_t)sizeof *p);
    p->geometry = *geometry;
    for (const mst_convolution_library *const *library = mst_convolution_libraries; *library && !p->state; library++) {
        const muster_status status = (*library)->create(worker, geometry, &p->state);
        if (status != MUSTER_OK) {
            mst_free(p);
            return status;
        }
        if (p->state) p->library = *library;
    }
    *made = p;
    return MUSTER_OK;
}

/* The first of the list is the one that was used last. */
static muster_status prepared_find(muster_worker *worker, const mst_convolution_geometry *geometry, void **state, prepared **found) {
    int32_t count = 0;
    prepared *first = *state, **surplus = NULL;
    if (first && memcmp(&first->geometry, geometry, sizeof *geometry) == 0) {
        *found = first;
        return MUSTER_OK;
    }
    for (prepared **at = &first; *at; at = &(*at)->next) {
        prepared *p = *at;
        if (memcmp(&p->geometry, geometry, sizeof *geometry) == 0) {
            *at = p->next;
            p->next = first;
            *state = *found = p;
            return MUSTER_OK;
        }
        if (++count == PREPARED - 1) surplus = &p->next;
    }
    MUSTER_TRY(prepared_make(worker, geometry, found));
    if (surplus) {
        prepared_free(*surplus);
        *surplus = NULL;
    }
    (*found)->next = first;
    *state = *found;
    return MUSTER_OK;
}

/* ---- running ---- */

static muster_status run_own(muster_worker *worker, const mst_convolution_parameters *p) {
    if (!mst_device_is_host(worker->device)) return mst_convolution_device(worker, p);
    MUSTER_TRY(mst_worker_drain(worker));
    return mst_convolution_host(worker, p);
}

static bool is_empty(const mst_convolution_layout *layout) {
    bool empty = false;
    for (int32_t d = 0; d < MST_CONVOLUTION_DIMS; d++) empty = empty || layout->shape[d] == 0;
    return empty;
}

static muster_status run_operands(muster_worker *worker, const operands *o, void **state, const char *where) {
    mst_convolution_parameters p;
    prepared *found;
    MUSTER_TRY(check_operands(worker, o, where));
    parameters_of(&p, o);
    const mst_convolution_geometry *g = &p.geometry;
    if (is_empty(o->kind == MST_CONVOLUTION_FORWARD ? &g->y : o->kind == MST_CONVOLUTION_DATA ? &g->x : &g->w)) return MUSTER_OK;
    if (is_empty(&g->x) || is_empty(&g->w) || is_empty(&g->y)) return run_own(worker, &p); /* libraries refuse empty operands */
    if (!*mst_convolution_libraries) return run_own(worker, &p);
    MUSTER_TRY(prepared_find(worker, g, state, &found));
    return found->state ? found->library->run(worker, found->state, &p) : run_own(worker, &p);
}

muster_status mst_convolution_forward(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *x,
                                      const muster_tensor *w, const muster_tensor *bias, const muster_tensor *y, void **state,
                                      const char *where) {
    const operands o = {convolution, x, w, bias, y, {"x", "w", "y"}, MST_CONVOLUTION_FORWARD};
    return run_operands(worker, &o, state, where);
}

muster_status mst_convolution_data(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *dy,
                                   const muster_tensor *w, const muster_tensor *dx, void **state, const char *where) {
    const operands o = {convolution, dx, w, NULL, dy, {"dx", "w", "dy"}, MST_CONVOLUTION_DATA};
    return run_operands(worker, &o, state, where);
}

muster_status mst_convolution_weights(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *x,
                                      const muster_tensor *dy, const muster_tensor *dw, void **state, const char *where) {
    const operands o = {convolution, x, dw, NULL, dy, {"x", "dw", "dy"}, MST_CONVOLUTION_WEIGHTS};
    return run_operands(worker, &o, state, where);
}
