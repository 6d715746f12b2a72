#include "binary_private.h"

#include "../vector_angles_private.h"
#include "division_impl.h"
#include "power_private.h"

#include <math.h>

typedef struct binary_parameters {
    muster_tensor a, b, y;
    muster_binary op;
} binary_parameters;

/* sqrt(a^2 + b^2), of which double holds the squares. With one infinity it is infinite, whatever
 * the other number is. */
static MST_ALWAYS_INLINE float vector_hypotf(float a, float b) {
    const double p = (double)a, q = (double)b, root = sqrt(p * p + q * q);
    return isinf(a) || isinf(b) ? INFINITY : (float)root;
}

/* The division of floats a / b is simple where |a / b| is below 2^26, b is normal and a finite.
 * Then the integer q = floor(a / b) is right in double, and q b and a - q b are exact, or rounded
 * as in mst_floor_remainder. fmod, which any division needs, is a loop over the bits of the
 * quotient. */
enum { DIVISIONS = 512 };
static MST_ALWAYS_INLINE uint32_t division_is_not_simple(float a, float b) {
    const int32_t of_a = (int32_t)(mst_vector_bits(a) >> 23 & 255), of_b = (int32_t)(mst_vector_bits(b) >> 23 & 255);
    return (uint32_t)(of_a - of_b > 25) | (uint32_t)(of_a == 255) | (uint32_t)(of_b == 255) | (uint32_t)(of_b == 0);
}

/* `quotient` is within 2^-26 of a / b. It may be a little less than an integer that a / b is; then
 * the remainder is b. */
static MST_ALWAYS_INLINE double simple_remainder(double a, double b, double quotient) {
    const double rest = a - floor(quotient) * b;
    const bool none = (rest == 0) | ((rest == b) & (fabs(a) >= fabs(b)));
    return none ? copysign(0, b) : rest;
}

/* The remainder in float, in half of the time, for a divisor that is positive and has few bits, as
 * most numbers that programs write: the product of 9 bits and of a quotient of 15 is exact, and so
 * is the rest that it leaves of a. The quotient that `inverse` gives may be off by 1: then the rest
 * is negative, or not below b. A rest that -1 gives may be rounded up to b, and stays, as in
 * mst_floor_remainder. The exponents of a and b are MOST_EXPONENT at most: the inverse of b is a
 * normal number, and the product, which may be larger than a, is finite. */
enum { SHORT_QUOTIENT = 15, SHORT_DIVISOR = 9, MOST_EXPONENT = 252 };
static MST_ALWAYS_INLINE bool divisor_is_short(float b) {
    const uint32_t bits = mst_vector_bits(b), exponent = bits >> 23; /* with the sign: large if b is negative */
    return (bits & ((1u << (24 - SHORT_DIVISOR)) - 1)) == 0 && exponent <= MOST_EXPONENT;
}
static MST_ALWAYS_INLINE float short_remainder(float a, float b, float inverse) {
    const float quotient = floorf(a * inverse), rest = a - quotient * b;
    const float less = ((rest >= b) & (quotient != -1)) ? rest - b : rest;
    return rest < 0 ? rest + b : less;
}

/* Chooses the function for float, as tgmath.h does. */
#define ATAN2(a, b) _Generic((a), float : mst_vector_atan2f, default : atan2)(a, b)
#define HYPOT(a, b) _Generic((a), float : vector_hypotf, default : hypot)(a, b)
#define FMOD(a, b) _Generic((a), float : fmodf, default : fmod)(a, b)
#define POW(a, b) _Generic((a), float : mst_vector_powf, default : pow)(a, b)
#define MST_LOOPS "binary/binary_loops.h"
#define pow_f32 compiled_pow_f32
#include "../each_float_loops.h"
#undef pow_f32
#include "../each_integer_loops.h"

static void pow_f32(void *context, char *const *at, const int64_t *stride, int64_t n) {
    if (!mst_power_avx512(at, stride, n)) compiled_pow_f32(context, at, stride, n);
}

/* X(OPERATION, operation, dtype) for each operation, by the dtypes that it takes. */
/* clang-format off */
#define EACH_ON_NUMBERS(X, dtype) \
    X(ADD, add, dtype) X(SUB, sub, dtype) X(MUL, mul, dtype) X(DIV, div, dtype) \
    X(MAXIMUM, maximum, dtype) X(MINIMUM, minimum, dtype) X(FLOOR_DIVIDE, floor_divide, dtype) X(REMAINDER, remainder, dtype) \
    X(FMOD, fmod, dtype)
/* clang-format on */
#define EACH_ON_FLOATS(X, dtype) X(POW, pow, dtype) X(ATAN2, atan2, dtype) X(HYPOT, hypot, dtype)
/* clang-format off */
#define EACH_ON_INTEGERS(X, dtype) \
    X(BITWISE_AND, bitwise_and, dtype) X(BITWISE_OR, bitwise_or, dtype) X(BITWISE_XOR, bitwise_xor, dtype) \
    X(LEFT_SHIFT, left_shift, dtype) X(RIGHT_SHIFT, right_shift, dtype)
