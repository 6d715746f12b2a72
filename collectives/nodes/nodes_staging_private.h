/* Memory of members whose devices are not the host: they offer copies in host memory, as in the
 * transport `staged`. */
#ifndef MST_NODES_STAGING_PRIVATE_H
#define MST_NODES_STAGING_PRIVATE_H

#include "core/transport_private.h"

muster_status mst_nodes_staging_create(const char *where, muster_communicator *communicator);
muster_status mst_nodes_prepare(mst_batch *batch);
muster_status mst_nodes_finish(const mst_batch *batch);
muster_status mst_nodes_reserve(muster_communicator *communicator, muster_worker *worker, int64_t bytes);
muster_status mst_nodes_reserve_apply(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
/* Of messages: staged[count] becomes the requests with memory of the host, where copies are of what
 * is sent. Where the memory is the host's already, they are the requests. mst_nodes_unstage copies
 * what was received to where it belongs. */
muster_status mst_nodes_stage(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, int32_t count,
                              mst_request *staged);
muster_status mst_nodes_unstage(muster_worker *worker, const mst_request *requests, int32_t count, const mst_request *staged);

#endif
