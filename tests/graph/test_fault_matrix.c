/* Never half an update: whatever fails on one device in a call of a training step (an operator
 * before, between and after the exchanges; an allocation; a device that stays away), every
 * parameter is what it was, on every device, bit for bit, the message says where, and the next call
 * is right. */
#include "base_machine.h"
#include "base_pace.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/operator.h"
#include "muster/rule.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

enum { ROWS = 10, COLUMNS = 3, HIDDEN = 4, PLACES = 6, EXCHANGED = 2, MILLISECOND = 1000000 };

/* ---- an operator that stumbles ---- */

typedef enum kind { FAILS, THROWS_NO_MESSAGE, NO_MEMORY, STAYS_AWAY, KINDS } kind;
static struct {
    int32_t rank, place; /* -1: none */
    kind kind;
    _Atomic int32_t struck;
} stumbles;

static muster_status stay_away(muster_worker *worker) {
    const int32_t most = (int32_t)(200 * test_pace()); /* measured once: it uses the time of a core */
    for (int32_t i = 0; i < most && !muster_worker_cancelled(worker); i++) nanosleep(&(struct timespec){0, 100 * MILLISECOND}, NULL);
    return MUSTER_OK;
}

static muster_status stumble(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                             void *user) {
    muster_attribute place;
    (void)user;
    MUSTER_TRY(muster_operator_attribute_value(node, "place", &place));
    if (muster_worker_rank(worker) == stumbles.rank && place.integer == stumbles.place) {
        atomic_fetch_add(&stumbles.struck, 1);
        if (stumbles.kind == FAILS) return muster_fail(MUSTER_OUT_OF_RANGE, "the cat sat on the keys");
        if (stumbles.kind == THROWS_NO_MESSAGE) return MUSTER_USER;
        if (stumbles.kind == STAYS_AWAY) MUSTER_TRY(stay_away(worker));
        if (stumbles.kind == NO_MEMORY) {
            muster_tensor huge;
            MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 1, (const int64_t[]){INT64_MAX / 16}, &huge));
            return muster_fill(worker, 0, huge);
        }
    }
    return muster_copy(worker, in[0], out[0]);
}

static muster_status stumble_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y,
                                      muster_expr *const *dy, muster_expr **dx, void *user);

/* ---- a training step ---- */

typedef struct step {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *w, *v, *calls;
    int32_t devices;
} step;

static muster_expr *placed(muster_expr *x, int64_t place) {
    return apply(muster_expr_graph(x), "stumble", &x, 1, ATTRIBUTES({.name = "place", .integer = place}));
}

static muster_runtime *open_runtime(const char *devices) {
    static const muster_operator_attribute attributes[] = {{"place", 0, MUSTER_ATTRIBUTE_INTEGER, 1}, {.name = NULL}};
    static const muster_operator_backend bodies[] = {{NULL, stumble}};
    static const char *const operands[] = {"x", NULL};
    muster_runtime_options options;
    muster_operator_options op;
    muster_operator *made;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    muster_operator_options_init(&op);
    op.operands = operands;
    op.attributes = attributes;
    op.bodies = bodies;
    op.body_count = 1;
    op.gradient = stumble_gradient;
    assert_ok(muster_operator_create(runtime, "stumble", &op, &made));
    return runtime;
}

static const float start_w[COLUMNS][HIDDEN] = {{1, 2, 3, 4}, {0.5f, -1, 0.25f, 2}, {-3, 1, 0, 1}}, start_v[HIDDEN] = {1, -2, 0.5f, 3};

/* Places 0 to 2 lie before, between and behind the exchanges of the loss, 3 to 5 those of the
 * gradients. */
