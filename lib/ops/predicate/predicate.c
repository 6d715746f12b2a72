/* y = op(x) as bool. */
#include "../op_impl.h"

typedef struct predicate_parameters {
    muster_tensor x, y;
    muster_predicate op;
} predicate_parameters;

#define R uint8_t
#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "predicate/predicate_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define SUFFIX boolean
#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#include "predicate_loops.h"
#undef SUFFIX
#undef T
#undef C
#undef LOAD
#undef R

#define EACH_OPERATION(X, dtype) \
    X(LOGICAL_NOT, logical_not, dtype) X(ISNAN, isnan, dtype) X(ISFINITE, isfinite, dtype) X(ISINF, isinf, dtype)
#define ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = operation##_##dtype,
#define ROW(NAME, name, ...) [MUSTER_##NAME] = {EACH_OPERATION(ENTRY, name)},
enum { OPERATIONS = MUSTER_ISINF + 1 };
static const mst_iterator_loop loops[MST_DTYPE_COUNT][OPERATIONS] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)
                                                                         ROW(BOOL, boolean)};
#define NAME_ENTRY(OPERATION, operation, dtype) [MUSTER_##OPERATION] = #operation,
static const char *const names[OPERATIONS + 1] = {"", EACH_OPERATION(NAME_ENTRY, )};

static muster_status predicate_host(const void *parameters) {
    const predicate_parameters *p = parameters;
    mst_iterator_run_elements(2, (const muster_tensor *[]){&p->x, &p->y}, loops[p->x.dtype][p->op], NULL);
    return MUSTER_OK;
}

static mst_code_kernel predicate_code[] = {{.name = "mst_predicate"}};

static muster_status predicate_issue(muster_worker *worker, const void *parameters) {
    const predicate_parameters *p = parameters;
    return mst_op_elements(worker, predicate_code, &(mst_element_parameters){.dtype = p->x.dtype, .op = p->op}, 2,
                           (const muster_tensor *[]){&p->x, &p->y});
}

static MST_ALWAYS_INLINE muster_status predicate_check(const muster_worker *worker, const muster_tensor *const *t,
                                                       const mst_op_value *values, const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    const int32_t op = (int32_t)values[0].integer;
    if (op <= 0 || op >= OPERATIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_LOGICAL_NOT to MUSTER_ISINF, received %d", where, op);
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    if (y->dtype != MUSTER_BOOL)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: y: expected bool, received %s", where, muster_dtype_name(y->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_predicate, t, where);
}

static muster_status predicate_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_predicate_op(worker, (muster_predicate)v[0].integer, t[0], t[1]);
}

static muster_status predicate_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    return mst_op_plain_loop(&mst_operation_predicate, dtypes[0], loops[dtypes[0]][values[0].integer], loop);
}

static const mst_kernel predicate_kernel = {.host = predicate_host, .issue = predicate_issue};

const mst_op_row mst_operation_predicate = {
    MST_OPERATION_ROW(predicate, muster_predicate_op),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE, MST_DTYPE_BIT(MUSTER_BOOL)}},
    .attributes = {{"op", MST_CHOICE, names}},
    .dtypes = MST_ALL_DTYPES,
    .check = predicate_check,
    .run = predicate_run,
    .loop = predicate_loop,
    .kernel = &predicate_kernel,
    MST_CODE(predicate_code),
};

muster_status muster_predicate_op(muster_worker *worker, muster_predicate op, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(predicate_check(worker, MST_TENSORS(&x, &y), (const mst_op_value[]){{.integer = op}}, __func__));
    predicate_parameters p = {x, y, op};
    return mst_op_launch(worker, &predicate_kernel, &p, sizeof p);
}
