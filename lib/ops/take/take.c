/* y[i] = x[indices[i]], whole rows. x may be a part of the rows that the indices count. */
#include "../indices/indices_private.h"
#include "take_parameters_private.h"

#include <string.h>

typedef struct take_request {
    muster_tensor x, indices, y;
    int64_t first, total; /* x has the rows from `first` on, of so many */
} take_request;

static const char take_name[] = "muster_take"; /* in messages of the kernels */

/* Writes zeros in place of elements that lie on other workers. The sum over the workers must keep
 * the bits of the one true element, so that floats get -0. `sign`: the size of a float, whose last
 * byte holds the sign; 0: the elements are no floats. */
static void take_nothing(char *to, size_t bytes, size_t sign) {
    memset(to, 0, bytes);
    for (size_t end = sign; sign && end <= bytes; end += sign) to[end - 1] = (char)0x80;
}

typedef struct take_element {
    int64_t size; /* that mst_copy_elements reads */
    size_t sign;
} take_element;

/* As mst_copy_elements, from nowhere. */
static void take_elsewhere(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const take_element *element = context;
    for (int64_t i = 0; i < n; i++) take_nothing(at[1] + i * stride[1], (size_t)element->size, element->sign);
}

static size_t sign_of(muster_dtype dtype) { return mst_dtype_is_float(dtype) ? (size_t)muster_dtype_size(dtype) : 0; }

/* Rows that are copied at once: those that some indices name. */
typedef struct take_block {
    char *to;
    const char *from;
    int64_t to_stride, from_stride; /* in bytes */
    const int64_t *places;          /* rows of `from`; below 0: they lie elsewhere */
    int64_t n;
    size_t sign; /* of take_nothing */
    bool all;    /* no place is below 0 */
} take_block;

static MST_ALWAYS_INLINE void take_row(char *to, const char *from, size_t bytes) {
    enum { CHUNK = 16, MOST = 256 };
    if (bytes <= CHUNK || bytes > MOST) {
        memcpy(to, from, bytes);
        return;
    }
    /* chunks of one instruction, of which the last two may overlap */
    for (size_t at = 0; at < bytes - CHUNK; at += CHUNK) memcpy(to + at, from + at, CHUNK);
    memcpy(to + bytes - CHUNK, from + bytes - CHUNK, CHUNK);
}

static MST_ALWAYS_INLINE void take_rows_at(const take_block *b, size_t bytes, int64_t to_stride, int64_t from_stride) {
    if (b->all)
        for (int64_t i = 0; i < b->n; i++) take_row(b->to + i * to_stride, b->from + b->places[i] * from_stride, bytes);
    else
        for (int64_t i = 0; i < b->n; i++) {
            if (b->places[i] >= 0)
                take_row(b->to + i * to_stride, b->from + b->places[i] * from_stride, bytes);
            else
                take_nothing(b->to + i * to_stride, bytes, b->sign);
        }
}

static MST_ALWAYS_INLINE void take_rows(const take_block *b, size_t bytes) {
    if (b->to_stride == (int64_t)bytes && b->from_stride == (int64_t)bytes) /* known numbers, where `bytes` is one */
        take_rows_at(b, bytes, (int64_t)bytes, (int64_t)bytes);
    else
        take_rows_at(b, bytes, b->to_stride, b->from_stride);
}

/* Rows of the sizes that are named here are copied without a loop or a call. */
MST_CLONES static void take_block_run(const take_block *b, size_t bytes) {
    switch (bytes) {
    case 1:
        take_rows(b, 1);
        break;
    case 2:
        take_rows(b, 2);
        break;
    case 4:
        take_rows(b, 4);
        break;
    case 8:
        take_rows(b, 8);
        break;
    case 16:
        take_rows(b, 16);
        break;
    case 32:
        take_rows(b, 32);
        break;
    case 64:
        take_rows(b, 64);
        break;
    default:
        take_rows(b, bytes);
    }
}

/* Single elements, by indices that lie behind each other and are all inside. */
#define ELEMENTS(T, I)                                                                          \
    MST_CLONES static void take_##T##_##I(void *to, const void *from, const I *at, int64_t n) { \
        T *restrict y = (T *)to;                                                                \
        const T *restrict x = (const T *)from;                                                  \
        for (int64_t i = 0; i < n; i++) y[i] = x[at[i]];                                        \
    }
ELEMENTS(uint8_t, int32_t)
ELEMENTS(uint8_t, int64_t)
ELEMENTS(uint16_t, int32_t)
ELEMENTS(uint16_t, int64_t)
ELEMENTS(uint32_t, int32_t)
ELEMENTS(uint32_t, int64_t)
ELEMENTS(uint64_t, int32_t)
ELEMENTS(uint64_t, int64_t)

#define TAKE_ELEMENTS(T)                                          \
    do {                                                          \
        if (p->indices.dtype == MUSTER_I32)                       \
            take_##T##_int32_t(to, from, indices, p->y.shape[0]); \
        else                                                      \
            take_##T##_int64_t(to, from, indices, p->y.shape[0]); \
    } while (0)
