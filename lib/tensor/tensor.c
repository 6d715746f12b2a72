/* Tensor views: construction, checks, and packing of strided ones. */
#include "view_private.h"

#include <stdio.h>
#include <string.h>

/* A view that cannot be made has ndim -1, so that no loop over its axes runs. reserved0 holds the
 * reason: the refused ndim, or SHAPE_IS_NULL. */
enum { SHAPE_IS_NULL = INT32_MIN };

/* Computes the number of elements; false on overflow or a negative size. A size 0 makes the number
 * 0 whatever the other sizes are. */
static bool count_elements(int32_t ndim, const int64_t *shape, int64_t *count) {
    bool fits = true, empty = false;
    int64_t product = 1;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0) return false;
        if (shape[i] == 0)
            empty = true;
        else if (fits)
            fits = mst_multiply(product, shape[i], &product);
    }
    *count = empty ? 0 : product;
    return fits || empty;
}

/* Sets every field, shape and strides to 0. By parts: to clear so many bytes at once, compilers use
 * string instructions of the processor, which take longer to begin than all of this. */
static inline void set_all(muster_tensor *tensor, muster_dtype dtype, void *data, int32_t ndim, int32_t reserved) {
    tensor->dtype = dtype;
    tensor->ndim = ndim;
    memset(tensor->shape, 0, sizeof tensor->shape);
    memset(tensor->strides, 0, sizeof tensor->strides);
    tensor->data = data;
    tensor->byte_offset = 0;
    tensor->device = MUSTER_DEVICE_HOST;
    tensor->reserved0 = reserved;
    tensor->reserved[0] = tensor->reserved[1] = 0;
}

muster_tensor muster_tensor_none(void) {
    muster_tensor tensor;
    set_all(&tensor, MUSTER_DTYPE_NONE, NULL, 0, 0);
    return tensor;
}

/* Row-major strides. Strides that overflow become 0: such a view has no elements or is refused. */
muster_tensor muster_tensor_make(muster_dtype dtype, void *data, int32_t ndim, const int64_t *shape) {
    muster_tensor tensor;
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS || (ndim > 0 && !shape)) {
        set_all(&tensor, dtype, data, -1, ndim < 0 || ndim > MUSTER_MAX_DIMS ? ndim : SHAPE_IS_NULL);
        return tensor;
    }
    set_all(&tensor, dtype, data, ndim, 0);
    int64_t stride = 1;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        const int64_t size = shape[i];
        tensor.shape[i] = size;
        tensor.strides[i] = stride;
        if (size > 0 && !mst_multiply(stride, size, &stride)) stride = 0;
    }
    return tensor;
}

int64_t muster_tensor_count(muster_tensor tensor) {
    int64_t count;
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS || !count_elements(tensor.ndim, tensor.shape, &count)) return 0;
    return count;
}

int64_t muster_tensor_rows(muster_tensor tensor) {
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS) return 0;
    return tensor.ndim == 0 ? 1 : tensor.shape[0];
}

muster_tensor muster_tensor_slice(muster_tensor tensor, int64_t begin, int64_t end) {
    if (mst_view_of_none(&tensor)) return tensor;
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (tensor.ndim == 0) return mst_view_failed(MST_VIEW_SLICE_SCALAR, 0, 0, 0);
    if (begin != end) tensor.byte_offset += begin * tensor.strides[0] * muster_dtype_size(tensor.dtype);
    tensor.shape[0] = end - begin;
    return tensor;
}

muster_tensor muster_tensor_reshape(muster_tensor tensor, int32_t ndim, const int64_t *shape) {
    int64_t count;
    if (mst_view_of_none(&tensor)) return tensor;
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS) return mst_view_failed(MST_VIEW_RESHAPE_NDIM, ndim, 0, 0);
    if (ndim > 0 && !shape) return mst_view_failed(MST_VIEW_RESHAPE_NULL, ndim, 0, 0);
    if (!mst_tensor_contiguous(tensor)) return mst_view_failed(MST_VIEW_RESHAPE_STRIDED, 0, 0, 0);
    muster_tensor reshaped = muster_tensor_make(tensor.dtype, tensor.data, ndim, shape);
    if (!count_elements(ndim, reshaped.shape, &count) || count != muster_tensor_count(tensor))
        return mst_view_failed(MST_VIEW_RESHAPE_COUNT, muster_tensor_count(tensor), 0, 0);
    reshaped.byte_offset = tensor.byte_offset;
    reshaped.device = tensor.device;
    return reshaped;
}

