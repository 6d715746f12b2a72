/* Every operator in compiled graphs, with its gradient: on several devices the values of one. The
 * tables of test_distribution give expressions of each, and of operations along an axis with rows
 * at every place. One of the first table is compiled once for each arrangement of its operands:
 * rows that calls scatter, parameters, whole and split along each of their axes; and with
 * micro-batches. One of the second is compiled in one arrangement, by turns. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_axis_rows.h"
#include "graph_invariance.h"
#include "graph_operator_rows.h"
#include "graph_private.h"
#include "muster/rule.h"

enum { FIXED_ROWS = 7, STRIDE_OF_GPUS = 13, SHARDS = 8 };

/* Where the operands of an expression lie. */
typedef struct arrangement {
    bool parameters; /* what has no rows is a parameter; else an input that every device gets */
    bool fixed;      /* FIXED_ROWS in place of rows, and all floats are parameters */
    int32_t split;   /* the axis along which parameters are split; -1: they are whole */
} arrangement;

static const operator_row *row_now;
static arrangement arrangement_now;
static bool covered[MST_OPERATORS];

/* ---- operands ---- */

static bool is_float(const char *shape) { return !strchr("ibnmpq", *shape); }
static const char *axes_of(const char *shape) { return is_float(shape) ? shape : shape + 1; }
static bool has_rows(const char *shape) { return strchr(shape, 'R') && !arrangement_now.fixed; }
static bool is_parameter(const char *shape) {
    return is_float(shape) && !has_rows(shape) && (arrangement_now.parameters || arrangement_now.fixed);
}

/* With rows they are the first axis, from which `operand_moved` moves them. */
static invariance_port port_of(const char *shape, const char *name) {
    const char *axes = axes_of(shape), *first = has_rows(shape) ? strchr(axes, 'R') : NULL;
    const bool numbers = is_float(shape) || *shape == 'p' || *shape == 'q';
    invariance_port port = {.name = name, .kind = numbers ? NUMBERS : LABELS, .broadcast = !first};
    if (*shape == 'i' && *axes == '-') port.kind = COUNTER;
    if (first) port.shape[port.ndim++] = MUSTER_ROWS;
    for (const char *at = axes; *at && *at != '-'; at++)
        if (at != first) port.shape[port.ndim++] = *at != 'R' ? *at - '0' : arrangement_now.fixed ? FIXED_ROWS : MUSTER_ROWS;
    return port;
}

/* Labels are 0, 1 and 2. Indices into an axis of 9 or 5 come from all its parts. */
static muster_expr *operand_of_labels(muster_graph *graph, const char *shape, muster_expr *x) {
    const char *operation = row_now->operation;
    const bool table = strcmp(operation, "take") == 0 || strcmp(operation, "embedding") == 0;
    const int32_t stride = table ? 4 : strcmp(operation, "scatter_add") == 0 ? 2 : 1;
    if (*shape == 'p' || *shape == 'q') return x; /* when it has been moved */
    if (*shape == 'm') return muster_expr_parse(graph, "cast(x, f64)", "x", x);
    if (*shape == 'b') return muster_expr_parse(graph, "equal(x, 1)", "x", x);
    if (*shape == 'n' || x->type.dtype == MUSTER_I64) return x;
    char text[40];
    snprintf(text, sizeof text, "cast(x, i64) * %d", (int)stride);
    return muster_expr_parse(graph, text, "x", x);
}

static muster_expr *operand_moved(muster_graph *graph, const char *shape, muster_expr *x) {
    const char *axes = axes_of(shape);
    const int64_t moved = has_rows(shape) ? strchr(axes, 'R') - axes : 0;
    if (!moved) return x;
    return apply(graph, "moveaxis", &x, 1, ATTRIBUTES({.name = "source", LIST(0)}, {.name = "destination", LIST(moved)}));
}

/* The attributes of the row; sizes without rows where there are none. */
typedef struct attributes {
    muster_attribute items[OPERATOR_ATTRIBUTES + 1];
    int64_t integers[OPERATOR_ATTRIBUTES][MUSTER_MAX_DIMS];
} attributes;

static void attributes_of(attributes *made) {
    *made = (attributes){.integers = {{0}}};
    for (int32_t a = 0; a < OPERATOR_ATTRIBUTES && row_now->attributes[a].name; a++) {
        made->items[a] = row_now->attributes[a];
        for (int32_t i = 0; i < made->items[a].count; i++) {
            const int64_t size = made->items[a].integers[i];
            made->integers[a][i] = size == MUSTER_ROWS && arrangement_now.fixed ? FIXED_ROWS : size;
        }
        if (made->items[a].count) made->items[a].integers = made->integers[a];
    }
}

