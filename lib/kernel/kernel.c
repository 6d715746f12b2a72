/* Creating and destroying kernels, and questions about them. */
#include "kernel_private.h"
#include "options_impl.h"

#include <string.h>

void muster_kernel_options_init_sized(muster_kernel_options *options, size_t size) { mst_options_init(options, size); }

static muster_status kernel_check_threads(const char *where, const muster_kernel_options *options) {
    MUSTER_TRY(mst_options_check_reserved(where, options->reserved));
    MUSTER_TRY(mst_options_check_reserved(where, options->reserved1));
    if (options->thread_count < 0 || options->thread_count > MUSTER_KERNEL_WARM_MAX)
        return mst_error(options->thread_count < 0 ? MUSTER_INVALID_ARGUMENT : MUSTER_OUT_OF_RANGE,
                         "%s: options: expected a thread_count from 0 to %d, received %d", where, MUSTER_KERNEL_WARM_MAX,
                         (int)options->thread_count);
    if (options->thread_count > 0 && !options->threads)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: expected %d numbers of threads, received NULL", where,
                         (int)options->thread_count);
    for (int32_t i = 0; i < options->thread_count; i++)
        if (options->threads[i] < 1)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: threads[%d]: expected 1 or more, received %lld", where, (int)i,
                             (long long)options->threads[i]);
    return MUSTER_OK;
}

muster_status mst_kernel_check_runtime(const muster_runtime *runtime, const char *where) {
    return runtime ? mst_runtime_check_open(runtime, where) : mst_error_null(where, "runtime", "a runtime");
}

bool mst_kernel_is_name(const char *name) {
    const char *at = name;
    for (; *at; at++) {
        const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        if (!letter && (at == name || *at < '0' || *at > '9')) return false;
    }
    return at > name;
}

static muster_status kernel_check_name(const char *where, const char *name) {
    if (!name || !*name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected the name of a function, received %s", where, name ? "\"\"" : "NULL");
    if (mst_kernel_is_name(name)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected letters, digits and _, no digit first, received '%.100s'", where, name);
}

static muster_status kernel_check_parameters(const char *where, const char *name, const int32_t *parameters, int32_t count) {
    if (count < 0 || count > MUSTER_KERNEL_PARAMETERS_MAX)
        return mst_error(count < 0 ? MUSTER_INVALID_ARGUMENT : MUSTER_OUT_OF_RANGE,
                         "%s: parameter_count of kernel '%.100s': expected 0 to %d, received %d", where, name, MUSTER_KERNEL_PARAMETERS_MAX,
                         (int)count);
    if (count > 0 && !parameters)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameters of kernel '%.100s': expected %d types, received NULL", where, name,
                         (int)count);
    for (int32_t i = 0; i < count; i++)
        if (!mst_type_known(parameters[i]))
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: parameters[%d] of kernel '%.100s': expected a muster_dtype, MUSTER_PARAMETER_BUFFER, "
                             "MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SSIZE or "
                             "MUSTER_PARAMETER_USHORT, received %d",
                             where, (int)i, name, (int)parameters[i]);
    return MUSTER_OK;
}

static muster_status read_needs(const char *where, const mst_kernel_plan *plan, const char *flags, uint32_t *needs) {
    int64_t at = 0, length = 0;
    const char *wrong = flags ? mst_flags_read(flags, (int64_t)strlen(flags), needs, &at, &length) : NULL;
    if (wrong)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: flags of kernel '%.100s': %s, received '%.*s'", where, plan->name, wrong,
                         (int)(length < 80 ? length : 80), flags + at);
    return MUSTER_OK;
}

static muster_status kernel_create(muster_runtime *runtime, const char *where, mst_kernel_plan *plan, const char *source,
                                   const muster_kernel_options *options, muster_kernel **kernel) {
    MUSTER_TRY(read_needs(where, plan, options->flags, &plan->needs));
    plan->threads = options->threads;
    plan->thread_count = options->thread_count;
    mst_string numbered = {0};
    muster_status status = mst_defines_write(where, plan, options, &numbered);
    if (status == MUSTER_OK) status = mst_string_line(&numbered, 1, plan->name);
    if (status == MUSTER_OK) status = mst_string_print(&numbered, "%s\n", source);
    plan->source = numbered.data;
    if (status == MUSTER_OK) status = mst_kernels_build(runtime, where, plan, 1, kernel);
    mst_string_free(&numbered);
    return status;
}

muster_status muster_kernel_create(muster_runtime *runtime, const char *name, const char *source, const int32_t *parameters,
                                   int32_t parameter_count, const muster_kernel_options *options, muster_kernel **kernel) {
    static const char where[] = "muster_kernel_create";
    muster_kernel_options known;
    mst_create_log_set(NULL);
    if (!kernel) return mst_error_null(where, "kernel", "the address of a pointer");
    *kernel = NULL;
    MUSTER_TRY(mst_kernel_check_runtime(runtime, where));
    MUSTER_TRY(kernel_check_name(where, name));
    if (!source) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: source of kernel '%.100s': expected a string, received NULL", where, name);
    MUSTER_TRY(kernel_check_parameters(where, name, parameters, parameter_count));
    MUSTER_TRY(mst_options_read(where, "muster_kernel_options", options, &known, sizeof known));
    MUSTER_TRY(kernel_check_threads(where, &known));
    mst_kernel_plan plan = {.name = name, .parameters = parameters, .parameter_count = parameter_count};
    return kernel_create(runtime, where, &plan, source, &known, kernel);
}

muster_status muster_kernel_destroy(muster_kernel *kernel) {
    if (!kernel) return MUSTER_OK;
    mst_pool *pool = kernel->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter_to_end(pool, "muster_kernel_destroy"));
    kernel->object.destroy(&kernel->object);
    mst_pool_leave(pool);
    return MUSTER_OK;
}

muster_status muster_kernel_find(muster_runtime *runtime, const char *name, muster_kernel **kernel) {
    static const char where[] = "muster_kernel_find";
    if (!kernel) return mst_error_null(where, "kernel", "the address of a pointer");
    *kernel = NULL;
    if (!runtime || !name) return mst_error_null(where, runtime ? "name" : "runtime", runtime ? "a string" : "a runtime");
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    *kernel = (muster_kernel *)mst_runtime_look(runtime, "kernel", name);
    mst_pool_leave(runtime->pool);
    if (*kernel) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a kernel of this runtime, received '%.200s'", where, name);
}

const char *muster_dtype_kernel_name(muster_dtype dtype) { return muster_dtype_size(dtype) > 0 ? mst_type_in_source(dtype) : NULL; }

const char *muster_kernel_name(const muster_kernel *kernel) { return kernel ? kernel->name : NULL; }
int32_t muster_kernel_parameter_count(const muster_kernel *kernel) { return kernel ? kernel->parameter_count : -1; }
int32_t muster_kernel_parameter(const muster_kernel *kernel, int32_t index) {
    return kernel && index >= 0 && index < kernel->parameter_count ? kernel->parameters[index] : -1;
}
const char *muster_kernel_log(const muster_kernel *kernel) { return !kernel ? NULL : kernel->log ? kernel->log : ""; }
