/* Seals a function when its description is complete: refuses what the reproducible mode cannot
 * hold, and allocates the arrays for calls. */
#include "place_private.h"
#include "processes_private.h"

/* ---- the end ---- */

static void function_free_part(mst_device *device, mst_part *part) {
    mst_device_store_free(device, &part->value);
    mst_device_store_free(device, &part->sum);
    mst_locked_store_free(device, &part->host);
    mst_host_store_free(&part->overflow);
}

static void function_free_rank(muster_function *function, int32_t r) {
    mst_rank *rank = &function->ranks[r];
    mst_device *device = function->object.runtime->devices[r];
    for (int64_t i = 0; rank->staged && i < MST_CHUNKS * function->input_count; i++) mst_device_store_free(device, &rank->staged[i]);
    for (int32_t c = 0; c < MST_CHUNKS; c++) {
        mst_device_event_destroy(rank->come[c]);
        mst_device_event_destroy(rank->used[c]);
    }
    for (int64_t i = 0; rank->pinned_bounce && i < MST_CHUNKS * function->input_count; i++)
        mst_locked_store_free(device, &rank->pinned_bounce[i]);
    for (int64_t i = 0; rank->updates && i < function->use_count; i++) function_free_part(device, &rank->updates[i]);
    for (int64_t i = 0; rank->gathered_rows && i < function->use_count; i++) mst_device_store_free(device, &rank->gathered_rows[i]);
    for (int64_t i = 0; rank->lists && i < function->use_count; i++) mst_device_store_free(device, &rank->lists[i]);
    mst_free(rank->in);
    mst_free(rank->out);
    mst_free(rank->kept_out);
    mst_free(rank->staged);
    mst_free(rank->pinned_bounce);
    mst_free(rank->updates);
    mst_free(rank->gathered_rows);
    mst_free(rank->lists);
    mst_free(rank->views);
    *rank = (mst_rank){0};
}

static void function_free_shards(muster_function *function, mst_logical_shard *shards, int32_t count, int32_t ranks) {
    for (int32_t s = 0; shards && s < count; s++) {
        mst_device *device = function->object.runtime->devices[s / (count / ranks)];
        for (int64_t i = 0; shards[s].parts && i < function->output_count; i++) function_free_part(device, &shards[s].parts[i]);
        mst_free(shards[s].parts);
    }
    mst_free(shards);
}

/* Frees everything that sealing allocated; the description stays. */
void mst_function_unseal(muster_function *function) {
    for (int32_t r = 0; function->ranks && r < function->object.runtime->size; r++) function_free_rank(function, r);
    function_free_shards(function, function->shards, function->together.shard_count, function->together.size);
    function_free_shards(function, function->master_shards, function->single.shard_count, 1);
    for (int64_t i = 0; function->results && i < function->output_count; i++) mst_host_store_free(&function->results[i]);
    mst_free(function->ranks);
    mst_free(function->plan.inputs);
    mst_free(function->plan.outputs);
    mst_free(function->plan.addresses);
    mst_free(function->plan.spans);
    mst_free(function->plan.reduced);
    for (int64_t i = 0; function->wholes && i < function->input_count; i++) mst_host_store_free(&function->wholes[i]);
    mst_free(function->wholes);
    mst_free(function->plan.forms);
    mst_free(function->plan.parts);
    mst_free(function->plan.packed);
    mst_processes_free(function);
    mst_places_free(function);
    mst_free(function->named);
    mst_free(function->named_buffers);
    mst_free(function->filled);
    mst_free(function->results);
    function->ranks = NULL;
    function->shards = function->master_shards = NULL;
    function->plan = (mst_plan){0};
    function->named = NULL;
    function->named_buffers = NULL;
    function->filled = NULL;
    function->results = function->wholes = NULL;
}

/* ---- the arrays for calls ---- */

