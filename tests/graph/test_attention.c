/* Attention in expressions: the same as its formula in other operations, with gradients; queries
 * that see no key; wrong programs; memory. tests/nn/test_attention.c has the computation itself;
 * attention on several devices is in the tables of test_distribution and test_devices_operators. */
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>
#include <string.h>

enum { ROWS = 3, HEADS = 2, QUERIES = 5, KEYS = 7, WIDTH = 3, VALUES = 4, MESSAGE = 512 };
enum { OF_Q = ROWS * HEADS * QUERIES * WIDTH, OF_K = ROWS * HEADS * KEYS * WIDTH, OF_V = ROWS * HEADS * KEYS * VALUES };
enum { OF_Y = ROWS * HEADS * QUERIES * VALUES, OF_LSE = ROWS * HEADS * QUERIES, MOST = OF_V };

static muster_expr *parse(muster_graph *graph, const char *text) {
    muster_expr *made = muster_expr_parse(graph, text);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    return made;
}

/* q, k and v with rows; masks m (5, 7), n (2, 1, 7), and c (5, 7), which is what causal hides. */
static muster_graph *open_graph(muster_runtime *runtime, muster_dtype dtype, muster_expr *operands[3]) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "attention", &graph));
    operands[0] = muster_graph_input(graph, "q", dtype, MUSTER_SHAPE(MUSTER_ROWS, HEADS, QUERIES, WIDTH), MUSTER_SCATTER);
    operands[1] = muster_graph_input(graph, "k", dtype, MUSTER_SHAPE(MUSTER_ROWS, HEADS, KEYS, WIDTH), MUSTER_SCATTER);
    operands[2] = muster_graph_input(graph, "v", dtype, MUSTER_SHAPE(MUSTER_ROWS, HEADS, KEYS, VALUES), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "m", dtype, MUSTER_SHAPE(QUERIES, KEYS), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "n", dtype, MUSTER_SHAPE(HEADS, 1, KEYS), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "c", dtype, MUSTER_SHAPE(QUERIES, KEYS), MUSTER_BROADCAST);
    return graph;
}

enum { INPUTS = 6, RESULTS = 5 };
typedef struct values {
    double in[INPUTS][MOST], out[2 * RESULTS][MOST];
    muster_tensor inputs[INPUTS], outputs[2 * RESULTS];
} values;

static void fill(values *v) {
    const int64_t shapes[INPUTS][4] = {{ROWS, HEADS, QUERIES, WIDTH},
                                       {ROWS, HEADS, KEYS, WIDTH},
                                       {ROWS, HEADS, KEYS, VALUES},
                                       {QUERIES, KEYS},
                                       {HEADS, 1, KEYS},
                                       {QUERIES, KEYS}};
    const int32_t ndim[INPUTS] = {4, 4, 4, 2, 3, 2};
    for (int32_t i = 0; i < INPUTS; i++) {
        v->inputs[i] = muster_tensor_make(MUSTER_F64, v->in[i], ndim[i], shapes[i]);
        graph_fill(MUSTER_F64, v->in[i], MOST, 100 * i);
        for (int32_t e = 0; e < MOST; e++) v->in[i][e] *= 4;
    }
    for (int32_t e = 0; e < QUERIES * KEYS; e++) {
        if (e % KEYS > e / KEYS)
            v->in[5][e] = -INFINITY;
        else
            v->in[5][e] = 0;
        if (e % 4 == 1) v->in[3][e] = -INFINITY;
    }
}

/* ---- the same as other operations ---- */

/* Outputs: y, lse, and the gradients of a loss that uses y. */
static void add_outputs(muster_graph *graph, muster_expr *y, muster_expr *lse, muster_expr *const operands[3], int32_t which) {
    static const char *const names[2][RESULTS] = {{"y", "lse", "dq", "dk", "dv"}, {"y'", "lse'", "dq'", "dk'", "dv'"}};
    muster_expr *d[3];
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(sin(y))", "y", y), operands, 3, d));
    muster_expr *all[RESULTS] = {y, lse, d[0], d[1], d[2]};
    for (int32_t i = 0; i < RESULTS; i++) assert_ok(muster_graph_output(graph, names[which][i], all[i], MUSTER_AUTO));
}

