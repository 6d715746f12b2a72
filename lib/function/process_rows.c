/* Which rows of a call are whose, with several processes. By default every process passes the same
 * whole tensors, so all know everything. Inputs of which each process has rows of its own, what
 * only process 0 passes, and sliceable variables make it necessary to count: a round in which each
 * process says how many rows it has, and process 0 what shapes. */
#include "place_private.h"
#include "processes_private.h"

#include <string.h>

/* ---- the description ---- */

muster_status muster_function_set_source(muster_function *function, const char *input, muster_source source) {
    static const char where[] = "muster_function_set_source";
    MUSTER_TRY(mst_describe_open(function, where));
    muster_status status = MUSTER_OK;
    mst_port *port = NULL;
    for (int64_t i = 0; input && i < function->input_count; i++)
        if (strcmp(function->inputs[i].name, input) == 0) port = &function->inputs[i];
    if (!input)
        status = mst_error_null(where, "input", "the name of an input");
    else if (!port)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: input: expected an input of function '%s', received '%s'", where,
                           mst_function_name(function), input);
    else if (source < MUSTER_SOURCE_ALL || source > MUSTER_SOURCE_MASTER)
        status = mst_error(MUSTER_INVALID_ARGUMENT,
                           "%s: source of '%s': expected MUSTER_SOURCE_ALL, MUSTER_SOURCE_OWN or MUSTER_SOURCE_MASTER, received %d", where,
                           input, (int)source);
    else if (source == MUSTER_SOURCE_OWN && port->mode == MUSTER_BROADCAST)
        status = mst_error(MUSTER_INVALID_ARGUMENT,
                           "%s: source of '%s': an input of mode MUSTER_BROADCAST has no rows of each process: expected "
                           "MUSTER_SOURCE_ALL or MUSTER_SOURCE_MASTER",
                           where, input);
    else if (source == MUSTER_SOURCE_OWN && function->object.runtime->logical_shards)
        status = mst_error(MUSTER_UNSUPPORTED,
                           "%s: source of '%s': rows of each process's own depend on the number of processes, which the reproducible mode "
                           "excludes: expected MUSTER_SOURCE_ALL or MUSTER_SOURCE_MASTER",
                           where, input);
    else
        port->ways = source;
    return mst_describe_close(function, status);
}

muster_status muster_function_set_target(muster_function *function, const char *output, muster_target target) {
    static const char where[] = "muster_function_set_target";
    MUSTER_TRY(mst_describe_open(function, where));
    muster_status status = MUSTER_OK;
    mst_port *port = NULL;
    for (int64_t i = 0; output && i < function->output_count; i++)
        if (strcmp(function->outputs[i].name, output) == 0) port = &function->outputs[i];
    if (!output)
        status = mst_error_null(where, "output", "the name of an output");
    else if (!port)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: output: expected an output of function '%s', received '%s'", where,
                           mst_function_name(function), output);
    else if (target < MUSTER_TARGET_ALL || target > MUSTER_TARGET_MASTER)
        status = mst_error(MUSTER_INVALID_ARGUMENT,
                           "%s: target of '%s': expected MUSTER_TARGET_ALL, MUSTER_TARGET_OWN or MUSTER_TARGET_MASTER, received %d", where,
                           output, (int)target);
    else if (target == MUSTER_TARGET_OWN && port->mode != MUSTER_GATHER)
        status =
            mst_error(MUSTER_INVALID_ARGUMENT,
                      "%s: target of '%s': only an output of mode MUSTER_GATHER has rows of each process: expected MUSTER_TARGET_ALL or "
                      "MUSTER_TARGET_MASTER",
                      where, output);
    else
        port->ways = target;
    return mst_describe_close(function, status);
}

/* ---- counting ---- */

static bool input_is_counted(const mst_port *port) { return port->ways != MUSTER_SOURCE_ALL; }
static bool output_is_shaped(const mst_port *port) { return port->ways == MUSTER_TARGET_MASTER; }

bool mst_processes_are_counted(const muster_function *function) {
    for (int64_t i = 0; i < function->input_count; i++)
        if (input_is_counted(&function->inputs[i])) return true;
    for (int64_t i = 0; i < function->output_count; i++)
        if (output_is_shaped(&function->outputs[i])) return true;
    return function->slices_variables && !function->scatters;
}

/* The shapes that only process 0 knows follow the counts: for each such tensor whether it is there,
 * and its dimensions. */
