/* Update rules, case by case: ONNX's operators of training, clipping at the edges, large counts of
 * steps, f16 and bf16, options whose value is 0, and wrong arguments. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static muster_runtime *runtime;

static int open_runtime(void **state) {
    if (graph_open(state)) return 1;
    runtime = *state;
    return 0;
}

/* ---- one step of one rule on f64 vectors ---- */

enum { MOST = 3 };
typedef struct stepped {
    muster_variable *w;
    muster_function *function;
    int64_t count;
} stepped;

static stepped step_begin(const double *x, int64_t count, muster_update_rule rule, const muster_rule_options *options) {
    stepped s = {.count = count};
    muster_graph *graph;
    assert_ok(muster_variable_create(runtime, "w", muster_f64((double *)(uintptr_t)x, count), &s.w));
    assert_ok(muster_graph_create(runtime, "step", &graph));
    muster_expr *p = muster_graph_parameter(graph, s.w);
    muster_expr *g = muster_graph_input(graph, "g", MUSTER_F64, MUSTER_SHAPE(count), MUSTER_BROADCAST);
    assert_ok(muster_graph_minimise(graph, &p, &g, 1, rule, options));
    assert_ok(muster_graph_compile(graph, NULL, &s.function));
    assert_ok(muster_graph_destroy(graph));
    return s;
}

static void step_set(const stepped *s, const char *name, const double *value) {
    assert_ok(muster_function_state_set(s->function, s->w, name, muster_f64((double *)(uintptr_t)value, s->count)));
}

static void step_run(const stepped *s, const double *g) {
    const muster_tensor in = muster_f64((double *)(uintptr_t)g, s->count);
    assert_ok(muster_function_call(s->function, &in, 1, NULL, 0, NULL));
}

/* Are the parameter (name NULL) or the state the expected values? */
static void step_check(const stepped *s, const char *name, const double *expected) {
    double got[MOST];
    const muster_tensor value = muster_f64(got, s->count);
    if (name)
        assert_ok(muster_function_state_get(s->function, s->w, name, value));
    else
        assert_ok(muster_variable_get(s->w, 0, value));
    for (int64_t i = 0; i < s->count; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-13 * (1 + fabs(expected[i]))))
            fail_msg("%s[%d]: expected %.17g, received %.17g", name ? name : "w", (int)i, expected[i], got[i]);
}

static void step_end(const stepped *s) {
    assert_ok(muster_function_destroy(s->function));
    assert_ok(muster_variable_destroy(s->w));
}

/* ---- ONNX: ai.onnx.preview.training ---- */

/* The operands of the node tests: x, g, v, h; a rate of 0.1. The outputs are written from the
 * operators' definitions. */
typedef struct onnx {
    int64_t count, t;
    double x[2], g[2], v[2], h[2], alpha, beta, regularisation, epsilon;
} onnx;
static const double onnx_rate = 0.1;

static void check_onnx_adam(const onnx *c) {
    double x[2], v[2], h[2];
    for (int64_t i = 0; i < c->count; i++) {
        const double g = c->regularisation * c->x[i] + c->g[i];
        v[i] = c->alpha * c->v[i] + (1 - c->alpha) * g;
        h[i] = c->beta * c->h[i] + (1 - c->beta) * g * g;
        const double scale = c->t > 0 ? sqrt(1 - pow(c->beta, (double)c->t)) / (1 - pow(c->alpha, (double)c->t)) : 1;
        x[i] = c->x[i] - onnx_rate * scale * v[i] / (sqrt(h[i]) + c->epsilon);
    }
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = onnx_rate;
    options.beta1 = c->alpha;
    options.beta2 = c->beta;
    options.epsilon = c->epsilon;
    options.weight_decay = c->regularisation;
    const stepped s = step_begin(c->x, c->count, MUSTER_ADAM, &options);
    /* ONNX's T is our t; its T = 0, no correction, is a t so large that there is none */
    int64_t before = c->t > 0 ? c->t - 1 : INT64_C(1) << 53;
    assert_ok(muster_function_state_set(s.function, s.w, "step", muster_i64(&before)));
    step_set(&s, "moment", c->v);
    step_set(&s, "squares", c->h);
    step_run(&s, c->g);
    step_check(&s, NULL, x);
    step_check(&s, "moment", v);
    step_check(&s, "squares", h);
    step_end(&s);
}

