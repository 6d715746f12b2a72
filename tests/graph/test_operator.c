/* Operators of the program: rules, bodies, gradients, attributes, names, who owns what. Oracles are
 * loops over the same numbers. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/operator.h"

#include <math.h>

enum { ROWS = 6, K = 4 };
static float x[ROWS][K];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5) / 4;
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_operator_options options_with(const char *const *operands, muster_operator_rule rule, const muster_operator_backend *body) {
    muster_operator_options options;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.rule = rule;
    options.bodies = body;
    options.body_count = body ? 1 : 0;
    return options;
}

static muster_operator *operator_made(muster_runtime *runtime, const char *name, const muster_operator_options *options) {
    muster_operator *made;
    assert_ok(muster_operator_create(runtime, name, options, &made));
    assert_non_null(made);
    return made;
}

static muster_function *compile(muster_graph *graph, muster_graph_meaning meaning) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = meaning;
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

static double attribute_number(const muster_operator_node *node, const char *name) {
    muster_attribute value;
    assert_ok(muster_operator_attribute_value(node, name, &value));
    return value.number;
}

static const char *const one_operand[] = {"x", NULL}, *const no_operands[] = {NULL};

/* ---- scale(x, factor=2): the default rule, one number, a gradient ---- */

static muster_status scale_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)user;
    assert_null(muster_operator_graph(node));
    return muster_binary_scalar(worker, MUSTER_MUL, in[0], attribute_number(node, "factor"), out[0]);
}

static muster_status scale_gradient(const muster_operator_node *node, muster_expr *const *operands, muster_expr *const *y,
                                    muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)operands;
    (void)y;
    (void)user;
    muster_expr *both[] = {dy[0], muster_graph_number(muster_operator_graph(node), attribute_number(node, "factor"))};
    return muster_expr_apply(muster_operator_graph(node), "multiply", both, 2, NULL, "gradient.c:1", &dx[0]);
}

static const muster_operator_backend scale_bodies[] = {{NULL, scale_body}};
static const muster_operator_attribute scale_attributes[] = {{"factor", 2, MUSTER_ATTRIBUTE_NUMBER, 0}, {.name = NULL}};

static muster_operator_options scale_options(void) {
    muster_operator_options options = options_with(one_operand, NULL, scale_bodies);
    options.attributes = scale_attributes;
    options.gradient = scale_gradient;
    return options;
}

/* scale(x) + scale(x, 3), by calls and by a text, and the gradient of the sum of its squares:
 * 2 * 5 * 5 x, on one and on several devices. */
static void an_operator_is_applied_like_others(void **state) {
    static const char *const machines[] = {"host:1", "host:3", "discrete:2", "host:1,discrete:1"};
    int32_t compared = 0;
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        const muster_operator_options options = scale_options();
        muster_operator *scale = operator_made(runtime, "scale", &options);
        muster_graph *graph = graph_named(runtime, "scaled");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER), *d;
        muster_expr *sum =
            APPLY(graph, "add", APPLY(graph, "scale", a), apply(graph, "scale", &a, 1, ATTRIBUTES({.name = "factor", .number = 3})));
        assert_ptr_equal(muster_expr_parse(graph, "scale(a) + scale(a, factor=3)"), sum);
        assert_string_equal(muster_expr_shape(sum), "(rows, 4)");
        assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "square", sum)), &a, 1, &d));
        assert_ok(muster_graph_output(graph, "d", d, MUSTER_GATHER));
        assert_ok(muster_graph_output(graph, "y", sum, MUSTER_GATHER));
        muster_function *function = compile(graph, MUSTER_PER_WORKER);
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(scale));
        float y[ROWS][K], dx[ROWS][K];
        const muster_tensor in = muster_f32(x, ROWS, K), out[] = {muster_f32(dx, ROWS, K), muster_f32(y, ROWS, K)};
        for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
        for (int32_t i = 0; i < ROWS; i++)
            for (int32_t k = 0; k < K; k++, compared++) assert_true(y[i][k] == 5 * x[i][k] && dx[i][k] == 50 * x[i][k]);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(compared, 4 * ROWS * K);
}

/* ---- sizes ---- */

/* (a, b, n) -> (a b, n), and of it as many rows again, and n + n columns. */
static muster_status flat_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    muster_graph *graph = muster_operator_graph(node);
    (void)user;
    assert_int_equal(count, 1);
    if (muster_expr_ndim(operands[0]) != 3) return muster_fail(MUSTER_SHAPE_MISMATCH, "x: expected 3 dimensions");
    const int64_t a = muster_expr_size(operands[0], 0), b = muster_expr_size(operands[0], 1), n = muster_expr_size(operands[0], -1);
    const int64_t ab = muster_graph_size_product(graph, a, b);
    assert_true(muster_graph_size_quotient(graph, ab, b) == a);
    return muster_operator_result(node, 0, muster_expr_dtype(operands[0]), 2, (const int64_t[]){ab, muster_graph_size_sum(graph, n, n)});
}

static muster_status flat_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    muster_tensor flat = in[0], half = out[0];
    (void)node;
    (void)user;
    assert_true(muster_tensor_is_contiguous(out[0]));
    assert_true(out[0].shape[0] == in[0].shape[0] * in[0].shape[1] && out[0].shape[1] == 2 * in[0].shape[2]);
    flat.ndim = 2;
    flat.shape[0] = out[0].shape[0], flat.shape[1] = half.shape[1] = in[0].shape[2];
    flat.strides[0] = in[0].shape[2], flat.strides[1] = 1;
    MUSTER_TRY(muster_copy(worker, flat, half));
    half.byte_offset += half.shape[1] * (int64_t)sizeof(float);
    return muster_copy(worker, flat, half);
}

static const muster_operator_backend flat_bodies[] = {{NULL, flat_body}};

