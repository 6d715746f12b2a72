/* The kernels that the shim made of the kernel sources, for C. */
#ifndef MST_SHIM_H
#define MST_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_shim_entry {
    const char *name;
    /* The whole grid, in the calling thread. threads: per block, 256 in every launch of the
     * library. */
    void (*function)(const void *parameters, int64_t blocks, int32_t threads);
    int64_t parameter_bytes;
    struct mst_shim_entry *next;
} mst_shim_entry;

/* All kernels, in no particular order; NULL: there is none of that name. */
const mst_shim_entry *mst_shim_kernels(void);
const mst_shim_entry *mst_shim_find(const char *name);

/* Provided by the program or library that links the kernels: where the calling thread reads and
 * writes what lies at the device address (never NULL). Called in the thread that runs the kernel,
 * once for each address among the parameters and each block. Hidden, because a program and a
 * library in it may both hold the kernels. */
__attribute__((visibility("hidden"))) void *mst_shim_address(const void *device_address);

#ifdef __cplusplus
}
#endif
#endif
