/* Which operation has a wrong gradient: each one is checked by itself, with the values that its
 * operands have at the point. */
#include "check_private.h"

#include <math.h>
#include <stdio.h>

static const char where[] = "muster_gradient_check";
enum { MOST_NODES = 4096 }; /* in a larger graph no operation is named */

typedef struct blaming {
    mst_check *check;
    muster_tensor *values; /* by id; "no tensor": not needed */
} blaming;

static bool is_leaf(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter); }
/* A node that is copied where an operand's value would be taken. */
static bool is_constant(const muster_expr *node) { return node->input_count == 0 && !is_leaf(node); }

/* Has the node a gradient, and an operand to which it flows? */
static bool has_gradient(const muster_expr *node) {
    if (!node->op->gradient || !mst_dtype_is_float(node->type.dtype)) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        if (!is_constant(node->inputs[i]) && mst_dtype_is_float(node->inputs[i]->type.dtype)) return true;
    return false;
}

/* ---- the values of all operands ---- */

static muster_status values_call(const blaming *b, const mst_check_copy *copy, const muster_tensor *out, int32_t out_count) {
    muster_function *function;
    muster_tensor *in = mst_alloc((size_t)(b->check->leaf_count + 1) * sizeof *in);
    if (!in) return mst_out_of_memory(where, b->check->leaf_count);
    for (int32_t i = 0; i < b->check->leaf_count; i++) in[i] = b->check->leaves[i].value;
    muster_status status = mst_check_compile(copy, &function);
    if (status == MUSTER_OK) {
        status = muster_function_call_single(function, in, b->check->leaf_count, out, out_count, NULL);
        (void)muster_function_destroy(function);
    }
    mst_free(in);
    return status;
}

/* The value of the node becomes output *count of the copy, unless it is one already. */
static muster_status value_add(blaming *b, mst_check_copy *copy, const muster_expr *node, muster_tensor *out, int32_t *count) {
    char name[24];
    if (is_constant(node) || b->values[node->id].dtype != MUSTER_DTYPE_NONE) return MUSTER_OK;
    MUSTER_TRY(mst_check_tensor(b->check, &node->type, &b->values[node->id]));
    snprintf(name, sizeof name, "%d", (int)node->id);
    MUSTER_TRY(muster_graph_output(copy->graph, name, copy->map[node->id], MUSTER_MASTER));
    out[(*count)++] = b->values[node->id];
    return MUSTER_OK;
}

static muster_status values_find(blaming *b, mst_check_copy *copy, muster_tensor *out) {
    const mst_check *check = b->check;
    int32_t count = 0;
    MUSTER_TRY(mst_check_copy_begin(check, copy));
    for (int32_t i = 0; i < check->leaf_count; i++) MUSTER_TRY(mst_check_copy_leaf(check, copy, check->leaves[i].from));
    for (int32_t id = 0; id <= check->loss->id; id++)
        if (check->used[id] && !copy->map[id]) MUSTER_TRY(mst_check_copy_node(check, copy, check->graph->nodes[id]));
    for (int32_t id = 0; id <= check->loss->id; id++) {
        const muster_expr *node = check->graph->nodes[id];
        if (!check->used[id] || !has_gradient(node)) continue;
        for (int32_t i = 0; i < node->input_count; i++) MUSTER_TRY(value_add(b, copy, node->inputs[i], out, &count));
        MUSTER_TRY(value_add(b, copy, node, out, &count));
    }
    return values_call(b, copy, out, count);
}

/* ---- one operation ---- */

/* An operation by itself: its copy, and the leaves of that. */
typedef struct alone {
    const muster_expr *node;
    mst_check_copy copy;
    mst_check_leaf *leaves; /* the operands, the weights, and if not all results are finite, which are */
    int32_t count, operands;
    mst_check_scope scope;
} alone;

static muster_status operands_copy(const blaming *b, alone *a) {
    for (int32_t i = 0; i < a->node->input_count; i++) {
        const muster_expr *operand = a->node->inputs[i];
        if (a->copy.map[operand->id]) continue;
        if (is_constant(operand)) {
            MUSTER_TRY(mst_check_copy_node(b->check, &a->copy, operand));
            continue;
        }
        MUSTER_TRY(mst_check_copy_leaf(b->check, &a->copy, operand));
        a->leaves[a->count++] =
            (mst_check_leaf){.from = operand, .value = b->values[operand->id], .checked = mst_dtype_is_float(operand->type.dtype)};
    }
    a->operands = a->count;
    return mst_check_copy_node(b->check, &a->copy, a->node);
}

