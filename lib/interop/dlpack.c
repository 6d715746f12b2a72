/* Tensors lent to and taken from other libraries, as structs of DLPack 1.x. */
#include "muster/dlpack.h"

#include "cuda/cuda_impl.h"
#include "foreign_memory_impl.h"
#include "operation_impl.h"
#include "tensor_impl.h"

#include <string.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3 };

/* The element types of DLPack by those of Muster. */
typedef struct dlpack_type {
    uint8_t code, bits;
} dlpack_type;
static const dlpack_type dlpack_types[MST_DTYPE_COUNT] = {
    [MUSTER_F16] = {2, 16}, [MUSTER_BF16] = {4, 16}, [MUSTER_F32] = {2, 32}, [MUSTER_F64] = {2, 64},
    [MUSTER_I8] = {0, 8},   [MUSTER_I16] = {0, 16},  [MUSTER_I32] = {0, 32}, [MUSTER_I64] = {0, 64},
    [MUSTER_U8] = {1, 8},   [MUSTER_U32] = {1, 32},  [MUSTER_U64] = {1, 64}, [MUSTER_BOOL] = {6, 8},
};

/* ---- export ---- */

/* What an exported struct is a part of: it is freed as a whole by the deleter. */
typedef struct dlpack_lent {
    union {
        muster_dlpack_versioned versioned;
        muster_dlpack_unversioned unversioned;
    } managed;
    int64_t shape[MUSTER_MAX_DIMS], strides[MUSTER_MAX_DIMS];
    void (*release)(void *owner);
    void *owner;
} dlpack_lent;

static void dlpack_end_lent(dlpack_lent *lent) {
    if (lent->release) lent->release(lent->owner);
    mst_free(lent);
}

static void dlpack_delete_versioned(muster_dlpack_versioned *self) {
    if (self) dlpack_end_lent(self->context);
}

static void dlpack_delete_unversioned(muster_dlpack_unversioned *self) {
    if (self) dlpack_end_lent(self->context);
}

/* Sets DLPack's device for the device of a tensor. */
static muster_status dlpack_device_of(const muster_runtime *runtime, int32_t rank, const char *where, muster_dlpack_tensor *to) {
    to->device_type = DLPACK_CPU;
    if (rank == MUSTER_DEVICE_HOST) return MUSTER_OK;
    if (!runtime)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: runtime: expected that of the tensor, which is on device %d, received NULL", where,
                         (int)rank);
    if (rank < 0 || rank >= runtime->size)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensor: device: expected a rank below %d, received %d", where, (int)runtime->size,
                         (int)rank);
    if (mst_device_is_cuda(runtime->devices[rank])) {
        to->device_type = DLPACK_CUDA;
        to->device_id = mst_cuda_ordinal(runtime->devices[rank]);
    } else if (strcmp(runtime->devices[rank]->table->backend, "host") != 0) {
        return mst_error(MUSTER_UNSUPPORTED, "%s: tensor: device: expected one that DLPack has, received %s", where,
                         runtime->devices[rank]->name);
    }
    return MUSTER_OK;
}

static muster_status dlpack_lend(const muster_runtime *runtime, muster_tensor tensor, const char *where, muster_dlpack_tensor *to,
                                 dlpack_lent **result) {
    MUSTER_TRY(mst_tensor_check(tensor, where, "tensor"));
    MUSTER_TRY(dlpack_device_of(runtime, tensor.device, where, to));
    dlpack_lent *lent = mst_alloc(sizeof *lent);
    if (!lent) return mst_out_of_memory(where, sizeof *lent);
    memcpy(lent->shape, tensor.shape, sizeof lent->shape);
    memcpy(lent->strides, tensor.strides, sizeof lent->strides);
    /* Without byte_offset, which several libraries ignore. DLPack asks for NULL if there are no
     * elements. */
    to->data = muster_tensor_count(tensor) > 0 ? muster_tensor_address(tensor) : NULL;
    to->ndim = tensor.ndim;
    to->code = dlpack_types[tensor.dtype].code;
    to->bits = dlpack_types[tensor.dtype].bits;
    to->lanes = 1;
    to->shape = lent->shape;
    to->strides = lent->strides;
    *result = lent;
    return MUSTER_OK;
}

