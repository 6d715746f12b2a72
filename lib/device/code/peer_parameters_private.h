/* The parameters of the kernel that tries one GPU's access to another's memory (peer.cu). */
#ifndef MST_PEER_PARAMETERS_PRIVATE_H
#define MST_PEER_PARAMETERS_PRIVATE_H

#include <stdint.h>

/* count words each. local: memory of the GPU that runs the kernel; remote: of the other one. */
typedef struct mst_peer_parameters {
    const uint32_t *remote_source, *local_source;
    uint32_t *local_target, *remote_target;
    int64_t count;
} mst_peer_parameters;

#endif
