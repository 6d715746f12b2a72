/* The parameters of the kernel in indices.cu. */
#ifndef MST_INDICES_PARAMETERS_PRIVATE_H
#define MST_INDICES_PARAMETERS_PRIVATE_H

#include "muster/tensor.h"

/* Chunk c has `chunk` indices from c * chunk on. bad[2 c] becomes the place of its first index
 * outside of [0, bound), or -1, and bad[2 c + 1] that index. */
typedef struct mst_indices_parameters {
    void *indices;
    int64_t *bad;
    int64_t count, stride, bound, chunk, chunks;
    int32_t dtype;
} mst_indices_parameters;

/* Index i of an array with the stride, which counts elements. Host code and device code use it. */
static inline int64_t mst_index_of(const void *indices, int32_t dtype, int64_t stride, int64_t i) {
    if (dtype == MUSTER_U8) return ((const uint8_t *)indices)[i * stride];
    return dtype == MUSTER_I32 ? ((const int32_t *)indices)[i * stride] : ((const int64_t *)indices)[i * stride];
}

#endif
