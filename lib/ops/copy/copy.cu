/* Copies, with or without conversion. */
#include "tensor.cuh"

template <typename D> static inline void copy_bits(const mst_element_parameters &p) {
    typedef typename D::computed C;
    mst_map<D, 1>(p.iterator, p.count, [](const C *v) -> C { return v[0]; });
}

/* A source element is loaded as one of four wide types that holds it exactly. The loop chooses the
 * type that is stored, because 144 loops would take minutes to compile. */
#define CASE(NAME, type, wide)                       \
    case MUSTER_##NAME:                              \
        *(type *)to = mst_##NAME##_of_##wide(value); \
        break;
#define FLOAT_CASES(wide) CASE(F16, uint16_t, wide) CASE(BF16, uint16_t, wide) CASE(F32, float, wide) CASE(F64, double, wide)
#define SIGNED_CASES(wide) CASE(I8, int8_t, wide) CASE(I16, int16_t, wide) CASE(I32, int32_t, wide) CASE(I64, int64_t, wide)
#define UNSIGNED_CASES(wide) CASE(U8, uint8_t, wide) CASE(U32, uint32_t, wide) CASE(U64, uint64_t, wide)
#define STORE(wide, wide_type)                                                                                 \
    MST_OUTLINE void copy_store(int32_t dtype, char *to, wide_type value) {                                    \
        switch (dtype) { FLOAT_CASES(wide) SIGNED_CASES(wide) UNSIGNED_CASES(wide) CASE(BOOL, uint8_t, wide) } \
    }
STORE(f32, float)
STORE(f64, double)
STORE(i64, int64_t)
STORE(u64, uint64_t)
#undef STORE
#undef FLOAT_CASES
#undef SIGNED_CASES
#undef UNSIGNED_CASES
#undef CASE

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
