/* Recomputation (muster_graph_options.memory_limit): which values are given up and computed again,
 * how much memory that saves, and that not one bit differs, on one device and on several. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"
#include "muster/rule.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 6, ROWS_OF_CALL = 8, CHANNELS = 4, SIDE = 6, EACH = CHANNELS * SIDE * SIDE, WEIGHTS = CHANNELS * CHANNELS * 9 };

/* On the simulated machine GPUs take the place of CPU cores. */
static const char *machine_text(const char *devices) {
    static char text[24];
    if (!on_gpus() || strncmp(devices, "host", 4) != 0) return devices;
    snprintf(text, sizeof text, "cuda%s", devices + 4);
    return text;
}

/* ---- a deep network ---- */

/* Each layer is a convolution, followed by a text of h, with numbers m, v, s and b of channels, and
 * numbers s6 and b6 along the last axis. */
typedef struct deep {
    muster_runtime *runtime;
    muster_function *function;
} deep;

typedef struct deep_results {
    float loss, gradients[LAYERS][WEIGHTS];
} deep_results;

static muster_expr *deep_loss(muster_graph *g, const char *layer, muster_expr **weights) {
    static const struct {
        const char *name;
        int64_t size;
    } numbers[] = {{"m", CHANNELS}, {"v", CHANNELS}, {"s", CHANNELS}, {"b", CHANNELS}, {"s6", SIDE}, {"b6", SIDE}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)muster_graph_input(g, numbers[i].name, MUSTER_F32, MUSTER_SHAPE(numbers[i].size), MUSTER_BROADCAST);
    muster_expr *h = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, SIDE, SIDE), MUSTER_SCATTER);
    for (int32_t l = 0; l < LAYERS; l++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", (int)l);
        weights[l] = muster_graph_input(g, name, MUSTER_F32, MUSTER_SHAPE(CHANNELS, CHANNELS, 3, 3), MUSTER_BROADCAST);
        h = muster_expr_parse(g, "convolution(h, w, stride=[1, 1], padding=[1, 1])", "h", h, "w", weights[l]);
        h = muster_expr_parse(g, layer, "h", h);
    }
    return muster_expr_parse(g, "mean(h * h)", "h", h);
}

static deep deep_open(const char *devices, const char *layer, const muster_graph_options *options) {
    deep made = {.runtime = devices_open(machine_text(devices))};
    muster_graph *g;
    muster_expr *weights[LAYERS], *gradients[LAYERS];
    static int32_t number;
    char name[16];
    snprintf(name, sizeof name, "deep%d", (int)number++);
    assert_ok(muster_graph_create(made.runtime, name, &g));
    muster_expr *loss = deep_loss(g, layer, weights);
    if (muster_graph_status(g) != MUSTER_OK) fail_msg("\"%s\": %s", layer, muster_last_error());
    assert_ok(muster_gradient(loss, weights, LAYERS, gradients));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    for (int32_t l = 0; l < LAYERS; l++) {
        snprintf(name, sizeof name, "d%d", (int)l);
        assert_ok(muster_graph_output(g, name, gradients[l], MUSTER_AUTO));
    }
    if (muster_graph_compile(g, options, &made.function) != MUSTER_OK) fail_msg("\"%s\": %s", layer, muster_last_error());
    assert_ok(muster_graph_destroy(g));
    return made;
}

static muster_status deep_call(const deep *d, int64_t rows, deep_results *r) {
    static float numbers[6][SIDE], x[ROWS_OF_CALL * EACH], w[LAYERS][WEIGHTS];
    muster_tensor in[7 + LAYERS], out[1 + LAYERS];
    for (int32_t i = 0; i < 6; i++) {
        for (int32_t e = 0; e < SIDE; e++) numbers[i][e] = 1 + (float)((i * 5 + e * 3) % 7) / 16;
        in[i] = muster_f32(numbers[i], i < 4 ? CHANNELS : SIDE);
    }
    graph_fill(MUSTER_F32, x, rows * EACH, 0);
    in[6] = muster_f32(x, rows, CHANNELS, SIDE, SIDE);
    memset(r, 0, sizeof *r);
    out[0] = muster_f32(&r->loss);
    for (int32_t l = 0; l < LAYERS; l++) {
        graph_fill(MUSTER_F32, w[l], WEIGHTS, 100 * l);
        in[7 + l] = muster_f32(w[l], CHANNELS, CHANNELS, 3, 3);
        out[1 + l] = muster_f32(r->gradients[l], CHANNELS, CHANNELS, 3, 3);
    }
    return muster_function_call(d->function, in, 7 + LAYERS, out, 1 + LAYERS, NULL);
}

