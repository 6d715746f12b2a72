/* y = max(x + bias, 0), and the gradient of relu. */
#include "../op_impl.h"

typedef struct relu_parameters {
    muster_tensor p, q, y; /* x, bias, y; or y, dy, dx */
} relu_parameters;

#define LOOP(NAME, T, C, LOAD, STORE, EXPRESSION)                                                                       \
    MST_CLONES static void NAME(void *context, char *const *at, const int64_t *step, int64_t n) {                       \
        (void)context;                                                                                                  \
        if (step[0] == (int64_t)sizeof(T) && step[1] == (int64_t)sizeof(T) && step[2] == (int64_t)sizeof(T)) {          \
            const T *p = (const T *)(void *)at[0], *q = (const T *)(void *)at[1];                                       \
            T *y = (T *)(void *)at[2];                                                                                  \
            MST_INDEPENDENT                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                           \
                C a = LOAD(p[i]), b = LOAD(q[i]);                                                                       \
                y[i] = STORE(EXPRESSION);                                                                               \
            }                                                                                                           \
            return;                                                                                                     \
        }                                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                               \
            C a = LOAD(*(const T *)(void *)(at[0] + i * step[0])), b = LOAD(*(const T *)(void *)(at[1] + i * step[1])); \
            *(T *)(void *)(at[2] + i * step[2]) = STORE(EXPRESSION);                                                    \
        }                                                                                                               \
    }
#define DEFINE(NAME, name, T, C, LOAD, STORE)                        \
    LOOP(bias_relu_##name, T, C, LOAD, STORE, a + b < 0 ? 0 : a + b) \
    LOOP(relu_gradient_##name, T, C, LOAD, STORE, a > 0 ? b : 0)
MST_EACH_FLOAT(DEFINE)

static muster_status run(const relu_parameters *p, const mst_walk_inner *loops) {
    mst_walk walk;
    mst_walk_make(&walk, p->y.ndim, p->y.shape, 3, (const muster_tensor *[]){&p->p, &p->q, &p->y});
    mst_walk_run(&walk, loops[p->y.dtype], NULL);
    return MUSTER_OK;
}

static muster_status bias_relu_kernel(const void *parameters) {
#define BIAS_ROW(NAME, name, T, C, LOAD, STORE) [MUSTER_##NAME] = bias_relu_##name,
    static const mst_walk_inner loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(BIAS_ROW)};
    return run(parameters, loops);
}

static muster_status relu_gradient_kernel(const void *parameters) {
#define GRADIENT_ROW(NAME, name, T, C, LOAD, STORE) [MUSTER_##NAME] = relu_gradient_##name,
    static const mst_walk_inner loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(GRADIENT_ROW)};
    return run(parameters, loops);
}

static muster_status issue(muster_worker *worker, mst_code_kernel *code, const relu_parameters *p) {
    return mst_op_elements(worker, code, &(mst_element_parameters){.dtype = p->y.dtype}, 3, (const muster_tensor *[]){&p->p, &p->q, &p->y});
}

static muster_status bias_relu_issue(muster_worker *worker, const void *parameters) {
    static mst_code_kernel code = {.name = "mst_bias_relu"};
    return issue(worker, &code, parameters);
}

static muster_status relu_gradient_issue(muster_worker *worker, const void *parameters) {
    static mst_code_kernel code = {.name = "mst_relu_gradient"};
    return issue(worker, &code, parameters);
}

static const mst_kernel bias_relu = {.host = bias_relu_kernel, .issue = bias_relu_issue};
static const mst_kernel relu_gradient = {.host = relu_gradient_kernel, .issue = relu_gradient_issue};
static const int32_t offsets[] = {MST_AT(relu_parameters, p), MST_AT(relu_parameters, q), MST_AT(relu_parameters, y)};

muster_status muster_bias_relu(muster_worker *worker, muster_tensor x, muster_tensor bias, muster_tensor y) {
    MST_OP_WORKER(worker);
    MST_OP_TENSOR(worker, x);
    MST_OP_TENSOR(worker, bias);
    MST_OP_TENSOR(worker, y);
    MUSTER_TRY(mst_op_float_dtype(__func__, "x", x.dtype));
    MUSTER_TRY(mst_op_same_dtype(__func__, "bias", bias.dtype, "x", x.dtype));
    MUSTER_TRY(mst_op_same_dtype(__func__, "y", y.dtype, "x", x.dtype));
    MUSTER_TRY(mst_op_ndim(__func__, "x", &x, 2));
    MUSTER_TRY(mst_op_same_shape(__func__, "y", &y, "x", &x));
    MUSTER_TRY(mst_op_shape(__func__, "bias", &bias, 1, &x.shape[1]));
    relu_parameters p = {x, bias, y};
    return mst_op_launch(worker, &bias_relu, &p, sizeof p, offsets, 3);
}

muster_status muster_relu_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy, muster_tensor dx) {
    MST_OP_WORKER(worker);
    MST_OP_TENSOR(worker, y);
    MST_OP_TENSOR(worker, dy);
    MST_OP_TENSOR(worker, dx);
    MUSTER_TRY(mst_op_float_dtype(__func__, "y", y.dtype));
    MUSTER_TRY(mst_op_same_dtype(__func__, "dy", dy.dtype, "y", y.dtype));
    MUSTER_TRY(mst_op_same_dtype(__func__, "dx", dx.dtype, "y", y.dtype));
    MUSTER_TRY(mst_op_same_shape(__func__, "dy", &dy, "y", &y));
    MUSTER_TRY(mst_op_same_shape(__func__, "dx", &dx, "y", &y));
    relu_parameters p = {y, dy, dx};
    return mst_op_launch(worker, &relu_gradient, &p, sizeof p, offsets, 3);
}