/* ---- the graph ---- */

static void output_add(muster_graph *graph, char kind, int32_t i, muster_expr *value) {
    char name[8];
    snprintf(name, sizeof name, "%c%d", kind, (int)i);
    assert_ok(muster_graph_output(graph, name, value, MUSTER_AUTO));
}

/* Makes the gradient of each operand an output. Operands that are parameters are updated by it. */
static void gradients_add(muster_graph *graph, muster_expr *y, muster_expr *const *floats, int32_t count) {
    muster_expr *gradients[OPERATOR_OPERANDS], *parameters[OPERATOR_OPERANDS], *theirs[OPERATOR_OPERANDS];
    int32_t found = 0;
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(y * cos(y))", "y", y), floats, count, gradients));
    if (row_now->second)
        assert_ok(muster_gradient(muster_expr_parse(graph, "sum(square(d))", "d", gradients[0]), floats, count, gradients));
    for (int32_t i = 0; i < count; i++) {
        output_add(graph, 'd', i, gradients[i]);
        if (!mst_node_is(floats[i], MST_OPERATOR_parameter)) continue;
        parameters[found] = floats[i];
        theirs[found++] = gradients[i];
    }
    if (found) assert_ok(muster_graph_minimise(graph, parameters, theirs, found, MUSTER_SGD, NULL));
}

/* x[]: the inputs, of which the first is one of rows only, then the variables. */
static void build(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its) {
    muster_expr *operands[OPERATOR_OPERANDS], *floats[OPERATOR_OPERANDS];
    int32_t inputs = 1, variables = 0, wanted = 0, operand = 0;
    attributes with;
    (void)count;
    while (its->inputs[variables].name) variables++; /* they come behind the inputs */
    assert_ok(muster_graph_output(graph, "rows", muster_expr_parse(graph, "x * 2", "x", x[0]), MUSTER_AUTO));
    for (; operand < OPERATOR_OPERANDS && row_now->shapes[operand]; operand++) {
        const char *shape = row_now->shapes[operand];
        muster_expr *leaf = is_parameter(shape) ? x[variables++] : x[inputs++];
        if (is_parameter(shape) && arrangement_now.split >= 0 && leaf->type.ndim)
            assert_ok(muster_graph_split(leaf, arrangement_now.split % leaf->type.ndim));
        if (is_float(shape)) floats[wanted++] = leaf;
        operands[operand] = operand_moved(graph, shape, is_float(shape) ? leaf : operand_of_labels(graph, shape, leaf));
        if (*shape == 'p' || *shape == 'q')
            operands[operand] = operator_places(operands[operand], *shape == 'p' ? operands[0] : NULL, row_now->axis);
    }
    attributes_of(&with);
    muster_expr *y = apply(graph, row_now->operation, operands, operand, with.items);
    output_add(graph, 'y', 0, y);
    for (int32_t r = 1; r < y->op->results - y->op->hidden_results; r++) output_add(graph, 'y', r, muster_expr_result(y, r));
    if (wanted && y->type.dtype == MUSTER_F64 && !mst_operator_find(row_now->operation)->no_gradient)
        gradients_add(graph, y, floats, wanted);
    for (int32_t id = 0; id < graph->graph->node_count; id++)
        if (mst_node_is_known(graph->graph->nodes[id])) covered[graph->graph->nodes[id]->op->id] = true;
}

static invariance_case case_of(void) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    invariance_case its = {.name = row_now->operation, .build = build, .seed = test_seed()};
    int32_t inputs = 0, variables = 0;
    its.inputs[inputs++] = (invariance_port){.name = "only", .ndim = 1, .shape = {MUSTER_ROWS}};
    for (int32_t i = 0; i < OPERATOR_OPERANDS && row_now->shapes[i]; i++)
        *(is_parameter(row_now->shapes[i]) ? &its.variables[variables++] : &its.inputs[inputs++]) = port_of(row_now->shapes[i], names[i]);
    return its;
}

/* ---- the arrangements of a row ---- */

static int32_t arrangements_of(const operator_row *row, arrangement *made) {
    int32_t count = 0, whole_axes = -1, axes = -1;
    made[count++] = (arrangement){.split = -1};
    for (int32_t i = 0; i < OPERATOR_OPERANDS && row->shapes[i]; i++) {
        if (!is_float(row->shapes[i])) continue;
        const int32_t ndim = *row->shapes[i] == '-' ? 0 : (int32_t)strlen(row->shapes[i]);
        if (ndim > axes) axes = ndim;
        if (!strchr(row->shapes[i], 'R') && ndim > whole_axes) whole_axes = ndim;
    }
    for (int32_t a = -1; a < whole_axes; a++) made[count++] = (arrangement){.parameters = true, .split = a};
    for (int32_t a = 0; a < axes; a++) made[count++] = (arrangement){.fixed = true, .split = a};
    return count;
}

