/* What training over a server asks of it, beyond the public functions. */
#ifndef MST_SERVER_IMPL_H
#define MST_SERVER_IMPL_H

#include "muster/server.h"

#include <stdbool.h>

/* Of a value; the index is not checked. */
muster_dtype mst_server_dtype(const muster_server *server, int32_t index);
int64_t mst_server_elements(const muster_server *server, int32_t index);

/* A client that is held exists, with its server, until it is released. */
void mst_client_hold(muster_client *client);
void mst_client_release(muster_client *client);

/* The calling thread is inside the client, as in a wait, until it leaves. */
muster_status mst_client_enter_wait(muster_client *client, const char *where);
void mst_client_leave_wait(muster_client *client);

/* The start of training: the values of the server become the parameters of one worker, once in the
 * life of the server. start: after these have been sent. await: until then, or until a deadline of
 * the worker's call. In a body, with the worker's client. */
bool mst_server_has_started(const muster_client *client);
void mst_server_start(muster_client *client);
muster_status mst_server_await_start(muster_client *client, const char *where);

/* Waits for the request, cancels it if it cannot be waited for, gives it back and sets it to NULL.
 * Its outcome. Inside the client; or, where no thread is, between mst_pool_enter and leave. */
muster_status mst_request_end(muster_request **request, const char *where);

#endif
