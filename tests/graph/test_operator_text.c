/* Operators that are a text: shape, dtype, gradient and fusion follow from it. The oracle is the
 * same expression, written by calls. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/operator.h"

#include <math.h>

enum { ROWS = 5, K = 3 };
static float x[ROWS][K];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((5 * i + 3 * k) % 7 - 3) / 2;
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static const char *const one_operand[] = {"x", NULL}, *const two_operands[] = {"x", "y", NULL};
static const muster_operator_attribute slope[] = {{"b", 1, MUSTER_ATTRIBUTE_NUMBER, 0}, {.name = NULL}};

static muster_operator_options options_of(const char *const *operands, const muster_operator_attribute *attributes, const char *text) {
    muster_operator_options options;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.attributes = attributes;
    options.text = text;
    return options;
}

static muster_operator *text_operator(muster_runtime *runtime, const char *name, const char *const *operands,
                                      const muster_operator_attribute *attributes, const char *text) {
    const muster_operator_options options = options_of(operands, attributes, text);
    muster_operator *made;
    assert_ok(muster_operator_create(runtime, name, &options, &made));
    return made;
}

/* x / (1 + exp(-b x)) and its gradient, against both in double, on one and on several devices. */
static void a_text_is_an_operator_with_a_gradient(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "discrete:1"};
    int32_t compared = 0;
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        muster_operator *swish = text_operator(runtime, "swish", one_operand, slope, "x / (1 + exp(-b * x))");
        muster_graph *graph = graph_named(runtime, "swish");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER), *d;
        muster_expr *y = apply(graph, "swish", &a, 1, ATTRIBUTES({.name = "b", .number = 2}));
        assert_ptr_equal(muster_expr_parse(graph, "swish(a, 2)"), y);
        assert_ptr_not_equal(APPLY(graph, "swish", a), y);
        assert_string_equal(muster_expr_shape(y), "(rows, 3)");
        assert_ok(muster_gradient(APPLY(graph, "sum", y), &a, 1, &d));
        assert_ok(muster_graph_output(graph, "y", y, MUSTER_GATHER));
        assert_ok(muster_graph_output(graph, "d", d, MUSTER_GATHER));
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.meaning = MUSTER_PER_WORKER;
        muster_function *function;
        assert_ok(muster_graph_compile(graph, &options, &function));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(swish)); /* its nodes are those of the library */
        float got[ROWS][K], dx[ROWS][K];
        const muster_tensor in = muster_f32(x, ROWS, K), out[] = {muster_f32(got, ROWS, K), muster_f32(dx, ROWS, K)};
        assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
        for (int32_t i = 0; i < ROWS; i++)
            for (int32_t k = 0; k < K; k++, compared++) {
                const double value = x[i][k], s = 1 / (1 + exp(-2 * value)), slope_here = s + 2 * value * s * (1 - s);
                assert_true(fabs(got[i][k] - value * s) <= 2e-6 && fabs(dx[i][k] - slope_here) <= 2e-6);
            }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(compared, 3 * ROWS * K);
}

/* The nodes are those that the same text makes where it stands: shapes broadcast, dtypes follow,
 * and what the text names are its operands, whatever names the graph has. */
static void a_text_makes_the_nodes_of_its_expression(void **state) {
    static const struct {
        const char *text, *same;
        muster_dtype dtype;
    } rows[] = {
        {"x * y + 1", "a * b + 1", MUSTER_F32},
        {"where(x > y, x, y)", "where(a > b, a, b)", MUSTER_F64},
        {"d = x - y; d * d", "(a - b) * (a - b)", MUSTER_I32},
        {"logical_and(x, y)", "logical_and(a, b)", MUSTER_BOOL},
        {"bitwise_or(x, y)", "bitwise_or(a, b)", MUSTER_U8},
        {"x - mean(x)", "a - mean(a)", MUSTER_F32},
    };
    enum { CASES = sizeof rows / sizeof *rows };
    int32_t same = 0;
    for (; same < CASES; same++) {
        muster_operator *made = text_operator(*state, "pair", two_operands, NULL, rows[same].text);
        muster_graph *graph = graph_named(*state, "same");
        (void)muster_graph_input(graph, "x", MUSTER_F16, MUSTER_SHAPE(1), MUSTER_BROADCAST); /* other names than the text's */
        (void)muster_graph_input(graph, "d", MUSTER_F16, MUSTER_SHAPE(1), MUSTER_BROADCAST);
        muster_expr *a = muster_graph_input(graph, "a", rows[same].dtype, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *b = muster_graph_input(graph, "b", rows[same].dtype, MUSTER_SHAPE(K), MUSTER_BROADCAST);
        assert_ptr_equal(APPLY(graph, "pair", a, b), muster_expr_parse(graph, rows[same].same));
        assert_ok(muster_graph_status(graph));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(made));
    }
    assert_int_equal(same, 6);
}

