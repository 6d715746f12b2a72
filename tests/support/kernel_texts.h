/* The texts of the tests' kernels, in one place, so that the real compiler of every device can be
 * given all of them. */
#ifndef KERNEL_TEXTS_H
#define KERNEL_TEXTS_H

#include <stdint.h>

typedef struct kernel_text {
    const char *name, *source;
    const int32_t *parameters;
    int32_t parameter_count;
    const char *flags; /* NULL: what the parameters show */
} kernel_text;

extern const kernel_text kernel_texts[];
extern const int32_t kernel_text_count;
const kernel_text *kernel_text_find(const char *name);

/* Section files, with DTYPE_INPUT_n and DTYPE_OUTPUT_n. */
extern const char kernel_file_eye[], kernel_file_generic[], kernel_file_strings[];

#endif
