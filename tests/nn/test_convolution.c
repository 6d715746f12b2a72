/* The three computations of a convolution against seven loops in f64: random shapes, each kind of
 * layout, all dtypes; on CPU cores with BLAS, without, and by oneDNN, and by the kernels; on GPUs
 * by the kernels, and by cuDNN. The numbers are small integers, so that sums of f32 and f64 are
 * exact. */
#include "base_check.h"
#include "base_machine.h"
#include "convolution/convolution_impl.h"
#include "convolution/library_private.h"
#include "device_discrete.h"
#include "nn_impl.h"
#include "nn_onednn.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>
#include <stdlib.h>

enum { X, W, Y, OPERANDS, AXES = 3, MOST = 5 };
enum { CONTIGUOUS, CHANNELS_LAST, STRIDED, LAYOUTS };
static const char *const kinds[] = {"forward", "data", "weights"};

/* ---- cases ---- */

typedef struct shape_case {
    mst_convolution convolution;
    int64_t shapes[OPERANDS][MUSTER_MAX_DIMS];
    int32_t ndim;
} shape_case;

static int64_t between(int64_t low, int64_t high) { return low + ops_random(high - low + 1); }

static void finish_case(shape_case *c, int64_t n, int64_t channels, int64_t outputs, const int64_t *extents) {
    mst_window *window = &c->convolution.window;
    c->ndim = window->axes + 2;
    c->shapes[X][0] = c->shapes[Y][0] = n;
    c->shapes[X][1] = channels * c->convolution.groups;
    c->shapes[W][0] = c->shapes[Y][1] = outputs * c->convolution.groups;
    c->shapes[W][1] = channels;
    for (int32_t d = 0; d < window->axes; d++) {
        c->shapes[X][2 + d] = extents[d];
        c->shapes[W][2 + d] = window->size[d];
        c->shapes[Y][2 + d] = mst_window_places(window, d, extents[d], false);
    }
}

/* Few elements, with everything that can be different. */
static void small_case(shape_case *c) {
    int64_t extents[AXES];
    const int64_t style = ops_random(4);
    *c = (shape_case){.convolution = {.groups = style == 0 ? between(2, 3) : style == 1 ? between(2, 9) : 1}};
    mst_window *window = &c->convolution.window;
    window->axes = (int32_t)between(1, 3);
    for (int32_t d = 0; d < window->axes; d++) {
        extents[d] = ops_random(16) ? between(1, window->axes == 1 ? 40 : 7) : 0;
        window->size[d] = between(1, 3) + (ops_random(8) == 0 ? 5 : 0); /* some are larger than x */
        window->stride[d] = between(1, 3);
        window->dilation[d] = ops_random(3) ? 1 : between(2, 3);
        window->before[d] = ops_random(2) ? between(0, 3) : 0;
        window->after[d] = ops_random(2) ? between(0, 3) : 0;
    }
    const bool pointwise = ops_random(5) == 0;
    for (int32_t d = 0; pointwise && d < window->axes; d++)
        window->size[d] = window->stride[d] = 1, window->before[d] = window->after[d] = 0;
    const int64_t channels = style == 1 ? 1 : ops_random(16) ? between(1, 4) : 0;
    const int64_t outputs = style == 1 ? between(1, 3) : ops_random(16) ? between(1, 5) : 0;
    finish_case(c, ops_random(12) ? between(1, 3) : 0, channels, outputs, extents);
}

/* Several panels of places, in one image or across images. */
static void large_case(shape_case *c) {
    *c = (shape_case){.convolution = {.groups = between(1, 2), .window = {.axes = 2}}};
    mst_window *window = &c->convolution.window;
    const bool pointwise = ops_random(3) == 0;
    const int64_t extent = ops_random(2) ? between(9, 12) : between(19, 22), size = pointwise ? 1 : between(2, 4);
    for (int32_t d = 0; d < 2; d++) window->size[d] = size, window->stride[d] = window->dilation[d] = 1;
    if (!pointwise) window->before[0] = between(0, 2), window->after[1] = between(0, 2), window->stride[1] = between(1, 2);
    finish_case(c, between(2, extent > 12 ? 3 : 8), 16 / c->convolution.groups, between(3, 10), (const int64_t[]){extent, extent});
}

