/* Updates with clipped gradients on several devices: one pass sums the gradients, finds their norm
 * and applies the rules. What comes out is what one device computes. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, INPUTS = 5, HIDDEN = 700, STEPS = 3, PARAMETERS = 3, ELEMENTS = INPUTS * HIDDEN + 2 * HIDDEN };
static const int64_t counts[PARAMETERS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN};

typedef struct training {
    muster_update_rule rule;
    muster_dtype dtype;
    int32_t split; /* the first weight along this axis; -1: not */
    double clip;   /* the norm of the gradients; 0: any */
    double rate;   /* 0: 0.01 */
    double input;  /* a row of the inputs has it in its first column */
    bool ones;     /* the inputs; the parameters are 0, and there is one step */
    const char *loss;
    double tolerance; /* of a comparison; 0: by the dtype */
    int32_t passes;   /* found: updates in one pass */
} training;

static void put(muster_dtype dtype, void *memory, int64_t i, double value) {
    if (dtype == MUSTER_F64)
        ((double *)memory)[i] = value;
    else
        ((float *)memory)[i] = (float)value;
}

static int32_t count_passes(muster_function *function) {
    static const char ending[] = ", in one pass";
    char *text = graph_dump_text(function);
    int32_t found = 0;
    for (const char *at = text; (at = strstr(at, ending)); at += sizeof ending - 1) found++;
    free(text);
    return found;
}

static muster_function *compile(muster_runtime *runtime, const training *t, muster_variable *const *variables) {
    muster_rule_options rule_options;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", t->dtype, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) parameters[i] = muster_graph_parameter(graph, variables[i]);
    if (t->split >= 0) assert_ok(muster_graph_split(parameters[0], t->split));
    muster_expr *loss = muster_expr_parse(graph, t->loss ? t->loss : "mean(square(tanh(x @ w + b) @ v))");
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule_options);
    rule_options.learning_rate = t->rate > 0 ? t->rate : 0.01;
    rule_options.clip_norm = t->clip;
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, t->rule, &rule_options));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

/* What the parameters are after some steps, one behind the other; every device has them. */
static void read_all(muster_runtime *runtime, const training *t, muster_variable *const *variables, char *memory) {
    const int64_t size = (int64_t)muster_dtype_size(t->dtype);
    for (int32_t i = 0; i < PARAMETERS; i++) {
        const int64_t shape[] = {i ? counts[i] : INPUTS, HIDDEN}, bytes = counts[i] * size;
        char *again = malloc((size_t)bytes);
        assert_ok(muster_variable_get_whole(variables[i], muster_tensor_make(t->dtype, memory, i ? 1 : 2, shape)));
        for (int32_t r = 0; r < muster_runtime_size(runtime) && (i || t->split < 0); r++) {
            assert_ok(muster_variable_get(variables[i], r, muster_tensor_make(t->dtype, again, i ? 1 : 2, shape)));
            assert_memory_equal(memory, again, (size_t)bytes);
        }
        free(again);
        memory += bytes;
    }
}

static void train(training *t, const char *devices, void *memory) {
    static double values[INPUTS * HIDDEN], x[ROWS * INPUTS];
    static const char *const names[PARAMETERS] = {"w", "b", "v"};
    const int64_t shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {HIDDEN, 0}, {HIDDEN, 0}};
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    double loss;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    for (int32_t i = 0; i < PARAMETERS; i++) {
        graph_fill(t->dtype, values, counts[i], 1000 * i);
        if (t->ones) memset(values, 0, sizeof values);
        assert_ok(muster_variable_create(runtime, names[i], muster_tensor_make(t->dtype, values, i ? 1 : 2, shapes[i]), &variables[i]));
    }
    muster_function *function = compile(runtime, t, variables);
    graph_fill(t->dtype, x, ROWS * INPUTS, 5);
    for (int64_t i = 0; i < ROWS * INPUTS && t->ones; i++) put(t->dtype, x, i, 1);
    if (t->input != 0) put(t->dtype, x, INPUTS * (ROWS - 2), t->input);
    const muster_tensor in = muster_tensor_make(t->dtype, x, 2, (const int64_t[]){ROWS, INPUTS}),
                        out = muster_tensor_make(t->dtype, &loss, 0, NULL);
    for (int32_t s = 0; s < (t->ones ? 1 : STEPS); s++) assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    t->passes = count_passes(function);
    read_all(runtime, t, variables, memory);
    assert_ok(muster_runtime_close(runtime));
}

static double value_at(const training *t, const void *memory, int64_t i) {
    return t->dtype == MUSTER_F64 ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}

