/* Several calls of muster_graph_minimise in one graph, each with a rule, a rate, a decay and a clip
 * of its own: the weights of two layers by momentum, their biases by sgd at twice the rate, the
 * weights of the last layer by adam. The oracle is the same training in plain C. */
#include "base_machine.h"
#include "base_seed.h"
#include "device_discrete.h"
#include "graph_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 13, INPUTS = 5, HIDDEN = 70, UNITS = 33, STEPS = 6 };
enum { W, U, B, C, V, PARAMETERS };
static const int64_t shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {HIDDEN, UNITS}, {HIDDEN, 0}, {UNITS, 0}, {UNITS, 0}};
static const char *const names[PARAMETERS] = {"w", "u", "b", "c", "v"};
static const int32_t first_of[] = {W, B, V, PARAMETERS}; /* the parameters of each call */
enum { CALLS = 3, MOST = HIDDEN * UNITS };

static const double RATE = 0.05, ADAM_RATE = 0.01, MOMENTUM = 0.8, DECAY = 0.02, DECOUPLED = 0.03, CLIP_A = 0.02, CLIP_B = 0.005;

static int64_t count_of(int32_t p) { return shapes[p][0] * (shapes[p][1] ? shapes[p][1] : 1); }

/* ---- the oracle ---- */

typedef struct network {
    double p[PARAMETERS][MOST], g[PARAMETERS][MOST], velocity[PARAMETERS][MOST], moment[MOST], squares[MOST], loss;
    int32_t steps;
} network;

/* loss = mean(square(tanh(tanh(x @ w + b) @ u + c) @ v)) and its gradients. */
static void network_gradients(network *n, const double *x) {
    memset(n->g, 0, sizeof n->g);
    n->loss = 0;
    for (int32_t r = 0; r < EXAMPLES; r++) {
        double h[HIDDEN], k[UNITS], dh[HIDDEN] = {0}, y = 0;
        for (int32_t j = 0; j < HIDDEN; j++) {
            double z = n->p[B][j];
            for (int32_t i = 0; i < INPUTS; i++) z += x[r * INPUTS + i] * n->p[W][i * HIDDEN + j];
            h[j] = tanh(z);
        }
        for (int32_t u = 0; u < UNITS; u++) {
            double z = n->p[C][u];
            for (int32_t j = 0; j < HIDDEN; j++) z += h[j] * n->p[U][j * UNITS + u];
            k[u] = tanh(z);
            y += k[u] * n->p[V][u];
        }
        n->loss += y * y / EXAMPLES;
        for (int32_t u = 0; u < UNITS; u++) {
            const double dy = 2 * y / EXAMPLES, dz = dy * n->p[V][u] * (1 - k[u] * k[u]);
            n->g[V][u] += dy * k[u];
            n->g[C][u] += dz;
            for (int32_t j = 0; j < HIDDEN; j++) {
                n->g[U][j * UNITS + u] += h[j] * dz;
                dh[j] += n->p[U][j * UNITS + u] * dz;
            }
        }
        for (int32_t j = 0; j < HIDDEN; j++) {
            const double dz = dh[j] * (1 - h[j] * h[j]);
            n->g[B][j] += dz;
            for (int32_t i = 0; i < INPUTS; i++) n->g[W][i * HIDDEN + j] += x[r * INPUTS + i] * dz;
        }
    }
}

/* Gradients of one call have one norm, which is above the limit in every step. */
static void network_clip(network *n, int32_t first, int32_t end, double limit) {
    double squares = 0;
    for (int32_t p = first; p < end; p++)
        for (int64_t i = 0; i < count_of(p); i++) squares += n->g[p][i] * n->g[p][i];
    assert_true(sqrt(squares) > 1.2 * limit);
    for (int32_t p = first; p < end; p++)
        for (int64_t i = 0; i < count_of(p); i++) n->g[p][i] *= limit / sqrt(squares);
}

static void network_step(network *n, const double *x) {
    network_gradients(n, x);
    network_clip(n, W, B, CLIP_A);
    network_clip(n, V, PARAMETERS, CLIP_B);
    for (int32_t p = W; p < B; p++)
        for (int64_t i = 0; i < count_of(p); i++) {
            n->velocity[p][i] = MOMENTUM * n->velocity[p][i] - RATE * (n->g[p][i] + DECAY * n->p[p][i]);
            n->p[p][i] += n->velocity[p][i];
        }
    for (int32_t p = B; p < V; p++)
        for (int64_t i = 0; i < count_of(p); i++) n->p[p][i] -= 2 * RATE * n->g[p][i];
    n->steps++;
    const double scale = ADAM_RATE * sqrt(1 - pow(0.99, n->steps)) / (1 - pow(0.7, n->steps));
    for (int64_t i = 0; i < count_of(V); i++) {
        const double g = n->g[V][i];
        n->moment[i] = 0.7 * n->moment[i] + 0.3 * g;
        n->squares[i] = 0.99 * n->squares[i] + 0.01 * g * g;
        n->p[V][i] += -ADAM_RATE * DECOUPLED * n->p[V][i] - scale * n->moment[i] / (sqrt(n->squares[i]) + 1e-8);
    }
}