static int64_t storage_of(const shape_case *c, int32_t operand) {
    int64_t count = 1;
    for (int32_t d = 0; d < c->ndim; d++) count *= c->shapes[operand][d];
    return count;
}

/* The operand in the layout. Nothing repeats an element of a result. */
static ops_pair operand_of(muster_worker *w, muster_dtype dtype, const shape_case *c, int32_t operand, int32_t layout, bool result) {
    const int64_t *shape = c->shapes[operand];
    if (layout == STRIDED && storage_of(c, operand) < 600) return ops_view(w, dtype, c->ndim, shape, !result);
    ops_pair pair = ops_make(w, dtype, storage_of(c, operand));
    pair.host = muster_tensor_make(dtype, pair.host_storage.data, c->ndim, shape);
    if (layout == CHANNELS_LAST) {
        int64_t stride = shape[1];
        pair.host.strides[1] = 1;
        for (int32_t d = c->ndim - 1; d >= 2; d--) {
            pair.host.strides[d] = stride;
            stride *= shape[d];
        }
        pair.host.strides[0] = stride;
    }
    ops_place(&pair);
    return pair;
}

/* ---- the oracle ---- */

static int64_t flat(const int64_t *shape, const int64_t *index) {
    int64_t at = 0;
    for (int32_t d = 0; d < MOST; d++) at = at * shape[d] + index[d];
    return at;
}

/* With three extents, of which those that are missing are 1. */
static void widened(const shape_case *c, int32_t operand, int64_t shape[MOST]) {
    shape[0] = c->shapes[operand][0];
    shape[1] = c->shapes[operand][1];
    for (int32_t d = 2; d < MOST; d++) shape[d] = d - 2 < c->ndim - 2 ? c->shapes[operand][d] : 1;
}

static void values_of(const shape_case *c, const ops_pair *pair, int32_t operand, double *values) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    if (storage_of(c, operand) == 0) return;
    do values[i++] = ops_element(pair->host, c->ndim, index);
    while (ops_next(c->ndim, c->shapes[operand], index));
}

/* Adds to the values of the operand that `kind` computes. */
static void seven_loops(const shape_case *c, int32_t kind, double *values[OPERANDS]) {
    int64_t x[MOST], w[MOST], y[MOST], p[AXES], k[AXES];
    const mst_window *window = &c->convolution.window;
    widened(c, X, x), widened(c, W, w), widened(c, Y, y);
    const int64_t outputs = w[0] / c->convolution.groups, taps = w[2] * w[3] * w[4], places = y[2] * y[3] * y[4];
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t o = 0; o < w[0]; o++)
            for (int64_t place = 0; place < places; place++)
                for (int64_t tap = 0; tap < taps; tap++) {
                    bool inside = true;
                    int64_t at[AXES] = {0};
                    p[2] = place % y[4], p[1] = place / y[4] % y[3], p[0] = place / y[4] / y[3];
                    k[2] = tap % w[4], k[1] = tap / w[4] % w[3], k[0] = tap / w[4] / w[3];
                    for (int32_t d = 0; d < window->axes; d++) {
                        at[d] = p[d] * window->stride[d] + k[d] * window->dilation[d] - window->before[d];
                        inside = inside && at[d] >= 0 && at[d] < x[2 + d];
                    }
                    for (int64_t channel = 0; inside && channel < w[1]; channel++) {
                        double *of_y = &values[Y][flat(y, (int64_t[]){n, o, p[0], p[1], p[2]})];
                        double *of_w = &values[W][flat(w, (int64_t[]){o, channel, k[0], k[1], k[2]})];
                        double *of_x = &values[X][flat(x, (int64_t[]){n, o / outputs * w[1] + channel, at[0], at[1], at[2]})];
                        if (kind == 0) *of_y += *of_w * *of_x;
                        if (kind == 1) *of_x += *of_w * *of_y;
                        if (kind == 2) *of_w += *of_x * *of_y;
                    }
                }
}

/* ---- one case ---- */

static const int32_t result_of[] = {Y, X, W};

