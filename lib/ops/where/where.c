/* y = a where the condition is true, else b. Elements are moved, not computed. */
#include "../op_impl.h"

typedef struct where_parameters {
    muster_tensor condition, a, b, y;
} where_parameters;

#define DEFINE(bits)                                                                                                           \
    MST_CLONES static void where_##bits(void *context, char *const *at, const int64_t *stride, int64_t n) {                    \
        const int64_t size = bits / 8;                                                                                         \
        (void)context;                                                                                                         \
        if (stride[0] == 1 && stride[1] == size && stride[2] == size && stride[3] == size) {                                   \
            const uint8_t *condition = (const uint8_t *)at[0];                                                                 \
            const uint##bits##_t *a = (const void *)at[1], *b = (const void *)at[2];                                           \
            uint##bits##_t *y = (void *)at[3];                                                                                 \
            MST_INDEPENDENT                                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                                  \
                const uint##bits##_t yes = a[i], no = b[i]; /* both are read, so that the loop needs no branch */              \
                y[i] = condition[i] ? yes : no;                                                                                \
            }                                                                                                                  \
            return;                                                                                                            \
        }                                                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                        \
            *(uint##bits##_t *)(void *)(at[3] + i * stride[3]) =                                                               \
                *(const uint##bits##_t *)(const void *)(at[0][i * stride[0]] ? at[1] + i * stride[1] : at[2] + i * stride[2]); \
    }
DEFINE(8)
DEFINE(16)
DEFINE(32)
DEFINE(64)

static mst_iterator_loop where_of(muster_dtype dtype) {
    const int64_t size = muster_dtype_size(dtype);
    return size == 1 ? where_8 : size == 2 ? where_16 : size == 4 ? where_32 : where_64;
}

static muster_status where_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    (void)values;
    return mst_op_plain_loop(&mst_operation_where, dtypes[1], where_of(dtypes[1]), loop);
}

static muster_status where_host(const void *parameters) {
    const where_parameters *p = parameters;
    mst_iterator_run_elements(4, (const muster_tensor *[]){&p->condition, &p->a, &p->b, &p->y}, where_of(p->y.dtype), NULL);
    return MUSTER_OK;
}

static mst_code_kernel where_code[] = {{.name = "mst_where"}};

static muster_status where_issue(muster_worker *worker, const void *parameters) {
    const where_parameters *p = parameters;
    return mst_op_elements(worker, where_code, &(mst_element_parameters){.dtype = p->y.dtype, .op = (int32_t)muster_dtype_size(p->y.dtype)},
                           4, (const muster_tensor *[]){&p->condition, &p->a, &p->b, &p->y});
}

static MST_ALWAYS_INLINE muster_status where_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                   const char *where) {
    const muster_tensor *condition = t[0], *a = t[1], *b = t[2], *y = t[3];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, condition, where, "condition"));
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    if (condition->dtype != MUSTER_BOOL)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: condition: expected bool, received %s", where, muster_dtype_name(condition->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_broadcasts(where, "condition", condition, "y", y));
    MUSTER_TRY(mst_op_broadcasts(where, "a", a, "y", y));
    MUSTER_TRY(mst_op_broadcasts(where, "b", b, "y", y));
    return mst_op_check_results(&mst_operation_where, t, where);
}

static muster_status where_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_where(worker, t[0], t[1], t[2], t[3]);
}

static const mst_kernel where_kernel = {.host = where_host, .issue = where_issue};

const mst_op_row mst_operation_where = {
    MST_OPERATION_ROW(where, muster_where),
    .operands = {{"condition", "~", MST_IN, MST_DTYPE_BIT(MUSTER_BOOL)},
                 {"a", "~", MST_IN},
                 {"b", "~", MST_IN},
                 {"y", "*", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_ALL_DTYPES,
    .check = where_check,
    .run = where_run,
    .loop = where_loop,
    .kernel = &where_kernel,
    MST_CODE(where_code),
};

muster_status muster_where(muster_worker *worker, muster_tensor condition, muster_tensor a, muster_tensor b, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(where_check(worker, MST_TENSORS(&condition, &a, &b, &y), NULL, __func__));
    where_parameters p = {condition, a, b, y};
    return mst_op_launch(worker, &where_kernel, &p, sizeof p);
}
