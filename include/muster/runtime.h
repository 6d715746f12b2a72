/* muster/runtime.h: opens the devices of the machine, names them, and keeps tensors on them.
 * The runtime owns its devices, workers and names, and every function, variable, kernel, operator,
 * server and device tensor that is left when it closes. */
#ifndef MUSTER_RUNTIME_H
#define MUSTER_RUNTIME_H

#include "muster/buffer.h"
#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_runtime muster_runtime;

/* Called once when an asynchronous call or a request of a client has ended, whatever its outcome
 * (muster_pending_notify, muster_request_notify). It runs in a thread of the library, or of the
 * program inside a call of the library, and should only pass the news on, to the event loop of the
 * program for example. It must not wait, must not call a server, and must not close the runtime
 * (BAD_STATE). */
typedef void (*muster_completion_function)(void *user);

/* What a runtime does when another process of the launch is lost. */
enum muster_on_lost_value {
    /* It says so in the log, waits (abort_after_ns of the options) for what the other processes
     * have to say, and ends all processes of the launch. */
    MUSTER_LOST_ABORT = 0,
    /* Calls return NODE_LOST, and the runtime can only be closed. */
    MUSTER_LOST_ERROR = 1,
};

/* An option struct: the rules are in muster/status.h. It and its strings are borrowed for
 * muster_runtime_open. */
