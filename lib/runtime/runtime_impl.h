/* The open runtime, as functions, variables and the other modules see it. */
#ifndef MST_RUNTIME_IMPL_H
#define MST_RUNTIME_IMPL_H

#include "communicator_impl.h"
#include "muster/runtime.h"
#include "owned_impl.h"

#include <pthread.h>
#include <sched.h>

typedef struct mst_name mst_name; /* object_names.c */

/* The head of an object that belongs to a runtime, such as a function or a variable. Closing the
 * runtime destroys it. Names are unique among objects of one kind, except kernels. */
typedef struct mst_object {
    struct muster_runtime *runtime;
    const char *name; /* NULL: it has none, or is not in the list */
    const char *kind; /* "function", "variable" */
    /* Frees the object. Runs while the pool is entered, or at close. */
    void (*destroy)(struct mst_object *self);
    struct mst_object *next, *previous; /* in the list of the runtime */
    struct mst_object *older, *newer;   /* of the same name */
    mst_name *held;                     /* what `name` points into */
} mst_object;

/* The names that the runtime keeps: a hash table. */
typedef struct mst_names_of_objects {
    mst_name **slots;
    int64_t slot_count;      /* a power of two, or 0 */
    int64_t used, unused;    /* names with and without users */
    int64_t compared;        /* for tests: names that a search has looked at */
    _Atomic int32_t readers; /* of recorders, beside calls */
} mst_names_of_objects;

/* The names of the steps of a compiled graph, in its order. */
typedef struct mst_step_names {
    mst_object object; /* without a name, so that the names end before the runtime */
    int32_t count;
    bool closed; /* with the runtime */
    mst_name **held;
    const char **names; /* [count] */
} mst_step_names;

/* Names the callback that this thread runs, such as "a rule of a server", while closing a runtime
 * from it would wait for ever. NULL: none. */
extern _Thread_local const char *mst_runtime_callback __attribute__((tls_model("initial-exec")));

/* How long waits may spin, and what decided it. */
typedef struct mst_runtime_spin {
    int64_t ns;         /* 0: never */
    const char *source; /* a literal, for the description */
} mst_runtime_spin;

/* What is called when something asynchronous has ended; function NULL: nothing. */
typedef struct mst_completion {
    muster_completion_function function;
    void *user;
} mst_completion;
/* call: while closing a runtime is refused. of_fd: the completion that writes to the descriptor.
 * Errors: INVALID_ARGUMENT (not open). */
void mst_completion_call(mst_completion completion);
muster_status mst_completion_of_fd(const char *where, int32_t fd, mst_completion *completion);

/* What only the files of this module know of the other processes. */
struct mst_process_facts;

struct muster_runtime {
    int32_t size; /* devices of this process */
    /* the id of the process that opened it; a child after fork has another one */
    int32_t process;
    /* Public ranks count the devices of all processes: device r of this one has rank first + r, of
     * total. */
    int32_t first, total;
    struct mst_nodes *nodes;                 /* nodes/nodes_impl.h: the other processes; NULL: there are none */
    struct mst_process_facts *process_facts; /* nodes.c; [processes] */
    char *name_lines;                        /* the names of all devices; names_of_all[total] point into it */
    const char **names_of_all;
    char host[64]; /* the name of the machine */
    bool checks;   /* the environment's MUSTER_CHECK: what must be equal in all processes is compared by hashes, and sums are finite */
    mst_device **devices;
    int32_t *claimed_cpus; /* pinning.c: a CPU for each device, -1: none; NULL: none claimed */
    cpu_set_t *cpu_masks;  /* for each device the CPUs of its worker; NULL: none claimed */
    int32_t claimed_count;
    mst_pool *pool;
    void (*log)(void *user, muster_log_level level, const char *line); /* log.c; the program's */
    void *log_user;
    muster_log_level log_level; /* the lowest that is logged */
    mst_runtime_spin spin;      /* settings.c */
    muster_communicator *communicator;
    mst_object *objects;                         /* newest first; guarded by mst_pool_enter */
    muster_dtype wire_dtype;                     /* MUSTER_F16, MUSTER_BF16, or MUSTER_DTYPE_NONE: sums travel as they are computed */
    int32_t logical_shards;                      /* 0: not in reproducible mode; otherwise a multiple of total */
    struct mst_description *_Atomic description; /* description.c; the newest */
    bool blas_open;
    /* Lines of the description about hardware that was passed over when the devices were chosen by
     * default; NULL: none. */
    char *unused_hardware;
    /* register.c: host memory of the program that devices copy without staging */
    struct mst_registered *registered;
    int64_t registered_count, registered_capacity;
    /* buffers.c */
    struct mst_kept_buffer *buffers;
    struct mst_orphan *_Atomic orphans;
    /* trace.c */
    bool nvtx;
    int64_t recorder_events;
    char *trace_path;                  /* NULL: no trace at close */
    int64_t clock_ahead_ns;            /* of that of process 0; compared only where a process writes a trace */
    const char *trace_source;          /* what asked for it, for messages */
    mst_names_of_objects object_names; /* object_names.c; guarded by mst_pool_enter */
    /* names.c: names of devices, under their own lock */
    pthread_mutex_t device_names_lock;
    bool device_names_open;
    struct mst_device_name *device_names;
    int32_t default_device;
    /* tensors.c: sorted by rank and address; guarded by mst_pool_enter */
    struct mst_placed *placed;
    int64_t placed_count, placed_capacity, placed_ever;
    /* `user` pointers of objects that have ended, whose destroy functions wait for the pool to be
     * left; guarded by mst_pool_enter */
    mst_owned *ended;
    muster_destroy_function log_destroy;
};

