/* Computing with sizes of axes, some of which only a call knows. */
#include "graph_private.h"

typedef mst_dim (*size_operation)(mst_graph *graph, mst_dim a, mst_dim b);

static muster_status size_read(mst_graph *graph, const char *where, const char *what, int64_t entry, mst_dim *dim) {
    *dim = mst_dim_read(graph, entry);
    if (*dim != MST_DIM_NONE) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a size of graph \"%s\", received %lld", where, what, graph->name,
                     (long long)entry);
}

static int64_t size_compute(muster_graph *handle, const char *where, size_operation operation, const char *expected, int64_t a, int64_t b) {
    mst_dim x, y, made = MST_DIM_NONE;
    if (mst_graph_check(handle, where) != MUSTER_OK) return MUSTER_INFER;
    mst_graph *graph = handle->graph;
    graph->latest = MUSTER_OK;
    muster_status status = size_read(graph, where, "a", a, &x);
    if (status == MUSTER_OK) status = size_read(graph, where, "b", b, &y);
    if (status == MUSTER_OK) {
        made = operation(graph, x, y);
        if (made != MST_DIM_NONE) return mst_dim_entry(graph, made);
        if (graph->latest != MUSTER_OK) return MUSTER_INFER; /* the operation has kept its message */
        char first[64], second[64];
        (void)mst_dim_print(graph, x, first, sizeof first);
        (void)mst_dim_print(graph, y, second, sizeof second);
        status = mst_error(MUSTER_SHAPE_MISMATCH, "%s: a: expected %s %s, received %s", where, expected, second, first);
    }
    (void)mst_graph_keep(graph, status);
    return MUSTER_INFER;
}

int64_t muster_graph_size_product(muster_graph *graph, int64_t a, int64_t b) {
    return size_compute(graph, "muster_graph_size_product", mst_dim_multiply, "", a, b);
}

int64_t muster_graph_size_quotient(muster_graph *graph, int64_t a, int64_t b) {
    return size_compute(graph, "muster_graph_size_quotient", mst_dim_divide, "a multiple of", a, b);
}

int64_t muster_graph_size_sum(muster_graph *graph, int64_t a, int64_t b) {
    return size_compute(graph, "muster_graph_size_sum", mst_dim_add, "a size that can be added to", a, b);
}
