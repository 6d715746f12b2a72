/* Gradients that are exchanged in buckets beside the steps that make the others, and eager updates:
 * on simulated GPUs and on the host they give the bits of one exchange behind the last step. */
#include "base_check.h"
#include "device_impl.h"
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/rule.h"
#include "runtime_impl.h"
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 13, INPUTS = 6, LAYERS = 4, PARAMETERS = 2 * LAYERS, STEPS = 3, MOST = 1 << 16, DEVICES = 3 };
static const int64_t widths[LAYERS + 1] = {INPUTS, 40, 30, 20, 10};

static char cache[] = "/tmp/muster-overlap.XXXXXX";

/* ---- what the devices are given ---- */

/* Behind the first exchange that has begun: products in COMPUTE for which COMPUTE does not wait. */
static atomic_int begun, beside;
static mst_device_queue_table queue_table;
static mst_device_code_table code_table;
static const mst_device_queue_table *real_queue;
static const mst_device_code_table *real_code;

static muster_status join_counted(mst_device *device, mst_queue earlier, mst_queue later) {
    atomic_fetch_add(&begun, later == MST_QUEUE_EXCHANGE);
    return real_queue->join(device, earlier, later);
}

static muster_status gemm_counted(mst_device *device, const mst_gemm *gemm) {
    atomic_fetch_add(&beside, device->exchange_busy && device->work_queue == MST_QUEUE_COMPUTE);
    return real_code->gemm(device, gemm);
}

static void count_on(const muster_runtime *runtime) {
    real_queue = runtime->devices[0]->queue;
    real_code = runtime->devices[0]->code;
    if (!real_queue) return;
    queue_table = *real_queue;
    code_table = *real_code;
    queue_table.join = join_counted;
    code_table.gemm = gemm_counted;
    for (int32_t r = 0; r < runtime->size; r++) {
        runtime->devices[r]->queue = &queue_table;
        runtime->devices[r]->code = &code_table;
    }
}

static void count_off(const muster_runtime *runtime) {
    for (int32_t r = 0; r < runtime->size && real_queue; r++) {
        runtime->devices[r]->queue = real_queue;
        runtime->devices[r]->code = real_code;
    }
}

/* ---- training ---- */

typedef struct way {
    int64_t bucket_bytes;
    int32_t eager;
    bool reads_late; /* steps behind the gradients read the last weight and its gradient */
    double clip;     /* the norm of the gradients; 0: any */
    bool limits;     /* each element of some gradients is clipped */
} way;

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS], *note;
} training;

static int64_t shape_of(int32_t parameter, int64_t shape[2]) {
    const int32_t layer = parameter / 2;
    shape[0] = parameter % 2 ? widths[layer + 1] : widths[layer];
    shape[1] = widths[layer + 1];
    return parameter % 2 ? shape[0] : shape[0] * shape[1];
}

static muster_expr *make_graph(training *t, muster_graph *graph, muster_expr **parameters) {
    static float memory[MOST];
    char text[512] = "x", name[16];
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        int64_t shape[2];
        const int64_t count = shape_of(p, shape);
        snprintf(name, sizeof name, "%c%d", p % 2 ? 'b' : 'w', (int)(p / 2));
        graph_fill(MUSTER_F32, memory, count, 1000 * p);
        assert_ok(muster_variable_create(t->runtime, name, muster_tensor_make(MUSTER_F32, memory, p % 2 ? 1 : 2, shape), &t->variables[p]));
        parameters[p] = muster_graph_parameter(graph, t->variables[p]);
    }
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        char before[512];
        memcpy(before, text, sizeof before);
        snprintf(text, sizeof text, "tanh(%.400s @ w%d + b%d)", before, (int)layer, (int)layer);
    }
    char loss[600];
    snprintf(loss, sizeof loss, "mean(square(%s))", text);
    return muster_expr_parse(graph, loss);
}