static muster_status compute(muster_worker *worker, const shape_case *c, int32_t kind, const ops_pair *pairs, const ops_pair *bias,
                             void **state) {
    const muster_tensor *x = &pairs[X].device, *w = &pairs[W].device, *y = &pairs[Y].device;
    if (kind == 0) return mst_convolution_forward(worker, &c->convolution, x, w, bias ? &bias->device : NULL, y, state, "test");
    if (kind == 1) return mst_convolution_data(worker, &c->convolution, y, w, x, state, "test");
    return mst_convolution_weights(worker, &c->convolution, x, y, w, state, "test");
}

/* What the storage has besides the view is what it had. */
static void assert_rest_untouched(const shape_case *c, int32_t operand, const ops_pair *pair, const void *before) {
    const int64_t size = muster_dtype_size(pair->host.dtype), bytes = muster_tensor_count(pair->host_storage) * size;
    static _Alignas(64) char after[OPS_STORAGE * 8];
    int64_t index[MUSTER_MAX_DIMS] = {0};
    memcpy(after, pair->host_storage.data, (size_t)bytes);
    if (storage_of(c, operand)) do {
            int64_t offset = pair->host.byte_offset;
            for (int32_t d = 0; d < c->ndim; d++) offset += index[d] * pair->host.strides[d] * size;
            memcpy(after + offset, (const char *)before + offset, (size_t)size);
        } while (ops_next(c->ndim, c->shapes[operand], index));
    assert_memory_equal(after, before, bytes);
}

static void run_case(muster_worker *worker, const shape_case *c, muster_dtype dtype, int32_t kind, const int32_t *layouts) {
    static double memory[OPERANDS][OPS_STORAGE];
    static _Alignas(64) char before[OPS_STORAGE * 8];
    double *values[OPERANDS] = {memory[X], memory[W], memory[Y]};
    ops_pair pairs[OPERANDS], bias;
    const int32_t result = result_of[kind];
    const bool has_bias = kind == 0 && ops_random(2) == 1;
    const int64_t mark = muster_worker_scratch_mark(worker);
    void *state = NULL;
    for (int32_t i = 0; i < OPERANDS; i++) {
        pairs[i] = operand_of(worker, dtype, c, i, layouts[i], i == result);
        values_of(c, &pairs[i], i, values[i]);
    }
    for (int64_t i = 0; i < storage_of(c, result); i++) values[result][i] = 0;
    if (has_bias) {
        bias = ops_view(worker, dtype, 1, c->shapes[W], true);
        int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
        if (storage_of(c, Y)) do
                values[Y][i++] = ops_element(bias.host, 1, &index[1]);
            while (ops_next(c->ndim, c->shapes[Y], index));
    }
    const int64_t storage = muster_tensor_count(pairs[result].host_storage);
    memcpy(before, pairs[result].host_storage.data, (size_t)(storage * muster_dtype_size(dtype)));
    seven_loops(c, kind, values);
    assert_ok(compute(worker, c, kind, pairs, has_bias ? &bias : NULL, &state));
    ops_fetch(worker, &pairs[result]);
    mst_convolution_release(state);
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    if (storage_of(c, result)) do {
            const double received = ops_element(pairs[result].host, c->ndim, index), expected = values[result][i++];
            const double limit = dtype == MUSTER_F32 || dtype == MUSTER_F64 ? 0 : ops_precision(dtype);
            if (received >= expected - limit * (1 + fabs(expected)) && received <= expected + limit * (1 + fabs(expected))) continue;
            fail_msg("%s, %s, element %d: expected %g, received %g", kinds[kind], muster_dtype_name(dtype), (int)i - 1, expected, received);
        } while (ops_next(c->ndim, c->shapes[result], index));
    assert_rest_untouched(c, result, &pairs[result], before);
    assert_ok(muster_worker_scratch_release(worker, mark));
}

/* ---- many cases ---- */

static int32_t cases, empty, for_cudnn;

/* Our kernels have what is empty, and where each group has one channel of x. */
static bool is_for_cudnn(const shape_case *c, int32_t kind) {
    const bool depthwise = c->convolution.groups > 1 && c->shapes[W][1] == 1 && kind != 2;
    return storage_of(c, X) && storage_of(c, W) && storage_of(c, Y) && !depthwise;
}

