/* A network with convolutions on simulated GPUs: cuDNN's handles are made when the graph is
 * compiled, and its descriptors in the first step. Whatever call of cuDNN fails in that step, the
 * parameters are as they were, and the next call is right. */
#include "base_check.h"
#include "base_seed.h"
#include "cuda/cuda_impl.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, CHANNELS = 2, HIDDEN = 5, EXTENT = 6, PARAMETERS = 2, ELEMENTS = HIDDEN * CHANNELS * 9 + 3 * HIDDEN * 9 };
static const int64_t shapes[PARAMETERS][4] = {{HIDDEN, CHANNELS, 3, 3}, {3, HIDDEN, 3, 3}};
static const int64_t counts[PARAMETERS] = {HIDDEN * CHANNELS * 9, 3 * HIDDEN * 9};
static const char *const names[PARAMETERS] = {"w", "v"};

typedef struct way {
    const char *name, *devices, *algorithm;
    int32_t handles;
    muster_graph_options options;
} way;
static const way ways[] = {{.name = "two GPUs", .devices = "cuda:2", .handles = 2},
                           {.name = "virtual devices", .devices = "cuda@0+0", .handles = 2},
                           {.name = "buckets", .devices = "cuda:2", .algorithm = "nccl", .handles = 2, .options = {.bucket_bytes = 1}},
                           {.name = "micro-batches", .devices = "cuda:2", .handles = 2, .options = {.micro_batches = 3}},
                           {.name = "one", .devices = "cuda@0", .handles = 1}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS];
} training;

static char log_text[2048];
static void keep_log(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", line);
}

static void new_machine(void) {
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_inject_clear();
    muster_sim_reset(&(muster_sim_options){.devices = 2, .longest_delay = 20, .delay_one_of = 8});
    mst_cuda_forget_lost();
    *log_text = '\0';
}

static muster_tensor tensor_of(int32_t p, float *memory) { return muster_tensor_make(MUSTER_F32, memory, 4, shapes[p]); }

static void training_open(training *t, const way *way) {
    float values[ELEMENTS];
    muster_runtime_options options;
    muster_graph_options with;
    muster_rule_options rule;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_graph *graph;
    new_machine();
    muster_runtime_options_init(&options);
    options.devices = way->devices;
    options.collective_algorithm = way->algorithm;
    options.log = keep_log;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    assert_ok(muster_graph_create(t->runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, CHANNELS, EXTENT, EXTENT), MUSTER_SCATTER);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        graph_fill(MUSTER_F32, values, counts[p], 1000 * p);
        assert_ok(muster_variable_create(t->runtime, names[p], tensor_of(p, values), &t->variables[p]));
        parameters[p] = muster_graph_parameter(graph, t->variables[p]);
    }
    muster_expr *loss = muster_expr_parse(graph, "h = tanh(convolution(x, w, padding=1)); mean(square(convolution(h, v, stride=2)))");
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.01;
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, MUSTER_MOMENTUM, &rule));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&with);
    with.rows = ROWS;
    with.bucket_bytes = way->options.bucket_bytes;
    with.micro_batches = way->options.micro_batches;
    assert_ok(muster_graph_compile(graph, &with, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static void training_close(training *t, const char *what) {
    assert_ok(muster_runtime_close(t->runtime));
    if (muster_sim_hazard_count() || muster_sim_check_leaks()) fail_msg("%s: %s", what, muster_sim_hazards());
}

static muster_status step(const training *t) {
    float x[ROWS * CHANNELS * EXTENT * EXTENT], loss;
    graph_fill(MUSTER_F32, x, ROWS * CHANNELS * EXTENT * EXTENT, 5);
    const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 4, (const int64_t[]){ROWS, CHANNELS, EXTENT, EXTENT}),
                        out = muster_f32(&loss);
    return muster_function_call(t->function, &in, 1, &out, 1, NULL);
}

static void parameters_read(const training *t, float *values) {
    for (int32_t p = 0; p < PARAMETERS; values += counts[p++]) assert_ok(muster_variable_get(t->variables[p], 0, tensor_of(p, values)));
}

static void assert_near(const float *received, const float *expected, const char *what) {
    for (int32_t i = 0; i < ELEMENTS; i++)
        if (!(fabsf(received[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i]))))
            fail_msg("%s, element %d: expected %g, received %g", what, (int)i, (double)expected[i], (double)received[i]);
}