/* Rows and a named size pass through the rule; one compiled function serves all of their values. */
static void sizes_of_a_call_pass_through_the_rule(void **state) {
    muster_runtime *runtime = *state;
    const muster_operator_options options = options_with(one_operand, flat_rule, flat_bodies);
    muster_operator *flat = operator_made(runtime, "flat", &options);
    muster_graph *graph = graph_named(runtime, "sizes");
    const int64_t time = muster_graph_size(graph, "time");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, time, 2), MUSTER_SCATTER);
    muster_expr *y = APPLY(graph, "flat", a);
    assert_string_equal(muster_expr_shape(y), "(rows time, 4)");
    assert_true(muster_expr_size(a, 0) == MUSTER_ROWS && muster_expr_size(a, 1) == time && muster_expr_size(a, 2) == 2);
    assert_true(muster_expr_size(a, 3) == MUSTER_INFER && muster_expr_size(a, -4) == MUSTER_INFER);
    muster_expr *back = apply(graph, "reshape", &y, 1, ATTRIBUTES({.name = "shape", LIST(muster_expr_size(y, 0), 2, 2)}));
    assert_string_equal(muster_expr_shape(back), "(rows time, 2, 2)");
    assert_ok(muster_graph_output(graph, "sums", apply(graph, "sum", &back, 1, ATTRIBUTES({.name = "axis", LIST(0)})), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE);
    int32_t calls = 0;
    for (int64_t rows = 1; rows <= 3; rows++)
        for (int64_t steps = 0; steps <= 2; steps++, calls++) {
            float values[3 * 2 * 2], got[2][2], expected[2] = {0};
            for (int64_t i = 0; i < rows * steps * 2; i++) expected[i % 2] += values[i] = (float)(i + 1);
            const muster_tensor in = muster_f32(values, rows, steps, 2), out = muster_f32(got, 2, 2);
            assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            for (int32_t i = 0; i < 4; i++) assert_true(got[i / 2][i % 2] == expected[i % 2]);
        }
    assert_int_equal(calls, 9);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_operator_destroy(flat));
}

static void sizes_that_cannot_be_computed_are_refused(void **state) {
    static const struct {
        int64_t (*operation)(muster_graph *graph, int64_t a, int64_t b);
        int64_t a, b;
        muster_status code;
        const char *message;
    } rows[] = {
        {muster_graph_size_quotient, MUSTER_ROWS, 2, MUSTER_SHAPE_MISMATCH,
         "muster_graph_size_quotient: a: expected a multiple of 2, received rows"},
        {muster_graph_size_quotient, 3, 2, MUSTER_SHAPE_MISMATCH, "a: expected a multiple of 2, received 3"},
        {muster_graph_size_sum, MUSTER_ROWS, 1, MUSTER_SHAPE_MISMATCH,
         "muster_graph_size_sum: a: expected a size that can be added to 1, received rows"},
        {muster_graph_size_product, INT64_MAX, 2, MUSTER_OVERFLOW, "64 bits"},
        {muster_graph_size_product, MUSTER_INFER, 2, MUSTER_INVALID_ARGUMENT, "a: expected a size of graph \"size\", received -1"},
        {muster_graph_size_product, 2, MUSTER_ROWS - 1, MUSTER_INVALID_ARGUMENT, "b: expected a size of graph \"size\", received -1001"},
        {muster_graph_size_product, 2, INT64_MIN, MUSTER_INVALID_ARGUMENT, "b: expected a size"},
    };
    enum { CASES = sizeof rows / sizeof *rows };
    int32_t refused = 0;
    for (; refused < CASES; refused++) {
        muster_graph *graph = graph_named(*state, "size");
        assert_true(rows[refused].operation(graph, rows[refused].a, rows[refused].b) == MUSTER_INFER);
        assert_refused(muster_graph_status(graph), rows[refused].code, rows[refused].message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 7);
    muster_graph *graph = graph_named(*state, "size");
    assert_true(muster_graph_size_product(graph, 6, 7) == 42 && muster_graph_size_quotient(graph, 42, 6) == 7);
    assert_true(muster_graph_size_sum(graph, 40, 2) == 42 && muster_graph_size_product(graph, 0, MUSTER_ROWS) == 0);
    const int64_t twice = muster_graph_size_sum(graph, MUSTER_ROWS, MUSTER_ROWS);
    assert_true(twice == muster_graph_size_product(graph, MUSTER_ROWS, 2) && muster_graph_size_quotient(graph, twice, 2) == MUSTER_ROWS);
    assert_true(muster_graph_size_product(NULL, 1, 1) == MUSTER_INFER);
    assert_ok(muster_graph_status(graph));
    assert_ok(muster_graph_destroy(graph));
}

/* ---- attributes ---- */

static int32_t parts_seen;

/* number 1.5, integer -7, dtype f64, list {3, 1, 2}, sizes {rows, 5}; `rows` is what the part
 * expects in place of rows. */
static void attributes_check(const muster_operator_node *node, int64_t rows) {
    muster_attribute value;
    assert_true(attribute_number(node, "number") == 1.5);
    assert_ok(muster_operator_attribute_value(node, "integer", &value));
    assert_true(value.integer == -7);
    assert_ok(muster_operator_attribute_value(node, "type", &value));
    assert_true(value.integer == MUSTER_F64);
    assert_ok(muster_operator_attribute_value(node, "list", &value));
    assert_true(value.count == 3 && value.integers[0] == 3 && value.integers[1] == 1 && value.integers[2] == 2);
    assert_ok(muster_operator_attribute_value(node, "shape", &value));
    assert_true(value.count == 2 && value.integers[0] == rows && value.integers[1] == 5);
    assert_ok(muster_operator_attribute_value(node, "text", &value));
    assert_string_equal(value.text, "a, b");
    assert_ok(muster_operator_attribute_value(node, "empty", &value));
    assert_string_equal(value.text, "");
    assert_refused(muster_operator_attribute_value(node, "numbr", &value), MUSTER_INVALID_ARGUMENT,
                   "expected an attribute of operator \"typed\", received \"numbr\"");
    parts_seen++;
}

static muster_status typed_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    muster_attribute shape;
    (void)operands;
    (void)count;
    (void)user;
    attributes_check(node, MUSTER_ROWS);
    assert_ok(muster_operator_attribute_value(node, "shape", &shape));
    return muster_operator_result(node, 0, MUSTER_F32, shape.count, shape.integers);
}

