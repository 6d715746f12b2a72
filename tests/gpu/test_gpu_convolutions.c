/* Convolutions and their gradients against plain loops, in 4 dtypes, and the times of layers of
 * networks: by cuDNN, or with MUSTER_CUDNN=none by the library's own kernels. One line for each:
 *
 *     measured: conv3x3_forward way=cudnn type=f32 ranks=1 bytes=25690112 us=123.4
 *
 * where bytes are those of x. MUSTER_TEST_CUDNN=1: skipped (77) where there is no cuDNN. On the
 * simulated machine, and with MUSTER_TEST_SHORT=1, the layers are small, and the figures mean
 * nothing. */
#include "gpu_runtime.h"

#include <math.h>

enum { FORWARD, DATA, WEIGHTS, KINDS, X = 0, W, G, OPERANDS, BLOCKS = 5, DTYPES = 4 };
static const char *const kinds[KINDS] = {"forward", "data", "weights"};
static const muster_dtype dtypes[DTYPES] = {MUSTER_F32, MUSTER_F16, MUSTER_BF16, MUSTER_F64};

typedef struct layer {
    const char *name;
    int64_t n, channels, outputs, extent, window, stride, before, after, groups;
} layer;
static const layer small[] = {
    {"plain", 2, 3, 4, 7, 3, 1, 1, 1, 1},     {"stride", 2, 4, 8, 9, 3, 2, 1, 1, 1}, {"one", 3, 8, 16, 5, 1, 1, 0, 0, 1},
    {"wide", 1, 2, 3, 12, 7, 1, 3, 3, 1},     {"even", 2, 3, 4, 8, 2, 2, 0, 1, 1},   {"groups", 2, 8, 8, 6, 3, 1, 1, 1, 2},
    {"depthwise", 2, 6, 6, 6, 3, 1, 1, 1, 6}, {"many", 2, 64, 32, 8, 3, 1, 1, 1, 1},
};
static const layer large[] = {
    {"conv7x7", 32, 3, 64, 224, 7, 2, 3, 3, 1},          {"conv1x1", 32, 256, 64, 56, 1, 1, 0, 0, 1},
    {"conv3x3", 32, 64, 64, 56, 3, 1, 1, 1, 1},          {"deep3x3", 32, 512, 512, 7, 3, 1, 1, 1, 1},
    {"depthwise3x3", 32, 128, 128, 56, 3, 1, 1, 1, 128},
};
enum { SMALL = sizeof small / sizeof *small, LARGE = sizeof large / sizeof *large };

static int64_t places(const layer *l) { return (l->extent + l->before + l->after - l->window) / l->stride + 1; }

static void shape_of(const layer *l, int operand, int64_t shape[4]) {
    const int64_t shapes[OPERANDS][4] = {{l->n, l->channels, l->extent, l->extent},
                                         {l->outputs, l->channels / l->groups, l->window, l->window},
                                         {l->n, l->outputs, places(l), places(l)}};
    memcpy(shape, shapes[operand], sizeof shapes[operand]);
}

static int64_t count_of(const layer *l, int operand) {
    int64_t shape[4];
    shape_of(l, operand, shape);
    return shape[0] * shape[1] * shape[2] * shape[3];
}

/* -2 to 2. */
static double value_of(int64_t i, int seed) {
    return (double)((uint32_t)(i * 2654435761u + (uint32_t)seed * 40503u) >> 7 & 1023) / 256 - 2;
}

static double rounded(muster_dtype dtype, double value) {
    if (dtype == MUSTER_F64) return value;
    if (dtype == MUSTER_F32) return (float)value;
    return dtype == MUSTER_F16 ? muster_f16_to_f32(muster_f32_to_f16((float)value)) : muster_bf16_to_f32(muster_f32_to_bf16((float)value));
}

static void encode(muster_dtype dtype, double value, void *at) {
    const float real = (float)value;
    const uint16_t half = dtype == MUSTER_F16 ? muster_f32_to_f16(real) : muster_f32_to_bf16(real);
    if (dtype == MUSTER_F64)
        memcpy(at, &value, sizeof value);
    else if (dtype == MUSTER_F32)
        memcpy(at, &real, sizeof real);
    else
        memcpy(at, &half, sizeof half);
}

static double decode(muster_dtype dtype, const void *at) {
    double value;
    float real;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (dtype == MUSTER_F16) return muster_f16_to_f32(half);
    if (dtype == MUSTER_BF16) return muster_bf16_to_f32(half);
    memcpy(&real, at, sizeof real);
    if (dtype == MUSTER_F32) return real;
    memcpy(&value, at, sizeof value);
    return value;
}

/* ---- the function: y, and the gradients of sum(y * g) ---- */

