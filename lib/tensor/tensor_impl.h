/* Checks and walks over tensors that other rooms share. */
#ifndef MST_TENSOR_IMPL_H
#define MST_TENSOR_IMPL_H

#include "dtype_impl.h"
#include "memory_impl.h"
#include "muster/tensor.h"

/* Is `tensor` a well-formed tensor (known dtype, ndim, sizes >= 0, bytes fit int64_t, data where
 * there are elements)? Error: "<where>: <what>: ..." */
muster_status mst_tensor_check(muster_tensor tensor, const char *where, const char *what);
bool mst_tensor_contiguous(muster_tensor tensor);
bool mst_tensor_same_shape(muster_tensor a, muster_tensor b);
int64_t mst_tensor_bytes(muster_tensor tensor);
/* "(3, 4)" into text. */
const char *mst_shape_text(char text[128], int32_t ndim, const int64_t *shape);
/* to[i] = converted from[i], contiguous host memory; the rules of muster_copy. */
void mst_convert(muster_dtype to_dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count);
/* Copies a strided host tensor into contiguous memory of its dtype, and back. Only whole bytes
 * move. */
void mst_tensor_pack(void *to, muster_tensor from);
void mst_tensor_unpack(muster_tensor to, const void *from);

#endif
