/* Update rules over 100 steps, against loops in f64 that are written from the papers: sums over all
 * gradients so far in place of moving averages, Nesterov's method by its own sequence, Adam in the
 * form of algorithm 1. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <string.h>

/* The devices that each case runs on. */
static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = sizeof machines / sizeof *machines };
enum { GPU_STRIDE = 37 }; /* of the cases, on simulated GPUs */

enum { STEPS = 100, ROWS = 3, COLUMNS = 4, BIAS = 5, ELEMENTS = ROWS * COLUMNS + BIAS };
typedef enum variant { PLAIN, COUPLED, DECOUPLED, CLIPPED, SCHEDULED, VARIANTS } variant;
static const char *const variant_names[VARIANTS] = {"plain", "coupled decay", "decoupled decay", "clipped", "scheduled rate"};

/* ---- what the rules are given ---- */

typedef struct numbers {
    double rate, momentum, beta1, beta2, rho, epsilon;
} numbers;
static const struct {
    muster_update_rule rule;
    const char *name;
    numbers otherwise; /* the defaults, as the documentation has them */
    const char *states[4];
} rules[] = {
    {MUSTER_SGD, "sgd", {.rate = 0.01}, {NULL}},
    {MUSTER_MOMENTUM, "momentum", {.rate = 0.01, .momentum = 0.9}, {"velocity", NULL}},
    {MUSTER_NESTEROV, "nesterov", {.rate = 0.01, .momentum = 0.9}, {"velocity", NULL}},
    {MUSTER_ADAGRAD, "adagrad", {.rate = 1, .epsilon = 1e-6}, {"squares", NULL}},
    {MUSTER_RMSPROP, "rmsprop", {.rate = 1, .rho = 0.9, .epsilon = 1e-6}, {"squares", NULL}},
    {MUSTER_ADADELTA, "adadelta", {.rate = 1, .rho = 0.95, .epsilon = 1e-6}, {"squares", "changes", NULL}},
    {MUSTER_ADAM, "adam", {.rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, {"moment", "squares", "step", NULL}},
    {MUSTER_ADAMAX, "adamax", {.rate = 0.002, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, {"moment", "largest", "step", NULL}}};
enum { RULES = sizeof rules / sizeof *rules };
/* Numbers of the program: those that the rule does not have stay 0. */
static const numbers others = {.rate = 0.05, .momentum = 0.5, .beta1 = 0.8, .beta2 = 0.95, .rho = 0.7, .epsilon = 1e-3};
static const double coupled = 0.05, decoupled = 0.04, clip_norm = 2.5;

static double start_at(int32_t i) { return (double)((i * 5 + 2) % 9 - 4) / 4; }
/* Large and small gradients of both signs, some of them 0; multiples of 1/64, which f32 has. */
static double gradient_at(int32_t step, int32_t i) {
    return (i + step) % 13 == 0 ? 0 : (double)((step * 31 + i * 17 + step * i % 7) % 129 - 60) / 64;
}
static double rate_at(int32_t step) { return (double)(1 + step % 5) / 64; }

/* What the rule uses in this case. */
static numbers numbers_of(int32_t rule, bool own) {
    numbers used = rules[rule].otherwise;
    if (!own) return used;
    used.rate = others.rate;
    used.momentum *= used.momentum > 0 ? others.momentum / used.momentum : 0;
    used.beta1 *= used.beta1 > 0 ? others.beta1 / used.beta1 : 0;
    used.beta2 *= used.beta2 > 0 ? others.beta2 / used.beta2 : 0;
    used.rho *= used.rho > 0 ? others.rho / used.rho : 0;
    used.epsilon *= used.epsilon > 0 ? others.epsilon / used.epsilon : 0;
    return used;
}

/* ---- the oracle ---- */

static double history[STEPS][ELEMENTS]; /* the gradients that the rule has seen */
static double changes[STEPS][ELEMENTS]; /* of adadelta */

/* (1 - decay) times the sum over all steps so far of decay^age times f. */
static double average(double decay, double (*values)[ELEMENTS], int32_t steps, int32_t i, bool squared) {
    double sum = 0;
    for (int32_t s = 0; s < steps; s++) sum += pow(decay, steps - 1 - s) * (squared ? values[s][i] * values[s][i] : values[s][i]);
    return (1 - decay) * sum;
}

/* What the rule takes from element i in step t, which counts from 1. The rate is constant. */
static double taken(muster_update_rule rule, const numbers *n, const double *rates, int32_t t, int32_t i) {
    const double g = history[t - 1][i], rate = rates[t - 1];
    double sum = 0;
    switch (rule) {
    case MUSTER_SGD:
        return rate * g;
    case MUSTER_MOMENTUM: /* the sum of all steps, each with its rate */
        for (int32_t s = 0; s < t; s++) sum += pow(n->momentum, t - 1 - s) * rates[s] * history[s][i];
        return sum;
    case MUSTER_NESTEROV: { /* x is Nesterov's sequence, p = x + momentum v the point of the gradients */
        double before = 0, after = 0;
        for (int32_t s = 0; s < t; s++) before = after, after = n->momentum * before - rates[s] * history[s][i];
        return -((after + n->momentum * after) - n->momentum * before);
    }
    case MUSTER_ADAGRAD:
        for (int32_t s = 0; s < t; s++) sum += history[s][i] * history[s][i];
        return rate * g / (sqrt(sum) + n->epsilon);
    case MUSTER_RMSPROP:
        return rate * g / sqrt(average(n->rho, history, t, i, true) + n->epsilon);
    case MUSTER_ADADELTA:
        changes[t - 1][i] =
            -sqrt(average(n->rho, changes, t - 1, i, true) + n->epsilon) / sqrt(average(n->rho, history, t, i, true) + n->epsilon) * g;
        return -rate * changes[t - 1][i];
    case MUSTER_ADAM: { /* algorithm 1, with the epsilon that makes it the order of section 2 */
        const double m = average(n->beta1, history, t, i, false) / (1 - pow(n->beta1, t));
        const double v = average(n->beta2, history, t, i, true) / (1 - pow(n->beta2, t));
        return rate * m / (sqrt(v) + n->epsilon / sqrt(1 - pow(n->beta2, t)));
    }
    default: { /* adamax: the largest of the gradients, each the smaller the older it is */
        double largest = 0;
        for (int32_t s = 0; s < t; s++) largest = fmax(largest, pow(n->beta2, t - 1 - s) * fabs(history[s][i]));
        return rate / (1 - pow(n->beta1, t)) * average(n->beta1, history, t, i, false) / (largest + n->epsilon);
    }
    }
}

static void oracle(int32_t rule, const numbers *n, variant how, double p[ELEMENTS]) {
    double rates[STEPS];
    memset(changes, 0, sizeof changes);
    for (int32_t i = 0; i < ELEMENTS; i++) p[i] = start_at(i);
    for (int32_t t = 1; t <= STEPS; t++) {
        double norm = 0;
        rates[t - 1] = how == SCHEDULED ? rate_at(t - 1) : n->rate;
        for (int32_t i = 0; i < ELEMENTS; i++) norm += gradient_at(t - 1, i) * gradient_at(t - 1, i);
        norm = sqrt(norm);
        for (int32_t i = 0; i < ELEMENTS; i++) {
            double g = gradient_at(t - 1, i);
            if (how == CLIPPED && norm > clip_norm) g = g / norm * clip_norm;
            if (how == COUPLED) g += coupled * p[i];
            history[t - 1][i] = g;
        }
        for (int32_t i = 0; i < ELEMENTS; i++) {
            const double before = p[i];
            p[i] -= taken(rules[rule].rule, n, rates, t, i);
            if (how == DECOUPLED) p[i] -= rates[t - 1] * decoupled * before;
        }
    }
}

/* ---- the rule itself ---- */

typedef struct trained {
    muster_function *function;
    muster_variable *w, *b;
    bool wide;
} trained;

static muster_tensor tensor_of(const trained *t, double *wide, float *narrow, bool bias) {
    if (bias) return t->wide ? muster_f64(wide, BIAS) : muster_f32(narrow, BIAS);
    return t->wide ? muster_f64(wide, ROWS, COLUMNS) : muster_f32(narrow, ROWS, COLUMNS);
}

static void make(muster_runtime *runtime, int32_t rule, const numbers *own, variant how, bool wide, trained *t) {
    double w64[ELEMENTS];
    float w32[ELEMENTS];
    muster_graph *graph;
    muster_rule_options options;
    const muster_dtype dtype = wide ? MUSTER_F64 : MUSTER_F32;
    t->wide = wide;
    for (int32_t i = 0; i < ELEMENTS; i++) w64[i] = start_at(i), w32[i] = (float)start_at(i);
    assert_ok(muster_variable_create(runtime, "w", tensor_of(t, w64, w32, false), &t->w));
    assert_ok(muster_variable_create(runtime, "b", tensor_of(t, w64 + ROWS * COLUMNS, w32 + ROWS * COLUMNS, true), &t->b));
    assert_ok(muster_graph_create(runtime, "step", &graph));
    muster_expr *p[] = {muster_graph_parameter(graph, t->w), muster_graph_parameter(graph, t->b)};
    muster_expr *g[] = {muster_graph_input(graph, "gw", dtype, MUSTER_SHAPE(ROWS, COLUMNS), MUSTER_BROADCAST),
                        muster_graph_input(graph, "gb", dtype, MUSTER_SHAPE(BIAS), MUSTER_BROADCAST)};
    muster_expr *rate = muster_graph_input(graph, "rate", MUSTER_F64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_rule_options_init(&options);
    if (own) {
        options.learning_rate = own->rate;
        options.momentum = own->momentum;
        options.beta1 = own->beta1;
        options.beta2 = own->beta2;
        options.rho = own->rho;
        options.epsilon = own->epsilon;
    }
    if (how == COUPLED) options.weight_decay = coupled;
    if (how == DECOUPLED) options.decoupled_weight_decay = decoupled;
    if (how == CLIPPED) options.clip_norm = clip_norm;
    if (how == SCHEDULED) options.rate = rate, options.learning_rate = 0;
    assert_ok(muster_graph_minimise(graph, p, g, 2, rules[rule].rule, &options));
    assert_ok(muster_graph_compile(graph, NULL, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static void train(const trained *t, int32_t first, int32_t last) {
    for (int32_t s = first; s < last; s++) {
        double g64[ELEMENTS], rate = rate_at(s);
        float g32[ELEMENTS];
        for (int32_t i = 0; i < ELEMENTS; i++) g64[i] = gradient_at(s, i), g32[i] = (float)g64[i];
        const muster_tensor in[] = {tensor_of(t, g64, g32, false), tensor_of(t, g64 + ROWS * COLUMNS, g32 + ROWS * COLUMNS, true),
                                    muster_f64(&rate)};
        assert_ok(muster_function_call(t->function, in, 3, NULL, 0, NULL));
    }
}

static void get_values(const trained *t, int32_t rank, double values[ELEMENTS]) {
    float narrow[ELEMENTS];
    assert_ok(muster_variable_get(t->w, rank, tensor_of(t, values, narrow, false)));
    assert_ok(muster_variable_get(t->b, rank, tensor_of(t, values + ROWS * COLUMNS, narrow + ROWS * COLUMNS, true)));
    for (int32_t i = 0; i < ELEMENTS && !t->wide; i++) values[i] = narrow[i];
}

static void end(const trained *t) {
    assert_ok(muster_function_destroy(t->function));
    assert_ok(muster_variable_destroy(t->w));
    assert_ok(muster_variable_destroy(t->b));
}

/* ---- every rule ---- */

static bool agrees(int32_t rule, variant how, bool own, const trained *t, int32_t rank, const double expected[ELEMENTS]) {
    double received[ELEMENTS], worst = 0;
    get_values(t, rank, received);
    for (int32_t i = 0; i < ELEMENTS; i++) worst = fmax(worst, fabs(received[i] - expected[i]) / (1 + fabs(expected[i])));
    if (worst <= (t->wide ? 1e-12 : 2e-5)) return true;
    print_error("%s, %s, %s, %s: the largest error is %g\n", rules[rule].name, variant_names[how],
                own ? "numbers of the program" : "defaults", t->wide ? "f64" : "f32", worst);
    return false;
}

static void every_rule_makes_the_steps_of_its_paper(void **state) {
    int32_t checked = 0, wrong = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int32_t rule = 0; rule < RULES; rule++)
            for (variant how = PLAIN; how < VARIANTS; how++)
                for (int32_t own = 0; own < 2; own++) {
                    const numbers used = numbers_of(rule, own != 0);
                    double expected[ELEMENTS];
                    oracle(rule, &used, how, expected);
                    for (int32_t wide = 0; wide < 2; wide++, checked++) {
                        trained t;
                        if (on_gpus() && checked % GPU_STRIDE) continue;
                        make(runtime, rule, own ? &used : NULL, how, wide != 0, &t);
                        train(&t, 0, STEPS);
                        for (int32_t r = 0; r < muster_runtime_size(runtime); r++) wrong += !agrees(rule, how, own != 0, &t, r, expected);
                        end(&t);
                    }
                }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(checked, MACHINES * RULES * VARIANTS * 2 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_makes_the_steps_of_its_paper)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
