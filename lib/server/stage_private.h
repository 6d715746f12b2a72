/* Tensors in the memory of a worker's device go through page-locked slots, one for sends and one
 * for receives of each value. Called by the worker's thread. */
#ifndef MST_STAGE_PRIVATE_H
#define MST_STAGE_PRIVATE_H

#include "request_private.h"

/* Between mst_pool_enter and leave; or in_body: by the client's worker, with memory that is not
 * page-locked, since a driver must not be asked to lock any while collectives are in flight. */
muster_status mst_client_staging_open(muster_client *client, const char *where, bool in_body);
void mst_client_staging_close_all(muster_server *server);
bool mst_server_stages(const muster_server *server); /* some client has slots */

/* attach: operation.memory of a request for a tensor on the device becomes its slot, and the copy
 * of a send is issued. */
muster_status mst_stage_attach(muster_request *request, const char *where, void *device_address);
void mst_stage_detach(muster_request *request);
/* mst_request_begin: at once, or behind requests that wait for their copy. */
void mst_stage_begin(muster_request *request, const char *from, bool lazily);
/* Begins the requests whose copy has been made, and issues the copy of `request` (NULL: none) if
 * that is due. Never waits. */
void mst_stage_advance(muster_client *client, muster_request *request);
/* A receive has come from all shards: its copy to the device is to be issued. */
static inline bool mst_stage_due(const muster_request *request) {
    return request->slot && atomic_load(&((muster_request *)request)->done) + 1 == request->target && !request->operation.rule;
}
/* Gives up a request that has begun at no shard. */
void mst_stage_cancel(muster_request *request);

#endif
