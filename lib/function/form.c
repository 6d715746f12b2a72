/* The form in which bodies get the tensors of a call: they take contiguous memory unless they have
 * said otherwise, and callers pass any strides. */
#include "call_private.h"

#include "recorder_impl.h"

static uint8_t form_of(const muster_tensor *tensor, bool strided) {
    muster_tensor plain = *tensor;
    if (strided || tensor->dtype == MUSTER_DTYPE_NONE) return MST_FORM_SAME;
    if (!mst_tensor_contiguous(*tensor)) return MST_FORM_COPY;
    mst_tensor_set_strides(&plain);
    for (int32_t d = 0; d < tensor->ndim; d++)
        if (plain.strides[d] != tensor->strides[d]) return MST_FORM_STRIDES;
    return MST_FORM_SAME;
}

static bool form_is_read_on_host(const muster_function *function, int64_t input) {
    const muster_runtime *runtime = function->object.runtime;
    if (function->inputs[input].host) return true;
    for (int32_t r = 0; r < runtime->size; r++)
        if (mst_device_is_host(runtime->devices[r])) return true;
    return false;
}

static bool form_is_copied_whole(const muster_function *function, int64_t input) {
    return function->inputs[input].mode == MUSTER_BROADCAST && function->plan.forms[input] == MST_FORM_COPY &&
           form_is_read_on_host(function, input);
}

void mst_forms_choose(muster_function *function) {
    mst_plan *plan = &function->plan;
    plan->copies_whole = false;
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        const bool listed = port->mode == MUSTER_SCATTER && !plan->packed[i] && plan->batch.kind == MUSTER_SELECT_LIST;
        plan->forms[i] = listed ? MST_FORM_LIST : form_of(&plan->inputs[i], port->strided);
        plan->copies_whole |= form_is_copied_whole(function, i);
    }
    /* bodies write a reduced output where it lies only if it is contiguous */
    for (int64_t i = 0; i < function->output_count; i++)
        plan->forms[function->input_count + i] =
            form_of(&plan->outputs[i], function->outputs[i].mode == MUSTER_GATHER && function->outputs[i].strided);
}

muster_status mst_wholes_reserve(const mst_call *call, const char *where) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->input_count; i++)
        if (form_is_copied_whole(function, i))
            MUSTER_TRY(mst_host_store_reserve(&function->wholes[i], mst_tensor_bytes(function->plan.inputs[i]), where));
    return MUSTER_OK;
}

muster_status mst_wholes_copy(const mst_call *call, const char *where) {
    const muster_function *function = call->function;
    mst_recorder *recorder = &mst_pool_worker(function->object.runtime->pool, 0)->recorder;
    MUSTER_TRY(mst_wholes_reserve(call, where));
    for (int64_t i = 0; i < function->input_count; i++) {
        if (!form_is_copied_whole(function, i)) continue;
        muster_tensor source = function->plan.inputs[i];
        source.data = function->plan.addresses[i];
        source.byte_offset = 0;
        const uint64_t event = mst_record_begin(recorder, MST_EVENT_STAGE, "copy of a strided input", 0, mst_tensor_bytes(source));
        mst_tensor_pack(function->wholes[i].address, source);
        mst_record_end(recorder, event);
    }
    return MUSTER_OK;
}
