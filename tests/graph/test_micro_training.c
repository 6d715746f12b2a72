/* Micro-batches in training: the memory that they need, every rule, sums of small dtypes, failures
 * in the middle of a call, and what is refused. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/operator.h"
#include "muster/rule.h"

#include <math.h>
#include <stdlib.h>

enum { IN = 6, HIDDEN = 32, OUT = 3, MOST_ROWS = 512, PARAMETERS = 3, STEPS = 4 };
static const int64_t widths[PARAMETERS][2] = {{IN, HIDDEN}, {1, HIDDEN}, {HIDDEN, OUT}};
static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = 3 };

/* ---- a network ---- */

static int32_t fails_at; /* the application of the operator that fails, from 1; 0: none */
static int32_t applied;
static int64_t memory_fails_at; /* while the network is compiled: the allocation that fails; 0: none */

/* Computes row by row, in order on one device. */
static muster_status pass_on(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                             void *user) {
    (void)node, (void)user;
    if (fails_at && ++applied == fails_at) return muster_fail(MUSTER_OUT_OF_RANGE, "the cat sat on the keys");
    return muster_copy(worker, in[0], out[0]);
}

static muster_status pass_on_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y,
                                      muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)node, (void)x, (void)y, (void)user;
    dx[0] = dy[0];
    return MUSTER_OK;
}

static muster_runtime *open_runtime(const char *devices) {
    static const muster_operator_backend bodies[] = {{NULL, pass_on}};
    static const char *const operands[] = {"x", NULL};
    muster_runtime *runtime = graph_runtime(devices);
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = bodies;
    options.body_count = 1;
    options.gradient = pass_on_gradient;
    options.distribution = MUSTER_OPERATOR_ROWWISE;
    assert_ok(muster_operator_create(runtime, "pass_on", &options, &made));
    return runtime;
}

typedef struct network {
    muster_runtime *runtime;
    muster_variable *parameters[PARAMETERS];
    muster_function *function;
} network;

static double start_at(int32_t i) { return (double)((i * 37 + 11) % 101 - 50) / 200; }

static void parameters_make(network *net) {
    static const char *const names[PARAMETERS] = {"w", "b", "v"};
    double start[IN * HIDDEN];
    for (int32_t i = 0; i < IN * HIDDEN; i++) start[i] = start_at(i);
    for (int32_t p = 0; p < PARAMETERS; p++)
        assert_ok(muster_variable_create(net->runtime, names[p], muster_f64(start, widths[p][0], widths[p][1]), &net->parameters[p]));
}

/* clip: the norm; 0: none. */
static muster_status network_open(network *net, const char *devices, muster_update_rule rule, double clip,
                                  const muster_graph_options *options) {
    muster_graph *g;
    muster_rule_options how;
    net->runtime = open_runtime(devices);
    parameters_make(net);
    assert_ok(muster_graph_create(net->runtime, "network", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, IN), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, OUT), MUSTER_SCATTER);
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    for (int32_t i = 0; i < PARAMETERS; i++) p[i] = muster_graph_parameter(g, net->parameters[i]);
    muster_expr *h = muster_expr_parse(g, "tanh(x @ w + b)");
    h = muster_expr_parse(g, "dropout(h, 0, p=0.25, seed=5)", "h", APPLY(g, "pass_on", h));
    muster_expr *y = muster_expr_parse(g, "relu(tanh(h) * 2 - 0.1) @ v", "h", h);
    muster_expr *loss = muster_expr_parse(g, "mean((y - t) ** 2)", "y", y);
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    muster_rule_options_init(&how);
    how.clip_norm = clip;
    assert_ok(muster_graph_minimise(g, p, d, PARAMETERS, rule, &how));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "y", y, MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "largest", muster_expr_parse(g, "max(y, 0)", "y", y), MUSTER_AUTO));
    mst_memory_fail_at(memory_fails_at);
    const muster_status status = muster_graph_compile(g, options, &net->function);
    mst_memory_fail_at(0);
    assert_ok(muster_graph_destroy(g));
    return status;
}

typedef struct results {
    double loss, y[MOST_ROWS * OUT], largest[OUT], parameters[PARAMETERS][IN * HIDDEN];
} results;

