/* muster/allocator.h: the program's own functions for the host memory of the library.
 *
 * One allocator serves the whole process and not a runtime, because much of the memory belongs to
 * no runtime: buffers, clients, drivers, tensors of DLPack, and handles that outlive their runtime.
 *
 * Through it goes all host memory that the library allocates for itself, also the storage of
 * buffers, and tensors and scratch memory of host devices. It does not serve:
 * - the libraries that Muster opens (OpenBLAS, OpenCL, CUDA, NCCL, hwloc) and the C library (files,
 *   dlopen, thread-local storage);
 * - the stacks of threads;
 * - memory of GPUs, and page-locked host memory, which the CUDA driver allocates;
 * - what stays until the process ends, which is with OpenCL only: the array of the environment, and
 *   a list of OpenCL objects that must not be released (after a fork, or on a lost device). */
#ifndef MUSTER_ALLOCATOR_H
#define MUSTER_ALLOCATOR_H

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An option struct: the rules are in muster/status.h. Both functions are called by any thread, by
 * several at the same time, and while the library holds locks. They must not call Muster, and must
 * not wait for a thread that does. */
typedef struct muster_allocator_options {
    size_t struct_size; /* set by muster_allocator_options_init */
    /* Returns `bytes` bytes at an address that is a multiple of `alignment`, with any contents;
     * NULL if there are none. The alignment is 64. bytes is a multiple of 64 and at least 128: each
     * block has 64 bytes more than the library uses, which hold its size. A block that is not
     * aligned is given back, and counts as NULL. The function of the library that needed the block
     * then fails with OUT_OF_MEMORY. NULL, with release: malloc's memory. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    /* Takes back a block of allocate, with the same bytes and alignment. */
    void (*release)(void *user, void *block, size_t bytes, size_t alignment);
    void *user;
    /* Ends user when another allocator has taken the place of this one, or when setting this one
     * has failed (muster/status.h). */
    muster_destroy_function destroy;
} muster_allocator_options;
MUSTER_API void muster_allocator_options_init_sized(muster_allocator_options *options, size_t size);
static inline void muster_allocator_options_init(muster_allocator_options *options) {
    muster_allocator_options_init_sized(options, sizeof *options);
}

/* Makes the process's memory come from the program's functions; NULL or functions NULL: from malloc
 * again. No memory of the library may be alive, so that each block goes back to the allocator that
 * gave it: before the first runtime and the first object without a runtime, or after the last of
 * them has ended. What the library keeps of handles that have ended is released first; using such a
 * handle is undefined from then on (muster/status.h tells it from others until then).
 * Calls allocate and release a few times, to see that blocks are aligned.
 * Errors: INVALID_ARGUMENT (one function without the other, blocks that are not aligned),
 * OUT_OF_MEMORY (allocate gives NULL), BAD_STATE (memory of the library is alive), UNSUPPORTED
 * (options of a newer header). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_allocator_set(const muster_allocator_options *options);

#ifdef __cplusplus
}
#endif
#endif
