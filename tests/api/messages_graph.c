/* Rows of graph.h. Errors stay in a graph, so that each row has a new one: `graph`, with the
 * expression `x` (3, 4), and `scalar`. */
#include "messages.h"

static muster_graph *graph;
static muster_expr *x, *scalar, *pair[2]; /* x and scalar */
static const int64_t shape[] = {3, 4};

static void begin_row(void) {
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_create(messages_of.runtime, "graph", &graph));
    x = muster_graph_input(graph, "x", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    assert_ok(muster_expr_apply(graph, "sum", &x, 1, NULL, NULL, &scalar));
    pair[0] = x;
    pair[1] = scalar;
    (void)muster_fail(MUSTER_USER, "the message of an earlier row");
}

/* A function that gives an expression gives NULL without a graph to keep the error, else the
 * expression "error", whose status is the graph's. */
static muster_status status_of(muster_expr *made) {
    if (!made) return MUSTER_INVALID_ARGUMENT;
    return muster_expr_ndim(made) == -1 ? muster_graph_status(graph) : MUSTER_OK;
}

/* The function returns a status, which the graph keeps. */
#define REFUSE_STATUS(code, argument, function, ...)   \
    do {                                               \
        begin_row();                                   \
        REFUSE(code, argument, function, __VA_ARGS__); \
    } while (0)
