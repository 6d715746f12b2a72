/* The states of update rules where each device updates some elements of all parameters: a device
 * keeps what it updates, and no more; states are read and set whole all the same. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "variable_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 4, INPUTS = 5, COLUMNS = 301, ROWS = 6, DEVICES = 8 };
static const char *const names[PARAMETERS] = {"w", "b", "s", "e"};
static const int64_t counts[PARAMETERS] = {INPUTS * COLUMNS, INPUTS, 1, 0};
static const int32_t ndims[PARAMETERS] = {2, 1, 0, 1};
static const int64_t shapes[PARAMETERS][2] = {{INPUTS, COLUMNS}, {INPUTS}, {0}, {0}};
enum { ALL = INPUTS * COLUMNS + INPUTS + 1 };

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS];
    muster_dtype dtype;
} training;

/* ---- values: small whole numbers, whose sums are exact in every order ---- */

static double x_at(int64_t row, int64_t i) { return (double)((row * 3 + i * 5) % 7 - 3); }
static double weight_at(int64_t i) { return (double)(i % 5) / 4; }

/* The gradient of sum(x @ w) + s sum(x) + sum(x @ b) + sum(e). */
static double gradient_at(int32_t parameter, int64_t i) {
    double sum = 0;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t k = 0; k < INPUTS; k++) {
            const bool counts_in = parameter == 0 ? k == i / COLUMNS : parameter == 1 ? k == i : true;
            if (counts_in) sum += x_at(row, k);
        }
    return sum;
}

static void put(muster_dtype dtype, void *memory, int64_t i, double value) {
    float narrow = (float)value;
    if (dtype == MUSTER_F64)
        ((double *)memory)[i] = value;
    else if (dtype == MUSTER_F32)
        ((float *)memory)[i] = narrow;
    else
        mst_convert(dtype, (char *)memory + i * 2, MUSTER_F32, &narrow, 1);
}

static double value_at(muster_dtype dtype, const void *memory, int64_t i) {
    return dtype == MUSTER_F64 ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}

/* ---- training ---- */

static muster_status compile(const training *t, muster_update_rule rule, muster_function **function) {
    muster_rule_options options;
    muster_graph_options graph_options;
    muster_graph *graph;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    assert_ok(muster_graph_create(t->runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", t->dtype, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) parameters[i] = muster_graph_parameter(graph, t->variables[i]);
    muster_expr *loss = muster_expr_parse(graph, "sum(x @ w) + s * sum(x) + sum(x @ b) + sum(e) * sum(x)");
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&options);
    options.learning_rate = 0.25;
    if (rule == MUSTER_MOMENTUM) options.momentum = 0.5;
    muster_status status = muster_graph_minimise(graph, parameters, gradients, PARAMETERS, rule, &options);
    muster_graph_options_init(&graph_options);
    graph_options.bucket_bytes = on_gpus() ? 64 : 0; /* several buckets, with a portion in each; host memory has one */
    if (status == MUSTER_OK) status = muster_graph_compile(graph, &graph_options, function);
    assert_ok(muster_graph_destroy(graph));
    return status;
}

static training begin(const char *devices, muster_dtype dtype, muster_update_rule rule) {
    static double memory[INPUTS * COLUMNS];
    training t = {.runtime = graph_runtime(devices), .dtype = dtype};
    for (int32_t p = 0; p < PARAMETERS; p++) {
        for (int64_t i = 0; i < counts[p]; i++) put(dtype, memory, i, weight_at(i));
        assert_ok(muster_variable_create(t.runtime, names[p], muster_tensor_make(dtype, memory, ndims[p], shapes[p]), &t.variables[p]));
    }
    if (rule) assert_ok(compile(&t, rule, &t.function));
    return t;
}

static void train(const training *t, int32_t steps) {
    double x[ROWS * INPUTS];
    for (int64_t i = 0; i < ROWS * INPUTS; i++) put(t->dtype, x, i, x_at(i / INPUTS, i % INPUTS));
    const muster_tensor in = muster_tensor_make(t->dtype, x, 2, (const int64_t[]){ROWS, INPUTS});
    for (int32_t s = 0; s < steps; s++) assert_ok(muster_function_call(t->function, &in, 1, NULL, 0, NULL));
}

static muster_dtype real_of(const training *t) { return t->dtype == MUSTER_F64 ? MUSTER_F64 : MUSTER_F32; }

static muster_tensor state_tensor(const training *t, int32_t p, void *memory) {
    return muster_tensor_make(real_of(t), memory, ndims[p], shapes[p]);
}

static void check_velocity(const training *t, int32_t p, int32_t steps) {
    static double memory[INPUTS * COLUMNS];
    assert_ok(muster_function_state_get(t->function, t->variables[p], "velocity", state_tensor(t, p, memory)));
    for (int64_t i = 0; i < counts[p]; i++) {
        double velocity = 0;
        for (int32_t s = 0; s < steps; s++) velocity = velocity / 2 - gradient_at(p, i) / 4;
        if (value_at(real_of(t), memory, i) != velocity)
            fail_msg("\"%s\": element %lld is %g, expected %g", names[p], (long long)i, value_at(real_of(t), memory, i), velocity);
    }
}

/* ---- how much a device keeps ---- */

/* What the dump says of the velocity of a parameter. */
static void read_kept(const char *dump, const char *name, int32_t devices, int64_t kept[DEVICES]) {
    char line[100];
    snprintf(line, sizeof line, "update \"training/%s/velocity\" = in the pass of its parameter, the workers keep ", name);
    const char *at = strstr(dump, line);
    assert_non_null(at);
    at += strlen(line);
    for (int32_t r = 0; r < devices; r++) {
        char *end;
        kept[r] = strtoll(at, &end, 10);
        assert_true(end > at);
        at = end + strlen(", ");
    }
}

static void check_kept(const training *t, int32_t devices) {
    const int64_t size = real_of(t) == MUSTER_F64 ? 8 : 4;
    int64_t of_device[DEVICES] = {0}, kept[DEVICES], all = 0;
    char *dump = graph_dump_text(t->function);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        read_kept(dump, names[p], devices, kept);
        if (ndims[p] == 0) continue; /* a scalar has room everywhere */
        for (int32_t r = 0; r < devices; r++) of_device[r] += kept[r];
    }
    free(dump);
    /* all elements once, and no device much more than its share: portions begin at lines */
    for (int32_t r = 0; r < devices; r++) {
        all += of_device[r];
        assert_true(of_device[r] <= (ALL / devices + 64) * size);
    }
    assert_int_equal(all, (ALL - 1) * size);
}

