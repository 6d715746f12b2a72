/* Convolutions by oneDNN on CPU cores, in f32. The library chooses how operands lie, but for those
 * whose channels lie last, where it is asked first whether it takes them so; what lies otherwise is
 * reordered, in scratch memory. A worker has one thread in it. */
#include "library_private.h"
#include "onednn/onednn_private.h"
#include "own_thread_impl.h"
#include "product/product_private.h"

#include <stdatomic.h>
#include <string.h>

enum { X, W, Y, BIAS, OPERANDS, MOST_ARGUMENTS = OPERANDS + 1 };

typedef struct operand {
    void *md;         /* how it lies */
    void *memory;     /* so */
    void *other;      /* the memory that the primitive takes, if that is another */
    void *reorder;    /* the primitive: to the other before, or from it behind */
    int64_t bytes;    /* of the other */
    int32_t argument; /* of the primitive */
} operand;

typedef struct onednn_state {
    operand operands[OPERANDS];
    void *primitive, *stream, *scratchpad; /* memory of the scratchpad; NULL: it needs none */
    int64_t scratch_bytes;
    int32_t result; /* the operand that is written */
} onednn_state;

/* ---- ends ---- */

static void operand_free(const mst_onednn *d, operand *o) {
    if (o->memory) (void)d->memory_destroy(o->memory);
    if (o->other) (void)d->memory_destroy(o->other);
    if (o->reorder) (void)d->primitive_destroy(o->reorder);
    mst_onednn_md_destroy(o->md);
}

static void onednn_destroy(void *made) {
    const mst_onednn *d = mst_onednn_get();
    onednn_state *state = made;
    for (int32_t i = 0; i < OPERANDS; i++) operand_free(d, &state->operands[i]);
    if (state->primitive) (void)d->primitive_destroy(state->primitive);
    if (state->scratchpad) (void)d->memory_destroy(state->scratchpad);
    if (state->stream) (void)d->stream_destroy(state->stream);
    mst_free(state);
}

/* ---- making ---- */

/* The dims and strides of an operand as the library has them: with the axes of the convolution
 * alone, and the weights of groups with an axis for these. */
typedef struct layout {
    int64_t dims[MST_ONEDNN_DIMS], strides[MST_ONEDNN_DIMS];
    int32_t ndim;
} layout;

static layout layout_of(const mst_convolution_geometry *g, int32_t which) {
    const mst_convolution_layout *from = which == X ? &g->x : which == W ? &g->w : &g->y;
    layout made = {.ndim = 0};
    if (which == BIAS) return (layout){.ndim = 1, .dims = {g->w.shape[0]}, .strides = {g->bias_stride}};
    const int64_t groups = which == W ? g->groups : 1;
    if (groups > 1) {
        made.dims[0] = groups;
        made.strides[0] = from->shape[0] / groups * from->strides[0];
        made.ndim = 1;
    }
    for (int32_t d = 0; d < MST_CONVOLUTION_DIMS; d++) {
        if (d >= 2 && d < MST_CONVOLUTION_DIMS - g->axes) continue;
        made.dims[made.ndim] = d == 0 ? from->shape[0] / groups : from->shape[d];
        made.strides[made.ndim++] = from->strides[d];
    }
    return made;
}

/* It takes no strides that are negative, and none of 0 but along axes of one element. */
static bool is_plain(const layout *l) {
    bool plain = true;
    for (int32_t d = 0; d < l->ndim; d++) plain = plain && (l->dims[d] == 1 || l->strides[d] > 0);
    return plain;
}

static bool has_channels_last(const mst_convolution_layout *l) { return l->strides[1] == 1 && l->shape[1] > 1; }

/* How it is asked to take x and y. */
typedef enum form { CHANNELS_LAST, ITS_OWN } form;

