/* muster/dtype.h: element types. */
#ifndef MUSTER_DTYPE_H
#define MUSTER_DTYPE_H

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Frozen numbers. f16 is IEEE binary16; bf16 is the upper half of binary32. Both are
 * storage types: arithmetic on them is done in f32 and rounded once, to nearest, ties to even. bool
 * is one byte, 0 or 1. */
typedef int32_t muster_dtype;
enum muster_dtype_value {
    MUSTER_DTYPE_NONE = 0,
    MUSTER_F16 = 1,
    MUSTER_BF16 = 2,
    MUSTER_F32 = 3,
    MUSTER_F64 = 4,
    MUSTER_I8 = 5,
    MUSTER_U8 = 6,
    MUSTER_I16 = 7,
    MUSTER_I32 = 8,
    MUSTER_I64 = 9,
    MUSTER_U32 = 10,
    MUSTER_U64 = 11,
    MUSTER_BOOL = 12,
};

/* The size of one element in bytes; 0 for a number that is no dtype. Threads: any. */
MUSTER_API int64_t muster_dtype_size(muster_dtype dtype);
/* A name such as "f32"; "unknown" for a number that is no dtype. Threads: any. */
MUSTER_API const char *muster_dtype_name(muster_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
