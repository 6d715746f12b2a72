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

/* x in this dtype: itself, if it has that. */
static inline muster_expr *mst_cast_to(muster_expr *x, muster_dtype dtype) {
    if (mst_node_is_error(x) || x->type.dtype == dtype) return x;
    return mst_apply(x->graph, MST_OPERATOR_cast, &x, 1, (mst_graph_value[]){{.integer = dtype}});
}
/* The square root, whose gradient at 0 is taken as 0 (it would be infinite). */
muster_expr *mst_root(mst_draft *draft, muster_expr *x);

#endif