static muster_graph_memory memory_of(muster_function *function, int32_t rank) {
    muster_graph_memory memory;
    muster_graph_memory_init(&memory);
    assert_ok(muster_graph_function_memory(function, rank, &memory));
    return memory;
}

static muster_graph_options limited(int64_t bytes) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.memory_limit = bytes;
    return options;
}

/* ---- which values ---- */

static const struct {
    const char *layer, *again; /* the operation whose value is computed again */
} kinds[] = {
    {"gelu(h)", " = gelu("},
    {"silu(h)", " = silu("},
    {"elu(h)", " = where("},
    {"mish(h)", " = where("},
    {"cast(cast(gelu(h), f16), f32)", " = cast("},
    {"dropout(gelu(h), 0, p=0.25, seed=5)", " = dropout_of_key("},
    {"h * random_uniform(0, [rows, 4, 6, 6], 12, f32)", " = uniform_of_key("},
    {"h * random_normal(0, [rows, 4, 6, 6], 12, f32)", " = normal_of_key("},
    {"layer_norm(h, s6, b6)", " = add("},
    {"rms_norm(h, s6)", " = multiply("},
    {"relu(batch_norm(h, m, v, s, b, training=1))", " = relu("},
    {"relu(batch_norm(h, m, v, s, b, training=1)) + h", " = add("},
    {"gelu(group_norm(h, s, b, groups=2))", " = gelu("},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* These are too dear, or sums over rows, or exchanged. */
static const char *const never[] = {"convolution",  "matmul",  "einsum",    "attention", "sum(",   "mean(",
                                    "channel_sums", "softmax", "exchanged", "all_",      "reduce", "max_pool"};

/* The lines of the values that are computed again: at least one has the operation, and none another
 * that is dear. */
static void again_check(muster_function *function, const char *operation) {
    char *dump = graph_dump_text(function);
    int32_t found = 0;
    for (char *line = strtok(dump, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strstr(line, ", again in step ")) continue;
        found += strstr(line, operation) != NULL;
        char *operands = strchr(strstr(line, " = "), '('), kept[2];
        memcpy(kept, operands + 1, 1);
        operands[1] = 0;
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            if (strstr(line, never[i])) fail_msg("\"%s\" is computed again: %s", never[i], line);
        operands[1] = kept[0];
    }
    free(dump);
    if (!found) fail_msg("no value of \"%s\" is computed again", operation);
}

static void each_kind_of_value_is_computed_again(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:4"};
    static deep_results expected, got;
    int32_t compared = 0, wanted = 0;
    (void)state;
    for (int32_t k = 0; k < KINDS; k++)
        for (int32_t m = 0; m < 3; m++)
            for (int32_t unfused = 0; unfused < 2; unfused++) {
                muster_graph_options options = limited(0);
                wanted++;
                if (on_gpus() && !test_is_full() && (k + m + unfused) % 5) continue;
                compared++;
                options.unfused = unfused;
                const deep all = deep_open(devices[m], kinds[k].layer, &options);
                options.memory_limit = 1;
                const deep less = deep_open(devices[m], kinds[k].layer, &options);
                assert_ok(deep_call(&all, ROWS_OF_CALL, &expected));
                assert_ok(deep_call(&less, ROWS_OF_CALL, &got));
                if (memcmp(&expected, &got, sizeof got) != 0) fail_msg("\"%s\" on %s: other bits", kinds[k].layer, devices[m]);
                const muster_graph_memory before = memory_of(all.function, 0), after = memory_of(less.function, 0);
                if (after.block_bytes >= before.block_bytes || !after.repeated_steps || after.unlimited_bytes != before.block_bytes)
                    fail_msg("\"%s\" on %s: %lld bytes with %d steps again, %lld without, %lld said", kinds[k].layer, devices[m],
                             (long long)after.block_bytes, (int)after.repeated_steps, (long long)before.block_bytes,
                             (long long)after.unlimited_bytes);
                assert_int_equal(before.repeated_steps, 0);
                assert_int_equal(before.unlimited_bytes, before.block_bytes);
                if (!unfused || !strchr("lrc", kinds[k].layer[0])) again_check(less.function, kinds[k].again);
                assert_ok(muster_function_destroy(all.function));
                assert_ok(muster_function_destroy(less.function));
            }
    assert_int_equal(wanted, KINDS * 3 * 2);
    assert_true(compared >= (on_gpus() && !test_is_full() ? wanted / 6 : wanted));
}

/* A tenth or so of what all values need is the least that a deep network can have here: in each
 * layer of 6 the convolution and its activation were kept, now the former. */
static void activations_need_half_of_the_memory(void **state) {
    static deep_results r;
    (void)state;
    const muster_graph_options options = limited(1);
    const deep d = deep_open("host:1", "gelu(h)", &options);
    assert_ok(deep_call(&d, ROWS_OF_CALL, &r));
    const muster_graph_memory memory = memory_of(d.function, 0);
    const int64_t value = ROWS_OF_CALL * EACH * 4;
    assert_true(memory.unlimited_bytes >= 2 * (LAYERS - 1) * value);
    assert_true(memory.block_bytes <= (LAYERS + 3) * value + 4096);
    assert_ok(muster_function_destroy(d.function));
}

/* ---- limits ---- */

static muster_graph_memory deep_memory(int64_t limit, int64_t rows) {
    static deep_results r;
    const muster_graph_options options = limited(limit);
    const deep d = deep_open("host:1", "gelu(h)", &options);
    assert_ok(deep_call(&d, rows, &r));
    const muster_graph_memory memory = memory_of(d.function, 0);
    assert_ok(muster_function_destroy(d.function));
    return memory;
}

static void no_more_is_computed_again_than_the_limit_asks_for(void **state) {
    const muster_graph_memory most = deep_memory(0, ROWS_OF_CALL), least = deep_memory(1, ROWS_OF_CALL);
    int32_t before = least.repeated_steps, cases = 0, steps = 0;
    (void)state;
    for (int64_t limit = least.block_bytes; limit <= most.block_bytes; limit += (most.block_bytes - least.block_bytes) / 16, cases++) {
        const muster_graph_memory memory = deep_memory(limit, ROWS_OF_CALL);
        assert_true(memory.block_bytes <= limit);
        assert_true(memory.repeated_steps <= before);
        steps += memory.repeated_steps < before;
        before = memory.repeated_steps;
    }
    assert_in_range(cases, 16, 18);
    assert_true(steps >= LAYERS - 2);
    assert_int_equal(deep_memory(most.block_bytes, ROWS_OF_CALL).repeated_steps, 0);
    assert_true(deep_memory(most.block_bytes - 1, ROWS_OF_CALL).repeated_steps > 0);
    /* a smaller call needs no recomputation */
    assert_int_equal(deep_memory(least.block_bytes, 1).repeated_steps, 0);
}

/* ---- the log ---- */

static int32_t lines;
static char last_line[400];

static void count_line(void *user, muster_log_level level, const char *line) {
    (void)user;
    if (level < MUSTER_LOG_WARNING) return;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void a_limit_that_is_missed_is_said_once(void **state) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_graph *g;
    muster_function *function;
    char expected[64];
    double x[9] = {1}, y;
    (void)state;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.log = count_line;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_graph_create(runtime, "small", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(g, "y", muster_expr_parse(g, "tanh(sum(x) * 2 + max(x))"), MUSTER_AUTO));
    const muster_graph_options graph_options = limited(1);
    lines = 0;
    assert_ok(muster_graph_compile(g, &graph_options, &function));
    for (int64_t rows = 7; rows <= 9; rows++) {
        const muster_tensor in = muster_f64(x, rows), out = muster_f64(&y);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    }
    assert_int_equal(lines, 1);
    snprintf(expected, sizeof expected, "expected at least %lld bytes", (long long)memory_of(function, 0).block_bytes);
    assert_non_null(strstr(last_line, expected));
    assert_non_null(strstr(last_line, "graph \"small\": memory_limit: "));
    assert_ok(muster_graph_destroy(g));
    assert_ok(muster_runtime_close(runtime));
}

static void a_limit_below_0_is_refused(void **state) {
    muster_graph *g;
    muster_function *function;
    double x = 0;
    (void)state;
    (void)x;
    assert_ok(muster_graph_create(devices_open("host:1"), "refused", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SCALAR, MUSTER_BROADCAST);
    assert_ok(muster_graph_output(g, "y", muster_expr_parse(g, "x + 1"), MUSTER_AUTO));
    const muster_graph_options options = limited(-1);
    assert_refused(muster_graph_compile(g, &options, &function), MUSTER_INVALID_ARGUMENT,
                   "memory_limit: expected 0 or more bytes, received -1");
    assert_ok(muster_graph_destroy(g));
}

/* ---- every bit, on all machines ---- */

static const struct {
    const char *devices;
    int32_t shards;
    int64_t micro_batches;
    bool unfused, unshared, checked;
} machines[] = {{"host:1", 0, 0, false, false, false},    {"host:2", 0, 0, false, false, false}, {"host:4", 0, 0, true, false, false},
                {"host:3", 0, 0, false, true, false},     {"host:1", 0, 3, false, false, false}, {"host:2", 0, 4, true, false, false},
                {"host:1", 8, 0, false, false, false},    {"host:4", 8, 0, true, false, false},  {"host:2", 0, 0, false, false, true},
                {"discrete:3", 0, 0, false, false, false}};
enum { MACHINES = sizeof machines / sizeof *machines };

static int64_t bits_compare(const invariance_case *its, int32_t m) {
    static const int64_t rows[] = {24, 8, 56};
    const invariance_way plain = {.dtype = MUSTER_F64,
                                  .rows = rows,
                                  .calls = 3,
                                  .unshared = machines[m].unshared,
                                  .unfused = machines[m].unfused,
                                  .checked = machines[m].checked,
                                  .micro_batches = machines[m].micro_batches};
    invariance_way with = plain;
    invariance_values expected, values;
    muster_runtime *runtime = machines[m].shards ? devices_open_shards(machine_text(machines[m].devices), machines[m].shards)
                                                 : devices_open(machine_text(machines[m].devices));
    with.memory_limit = 1;
    invariance_run(runtime, its, &plain, &expected);
    invariance_run(runtime, its, &with, &values);
    if (values.count != expected.count || memcmp(values.items, expected.items, (size_t)values.count * sizeof *values.items) != 0)
        fail_msg("%s, seed %llu on %s, %d shards, %d micro-batches: other bits %s", its->name, (unsigned long long)its->seed,
                 machines[m].devices, (int)machines[m].shards, (int)machines[m].micro_batches, values.message);
    const int64_t repeated = values.repeated;
    assert_int_equal(expected.repeated, 0);
    invariance_free(&expected);
    invariance_free(&values);
    return repeated;
}

static void random_graphs_have_the_same_bits(void **state) {
    const int32_t graphs = test_is_full() ? 1500 : on_gpus() ? 3 : 60 / (int32_t)test_one_in(1, 3, 6);
    int32_t compared = 0, repeated[MACHINES] = {0};
    (void)state;
    for (int32_t i = 0; i < graphs; i++) {
        const invariance_case its = invariance_random(test_seed() * 1000003u + (uint64_t)i);
        for (int32_t m = 0; m < MACHINES; m++, compared++) repeated[m] += bits_compare(&its, m) > 0;
    }
    assert_int_equal(compared, graphs * MACHINES);
    for (int32_t m = 0; m < MACHINES && graphs >= 60; m++)
        if (machines[m].unshared ? repeated[m] : 10 * repeated[m] < graphs)
            fail_msg("machine %d: only %d of %d graphs compute values again", (int)m, (int)repeated[m], (int)graphs);
}

static void the_fixed_graphs_have_the_same_bits(void **state) {
    const int32_t one_in = test_is_full() ? 1 : on_gpus() ? 6 : 2;
    int32_t compared = 0, repeated = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t m = 0; m < 6; m++) {
            if ((c + m) % one_in) continue;
            repeated += bits_compare(&invariance_cases[c], m) > 0;
            compared++;
        }
    assert_int_equal(compared, invariance_case_count * 6 / one_in);
    assert_true(repeated > 0);
}

/* ---- training ---- */

/* The weights of each layer are trained, and the scale of its channels, which is read again when
 * the activations of the layer are computed again. */
enum { TRAINED = 2 * LAYERS };
typedef struct trained {
    float loss, values[TRAINED][WEIGHTS];
} trained;

static void parameters_make(muster_graph *g, muster_runtime *runtime, muster_variable **variables, muster_expr **parameters) {
    for (int32_t i = 0; i < TRAINED; i++) {
        static float start[WEIGHTS];
        char name[8];
        snprintf(name, sizeof name, "p%d", (int)i);
        graph_fill(MUSTER_F32, start, WEIGHTS, 50 * i);
        assert_ok(muster_variable_create(
            runtime, name, i < LAYERS ? muster_f32(start, CHANNELS, CHANNELS, 3, 3) : muster_f32(start, CHANNELS), &variables[i]));
        parameters[i] = muster_graph_parameter(g, variables[i]);
    }
}

static muster_function *training_make(muster_runtime *runtime, double clip, const muster_graph_options *options,
                                      muster_variable **variables) {
    muster_graph *g;
    muster_function *function;
    muster_expr *p[TRAINED], *d[TRAINED];
    muster_rule_options how;
    assert_ok(muster_graph_create(runtime, "training", &g));
    parameters_make(g, runtime, variables, p);
    muster_expr *h = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, SIDE, SIDE), MUSTER_SCATTER);
    for (int32_t l = 0; l < LAYERS; l++) {
        h = muster_expr_parse(g, "convolution(h, w, stride=[1, 1], padding=[1, 1])", "h", h, "w", p[l]);
        h = muster_expr_parse(g, "dropout(gelu(h * reshape(s, [4, 1, 1])), 0, p=0.25, seed=5)", "h", h, "s", p[LAYERS + l]);
    }
    muster_expr *loss = muster_expr_parse(g, "mean(h * h)", "h", h);
    assert_ok(muster_gradient(loss, p, TRAINED, d));
    muster_rule_options_init(&how);
    how.clip_norm = clip;
    assert_ok(muster_graph_minimise(g, p, d, TRAINED, MUSTER_ADAM, &how));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    if (muster_graph_compile(g, options, &function) != MUSTER_OK) fail_msg("%s", muster_last_error());
    assert_ok(muster_graph_destroy(g));
    return function;
}

