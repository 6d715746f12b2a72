/* The buckets of gradients: where each ends, by default, and in which order they begin beside the
 * steps of a call. What is observed are the collectives that a device enters, and the products that
 * it is given. */
#include "base_check.h"
#include "communicator_impl.h"
#include "device_impl.h"
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/rule.h"
#include "runtime_impl.h"
#include "sim.h"
#include "variable_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char cache[] = "/tmp/muster-buckets.XXXXXX";

/* ---- what rank 0 does ---- */

enum { EVENTS = 128, PRODUCT = -1, FINISH = -2, MOST_BUCKETS = 16 };
static int32_t events[EVENTS], event_count; /* PRODUCT, FINISH, or the bucket that begins */
static int64_t ends[MOST_BUCKETS];          /* in elements, of the vector of gradients */
static int32_t end_count;
static const void *segments[MOST_BUCKETS]; /* the parameters in the order of the vector */
static int64_t counts[MOST_BUCKETS];
static int32_t segment_count;

static const muster_communicator *observed;
static mst_device_code_table code_table;
static const mst_device_code_table *real_code;

static void note(int32_t event) {
    if (event_count < EVENTS) events[event_count++] = event;
}

static muster_status gemm_noted(mst_device *device, const mst_gemm *gemm) {
    note(PRODUCT);
    return real_code->gemm(device, gemm);
}

/* When all ranks have entered, the offer of this one is whole. */
static bool offer_noted(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    (void)status;
    if (muster_worker_rank(worker) != 0 || collective != MST_ALL_REDUCE_APPLY || moment != MST_MOMENT_WRITES) return false;
    const mst_member *member = &observed->members[0];
    const mst_apply_offer *offer = &member->apply[member->apply_tag & 1];
    note(offer->phase == MST_APPLY_FINISH ? FINISH : offer->bucket);
    end_count = offer->layout.bucket_count;
    segment_count = offer->segment_count;
    assert_true(end_count <= MOST_BUCKETS && segment_count <= MOST_BUCKETS);
    for (int32_t b = 0; b < end_count; b++) ends[b] = offer->layout.bucket_ends[b];
    for (int32_t i = 0; i < segment_count; i++) {
        segments[i] = offer->segments[i].parameter;
        counts[i] = offer->segments[i].count;
    }
    return false;
}

static void observe(const muster_runtime *runtime) {
    event_count = end_count = segment_count = 0;
    observed = runtime->communicator;
    mst_rendezvous_test_hook = offer_noted;
    real_code = runtime->devices[0]->code;
    if (!real_code) return;
    code_table = *real_code;
    code_table.gemm = gemm_noted;
    runtime->devices[0]->code = &code_table;
}

static void observe_no_more(const muster_runtime *runtime) {
    mst_rendezvous_test_hook = NULL;
    if (real_code) runtime->devices[0]->code = real_code;
}

/* The text of all events: "P" a product, "F" the finish, a number a bucket. */
static const char *events_text(char text[8 * EVENTS]) {
    size_t used = 0;
    *text = 0;
    for (int32_t i = 0; i < event_count; i++)
        used += (size_t)(events[i] == PRODUCT  ? snprintf(text + used, 8, " P")
                         : events[i] == FINISH ? snprintf(text + used, 8, " F")
                                               : snprintf(text + used, 8, " %d", (int)events[i]));
    return text;
}

/* ---- the order in which they begin ---- */

enum { ROWS = 6, INPUTS = 6, LAYERS = 4, PARAMETERS = 2 * LAYERS, DEVICES = 3 };
static const int64_t widths[LAYERS + 1] = {INPUTS, 40, 30, 20, 10};

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS];
} training;

