/* The device table: everything that Muster asks of a device. A backend fills one static const
 * table. Its parts are tables of their own: one for memory, one for queues, and so on. A backend
 * that cannot do what a part is for leaves the part NULL. A part that is present has every entry.
 *
 * A device address is meaningful to the device only, unless MST_DEVICE_HOST_MEMORY is set. One
 * thread at a time issues work on a device. The work runs in the order of issue, either at once or
 * later from a queue. If queued work fails, the next synchronize returns the failure. "Between
 * calls" below means: only while `in_flight` of the device is false. */
#ifndef MST_DEVICE_IMPL_H
#define MST_DEVICE_IMPL_H

#include "memory_impl.h"
#include "muster/dtype.h"

#include <stdatomic.h>

enum {
    /* Host code may read and write device addresses as soon as synchronize has returned. Programs
     * are the only work that such a device queues. */
    MST_DEVICE_HOST_MEMORY = 1,
};

typedef struct mst_device mst_device;
typedef struct mst_program mst_program; /* program_impl.h */
typedef struct mst_program_request mst_program_request;
typedef struct mst_program_limits mst_program_limits;
typedef struct mst_program_grid mst_program_grid;
typedef struct mst_program_value mst_program_value;

/* The queues of a device. The work in one queue runs in the order of issue. Work in two queues
 * overlaps unless events order it. Everything goes into COMPUTE, except copy_in_async, which goes
 * into COPY, and the work of collectives that have only begun, which goes into EXCHANGE (see
 * mst_device_exchange_enter). */
typedef enum { MST_QUEUE_COMPUTE, MST_QUEUE_COPY, MST_QUEUE_EXCHANGE, MST_QUEUES } mst_queue;

/* A point in a queue: the end of the work issued before the event was recorded. This struct is the
 * head of every backend's own event. */
typedef struct mst_device_event {
    mst_device *device;
} mst_device_event;

/* A built-in kernel, by its name in the kernel source. Static and constant except for `index`,
 * which the first launch fills in. */
typedef struct mst_code_kernel {
    const char *name;
    /* true: the work of a launch is a number of blocks. false: a number of elements, and each
     * thread processes some of them. */
    bool blocks;
    /* 1 + the kernel's place among all built-in kernels; 0: not looked up yet */
    _Atomic int32_t index;
} mst_code_kernel;

/* C = alpha A B + beta C with row-major matrices at device addresses. Element (i, j) of A lies at
 * index i * lda + j, or at j * lda + i if A is transposed. Sums are in f32 for f16, bf16 and f32,
 * and in f64 for f64. */
typedef struct mst_gemm {
    muster_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
} mst_gemm;

/* Memory of the device, and copies through COMPUTE, of which `copy` may go through EXCHANGE. */
typedef struct mst_device_memory_table {
    /* The address is 64-byte aligned. bytes may be 0. */
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address);
    void (*release)(mst_device *device, void *address); /* after synchronize; NULL is ignored */
    /* Between calls. Makes sure that later allocations of up to `bytes` bytes at once need no call
     * of the driver. */
    muster_status (*reserve)(mst_device *device, int64_t bytes);
    /* The caller may reuse the host memory after synchronize. */
    muster_status (*copy_in)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* The host memory holds the data after synchronize. */
    muster_status (*copy_out)(mst_device *device, void *to_host, const void *from_device, int64_t bytes);
    muster_status (*copy)(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
    /* Between calls. For `bytes` > 0 bytes that another library has allocated: fails unless the
     * first and the last one are memory of this device, with a message that begins with `where`.
     * Later work in COMPUTE starts after the work that is in the device's default stream now. */
    muster_status (*adopt)(mst_device *device, const void *address, int64_t bytes, const char *where);
} mst_device_memory_table;

/* Devices that work asynchronously to the host. None of these functions blocks the host. */
typedef struct mst_device_queue_table {
    /* For code of the user that calls the driver directly: enter makes the device's context current
     * in this thread, leave restores the previous one. The functions of the table need neither,
     * since they do the same internally. If leave fails, it is unknown which context is current. */
    muster_status (*enter)(mst_device *device);
    muster_status (*leave)(mst_device *device);
    /* Sets *done to whether all work issued so far is complete. Returns failures as synchronize
     * does. */
    muster_status (*poll)(mst_device *device, bool *done);
    /* Like copy_in, but in the COPY queue, so that the copy overlaps the work in COMPUTE. The
     * caller may reuse the host memory after synchronize, which waits for all queues. */
    muster_status (*copy_in_async)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* Call these through the functions mst_device_event_* below, which document them. */
    muster_status (*event_create)(mst_device *device, mst_device_event **event);
    void (*event_destroy)(mst_device_event *event);
    muster_status (*event_record)(mst_device_event *event, mst_queue queue);
    muster_status (*event_wait)(mst_device *device, mst_queue queue, mst_device_event *event);
    muster_status (*event_query)(mst_device_event *event, bool *done);
    /* Work issued from now on in `later` starts after the work that is in `earlier` now. */
    muster_status (*join)(mst_device *device, mst_queue earlier, mst_queue later);
} mst_device_queue_table;