static muster_status typed_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)user;
    attributes_check(node, in[0].shape[0]);
    return muster_fill(worker, (double)out[0].shape[0], out[0]);
}

static muster_status typed_prepare(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in,
                                   const muster_tensor *out, void **made, void *user) {
    (void)worker;
    (void)out;
    (void)user;
    attributes_check(node, in[0].shape[0]);
    *made = NULL;
    return MUSTER_OK;
}

static muster_status typed_gradient(const muster_operator_node *node, muster_expr *const *operands, muster_expr *const *y,
                                    muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)operands;
    (void)y;
    (void)dy;
    (void)user;
    attributes_check(node, MUSTER_ROWS);
    assert_null(dx[0]); /* which stays 0 */
    return MUSTER_OK;
}

static void attributes_reach_every_part(void **state) {
    static const muster_operator_backend bodies[] = {{NULL, typed_body}};
    static const muster_operator_attribute attributes[] = {
        {"number", 1.5, MUSTER_ATTRIBUTE_NUMBER, 0}, {"integer", -7, MUSTER_ATTRIBUTE_INTEGER, 0},
        {"type", 0, MUSTER_ATTRIBUTE_DTYPE, 1},      {"list", 0, MUSTER_ATTRIBUTE_LIST, 0},
        {"shape", 0, MUSTER_ATTRIBUTE_SIZES, 1},     {"text", 0, MUSTER_ATTRIBUTE_TEXT, 0},
        {"empty", 0, MUSTER_ATTRIBUTE_TEXT, 0},      {.name = NULL}};
    muster_runtime *runtime = *state;
    muster_operator_options options = options_with(one_operand, typed_rule, bodies);
    options.attributes = attributes;
    options.prepare = typed_prepare;
    options.gradient = typed_gradient;
    muster_operator *typed = operator_made(runtime, "typed", &options);
    muster_graph *graph = graph_named(runtime, "attributes");
    parts_seen = 0;
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER), *d;
    muster_expr *y = muster_expr_parse(graph, "typed(a, type=f64, list=[3, 1, 2], shape=(rows, 5), text=\"a, b\")");
    assert_ptr_equal(y, apply(graph, "typed", &a, 1,
                              ATTRIBUTES({.name = "type", .integer = MUSTER_F64}, {.name = "list", LIST(3, 1, 2)},
                                         {.name = "shape", LIST(MUSTER_ROWS, 5)}, {.name = "text", .text = "a, b"})));
    assert_string_equal(muster_expr_shape(y), "(rows, 5)");
    assert_ok(muster_gradient(APPLY(graph, "sum", y), &a, 1, &d));
    assert_ok(muster_graph_output(graph, "d", d, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE);
    float values[3] = {1, 2, 3}, dx[3], got[3][5];
    for (int64_t rows = 2; rows <= 3; rows++) {
        const muster_tensor in = muster_f32(values, rows), out[] = {muster_f32(dx, rows), muster_f32(got, rows, 5)};
        assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
        assert_true(got[0][0] == (float)rows && got[rows - 1][4] == (float)rows && dx[0] == 0 && dx[rows - 1] == 0);
    }
    assert_int_equal(parts_seen, 2 + 1 + 2 * 2); /* the rule, the gradient; prepare and body of two shapes */
    muster_expr *none;
    assert_ok(muster_graph_destroy(graph));
    graph = graph_named(runtime, "missing");
    a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    assert_refused(muster_expr_apply(graph, "typed", &a, 1, ATTRIBUTES({.name = "type", .integer = MUSTER_F64}), "user.c:9", &none),
                   MUSTER_INVALID_ARGUMENT, "user.c:9: muster_expr_typed: shape: expected a value, received none");
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_operator_destroy(typed));
}

/* ---- no operands, several results, many operands ---- */

static muster_status eye_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    muster_attribute shape;
    (void)operands;
    (void)user;
    assert_int_equal(count, 0);
    MUSTER_TRY(muster_operator_attribute_value(node, "shape", &shape));
    if (shape.count != 2) return muster_fail(MUSTER_SHAPE_MISMATCH, "shape: expected 2 sizes");
    return muster_operator_result(node, 0, MUSTER_F32, 2, shape.integers);
}

static muster_status eye_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    muster_attribute k;
    (void)in;
    (void)user;
    MUSTER_TRY(muster_operator_attribute_value(node, "k", &k));
    return muster_eye(worker, k.integer, out[0]);
}

static const muster_operator_backend eye_bodies[] = {{NULL, eye_body}};
static const muster_operator_attribute eye_attributes[] = {
    {"shape", 0, MUSTER_ATTRIBUTE_SIZES, 1}, {"k", 0, MUSTER_ATTRIBUTE_INTEGER, 0}, {.name = NULL}};

/* Sizes come from attributes: numbers, and a named size of an input. */
static void an_operator_needs_no_operands(void **state) {
    muster_runtime *runtime = *state;
    muster_operator_options options = options_with(no_operands, eye_rule, eye_bodies);
    options.attributes = eye_attributes;
    muster_operator *eye = operator_made(runtime, "unit", &options);
    muster_graph *graph = graph_named(runtime, "eyes");
    const int64_t n = muster_graph_size(graph, "n");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(n), MUSTER_BROADCAST);
    muster_expr *unit = apply(graph, "unit", NULL, 0, ATTRIBUTES({.name = "shape", LIST(n, 3)}, {.name = "k", .integer = 1}));
    assert_string_equal(muster_expr_shape(unit), "(n, 3)");
    assert_ok(muster_graph_output(graph, "y", APPLY(graph, "matmul", a, unit), MUSTER_AUTO));
    muster_function *function = compile(graph, MUSTER_ONE_DEVICE);
    for (int64_t size = 1; size <= 4; size++) {
        float values[4] = {1, 2, 3, 4}, got[3];
        const muster_tensor in = muster_f32(values, size), out = muster_f32(got, 3);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        for (int64_t k = 0; k < 3; k++) assert_true(got[k] == (float)(k == 0 || k > size ? 0 : k));
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_operator_destroy(eye));
}