static void values_and_gradients_are_those_of_the_formula(void **state) {
    static const struct {
        const char *attention, *scores;
    } cases[] = {
        {"attention(q, k, v)", "q @ swapaxes(k, -1, -2) * 0.5773502691896258"},
        {"attention(q, k, v, scale=0.75)", "q @ swapaxes(k, -1, -2) * 0.75"},
        {"attention(q, k, v, scale=-2, causal=1)", "q @ swapaxes(k, -1, -2) * -2 + c"},
        {"attention(q, k, v, m, scale=1)", "q @ swapaxes(k, -1, -2) + m"},
        {"attention(q, k, v, log(cast(greater(n, 0), f64)))",
         "where(greater(n, 0), q @ swapaxes(k, -1, -2) * 0.5773502691896258, log(n * 0))"},
        {"attention(q, k, v, n, causal=1)", "q @ swapaxes(k, -1, -2) * 0.5773502691896258 + n + c"},
        {"attention(q, k, v, n - 1e30)", "q @ swapaxes(k, -1, -2) * 0.5773502691896258 + (n - 1e30)"}, /* all keys count the same */
    };
    static const int64_t counts[RESULTS] = {OF_Y, OF_LSE, OF_Q, OF_K, OF_V};
    static const int64_t shapes[RESULTS][4] = {{ROWS, HEADS, QUERIES, VALUES},
                                               {ROWS, HEADS, QUERIES},
                                               {ROWS, HEADS, QUERIES, WIDTH},
                                               {ROWS, HEADS, KEYS, WIDTH},
                                               {ROWS, HEADS, KEYS, VALUES}};
    static values v;
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_expr *operands[3];
        muster_function *function;
        muster_graph *graph = open_graph(*state, MUSTER_F64, operands);
        muster_expr *y = parse(graph, cases[i].attention), *scores = parse(graph, cases[i].scores);
        add_outputs(graph, y, muster_expr_result(y, 1), operands, 0);
        add_outputs(graph, muster_expr_parse(graph, "softmax(s, -1) @ v", "s", scores),
                    muster_expr_parse(graph, "logsumexp(s, -1)", "s", scores), operands, 1);
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        fill(&v);
        for (int32_t r = 0; r < 2 * RESULTS; r++)
            v.outputs[r] = muster_tensor_make(MUSTER_F64, v.out[r], r % RESULTS == 1 ? 3 : 4, shapes[r % RESULTS]);
        assert_ok(muster_function_call(function, v.inputs, INPUTS, v.outputs, 2 * RESULTS, NULL));
        for (int32_t r = 0; r < RESULTS; r++)
            for (int64_t e = 0; e < counts[r]; e++, compared++)
                if (!(fabs(v.out[r][e] - v.out[RESULTS + r][e]) <= 1e-13 * (1 + fabs(v.out[RESULTS + r][e]))))
                    fail_msg("%s, result %d, element %d: expected %.17g, received %.17g", cases[i].attention, (int)r, (int)e,
                             v.out[RESULTS + r][e], v.out[r][e]);
        assert_ok(muster_function_destroy(function));
    }
    assert_int_equal(compared, 7 * (OF_Y + OF_LSE + OF_Q + OF_K + OF_V));
}

/* ---- queries that see no key ---- */

