/* Functions of the driver that programs call beside Muster, and Muster does not. The list is like
 * those of cuda_api_private.h. */
#ifndef MUSTER_SIM_PROGRAM_CALLS_H
#define MUSTER_SIM_PROGRAM_CALLS_H

#ifndef MST_CUDA_API_PRIVATE_H /* whose folder is not in the path of all who include this */
#include "cuda_api_private.h"
#endif

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct CUgraph_st *mst_cu_graph;

#define PROGRAM_CALLS(X)                                                                 \
    X(mst_cu_result, cuStreamBeginCapture_v2, (mst_cu_stream stream, unsigned int mode)) \
    X(mst_cu_result, cuStreamEndCapture, (mst_cu_stream stream, mst_cu_graph * graph))   \
    X(mst_cu_result, cuGraphDestroy, (mst_cu_graph graph))                               \
    X(mst_cu_result, cuDevicePrimaryCtxReset_v2, (mst_cu_device device))

typedef struct program_calls {
    PROGRAM_CALLS(MST_FOREIGN_MEMBER)
} program_calls;

#define PROGRAM_CALL_FIND(result, symbol, arguments)                \
    do {                                                            \
        void *address = dlsym(driver, #symbol);                     \
        __builtin_memcpy(&calls->symbol, &address, sizeof address); \
        found = found && address;                                   \
    } while (0);

/* Fills *calls from the driver: from the folder MUSTER_CUDA_LIBRARIES if that is set, else from
 * where the loader finds it. False: there is no driver, or it lacks one of the functions. */
static inline bool program_calls_open(program_calls *calls) {
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    char path[4096];
    snprintf(path, sizeof path, "%s%slibcuda.so.1", folder ? folder : "", folder ? "/" : "");
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bool found = driver != NULL;
    if (driver) {
        PROGRAM_CALLS(PROGRAM_CALL_FIND)
    }
    return found;
}

#endif