#define REFUSE_EXPRESSION(code, argument, function, ...)                                        \
    do {                                                                                        \
        begin_row();                                                                            \
        messages_refused(#function, argument, MUSTER_##code, status_of(function(__VA_ARGS__))); \
    } while (0)
/* The macros muster_graph_input and muster_gradient call these, with their place. */
#define REFUSE_INPUT_AT(argument, ...)                                                                        \
    do {                                                                                                      \
        begin_row();                                                                                          \
        messages_refused_as("muster_graph_input_at", "muster_graph_input", argument, MUSTER_INVALID_ARGUMENT, \
                            status_of(muster_graph_input_at(__VA_ARGS__)));                                   \
    } while (0)
#define REFUSE_GRADIENT_AT(argument, ...)                                                                                                 \
    do {                                                                                                                                  \
        begin_row();                                                                                                                      \
        messages_refused_as("muster_gradient_at", "muster_gradient", argument, MUSTER_INVALID_ARGUMENT, muster_gradient_at(__VA_ARGS__)); \
    } while (0)
/* muster_expr_parse is a macro. */
#define REFUSE_ITEMS(argument, ...)                                                                            \
    do {                                                                                                       \
        begin_row();                                                                                           \
        messages_refused_as("muster_expr_parse_items", "muster_expr_parse", argument, MUSTER_INVALID_ARGUMENT, \
                            status_of(muster_expr_parse_items(__VA_ARGS__)));                                  \
    } while (0)
/* One of the operations, which the message names in place of muster_expr_apply. */
#define REFUSE_OPERATION(code, argument, operation, inputs, count, ...)                                                               \
    do {                                                                                                                              \
        begin_row();                                                                                                                  \
        messages_refused(                                                                                                             \
            "muster_expr_" operation, argument, MUSTER_##code,                                                                        \
            muster_expr_apply(graph, operation, inputs, count, (const muster_attribute[]){__VA_ARGS__, {.name = NULL}}, NULL, NULL)); \
    } while (0)

static void creating(void) {
    muster_graph *unused;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_graph_create, NULL, "n", &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_graph_create, messages_of.runtime, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_graph_create, messages_of.runtime, "", &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_graph_create, messages_of.runtime, "\xff", &unused);
    REFUSE(INVALID_ARGUMENT, "graph", muster_graph_create, messages_of.runtime, "n", NULL);
    GIVES(muster_graph_destroy, muster_graph_destroy(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "graph", muster_graph_status, NULL);
    begin_row();
    GIVES(muster_graph_status, muster_graph_status(graph) == MUSTER_OK);
}

#define REFUSE_SIZES(code, argument, function, ...)                                               \
    do {                                                                                          \
        begin_row();                                                                              \
        messages_refused(#function, argument, MUSTER_##code, size_status(function(__VA_ARGS__))); \
    } while (0)
#define REFUSE_COMPUTED(function)                                                                                        \
    do {                                                                                                                 \
        begin_row();                                                                                                     \
        const int64_t none = function(NULL, 1, 2);                                                                       \
        messages_refused(#function, "graph", MUSTER_INVALID_ARGUMENT, none == -1 ? MUSTER_INVALID_ARGUMENT : MUSTER_OK); \
        REFUSE_SIZES(INVALID_ARGUMENT, "a", function, graph, -1, 2);                                                     \
        REFUSE_SIZES(INVALID_ARGUMENT, "b", function, graph, 1, -999);                                                   \
    } while (0)

static void computed_sizes(void);

static muster_status size_status(int64_t size) {
    return size == MUSTER_INFER ? (graph ? muster_graph_status(graph) : MUSTER_INVALID_ARGUMENT) : MUSTER_OK;
}
#define REFUSE_SIZE(code, argument, ...) \
    messages_refused("muster_graph_size", argument, MUSTER_##code, size_status(muster_graph_size(__VA_ARGS__)))

static void sizes(void) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    assert_ok(muster_graph_destroy(graph));
    graph = NULL;
    REFUSE_SIZE(INVALID_ARGUMENT, "graph", NULL, "n");
    begin_row();
    REFUSE_SIZE(INVALID_ARGUMENT, "name", graph, NULL);
    begin_row();
    REFUSE_SIZE(INVALID_ARGUMENT, "name", graph, "");
    begin_row();
    REFUSE_SIZE(INVALID_ARGUMENT, "name", graph, "rows");
    begin_row();
    for (int i = 0; i < 7; i++) assert_true(muster_graph_size(graph, names[i]) < MUSTER_ROWS);
    assert_true(muster_graph_size(graph, "a") == MUSTER_ROWS - 1);
    REFUSE_SIZE(UNSUPPORTED, "name", graph, "h");
    computed_sizes();
}

static void computed_sizes(void) {
    REFUSE_COMPUTED(muster_graph_size_product);
    REFUSE_COMPUTED(muster_graph_size_quotient);
    REFUSE_COMPUTED(muster_graph_size_sum);
    REFUSE_SIZES(SHAPE_MISMATCH, "a", muster_graph_size_quotient, graph, 3, 2);
    REFUSE_SIZES(SHAPE_MISMATCH, "a", muster_graph_size_sum, graph, MUSTER_ROWS, 2);
}

static void inputs(void) {
    static const int64_t wrong[] = {-5, 4}, rows[] = {MUSTER_ROWS, 4}, late[] = {4, MUSTER_ROWS}, unknown[] = {MUSTER_ROWS - 1, 4};
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_graph_input, NULL, "n", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "name", muster_graph_input, graph, NULL, MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "name", muster_graph_input, graph, "", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "name", muster_graph_input, graph, "x", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "dtype", muster_graph_input, graph, "n", 99, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "dtype", muster_graph_input, graph, "n", MUSTER_DTYPE_NONE, 2, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "ndim", muster_graph_input, graph, "n", MUSTER_F32, -1, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "ndim", muster_graph_input, graph, "n", MUSTER_F32, 9, shape, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, 2, NULL, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, 2, wrong, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, 2, unknown, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, 2, rows, MUSTER_BROADCAST);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, 2, late, MUSTER_SCATTER);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "shape", muster_graph_input, graph, "n", MUSTER_F32, MUSTER_SCALAR, MUSTER_SCATTER);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "mode", muster_graph_input, graph, "n", MUSTER_F32, 2, shape, MUSTER_SUM);
    REFUSE_EXPRESSION(UNSUPPORTED, "mode", muster_graph_input, graph, "n", MUSTER_F32, 2, rows, MUSTER_SCATTER | MUSTER_INPUT_HOST);
    REFUSE_INPUT_AT("graph", "here.c:7", NULL, "n", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_INPUT_AT("name", NULL, graph, NULL, MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    REFUSE_INPUT_AT("shape", "here.c:7", graph, "n", MUSTER_F32, 2, NULL, MUSTER_BROADCAST);
}

static void parameters(void) {
    float value = 1;
    muster_variable *foreign, *number;
    assert_ok(muster_variable_create(messages_of.other, "foreign", muster_f32(&value, 1), &foreign));
    assert_ok(muster_variable_create(messages_of.runtime, "number", muster_f32(&value), &number));
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_graph_parameter, NULL, messages_of.variable);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "variable", muster_graph_parameter, graph, NULL);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "variable", muster_graph_parameter, graph, foreign);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_graph_parameter_rows, NULL, messages_of.variable);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "variable", muster_graph_parameter_rows, graph, NULL);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "variable", muster_graph_parameter_rows, graph, foreign);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "variable", muster_graph_parameter_rows, graph, number);
    REFUSE_STATUS(INVALID_ARGUMENT, "parameter", muster_graph_split, NULL, 0);
    REFUSE_STATUS(INVALID_ARGUMENT, "parameter", muster_graph_split, x, 0);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_graph_number, NULL, 1);
    REFUSE_STATUS(INVALID_ARGUMENT, "variable", muster_graph_update, graph, foreign, x, MUSTER_AUTO);
    assert_ok(muster_variable_destroy(foreign));
    assert_ok(muster_variable_destroy(number));
}

