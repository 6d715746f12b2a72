/* Graphs that mean one device, in a runtime with logical shards: the bits of outputs, parameters
 * and states are the same for every number of devices that divides the number of shards. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 19, HIDDEN = 33, CLASSES = 5, MOST_ROWS = 64, STEPS = 3, PARAMETERS = 4, MOST_VALUES = 8192 };
static const int64_t shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {HIDDEN, 0}, {HIDDEN, CLASSES}, {CLASSES, 0}};
static const char *const names[PARAMETERS] = {"w", "b", "v", "c"};

static int64_t count_of(int32_t p) { return shapes[p][0] * (shapes[p][1] ? shapes[p][1] : 1); }
static float number(int64_t i) { return (float)(sin((double)(i * 37 % 1009)) / 3); }

/* Everything that a training leaves: the logits of the last step, losses, parameters, states. */
typedef struct results {
    float values[MOST_VALUES];
    int64_t count;
} results;

static void describe(muster_runtime *runtime, muster_update_rule rule, muster_variable **variables, muster_function **function) {
    static float memory[INPUTS * HIDDEN];
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_rule_options options;
    muster_graph *g;
    for (int32_t p = 0; p < PARAMETERS; p++) {
        for (int64_t i = 0; i < count_of(p); i++) memory[i] = number(i + 1000 * p);
        const muster_tensor value = muster_tensor_make(MUSTER_F32, memory, shapes[p][1] ? 2 : 1, shapes[p]);
        assert_ok(muster_variable_create(runtime, names[p], value, &variables[p]));
    }
    assert_ok(muster_graph_create(runtime, "training", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    for (int32_t p = 0; p < PARAMETERS; p++) parameters[p] = muster_graph_parameter(g, variables[p]);
    /* statistics of all rows, dropout by the number of the row */
    muster_expr *z = muster_expr_parse(g, "h = x @ w + b;"
                                          "n = (h - mean(h, 0)) / sqrt(var(h, 0) + 0.001);"
                                          "dropout(relu(n), step, 0.25, 7) @ v + c");
    muster_expr *loss = muster_expr_parse(g, "mean(cross_entropy(z, t))", "z", z);
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&options);
    options.clip_norm = rule % 2 ? 0.5 : 0;
    assert_ok(muster_graph_minimise(g, parameters, gradients, PARAMETERS, rule, &options));
    assert_ok(muster_graph_output(g, "z", z, MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, function));
    assert_ok(muster_graph_destroy(g));
}

static void keep(results *r, const float *values, int64_t count) {
    assert_true(r->count + count <= MOST_VALUES);
    memcpy(r->values + r->count, values, (size_t)count * sizeof *values);
    r->count += count;
}

static void keep_states(results *r, muster_function *function) {
    int32_t states;
    assert_ok(muster_function_state_count(function, &states));
    for (int32_t s = 0; s < states; s++) {
        float values[INPUTS * HIDDEN];
        muster_state_description state;
        muster_state_description_init(&state);
        assert_ok(muster_function_state_describe(function, s, &state));
        if (state.dtype != MUSTER_F32) continue; /* the number of steps */
        const muster_tensor value = muster_tensor_make(state.dtype, values, state.ndim, state.shape);
        assert_ok(muster_function_state_get(function, state.variable, state.name, value));
        keep(r, values, muster_tensor_count(value));
    }
}

static void train(int32_t devices, int32_t shards, int64_t rows, muster_update_rule rule, results *r) {
    static float x[MOST_ROWS * INPUTS], z[MOST_ROWS * CLASSES], values[INPUTS * HIDDEN];
    int32_t t[MOST_ROWS];
    char text[16];
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    muster_function *function;
    snprintf(text, sizeof text, "host:%d", (int)devices % 100);
    muster_runtime_options_init(&options);
    options.devices = text;
    options.logical_shards = shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    describe(runtime, rule, variables, &function);
    for (int64_t i = 0; i < rows * INPUTS; i++) x[i] = number(i + 17);
    for (int64_t i = 0; i < rows; i++) t[i] = (int32_t)(i * 3 % CLASSES);
    r->count = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        float loss;
        const muster_tensor in[] = {muster_f32(x, rows, INPUTS), muster_i32(t, rows), muster_i64(&step)};
        const muster_tensor out[] = {muster_f32(z, rows, CLASSES), muster_f32(&loss)};
        assert_ok(muster_function_call(function, in, 3, out, 2, NULL));
        keep(r, &loss, 1);
    }
    keep(r, z, rows * CLASSES);
    for (int32_t p = 0; p < PARAMETERS; p++)
        for (int32_t d = 0; d<devices; d += devices> 1 ? devices - 1 : 1) {
            assert_ok(muster_variable_get(variables[p], d, muster_tensor_make(MUSTER_F32, values, shapes[p][1] ? 2 : 1, shapes[p])));
            if (d == 0)
                keep(r, values, count_of(p));
            else
                assert_memory_equal(values, r->values + r->count - count_of(p), (size_t)count_of(p) * sizeof *values);
        }
    keep_states(r, function);
    assert_ok(muster_runtime_close(runtime));
}

static void test_bits_do_not_depend_on_the_number_of_devices(void **state) {
    static const int32_t sets[2][5] = {{8, 1, 2, 4, 8}, {6, 1, 2, 3, 6}};
    static const int64_t row_counts[] = {1, 7, 64};
    static results one, several;
    const bool gpus = on_gpus();
    int32_t cases = 0;
    (void)state;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t n = 0; n < 3; n++)
            for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++) {
                if (!test_is_full() && (rule + n + s) % (gpus ? 8 : 3)) continue; /* a sample */
                train(1, sets[s][0], row_counts[n], rule, &one);
                for (int32_t d = 2; d < (gpus ? 4 : 5); d++, cases++) {
                    train(sets[s][d], sets[s][0], row_counts[n], rule, &several);
                    if (one.count != several.count || memcmp(one.values, several.values, (size_t)one.count * sizeof(float)) != 0)
                        fail_msg("%d shards, %lld rows, rule %d: expected the bits of 1 device on %d", (int)sets[s][0],
                                 (long long)row_counts[n], (int)rule, (int)sets[s][d]);
                }
            }
    assert_int_equal(cases, test_is_full() ? (gpus ? 96 : 144) : gpus ? 12 : 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_do_not_depend_on_the_number_of_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
