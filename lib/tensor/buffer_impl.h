/* What a buffer shows to the module that registers its storage. */
#ifndef MST_BUFFER_IMPL_H
#define MST_BUFFER_IMPL_H

#include "muster/buffer.h"

#include <stdbool.h>

/* The keeper of a buffer is told of every change of its storage. The keeper outlives its place in
 * the buffer: it removes itself, or learns of the buffer's end. */
typedef struct mst_buffer_keeper {
    /* New storage, before it is used; where: the public function. An error leaves the buffer as it
     * was. */
    muster_status (*take)(struct mst_buffer_keeper *keeper, const char *where, void *storage, int64_t bytes);
    /* Storage that the buffer no longer uses. true: the buffer frees it; false: the keeper does. */
    bool (*give)(struct mst_buffer_keeper *keeper, void *storage);
    /* The buffer ends, without storage. */
    void (*end)(struct mst_buffer_keeper *keeper);
} mst_buffer_keeper;

/* Fails unless it is a buffer that has not been destroyed. */
muster_status mst_buffer_check(const muster_buffer *buffer, const char *where);
/* The buffer's keeper; NULL: none. */
mst_buffer_keeper *mst_buffer_get_keeper(const muster_buffer *buffer);
/* Also NULL. Calls no function of a keeper. */
void mst_buffer_set_keeper(muster_buffer *buffer, mst_buffer_keeper *keeper);
/* The storage and its size in bytes; NULL and 0 if there is none. */
void *mst_buffer_storage(const muster_buffer *buffer, int64_t *bytes);

#endif
