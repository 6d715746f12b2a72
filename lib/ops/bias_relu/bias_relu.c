/* y = max(x + bias, 0). */
#include "../op_impl.h"

typedef struct bias_relu_parameters {
    muster_tensor x, bias, y;
} bias_relu_parameters;

#define MST_LOOPS "bias_relu/bias_relu_loops.h"
#include "../each_float_loops.h"

static muster_status bias_relu_host(const void *parameters) {
#define ROW(NAME, name, T, C, LOAD, STORE) [MUSTER_##NAME] = bias_relu_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};
    const bias_relu_parameters *p = parameters;
    mst_iterator_run_elements(3, (const muster_tensor *[]){&p->x, &p->bias, &p->y}, loops[p->y.dtype], NULL);
    return MUSTER_OK;
}

static mst_code_kernel bias_relu_code[] = {{.name = "mst_bias_relu"}};

static muster_status bias_relu_issue(muster_worker *worker, const void *parameters) {
    const bias_relu_parameters *p = parameters;
    return mst_op_elements(worker, bias_relu_code, &(mst_element_parameters){.dtype = p->y.dtype}, 3,
                           (const muster_tensor *[]){&p->x, &p->bias, &p->y});
}

static MST_ALWAYS_INLINE muster_status bias_relu_check(const muster_worker *worker, const muster_tensor *const *t,
                                                       const mst_op_value *values, const char *where) {
    const muster_tensor *x = t[0], *bias = t[1], *y = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, bias, where, "bias"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_float_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "bias", bias->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_ndim(where, "x", x, 2));
    MUSTER_TRY(mst_op_same_shape(where, "y", y, "x", x));
    MUSTER_TRY(mst_op_shape(where, "bias", bias, 1, &x->shape[1]));
    return mst_op_check_results(&mst_operation_bias_relu, t, where);
}

static muster_status bias_relu_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_bias_relu(worker, t[0], t[1], t[2]);
}

static const mst_kernel bias_relu_kernel = {.host = bias_relu_host, .issue = bias_relu_issue};

const mst_op_row mst_operation_bias_relu = {
    MST_OPERATION_ROW(bias_relu, muster_bias_relu),
    .operands = {{"x", "nk", MST_IN}, {"bias", "k", MST_IN}, {"y", "nk", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = bias_relu_check,
    .run = bias_relu_run,
    .kernel = &bias_relu_kernel,
    MST_CODE(bias_relu_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_bias_relu(muster_worker *worker, muster_tensor x, muster_tensor bias, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(bias_relu_check(worker, MST_TENSORS(&x, &bias, &y), NULL, __func__));
    bias_relu_parameters p = {x, bias, y};
    return mst_op_launch(worker, &bias_relu_kernel, &p, sizeof p);
}
