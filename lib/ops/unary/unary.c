#include "../half_blocks_private.h"
#include "../op_impl.h"
#include "../vector_angles_private.h"
#include "../vector_exponentials_private.h"

#include <math.h>

typedef struct unary_parameters {
    muster_tensor x, y;
    muster_unary op;
} unary_parameters;

/* Chooses the float function for float, as tgmath.h does, without its macros. */
#define F(function, v) _Generic((v), float : function##f, default : function)(v)
/* The same for functions of vector_math_private.h, which take a float as double. */
static MST_ALWAYS_INLINE float vector_expf(float v) { return (float)mst_vector_exp((double)v); }
static MST_ALWAYS_INLINE float vector_sigmoidf(float v) { return (float)mst_vector_sigmoid((double)v); }
static MST_ALWAYS_INLINE float vector_softplusf(float v) { return (float)mst_vector_softplus((double)v); }
static MST_ALWAYS_INLINE double plain_sigmoid(double v) { return 1 / (1 + exp(-v)); }
static MST_ALWAYS_INLINE double plain_softplus(double v) { return (v > 0 ? v : 0) + log1p(exp(-fabs(v))); }
/* x (1 + erf(x / sqrt(2))) / 2 and x / (1 + exp(-x)), whose limits at -inf are -0. */
static MST_ALWAYS_INLINE double plain_gelu(double v) { return v < -40 ? -0.0 : 0.5 * v * erfc(v * -0x1.6a09e667f3bcdp-1); }
/* P(x) + x p(x), with P the normal distribution and p its density. */
static MST_ALWAYS_INLINE double plain_gelu_derivative(double v) {
    const double y = v < -40 ? -40 : v > 40 ? 40 : v;
    return 0.5 * erfc(y * -0x1.6a09e667f3bcdp-1) + y * (0x1.9884533d43651p-2 * exp(-0.5 * y * y));
}
static MST_ALWAYS_INLINE double plain_silu(double v) { return v < -800 ? -0.0 : v / (1 + exp(-v)); }
#define V(for_float, for_double, v) _Generic((v), float : for_float, default : for_double)(v)
static MST_ALWAYS_INLINE float any_sinf(float v) { return mst_vector_sinf(v, mst_angle_column(v)); }
static MST_ALWAYS_INLINE float any_cosf(float v) { return mst_vector_cosf(v, mst_angle_column(v)); }
static MST_ALWAYS_INLINE float any_tanf(float v) { return mst_vector_tanf(v, mst_angle_column(v)); }
#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "unary/unary_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

/* ---- angles ---- */

MST_CLONES static bool angles_are_near(const char *x, int64_t stride, int64_t n) {
    int32_t large = 0;
    if (stride == (int64_t)sizeof(float))
        for (int64_t i = 0; i < n; i++) large |= !mst_angle_is_near(((const float *)(const void *)x)[i]);
    else
        for (int64_t i = 0; i < n; i++) large |= !mst_angle_is_near(*(const float *)(const void *)(x + i * stride));
    return !large;
}

static void each_angle(mst_iterator_loop near, mst_iterator_loop any, char *const *at, const int64_t *stride, int64_t n) {
    enum { BLOCK = 512 };
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        char *const x = at[0] + i * stride[0], *const y = at[1] + i * stride[1];
        (angles_are_near(x, stride[0], count) ? near : any)(NULL, (char *const[]){x, y}, stride, count);
    }
}

#define ANGLE sin
#include "angle_loops.h"
#define ANGLE cos
#include "angle_loops.h"
#define ANGLE tan
#include "angle_loops.h"
#define sin_f64 any_sin_f64 /* the C library's, which takes any angle */
#define cos_f64 any_cos_f64
#define tan_f64 any_tan_f64

/* X(OPERATION, operation, dtype) for each operation, by the dtypes that it takes. */
#define EACH_ON_NUMBERS(X, dtype) X(ABS, abs, dtype) X(SQUARE, square, dtype) X(RELU, relu, dtype) X(SIGN, sign, dtype)
#define EACH_ON_SIGNED(X, dtype) X(NEG, neg, dtype)
#define EACH_ON_INTEGERS(X, dtype) X(BITWISE_NOT, bitwise_not, dtype)
/* clang-format off */
#define EACH_AS_F32(X, dtype) \
    X(EXP, exp, dtype) X(LOG, log, dtype) X(TANH, tanh, dtype) \
    X(SIGMOID, sigmoid, dtype) X(SOFTPLUS, softplus, dtype) X(SIN, sin, dtype) \
    X(COS, cos, dtype) X(TAN, tan, dtype) X(ASIN, asin, dtype) X(ACOS, acos, dtype) \
    X(ATAN, atan, dtype) X(SINH, sinh, dtype) X(COSH, cosh, dtype) X(ERF, erf, dtype) \
    X(LOG1P, log1p, dtype) X(EXPM1, expm1, dtype) X(LOG2, log2, dtype) X(EXP2, exp2, dtype) \
    X(LOG10, log10, dtype) X(FLOOR, floor, dtype) X(CEIL, ceil, dtype) X(ROUND, round, dtype) \
    X(TRUNC, trunc, dtype) X(GELU, gelu, dtype) X(SILU, silu, dtype) \
    X(GELU_DERIVATIVE, gelu_derivative, dtype)
