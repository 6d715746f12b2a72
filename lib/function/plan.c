/* Checks a call and plans it. All errors that can be detected before the run are detected here,
 * before any worker starts. */
#include "call_private.h"
#include "options_impl.h"
#include "place_private.h"
#include "processes_private.h"

#include <stddef.h>
#include <string.h>

enum {
    PARALLEL_COMBINE_BYTES = 64 << 10
}; /* for smaller outputs a barrier costs more than combining by one thread, which reads every part */

const muster_call_options mst_call_options_default = {.struct_size = sizeof mst_call_options_default, .slices = 1};

static muster_status plan_check_tensor(const muster_function *function, const mst_port *port, muster_tensor tensor, const char *kind,
                                       const char *where) {
    char what[160];
    snprintf(what, sizeof what, "%s '%s' of function '%s'", kind, port->name, mst_function_name(function));
    MUSTER_TRY(mst_tensor_check(tensor, where, what));
    if (tensor.dtype != port->dtype) {
        const bool hints = function->dtype_hint && *kind == 'o';
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected %s, received %s%s", where, what, muster_dtype_name(port->dtype),
                         muster_dtype_name(tensor.dtype), hints ? function->dtype_hint : "");
    }
    if (tensor.ndim != port->ndim)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %d dimensions, received %d", where, what, (int)port->ndim,
                         (int)tensor.ndim);
    const int32_t size = function->object.runtime->size;
    if (tensor.device != MUSTER_DEVICE_HOST && (tensor.device < 0 || tensor.device >= size))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: %s: expected memory of the host or of a device from 0 to %d, received memory of device %d", where, what,
                         (int)size - 1, (int)tensor.device);
    return MUSTER_OK;
}

static muster_status check_batch(const muster_function *function, const char *where, const mst_port *port, const muster_selection *batch,
                                 int64_t rows, int64_t *count) {
    const muster_status status = mst_selection_check(batch, rows, where, "options: batch", count);
    if (status == MUSTER_OK) return MUSTER_OK;
    return mst_error(status, "%s, for input '%s' of function '%s'", muster_last_error(), port->name, mst_function_name(function));
}

/* The number of selected rows. Every scattered input must have as many rows as are selected, every
 * minibatch input exactly as many. */
static muster_status check_rows(const muster_function *function, const char *where, const muster_tensor *inputs,
                                const muster_selection *batch, int64_t *count) {
    const mst_port *first = NULL;
    int64_t first_rows = 0;
    *count = -1;
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        const int64_t rows = inputs[i].shape[0];
        if (port->mode != MUSTER_SCATTER) continue;
        if (first && batch->kind == MUSTER_SELECT_ALL && rows != first_rows)
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s: input '%s' of function '%s': expected %lld rows as input '%s' has, received %lld",
                             where, port->name, mst_function_name(function), (long long)first_rows, first->name, (long long)rows);
        if (batch->kind == MUSTER_SELECT_ALL)
            *count = rows;
        else
            MUSTER_TRY(check_batch(function, where, port, batch, rows, count));
        if (!first) first = port, first_rows = rows;
    }
    if (*count < 0 && batch->kind != MUSTER_SELECT_ALL)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: batch: function '%s' has no scattered full-size input to choose rows from", where,
                         mst_function_name(function));
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        if (port->mode != MUSTER_MINIBATCH) continue;
        if (*count < 0) *count = inputs[i].shape[0];
        if (inputs[i].shape[0] != *count)
            return mst_error(MUSTER_SHAPE_MISMATCH,
                             "%s: minibatch input '%s' of function '%s': expected the %lld selected rows, received %lld", where, port->name,
                             mst_function_name(function), (long long)*count, (long long)inputs[i].shape[0]);
    }
    return MUSTER_OK;
}

/* Also valid before sealing. */
static bool has_shards_apart(const muster_function *function) {
    return function->object.runtime->logical_shards && !function->shards_together;
}