static int64_t shapes_in_payload(const muster_function *function) {
    int64_t numbers = 0;
    for (int64_t i = 0; i < function->input_count; i++)
        if (function->inputs[i].ways == MUSTER_SOURCE_MASTER) numbers += 1 + function->inputs[i].ndim;
    for (int64_t i = 0; i < function->output_count; i++)
        if (output_is_shaped(&function->outputs[i])) numbers += 1 + function->outputs[i].ndim;
    return numbers;
}

static int64_t *put_shape(int64_t *to, const mst_port *port, const muster_tensor *tensor) {
    *to++ = tensor->dtype != MUSTER_DTYPE_NONE;
    for (int32_t d = 0; d < port->ndim; d++) *to++ = tensor->dtype != MUSTER_DTYPE_NONE ? tensor->shape[d] : 0;
    return to;
}

static void put_shapes(const muster_function *function, const mst_arguments *arguments, int64_t *to) {
    for (int64_t i = 0; i < function->input_count; i++)
        if (function->inputs[i].ways == MUSTER_SOURCE_MASTER) to = put_shape(to, &function->inputs[i], &arguments->inputs[i]);
    for (int64_t i = 0; i < function->output_count; i++)
        if (output_is_shaped(&function->outputs[i])) to = put_shape(to, &function->outputs[i], &arguments->outputs[i]);
}

static muster_status agree_count(const muster_function *function, const char *where, const mst_port *port, int64_t rows, int64_t *known) {
    if (*known >= 0 && *known != rows)
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s: input '%s' of function '%s': expected the %lld selected rows of the inputs before it, received %lld", where,
                         port->name, mst_function_name(function), (long long)*known, (long long)rows);
    *known = rows;
    return MUSTER_OK;
}

static muster_status refuse_tensor(const muster_function *function, const char *where, const char *kind, const mst_port *port) {
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s '%s' of function '%s' is process 0's: expected no tensor (muster_tensor_none) in process %d, received one",
                     where, kind, port->name, mst_function_name(function), (int)function->object.runtime->nodes->process);
}

static muster_status count_inputs(const muster_function *function, const mst_arguments *arguments, mst_own_rows *rows) {
    const bool master = function->object.runtime->nodes->process == 0;
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        int64_t selected;
        if (port->ways == MUSTER_SOURCE_MASTER && !master) {
            if (!mst_tensor_absent(&arguments->inputs[i])) return refuse_tensor(function, arguments->where, "input", port);
            continue;
        }
        MUSTER_TRY(mst_plan_input_rows(function, arguments->where, i, arguments->inputs[i], &arguments->options->batch, &selected));
        if (port->mode == MUSTER_BROADCAST) continue;
        MUSTER_TRY(
            agree_count(function, arguments->where, port, selected, port->ways == MUSTER_SOURCE_OWN ? &rows->own_count : &rows->all));
    }
    for (int64_t i = 0; i < function->output_count; i++)
        if (output_is_shaped(&function->outputs[i]) && !master && !mst_tensor_absent(&arguments->outputs[i]))
            return refuse_tensor(function, arguments->where, "output", &function->outputs[i]);
    return MUSTER_OK;
}

static muster_status count_own(muster_function *function, const mst_arguments *arguments, mst_own_rows *rows) {
    *rows = (mst_own_rows){-1, -1, 0};
    MUSTER_TRY(mst_plan_check_arguments(function, arguments));
    MUSTER_TRY(count_inputs(function, arguments, rows));
    if (!function->slices_variables || function->scatters) return MUSTER_OK;
    return mst_plan_variable_rows(&function->together, arguments->where, arguments->options, rows);
}

/* The rows of the call, and the first of this process: the same in all processes. */
static muster_status check_counts(const muster_function *function, const char *where) {
    const mst_nodes *nodes = function->object.runtime->nodes;
    const mst_own_rows *rows = function->processes->rows;
    int64_t sum = 0, all = -1;
    for (int32_t p = 0; p < nodes->processes; p++) {
        if (rows[p].own_count >= 0 && __builtin_add_overflow(sum, rows[p].own_count, &sum))
            return mst_error(MUSTER_OVERFLOW, "%s: function '%s': the rows of all processes overflow", where, mst_function_name(function));
        if (rows[p].all < 0) continue;
        if (all >= 0 && rows[p].all != all)
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s: function '%s': expected the %lld rows of process 0 in process %d, received %lld",
                             where, mst_function_name(function), (long long)all, (int)p, (long long)rows[p].all);
        all = rows[p].all;
    }
    if (function->scatters && rows[0].own_count >= 0 && all >= 0 && sum != all)
        return mst_error(
            MUSTER_SHAPE_MISMATCH,
            "%s: function '%s': expected as many rows as the processes have together in the inputs that are passed whole (%lld), "
            "received %lld",
            where, mst_function_name(function), (long long)sum, (long long)all);
    return MUSTER_OK;
}