/* ---- the same by Muster ---- */

typedef struct training {
    const char *devices;
    muster_dtype dtype, of_biases; /* which may be another */
    int32_t split;                 /* 0: none; 1: w along its columns, u along its rows; 2: u along its columns, and v */
    bool unfused;
    int64_t bucket_bytes;
} training;

static double read_at(muster_dtype dtype, const void *memory, int64_t i) {
    return dtype == MUSTER_F64 ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}
static muster_dtype dtype_of(const training *t, int32_t p) { return p == B || p == C ? t->of_biases : t->dtype; }
static muster_tensor value_of(const training *t, int32_t p, void *memory) {
    return muster_tensor_make(dtype_of(t, p), memory, shapes[p][1] ? 2 : 1, shapes[p]);
}

static void minimise(muster_graph *g, muster_expr *const *p, muster_expr *const *d) {
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = RATE;
    options.momentum = MOMENTUM;
    options.weight_decay = DECAY;
    options.clip_norm = CLIP_A;
    assert_ok(muster_graph_minimise(g, p + first_of[0], d + first_of[0], first_of[1] - first_of[0], MUSTER_MOMENTUM, &options));
    muster_rule_options_init(&options);
    options.learning_rate = 2 * RATE;
    assert_ok(muster_graph_minimise(g, p + first_of[1], d + first_of[1], first_of[2] - first_of[1], MUSTER_SGD, &options));
    muster_rule_options_init(&options);
    options.learning_rate = ADAM_RATE;
    options.beta1 = 0.7;
    options.beta2 = 0.99;
    options.decoupled_weight_decay = DECOUPLED;
    options.clip_norm = CLIP_B;
    assert_ok(muster_graph_minimise(g, p + first_of[2], d + first_of[2], first_of[3] - first_of[2], MUSTER_ADAM, &options));
}

static muster_function *compile(muster_runtime *runtime, const training *t, muster_variable *const *variables) {
    muster_graph *g;
    muster_function *function;
    muster_graph_options options;
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    char text[200];
    const char *cast = muster_dtype_name(t->dtype);
    assert_ok(muster_graph_create(runtime, "training", &g));
    (void)muster_graph_input(g, "x", t->dtype, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) p[i] = muster_graph_parameter(g, variables[i]);
    if (t->split == 1) assert_ok(muster_graph_split(p[W], 1));
    if (t->split == 1) assert_ok(muster_graph_split(p[U], 0));
    if (t->split == 2) assert_ok(muster_graph_split(p[U], 1));
    if (t->split == 2) assert_ok(muster_graph_split(p[V], 0));
    snprintf(text, sizeof text, "mean(square(tanh(tanh(x @ w + cast(b, %s)) @ u + cast(c, %s)) @ v))", cast, cast);
    muster_expr *loss = muster_expr_parse(g, text);
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    minimise(g, p, d);
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.unfused = t->unfused;
    options.bucket_bytes = t->bucket_bytes;
    assert_ok(muster_graph_compile(g, &options, &function));
    assert_ok(muster_graph_destroy(g));
    return function;
}

