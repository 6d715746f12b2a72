/* Copies that bypass the cache. A cache line that is written whole by non-temporal stores is not
 * read first. This is faster if the lines would leave the cache before they are read. */
#include "combine_private.h"
#include "stream_impl.h"

void mst_stream_bytes(void *to, const void *from, int64_t bytes) {
    int64_t head = (int64_t)(-(uintptr_t)to % MST_CACHE_LINE);
    if (bytes < head + MST_CACHE_LINE) return mst_copy_bytes(to, from, bytes);
    mst_copy_bytes(to, from, head);
    int64_t lines = (bytes - head) / MST_CACHE_LINE, streamed = lines * MST_CACHE_LINE;
    mst_stream_lines((char *)to + head, (const char *)from + head, lines);
    mst_copy_bytes((char *)to + head + streamed, (const char *)from + head + streamed, bytes - head - streamed);
}

void mst_stream_end(void) { mst_stream_fence(); }
