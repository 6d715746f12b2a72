/* Host storage that grows. Every change first allocates the new storage; after that it cannot
 * fail. */
#include "buffer_impl.h"
#include "tensor_impl.h"

#include <math.h>
#include <string.h>

/* storage NULL: nothing is stored. A scalar buffer has one element even then; its view is refused,
 * because its data is NULL, until the buffer is set. */
struct muster_buffer {
    muster_dtype dtype; /* MUSTER_DTYPE_NONE: the buffer has been destroyed, and all else is 0 */
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS];
    bool shaped; /* the sizes behind axis 0 have been said; they are not those of a new buffer */
    double oversize;
    char *storage;
    int64_t capacity; /* elements */
    mst_buffer_keeper *keeper;
};

mst_buffer_keeper *mst_buffer_get_keeper(const muster_buffer *buffer) { return buffer->keeper; }
void mst_buffer_set_keeper(muster_buffer *buffer, mst_buffer_keeper *keeper) { buffer->keeper = keeper; }

void *mst_buffer_storage(const muster_buffer *buffer, int64_t *bytes) {
    *bytes = buffer->storage ? buffer->capacity * muster_dtype_size(buffer->dtype) : 0;
    return buffer->storage;
}

/* Frees storage that the keeper, if there is one, has been shown before. */
static void free_storage(muster_buffer *buffer, char *storage) {
    if (storage && (!buffer->keeper || buffer->keeper->give(buffer->keeper, storage))) mst_free(storage);
}

muster_status muster_buffer_create(muster_dtype dtype, int32_t ndim, double oversize, muster_buffer **buffer) {
    static const char where[] = "muster_buffer_create";
    if (!buffer) return mst_error_null(where, "buffer", "the address of a pointer");
    *buffer = NULL;
    if (muster_dtype_size(dtype) == 0) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected a known dtype, received number %d", where, (int)dtype);
    }
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim: expected 0 to %d, received %d", where, MUSTER_MAX_DIMS, (int)ndim);
    }
    if (!(oversize >= 1 && oversize <= 2)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: oversize: expected a factor in [1, 2], received %g", where, oversize);
    }
    muster_buffer *created = mst_alloc(sizeof *created);
    if (!created) return mst_out_of_memory(where, sizeof *created);
    created->dtype = dtype;
    created->ndim = ndim;
    created->oversize = oversize;
    *buffer = created;
    return MUSTER_OK;
}

static bool buffer_lives(const muster_buffer *buffer) { return buffer->dtype != MUSTER_DTYPE_NONE; }

muster_status mst_buffer_check(const muster_buffer *buffer, const char *where) {
    if (!buffer) return mst_error_null(where, "buffer", "a buffer");
    if (buffer_lives(buffer)) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: buffer: expected one that exists, received one that has been destroyed", where);
}

void muster_buffer_destroy(muster_buffer *buffer) {
    if (!buffer || !buffer_lives(buffer)) return;
    free_storage(buffer, buffer->storage);
    if (buffer->keeper) buffer->keeper->end(buffer->keeper);
    memset(buffer, 0, sizeof *buffer);
    mst_retire(buffer);
}

static muster_tensor view(const muster_buffer *buffer) {
    return muster_tensor_make(buffer->dtype, buffer->storage, buffer->ndim, buffer->shape);
}

muster_tensor muster_buffer_tensor(const muster_buffer *buffer) {
    return buffer && buffer_lives(buffer) ? view(buffer) : muster_tensor_none();
}

int64_t muster_buffer_capacity(const muster_buffer *buffer) { return buffer ? buffer->capacity : 0; }

/* The number of elements to allocate for `count`: count * oversize, or count if that product is too
 * large. */
static int64_t with_oversize(const muster_buffer *buffer, int64_t count) {
    double extra = ceil((double)count * (buffer->oversize - 1));
    int64_t wanted;
    if (extra >= 0x1p62 || __builtin_add_overflow(count, (int64_t)extra, &wanted)) return count;
    return wanted;
}