muster_status muster_dlpack_export(const muster_runtime *runtime, muster_tensor tensor, uint64_t flags, void (*release)(void *owner),
                                   void *owner, muster_dlpack_versioned **managed) {
    static const char where[] = "muster_dlpack_export";
    if (!managed) return mst_error_null(where, "managed", "the address of a pointer");
    *managed = NULL;
    const uint64_t known = MUSTER_DLPACK_READ_ONLY | MUSTER_DLPACK_COPIED;
    if (flags & ~known)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: flags: expected READ_ONLY (1), COPIED (2) or both, received %#llx", where,
                         (unsigned long long)flags);
    dlpack_lent *lent;
    muster_dlpack_tensor view = {0};
    MUSTER_TRY(dlpack_lend(runtime, tensor, where, &view, &lent));
    lent->release = release;
    lent->owner = owner;
    lent->managed.versioned = (muster_dlpack_versioned){DLPACK_MAJOR, DLPACK_MINOR, lent, dlpack_delete_versioned, flags, view};
    *managed = &lent->managed.versioned;
    return MUSTER_OK;
}

muster_status muster_dlpack_export_unversioned(const muster_runtime *runtime, muster_tensor tensor, void (*release)(void *owner),
                                               void *owner, muster_dlpack_unversioned **managed) {
    static const char where[] = "muster_dlpack_export_unversioned";
    if (!managed) return mst_error_null(where, "managed", "the address of a pointer");
    *managed = NULL;
    dlpack_lent *lent;
    muster_dlpack_tensor view = {0};
    MUSTER_TRY(dlpack_lend(runtime, tensor, where, &view, &lent));
    lent->release = release;
    lent->owner = owner;
    lent->managed.unversioned = (muster_dlpack_unversioned){view, lent, dlpack_delete_unversioned};
    *managed = &lent->managed.unversioned;
    return MUSTER_OK;
}

/* ---- import ---- */

struct muster_dlpack {
    muster_dlpack_versioned *versioned; /* one of the two is NULL, both after release */
    muster_dlpack_unversioned *unversioned;
    int64_t number; /* of the memory in the list of foreign memory; 0: host memory */
};

/* The rank of DLPack's device, or MUSTER_DEVICE_HOST. */
static muster_status dlpack_rank_of(const muster_runtime *runtime, const muster_dlpack_tensor *from, const char *where, int32_t *rank) {
    *rank = MUSTER_DEVICE_HOST;
    if (from->device_type == DLPACK_CPU || from->device_type == DLPACK_CUDA_HOST) return MUSTER_OK;
    if (from->device_type != DLPACK_CUDA)
        return mst_error(MUSTER_UNSUPPORTED, "%s: managed: device type: expected 1 (CPU), 2 (CUDA) or 3 (pinned by CUDA), received %d",
                         where, (int)from->device_type);
    if (!runtime)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: runtime: expected one with the GPU %d, on which the tensor is, received NULL", where,
                         (int)from->device_id);
    for (int32_t r = 0; r < runtime->size; r++)
        if (mst_device_is_cuda(runtime->devices[r]) && mst_cuda_ordinal(runtime->devices[r]) == from->device_id) {
            *rank = r;
            return MUSTER_OK;
        }
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: managed: device: expected a GPU of the runtime, received the GPU %d", where,
                     (int)from->device_id);
}

static muster_status dlpack_dtype_of(const muster_dlpack_tensor *from, const char *where, muster_dtype *dtype) {
    for (*dtype = MUSTER_DTYPE_NONE + 1; *dtype < MST_DTYPE_COUNT && from->lanes == 1; ++*dtype)
        if (dlpack_types[*dtype].code == from->code && dlpack_types[*dtype].bits == from->bits) return MUSTER_OK;
    char known[128];
    return mst_error(MUSTER_UNSUPPORTED, "%s: managed: dtype: expected %s, received code %d with %d bits and %d lanes", where,
                     mst_dtypes_text(known, MST_ALL_DTYPES), (int)from->code, (int)from->bits, (int)from->lanes);
}

