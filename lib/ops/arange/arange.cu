#include "tensor.cuh"

#include "arange_parameters_private.h"

#define CASE(NAME, type)                                                                  \
    case MUSTER_##NAME:                                                                   \
        MST_EACH(i, p.count) {                                                            \
            int64_t offset[1];                                                            \
            mst_offsets<1>(p.iterator, i, offset);                                        \
            *(type *)(y + offset[0]) = mst_##NAME##_of_f64(p.alpha + (double)i * p.beta); \
        }                                                                                 \
        return;

MST_KERNEL(mst_arange, mst_element_parameters) {
    char *y = MST_ADDRESS(char, p.iterator.base[0]);
    const bool integers = p.dtype == MUSTER_I64 || p.dtype == MUSTER_U64;
    if (integers && mst_arange_is_integer(p.alpha, p.beta, p.count)) {
        MST_EACH(i, p.count) {
            int64_t offset[1];
            mst_offsets<1>(p.iterator, i, offset);
            *(uint64_t *)(y + offset[0]) = mst_arange_integer(p.alpha, p.beta, i, p.dtype == MUSTER_U64);
        }
        return;
    }
    switch (p.dtype) {
        CASE(F16, uint16_t)
        CASE(BF16, uint16_t)
        CASE(F32, float)
        CASE(F64, double)
        CASE(I8, int8_t)
        CASE(I16, int16_t)
        CASE(I32, int32_t)
        CASE(I64, int64_t)
        CASE(U8, uint8_t)
        CASE(U32, uint32_t)
        CASE(U64, uint64_t)
    }
}
#undef CASE