static void compare(const training *t, const char *what, const void *memory, muster_dtype dtype, const double *expected, int64_t count) {
    const double tolerance = t->dtype == MUSTER_F64 ? 1e-11 : 2e-5;
    for (int64_t i = 0; i < count; i++) {
        const double x = read_at(dtype, memory, i);
        if (!(fabs(x - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
            fail_msg("%s, %s with biases of %s, split %d, unfused %d: %s: element %lld: expected %.12g, received %.12g", t->devices,
                     muster_dtype_name(t->dtype), muster_dtype_name(t->of_biases), (int)t->split, (int)t->unfused, what, (long long)i,
                     expected[i], x);
    }
}

/* Every device has the bits of the whole value. */
static void replicas_check(muster_runtime *runtime, const training *t, muster_variable *variable, int32_t p, const void *whole) {
    static double again[MOST];
    for (int32_t r = 0; r < muster_runtime_size(runtime) && muster_variable_split_axis(variable) < 0; r++) {
        assert_ok(muster_variable_get(variable, r, value_of(t, p, again)));
        assert_memory_equal(whole, again, (size_t)(count_of(p) * (int64_t)muster_dtype_size(dtype_of(t, p))));
    }
}

static void states_check(const training *t, muster_function *function, muster_variable *const *variables, const network *n) {
    static double memory[MOST];
    int32_t states;
    int64_t steps = 0;
    assert_ok(muster_function_state_count(function, &states));
    assert_int_equal(states, 5); /* two velocities; moment, squares, step */
    for (int32_t p = W; p < B; p++) {
        assert_ok(muster_function_state_get(function, variables[p], "velocity", value_of(t, p, memory)));
        compare(t, "velocity", memory, t->dtype, n->velocity[p], count_of(p));
    }
    assert_ok(muster_function_state_get(function, variables[V], "moment", value_of(t, V, memory)));
    compare(t, "moment", memory, t->dtype, n->moment, count_of(V));
    assert_ok(muster_function_state_get(function, variables[V], "squares", value_of(t, V, memory)));
    compare(t, "squares", memory, t->dtype, n->squares, count_of(V));
    assert_ok(muster_function_state_get(function, variables[V], "step", muster_i64(&steps)));
    assert_int_equal(steps, STEPS);
}

/* One pass needs groups, which the discrete device does not compile. */
static void passes_check(const training *t, muster_function *function, int32_t devices) {
    static const char ending[] = ", in one pass";
    const bool passes = devices > 1 && !t->unfused && (on_gpus() || !strstr(t->devices, "discrete"));
    char *text = graph_dump_text(function);
    int32_t found = 0;
    for (const char *at = text; (at = strstr(at, ending)); at += sizeof ending - 1) found++;
    if (found != (passes ? PARAMETERS : 0)) fail_msg("%s: %d updates in one pass", t->devices, (int)found);
    free(text);
}

static void train(const training *t) {
    static double memory[MOST], x[EXAMPLES * INPUTS];
    static network n;
    double loss = 0, exact[EXAMPLES * INPUTS];
    muster_variable *variables[PARAMETERS];
    muster_runtime *runtime = graph_runtime(t->devices);
    memset(&n, 0, sizeof n);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        graph_fill(dtype_of(t, p), memory, count_of(p), 1000 * p + 3);
        for (int64_t i = 0; i < count_of(p); i++) n.p[p][i] = read_at(dtype_of(t, p), memory, i);
        assert_ok(muster_variable_create(runtime, names[p], value_of(t, p, memory), &variables[p]));
    }
    muster_function *function = compile(runtime, t, variables);
    for (int32_t step = 0; step < STEPS; step++) {
        graph_fill(t->dtype, x, EXAMPLES * INPUTS, 100 * step);
        for (int32_t i = 0; i < EXAMPLES * INPUTS; i++) exact[i] = read_at(t->dtype, x, i);
        const muster_tensor in = muster_tensor_make(t->dtype, x, 2, (const int64_t[]){EXAMPLES, INPUTS}),
                            out = muster_tensor_make(t->dtype, &loss, 0, NULL);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        network_step(&n, exact);
        compare(t, "loss", &loss, t->dtype, &n.loss, 1);
    }
    passes_check(t, function, muster_runtime_size(runtime));
    for (int32_t p = 0; p < PARAMETERS; p++) {
        assert_ok(muster_variable_get_whole(variables[p], value_of(t, p, memory)));
        compare(t, names[p], memory, dtype_of(t, p), n.p[p], count_of(p));
        replicas_check(runtime, t, variables[p], p, memory);
    }
    states_check(t, function, variables, &n);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- the cases ---- */

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:8", "discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, KINDS = 3, SPLITS = 3 };

static void every_call_has_its_rule_rate_decay_and_clip(void **state) {
    static const muster_dtype dtypes[KINDS][2] = {{MUSTER_F64, MUSTER_F64}, {MUSTER_F32, MUSTER_F32}, {MUSTER_F32, MUSTER_F64}};
    const bool sample = on_gpus() && !test_is_full();
    int32_t cases = 0, turn = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++)
        for (int32_t kind = 0; kind < KINDS; kind++)
            for (int32_t split = 0; split < SPLITS; split++)
                for (int32_t unfused = 0; unfused < 2; unfused++, turn++) {
                    if (sample && (strcmp(machines[m], "host:8") == 0 || turn % 5)) continue;
                    /* small buckets: several on GPUs */
                    train(&(training){machines[m], dtypes[kind][0], dtypes[kind][1], split, unfused, turn % 2 ? 1024 : 0});
                    cases++;
                }
    assert_in_range(cases, sample ? 12 : MACHINES * KINDS * SPLITS * 2, sample ? 16 : MACHINES * KINDS * SPLITS * 2);
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register() != MUSTER_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_has_its_rule_rate_decay_and_clip)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