static muster_status plan_check_replica_batch(const muster_function *function, const char *where, const muster_call_options *options) {
    const muster_runtime *runtime = function->object.runtime;
    const int32_t size = has_shards_apart(function) ? runtime->logical_shards
                         : runtime->nodes           ? mst_nodes_total(runtime->nodes)
                                                    : runtime->size;
    if (options->replica_batch_count == 0) return MUSTER_OK;
    if (!function->slices_variables)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: replica_batch: expected none for function '%s', which has no sliceable variables, received %d selections",
                         where, mst_function_name(function), (int)options->replica_batch_count);
    if (!options->replica_batch || (options->replica_batch_count != 1 && options->replica_batch_count != size))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: replica_batch: expected one selection or one for each of the %d %s, received %d",
                         where, (int)size, has_shards_apart(function) ? "shards" : "workers",
                         options->replica_batch ? (int)options->replica_batch_count : 0);
    for (int32_t r = 1; r < options->replica_batch_count; r++)
        if (options->replica_batch[r].kind != options->replica_batch[0].kind)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: replica_batch: expected selections of one kind, received kind %d for rank 0 and kind %d for rank %d",
                             where, (int)options->replica_batch[0].kind, (int)options->replica_batch[r].kind, (int)r);
    return MUSTER_OK;
}

/* The number of rows that the sliceable variables have for a shard of `rank`. If no input is
 * scattered, all of them must agree. */
static muster_status check_variable_rows(const muster_function *function, const char *where, const muster_call_options *options,
                                         int32_t rank, int32_t shard, int64_t *rows) {
    const mst_use *first = NULL;
    const muster_selection *chosen =
        options->replica_batch_count ? &options->replica_batch[options->replica_batch_count == 1 ? 0 : shard] : NULL;
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_use *use = &function->uses[u];
        if (!use->sliceable) continue;
        int64_t count = use->variable->replicas[rank].shape[0];
        char what[160];
        snprintf(what, sizeof what, "replica_batch of rank %d, variable '%s'", (int)rank, use->variable->object.name);
        if (chosen) MUSTER_TRY(mst_selection_check(chosen, count, where, what, &count));
        if (first && !function->scatters && count != *rows)
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s: variable '%s': expected %lld rows on rank %d as variable '%s' has, received %lld",
                             where, use->variable->object.name, (long long)*rows, (int)rank, first->variable->object.name,
                             (long long)count);
        if (!first) first = use, *rows = count;
    }
    return MUSTER_OK;
}

muster_status mst_plan_variable_rows(const mst_call *call, const char *where, const muster_call_options *options, mst_own_rows *rows) {
    MUSTER_TRY(plan_check_replica_batch(call->function, where, options));
    *rows = (mst_own_rows){0, -1, 0};
    for (int32_t s = 0; s < call->shard_count; s++) {
        int64_t count = 0;
        MUSTER_TRY(check_variable_rows(call->function, where, options, s / mst_call_shards_per_rank(call), call->first_shard + s, &count));
        rows->own_count += count;
        rows->contributors += count > 0;
    }
    return MUSTER_OK;
}

/* Distributes the rows over the logical shards: the rows of the scattered inputs; without scattered
 * inputs, the rows of the sliceable variables; without either, one row for each worker or logical
 * shard. */
static muster_status plan_shards(mst_call *call, const char *where, const muster_call_options *options, int64_t count) {
    muster_function *function = call->function;
    mst_plan *plan = &function->plan;
    const mst_call_rows edges = mst_call_is_joint(call) ? mst_processes_rows(call, count) : (mst_call_rows){0, count, 0, call->shard_count};
    int64_t next = edges.first;
    plan->contributors = 0;
    plan->master = -1;
    for (int32_t s = 0; s < call->shard_count; s++) {
        mst_logical_shard *shard = &call->shards[s];
        int64_t rows = call->shards_each ? call->shards_each : 1;
        if (function->slices_variables)
            MUSTER_TRY(check_variable_rows(function, where, options, s / mst_call_shards_per_rank(call), call->first_shard + s, &rows));
        if (function->scatters) {
            next = edges.first + mst_edge(edges.count, edges.shards, edges.shard + s);
            rows = edges.first + mst_edge(edges.count, edges.shards, edges.shard + s + 1) - next;
        }
        shard->first_row = next;
        shard->rows = rows;
        shard->contributes = rows > 0 || function->counts_without_rows;
        shard->runs = rows > 0 || function->runs_without_rows;
        plan->contributors += shard->contributes;
        if (shard->runs && plan->master < 0) plan->master = s;
        next += rows;
    }
    plan->first_row = call->shards[0].first_row;
    plan->own_rows = next - plan->first_row;
    plan->count = next;
    plan->total_contributors = plan->contributors;
    plan->master_process = plan->master < 0 ? -1 : 0;
    if (mst_call_is_joint(call)) mst_processes_plan(call, &edges);
    return MUSTER_OK;
}

