/* A recurrence as the computations see it. Host code and kernel sources include this file. */
#ifndef MST_RECURRENCE_PARAMETERS_PRIVATE_H
#define MST_RECURRENCE_PARAMETERS_PRIVATE_H

#include <stdint.h>

/* An operand: its first element (NULL: there is none), and the bytes from a row to the next and
 * along a row. */
typedef struct mst_recurrence_operand {
    char *at;
    int64_t row, along;
} mst_recurrence_operand;

typedef struct mst_recurrence_parameters {
    mst_recurrence_operand a, b, y;
    int64_t rows, length;
    int64_t chunk, chunks; /* of device code: a row is cut into chunks of that many elements */
    void *work;            /* [2 rows chunks] of 8 bytes, if there are several chunks */
    double first;
    int32_t dtype, inclusive;
} mst_recurrence_parameters;

#endif
