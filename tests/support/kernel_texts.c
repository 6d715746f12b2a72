#include "kernel_texts.h"

#include "muster/kernel.h"

#include <string.h>

/* ---- of the ancestor, unchanged ---- */

/* "Extending Theano with a GPU Op" */
static const char diagonal[] = "\n"
                               "    KERNEL void k(GLOBAL_MEM ga_double *a, ga_size n, ga_size m) {\n"
                               "        ga_size nb = n < m ? n : m;\n"
                               "        for (ga_size i = LID_0; i < nb; i += LDIM_0) {\n"
                               "            a[i*m + i] = 1;\n"
                               "        }\n"
                               "    }";

/* Theano's GpuEye. */
const char kernel_file_eye[] = "#section kernels\n"
                               "\n"
                               "#kernel eye : *, size, size, size, ssize :\n"
                               "#include \"cluda.h\"\n"
                               "\n"
                               "KERNEL void eye(GLOBAL_MEM DTYPE_OUTPUT_0 *a, ga_size a_off, ga_size n, ga_size m, ga_ssize k) {\n"
                               "    a = (GLOBAL_MEM DTYPE_OUTPUT_0 *)(((GLOBAL_MEM char *)a) + a_off);\n"
                               "    ga_ssize coff = max(k, (ga_ssize) 0);\n"
                               "    ga_ssize roff = -min(k, (ga_ssize) 0);\n"
                               "    ga_size nb = (ga_size) min(n - roff, m - coff);\n"
                               "    for (ga_size i = LID_0; i < nb; i += LDIM_0) {\n"
                               "        a[(i + roff)*m + i + coff] = MUSTER_STORE(DTYPE_OUTPUT_0, 1);\n"
                               "    }\n"
                               "}\n";

/* ---- by the number of elements ---- */

static const char inc[] = "KERNEL void inc(const ga_size n, GLOBAL_MEM ga_float *x) {\n"
                          "    MUSTER_EACH(i, n) x[i] += 1;\n"
                          "}\n";
/* The ancestor's "+1" kernel as it was meant: with GLOBAL_MEM and a bound. */
static const char inc_half[] = "#include \"cluda.h\"\n"
                               "KERNEL void inc_half(const ga_size n, GLOBAL_MEM ga_half *x, GLOBAL_MEM ga_half *y) {\n"
                               "    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < n; i += GDIM_0 * LDIM_0) {\n"
                               "        ga_float z = ga_half2float(x[i]);\n"
                               "        z += 1;\n"
                               "        y[i] = ga_float2half(z);\n"
                               "    }\n"
                               "}\n";
static const char half_tables[] =
    "KERNEL void half_tables(GLOBAL_MEM ga_half *halves, GLOBAL_MEM ga_float *floats, GLOBAL_MEM ga_half *back, ga_size n) {\n"
    "    MUSTER_EACH(i, n) {\n"
    "        floats[i] = ga_half2float(halves[i]);\n"
    "        back[i] = ga_float2half(ga_half2float(ga_float2half(ga_half2float(halves[i]))));\n"
    "    }\n"
    "}\n";
static const char to_half[] = "KERNEL void to_half(GLOBAL_MEM ga_float *x, GLOBAL_MEM ga_half *y, ga_size n) {\n"
                              "    MUSTER_EACH(i, n) y[i] = ga_float2half(x[i]);\n"
                              "}\n";
static const char bf16_tables[] =
    "KERNEL void bf16_tables(GLOBAL_MEM ga_bf16 *halves, GLOBAL_MEM ga_float *floats, GLOBAL_MEM ga_bf16 *back, ga_size n) {\n"
    "    MUSTER_EACH(i, n) {\n"
    "        floats[i] = ga_bf162float(halves[i]);\n"
    "        back[i] = ga_float2bf16(ga_bf162float(halves[i]));\n"
    "    }\n"
    "}\n";
static const char to_bf16[] = "KERNEL void to_bf16(GLOBAL_MEM ga_float *x, GLOBAL_MEM ga_bf16 *y, ga_size n) {\n"
                              "    MUSTER_EACH(i, n) y[i] = ga_float2bf16(x[i]);\n"
                              "}\n";

