/* The device table: everything that Muster asks of a device. A backend fills one static const table,
 * whose parts are tables of their own: one for memory, one for queues, and so on. A backend that
 * cannot do what a part is for leaves the part NULL; a part that is there is complete.
 *
 * A "device address" is meaningful to the device only, unless MST_DEVICE_HOST_MEMORY is set. One
 * thread at a time issues work on a device. Work is done in the order of issue, at once or later
 * from a queue. A failure of queued work is kept, and returned by the next synchronize. */
#ifndef MST_DEVICE_IMPL_H
#define MST_DEVICE_IMPL_H

#include "memory_impl.h"
#include "muster/dtype.h"

#include <stdatomic.h>

enum {
    /* Host code may read and write device addresses once synchronize has returned, and nothing but
     * programs is queued. */
    MST_DEVICE_HOST_MEMORY = 1,
};

typedef struct mst_device mst_device;
typedef struct mst_program mst_program; /* program_impl.h */
typedef struct mst_program_request mst_program_request;
typedef struct mst_program_limits mst_program_limits;
typedef struct mst_program_grid mst_program_grid;
typedef struct mst_program_value mst_program_value;

/* The queues of a device. The work in one queue runs in the order of issue; work in two queues
 * overlaps unless events order it. Everything goes into COMPUTE except copy_in_async. */
typedef enum { MST_QUEUE_COMPUTE, MST_QUEUE_COPY } mst_queue;

/* A point in a queue: the end of what had been issued when the event was recorded. The head of every
 * backend's own struct. */
typedef struct mst_device_event {
    mst_device *device;
} mst_device_event;

/* A kernel of the device code by its name in the text. Static and constant but for `index`, which
 * the first launch fills in. */
typedef struct mst_code_kernel {
    const char *name;
    bool blocks;           /* work is counted in blocks, else in elements, of which each thread takes some */
    _Atomic int32_t index; /* 1 + its place among the kernels of the code; 0: not looked up yet */
} mst_code_kernel;

/* C = alpha A B + beta C with row-major matrices at device addresses: element (i, j) of A at a[i *
 * lda + j], or a[j * lda + i] where it is transposed. f16, bf16 and f32 are summed in f32, f64 in
 * f64. */
typedef struct mst_gemm {
    muster_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
} mst_gemm;

/* Code that runs on the device's processor where that is a host thread: gets its own copy of the
 * parameters, with every address in it made
 * readable. Errors: mst_error. */
typedef muster_status (*mst_host_kernel)(const void *parameters);

/* Memory of the device, and copies through COMPUTE. */
typedef struct mst_device_memory_table {
    /* 64-byte aligned; bytes 0 is legal */
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address);
    void (*release)(mst_device *device, void *address); /* after synchronize; NULL is ignored */
    /* Between calls only: what is allocated from now on, up to so many bytes at once, needs nothing
     * of the driver. */
    muster_status (*reserve)(mst_device *device, int64_t bytes);
    /* the host memory may be reused after synchronize */
    muster_status (*copy_in)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* complete after synchronize */
    muster_status (*copy_out)(mst_device *device, void *to_host, const void *from_device, int64_t bytes);
    muster_status (*copy)(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
} mst_device_memory_table;

/* Devices that work while the host goes on. None of these functions waits in the host. */
typedef struct mst_device_queue_table {
    /* Around a stretch of code in which this thread issues on the device: enter makes the device's
     * context the thread's, leave puts back what was there before. The functions of the table do
     * that by themselves; the user's own code needs it. After a failure of leave the thread's
     * context is in doubt. */
    muster_status (*enter)(mst_device *device);
    muster_status (*leave)(mst_device *device);
    /* Has everything issued so far been done? A failure is returned as synchronize returns it. */
    muster_status (*poll)(mst_device *device, bool *done);
    /* copy_in through the COPY queue, so that it overlaps what COMPUTE does. The host memory may be
     * reused after synchronize, which waits for both queues. */
    muster_status (*copy_in_async)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* Called through the functions mst_device_event_*, which say what each does. */
    muster_status (*event_create)(mst_device *device, mst_device_event **event);
    void (*event_destroy)(mst_device_event *event);
    muster_status (*event_record)(mst_device_event *event, mst_queue queue);
    muster_status (*event_wait)(mst_device *device, mst_queue queue, mst_device_event *event);
    muster_status (*event_query)(mst_device_event *event, bool *done);
} mst_device_queue_table;

