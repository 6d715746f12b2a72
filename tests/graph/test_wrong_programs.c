/* Wrong programs, each beside the message that it gets. A program is C with the functions of
 * muster/expr.h and muster/graph.h; the message is that of muster_graph_compile, whole, but for the
 * file and line before it ("@" stands for them), which are compared, too. */
#include "graph_fixture.h"
#include "muster/expr.h"

#include <stdlib.h>

static muster_runtime *runtime;
static muster_graph *g, *other;
static muster_variable *variable, *counter;
static muster_expr *x, *w, *labels, *n, *scalar, *foreign, *d[4];
static int32_t programs, faults;

static void begin(void) {
    assert_ok(muster_graph_create(runtime, "net", &g));
    x = muster_graph_input(g, "pixels", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 784), MUSTER_SCATTER);
    labels = muster_graph_input(g, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    w = muster_graph_input(g, "w1", MUSTER_F32, MUSTER_SHAPE(800, 10), MUSTER_BROADCAST);
    n = muster_graph_input(g, "n", MUSTER_I32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    scalar = muster_graph_input(g, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
}

/* The program has run; it is compiled with an output beside its own. */
static void end(int32_t line, const char *program, const char *expected) {
    muster_function *function = NULL;
    const char *received = "no error", *rest;
    (void)muster_graph_output(g, "beside", scalar, MUSTER_MASTER);
    if (muster_graph_compile(g, NULL, &function) != MUSTER_OK) received = muster_last_error();
    rest = received;
    if (*expected == '@' && strncmp(rest, __FILE__ ":", sizeof __FILE__) == 0) {
        char *after;
        const long found = strtol(rest + sizeof __FILE__, &after, 10);
        if (found >= line && found <= line + 2) rest = after; /* a program may take several lines */
    }
    programs++;
    if (strcmp(rest, expected + (*expected == '@')) != 0 || (*expected == '@') != (rest != received)) {
        faults++;
        print_error("%s:%d: %s\n  expected: %s\n  received: %s\n", __FILE__, (int)line, program, expected, received);
    }
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(g));
}

#define WRONG(program, expected)           \
    do {                                   \
        begin();                           \
        program;                           \
        end(__LINE__, #program, expected); \
    } while (0)

static void shapes(void **state) {
    (void)state;
    WRONG(muster_expr_matmul(x, w),
          "@: muster_expr_matmul: b \"w1\": expected extent 784 in axis 0 (the last of a \"pixels\" (rows, 784) f32), received (800, 10)");
    WRONG(muster_expr_matmul(x, scalar), "@: muster_expr_matmul: b \"rate\": expected 1 dimension or more, received a scalar");
    WRONG(muster_expr_add(x, w), "@: muster_expr_add: b \"w1\": expected a shape that broadcasts with (rows, 784), received (800, 10)");
    WRONG(muster_expr_relu(muster_expr_name(muster_expr_matmul(muster_expr_name(muster_expr_tanh(x), "h"), w), "z")),
          "@: muster_expr_matmul: b \"w1\": expected extent 784 in axis 0 (the last of a \"h\" (rows, 784) f32), received (800, 10)");
    WRONG(muster_expr_reshape(w, MUSTER_SHAPE(7, 11)),
          "@: muster_expr_reshape: shape: expected as many elements as x \"w1\" (800, 10) f32 has, received (7, 11)");
    WRONG(muster_expr_reshape(w, MUSTER_SHAPE(MUSTER_INFER, MUSTER_INFER)),
          "@: muster_expr_reshape: shape: expected one size to infer, received two");
    WRONG(muster_expr_reshape(w, MUSTER_SHAPE(-5, 8)), "@: muster_expr_reshape: shape: entry 0: expected a size, received -5");
    WRONG(muster_expr_sum(x, MUSTER_LIST(axis, 2)),
          "@: muster_expr_sum: axis: expected an axis of x \"pixels\" (rows, 784) f32, received 2");
    WRONG(muster_expr_sum(x, MUSTER_LIST(axis, 0, -2)), "@: muster_expr_sum: axis: expected each axis once, received 0 twice");
    WRONG(muster_expr_transpose(w, MUSTER_LIST(axes, 0, 0)),
          "@: muster_expr_transpose: axes: expected each axis of x \"w1\" (800, 10) f32 once, received 2 axes");
    WRONG(muster_expr_broadcast_to(w, MUSTER_SHAPE(10)),
          "@: muster_expr_broadcast_to: x \"w1\": expected a shape that broadcasts to (10,), received (800, 10)");
    WRONG(
        muster_expr_expand_dims(w, 5),
        "@: muster_expr_expand_dims: axis: expected a place for one of at most 8 axes beside those of x \"w1\" (800, 10) f32, received 5");
    WRONG(muster_expr_squeeze(w, MUSTER_LIST(axis, 0)), "@: muster_expr_squeeze: x \"w1\": expected size 1 in axis 0, received (800, 10)");
    WRONG(muster_expr_slice(x, MUSTER_LIST(start, 2)), "@: muster_expr_slice: start: expected all of axis 0, whose size only a call knows, "
                                                       "received a part ((rows, 784)); take(x, indices, axis) gathers "
                                                       "some, and batch of muster_call_options selects rows of a call");
    WRONG(muster_expr_slice(w, MUSTER_LIST(step, 0)), "@: muster_expr_slice: step: expected a step in axis 0, received 0");
    WRONG(muster_expr_slice(w, MUSTER_LIST(start, 0, 0, 0)),
          "@: muster_expr_slice: start: expected at most 2 entries, one for each axis of x \"w1\" (800, 10) f32, received 3");
    WRONG(muster_expr_concatenate(((muster_expr *[]){w, x}), 2, .axis = 1),
          "@: muster_expr_concatenate: x[1] \"pixels\": expected the shape of x \"w1\" (800, 10) f32 but for axis 1, whose sizes can be "
          "added, received (rows, 784)");
    WRONG(muster_expr_concatenate(((muster_expr *[]){x, x}), 2),
          "@: muster_expr_concatenate: x[0] \"pixels\": expected operands without rows in axis 0, since the rows of a call are spread over "
          "its workers, received (rows, 784)");
    WRONG(muster_expr_top_k(w, MUSTER_SHAPE(11)),
          "@: muster_expr_top_k: k: expected at most the last size of x \"w1\" (800, 10) f32, received 11");
    WRONG(muster_expr_top_k(w, MUSTER_SHAPE(MUSTER_INFER)), "@: muster_expr_top_k: k: entry 0: expected a size, received MUSTER_INFER");
    WRONG(muster_expr_top_k(w, MUSTER_SHAPE(2, 3)), "@: muster_expr_top_k: k: expected 1 size, received 2");
    WRONG(muster_expr_one_hot(labels, MUSTER_SHAPE(MUSTER_INFER), MUSTER_F32),
          "@: muster_expr_one_hot: k: entry 0: expected a size, received MUSTER_INFER");
    WRONG(muster_expr_scatter_add(x, labels, MUSTER_SHAPE(MUSTER_INFER)),
          "@: muster_expr_scatter_add: rows: entry 0: expected a size, received MUSTER_INFER");
    WRONG(muster_expr_eye(g, MUSTER_SHAPE(3, MUSTER_INFER), MUSTER_F32),
          "@: muster_expr_eye: shape: entry 1: expected a size, received MUSTER_INFER");
    WRONG(muster_expr_pad(w, MUSTER_LIST(before, INT64_MAX)), "@: muster_expr_pad: before: expected a sum of sizes that 64 bits hold in "
                                                              "axis 0, received before = 9223372036854775807, after = 9223372036854775807");
    WRONG(muster_expr_pad(w, MUSTER_LIST(before, -1)),
          "@: muster_expr_pad: before: expected sizes from 0 on in axis 0, received before = -1, after = -1");
    WRONG(muster_expr_tril(scalar), "@: muster_expr_tril: x \"rate\": expected 2 dimensions or more, received ()");
}

/* C takes a 0 for a null pointer without a warning, which would else mean all axes. */
static void numbers_in_place_of_lists(void **state) {
    (void)state;
    WRONG(muster_expr_sum(w, .axis = 0), "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_mean(w, .keepdims = 1, .axis = 0), "@: muster_expr_mean: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_sum(w, .axis = (0), .dtype = MUSTER_F64),
          "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_softmax(w, 0), "@: muster_expr_softmax: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_sum(w, 1), "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_sum(scalar, .axis = 0), "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received a number");
    WRONG(muster_expr_slice(w, MUSTER_LIST(start, 0), .step = 0),
          "@: muster_expr_slice: step: expected MUSTER_LIST(step, ...), received a number");
    WRONG(muster_expr_pad(w, MUSTER_LIST(before, 1), .after = 0),
          "@: muster_expr_pad: after: expected MUSTER_LIST(after, ...), received a number");
    WRONG(muster_expr_max_pool(w, MUSTER_SHAPE(2), MUSTER_LIST(stride, 1), .padding = 0),
          "@: muster_expr_max_pool: padding: expected MUSTER_LIST(padding, ...), received a number");
    WRONG(muster_expr_argmax(w, 0, 0), "no error"); /* the axis is an argument, and keepdims a number */
    WRONG(muster_expr_sort(w, MUSTER_LIST(axis, 0), .descending = 0), "no error");
}

/* The address alone is refused in a call of muster/expr.h. A list without entries is right where it
 * has an address for another reason: an array of ndim entries for a scalar, NULL, an argument with
 * its count, and what a binding passes to muster_expr_apply. */
static void lists_without_a_count(void **state) {
    const int64_t one[] = {1}, *list = NULL;
    const int32_t n_axes = 0;
    (void)state;
    WRONG(muster_expr_sum(w, .axis = one),
          "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received an address without a count");
    WRONG(muster_expr_sum(w, .axis = (const int64_t *)(uintptr_t)1),
          "@: muster_expr_sum: axis: expected MUSTER_LIST(axis, ...), received an address without a count");
    WRONG(muster_expr_transpose(w, .axes = one),
          "@: muster_expr_transpose: axes: expected MUSTER_LIST(axes, ...), received an address without a count");
    WRONG(muster_expr_sum(w, .axis = one, .axis_count = -1), "@: muster_expr_sum: axis: expected 0 to 64 entries, received -1");
    WRONG(muster_expr_sum(w, .axis_count = 1), "@: muster_expr_sum: axis: expected 1 integers, received NULL");
    WRONG(muster_expr_sum(w, .axis = list, .axis_count = n_axes), "no error");
    WRONG(muster_expr_sum(w, .axis = NULL), "no error");
    WRONG(muster_expr_sum(w, 1, one), "no error");
    WRONG(muster_expr_sum(w, .axis = one, .axis_count = 1), "no error");
    WRONG(muster_expr_sum(w, .axis = NULL, .axis_count = 0), "no error");
    WRONG(muster_expr_sum(scalar, .axis = one, .axis_count = 0), "no error");
    WRONG(muster_expr_transpose(scalar, .axes = one, .axes_count = 0), "no error");
    WRONG(muster_expr_reshape(scalar, 0, one), "no error");
    const muster_attribute empty[] = {{.name = "axis", .integers = one}, {.name = NULL}};
    WRONG(assert_ok(muster_expr_apply(g, "sum", &w, 1, empty, NULL, NULL)), "no error");
    WRONG(muster_expr_parse(g, "sum(w1, axis=[])"), "no error");
    WRONG(muster_expr_eye(g, MUSTER_SHAPE(2, 3), MUSTER_F32, .k = 1), "no error"); /* the graph, a list and a field */
}

static void dtypes(void **state) {
    (void)state;
    WRONG(muster_expr_matmul(x, muster_expr_cast(muster_expr_full(g, MUSTER_SHAPE(784, 10), 0, MUSTER_F32), MUSTER_F64)),
          "@: muster_expr_matmul: b: expected f32, the dtype of a \"pixels\" (rows, 784) f32, received f64 (muster_expr_cast converts)");
    WRONG(muster_expr_multiply(x, labels), "@: muster_expr_multiply: b \"labels\": expected f32, the dtype of a \"pixels\" (rows, 784) "
                                           "f32, received u8 (muster_expr_cast converts)");
    WRONG(muster_expr_exp(n), "@: muster_expr_exp: x \"n\": expected f16, bf16, f32 or f64, received i32");
    WRONG(muster_expr_negative(muster_expr_equal(labels, labels)),
          "@: muster_expr_negative: x: expected f16, bf16, f32, f64, i8, u8, i16, i32, i64, u32 or u64, received bool");
    WRONG(muster_expr_add(n, muster_graph_number(g, 0.5)), "@: muster_expr_add: b: expected a number that i32 holds, received 0.5");
    WRONG(muster_expr_add(muster_expr_cast(n, MUSTER_U8), muster_graph_number(g, 300)),
          "@: muster_expr_add: b: expected a number that u8 holds, received 300");
    WRONG(muster_expr_where(x, scalar, scalar), "@: muster_expr_where: condition \"pixels\": expected bool, received f32");
    WRONG(muster_expr_greater(muster_graph_number(g, 1), muster_graph_number(g, 2)),
          "@: muster_expr_greater: a: expected an operand with a dtype beside plain numbers, received none");
    WRONG(muster_expr_cast(x, 77), "@: muster_expr_cast: dtype: expected a dtype, received 77");
    WRONG(muster_expr_softmax(muster_graph_number(g, 1)),
          "@: muster_expr_softmax: x: expected f16, bf16, f32 or f64, received a plain number");
    WRONG(muster_expr_bitwise_and(x, x),
          "@: muster_expr_bitwise_and: a \"pixels\": expected i8, u8, i16, i32, i64, u32, u64 or bool, received f32");
    WRONG(muster_expr_take(w, x), "@: muster_expr_take: indices: expected u8, i32 or i64, received f32");
}

static void gradients(void **state) {
    (void)state;
    WRONG(muster_gradient(x, &x, 1, d),
          "@: muster_gradient: loss: expected a scalar of a float dtype, received \"pixels\" (rows, 784) f32");
    WRONG(muster_gradient(muster_expr_sum(n), &n, 1, d), "@: muster_gradient: loss: expected a scalar of a float dtype, received () i64");
    WRONG(muster_gradient(muster_expr_sum(x), &n, 1, d),
          "@: muster_gradient: expressions[0]: expected a float dtype, received \"n\" (3,) i32");
    WRONG(muster_gradient(muster_expr_sum(muster_expr_result(muster_expr_name(muster_expr_softmax_cross_entropy(x, labels), "loss"), 1)),
                          &x, 1, d),
          "@: muster_gradient: loss: expected operations with a gradient, received muster_expr_softmax_cross_entropy \"loss\": only the "
          "first of its results has one; for second derivatives write sum(cross_entropy(logits, labels))");
    WRONG(muster_gradient(muster_expr_sum(muster_expr_matmul(x, w)), &x, 1, d),
          "@: muster_expr_matmul: b \"w1\": expected extent 784 in axis 0 (the last of a \"pixels\" (rows, 784) f32), received (800, 10)");
    WRONG(muster_gradient(muster_expr_sum(x), (muster_expr *[]){x, NULL}, 2, d),
          "@: muster_gradient: expressions[1]: expected an expression, received NULL");
}

static void graphs(void **state) {
    (void)state;
    WRONG(muster_expr_add(x, foreign),
          "@: muster_expr_add: b (inputs[1]): expected an expression of graph \"net\", received one of graph \"other\"");
    WRONG(muster_expr_add(x, NULL), "@: muster_expr_add: b (inputs[1]): expected an expression, received NULL");
    WRONG(muster_expr_layer_norm(x, NULL, w, -1, 1e-5),
          "@: muster_expr_layer_norm: scale (inputs[1]): expected an expression, received NULL");
    WRONG(muster_expr_concatenate(((muster_expr *[]){x, NULL}), 2),
          "@: muster_expr_concatenate: x[1] (inputs[1]): expected an expression, received NULL");
    WRONG(muster_graph_input(g, "pixels", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST),
          "@: muster_graph_input: name: expected one that graph \"net\" does not have yet, received \"pixels\"");
    WRONG(muster_graph_input(g, "rows", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_BROADCAST),
          "@: muster_graph_input: input \"rows\": shape: expected sizes other than MUSTER_ROWS, since the input is not scattered, received "
          "it "
          "in axis 0");
    WRONG(muster_graph_input(g, "late", MUSTER_F32, MUSTER_SHAPE(3, MUSTER_ROWS), MUSTER_SCATTER),
          "@: muster_graph_input: input \"late\": shape: expected MUSTER_ROWS first, since the input is scattered, received another size");
    WRONG((muster_graph_input)(g, "pixels", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST), /* as other languages call it */
          "muster_graph_input: name: expected one that graph \"net\" does not have yet, received \"pixels\"");
    WRONG(muster_graph_input_at("model.py:7", g, "pixels", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST),
          "model.py:7: muster_graph_input: name: expected one that graph \"net\" does not have yet, received \"pixels\"");
    WRONG((muster_gradient)(x, &x, 1, d), "muster_gradient: loss: expected a scalar of a float dtype, received \"pixels\" (rows, 784) f32");
    WRONG(muster_gradient_at("model.py:8", x, &x, 1, d),
          "model.py:8: muster_gradient: loss: expected a scalar of a float dtype, received \"pixels\" (rows, 784) f32");
    WRONG(muster_graph_output(g, "y", foreign, MUSTER_AUTO),
          "muster_graph_output: value: expected an expression of graph \"net\", received one of graph \"other\"");
    WRONG(muster_graph_output(g, "y", scalar, MUSTER_GATHER), "muster_graph_output: output \"y\": mode: expected a value whose axis 0 has "
                                                              "MUSTER_ROWS for MUSTER_GATHER, received \"rate\" () f32");
    WRONG(muster_graph_output(g, "y", w, MUSTER_GATHER), "muster_graph_output: output \"y\": mode: expected a value whose axis 0 has "
                                                         "MUSTER_ROWS for MUSTER_GATHER, received \"w1\" (800, 10) "
                                                         "f32");
    WRONG(muster_graph_output(g, "y", muster_expr_argmax(x, 1), MUSTER_AVG),
          "muster_graph_output: mode: avg of i64 is refused: expected a float dtype, received i64: an integer average is not exact; use "
          "sum and divide");
    WRONG(muster_graph_output(g, "y", muster_graph_number(g, 1), MUSTER_AUTO),
          "muster_graph_output: output \"y\": value: expected one with a dtype, received a plain number (muster_expr_cast gives it one)");
    WRONG(muster_graph_update(g, variable, muster_expr_sum(w), MUSTER_AUTO),
          "muster_graph_update: value: new value of \"weights\": expected shape (2,), received () f32");
    WRONG(muster_graph_update(g, counter, scalar, MUSTER_AUTO),
          "muster_graph_update: value: new value of \"counter\": expected i32, received \"rate\" () f32 "
          "(muster_expr_cast converts; sums, averages and / take dtype=)");
    WRONG(muster_expr_result(muster_expr_sum(x), 1), "muster_expr_result: index: expected 0 to 0, the results of sum, received 1");
    WRONG(muster_expr_substitute(muster_expr_sum(x), &x, &w, 1),
          "muster_expr_substitute: to[0]: expected the shape and dtype of \"pixels\" (rows, 784) f32, received \"w1\" (800, 10) f32");
    WRONG(muster_expr_reshape(muster_graph_input(g, "large", MUSTER_F32, MUSTER_SHAPE(INT64_MAX, 2), MUSTER_BROADCAST), MUSTER_SHAPE(6)),
          "@: muster_expr_reshape: expected sizes that 64 bits hold, received 9223372036854775807 times 2");
    WRONG(muster_expr_reshape(w, MUSTER_SHAPE(INT64_MAX, 2)),
          "@: muster_expr_reshape: expected sizes that 64 bits hold, received 9223372036854775807 times 2");
    WRONG(muster_graph_size(g, "rows"), "muster_graph_size: name: expected a name other than \"rows\", received \"rows\"");
    WRONG(muster_graph_output(g, "unbound", muster_expr_full(g, 1, (int64_t[]){muster_graph_size(g, "time")}, 0, MUSTER_F32), MUSTER_AUTO),
          "muster_graph_compile: graph \"net\": expected an input with an axis of size \"time\", which (time,) f32 needs, received none");
}

static int open_runtime(void **state) {
    float weights[2] = {0};
    int32_t zero = 0;
    (void)state;
    runtime = graph_runtime("host:1");
    assert_ok(muster_graph_create(runtime, "other", &other));
    foreign = muster_graph_input(other, "foreign", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    assert_ok(muster_variable_create(runtime, "weights", muster_f32(weights, 2), &variable));
    assert_ok(muster_variable_create(runtime, "counter", muster_i32(&zero), &counter));
    return 0;
}

static int close_runtime(void **state) {
    (void)state;
    return muster_graph_destroy(other) != MUSTER_OK || muster_runtime_close(runtime) != MUSTER_OK;
}

static void all_were_refused_as_said(void **state) {
    (void)state;
    assert_int_equal(faults, 0);
    assert_int_equal(programs, 96);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(numbers_in_place_of_lists),
        cmocka_unit_test(lists_without_a_count),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(gradients),
        cmocka_unit_test(graphs),
        cmocka_unit_test(all_were_refused_as_said),
    };
    return cmocka_run_group_tests(tests, open_runtime, close_runtime);
}
