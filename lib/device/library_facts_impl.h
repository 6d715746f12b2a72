/* A library that Muster opens at run time: its version, its file, or the reason why it is not used.
 * For muster_library_get_info. */
#ifndef MST_LIBRARY_FACTS_IMPL_H
#define MST_LIBRARY_FACTS_IMPL_H

#include "status_impl.h"

#include <stdbool.h>

typedef struct mst_library_facts {
    bool found;
    char version[64];            /* "": not found, or not known */
    char path[512];              /* of the file, with links followed; "": not found */
    char text[MST_MESSAGE_SIZE]; /* what it says of itself, or why it is not used */
} mst_library_facts;

/* The library is used. `function`: the address of a pointer to one of its functions, by which the
 * file is found. A version that nobody has written is what stands behind ".so." in the file's
 * name. */
void mst_library_found(mst_library_facts *facts, const void *function);
/* The library is not used, for the reason that is the thread's last error. */
void mst_library_missing(mst_library_facts *facts);

/* Each of these opens one library as its users do, and fills *facts, which is zero. They may change
 * the thread's last error. Threads: any. */
void mst_blas_get_facts(mst_library_facts *facts);
void mst_opencl_get_facts(mst_library_facts *facts);
void mst_cuda_get_driver_facts(mst_library_facts *facts);
void mst_cuda_get_nvrtc_facts(mst_library_facts *facts);
void mst_cuda_get_cublas_facts(mst_library_facts *facts);
void mst_cuda_get_cudnn_facts(mst_library_facts *facts);
/* Is there a driver, without which no library of CUDA is opened? If not, says so in *facts. */
bool mst_cuda_has_driver(mst_library_facts *facts);

#endif
