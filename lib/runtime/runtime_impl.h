/* The opened machine, as variables and functions see it. */
#ifndef MST_RUNTIME_IMPL_H
#define MST_RUNTIME_IMPL_H

#include "communicator_impl.h"
#include "muster/runtime.h"

/* Things that live in a runtime (functions, variables): closed with it, names unique per kind. */
typedef struct mst_object {
    struct muster_runtime *runtime;
    char *name;
    const char *kind;                        /* "function", "variable" */
    void (*destroy)(struct mst_object *self); /* frees it; runs inside an entered pool, or at close */
    struct mst_object *next;
} mst_object;

struct muster_runtime {
    int32_t size;
    int32_t process; /* id of the process that opened it: a child after fork has another */
    mst_device **devices;
    mst_pool *pool;
    mst_communicator *communicator;
    mst_object *objects; /* newest first; guarded by the pool's turn */
    char *description;
    bool blas_open;
};

/* Between mst_pool_enter and leave. add: takes a copy of the name; refuses an empty or a doubled one (where: public function). remove: unlinks, frees the name; of an object
 * that is not linked: does nothing. At close functions go first (they count their variables), each removed before its destroy runs. */
muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where);
void mst_runtime_remove(mst_object *object);

#endif