/* Devices that run the built-in kernels (code_impl.h). */
typedef struct mst_device_code_table {
    /* Runs the kernel on `work` elements or blocks; `work` may be 0. The parameters are copied;
     * they have at most MST_CODE_PARAMETERS_MAX bytes. Addresses in them are device addresses and
     * stay unchanged. */
    muster_status (*launch)(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t parameter_bytes);
    /* May wait as synchronize does, but not for COPY: where the driver would. */
    muster_status (*gemm)(mst_device *device, const mst_gemm *gemm);
    /* Between calls, because the first question enables the access and tries it. Sets *access to
     * whether code of this device and copies in its queues can read and write the other device's
     * memory by address. */
    muster_status (*peer_access)(mst_device *device, mst_device *other, bool *access);
} mst_device_code_table;

/* Devices that run the user's programs (program_impl.h). */
typedef struct mst_device_program_table {
    /* The language of source code that the device compiles: an mst_language. Errors: UNAVAILABLE;
     * the message names the missing package. */
    muster_status (*language)(mst_device *device, int32_t *language);
    /* Between calls. Compiles the program or loads it from the cache. Threads: any, and several
     * devices may compile at the same time. On failure *program is NULL, *log is the compiler's
     * output (mst_alloc*) or NULL, and the message begins with the first lines of the log. */
    muster_status (*open)(mst_device *device, const mst_program_request *request, mst_program **program, char **log);
    /* Between calls, after synchronize. NULL is ignored. */
    void (*close)(mst_device *device, mst_program *program);
    muster_status (*limits)(mst_device *device, const mst_program *program, int32_t kernel, mst_program_limits *limits);
    /* Issues the kernel in COMPUTE or EXCHANGE, as work_queue says. Its first launch may wait as
     * that of a gemm. The grid must be within the limits. grid and values (one per parameter) are
     * copied. On a device with host memory this is the only function that queues work. It sets
     * `queued`, and code that accesses the device's memory afterwards must synchronize first. */
    muster_status (*launch)(mst_device *device, mst_program *program, int32_t kernel, const mst_program_grid *grid,
                            const mst_program_value *values);
} mst_device_program_table;

/* Page-locked host memory, which the device copies from and to without staging. All functions:
 * between calls. */
typedef struct mst_device_host_memory_table {
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address);
    void (*release)(mst_device *device, void *address); /* NULL is ignored */
    /* Page-locks memory of the program until unpin. */
    muster_status (*pin)(mst_device *device, void *address, int64_t bytes);
    void (*unpin)(mst_device *device, void *address);
} mst_device_host_memory_table;

/* The devices of one backend in this machine. */
typedef struct mst_device_probe {
    int32_t count; /* devices that a runtime can open */
    /* The machine shows signs of such devices, usable or not (for GPUs: the device files of
     * NVIDIA's driver). */
    bool expected;
    /* Why there are none; "" if there are some. */
    char reason[MST_MESSAGE_SIZE];
} mst_device_probe;

/* What a program may ask of a device that it opens. Zero: what the environment says. */
typedef struct mst_device_settings {
    int64_t memory; /* bytes that the device takes when it opens; negative: none */
    int32_t tf32;   /* 1: products of f32 matrices may use TF32; negative: they may not */
    int32_t p2p;    /* 1: the device may access other devices' memory, where that works; negative: it may not */
    bool alone;     /* the runtime has no other device */
    /* Gets a sentence before the device does something that takes seconds. NULL: nobody listens. It
     * may be called until the device is closed, by the thread that opens or uses the device. */
    void (*log)(void *user, const char *sentence);
    void *log_user;
} mst_device_settings;

/* What is known about one device, open or not. */
typedef struct mst_device_facts {
    char name[64];                     /* as the name of an open device; whole, or cut */
    char uuid[48];                     /* "" if the device has none */
    char blas[128];                    /* the library of matrix products; "" before the device is open */
    int64_t memory_total, memory_free; /* bytes; -1: not known */
    int32_t major, minor;              /* of the compute capability */
} mst_device_facts;

