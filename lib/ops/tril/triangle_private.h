/* What tril and triu share: copies of the elements on one side of a diagonal of the last two
 * axes. */
#ifndef MST_TRIANGLE_PRIVATE_H
#define MST_TRIANGLE_PRIVATE_H

#include "../rows_private.h"

enum { MST_TRIANGLE_CODE = 1 };
extern mst_code_kernel mst_triangle_code[MST_TRIANGLE_CODE];
extern const mst_kernel mst_triangle_kernel;

muster_status mst_triangle_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors,
                                 const char *where);
/* Keeps the elements (i, j) with j - i <= diagonal, or, of the upper triangle, >= diagonal. */
muster_status mst_triangle_launch(muster_worker *worker, bool upper, int64_t diagonal, const muster_tensor *x, const muster_tensor *y);

#endif
