/* Stores that bypass the cache, where the processor has them: a line that is written whole is not
 * read first. */
#ifndef MST_STREAM_IMPL_H
#define MST_STREAM_IMPL_H

#include "memory_impl.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Writes whole lines; `to` is aligned to a cache line. Before another thread learns of them, the
 * writer calls mst_stream_fence. */
static inline void mst_stream_lines(void *to, const void *from, int64_t lines) {
#if defined(__SSE2__)
    __m128i *line = to;
    const __m128i *values = from;
    for (int64_t i = 0; i < lines; i++, line += 4, values += 4) {
        const __m128i a = _mm_loadu_si128(values), b = _mm_loadu_si128(values + 1);
        const __m128i c = _mm_loadu_si128(values + 2), d = _mm_loadu_si128(values + 3);
        _mm_stream_si128(line, a);
        _mm_stream_si128(line + 1, b);
        _mm_stream_si128(line + 2, c);
        _mm_stream_si128(line + 3, d);
    }
#else
    memcpy(to, from, (size_t)(lines * MST_CACHE_LINE));
#endif
}

static inline void mst_stream_fence(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