static bool take_elements(const take_request *p, int64_t bytes) {
    const int64_t size = muster_dtype_size(p->x.dtype);
    const void *from = muster_tensor_address(p->x), *indices = muster_tensor_address(p->indices);
    void *to = muster_tensor_address(p->y);
    if (bytes != size || p->x.strides[0] != 1 || p->y.strides[0] != 1 || p->indices.strides[0] != 1) return false;
    if (p->indices.dtype == MUSTER_U8 || p->first != 0 || p->x.shape[0] != p->total) return false;
    if (size == 1)
        TAKE_ELEMENTS(uint8_t);
    else if (size == 2)
        TAKE_ELEMENTS(uint16_t);
    else if (size == 4)
        TAKE_ELEMENTS(uint32_t);
    else
        TAKE_ELEMENTS(uint64_t);
    return true;
}

static void take_contiguous(const take_request *p, size_t bytes) {
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->y.shape[0];
    const bool inside = p->first == 0 && p->x.shape[0] == p->total;
    if (take_elements(p, (int64_t)bytes)) return;
    int64_t places[MST_INDICES_BLOCK];
    take_block b = {.from = muster_tensor_address(p->x),
                    .to_stride = p->y.strides[0] * size,
                    .from_stride = p->x.strides[0] * size,
                    .places = places,
                    .sign = sign_of(p->x.dtype)};
    for (int64_t begin = 0; begin < n && bytes; begin += b.n) {
        b.n = n - begin < MST_INDICES_BLOCK ? n - begin : MST_INDICES_BLOCK;
        b.to = (char *)muster_tensor_address(p->y) + begin * b.to_stride;
        b.all = mst_indices_read(&p->indices, begin, b.n, p->first, p->x.shape[0], inside, places);
        take_block_run(&b, bytes);
    }
}

static muster_status take_host(const void *parameters) {
    const take_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->y.shape[0];
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_host(&p->indices, p->total, take_name, "indices"));
    if (mst_tensor_contiguous(x) && mst_tensor_contiguous(y)) {
        take_contiguous(p, (size_t)(muster_tensor_count(y) * size));
        return MUSTER_OK;
    }
    mst_iterator row;
    take_element element = {size, sign_of(p->x.dtype)};
    mst_iterator_make(&row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    char *from = row.base[0], *to = row.base[1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = mst_index_at(&p->indices, i) - p->first;
        const bool here = index >= 0 && index < p->x.shape[0];
        row.base[0] = from + (here ? index * p->x.strides[0] * size : 0);
        row.base[1] = to + i * p->y.strides[0] * size;
        mst_iterator_run(&row, here ? mst_copy_elements : take_elsewhere, &element);
    }
    return MUSTER_OK;
}

static mst_code_kernel take_code[] = {{.name = "mst_take"}};

static muster_status take_issue(muster_worker *worker, const void *parameters) {
    const take_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype);
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_device(worker, &p->indices, p->total, take_name, "indices"));
    mst_take_parameters of_code = {.indices = muster_tensor_address(p->indices),
                                   .count = p->y.shape[0],
                                   .first = p->first,
                                   .rows = p->x.shape[0],
                                   .elements = muster_tensor_count(y),
                                   .x_stride = p->x.strides[0] * size,
                                   .y_stride = p->y.strides[0] * size,
                                   .index_stride = p->indices.strides[0],
                                   .element_size = (int32_t)size,
                                   .index_dtype = p->indices.dtype,
                                   .nothing = mst_dtype_is_float(p->x.dtype) ? UINT64_C(1) << (8 * size - 1) : 0};
    if (of_code.count == 0 || of_code.elements == 0) return MUSTER_OK;
    mst_iterator_make(&of_code.row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    return mst_op_code(worker, take_code, of_code.count * of_code.elements, &of_code, sizeof of_code);
}

static muster_status take_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    (void)values;
    return mst_indices_check_operands(worker, &mst_operation_take, t, 0, where);
}

static muster_status take_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    int64_t shape[MUSTER_MAX_DIMS];
    (void)values;
    MUSTER_TRY(mst_indices_shape(&t[0], &t[1], where, "x", shape));
    t[2] = muster_tensor_make(t[0].dtype, t[2].data, t[0].ndim, shape);
    return MUSTER_OK;
}

static muster_status take_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_take(worker, t[0], t[1], t[2]);
}

static const mst_kernel take_kernel = {.host = take_host, .issue = take_issue};

const mst_op_row mst_operation_take = {
    MST_OPERATION_ROW(take, muster_take),
    .operands = {{"x", "?", MST_IN}, {"indices", "n", MST_IN, MST_INDEX_DTYPES}, {"y", "?", MST_OUT}},
    .dtypes = MST_ALL_DTYPES,
    .check = take_check,
    .infer = take_infer,
    .run = take_run,
    .kernel = &take_kernel,
    MST_CODE(take_code),
};

muster_status muster_take(muster_worker *worker, muster_tensor x, muster_tensor indices, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(take_check(worker, MST_TENSORS(&x, &indices, &y), NULL, __func__));
    take_request p = {x, indices, y, 0, x.shape[0]};
    return mst_op_launch(worker, &take_kernel, &p, sizeof p);
}

muster_status mst_worker_take_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                   muster_tensor y) {
    MUSTER_TRY(take_check(worker, MST_TENSORS(&x, &indices, &y), NULL, take_name));
    take_request p = {x, indices, y, first, total};
    return mst_op_launch(worker, &take_kernel, &p, sizeof p);
}
