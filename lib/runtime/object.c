#include "object_names_private.h"

#include <string.h>
#include <unistd.h>

mst_object *mst_runtime_look(muster_runtime *runtime, const char *kind, const char *name) {
    const mst_name *held = mst_name_find(runtime, name);
    mst_object *at = held ? held->objects : NULL;
    while (at && strcmp(at->kind, kind) != 0) at = at->older;
    return at;
}

void mst_runtime_add_nameless(muster_runtime *runtime, mst_object *object, const char *kind) {
    object->runtime = runtime;
    object->kind = kind;
    object->next = runtime->objects;
    if (object->next) object->next->previous = object;
    runtime->objects = object;
}

muster_status mst_runtime_add_newest(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where) {
    mst_name *held = mst_name_use(runtime, name, where);
    if (!held) return MUSTER_OUT_OF_MEMORY;
    mst_runtime_add_nameless(runtime, object, kind);
    object->held = held;
    object->name = held->text;
    object->older = held->objects;
    if (object->older) object->older->newer = object;
    held->objects = object;
    return MUSTER_OK;
}

muster_status mst_runtime_add(muster_runtime *runtime, mst_object *object, const char *kind, const char *name, const char *where) {
    if (!name || !*name) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that is not empty, received %s", where,
                         name ? "\"\"" : "NULL");
    }
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    if (mst_runtime_look(runtime, kind, name)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that no %s of this runtime has, received '%.200s'", where,
                         kind, name);
    }
    return mst_runtime_add_newest(runtime, object, kind, name, where);
}

muster_status mst_runtime_find_object(muster_runtime *runtime, const char *kind, const char *name, const char *where, mst_object **object) {
    mst_object *found = mst_runtime_look(runtime, kind, name);
    if (!found)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected the name of a %s of this runtime, received '%.200s'", where, kind,
                         name);
    *object = found;
    return MUSTER_OK;
}

static void object_give_name(mst_object *object) {
    *(object->newer ? &object->newer->older : &object->held->objects) = object->older;
    if (object->older) object->older->newer = object->newer;
    object->older = object->newer = NULL;
    mst_name_leave(object->runtime, object->held);
    object->name = NULL;
    object->held = NULL;
}

/* An object that is not in the list is left as it is, so that both muster_runtime_close and the
 * object's own destroy function may remove it. */
void mst_runtime_remove(mst_object *object) {
    muster_runtime *runtime = object->runtime;
    if (!runtime || (!object->previous && runtime->objects != object)) return;
    *(object->previous ? &object->previous->next : &runtime->objects) = object->next;
    if (object->next) object->next->previous = object->previous;
    object->next = object->previous = NULL;
    if (object->held) object_give_name(object);
}

bool mst_runtime_end_object(mst_object *object, const char *where) {
    mst_pool *pool = object->runtime->pool;
    if (mst_pool_enter_to_end(pool, where) != MUSTER_OK) return false;
    mst_runtime_remove(object);
    object->destroy(object);
    mst_pool_leave(pool);
    return true;
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
