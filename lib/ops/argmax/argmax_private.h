/* What argmax and argmin share. */
#ifndef MST_ARGMAX_PRIVATE_H
#define MST_ARGMAX_PRIVATE_H

#include "../op_impl.h"

typedef struct mst_argmax_request {
    muster_tensor x, index;
    bool smallest; /* argmin */
} mst_argmax_request;

enum { MST_ARGMAX_CODE = 2 };
extern mst_code_kernel mst_argmax_code[MST_ARGMAX_CODE];
extern const mst_kernel mst_argmax_kernel;
muster_status mst_argmax_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors,
                               const char *where);

#endif
