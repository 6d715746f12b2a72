/* The inside of the simulated machine (libmuster-sim.so), for the libraries that stand on it: the
 * driver's, cuBLAS's, cuDNN's, NVRTC's and NCCL's.
 *
 * ThreadSanitizer must see the order that a real machine gives, and no more of it: a program that
 * forgets to wait for a copy has a data race here. So what the issuing thread and a stream's thread
 * share is ordered one way only (release by the one who issues, acquire by the stream; the other
 * way only through an event or a query that said "done"), all counts are relaxed, threads sleep on
 * futexes (which order nothing), and no lock is taken by an issuing thread that a stream's thread
 * takes, but for the read side of a lock that only allocation writes. */
#ifndef MUSTER_SIM_IMPL_H
#define MUSTER_SIM_IMPL_H

#include "sim.h"

#include <stdatomic.h>

/* ---- names of results, the driver's numbers ---- */
typedef unsigned int sim_result;
enum {
    SIM_OK = 0,
    SIM_INVALID_VALUE = 1,
    SIM_OUT_OF_MEMORY = 2,
    SIM_NOT_INITIALIZED = 3,
    SIM_NO_DEVICE = 100,
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_IMAGE = 200,
    SIM_INVALID_CONTEXT = 201,
    SIM_NO_BINARY_FOR_GPU = 209,
    SIM_PEER_ACCESS_UNSUPPORTED = 217,
    SIM_OPERATING_SYSTEM = 304,
    SIM_INVALID_HANDLE = 400,
    SIM_ILLEGAL_STATE = 401,
    SIM_NOT_FOUND = 500,
    SIM_NOT_READY = 600,
    SIM_ILLEGAL_ADDRESS = 700,
    SIM_PEER_ACCESS_ALREADY_ENABLED = 704,
    SIM_CONTEXT_IS_DESTROYED = 709,
    SIM_HOST_MEMORY_ALREADY_REGISTERED = 712,
    SIM_HOST_MEMORY_NOT_REGISTERED = 713,
    SIM_MISALIGNED_ADDRESS = 716,
    SIM_LAUNCH_FAILED = 719, /* also what a lost device answers */
    SIM_STREAM_CAPTURE_UNSUPPORTED = 900,
    SIM_STREAM_CAPTURE_INVALIDATED = 901,
    SIM_STREAM_CAPTURE_MERGE = 902,
    SIM_STREAM_CAPTURE_UNMATCHED = 903,
    SIM_STREAM_CAPTURE_UNJOINED = 904,
    SIM_STREAM_CAPTURE_ISOLATION = 905,
    SIM_STREAM_CAPTURE_IMPLICIT = 906,
    SIM_CAPTURED_EVENT = 907,
    SIM_STREAM_CAPTURE_WRONG_THREAD = 908,
    SIM_UNKNOWN = 999,
};

typedef struct CUctx_st sim_context;
typedef struct CUstream_st sim_stream;
typedef struct CUevent_st sim_event;
typedef struct CUmod_st sim_module;
typedef struct CUfunc_st sim_function;

#define SIM_EXPORT MUSTER_SIM_API

/* ---- injection and counts: every exported function of every library begins with sim_enter ---- */
typedef struct sim_symbol {
    const char *name;
    const char *library; /* "cuda", ... : set by sim_symbols_add, as is the rest */
    const int *codes;
    int code_count;
    atomic_ullong calls;
} sim_symbol;

/* From a constructor of the library: its symbols (static, only their names set) and the codes that
 * a random failure is chosen from. */
SIM_EXPORT void sim_symbols_add(const char *library, sim_symbol *symbols, int count, const int *codes, int code_count);

/* Counts the call, stands still where a stall is due, and returns the code that it shall fail with,
 * 0: none. device: where the call goes, for what is injected into a device; -1: that of the current
 * context. A lost device is not reported here: the call finds it by sim_device_error. */
SIM_EXPORT unsigned sim_enter(sim_symbol *symbol, int device);
/* Only counts: for functions that cannot fail. */
static inline void sim_count(sim_symbol *symbol) { atomic_fetch_add_explicit(&symbol->calls, 1, memory_order_relaxed); }

/* ---- what a thread waits on: bumped whenever something that someone may wait for has happened;
 * orders nothing ---- */
typedef struct sim_gate {
    _Atomic uint32_t word;
} sim_gate;
static inline uint32_t sim_gate_look(sim_gate *gate) { return atomic_load_explicit(&gate->word, memory_order_relaxed); }
SIM_EXPORT void sim_gate_bump(sim_gate *gate);
/* Returns once the gate was bumped after the look that gave `seen`, or after 20 ms: the caller
 * looks again at what it waits for (for a stream, sim_stream_ended too). */
SIM_EXPORT void sim_gate_wait(sim_gate *gate, uint32_t seen);

/* ---- contexts and devices ---- */
SIM_EXPORT int sim_device_count(void);     /* 0 before cuInit */
SIM_EXPORT int sim_current_device(void);   /* of the thread's current context, -1: none */
SIM_EXPORT sim_context *sim_current(void); /* NULL: none */
SIM_EXPORT int sim_context_device(const sim_context *context);
/* what every call on it returns from now on, 0: it is well */
SIM_EXPORT sim_result sim_device_error(int device);
SIM_EXPORT void sim_device_fail(int device, sim_result code); /* keeps the first */
/* may kernels of the one use memory of the other: the same, or enabled */
SIM_EXPORT bool sim_reaches(int device, int peer);
SIM_EXPORT const char *sim_device_pci(int device); /* "00000000:01:00.0" */

/* ---- memory ---- */
/* Where an entry of a stream finds device memory: the alias of [address, address + bytes), which
 * must lie in one allocation of `device`, -1: of any. NULL: it does not. Only threads of streams
 * use what it returns. */