static muster_function *function_of(muster_runtime *runtime, const layer *l, muster_dtype dtype) {
    static const char *const names[OPERANDS] = {"x", "w", "g"};
    muster_expr *operand[OPERANDS], *gradients[2];
    muster_graph *graph;
    muster_graph_options options;
    muster_function *function;
    char text[200];
    assert_ok(muster_graph_create(runtime, l->name, &graph));
    for (int i = 0; i < OPERANDS; i++) {
        int64_t shape[4];
        shape_of(l, i, shape);
        operand[i] = muster_graph_input(graph, names[i], dtype, 4, shape, MUSTER_BROADCAST);
    }
    snprintf(text, sizeof text, "convolution(x, w, stride=%d, padding=(%d, %d, %d, %d), groups=%d)", (int)l->stride, (int)l->before,
             (int)l->before, (int)l->after, (int)l->after, (int)l->groups);
    muster_expr *y = muster_expr_parse(graph, text), *loss = muster_expr_parse(graph, "sum(y * g)", "y", y);
    assert_ok(muster_gradient(loss, operand, 2, gradients));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_MASTER));
    assert_ok(muster_graph_output(graph, "dx", gradients[0], MUSTER_MASTER));
    assert_ok(muster_graph_output(graph, "dw", gradients[1], MUSTER_MASTER));
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

/* ---- on the device ---- */

typedef struct job {
    const layer *layer;
    muster_dtype dtype;
    muster_function *function;
    int32_t times; /* 0: once, and compared */
    double us[KINDS];
    double *results[KINDS]; /* of y, dx, dw */
} job;

static const int of_kind[KINDS] = {G, X, W}; /* whose shape the result has */

static muster_status operand_put(muster_worker *w, const job *j, int operand, muster_tensor *made) {
    int64_t shape[4];
    shape_of(j->layer, operand, shape);
    const int64_t count = count_of(j->layer, operand), width = muster_dtype_size(j->dtype);
    char *host = malloc((size_t)(count * width));
    if (!host) return MUSTER_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) encode(j->dtype, value_of(i, operand), host + i * width);
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 4, shape, made));
    const muster_status status = muster_worker_write(w, muster_tensor_make(j->dtype, host, 4, shape), *made);
    const muster_status done = status == MUSTER_OK ? muster_worker_sync(w) : status;
    free(host);
    return done;
}

static muster_status result_get(muster_worker *w, const job *j, int kind, muster_tensor result) {
    int64_t shape[4];
    shape_of(j->layer, of_kind[kind], shape);
    const int64_t count = count_of(j->layer, of_kind[kind]), width = muster_dtype_size(j->dtype);
    char *host = malloc((size_t)(count * width));
    if (!host) return MUSTER_OUT_OF_MEMORY;
    const muster_status status = muster_worker_read(w, result, muster_tensor_make(j->dtype, host, 4, shape));
    for (int64_t i = 0; i < count && status == MUSTER_OK; i++) j->results[kind][i] = decode(j->dtype, host + i * width);
    free(host);
    return status;
}

static muster_status time_kind(muster_worker *w, job *j, int kind, const muster_tensor *in, const muster_tensor *out) {
    double best = INFINITY;
    for (int block = -1; block < BLOCKS; block++) { /* one to warm up */
        MUSTER_TRY(muster_worker_sync(w));
        const double began = gpu_now_us();
        for (int32_t i = 0; i < j->times; i++) MUSTER_TRY(muster_worker_run(w, j->function, in, OPERANDS, out, KINDS));
        MUSTER_TRY(muster_worker_sync(w));
        if (block >= 0) best = fmin(best, (gpu_now_us() - began) / j->times);
    }
    j->us[kind] = best;
    return MUSTER_OK;
}

static muster_status run_body(muster_worker *w, const muster_tensor *none, muster_tensor *nothing, void *user) {
    job *j = user;
    muster_tensor in[OPERANDS];
    (void)none, (void)nothing;
    for (int i = 0; i < OPERANDS; i++) MUSTER_TRY(operand_put(w, j, i, &in[i]));
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t shape[4];
        muster_tensor out[KINDS] = {muster_tensor_none(), muster_tensor_none(), muster_tensor_none()};
        shape_of(j->layer, of_kind[kind], shape);
        MUSTER_TRY(muster_worker_scratch(w, j->dtype, 4, shape, &out[kind]));
        MUSTER_TRY(muster_worker_run(w, j->function, in, OPERANDS, out, KINDS));
        if (j->times)
            MUSTER_TRY(time_kind(w, j, kind, in, out));
        else
            MUSTER_TRY(result_get(w, j, kind, out[kind]));
    }
    return MUSTER_OK;
}

