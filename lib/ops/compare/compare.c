/* y = a op b as bool. Comparisons with NaN are false, except not_equal; NaN itself is true. */
#include "../op_impl.h"

typedef struct compare_parameters {
    muster_tensor a, b, y;
    muster_comparison op;
} compare_parameters;

#define R uint8_t
#define MST_LOOPS "compare/compare_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define SUFFIX boolean
#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#define IS_FLOAT 0
#define IS_SIGNED 1
#include "compare_loops.h"
#undef IS_FLOAT
#undef IS_SIGNED
#undef SUFFIX
#undef T
#undef C
#undef LOAD
#undef R

/* X(OPERATION, operation, dtype) for each operation: those of an order, and those of bits. */
/* clang-format off */
#define EACH_OF_ORDER(X, dtype) \
    X(LESS, less, dtype) X(LESS_EQUAL, less_equal, dtype) X(GREATER, greater, dtype) X(GREATER_EQUAL, greater_equal, dtype)
#define EACH_OF_BITS(X, dtype) \
    X(EQUAL, equal, dtype) X(NOT_EQUAL, not_equal, dtype) X(LOGICAL_AND, logical_and, dtype) X(LOGICAL_OR, logical_or, dtype) \
    X(LOGICAL_XOR, logical_xor, dtype)
/* clang-format on */
#define ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = operation##_##dtype,
#define ROW(NAME, name, ...) [MUSTER_##NAME] = {EACH_OF_ORDER(ENTRY, name) EACH_OF_BITS(ENTRY, name)},
#define UNSIGNED_ROW(NAME, name, signed_name) [MUSTER_##NAME] = {EACH_OF_ORDER(ENTRY, name) EACH_OF_BITS(ENTRY, signed_name)},
enum { OPERATIONS = MUSTER_LOGICAL_XOR + 1 };
static const mst_iterator_loop loops[MST_DTYPE_COUNT][OPERATIONS] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) UNSIGNED_ROW(
    U8, u8, i8) UNSIGNED_ROW(U32, u32, i32) UNSIGNED_ROW(U64, u64, i64) ROW(BOOL, boolean)};
#define NAME_ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = #operation,
static const char *const names[OPERATIONS + 1] = {"", EACH_OF_ORDER(NAME_ENTRY, ) EACH_OF_BITS(NAME_ENTRY, )};

static muster_status compare_host(const void *parameters) {
    const compare_parameters *p = parameters;
    mst_iterator_run_elements(3, (const muster_tensor *[]){&p->a, &p->b, &p->y}, loops[p->a.dtype][p->op], NULL);
    return MUSTER_OK;
}

static mst_code_kernel compare_code[] = {{.name = "mst_compare"}};

static muster_status compare_issue(muster_worker *worker, const void *parameters) {
    const compare_parameters *p = parameters;
    return mst_op_elements(worker, compare_code, &(mst_element_parameters){.dtype = p->a.dtype, .op = p->op}, 3,
                           (const muster_tensor *[]){&p->a, &p->b, &p->y});
}

static MST_ALWAYS_INLINE muster_status compare_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                     const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *y = t[2];
    const int32_t op = (int32_t)values[0].integer;
    if (op <= 0 || op >= OPERATIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_EQUAL to MUSTER_LOGICAL_XOR, received %d", where, op);
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    if (y->dtype != MUSTER_BOOL)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: y: expected bool, received %s", where, muster_dtype_name(y->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "a", a, "y", y));
    MUSTER_TRY(mst_op_broadcasts(where, "b", b, "y", y));
    return mst_op_check_results(&mst_operation_compare, t, where);
}

static muster_status compare_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_compare(worker, (muster_comparison)v[0].integer, t[0], t[1], t[2]);
}

static muster_status compare_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    return mst_op_plain_loop(&mst_operation_compare, dtypes[0], loops[dtypes[0]][values[0].integer], loop);
}

static const mst_kernel compare_kernel = {.host = compare_host, .issue = compare_issue};

const mst_op_row mst_operation_compare = {
    MST_OPERATION_ROW(compare, muster_compare),
    .operands = {{"a", "~", MST_IN}, {"b", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE, MST_DTYPE_BIT(MUSTER_BOOL)}},
    .attributes = {{"op", MST_CHOICE, names}},
    .dtypes = MST_ALL_DTYPES,
    .check = compare_check,
    .run = compare_run,
    .loop = compare_loop,
    .kernel = &compare_kernel,
    MST_CODE(compare_code),
};

muster_status muster_compare(muster_worker *worker, muster_comparison op, muster_tensor a, muster_tensor b, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(compare_check(worker, MST_TENSORS(&a, &b, &y), (const mst_op_value[]){{.integer = op}}, __func__));
    compare_parameters p = {a, b, y, op};
    return mst_op_launch(worker, &compare_kernel, &p, sizeof p);
}