/* What can be checked of an output before the rows are distributed. */
static muster_status check_output_tensor(const muster_function *function, const mst_port *port, muster_tensor tensor, const char *where) {
    MUSTER_TRY(plan_check_tensor(function, port, tensor, "output", where));
    if (!mst_tensor_contiguous(tensor) && mst_tensor_repeats(&tensor))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: output '%s' of function '%s': expected an address of its own for every element, received a view with "
                         "several elements at one address",
                         where, port->name, mst_function_name(function));
    return MUSTER_OK;
}

/* Rows that only the bodies know are counted behind the run. With several processes a tensor may
 * hold the rows of one of them. */
static muster_status check_output_rows(const muster_function *function, const mst_port *port, muster_tensor tensor, int64_t rows,
                                       const char *where) {
    if (!port->has_rows || !function->scatters || function->object.runtime->nodes || tensor.shape[0] == rows) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: output '%s' of function '%s': expected %lld rows, as the call has, received %lld", where,
                     port->name, mst_function_name(function), (long long)rows, (long long)tensor.shape[0]);
}

static muster_status check_output(const mst_call *call, const mst_port *port, muster_tensor tensor, const char *where) {
    const muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    MUSTER_TRY(check_output_tensor(function, port, tensor, where));
    if (port->mode == MUSTER_MASTER && plan->master_process < 0)
        return mst_error(MUSTER_UNSUPPORTED, "%s: output '%s' of function '%s': the master's value over no rows is refused", where,
                         port->name, mst_function_name(function));
    if (plan->total_contributors == 0 && (port->mode == MUSTER_MAX || port->mode == MUSTER_MIN || port->mode == MUSTER_AVG))
        return mst_error(MUSTER_UNSUPPORTED, "%s: output '%s' of function '%s': the %s over no rows is refused", where, port->name,
                         mst_function_name(function), mst_reduction_name(port->mode));
    return MUSTER_OK;
}

static bool is_unwanted(muster_tensor output) { return mst_tensor_absent(&output); }

static muster_status check_outputs(const mst_call *call, const mst_arguments *arguments) {
    const char *where = arguments->where;
    const muster_tensor *outputs = arguments->outputs;
    muster_buffer *const *buffers = arguments->options->output_buffers;
    muster_function *function = call->function;
    function->plan.parallel = false;
    for (int64_t i = 0; i < function->output_count; i++) {
        const mst_port *port = &function->outputs[i];
        if (is_unwanted(outputs[i])) continue;
        MUSTER_TRY(check_output(call, port, outputs[i], where));
        if (!buffers || !buffers[i]) MUSTER_TRY(check_output_rows(function, port, outputs[i], function->plan.count, where));
        function->plan.parallel |=
            port->mode < MUSTER_GATHER && mst_tensor_bytes(outputs[i]) >= PARALLEL_COMBINE_BYTES && mst_tensor_contiguous(outputs[i]);
    }
    return MUSTER_OK;
}

static muster_status check_slices(const muster_function *function, const char *where, int64_t slices) {
    if (slices < 1)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: slices: expected at least 0 (0 means 1), received %lld", where, (long long)slices);
    if (slices > 1 && !function->scatters && !function->slices_variables)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: slices: expected 1 for function '%s', which has nothing to slice, received %lld",
                         where, mst_function_name(function), (long long)slices);
    if (slices > 1 && function->shards_together && function->object.runtime->logical_shards)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: slices: function '%s' runs its shards together, which a slice would cut apart: expected 1, received %lld",
                         where, mst_function_name(function), (long long)slices);
    return MUSTER_OK;
}

/* Every rank runs the body at most once, on a host device, without variables, and no rows are
 * copied. Gathered rows go to their places, unless the body says otherwise. */
static bool plan_is_repeatable(const mst_call *call, const muster_call_options *options) {
    const muster_function *function = call->function;
    const mst_plan *plan = &function->plan;
    for (int64_t i = 0; i < function->output_count; i++)
        if (function->outputs[i].mode == MUSTER_GATHER && mst_wanted(plan, i) && plan->outputs[i].shape[0] != plan->count) return false;
    for (int64_t i = 0; i < function->input_count; i++)
        if (plan->forms[i] == MST_FORM_COPY) return false;
    for (int64_t i = 0; i < function->output_count; i++)
        if (function->outputs[i].mode == MUSTER_GATHER && plan->forms[function->input_count + i] == MST_FORM_COPY) return false;
    if (function->processes) return false;
    return options->slices == 1 && !options->output_buffers && options->batch.kind != MUSTER_SELECT_LIST && !function->on_devices &&
           !function->use_count && !call->shards_each && !plan->parallel;
}

