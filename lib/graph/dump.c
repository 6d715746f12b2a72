/* Dumps of graphs and of compiled functions, as text and for Graphviz. */
#include "clock_impl.h"
#include "micro/micro_private.h"
#include "observe_private.h"
#include "owner_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct dump {
    FILE *file;
    const mst_graph *graph;
    const mst_graph_program *program; /* NULL: the graph as it was written */
    const mst_instance *instance;     /* of the master's latest call; NULL: there was none */
    bool dot;
    bool *used;       /* by id */
    int32_t *steps;   /* by position: the step that computes it, -1: none; NULL without an instance */
    int32_t *bases;   /* by position: the base that holds it, or MST_BASE_NONE */
    int64_t *offsets; /* by position: from the base, in bytes */
} dump;

/* ---- parts of a line ---- */

/* In DOT, within quotes. */
static void put_text(const dump *d, const char *text) {
    for (; *text; text++) {
        if (d->dot && (*text == '"' || *text == '\\')) fputc('\\', d->file);
        fputc(*text == '\n' ? ' ' : *text, d->file);
    }
}

static void put_line_end(const dump *d) { fputs(d->dot ? "\\n" : "  ", d->file); }

static bool is_inline(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_number) || mst_node_is_number(node); }

static void put_operand(const dump *d, const muster_expr *node) {
    if (mst_node_is(node, MST_OPERATOR_number))
        fprintf(d->file, "%.9g", node->values[0].number);
    else if (mst_node_is_number(node))
        fprintf(d->file, "%.9g", node->values[1].number);
    else
        fprintf(d->file, "%%%d", (int)node->id);
}

static void put_list(const dump *d, const mst_attribute_row *row, const mst_graph_value *value) {
    char text[64];
    fputc('[', d->file);
    for (int32_t i = 0; i < value->count; i++) {
        if (i) fputs(", ", d->file);
        if (row->kind == MST_VALUE_DIMS && value->list[i] != MST_DIM_NONE) {
            (void)mst_dim_print(d->graph, (mst_dim)value->list[i], text, sizeof text);
            fputs(text, d->file);
        } else if (value->list[i] == MUSTER_NONE) {
            fputs("None", d->file);
        } else {
            fprintf(d->file, "%lld", (long long)value->list[i]);
        }
    }
    fputc(']', d->file);
}

static void put_characters(const dump *d, const mst_graph_value *value) {
    char text[2] = {0};
    put_text(d, "\"");
    for (int32_t i = 0; i < value->count; i++) {
        text[0] = (char)value->list[i];
        put_text(d, text);
    }
    put_text(d, "\"");
}

/* The attributes that say more than their defaults. */
static void put_attributes(const dump *d, const muster_expr *node) {
    const bool slices = mst_node_is(node, MST_OPERATOR_slice) || mst_node_is(node, MST_OPERATOR_slice_gradient);
    for (int32_t a = 0; a < mst_operator_attribute_count(node->op); a++) {
        const mst_attribute_row *row = &node->op->attributes[a];
        const mst_graph_value *value = &node->values[a];
        const bool number = row->kind == MST_VALUE_NUMBER, list = row->kind == MST_VALUE_LIST || row->kind == MST_VALUE_DIMS;
        if (slices && a == 1) continue; /* the shape says it */
        if ((list || row->kind == MST_VALUE_TEXT) && !value->count) continue;
        if (!row->required && number && value->number == row->number) continue;
        if (!row->required && row->kind == MST_VALUE_INTEGER && value->integer == (int64_t)row->number) continue;
        fprintf(d->file, "%s%s=", a || node->input_count ? ", " : "", row->name);
        if (number)
            fprintf(d->file, "%.9g", value->number);
        else if (list)
            put_list(d, row, value);
        else if (row->kind == MST_VALUE_TEXT)
            put_characters(d, value);
        else if (row->kind == MST_VALUE_DTYPE)
            fputs(muster_dtype_name((muster_dtype)value->integer), d->file);
        else
            fprintf(d->file, "%lld", (long long)value->integer);
    }
}

static void put_operation(const dump *d, const muster_expr *node) {
    if (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)) {
        fprintf(d->file, "%s ", node->op->name);
        put_text(d, "\"");
        put_text(d, node->name);
        put_text(d, "\"");
        return;
    }
    fprintf(d->file, "%s(", node->op->name);
    for (int32_t i = 0; i < node->input_count; i++) {
        if (i) fputs(", ", d->file);
        put_operand(d, node->inputs[i]);
    }
    put_attributes(d, node);
    fputc(')', d->file);
    if (!node->name) return;
    put_line_end(d);
    put_text(d, "\"");
    put_text(d, node->name);
    put_text(d, "\"");
}

