/* Dumps of graphs and of compiled functions, as text and for Graphviz. */
#include "clock_impl.h"
#include "dump_private.h"
#include "locale_impl.h"
#include "micro/micro_private.h"
#include "owner_impl.h"
#include "variable_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- the whole ---- */

/* What each worker receives in a call, on average. */
static void put_exchanges(const mst_dump *d) {
    double bytes = 0;
    int32_t count = 0;
    for (int32_t at = 0; at < d->program->count; at++) {
        if (d->steps[at] < 0 || !mst_node_exchanges(d->program->order[at])) continue;
        bytes += mst_dump_received(d, d->program->order[at]->inputs[0], d->program->order[at]->distribution);
        count++;
    }
    for (int32_t i = 0; i < d->graph->updates.count; i++) {
        const mst_graph_port *port = &d->graph->updates.items[i];
        if (port->pass == MST_PORT_GRADIENT && port->node->distribution.kind == MST_PARTIAL)
            bytes += mst_dump_received(d, port->node, MST_DISTRIBUTED_SAME);
    }
    count += d->program->pass != NULL;
    fprintf(d->file, ", %d workers, each receives %.0f bytes in %d exchanges", (int)d->instance->sharing.size, bytes, (int)count);
}

/* The loop, and the memory that a micro-batch has within the block. */
static void put_micro_batches(const mst_dump *d) {
    for (int32_t s = 0; s < d->instance->step_count; s++) {
        const struct mst_loop_run *run = d->instance->steps[s].loop;
        if (!run) continue;
        fprintf(d->file, ", %lld micro-batches of %lld bytes", (long long)run->slices, (long long)run->block->shape[0]);
        if (d->program->timed) fprintf(d->file, " in %.3f us", (double)d->instance->steps[s].ticks / mst_ticks_per_ns() / 1000);
    }
}

static void put_head(const mst_dump *d, int32_t count) {
    static const char *const comments[] = {"", "// "};
    if (d->dot) {
        fputs("digraph \"", d->file);
        mst_dump_text(d, d->graph->name);
        fputs("\" {\n  node [shape=box, fontname=\"monospace\"];\n", d->file);
    }
    fprintf(d->file, "%s%s \"%s\": %d expressions", comments[d->dot], d->program ? "function" : "graph", d->graph->name, (int)count);
    if (d->program)
        fprintf(d->file, ", %d groups", (int)(d->program->group_count + (d->program->loop ? d->program->loop->program->group_count : 0)));
    if (d->instance) {
        fprintf(d->file, ", %d steps, a block of %lld bytes", (int)d->instance->step_count, (long long)d->instance->arena_bytes);
        if (d->instance->repeated_steps)
            fprintf(d->file, " in place of %lld, %d of the steps compute values again", (long long)d->instance->unlimited_bytes,
                    (int)d->instance->repeated_steps);
        for (int32_t s = 0; s < d->graph->size_count; s++)
            if (d->instance->sizes[s] >= 0) fprintf(d->file, ", %s = %lld", d->graph->size_names[s], (long long)d->instance->sizes[s]);
        put_micro_batches(d);
        if (d->program->distributed && (d->instance->sharing.size > 1 || d->graph->runtime->logical_shards)) put_exchanges(d);
    }
    fputc('\n', d->file);
}

static void put_groups(const mst_dump *d, const mst_graph_program *program, int32_t first) {
    for (int32_t g = 0; g < program->group_count; g++) {
        const mst_fused_group *group = &program->groups[g];
        fprintf(d->file, "  subgraph cluster_%d { label=\"group %d\";", (int)(first + g), (int)(first + g));
        for (int32_t i = 0; i < group->member_count; i++) fprintf(d->file, " n%d;", (int)group->members[i]->id);
        fputs(" }\n", d->file);
    }
}

/* An update by a rule, in one pass with the exchange of the gradient. */
static void put_pass(const mst_dump *d, const mst_graph_port *port) {
    const muster_expr *gradient = port->node;
    if (gradient) {
        fputs("its rule for the gradient ", d->file);
        mst_dump_operand(d, gradient);
        fputs(", in one pass", d->file);
        if (gradient->distribution.kind == MST_PARTIAL && d->instance)
            fprintf(d->file, ", receives %.0f bytes", mst_dump_received(d, gradient, MST_DISTRIBUTED_SAME));
    } else {
        fputs("in the pass of its parameter, the workers keep", d->file);
        for (int32_t r = 0; r < d->graph->runtime->total; r++)
            fprintf(d->file, "%s %lld", r ? "," : "", (long long)port->variable->everywhere[r].capacity);
        fputs(" bytes", d->file);
    }
    fputc('\n', d->file);
}

