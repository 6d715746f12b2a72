/* The creation of a server, from outside of bodies and from inside. */
#ifndef MST_CREATE_PRIVATE_H
#define MST_CREATE_PRIVATE_H

#include "server_private.h"

typedef struct mst_creation {
    const char *where;
    muster_runtime *runtime;
    muster_worker *worker; /* the calling worker inside a body; NULL outside */
    const char *name;
    const muster_tensor *tensors;      /* NULL: variables */
    muster_variable *const *variables; /* NULL: tensors */
    int32_t count;
    muster_server_options options;
    mst_server_list *list;
    muster_server *server;
} mst_creation;

/* begin: reads the options, and makes *server NULL. end: ends the `user` pointer of `fill`, which
 * is not called any more; returns `status`. Every creation that begins also ends, whatever its
 * outcome. */
muster_status mst_creation_begin(mst_creation *c, const muster_server_options *options, muster_server **server);
muster_status mst_creation_end(mst_creation *c, muster_status status);
/* The arguments and options, whose defaults are filled in. values: the tensors or variables. */
muster_status mst_creation_check(mst_creation *c, const char *list, const void *values);
/* Makes c->server, whose shards have no values yet. After a failure it is dismantled. */
muster_status mst_creation_build(mst_creation *c);
int32_t mst_creation_progress_threads(const mst_creation *c);
/* Frees a server whose creation has failed. Page-locked memory is freed while no call runs. */
void mst_server_dismantle(muster_server *server);

#endif
