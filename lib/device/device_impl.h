/* The device table: what Muster asks of a device, and nothing more. Implementers fill one static
 * const table. Pointers called "device address" are only meaningful to the device unless
 * MST_DEVICE_HOST_MEMORY is set. One thread at a time issues on a device. Work is done in the order
 * of issue, at once or later from a queue; a queued failure is kept and returned by the next
 * sync. */
#ifndef MST_DEVICE_IMPL_H
#define MST_DEVICE_IMPL_H

#include "memory_impl.h"
#include "muster/dtype.h"

#include <stdatomic.h>

enum {
    /* host code may read and write device addresses once sync has returned, and only programs are
     * queued */
    MST_DEVICE_HOST_MEMORY = 1,
};

typedef struct mst_device mst_device;
typedef struct mst_program mst_program; /* program_impl.h */
typedef struct mst_program_request mst_program_request;
typedef struct mst_program_limits mst_program_limits;
typedef struct mst_program_grid mst_program_grid;
typedef struct mst_program_value mst_program_value;

/* A queue of a device: what goes into one runs in the order of issue; two of them overlap except
 * where marks order them. Everything goes into COMPUTE but copy_in_beside. */
typedef enum { MST_QUEUE_COMPUTE, MST_QUEUE_COPY } mst_queue;
enum { MST_MARKS = 16 };

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

typedef struct mst_device_table {
    const char *backend; /* "host", "far", "cuda" */
    uint32_t flags;
    /* argument: the text after the backend's colon for this device (an ordinal), never NULL */
    muster_status (*open)(const struct mst_device_table *table, const char *argument, mst_device **device);
    void (*close)(mst_device *device);
    /* 64-byte aligned; bytes 0 is legal */
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address);
    void (*release)(mst_device *device, void *address); /* after sync; NULL is ignored */
    /* host memory reusable after sync */
    muster_status (*copy_in)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* complete after sync */
    muster_status (*copy_out)(mst_device *device, void *to_host, const void *from_device, int64_t bytes);
    muster_status (*copy)(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
    /* Runs kernel(copy of parameters); at each of the `offsets` in the parameters lies a device
     * address (NULL is left alone). parameter_bytes at most MST_LAUNCH_MAX. NULL where the device's
     * processor is not a host thread. */
    muster_status (*launch)(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                            const int32_t *offsets, int32_t offset_count);
    muster_status (*sync)(mst_device *device);

    /* ---- devices with a processor, a context or memory of their own; each may be NULL ---- */
    /* Around a stretch in which this thread issues on the device: makes the device's context the
     * thread's, and puts back what was there before. The functions of this table do so by
     * themselves; code of the user's needs it. After a failure of leave the thread's context is in
     * doubt. */
    muster_status (*enter)(mst_device *device);
    muster_status (*leave)(mst_device *device);
    /* The device code's kernel over `work` elements (or blocks), of which there may be 0.
     * parameters: copied; addresses in them are device addresses as they are. */
    muster_status (*launch_code)(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters,
                                 int64_t parameter_bytes);
    muster_status (*gemm)(mst_device *device, const mst_gemm *gemm);
    /* copy_in through the COPY queue: overlaps what COMPUTE does. Host memory reusable after sync,
     * which waits for both queues. */
    muster_status (*copy_in_beside)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
    /* mark: remembers what has been issued in the queue so far under `slot` (below MST_MARKS;
     * overwrites). wait_mark: what is issued in this device's queue from now on comes after what
     * `of` (this device, or another of the backend) had marked last under the slot. Neither waits
     * in the host. */
    muster_status (*mark)(mst_device *device, mst_queue queue, int32_t slot);
    muster_status (*wait_mark)(mst_device *device, mst_queue queue, mst_device *of, int32_t slot);
    /* Has what this device had marked last under `slot` been done (or was nothing)? Never waits.
     * NULL: only sync tells. */
    muster_status (*reached)(mst_device *device, int32_t slot, bool *done);
    /* Does this device's code read and write other's memory by address? Enabled at the first
     * question, which no call may be running for. */
    muster_status (*reach)(mst_device *device, mst_device *other, bool *reaches);
    /* Has everything issued so far been done? Never waits. A failure as sync returns it. */
    muster_status (*poll)(mst_device *device, bool *done);
    /* Between calls only. reserve: what is allocated from now on, up to so many bytes at once,
     * needs nothing of the driver. */
    muster_status (*reserve)(mst_device *device, int64_t bytes);
    /* Host memory that the device copies from and to without staging. Between calls only. lock:
     * memory of the program, until unlock. */
    muster_status (*allocate_host)(mst_device *device, int64_t bytes, void **address);
    void (*release_host)(mst_device *device, void *address);
    muster_status (*lock_host)(mst_device *device, void *address, int64_t bytes);
    void (*unlock_host)(mst_device *device, void *address);

    /* ---- programs of the user's (program_impl.h); all or none are there ---- */
    /* In which language: an mst_language. Errors: UNAVAILABLE, and what is missing (the package's
     * name). */
    muster_status (*program_language)(mst_device *device, int32_t *language);
    /* Compiles, or takes from the cache. Between calls; threads: any, several devices at the same
     * time. On failure *program is NULL, *log (mst_alloc*) what the compiler said or NULL, and the
     * message begins with the log's first lines. close: between calls, after sync; NULL is
     * ignored. */
    muster_status (*program_open)(mst_device *device, const mst_program_request *request, mst_program **program, char **log);
    void (*program_close)(mst_device *device, mst_program *program);
    muster_status (*program_limits)(mst_device *device, const mst_program *program, int32_t kernel, mst_program_limits *limits);
    /* In the order of issue with all else in COMPUTE; grid and values (one for each parameter) are
     * copied. On a device with host memory this is the one thing that is queued: `queued` is set,
     * and whoever touches its memory next has to sync first. The grid is within the limits. */
    muster_status (*program_launch)(mst_device *device, mst_program *program, int32_t kernel, const mst_program_grid *grid,
                                    const mst_program_value *values);
} mst_device_table;

enum { MST_LAUNCH_MAX = 2048 };

/* The head of every device. */
struct mst_device {
    const mst_device_table *table;
    char name[64];    /* "host cpu 3" */
    int32_t cpu;      /* logical CPU to pin its worker to, -1: none */
    int32_t physical; /* 1 + the number of the processor, which devices of one backend may share; 0: unknown */
    /* between the first collective of a run that waits for other devices and the end of the run on
     * every device: allocate must not call the driver then */
    bool in_flight;
    /* Asked now and then while sync waits: a failure ends the wait. NULL: it waits for ever. */
    muster_status (*interrupt)(void *user);
    void *interrupt_user;
    bool queued; /* host memory only: a program was launched since the last sync */
    /* Its queue has not come back from a run in time: nothing is issued any more, and release and
     * close must not wait for it. */
    bool lost;
};

static inline bool mst_device_is_host(const mst_device *device) { return (device->table->flags & MST_DEVICE_HOST_MEMORY) != 0; }

/* The registry. find: NULL if there is none of that name. register: for tests and later backends;
 * before any runtime opens; refuses a second of one name. The host backend is always there. */
const mst_device_table *mst_device_find(const char *backend);
muster_status mst_device_register(const mst_device_table *table);

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
