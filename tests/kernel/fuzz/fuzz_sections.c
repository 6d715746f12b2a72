/* Any bytes as a section file: no crash, no leak, and what was read keeps its promises. For
 * libFuzzer. */
#include "section_private.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds) {
    if (!holds) abort();
}

/* A refusal says where: "fuzz: f:<line>:<column>: ". */
static void check_message(const char *message) {
    char *end;
    require(strncmp(message, "fuzz: f:", 8) == 0);
    const long line = strtol(message + 8, &end, 10);
    require(line >= 1 && *end == ':');
    const long column = strtol(end + 1, &end, 10);
    require(column >= 1 && *end == ':');
}

static void check_file(const mst_section_file *file) {
    for (int64_t i = 0; i < file->count; i++) {
        const mst_section_kernel *kernel = &file->kernels[i];
        require(kernel->name && *kernel->name &&
                strspn(kernel->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(kernel->name));
        require(kernel->parameter_count >= 0 && kernel->parameter_count <= MUSTER_KERNEL_PARAMETERS_MAX);
        for (int32_t p = 0; p < kernel->parameter_count; p++) require(mst_type_known(kernel->parameters[p]));
        if (!kernel->code.data) continue;
        require((int64_t)strlen(kernel->code.data) == kernel->code.length);
        require(strncmp(kernel->code.data, "#line ", 6) == 0);
        require(!strstr(kernel->code.data, "\n#kernel") && !strstr(kernel->code.data, "\n#section") && !strchr(kernel->code.data, '\r'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    mst_section_file file;
    const int64_t live = mst_memory_live();
    const char *text = bytes ? (const char *)data : "";
    if (mst_section_read("fuzz", "f", text, (int64_t)bytes, &file) == MUSTER_OK)
        check_file(&file);
    else
        check_message(muster_last_error());
    mst_section_free(&file);
    require(mst_memory_live() == live);
    return 0;
}
