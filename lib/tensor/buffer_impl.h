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

/* ---- rows that a call gives ---- */

/* Has the program said the sizes of a row? Those of a new buffer are 0, and a body that writes rows
 * into such a view writes behind it. */
bool mst_buffer_has_row_shape(const muster_buffer *buffer);

/* Memory for all rows of a buffer, which are not its value yet: its storage, or a new block. */
typedef struct mst_buffer_rows {
    char *storage;
    int64_t capacity, rows;
} mst_buffer_rows;

/* Makes memory for `rows` rows in the buffer's other sizes; where: the public function. The buffer
 * stays as it is. Errors: OVERFLOW, OUT_OF_MEMORY. */
muster_status mst_buffer_make_rows(const muster_buffer *buffer, const char *where, int64_t rows, mst_buffer_rows *made);
/* The rows become the buffer's value. */
void mst_buffer_take_rows(muster_buffer *buffer, const mst_buffer_rows *made);
/* They do not. */
void mst_buffer_drop_rows(muster_buffer *buffer, const mst_buffer_rows *made);

#endif
