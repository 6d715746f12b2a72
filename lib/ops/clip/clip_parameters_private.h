/* The parameters of clip, for host code and device code. */
#ifndef MST_CLIP_PARAMETERS_PRIVATE_H
#define MST_CLIP_PARAMETERS_PRIVATE_H

#include "iterator_impl.h"

typedef struct mst_clip_parameters {
    mst_iterator iterator; /* x, y */
    int64_t count;
    uint64_t low, high; /* in the first bytes: the bounds in the type in which the dtype is computed */
    int32_t dtype;
} mst_clip_parameters;

#endif
