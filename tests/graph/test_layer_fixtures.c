/* Layers of networks against PyTorch's numbers (layer_fixtures.def, which layer_fixtures.py
 * writes): values and gradients in every dtype of the layer, plain and with channels last, on one
 * device and on three of which some have fewer rows or none, and the bits of shards. CMake runs the
 * suite once more without oneDNN, with version 3 of it, and on simulated GPUs. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"
#include "graph_private.h"
#include "nn_onednn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 28, ELEMENTS = 512, LAYERS = 17, SHARDS = 6 };
typedef struct fixture_array {
    const char *name, *shape, *values;
} fixture_array;
typedef struct fixture {
    const char *layer, *text;
    fixture_array arrays[ARRAYS];
} fixture;
#define CASE(layer, text, ...) {layer, text, {__VA_ARGS__}},
static const fixture fixtures[] = {
#include "layer_fixtures.def"
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static const struct {
    const char *layer;
    int32_t count;
} layers[LAYERS] = {{"max_pool", 8},
                    {"average_pool", 8},
                    {"l2_pool", 7},
                    {"global_max_pool", 3},
                    {"global_average_pool", 3},
                    {"batch_norm", 8},
                    {"layer_norm", 5},
                    {"rms_norm", 5},
                    {"group_norm", 5},
                    {"instance_norm", 4},
                    {"local_response_norm", 3},
                    {"attention", 16},
                    {"convolution", 8},
                    {"convolution_transpose", 6},
                    {"rnn", 2},
                    {"lstm", 2},
                    {"gru", 2}};

static void every_layer_has_its_fixtures(void **state) {
    int32_t all = 0;
    (void)state;
    for (int32_t l = 0; l < LAYERS; l++) {
        int32_t found = 0;
        for (int32_t i = 0; i < FIXTURES; i++) found += strcmp(fixtures[i].layer, layers[l].layer) == 0;
        if (found != layers[l].count) fail_msg("%s: expected %d fixtures, received %d", layers[l].layer, (int)layers[l].count, (int)found);
        all += found;
    }
    assert_int_equal(all, FIXTURES);
}

/* ---- arrays ---- */

typedef enum what { OPERAND, WEIGHTS, RESULT, OTHER_RESULT, GRADIENT } what; /* WEIGHTS: g */
typedef struct numbers {
    const char *name;
    what what;
    bool rows; /* the first axis */
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS], count;
    double values[ELEMENTS];
} numbers;

static what what_of(const char *name, bool behind_result) {
    if (strcmp(name, "g") == 0) return WEIGHTS;
    if (strcmp(name, "y") == 0) return RESULT;
    return *name == '=' ? OTHER_RESULT : behind_result ? GRADIENT : OPERAND;
}

static void read_numbers(const fixture_array *array, bool behind_result, numbers *n) {
    char *end;
    const char *at = array->shape + (*array->shape == '*');
    *n = (numbers){.name = array->name, .what = what_of(array->name, behind_result), .rows = *array->shape == '*', .count = 1};
    for (; *at; at = end + (*end == ' ')) n->count *= n->shape[n->ndim++] = strtoll(at, &end, 10);
    assert_in_range(n->count, 1, ELEMENTS);
    at = array->values;
    for (int64_t i = 0; i < n->count; i++, at = end) {
        n->values[i] = strtod(at, &end);
        assert_ptr_not_equal(end, at);
    }
    assert_int_equal(*at, 0);
}

/* All arrays of a fixture; returns how many there are. */
static int32_t read_all(const fixture *f, numbers all[ARRAYS]) {
    int32_t count = 0;
    bool behind = false;
    for (; count < ARRAYS && f->arrays[count].name; count++) {
        read_numbers(&f->arrays[count], behind, &all[count]);
        behind = behind || all[count].what == RESULT;
    }
    return count;
}

/* The same elements in memory with axis 1, the channels, last. */
static void channels_to_the_end(numbers *n) {
    const numbers given = *n;
    const int64_t channels = given.shape[1], behind = given.count / given.shape[0] / channels;
    for (int64_t i = 0; i < given.count; i++)
        n->values[(i / behind / channels * behind + i % behind) * channels + i / behind % channels] = given.values[i];
    for (int32_t d = 2; d < n->ndim; d++) n->shape[d - 1] = given.shape[d];
    n->shape[n->ndim - 1] = channels;
}

