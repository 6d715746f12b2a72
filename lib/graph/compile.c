/* A graph becomes a function. */
#include "environment_impl.h"
#include "nodes/nodes_impl.h"
#include "observe_private.h"
#include "options_impl.h"
#include "owner_impl.h"
#include "rewrite_private.h"
#include "runtime_impl.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "muster_graph_compile";

/* Of a call, unless the program says it: the usual size of a minibatch. */
enum { EXPECTED_ROWS = 128 };

/* ---- checks ---- */

/* The option, else the environment. */
static muster_status check_environment(muster_graph_options *known) {
    bool is_set = false;
    int64_t checked = 0;
    if (known->check_memory) return MUSTER_OK;
    MUSTER_TRY(mst_environment_number("MUSTER_GRAPH_CHECK", "0 or 1", 0, 1, &checked, &is_set));
    known->check_memory = (int32_t)checked;
    return MUSTER_OK;
}

/* ---- the function ---- */

/* What one device means is the value itself, whatever the mode: the mode only says where it is. */
static int32_t output_mode(const mst_graph *graph, const mst_graph_port *port, muster_graph_meaning meaning) {
    if (meaning == MUSTER_PER_WORKER) return port->mode == MUSTER_AUTO ? MUSTER_AVG : port->mode;
    if (port->node->distribution.kind == MST_PARTIAL) return port->node->distribution.op;
    return port->node->type.ndim > 0 && mst_dim_is_rows(graph, port->node->type.dims[0]) ? MUSTER_GATHER : MUSTER_MASTER;
}

static int32_t update_mode(const mst_graph_port *port, muster_graph_meaning meaning) {
    if (meaning == MUSTER_ONE_DEVICE) return MUSTER_MASTER;
    return port->mode == MUSTER_AUTO ? MUSTER_AVG : port->mode;
}

static muster_status describe(mst_graph_program *program, const muster_graph_options *options, muster_function *function) {
    mst_graph *graph = program->graph;
    const int32_t count = graph->inputs.count + graph->outputs.count + graph->variables.count + graph->updates.count;
    muster_port *ports = mst_alloc((size_t)count * sizeof *ports), *at = ports;
    if (!ports) return mst_out_of_memory(where, (int64_t)count * (int64_t)sizeof *ports);
    for (int32_t i = 0; i < graph->inputs.count; i++) {
        const mst_graph_port *port = &graph->inputs.items[i];
        *at++ =
            (muster_port){MUSTER_PORT_INPUT, port->mode | MUSTER_STRIDED, port->name, port->node->type.dtype, port->node->type.ndim, NULL};
    }
    for (int32_t i = 0; i < graph->outputs.count; i++) {
        const mst_graph_port *port = &graph->outputs.items[i];
        const int32_t mode = output_mode(graph, port, options->meaning);
        program->all_rows |= options->meaning == MUSTER_ONE_DEVICE && mode != MUSTER_GATHER;
        *at++ = (muster_port){MUSTER_PORT_OUTPUT, mode | MUSTER_STRIDED, port->name, port->node->type.dtype, port->node->type.ndim, NULL};
    }
    for (int32_t i = 0; i < graph->variables.count; i++)
        *at++ = (muster_port){.kind = MUSTER_PORT_VARIABLE,
                              .mode = mst_pass_writes(program, i) ? MUSTER_USE_READ_WRITE : graph->variables.items[i].mode,
                              .variable = graph->variables.items[i].variable};
    for (int32_t i = 0; i < graph->updates.count; i++) {
        const mst_graph_port *port = &graph->updates.items[i];
        program->all_rows |= options->meaning == MUSTER_ONE_DEVICE;
        if (port->pass != MST_PORT_ALONE) continue;
        *at++ = (muster_port){.kind = MUSTER_PORT_UPDATE, .mode = update_mode(port, options->meaning), .variable = port->variable};
    }
    const muster_status status = muster_function_describe(function, ports, (int32_t)(at - ports));
    for (int32_t i = 0; i < graph->outputs.count && !status; i++) {
        const mst_graph_port *port = &graph->outputs.items[i];
        const bool gathers = output_mode(graph, port, options->meaning) == MUSTER_GATHER;
        if (gathers && mst_dim_is_rows(graph, port->node->type.dims[0])) mst_function_set_output_rows(function, i);
    }
    mst_free(ports);
    return status;
}