static muster_status small_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(40, 1000);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (int32_t kind = 0; kind < 3; kind++) {
                shape_case c;
                do small_case(&c);
                while (storage_of(&c, X) > 4000 || storage_of(&c, Y) > 4000 || storage_of(&c, W) > 4000);
                const int32_t style = (int32_t)ops_random(LAYOUTS + 1);
                int32_t layouts[OPERANDS] = {style, style, style};
                for (int32_t i = 0; style == LAYOUTS && i < OPERANDS; i++) layouts[i] = (int32_t)ops_random(LAYOUTS);
                run_case(worker, &c, dtype, kind, layouts);
                cases++;
                for_cudnn += is_for_cudnn(&c, kind);
                empty += storage_of(&c, Y) == 0;
            }
    return MUSTER_OK;
}

static muster_status large_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(2, 60);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (int32_t kind = 0; kind < 3; kind++)
                for (int32_t layout = 0; layout < 4; layout++) {
                    shape_case c;
                    large_case(&c);
                    /* in the last one x and y differ */
                    const int32_t of_x = layout == 3 ? CHANNELS_LAST : layout % 2, of_y = layout == 3 ? CONTIGUOUS : layout % 2;
                    run_case(worker, &c, dtype, kind, (const int32_t[]){of_x, CONTIGUOUS, of_y});
                    cases++;
                    for_cudnn += is_for_cudnn(&c, kind);
                }
    return MUSTER_OK;
}

/* oneDNN, with its runs counted. */
static int32_t onednn_runs;
static muster_status counted_create(muster_worker *worker, const mst_convolution_geometry *geometry, void **state) {
    return mst_convolution_onednn.create(worker, geometry, state);
}
static muster_status counted_run(muster_worker *worker, void *state, const mst_convolution_parameters *parameters) {
    onednn_runs++;
    return mst_convolution_onednn.run(worker, state, parameters);
}
static void counted_destroy(void *state) { mst_convolution_onednn.destroy(state); }

static void run_by_onednn(mst_task body) {
    static const mst_convolution_library counted = {"counted", counted_create, counted_run, counted_destroy};
    static const mst_convolution_library *const list[] = {&counted, NULL};
    const mst_convolution_library *const *before = mst_convolution_libraries;
    const int32_t cases_before = cases;
    mst_convolution_libraries = list;
    onednn_runs = 0;
    ops_seed();
    const muster_status status = ops_run_on("host", body, NULL);
    mst_convolution_libraries = before;
    assert_ok(status);
    assert_non_null(mst_onednn_get());
    /* a quarter of the cases is f32, of which those are left out that are strided or empty, or have
     * shapes for which it has plain loops only */
    assert_in_range(onednn_runs, (cases - cases_before) / 20, (cases - cases_before) / 4);
}

/* cuDNN, the same; its handle is made first. */
static int32_t cudnn_runs;
static muster_status cudnn_create(muster_worker *worker, const mst_convolution_geometry *geometry, void **state) {
    return mst_convolution_cudnn.create(worker, geometry, state);
}
static muster_status cudnn_run(muster_worker *worker, void *state, const mst_convolution_parameters *parameters) {
    cudnn_runs++;
    return mst_convolution_cudnn.run(worker, state, parameters);
}
static void cudnn_destroy(void *state) { mst_convolution_cudnn.destroy(state); }

static muster_status opened_body(muster_worker *worker, void *body) {
    mst_convolution_open(worker->device);
    return (*(const mst_task *)body)(worker, NULL);
}

static void run_by_cudnn(mst_task body) {
    static const mst_convolution_library counted = {"counted", cudnn_create, cudnn_run, cudnn_destroy};
    static const mst_convolution_library *const list[] = {&counted, NULL};
    const char *asked = getenv("MUSTER_CUDNN");
    const bool none = asked && strcmp(asked, "none") == 0;
    const int64_t calls = machine_calls("cudnnConvolutionForward");
    const mst_convolution_library *const *before = mst_convolution_libraries;
    mst_convolution_libraries = list;
    cudnn_runs = for_cudnn = 0;
    ops_seed();
    const muster_status status = ops_run_on("discrete", opened_body, &body);
    mst_convolution_libraries = before;
    assert_ok(status);
    assert_int_equal(cudnn_runs, none ? 0 : for_cudnn);
    if (calls >= 0) assert_int_equal(machine_calls("cudnnConvolutionForward") > calls, !none);
}

