/* The strings that a runtime keeps for the names of objects and steps. All functions but those of
 * reading belong between mst_pool_enter and mst_pool_leave: no run goes on then. */
#ifndef MST_OBJECT_NAMES_PRIVATE_H
#define MST_OBJECT_NAMES_PRIVATE_H

#include "runtime_impl.h"

struct mst_name {
    mst_name *next;      /* in its slot */
    mst_object *objects; /* those of this name, the newest first */
    int64_t users;
    uint32_t hash;
    bool shown; /* while unused names are freed: a recorder holds it */
    char text[];
};

/* The name with this text, or NULL. */
mst_name *mst_name_find(muster_runtime *runtime, const char *text);
/* The name with this text, which has one more user. NULL: out of memory; a message is set. */
mst_name *mst_name_use(muster_runtime *runtime, const char *text, const char *where);
void mst_name_leave(muster_runtime *runtime, mst_name *name);
/* Around the reading of recorders by a thread that has not entered the pool: no name is freed. */
void mst_names_read_begin(muster_runtime *runtime);
void mst_names_read_end(muster_runtime *runtime);
/* At the end of the runtime, when the recorders have gone. */
void mst_object_names_free(muster_runtime *runtime);

#endif
