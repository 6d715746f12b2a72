/* Memory that runs out while a graph is built: each allocation of each operator, of its gradient
 * and, where the table asks for it, of the gradient of its gradient fails once. The graph says so,
 * gives no expression that only looks right, and gives back all memory. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_arena.h"
#include "graph_fixture.h"
#include "graph_operator_rows.h"
#include "graph_private.h"
#include "memory_impl.h"

enum { STRIDES = 7 };

typedef struct built {
    muster_graph *graph;
    muster_expr *operands[OPERATOR_OPERANDS], *floats[OPERATOR_OPERANDS];
    int32_t count, float_count;
} built;

/* Rows are the first axis of an input, from which they are moved. Digits are sizes, R the number of
 * rows (graph_operator_rows.h). */
static muster_expr *input_make(muster_graph *graph, const char *shape, int32_t number) {
    const bool other = strchr("ibnm", *shape);
    const char *axes = other ? shape + 1 : shape;
    const muster_dtype dtype = !other || *shape == 'm' ? MUSTER_F64 : *shape == 'n' ? MUSTER_I32 : *shape == 'b' ? MUSTER_BOOL : MUSTER_I64;
    const char *first = strchr(axes, 'R');
    int64_t sizes[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    char name[16];
    snprintf(name, sizeof name, "x%d", (int)number);
    if (first) sizes[ndim++] = MUSTER_ROWS;
    for (const char *at = axes; *at && *at != '-'; at++)
        if (at != first) sizes[ndim++] = *at == 'R' ? MUSTER_ROWS : *at - '0';
    muster_expr *x = muster_graph_input(graph, name, dtype, ndim, sizes, first ? MUSTER_SCATTER : MUSTER_BROADCAST);
    if (!first || first == axes) return x;
    return apply(graph, "moveaxis", &x, 1, ATTRIBUTES({.name = "source", LIST(0)}, {.name = "destination", LIST(first - axes)}));
}

static built begin(muster_runtime *runtime, const operator_row *row) {
    built b = {0};
    assert_ok(muster_graph_create(runtime, "building", &b.graph));
    for (; b.count < OPERATOR_OPERANDS && row->shapes[b.count]; b.count++) {
        b.operands[b.count] = input_make(b.graph, row->shapes[b.count], b.count);
        if (!strchr("ibnm", row->shapes[b.count][0])) b.floats[b.float_count++] = b.operands[b.count];
    }
    if (muster_graph_status(b.graph) != MUSTER_OK) fail_msg("%s: %s", row->operation, muster_last_error());
    return b;
}

/* The status of the latest call; *made: what it made. */
static muster_status build(built *b, const operator_row *row, muster_expr **made) {
    muster_attribute attributes[OPERATOR_ATTRIBUTES + 1] = {{.name = NULL}};
    muster_expr *d[OPERATOR_OPERANDS], *number;
    memcpy(attributes, row->attributes, sizeof row->attributes);
    MUSTER_TRY(muster_expr_apply(b->graph, row->operation, b->operands, b->count, attributes, "building.c:1", made));
    if (!b->float_count || (*made)->type.dtype != MUSTER_F64 || mst_operator_find(row->operation)->no_gradient) return MUSTER_OK;
    MUSTER_TRY(muster_expr_apply(b->graph, "sum", made, 1, NULL, "building.c:2", &number));
    MUSTER_TRY(muster_gradient(number, b->floats, b->float_count, d));
    *made = d[0];
    if (!row->second) return MUSTER_OK;
    MUSTER_TRY(muster_expr_apply(b->graph, "sum", d, 1, NULL, "building.c:3", &number));
    MUSTER_TRY(muster_gradient(number, b->floats, b->float_count, d));
    *made = d[0];
    return MUSTER_OK;
}

static void shape_copy(char *to, size_t size, muster_expr *y) {
    const bool made = muster_expr_ndim(y) >= 0;
    snprintf(to, size, "%s %s", made ? muster_dtype_name(y->type.dtype) : "error", made ? muster_expr_shape(y) : "");
}

/* How many allocations the expression needs, and what it is. */
static int64_t count_allocations(muster_runtime *runtime, const operator_row *row, char *shape, size_t size) {
    built b = begin(runtime, row);
    graph_arena_counts(true);
    const int64_t before = mst_memory_count();
    muster_expr *y;
    const muster_status status = build(&b, row, &y);
    const int64_t count = mst_memory_count() - before;
    graph_arena_counts(false);
    if (status != MUSTER_OK) fail_msg("%s: %s", row->operation, muster_last_error());
    shape_copy(shape, size, y);
    assert_ok(muster_graph_destroy(b.graph));
    return count;
}

/* Returns whether the graph could do without the allocation. */
static bool fail_once(muster_runtime *runtime, const operator_row *row, int64_t k, const char *expected) {
    char shape[MST_NODE_TEXT];
    built b = begin(runtime, row);
    graph_arena_counts(true);
    mst_memory_fail_at(k);
    muster_expr *y;
    const muster_status built = build(&b, row, &y), status = muster_graph_status(b.graph);
    mst_memory_fail_at(0);
    graph_arena_counts(false);
    if (status != MUSTER_OK && status != MUSTER_OUT_OF_MEMORY)
        fail_msg("%s, allocation %d: %s", row->operation, (int)k, muster_last_error());
    if (built != status)
        fail_msg("%s, allocation %d: the call returned %s, the graph's status is %s", row->operation, (int)k, muster_status_name(built),
                 muster_status_name(status));
    if (status == MUSTER_OK) shape_copy(shape, sizeof shape, y);
    if (status == MUSTER_OK && strcmp(shape, expected) != 0)
        fail_msg("%s, allocation %d: expected %s, received %s", row->operation, (int)k, expected, shape);
    assert_ok(muster_graph_destroy(b.graph));
    return status == MUSTER_OK;
}

static void each_failed_allocation_is_said(void **state) {
    muster_runtime *runtime = *state;
    const int64_t live = mst_memory_live(), stride = test_one_in(1, STRIDES, STRIDES);
    int64_t failed = 0, done_without = 0;
    for (int32_t r = 0; r < operator_row_count; r++) {
        char shape[MST_NODE_TEXT];
        const int64_t count = count_allocations(runtime, &operator_rows[r], shape, sizeof shape);
        for (int64_t k = 1 + (r + (int64_t)test_seed()) % stride; k <= count; k += stride, failed++)
            done_without += fail_once(runtime, &operator_rows[r], k, shape);
    }
    print_message("%d rows, %d allocations failed, %d were done without\n", (int)operator_row_count, (int)failed, (int)done_without);
    assert_true(failed > 15 * operator_row_count / stride);
    assert_true(mst_memory_live() == live);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_failed_allocation_is_said)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
