/* The requests of all ranks for one collective, and where the parts of its tensors lie. */
#ifndef MST_VIEW_PRIVATE_H
#define MST_VIEW_PRIVATE_H

#include "request_impl.h"

#include <string.h>

/* All checks have passed, so the counts agree. Rank r's input (its tensor or a copy) can be read at
 * requests[r]->input, and its output goes to requests[r]->output. */
typedef struct mst_view {
    const mst_request *const *requests; /* [size], by rank */
    int32_t size, rank;
    char *chunk;                   /* this rank's scratch memory for the algorithms on host memory; NULL in other transports */
    struct mst_stores_use *stores; /* how this rank writes, for the same algorithms; NULL: by plain stores */
    struct mst_apply_use *apply;   /* of an all_reduce_apply, for the same algorithms */
} mst_view;

static inline const mst_request *mst_view_own(const mst_view *view) { return view->requests[view->rank]; }
static inline int64_t mst_view_element(const mst_view *view) { return muster_dtype_size(mst_view_own(view)->dtype); }
/* The momentum of this rank; NULL: none. */
static inline const mst_momentum *mst_view_momentum(const mst_view *view) { return mst_request_momentum(mst_view_own(view)); }
/* The number of vectors that all ranks together contribute to a reduction. */
int64_t mst_view_shards(const mst_view *view);
/* The size in bytes of the largest tensor of any rank. */
int64_t mst_view_largest_bytes(const mst_view *view);

/* The bytes of all tensors of all ranks that the collective reads or writes; memory that is input
 * and output counts once. */
int64_t mst_view_touched_bytes(const mst_view *view);

/* base + bytes; NULL if base is NULL, which is legal for a rank without elements. */
static inline void *mst_at(const void *base, int64_t bytes) { return base ? (char *)base + bytes : NULL; }

/* The segment [*begin, *end) of `count` elements that rank `rank` of `size` works on. A segment
 * consists of whole cache lines, or of whole pages if there are many, so that no two ranks write to
 * the same one. */
void mst_segment(int64_t count, int64_t element, int32_t size, int32_t rank, int64_t *begin, int64_t *end);

/* The concatenation that the collective makes or cuts consists of one part per rank: the number of
 * elements in the rank's part, and the number of elements before it. */
int64_t mst_view_part(const mst_view *view, int32_t rank);
int64_t mst_view_offset(const mst_view *view, int32_t rank);

/* The block that one rank sends to another in an ALL_TO_ALL. */
typedef struct mst_block {
    void *from, *to;
    int64_t count;
} mst_block;
mst_block mst_view_block(const mst_view *view, int32_t from, int32_t to);

#endif
