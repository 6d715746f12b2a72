/* Checked graphs (check_memory): an operator with a wrong shape rule, a wrong view, a wrong
 * declaration of in-place writing or a wrong gradient is caught with its name; right ones pass, and
 * give the same bits. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/operator.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 6, K = 4 };
static float x[ROWS][K];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5) / 4;
}

typedef enum fault {
    RIGHT,
    SHORT,    /* the last row is not written */
    LONG,     /* a row behind the result is written */
    BEFORE,   /* a row in front of it, too */
    OPERAND,  /* the operand is written */
    UNSTEADY, /* every run gives another value */
    IN_PLACE, /* what has been written over the operand is read */
    VIEW,     /* the view has the rows of the operand in another order */
    OUTSIDE,  /* the view begins behind the operand's first row, but has as many */
    GRADIENT, /* the gradient is twice as large */
    FAULTS
} fault;
static fault fault_now;
static int32_t unsteady;

static muster_tensor rows_of(muster_tensor t, int64_t first, int64_t rows) {
    t.byte_offset += first * t.strides[0] * muster_dtype_size(t.dtype);
    t.shape[0] = rows;
    return t;
}

/* y = the rows of x in reverse, row by row. */
static muster_status reverse_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    const int64_t rows = in[0].shape[0];
    (void)node;
    (void)user;
    for (int64_t i = fault_now == SHORT; i < rows; i++)
        MUSTER_TRY(muster_copy(worker, rows_of(in[0], i, 1), rows_of(out[0], rows - 1 - i, 1)));
    muster_tensor beyond = rows_of(out[0], fault_now == LONG ? rows : -1, 1);
    if (fault_now == LONG || fault_now == BEFORE) MUSTER_TRY(muster_copy(worker, rows_of(in[0], 0, 1), beyond));
    if (fault_now == OPERAND) MUSTER_TRY(muster_fill(worker, 3, in[0]));
    if (fault_now == UNSTEADY) MUSTER_TRY(muster_fill(worker, unsteady++, rows_of(out[0], 0, 1)));
    return MUSTER_OK;
}

static muster_status reverse_gradient(const muster_operator_node *node, muster_expr *const *operands, muster_expr *const *y,
                                      muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)node;
    (void)operands;
    (void)y;
    (void)user;
    dx[0] =
        muster_expr_parse(muster_operator_graph(node), fault_now == GRADIENT ? "2 * flip(dy, axis=0)" : "flip(dy, axis=0)", "dy", dy[0]);
    return MUSTER_OK;
}

static int32_t reverse_view(const muster_operator_node *node, const muster_tensor *from, muster_tensor *y, void *user) {
    (void)node;
    (void)user;
    y->strides[0] = -from->strides[0];
    y->strides[1] = from->strides[1];
    y->byte_offset = (from->shape[0] - 1) * from->strides[0] * muster_dtype_size(from->dtype);
    if (fault_now == VIEW) y->strides[0] = from->strides[0], y->byte_offset = 0;
    if (fault_now == OUTSIDE) y->strides[0] = from->strides[0], y->byte_offset = from->strides[0] * muster_dtype_size(from->dtype);
    return 1;
}

/* y = 2 x. IN_PLACE: by way of a sum with x, after y has been written. */
static muster_status twice_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)node;
    (void)user;
    if (fault_now != IN_PLACE) return muster_binary_scalar(worker, MUSTER_MUL, in[0], 2, out[0]);
    MUSTER_TRY(muster_binary_scalar(worker, MUSTER_MUL, in[0], 1.5, out[0]));
    return muster_axpy(worker, 0.5, in[0], out[0]);
}

static muster_function *checked(muster_graph *graph, int32_t check) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    options.check_memory = check;
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

/* reverse(twice(x * x)) with operators as the faults need them. */
static muster_status run_with(muster_runtime *runtime, bool views, int32_t check, float got[ROWS][K]) {
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend reverse = {NULL, reverse_body}, twice = {NULL, twice_body};
    muster_operator_options options;
    muster_operator *made[2];
    muster_graph *graph;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = &reverse;
    options.body_count = 1;
    options.gradient = reverse_gradient;
    if (views) options.view = reverse_view;
    assert_ok(muster_operator_create(runtime, "reverse_rows", &options, &made[0]));
    options.bodies = &twice;
    options.gradient = NULL;
    options.view = NULL;
    options.in_place = 1;
    assert_ok(muster_operator_create(runtime, "twice", &options, &made[1]));
    assert_ok(muster_graph_create(runtime, "checked", &graph));
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *y = APPLY(graph, "reverse_rows", APPLY(graph, "twice", APPLY(graph, "square", a)));
    assert_ok(muster_graph_output(graph, "y", APPLY(graph, "negative", y), MUSTER_GATHER));
    muster_function *function = checked(graph, check);
    const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(got, ROWS, K);
    const muster_status status = muster_function_call(function, &in, 1, &out, 1, NULL);
    char message[512];
    muster_last_error_copy(message, sizeof message);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    for (int32_t i = 0; i < 2; i++) assert_ok(muster_operator_destroy(made[i]));
    return status == MUSTER_OK ? MUSTER_OK : muster_fail(status, message);
}

