/* Graphs: creating, destroying, their status, their named sizes. */
#include "graph_private.h"
#include "options_impl.h"
#include "runtime_impl.h"

#include <stdio.h>
#include <string.h>

void muster_graph_options_init_sized(muster_graph_options *options, size_t size) { mst_options_init(options, size); }

/* ---- creating and destroying ---- */

void mst_graph_release(mst_graph *graph) {
    if (!graph || atomic_fetch_sub(&graph->references, 1) != 1) return;
    mst_custom_let_go(graph);
    mst_update_rules_end(graph);
    mst_pool_life_drop(graph->life);
    mst_arena_free(&graph->arena);
    mst_free(graph->nodes);
    mst_free(graph->table);
    mst_free(graph->dims);
    mst_free(graph->dim_table);
    mst_free(graph->inputs.items);
    mst_free(graph->variables.items);
    mst_free(graph->outputs.items);
    mst_free(graph->updates.items);
    mst_free(graph->scalars.items);
    mst_names_free(&graph->names);
    mst_names_free(&graph->output_names);
    mst_free(graph);
}

/* The number 1, the size "rows" and the node that stands for errors. */
static muster_status graph_begin(mst_graph *graph, const char *name) {
    static const mst_operator error = {.name = "error", .id = -1};
    graph->name = mst_arena_text(&graph->arena, name);
    if (!graph->name) return mst_out_of_memory("muster_graph_create", (int64_t)strlen(name));
    graph->size_names[MST_SIZE_ROWS] = "rows";
    graph->size_count = 1;
    if (mst_dim_number(graph, 1) != MST_DIM_ONE || mst_dim_size(graph, MST_SIZE_ROWS) == MST_DIM_NONE) return graph->status;
    graph->error = mst_node_add(graph, &error, &(mst_type){.dtype = MUSTER_DTYPE_NONE}, NULL);
    return graph->error ? MUSTER_OK : graph->status;
}

muster_status muster_graph_create(muster_runtime *runtime, const char *name, muster_graph **handle) {
    static const char where[] = "muster_graph_create";
    if (!handle) return mst_error_null(where, "graph", "the address of a pointer");
    *handle = NULL;
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, where));
    if (!name || !*name) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name, received %s", where, name ? "\"\"" : "NULL");
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    muster_graph *made = mst_alloc(sizeof *made);
    mst_graph *graph = mst_alloc(sizeof *graph);
    muster_status status = made && graph ? MUSTER_OK : mst_out_of_memory(where, (int64_t)sizeof *graph);
    if (status == MUSTER_OK) {
        atomic_init(&graph->references, 1);
        graph->runtime = runtime;
        graph->life = mst_pool_life_hold(runtime->pool);
        status = graph_begin(graph, name);
    }
    if (status == MUSTER_OK) {
        made->graph = graph;
        graph->handle = made;
        *handle = made;
        return MUSTER_OK;
    }
    if (graph && atomic_load(&graph->references)) {
        mst_graph_release(graph);
        graph = NULL;
    }
    mst_free(graph);
    mst_free(made);
    return status;
}

muster_status muster_graph_destroy(muster_graph *handle) {
    if (!handle) return MUSTER_OK;
    if (!handle->graph) return mst_graph_destroyed("muster_graph_destroy");
    handle->graph->handle = NULL;
    mst_graph_release(handle->graph);
    handle->graph = NULL;
    mst_retire(handle);
    return MUSTER_OK;
}

muster_status muster_graph_status(muster_graph *handle) {
    static const char where[] = "muster_graph_status";
    if (!handle) return mst_error_null(where, "graph", "a graph");
    if (!handle->graph) return mst_graph_destroyed(where);
    return handle->graph->status == MUSTER_OK ? MUSTER_OK : mst_error_restore(handle->graph->status, handle->graph->message);
}

int64_t muster_graph_size(muster_graph *handle, const char *name) {
    static const char where[] = "muster_graph_size";
    if (mst_graph_check(handle, where) != MUSTER_OK) return MUSTER_INFER;
    mst_graph *graph = handle->graph;
    muster_status status = MUSTER_OK;
    if (!name || !*name || strcmp(name, "rows") == 0)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name other than \"rows\", received %s%s%s", where,
                           name ? "\"" : "", name ? name : "NULL", name ? "\"" : "");
    else
        status = mst_check_utf8(name, where, "name");
    for (int32_t s = 1; status == MUSTER_OK && s < graph->size_count; s++)
        if (strcmp(graph->size_names[s], name) == 0) return MUSTER_ROWS - s;
    if (status == MUSTER_OK && graph->size_count == MST_SIZES)
        status = mst_error(MUSTER_UNSUPPORTED, "%s: name: expected at most %d sizes in graph \"%s\", received \"%.60s\" after them", where,
                           MST_SIZES - 1, graph->name, name);
    const char *copy = status == MUSTER_OK ? mst_arena_text(&graph->arena, name) : NULL;
    if (status == MUSTER_OK && !copy) status = mst_out_of_memory(where, (int64_t)strlen(name));
    if (status != MUSTER_OK) {
        (void)mst_graph_keep(graph, status);
        return MUSTER_INFER;
    }
    graph->size_names[graph->size_count] = copy;
    return MUSTER_ROWS - graph->size_count++;
}
