/* Do the processes make the same call? What each passes is compared as one number, and where these
 * differ, argument by argument for the message. */
#include "processes_private.h"

#include "hash_impl.h"
#include "tensors_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the signature ---- */

uint64_t mst_processes_name_hash(const muster_function *function) {
    const char *name = mst_function_name(function);
    return mst_hash_bytes(MST_HASH_START, name, (int64_t)strlen(name));
}

/* What all processes must pass alike: not the rows of their own. */
static uint64_t add_tensor(uint64_t hash, const muster_tensor *tensor, bool by_rows) {
    hash = mst_hash_number(hash, tensor->dtype);
    for (int32_t d = by_rows ? 1 : 0; tensor->dtype != MUSTER_DTYPE_NONE && d < tensor->ndim; d++)
        hash = mst_hash_number(hash, tensor->shape[d]);
    return hash;
}

bool mst_processes_input_by_rows(const mst_port *port) { return port->ways != MUSTER_SOURCE_ALL && port->mode != MUSTER_BROADCAST; }
static bool output_by_rows(const mst_port *port) { return port->ways != MUSTER_TARGET_ALL && port->mode == MUSTER_GATHER; }

/* Each process may have a batch of its own where it has rows of its own. */
static bool batches_differ(const muster_function *function) {
    bool differ = false;
    for (int64_t i = 0; i < function->input_count; i++) differ |= function->inputs[i].ways == MUSTER_SOURCE_OWN;
    return differ;
}

static uint64_t add_contents(uint64_t hash, muster_tensor tensor) {
    if (tensor.device != MUSTER_DEVICE_HOST) return hash;
    if (tensor.ndim == 0 || mst_tensor_contiguous(tensor))
        return mst_hash_bytes(hash, muster_tensor_address(tensor), mst_tensor_bytes(tensor));
    for (int64_t r = 0; r < tensor.shape[0]; r++) {
        muster_tensor row = muster_tensor_slice(tensor, r, r + 1);
        for (int32_t d = 0; d + 1 < row.ndim; d++) row.shape[d] = row.shape[d + 1], row.strides[d] = row.strides[d + 1];
        row.ndim--;
        hash = add_contents(hash, row);
    }
    return hash;
}

/* What the programs have said of the function. */
static uint64_t add_description(uint64_t hash, const muster_function *function) {
    for (int64_t i = 0; i < function->input_count + function->output_count; i++) {
        const mst_port *port = i < function->input_count ? &function->inputs[i] : &function->outputs[i - function->input_count];
        hash = mst_hash_number(mst_hash_number(hash, port->hash), (int64_t)port->mode << 32 | port->ways);
    }
    for (int64_t i = 0; i < function->use_count; i++) {
        const mst_use *use = &function->uses[i];
        const char *name = use->variable->object.name;
        if (name) hash = mst_hash_bytes(hash, name, (int64_t)strlen(name));
        hash = mst_hash_number(mst_hash_number(hash, use->mode), use->read | use->sliceable << 1 | use->written << 2 | use->updated << 3);
    }
    return hash;
}

/* The rows that lists name are compared where it is asked for, as contents are. */
static uint64_t add_selection(uint64_t hash, const muster_selection *selection, bool checks) {
    hash = mst_hash_number(mst_hash_number(hash, selection->kind), selection->index_count);
    if (checks && selection->kind == MUSTER_SELECT_LIST)
        hash = mst_hash_bytes(hash, selection->indices, selection->index_count * (int64_t)sizeof *selection->indices);
    return mst_hash_number(mst_hash_number(hash, selection->start), selection->stop);
}

uint64_t mst_processes_signature(const muster_function *function, const mst_arguments *arguments, bool planned) {
    const mst_plan *plan = &function->plan;
    const muster_call_options *options = arguments->options;
    uint64_t hash = mst_hash_number(mst_processes_name_hash(function), arguments->single);
    const bool checks = function->object.runtime->checks;
    if (!planned) return hash;
    hash = add_description(hash, function);
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        hash = add_tensor(hash, &arguments->inputs[i], mst_processes_input_by_rows(port));
        if (port->ways == MUSTER_SOURCE_ALL && checks) hash = add_contents(hash, arguments->inputs[i]);
    }
    for (int64_t i = 0; i < function->output_count; i++) {
        const mst_port *port = &function->outputs[i];
        hash = add_tensor(hash, &arguments->outputs[i], output_by_rows(port));
    }
    hash = mst_hash_number(mst_hash_number(hash, plan->count), options->slices);
    hash = mst_hash_number(hash, options->replica_batch_count);
    for (int64_t i = 0; checks && i < options->replica_batch_count; i++) hash = add_selection(hash, &options->replica_batch[i], checks);
    return batches_differ(function) ? hash : add_selection(hash, &options->batch, checks);
}

/* ---- the arguments, one by one ---- */

/* "(rows, 3) f32", where each process has rows of its own; else "(4, 3) f32" */
static void add_tensor_detail(mst_round_details *details, const char *label, const muster_tensor *tensor, bool by_rows) {
    char shape[128], *inside = shape + 1;
    if (tensor->dtype == MUSTER_DTYPE_NONE) {
        mst_round_detail(details, label, "not wanted");
        return;
    }
    mst_shape_text(shape, tensor->ndim, tensor->shape);
    const char *rest = by_rows ? strpbrk(inside, ",)") : NULL;
    mst_round_detail(details, label, "%s%s %s", rest ? "(rows" : "", rest ? rest : shape, muster_dtype_name(tensor->dtype));
}

static const char *port_label(char label[MST_DETAIL_LABEL], const char *kind, const mst_port *port) {
    snprintf(label, MST_DETAIL_LABEL, "%s '%.40s'", kind, port->name);
    return label;
}

static void add_port_details(mst_round_details *details, const muster_function *function, const mst_arguments *arguments, bool checks) {
    char label[MST_DETAIL_LABEL];
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        add_tensor_detail(details, port_label(label, "input", port), &arguments->inputs[i], mst_processes_input_by_rows(port));
        if (port->ways == MUSTER_SOURCE_ALL && checks)
            mst_round_hash_detail(details, port_label(label, "the values of input", port),
                                  add_contents(MST_HASH_START, arguments->inputs[i]));
    }
    for (int64_t i = 0; i < function->output_count; i++) {
        const mst_port *port = &function->outputs[i];
        add_tensor_detail(details, port_label(label, "output", port), &arguments->outputs[i], output_by_rows(port));
    }
}

/* What the signature has, and no more: the rest may differ. In the order in which a user thinks of
 * it: the tensors, the options, the description. */
void mst_processes_details(const void *context, mst_round_details *details) {
    const muster_function *function = ((const mst_processes_passed *)context)->function;
    const mst_arguments *arguments = ((const mst_processes_passed *)context)->arguments;
    const muster_call_options *options = arguments->options;
    const bool checks = function->object.runtime->checks;
    add_port_details(details, function, arguments, checks);
    mst_round_detail(details, "options.slices", "%" PRId64, options->slices);
    if (!batches_differ(function)) mst_selection_details(details, "options.batch", &options->batch, checks);
    mst_round_detail(details, "options.replica_batch_count", "%d", (int)options->replica_batch_count);
    for (int32_t i = 0; checks && i < options->replica_batch_count; i++)
        mst_selection_details(details, "options.replica_batch", &options->replica_batch[i], checks);
    mst_round_detail(details, "the number of rows", "%" PRId64, function->plan.count);
    mst_round_hash_detail(details, "the inputs, outputs and variables of the function", add_description(MST_HASH_START, function));
}