static void step_open(step *s, const char *devices) {
    muster_graph *g;
    muster_rule_options rule;
    const float zero = 0;
    stumbles.rank = stumbles.place = -1;
    s->runtime = open_runtime(devices);
    s->devices = muster_runtime_size(s->runtime);
    assert_ok(muster_variable_create(s->runtime, "w", muster_f32((void *)(uintptr_t)start_w, COLUMNS, HIDDEN), &s->w));
    assert_ok(muster_variable_create(s->runtime, "v", muster_f32((void *)(uintptr_t)start_v, HIDDEN), &s->v));
    assert_ok(muster_variable_create(s->runtime, "calls", muster_f32((void *)(uintptr_t)&zero), &s->calls));
    assert_ok(muster_graph_create(s->runtime, "training", &g));
    muster_expr *x = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER), *gradients[2];
    muster_expr *p[] = {muster_graph_parameter(g, s->w), muster_graph_parameter(g, s->v)}, *calls = muster_graph_parameter(g, s->calls);
    muster_expr *h = muster_expr_parse(g, "x @ w - mean(x @ w, 0)");
    muster_expr *y = muster_expr_parse(g, "tanh(h) @ v", "h", placed(h, 1));
    muster_expr *loss = muster_expr_parse(g, "mean(y * y) + sum(a) * 0", "y", y, "a", placed(x, 0));
    assert_ok(muster_gradient(loss, p, 2, gradients));
    assert_ok(muster_graph_output(g, "loss", placed(loss, 2), MUSTER_AUTO));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1;
    assert_ok(muster_graph_minimise(g, p, gradients, 1, MUSTER_SGD, &rule)); /* in one pass, behind all places */
    assert_ok(muster_graph_update(g, s->v, placed(muster_expr_parse(g, "v - 0.1 * d", "d", placed(gradients[1], 4)), 5), MUSTER_AUTO));
    assert_ok(muster_graph_update(g, s->calls, placed(muster_expr_parse(g, "c + 1", "c", calls), 3), MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, &s->function));
    assert_ok(muster_graph_destroy(g));
}

/* deadline_ns: of the waits of this call; 0: that of the runtime. */
static muster_status step_call_within(const step *s, float *loss, int64_t deadline_ns) {
    float x[ROWS][COLUMNS];
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = deadline_ns;
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (float)((i * 7) % 11 - 5) / 8;
    const muster_tensor in = muster_f32(x, ROWS, COLUMNS), out = muster_f32(loss);
    return muster_function_call(s->function, &in, 1, &out, 1, &options);
}

static muster_status step_call(const step *s, float *loss) { return step_call_within(s, loss, 0); }

typedef struct values {
    float w[COLUMNS][HIDDEN], v[HIDDEN], calls;
} values;

static values values_of(const step *s, int32_t rank) {
    values got;
    memset(&got, 0, sizeof got);
    assert_ok(muster_variable_get(s->w, rank, muster_f32(got.w, COLUMNS, HIDDEN)));
    assert_ok(muster_variable_get(s->v, rank, muster_f32(got.v, HIDDEN)));
    assert_ok(muster_variable_get(s->calls, rank, muster_f32(&got.calls)));
    return got;
}

static void values_reset(const step *s) {
    const float zero = 0;
    for (int32_t r = 0; r < s->devices; r++) {
        assert_ok(muster_variable_set(s->w, r, muster_f32((void *)(uintptr_t)start_w, COLUMNS, HIDDEN)));
        assert_ok(muster_variable_set(s->v, r, muster_f32((void *)(uintptr_t)start_v, HIDDEN)));
        assert_ok(muster_variable_set(s->calls, r, muster_f32((void *)(uintptr_t)&zero)));
    }
}

/* Every replica has the values of the start, or of one step from there. */
static void check_untouched(const step *s, const char *what) {
    for (int32_t r = 0; r < s->devices; r++) {
        const values got = values_of(s, r);
        if (memcmp(got.w, start_w, sizeof start_w) != 0 || memcmp(got.v, start_v, sizeof start_v) != 0 || got.calls != 0)
            fail_msg("%s: rank %d: a parameter was changed", what, (int)r);
    }
}

static void check_next_call(const step *s, const values *expected) {
    float loss;
    stumbles.rank = -1;
    assert_ok(step_call(s, &loss));
    for (int32_t r = 0; r < s->devices; r++) {
        const values got = values_of(s, r);
        assert_memory_equal(&got, expected, sizeof got);
    }
    values_reset(s);
}

static values first_values(const step *s) {
    float loss;
    assert_ok(step_call(s, &loss));
    const values made = values_of(s, 0);
    assert_true(made.calls == 1 && memcmp(made.w, start_w, sizeof start_w) != 0 && memcmp(made.v, start_v, sizeof start_v) != 0);
    values_reset(s);
    return made;
}

static muster_status stumble_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y,
                                      muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)node, (void)x, (void)y, (void)user;
    dx[0] = dy[0];
    return MUSTER_OK;
}

/* ---- the matrix ---- */

static const char *const machines[] = {"host:2", "host:4"};
enum { MACHINES = 2 };

