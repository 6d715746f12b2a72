/* Batch normalisation on one device and on several: y, gradients and running statistics over
 * several steps against two passes in f64; means that are large beside the deviations; the
 * exchanges of a step; statistics of each device (per_device). */
#include "graph_fixture.h"
#include "memory_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 4, INNER = 3, EACH = CHANNELS * INNER, MOST_ROWS = 64, MOST = MOST_ROWS * EACH, MOST_DEVICES = 8 };
enum { MEAN, VARIANCE, SCALE, BIAS, VARIABLES };
static const char *const names[VARIABLES] = {"mean", "variance", "scale", "bias"};
static const double epsilon = 1e-3, momentum = 0.25;

static double number_at(int64_t i) { return sin(0.7 + 1.3 * (double)i + 0.1 * (double)(i % 7)); }
static int64_t edge_of(int64_t rows, int32_t devices, int32_t d) { return rows * d / devices; }

/* ---- what is expected: plain loops in f64, the mean first ---- */

typedef struct expected {
    double y[MOST], dx[MOST];
    double mean[CHANNELS], variance[CHANNELS]; /* of the rows */
    double dscale[CHANNELS], dbias[CHANNELS];  /* the loss is the sum of y weights */
} expected;

static double weight_at(int64_t i) { return 0.5 + number_at(i * 3 + 11); }

/* One channel of the rows from `first` up to `end`. Gradients of parameters are added. */
static void channel_expect(const double *x, int64_t first, int64_t end, int32_t c, double scale, double bias, expected *e) {
    const double n = (double)((end - first) * INNER);
    double mean = 0, variance = 0, sum = 0, product = 0;
#define EACH_ELEMENT                            \
    for (int64_t row = first; row < end; row++) \
        for (int64_t i = row * EACH + c * INNER, last = i + INNER; i < last; i++)
    EACH_ELEMENT mean += x[i] / n;
    EACH_ELEMENT variance += (x[i] - mean) * (x[i] - mean) / n;
    const double inverse = 1 / sqrt(variance + epsilon);
    EACH_ELEMENT {
        e->y[i] = (x[i] - mean) * inverse * scale + bias;
        sum += weight_at(i);
        product += weight_at(i) * (x[i] - mean) * inverse;
    }
    EACH_ELEMENT e->dx[i] = scale * inverse * (weight_at(i) - sum / n - (x[i] - mean) * inverse * product / n);
    e->dscale[c] += product;
    e->dbias[c] += sum;
    e->mean[c] = mean;
    e->variance[c] = variance;
}

static void rows_expect(const double *x, int64_t first, int64_t end, double (*parameters)[CHANNELS], expected *e) {
    for (int32_t c = 0; c < CHANNELS && first < end; c++) channel_expect(x, first, end, c, parameters[SCALE][c], parameters[BIAS][c], e);
}

static void expect_near(const char *what, int32_t devices, int64_t rows, const double *received, const double *wanted, int64_t count,
                        double limit) {
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(received[i] - wanted[i]) <= limit * (1 + fabs(wanted[i]))))
            fail_msg("%s on %d devices with %d rows: element %d: expected %.17g, received %.17g", what, (int)devices, (int)rows, (int)i,
                     wanted[i], received[i]);
}

/* ---- the graph ---- */

typedef struct layer {
    muster_runtime *runtime;
    muster_variable *variables[VARIABLES];
    muster_function *function;
    muster_dtype dtype;
    int32_t devices;
} layer;

static muster_tensor tensor_in(muster_dtype dtype, double *values, void *memory, int32_t ndim, const int64_t *shape) {
    const muster_tensor as_given = muster_tensor_make(MUSTER_F64, values, ndim, shape);
    if (dtype == MUSTER_F64) return as_given;
    for (int64_t i = 0; i < muster_tensor_count(as_given); i++) ((float *)memory)[i] = (float)values[i];
    return muster_tensor_make(MUSTER_F32, memory, ndim, shape);
}