#define EACH_ON_FLOATS(X, dtype) X(SQRT, sqrt, dtype) X(RECIPROCAL, reciprocal, dtype) X(RSQRT, rsqrt, dtype) EACH_AS_F32(X, dtype)
/* clang-format on */

/* The functions that f16 and bf16 compute by the loops of f32. */
#define AS_HALF(OPERATION, operation, dtype)                                                            \
    static void operation##_##dtype(void *context, char *const *at, const int64_t *stride, int64_t n) { \
        (void)context;                                                                                  \
        mst_loop_as_##dtype(operation##_f32, at, stride, n);                                            \
    }
EACH_AS_F32(AS_HALF, f16)
EACH_AS_F32(AS_HALF, bf16)
AS_HALF(SIGN, sign, f16)
AS_HALF(SIGN, sign, bf16)

/* The table of operation x dtype. An empty entry means that the pair is not supported. */
#define ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = operation##_##dtype,
#define FLOAT_ROW(NAME, name, ...) [MUSTER_##NAME] = {EACH_ON_NUMBERS(ENTRY, name) EACH_ON_SIGNED(ENTRY, name) EACH_ON_FLOATS(ENTRY, name)},
#define SIGNED_ROW(NAME, name, T) \
    [MUSTER_##NAME] = {EACH_ON_NUMBERS(ENTRY, name) EACH_ON_SIGNED(ENTRY, name) EACH_ON_INTEGERS(ENTRY, name)},
#define UNSIGNED_ROW(NAME, name, T) [MUSTER_##NAME] = {EACH_ON_NUMBERS(ENTRY, name) EACH_ON_INTEGERS(ENTRY, name)},
enum { OPERATIONS = MUSTER_GELU_DERIVATIVE + 1 };
static const mst_iterator_loop loops[MST_DTYPE_COUNT][OPERATIONS] = {MST_EACH_FLOAT(FLOAT_ROW) MST_EACH_SIGNED(SIGNED_ROW)
                                                                         MST_EACH_UNSIGNED(UNSIGNED_ROW)};
#define NAME_ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = #operation,
static const char *const names[OPERATIONS + 1] = {"", EACH_ON_NUMBERS(NAME_ENTRY, ) EACH_ON_SIGNED(NAME_ENTRY, )
                                                          EACH_ON_INTEGERS(NAME_ENTRY, ) EACH_ON_FLOATS(NAME_ENTRY, )};

static const char *unary_dtypes(int32_t op) {
    return loops[MUSTER_U8][op]   ? (loops[MUSTER_F32][op] ? "a number dtype" : "an integer dtype")
           : loops[MUSTER_I8][op] ? "a signed dtype"
                                  : "f16, bf16, f32 or f64";
}

static bool unary_takes(muster_dtype dtype, const mst_op_value *values) { return loops[dtype][values[0].integer] != NULL; }

static muster_status unary_host(const void *parameters) {
    const unary_parameters *p = parameters;
    mst_iterator_run_elements(2, (const muster_tensor *[]){&p->x, &p->y}, loops[p->y.dtype][p->op], NULL);
    return MUSTER_OK;
}

static mst_code_kernel unary_code[] = {{.name = "mst_unary"}};

static muster_status unary_issue(muster_worker *worker, const void *parameters) {
    const unary_parameters *p = parameters;
    return mst_op_elements(worker, unary_code, &(mst_element_parameters){.dtype = p->y.dtype, .op = p->op}, 2,
                           (const muster_tensor *[]){&p->x, &p->y});
}

static MST_ALWAYS_INLINE muster_status unary_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                   const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    const int32_t op = (int32_t)values[0].integer;
    if (op <= 0 || op >= OPERATIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_NEG to MUSTER_GELU_DERIVATIVE, received %d", where, op);
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    if (!loops[x->dtype][op])
        return mst_error(MUSTER_UNSUPPORTED, "%s: x: expected %s for %s, received %s", where, unary_dtypes(op), names[op],
                         muster_dtype_name(x->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_unary, t, where);
}

static muster_status unary_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_unary_op(worker, (muster_unary)v[0].integer, t[0], t[1]);
}

static muster_status unary_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    return mst_op_plain_loop(&mst_operation_unary, dtypes[0], loops[dtypes[0]][values[0].integer], loop);
}

static const mst_kernel unary_kernel = {.host = unary_host, .issue = unary_issue};

const mst_op_row mst_operation_unary = {
    MST_OPERATION_ROW(unary, muster_unary_op),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, names}},
    .dtypes = MST_NUMBER_DTYPES,
    .takes = unary_takes,
    .check = unary_check,
    .run = unary_run,
    .loop = unary_loop,
    .kernel = &unary_kernel,
    MST_CODE(unary_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_unary_op(muster_worker *worker, muster_unary op, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(unary_check(worker, MST_TENSORS(&x, &y), (const mst_op_value[]){{.integer = op}}, __func__));
    unary_parameters p = {x, y, op};
    return mst_op_launch(worker, &unary_kernel, &p, sizeof p);
}
