/* Recurrent layers: checks, and the sweep over the steps. A step is a product of matrices and a
 * computation by elements. */
#include "recurrent/recurrent_impl.h"

#include "own_private.h"

#include <string.h>

typedef enum role {
    GATES,
    R,
    BIAS,
    H0,
    C0,
    LENGTHS,
    Y,
    HN,
    CN,
    BEFORE_H,
    BEFORE_C,
    KEPT,
    DY,
    DHN,
    DCN,
    DGATES,
    DH0,
    DC0,
    DPRODUCTS,
    ROLES
} role;
static const char *const names[ROLES] = {"gates",    "r",    "bias", "h0",  "c0",  "lengths", "y",   "hn",  "cn",       "before_h",
                                         "before_c", "kept", "dy",   "dhn", "dcn", "dgates",  "dh0", "dc0", "dproducts"};

typedef struct sweep {
    muster_worker *worker;
    const char *where;
    const muster_tensor *at[ROLES]; /* NULL: there is none, or it is not wanted */
    muster_tensor made[ROLES];      /* those that had to be made */
    int32_t kind;
    int64_t rows, steps, width, gates; /* gates: of all a step, in numbers */
    bool reverse, host, gradient;
    muster_dtype computed;               /* of the sweep: f32 for f16 and bf16 */
    const muster_tensor *targets[ROLES]; /* of results that are made elsewhere */
    mst_cell_host cell;
} sweep;

static const muster_tensor *given(const muster_tensor *tensor) { return tensor && tensor->dtype != MUSTER_DTYPE_NONE ? tensor : NULL; }

/* ---- checks ---- */

static muster_status check_shape(const sweep *s, role i, int32_t ndim, int64_t d0, int64_t d1, int64_t d2) {
    return s->at[i] ? mst_op_shape(s->where, names[i], s->at[i], ndim, (const int64_t[]){d0, d1, d2}) : MUSTER_OK;
}

static muster_status check_broadcasts(const sweep *s, role i, int32_t ndim, int64_t d0, int64_t d1) {
    const muster_tensor all = muster_tensor_make(s->at[R]->dtype, NULL, ndim, (const int64_t[]){d0, d1});
    return s->at[i] ? mst_op_broadcasts(s->where, names[i], s->at[i], "the states", &all) : MUSTER_OK;
}

static muster_status check_dtypes(const sweep *s) {
    const muster_dtype dtype = s->at[R]->dtype;
    MUSTER_TRY(mst_op_float_dtype(s->where, "r", dtype));
    for (int32_t i = 0; i < ROLES; i++) {
        if (!s->at[i]) continue;
        MUSTER_TRY(mst_op_check(s->worker, s->at[i], s->where, names[i]));
        if (i != LENGTHS) MUSTER_TRY(mst_op_same_dtype(s->where, names[i], s->at[i]->dtype, "r", dtype));
    }
    return MUSTER_OK;
}

/* `sized` is (n, t, ...), and tells how many rows and steps there are. */
static muster_status check(sweep *s, role sized) {
    MUSTER_TRY(check_dtypes(s));
    MUSTER_TRY(mst_op_ndim(s->where, "r", s->at[R], 2));
    MUSTER_TRY(mst_op_ndim(s->where, names[sized], s->at[sized], 3));
    const int64_t n = s->rows = s->at[sized]->shape[0], t = s->steps = s->at[sized]->shape[1], h = s->width = s->at[R]->shape[1];
    const int64_t gates = s->gates = mst_recurrent_gates(s->kind) * h;
    const int64_t kept = s->kind == MST_RECURRENT_LSTM || s->kind == MST_RECURRENT_GRU ? 4 * h : h;
    MUSTER_TRY(check_shape(s, R, 2, gates, h, 0));
    MUSTER_TRY(check_shape(s, GATES, 3, n, t, gates));
    MUSTER_TRY(check_shape(s, BIAS, 1, h, 0, 0));
    for (role i = Y; i <= DCN; i++) {
        if (i == Y || i == DY || i == BEFORE_H || i == BEFORE_C) MUSTER_TRY(check_shape(s, i, 3, n, t, h));
        if (i == HN || i == CN) MUSTER_TRY(check_shape(s, i, 2, n, h, 0));
        if (i == DHN || i == DCN) MUSTER_TRY(check_broadcasts(s, i, 2, n, h));
    }
    MUSTER_TRY(check_broadcasts(s, H0, 2, n, h));
    MUSTER_TRY(check_broadcasts(s, C0, 2, n, h));
    MUSTER_TRY(check_broadcasts(s, LENGTHS, 1, n, 0));
    MUSTER_TRY(check_shape(s, KEPT, 3, n, t, kept));
    MUSTER_TRY(check_shape(s, DGATES, 3, n, t, gates));
    MUSTER_TRY(check_shape(s, DPRODUCTS, 3, n, t, gates));
    MUSTER_TRY(check_shape(s, DH0, 2, n, h, 0));
    return check_shape(s, DC0, 2, n, h, 0);
}

