/* Update rules against other programs: what NumPy makes of parameters in 100 steps of each rule,
 * with given gradients and as training (rules_fixtures.def), and the node tests of ONNX
 * (rules_onnx.def). */
#include "base_machine.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = sizeof machines / sizeof *machines };
enum { GPU_STRIDE = 37 }; /* of the runs, on simulated GPUs: a prime, so that all rules and variants come up */

/* ---- the file ---- */

enum { STEPS = 100, ROWS = 11, INPUTS = 2, OUTPUTS = 3, WEIGHTS = INPUTS * OUTPUTS, SIZE = WEIGHTS + OUTPUTS };
typedef enum variant { PLAIN, COUPLED, DECOUPLED, CLIPPED, SCHEDULED, TRAINED, VARIANTS } variant;
static const char *const variant_names[VARIANTS] = {"plain", "coupled decay", "decoupled decay", "clipped", "scheduled rate", "training"};
typedef struct input {
    const char *name, *values;
} input;
typedef struct expectation {
    muster_update_rule rule;
    variant how;
    bool own; /* with numbers of the program, else the defaults */
    const char *name, *values;
} expectation;
#define VALUES(rule, how, own, name, values)
#define INPUT(name, values) {name, values},
static const input inputs[] = {
#include "rules_fixtures.def"
};
#undef VALUES
#undef INPUT
#define INPUT(name, values)
#define VALUES(rule, how, own, name, values) {rule, how, own, name, values},
static const expectation expectations[] = {
#include "rules_fixtures.def"
};
enum { INPUT_ROWS = sizeof inputs / sizeof *inputs, EXPECTATIONS = sizeof expectations / sizeof *expectations };

static void read_values(const char *text, double scale, int32_t count, double *values) {
    char *end;
    for (int32_t i = 0; i < count; i++, text = end) {
        values[i] = strtod(text, &end) * scale;
        assert_true(end != text);
    }
    assert_true(*text == 0);
}

/* The nth row of this name. */
static void read_input(const char *name, int32_t nth, int32_t count, double *values) {
    for (int32_t i = 0; i < INPUT_ROWS; i++)
        if (strcmp(inputs[i].name, name) == 0 && nth-- == 0) {
            read_values(inputs[i].values, 1. / 64, count, values);
            return;
        }
    fail_msg("no row \"%s\" in the file", name);
}

static double start[SIZE], rates[STEPS], x[ROWS][INPUTS], t[ROWS][OUTPUTS], gradients[STEPS][SIZE];
static int read_file(void **state) {
    (void)state;
    read_input("start", 0, SIZE, start);
    read_input("rates", 0, STEPS, rates);
    read_input("x", 0, ROWS * INPUTS, &x[0][0]);
    read_input("t", 0, ROWS * OUTPUTS, &t[0][0]);
    for (int32_t s = 0; s < STEPS; s++) read_input("gradient", s, SIZE, gradients[s]);
    return 0;
}

/* ---- one run ---- */

/* As the script has them. */
static void options_set(const expectation *run, muster_expr *rate, muster_rule_options *options) {
    const bool decays = run->rule == MUSTER_ADAM || run->rule == MUSTER_ADAMAX;
    const bool averages = run->rule == MUSTER_RMSPROP || run->rule == MUSTER_ADADELTA;
    muster_rule_options_init(options);
    if (run->own) {
        options->learning_rate = 0.05;
        if (run->rule == MUSTER_MOMENTUM || run->rule == MUSTER_NESTEROV) options->momentum = 0.5;
        if (decays) options->beta1 = 0.8, options->beta2 = 0.95;
        if (averages) options->rho = 0.7;
        if (decays || averages || run->rule == MUSTER_ADAGRAD) options->epsilon = 1e-3;
    }
    if (run->how == COUPLED) options->weight_decay = 0.05;
    if (run->how == DECOUPLED) options->decoupled_weight_decay = 0.04;
    if (run->how == CLIPPED) options->clip_norm = 2.5;
    if (run->how == SCHEDULED) options->rate = rate, options->learning_rate = 0;
}

typedef struct training {
    muster_variable *w, *b;
    muster_function *function;
} training;