typedef struct muster_runtime_options {
    size_t struct_size; /* set by muster_runtime_options_init */
    /* The devices, separated by commas. NULL: the environment variable MUSTER_DEVICES, else "cuda"
     * where GPUs can be used, else "host". In the last case the description says why; where the
     * machine shows signs of a GPU, the log says so once. Copied.
     *   "host:4": four workers on the CPU cores.
     *   "host": one worker per physical core that the CPU affinity and the cgroup quota allow.
     *   "cuda": all GPUs.
     *   "cuda:2": the first two GPUs.
     *   "cuda@0+2": the GPUs with these ordinals, UUIDs ("cuda@GPU-8f2a...", or an unambiguous
     *     beginning of it) or PCI ids ("cuda@0000:3b:00.0"). A GPU that is listed several times
     *     ("cuda@0+0+0+0") becomes that many virtual devices. */
    const char *devices;
    /* The longest time that a wait spins before it sleeps, in nanoseconds. Negative: never spin.
     * 0: the environment variable MUSTER_SPIN_NS (nanoseconds, of which 0 means never), else 2 ms.
     * Waits that spun in vain shorten the spins of later waits, down to a 1024th, and so does
     * another thread that takes the CPU from one that spins: on a machine that other programs keep
     * busy, waits soon sleep. Waits that end within the spin lengthen them again. Each worker
     * learns this by itself, for each kind of wait. Ignored if there are more workers than CPUs:
     * waits then do not spin, but yield a few times. */
    int64_t spin_ns;
    int64_t warn_after_ns; /* a wait of this length prints a report; 0: 30 s; negative: never */
    /* A wait in a collective fails when the late rank has made no progress for this long. 0: 600 s;
     * negative: never. The deadline ends waits, not bodies: a call returns when every body has
     * returned. */
    int64_t fail_after_ns;
    /* 1: leave OpenBLAS's process-wide thread count alone. By default it is set to 1 at open, and
     * restored by the last close, if it is still 1. */
    int32_t keep_blas_threads;
    /* 1: do not pin worker threads to CPUs. By default the worker of rank 1 and up on a CPU device
     * is pinned to a CPU, on a core of its own while there are enough; the caller's thread, which
     * is rank 0, is never pinned. The CPUs of the runtimes that are open in the process are taken
     * last, and closing gives them back. (Runtimes of other processes are not known here.)
     * A thread that a body starts inherits the CPUs of its worker, and so do the threads of an
     * OpenMP team. Therefore a worker may also use its share of the spare CPUs: those that the
     * thread which opens the runtime may use, and that are no worker's. Each rank, rank 0 as well,
     * has equally many; a quota of the control group limits them. With one core for each rank and
     * one CPU on each core there are none: the team then has one CPU, unless this field is 1.
     * Runtimes that are open at once may have the same spare CPUs. */
    int32_t no_pinning;
    /* Receives warnings and reports, a line and its level (MUSTER_LOG_WARNING and so on) at a time,
     * until the runtime has closed; NULL: they go to standard error. Any thread may call it. It
     * must not close the runtime (BAD_STATE). */
    void (*log)(void *user, muster_log_level level, const char *line);
    void *log_user;
    /* Reproducible mode: the number of logical shards. A call gives bit for bit the results of that
     * many devices whose values the host combines, so that its collected outputs do not depend on
     * the number of devices, nor on what GPUs would reduce between themselves without it. The
     * number of devices must divide the number of shards (8 is a good choice: 1, 2, 4 or 8
     * devices). This is guaranteed for devices of one backend on machines of one type.
     * muster/function.h says how bodies run in this mode. 0: the environment variable
     * MUSTER_LOGICAL_SHARDS, else off; negative: off. */
    int32_t logical_shards;
    /* 1: products of f32 matrices may use TF32 on GPUs. Negative: they may not. 0: the environment
     * variable MUSTER_TF32, else they may not. */
    int32_t tf32;
    /* Forces one algorithm for every collective and size that it supports. On any devices:
     * "reference" (simple and slow), "inline" or "direct"; GPUs run these three through host
     * memory. Between GPUs: "p2p" (they read each other's memory), "nccl" or "staged" (through host
     * memory). UNAVAILABLE if these devices have no such path.
     * Between processes ChainerMN's names say how reductions go: "naive" (the values of every rank
     * go to process 0, which combines them in rank order), "flat" (all ranks exchange slices with
     * each other; also in rank order), "hierarchical" (each process combines the values of its
     * ranks, then the processes exchange slices), "two_dimensional" (the same in as many exchanges
     * at once as a process has ranks, 8 at most), "non_cuda_aware" (the same, the values of GPUs
     * through host memory), "single_node" (the library's choice; UNSUPPORTED on several hosts) and
     * "pure_nccl" (UNSUPPORTED with several processes so far). In one process "naive" is
     * "reference", "flat" is "direct", "pure_nccl" is "nccl", and the others are the library's
     * choice. NULL: the environment variable MUSTER_COLLECTIVE_ALGORITHM, else the fastest known
     * algorithm for each collective. muster/communicator.h says which algorithms give the same
     * bits. Copied. */
    const char *collective_algorithm;
    /* Collectives through host memory that touch at least this many bytes, inputs and outputs of
     * all ranks together, write by stores that bypass the cache. Whether that is faster depends on
     * the machine, and the bits are the same. 0: the environment variable MUSTER_STREAM_BYTES; if
     * it is not set or 0, from 24 MiB on both kinds of stores are tried, seven times each for each
     * kind of collective and each doubling of that size, and the bypassing ones stay where they
     * were at least 10 % faster; the description says so. 1: always; negative: never. */
    int64_t stream_bytes;
    /* Ends log_user when the runtime has closed, or when opening has failed (muster/status.h). */
    muster_destroy_function log_destroy;
    /* The file to which close writes a trace, as muster_runtime_trace says. "": none, whatever the
     * environment says. NULL: the environment variable MUSTER_TRACE, else none. Copied. */
    const char *trace;
    /* The number of events kept for each worker, a power of two from 16 to 16777216. Negative:
     * none. 0: the environment variable MUSTER_RECORDER_EVENTS, else 256, or 65536 with a trace. */
    int64_t recorder_events;
    /* The bytes of memory that each GPU takes at open; more is taken when it is needed. Negative:
     * none. 0: the environment variable MUSTER_DEVICE_MEMORY, else 64 MiB, or an eighth of what is
     * free where that is less. */
    int64_t device_memory;
    /* The lowest level that is logged: lines below it are dropped. 0: the environment variable
     * MUSTER_LOG_LEVEL (debug, info, warning or error), else MUSTER_LOG_INFO. */
    muster_log_level log_level;
    /* Negative: GPUs do not access each other's memory directly, as they do by default where the
     * driver allows it and where trying it when the runtime opens shows that it works (the log says
     * where it does not). Collectives then go by NCCL or through host memory, copies between GPUs
     * through host memory. Virtual devices of one GPU always share its memory. 0: the environment
     * variable MUSTER_P2P, of which 0 means never, else where it works. 1: where it works. */
    int32_t p2p;
    /* MUSTER_LOST_ABORT or MUSTER_LOST_ERROR: what happens when another process of the launch ends
     * or cannot be reached. */
    int32_t on_lost;
    /* The processes of a launch (muster/nodes.h). "none": this process is alone. "mpi": those of
     * MPI; an error if there is no MPI. "mpi:PATH": the same, by the shim in the file PATH. NULL:
     * the environment variable MUSTER_NODES, else "none". Copied. */
    const char *nodes;
    /* 1 + MPI_Comm_c2f of the program's communicator, whose processes are the launch; it is
     * duplicated. 0: MPI_COMM_WORLD. */
    int64_t mpi_communicator;
    /* MUSTER_F16 or MUSTER_BF16: sums and averages of f32, f16 and bf16 travel between processes in
     * this dtype, in half the bytes. That concerns the reductions of muster/communicator.h and of
     * muster/variable.h, and the gradients that the rules of a graph get. Each process combines the
     * values of its ranks in f32 and rounds the result once; what all have sent is added up in f32
     * and rounded once more on its way back, so that all ranks get the same bits; gradients of a
     * rule are not rounded a second time, and the new parameters never. Of an average each process
     * sends its own average: it overflows only where that does, and small values are not lost by a
     * division. A sum that f16 cannot hold becomes infinite. What else a graph sums, the outputs of
     * functions, f64 and all other reductions travel as they are, and so do all values within a
     * process. The same in all processes; INVALID_ARGUMENT in the reproducible mode. MUSTER_F32, or
     * 0 without the environment variable MUSTER_WIRE_DTYPE (f16, bf16 or f32): sums travel in the
     * dtype in which they are computed, which is f32 for f16 and bf16. */
    muster_dtype wire_dtype;
    /* With MUSTER_LOST_ABORT: the nanoseconds in which the other processes can say what they know,
     * before a process that has lost another one aborts the launch. Negative: at once. 0: the
     * environment variable MUSTER_ABORT_AFTER (in seconds), else 5 s. */
    int64_t abort_after_ns;
    /* The nanoseconds that a process waits in its exit for the other processes of the launch,
     * before it aborts the launch. The runtime that was opened last with another value than 0 says
     * it for the process. Negative: without end. 0: the environment variable MUSTER_EXIT_AFTER (in
     * seconds), else without end if all runtimes are closed, and 2 s if not. */
    int64_t exit_after_ns;
} muster_runtime_options;
MUSTER_API void muster_runtime_options_init_sized(muster_runtime_options *options, size_t size);
static inline void muster_runtime_options_init(muster_runtime_options *options) {
    muster_runtime_options_init_sized(options, sizeof *options);
}