SIM_EXPORT void *sim_memory_alias(int device, const void *address, size_t bytes);
/* the device whose allocation holds the address, -1: no device memory */
SIM_EXPORT int sim_memory_device(const void *address);
/* Device memory that a library takes for itself: it counts, and has no address. take: false where
 * there is no room. A context that is destroyed gives back all that was taken in it. */
SIM_EXPORT bool sim_memory_take(int device, uint64_t bytes);
SIM_EXPORT void sim_memory_give(int device, uint64_t bytes);
/* all of it page-locked for this device */
SIM_EXPORT bool sim_memory_locked(int device, const void *host, size_t bytes);

/* ---- streams ---- */
typedef struct sim_use {
    const void *address; /* of device memory, or page-locked host memory; others are ignored */
    size_t bytes;
} sim_use;

enum { SIM_USES_MAX = 16 };

/* What a stream does. run: on the stream's thread, in order; returns 0 or the code that its context
 * has from now on. It may block, through a gate, as long as sim_stream_ended says false. drop:
 * after run, or instead of it where the device is lost or the machine ended; exactly once; frees
 * data. Both may be NULL. uses: memory that must not be freed before the entry is done. */
typedef struct sim_entry {
    const char *what; /* for reports, static: "ncclAllReduce" */
    sim_result (*run)(void *data, sim_stream *stream);
    void (*drop)(void *data);
    void *data;
    bool waits; /* for other streams: what is behind it in its hardware queue begins only when it is done */
    int use_count;
    sim_use uses[SIM_USES_MAX];
} sim_entry;

/* The stream of a handle, NULL the current context's default stream. NULL: no such stream (a
 * destroyed one is reported). */
SIM_EXPORT sim_stream *sim_stream_of(void *handle);
SIM_EXPORT int sim_stream_device(const sim_stream *stream);
SIM_EXPORT sim_context *sim_stream_context(const sim_stream *stream);
/* On failure (the device's error, out of memory) nothing is queued, and drop is not called. */
SIM_EXPORT sim_result sim_stream_push(sim_stream *stream, const sim_entry *entry);
/* Shall an entry that waits give up: its device is lost or the machine is ending. */
SIM_EXPORT bool sim_stream_ended(const sim_stream *stream);

/* ---- the checker ---- */
SIM_EXPORT void sim_hazard(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A collective is in flight from its issue until the rank's entry has run or was dropped. While one
 * is, sim_hazard_creation reports. */
SIM_EXPORT void sim_collective_begin(int device, const char *what);
SIM_EXPORT void sim_collective_end(int device);
SIM_EXPORT bool sim_collective_flies(void);
SIM_EXPORT bool sim_collective_flies_on(int device); /* a lost device has none */
/* Called by whatever allocates, frees, page-locks or makes a context, stream, event, module or
 * communicator. */
SIM_EXPORT void sim_hazard_creation(const char *symbol);
SIM_EXPORT void sim_hazard_loading(const char *symbol, int device); /* of code: the same for collectives on this device */
SIM_EXPORT void sim_hazard_waits(const char *symbol);               /* called by whatever waits in the host for queued work */
/* Called by whatever makes the driver load code: waits for all queues of the device, while calls of
 * other threads that need its context stand still, and reports a collective that is in flight
 * there. symbol: the call. what: for the report, "the kernel of a new product". */
SIM_EXPORT void sim_code_load(int device, const char *symbol, const char *what);
/* Code that a library loads at its first use has a number, which it makes of what decides that (of
 * the context, too): true the first time. Where there is no room nothing is new any more. */
SIM_EXPORT bool sim_code_is_new(uint64_t number);
SIM_EXPORT uint64_t sim_context_number(const sim_context *context); /* another one after a reset of the context */
SIM_EXPORT void sim_context_load(int device);                       /* the same without the report */
SIM_EXPORT bool sim_context_loads(int device);                      /* a thread loads code, and holds the context */
/* Called by whatever needs the context of the device: stands still while another thread loads
 * there. What pushes into a stream has called it. */
SIM_EXPORT void sim_context_enter(int device);
/* Around a call that issues in a stream; reports when another thread is in one of that stream.
 * Virtual devices of one GPU have a thread each, and a stream each. */
SIM_EXPORT void sim_issue_begin(sim_stream *stream, const char *symbol);
SIM_EXPORT void sim_issue_end(sim_stream *stream);
/* Around an NCCL group, or a call outside of one, of a communicator of the device: another thread
 * that is between the two is reported. */
SIM_EXPORT void sim_nccl_begin(int device, const char *symbol);
SIM_EXPORT void sim_nccl_end(int device);
/* An operation of `communicator` (its number, the same for all its ranks) was issued on `device`;
 * bit i of `devices`: it has a rank on device i. Reports when two devices saw the communicators
 * that both are in in different orders. */
SIM_EXPORT void sim_communicator_used(uint64_t communicator, int device, uint32_t devices);
/* some rank has: what others have issued on it alone is no order any more */
SIM_EXPORT void sim_communicator_aborted(uint64_t communicator);

/* Handles of the libraries above ("NCCL communicator", "cuBLAS handle"): what is not gone at
 * muster_sim_check_leaks is reported. kind: static. */
SIM_EXPORT void sim_handle_made(const char *kind, int device);
SIM_EXPORT void sim_handle_gone(const char *kind, int device);

/* Called by muster_sim_reset after all streams have stopped; a library forgets its own. From a
 * constructor. */
SIM_EXPORT void sim_on_reset(void (*forget)(void));

/* ---- chance: from the machine's seed ---- */
SIM_EXPORT uint64_t sim_seed(void);
static inline uint64_t sim_random(uint64_t *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#endif
