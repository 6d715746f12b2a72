#include "graph_groups.h"

#include <math.h>
#include <stdio.h>

void group_add_member(mst_fused_group *group, muster_expr *node, bool result) {
    for (int32_t i = 0; i < node->input_count; i++) {
        if (mst_node_is_number(node->inputs[i]) || mst_group_find(group, node->inputs[i]) >= 0) continue;
        assert_in_range(group->operand_count, 0, MST_GROUP_OPERANDS - 1);
        group->operands[group->operand_count++] = node->inputs[i];
    }
    assert_in_range(group->member_count, 0, MST_GROUP_MEMBERS - 1);
    if (result) {
        assert_in_range(group->result_count, 0, MST_GROUP_RESULTS - 1);
        group->results[group->result_count++] = group->member_count;
    }
    group->members[group->member_count++] = node;
}

/* Numbers that every dtype of the kind holds, and those at its ends. */
static double number_of(muster_dtype dtype, int32_t k) {
    static const double floats[] = {0.1, -2.5, INFINITY, -0.0, 1e-7, NAN, 3}, small[] = {7, 100, 0, 1};
    switch (dtype) {
    case MUSTER_I8:
        return k % 5 == 4 ? -128 : small[k % 4];
    case MUSTER_I16:
        return k % 5 == 4 ? -32768 : small[k % 4];
    case MUSTER_I32:
        return k % 5 == 4 ? -2147483648. : small[k % 4];
    case MUSTER_I64:
        return k % 5 == 4 ? -0x1p63 : small[k % 4];
    case MUSTER_U8:
        return k % 5 == 4 ? 255 : small[k % 4];
    case MUSTER_U32:
        return k % 5 == 4 ? 4294967295. : small[k % 4];
    case MUSTER_U64:
        return k % 5 == 4 ? 18446744073709549568. : small[k % 4];
    default:
        return floats[k % 7];
    }
}

typedef struct making {
    row_groups *made;
    mst_fused_group *group;
    muster_dtype dtype;
    muster_expr *a, *b, *condition;
    muster_expr *chain; /* a member of the dtype, or NULL */
} making;

static mst_fused_group *open_group(making *m) {
    if (m->group && m->group->result_count < MST_GROUP_RESULTS) return m->group;
    assert_in_range(m->made->count, 0, ROW_GROUPS_MAX - 1);
    m->chain = NULL;
    m->group = &m->made->groups[m->made->count++];
    return m->group;
}

static void add_row(making *m, const mst_operator *op, const muster_attribute *attributes) {
    mst_fused_group *group = open_group(m);
    const int32_t k = m->made->rows++;
    muster_graph *graph = m->made->graph;
    muster_expr *first = group->member_count % 2 && m->chain ? m->chain : m->a, *inputs[3];
    const bool takes_number = op->operands[1] && m->dtype != MUSTER_BOOL && op->id != MST_OPERATOR_relu_gradient;
    muster_expr *number = takes_number ? muster_graph_number(graph, number_of(m->dtype, k)) : m->b;
    int32_t count = op->operands[1] ? 2 : 1;
    inputs[0] = first;
    inputs[1] = k % 4 == 3 ? number : m->b;
    if (k % 8 == 5 && count == 2) inputs[0] = number, inputs[1] = first;
    if (op->id == MST_OPERATOR_where) {
        inputs[2] = k % 2 ? number : m->b;
        inputs[1] = first;
        inputs[0] = m->condition;
        count = 3;
    }
    muster_expr *node = apply(graph, op->name, inputs, count, attributes);
    assert_ptr_equal(node->op, op);
    group_add_member(group, node, true);
    if (node->type.dtype == m->dtype) m->chain = node;
}

uint32_t group_dtypes(const mst_operator *op) {
    const mst_op_value operation = {.integer = op->operation};
    const mst_op_row *row = op->elementwise;
    uint32_t dtypes = op->dtypes ? op->dtypes : MST_ALL_DTYPES;
    if (op->id == MST_OPERATOR_divide) dtypes &= MST_FLOAT_DTYPES;
    for (muster_dtype dtype = MUSTER_DTYPE_NONE + 1; dtype < MST_DTYPE_COUNT; dtype++)
        if (row->takes && !row->takes(dtype, &operation)) dtypes &= ~(uint32_t)MST_DTYPE_BIT(dtype);
    return dtypes;
}

static void add_operator(making *m, const mst_operator *op) {
    if (!(group_dtypes(op) & MST_DTYPE_BIT(m->dtype))) return;
    if (op->id == MST_OPERATOR_cast) {
        for (muster_dtype to = MUSTER_DTYPE_NONE + 1; to < MST_DTYPE_COUNT; to++)
            if (to != m->dtype) add_row(m, op, ATTRIBUTES({.name = "dtype", .integer = to}));
    } else if (op->id == MST_OPERATOR_clip) {
        const bool real = mst_dtype_is_float(m->dtype);
        add_row(m, op, ATTRIBUTES({.name = "low", .number = real ? -0.1 : 2}, {.name = "high", .number = real ? 0.7 : 99}));
    } else {
        add_row(m, op, NULL);
    }
}

void row_groups_make(muster_runtime *runtime, row_groups *made) {
    *made = (row_groups){.count = 0};
    assert_ok(muster_graph_create(runtime, "rows", &made->graph));
    muster_expr *condition = muster_graph_input(made->graph, "condition", MUSTER_BOOL, MUSTER_SHAPE(8), MUSTER_BROADCAST);
    for (muster_dtype dtype = MUSTER_DTYPE_NONE + 1; dtype < MST_DTYPE_COUNT; dtype++) {
        char name[16];
        making m = {.made = made, .dtype = dtype, .condition = condition};
        snprintf(name, sizeof name, "a_%s", muster_dtype_name(dtype));
        m.a = muster_graph_input(made->graph, name, dtype, MUSTER_SHAPE(8), MUSTER_BROADCAST);
        name[0] = 'b';
        m.b = muster_graph_input(made->graph, name, dtype, MUSTER_SHAPE(8), MUSTER_BROADCAST);
        for (int32_t id = 0; id < MST_OPERATORS; id++)
            if (mst_operators[id]->elementwise) add_operator(&m, mst_operators[id]);
    }
}
