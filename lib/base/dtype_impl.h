/* What the library asks of element types. */
#ifndef MST_DTYPE_IMPL_H
#define MST_DTYPE_IMPL_H

#include "muster/dtype.h"

#include <stdbool.h>

/* Of tables with a row for every dtype, MUSTER_DTYPE_NONE the first. Not public: it grows with each
 * new dtype. */
enum { MST_DTYPE_COUNT = MUSTER_BOOL + 1 };

bool mst_dtype_is_float(muster_dtype dtype);
/* The dtype in which values are accumulated: f32 for f16 and bf16, else the same. */
muster_dtype mst_dtype_compute(muster_dtype dtype);
/* May every value of `from` be represented in `to`? */
bool mst_dtype_upcasts(muster_dtype from, muster_dtype to);

#endif
