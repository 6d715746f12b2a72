/* What the files of libmuster-sim.so and of the simulated driver share. */
#ifndef MUSTER_SIM_STATE_IMPL_H
#define MUSTER_SIM_STATE_IMPL_H

#include "sim_impl.h"

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum {
    SIM_DEVICES = MUSTER_SIM_DEVICES_MAX,
    SIM_STREAMS = 4096,
    SIM_EVENTS = 32768,
    SIM_MODULES = 8192, /* 44 programs on each device of many open runtimes, where all come from the cache */
    SIM_FUNCTIONS = 65536,
    SIM_TEXTS = 256,
    SIM_MARKS = 8,
    SIM_CONNECTIONS_MAX = 32,
    SIM_SHARED_BYTES = 49152,         /* of shared memory that a block has */
    SIM_SHARED_OPT_IN_BYTES = 232448, /* that it has where the function asks for it */
    SIM_LOCAL_BYTES = 1024            /* of local memory that each thread has from the start (CU_LIMIT_STACK_SIZE) */
};

/* A handle's life. Its place is taken again only when all others were, so that the use of a
 * destroyed one is seen. */
typedef enum { SIM_NEVER, SIM_ALIVE, SIM_DESTROYED, SIM_RESET } sim_life; /* RESET: a context, until it is made anew */

struct CUctx_st { /* the primary context of a device; there are no others */
    int device;
    int references; /* under sim_state_lock, as is what makes and destroys it */
    atomic_int life;
    atomic_uint error;   /* what every call on it returns */
    atomic_uint reaches; /* bit i: device i's memory */
    sim_stream *_Atomic default_stream;
    atomic_uint births;      /* how often it was made: what was loaded into an earlier one is gone */
    atomic_uint local_bytes; /* of local memory that each thread has: kernels that need more wait for it */
};

typedef struct sim_device {
    struct CUctx_st context;
    atomic_bool lost;
    atomic_int running;       /* entries of its streams that are not waits */
    atomic_ulong nccl_issuer; /* the thread in an NCCL call of the device */
    atomic_int nccl_depth;
    atomic_llong collectives; /* in flight */
    char name[64], pci[20];
    uint8_t uuid[16];
} sim_device;

typedef struct sim_machine {
    muster_sim_options options;
    atomic_bool initialized; /* cuInit */
    atomic_bool ending;
    atomic_uint generation; /* of the machine: contexts that a thread has pushed belong to one */
    sim_device devices[SIM_DEVICES];
} sim_machine;

extern SIM_EXPORT sim_machine sim_state;
extern SIM_EXPORT pthread_mutex_t sim_state_lock; /* what is made and destroyed; never taken by a stream's thread */
SIM_EXPORT bool sim_peer_possible(int device, int peer);
SIM_EXPORT int sim_device_bus(int device); /* of its PCI id */
SIM_EXPORT bool sim_kernels_lie(int device, int peer);
SIM_EXPORT bool sim_copies_lie(int device, int peer);
/* Stands still as long as the stream lives, where an access of its device to the peer's memory
 * never ends. */
SIM_EXPORT void sim_peer_access(const sim_stream *stream, int peer);
void sim_machine_prepare(void);             /* the first machine of the process, if there is none yet */
SIM_EXPORT sim_result sim_initialize(void); /* cuInit */
void sim_memory_end(void);                  /* parts of muster_sim_reset */
void sim_streams_end(void);
void sim_events_end(void);
void sim_modules_end(void);
void sim_launches_end(void);
void sim_inject_end(void);
void sim_hazards_end(void);
void sim_rules_end(void);
void sim_handles_end(void);

/* ---- contexts (context.c) ---- */
/* The current context where a call may go on; else the result of the call. */
SIM_EXPORT sim_result sim_require(sim_context **context);
SIM_EXPORT sim_result sim_context_error(const sim_context *context);
SIM_EXPORT sim_context *sim_context_of(void *handle); /* NULL: not alive */
SIM_EXPORT sim_result sim_context_retain(int device, sim_context **context);
SIM_EXPORT sim_result sim_context_release(int device);
SIM_EXPORT sim_result sim_context_reset(int device);
SIM_EXPORT void sim_context_push(sim_context *context);
SIM_EXPORT sim_context *sim_context_pop(void);
SIM_EXPORT void sim_context_set(sim_context *context);

