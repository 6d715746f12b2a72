/* muster/runtime.h: opens the devices of the machine. */
#ifndef MUSTER_RUNTIME_H
#define MUSTER_RUNTIME_H

#include "muster/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_runtime muster_runtime;

/* An option struct: the rules are in muster/status.h. */
typedef struct muster_runtime_options {
    size_t struct_size; /* set by muster_runtime_options_init */
    /* Which devices, separated by commas. "host:4": four workers on the CPU cores; "host": one per
     * physical core that the CPU affinity and the cgroup quota allow. "cuda": all GPUs; "cuda:2":
     * the first two; "cuda@0+2": these, by ordinal, by UUID ("cuda@GPU-8f2a...", as much of it as
     * tells it from the others) or by PCI id ("cuda@0000:3b:00.0"); one that is named several times
     * ("cuda@0+0+0+0") is as many virtual devices. NULL: the environment's MUSTER_DEVICES, else
     * "cuda" where GPUs can be used, else "host": the description then says why, and so does the
     * log, once, where the machine shows signs of a GPU. Copied. */
    const char *devices;
    /* The longest spin before a wait sleeps; 0: 2 ms; negative: never spin. Waits that spin in vain
     * spin for shorter times. Ignored (no spin, some yields) with more workers than CPUs. */
    int64_t spin_ns;
    int64_t warn_after_ns; /* a wait this long prints a report; 0: 30 s; negative: never */
    /* A wait in a collective this long without progress of the late rank fails; 0: 600 s;
     * negative: never. It ends waits, not bodies: a call returns when every body has returned. */
    int64_t fail_after_ns;
    /* 1: leave OpenBLAS's process-wide thread count alone (default: set to 1 at open, restored at
     * close) */
    int32_t keep_blas_threads;
    int32_t no_pinning; /* 1: do not pin worker threads to cores */
    /* receives warnings and reports; NULL: standard error. Any thread may call it */
    void (*log)(void *user, const char *line);
    void *log_user;
    /* Reproducible mode: the number of logical shards. Every call gives, to the bit, what that many
     * devices would give, so that its collected outputs do not depend on the number of devices,
     * which must divide this one (8 is a good choice: 1, 2, 4 or 8 devices). Promised for devices
     * of one backend on machines of one type. muster/function.h says how bodies run in it. 0: the
     * environment's MUSTER_LOGICAL_SHARDS, else off; negative: off. */
    int32_t logical_shards;
    int32_t reserved;
    /* Forces one algorithm for every collective and size that it can serve: "reference" (plain,
     * slow), "inline" or "direct"; between GPUs "p2p" (they read each other's memory), "nccl" or
     * "staged" (through host memory, as the first three are there), and UNAVAILABLE where these
     * devices have no such way. NULL: the environment's MUSTER_COLLECTIVE_ALGORITHM, else the
     * fastest known for each. Which of them give the same bits is said in muster/communicator.h.
     * Copied. */
    const char *collective_algorithm;
} muster_runtime_options;

MUSTER_API void muster_runtime_options_init_sized(muster_runtime_options *options, size_t size);
static inline void muster_runtime_options_init(muster_runtime_options *options) {
    muster_runtime_options_init_sized(options, sizeof *options);
}

/* Opens the devices and starts their workers. options may be NULL. Close it from any thread when no
 * call runs; close waits for calls in progress, and destroys the functions and variables that are
 * left. Several runtimes may live in one process. After fork() the child may only close (which then
 * frees nothing of the parent's threads); everything else is BAD_STATE. So is close inside a rule of
 * a server, which it would wait for.
 * Errors: INVALID_ARGUMENT (a device text that cannot be read, logical shards that the devices do
 * not divide), UNAVAILABLE (no such device), OUT_OF_MEMORY, SYSTEM. Threads: any. */
MUSTER_API muster_status muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime);
MUSTER_API muster_status muster_runtime_close(muster_runtime *runtime);

/* Number of devices (-1 for NULL); a device's description, for example "host cpu 3"; NULL for a
 * rank out of range.
 * Threads: any. */
MUSTER_API int32_t muster_runtime_size(const muster_runtime *runtime);
MUSTER_API const char *muster_runtime_device(const muster_runtime *runtime, int32_t rank);

/* What this runtime found and decided, one "key: value" line each (devices, BLAS, topology, GPUs,
 * spin, deadlines, logical shards, trace). Owned by the runtime. */
MUSTER_API const char *muster_runtime_description(const muster_runtime *runtime);

/* Says that memory of the program will be used for many calls: devices with memory of their own
 * then copy from and to it directly (it is page-locked for them). Waits for the calls before it;
 * takes effect for those after it. On host devices it does nothing, but is checked all the same.
 * The memory must stay valid until it is unregistered, or the runtime closed. The range is refused
 * if it overlaps one that is
 * registered. unregister: by the address that was registered.
 * Errors: INVALID_ARGUMENT (NULL, no bytes, an overlap, an unknown address), OUT_OF_MEMORY, SYSTEM,
 * BAD_STATE (inside a body, after fork), and what a device says that cannot lock it; then nothing
 * is registered. Threads: any. */
