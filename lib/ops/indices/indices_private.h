/* Tensors of indices, for take, scatter_add and one_hot: reading them, and the check that all are
 * in range. */
#ifndef MST_INDICES_PRIVATE_H
#define MST_INDICES_PRIVATE_H

#include "../op_impl.h"

#define MST_INDEX_DTYPES (MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_I32) | MST_DTYPE_BIT(MUSTER_I64))

/* The operands of take and scatter_add, t[0] = x, t[1] = indices, t[2] = y. One of x and y is
 * t[indexed] (0 or 2), whose rows the indices name; the other one has a row for each index. */
muster_status mst_indices_check_operands(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t,
                                         int32_t indexed, const char *where);
/* The shape of that other one. `what` is the name of `indexed`. */
muster_status mst_indices_shape(const muster_tensor *indexed, const muster_tensor *indices, const char *where, const char *what,
                                int64_t shape[MUSTER_MAX_DIMS]);
muster_status mst_index_dtype(const char *where, const char *what, muster_dtype dtype);
int64_t mst_index_at(const muster_tensor *indices, int64_t i);
/* The rows that indices [begin, begin + n) name, less `first`; -1 for one outside of [0, rows). n
 * is MST_INDICES_BLOCK at most. Returns whether all are inside; `inside`: they are known to be. */
enum { MST_INDICES_BLOCK = 256 };
bool mst_indices_read(const muster_tensor *indices, int64_t begin, int64_t n, int64_t first, int64_t rows, bool inside, int64_t *places);
/* Refuses an index outside of [0, bound), or none where bound is MST_INDICES_CHECKED (ops_impl.h).
 * The first is for host kernels. The second, for `issue` functions, waits for the device, since a
 * bad index is an error of this call. */
muster_status mst_indices_check_host(const muster_tensor *indices, int64_t bound, const char *where, const char *what);
muster_status mst_indices_check_device(muster_worker *worker, const muster_tensor *indices, int64_t bound, const char *where,
                                       const char *what);

#endif
