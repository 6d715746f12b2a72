/* A fault at every exchange of training steps of several kinds: split parameters, eager updates,
 * buckets, micro-batches, clipping, and the reproducible mode, where no pass makes the updates.
 * Whatever fails, each parameter and its states are as they were, bit for bit, or the message names
 * them and they are refused on every device until they are set. The next call is right. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_faults.h"
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, INPUTS = 6, HIDDEN = 16, CLASSES = 5, PARAMETERS = 5, STATES = 2 * PARAMETERS + 1 };
enum { WHOLE = -1, MOST = HIDDEN * INPUTS, LARGE = 32768, TEXT = 700 };

/* ---- the steps ---- */

typedef struct variant {
    const char *name;
    muster_update_rule rule;
    bool split;  /* both layers along their columns */
    bool passes; /* one pass makes the updates: without it nothing is ever undefined */
    bool direct; /* each exchange has a moment to write, however small it is */
    double clip;
    int32_t shards; /* of the reproducible mode */
    muster_graph_options options;
} variant;

static const variant variants[] = {
    {.name = "adam", .rule = MUSTER_ADAM, .passes = true},
    {.name = "split", .rule = MUSTER_MOMENTUM, .split = true, .passes = true},
    {.name = "split, adam", .rule = MUSTER_ADAM, .split = true, .passes = true, .direct = true},
    {.name = "split, clipped", .rule = MUSTER_MOMENTUM, .split = true, .passes = true, .clip = 0.01},
    {.name = "buckets", .rule = MUSTER_MOMENTUM, .passes = true, .options = {.bucket_bytes = 1}},
    {.name = "clipped buckets", .rule = MUSTER_ADAM, .passes = true, .clip = 0.01, .options = {.bucket_bytes = 1}},
    {.name = "eager", .rule = MUSTER_ADAM, .passes = true, .options = {.bucket_bytes = 1, .eager_updates = 1}},
    {.name = "eager, split", .rule = MUSTER_MOMENTUM, .split = true, .passes = true, .options = {.bucket_bytes = 1, .eager_updates = 1}},
    {.name = "micro-batches", .rule = MUSTER_ADAM, .passes = true, .options = {.micro_batches = 3}},
    {.name = "micro-batches, split",
     .rule = MUSTER_MOMENTUM,
     .split = true,
     .passes = true,
     .direct = true,
     .options = {.micro_batches = 2}},
    {.name = "one by one", .rule = MUSTER_ADAM, .options = {.unfused = 1}},
    {.name = "one by one, split", .rule = MUSTER_MOMENTUM, .split = true, .options = {.unfused = 1}},
    {.name = "reproducible", .rule = MUSTER_ADAM, .shards = 8},
    {.name = "reproducible, direct", .rule = MUSTER_MOMENTUM, .direct = true, .shards = 8},
    {.name = "reproducible, clipped", .rule = MUSTER_MOMENTUM, .clip = 0.01, .shards = 8},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const char *const names[PARAMETERS] = {"s", "w1", "b1", "w2", "b2"};
static const int64_t shapes[PARAMETERS][2] = {{INPUTS, 1}, {INPUTS, HIDDEN}, {HIDDEN, 1}, {HIDDEN, CLASSES}, {CLASSES, 1}};
static const int32_t axes[PARAMETERS] = {WHOLE, 1, 0, 1, 0};

/* A value and its bytes. */
typedef struct memory {
    int64_t count[FAULT_RANKS + 1];
    char bytes[FAULT_RANKS + 1][MOST * 4];
} memory;

typedef struct values {
    memory parameters[PARAMETERS], calls, states[STATES]; /* of states [0] alone */
} values;

typedef struct step {
    const variant *variant;
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS], *calls;
    values start, expected;
    int32_t devices, states, exchanges, end_of_body;
    int32_t first_write, last_write; /* exchanges that write parameters; -1: none */
} step;

static muster_tensor tensor_of(int32_t p, void *data) { return muster_tensor_make(MUSTER_F32, data, p % 2 ? 2 : 1, shapes[p]); }

static void variables_make(step *s) {
    float memory[MOST], zero = 0;
    for (int32_t p = 0; p < PARAMETERS; p++) {
        graph_fill(MUSTER_F32, memory, shapes[p][0] * shapes[p][1], 1000 * p);
        assert_ok(muster_variable_create(s->runtime, names[p], tensor_of(p, memory), &s->variables[p]));
    }
    assert_ok(muster_variable_create(s->runtime, "calls", muster_f32(&zero), &s->calls));
}