/* Of x or y, (n, c, ...): the same dims with the channels last. */
static layout channels_last(layout l) {
    l.strides[1] = 1;
    int64_t elements = l.dims[1];
    for (int32_t d = l.ndim - 1; d >= 2; d--) {
        l.strides[d] = elements;
        elements *= l.dims[d];
    }
    l.strides[0] = elements;
    return l;
}

/* Does each element lie at the same place? Along an axis of one element the stride says nothing. */
static bool lie_alike(const layout *a, const layout *b) {
    bool alike = true;
    for (int32_t d = 0; d < a->ndim; d++) alike = alike && (a->dims[d] == 1 || a->strides[d] == b->strides[d]);
    return alike;
}

enum { NONE = -1 }; /* no status of the library */

typedef struct making {
    const mst_onednn *d;
    const mst_convolution_geometry *g;
    onednn_state *state;
} making;

static mst_onednn_window window_of(const mst_convolution_geometry *g) {
    mst_onednn_window window = {.stride = {0}};
    for (int32_t d = 0; d < g->axes; d++) {
        const int32_t from = MST_CONVOLUTION_AXES - g->axes + d;
        window.stride[d] = g->stride[from];
        window.dilation[d] = g->dilation[from] - 1; /* 0: none */
        window.before[d] = g->before[from];
        window.after[d] = g->after[from];
    }
    return window;
}

static int desc_from(const making *m, void *const mds[OPERANDS], void **made) {
    const mst_onednn_window window = window_of(m->g);
    const int32_t kind = m->g->kind == MST_CONVOLUTION_FORWARD ? MST_ONEDNN_FORWARD
                         : m->g->kind == MST_CONVOLUTION_DATA  ? MST_ONEDNN_DATA
                                                               : MST_ONEDNN_WEIGHTS_GRADIENT;
    if (kind == MST_ONEDNN_FORWARD) return mst_onednn_convolution_desc(made, kind, mds[X], mds[W], mds[BIAS], mds[Y], &window, NULL);
    void *forward;
    int code = mst_onednn_convolution_desc(&forward, MST_ONEDNN_FORWARD, mds[X], mds[W], NULL, mds[Y], &window, NULL);
    if (code) return code;
    code = mst_onednn_convolution_desc(made, kind, mds[X], mds[W], NULL, mds[Y], &window, forward);
    (void)m->d->primitive_desc_destroy(forward);
    return code;
}

static const char *implementation(const making *m, const void *desc) {
    const char *name = NULL;
    return m->d->primitive_desc_query(desc, MST_ONEDNN_QUERY_IMPLEMENTATION, 0, (void *)&name) == 0 && name ? name : "ref";
}

/* The plain loops that it has for everything are slower than ours. */
static bool is_reference(const making *m, const void *desc) { return strncmp(implementation(m, desc), "ref", 3) == 0; }

static int md_of(const making *m, int32_t which, form form, void **md) {
    layout l = layout_of(m->g, which);
    if (form == CHANNELS_LAST && (which == X || which == Y)) l = channels_last(l);
    return mst_onednn_md_create(md, l.ndim, l.dims, which == BIAS || (which != W && form == CHANNELS_LAST) ? l.strides : NULL);
}

/* *made NULL, with 0: the library has none that is worth it. */
static int desc_make(const making *m, form form, void **made) {
    void *mds[OPERANDS] = {NULL};
    int code = 0;
    *made = NULL;
    for (int32_t i = 0; i < OPERANDS && !code; i++)
        if (i != BIAS || m->g->has_bias) code = md_of(m, i, form, &mds[i]);
    if (!code) code = desc_from(m, mds, made);
    for (int32_t i = 0; i < OPERANDS; i++) mst_onednn_md_destroy(mds[i]);
    if (code) return code == MST_ONEDNN_OUT_OF_MEMORY ? code : 0;
    if (is_reference(m, *made)) {
        (void)m->d->primitive_desc_destroy(*made);
        *made = NULL;
    }
    return 0;
}

