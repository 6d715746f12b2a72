/* The functions of this module that other modules use. */
#ifndef MST_OPS_IMPL_H
#define MST_OPS_IMPL_H

#include "code_impl.h"
#include "muster/ops.h"
#include "tensor_impl.h"
#include "worker_impl.h"

/* Is `op` defined on `dtype`? The only table of dtype x reduction. The error is "<where>: avg of
 * i32 is refused: ..." */
muster_status mst_reduction_check(muster_reduction op, muster_dtype dtype, const char *where);
/* The same for a function whose argument has another name than "op". */
muster_status mst_reduction_check_as(const char *what, muster_reduction op, muster_dtype dtype, const char *where);
const char *mst_reduction_name(muster_reduction op);

/* For contiguous host memory. Sets the accumulator, whose dtype is mst_dtype_compute(dtype), to the
 * identity of op: 0 for sum and avg, 1 for prod, the lowest value for max, the highest for min. */
void mst_reduction_identity(muster_reduction op, muster_dtype compute_dtype, void *accumulator, int64_t count);
/* The same as a number, which becomes the identity when it is converted to the dtype. */
double mst_reduction_identity_number(muster_reduction op, muster_dtype dtype);
/* accumulator[i] = op(accumulator[i], scale * values[i]). The values have `dtype`, the accumulator
 * its compute dtype. Only MUSTER_AVG, which is for float dtypes, uses scale. With `first` the
 * accumulator is not read: accumulator[i] = scale * values[i]. */
void mst_reduction_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *values, int64_t count, double scale,
                              bool first);

/* In one pass: x[i] = y[i] = the result of accumulating a[i] and then b[i] as
 * mst_reduction_accumulate does, rounded once. All have `dtype`. y may be NULL; x and y may be a or
 * b themselves. */
void mst_reduction_pair(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                        double scale);
/* The same with stores that bypass the cache, complete on return; for results that would leave the
 * cache before they are read. x and y are aligned to 16 bytes and are not inputs. */
void mst_reduction_pair_stream(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                               double scale);
/* x[i] = y[i] = parameter[i] + alpha * (a[i] + b[i]). Each operation is computed and rounded in the
 * compute dtype. All have `dtype`, a float dtype. y may be NULL; x or y may be parameter. */
void mst_reduction_update_pair(muster_dtype dtype, void *x, void *y, const void *parameter, const void *a, const void *b, int64_t count,
                               double alpha);
/* The same with y, which is aligned to 16 bytes, written by stores that bypass the cache, complete
 * on return. */
void mst_reduction_update_stream(muster_dtype dtype, void *x, void *y, const void *parameter, const void *a, const void *b, int64_t count,
                                 double alpha);
/* The same for a sum that has the compute dtype: x[i] = parameter[i] + alpha * sum[i]. */
void mst_reduction_update(muster_dtype dtype, void *x, const void *parameter, const void *sum, int64_t count, double alpha);

/* velocity[i] = beta * velocity[i] + alpha * sum[i], stored in `dtype`; then x[i] = parameter[i] +
 * velocity[i]. The sum has the compute dtype. */
void mst_reduction_momentum(muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum, int64_t count,
                            double alpha, double beta);

/* In one pass: velocity[i] = beta * velocity[i] + alpha * (a[i] + b[i]); then x[i] = y[i] =
 * parameter[i] + velocity[i]. The bits are those of mst_reduction_momentum. All have `dtype`, a
 * float dtype. y may be NULL; x may be parameter. */
void mst_reduction_momentum_pair(muster_dtype dtype, void *x, void *y, const void *parameter, void *velocity, const void *a, const void *b,
                                 int64_t count, double alpha, double beta);
/* The same with y, which is aligned to 16 bytes, written by stores that bypass the cache, complete
 * on return. */
void mst_reduction_momentum_stream(muster_dtype dtype, void *x, void *y, const void *parameter, void *velocity, const void *a,
                                   const void *b, int64_t count, double alpha, double beta);

/* Fills y, f32 or f64 in host memory, with the numbers of muster_random_uniform, or `normal`. */
void mst_random_numbers(uint64_t seed, uint64_t first_index, bool normal, double mean, double deviation, muster_tensor y);

/* mst_reduction_accumulate on the worker's device, in the order of its queue. accumulator and
 * values are device addresses. */
muster_status mst_worker_accumulate(muster_worker *worker, muster_reduction op, muster_dtype dtype, void *accumulator, const void *values,
                                    int64_t count, double scale, bool first);
/* Converts `count` contiguous elements of from_dtype at `from` to dtype at `to`. Both are device
 * addresses. */
muster_status mst_worker_convert(muster_worker *worker, muster_dtype dtype, void *to, muster_dtype from_dtype, const void *from,
                                 int64_t count);
/* mst_reduction_update on the worker's device, or mst_reduction_momentum if velocity is not NULL.
 * All are device addresses. */
muster_status mst_worker_update(muster_worker *worker, muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum,
                                int64_t count, double alpha, double beta);
/* muster_take where x has only the rows from index `first` on, of `total`: y becomes 0, of floats
 * -0, where the index lies elsewhere: what is added to it keeps its bits. The same for
 * muster_scatter_add, where y has only these rows: what belongs elsewhere is left out. Both refuse
 * an index outside of [0, total). MST_INDICES_CHECKED as total: the caller has checked the
 * indices. */
enum { MST_INDICES_CHECKED = -1 };
muster_status mst_worker_take_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                   muster_tensor y);
muster_status mst_worker_scatter_add_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                          muster_tensor y);
/* Refuses an index outside of [0, bound) of the contiguous vector. The message names the function
 * muster_expr_NAME and its argument `what`; both live as long as the library. Waits for the device,
 * since a bad index is an error of this call. */
muster_status mst_worker_check_indices(muster_worker *worker, muster_tensor indices, int64_t bound, const char *name, const char *what);
/* Row i of `to` = row indices[i] of `from`. All are device addresses. The caller has checked the
 * indices. */
muster_status mst_worker_gather_rows(muster_worker *worker, void *to, const void *from, int64_t row_bytes, const int64_t *indices,
                                     int64_t count);

/* Operations without their checks, for a caller whose operands the checks would accept. */
/* y = A x, as muster_gemv. x and y may also be matrices of one column. */
muster_status mst_gemv_launch(muster_worker *worker, const muster_tensor *a, const muster_tensor *x, const muster_tensor *y);
/* The dtype of sums and products of this dtype: 64 bits for integers, i64 for truth values. */
muster_dtype mst_dtype_summed(muster_dtype dtype);
/* muster_reduce_axes; bit d of `axes` for axis d, length: the number of elements of each result. An
 * average is the sum divided by `all`. y may have more dtypes than muster_reduce takes: of sums
 * and products of integers and truth values any integer dtype (the low bits) and f64. */
muster_status mst_reduce_launch(muster_worker *worker, muster_reduction op, const muster_tensor *x, uint32_t axes, const muster_tensor *y,
                                int64_t length, int64_t all);
/* muster_cumsum; y may have more dtypes: of integers and truth values any integer dtype (the low
 * bits). */
muster_status mst_cumsum_launch(muster_worker *worker, const muster_tensor *x, int32_t axis, const muster_tensor *y);

/* The kernel sources of all operations. */
extern const mst_code_sources mst_ops_code;

#endif