static void run_job(muster_runtime *runtime, job *j) {
    j->function = function_of(runtime, j->layer, j->dtype);
    muster_function *outer;
    assert_ok(muster_function_create(runtime, "outer", run_body, j, &outer));
    assert_ok(muster_function_graph(outer, j->function));
    assert_ok(muster_function_set_runs_without_rows(outer, 1));
    assert_ok(muster_function_call(outer, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(outer));
    assert_ok(muster_function_destroy(j->function));
}

/* ---- compared with plain loops ---- */

static void expect(const layer *l, muster_dtype dtype, double *results[KINDS]) {
    const int64_t in = l->channels / l->groups, outputs = l->outputs / l->groups, p = places(l), k = l->window, e = l->extent;
    for (int kind = 0; kind < KINDS; kind++) memset(results[kind], 0, sizeof(double) * (size_t)count_of(l, of_kind[kind]));
    for (int64_t n = 0; n < l->n; n++)
        for (int64_t o = 0; o < l->outputs; o++)
            for (int64_t at = 0; at < p * p; at++)
                for (int64_t tap = 0; tap < k * k; tap++) {
                    const int64_t row = at / p * l->stride + tap / k - l->before, column = at % p * l->stride + tap % k - l->before;
                    if (row < 0 || row >= e || column < 0 || column >= e) continue;
                    for (int64_t c = 0; c < in; c++) {
                        const int64_t x = ((n * l->channels + o / outputs * in + c) * e + row) * e + column;
                        const int64_t w = (o * in + c) * k * k + tap, y = (n * l->outputs + o) * p * p + at;
                        const double vx = rounded(dtype, value_of(x, X)), vw = rounded(dtype, value_of(w, W)),
                                     vg = rounded(dtype, value_of(y, G));
                        results[FORWARD][y] += vx * vw;
                        results[DATA][x] += vw * vg;
                        results[WEIGHTS][w] += vx * vg;
                    }
                }
}

static void compare(muster_runtime *runtime, const layer *l, muster_dtype dtype) {
    const double limit = dtype == MUSTER_F64 ? 1e-10 : dtype == MUSTER_F32 ? 2e-4 : dtype == MUSTER_F16 ? 2e-2 : 0.1;
    double *expected[KINDS];
    job j = {.layer = l, .dtype = dtype};
    for (int kind = 0; kind < KINDS; kind++) {
        expected[kind] = calloc((size_t)count_of(l, of_kind[kind]), sizeof(double));
        j.results[kind] = calloc((size_t)count_of(l, of_kind[kind]), sizeof(double));
    }
    expect(l, dtype, expected);
    run_job(runtime, &j);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int64_t i = 0; i < count_of(l, of_kind[kind]); i++)
            if (!(fabs(j.results[kind][i] - expected[kind][i]) <= limit * (1 + fabs(expected[kind][i]))))
                fail_msg("%s, %s, %s, element %d: expected %g, received %g", l->name, muster_dtype_name(dtype), kinds[kind], (int)i,
                         expected[kind][i], j.results[kind][i]);
        free(expected[kind]);
        free(j.results[kind]);
    }
}

static void convolutions_are_those_of_plain_loops(void **state) {
    int compared = 0;
    for (int l = 0; l < SMALL; l++)
        for (int d = 0; d < DTYPES; d++, compared++) compare(*state, &small[l], dtypes[d]);
    assert_int_equal(compared, 32);
    printf("found: %d convolutions, each with both gradients, %s\n", compared,
           strstr(muster_runtime_description(*state), "no cuDNN") ? "without cuDNN" : "with cuDNN");
}

/* ---- times ---- */

static void layers_take_their_time(void **state) {
    const char *description = muster_runtime_description(*state);
    const bool short_of_time = gpu_asked("MUSTER_TEST_SHORT") || strstr(description, "all simulated") || !strstr(description, "cuda:");
    const char *way = strstr(description, "no cuDNN") || !strstr(description, "cuDNN") ? "kernels" : "cudnn";
    int measured = 0;
    for (int i = 0; i < LARGE; i++)
        for (int d = 0; d < (short_of_time ? 1 : 3); d++) {
            layer l = large[i];
            if (short_of_time) l.n = 1, l.extent = 8, l.channels = l.groups > 1 ? 4 : 3, l.outputs = 4, l.groups = l.groups > 1 ? 4 : 1;
            job j = {.layer = &l, .dtype = dtypes[d], .times = short_of_time ? 1 : 5};
            run_job(*state, &j);
            for (int kind = 0; kind < KINDS; kind++, measured++)
                printf("measured: %s_%s way=%s type=%s ranks=1 bytes=%lld us=%.3f\n", l.name, kinds[kind], way, muster_dtype_name(j.dtype),
                       (long long)(count_of(&l, X) * muster_dtype_size(j.dtype)), j.us[kind]);
        }
    assert_int_equal(measured, LARGE * KINDS * (short_of_time ? 1 : 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_those_of_plain_loops),
        cmocka_unit_test(layers_take_their_time),
    };
    if (gpu_asked("MUSTER_TEST_CUDNN")) {
        muster_runtime *runtime = gpu_open(NULL);
        if (!runtime) return 1;
        const bool without = strstr(muster_runtime_description(runtime), "no cuDNN") != NULL;
        if (muster_runtime_close(runtime) != MUSTER_OK) return 1;
        if (without) return printf("there is no cuDNN\n"), 77;
    }
    return cmocka_run_group_tests(tests, gpu_begin, gpu_end);
}
