/* A variable as functions see it. */
#ifndef MST_VARIABLE_IMPL_H
#define MST_VARIABLE_IMPL_H

#include "muster/variable.h"
#include "runtime_impl.h"

typedef struct mst_replica {
    void *address;    /* on the device, contiguous */
    int64_t capacity; /* in bytes */
    int64_t shape[MUSTER_MAX_DIMS];
} mst_replica;

struct muster_variable {
    mst_object object; /* must be the first member */
    muster_dtype dtype;
    int32_t ndim;
    int32_t users;         /* functions that declared it */
    mst_replica *replicas; /* [size] */
};

/* A device tensor over the replica of `rank`. */
muster_tensor mst_variable_tensor(const muster_variable *variable, int32_t rank);

/* Checks a selection of a function call or a scatter against `rows` rows, and sets *count to the
 * number of selected rows. where and what name the public function and the argument in messages. */
muster_status mst_selection_check(const muster_selection *selection, int64_t rows, const char *where, const char *what, int64_t *count);
/* Distributes `count` rows over `size` ranks: rank r has the rows from edge r to edge r + 1. Edge r
 * = floor(r * count / size) for r in [0, size], exact for all int64_t. */
int64_t mst_edge(int64_t count, int32_t size, int32_t rank);
/* The number of rows of rank `rank`. */
static inline int64_t mst_edge_rows(int64_t count, int32_t size, int32_t rank) {
    return mst_edge(count, size, rank + 1) - mst_edge(count, size, rank);
}
/* Copies rows [begin, end) of the selection of `from` (host, any strides) to contiguous host
 * memory. */
void mst_selection_pack(const muster_selection *selection, muster_tensor from, int64_t begin, int64_t end, void *to);
/* The row at `position` of the selection. */
int64_t mst_selection_row(const muster_selection *selection, int64_t position);

#endif
