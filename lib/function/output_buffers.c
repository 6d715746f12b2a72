/* Outputs whose rows are known only after the call: buffers that the library fills. In the plan
 * such an output has 0 rows, so that each worker keeps its rows apart (gather.c). After the run
 * memory is made for all buffers, then the rows are copied, and then the buffers take them: what
 * can fail comes first. */
#include "output_private.h"

#include <string.h>

static muster_status buffer_check_one(const muster_function *function, const char *where, int64_t i, const muster_tensor *output,
                                      const muster_buffer *buffer) {
    const mst_port *port = &function->outputs[i];
    const char *name = mst_function_name(function);
    if (!mst_tensor_absent(output))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: output_buffers: output '%s' of function '%s': expected no tensor beside the buffer, received one",
                         where, port->name, name);
    if (port->mode != MUSTER_GATHER)
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: options: output_buffers: output '%s' of function '%s': expected an output with MUSTER_GATHER, received another", where,
            port->name, name);
    MUSTER_TRY(mst_buffer_check(buffer, where));
    const muster_tensor value = muster_buffer_tensor(buffer);
    if (value.dtype != port->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: options: output_buffers: output '%s' of function '%s': expected %s, received %s",
                         where, port->name, name, muster_dtype_name(port->dtype), muster_dtype_name(value.dtype));
    if (value.ndim != port->ndim)
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s: options: output_buffers: output '%s' of function '%s': expected %d dimensions, received %d", where,
                         port->name, name, (int)port->ndim, (int)value.ndim);
    if (mst_buffer_has_row_shape(buffer)) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH,
                     "%s: options: output_buffers: output '%s' of function '%s': expected a buffer with the sizes of a row "
                     "(muster_buffer_set_shape), received a new one, all of whose sizes are 0",
                     where, port->name, name);
}

muster_status mst_output_buffers_check(const muster_function *function, const char *where, const muster_tensor *outputs,
                                       muster_buffer *const *buffers) {
    if (!buffers) return MUSTER_OK;
    if (function->object.runtime->nodes)
        return mst_error(MUSTER_UNSUPPORTED, "%s: options: output_buffers: expected a runtime of one process, received one of several",
                         where);
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!buffers[i]) continue;
        MUSTER_TRY(buffer_check_one(function, where, i, &outputs[i], buffers[i]));
        for (int64_t j = 0; j < i; j++)
            if (buffers[j] == buffers[i])
                return mst_error(MUSTER_INVALID_ARGUMENT,
                                 "%s: options: output_buffers: expected a buffer for each output, received the same for '%s' and '%s'",
                                 where, function->outputs[j].name, function->outputs[i].name);
    }
    return MUSTER_OK;
}

muster_status mst_output_buffers_put(muster_function *function, const mst_arguments *arguments, mst_arguments *with) {
    muster_buffer *const *buffers = arguments->options->output_buffers;
    muster_tensor *outputs = function->named + function->input_count;
    MUSTER_TRY(mst_output_buffers_check(function, arguments->where, arguments->outputs, buffers));
    if (function->output_count && outputs != arguments->outputs)
        memcpy(outputs, arguments->outputs, (size_t)function->output_count * sizeof *outputs);
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!buffers[i]) continue;
        outputs[i] = muster_buffer_tensor(buffers[i]);
        outputs[i].shape[0] = 0;
        outputs[i].data = NULL;
    }
    *with = *arguments;
    with->outputs = outputs;
    return MUSTER_OK;
}

/* Gives up the memory of the outputs before `end`. */
static void buffers_drop(mst_call *call, int64_t end) {
    muster_function *function = call->function;
    for (int64_t i = 0; i < end; i++)
        if (mst_output_is_buffered(&function->plan, i)) mst_buffer_drop_rows(function->plan.buffers[i], &function->filled[i]);
}

static muster_status buffers_make_rows(mst_call *call, const char *where) {
    muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        int64_t rows, ignored;
        if (!mst_output_is_buffered(&function->plan, i)) continue;
        mst_gather_count(call, i, &rows, &ignored);
        const muster_status status = mst_buffer_make_rows(function->plan.buffers[i], where, rows, &function->filled[i]);
        if (status == MUSTER_OK) continue;
        buffers_drop(call, i);
        return status;
    }
    return MUSTER_OK;
}

muster_status mst_output_buffers_collect(mst_call *call, const char *where) {
    muster_function *function = call->function;
    mst_plan *plan = &function->plan;
    MUSTER_TRY(buffers_make_rows(call, where));
    for (int64_t i = 0; i < function->output_count; i++) {
        if (!mst_output_is_buffered(plan, i)) continue;
        plan->outputs[i].shape[0] = function->filled[i].rows;
        plan->addresses[function->input_count + i] = function->filled[i].storage;
        const muster_status status = mst_gather_put(call, i, 0, where);
        if (status == MUSTER_OK) continue;
        buffers_drop(call, function->output_count);
        return status;
    }
    for (int64_t i = 0; i < function->output_count; i++)
        if (mst_output_is_buffered(plan, i)) mst_buffer_take_rows(plan->buffers[i], &function->filled[i]);
    return MUSTER_OK;
}
