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
    muster_communicator *communicator;
    mst_object *objects; /* newest first; guarded by the pool's turn */
    int32_t logical_shards; /* 0: not in reproducible mode; else a multiple of size */
    char *description;
    bool blas_open;
    char *no_gpus; /* why the devices are hosts, where nobody chose; else NULL */
    /* register.c: memory of the program that devices copy without staging */
    struct mst_registered *registered;
    int64_t registered_count, registered_capacity;
    /* trace.c */
    bool nvtx;
    int64_t recorder_events;
    char *trace_path; /* NULL: no trace at close */
    /* object.c */
    struct mst_name *names;
};

/* Between mst_pool_enter and leave. add: takes a copy of the name; refuses an empty or a doubled one (where: public function). remove: unlinks, takes the name away; of an object
 * that is not linked: does nothing. At close functions go first (they count their variables), each removed before its destroy runs. */
muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where);
void mst_runtime_remove(mst_object *object);
/* The names of objects live until close, since recorders hold them. */
void mst_runtime_names_free(muster_runtime *runtime);

/* register.c: unlocks what is left, before the devices close. */
void mst_runtime_unregister_all(muster_runtime *runtime);

/* trace.c. open: after the pool. close: gives back what open took, before the pool goes. at_close: writes the trace that MUSTER_TRACE asks for. */
muster_status mst_runtime_trace_open(muster_runtime *runtime);
void mst_runtime_trace_close(muster_runtime *runtime);
void mst_runtime_trace_at_close(muster_runtime *runtime);
void mst_runtime_trace_describe(const muster_runtime *runtime, char *text, size_t size);

#endif
