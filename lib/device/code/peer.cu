#include "mst_device.cuh"
#include "peer_parameters_private.h"

/* Loads from the other GPU's memory, and stores to it. */
MST_KERNEL(mst_peer_probe, mst_peer_parameters) {
    const uint32_t *remote_source = MST_ADDRESS(const uint32_t, p.remote_source);
    const uint32_t *local_source = MST_ADDRESS(const uint32_t, p.local_source);
    uint32_t *local_target = MST_ADDRESS(uint32_t, p.local_target);
    uint32_t *remote_target = MST_ADDRESS(uint32_t, p.remote_target);
    MST_EACH(i, p.count) {
        local_target[i] = remote_source[i];
        remote_target[i] = local_source[i];
    }
}
