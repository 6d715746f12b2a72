#include "../op_impl.h"

#include <string.h>

typedef struct fill_parameters {
    muster_tensor y;
    uint64_t element; /* the value in y's dtype, in its first bytes */
} fill_parameters;

#define DEFINE(bits)                                                                                       \
    MST_CLONES static void fill_##bits(void *context, char *const *at, const int64_t *stride, int64_t n) { \
        uint##bits##_t element;                                                                            \
        memcpy(&element, context, sizeof element);                                                         \
        if (stride[0] == (int64_t)sizeof element) {                                                        \
            uint##bits##_t *y = (void *)at[0];                                                             \
            for (int64_t i = 0; i < n; i++) y[i] = element;                                                \
        } else                                                                                             \
            for (int64_t i = 0; i < n; i++) *(uint##bits##_t *)(void *)(at[0] + i * stride[0]) = element;  \
    }
DEFINE(8)
DEFINE(16)
DEFINE(32)
DEFINE(64)

static muster_status fill_host(const void *parameters) {
    fill_parameters p = *(const fill_parameters *)parameters;
    int64_t size = muster_dtype_size(p.y.dtype);
    mst_iterator iterator;
    mst_iterator_make_elements(&iterator, 1, (const muster_tensor *[]){&p.y});
    mst_iterator_run(&iterator, size == 1 ? fill_8 : size == 2 ? fill_16 : size == 4 ? fill_32 : fill_64, &p.element);
    return MUSTER_OK;
}

static mst_code_kernel fill_code[] = {{.name = "mst_fill"}};

static muster_status fill_issue(muster_worker *worker, const void *parameters) {
    const fill_parameters *p = parameters;
    int32_t size = (int32_t)muster_dtype_size(p->y.dtype);
    return mst_op_elements(worker, fill_code, &(mst_element_parameters){.dtype = p->y.dtype, .op = size, .element = p->element}, 1,
                           (const muster_tensor *[]){&p->y});
}

static MST_ALWAYS_INLINE muster_status fill_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                  const char *where) {
    const muster_tensor *y = t[0];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    return mst_op_check_results(&mst_operation_fill, t, where);
}

static muster_status fill_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_fill(worker, v[0].number, t[0]);
}

static const mst_kernel fill_kernel = {.host = fill_host, .issue = fill_issue};

const mst_op_row mst_operation_fill = {
    MST_OPERATION_ROW(fill, muster_fill),
    .operands = {{"y", "*", MST_OUT}},
    .attributes = {{"value", MST_NUMBER}},
    .dtypes = MST_ALL_DTYPES,
    .check = fill_check,
    .run = fill_run,
    .kernel = &fill_kernel,
    MST_CODE(fill_code),
};

muster_status muster_fill(muster_worker *worker, double value, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(fill_check(worker, MST_TENSORS(&y), NULL, __func__));
    fill_parameters p = {.y = y};
    mst_convert(y.dtype, &p.element, MUSTER_F64, &value, 1);
    return mst_op_launch(worker, &fill_kernel, &p, sizeof p);
}
