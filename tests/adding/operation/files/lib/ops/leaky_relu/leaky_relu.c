/* snippet: parameters */
/* y = x where x >= 0, else slope x. */
#include "../op_impl.h"

typedef struct leaky_relu_parameters {
    muster_tensor x, y;
    double slope;
} leaky_relu_parameters;
/* end of snippet */

/* snippet: loop */
#define DEFINE(NAME, name, T, C, LOAD, STORE)                                                                    \
    MST_CLONES static void leaky_relu_##name(void *context, char *const *at, const int64_t *stride, int64_t n) { \
        const C slope = (C) * (const double *)context;                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                        \
            const C v = LOAD(*(const T *)(void *)(at[0] + i * stride[0]));                                       \
            *(T *)(void *)(at[1] + i * stride[1]) = STORE(v < 0 ? slope * v : v);                                \
        }                                                                                                        \
    }
MST_EACH_FLOAT(DEFINE)
/* end of snippet */

/* snippet: host */
static muster_status leaky_relu_host(const void *parameters) {
#define ROW(NAME, name, ...) [MUSTER_##NAME] = leaky_relu_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};
    leaky_relu_parameters p = *(const leaky_relu_parameters *)parameters;
    mst_iterator iterator;
    mst_iterator_make(&iterator, p.y.ndim, p.y.shape, 2, (const muster_tensor *[]){&p.x, &p.y});
    mst_iterator_run(&iterator, loops[p.y.dtype], &p.slope);
    return MUSTER_OK;
}
/* end of snippet */

/* snippet: device */
static mst_code_kernel leaky_relu_code[] = {{.name = "mst_leaky_relu"}};

static muster_status leaky_relu_issue(muster_worker *worker, const void *parameters) {
    const leaky_relu_parameters *p = parameters;
    return mst_op_elements(worker, leaky_relu_code, &(mst_element_parameters){.dtype = p->y.dtype, .alpha = p->slope}, 2,
                           (const muster_tensor *[]){&p->x, &p->y});
}

static const mst_kernel leaky_relu_kernel = {.host = leaky_relu_host, .issue = leaky_relu_issue};
/* end of snippet */

/* snippet: check */
static MST_ALWAYS_INLINE muster_status leaky_relu_check(const muster_worker *worker, const muster_tensor *const *t,
                                                        const mst_op_value *values, const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_float_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_leaky_relu, t, where);
}
/* end of snippet */

/* snippet: row */
static muster_status leaky_relu_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_leaky_relu(worker, v[0].number, t[0], t[1]);
}

const mst_op_row mst_operation_leaky_relu = {
    MST_OPERATION_ROW(leaky_relu, muster_leaky_relu),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT}},
    .attributes = {{"slope", MST_NUMBER}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = leaky_relu_check,
    .run = leaky_relu_run,
    .kernel = &leaky_relu_kernel,
    MST_CODE(leaky_relu_code),
    .error = MST_FLOAT_ERRORS,
};
/* end of snippet */

/* snippet: function */
muster_status muster_leaky_relu(muster_worker *worker, double slope, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(leaky_relu_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    leaky_relu_parameters p = {x, y, slope};
    return mst_op_launch(worker, &leaky_relu_kernel, &p, sizeof p);
}
/* end of snippet */