static void test_a_device_keeps_what_it_updates(void **state) {
    static const char *const machines[] = {"host:2", "host:3", "host:8"};
    static const int32_t devices[] = {2, 3, 8};
    int32_t cases = 0;
    (void)state;
    for (int32_t m = 0; m < (on_gpus() ? 2 : 3); m++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) {
            if (dtype == MUSTER_BF16) continue; /* which has too few bits for these numbers */
            training t = begin(machines[m], dtype, MUSTER_MOMENTUM);
            check_kept(&t, devices[m]);
            train(&t, 3);
            for (int32_t p = 0; p < PARAMETERS; p++) check_velocity(&t, p, 3);
            check_kept(&t, devices[m]);
            assert_ok(muster_runtime_close(t.runtime));
            cases++;
        }
    assert_int_equal(cases, on_gpus() ? 6 : 9);
}

/* The memory of a state on each device. */
static int64_t replica_bytes(muster_runtime *runtime, const char *name, int32_t rank) {
    muster_variable *variable;
    assert_ok(muster_variable_find(runtime, name, &variable));
    return variable->replicas[rank].capacity;
}

/* Two states of f32 for 64 Ki elements, of which one device has 512 KiB: four have no more in all.
 * */
static void test_states_take_the_memory_of_one_device(void **state) {
    enum { LARGE = 1 << 16, STATES = 2 * 4 * LARGE, DEVICES_HERE = 4 };
    static float zeros[LARGE];
    (void)state;
    muster_runtime *runtime = graph_runtime("host:4");
    muster_variable *w;
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_variable_create(runtime, "w", muster_f32(zeros, LARGE), &w));
    assert_ok(muster_graph_create(runtime, "large", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p = muster_graph_parameter(graph, w), *g;
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(x) * sum(w)"), &p, 1, &g));
    assert_ok(muster_graph_minimise(graph, &p, &g, 1, MUSTER_ADAM, NULL));
    for (int32_t compiled = 0; compiled < 2; compiled++) {
        int64_t all = 0;
        if (compiled) assert_ok(muster_graph_compile(graph, NULL, &function));
        for (int32_t r = 0; r < DEVICES_HERE; r++) {
            const int64_t bytes = replica_bytes(runtime, "large/w/moment", r) + replica_bytes(runtime, "large/w/squares", r);
            assert_true(bytes <= STATES / DEVICES_HERE + 2 * 4096);
            all += bytes;
        }
        assert_int_equal(all, compiled ? STATES : 0); /* none before it is known who updates what */
    }
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- reading and setting ---- */

/* Every element comes back, from tensors of any strides. */
static void test_states_are_set_and_read_whole(void **state) {
    static double memory[3][2 * INPUTS * COLUMNS];
    static const char *const machines[] = {"host:2", "host:3", "host:8"};
    (void)state;
    for (int32_t m = 0; m < (on_gpus() ? 1 : 3); m++) {
        training t = begin(machines[m], MUSTER_F64, MUSTER_MOMENTUM);
        for (int32_t p = 0; p < PARAMETERS; p++)
            for (int32_t strided = 0; strided < 2; strided++) {
                muster_tensor from = state_tensor(&t, p, memory[0]), to = state_tensor(&t, p, memory[1]);
                for (int32_t d = 0; d < ndims[p] && strided; d++) from.strides[d] *= 2, to.strides[d] *= 2;
                for (int64_t i = 0; i < 2 * INPUTS * COLUMNS; i++) memory[0][i] = sin((double)i + 10 * p), memory[1][i] = -7;
                assert_ok(muster_function_state_set(t.function, t.variables[p], "velocity", from));
                assert_ok(muster_function_state_get(t.function, t.variables[p], "velocity", to));
                const int64_t step = strided && ndims[p] ? 2 : 1;
                for (int64_t i = 0; i < 2 * INPUTS * COLUMNS; i++)
                    assert_true(memory[1][i] == (i % step == 0 && i < counts[p] * step ? memory[0][i] : -7));
            }
        assert_ok(muster_runtime_close(t.runtime));
    }
}

/* Adam, whose states are no whole numbers: 3 steps, and 3 more on another number of devices, are 6
 * steps, to the bit. */
static void test_training_goes_on_at_another_number_of_devices(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "host:3", "host:8"};
    static float w[2][INPUTS * COLUMNS], moment[2][INPUTS * COLUMNS], squares[2][INPUTS * COLUMNS];
    int64_t steps[2];
    (void)state;
    for (int32_t m = 0; m < (on_gpus() ? 2 : 4); m++) {
        training t = begin(machines[m], MUSTER_F32, MUSTER_ADAM);
        const int32_t next = (m + 1) % (on_gpus() ? 2 : 4);
        for (int32_t half = 0; half < 2; half++) {
            train(&t, 3);
            const int32_t to = half;
            assert_ok(muster_variable_get_whole(t.variables[0], muster_f32(w[to], INPUTS, COLUMNS)));
            assert_ok(muster_function_state_get(t.function, t.variables[0], "moment", muster_f32(moment[to], INPUTS, COLUMNS)));
            assert_ok(muster_function_state_get(t.function, t.variables[0], "squares", muster_f32(squares[to], INPUTS, COLUMNS)));
            assert_ok(muster_function_state_get(t.function, t.variables[0], "step", muster_i64(&steps[to])));
        }
        assert_ok(muster_runtime_close(t.runtime));
        t = begin(machines[next], MUSTER_F32, MUSTER_ADAM);
        assert_ok(muster_variable_set_whole(t.variables[0], muster_f32(w[0], INPUTS, COLUMNS)));
        assert_ok(muster_function_state_set(t.function, t.variables[0], "moment", muster_f32(moment[0], INPUTS, COLUMNS)));
        assert_ok(muster_function_state_set(t.function, t.variables[0], "squares", muster_f32(squares[0], INPUTS, COLUMNS)));
        assert_ok(muster_function_state_set(t.function, t.variables[0], "step", muster_i64(&steps[0])));
        train(&t, 3);
        assert_ok(muster_variable_get_whole(t.variables[0], muster_f32(w[0], INPUTS, COLUMNS)));
        assert_ok(muster_function_state_get(t.function, t.variables[0], "moment", muster_f32(moment[0], INPUTS, COLUMNS)));
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        assert_memory_equal(moment[0], moment[1], sizeof moment[0]);
        assert_ok(muster_runtime_close(t.runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_keeps_what_it_updates), cmocka_unit_test(test_states_take_the_memory_of_one_device),
        cmocka_unit_test(test_states_are_set_and_read_whole), cmocka_unit_test(test_training_goes_on_at_another_number_of_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