static void put_ports(const mst_dump *d, const mst_ports *ports, const char *kind) {
    for (int32_t i = 0; i < ports->count; i++) {
        const muster_expr *node = d->program ? ports->items[i].node : ports->items[i].written;
        if (d->dot) fprintf(d->file, "  %s%d [shape=ellipse, label=\"", kind, (int)i);
        fprintf(d->file, "%s ", kind);
        mst_dump_text(d, "\"");
        mst_dump_text(d, ports->items[i].name);
        mst_dump_text(d, "\"");
        if (d->dot) {
            fputs("\"];\n", d->file);
            if (node && !mst_dump_is_inline(node)) fprintf(d->file, "  n%d -> %s%d;\n", (int)node->id, kind, (int)i);
            continue;
        }
        fputs(" = ", d->file);
        if (d->program && ports->items[i].pass != MST_PORT_ALONE) {
            put_pass(d, &ports->items[i]);
            continue;
        }
        mst_dump_operand(d, node);
        fputc('\n', d->file);
    }
}

static void put_all(mst_dump *d) {
    const mst_graph *graph = d->graph;
    int32_t count = 0;
    for (int32_t id = 0; id < graph->node_count; id++) count += d->used[id] && !mst_dump_is_inline(graph->nodes[id]);
    put_head(d, count);
    for (int32_t i = 0; i < (d->program ? d->program->count : graph->node_count); i++) {
        const muster_expr *node = d->program ? d->program->order[i] : graph->nodes[i];
        if (d->used[node->id] && !mst_dump_is_inline(node)) mst_dump_node(d, node);
    }
    if (d->dot && d->program) put_groups(d, d->program, 0);
    if (d->dot && d->program && d->program->loop) put_groups(d, d->program->loop->program, d->program->group_count);
    put_ports(d, &graph->outputs, "output");
    put_ports(d, &graph->updates, "update");
    if (d->dot) fputs("}\n", d->file);
}

/* The nodes that outputs and updates need; of a graph without any, all but the error. */
static void find_used(mst_dump *d) {
    const mst_graph *graph = d->graph;
    const mst_ports *const lists[] = {&graph->outputs, &graph->updates};
    for (int32_t l = 0; l < 2; l++)
        for (int32_t i = 0; i < lists[l]->count; i++) {
            const mst_graph_port *port = &lists[l]->items[i];
            if (port->node || !d->program) d->used[(d->program ? port->node : port->written)->id] = true;
        }
    for (int32_t i = 0; d->program && i < graph->scalars.count; i++) d->used[graph->scalars.items[i].node->id] = true;
    for (int32_t id = graph->node_count - 1; id >= 0; id--) {
        if (graph->outputs.count + graph->updates.count == 0) d->used[id] = graph->nodes[id] != graph->error;
        for (int32_t i = 0; d->used[id] && i < graph->nodes[id]->input_count; i++) d->used[graph->nodes[id]->inputs[i]->id] = true;
    }
}

/* Some results of a step, made again, or later than its others. */
static void find_again(mst_dump *d, int32_t s) {
    const mst_graph_program_step *step = &d->instance->steps[s];
    for (int32_t r = 0; r < step->out_count; r++) {
        if (step->out[r]->dtype == MUSTER_DTYPE_NONE) continue;
        const muster_expr *node = step->group ? step->group->members[step->group->results[r]] : step->node;
        const int32_t at = d->program->position[node->id];
        *(d->steps[at] < 0 ? &d->steps[at] : &d->again[at]) = s;
    }
}

/* Which step computes each value, and where it lies. */
static void find_steps(mst_dump *d) {
    const mst_instance *instance = d->instance;
    for (int32_t at = 0; at < d->program->count; at++) d->steps[at] = d->again[at] = d->bases[at] = -1;
    for (int32_t s = 0; s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        if (step->again) find_again(d, s);
        if (step->copy_from >= 0 || step->again) continue;
        for (int32_t at = 0; step->loop && at < d->program->count; at++)
            if (mst_program_phase(d->program, d->program->order[at]) == MST_PHASE_LOOP) d->steps[at] = s;
        if (step->loop) continue;
        d->steps[d->program->position[step->node->id]] = s;
        for (int32_t i = 0; step->group && i < step->group->member_count; i++)
            d->steps[d->program->position[step->group->members[i]->id]] = s;
    }
    for (int32_t b = 0; b < d->program->base_count; b++)
        for (int32_t i = instance->first_place[b]; i < instance->first_place[b + 1]; i++) {
            const int64_t at = instance->places[i].tensor - instance->tensors;
            if (at < 0 || at >= d->program->count) continue; /* a copy of an output */
            d->bases[at] = b;
            d->offsets[at] = instance->places[i].offset;
        }
}