/* ONNX's rate / (1 + T decay_factor) is a rate that the program gives. */
static void check_onnx_adagrad(const onnx *c, double decay_factor) {
    double x[2], h[2];
    const double rate = onnx_rate / (1 + (double)c->t * decay_factor);
    for (int64_t i = 0; i < c->count; i++) {
        const double g = c->regularisation * c->x[i] + c->g[i];
        h[i] = c->h[i] + g * g;
        x[i] = c->x[i] - rate * g / (sqrt(h[i]) + c->epsilon);
    }
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = rate;
    options.epsilon = c->epsilon;
    options.weight_decay = c->regularisation;
    const stepped s = step_begin(c->x, c->count, MUSTER_ADAGRAD, &options);
    step_set(&s, "squares", c->h);
    step_run(&s, c->g);
    step_check(&s, NULL, x);
    step_check(&s, "squares", h);
    step_end(&s);
}

/* ONNX's velocity V has no rate in it: velocity = -rate V. Its beta, a factor of the gradient, is 1
 * here, and counts as 1 where T = 0. */
static void check_onnx_momentum(const onnx *c, bool nesterov) {
    double x[2], v[2], start[2];
    for (int64_t i = 0; i < c->count; i++) {
        const double g = c->regularisation * c->x[i] + c->g[i], next = c->alpha * c->v[i] + (c->t > 0 ? c->beta : 1) * g;
        x[i] = c->x[i] - onnx_rate * (nesterov ? g + c->alpha * next : next);
        v[i] = -onnx_rate * next;
        start[i] = -onnx_rate * c->v[i];
    }
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = onnx_rate;
    options.momentum = c->alpha;
    options.weight_decay = c->regularisation;
    const stepped s = step_begin(c->x, c->count, nesterov ? MUSTER_NESTEROV : MUSTER_MOMENTUM, &options);
    step_set(&s, "velocity", start);
    step_run(&s, c->g);
    step_check(&s, NULL, x);
    step_check(&s, "velocity", v);
    step_end(&s);
}

static void onnx_operators_are_rules(void **state) {
    (void)state;
    const onnx adam[] = {{2, 0, {1.2, 2.8}, {-0.94, -2.5}, {1.7, 3.6}, {0.1, 0.1}, 0.95, 0.1, 0.001, 1e-7},
                         {1, 0, {1}, {-1}, {2}, {0.5}, 0.95, 0.85, 0.001, 1e-2},
                         {2, 0, {1, 2}, {-1, -3}, {4, 1}, {1, 10}, 0.95, 0.85, 0.001, 1e-2},
                         {2, 1, {1.2, 2.8}, {-0.94, -2.5}, {1.7, 3.6}, {0.1, 0.1}, 0.95, 0.1, 0.001, 1e-7},
                         {2, 7, {1.2, 2.8}, {-0.94, -2.5}, {1.7, 3.6}, {0.1, 0.1}, 0.95, 0.1, 0.001, 1e-7}};
    const onnx adagrad[] = {{1, 0, {1}, {-1}, {0}, {2}, 0, 0, 0.001, 1e-5},
                            {2, 0, {1, 2}, {-1, -3}, {0}, {4, 1}, 0, 0, 0.001, 1e-5},
                            {2, 9, {1, 2}, {-1, -3}, {0}, {4, 1}, 0, 0, 0.001, 1e-5}};
    const onnx momentum[] = {{2, 0, {1.2, 2.8}, {-0.94, -2.5}, {1.7, 3.6}, {0}, 0.95, 0.1, 0.001, 0},
                             {1, 0, {1}, {-1}, {2}, {0}, 0.95, 0.85, 0.001, 0},
                             {2, 0, {1, 2}, {-1, -3}, {4, 1}, {0}, 0.95, 0.85, 0.001, 0},
                             {2, 3, {1, 2}, {-1, -3}, {4, 1}, {0}, 0.95, 1, 0.001, 0}};
    const onnx nesterov = {2, 0, {1.2, 2.8}, {-0.94, -2.5}, {1.7, 3.6}, {0}, 0.95, 1, 0.01, 0};
    for (size_t i = 0; i < sizeof adam / sizeof *adam; i++) check_onnx_adam(&adam[i]);
    for (size_t i = 0; i < sizeof adagrad / sizeof *adagrad; i++) check_onnx_adagrad(&adagrad[i], 0.1);
    for (size_t i = 0; i < sizeof momentum / sizeof *momentum; i++) check_onnx_momentum(&momentum[i], false);
    check_onnx_momentum(&nesterov, true);
}

