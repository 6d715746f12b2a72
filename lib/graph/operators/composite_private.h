/* Short names for what composite operations are written with: `draft` is the application that they
 * stand for. */
#ifndef MST_COMPOSITE_PRIVATE_H
#define MST_COMPOSITE_PRIVATE_H

#include "operators_private.h"

#define E(name, ...) MST_APPLY(draft->graph, name, __VA_ARGS__)
#define X (draft->inputs[0])
#define Y (draft->inputs[1])
/* A number of the dtype of operand 0. */
#define NUMBER(value) mst_number(draft->graph, X->type.dtype, (value))

/* The square root, whose gradient at 0 is taken as 0 (it would be infinite). */
muster_expr *mst_root(mst_draft *draft, muster_expr *x);

/* The indices, operand 1 of the draft, as i64. A call refuses one outside of [0, bound): its
 * message names the draft's operator and operand 1. Indices that are checked already stay. */
muster_expr *mst_indices_checked(const mst_draft *draft, muster_expr *indices, mst_dim bound);

#endif
