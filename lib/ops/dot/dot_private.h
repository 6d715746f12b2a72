/* Dot products by device code, for dot.c and squares.c. */
#ifndef MST_DOT_PRIVATE_H
#define MST_DOT_PRIVATE_H

#include "../op_impl.h"

/* result, a scalar of f32 or f64, = the dot product of two vectors of f32 or f64, summed in f64. */
muster_status mst_dot_issue(muster_worker *worker, const muster_tensor *x, const muster_tensor *y, const muster_tensor *result);
/* The dot product of n elements of f32 or f64 on the host, summed in f64; strides in elements. */
double mst_dot_host(muster_dtype dtype, const void *x, int64_t x_stride, const void *y, int64_t y_stride, int64_t n);

#endif
