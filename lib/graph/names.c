/* Expressions by their names: a hash table. */
#include "graph_private.h"
#include "hash_impl.h"

#include <string.h>

/* The slot of the name, or the free one where it belongs. The table has a free slot. */
static mst_name *slot_of(mst_name *slots, int32_t size, const mst_name *name) {
    uint32_t slot = name->hash & (uint32_t)(size - 1);
    for (; slots[slot].text; slot = (slot + 1) & (uint32_t)(size - 1)) {
        const mst_name *at = &slots[slot];
        if (at->hash == name->hash && at->length == name->length && memcmp(at->text, name->text, (size_t)name->length) == 0) break;
    }
    return &slots[slot];
}

static muster_status grow_names(mst_names *names) {
    const int32_t size = names->size ? 2 * names->size : 32;
    mst_name *slots = mst_alloc((size_t)size * sizeof *slots);
    if (!slots) return mst_out_of_memory("the names of expressions", (int64_t)size * (int64_t)sizeof *slots);
    for (int32_t i = 0; i < names->size; i++)
        if (names->slots[i].text) *slot_of(slots, size, &names->slots[i]) = names->slots[i];
    mst_free(names->slots);
    names->slots = slots;
    names->size = size;
    return MUSTER_OK;
}

muster_status mst_names_add(mst_names *names, const char *text, int32_t length, muster_expr *node) {
    const mst_name name = {.text = text, .length = length, .hash = mst_text_hash(text, length), .node = node};
    if (2 * (names->used + 1) > names->size) MUSTER_TRY(grow_names(names));
    mst_name *slot = slot_of(names->slots, names->size, &name);
    if (slot->text) {
        if (slot->node != node) slot->node = NULL;
        return MUSTER_OK;
    }
    *slot = name;
    names->used++;
    return MUSTER_OK;
}

const mst_name *mst_names_find(const mst_names *names, const char *text, int32_t length) {
    if (!names->size) return NULL;
    const mst_name name = {.text = text, .length = length, .hash = mst_text_hash(text, length)};
    const mst_name *slot = slot_of(names->slots, names->size, &name);
    return slot->text ? slot : NULL;
}

void mst_names_free(mst_names *names) {
    mst_free(names->slots);
    *names = (mst_names){0};
}