/* Whatever the types: y = x + 1. */
const char kernel_file_generic[] = "#section device\n"
                                   "WITHIN_KERNEL MUSTER_WORK(DTYPE_INPUT_0) more(MUSTER_WORK(DTYPE_INPUT_0) x) { return x + 1; }\n"
                                   "#section kernels\n"
                                   "#kernel one_more : *, *, size :\n"
                                   "KERNEL void one_more(GLOBAL_MEM DTYPE_INPUT_0 *x, GLOBAL_MEM DTYPE_OUTPUT_0 *y, ga_size n) {\n"
                                   "    MUSTER_EACH(i, n) y[i] = MUSTER_STORE(DTYPE_OUTPUT_0, more(MUSTER_LOAD(DTYPE_INPUT_0, x[i])));\n"
                                   "}\n";

/* ---- parameters ---- */

static const char every_type[] = "KERNEL void every_type(GLOBAL_MEM ga_ulong *out, ga_byte b, ga_ubyte B, ga_short h, ga_ushort H, ga_int "
                                 "i, ga_uint I, ga_long l, ga_ulong L,\n"
                                 "                       ga_size s, ga_ssize t, ga_bool o, GLOBAL_MEM ga_double *real, ga_float f, "
                                 "ga_double d, ga_half e, ga_bf16 g) {\n"
                                 "    if (MUSTER_GLOBAL_ID_0 != 0) return;\n"
                                 "    out[0] = (ga_ulong)(ga_long)b;\n"
                                 "    out[1] = B;\n"
                                 "    out[2] = (ga_ulong)(ga_long)h;\n"
                                 "    out[3] = H;\n"
                                 "    out[4] = (ga_ulong)(ga_long)i;\n"
                                 "    out[5] = I;\n"
                                 "    out[6] = (ga_ulong)l;\n"
                                 "    out[7] = L;\n"
                                 "    out[8] = s;\n"
                                 "    out[9] = (ga_ulong)t;\n"
                                 "    out[10] = o;\n"
                                 "    real[0] = f;\n"
                                 "    real[1] = d;\n"
                                 "    real[2] = ga_half2float(e);\n"
                                 "    real[3] = ga_bf162float(g);\n"
                                 "}\n";
static const char no_parameters[] = "KERNEL void no_parameters() {}\n";
static const char constants[] =
    "KERNEL void constants(GLOBAL_MEM ga_float *f, GLOBAL_MEM ga_double *d) {\n"
    "    GLOBAL_MEM ga_float *none = NULL;\n"
    "    f[0] = INFINITY;\n"
    "    f[1] = -INFINITY;\n"
    "    f[2] = NAN;\n"
    "    f[3] = MAXFLOAT;\n"
    "    f[4] = HUGE_VALF;\n"
    "    f[5] = none == NULL ? 1 : 0;\n"
    "    d[0] = HUGE_VAL;\n"
    "    d[1] = M_E; d[2] = M_LOG2E; d[3] = M_LOG10E; d[4] = M_LN2; d[5] = M_LN10; d[6] = M_PI; d[7] = M_PI_2;\n"
    "    d[8] = M_PI_4; d[9] = M_1_PI; d[10] = M_2_PI; d[11] = M_2_SQRTPI; d[12] = M_SQRT2; d[13] = M_SQRT1_2;\n"
    "    d[14] = sizeof(ga_size) * 10 + sizeof(ga_ssize); d[15] = sizeof(LID_0) * 1000 + sizeof(GID_2) * 100 + sizeof(LDIM_1) * 10 + "
    "sizeof(GDIM_0);\n"
    "    d[16] = GA_WARP_SIZE;\n"
    "}\n";

/* ---- elementwise, with strides in elements ---- */

static const char add_u32[] = "KERNEL void add_u32(GLOBAL_MEM ga_uint *a, GLOBAL_MEM ga_uint *b, GLOBAL_MEM ga_uint *c, ga_size n) {\n"
                              "    MUSTER_EACH(i, n) c[i] = a[i] + b[i];\n"
                              "}\n";
