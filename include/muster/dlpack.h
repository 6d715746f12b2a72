/* muster/dlpack.h: tensors from and to other libraries (NumPy, JAX, PyTorch, CuPy) by DLPack, the
 * exchange format of array libraries: a struct that says where an array is and whom to tell when it
 * is no longer used. Nothing is copied.
 *
 * This header does not include DLPack's dlpack.h and has no name in common with it: a program may
 * include both, in either order. The structs have the layout of DLPack 1.x. A program with dlpack.h
 * casts: (muster_dlpack_versioned *)managed is a DLManagedTensorVersioned *, and
 * (muster_dlpack_unversioned *)managed a DLManagedTensor *.
 *
 * Devices. Host memory is DLPack's CPU. A tensor of a GPU is CUDA memory with the ordinal of that
 * GPU; between DLPack's ordinal and Muster's rank stands the runtime. Neither direction waits for a
 * device.
 *
 * Order of work on a GPU. DLPack's producer makes a stream of the consumer wait for its own work.
 * For tensors that become inputs and outputs of calls that stream is CUDA's legacy default stream:
 * in Python the consumer asks for array.__dlpack__(stream=1). Every call and copy that takes an
 * imported tensor of a GPU begins its work on it after what is in the default stream of that GPU at
 * that moment. Work in other streams the program orders or ends itself. When the call returns, its
 * own work on the tensor has ended, and any stream may use it. Inside a body
 * muster_worker_cuda_after and _before order the work of any stream.
 *
 * Errors of the functions that return a status: INVALID_ARGUMENT (NULL; a tensor that is not well
 * formed; a device that the runtime does not have), UNSUPPORTED (a version, device type, dtype or
 * number of dimensions that Muster does not have), OVERFLOW, OUT_OF_MEMORY. After an error nobody's
 * memory has changed hands: the caller still owns what it passed. Threads: any. */
#ifndef MUSTER_DLPACK_H
#define MUSTER_DLPACK_H

#include "muster/runtime.h"
#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tensor in both structs. shape and strides have ndim numbers and count elements; strides NULL
 * (in structs made before DLPack 1.2) means contiguous. The first element lies at
 * (char *)data + byte_offset. code and bits are the element type: code 0 is a signed integer, 1 an
 * unsigned one, 2 an IEEE float, 4 bfloat16, 6 bool; lanes is 1. device_type 1 is host memory, 2
 * CUDA memory, 3 host memory that CUDA has pinned. The layout is frozen. */
typedef struct muster_dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} muster_dlpack_tensor;

/* Flags of the versioned struct. READ_ONLY: the consumer must not write. COPIED: the producer made
 * a copy, which only the consumer uses. */
enum muster_dlpack_flag { MUSTER_DLPACK_READ_ONLY = 1, MUSTER_DLPACK_COPIED = 2 };

/* What changes hands, since DLPack 1.0. Its last holder calls deleter (if it is not NULL) with the
 * struct itself, once. If major is not 1, only the deleter may be used. The layout is frozen. */
typedef struct muster_dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct muster_dlpack_versioned *self);
    uint64_t flags;
    muster_dlpack_tensor tensor;
} muster_dlpack_versioned;

/* The same before DLPack 1.0, for libraries that ask for no version. The layout is frozen. */
typedef struct muster_dlpack_unversioned {
    muster_dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct muster_dlpack_unversioned *self);
} muster_dlpack_unversioned;

/* Lends a tensor to another library. `runtime` is that of a tensor on a device, and may be NULL for
 * a host tensor. flags: MUSTER_DLPACK_READ_ONLY, MUSTER_DLPACK_COPIED, or 0; the unversioned struct
 * has none. The caller keeps the memory valid until the other library calls the deleter. That calls
 * release(owner) once, in whatever thread, before it frees the struct; release may be NULL. After
 * an error *managed is NULL, and release has not been called. */
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_export(const muster_runtime *runtime, muster_tensor tensor, uint64_t flags,
                                                               void (*release)(void *owner), void *owner,
                                                               muster_dlpack_versioned **managed);
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_export_unversioned(const muster_runtime *runtime, muster_tensor tensor,
                                                                           void (*release)(void *owner), void *owner,
                                                                           muster_dlpack_unversioned **managed);

/* An imported tensor, which keeps the other library's memory. */
typedef struct muster_dlpack muster_dlpack;

/* Takes a tensor of another library. *tensor is a view of its memory, valid until
 * muster_dlpack_release(*handle), which calls the deleter. `runtime` says which rank a GPU is (the
 * first one, where several virtual devices share it), and may be NULL for host memory. After an
 * error *tensor is "no tensor", *handle is NULL, and the caller still owns `managed`: it calls the
 * deleter, which DLPack asks for after a wrong version too. A tensor of CUDA memory is for calls
 * and copies of the runtime, and for bodies of its rank. Whether the memory really lies on that GPU
 * is asked when a call or copy takes it (INVALID_ARGUMENT). */
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_import(const muster_runtime *runtime, muster_dlpack_versioned *managed,
                                                               muster_tensor *tensor, muster_dlpack **handle);
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_import_unversioned(const muster_runtime *runtime,
                                                                           muster_dlpack_unversioned *managed, muster_tensor *tensor,
                                                                           muster_dlpack **handle);
/* The flags of the imported struct: 0 for an unversioned one, and for NULL. With
 * MUSTER_DLPACK_READ_ONLY the tensor must not be an output. Threads: any. */
MUSTER_API uint64_t muster_dlpack_flags(const muster_dlpack *handle);
/* Gives the tensor back: calls its deleter. No call may use it any more. Accepts NULL. Threads:
 * any. */
MUSTER_API void muster_dlpack_release(muster_dlpack *handle);

#ifdef __cplusplus
}
#endif
#endif