/* Allocates the arrays that a rank needs in calls. */
static muster_status function_seal_rank(muster_function *function, mst_rank *rank) {
    const size_t inputs = (size_t)function->input_count, outputs = (size_t)function->output_count, uses = (size_t)function->use_count;
    rank->in = mst_alloc(inputs * sizeof *rank->in);
    rank->out = mst_alloc(outputs * sizeof *rank->out);
    rank->kept_out = mst_alloc(outputs * sizeof *rank->kept_out);
    rank->staged = mst_alloc(MST_CHUNKS * inputs * sizeof *rank->staged);
    rank->pinned_bounce = mst_alloc(MST_CHUNKS * inputs * sizeof *rank->pinned_bounce);
    rank->updates = mst_alloc(uses * sizeof *rank->updates);
    rank->gathered_rows = mst_alloc(uses * sizeof *rank->gathered_rows);
    rank->lists = mst_alloc(uses * sizeof *rank->lists);
    rank->views = mst_alloc(uses * sizeof *rank->views);
    if (rank->in && rank->out && rank->kept_out && rank->staged && rank->pinned_bounce && rank->updates && rank->gathered_rows &&
        rank->lists && rank->views)
        return MUSTER_OK;
    return mst_out_of_memory("muster_function_call: the plan of the function",
                             (int64_t)(inputs + outputs + uses) * (int64_t)sizeof(mst_part));
}

static muster_status function_seal_shards(const muster_function *function, int32_t count, mst_logical_shard **shards) {
    *shards = mst_alloc((size_t)count * sizeof **shards);
    if (!*shards)
        return mst_out_of_memory("muster_function_call: the logical shards of the function", (int64_t)count * (int64_t)sizeof **shards);
    for (int32_t s = 0; s < count; s++) {
        (*shards)[s].parts = mst_alloc((size_t)function->output_count * sizeof(mst_part));
        if (!(*shards)[s].parts)
            return mst_out_of_memory("muster_function_call: the logical shards of the function",
                                     function->output_count * (int64_t)sizeof(mst_part));
    }
    return MUSTER_OK;
}

/* Without logical shards, or with a body that takes its shards together, each rank runs the body
 * for one shard. Otherwise it does so for each of its logical shards. */
static muster_status function_seal_calls(muster_function *function) {
    const muster_runtime *runtime = function->object.runtime;
    const int32_t size = runtime->size, logical_shards = runtime->logical_shards;
    const int32_t total = runtime->nodes ? mst_nodes_total(runtime->nodes) : size,
                  first_rank = runtime->nodes ? mst_nodes_first(runtime->nodes) : 0;
    const bool apart = logical_shards && !function->shards_together;
    const int32_t each = logical_shards / total, per_rank = apart ? each : 1;
    function->together = (mst_call){.function = function,
                                    .size = size,
                                    .shard_count = per_rank * size,
                                    .total_shards = per_rank * total,
                                    .first_shard = per_rank * first_rank,
                                    .shards_each = apart ? 1 : each};
    function->single = (mst_call){.function = function,
                                  .size = 1,
                                  .shard_count = apart ? logical_shards : 1,
                                  .total_shards = apart ? logical_shards : 1,
                                  .shards_each = apart ? 1 : logical_shards};
    MUSTER_TRY(function_seal_shards(function, function->together.shard_count, &function->shards));
    if (apart && total > 1) MUSTER_TRY(function_seal_shards(function, function->single.shard_count, &function->master_shards));
    function->together.shards = function->shards;
    function->single.shards = function->master_shards ? function->master_shards : function->shards;
    return MUSTER_OK;
}

/* ---- the reproducible mode ---- */

/* Do the bits of the combined value depend on how the shards are grouped? */
static bool depends_on_grouping(muster_collect_mode mode, muster_dtype dtype) {
    return mst_dtype_is_float(dtype) && (mode == MUSTER_SUM || mode == MUSTER_PROD || mode == MUSTER_AVG);
}

static muster_status check_together(const muster_function *function, const char *where) {
    const char *name = mst_function_name(function);
    for (int64_t i = 0; i < function->output_count; i++)
        if (depends_on_grouping(function->outputs[i].mode, function->outputs[i].dtype))
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: output '%s' of function '%s': the %s of %s over workers that run their shards together depends on "
                             "their number: combine it in the body with muster_worker_all_reduce_shards and collect it by MUSTER_MASTER, "
                             "or run the body once "
                             "per shard",
                             where, function->outputs[i].name, name, mst_reduction_name(function->outputs[i].mode),
                             muster_dtype_name(function->outputs[i].dtype));
    if (function->slices_variables && !function->scatters)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: function '%s' runs its shards together, but nothing that it scatters says which rows are whose: expected a "
                         "scattered input",
                         where, name);
    return MUSTER_OK;
}

