/* y = x op value; scalar_binary, y = value op x, uses this code, too. */
#include "../binary/binary_private.h"

static muster_status scalar_host(const void *parameters) {
    mst_scalar_request p = *(const mst_scalar_request *)parameters;
    const muster_tensor value = muster_tensor_make(p.y.dtype, &p.element, 0, NULL);
    mst_iterator_run_elements(3, (const muster_tensor *[]){p.reversed ? &value : &p.x, p.reversed ? &p.x : &value, &p.y},
                              mst_binary_loops[p.y.dtype][p.op], NULL);
    return MUSTER_OK;
}

static muster_status scalar_issue(muster_worker *worker, const void *parameters) {
    const mst_scalar_request *p = parameters;
    mst_element_parameters of_elements = {.dtype = p->y.dtype, .op = p->op, .alpha = p->reversed, .element = p->element};
    return mst_op_elements(worker, &mst_binary_code[MST_BINARY_SCALAR], &of_elements, 2, (const muster_tensor *[]){&p->x, &p->y});
}

const mst_kernel mst_scalar_kernel = {.host = scalar_host, .issue = scalar_issue};

/* Floats round the value; integers refuse a value that they do not hold. */
static muster_status scalar_convert(muster_dtype dtype, double value, const char *where, uint64_t *element) {
    double held;
    *element = 0;
    mst_convert(dtype, element, MUSTER_F64, &value, 1);
    mst_convert(MUSTER_F64, &held, dtype, element, 1);
    const bool exact = held == value && !(dtype == MUSTER_I64 && value == 0x1p63) && !(dtype == MUSTER_U64 && value == 0x1p64);
    if (mst_dtype_is_float(dtype) || exact) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: value: expected a number that %s holds, received %.17g", where, muster_dtype_name(dtype),
                     value);
}

muster_status mst_scalar_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t, int32_t op,
                               double value, const char *where, uint64_t *element) {
    const muster_tensor *x = t[0], *y = t[1];
    uint64_t unused;
    MUSTER_TRY(mst_binary_check_op(op, where));
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_binary_check_dtype(op, x->dtype, where, "x"));
    MUSTER_TRY(scalar_convert(x->dtype, value, where, element ? element : &unused));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(operation, t, where);
}

static muster_status binary_scalar_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                         const char *where) {
    return mst_scalar_check(worker, &mst_operation_binary_scalar, t, (int32_t)values[0].integer, values[1].number, where, NULL);
}

static muster_status binary_scalar_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_binary_scalar(worker, (muster_binary)v[0].integer, t[0], v[1].number, t[1]);
}

const mst_op_row mst_operation_binary_scalar = {
    MST_OPERATION_ROW(binary_scalar, muster_binary_scalar),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, mst_binary_names}, {"value", MST_NUMBER}},
    .dtypes = MST_NUMBER_DTYPES,
    .takes = mst_binary_takes,
    .check = binary_scalar_check,
    .run = binary_scalar_run,
    .kernel = &mst_scalar_kernel,
    .code = &mst_binary_code[MST_BINARY_SCALAR],
    .code_count = 1,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_binary_scalar(muster_worker *worker, muster_binary op, muster_tensor x, double value, muster_tensor y) {
    MST_OP_WORKER(worker);
    mst_scalar_request p = {.x = x, .y = y, .op = op};
    MUSTER_TRY(mst_scalar_check(worker, &mst_operation_binary_scalar, MST_TENSORS(&x, &y), op, value, __func__, &p.element));
    return mst_op_launch(worker, &mst_scalar_kernel, &p, sizeof p);
}