/* object.c, between mst_pool_enter and mst_pool_leave. Adds the object under a copy of the name,
 * which lives as long as the object is in the list. Refuses a name that is empty, or taken by
 * another of this kind. where: the public function, for messages. */
muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where);
/* The same, also where others of this kind have the name: it then means the newest. */
muster_status mst_runtime_add_newest(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where);
/* Adds an object without a name, which close destroys. */
void mst_runtime_add_nameless(muster_runtime *runtime, mst_object *object, const char *kind);
/* Between mst_pool_enter and mst_pool_leave. The newest object of this kind and name, or NULL. */
mst_object *mst_runtime_look(muster_runtime *runtime, const char *kind, const char *name);
/* Between mst_pool_enter and mst_pool_leave. The object of this kind and name; a name that no
 * object has is INVALID_ARGUMENT. where: the public function, for messages. */
muster_status mst_runtime_find_object(muster_runtime *runtime, const char *kind, const char *name, const char *where, mst_object **object);
/* Between mst_pool_enter and mst_pool_leave. Takes the object out of the list and takes its name
 * away; an object that is not in the list stays as it is. At close each object is removed before
 * its destroy runs, functions first, since they count the variables that they use. */
void mst_runtime_remove(mst_object *object);
/* Enters the pool, removes the object from the list, destroys it and leaves the pool. False where
 * the pool cannot be entered, as in a child after fork: then nothing has been done. where: the
 * public function, for messages. */
bool mst_runtime_end_object(mst_object *object, const char *where);
/* Ends the memory of an object that has been destroyed: `bytes` of it become zero, and its runtime
 * one that is closed. A program that still holds the handle then gets BAD_STATE (mst_retire). */
void mst_object_retire(mst_object *object, size_t bytes);
/* For every function with a runtime that does not enter the pool: BAD_STATE if the runtime has been
 * closed, or was opened before fork. */
muster_status mst_runtime_check_open(const muster_runtime *runtime, const char *where);
/* Between mst_pool_enter and mst_pool_leave: empties the list `ended` of the runtime. The caller
 * gives it to mst_owned_end after it has left the pool. */
mst_owned *mst_runtime_take_ended(muster_runtime *runtime);
/* What the runtime of a retired object is: it is closed. */
extern muster_runtime mst_runtime_closed;
/* step_names.c. Keeps `count` names of steps, which title(user, index) gives one by one.
 * Between mst_pool_enter and mst_pool_leave. *made is set also after a failure, and is given to
 * mst_step_names_free. Errors: OUT_OF_MEMORY. */
muster_status mst_step_names_make(muster_runtime *runtime, const char *where, int32_t count,
                                  const char *(*title)(const void *user, int32_t index), const void *user, mst_step_names **made);
/* Not between mst_pool_enter and mst_pool_leave; also when the runtime has been closed. Accepts
 * NULL. */
void mst_step_names_free(mst_step_names *names);

/* log.c. Reads where the log goes, and from which level on. Errors: INVALID_ARGUMENT. */
muster_status mst_runtime_log_open(muster_runtime *runtime, const muster_runtime_options *options);
/* What the modules of the runtime log with. runtime: a muster_runtime. Lines below its level are
 * dropped; the others go to the program's function, which must not close the runtime. */
void mst_runtime_log(void *runtime, muster_log_level level, const char *line);

/* runtime.c: logs the pending warnings of the code cache and of the backends. If this runtime logs
 * no warnings, they stay pending for one that does. */
void mst_runtime_log_notices(muster_runtime *runtime);

/* settings.c: refuses options that are out of range, and variables of the environment that cannot
 * be read, also where nothing would read them. */
enum { MST_LOGICAL_SHARDS_MAX = 65536 };
muster_status mst_runtime_check_settings(const muster_runtime_options *options);
/* The number of logical shards that the options, else the environment ask for; 0: none. Errors:
 * INVALID_ARGUMENT. */
