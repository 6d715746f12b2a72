/* Attributes as a program gives them: each kind of value for each kind of attribute, with the kind
 * said and not. What is taken gives the node of the same text, since equal nodes are one; what is
 * refused names the attribute, what it expects and what it received. */
#include "graph_fixture.h"
#include "graph_private.h"

static muster_graph *graph;
static muster_expr *x;

typedef struct attribute_row {
    const char *operation;
    const char *name, *expected; /* of the attribute; what messages expect */
    const char *taken_integer;   /* the text that the integer 2 stands for; NULL: refused */
    const char *taken;           /* the text of its own kind's value below */
    int32_t kind, other;         /* its kind, and one that is the same here */
} attribute_row;

/* x is (6, 4, 2) f32. */
static const attribute_row rows[] = {
    {"elu", "alpha", "a number", "elu(x, 2)", "elu(x, 1.5)", MUSTER_ATTRIBUTE_NUMBER, 0},
    {"cumsum", "axis", "an integer", "cumsum(x, axis=2)", "cumsum(x, axis=2)", MUSTER_ATTRIBUTE_INTEGER, 0},
    {"cast", "dtype", "a dtype", NULL, "cast(x, bf16)", MUSTER_ATTRIBUTE_DTYPE, 0},
    {"sum", "axis", "a list of integers", "sum(x, axis=[2])", "sum(x, axis=[2, 1])", MUSTER_ATTRIBUTE_LIST, MUSTER_ATTRIBUTE_SIZES},
    {"full_of", "shape", "a list of sizes", "reshape(x[0, :2, 0], [2])", "reshape(x[0, :1], [2, 1])", MUSTER_ATTRIBUTE_SIZES,
     MUSTER_ATTRIBUTE_LIST},
    {"einsum", "subscripts", "a text", NULL, "einsum(\"ijk->kji\", x)", MUSTER_ATTRIBUTE_TEXT, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const int64_t two_one[] = {2, 1};
/* The values: every member of the kind is set, and no other. */
static const muster_attribute values[] = {
    {.number = 1.5, .kind = MUSTER_ATTRIBUTE_NUMBER},
    {.integer = 2, .kind = MUSTER_ATTRIBUTE_INTEGER},
    {.integer = MUSTER_BF16, .kind = MUSTER_ATTRIBUTE_DTYPE},
    {.integers = two_one, .count = 2, .kind = MUSTER_ATTRIBUTE_LIST},
    {.integers = two_one, .count = 2, .kind = MUSTER_ATTRIBUTE_SIZES},
    {.text = "ijk->kji", .kind = MUSTER_ATTRIBUTE_TEXT},
    {.integer = 1, .kind = MUSTER_ATTRIBUTE_TRUTH},
};
static const char *const received[] = {"the number 1.5",  "the integer 2",         "a dtype", "a list of integers",
                                       "a list of sizes", "the text \"ijk->kji\"", "True"};
enum { VALUES = sizeof values / sizeof *values };

static void open_graph(void **state) {
    assert_ok(muster_graph_create(*state, "attributes", &graph));
    x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(6, 4, 2), MUSTER_BROADCAST);
}

static void close_graph(void) { assert_ok(muster_graph_destroy(graph)); }

/* The operand of a reshape must have as many elements as the shape. */
static muster_expr *operand_of(const attribute_row *row, const muster_attribute *value) {
    if (strcmp(row->operation, "full_of") != 0) return x;
    return muster_expr_parse(graph, value->kind == MUSTER_ATTRIBUTE_INTEGER ? "x[0, :2, 0]" : "x[0, :1]");
}

static muster_expr *apply_row(const attribute_row *row, const muster_attribute *value) {
    muster_attribute given[2] = {*value, {.name = NULL}};
    given[0].name = row->name;
    muster_expr *made, *operand = operand_of(row, value);
    const char *operation = strcmp(row->operation, "full_of") == 0 ? "reshape" : row->operation;
    (void)muster_expr_apply(graph, operation, &operand, 1, given, NULL, &made);
    return made;
}

static bool takes(const attribute_row *row, int32_t kind) {
    if (kind == row->kind || (row->other && kind == row->other)) return true;
    return kind == MUSTER_ATTRIBUTE_TRUTH && row->kind == MUSTER_ATTRIBUTE_INTEGER;
}

static void check_refusal(const attribute_row *row, const char *what) {
    char expected[256];
    snprintf(expected, sizeof expected, "muster_expr_%s: %s: expected %s, received %s",
             strcmp(row->operation, "full_of") == 0 ? "reshape" : row->operation, row->name, row->expected, what);
    assert_string_equal(muster_last_error(), expected);
}

/* With kind: every kind of value for every kind of attribute. */
static void each_kind_is_taken_or_refused_by_name(void **state) {
    int32_t cases = 0, taken = 0;
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t v = 0; v < VALUES; v++, cases++) {
            const attribute_row *row = &rows[i];
            open_graph(state);
            muster_expr *made = apply_row(row, &values[v]);
            const char *text = values[v].kind == MUSTER_ATTRIBUTE_INTEGER ? row->taken_integer
                               : values[v].kind == MUSTER_ATTRIBUTE_TRUTH ? (takes(row, values[v].kind) ? "cumsum(x, axis=1)" : NULL)
                               : takes(row, values[v].kind)               ? row->taken
                                                                          : NULL;
            if (text)
                assert_ptr_equal(made, muster_expr_parse(graph, text));
            else
                check_refusal(row, received[v]);
            taken += text != NULL;
            close_graph();
        }
    assert_int_equal(cases, 42);
    assert_int_equal(taken, 12); /* 6 of their kind, 2 lists of the other kind, 3 integers, 1 truth value */
}

