/* The softmax family over the last axis: softmax, log_softmax, logsumexp, and the gradients of the
 * first two. */
#ifndef MST_SOFTMAX_PRIVATE_H
#define MST_SOFTMAX_PRIVATE_H

#include "../rows_private.h"
#include "softmax_op_parameters_private.h"

enum { MST_SOFTMAX_CODE = 2 };
extern mst_code_kernel mst_softmax_code[MST_SOFTMAX_CODE];
extern const mst_kernel mst_softmax_kernel;

/* The check of x and y of equal shape and of one float dtype. */
muster_status mst_softmax_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors,
                                const char *where);
/* The check of y, dy and dx of equal shape and of one float dtype. */
muster_status mst_softmax_gradient_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors,
                                         const char *where);
/* Runs an operation of the family on checked operands. */
muster_status mst_softmax_launch(muster_worker *worker, mst_softmax_op op, int32_t operands, const muster_tensor *const *tensors);

#endif
