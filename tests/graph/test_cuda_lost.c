/* A GPU that is lost in the midst of a training step, wherever that is: the message names the
 * device, no thread waits for ever, and of each parameter is known what it is: as it was, or
 * undefined, by name. The devices that are left say so, too, and the next machine is right. */
#include "base_check.h"
#include "base_seed.h"
#include "cuda/cuda_impl.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 12, INPUTS = 4, HIDDEN = 30, PARAMETERS = 3, DEVICES = 3, ELEMENTS = INPUTS * HIDDEN + 2 * HIDDEN, SECONDS = 300 };
enum { STATE_BYTES = 2 * 4 * ELEMENTS + 8 }; /* moments and squares, and the number of steps */
static const int64_t counts[PARAMETERS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN};
static const char *const names[PARAMETERS] = {"w", "b", "v"};

typedef struct way {
    const char *name, *devices, *algorithm;
    double clip;
    muster_graph_options options;
} way;

typedef struct training {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variables[PARAMETERS];
} training;

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static void forget(void) {
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_inject_clear();
    muster_sim_reset(&(muster_sim_options){.devices = DEVICES, .longest_delay = 20, .delay_one_of = 8});
    mst_cuda_forget_lost();
}

static muster_tensor tensor_of(int32_t parameter, float *memory) {
    return muster_tensor_make(MUSTER_F32, memory, parameter ? 1 : 2, (const int64_t[]){parameter ? HIDDEN : INPUTS, HIDDEN});
}

