/* One step of a recurrent layer as the computations see it. Host code and kernel sources include
 * this file. */
#ifndef MST_RECURRENT_PARAMETERS_PRIVATE_H
#define MST_RECURRENT_PARAMETERS_PRIVATE_H

#include <stdint.h>

enum {
    MST_CELL_GATES,
    MST_CELL_PRODUCTS, /* h r^T */
    MST_CELL_BIAS,
    MST_CELL_LENGTHS, /* i64 */
    MST_CELL_Y,
    MST_CELL_H,
    MST_CELL_C,
    MST_CELL_KEPT,
    MST_CELL_BEFORE_H,
    MST_CELL_BEFORE_C,
    MST_CELL_DY,
    MST_CELL_DH,
    MST_CELL_DC,
    MST_CELL_DGATES,
    MST_CELL_DPRODUCTS,
    MST_CELL_OPERANDS
};

/* Rows of this step. Elements of a row are behind each other. */
typedef struct mst_cell_operand {
    char *data;  /* NULL: there is none, or it is not wanted */
    int64_t row; /* elements from a row to the next; 0: all rows have the same */
} mst_cell_operand;

typedef struct mst_cell_parameters {
    mst_cell_operand operands[MST_CELL_OPERANDS];
    int64_t rows, width, step;
    int32_t kind, dtype; /* mst_recurrent_kind */
} mst_cell_parameters;

/* mst_recurrent_kind, for kernel sources. */
enum { MST_CELL_TANH, MST_CELL_RELU, MST_CELL_LSTM, MST_CELL_GRU };

#endif