/* The address is set after the span, which is the caller's. */
static muster_status plan_keep_tensor(muster_function *function, const char *where, int64_t index, muster_tensor *planned) {
    mst_plan *plan = &function->plan;
    plan->spans[index] = mst_tensor_span(planned);
    if (planned->dtype != MUSTER_DTYPE_NONE && planned->device != MUSTER_DEVICE_HOST)
        MUSTER_TRY(mst_place_check(function, where, index, planned));
    plan->addresses[index] = muster_tensor_address(*planned);
    return MUSTER_OK;
}

/* Keeps the tensors of a call that has been checked. */
static muster_status plan_keep_tensors(muster_function *function, const mst_arguments *arguments) {
    mst_plan *plan = &function->plan;
    const int64_t inputs = function->input_count;
    mst_places_reset(plan);
    for (int64_t i = 0; i < inputs; i++) {
        plan->inputs[i] = arguments->inputs[i];
        MUSTER_TRY(plan_keep_tensor(function, arguments->where, i, &plan->inputs[i]));
    }
    for (int64_t i = 0; i < function->output_count; i++) {
        plan->outputs[i] = is_unwanted(arguments->outputs[i]) ? muster_tensor_none() : arguments->outputs[i];
        MUSTER_TRY(plan_keep_tensor(function, arguments->where, inputs + i, &plan->outputs[i]));
    }
    return mst_call_check_aliases(function, arguments->where, arguments->inputs, arguments->outputs, plan->spans);
}

static muster_status plan_fill(muster_function *function, const mst_arguments *arguments) {
    const char *where = arguments->where;
    const muster_call_options *options = arguments->options;
    mst_plan *plan = &function->plan;
    mst_call *call = arguments->single ? &function->single : &function->together;
    int64_t count = 0;
    plan->valid = false;
    MUSTER_TRY(check_slices(function, where, options->slices));
    for (int64_t i = 0; i < function->input_count; i++)
        MUSTER_TRY(plan_check_tensor(function, &function->inputs[i], arguments->inputs[i], "input", where));
    /* what has been counted is checked already, and `inputs` holds only rows of this process */
    if (!mst_call_is_joint(call) || !mst_processes_are_counted(function))
        MUSTER_TRY(check_rows(function, where, arguments->inputs, &options->batch, &count));
    MUSTER_TRY(plan_check_replica_batch(function, where, options));
    MUSTER_TRY(plan_shards(call, where, options, count));
    MUSTER_TRY(check_outputs(call, arguments));
    MUSTER_TRY(plan_keep_tensors(function, arguments));
    plan->single = arguments->single;
    for (int32_t r = call->size; r < function->together.size; r++) function->ranks[r].body.weight = 0; /* they do not run */
    plan->by_default = options == &mst_call_options_default;
    plan->batch = options->batch;
    plan->replica_batch = options->replica_batch;
    plan->replica_batch_count = options->replica_batch_count;
    plan->slices = options->slices;
    plan->parallel &= call->size > 1 && plan->contributors > 1 && !mst_call_is_joint(call);
    mst_forms_choose(function);
    plan->repeatable = plan_is_repeatable(call, options);
    plan->number++;
    /* An index list may change behind the same pointer, and variables change between calls. A
     * tensor of a device may be destroyed, and another one get its memory. */
    plan->buffers = options->output_buffers;
    plan->valid = !function->slices_variables && options->batch.kind != MUSTER_SELECT_LIST && !plan->on_device && !function->processes &&
                  !plan->buffers;
    plan->warn_after_ns = options->warn_after_ns;
    plan->fail_after_ns = options->fail_after_ns;
    plan->readies = function->on_devices || plan->copies_whole || plan->warn_after_ns || plan->fail_after_ns;
    return MUSTER_OK;
}

/* cold: so that the checks before it stay inline in every call. */
static __attribute__((cold)) muster_status plan_refuse_counts(const muster_function *function, const char *where, const char *what,
                                                              const char *what_count, int64_t expected, int32_t received) {
    if (received == expected)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected the %lld of function '%s', received NULL", where, what,
                         (long long)expected, mst_function_name(function));
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected the %lld of function '%s', received %d", where, what_count,
                     (long long)expected, mst_function_name(function), (int)received);
}

