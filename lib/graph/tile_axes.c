/* The axes of a group, and the shape of its tiles. */
#include "tile_making_private.h"

/* The operand that is contiguous along another axis than the last one, such as a transposed matrix,
 * and that axis; -1: there is none. */
static int32_t transposed_axis(const mst_tile_program *p) {
    enum { LEAST = 8 };
    const int32_t last = p->axis_count - 1;
    for (int32_t t = 0; t < p->operand_count; t++) {
        const int64_t size = muster_dtype_size(p->tensors[t]->dtype);
        for (int32_t d = 0; d < last && p->strides[t][last] != size && p->strides[t][last] != 0; d++)
            if (p->strides[t][d] == size && p->shape[d] >= LEAST) return d;
    }
    return -1;
}

/* Makes tiles of a long last axis narrow, so that a tile has many indices of the axis along which
 * an operand is contiguous: then the tile reads whole cache lines of it. The last axis becomes
 * two, of which the first comes before that axis. `most`: elements of a tile. */
static void axes_narrow(mst_tile_program *p, int64_t most) {
    enum { LEAST = 8, ROWS = 16 };
    const int32_t last = p->axis_count - 1, rows_axis = transposed_axis(p);
    int64_t inner = most / ROWS;
    if (p->axis != last || rows_axis < 0 || p->axis_count == MUSTER_MAX_DIMS || p->shape[last] <= MST_TILE_ROW) return;
    while (inner > 1 && p->shape[last] % inner != 0) inner--;
    if (inner < LEAST) return;
    for (int32_t t = -1; t < p->tensor_count; t++) { /* -1: the shape */
        int64_t *values = t < 0 ? p->shape : p->strides[t];
        const int64_t rows_value = values[rows_axis], last_value = values[last];
        for (int32_t d = rows_axis; d + 1 < last; d++) values[d] = values[d + 1];
        values[last - 1] = t < 0 ? last_value / inner : last_value * inner;
        values[last] = rows_value;
        values[last + 1] = t < 0 ? inner : last_value;
    }
    p->axis_count++;
    p->inside = inner;
    p->rows = most / inner;
}

/* The axis along which tiles follow each other, and the size of a tile. */
void mst_tile_axes_make(mst_tile_making *m) {
    mst_tile_program *p = m->program;
    const muster_tensor *shape = p->tensors[p->operand_count];
    int64_t widest = 1;
    for (int32_t i = 0; i < m->group->member_count; i++) {
        const int64_t size = muster_dtype_size(m->group->members[i]->type.dtype);
        if ((m->needed >> i & 1) && size > widest) widest = size;
    }
    for (int32_t t = 0; t < p->operand_count; t++)
        if (muster_dtype_size(p->tensors[t]->dtype) > widest) widest = muster_dtype_size(p->tensors[t]->dtype);
    const int64_t most = MST_TILE_BYTES / widest;
    p->count = muster_tensor_count(*shape);
    p->axis_count = mst_iterator_join_as(shape, p->tensor_count, p->tensors, p->shape, p->strides);
    p->axis = p->axis_count - 1;
    p->inside = 1;
    while (p->axis > 0 && p->shape[p->axis] * p->inside <= MST_TILE_ROW) p->inside *= p->shape[p->axis--];
    p->rows = p->inside ? most / p->inside : 0;
    axes_narrow(p, most);
}