/* Opens the devices and starts their workers. options may be NULL. Several runtimes may live in one
 * process.
 * After fork(), every function with an object of a runtime that the parent has opened is BAD_STATE
 * in the child, except close, which frees nothing that belongs to the parent's threads. The child
 * may open a runtime of its own on host devices, also while the parent's is open; see
 * docs/embedding.md.
 * Errors: INVALID_ARGUMENT (a device list that cannot be parsed; a number of logical shards that
 * the number of devices does not divide; an unknown collective algorithm or level of the log; a
 * wrong value of an environment variable), UNAVAILABLE (no such device; an algorithm that these
 * devices do not have), UNSUPPORTED (options of a newer header), OUT_OF_MEMORY, SYSTEM, and errors
 * of the devices. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime);
/* Waits for calls in progress, stops the workers, and destroys everything of the runtime that is
 * left. No thread may use the runtime afterwards (muster/status.h has the order of destruction).
 * Accepts NULL. Errors: BAD_STATE inside a body or a rule of a server, since close would wait for
 * it, and for a runtime that has been closed. Threads: any. */
MUSTER_API muster_status muster_runtime_close(muster_runtime *runtime);
/* Ends every call of functions whose place in the order of calls was given before: the one that
 * runs, those that wait for their turn, and the asynchronous ones. They return MUSTER_CANCELLED.
 * Other functions that wait for their turn, and do not destroy anything, return it as well. Calls
 * that begin later are not touched: nothing is remembered. Returns at once.
 * A call that has not begun touches nothing. In a running one waits end, operations of workers and
 * the steps of graphs fail before they begin, and muster_worker_cancelled is 1; a body that does
 * not look, or an operation that has begun, runs to its end, and then the call fails. Outputs are
 * then undefined, no update of a variable is applied, and what bodies have written in place
 * (MUSTER_USE_READ_WRITE) stays. When the devices have agreed to write the updates of a graph's
 * rules, the call is not ended any more, and returns OK: parameters and states are those before the
 * call or after it, on all devices. Waits for requests to servers end, and what was sent is
 * applied on all shards all the same, before the call returns (muster/server.h).
 * Not ended are muster_runtime_close, functions that destroy something, and functions for variables
 * and tensors that have begun.
 * With several processes (muster/nodes.h) one of them tells all: its calls of functions fail in all
 * processes, with a message that names it. Those that wait for their turn keep their places, since
 * processes match their calls by the order of these: each is begun by all, and then fails, one
 * after the other. So do functions for variables that wait; other functions are not ended. In the
 * other processes a running call is ended as after a failure here: waits for this process return
 * ABORTED, and muster_worker_cancelled is 1. A call returns when the others have begun it, too, and
 * their bodies have returned. A step is made in all processes or in none: once all devices of this
 * process have come to the exchange behind which updates are written, the call is not ended from
 * here.
 * NULL is ignored. It takes no lock, allocates nothing, and leaves errno and the last error alone.
 * Threads: any, also inside a body, and in a signal handler, while the runtime stays open. */