/* Provides storage for `count` elements: the present storage, or a new block that the caller must
 * adopt or free. */
static muster_status make_room(const muster_buffer *buffer, const char *where, int64_t count, char **storage, int64_t *capacity) {
    *storage = buffer->storage;
    *capacity = buffer->capacity;
    if (count <= buffer->capacity) return MUSTER_OK;
    int64_t bytes, wanted = with_oversize(buffer, count);
    if (!mst_multiply(wanted, muster_dtype_size(buffer->dtype), &bytes)) {
        return mst_error(MUSTER_OVERFLOW, "%s: shape: expected a size that fits 64 bits, received %lld elements", where, (long long)count);
    }
    char *block = mst_alloc_uninitialised((size_t)bytes);
    if (!block) return mst_out_of_memory(where, bytes);
    const muster_status status = buffer->keeper ? buffer->keeper->take(buffer->keeper, where, block, bytes) : MUSTER_OK;
    if (status) {
        mst_free(block);
        return status;
    }
    *storage = block;
    *capacity = wanted;
    return MUSTER_OK;
}

static void adopt(muster_buffer *buffer, char *storage, int64_t capacity, const int64_t *shape) {
    if (storage != buffer->storage) free_storage(buffer, buffer->storage);
    buffer->storage = storage;
    buffer->capacity = capacity;
    for (int32_t i = 0; i < buffer->ndim; i++) buffer->shape[i] = shape[i];
}

static muster_status check_value(const muster_buffer *buffer, muster_tensor value, muster_cast cast) {
    static const char where[] = "muster_buffer_set_value";
    MUSTER_TRY(mst_buffer_check(buffer, where));
    MUSTER_TRY(mst_tensor_check(value, where, "value"));
    if (value.device != MUSTER_DEVICE_HOST) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: value: expected host memory, received memory of rank %d", where, (int)value.device);
    }
    if (cast != MUSTER_CAST_SAFE && cast != MUSTER_CAST_UNSAFE) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: cast: expected MUSTER_CAST_SAFE or MUSTER_CAST_UNSAFE, received %d", where,
                         (int)cast);
    }
    if (value.ndim != buffer->ndim) {
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: value: expected %d dimensions, received %d", where, (int)buffer->ndim,
                         (int)value.ndim);
    }
    if (cast == MUSTER_CAST_SAFE && !mst_dtype_upcasts(value.dtype, buffer->dtype)) {
        return mst_error(MUSTER_DTYPE_MISMATCH,
                         "%s: value: expected a dtype that %s holds without loss (or MUSTER_CAST_UNSAFE), received %s", where,
                         muster_dtype_name(buffer->dtype), muster_dtype_name(value.dtype));
    }
    return MUSTER_OK;
}

/* Could `value` be a view of this buffer? Elements that are still to be read must not be
 * overwritten. */
static bool may_overlap(const muster_buffer *buffer, muster_tensor value) {
    uintptr_t begin = (uintptr_t)buffer->storage, end = begin + (uintptr_t)(buffer->capacity * muster_dtype_size(buffer->dtype));
    uintptr_t first = (uintptr_t)muster_tensor_address(value), last = first + (uintptr_t)mst_tensor_bytes(value);
    return first < end && begin < last;
}

muster_status muster_buffer_set_value(muster_buffer *buffer, muster_tensor value, muster_cast cast) {
    static const char where[] = "muster_buffer_set_value";
    MUSTER_TRY(check_value(buffer, value, cast));
    int64_t count = muster_tensor_count(value), capacity;
    char *storage, *packed = NULL;
    MUSTER_TRY(make_room(buffer, where, count, &storage, &capacity));
    if (!mst_tensor_contiguous(value) || may_overlap(buffer, value)) {
        packed = mst_alloc_uninitialised((size_t)mst_tensor_bytes(value));
        if (!packed) {
            if (storage != buffer->storage) free_storage(buffer, storage);
            return mst_out_of_memory(where, mst_tensor_bytes(value));
        }
        mst_tensor_pack(packed, value);
    }
    mst_convert(buffer->dtype, storage, value.dtype, packed ? packed : muster_tensor_address(value), count);
    mst_free(packed);
    adopt(buffer, storage, capacity, value.shape);
    buffer->shaped = true;
    return MUSTER_OK;
}

