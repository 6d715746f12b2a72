/* Tensors of indices, for take, scatter_add and one_hot: reading them, and the check that all are
 * in range. */
#ifndef MST_INDICES_PRIVATE_H
#define MST_INDICES_PRIVATE_H

#include "../op_impl.h"

#define MST_INDEX_DTYPES (MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_I32) | MST_DTYPE_BIT(MUSTER_I64))

muster_status mst_index_dtype(const char *where, const char *what, muster_dtype dtype);
int64_t mst_index_at(const muster_tensor *indices, int64_t i);
/* Refuses an index outside of [0, bound). The first is for host kernels. The second, for `issue`
 * functions, waits for the device, since a bad index is an error of this call. */
muster_status mst_indices_check_host(const muster_tensor *indices, int64_t bound, const char *where, const char *what);
muster_status mst_indices_check_device(muster_worker *worker, const muster_tensor *indices, int64_t bound, const char *where,
                                       const char *what);

#endif
