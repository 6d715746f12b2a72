/* The declarations that scatter_add.c and wide.c share. */
#ifndef MST_SCATTER_ADD_PRIVATE_H
#define MST_SCATTER_ADD_PRIVATE_H

#include "../op_impl.h"

typedef struct mst_scatter_add_request {
    muster_tensor x, indices, y;
    int64_t first, total; /* y has the rows from `first` on, of so many */
    void *work;           /* host: scratch memory of wide sums; devices: the places of the indices in their order */
} mst_scatter_add_request;

/* The rows of y whose sums lie in double at a time, and the scratch memory for that. */
typedef struct mst_scatter_add_wide {
    int64_t elements; /* of a row */
    int64_t rows;     /* of a bucket: 2^bits, or those of y, if these are fewer */
    int64_t buckets;  /* 0: there is nothing to add to */
    int64_t bytes;
    int32_t bits;
} mst_scatter_add_wide;
void mst_scatter_add_plan(const mst_scatter_add_request *request, mst_scatter_add_wide *plan);
/* For f16, bf16 and f32 on the host, with request->work; the indices have been checked. */
void mst_scatter_add_wide_run(const mst_scatter_add_request *request);

#endif
