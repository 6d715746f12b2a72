/* The names of a runtime's objects, and of the steps that traces show: a hash table of strings. A
 * name counts its users. Recorders hold pointers to names, so one that has lost its last user stays
 * until no recorder shows it. */
#include "hash_impl.h"
#include "object_names_private.h"

#include <string.h>

enum { NAMES_LEAST = 64 };

/* The slot's name with this text, or NULL. */
static mst_name *names_look(mst_names_of_objects *names, const char *text, uint32_t hash) {
    if (!names->slot_count) return NULL;
    for (mst_name *at = names->slots[hash & (uint32_t)(names->slot_count - 1)]; at; at = at->next) {
        names->compared++;
        if (at->hash == hash && strcmp(at->text, text) == 0) return at;
    }
    return NULL;
}

static muster_status names_grow(mst_names_of_objects *names, const char *where) {
    if (names->used + names->unused < names->slot_count) return MUSTER_OK;
    const int64_t count = names->slot_count ? 2 * names->slot_count : NAMES_LEAST;
    mst_name **slots = mst_alloc((size_t)count * sizeof(mst_name *));
    if (!slots) return mst_out_of_memory(where, count * (int64_t)sizeof(mst_name *));
    for (int64_t i = 0; i < names->slot_count; i++) {
        for (mst_name *at = names->slots[i], *next; at; at = next) {
            mst_name **slot = &slots[at->hash & (uint32_t)(count - 1)];
            next = at->next;
            at->next = *slot;
            *slot = at;
        }
    }
    mst_free(names->slots);
    names->slots = slots;
    names->slot_count = count;
    return MUSTER_OK;
}

static mst_name *names_make(mst_names_of_objects *names, const char *text, uint32_t hash, const char *where) {
    const size_t bytes = strlen(text) + 1;
    if (names_grow(names, where) != MUSTER_OK) return NULL;
    mst_name *made = mst_alloc(sizeof *made + bytes);
    if (!made) {
        (void)mst_out_of_memory(where, (int64_t)(sizeof *made + bytes));
        return NULL;
    }
    mst_name **slot = &names->slots[hash & (uint32_t)(names->slot_count - 1)];
    memcpy(made->text, text, bytes);
    made->hash = hash;
    made->next = *slot;
    *slot = made;
    names->unused++;
    return made;
}

mst_name *mst_name_find(muster_runtime *runtime, const char *text) {
    return names_look(&runtime->object_names, text, mst_text_hash(text, (int64_t)strlen(text)));
}

mst_name *mst_name_use(muster_runtime *runtime, const char *text, const char *where) {
    mst_names_of_objects *names = &runtime->object_names;
    const uint32_t hash = mst_text_hash(text, (int64_t)strlen(text));
    mst_name *name = names_look(names, text, hash);
    if (!name) name = names_make(names, text, hash, where);
    if (!name) return NULL;
    if (name->users++ == 0) {
        names->used++;
        names->unused--;
    }
    return name;
}

/* ---- freeing what no recorder shows ---- */

static void names_show(void *user, const char *text) {
    mst_name *name = mst_name_find(user, text);
    if (name && name->text == text) name->shown = true;
}

static void names_free(mst_names_of_objects *names, bool all) {
    for (int64_t i = 0; i < names->slot_count; i++) {
        for (mst_name **link = &names->slots[i]; *link;) {
            mst_name *at = *link;
            if (all || (at->users == 0 && !at->shown)) {
                *link = at->next;
                names->unused -= at->users == 0;
                mst_free(at);
            } else {
                at->shown = false;
                link = &at->next;
            }
        }
    }
}

/* Nobody reads a recorder now, and who begins to read one sees its events as they are now: an
 * addition acquires what others have released before. */
static bool names_unread(mst_names_of_objects *names) { return atomic_fetch_add(&names->readers, 0) == 0; }

/* The recorders show at most one name for each of their events. A sweep that frees nothing else
 * comes once in as many names as it looks at, so that a name costs a constant number of steps. */
static void names_sweep(muster_runtime *runtime) {
    mst_names_of_objects *names = &runtime->object_names;
    const int64_t events = runtime->recorder_events * runtime->size;
    if (names->unused < names->used + events + NAMES_LEAST || !names_unread(names)) return;
    for (int32_t r = 0; r < runtime->size; r++) mst_recorder_each_name(&mst_pool_worker(runtime->pool, r)->recorder, names_show, runtime);
    const bool unread = names_unread(names);
    if (unread) names_free(names, false);
}

void mst_name_leave(muster_runtime *runtime, mst_name *name) {
    mst_names_of_objects *names = &runtime->object_names;
    if (--name->users > 0) return;
    names->used--;
    names->unused++;
    names_sweep(runtime);
}

void mst_names_read_begin(muster_runtime *runtime) { atomic_fetch_add(&runtime->object_names.readers, 1); }
void mst_names_read_end(muster_runtime *runtime) { atomic_fetch_sub(&runtime->object_names.readers, 1); }

void mst_object_names_free(muster_runtime *runtime) {
    names_free(&runtime->object_names, true);
    mst_free(runtime->object_names.slots);
    runtime->object_names.slots = NULL;
    runtime->object_names.slot_count = 0;
}
