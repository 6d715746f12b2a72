/* Rows of rule.h. Errors stay in a graph, so that each row has a new one: `graph`, with the
 * parameter `p` of a variable (2, 2) and its gradient `g`. */
#include "messages.h"

static muster_graph *graph;
static muster_variable *variable, *whole_numbers;
static muster_expr *p, *g, *foreign, *integers;
static const int64_t shape[] = {2, 2};

static void begin_row(void) {
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_create(messages_of.runtime, "graph", &graph));
    p = muster_graph_parameter(graph, variable);
    integers = muster_graph_parameter(graph, whole_numbers);
    g = muster_graph_input(graph, "g", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    (void)muster_fail(MUSTER_USER, "the message of an earlier row");
}

#define REFUSE_GRAPH(code, argument, function, ...)    \
    do {                                               \
        begin_row();                                   \
        REFUSE(code, argument, function, __VA_ARGS__); \
    } while (0)
#define REFUSE_MINIMISE(code, argument, ...) REFUSE_GRAPH(code, argument, muster_graph_minimise, __VA_ARGS__)

static void minimising(void) {
    muster_expr *none = NULL;
    REFUSE_MINIMISE(INVALID_ARGUMENT, "graph", NULL, &p, &g, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "parameters", graph, NULL, &g, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "gradients", graph, &p, NULL, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "parameters", graph, &none, &g, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "gradients", graph, &p, &none, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "parameters", graph, &foreign, &g, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "gradients", graph, &p, &foreign, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "parameters", graph, &g, &g, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(UNSUPPORTED, "parameters", graph, &integers, &integers, 1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "count", graph, &p, &g, -1, MUSTER_SGD, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "rule", graph, &p, &g, 1, 0, NULL);
    REFUSE_MINIMISE(INVALID_ARGUMENT, "rule", graph, &p, &g, 1, MUSTER_ADAMAX + 1, NULL);
}

static muster_status minimise_with(double rate, double momentum, double decay, double clip_norm, size_t size) {
    muster_rule_options options;
    begin_row();
    muster_rule_options_init(&options);
    options.learning_rate = rate;
    options.momentum = momentum;
    options.weight_decay = decay;
    options.clip_norm = clip_norm;
    options.struct_size = size;
    return muster_graph_minimise(graph, &p, &g, 1, MUSTER_MOMENTUM, &options);
}
#define REFUSE_OPTION(argument, ...) \
    messages_refused("muster_graph_minimise", argument, MUSTER_INVALID_ARGUMENT, minimise_with(__VA_ARGS__))

static void options(void) {
    muster_rule_options_init_sized(NULL, 8);
    GIVES(muster_rule_options_init_sized, true);
    REFUSE_OPTION("options", 0, 0, 0, 0, 3);
    REFUSE_OPTION("learning_rate", -1, 0, 0, 0, sizeof(muster_rule_options));
    REFUSE_OPTION("momentum", 0, 1, 0, 0, sizeof(muster_rule_options));
    REFUSE_OPTION("weight_decay", 0, 0, -1, 0, sizeof(muster_rule_options));
    REFUSE_OPTION("clip_norm", 0, 0, 0, -1, sizeof(muster_rule_options));
}

static void clipping(void) {
    muster_expr *clipped, *none = NULL;
    REFUSE_GRAPH(INVALID_ARGUMENT, "graph", muster_graph_clip, NULL, &g, 1, 1, &clipped);
    REFUSE_GRAPH(INVALID_ARGUMENT, "gradients", muster_graph_clip, graph, NULL, 1, 1, &clipped);
    REFUSE_GRAPH(INVALID_ARGUMENT, "gradients", muster_graph_clip, graph, &none, 1, 1, &clipped);
    REFUSE_GRAPH(INVALID_ARGUMENT, "gradients", muster_graph_clip, graph, &foreign, 1, 1, &clipped);
    REFUSE_GRAPH(DTYPE_MISMATCH, "gradients", muster_graph_clip, graph, &integers, 1, 1, &clipped);
    REFUSE_GRAPH(INVALID_ARGUMENT, "clipped", muster_graph_clip, graph, &g, 1, 1, NULL);
    REFUSE_GRAPH(INVALID_ARGUMENT, "count", muster_graph_clip, graph, &g, -1, 1, &clipped);
    REFUSE_GRAPH(INVALID_ARGUMENT, "norm", muster_graph_clip, graph, &g, 1, 0, &clipped);
}

/* Of a function that trains `variable` by momentum. */
static void states(void) {
    float values[4] = {0};
    int32_t count;
    muster_function *f;
    muster_state_description description;
    const muster_tensor good = muster_f32(values, 2, 2), flat = muster_f32(values, 4);
    begin_row();
    assert_ok(muster_graph_minimise(graph, &p, &g, 1, MUSTER_MOMENTUM, NULL));
    assert_ok(muster_graph_compile(graph, NULL, &f));
    muster_state_description_init_sized(NULL, 8);
    GIVES(muster_state_description_init_sized, true);
    muster_state_description_init(&description);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_state_count, NULL, &count);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_state_count, messages_of.function, &count);
    REFUSE(INVALID_ARGUMENT, "count", muster_function_state_count, f, NULL);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_state_describe, NULL, 0, &description);
    REFUSE(OUT_OF_RANGE, "index", muster_function_state_describe, f, 1, &description);
    REFUSE(OUT_OF_RANGE, "index", muster_function_state_describe, f, -1, &description);
    REFUSE(INVALID_ARGUMENT, "description", muster_function_state_describe, f, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_state_get, NULL, variable, "velocity", good);
    REFUSE(INVALID_ARGUMENT, "variable", muster_function_state_get, f, NULL, "velocity", good);
    REFUSE(INVALID_ARGUMENT, "variable", muster_function_state_get, f, whole_numbers, "velocity", good);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_state_get, f, variable, NULL, good);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_state_get, f, variable, "moment", good);
    REFUSE(INVALID_ARGUMENT, "value", muster_function_state_get, f, variable, "velocity", muster_tensor_none());
    REFUSE(SHAPE_MISMATCH, "value", muster_function_state_get, f, variable, "velocity", flat);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_state_set, NULL, variable, "velocity", good);
    REFUSE(INVALID_ARGUMENT, "variable", muster_function_state_set, f, NULL, "velocity", good);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_state_set, f, variable, NULL, good);
    REFUSE(INVALID_ARGUMENT, "value", muster_function_state_set, f, variable, "velocity", muster_tensor_none());
    REFUSE(DTYPE_MISMATCH, "value", muster_function_state_set, f, variable, "velocity", muster_f64((double[4]){0}, 2, 2));
    assert_ok(muster_function_destroy(f));
}

void messages_rules(void) {
    float values[4] = {1, 2, 3, 4};
    int32_t numbers[4] = {1, 2, 3, 4};
    muster_graph *other;
    assert_ok(muster_variable_create(messages_of.runtime, "trained", muster_f32(values, 2, 2), &variable));
    assert_ok(muster_variable_create(messages_of.runtime, "integers", muster_i32(numbers, 2, 2), &whole_numbers));
    assert_ok(muster_graph_create(messages_of.runtime, "other", &other));
    foreign = muster_graph_parameter(other, variable);
    minimising();
    options();
    clipping();
    states();
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_destroy(other));
    assert_ok(muster_variable_destroy(variable));
    assert_ok(muster_variable_destroy(whole_numbers));
}