/* Devices that run the built-in kernels (code_impl.h). */
typedef struct mst_device_code_table {
    /* Runs the kernel over `work` elements (or blocks), of which there may be 0. parameters: copied;
     * addresses in them are device addresses as they are. */
    muster_status (*launch)(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t parameter_bytes);
    muster_status (*gemm)(mst_device *device, const mst_gemm *gemm);
    /* Can this device's code read and write the other device's memory by address? Between calls
     * only: the first question turns the access on. */
    muster_status (*peer_access)(mst_device *device, mst_device *other, bool *access);
} mst_device_code_table;

/* Devices that run the user's programs (program_impl.h). */
typedef struct mst_device_program_table {
    /* In which language the device wants the source: an mst_language. Errors: UNAVAILABLE, and what
     * is missing (the package's name). */
    muster_status (*language)(mst_device *device, int32_t *language);
    /* Compiles, or takes from the cache. Between calls. Threads: any, several devices at the same
     * time. On failure *program is NULL, *log (mst_alloc*) is what the compiler said or NULL, and
     * the message begins with the log's first lines. */
    muster_status (*open)(mst_device *device, const mst_program_request *request, mst_program **program, char **log);
    void (*close)(mst_device *device, mst_program *program); /* between calls, after synchronize; NULL is ignored */
    muster_status (*limits)(mst_device *device, const mst_program *program, int32_t kernel, mst_program_limits *limits);
    /* In the order of issue with everything else in COMPUTE. grid and values (one for each
     * parameter) are copied; the grid is within the limits. On a device with host memory this is the
     * one thing that is queued: it sets `queued`, and code that touches the device's memory next has
     * to synchronize first. */
    muster_status (*launch)(mst_device *device, mst_program *program, int32_t kernel, const mst_program_grid *grid,
                            const mst_program_value *values);
} mst_device_program_table;

/* Page-locked host memory, which the device copies from and to without staging. Between calls
 * only. */
typedef struct mst_device_host_memory_table {
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address);
    void (*release)(mst_device *device, void *address); /* NULL is ignored */
    /* Memory of the program, until unpin. */
    muster_status (*pin)(mst_device *device, void *address, int64_t bytes);
    void (*unpin)(mst_device *device, void *address);
} mst_device_host_memory_table;

/* What a machine has of a backend's devices. */
typedef struct mst_device_probe {
    int32_t count;                 /* devices that a runtime can open */
    bool expected;                 /* the machine looks as if it had some, whether or not they can be used */
    char reason[MST_MESSAGE_SIZE]; /* why there are none; "" where there are some */
} mst_device_probe;

/* Devices that are hardware of their own, which the machine may have or lack. */
typedef struct mst_device_hardware_table {
    const char *plural; /* "GPUs" */
    /* A machine without such devices is no failure: the thread's last error stays as it is. Threads:
     * any. */
    void (*probe)(mst_device_probe *found);
    /* The ordinal of the device that the user calls `id`, in one of the backend's notations. */
    muster_status (*find)(const char *id, int32_t *ordinal);
    /* For the runtime's description: the libraries, which are the same for all open devices; one
     * open device. */
    void (*describe_libraries)(const mst_device *device, char *text, size_t size);
    void (*describe_device)(const mst_device *device, char *text, size_t size);
    /* Takes the oldest warning that nobody has taken yet; false: there is none. Threads: any. */
    bool (*take_notice)(char text[MST_MESSAGE_SIZE]);
    /* The device's queue does not end: from now on every call refuses it for this reason. */
    void (*give_up)(mst_device *device, const char *reason);
} mst_device_hardware_table;