static training training_begin(muster_runtime *runtime, const expectation *run) {
    training made;
    muster_graph *graph;
    muster_rule_options options;
    muster_expr *p[2], *g[2], *rate = NULL;
    assert_ok(muster_variable_create(runtime, "w", muster_f64(start, INPUTS, OUTPUTS), &made.w));
    assert_ok(muster_variable_create(runtime, "b", muster_f64(start + WEIGHTS, OUTPUTS), &made.b));
    assert_ok(muster_graph_create(runtime, "step", &graph));
    p[0] = muster_graph_parameter(graph, made.w);
    p[1] = muster_graph_parameter(graph, made.b);
    if (run->how == TRAINED) {
        (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
        (void)muster_graph_input(graph, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, OUTPUTS), MUSTER_SCATTER);
        assert_ok(muster_gradient(muster_expr_parse(graph, "mean(square(tanh(x @ w + b) - t))"), p, 2, g));
    } else {
        g[0] = muster_graph_input(graph, "gw", MUSTER_F64, MUSTER_SHAPE(INPUTS, OUTPUTS), MUSTER_BROADCAST);
        g[1] = muster_graph_input(graph, "gb", MUSTER_F64, MUSTER_SHAPE(OUTPUTS), MUSTER_BROADCAST);
        rate = muster_graph_input(graph, "rate", MUSTER_F64, MUSTER_SCALAR, MUSTER_BROADCAST);
    }
    options_set(run, rate, &options);
    assert_ok(muster_graph_minimise(graph, p, g, 2, run->rule, &options));
    assert_ok(muster_graph_compile(graph, NULL, &made.function));
    assert_ok(muster_graph_destroy(graph));
    return made;
}

static void training_run(const training *made, variant how) {
    for (int32_t s = 0; s < STEPS; s++) {
        const muster_tensor rows[] = {muster_f64(&x[0][0], ROWS, INPUTS), muster_f64(&t[0][0], ROWS, OUTPUTS)};
        const muster_tensor given[] = {muster_f64(gradients[s], INPUTS, OUTPUTS), muster_f64(gradients[s] + WEIGHTS, OUTPUTS),
                                       muster_f64(&rates[s])};
        assert_ok(muster_function_call(made->function, how == TRAINED ? rows : given, how == TRAINED ? 2 : 3, NULL, 0, NULL));
    }
}

static void training_end(const training *made) {
    assert_ok(muster_function_destroy(made->function));
    assert_ok(muster_variable_destroy(made->w));
    assert_ok(muster_variable_destroy(made->b));
}

/* Is the parameter, on this rank, or the state what the file has? */
static bool agrees(const training *made, const expectation *expected, int32_t rank) {
    double want[SIZE], got[SIZE], worst = 0;
    const muster_tensor w = muster_f64(got, INPUTS, OUTPUTS), b = muster_f64(got + WEIGHTS, OUTPUTS);
    read_values(expected->values, 1, SIZE, want);
    if (strcmp(expected->name, "p") == 0) {
        assert_ok(muster_variable_get(made->w, rank, w));
        assert_ok(muster_variable_get(made->b, rank, b));
    } else {
        assert_ok(muster_function_state_get(made->function, made->w, expected->name, w));
        assert_ok(muster_function_state_get(made->function, made->b, expected->name, b));
    }
    for (int32_t i = 0; i < SIZE; i++) worst = fmax(worst, fabs(got[i] - want[i]) / (1 + fabs(want[i])));
    if (worst <= (expected->how == TRAINED ? 1e-11 : 1e-12)) return true;
    print_error("rule %d, %s, %s: %s of rank %d: the largest error is %g\n", expected->rule, variant_names[expected->how],
                expected->own ? "numbers of the program" : "defaults", expected->name, rank, worst);
    return false;
}

/* Rows of one run lie behind one another. */
static int32_t run_length(int32_t first) {
    const expectation *run = &expectations[first];
    int32_t count = 1;
    while (first + count < EXPECTATIONS && run[count].rule == run->rule && run[count].how == run->how && run[count].own == run->own)
        count++;
    return count;
}

static void rules_make_the_steps_of_numpy(void **state) {
    int32_t runs = 0, compared = 0, wrong = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int32_t first = 0, count; first < EXPECTATIONS; first += count, runs++) {
            count = run_length(first);
            compared += count;
            if (on_gpus() && runs % GPU_STRIDE) continue;
            const training made = training_begin(runtime, &expectations[first]);
            training_run(&made, expectations[first].how);
            for (int32_t i = first; i < first + count; i++)
                for (int32_t r = 0; r < muster_runtime_size(runtime); r++) wrong += !agrees(&made, &expectations[i], r);
            training_end(&made);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(runs, MACHINES * 8 * (5 * 2 + 1));
    assert_int_equal(compared, MACHINES * (8 * (5 * 2 + 1) + 10 * 3));
}

