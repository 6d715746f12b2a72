/* The options and the variables of the environment that are checked at every open, whatever devices
 * it asks for: a wrong value must not wait for the machine on which it counts. */
#include "options_impl.h"
#include "runtime_impl.h"

#include <stdlib.h>
#include <string.h>

static const char where[] = "muster_runtime_open";

static muster_status settings_refuse(const char *variable, const char *expected, const char *received) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: the environment's %s: expected %s, received '%.100s'", where, variable, expected,
                     received);
}

/* A variable that is empty counts as one that is not set. */
static const char *settings_get(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

static muster_status settings_check_environment(void) {
    const char *folder = settings_get("MUSTER_CUDA_LIBRARIES"), *memory = settings_get("MUSTER_DEVICE_MEMORY");
    const char *tf32 = settings_get("MUSTER_TF32"), *opencl = settings_get("MUSTER_OPENCL_LIBRARY");
    if (folder && folder[0] != '/') return settings_refuse("MUSTER_CUDA_LIBRARIES", "an absolute path", folder);
    if (memory && (strspn(memory, "0123456789") != strlen(memory) || strlen(memory) > 18))
        return settings_refuse("MUSTER_DEVICE_MEMORY", "a number of bytes", memory);
    if (tf32 && strcmp(tf32, "0") != 0 && strcmp(tf32, "1") != 0) return settings_refuse("MUSTER_TF32", "0 or 1", tf32);
    if (opencl && strcmp(opencl, "none") != 0 && opencl[0] != '/')
        return settings_refuse("MUSTER_OPENCL_LIBRARY", "an absolute path or \"none\"", opencl);
    return MUSTER_OK;
}

static muster_status settings_check_flag(const char *name, int32_t value) {
    if (value == 0 || value == 1) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected 0 or 1, received %d", where, name, (int)value);
}

muster_status mst_runtime_check_settings(const muster_runtime_options *options) {
    MUSTER_TRY(settings_check_flag("keep_blas_threads", options->keep_blas_threads));
    MUSTER_TRY(settings_check_flag("no_pinning", options->no_pinning));
    MUSTER_TRY(mst_options_check_reserved(where, options->reserved));
    if (options->logical_shards > MST_LOGICAL_SHARDS_MAX)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: logical_shards: expected at most %d, received %d", where,
                         MST_LOGICAL_SHARDS_MAX, (int)options->logical_shards);
    return settings_check_environment();
}