/* ---- memory ---- */

static bool is_result(const sweep *s, role i) { return s->gradient ? i >= DGATES : i >= Y && i <= KEPT; }

static muster_status make(sweep *s, role i, muster_dtype dtype, int32_t ndim, int64_t d0, int64_t d1, int64_t d2) {
    MUSTER_TRY(muster_worker_scratch(s->worker, dtype, ndim, (const int64_t[]){d0, d1, d2}, &s->made[i]));
    s->at[i] = &s->made[i];
    return MUSTER_OK;
}

/* Can the steps use it where it is: are the elements along the last axis behind each other, and of
 * the dtype to compute in? */
static bool fits(const sweep *s, const muster_tensor *t) {
    return t->dtype == s->computed && (t->strides[t->ndim - 1] == 1 || t->shape[t->ndim - 1] <= 1);
}

static muster_status make_like(sweep *s, role i, const muster_tensor *t) {
    return make(s, i, s->computed, t->ndim, t->shape[0], t->ndim > 1 ? t->shape[1] : 0, t->ndim > 2 ? t->shape[2] : 0);
}

/* The operand in memory of the sweep. */
static muster_status copied(sweep *s, role i) {
    const muster_tensor *operand = s->at[i];
    MUSTER_TRY(make_like(s, i, operand));
    return muster_copy(s->worker, *operand, s->made[i]);
}

/* The operand as the steps use it. Products take r in any layout. */
static muster_status in_rows(sweep *s, role i) { return !s->at[i] || fits(s, s->at[i]) ? MUSTER_OK : copied(s, i); }
static muster_status weights_in_dtype(sweep *s) { return s->at[R]->dtype == s->computed ? MUSTER_OK : copied(s, R); }

/* The same for the results, which are written at the end. */
static muster_status results_in_rows(sweep *s) {
    for (role i = Y; i < ROLES; i++) {
        if (!is_result(s, i) || !s->at[i] || fits(s, s->at[i])) continue;
        s->targets[i] = s->at[i];
        MUSTER_TRY(make_like(s, i, s->targets[i]));
    }
    return MUSTER_OK;
}
static muster_status results_write(sweep *s) {
    for (role i = Y; i < ROLES; i++)
        if (s->targets[i]) MUSTER_TRY(muster_copy(s->worker, s->made[i], *s->targets[i]));
    return MUSTER_OK;
}

/* The lengths as i64, one for each row. */
static muster_status lengths_make(sweep *s) {
    const muster_tensor *lengths = s->at[LENGTHS];
    MUSTER_TRY(make(s, LENGTHS, MUSTER_I64, 1, s->rows, 0, 0));
    return lengths ? muster_copy(s->worker, *lengths, s->made[LENGTHS]) : muster_fill(s->worker, (double)s->steps, s->made[LENGTHS]);
}

/* A state (n, h) that begins as `from`, or as 0. */
static muster_status state_make(sweep *s, role i, role from) {
    if (!s->at[i]) MUSTER_TRY(make(s, i, s->computed, 2, s->rows, s->width, 0));
    return s->at[from] ? muster_copy(s->worker, *s->at[from], *s->at[i]) : muster_fill(s->worker, 0, *s->at[i]);
}