/* Opened by its path, a file to which standard output is redirected would lose what the program has
 * written there before, and be written from its beginning. */
static FILE *open_file(const char *path) {
    const bool output = strcmp(path, "/dev/stdout") == 0;
    if (!output && strcmp(path, "/dev/stderr") != 0) return fopen(path, "we");
    fflush(output ? stdout : stderr);
    const int descriptor = fcntl(output ? STDOUT_FILENO : STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return NULL;
    FILE *file = fdopen(descriptor, "w");
    if (!file) close(descriptor);
    return file;
}

static muster_status dump_write(mst_dump *d, const char *where, const char *path) {
    const size_t nodes = (size_t)d->graph->node_count + 1;
    d->used = mst_alloc(nodes);
    d->steps = d->instance ? mst_alloc(nodes * sizeof *d->steps) : NULL;
    d->again = mst_alloc(nodes * sizeof *d->again);
    d->bases = mst_alloc(nodes * sizeof *d->bases);
    d->offsets = mst_alloc(nodes * sizeof *d->offsets);
    muster_status status = d->used && d->again && d->bases && d->offsets && (d->steps || !d->instance)
                               ? MUSTER_OK
                               : mst_out_of_memory(where, (int64_t)(nodes * sizeof *d->offsets));
    if (status == MUSTER_OK && !(d->file = open_file(path)))
        status =
            mst_error(MUSTER_SYSTEM, "%s: path: expected a file that can be written, received '%.300s': %s", where, path, strerror(errno));
    if (status == MUSTER_OK) {
        find_used(d);
        if (d->instance) find_steps(d);
        put_all(d);
        const bool failed = ferror(d->file);
        if (fclose(d->file) != 0 || failed)
            status = mst_error(MUSTER_SYSTEM, "%s: path: expected room for the file, received '%.300s': %s", where, path, strerror(errno));
    }
    mst_free(d->used);
    mst_free(d->steps);
    mst_free(d->again);
    mst_free(d->bases);
    mst_free(d->offsets);
    return status;
}

static muster_status check_arguments(const char *where, const char *path, muster_dump_format format) {
    if (!path) return mst_error_null(where, "path", "the path of a file");
    if (format == MUSTER_DUMP_TEXT || format == MUSTER_DUMP_DOT) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: format: expected MUSTER_DUMP_TEXT or MUSTER_DUMP_DOT, received %d", where, (int)format);
}

/* Numbers have points in every locale. */
static muster_status dump_in_c(mst_dump *d, const char *where, const char *path) {
    const locale_t before = mst_locale_begin();
    const muster_status status = dump_write(d, where, path);
    mst_locale_end(before);
    return status;
}

muster_status muster_graph_dump(muster_graph *handle, const char *path, muster_dump_format format) {
    static const char where[] = "muster_graph_dump";
    if (!handle) return mst_error_null(where, "graph", "a graph");
    if (!handle->graph) return mst_graph_destroyed(where);
    MUSTER_TRY(check_arguments(where, path, format));
    const mst_graph *graph = handle->graph;
    if (graph->status != MUSTER_OK) return mst_error_restore(graph->status, graph->message);
    mst_dump d = {.graph = graph, .dot = format == MUSTER_DUMP_DOT};
    return dump_in_c(&d, where, path);
}

muster_status muster_graph_dump_function(muster_function *function, const char *path, muster_dump_format format) {
    static const char where[] = "muster_graph_dump_function";
    void *user;
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(check_arguments(where, path, format));
    MUSTER_TRY(mst_function_enter(function, mst_graph_program_body, where, "one that muster_graph_compile gave", &user));
    const mst_graph_program *program = user;
    mst_dump d = {.graph = program->graph, .program = program, .instance = program->ranks[0].last, .dot = format == MUSTER_DUMP_DOT};
    const muster_status status = dump_in_c(&d, where, path);
    mst_function_leave(function);
    return status;
}