MUSTER_API void muster_runtime_cancel(muster_runtime *runtime);

/* The number of devices; -1 for NULL. Threads: any. */
MUSTER_API int32_t muster_runtime_size(const muster_runtime *runtime);
/* A device's description, for example "host cpu 3"; NULL for a rank out of range. Owned by the
 * runtime. Threads: any. */
MUSTER_API const char *muster_runtime_device(const muster_runtime *runtime, int32_t rank);

/* What is known about one device. A result struct: the rules are in muster/status.h. Texts are cut
 * where they do not fit. */
typedef struct muster_device_info {
    size_t struct_size; /* set by muster_device_info_init */
    /* The number of the device in its backend: of a GPU, the number that "cuda@N" takes; of host
     * devices, their place among each other. Virtual devices of one GPU have the same. */
    int32_t ordinal;
    int32_t capability_major, capability_minor; /* the compute capability of a CUDA device; else 0 */
    int32_t reserved;
    /* Bytes. For host devices those of the machine (MemTotal and MemAvailable of /proc/meminfo),
     * which they share. -1: not known; so is the free memory of a GPU that no runtime has opened,
     * since the driver would have to make a context, and of one that is lost. */
    int64_t memory_total, memory_free;
    /* Of a host device: the CPUs of its worker, CPU c in bit c % 64 of cpus[c / 64]: the worker's
     * own and its share of the spare ones (muster_runtime_options.no_pinning), or all that the
     * process may use where workers are not pinned. Of a device that no runtime has opened: one.
     * The caller's thread, which is rank 0, is never pinned; the CPUs are those that the others
     * leave to it. GPUs: none. */
    uint64_t cpus[16];
    char backend[16]; /* "host", "cuda" */
    char name[64];    /* as muster_runtime_device says */
    char uuid[48];    /* of a GPU: "GPU-8f2a...", of a MIG instance "MIG-8f2a..."; else "" */
    /* The library of matrix products in use, for example "cuBLAS 12.8.4", or why there is none.
     * "" for a device that no runtime has opened. */
    char blas[128];
} muster_device_info;
static inline void muster_device_info_init(muster_device_info *info) {
    if (info) info->struct_size = sizeof *info;
}
/* The device of a rank. Waits in the queue behind running calls. Errors: INVALID_ARGUMENT (NULL,
 * struct_size), OUT_OF_RANGE (no such rank), BAD_STATE (inside a body, after fork), errors of the
 * device. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_get_device_info(muster_runtime *runtime, int32_t rank, muster_device_info *info);
/* The devices of the machine that a runtime could open, without opening one: first the GPUs, as far
 * as CUDA_VISIBLE_DEVICES shows them and the libraries are there, then one host device for each
 * physical core that the CPU affinity and the cgroup quota allow. Nothing is created on a GPU, no
 * context either; the CUDA libraries are loaded, and stay. An index is 0 to count - 1.
 * Errors: INVALID_ARGUMENT (NULL, struct_size), OUT_OF_RANGE (no such device), errors of the
 * device. Threads: any, also inside a body. */