static int reorder_make(const making *m, const void *from, const void *to, void **made) {
    void *desc = NULL;
    int code = m->d->reorder_desc_create(&desc, from, m->d->engine, to, m->d->engine, NULL);
    if (code) return code;
    code = m->d->primitive_create(made, desc);
    (void)m->d->primitive_desc_destroy(desc);
    return code;
}

/* What the primitive calls the operand: the argument, and where its description is found. */
static void names_of(int32_t kind, int32_t which, int32_t *argument, int32_t *query) {
    static const int32_t arguments[MST_CONVOLUTION_KINDS][OPERANDS] = {
        {MST_ONEDNN_SRC, MST_ONEDNN_WEIGHTS, MST_ONEDNN_DST, MST_ONEDNN_BIAS},
        {MST_ONEDNN_DIFF_SRC, MST_ONEDNN_WEIGHTS, MST_ONEDNN_DIFF_DST, 0},
        {MST_ONEDNN_SRC, MST_ONEDNN_DIFF_WEIGHTS, MST_ONEDNN_DIFF_DST, 0},
    };
    static const int32_t queries[MST_CONVOLUTION_KINDS][OPERANDS] = {
        {MST_ONEDNN_QUERY_SRC, MST_ONEDNN_QUERY_WEIGHTS, MST_ONEDNN_QUERY_DST, 0},
        {MST_ONEDNN_QUERY_DIFF_SRC, MST_ONEDNN_QUERY_WEIGHTS, MST_ONEDNN_QUERY_DIFF_DST, 0},
        {MST_ONEDNN_QUERY_SRC, MST_ONEDNN_QUERY_DIFF_WEIGHTS, MST_ONEDNN_QUERY_DIFF_DST, 0},
    };
    *argument = arguments[kind][which];
    *query = queries[kind][which];
}

static int operand_make(const making *m, const void *desc, int32_t which, form form) {
    operand *o = &m->state->operands[which];
    layout l = layout_of(m->g, which);
    const layout last = channels_last(l);
    int32_t query;
    if (form == CHANNELS_LAST && (which == X || which == Y) && lie_alike(&l, &last)) l = last;
    if (which == BIAS && !m->g->has_bias) return 0;
    names_of(m->g->kind, which, &o->argument, &query);
    int code = mst_onednn_md_create(&o->md, l.ndim, l.dims, l.strides);
    if (!code) code = m->d->memory_create(&o->memory, o->md, m->d->engine, NULL);
    if (code) return code;
    const void *taken = which == BIAS ? o->md : m->d->primitive_desc_query_md(desc, query, 0);
    if (!taken) return NONE;
    if (m->d->md_equal(taken, o->md)) return 0;
    o->bytes = (int64_t)m->d->md_get_size(taken);
    if ((code = m->d->memory_create(&o->other, taken, m->d->engine, NULL))) return code;
    const bool written = which == m->state->result;
    return reorder_make(m, written ? taken : o->md, written ? o->md : taken, &o->reorder);
}

/* For the code that it makes for AVX2, which is slow there, as measured for the shapes of ResNet-50
 * and AlexNet (README.md): products of matrices by BLAS (host.c) where a product has many terms,
 * and where it has few places; its own layouts for windows of several elements, whose convolutions
 * take so long that the reorders of x and y pay. */
mst_convolution_way mst_convolution_onednn_fastest(const mst_convolution_geometry *g) {
    enum { FEW_CHANNELS = 64, LAST_PLACES = 7 * 7, LATE_PLACES = 14 * 14, MIDDLE_PLACES = 28 * 28 };
    int64_t window = 1, places = 1;
    bool moves = false;
    if (!has_channels_last(&g->x) || !has_channels_last(&g->y) || g->groups > 1 || g->w.shape[1] < FEW_CHANNELS) return MST_AS_THEY_LIE;
    for (int32_t d = 0; d < MST_CONVOLUTION_AXES; d++) {
        window *= g->w.shape[2 + d];
        places *= g->x.shape[2 + d];
        moves = moves || g->stride[d] > 1;
    }
    const bool late = places <= LAST_PLACES || (places <= LATE_PLACES && (moves || window == 1));
    const bool by_products = g->kind == MST_CONVOLUTION_FORWARD ? moves
                             : g->kind == MST_CONVOLUTION_DATA  ? late
                                                                : moves || window > 1 || places <= MIDDLE_PLACES;
    if (by_products && mst_blas_get()->sgemm) return MST_BY_PRODUCTS;
    return window > 1 && g->w.shape[0] >= FEW_CHANNELS ? MST_REORDERED : MST_AS_THEY_LIE;
}