static muster_status update_twice(muster_graph *of) {
    const int64_t two[] = {2, 2};
    muster_expr *value = muster_graph_input(of, "value", MUSTER_F32, 2, two, MUSTER_BROADCAST);
    assert_ok(muster_graph_update(of, messages_of.variable, value, MUSTER_AUTO));
    return muster_graph_update(of, messages_of.variable, value, MUSTER_AUTO);
}

static void outputs(muster_expr *foreign) {
    muster_variable *variable = messages_of.variable, *integers;
    int32_t zero = 0;
    assert_ok(muster_variable_create(messages_of.runtime, "integers", muster_i32(&zero), &integers));
    REFUSE_STATUS(INVALID_ARGUMENT, "graph", muster_graph_output, NULL, "n", x, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "name", muster_graph_output, graph, NULL, x, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "value", muster_graph_output, graph, "n", NULL, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "value", muster_graph_output, graph, "n", foreign, MUSTER_AUTO);
    REFUSE_STATUS(DTYPE_MISMATCH, "value", muster_graph_output, graph, "n", muster_graph_number(graph, 1), MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "mode", muster_graph_output, graph, "n", x, MUSTER_SCATTER);
    REFUSE_STATUS(UNSUPPORTED, "mode", muster_graph_output, graph, "n", scalar, MUSTER_GATHER);
    begin_row();
    assert_ok(muster_graph_output(graph, "n", x, MUSTER_AUTO));
    REFUSE(INVALID_ARGUMENT, "name", muster_graph_output, graph, "n", x, MUSTER_AUTO);
    begin_row();
    muster_expr *index;
    assert_ok(muster_expr_apply(graph, "argmax", &x, 1, NULL, NULL, &index));
    REFUSE(UNSUPPORTED, "mode", muster_graph_output, graph, "n", index, MUSTER_AVG);
    REFUSE_STATUS(INVALID_ARGUMENT, "graph", muster_graph_update, NULL, variable, x, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "variable", muster_graph_update, graph, NULL, x, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "value", muster_graph_update, graph, variable, NULL, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "value", muster_graph_update, graph, variable, foreign, MUSTER_AUTO);
    REFUSE_STATUS(SHAPE_MISMATCH, "value", muster_graph_update, graph, variable, x, MUSTER_AUTO);
    REFUSE_STATUS(DTYPE_MISMATCH, "value", muster_graph_update, graph, integers, scalar, MUSTER_AUTO);
    REFUSE_STATUS(INVALID_ARGUMENT, "mode", muster_graph_update, graph, variable, x, MUSTER_GATHER);
    begin_row();
    messages_refused("muster_graph_update", "variable", MUSTER_INVALID_ARGUMENT, update_twice(graph));
    begin_row();
    muster_expr *zeros = muster_graph_input(graph, "zeros", MUSTER_I32, MUSTER_SCALAR, MUSTER_BROADCAST);
    REFUSE(UNSUPPORTED, "mode", muster_graph_update, graph, integers, zeros, MUSTER_AVG);
    begin_row();
    zeros = muster_graph_input(graph, "zeros", MUSTER_I32, MUSTER_SCALAR, MUSTER_BROADCAST);
    assert_ok(muster_graph_update(graph, integers, zeros, MUSTER_AUTO));
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    REFUSE(UNSUPPORTED, "mode", muster_graph_compile, graph, &options, &function);
    assert_ok(muster_variable_destroy(integers));
}

