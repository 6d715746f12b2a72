/* Pooling on a CPU core. Loops run along the channels where these lie behind each other in memory,
 * else along the last axis of the places; both are lines of y. */
#include "own_private.h"
#include "window/window_impl.h"

#include <math.h>

enum { MOST_STRIDE = 4, COLUMNS = 240 }; /* the most elements of x that the windows of a line span, if its rows are combined first */
enum { LAST = MST_POOLING_DIMS - 1, CHANNELS = 1, LINE = 512, FEW = 12 }; /* LINE: the most places of a line, which lie on the stack */

/* From element `first` of the window to the one before `end` lie in x. */
typedef struct pooling_span {
    int64_t first, end;
} pooling_span;

typedef struct pooling_work {
    const mst_pooling_parameters *p;
    int32_t axis;                           /* of y, along which lines lie */
    const mst_pooling_layout *x, *z;        /* where they are read or written: p's, or the wide one */
    char *at_x, *at_z;                      /* the first elements */
    int64_t step_x, step_y, step_z;         /* from a place of a line to the next */
    pooling_span *inside[MST_POOLING_AXES]; /* [places]: the elements of their windows */
    double *counts[MST_POOLING_AXES];       /* [places]: how many elements the average counts */
    pooling_span *having; /* [size of the last axis]: the places, if there were more of them, too, whose element k lies in x */
    int64_t span, most;   /* elements that a window spans along the last axis; places of a line */
    bool rows;            /* rows are combined first */
    int64_t *offsets;     /* [window]: from its first element in z to each of them */
} pooling_work;

typedef struct pooling_line {
    int64_t place[MST_POOLING_DIMS], length;
    pooling_span inside[MST_POOLING_AXES]; /* the elements of the windows of all places of the line; those of `having` besides */
    int64_t x, y, z;                       /* offsets of the first place's window, which may begin before x, and of its result */
    double count;                          /* without the last axis, where the line lies along it */
} pooling_line;

static int64_t pooling_window_begin(const pooling_work *w, const mst_pooling_layout *layout, const int64_t *place) {
    int64_t offset = place[0] * layout->strides[0] + place[CHANNELS] * layout->strides[CHANNELS];
    for (int32_t d = 0; d < MST_POOLING_AXES; d++) offset += (place[2 + d] * w->p->stride[d] - w->p->before[d]) * layout->strides[2 + d];
    return offset;
}

/* Goes to the next line; *line is zeroed at first. false: there are no more. */
static bool pooling_next(const pooling_work *w, pooling_line *line) {
    const mst_pooling_layout *y = &w->p->y;
    int64_t *place = line->place;
    place[w->axis] += line->length;
    if (place[w->axis] == y->shape[w->axis]) {
        int32_t d = LAST;
        place[w->axis] = 0;
        for (; d >= 0; d--) {
            if (d == w->axis) continue;
            if (++place[d] < y->shape[d]) break;
            place[d] = 0;
        }
        if (d < 0) return false;
    }
    line->length = y->shape[w->axis] - place[w->axis];
    if (line->length > w->most) line->length = w->most;
    line->count = 1;
    line->y = 0;
    for (int32_t d = 0; d < MST_POOLING_DIMS; d++) line->y += place[d] * y->strides[d];
    for (int32_t d = 0; d < MST_POOLING_AXES; d++) {
        const bool along = w->axis == 2 + d;
        line->inside[d] = along ? (pooling_span){0, w->p->size[d]} : w->inside[d][place[2 + d]];
        if (!along) line->count *= w->counts[d][place[2 + d]];
    }
    line->x = pooling_window_begin(w, w->x, place);
    line->z = pooling_window_begin(w, w->z, place);
    return true;
}

/* The places of the line that have element c of the last axis of their windows in x. */
static inline pooling_span pooling_having(const pooling_work *w, const pooling_line *line, int64_t c) {
    pooling_span span = {0, line->length};
    if (w->axis != LAST) return span;
    const pooling_span having = w->having[c];
    const int64_t first = having.first - line->place[LAST], end = having.end - line->place[LAST];
    if (first > span.first) span.first = first;
    if (end < span.end) span.end = end;
    return span;
}

/* For each element of the windows of the line that some places have in x: `k` is its number, and
 * `at` its offset from the first element of its window. The places are those of `span`. */
#define POOLING_EACH(w, line, k, at, span)                                                                                                 \
    for (int64_t a = (line).inside[0].first; a < (line).inside[0].end; a++)                                                                \
        for (int64_t b = (line).inside[1].first; b < (line).inside[1].end; b++)                                                            \
            for (int64_t c = (line).inside[2].first, k = (a * (w)->p->size[1] + b) * (w)->p->size[2] + c, at = pooling_offset(w, a, b, c); \
                 c < (line).inside[2].end; c++, k++, at += (w)->p->dilation[2] * (w)->x->strides[LAST])                                    \
                for (pooling_span span = pooling_having(w, &(line), c); span.first < span.end; span.first = span.end)