static void a_query_that_sees_nothing_gives_zeros(void **state) {
    enum { HIDDEN = 2, LEAST = HIDDEN * WIDTH };
    static values v;
    muster_expr *operands[3], *d[3];
    muster_function *function;
    muster_graph *graph = open_graph(*state, MUSTER_F64, operands);
    muster_expr *y = parse(graph, "attention(q, k, v, m)");
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(y * y + y)", "y", y), operands, 3, d));
    muster_expr *outputs[] = {y, d[0], d[1], d[2], muster_expr_result(y, 1)};
    static const char *const names[] = {"y", "dq", "dk", "dv", "lse"};
    for (int32_t i = 0; i < 5; i++) assert_ok(muster_graph_output(graph, names[i], outputs[i], MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    fill(&v);
    for (int32_t j = 0; j < KEYS; j++) v.in[3][HIDDEN * KEYS + j] = -INFINITY;
    muster_tensor out[5];
    out[0] = muster_tensor_make(MUSTER_F64, v.out[0], 4, (const int64_t[]){ROWS, HEADS, QUERIES, VALUES});
    out[1] = muster_tensor_make(MUSTER_F64, v.out[1], 4, v.inputs[0].shape);
    out[2] = muster_tensor_make(MUSTER_F64, v.out[2], 4, v.inputs[1].shape);
    out[3] = muster_tensor_make(MUSTER_F64, v.out[3], 4, v.inputs[2].shape);
    out[4] = muster_tensor_make(MUSTER_F64, v.out[4], 3, v.inputs[0].shape);
    assert_ok(muster_function_call(function, v.inputs, INPUTS, out, 5, NULL));
    int32_t zeros = 0;
    for (int32_t row = 0; row < ROWS * HEADS; row++) {
        for (int32_t c = 0; c < VALUES; c++) zeros += v.out[0][(row * QUERIES + HIDDEN) * VALUES + c] == 0;
        for (int32_t c = 0; c < WIDTH; c++) zeros += v.out[1][(row * QUERIES + HIDDEN) * WIDTH + c] == 0;
        assert_true(isinf(v.out[4][row * QUERIES + HIDDEN]) && isfinite(v.out[4][row * QUERIES]));
    }
    assert_int_equal(zeros, ROWS * HEADS * (VALUES + WIDTH));
    for (int32_t e = 0; e < OF_K; e++) assert_true(isfinite(v.out[2][e]));
    for (int32_t e = 0; e < OF_V; e++) assert_true(isfinite(v.out[3][e]));
    assert_ok(muster_function_destroy(function));
}

static void a_causal_query_does_not_read_the_keys_behind_it(void **state) {
    const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64};
    for (int32_t i = 0; i < 2; i++) {
        muster_graph *graph;
        muster_function *function;
        muster_expr *operands[3], *d[3];
        assert_ok(muster_graph_create(*state, "causal", &graph));
        for (int32_t k = 0; k < 3; k++)
            operands[k] =
                muster_graph_input(graph, (const char *const[]){"q", "k", "v"}[k], dtypes[i], MUSTER_SHAPE(2, 1), MUSTER_BROADCAST);
        muster_expr *y = parse(graph, "attention(q, k, v, causal=1)");
        assert_ok(muster_gradient(parse(graph, "sum(attention(q, k, v, causal=1))"), operands, 3, d));
        assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "cast(y, f64)", "y", y), MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "dq", muster_expr_parse(graph, "cast(d, f64)", "d", d[0]), MUSTER_AUTO));
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        float singles[3][2] = {{1, 1}, {1, INFINITY}, {1, INFINITY}};
        double doubles[3][2] = {{1, 1}, {1, INFINITY}, {1, INFINITY}}, received[2][2];
        muster_tensor in[3], out[2];
        for (int32_t k = 0; k < 3; k++)
            in[k] = muster_tensor_make(dtypes[i], i == 0 ? (void *)singles[k] : (void *)doubles[k], 2, (const int64_t[]){2, 1});
        for (int32_t r = 0; r < 2; r++) out[r] = muster_tensor_make(MUSTER_F64, received[r], 2, (const int64_t[]){2, 1});
        assert_ok(muster_function_call(function, in, 3, out, 2, NULL));
        assert_true(received[0][0] == 1 && received[1][0] == 0);
        assert_true(!isfinite(received[0][1]) && !isfinite(received[1][1]));
        assert_ok(muster_function_destroy(function));
    }
}

/* ---- gradients that there are not ---- */

