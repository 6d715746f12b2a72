/* The macros that a program defines in front of a kernel's source. */
#include "kernel_private.h"

#include <string.h>

/* Does the dialect define the name in some language? */
static bool defines_dialect_has(const char *name) {
    static const mst_language languages[] = {MST_LANGUAGE_CUDA, MST_LANGUAGE_OPENCL};
    for (int l = 0; l < 2; l++) {
        const char *at = mst_dialect(languages[l]), *end = at + strlen(at);
        bool defined = false;
        for (mst_word word; mst_word_next(&at, end, &word); defined = mst_word_is(&word, "define"))
            if (defined && mst_word_is(&word, name)) return true;
    }
    return false;
}

static muster_status defines_check_name(const char *where, const mst_kernel_plan *plan, const char *const *defines, int32_t i) {
    const char *name = defines[2 * i];
    if (!name || !mst_kernel_is_name(name))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: name of define %d of kernel '%.100s': expected letters, digits and _, no digit first, received "
                         "%s%.100s%s",
                         where, (int)i, plan->name, name ? "'" : "", name ? name : "NULL", name ? "'" : "");
    if (strcmp(name, "defined") == 0 || strncmp(name, "__", 2) == 0 || strcmp(name, plan->name) == 0 || defines_dialect_has(name))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: name of define %d of kernel '%.100s': expected none that the compilers, the dialect or the kernel "
                         "itself has, received '%.100s'",
                         where, (int)i, plan->name, name);
    for (int32_t j = 0; j < i; j++)
        if (strcmp(defines[2 * j], name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: options: define %d of kernel '%.100s': expected each name once, received '%.100s' again", where, (int)i,
                             plan->name, name);
    return MUSTER_OK;
}

/* A value is part of one line, and must not swallow what follows it. */
static muster_status defines_check_value(const char *where, const mst_kernel_plan *plan, const char *name, const char *value) {
    if (!value)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: value of define '%.100s' of kernel '%.100s': expected a string, received NULL", where, name,
                         plan->name);
    const size_t length = strlen(value);
    if (strpbrk(value, "\n\r\f\v") || strstr(value, "/*") || strstr(value, "//") || (length && value[length - 1] == '\\'))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: value of define '%.100s' of kernel '%.100s': expected one line without a comment and without \\ at "
                         "its end, received '%.100s'",
                         where, name, plan->name, value);
    return MUSTER_OK;
}

/* What the types of the dialect in a value need. */
static uint32_t defines_needs(const char *value) {
    const char *at = value, *end = value + strlen(value);
    uint32_t needs = 0;
    for (mst_word word; mst_word_next(&at, end, &word);) {
        const int32_t type = mst_type_of_word(&word);
        if (type >= 0) needs |= mst_type_needs(type);
    }
    return needs;
}

muster_status mst_defines_write(const char *where, mst_kernel_plan *plan, const muster_kernel_options *options, mst_string *source) {
    const char *const *defines = options->defines;
    if (options->define_count < 0 || options->define_count > MUSTER_KERNEL_DEFINES_MAX)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: options: expected a define_count from 0 to %d, received %d", where,
                         MUSTER_KERNEL_DEFINES_MAX, (int)options->define_count);
    if (options->define_count > 0 && !defines)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: expected %d defines, received NULL", where, (int)options->define_count);
    for (int32_t i = 0; i < options->define_count; i++) {
        const char *name = defines[2 * i], *value = defines[2 * i + 1];
        MUSTER_TRY(defines_check_name(where, plan, defines, i));
        MUSTER_TRY(defines_check_value(where, plan, name, value));
        MUSTER_TRY(mst_string_print(source, "#define %s %s\n", name, value));
        plan->needs |= defines_needs(value);
    }
    return MUSTER_OK;
}