/* ---- memory (memory.c, locked.c) ---- */
typedef struct sim_block {
    uint64_t address, id; /* id: of no allocation before or after it */
    size_t bytes, span;   /* span: with the fence, a multiple of 256 */
    atomic_int users;     /* entries of streams that are not done */
} sim_block;
SIM_EXPORT sim_result sim_memory_allocate(int device, size_t bytes, uint64_t *address);
SIM_EXPORT sim_result sim_memory_release(uint64_t address);
SIM_EXPORT int sim_memory_release_all(int device); /* how many there were */
SIM_EXPORT uint64_t sim_memory_used(int device);
/* The allocation that holds [address, address + bytes); device -1: any. */
SIM_EXPORT sim_block *sim_memory_find(int device, uint64_t address, size_t bytes);
bool sim_memory_is_device_range(uint64_t address);
/* What a device sees instead of another's memory where the access between them is broken: garbage,
 * which it may write. */
SIM_EXPORT void *sim_memory_mirage(const void *address);
void *sim_memory_anywhere(uint64_t address);    /* the alias of an address of the range, allocated or not */
uint64_t sim_memory_unalias(const void *alias); /* 0: it is none */
int sim_memory_count(int device);

typedef struct sim_locked {
    char *start;
    size_t bytes;
    char *low, *high; /* its pages */
    int device;       /* whose context made it */
    bool portable, allocated, read_only;
    atomic_int users;
} sim_locked;
enum { SIM_LOCKED_PORTABLE = 1, SIM_LOCKED_ALLOCATED = 2, SIM_LOCKED_READ_ONLY = 4 };
SIM_EXPORT sim_result sim_locked_add(int device, void *start, size_t bytes, unsigned flags);
SIM_EXPORT sim_result sim_locked_remove(void *start, bool allocated, const char *symbol);
/* The one range whose pages hold all of it. device -1: of any. */
SIM_EXPORT sim_locked *sim_locked_find(int device, const void *host, size_t bytes);
/* Some page is locked, but no range's pages hold all of it. */
SIM_EXPORT bool sim_locked_in_part(const void *host, size_t bytes);
typedef enum { SIM_UNMAPPED, SIM_READ_ONLY, SIM_WRITABLE } sim_mapping;
SIM_EXPORT sim_mapping sim_mapping_of(const void *start, size_t bytes); /* of host memory of the process */
int sim_locked_count(int device, bool allocated);
int sim_locked_release_all(int device); /* of a context that is destroyed */

/* ---- stream capture (capture.c); the numbers of CUstreamCaptureMode and CUstreamCaptureStatus
 * ---- */
enum { SIM_CAPTURE_GLOBAL, SIM_CAPTURE_THREAD_LOCAL, SIM_CAPTURE_RELAXED };
enum { SIM_CAPTURE_NONE, SIM_CAPTURE_ACTIVE, SIM_CAPTURE_INVALIDATED };
typedef struct sim_capture sim_capture;
SIM_EXPORT unsigned sim_capture_exchange_mode(unsigned mode);
SIM_EXPORT sim_result sim_capture_begin(sim_stream *stream, unsigned mode);
SIM_EXPORT sim_result sim_capture_end(sim_stream *stream, void **graph);
SIM_EXPORT sim_result sim_capture_status(const sim_stream *stream, unsigned *status);
/* What the calling thread may not call at all, or not for a stream or an event: the result of the
 * call, which spoils the captures concerned. */
SIM_EXPORT sim_result sim_capture_refuse_unsafe(void);
SIM_EXPORT sim_result sim_capture_refuse_wait(sim_stream *stream);
SIM_EXPORT sim_result sim_capture_refuse_event_wait(sim_event *event);
/* captured: the call succeeds, and nothing is queued. */
sim_result sim_capture_issue(sim_stream *stream, bool *captured);
void sim_capture_record(sim_event *event, const sim_stream *stream);
sim_result sim_capture_wait(const sim_event *event, sim_stream *stream, bool *captured);
void sim_events_end_capture(const sim_capture *capture);
void sim_captures_end(void);
SIM_EXPORT unsigned long sim_thread_id(void);
/* ---- managed memory (managed.c) ---- */
typedef struct sim_managed {
    char *start;
    size_t bytes;
    int device; /* whose context allocated it */
} sim_managed;
SIM_EXPORT void *sim_managed_allocate(int device, size_t bytes); /* NULL: there is no memory */
SIM_EXPORT bool sim_managed_release(void *start);                /* false: it is no managed memory */
SIM_EXPORT bool sim_managed_find(const void *address, size_t bytes, sim_managed *found);
SIM_EXPORT bool sim_managed_touches(const void *address, size_t bytes);
int sim_managed_count(int device);
int sim_managed_release_all(int device);