static void run_everywhere(mst_task body) {
    static const char *const backends[] = {"host", "discrete"};
    static const mst_convolution_library *const none[] = {NULL};
    mst_convolution_libraries = none; /* the library's own code */
    for (int b = ops_first_backend(); b < 2; b++) {
        ops_seed();
        assert_ok(ops_run_on(backends[b], body, NULL));
    }
    if (on_gpus()) {
        run_by_cudnn(body);
        return;
    }
    ops_seed();
    assert_ok(mst_blas_open(false));
    const bool blas = mst_blas_get()->sgemm != NULL;
    const muster_status status = ops_run_on("host", body, NULL);
    mst_blas_close();
    assert_ok(status);
    assert_true(blas);
    run_by_onednn(body);
}

static int32_t places_to_run(void) { return on_gpus() ? 3 - ops_first_backend() : 4; }

static void small_shapes_agree_with_seven_loops(void **state) {
    (void)state;
    cases = empty = 0;
    run_everywhere(small_body);
    assert_int_equal(cases, ops_rounds(40, 1000) * 12 * places_to_run());
    assert_true(empty > cases / 20 && empty < cases / 2);
}

static void shapes_of_several_panels_agree_with_seven_loops(void **state) {
    (void)state;
    cases = 0;
    run_everywhere(large_body);
    assert_int_equal(cases, ops_rounds(2, 60) * 48 * places_to_run());
}

/* With 64 channels, which lie last, oneDNN's adapter chooses between three ways by the shape. */
enum { MANY_CHANNELS = 64, MANY_EXTENTS = 4, MANY_CASES = 2 * 2 * MANY_EXTENTS * 3 };

static muster_status many_channels_body(muster_worker *worker, void *unused) {
    static const int64_t extents[MANY_EXTENTS] = {7, 8, 14, 22};
    (void)unused;
    for (int64_t size = 1; size <= 2; size++)
        for (int64_t stride = 1; stride <= 2; stride++)
            for (int32_t e = 0; e < MANY_EXTENTS; e++)
                for (int32_t kind = 0; kind < 3; kind++, cases++) {
                    shape_case c = {.convolution = {.groups = 1, .window = {.axes = 2}}};
                    for (int32_t d = 0; d < 2; d++) {
                        c.convolution.window.size[d] = size;
                        c.convolution.window.stride[d] = stride;
                        c.convolution.window.dilation[d] = 1;
                    }
                    finish_case(&c, 1, MANY_CHANNELS, MANY_CHANNELS, (const int64_t[]){extents[e], extents[e]});
                    run_case(worker, &c, MUSTER_F32, kind, (const int32_t[]){CHANNELS_LAST, CONTIGUOUS, CHANNELS_LAST});
                }
    return MUSTER_OK;
}

static void many_channels_agree_with_seven_loops(void **state) {
    static const mst_convolution_library counted = {"counted", counted_create, counted_run, counted_destroy};
    static const mst_convolution_library *const list[] = {&counted, NULL};
    const mst_convolution_library *const *before = mst_convolution_libraries;
    (void)state;
    if (on_gpus()) return;
    cases = onednn_runs = 0;
    ops_seed();
    assert_ok(mst_blas_open(false));
    mst_convolution_libraries = list;
    const muster_status status = ops_run_on("host", many_channels_body, NULL);
    mst_convolution_libraries = before;
    mst_blas_close();
    assert_ok(status);
    assert_int_equal(cases, MANY_CASES);
    assert_true(onednn_runs > 0);
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx512f")) assert_true(onednn_runs < MANY_CASES); /* the others by products of matrices */
#endif
}

/* ---- foreign libraries ---- */

static struct { int32_t created, run, destroyed, asked; } seen;

