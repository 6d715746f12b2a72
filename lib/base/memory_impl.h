/* Host memory. Every allocation of the library goes through these functions, and so to the
 * allocator of the program (muster/allocator.h); tests can count each one and make it fail. */
#ifndef MST_MEMORY_IMPL_H
#define MST_MEMORY_IMPL_H

#include "status_impl.h"

#include <stdbool.h>

enum { MST_CACHE_LINE = 64 };

/* Allocates zeroed memory, aligned to 64 bytes. NULL when out of memory; no message is set. 0 bytes
 * gives a valid block. */
void *mst_alloc(size_t bytes);
/* The same, with undefined contents. */
void *mst_alloc_uninitialised(size_t bytes);
void mst_free(void *block);
/* Frees the block of a handle that the program may still hold, but not yet: its memory stays as the
 * caller has left it until 256 other blocks have been retired, or the program sets another
 * allocator. */
void mst_retire(void *block);
char *mst_strdup(const char *text);

/* Grows an array to at least `needed` items. *items is the array, item_size the size of one item in
 * bytes, *capacity the present number of items. New items are zeroed. A failure sets a message that
 * begins with `what`, and changes nothing. */
muster_status mst_grow(void **items, int64_t *capacity, int64_t needed, size_t item_size, const char *what);

/* Sets a message with `what` and the size, and returns OUT_OF_MEMORY. */
muster_status mst_out_of_memory(const char *what, int64_t bytes);
#ifdef __clang_analyzer__
#define mst_out_of_memory(...) mst_refusal(mst_out_of_memory(__VA_ARGS__))
#endif

/* For tests: the k-th allocation from now fails (1 = the next one), and only that one; 0 = none. */
void mst_memory_fail_at(int64_t k);
/* For tests: the number of allocations so far. */
int64_t mst_memory_count(void);
/* For tests: the number of blocks neither freed nor retired. */
int64_t mst_memory_live(void);
/* Counts an allocation that is made elsewhere (a thread, a mapping). True if a test wants it to
 * fail. */
bool mst_memory_refuse(void);

/* result = a * b; false on overflow of int64_t. */
static inline bool mst_multiply(int64_t a, int64_t b, int64_t *result) { return !__builtin_mul_overflow(a, b, result); }

#endif