static void compare(const training *t, const char *devices, const void *one, const void *several) {
    const double relative = t->tolerance > 0 ? t->tolerance : t->dtype == MUSTER_F64 ? 1e-11 : 2e-4;
    for (int64_t i = 0; i < ELEMENTS; i++) {
        const double a = value_at(t, one, i), b = value_at(t, several, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= relative * (fabs(a) + 0.01)) continue;
        fail_msg("%s, rule %d, %s, clip %g, input %g, element %lld: expected %.9g, received %.9g", devices, (int)t->rule,
                 muster_dtype_name(t->dtype), t->clip, t->input, (long long)i, a, b);
    }
}

static const double LIMIT = 0.004;
static char one[ELEMENTS * 8], several[ELEMENTS * 8];
static const char *const machines[] = {"host:2", "host:3", "host:4", "host:5", "host:6", "host:7", "host:8"};
enum { MACHINES = sizeof machines / sizeof *machines };

static void test_the_norms_of_the_cases_are_above_the_limit(void **state) {
    (void)state;
    training t = {.rule = MUSTER_SGD, .dtype = MUSTER_F64, .split = -1, .clip = LIMIT};
    train(&t, machines[0], one);
    t.clip = 0;
    train(&t, machines[0], several);
    assert_memory_not_equal(one, several, sizeof one);
}

/* Each number of devices with some rules and dtypes, so that all are there. */
static void test_clipped_updates_are_those_of_one_device(void **state) {
    const bool gpus = on_gpus();
    int32_t cases = 0, at = 0;
    (void)state;
    for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++)
        for (int32_t kind = 0; kind < 6; kind++) {
            training t = {.rule = rule, .dtype = kind % 2 ? MUSTER_F64 : MUSTER_F32, .split = kind / 2 - 1, .clip = LIMIT};
            if (gpus ? (rule + kind) % 12 != 0 : !test_is_full() && (rule + kind + (int32_t)test_seed()) % 2) continue;
            train(&t, "host:1", one);
            for (int32_t n = 0; n < 2; n++, cases++, at++) {
                const char *devices = machines[gpus ? at % 2 : at % MACHINES];
                train(&t, devices, several);
                assert_int_equal(t.passes, PARAMETERS);
                compare(&t, devices, one, several);
            }
        }
    assert_in_range(cases, gpus ? 4 : 48, gpus ? 10 : 96);
}

/* The factor is 1: the bits of the pass without clipping. */
static void test_a_norm_below_the_limit_changes_no_bit(void **state) {
    (void)state;
    for (int32_t n = 0; n < (on_gpus() ? 2 : MACHINES); n++) {
        training t = {.rule = MUSTER_ADAM, .dtype = MUSTER_F32, .split = -1};
        train(&t, machines[n], one);
        t.clip = 1e6;
        train(&t, machines[n], several);
        assert_memory_equal(one, several, ELEMENTS * sizeof(float));
    }
}

/* All gradients are 16, and the parameters 0 before: each new value has the bits of the factor of
 * the device that has made it. */
static void test_the_factor_has_the_same_bits_on_all_devices(void **state) {
    (void)state;
    for (int32_t n = 0; n < (on_gpus() ? 2 : MACHINES); n++)
        for (int32_t d = 0; d < 2; d++) {
            training t = {.rule = MUSTER_SGD,
                          .dtype = d ? MUSTER_F64 : MUSTER_F32,
                          .split = -1,
                          .clip = 0.3,
                          .loss = "sum(x @ w + b + v)",
                          .ones = true};
            train(&t, machines[n], several);
            const double first = value_at(&t, several, 0), expected = -0.01 * t.clip / sqrt(ELEMENTS);
            assert_int_equal(t.passes, PARAMETERS);
            assert_true(fabs(first - expected) <= 1e-6 * fabs(expected));
            for (int64_t i = 0; i < ELEMENTS; i++) assert_true(value_at(&t, several, i) == first);
        }
}

static void test_norms_of_nothing_of_infinity_and_of_nan_are_those_of_one_device(void **state) {
    static const double inputs[] = {INFINITY, -INFINITY, NAN};
    int32_t cases = 0;
    (void)state;
    for (int32_t i = 0; i < 4; i++)
        for (int32_t n = 0; n < (on_gpus() ? 1 : 3); n++, cases++) {
            training t = {.rule = MUSTER_SGD, .dtype = MUSTER_F32, .split = -1, .clip = 0.5, .input = i < 3 ? inputs[i] : 0};
            t.loss = i < 3 ? "sum(x @ w) + sum(b) + sum(v)" : "0 * (sum(x @ w) + sum(b) + sum(v))";
            train(&t, "host:1", one);
            train(&t, machines[2 * n], several);
            assert_int_equal(t.passes, PARAMETERS);
            compare(&t, machines[2 * n], one, several);
        }
    assert_int_equal(cases, on_gpus() ? 4 : 12);
}

