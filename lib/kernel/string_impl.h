/* Strings that are printed into, such as the text of a kernel. */
#ifndef MST_STRING_IMPL_H
#define MST_STRING_IMPL_H

#include "memory_impl.h"

/* A string that grows. Zeroed memory is an empty one. */
typedef struct mst_string {
    char *data; /* NULL: nothing yet */
    int64_t length, capacity;
} mst_string;
muster_status mst_string_add(mst_string *string, const char *bytes, int64_t count);
muster_status mst_string_print(mst_string *string, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A #line directive: what follows is line `line` of `file` in the compiler's messages. */
muster_status mst_string_line(mst_string *string, int64_t line, const char *file);
void mst_string_free(mst_string *string);

#endif