/* ---- large counts of steps, values of 0 ---- */

/* The first step of Adam is the rate, whatever the gradient; at 10^6 steps and at 10^15 it has no
 * correction left. In f32, where 1 - 0.999 itself has 4 digits only. */
static void corrections_are_right_at_every_step(void **state) {
    static const int64_t before[] = {0, 1, 9, 999, 999999, INT64_C(1000000000000000)};
    int32_t checked = 0;
    (void)state;
    for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
        float zero = 0, moment = 0.25f, squares = 0.5f, g = 0.125f, got;
        int64_t step = before[k];
        muster_variable *w;
        muster_graph *graph;
        muster_function *function;
        assert_ok(muster_variable_create(runtime, "w", muster_f32(&zero), &w));
        assert_ok(muster_graph_create(runtime, "step", &graph));
        muster_expr *p = muster_graph_parameter(graph, w), *d = muster_graph_input(graph, "g", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
        assert_ok(muster_graph_minimise(graph, &p, &d, 1, MUSTER_ADAM, NULL));
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_function_state_set(function, w, "moment", muster_f32(&moment)));
        assert_ok(muster_function_state_set(function, w, "squares", muster_f32(&squares)));
        assert_ok(muster_function_state_set(function, w, "step", muster_i64(&step)));
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(&g)}, 1, NULL, 0, NULL));
        const double t = (double)(before[k] + 1), m = 0.9 * 0.25 + 0.1 * 0.125, v = 0.999 * 0.5 + 0.001 * 0.125 * 0.125;
        const double expected = -0.001 * (m / -expm1(t * log(0.9))) / sqrt(v / -expm1(t * log(0.999)));
        assert_ok(muster_variable_get(w, 0, muster_f32(&got)));
        assert_true(fabs(got - expected) <= 4e-7 * fabs(expected));
        assert_ok(muster_function_state_get(function, w, "step", muster_i64(&step)));
        assert_true(step == before[k] + 1);
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_variable_destroy(w));
        checked++;
    }
    assert_int_equal(checked, 6);
}

static void a_negative_option_is_0(void **state) {
    (void)state;
    const double x[] = {1, 2}, g[] = {0.5, -0.25}, plain[] = {1 - 0.01 * 0.5, 2 + 0.01 * 0.25}, sign[] = {1 - 0.001, 2 + 0.001};
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.momentum = -1; /* momentum of 0 is sgd */
    stepped s = step_begin(x, 2, MUSTER_MOMENTUM, &options);
    step_run(&s, g);
    step_check(&s, NULL, plain);
    step_end(&s);
    muster_rule_options_init(&options);
    options.beta1 = options.beta2 = options.epsilon = -1; /* adam without a memory: the sign */
    s = step_begin(x, 2, MUSTER_ADAM, &options);
    step_run(&s, g);
    step_check(&s, NULL, sign);
    step_end(&s);
}

/* ---- clipping ---- */

