#include "recurrence_impl.h"

#include "op_impl.h"
#include "recurrence_parameters_private.h"

/* ---- on CPU cores ---- */

/* So many rows go on together: the product of one does not wait for that of another, and where rows
 * lie beside each other, their elements share cache lines. */
enum { ROWS = 32 };

#define RECURRENCE(SUFFIX, T, A)                                                                       \
    static void rows_##SUFFIX(const mst_recurrence_parameters *p, int64_t row, int64_t rows) {         \
        A e[ROWS];                                                                                     \
        const char *a = p->a.at + row * p->a.row, *b = p->b.at ? p->b.at + row * p->b.row : NULL;      \
        char *y = p->y.at + row * p->y.row;                                                            \
        for (int64_t r = 0; r < rows; r++) e[r] = (A)p->first;                                         \
        for (int64_t j = 0; j < p->length; j++)                                                        \
            for (int64_t r = 0; r < rows; r++) {                                                       \
                const A before = e[r];                                                                 \
                e[r] *= (A) * (const T *)(const void *)(a + r * p->a.row + j * p->a.along);            \
                if (b) e[r] += (A) * (const T *)(const void *)(b + r * p->b.row + j * p->b.along);     \
                *(T *)(void *)(y + r * p->y.row + j * p->y.along) = (T)(p->inclusive ? e[r] : before); \
            }                                                                                          \
    }
RECURRENCE(f32, float, double)
RECURRENCE(f64, double, double)
RECURRENCE(u64, uint64_t, uint64_t)

static muster_status recurrence_host(const void *parameters) {
    const mst_recurrence_parameters *p = parameters;
    for (int64_t row = 0; row < p->rows; row += ROWS) {
        const int64_t rows = p->rows - row < ROWS ? p->rows - row : ROWS;
        (p->dtype == MUSTER_F32 ? rows_f32 : p->dtype == MUSTER_F64 ? rows_f64 : rows_u64)(p, row, rows);
    }
    return MUSTER_OK;
}

/* ---- on other devices ---- */

enum { CHUNKS, STARTS, WRITE };

/* The chunks depend on the length alone, so that the bits of a row do not depend on how many rows
 * there are. */
static muster_status recurrence_issue(muster_worker *worker, const void *parameters) {
    enum { LEAST = 64 };
    static mst_code_kernel kernels[] = {[CHUNKS] = {.name = "mst_recurrence_chunks"},
                                        [STARTS] = {.name = "mst_recurrence_starts"},
                                        [WRITE] = {.name = "mst_recurrence_write"}};
    mst_recurrence_parameters p = *(const mst_recurrence_parameters *)parameters;
    for (p.chunk = LEAST; p.chunk < p.length && p.chunk * p.chunk < p.length;) p.chunk *= 2;
    p.chunks = (p.length + p.chunk - 1) / p.chunk;
    if (p.chunks > 1) {
        MUSTER_TRY(mst_worker_scratch_bytes(worker, 2 * p.rows * p.chunks * 8, &p.work));
        MUSTER_TRY(mst_op_code(worker, &kernels[CHUNKS], p.rows * p.chunks, &p, sizeof p));
        MUSTER_TRY(mst_op_code(worker, &kernels[STARTS], p.rows, &p, sizeof p));
    }
    return mst_op_code(worker, &kernels[WRITE], p.rows * p.chunks, &p, sizeof p);
}

static mst_recurrence_operand operand_of(const muster_tensor *x) {
    const int64_t size = muster_dtype_size(x->dtype);
    return (mst_recurrence_operand){muster_tensor_address(*x), x->strides[0] * size, x->strides[1] * size};
}

muster_status mst_recurrence(muster_worker *worker, const muster_tensor *a, const muster_tensor *b, double first, bool inclusive,
                             const muster_tensor *y) {
    static const mst_kernel kernel = {.host = recurrence_host, .issue = recurrence_issue};
    mst_recurrence_parameters p = {.a = operand_of(a),
                                   .y = operand_of(y),
                                   .rows = a->shape[0],
                                   .length = a->shape[1],
                                   .first = first,
                                   .dtype = a->dtype,
                                   .inclusive = inclusive};
    if (b) p.b = operand_of(b);
    return p.rows && p.length ? mst_op_launch(worker, &kernel, &p, sizeof p) : MUSTER_OK;
}