/* Without kind: the attribute's own member is read, and any other that is not 0 is refused. */
static void without_a_kind_another_member_is_refused(void **state) {
    static const char *const members[] = {"the number 1.5", "the integer 2", "a list of integers", "the text \"ijk->kji\""};
    static const int32_t from[] = {0, 1, 3, 5};
    int32_t cases = 0;
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t m = 0; m < 4; m++, cases++) {
            const attribute_row *row = &rows[i];
            muster_attribute value = values[from[m]];
            open_graph(state);
            if (row->kind == MUSTER_ATTRIBUTE_DTYPE && value.kind == MUSTER_ATTRIBUTE_INTEGER) value.integer = MUSTER_BF16;
            const bool own = value.kind == row->kind || value.kind == row->other ||
                             (row->kind == MUSTER_ATTRIBUTE_DTYPE && value.kind == MUSTER_ATTRIBUTE_INTEGER);
            value.kind = 0;
            muster_expr *made = apply_row(row, &value);
            if (own)
                assert_ptr_equal(made, muster_expr_parse(graph, row->taken));
            else
                check_refusal(row, members[m]);
            close_graph();
        }
    assert_int_equal(cases, 24);
}

/* Two members without a kind: the one that is not read is refused, whatever else is right. */
static void a_list_beside_an_integer_is_refused_without_a_kind(void **state) {
    open_graph(state);
    muster_attribute both = {.integers = two_one, .count = 2, .integer = 1};
    (void)apply_row(&rows[3], &both);
    check_refusal(&rows[3], "the integer 1");
    both = (muster_attribute){.integers = two_one, .count = 2, .integer = 1, .kind = MUSTER_ATTRIBUTE_LIST};
    assert_ptr_equal(apply_row(&rows[3], &both), muster_expr_parse(graph, rows[3].taken));
    const muster_attribute zero = {.integers = NULL, .number = -0.0};
    assert_ptr_equal(apply_row(&rows[3], &zero), muster_expr_parse(graph, "sum(x)"));
    close_graph();
}

static void an_integer_for_a_list_is_checked_as_the_list(void **state) {
    open_graph(state);
    const muster_attribute seven = {.integer = 7, .kind = MUSTER_ATTRIBUTE_INTEGER};
    (void)apply_row(&rows[3], &seven);
    assert_string_equal(muster_last_error(), "muster_expr_sum: axis: expected an axis of x \"x\" (6, 4, 2) f32, received 7");
    const muster_attribute last = {.integer = -1, .kind = MUSTER_ATTRIBUTE_INTEGER};
    assert_ptr_equal(apply_row(&rows[3], &last), muster_expr_parse(graph, "sum(x, axis=[-1])"));
    close_graph();
}

static void kinds_that_do_not_exist_are_refused(void **state) {
    static const int32_t kinds[] = {-1, MUSTER_ATTRIBUTE_TRUTH + 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char expected[128];
        const muster_attribute value = {.integer = 1, .kind = kinds[i]};
        open_graph(state);
        (void)apply_row(&rows[1], &value);
        snprintf(expected, sizeof expected, "muster_expr_cumsum: axis: kind: expected a kind of attribute or 0, received %d",
                 (int)kinds[i]);
        assert_string_equal(muster_last_error(), expected);
        close_graph();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_taken_or_refused_by_name),
        cmocka_unit_test(without_a_kind_another_member_is_refused),
        cmocka_unit_test(a_list_beside_an_integer_is_refused_without_a_kind),
        cmocka_unit_test(an_integer_for_a_list_is_checked_as_the_list),
        cmocka_unit_test(kinds_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
