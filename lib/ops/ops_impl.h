/* What other rooms need of the operations. */
#ifndef MST_OPS_IMPL_H
#define MST_OPS_IMPL_H

#include "code_impl.h"
#include "muster/ops.h"
#include "pool_impl.h"
#include "tensor_impl.h"

/* Is `op` defined on `dtype`? The one table of dtype x reduction; refuses with "<where>: avg of i32
 * is refused: ..." */
muster_status mst_reduction_check(muster_reduction op, muster_dtype dtype, const char *where);
const char *mst_reduction_name(muster_reduction op);

/* Host memory, contiguous. accumulator (in mst_dtype_compute(dtype)) = identity of op (0 for sum
 * and avg, 1, lowest, highest). */
void mst_reduction_identity(muster_reduction op, muster_dtype compute_dtype, void *accumulator, int64_t count);
/* accumulator[i] = op(accumulator[i], scale * values[i]); values in `dtype`, accumulator in its
 * compute dtype. scale is used by MUSTER_AVG only (float dtypes). first: accumulator[i] = scale *
 * values[i] without reading it. */
void mst_reduction_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *values, int64_t count, double scale,
                              bool first);

/* x[i] = y[i] = a[i] and then b[i] accumulated, and rounded once, in one pass; all in `dtype`. y
 * may be NULL; x and y may be a or b themselves. */
void mst_reduction_pair(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                        double scale);
/* The same past the cache, complete on return: for results that would have left it before anybody
 * reads them. x and y aligned to 16 bytes and no inputs. */
void mst_reduction_pair_stream(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                               double scale);
/* x[i] = y[i] = parameter[i] + alpha * (a[i] + b[i]) in the compute dtype, each step rounded there;
 * all in `dtype`, a float. y may be NULL; x or y may be parameter. */
void mst_reduction_update_pair(muster_dtype dtype, void *x, void *y, const void *parameter, const void *a, const void *b, int64_t count,
                               double alpha);
/* The same of a sum in the compute dtype: x[i] = parameter[i] + alpha * sum[i]. */
void mst_reduction_update(muster_dtype dtype, void *x, const void *parameter, const void *sum, int64_t count, double alpha);

/* velocity[i] = beta * velocity[i] + alpha * sum[i], stored in `dtype`; x[i] = parameter[i] +
 * velocity[i]. sum in the compute dtype. */
void mst_reduction_momentum(muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum, int64_t count,
                            double alpha, double beta);

/* mst_reduction_accumulate on the worker's device, in its order: accumulator and values are device
 * addresses. */
muster_status mst_worker_accumulate(muster_worker *worker, muster_reduction op, muster_dtype dtype, void *accumulator, const void *values,
                                    int64_t count, double scale, bool first);
/* Device addresses, contiguous: to (dtype) = converted from (from_dtype). */
muster_status mst_worker_convert(muster_worker *worker, muster_dtype dtype, void *to, muster_dtype from_dtype, const void *from,
                                 int64_t count);
/* The same of mst_reduction_update, or of mst_reduction_momentum where there is a velocity. */
muster_status mst_worker_update(muster_worker *worker, muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum,
                                int64_t count, double alpha, double beta);
/* Device addresses: row i of `to` = row indices[i] of `from`. The indices, in the device's memory,
 * too, have been checked. */
muster_status mst_worker_gather_rows(muster_worker *worker, void *to, const void *from, int64_t row_bytes, const int64_t *indices,
                                     int64_t count);

/* The device code of all operations. */
extern const mst_code_texts mst_ops_code;

#endif