/* Result 0: i32, the number of operands; results 1 and 2: x and 3 x, of the sum of the operands. */
static muster_status three_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    const int64_t shape[] = {muster_expr_size(operands[0], 0)};
    (void)user;
    assert_true(count >= 1);
    MUSTER_TRY(muster_operator_result(node, 0, MUSTER_I32, 0, NULL));
    MUSTER_TRY(muster_operator_result(node, 1, muster_expr_dtype(operands[0]), 1, shape));
    return muster_operator_result(node, 2, muster_expr_dtype(operands[0]), 1, shape);
}

static int32_t three_count;

static muster_status three_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)node;
    (void)user;
    if (out[0].dtype) MUSTER_TRY(muster_fill(worker, three_count, out[0]));
    for (int32_t r = 1; r < 3; r++) {
        if (!out[r].dtype) continue; /* nothing needs it */
        MUSTER_TRY(muster_fill(worker, 0, out[r]));
        for (int32_t i = 0; i < three_count; i++) MUSTER_TRY(muster_axpy(worker, r == 1 ? 1 : 3, in[i], out[r]));
    }
    return MUSTER_OK;
}

static muster_status three_gradient(const muster_operator_node *node, muster_expr *const *operands, muster_expr *const *y,
                                    muster_expr *const *dy, muster_expr **dx, void *user) {
    muster_graph *graph = muster_operator_graph(node);
    (void)user;
    assert_null(dy[0]); /* of integers */
    assert_true(muster_expr_dtype(y[0]) == MUSTER_I32 && muster_expr_graph(operands[0]) == graph);
    for (int32_t i = 0; i < three_count; i++) dx[i] = muster_expr_parse(graph, "d1 + 3 * d2", "d1", dy[1], "d2", dy[2]);
    return MUSTER_OK;
}

static void several_results_of_many_operands_have_gradients(void **state) {
    static const muster_operator_backend bodies[] = {{NULL, three_body}};
    static const char *const operands[] = {"x", "...", NULL};
    muster_runtime *runtime = *state;
    muster_operator_options options = options_with(operands, three_rule, bodies);
    options.results = 3;
    options.gradient = three_gradient;
    muster_operator *three = operator_made(runtime, "three", &options);
    int32_t compared = 0;
    for (int32_t uses = 1; uses <= 3; uses++) { /* the loss needs result 1, result 2, both */
        muster_graph *graph = graph_named(runtime, "three");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER), *d;
        three_count = 10;
        muster_expr *many[] = {a, a, a, a, a, a, a, a, a, a};
        muster_expr *y = apply(graph, "three", many, three_count, NULL), *first = muster_expr_result(y, 1),
                    *second = muster_expr_result(y, 2);
        muster_expr *loss = APPLY(graph, "sum", uses == 1 ? first : uses == 2 ? second : APPLY(graph, "add", first, second));
        assert_ok(muster_gradient(loss, &a, 1, &d));
        assert_ok(muster_graph_output(graph, "count", y, MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "d", d, MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_ONE_DEVICE);
        float values[2] = {0.5f, 2}, got, dx[2];
        int32_t count;
        const int32_t factor = uses == 1 ? 1 : uses == 2 ? 3 : 4;
        const muster_tensor in = muster_f32(values, 2), out[] = {muster_i32(&count), muster_f32(&got), muster_f32(dx, 2)};
        assert_ok(muster_function_call(function, &in, 1, out, 3, NULL));
        assert_true(count == 10 && got == (float)(25 * factor));
        for (int32_t i = 0; i < 2; i++, compared++) assert_true(dx[i] == (float)(10 * factor));
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(compared, 6);
    assert_ok(muster_operator_destroy(three));
}

/* ---- dtypes ---- */

static muster_status half_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    (void)operands;
    (void)count;
    (void)user;
    return muster_operator_result(node, 0, MUSTER_F16, 0, NULL);
}

/* Halves are taken and given only where the operator says so; each refusal has the line. */
static void halves_are_taken_where_the_operator_says_so(void **state) {
    static const muster_dtype halves[] = {MUSTER_F16, MUSTER_BF16};
    muster_runtime *runtime = *state;
    int32_t refused = 0, taken = 0;
    for (int32_t declared = 0; declared < 2; declared++) {
        muster_operator_options options = scale_options(), giving = options_with(one_operand, half_rule, scale_bodies);
        options.halves = giving.halves = declared;
        giving.attributes = scale_attributes;
        muster_operator *scale = operator_made(runtime, "scale", &options), *half = operator_made(runtime, "half", &giving);
        for (int32_t h = 0; h < 3; h++) {
            muster_graph *graph = graph_named(runtime, "halves");
            muster_expr *a = muster_graph_input(graph, "a", h < 2 ? halves[h] : MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST), *y;
            const muster_status status = muster_expr_apply(graph, h < 2 ? "scale" : "half", &a, 1, NULL, "user.c:7", &y);
            if (declared) {
                assert_ok(status);
                assert_true(muster_expr_dtype(y) == (h < 2 ? halves[h] : MUSTER_F16));
                taken++;
            } else {
                assert_refused(status, MUSTER_UNSUPPORTED,
                               h == 2 ? "user.c:7: muster_expr_half: rule: expected another dtype of result 0"
                                      : "user.c:7: muster_expr_scale: x \"a\": expected another dtype, since the operator does not say");
                refused++;
            }
            assert_ok(muster_graph_destroy(graph));
        }
        assert_ok(muster_operator_destroy(scale));
        assert_ok(muster_operator_destroy(half));
    }
    assert_true(refused == 3 && taken == 3);
}

