/* The kernel that combines values in rank order. The transport `nccl` uses it, too, for reductions
 * that NCCL does not compute as the interface promises. */
#ifndef MST_P2P_REDUCE_PRIVATE_H
#define MST_P2P_REDUCE_PRIVATE_H

#include "core/transport_private.h"
#include "p2p_parameters_impl.h"

/* Do the inputs and outputs of all ranks fit into the kernel's parameters? */
bool mst_p2p_combines(const mst_view *view);
/* The kernel's parameters, without the count and the addresses. */
mst_p2p_reduce_parameters mst_p2p_parameters(const mst_view *view);
/* Launches the kernel; the caller has set count, inputs and outputs. For an update this function
 * adds the parameter (this rank's output) and the velocity, both at element `begin`. */
muster_status mst_p2p_launch(muster_worker *worker, const mst_view *view, mst_p2p_reduce_parameters *p, int64_t begin);

#endif
