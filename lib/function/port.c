/* Describes a function by one array, reads its description back, and finds functions by name. */
#include "call_private.h"

#include <string.h>

muster_status muster_function_find(muster_runtime *runtime, const char *name, muster_function **function) {
    static const char where[] = "muster_function_find";
    mst_object *object = NULL;
    if (!function) return mst_error_null(where, "function", "the address of a pointer");
    *function = NULL;
    if (!runtime || !name) return mst_error_null(where, runtime ? "name" : "runtime", runtime ? "a string" : "a runtime");
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = mst_runtime_find_object(runtime, "function", name, where, &object);
    mst_pool_leave(runtime->pool);
    *function = (muster_function *)object;
    return status;
}

/* ---- reading back ---- */

/* The ports of one variable, at most three; returns their number. */
static int32_t use_ports(const mst_use *use, muster_port ports[3]) {
    const muster_variable *variable = use->variable;
    const muster_port like = {.name = variable->object.name, .dtype = variable->dtype, .ndim = variable->ndim, .variable = use->variable};
    int32_t count = 0;
    for (int32_t i = 0; i < 3; i++) ports[i] = like;
    if (use->sliceable || (use->read && !use->written)) {
        ports[count].kind = MUSTER_PORT_VARIABLE;
        ports[count++].mode = use->sliceable ? MUSTER_USE_READ_SLICEABLE : MUSTER_USE_READ;
    }
    if (use->written) {
        ports[count].kind = MUSTER_PORT_VARIABLE;
        ports[count++].mode = MUSTER_USE_READ_WRITE;
    }
    if (use->updated) {
        ports[count].kind = MUSTER_PORT_UPDATE;
        ports[count++].mode = use->mode;
    }
    return count;
}

/* Port `index` in *port if there is one; returns the number of ports up to there. */
static int32_t find_in_order(const muster_function *function, int32_t index, muster_port *port) {
    const int32_t inputs = (int32_t)function->input_count, outputs = (int32_t)function->output_count;
    if (index < inputs + outputs) {
        const mst_port *found = index < inputs ? &function->inputs[index] : &function->outputs[index - inputs];
        *port = (muster_port){.kind = index < inputs ? MUSTER_PORT_INPUT : MUSTER_PORT_OUTPUT,
                              .mode = found->mode | (found->host ? MUSTER_INPUT_HOST : 0) | (found->strided ? MUSTER_STRIDED : 0),
                              .name = found->name,
                              .dtype = found->dtype,
                              .ndim = found->ndim};
        return index + 1;
    }
    int32_t first = inputs + outputs;
    for (int64_t u = 0; u < function->use_count; u++) {
        muster_port ports[3];
        const int32_t count = use_ports(&function->uses[u], ports);
        if (index < first + count) {
            *port = ports[index - first];
            return index + 1;
        }
        first += count;
    }
    return first;
}

int32_t muster_function_port_count(const muster_function *function) {
    muster_port none;
    return function ? find_in_order(function, INT32_MAX, &none) : -1;
}

muster_status muster_function_port(const muster_function *function, int32_t index, muster_port *port) {
    static const char where[] = "muster_function_port";
    if (!function || !port)
        return mst_error_null(where, function ? "port" : "function", function ? "the address of a muster_port" : "a function");
    MUSTER_TRY(mst_runtime_check_open(function->object.runtime, where));
    const int32_t count = muster_function_port_count(function);
    if (index < 0 || index >= count)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: function '%s' has %d ports: expected 0 to %d, received %d", where,
                         mst_function_name(function), (int)count, (int)count - 1, (int)index);
    find_in_order(function, index, port);
    return MUSTER_OK;
}

/* ---- describing ---- */

/* The description before muster_function_describe, which it goes back to after a failure. */
typedef struct description {
    int64_t input_count, output_count, use_count;
    bool scatters, slices_variables;
    mst_use *uses;
} description;

static muster_status remember_description(const muster_function *function, description *before, const char *where) {
    const size_t bytes = (size_t)function->use_count * sizeof *before->uses;
    *before = (description){.input_count = function->input_count,
                            .output_count = function->output_count,
                            .use_count = function->use_count,
                            .scatters = function->scatters,
                            .slices_variables = function->slices_variables,
                            .uses = mst_alloc(bytes)};
    if (!before->uses) return mst_out_of_memory(where, (int64_t)bytes);
    if (bytes) memcpy(before->uses, function->uses, bytes);
    return MUSTER_OK;
}

static void drop_ports(mst_port *ports, int64_t *count, int64_t kept) {
    while (*count > kept) mst_free(ports[--*count].name);
}

static void restore_description(muster_function *function, const description *before) {
    drop_ports(function->inputs, &function->input_count, before->input_count);
    drop_ports(function->outputs, &function->output_count, before->output_count);
    while (function->use_count > before->use_count) function->uses[--function->use_count].variable->users--;
    if (before->use_count) memcpy(function->uses, before->uses, (size_t)before->use_count * sizeof *before->uses);
    function->scatters = before->scatters;
    function->slices_variables = before->slices_variables;
}

static muster_status describe_port(muster_function *function, const muster_port *port, const char *where) {
    switch (port->kind) {
    case MUSTER_PORT_INPUT:
        return mst_describe_input(function, port->name, port->dtype, port->ndim, port->mode, where);
    case MUSTER_PORT_OUTPUT:
        return mst_describe_output(function, port->name, port->dtype, port->ndim, port->mode, where);
    case MUSTER_PORT_VARIABLE:
        return mst_describe_variable(function, port->variable, port->mode, where);
    case MUSTER_PORT_UPDATE:
        return mst_describe_update(function, port->variable, port->mode, where);
    default:
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: kind: expected MUSTER_PORT_INPUT to _UPDATE, received %d", where, (int)port->kind);
    }
}

/* The message says which of the ports is wrong. */
static muster_status describe_ports(muster_function *function, const muster_port *ports, int32_t count, const char *where) {
    char place[64];
    for (int32_t i = 0; i < count; i++) {
        snprintf(place, sizeof place, "%s: ports[%d]", where, (int)i);
        MUSTER_TRY(describe_port(function, &ports[i], place));
    }
    return MUSTER_OK;
}

muster_status muster_function_describe(muster_function *function, const muster_port *ports, int32_t count) {
    static const char where[] = "muster_function_describe";
    description before;
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (count > 0 && !ports) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ports: expected %d ports, received NULL", where, (int)count);
    MUSTER_TRY(mst_describe_open(function, where));
    muster_status status = remember_description(function, &before, where);
    if (!status) {
        status = describe_ports(function, ports, count, where);
        if (status) restore_description(function, &before);
    }
    mst_free(before.uses);
    return mst_describe_close(function, status);
}
