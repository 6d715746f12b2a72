/* A graph belongs to the program, which may keep it after its runtime has been closed, and after
 * the memory of the runtime has become that of something else: what needs the runtime is refused,
 * the rest goes on, and the end of the graph gives all memory back. */
#include "graph_fixture.h"
#include "muster/expr.h"
#include "muster/operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { K = 3 };

/* The graph of `sum((x w) ** 2)`, and what stood for the rest of its runtime. */
typedef struct kept {
    muster_runtime *runtime;
    muster_variable *variable, *updated;
    muster_graph *graph;
    muster_expr *x, *w, *u, *y, *loss, *gradient;
} kept;

static float numbers[K] = {1, 2, 3};

static void keep(kept *k, const char *devices) {
    k->runtime = graph_runtime(devices);
    assert_ok(muster_variable_create(k->runtime, "w", muster_f32(numbers, K), &k->variable));
    assert_ok(muster_variable_create(k->runtime, "u", muster_f32(numbers, K), &k->updated));
    assert_ok(muster_graph_create(k->runtime, "kept", &k->graph));
    k->x = muster_graph_input(k->graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    k->w = muster_graph_parameter(k->graph, k->variable);
    k->u = muster_graph_parameter(k->graph, k->updated);
    k->y = APPLY(k->graph, "multiply", k->x, k->w);
    k->loss = APPLY(k->graph, "sum", APPLY(k->graph, "square", k->y));
    assert_ok(muster_gradient(k->loss, &k->w, 1, &k->gradient));
    assert_ok(muster_graph_status(k->graph));
}

/* The library keeps the memory of the latest 256 handles that have ended, to tell their use. */
static void end_other_handles(void) {
    for (int32_t i = 0; i < 300; i++) {
        muster_buffer *buffer;
        assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
        muster_buffer_destroy(buffer);
    }
}

/* The runtime closes, and its memory is that of others. */
static void close_long_ago(kept *k) {
    assert_ok(muster_runtime_close(k->runtime));
    end_other_handles();
}

static int32_t cases;
static const char closed[] = "graph: expected one of an open runtime, received \"kept\", whose runtime has been closed";

/* The sentence begins with the name of the function, or with the place in this file before it. */
static void check_message(const char *function) {
    const size_t length = strlen(function);
    const char *place = strstr(muster_last_error(), __FILE__ ":");
    const char *message = place ? strstr(place, ": ") + strlen(": ") : muster_last_error();
    cases++;
    if (strncmp(message, function, length) != 0 || strncmp(message + length, ": ", 2) != 0 || strcmp(message + length + 2, closed) != 0)
        fail_msg("%s: received \"%s\"", function, muster_last_error());
}

static void clear_message(void) { (void)muster_fail(MUSTER_SYSTEM, "nothing was refused"); }

static void check_status(const char *function, muster_status status) {
    if (status != MUSTER_BAD_STATE) fail_msg("%s: expected BAD_STATE, received %s", function, muster_status_name(status));
    check_message(function);
    clear_message();
}

/* What stands for an error has no dimensions. */
static void check_expression(const char *function, const muster_expr *expression) {
    assert_int_equal(muster_expr_ndim(expression), -1);
    check_message(function);
    clear_message();
}

static void check_size(const char *function, int64_t size) {
    assert_int_equal(size, MUSTER_INFER);
    check_message(function);
    clear_message();
}

#define REFUSED(function, ...) check_status(#function, function(__VA_ARGS__))
#define REFUSED_EXPRESSION(function, ...) check_expression(#function, function(__VA_ARGS__))
#define REFUSED_SIZE(function, ...) check_size(#function, function(__VA_ARGS__))

/* ---- what is refused ---- */

static void use_sizes(const kept *k) {
    REFUSED_SIZE(muster_graph_size, k->graph, "time");
    REFUSED_SIZE(muster_graph_size_product, k->graph, MUSTER_ROWS, 2);
    REFUSED_SIZE(muster_graph_size_quotient, k->graph, 6, 2);
    REFUSED_SIZE(muster_graph_size_sum, k->graph, 6, 2);
}

static void use_expressions(const kept *k) {
    muster_expr *made = k->y;
    REFUSED_EXPRESSION(muster_graph_input, k->graph, "z", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    REFUSED_EXPRESSION(muster_graph_parameter, k->graph, k->variable);
    REFUSED_EXPRESSION(muster_graph_parameter_rows, k->graph, k->variable);
    REFUSED_EXPRESSION(muster_graph_number, k->graph, 2);
    REFUSED(muster_expr_apply, k->graph, "add", (muster_expr *const[]){k->x, k->y}, 2, NULL, "kept.c:1", &made);
    assert_int_equal(muster_expr_ndim(made), -1);
    check_expression("muster_expr_parse", muster_expr_parse(k->graph, "x + w"));
    REFUSED_EXPRESSION(muster_expr_parse_named, k->graph, "x + w", NULL, NULL, 0);
    REFUSED_EXPRESSION(muster_expr_result, k->y, 1);
    REFUSED_EXPRESSION(muster_expr_place, k->loss, NULL);
    REFUSED_EXPRESSION(muster_expr_substitute, k->y, &k->w, &k->u, 1);
}

static void use_graph(const kept *k) {
    muster_function *function;
    muster_expr *made;
    REFUSED(muster_gradient, k->loss, &k->x, 1, &made);
    REFUSED(muster_graph_clip, k->graph, &k->gradient, 1, 1, &made);
    REFUSED(muster_graph_minimise, k->graph, &k->w, &k->gradient, 1, MUSTER_ADAM, NULL);
    REFUSED(muster_graph_output, k->graph, "y", k->y, MUSTER_GATHER);
    REFUSED(muster_graph_update, k->graph, k->updated, k->u, MUSTER_AUTO);
    REFUSED(muster_graph_compile, k->graph, NULL, &function);
    assert_null(function);
    REFUSED(muster_graph_split, k->w, 0);
    REFUSED(muster_gradient_check, k->loss, NULL, 0, NULL, NULL);
}

static void test_what_needs_the_runtime_is_refused(void **state) {
    (void)state;
    kept k;
    keep(&k, "host:2");
    close_long_ago(&k);
    cases = 0;
    clear_message();
    use_sizes(&k);
    use_expressions(&k);
    use_graph(&k);
    assert_int_equal(cases, 4 + 10 + 8);
    assert_ok(muster_graph_destroy(k.graph));
}

/* What the processes of a launch would tell each other of a refused call goes by the runtime. */
static void test_what_is_wrong_besides_needs_no_runtime_either(void **state) {
    (void)state;
    kept k;
    double worst;
    muster_gradient_check_options options;
    keep(&k, "host:2");
    muster_expr *wrong = NULL;
    assert_refused(muster_expr_apply(k.graph, "add", &k.x, 1, NULL, NULL, &wrong), MUSTER_INVALID_ARGUMENT, "received 1");
    close_long_ago(&k);
    cases = 0;
    clear_message();
    REFUSED(muster_graph_split, k.w, 7);
    REFUSED(muster_graph_split, k.x, 0);
    REFUSED(muster_graph_split, wrong, 0);
    REFUSED(muster_gradient_check, k.y, NULL, 0, NULL, &worst);
    REFUSED(muster_gradient_check, wrong, NULL, 0, NULL, &worst);
    REFUSED(muster_gradient_check, k.loss, NULL, -1, NULL, &worst);
    REFUSED(muster_gradient_check, k.loss, &k.y, 1, NULL, &worst);
    muster_gradient_check_options_init(&options);
    options.step = -1;
    REFUSED(muster_gradient_check, k.loss, NULL, 0, &options, &worst);
    REFUSED(muster_graph_compile, k.graph, NULL, NULL);
    assert_int_equal(cases, 9);
    assert_ok(muster_graph_destroy(k.graph));
}

/* The same for a graph that has become a function, which has ended with the runtime. */
static void test_a_compiled_graph_is_refused(void **state) {
    (void)state;
    kept k;
    muster_function *function;
    keep(&k, "host:2");
    assert_ok(muster_graph_output(k.graph, "loss", k.loss, MUSTER_AUTO));
    assert_ok(muster_graph_compile(k.graph, NULL, &function));
    close_long_ago(&k);
    cases = 0;
    clear_message();
    use_sizes(&k);
    use_expressions(&k);
    use_graph(&k);
    assert_int_equal(cases, 4 + 10 + 8);
    assert_ok(muster_graph_destroy(k.graph));
}

/* The memory of the closed runtime is often that of the next one: the graph is not one of it. */
static void test_a_new_runtime_is_another(void **state) {
    (void)state;
    kept old, new;
    keep(&old, "host:2");
    close_long_ago(&old);
    keep(&new, "host:2");
    cases = 0;
    clear_message();
    REFUSED(muster_graph_split, old.w, 0);
    REFUSED(muster_gradient_check, old.loss, NULL, 0, NULL, NULL);
    REFUSED_EXPRESSION(muster_graph_parameter, old.graph, new.variable);
    REFUSED_EXPRESSION(muster_expr_place, old.loss, NULL);
    REFUSED(muster_graph_update, old.graph, new.updated, old.u, MUSTER_AUTO);
    muster_function *function;
    REFUSED(muster_graph_compile, old.graph, NULL, &function);
    assert_int_equal(cases, 6);
    assert_int_equal(muster_variable_split_axis(new.variable), -1);
    assert_ok(muster_graph_split(new.w, 0));
    assert_int_equal(muster_variable_split_axis(new.variable), 0);
    assert_ok(muster_graph_destroy(old.graph));
    assert_ok(muster_graph_destroy(new.graph));
    assert_ok(muster_runtime_close(new.runtime));
}

/* ---- what goes on ---- */

static void test_expressions_answer_questions(void **state) {
    (void)state;
    kept k;
    keep(&k, "host:2");
    close_long_ago(&k);
    assert_ptr_equal(muster_expr_graph(k.y), k.graph);
    assert_int_equal(muster_expr_dtype(k.y), MUSTER_F32);
    assert_int_equal(muster_expr_ndim(k.y), 2);
    assert_int_equal(muster_expr_size(k.y, 0), MUSTER_ROWS);
    assert_int_equal(muster_expr_size(k.y, -1), K);
    assert_string_equal(muster_expr_shape(k.y), "(rows, 3)");
    assert_ptr_equal(muster_expr_result(k.y, 0), k.y);
    assert_ptr_equal(muster_expr_name(k.y, "y"), k.y);
    assert_ok(muster_graph_destroy(k.graph));
}

/* As other errors: a program that makes expressions looks at one status. */
static void test_the_refusal_is_an_error_of_the_graph(void **state) {
    (void)state;
    kept k;
    keep(&k, "host:2");
    close_long_ago(&k);
    assert_ok(muster_graph_status(k.graph));
    (void)muster_expr_exp(muster_expr_parse(k.graph, "x + w"));
    assert_refused(muster_graph_status(k.graph), MUSTER_BAD_STATE, "muster_expr_parse: graph: expected one of an open runtime");
    assert_ok(muster_graph_destroy(k.graph));
}

static void test_the_first_error_stays(void **state) {
    (void)state;
    kept k;
    muster_expr *wrong;
    keep(&k, "host:2");
    assert_refused(muster_expr_apply(k.graph, "add", &k.x, 1, NULL, NULL, &wrong), MUSTER_INVALID_ARGUMENT, "received 1");
    close_long_ago(&k);
    assert_refused(muster_graph_status(k.graph), MUSTER_INVALID_ARGUMENT, "received 1");
    assert_ok(muster_graph_destroy(k.graph));
}

static void test_the_graph_can_be_dumped(void **state) {
    (void)state;
    kept k;
    char path[] = "/tmp/muster-kept-XXXXXX", text[2048] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    keep(&k, "host:2");
    assert_ok(muster_graph_update(k.graph, k.updated, k.u, MUSTER_AUTO));
    assert_ok(muster_graph_output(k.graph, "there", muster_expr_place(k.loss, NULL), MUSTER_AUTO));
    close_long_ago(&k);
    assert_ok(muster_graph_dump(k.graph, path, MUSTER_DUMP_TEXT));
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "graph \"kept\""));
    assert_non_null(strstr(text, "update \"u\" = "));
    assert_ok(muster_graph_destroy(k.graph));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* ---- the end ---- */

/* States of rules are variables of the runtime, which has ended them. */
static void test_the_end_of_a_graph_with_states(void **state) {
    (void)state;
    const int64_t live = mst_memory_live();
    kept k;
    keep(&k, "host:2");
    assert_ok(muster_graph_minimise(k.graph, &k.w, &k.gradient, 1, MUSTER_ADAM, NULL));
    close_long_ago(&k);
    assert_ok(muster_graph_destroy(k.graph));
    assert_int_equal(mst_memory_live(), live);
}

static void count_end(void *user) { ++*(int32_t *)user; }

/* The graph holds the operator, whose `user` pointer ends with it. */
static void test_the_end_of_a_graph_with_an_operator(void **state) {
    (void)state;
    static const char *const operands[] = {"x", NULL};
    const int64_t live = mst_memory_live();
    int32_t ends = 0;
    kept k;
    muster_operator_options options;
    muster_operator *made;
    keep(&k, "host:2");
    muster_operator_options_init(&options);
    options.operands = operands;
    options.text = "x * x + 1";
    options.user = &ends;
    options.destroy = count_end;
    assert_ok(muster_operator_create(k.runtime, "square_and_one", &options, &made));
    (void)APPLY(k.graph, "square_and_one", k.y);
    assert_ok(muster_graph_status(k.graph));
    close_long_ago(&k);
    cases = 0;
    clear_message();
    check_expression("muster_expr_parse", muster_expr_parse(k.graph, "square_and_one(x)"));
    assert_int_equal(cases, 1);
    assert_ok(muster_graph_destroy(k.graph));
    assert_int_equal(ends, 1);
    assert_int_equal(mst_memory_live(), live);
}

/* Many graphs of one runtime, in any order with it: nothing is left. */
static void test_the_ends_of_graphs_and_their_runtime_in_any_order(void **state) {
    (void)state;
    enum { GRAPHS = 4 };
    const int64_t live = mst_memory_live();
    int32_t orders = 0;
    for (int32_t before = 0; before <= GRAPHS; before++, orders++) {
        muster_runtime *runtime = graph_runtime("host:2");
        muster_graph *graphs[GRAPHS];
        for (int32_t g = 0; g < GRAPHS; g++) assert_ok(muster_graph_create(runtime, "g", &graphs[g]));
        for (int32_t g = 0; g < before; g++) assert_ok(muster_graph_destroy(graphs[g]));
        assert_ok(muster_runtime_close(runtime));
        end_other_handles();
        for (int32_t g = before; g < GRAPHS; g++) assert_ok(muster_graph_destroy(graphs[g]));
        assert_int_equal(mst_memory_live(), live);
    }
    assert_int_equal(orders, GRAPHS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_needs_the_runtime_is_refused),
        cmocka_unit_test(test_what_is_wrong_besides_needs_no_runtime_either),
        cmocka_unit_test(test_a_compiled_graph_is_refused),
        cmocka_unit_test(test_a_new_runtime_is_another),
        cmocka_unit_test(test_expressions_answer_questions),
        cmocka_unit_test(test_the_refusal_is_an_error_of_the_graph),
        cmocka_unit_test(test_the_first_error_stays),
        cmocka_unit_test(test_the_graph_can_be_dumped),
        cmocka_unit_test(test_the_end_of_a_graph_with_states),
        cmocka_unit_test(test_the_end_of_a_graph_with_an_operator),
        cmocka_unit_test(test_the_ends_of_graphs_and_their_runtime_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
