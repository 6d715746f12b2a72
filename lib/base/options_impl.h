/* Structs that grow: option structs, which a program fills, and result structs, which the library
 * fills. Each begins with size_t struct_size and only grows, at its end; zero in a field
 * means its default. The program may have been compiled with an older header, whose struct ends
 * earlier, or with a newer one, whose struct has fields that this library does not know. */
#ifndef MST_OPTIONS_IMPL_H
#define MST_OPTIONS_IMPL_H

#include "status_impl.h"

#include <stddef.h>
#include <string.h>

/* Zeroes the caller's `size` bytes and sets struct_size to `size`. Does nothing for NULL, or where
 * struct_size itself does not fit. */
void mst_options_init(void *options, size_t size);

/* The part of mst_options_read for callers whose struct has another size than the library's. */
muster_status mst_options_read_resized(const char *where, const char *type, const void *given, void *known, size_t size);

/* known[size] = the caller's options as the library's struct: fields that the caller's struct does
 * not have are zero. given NULL: all fields are zero. where: the public function, type: the name of
 * the struct, for messages. Errors: INVALID_ARGUMENT (struct_size is none that a program can have
 * set), UNSUPPORTED (a field that this library does not know is not zero). */
static inline muster_status mst_options_read(const char *where, const char *type, const void *given, void *known, size_t size) {
    if (!given) {
        memset(known, 0, size);
        *(size_t *)known = size;
        return MUSTER_OK;
    }
    if (*(const size_t *)given != size) return mst_options_read_resized(where, type, given, known, size);
    memcpy(known, given, size);
    return MUSTER_OK;
}

/* Copies the result known[size] into the caller's struct as far as that goes, keeping its
 * struct_size; fields that this library does not know become zero. argument: the caller's name of
 * the struct, for messages. Errors: INVALID_ARGUMENT (struct_size is none that a program can have
 * set), and nothing has been written. */
muster_status mst_result_write(const char *where, const char *argument, const char *type, const void *known, size_t size, void *result);

#endif
