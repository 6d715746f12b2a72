/* Never silently half an update: a fault at every exchange of a training step, of every kind, on
 * every device. What fails before the first new value is written leaves all parameters and states
 * as they were, bit for bit. What fails later leaves them undefined: the message names them, and
 * whatever reads them is refused until they are set. The next call is right. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_faults.h"
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/rule.h"

enum { ROWS = 10, COLUMNS = 3, HIDDEN = 4, LARGE = 32768, DEVICES = FAULT_RANKS };

/* ---- a training step ---- */

enum { UPDATED = 3 };
typedef struct step {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[UPDATED]; /* w and v by one pass each, since their dtypes differ; calls by an update */
    bool clipped;
    int32_t devices, exchanges, passes[2], end_of_body; /* the latter: which of the exchanges */
    int32_t sums;                                       /* the first exchange of the pass: with clipped gradients not that which writes */
} step;

static float start_w[COLUMNS * HIDDEN] = {1, 2, 3, 4, 0.5f, -1, 0.25f, 2, -3, 1, 0, 1}, start_calls = 7, large[LARGE];
static double start_v[HIDDEN] = {1, -2, 0.5, 3};

static muster_tensor w_tensor(float *w) { return muster_f32(w, COLUMNS, HIDDEN); }

static void step_build(step *s, muster_graph *g) {
    muster_rule_options rule;
    muster_expr *p[] = {muster_graph_parameter(g, s->variables[0]), muster_graph_parameter(g, s->variables[1])}, *d[2];
    muster_expr *calls = muster_graph_parameter(g, s->variables[2]);
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "large", MUSTER_F32, MUSTER_SHAPE(LARGE), MUSTER_BROADCAST);
    muster_expr *h = muster_expr_parse(g, "tanh(x @ w - mean(x @ w, 0))");
    muster_expr *y = muster_expr_parse(g, "h @ v", "h", muster_expr_cast(h, MUSTER_F64));
    muster_expr *loss = muster_expr_parse(g, "mean(y * y)", "y", y);
    assert_ok(muster_gradient(loss, p, 2, d));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1;
    rule.clip_norm = s->clipped ? 0.01 : 0;
    assert_ok(muster_graph_minimise(g, p, d, 2, MUSTER_MOMENTUM, &rule));
    assert_ok(muster_graph_update(g, s->variables[2], muster_expr_parse(g, "c + 1", "c", calls), MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    /* large enough to be combined by all workers, behind the pass */
    assert_ok(muster_graph_output(g, "sums", muster_expr_parse(g, "x[:, 0:1].T @ (x[:, 1:2] * large)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, &s->function));
}

/* deadline_ns: of the waits of this call; 0: none that matters. */
static muster_status step_call_within(void *context, int64_t deadline_ns) {
    const step *s = context;
    static float x[ROWS][COLUMNS], sums[LARGE];
    double loss;
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = deadline_ns;
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (float)((i * 7) % 11 - 5) / 8;
    const muster_tensor in[] = {muster_f32(x, ROWS, COLUMNS), muster_f32(large, LARGE)},
                        out[] = {muster_f64(&loss), muster_f32(sums, 1, LARGE)};
    return muster_function_call(s->function, in, 2, out, 2, &options);
}

static muster_status step_call(step *s) { return step_call_within(s, 0); }

/* ---- values ---- */

typedef struct values {
    float w[DEVICES][COLUMNS * HIDDEN], calls[DEVICES], w_velocity[COLUMNS * HIDDEN];
    double v[DEVICES][HIDDEN], v_velocity[HIDDEN];
} values;

static values values_of(const step *s) {
    values got;
    memset(&got, 0, sizeof got);
    for (int32_t r = 0; r < s->devices; r++) {
        assert_ok(muster_variable_get(s->variables[0], r, w_tensor(got.w[r])));
        assert_ok(muster_variable_get(s->variables[1], r, muster_f64(got.v[r], HIDDEN)));
        assert_ok(muster_variable_get(s->variables[2], r, muster_f32(&got.calls[r])));
    }
    assert_ok(muster_function_state_get(s->function, s->variables[0], "velocity", w_tensor(got.w_velocity)));
    assert_ok(muster_function_state_get(s->function, s->variables[1], "velocity", muster_f64(got.v_velocity, HIDDEN)));
    return got;
}

static void reset(void *context) {
    const step *s = context;
    static float w_zeros[COLUMNS * HIDDEN];
    static double v_zeros[HIDDEN];
    assert_ok(muster_variable_set_whole(s->variables[0], w_tensor(start_w)));
    assert_ok(muster_variable_set_whole(s->variables[1], muster_f64(start_v, HIDDEN)));
    assert_ok(muster_variable_set_whole(s->variables[2], muster_f32(&start_calls)));
    assert_ok(muster_function_state_set(s->function, s->variables[0], "velocity", w_tensor(w_zeros)));
    assert_ok(muster_function_state_set(s->function, s->variables[1], "velocity", muster_f64(v_zeros, HIDDEN)));
}

static void step_open(step *s, const char *devices) {
    muster_graph *g;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &s->runtime));
    s->devices = muster_runtime_size(s->runtime);
    for (int32_t i = 0; i < LARGE; i++) large[i] = (float)(i % 17);
    assert_ok(muster_variable_create(s->runtime, "w", w_tensor(start_w), &s->variables[0]));
    assert_ok(muster_variable_create(s->runtime, "v", muster_f64(start_v, HIDDEN), &s->variables[1]));
    assert_ok(muster_variable_create(s->runtime, "calls", muster_f32(&start_calls), &s->variables[2]));
    assert_ok(muster_graph_create(s->runtime, "training", &g));
    step_build(s, g);
    assert_ok(muster_graph_destroy(g));
}

/* The exchanges of a call without a fault, and which of them are the passes; *expected: what the
 * call leaves. */
static void step_learn(step *s, values *start, values *expected) {
    int32_t found = 0, passes[4];
    const fault_program program = {step_call_within, reset, s};
    faults_begin();
    assert_ok(step_call(s)); /* the first one allocates */
    reset(s);
    *start = values_of(s);
    assert_ok(faults_call(&program));
    s->exchanges = faults_entered(0);
    for (int32_t r = 1; r < s->devices; r++) assert_int_equal(faults_entered(r), s->exchanges);
    while (s->end_of_body < s->exchanges && faults_collective(s->end_of_body) != MST_END_OF_BODY) s->end_of_body++;
    assert_true(s->end_of_body < s->exchanges);
    for (int32_t e = 0; e < s->exchanges; e++)
        if (faults_collective(e) == MST_ALL_REDUCE_APPLY) {
            assert_true(found < 4);
            passes[found++] = e;
        }
    /* with clipped gradients: the sums of both, the squares of their norm, the ends of both */
    assert_int_equal(found, s->clipped ? 4 : 2);
    s->sums = passes[0];
    memcpy(s->passes, &passes[found - 2], sizeof s->passes);
    assert_int_equal(s->passes[0] - s->sums, s->clipped ? 3 : 0);
    assert_true(s->passes[0] > 0 && s->passes[1] < s->exchanges - 1);
    *expected = values_of(s);
    assert_int_not_equal(memcmp(expected->w, start->w, sizeof start->w), 0);
    assert_int_not_equal(memcmp(expected->v_velocity, start->v_velocity, sizeof start->v_velocity), 0);
    reset(s);
}

/* ---- the matrix ---- */

/* May the pass have written? */
static bool has_begun(const step *s, int32_t pass, fault_kind k, int32_t exchange) {
    return exchange > s->passes[pass] || (exchange == s->passes[pass] && k >= BREAKS);
}

static void check_variable(step *s, int32_t i, const char *name, bool undefined, const char *text) {
    float w[COLUMNS * HIDDEN];
    double v[HIDDEN];
    const muster_tensor value = i == 0 ? w_tensor(w) : muster_f64(v, HIDDEN);
    const void *data = muster_tensor_address(value), *start = i == 0 ? (const void *)start_w : start_v;
    char sentence[60];
    snprintf(sentence, sizeof sentence, "variable '%s': expected a defined value", name);
    for (int32_t r = 0; r < s->devices; r++) {
        const muster_status status = muster_variable_get(s->variables[i], r, value);
        if (undefined) {
            assert_refused(status, MUSTER_BAD_STATE, sentence);
        } else {
            assert_ok(status);
            if (memcmp(data, start, (size_t)muster_tensor_bytes(value)) != 0)
                fail_msg("%s: rank %d: \"%s\" was changed", text, (int)r, name);
        }
    }
    const muster_status status = muster_function_state_get(s->function, s->variables[i], "velocity", value);
    if (undefined) {
        assert_refused(status, MUSTER_BAD_STATE, "velocity");
        assert_refused(step_call(s), MUSTER_BAD_STATE, "expected a defined value");
        return;
    }
    assert_ok(status);
    for (int64_t b = 0; b < muster_tensor_bytes(value); b++) assert_int_equal(((const char *)data)[b], 0);
}

static void check_calls(const step *s) {
    for (int32_t r = 0; r < s->devices; r++) {
        float calls;
        assert_ok(muster_variable_get(s->variables[2], r, muster_f32(&calls)));
        assert_true(calls == start_calls);
    }
}

/* 1: the fault struck; 0: the exchange does not have this moment. */
static int32_t check_fault(step *s, const values *expected, fault_kind k, int32_t rank, int32_t exchange) {
    char text[200], message[MST_MESSAGE_SIZE];
    const fault_program program = {step_call_within, reset, s};
    bool struck;
    const muster_status status = faults_call_with(&program, k, rank, exchange, &struck);
    mst_error_save(message);
    snprintf(text, sizeof text, "%s, rank %d, exchange %d of %d", fault_names[k], (int)rank, (int)exchange, (int)s->exchanges);
    if (struck && status == MUSTER_OK) fail_msg("%s: nobody noticed", text);
    if (!struck && status != MUSTER_OK) fail_msg("%s: %s", text, message);
    if (struck) {
        const bool w = has_begun(s, 0, k, exchange), v = has_begun(s, 1, k, exchange);
        if (w != (strstr(message, "the call had begun to update variable 'w'") != NULL) || v != (strstr(message, "and 1 other") != NULL))
            fail_msg("%s: \"%s\"", text, message);
        check_variable(s, 0, "w", w, text);
        check_variable(s, 1, "v", v, text);
        check_calls(s);
    }
    reset(s);
    assert_ok(step_call(s));
    const values got = values_of(s);
    if (memcmp(&got, expected, sizeof got) != 0) fail_msg("%s: the next call is wrong", text);
    reset(s);
    return struck;
}

/* From the end of a body on each waits for all as long as the call does: no deadline ends that
 * wait. A rank that leaves out the pass alone succeeds as if it had made it. */
static bool is_possible(const step *s, fault_kind k, int32_t exchange) {
    const int32_t collective = faults_collective(exchange);
    if (k == RETURNS) return collective != MST_END_OF_BODY && (collective != MST_ALL_REDUCE_APPLY || exchange < s->passes[0]);
    return !fault_is_slow(k) || exchange < s->end_of_body;
}

/* Every fault, or one of `sample`; with clipped gradients those of the pass. */
static int32_t try_faults(const char *devices, bool clipped, bool slow, int32_t sample) {
    int32_t struck = 0, number = (int32_t)(test_seed() % 1000);
    values start, expected;
    step s = {.clipped = clipped};
    step_open(&s, devices);
    step_learn(&s, &start, &expected);
    for (int32_t e = clipped ? s.sums : 0; e < (clipped ? s.passes[1] + 1 : s.exchanges); e++)
        for (int32_t rank = 0; rank < s.devices; rank++)
            for (fault_kind k = FAILS; k < FAULT_KINDS; k++)
                if (slow == fault_is_slow(k) && is_possible(&s, k, e) && number++ % sample == 0)
                    struck += check_fault(&s, &expected, k, rank, e);
    faults_end();
    assert_ok(muster_runtime_close(s.runtime));
    print_message("%s%s: %d exchanges, %d faults\n", devices, clipped ? ", clipped" : "", (int)s.exchanges, (int)struck);
    return struck;
}

static void every_exchange_fails_in_every_way(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 11 : (int32_t)test_one_in(1, 1, 3);
    assert_true(try_faults("host:2", false, false, sample) >= 38 / sample);
    assert_true(try_faults("host:3", false, false, sample) >= 57 / sample);
}

static void every_exchange_is_kept_waiting(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 11 : (int32_t)test_one_in(3, 3, 7);
    assert_true(try_faults("host:2", false, true, sample) >= 12 / sample);
    assert_true(try_faults("host:3", false, true, sample) >= 18 / sample);
}

/* Devices have summed their portions, and none has written a parameter. */
static void the_phases_of_a_clipped_pass_fail_and_are_kept_waiting(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 7 : (int32_t)test_one_in(1, 1, 3);
    assert_true(try_faults("host:2", true, false, sample) >= 44 / sample);
    assert_true(try_faults("host:3", true, false, sample) >= 66 / sample);
    assert_true(try_faults("host:2", true, true, sample) >= 12 / sample);
    assert_true(try_faults("host:3", true, true, sample * 2) >= 9 / sample);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exchange_fails_in_every_way),
        cmocka_unit_test(every_exchange_is_kept_waiting),
        cmocka_unit_test(the_phases_of_a_clipped_pass_fail_and_are_kept_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
