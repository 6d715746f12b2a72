/* What muster_reduce and muster_reduce_axes share. A set of axes has bit d for axis d. */
#ifndef MST_REDUCE_PRIVATE_H
#define MST_REDUCE_PRIVATE_H

#include "../op_impl.h"

extern const mst_kernel mst_reduce_kernel;
extern const char *const mst_reduce_names[]; /* of the values of muster_reduction */

bool mst_reduce_takes(muster_dtype dtype, const mst_op_value *values);
/* Sets tensors[1] to the dtype of tensors[0], x, and to the shape of x without the axes. */
void mst_reduce_infer(uint32_t axes, muster_tensor *tensors);
/* *axes becomes the set that the caller of muster_reduce_axes has given. OUT_OF_RANGE if it has an
 * axis that x does not have. */
muster_status mst_reduce_axes_set(const char *where, const muster_tensor *x, int32_t given, uint32_t *axes);
/* The check of the operands x and y. Also sets *axes, and *length to the number of elements of each
 * result. */
muster_status mst_reduce_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors,
                               muster_reduction op, int32_t given, const char *where, uint32_t *axes, int64_t *length);

#endif