typedef struct machine {
    const char *devices;
    int32_t shards; /* above 0: the bits of one device with as many */
    int64_t micro_batches;
} machine;
static const machine machines[] = {{"host:2", 0, 0},      {"host:3", 0, 0},      {"discrete:3", 0, 0}, {"host:8", 0, 0},
                                   {"host:2", SHARDS, 0}, {"host:8", SHARDS, 0}, {"host:1", 0, 3},     {"host:2", 0, 2}};
enum { MACHINES = 8, WAYS = 6, ARRANGEMENTS = 867, MOST_ARRANGEMENTS = 12, AXIS_ROWS = 612 };

static invariance_way way_of(int32_t way) {
    static const int64_t rows[] = {7, 0, 1, 64}, expected_rows[] = {0, 1, 1000000};
    return (invariance_way){.dtype = MUSTER_F64,
                            .rows = rows,
                            .calls = on_gpus() ? 2 : 4,
                            .unfused = on_gpus() || way % 2,
                            .expected_rows = expected_rows[way % 3]};
}

/* What one device computes, for all machines that are compared with it. */
typedef struct expectation {
    invariance_values values;
    bool known;
    int32_t way, shards;
} expectation;

static void expect_of_one_device(const invariance_case *its, const invariance_way *made, int32_t way, int32_t shards,
                                 expectation *expected) {
    if (expected->known && expected->way == way && expected->shards == shards) return;
    if (expected->known) invariance_free(&expected->values);
    invariance_run(devices_open_shards("host:1", shards), its, made, &expected->values);
    expected->known = true;
    expected->way = way;
    expected->shards = shards;
}

static void machine_compare(const machine *on, const invariance_case *its, int32_t way, expectation *expected) {
    invariance_values values;
    invariance_way made = way_of(way);
    const int32_t shards = arrangement_now.split < 0 ? on->shards : 0; /* with shards nothing may be split */
    const double limit = shards ? 0 : 1e-11;
    expect_of_one_device(its, &made, way, shards, expected);
    made.micro_batches = on->micro_batches;
    invariance_run(devices_open_shards(on->devices, shards), its, &made, &values);
    const double distance = invariance_distance(&expected->values, &values);
    if (!(distance <= limit))
        fail_msg("%s(%s, %s), %s %d, on %s, %d shards, %d micro-batches, %s, split along %d, for %d rows: differs by %g from one device "
                 "(\"%s\", \"%s\")",
                 its->name, row_now->shapes[0], row_now->shapes[1], row_now->attributes[0].name ? row_now->attributes[0].name : "axis",
                 (int)row_now->axis, on->devices, (int)shards, (int)on->micro_batches, arrangement_now.fixed ? "without rows" : "with rows",
                 (int)arrangement_now.split, (int)made.expected_rows, distance, expected->values.message, values.message);
    invariance_free(&values);
}

/* Which of the machines and of the ways of compiling, in this turn. */
static bool is_tried(int32_t m, int32_t way, int32_t turn) {
    if (test_is_full()) return true;
    if (way != turn / 2 % WAYS) return false;
    return m == turn % MACHINES;
}

/* Returns the number of comparisons. */
static int32_t arrangement_compare(bool (*tried)(int32_t m, int32_t way, int32_t turn), int32_t turn) {
    const invariance_case its = case_of();
    expectation expected = {.known = false};
    int32_t compared = 0;
    for (int32_t way = 0; way < WAYS; way++)
        for (int32_t sharded = 0; sharded < 2; sharded++)
            for (int32_t m = 0; m < MACHINES; m++) {
                if ((machines[m].shards > 0) != sharded || !tried(m, way, turn)) continue;
                machine_compare(&machines[m], &its, way, &expected);
                compared++;
            }
    if (expected.known) invariance_free(&expected.values);
    return compared;
}

