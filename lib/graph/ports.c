/* What a graph is connected to: inputs, parameters, numbers, outputs, updates. */
#include "graph_private.h"
#include "runtime_impl.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

static muster_status port_add(mst_graph *graph, const char *where, mst_ports *ports, const mst_graph_port *port) {
    MUSTER_TRY(mst_grow((void **)&ports->items, &ports->capacity, ports->count + 1, sizeof *ports->items, where));
    ports->items[ports->count] = *port;
    if (port->name && !(ports->items[ports->count].name = mst_arena_text(&graph->arena, port->name)))
        return mst_out_of_memory(where, (int64_t)strlen(port->name));
    ports->count++;
    return MUSTER_OK;
}

/* `names` has those of the ports, and may have others: without the name there is no port to
 * compare. */
static muster_status port_name(const mst_graph *graph, const char *where, const mst_ports *ports, const mst_names *names,
                               const char *name) {
    if (!name || !*name) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name, received %s", where, name ? "\"\"" : "NULL");
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    if (!mst_names_find(names, name, (int32_t)strlen(name))) return MUSTER_OK;
    for (int32_t i = 0; i < ports->count; i++)
        if (strcmp(ports->items[i].name, name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected one that graph \"%s\" does not have yet, received \"%.60s\"",
                             where, graph->name, name);
    return MUSTER_OK;
}

static muster_status input_check(mst_graph *graph, const char *where, const char *name, muster_dtype dtype, int32_t ndim,
                                 const int64_t *shape, muster_input_mode mode) {
    const int32_t plain = mode & ~MUSTER_INPUT_HOST;
    MUSTER_TRY(port_name(graph, where, &graph->inputs, &graph->names, name));
    if (dtype <= MUSTER_DTYPE_NONE || dtype >= MST_DTYPE_COUNT)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: input \"%.60s\": dtype: expected a dtype, received %d", where, name, (int)dtype);
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: input \"%.60s\": ndim: expected 0 to %d, received %d", where, name, MUSTER_MAX_DIMS,
                         (int)ndim);
    if (ndim && !shape)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: input \"%.60s\": shape: expected %d sizes, received NULL", where, name, (int)ndim);
    if (plain != MUSTER_SCATTER && plain != MUSTER_BROADCAST && plain != MUSTER_MINIBATCH)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: input \"%.60s\": mode: expected MUSTER_SCATTER, MUSTER_BROADCAST or MUSTER_MINIBATCH, received %d", where,
                         name, (int)mode);
    if (mode & MUSTER_INPUT_HOST)
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: input \"%.60s\": mode: expected a mode without MUSTER_INPUT_HOST, since operations run on the device, received %d", where,
            name, (int)mode);
    if (plain != MUSTER_BROADCAST && (ndim == 0 || shape[0] != MUSTER_ROWS))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: input \"%.60s\": shape: expected MUSTER_ROWS first, since the input is scattered, received %s", where, name,
                         ndim ? "another size" : "a scalar");
    if (plain == MUSTER_BROADCAST)
        for (int32_t d = 0; d < ndim; d++)
            if (shape[d] == MUSTER_ROWS)
                return mst_error(MUSTER_INVALID_ARGUMENT,
                                 "%s: input \"%.60s\": shape: expected sizes other than MUSTER_ROWS, since the input is not scattered, "
                                 "received it in axis %d",
                                 where, name, (int)d);
    return MUSTER_OK;
}

muster_expr *(muster_graph_input)(muster_graph *handle, const char *name, muster_dtype dtype, int32_t ndim, const int64_t *shape,
                                  muster_input_mode mode) {
    return muster_graph_input_at(NULL, handle, name, dtype, ndim, shape, mode);
}

