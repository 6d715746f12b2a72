/* What the kernel of random.cu gets. */
#ifndef MST_RANDOM_PARAMETERS_IMPL_H
#define MST_RANDOM_PARAMETERS_IMPL_H

#include "walk_impl.h"

typedef struct mst_random_parameters {
    mst_walk walk; /* y */
    int64_t count;
    uint64_t seed, first;
    double mean, deviation;
    int32_t dtype, normal;
} mst_random_parameters;

#endif
