/* Buffers for the inputs of a function. */
#include "call_private.h"
#include "muster/buffer.h"

static muster_status buffers_create_one(muster_function *function, const mst_port *port, double oversize, muster_buffer **buffer) {
    MUSTER_TRY(muster_buffer_create(port->dtype, port->ndim, oversize, buffer));
    return muster_runtime_register_buffer(function->object.runtime, *buffer);
}

muster_status muster_function_buffers(muster_function *function, double oversize, muster_buffer **buffers, int32_t count) {
    static const char where[] = "muster_function_buffers";
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(mst_runtime_check_open(function->object.runtime, where));
    if (count != function->input_count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected the %lld inputs of function '%s', received %d", where,
                         (long long)function->input_count, mst_function_name(function), (int)count);
    if (count && !buffers) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: buffers: expected room for %d, received NULL", where, (int)count);
    if (!(oversize >= 1 && oversize <= 2))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: oversize: expected a factor in [1, 2], received %g", where, oversize);
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < count; i++) buffers[i] = NULL;
    for (int32_t i = 0; i < count && !status; i++) status = buffers_create_one(function, &function->inputs[i], oversize, &buffers[i]);
    if (status == MUSTER_OK) return MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    for (int32_t i = 0; i < count; i++) {
        muster_buffer_destroy(buffers[i]);
        buffers[i] = NULL;
    }
    return mst_error_restore(status, message);
}
