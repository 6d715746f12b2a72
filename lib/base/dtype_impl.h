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
/* The bits of an address that are 0 where elements of this dtype are aligned: its size - 1. The
 * dtype is known. */
static inline uintptr_t mst_dtype_misaligned(muster_dtype dtype) {
#define MST_FOUR_BITS(dtype, size) ((uint64_t)((size)-1) << 4 * (dtype))
    const uint64_t sizes = MST_FOUR_BITS(MUSTER_F16, 2) | MST_FOUR_BITS(MUSTER_BF16, 2) | MST_FOUR_BITS(MUSTER_F32, 4) |
                           MST_FOUR_BITS(MUSTER_F64, 8) | MST_FOUR_BITS(MUSTER_I16, 2) | MST_FOUR_BITS(MUSTER_I32, 4) |
                           MST_FOUR_BITS(MUSTER_I64, 8) | MST_FOUR_BITS(MUSTER_U32, 4) | MST_FOUR_BITS(MUSTER_U64, 8);
#undef MST_FOUR_BITS
    return (uintptr_t)(sizes >> 4 * dtype & 15);
}
/* Can `to` represent every value of `from`? */
bool mst_dtype_upcasts(muster_dtype from, muster_dtype to);

#endif
