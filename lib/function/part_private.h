/* Parts: what a body has left of each output, kept from call to call in memory that only grows. */
#ifndef MST_PART_PRIVATE_H
#define MST_PART_PRIVATE_H

#include "muster/function.h"
#include "pool_impl.h"
#include "tensor_impl.h"

/* Memory that grows: on the rank's device, or of the host. */
typedef struct mst_store {
    void *address;
    int64_t capacity;
} mst_store;

void mst_host_store_free(mst_store *store);
muster_status mst_host_store_reserve(mst_store *store, int64_t bytes, const char *what);
/* Between runs. */
muster_status mst_device_store_reserve(mst_device *device, mst_store *store, int64_t bytes);
void mst_device_store_free(mst_device *device, mst_store *store);
/* During a run. */
muster_status mst_worker_store_reserve(muster_worker *worker, mst_store *store, int64_t bytes);
/* Page-locked host memory, where the device has such (reserve.c). */
muster_status mst_locked_store_reserve(mst_device *device, mst_store *store, int64_t bytes, const char *what);
void mst_locked_store_free(mst_device *device, mst_store *store);

/* Writes only what changes: the lines that the caller's thread reads after the run then stay shared
 * from call to call, and a small call moves no more lines between the cores than it must. */
#define MST_SET(place, value)                      \
    do {                                           \
        if ((place) != (value)) (place) = (value); \
    } while (0)

/* What one logical shard has of one output, or one rank of one update. */
typedef struct mst_part {
    const void *visible;   /* host-readable contribution, contiguous */
    muster_dtype dtype;    /* of the contribution: the output's, or its compute dtype after slices */
    bool direct;           /* the contribution is in the caller's memory already */
    bool begun;            /* something has been accumulated */
    bool touched;          /* update: the body asked for it in this slice */
    int32_t owner;         /* update: the shard that began it */
    double weight;         /* of what has been accumulated */
    int64_t rows, pending; /* gathered: rows so far, rows of this slice */
    mst_store value;       /* where the body writes */
    mst_store sum;         /* accumulated over slices */
    mst_store host;        /* copy of a device's contribution: memory that the device copies to without staging */
    mst_store overflow;    /* the same where that was too small, and rows that had to leave their place */
} mst_part;

/* Adds one slice's values to a part, by `mode`; elements of `dtype` at part->value. */
muster_status mst_part_accumulate(muster_worker *worker, mst_part *part, muster_collect_mode mode, muster_dtype dtype, int64_t count);

static inline int64_t mst_row_bytes(muster_tensor tensor) {
    int64_t bytes = muster_dtype_size(tensor.dtype);
    for (int32_t d = 1; d < tensor.ndim; d++) bytes *= tensor.shape[d];
    return bytes;
}

#endif
