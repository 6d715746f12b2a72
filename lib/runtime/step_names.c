/* The names of the steps of compiled graphs, which recorders hold. */
#include "object_names_private.h"

/* While the pool is entered. */
static void step_names_leave(mst_object *object) {
    mst_step_names *names = (mst_step_names *)object;
    for (int32_t i = 0; i < names->count; i++) mst_name_leave(object->runtime, names->held[i]);
    names->closed = true;
}

muster_status mst_step_names_make(muster_runtime *runtime, const char *where, int32_t count,
                                  const char *(*title)(const void *user, int32_t index), const void *user, mst_step_names **made) {
    const int64_t bytes = count * (int64_t)(sizeof(mst_name *) + sizeof(char *));
    mst_step_names *names = *made = mst_alloc(sizeof *names);
    if (!names) return mst_out_of_memory(where, (int64_t)sizeof *names);
    mst_runtime_add_nameless(runtime, &names->object, "names of steps");
    names->object.destroy = step_names_leave;
    names->held = mst_alloc((size_t)count * sizeof(mst_name *));
    names->names = mst_alloc((size_t)count * sizeof(char *));
    if (!names->held || !names->names) return mst_out_of_memory(where, bytes);
    for (; names->count < count; names->count++) {
        mst_name *held = mst_name_use(runtime, title(user, names->count), where);
        if (!held) return MUSTER_OUT_OF_MEMORY;
        names->held[names->count] = held;
        names->names[names->count] = held->text;
    }
    return MUSTER_OK;
}

void mst_step_names_free(mst_step_names *names) {
    if (!names) return;
    if (!names->closed && !mst_runtime_end_object(&names->object, "muster_function_destroy")) return; /* a child after fork */
    mst_free(names->held);
    mst_free(names->names);
    mst_free(names);
}