muster_tensor muster_tensor_transpose(muster_tensor tensor) {
    muster_tensor turned = tensor;
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS) return tensor;
    for (int32_t i = 0; i < tensor.ndim; i++) {
        turned.shape[i] = tensor.shape[tensor.ndim - 1 - i];
        turned.strides[i] = tensor.strides[tensor.ndim - 1 - i];
    }
    return turned;
}

const char *mst_shape_text(char text[128], int32_t ndim, const int64_t *shape) {
    size_t used = (size_t)snprintf(text, 128, "(");
    for (int32_t i = 0; i < ndim && used < 128; i++) {
        used += (size_t)snprintf(text + used, 128 - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    if (used < 128) used += (size_t)snprintf(text + used, 128 - used, ndim == 1 ? ",)" : ")");
    if (used >= 128) memcpy(text + 123, "...)", 5); /* eight sizes of 19 digits do not fit */
    return text;
}

static muster_status refuse_ndim(muster_tensor tensor, const char *where, const char *what) {
    if (tensor.ndim < 0 && tensor.reserved0 == SHAPE_IS_NULL) {
        return mst_error_null(where, what, "a shape");
    }
    int32_t received = tensor.ndim < 0 && tensor.reserved0 != 0 ? tensor.reserved0 : tensor.ndim;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected 0 to %d dimensions, received %d", where, what, MUSTER_MAX_DIMS,
                     (int)received);
}

/* Does the distance of every element from `data` fit 64 bits? */
static bool extent_fits(muster_tensor tensor, int64_t element_size) {
    int64_t low = tensor.byte_offset, high = tensor.byte_offset;
    for (int32_t i = 0; i < tensor.ndim; i++) {
        int64_t span;
        if (!mst_multiply(tensor.shape[i] - 1, tensor.strides[i], &span) || !mst_multiply(span, element_size, &span)) return false;
        int64_t *end = span < 0 ? &low : &high;
        if (__builtin_add_overflow(*end, span, end)) return false;
    }
    return !__builtin_add_overflow(high, element_size, &high);
}

muster_status mst_tensor_check(muster_tensor tensor, const char *where, const char *what) {
    int64_t size = muster_dtype_size(tensor.dtype), count, bytes;
    char text[128];
    if (tensor.dtype == MUSTER_DTYPE_NONE) return mst_tensor_refuse_none(&tensor, where, what);
    if (size == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a known dtype, received number %d", where, what, (int)tensor.dtype);
    if (tensor.ndim < 0 || tensor.ndim > MUSTER_MAX_DIMS) return refuse_ndim(tensor, where, what);
    /* reserved[0] tells the tensors of muster_runtime_tensor_create apart. */
    if (tensor.reserved0 != 0 || tensor.reserved[1] != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected reserved0 and reserved[1] of 0, received %d and %lld", where, what,
                         (int)tensor.reserved0, (long long)tensor.reserved[1]);
    for (int32_t i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] < 0) {
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected sizes of at least 0, received shape %s", where, what,
                             mst_shape_text(text, tensor.ndim, tensor.shape));
        }
    }
    if (!count_elements(tensor.ndim, tensor.shape, &count) || !mst_multiply(count, size, &bytes) ||
        (count > 0 && !extent_fits(tensor, size))) {
        return mst_error(MUSTER_OVERFLOW, "%s: %s: expected a size that fits 64 bits, received %s of shape %s", where, what,
                         muster_dtype_name(tensor.dtype), mst_shape_text(text, tensor.ndim, tensor.shape));
    }
    if (count > 0 && !tensor.data) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected data for shape %s, received NULL", where, what,
                         mst_shape_text(text, tensor.ndim, tensor.shape));
    }
    /* Strides count elements, so if the first element is aligned, all are. */
    if (count > 0 && ((uintptr_t)tensor.data + (uintptr_t)tensor.byte_offset) % (uintptr_t)size != 0) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %s data aligned to %d bytes, received address %p", where, what,
                         muster_dtype_name(tensor.dtype), (int)size, muster_tensor_address(tensor));
    }
    return MUSTER_OK;
}