/* ---- steps ---- */

/* (n, t, ...) at a time: (n, ...). */
static muster_tensor at_time(const muster_tensor *tensor, int64_t time) {
    muster_tensor view = *tensor;
    view.ndim = 2;
    view.shape[1] = tensor->shape[2];
    view.strides[1] = tensor->strides[2];
    view.byte_offset += time * tensor->strides[1] * muster_dtype_size(tensor->dtype);
    return view;
}

static void cell_operand(mst_cell_parameters *p, int32_t operand, const muster_tensor *tensor, int64_t time) {
    if (!tensor) return;
    const muster_tensor view = tensor->ndim == 3 ? at_time(tensor, time) : *tensor;
    p->operands[operand] = (mst_cell_operand){.data = muster_tensor_address(view), .row = operand == MST_CELL_BIAS ? 0 : view.strides[0]};
}

static mst_cell_parameters cell_of(const sweep *s, int64_t time) {
    mst_cell_parameters p = {.rows = s->rows, .width = s->width, .step = time, .kind = s->kind, .dtype = s->computed};
    cell_operand(&p, MST_CELL_LENGTHS, s->at[LENGTHS], 0);
    cell_operand(&p, MST_CELL_KEPT, s->at[KEPT], time);
    cell_operand(&p, MST_CELL_BEFORE_H, s->at[BEFORE_H], time);
    cell_operand(&p, MST_CELL_BEFORE_C, s->at[BEFORE_C], time);
    return p;
}

static muster_status forward_step(const sweep *s, int64_t time, const muster_tensor *products) {
    mst_cell_parameters p = cell_of(s, time);
    muster_tensor turned = *s->at[R];
    turned.shape[0] = s->at[R]->shape[1];
    turned.shape[1] = s->at[R]->shape[0];
    turned.strides[0] = s->at[R]->strides[1];
    turned.strides[1] = s->at[R]->strides[0];
    MUSTER_TRY(muster_gemm(s->worker, 1, *s->at[HN], turned, 0, *products));
    cell_operand(&p, MST_CELL_GATES, s->at[GATES], time);
    cell_operand(&p, MST_CELL_PRODUCTS, products, 0);
    cell_operand(&p, MST_CELL_BIAS, s->at[BIAS], 0);
    cell_operand(&p, MST_CELL_Y, s->at[Y], time);
    cell_operand(&p, MST_CELL_H, s->at[HN], 0);
    cell_operand(&p, MST_CELL_C, s->at[CN], 0);
    if (!s->host) return mst_cell_device_forward(s->worker, &p);
    mst_cell_host_forward(&s->cell, &p);
    return MUSTER_OK;
}

static muster_status gradient_step(const sweep *s, int64_t time) {
    mst_cell_parameters p = cell_of(s, time);
    const muster_tensor *products = s->at[DPRODUCTS] ? s->at[DPRODUCTS] : s->at[DGATES];
    cell_operand(&p, MST_CELL_DY, s->at[DY], time);
    cell_operand(&p, MST_CELL_DH, s->at[DH0], 0);
    cell_operand(&p, MST_CELL_DC, s->at[DC0], 0);
    cell_operand(&p, MST_CELL_DGATES, s->at[DGATES], time);
    cell_operand(&p, MST_CELL_DPRODUCTS, s->at[DPRODUCTS], time);
    if (s->host)
        mst_cell_host_gradient(&p);
    else
        MUSTER_TRY(mst_cell_device_gradient(s->worker, &p));
    return muster_gemm(s->worker, 1, at_time(products, time), *s->at[R], 1, *s->at[DH0]);
}

static muster_status sweep_open(sweep *s, role sized) {
    MUSTER_TRY(check(s, sized));
    s->computed = mst_dtype_compute(s->at[R]->dtype);
    s->host = mst_device_is_host(s->worker->device);
    if (s->host) MUSTER_TRY(mst_worker_drain(s->worker));
    if (s->host) MUSTER_TRY(mst_cell_host_open(s->worker, s->computed, s->width, &s->cell));
    MUSTER_TRY(weights_in_dtype(s));
    return lengths_make(s);
}