MUSTER_API int32_t muster_device_count(void);
MUSTER_API MUSTER_NODISCARD muster_status muster_device_get_info(int32_t index, muster_device_info *info);

/* What this runtime found and decided, one "key: value" per line (devices, BLAS, topology, GPUs,
 * collectives, spin, deadlines, logical shards, trace). It says more once collectives have been
 * measured; a string that was returned before stays as it was. NULL for NULL. Owned by the runtime.
 * Threads: any. */
MUSTER_API const char *muster_runtime_description(const muster_runtime *runtime);

/* Registers memory that many calls will use. It is pinned (page-locked) for devices with memory of
 * their own, so that they copy from and to it directly. On host devices registering has no effect,
 * but the arguments are checked all the same. Waits for the calls before it, and takes effect for
 * the calls after it. The memory must stay valid until it is unregistered or the runtime is closed.
 * A range that overlaps a registered one is refused.
 * Memory that a device cannot pin is registered all the same: its copies are then as slow as those
 * of other memory, and the log says why, once for each reason. Memory that is mapped for reading
 * only is pinned for copies to the device.
 * Errors: INVALID_ARGUMENT (NULL, no bytes, an overlap), UNSUPPORTED (an overlap with memory of
 * another runtime), OUT_OF_MEMORY (also of the driver, when it pins), BAD_STATE (inside a body,
 * after fork), DEVICE_LOST. After an error nothing is registered. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_register_memory(muster_runtime *runtime, void *address, int64_t bytes);
/* Ends a registration; `address` is the address that was registered. Waits for the calls before it.
 * Errors: INVALID_ARGUMENT (NULL runtime, unknown address), BAD_STATE (inside a body, after fork).
 * Threads: any. */
MUSTER_API muster_status muster_runtime_unregister_memory(muster_runtime *runtime, void *address);
/* Registers the storage of a buffer, and from then on all storage that the buffer takes: when it
 * grows, the new storage is registered before the old one is given up. A change that needs other
 * storage, and muster_buffer_free_memory and _destroy, then wait for the calls before them, and
 * have the errors of muster_runtime_register_memory; after an error the buffer is unchanged. Inside
 * a body a registered buffer cannot grow (BAD_STATE), and what is freed there stays until the
 * runtime closes. The buffer may live longer than the runtime. unregister_buffer ends this, as does
 * muster_buffer_destroy. Errors: as register_memory; INVALID_ARGUMENT (a buffer that is registered
 * already; one that is not registered in this runtime). Threads: the buffer's owner. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_register_buffer(muster_runtime *runtime, muster_buffer *buffer);
MUSTER_API muster_status muster_runtime_unregister_buffer(muster_runtime *runtime, muster_buffer *buffer);

/* Gives a device one more name. Every device is already known by its rank in decimal ("0"), and by
 * its muster_runtime_device description unless another device has the same one (as workers that
 * share a core or a GPU do). "cuda:1" is the GPU with this ordinal, and "host:1" the second host
 * device. A device may have several names; to give one again changes nothing.
 * Names live as long as the runtime.
 * Errors: INVALID_ARGUMENT (an empty name, a number, a name of another device), OUT_OF_RANGE (no
 * such rank), OUT_OF_MEMORY, BAD_STATE (after fork). Threads: any, also inside a body. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_name_device(muster_runtime *runtime, const char *name, int32_t rank);
/* set_default_device: the device for calls that name none; it is rank 0 until set. find_device: the
 * rank of the device with this name; NULL means the default device.
 * Errors: INVALID_ARGUMENT (an unknown name, with the list of known ones; a name that several
 * devices have), BAD_STATE (after fork). Threads: any, also inside a body. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_set_default_device(muster_runtime *runtime, const char *name);
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_find_device(muster_runtime *runtime, const char *name, int32_t *rank);
/* The one device that the tensors are on. Host tensors and "no tensor" are on none; if that holds
 * for all of them, the result is the default device.
 * Errors: INVALID_ARGUMENT (tensors on two devices, with both names; a rank that the runtime does
 * not have), BAD_STATE (after fork). Threads: any, also inside a body. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_infer_device(muster_runtime *runtime, const muster_tensor *tensors, int32_t count,
                                                                      int32_t *rank);

/* Creates a contiguous tensor of zeros in the memory of the named device (NULL: the default
 * device), from outside functions. It lives until it is destroyed or the runtime closes.
 * tensor->device is the rank, which identifies the device to kernels, copies and the operations of
 * its worker. Only that device can use tensor->data; on the host backend any thread may read and
 * write there while no call uses it. Calls take such tensors as inputs and outputs
 * (muster/function.h).
 * Errors of create, destroy and copy: INVALID_ARGUMENT (a tensor that does not belong to this
 * runtime or was destroyed), DTYPE_MISMATCH, SHAPE_MISMATCH, OVERFLOW, OUT_OF_MEMORY, BAD_STATE
 * (inside a body, after fork), and errors of the device. Each waits in the queue behind running
 * calls. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_tensor_create(muster_runtime *runtime, const char *device, muster_dtype dtype,
                                                                       int32_t ndim, const int64_t *shape, muster_tensor *tensor);
/* Wraps memory of the program, or of another library, that lies on the named device: *tensor, a
 * view of it as muster_tensor_make gives, becomes a tensor of that device, for calls, copies and
 * bodies. Nothing is copied. The name is one that muster_runtime_find_device knows, such as
 * "cuda:0" or "host:1". The device is asked whether the first and the last byte are its memory;
 * host memory belongs to every host device. The memory still belongs to the program. It must stay
 * valid until the tensor has been destroyed, which does not free it. Work of other libraries on it
 * must have ended, or lie in the default stream of the GPU (see muster/dlpack.h).
 * Errors: INVALID_ARGUMENT (an unknown device, no memory of that device, managed memory of CUDA),
 * OUT_OF_MEMORY, BAD_STATE (inside a body, after fork), and errors of the device. After an error
 * *tensor is as before. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_tensor_on(muster_runtime *runtime, const char *device, muster_tensor *tensor);
/* Takes the tensor that create gave, or a view that begins where it does; or any view of a tensor
 * that muster_runtime_tensor_on wrapped. "No tensor" is ignored. */
