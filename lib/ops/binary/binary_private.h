/* The loops and kernels of binary, which binary_scalar and scalar_binary use as well. */
#ifndef MST_BINARY_PRIVATE_H
#define MST_BINARY_PRIVATE_H

#include "../op_impl.h"

enum { MST_BINARY_OPERATIONS = MUSTER_RIGHT_SHIFT + 1 };
/* The table of operation x dtype. An empty entry (as for bool) means that the pair is not
 * supported. */
extern const mst_iterator_loop mst_binary_loops[MST_DTYPE_COUNT][MST_BINARY_OPERATIONS];
extern const char *const mst_binary_names[MST_BINARY_OPERATIONS + 1]; /* as in mst_attribute.choices */

enum { MST_BINARY_TENSORS, MST_BINARY_SCALAR, MST_BINARY_CODE };
extern mst_code_kernel mst_binary_code[MST_BINARY_CODE];

bool mst_binary_takes(muster_dtype dtype, const mst_op_value *values);
muster_status mst_binary_check_op(int32_t op, const char *where);
muster_status mst_binary_check_dtype(int32_t op, muster_dtype dtype, const char *where, const char *what);

/* The loop of pow for f32 on processors with AVX-512; false on others, where nothing is done. */
bool mst_power_avx512(char *const *at, const int64_t *stride, int64_t n);
/* For tests: as if the processor had no AVX-512. */
extern bool mst_power_without_avx512;

/* y = x op value, or y = value op x if `reversed`. */
typedef struct mst_scalar_request {
    muster_tensor x, y;
    uint64_t element; /* the value in the dtype, in its first bytes */
    muster_binary op;
    bool reversed;
} mst_scalar_request;
extern const mst_kernel mst_scalar_kernel;
/* The check of both rows. Sets *element unless it is NULL. */
muster_status mst_scalar_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *tensors, int32_t op,
                               double value, const char *where, uint64_t *element);

#endif
