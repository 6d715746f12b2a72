/* The table of operations, and its questions. */
#include "graph_private.h"

#include <string.h>

#define MST_OPERATOR(name) extern const mst_operator mst_operator_##name;
#include "operators.def"
#undef MST_OPERATOR

const mst_operator *const mst_operators[MST_OPERATORS] = {
#define MST_OPERATOR(name) &mst_operator_##name,
#include "operators.def"
#undef MST_OPERATOR
};

const mst_operator *mst_operator_find(const char *name) {
    for (int32_t i = 0; i < MST_OPERATORS; i++)
        if (strcmp(mst_operators[i]->name, name) == 0) return mst_operators[i]->flags & MST_OPERATOR_HIDDEN ? NULL : mst_operators[i];
    return NULL;
}

const mst_operator *mst_operator_named(mst_graph *graph, const char *name) {
    const mst_operator *op = mst_operator_find(name);
    if (!op) op = mst_custom_named(graph, name);
    if (!op && strcmp(name, "abs") == 0) op = mst_operators[MST_OPERATOR_absolute]; /* as in NumPy and Python */
    return op;
}

int32_t mst_operator_attribute_count(const mst_operator *op) {
    int32_t count = 0;
    while (op->attributes[count].name) count++;
    return count;
}

int32_t mst_operator_operand_count(const mst_operator *op, bool *more) {
    int32_t count = 0;
    while (op->operands[count] && strcmp(op->operands[count], "...") != 0) count++;
    *more = op->operands[count] != NULL;
    return count;
}