static void open_training(training *t, muster_update_rule rule, const way *way) {
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_rule_options rule_options;
    muster_graph_options options;
    muster_graph *graph;
    assert_ok(muster_graph_create(t->runtime, "overlap", &graph));
    muster_expr *loss = make_graph(t, graph, parameters);
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule_options);
    if (rule == MUSTER_SGD) /* a rate that is known behind a gradient */
        rule_options.rate = APPLY(graph, "sigmoid", APPLY(graph, "sum", gradients[PARAMETERS - 4]));
    else
        rule_options.learning_rate = 0.01;
    rule_options.clip_norm = way->clip;
    for (int32_t p = 0; p < PARAMETERS && way->limits; p += 3) gradients[p] = muster_expr_clip(gradients[p], -1e-3, 1e-3);
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, rule, &rule_options));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_variable_create(t->runtime, "note", muster_tensor_make(MUSTER_F32, &(float){0}, 0, NULL), &t->note));
    if (way->reads_late)
        assert_ok(muster_graph_update(
            graph, t->note,
            APPLY(graph, "add", APPLY(graph, "sum", parameters[PARAMETERS - 2]), APPLY(graph, "sum", gradients[PARAMETERS - 2])),
            MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.bucket_bytes = way->bucket_bytes;
    options.eager_updates = way->eager;
    assert_ok(muster_graph_compile(graph, &options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

/* The loss and the note of each step, the parameters of each device, the states. */
static int64_t train(const training *t, char *memory) {
    float x[ROWS * INPUTS];
    int64_t at = 0, shape[2];
    graph_fill(MUSTER_F32, x, ROWS * INPUTS, 5);
    for (int32_t step = 0; step < STEPS; step++) {
        const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 2, (const int64_t[]){ROWS, INPUTS});
        const muster_tensor out = muster_tensor_make(MUSTER_F32, memory + at, 0, NULL),
                            note = muster_tensor_make(MUSTER_F32, memory + at + 4, 0, NULL);
        assert_ok(muster_function_call(t->function, &in, 1, &out, 1, NULL));
        assert_ok(muster_variable_get(t->note, 0, note));
        at += 8;
    }
    for (int32_t p = 0; p < PARAMETERS; p++)
        for (int32_t r = 0; r < muster_runtime_size(t->runtime); r++) {
            const int64_t count = shape_of(p, shape);
            assert_ok(muster_variable_get(t->variables[p], r, muster_tensor_make(MUSTER_F32, memory + at, p % 2 ? 1 : 2, shape)));
            at += count * 4;
        }
    at += graph_states_get(t->function, memory + at);
    assert_true(at <= MOST * 4);
    return at;
}

static muster_runtime *open_devices(const char *devices, const char *algorithm) {
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_sim_reset(&(muster_sim_options){.devices = DEVICES, .longest_delay = 20, .delay_one_of = 8});
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.collective_algorithm = algorithm;
    options.device_memory = 4 << 20;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static int64_t train_so(const char *devices, const char *algorithm, muster_update_rule rule, const way *way, char *memory) {
    training t = {.runtime = open_devices(devices, algorithm)};
    memset(memory, 0, MOST * 4);
    atomic_store(&begun, 0);
    atomic_store(&beside, 0);
    open_training(&t, rule, way);
    count_on(t.runtime);
    const int64_t bytes = train(&t, memory);
    count_off(t.runtime);
    assert_ok(muster_runtime_close(t.runtime));
    assert_string_equal(muster_sim_hazards(), "");
    return bytes;
}

/* ---- the same bits ---- */

static const struct {
    const char *devices, *algorithm;
    bool overlaps;
} machines[] = {{"cuda:3", NULL, true},
                {"cuda@0+0+0", NULL, true}, /* virtual devices: between peers */
                {"cuda:3", "nccl", true},
                {"cuda:3", "staged", false},
                {"host:3", NULL, false}};
static const way ways[] = {{.bucket_bytes = 1000, .reads_late = true},
                           {.bucket_bytes = 1, .reads_late = true},
                           {.bucket_bytes = 1 << 30, .reads_late = true},
                           {.reads_late = true},
                           {.bucket_bytes = 1000, .eager = 1, .reads_late = true},
                           {.bucket_bytes = 1, .eager = 1, .reads_late = true},
                           {.bucket_bytes = -1, .eager = 1, .reads_late = true},
                           {.eager = 1, .reads_late = true}};
enum { MACHINES = sizeof machines / sizeof *machines, WAYS = sizeof ways / sizeof *ways };

static void every_way_gives_the_bits_of_one_exchange(void **state) {
    static char expected[MOST * 4], received[MOST * 4];
    int32_t cases = 0, overlapped = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        const muster_update_rule rule = m % 2 ? MUSTER_SGD : MUSTER_ADAM;
        const int64_t bytes =
            train_so(machines[m].devices, machines[m].algorithm, rule, &(way){.bucket_bytes = -1, .reads_late = true}, expected);
        assert_int_equal(atomic_load(&begun), 0);
        assert_int_equal(atomic_load(&beside), 0);
        for (int32_t w = 0; w < WAYS; w++, cases++) {
            if (m && (m + w) % 3) continue; /* a sample */
            assert_int_equal(train_so(machines[m].devices, machines[m].algorithm, rule, &ways[w], received), bytes);
            if (memcmp(received, expected, (size_t)bytes) != 0) {
                int64_t at = 0;
                while (received[at] == expected[at]) at++;
                fail_msg("%s, %s, way %d: expected equal bits, byte %lld of %lld differs", machines[m].devices, machines[m].algorithm,
                         (int)w, (long long)at, (long long)bytes);
            }
            const bool divided = ways[w].bucket_bytes == 1 || ways[w].bucket_bytes == 1000;
            if (machines[m].overlaps && divided) {
                assert_true(atomic_load(&begun) >= 2 * DEVICES * STEPS); /* several buckets */
                assert_true(atomic_load(&beside) > 0);                   /* and products behind the first of them */
                overlapped++;
            }
            if (!machines[m].overlaps) assert_int_equal(atomic_load(&begun), 0);
        }
    }
    assert_int_equal(cases, MACHINES * WAYS);
    assert_true(overlapped >= 6);
}

/* ---- clipping ---- */

enum { CLIPS = 3 };
static const double norms[CLIPS] = {0.01, 1e6, 0}; /* of gradients with larger norms, with smaller ones; 0: elements are clipped */

/* The norm is a sum over the parts that a device has, which rounds otherwise in other buckets: the
 * numbers are close. A norm below the limit, and limits of elements, leave the bits. */
static void check_clipped(const float *expected, const float *received, int64_t count, double norm) {
    double distance = 0;
    for (int64_t i = 0; i < count; i++) distance = fmax(distance, fabs((double)expected[i] - (double)received[i]));
    if (norm == norms[0] ? !(distance < 1e-6) : memcmp(expected, received, (size_t)count * 4) != 0)
        fail_msg("norm %g: differs by %g from one exchange", norm, distance);
}

static void clipped_gradients_are_summed_in_buckets(void **state) {
    static float unclipped[MOST], expected[MOST], received[MOST];
    int32_t cases = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        const char *devices = machines[m].devices, *algorithm = machines[m].algorithm;
        train_so(devices, algorithm, MUSTER_MOMENTUM, &(way){.bucket_bytes = -1}, (char *)unclipped);
        for (int32_t c = 0; c < CLIPS; c++, cases++) {
            way w = {.bucket_bytes = -1, .clip = norms[c], .limits = norms[c] == 0};
            const int64_t bytes = train_so(devices, algorithm, MUSTER_MOMENTUM, &w, (char *)expected);
            assert_int_equal(atomic_load(&begun), 0);
            assert_int_equal(memcmp(unclipped, expected, (size_t)bytes) == 0, c == 1); /* others are clipped */
            w.bucket_bytes = cases % 2 ? 1 : 1000;
            assert_int_equal(train_so(devices, algorithm, MUSTER_MOMENTUM, &w, (char *)received), bytes);
            if (machines[m].overlaps) assert_true(atomic_load(&begun) >= 2 * DEVICES * STEPS);
            check_clipped(expected, received, bytes / 4, norms[c]);
        }
    }
    assert_int_equal(cases, MACHINES * CLIPS);
}

/* ---- refusals ---- */

static void compile_refused(double clip, const way *way, muster_status code, const char *text) {
    training t = {.runtime = open_devices("host:2", NULL)};
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_rule_options rule_options;
    muster_graph_options options;
    muster_graph *graph;
    assert_ok(muster_graph_create(t.runtime, "refused", &graph));
    muster_expr *loss = make_graph(&t, graph, parameters);
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule_options);
    rule_options.clip_norm = clip;
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, MUSTER_SGD, &rule_options));
    muster_graph_options_init(&options);
    options.eager_updates = way->eager;
    assert_refused(muster_graph_compile(graph, &options, &t.function), code, text);
    options.eager_updates = 0;
    assert_ok(muster_graph_compile(graph, &options, &t.function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(t.runtime));
}

static void clipped_gradients_and_other_numbers_are_refused(void **state) {
    (void)state;
    compile_refused(2.5, &(way){.eager = 1}, MUSTER_UNSUPPORTED,
                    "eager_updates: expected gradients that are not clipped, since the norm needs all of them before the first update, "
                    "received a clip_norm of 2.5");
    compile_refused(0, &(way){.eager = 2}, MUSTER_INVALID_ARGUMENT, "eager_updates: expected 0 or 1, received 2");
}

int main(void) {
    if (!mkdtemp(cache)) return 1;
    setenv("MUSTER_CACHE_DIR", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_bits_of_one_exchange),
        cmocka_unit_test(clipped_gradients_are_summed_in_buckets),
        cmocka_unit_test(clipped_gradients_and_other_numbers_are_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", cache);
    return system(command) == 0 ? failed : 1;
}