static void graph_make(step *s, muster_graph *graph) {
    muster_rule_options rule;
    muster_graph_options options;
    muster_expr *p[PARAMETERS], *d[PARAMETERS], *calls = muster_graph_parameter(graph, s->calls);
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "large", MUSTER_F32, MUSTER_SHAPE(LARGE), MUSTER_BROADCAST);
    for (int32_t i = 0; i < PARAMETERS; i++) {
        p[i] = muster_graph_parameter(graph, s->variables[i]);
        if (s->variant->split && axes[i] != WHOLE) assert_ok(muster_graph_split(p[i], axes[i]));
    }
    muster_expr *loss = muster_expr_parse(graph, "h = x * s; softmax_cross_entropy(tanh((h - mean(h, 0)) @ w1 + b1) @ w2 + b2, t)");
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1;
    rule.clip_norm = s->variant->clip;
    assert_ok(muster_graph_minimise(graph, p, d, PARAMETERS, s->variant->rule, &rule));
    assert_ok(muster_graph_update(graph, s->calls, muster_expr_parse(graph, "c + 1", "c", calls), MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    /* large enough to be combined by all workers, behind the updates; sums travel in the body */
    assert_ok(muster_graph_output(graph, "sums", muster_expr_parse(graph, "x[:, 0:1].T @ (x[:, 1:2] * large)"), MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.rows = ROWS;
    options.unfused = s->variant->options.unfused;
    options.bucket_bytes = s->variant->options.bucket_bytes;
    options.eager_updates = s->variant->options.eager_updates;
    options.micro_batches = s->variant->options.micro_batches;
    assert_ok(muster_graph_compile(graph, &options, &s->function));
}

/* ---- values ---- */

/* The replicas, and then the whole; nothing of a replica that is undefined, and false. */
static bool variable_get(const step *s, muster_variable *variable, const char *name, int32_t ndim, const int64_t *shape, memory *got) {
    char sentence[80];
    int32_t refused = 0;
    snprintf(sentence, sizeof sentence, "variable '%s': expected a defined value", name);
    for (int32_t r = 0; r <= s->devices; r++) {
        muster_tensor value = muster_tensor_make(MUSTER_F32, got->bytes[r], ndim, shape);
        const int32_t axis = muster_variable_split_axis(variable);
        if (axis >= 0 && r < s->devices) value.shape[axis] = (r + 1) * shape[axis] / s->devices - r * shape[axis] / s->devices;
        value = muster_tensor_make(MUSTER_F32, got->bytes[r], ndim, value.shape);
        const muster_status status = r < s->devices ? muster_variable_get(variable, r, value) : muster_variable_get_whole(variable, value);
        got->count[r] = status == MUSTER_OK ? muster_tensor_bytes(value) : 0;
        if (status == MUSTER_OK) continue;
        assert_refused(status, MUSTER_BAD_STATE, sentence);
        refused++;
    }
    if (refused && refused <= s->devices) fail_msg("\"%s\" is undefined in %d of %d places", name, (int)refused, (int)s->devices + 1);
    return refused == 0;
}

static muster_state_description state_describe(const step *s, int32_t i) {
    muster_state_description state;
    muster_state_description_init(&state);
    assert_ok(muster_function_state_describe(s->function, i, &state));
    return state;
}

static bool state_get(const step *s, int32_t i, memory *got) {
    const muster_state_description state = state_describe(s, i);
    const muster_tensor value = muster_tensor_make(state.dtype, got->bytes[0], state.ndim, state.shape);
    const muster_status status = muster_function_state_get(s->function, state.variable, state.name, value);
    got->count[0] = status == MUSTER_OK ? muster_tensor_bytes(value) : 0;
    if (status != MUSTER_OK) assert_refused(status, MUSTER_BAD_STATE, state.name);
    return status == MUSTER_OK;
}

static void values_get(const step *s, values *got) {
    memset(got, 0, sizeof *got);
    for (int32_t p = 0; p < PARAMETERS; p++)
        assert_true(variable_get(s, s->variables[p], names[p], p % 2 ? 2 : 1, shapes[p], &got->parameters[p]));
    assert_true(variable_get(s, s->calls, "calls", 0, NULL, &got->calls));
    for (int32_t i = 0; i < s->states; i++) assert_true(state_get(s, i, &got->states[i]));
}

static void reset(void *context) {
    step *s = context;
    for (int32_t p = 0; p < PARAMETERS; p++)
        assert_ok(muster_variable_set_whole(s->variables[p], tensor_of(p, s->start.parameters[p].bytes[s->devices])));
    assert_ok(muster_variable_set_whole(s->calls, muster_f32((float *)s->start.calls.bytes[0])));
    for (int32_t i = 0; i < s->states; i++) {
        const muster_state_description state = state_describe(s, i);
        const muster_tensor value = muster_tensor_make(state.dtype, s->start.states[i].bytes[0], state.ndim, state.shape);
        assert_ok(muster_function_state_set(s->function, state.variable, state.name, value));
    }
}

static muster_status step_call(void *context, int64_t deadline_ns) {
    const step *s = context;
    static float large[LARGE], sums[LARGE];
    float x[ROWS * INPUTS], loss;
    int64_t labels[ROWS];
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = deadline_ns;
    graph_fill(MUSTER_F32, x, ROWS * INPUTS, 5);
    for (int64_t i = 0; i < ROWS; i++) labels[i] = i * i % CLASSES;
    for (int32_t i = 0; i < LARGE; i++) large[i] = (float)(i % 17);
    const muster_tensor in[] = {muster_f32(x, ROWS, INPUTS), muster_i64(labels, ROWS), muster_f32(large, LARGE)},
                        out[] = {muster_f32(&loss), muster_f32(sums, 1, LARGE)};
    return muster_function_call(s->function, in, 3, out, 2, &options);
}

/* ---- what a step does without a fault ---- */

static int32_t count_of(const step *s, mst_collective collective) {
    int32_t count = 0;
    for (int32_t e = 0; e < s->exchanges; e++) count += faults_collective(e) == (int32_t)collective;
    return count;
}

/* Sums are entered by the same collective. Those that write are all of eager updates; else the last
 * one, since the gradients have one dtype. */
static void writes_find(step *s) {
    s->first_write = s->last_write = -1;
    for (int32_t e = 0; e < s->exchanges; e++) {
        if (faults_collective(e) != MST_ALL_REDUCE_APPLY) continue;
        s->last_write = e;
        if (s->first_write < 0 || !s->variant->options.eager_updates) s->first_write = e;
    }
}

static void expect_exchanges(const step *s) {
    const variant *v = s->variant;
    const bool in_buckets = v->options.bucket_bytes && (on_gpus() || v->options.eager_updates);
    const int32_t applied = count_of(s, MST_ALL_REDUCE_APPLY), buckets = v->split ? 1 : PARAMETERS;
    if (v->split) assert_true(count_of(s, MST_REDUCE_SCATTER) > 0 && count_of(s, MST_ALL_GATHER) > 0 && count_of(s, MST_ALL_TO_ALL) > 0);
    assert_int_equal(s->first_write >= 0, v->passes);
    if (!v->passes) assert_int_equal(applied, 0);
    if (!v->passes) return;
    assert_int_equal(applied, v->options.eager_updates ? buckets : in_buckets ? buckets + 1 : v->clip > 0 ? 2 : 1);
}

static void step_open(step *s, const variant *v, const char *devices) {
    muster_graph *graph;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.device_memory = 16 << 20;
    options.collective_algorithm = !v->direct ? NULL : on_gpus() ? "nccl" : "direct";
    options.logical_shards = v->shards ? v->shards : -1;
    *s = (step){.variant = v};
    assert_ok(muster_runtime_open(&options, &s->runtime));
    s->devices = muster_runtime_size(s->runtime);
    variables_make(s);
    assert_ok(muster_graph_create(s->runtime, "training", &graph));
    graph_make(s, graph);
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_function_state_count(s->function, &s->states));
    assert_true(s->states >= PARAMETERS && s->states <= STATES);
}

/* The first call gives the states values that are not 0. */
static void step_learn(step *s) {
    const fault_program program = {step_call, reset, s};
    assert_ok(step_call(s, 0));
    values_get(s, &s->start);
    faults_begin();
    assert_ok(faults_call(&program));
    s->exchanges = faults_entered(0);
    assert_true(s->exchanges < FAULT_EXCHANGES);
    for (int32_t r = 1; r < s->devices; r++) assert_int_equal(faults_entered(r), s->exchanges);
    while (s->end_of_body < s->exchanges && faults_collective(s->end_of_body) != MST_END_OF_BODY) s->end_of_body++;
    writes_find(s);
    assert_true(s->last_write < s->end_of_body);
    if (!s->variant->shards) assert_true(s->end_of_body < s->exchanges);
    expect_exchanges(s);
    values_get(s, &s->expected);
    for (int32_t p = 0; p < PARAMETERS; p++)
        assert_int_not_equal(memcmp(&s->expected.parameters[p], &s->start.parameters[p], sizeof s->start.parameters[p]), 0);
    for (int32_t i = 0; i < s->states; i++)
        assert_int_not_equal(memcmp(&s->expected.states[i], &s->start.states[i], sizeof s->start.states[i]), 0);
    reset(s);
}

/* ---- behind a fault ---- */

typedef struct moment {
    fault_kind kind;
    int32_t rank, exchange;
    char text[TEXT]; /* all of it, and the message of the call */
} moment;

/* How many parameters the message calls undefined. */
static int32_t undefined_of(const char *message) {
    const char *at = strstr(message, "the call had begun to update variable '"), *others = at ? strstr(at, "' and ") : NULL;
    return !at ? 0 : others ? 1 + atoi(others + strlen("' and ")) : 1;
}

static bool is_named(const char *message, const char *name) {
    char text[80];
    snprintf(text, sizeof text, "the call had begun to update variable '%s'", name);
    return strstr(message, text) != NULL;
}

static void expect_untouched(const memory *got, const memory *start, int32_t places, const char *name, const moment *m) {
    for (int32_t r = 0; r < places; r++)
        if (got->count[r] != start->count[r] || memcmp(got->bytes[r], start->bytes[r], (size_t)got->count[r]) != 0)
            fail_msg("%s: \"%s\" was changed in place %d", m->text, name, (int)r);
}

/* Its states are defined if and only if it is. */
static void check_states(const step *s, int32_t p, bool is_defined, const moment *m) {
    static memory got;
    for (int32_t i = 0; i < s->states; i++) {
        const muster_state_description state = state_describe(s, i);
        const bool is_step = strcmp(state.name, "step") == 0; /* no pass writes it */
        if (state.variable != s->variables[p]) continue;
        const bool found = state_get(s, i, &got);
        if (found != (is_defined || is_step)) fail_msg("%s: state %s of \"%s\" is %d", m->text, state.name, names[p], found);
        if (found) expect_untouched(&got, &s->start.states[i], 1, state.name, m);
    }
}

/* The number of undefined parameters. */
static int32_t check_values(const step *s, const moment *m) {
    static memory got;
    int32_t undefined = 0;
    bool named = false;
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const bool is_defined = variable_get(s, s->variables[p], names[p], p % 2 ? 2 : 1, shapes[p], &got);
        if (is_defined) expect_untouched(&got, &s->start.parameters[p], s->devices + 1, names[p], m);
        check_states(s, p, is_defined, m);
        undefined += !is_defined;
        named |= !is_defined && is_named(m->text, names[p]);
    }
    assert_true(variable_get(s, s->calls, "calls", 0, NULL, &got));
    expect_untouched(&got, &s->start.calls, s->devices + 1, "calls", m);
    if (undefined != undefined_of(m->text) || named != (undefined > 0))
        fail_msg("%s: %d parameters are undefined", m->text, (int)undefined);
    return undefined;
}

/* Nothing is undefined before the first value may have been written, and everything when all may
 * have been. Eager updates are undefined one bucket after the other. */
static void check_undefined(const step *s, int32_t undefined, const moment *m) {
    const bool writes = m->kind >= BREAKS;
    int32_t begun = 0;
    for (int32_t e = s->first_write; e >= 0 && e <= s->last_write; e++)
        begun += faults_collective(e) == MST_ALL_REDUCE_APPLY && (m->exchange > e || (m->exchange == e && writes));
    const bool all = begun > 0 && (m->exchange > s->last_write || (m->exchange == s->last_write && writes));
    if (undefined < begun || (begun == 0 && undefined > 0) || (all && undefined != PARAMETERS))
        fail_msg("%s: %d parameters are undefined, %d exchanges had begun to write", m->text, (int)undefined, (int)begun);
}

/* Without setting anything where nothing is undefined. */
static void check_next_call(step *s, int32_t undefined, const moment *m) {
    static values got;
    if (undefined) {
        assert_refused(step_call(s, 0), MUSTER_BAD_STATE, "expected a defined value");
        reset(s);
    }
    const muster_status status = step_call(s, 0);
    if (status != MUSTER_OK) fail_msg("%s: the next call: %s", m->text, muster_last_error());
    values_get(s, &got);
    if (memcmp(&got, &s->expected, sizeof got) != 0) fail_msg("%s: the next call is wrong", m->text);
    reset(s);
}

/* 1: the fault struck; 0: the exchange does not have this moment. */
static int32_t check_fault(step *s, fault_kind kind, int32_t rank, int32_t exchange) {
    const fault_program program = {step_call, reset, s};
    moment m = {kind, rank, exchange, ""};
    bool struck;
    const muster_status status = faults_call_with(&program, kind, rank, exchange, &struck);
    snprintf(m.text, sizeof m.text, "%s: %s, rank %d, exchange %d of %d: %s", s->variant->name, fault_names[kind], (int)rank, (int)exchange,
             (int)s->exchanges, status == MUSTER_OK ? "" : muster_last_error());
    if (struck != (status != MUSTER_OK)) fail_msg("%s struck %d, status %s", m.text, struck, muster_status_name(status));
    if (!struck) {
        reset(s);
        return 0;
    }
    const int32_t undefined = check_values(s, &m);
    check_undefined(s, undefined, &m);
    check_next_call(s, undefined, &m);
    return 1;
}

/* ---- the matrix ---- */

/* From the end of a body on each waits for all as long as the call does: no deadline ends that
 * wait. A rank that leaves out nothing but what writes succeeds as if it had made it. */
static bool is_possible(const step *s, fault_kind kind, int32_t exchange) {
    if (kind == RETURNS) return exchange < s->end_of_body && faults_collective(exchange) != MST_ALL_REDUCE_APPLY;
    return !fault_is_slow(kind) || exchange < s->end_of_body;
}

/* Is there this moment in every exchange? */
static bool is_everywhere(fault_kind kind) { return kind != BREAKS && kind != DAWDLES; }

typedef struct tally {
    int32_t tried, struck;
} tally;

/* One of `sample`, of slow ones fewer. */
static bool is_in_sample(fault_kind kind, int32_t number, int32_t sample) {
    enum { SLOW = 8 };
    uint64_t x = (test_seed() << 32) + (uint64_t)number;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x >> 32) % (uint64_t)(fault_is_slow(kind) && sample > 1 ? SLOW * sample : sample) == 0;
}

