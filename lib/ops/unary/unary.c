#include "../op_impl.h"
#include "../vector_math_private.h"

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
#define V(for_float, for_double, v) _Generic((v), float : for_float, default : for_double)(v)
#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "unary/unary_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

/* The table of operation x dtype. An empty entry means that the pair is not supported. */
#define FLOAT_ROWS(NAME, name, T, C, LOAD, STORE)                                                   \
    [MUSTER_##NAME] = {[MUSTER_NEG] = neg_##name,          [MUSTER_ABS] = abs_##name,               \
                       [MUSTER_SQUARE] = square_##name,    [MUSTER_SQRT] = sqrt_##name,             \
                       [MUSTER_EXP] = exp_##name,          [MUSTER_LOG] = log_##name,               \
                       [MUSTER_TANH] = tanh_##name,        [MUSTER_RELU] = relu_##name,             \
                       [MUSTER_SIGMOID] = sigmoid_##name,  [MUSTER_RECIPROCAL] = reciprocal_##name, \
                       [MUSTER_SOFTPLUS] = softplus_##name},
#define SIGNED_ROWS(NAME, name, T) \
    [MUSTER_##NAME] = {[MUSTER_NEG] = neg_##name, [MUSTER_ABS] = abs_##name, [MUSTER_SQUARE] = square_##name, [MUSTER_RELU] = relu_##name},
#define UNSIGNED_ROWS(NAME, name, T) \
    [MUSTER_##NAME] = {[MUSTER_ABS] = abs_##name, [MUSTER_SQUARE] = square_##name, [MUSTER_RELU] = relu_##name},
enum { OPERATIONS = MUSTER_SOFTPLUS + 1 };
static const mst_iterator_loop loops[MST_DTYPE_COUNT][OPERATIONS] = {MST_EACH_FLOAT(FLOAT_ROWS) MST_EACH_SIGNED(SIGNED_ROWS)
                                                                         MST_EACH_UNSIGNED(UNSIGNED_ROWS)};
static const char *const names[] = {"",     "neg",     "abs",  "square",     "sqrt",     "exp", "log",
                                    "tanh", "sigmoid", "relu", "reciprocal", "softplus", NULL};

static bool unary_takes(muster_dtype dtype, const mst_op_value *values) { return loops[dtype][values[0].integer] != NULL; }

static muster_status unary_host(const void *parameters) {
    const unary_parameters *p = parameters;
    mst_iterator iterator;
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 2, (const muster_tensor *[]){&p->x, &p->y});
    mst_iterator_run(&iterator, loops[p->y.dtype][p->op], NULL);
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
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_NEG to MUSTER_SOFTPLUS, received %d", where, op);
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    if (!loops[x->dtype][op])
        return mst_error(MUSTER_UNSUPPORTED, "%s: x: expected %s for %s, received %s", where,
                         op == MUSTER_NEG                                               ? "a signed dtype"
                         : op == MUSTER_ABS || op == MUSTER_SQUARE || op == MUSTER_RELU ? "a number dtype"
                                                                                        : "f16, bf16, f32 or f64",
                         names[op], muster_dtype_name(x->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_unary, t, where);
}

static muster_status unary_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_unary_op(worker, (muster_unary)v[0].integer, t[0], t[1]);
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