/* x and y, clipped together to `norm`. */
static void clip(double norm, double x[2], float *y) {
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "clip", &graph));
    muster_expr *g[] = {muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST),
                        muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST)};
    assert_ok(muster_graph_clip(graph, g, 2, norm, g));
    assert_ok(muster_graph_output(graph, "cx", g[0], MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "cy", g[1], MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    const muster_tensor in[] = {muster_f64(x, 2), muster_f32(y)};
    double cx[2];
    float cy;
    assert_ok(muster_function_call(function, in, 2, (muster_tensor[]){muster_f64(cx, 2), muster_f32(&cy)}, 2, NULL));
    memcpy(x, cx, sizeof cx);
    *y = cy;
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

static void clipping_is_by_the_norm_of_all_gradients(void **state) {
    (void)state;
    double x[] = {2, -4};
    float y = 4; /* the norm is 6 */
    clip(3, x, &y);
    assert_true(fabs(x[0] - 1) < 1e-15 && fabs(x[1] + 2) < 1e-15 && y == 2);
    x[0] = 2, x[1] = -4, y = 4;
    clip(6, x, &y); /* at the bound, and beyond it, nothing changes */
    assert_true(x[0] == 2 && x[1] == -4 && y == 4);
    clip(100, x, &y);
    assert_true(x[0] == 2 && x[1] == -4 && y == 4);
    x[0] = x[1] = 0, y = 0;
    clip(1, x, &y);
    assert_true(x[0] == 0 && x[1] == 0 && y == 0);
    x[0] = NAN, x[1] = 1, y = 1;
    clip(1, x, &y);
    assert_true(isnan(x[0]) && isnan(x[1]) && isnan(y));
    x[0] = -INFINITY, x[1] = 1, y = 1;
    clip(1, x, &y);
    assert_true(isnan(x[0]) && x[1] == 0 && y == 0);
    x[0] = x[1] = 1, y = 1e30f; /* whose square is no f32 */
    clip(1, x, &y);
    assert_true(fabs(x[0] / 1e-30 - 1) < 1e-6 && fabs(x[1] / 1e-30 - 1) < 1e-6 && fabs((double)y - 1) < 1e-6);
}

/* ---- f16 and bf16 ---- */

/* `half`, a variable of the dtype, as f32, and `exact`, an f32 variable, rounded to the dtype. */
static muster_function *make_reader(muster_variable *half, muster_variable *exact, muster_dtype dtype) {
    muster_graph *made;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "reader", &made));
    (void)muster_graph_parameter(made, half);
    (void)muster_graph_parameter(made, exact);
    assert_ok(muster_graph_output(made, "half", muster_expr_parse(made, "cast(half, f32)"), MUSTER_AUTO));
    const char *text = dtype == MUSTER_F16 ? "cast(cast(exact, f16), f32)" : "cast(cast(exact, bf16), f32)";
    assert_ok(muster_graph_output(made, "rounded", muster_expr_parse(made, text), MUSTER_AUTO));
    assert_ok(muster_graph_compile(made, NULL, &function));
    assert_ok(muster_graph_destroy(made));
    return function;
}

/* Both are trained by the same gradients, which are numbers of the dtype. */
static muster_function *make_trainer(muster_variable *half, muster_variable *exact, muster_dtype dtype, muster_update_rule rule) {
    muster_graph *made;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "trainer", &made));
    muster_expr *parameters[] = {muster_graph_parameter(made, half), muster_graph_parameter(made, exact)};
    (void)muster_graph_input(made, "g", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *narrow = muster_expr_parse(made, dtype == MUSTER_F16 ? "cast(g, f16)" : "cast(g, bf16)");
    muster_expr *wide = muster_expr_parse(made, "cast(n, f32)", "n", narrow);
    assert_ok(muster_graph_minimise(made, &parameters[0], &narrow, 1, rule, NULL));
    assert_ok(muster_graph_minimise(made, &parameters[1], &wide, 1, rule, NULL));
    assert_ok(muster_graph_compile(made, NULL, &function));
    assert_ok(muster_graph_destroy(made));
    return function;
}

/* Computed in f32, and rounded once: the same as an f32 parameter that is rounded after each
 * call. */
