/* Attributes and shapes of convolutions. */
#ifndef MST_OPERATORS_CONVOLUTION_PRIVATE_H
#define MST_OPERATORS_CONVOLUTION_PRIVATE_H

#include "composite_private.h"
#include "convolution/convolution_impl.h"
#include "window_private.h"

/* The attributes of all of them begin with these four; the fifth is that of the gradient of the
 * data, of the weights, or of the transposed convolution. */
enum { STRIDE, PADDING, DILATION, GROUPS, EXTENTS, SIZE = EXTENTS, OUTPUT_PADDING = EXTENTS };

/* The attributes of a node, but for the sizes of the window. */
mst_convolution mst_convolution_of(const muster_expr *node);
/* Checks the operands x, w and bias, reads the attributes, and writes them in the one form that
 * equal ones have. transposed: the channels of x are the first axis of w. *outputs: the channels of
 * the result. */
muster_status mst_draft_convolution(mst_draft *draft, bool transposed, mst_convolution *c, mst_dim *outputs);
muster_status mst_infer_convolution(mst_draft *draft);
/* The extents of a transposed convolution, in y. extra[d]: so many zeros belong behind axis d,
 * since no window reaches that far, and then hidden[d] elements in front are left out. */
muster_status mst_draft_transposed(mst_draft *draft, const mst_convolution *c, mst_type *y, int64_t extra[MST_WINDOW_AXES],
                                   int64_t hidden[MST_WINDOW_AXES]);

#endif
