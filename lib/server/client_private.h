/* A client: whose operations keep their order. One thread at a time is inside a client; the end of
 * the server waits until all have left. */
#ifndef MST_CLIENT_PRIVATE_H
#define MST_CLIENT_PRIVATE_H

#include "muster/server.h"
#include "spin_impl.h"
#include "worker_impl.h"

/* Operations that ended without a failure, and the bytes of their tensors. */
typedef struct mst_counts {
    _Atomic int64_t sends, receives, bytes;
} mst_counts;

struct muster_client {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t inside;
    int32_t first_shard;   /* where its operations begin (backwards: end), so that clients do not meet at each shard */
    bool backwards;        /* the direction of the next operation */
    muster_server *server; /* NULL: closed */
    muster_worker *worker; /* NULL: the client of a host thread */
    uint64_t epoch;        /* of the run in which the worker used it last */
    mst_exit_hook end_of_run;
    muster_request *free, *made; /* touched by the client's thread only */
    uint64_t sequence;
    mst_spin spin;                      /* of its waits for requests */
    mst_counts counts;                  /* operations that its calls finished; written by its thread only */
    muster_client *previous, *next;     /* in the list of host threads' clients, under the server's lock */
    struct mst_client_staging *staging; /* of a worker whose device has memory of its own */
};

/* enter: the calling thread is inside until it leaves. Refused while another thread is inside,
 * while the server is being destroyed, and for a worker's client outside its body. `where` names
 * the public function. mst_client_enter_wait (server_impl.h) does not look at the end of the
 * server. */
muster_status mst_client_enter(muster_client *client, const char *where);
static inline void mst_client_leave(muster_client *client) { atomic_store_explicit(&client->inside, 0, memory_order_release); }
/* The error of a client that has been closed. */
muster_status mst_client_refuse_closed(const char *where);
/* Ends its requests, and closes it: the caller retires the memory of the client itself. */
void mst_client_free(muster_client *client);

#endif