static void compiling(void) {
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init_sized(NULL, 8);
    GIVES(muster_graph_options_init_sized, true);
    muster_graph_options_init(&options);
    REFUSE(INVALID_ARGUMENT, "graph", muster_graph_compile, NULL, NULL, &function);
    REFUSE_STATUS(INVALID_ARGUMENT, "graph", muster_graph_compile, graph, NULL, &function);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_graph_compile, graph, NULL, NULL);
    options.struct_size = 3;
    REFUSE_STATUS(INVALID_ARGUMENT, "options", muster_graph_compile, graph, &options, &function);
    muster_graph_options_init(&options);
    options.meaning = 2;
    REFUSE_STATUS(INVALID_ARGUMENT, "meaning", muster_graph_compile, graph, &options, &function);
    begin_row();
    const int64_t unbound[] = {muster_graph_size(graph, "n")};
    muster_expr *made;
    assert_ok(muster_expr_apply(graph, "full", NULL, 0,
                                (const muster_attribute[]){{.name = "shape", .integers = unbound, .count = 1},
                                                           {.name = "value", .number = 1},
                                                           {.name = "dtype", .integer = MUSTER_F32},
                                                           {.name = NULL}},
                                NULL, &made));
    assert_ok(muster_graph_output(graph, "made", made, MUSTER_AUTO));
    REFUSE(INVALID_ARGUMENT, "graph", muster_graph_compile, graph, NULL, &function);
}