/* -2 x x of the rows in reverse. */
static void expect_right(float got[ROWS][K], int64_t rows_of_each, int32_t devices) {
    for (int32_t i = 0; i < ROWS; i++) {
        const int64_t first = i / rows_of_each * rows_of_each, from = devices == 1 ? ROWS - 1 - i : first + rows_of_each - 1 - (i - first);
        for (int32_t k = 0; k < K; k++) assert_true(got[i][k] == -2 * x[from][k] * x[from][k]);
    }
}

/* Right operators pass, with the bits of an unchecked call, also where the result is a view and
 * where it has the memory of its operand. */
static void right_operators_pass(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "discrete:2"};
    int32_t passed = 0;
    (void)state;
    fault_now = RIGHT;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int32_t views = 0; views < 2; views++)
            for (int32_t check = 0; check < 2; check++, passed++) {
                muster_runtime *runtime = graph_runtime(machines[m]);
                float got[ROWS][K];
                const int32_t devices = m ? 2 : 1;
                assert_ok(run_with(runtime, views, check, got));
                expect_right(got, ROWS / devices, devices);
                assert_ok(muster_runtime_close(runtime));
            }
    assert_int_equal(passed, 12);
}

static void wrong_operators_are_caught(void **state) {
    static const struct {
        fault fault;
        const char *message;
    } rows[] = {
        {SHORT, "operator \"reverse_rows\": result 0: expected the same values from the same operands, with every element of the shape"},
        {LONG, "operator \"reverse_rows\": result 0: expected writes inside of the shape that the rule says, received one outside"},
        {BEFORE, "operator \"reverse_rows\": result 0: expected writes inside of the shape that the rule says, received one outside"},
        {OPERAND, "operator \"reverse_rows\": operand 0: expected values that stay, received another f32 in element"},
        {UNSTEADY, "operator \"reverse_rows\": result 0: expected the same values from the same operands"},
        {IN_PLACE, "operator \"twice\": result 0: in_place: expected the same values in the memory of operand x as elsewhere"},
        {VIEW, "operator \"reverse_rows\": result 0: view: expected the values of the body, received others of operand x from element"},
        {OUTSIDE, "operator \"reverse_rows\": result 0: view: expected elements of operand x, received some outside of it"},
    };
    static const char *const machines[] = {"host:1", "discrete:1"};
    int32_t caught = 0;
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, caught++) {
            muster_runtime *runtime = graph_runtime(machines[m]);
            float got[ROWS][K];
            fault_now = rows[i].fault;
            assert_refused(run_with(runtime, fault_now == VIEW || fault_now == OUTSIDE, 1, got), MUSTER_USER, rows[i].message);
            assert_non_null(strstr(muster_last_error(), "test.c:1)"));
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(caught, 2 * (FAULTS - 2)); /* all but RIGHT and GRADIENT */
}

/* A view that leaves its operand is not used in an unchecked call: the body computes the result. */
static void a_view_outside_is_not_used(void **state) {
    float got[ROWS][K];
    fault_now = OUTSIDE;
    assert_ok(run_with(*state, true, 0, got));
    expect_right(got, ROWS, 1);
}

