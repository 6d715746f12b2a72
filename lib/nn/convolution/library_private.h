/* Foreign libraries that compute convolutions, such as oneDNN and cuDNN: what an adapter is. */
#ifndef MST_CONVOLUTION_LIBRARY_PRIVATE_H
#define MST_CONVOLUTION_LIBRARY_PRIVATE_H

#include "convolution/convolution_parameters_private.h"
#include "worker_impl.h"

/* The functions run on the worker's thread, but for `destroy`, which runs on any. */
typedef struct mst_convolution_library {
    const char *name;
    /* Makes what `run` needs for this geometry on the worker's device: primitives, reordered
     * weights, memory. *state NULL, with MUSTER_OK: the library does not compute this one here, or
     * cannot be opened; the next one is asked. An error ends the run. */
    muster_status (*create)(muster_worker *worker, const mst_convolution_geometry *geometry, void **state);
    /* Computes the result from operands with these addresses, and allocates nothing. Memory that it
     * needs only meanwhile is scratch memory of the worker. */
    muster_status (*run)(muster_worker *worker, void *state, const mst_convolution_parameters *parameters);
    void (*destroy)(void *state);
} mst_convolution_library;

/* onednn_convolution.c, cudnn_convolution.c */
extern const mst_convolution_library mst_convolution_onednn, mst_convolution_cudnn;
/* So many operands lay otherwise than its primitives take them, and were reordered, in all runs of
 * the process: x and y, or w. */
int64_t mst_convolution_onednn_reorders(bool of_weights);
/* How oneDNN's code for AVX2 is fastest where channels lie last: as they lie, with x and y
 * reordered, or not at all, since products of matrices are. */
typedef enum mst_convolution_way { MST_AS_THEY_LIE, MST_REORDERED, MST_BY_PRODUCTS } mst_convolution_way;
mst_convolution_way mst_convolution_onednn_fastest(const mst_convolution_geometry *geometry);
/* Of mst_convolution_open. */
void mst_convolution_open_cudnn(mst_device *device);

/* The libraries in the order in which they are asked; NULL ends the list. The library's own code
 * computes what none of them takes. Tests replace the list. */
extern const mst_convolution_library *const *mst_convolution_libraries;

#endif
