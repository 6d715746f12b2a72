/* Graphs for tests: short names for operations, and functions of f64 inputs on one host device. */
#ifndef GRAPH_FIXTURE_H
#define GRAPH_FIXTURE_H

#include "base_check.h"
#include "muster/graph.h"
#include "muster/rule.h"

muster_runtime *graph_runtime(const char *devices);
/* For cmocka_run_group_tests: *state is a runtime of one CPU device. */
int graph_open(void **state);
int graph_close(void **state);
/* Applies an operation; fails the test if that fails. */
muster_expr *apply(muster_graph *graph, const char *operation, muster_expr *const *inputs, int32_t count,
                   const muster_attribute *attributes);
/* The dump of a compiled function, which the caller frees. */
char *graph_dump_text(muster_function *function);
/* Numbers that need rounding, from number `first` of them on. dtype: f32 or f64. */
void graph_fill(muster_dtype dtype, void *memory, int64_t count, int64_t first);
/* Copies the states of a compiled function to `memory`, one behind the other; their bytes. */
int64_t graph_states_get(muster_function *function, char *memory);
#define APPLY(graph, operation, ...)                             \
    apply(graph, operation, (muster_expr *const[]){__VA_ARGS__}, \
          (int32_t)(sizeof((muster_expr *const[]){__VA_ARGS__}) / sizeof(muster_expr *)), NULL)
#define ATTRIBUTES(...) ((const muster_attribute[]){__VA_ARGS__, {.name = NULL}})
#define LIST(...) .integers = (const int64_t[]){__VA_ARGS__}, .count = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
/* Entries of ATTRIBUTES, and of tables of attributes, by the kind of their value. */
#define NUMBER(attribute, value) \
    { .name = (attribute), .number = (value) }
#define INTEGER(attribute, value) \
    { .name = (attribute), .integer = (value) }
#define ENTRIES(attribute, ...) \
    { .name = (attribute), LIST(__VA_ARGS__) }
#define WORDS(attribute, value) \
    { .name = (attribute), .text = (value) }

#endif