static void open_training(training *t, const way *way) {
    float values[INPUTS * HIDDEN];
    muster_runtime_options options;
    muster_rule_options rule;
    muster_expr *parameters[PARAMETERS], *gradients[PARAMETERS];
    muster_graph *graph;
    forget();
    muster_runtime_options_init(&options);
    options.devices = way->devices;
    options.collective_algorithm = way->algorithm;
    options.log = no_log;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    assert_ok(muster_graph_create(t->runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        graph_fill(MUSTER_F32, values, counts[p], 1000 * p);
        assert_ok(muster_variable_create(t->runtime, names[p], tensor_of(p, values), &t->variables[p]));
        parameters[p] = muster_graph_parameter(graph, t->variables[p]);
    }
    muster_expr *loss = muster_expr_parse(graph, "mean(square(tanh(x @ w + b) @ v))");
    assert_ok(muster_gradient(loss, parameters, PARAMETERS, gradients));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.01;
    rule.clip_norm = way->clip;
    assert_ok(muster_graph_minimise(graph, parameters, gradients, PARAMETERS, MUSTER_ADAM, &rule));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, &way->options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static muster_status step(const training *t) {
    float x[ROWS * INPUTS], loss;
    graph_fill(MUSTER_F32, x, ROWS * INPUTS, 5);
    const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 2, (const int64_t[]){ROWS, INPUTS}), out = muster_f32(&loss);
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = SECONDS * 1000000000LL;
    return muster_function_call(t->function, &in, 1, &out, 1, &options);
}

typedef struct values {
    float parameters[ELEMENTS];
    char states[STATE_BYTES];
} values;

static void read_all(const training *t, values *read) {
    float *memory = read->parameters;
    for (int32_t p = 0; p < PARAMETERS; memory += counts[p++]) assert_ok(muster_variable_get(t->variables[p], 0, tensor_of(p, memory)));
    assert_int_equal(graph_states_get(t->function, read->states), STATE_BYTES);
}

typedef struct tally {
    int32_t lost, untouched, undefined, unnoticed;
} tally;
static int32_t tally_states[3]; /* refused, lost with a device, as before */

/* How many parameters the message calls undefined. */
static int32_t undefined_of(const char *message) {
    const char *at = strstr(message, "the call had begun to update variable '"), *others = at ? strstr(at, "' and ") : NULL;
    return !at ? 0 : others ? 1 + atoi(others + strlen("' and ")) : 1;
}

/* Whether the replica is refused as undefined; it is as before, or its device is lost. */
static bool is_undefined(const training *t, int32_t p, int32_t rank, const float *before, const char *text) {
    float memory[INPUTS * HIDDEN];
    const muster_status status = muster_variable_get(t->variables[p], rank, tensor_of(p, memory));
    const char *message = status == MUSTER_OK ? "" : muster_last_error();
    if (status == MUSTER_BAD_STATE && strstr(message, "expected a defined value") && strstr(message, names[p])) return true;
    if (status == MUSTER_DEVICE_LOST && strstr(message, "cuda:")) return false;
    if (status != MUSTER_OK) fail_msg("%s: device %d, \"%s\": %s", text, (int)rank, names[p], message);
    if (memcmp(memory, before, (size_t)counts[p] * 4) != 0)
        fail_msg("%s: device %d: \"%s\" was changed, and nobody said so", text, (int)rank, names[p]);
    return false;
}

/* The states of undefined parameters are refused, and the others are as before; a state is gone
 * with a device that keeps some of it. Nothing but a whole step counts the steps. */
static void check_states(const training *t, const char *before, const bool *undefined, const char *text) {
    static char memory[STATE_BYTES];
    int32_t states;
    assert_ok(muster_function_state_count(t->function, &states));
    for (int32_t i = 0; i < states; i++) {
        muster_state_description state;
        muster_state_description_init(&state);
        assert_ok(muster_function_state_describe(t->function, i, &state));
        const muster_tensor value = muster_tensor_make(state.dtype, memory, state.ndim, state.shape);
        const muster_status status = muster_function_state_get(t->function, state.variable, state.name, value);
        const char *message = status == MUSTER_OK ? "" : muster_last_error();
        bool expected = false;
        for (int32_t p = 0; p < PARAMETERS; p++)
            expected |= undefined[p] && state.variable == t->variables[p] && strcmp(state.name, "step");
        const bool refused = status == MUSTER_BAD_STATE && strstr(message, "expected a defined value") && strstr(message, state.name);
        const bool lost = status == MUSTER_DEVICE_LOST && strstr(message, "cuda:");
        if (refused != expected || (status != MUSTER_OK && !refused && !lost))
            fail_msg("%s: state %d \"%s\": %s, %s", text, (int)i, state.name, expected ? "expected a refusal" : "expected a value",
                     message);
        if (status == MUSTER_OK && memcmp(memory, before, (size_t)muster_tensor_bytes(value)) != 0)
            fail_msg("%s: state %d \"%s\" was changed, and nobody said so", text, (int)i, state.name);
        before += muster_tensor_bytes(value);
        tally_states[refused ? 0 : lost ? 1 : 2]++;
    }
}

/* Behind a call that has failed: as many parameters as the message says are undefined, whole. */
static void check_replicas(const training *t, const values *kept, const char *text) {
    const int32_t size = muster_runtime_size(t->runtime);
    const float *before = kept->parameters;
    bool undefined[PARAMETERS];
    int32_t found = 0;
    for (int32_t p = 0; p < PARAMETERS; before += counts[p++]) {
        int32_t refused = 0;
        for (int32_t r = 0; r < size; r++) refused += is_undefined(t, p, r, before, text);
        if (refused != 0 && refused != size)
            fail_msg("%s: \"%s\" is undefined on %d of %d devices", text, names[p], (int)refused, (int)size);
        undefined[p] = refused > 0;
        found += refused > 0;
    }
    check_states(t, kept->states, undefined, text);
    if (found != undefined_of(text)) fail_msg("%s: %d parameters are undefined", text, (int)found);
}

/* A foreign call in a training step. */
typedef struct place {
    const char *symbol;
    uint64_t kth;
} place;

/* Its device is lost. False: the step has fewer calls of the symbol. */
static bool lose_at(const way *way, place at, tally *tally) {
    training t;
    values before;
    char text[800];
    open_training(&t, way);
    assert_ok(step(&t));
    read_all(&t, &before);
    muster_sim_inject_lost(at.symbol, at.kth);
    const muster_status status = step(&t);
    const bool reached = muster_sim_injected() > 0;
    snprintf(text, sizeof text, "%s, call %d of %s: %s", way->name, (int)at.kth, at.symbol, status == MUSTER_OK ? "" : muster_last_error());
    muster_sim_inject_clear();
    if (status != MUSTER_OK) {
        assert_true(reached);
        if (status != MUSTER_DEVICE_LOST || !strstr(text, "cuda:")) fail_msg("%s: %s", muster_status_name(status), text);
        check_replicas(&t, &before, text);
        *(undefined_of(text) ? &tally->undefined : &tally->untouched) += 1;
    } else if (reached) { /* behind the last wait for the device; the next call finds out */
        const muster_status next = step(&t);
        if (next != MUSTER_DEVICE_LOST || !strstr(muster_last_error(), "cuda:")) fail_msg("%s nobody noticed", text);
        tally->unnoticed++;
    }
    assert_ok(muster_runtime_close(t.runtime));
    if (muster_sim_hazard_count()) fail_msg("%s: %s", text, muster_sim_hazards());
    return reached;
}

/* What puts work into the queue of a device. */
static const char *const symbols[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuLaunchKernel", "cublasGemmEx",
                                      "cuEventRecord",        "cuStreamWaitEvent",    "ncclSend",       "ncclRecv",
                                      "cuMemcpyDtoHAsync_v2"};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

/* Those of a training step. */
static uint64_t count_calls(const way *way, uint64_t calls[SYMBOLS], values *after) {
    training t;
    uint64_t all = 0;
    open_training(&t, way);
    assert_ok(step(&t));
    for (int32_t i = 0; i < SYMBOLS; i++) calls[i] = muster_sim_calls(symbols[i]);
    assert_ok(step(&t));
    for (int32_t i = 0; i < SYMBOLS; i++) all += calls[i] = muster_sim_calls(symbols[i]) - calls[i];
    read_all(&t, after);
    assert_ok(muster_runtime_close(t.runtime));
    return all;
}

static place place_of(const uint64_t calls[SYMBOLS], uint64_t number) {
    int32_t i = 0;
    while (number >= calls[i]) number -= calls[i++];
    return (place){symbols[i], number + 1};
}

static const way ways[] = {{.name = "peers", .devices = "cuda:3"},
                           {.name = "NCCL", .devices = "cuda:3", .algorithm = "nccl"},
                           {.name = "staged", .devices = "cuda:3", .algorithm = "staged"},
                           {.name = "clipped", .devices = "cuda:3", .clip = 0.01},
                           {.name = "buckets", .devices = "cuda:3", .options = {.bucket_bytes = 1}},
                           {.name = "clipped buckets", .devices = "cuda:3", .clip = 0.01, .options = {.bucket_bytes = 1}},
                           {.name = "eager", .devices = "cuda:3", .options = {.bucket_bytes = 1, .eager_updates = 1}},
                           {.name = "virtual devices", .devices = "cuda@0+0+0"}};
enum { WAYS = sizeof ways / sizeof *ways, PLACES = 5, LAST = 12 };

/* From the last launch back, until one loses what the call has begun to update: the updates are the
 * end of a step. False: none of `most` does. */
static bool lose_in_the_updates(const way *way, const uint64_t calls[SYMBOLS], int32_t most, tally *tally) {
    const int32_t before = tally->undefined;
    int32_t launches = 0;
    while (strcmp(symbols[launches], "cuLaunchKernel") != 0) launches++;
    for (int32_t i = 0; i < most && tally->undefined == before && (uint64_t)i < calls[launches]; i++)
        (void)lose_at(way, (place){symbols[launches], calls[launches] - (uint64_t)i}, tally);
    return tally->undefined > before;
}

/* At places spread over the whole step; where they are depends on the seed. */
static void a_device_that_is_lost_is_named_and_so_is_what_it_leaves_undefined(void **state) {
    values expected, again;
    uint64_t calls[SYMBOLS];
    (void)state;
    for (int32_t w = 0; w < WAYS; w++) {
        way its = ways[w];
        tally tally = {0};
        muster_graph_options_init(&its.options);
        its.options.bucket_bytes = ways[w].options.bucket_bytes;
        its.options.eager_updates = ways[w].options.eager_updates;
        const uint64_t all = count_calls(&its, calls, &expected), places = test_is_full() ? all : PLACES;
        for (uint64_t p = 0; p < places; p++) tally.lost += lose_at(&its, place_of(calls, (p * all + test_seed() % all) / places), &tally);
        (void)count_calls(&its, calls, &again);
        assert_memory_equal(&again, &expected, sizeof expected);
        print_message("%s: %d of %d places: %d untouched, %d undefined, %d found out by the next call\n", its.name, (int)places, (int)all,
                      (int)tally.untouched, (int)tally.undefined, (int)tally.unnoticed);
        /* how the threads meet changes a few calls */
        assert_true(tally.lost >= (int32_t)places * 3 / 4 && tally.unnoticed <= (int32_t)places / 4);
        assert_true(tally.untouched > 0);
        tally = (struct tally){0};
        assert_true(lose_in_the_updates(&its, calls, LAST, &tally));
    }
    print_message("states: %d refused, %d lost with a device, %d as before\n", (int)tally_states[0], (int)tally_states[1],
                  (int)tally_states[2]);
    assert_true(tally_states[0] >= 2 * WAYS && tally_states[2] >= WAYS); /* and their steps */
}

static char cache[] = "/tmp/muster-lost.XXXXXX";

int main(void) {
    if (!mkdtemp(cache)) return 1;
    setenv("MUSTER_CACHE_DIR", cache, 1);
    setenv("MUSTER_DEVICE_MEMORY", "1048576", 1);
    alarm(test_is_full() ? 3600 : 1200); /* a thread that waits for ever ends the test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_lost_is_named_and_so_is_what_it_leaves_undefined),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", cache);
    return system(command) == 0 ? failed : 1;
}