static inline int64_t pooling_offset(const pooling_work *w, int64_t a, int64_t b, int64_t c) {
    const int64_t *dilation = w->p->dilation, *strides = w->x->strides + 2;
    return a * dilation[0] * strides[0] + b * dilation[1] * strides[1] + c * dilation[2] * strides[2];
}

/* The first element of the last window of the line, counted from that of the first. */
static inline int64_t pooling_last_window(const pooling_work *w, const pooling_line *line) {
    return (line->length - 1) * w->p->stride[MST_POOLING_AXES - 1];
}

/* The elements along the last axis that lie in x, from the first element of the first window on. */
static inline pooling_span pooling_columns(const pooling_work *w, const pooling_line *line) {
    const int64_t begin = line->place[LAST] * w->p->stride[MST_POOLING_AXES - 1] - w->p->before[MST_POOLING_AXES - 1];
    const int64_t all = pooling_last_window(w, line) + w->span, end = w->p->x.shape[LAST] - begin;
    return (pooling_span){begin < 0 ? -begin : 0, end < all ? end : all};
}

/* LOOP with the step 1, 2, or any: the first two are vectorised. */
#define POOLING_STEPS(step, LOOP) \
    do {                          \
        if ((step) == 1) {        \
            LOOP(1)               \
        } else if ((step) == 2) { \
            LOOP(2)               \
        } else {                  \
            LOOP(step)            \
        }                         \
    } while (0)

#define SUFFIX f32
#define T float
#define C float
#define K int32_t
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include "pooling_loops.h"
#define SUFFIX f64
#define T double
#define C double
#define K int64_t
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include "pooling_loops.h"
#define SUFFIX f16
#define T uint16_t
#define C float
#define K int32_t
#define LOAD muster_f16_to_f32
#define STORE muster_f32_to_f16
#include "pooling_loops.h"
#define SUFFIX bf16
#define T uint16_t
#define C float
#define K int32_t
#define LOAD muster_bf16_to_f32
#define STORE muster_f32_to_bf16
#include "pooling_loops.h"

/* ---- tables ---- */

static muster_status pooling_tables_axis(pooling_work *w, muster_worker *worker, const mst_window *window, int32_t d) {
    const mst_pooling_parameters *p = w->p;
    const int64_t places = p->y.shape[2 + d], extent = p->x.shape[2 + d];
    void *inside, *counts;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, places * (int64_t)sizeof *w->inside[d], &inside));
    MUSTER_TRY(mst_worker_scratch_bytes(worker, places * (int64_t)sizeof *w->counts[d], &counts));
    w->inside[d] = inside;
    w->counts[d] = counts;
    for (int64_t place = 0; place < places; place++) {
        int64_t none, all;
        pooling_span *span = &w->inside[d][place];
        mst_window_inside(window, d, place, extent, &span->first, &span->end);
        /* padding before x is counted, since no window begins before it */
        mst_window_inside(window, d, place, extent + p->after[d], &none, &all);
        w->counts[d][place] = (double)(p->counts_padding ? all : span->end - span->first);
    }
    return MUSTER_OK;
}

static muster_status pooling_tables_last(pooling_work *w, muster_worker *worker) {
    const mst_pooling_parameters *p = w->p;
    const int32_t d = MST_POOLING_AXES - 1;
    const int64_t stride = p->stride[d];
    void *having;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, p->size[d] * (int64_t)sizeof *w->having, &having));
    w->having = having;
    for (int64_t k = 0; k < p->size[d]; k++) {
        /* at place 0 the element lies at -distance, and at extent - behind */
        const int64_t distance = p->before[d] - k * p->dilation[d], behind = p->x.shape[LAST] + distance;
        pooling_span *span = &w->having[k];
        span->first = distance > 0 ? (distance + stride - 1) / stride : 0;
        span->end = behind > 0 ? (behind + stride - 1) / stride : 0;
    }
    return MUSTER_OK;
}

static muster_status pooling_tables_offsets(pooling_work *w, muster_worker *worker) {
    const int64_t *size = w->p->size, *dilation = w->p->dilation, *strides = w->z->strides + 2;
    void *offsets;
    int64_t i = 0;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, size[0] * size[1] * size[2] * (int64_t)sizeof *w->offsets, &offsets));
    w->offsets = offsets;
    for (int64_t a = 0; a < size[0]; a++)
        for (int64_t b = 0; b < size[1]; b++)
            for (int64_t c = 0; c < size[2]; c++)
                w->offsets[i++] = a * dilation[0] * strides[0] + b * dilation[1] * strides[1] + c * dilation[2] * strides[2];
    return MUSTER_OK;
}

static muster_status pooling_tables(pooling_work *w, muster_worker *worker) {
    const mst_pooling_parameters *p = w->p;
    mst_window window = {.axes = MST_POOLING_AXES};
    for (int32_t d = 0; d < MST_POOLING_AXES; d++) {
        window.size[d] = p->size[d];
        window.stride[d] = p->stride[d];
        window.dilation[d] = p->dilation[d];
        window.before[d] = p->before[d];
        MUSTER_TRY(pooling_tables_axis(w, worker, &window, d));
    }
    if (p->kind == MST_POOLING_TAKE || p->kind == MST_POOLING_MAX_GRADIENT) MUSTER_TRY(pooling_tables_offsets(w, worker));
    return w->axis == LAST ? pooling_tables_last(w, worker) : MUSTER_OK;
}

