/* Loops over the elements of tensors of one shape. An operand that is contiguous along another axis
 * than the result, such as a transposed matrix, is read by blocks, which are transposed into memory
 * where the loop finds them contiguous: along the result each of its elements would take a cache
 * line. */
#include "op_impl.h"

enum { LINE = 64, BYTES = 8192, LEAST = 8 /* elements of either axis */ };

/* Sizes of operands are bytes, those of blocks elements. */
typedef struct turned {
    const mst_iterator *iterator;
    mst_iterator_loop inner;
    void *context;
    int64_t size[MST_ITERATOR_OPERANDS];
    bool is_turned[MST_ITERATOR_OPERANDS];
    int32_t row; /* the axis along which these are contiguous */
    int64_t rows, columns;
} turned;

/* The axis before the last along which an operand is contiguous; negative: none. */
static int32_t contiguous_axis(const mst_iterator *iterator, int32_t operand, int64_t size) {
    const int64_t *stride = iterator->strides[operand];
    int32_t d = iterator->ndim - 1;
    if (stride[d] == size || stride[d] == 0) return -1;
    for (d--; d >= 0; d--)
        if (stride[d] == size && iterator->shape[d] >= LEAST) return d;
    return -1;
}

/* Operands that are contiguous along a second other axis are read where they lie. */
static bool find_turned(turned *t, const muster_tensor *const *tensors) {
    const mst_iterator *iterator = t->iterator;
    const int32_t last = iterator->ndim - 1, result = iterator->operands - 1;
    int64_t largest = 0, count = 0;
    if (iterator->shape[last] < LEAST || iterator->strides[result][last] != muster_dtype_size(tensors[result]->dtype)) return false;
    t->row = -1;
    for (int32_t i = 0; i < result; i++) {
        t->size[i] = muster_dtype_size(tensors[i]->dtype);
        const int32_t axis = contiguous_axis(iterator, i, t->size[i]);
        if (t->row < 0) t->row = axis;
        t->is_turned[i] = axis >= 0 && axis == t->row;
        if (!t->is_turned[i]) continue;
        largest = t->size[i] > largest ? t->size[i] : largest;
        count++;
    }
    if (!count) return false;
    t->rows = LINE / largest;
    t->columns = BYTES / (count * LINE);
    return true;
}

/* `at`: where the operands are at the first element of the block. */
static void run_block(const turned *t, char *const *at, int64_t rows, int64_t columns) {
    _Alignas(LINE) char memory[BYTES];
    const mst_iterator *iterator = t->iterator;
    const int32_t last = iterator->ndim - 1;
    int64_t stride[MST_ITERATOR_OPERANDS], advance[MST_ITERATOR_OPERANDS], used = 0;
    char *from[MST_ITERATOR_OPERANDS];
    for (int32_t i = 0; i < iterator->operands; i++) {
        from[i] = at[i];
        stride[i] = iterator->strides[i][last];
        advance[i] = iterator->strides[i][t->row];
        if (!t->is_turned[i]) continue;
        from[i] = memory + used;
        mst_transpose_elements(from[i], columns * t->size[i], at[i], stride[i], rows, columns, t->size[i]);
        stride[i] = t->size[i];
        advance[i] = columns * t->size[i];
        used += (rows * columns * t->size[i] + LINE - 1) / LINE * LINE;
    }
    for (int64_t r = 0; r < rows; r++) {
        t->inner(t->context, from, stride, columns);
        for (int32_t i = 0; i < iterator->operands; i++) from[i] += advance[i];
    }
}

static void run_plane(const turned *t, char *const *base) {
    const mst_iterator *iterator = t->iterator;
    const int32_t last = iterator->ndim - 1;
    char *at[MST_ITERATOR_OPERANDS];
    for (int64_t r = 0; r < iterator->shape[t->row]; r += t->rows)
        for (int64_t c = 0; c < iterator->shape[last]; c += t->columns) {
            const int64_t rows = iterator->shape[t->row] - r, columns = iterator->shape[last] - c;
            for (int32_t i = 0; i < iterator->operands; i++)
                at[i] = base[i] + r * iterator->strides[i][t->row] + c * iterator->strides[i][last];
            run_block(t, at, rows < t->rows ? rows : t->rows, columns < t->columns ? columns : t->columns);
        }
}

static void run_turned(const turned *t) {
    const mst_iterator *iterator = t->iterator;
    int64_t index[MUSTER_MAX_DIMS] = {0};
    char *at[MST_ITERATOR_OPERANDS];
    for (int32_t d = 0; d < iterator->ndim; d++)
        if (iterator->shape[d] == 0) return;
    for (int32_t i = 0; i < iterator->operands; i++) at[i] = iterator->base[i];
    for (;;) {
        run_plane(t, at);
        int32_t d = iterator->ndim - 2;
        for (; d >= 0; d--) {
            if (d == t->row) continue;
            if (++index[d] < iterator->shape[d]) break;
            for (int32_t i = 0; i < iterator->operands; i++) at[i] -= iterator->strides[i][d] * (iterator->shape[d] - 1);
            index[d] = 0;
        }
        if (d < 0) return;
        for (int32_t i = 0; i < iterator->operands; i++) at[i] += iterator->strides[i][d];
    }
}

static __attribute__((noinline)) void run_axes(const mst_iterator *iterator, const muster_tensor *const *tensors, mst_iterator_loop inner,
                                               void *context) {
    turned t = {.iterator = iterator, .inner = inner, .context = context};
    if (find_turned(&t, tensors))
        run_turned(&t);
    else
        mst_iterator_run(iterator, inner, context);
}

void mst_iterator_run_elements(int32_t operands, const muster_tensor *const *tensors, mst_iterator_loop inner, void *context) {
    mst_iterator iterator;
    mst_iterator_make_elements(&iterator, operands, tensors);
    if (iterator.ndim > 1)
        run_axes(&iterator, tensors, inner, context);
    else
        mst_iterator_run(&iterator, inner, context);
}