/* Without a rule: those of the mask, or f32 and f64; so a body for f32 does not see integers. */
static void operators_without_a_rule_take_their_dtypes(void **state) {
    static const struct {
        uint32_t dtypes;
        int32_t halves;
        uint32_t taken;
        const char *expected;
    } rows[] = {{0, 0, MUSTER_DTYPE_BIT(MUSTER_F32) | MUSTER_DTYPE_BIT(MUSTER_F64), "x \"a\": expected f32 or f64, received"},
                {MUSTER_DTYPE_BIT(MUSTER_I32), 0, MUSTER_DTYPE_BIT(MUSTER_I32), "x \"a\": expected i32, received"},
                {MUSTER_DTYPE_BIT(MUSTER_BOOL) | MUSTER_DTYPE_BIT(MUSTER_BF16), 0,
                 MUSTER_DTYPE_BIT(MUSTER_BOOL) | MUSTER_DTYPE_BIT(MUSTER_BF16), "x \"a\": expected bf16 or bool, received"},
                {MUSTER_DTYPE_BIT(MUSTER_F64), 1,
                 MUSTER_DTYPE_BIT(MUSTER_F16) | MUSTER_DTYPE_BIT(MUSTER_BF16) | MUSTER_DTYPE_BIT(MUSTER_F64),
                 "x \"a\": expected f16, bf16 or f64, received"}};
    enum { ROWS_OF_DTYPES = sizeof rows / sizeof *rows };
    muster_runtime *runtime = *state;
    int32_t cases = 0;
    for (int32_t r = 0; r < ROWS_OF_DTYPES; r++) {
        muster_operator_options options = scale_options();
        options.dtypes = rows[r].dtypes;
        options.halves = rows[r].halves;
        muster_operator *scale = operator_made(runtime, "scale", &options);
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_BOOL; dtype++, cases++) {
            if (r == 0 && dtype <= MUSTER_BF16) continue; /* another message */
            muster_graph *graph = graph_named(runtime, "dtypes");
            muster_expr *a = muster_graph_input(graph, "a", dtype, MUSTER_SHAPE(2), MUSTER_BROADCAST), *y;
            const muster_status status = muster_expr_apply(graph, "scale", &a, 1, NULL, NULL, &y);
            if (rows[r].taken & MUSTER_DTYPE_BIT(dtype))
                assert_ok(status);
            else if (rows[r].taken & (MUSTER_DTYPE_BIT(MUSTER_F16) | MUSTER_DTYPE_BIT(MUSTER_BF16)) || dtype > MUSTER_BF16)
                assert_refused(status, MUSTER_UNSUPPORTED, rows[r].expected);
            else
                assert_int_equal(status, MUSTER_UNSUPPORTED);
            assert_ok(muster_graph_destroy(graph));
        }
        assert_ok(muster_operator_destroy(scale));
    }
    assert_int_equal(cases, ROWS_OF_DTYPES * 12);
    muster_operator_options options = scale_options();
    muster_operator *none;
    options.dtypes = 1;
    assert_refused(muster_operator_create(runtime, "none", &options, &none), MUSTER_INVALID_ARGUMENT, "dtypes: expected MUSTER_DTYPE_BIT");
    options.dtypes = MUSTER_DTYPE_BIT(MUSTER_I32);
    options.rule = half_rule;
    assert_refused(muster_operator_create(runtime, "none", &options, &none), MUSTER_INVALID_ARGUMENT, "dtypes: expected 0 beside a rule");
}

/* ---- errors ---- */

typedef enum fault {
    FAULT_NONE,
    FAULT_RULE,
    FAULT_RULE_SILENT,
    FAULT_RULE_NO_RESULT,
    FAULT_RULE_RESULT,
    FAULT_RULE_EXPRESSION,
    FAULT_BODY,
    FAULT_BODY_SILENT,
    FAULT_BODY_OPERATION,
    FAULT_PREPARE,
    FAULT_GRADIENT,
    FAULT_GRADIENT_SHAPE,
    FAULT_GRADIENT_EXPRESSION,
    FAULT_GRADIENT_ITSELF,
    FAULTS
} fault;
static fault fault_now;

static muster_status faulty_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    (void)count;
    (void)user;
    switch (fault_now) {
    case FAULT_RULE:
        return muster_fail(MUSTER_SHAPE_MISMATCH, "x: expected a square matrix");
    case FAULT_RULE_SILENT:
        return MUSTER_UNSUPPORTED;
    case FAULT_RULE_NO_RESULT:
        return MUSTER_OK;
    case FAULT_RULE_RESULT:
        return muster_operator_result(node, 1, MUSTER_F32, 0, NULL);
    case FAULT_RULE_EXPRESSION: /* which the rule does not look at */
        (void)muster_graph_size_sum(muster_operator_graph(node), MUSTER_ROWS, 1);
        break;
    default:
        break;
    }
    return muster_operator_result(node, 0, MUSTER_F32, 1, (const int64_t[]){muster_expr_size(operands[0], 0)});
}

static muster_status faulty_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                 void *user) {
    (void)node;
    (void)user;
    if (fault_now == FAULT_BODY) return muster_fail(MUSTER_USER, "the numbers are wrong");
    if (fault_now == FAULT_BODY_SILENT) return 77;
    if (fault_now == FAULT_BODY_OPERATION) return muster_gemv(worker, 1, in[0], in[0], 0, out[0]);
    return muster_copy(worker, in[0], out[0]);
}

static muster_status faulty_prepare(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in,
                                    const muster_tensor *out, void **made, void *user) {
    (void)worker;
    (void)node;
    (void)in;
    (void)out;
    (void)made;
    (void)user;
    return fault_now == FAULT_PREPARE ? muster_fail(MUSTER_UNAVAILABLE, "no licence") : MUSTER_OK;
}

