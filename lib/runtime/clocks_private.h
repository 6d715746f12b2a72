/* How far the clocks of processes on different hosts are apart, so that their traces lie on one
 * scale. */
#ifndef MST_CLOCKS_PRIVATE_H
#define MST_CLOCKS_PRIVATE_H

#include "nodes/nodes_impl.h"

/* The clock of this process is ahead of that of process 0 by this many nanoseconds. */
typedef struct mst_clock_bounds {
    int64_t least, most;
} mst_clock_bounds;

/* A call of all processes, as mst_nodes_begin. now(user): the clock of this process, in ns. */
muster_status mst_clocks_compare(mst_nodes *nodes, int64_t (*now)(void *user), void *user, mst_clock_bounds *bounds);

/* The middle; 0 if that is possible, as it is for processes of one host, which have one clock. */
int64_t mst_clock_ahead(const mst_clock_bounds *bounds);

#endif