static const char add_u32_offset[] =
    "KERNEL void add_u32_offset(GLOBAL_MEM ga_uint *a, ga_size a_off, GLOBAL_MEM ga_uint *b, GLOBAL_MEM ga_uint *c, ga_size n) {\n"
    "    a = (GLOBAL_MEM ga_uint *)((GLOBAL_MEM char *)a + a_off);\n"
    "    MUSTER_EACH(i, n) c[i] = a[i] + b[i];\n"
    "}\n";
static const char add_half[] = "KERNEL void add_half(GLOBAL_MEM ga_half *a, GLOBAL_MEM ga_half *b, GLOBAL_MEM ga_half *c, ga_size n) {\n"
                               "    MUSTER_EACH(i, n) c[i] = ga_float2half(ga_half2float(a[i]) + ga_half2float(b[i]));\n"
                               "}\n";
/* Rows, columns and m may be of any integer type; a body may end by continue. */
static const char pairs[] = "KERNEL void pairs(GLOBAL_MEM ga_uint *x, ga_uint n, ga_ssize m) {\n"
                            "    MUSTER_EACH_2(row, n, column, m) {\n"
                            "        x[row * m + column] += 1;\n"
                            "        if (column % 3 == 1) continue;\n"
                            "        x[row * m + column] += 16 + row * 256 + column;\n"
                            "    }\n"
                            "}\n";
static const char a_plus_2b[] =
    "KERNEL void a_plus_2b(GLOBAL_MEM ga_uint *a, ga_ssize a0, ga_ssize a1, GLOBAL_MEM ga_uint *b, ga_ssize b0, ga_ssize b1,\n"
    "                      GLOBAL_MEM ga_uint *c, ga_ssize c0, ga_ssize c1, ga_size n0, ga_size n1) {\n"
    "    MUSTER_EACH(t, n0 * n1) {\n"
    "        ga_ssize i = (ga_ssize)(t / n1), j = (ga_ssize)(t % n1);\n"
    "        c[i * c0 + j * c1] = a[i * a0 + j * a1] + 2 * b[i * b0 + j * b1];\n"
    "    }\n"
    "}\n";
static const char ax_plus_y[] = "KERNEL void ax_plus_y(ga_float a, GLOBAL_MEM ga_int *x, ga_ssize x0, ga_ssize x1, GLOBAL_MEM ga_float *y, "
                                "ga_ssize y0, ga_ssize y1, ga_size n0, ga_size n1) {\n"
                                "    MUSTER_EACH(t, n0 * n1) {\n"
                                "        ga_ssize i = (ga_ssize)(t / n1), j = (ga_ssize)(t % n1);\n"
                                "        y[i * y0 + j * y1] = a * x[i * x0 + j * x1] + y[i * y0 + j * y1];\n"
                                "    }\n"
                                "}\n";

/* ---- local memory: sums of groups of 64 ---- */

#define TREE                                                             \
    "    buffer[LID_0] = x[GID_0 * LDIM_0 + LID_0];\n"                   \
    "    local_barrier();\n"                                             \
    "    for (ga_size part = LDIM_0 / 2; part > 0; part /= 2) {\n"       \
    "        if (LID_0 < part) buffer[LID_0] += buffer[LID_0 + part];\n" \
    "        local_barrier();\n"                                         \
    "    }\n"                                                            \
    "    if (LID_0 == 0) sums[GID_0] = buffer[0];\n"                     \
    "}\n"
static const char tree_static[] = "KERNEL void tree_static(GLOBAL_MEM ga_float *x, GLOBAL_MEM ga_float *sums) {\n"
                                  "    LOCAL_MEM ga_float buffer[64];\n" TREE;
static const char tree_dynamic[] =
    "KERNEL void tree_dynamic(GLOBAL_MEM ga_float *x, GLOBAL_MEM ga_float *sums GA_DECL_SHARED_PARAM(ga_float, buffer)) {\n"
    "    GA_DECL_SHARED_BODY(ga_float, buffer)\n" TREE;
