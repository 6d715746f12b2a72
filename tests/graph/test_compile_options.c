/* Options of a compilation that are 0 or 1: any other number is refused and named, and the graph
 * may be compiled with another one. */
#include "graph_fixture.h"
#include "muster/expr.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} flags[] = {
    {"unshared_memory", offsetof(muster_graph_options, unshared_memory)}, {"unfused", offsetof(muster_graph_options, unfused)},
    {"unsimplified", offsetof(muster_graph_options, unsimplified)},       {"check_memory", offsetof(muster_graph_options, check_memory)},
    {"step_times", offsetof(muster_graph_options, step_times)},           {"eager_updates", offsetof(muster_graph_options, eager_updates)},
    {"plain_layout", offsetof(muster_graph_options, plain_layout)}};
enum { FLAGS = sizeof flags / sizeof *flags };

static muster_graph *make(muster_runtime *runtime) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "flags", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_exp(x), MUSTER_AUTO));
    return graph;
}

static muster_status compile(muster_graph *graph, int32_t flag, int32_t value, muster_function **function) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    memcpy((char *)&options + flags[flag].offset, &value, sizeof value);
    return muster_graph_compile(graph, &options, function);
}

static void other_numbers_are_refused_by_name(void **state) {
    static const int32_t wrong[] = {2, -1, INT32_MIN, INT32_MAX};
    int32_t refused = 0;
    muster_graph *graph = make(*state);
    muster_function *function = NULL;
    for (int32_t f = 0; f < FLAGS; f++)
        for (int32_t i = 0; i < 4; i++, refused++) {
            char message[128];
            snprintf(message, sizeof message, "muster_graph_compile: options: %s: expected 0 or 1, received %d", flags[f].name,
                     (int)wrong[i]);
            assert_refused(compile(graph, f, wrong[i], &function), MUSTER_INVALID_ARGUMENT, message);
        }
    assert_int_equal(refused, 7 * 4);
    assert_ok(compile(graph, 0, 1, &function));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

static void zero_and_one_are_taken(void **state) {
    int32_t taken = 0;
    for (int32_t f = 0; f < FLAGS; f++)
        for (int32_t value = 0; value < 2; value++, taken++) {
            muster_graph *graph = make(*state);
            muster_function *function;
            assert_ok(compile(graph, f, value, &function));
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(taken, 7 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_numbers_are_refused_by_name), cmocka_unit_test(zero_and_one_are_taken)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
