/* muster/buffer.h: host storage that grows, aligned to 64 bytes, with a fixed dtype and ndim.
 * Threads: owner.
 * Errors of the functions that set something: INVALID_ARGUMENT (NULL, a negative size, a tensor
 * that is not in host memory, an unknown cast), SHAPE_MISMATCH (another ndim), OVERFLOW (the size
 * does not fit 64 bits), OUT_OF_MEMORY, BAD_STATE (destroyed). After an error the buffer is
 * unchanged. */
#ifndef MUSTER_BUFFER_H
#define MUSTER_BUFFER_H

#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_buffer muster_buffer;

/* How muster_buffer_set_value converts. SAFE (the default) converts only to a dtype that holds
 * every value of the source. UNSAFE converts to any dtype, as muster_copy does. (NumPy's words.) */
typedef int32_t muster_cast;
enum muster_cast_value { MUSTER_CAST_SAFE = 0, MUSTER_CAST_UNSAFE = 1 };

/* Creates an empty buffer (all sizes 0). oversize, in [1, 2], is the factor by which an allocation
 * exceeds the requested size, so that later growth need not reallocate. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
MUSTER_API MUSTER_NODISCARD muster_status muster_buffer_create(muster_dtype dtype, int32_t ndim, double oversize, muster_buffer **buffer);
/* Accepts NULL. */
MUSTER_API void muster_buffer_destroy(muster_buffer *buffer);

/* The contents as a host view, valid until the buffer is next changed. NULL gives "no tensor". */
MUSTER_API muster_tensor muster_buffer_tensor(const muster_buffer *buffer);
/* The number of elements that the storage can hold. */
MUSTER_API int64_t muster_buffer_capacity(const muster_buffer *buffer);

/* Takes the shape of `value`, which has the buffer's ndim, and a converted copy of its elements.
 * `value` may be a view of the buffer. Errors: also DTYPE_MISMATCH (`cast` does not allow the
 * conversion). */
MUSTER_API MUSTER_NODISCARD muster_status muster_buffer_set_value(muster_buffer *buffer, muster_tensor value, muster_cast cast);
/* Resizes axis 0 (INVALID_ARGUMENT for ndim 0). The rows within the new length keep their values;
 * new elements are 0. Shrinking keeps the storage. */
MUSTER_API MUSTER_NODISCARD muster_status muster_buffer_set_length(muster_buffer *buffer, int64_t length);
/* Changes the shape, but not ndim. The leading elements, in memory order, keep their values; new
 * elements are 0. Shrinking keeps the storage. */
MUSTER_API MUSTER_NODISCARD muster_status muster_buffer_set_shape(muster_buffer *buffer, int32_t ndim, const int64_t *shape);
/* Frees the storage; all sizes become 0. The buffer stays usable. */
MUSTER_API void muster_buffer_free_memory(muster_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
