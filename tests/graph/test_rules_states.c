/* The states of update rules: read, written, moved to a runtime with other devices, shared by no
 * two graphs, and ended with what owns them. */
#include "base_machine.h"
#include "base_pairs.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "memory_impl.h"
#include "muster/rule.h"

#include <math.h>
#include <string.h>

enum { STEPS = 100, HALF = 50, ROWS = 3, COLUMNS = 2, ELEMENTS = ROWS * COLUMNS, STATES = 3 };
static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = sizeof machines / sizeof *machines };

/* The names and dtypes of the states, rule by rule. */
static const struct {
    muster_update_rule rule;
    const char *name, *states[STATES + 1];
} rules[] = {{MUSTER_SGD, "sgd", {NULL}},
             {MUSTER_MOMENTUM, "momentum", {"velocity", NULL}},
             {MUSTER_NESTEROV, "nesterov", {"velocity", NULL}},
             {MUSTER_ADAGRAD, "adagrad", {"squares", NULL}},
             {MUSTER_RMSPROP, "rmsprop", {"squares", NULL}},
             {MUSTER_ADADELTA, "adadelta", {"squares", "changes", NULL}},
             {MUSTER_ADAM, "adam", {"moment", "squares", "step", NULL}},
             {MUSTER_ADAMAX, "adamax", {"moment", "largest", "step", NULL}}};
enum { RULES = sizeof rules / sizeof *rules };

static float gradient_at(int32_t step, int32_t i) { return (float)((step * 31 + i * 17) % 129 - 60) / 37; }

/* ---- a function that trains w (3, 2) ---- */

typedef struct trained {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *w;
} trained;

static muster_function *compile_rule(muster_runtime *runtime, const char *name, muster_variable *w, muster_update_rule rule) {
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, name, &graph));
    muster_expr *p = muster_graph_parameter(graph, w);
    muster_expr *g = muster_graph_input(graph, "g", MUSTER_F32, MUSTER_SHAPE(ROWS, COLUMNS), MUSTER_BROADCAST);
    assert_ok(muster_graph_minimise(graph, &p, &g, 1, rule, NULL));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

/* w is split along the axis, unless it is -1. */
static trained begin_split(const char *devices, muster_update_rule rule, int32_t axis) {
    float start[ELEMENTS] = {1, -2, 0.5f, 3, -0.25f, 0};
    trained t = {.runtime = graph_runtime(devices)};
    assert_ok(muster_variable_create(t.runtime, "w", muster_f32(start, ROWS, COLUMNS), &t.w));
    if (axis >= 0) assert_ok(muster_variable_split(t.w, axis));
    t.function = compile_rule(t.runtime, "step", t.w, rule);
    return t;
}

static trained begin(const char *devices, muster_update_rule rule) { return begin_split(devices, rule, -1); }

static void train(muster_function *function, int32_t first, int32_t last) {
    for (int32_t s = first; s < last; s++) {
        float g[ELEMENTS];
        for (int32_t i = 0; i < ELEMENTS; i++) g[i] = gradient_at(s, i);
        const muster_tensor in = muster_f32(g, ROWS, COLUMNS);
        assert_ok(muster_function_call(function, &in, 1, NULL, 0, NULL));
    }
}

/* All that training needs to go on. */
typedef struct saved {
    float w[ELEMENTS], states[STATES][ELEMENTS];
    int64_t step;
} saved;

static muster_tensor state_tensor(saved *s, const muster_state_description *d, int32_t index) {
    return d->dtype == MUSTER_I64 ? muster_i64(&s->step) : muster_f32(s->states[index], ROWS, COLUMNS);
}

static void save(const trained *t, saved *s) {
    int32_t count;
    memset(s, 0, sizeof *s);
    assert_ok(muster_variable_get_whole(t->w, muster_f32(s->w, ROWS, COLUMNS)));
    assert_ok(muster_function_state_count(t->function, &count));
    for (int32_t i = 0; i < count; i++) {
        muster_state_description d;
        muster_state_description_init(&d);
        assert_ok(muster_function_state_describe(t->function, i, &d));
        assert_ok(muster_function_state_get(t->function, d.variable, d.name, state_tensor(s, &d, i)));
    }
}

