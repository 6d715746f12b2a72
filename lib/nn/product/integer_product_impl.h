/* Products of matrices of integers. */
#ifndef MST_INTEGER_PRODUCT_IMPL_H
#define MST_INTEGER_PRODUCT_IMPL_H

#include "muster/tensor.h"
#include "muster/worker.h"

/* c = a b in their integer dtype, which wraps around; axes before the last two are stacks, which
 * broadcast to those of c. On a CPU device, in one pass over the operands as they are stored. c
 * overlaps neither. The operands are not checked. */
muster_status mst_integer_product(muster_worker *worker, const muster_tensor *a, const muster_tensor *b, const muster_tensor *c);

#endif