/* The primitive's description, and how it takes x and y. *desc NULL, with 0: other code is faster,
 * or the library has none. */
static int desc_choose(const making *m, form *chosen, void **desc) {
    const bool last = has_channels_last(&m->g->x) || has_channels_last(&m->g->y);
    int code = 0;
    *desc = NULL;
    *chosen = CHANNELS_LAST;
    if (last && (code = desc_make(m, CHANNELS_LAST, desc))) return code;
    const mst_convolution_way fastest =
        *desc && strstr(implementation(m, *desc), "avx2") ? mst_convolution_onednn_fastest(m->g) : MST_AS_THEY_LIE;
    if (*desc && fastest == MST_AS_THEY_LIE) return 0;
    if (*desc) (void)m->d->primitive_desc_destroy(*desc);
    *desc = NULL;
    *chosen = ITS_OWN;
    return fastest == MST_BY_PRODUCTS ? 0 : desc_make(m, ITS_OWN, desc);
}

/* 0 or what a function of the library returned; NONE: it does not compute this. */
static int state_fill(const making *m) {
    const mst_onednn *d = m->d;
    onednn_state *state = m->state;
    form form;
    void *desc;
    int code = desc_choose(m, &form, &desc);
    if (code || !desc) return code ? code : NONE;
    code = d->primitive_create(&state->primitive, desc);
    if (!code) code = d->stream_create(&state->stream, d->engine, MST_ONEDNN_IN_ORDER);
    for (int32_t i = 0; !code && i < OPERANDS; i++) code = operand_make(m, desc, i, form);
    const void *scratch = code ? NULL : d->primitive_desc_query_md(desc, MST_ONEDNN_QUERY_SCRATCHPAD, 0);
    state->scratch_bytes = scratch ? (int64_t)d->md_get_size(scratch) : 0;
    if (state->scratch_bytes > 0) code = d->memory_create(&state->scratchpad, scratch, d->engine, NULL);
    (void)d->primitive_desc_destroy(desc);
    return code;
}

/* On a thread of the library: compiling takes more stack than the program's thread may have. */
static muster_status state_task(void *argument) {
    making *m = argument;
    const int before = mst_onednn_threads_one(), code = state_fill(m);
    mst_onednn_threads_restore(before);
    if (!code) return MUSTER_OK;
    onednn_destroy(m->state);
    m->state = NULL;
    /* Without memory nobody else computes it: later calls would have other bits. */
    return code == MST_ONEDNN_OUT_OF_MEMORY ? mst_out_of_memory("muster_function_call: oneDNN", 0) : MUSTER_OK;
}

static muster_status onednn_create(muster_worker *worker, const mst_convolution_geometry *g, void **state) {
    making m = {.g = g};
    *state = NULL;
    if (g->dtype != MUSTER_F32 || !mst_device_is_host(worker->device) || (g->has_bias && g->bias_stride != 1)) return MUSTER_OK;
    for (int32_t i = X; i <= Y; i++) {
        const layout l = layout_of(g, i);
        if (!is_plain(&l)) return MUSTER_OK;
    }
    if (!(m.d = mst_onednn_get())) return MUSTER_OK;
    if (!(m.state = mst_alloc(sizeof *m.state))) return mst_out_of_memory("muster_function_call", (int64_t)sizeof *m.state);
    m.state->result = g->kind == MST_CONVOLUTION_FORWARD ? Y : g->kind == MST_CONVOLUTION_DATA ? X : W;
    const muster_status status = mst_own_thread_run(state_task, &m, "muster_function_call: oneDNN");
    if (status != MUSTER_OK && m.state) onednn_destroy(m.state);
    if (status == MUSTER_OK) *state = m.state;
    return status;
}

