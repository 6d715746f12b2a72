#include "copy_private.h"

#include <string.h>

typedef struct copy_parameters {
    muster_tensor x, y;
} copy_parameters;

typedef struct copy_state {
    muster_dtype from, to;
    int64_t from_size, to_size;
} copy_state;
_Static_assert(sizeof(copy_state) <= sizeof((mst_op_loop *)0)->context, "the context of a loop has room for it");

static void move_elements(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t size, int64_t n) {
    if (to_stride == size && from_stride == size) {
        memmove(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++) to[i * to_stride] = from[i * from_stride];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 8);
        break;
    }
}

void mst_copy_elements(void *size, char *const *at, const int64_t *stride, int64_t n) {
    move_elements(at[1], stride[1], at[0], stride[0], *(const int64_t *)size, n);
}

/* Strided rows are converted through a block on the stack. */
static void copy_converted(void *context, char *const *at, const int64_t *stride, int64_t n) {
    enum { BLOCK = 256 };
    const copy_state *state = context;
    if (stride[0] == state->from_size && stride[1] == state->to_size) {
        mst_convert(state->to, at[1], state->from, at[0], n);
        return;
    }
    _Alignas(8) char before[BLOCK * 8], after[BLOCK * 8];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        move_elements(before, state->from_size, at[0] + i * stride[0], stride[0], state->from_size, count);
        mst_convert(state->to, after, state->from, before, count);
        move_elements(at[1] + i * stride[1], stride[1], after, state->to_size, state->to_size, count);
    }
}

static void copy_make_loop(muster_dtype from, muster_dtype to, mst_op_loop *loop) {
    const copy_state state = {from, to, muster_dtype_size(from), muster_dtype_size(to)};
    *loop = (mst_op_loop){.run = from == to ? mst_copy_elements : copy_converted};
    memcpy(loop->context, from == to ? (const void *)&state.to_size : &state, from == to ? sizeof state.to_size : sizeof state);
}

void mst_copy_host(const muster_tensor *x, const muster_tensor *y) {
    mst_op_loop loop;
    mst_iterator iterator;
    copy_make_loop(x->dtype, y->dtype, &loop);
    mst_iterator_make_elements(&iterator, 2, (const muster_tensor *[]){x, y});
    const int64_t size = muster_dtype_size(y->dtype);
    if (x->dtype == y->dtype && (mst_copy_transposed(&iterator, size) || mst_copy_repeated(&iterator, size))) return;
    mst_iterator_run(&iterator, loop.run, loop.context);
}

static muster_status copy_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    (void)values;
    copy_make_loop(dtypes[0], dtypes[1], loop);
    return MUSTER_OK;
}

static muster_status copy_host(const void *parameters) {
    const copy_parameters *p = parameters;
    mst_copy_host(&p->x, &p->y);
    return MUSTER_OK;
}

static mst_code_kernel copy_code[] = {{.name = "mst_copy"}};

static muster_status copy_issue(muster_worker *worker, const void *parameters) {
    const copy_parameters *p = parameters;
    bool same = p->x.dtype == p->y.dtype;
    return mst_op_elements(
        worker, copy_code,
        &(mst_element_parameters){.dtype = p->y.dtype, .op = same ? 0 : p->x.dtype, .element = (uint64_t)muster_dtype_size(p->y.dtype)}, 2,
        (const muster_tensor *[]){&p->x, &p->y});
}

static MST_ALWAYS_INLINE muster_status copy_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                  const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_copy, t, where);
}

static muster_status copy_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_copy(worker, t[0], t[1]);
}

static const mst_kernel copy_kernel = {.host = copy_host, .issue = copy_issue};

const mst_op_row mst_operation_copy = {
    MST_OPERATION_ROW(copy, muster_copy),
    .operands = {{"x", "~", MST_IN, MST_ALL_DTYPES}, {"y", "*", MST_OUT | MST_IN_PLACE, MST_ALL_DTYPES}},
    .dtypes = MST_ALL_DTYPES,
    .check = copy_check,
    .run = copy_run,
    .loop = copy_loop,
    .kernel = &copy_kernel,
    MST_CODE(copy_code),
};

muster_status muster_copy(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(copy_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    copy_parameters p = {x, y};
    return mst_op_launch(worker, &copy_kernel, &p, sizeof p);
}
