/* Running products: a recurrence of the first order along each row of a matrix. */
#ifndef MST_RECURRENCE_IMPL_H
#define MST_RECURRENCE_IMPL_H

#include "muster/tensor.h"
#include "muster/worker.h"

#include <stdbool.h>

/* For each row of a, (n, k): e = first; at each j e becomes a[j] e + b[j]. y[j] = e after that if
 * `inclusive`, else e before it. b NULL: 0. All are f32, f64, i64 or u64, of one shape, with any
 * strides; y overlaps neither a nor b. f32 is computed in f64 and rounded once; integers wrap
 * around. The operands are not checked. */
muster_status mst_recurrence(muster_worker *worker, const muster_tensor *a, const muster_tensor *b, double first, bool inclusive,
                             const muster_tensor *y);

#endif
