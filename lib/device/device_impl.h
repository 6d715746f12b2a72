/* The device table: what Muster asks of a device, and nothing more. Implementers fill one static const table.
 * Pointers called "device address" are only meaningful to the device unless MST_DEVICE_HOST_MEMORY is set.
 * One thread at a time issues on a device. Work is done in the order of issue, at once or later from a queue; a queued failure is kept
 * and returned by the next sync. */
#ifndef MST_DEVICE_IMPL_H
#define MST_DEVICE_IMPL_H

#include "memory_impl.h"

enum {
    MST_DEVICE_HOST_MEMORY = 1, /* host code may read and write device addresses once sync has returned, and work is never queued */
};

typedef struct mst_device mst_device;

/* Code that runs on the device's processor where that is a host thread: gets its own copy of the parameters, with every address in it made
 * readable. Errors: mst_error. */
typedef muster_status (*mst_host_kernel)(const void *parameters);

typedef struct mst_device_table {
    const char *backend; /* "host", "far", "cuda" */
    uint32_t flags;
    /* argument: the text after the backend's colon for this device (an ordinal), never NULL */
    muster_status (*open)(const struct mst_device_table *table, const char *argument, mst_device **device);
    void (*close)(mst_device *device);
    muster_status (*allocate)(mst_device *device, int64_t bytes, void **address); /* 64-byte aligned; bytes 0 is legal */
    void (*release)(mst_device *device, void *address);                           /* after sync; NULL is ignored */
    muster_status (*copy_in)(mst_device *device, void *to_device, const void *from_host, int64_t bytes);  /* host memory reusable after sync */
    muster_status (*copy_out)(mst_device *device, void *to_host, const void *from_device, int64_t bytes); /* complete after sync */
    muster_status (*copy)(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
    /* Runs kernel(copy of parameters); at each of the `offsets` in the parameters lies a device address (NULL is left alone).
     * parameter_bytes at most MST_LAUNCH_MAX. NULL where the device's processor is not a host thread. */
    muster_status (*launch)(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                            const int32_t *offsets, int32_t offset_count);
    muster_status (*sync)(mst_device *device);
} mst_device_table;

enum { MST_LAUNCH_MAX = 2048 };

/* The head of every device. */
struct mst_device {
    const mst_device_table *table;
    char name[64]; /* "host cpu 3" */
    int32_t cpu;   /* logical CPU to pin its worker to, -1: none */
};

static inline bool mst_device_is_host(const mst_device *device) { return (device->table->flags & MST_DEVICE_HOST_MEMORY) != 0; }

/* The registry. find: NULL if there is none of that name. register: for tests and later backends; before any runtime opens; refuses a
 * second of one name. The host backend is always there. */
const mst_device_table *mst_device_find(const char *backend);
muster_status mst_device_register(const mst_device_table *table);

extern const mst_device_table mst_host_device_table;

/* BLAS of the host backend: OpenBLAS opened at run time by soname. open is reference counted: the first sets OpenBLAS to one thread (unless
 * keep_threads), the last close restores what it found. Absent or serial builds leave the table's functions NULL and a reason. */
typedef struct mst_blas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                  float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta,
                  double *c, int ldc);
    void (*sgemv)(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx, float beta, float *y, int incy);
    void (*dgemv)(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int incx, double beta, double *y,
                  int incy);
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