/* ---- running ---- */

/* The gradient is summed where it is, or, of halves, in memory of the worker. *wide: where. */
static muster_status pooling_wide(muster_worker *worker, muster_tensor *dx, muster_tensor *wide) {
    *wide = *dx;
    if (dx->dtype != MUSTER_F64 && dx->dtype != MUSTER_F32) {
        MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, MST_POOLING_DIMS, dx->shape, wide));
        MUSTER_TRY(mst_op_check(worker, wide, "muster_function_call", "scratch memory"));
    }
    return muster_fill(worker, 0, *wide);
}

static muster_tensor pooling_tensor(int32_t dtype, char *address, const mst_pooling_layout *layout) {
    muster_tensor tensor = {.data = address, .device = MUSTER_DEVICE_HOST, .dtype = dtype, .ndim = MST_POOLING_DIMS};
    for (int32_t d = 0; d < MST_POOLING_DIMS; d++) {
        tensor.shape[d] = layout->shape[d];
        tensor.strides[d] = layout->strides[d];
    }
    return tensor;
}

static mst_pooling_layout pooling_layout(const muster_tensor *tensor) {
    mst_pooling_layout layout;
    for (int32_t d = 0; d < MST_POOLING_DIMS; d++) {
        layout.shape[d] = tensor->shape[d];
        layout.strides[d] = tensor->strides[d];
    }
    return layout;
}

typedef void (*pooling_loop)(const pooling_work *w);
#define KINDS(name) \
    { pooling_max_##name, pooling_take_##name, pooling_max_gradient_##name, pooling_sum_##name, pooling_sum_gradient_##name }
static const pooling_loop pooling_loops[MST_DTYPE_COUNT][MST_POOLING_KINDS] = {
    [MUSTER_F16] = KINDS(f16), [MUSTER_BF16] = KINDS(bf16), [MUSTER_F32] = KINDS(f32), [MUSTER_F64] = KINDS(f64)};

static bool pooling_is_empty(const mst_pooling_layout *layout) {
    bool empty = false;
    for (int32_t d = 0; d < MST_POOLING_DIMS; d++) empty = empty || layout->shape[d] == 0;
    return empty;
}

/* Where the channels lie behind each other; and where the last axis has so few places that a line
 * along it would cost more than its elements. */
static bool pooling_goes_by_channels(const mst_pooling_parameters *p) {
    const int64_t channels = p->x.shape[CHANNELS];
    return channels > 1 && (p->x.strides[CHANNELS] == 1 || (p->y.shape[LAST] < FEW && channels > p->y.shape[LAST]));
}

static muster_status pooling_lines(pooling_work *w, muster_worker *worker) {
    const mst_pooling_parameters *p = w->p;
    if (pooling_is_empty(&p->y)) return MUSTER_OK;
    w->axis = pooling_goes_by_channels(p) ? CHANNELS : LAST;
    const int64_t stride = w->axis == LAST ? p->stride[MST_POOLING_AXES - 1] : 1;
    w->step_x = stride * w->x->strides[w->axis];
    w->step_z = stride * w->z->strides[w->axis];
    w->step_y = p->y.strides[w->axis];
    w->span = (p->size[MST_POOLING_AXES - 1] - 1) * p->dilation[MST_POOLING_AXES - 1] + 1;
    w->rows = w->axis == LAST && stride <= MOST_STRIDE && w->span <= COLUMNS / 2;
    w->most = w->rows && (COLUMNS - w->span) / stride + 1 < LINE ? (COLUMNS - w->span) / stride + 1 : LINE;
    MUSTER_TRY(pooling_tables(w, worker));
    pooling_loops[p->dtype][p->kind](w);
    return MUSTER_OK;
}

static muster_status pooling_run(muster_worker *worker, const mst_pooling_parameters *p) {
    pooling_work w = {.p = p, .x = &p->x, .z = &p->z, .at_x = p->at_x, .at_z = p->at_z};
    const bool of_x = p->kind == MST_POOLING_SUM_GRADIENT;
    if (!of_x && p->kind != MST_POOLING_MAX_GRADIENT) return pooling_lines(&w, worker);
    if (pooling_is_empty(&p->x)) return MUSTER_OK;
    muster_tensor dx = pooling_tensor(p->dtype, of_x ? p->at_x : p->at_z, of_x ? &p->x : &p->z), wide;
    MUSTER_TRY(pooling_wide(worker, &dx, &wide));
    const mst_pooling_layout layout = pooling_layout(&wide);
    *(of_x ? &w.x : &w.z) = &layout;
    *(of_x ? &w.at_x : &w.at_z) = muster_tensor_address(wide);
    MUSTER_TRY(pooling_lines(&w, worker));
    if (wide.dtype != dx.dtype) mst_copy_host(&wide, &dx);
    return MUSTER_OK;
}

muster_status mst_pooling_host(muster_worker *worker, const mst_pooling_parameters *p) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(pooling_run(worker, p));
    return muster_worker_scratch_release(worker, mark);
}