static inline muster_status plan_check_counts(const muster_function *function, const char *where, const muster_tensor *inputs,
                                              int32_t input_count, const muster_tensor *outputs, int32_t output_count) {
    if (input_count != function->input_count || (input_count && !inputs))
        return plan_refuse_counts(function, where, "inputs", "input_count", function->input_count, input_count);
    if (output_count != function->output_count || (output_count && !outputs))
        return plan_refuse_counts(function, where, "outputs", "output_count", function->output_count, output_count);
    return MUSTER_OK;
}

muster_status mst_call_options_read(const char *where, const muster_call_options *given, muster_call_options *options) {
    MUSTER_TRY(mst_options_read(where, "muster_call_options", given, options, sizeof *options));
    MUSTER_TRY(mst_options_check_reserved(where, options->reserved));
    if (options->batch.reserved != 0) /* also where nothing selects by it */
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: batch: reserved: expected 0, received %d", where,
                         (int)options->batch.reserved);
    int64_t rows;
    if (options->batch.kind == MUSTER_SELECT_ALL) MUSTER_TRY(mst_selection_check(&options->batch, 0, where, "options: batch", &rows));
    if (options->replica_batch && options->replica_batch_count == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: replica_batch: expected NULL or replica_batch_count 1 or more, received count 0", where);
    if (options->queue_timeout_ns < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: queue_timeout_ns: expected 0 (for ever) or more, received %lld", where,
                         (long long)options->queue_timeout_ns);
    if (options->slices == 0) options->slices = 1;
    return MUSTER_OK;
}

muster_status mst_plan_check(const muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                             const muster_tensor *outputs, int32_t output_count, const muster_call_options *given,
                             muster_call_options *options) {
    int64_t count;
    MUSTER_TRY(plan_check_counts(function, where, inputs, input_count, outputs, output_count));
    MUSTER_TRY(mst_call_options_read(where, given, options));
    MUSTER_TRY(check_slices(function, where, options->slices));
    MUSTER_TRY(mst_output_buffers_check(function, where, outputs, options->output_buffers));
    if (function->object.runtime->nodes && mst_processes_are_counted(function)) return MUSTER_OK; /* the round of counts checks it */
    for (int64_t i = 0; i < input_count; i++) MUSTER_TRY(plan_check_tensor(function, &function->inputs[i], inputs[i], "input", where));
    MUSTER_TRY(check_rows(function, where, inputs, &options->batch, &count));
    MUSTER_TRY(plan_check_replica_batch(function, where, options));
    for (int64_t i = 0; i < output_count; i++)
        if (!is_unwanted(outputs[i])) {
            MUSTER_TRY(check_output_tensor(function, &function->outputs[i], outputs[i], where));
            MUSTER_TRY(check_output_rows(function, &function->outputs[i], outputs[i], count, where));
        }
    return mst_call_check_aliases(function, where, inputs, outputs, NULL);
}

muster_status mst_plan_check_arguments(const muster_function *function, const mst_arguments *arguments) {
    return plan_check_counts(function, arguments->where, arguments->inputs, arguments->input_count, arguments->outputs,
                             arguments->output_count);
}

muster_status mst_plan_input_rows(const muster_function *function, const char *where, int64_t input, muster_tensor tensor,
                                  const muster_selection *batch, int64_t *rows) {
    const mst_port *port = &function->inputs[input];
    MUSTER_TRY(plan_check_tensor(function, port, tensor, "input", where));
    *rows = tensor.ndim ? tensor.shape[0] : 0;
    return port->mode == MUSTER_SCATTER && batch->kind != MUSTER_SELECT_ALL ? check_batch(function, where, port, batch, *rows, rows)
                                                                            : MUSTER_OK;
}

muster_status mst_plan_make(muster_function *function, const mst_arguments *arguments) {
    MUSTER_TRY(mst_plan_check_arguments(function, arguments));
    if (!function->sealed) MUSTER_TRY(mst_function_seal(function, arguments->where));
    if (!arguments->options->output_buffers) return plan_fill(function, arguments);
    mst_arguments with;
    MUSTER_TRY(mst_output_buffers_put(function, arguments, &with));
    return plan_fill(function, &with);
}

void muster_call_options_init_sized(muster_call_options *options, size_t size) { mst_options_init(options, size); }