/* ---- without a failure ---- */

static const char *const made_once[] = {"cudnnCreate",
                                        "cudnnCreateTensorDescriptor",
                                        "cudnnCreateFilterDescriptor",
                                        "cudnnCreateConvolutionDescriptor",
                                        "cudnnGetConvolutionForwardAlgorithm_v7",
                                        "cudnnSetStream"};
enum { MADE_ONCE = sizeof made_once / sizeof *made_once };

static void a_step_makes_nothing_that_an_earlier_one_has_made(void **state) {
    float with[ELEMENTS], without[ELEMENTS];
    uint64_t before[MADE_ONCE];
    (void)state;
    for (int32_t w = 0; w < WAYS; w++) {
        training t;
        training_open(&t, &ways[w]);
        assert_int_equal(muster_sim_calls("cudnnCreate"), ways[w].handles);
        assert_int_equal(muster_sim_calls("cudnnCreateTensorDescriptor"), 0);
        assert_non_null(strstr(muster_runtime_description(t.runtime), ", cuDNN 9.19.0, all simulated"));
        assert_ok(step(&t));
        for (int32_t i = 0; i < MADE_ONCE; i++) before[i] = muster_sim_calls(made_once[i]);
        const uint64_t runs = muster_sim_calls("cudnnConvolutionForward");
        assert_true(runs >= 2 && muster_sim_calls("cudnnConvolutionBackwardData") > 0 &&
                    muster_sim_calls("cudnnConvolutionBackwardFilter") >= 2);
        for (int32_t i = 0; i < 3; i++) assert_ok(step(&t));
        for (int32_t i = 0; i < MADE_ONCE; i++)
            if (muster_sim_calls(made_once[i]) != before[i]) fail_msg("%s: %s is called in a later step", ways[w].name, made_once[i]);
        assert_int_equal(muster_sim_calls("cudnnConvolutionForward"), 4 * runs);
        parameters_read(&t, with);
        training_close(&t, ways[w].name);
        setenv("MUSTER_CUDNN", "none", 1);
        training_open(&t, &ways[w]);
        assert_non_null(strstr(muster_runtime_description(t.runtime), ", no cuDNN, all simulated"));
        for (int32_t i = 0; i < 4; i++) assert_ok(step(&t));
        assert_int_equal(muster_sim_calls("cudnnCreate"), 0);
        unsetenv("MUSTER_CUDNN");
        parameters_read(&t, without);
        training_close(&t, ways[w].name);
        assert_near(with, without, ways[w].name);
    }
}

static void a_handle_that_cannot_be_made_is_said_in_the_log(void **state) {
    (void)state;
    new_machine();
    muster_sim_inject_for_ever("cudnnCreate", 1, 1008);
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "cuda:2";
    options.log = keep_log;
    assert_ok(muster_runtime_open(&options, &runtime));
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "one", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 1, 3, 3), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(1, 1, 3, 3), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "convolution(x, w)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    if (!strstr(log_text, "cuda:1: cuDNN: cudnnCreate: expected success, received CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008): "
                          "convolutions on cuda:1 are computed without cuDNN, which is slower"))
        fail_msg("the log: %s", log_text);
    float x[18], w[9], y[2];
    for (int32_t i = 0; i < 18; i++) x[i] = (float)i;
    for (int32_t i = 0; i < 9; i++) w[i] = 1;
    const muster_tensor in[] = {muster_f32(x, 2, 1, 3, 3), muster_f32(w, 1, 1, 3, 3)}, out = muster_f32(y, 2, 1, 1, 1);
    assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    assert_true(y[0] == 36 && y[1] == 117);
    assert_int_equal(muster_sim_calls("cudnnConvolutionForward"), 0);
    muster_sim_end_for_ever();
    assert_ok(muster_runtime_close(runtime));
}

/* ---- calls that fail ---- */

