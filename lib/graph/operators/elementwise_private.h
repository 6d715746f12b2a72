/* Short names for what the gradients of elementwise operations are written with. `node` is the node
 * whose gradient is asked for, dy that of its result. */
#ifndef MST_ELEMENTWISE_PRIVATE_H
#define MST_ELEMENTWISE_PRIVATE_H

#include "operators_private.h"

#define G(name, ...) MST_APPLY(node->graph, name, __VA_ARGS__)
#define X (node->inputs[0])
#define Y (node->inputs[1])
#define NUMBER(value) mst_number(node->graph, node->inputs[0]->type.dtype, (value))

/* f16 and bf16 as f32, and back. Where a gradient fits the dtype, values between it and its
 * operands need not: the square of 300 is no f16. */
#define WIDE(x) mst_cast_to((x), mst_dtype_compute(node->inputs[0]->type.dtype))
#define WIDE_NUMBER(value) mst_number(node->graph, mst_dtype_compute(node->inputs[0]->type.dtype), (value))
#define NARROW(x) mst_cast_to((x), node->inputs[0]->type.dtype)

#endif