static muster_status faulty_gradient(const muster_operator_node *node, muster_expr *const *operands, muster_expr *const *y,
                                     muster_expr *const *dy, muster_expr **dx, void *user) {
    muster_graph *graph = muster_operator_graph(node);
    muster_expr *both[] = {y[0], dy[0]}, *again;
    (void)user;
    switch (fault_now) {
    case FAULT_GRADIENT:
        return muster_fail(MUSTER_USER, "not today");
    case FAULT_GRADIENT_SHAPE:
        return muster_expr_apply(graph, "sum", dy, 1, NULL, "gradient.c:5", &dx[0]);
    case FAULT_GRADIENT_EXPRESSION: /* which the gradient does not look at */
        (void)muster_expr_apply(graph, "nothing", dy, 1, NULL, "gradient.c:6", &dx[0]);
        return MUSTER_OK;
    case FAULT_GRADIENT_ITSELF:
        MUSTER_TRY(muster_expr_apply(graph, "multiply", both, 2, NULL, "gradient.c:7", &again));
        MUSTER_TRY(muster_expr_apply(graph, "sum", &again, 1, NULL, "gradient.c:7", &again));
        return muster_gradient(again, operands, 1, dx);
    default:
        dx[0] = dy[0];
        return MUSTER_OK;
    }
}

/* Every part that fails says the operator, the part and the user's line. */
static void errors_name_the_operator_and_the_line(void **state) {
    static const struct {
        fault fault;
        muster_status code;
        const char *message, *also;
    } rows[] = {
        {FAULT_RULE, MUSTER_SHAPE_MISMATCH, "user.c:3: muster_expr_faulty: rule: x: expected a square matrix", ""},
        {FAULT_RULE_SILENT, MUSTER_UNSUPPORTED,
         "user.c:3: muster_expr_faulty: rule: the function failed with UNSUPPORTED, and gave no reason", ""},
        {FAULT_RULE_NO_RESULT, MUSTER_INVALID_ARGUMENT, "user.c:3: muster_expr_faulty: rule: expected the dtype and shape of result 0", ""},
        {FAULT_RULE_RESULT, MUSTER_OUT_OF_RANGE,
         "user.c:3: muster_expr_faulty: rule: muster_operator_result: index: expected 0 to 0, received 1", ""},
        {FAULT_RULE_EXPRESSION, MUSTER_SHAPE_MISMATCH, "user.c:3: muster_expr_faulty: rule: muster_graph_size_sum: a: expected", ""},
        {FAULT_BODY, MUSTER_USER, "operator \"faulty\": body: the numbers are wrong", "(in faulty, user.c:3)"},
        {FAULT_BODY_SILENT, MUSTER_USER, "operator \"faulty\": body: the function failed with USER, and gave no reason", "user.c:3"},
        {FAULT_BODY_OPERATION, MUSTER_SHAPE_MISMATCH, "operator \"faulty\": body: muster_gemv: ", "(in faulty, user.c:3)"},
        {FAULT_PREPARE, MUSTER_UNAVAILABLE, "operator \"faulty\": prepare: no licence", "(in faulty, user.c:3)"},
        {FAULT_GRADIENT, MUSTER_USER, "gradient of faulty (user.c:3): muster_expr_faulty: gradient: not today", ""},
        {FAULT_GRADIENT_SHAPE, MUSTER_SHAPE_MISMATCH,
         "muster_expr_faulty: gradient: dx[0]: expected the dtype and shape of x[0] \"a\" (rows,) f32, received () f32", "user.c:3"},
        {FAULT_GRADIENT_EXPRESSION, MUSTER_INVALID_ARGUMENT, "muster_expr_faulty: gradient: gradient.c:6: muster_expr_apply: operation",
         "user.c:3"},
        {FAULT_GRADIENT_ITSELF, MUSTER_UNSUPPORTED, "its gradient asks for the gradient of the operator itself", "user.c:3"},
    };
    static const muster_operator_backend bodies[] = {{NULL, faulty_body}};
    enum { CASES = sizeof rows / sizeof *rows };
    muster_runtime *runtime = *state;
    muster_operator_options options = options_with(one_operand, faulty_rule, bodies);
    options.prepare = faulty_prepare;
    options.gradient = faulty_gradient;
    muster_operator *faulty = operator_made(runtime, "faulty", &options);
    int32_t seen = 0;
    for (; seen < CASES; seen++) {
        muster_graph *graph = graph_named(runtime, "faults");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER), *y, *d;
        muster_function *function = NULL;
        fault_now = rows[seen].fault;
        (void)muster_expr_apply(graph, "faulty", &a, 1, NULL, "user.c:3", &y);
        (void)muster_gradient(muster_expr_parse(graph, "sum(y * y)", "y", y), &a, 1, &d);
        (void)muster_graph_output(graph, "d", d, MUSTER_AUTO);
        muster_status status = muster_graph_compile(graph, NULL, &function);
        float values[2] = {1, 2}, dx[2];
        const muster_tensor in = muster_f32(values, 2), out = muster_f32(dx, 2);
        if (status == MUSTER_OK) status = muster_function_call(function, &in, 1, &out, 1, NULL);
        assert_refused(status, rows[seen].code, rows[seen].message);
        assert_non_null(strstr(muster_last_error(), rows[seen].also));
        fault_now = FAULT_NONE;
        if (function) { /* a failure at run time leaves a function that works */
            assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            assert_true(dx[0] == 2 && dx[1] == 4);
        }
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(seen, FAULTS - 1);
    assert_ok(muster_operator_destroy(faulty));
}

/* ---- names and ownership ---- */