static const char *const failing[] = {"cudnnCreateTensorDescriptor",
                                      "cudnnSetTensorNdDescriptor",
                                      "cudnnCreateFilterDescriptor",
                                      "cudnnSetFilterNdDescriptor",
                                      "cudnnCreateConvolutionDescriptor",
                                      "cudnnSetConvolutionNdDescriptor",
                                      "cudnnSetConvolutionGroupCount",
                                      "cudnnSetConvolutionMathType",
                                      "cudnnGetConvolutionForwardAlgorithm_v7",
                                      "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                      "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
                                      "cudnnGetConvolutionForwardWorkspaceSize",
                                      "cudnnGetConvolutionBackwardDataWorkspaceSize",
                                      "cudnnGetConvolutionBackwardFilterWorkspaceSize",
                                      "cudnnConvolutionForward",
                                      "cudnnConvolutionBackwardData",
                                      "cudnnConvolutionBackwardFilter"};
enum { FAILING = sizeof failing / sizeof *failing };

#ifdef MUSTER_TEST_SANITIZED
enum { ONE_OF = 11 }; /* slow builds try fewer */
#else
enum { ONE_OF = 5 };
#endif
static int32_t told, done_without, undefined;

/* Values that the message calls undefined are refused until they are set. */
static void set_again(const training *t, const float *before) {
    float memory[ELEMENTS];
    for (int32_t p = 0; p < PARAMETERS; before += counts[p++]) {
        memcpy(memory, before, (size_t)counts[p] * 4);
        for (int32_t r = 0; r < muster_runtime_size(t->runtime); r++)
            assert_ok(muster_variable_set(t->variables[p], r, tensor_of(p, memory)));
    }
}

static void fail_at(const way *way, const char *symbol, uint64_t kth, int code, const float *first) {
    training t;
    float before[ELEMENTS], after[ELEMENTS];
    char what[700];
    training_open(&t, way);
    parameters_read(&t, before);
    muster_sim_inject(symbol, kth, code);
    const muster_status status = step(&t);
    snprintf(what, sizeof what, "%s, call %d of %s fails with %d: %.400s", way->name, (int)kth, symbol, code,
             status == MUSTER_OK ? "" : muster_last_error());
    const bool reached = muster_sim_injected() > 0;
    muster_sim_inject_clear();
    if (status != MUSTER_OK) {
        if (!reached || !strstr(what + strlen(way->name), "cuDNN: ") || !strstr(what, "cuda:")) fail_msg("%s", what);
        told++;
        if (strstr(what, "the call had begun to update variable")) {
            undefined++;
            set_again(&t, before);
        }
        parameters_read(&t, after);
        assert_memory_equal(before, after, sizeof before);
        assert_ok(step(&t));
    } else
        done_without += reached;
    parameters_read(&t, after);
    assert_near(after, first, what);
    training_close(&t, what);
}

static void a_step_whose_call_of_cudnn_fails_leaves_the_parameters(void **state) {
    static const int codes[] = {4003, 5000, 3000};
    int32_t tried = 0;
    (void)state;
    told = done_without = undefined = 0;
    for (int32_t w = 0; w < 3; w++) {
        training t;
        float first[ELEMENTS];
        training_open(&t, &ways[w]);
        assert_ok(step(&t));
        parameters_read(&t, first);
        training_close(&t, ways[w].name);
        for (int32_t i = 0; i < FAILING; i++)
            for (uint64_t kth = 1; kth <= 2; kth++)
                for (int32_t c = 0; c < 3; c++)
                    if (test_is_full() || (i + w + (int32_t)kth + c) % ONE_OF == 0) {
                        fail_at(&ways[w], failing[i], kth, codes[c], first);
                        tried++;
                    }
    }
    /* each call is there twice in a step of two devices, and two of the three codes end it */
    assert_int_equal(undefined, 0);
    assert_int_equal(told + done_without, tried);
    if (test_is_full()) assert_int_equal(tried, 3 * FAILING * 2 * 3);
    assert_true(tried >= 3 * FAILING * 2 * 3 / ONE_OF - FAILING);
    assert_true(told > done_without && done_without > tried / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_makes_nothing_that_an_earlier_one_has_made),
        cmocka_unit_test(a_handle_that_cannot_be_made_is_said_in_the_log),
        cmocka_unit_test(a_step_whose_call_of_cudnn_fails_leaves_the_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
