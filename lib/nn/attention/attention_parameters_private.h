/* Attention as the computations see it. Host code and kernel sources include this file. */
#ifndef MST_ATTENTION_PARAMETERS_PRIVATE_H
#define MST_ATTENTION_PARAMETERS_PRIVATE_H

#include <stdint.h>

enum { MST_ATTENTION_STACK = 6 }; /* axes before the matrices, at most */
enum {
    MST_ATTENTION_Q,
    MST_ATTENTION_K,
    MST_ATTENTION_V,
    MST_ATTENTION_MASK,
    MST_ATTENTION_Y,
    MST_ATTENTION_LSE,
    MST_ATTENTION_REST,
    MST_ATTENTION_DY,
    MST_ATTENTION_DQ,
    MST_ATTENTION_DK,
    MST_ATTENTION_DV,
    MST_ATTENTION_DMASK,
    MST_ATTENTION_OPERANDS
};
/* Does the operand have one number for each query, of the dtype to compute in? */
#define MST_ATTENTION_OF_QUERIES(operand) ((operand) == MST_ATTENTION_LSE || (operand) == MST_ATTENTION_REST)
/* Does it have a matrix for each group of matrices of queries? */
#define MST_ATTENTION_OF_KEYS(operand) \
    ((operand) == MST_ATTENTION_K || (operand) == MST_ATTENTION_V || (operand) == MST_ATTENTION_DK || (operand) == MST_ATTENTION_DV)

/* Strides are in elements; 0 along axes that the mask and its gradient repeat. */
typedef struct mst_attention_operand {
    char *data; /* the first element; NULL: there is none, or it is not wanted */
    int64_t stack[MST_ATTENTION_STACK], row, column;
} mst_attention_operand;

typedef struct mst_attention_parameters {
    mst_attention_operand operands[MST_ATTENTION_OPERANDS];
    int64_t stack[MST_ATTENTION_STACK];    /* axes that are missing come first, and are 1 */
    int64_t count;                         /* matrices of the stack */
    int64_t group;                         /* so many of them, which are neighbours, have the same keys and values; 1 or more */
    int64_t mask[MST_ATTENTION_STACK + 2]; /* the shape of the mask; 1: missing, or repeated */
    int64_t queries, keys, width, values;  /* n, m, d, e */
    double scale;
    int32_t dtype, causal;
} mst_attention_parameters;

#endif
