/* What the data functions of nodes_impl.h use: the slabs of the runtime, and a schedule on a lane
 * of its own. */
#ifndef MST_NODES_DATA_PRIVATE_H
#define MST_NODES_DATA_PRIVATE_H

#include "nodes_impl.h"
#include "schedule_private.h"
#include "slabs_private.h"

/* Data carry no numbers: what is left of a transfer in which not all have taken part would meet the
 * next one on the same lane. So after one of these all go on on another lane, the next of those
 * that the table of lanes keeps free for that. A process may have given up a call before the
 * transfer that the others have begun, or have ended it sooner than they, so that only all together
 * know: each call compares how far they are. */
enum { MST_NODES_DATA_LANES = 16 }; /* lanes MST_WIRE_LANES - 16 and above; the first one is 0 */

typedef struct mst_nodes_data {
    mst_slabs slabs; /* first: nodes->slabs is its address */
    mst_channel channel;
    mst_schedule schedule;
    double *scales; /* [processes] 1 / processes */
    int64_t *bytes; /* [processes] of a segment */
    uint32_t lanes; /* how many it has left */
    uint32_t moves; /* begun on this lane */
} mst_nodes_data;

/* Before processes agree that all have opened. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT
 * (MUSTER_WIRE_MEMORY). */
muster_status mst_nodes_data_open(mst_nodes *nodes, const char *where);
/* The slabs of another process have so many bytes each: from now on no more of the own ones are
 * used, so that data is cut into the same segments everywhere. */
static inline void mst_nodes_data_agree(mst_nodes *nodes, int64_t bytes) {
    if (bytes < nodes->slabs->bytes) nodes->slabs->bytes = bytes;
}
/* How far this process is: processes with the same number have begun the same transfers. */
uint64_t mst_nodes_data_number(const mst_nodes *nodes);
/* In all processes, when their numbers differ; most: the largest. Goes on on the next lane, in
 * other memory where the wire may still use this one. Errors: OUT_OF_MEMORY; BAD_STATE (no lane is
 * left). Nothing has changed then. */
muster_status mst_nodes_data_renew(mst_nodes *nodes, const char *where, uint64_t most);
/* Accepts nodes that have not opened it. */
void mst_nodes_data_close(mst_nodes *nodes);

#endif
