/* Running a compiled graph inside the body of another function, on tensors of the worker. New
 * values of variables are computed in scratch memory, and copied into the replicas when all of the
 * graph has run: what fails leaves every variable as it was. */
#include "op_impl.h"
#include "owner_impl.h"
#include "program_private.h"
#include "runtime_impl.h"

#include <stdio.h>

static const char where_run[] = "muster_worker_run";
static const char what_runs[] = "one of muster_graph_compile";

/* ---- what such a run cannot be ---- */

static muster_status inside_refuse_place(const mst_graph_program *program, const char *where) {
    char place[MST_NODE_TEXT];
    (void)mst_origin_text(&program->placed->origin, place);
    return mst_error(MUSTER_UNSUPPORTED,
                     "%s: function '%.60s': expected a graph without muster_expr_place, whose workers wait for each other, received one "
                     "with it%s%s%s",
                     where, program->graph->name, *place ? " (" : "", place, *place ? ")" : "");
}

static muster_status inside_check_program(const mst_graph_program *program, const char *where) {
    if (program->placed) return inside_refuse_place(program, where);
    if (program->distributed && program->graph->runtime->total == 1 && !program->graph->runtime->logical_shards)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: function '%.60s': expected a graph without micro-batches, since the body chooses the rows of each run, "
                         "received one with them",
                         where, program->graph->name);
    if (program->distributed)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: function '%.60s': expected a graph with MUSTER_PER_WORKER, since each worker runs it by itself, received "
                         "one with MUSTER_ONE_DEVICE of a runtime with several devices or logical shards",
                         where, program->graph->name);
    return MUSTER_OK;
}

static muster_status inside_check_idle(const mst_graph_program *program, const mst_graph_program_rank *rank) {
    if (!rank->running) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "%s: function '%.60s': expected one that this worker does not run at the moment, received one whose operator "
                     "runs it again",
                     where_run, program->graph->name);
}

static muster_status inside_check_counts(const mst_graph_program *program, const char *what, const void *tensors, int32_t expected,
                                         int32_t received) {
    if (expected == received && (tensors || !expected)) return MUSTER_OK;
    if (expected == received)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %ss: expected the %d of function '%.60s', received NULL", where_run, what,
                         (int)expected, program->graph->name);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s_count: expected the %d of function '%.60s', received %d", where_run, what,
                     (int)expected, program->graph->name, (int)received);
}

/* ---- tensors ---- */

static __attribute__((cold)) muster_status inside_refuse_tensor(const muster_worker *worker, const mst_graph_program *program,
                                                                const char *kind, const mst_graph_port *port, const muster_tensor *tensor) {
    char what[160];
    const mst_type *type = &port->node->type;
    snprintf(what, sizeof what, "%s '%.60s' of function '%.60s'", kind, port->name, program->graph->name);
    MUSTER_TRY(mst_op_check(worker, tensor, where_run, what));
    if (tensor->dtype != type->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected %s, received %s%s", where_run, what, muster_dtype_name(type->dtype),
                         muster_dtype_name(tensor->dtype), *kind == 'o' ? MST_DTYPE_HINT : "");
    if (tensor->ndim != type->ndim)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %d dimensions, received %d", where_run, what, (int)type->ndim,
                         (int)tensor->ndim);
    return MUSTER_OK;
}

static inline muster_status inside_check_tensor(const muster_worker *worker, const mst_graph_program *program, const char *kind,
                                                const mst_graph_port *port, const muster_tensor *tensor) {
    const mst_type *type = &port->node->type;
    if (__builtin_expect(tensor->dtype == type->dtype && tensor->ndim == type->ndim && mst_op_surely_good(worker, tensor), 1))
        return MUSTER_OK;
    return inside_refuse_tensor(worker, program, kind, port, tensor);
}

typedef struct byte_range {
    uintptr_t low, high;
} byte_range;