static void restore(const trained *t, saved *s) {
    int32_t count;
    assert_ok(muster_variable_set_whole(t->w, muster_f32(s->w, ROWS, COLUMNS)));
    assert_ok(muster_function_state_count(t->function, &count));
    for (int32_t i = 0; i < count; i++) {
        muster_state_description d;
        muster_state_description_init(&d);
        assert_ok(muster_function_state_describe(t->function, i, &d));
        assert_ok(muster_function_state_set(t->function, d.variable, d.name, state_tensor(s, &d, i)));
    }
}

/* ---- the cases ---- */

static void every_rule_describes_its_states(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t rule = 0; rule < RULES; rule++) {
        const trained t = begin("host:1", rules[rule].rule);
        int32_t count = -1, expected = 0;
        for (; rules[rule].states[expected]; expected++, checked++) {
            muster_state_description d;
            muster_state_description_init(&d);
            assert_ok(muster_function_state_describe(t.function, expected, &d));
            const bool step = strcmp(d.name, "step") == 0;
            assert_string_equal(d.name, rules[rule].states[expected]);
            assert_string_equal(d.rule, rules[rule].name);
            assert_ptr_equal(d.variable, t.w);
            assert_int_equal(d.dtype, step ? MUSTER_I64 : MUSTER_F32);
            assert_int_equal(d.ndim, step ? 0 : 2);
            if (!step) assert_true(d.shape[0] == ROWS && d.shape[1] == COLUMNS);
        }
        assert_ok(muster_function_state_count(t.function, &count));
        assert_int_equal(count, expected);
        assert_ok(muster_runtime_close(t.runtime));
    }
    assert_int_equal(checked, 12);
}

/* 50 steps, and 50 more in a runtime with another number of devices, and with the parameter split
 * in another way, are 100 steps: the bits. */
static void training_goes_on_at_another_number_of_devices(void **state) {
    static const int32_t extents[] = {RULES, MACHINES, 3};
    int32_t checked = 0, count;
    (void)state;
    pairs_case *cases = pairs_draw(extents, 3, test_seed(), NULL, &count);
    for (int32_t rule = 0; rule < RULES; rule++) {
        saved straight, moved;
        const trained reference = begin("host:1", rules[rule].rule);
        train(reference.function, 0, STEPS);
        save(&reference, &straight);
        assert_ok(muster_runtime_close(reference.runtime));
        for (int32_t from = 0; from < MACHINES; from++)
            for (int32_t axis = -1; axis < 2; axis++) {
                if (!test_is_full() && !pairs_has(cases, count, 3, (const int32_t[]){rule, from, axis + 1})) continue;
                if (!test_is_full() && on_gpus() && (rule + from) % 3) continue;
                checked++;
                const trained first = begin_split(machines[from], rules[rule].rule, axis);
                train(first.function, 0, HALF);
                save(&first, &moved);
                assert_ok(muster_runtime_close(first.runtime));
                const trained second = begin_split(machines[(from + 1) % MACHINES], rules[rule].rule, (axis + 2) % 3 - 1);
                restore(&second, &moved);
                train(second.function, HALF, STEPS);
                save(&second, &moved);
                assert_memory_equal(&straight, &moved, sizeof straight);
                assert_ok(muster_runtime_close(second.runtime));
            }
    }
    free(cases);
    assert_in_range(checked, test_is_full() ? RULES * MACHINES * 3 : on_gpus() ? RULES : 3 * RULES, RULES * MACHINES * 3);
}

/* The part of a state is that of its parameter. */
static void states_are_split_as_their_parameters(void **state) {
    (void)state;
    const trained t = begin_split("host:2", MUSTER_MOMENTUM, 0);
    muster_variable *velocity;
    int64_t shape[2];
    assert_ok(muster_variable_find(t.runtime, "step/w/velocity", &velocity));
    assert_int_equal(muster_variable_split_axis(velocity), 0);
    assert_ok(muster_variable_shape(velocity, 0, 2, shape));
    assert_true(shape[0] == 1 && shape[1] == COLUMNS);
    train(t.function, 0, 1);
    float v[ELEMENTS], part[COLUMNS];
    assert_ok(muster_function_state_get(t.function, t.w, "velocity", muster_f32(v, ROWS, COLUMNS)));
    for (int32_t i = 0; i < ELEMENTS; i++) assert_true(fabsf(v[i] + 0.01f * gradient_at(0, i)) <= 1e-7f);
    assert_ok(muster_variable_get(velocity, 0, muster_f32(part, 1, COLUMNS)));
    assert_memory_equal(part, v, sizeof part);
    assert_ok(muster_runtime_close(t.runtime));
}