/* A sample: each arrangement is compiled in one way, on simulated GPUs some arrangements. */
static void every_operator_computes_what_one_device_does(void **state) {
    int32_t compared = 0, tried = 0, turn = (int32_t)(test_seed() % STRIDE_OF_GPUS);
    const int64_t one_in = on_gpus() ? 1 : test_one_in(1, 1, 3); /* besides the first of each row */
    (void)state;
    for (int32_t i = 0; i < operator_row_count; i++) {
        arrangement arrangements[MOST_ARRANGEMENTS];
        const int32_t count = arrangements_of(&operator_rows[i], arrangements);
        row_now = &operator_rows[i];
        for (int32_t a = 0; a < count; a++, turn++) {
            if (on_gpus() && !test_is_full() && turn % STRIDE_OF_GPUS) continue;
            if (a > 0 && !test_keeps(turn, one_in)) continue;
            arrangement_now = arrangements[a];
            compared += arrangement_compare(is_tried, one_in > 1 ? tried : turn);
            tried++;
        }
    }
    assert_in_range(tried, on_gpus() && !test_is_full() ? ARRANGEMENTS / STRIDE_OF_GPUS : ARRANGEMENTS / one_in, ARRANGEMENTS);
    assert_int_equal(compared, tried * (test_is_full() ? MACHINES * WAYS : 1));
}

/* Of operations along an axis one arrangement on one machine in one way, by turns; with all cases
 * every arrangement on every machine. */
static bool is_tried_along(int32_t m, int32_t way, int32_t turn) {
    return (test_is_full() || m == turn % MACHINES) && way == (turn / MACHINES + turn + m) % WAYS;
}

static void every_axis_computes_what_one_device_does(void **state) {
    const int64_t one_in = on_gpus() ? test_one_in(1, STRIDE_OF_GPUS, STRIDE_OF_GPUS) : test_one_in(1, 1, 2);
    int32_t compared = 0, arranged = 0, rows = 0;
    (void)state;
    for (; (row_now = operator_axis_row(rows)); rows++) {
        arrangement arrangements[MOST_ARRANGEMENTS];
        const int32_t count = arrangements_of(row_now, arrangements), turn = rows + (int32_t)(test_seed() % MACHINES);
        if (!test_keeps(rows, one_in)) continue;
        for (int32_t a = 0; a < count; a++) {
            if (!test_is_full() && a != (turn / MACHINES + turn / 3) % count) continue;
            arrangement_now = arrangements[a];
            compared += arrangement_compare(is_tried_along, turn);
            arranged++;
        }
    }
    assert_int_equal(rows, AXIS_ROWS);
    if (!test_is_full()) assert_int_equal(arranged, test_kept(AXIS_ROWS, one_in));
    assert_int_equal(compared, arranged * (test_is_full() ? MACHINES : 1));
}

/* Products and sums of values that are cut along an inner axis, however they are compiled: a shard
 * lies beside others on few devices, alone on many. */
static void shards_of_inner_axes_have_the_bits_of_one_device(void **state) {
    static const machine alone = {"host:8", SHARDS, 0};
    int32_t compared = 0;
    (void)state;
    if (on_gpus()) return;
    for (int32_t i = 0; i < operator_row_count; i++) {
        row_now = &operator_rows[i];
        arrangement_now = (arrangement){.split = -1};
        if (strcmp(row_now->operation, "matmul") != 0 && strcmp(row_now->operation, "add") != 0) continue;
        const invariance_case its = case_of();
        for (int32_t way = 0; way < WAYS; way++) {
            expectation expected = {.known = false};
            machine_compare(&alone, &its, way, &expected);
            invariance_free(&expected.values);
            compared++;
        }
    }
    assert_int_equal(compared, 8 * WAYS);
}

/* The operators that no graph has before it is compiled, or that belong to one with
 * MUSTER_PER_WORKER, or mean something else on several devices (test_batch_norm), or that only the
 * gradient of a batch normalisation has (there). */
static bool is_made_by_compiling(int32_t id) {
    return id == MST_OPERATOR_part || id == MST_OPERATOR_all_reduce || id == MST_OPERATOR_reduce_scatter || id == MST_OPERATOR_all_gather ||
           id == MST_OPERATOR_all_to_all || id == MST_OPERATOR_place || id == MST_OPERATOR_place_gradient ||
           mst_operators[id]->flags & MST_OPERATOR_OWN_ROWS || id == MST_OPERATOR_over_devices || id == MST_OPERATOR_anew;
}

static void no_operator_is_left_out(void **state) {
    int32_t found = 0;
    (void)state;
    if (on_gpus() && !test_is_full()) return;
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        if (!op->run && !op->view) continue; /* composites */
        if (!covered[id] && !is_made_by_compiling(id)) fail_msg("no graph has %s", op->name);
        found += covered[id];
    }
    assert_true(found > 90);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_computes_what_one_device_does),
        cmocka_unit_test(every_axis_computes_what_one_device_does),
        cmocka_unit_test(shards_of_inner_axes_have_the_bits_of_one_device),
        cmocka_unit_test(no_operator_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
