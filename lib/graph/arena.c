/* Memory of a graph: taken in pieces, freed all at once. */
#include "graph_private.h"

#include <string.h>

enum { CHUNK = 16 * 1024, ALIGNMENT = 16 };

struct mst_arena_chunk {
    struct mst_arena_chunk *next;
    int64_t padding;
};

void *mst_arena_take(mst_arena *arena, size_t bytes) {
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena->chunks || arena->capacity - arena->used < bytes) {
        const size_t capacity = sizeof(struct mst_arena_chunk) + (bytes > CHUNK ? bytes : CHUNK);
        struct mst_arena_chunk *chunk = mst_alloc(capacity);
        if (!chunk) return NULL;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = sizeof *chunk;
        arena->capacity = capacity;
    }
    void *block = (char *)arena->chunks + arena->used;
    arena->used += bytes;
    return block;
}

char *mst_arena_text(mst_arena *arena, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = mst_arena_take(arena, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

void mst_arena_untake(mst_arena *arena, void *block, size_t bytes) {
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((char *)block + bytes != (char *)arena->chunks + arena->used) return;
    memset(block, 0, bytes);
    arena->used -= bytes;
}

void mst_arena_free(mst_arena *arena) {
    for (struct mst_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        mst_free(chunk);
    }
    *arena = (mst_arena){0};
}