/* The steps that compute values again, of all devices of the last call. */
static int64_t train(const char *devices, double clip, const muster_graph_options *options, trained *r) {
    static const int64_t rows[] = {40, 7, 1, 40};
    static float x[40 * EACH];
    muster_runtime *runtime = graph_runtime(machine_text(devices));
    muster_variable *variables[TRAINED];
    muster_function *function = training_make(runtime, clip, options, variables);
    int64_t repeated = 0;
    memset(r, 0, sizeof *r);
    for (int32_t s = 0; s < 4; s++) {
        graph_fill(MUSTER_F32, x, rows[s] * EACH, s);
        const muster_tensor in = muster_f32(x, rows[s], CHANNELS, SIDE, SIDE), out = muster_f32(&r->loss);
        if (muster_function_call(function, &in, 1, &out, 1, NULL) != MUSTER_OK) fail_msg("%s: %s", devices, muster_last_error());
    }
    for (int32_t d = 0; d < muster_runtime_size(runtime); d++) repeated += memory_of(function, d).repeated_steps;
    for (int32_t i = 0; i < TRAINED; i++)
        assert_ok(
            muster_variable_get(variables[i], muster_runtime_size(runtime) - 1,
                                i < LAYERS ? muster_f32(r->values[i], CHANNELS, CHANNELS, 3, 3) : muster_f32(r->values[i], CHANNELS)));
    assert_ok(muster_runtime_close(runtime));
    return repeated;
}

