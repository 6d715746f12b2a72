/* What sort, argsort and top_k share: the stable order of the elements of a row. */
#ifndef MST_SORT_PRIVATE_H
#define MST_SORT_PRIVATE_H

#include "../rows_private.h"

enum { MST_SORT_CODE = 3 };
extern mst_code_kernel mst_sort_code[MST_SORT_CODE];
extern const mst_kernel mst_sort_kernel;

/* The first `wanted` elements of each row of x in their order go to `values`, and their places to
 * `indices` (i64); either may be NULL. Ascending, NaN last; or descending, NaN first. Of equal
 * elements the one with the lower index comes first. The operands have been checked. */
muster_status mst_sort_launch(muster_worker *worker, const muster_tensor *x, bool descending, int64_t wanted, const muster_tensor *values,
                              const muster_tensor *indices);

#endif