static muster_status network_call(const network *net, int64_t rows, results *r) {
    static double x[MOST_ROWS * IN], t[MOST_ROWS * OUT];
    for (int32_t i = 0; i < MOST_ROWS * IN; i++) x[i] = (double)((i * 31 + 7) % 97 - 48) / 40;
    for (int32_t i = 0; i < MOST_ROWS * OUT; i++) t[i] = (double)((i * 13 + 5) % 23 - 11) / 20;
    memset(r, 0, sizeof *r);
    const muster_tensor in[] = {muster_f64(x, rows, IN), muster_f64(t, rows, OUT)};
    const muster_tensor out[] = {muster_f64(&r->loss), muster_f64(r->y, rows, OUT), muster_f64(r->largest, OUT)};
    return muster_function_call(net->function, in, 2, out, 3, NULL);
}

static void parameters_read(const network *net, int32_t rank, results *r) {
    for (int32_t p = 0; p < PARAMETERS; p++)
        assert_ok(muster_variable_get(net->parameters[p], rank, muster_f64(r->parameters[p], widths[p][0], widths[p][1])));
}

static muster_graph_options options_of(int64_t micro_batches) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    return options;
}

static double distance(const results *a, const results *b) {
    const double *x = (const double *)a, *y = (const double *)b;
    double largest = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        if (!(fabs(x[i] - y[i]) <= largest)) largest = fabs(x[i] - y[i]);
    return largest;
}

/* ---- every rule ---- */

static void network_train(const char *devices, muster_update_rule rule, double clip, const muster_graph_options *options, results *r) {
    static const int64_t rows[STEPS] = {40, 7, 1, 40};
    network net;
    assert_ok(network_open(&net, devices, rule, clip, options));
    for (int32_t s = 0; s < STEPS; s++) assert_ok(network_call(&net, rows[s], r));
    parameters_read(&net, muster_runtime_size(net.runtime) - 1, r);
    assert_ok(muster_runtime_close(net.runtime));
}

static void every_rule_trains_as_with_all_rows_at_once(void **state) {
    static const int64_t counts[] = {2, 3, 7, 64};
    enum { RULES = 8, COUNTS = 4 };
    static results expected, got;
    int32_t compared = 0, turn = 0;
    (void)state;
    for (int32_t rule = 0; rule < RULES; rule++)
        for (int32_t clipped = 0; clipped < 2; clipped++) {
            network_train("host:1", MUSTER_SGD + rule, clipped ? 0.05 : 0, NULL, &expected);
            for (int32_t i = 0; i < COUNTS * MACHINES; i++, turn++) {
                if (!test_is_full() && turn % (on_gpus() ? 19 : 5)) continue;
                const muster_graph_options options = options_of(counts[i % COUNTS]);
                network_train(machines[i / COUNTS], MUSTER_SGD + rule, clipped ? 0.05 : 0, &options, &got);
                if (!(distance(&expected, &got) < 1e-11))
                    fail_msg("rule %d, %d micro-batches on %s: differs by %g", (int)rule, (int)options.micro_batches, machines[i / COUNTS],
                             distance(&expected, &got));
                compared++;
            }
        }
    assert_int_equal(turn, RULES * 2 * COUNTS * MACHINES);
    assert_int_equal(compared, test_is_full() ? turn : (turn + (on_gpus() ? 18 : 4)) / (on_gpus() ? 19 : 5));
}

/* 0 and 1 are no micro-batches: not one bit differs. */
static void one_micro_batch_is_none(void **state) {
    static results expected, got;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        const muster_graph_options options = options_of(1);
        network_train(machines[m], MUSTER_ADAM, 0, NULL, &expected);
        network_train(machines[m], MUSTER_ADAM, 0, &options, &got);
        assert_memory_equal(&expected, &got, sizeof got);
    }
}

/* ---- memory ---- */

static int64_t number_before(const char *dump, const char *prefix) {
    const char *at = strstr(dump, prefix);
    if (!at) fail_msg("no \"%s\" in the dump: %.200s", prefix, dump);
    return atoll(at + strlen(prefix));
}

/* The bytes of the block; *loop: those of a micro-batch, 0 without. */
static int64_t block_of(const char *devices, int64_t micro_batches, int64_t *loop) {
    static results r;
    network net;
    const muster_graph_options options = options_of(micro_batches);
    assert_ok(network_open(&net, devices, MUSTER_SGD, 0, &options));
    assert_ok(network_call(&net, MOST_ROWS, &r));
    char *dump = graph_dump_text(net.function), expected[64];
    const int64_t bytes = number_before(dump, "a block of ");
    *loop = 0;
    if (micro_batches > 1) {
        snprintf(expected, sizeof expected, ", %d micro-batches of ", (int)micro_batches);
        *loop = number_before(dump, expected);
        assert_non_null(strstr(dump, "in micro-batches"));
    } else {
        assert_null(strstr(dump, "micro-batch"));
    }
    free(dump);
    assert_ok(muster_runtime_close(net.runtime));
    return bytes;
}