static void names_are_found_in_their_runtime(void **state) {
    static const char *const taken[] = {"sum", "input", "result", "scale", "rows", "True", "f32", "", "two words", "1st", "größe", NULL};
    muster_runtime *runtime = *state, *other = graph_runtime("host:1");
    const muster_operator_options options = scale_options();
    muster_operator *scale = operator_made(runtime, "scale", &options), *none;
    int32_t refused = 0;
    for (; taken[refused]; refused++) {
        assert_refused(muster_operator_create(runtime, taken[refused], &options, &none), MUSTER_INVALID_ARGUMENT, "name: expected");
        assert_null(none);
    }
    assert_int_equal(refused, 11);
    for (int32_t destroyed = 0; destroyed < 2; destroyed++) { /* of another runtime, then of none */
        muster_graph *graph = graph_named(destroyed ? runtime : other, "elsewhere");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST), *y;
        assert_refused(muster_expr_apply(graph, "scale", &a, 1, NULL, "user.c:1", &y), MUSTER_INVALID_ARGUMENT,
                       "operation: expected one of docs/expressions.md or an operator of the runtime, received \"scale\"");
        assert_refused((muster_expr_parse(graph, "scale(a)"), muster_graph_status(graph)), MUSTER_INVALID_ARGUMENT, "scale");
        assert_ok(muster_graph_destroy(graph));
        if (!destroyed) assert_ok(muster_operator_destroy(scale));
    }
    scale = operator_made(runtime, "scale", &options);
    assert_ok(muster_operator_destroy(scale));
    assert_refused(muster_operator_destroy(scale), MUSTER_BAD_STATE, "has been destroyed");
    assert_ok(muster_operator_destroy(NULL));
    assert_ok(muster_runtime_close(other));
}

static int32_t ended;
static void count_end(void *user) { ended += *(int32_t *)user; }

/* The last of the operator, its graph and its function ends `user`, in whatever order they go; a
 * runtime that closes ends what is left. */
static void the_last_holder_ends_the_operator(void **state) {
    (void)state;
    int32_t orders = 0;
    for (int32_t order = 0; order < 8; order++, orders++) {
        muster_runtime *runtime = graph_runtime("host:1");
        int32_t one = 1;
        muster_operator_options options = scale_options();
        options.user = &one;
        options.destroy = count_end;
        ended = 0;
        muster_operator *scale = operator_made(runtime, "scale", &options);
        muster_graph *graph = graph_named(runtime, "holds");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST);
        assert_ok(muster_graph_output(graph, "y", APPLY(graph, "scale", a), MUSTER_AUTO));
        muster_function *function = compile(graph, MUSTER_ONE_DEVICE);
        if (order & 1) assert_ok(muster_operator_destroy(scale));
        if (order & 2) assert_ok(muster_graph_destroy(graph));
        float values[2] = {1, 2}, got[2];
        const muster_tensor in = muster_f32(values, 2), out = muster_f32(got, 2);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_true(got[0] == 2 && got[1] == 4);
        assert_int_equal(ended, 0);
        if (order & 4) assert_ok(muster_function_destroy(function));
        assert_int_equal(ended, order == 7);
        assert_ok(muster_runtime_close(runtime));
        assert_int_equal(ended, (order & 2) != 0);
        if (!(order & 1)) assert_refused(muster_operator_destroy(scale), MUSTER_BAD_STATE, "has been destroyed");
        if (!(order & 2)) assert_ok(muster_graph_destroy(graph));
        assert_int_equal(ended, 1);
    }
    assert_int_equal(orders, 8);
}

/* ---- descriptions ---- */

static void release_nothing(void *made, void *user) {
    (void)made;
    (void)user;
}