muster_status mst_runtime_read_shards(const muster_runtime_options *options, int32_t *shards);
/* The wire dtype that the options, else the environment ask for; MUSTER_DTYPE_NONE: sums travel as
 * they are computed, which is what MUSTER_F32 asks for. Errors: INVALID_ARGUMENT, also where there
 * are logical shards. */
muster_status mst_runtime_read_wire(const muster_runtime_options *options, int32_t shards, muster_dtype *dtype);
/* Refuses a number of shards that the devices of all processes do not divide. */
muster_status mst_runtime_check_shards(const muster_runtime_options *options, int32_t devices, int32_t shards);
/* The deadlines that the options ask for. */
int64_t mst_runtime_warn_after(const muster_runtime_options *options);
int64_t mst_runtime_fail_after(const muster_runtime_options *options);

/* register.c: unpins all memory that is still registered. Call it before the devices close. */
void mst_runtime_unregister_all(muster_runtime *runtime);
/* The same as muster_runtime_register_memory and _unregister_memory, between mst_pool_enter and
 * mst_pool_leave. false: the address is not registered. */
muster_status mst_runtime_register(muster_runtime *runtime, void *memory, int64_t bytes, const char *where);
bool mst_runtime_unregister(muster_runtime *runtime, void *address);
/* buffers.c, at close, after mst_runtime_unregister_all. Registered buffers go on without the
 * runtime. */
void mst_runtime_release_buffers(muster_runtime *runtime);

/* processes.c. The number in this process of the device of a public rank. Refuses ranks out of
 * range, and those of other processes, naming them. where, what: the public function and its
 * argument, for messages. */
muster_status mst_runtime_local_rank(const muster_runtime *runtime, int32_t rank, const char *where, const char *what, int32_t *local);
/* UNSUPPORTED if there are several processes. what: what the library does not do for them, as in
 * "a parameter server"; NULL runtime: nothing. */
muster_status mst_runtime_refuse_nodes(const muster_runtime *runtime, const char *where, const char *what);

/* names.c. The names of devices; open comes before any name is given. */
enum { MST_DEVICE_TEXT = 200 };
muster_status mst_runtime_names_open(muster_runtime *runtime);
void mst_runtime_names_close(muster_runtime *runtime);
/* The number in this process of the device called `name`; NULL: the default device. where, what:
 * the public function and its argument, for messages. */
muster_status mst_runtime_find(muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank);
/* The same, but the public rank, and a number names a device of any process. */
muster_status mst_runtime_find_public(muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank);
/* A device as messages name it, with its public rank: "1 ('left', 'host cpu 1')". rank: its number
 * in this process. */
const char *mst_runtime_device_text(muster_runtime *runtime, int32_t rank, char text[MST_DEVICE_TEXT]);

/* tensors.c. The bytes from `address` on the device `rank` to the end of the memory of the
 * muster_runtime_tensor_create tensor that holds it; -1: no such tensor does. Call it inside a run,
 * or between mst_pool_enter and mst_pool_leave. */
int64_t mst_runtime_tensor_extent(const muster_runtime *runtime, int32_t rank, const void *address);
/* Releases the memory of all tensors that are left. Call it before the devices close. */
void mst_runtime_release_tensors(muster_runtime *runtime);
/* The most bytes that a copy packs, or passes through host memory, at once; at least 8. Tests lower
 * it. */
extern int64_t mst_tensor_copy_chunk;

/* pinning.c. Gives the CPUs back that mst_runtime_claim_cpus has claimed. */
void mst_runtime_release_cpus(muster_runtime *runtime);

/* settings.c. Reads how long waits may spin. option_ns: spin_ns of the options; where it is 0, the
 * environment variable MUSTER_SPIN_NS counts. Errors: INVALID_ARGUMENT. */
muster_status mst_runtime_spin_read(int64_t option_ns, mst_runtime_spin *spin);
/* Writes the line of the description, and returns its length. used_ns: what the pool has made of
 * it. */
size_t mst_runtime_spin_describe(const mst_runtime_spin *spin, int64_t used_ns, char *text, size_t size);

/* description.c. Makes the first description; frees all. Errors: OUT_OF_MEMORY. */
muster_status mst_runtime_describe(muster_runtime *runtime);
void mst_runtime_descriptions_free(muster_runtime *runtime);

/* trace.c. Opens the workers' recorders. Call it after the pool has been created. */
muster_status mst_runtime_trace_open(muster_runtime *runtime, const muster_runtime_options *options);
/* Frees what open allocated. Call it before the pool is destroyed. */
void mst_runtime_trace_close(muster_runtime *runtime);
/* Writes the trace that the option `trace` or MUSTER_TRACE asks for. */
void mst_runtime_trace_at_close(muster_runtime *runtime);
void mst_runtime_trace_describe(const muster_runtime *runtime, char *text, size_t size);

#endif