static void applying(muster_expr *foreign) {
    muster_expr *none = NULL;
    REFUSE_STATUS(INVALID_ARGUMENT, "graph", muster_expr_apply, NULL, "sum", &x, 1, NULL, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "operation", muster_expr_apply, graph, NULL, &x, 1, NULL, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "operation", muster_expr_apply, graph, "summ", &x, 1, NULL, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "inputs", muster_expr_apply, graph, "sum", NULL, 1, NULL, NULL, NULL);
    REFUSE_OPERATION(INVALID_ARGUMENT, "inputs", "sum", &none, 1, {.name = NULL});
    REFUSE_OPERATION(INVALID_ARGUMENT, "inputs", "sum", &foreign, 1, {.name = NULL});
    REFUSE_STATUS(INVALID_ARGUMENT, "count", muster_expr_apply, graph, "sum", &x, -1, NULL, NULL, NULL);
    static const int64_t twice[] = {0, 0}, nine[] = {9}, six[] = {6}, large[] = {INT64_MAX};
    REFUSE_OPERATION(INVALID_ARGUMENT, "count", "sum", NULL, 0, {.name = NULL});
    REFUSE_OPERATION(INVALID_ARGUMENT, "attributes", "sum", &x, 1, {.name = "axes"});
    REFUSE_OPERATION(INVALID_ARGUMENT, "keepdims", "sum", &x, 1, {.name = "keepdims"}, {.name = "keepdims"});
    REFUSE_OPERATION(INVALID_ARGUMENT, "keepdims", "sum", &x, 1, {.name = "keepdims", .kind = 8});
    REFUSE_OPERATION(INVALID_ARGUMENT, "axis", "sum", &x, 1, {.name = "axis", .integers = twice, .count = 2});
    REFUSE_OPERATION(INVALID_ARGUMENT, "axis", "sum", &x, 1, {.name = "axis", .integers = twice, .count = -1});
    REFUSE_OPERATION(INVALID_ARGUMENT, "axis", "sum", &x, 1, {.name = "axis", .integers = NULL, .count = 1});
    REFUSE_OPERATION(OUT_OF_RANGE, "axis", "sum", &x, 1, {.name = "axis", .integers = nine, .count = 1});
    REFUSE_OPERATION(INVALID_ARGUMENT, "shape", "reshape", &x, 1, {.name = NULL});
    REFUSE_OPERATION(SHAPE_MISMATCH, "shape", "reshape", &x, 1, {.name = "shape", .integers = six, .count = 1});
    REFUSE_OPERATION(INVALID_ARGUMENT, "dtype", "cast", &x, 1, {.name = "dtype", .integer = 99});
    REFUSE_OPERATION(SHAPE_MISMATCH, "b", "matmul", ((muster_expr *const[]){x, x}), 2, {.name = NULL});
    REFUSE_OPERATION(
        OVERFLOW, "sizes", "reshape",
        ((muster_expr *const[]){muster_graph_input(graph, "large", MUSTER_F32, 2, (int64_t[]){large[0], 2}, MUSTER_BROADCAST)}), 1,
        {.name = "shape", .integers = six, .count = 1});
}

static void asking(muster_expr *foreign) {
    muster_expr *gradient, *none = NULL;
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expression", muster_expr_result, NULL, 0);
    REFUSE_EXPRESSION(OUT_OF_RANGE, "index", muster_expr_result, x, 1);
    REFUSE_EXPRESSION(OUT_OF_RANGE, "index", muster_expr_result, x, -1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expression", muster_expr_place, NULL, "0");
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "device", muster_expr_place, x, "nowhere");
    begin_row();
    GIVES(muster_expr_place, muster_expr_ndim(muster_expr_place(x, NULL)) == 2); /* the default device */
    begin_row();
    GIVES(muster_expr_name, muster_expr_name(NULL, "n") == NULL && muster_expr_name(x, NULL) == x);
    GIVES(muster_expr_dtype, muster_expr_dtype(NULL) == MUSTER_DTYPE_NONE && muster_expr_dtype(x) == MUSTER_F32);
    GIVES(muster_expr_ndim, muster_expr_ndim(NULL) == -1 && muster_expr_ndim(x) == 2);
    GIVES(muster_expr_graph, muster_expr_graph(NULL) == NULL && muster_expr_graph(x) == graph);
    GIVES(muster_expr_size,
          muster_expr_size(NULL, 0) == MUSTER_INFER && muster_expr_size(x, 2) == MUSTER_INFER && muster_expr_size(x, 1) == 4);
    GIVES(muster_expr_shape, muster_expr_shape(NULL) == NULL && strcmp(muster_expr_shape(x), "(3, 4)") == 0);
    REFUSE_STATUS(INVALID_ARGUMENT, "loss", muster_gradient, NULL, &x, 1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "loss", muster_gradient, x, &x, 1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient, scalar, NULL, 1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient, scalar, &none, 1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient, scalar, &foreign, 1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "count", muster_gradient, scalar, &x, -1, &gradient);
    REFUSE_STATUS(INVALID_ARGUMENT, "gradients", muster_gradient, scalar, &x, 1, NULL);
    REFUSE_GRADIENT_AT("loss", "here.c:7", NULL, &x, 1, &gradient);
    REFUSE_GRADIENT_AT("expressions", NULL, scalar, NULL, 1, &gradient);
    REFUSE_GRADIENT_AT("gradients", "here.c:7", scalar, &x, 1, NULL);
    begin_row();
    muster_expr *operands[2] = {x}, *first;
    const muster_attribute rows[] = {{.name = "axis", .integer = 1}, {.name = NULL}};
    assert_ok(muster_expr_apply(graph, "argmax", &x, 1, rows, NULL, &operands[1]));
    assert_ok(muster_expr_apply(graph, "softmax_cross_entropy", operands, 2, NULL, NULL, &first));
    assert_ok(muster_expr_apply(graph, "sum", &first, 1, NULL, NULL, &first));
    assert_ok(muster_gradient(first, &x, 1, &first));
    assert_ok(muster_expr_apply(graph, "sum", &first, 1, NULL, NULL, &scalar));
    REFUSE(UNSUPPORTED, "loss", muster_gradient, scalar, &x, 1, &gradient);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expression", muster_expr_substitute, NULL, &x, &x, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "from", muster_expr_substitute, scalar, NULL, &x, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "from", muster_expr_substitute, scalar, &foreign, &x, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "to", muster_expr_substitute, scalar, &x, NULL, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "to", muster_expr_substitute, scalar, &x, &none, 1);
    REFUSE_EXPRESSION(SHAPE_MISMATCH, "to", muster_expr_substitute, scalar, &x, &scalar, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "count", muster_expr_substitute, scalar, &x, &x, -1);
}