MUSTER_API muster_status muster_runtime_register(muster_runtime *runtime, void *address, int64_t bytes);
MUSTER_API muster_status muster_runtime_unregister(muster_runtime *runtime, void *address);

/* Names of devices. Every device has its rank in decimal as a name ("0") and what
 * muster_runtime_device says, where no other device says the same (workers that share a core or a
 * GPU do). name: gives it another; a device may have several, and giving one again changes nothing.
 * Names live as long as the runtime.
 * default: the device of whatever is told none; rank 0 until it is set. find: the rank of a name;
 * NULL: of the default device.
 * Errors: INVALID_ARGUMENT (an empty name; for a new one: a number, a name of another device; else
 * an unknown one, with the list of those there are, or one that several devices have), OUT_OF_RANGE
 * (no such rank), OUT_OF_MEMORY, BAD_STATE (after fork). Threads: any, also inside a body. */
MUSTER_API muster_status muster_runtime_name_device(muster_runtime *runtime, const char *name, int32_t rank);
MUSTER_API muster_status muster_runtime_set_default_device(muster_runtime *runtime, const char *name);
MUSTER_API muster_status muster_runtime_find_device(muster_runtime *runtime, const char *name, int32_t *rank);
/* The one device that the tensors are on. Host tensors and "no tensor" are on none; where all are,
 * it is the default device.
 * Errors: INVALID_ARGUMENT (two devices, with the names of both; a rank that the runtime does not
 * have), BAD_STATE (after fork).
 * Threads: any, also inside a body. */
MUSTER_API muster_status muster_runtime_infer_device(muster_runtime *runtime, const muster_tensor *tensors, int32_t count, int32_t *rank);

/* Tensors in the memory of a device, from outside functions. create: contiguous, all zeros, on the
 * device of that name (NULL: the default). It lives until it is destroyed or the runtime closes.
 * tensor->device is the rank, by which kernels, copies and the operations of that worker know it;
 * tensor->data means something to that device only, except that on a device of the host backend any
 * thread may read and write there while no call uses it. Functions take host tensors as inputs: a
 * body finds a device tensor through `user`.
 * destroy: by the tensor that create gave, or a view of it that begins where it does. "No tensor"
 * is ignored.
 * copy: from host memory or a device of the runtime to host memory or a device: equal dtypes and
 * shapes; both may be strided views of what create gave; the elements of the one are those of the
 * other, or apart from them. Complete on return. What is strided on a device without host memory is
 * packed there; devices that do not reach each other's memory copy by way of host memory, a bounded
 * piece at a time. After a failure the target has undefined contents. Each waits its turn behind
 * running calls. Errors: INVALID_ARGUMENT (a tensor that is none of this runtime's, or was
 * destroyed), DTYPE_MISMATCH, SHAPE_MISMATCH, OVERFLOW, OUT_OF_MEMORY, BAD_STATE (inside a body,
 * after fork), what the device says. Threads: any. */
MUSTER_API muster_status muster_runtime_tensor_create(muster_runtime *runtime, const char *device, muster_dtype dtype, int32_t ndim,
                                                      const int64_t *shape, muster_tensor *tensor);
MUSTER_API muster_status muster_runtime_tensor_destroy(muster_runtime *runtime, muster_tensor tensor);
MUSTER_API muster_status muster_runtime_tensor_copy(muster_runtime *runtime, muster_tensor from, muster_tensor to);

/* Writes what each worker did last (newest last), as text, to the log of the runtime; at most
 * `events` per worker. Threads: any. */
MUSTER_API muster_status muster_runtime_dump(muster_runtime *runtime, int32_t events);

/* Writes what each worker did last to the file `path`, in Chrome's trace format (JSON), which
 * https://ui.perfetto.dev opens: a track for each worker, times in microseconds of CLOCK_MONOTONIC.
 * May be called while calls run, also from inside a body; events that are being overwritten at that
 * moment are left out. The file appears whole or not at all; one that is there is replaced. The
 * environment can ask for it, read at open: MUSTER_TRACE=FILE writes one at close (every %p in FILE
 * becomes the id of the process; the second runtime of the process that is opened so writes FILE.1,
 * the next FILE.2); if that fails, close says so in the log and succeeds. MUSTER_RECORDER_EVENTS, a
 * power of two from 16 to 16777216, is the number of events kept of each worker, 40 bytes each; the
 * newest is being written, so that a trace shows one less. Default: 256, with MUSTER_TRACE 65536.
 * 0: none, so that traces are empty and the report of a late worker cannot say what it did last.
 * Errors: INVALID_ARGUMENT (no path, or a folder or device), SYSTEM (the file cannot be written),
 * BAD_STATE (after fork), OUT_OF_MEMORY.
 * Threads: any. */
MUSTER_API muster_status muster_runtime_trace(muster_runtime *runtime, const char *path);

#ifdef __cplusplus
}
#endif
#endif
