/* Products of matrices of integers: each element of a times a row of b is added to a row of c. The
 * low bits of a product do not depend on its sign, so that unsigned types serve all. */
#include "integer_product_impl.h"

#include "op_impl.h"

typedef struct product_call {
    muster_tensor a, b, c;
    mst_iterator stacks; /* over the matrices */
} product_call;

/* Strides in elements, of rows and of columns. */
#define PRODUCT(T, WIDE)                                                                                                                  \
    MST_CLONES static void row_##T(T *c, int64_t c_stride, T a, const T *b, int64_t b_stride, int64_t n) {                                \
        if (c_stride == 1 && b_stride == 1) {                                                                                             \
            MST_INDEPENDENT                                                                                                               \
            for (int64_t j = 0; j < n; j++) c[j] = (T)(c[j] + (WIDE)a * b[j]);                                                            \
            return;                                                                                                                       \
        }                                                                                                                                 \
        for (int64_t j = 0; j < n; j++) c[j * c_stride] = (T)(c[j * c_stride] + (WIDE)a * b[j * b_stride]);                               \
    }                                                                                                                                     \
    static void product_##T(const product_call *p, const T *a, const T *b, T *c) {                                                        \
        const int64_t *sa = p->a.strides, *sb = p->b.strides, *sc = p->c.strides, m = p->c.shape[0], n = p->c.shape[1];                   \
        for (int64_t i = 0; i < m; i++) {                                                                                                 \
            for (int64_t j = 0; j < n; j++) c[i * sc[0] + j * sc[1]] = 0;                                                                 \
            for (int64_t k = 0; k < p->a.shape[1]; k++) row_##T(c + i * sc[0], sc[1], a[i * sa[0] + k * sa[1]], b + k * sb[0], sb[1], n); \
        }                                                                                                                                 \
    }                                                                                                                                     \
    static void each_##T(void *context, char *const *at, const int64_t *stride, int64_t n) {                                              \
        for (int64_t i = 0; i < n; i++)                                                                                                   \
            product_##T(context, (const T *)(const void *)(at[0] + i * stride[0]), (const T *)(const void *)(at[1] + i * stride[1]),      \
                        (T *)(void *)(at[2] + i * stride[2]));                                                                            \
    }
PRODUCT(uint8_t, uint32_t)
PRODUCT(uint16_t, uint32_t)
PRODUCT(uint32_t, uint32_t)
PRODUCT(uint64_t, uint64_t)

static muster_tensor matrix_of(const muster_tensor *tensor) {
    muster_tensor matrix = *tensor;
    matrix.ndim = 2;
    for (int32_t d = 0; d < 2; d++) {
        matrix.shape[d] = tensor->shape[tensor->ndim - 2 + d];
        matrix.strides[d] = tensor->strides[tensor->ndim - 2 + d];
    }
    return matrix;
}

static muster_status product_host(const void *parameters) {
    product_call call = *(const product_call *)parameters;
    static const mst_iterator_loop loops[] = {[1] = each_uint8_t, [2] = each_uint16_t, [4] = each_uint32_t, [8] = each_uint64_t};
    mst_iterator_run(&call.stacks, loops[muster_dtype_size(call.c.dtype)], &call);
    return MUSTER_OK;
}

muster_status mst_integer_product(muster_worker *worker, const muster_tensor *a, const muster_tensor *b, const muster_tensor *c) {
    static const mst_kernel kernel = {.host = product_host};
    product_call call = {matrix_of(a), matrix_of(b), matrix_of(c), {0}};
    muster_tensor stacks[3] = {*a, *b, *c};
    for (int32_t i = 0; i < 3; i++) stacks[i].ndim -= 2;
    mst_iterator_make(&call.stacks, stacks[2].ndim, stacks[2].shape, 3, MST_TENSORS(&stacks[0], &stacks[1], &stacks[2]));
    return muster_tensor_count(*c) ? mst_op_launch(worker, &kernel, &call, sizeof call) : MUSTER_OK;
}
