/* A line of a dump: one expression, with its attributes, shape, distribution, memory and places. */
#include "clock_impl.h"
#include "dump_private.h"
#include "micro/micro_private.h"

/* ---- the operation ---- */

void mst_dump_text(const mst_dump *d, const char *text) {
    for (; *text; text++) {
        if (d->dot && (*text == '"' || *text == '\\')) fputc('\\', d->file);
        fputc(*text == '\n' ? ' ' : *text, d->file);
    }
}

static void put_line_end(const mst_dump *d) { fputs(d->dot ? "\\n" : "  ", d->file); }

bool mst_dump_is_inline(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_number) || mst_node_is_number(node); }

void mst_dump_operand(const mst_dump *d, const muster_expr *node) {
    if (mst_node_is(node, MST_OPERATOR_number))
        fprintf(d->file, "%.9g", node->values[0].number);
    else if (mst_node_is_number(node))
        fprintf(d->file, "%.9g", node->values[1].number);
    else
        fprintf(d->file, "%%%d", (int)node->id);
}

static void put_list(const mst_dump *d, const mst_attribute_row *row, const mst_graph_value *value) {
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

static void put_characters(const mst_dump *d, const mst_graph_value *value) {
    char text[2] = {0};
    mst_dump_text(d, "\"");
    for (int32_t i = 0; i < value->count; i++) {
        text[0] = (char)value->list[i];
        mst_dump_text(d, text);
    }
    mst_dump_text(d, "\"");
}

/* The attributes that say more than their defaults. */
static void put_attributes(const mst_dump *d, const muster_expr *node) {
    const bool slices = mst_node_is(node, MST_OPERATOR_slice) || mst_node_is(node, MST_OPERATOR_slice_gradient);
    for (int32_t a = 0; a < mst_operator_attribute_count(node->op); a++) {
        const mst_attribute_row *row = &node->op->attributes[a];
        const mst_graph_value *value = &node->values[a];
        const bool number = row->kind == MST_VALUE_NUMBER, list = row->kind == MST_VALUE_LIST || row->kind == MST_VALUE_DIMS;
        if (slices && a == 1) continue; /* the shape says it */
        if ((list || row->kind == MST_VALUE_TEXT) && !value->count) continue;
        if (!row->required && number && value->number == row->number) continue;
        if (!row->required && row->kind == MST_VALUE_INTEGER && value->integer == (int64_t)row->number) continue;
        if (!row->required && row->kind == MST_VALUE_DTYPE && value->integer == MUSTER_DTYPE_NONE) continue;
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

static void put_operation(const mst_dump *d, const muster_expr *node) {
    if (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)) {
        fprintf(d->file, "%s ", node->op->name);
        mst_dump_text(d, "\"");
        mst_dump_text(d, node->name);
        mst_dump_text(d, "\"");
        return;
    }
    fprintf(d->file, "%s(", node->op->name);
    for (int32_t i = 0; i < node->input_count; i++) {
        if (i) fputs(", ", d->file);
        mst_dump_operand(d, node->inputs[i]);
    }
    put_attributes(d, node);
    fputc(')', d->file);
    if (!node->name) return;
    put_line_end(d);
    mst_dump_text(d, "\"");
    mst_dump_text(d, node->name);
    mst_dump_text(d, "\"");
}

static void put_type(const mst_dump *d, const muster_expr *node) {
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

double mst_dump_received(const mst_dump *d, const muster_expr *node, mst_distribution to) {
    return mst_bytes_received(node, to, d->instance->sizes, d->instance->sharing.size);
}

/* Of a distributed function: how the workers share the value, and what an exchange moves. */
static void put_distribution(const mst_dump *d, const muster_expr *node) {
    char text[MST_DISTRIBUTION_TEXT];
    if (!d->program || !d->program->distributed) return;
    put_line_end(d);
    fputs(mst_distribution_text(node->distribution, text), d->file);
    if (!d->instance || !mst_node_exchanges(node)) return;
    fprintf(d->file, ", receives %.0f bytes", mst_dump_received(d, node->inputs[0], node->distribution));
}

static void put_places(const mst_dump *d, const muster_expr *node) {
    char text[MST_NODE_TEXT];
    int32_t count = 0;
    for (const mst_origin *o = &node->origin; o; o = o->next) {
        (void)mst_origin_text(o, text);
        if (!*text) continue;
        if (count++)
            fputs(", ", d->file);
        else
            put_line_end(d);
        mst_dump_text(d, text);
    }
}

/* ---- memory and times ---- */

static const mst_graph_port *port_of(const mst_dump *d, int32_t base, const char **kind) {
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

static void put_memory(const mst_dump *d, int32_t at) {
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
    mst_dump_text(d, "\"");
    mst_dump_text(d, port->name);
    mst_dump_text(d, "\"");
}

static void put_time(const mst_dump *d, int32_t step) {
    if (!d->program->timed || step < 0) return;
    put_line_end(d);
    fprintf(d->file, "%.3f us", (double)d->instance->steps[step].ticks / mst_ticks_per_ns() / 1000);
}

/* What is known of a node in an instance: a step, a view of other memory, or no need of it. */
static void put_step(const mst_dump *d, const muster_expr *node) {
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
    if (d->again[at] >= 0) fprintf(d->file, ", again in step %d", (int)d->again[at]);
    if (step >= 0 && d->instance->steps[step].group && d->bases[at] == MST_BASE_NONE) fputs(", in the group only", d->file);
    put_memory(d, at);
    put_time(d, step);
}

/* Those of the loop over micro-batches come behind the others. */
static int32_t group_of(const mst_dump *d, const muster_expr *node) {
    if (mst_program_phase(d->program, node) != MST_PHASE_LOOP) return mst_program_group(d->program, node);
    const int32_t group = mst_program_group(d->program->loop->program, node);
    return group < 0 ? -1 : d->program->group_count + group;
}

void mst_dump_node(const mst_dump *d, const muster_expr *node) {
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
        if (!mst_dump_is_inline(node->inputs[i])) fprintf(d->file, "  n%d -> n%d;\n", (int)node->inputs[i]->id, (int)node->id);
}
