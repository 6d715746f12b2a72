/* dx = dy where y > 0, else 0. */
#include "../op_impl.h"

typedef struct relu_gradient_parameters {
    muster_tensor y, dy, dx;
} relu_gradient_parameters;

#define MST_LOOPS "relu_gradient/relu_gradient_loops.h"
#include "../each_float_loops.h"

#define ROW(NAME, name, T, C, LOAD, STORE) [MUSTER_##NAME] = relu_gradient_##name,
static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};

static muster_status relu_gradient_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    (void)values;
    return mst_op_plain_loop(&mst_operation_relu_gradient, dtypes[0], loops[dtypes[0]], loop);
}

static muster_status relu_gradient_host(const void *parameters) {
    const relu_gradient_parameters *p = parameters;
    mst_iterator_run_elements(3, (const muster_tensor *[]){&p->y, &p->dy, &p->dx}, loops[p->dx.dtype], NULL);
    return MUSTER_OK;
}

static mst_code_kernel relu_gradient_code[] = {{.name = "mst_relu_gradient"}};

static muster_status relu_gradient_issue(muster_worker *worker, const void *parameters) {
    const relu_gradient_parameters *p = parameters;
    return mst_op_elements(worker, relu_gradient_code, &(mst_element_parameters){.dtype = p->dx.dtype}, 3,
                           (const muster_tensor *[]){&p->y, &p->dy, &p->dx});
}

static MST_ALWAYS_INLINE muster_status relu_gradient_check(const muster_worker *worker, const muster_tensor *const *t,
                                                           const mst_op_value *values, const char *where) {
    const muster_tensor *y = t[0], *dy = t[1], *dx = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_check(worker, dy, where, "dy"));
    MUSTER_TRY(mst_op_check(worker, dx, where, "dx"));
    MUSTER_TRY(mst_op_float_dtype(where, "y", y->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "dy", dy->dtype, "y", y->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "dx", dx->dtype, "y", y->dtype));
    MUSTER_TRY(mst_op_same_shape(where, "dy", dy, "y", y));
    MUSTER_TRY(mst_op_same_shape(where, "dx", dx, "y", y));
    return mst_op_check_results(&mst_operation_relu_gradient, t, where);
}

static muster_status relu_gradient_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_relu_gradient(worker, t[0], t[1], t[2]);
}

static const mst_kernel relu_gradient_kernel = {.host = relu_gradient_host, .issue = relu_gradient_issue};

const mst_op_row mst_operation_relu_gradient = {
    MST_OPERATION_ROW(relu_gradient, muster_relu_gradient),
    .operands = {{"y", "*", MST_IN}, {"dy", "*", MST_IN}, {"dx", "*", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = relu_gradient_check,
    .run = relu_gradient_run,
    .loop = relu_gradient_loop,
    .kernel = &relu_gradient_kernel,
    MST_CODE(relu_gradient_code),
};

muster_status muster_relu_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy, muster_tensor dx) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(relu_gradient_check(worker, MST_TENSORS(&y, &dy, &dx), NULL, __func__));
    relu_gradient_parameters p = {y, dy, dx};
    return mst_op_launch(worker, &relu_gradient_kernel, &p, sizeof p);
}