static void wrong_descriptions_are_refused(void **state) {
    static const char *const nine[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", NULL}, *const twice[] = {"a", "a", NULL},
                             *const first[] = {"...", NULL}, *const middle[] = {"a", "...", "b", NULL}, *const word[] = {"f32", NULL};
    static const muster_operator_attribute same[] = {{"x", 0, MUSTER_ATTRIBUTE_NUMBER, 0}, {.name = NULL}},
                                           kind[] = {{"k", 0, 7, 0}, {.name = NULL}}, none[] = {{"k", 0, 0, 0}, {.name = NULL}},
                                           doubled[] = {{"k", 0, 1, 0}, {"k", 0, 1, 0}, {.name = NULL}};
    static const muster_operator_backend empty[] = {{NULL, NULL}};
    muster_runtime *runtime = *state;
    const muster_operator_options good = scale_options();
    muster_operator_options o;
    muster_operator *made;
    int32_t refused = 0;
#define REFUSED(change, code, message)                                                      \
    do {                                                                                    \
        o = good;                                                                           \
        change;                                                                             \
        assert_refused(muster_operator_create(runtime, "wrong", &o, &made), code, message); \
        assert_null(made);                                                                  \
        refused++;                                                                          \
    } while (0)
    REFUSED(o.operands = nine, MUSTER_OUT_OF_RANGE, "operands: expected at most 8");
    REFUSED(o.operands = twice, MUSTER_INVALID_ARGUMENT, "operands: expected each name once, received \"a\" twice");
    REFUSED(o.operands = first, MUSTER_INVALID_ARGUMENT, "operands: expected \"...\" behind the last name");
    REFUSED(o.operands = middle, MUSTER_INVALID_ARGUMENT, "operands: expected \"...\" behind the last name");
    REFUSED(o.operands = word, MUSTER_INVALID_ARGUMENT, "operands: expected a name");
    REFUSED(o.operands = NULL, MUSTER_INVALID_ARGUMENT, "rule: expected a function");
    REFUSED(o.attributes = same, MUSTER_INVALID_ARGUMENT, "attributes: expected names that no operand has, received \"x\"");
    REFUSED(o.attributes = kind, MUSTER_INVALID_ARGUMENT, "\"k\": kind: expected a kind of attribute, received 7");
    REFUSED(o.attributes = none, MUSTER_INVALID_ARGUMENT, "\"k\": kind: expected a kind of attribute, received 0");
    REFUSED(o.attributes = doubled, MUSTER_INVALID_ARGUMENT, "attributes: expected each name once, received \"k\" twice");
    REFUSED(o.body_count = 0, MUSTER_INVALID_ARGUMENT, "bodies: expected a text, a body or a launch");
    REFUSED(o.body_count = -1, MUSTER_INVALID_ARGUMENT, "bodies: expected -1 bodies");
    REFUSED(o.bodies = NULL, MUSTER_INVALID_ARGUMENT, "bodies: expected 1 bodies, received NULL");
    REFUSED(o.bodies = empty, MUSTER_INVALID_ARGUMENT, "bodies[0]: expected a function, received NULL");
    REFUSED(o.results = 4, MUSTER_OUT_OF_RANGE, "results: expected 0 to 3, received 4");
    REFUSED(o.results = -1, MUSTER_OUT_OF_RANGE, "results: expected 0 to 3, received -1");
    REFUSED(o.results = 2, MUSTER_INVALID_ARGUMENT, "rule: expected a function");
    REFUSED(o.distribution = 2, MUSTER_INVALID_ARGUMENT, "distribution: expected a muster_operator_distribution, received 2");
    REFUSED(o.distribution = -1, MUSTER_INVALID_ARGUMENT, "distribution: expected a muster_operator_distribution, received -1");
    REFUSED(o.host_operands = 2, MUSTER_INVALID_ARGUMENT, "host_operands: expected a mask of 1 operands, received 0x2");
    REFUSED(o.in_place = 2, MUSTER_INVALID_ARGUMENT, "in_place: expected a mask of operands on the device, received 0x2");
    REFUSED((o.in_place = 1, o.host_operands = 1), MUSTER_INVALID_ARGUMENT, "in_place: expected");
    REFUSED(o.release = release_nothing, MUSTER_INVALID_ARGUMENT, "prepare: expected a function");
    REFUSED(o.no_gradient = "it is new", MUSTER_INVALID_ARGUMENT, "no_gradient: expected NULL beside a gradient");
    REFUSED(o.launch = "x", MUSTER_INVALID_ARGUMENT, "launch: expected kernels beside it");
    REFUSED(o.text = "x", MUSTER_INVALID_ARGUMENT, "text: expected no other parts");
    REFUSED(o.struct_size = 3, MUSTER_INVALID_ARGUMENT, "struct_size");
    assert_int_equal(refused, 27);
}

/* An operator without a gradient says why. */
static void a_missing_gradient_is_explained(void **state) {
    for (int32_t explained = 0; explained < 2; explained++) {
        muster_operator_options options = scale_options();
        options.gradient = NULL;
        options.no_gradient = explained ? "it throws dice" : NULL;
        muster_operator *scale = operator_made(*state, "scale", &options);
        muster_graph *graph = graph_named(*state, "none");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST), *d;
        muster_expr *loss = APPLY(graph, "sum", APPLY(graph, "scale", a));
        assert_refused(muster_gradient(loss, &a, 1, &d), MUSTER_UNSUPPORTED,
                       explained ? "received muster_expr_scale: it throws dice" : "received muster_expr_scale: the operator has none");
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(scale));
    }
}

/* ---- memory that runs out ---- */

static void every_failed_allocation_is_said(void **state) {
    muster_runtime *runtime = *state;
    const int64_t live = mst_memory_live();
    int32_t failed = 0, done = 0, one = 1, tries = 0;
    ended = 0;
    for (int64_t k = 1; !done; k++) {
        muster_operator *made = NULL;
        muster_graph *graph = NULL;
        muster_function *function = NULL;
        muster_operator_options options = options_with(one_operand, flat_rule, flat_bodies);
        options.user = &one;
        options.destroy = count_end;
        mst_memory_fail_at(k);
        tries++;
        muster_status status = muster_operator_create(runtime, "flat", &options, &made);
        if (status == MUSTER_OK) status = muster_graph_create(runtime, "tight", &graph);
        if (status == MUSTER_OK) {
            muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 2, 2), MUSTER_SCATTER), *y = NULL;
            (void)muster_expr_apply(graph, "flat", &a, 1, NULL, "tight.c:1", &y);
            (void)muster_graph_output(graph, "r", y, MUSTER_AUTO);
            status = muster_graph_compile(graph, NULL, &function);
        }
        if (status == MUSTER_OK) {
            float in[4] = {1, 2, 3, 4}, out[8];
            const muster_tensor given = muster_f32(in, 1, 2, 2), result = muster_f32(out, 2, 4);
            status = muster_function_call(function, &given, 1, &result, 1, NULL);
        }
        mst_memory_fail_at(0);
        if (status == MUSTER_OK)
            done = 1;
        else {
            if (status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
            failed++;
        }
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(made));
        assert_int_equal(ended, tries);
    }
    assert_true(failed > 15);
    assert_true(mst_memory_live() - live <= 8); /* what the runtime keeps for later calls */
}

static int open_runtime(void **state) {
    fill_numbers();
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_runtime, graph_close)
    const struct CMUnitTest tests[] = {
        TEST(an_operator_is_applied_like_others),
        TEST(sizes_of_a_call_pass_through_the_rule),
        TEST(sizes_that_cannot_be_computed_are_refused),
        TEST(attributes_reach_every_part),
        TEST(an_operator_needs_no_operands),
        TEST(several_results_of_many_operands_have_gradients),
        TEST(halves_are_taken_where_the_operator_says_so),
        TEST(operators_without_a_rule_take_their_dtypes),
        TEST(errors_name_the_operator_and_the_line),
        TEST(names_are_found_in_their_runtime),
        TEST(the_last_holder_ends_the_operator),
        TEST(wrong_descriptions_are_refused),
        TEST(a_missing_gradient_is_explained),
        TEST(every_failed_allocation_is_said),
    };
    if (mst_discrete_register() != MUSTER_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