/* Through global memory: each thread reads what its neighbour wrote. */
static const char pass_on[] = "KERNEL void pass_on(GLOBAL_MEM ga_int *x, GLOBAL_MEM ga_int *y) {\n"
                              "    ga_size base = GID_0 * LDIM_0;\n"
                              "    x[base + LID_0] = (ga_int)(base + LID_0);\n"
                              "    MUSTER_GROUP_BARRIER();\n"
                              "    y[base + LID_0] = x[base + (LID_0 + 1) % LDIM_0];\n"
                              "}\n";

/* ---- atomics ---- */

static const char count_all[] = "KERNEL void count_all(GLOBAL_MEM ga_int *i, GLOBAL_MEM ga_uint *I, GLOBAL_MEM ga_long *l, GLOBAL_MEM "
                                "ga_ulong *L, GLOBAL_MEM ga_float *f,\n"
                                "                      GLOBAL_MEM ga_double *d, GLOBAL_MEM ga_int *old_i, GLOBAL_MEM ga_float *old_f, "
                                "GLOBAL_MEM ga_double *old_d, ga_size n) {\n"
                                "    MUSTER_EACH(t, n) {\n"
                                "        old_i[t] = atom_add_ig(i, 1);\n"
                                "        atom_add_Ig(I, 1);\n"
                                "        atom_add_lg(l, 1);\n"
                                "        atom_add_Lg(L, 1);\n"
                                "        old_f[t] = atom_add_fg(f, 1.0f);\n"
                                "        old_d[t] = atom_add_dg(d, 1.0);\n"
                                "    }\n"
                                "}\n";
static const char count_half[] = "KERNEL void count_half(GLOBAL_MEM ga_half *e, GLOBAL_MEM ga_half *old, ga_size n) {\n"
                                 "    MUSTER_EACH(t, n) old[t] = atom_add_eg(e, ga_float2half(1));\n"
                                 "}\n";
static const char count_local[] =
    "KERNEL void count_local(GLOBAL_MEM ga_double *out) {\n"
    "    LOCAL_MEM ga_int i[1];\n"
    "    LOCAL_MEM ga_uint I[1];\n"
    "    LOCAL_MEM ga_long l[1];\n"
    "    LOCAL_MEM ga_ulong L[1];\n"
    "    LOCAL_MEM ga_float f[1];\n"
    "    LOCAL_MEM ga_double d[1];\n"
    "    LOCAL_MEM ga_half e[2];\n"
    "    if (LID_0 == 0) {\n"
    "        i[0] = 0; I[0] = 0; l[0] = 0; L[0] = 0; f[0] = 0; d[0] = 0; e[0] = ga_float2half(7); e[1] = ga_float2half(0);\n"
    "    }\n"
    "    local_barrier();\n"
    "    atom_add_il(i, 1); atom_add_Il(I, 2); atom_add_ll(l, 3); atom_add_Ll(L, 4); atom_add_fl(f, 5.0f); atom_add_dl(d, 6.0); "
    "atom_add_el(e + 1, ga_float2half(1));\n"
    "    local_barrier();\n"
    "    if (LID_0 == 0) {\n"
    "        out[0] = i[0]; out[1] = I[0]; out[2] = l[0]; out[3] = L[0]; out[4] = f[0]; out[5] = d[0]; out[6] = ga_half2float(e[0]); "
    "out[7] = ga_half2float(e[1]);\n"
    "    }\n"
    "}\n";
