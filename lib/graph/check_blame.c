/* Which operation has a wrong gradient: each one is checked by itself, with the values that its
 * operands have at the point. */
#include "check_private.h"

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

static muster_status values_find(blaming *b, mst_check_copy *copy, muster_tensor *out) {
    const mst_check *check = b->check;
    int32_t count = 0;
    MUSTER_TRY(mst_check_copy_begin(check, copy));
    for (int32_t i = 0; i < check->leaf_count; i++) MUSTER_TRY(mst_check_copy_leaf(check, copy, check->leaves[i].from));
    for (int32_t id = 0; id <= check->loss->id; id++)
        if (check->used[id] && !copy->map[id]) MUSTER_TRY(mst_check_copy_node(check, copy, check->graph->nodes[id]));
    for (int32_t id = 0; id <= check->loss->id; id++) {
        const muster_expr *node = check->graph->nodes[id];
        for (int32_t i = 0; check->used[id] && has_gradient(node) && i < node->input_count; i++) {
            const muster_expr *operand = node->inputs[i];
            char name[24];
            if (is_constant(operand) || b->values[operand->id].dtype != MUSTER_DTYPE_NONE) continue;
            MUSTER_TRY(mst_check_tensor(check, &operand->type, &b->values[operand->id]));
            snprintf(name, sizeof name, "%d", (int)operand->id);
            MUSTER_TRY(muster_graph_output(copy->graph, name, copy->map[operand->id], MUSTER_MASTER));
            out[count++] = b->values[operand->id];
        }
    }
    return values_call(b, copy, out, count);
}

/* ---- one operation ---- */

/* sum(node * weights) of the operands' values; the weights are the last leaf. */
static muster_status node_loss(const blaming *b, const muster_expr *node, mst_check_copy *copy, mst_check_leaf *leaves, int32_t *count,
                               muster_expr **loss) {
    mst_check *check = b->check;
    for (int32_t i = 0; i < node->input_count; i++) {
        const muster_expr *operand = node->inputs[i];
        if (copy->map[operand->id]) continue;
        if (is_constant(operand)) {
            MUSTER_TRY(mst_check_copy_node(check, copy, operand));
            continue;
        }
        MUSTER_TRY(mst_check_copy_leaf(check, copy, operand));
        leaves[(*count)++] =
            (mst_check_leaf){.from = operand, .value = b->values[operand->id], .checked = mst_dtype_is_float(operand->type.dtype)};
    }
    MUSTER_TRY(mst_check_copy_node(check, copy, node));
    muster_expr *made = copy->map[node->id];
    MUSTER_TRY(mst_check_copy_leaf(check, copy, node)); /* the weights: an input in the shape of the node */
    mst_check_leaf *weights = &leaves[(*count)++];
    *weights = (mst_check_leaf){.from = node};
    MUSTER_TRY(mst_check_tensor(check, &node->type, &weights->value));
    for (int64_t e = 0; e < muster_tensor_count(weights->value); e++) ((double *)weights->value.data)[e] = 0.5 + mst_check_draw(check);
    made = MST_APPLY(copy->graph->graph, multiply, made, copy->map[node->id]);
    *loss = mst_node_is_error(made) ? made : MST_APPLY(copy->graph->graph, sum, made);
    return copy->graph->graph->status;
}

static muster_status node_check(const blaming *b, const muster_expr *node, bool *wrong) {
    mst_check_copy copy;
    mst_check_worst worst = {.leaf = -1};
    muster_expr *loss;
    int32_t count = 0;
    mst_check_leaf *leaves = mst_alloc((size_t)(node->input_count + 1) * sizeof *leaves);
    if (!leaves) return mst_out_of_memory(where, node->input_count);
    muster_status status = mst_check_copy_begin(b->check, &copy);
    if (status == MUSTER_OK) status = node_loss(b, node, &copy, leaves, &count, &loss);
    if (status == MUSTER_OK) status = mst_check_compare(b->check, &copy, loss, leaves, count, &worst);
    if (count) mst_free(leaves[count - 1].from == node ? leaves[count - 1].value.data : NULL);
    mst_free(leaves);
    mst_check_copy_end(&copy);
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