/* Backends whose devices may be missing from a machine, such as GPUs. */
typedef struct mst_device_hardware_table {
    const char *plural; /* "GPUs" */
    /* Counts the devices. A machine without any is no failure, and the thread's last error does not
     * change. Threads: any. */
    void (*probe)(mst_device_probe *found);
    /* Sets *ordinal to that of the device with this id, in any notation that the backend knows. */
    muster_status (*find)(const char *id, int32_t *ordinal);
    /* Text for the runtime's description: about the libraries, which are the same for all open
     * devices, and about one open device. */
    void (*describe_libraries)(const mst_device *device, char *text, size_t size);
    /* As `open` of the backend's table, which has the settings of the environment. */
    muster_status (*open_with)(const char *argument, const mst_device_settings *settings, mst_device **device);
    /* Fills the facts about device number `ordinal`. device: that device, if it is open (between
     * calls); NULL: nothing is opened or created, and what needs an open device is not known. */
    muster_status (*get_facts)(int32_t ordinal, mst_device *device, mst_device_facts *facts);
    /* The number of an open device among those of its backend. */
    int32_t (*ordinal)(const mst_device *device);
    void (*describe_device)(const mst_device *device, char *text, size_t size);
    /* Pops the oldest pending warning; false if there is none. Threads: any. */
    bool (*take_notice)(char text[MST_MESSAGE_SIZE]);
    /* Gives up a device whose queue does not drain: from now on every call on it fails for this
     * reason. */
    void (*give_up)(mst_device *device, const char *reason);
} mst_device_hardware_table;

typedef struct mst_device_table {
    const char *backend; /* "host", "discrete", "cuda" */
    uint32_t flags;
    /* argument: the text after the backend's colon for this device (an ordinal). Never NULL. */
    muster_status (*open)(const struct mst_device_table *table, const char *argument, mst_device **device);
    /* Destroy the events of the device first. */
    void (*close)(mst_device *device);
    /* Waits until all work issued so far is complete. */
    muster_status (*synchronize)(mst_device *device);
    const mst_device_memory_table *memory; /* never NULL */
    const mst_device_queue_table *queue;
    const mst_device_code_table *code;
    const mst_device_program_table *program;
    const mst_device_host_memory_table *host_memory;
    const mst_device_hardware_table *hardware;
} mst_device_table;

/* The head of every backend's own device struct. mst_device_head fills it. */
struct mst_device {
    const mst_device_table *table;
    /* Copies of the table's parts. A call through them needs one load less than through the
     * table. */
    const mst_device_memory_table *memory;
    const mst_device_queue_table *queue;
    const mst_device_code_table *code;
    const mst_device_program_table *program;
    const mst_device_host_memory_table *host_memory;
    char name[64];      /* "host cpu 3" */
    int32_t cpu;        /* the logical CPU to which the device's worker is pinned; -1: none */
    int32_t capability; /* the compute capability as 10 * major + minor, of a GPU; else 0 */
    /* 1 + the number of the physical device, which several devices of one backend may share; 0:
     * unknown */
    int32_t physical;
    /* Set from the first collective of a run that waits for other devices until the run has ended
     * on every device. allocate must not call the driver while it is set. */
    bool in_flight;
    /* synchronize calls this repeatedly while it waits. A failure ends the wait. NULL: it waits
     * without a limit. */
    muster_status (*interrupt)(void *user);
    void *interrupt_user;
    /* Devices with host memory only: a program has been launched since the last synchronize. */
    bool queued;
    /* Where `copy` and launches of kernels go: COMPUTE or EXCHANGE. */
    mst_queue work_queue;
    /* Work has been issued in EXCHANGE for which COMPUTE does not wait yet. */
    bool exchange_busy;
    /* The device's queue did not drain in time. Nothing more is issued, and release and close do
     * not wait for the queue. */
    bool lost;
};

static inline mst_device mst_device_head(const mst_device_table *table) {
    return (mst_device){.table = table,
                        .memory = table->memory,
                        .queue = table->queue,
                        .code = table->code,
                        .program = table->program,
                        .host_memory = table->host_memory,
                        .cpu = -1};
}

static inline bool mst_device_is_host(const mst_device *device) { return (device->table->flags & MST_DEVICE_HOST_MEMORY) != 0; }

/* ---- events, of devices that have queues ---- */