/* ---- streams (stream.c) ---- */
typedef struct sim_node sim_node;
struct CUstream_st {
    atomic_int life;
    atomic_bool used;             /* its thread has not ended yet */
    sim_context *_Atomic context; /* atomic, as the two below: read by threads that look through all streams */
    atomic_int device;
    atomic_bool blocking;
    atomic_ulong owner; /* of a per-thread default stream: its thread; else 0 */
    sim_capture *_Atomic capture;
    pthread_mutex_t issue;             /* among issuing threads */
    atomic_ulong issuer;               /* the thread in a call that issues here */
    struct sim_connection *connection; /* its hardware queue */
    sim_node *tail, *head;             /* of the issuers, and of the stream's thread */
    atomic_ullong issued, done;
    /* entries whose work is done: what they tell others may be seen a moment before `done` is */
    atomic_ullong ending;
    atomic_bool closing; /* ends when it is empty */
    atomic_bool held;    /* a test has made it stand still */
    sim_gate inbox, progress;
    uint64_t chance;
};
/* stream_queue.c. open: the empty queue, and the thread that serves it. reset: between machines. */
sim_result sim_stream_open_queue(sim_stream *stream);
void sim_connections_reset(void);
SIM_EXPORT sim_result sim_stream_create(sim_context *context, bool blocking, sim_stream **stream);
SIM_EXPORT void sim_stream_destroy(sim_stream *stream);
sim_stream *sim_streams_next(const sim_stream *stream); /* that is alive; NULL: the first, and behind the last */
SIM_EXPORT bool sim_stream_idle(const sim_stream *stream);
SIM_EXPORT void sim_stream_wait(sim_stream *stream);
SIM_EXPORT sim_result sim_stream_stall(sim_stream *stream, uint32_t milliseconds);
void sim_device_stall(int device, uint32_t milliseconds);
void sim_device_wait(int device); /* until all its streams are idle */
/* The same, but what the streams have done is not ordered before what follows, since the driver
 * promises no such wait; and not for a stream that a test holds, since nobody could end the
 * wait. */
void sim_device_drain(int device);
int sim_streams_of(int device); /* alive, but for default streams */
int sim_streams_destroy_all(int device);
/* As sim_stream_push, with counts of users (already raised) to be lowered when it is done. */
sim_result sim_stream_push_users(sim_stream *stream, const sim_entry *entry, atomic_int *const *users, int count);
SIM_EXPORT void sim_wake_all(void); /* every thread that waits checks again */
/* inject.c: stands still until so much time has passed (0: no end), until a release after the one
 * that `since` counts, or until the stream's end. */
void sim_stall(uint32_t milliseconds, unsigned since, const sim_stream *stream);
unsigned sim_releases(void);

/* ---- events (event.c) ---- */
struct CUevent_st {
    atomic_int life;
    atomic_int users;  /* records and waits that may still touch it */
    atomic_int queued; /* of them those that are not done: lowered before anybody can see that they are */
    sim_context *_Atomic context;
    sim_capture *_Atomic capture; /* of the last record; NULL: a record that is done */
    atomic_ullong recorded;       /* the number of the last record; 0: none */
    int touched;                  /* plain: a race of a record with another call on the event is one for ThreadSanitizer */
    struct {
        atomic_ullong done; /* the number of the record that has happened */
        sim_stream *_Atomic stream;
    } marks[SIM_MARKS]; /* of the record number i: i % SIM_MARKS */
};
SIM_EXPORT sim_result sim_event_create(sim_context *context, sim_event **event);
SIM_EXPORT void sim_event_destroy(sim_event *event);
SIM_EXPORT sim_event *sim_event_of(void *handle);
SIM_EXPORT sim_result sim_event_record(sim_event *event, sim_stream *stream);
SIM_EXPORT sim_result sim_event_wait(sim_event *event, sim_stream *stream);
SIM_EXPORT bool sim_event_done(sim_event *event);
int sim_events_of(int device);
int sim_events_destroy_all(int device);