static byte_range range_of(const muster_tensor *tensor) {
    const uintptr_t address = (uintptr_t)muster_tensor_address(*tensor);
    const mst_span span = mst_tensor_span(tensor);
    return (byte_range){address + (uintptr_t)span.low, address + (uintptr_t)span.high};
}

static muster_status inside_check_apart(const mst_graph_program *program, int32_t output, const muster_tensor *out, byte_range range,
                                        const char *kind, const mst_graph_port *port, const muster_tensor *other) {
    if (other->dtype == MUSTER_DTYPE_NONE) return MUSTER_OK;
    const byte_range its = range_of(other);
    if (range.low >= its.high || its.low >= range.high || !mst_tensors_overlap(out, other)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: output '%.60s' of function '%.60s' overlaps %s '%.60s' in memory: expected memory of its own", where_run,
                     program->graph->outputs.items[output].name, program->graph->name, kind, port->name);
}

/* An output is written while the steps behind it still read inputs and variables. */
static muster_status inside_check_output(const muster_worker *worker, const mst_graph_program *program, const muster_tensor *given,
                                         const muster_tensor *replicas, const muster_tensor *outputs, int32_t o) {
    const mst_graph *graph = program->graph;
    const muster_tensor *out = &outputs[o];
    MUSTER_TRY(inside_check_tensor(worker, program, "output", &graph->outputs.items[o], out));
    if (!mst_tensor_contiguous(*out) && mst_tensor_repeats(out))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: output '%.60s' of function '%.60s': expected an address of its own for every element, received a view with "
                         "several elements at one address",
                         where_run, graph->outputs.items[o].name, graph->name);
    const byte_range range = range_of(out);
    for (int32_t i = 0; i < program->input_count; i++)
        MUSTER_TRY(inside_check_apart(program, o, out, range, "input", &graph->inputs.items[i], &given[i]));
    for (int32_t v = 0; v < program->variable_count; v++)
        MUSTER_TRY(inside_check_apart(program, o, out, range, "variable", &graph->variables.items[v], &given[program->input_count + v]));
    for (int32_t u = 0; u < program->update_count; u++)
        MUSTER_TRY(inside_check_apart(program, o, out, range, "variable", &graph->updates.items[u], &replicas[u]));
    for (int32_t i = 0; i < o; i++) MUSTER_TRY(inside_check_apart(program, o, out, range, "output", &graph->outputs.items[i], &outputs[i]));
    return MUSTER_OK;
}

/* ---- variables ---- */

/* Sets given[] to this worker's replicas of the variables that the graph reads, and replicas[] to
 * its replicas of the variables that the graph updates. */
static muster_status inside_variables(muster_worker *worker, const mst_graph_program *program, muster_tensor *given,
                                      muster_tensor *replicas) {
    const mst_graph *graph = program->graph;
    for (int32_t v = 0; v < program->variable_count; v++)
        MUSTER_TRY(mst_function_inside_variable(worker, graph->variables.items[v].variable, false, where_run, "runs", graph->name,
                                                &given[program->input_count + v]));
    for (int32_t u = 0; u < program->update_count; u++)
        MUSTER_TRY(
            mst_function_inside_variable(worker, graph->updates.items[u].variable, true, where_run, "runs", graph->name, &replicas[u]));
    return MUSTER_OK;
}

/* ---- the run ---- */

/* What a step says, after the function's name. */
static muster_status inside_failed(const mst_graph_program *program, muster_status status) {
    char reason[MST_MESSAGE_SIZE];
    if (status == MUSTER_ABORTED || status == MUSTER_CANCELLED) return status;
    mst_error_save(reason);
    return mst_error(status, "%s: function '%.60s': %.420s", where_run, program->graph->name, reason);
}

static muster_status inside_run(muster_worker *worker, mst_graph_program *program, mst_graph_program_rank *rank,
                                const muster_tensor *outputs) {
    muster_tensor *updates = rank->updates;
    const muster_tensor *replicas = rank->replicas;
    for (int32_t u = 0; u < program->update_count; u++) {
        MUSTER_TRY(muster_worker_scratch(worker, replicas[u].dtype, replicas[u].ndim, replicas[u].shape, &updates[u]));
    }
    MUSTER_TRY(mst_graph_program_run(worker, program, rank, rank->given, outputs));
    for (int32_t u = 0; u < program->update_count; u++) MUSTER_TRY(muster_copy(worker, updates[u], replicas[u]));
    return MUSTER_OK;
}

