/* Outputs of a call need memory of their own: workers write them while other workers still read
 * the inputs. */
#include "call_private.h"

/* No: an output that the call does not want. */
static bool has_bytes(const muster_tensor *tensor) { return tensor->dtype != MUSTER_DTYPE_NONE; }

/* Most pairs are apart by far; only where the ranges of their bytes overlap are the views compared
 * element by element. */
static bool ranges_overlap(const muster_tensor *a, mst_span span_a, const muster_tensor *b, mst_span span_b) {
    const uintptr_t at_a = (uintptr_t)muster_tensor_address(*a), at_b = (uintptr_t)muster_tensor_address(*b);
    return at_a + (uintptr_t)span_a.low < at_b + (uintptr_t)span_b.high && at_b + (uintptr_t)span_b.low < at_a + (uintptr_t)span_a.high;
}

static __attribute__((cold)) muster_status refuse_alias(const muster_function *function, const char *where, int64_t output,
                                                        const char *kind, const mst_port *other) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: output '%s' of function '%s' overlaps %s '%s' in memory: expected memory of its own",
                     where, function->outputs[output].name, mst_function_name(function), kind, other->name);
}

/* Compares output `output` with all inputs and with the outputs before it. */
static muster_status check_output_alias(const muster_function *function, const char *where, const muster_tensor *inputs,
                                        const muster_tensor *outputs, const mst_span *spans, int64_t output) {
    const int64_t input_count = function->input_count;
    const muster_tensor *view = &outputs[output];
    const mst_span span = spans ? spans[input_count + output] : mst_tensor_span(view);
    for (int64_t i = 0; i < input_count + output; i++) {
        const muster_tensor *other = i < input_count ? &inputs[i] : &outputs[i - input_count];
        if (!has_bytes(other)) continue;
        if (!ranges_overlap(view, span, other, spans ? spans[i] : mst_tensor_span(other)) || !mst_tensors_overlap(view, other)) continue;
        const bool input = i < input_count;
        return refuse_alias(function, where, output, input ? "input" : "output",
                            input ? &function->inputs[i] : &function->outputs[i - input_count]);
    }
    return MUSTER_OK;
}

muster_status mst_call_check_aliases(const muster_function *function, const char *where, const muster_tensor *inputs,
                                     const muster_tensor *outputs, const mst_span *spans) {
    for (int64_t i = 0; i < function->output_count; i++)
        if (has_bytes(&outputs[i])) MUSTER_TRY(check_output_alias(function, where, inputs, outputs, spans, i));
    return MUSTER_OK;
}