static void widened(muster_dtype dtype, double *values, int64_t count) {
    float narrow[MOST];
    if (dtype == MUSTER_F64) return;
    memcpy(narrow, values, (size_t)count * sizeof *narrow);
    for (int64_t i = 0; i < count; i++) values[i] = (double)narrow[i];
}

static const double starts[VARIABLES][CHANNELS] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {1.5, -0.5, 1, 2}, {0.25, 0, -1, 3}};

/* Its outputs: y, dx, dscale and dbias. The statistics are updated, the parameters are not. */
static void layer_make(layer *l, const char *devices, muster_dtype dtype, const char *per_device, const muster_graph_options *options) {
    muster_graph *graph;
    muster_expr *p[VARIABLES], *d[3];
    char text[128];
    l->runtime = graph_runtime(devices);
    l->devices = muster_runtime_size(l->runtime);
    l->dtype = dtype;
    assert_ok(muster_graph_create(l->runtime, "layer", &graph));
    muster_expr *x = muster_graph_input(graph, "x", dtype, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, INNER), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "w", dtype, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, INNER), MUSTER_SCATTER);
    for (int32_t v = 0; v < VARIABLES; v++) {
        double start[CHANNELS];
        float memory[CHANNELS];
        memcpy(start, starts[v], sizeof start);
        assert_ok(
            muster_variable_create(l->runtime, names[v], tensor_in(dtype, start, memory, 1, (int64_t[]){CHANNELS}), &l->variables[v]));
        p[v] = muster_graph_parameter(graph, l->variables[v]);
    }
    snprintf(text, sizeof text, "batch_norm(x, mean, variance, scale, bias, training=1, epsilon=1e-3%s)", per_device);
    muster_expr *y = muster_expr_parse(graph, text);
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(y * w)", "y", y), (muster_expr *const[]){x, p[SCALE], p[BIAS]}, 3, d));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "dx", d[0], MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "dscale", d[1], MUSTER_SUM));
    assert_ok(muster_graph_output(graph, "dbias", d[2], MUSTER_SUM));
    assert_ok(muster_graph_update(graph, l->variables[MEAN], muster_expr_parse(graph, "batch_norm_mean(x, mean, 0.25)"), MUSTER_AUTO));
    assert_ok(muster_graph_update(graph, l->variables[VARIANCE],
                                  muster_expr_parse(graph, "batch_norm_variance(x, mean, variance, 0.25, ddof=1)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, options, &l->function));
    assert_ok(muster_graph_destroy(graph));
}

static void layer_end(layer *l) {
    assert_ok(muster_function_destroy(l->function));
    for (int32_t v = 0; v < VARIABLES; v++) assert_ok(muster_variable_destroy(l->variables[v]));
    assert_ok(muster_runtime_close(l->runtime));
}

typedef struct results {
    double y[MOST], dx[MOST], dscale[CHANNELS], dbias[CHANNELS];
} results;

static void layer_call(const layer *l, double *x, int64_t rows, results *r) {
    static double w[MOST];
    static float x32[MOST], w32[MOST];
    const int64_t shape[] = {rows, CHANNELS, INNER}, channels[] = {CHANNELS};
    for (int64_t i = 0; i < rows * EACH; i++) w[i] = weight_at(i);
    const muster_tensor in[] = {tensor_in(l->dtype, x, x32, 3, shape), tensor_in(l->dtype, w, w32, 3, shape)};
    const muster_tensor out[] = {muster_tensor_make(l->dtype, r->y, 3, shape), muster_tensor_make(l->dtype, r->dx, 3, shape),
                                 muster_tensor_make(l->dtype, r->dscale, 1, channels), muster_tensor_make(l->dtype, r->dbias, 1, channels)};
    assert_ok(muster_function_call(l->function, in, 2, out, 4, NULL));
    widened(l->dtype, r->y, rows * EACH);
    widened(l->dtype, r->dx, rows * EACH);
    widened(l->dtype, r->dscale, CHANNELS);
    widened(l->dtype, r->dbias, CHANNELS);
}

static void variable_read(const layer *l, int32_t v, int32_t rank, double values[CHANNELS]) {
    assert_ok(muster_variable_get(l->variables[v], rank, muster_tensor_make(l->dtype, values, 1, (int64_t[]){CHANNELS})));
    widened(l->dtype, values, CHANNELS);
}

/* ---- steps against the oracle ---- */

/* Of f32: numbers around 10^4, with deviations of about 1, which the squares of f32 do not show. */
static void rows_draw(muster_dtype dtype, double *x, int64_t rows, int32_t step) {
    for (int64_t i = 0; i < rows * EACH; i++)
        x[i] = (double)(float)((dtype == MUSTER_F32 ? 1e4 : 10) + 3 * (double)(i / INNER % CHANNELS) + number_at(i * 5 + 1000 * step));
}

static void statistics_step(double (*parameters)[CHANNELS], const expected *e, int64_t rows) {
    const double n = (double)(rows * INNER), unbiased = n / fmax(n - 1, 1);
    for (int32_t c = 0; c < CHANNELS; c++) {
        parameters[MEAN][c] += momentum * (e->mean[c] - parameters[MEAN][c]);
        parameters[VARIANCE][c] += momentum * (e->variance[c] * unbiased - parameters[VARIANCE][c]);
    }
}

static void statistics_compare(const layer *l, int64_t rows, double (*parameters)[CHANNELS], double limit) {
    double first[CHANNELS], values[CHANNELS];
    for (int32_t v = MEAN; v <= VARIANCE; v++)
        for (int32_t rank = 0; rank < l->devices; rank++) {
            variable_read(l, v, rank, rank ? values : first);
            if (rank) assert_memory_equal(values, first, sizeof first);
            expect_near(names[v], l->devices, rows, first, parameters[v], CHANNELS, limit);
        }
}

static void steps_compare(const char *devices, muster_dtype dtype) {
    static const int64_t rows[] = {7, 1, 64, 7};
    const double limit = dtype == MUSTER_F32 ? 2e-5 : 1e-10;
    static double x[MOST];
    double parameters[VARIABLES][CHANNELS];
    layer l;
    layer_make(&l, devices, dtype, "", NULL);
    memcpy(parameters, starts, sizeof parameters);
    for (int32_t step = 0; step < 4; step++) {
        static expected e;
        static results r;
        e = (expected){.y = {0}};
        rows_draw(dtype, x, rows[step], step);
        rows_expect(x, 0, rows[step], parameters, &e);
        layer_call(&l, x, rows[step], &r);
        expect_near("y", l.devices, rows[step], r.y, e.y, rows[step] * EACH, limit);
        expect_near("dx", l.devices, rows[step], r.dx, e.dx, rows[step] * EACH, 4 * limit);
        expect_near("dscale", l.devices, rows[step], r.dscale, e.dscale, CHANNELS, 4 * limit);
        expect_near("dbias", l.devices, rows[step], r.dbias, e.dbias, CHANNELS, limit);
        statistics_step(parameters, &e, rows[step]);
        statistics_compare(&l, rows[step], parameters, limit);
    }
    layer_end(&l);
}

static void steps_are_those_of_two_passes(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t devices = 1; devices <= MOST_DEVICES; devices++) {
        char text[16];
        snprintf(text, sizeof text, "host:%d", (int)devices);
        steps_compare(text, MUSTER_F32);
        steps_compare(text, MUSTER_F64);
        compared += 2;
    }
    assert_int_equal(compared, 2 * MOST_DEVICES);
}

static void variable_write(const layer *l, int32_t v, const double values[CHANNELS]) {
    double given[CHANNELS];
    float memory[CHANNELS];
    memcpy(given, values, sizeof given);
    assert_ok(muster_variable_set_whole(l->variables[v], tensor_in(l->dtype, given, memory, 1, (int64_t[]){CHANNELS})));
}

/* A mean of 10^8 and deviations of 1: the squares have all 16 digits of f64 before the point, so
 * that sums around 0 would lose the variance in f64, too. Around the running mean they do not. */
static void sums_are_taken_around_the_running_mean(void **state) {
    enum { ROWS = 7 };
    static double x[ROWS * EACH];
    static expected e;
    static results r;
    double parameters[VARIABLES][CHANNELS];
    layer l;
    (void)state;
    memcpy(parameters, starts, sizeof parameters);
    layer_make(&l, "host:3", MUSTER_F64, "", NULL);
    for (int32_t c = 0; c < CHANNELS; c++) parameters[MEAN][c] = 1e8 + 0.5;
    variable_write(&l, MEAN, parameters[MEAN]);
    for (int64_t i = 0; i < ROWS * EACH; i++) x[i] = 1e8 + number_at(i * 5);
    rows_expect(x, 0, ROWS, parameters, &e);
    layer_call(&l, x, ROWS, &r);
    expect_near("y", l.devices, ROWS, r.y, e.y, ROWS * EACH, 1e-7);
    expect_near("dx", l.devices, ROWS, r.dx, e.dx, ROWS * EACH, 1e-7);
    statistics_step(parameters, &e, ROWS);
    statistics_compare(&l, ROWS, parameters, 1e-12);
    layer_end(&l);
}

/* ---- statistics of each device ---- */

/* The running statistics are those of all rows, the others those of the rows of each device. */
static void own_compare(const char *devices, int64_t rows, muster_dtype dtype, muster_graph_meaning meaning, const char *per_device) {
    static double x[MOST];
    static expected of_devices, all;
    static results r;
    double parameters[VARIABLES][CHANNELS];
    const double limit = dtype == MUSTER_F32 ? 2e-5 : 1e-10;
    muster_graph_options options;
    layer l;
    of_devices = all = (expected){.y = {0}};
    memcpy(parameters, starts, sizeof parameters);
    muster_graph_options_init(&options);
    options.meaning = meaning;
    layer_make(&l, devices, dtype, per_device, &options);
    rows_draw(dtype, x, rows, 3);
    for (int32_t d = 0; d < l.devices; d++)
        rows_expect(x, edge_of(rows, l.devices, d), edge_of(rows, l.devices, d + 1), parameters, &of_devices);
    layer_call(&l, x, rows, &r);
    expect_near("y of each device", l.devices, rows, r.y, of_devices.y, rows * EACH, limit);
    expect_near("dx of each device", l.devices, rows, r.dx, of_devices.dx, rows * EACH, 4 * limit);
    expect_near("dscale of each device", l.devices, rows, r.dscale, of_devices.dscale, CHANNELS, 4 * limit);
    expect_near("dbias of each device", l.devices, rows, r.dbias, of_devices.dbias, CHANNELS, limit);
    if (meaning == MUSTER_ONE_DEVICE) {
        rows_expect(x, 0, rows, parameters, &all);
        statistics_step(parameters, &all, rows);
        statistics_compare(&l, rows, parameters, limit);
    }
    layer_end(&l);
}

static void each_device_has_statistics_of_its_own(void **state) {
    static const int64_t rows[] = {64, 7, 2, 1};
    int32_t compared = 0;
    (void)state;
    for (int32_t devices = 1; devices <= MOST_DEVICES; devices++)
        for (int32_t i = 0; i < 4; i++, compared++) {
            char text[16];
            snprintf(text, sizeof text, "host:%d", (int)devices);
            own_compare(text, rows[i], i % 2 ? MUSTER_F32 : MUSTER_F64, MUSTER_ONE_DEVICE, ", per_device=1");
        }
    assert_int_equal(compared, 4 * MOST_DEVICES);
}

static void workers_apart_have_statistics_of_their_own(void **state) {
    (void)state;
    own_compare("host:3", 7, MUSTER_F64, MUSTER_PER_WORKER, "");
    own_compare("host:3", 7, MUSTER_F64, MUSTER_PER_WORKER, ", per_device=1");
}

static void shards_refuse_statistics_of_devices(void **state) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_graph *graph;
    (void)state;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.logical_shards = 4;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_graph_create(runtime, "refused", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    (void)muster_expr_parse(graph, "batch_norm(x, m, m, training=1, per_device=1)");
    assert_int_equal(muster_graph_status(graph), MUSTER_UNSUPPORTED);
    assert_non_null(strstr(muster_last_error(), "per_device: expected 0 in a runtime with logical shards"));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
    runtime = graph_runtime("host:2");
    assert_ok(muster_graph_create(runtime, "refused", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    (void)muster_expr_parse(graph, "batch_norm(x, m, m, training=1, per_device=1, epsilon=0)");
    assert_int_equal(muster_graph_status(graph), MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(muster_last_error(), "epsilon: expected a number above 0 with per_device"));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- exchanges ---- */

static int32_t count_of(const char *text, const char *operation) {
    char beginning[64];
    int32_t count = 0;
    snprintf(beginning, sizeof beginning, "= %s(", operation);
    for (const char *at = text; (at = strstr(at, beginning)); at++) count++;
    return count;
}

static void dump_compare(const char *what, muster_function *function, int32_t reduced, const char *bytes) {
    char *dump = graph_dump_text(function);
    static const char *const others[] = {"reduce_scatter", "all_gather", "all_to_all"};
    if (count_of(dump, "all_reduce") != reduced) fail_msg("%s: expected %d sums in\n%s", what, (int)reduced, dump);
    for (int32_t i = 0; i < 3; i++)
        if (count_of(dump, others[i])) fail_msg("%s: expected no %s in\n%s", what, others[i], dump);
    if (!strstr(dump, bytes)) fail_msg("%s: expected \"%s\" in\n%s", what, bytes, dump);
    free(dump);
}

/* One exchange forward, of two numbers of f64 for each channel, and one backward. Of two devices
 * each receives as many bytes as the value has. */
static void a_step_exchanges_once_each_way(void **state) {
    static double x[MOST];
    static results r;
    layer l;
    (void)state;
    rows_draw(MUSTER_F32, x, 7, 0);
    layer_make(&l, "host:2", MUSTER_F32, "", NULL);
    layer_call(&l, x, 7, &r);
    dump_compare("a step", l.function, 2, "each receives 128 bytes in 2 exchanges");
    layer_end(&l);
    layer_make(&l, "host:2", MUSTER_F32, ", per_device=1", NULL);
    layer_call(&l, x, 7, &r);
    dump_compare("a step with statistics of each device", l.function, 1, "each receives 64 bytes in 1 exchanges");
    layer_end(&l);
}

static void forms_exchange(const char *text, int32_t reduced, const char *bytes) {
    muster_runtime *runtime = graph_runtime("host:2");
    muster_graph *graph;
    muster_function *function;
    float x[7 * CHANNELS], m[CHANNELS] = {1, 2, 3, 4}, y[7 * CHANNELS];
    for (int32_t i = 0; i < 7 * CHANNELS; i++) x[i] = (float)number_at(i);
    assert_ok(muster_graph_create(runtime, "form", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, text), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor out = muster_f32(y, 7, CHANNELS);
    assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(x, 7, CHANNELS), muster_f32(m, CHANNELS)}, 2, &out, 1, NULL));
    dump_compare(text, function, reduced, bytes);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_runtime_close(runtime));
}

static void forms_exchange_what_they_need(void **state) {
    (void)state;
    forms_exchange("batch_norm(x, m, m)", 0, "each receives 0 bytes in 0 exchanges");
    forms_exchange("batch_norm(x, m, m, training=1, per_device=1)", 0, "each receives 0 bytes in 0 exchanges");
    forms_exchange("batch_norm(x, m, m, training=1)", 1, "each receives 64 bytes in 1 exchanges");
    forms_exchange("batch_norm(x, batch_norm_mean(x, m, 1), m) + batch_norm(x, m, batch_norm_variance(x, m, m)) + batch_norm(x, m, m, m, "
                   "training=1)",
                   1, "each receives 64 bytes in 1 exchanges");
}

/* ---- halves ---- */

/* Statistics and parameters of halves may be f32: y is that of f32, rounded. */
static void halves_have_statistics_of_f32(void **state) {
    enum { ROWS = 7, COUNT = ROWS * CHANNELS };
    muster_runtime *runtime = graph_runtime("host:2");
    muster_graph *graph;
    muster_function *function;
    float x[COUNT], m[CHANNELS] = {0.1f, 0.2f, 0.3f, 0.4f}, y[COUNT], of_f32[COUNT], mean[CHANNELS], mean_of_f32[CHANNELS];
    (void)state;
    for (int32_t i = 0; i < COUNT; i++) x[i] = (float)(i % 9) / 8 + (float)(i % 5);
    assert_ok(muster_graph_create(runtime, "halves", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    const char *const texts[] = {"cast(batch_norm(cast(x, f16), m, m, m, cast(m, f16), training=1), f32)",
                                 "cast(cast(batch_norm(x, m, m, m, cast(cast(m, f16), f32), training=1), f16), f32)",
                                 "batch_norm_mean(cast(x, f16), m)", "batch_norm_mean(x, m)"};
    static const char *const outputs[] = {"y", "of f32", "mean", "mean of f32"};
    for (int32_t i = 0; i < 4; i++) assert_ok(muster_graph_output(graph, outputs[i], muster_expr_parse(graph, texts[i]), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_f32(x, ROWS, CHANNELS), muster_f32(m, CHANNELS)};
    const muster_tensor out[] = {muster_f32(y, ROWS, CHANNELS), muster_f32(of_f32, ROWS, CHANNELS), muster_f32(mean, CHANNELS),
                                 muster_f32(mean_of_f32, CHANNELS)};
    assert_ok(muster_function_call(function, in, 2, out, 4, NULL));
    assert_memory_equal(y, of_f32, sizeof y);
    assert_memory_equal(mean, mean_of_f32, sizeof mean);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- memory that runs out ---- */

static muster_status layer_compile(muster_runtime *runtime, const char *text, muster_graph **graph, muster_function **function) {
    muster_expr *d;
    const muster_status status = muster_graph_create(runtime, "tight", graph);
    if (status != MUSTER_OK) return status;
    muster_expr *x = muster_graph_input(*graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, INNER), MUSTER_SCATTER);
    (void)muster_graph_input(*graph, "m", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    (void)muster_gradient(muster_expr_parse(*graph, text), &x, 1, &d);
    (void)muster_graph_output(*graph, "dx", d, MUSTER_AUTO);
    return muster_graph_compile(*graph, NULL, function);
}

/* Each allocation fails once, until the function is there. */
static void every_failed_allocation_is_said(void **state) {
    static const char *const texts[] = {"sum(batch_norm(x, m, m, m, m, training=1) ** 2)",
                                        "sum(batch_norm(x, m, m, m, m, training=1, per_device=1) ** 2)"};
    (void)state;
    for (int32_t t = 0; t < 2; t++) {
        muster_runtime *runtime = graph_runtime("host:2");
        int32_t failed = 0;
        for (int64_t k = 1, done = 0; !done; k++) {
            muster_graph *graph = NULL;
            muster_function *function = NULL;
            mst_memory_fail_at(k);
            const muster_status status = layer_compile(runtime, texts[t], &graph, &function);
            mst_memory_fail_at(0);
            done = status == MUSTER_OK;
            failed += !done;
            if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("%s, allocation %d: %s", texts[t], (int)k, muster_last_error());
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_graph_destroy(graph));
        }
        assert_true(failed > 10);
        assert_ok(muster_runtime_close(runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_two_passes),         cmocka_unit_test(sums_are_taken_around_the_running_mean),
        cmocka_unit_test(each_device_has_statistics_of_its_own), cmocka_unit_test(workers_apart_have_statistics_of_their_own),
        cmocka_unit_test(shards_refuse_statistics_of_devices),   cmocka_unit_test(a_step_exchanges_once_each_way),
        cmocka_unit_test(forms_exchange_what_they_need),         cmocka_unit_test(halves_have_statistics_of_f32),
        cmocka_unit_test(every_failed_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
