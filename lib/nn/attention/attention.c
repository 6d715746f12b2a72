/* Attention: checks, and who computes. */
#include "attention/attention_impl.h"

#include "own_private.h"

#include <math.h>

static const char *const names[MST_ATTENTION_OPERANDS] = {"q", "k", "v", "mask", "y", "lse", "rest", "dy", "dq", "dk", "dv", "dmask"};

typedef struct operands {
    const muster_tensor *at[MST_ATTENTION_OPERANDS]; /* NULL: there is none, or it is not wanted */
    muster_tensor scores;                            /* no memory: the shape */
    int64_t heads, group;                            /* of k; heads of q for each of them */
} operands;

static const muster_tensor *given(const muster_tensor *tensor) { return tensor && tensor->dtype != MUSTER_DTYPE_NONE ? tensor : NULL; }

static operands operands_of(const mst_attention_tensors *t, bool gradient) {
    const muster_tensor *lse = gradient ? t->lse : given(t->lse), *rest = gradient ? t->rest : given(t->rest);
    return (operands){.at = {t->q, t->k, t->v, given(t->mask), t->y, lse, rest, gradient ? t->dy : NULL, gradient ? given(t->dq) : NULL,
                             gradient ? given(t->dk) : NULL, gradient ? given(t->dv) : NULL, NULL}};
}

/* ---- checks ---- */

/* The shape of q or k with another last size. */
static muster_status check_shape(const operands *o, int32_t operand, int64_t rows, int64_t columns, const char *where) {
    int64_t shape[MUSTER_MAX_DIMS];
    const muster_tensor *q = o->at[MST_ATTENTION_Q];
    if (!o->at[operand]) return MUSTER_OK;
    for (int32_t d = 0; d < q->ndim - 2; d++) shape[d] = q->shape[d];
    if (MST_ATTENTION_OF_KEYS(operand) && q->ndim > 2) shape[q->ndim - 3] = o->heads;
    shape[q->ndim - 2] = rows;
    shape[q->ndim - 1] = columns;
    return mst_op_shape(where, names[operand], o->at[operand], MST_ATTENTION_OF_QUERIES(operand) ? q->ndim - 1 : q->ndim, shape);
}

static muster_status check_dtypes(const muster_worker *worker, const operands *o, const char *where) {
    const muster_dtype dtype = o->at[MST_ATTENTION_Q]->dtype;
    for (int32_t i = 0; i < MST_ATTENTION_OPERANDS; i++) {
        const muster_tensor *t = o->at[i];
        if (!t) continue;
        MUSTER_TRY(mst_op_check(worker, t, where, names[i]));
        if (i == MST_ATTENTION_Q) MUSTER_TRY(mst_op_float_dtype(where, names[i], t->dtype));
        if (!MST_ATTENTION_OF_QUERIES(i)) {
            MUSTER_TRY(mst_op_same_dtype(where, names[i], t->dtype, "q", dtype));
        } else if (t->dtype != mst_dtype_compute(dtype)) {
            return mst_op_refuse_dtype(where, names[i], mst_dtype_compute(dtype) == MUSTER_F64 ? "f64" : "f32", t->dtype);
        }
    }
    return MUSTER_OK;
}

static muster_status check_heads(operands *o, const char *where) {
    const muster_tensor *q = o->at[MST_ATTENTION_Q], *k = o->at[MST_ATTENTION_K];
    o->heads = o->group = 1;
    if (q->ndim < 3) return MUSTER_OK;
    const int64_t heads = q->shape[q->ndim - 3];
    o->heads = k->shape[q->ndim - 3];
    if (o->heads == heads) return MUSTER_OK;
    if (o->heads == 0 || heads % o->heads != 0)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: k: expected in axis %d a number that divides the %lld of q, received %lld", where,
                         (int)q->ndim - 3, (long long)heads, (long long)o->heads);
    o->group = heads / o->heads;
    return MUSTER_OK;
}

/* Has the gradient of the mask its shape? */
static muster_status check_mask(const operands *o, const char *where) {
    const muster_tensor *mask = o->at[MST_ATTENTION_MASK], *dmask = o->at[MST_ATTENTION_DMASK];
    if (mask) MUSTER_TRY(mst_op_broadcasts(where, "mask", mask, "the scores", &o->scores));
    return mask && dmask ? mst_op_shape(where, "dmask", dmask, mask->ndim, mask->shape) : MUSTER_OK;
}

static muster_status check_operands(const muster_worker *worker, operands *o, const char *where) {
    char received[128];
    MUSTER_TRY(check_dtypes(worker, o, where));
    const muster_tensor *q = o->at[MST_ATTENTION_Q], *k = o->at[MST_ATTENTION_K], *v = o->at[MST_ATTENTION_V];
    if (q->ndim < 2)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: q: expected 2 dimensions or more, received shape %s", where,
                         mst_shape_text(received, q->ndim, q->shape));
    MUSTER_TRY(mst_op_ndim(where, "k", k, q->ndim));
    MUSTER_TRY(mst_op_ndim(where, "v", v, q->ndim));
    MUSTER_TRY(check_heads(o, where));
    const int32_t row = q->ndim - 2, column = q->ndim - 1;
    const int64_t queries = q->shape[row], keys = k->shape[row], width = q->shape[column], values = v->shape[column];
    MUSTER_TRY(check_shape(o, MST_ATTENTION_K, keys, width, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_V, keys, values, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_Y, queries, values, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_DY, queries, values, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_LSE, queries, 0, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_REST, queries, 0, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_DQ, queries, width, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_DK, keys, width, where));
    MUSTER_TRY(check_shape(o, MST_ATTENTION_DV, keys, values, where));
    o->scores = *q;
    o->scores.shape[column] = keys;
    return check_mask(o, where);
}

