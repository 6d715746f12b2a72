/* Short names for what the gradients of elementwise operations are written with. `node` is the node
 * whose gradient is asked for, dy that of its result. */
#ifndef MST_ELEMENTWISE_PRIVATE_H
#define MST_ELEMENTWISE_PRIVATE_H

#include "operators_private.h"

#define G(name, ...) MST_APPLY(node->graph, name, __VA_ARGS__)
#define X (node->inputs[0])
#define Y (node->inputs[1])
#define NUMBER(value) mst_number(node->graph, node->inputs[0]->type.dtype, (value))

#endif
