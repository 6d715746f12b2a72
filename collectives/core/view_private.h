/* One collective as every rank asked for it, and where its parts lie. */
#ifndef MST_VIEW_PRIVATE_H
#define MST_VIEW_PRIVATE_H

#include "request_impl.h"

#include <string.h>

/* All checks have passed, counts agree. requests[r]->input is where rank r's input can be read (its
 * tensor or a copy), requests[r]->output where its output goes. */
typedef struct mst_view {
    const mst_request *const *requests; /* [size], by rank */
    int32_t size, rank;
    char *chunk; /* scratch of the host's algorithms, this rank's own; else NULL */
} mst_view;

static inline const mst_request *mst_view_own(const mst_view *view) { return view->requests[view->rank]; }
static inline int64_t mst_view_element(const mst_view *view) { return muster_dtype_size(mst_view_own(view)->dtype); }
/* This rank's; NULL: none. */
static inline const mst_momentum *mst_view_momentum(const mst_view *view) { return mst_request_momentum(mst_view_own(view)); }
/* Vectors that all ranks together bring to a reduction. */
int64_t mst_view_shards(const mst_view *view);
/* Bytes of the largest tensor of any rank. */
int64_t mst_view_largest_bytes(const mst_view *view);

/* An address some bytes further on. No memory at all stays none: a rank without elements may have
 * NULL. */
static inline void *mst_at(const void *base, int64_t bytes) { return base ? (char *)base + bytes : NULL; }

/* Elements [*begin, *end) of `count` that rank `rank` of `size` deals with: whole cache lines
 * (whole pages when there are many), so that no two ranks write to the same one. */
void mst_segment(int64_t count, int64_t element, int32_t size, int32_t rank, int64_t *begin, int64_t *end);

/* Elements of a rank's part of the concatenation that the collective makes or cuts, and before
 * it. */
int64_t mst_view_part(const mst_view *view, int32_t rank);
int64_t mst_view_offset(const mst_view *view, int32_t rank);

/* What goes from one rank to another in an ALL_TO_ALL. */
typedef struct mst_block {
    void *from, *to;
    int64_t count;
} mst_block;
mst_block mst_view_block(const mst_view *view, int32_t from, int32_t to);

#endif