/* A body that nothing is scattered to may divide work by rank and size, which count devices, while
 * it runs once per shard: the program must have chosen that. */
static muster_status check_divides_by_shards(const muster_function *function, const char *where) {
    const muster_runtime *runtime = function->object.runtime;
    const int32_t devices = runtime->nodes ? mst_nodes_total(runtime->nodes) : runtime->size, shards = runtime->logical_shards;
    if (function->scatters || function->slices_variables || function->shards_said || shards == devices) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED,
                     "%s: function '%s' scatters nothing, and its body would run once for each of %d logical shards, while rank and size "
                     "are those of %d device%s: expected muster_function_set_shards_together with 0, and a body that divides work by "
                     "muster_worker_shard and muster_worker_shards, or with 1",
                     where, mst_function_name(function), (int)shards, (int)devices, devices == 1 ? "" : "s");
}

static muster_status check_apart(const muster_function *function, const char *where) {
    const char *name = mst_function_name(function);
    MUSTER_TRY(check_divides_by_shards(function, where));
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_use *use = &function->uses[u];
        const char *variable = use->variable->object.name;
        if (use->written)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: variable '%s' of function '%s': written in place by one shard it would be another value for the "
                             "next: expected an update, or muster_function_set_shards_together",
                             where, variable, name);
        if (use->updated && depends_on_grouping(use->mode, use->variable->dtype))
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: update of variable '%s' by function '%s': the %s of %s over a worker's shards depends on the number "
                             "of workers: collect it as an output, or use muster_function_set_shards_together",
                             where, variable, name, mst_reduction_name(use->mode), muster_dtype_name(use->variable->dtype));
    }
    return MUSTER_OK;
}

/* In the reproducible mode, refuses functions whose results would depend on the number of
 * devices. */
static muster_status check_reproducible(const muster_function *function, const char *where) {
    if (!function->object.runtime->logical_shards) return MUSTER_OK;
    return function->shards_together ? check_together(function, where) : check_apart(function, where);
}

/* ---- sealing ---- */

muster_status mst_function_seal(muster_function *function, const char *where) {
    const int32_t size = function->object.runtime->size;
    MUSTER_TRY(check_reproducible(function, where));
    const size_t inputs = (size_t)function->input_count, outputs = (size_t)function->output_count;
    function->ranks = mst_alloc((size_t)size * sizeof *function->ranks);
    function->plan.inputs = mst_alloc(inputs * sizeof(muster_tensor));
    function->plan.outputs = mst_alloc(outputs * sizeof(muster_tensor));
    function->plan.addresses = mst_alloc((inputs + outputs) * sizeof(void *));
    function->plan.spans = mst_alloc((inputs + outputs) * sizeof(mst_span));
    function->plan.reduced = mst_alloc(outputs * sizeof(bool));
    function->plan.forms = mst_alloc((inputs + outputs) * sizeof *function->plan.forms);
    function->wholes = mst_alloc(inputs * sizeof(mst_store));
    function->plan.parts = mst_alloc((inputs + outputs) * sizeof(bool));
    function->plan.packed = mst_alloc(inputs * sizeof(bool));
    function->named = mst_alloc((inputs + outputs) * sizeof(muster_tensor));
    function->named_buffers = mst_alloc(outputs * sizeof(muster_buffer *));
    function->filled = mst_alloc(outputs * sizeof(mst_buffer_rows));
    function->results = mst_alloc(outputs * sizeof(mst_store));
    muster_status status = MUSTER_OK;
    if (!function->ranks || !function->plan.inputs || !function->plan.outputs || !function->plan.addresses || !function->plan.spans ||
        !function->plan.reduced || !function->plan.forms || !function->wholes || !function->plan.parts || !function->plan.packed ||
        !function->named || !function->named_buffers || !function->filled || !function->results)
        status = mst_out_of_memory("muster_function_call: the plan of the function", (int64_t)((inputs + outputs) * sizeof(muster_tensor)));
    for (int32_t r = 0; r < size && !status; r++) status = function_seal_rank(function, &function->ranks[r]);
    if (!status) status = function_seal_calls(function);
    if (!status) status = mst_processes_make(function, where);
    if (status) {
        mst_function_unseal(function);
        return status;
    }
    function->sealed = true;
    return MUSTER_OK;
}