static void halves_are_computed_in_f32(void **state) {
    static const muster_dtype halves[] = {MUSTER_F16, MUSTER_BF16};
    const int32_t steps = on_gpus() && !test_is_full() ? 4 : 20;
    int32_t checked = 0;
    (void)state;
    for (int32_t h = 0; h < 2; h++)
        for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++) {
            float start = 0.0625f, got = 0, reference = 1; /* near 1 a step of adam is less than half a unit of bf16 */
            uint16_t bits = halves[h] == MUSTER_F16 ? 0x2c00 : 0x3d80;
            muster_variable *half, *exact;
            assert_ok(muster_variable_create(runtime, "half", muster_tensor_make(halves[h], &bits, 0, NULL), &half));
            assert_ok(muster_variable_create(runtime, "exact", muster_f32(&start), &exact));
            muster_function *reader = make_reader(half, exact, halves[h]), *trainer = make_trainer(half, exact, halves[h], rule);
            for (int32_t s = 0; s < steps; s++, checked++) {
                float gradient = (float)(s + 1) * 0.3f;
                assert_ok(muster_function_call(trainer, (muster_tensor[]){muster_f32(&gradient)}, 1, NULL, 0, NULL));
                assert_ok(muster_function_call(reader, NULL, 0, (muster_tensor[]){muster_f32(&got), muster_f32(&reference)}, 2, NULL));
                assert_true(got == reference);
                assert_ok(muster_variables_broadcast(&exact, (muster_tensor[]){muster_f32(&got)}, 1));
            }
            assert_true(got < start);
            assert_ok(muster_function_destroy(trainer));
            assert_ok(muster_function_destroy(reader));
            assert_ok(muster_variable_destroy(half));
            assert_ok(muster_variable_destroy(exact));
        }
    assert_int_equal(checked, 2 * 8 * steps);
}

/* ---- wrong arguments ---- */

static muster_graph *graph;
static muster_expr *p[2], *g[2], *foreign, *rows, *vector;
static int32_t refused;

static void refuse(muster_status status, const char *message, muster_update_rule rule, const muster_rule_options *options) {
    const muster_status received = muster_graph_minimise(graph, p, g, 2, rule, options);
    if (received != status || !strstr(muster_last_error(), message))
        fail_msg("expected %s: %s, received %s: %s", muster_status_name(status), message, muster_status_name(received),
                 muster_last_error());
    refused++;
}