/* One thread: each exchange gives the old value. */
static const char exchange[] = "KERNEL void exchange(GLOBAL_MEM ga_double *out, GLOBAL_MEM ga_int *i, GLOBAL_MEM ga_uint *I, GLOBAL_MEM "
                               "ga_long *l, GLOBAL_MEM ga_ulong *L, GLOBAL_MEM ga_float *f,\n"
                               "                     GLOBAL_MEM ga_double *d, GLOBAL_MEM ga_half *e) {\n"
                               "    LOCAL_MEM ga_int li[1]; LOCAL_MEM ga_uint lI[1]; LOCAL_MEM ga_long ll[1]; LOCAL_MEM ga_ulong lL[1]; "
                               "LOCAL_MEM ga_float lf[1]; LOCAL_MEM ga_double ld[1]; LOCAL_MEM ga_half le[1];\n"
                               "    li[0] = 11; lI[0] = 12; ll[0] = 13; lL[0] = 14; lf[0] = 15; ld[0] = 16; le[0] = ga_float2half(17);\n"
                               "    out[0] = atom_xchg_ig(i, 21); out[1] = atom_xchg_Ig(I, 22); out[2] = atom_xchg_lg(l, 23); out[3] = "
                               "atom_xchg_Lg(L, 24); out[4] = atom_xchg_fg(f, 25.0f);\n"
                               "    out[5] = atom_xchg_dg(d, 26.0); out[6] = ga_half2float(atom_xchg_eg(e, ga_float2half(27)));\n"
                               "    out[7] = atom_xchg_il(li, 31); out[8] = atom_xchg_Il(lI, 32); out[9] = atom_xchg_ll(ll, 33); out[10] = "
                               "atom_xchg_Ll(lL, 34); out[11] = atom_xchg_fl(lf, 35.0f);\n"
                               "    out[12] = atom_xchg_dl(ld, 36.0); out[13] = ga_half2float(atom_xchg_el(le, ga_float2half(37)));\n"
                               "    out[14] = li[0] + lI[0] + ll[0] + lL[0] + lf[0] + ld[0] + ga_half2float(le[0]);\n"
                               "    out[15] = i[0] + I[0] + l[0] + L[0] + f[0] + d[0] + ga_half2float(e[0]);\n"
                               "}\n";

/* ---- grids ---- */

static const char linear_2[] = "KERNEL void linear_2(GLOBAL_MEM ga_int *out) {\n"
                               "    ga_size at = MUSTER_GLOBAL_ID_1 * MUSTER_GLOBAL_SIZE_0 + MUSTER_GLOBAL_ID_0;\n"
                               "    out[at] = (ga_int)at + 1;\n"
                               "}\n";
static const char linear_3[] = "KERNEL void linear_3(GLOBAL_MEM ga_int *out) {\n"
                               "    ga_size x = GID_0 * LDIM_0 + LID_0, y = GID_1 * LDIM_1 + LID_1, z = GID_2 * LDIM_2 + LID_2;\n"
                               "    ga_size at = (z * GDIM_1 * LDIM_1 + y) * GDIM_0 * LDIM_0 + x;\n"
                               "    out[at] = (ga_int)at + 1;\n"
                               "}\n";

/* ---- whatever else ---- */

/* A backslash at the end of a line, escapes and quotes. */
const char kernel_file_strings[] =
    "#section device\n"
    "#define TWICE(x) ((x) + \\\n"
    "                  (x))\n"
    "#section kernels\n"
    "#kernel strings : *, size :\n"
    "KERNEL void strings(GLOBAL_MEM ga_int *out, ga_size n) {\n"
    "    /* \"#kernel\" */\n"
    "    const ga_int newline = '\\n', quote = '\"', backslash = '\\\\', length = sizeof(\"a\\n\\\"b\\\\\");\n"
    "    if (MUSTER_GLOBAL_ID_0 == 0 && n >= 5) {\n"
    "        out[0] = newline; out[1] = quote; out[2] = backslash; out[3] = length; out[4] = TWICE(21);\n"
    "    }\n"
    "}\n"
    "#kernel nothing::\n"
    "KERNEL void nothing() {}\n";
static const char write_i32[] =
    "KERNEL void same_name(GLOBAL_MEM void *out, ga_int value) { if (MUSTER_GLOBAL_ID_0 == 0) ((GLOBAL_MEM ga_int *)out)[0] = value; }\n";
static const char fill[] = "KERNEL void fill(GLOBAL_MEM ga_int *x, ga_size n, ga_int value) {\n"
                           "    MUSTER_EACH(i, n) x[i] = value;\n"
                           "}\n";