/* Uneven shares of 7 rows and of 1: the devices need not compute the same values again. */
static void training_has_the_same_bits(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3", "host:4"};
    static trained expected, got;
    int32_t compared = 0;
    (void)state;
    for (int32_t m = 0; m < 4; m++)
        for (int32_t way = 0; way < 6; way++) {
            if (on_gpus() && !test_is_full() && (m + way) % 3) continue;
            compared++;
            muster_graph_options options = limited(0);
            const double clip = way == 4 ? 0.05 : 0;
            options.micro_batches = way == 1 || way == 3 ? 3 : 0;
            options.bucket_bytes = way == 2 ? 256 : 0;
            options.eager_updates = (way == 2 || way == 3) && m > 0;
            options.unfused = way == 5;
            (void)train(devices[m], clip, &options, &expected);
            options.memory_limit = way == 2 ? 60000 : 1; /* some values, or all */
            const int64_t repeated = train(devices[m], clip, &options, &got);
            if (memcmp(&expected, &got, sizeof got) != 0 || repeated < LAYERS / 2)
                fail_msg("%s, way %d: %s, %lld steps again", devices[m], (int)way,
                         memcmp(&expected, &got, sizeof got) ? "other bits" : "the same bits", (long long)repeated);
        }
    assert_int_equal(compared, on_gpus() && !test_is_full() ? 8 : 24);
}