static void wrong_graph(muster_variable *w, muster_variable *b, muster_variable *data) {
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_create(runtime, "wrong", &graph));
    p[0] = muster_graph_parameter(graph, w), p[1] = muster_graph_parameter(graph, b);
    g[0] = muster_graph_input(graph, "g", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    g[1] = g[0];
    rows = muster_graph_parameter_rows(graph, data);
    vector = muster_graph_input(graph, "three", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
}

static void refuse_option(size_t offset, double value, muster_update_rule rule, const char *message) {
    muster_rule_options options;
    muster_rule_options_init(&options);
    memcpy((char *)&options + offset, &value, sizeof value);
    refuse(MUSTER_INVALID_ARGUMENT, message, rule, &options);
}

static void wrong_arguments_are_named(void **state) {
    float values[2] = {1, 2};
    muster_variable *w, *b, *data;
    muster_graph *other;
    (void)state;
    assert_ok(muster_variable_create(runtime, "w", muster_f32(values, 2), &w));
    assert_ok(muster_variable_create(runtime, "b", muster_f32(values, 2), &b));
    assert_ok(muster_variable_create(runtime, "data", muster_f32(values, 2), &data));
    assert_ok(muster_graph_create(runtime, "other", &other));
    foreign = muster_graph_parameter(other, w);
#define WRONG(change, status, message, rule, options) \
    do {                                              \
        wrong_graph(w, b, data);                      \
        change;                                       \
        refuse(status, message, rule, options);       \
    } while (0)
#define OPTION(name, value, rule, message)                                        \
    do {                                                                          \
        wrong_graph(w, b, data);                                                  \
        refuse_option(offsetof(muster_rule_options, name), value, rule, message); \
    } while (0)
    const char *function = "muster_graph_minimise: ";
    WRONG((void)0, MUSTER_INVALID_ARGUMENT, "rule: expected a muster_update_rule, such as MUSTER_SGD, received 9", 9, NULL);
    WRONG(p[1] = p[0], MUSTER_INVALID_ARGUMENT, "parameters[1]: expected each parameter once, received \"w\" again", MUSTER_SGD, NULL);
    WRONG(assert_ok(muster_graph_minimise(graph, &p[1], &g[1], 1, MUSTER_ADAM, NULL)), MUSTER_INVALID_ARGUMENT,
          "parameters[1]: expected each parameter in one call, received \"b\" again, which has rule adam", MUSTER_SGD, NULL);
    WRONG(assert_ok(muster_graph_update(graph, b, g[0], MUSTER_AUTO)), MUSTER_INVALID_ARGUMENT,
          "parameters[1]: expected a parameter without an update, received \"b\", which has one", MUSTER_SGD, NULL);
    WRONG(p[0] = g[0], MUSTER_INVALID_ARGUMENT, "parameters[0]: expected an expression of muster_graph_parameter, received \"g\" (2,) f32",
          MUSTER_SGD, NULL);
    WRONG(p[0] = rows, MUSTER_INVALID_ARGUMENT, "parameters[0]: expected an expression of muster_graph_parameter, received \"data\"",
          MUSTER_SGD, NULL);
    WRONG(p[0] = foreign, MUSTER_INVALID_ARGUMENT,
          "parameters[0]: expected an expression of graph \"wrong\", received one of graph \"other\"", MUSTER_SGD, NULL);
    WRONG(g[1] = vector, MUSTER_SHAPE_MISMATCH, "gradients[1]: expected the shape and dtype of \"b\" (2,) f32, received \"three\" (3,) f32",
          MUSTER_SGD, NULL);
    WRONG(g[1] = muster_expr_parse(graph, "cast(g, f64)"), MUSTER_DTYPE_MISMATCH,
          "gradients[1]: expected the shape and dtype of \"b\" (2,) f32, received (2,) f64", MUSTER_SGD, NULL);
    WRONG((void)0, MUSTER_SHAPE_MISMATCH, "options: rate: expected a scalar of a float dtype, received \"g\" (2,) f32", MUSTER_SGD,
          &((muster_rule_options){.struct_size = sizeof(muster_rule_options), .rate = g[0]}));
    WRONG((void)0, MUSTER_INVALID_ARGUMENT, "options: learning_rate: expected 0, since `rate` is given, received 1", MUSTER_SGD,
          &((muster_rule_options){.struct_size = sizeof(muster_rule_options), .rate = g[0], .learning_rate = 1}));
    OPTION(learning_rate, -0.1, MUSTER_SGD, "options: learning_rate: expected a finite number of at least 0, received -0.1");
    OPTION(learning_rate, NAN, MUSTER_SGD, "options: learning_rate: expected a finite number of at least 0, received nan");
    OPTION(learning_rate, INFINITY, MUSTER_SGD, "options: learning_rate: expected a finite number of at least 0, received inf");
    OPTION(momentum, 0.9, MUSTER_SGD, "options: momentum: expected 0, since rule sgd has no such option, received 0.9");
    OPTION(momentum, 1, MUSTER_NESTEROV, "options: momentum: expected a finite number of at least 0 and below 1, where 0 is the default");
    OPTION(beta1, 1, MUSTER_ADAM, "options: beta1: expected a finite number of at least 0 and below 1");
    OPTION(beta2, NAN, MUSTER_ADAMAX, "options: beta2: expected a finite number of at least 0 and below 1");
    OPTION(rho, 1.5, MUSTER_RMSPROP, "options: rho: expected a finite number of at least 0 and below 1");
    OPTION(rho, 0.5, MUSTER_ADAM, "options: rho: expected 0, since rule adam has no such option, received 0.5");
    OPTION(epsilon, INFINITY, MUSTER_ADAGRAD, "options: epsilon: expected a finite number of at least 0, where 0 is the default");
    OPTION(weight_decay, -1, MUSTER_SGD, "options: weight_decay: expected a finite number of at least 0, received -1");
    OPTION(decoupled_weight_decay, -1, MUSTER_SGD, "options: decoupled_weight_decay: expected a finite number of at least 0, received -1");
    OPTION(clip_norm, NAN, MUSTER_SGD, "options: clip_norm: expected a finite number of at least 0, received nan");
    assert_non_null(strstr(muster_last_error(), function));
    assert_int_equal(refused, 24);
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_destroy(other));
    assert_ok(muster_variable_destroy(w));
    assert_ok(muster_variable_destroy(b));
    assert_ok(muster_variable_destroy(data));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onnx_operators_are_rules),   cmocka_unit_test(corrections_are_right_at_every_step),
        cmocka_unit_test(a_negative_option_is_0),     cmocka_unit_test(clipping_is_by_the_norm_of_all_gradients),
        cmocka_unit_test(halves_are_computed_in_f32), cmocka_unit_test(wrong_arguments_are_named)};
    return cmocka_run_group_tests(tests, open_runtime, graph_close);
}