/* ---- tensors for what only process 0 passes ---- */

static muster_status take_shape(muster_function *function, const char *where, const mst_port *port, int64_t index, const int64_t **from,
                                int64_t own_rows, bool by_rows, muster_tensor *tensor) {
    int64_t shape[MUSTER_MAX_DIMS], bytes = muster_dtype_size(port->dtype);
    const bool there = *(*from)++ != 0;
    mst_store *store = &function->processes->received[index];
    for (int32_t d = 0; d < port->ndim; d++) shape[d] = *(*from)++;
    *tensor = muster_tensor_none();
    if (!there) return MUSTER_OK;
    if (by_rows) shape[0] = own_rows;
    for (int32_t d = 0; d < port->ndim; d++)
        if (!mst_multiply(bytes, shape[d], &bytes)) return mst_error(MUSTER_OVERFLOW, "%s: '%s': its bytes overflow", where, port->name);
    MUSTER_TRY(mst_host_store_reserve(store, bytes > 0 ? bytes : 1, where));
    *tensor = muster_tensor_make(port->dtype, store->address, port->ndim, shape);
    return MUSTER_OK;
}

static int64_t sum_before(const muster_function *function, int32_t process) {
    int64_t before = 0;
    for (int32_t p = 0; p < process; p++) before += function->processes->rows[p].own_count;
    return before;
}

/* Rows [first, first + count) of the call are this process's. */
static mst_call_rows rows_of(const mst_call *call, int32_t process, int64_t *first, int64_t *count) {
    const muster_function *function = call->function;
    const mst_nodes *nodes = function->object.runtime->nodes;
    const mst_own_rows *rows = function->processes->rows;
    const int32_t shard = nodes->first[process] * mst_call_shards_per_rank(call), shards = mst_processes_shards(call, process);
    mst_call_rows edges;
    if (rows[0].own_count >= 0)
        edges = (mst_call_rows){sum_before(function, process), rows[process].own_count, 0, shards};
    else
        edges = (mst_call_rows){0, rows[0].all, shard, call->total_shards};
    *first = edges.first + mst_edge(edges.count, edges.shards, edges.shard);
    *count = edges.first + mst_edge(edges.count, edges.shards, edges.shard + shards) - *first;
    return edges;
}

static muster_status take_tensors(muster_function *function, const mst_arguments *arguments, const int64_t *from) {
    mst_processes_state *processes = function->processes;
    mst_plan *plan = &function->plan;
    const bool master = function->object.runtime->nodes->process == 0;
    int64_t first = 0, own_rows = 0;
    if (function->scatters) rows_of(&function->together, function->object.runtime->nodes->process, &first, &own_rows);
    for (int64_t i = 0; i < function->input_count; i++) {
        const mst_port *port = &function->inputs[i];
        const bool by_rows = port->mode != MUSTER_BROADCAST;
        processes->inputs[i] = arguments->inputs[i];
        plan->parts[i] = port->ways == MUSTER_SOURCE_OWN || (port->ways == MUSTER_SOURCE_MASTER && !master && by_rows);
        plan->packed[i] = port->ways == MUSTER_SOURCE_MASTER && !master && by_rows;
        if (port->ways != MUSTER_SOURCE_MASTER) continue;
        muster_tensor tensor;
        const int64_t *shape = from;
        from += 1 + port->ndim;
        if (master) continue;
        MUSTER_TRY(take_shape(function, arguments->where, port, i, &shape, own_rows, by_rows, &tensor));
        processes->inputs[i] = tensor;
    }
    for (int64_t i = 0; i < function->output_count; i++) {
        const mst_port *port = &function->outputs[i];
        const int64_t index = function->input_count + i;
        const bool by_rows = port->mode == MUSTER_GATHER;
        processes->outputs[i] = arguments->outputs[i];
        plan->parts[index] = port->ways == MUSTER_TARGET_OWN || (output_is_shaped(port) && !master && by_rows);
        if (!output_is_shaped(port)) continue;
        processes->master_rows[i] = by_rows ? from[1] : 0;
        if (master) {
            from += 1 + port->ndim;
            continue;
        }
        MUSTER_TRY(take_shape(function, arguments->where, port, index, &from, own_rows, by_rows, &processes->outputs[i]));
    }
    return MUSTER_OK;
}