static void steady_calls_allocate_nothing(void **state) {
    static deep_results r;
    (void)state;
    const muster_graph_options options = limited(1);
    const deep d = deep_open("host:2", "gelu(h)", &options);
    for (int32_t i = 0; i < 3; i++) assert_ok(deep_call(&d, ROWS_OF_CALL, &r));
    const int64_t before = mst_memory_count();
    for (int32_t i = 0; i < 10; i++) assert_ok(deep_call(&d, ROWS_OF_CALL, &r));
    assert_int_equal(mst_memory_count() - before, 0);
    assert_ok(muster_function_destroy(d.function));
}

/* Each allocation of the first call fails once. */
static void memory_that_runs_out_is_said(void **state) {
    static deep_results expected, got;
    int32_t failed = 0;
    bool done = false;
    (void)state;
    const muster_graph_options options = limited(1);
    for (int64_t k = 1; !done; k += test_is_full() ? 1 : 7) {
        const deep d = deep_open("host:1", "relu(batch_norm(h, m, v, s, b, training=1)) + h", &options);
        mst_memory_fail_at(k);
        const muster_status status = deep_call(&d, ROWS_OF_CALL, &got);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(deep_call(&d, ROWS_OF_CALL, &got));
        if (failed == 1) expected = got; /* a library that had no memory is not asked again: the bits are other ones */
        assert_true(fabsf(expected.loss - got.loss) <= 1e-5f * fabsf(expected.loss));
        assert_true(memory_of(d.function, 0).repeated_steps > 0);
        assert_ok(muster_function_destroy(d.function));
    }
    assert_true(failed >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_value_is_computed_again),
        cmocka_unit_test(activations_need_half_of_the_memory),
        cmocka_unit_test(no_more_is_computed_again_than_the_limit_asks_for),
        cmocka_unit_test(a_limit_that_is_missed_is_said_once),
        cmocka_unit_test(a_limit_below_0_is_refused),
        cmocka_unit_test(random_graphs_have_the_same_bits),
        cmocka_unit_test(the_fixed_graphs_have_the_same_bits),
        cmocka_unit_test(training_has_the_same_bits),
        cmocka_unit_test(steady_calls_allocate_nothing),
        cmocka_unit_test(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