/* ---- groups ---- */

static void groups_drop(mst_graph_program *program) {
    mst_free(program->groups);
    mst_free(program->group_of);
    program->groups = NULL;
    program->group_of = NULL;
    program->group_count = 0;
}

/* A device that cannot compile the groups computes each operation by itself, and so do those beside
 * it, which have the same program. */
static muster_status groups_refused(mst_graph_program *program, muster_status status) {
    char line[MST_MESSAGE_SIZE], reason[MST_MESSAGE_SIZE];
    if (status == MUSTER_OUT_OF_MEMORY || status == MUSTER_DEVICE_LOST || status == MUSTER_BAD_STATE) return status;
    mst_error_save(reason);
    snprintf(line, sizeof line, "%.400s; each operation is computed by itself", reason);
    mst_runtime_log(program->graph->runtime, MUSTER_LOG_WARNING, line);
    groups_drop(program);
    program->unfused = program->pass != NULL; /* whose rules are groups */
    return program->unfused ? status : MUSTER_OK;
}

/* Groups are loops on CPU cores, and kernels on devices that compile these. */
static bool devices_fuse(const muster_runtime *runtime) {
    bool all = true;
    for (int32_t r = 0; r < runtime->size; r++) all = all && (mst_device_is_host(runtime->devices[r]) || runtime->devices[r]->program);
    return all;
}

muster_status mst_program_groups_make(mst_graph_program *program) {
    mst_graph *graph = program->graph;
    if (!devices_fuse(graph->runtime)) return MUSTER_OK;
    MUSTER_TRY(mst_graph_program_fuse(program));
    if (program->pass) MUSTER_TRY(mst_pass_groups(program));
    const muster_status status = mst_fused_open(graph->runtime, graph->name, program->groups, program->group_count, &program->fused);
    return status == MUSTER_OK ? MUSTER_OK : groups_refused(program, status);
}

/* The runtime keeps the names, under the lock of its pool. */
static muster_status name_steps(mst_graph_program *program) {
    mst_pool *pool = program->graph->runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, 0));
    muster_status status = mst_graph_program_name_steps(program);
    if (status == MUSTER_OK && program->loop) status = mst_loop_name_steps(program->loop);
    mst_pool_leave(pool);
    return status;
}

/* The micro-batches of one device share values as devices do. */
static bool is_distributed(const mst_graph *graph, const muster_graph_options *options) {
    return options->meaning == MUSTER_ONE_DEVICE &&
           (graph->runtime->total > 1 || graph->runtime->logical_shards || options->micro_batches > 1);
}

/* Where several devices share parameters and gradients, but no logical shards. */
static bool passes_updates(const mst_graph_program *program) {
    const muster_runtime *runtime = program->graph->runtime;
    return program->distributed && runtime->total > 1 && !runtime->logical_shards;
}

static muster_status ranks_make(mst_graph_program *program) {
    const mst_graph *graph = program->graph;
    program->ranks = mst_alloc((size_t)graph->runtime->size * sizeof *program->ranks);
    if (!program->ranks) return mst_out_of_memory(where, (int64_t)sizeof *program->ranks);
    program->rank_count = graph->runtime->size;
    const size_t given = (size_t)(program->input_count + program->variable_count + 2 * program->update_count) + 1;
    const size_t edges = (size_t)(graph->runtime->total + graph->runtime->logical_shards) + 2;
    for (int32_t r = 0; r < program->rank_count; r++) {
        mst_graph_program_rank *rank = &program->ranks[r];
        rank->given = mst_alloc(given * sizeof(muster_tensor));
        rank->row_edges = mst_alloc(edges * sizeof(int64_t));
        if (!rank->given || !rank->row_edges)
            return mst_out_of_memory(where, (int64_t)(given * sizeof(muster_tensor) + edges * sizeof(int64_t)));
        rank->updates = rank->given + program->input_count + program->variable_count;
        rank->replicas = rank->updates + program->update_count;
    }
    return program->pass ? mst_pass_make_notes(program) : MUSTER_OK;
}

