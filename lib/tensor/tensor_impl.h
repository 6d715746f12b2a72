/* Checks of tensors, conversion and packing, for the whole library. */
#ifndef MST_TENSOR_IMPL_H
#define MST_TENSOR_IMPL_H

#include "dtype_impl.h"
#include "memory_impl.h"
#include "muster/tensor.h"

/* Checks that `tensor` is well formed: a known dtype and ndim, sizes >= 0, a number of bytes that
 * fits int64_t, and data if there are elements. A message begins with "<where>: <what>: ". */
muster_status mst_tensor_check(muster_tensor tensor, const char *where, const char *what);
/* The error for "no tensor": for a view that could not be made, with the reason. */
muster_status mst_tensor_refuse_none(const muster_tensor *none, const char *where, const char *what);
/* Is it "no tensor" that the program means, and not a view that could not be made? */
static inline bool mst_tensor_absent(const muster_tensor *tensor) { return tensor->dtype == MUSTER_DTYPE_NONE && tensor->reserved0 == 0; }
bool mst_tensor_contiguous(muster_tensor tensor);
/* Gives the tensor the strides of contiguous memory, those of muster_tensor_make. */
void mst_tensor_set_strides(muster_tensor *tensor);
bool mst_tensor_same_shape(muster_tensor a, muster_tensor b);
int64_t mst_tensor_bytes(muster_tensor tensor);
/* The bytes of a view, counted from the address of its first element: [low, high). Without
 * elements low == high. */
typedef struct mst_span {
    int64_t low, high;
} mst_span;
mst_span mst_tensor_span(const muster_tensor *tensor);
/* Do two views in the same kind of memory share a byte? Views that interleave without touching,
 * such as the even and the odd columns of a matrix, do not. Both views have been checked. A pair
 * that takes too long to decide counts as sharing; only views made for that purpose do. */
bool mst_tensors_overlap(const muster_tensor *a, const muster_tensor *b);
/* Are several elements of the view at one address? The same rules. */
bool mst_tensor_repeats(const muster_tensor *tensor);
/* Writes the shape into `text`, for example "(3, 4)", and returns `text`. */
const char *mst_shape_text(char text[128], int32_t ndim, const int64_t *shape);
/* to[i] = from[i] converted, by the rules of muster_copy. Both are contiguous host memory. */
void mst_convert(muster_dtype to_dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count);
/* Copies a strided host tensor into contiguous memory of its dtype. Bytes are copied unchanged. */
void mst_tensor_pack(void *to, muster_tensor from);
/* Copies contiguous memory into a strided host tensor of the same dtype. */
void mst_tensor_unpack(muster_tensor to, const void *from);

#endif