/* The message names the operation and its place in the program. */
static void second_gradients_are_refused(void **state) {
    int32_t refused = 0;
    for (int32_t i = 0; i < 4; i++, refused++) { /* 3: of the mask */
        muster_expr *operands[4], *d[4];
        muster_graph *graph = open_graph(*state, MUSTER_F32, operands);
        operands[3] = parse(graph, "m");
        muster_expr *made, *in[] = {operands[0], operands[1], operands[2], operands[3]};
        assert_ok(muster_expr_apply(graph, "attention", in, 4, NULL, "model.c:7", &made));
        assert_ok(muster_gradient(muster_expr_parse(graph, "sum(y * y)", "y", made), operands, 4, d));
        muster_expr *squares = muster_expr_parse(graph, "sum(a * a)", "a", d[i]);
        assert_true(muster_gradient(squares, operands, 3, d) != MUSTER_OK);
        const char *message = muster_last_error();
        if (!strstr(message, "for second derivatives write softmax(scale * q @ swapaxes(k, -1, -2), axis=-1) @ v") ||
            !strstr(message, "attention") || !strstr(message, "model.c:7"))
            fail_msg("gradient %d: received \"%s\"", (int)i, message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 4);
}

/* Only what is wanted: with f16, whose lse is f32. */
static void single_gradients_are_computed_alone(void **state) {
    for (int32_t i = 0; i < 3; i++) {
        muster_expr *operands[3], *d;
        muster_function *function;
        static values v;
        static uint16_t in[INPUTS][MOST], out[MOST];
        muster_graph *graph = open_graph(*state, MUSTER_F16, operands);
        assert_ok(muster_gradient(parse(graph, "sum(attention(q, k, v))"), &operands[i], 1, &d));
        assert_ok(muster_graph_output(graph, "d", d, MUSTER_AUTO));
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        fill(&v);
        muster_tensor given[INPUTS];
        for (int32_t k = 0; k < INPUTS; k++) {
            for (int32_t e = 0; e < MOST; e++) in[k][e] = 0x3c00; /* 1 */
            given[k] = muster_tensor_make(MUSTER_F16, in[k], v.inputs[k].ndim, v.inputs[k].shape);
        }
        const muster_tensor received = muster_tensor_make(MUSTER_F16, out, 4, v.inputs[i].shape);
        assert_ok(muster_function_call(function, given, INPUTS, &received, 1, NULL));
        /* all keys count the same: 5 queries give each of 7 keys 5 / 7 of the gradient of v */
        const uint16_t expected = i == 2 ? 0x39b7 : 0;
        for (int64_t e = 0; e < (i == 0 ? OF_Q : i == 1 ? OF_K : OF_V); e++) assert_int_equal(out[e] & 0x7fff, expected);
        assert_ok(muster_function_destroy(function));
    }
}

/* ---- wrong programs ---- */

static void wrong_programs_get_messages(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"attention(q, k)", "count: expected 3 to 4 operands, received 2"},
        {"attention(b, k, v)", "k \"k\": expected f64, the dtype of q \"b\" (4,) f64, received f32 (muster_expr_cast converts)"},
        {"attention(i, i, i)", "q \"i\": expected f16, bf16, f32 or f64, received i32"},
        {"attention(a, a, a)", "q \"a\": expected 2 dimensions or more, received (4,)"},
        {"attention(q, m, v)", "k \"m\": expected the axes before the last two that q \"q\" (rows, 2, 5, 3) f32, received (5, 7)"},
        {"attention(q, q, v)", "v \"v\": expected as many rows as k \"q\" (rows, 2, 5, 3) f32, received (rows, 2, 7, 4)"},
        {"attention(q, v, v)", "k \"v\": expected the last size of q \"q\" (rows, 2, 5, 3) f32, received (rows, 2, 7, 4)"},
        {"attention(q, k, v, q)", "mask \"q\": expected a shape that broadcasts to (rows, 2, 5, 7), received (rows, 2, 5, 3)"},
        {"attention(h, k, v)", "k \"k\": expected in the axis before the last two as many heads, or a number of them that divides those, "
                               "as q \"h\" (rows, 3, 5, 3) "
                               "f32, received (rows, 2, 7, 3)"},
        {"attention(q, one, v)", "v \"v\": expected as many heads as k \"one\" (rows, 1, 7, 3) f32, received (rows, 2, 7, 4)"},
        {"attention(q, k, v, causal=2)", "causal: expected 0 or 1, received 2"},
        {"attention(q, k, v, i)", "mask \"i\": expected f32, the dtype of q \"q\" (rows, 2, 5, 3) f32, received i32"},
    };
    int32_t wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, wrong++) {
        muster_expr *operands[3];
        muster_graph *graph = open_graph(*state, MUSTER_F32, operands);
        (void)muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
        (void)muster_graph_input(graph, "b", MUSTER_F64, MUSTER_SHAPE(4), MUSTER_BROADCAST);
        (void)muster_graph_input(graph, "h", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, QUERIES, WIDTH), MUSTER_SCATTER);
        (void)muster_graph_input(graph, "one", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 1, KEYS, WIDTH), MUSTER_SCATTER);
        (void)muster_graph_input(graph, "i", MUSTER_I32, MUSTER_SHAPE(5, 7), MUSTER_BROADCAST);
        assert_int_equal(muster_expr_ndim(muster_expr_parse(graph, cases[i].text)), -1);
        const char *message = muster_last_error();
        if (!strstr(message, cases[i].message) || !strstr(message, "muster_expr_attention"))
            fail_msg("%s:\n  expected: %s\n  received: %s", cases[i].text, cases[i].message, message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(wrong, 12);
    muster_expr *operands[3], *made;
    muster_graph *graph = open_graph(*state, MUSTER_F32, operands);
    assert_refused(muster_expr_apply(graph, "attention", operands, 3, ATTRIBUTES(NUMBER("scale", INFINITY)), "here", &made),
                   MUSTER_INVALID_ARGUMENT, "here: muster_expr_attention: scale: expected a finite number, received inf");
    assert_ok(muster_graph_destroy(graph));
    graph = open_graph(*state, MUSTER_F32, operands); /* the third result is for the gradient */
    assert_int_equal(muster_expr_ndim(muster_expr_result(parse(graph, "attention(q, k, v)"), 2)), -1);
    assert_non_null(strstr(muster_last_error(), "muster_expr_result: index: expected 0 to 1, the results of attention, received 2"));
    assert_ok(muster_graph_destroy(graph));
}

