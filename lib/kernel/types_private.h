/* Types of parameters, flags, and words of kernel source. Nothing here knows devices. */
#ifndef MST_KERNEL_TYPES_PRIVATE_H
#define MST_KERNEL_TYPES_PRIVATE_H

#include "memory_impl.h"
#include "muster/kernel.h"
#include "program_impl.h"
#include "string_impl.h"

/* Is it the type of a parameter? Its bytes as a scalar, 0 for a buffer; its name in messages
 * ("f32", "buffer"); its name in kernel source ("ga_float", NULL for a buffer). */
bool mst_type_known(int32_t type);
int32_t mst_type_bytes(int32_t type);
const char *mst_type_name(int32_t type);
const char *mst_type_in_source(int32_t type);
/* What a kernel with such a parameter, or such elements, needs. */
uint32_t mst_type_needs(int32_t type);
/* The type with this name in section files: "*", "size", "float32", "f4" ... -1: none. complex: it
 * is a complex type. */
int32_t mst_type_find(const char *name, int64_t length, bool *complex);

/* Reads flags, such as "GA_USE_DOUBLE|GA_USE_SMALL", "" or "0", as MST_NEEDS_*. Returns NULL, or
 * what is wrong, and in *at and *length the part that is. */
const char *mst_flags_read(const char *flags, int64_t bytes, uint32_t *needs, int64_t *at, int64_t *length);

/* The next word (letters, digits and _), or one other character, of C source from *at on, outside
 * comments, strings and character constants. false: there is none before `end`. */
typedef struct mst_word {
    const char *start;
    int64_t length;
} mst_word;
bool mst_word_next(const char **at, const char *end, mst_word *word);
bool mst_word_is(const mst_word *word, const char *expected);

#endif
