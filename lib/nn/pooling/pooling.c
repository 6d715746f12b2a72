/* Pooling: checks, and who computes. */
#include "pooling/pooling_impl.h"

#include "own_private.h"

#include <string.h>

bool mst_pooling_fits(const mst_window *window) {
    int64_t volume = 1;
    bool fits = true;
    for (int32_t d = 0; d < window->axes; d++)
        fits = fits && !__builtin_mul_overflow(volume, window->size[d], &volume) && volume <= INT32_MAX;
    return fits;
}

typedef struct operands {
    const mst_pooling *pooling;
    const muster_tensor *x, *y, *z; /* NULL: the kind has none */
    const char *names[3];
    int32_t kind;
} operands;

/* ---- checks ---- */

static muster_status check_operand(const muster_worker *worker, const operands *o, const muster_tensor *operand, const char *name,
                                   const char *where) {
    MUSTER_TRY(mst_op_check(worker, operand, where, name));
    MUSTER_TRY(mst_op_float_dtype(where, name, operand->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, name, operand->dtype, o->names[0], o->x->dtype));
    return mst_op_ndim(where, name, operand, o->pooling->window.axes + 2);
}

static muster_status check_operands(const muster_worker *worker, const operands *o, const char *where) {
    const mst_pooling *pooling = o->pooling;
    int64_t places[MUSTER_MAX_DIMS];
    MUSTER_TRY(check_operand(worker, o, o->x, o->names[0], where));
    MUSTER_TRY(check_operand(worker, o, o->y, o->names[1], where));
    if (!mst_pooling_fits(&pooling->window))
        return mst_error(MUSTER_UNSUPPORTED, "%s: size: expected a window of at most 2^31 - 1 elements, received more", where);
    for (int32_t d = 0; d < 2; d++) places[d] = o->x->shape[d];
    for (int32_t d = 0; d < pooling->window.axes; d++)
        places[2 + d] = mst_window_places(&pooling->window, d, o->x->shape[2 + d], pooling->ceil_mode);
    MUSTER_TRY(mst_op_shape(where, o->names[1], o->y, o->x->ndim, places));
    if (!o->z) return MUSTER_OK;
    MUSTER_TRY(check_operand(worker, o, o->z, o->names[2], where));
    return mst_op_same_shape(where, o->names[2], o->z, o->names[0], o->x);
}

/* ---- what the computations see ---- */

static void parameters_of(mst_pooling_parameters *p, const operands *o) {
    const mst_window window = mst_window_of_all_axes(&o->pooling->window);
    *p = (mst_pooling_parameters){.kind = o->kind,
                                  .dtype = o->x->dtype,
                                  .divides = o->pooling->divides,
                                  .counts_padding = o->pooling->counts_padding,
                                  .at_x = muster_tensor_address(*o->x),
                                  .at_y = muster_tensor_address(*o->y)};
    mst_window_layout(o->x, p->x.shape, p->x.strides);
    mst_window_layout(o->y, p->y.shape, p->y.strides);
    memcpy(p->size, window.size, sizeof p->size);
    memcpy(p->stride, window.stride, sizeof p->stride);
    memcpy(p->dilation, window.dilation, sizeof p->dilation);
    memcpy(p->before, window.before, sizeof p->before);
    memcpy(p->after, window.after, sizeof p->after);
    if (!o->z) return;
    mst_window_layout(o->z, p->z.shape, p->z.strides);
    p->at_z = muster_tensor_address(*o->z);
}

/* ---- running ---- */

static muster_status run_operands(muster_worker *worker, const operands *o, const char *where) {
    mst_pooling_parameters p;
    MUSTER_TRY(check_operands(worker, o, where));
    parameters_of(&p, o);
    if (!mst_device_is_host(worker->device)) return mst_pooling_device(worker, &p);
    MUSTER_TRY(mst_worker_drain(worker));
    return mst_pooling_host(worker, &p);
}

muster_status mst_pooling_max(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *y,
                              const char *where) {
    const operands o = {pooling, x, y, NULL, {"x", "y", NULL}, MST_POOLING_MAX};
    return run_operands(worker, &o, where);
}

muster_status mst_pooling_take(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *z,
                               const muster_tensor *y, const char *where) {
    const operands o = {pooling, x, y, z, {"x", "y", "z"}, MST_POOLING_TAKE};
    return run_operands(worker, &o, where);
}

muster_status mst_pooling_max_gradient(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *dy,
                                       const muster_tensor *dx, const char *where) {
    const operands o = {pooling, x, dy, dx, {"x", "dy", "dx"}, MST_POOLING_MAX_GRADIENT};
    return run_operands(worker, &o, where);
}

muster_status mst_pooling_sum(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *y,
                              const char *where) {
    const operands o = {pooling, x, y, NULL, {"x", "y", NULL}, MST_POOLING_SUM};
    return run_operands(worker, &o, where);
}

muster_status mst_pooling_sum_gradient(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *dy, const muster_tensor *dx,
                                       const char *where) {
    const operands o = {pooling, dx, dy, NULL, {"dx", "dy", NULL}, MST_POOLING_SUM_GRADIENT};
    return run_operands(worker, &o, where);
}