static muster_status check_with(int64_t size, int64_t elements, double low, double step, double relative, double absolute) {
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.size = size;
    options.elements = elements;
    options.low = low;
    options.step = step;
    options.relative = relative;
    options.absolute = absolute;
    return muster_gradient_check(scalar, NULL, 0, &options, NULL);
}
#define REFUSE_CHECK(argument, ...) messages_refused("muster_gradient_check", argument, MUSTER_INVALID_ARGUMENT, check_with(__VA_ARGS__))

static void checking(muster_expr *foreign) {
    muster_expr *none = NULL;
    muster_gradient_check_options options;
    muster_gradient_check_options_init_sized(NULL, 8);
    GIVES(muster_gradient_check_options_init_sized, true);
    REFUSE_STATUS(INVALID_ARGUMENT, "loss", muster_gradient_check, NULL, NULL, 0, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "loss", muster_gradient_check, x, NULL, 0, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient_check, scalar, NULL, 1, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient_check, scalar, &none, 1, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient_check, scalar, &foreign, 1, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "expressions", muster_gradient_check, scalar, &scalar, 1, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "count", muster_gradient_check, scalar, &x, 0, NULL, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "count", muster_gradient_check, scalar, &x, -1, NULL, NULL);
    muster_gradient_check_options_init(&options);
    options.reserved = 1;
    REFUSE_STATUS(INVALID_ARGUMENT, "reserved", muster_gradient_check, scalar, NULL, 0, &options, NULL);
    options.reserved = 0;
    options.value_count = 1;
    REFUSE_STATUS(INVALID_ARGUMENT, "value_count", muster_gradient_check, scalar, NULL, 0, &options, NULL);
    options.value_count = -1;
    REFUSE_STATUS(INVALID_ARGUMENT, "value_count", muster_gradient_check, scalar, NULL, 0, &options, NULL);
    options.struct_size = 3;
    REFUSE_STATUS(INVALID_ARGUMENT, "options", muster_gradient_check, scalar, NULL, 0, &options, NULL);
    REFUSE_CHECK("size", -1, 0, 0, 0, 0, 0);
    REFUSE_CHECK("elements", 0, -1, 0, 0, 0, 0);
    REFUSE_CHECK("low", 0, 0, 1, 0, 0, 0);
    REFUSE_CHECK("step", 0, 0, 0, -1, 0, 0);
    REFUSE_CHECK("relative", 0, 0, 0, 0, -1, 0);
    REFUSE_CHECK("absolute", 0, 0, 0, 0, 0, -1);
}

