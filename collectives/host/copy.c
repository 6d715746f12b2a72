/* Copies that bypass the cache. A cache line that is written whole by non-temporal stores is not
 * read first. This is faster if the lines would leave the cache before they are read. */
#include "combine_private.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/* `to` is aligned to a cache line. */
static void stream_lines(char *to, const char *from, int64_t lines) {
    for (int64_t i = 0; i < lines; i++, to += MST_CACHE_LINE, from += MST_CACHE_LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from), b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32)),
                d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
}

void mst_stream_bytes(void *to, const void *from, int64_t bytes) {
    int64_t head = (int64_t)(-(uintptr_t)to % MST_CACHE_LINE);
    if (bytes < head + MST_CACHE_LINE) return mst_copy_bytes(to, from, bytes);
    mst_copy_bytes(to, from, head);
    int64_t lines = (bytes - head) / MST_CACHE_LINE, streamed = lines * MST_CACHE_LINE;
    stream_lines((char *)to + head, (const char *)from + head, lines);
    mst_copy_bytes((char *)to + head + streamed, (const char *)from + head + streamed, bytes - head - streamed);
}

void mst_stream_end(void) { _mm_sfence(); }
#else
void mst_stream_bytes(void *to, const void *from, int64_t bytes) { mst_copy_bytes(to, from, bytes); }
void mst_stream_end(void) {}
#endif