void mst_tensor_set_strides(muster_tensor *tensor) {
    int64_t stride = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = stride;
        stride *= tensor->shape[d] > 0 ? tensor->shape[d] : 1;
    }
}

bool mst_tensor_contiguous(muster_tensor tensor) {
    int64_t expected = 1;
    bool dense = true;
    for (int32_t i = tensor.ndim - 1; i >= 0; i--) {
        if (tensor.shape[i] == 0) return true; /* there is no element */
        if (tensor.shape[i] == 1) continue;    /* its stride is never used */
        dense = dense && tensor.strides[i] == expected;
        if (dense) expected *= tensor.shape[i];
    }
    return dense;
}

bool mst_tensor_same_shape(muster_tensor a, muster_tensor b) {
    if (a.ndim != b.ndim) return false;
    for (int32_t i = 0; i < a.ndim; i++) {
        if (a.shape[i] != b.shape[i]) return false;
    }
    return true;
}

int64_t mst_tensor_bytes(muster_tensor tensor) { return muster_tensor_count(tensor) * muster_dtype_size(tensor.dtype); }

/* Drops axes of size 1 and joins adjacent axes that are contiguous, so that the innermost loop is
 * as long as possible. */
static void join_axes(muster_tensor *tensor) {
    int32_t used = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t size = tensor->shape[i], stride = tensor->strides[i];
        if (size == 1) continue;
        if (used > 0 && tensor->strides[used - 1] == stride * size) {
            tensor->shape[used - 1] *= size;
            tensor->strides[used - 1] = stride;
        } else {
            tensor->shape[used] = size;
            tensor->strides[used++] = stride;
        }
    }
    tensor->ndim = used;
}

/* Copies between one line of a strided tensor and its packed copy. */
typedef void (*line_copier)(char *strided, int64_t stride, char *packed, int64_t count);

/* A memcpy of a constant size compiles to one move per element and needs no alignment. */
#define LINE_COPIERS(bytes)                                                                          \
    static void pack_line_##bytes(char *strided, int64_t stride, char *packed, int64_t count) {      \
        for (int64_t i = 0; i < count; i++) memcpy(packed + i * bytes, strided + i * stride, bytes); \
    }                                                                                                \
    static void unpack_line_##bytes(char *strided, int64_t stride, char *packed, int64_t count) {    \
        for (int64_t i = 0; i < count; i++) memcpy(strided + i * stride, packed + i * bytes, bytes); \
    }
LINE_COPIERS(1)
LINE_COPIERS(2)
LINE_COPIERS(4)
LINE_COPIERS(8)

static line_copier choose_copier(int64_t size, bool pack) {
    switch (size) {
    case 1:
        return pack ? pack_line_1 : unpack_line_1;
    case 2:
        return pack ? pack_line_2 : unpack_line_2;
    case 4:
        return pack ? pack_line_4 : unpack_line_4;
    default:
        return pack ? pack_line_8 : unpack_line_8;
    }
}

/* Copies line by line. A line runs along the last axis; the indices of the other axes count like an
 * odometer. */
static void move_elements(muster_tensor tensor, char *packed, bool pack) {
    int64_t size = muster_dtype_size(tensor.dtype);
    if (muster_tensor_count(tensor) == 0) return;
    join_axes(&tensor);
    int32_t last = tensor.ndim - 1;
    int64_t length = last < 0 ? 1 : tensor.shape[last], stride = last < 0 ? size : tensor.strides[last] * size;
    line_copier move = choose_copier(size, pack);
    char *line = muster_tensor_address(tensor);
    int64_t index[MUSTER_MAX_DIMS] = {0};
    for (int32_t axis;; packed += length * size) {
        if (stride == size)
            memcpy(pack ? packed : line, pack ? line : packed, (size_t)(length * size));
        else
            move(line, stride, packed, length);
        for (axis = last - 1; axis >= 0; axis--) {
            line += tensor.strides[axis] * size;
            if (++index[axis] < tensor.shape[axis]) break;
            line -= tensor.strides[axis] * size * tensor.shape[axis];
            index[axis] = 0;
        }
        if (axis < 0) return;
    }
}

void mst_tensor_pack(void *to, muster_tensor from) { move_elements(from, to, true); }

void mst_tensor_unpack(muster_tensor to, const void *from) { move_elements(to, (char *)from, false); /* unpacking only reads it */ }