typedef struct mst_device_table {
    const char *backend; /* "host", "far", "cuda" */
    uint32_t flags;
    /* argument: the text after the backend's colon for this device (an ordinal), never NULL */
    muster_status (*open)(const struct mst_device_table *table, const char *argument, mst_device **device);
    void (*close)(mst_device *device); /* after every event of the device has been destroyed */
    /* Waits until everything issued so far has been done. */
    muster_status (*synchronize)(mst_device *device);
    /* Runs kernel(copy of parameters); at each of the `offsets` in the parameters lies a device
     * address (NULL is left alone). parameter_bytes at most MST_LAUNCH_MAX. NULL where the device's
     * processor is not a host thread. */
    muster_status (*launch)(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                            const int32_t *offsets, int32_t offset_count);
    const mst_device_memory_table *memory; /* never NULL */
    const mst_device_queue_table *queue;
    const mst_device_code_table *code;
    const mst_device_program_table *program;
    const mst_device_host_memory_table *host_memory;
    const mst_device_hardware_table *hardware;
} mst_device_table;

enum { MST_LAUNCH_MAX = 2048 };

/* The head of every device; made by mst_device_head. */
struct mst_device {
    const mst_device_table *table;
    /* the table's parts, so that a call through one of them costs no load more than one through the
     * table */
    const mst_device_memory_table *memory;
    const mst_device_queue_table *queue;
    const mst_device_code_table *code;
    const mst_device_program_table *program;
    const mst_device_host_memory_table *host_memory;
    char name[64];    /* "host cpu 3" */
    int32_t cpu;      /* logical CPU to pin its worker to, -1: none */
    int32_t physical; /* 1 + the number of the processor, which devices of one backend may share; 0: unknown */
    /* Set between the first collective of a run that waits for other devices and the end of the run
     * on every device: allocate must not call the driver then. */
    bool in_flight;
    /* Asked now and then while synchronize waits: a failure ends the wait. NULL: it waits for
     * ever. */
    muster_status (*interrupt)(void *user);
    void *interrupt_user;
    bool queued; /* host memory only: a program was launched since the last synchronize */
    /* Its queue has not come back from a run in time: nothing is issued any more, and release and
     * close must not wait for it. */
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

/* Between calls only, since the driver is asked. Destroy it before the device is closed. */
static inline muster_status mst_device_event_create(mst_device *device, mst_device_event **event) {
    return device->queue->event_create(device, event);
}
/* Between calls; NULL is ignored. */
static inline void mst_device_event_destroy(mst_device_event *event) {
    if (event) event->device->queue->event_destroy(event);
}
/* The event becomes the end of what has been issued so far in the queue of its device, instead of
 * what it was before. */
static inline muster_status mst_device_event_record(mst_device_event *event, mst_queue queue) {
    return event->device->queue->event_record(event, queue);
}
/* What is issued from now on in the queue of `device` comes after the event, as it was recorded last;
 * an event that was never recorded is over. The event's device and `device` are of one backend. */
static inline muster_status mst_device_event_wait(mst_device *device, mst_queue queue, mst_device_event *event) {
    return device->queue->event_wait(device, queue, event);
}
/* Is the event over, as it was recorded last? */
static inline muster_status mst_device_event_query(mst_device_event *event, bool *done) {
    return event->device->queue->event_query(event, done);
}

/* The registry. find: NULL if there is none of that name. register: for tests and later backends;
 * before any runtime opens; refuses a second of one name. The backends of backends.def are always there. */
const mst_device_table *mst_device_find(const char *backend);
muster_status mst_device_register(const mst_device_table *table);

/* The backend at this place, built-in ones first and in the order of backends.def; NULL behind the
 * last. */
const mst_device_table *mst_device_backend(int32_t place);

extern const mst_device_table mst_host_device_table;

/* BLAS of the host backend: OpenBLAS opened at run time by soname. open is reference counted: the
 * first sets OpenBLAS to one thread (unless keep_threads), the last close restores what it found.
 * Absent or serial builds leave the table's functions NULL and a reason. */
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
    const char *description; /* what was found, or why there is none */
} mst_blas;
muster_status mst_blas_open(bool keep_threads);
void mst_blas_close(void);
const mst_blas *mst_blas_get(void); /* never NULL; functions NULL when there is no BLAS */

#endif
