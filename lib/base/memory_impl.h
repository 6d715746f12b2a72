/* Host memory: every allocation of the library goes through here, so that each can be counted and
 * made to fail. */
#ifndef MST_MEMORY_IMPL_H
#define MST_MEMORY_IMPL_H

#include "status_impl.h"

#include <stdbool.h>

enum { MST_CACHE_LINE = 64 };

/* Zeroed, aligned to 64 bytes; NULL when out of memory (no message is set). bytes 0 gives a valid
 * block. */
void *mst_alloc(size_t bytes);
/* The same, contents undefined. */
void *mst_alloc_uninitialised(size_t bytes);
void mst_free(void *block);
char *mst_strdup(const char *text);

/* Makes room for at least `needed` items in *items (of item_size bytes, *capacity of them now); new
 * room is zeroed. On failure sets the message with `what` and changes nothing. */
muster_status mst_grow(void **items, int64_t *capacity, int64_t needed, size_t item_size, const char *what);

/* OUT_OF_MEMORY with the sizes in the message. */
muster_status mst_out_of_memory(const char *what, int64_t bytes);
#ifdef __clang_analyzer__
#define mst_out_of_memory(...) mst_refusal(mst_out_of_memory(__VA_ARGS__))
#endif

/* For tests. fail_at: the k-th allocation from now fails (1 = the next), and only it; 0 = never.
 * count: allocations so far.
 * live: blocks not freed yet. refuse: counts an allocation made elsewhere (a thread, a mapping),
 * true if it must fail now. */
void mst_memory_fail_at(int64_t k);
int64_t mst_memory_count(void);
int64_t mst_memory_live(void);
bool mst_memory_refuse(void);

/* result = a * b; false on overflow of int64_t. */
static inline bool mst_multiply(int64_t a, int64_t b, int64_t *result) { return !__builtin_mul_overflow(a, b, result); }

#endif
