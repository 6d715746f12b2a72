#include "../op_impl.h"

#define MST_LOOPS "scale_add/scale_add_loops.h"
#include "../each_float_loops.h"

static muster_status scale_add_host(const void *parameters) {
    mst_scale_add_parameters p = *(const mst_scale_add_parameters *)parameters;
#define ROW(NAME, name, T, C, LOAD, STORE) [MUSTER_##NAME] = scale_add_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};
    mst_iterator_run_elements(2, (const muster_tensor *[]){&p.x, &p.y}, loops[p.y.dtype], &p);
    return MUSTER_OK;
}

static mst_code_kernel scale_add_code[] = {{.name = "mst_scale_add"}};

static muster_status scale_add_issue(muster_worker *worker, const void *parameters) {
    const mst_scale_add_parameters *p = parameters;
    mst_element_parameters of_elements = {.dtype = p->y.dtype, .alpha = p->alpha, .beta = p->beta};
    /* y is not read */
    if (p->beta == 0) return mst_op_elements(worker, scale_add_code, &of_elements, 2, (const muster_tensor *[]){&p->x, &p->y});
    return mst_op_elements(worker, scale_add_code, &of_elements, 3, (const muster_tensor *[]){&p->x, &p->y, &p->y});
}

static const mst_kernel scale_add_kernel = {.host = scale_add_host, .issue = scale_add_issue};

muster_status mst_scale_add_launch(muster_worker *worker, const mst_scale_add_parameters *parameters) {
    return mst_op_launch(worker, &scale_add_kernel, parameters, sizeof *parameters);
}

static MST_ALWAYS_INLINE muster_status scale_add_check(const muster_worker *worker, const muster_tensor *const *t,
                                                       const mst_op_value *values, const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_float_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_same_shape(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_scale_add, t, where);
}

static muster_status scale_add_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_scale_add(worker, v[0].number, t[0], v[1].number, t[1]);
}

const mst_op_row mst_operation_scale_add = {
    MST_OPERATION_ROW(scale_add, muster_scale_add),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_IN_OUT | MST_IN_PLACE}},
    .attributes = {{"alpha", MST_NUMBER}, {"beta", MST_NUMBER}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = scale_add_check,
    .run = scale_add_run,
    .kernel = &scale_add_kernel,
    MST_CODE(scale_add_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_scale_add(muster_worker *worker, double alpha, muster_tensor x, double beta, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(scale_add_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    return mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = x, .y = y, .alpha = alpha, .beta = beta});
}
