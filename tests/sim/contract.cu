#include "contract_parameters.h"
#include "mst_device.cuh"

MST_KERNEL(contract_scale, contract_parameters) {
    const float *from = MST_ADDRESS(const float, p.from);
    float *to = MST_ADDRESS(float, p.to);
    MST_EACH(i, p.count) { to[i] = p.factor * from[i]; }
}

static inline float contract_add(float a, float b) { return a + b; }

/* to[b] = the sum of row b of `count` rows, each of 1000 elements. */
MST_KERNEL(contract_row_sums, contract_parameters) {
    const float *from = MST_ADDRESS(const float, p.from);
    float *to = MST_ADDRESS(float, p.to);
    MST_BLOCKS(b, p.count) {
        MST_BLOCK_REDUCE(float, sum, i, 1000, 0.0f, from[b * 1000 + i], contract_add);
        MST_ONE { to[b] = p.factor * sum; }
    }
}