/* Two functions train the same variable by momentum: each has a velocity of its own. */
static void graphs_with_the_same_variable_have_states_of_their_own(void **state) {
    (void)state;
    trained t = begin("host:2", MUSTER_MOMENTUM);
    muster_function *other = compile_rule(t.runtime, "other", t.w, MUSTER_MOMENTUM);
    float p[ELEMENTS], v[2][ELEMENTS] = {{0}}, got[ELEMENTS];
    assert_ok(muster_variable_get(t.w, 0, muster_f32(p, ROWS, COLUMNS)));
    for (int32_t s = 0; s < 10; s++) {
        train(s % 3 ? t.function : other, s, s + 1);
        for (int32_t i = 0; i < ELEMENTS; i++) {
            float *velocity = &v[s % 3 ? 0 : 1][i];
            *velocity = 0.9f * *velocity - 0.01f * gradient_at(s, i);
            p[i] += *velocity;
        }
    }
    for (int32_t f = 0; f < 3; f++) {
        if (f < 2) assert_ok(muster_function_state_get(f ? other : t.function, t.w, "velocity", muster_f32(got, ROWS, COLUMNS)));
        if (f == 2) assert_ok(muster_variable_get(t.w, 1, muster_f32(got, ROWS, COLUMNS)));
        for (int32_t i = 0; i < ELEMENTS; i++) assert_true(fabsf(got[i] - (f < 2 ? v[f][i] : p[i])) <= 1e-6f);
    }
    assert_ok(muster_runtime_close(t.runtime));
}

/* Each worker's gradient is that of its own rows, and so is its velocity; the count of steps is an
 * integer, which slices do not average. */
