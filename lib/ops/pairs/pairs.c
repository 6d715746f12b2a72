/* Pairs of cheap operations as one loop: the value between them stays in the processor. */
#include "pairs_private.h"

typedef struct pair_row {
    const mst_op_row *operation;
    int32_t op, first, second, swapped; /* the operation as the first of a pair, and as the second; -1: it is none */
} pair_row;

#define PLAIN(operation, NAME) \
    { &mst_operation_##operation, MUSTER_##NAME, MST_PAIR_FIRST_##NAME, MST_PAIR_SECOND_##NAME, MST_PAIR_SECOND_##NAME }
#define ORDERED(operation, NAME) \
    { &mst_operation_##operation, MUSTER_##NAME, MST_PAIR_FIRST_##NAME, MST_PAIR_SECOND_##NAME, MST_PAIR_SECOND_##NAME##_SWAPPED }
static const pair_row pair_rows[] = {PLAIN(binary, ADD),       PLAIN(binary, MUL), ORDERED(binary, SUB), ORDERED(binary, MAXIMUM),
                                     ORDERED(binary, MINIMUM), PLAIN(unary, RELU), PLAIN(unary, ABS),    PLAIN(unary, SQUARE)};

static const pair_row *pair_find(const mst_op_row *operation, int32_t op) {
    for (size_t i = 0; i < sizeof pair_rows / sizeof *pair_rows; i++)
        if (pair_rows[i].operation == operation && pair_rows[i].op == op) return &pair_rows[i];
    return NULL;
}

mst_iterator_loop mst_op_pair(muster_dtype dtype, const mst_op_row *first, int32_t first_op, const mst_op_row *second, int32_t second_op,
                              bool swapped) {
    const pair_row *a = pair_find(first, first_op), *b = pair_find(second, second_op);
    if (!a || !b || (dtype != MUSTER_F32 && dtype != MUSTER_F64)) return NULL;
    return (dtype == MUSTER_F32 ? mst_pairs_f32 : mst_pairs_f64)[a->first][swapped ? b->swapped : b->second];
}