/* Between calls, because it asks the driver. Destroy the event before the device is closed. */
static inline muster_status mst_device_event_create(mst_device *device, mst_device_event **event) {
    return device->queue->event_create(device, event);
}
/* Between calls. NULL is ignored. */
static inline void mst_device_event_destroy(mst_device_event *event) {
    if (event) event->device->queue->event_destroy(event);
}
/* Moves the event to the end of the work issued so far in this queue of the event's own device. */
static inline muster_status mst_device_event_record(mst_device_event *event, mst_queue queue) {
    return event->device->queue->event_record(event, queue);
}
/* Work issued from now on in the queue of `device` starts after the event's last recorded point is
 * complete. An event that was never recorded counts as complete. The event's device and `device`
 * must belong to one backend. */
static inline muster_status mst_device_event_wait(mst_device *device, mst_queue queue, mst_device_event *event) {
    return device->queue->event_wait(device, queue, event);
}
/* Sets *done to whether the event's last recorded point is complete. */
static inline muster_status mst_device_event_query(mst_device_event *event, bool *done) {
    return event->device->queue->event_query(event, done);
}

/* ---- EXCHANGE, of devices that have queues ---- */

/* From here to leave, `copy` and launches of kernels go into EXCHANGE, behind what is in
 * COMPUTE now. After a failure do not call leave. */
static inline muster_status mst_device_exchange_enter(mst_device *device) {
    MUSTER_TRY(device->queue->join(device, MST_QUEUE_COMPUTE, MST_QUEUE_EXCHANGE));
    device->work_queue = MST_QUEUE_EXCHANGE;
    device->exchange_busy = true;
    return MUSTER_OK;
}
static inline void mst_device_exchange_leave(mst_device *device) { device->work_queue = MST_QUEUE_COMPUTE; }
/* What `exchange_busy` is when all that is in EXCHANGE is done, or COMPUTE waits for it: between
 * enter and leave more follows. */
static inline bool mst_device_exchange_goes_on(const mst_device *device) { return device->work_queue == MST_QUEUE_EXCHANGE; }
/* Work issued from now on in COMPUTE starts after the work that is in EXCHANGE now. */
static inline muster_status mst_device_exchange_end(mst_device *device) {
    if (__builtin_expect(!device->exchange_busy, 1)) return MUSTER_OK;
    MUSTER_TRY(device->queue->join(device, MST_QUEUE_EXCHANGE, MST_QUEUE_COMPUTE));
    device->exchange_busy = mst_device_exchange_goes_on(device);
    return MUSTER_OK;
}

/* The backend of that name; NULL if there is none. The backends of backends.def are always
 * registered. */
const mst_device_table *mst_device_find(const char *backend);
/* Adds a backend: for tests and later backends. Call it before any runtime opens. Refuses a second
 * backend of the same name. */
muster_status mst_device_register(const mst_device_table *table);

/* The backend at this place; NULL beyond the last. Built-in backends come first, in the order of
 * backends.def. */
const mst_device_table *mst_device_backend(int32_t place);

extern const mst_device_table mst_host_device_table;

/* BLAS of the host backend: OpenBLAS, opened at run time by its soname. If the library is missing
 * or a serial build, all functions are NULL and `description` holds the reason. */
typedef struct mst_blas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                  float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                  double beta, double *c, int ldc);
    void (*sgemv)(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx, float beta, float *y,
                  int incy);
    void (*dgemv)(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int incx, double beta,
                  double *y, int incy);
    void (*saxpy)(int n, float alpha, const float *x, int incx, float *y, int incy);
    void (*daxpy)(int n, double alpha, const double *x, int incx, double *y, int incy);
    float (*sdot)(int n, const float *x, int incx, const float *y, int incy);
    double (*ddot)(int n, const double *x, int incx, const double *y, int incy);
    /* LAPACK, column-major, by Fortran's convention. Both are NULL where the library lacks one. */
    void (*dgeqrf)(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork, int *info);
    void (*dorgqr)(const int *m, const int *n, const int *k, double *a, const int *lda, const double *tau, double *work, const int *lwork,
                   int *info);
    /* OpenBLAS's configuration, or why there is no BLAS */
    const char *description;
} mst_blas;
/* Reference counted. The first open without keep_threads sets OpenBLAS to one thread. */
muster_status mst_blas_open(bool keep_threads);
/* The same for a computation of the caller's own: a library that is open keeps the
 * number of threads that it has. */
muster_status mst_blas_use(void);
/* The last close restores the number of threads that was found, if it is still 1. */
void mst_blas_close(void);
/* Never NULL. Its functions are NULL if there is no BLAS. */
const mst_blas *mst_blas_get(void);

#endif