/* The environment asks for checks, too; the option goes before it, and a wrong value is refused. */
static void the_environment_asks_for_checks(void **state) {
    float got[ROWS][K];
    muster_graph *graph;
    muster_function *function;
    fault_now = SHORT;
    assert_int_equal(setenv("MUSTER_GRAPH_CHECK", "1", 1), 0);
    assert_refused(run_with(*state, false, 0, got), MUSTER_USER, "operator \"reverse_rows\"");
    assert_int_equal(setenv("MUSTER_GRAPH_CHECK", "0", 1), 0);
    assert_ok(run_with(*state, false, 0, got));
    assert_int_equal(setenv("MUSTER_GRAPH_CHECK", "yes", 1), 0);
    assert_ok(muster_graph_create(*state, "environment", &graph));
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", APPLY(graph, "exp", a), MUSTER_AUTO));
    assert_refused(muster_graph_compile(graph, NULL, &function), MUSTER_INVALID_ARGUMENT, "MUSTER_GRAPH_CHECK");
    assert_int_equal(unsetenv("MUSTER_GRAPH_CHECK"), 0);
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

/* muster_gradient_check names the operator whose gradient is wrong, and passes a right one. */
static void a_wrong_gradient_is_caught(void **state) {
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend reverse = {NULL, reverse_body};
    for (int32_t wrong = 0; wrong < 2; wrong++) {
        muster_operator_options options;
        muster_operator *made;
        muster_graph *graph;
        fault_now = wrong ? GRADIENT : RIGHT;
        muster_operator_options_init(&options);
        options.operands = operands;
        options.bodies = &reverse;
        options.body_count = 1;
        options.gradient = reverse_gradient;
        assert_ok(muster_operator_create(*state, "reverse_rows", &options, &made));
        assert_ok(muster_graph_create(*state, "gradient", &graph));
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3), MUSTER_SCATTER);
        muster_expr *loss = APPLY(graph, "sum", APPLY(graph, "square", APPLY(graph, "reverse_rows", APPLY(graph, "tanh", a))));
        const muster_status status = muster_gradient_check(loss, NULL, 0, NULL, NULL);
        if (wrong) {
            assert_int_not_equal(status, MUSTER_OK);
            assert_non_null(strstr(muster_last_error(), "reverse_rows"));
        } else {
            assert_ok(status);
        }
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(made));
    }
}

/* Memory that nothing needs is NaN: a wrong plan would give NaN, a right one gives the bits of an
 * unchecked call. The graph has values that are used late, views, and operands written over. */
static void a_checked_graph_gives_the_same_bits(void **state) {
    float got[2][ROWS][K];
    for (int32_t check = 0; check < 2; check++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(*state, "bits", &graph));
        (void)muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *e = muster_expr_parse(graph, "cumsum(exp(a), 0)"), *t = e;
        for (int32_t i = 0; i < 5; i++) t = muster_expr_parse(graph, "cumsum(tanh(t) + flip(e, axis=0), 1) - mean(t) * e", "t", t, "e", e);
        assert_ok(muster_graph_output(graph, "t", t, MUSTER_AUTO));
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.check_memory = check;
        muster_function *function;
        assert_ok(muster_graph_compile(graph, &options, &function));
        const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(got[check], ROWS, K);
        for (int32_t call = 0; call < 2; call++) assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_graph_destroy(graph));
    }
    assert_true(isfinite(got[0][0][0]) && got[0][0][0] != 0);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

static muster_tensor remembered;
static float found[3];

static muster_status remember_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                   void *user) {
    (void)node;
    (void)user;
    remembered = in[0];
    return muster_copy(worker, in[0], out[0]);
}

static muster_status look_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    (void)node;
    (void)user;
    MUSTER_TRY(muster_worker_read(worker, remembered, muster_f32(found, 3)));
    return muster_copy(worker, in[0], out[0]);
}

/* An operator keeps the address of a value that nothing needs after it: the next one finds NaN
 * there. */
static void memory_that_nothing_needs_is_nan(void **state) {
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend bodies[] = {{NULL, remember_body}, {NULL, look_body}};
    muster_operator *made[2];
    muster_graph *graph;
    for (int32_t i = 0; i < 2; i++) {
        muster_operator_options options;
        muster_operator_options_init(&options);
        options.operands = operands;
        options.bodies = &bodies[i];
        options.body_count = 1;
        assert_ok(muster_operator_create(*state, i ? "look" : "remember", &options, &made[i]));
    }
    assert_ok(muster_graph_create(*state, "dead", &graph));
    (void)muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "negative(look(remember(cumsum(a, 0))))"), MUSTER_MASTER));
    muster_function *function = checked(graph, 1);
    float values[3] = {1, 2, 3}, got[3];
    const muster_tensor in = muster_f32(values, 3), out = muster_f32(got, 3);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    assert_true(got[0] == -1 && got[1] == -3 && got[2] == -6);
    for (int32_t i = 0; i < 3; i++) assert_true(isnan(found[i]));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    for (int32_t i = 0; i < 2; i++) assert_ok(muster_operator_destroy(made[i]));
}

static int open_runtime(void **state) {
    fill_numbers();
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_runtime, graph_close)
    const struct CMUnitTest tests[] = {
        TEST(right_operators_pass),
        TEST(wrong_operators_are_caught),
        TEST(a_view_outside_is_not_used),
        TEST(the_environment_asks_for_checks),
        TEST(a_wrong_gradient_is_caught),
        TEST(a_checked_graph_gives_the_same_bits),
        TEST(memory_that_nothing_needs_is_nan),
    };
    if (mst_discrete_register() != MUSTER_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