/* ---- what the computations see ---- */

static void parameters_operand(mst_attention_operand *to, const operands *o, int32_t operand) {
    const muster_tensor *t = o->at[operand];
    const int32_t matrix = MST_ATTENTION_OF_QUERIES(operand) ? 1 : 2, ndim = o->scores.ndim - 2 + matrix;
    if (!t) return;
    int64_t strides[MUSTER_MAX_DIMS] = {0}; /* of all axes; 0: repeated */
    for (int32_t d = 0; d < t->ndim; d++) {
        const int32_t axis = ndim - t->ndim + d;
        const bool repeats = (operand == MST_ATTENTION_MASK || operand == MST_ATTENTION_DMASK) && t->shape[d] != o->scores.shape[axis];
        strides[axis] = repeats ? 0 : t->strides[d];
    }
    to->data = muster_tensor_address(*t);
    for (int32_t d = 0; d < ndim - matrix; d++) to->stack[MST_ATTENTION_STACK - (ndim - matrix) + d] = strides[d];
    to->row = strides[ndim - matrix];
    to->column = matrix == 2 ? strides[ndim - 1] : 1;
}

static void parameters_mask(mst_attention_parameters *p, const muster_tensor *mask) {
    for (int32_t d = 0; d < MST_ATTENTION_STACK + 2; d++) {
        const int32_t axis = d - (MST_ATTENTION_STACK + 2) + (mask ? mask->ndim : 0);
        p->mask[d] = axis < 0 ? 1 : mask->shape[axis];
    }
}

static void parameters_of(mst_attention_parameters *p, const operands *o, const mst_attention *attention) {
    const muster_tensor *q = o->at[MST_ATTENTION_Q], *k = o->at[MST_ATTENTION_K], *v = o->at[MST_ATTENTION_V];
    const int32_t stack = q->ndim - 2;
    *p = (mst_attention_parameters){.count = 1, .group = o->group, .dtype = q->dtype, .causal = attention->causal};
    for (int32_t d = 0; d < MST_ATTENTION_STACK; d++) {
        const int32_t axis = d - (MST_ATTENTION_STACK - stack);
        p->stack[d] = axis < 0 ? 1 : q->shape[axis];
        p->count *= p->stack[d];
    }
    p->queries = q->shape[stack];
    p->keys = k->shape[stack];
    p->width = q->shape[stack + 1];
    p->values = v->shape[stack + 1];
    p->scale = attention->scale != 0 ? attention->scale : 1 / sqrt(p->width ? (double)p->width : 1);
    for (int32_t i = 0; i < MST_ATTENTION_OPERANDS; i++) parameters_operand(&p->operands[i], o, i);
    parameters_mask(p, o->at[MST_ATTENTION_MASK]);
}

/* ---- running ---- */

muster_status mst_attention_forward(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                    const char *where) {
    operands o = operands_of(tensors, false);
    mst_attention_parameters p;
    MUSTER_TRY(check_operands(worker, &o, where));
    parameters_of(&p, &o, attention);
    if (p.count == 0 || p.queries == 0) return MUSTER_OK;
    if (!mst_device_is_host(worker->device)) return mst_attention_device_forward(worker, &p);
    MUSTER_TRY(mst_worker_drain(worker));
    return mst_attention_host_forward(worker, &p);
}

muster_status mst_attention_gradient(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                     const char *where) {
    operands o = operands_of(tensors, true);
    mst_attention_parameters p;
    MUSTER_TRY(check_operands(worker, &o, where));
    parameters_of(&p, &o, attention);
    if (p.count == 0) return MUSTER_OK;
    if (!mst_device_is_host(worker->device)) return mst_attention_device_gradient(worker, &p);
    MUSTER_TRY(mst_worker_drain(worker));
    return mst_attention_host_gradient(worker, &p);
}

/* On a CPU core it is summed where it is, or for f16 and bf16 in scratch memory of f32. */
static muster_status host_mask_gradient(muster_worker *worker, operands *o, const mst_attention *attention) {
    mst_attention_parameters p;
    muster_tensor made;
    const muster_tensor *dmask = o->at[MST_ATTENTION_DMASK];
    const muster_dtype computed = mst_dtype_compute(dmask->dtype);
    const bool elsewhere = computed != dmask->dtype;
    if (elsewhere) {
        MUSTER_TRY(muster_worker_scratch(worker, computed, dmask->ndim, dmask->shape, &made));
        o->at[MST_ATTENTION_DMASK] = &made;
    }
    MUSTER_TRY(muster_fill(worker, 0, *o->at[MST_ATTENTION_DMASK]));
    MUSTER_TRY(mst_worker_drain(worker));
    parameters_of(&p, o, attention);
    if (p.count > 0) MUSTER_TRY(mst_attention_host_gradient(worker, &p));
    return elsewhere ? muster_copy(worker, made, *dmask) : MUSTER_OK;
}

muster_status mst_attention_mask_gradient(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                          const char *where) {
    operands o = operands_of(tensors, true);
    mst_attention_parameters p;
    o.at[MST_ATTENTION_DQ] = o.at[MST_ATTENTION_DK] = o.at[MST_ATTENTION_DV] = NULL;
    o.at[MST_ATTENTION_DMASK] = given(tensors->dmask);
    MUSTER_TRY(check_operands(worker, &o, where));
    if (!o.at[MST_ATTENTION_MASK] || !o.at[MST_ATTENTION_DMASK]) return MUSTER_OK;
    if (!mst_device_is_host(worker->device)) {
        parameters_of(&p, &o, attention);
        return mst_attention_device_mask_gradient(worker, &p);
    }
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(host_mask_gradient(worker, &o, attention));
    return muster_worker_scratch_release(worker, mark);
}