static muster_runtime *open_devices(const char *devices, const char *algorithm) {
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_sim_reset(&(muster_sim_options){.devices = DEVICES});
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.collective_algorithm = algorithm;
    options.device_memory = 4 << 20;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* Layers with a weight and a bias each. */
static void train_make(training *t, int32_t eager) {
    muster_graph *graph;
    muster_graph_options options;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    char text[512] = "x", before[512], name[16];
    float memory[40 * 40];
    assert_ok(muster_graph_create(t->runtime, "buckets", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const int32_t layer = p / 2;
        const int64_t shape[] = {p % 2 ? widths[layer + 1] : widths[layer], widths[layer + 1]};
        snprintf(name, sizeof name, "%c%d", p % 2 ? 'b' : 'w', (int)layer);
        graph_fill(MUSTER_F32, memory, p % 2 ? shape[0] : shape[0] * shape[1], 1000 * p);
        assert_ok(muster_variable_create(t->runtime, name, muster_tensor_make(MUSTER_F32, memory, p % 2 ? 1 : 2, shape), &t->variables[p]));
        parameters[p] = muster_graph_parameter(graph, t->variables[p]);
        if (p % 2 == 0) continue;
        memcpy(before, text, sizeof before);
        snprintf(text, sizeof text, "tanh(%.400s @ w%d + b%d)", before, (int)layer, (int)layer);
    }
    memcpy(before, text, sizeof before);
    snprintf(text, sizeof text, "mean(square(%.480s))", before);
    muster_expr *loss = muster_expr_parse(graph, text);
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, MUSTER_MOMENTUM, NULL));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.bucket_bytes = 1; /* one for each parameter */
    options.eager_updates = eager;
    assert_ok(muster_graph_compile(graph, &options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static void train_call(const training *t) {
    float x[ROWS * INPUTS], loss;
    graph_fill(MUSTER_F32, x, ROWS * INPUTS, 5);
    const muster_tensor in = muster_f32(x, ROWS, INPUTS), out = muster_f32(&loss);
    assert_ok(muster_function_call(t->function, &in, 1, &out, 1, NULL));
}

static int32_t layer_of(const training *t, int32_t segment) {
    for (int32_t p = 0; p < PARAMETERS; p++)
        if (segments[segment] == muster_tensor_address(mst_variable_tensor(t->variables[p], 0))) return p / 2;
    fail_msg("segment %d is no parameter", (int)segment);
    return -1;
}

/* From the last layer to the first. A bucket begins before the next product of which its gradient
 * has no need, and an eager one when the product with the weight itself has been made, too: what is
 * there already is exchanged while the others are computed. */
static int32_t expect_order(const training *t, int32_t eager, const char *what) {
    char text[8 * EVENTS];
    int32_t begun = 0, products = 0, last = LAYERS - 1;
    (void)events_text(text);
    assert_int_equal(end_count, PARAMETERS);
    assert_int_equal(segment_count, PARAMETERS);
    for (int32_t i = 0; i < event_count; i++) {
        products += events[i] == PRODUCT;
        if (events[i] < 0) continue;
        const int32_t layer = layer_of(t, events[i]), behind = LAYERS - 1 - layer;
        /* gradients lie in the order in which they are made */
        if (events[i] != begun) fail_msg("%s: expected bucket %d, received %d:%s", what, (int)begun, (int)events[i], text);
        if (begun == 0 && layer != LAYERS - 1) fail_msg("%s: the first bucket is one of layer %d:%s", what, (int)layer, text);
        if (layer > last) fail_msg("%s: a bucket of layer %d begins behind one of layer %d:%s", what, (int)layer, (int)last, text);
        /* at least those forwards, and of each layer behind it the one for its input */
        if (products < LAYERS + behind || products > LAYERS + 2 * behind + 1 + eager)
            fail_msg("%s: a bucket of layer %d begins behind %d products:%s", what, (int)layer, (int)products, text);
        last = layer;
        begun++;
    }
    assert_int_equal(products, LAYERS + 2 * LAYERS - 1); /* nothing needs the gradient of x */
    return begun;
}

static void the_bucket_of_the_last_layer_begins_first(void **state) {
    static const struct {
        const char *devices, *algorithm;
        int32_t eager;
    } machines[] = {{"cuda:3", NULL, 0}, {"cuda:3", "nccl", 0}, {"cuda:3", NULL, 1}, {"cuda@0+0+0", NULL, 0}};
    int32_t cases = 0;
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++, cases++) {
        training t = {.runtime = open_devices(machines[m].devices, machines[m].algorithm)};
        train_make(&t, machines[m].eager);
        train_call(&t);
        observe(t.runtime);
        train_call(&t);
        observe_no_more(t.runtime);
        assert_int_equal(expect_order(&t, machines[m].eager, machines[m].devices), PARAMETERS);
        assert_int_equal(events[event_count - 1] == FINISH, !machines[m].eager);
        assert_ok(muster_runtime_close(t.runtime));
        assert_string_equal(muster_sim_hazards(), "");
    }
    assert_int_equal(cases, 4);
}

/* ---- the default division ---- */

/* 25 MiB and a 25th of them, of f32. */
enum { FIRST = (1 << 20) / 4, OTHERS = (25 << 20) / 4, MOST_SIZES = 5 };

typedef struct division {
    int64_t sizes[MOST_SIZES]; /* of the parameters, in the order in which the steps make their gradients */
    int64_t ends[MOST_SIZES];  /* of the buckets */
} division;

/* Each bound is met exactly, by one element less and by one more. */
static const division divisions[] = {
    {{FIRST, OTHERS, 5}, {FIRST, FIRST + OTHERS, FIRST + OTHERS + 5}},
    {{FIRST - 1, 1, OTHERS - 1, 1, 5}, {FIRST, FIRST + OTHERS, FIRST + OTHERS + 5}},
    {{FIRST + 1, OTHERS + 1, 5}, {FIRST + 1, FIRST + OTHERS + 2, FIRST + OTHERS + 7}},
    {{FIRST - 1, 2, OTHERS - 1, 7}, {FIRST + 1, FIRST + OTHERS + 7}},
    {{FIRST - 1}, {FIRST - 1}},
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions };

/* Steps make the gradients from the last parameter to the first. */
static void divide(const division *d) {
    enum { PAIR = 2 };
    muster_runtime *runtime = open_devices("host:2", NULL);
    muster_graph *graph;
    muster_graph_options options;
    muster_function *function;
    muster_expr *parameters[MOST_SIZES], *gradients[MOST_SIZES], *loss = NULL;
    int32_t count = 0;
    float *zeros = calloc(OTHERS + 1, sizeof *zeros), x[PAIR] = {1, 2}, got;
    while (count < MOST_SIZES && d->sizes[count]) count++;
    assert_ok(muster_graph_create(runtime, "divided", &graph));
    muster_expr *input = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 1), MUSTER_SCATTER);
    for (int32_t p = 0; p < count; p++) {
        muster_variable *variable;
        char name[16];
        snprintf(name, sizeof name, "p%d", (int)p);
        assert_ok(muster_variable_create(runtime, name, muster_f32(zeros, 1, d->sizes[p]), &variable));
        parameters[p] = muster_graph_parameter(graph, variable);
    }
    free(zeros);
    for (int32_t p = count - 1; p >= 0; p--) {
        muster_expr *its = APPLY(graph, "mean", APPLY(graph, "tanh", APPLY(graph, "matmul", input, parameters[p])));
        loss = loss ? APPLY(graph, "add", loss, its) : its;
    }
    assert_ok(muster_gradient(loss, parameters, count, gradients));
    assert_ok(muster_graph_minimise(graph, parameters, gradients, count, MUSTER_SGD, NULL));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.rows = PAIR;
    options.eager_updates = 1; /* in buckets on the host, too */
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    observe(runtime);
    const muster_tensor in = muster_f32(x, PAIR, 1), out = muster_f32(&got);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    observe_no_more(runtime);
    assert_ok(muster_runtime_close(runtime));
    assert_int_equal(segment_count, count);
    for (int32_t p = 0; p < count; p++) assert_int_equal(counts[p], d->sizes[p]);
}

static void the_first_bucket_is_a_25th_of_the_others(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t i = 0; i < DIVISIONS; i++) {
        int32_t expected = 0;
        while (expected < MOST_SIZES && divisions[i].ends[expected]) expected++;
        divide(&divisions[i]);
        assert_int_equal(end_count, expected);
        assert_int_equal(event_count, expected);
        for (int32_t b = 0; b < expected; b++, compared++)
            if (ends[b] != divisions[i].ends[b])
                fail_msg("division %d: bucket %d ends at %lld, expected %lld", (int)i, (int)b, (long long)ends[b],
                         (long long)divisions[i].ends[b]);
    }
    assert_int_equal(compared, 3 + 3 + 3 + 2 + 1);
}

int main(void) {
    if (!mkdtemp(cache)) return 1;
    setenv("MUSTER_CACHE_DIR", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bucket_of_the_last_layer_begins_first),
        cmocka_unit_test(the_first_bucket_is_a_25th_of_the_others),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", cache);
    return system(command) == 0 ? failed : 1;
}
