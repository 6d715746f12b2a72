/* What the data functions of nodes_impl.h use: the slabs of the runtime, and a schedule on lane
 * 0. */
#ifndef MST_NODES_DATA_PRIVATE_H
#define MST_NODES_DATA_PRIVATE_H

#include "nodes_impl.h"
#include "schedule_private.h"
#include "slabs_private.h"

typedef struct mst_nodes_data {
    mst_slabs slabs; /* first: nodes->slabs is its address */
    mst_channel channel;
    mst_schedule schedule;
    double *scales; /* [processes] 1 / processes */
    int64_t *bytes; /* [processes] of a segment */
} mst_nodes_data;

/* Before processes agree that all have opened. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT
 * (MUSTER_WIRE_MEMORY). */
muster_status mst_nodes_data_open(mst_nodes *nodes, const char *where);
/* The slabs of another process have so many bytes each: from now on no more of the own ones are
 * used, so that data is cut into the same segments everywhere. */
static inline void mst_nodes_data_agree(mst_nodes *nodes, int64_t bytes) {
    if (bytes < nodes->slabs->bytes) nodes->slabs->bytes = bytes;
}
/* Accepts nodes that have not opened it. */
void mst_nodes_data_close(mst_nodes *nodes);

#endif
