/* The transport `staged`: it copies tensors to host memory, and serves ranks on any devices. */
#ifndef MST_STAGED_PRIVATE_H
#define MST_STAGED_PRIVATE_H

#include "core/apply_private.h"
#include "core/device_staging_private.h"
#include "host/host_private.h"

static inline mst_host_member *mst_staged_members(const muster_communicator *communicator) {
    return communicator->state[MST_TRANSPORT_staged];
}

/* staged_run.c. Copies between a worker's device and host memory are complete on return. */
muster_status mst_staged_copy_out(muster_worker *worker, void *to_host, const void *from_device, int64_t bytes);
muster_status mst_staged_copy_in(muster_worker *worker, void *to_device, const void *from_host, int64_t bytes);
muster_status mst_staged_prepare(mst_batch *batch);
/* The same by the algorithm `direct`, which offers host tensors themselves. */
muster_status mst_staged_prepare_direct(mst_batch *batch);
muster_status mst_staged_run(const mst_batch *batch);
muster_status mst_staged_finish(const mst_batch *batch);

/* staged_apply.c: the same steps for an all_reduce_apply. */
muster_status mst_staged_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_staged_apply_prepare(const mst_batch *batch);
muster_status mst_staged_apply_run(const mst_batch *batch);
muster_status mst_staged_apply_finish(const mst_batch *batch);

/* The parts of these for other transports, of a member on a device of its own. `view` may be of the
 * ranks of several processes. The offer gets host memory for the whole shared vector, where sums
 * go, too. copy_sums: brings those of its portion to the device, one behind the other at *sums.
 * keep_sums: the same where they lie in its copy of its gradients, to the gradients themselves.
 * copy_parameters: the portion of a rank, public, between its parameters and that host memory. */
muster_status mst_staged_apply_prepare_device(const mst_batch *batch);
muster_status mst_staged_apply_copy_sums(const mst_batch *batch, const mst_view *view, char **sums);
muster_status mst_staged_apply_keep_sums(const mst_batch *batch, const mst_view *view);
muster_status mst_staged_apply_copy_parameters(const mst_batch *batch, int32_t rank, bool out);

/* staged_messages.c */
extern const mst_message_table mst_staged_messages;

#endif
