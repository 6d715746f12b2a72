/* Checked runs: what their two files share. */
#ifndef MST_GUARD_PRIVATE_H
#define MST_GUARD_PRIVATE_H

#include "program_private.h"

/* A byte of memory whose value nobody may use: floats of such bytes are NaN. */
enum { MST_GUARD_NOTHING = 0xff };

/* The elements of a tensor on the host, in their order. */
typedef struct mst_guard_copy {
    unsigned char *bytes; /* NULL: none */
    int64_t size;
} mst_guard_copy;

/* ---- guard.c ---- */

/* Returns the tensor with the strides of muster_tensor_make, and without a byte offset. */
muster_tensor mst_guard_plain(const muster_tensor *like);
muster_status mst_guard_read(muster_worker *worker, const muster_tensor *tensor, mst_guard_copy *copy);
void mst_guard_free(mst_guard_copy *copy);
/* The place of the first element that differs, or -1. */
int64_t mst_guard_difference(const mst_guard_copy *a, const mst_guard_copy *b, muster_dtype dtype);
muster_status mst_guard_refuse(const muster_expr *node, int32_t index, const char *kind, const char *format, const char *name,
                               int64_t element);
bool mst_guard_overlap(const muster_tensor *a, const muster_tensor *b);
/* elsewhere: the results are not where the step writes them otherwise, so that no operand may
 * change. */
muster_status mst_guard_compare(muster_worker *worker, const mst_graph_program_step *step, const mst_guard_copy *before, bool elsewhere);

/* ---- guard_custom.c ---- */

muster_status mst_guard_custom(muster_worker *worker, mst_instance *instance, mst_graph_program_step *step, const mst_guard_copy *before);

#endif