muster_expr *muster_graph_input_at(const char *place, muster_graph *handle, const char *name, muster_dtype dtype, int32_t ndim,
                                   const int64_t *shape, muster_input_mode mode) {
    char where[MST_PLACE_TEXT];
    mst_place_text(place, "muster_graph_input", where);
    if (mst_graph_check(handle, where) != MUSTER_OK) return NULL;
    mst_graph *graph = handle->graph;
    mst_type type = {.dtype = dtype, .ndim = ndim};
    muster_status status = input_check(graph, where, name, dtype, ndim, shape, mode);
    for (int32_t d = 0; status == MUSTER_OK && d < ndim; d++) {
        type.dims[d] = mst_dim_read(graph, shape[d]);
        if (type.dims[d] == MST_DIM_NONE)
            status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: input \"%.60s\": shape: entry %d: expected a size, received %lld", where, name,
                               (int)d, (long long)shape[d]);
    }
    muster_expr *node = status == MUSTER_OK ? mst_node_add(graph, mst_operators[MST_OPERATOR_input], &type, NULL) : NULL;
    if (status == MUSTER_OK && !node) status = graph->status;
    if (node) {
        node->at = graph->inputs.count;
        status = port_add(graph, where, &graph->inputs, &(mst_graph_port){.name = name, .node = node, .mode = mode});
        if (status == MUSTER_OK) {
            node->name = graph->inputs.items[graph->inputs.count - 1].name;
            status = mst_names_add(&graph->names, node->name, (int32_t)strlen(node->name), node);
        }
    }
    if (status == MUSTER_OK) return node;
    (void)mst_graph_keep(graph, status);
    return graph->error;
}

/* Is the variable there, and of the runtime of the graph? */
static muster_status variable_check(const mst_graph *graph, const char *where, const muster_variable *variable) {
    if (!variable) return mst_error_null(where, "variable", "a variable");
    if (!variable->object.runtime->pool) return mst_pool_ready(NULL, where);
    if (variable->object.runtime == graph->runtime) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable: expected one of the runtime of graph \"%s\", received \"%.60s\" of another",
                     where, graph->name, variable->object.name);
}

static muster_expr *parameter_find(const mst_graph *graph, const muster_variable *variable, bool rows) {
    for (int32_t i = 0; i < graph->variables.count; i++)
        if (graph->variables.items[i].variable == variable && (graph->variables.items[i].mode == MUSTER_USE_READ_SLICEABLE) == rows)
            return graph->variables.items[i].node;
    return NULL;
}

static muster_expr *parameter_add(mst_graph *graph, const char *where, muster_variable *variable, bool rows) {
    muster_status status = variable_check(graph, where, variable);
    if (status != MUSTER_OK) {
        (void)mst_graph_keep(graph, status);
        return graph->error;
    }
    muster_expr *node = parameter_find(graph, variable, rows);
    if (node) return node;
    int64_t shape[MUSTER_MAX_DIMS];
    mst_type type = {.dtype = muster_variable_dtype(variable), .ndim = muster_variable_ndim(variable)};
    status = muster_variable_whole_shape(variable, type.ndim, shape);
    if (status == MUSTER_OK && rows && mst_variable_split_axis(variable) >= 0)
        status = mst_error(MUSTER_UNSUPPORTED,
                           "%s: variable \"%s\": expected one that is not split (muster_graph_parameter takes it), received one that is "
                           "split along axis %d",
                           where, muster_variable_name(variable), (int)mst_variable_split_axis(variable));
    if (status == MUSTER_OK && rows && type.ndim == 0)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable \"%s\": expected one with rows, received a scalar", where,
                           muster_variable_name(variable));
    for (int32_t d = 0; status == MUSTER_OK && d < type.ndim; d++) {
        type.dims[d] = rows && d == 0 ? mst_dim_size(graph, MST_SIZE_ROWS) : mst_dim_number(graph, shape[d]);
        if (type.dims[d] == MST_DIM_NONE) status = graph->status;
    }
    const mst_origin none = {0};
    graph->origin = none;
    if (status == MUSTER_OK) {
        node = mst_node_add(graph, mst_operators[MST_OPERATOR_parameter], &type, NULL);
        if (!node) status = graph->status;
    }
    if (node) {
        node->at = graph->variables.count;
        status = port_add(graph, where, &graph->variables,
                          &(mst_graph_port){.name = muster_variable_name(variable),
                                            .node = node,
                                            .variable = variable,
                                            .mode = rows ? MUSTER_USE_READ_SLICEABLE : MUSTER_USE_READ});
        if (status == MUSTER_OK) {
            node->name = graph->variables.items[graph->variables.count - 1].name;
            status = mst_names_add(&graph->names, node->name, (int32_t)strlen(node->name), node);
        }
    }
    if (status == MUSTER_OK) return node;
    (void)mst_graph_keep(graph, status);
    return graph->error;
}