static void put_type(const dump *d, const muster_expr *node) {
    char text[MST_NODE_TEXT];
    put_line_end(d);
    if (d->steps && d->bases[d->program->position[node->id]] != MST_BASE_NONE) {
        const muster_tensor *t = &d->instance->tensors[d->program->position[node->id]];
        fputc('(', d->file);
        for (int32_t i = 0; i < t->ndim; i++) fprintf(d->file, i ? ", %lld" : "%lld", (long long)t->shape[i]);
        fputs(t->ndim == 1 ? ",)" : ")", d->file);
    } else {
        fputs(mst_type_text(d->graph, &node->type, text), d->file);
    }
    fprintf(d->file, " %s", node->type.dtype == MUSTER_DTYPE_NONE ? "number" : muster_dtype_name(node->type.dtype));
}

static double received(const dump *d, const muster_expr *node, mst_distribution to) {
    return mst_bytes_received(node, to, d->instance->sizes, d->instance->sharing.size);
}

/* Of a distributed function: how the workers share the value, and what an exchange moves. */
static void put_distribution(const dump *d, const muster_expr *node) {
    char text[MST_DISTRIBUTION_TEXT];
    if (!d->program || !d->program->distributed) return;
    put_line_end(d);
    fputs(mst_distribution_text(node->distribution, text), d->file);
    if (!d->instance || !mst_node_exchanges(node)) return;
    fprintf(d->file, ", receives %.0f bytes", received(d, node->inputs[0], node->distribution));
}

/* What each worker receives in a call, on average. */
static void put_exchanges(const dump *d) {
    double bytes = 0;
    int32_t count = 0;
    for (int32_t at = 0; at < d->program->count; at++) {
        if (d->steps[at] < 0 || !mst_node_exchanges(d->program->order[at])) continue;
        bytes += received(d, d->program->order[at]->inputs[0], d->program->order[at]->distribution);
        count++;
    }
    for (int32_t i = 0; i < d->graph->updates.count; i++) {
        const mst_graph_port *port = &d->graph->updates.items[i];
        if (port->pass == MST_PORT_GRADIENT && port->node->distribution.kind == MST_PARTIAL)
            bytes += received(d, port->node, MST_DISTRIBUTED_SAME);
    }
    count += d->program->pass != NULL;
    fprintf(d->file, ", %d workers, each receives %.0f bytes in %d exchanges", (int)d->instance->sharing.size, bytes, (int)count);
}

/* The loop, and the memory that a micro-batch has within the block. */
static void put_micro_batches(const dump *d) {
    for (int32_t s = 0; s < d->instance->step_count; s++) {
        const struct mst_loop_run *run = d->instance->steps[s].loop;
        if (!run) continue;
        fprintf(d->file, ", %lld micro-batches of %lld bytes", (long long)run->slices, (long long)run->block->shape[0]);
        if (d->program->timed) fprintf(d->file, " in %.3f us", (double)d->instance->steps[s].ticks / mst_ticks_per_ns() / 1000);
    }
}

static void put_places(const dump *d, const muster_expr *node) {
    char text[MST_NODE_TEXT];
    int32_t count = 0;
    for (const mst_origin *o = &node->origin; o; o = o->next) {
        (void)mst_origin_text(o, text);
        if (!*text) continue;
        if (count++)
            fputs(", ", d->file);
        else
            put_line_end(d);
        put_text(d, text);
    }
}

/* ---- memory and times ---- */

static const mst_graph_port *port_of(const dump *d, int32_t base, const char **kind) {
    const mst_ports *const lists[] = {&d->graph->inputs, &d->graph->variables, &d->graph->outputs, &d->graph->updates};
    static const char *const kinds[] = {"input", "variable", "output", "update"};
    base--;
    for (int32_t l = 0; l < 4; base -= lists[l++]->count)
        if (base < lists[l]->count) {
            *kind = kinds[l];
            return &lists[l]->items[base];
        }
    return NULL;
}

static void put_memory(const dump *d, int32_t at) {
    const int64_t bytes = muster_tensor_bytes(d->instance->tensors[at]);
    const char *kind = "";
    if (d->bases[at] == MST_BASE_NONE) return;
    put_line_end(d);
    if (d->bases[at] == MST_BASE_ARENA) {
        fprintf(d->file, "block %lld to %lld", (long long)d->offsets[at], (long long)(d->offsets[at] + bytes));
        return;
    }
    const mst_graph_port *port = port_of(d, d->bases[at], &kind);
    fprintf(d->file, "%s ", kind);
    put_text(d, "\"");
    put_text(d, port->name);
    put_text(d, "\"");
}

