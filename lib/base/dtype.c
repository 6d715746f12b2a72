/* The table of element types. */
#include "dtype_impl.h"

typedef enum { KIND_NONE, KIND_FLOAT, KIND_SIGNED, KIND_UNSIGNED, KIND_BOOL } dtype_kind;

/* digits: the number of bits of the integers that the type holds exactly (the significand of a
 * float, the value bits of an integer). */
typedef struct dtype_row {
    const char *name;
    dtype_kind kind;
    int8_t size, digits, exponent_bits;
} dtype_row;

static const dtype_row rows[MST_DTYPE_COUNT] = {
    [MUSTER_DTYPE_NONE] = {"none", KIND_NONE, 0, 0, 0}, [MUSTER_F16] = {"f16", KIND_FLOAT, 2, 11, 5},
    [MUSTER_BF16] = {"bf16", KIND_FLOAT, 2, 8, 8},      [MUSTER_F32] = {"f32", KIND_FLOAT, 4, 24, 8},
    [MUSTER_F64] = {"f64", KIND_FLOAT, 8, 53, 11},      [MUSTER_I8] = {"i8", KIND_SIGNED, 1, 7, 0},
    [MUSTER_U8] = {"u8", KIND_UNSIGNED, 1, 8, 0},       [MUSTER_I16] = {"i16", KIND_SIGNED, 2, 15, 0},
    [MUSTER_I32] = {"i32", KIND_SIGNED, 4, 31, 0},      [MUSTER_I64] = {"i64", KIND_SIGNED, 8, 63, 0},
    [MUSTER_U32] = {"u32", KIND_UNSIGNED, 4, 32, 0},    [MUSTER_U64] = {"u64", KIND_UNSIGNED, 8, 64, 0},
    [MUSTER_BOOL] = {"bool", KIND_BOOL, 1, 1, 0},
};

static const dtype_row *find_row(muster_dtype dtype) { return &rows[dtype >= 0 && dtype < MST_DTYPE_COUNT ? dtype : MUSTER_DTYPE_NONE]; }

int64_t muster_dtype_size(muster_dtype dtype) { return find_row(dtype)->size; }

const char *muster_dtype_name(muster_dtype dtype) { return dtype >= 0 && dtype < MST_DTYPE_COUNT ? rows[dtype].name : "unknown"; }

bool mst_dtype_is_float(muster_dtype dtype) { return find_row(dtype)->kind == KIND_FLOAT; }

muster_dtype mst_dtype_compute(muster_dtype dtype) { return dtype == MUSTER_F16 || dtype == MUSTER_BF16 ? MUSTER_F32 : dtype; }

bool mst_dtype_upcasts(muster_dtype from_dtype, muster_dtype to_dtype) {
    const dtype_row *from = find_row(from_dtype), *to = find_row(to_dtype);
    if (from->kind == KIND_NONE || to->kind == KIND_NONE) return false;
    if (from_dtype == to_dtype) return true;
    if (to->kind == KIND_BOOL || from->digits > to->digits) return false;
    switch (from->kind) {
    case KIND_FLOAT:
        return to->kind == KIND_FLOAT && from->exponent_bits <= to->exponent_bits;
    case KIND_SIGNED:
        return to->kind != KIND_UNSIGNED;
    default:
        return true; /* the range of every float type exceeds the integers of its digits */
    }
}
