/* Properties of element types that the library needs internally. */
#ifndef MST_DTYPE_IMPL_H
#define MST_DTYPE_IMPL_H

#include "muster/dtype.h"

#include <stdbool.h>

/* The number of rows of a table that has one row per dtype, MUSTER_DTYPE_NONE included. Not public,
 * since it grows with each new dtype. */
enum { MST_DTYPE_COUNT = MUSTER_BOOL + 1 };

bool mst_dtype_is_float(muster_dtype dtype);
/* The dtype in which values are accumulated: f32 for f16 and bf16, else the same. */
muster_dtype mst_dtype_compute(muster_dtype dtype);
/* Can `to` represent every value of `from`? */
bool mst_dtype_upcasts(muster_dtype from, muster_dtype to);

#endif
