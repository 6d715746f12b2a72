/* The parameters of the kernel in random.cu, and the generator that it shares with the host. */
#ifndef MST_RANDOM_PARAMETERS_IMPL_H
#define MST_RANDOM_PARAMETERS_IMPL_H

#include "iterator_impl.h"

typedef struct mst_random_parameters {
    mst_iterator iterator; /* y */
    int64_t count;
    uint64_t seed, first;
    double mean, deviation;
    int32_t dtype, normal;
} mst_random_parameters;

typedef struct mst_random_lanes {
    uint32_t words[4];
} mst_random_lanes;

/* Philox 4x32-10. */
static inline mst_random_lanes mst_philox(const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    mst_random_lanes lanes = {{c0, c1, c2, c3}};
    return lanes;
}

#endif
