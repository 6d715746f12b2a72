#include "graph_shards.h"

#include <math.h>
#include <string.h>

enum { INPUTS = 19, HIDDEN = 33, CLASSES = 5, MOST_ROWS = 64, STEPS = 3, PARAMETERS = 4 };
static const int64_t shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {HIDDEN, 0}, {HIDDEN, CLASSES}, {CLASSES, 0}};
static const char *const names[PARAMETERS] = {"w", "b", "v", "c"};

static int64_t count_of(int32_t p) { return shapes[p][0] * (shapes[p][1] ? shapes[p][1] : 1); }
static float number(int64_t i) { return (float)(sin((double)(i * 37 % 1009)) / 3); }

static void describe(muster_runtime *runtime, muster_update_rule rule, muster_variable **variables, muster_function **function) {
    float memory[INPUTS * HIDDEN];
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

static void keep(shards_results *r, const float *values, int64_t count) {
    assert_true(r->count + count <= SHARDS_VALUES);
    memcpy(r->values + r->count, values, (size_t)count * sizeof *values);
    r->count += count;
}

static void keep_states(shards_results *r, muster_function *function) {
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

void shards_train(muster_runtime *runtime, int64_t rows, muster_update_rule rule, shards_results *r) {
    float x[MOST_ROWS * INPUTS], z[MOST_ROWS * CLASSES], values[INPUTS * HIDDEN];
    int32_t t[MOST_ROWS];
    muster_variable *variables[PARAMETERS];
    muster_function *function;
    const int32_t devices = muster_runtime_size(runtime);
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
}

bool shards_equal(const shards_results *a, const shards_results *b) {
    return a->count == b->count && memcmp(a->values, b->values, (size_t)a->count * sizeof(float)) == 0;
}