static void put_time(const dump *d, int32_t step) {
    if (!d->program->timed || step < 0) return;
    put_line_end(d);
    fprintf(d->file, "%.3f us", (double)d->instance->steps[step].ticks / mst_ticks_per_ns() / 1000);
}

/* What is known of a node in an instance: a step, a view of other memory, or no need of it. */
static void put_step(const dump *d, const muster_expr *node) {
    const int32_t at = d->program->position[node->id], step = d->steps[at];
    const bool given = mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter);
    if (given) return put_memory(d, at);
    put_line_end(d);
    if (step >= 0 && d->instance->steps[step].loop) {
        fprintf(d->file, "step %d, in micro-batches", (int)step);
        return put_memory(d, at);
    }
    if (step >= 0)
        fprintf(d->file, "step %d", (int)step);
    else
        fputs(d->bases[at] == MST_BASE_NONE ? "not computed" : "view", d->file);
    if (step >= 0 && d->instance->steps[step].group && d->bases[at] == MST_BASE_NONE) fputs(", in the group only", d->file);
    put_memory(d, at);
    put_time(d, step);
}

/* Those of the loop over micro-batches come behind the others. */
static int32_t group_of(const dump *d, const muster_expr *node) {
    if (mst_program_phase(d->program, node) != MST_PHASE_LOOP) return mst_program_group(d->program, node);
    const int32_t group = mst_program_group(d->program->loop->program, node);
    return group < 0 ? -1 : d->program->group_count + group;
}

static void put_node(const dump *d, const muster_expr *node) {
    const int32_t group = d->program ? group_of(d, node) : -1;
    if (d->dot)
        fprintf(d->file, "  n%d [label=\"%%%d = ", (int)node->id, (int)node->id);
    else
        fprintf(d->file, "%%%d = ", (int)node->id);
    put_operation(d, node);
    put_type(d, node);
    put_distribution(d, node);
    if (group >= 0 && !d->dot) fprintf(d->file, "  group %d", (int)group);
    if (d->steps) put_step(d, node);
    put_places(d, node);
    fputs(d->dot ? "\"];\n" : "\n", d->file);
    for (int32_t i = 0; d->dot && i < node->input_count; i++)
        if (!is_inline(node->inputs[i])) fprintf(d->file, "  n%d -> n%d;\n", (int)node->inputs[i]->id, (int)node->id);
}

/* ---- the whole ---- */

static void put_head(const dump *d, int32_t count) {
    static const char *const comments[] = {"", "// "};
    if (d->dot) {
        fputs("digraph \"", d->file);
        put_text(d, d->graph->name);
        fputs("\" {\n  node [shape=box, fontname=\"monospace\"];\n", d->file);
    }
    fprintf(d->file, "%s%s \"%s\": %d expressions", comments[d->dot], d->program ? "function" : "graph", d->graph->name, (int)count);
    if (d->program)
        fprintf(d->file, ", %d groups", (int)(d->program->group_count + (d->program->loop ? d->program->loop->program->group_count : 0)));
    if (d->instance) {
        fprintf(d->file, ", %d steps, a block of %lld bytes", (int)d->instance->step_count, (long long)d->instance->arena_bytes);
        for (int32_t s = 0; s < d->graph->size_count; s++)
            if (d->instance->sizes[s] >= 0) fprintf(d->file, ", %s = %lld", d->graph->size_names[s], (long long)d->instance->sizes[s]);
        put_micro_batches(d);
        if (d->program->distributed && (d->instance->sharing.size > 1 || d->graph->runtime->logical_shards)) put_exchanges(d);
    }
    fputc('\n', d->file);
}

static void put_groups(const dump *d, const mst_graph_program *program, int32_t first) {
    for (int32_t g = 0; g < program->group_count; g++) {
        const mst_fused_group *group = &program->groups[g];
        fprintf(d->file, "  subgraph cluster_%d { label=\"group %d\";", (int)(first + g), (int)(first + g));
        for (int32_t i = 0; i < group->member_count; i++) fprintf(d->file, " n%d;", (int)group->members[i]->id);
        fputs(" }\n", d->file);
    }
}

/* An update by a rule, in one pass with the exchange of the gradient. */
static void put_pass(const dump *d, const muster_expr *gradient) {
    if (gradient) {
        fputs("its rule for the gradient ", d->file);
        put_operand(d, gradient);
        fputs(", in one pass", d->file);
        if (gradient->distribution.kind == MST_PARTIAL && d->instance)
            fprintf(d->file, ", receives %.0f bytes", received(d, gradient, MST_DISTRIBUTED_SAME));
    } else {
        fputs("in the pass of its parameter", d->file);
    }
    fputc('\n', d->file);
}