muster_expr *muster_graph_parameter(muster_graph *handle, muster_variable *variable) {
    static const char where[] = "muster_graph_parameter";
    return mst_graph_check(handle, where) == MUSTER_OK ? parameter_add(handle->graph, where, variable, false) : NULL;
}

muster_expr *muster_graph_parameter_rows(muster_graph *handle, muster_variable *variable) {
    static const char where[] = "muster_graph_parameter_rows";
    return mst_graph_check(handle, where) == MUSTER_OK ? parameter_add(handle->graph, where, variable, true) : NULL;
}

static muster_status split_check(const muster_expr *parameter, const char *where, int32_t axis) {
    const mst_graph *graph = parameter->graph;
    char text[MST_NODE_TEXT];
    const bool variable = mst_node_is(parameter, MST_OPERATOR_parameter) && graph->variables.items[parameter->at].mode == MUSTER_USE_READ;
    if (!variable)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameter: expected an expression of muster_graph_parameter, received %s", where,
                         mst_node_text(parameter, NULL, text));
    if (axis < -parameter->type.ndim || axis >= parameter->type.ndim)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: axis: expected one of %s, received %d", where, mst_node_text(parameter, NULL, text),
                         (int)axis);
    return MUSTER_OK;
}

/* What one process refuses, it tells the others in the round of muster_variable_split, which they
 * make. */
muster_status muster_graph_split(muster_expr *parameter, int32_t axis) {
    static const char where[] = "muster_graph_split";
    if (!parameter) return mst_error_null(where, "parameter", "an expression");
    mst_graph *graph = parameter->graph;
    MUSTER_TRY(mst_graph_check_runtime(graph, where));
    muster_status status = mst_graph_check_open(graph, where);
    if (status == MUSTER_OK && mst_node_is_error(parameter)) status = mst_error_restore(graph->status, graph->message);
    if (status != MUSTER_OK) return mst_variables_refuse(graph->runtime, where, NULL, status);
    status = split_check(parameter, where, axis);
    if (status == MUSTER_OK)
        status = muster_variable_split(graph->variables.items[parameter->at].variable, axis < 0 ? axis + parameter->type.ndim : axis);
    else
        status = mst_variables_refuse(graph->runtime, where, NULL, status);
    return status == MUSTER_OK ? MUSTER_OK : mst_graph_keep(graph, status);
}

muster_expr *muster_graph_number(muster_graph *handle, double value) {
    if (mst_graph_check(handle, "muster_graph_number") != MUSTER_OK) return NULL;
    return mst_apply(handle->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = value}});
}

/* ---- outputs and updates ---- */

static muster_status output_check(mst_graph *graph, const char *where, const char *name, muster_expr *value, muster_collect_mode mode) {
    char text[MST_NODE_TEXT];
    MUSTER_TRY(port_name(graph, where, &graph->outputs, &graph->output_names, name));
    MUSTER_TRY(mst_expr_check(graph, value, where, "value"));
    if (mst_node_is_error(value)) return graph->status;
    if (value->type.dtype == MUSTER_DTYPE_NONE)
        return mst_error(MUSTER_DTYPE_MISMATCH,
                         "%s: output \"%.60s\": value: expected one with a dtype, received a plain number (muster_expr_cast "
                         "gives it one)",
                         where, name);
    if (mode != MUSTER_AUTO && mode != MUSTER_GATHER && mode != MUSTER_MASTER && (mode < MUSTER_SUM || mode > MUSTER_AVG))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: output \"%.60s\": mode: expected MUSTER_AUTO or a muster_collect_mode, received %d",
                         where, name, (int)mode);
    if (mode == MUSTER_GATHER && (value->type.ndim == 0 || !mst_dim_is_rows(graph, value->type.dims[0])))
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: output \"%.60s\": mode: expected a value whose axis 0 has MUSTER_ROWS for MUSTER_GATHER, received %s", where,
                         name, mst_node_text(value, NULL, text));
    if (mode >= MUSTER_SUM && mode <= MUSTER_AVG) return mst_reduction_check_as("mode", mode, value->type.dtype, where);
    return MUSTER_OK;
}

