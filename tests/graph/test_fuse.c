/* Which elementwise operations become one step. The groups are written by hand; a property holds
 * for random graphs: every step can begin when the steps before it are complete. */
#include "base_seed.h"
#include "graph_fixture.h"
#include "program_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static muster_graph *begin(void **state) {
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "fused", &graph));
    return graph;
}

static muster_expr *input(muster_graph *graph, const char *name) {
    return muster_graph_input(graph, name, MUSTER_F32, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
}

static muster_expr *number(muster_graph *graph, double value) { return muster_graph_number(graph, value); }

static void output(muster_graph *graph, const char *name, muster_expr *value) {
    assert_ok(muster_graph_output(graph, name, value, MUSTER_AUTO));
}

static mst_graph_program fuse(muster_graph *graph) {
    mst_graph_program program = {.graph = graph->graph};
    assert_ok(muster_graph_status(graph));
    assert_ok(mst_graph_program_fuse(&program));
    return program;
}

static void release(mst_graph_program *program) {
    mst_free(program->groups);
    mst_free(program->group_of);
    mst_free(program->order);
    mst_free(program->position);
    mst_free(program->results);
}

/* The groups as a text: the members of each, with a star after results, and the operands. */
static void expect_groups(muster_graph *graph, const char *expected) {
    char text[2048] = "";
    mst_graph_program program = fuse(graph);
    for (int32_t g = 0; g < program.group_count; g++) {
        const mst_fused_group *group = &program.groups[g];
        size_t length = strlen(text);
        for (int32_t i = 0, r = 0; i < group->member_count; i++) {
            const bool result = r < group->result_count && group->results[r] == i;
            r += result;
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s ", group->members[i]->op->name, result ? "*" : "");
        }
        length += (size_t)snprintf(text + length, sizeof text - length, "of");
        for (int32_t i = 0; i < group->operand_count; i++) {
            const muster_expr *operand = group->operands[i];
            length += (size_t)snprintf(text + length, sizeof text - length, " %s", operand->name ? operand->name : operand->op->name);
        }
        snprintf(text + length, sizeof text - length, "; ");
    }
    assert_string_equal(text, expected);
    release(&program);
    assert_ok(muster_graph_destroy(graph));
}

static void a_chain_is_one_group(void **state) {
    muster_graph *graph = begin(state);
    output(graph, "y", APPLY(graph, "relu", APPLY(graph, "add", APPLY(graph, "exp", input(graph, "x")), input(graph, "b"))));
    expect_groups(graph, "exp add relu* of x b; ");
}

static void a_single_operation_is_no_group(void **state) {
    muster_graph *graph = begin(state);
    output(graph, "y", APPLY(graph, "exp", input(graph, "x")));
    expect_groups(graph, "");
}

static void operations_without_a_common_value_are_no_group(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *x = input(graph, "x");
    output(graph, "y", APPLY(graph, "exp", x));
    output(graph, "z", APPLY(graph, "tanh", x));
    expect_groups(graph, "");
}

static void two_branches_meet(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *x = input(graph, "x");
    output(graph, "y", APPLY(graph, "add", APPLY(graph, "exp", x), APPLY(graph, "tanh", x)));
    expect_groups(graph, "exp tanh add* of x; ");
}

static void a_value_that_is_used_outside_is_a_result(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *middle = APPLY(graph, "exp", input(graph, "x"));
    output(graph, "m", middle);
    output(graph, "y", APPLY(graph, "multiply", middle, middle));
    expect_groups(graph, "exp* multiply* of x; ");
}

static void an_operation_waits_for_a_complete_reduction(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *twice = APPLY(graph, "multiply", input(graph, "x"), number(graph, 2));
    muster_expr *centred = APPLY(graph, "subtract", twice, APPLY(graph, "mean", twice));
    output(graph, "y", APPLY(graph, "exp", centred));
    expect_groups(graph, "subtract exp* of multiply mean; ");
}

static void an_operation_waits_for_those_that_use_its_value(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *slow = APPLY(graph, "multiply", input(graph, "speed"), number(graph, 0.9));
    muster_expr *product =
        APPLY(graph, "matmul", input(graph, "x"), muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(4, 4), MUSTER_BROADCAST));
    output(graph, "y", APPLY(graph, "add", slow, product));
    expect_groups(graph, "multiply add* of speed matmul; ");
}

static void shapes_part_groups(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *bias = APPLY(graph, "exp", muster_graph_input(graph, "b", MUSTER_F32, MUSTER_SHAPE(4), MUSTER_BROADCAST));
    muster_expr *small = APPLY(graph, "tanh", bias);
    output(graph, "y", APPLY(graph, "relu", APPLY(graph, "add", input(graph, "x"), small)));
    expect_groups(graph, "exp tanh* of b; add relu* of x tanh; ");
}

static void numbers_are_no_operands(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *x = input(graph, "x");
    muster_expr *positive = APPLY(graph, "greater", x, number(graph, 0));
    output(graph, "y", APPLY(graph, "where", positive, x, number(graph, -1)));
    expect_groups(graph, "greater where* of x; ");
}

