#include "graph_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* A file of its own: suites run beside each other. */
char *graph_dump_text(muster_function *function) {
    enum { MOST = 1 << 20 };
    char path[] = "/tmp/muster-dump-XXXXXX", *text = calloc(1, MOST);
    const int file = mkstemp(path);
    assert_true(text && file >= 0 && close(file) == 0);
    assert_ok(muster_graph_dump_function(function, path, MUSTER_DUMP_TEXT));
    FILE *dump = fopen(path, "r");
    assert_non_null(dump);
    const size_t length = fread(text, 1, MOST - 1, dump);
    assert_true(length > 0 && length < MOST - 1 && fclose(dump) == 0 && unlink(path) == 0);
    return text;
}

void graph_fill(muster_dtype dtype, void *memory, int64_t count, int64_t first) {
    for (int64_t i = 0; i < count; i++) {
        const double number = sin((double)((first + i) * 37 % 1001)) / 3;
        if (dtype == MUSTER_F64)
            ((double *)memory)[i] = number;
        else
            ((float *)memory)[i] = (float)number;
    }
}

int64_t graph_states_get(muster_function *function, char *memory) {
    int32_t states;
    int64_t at = 0;
    assert_ok(muster_function_state_count(function, &states));
    for (int32_t s = 0; s < states; s++) {
        muster_state_description state;
        muster_state_description_init(&state);
        assert_ok(muster_function_state_describe(function, s, &state));
        const muster_tensor value = muster_tensor_make(state.dtype, memory + at, state.ndim, state.shape);
        assert_ok(muster_function_state_get(function, state.variable, state.name, value));
        at += muster_tensor_bytes(value);
    }
    return at;
}