muster_status muster_worker_run(muster_worker *worker, muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                const muster_tensor *outputs, int32_t output_count) {
    void *user;
    MUSTER_TRY(mst_function_inside(worker, function, mst_graph_program_body, where_run, what_runs, &user));
    mst_graph_program *program = user;
    mst_graph_program_rank *rank = &program->ranks[worker->rank];
    MUSTER_TRY(inside_check_idle(program, rank));
    MUSTER_TRY(inside_check_program(program, where_run));
    MUSTER_TRY(inside_check_counts(program, "input", inputs, program->input_count, input_count));
    MUSTER_TRY(inside_check_counts(program, "output", outputs, program->output_count, output_count));
    muster_tensor *given = rank->given, *replicas = rank->replicas;
    for (int32_t i = 0; i < input_count; i++) {
        MUSTER_TRY(inside_check_tensor(worker, program, "input", &program->graph->inputs.items[i], &inputs[i]));
        given[i] = inputs[i];
    }
    MUSTER_TRY(inside_variables(worker, program, given, replicas));
    for (int32_t o = 0; o < output_count; o++)
        if (!mst_tensor_absent(&outputs[o])) MUSTER_TRY(inside_check_output(worker, program, given, replicas, outputs, o));
    const int64_t mark = muster_worker_scratch_mark(worker);
    const muster_status status = inside_run(worker, program, rank, outputs);
    if (status != MUSTER_OK) {
        const muster_status said = inside_failed(program, status);
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        (void)muster_worker_scratch_release(worker, mark);
        return mst_error_restore(said, message);
    }
    return muster_worker_scratch_release(worker, mark);
}

/* ---- declaring ---- */

static bool is_updated(const mst_graph *graph, const muster_variable *variable) {
    for (int32_t u = 0; u < graph->updates.count; u++)
        if (graph->updates.items[u].variable == variable) return true;
    return false;
}

/* The variables that are read, then those that are only updated. */
static muster_status inside_declare(muster_function *function, const mst_graph *graph, const char *where) {
    const int32_t most = graph->variables.count + graph->updates.count;
    int32_t count = 0;
    muster_port *ports = mst_alloc((size_t)(most + 1) * sizeof *ports);
    if (!ports) return mst_out_of_memory(where, (int64_t)(most + 1) * (int64_t)sizeof *ports);
    for (int32_t v = 0; v < graph->variables.count; v++) {
        const mst_graph_port *port = &graph->variables.items[v];
        if (is_updated(graph, port->variable)) continue;
        ports[count++] = (muster_port){.kind = MUSTER_PORT_VARIABLE, .mode = port->mode, .variable = port->variable};
    }
    for (int32_t u = 0; u < graph->updates.count; u++)
        ports[count++] =
            (muster_port){.kind = MUSTER_PORT_VARIABLE, .mode = MUSTER_USE_READ_WRITE, .variable = graph->updates.items[u].variable};
    const muster_status status = count ? muster_function_describe(function, ports, count) : MUSTER_OK;
    mst_free(ports);
    return status;
}

muster_status muster_function_graph(muster_function *function, muster_function *graph_function) {
    static const char where[] = "muster_function_graph";
    void *user;
    if (!function) return mst_error_null(where, "function", "a function");
    if (!graph_function) return mst_error_null(where, "graph_function", "a function");
    MUSTER_TRY(mst_function_enter(graph_function, mst_graph_program_body, where, what_runs, &user));
    const mst_graph_program *program = user;
    mst_function_leave(graph_function);
    MUSTER_TRY(inside_check_program(program, where));
    return inside_declare(function, program->graph, where);
}
