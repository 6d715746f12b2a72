/* Copies, with or without conversion. */
#include "tensor.cuh"

template <typename D> static inline void copy_bits(const mst_element_parameters &p) {
    typedef typename D::computed C;
    mst_map<D, 1>(p.iterator, p.count, [](const C *v) -> C { return v[0]; });
}

/* Every source is loaded as one of four wide kinds that holds it exactly. What is stored is chosen
 * inside the loop: 144 loops would take minutes to compile. */
#define STORE(wide, wide_type)                                              \
    MST_OUTLINE void copy_store(int32_t dtype, char *to, wide_type value) { \
        switch (dtype) {                                                    \
        case MUSTER_F16:                                                    \
            *(uint16_t *)to = mst_F16_of_##wide(value);                     \
            break;                                                          \
        case MUSTER_BF16:                                                   \
            *(uint16_t *)to = mst_BF16_of_##wide(value);                    \
            break;                                                          \
        case MUSTER_F32:                                                    \
            *(float *)to = mst_F32_of_##wide(value);                        \
            break;                                                          \
        case MUSTER_F64:                                                    \
            *(double *)to = mst_F64_of_##wide(value);                       \
            break;                                                          \
        case MUSTER_I8:                                                     \
            *(int8_t *)to = mst_I8_of_##wide(value);                        \
            break;                                                          \
        case MUSTER_U8:                                                     \
            *(uint8_t *)to = mst_U8_of_##wide(value);                       \
            break;                                                          \
        case MUSTER_I16:                                                    \
            *(int16_t *)to = mst_I16_of_##wide(value);                      \
            break;                                                          \
        case MUSTER_I32:                                                    \
            *(int32_t *)to = mst_I32_of_##wide(value);                      \
            break;                                                          \
        case MUSTER_I64:                                                    \
            *(int64_t *)to = mst_I64_of_##wide(value);                      \
            break;                                                          \
        case MUSTER_U32:                                                    \
            *(uint32_t *)to = mst_U32_of_##wide(value);                     \
            break;                                                          \
        case MUSTER_U64:                                                    \
            *(uint64_t *)to = mst_U64_of_##wide(value);                     \
            break;                                                          \
        default:                                                            \
            *(uint8_t *)to = mst_BOOL_of_##wide(value);                     \
            break;                                                          \
        }                                                                   \
    }
STORE(f32, float)
STORE(f64, double)
STORE(i64, int64_t)
STORE(u64, uint64_t)
#undef STORE

template <typename D, typename WIDE> static inline void copy_converted(const mst_element_parameters &p) {
    const char *x = MST_ADDRESS(char, p.iterator.base[0]);
    char *y = MST_ADDRESS(char, p.iterator.base[1]);
    MST_EACH(i, p.count) {
        int64_t offset[2];
        mst_offsets<2>(p.iterator, i, offset);
        copy_store(p.dtype, y + offset[1], (WIDE)D::load(*(const typename D::stored *)(x + offset[0])));
    }
}

MST_KERNEL(mst_copy, mst_element_parameters) {
    if (p.op == 0) {
        switch (p.element) { /* bytes of an element */
        case 1:
            return copy_bits<mst_bits8>(p);
        case 2:
            return copy_bits<mst_bits16>(p);
        case 4:
            return copy_bits<mst_bits32>(p);
        default:
            return copy_bits<mst_bits64>(p);
        }
    }
    switch (p.op) {
    case MUSTER_F16:
        return copy_converted<mst_f16, float>(p);
    case MUSTER_BF16:
        return copy_converted<mst_bf16, float>(p);
    case MUSTER_F32:
        return copy_converted<mst_f32, float>(p);
    case MUSTER_F64:
        return copy_converted<mst_f64, double>(p);
    case MUSTER_I8:
        return copy_converted<mst_i8, int64_t>(p);
    case MUSTER_U8:
        return copy_converted<mst_u8, int64_t>(p);
    case MUSTER_I16:
        return copy_converted<mst_i16, int64_t>(p);
    case MUSTER_I32:
        return copy_converted<mst_i32, int64_t>(p);
    case MUSTER_I64:
        return copy_converted<mst_i64, int64_t>(p);
    case MUSTER_U32:
        return copy_converted<mst_u32, int64_t>(p);
    case MUSTER_U64:
        return copy_converted<mst_u64, uint64_t>(p);
    case MUSTER_BOOL:
        return copy_converted<mst_bool, int64_t>(p);
    }
}