/* In f32 the squares of these gradients, or their sums, are infinite or 0. The oracle is the same
 * training in f64, whose squares are not. */
static void test_norms_beyond_the_range_of_f32_clip_as_those_of_f64(void **state) {
    static const struct {
        double input, clip;
        const char *loss;
    } beyond[] = {{1e19, 0.5, "sum(x @ w) + sum(b) + sum(v)"},
                  {3e19, 0.5, "sum(x @ w) + sum(b) + sum(v)"},
                  {1, 1e-31, "1e-30 * (sum(x @ w) + sum(b) + sum(v))"}};
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    static double narrow[ELEMENTS];
    int32_t cases = 0;
    (void)state;
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond - (on_gpus() ? 1 : 0); i++) /* there small squares are 0 */
        for (int32_t n = 0; n < 3; n++, cases++) {
            training t = {.rule = MUSTER_SGD, .dtype = MUSTER_F64, .split = -1, .clip = beyond[i].clip, .input = beyond[i].input};
            t.loss = beyond[i].loss;
            t.rate = 0.1 / t.clip;
            train(&t, "host:1", one);
            t.dtype = MUSTER_F32;
            train(&t, devices[n], several);
            assert_int_equal(t.passes, n ? PARAMETERS : 0);
            for (int64_t e = 0; e < ELEMENTS; e++) narrow[e] = (double)((const float *)(const void *)several)[e];
            t.dtype = MUSTER_F64;
            t.tolerance = 1e-5;
            compare(&t, devices[n], one, narrow);
            assert_true(value_at(&t, one, 0) < -1e-3); /* the clipped gradient has moved it */
        }
    assert_int_equal(cases, on_gpus() ? 6 : 9);
}

/* The pass squares f32 and f64 only. The gradients are 3, 4 and 12, so the norm is 13, and a limit
 * of 6.5 halves them; all of that is exact. */
static void test_a_norm_with_half_floats_is_that_of_one_device(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    enum { F16_8 = 0x4800, F16_6_5 = 0x4680, F16_6 = 0x4600 };
    int32_t cases = 0;
    (void)state;
    for (int32_t n = 0; n < 3; n++, cases++) {
        uint16_t w[2] = {F16_8, F16_8};
        float v = 8, x[4][3] = {{1, 0, 3}, {0, 2, 4}, {2, 1, 5}, {0, 1, 0}}, loss;
        muster_runtime *runtime = graph_runtime(devices[n]);
        muster_variable *variables[2];
        muster_expr *parameters[2], *gradients[2];
        muster_rule_options rule;
        muster_graph *graph;
        muster_function *function;
        const muster_tensor halves = muster_tensor_make(MUSTER_F16, w, 2, (const int64_t[]){2, 1});
        assert_ok(muster_variable_create(runtime, "w", halves, &variables[0]));
        assert_ok(muster_variable_create(runtime, "v", muster_f32(&v, 1, 1), &variables[1]));
        assert_ok(muster_graph_create(runtime, "halves", &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3), MUSTER_SCATTER);
        for (int32_t i = 0; i < 2; i++) parameters[i] = muster_graph_parameter(graph, variables[i]);
        muster_expr *sum = muster_expr_parse(graph, "sum(x[:, 0:2] @ cast(w, f32)) + sum(x[:, 2:3] @ v)");
        assert_ok(muster_gradient(sum, parameters, 2, gradients));
        muster_rule_options_init(&rule);
        rule.learning_rate = 1;
        rule.clip_norm = 6.5;
        assert_ok(muster_graph_minimise(graph, parameters, gradients, 2, MUSTER_SGD, &rule));
        assert_ok(muster_graph_output(graph, "loss", sum, MUSTER_AUTO));
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        const muster_tensor in = muster_f32(x, 4, 3), out = muster_f32(&loss);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_int_equal(count_passes(function), 0);
        for (int32_t r = 0; r < muster_runtime_size(runtime); r++) {
            assert_ok(muster_variable_get(variables[0], r, halves));
            assert_ok(muster_variable_get(variables[1], r, muster_f32(&v, 1, 1)));
            assert_true(w[0] == F16_6_5 && w[1] == F16_6 && v == 2);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_norms_of_the_cases_are_above_the_limit),
        cmocka_unit_test(test_clipped_updates_are_those_of_one_device),
        cmocka_unit_test(test_a_norm_below_the_limit_changes_no_bit),
        cmocka_unit_test(test_the_factor_has_the_same_bits_on_all_devices),
        cmocka_unit_test(test_a_norm_with_half_floats_is_that_of_one_device),
        cmocka_unit_test(test_norms_of_nothing_of_infinity_and_of_nan_are_those_of_one_device),
        cmocka_unit_test(test_norms_beyond_the_range_of_f32_clip_as_those_of_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