/* An activation of all rows has MOST_ROWS * HIDDEN doubles, 128 KiB; the gradients of all
 * parameters have less than 3 KiB. */
static void the_block_becomes_smaller(void **state) {
    (void)state;
    for (int32_t m = 0; m < MACHINES - 1; m++) {
        int64_t loop, before = block_of(machines[m], 0, &loop);
        const int64_t all = before;
        assert_true(all >= 2 * MOST_ROWS * HIDDEN * 8 / (m + 1));
        for (int64_t k = 2; k <= 16; k *= 2) {
            const int64_t bytes = block_of(machines[m], k, &loop);
            assert_in_range(loop, 1, bytes);
            if (!(bytes < before && bytes < all / k + 8192)) /* what is left: gradients, and their alignment */
                fail_msg("%s: %lld bytes in %d micro-batches, %lld in half as many", machines[m], (long long)bytes, (int)k,
                         (long long)before);
            before = bytes;
        }
    }
}

static void steady_calls_allocate_nothing(void **state) {
    static results r;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        network net;
        const muster_graph_options options = options_of(3);
        assert_ok(network_open(&net, machines[m], MUSTER_MOMENTUM, 0, &options));
        for (int32_t i = 0; i < 3; i++) assert_ok(network_call(&net, 40, &r));
        const int64_t before = mst_memory_count();
        for (int32_t i = 0; i < 10; i++) assert_ok(network_call(&net, 40, &r));
        assert_int_equal(mst_memory_count() - before, 0);
        assert_ok(muster_runtime_close(net.runtime));
    }
}

/* ---- failures ---- */

/* The operator fails in one micro-batch after the other: the message names it, and no parameter has
 * another value. The call after that is right. */
static void a_micro_batch_that_fails_updates_nothing(void **state) {
    enum { PARTS = 5 };
    static results start, expected, got;
    network net;
    const muster_graph_options options = options_of(PARTS);
    (void)state;
    assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, &options));
    parameters_read(&net, 0, &start);
    for (fails_at = 1; fails_at <= PARTS; fails_at++) {
        applied = 0;
        assert_refused(network_call(&net, 40, &got), MUSTER_OUT_OF_RANGE, "the cat sat on the keys (in pass_on");
        assert_int_equal(applied, fails_at);
        parameters_read(&net, 0, &got);
        assert_memory_equal(start.parameters, got.parameters, sizeof got.parameters);
    }
    applied = 0;
    assert_ok(network_call(&net, 40, &got)); /* fails_at is one more than there are */
    assert_int_equal(applied, PARTS);
    fails_at = 0;
    parameters_read(&net, 0, &got);
    assert_ok(muster_runtime_close(net.runtime));
    assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, NULL));
    assert_ok(network_call(&net, 40, &expected));
    parameters_read(&net, 0, &expected);
    assert_true(distance(&expected, &got) < 1e-11 && got.loss > 0);
    assert_ok(muster_runtime_close(net.runtime));
}

/* Each allocation fails once, of compiling and of the first call. */
static void memory_that_runs_out_is_said(void **state) {
    static results got;
    int32_t failed = 0;
    bool done = false;
    (void)state;
    for (int64_t k = 1; !done; k += test_is_full() ? 1 : 3) {
        network net;
        const muster_graph_options options = options_of(3);
        assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, &options));
        mst_memory_fail_at(k);
        const muster_status status = network_call(&net, 40, &got);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(network_call(&net, 40, &got));
        assert_ok(muster_runtime_close(net.runtime));
    }
    assert_true(failed > 5);
    for (memory_fails_at = 1, done = false; !done; memory_fails_at += test_is_full() ? 1 : 7) {
        network net;
        const muster_graph_options options = options_of(3);
        const muster_status status = network_open(&net, "host:2", MUSTER_SGD, 0, &options);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)memory_fails_at, muster_last_error());
        assert_ok(muster_runtime_close(net.runtime));
    }
    memory_fails_at = 0;
    assert_true(failed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_trains_as_with_all_rows_at_once),
        cmocka_unit_test(one_micro_batch_is_none),
        cmocka_unit_test(the_block_becomes_smaller),
        cmocka_unit_test(steady_calls_allocate_nothing),
        cmocka_unit_test(a_micro_batch_that_fails_updates_nothing),
        cmocka_unit_test(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