muster_status muster_graph_output(muster_graph *handle, const char *name, muster_expr *value, muster_collect_mode mode) {
    static const char where[] = "muster_graph_output";
    MUSTER_TRY(mst_graph_check(handle, where));
    mst_graph *graph = handle->graph;
    value = mst_number_where_in(value, MUSTER_DTYPE_NONE);
    muster_status status = output_check(graph, where, name, value, mode);
    if (status == MUSTER_OK)
        status = port_add(graph, where, &graph->outputs, &(mst_graph_port){.name = name, .node = value, .written = value, .mode = mode});
    if (status == MUSTER_OK) {
        const char *copy = graph->outputs.items[graph->outputs.count - 1].name;
        status = mst_names_add(&graph->output_names, copy, (int32_t)strlen(copy), value);
    }
    return status == MUSTER_OK ? MUSTER_OK : mst_graph_keep(graph, status);
}

static muster_status update_check(mst_graph *graph, const char *where, muster_variable *variable, muster_expr *value,
                                  muster_collect_mode mode) {
    char text[MST_NODE_TEXT];
    MUSTER_TRY(variable_check(graph, where, variable));
    MUSTER_TRY(mst_expr_check(graph, value, where, "value"));
    if (mst_node_is_error(value)) return graph->status;
    const char *name = muster_variable_name(variable);
    for (int32_t i = 0; i < graph->updates.count; i++)
        if (graph->updates.items[i].variable == variable)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: variable: expected one that graph \"%s\" does not update yet, received \"%.60s\"", where, graph->name,
                             name);
    if (value->type.dtype != muster_variable_dtype(variable))
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: value: new value of \"%.60s\": expected %s, received %s" MST_DTYPE_HINT, where, name,
                         muster_dtype_name(muster_variable_dtype(variable)), mst_node_text(value, NULL, text));
    if (mode != MUSTER_AUTO && mode != MUSTER_MASTER && (mode < MUSTER_SUM || mode > MUSTER_AVG))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: update of \"%.60s\": mode: expected MUSTER_AUTO, a muster_reduction or MUSTER_MASTER, received %d", where,
                         name, (int)mode);
    if (mode >= MUSTER_SUM && mode <= MUSTER_AVG) return mst_reduction_check_as("mode", mode, value->type.dtype, where);
    return MUSTER_OK;
}

static muster_status update_shape(mst_graph *graph, const char *where, muster_variable *variable, muster_expr *value) {
    int64_t shape[MUSTER_MAX_DIMS];
    const int32_t ndim = muster_variable_ndim(variable);
    MUSTER_TRY(muster_variable_whole_shape(variable, ndim, shape));
    bool same = value->type.ndim == ndim;
    for (int32_t d = 0; same && d < ndim; d++) {
        const int64_t size = mst_dim_constant(graph, value->type.dims[d]);
        same = size < 0 ? d == 0 : size == shape[d]; /* rows: each call checks them */
    }
    if (same) return MUSTER_OK;
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    mst_type type = {.dtype = value->type.dtype, .ndim = ndim};
    for (int32_t d = 0; d < ndim; d++)
        if ((type.dims[d] = mst_dim_number(graph, shape[d])) == MST_DIM_NONE) return graph->status;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: value: new value of \"%.60s\": expected shape %s, received %s", where,
                     muster_variable_name(variable), mst_type_text(graph, &type, expected), mst_node_text(value, NULL, received));
}

muster_status muster_graph_update(muster_graph *handle, muster_variable *variable, muster_expr *value, muster_collect_mode mode) {
    static const char where[] = "muster_graph_update";
    MUSTER_TRY(mst_graph_check(handle, where));
    mst_graph *graph = handle->graph;
    if (variable) value = mst_number_where_in(value, muster_variable_dtype(variable));
    muster_status status = update_check(graph, where, variable, value, mode);
    if (status == MUSTER_OK) status = update_shape(graph, where, variable, value);
    if (status == MUSTER_OK)
        status = port_add(
            graph, where, &graph->updates,
            &(mst_graph_port){.name = muster_variable_name(variable), .node = value, .written = value, .variable = variable, .mode = mode});
    return status == MUSTER_OK ? MUSTER_OK : mst_graph_keep(graph, status);
}