/* ---- ONNX ---- */

enum { MOST = 2 };
typedef struct onnx {
    const char *test, *operation;
    bool nesterov;
    int64_t t;
    double rate, alpha, beta, epsilon, regularisation;
    int64_t count;
    int32_t states;
    float given[4][MOST], expected[3][MOST]; /* x, g, states; x, states */
} onnx;
#define ONNX(...) {__VA_ARGS__},
static const onnx nodes[] = {
#include "rules_onnx.def"
};
enum { NODES = sizeof nodes / sizeof *nodes };

/* ONNX's Adam and Momentum have no corrections at T = 0: there t is so large that there is none.
 * Its velocity has no rate in it: ours is -rate V. Its beta, a factor of a momentum's gradient,
 * counts as 1 at T = 0. */
static muster_update_rule onnx_rule(const onnx *node, muster_rule_options *options, const char *names[2]) {
    muster_rule_options_init(options);
    options->learning_rate = node->rate;
    options->weight_decay = node->regularisation;
    names[0] = "squares";
    if (strcmp(node->operation, "Momentum") == 0) {
        options->momentum = node->alpha;
        names[0] = "velocity";
        return node->nesterov ? MUSTER_NESTEROV : MUSTER_MOMENTUM;
    }
    options->epsilon = node->epsilon;
    if (strcmp(node->operation, "Adagrad") == 0) return MUSTER_ADAGRAD;
    options->beta1 = node->alpha;
    options->beta2 = node->beta;
    names[0] = "moment";
    names[1] = "squares";
    return MUSTER_ADAM;
}

static void check_close(const onnx *node, const char *what, const float *got, const float *expected, double factor) {
    for (int64_t i = 0; i < node->count; i++)
        if (!(fabs(got[i] - factor * expected[i]) <= 1e-6 * (1 + fabs(factor * expected[i]))))
            fail_msg("%s: %s[%d]: ONNX has %.9g, received %.9g", node->test, what, (int)i, factor * expected[i], (double)got[i]);
}

static void check_node(muster_runtime *runtime, const onnx *node) {
    muster_variable *w;
    muster_graph *graph;
    muster_function *function;
    muster_rule_options options;
    const char *names[2];
    float got[MOST];
    const muster_tensor value = muster_f32(got, node->count), g = muster_f32((float *)(uintptr_t)node->given[1], node->count);
    const muster_update_rule rule = onnx_rule(node, &options, names);
    assert_int_equal(node->t, 0);
    assert_ok(muster_variable_create(runtime, "w", muster_f32((float *)(uintptr_t)node->given[0], node->count), &w));
    assert_ok(muster_graph_create(runtime, node->test, &graph));
    muster_expr *p = muster_graph_parameter(graph, w);
    muster_expr *d = muster_graph_input(graph, "g", MUSTER_F32, MUSTER_SHAPE(node->count), MUSTER_BROADCAST);
    assert_ok(muster_graph_minimise(graph, &p, &d, 1, rule, &options));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const bool velocity = strcmp(names[0], "velocity") == 0;
    for (int32_t s = 0; s < node->states; s++) {
        for (int64_t i = 0; i < node->count; i++) got[i] = (velocity ? (float)-node->rate : 1) * node->given[2 + s][i];
        assert_ok(muster_function_state_set(function, w, names[s], value));
    }
    int64_t step = INT64_C(1) << 53;
    if (rule == MUSTER_ADAM) assert_ok(muster_function_state_set(function, w, "step", muster_i64(&step)));
    assert_ok(muster_function_call(function, &g, 1, NULL, 0, NULL));
    assert_ok(muster_variable_get(w, 0, value));
    check_close(node, "x", got, node->expected[0], 1);
    for (int32_t s = 0; s < node->states; s++) {
        assert_ok(muster_function_state_get(function, w, names[s], value));
        check_close(node, names[s], got, node->expected[1 + s], velocity ? -node->rate : 1);
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(w));
}

static void onnx_node_tests_pass(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < 2; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int32_t i = 0; i < NODES; i++, checked++)
            if (!on_gpus() || i % 4 == 0) check_node(runtime, &nodes[i]);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 2 * 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_make_the_steps_of_numpy), cmocka_unit_test(onnx_node_tests_pass)};
    return cmocka_run_group_tests(tests, read_file, NULL);
}