/* ---- running ---- */

/* Since the process began: of x and y, of w. */
static atomic_int_fast64_t reorders[2];
int64_t mst_convolution_onednn_reorders(bool of_weights) { return atomic_load_explicit(&reorders[of_weights], memory_order_relaxed); }

static muster_status failed(int code) {
    return mst_error(MUSTER_INTERNAL, "muster_expr_convolution: oneDNN: expected success, received status %d", code);
}

/* Memory for the operands that lie otherwise, and for the primitive. */
static muster_status memory_give(muster_worker *worker, const mst_onednn *d, onednn_state *state, const mst_convolution_parameters *p) {
    char *const addresses[OPERANDS] = {p->x, p->w, p->y, p->bias};
    for (int32_t i = 0; i < OPERANDS; i++) {
        operand *o = &state->operands[i];
        void *other = NULL;
        if (!o->memory) continue;
        int code = d->memory_set_data_handle(o->memory, addresses[i]);
        if (o->other) MUSTER_TRY(mst_worker_scratch_bytes(worker, o->bytes, &other));
        if (!code && o->other) code = d->memory_set_data_handle(o->other, other);
        if (code) return failed(code);
    }
    if (!state->scratchpad) return MUSTER_OK;
    void *scratch = NULL;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, state->scratch_bytes, &scratch));
    const int code = d->memory_set_data_handle(state->scratchpad, scratch);
    return code ? failed(code) : MUSTER_OK;
}

static int reorder_run(const mst_onednn *d, const onednn_state *state, const operand *o, bool back) {
    const mst_onednn_argument arguments[2] = {{MST_ONEDNN_FROM, back ? o->other : o->memory}, {MST_ONEDNN_TO, back ? o->memory : o->other}};
    return d->primitive_execute(o->reorder, state->stream, 2, arguments);
}

static int primitives_run(const mst_onednn *d, const onednn_state *state) {
    mst_onednn_argument arguments[MOST_ARGUMENTS];
    int32_t count = 0;
    int code = 0;
    for (int32_t i = 0; i < OPERANDS; i++) {
        const operand *o = &state->operands[i];
        if (!o->memory) continue;
        if (o->reorder) atomic_fetch_add_explicit(&reorders[i == W], 1, memory_order_relaxed);
        if (o->reorder && i != state->result && !code) code = reorder_run(d, state, o, false);
        arguments[count++] = (mst_onednn_argument){o->argument, o->other ? o->other : o->memory};
    }
    if (state->scratchpad) arguments[count++] = (mst_onednn_argument){MST_ONEDNN_SCRATCHPAD, state->scratchpad};
    if (!code) code = d->primitive_execute(state->primitive, state->stream, count, arguments);
    const operand *result = &state->operands[state->result];
    return code || !result->reorder ? code : reorder_run(d, state, result, true);
}

static muster_status state_run(muster_worker *worker, onednn_state *state, const mst_convolution_parameters *p) {
    const mst_onednn *d = mst_onednn_get();
    MUSTER_TRY(memory_give(worker, d, state, p));
    const int before = mst_onednn_threads_one(), code = primitives_run(d, state);
    mst_onednn_threads_restore(before);
    return code ? failed(code) : MUSTER_OK;
}

static muster_status onednn_run(muster_worker *worker, void *made, const mst_convolution_parameters *p) {
    MUSTER_TRY(mst_worker_drain(worker));
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(state_run(worker, made, p));
    return muster_worker_scratch_release(worker, mark);
}

const mst_convolution_library mst_convolution_onednn = {"oneDNN", onednn_create, onednn_run, onednn_destroy};
