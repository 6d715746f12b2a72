/* The parameters of the kernels in sort.cu. */
#ifndef MST_SORT_PARAMETERS_PRIVATE_H
#define MST_SORT_PARAMETERS_PRIVATE_H

#include "rows_parameters_private.h"

enum { MST_SORT_RUN = 16 }; /* elements that one thread sorts */

/* rows: x, the values and the indices. A result that is not wanted has the base NULL. The places of
 * the elements of row r begin at index r * row.length of `from` and `to`. rows.op: descending. */
typedef struct mst_sort_parameters {
    mst_rows_parameters rows;
    int64_t *from, *to;
    int64_t width, wanted; /* elements of a sorted run; elements of a result's row */
} mst_sort_parameters;

#endif