static muster_status program_fill(mst_graph_program *program, const muster_graph_options *options) {
    mst_graph *graph = program->graph;
    const int64_t micro_batches = options->micro_batches > 1 ? options->micro_batches : 1;
    program->input_count = graph->inputs.count;
    program->variable_count = graph->variables.count;
    program->output_count = graph->outputs.count;
    program->update_count = graph->updates.count;
    program->distributed = is_distributed(graph, options);
    for (int32_t i = 0; i < graph->inputs.count; i++) program->rows_given |= graph->inputs.items[i].mode != MUSTER_BROADCAST;
    if (passes_updates(program) && !options->unfused && !program->checked && devices_fuse(graph->runtime))
        MUSTER_TRY(mst_pass_find(program));
    if (passes_updates(program)) MUSTER_TRY(mst_update_rules_cut(graph));
    if (program->distributed)
        MUSTER_TRY(mst_graph_distribute(graph, options->rows ? options->rows : EXPECTED_ROWS * micro_batches, micro_batches > 1));
    if (micro_batches > 1) MUSTER_TRY(mst_phases_find(program));
    program->base_count = 1 + program->input_count + program->variable_count + program->output_count + program->update_count;
    if (!options->unfused) MUSTER_TRY(mst_program_groups_make(program));
    program->overlaps = program->pass && options->bucket_bytes >= 0 && mst_communicator_begins(graph->runtime->communicator->global);
    program->eager = program->pass && options->eager_updates;
    MUSTER_TRY(mst_graph_program_order(program));
    if (!options->plain_layout) MUSTER_TRY(mst_graph_program_layout(program));
    MUSTER_TRY(mst_pass_arrange(program, options->bucket_bytes));
    MUSTER_TRY(mst_compile_check_sizes(program));
    MUSTER_TRY(mst_compile_check_places(program, options->meaning));
    program->placed = mst_program_find_placed(program);
    for (int32_t at = 0; at < program->count; at++) {
        program->exchanges |= mst_node_exchanges(program->order[at]);
        program->all_rows |= program->distributed && (program->order[at]->op->flags & MST_OPERATOR_OWN_ROWS);
        if (program->order[at]->op->compile) MUSTER_TRY(program->order[at]->op->compile(program->order[at]));
    }
    if (program->phase) MUSTER_TRY(mst_loop_make(program, micro_batches, options->unfused != 0));
    MUSTER_TRY(name_steps(program));
    return ranks_make(program);
}

/* *again: the devices compile no groups, so that the program is made once more without. */
static muster_status program_try(mst_graph *graph, const muster_graph_options *options, mst_graph_program **made, bool *again) {
    *again = false;
    MUSTER_TRY(mst_graph_simplify(graph, options->unsimplified != 0));
    mst_graph_program *program = mst_alloc(sizeof *program);
    if (!program) return mst_out_of_memory(where, (int64_t)sizeof *program);
    atomic_fetch_add(&graph->references, 1);
    *program = (mst_graph_program){.graph = graph,
                                   .checked = options->check_memory != 0,
                                   .unshared = options->unshared_memory != 0,
                                   .memory_limit = options->memory_limit,
                                   .timed = options->step_times != 0,
                                   .observed = options->step_times != 0};
    const muster_status status = program_fill(program, options);
    if (status == MUSTER_OK) return *made = program, MUSTER_OK;
    *again = program->unfused && !options->unfused;
    mst_graph_program_destroy(program);
    return status;
}

/* Memory for the states of rules: each device gets what it updates. */
static muster_status states_lay(mst_graph_program *program) {
    MUSTER_TRY(mst_pass_lay_states(program));
    return mst_update_rules_lay(program->graph, program);
}

static muster_status program_begin(mst_graph *graph, muster_graph_options *options, mst_graph_program **program, bool *again) {
    *again = false;
    MUSTER_TRY(mst_update_rules_compile(graph, options->meaning));
    MUSTER_TRY(mst_compile_check_graph(graph, options));
    MUSTER_TRY(check_environment(options));
    return program_try(graph, options, program, again);
}

static muster_status program_make(mst_graph *graph, muster_graph_options *options, mst_graph_program **program) {
    bool again;
    const muster_status status = program_begin(graph, options, program, &again);
    if (!again) return status;
    options->unfused = 1;
    return program_try(graph, options, program, &again);
}

/* What would keep this process from the rounds in which rules are prepared. */
static muster_status check_before(const mst_graph *graph, muster_graph_options *options) {
    MUSTER_TRY(mst_compile_check_first(graph, options));
    return check_environment(options);
}

