/* Sizes of an instance, from the shapes of the inputs, and the shapes of values. */
#include "instance_private.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

const char *mst_shape_print(const mst_making *m, const muster_tensor *t, bool by_rows, char text[MST_NODE_TEXT]) {
    const int64_t rows = m->program->ranks ? m->program->ranks[m->rank].call_rows : 0;
    size_t length = (size_t)snprintf(text, MST_NODE_TEXT, "(");
    for (int32_t d = 0; d < t->ndim && length < 120; d++)
        length += (size_t)snprintf(text + length, MST_NODE_TEXT - length, d ? ", %lld" : "%lld",
                                   (long long)(d == 0 && by_rows && rows ? rows : t->shape[d]));
    snprintf(text + length, MST_NODE_TEXT - length, t->ndim == 1 ? ",)" : ")");
    return text;
}

/* The size that a monomial consists of, or -1. */
static int32_t single_size(const mst_graph *graph, mst_dim dim) {
    const mst_monomial *m = &graph->dims[dim];
    int32_t found = -1;
    if (m->factor != 1) return -1;
    for (int32_t s = 0; s < MST_SIZES; s++) {
        if (!m->powers[s]) continue;
        if (found >= 0 || m->powers[s] != 1) return -1;
        found = s;
    }
    return found;
}

static const mst_graph_port *given_port(const mst_graph_program *program, int32_t i) {
    return i < program->input_count ? &program->graph->inputs.items[i] : &program->graph->variables.items[i - program->input_count];
}

static const char *split_print(int32_t axis, char text[MST_NODE_TEXT]) {
    (void)snprintf(text, MST_NODE_TEXT, axis < 0 ? "not split" : "split along axis %d", (int)axis);
    return text;
}

static bool is_scattered(const mst_graph_program *program, int32_t i) {
    return i < program->input_count && given_port(program, i)->mode != MUSTER_BROADCAST;
}

static muster_status sizes_refuse(const mst_making *m, int32_t i, const muster_tensor *given) {
    char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
    const mst_graph_program *program = m->program;
    const mst_graph_port *port = given_port(program, i);
    if (program->distributed && port->variable && port->variable->object.runtime->total > 1 && port->mode != MUSTER_USE_READ_SLICEABLE) {
        /* Whole shapes may be equal here: the parts are what differs. */
        const int32_t was = port->node->distribution.kind == MST_CUT ? port->node->distribution.axis : -1;
        const int32_t is = mst_variable_split_axis(port->variable);
        if (was != is)
            return mst_error(MUSTER_SHAPE_MISMATCH,
                             "variable \"%.60s\": expected one that is %s, as when the graph was compiled, received one that is %s",
                             port->name, split_print(was, expected), split_print(is, received));
    }
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected %s, received %s", i < program->input_count ? "input" : "variable",
                     port->name, mst_type_text(program->graph, &port->node->type, expected),
                     mst_shape_print(m, given, is_scattered(program, i), received));
}

/* Of a distributed program the rows are those of all workers, and each has its part of what is cut.
 * */
static void local_shape(const mst_graph_program *program, const mst_instance *instance, const muster_expr *node, int64_t *shape) {
    mst_local_shape(program->graph, &node->type, node->distribution, instance->sizes, &instance->sharing, shape);
}

/* The first use of a size gives its value; all others are compared. */
muster_status mst_instance_sizes(const mst_making *m, const muster_tensor *given) {
    const mst_graph_program *program = m->program;
    mst_instance *instance = m->instance;
    const mst_graph *graph = program->graph;
    int64_t *sizes = instance->sizes;
    const int32_t count = program->input_count + program->variable_count;
    for (int32_t s = 0; s < MST_SIZES; s++) sizes[s] = -1;
    if (program->distributed) sizes[MST_SIZE_ROWS] = instance->sharing.rows;
    for (int32_t i = 0; i < count; i++) {
        const mst_type *type = &given_port(program, i)->node->type;
        if (given[i].ndim != type->ndim) return sizes_refuse(m, i, &given[i]);
        for (int32_t d = 0; d < type->ndim; d++) {
            const int32_t size = single_size(graph, type->dims[d]);
            if (size >= 0 && sizes[size] < 0) sizes[size] = given[i].shape[d];
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const mst_type *type = &given_port(program, i)->node->type;
        int64_t expects[MUSTER_MAX_DIMS];
        if (given_port(program, i)->variable && given_port(program, i)->variable->portions) continue; /* it is of the pass alone */
        local_shape(program, instance, given_port(program, i)->node, expects);
        for (int32_t d = 0; d < type->ndim; d++) {
            if (expects[d] == given[i].shape[d]) continue;
            const int32_t size = single_size(graph, type->dims[d]);
            if (size < 0) return sizes_refuse(m, i, &given[i]);
            char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected %s with %s = %lld, as in an input before it, received %s",
                             i < program->input_count ? "input" : "variable", given_port(program, i)->name,
                             mst_type_text(graph, type, expected), graph->size_names[size], (long long)sizes[size],
                             mst_shape_print(m, &given[i], is_scattered(program, i), received));
        }
    }
    return MUSTER_OK;
}

/* A partial value for each logical shard, along a new first axis. */
static bool shape_by_shard(muster_tensor *tensor, int32_t shards, int64_t *elements) {
    for (int32_t d = tensor->ndim++; d > 0; d--) {
        tensor->shape[d] = tensor->shape[d - 1];
        tensor->strides[d] = tensor->strides[d - 1];
    }
    tensor->shape[0] = shards;
    tensor->strides[0] = *elements;
    return mst_multiply(*elements, shards, elements);
}

muster_status mst_instance_shape(const mst_making *m, const muster_expr *node, muster_tensor *tensor) {
    const mst_type *type = &node->type;
    int64_t elements = 1;
    *tensor = (muster_tensor){.dtype = type->dtype, .ndim = type->ndim, .device = MUSTER_DEVICE_HOST};
    bool fits = true;
    const int32_t shards = m->instance->sharing.shards_here;
    local_shape(m->program, m->instance, node, tensor->shape);
    for (int32_t d = type->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = elements;
        fits = fits && tensor->shape[d] >= 0 && mst_multiply(elements, tensor->shape[d] > 0 ? tensor->shape[d] : 1, &elements);
    }
    if (shards && node->distribution.kind == MST_PARTIAL) fits = fits && shape_by_shard(tensor, shards, &elements);
    if (fits && elements <= INT64_MAX / 16) {
        mst_layout_set(m->program, node, tensor);
        return MUSTER_OK;
    }
    char text[MST_NODE_TEXT];
    return mst_error(MUSTER_OVERFLOW, "a value of shape %s has more elements than 64 bits count",
                     mst_type_text(m->program->graph, type, text));
}
