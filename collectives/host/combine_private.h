/* Functions that the algorithms on host memory share: reductions, and copies that bypass the
 * cache. */
#ifndef MST_COMBINE_PRIVATE_H
#define MST_COMBINE_PRIVATE_H

#include "algorithm_private.h"
#include "stores_private.h"

static inline void mst_copy_bytes(void *to, const void *from, int64_t bytes) {
    if (bytes > 0 && to != from) memcpy(to, from, (size_t)bytes);
}

/* A copy by stores that bypass the cache (see stores_private.h). mst_stream_end must be called
 * before the other ranks learn that the outputs are written. */
void mst_stream_bytes(void *to, const void *from, int64_t bytes);
void mst_stream_end(void);

/* Combines elements [begin, end) of all inputs in rank order, and writes the results to the outputs
 * of ranks [first, last); element e goes to index e - shift. An input may also be an output (in
 * place). No other rank may write these elements meanwhile. */
void mst_combine(const mst_view *view, int64_t begin, int64_t end, int64_t shift, int32_t first, int32_t last);
/* The same for parameter + alpha * sum. Reads the parameter of this rank. */
void mst_combine_axpy(const mst_view *view, int64_t begin, int64_t end, int32_t first, int32_t last);

#endif