MUSTER_API muster_status muster_runtime_tensor_destroy(muster_runtime *runtime, muster_tensor tensor);
/* Copies between host memory and devices of the runtime, in any direction; complete on return.
 * dtypes and shapes must be equal. Both tensors may be strided views of what create gave; they must
 * be the same elements or not overlap at all. A strided tensor in memory that host code cannot read
 * is packed on its device. Devices without peer access copy through host memory, one bounded chunk
 * at a time. After a failure the contents of the target are undefined. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_tensor_copy(muster_runtime *runtime, muster_tensor from, muster_tensor to);

/* Writes the last events of each worker (newest last), at most `events` of each, as text to the
 * runtime's log. May be called while calls run, also from inside a body. Errors: INVALID_ARGUMENT
 * (NULL, a negative number of events), BAD_STATE (after fork). Threads: any. */
MUSTER_API muster_status muster_runtime_dump(muster_runtime *runtime, int32_t events);

/* Writes the last events of each worker to the file `path` in Chrome's trace format (JSON), which
 * https://ui.perfetto.dev opens. There is one track for each worker; times are microseconds of
 * CLOCK_MONOTONIC, of several processes that of process 0 where one of them has the option `trace`
 * or MUSTER_TRACE. May be called while calls run, also from inside a body; events that are being
 * overwritten at that moment are left out. The file appears complete or not at all, and replaces an
 * existing one.
 * The option `trace`, or the environment variable MUSTER_TRACE=FILE, writes a trace at close.
 * Every %p in FILE becomes the process id, and every %n the number of the process in its launch
 * (muster/nodes.h). The second runtime of the process that is opened with it
 * writes FILE.1, the next FILE.2. If writing fails, close logs it and succeeds.
 * The option recorder_events, or MUSTER_RECORDER_EVENTS, is the number of events kept for each
 * worker, at 40 bytes each. The newest slot is being written, so a trace shows one event less.
 * Default: 256; with MUSTER_TRACE 65536. 0 keeps none: traces are then empty, and the report of a
 * late worker lacks its last events.
 * Errors: INVALID_ARGUMENT (no path, or the path of a folder or device), SYSTEM (the file cannot be
 * written), BAD_STATE (after fork), OUT_OF_MEMORY. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_trace(muster_runtime *runtime, const char *path);

#ifdef __cplusplus
}
#endif
#endif
