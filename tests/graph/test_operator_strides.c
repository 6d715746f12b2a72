/* Operands of operators are contiguous: a body of plain loops over addresses is right for views of
 * every kind. An operator that takes strides gets them, and a checked graph hands it others. */
#include "graph_fixture.h"
#include "memory_impl.h"
#include "muster/operator.h"

#include <stdio.h>

enum { ROWS = 6, K = 4 };
static float a[ROWS][K];
static const char *const two_operands[] = {"x", "y", NULL};

typedef struct seen {
    bool plain[2]; /* have operands been contiguous, in this body? */
    bool by_strides, wrong;
} seen;
static seen seen_now;

static bool is_plain(const muster_tensor *t) {
    return t->ndim == 2 && t->strides[1] == 1 && t->strides[0] == (t->shape[1] > 0 ? t->shape[1] : 1);
}

/* x + 10 y, by addresses: x always as if it were contiguous; y by its strides, if it has any. */
static muster_status loops_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)worker;
    (void)node;
    (void)user;
    const float *x = muster_tensor_address(in[0]), *y = muster_tensor_address(in[1]);
    float *to = muster_tensor_address(out[0]);
    for (int32_t i = 0; i < 2; i++) seen_now.plain[i] = is_plain(&in[i]);
    for (int64_t r = 0, e = 0; r < out[0].shape[0]; r++)
        for (int64_t k = 0; k < out[0].shape[1]; k++, e++)
            to[e] = x[e] + 10 * y[seen_now.by_strides ? r * in[1].strides[0] + k * in[1].strides[1] : e];
    return MUSTER_OK;
}

static muster_operator *operator_made(muster_runtime *runtime, uint32_t strided) {
    static const muster_operator_backend body = {"host", loops_body};
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = two_operands;
    options.bodies = &body;
    options.body_count = 1;
    options.strided_operands = strided;
    assert_ok(muster_operator_create(runtime, "loops", &options, &made));
    return made;
}

static muster_function *function_made(muster_runtime *runtime, const char *text, int32_t check) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "strides", &graph));
    (void)muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(ROWS, K), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "row", MUSTER_F32, MUSTER_SHAPE(ROWS), MUSTER_BROADCAST);
    muster_expr *y = muster_expr_parse(graph, text);
    if (muster_expr_ndim(y) != 2) fail_msg("%s: %s", text, muster_last_error());
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_MASTER));
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    options.check_memory = check;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static muster_status call(muster_function *function, int64_t rows, int64_t columns, float *got) {
    float row[ROWS];
    for (int32_t i = 0; i < ROWS; i++) row[i] = (float)i;
    const muster_tensor in[] = {muster_f32(a, ROWS, K), muster_f32(row, ROWS)}, out = muster_f32(got, rows, columns);
    return muster_function_call(function, in, 2, &out, 1, NULL);
}

/* Element (r, k) of each view that the texts below make of a and row, by its definition. */
static float transposed(int64_t r, int64_t k) { return a[k][r]; }
static float flipped(int64_t r, int64_t k) { return a[ROWS - 1 - r][k]; }
static float backwards(int64_t r, int64_t k) { return a[r][K - 1 - k]; }
static float middle(int64_t r, int64_t k) { return a[r][k + 1]; }
static float spread(int64_t r, int64_t k) {
    (void)k;
    return (float)r;
}
static float one_column(int64_t r, int64_t k) { return a[r][k + 2]; }

static const struct view {
    const char *text;
    int64_t rows, columns;
    float (*element)(int64_t, int64_t);
} views[] = {
    {"a.T", K, ROWS, transposed},
    {"a[::-1]", ROWS, K, flipped},
    {"a[:, ::-1]", ROWS, K, backwards},
    {"a[:, 1:3]", ROWS, 2, middle},
    {"broadcast_to(reshape(row, [6, 1]), [6, 4])", ROWS, K, spread},
    {"a[:, 2:3]", ROWS, 1, one_column},
};
enum { VIEWS = sizeof views / sizeof *views };

static void expect(const struct view *v, const float *got) {
    for (int64_t r = 0, e = 0; r < v->rows; r++)
        for (int64_t k = 0; k < v->columns; k++, e++)
            if (got[e] != 11 * v->element(r, k)) fail_msg("%s: element (%d, %d)", v->text, (int)r, (int)k);
}

/* Without the mask, bodies see contiguous operands; with it, the strides of the view. */
static void operands_are_contiguous_unless_strides_are_taken(void **state) {
    int32_t calls = 0, strided = 0;
    for (uint32_t mask = 0; mask <= 2; mask += 2) {
        muster_operator *made = operator_made(*state, mask);
        for (int32_t i = 0; i < VIEWS; i++) {
            char text[128];
            float got[ROWS * K];
            seen_now = (seen){.by_strides = mask != 0};
            snprintf(text, sizeof text, "loops(%s, %s)", views[i].text, views[i].text);
            muster_function *function = function_made(*state, text, 0);
            assert_ok(call(function, views[i].rows, views[i].columns, got));
            expect(&views[i], got);
            assert_true(seen_now.plain[0]);
            strided += !seen_now.plain[1];
            const int64_t before = mst_memory_count();
            for (int32_t again = 0; again < 3; again++, calls++) assert_ok(call(function, views[i].rows, views[i].columns, got));
            assert_int_equal(mst_memory_count(), before);
            expect(&views[i], got);
            assert_ok(muster_function_destroy(function));
        }
        assert_int_equal(strided, mask ? VIEWS : 0);
        assert_ok(muster_operator_destroy(made));
    }
    assert_int_equal(calls, 2 * VIEWS * 3);
}

/* A checked graph: a body that takes strides for granted is caught, even where all operands happen
 * to be contiguous; one that looks at them passes. */
static void a_checked_graph_hands_out_other_strides(void **state) {
    int32_t checked = 0;
    muster_operator *made = operator_made(*state, 2);
    for (int32_t right = 0; right < 2; right++, checked++) {
        float got[ROWS * K];
        seen_now = (seen){.by_strides = right};
        muster_function *function = function_made(*state, "loops(a + 0, a + 0)", 1);
        const muster_status status = call(function, ROWS, K, got);
        if (right)
            assert_ok(status);
        else
            assert_refused(status, MUSTER_USER,
                           "operator \"loops\": result 0: strided_operands: expected the same values from operands with other strides, "
                           "received another f32 in element");
        assert_ok(muster_function_destroy(function));
    }
    assert_int_equal(checked, 2);
    assert_ok(muster_operator_destroy(made));
}

static void a_mask_of_other_operands_is_refused(void **state) {
    static const muster_operator_backend body = {"host", loops_body};
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = two_operands;
    options.bodies = &body;
    options.body_count = 1;
    options.strided_operands = 4;
    assert_refused(muster_operator_create(*state, "loops", &options, &made), MUSTER_INVALID_ARGUMENT,
                   "muster_operator_create: strided_operands: expected a mask of 2 operands, received 0x4");
    options.strided_operands = 1;
    options.bodies = NULL;
    options.body_count = 0;
    options.text = "x + 10 * y";
    assert_refused(muster_operator_create(*state, "loops", &options, &made), MUSTER_INVALID_ARGUMENT,
                   "text: expected no other parts beside a text, received some");
}

static int open_runtime(void **state) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) a[i][k] = (float)(100 * i + k + 1);
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_contiguous_unless_strides_are_taken),
        cmocka_unit_test(a_checked_graph_hands_out_other_strides),
        cmocka_unit_test(a_mask_of_other_operands_is_refused),
    };
    return cmocka_run_group_tests(tests, open_runtime, graph_close);
}