#define TYPES(name, ...) static const int32_t name[] = {__VA_ARGS__}
TYPES(of_diagonal, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SIZE);
TYPES(of_inc, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER);
TYPES(of_inc_half, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER);
TYPES(of_tables, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE);
TYPES(of_convert, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE);
TYPES(of_every_type, MUSTER_PARAMETER_BUFFER, MUSTER_I8, MUSTER_U8, MUSTER_I16, MUSTER_PARAMETER_USHORT, MUSTER_I32, MUSTER_U32, MUSTER_I64,
      MUSTER_U64, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SSIZE, MUSTER_BOOL, MUSTER_PARAMETER_BUFFER, MUSTER_F32, MUSTER_F64, MUSTER_F16,
      MUSTER_BF16);
TYPES(of_buffers, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER,
      MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER);
TYPES(of_offset, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE);
TYPES(of_pairs, MUSTER_PARAMETER_BUFFER, MUSTER_U32, MUSTER_PARAMETER_SSIZE);
TYPES(of_a_plus_2b, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_BUFFER,
      MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SSIZE,
      MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SIZE);
TYPES(of_ax_plus_y, MUSTER_F32, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_BUFFER,
      MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SSIZE, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SIZE);
TYPES(of_count_all, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER,
      MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER,
      MUSTER_PARAMETER_SIZE);
TYPES(of_write_i32, MUSTER_PARAMETER_BUFFER, MUSTER_I32);
TYPES(of_fill, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_I32);
#define COUNT(list) list, sizeof list / sizeof *list

const kernel_text kernel_texts[] = {
    {"k", diagonal, COUNT(of_diagonal), "GA_USE_DOUBLE"},
    {"inc", inc, COUNT(of_inc), NULL},
    {"inc_half", inc_half, COUNT(of_inc_half), "GA_USE_SMALL|GA_USE_HALF"},
    {"half_tables", half_tables, COUNT(of_tables), "GA_USE_HALF"},
    {"to_half", to_half, COUNT(of_convert), "GA_USE_HALF"},
    {"bf16_tables", bf16_tables, COUNT(of_tables), "GA_USE_SMALL"},
    {"to_bf16", to_bf16, COUNT(of_convert), "GA_USE_SMALL"},
    {"every_type", every_type, COUNT(of_every_type), NULL},
    {"no_parameters", no_parameters, NULL, 0, NULL},
    {"constants", constants, of_buffers, 2, "GA_USE_DOUBLE"},
    {"add_u32", add_u32, COUNT(of_tables), NULL},
    {"add_u32_offset", add_u32_offset, COUNT(of_offset), NULL},
    {"add_half", add_half, COUNT(of_tables), "GA_USE_HALF"},
    {"pairs", pairs, COUNT(of_pairs), NULL},
    {"a_plus_2b", a_plus_2b, COUNT(of_a_plus_2b), NULL},
    {"ax_plus_y", ax_plus_y, COUNT(of_ax_plus_y), NULL},
    {"tree_static", tree_static, of_buffers, 2, NULL},
    {"tree_dynamic", tree_dynamic, of_buffers, 2, NULL},
    {"pass_on", pass_on, of_buffers, 2, NULL},
    {"count_all", count_all, COUNT(of_count_all), "GA_USE_DOUBLE"},
    {"count_half", count_half, COUNT(of_convert), "GA_USE_HALF"},
    {"count_local", count_local, of_buffers, 1, "GA_USE_DOUBLE"},
    {"exchange", exchange, COUNT(of_buffers), "GA_USE_DOUBLE"},
    {"linear_2", linear_2, of_buffers, 1, NULL},
    {"linear_3", linear_3, of_buffers, 1, NULL},
    {"same_name", write_i32, COUNT(of_write_i32), NULL},
    {"fill", fill, COUNT(of_fill), NULL},
};
const int32_t kernel_text_count = sizeof kernel_texts / sizeof *kernel_texts;

const kernel_text *kernel_text_find(const char *name) {
    for (int32_t i = 0; i < kernel_text_count; i++)
        if (strcmp(kernel_texts[i].name, name) == 0) return &kernel_texts[i];
    return NULL;
}
