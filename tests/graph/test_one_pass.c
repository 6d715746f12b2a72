/* The updates of rules on several devices: one pass over memory, with the exchange of the
 * gradients, gives the bits that the same updates give one after the other. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "runtime_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 13, INPUTS = 6, HIDDEN = 1501, STEPS = 4, PARAMETERS = 3 };
static const int64_t counts[PARAMETERS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN};

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS];
    int32_t split; /* the first weight along this axis; -1: not */
    bool decays;   /* without, rules are single loops on the host */
    bool number;   /* the rate is one, and no input */
    int64_t stream_bytes;
} training;

/* mean((tanh(x @ w + b) @ v)^2) over all rows. b is added by a product: the sum over rows that
 * would be its gradient travels in f64 where single updates read it, and in its dtype to one
 * pass. */
static void open_training(training *t, const char *devices, muster_dtype dtype, muster_update_rule rule, int32_t unfused) {
    static double memory[INPUTS * HIDDEN];
    static const char *const names[PARAMETERS] = {"w", "b", "v"};
    const int64_t shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {HIDDEN, 0}, {HIDDEN, 0}};
    muster_runtime_options options;
    muster_rule_options rule_options;
    muster_graph_options graph_options;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_graph *graph;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.stream_bytes = t->stream_bytes;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    for (int32_t i = 0; i < PARAMETERS; i++) {
        graph_fill(dtype, memory, counts[i], 1000 * i);
        assert_ok(muster_variable_create(t->runtime, names[i], muster_tensor_make(dtype, memory, i ? 1 : 2, shapes[i]), &t->variables[i]));
    }
    assert_ok(muster_graph_create(t->runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", dtype, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    muster_expr *rate = muster_graph_input(graph, "rate", dtype, MUSTER_SCALAR, MUSTER_BROADCAST);
    for (int32_t i = 0; i < PARAMETERS; i++) parameters[i] = muster_graph_parameter(graph, t->variables[i]);
    if (t->split >= 0) assert_ok(muster_graph_split(parameters[0], t->split));
    muster_expr *loss =
        muster_expr_parse(graph, dtype == MUSTER_F64 ? "mean(square(tanh(x @ w + full([rows, 1], 1, f64) @ expand_dims(b, 0)) @ v))"
                                                     : "mean(square(tanh(x @ w + full([rows, 1], 1, f32) @ expand_dims(b, 0)) @ v))");
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule_options);
    if (t->number)
        rule_options.learning_rate = 0.01;
    else
        rule_options.rate = rate;
    if (t->decays) rule_options.weight_decay = 0.01;
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, rule, &rule_options));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&graph_options);
    graph_options.unfused = unfused;
    assert_ok(muster_graph_compile(graph, &graph_options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static double train(const training *t, muster_dtype dtype) {
    double x[ROWS * INPUTS], loss = 0, rate = 0;
    float loss32;
    graph_fill(dtype, x, ROWS * INPUTS, 5);
    if (dtype == MUSTER_F64)
        rate = 0.01;
    else
        memcpy(&rate, &(float){0.01f}, sizeof(float));
    for (int32_t step = 0; step < STEPS; step++) {
        const muster_tensor in[] = {muster_tensor_make(dtype, x, 2, (const int64_t[]){ROWS, INPUTS}),
                                    muster_tensor_make(dtype, &rate, 0, NULL)};
        const muster_tensor out = muster_tensor_make(dtype, &loss, 0, NULL);
        assert_ok(muster_function_call(t->function, in, 2, &out, 1, NULL));
    }
    memcpy(&loss32, &loss, sizeof loss32);
    return dtype == MUSTER_F64 ? loss : loss32;
}

/* All parameters on every device, then all states. */
static int64_t read_all(const training *t, muster_dtype dtype, char *memory) {
    const int64_t size = (int64_t)muster_dtype_size(dtype);
    int64_t at = 0;
    for (int32_t i = 0; i < PARAMETERS; i++) {
        const int64_t shape[] = {i ? counts[i] : INPUTS, HIDDEN};
        assert_ok(muster_variable_get_whole(t->variables[i], muster_tensor_make(dtype, memory + at, i ? 1 : 2, shape)));
        at += counts[i] * size;
        for (int32_t r = 1; r < muster_runtime_size(t->runtime) && (i || t->split < 0); r++) {
            assert_ok(muster_variable_get(t->variables[i], r, muster_tensor_make(dtype, memory + at, i ? 1 : 2, shape)));
            assert_memory_equal(memory + at, memory + at - counts[i] * size, (size_t)(counts[i] * size));
        }
    }
    at += graph_states_get(t->function, memory + at);
    return at;
}

/* How many updates the dump says are made in one pass. */
static int32_t count_passes(const training *t) {
    static const char ending[] = ", in one pass";
    char *text = graph_dump_text(t->function);
    int32_t found = 0;
    for (const char *at = text; (at = strstr(at, ending)); at += sizeof ending - 1) found++;
    free(text);
    return found;
}

/* Between two ranks on the host, single loops add the gradients and write both parameters. */
static void check_path(const training *t, const char *devices) {
    const mst_member *members = t->runtime->communicator->members;
    const bool pairs = strcmp(devices, "host:2") == 0 && !t->decays;
    if (on_gpus()) return; /* in place of the devices that are named here */
    for (int32_t r = 0; r < muster_runtime_size(t->runtime); r++) {
        assert_int_equal(members[r].served_pairs, pairs);
        assert_int_equal(members[r].served_streaming, t->stream_bytes > 0);
    }
}

static void compare(const char *devices, muster_dtype dtype, muster_update_rule rule, int32_t split, bool decays, int64_t stream_bytes) {
    static char memory[2][5 * (INPUTS * HIDDEN + 3 * HIDDEN) * sizeof(double)];
    double losses[2];
    int64_t bytes[2];
    for (int32_t unfused = 0; unfused < 2; unfused++) {
        training t = {.split = split, .decays = decays, .number = split == 0, .stream_bytes = stream_bytes};
        open_training(&t, devices, dtype, rule, unfused);
        losses[unfused] = train(&t, dtype);
        if (!unfused) check_path(&t, devices);
        bytes[unfused] = read_all(&t, dtype, memory[unfused]);
        assert_int_equal(count_passes(&t), unfused ? 0 : PARAMETERS);
        assert_ok(muster_runtime_close(t.runtime));
    }
    if (losses[0] != losses[1] || bytes[0] != bytes[1] || memcmp(memory[0], memory[1], (size_t)bytes[0]) != 0)
        fail_msg("%s, %s, rule %d, split %d, decays %d: expected equal bits", devices, muster_dtype_name(dtype), (int)rule, (int)split,
                 (int)decays);
}

static void test_one_pass_gives_the_bits_of_single_updates(void **state) {
    static const char *const machines[] = {"host:2", "host:3", "host:8"};
    const bool gpus = on_gpus(), few = gpus || test_one_in(1, 1, 4) > 1;
    int32_t cases = 0;
    (void)state;
    for (int32_t d = 0; d < (gpus ? 2 : 3); d++)
        for (int32_t split = -1; split < 2; split++)
            for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++) {
                if ((few || d == 2) && ((int64_t)rule + split + (int64_t)test_seed()) % 4) continue; /* a sample */
                for (int32_t f64 = 0; f64 < 2; f64++, cases++)
                    compare(machines[d], f64 ? MUSTER_F64 : MUSTER_F32, rule, split, (d + split) % 2 == 0, f64 == (split == 1) ? -1 : 1);
            }
    assert_int_equal(cases, gpus ? 24 : few ? 36 : 108);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_pass_gives_the_bits_of_single_updates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