static muster_expr *channels_from_the_end(muster_graph *graph, muster_expr *x) {
    return apply(graph, "moveaxis", &x, 1, ATTRIBUTES({.name = "source", LIST(-1)}, {.name = "destination", LIST(1)}));
}
static muster_expr *cast(muster_graph *graph, muster_expr *x, muster_dtype dtype) {
    return apply(graph, "cast", &x, 1, ATTRIBUTES({.name = "dtype", .integer = dtype}));
}

/* ---- a run ---- */

typedef struct run_of {
    const fixture *fixture;
    muster_dtype dtype;
    bool last; /* channels last */
    muster_runtime *runtime;
    numbers all[ARRAYS];
    double received[ARRAYS][ELEMENTS];
    int32_t count;
    muster_expr *made[ARRAYS]; /* of operands and weights, and then of outputs */
    numbers given[ARRAYS];     /* the inputs as they lie in memory */
} run_of;

/* An input for each operand and for g. */
static void make_inputs(muster_graph *graph, run_of *r) {
    for (int32_t i = 0; i < r->count; i++) {
        numbers *n = &r->given[i];
        int64_t shape[MUSTER_MAX_DIMS];
        if (r->all[i].what > WEIGHTS) continue;
        *n = r->all[i];
        const bool moved = r->last && n->ndim > 2;
        if (moved) channels_to_the_end(n);
        memcpy(shape, n->shape, sizeof shape);
        if (n->rows) shape[0] = MUSTER_ROWS;
        muster_expr *in = muster_graph_input(graph, n->name, MUSTER_F64, n->ndim, shape, n->rows ? MUSTER_SCATTER : MUSTER_BROADCAST);
        in = cast(graph, in, r->dtype);
        r->made[i] = moved ? channels_from_the_end(graph, in) : in;
    }
}

static muster_expr *parse(muster_graph *graph, const run_of *r, const char *text) {
    const char *names[ARRAYS];
    muster_expr *operands[ARRAYS];
    int32_t count = 0;
    for (int32_t i = 0; i < r->count; i++)
        if (r->all[i].what == OPERAND) names[count] = r->all[i].name, operands[count++] = r->made[i];
    muster_expr *made = muster_expr_parse_named(graph, text, names, operands, count);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    return made;
}

static void make_gradients(muster_graph *graph, run_of *r, muster_expr *y) {
    muster_expr *g = NULL, *wanted[ARRAYS], *gradients[ARRAYS];
    int32_t places[ARRAYS], count = 0;
    for (int32_t i = 0; i < r->count; i++) {
        if (r->all[i].what == WEIGHTS) g = r->made[i];
        if (r->all[i].what != GRADIENT) continue;
        for (int32_t k = 0; k < i; k++)
            if (r->all[k].what == OPERAND && strcmp(r->all[k].name, r->all[i].name + 1) == 0) wanted[count] = r->made[k];
        places[count++] = i;
    }
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", y, g)), wanted, count, gradients));
    for (int32_t i = 0; i < count; i++) r->made[places[i]] = gradients[i];
}