/* ---- the round ---- */

muster_status mst_processes_count(muster_function *function, const mst_arguments *arguments, mst_arguments *planned, muster_status *taken) {
    mst_nodes *nodes = function->object.runtime->nodes;
    mst_processes_state *processes = function->processes;
    const int64_t numbers = 4 + shapes_in_payload(function);
    mst_round round = {.where = arguments->where, .rank = -1};
    mst_processes_let_end(function, &round);
    int64_t payload[MST_ROUND_BYTES / sizeof(int64_t)] = {0};
    snprintf(round.text, sizeof round.text, "function '%.100s', whose rows are counted", mst_function_name(function));
    round.signature = 0x9e3779b97f4a7c15ull * (uint64_t)numbers + mst_processes_name_hash(function);
    if (numbers > (int64_t)(MST_ROUND_BYTES / sizeof(int64_t)))
        round.status = mst_error(
            MUSTER_UNSUPPORTED, "%s: function '%s': the shapes of what only process 0 passes: expected at most %d numbers, received %lld",
            arguments->where, mst_function_name(function), (int)(MST_ROUND_BYTES / sizeof(int64_t)), (long long)numbers);
    else
        round.status = count_own(function, arguments, (mst_own_rows *)payload);
    if (!round.status && nodes->process == 0) put_shapes(function, arguments, payload + 4);
    round.payload = payload;
    round.payload_bytes = (int32_t)((numbers > 512 ? 4 : numbers) * (int64_t)sizeof(int64_t));
    mst_processes_set_deadlines(arguments, &round);
    MUSTER_TRY(mst_nodes_begin(nodes, &round));
    for (int32_t p = 0; p < nodes->processes; p++)
        memcpy(&processes->rows[p], (const char *)round.all + (int64_t)p * round.payload_bytes, sizeof *processes->rows);
    memcpy(payload, round.all, (size_t)round.payload_bytes); /* process 0's */
    *planned = *arguments;
    MUSTER_TRY(check_counts(function, arguments->where));
    *taken = take_tensors(function, arguments, payload + 4);
    planned->inputs = processes->inputs;
    planned->outputs = processes->outputs;
    return MUSTER_OK;
}

/* ---- for the plan ---- */

mst_call_rows mst_processes_rows(const mst_call *call, int64_t count) {
    const muster_function *function = call->function;
    const int32_t process = function->object.runtime->nodes->process;
    if (!function->scatters) {
        const int64_t each = call->shards_each ? call->shards_each : 1;
        return (mst_call_rows){function->slices_variables ? sum_before(function, process) : call->first_shard * each, 0, 0, 1};
    }
    if (!mst_processes_are_counted(function)) return (mst_call_rows){0, count, call->first_shard, call->total_shards};
    int64_t first;
    return rows_of(call, process, &first, &count);
}

/* By even edges the rows go to as many shards as there are rows. */
static int64_t contributors_of(int64_t rows, int32_t shards) { return rows < shards ? rows : shards; }

static void plan_own_rows(mst_plan *plan, const mst_call *call) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    const mst_own_rows *rows = call->function->processes->rows;
    plan->count = plan->total_contributors = 0;
    plan->master_process = -1;
    for (int32_t p = 0; p < nodes->processes; p++) {
        const int64_t contributors =
            call->function->scatters ? contributors_of(rows[p].own_count, mst_processes_shards(call, p)) : rows[p].contributors;
        plan->count += rows[p].own_count;
        plan->total_contributors += (int32_t)contributors;
        if (contributors && plan->master_process < 0) plan->master_process = p;
    }
}

/* The process of the first shard that has one of `rows` rows, which are cut by even edges; -1:
 * there are none. */
static int32_t process_of_first_row(const mst_call *call, int64_t rows) {
    int64_t shard = 0;
    for (int32_t p = 0; p < call->function->object.runtime->nodes->processes; p++) {
        shard += mst_processes_shards(call, p);
        if (mst_edge(rows, call->total_shards, shard) > 0) return p;
    }
    return -1;
}

