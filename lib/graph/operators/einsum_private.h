/* einsum: the letters of its axes. einsum_text.c reads them, einsum.c multiplies. */
#ifndef MST_EINSUM_PRIVATE_H
#define MST_EINSUM_PRIVATE_H

#include "composite_private.h"

enum { NAMED = 52, LETTERS = NAMED + MUSTER_MAX_DIMS, OPERANDS = 2, TERMS = 32 };

typedef struct term {
    int32_t count;
    int32_t letters[2 * MUSTER_MAX_DIMS]; /* 0 to 51; from NAMED on those of "...", of which the last is that of the last axis */
    int32_t dots;                         /* 1 + the letters before "..."; 0: there is none */
} term;

typedef struct sum_of_products {
    mst_draft *draft;
    term in[TERMS], out;
    int32_t uses[LETTERS];  /* in the text, to the left of the arrow */
    mst_dim sizes[LETTERS]; /* MST_DIM_NONE: no operand has the letter */
    muster_expr *operands[TERMS];
} sum_of_products;

/* The letters of the operands and of the result, and the sizes of their axes. false: refused. */
bool mst_einsum_read(sum_of_products *s);
/* Refuses the text, in which `expected` was expected; false. */
bool mst_einsum_refuse(sum_of_products *s, const char *expected);

#endif
