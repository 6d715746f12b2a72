/* Operations that compute each row by itself; a row is the elements along one axis. */
#ifndef MST_ROWS_PRIVATE_H
#define MST_ROWS_PRIVATE_H

#include "op_impl.h"
#include "rows_parameters_private.h"

/* Sets rows, count, length, stride and dtype. tensors[0] has the axis; another tensor with as many
 * axes has it too, at any size, and one with an axis less has one element per row. */
void mst_rows_make(mst_rows_parameters *parameters, int32_t axis, int32_t operands, const muster_tensor *const *tensors);
/* SHAPE_MISMATCH if the tensor is a scalar. */
muster_status mst_rows_check_axes(const char *where, const char *what, const muster_tensor *tensor, int32_t least);

#endif
