/* What the algorithms on host memory share: how values are combined, and copies past the cache. */
#ifndef MST_COMBINE_PRIVATE_H
#define MST_COMBINE_PRIVATE_H

#include "algorithm_private.h"

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

/* Elements [begin, end) of the vectors that are reduced, combined from all inputs in rank order,
 * written to the outputs of the ranks [first, last), where element e has its place at e - shift.
 * The inputs may be outputs, in place; nobody else may write to these elements. */
void mst_combine(const mst_view *view, int64_t begin, int64_t end, int64_t shift, int32_t first, int32_t last);
/* The same for parameter + alpha * sum; this rank's own parameter is read. */
void mst_combine_axpy(const mst_view *view, int64_t begin, int64_t end, int32_t first, int32_t last);

#endif
