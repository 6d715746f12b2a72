#include "runtime_impl.h"

#include <string.h>
#include <unistd.h>

typedef struct mst_name {
    struct mst_name *next;
    char text[];
} mst_name;

/* Equal names share one string. A program that creates and destroys the same functions again and
 * again therefore keeps one copy of each name. */
const char *mst_runtime_keep_name(muster_runtime *runtime, const char *name) {
    for (mst_name *known = runtime->names; known; known = known->next) {
        if (strcmp(known->text, name) == 0) return known->text;
    }
    size_t bytes = strlen(name) + 1;
    mst_name *added = mst_alloc(sizeof(mst_name) + bytes);
    if (!added) return NULL;
    memcpy(added->text, name, bytes);
    added->next = runtime->names;
    runtime->names = added;
    return added->text;
}

void mst_runtime_names_free(muster_runtime *runtime) {
    while (runtime->names) {
        mst_name *next = runtime->names->next;
        mst_free(runtime->names);
        runtime->names = next;
    }
}

muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where) {
    if (!name || !*name) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that is not empty, received %s", where,
                         name ? "\"\"" : "NULL");
    }
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    for (const mst_object *other = runtime->objects; other; other = other->next) {
        if (strcmp(other->kind, kind) == 0 && strcmp(other->name, name) == 0) {
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that no %s of this runtime has, received '%.200s'", where,
                             kind, name);
        }
    }
    const char *copy = mst_runtime_keep_name(runtime, name);
    if (!copy) return mst_out_of_memory(where, (int64_t)strlen(name) + 1);
    object->runtime = runtime;
    object->kind = kind;
    object->name = (char *)(uintptr_t)copy;
    object->next = runtime->objects;
    runtime->objects = object;
    return MUSTER_OK;
}

static bool has_name(const mst_object *object, const char *kind, const char *name) {
    return object->name && strcmp(object->kind, kind) == 0 && strcmp(object->name, name) == 0;
}

muster_status mst_runtime_find_object(const muster_runtime *runtime, const char *kind, const char *name, const char *where,
                                      mst_object **object) {
    for (mst_object *at = runtime->objects; at; at = at->next) {
        if (!has_name(at, kind, name)) continue;
        *object = at;
        return MUSTER_OK;
    }
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected the name of a %s of this runtime, received '%.200s'", where, kind, name);
}

/* An object that is not in the list is left as it is, so that both muster_runtime_close and the
 * object's own destroy function may remove it. */
void mst_runtime_remove(mst_object *object) {
    if (!object->runtime) return;
    for (mst_object **link = &object->runtime->objects; *link; link = &(*link)->next) {
        if (*link != object) continue;
        *link = object->next;
        object->name = NULL;
        object->next = NULL;
        return;
    }
}

muster_runtime mst_runtime_closed;

void mst_object_retire(mst_object *object, size_t bytes) {
    memset(object, 0, bytes);
    object->runtime = &mst_runtime_closed;
    mst_retire(object);
}

mst_owned *mst_runtime_take_ended(muster_runtime *runtime) {
    mst_owned *ended = NULL;
    mst_owned_move(&runtime->ended, &ended);
    return ended;
}

muster_status mst_runtime_check_open(const muster_runtime *runtime, const char *where) {
    if (!runtime->pool) return mst_error(MUSTER_BAD_STATE, "%s: runtime: expected an open one, received one that has been closed", where);
    if (runtime->process == getpid()) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: the runtime was opened before fork and has no threads in this process", where);
}
