/* Where the parts of a collective lie, and how its values are combined: what the algorithms
 * share. */
#ifndef MST_VIEW_IMPL_H
#define MST_VIEW_IMPL_H

#include "algorithm_impl.h"

#include <string.h>

static inline const mst_request *mst_view_own(const mst_view *view) { return view->requests[view->rank]; }
static inline int64_t mst_view_element(const mst_view *view) { return muster_dtype_size(mst_view_own(view)->dtype); }

/* An address some bytes further on. No memory at all stays none: a rank without elements may have
 * NULL. */
static inline void *mst_at(const void *base, int64_t bytes) { return base ? (char *)base + bytes : NULL; }

static inline void mst_copy_bytes(void *to, const void *from, int64_t bytes) {
    if (bytes > 0 && to != from) memcpy(to, from, (size_t)bytes);
}

/* Does the collective touch so much memory that what it writes will not be found in the cache? Then
 * its outputs are written past the cache, and mst_stream_end comes before the other ranks may know
 * that they are written. Measured with 32 MiB of last-level cache. */
enum { MST_STREAM_BYTES = 24 << 20 };
bool mst_view_streams(const mst_view *view);
void mst_stream_bytes(void *to, const void *from, int64_t bytes);
void mst_stream_end(void);

/* Elements of rank's part of the concatenation. */
int64_t mst_view_part(const mst_view *view, int32_t rank);

/* This rank's, NULL: none. */
static inline const mst_momentum *mst_view_momentum(const mst_view *view) { return mst_request_momentum(mst_view_own(view)); }

/* Of ALL_TO_ALL: what goes from one rank to another. */
typedef struct mst_parcel {
    void *from, *to;
    int64_t count;
} mst_parcel;
mst_parcel mst_view_parcel(const mst_view *view, int32_t from, int32_t to);

/* Elements [begin, end) of the vectors that are reduced, combined from all inputs in rank order,
 * written to the outputs of the ranks [first, last), where element e has its place at e - shift.
 * The inputs may be outputs, in place; nobody else may write to these elements. */
void mst_combine(const mst_view *view, int64_t begin, int64_t end, int64_t shift, int32_t first, int32_t last);
/* The same for parameter + alpha * sum; this rank's own parameter is read. */
void mst_combine_axpy(const mst_view *view, int64_t begin, int64_t end, int32_t first, int32_t last);

#endif
