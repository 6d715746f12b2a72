/* The opened machine, as variables and functions see it. */
#ifndef MST_RUNTIME_IMPL_H
#define MST_RUNTIME_IMPL_H

#include "communicator_impl.h"
#include "muster/runtime.h"

#include <pthread.h>

/* Things that live in a runtime (functions, variables): closed with it, names unique per kind. */
typedef struct mst_object {
    struct muster_runtime *runtime;
    char *name;
    const char *kind;                         /* "function", "variable" */
    void (*destroy)(struct mst_object *self); /* frees it; runs inside an entered pool, or at close */
    struct mst_object *next;
} mst_object;

/* What this thread runs, where closing a runtime would wait for its end for ever: "a rule of a
 * server"; NULL: nothing of that kind. */
extern _Thread_local const char *mst_runtime_callback __attribute__((tls_model("initial-exec")));

struct muster_runtime {
    int32_t size;
    int32_t process; /* id of the process that opened it: a child after fork has another */
    mst_device **devices;
    mst_pool *pool;
    muster_communicator *communicator;
    mst_object *objects;    /* newest first; guarded by the pool's turn */
    int32_t logical_shards; /* 0: not in reproducible mode; else a multiple of size */
    char *description;
    bool blas_open;
    char *unused_hardware; /* lines of the description: what nobody chose and cannot be used; NULL: none */
    /* register.c: memory of the program that devices copy without staging */
    struct mst_registered *registered;
    int64_t registered_count, registered_capacity;
    /* trace.c */
    bool nvtx;
    int64_t recorder_events;
    char *trace_path; /* NULL: no trace at close */
    /* object.c */
    struct mst_name *names;
    /* names.c: under their own lock */
    pthread_mutex_t device_names_lock;
    bool device_names_open;
    struct mst_device_name *device_names;
    int32_t default_device;
    /* tensors.c: by rank and address; guarded by the pool's turn */
    struct mst_placed *placed;
    int64_t placed_count, placed_capacity, placed_ever;
};

/* Between mst_pool_enter and leave. add: takes a copy of the name; refuses an empty or a doubled
 * one (where: public function). remove: unlinks, takes the name away; of an object
 * that is not linked: does nothing. At close functions go first (they count their variables), each
 * removed before its destroy runs. */
muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where);
void mst_runtime_remove(mst_object *object);
/* The names of objects live until close, since recorders hold them. */
void mst_runtime_names_free(muster_runtime *runtime);

/* register.c: unlocks what is left, before the devices close. */
void mst_runtime_unregister_all(muster_runtime *runtime);

/* names.c. open: before devices have names. find: the rank of `name`, NULL: of the default device;
 * where, what: public function and argument, for messages. device_text: how
 * messages name a device: "1 ('left', 'host cpu 1')". */
enum { MST_DEVICE_TEXT = 200 };
muster_status mst_runtime_names_open(muster_runtime *runtime);
void mst_runtime_names_close(muster_runtime *runtime);
muster_status mst_runtime_find(muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank);
const char *mst_runtime_device_text(muster_runtime *runtime, int32_t rank, char text[MST_DEVICE_TEXT]);

/* tensors.c. extent: how many bytes lie between an address on the device `rank` and the end of the
 * tensor of muster_runtime_tensor_create in whose memory it is; -1: it is in none. Inside a run, or
 * between mst_pool_enter and leave. release_tensors: what is left, before the devices close. */
int64_t mst_runtime_tensor_extent(const muster_runtime *runtime, int32_t rank, const void *address);
void mst_runtime_release_tensors(muster_runtime *runtime);
/* The largest number of bytes that a copy packs, or passes through host memory, at once, 8 or more.
 * Tests lower it. */
extern int64_t mst_tensor_copy_piece;

/* trace.c. open: after the pool. close: gives back what open took, before the pool goes. at_close:
 * writes the trace that MUSTER_TRACE asks for. */
muster_status mst_runtime_trace_open(muster_runtime *runtime);
void mst_runtime_trace_close(muster_runtime *runtime);
void mst_runtime_trace_at_close(muster_runtime *runtime);
void mst_runtime_trace_describe(const muster_runtime *runtime, char *text, size_t size);

#endif
