/* An expression of each operator, in a table, for the suites that look at all of them. */
#ifndef GRAPH_OPERATOR_ROWS_H
#define GRAPH_OPERATOR_ROWS_H

#include "muster/graph.h"

#include <stdbool.h>

enum { OPERATOR_OPERANDS = 7, OPERATOR_ATTRIBUTES = 5 };

typedef struct operator_row {
    const char *operation;
    /* Digits: the sizes of the axes; R: the rows of a call; "-": a scalar. A letter before them: i
     * indices, b truth, n i32, m f64 of which no gradient is taken, p and q indices that an f64 in
     * (-1, 1) becomes (graph_axis_rows.h). Else f64. NULL: there are no more. */
    const char *shapes[OPERATOR_OPERANDS];
    muster_attribute attributes[OPERATOR_ATTRIBUTES];
    bool second;  /* the gradient of its gradient, too, which has operators of its own */
    int32_t axis; /* of operand 0, which p counts */
} operator_row;

extern const operator_row operator_rows[];
extern const int32_t operator_row_count;

#endif
