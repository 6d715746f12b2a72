#include "graph_fixture.h"

muster_runtime *graph_runtime(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

int graph_open(void **state) {
    *state = graph_runtime("host:1");
    return 0;
}

int graph_close(void **state) { return muster_runtime_close(*state) != MUSTER_OK; }

muster_expr *apply(muster_graph *graph, const char *operation, muster_expr *const *inputs, int32_t count,
                   const muster_attribute *attributes) {
    muster_expr *result;
    if (muster_expr_apply(graph, operation, inputs, count, attributes, "test.c:1", &result) != MUSTER_OK)
        fail_msg("%s", muster_last_error());
    return result;
}
