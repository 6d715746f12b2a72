/* One-line texts. A right text gives the node that the same calls give: equal nodes are one, so
 * that pointers tell precedence apart. A wrong text gives its message, letter by letter. Values are
 * compared with loops. */
#include "graph_fixture.h"
#include "graph_private.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef MUSTER_TEST_SANITIZED /* sanitizers make frames larger, and all slower */
enum { SLOWER = 20, SMALL_STACK = 1 << 20 };
#else
enum { SLOWER = 1, SMALL_STACK = 64 << 10 };
#endif
enum { DEPTH = 256 };

static muster_graph *graph;
static muster_expr *x, *y, *w, *b, *s, *v, *r, *c, *i64, *mu, *given;

/* x, y (6, 4); w (4, 3); b (3,); s (); v (4,); r (rows, 4); c, a condition, (6, 4); i (6,) i64. */
static void open_graph(void **state) {
    assert_ok(muster_graph_create(*state, "texts", &graph));
    assert_true(muster_graph_size(graph, "time") < 0);
    x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    y = muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 3), MUSTER_BROADCAST);
    b = muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    s = muster_graph_input(graph, "s", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    v = muster_graph_input(graph, "v", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    r = muster_graph_input(graph, "r", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 4), MUSTER_SCATTER);
    c = muster_graph_input(graph, "c", MUSTER_BOOL, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    i64 = muster_graph_input(graph, "i", MUSTER_I64, MUSTER_SHAPE(6), MUSTER_BROADCAST);
    mu = muster_graph_input(graph, "µ_2", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    given = muster_expr_name(APPLY(graph, "exp", x), "ex");
}

static void close_graph(void) {
    assert_ok(muster_graph_destroy(graph));
    graph = NULL;
}

/* ---- right texts ---- */

static muster_expr *number(double value) { return muster_graph_number(graph, value); }
#define U(op, a) APPLY(graph, op, a)
#define B(op, a, z) APPLY(graph, op, a, z)
#define WITH(op, a, ...) apply(graph, op, (muster_expr *[]){a}, 1, ATTRIBUTES(__VA_ARGS__))
#define AXIS(...) \
    { .name = "axis", LIST(__VA_ARGS__) }
#define N MUSTER_NONE
#define SLICE2(a, start0, stop0, step0, start1, stop1, step1) \
    WITH("slice", a, {.name = "start", LIST(start0, start1)}, {.name = "stop", LIST(stop0, stop1)}, {.name = "step", LIST(step0, step1)})
#define SHAPED(a, ...) WITH("reshape", a, {.name = "shape", LIST(__VA_ARGS__)})

typedef struct right_text {
    const char *text;
    muster_expr *expected;
} right_text;

static int32_t compare_all(const right_text *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        muster_expr *got = muster_expr_parse(graph, rows[i].text);
        if (got != rows[i].expected) fail_msg("%s: %s", rows[i].text, mst_node_is_error(got) ? muster_last_error() : "another expression");
    }
    return (int32_t)count;
}

static void precedence_is_that_of_python(void **state) {
    open_graph(state);
    const right_text rows[] = {
        {"x", x},
        {"  x\n", x},
        {"((x))", x},
        {"+x", x},
        {"x + y", B("add", x, y)},
        {"x - y - s", B("subtract", B("subtract", x, y), s)},
        {"x - (y - s)", B("subtract", x, B("subtract", y, s))},
        {"x / y / s", B("divide", B("divide", x, y), s)},
        {"x / y * s", B("multiply", B("divide", x, y), s)},
        {"x + y * s", B("add", x, B("multiply", y, s))},
        {"x * y + s", B("add", B("multiply", x, y), s)},
        {"(x + y) * s", B("multiply", B("add", x, y), s)},
        {"x - y * s / v", B("subtract", x, B("divide", B("multiply", y, s), v))},
        {"x @ w + b", B("add", B("matmul", x, w), b)},
        {"b + x @ w", B("add", b, B("matmul", x, w))},
        {"s * x @ w", B("matmul", B("multiply", s, x), w)},
        {"x@w*s", B("multiply", B("matmul", x, w), s)},
        {"x // y % s", B("remainder", B("floor_divide", x, y), s)},
        {"x % y // s", B("floor_divide", B("remainder", x, y), s)},
        {"x / y // s", B("floor_divide", B("divide", x, y), s)},
        {"x - y % s", B("subtract", x, B("remainder", y, s))},
        {"-x % y", B("remainder", U("negative", x), y)},
        {"x ** y % s", B("remainder", B("power", x, y), s)},
        {"x@w//s", B("floor_divide", B("matmul", x, w), s)},
        {"-x", U("negative", x)},
        {"--x", U("negative", U("negative", x))},
        {"-+-x", U("negative", U("negative", x))},
        {"-x + y", B("add", U("negative", x), y)},
        {"-x * y", B("multiply", U("negative", x), y)},
        {"x - -y", B("subtract", x, U("negative", y))},
        {"x * -y", B("multiply", x, U("negative", y))},
        {"x ** y", B("power", x, y)},
        {"-x ** y", U("negative", B("power", x, y))},
        {"(-x) ** y", B("power", U("negative", x), y)},
        {"x ** -y", B("power", x, U("negative", y))},
        {"x ** y ** s", B("power", x, B("power", y, s))},
        {"(x ** y) ** s", B("power", B("power", x, y), s)},
        {"x ** -y ** s", B("power", x, U("negative", B("power", y, s)))},
        {"-x ** -y ** -s", U("negative", B("power", x, U("negative", B("power", y, U("negative", s)))))},
        {"x ** y * s", B("multiply", B("power", x, y), s)},
        {"x * y ** s", B("multiply", x, B("power", y, s))},
        {"x ** -y * s", B("multiply", B("power", x, U("negative", y)), s)},
        {"x.T @ x ** y", B("matmul", U("transpose", x), B("power", x, y))},
        {"-x.T", U("negative", U("transpose", x))},
        {"x == y", B("equal", x, y)},
        {"x != y", B("not_equal", x, y)},
        {"x < y + s", B("less", x, B("add", y, s))},
        {"x + s <= y", B("less_equal", B("add", x, s), y)},
        {"x > y", B("greater", x, y)},
        {"-x >= y * s", B("greater_equal", U("negative", x), B("multiply", y, s))},
        {"(x < y) == c", B("equal", B("less", x, y), c)},
        {"c == (x < y)", B("equal", c, B("less", x, y))},
    };
    assert_int_equal(compare_all(rows, sizeof rows / sizeof *rows), 52);
    close_graph();
}

static void numbers_names_and_calls_are_read(void **state) {
    open_graph(state);
    muster_expr *h = U("relu", B("add", B("matmul", x, w), b)), *xy[] = {x, y};
    const right_text rows[] = {
        {"2", number(2)},
        {"-2", number(-2)},
        {"-2 ** 2", number(-4)},
        {"2 ** 3 ** 2", number(512)},
        {"7 - 2 - 1", number(4)},
        {"7 // 2", number(3)},
        {"-7 // 2", number(-4)},
        {"-7 % 3", number(2)},
        {"1e-3", number(1e-3)},
        {"1.5E+2", number(150)},
        {".5", number(.5)},
        {"2.", number(2)},
        {"2 * x", B("multiply", number(2), x)},
        {"x * 2", B("multiply", x, number(2))},
        {"x * 0.1", B("multiply", x, number(0.1))},
        {"x * (1 - 0.25)", B("multiply", x, number(0.75))},
        {"µ_2 + v", B("add", mu, v)},
        {"ex + 1", B("add", given, number(1))},
        {"exp(x)", given},
        {"exp ( x )", given},
        {"exp(x,)", given},
        {"sum(x)", U("sum", x)},
        {"sum(x, 1)", WITH("sum", x, AXIS(1))},
        {"sum(x, axis=1)", WITH("sum", x, AXIS(1))},
        {"sum(x, axis = -1)", WITH("sum", x, AXIS(1))},
        {"sum(x, [0])", WITH("sum", x, AXIS(0))},
        {"sum(x, (0, 1))", U("sum", x)},
        {"sum(x, (1,))", WITH("sum", x, AXIS(1))},
        {"sum(x, [])", U("sum", x)},
        {"sum(x, None)", U("sum", x)},
        {"sum(x, axis=1, keepdims=True)", WITH("sum", x, AXIS(1), {.name = "keepdims", .integer = 1})},
        {"sum(x, 1, 1)", WITH("sum", x, AXIS(1), {.name = "keepdims", .integer = 1})},
        {"sum(x, keepdims=False, axis=1)", WITH("sum", x, AXIS(1))},
        {"sum(x, 2 - 1)", WITH("sum", x, AXIS(1))},
        {"argmax(x, 1)", WITH("argmax", x, {.name = "axis", .integer = 1})},
        {"clip(x, -1.5, high=2)", WITH("clip", x, {.name = "low", .number = -1.5}, {.name = "high", .number = 2})},
        {"cast(x, f16)", WITH("cast", x, {.name = "dtype", .integer = MUSTER_F16})},
        {"cast(c, dtype=f64)", WITH("cast", c, {.name = "dtype", .integer = MUSTER_F64})},
        {"full((2, 3), 1.5, f32)",
         apply(graph, "full", NULL, 0,
               ATTRIBUTES({.name = "shape", LIST(2, 3)}, {.name = "value", .number = 1.5}, {.name = "dtype", .integer = MUSTER_F32}))},
        {"reshape(x, [4, -1])", SHAPED(x, 4, 6)},
        {"reshape(r, (rows, 2, 2))", SHAPED(r, MUSTER_ROWS, 2, 2)},
        {"reshape(r, [2, rows, 2])", SHAPED(r, 2, MUSTER_ROWS, 2)},
        {"one_hot(i, 10)", WITH("one_hot", i64, {.name = "k", LIST(10)})},
        {"where(x < y, x, 0)", apply(graph, "where", (muster_expr *[]){B("less", x, y), x, number(0)}, 3, NULL)},
        {"concatenate(x, y)", apply(graph, "concatenate", xy, 2, NULL)},
        {"concatenate([x, y], axis=1)", apply(graph, "concatenate", xy, 2, ATTRIBUTES({.name = "axis", .integer = 1}))},
        {"concatenate((x, y))", apply(graph, "concatenate", xy, 2, NULL)},
        {"einsum('ij,ij->i', x, y)", apply(graph, "einsum", xy, 2, ATTRIBUTES({.name = "subscripts", .text = "ij,ij->i"}))},
        {"einsum(\"ij,ij->i\", [x, y])", apply(graph, "einsum", xy, 2, ATTRIBUTES({.name = "subscripts", .text = "ij,ij->i"}))},
        {"einsum(x, y, subscripts='ij,ij->i')", apply(graph, "einsum", xy, 2, ATTRIBUTES({.name = "subscripts", .text = "ij,ij->i"}))},
        {"einsum('ij -> ji', x) ", apply(graph, "transpose", &x, 1, NULL)},
        {"transpose(x, (1, 0))", U("transpose", x)},
        {"slice(x, [None, 1])", SLICE2(x, N, N, 1, 1, N, 1)},
        {"relu(x @ w + b)", h},
        {"h = x @ w + b; relu(h)", h},
        {"h = x @ w; z = h + b; o = relu(z)", h},
        {"relu(x @ w + b);", h},
        {"f32 = x; f32 + y", B("add", x, y)},
        {"sum = sum(x); sum * 2", B("multiply", U("sum", x), number(2))},
        {"mean(sum(x * y, 1))", U("mean", WITH("sum", B("multiply", x, y), AXIS(1)))},
    };
    assert_int_equal(compare_all(rows, sizeof rows / sizeof *rows), 60);
    close_graph();
}

static void indices_are_those_of_numpy(void **state) {
    open_graph(state);
    muster_expr *t = SHAPED(x, 2, 3, 4);
    (void)muster_expr_name(t, "t");
    const right_text rows[] = {
        {"x[:]", x},
        {"x[:, :]", x},
        {"x[...]", x},
        {"x[::]", x},
        {"x[1:3]", SLICE2(x, 1, 3, 1, N, N, 1)},
        {"x[1:3, :]", SLICE2(x, 1, 3, 1, N, N, 1)},
        {"x[:, 0:3]", SLICE2(x, N, N, 1, 0, 3, 1)},
        {"x[:, :3]", SLICE2(x, N, N, 1, 0, 3, 1)},
        {"x[:, 2:]", SLICE2(x, N, N, 1, 2, N, 1)},
        {"x[::2, 1::2]", SLICE2(x, N, N, 2, 1, N, 2)},
        {"x[::-1]", SLICE2(x, N, N, -1, N, N, 1)},
        {"x[-2:, :-1]", SLICE2(x, -2, N, 1, N, -1, 1)},
        {"x[4:1:-2]", SLICE2(x, 4, 1, -2, N, N, 1)},
        {"x[None:3:None]", SLICE2(x, N, 3, 1, N, N, 1)},
        {"x[1 + 1:2 * 2]", SLICE2(x, 2, 4, 1, N, N, 1)},
        {"x[..., 1:]", SLICE2(x, N, N, 1, 1, N, 1)},
        {"x[1:, ...]", SLICE2(x, 1, N, 1, N, N, 1)},
        {"x[2]", SHAPED(SLICE2(x, 2, 3, 1, N, N, 1), 4)},
        {"x[-1]", SHAPED(SLICE2(x, 5, 6, 1, N, N, 1), 4)},
        {"x[2, 3]", APPLY(graph, "squeeze", SLICE2(x, 2, 3, 1, 3, 4, 1))},
        {"x[:, 3]", SHAPED(SLICE2(x, N, N, 1, 3, 4, 1), 6)},
        {"x[..., -1]", SHAPED(SLICE2(x, N, N, 1, 3, 4, 1), 6)},
        {"x[5,]", SHAPED(SLICE2(x, 5, 6, 1, N, N, 1), 4)},
        {"x[None]", SHAPED(x, 1, 6, 4)},
        {"x[:, None]", SHAPED(x, 6, 1, 4)},
        {"x[..., newaxis]", SHAPED(x, 6, 4, 1)},
        {"x[0, None, 1:]", SHAPED(SLICE2(x, 0, 1, 1, 1, N, 1), 1, 3)},
        {"s[None, None]", SHAPED(s, 1, 1)},
        {"s[...]", s},
        {"r[:, 1:3]", SLICE2(r, N, N, 1, 1, 3, 1)},
        {"r[::-1]", SLICE2(r, N, N, -1, N, N, 1)},
        {"r[:, 0]", SHAPED(SLICE2(r, N, N, 1, 0, 1, 1), MUSTER_ROWS)},
        {"t[1, ..., 2]", SHAPED(WITH("slice", t, {.name = "start", LIST(1, N, 2)}, {.name = "stop", LIST(2, N, 3)}), 3)},
        {"t[0].T", U("transpose", SHAPED(WITH("slice", t, {.name = "start", LIST(0)}, {.name = "stop", LIST(1)}), 3, 4))},
        {"-x[:, 1:] ** 2", U("negative", B("power", SLICE2(x, N, N, 1, 1, N, 1), number(2)))},
        {"exp(x)[1:]", SLICE2(given, 1, N, 1, N, N, 1)},
        {"(x + y)[1:]", SLICE2(B("add", x, y), 1, N, 1, N, N, 1)},
        {"x.T[1:]", SLICE2(U("transpose", x), 1, N, 1, N, N, 1)},
    };
    assert_int_equal(compare_all(rows, sizeof rows / sizeof *rows), 38);
    assert_ptr_equal(muster_expr_parse(graph, "x[-6]"), muster_expr_parse(graph, "x[0]"));
    assert_string_equal(muster_expr_shape(muster_expr_parse(graph, "x[2][3]")), "()");
    close_graph();
}

/* The same node as with muster_graph_number, for every type that C has for a number. */
static void numbers_stand_for_names(void **state) {
    open_graph(state);
    const float half = 0.5f;
    char digits[] = "k";
    int32_t cases = 0;
#define GIVEN(value, expected)                                                                                  \
    do {                                                                                                        \
        assert_ptr_equal(muster_expr_parse(graph, "x * k", digits, value), B("multiply", x, number(expected))); \
        cases++;                                                                                                \
    } while (0)
    GIVEN(0.5, 0.5);
    GIVEN(half, 0.5);
    GIVEN(3, 3);
    GIVEN(-3L, -3);
    GIVEN(3U, 3);
    GIVEN((int64_t)1 << 53, 0x1p53);
    GIVEN((size_t)7, 7);
    GIVEN((unsigned char)200, 200);
    GIVEN((signed char)-7, -7);
    GIVEN((short)-300, -300);
    GIVEN((unsigned short)300, 300);
    GIVEN('a', 97);
    GIVEN((_Bool)1, 1);
    GIVEN(-9LL, -9);
    GIVEN(UINT64_MAX, 0x1p64);
    GIVEN(0, 0);
    assert_int_equal(cases, 16);
    assert_ptr_equal(muster_expr_parse(graph, "x * k + h", "k", 0.5, "h", y), B("add", B("multiply", x, number(0.5)), y));
    assert_ptr_equal(muster_expr_parse(graph, "sum(x, axis=k)", "k", 1), muster_expr_parse(graph, "sum(x, axis=1)"));
    assert_ptr_equal(muster_expr_parse(graph, "x[k:]", "k", 2, NULL), muster_expr_parse(graph, "x[2:]"));
    assert_ptr_equal(muster_expr_parse(graph, "x", NULL), x);
    close_graph();
}

/* A graph per message: it keeps its first error. */
static void other_values_for_names_are_refused(void **state) {
    muster_expr *none = NULL;
    int32_t cases = 0;
#define REFUSED_VALUE(message, ...)                                            \
    do {                                                                       \
        open_graph(state);                                                     \
        assert_ptr_equal(muster_expr_parse(__VA_ARGS__), graph->graph->error); \
        assert_string_equal(muster_last_error(), message);                     \
        close_graph();                                                         \
        cases++;                                                               \
    } while (0)
    REFUSED_VALUE("muster_expr_parse: expressions[0]: expected an expression, received NULL", graph, "x * k", "k", none);
    REFUSED_VALUE("muster_expr_parse: expressions[0]: expected an expression, received NULL", graph, "x * k", "k", NULL);
    REFUSED_VALUE("muster_expr_parse: expressions[1]: expected an expression, received NULL", graph, "x * k", "k", 2, "h", NULL);
    REFUSED_VALUE("muster_expr_parse: expressions[0]: expected an expression or a number for \"k\", received none", graph, "x * k", "k");
    REFUSED_VALUE("muster_expr_parse: expressions[0]: expected an expression or a number for \"k\", received a text", graph, "x * k", "k",
                  "2");
    REFUSED_VALUE("muster_expr_parse: names[0]: expected a name, received a number", graph, "x * k", 2, "k");
    REFUSED_VALUE("muster_expr_parse: names[0]: expected a name, received an expression", graph, "x * k", x, x);
    REFUSED_VALUE("muster_expr_parse: \"k\": expected an integer of at most 2^53, received 9007199254740993", graph, "x * k", "k",
                  9007199254740993);
    assert_int_equal(cases, 8);
}

static void names_may_have_points(void **state) {
    open_graph(state);
    muster_expr *weight = muster_graph_input(graph, "conv.weight", MUSTER_F32, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    muster_expr *bias = muster_graph_input(graph, "layers.0.bias", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    muster_expr *z = muster_expr_name(APPLY(graph, "tanh", x), "x.µ");
    const right_text rows[] = {
        {"conv.weight", weight},
        {"x * conv.weight+layers.0.bias", B("add", B("multiply", x, weight), bias)},
        {"conv.weight.T", U("transpose", weight)},
        {"x.T", U("transpose", x)},
        {"x.µ @ x.T", B("matmul", z, U("transpose", x))},
        {"exp(conv.weight)[1:]", SLICE2(U("exp", weight), 1, N, 1, N, N, 1)},
    };
    assert_int_equal(compare_all(rows, sizeof rows / sizeof *rows), 6);
    assert_ptr_equal(muster_expr_parse(graph, "conv.weight * a.b", "a.b", y), B("multiply", weight, y));
    assert_ptr_equal(muster_expr_parse(graph, "a.b * a", "a.b", y, "a", x), B("multiply", y, x));
    assert_ptr_equal(muster_expr_parse(graph, "a.T", "a", y, "a.T", x), x); /* the longest name */
    close_graph();
}

static void unknown_names_with_points_are_quoted_whole(void **state) {
    static const char *const texts[][2] = {
        {"x * conv.bias.T", "muster_expr_parse: \"x * conv.bias.T\", column 5: expected a name that is given with the text, or one of an "
                            "expression of graph \"texts\", received \"conv.bias\""},
        {"x.weight", "muster_expr_parse: \"x.weight\", column 3: expected T after the point, received \"weight\""},
        {"µ.a b", "muster_expr_parse: \"µ.a b\", column 1: expected a name that is given with the text, or one of an expression of graph "
                  "\"texts\", received \"µ.a\""},
    };
    static const char *const names[] = {"a.", ".a", "a..b", "1.a", "a. b"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        open_graph(state);
        assert_ptr_equal(muster_expr_parse(graph, texts[i][0]), graph->graph->error);
        assert_string_equal(muster_last_error(), texts[i][1]);
        close_graph();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        open_graph(state);
        assert_ptr_equal(muster_expr_parse(graph, "x", names[i], y), graph->graph->error);
        assert_non_null(strstr(muster_last_error(), "expected a name of letters, digits, \"_\" and points, received"));
        close_graph();
    }
}

static void names_given_with_the_text_come_first(void **state) {
    open_graph(state);
    const char *const names[] = {"x", "h"};
    muster_expr *const expressions[] = {y, w};
    muster_expr *expected = B("matmul", y, w);
    assert_ptr_equal(muster_expr_parse(graph, "x @ h", "x", y, "h", w), expected);
    assert_ptr_equal((muster_expr_parse)(graph, "x @ h", "x", y, "h", w, (const char *)NULL), expected);
    assert_ptr_equal(muster_expr_parse_named(graph, "x @ h", names, expressions, 2), expected);
    assert_ptr_equal(muster_expr_parse_named(graph, "x @ w", NULL, NULL, 0), B("matmul", x, w));
    (void)muster_expr_name(B("matmul", y, w), "product");
    assert_ptr_equal(muster_expr_parse(graph, "product"), expected);
    /* a name of two expressions is refused, and can be given */
    (void)muster_expr_name(U("log", x), "two");
    (void)muster_expr_name(U("log", y), "two");
    assert_ptr_equal(muster_expr_parse(graph, "two", "two", U("log", y)), U("log", y));
    assert_ok(muster_graph_status(graph));
    muster_expr *error = muster_expr_parse(graph, "x + two");
    assert_string_equal(muster_expr_shape(error), "error");
    assert_string_equal(muster_last_error(),
                        "muster_expr_parse: \"x + two\", column 5: several expressions of graph \"texts\" have the name "
                        "\"two\": give the one that is meant with the text");
    close_graph();
}

/* ---- wrong texts ---- */

typedef struct wrong_text {
    const char *text, *message;
} wrong_text;

static void messages_name_the_text_and_the_column(void **state) {
    const wrong_text rows[] = {
        {"x +", "muster_expr_parse: \"x +\", column 4: expected an expression, received the end of the text"},
        {"* x", "muster_expr_parse: \"* x\", column 1: expected an expression, received \"*\""},
        {"x y", "muster_expr_parse: \"x y\", column 3: expected an operation, received \"y\""},
        {"2x", "muster_expr_parse: \"2x\", column 2: expected an operation, received \"x\""},
        {"0x10", "muster_expr_parse: \"0x10\", column 2: expected an operation, received \"x10\""},
        {"(x", "muster_expr_parse: \"(x\", column 1: the bracket is not closed"},
        {"(x]", "muster_expr_parse: \"(x]\", column 3: expected \")\" for the bracket of column 1, received \"]\""},
        {"x)", "muster_expr_parse: \"x)\", column 2: \")\" stands outside of brackets"},
        {"x]", "muster_expr_parse: \"x]\", column 2: \"]\" stands outside of brackets"},
        {"x, y", "muster_expr_parse: \"x, y\", column 2: \",\" stands outside of brackets"},
        {"exp(x", "muster_expr_parse: \"exp(x\", column 4: the bracket is not closed"},
        {"exp(", "muster_expr_parse: \"exp(\", column 5: expected an expression, received the end of the text"},
        {"exp x", "muster_expr_parse: \"exp x\", column 1: expected a name that is given with the text, or one of an expression of graph "
                  "\"texts\", received \"exp\""},
        {"exp(,)", "muster_expr_parse: \"exp(,)\", column 5: expected an expression, received \",\""},
        {"nothing(x)", "muster_expr_parse: \"nothing(x)\", column 1: unknown operation \"nothing\""},
        {"z + 1", "muster_expr_parse: \"z + 1\", column 1: expected a name that is given with the text, or one of an expression of graph "
                  "\"texts\", received \"z\""},
        {"a = a + 1; a", "muster_expr_parse: \"a = a + 1; a\", column 5: \"a\" is used in its own definition"},
        {"x = x + 1; x",
         "muster_expr_parse: \"x = x + 1; x\", column 1: expected a new name, received \"x\", which is an expression already"},
        {"a = x; a = y; a", "muster_expr_parse: \"a = x; a = y; a\", column 8: \"a\" is assigned twice"},
        {"True = x", "muster_expr_parse: \"True = x\", column 1: expected a name, received \"True\""},
        {"a = x;; a", "muster_expr_parse: \"a = x;; a\", column 7: expected an expression, received \";\""},
        {"; x", "muster_expr_parse: \"; x\", column 1: expected an expression, received \";\""},
        {"a = ; x", "muster_expr_parse: \"a = ; x\", column 5: expected an expression, received \";\""},
        {"a = b = x", "muster_expr_parse: \"a = b = x\", column 7: expected an operation, received \"=\""},
        {"(a = x)", "muster_expr_parse: \"(a = x)\", column 2: expected a name that is given with the text, or one of an expression of "
                    "graph \"texts\", received \"a\""},
        {"x < y < s", "muster_expr_parse: \"x < y < s\", column 7: comparisons do not chain: put the first one in parentheses"},
        {"x == y != c", "muster_expr_parse: \"x == y != c\", column 8: comparisons do not chain: put the first one in parentheses"},
        {"einsum('ij, x)", "muster_expr_parse: \"einsum('ij, x)\", column 8: a quote is not closed"},
        {"einsum('µ', x)", "muster_expr_parse: \"einsum('µ', x)\", column 8: expected printable ASCII between quotes"},
        {"einsum(1, x)", "\"einsum(1, x)\", column 1: muster_expr_einsum: subscripts: expected a value, received none"},
        {"einsum(x, 'ij', 'ji')",
         "muster_expr_parse: \"einsum(x, 'ij', 'ji')\", column 11: expected an expression, received a text in quotes"},
        {"einsum('ij', x, subscripts='ij')", "muster_expr_parse: \"einsum('ij', x, subscripts='ij')\", column 28: attribute subscripts of "
                                             "einsum: given twice"},
        {"sum('ij')", "muster_expr_parse: \"sum('ij')\", column 5: expected an expression, received a text in quotes"},
        {"sum(x, 'ij')",
         "muster_expr_parse: \"sum(x, 'ij')\", column 8: attribute axis of sum: expected an integer or a list, received a text in quotes"},
        {"'ij'", "muster_expr_parse: \"'ij'\", column 1: expected an expression, received a text in quotes"},
        {"x # y", "muster_expr_parse: \"x # y\", column 3: unknown character \"#\""},
        {"x $ y", "muster_expr_parse: \"x $ y\", column 3: unknown character \"$\""},
        {"b + x", "\"b + x\", column 3: muster_expr_add: b \"x\": expected a shape that broadcasts with (3,), received (6, 4)"},
        {"x / / y", "muster_expr_parse: \"x / / y\", column 5: expected an expression, received \"/\""},
        {"x /// y", "muster_expr_parse: \"x /// y\", column 5: expected an expression, received \"/\""},
        {"x %", "muster_expr_parse: \"x %\", column 4: expected an expression, received the end of the text"},
        {"x + ?", "muster_expr_parse: \"x + ?\", column 5: unknown character \"?\""},
        {"x \t+ \x01", "muster_expr_parse: \"x  +  \", column 6: unknown character 0x01"},
        {"x \xff", "muster_expr_parse: \"x ?\", column 3: expected UTF-8, received byte 0xff"},
        {"x + \xc3"
         "(",
         "muster_expr_parse: \"x + ?(\", column 5: expected UTF-8, received byte 0xc3"},
        {"1e999 * x", "muster_expr_parse: \"1e999 * x\", column 1: expected a number that f64 holds, received \"1e999\""},
        {"x[6]", "muster_expr_parse: \"x[6]\", column 3: expected an index into axis 0 of \"x\" (6, 4) f32, received 6"},
        {"x[-7]", "muster_expr_parse: \"x[-7]\", column 3: expected an index into axis 0 of \"x\" (6, 4) f32, received -7"},
        {"x[]", "muster_expr_parse: \"x[]\", column 3: expected an expression, received \"]\""},
        {"x[1.5]", "muster_expr_parse: \"x[1.5]\", column 3: expected an integer or a slice, received 1.5"},
        {"x[0:1e300]", "muster_expr_parse: \"x[0:1e300]\", column 5: expected an integer as bound of a slice, received 1e+300, which 64 "
                       "bits do not hold"},
        {"x[i]", "muster_expr_parse: \"x[i]\", column 3: expected an integer or a slice, received an expression; take(x, indices, axis) "
                 "selects by an expression"},
        {"x[1, 2, 3]",
         "muster_expr_parse: \"x[1, 2, 3]\", column 2: expected at most 2 indices, one for each axis of \"x\" (6, 4) f32, received 3"},
        {"x[..., ...]", "muster_expr_parse: \"x[..., ...]\", column 2: expected \"...\" once, received it 2 times"},
        {"x[1:2:3:4]", "muster_expr_parse: \"x[1:2:3:4]\", column 8: expected \",\" or \"]\", received \":\""},
        {"x[1:y]", "muster_expr_parse: \"x[1:y]\", column 5: expected an integer as bound of a slice, received an expression"},
        {"x[::0]", "\"x[::0]\", column 2: muster_expr_slice: step: expected a step in axis 0, received 0"},
        {"r[0]", "\"r[0]\", column 2: muster_expr_slice: start: expected all of axis 0, whose size only a call knows, received a "
                 "part ((rows, 4)); take(x, indices, axis) gathers some, and batch of muster_call_options selects rows of a call"},
        {"r[1:]", "\"r[1:]\", column 2: muster_expr_slice: start: expected all of axis 0, whose size only a call knows, received "
                  "a part ((rows, 4)); take(x, indices, axis) gathers some, and batch of muster_call_options selects rows of a call"},
        {"x[:, [0, 1]]", "muster_expr_parse: \"x[:, [0, 1]]\", column 6: expected an integer or a slice, received a list; take(x, indices, "
                         "axis) gathers"},
        {"x[1.0]", "muster_expr_parse: \"x[1.0]\", column 3: expected an integer or a slice, received 1.0"},
        {"x[0:2.0]", "muster_expr_parse: \"x[0:2.0]\", column 5: expected an integer as bound of a slice, received 2.0"},
        {"max(x, 0.0)", "muster_expr_parse: \"max(x, 0.0)\", column 8: attribute axis of max: expected an integer or a list (maximum(a, b) "
                        "has two operands), received 0.0"},
        {"min(x, y)", "muster_expr_parse: \"min(x, y)\", column 8: attribute axis of min: expected an integer or a list (minimum(a, b) "
                      "has two operands), received an expression"},
        {"sum(x, -1.0)",
         "muster_expr_parse: \"sum(x, -1.0)\", column 8: attribute axis of sum: expected an integer or a list, received -1.0"},
        {"sum(x, [1e0])", "muster_expr_parse: \"sum(x, [1e0])\", column 9: attribute axis of sum: expected an integer, received 1.0"},
        {"cumsum(x, 1.0 - 1)", "muster_expr_parse: \"cumsum(x, 1.0 - 1)\", column 15: attribute axis of cumsum: expected an integer, True "
                               "or False, received 0.0"},
        {"x[(1, 2)]", "muster_expr_parse: \"x[(1, 2)]\", column 3: expected an integer or a slice, received a list; take(x, indices, "
                      "axis) gathers"},
        {"2[0]", "muster_expr_parse: \"2[0]\", column 2: expected an index of an expression, received one of a number"},
        {"2.T", "muster_expr_parse: \"2.T\", column 3: expected an operation, received \"T\""},
        {"x.t", "muster_expr_parse: \"x.t\", column 3: expected T after the point, received \"t\""},
        {"x.", "muster_expr_parse: \"x.\", column 3: expected T after the point, received the end of the text"},
        {"x:y", "muster_expr_parse: \"x:y\", column 2: expected an operation, received \":\""},
        {"[x, y]", "muster_expr_parse: \"[x, y]\", column 1: expected an expression, received a list"},
        {"[1, 2] + x", "muster_expr_parse: \"[1, 2] + x\", column 1: expected an expression, received a list"},
        {"(1, [2])", "muster_expr_parse: \"(1, [2])\", column 5: expected numbers or expressions in a list, received a list"},
        {"None", "muster_expr_parse: \"None\", column 1: expected an expression, received None"},
        {"f32 + x", "muster_expr_parse: \"f32 + x\", column 1: expected an expression, received a dtype"},
        {"rows * x", "muster_expr_parse: \"rows * x\", column 1: expected an expression, received a named size"},
        {"x @ b",
         "\"x @ b\", column 3: muster_expr_matmul: b \"b\": expected extent 4 in axis 0 (the last of a \"x\" (6, 4) f32), received (3,)"},
        {"x @ w + v", "\"x @ w + v\", column 7: muster_expr_add: b \"v\": expected a shape that broadcasts with (6, 3), received (4,)"},
        {"x + i", "\"x + i\", column 3: muster_expr_add: b \"i\": expected f32, the dtype of a \"x\" (6, 4) f32, received i64 "
                  "(muster_expr_cast converts)"},
        {"sum(x, 2)", "\"sum(x, 2)\", column 1: muster_expr_sum: axis: expected an axis of x \"x\" (6, 4) f32, received 2"},
        {"sum(x, axis=1.5)", "muster_expr_parse: \"sum(x, axis=1.5)\", column 13: attribute axis of sum: expected an integer or a list, "
                             "received 1.5"},
        {"top_k(x, 9223372036854775808)",
         "muster_expr_parse: \"top_k(x, 9223372036854775808)\", column 10: attribute k of top_k: expected an "
         "integer from -1 on, a named size, or a list, received 9.22337203685478e+18, which 64 bits do not hold"},
        {"sum(x, axis=x)",
         "muster_expr_parse: \"sum(x, axis=x)\", column 13: attribute axis of sum: expected an integer or a list, received an expression"},
        {"sum(x, axis=[0, x])",
         "muster_expr_parse: \"sum(x, axis=[0, x])\", column 17: attribute axis of sum: expected an integer, received an expression"},
        {"sum(x, axis=0, axis=1)", "muster_expr_parse: \"sum(x, axis=0, axis=1)\", column 21: attribute axis of sum: given twice"},
        {"sum(x, 0, axis=1)", "muster_expr_parse: \"sum(x, 0, axis=1)\", column 16: attribute axis of sum: given twice"},
        {"sum(x, axis=0, 1)",
         "muster_expr_parse: \"sum(x, axis=0, 1)\", column 16: expected arguments without a keyword before those with one"},
        {"sum(x, axes=1)",
         "muster_expr_parse: \"sum(x, axes=1)\", column 13: sum: unknown attribute \"axes\", expected axis, keepdims, dtype"},
        {"sum(x, 0, True, f32, 3)",
         "muster_expr_parse: \"sum(x, 0, True, f32, 3)\", column 22: sum: expected at most 4 arguments, received 5"},
        {"sum(x, axis=)", "muster_expr_parse: \"sum(x, axis=)\", column 13: expected an expression, received \")\""},
        {"sum()", "\"sum()\", column 1: muster_expr_sum: count: expected 1 operand, received 0"},
        {"matmul(x)", "\"matmul(x)\", column 1: muster_expr_matmul: count: expected 2 operands, received 1"},
        {"exp(x, y)", "muster_expr_parse: \"exp(x, y)\", column 8: exp: expected at most 1 argument, received 2"},
        {"cast(x, 3)", "muster_expr_parse: \"cast(x, 3)\", column 9: attribute dtype of cast: expected a dtype, received a number"},
        {"cast(x)", "\"cast(x)\", column 1: muster_expr_cast: dtype: expected a value, received none"},
        {"clip(x, low=True)",
         "muster_expr_parse: \"clip(x, low=True)\", column 13: attribute low of clip: expected a number, received True or False"},
        {"reshape(x, [5, -1])", "\"reshape(x, [5, -1])\", column 1: muster_expr_reshape: shape: expected as many elements as x \"x\" (6, "
                                "4) f32 has, received (5, 1)"},
        {"reshape(x, [-2, 12])", "muster_expr_parse: \"reshape(x, [-2, 12])\", column 13: attribute shape of reshape: expected an integer "
                                 "from -1 on, or a named size, received -2"},
        {"reshape(x, 'ij')", "muster_expr_parse: \"reshape(x, 'ij')\", column 12: attribute shape of reshape: expected an integer from -1 "
                             "on, a named size, or a list, received a text in quotes"},
        {"exp(x, axis=1)", "muster_expr_parse: \"exp(x, axis=1)\", column 13: exp: unknown attribute \"axis\", expected none"},
        {"argmax(x, axis=[0])", "muster_expr_parse: \"argmax(x, axis=[0])\", column 16: attribute axis of argmax: expected an integer, "
                                "True or False, received a list"},
        {"where(x, x, y)", "\"where(x, x, y)\", column 1: muster_expr_where: condition \"x\": expected bool, received f32"},
        {"concatenate([x, [y]])",
         "muster_expr_parse: \"concatenate([x, [y]])\", column 17: expected numbers or expressions in a list, received a list"},
        {"2 @ 3", "\"2 @ 3\", column 3: muster_expr_matmul: a: expected an operand with a dtype beside plain numbers, received none"},
        {"1 < 2", "\"1 < 2\", column 3: muster_expr_less: a: expected an operand with a dtype beside plain numbers, received none"},
        {"x[None,None,None,None,None,None,None]",
         "muster_expr_parse: \"x[None,None,None,None,None,None,None]\", column 2: expected at most 8 axes, received more"},
    };
    const int32_t count = sizeof rows / sizeof *rows;
    for (int32_t i = 0; i < count; i++) {
        open_graph(state); /* the error stays in its graph */
        muster_expr *error = muster_expr_parse(graph, rows[i].text);
        assert_ptr_equal(error, graph->graph->error);
        assert_string_equal(muster_last_error(), rows[i].message);
        assert_int_not_equal(muster_graph_status(graph), MUSTER_OK);
        assert_string_equal(muster_last_error(), rows[i].message);
        close_graph();
    }
    assert_int_equal(count, 109);
}

static void bad_arguments_are_refused(void **state) {
    const char *const names[] = {"p", NULL}, *const same[] = {"p", "p"}, *const odd[] = {"a b"}, *const bytes[] = {"a\xff"};
    muster_graph *other;
    open_graph(state);
    assert_ok(muster_graph_create(*state, "other", &other));
    muster_expr *const expressions[] = {x, NULL}, *foreign = muster_graph_number(other, 1);
    static const char *const refused[] = {
        "muster_expr_parse: text: expected an expression, received NULL",
        "muster_expr_parse_named: text: expected an expression, received NULL",
        "muster_expr_parse_named: count: expected 0 or more, received -1",
        "muster_expr_parse_named: names: expected names, received NULL",
        "muster_expr_parse_named: expressions: expected expressions, received NULL",
        "muster_expr_parse_named: names[1]: expected a name, received NULL",
        "muster_expr_parse_named: expressions[1]: expected an expression, received NULL",
        "muster_expr_parse_named: names[0]: expected a name of letters, digits, \"_\" and points, received \"a b\"",
        "muster_expr_parse_named: names[0]: expected a name of letters, digits, \"_\" and points, received \"a?\"",
        "muster_expr_parse: names[1]: expected each name once, received \"p\" again",
        "muster_expr_parse: expressions[0]: expected an expression of graph \"texts\", received one of graph \"other\""};
    int32_t i = 0;
#define REFUSED(call)                                           \
    do {                                                        \
        assert_ptr_equal(call, graph->graph->error);            \
        assert_string_equal(muster_last_error(), refused[i++]); \
    } while (0)
    REFUSED(muster_expr_parse(graph, NULL));
    REFUSED(muster_expr_parse_named(graph, NULL, NULL, NULL, 0));
    REFUSED(muster_expr_parse_named(graph, "p", names, expressions, -1));
    REFUSED(muster_expr_parse_named(graph, "p", NULL, expressions, 1));
    REFUSED(muster_expr_parse_named(graph, "p", names, NULL, 1));
    REFUSED(muster_expr_parse_named(graph, "p", names, expressions, 2));
    REFUSED(muster_expr_parse_named(graph, "p", (const char *const[]){"p", "q"}, expressions, 2));
    REFUSED(muster_expr_parse_named(graph, "p", odd, expressions, 1));
    REFUSED(muster_expr_parse_named(graph, "p", bytes, expressions, 1));
    REFUSED(muster_expr_parse(graph, "p", same[0], x, same[1], x));
    REFUSED(muster_expr_parse(graph, "p", "p", foreign));
    assert_int_equal(i, 11);
    assert_null(muster_expr_parse(NULL, "x"));
    assert_string_equal(muster_last_error(), "muster_expr_parse: graph: expected a graph, received NULL");
    assert_null(muster_expr_parse_named(NULL, "x", NULL, NULL, 0));
    assert_ok(muster_graph_destroy(other));
    close_graph();
}

/* What stands for an error stays the error, and its message comes back. */
static void an_error_goes_through_a_text(void **state) {
    open_graph(state);
    muster_expr *wrong = muster_expr_parse(graph, "x @ b");
    char first[512];
    snprintf(first, sizeof first, "%s", muster_last_error());
    assert_int_not_equal(muster_graph_output(graph, "o", NULL, MUSTER_AUTO), MUSTER_OK);
    assert_ptr_equal(muster_expr_parse(graph, "exp(h) + 1", "h", wrong), wrong);
    assert_string_equal(muster_last_error(), first);
    assert_ptr_equal(muster_expr_parse(graph, "x + y", "h", wrong), B("add", x, y)); /* it is not used */
    close_graph();
}

/* A long text is quoted by what is around the place; characters are never cut. */
static void a_long_text_is_quoted_in_part(void **state) {
    static const char *const rows[][2] = {
        {"x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + nobody + x + x + x + x + x + x",
         "\"...x + x + x + x + x + nobody + x + x + x +...\", column 65: "},
        {"nobody + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x", "\"nobody + x + x + x +...\", column 1: "},
        {"x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + nobody", "\"...x + x + x + x + x + nobody\", column 65: "},
        {"µµµµµµµµµµµµµµµµµµµµ = x + x; x + x + x; x + ööööööööööööööööö + µµµµµµµµµµµµµµµµµµµµ",
         "\"...+ x; x + x + x; x + öööööööööö...\", column 46: "},
    };
    for (int32_t i = 0; i < 4; i++) {
        char expected[256];
        open_graph(state);
        (void)muster_expr_parse(graph, rows[i][0]);
        snprintf(expected, sizeof expected, "muster_expr_parse: %s", rows[i][1]);
        if (strncmp(muster_last_error(), expected, strlen(expected)) != 0)
            fail_msg("expected %s, received %s", expected, muster_last_error());
        close_graph();
    }
}

/* ---- limits ---- */

static char *repeated(const char *before, const char *part, int64_t times, const char *middle, const char *after) {
    const size_t one = strlen(part), two = strlen(after), begin = strlen(before), center = strlen(middle);
    char *text = malloc(begin + (one + two) * (size_t)times + center + 1), *at = text;
    assert_non_null(text);
    memcpy(at, before, begin), at += begin;
    for (int64_t i = 0; i < times; i++, at += one) memcpy(at, part, one);
    memcpy(at, middle, center), at += center;
    for (int64_t i = 0; i < times; i++, at += two) memcpy(at, after, two);
    *at = 0;
    return text;
}

static void nesting_ends_at_256_levels(void **state) {
    static const char *const levels[][4] = {
        {"", "(", "x", ")"}, {"", "-", "x", ""}, {"x", " ** x", "", ""}, {"", "relu(", "x", ")"}, {"", "s + s * (", "s", ")"}};
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t over = 0; over < 2; over++) {
            open_graph(state);
            char *text = repeated(levels[i][0], levels[i][1], DEPTH + over, levels[i][2], levels[i][3]);
            muster_expr *got = muster_expr_parse(graph, text);
            if (over) {
                assert_ptr_equal(got, graph->graph->error);
                assert_non_null(strstr(muster_last_error(), "expected at most 256 levels of nesting, received more"));
                assert_int_equal(muster_graph_status(graph), MUSTER_UNSUPPORTED);
            } else if (got == graph->graph->error) {
                fail_msg("%s", muster_last_error());
            }
            free(text);
            close_graph();
        }
    }
}

/* About 10 MB: statements of different names, arguments, one long name, blanks. */
static void long_texts_are_read(void **state) {
    enum { STATEMENTS = 600 * 1000 / SLOWER };
    open_graph(state);
    char *text = malloc((size_t)STATEMENTS * 20 + 20), *at = text;
    assert_non_null(text);
    for (int32_t i = 0; i < STATEMENTS; i++) at += sprintf(at, "n%07d = x + y;", (int)i);
    sprintf(at, "n%07d", STATEMENTS - 1);
    const int32_t nodes = graph->graph->node_count;
    assert_ptr_equal(muster_expr_parse(graph, text), B("add", x, y));
    assert_int_equal(graph->graph->node_count, nodes + 1);
    free(text);
    text = repeated("sum(concatenate(s[None]", ", s[None]", 1000 * 1000 / SLOWER, "))", "");
    assert_int_equal(muster_expr_ndim(muster_expr_parse(graph, text)), 0);
    free(text);
    text = repeated("x +", " ", (10 << 20) / SLOWER, "y", "");
    assert_ptr_equal(muster_expr_parse(graph, text), B("add", x, y));
    free(text);
    text = repeated("1", "0", 300, "e-300 * s", "");
    assert_ptr_equal(muster_expr_parse(graph, text), B("multiply", number(1), s));
    free(text);
    assert_ok(muster_graph_status(graph));
    text = repeated("x", "n", 10 << 20, "", "");
    assert_ptr_equal(muster_expr_parse(graph, text), graph->graph->error);
    assert_non_null(strstr(muster_last_error(), "received \"xnnn"));
    free(text);
    close_graph();
}

static void more_than_16_mib_are_refused(void **state) {
    for (int32_t over = 0; over < 2; over++) {
        open_graph(state);
        char *text = repeated("x", " ", (16 << 20) - 1 + over, "", "");
        muster_expr *got = muster_expr_parse(graph, text);
        if (over)
            assert_string_equal(muster_last_error(), "muster_expr_parse: text: expected at most 16 MiB, received more");
        else
            assert_ptr_equal(got, x);
        assert_int_equal(muster_graph_status(graph), over ? MUSTER_UNSUPPORTED : MUSTER_OK);
        free(text);
        close_graph();
    }
}

/* Numbers have a point whatever the program's locale has. */
static void numbers_do_not_depend_on_the_locale(void **state) {
    open_graph(state);
    const locale_t comma = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    const locale_t before = comma ? uselocale(comma) : (locale_t)0;
    assert_ptr_equal(muster_expr_parse(graph, "x * 1.5"), B("multiply", x, number(1.5)));
    if (comma) {
        uselocale(before);
        freelocale(comma);
    }
    close_graph();
}

/* The deepest texts, right and wrong, on a stack of 64 KiB. */
static void *parse_deep(void *argument) {
    (void)argument;
    for (int32_t i = 0; i < 2; i++) {
        char *text = repeated("", "s + s ** -relu(s * (", 64, i ? "x @ b" : "s", "))");
        (void)muster_expr_parse(graph, text);
        free(text);
    }
    return NULL;
}

static void deep_texts_need_little_stack(void **state) {
    pthread_attr_t attributes;
    pthread_t thread;
    open_graph(state);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, parse_deep, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_int_equal(muster_graph_status(graph), MUSTER_SHAPE_MISMATCH); /* of the second */
    close_graph();
}

/* Each allocation fails once. */
static void every_failed_allocation_is_said(void **state) {
    static const char text[] = "h = relu(x @ w + b); g = sum(h[1:, None], axis=[0, 1]) * 2 ** -s; mean(concatenate([g, h[0]], axis=0))";
    const int64_t live = mst_memory_live();
    int32_t failed = 0;
    for (int64_t k = 1;; k++) {
        open_graph(state);
        mst_memory_fail_at(k);
        muster_expr *got = muster_expr_parse(graph, text, "x", x, "b", b);
        mst_memory_fail_at(0);
        const muster_status status = muster_graph_status(graph);
        assert_int_equal(got == graph->graph->error, status != MUSTER_OK);
        close_graph();
        if (status == MUSTER_OK) break;
        if (status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        failed++;
    }
    assert_true(failed >= 4);
    assert_true(mst_memory_live() - live <= 8);
}

/* ---- values ---- */

/* A row of the hidden layer: relu(x w + b), normalised, without its first column. */
static void the_values_are_those_of_loops(void **state) {
    enum { ROWS = 6, K = 4, M = 3 };
    float a[ROWS][K], weights[K][M], bias[M], got[ROWS][M - 1];
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) a[i][k] = (float)((7 * i + 3 * k) % 11 - 5) / 4;
    for (int32_t k = 0; k < K; k++)
        for (int32_t m = 0; m < M; m++) weights[k][m] = (float)((5 * k + 2 * m) % 7 - 3) / 2;
    for (int32_t m = 0; m < M; m++) bias[m] = (float)m - 0.5f;
    assert_ok(muster_graph_create(*state, "values", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(ROWS, K), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(K, M), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(M), MUSTER_BROADCAST);
    muster_expr *result = muster_expr_parse(graph, "h = relu(x @ w + b); z = -h ** 2 / (1 + sum(h, 1)[:, None]); z[::-1, 1:]");
    assert_ok(muster_graph_output(graph, "z", result, MUSTER_AUTO));
    muster_function *function;
    assert_ok(muster_graph_compile(graph, NULL, &function));
    close_graph();
    const muster_tensor in[] = {muster_f32(a, ROWS, K), muster_f32(weights, K, M), muster_f32(bias, M)}, out = muster_f32(got, ROWS, M - 1);
    assert_ok(muster_function_call(function, in, 3, &out, 1, NULL));
    int32_t others = 0;
    for (int32_t i = 0; i < ROWS; i++) {
        double h[M], sum = 0;
        for (int32_t m = 0; m < M; m++) {
            h[m] = bias[m];
            for (int32_t k = 0; k < K; k++) h[m] += (double)a[i][k] * weights[k][m];
            h[m] = h[m] > 0 ? h[m] : 0;
            sum += h[m];
        }
        for (int32_t m = 1; m < M; m++) {
            const double expected = -(h[m] * h[m]) / (1 + sum);
            assert_true(fabs(got[ROWS - 1 - i][m - 1] - expected) <= 1e-6 * (1 + fabs(expected)));
            others += expected != 0;
        }
    }
    assert_true(others >= 4);
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precedence_is_that_of_python),
        cmocka_unit_test(numbers_names_and_calls_are_read),
        cmocka_unit_test(indices_are_those_of_numpy),
        cmocka_unit_test(names_given_with_the_text_come_first),
        cmocka_unit_test(numbers_stand_for_names),
        cmocka_unit_test(other_values_for_names_are_refused),
        cmocka_unit_test(names_may_have_points),
        cmocka_unit_test(unknown_names_with_points_are_quoted_whole),
        cmocka_unit_test(messages_name_the_text_and_the_column),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(an_error_goes_through_a_text),
        cmocka_unit_test(a_long_text_is_quoted_in_part),
        cmocka_unit_test(nesting_ends_at_256_levels),
        cmocka_unit_test(long_texts_are_read),
        cmocka_unit_test(more_than_16_mib_are_refused),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(deep_texts_need_little_stack),
        cmocka_unit_test(every_failed_allocation_is_said),
        cmocka_unit_test(the_values_are_those_of_loops),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
