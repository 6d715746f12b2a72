/* Attributes and shapes of pooling. */
#ifndef MST_OPERATORS_POOLING_PRIVATE_H
#define MST_OPERATORS_POOLING_PRIVATE_H

#include "composite_private.h"
#include "pooling/pooling_impl.h"
#include "window_private.h"

/* The attributes of all of them begin with the first five, those of sums and averages with six. The
 * last is that of their gradients. */
enum { POOL_SIZE, POOL_STRIDE, POOL_PADDING, POOL_DILATION, POOL_CEIL_MODE, POOL_EXCLUDE_PADDING, POOL_EXTENTS };

/* The attributes of a node. */
mst_pooling mst_pooling_of(const muster_expr *node);
/* Checks operand x, reads the attributes, and writes them in the one form that equal ones have. */
muster_status mst_draft_pooling(mst_draft *draft, mst_pooling *pooling);
muster_status mst_infer_pooling(mst_draft *draft);
/* The type of operand x of an average whose gradient this is. */
muster_status mst_infer_pooling_gradient(mst_draft *draft);

#endif
