/* The kernel that combines values in rank order. Also NCCL's transport uses it, for what NCCL
 * does not combine in the way that is promised. */
#ifndef MST_P2P_REDUCE_PRIVATE_H
#define MST_P2P_REDUCE_PRIVATE_H

#include "core/transport_private.h"
#include "p2p_parameters_impl.h"

/* Has the kernel room for the inputs and outputs of all ranks? */
bool mst_p2p_combines(const mst_view *view);
/* The kernel's parameters but for count and addresses. */
mst_p2p_reduce_parameters mst_p2p_parameters(const mst_view *view);
/* With count, inputs and outputs; to an update adds the parameter (which is where this rank's own
 * lies) and the velocity at element `begin`. */
muster_status mst_p2p_launch(muster_worker *worker, const mst_view *view, mst_p2p_reduce_parameters *p, int64_t begin);

#endif