void mst_processes_plan(mst_call *call, const mst_call_rows *edges) {
    muster_function *function = call->function;
    mst_plan *plan = &function->plan;
    if (mst_processes_are_counted(function) && function->processes->rows[0].own_count >= 0) {
        plan_own_rows(plan, call);
    } else if (function->scatters) {
        plan->count = edges->count;
        plan->total_contributors = (int32_t)contributors_of(edges->count, call->total_shards);
        plan->master_process = process_of_first_row(call, edges->count);
    } else {
        plan->count = call->total_shards * (int64_t)(call->shards_each ? call->shards_each : 1);
        plan->total_contributors = call->total_shards;
        plan->master_process = 0;
    }
    if (function->runs_without_rows) plan->master_process = 0;
    if (function->counts_without_rows) plan->total_contributors = call->total_shards;
    if (plan->master_process != function->object.runtime->nodes->process) plan->master = -1;
}

/* ---- what process 0 sends ---- */

/* What this process sends of an input, as it was passed. */
static muster_tensor source_of(const muster_function *function, int64_t input) {
    muster_tensor source = function->plan.inputs[input];
    source.data = function->plan.addresses[input];
    source.byte_offset = 0;
    return source;
}

static const muster_selection *selection_of(const muster_function *function, int64_t input) {
    static const muster_selection all = {.kind = MUSTER_SELECT_ALL};
    return function->inputs[input].mode == MUSTER_SCATTER ? &function->plan.batch : &all;
}

/* Is it sent from memory of the library? */
static bool is_packed(const muster_function *function, int64_t input) {
    return selection_of(function, input)->kind != MUSTER_SELECT_ALL || !mst_tensor_contiguous(function->plan.inputs[input]);
}

/* Sets the bytes that each process gets. Returns the rows of all. */
static int64_t measure_rows(const muster_function *function, int64_t input) {
    const mst_nodes *nodes = function->object.runtime->nodes;
    const int64_t row_bytes = mst_row_bytes(function->plan.inputs[input]);
    int64_t first = 0, count = 0, rows = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        rows_of(&function->together, p, &first, &count);
        function->processes->bytes[p] = count * row_bytes;
        rows += count;
    }
    return rows;
}

muster_status mst_processes_reserve_inputs(muster_function *function, const char *where) {
    if (function->object.runtime->nodes->process != 0) return MUSTER_OK;
    for (int64_t i = 0; i < function->input_count; i++) {
        const muster_tensor input = function->plan.inputs[i];
        if (function->inputs[i].ways != MUSTER_SOURCE_MASTER) continue;
        if (mst_input_place(&function->together, i)) MUSTER_TRY(mst_place_fetch(&function->together, i, where));
        if (!is_packed(function, i)) continue;
        const int64_t bytes =
            function->inputs[i].mode == MUSTER_BROADCAST ? mst_tensor_bytes(input) : measure_rows(function, i) * mst_row_bytes(input);
        MUSTER_TRY(mst_host_store_reserve(&function->processes->gathered, bytes > 0 ? bytes : 1, where));
    }
    return MUSTER_OK;
}

/* The rows of the call that process 0 gives to each process, one behind the other. */
static muster_status send_rows(muster_function *function, const char *where, int64_t input) {
    mst_processes_state *processes = function->processes;
    mst_nodes *nodes = function->object.runtime->nodes;
    const int64_t rows = measure_rows(function, input);
    void *buffer = function->plan.addresses[input];
    if (nodes->process == 0 && is_packed(function, input)) {
        buffer = processes->gathered.address;
        mst_selection_pack(selection_of(function, input), source_of(function, input), 0, rows, buffer);
    }
    return mst_nodes_scatter(nodes, where, 0, buffer, processes->bytes);
}

static muster_status send_whole(muster_function *function, const char *where, int64_t input) {
    mst_nodes *nodes = function->object.runtime->nodes;
    void *buffer = function->plan.addresses[input];
    if (nodes->process == 0 && is_packed(function, input)) {
        buffer = function->processes->gathered.address;
        mst_tensor_pack(buffer, source_of(function, input));
    }
    return mst_nodes_broadcast(nodes, where, 0, buffer, mst_tensor_bytes(function->plan.inputs[input]));
}

muster_status mst_processes_send_inputs(muster_function *function, const char *where) {
    for (int64_t i = 0; i < function->input_count; i++) {
        if (function->inputs[i].ways != MUSTER_SOURCE_MASTER) continue;
        if (function->inputs[i].mode == MUSTER_BROADCAST)
            MUSTER_TRY(send_whole(function, where, i));
        else
            MUSTER_TRY(send_rows(function, where, i));
    }
    return MUSTER_OK;
}