/* A process whose devices compile no groups computes each operation by itself, and so do all. What
 * decides whether there is a pass is agreed on before: without one, all processes lay the states
 * of rules anew, in rounds. A process that has failed by itself makes one more round, in which it
 * tells the others, whichever round these make. */
static muster_status program_make_everywhere(mst_graph *graph, muster_graph_options *options, mst_graph_program **program) {
    bool again, unfused = options->unfused || !devices_fuse(graph->runtime);
    if (!graph->runtime->nodes) return program_make(graph, options, program);
    MUSTER_TRY(mst_program_agree_options(graph, options, check_before(graph, options), &unfused));
    options->unfused = unfused;
    const uint64_t failed_rounds = mst_nodes_failed_rounds();
    muster_status status = program_begin(graph, options, program, &again);
    if (mst_nodes_failed_rounds() != failed_rounds) return status;
    MUSTER_TRY(mst_program_agree_groups(graph, again ? MUSTER_OK : status, &again));
    if (again) {
        if (*program) mst_graph_program_destroy(*program);
        *program = NULL;
        options->unfused = 1;
        status = program_try(graph, options, program, &again);
        if (mst_nodes_failed_rounds() != failed_rounds) return status;
    }
    return mst_program_agree(graph, *program, status);
}

/* *owned becomes NULL: the program is the function's and ends with it, even when it is refused. */
static muster_status function_make(mst_graph_program **owned, const muster_graph_options *options, muster_function **made) {
    mst_graph_program *program = *owned;
    *owned = NULL;
    const muster_backend_body body = {NULL, mst_graph_program_body};
    mst_graph *graph = program->graph;
    MUSTER_TRY(muster_function_create_owned(graph->runtime, graph->name, &body, 1, program, mst_graph_program_destroy, made));
    MUSTER_TRY(describe(program, options, *made));
    mst_function_set_dtype_hint(*made, MST_DTYPE_HINT);
    if (program->placed) MUSTER_TRY(muster_function_set_runs_without_rows(*made, 1));
    if (options->meaning == MUSTER_ONE_DEVICE) MUSTER_TRY(mst_function_count_without_rows(*made));
    return muster_function_set_shards_together(*made, program->distributed);
}

static muster_status compile_undo(mst_graph_program *program, muster_function *made, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (made)
        (void)muster_function_destroy(made);
    else if (program)
        mst_graph_program_destroy(program);
    return mst_error_restore(status, message);
}

static muster_status check_arguments(mst_graph *graph, const muster_graph_options *options, muster_graph_options *known,
                                     muster_function **function) {
    if (!function) return mst_error_null(where, "function", "the address of a pointer");
    MUSTER_TRY(mst_graph_check_open(graph, where));
    return mst_options_read(where, "muster_graph_options", options, known, sizeof *known);
}

muster_status muster_graph_compile(muster_graph *handle, const muster_graph_options *options, muster_function **function) {
    muster_graph_options known;
    if (function) *function = NULL;
    if (!handle) return mst_error_null(where, "graph", "a graph");
    if (!handle->graph) return mst_graph_destroyed(where);
    mst_graph *graph = handle->graph;
    MUSTER_TRY(mst_graph_check_runtime(graph, where));
    MUSTER_TRY(mst_runtime_check_open(graph->runtime, where));
    const muster_status checked = check_arguments(graph, options, &known, function);
    if (checked) return mst_program_refuse(graph, checked);
    mst_graph_program *program = NULL;
    muster_function *made = NULL;
    muster_status status = program_make_everywhere(graph, &known, &program);
    if (status != MUSTER_OK) return compile_undo(program, NULL, status);
    const uint64_t failed_rounds = mst_nodes_failed_rounds();
    status = states_lay(program);
    const bool passes = program->pass != NULL;
    if (status == MUSTER_OK) status = function_make(&program, &known, &made);
    if (mst_nodes_failed_rounds() == failed_rounds) status = mst_program_agree_made(graph, status);
    if (status != MUSTER_OK) return compile_undo(program, made, status);
    if (passes) mst_function_set_ended(made, mst_pass_ended);
    graph->frozen = true;
    *function = made;
    return MUSTER_OK;
}