/* Takes everything but groups, and marks what it has computed. */
static muster_status fake_create(muster_worker *worker, const mst_convolution_geometry *geometry, void **state) {
    (void)worker;
    if (geometry->axes == 3) return mst_error(MUSTER_OUT_OF_MEMORY, "fake: no memory");
    if (geometry->groups > 1) return MUSTER_OK;
    seen.created++;
    *state = &seen;
    return MUSTER_OK;
}
static muster_status fake_run(muster_worker *worker, void *state, const mst_convolution_parameters *p) {
    const muster_tensor y = muster_tensor_make(MUSTER_F32, p->y, MST_CONVOLUTION_DIMS, p->geometry.y.shape);
    muster_tensor of_worker = y;
    assert_ptr_equal(state, &seen);
    of_worker.device = worker->rank;
    seen.run++;
    return muster_fill(worker, 77, of_worker);
}
static void fake_destroy(void *state) {
    assert_ptr_equal(state, &seen);
    seen.destroyed++;
}
static muster_status refusing_create(muster_worker *worker, const mst_convolution_geometry *geometry, void **state) {
    (void)worker, (void)geometry, (void)state;
    seen.asked++;
    return MUSTER_OK;
}

static shape_case library_case(int32_t axes, int64_t groups, int64_t n) {
    shape_case c = {.convolution = {.groups = groups, .window = {.axes = axes}}};
    mst_window *window = &c.convolution.window;
    for (int32_t d = 0; d < axes; d++) window->size[d] = window->stride[d] = window->dilation[d] = 1;
    finish_case(&c, n, 2, 2, (const int64_t[]){2, 2, 2});
    return c;
}

static muster_status library_compute_in(muster_worker *worker, const shape_case *c, int32_t layout, void **state, double *first) {
    ops_pair pairs[OPERANDS];
    for (int32_t i = 0; i < OPERANDS; i++) pairs[i] = operand_of(worker, MUSTER_F32, c, i, i == W ? layout : CONTIGUOUS, i == Y);
    MUSTER_TRY(compute(worker, c, 0, pairs, NULL, state));
    if (!storage_of(c, Y)) return MUSTER_OK;
    ops_fetch(worker, &pairs[Y]);
    *first = ops_element(pairs[Y].host, c->ndim, (const int64_t[MUSTER_MAX_DIMS]){0});
    return MUSTER_OK;
}

static muster_status library_compute(muster_worker *worker, const shape_case *c, void **state, double *first) {
    return library_compute_in(worker, c, CONTIGUOUS, state, first);
}

static muster_status library_body(muster_worker *worker, void *unused) {
    const shape_case one = library_case(2, 1, 1), grouped = library_case(1, 2, 1), refused = library_case(3, 1, 1),
                     none = library_case(2, 1, 0);
    void *state = NULL;
    double first = 0;
    (void)unused;
    for (int32_t i = 0; i < 3; i++) assert_ok(library_compute(worker, &one, &state, &first));
    assert_true(first == 77);
    assert_int_equal(seen.created, 1);
    assert_int_equal(seen.run, 3);
    assert_int_equal(seen.asked, 1); /* the first of the list takes nothing */
    for (int32_t i = 0; i < 3; i++) assert_ok(library_compute(worker, &grouped, &state, &first));
    assert_true(first < 77);
    assert_int_equal(seen.asked, 2); /* and is not asked again */
    assert_int_equal(seen.created, 1);
    for (int32_t i = 0; i < 3; i++) assert_ok(library_compute(worker, &none, &state, &first));
    assert_int_equal(seen.asked, 2); /* nothing to compute */
    assert_refused(library_compute(worker, &refused, &state, &first), MUSTER_OUT_OF_MEMORY, "fake: no memory");
    assert_ok(library_compute(worker, &one, &state, &first));
    assert_int_equal(seen.created, 1);
    assert_int_equal(seen.destroyed, 0);
    /* a state keeps the 8 that were used last */
    assert_ok(library_compute_in(worker, &one, CHANNELS_LAST, &state, &first)); /* other strides */
    assert_int_equal(seen.created, 2);
    for (int64_t n = 2; n <= 7; n++) {
        const shape_case other = library_case(2, 1, n);
        assert_ok(library_compute(worker, &other, &state, &first));
    }
    assert_int_equal(seen.created, 8);
    assert_int_equal(seen.destroyed, 0); /* the one that went had no state: the case with groups */
    const shape_case last = library_case(2, 1, 9);
    assert_ok(library_compute(worker, &last, &state, &first));
    assert_int_equal(seen.created, 9);
    assert_int_equal(seen.destroyed, 1);
    assert_ok(library_compute(worker, &one, &state, &first)); /* made again */
    assert_int_equal(seen.created, 10);
    mst_convolution_release(state);
    assert_int_equal(seen.destroyed, 10);
    mst_convolution_release(NULL);
    return MUSTER_OK;
}

