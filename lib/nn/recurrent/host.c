/* Steps of recurrent layers on a CPU core: row by row, each in one loop, so that a number of a gate
 * stays in a register from its sum to the new state. */
#include "exponential_private.h"
#include "own_private.h"
#include "recurrent/recurrent_impl.h"

#include <math.h>
#include <string.h>

/* The kernels have names of their own for the kinds. */
_Static_assert((int)MST_RECURRENT_TANH == (int)MST_CELL_TANH && (int)MST_RECURRENT_RELU == (int)MST_CELL_RELU &&
                   (int)MST_RECURRENT_LSTM == (int)MST_CELL_LSTM && (int)MST_RECURRENT_GRU == (int)MST_CELL_GRU,
               "the kinds of recurrent layers have equal numbers");

static char *cell_row(const mst_cell_parameters *p, int32_t operand, int64_t b, size_t size) {
    const mst_cell_operand *o = &p->operands[operand];
    return o->data ? o->data + b * o->row * (int64_t)size : NULL;
}

static MST_ALWAYS_INLINE double cell_sigmoid_f64(double x) { return 1 / (1 + exp(-x)); }

#define T float
#define SUFFIX f32
#define SIGMOID mst_sigmoid_f32
#define TANH mst_tanh_f32
#include "cell_loops.h"
#undef T
#undef SUFFIX
#undef SIGMOID
#undef TANH
#define T double
#define SUFFIX f64
#define SIGMOID cell_sigmoid_f64
#define TANH tanh
#include "cell_loops.h"
#undef T
#undef SUFFIX
#undef SIGMOID
#undef TANH

static bool is_active(const mst_cell_parameters *p, int64_t b) {
    return p->step < *(const int64_t *)(const void *)cell_row(p, MST_CELL_LENGTHS, b, sizeof(int64_t));
}

static void cell_clear(const mst_cell_parameters *p, int32_t operand, int64_t b, int64_t count) {
    const size_t size = (size_t)muster_dtype_size(p->dtype);
    char *row = cell_row(p, operand, b, size);
    if (row) memset(row, 0, (size_t)count * size);
}
static void cell_copy(const mst_cell_parameters *p, int32_t from, int32_t to, int64_t b) {
    const size_t size = (size_t)muster_dtype_size(p->dtype);
    char *row = cell_row(p, to, b, size);
    if (row) memcpy(row, cell_row(p, from, b, size), (size_t)p->width * size);
}

muster_status mst_cell_host_open(muster_worker *worker, muster_dtype dtype, int64_t width, mst_cell_host *host) {
    void *row;
    int64_t bytes;
    if (__builtin_mul_overflow(width, MST_CELL_SCRATCH * muster_dtype_size(dtype), &bytes)) bytes = INT64_MAX;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, bytes, &row));
    host->row = row;
    return MUSTER_OK;
}

void mst_cell_host_forward(const mst_cell_host *host, const mst_cell_parameters *p) {
    const int64_t kept = p->kind == MST_RECURRENT_LSTM || p->kind == MST_RECURRENT_GRU ? 4 * p->width : p->width;
    for (int64_t b = 0; b < p->rows; b++) {
        cell_copy(p, MST_CELL_H, MST_CELL_BEFORE_H, b);
        if (p->kind == MST_RECURRENT_LSTM) cell_copy(p, MST_CELL_C, MST_CELL_BEFORE_C, b);
        if (is_active(p, b)) {
            (p->dtype == MUSTER_F32 ? cell_forward_row_f32 : cell_forward_row_f64)(host, p, b);
            cell_copy(p, MST_CELL_H, MST_CELL_Y, b);
        } else {
            cell_clear(p, MST_CELL_Y, b, p->width);
            cell_clear(p, MST_CELL_KEPT, b, kept);
        }
    }
}

void mst_cell_host_gradient(const mst_cell_parameters *p) {
    const int64_t gates = mst_recurrent_gates(p->kind) * p->width;
    for (int64_t b = 0; b < p->rows; b++) {
        if (is_active(p, b)) {
            (p->dtype == MUSTER_F32 ? cell_gradient_row_f32 : cell_gradient_row_f64)(p, b);
        } else {
            cell_clear(p, MST_CELL_DGATES, b, gates);
            cell_clear(p, MST_CELL_DPRODUCTS, b, gates);
        }
    }
}
