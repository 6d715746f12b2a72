/* Helpers for tests of operations: a worker without a runtime, tensors on its device with copies on
 * the host, and random layouts. */
#ifndef OPS_FIXTURE_H
#define OPS_FIXTURE_H

#include "ops_impl.h"
#include "pool_impl.h"

/* A tensor on the device and its mirror on the host, with the same storage and strides. */
typedef struct ops_pair {
    muster_tensor device, host, device_storage, host_storage;
} ops_pair;

/* Runs body(worker, argument) on one device of the backend, in this thread. */
muster_status ops_run_on(const char *backend, mst_task body, void *argument);
/* The first of the backends {"host", "discrete"} with which a test of many cases runs: on GPUs,
 * where both names stand for a GPU, the second alone does unless MUSTER_TEST_FULL is set. */
int ops_first_backend(void);

/* A small repeatable generator: a number in [0, below). seed: MUSTER_SEED, else fixed; printed.
 * rounds: `full` with MUSTER_TEST_FULL. */
void ops_seed(void);
int64_t ops_random(int64_t below);
int ops_rounds(int usual, int full);

/* A pair over `storage` elements, small whole numbers; its views are the caller's to lay out: first
 * apply the strides and the offset to `host`, then call ops_place. The mirrors of the last 16 pairs
 * are kept. */
enum { OPS_STORAGE = 1 << 15 }; /* the most elements */
ops_pair ops_make(muster_worker *worker, muster_dtype dtype, int64_t storage);
void ops_place(ops_pair *pair);
/* A pair in a random layout: axes in any order, with gaps, backwards; repeats: also with strides 0
 * and rows that overlap. */
ops_pair ops_view(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, bool repeats);

/* A pair in a fixed layout. 0: rows; 1: transposed; 2: backwards, every second element. */
enum { OPS_LAYOUTS = 3 };
ops_pair ops_laid_out(muster_worker *worker, muster_dtype dtype, int32_t ndim, int64_t rows, int64_t columns, int layout);

/* Copy the storage of a pair from the host to the device, and back. */
void ops_send(muster_worker *worker, const ops_pair *pair);
void ops_fetch(muster_worker *worker, const ops_pair *pair);

/* The element of a host tensor that broadcasting assigns to `index`, which has `ndim` axes. */
double ops_element(muster_tensor tensor, int32_t ndim, const int64_t *index);
/* Advances to the next index in row-major order; false after the last one. The first index is all
 * zeros. No size of the shape may be 0. */
bool ops_next(int32_t ndim, const int64_t *shape, int64_t *index);

bool ops_is_unsigned(muster_dtype dtype);
/* Is the reduction refused for the dtype? */
bool ops_refused(muster_reduction op, muster_dtype dtype);
/* The largest |result - exact| / (1 + |exact|) for a result of the dtype. */
double ops_precision(muster_dtype dtype);
/* The same for results that even halves hold exactly, such as small integers. */
double ops_tightest(muster_dtype dtype);
void ops_assert_near(double value, double expected, double tolerance);

#endif