/* ---- memory ---- */

static void a_repeated_step_allocates_nothing(void **state) {
    static values v;
    muster_expr *operands[3], *d[3];
    muster_function *function;
    muster_graph *graph = open_graph(*state, MUSTER_F64, operands);
    assert_ok(muster_gradient(parse(graph, "sum(square(attention(q, k, v, causal=1)))"), operands, 3, d));
    for (int32_t i = 0; i < 3; i++) assert_ok(muster_graph_output(graph, (const char *const[]){"q", "k", "v"}[i], d[i], MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    fill(&v);
    for (int32_t i = 0; i < 3; i++) v.outputs[i] = muster_tensor_make(MUSTER_F64, v.out[i], 4, v.inputs[i].shape);
    for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, v.inputs, INPUTS, v.outputs, 3, NULL));
    const int64_t before = mst_memory_count();
    for (int32_t call = 0; call < 5; call++) assert_ok(muster_function_call(function, v.inputs, INPUTS, v.outputs, 3, NULL));
    assert_int_equal(mst_memory_count(), before);
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_those_of_the_formula),
        cmocka_unit_test(a_query_that_sees_nothing_gives_zeros),
        cmocka_unit_test(a_causal_query_does_not_read_the_keys_behind_it),
        cmocka_unit_test(second_gradients_are_refused),
        cmocka_unit_test(single_gradients_are_computed_alone),
        cmocka_unit_test(wrong_programs_get_messages),
        cmocka_unit_test(a_repeated_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
