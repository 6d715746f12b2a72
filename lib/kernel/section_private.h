/* The reader of section files: text in, declarations and code out. It knows no device and no
 * compiler. */
#ifndef MST_SECTION_PRIVATE_H
#define MST_SECTION_PRIVATE_H

#include "types_private.h"

typedef struct mst_section_kernel {
    char *name;
    int32_t *parameters; /* types */
    int32_t parameter_count;
    uint32_t needs;  /* of its flags */
    mst_string code; /* with the numbers of its lines in the file */
} mst_section_kernel;

typedef struct mst_section_file {
    mst_section_kernel *kernels;
    int64_t count, capacity;
    mst_string device; /* code that all kernels share, with the same line numbers */
    /* 1 + the highest n of the DTYPE_INPUT_n and DTYPE_OUTPUT_n that the code says; 0: none */
    int32_t inputs, outputs;
} mst_section_file;

/* name: of the text, for messages and the compiler. On failure *file is empty, and the message is
 * "<where>: <name>:<line>:<column>: expected ..., received ..."; columns count bytes from 1. free:
 * of an empty one, too. */
muster_status mst_section_read(const char *where, const char *name, const char *text, int64_t bytes, mst_section_file *file);
void mst_section_free(mst_section_file *file);

#endif