/* An input with the shape of the results, and memory for its value. */
static muster_status input_add(const blaming *b, alone *a, muster_dtype dtype, muster_expr **made) {
    mst_type type = a->node->type;
    type.dtype = dtype;
    const muster_expr like = {.graph = a->node->graph, .op = a->node->op, .type = type, .name = a->node->name, .id = a->node->id};
    MUSTER_TRY(mst_check_tensor(b->check, &type, &a->leaves[a->count].value));
    a->leaves[a->count++].from = a->node;
    MUSTER_TRY(mst_check_copy_leaf(b->check, &a->copy, &like));
    *made = a->copy.map[a->node->id];
    return MUSTER_OK;
}

/* where(finite, node, 0), if some results are not finite. */
static muster_status finite_only(const blaming *b, alone *a, muster_expr **made) {
    mst_graph *graph = a->copy.graph->graph;
    const double *results = b->values[a->node->id].data;
    const int64_t count = muster_tensor_count(b->values[a->node->id]);
    muster_expr *finite;
    for (int64_t e = 0; e < count; e++)
        if (!isfinite(results[e])) a->scope = MST_CHECK_FINITE_RESULTS;
    if (a->scope == MST_CHECK_RESULTS) return MUSTER_OK;
    MUSTER_TRY(input_add(b, a, MUSTER_BOOL, &finite));
    for (int64_t e = 0; e < count; e++) ((uint8_t *)a->leaves[a->count - 1].value.data)[e] = isfinite(results[e]) != 0;
    muster_expr *zero = mst_number(graph, MUSTER_F64, 0);
    if (!mst_node_is_error(zero)) *made = MST_APPLY(graph, where, finite, *made, zero);
    return graph->status;
}

/* sum(node * weights), of the results that are finite. */
static muster_status alone_loss(const blaming *b, alone *a, muster_expr **loss) {
    MUSTER_TRY(operands_copy(b, a));
    mst_graph *graph = a->copy.graph->graph;
    muster_expr *made = a->copy.map[a->node->id], *weights;
    MUSTER_TRY(input_add(b, a, a->node->type.dtype, &weights));
    const mst_check_leaf *drawn = &a->leaves[a->count - 1];
    for (int64_t e = 0; e < muster_tensor_count(drawn->value); e++) ((double *)drawn->value.data)[e] = 0.5 + mst_check_draw(b->check);
    MUSTER_TRY(finite_only(b, a, &made));
    made = MST_APPLY(graph, multiply, made, weights);
    *loss = mst_node_is_error(made) ? made : MST_APPLY(graph, sum, made);
    return graph->status;
}

static muster_status node_check(const blaming *b, const muster_expr *node, bool *wrong) {
    alone a = {.node = node, .scope = MST_CHECK_RESULTS};
    mst_check_worst worst = {.leaf = -1};
    muster_expr *loss;
    a.leaves = mst_alloc((size_t)(node->input_count + 2) * sizeof *a.leaves);
    if (!a.leaves) return mst_out_of_memory(where, node->input_count);
    muster_status status = mst_check_copy_begin(b->check, &a.copy);
    if (status == MUSTER_OK) status = alone_loss(b, &a, &loss);
    if (status == MUSTER_OK) status = mst_check_compare(b->check, &a.copy, loss, a.leaves, a.count, a.scope, &worst);
    for (int32_t i = a.operands; i < a.count; i++) mst_free(a.leaves[i].value.data);
    mst_free(a.leaves);
    mst_check_copy_end(&a.copy);
    *wrong = status == MUSTER_OK && worst.wrong;
    return status;
}

static muster_status nodes_check(const blaming *b, const muster_expr **blamed) {
    const mst_check *check = b->check;
    for (int32_t id = 0; id <= check->loss->id && !*blamed; id++) {
        const muster_expr *node = check->graph->nodes[id];
        bool wrong = false;
        if (!check->used[id] || !has_gradient(node)) continue;
        MUSTER_TRY(node_check(b, node, &wrong));
        if (wrong) *blamed = node;
    }
    return MUSTER_OK;
}

muster_status mst_check_blame(mst_check *check, const muster_expr **node) {
    mst_check_copy copy = {0};
    const size_t nodes = (size_t)check->loss->id + 1;
    blaming b = {.check = check};
    int32_t used = 0;
    *node = NULL;
    for (int32_t id = 0; id <= check->loss->id; id++) used += check->used[id];
    if (used > MOST_NODES) return MUSTER_OK;
    b.values = mst_alloc(nodes * sizeof *b.values);
    muster_tensor *out = mst_alloc((size_t)used * sizeof *out);
    muster_status status = b.values && out ? values_find(&b, &copy, out) : mst_out_of_memory(where, (int64_t)nodes);
    if (status == MUSTER_OK) status = nodes_check(&b, node);
    for (size_t id = 0; b.values && id < nodes; id++) mst_free(b.values[id].data);
    mst_free(b.values);
    mst_free(out);
    mst_check_copy_end(&copy);
    return status;
}