static void dumping(void) {
    REFUSE_STATUS(INVALID_ARGUMENT, "graph", muster_graph_dump, NULL, "dump.txt", MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "path", muster_graph_dump, graph, NULL, MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "format", muster_graph_dump, graph, "dump.txt", 2);
    REFUSE_STATUS(SYSTEM, "path", muster_graph_dump, graph, "/nowhere/dump.txt", MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_graph_dump_function, NULL, "dump.txt", MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_graph_dump_function, messages_of.function, "dump.txt", MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "path", muster_graph_dump_function, messages_of.function, NULL, MUSTER_DUMP_TEXT);
    REFUSE_STATUS(INVALID_ARGUMENT, "format", muster_graph_dump_function, messages_of.function, "dump.txt", -1);
    muster_graph_memory memory, misfit = {.struct_size = 1};
    muster_graph_memory_init(&memory);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_graph_function_memory, NULL, 0, &memory);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_graph_function_memory, messages_of.function, 0, &memory);
    REFUSE_STATUS(INVALID_ARGUMENT, "memory", muster_graph_function_memory, messages_of.compiled, 0, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "memory", muster_graph_function_memory, messages_of.compiled, 0, &misfit);
    REFUSE_STATUS(OUT_OF_RANGE, "rank", muster_graph_function_memory, messages_of.compiled, -1, &memory);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_function_graph, NULL, messages_of.compiled);
    REFUSE_STATUS(INVALID_ARGUMENT, "graph_function", muster_function_graph, messages_of.function, NULL);
    REFUSE_STATUS(INVALID_ARGUMENT, "function", muster_function_graph, messages_of.function, messages_of.function);
}

static void texts(muster_expr *foreign) {
    static const char *const names[] = {"a", "b"}, *const none[] = {NULL}, *const odd[] = {"a b"}, *const twice[] = {"a", "a"};
    muster_expr *const missing[] = {NULL};
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_expr_parse, NULL, "x");
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "text", muster_expr_parse, graph, NULL);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "names", muster_expr_parse, graph, "x", "a b", x);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expressions", muster_expr_parse, graph, "x", "a", foreign);
    const muster_item end = {.kind = MUSTER_ITEM_END};
    REFUSE_ITEMS("graph", NULL, "x", &end);
    REFUSE_ITEMS("text", graph, NULL, &end);
    REFUSE_ITEMS("items", graph, "x", NULL);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "graph", muster_expr_parse_named, NULL, "x", NULL, NULL, 0);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "text", muster_expr_parse_named, graph, NULL, NULL, NULL, 0);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "names", muster_expr_parse_named, graph, "x", NULL, pair, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "names", muster_expr_parse_named, graph, "x", none, pair, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "names", muster_expr_parse_named, graph, "x", odd, pair, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "names", muster_expr_parse_named, graph, "x", twice, pair, 2);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expressions", muster_expr_parse_named, graph, "x", names, NULL, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "expressions", muster_expr_parse_named, graph, "x", names, missing, 1);
    REFUSE_EXPRESSION(INVALID_ARGUMENT, "count", muster_expr_parse_named, graph, "x", names, pair, -1);
}

void messages_graphs(void) {
    muster_graph *other;
    assert_ok(muster_graph_create(messages_of.runtime, "other", &other));
    muster_expr *foreign = muster_graph_input(other, "foreign", MUSTER_F32, 2, shape, MUSTER_BROADCAST);
    creating();
    sizes();
    inputs();
    parameters();
    outputs(foreign);
    compiling();
    applying(foreign);
    asking(foreign);
    checking(foreign);
    dumping();
    texts(foreign);
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_destroy(other));
}
