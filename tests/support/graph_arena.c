#include "graph_arena.h"

#include "graph_private.h"
#include "memory_impl.h"

#include <stdatomic.h>

static _Atomic bool counted;

void graph_arena_counts(bool counts) { atomic_store(&counted, counts); }

void *__real_mst_arena_take(mst_arena *arena, size_t bytes);
void *__wrap_mst_arena_take(mst_arena *arena, size_t bytes);

/* The linker leads all calls here (muster_wrap in tests/CMakeLists.txt). */
void *__wrap_mst_arena_take(mst_arena *arena, size_t bytes) {
    if (atomic_load_explicit(&counted, memory_order_relaxed) && mst_memory_refuse()) return NULL;
    return __real_mst_arena_take(arena, bytes);
}