static muster_status resize(muster_buffer *buffer, const char *where, const int64_t *shape) {
    /* the data is not read, so any address but NULL will do */
    muster_tensor target = muster_tensor_make(buffer->dtype, buffer, buffer->ndim, shape);
    MUSTER_TRY(mst_tensor_check(target, where, "shape"));
    int64_t count = muster_tensor_count(target), capacity, size = muster_dtype_size(buffer->dtype);
    int64_t kept = buffer->storage ? muster_tensor_count(view(buffer)) : 0;
    char *storage;
    if (kept > count) kept = count;
    MUSTER_TRY(make_room(buffer, where, count, &storage, &capacity));
    if (storage != buffer->storage && kept > 0) memcpy(storage, buffer->storage, (size_t)(kept * size));
    if (storage && count > kept) memset(storage + kept * size, 0, (size_t)((count - kept) * size));
    adopt(buffer, storage, capacity, shape);
    return MUSTER_OK;
}

muster_status muster_buffer_set_length(muster_buffer *buffer, int64_t length) {
    static const char where[] = "muster_buffer_set_length";
    MUSTER_TRY(mst_buffer_check(buffer, where));
    if (buffer->ndim == 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: buffer: expected at least 1 dimension, received 0", where);
    if (length < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: length: expected at least 0, received %lld", where, (long long)length);
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, buffer->shape, sizeof shape);
    shape[0] = length;
    return resize(buffer, where, shape);
}

muster_status muster_buffer_set_shape(muster_buffer *buffer, int32_t ndim, const int64_t *shape) {
    static const char where[] = "muster_buffer_set_shape";
    MUSTER_TRY(mst_buffer_check(buffer, where));
    if (ndim != buffer->ndim) {
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: ndim: expected %d, received %d", where, (int)buffer->ndim, (int)ndim);
    }
    if (ndim > 0 && !shape) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: shape: expected %d sizes, received NULL", where, (int)ndim);
    MUSTER_TRY(resize(buffer, where, shape));
    buffer->shaped = true;
    return MUSTER_OK;
}

void muster_buffer_free_memory(muster_buffer *buffer) {
    if (!buffer) return;
    free_storage(buffer, buffer->storage);
    buffer->storage = NULL;
    buffer->capacity = 0;
    buffer->shaped = false;
    memset(buffer->shape, 0, sizeof buffer->shape);
}

/* ---- rows that a call gives ---- */

bool mst_buffer_has_row_shape(const muster_buffer *buffer) { return buffer->shaped || buffer->ndim < 2; }

muster_status mst_buffer_make_rows(const muster_buffer *buffer, const char *where, int64_t rows, mst_buffer_rows *made) {
    muster_tensor all = view(buffer);
    all.shape[0] = rows;
    all.data = (void *)(uintptr_t)buffer; /* not read: any address but NULL */
    made->rows = rows;
    MUSTER_TRY(mst_tensor_check(all, where, "output"));
    return make_room(buffer, where, muster_tensor_count(all), &made->storage, &made->capacity);
}

void mst_buffer_take_rows(muster_buffer *buffer, const mst_buffer_rows *made) {
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, buffer->shape, sizeof shape);
    shape[0] = made->rows;
    adopt(buffer, made->storage, made->capacity, shape);
}

void mst_buffer_drop_rows(muster_buffer *buffer, const mst_buffer_rows *made) {
    if (made->storage != buffer->storage) free_storage(buffer, made->storage);
}