/* clang-format on */

#define ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = operation##_##dtype,
#define FLOAT_ROW(NAME, name, ...) [MUSTER_##NAME] = {EACH_ON_NUMBERS(ENTRY, name) EACH_ON_FLOATS(ENTRY, name)},
#define INTEGER_ROW(NAME, name, T) [MUSTER_##NAME] = {EACH_ON_NUMBERS(ENTRY, name) EACH_ON_INTEGERS(ENTRY, name)},
const mst_iterator_loop mst_binary_loops[MST_DTYPE_COUNT][MST_BINARY_OPERATIONS] = {MST_EACH_FLOAT(FLOAT_ROW) MST_EACH_SIGNED(INTEGER_ROW)
                                                                                        MST_EACH_UNSIGNED(INTEGER_ROW)};

#define NAME_ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = #operation,
const char *const mst_binary_names[MST_BINARY_OPERATIONS + 1] = {"", EACH_ON_NUMBERS(NAME_ENTRY, ) EACH_ON_FLOATS(NAME_ENTRY, )
                                                                         EACH_ON_INTEGERS(NAME_ENTRY, )};

bool mst_binary_takes(muster_dtype dtype, const mst_op_value *values) { return mst_binary_loops[dtype][values[0].integer] != NULL; }

muster_status mst_binary_check_op(int32_t op, const char *where) {
    if (op > 0 && op < MST_BINARY_OPERATIONS) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_ADD to MUSTER_RIGHT_SHIFT, received %d", where, op);
}

muster_status mst_binary_check_dtype(int32_t op, muster_dtype dtype, const char *where, const char *what) {
    if (mst_binary_loops[dtype][op]) return MUSTER_OK;
    if (dtype == MUSTER_BOOL) return mst_op_refuse_dtype(where, what, "a number dtype", dtype);
    return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected %s for %s, received %s", where, what,
                     mst_dtype_is_float(dtype) ? "an integer dtype" : "f16, bf16, f32 or f64", mst_binary_names[op],
                     muster_dtype_name(dtype));
}

static muster_status binary_host(const void *parameters) {
    const binary_parameters *p = parameters;
    mst_iterator_run_elements(3, (const muster_tensor *[]){&p->a, &p->b, &p->y}, mst_binary_loops[p->y.dtype][p->op], NULL);
    return MUSTER_OK;
}

mst_code_kernel mst_binary_code[MST_BINARY_CODE] = {
    [MST_BINARY_TENSORS] = {.name = "mst_binary"}, [MST_BINARY_SCALAR] = {.name = "mst_binary_scalar"}};

static muster_status binary_issue(muster_worker *worker, const void *parameters) {
    const binary_parameters *p = parameters;
    return mst_op_elements(worker, &mst_binary_code[MST_BINARY_TENSORS], &(mst_element_parameters){.dtype = p->y.dtype, .op = p->op}, 3,
                           (const muster_tensor *[]){&p->a, &p->b, &p->y});
}

static MST_ALWAYS_INLINE muster_status binary_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                    const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *y = t[2];
    const int32_t op = (int32_t)values[0].integer;
    MUSTER_TRY(mst_binary_check_op(op, where));
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "a", a->dtype));
    MUSTER_TRY(mst_binary_check_dtype(op, a->dtype, where, "a"));
    MUSTER_TRY(mst_op_broadcasts(where, "a", a, "y", y));
    MUSTER_TRY(mst_op_broadcasts(where, "b", b, "y", y));
    return mst_op_check_results(&mst_operation_binary, t, where);
}

static muster_status binary_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_binary_op(worker, (muster_binary)v[0].integer, t[0], t[1], t[2]);
}

static muster_status binary_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    return mst_op_plain_loop(&mst_operation_binary, dtypes[0], mst_binary_loops[dtypes[0]][values[0].integer], loop);
}

static const mst_kernel binary_kernel = {.host = binary_host, .issue = binary_issue};

const mst_op_row mst_operation_binary = {
    MST_OPERATION_ROW(binary, muster_binary_op),
    .operands = {{"a", "~", MST_IN}, {"b", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, mst_binary_names}},
    .dtypes = MST_NUMBER_DTYPES,
    .takes = mst_binary_takes,
    .check = binary_check,
    .run = binary_run,
    .loop = binary_loop,
    .kernel = &binary_kernel,
    .code = &mst_binary_code[MST_BINARY_TENSORS],
    .code_count = 1,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_binary_op(muster_worker *worker, muster_binary op, muster_tensor a, muster_tensor b, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(binary_check(worker, MST_TENSORS(&a, &b, &y), (const mst_op_value[]){{.integer = op}}, __func__));
    binary_parameters p = {a, b, y, op};
    return mst_op_launch(worker, &binary_kernel, &p, sizeof p);
}