/* ---- modules (module.c) ---- */
struct mst_shim_entry;
struct mst_program_kernel;
typedef struct sim_program sim_program;
struct CUmod_st {
    atomic_int life;
    atomic_int users; /* launches that have not run */
    sim_context *_Atomic context;
    char *image;
    sim_program *program;                /* of the user's; NULL: built-in kernels */
    struct CUfunc_st *_Atomic functions; /* a list of all of them */
};
struct CUfunc_st {
    atomic_int life;
    /* atomic, as the contexts of events and modules: read by threads that look through all */
    sim_module *_Atomic module;
    const char *name;
    const struct mst_shim_entry *kernel; /* one of the two */
    const struct mst_program_kernel *user;
    atomic_bool loaded, launched; /* both happen at the first use: loading is lazy */
    atomic_int dynamic_shared;    /* the most bytes of a launch; -1: the default */
    struct CUfunc_st *next;       /* of the module */
};
SIM_EXPORT sim_result sim_module_load(sim_context *context, const char *image, sim_module **module);
SIM_EXPORT void sim_module_unload(sim_module *module);
SIM_EXPORT sim_module *sim_module_of(void *handle);
SIM_EXPORT sim_result sim_module_function(sim_module *module, const char *name, sim_function **function);
SIM_EXPORT sim_function *sim_function_of(void *handle);
/* Before its first use the driver loads it. symbol: the call that uses it. */
SIM_EXPORT void sim_function_load(sim_function *function, const char *symbol);
/* Before a launch: the first one of a kernel of the user's, and one that needs more local memory
 * than any before it, make the driver wait for the device. */
SIM_EXPORT void sim_function_prepare(sim_function *function);
SIM_EXPORT int sim_function_local_bytes(const sim_function *function);  /* that each of its threads needs */
SIM_EXPORT int sim_function_shared_limit(const sim_function *function); /* the most dynamic shared memory of a launch */
/* A kernel of the user's, with its parameters as cuLaunchKernel has them (user.c, user_launch.c,
 * user_block.c). */
SIM_EXPORT sim_result sim_program_launch(sim_function *function, sim_stream *stream, const unsigned grid[3], const unsigned block[3],
                                         unsigned shared, void **parameters, void **extra);
sim_result sim_program_open(const char *line, sim_program **program); /* line: of an image, "object ..." */
void sim_program_release(sim_program *program);
void sim_program_attach(sim_program *program, bool checked); /* checked: for races */
const struct mst_program_kernel *sim_program_find(const sim_program *program, const char *name);
const char *sim_program_name(const char *name);
SIM_EXPORT int sim_program_static_shared(const sim_program *program);
SIM_EXPORT sim_result sim_launch(sim_function *function, sim_stream *stream, uint64_t blocks, uint32_t threads, const void *parameters);
SIM_EXPORT void sim_compile(const char *kernel); /* takes the time that NVRTC takes for a built-in kernel, and counts it */
int sim_modules_of(int device);
int sim_modules_destroy_all(int device);
/* The texts that the machine's kernels were made of, by number; NULL behind the last. (texts.c) */
typedef struct sim_text {
    const char *name, *text;
    uint64_t hash; /* of the text */
} sim_text;
SIM_EXPORT const sim_text *sim_text_at(int number);
SIM_EXPORT uint64_t sim_text_hash(const char *text);
SIM_EXPORT uint64_t sim_bytes_hash(const void *data, size_t bytes);
#define SIM_IMAGE_HEAD "MUSTER SIMULATED CUBIN 1\n"

/* ---- the trace (trace.c) ---- */
SIM_EXPORT bool sim_tracing(void);
SIM_EXPORT void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
SIM_EXPORT uint64_t sim_trace_copy(void); /* a number for a copy between host and device; 0: nothing is traced */
SIM_EXPORT void sim_trace_contents(uint64_t copy, const void *data, size_t bytes);
void sim_trace_bytes(const void *data, size_t bytes, char *text); /* text: 2 * bytes + 1 */

SIM_EXPORT void sim_count_wait(const char *symbol); /* the call waits in the host */
SIM_EXPORT void sim_count_to_host(uint64_t bytes);  /* the call copies so much from a device to host memory */

#endif