static tally try_faults(const variant *v, const char *devices, int32_t sample) {
    static step s;
    tally t = {0};
    int32_t number = 10000 * (int32_t)(v - variants), possible = 0;
    step_open(&s, v, devices);
    step_learn(&s);
    for (int32_t e = 0; e < s.exchanges; e++)
        for (int32_t rank = 0; rank < s.devices; rank++)
            for (fault_kind kind = FAILS; kind < FAULT_KINDS; kind++) {
                if (!is_possible(&s, kind, e)) continue;
                possible++;
                if (!is_in_sample(kind, number++, sample)) continue;
                const int32_t struck = check_fault(&s, kind, rank, e);
                if (is_everywhere(kind)) assert_true(struck);
                t.tried++;
                t.struck += struck;
            }
    faults_end();
    print_message("%s, %s: %d exchanges, %d of %d faults, of which %d struck\n", v->name, devices, (int)s.exchanges, (int)t.tried,
                  (int)possible, (int)t.struck);
    assert_true(sample > 1 || t.tried == possible);
    assert_ok(muster_runtime_close(s.runtime));
    return t;
}

/* One of so many faults, and of all asked for. */
#ifdef MUSTER_TEST_SANITIZED
enum { ON_HOST = 29 };
#else
enum { ON_HOST = 13 };
#endif
enum { ON_GPUS = 89, FULL_ON_GPUS = 4 };

static void every_step_fails_at_every_exchange(void **state) {
    const int32_t sample = on_gpus() ? (test_is_full() ? FULL_ON_GPUS : ON_GPUS) : test_is_full() ? 1 : ON_HOST;
    int32_t variants_tried = 0, struck = 0;
    (void)state;
    for (int32_t v = 0; v < VARIANTS; v++, variants_tried++) {
        struck += try_faults(&variants[v], "host:2", sample).struck;
        struck += try_faults(&variants[v], variants[v].shards ? "host:4" : "host:3", sample).struck;
    }
    assert_int_equal(variants_tried, VARIANTS);
    assert_true(struck >= VARIANTS * 2 * 70 / sample);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_fails_at_every_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
