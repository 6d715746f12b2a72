/* Never silently half an update: a fault at every exchange of a training step, of every kind, on
 * every device. What fails before the first new value is written leaves all parameters and states
 * as they were, bit for bit. What fails later leaves them undefined: the message names them, and
 * whatever reads them is refused until they are set. The next call is right. */
#include "base_machine.h"
#include "base_pace.h"
#include "base_seed.h"
#include "communicator_impl.h"
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/rule.h"

#include <stdatomic.h>
#include <time.h>

enum { ROWS = 10, COLUMNS = 3, HIDDEN = 4, LARGE = 32768, EXCHANGES = 64, DEVICES = 4, MILLISECOND = 1000000 };

/* ---- a device that does something wrong ---- */

typedef enum {
    FAILS,      /* before it enters */
    NO_MEMORY,  /* an allocation, before it enters */
    RETURNS,    /* it leaves the exchange out */
    STAYS_AWAY, /* until the others have given up */
    BREAKS,     /* when all have entered, and some may write */
    DAWDLES,    /* then it stands still until the others have given up, and goes on */
    FAILS_LATE, /* when the exchange is done */
    KINDS
} kind;
static const char *const kind_names[KINDS] = {"fails", "no memory", "returns", "stays away", "breaks", "dawdles", "fails late"};

/* Which exchange, counted by each rank. */
static struct {
    kind kind;
    int32_t rank, exchange; /* rank -1: none */
    _Atomic int32_t done;
} fault;
static int32_t entered[DEVICES], collectives[EXCHANGES];

/* By few long sleeps, and without a measurement of the pace between them: a thread that uses the
 * time of its core counts as one that computes, which no deadline ends. */
static void stand_still(const muster_worker *worker) {
    const int32_t most = (int32_t)(200 * test_pace());
    for (int32_t i = 0; i < most && !muster_worker_cancelled(worker); i++) nanosleep(&(struct timespec){0, 100 * MILLISECOND}, NULL);
}

static bool strike(muster_worker *worker, muster_status *status) {
    atomic_fetch_add(&fault.done, 1);
    *status = MUSTER_OK;
    switch (fault.kind) {
    case RETURNS:
        return true;
    case STAYS_AWAY:
    case DAWDLES:
        stand_still(worker);
        return false;
    case NO_MEMORY:
        mst_memory_fail_at(1);
        if (mst_alloc(100)) abort();
        mst_memory_fail_at(0);
        *status = mst_out_of_memory("the cat", 100);
        return true;
    default:
        *status = mst_error(MUSTER_USER, "the cat sat on the keys");
        return true;
    }
}