static muster_function *run_compile(run_of *r) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    assert_ok(muster_graph_create(r->runtime, "fixture", &graph));
    make_inputs(graph, r);
    muster_expr *y = parse(graph, r, r->fixture->text);
    make_gradients(graph, r, y);
    for (int32_t i = 0; i < r->count; i++) {
        if (r->all[i].what == RESULT) r->made[i] = y;
        if (r->all[i].what == OTHER_RESULT) r->made[i] = parse(graph, r, r->all[i].name + 1);
        if (r->all[i].what >= RESULT)
            assert_ok(muster_graph_output(graph, r->all[i].name, cast(graph, r->made[i], MUSTER_F64), MUSTER_AUTO));
    }
    muster_graph_options_init(&options);
    options.unfused = on_gpus(); /* the simulated machine would compile a program for each group */
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void run_call(run_of *r) {
    muster_tensor in[ARRAYS], out[ARRAYS];
    int32_t inputs = 0, outputs = 0;
    r->count = read_all(r->fixture, r->all);
    muster_function *function = run_compile(r);
    for (int32_t i = 0; i < r->count; i++) {
        numbers *n = &r->given[i];
        for (int32_t e = 0; e < ELEMENTS; e++) r->received[i][e] = (double)NAN;
        if (r->all[i].what <= WEIGHTS)
            in[inputs++] = muster_tensor_make(MUSTER_F64, n->values, n->ndim, n->shape);
        else
            out[outputs++] = muster_tensor_make(MUSTER_F64, r->received[i], r->all[i].ndim, r->all[i].shape);
    }
    for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, in, inputs, out, outputs, NULL));
    assert_ok(muster_function_destroy(function));
}

/* Rounding counts beside the largest element: sums have terms of its size. */
static void run_compare(const run_of *r, const char *devices) {
    static const double errors[MST_DTYPE_COUNT] = {[MUSTER_F16] = 4e-3, [MUSTER_BF16] = 3e-2, [MUSTER_F32] = 2e-6, [MUSTER_F64] = 1e-13};
    for (int32_t i = 0; i < r->count; i++) {
        double most = 1;
        if (r->all[i].what < RESULT) continue;
        for (int64_t e = 0; e < r->all[i].count; e++) most = fmax(most, fabs(r->all[i].values[e]));
        for (int64_t e = 0; e < r->all[i].count; e++) {
            const double expected = r->all[i].values[e], received = r->received[i][e];
            if (!(fabs(expected - received) <= errors[r->dtype] * most))
                fail_msg("%s, %s%s, %s: %s, element %d: PyTorch has %.17g, received %.17g (%g of the largest)", r->fixture->text,
                         muster_dtype_name(r->dtype), r->last ? ", channels last" : "", devices, r->all[i].name, (int)e, expected, received,
                         fabs(expected - received) / most);
        }
    }
}

/* ---- the tests ---- */

static void results_and_gradients_are_those_of_pytorch(void **state) {
    static const char *const devices[] = {"host:1", "host:3"};
    static run_of r;
    int32_t runs = 0;
    (void)state;
    for (int32_t d = 0; d < 2; d++)
        for (int32_t i = 0; i < FIXTURES; i++)
            for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
                for (int32_t last = 0; last < 2; last++, runs++) {
                    memset(&r, 0, sizeof r);
                    r = (run_of){.fixture = &fixtures[i], .dtype = dtype, .last = last, .runtime = devices_open(devices[d])};
                    run_call(&r);
                    run_compare(&r, devices[d]);
                }
    assert_int_equal(runs, 2 * FIXTURES * 4 * 2);
}

/* Three devices with two shards each have the bits of one device with all six. */
static void shards_have_the_same_bits_on_all_devices(void **state) {
    static run_of one, three;
    int32_t runs = 0;
    (void)state;
    for (int32_t i = 0; i < FIXTURES; i++)
        for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++, runs++) {
            one = (run_of){.fixture = &fixtures[i], .dtype = dtype, .last = i % 2, .runtime = devices_open_shards("host:1", SHARDS)};
            three = (run_of){.fixture = &fixtures[i], .dtype = dtype, .last = i % 2, .runtime = devices_open_shards("host:3", SHARDS)};
            run_call(&one);
            run_call(&three);
            run_compare(&one, "host:1 with shards");
            for (int32_t a = 0; a < one.count; a++)
                if (one.all[a].what >= RESULT && memcmp(one.received[a], three.received[a], (size_t)one.all[a].count * sizeof(double)) != 0)
                    fail_msg("%s, %s: the shards of three devices give other bits of %s", fixtures[i].text, muster_dtype_name(dtype),
                             one.all[a].name);
        }
    assert_int_equal(runs, FIXTURES * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_has_its_fixtures),
        cmocka_unit_test(results_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(shards_have_the_same_bits_on_all_devices),
        cmocka_unit_test(onednn_is_the_one_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