static void dtypes_may_differ(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *bytes = muster_graph_input(graph, "x", MUSTER_U8, MUSTER_SHAPE(6, 4), MUSTER_BROADCAST);
    muster_expr *cast = apply(graph, "cast", &bytes, 1, ATTRIBUTES({.name = "dtype", .integer = MUSTER_F32}));
    output(graph, "y", APPLY(graph, "divide", cast, number(graph, 255)));
    expect_groups(graph, "cast divide* of x; ");
}

static void what_nothing_needs_is_in_no_group(void **state) {
    muster_graph *graph = begin(state);
    muster_expr *exp = APPLY(graph, "exp", input(graph, "x"));
    (void)APPLY(graph, "tanh", exp);
    output(graph, "y", exp);
    expect_groups(graph, "");
}

/* ---- the limits of a group, on both sides ---- */

static void expect_sizes(muster_graph *graph, int32_t groups, int32_t first, int32_t second) {
    mst_graph_program program = fuse(graph);
    assert_int_equal(program.group_count, groups);
    assert_int_equal(program.groups[0].member_count, first);
    if (groups == 2) assert_int_equal(program.groups[1].member_count, second);
    release(&program);
    assert_ok(muster_graph_destroy(graph));
}

static void a_group_has_32_members(void **state) {
    static const struct {
        int32_t chain, groups, first, second;
    } cases[] = {{31, 1, 31, 0}, {32, 1, 32, 0}, {33, 1, 32, 0}, {34, 2, 32, 2}, {64, 2, 32, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_graph *graph = begin(state);
        muster_expr *value = input(graph, "x");
        for (int32_t k = 0; k < cases[i].chain; k++) value = APPLY(graph, "exp", value);
        output(graph, "y", value);
        expect_sizes(graph, cases[i].groups, cases[i].first, cases[i].second);
    }
}

static void a_group_has_12_operands(void **state) {
    static const struct {
        int32_t terms, groups, first, second;
    } cases[] = {{11, 1, 10, 0}, {12, 1, 11, 0}, {13, 1, 11, 0}, {14, 2, 11, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_graph *graph = begin(state);
        muster_expr *sum = input(graph, "x0");
        for (int32_t k = 1; k < cases[i].terms; k++) {
            char name[16];
            snprintf(name, sizeof name, "x%d", (int)k);
            sum = APPLY(graph, "add", sum, input(graph, name));
        }
        output(graph, "y", sum);
        expect_sizes(graph, cases[i].groups, cases[i].first, cases[i].second);
    }
}

static void a_group_has_8_results(void **state) {
    static const struct { int32_t outputs, groups, first, second; } cases[] = {{7, 1, 7, 0}, {8, 1, 8, 0}, {9, 1, 8, 0}, {10, 2, 8, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_graph *graph = begin(state);
        muster_expr *value = input(graph, "x");
        for (int32_t k = 0; k < cases[i].outputs; k++) {
            char name[16];
            snprintf(name, sizeof name, "y%d", (int)k);
            value = APPLY(graph, "exp", value);
            output(graph, name, value);
        }
        expect_sizes(graph, cases[i].groups, cases[i].first, cases[i].second);
    }
}

/* ---- random graphs ---- */

enum { RANDOM_GRAPHS = 400, RANDOM_NODES = 120 };
static uint64_t random_state;
static int32_t choose(int32_t count) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (int32_t)((random_state >> 33) % (uint64_t)count);
}

/* Elementwise operations, and every now and then one that needs the complete value. */
static muster_expr *random_graph(muster_graph *graph) {
    static const char *const unary[] = {"exp", "tanh", "negative", "relu"}, *const binary[] = {"add", "multiply", "maximum"};
    muster_expr *nodes[RANDOM_NODES];
    int32_t count = 0;
    nodes[count++] = input(graph, "a");
    nodes[count++] = input(graph, "b");
    while (count < RANDOM_NODES) {
        muster_expr *x = nodes[choose(count)], *y = nodes[count - 1 - choose(count < 6 ? count : 6)];
        const int32_t kind = choose(10);
        if (kind < 4) nodes[count] = APPLY(graph, unary[choose(4)], y);
        if (kind >= 4 && kind < 9) nodes[count] = APPLY(graph, binary[choose(3)], x, y);
        if (kind == 9) nodes[count] = APPLY(graph, "add", x, APPLY(graph, "mean", y));
        count++;
    }
    return nodes[count - 1];
}

/* Each operand from outside of a node's step has its place before the step's first member. */
static int32_t check_order(const mst_graph_program *p) {
    int32_t edges = 0;
    for (int32_t at = 0; at < p->count; at++) {
        const muster_expr *node = p->order[at];
        const int32_t group = mst_program_group(p, node);
        const int32_t first = group < 0 ? at : p->position[p->groups[group].members[0]->id];
        if (group >= 0) assert_true(at - first < p->groups[group].member_count);
        for (int32_t i = 0; i < node->input_count; i++) {
            if (mst_program_operand_is_number(p, node, i)) continue;
            const int32_t operand = p->position[node->inputs[i]->id];
            const bool inside = group >= 0 && mst_program_group(p, node->inputs[i]) == group;
            assert_in_range(operand, 0, (inside ? at : first) - 1);
            edges++;
        }
    }
    return edges;
}

/* Members, operands and results of each group, from their definitions. */
static void check_groups(const mst_graph_program *p) {
    for (int32_t g = 0; g < p->group_count; g++) {
        const mst_fused_group *group = &p->groups[g];
        int32_t operands = 0, results = 0;
        assert_in_range(group->member_count, 2, MST_GROUP_MEMBERS);
        for (int32_t id = 0; id < p->graph->node_count; id++) {
            const muster_expr *node = p->graph->nodes[id];
            bool used_inside = false, used_outside = node == p->graph->outputs.items[0].node;
            for (int32_t user = 0; user < p->graph->node_count; user++)
                for (int32_t i = 0; i < p->graph->nodes[user]->input_count; i++) {
                    if (p->graph->nodes[user]->inputs[i] != node || p->position[user] < 0) continue;
                    used_inside |= p->group_of[user] == g;
                    used_outside |= p->group_of[user] != g;
                }
            if (p->group_of[id] == g) results += used_outside;
            if (p->group_of[id] != g) operands += used_inside && !mst_node_is_number(node);
        }
        assert_int_equal(group->operand_count, operands);
        assert_int_equal(group->result_count, results);
        assert_in_range(operands, 1, MST_GROUP_OPERANDS);
        assert_in_range(results, 1, MST_GROUP_RESULTS);
    }
}

static void steps_of_random_graphs_can_be_run_in_order(void **state) {
    int32_t groups = 0, edges = 0;
    for (int32_t i = 0; i < RANDOM_GRAPHS; i++) {
        random_state = test_seed() * 1000003u + (uint64_t)i;
        muster_graph *graph = begin(state);
        output(graph, "y", random_graph(graph));
        mst_graph_program program = fuse(graph);
        assert_ok(mst_graph_program_order(&program));
        edges += check_order(&program);
        if (i % 20 == 0) check_groups(&program);
        groups += program.group_count;
        release(&program);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_true(groups > 3 * RANDOM_GRAPHS);
    assert_true(edges > 50 * RANDOM_GRAPHS);
}

/* ---- results ---- */

/* Outputs that a call does not want, with operands that nothing else needs. */
static void a_group_computes_what_is_wanted(void **state) {
    enum { N = 24 };
    float x[N], b[N], y[N], z[N];
    int32_t calls = 0;
    muster_function *function;
    muster_graph *graph = begin(state);
    for (int32_t i = 0; i < N; i++) {
        x[i] = (float)i - 11;
        b[i] = 3 - (float)i / 4;
    }
    muster_expr *left = input(graph, "x"), *sum = APPLY(graph, "sum", input(graph, "b"));
    muster_expr *square = APPLY(graph, "multiply", left, left);
    output(graph, "y", APPLY(graph, "negative", square));
    output(graph, "z", APPLY(graph, "add", square, sum));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    float total = 0;
    for (int32_t i = 0; i < N; i++) total += b[i];
    for (int32_t wanted = 1; wanted < 4; wanted++, calls++) {
        memset(y, 0, sizeof y);
        memset(z, 0, sizeof z);
        const muster_tensor out[] = {wanted & 1 ? muster_f32(y, 6, 4) : muster_tensor_none(),
                                     wanted & 2 ? muster_f32(z, 6, 4) : muster_tensor_none()};
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_f32(x, 6, 4), muster_f32(b, 6, 4)}, 2, out, 2, NULL));
        for (int32_t i = 0; i < N; i++) {
            assert_true(y[i] == (wanted & 1 ? -x[i] * x[i] : 0));
            assert_true(z[i] == (wanted & 2 ? x[i] * x[i] + total : 0));
        }
    }
    assert_int_equal(calls, 3);
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_chain_is_one_group),
                                       cmocka_unit_test(a_single_operation_is_no_group),
                                       cmocka_unit_test(operations_without_a_common_value_are_no_group),
                                       cmocka_unit_test(two_branches_meet),
                                       cmocka_unit_test(a_value_that_is_used_outside_is_a_result),
                                       cmocka_unit_test(an_operation_waits_for_a_complete_reduction),
                                       cmocka_unit_test(an_operation_waits_for_those_that_use_its_value),
                                       cmocka_unit_test(shapes_part_groups),
                                       cmocka_unit_test(numbers_are_no_operands),
                                       cmocka_unit_test(dtypes_may_differ),
                                       cmocka_unit_test(what_nothing_needs_is_in_no_group),
                                       cmocka_unit_test(a_group_has_32_members),
                                       cmocka_unit_test(a_group_has_12_operands),
                                       cmocka_unit_test(a_group_has_8_results),
                                       cmocka_unit_test(steps_of_random_graphs_can_be_run_in_order),
                                       cmocka_unit_test(a_group_computes_what_is_wanted)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
