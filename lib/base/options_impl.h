/* Structs that grow: option structs, which a program fills, and result structs, which the library
 * fills. Each begins with size_t struct_size; later versions add fields only at its end; zero in a
 * field selects its default. A program compiled with an older header has a shorter struct; one
 * compiled with a newer header has a struct with fields that this library does not know. */
#ifndef MST_OPTIONS_IMPL_H
#define MST_OPTIONS_IMPL_H

#include "status_impl.h"

#include <stddef.h>
#include <string.h>

/* Zeroes the caller's `size` bytes and sets struct_size to `size`. Does nothing for NULL, or if
 * `size` is too small for struct_size itself. */
void mst_options_init(void *options, size_t size);

/* The path of mst_options_read for a caller's struct that does not have the size of the
 * library's. */
muster_status mst_options_read_resized(const char *where, const char *type, const void *given, void *known, size_t size);

/* Reads the caller's options `given` into known[size], the library's struct. Fields that the
 * caller's struct lacks become zero; given NULL makes all fields zero. where (the public function)
 * and type (the name of the struct) are for messages. Errors: INVALID_ARGUMENT (a struct_size that
 * no program can have set; known is all zeros then), UNSUPPORTED (a field that this library does
 * not know is not zero; known has the fields that it knows). */
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

/* For the field `reserved` of option structs, which must be zero: INVALID_ARGUMENT otherwise. */
muster_status mst_options_check_reserved(const char *where, int64_t value);

/* Copies known[size], the library's result, into the caller's struct, as many bytes as that has.
 * struct_size is kept; fields that this library does not know become zero. argument: the caller's
 * name of the struct, for messages. Errors: INVALID_ARGUMENT (a struct_size that no program can
 * have set); nothing has been written then. */
muster_status mst_result_write(const char *where, const char *argument, const char *type, const void *known, size_t size, void *result);

#endif
