/* The types of parameters, the flags, and the words of kernel texts: nothing here knows of
 * devices. */
#ifndef MST_KERNEL_TYPES_PRIVATE_H
#define MST_KERNEL_TYPES_PRIVATE_H

#include "memory_impl.h"
#include "muster/kernel.h"
#include "program_impl.h"

/* Is it a parameter's type? Its bytes as a scalar, 0 for a buffer; its name in messages ("f32",
 * "buffer"); its name in kernel texts ("ga_float", NULL for a buffer). */
bool mst_type_known(int32_t type);
int32_t mst_type_bytes(int32_t type);
const char *mst_type_name(int32_t type);
const char *mst_type_in_text(int32_t type);
/* What a kernel with such a parameter, or such elements, needs. */
uint32_t mst_type_needs(int32_t type);
/* By the name that it has in section files: "*", "size", "float32", "f4" ... -1: none. complex: it
 * is a complex type's. */
int32_t mst_type_find(const char *name, int64_t length, bool *complex);

/* "GA_USE_DOUBLE|GA_USE_SMALL", "" or "0" as MST_NEEDS_*. NULL, or what is wrong with them; *at and
 * *length: with which part of the text. */
const char *mst_flags_read(const char *text, int64_t bytes, uint32_t *needs, int64_t *at, int64_t *length);

/* The next word (letters, digits and _), or one other character, of C text from *at on, outside of
 * comments, strings and character
 * constants. false: there is none before `end`. */
typedef struct mst_word {
    const char *start;
    int64_t length;
} mst_word;
bool mst_word_next(const char **at, const char *end, mst_word *word);
bool mst_word_is(const mst_word *word, const char *text);

/* Text that grows. Zeroed memory is an empty one. */
typedef struct mst_text {
    char *data; /* NULL: nothing yet */
    int64_t length, capacity;
} mst_text;
muster_status mst_text_add(mst_text *text, const char *bytes, int64_t count);
muster_status mst_text_print(mst_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What follows is line `line` of `file`, for whoever reads the compiler's messages. */
muster_status mst_text_line(mst_text *text, int64_t line, const char *file);
void mst_text_free(mst_text *text);

#endif