static void foreign_libraries_are_asked_first_and_keep_their_states(void **state) {
    static const mst_convolution_library refusing = {"refusing", refusing_create, fake_run, fake_destroy},
                                         fake = {"fake", fake_create, fake_run, fake_destroy};
    static const mst_convolution_library *const list[] = {&refusing, &fake, NULL};
    const mst_convolution_library *const *before = mst_convolution_libraries;
    (void)state;
    memset(&seen, 0, sizeof seen);
    mst_convolution_libraries = list;
    const muster_status status = ops_run_on("host", library_body, NULL);
    mst_convolution_libraries = before;
    assert_ok(status);
}

/* ---- refusals ---- */

static muster_status refuse_body(muster_worker *worker, void *unused) {
    const shape_case c = library_case(2, 1, 1);
    ops_pair pairs[OPERANDS];
    void *state = NULL;
    int32_t refused = 0;
    (void)unused;
    for (int32_t i = 0; i < OPERANDS; i++) pairs[i] = operand_of(worker, MUSTER_F32, &c, i, CONTIGUOUS, i == Y);
    const muster_tensor x = pairs[X].device, w = pairs[W].device, y = pairs[Y].device;
    muster_tensor wrong;
#define REFUSED(given_x, given_w, given_bias, given_y, status, message)                                                                \
    do {                                                                                                                               \
        assert_refused(mst_convolution_forward(worker, &c.convolution, given_x, given_w, given_bias, given_y, &state, "here"), status, \
                       message);                                                                                                       \
        refused++;                                                                                                                     \
    } while (0)
    wrong = x, wrong.dtype = MUSTER_I32;
    REFUSED(&wrong, &w, NULL, &y, MUSTER_UNSUPPORTED, "here: x: expected f16, bf16, f32 or f64, received i32");
    wrong = w, wrong.dtype = MUSTER_F16;
    REFUSED(&x, &wrong, NULL, &y, MUSTER_DTYPE_MISMATCH, "here: w: expected the dtype of x, f32, received f16");
    wrong = x, wrong.ndim = 3;
    REFUSED(&wrong, &w, NULL, &y, MUSTER_SHAPE_MISMATCH, "here: x: expected 4 dimensions, received shape (1, 2, 2)");
    wrong = w, wrong.shape[1] = 1;
    REFUSED(&x, &wrong, NULL, &y, MUSTER_SHAPE_MISMATCH,
            "here: w: expected 1 groups of weights for 2 channels, received shape (2, 1, 1, 1)");
    wrong = y, wrong.shape[3] = 1;
    REFUSED(&x, &w, NULL, &wrong, MUSTER_SHAPE_MISMATCH, "here: y: expected shape (1, 2, 2, 2), received (1, 2, 2, 1)");
    REFUSED(&x, &w, &x, &y, MUSTER_SHAPE_MISMATCH, "here: bias: expected shape (2,), received (1, 2, 2, 2)");
    assert_int_equal(refused, 6);
    assert_null(state);
    return MUSTER_OK;
}

static void wrong_operands_are_refused(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", refuse_body, NULL));
}

static int add_code(void **state) {
    (void)state;
    return mst_code_add(&mst_nn_code) == MUSTER_OK && mst_discrete_register() == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes_agree_with_seven_loops),  cmocka_unit_test(shapes_of_several_panels_agree_with_seven_loops),
        cmocka_unit_test(many_channels_agree_with_seven_loops), cmocka_unit_test(foreign_libraries_are_asked_first_and_keep_their_states),
        cmocka_unit_test(wrong_operands_are_refused),           cmocka_unit_test(onednn_is_the_one_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, add_code, NULL);
}
