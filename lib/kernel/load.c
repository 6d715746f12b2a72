/* Creating kernels from section files. */
#include "kernel_private.h"
#include "section_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The arguments of one load. */
typedef struct load {
    const char *where, *name;
    muster_runtime *runtime;
    const muster_dtype *types;
    int32_t type_count;
    muster_kernel **kernels;
    int32_t capacity;
    int32_t *count;
} load;

static muster_status load_check(const load *l) {
    if (l->count) *l->count = 0;
    MUSTER_TRY(mst_kernel_check_runtime(l->runtime, l->where));
    if (!l->count) return mst_error_null(l->where, "count", "the address of a number");
    if (l->capacity < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: capacity: expected 0 or more, received %d", l->where, (int)l->capacity);
    if (l->capacity > 0 && !l->kernels)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: kernels: expected room for %d, received NULL", l->where, (int)l->capacity);
    if (l->type_count < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: type_count: expected 0 or more, received %d", l->where, (int)l->type_count);
    if (l->type_count > 0 && !l->types)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: types: expected %d dtypes, received NULL", l->where, (int)l->type_count);
    for (int32_t i = 0; i < l->capacity; i++) l->kernels[i] = NULL;
    for (int32_t i = 0; i < l->type_count; i++)
        if (muster_dtype_size(l->types[i]) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: types[%d]: expected an element type, received %d", l->where, (int)i,
                             (int)l->types[i]);
    return MUSTER_OK;
}

/* Defines the types of the inputs, then of the outputs. */
static muster_status load_define_types(const load *l, const mst_section_file *file, mst_string *source) {
    if (l->type_count != file->inputs + file->outputs)
        return mst_error(
            MUSTER_INVALID_ARGUMENT,
            "%s: types: '%.100s' says DTYPE_INPUT_n and DTYPE_OUTPUT_n of %d inputs and %d outputs: expected %d types, received %d",
            l->where, l->name, (int)file->inputs, (int)file->outputs, (int)(file->inputs + file->outputs), (int)l->type_count);
    for (int32_t i = 0; i < l->type_count; i++) {
        const bool output = i >= file->inputs;
        MUSTER_TRY(mst_string_print(source, "#define DTYPE_%s_%d %s\n", output ? "OUTPUT" : "INPUT", (int)(output ? i - file->inputs : i),
                                    mst_type_in_source(l->types[i])));
    }
    return MUSTER_OK;
}

static muster_status load_write_source(const load *l, const mst_section_file *file, int64_t index, mst_string *source) {
    const mst_string *code = &file->kernels[index].code;
    MUSTER_TRY(load_define_types(l, file, source));
    if (file->device.length > 0) MUSTER_TRY(mst_string_add(source, file->device.data, file->device.length));
    return mst_string_add(source, code->length > 0 ? code->data : "", code->length);
}

static muster_status load_build(const load *l, const mst_section_file *file, mst_kernel_plan *plans, mst_string *sources) {
    uint32_t needs = 0;
    for (int32_t i = 0; i < l->type_count; i++) needs |= mst_type_needs(l->types[i]);
    for (int64_t i = 0; i < file->count; i++) {
        const mst_section_kernel *kernel = &file->kernels[i];
        MUSTER_TRY(load_write_source(l, file, i, &sources[i]));
        plans[i] = (mst_kernel_plan){.name = kernel->name,
                                     .source = sources[i].data ? sources[i].data : "",
                                     .parameters = kernel->parameters,
                                     .parameter_count = kernel->parameter_count,
                                     .needs = kernel->needs | needs};
    }
    return mst_kernels_build(l->runtime, l->where, plans, file->count, l->kernels);
}

static muster_status load_build_all(const load *l, const mst_section_file *file) {
    *l->count = (int32_t)file->count;
    if (file->count > l->capacity)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: capacity: expected room for the %lld kernels of '%.150s', received room for %d",
                         l->where, (long long)file->count, l->name, (int)l->capacity);
    if (file->count == 0) return MUSTER_OK;
    mst_kernel_plan *plans = mst_alloc((size_t)file->count * sizeof *plans);
    mst_string *sources = mst_alloc((size_t)file->count * sizeof *sources);
    muster_status status = plans && sources ? load_build(l, file, plans, sources)
                                            : mst_out_of_memory(l->where, file->count * (int64_t)(sizeof *plans + sizeof *sources));
    for (int64_t i = 0; sources && i < file->count; i++) mst_string_free(&sources[i]);
    mst_free(sources);
    mst_free(plans);
    return status;
}

static muster_status load_parse(const load *l, const char *text, int64_t bytes) {
    mst_section_file file;
    MUSTER_TRY(mst_section_read(l->where, l->name, text, bytes, &file));
    muster_status status = load_build_all(l, &file);
    mst_section_free(&file);
    return status;
}

muster_status muster_kernels_parse(muster_runtime *runtime, const char *name, const char *text, int64_t bytes, const muster_dtype *types,
                                   int32_t type_count, muster_kernel **kernels, int32_t capacity, int32_t *count) {
    const load l = {"muster_kernels_parse", name, runtime, types, type_count, kernels, capacity, count};
    mst_create_log_set(NULL);
    MUSTER_TRY(load_check(&l));
    if (!name) return mst_error_null(l.where, "name", "a name of the source for messages");
    if (bytes < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected 0 or more, received %lld", l.where, (long long)bytes);
    if (bytes > 0 && !text)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: text: expected %lld bytes, received NULL", l.where, (long long)bytes);
    return load_parse(&l, text ? text : "", bytes);
}

static muster_status load_refuse_file(const load *l) {
    return mst_error(MUSTER_SYSTEM, "%s: path: expected a file that can be read, received '%.200s': %s", l->where, l->name,
                     strerror(errno));
}

static muster_status load_read_file(const load *l, FILE *stream, mst_string *text) {
    char chunk[4096];
    size_t count;
    errno = 0;
    while ((count = fread(chunk, 1, sizeof chunk, stream)) > 0) MUSTER_TRY(mst_string_add(text, chunk, (int64_t)count));
    return ferror(stream) ? load_refuse_file(l) : MUSTER_OK;
}

muster_status muster_kernels_load(muster_runtime *runtime, const char *path, const muster_dtype *types, int32_t type_count,
                                  muster_kernel **kernels, int32_t capacity, int32_t *count) {
    const load l = {"muster_kernels_load", path, runtime, types, type_count, kernels, capacity, count};
    mst_create_log_set(NULL);
    MUSTER_TRY(load_check(&l));
    if (!path || !*path)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: path: expected the path of a file, received %s", l.where, path ? "\"\"" : "NULL");
    mst_string text = {0};
    FILE *stream = fopen(path, "rbe");
    if (!stream) return load_refuse_file(&l);
    muster_status status = load_read_file(&l, stream, &text);
    fclose(stream);
    if (status == MUSTER_OK) status = load_parse(&l, text.data ? text.data : "", text.length);
    mst_string_free(&text);
    return status;
}