static void put_ports(const dump *d, const mst_ports *ports, const char *kind) {
    for (int32_t i = 0; i < ports->count; i++) {
        const muster_expr *node = d->program ? ports->items[i].node : ports->items[i].written;
        if (d->dot) fprintf(d->file, "  %s%d [shape=ellipse, label=\"", kind, (int)i);
        fprintf(d->file, "%s ", kind);
        put_text(d, "\"");
        put_text(d, ports->items[i].name);
        put_text(d, "\"");
        if (d->dot) {
            fputs("\"];\n", d->file);
            if (node && !is_inline(node)) fprintf(d->file, "  n%d -> %s%d;\n", (int)node->id, kind, (int)i);
            continue;
        }
        fputs(" = ", d->file);
        if (d->program && ports->items[i].pass != MST_PORT_ALONE) {
            put_pass(d, node);
            continue;
        }
        put_operand(d, node);
        fputc('\n', d->file);
    }
}

static void put_all(dump *d) {
    const mst_graph *graph = d->graph;
    int32_t count = 0;
    for (int32_t id = 0; id < graph->node_count; id++) count += d->used[id] && !is_inline(graph->nodes[id]);
    put_head(d, count);
    for (int32_t i = 0; i < (d->program ? d->program->count : graph->node_count); i++) {
        const muster_expr *node = d->program ? d->program->order[i] : graph->nodes[i];
        if (d->used[node->id] && !is_inline(node)) put_node(d, node);
    }
    if (d->dot && d->program) put_groups(d, d->program, 0);
    if (d->dot && d->program && d->program->loop) put_groups(d, d->program->loop->program, d->program->group_count);
    put_ports(d, &graph->outputs, "output");
    put_ports(d, &graph->updates, "update");
    if (d->dot) fputs("}\n", d->file);
}

/* The nodes that outputs and updates need; of a graph without any, all but the error. */
static void find_used(dump *d) {
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

/* Which step computes each value, and where it lies. */
static void find_steps(dump *d) {
    const mst_instance *instance = d->instance;
    for (int32_t at = 0; at < d->program->count; at++) d->steps[at] = d->bases[at] = -1;
    for (int32_t s = 0; s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        if (step->copy_from >= 0) continue;
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

static muster_status dump_write(dump *d, const char *where, const char *path) {
    const size_t nodes = (size_t)d->graph->node_count + 1;
    d->used = mst_alloc(nodes);
    d->steps = d->instance ? mst_alloc(nodes * sizeof *d->steps) : NULL;
    d->bases = mst_alloc(nodes * sizeof *d->bases);
    d->offsets = mst_alloc(nodes * sizeof *d->offsets);
    muster_status status = d->used && d->bases && d->offsets && (d->steps || !d->instance)
                               ? MUSTER_OK
                               : mst_out_of_memory(where, (int64_t)(nodes * sizeof *d->offsets));
    if (status == MUSTER_OK && !(d->file = fopen(path, "we")))
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
    mst_free(d->bases);
    mst_free(d->offsets);
    return status;
}

static muster_status check_arguments(const char *where, const char *path, muster_dump_format format) {
    if (!path) return mst_error_null(where, "path", "the path of a file");
    if (format == MUSTER_DUMP_TEXT || format == MUSTER_DUMP_DOT) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: format: expected MUSTER_DUMP_TEXT or MUSTER_DUMP_DOT, received %d", where, (int)format);
}

muster_status muster_graph_dump(muster_graph *handle, const char *path, muster_dump_format format) {
    static const char where[] = "muster_graph_dump";
    if (!handle) return mst_error_null(where, "graph", "a graph");
    if (!handle->graph) return mst_graph_destroyed(where);
    MUSTER_TRY(check_arguments(where, path, format));
    const mst_graph *graph = handle->graph;
    if (graph->status != MUSTER_OK) return mst_error_restore(graph->status, graph->message);
    dump d = {.graph = graph, .dot = format == MUSTER_DUMP_DOT};
    return dump_write(&d, where, path);
}

muster_status muster_graph_dump_function(muster_function *function, const char *path, muster_dump_format format) {
    static const char where[] = "muster_graph_dump_function";
    void *user;
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(check_arguments(where, path, format));
    MUSTER_TRY(mst_function_enter(function, mst_graph_program_body, where, "one that muster_graph_compile gave", &user));
    const mst_graph_program *program = user;
    dump d = {.graph = program->graph, .program = program, .instance = program->ranks[0].last, .dot = format == MUSTER_DUMP_DOT};
    const muster_status status = dump_write(&d, where, path);
    mst_function_leave(function);
    return status;
}