static void workers_have_states_of_their_own(void **state) {
    static const float x[] = {1, 2, 3, 10}, start = 0;
    int64_t steps;
    float velocity, got;
    muster_graph_options options;
    muster_call_options sliced;
    muster_graph *graph;
    muster_function *function;
    muster_variable *w[2];
    (void)state;
    muster_runtime *runtime = graph_runtime("host:2");
    assert_ok(muster_variable_create(runtime, "a", muster_f32((float *)(uintptr_t)&start), &w[0]));
    assert_ok(muster_variable_create(runtime, "b", muster_f32((float *)(uintptr_t)&start), &w[1]));
    assert_ok(muster_graph_create(runtime, "each", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p[] = {muster_graph_parameter(graph, w[0]), muster_graph_parameter(graph, w[1])};
    muster_expr *g = muster_expr_parse(graph, "mean(x)");
    assert_ok(muster_graph_minimise(graph, &p[0], &g, 1, MUSTER_MOMENTUM, NULL));
    assert_ok(muster_graph_minimise(graph, &p[1], &g, 1, MUSTER_ADAM, NULL));
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &function));
    muster_call_options_init(&sliced);
    sliced.slices = 2;
    const muster_tensor in = muster_f32((float *)(uintptr_t)x, 4);
    assert_ok(muster_function_call(function, &in, 1, NULL, 0, &sliced));
    assert_ok(muster_function_state_get(function, w[0], "velocity", muster_f32(&velocity)));
    assert_true(fabsf(velocity + 0.015f) <= 1e-6f); /* the master's rows: 1 and 2 */
    for (int32_t r = 0; r < 2; r++) {
        assert_ok(muster_variable_get(w[0], r, muster_f32(&got)));
        assert_true(fabsf(got + (r ? 0.065f : 0.015f)) <= 1e-6f);
    }
    assert_ok(muster_function_state_get(function, w[1], "step", muster_i64(&steps)));
    assert_true(steps == 1);
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- who owns states ---- */

static bool exists(muster_runtime *runtime, const char *name) {
    muster_variable *found;
    return muster_variable_find(runtime, name, &found) == MUSTER_OK;
}

static void states_end_with_their_function(void **state) {
    (void)state;
    trained t = begin("host:2", MUSTER_ADAM);
    muster_variable *moment;
    assert_true(exists(t.runtime, "step/w/step") && exists(t.runtime, "step/w/squares"));
    assert_ok(muster_variable_find(t.runtime, "step/w/moment", &moment));
    assert_refused(muster_variable_destroy(moment), MUSTER_BAD_STATE, "expected no function that uses it");
    assert_ok(muster_function_destroy(t.function));
    assert_false(exists(t.runtime, "step/w/step") || exists(t.runtime, "step/w/squares") || exists(t.runtime, "step/w/moment"));
    assert_ok(muster_variable_destroy(t.w));
    assert_ok(muster_runtime_close(t.runtime));
}

/* A graph that never becomes a function ends them itself; a name that is taken gets a number. */
static void states_end_with_a_graph_that_is_not_compiled(void **state) {
    (void)state;
    float one = 1;
    trained t = begin("host:1", MUSTER_ADAM);
    muster_variable *taken, *found;
    muster_graph *graph;
    assert_ok(muster_variable_create(t.runtime, "new/w/moment", muster_f32(&one), &taken));
    assert_ok(muster_graph_create(t.runtime, "new", &graph));
    muster_expr *p = muster_graph_parameter(graph, t.w);
    assert_ok(muster_graph_minimise(graph, &p, &p, 1, MUSTER_ADAM, NULL));
    assert_ok(muster_variable_find(t.runtime, "new/w/moment#2", &found));
    assert_refused(muster_variable_destroy(found), MUSTER_BAD_STATE, "expected no function that uses it");
    assert_true(exists(t.runtime, "new/w/squares"));
    assert_ok(muster_graph_destroy(graph));
    assert_false(exists(t.runtime, "new/w/moment#2") || exists(t.runtime, "new/w/squares") || exists(t.runtime, "new/w/step"));
    assert_ok(muster_variable_destroy(taken));
    assert_ok(muster_runtime_close(t.runtime));
}

/* The runtime ends them when it closes, whatever is destroyed after it. */
static void states_end_with_their_runtime(void **state) {
    (void)state;
    const int64_t before = mst_memory_live();
    trained t = begin("host:2", MUSTER_ADAMAX);
    muster_graph *graph;
    assert_ok(muster_graph_create(t.runtime, "open", &graph));
    muster_expr *p = muster_graph_parameter(graph, t.w);
    assert_ok(muster_graph_minimise(graph, &p, &p, 1, MUSTER_ADAM, NULL));
    assert_ok(muster_runtime_close(t.runtime));
    assert_ok(muster_graph_destroy(graph));
    assert_true(mst_memory_live() <= before);
}

/* Each allocation of minimise and compile fails once: nothing is left, and the next try works. */
static void a_failed_allocation_leaves_nothing(void **state) {
    int32_t failed = 0;
    bool done = false;
    (void)state;
    trained t = begin("host:1", MUSTER_SGD);
    for (int64_t k = 1; !done; k++) {
        muster_graph *graph;
        muster_function *function = NULL;
        assert_ok(muster_graph_create(t.runtime, "tight", &graph));
        muster_expr *p = muster_graph_parameter(graph, t.w);
        mst_memory_fail_at(k);
        muster_status status = muster_graph_minimise(graph, &p, &p, 1, MUSTER_ADAM, NULL);
        if (status == MUSTER_OK) status = muster_graph_compile(graph, NULL, &function);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        if (!done) assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        failed += !done;
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
        assert_false(exists(t.runtime, "tight/w/moment") || exists(t.runtime, "tight/w/squares") || exists(t.runtime, "tight/w/step"));
    }
    assert_true(failed > 50);
    assert_ok(muster_runtime_close(t.runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_describes_its_states),
                                       cmocka_unit_test(training_goes_on_at_another_number_of_devices),
                                       cmocka_unit_test(states_are_split_as_their_parameters),
                                       cmocka_unit_test(graphs_with_the_same_variable_have_states_of_their_own),
                                       cmocka_unit_test(workers_have_states_of_their_own),
                                       cmocka_unit_test(states_end_with_their_function),
                                       cmocka_unit_test(states_end_with_a_graph_that_is_not_compiled),
                                       cmocka_unit_test(states_end_with_their_runtime),
                                       cmocka_unit_test(a_failed_allocation_leaves_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