static bool hook(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    const int32_t rank = muster_worker_rank(worker);
    if (moment == MST_MOMENT_ENTERS && entered[rank] < EXCHANGES) {
        if (rank == 0 && fault.rank < 0) collectives[entered[rank]] = collective;
        entered[rank]++;
    }
    const mst_rendezvous_moment its = fault.kind <= STAYS_AWAY   ? MST_MOMENT_ENTERS
                                      : fault.kind == FAILS_LATE ? MST_MOMENT_LEAVES
                                                                 : MST_MOMENT_WRITES;
    return rank == fault.rank && entered[rank] == fault.exchange + 1 && moment == its && strike(worker, status);
}

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
    assert_ok(muster_graph_output(g, "sums", muster_expr_parse(g, "sum(x[:, 0:1] * large, 0)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, &s->function));
}

/* deadline_ns: of the waits of this call; 0: none that matters. */
static muster_status step_call_within(const step *s, int64_t deadline_ns) {
    static float x[ROWS][COLUMNS], sums[LARGE];
    double loss;
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = deadline_ns;
    memset(entered, 0, sizeof entered);
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (float)((i * 7) % 11 - 5) / 8;
    const muster_tensor in[] = {muster_f32(x, ROWS, COLUMNS), muster_f32(large, LARGE)},
                        out[] = {muster_f64(&loss), muster_f32(sums, LARGE)};
    return muster_function_call(s->function, in, 2, out, 2, &options);
}

static muster_status step_call(const step *s) { return step_call_within(s, 0); }

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

static void reset(const step *s) {
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
    fault.rank = -1;
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
    mst_rendezvous_test_hook = hook;
    assert_ok(step_call(s)); /* the first one allocates */
    reset(s);
    *start = values_of(s);
    assert_ok(step_call(s));
    s->exchanges = entered[0];
    for (int32_t r = 1; r < s->devices; r++) assert_int_equal(entered[r], s->exchanges);
    while (s->end_of_body < s->exchanges && collectives[s->end_of_body] != MST_END_OF_BODY) s->end_of_body++;
    assert_true(s->end_of_body < s->exchanges);
    for (int32_t e = 0; e < s->exchanges; e++)
        if (collectives[e] == MST_ALL_REDUCE_APPLY) {
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
static bool has_begun(const step *s, int32_t pass) {
    return fault.exchange > s->passes[pass] || (fault.exchange == s->passes[pass] && fault.kind >= BREAKS);
}

static void check_variable(const step *s, int32_t i, const char *name, bool undefined, const char *text) {
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

static bool is_slow(kind k) { return k == STAYS_AWAY || k == DAWDLES; }

/* On a busy machine a rank may be late before the fault strikes: again with a longer deadline. */
static muster_status call_with_fault(const step *s, kind k, int32_t rank, int32_t exchange) {
    for (int64_t deadline_ns = is_slow(k) ? test_patience((on_gpus() ? 100 : 20) * MILLISECOND) : 0;; deadline_ns *= 4) {
        fault.kind = k;
        fault.exchange = exchange;
        fault.rank = rank;
        atomic_store(&fault.done, 0);
        const muster_status status = step_call_within(s, deadline_ns);
        fault.rank = -1;
        if (status != MUSTER_TIMEOUT || atomic_load(&fault.done) > 0) return status;
        reset(s);
    }
}

/* 1: the fault struck; 0: the exchange does not have this moment. */
static int32_t check_fault(const step *s, const values *expected, kind k, int32_t rank, int32_t exchange) {
    char text[200], message[MST_MESSAGE_SIZE];
    const muster_status status = call_with_fault(s, k, rank, exchange);
    mst_error_save(message);
    snprintf(text, sizeof text, "%s, rank %d, exchange %d of %d", kind_names[k], (int)rank, (int)exchange, (int)s->exchanges);
    const bool struck = atomic_load(&fault.done) > 0;
    if (struck && status == MUSTER_OK) fail_msg("%s: nobody noticed", text);
    if (!struck && status != MUSTER_OK) fail_msg("%s: %s", text, message);
    if (struck) {
        const bool w = has_begun(s, 0), v = has_begun(s, 1);
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
static bool is_possible(const step *s, kind k, int32_t exchange) {
    const int32_t collective = collectives[exchange];
    if (k == RETURNS) return collective != MST_END_OF_BODY && (collective != MST_ALL_REDUCE_APPLY || exchange < s->passes[0]);
    return !is_slow(k) || exchange < s->end_of_body;
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
            for (kind k = FAILS; k < KINDS; k++)
                if (slow == is_slow(k) && is_possible(&s, k, e) && number++ % sample == 0) struck += check_fault(&s, &expected, k, rank, e);
    mst_rendezvous_test_hook = NULL;
    assert_ok(muster_runtime_close(s.runtime));
    print_message("%s%s: %d exchanges, %d faults\n", devices, clipped ? ", clipped" : "", (int)s.exchanges, (int)struck);
    return struck;
}

static void every_exchange_fails_in_every_way(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 11 : 1;
    assert_true(try_faults("host:2", false, false, sample) >= 40 / sample);
    assert_true(try_faults("host:3", false, false, sample) >= 60 / sample);
}

static void every_exchange_is_kept_waiting(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 11 : 3;
    assert_true(try_faults("host:2", false, true, sample) >= 12 / sample);
    assert_true(try_faults("host:3", false, true, sample) >= 18 / sample);
}

/* Devices have summed their portions, and none has written a parameter. */
static void the_phases_of_a_clipped_pass_fail_and_are_kept_waiting(void **state) {
    (void)state;
    const int32_t sample = test_is_full() ? 1 : on_gpus() ? 7 : 1;
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