/* On a busy machine a rank may be late before the fault strikes: again with a longer deadline. */
static muster_status call_with_fault(const step *s, int32_t rank, int32_t place, kind what) {
    float loss;
    for (int64_t deadline_ns = what == STAYS_AWAY ? test_patience(20 * MILLISECOND) : 0;; deadline_ns *= 4) {
        stumbles.place = place;
        stumbles.kind = what;
        stumbles.rank = rank;
        atomic_store(&stumbles.struck, 0);
        const muster_status status = step_call_within(s, &loss, deadline_ns);
        if (status != MUSTER_TIMEOUT || atomic_load(&stumbles.struck) > 0) return status;
        values_reset(s);
    }
}

static void check_fault(const step *s, const values *expected, int32_t rank, int32_t place, kind what) {
    static const muster_status codes[KINDS] = {MUSTER_OUT_OF_RANGE, MUSTER_USER, MUSTER_OUT_OF_MEMORY, MUSTER_TIMEOUT};
    char text[100];
    const muster_status status = call_with_fault(s, rank, place, what);
    snprintf(text, sizeof text, "rank %d, place %d, kind %d", (int)rank, (int)place, (int)what);
    if (status != codes[what]) fail_msg("%s: %s: %s", text, muster_status_name(status), muster_last_error());
    const char *message = muster_last_error();
    snprintf(text, sizeof text, "rank %d", (int)rank);
    if (!strstr(message, text)) fail_msg("\"%s\" lacks \"%s\"", message, text);
    if (what != STAYS_AWAY && !strstr(message, "stumble")) fail_msg("\"%s\" does not name the node", message);
    check_untouched(s, text);
    check_next_call(s, expected);
}

static void an_operator_that_fails_on_one_device_updates_nothing(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        step s;
        step_open(&s, machines[m]);
        const values expected = first_values(&s);
        for (int32_t place = 0; place < PLACES; place++)
            for (int32_t rank = 0; rank < s.devices; rank++)
                for (kind k = FAILS; k <= NO_MEMORY; k++, checked++) check_fault(&s, &expected, rank, place, k);
        assert_ok(muster_runtime_close(s.runtime));
    }
    assert_int_equal(checked, (2 + 4) * PLACES * 3);
}

static void a_device_that_stays_away_updates_nothing(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        step s;
        step_open(&s, machines[m]);
        const values expected = first_values(&s);
        /* behind the last exchange nobody waits for rank 0, which makes the call */
        for (int32_t place = 0; place < EXCHANGED; place++)
            for (int32_t rank = 0; rank < s.devices; rank++, checked++) check_fault(&s, &expected, rank, place, STAYS_AWAY);
        assert_ok(muster_runtime_close(s.runtime));
    }
    assert_int_equal(checked, (2 + 4) * EXCHANGED);
}

/* Each allocation of the first call, or one of some, fails once. */
static void memory_that_runs_out_updates_nothing(void **state) {
    int32_t failed = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        bool done = false;
        values expected;
        step s;
        step_open(&s, machines[m]);
        expected = first_values(&s);
        assert_ok(muster_runtime_close(s.runtime));
        const int64_t one_in = on_gpus() && !test_is_full() ? 17 : test_one_in(1, 3, 5);
        for (int64_t k = 1 + (int64_t)(test_seed() % (uint64_t)one_in); !done; k += one_in) {
            float loss;
            step_open(&s, machines[m]);
            mst_memory_fail_at(k);
            const muster_status status = step_call(&s, &loss);
            mst_memory_fail_at(0);
            done = status == MUSTER_OK;
            failed += !done;
            if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
            if (!done) check_untouched(&s, "memory");
            values_reset(&s);
            check_next_call(&s, &expected);
            assert_ok(muster_runtime_close(s.runtime));
        }
    }
    assert_true(failed > (on_gpus() ? 3 : 20 / test_one_in(1, 3, 5)));
}

/* ---- steady calls ---- */

static void steady_calls_allocate_nothing(void **state) {
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        float loss;
        step s;
        step_open(&s, machines[m]);
        for (int32_t i = 0; i < 3; i++) assert_ok(step_call(&s, &loss));
        const int64_t before = mst_memory_count();
        for (int32_t i = 0; i < 20; i++) assert_ok(step_call(&s, &loss));
        assert_int_equal(mst_memory_count() - before, 0);
        assert_ok(muster_runtime_close(s.runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_that_fails_on_one_device_updates_nothing),
        cmocka_unit_test(a_device_that_stays_away_updates_nothing),
        cmocka_unit_test(memory_that_runs_out_updates_nothing),
        cmocka_unit_test(steady_calls_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
