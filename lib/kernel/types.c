#include "types_private.h"

#include <string.h>

typedef struct type_row {
    int32_t type, bytes;
    const char *name, *in_text;
    const char *in_files; /* numpy's names, each with blanks around */
} type_row;

static const type_row rows[] = {
    {MUSTER_PARAMETER_BUFFER, 0, "buffer", NULL, " * "},
    {MUSTER_PARAMETER_SIZE, 8, "ga_size", "ga_size", " size "},
    {MUSTER_PARAMETER_SSIZE, 8, "ga_ssize", "ga_ssize", " ssize "},
    {MUSTER_PARAMETER_USHORT, 2, "ga_ushort", "ga_ushort", " uint16 u2 ushort H "},
    {MUSTER_F16, 2, "f16", "ga_half", " float16 f2 half e "},
    {MUSTER_BF16, 2, "bf16", "ga_bf16", " bfloat16 "},
    {MUSTER_F32, 4, "f32", "ga_float", " float32 f4 single f "},
    {MUSTER_F64, 8, "f64", "ga_double", " float64 f8 double float d "},
    {MUSTER_I8, 1, "i8", "ga_byte", " int8 i1 byte b "},
    {MUSTER_U8, 1, "u8", "ga_ubyte", " uint8 u1 ubyte B "},
    {MUSTER_I16, 2, "i16", "ga_short", " int16 i2 short h "},
    {MUSTER_I32, 4, "i32", "ga_int", " int32 i4 intc i "},
    {MUSTER_I64, 8, "i64", "ga_long", " int64 i8 longlong int_ long int intp q l p "},
    {MUSTER_U32, 4, "u32", "ga_uint", " uint32 u4 uintc I "},
    {MUSTER_U64, 8, "u64", "ga_ulong", " uint64 u8 ulonglong uint ulong uintp Q L P "},
    {MUSTER_BOOL, 1, "bool", "ga_bool", " bool bool_ b1 ? "},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const type_row *type_find(int32_t type) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type) return &rows[i];
    return NULL;
}

bool mst_type_known(int32_t type) { return type_find(type) != NULL; }

int32_t mst_type_bytes(int32_t type) {
    const type_row *row = type_find(type);
    return row ? row->bytes : 0;
}

const char *mst_type_name(int32_t type) {
    const type_row *row = type_find(type);
    return row ? row->name : "an unknown type";
}

const char *mst_type_in_source(int32_t type) {
    const type_row *row = type_find(type);
    return row ? row->in_text : NULL;
}

uint32_t mst_type_needs(int32_t type) {
    int32_t bytes = mst_type_bytes(type);
    return (type == MUSTER_F64 ? MST_NEEDS_DOUBLE : 0) | (type == MUSTER_F16 ? MST_NEEDS_HALF : 0) |
           (bytes == 1 || bytes == 2 ? MST_NEEDS_SMALL : 0);
}

/* Is `name` one of the words of `list`? */
static bool listed(const char *list, const char *name, int64_t length) {
    for (const char *at = list; (at = memmem(at, strlen(at), name, (size_t)length)); at++)
        if (at[-1] == ' ' && at[length] == ' ') return true;
    return false;
}

/* Buffers and sizes are no types of numpy's. */
static bool type_has_byte_order(int32_t type) {
    return type != MUSTER_PARAMETER_BUFFER && type != MUSTER_PARAMETER_SIZE && type != MUSTER_PARAMETER_SSIZE;
}

int32_t mst_type_find(const char *name, int64_t length, bool *complex) {
    *complex = false;
    /* numpy's marks of this machine's byte order */
    const bool has_byte_order = length > 1 && (*name == '<' || *name == '=' || *name == '|');
    if (has_byte_order) name++, length--;
    if (length < 1 || memchr(name, ' ', (size_t)length)) return -1;
    for (int i = 0; i < ROWS; i++)
        if (listed(rows[i].in_files, name, length)) return has_byte_order && !type_has_byte_order(rows[i].type) ? -1 : rows[i].type;
    *complex = listed(" complex complex64 complex128 complex256 c8 c16 c32 csingle cdouble clongdouble F D G ", name, length);
    return -1;
}

/* ---- flags ---- */

static const struct {
    const char *name;
    uint32_t needs; /* 0: no device can provide it */
} flags[] = {
    {"GA_USE_DOUBLE", MST_NEEDS_DOUBLE}, {"GA_USE_SMALL", MST_NEEDS_SMALL},   {"GA_USE_HALF", MST_NEEDS_HALF | MST_NEEDS_SMALL},
    {"GA_USE_CUDA", MST_NEEDS_CUDA},     {"GA_USE_OPENCL", MST_NEEDS_OPENCL}, {"GA_USE_COMPLEX", 0},
};

static bool type_is_blank(char c) { return c == ' ' || c == '\t'; }

static const char *read_flag(const char *name, int64_t length, uint32_t *needs) {
    if (length == 0) return "expected a flag";
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if ((int64_t)strlen(flags[i].name) != length || memcmp(flags[i].name, name, (size_t)length) != 0) continue;
        if (!flags[i].needs) return "expected flags that some device honours (there are no complex types: pass real and imaginary parts)";
        *needs |= flags[i].needs;
        return NULL;
    }
    return "expected GA_USE_DOUBLE, GA_USE_SMALL, GA_USE_HALF, GA_USE_CUDA or GA_USE_OPENCL";
}

const char *mst_flags_read(const char *text, int64_t bytes, uint32_t *needs, int64_t *at, int64_t *length) {
    uint32_t read = 0;
    int64_t begin = 0, end = bytes;
    while (begin < end && type_is_blank(text[begin])) begin++;
    while (end > begin && type_is_blank(text[end - 1])) end--;
    *needs = 0;
    *at = begin;
    *length = end - begin;
    if (begin == end || (end - begin == 1 && text[begin] == '0')) return NULL;
    for (int64_t from = begin; from <= end;) {
        const char *bar = memchr(text + from, '|', (size_t)(end - from));
        int64_t to = bar ? bar - text : end, first = from, last = to;
        while (first < last && type_is_blank(text[first])) first++;
        while (last > first && type_is_blank(text[last - 1])) last--;
        const char *wrong = read_flag(text + first, last - first, &read);
        if (wrong) {
            *at = first;
            *length = last - first;
            return wrong;
        }
        from = to + 1;
    }
    if ((read & MST_NEEDS_CUDA) && (read & MST_NEEDS_OPENCL)) return "expected GA_USE_CUDA or GA_USE_OPENCL, which no device is both of";
    *needs = read;
    return NULL;
}