/* An operator may use others, which end before it; one that needs itself is refused. */
static void operators_use_each_other_but_not_themselves(void **state) {
    muster_runtime *runtime = *state;
    muster_operator *inner = text_operator(runtime, "inner_part", one_operand, NULL, "x + 1");
    muster_operator *outer = text_operator(runtime, "outer_part", one_operand, NULL, "2 * inner_part(x)");
    muster_graph *graph = graph_named(runtime, "nested");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST), *y;
    assert_ptr_equal(APPLY(graph, "outer_part", a), muster_expr_parse(graph, "2 * (a + 1)"));
    assert_ok(muster_operator_destroy(inner));
    assert_refused(muster_expr_apply(graph, "outer_part", &a, 1, NULL, "user.c:2", &y), MUSTER_INVALID_ARGUMENT,
                   "unknown operation \"inner_part\"");
    assert_non_null(strstr(muster_last_error(), "user.c:2: muster_expr_outer_part: \"2 * inner_part(x)\", column 5"));
    assert_ok(muster_graph_destroy(graph));
    const muster_operator_options circle = options_of(one_operand, NULL, "outer_part(x) + 1");
    assert_refused(muster_operator_create(runtime, "inner_part", &circle, &inner), MUSTER_INVALID_ARGUMENT,
                   "unknown operation \"inner_part\"");
    const muster_operator_options self = options_of(one_operand, NULL, "selfish(x)");
    assert_refused(muster_operator_create(runtime, "selfish", &self, &inner), MUSTER_INVALID_ARGUMENT, "unknown operation \"selfish\"");
    assert_ok(muster_operator_destroy(outer));
}

/* Errors name the operator, the user's line, and the column of the operator's text. */
static void errors_name_operator_line_and_column(void **state) {
    muster_runtime *runtime = *state;
    muster_operator *swish = text_operator(runtime, "swish", one_operand, slope, "x / (1 + exp(-b * x))");
    static const struct {
        muster_dtype dtype;
        muster_status code;
        const char *message;
    } rows[] = {
        {MUSTER_I32, MUSTER_UNSUPPORTED,
         "user.c:4: muster_expr_swish, \"x / (1 + exp(-b * x))\", column 10: muster_expr_exp: x: expected f16"},
        {MUSTER_F16, MUSTER_UNSUPPORTED, "user.c:4: muster_expr_swish: x \"a\": expected another dtype, since the operator does not say"},
    };
    int32_t refused = 0;
    for (; refused < 2; refused++) {
        muster_graph *graph = graph_named(runtime, "wrong");
        muster_expr *a = muster_graph_input(graph, "a", rows[refused].dtype, MUSTER_SHAPE(2), MUSTER_BROADCAST), *y;
        assert_refused(muster_expr_apply(graph, "swish", &a, 1, ATTRIBUTES({.name = "b", .number = 2}), "user.c:4", &y), rows[refused].code,
                       rows[refused].message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 2);
    assert_ok(muster_operator_destroy(swish));
}

static void wrong_texts_are_refused(void **state) {
    static const muster_operator_attribute list[] = {{"b", 1, MUSTER_ATTRIBUTE_LIST, 0}, {.name = NULL}};
    static const char *const many[] = {"x", "...", NULL}, *const none[] = {NULL};
    static const struct {
        const char *const *operands;
        const muster_operator_attribute *attributes;
        const char *text, *message;
    } rows[] = {
        {one_operand, NULL, "x +", "muster_operator_create: text: muster_expr_wrong: \"x +\", column 4"},
        {one_operand, NULL, "", "text: muster_expr_wrong: \"\", column 1"},
        {one_operand, NULL, "x + z", "column 5: expected an operand or an attribute of the operator, received \"z\""},
        {one_operand, NULL, "nothing(x)", "unknown operation \"nothing\""},
        {one_operand, NULL, "1 + 2", "expected an expression of the operands, received a number"},
        {one_operand, list, "x * b", "attributes: expected numbers and integers beside a text"},
        {many, NULL, "x", "operands: expected 1 or more names without \"...\""},
        {none, NULL, "1", "operands: expected 1 or more names without \"...\""},
    };
    enum { CASES = sizeof rows / sizeof *rows };
    int32_t refused = 0;
    for (; refused < CASES; refused++) {
        const muster_operator_options options = options_of(rows[refused].operands, rows[refused].attributes, rows[refused].text);
        muster_operator *made;
        assert_refused(muster_operator_create(*state, "wrong", &options, &made), MUSTER_INVALID_ARGUMENT, rows[refused].message);
        assert_null(made);
    }
    assert_int_equal(refused, 8);
}

/* A chain of operators that are texts runs as one step, as the same chain written by calls does. */
static void texts_are_fused(void **state) {
    muster_runtime *runtime = *state;
    muster_operator *swish = text_operator(runtime, "swish", one_operand, slope, "x / (1 + exp(-b * x))");
    float got[2][ROWS][K];
    for (int32_t by_text = 0; by_text < 2; by_text++) {
        muster_graph *graph = graph_named(runtime, "chain");
        muster_expr *y = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        for (int32_t i = 0; i < 4; i++) y = by_text ? APPLY(graph, "swish", y) : muster_expr_parse(graph, "y / (1 + exp(-1 * y))", "y", y);
        assert_ok(muster_graph_output(graph, "y", y, MUSTER_AUTO));
        muster_function *function;
        assert_ok(muster_graph_compile(graph, NULL, &function));
        const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(got[by_text], ROWS, K);
        assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_true(got[0][0][0] != 0);
    for (int32_t i = 0; i < ROWS * K; i++) assert_true(fabs(got[0][i / K][i % K] - got[1][i / K][i % K]) <= 1e-6);
    assert_ok(muster_operator_destroy(swish));
}

static int open_runtime(void **state) {
    fill_numbers();
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_runtime, graph_close)
    const struct CMUnitTest tests[] = {
        TEST(a_text_is_an_operator_with_a_gradient),
        TEST(a_text_makes_the_nodes_of_its_expression),
        TEST(operators_use_each_other_but_not_themselves),
        TEST(errors_name_operator_line_and_column),
        TEST(wrong_texts_are_refused),
        TEST(texts_are_fused),
    };
    if (mst_discrete_register() != MUSTER_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
