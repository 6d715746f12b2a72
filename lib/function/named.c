/* Calls that pass tensors by name. */
#include "call_private.h"
#include "processes_private.h"

#include <string.h>

static const char where[] = "muster_function_call_named";

static int64_t find_port(const mst_port *ports, int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return -1;
}

/* The message lists the names that there are, as many as fit. */
static muster_status refuse_name(const muster_function *function, const mst_port *ports, int64_t count, const char *kind,
                                 const char *name) {
    char known[200] = "none";
    size_t used = 0;
    for (int64_t i = 0; i < count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s'%s'", i ? ", " : "", ports[i].name);
    if (used >= sizeof known) memcpy(known + sizeof known - sizeof "...", "...", sizeof "...");
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s_names: expected the name of one of the %lld %ss of function '%s' (%s), received '%.100s'", where, kind,
                     (long long)count, kind, mst_function_name(function), known, name);
}

/* Puts the named tensors in the order of the description. Ports without a tensor get "no
 * tensor". */
static muster_status named_place(const muster_function *function, const mst_port *ports, int64_t port_count, const char *kind,
                                 const char *const *names, const muster_tensor *tensors, int32_t count, muster_tensor *placed) {
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s_count: expected 0 or more, received %d", where, kind, (int)count);
    if (count > 0 && (!names || !tensors))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s%s: expected %d, received NULL", where, kind, names ? "s" : "_names", (int)count);
    for (int64_t i = 0; i < port_count; i++) placed[i] = muster_tensor_none();
    for (int32_t i = 0; i < count; i++) {
        if (!names[i]) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s_names[%d]: expected a string, received NULL", where, kind, (int)i);
        const int64_t at = find_port(ports, port_count, names[i]);
        if (at < 0) return refuse_name(function, ports, port_count, kind, names[i]);
        if (placed[at].dtype)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s_names: expected every name once, received '%s' twice", where, kind, names[i]);
        placed[at] = tensors[i];
    }
    return MUSTER_OK;
}

/* Puts the buffers of the named outputs in the order of the description. */
static muster_status named_place_buffers(muster_function *function, const char *const *names, int32_t count, muster_call_options *options) {
    if (!options->output_buffers) return MUSTER_OK;
    for (int64_t i = 0; i < function->output_count; i++) function->named_buffers[i] = NULL;
    for (int32_t i = 0; i < count; i++) {
        const int64_t at = find_port(function->outputs, function->output_count, names[i]);
        if (function->named_buffers[at])
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: output_names: expected every name once, received '%s' twice", where, names[i]);
        function->named_buffers[at] = options->output_buffers[i];
    }
    options->output_buffers = function->named_buffers;
    return MUSTER_OK;
}

static muster_status named_arrange(muster_function *function, const char *const *input_names, const muster_tensor *inputs,
                                   int32_t input_count, const char *const *output_names, const muster_tensor *outputs,
                                   int32_t output_count) {
    if (!function->sealed) MUSTER_TRY(mst_function_seal(function, where));
    muster_tensor *in = function->named, *out = function->named + function->input_count;
    MUSTER_TRY(named_place(function, function->inputs, function->input_count, "input", input_names, inputs, input_count, in));
    for (int64_t i = 0; i < function->input_count; i++)
        if (!in[i].dtype)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: input_names: expected input '%s' of function '%s' too, received none", where,
                             function->inputs[i].name, mst_function_name(function));
    return named_place(function, function->outputs, function->output_count, "output", output_names, outputs, output_count, out);
}

muster_status muster_function_call_named(muster_function *function, const char *const *input_names, const muster_tensor *inputs,
                                         int32_t input_count, const char *const *output_names, const muster_tensor *outputs,
                                         int32_t output_count, const muster_call_options *options) {
    if (!function) return mst_error_null(where, "function", "a function");
    muster_call_options known;
    const muster_status read = mst_call_options_read(where, options, &known);
    if (read) return mst_processes_refuse_options(function, where, false, read);
    mst_pool *pool = function->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, known.queue_timeout_ns));
    muster_status status = named_arrange(function, input_names, inputs, input_count, output_names, outputs, output_count);
    if (!status) status = named_place_buffers(function, output_names, output_count, &known);
    const mst_arguments arguments = {where,
                                     function->named,
                                     function->named + function->input_count,
                                     (int32_t)function->input_count,
                                     (int32_t)function->output_count,
                                     &known,
                                     false};
    if (!status)
        status = mst_function_call_entered(function, &arguments);
    else if (function->object.runtime->nodes)
        status = mst_processes_refuse(function, &arguments, status);
    mst_pool_leave(pool);
    return status;
}
