/* Parts: the values that a body has written for each output. Their memory is kept from call to call
 * and only grows. */
#ifndef MST_PART_PRIVATE_H
#define MST_PART_PRIVATE_H

#include "muster/function.h"
#include "tensor_impl.h"
#include "worker_impl.h"

/* Memory that only grows, on the rank's device or on the host. */
typedef struct mst_store {
    void *address;
    int64_t capacity;
} mst_store;

/* store.c */
void mst_host_store_free(mst_store *store);
muster_status mst_host_store_reserve(mst_store *store, int64_t bytes, const char *what);
/* Call these two between runs. */
muster_status mst_device_store_reserve(mst_device *device, mst_store *store, int64_t bytes);
void mst_device_store_free(mst_device *device, mst_store *store);
/* Call it during a run. */
muster_status mst_worker_store_reserve(muster_worker *worker, mst_store *store, int64_t bytes);
/* Page-locked host memory if the device has any, else ordinary host memory. */
muster_status mst_locked_store_reserve(mst_device *device, mst_store *store, int64_t bytes, const char *what);
void mst_locked_store_free(mst_device *device, mst_store *store);

/* Writes only if the value changes. The cache lines that the caller's thread reads after the run
 * then stay shared from call to call, so a small call moves as few lines as possible between
 * cores. */
#define MST_SET(place, value)                      \
    do {                                           \
        if ((place) != (value)) (place) = (value); \
    } while (0)

/* The value of one output in one logical shard, or of one update in one rank. */
typedef struct mst_part {
    const void *visible;   /* the contribution, contiguous and readable for the host */
    muster_dtype dtype;    /* dtype of the contribution: the output's, or after several slices its compute dtype */
    bool direct;           /* the contribution is in the caller's memory already */
    bool begun;            /* some value has been accumulated */
    bool touched;          /* update: the body asked for it in this slice */
    int32_t owner;         /* update: the shard that began it */
    double weight;         /* total weight of the accumulated values */
    int64_t rows, pending; /* gathered output: rows so far, rows of this slice */
    int64_t ignored;       /* gathered output: rows that bodies without rows have given */
    mst_store value;       /* where the body writes */
    mst_store sum;         /* accumulated over slices */
    mst_store host;        /* copy of a device's contribution, in memory that the device copies to without staging */
    mst_store overflow;    /* used if `host` was too small, and for rows that had to leave their place */
} mst_part;

/* Accumulates one slice's values, `count` elements of `dtype` at part->value, into the part, by
 * `mode`. */
muster_status mst_part_accumulate(muster_worker *worker, mst_part *part, muster_collect_mode mode, muster_dtype dtype, int64_t count);

static inline int64_t mst_row_bytes(muster_tensor tensor) {
    int64_t bytes = muster_dtype_size(tensor.dtype);
    for (int32_t d = 1; d < tensor.ndim; d++) bytes *= tensor.shape[d];
    return bytes;
}

#endif