static muster_status dlpack_take(const muster_runtime *runtime, const muster_dlpack_tensor *from, const char *where,
                                 muster_tensor *result) {
    muster_dtype dtype;
    int32_t rank;
    MUSTER_TRY(dlpack_dtype_of(from, where, &dtype));
    MUSTER_TRY(dlpack_rank_of(runtime, from, where, &rank));
    if (from->ndim < 0 || from->ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_UNSUPPORTED, "%s: managed: ndim: expected 0 to %d, received %d", where, MUSTER_MAX_DIMS, (int)from->ndim);
    if (from->ndim > 0 && !from->shape) return mst_error_null(where, "managed: shape", "an array of sizes");
    if (from->byte_offset > INT64_MAX)
        return mst_error(MUSTER_OVERFLOW, "%s: managed: byte_offset: expected at most %lld, received %llu", where, (long long)INT64_MAX,
                         (unsigned long long)from->byte_offset);
    muster_tensor made = muster_tensor_make(dtype, from->data, from->ndim, from->shape);
    if (from->strides) memcpy(made.strides, from->strides, (size_t)from->ndim * sizeof *made.strides);
    made.byte_offset = (int64_t)from->byte_offset;
    made.device = rank;
    MUSTER_TRY(mst_tensor_check(made, where, "managed"));
    *result = made;
    return MUSTER_OK;
}

/* Checks the places for the results and makes the handle. */
static muster_status dlpack_begin_import(const void *managed, muster_tensor *tensor, muster_dlpack **handle, const char *where) {
    if (tensor) *tensor = muster_tensor_none();
    if (handle) *handle = NULL;
    if (!tensor) return mst_error_null(where, "tensor", "the address of a tensor");
    if (!handle) return mst_error_null(where, "handle", "the address of a pointer");
    return managed ? MUSTER_OK : mst_error_null(where, "managed", "a struct of DLPack");
}

static muster_status dlpack_keep(const muster_runtime *runtime, muster_dlpack kept, const char *where, muster_tensor taken,
                                 muster_tensor *tensor, muster_dlpack **handle) {
    muster_dlpack *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    *made = kept;
    if (taken.device != MUSTER_DEVICE_HOST) {
        const muster_status status = mst_foreign_add(runtime, true, where, &taken);
        if (status) {
            mst_free(made);
            return status;
        }
        made->number = taken.reserved[0];
    }
    *tensor = taken;
    *handle = made;
    return MUSTER_OK;
}

muster_status muster_dlpack_import(const muster_runtime *runtime, muster_dlpack_versioned *managed, muster_tensor *tensor,
                                   muster_dlpack **handle) {
    static const char where[] = "muster_dlpack_import";
    muster_tensor taken;
    MUSTER_TRY(dlpack_begin_import(managed, tensor, handle, where));
    if (managed->major != DLPACK_MAJOR)
        return mst_error(MUSTER_UNSUPPORTED, "%s: managed: version: expected DLPack %d, received %u.%u", where, DLPACK_MAJOR,
                         managed->major, managed->minor);
    MUSTER_TRY(dlpack_take(runtime, &managed->tensor, where, &taken));
    return dlpack_keep(runtime, (muster_dlpack){.versioned = managed}, where, taken, tensor, handle);
}

muster_status muster_dlpack_import_unversioned(const muster_runtime *runtime, muster_dlpack_unversioned *managed, muster_tensor *tensor,
                                               muster_dlpack **handle) {
    static const char where[] = "muster_dlpack_import_unversioned";
    muster_tensor taken;
    MUSTER_TRY(dlpack_begin_import(managed, tensor, handle, where));
    MUSTER_TRY(dlpack_take(runtime, &managed->tensor, where, &taken));
    return dlpack_keep(runtime, (muster_dlpack){.unversioned = managed}, where, taken, tensor, handle);
}

uint64_t muster_dlpack_flags(const muster_dlpack *handle) { return handle && handle->versioned ? handle->versioned->flags : 0; }

/* A second release, also within the deleter, finds nothing to give back. */
void muster_dlpack_release(muster_dlpack *handle) {
    if (!handle || (!handle->versioned && !handle->unversioned)) return;
    const muster_dlpack kept = *handle;
    if (kept.number) mst_foreign_remove(kept.number);
    *handle = (muster_dlpack){0};
    mst_retire(handle);
    if (kept.versioned && kept.versioned->deleter) kept.versioned->deleter(kept.versioned);
    if (kept.unversioned && kept.unversioned->deleter) kept.unversioned->deleter(kept.unversioned);
}