static muster_status forward_sweep(sweep *s) {
    MUSTER_TRY(sweep_open(s, GATES));
    MUSTER_TRY(results_in_rows(s));
    MUSTER_TRY(in_rows(s, GATES));
    MUSTER_TRY(in_rows(s, BIAS));
    MUSTER_TRY(state_make(s, HN, H0));
    if (s->kind == MST_RECURRENT_LSTM) MUSTER_TRY(state_make(s, CN, C0));
    muster_tensor products;
    MUSTER_TRY(muster_worker_scratch(s->worker, s->computed, 2, (const int64_t[]){s->rows, s->gates}, &products));
    for (int64_t i = 0; i < s->steps && s->rows > 0 && s->width > 0; i++)
        MUSTER_TRY(forward_step(s, s->reverse ? s->steps - 1 - i : i, &products));
    return results_write(s);
}

static muster_status gradient_sweep(sweep *s) {
    MUSTER_TRY(sweep_open(s, KEPT));
    MUSTER_TRY(results_in_rows(s));
    MUSTER_TRY(in_rows(s, DY));
    MUSTER_TRY(in_rows(s, KEPT));
    MUSTER_TRY(in_rows(s, BEFORE_H));
    MUSTER_TRY(in_rows(s, BEFORE_C));
    MUSTER_TRY(state_make(s, DH0, DHN));
    if (s->kind == MST_RECURRENT_LSTM) MUSTER_TRY(state_make(s, DC0, DCN));
    if (!s->at[DGATES]) MUSTER_TRY(make(s, DGATES, s->computed, 3, s->rows, s->steps, s->gates));
    if (s->kind == MST_RECURRENT_GRU && !s->at[DPRODUCTS]) MUSTER_TRY(make(s, DPRODUCTS, s->computed, 3, s->rows, s->steps, s->gates));
    for (int64_t i = 0; i < s->steps && s->rows > 0 && s->width > 0; i++) MUSTER_TRY(gradient_step(s, s->reverse ? i : s->steps - 1 - i));
    return results_write(s);
}

muster_status mst_recurrent_forward(muster_worker *worker, const mst_recurrent *recurrent, const mst_recurrent_tensors *t,
                                    const char *where) {
    sweep s = {.worker = worker,
               .where = where,
               .kind = recurrent->kind,
               .reverse = recurrent->reverse,
               .at = {[GATES] = t->gates,
                      [R] = t->r,
                      [BIAS] = t->bias,
                      [H0] = t->h0,
                      [C0] = t->c0,
                      [LENGTHS] = t->lengths,
                      [Y] = given(t->y),
                      [HN] = given(t->hn),
                      [CN] = given(t->cn),
                      [BEFORE_H] = given(t->before_h),
                      [BEFORE_C] = given(t->before_c),
                      [KEPT] = given(t->kept)}};
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(forward_sweep(&s));
    return muster_worker_scratch_release(worker, mark);
}

muster_status mst_recurrent_gradient(muster_worker *worker, const mst_recurrent *recurrent, const mst_recurrent_tensors *t,
                                     const char *where) {
    const bool lstm = recurrent->kind == MST_RECURRENT_LSTM, gru = recurrent->kind == MST_RECURRENT_GRU;
    sweep s = {.worker = worker,
               .where = where,
               .kind = recurrent->kind,
               .reverse = recurrent->reverse,
               .gradient = true,
               .at = {[R] = t->r,
                      [LENGTHS] = t->lengths,
                      [BEFORE_H] = gru ? t->before_h : NULL,
                      [BEFORE_C] = lstm ? t->before_c : NULL,
                      [KEPT] = t->kept,
                      [DY] = t->dy,
                      [DHN] = t->dhn,
                      [DCN] = lstm ? t->dcn : NULL,
                      [DGATES] = given(t->dgates),
                      [DH0] = given(t->dh0),
                      [DC0] = lstm ? given(t->dc0) : NULL,
                      [DPRODUCTS] = gru ? given(t->dproducts) : NULL}};
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(gradient_sweep(&s));
    return muster_worker_scratch_release(worker, mark);
}
