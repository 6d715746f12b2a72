/* muster/buffer.h: host storage that grows, 64-byte aligned, with a fixed dtype and ndim. Threads:
 * owner. */
#ifndef MUSTER_BUFFER_H
#define MUSTER_BUFFER_H

#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_buffer muster_buffer;

/* How set_value converts: UPCAST (default) only to a dtype that holds every value of the source;
 * FORCE to any, as muster_copy does. */
typedef int32_t muster_cast;
enum { MUSTER_CAST_UPCAST = 0, MUSTER_CAST_FORCE = 1 };

/* An empty buffer (all sizes 0). oversize in [1, 2]: storage is allocated for that factor of what
 * is asked, so that growth need not
 * reallocate. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
MUSTER_API muster_status muster_buffer_create(muster_dtype dtype, int32_t ndim, double oversize, muster_buffer **buffer);
MUSTER_API void muster_buffer_destroy(muster_buffer *buffer);

/* The contents, as a host view; valid until the buffer is next changed. "No tensor" for NULL. */
MUSTER_API muster_tensor muster_buffer_tensor(const muster_buffer *buffer);
/* Elements that the storage holds. */
MUSTER_API int64_t muster_buffer_capacity(const muster_buffer *buffer);

/* Takes the value's shape and a converted copy of its elements. DTYPE_MISMATCH when the cast is not
 * allowed; then nothing changed. */
MUSTER_API muster_status muster_buffer_set_value(muster_buffer *buffer, muster_tensor value, muster_cast cast);
/* set_length: rows of axis 0 (ndim >= 1), keeping the rows that stay; new elements are 0.
 * set_shape: keeps the leading elements in memory order; new ones are 0. Shrinking keeps the
 * storage. */
MUSTER_API muster_status muster_buffer_set_length(muster_buffer *buffer, int64_t length);
MUSTER_API muster_status muster_buffer_set_shape(muster_buffer *buffer, int32_t ndim, const int64_t *shape);
/* Frees the storage; all sizes become 0. The buffer stays usable. */
MUSTER_API void muster_buffer_free_memory(muster_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
